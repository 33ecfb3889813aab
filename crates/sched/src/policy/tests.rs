//! The policy driven by random events, on imaginary machines, in no time at all.
//!
//! [`World`] is the smallest runtime there is: queues, slots that are parked, looking, running or lent, threads that
//! block and come back, and a record of every task. It calls the same functions as the real
//! runtime and checks the invariants after every event.

use numa::{NodeId, PackageId, Topology};
use proptest::prelude::*;

use super::*;
use crate::affinity::{Affinity, Hint, Place, Priority};
use crate::settings::{Affinities, Binding, Settings, StealAmount, Stealing};

/// What can happen.
#[derive(Clone, Debug)]
enum Event {
    /// Somebody submits a task: a worker (if the number is below their count) or another thread.
    Submit { affinity: Affinity, user: u8, time: u64, caller: usize },
    /// The worker of a slot that is not parked gets a little further: it ends its task if it has one, and looks for the
    /// next.
    SearchStep(usize),
    /// The worker of a slot that runs a task blocks.
    Block(usize),
    /// A thread of a group that blocks wants to go on.
    Return(usize),
    /// The tasks of one statement are dropped.
    Cancel(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Parked,
    Looking,
    Running,
    /// Its worker blocks.
    Lent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Queued,
    Taken,
    Dropped,
}

struct Task {
    priority: Priority,
    target: QueueTarget,
    fate: Fate,
}

struct World {
    topology: Topology,
    layout: Layout,
    stealing: Stealing,
    amount: StealAmount,
    queues: Vec<GroupQueues<usize>>,
    slots: Vec<Slot>,
    /// Per group: threads that block, and how many of them want to go on.
    blocked: Vec<usize>,
    returning: Vec<usize>,
    tasks: Vec<Task>,
}

impl World {
    fn new(machine: &Machine) -> World {
        let layout = Layout::new(&machine.topology, machine.threads, machine.split);
        let groups = layout.groups().len();
        World {
            queues: layout.groups().iter().map(|group| GroupQueues::new(group.slots.len())).collect(),
            slots: vec![Slot::Parked; layout.slots().len()],
            blocked: vec![0; groups],
            returning: vec![0; groups],
            tasks: Vec::new(),
            topology: machine.topology.clone(),
            stealing: machine.stealing,
            amount: machine.amount,
            layout,
        }
    }

    fn handle(&mut self, event: &Event) {
        match *event {
            Event::Submit { affinity, user, time, caller } => self.submit(affinity, user, time, caller),
            Event::SearchStep(slot) => self.step(slot % self.slots.len()),
            Event::Block(slot) => self.block(slot % self.slots.len()),
            Event::Return(group) => self.come_back(group % self.queues.len()),
            Event::Cancel(time) => self.cancel(time),
        }
        self.check_nothing_sleeps_through();
        self.check_counts();
    }

    fn submit(&mut self, affinity: Affinity, user: u8, statement_time: u64, caller: usize) {
        let caller = (caller < self.slots.len() && self.slots[caller] != Slot::Lent).then_some(SlotId(caller as u32));
        let loads: Vec<usize> = (0..self.queues.len()).map(|group| self.load(group)).collect();
        let target = self.layout.route(affinity, self.stealing, caller, &|group| loads[group.index()]);
        self.check_route(affinity, caller, &loads, target);
        let priority = Priority { user, statement_time };
        let task = self.tasks.len();
        let queues = &mut self.queues[self.layout.group_of(target).index()];
        match target {
            QueueTarget::Slot(slot) => queues.push_private(self.layout.slot(slot).place, priority, task),
            QueueTarget::Group(_, kind) => queues.push_shared(kind, priority, task),
        }
        self.tasks.push(Task { priority, target, fate: Fate::Queued });
        self.wake(target);
    }

    fn wake(&mut self, target: QueueTarget) {
        let rests = |group: GroupId| may_work(self.work_load(group)) && self.resting_in(group).is_some();
        let woken = match self.layout.wake(target, rests) {
            Some(Wake::Slot(slot)) => Some(slot),
            Some(Wake::Group(group)) => self.resting_in(group),
            None => None,
        };
        if let Some(slot) = woken.filter(|slot| matches!(self.slots[slot.index()], Slot::Parked | Slot::Lent)) {
            assert!(self.layout.may_take(slot, target), "{slot} is woken for {target:?}, which it may not take");
            self.slots[slot.index()] = Slot::Looking;
        }
    }

    fn step(&mut self, index: usize) {
        if matches!(self.slots[index], Slot::Parked | Slot::Lent) {
            return;
        }
        let slot = SlotId(index as u32);
        let own = self.layout.slot(slot).clone();
        let group = own.group.index();
        if self.returning[group] > 0 {
            // Between two tasks a worker gives its slot to a thread that comes back, which goes on with its task.
            self.returning[group] -= 1;
            self.blocked[group] -= 1;
            self.slots[index] = Slot::Running;
            return;
        }
        self.slots[index] = Slot::Parked;
        let steps: Vec<SearchStep> = self.layout.search(own.group).to_vec();
        assert_eq!(steps[0], SearchStep { group: own.group, reach: Reach::ALL }, "its own group comes first");
        for step in steps {
            match self.take(&own, step) {
                Some(taken) => {
                    self.check_taken(slot, step, taken.item);
                    self.slots[index] = Slot::Running;
                    self.pass_on(own.group);
                    return;
                }
                None => self.check_nothing_left(slot, step),
            }
        }
    }

    /// Takes from a group as the runtime does, in bulk from others.
    fn take(&mut self, own: &SlotPlace, step: SearchStep) -> Option<QueueItem<usize>> {
        if step.group == own.group {
            return self.queues[step.group.index()].take_own(own.place, None);
        }
        let mut more = Vec::new();
        let layout = &self.layout;
        let amount = self.amount;
        let take = |kind, queued, _: &_| bulk(layout, amount, kind, own.group, step.group, queued);
        let taken = self.queues[step.group.index()].take_bulk(step.reach, None, take, &mut more)?;
        let kind = taken.kind.expect("a shared queue");
        assert!(more.is_empty() || self.amount == StealAmount::Bulk);
        for (priority, task) in more {
            assert_eq!(priority, self.tasks[taken.item].priority, "no less urgent task is taken along");
            self.queues[own.group.index()].push_shared(kind, priority, task);
            self.check_moved(self.tasks[task].target, QueueTarget::Group(own.group, kind));
            self.tasks[task].target = QueueTarget::Group(own.group, kind);
        }
        Some(taken)
    }

    /// A task that was moved in bulk may not get further than before.
    fn check_moved(&self, from: QueueTarget, to: QueueTarget) {
        if matches!(from, QueueTarget::Group(_, QueueKind::Stealable)) {
            return;
        }
        let place = |target| self.layout.group(self.layout.group_of(target));
        let from = place(from);
        let to = place(to);
        assert!(from.node == to.node || from.package == to.package);
    }

    /// Whoever took a task wakes one more for what is left.
    fn pass_on(&mut self, own: GroupId) {
        for step in self.layout.search(own).to_vec() {
            for kind in QueueKind::ALL {
                if self.queues[step.group.index()].len_shared(kind) > 0 {
                    self.wake(QueueTarget::Group(step.group, kind));
                }
            }
        }
    }

    fn block(&mut self, index: usize) {
        if self.slots[index] != Slot::Running {
            return;
        }
        let slot = SlotId(index as u32);
        let group = self.layout.slot(slot).group.index();
        self.blocked[group] += 1;
        // The slot goes to whoever comes back, to a spare worker if there is something to do, or is lent.
        if self.returning[group] > 0 {
            self.returning[group] -= 1;
            self.blocked[group] -= 1;
        } else if self.queued().any(|task| self.layout.may_take(slot, task.target)) {
            self.slots[index] = Slot::Looking;
        } else {
            self.slots[index] = Slot::Lent;
        }
    }

    fn come_back(&mut self, group: usize) {
        if self.blocked[group] == self.returning[group] {
            return;
        }
        let slots = &self.layout.group(GroupId(group as u32)).slots;
        match slots.iter().find(|slot| matches!(self.slots[slot.index()], Slot::Lent | Slot::Parked)) {
            Some(slot) => {
                self.blocked[group] -= 1;
                self.slots[slot.index()] = Slot::Running;
            }
            None => self.returning[group] += 1,
        }
    }

    fn work_load(&self, group: GroupId) -> Load {
        let slots = &self.layout.group(group).slots;
        let works = |slot: &&SlotId| matches!(self.slots[slot.index()], Slot::Looking | Slot::Running);
        let working = slots.iter().filter(works).count();
        Load { slots: slots.len(), working }
    }

    /// Never more at work than there are cpus: each slot has one worker, and a thread that blocks or waits has none.
    fn check_counts(&self) {
        for (index, group) in self.layout.groups().iter().enumerate() {
            assert!(self.work_load(GroupId(index as u32)).working <= group.slots.len());
            assert!(self.returning[index] <= self.blocked[index], "a worker comes back twice");
            if self.returning[index] > 0 {
                let idle = group.slots.iter().any(|slot| matches!(self.slots[slot.index()], Slot::Lent | Slot::Parked));
                assert!(!idle, "a worker waits for a slot while one is idle");
            }
        }
    }

    fn cancel(&mut self, time: u64) {
        for group in 0..self.queues.len() {
            let tasks = &self.tasks;
            let dropped = self.queues[group].remove_where(|task| tasks[*task].priority.statement_time == time);
            for task in dropped {
                assert_eq!(self.tasks[task].fate, Fate::Queued);
                self.tasks[task].fate = Fate::Dropped;
            }
        }
        let left = |task: &Task| task.fate == Fate::Queued && task.priority.statement_time == time;
        assert!(!self.tasks.iter().any(left), "a cancelled task is still queued");
    }

    fn load(&self, group: usize) -> usize {
        let queued = self.queued().filter(|task| self.layout.group_of(task.target).index() == group).count();
        queued + self.work_load(GroupId(group as u32)).working
    }

    fn queued(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.fate == Fate::Queued)
    }

    /// A slot that nobody uses; lent ones last.
    fn resting_in(&self, group: GroupId) -> Option<SlotId> {
        let slots = &self.layout.group(group).slots;
        let in_state = |state| slots.iter().copied().find(|slot| self.slots[slot.index()] == state);
        in_state(Slot::Parked).or_else(|| in_state(Slot::Lent))
    }

    /// The queue of tasks that are not hard.
    fn soft(&self) -> QueueKind {
        match self.stealing {
            Stealing::Off => QueueKind::NodeHard,
            Stealing::Neighbour => QueueKind::Neighbour,
            Stealing::Any => QueueKind::Stealable,
        }
    }

    /// Is a place's task in a group of that place, and a task without one where DESIGN.md says?
    fn check_route(&self, affinity: Affinity, caller: Option<SlotId>, loads: &[usize], target: QueueTarget) {
        let group = self.layout.group(self.layout.group_of(target));
        match affinity {
            Affinity::Slot(SlotId(slot)) => {
                assert_eq!(target, QueueTarget::Slot(SlotId(slot % self.slots.len() as u32)));
            }
            Affinity::Near { place, hard } => {
                let known = match place {
                    Place::Node(node) => {
                        if self.layout.groups().iter().any(|group| group.node == node) {
                            assert_eq!(group.node, node);
                        }
                        self.topology.node(node).is_some()
                    }
                    Place::Package(package) => {
                        if self.layout.groups().iter().any(|group| group.package == Some(package)) {
                            assert_eq!(group.package, Some(package));
                        }
                        self.topology.packages().iter().any(|known| known.id == package)
                    }
                };
                let QueueTarget::Group(_, kind) = target else { panic!("only slots have private queues") };
                let expected = match (hard && known, place) {
                    (true, Place::Node(_)) => QueueKind::NodeHard,
                    (true, Place::Package(_)) => QueueKind::PackageHard,
                    (false, _) => self.soft(),
                };
                assert_eq!(kind, expected);
            }
            Affinity::Anywhere => match caller {
                Some(slot) => {
                    assert_eq!(target, QueueTarget::Group(self.layout.slot(slot).group, self.soft()));
                }
                None => {
                    let per_slot = |group: usize| {
                        loads[group] as f64 / self.layout.group(GroupId(group as u32)).slots.len() as f64
                    };
                    let here = per_slot(self.layout.group_of(target).index());
                    assert!((0..loads.len()).all(|group| here <= per_slot(group)), "{loads:?} {target:?}");
                }
            },
        }
    }

    /// Not taken before, allowed here, and nothing more urgent (or as urgent and older) was passed over in that group.
    fn check_taken(&mut self, slot: SlotId, step: SearchStep, taken: usize) {
        let target = self.tasks[taken].target;
        assert_eq!(self.tasks[taken].fate, Fate::Queued, "task {taken} is run twice, or after it was dropped");
        assert!(self.layout.may_take(slot, target), "{slot} took {target:?}");
        let here = self.layout.slot(slot).group;
        let there = self.layout.group_of(target);
        let here = self.layout.group(here);
        let there = self.layout.group(there);
        match target {
            QueueTarget::Slot(owner) => assert_eq!(owner, slot),
            QueueTarget::Group(_, QueueKind::NodeHard) => assert_eq!(here.node, there.node),
            QueueTarget::Group(_, QueueKind::PackageHard) => {
                assert!(here.node == there.node || here.package == there.package)
            }
            QueueTarget::Group(_, QueueKind::Neighbour) => {
                let alone = |group: &GroupPlace| {
                    self.layout.groups().iter().all(|other| other.node == group.node || other.package != group.package)
                };
                assert!(here.node == there.node || here.package == there.package || alone(here));
            }
            QueueTarget::Group(_, QueueKind::Stealable) => {}
        }
        for (other, task) in self.tasks.iter().enumerate() {
            let reachable = task.fate == Fate::Queued
                && self.layout.group_of(task.target) == step.group
                && self.layout.may_take(slot, task.target);
            // What was moved in bulk has been submitted to its group anew.
            let in_order = match self.amount {
                StealAmount::One => (self.tasks[taken].priority, taken) <= (task.priority, other),
                StealAmount::Bulk => self.tasks[taken].priority <= task.priority,
            };
            assert!(!reachable || in_order, "{slot} took task {taken} before task {other}");
        }
        self.tasks[taken].fate = Fate::Taken;
    }

    fn check_nothing_left(&self, slot: SlotId, step: SearchStep) {
        let left = self
            .queued()
            .any(|task| self.layout.group_of(task.target) == step.group && self.layout.may_take(slot, task.target));
        assert!(!left, "{slot} overlooked a task in {:?}", step.group);
    }

    /// While a task is queued, somebody who may take it is awake.
    fn check_nothing_sleeps_through(&self) {
        for task in self.queued() {
            let awake = |slot: &SlotId| matches!(self.slots[slot.index()], Slot::Looking | Slot::Running);
            let groups = self.layout.takers(task.target).iter();
            let seen_to = match task.target {
                QueueTarget::Slot(slot) => awake(&slot),
                QueueTarget::Group(..) => groups.flat_map(|group| &self.layout.group(*group).slots).any(awake),
            };
            assert!(seen_to, "{:?} is queued and all that may take it are parked", task.target);
        }
    }

    /// Lets everything go on till nothing is left to do.
    fn run_out(&mut self) {
        for group in 0..self.queues.len() {
            while self.blocked[group] > self.returning[group] {
                self.come_back(group);
            }
        }
        while let Some(awake) = self.slots.iter().position(|slot| matches!(slot, Slot::Looking | Slot::Running)) {
            self.step(awake);
            self.check_nothing_sleeps_through();
            self.check_counts();
        }
    }
}

fn affinities() -> impl Strategy<Value = Affinity> {
    let place = prop_oneof![
        (0u32..8).prop_map(|node| Place::Node(NodeId(node))),
        (0u32..4).prop_map(|package| Place::Package(PackageId(package))),
    ];
    prop_oneof![
        1 => (0u32..20).prop_map(|slot| Affinity::Slot(SlotId(slot))),
        3 => (place, any::<bool>()).prop_map(|(place, hard)| Affinity::Near { place, hard }),
        2 => Just(Affinity::Anywhere),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (affinities(), 0u8..3, 0u64..5, 0usize..24)
            .prop_map(|(affinity, user, time, caller)| Event::Submit { affinity, user, time, caller }),
        8 => (0usize..16).prop_map(Event::SearchStep),
        3 => (0usize..16).prop_map(Event::Block),
        2 => (0usize..8).prop_map(Event::Return),
        1 => (0u64..5).prop_map(Event::Cancel),
    ]
}

#[derive(Clone, Debug)]
struct Machine {
    topology: Topology,
    threads: Option<usize>,
    split: Split,
    stealing: Stealing,
    amount: StealAmount,
}

fn machines() -> impl Strategy<Value = Machine> {
    let topology = (1u32..4, 1u32..4, 1u32..4, 1u32..3).prop_map(|(p, n, c, s)| Topology::synthetic(p, n, c, s));
    let stealing = prop_oneof![Just(Stealing::Off), Just(Stealing::Neighbour), Just(Stealing::Any)];
    let amount = prop_oneof![Just(StealAmount::One), Just(StealAmount::Bulk)];
    let split = (1usize..4, 1usize..5).prop_map(|(cpus_min, cpus_max)| Split { cpus_min, cpus_max });
    (topology, proptest::option::of(0usize..20), split, stealing, amount)
        .prop_map(|(topology, threads, split, stealing, amount)| Machine { topology, threads, split, stealing, amount })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_task_runs_once_where_and_when_it_should(
        machine in machines(),
        events in proptest::collection::vec(events(), 0..120),
    ) {
        let mut world = World::new(&machine);
        for event in &events {
            world.handle(event);
        }
        world.run_out();
        prop_assert!(world.queued().next().is_none(), "a task is never run");
        prop_assert_eq!(world.blocked.iter().sum::<usize>(), 0, "every worker that blocked went on");
    }

    #[test]
    fn a_layout_covers_the_machine_evenly(machine in machines()) {
        let Machine { topology, threads, split, .. } = machine;
        let layout = Layout::new(&topology, threads, split);
        let cpus = topology.usable_cpus().len();
        prop_assert_eq!(layout.slots().len(), threads.map_or(cpus, |threads| threads.max(1)));
        for (index, slot) in layout.slots().iter().enumerate() {
            let group = layout.group(slot.group);
            prop_assert_eq!(group.slots[slot.place], SlotId(index as u32));
            prop_assert_eq!(topology.node_of_cpu(slot.cpu), Some(group.node));
            prop_assert!(group.cpus.contains(&slot.cpu));
        }
        // The cpus of a core are in one group, and a group is no larger than allowed unless a core is.
        for core in topology.cores() {
            let holders = layout.groups().iter().filter(|group| group.cpus.iter().any(|cpu| core.cpus.contains(cpu)));
            prop_assert!(holders.count() <= 1);
        }
        let smt = topology.cores().iter().map(|core| core.cpus.len()).max().unwrap_or(1);
        for group in layout.groups() {
            prop_assert!(group.cpus.len() < split.cpus_max.max(1) + smt, "{:?}", group.cpus);
        }
        // Synthetic nodes are alike, so they get the same number of slots, give or take one.
        let counts = topology.nodes().iter().map(|node| {
            layout.groups().iter().filter(|group| group.node == node.id).map(|group| group.slots.len()).sum::<usize>()
        });
        let counts: Vec<usize> = counts.collect();
        prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{:?}", counts);
        // No cpu is used twice before all are used once.
        let mut used: Vec<_> = layout.slots().iter().map(|slot| slot.cpu).collect();
        used.sort_unstable();
        used.dedup();
        prop_assert_eq!(used.len(), layout.slots().len().min(cpus));
    }

    #[test]
    fn whoever_looks_somewhere_is_woken_for_it(machine in machines()) {
        let layout = Layout::new(&machine.topology, machine.threads, machine.split);
        for group in (0..layout.groups().len() as u32).map(GroupId) {
            for kind in QueueKind::ALL {
                let target = QueueTarget::Group(group, kind);
                let takers = layout.takers(target);
                prop_assert_eq!(takers.first(), Some(&group), "its own workers come first");
                for slot in (0..layout.slots().len() as u32).map(SlotId) {
                    prop_assert_eq!(layout.may_take(slot, target), takers.contains(&layout.slot(slot).group));
                }
            }
        }
    }
}

/// The nodes that group 0 of a machine may steal tasks of a mode from, in its order.
fn steals_from(topology: &Topology, stealing: Stealing) -> Vec<u32> {
    let layout = Layout::new(topology, None, Split::default());
    let QueueTarget::Group(_, kind) = layout.route(Affinity::Anywhere, stealing, None, &|_| 0) else { unreachable!() };
    let steps = layout.search(GroupId(0)).iter().skip(1).filter(|step| step.reach.includes(kind));
    steps.map(|step| layout.group(step.group).node.0).collect()
}

#[test]
fn stealing_modes_name_their_victims() {
    let sub_domains = Topology::synthetic(2, 3, 1, 1);
    assert_eq!(steals_from(&sub_domains, Stealing::Off), [0; 0]);
    assert_eq!(steals_from(&sub_domains, Stealing::Neighbour), [1, 2], "stays within the package");
    assert_eq!(steals_from(&sub_domains, Stealing::Any), [1, 2, 3, 4, 5], "the package first");
    let sockets = Topology::synthetic(3, 1, 1, 1);
    assert_eq!(steals_from(&sockets, Stealing::Neighbour), [1, 2], "the nearest, where a package is one node");
}

#[test]
fn victims_at_one_distance_are_rotated() {
    let layout = Layout::new(&Topology::synthetic(4, 1, 1, 1), None, Split::default());
    let first = |group| layout.search(GroupId(group))[1].group.0;
    assert_eq!([first(0), first(1), first(2), first(3)], [1, 2, 3, 0]);
}

#[test]
fn cores_come_before_their_siblings() {
    // Two cores of two hardware threads: cpus 0 and 2 share the first, 1 and 3 the second.
    let layout = Layout::new(&Topology::synthetic(1, 1, 2, 2), Some(2), Split::default());
    let cpus: Vec<u32> = layout.slots().iter().map(|slot| slot.cpu.0).collect();
    assert_eq!(cpus, [0, 1]);
}

#[test]
fn a_large_node_is_cut_and_its_groups_help_each_other_first() {
    let split = Split { cpus_min: 2, cpus_max: 4 };
    let layout = Layout::new(&Topology::synthetic(2, 1, 4, 2), None, split);
    let sizes: Vec<(u32, usize)> = layout.groups().iter().map(|group| (group.node.0, group.slots.len())).collect();
    assert_eq!(sizes, [(0, 4), (0, 4), (1, 4), (1, 4)]);
    assert_eq!(layout.search(GroupId(0))[1], SearchStep { group: GroupId(1), reach: Reach::ALL });
    assert_eq!(layout.takers(QueueTarget::Group(GroupId(0), QueueKind::NodeHard)), [GroupId(0), GroupId(1)]);
    let few = Layout::new(&Topology::synthetic(1, 1, 4, 2), Some(2), split);
    assert_eq!(few.groups().len(), 2, "two slots are spread over two groups");
}

#[test]
fn a_place_without_workers_stands_for_the_nearest_with_some() {
    // Three threads over four nodes leave node 3 without; node 2 shares its package.
    let layout = Layout::new(&Topology::synthetic(2, 2, 1, 1), Some(3), Split::default());
    let hard = |place| layout.route(Affinity::Near { place, hard: true }, Stealing::Any, None, &|_| 5);
    assert_eq!(hard(Place::Node(NodeId(3))), QueueTarget::Group(GroupId(2), QueueKind::NodeHard));
    assert_eq!(hard(Place::Package(PackageId(1))), QueueTarget::Group(GroupId(2), QueueKind::PackageHard));
    // One thread leaves package 1 without.
    let layout = Layout::new(&Topology::synthetic(2, 2, 1, 1), Some(1), Split::default());
    let place = Place::Package(PackageId(1));
    let far = layout.route(Affinity::Near { place, hard: true }, Stealing::Off, None, &|_| 0);
    assert_eq!(far, QueueTarget::Group(GroupId(0), QueueKind::PackageHard));
}

#[test]
fn settings_and_hints_make_affinities_soft_or_hard() {
    let layout = Layout::new(&Topology::synthetic(2, 1, 1, 1), None, Split::default());
    let settings = |affinities| Settings {
        affinities,
        stealing: Stealing::Any,
        memory_intensive_bytes_per_us: 1000,
        ..Settings::default()
    };
    let soft = Affinity::near(NodeId(1));
    let heavy = Hint { bytes: 1 << 20, cpu_ns: 100_000 };
    let light = Hint { bytes: 1 << 10, cpu_ns: 100_000 };
    let kind = |affinities, affinity, hint| match route(
        &layout,
        &Request { affinity, hint, caller: None, settings: settings(affinities), loads: &|_| 0 },
    ) {
        QueueTarget::Group(group, kind) => (group.0, kind),
        QueueTarget::Slot(_) => unreachable!("no task asks for a slot"),
    };
    assert_eq!(kind(Affinities::Weighed, soft, heavy), (1, QueueKind::NodeHard), "memory-intensive");
    assert_eq!(kind(Affinities::Weighed, soft, light), (1, QueueKind::Stealable), "cpu-intensive");
    assert_eq!(kind(Affinities::Weighed, soft, Hint::default()), (1, QueueKind::Stealable), "unknown");
    assert_eq!(kind(Affinities::Soft, Affinity::on(NodeId(1)), heavy), (1, QueueKind::Stealable));
    assert_eq!(kind(Affinities::Hard, soft, light), (1, QueueKind::NodeHard));
    assert_eq!(kind(Affinities::Ignored, Affinity::on(NodeId(1)), heavy), (0, QueueKind::Stealable));
}

#[test]
fn bindings_follow_the_affinity_of_the_task_or_its_parent() {
    let near = Nearness { near: true, child_of_near: false };
    let child = Nearness { near: false, child_of_near: true };
    let other = Nearness::default();
    let bound = |binding| [near, child, other].map(|running| binds(binding, running));
    assert_eq!(bound(Binding::None), [false, false, false]);
    assert_eq!(bound(Binding::Preferred), [true, false, false]);
    assert_eq!(bound(Binding::Opportunistic), [true, true, false]);
    assert_eq!(bound(Binding::Always), [true, true, true]);
}

#[test]
fn a_limit_hides_what_is_less_urgent() {
    let at = |statement_time| Priority { user: 0, statement_time };
    let mut queues = GroupQueues::new(1);
    queues.push_private(0, at(5), "private");
    queues.push_shared(QueueKind::Stealable, at(6), "shared");
    assert_eq!(queues.take_own(0, Some(at(4))), None);
    assert_eq!(queues.take_own(0, Some(at(5))).map(|taken| taken.item), Some("private"));
    assert_eq!(queues.take_own(0, Some(at(5))), None);
    assert_eq!(queues.take_shared(Reach::ALL, Some(at(6))).map(|taken| taken.item), Some("shared"));
    assert_eq!(queues.take_own(0, None), None);
}

/// The queue's slow twin: a list that is searched.
#[derive(Default)]
struct SlowQueue(Vec<(Priority, u64)>);

proptest! {
    #[test]
    fn a_queue_is_a_sorted_list(steps in proptest::collection::vec((0u8..4, 0u8..3, 0u64..4), 0..200)) {
        let mut queue = Queue::default();
        let mut slow = SlowQueue::default();
        for (number, (what, user, statement_time)) in steps.into_iter().enumerate() {
            let number = number as u64;
            let priority = Priority { user, statement_time };
            match what {
                0 | 1 => {
                    queue.push(priority, number, number);
                    slow.0.push((priority, number));
                    slow.0.sort_unstable();
                }
                2 => {
                    let expected = (!slow.0.is_empty()).then(|| slow.0.remove(0).1);
                    prop_assert_eq!(queue.pop(), expected);
                }
                _ => {
                    let mut out = Vec::new();
                    queue.remove_where(&mut |item| item % 5 == number % 5, &mut out);
                    slow.0.retain(|(_, item)| item % 5 != number % 5);
                }
            }
            prop_assert_eq!(queue.peek(), slow.0.first().copied());
            prop_assert_eq!(queue.len(), slow.0.len());
            let listed: Vec<(Priority, u64)> = queue.iter().map(|(priority, item)| (priority, *item)).collect();
            prop_assert_eq!(&listed, &slow.0);
        }
    }
}
