//! The policy driven by random events, on imaginary machines, in no time at all.
//!
//! [`World`] is the smallest runtime there is: queues, workers that are parked, looking or running, and a record of
//! every task. It calls the same functions as the real runtime and checks the invariants after every event.

use numa::{NodeId, PackageId, Topology};
use proptest::prelude::*;

use super::*;
use crate::affinity::{Affinity, Place, Priority, Stealing};

/// What can happen.
#[derive(Clone, Debug)]
enum Event {
    /// Somebody submits a task: a worker (if the number is below their count) or another thread.
    Submit { affinity: Affinity, user: u8, time: u64, caller: usize },
    /// A worker that is not parked gets a little further: it ends its task if it has one, and looks for the next.
    Step(usize),
    /// The tasks of one statement are dropped.
    Cancel(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    Parked,
    Looking,
    Running,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Queued,
    Taken,
    Dropped,
}

struct Task {
    priority: Priority,
    target: Target,
    fate: Fate,
}

struct World {
    topology: Topology,
    layout: Layout,
    queues: Vec<GroupQueues<usize>>,
    workers: Vec<Worker>,
    tasks: Vec<Task>,
}

impl World {
    fn new(topology: Topology, threads: Option<usize>, stealing: Stealing) -> World {
        let layout = Layout::new(&topology, threads, stealing);
        World {
            queues: layout.groups().iter().map(|group| GroupQueues::new(group.slots.len())).collect(),
            workers: vec![Worker::Parked; layout.slots().len()],
            tasks: Vec::new(),
            topology,
            layout,
        }
    }

    fn handle(&mut self, event: &Event) {
        match *event {
            Event::Submit { affinity, user, time, caller } => self.submit(affinity, user, time, caller),
            Event::Step(worker) => self.step(worker % self.workers.len()),
            Event::Cancel(time) => self.cancel(time),
        }
        self.check_nothing_sleeps_through();
    }

    fn submit(&mut self, affinity: Affinity, user: u8, statement_time: u64, caller: usize) {
        let caller = (caller < self.workers.len()).then_some(SlotId(caller as u32));
        let loads: Vec<usize> = (0..self.queues.len()).map(|group| self.load(group)).collect();
        let target = self.layout.route(affinity, caller, &loads);
        self.check_route(affinity, caller, &loads, target);
        let priority = Priority { user, statement_time };
        let task = self.tasks.len();
        let queues = &mut self.queues[self.layout.group_of(target).index()];
        match target {
            Target::Slot(slot) => queues.push_private(self.layout.slot(slot).place, priority, task),
            Target::Group(_, kind) => queues.push_shared(kind, priority, task),
        }
        self.tasks.push(Task { priority, target, fate: Fate::Queued });
        let parked = |group: GroupId| self.parked_in(group).is_some();
        let woken = match self.layout.wake(target, parked) {
            Some(Wake::Slot(slot)) => Some(slot),
            Some(Wake::Group(group)) => self.parked_in(group),
            None => None,
        };
        if let Some(slot) = woken.filter(|slot| self.workers[slot.index()] == Worker::Parked) {
            assert!(self.layout.may_take(slot, target), "{slot} is woken for {target:?}, which it may not take");
            self.workers[slot.index()] = Worker::Looking;
        }
    }

    fn step(&mut self, worker: usize) {
        if self.workers[worker] == Worker::Parked {
            return;
        }
        let slot = SlotId(worker as u32);
        let own = self.layout.slot(slot).clone();
        let steps: Vec<Step> = self.layout.search(own.group).to_vec();
        assert_eq!(steps[0], Step { group: own.group, reach: Reach::ALL }, "its own group comes first");
        for step in steps {
            let queues = &mut self.queues[step.group.index()];
            let taken = if step.group == own.group {
                queues.take_own(own.place, None)
            } else {
                queues.take_shared(step.reach, None)
            };
            match taken {
                Some(taken) => {
                    self.check_taken(slot, step, taken.item);
                    self.workers[worker] = Worker::Running;
                    return;
                }
                None => self.check_nothing_left(slot, step),
            }
        }
        self.workers[worker] = Worker::Parked;
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
        let slots = &self.layout.group(GroupId(group as u32)).slots;
        queued + slots.iter().filter(|slot| self.workers[slot.index()] == Worker::Running).count()
    }

    fn queued(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.fate == Fate::Queued)
    }

    fn parked_in(&self, group: GroupId) -> Option<SlotId> {
        let slots = &self.layout.group(group).slots;
        slots.iter().copied().find(|slot| self.workers[slot.index()] == Worker::Parked)
    }

    /// Is a place's task in a group of that place, and a task without one where DESIGN.md says?
    fn check_route(&self, affinity: Affinity, caller: Option<SlotId>, loads: &[usize], target: Target) {
        let group = self.layout.group(self.layout.group_of(target));
        match affinity {
            Affinity::Slot(SlotId(slot)) => {
                assert_eq!(target, Target::Slot(SlotId(slot % self.workers.len() as u32)));
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
                let stealable = matches!(target, Target::Group(_, QueueKind::Stealable));
                assert_eq!(stealable, !(hard && known));
            }
            Affinity::Anywhere => match caller {
                Some(slot) => {
                    assert_eq!(target, Target::Group(self.layout.slot(slot).group, QueueKind::Stealable));
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
    fn check_taken(&mut self, slot: SlotId, step: Step, taken: usize) {
        let target = self.tasks[taken].target;
        assert_eq!(self.tasks[taken].fate, Fate::Queued, "task {taken} is run twice, or after it was dropped");
        assert!(self.layout.may_take(slot, target), "{slot} took {target:?}");
        let (here, there) = (self.layout.slot(slot).group, self.layout.group_of(target));
        let (here, there) = (self.layout.group(here), self.layout.group(there));
        match target {
            Target::Slot(owner) => assert_eq!(owner, slot),
            Target::Group(_, QueueKind::NodeHard) => assert_eq!(here.node, there.node),
            Target::Group(_, QueueKind::PackageHard) => {
                assert!(here.node == there.node || here.package == there.package)
            }
            Target::Group(_, QueueKind::Stealable) => {}
        }
        for (other, task) in self.tasks.iter().enumerate() {
            let reachable = task.fate == Fate::Queued
                && self.layout.group_of(task.target) == step.group
                && self.layout.may_take(slot, task.target);
            assert!(
                !reachable || (self.tasks[taken].priority, taken) <= (task.priority, other),
                "{slot} took task {taken} before task {other}"
            );
        }
        self.tasks[taken].fate = Fate::Taken;
    }

    fn check_nothing_left(&self, slot: SlotId, step: Step) {
        let left = self
            .queued()
            .any(|task| self.layout.group_of(task.target) == step.group && self.layout.may_take(slot, task.target));
        assert!(!left, "{slot} overlooked a task in {:?}", step.group);
    }

    /// While a task is queued, somebody who may take it is awake.
    fn check_nothing_sleeps_through(&self) {
        for task in self.queued() {
            let awake = (0..self.workers.len()).any(|worker| {
                self.workers[worker] != Worker::Parked && self.layout.may_take(SlotId(worker as u32), task.target)
            });
            assert!(awake, "{:?} is queued and all that may take it are parked", task.target);
        }
    }

    /// Lets the workers go on till all are parked.
    fn run_out(&mut self) {
        while let Some(awake) = self.workers.iter().position(|worker| *worker != Worker::Parked) {
            self.step(awake);
            self.check_nothing_sleeps_through();
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
        8 => (0usize..16).prop_map(Event::Step),
        1 => (0u64..5).prop_map(Event::Cancel),
    ]
}

fn machines() -> impl Strategy<Value = (Topology, Option<usize>, Stealing)> {
    let topology = (1u32..4, 1u32..4, 1u32..3, 1u32..3).prop_map(|(p, n, c, s)| Topology::synthetic(p, n, c, s));
    let stealing = prop_oneof![Just(Stealing::Off), Just(Stealing::Neighbour), Just(Stealing::Any)];
    (topology, proptest::option::of(0usize..20), stealing)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_task_runs_once_where_and_when_it_should(
        (topology, threads, stealing) in machines(),
        events in proptest::collection::vec(events(), 0..120),
    ) {
        let mut world = World::new(topology, threads, stealing);
        for event in &events {
            world.handle(event);
        }
        world.run_out();
        prop_assert!(world.queued().next().is_none(), "a task is never run");
    }

    #[test]
    fn a_layout_covers_the_machine_evenly((topology, threads, stealing) in machines()) {
        let layout = Layout::new(&topology, threads, stealing);
        let cpus = topology.usable_cpus().len();
        prop_assert_eq!(layout.slots().len(), threads.map_or(cpus, |threads| threads.max(1)));
        for (index, slot) in layout.slots().iter().enumerate() {
            let group = layout.group(slot.group);
            prop_assert_eq!(group.slots[slot.place], SlotId(index as u32));
            prop_assert_eq!(topology.node_of_cpu(slot.cpu), Some(group.node));
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
    fn whoever_looks_somewhere_is_woken_for_it((topology, threads, stealing) in machines()) {
        let layout = Layout::new(&topology, threads, stealing);
        for group in (0..layout.groups().len() as u32).map(GroupId) {
            for kind in QueueKind::ALL {
                let target = Target::Group(group, kind);
                let takers = layout.takers(target);
                prop_assert_eq!(takers.first(), Some(&group), "its own workers come first");
                for slot in (0..layout.slots().len() as u32).map(SlotId) {
                    prop_assert_eq!(layout.may_take(slot, target), takers.contains(&layout.slot(slot).group));
                }
            }
        }
    }
}

/// The nodes that group 0 of a machine may steal stealable tasks from, in its order.
fn steals_from(topology: &Topology, stealing: Stealing) -> Vec<u32> {
    let layout = Layout::new(topology, None, stealing);
    let steps = layout.search(GroupId(0)).iter().skip(1).filter(|step| step.reach.includes(QueueKind::Stealable));
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
    let layout = Layout::new(&Topology::synthetic(4, 1, 1, 1), None, Stealing::Any);
    let first = |group| layout.search(GroupId(group))[1].group.0;
    assert_eq!([first(0), first(1), first(2), first(3)], [1, 2, 3, 0]);
}

#[test]
fn cores_come_before_their_siblings() {
    // Two cores of two hardware threads: cpus 0 and 2 share the first, 1 and 3 the second.
    let layout = Layout::new(&Topology::synthetic(1, 1, 2, 2), Some(2), Stealing::Off);
    let cpus: Vec<u32> = layout.slots().iter().map(|slot| slot.cpu.0).collect();
    assert_eq!(cpus, [0, 1]);
}

#[test]
fn a_place_without_workers_stands_for_the_nearest_with_some() {
    // Three threads over four nodes leave node 3 without; node 2 shares its package.
    let layout = Layout::new(&Topology::synthetic(2, 2, 1, 1), Some(3), Stealing::Off);
    let hard = |place| layout.route(Affinity::Near { place, hard: true }, None, &[5, 5, 5]);
    assert_eq!(hard(Place::Node(NodeId(3))), Target::Group(GroupId(2), QueueKind::NodeHard));
    assert_eq!(hard(Place::Package(PackageId(1))), Target::Group(GroupId(2), QueueKind::PackageHard));
    // One thread leaves package 1 without.
    let layout = Layout::new(&Topology::synthetic(2, 2, 1, 1), Some(1), Stealing::Off);
    let far = layout.route(Affinity::Near { place: Place::Package(PackageId(1)), hard: true }, None, &[0]);
    assert_eq!(far, Target::Group(GroupId(0), QueueKind::PackageHard));
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
