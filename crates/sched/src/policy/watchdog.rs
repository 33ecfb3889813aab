//! What the watchdog decides from its samples: whom to wake, where a slot lacks a worker, who is stuck.
//!
//! Invariants: nothing is done about a group without tasks; a group is never given more workers than it has slots; a
//! worker is reported once per task.
//!
//! # Limits
//! A task that blocks outside a marked section looks like one that computes: it is only reported.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1, "Watchdog".

use super::{GroupId, Layout, Load, QueueKind, QueueTarget, may_work};

/// One group, as sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Its slots and who is on them.
    pub load: Load,
    /// Workers that hold a slot and sleep for want of a task.
    pub asleep: usize,
    /// Slots whose worker blocks or is gone: whoever wants one may have it.
    pub lent: usize,
    /// Tasks in each of its shared queues.
    pub queued: [usize; QueueKind::COUNT],
}

impl Sample {
    /// Tasks in all its shared queues.
    pub fn queued_shared(&self) -> usize {
        self.queued.iter().sum()
    }

    /// Whether every cpu of the group is used.
    pub fn is_saturated(&self) -> bool {
        !may_work(self.load)
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wake a sleeping worker of this group.
    Wake(GroupId),
    /// Give a lent slot of this group a worker: an unparked or a new one.
    Staff(GroupId),
}

/// What to do about the groups, from one sample of each.
pub fn decide(layout: &Layout, samples: &[Sample]) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut left: Vec<Sample> = samples.to_vec();
    for (index, sample) in samples.iter().enumerate() {
        let group = GroupId(index as u32);
        let mut wanted = sample.queued_shared();
        // Its own workers first, up to its cpus.
        while wanted > 0 && raise(&mut left, group, &mut actions) {
            wanted -= 1;
        }
        // Then those elsewhere that may take what is left.
        for kind in QueueKind::ALL {
            let mut of_kind = sample.queued[kind.index()].min(wanted);
            for taker in layout.takers(QueueTarget::Group(group, kind)).iter().skip(1) {
                while of_kind > 0 && raise(&mut left, *taker, &mut actions) {
                    (of_kind, wanted) = (of_kind - 1, wanted - 1);
                }
            }
        }
    }
    actions
}

/// Has one more worker of a group work, if it has one and may.
fn raise(samples: &mut [Sample], group: GroupId, actions: &mut Vec<Action>) -> bool {
    let sample = &mut samples[group.index()];
    if sample.is_saturated() || sample.asleep + sample.lent == 0 {
        return false;
    }
    sample.load.working += 1;
    if sample.asleep > 0 {
        sample.asleep -= 1;
        actions.push(Action::Wake(group));
    } else {
        sample.lent -= 1;
        actions.push(Action::Staff(group));
    }
    true
}

/// What is known of a worker from one look to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    step: u64,
    since_ns: u64,
    reported: bool,
}

impl Progress {
    /// Notes that a worker is at its `step`-th task or call, or at none. Returns for how many nanoseconds it has been
    /// there, the first time that this is longer than `stuck_ns`.
    pub fn look(&mut self, working: bool, step: u64, now_ns: u64, stuck_ns: u64) -> Option<u64> {
        if !working || step != self.step || self.since_ns == 0 {
            *self = Progress { step, since_ns: if working { now_ns.max(1) } else { 0 }, reported: false };
            return None;
        }
        let there_ns = now_ns.saturating_sub(self.since_ns);
        (there_ns >= stuck_ns && !std::mem::replace(&mut self.reported, true)).then_some(there_ns)
    }
}

#[cfg(test)]
mod tests {
    use numa::Topology;
    use proptest::prelude::*;

    use super::*;
    use crate::policy::Split;

    fn sample(slots: usize, working: usize, asleep: usize, stealable: usize) -> Sample {
        let load = Load { slots, working };
        Sample { load, asleep, lent: 0, queued: [stealable, 0, 0, 0] }
    }

    #[test]
    fn an_unsaturated_group_with_tasks_wakes_its_own_then_others() {
        let layout = Layout::new(&Topology::synthetic(2, 1, 2, 1), None, Split::default());
        let wake = |group| Action::Wake(GroupId(group));
        assert_eq!(decide(&layout, &[sample(2, 1, 1, 5), sample(2, 2, 0, 0)]), [wake(0)]);
        assert_eq!(decide(&layout, &[sample(2, 2, 0, 5), sample(2, 0, 2, 0)]), [wake(1), wake(1)]);
        let hard = Sample { queued: [0, 0, 0, 5], ..sample(2, 2, 0, 0) };
        assert_eq!(decide(&layout, &[hard, sample(2, 0, 2, 0)]), [], "nobody elsewhere may steal these");
        assert_eq!(decide(&layout, &[sample(2, 0, 2, 0), sample(2, 0, 2, 0)]), []);
        let lent = Sample { lent: 1, ..sample(2, 1, 0, 1) };
        assert_eq!(decide(&layout, &[lent, sample(2, 0, 2, 0)]), [Action::Staff(GroupId(0))]);
    }

    #[test]
    fn a_stuck_worker_is_reported_once_per_task() {
        let mut progress = Progress::default();
        assert_eq!(progress.look(true, 1, 10, 100), None);
        assert_eq!(progress.look(true, 1, 50, 100), None);
        assert_eq!(progress.look(true, 1, 120, 100), Some(110));
        assert_eq!(progress.look(true, 1, 900, 100), None, "told already");
        assert_eq!(progress.look(true, 2, 901, 100), None);
        assert_eq!(progress.look(false, 2, 2000, 100), None, "it waits for work, not at work");
        assert_eq!(progress.look(true, 2, 2001, 100), None);
    }

    proptest! {
        #[test]
        fn never_more_than_there_are_cpus(
            groups in proptest::collection::vec((1usize..5, 0usize..5, 0usize..5, 0usize..9, 0usize..9), 4)
        ) {
            let layout = Layout::new(&Topology::synthetic(2, 2, 1, 1), None, Split::default());
            let samples: Vec<Sample> = groups
                .iter()
                .map(|&(slots, working, asleep, stealable, hard)| Sample {
                    load: Load { slots, working: working.min(slots) },
                    asleep: asleep.min(slots - working.min(slots)),
                    lent: 0,
                    queued: [stealable, 0, 0, hard],
                })
                .collect();
            let actions = decide(&layout, &samples);
            for (index, sample) in samples.iter().enumerate() {
                let woken = actions.iter().filter(|action| **action == Action::Wake(GroupId(index as u32))).count();
                prop_assert!(woken <= sample.asleep);
                prop_assert!(woken == 0 || sample.load.working + woken <= sample.load.slots);
            }
            let queued: usize = samples.iter().map(Sample::queued_shared).sum();
            prop_assert!(actions.len() <= queued, "nobody is woken for nothing");
        }
    }
}
