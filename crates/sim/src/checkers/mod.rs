//! Watches the invariants of `sched::policy` while a run goes on; one check per invariant.
//!
//! | invariant | check |
//! |---|---|
//! | no task is lost or run twice | every task submitted is taken once; none is left at the end of a run that ran out |
//! | hard tasks keep to their node or package, private ones to their slot | where a task is queued and who takes it |
//! | the most urgent goes first | nothing more urgent is left in the queue that a task was taken from |
//! | never more at work than cpus | workers at work per group against its slots |
//! | whatever is queued is reachable | somebody who may take it is awake |
//!
//! Who may take a task is told from the layout's places, not from its search order: the slow twin of [`Layout`]'s reach
//! is [`may_run`], which asks nodes and packages again. A test breaks each decision on purpose and expects the check to
//! fail.
//!
//! # Limits
//! Priorities are compared within the queue kind that a task was taken from: between groups there is no order to keep.

use std::collections::BTreeMap;
use std::fmt;

use numa::{NodeId, PackageId};
use sched::policy::{Layout, Load, QueueKind, QueueTarget};
use sched::{Affinities, Affinity, Place, Priority, Settings, SlotId};

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was seen.
    pub seen: String,
}

/// The invariants, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// Every task runs once.
    RunsOnce,
    /// Hard tasks stay where they belong.
    StaysInPlace,
    /// The most urgent goes first.
    UrgentFirst,
    /// No more at work than there are cpus.
    NoMoreThanCpus,
    /// Whatever is queued is seen to.
    SeenTo,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.invariant {
            Invariant::RunsOnce => "a task is lost or doubled",
            Invariant::StaysInPlace => "a task leaves the place it is bound to",
            Invariant::UrgentFirst => "a less urgent task goes first",
            Invariant::NoMoreThanCpus => "more are at work than there are cpus",
            Invariant::SeenTo => "a task is queued and all that may take it sleep",
        };
        write!(f, "{what}: {}", self.seen)
    }
}

impl std::error::Error for Violation {}

/// Where a task may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounds {
    Slot(SlotId),
    Node(NodeId),
    Package(PackageId),
    Everywhere,
}

/// What is known of tasks that are queued.
#[derive(Debug, Default)]
pub struct Checkers {
    queued: BTreeMap<u64, (Priority, Bounds)>,
    checks: u64,
}

impl Checkers {
    /// How many checks were made.
    pub fn checks(&self) -> u64 {
        self.checks
    }

    /// A task was given a place in a queue.
    pub(crate) fn submitted(
        &mut self,
        layout: &Layout,
        number: u64,
        priority: Priority,
        (affinity, settings): (Affinity, Settings),
        target: QueueTarget,
    ) -> Result<(), Violation> {
        let bounds = bounds(layout, affinity, settings);
        self.checks += 1;
        let fits = match (bounds, target) {
            (Bounds::Slot(slot), target) => target == QueueTarget::Slot(slot),
            (bounds, QueueTarget::Group(group, _)) => in_bounds(layout, bounds, layout.group(group).slots[0]),
            (bounds, QueueTarget::Slot(slot)) => in_bounds(layout, bounds, slot),
        };
        if !fits {
            return broken(Invariant::StaysInPlace, format!("task {number}, {bounds:?}, is queued at {target:?}"));
        }
        match self.queued.insert(number, (priority, bounds)) {
            None => Ok(()),
            Some(_) => broken(Invariant::RunsOnce, format!("task {number} is submitted twice")),
        }
    }

    /// A worker took a task from a queue.
    ///
    /// `left` are the numbers of the tasks that are left in the queue it was taken from.
    pub(crate) fn taken(
        &mut self,
        layout: &Layout,
        slot: SlotId,
        target: QueueTarget,
        (number, priority): (u64, Priority),
        left: impl Iterator<Item = u64>,
    ) -> Result<(), Violation> {
        self.checks += 3;
        let Some((submitted, bounds)) = self.queued.remove(&number) else {
            return broken(Invariant::RunsOnce, format!("task {number} is taken by slot {slot}, but it is not queued"));
        };
        if submitted != priority {
            return broken(Invariant::UrgentFirst, format!("task {number} has changed its priority"));
        }
        if !in_bounds(layout, bounds, slot) || !may_run(layout, slot, target) {
            return broken(
                Invariant::StaysInPlace,
                format!("task {number}, {bounds:?}, is taken from {target:?} by slot {slot}"),
            );
        }
        let first = left.filter_map(|number| self.queued.get(&number)).map(|(priority, _)| *priority).min();
        match first.filter(|first| *first < priority) {
            Some(first) => broken(
                Invariant::UrgentFirst,
                format!("slot {slot} takes {priority:?} from {target:?} and leaves {first:?}"),
            ),
            None => Ok(()),
        }
    }

    /// `n` of a group are at work.
    pub(crate) fn working(&mut self, group: usize, load: Load) -> Result<(), Violation> {
        self.checks += 1;
        if load.working <= load.slots {
            return Ok(());
        }
        broken(Invariant::NoMoreThanCpus, format!("group {group} has {load:?}"))
    }

    /// Something is queued in a group; whether anybody who may take it is awake.
    pub(crate) fn seen_to(&mut self, group: usize, awake: bool) -> Result<(), Violation> {
        self.checks += 1;
        if awake { Ok(()) } else { broken(Invariant::SeenTo, format!("in group {group}")) }
    }

    /// Nothing is queued any more.
    pub(crate) fn ran_out(&mut self) -> Result<(), Violation> {
        self.checks += 1;
        match self.queued.first_key_value() {
            None => Ok(()),
            Some((number, _)) => broken(Invariant::RunsOnce, format!("task {number} was never run")),
        }
    }

    /// A statement waits for tasks although nothing is queued or running.
    pub(crate) fn stalled(&mut self, statements: usize) -> Result<(), Violation> {
        self.checks += 1;
        broken(Invariant::RunsOnce, format!("{statements} statements wait for tasks that are nowhere"))
    }
}

fn broken(invariant: Invariant, seen: String) -> Result<(), Violation> {
    Err(Violation { invariant, seen })
}

/// What a task may not leave, told from what it asked for.
fn bounds(layout: &Layout, affinity: Affinity, settings: Settings) -> Bounds {
    match affinity {
        Affinity::Slot(SlotId(slot)) => Bounds::Slot(SlotId(slot % layout.slots().len() as u32)),
        Affinity::Near { place, hard } => {
            let bound = match settings.affinities {
                Affinities::Ignored | Affinities::Soft => false,
                Affinities::Weighed => hard,
                Affinities::Hard => true,
            };
            match place {
                // A place without workers stands for the nearest with some, which is not checked.
                Place::Node(node) if bound && layout.groups().iter().any(|group| group.node == node) => {
                    Bounds::Node(node)
                }
                Place::Package(package)
                    if bound && layout.groups().iter().any(|group| group.package == Some(package)) =>
                {
                    Bounds::Package(package)
                }
                _ => Bounds::Everywhere,
            }
        }
        Affinity::Anywhere => Bounds::Everywhere,
    }
}

fn in_bounds(layout: &Layout, bounds: Bounds, slot: SlotId) -> bool {
    let group = layout.group(layout.slot(slot).group);
    match bounds {
        Bounds::Slot(owner) => owner == slot,
        Bounds::Node(node) => group.node == node,
        Bounds::Package(package) => group.package == Some(package),
        Bounds::Everywhere => true,
    }
}

/// Whether a queue's kind lets a slot take from it, by nodes and packages; neighbours without a package of their own
/// are left to the layout.
fn may_run(layout: &Layout, slot: SlotId, target: QueueTarget) -> bool {
    let here = layout.group(layout.slot(slot).group);
    let QueueTarget::Group(group, kind) = target else { return target == QueueTarget::Slot(slot) };
    let there = layout.group(group);
    match kind {
        QueueKind::Stealable => true,
        QueueKind::Neighbour => layout.may_take(slot, target),
        QueueKind::PackageHard => here.node == there.node || here.package == there.package,
        QueueKind::NodeHard => here.node == there.node,
    }
}
