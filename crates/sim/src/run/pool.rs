//! Slots, queues, stealing and waking in virtual time: what `sched/src/runtime` does with threads, with the same
//! decisions.
//!
//! Every decision is a call into `sched::policy`: where a task goes ([`route`]), which goes next ([`GroupQueues`]), in
//! what order a worker looks ([`Layout::search`]), how much it steals ([`bulk`]), whom a task wakes ([`Layout::wake`]),
//! whether one more may work ([`may_work`]), whether it is pinned ([`binds`]), what the watchdog does
//! ([`watchdog::decide`]). The actions around them follow `sched/src/runtime/{mod,worker}.rs`.
//!
//! Invariants: those of `sched::policy`; [`crate::checkers`] watches them.
//!
//! # Limits
//! No worker blocks or comes back, no statement is cancelled.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1.

use std::collections::BTreeSet;

use sched::policy::watchdog::{self, Action, Sample};
use sched::policy::{
    GroupId, GroupQueues, Layout, Load, Nearness, QueueKind, QueueTarget, Request, Wake, binds, bulk, may_work, route,
};
use sched::{Affinities, Affinity, Hint, Priority, Settings, SlotId};

#[cfg(test)]
use crate::canary::Canary;
use crate::checkers::{Checkers, Violation};

/// A task that is queued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PoolEntry {
    /// Its statement's place, and its own within it.
    pub(super) statement: u32,
    pub(super) task: u32,
    pub(super) running: Nearness,
    pub(super) priority: Priority,
    /// Its number since the start of the run.
    pub(super) number: u64,
    /// Where it was queued first.
    pub(super) routed: QueueTarget,
}

/// What a slot's worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worker {
    Asleep,
    /// It was woken and is on its way.
    Waking,
    /// It looks for a task or runs one.
    AtWork,
}

/// An entry and where it was taken from.
pub(super) struct Found {
    pub(super) entry: PoolEntry,
    pub(super) target: QueueTarget,
}

/// The pool.
pub(super) struct Pool<'a> {
    pub(super) layout: &'a Layout,
    settings: Settings,
    queues: Vec<GroupQueues<PoolEntry>>,
    /// Entries per group in its queues, private ones included.
    queued: Vec<usize>,
    /// Entries per group in its shared queues.
    shared: Vec<[usize; QueueKind::COUNT]>,
    total: usize,
    workers: Vec<Worker>,
    asleep: Vec<BTreeSet<u32>>,
    asleep_total: usize,
    working: Vec<usize>,
    numbers: u64,
    more: Vec<(Priority, PoolEntry)>,
    pub(super) checkers: Option<Checkers>,
    #[cfg(test)]
    pub(super) canary: Option<Canary>,
}

impl<'a> Pool<'a> {
    /// A pool of the slots that `works` names: the others' queues are there, but nobody ever wakes up for them.
    pub(super) fn new(
        layout: &'a Layout,
        settings: Settings,
        checked: bool,
        works: impl Fn(SlotId) -> bool,
    ) -> Pool<'a> {
        let groups = layout.groups();
        let mut asleep = vec![BTreeSet::new(); groups.len()];
        for (slot, place) in layout.slots().iter().enumerate().filter(|(slot, _)| works(SlotId(*slot as u32))) {
            asleep[place.group.0 as usize].insert(slot as u32);
        }
        Pool {
            settings,
            queues: groups.iter().map(|group| GroupQueues::new(group.slots.len())).collect(),
            queued: vec![0; groups.len()],
            shared: vec![[0; QueueKind::COUNT]; groups.len()],
            total: 0,
            workers: vec![Worker::Asleep; layout.slots().len()],
            asleep_total: asleep.iter().map(BTreeSet::len).sum(),
            asleep,
            working: vec![0; groups.len()],
            numbers: 0,
            more: Vec::new(),
            checkers: checked.then(Checkers::default),
            #[cfg(test)]
            canary: None,
            layout,
        }
    }

    /// Queues a task for a worker or client (`None`), and wakes whom the policy names: those are told to `woken`.
    pub(super) fn submit(
        &mut self,
        (statement, task): (u32, u32),
        (affinity, hint): (Affinity, Hint),
        (priority, parent): (Priority, Nearness),
        caller: Option<SlotId>,
        woken: &mut dyn FnMut(SlotId),
    ) -> Result<(), Violation> {
        let target = self.route(affinity, hint, caller);
        let near = affinity != Affinity::Anywhere && self.settings.affinities != Affinities::Ignored;
        let running = Nearness { near, child_of_near: parent.near };
        self.numbers += 1;
        let entry = PoolEntry { statement, task, running, priority, number: self.numbers, routed: target };
        if let Some(checkers) = &mut self.checkers {
            checkers.submitted(self.layout, entry.number, priority, (affinity, self.settings), target)?;
        }
        #[cfg(test)]
        if self.canary == Some(Canary::LosesTasks) && entry.number.is_multiple_of(7) {
            return Ok(());
        }
        self.push(target, entry);
        #[cfg(test)]
        if self.canary == Some(Canary::DoublesTasks) && entry.number.is_multiple_of(7) {
            self.push(target, entry);
        }
        #[cfg(test)]
        if self.canary == Some(Canary::LetsThemSleep) && entry.number.is_multiple_of(7) {
            return Ok(());
        }
        self.wake_for(target, woken);
        Ok(())
    }

    fn route(&mut self, affinity: Affinity, hint: Hint, caller: Option<SlotId>) -> QueueTarget {
        let loads = |group: GroupId| self.queued[group.0 as usize] + self.working[group.0 as usize];
        let settings = self.settings;
        let request = Request { affinity, hint, caller, settings, loads: &loads };
        let target = route(self.layout, &request);
        #[cfg(test)]
        if self.canary == Some(Canary::RoutesAstray) {
            let next = (self.layout.group_of(target).0 + 1) % self.layout.groups().len() as u32;
            return match target {
                QueueTarget::Slot(_) => target,
                QueueTarget::Group(_, kind) => QueueTarget::Group(GroupId(next), kind),
            };
        }
        target
    }

    fn push(&mut self, target: QueueTarget, entry: PoolEntry) {
        let group = self.layout.group_of(target).0 as usize;
        let urgency = entry.priority;
        #[cfg(test)]
        let urgency = match self.canary {
            Some(Canary::TurnsPrioritiesRound) => {
                Priority { statement_time: u64::MAX - urgency.statement_time, ..urgency }
            }
            _ => urgency,
        };
        match target {
            QueueTarget::Group(_, kind) => {
                self.queues[group].push_shared(kind, urgency, entry);
                self.shared[group][kind.index()] += 1;
            }
            QueueTarget::Slot(slot) => {
                self.queues[group].push_private(self.layout.slot(slot).place, urgency, entry);
            }
        }
        self.queued[group] += 1;
        self.total += 1;
    }

    /// Wakes someone who can take what is queued at `target`. Whether a further one may be woken.
    fn wake_for(&mut self, target: QueueTarget, woken: &mut dyn FnMut(SlotId)) -> bool {
        if self.asleep_total == 0 {
            return false;
        }
        let layout = self.layout;
        let wake = layout.wake(target, |group| self.wake_in(group, woken));
        if let Some(Wake::Slot(slot)) = wake {
            self.rouse(slot, woken);
        }
        wake.is_some()
    }

    /// Has one more worker of a group work, if it has one that rests and may.
    fn wake_in(&mut self, group: GroupId, woken: &mut dyn FnMut(SlotId)) -> bool {
        if !may_work(self.load(group)) {
            return false;
        }
        let Some(slot) = self.asleep[group.0 as usize].first().copied() else { return false };
        self.rouse(SlotId(slot), woken);
        true
    }

    fn rouse(&mut self, slot: SlotId, woken: &mut dyn FnMut(SlotId)) {
        let group = self.layout.slot(slot).group.0 as usize;
        if self.asleep[group].remove(&slot.0) {
            self.asleep_total -= 1;
            self.workers[slot.0 as usize] = Worker::Waking;
            self.working[group] += 1;
            #[cfg(test)]
            if self.canary == Some(Canary::Oversubscribes) {
                self.working[group] += 1;
            }
            woken(slot);
        }
    }

    fn load(&self, group: GroupId) -> Load {
        let slots = self.layout.group(group).slots.len();
        Load { slots, working: self.working[group.0 as usize] }
    }

    /// The next entry for the worker of `slot`: its own group's, then others' in the policy's order. Where there is
    /// none the worker goes to sleep; else whoever is left over wakes another.
    pub(super) fn take(&mut self, slot: SlotId, woken: &mut dyn FnMut(SlotId)) -> Result<Option<Found>, Violation> {
        self.workers[slot.0 as usize] = Worker::AtWork;
        let found = if self.total == 0 { None } else { self.find(slot)? };
        let Some(found) = found else {
            let group = self.layout.slot(slot).group.0 as usize;
            self.workers[slot.0 as usize] = Worker::Asleep;
            self.working[group] -= 1;
            self.asleep[group].insert(slot.0);
            self.asleep_total += 1;
            return Ok(None);
        };
        self.pass_on(self.layout.slot(slot).group, woken);
        Ok(Some(found))
    }

    fn find(&mut self, slot: SlotId) -> Result<Option<Found>, Violation> {
        let layout = self.layout;
        let own = layout.slot(slot);
        for step in layout.search(own.group) {
            let group = step.group.0 as usize;
            if self.queued[group] == 0 {
                continue;
            }
            let (taken, target) = if step.group == own.group {
                let Some(taken) = self.queues[group].take_own(own.place, None) else { continue };
                let target = taken.kind.map_or(QueueTarget::Slot(slot), |kind| QueueTarget::Group(step.group, kind));
                (taken, target)
            } else {
                let mut more = std::mem::take(&mut self.more);
                let reach = self.reach(step.reach);
                let amount = |kind, queued, _: &PoolEntry| {
                    bulk(layout, self.settings.steal, kind, own.group, step.group, queued)
                };
                let taken = self.queues[group].take_bulk(reach, None, amount, &mut more);
                self.move_stolen(taken.as_ref().and_then(|taken| taken.kind), own.group, group, &mut more);
                self.more = more;
                let Some(taken) = taken else { continue };
                let kind = taken.kind.unwrap_or(QueueKind::Stealable);
                (taken, QueueTarget::Group(step.group, kind))
            };
            if let QueueTarget::Group(_, kind) = target {
                self.shared[group][kind.index()] -= 1;
            }
            self.queued[group] -= 1;
            self.total -= 1;
            if let Some(checkers) = &mut self.checkers {
                let queue = match target {
                    QueueTarget::Group(_, kind) => Ok(kind),
                    QueueTarget::Slot(slot) => Err(layout.slot(slot).place),
                };
                let left = self.queues[group].iter().filter(|(of, ..)| *of == queue).map(|(.., entry)| entry.number);
                checkers.taken(layout, slot, target, (taken.item.number, taken.item.priority), left)?;
            }
            return Ok(Some(Found { entry: taken.item, target }));
        }
        Ok(None)
    }

    #[cfg(not(test))]
    fn reach(&self, reach: sched::policy::Reach) -> sched::policy::Reach {
        reach
    }

    #[cfg(test)]
    fn reach(&self, reach: sched::policy::Reach) -> sched::policy::Reach {
        if self.canary == Some(Canary::StealsHardTasks) { sched::policy::Reach::ALL } else { reach }
    }

    /// What a thief took beyond the first goes into the queue of that kind of its own group.
    fn move_stolen(
        &mut self,
        kind: Option<QueueKind>,
        thief: GroupId,
        victim: usize,
        more: &mut Vec<(Priority, PoolEntry)>,
    ) {
        let Some(kind) = kind else { return };
        let thief = thief.0 as usize;
        let moved = more.len();
        for (priority, entry) in more.drain(..) {
            self.queues[thief].push_shared(kind, priority, entry);
        }
        for (group, less, add) in [(victim, moved, 0), (thief, 0, moved)] {
            self.shared[group][kind.index()] = self.shared[group][kind.index()] - less + add;
            self.queued[group] = self.queued[group] - less + add;
        }
    }

    /// More is queued than the worker took: one more may come, who does the same.
    fn pass_on(&mut self, group: GroupId, woken: &mut dyn FnMut(SlotId)) {
        if self.asleep_total == 0 || self.total == 0 {
            return;
        }
        let layout = self.layout;
        for step in layout.search(group) {
            if self.queued[step.group.0 as usize] == 0 {
                continue;
            }
            for kind in QueueKind::ALL {
                if self.shared[step.group.0 as usize][kind.index()] > 0 {
                    self.wake_for(QueueTarget::Group(step.group, kind), woken);
                }
            }
        }
    }

    /// One look of the watchdog.
    pub(super) fn watch(&mut self, woken: &mut dyn FnMut(SlotId)) {
        if self.total == 0 || self.asleep_total == 0 {
            return;
        }
        let sample = |group: usize| Sample {
            load: self.load(GroupId(group as u32)),
            asleep: self.asleep[group].len(),
            lent: 0,
            queued: self.shared[group],
        };
        let samples: Vec<Sample> = (0..self.queues.len()).map(sample).collect();
        for action in watchdog::decide(self.layout, &samples) {
            match action {
                Action::Wake(group) | Action::Staff(group) => {
                    self.wake_in(group, woken);
                }
            }
        }
    }

    /// Whether a worker that runs this is pinned to its node.
    pub(super) fn pins(&self, running: Nearness) -> bool {
        binds(self.settings.binding, running)
    }

    /// Whether a slot's worker runs a task (between events none looks for one).
    pub(super) fn is_running(&self, slot: usize) -> bool {
        self.workers[slot] == Worker::AtWork
    }

    /// How many are queued.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Checks what must hold between two events.
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        let Some(checkers) = &mut self.checkers else { return Ok(()) };
        for group in 0..self.queues.len() {
            let load = Load { slots: self.layout.groups()[group].slots.len(), working: self.working[group] };
            checkers.working(group, load)?;
            for kind in QueueKind::ALL.into_iter().filter(|kind| !self.queues[group].len_shared(*kind).eq(&0)) {
                let takers = self.layout.takers(QueueTarget::Group(GroupId(group as u32), kind));
                let awake = takers.iter().any(|taker| self.working[taker.0 as usize] > 0);
                checkers.seen_to(group, awake)?;
            }
        }
        for (slot, place) in self.layout.slots().iter().enumerate() {
            if self.queues[place.group.0 as usize].len_private(place.place) > 0 {
                checkers.seen_to(place.group.0 as usize, self.workers[slot] != Worker::Asleep)?;
            }
        }
        Ok(())
    }
}
