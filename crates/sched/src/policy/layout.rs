//! Slots and thread groups of a machine, and what follows from them: routes, search orders, whom to wake.
//!
//! Invariants: every group has a slot; every node of the topology leads to a group (the nearest one where it has no
//! slot of its own); whoever finds a queue in its search order is among those that a task there can wake, and back.
//!
//! # Limits
//! One group per node (see the module above). Loads count tasks, not their weight.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1; Greinsmark 2020 (stealing off, neighbour, any).

use std::collections::BTreeMap;

use numa::{CpuId, NodeId, PackageId, Topology};

use super::{GroupId, QueueKind, Reach, Target};
use crate::affinity::{Affinity, Place, SlotId, Stealing};

/// A slot and where it is.
#[derive(Clone, Debug)]
pub struct SlotPlace {
    /// The cpu that this slot stands for; several slots share one when there are more threads than cpus.
    pub cpu: CpuId,
    /// Its thread group.
    pub group: GroupId,
    /// Its place among the slots of the group.
    pub place: usize,
}

/// A thread group and where it is.
#[derive(Clone, Debug)]
pub struct GroupPlace {
    /// Its node.
    pub node: NodeId,
    /// The package of that node, where known.
    pub package: Option<PackageId>,
    /// Its slots, ascending.
    pub slots: Vec<SlotId>,
    /// The usable cpus of the node: what its workers are pinned to.
    pub cpus: Vec<CpuId>,
}

/// A stop on a worker's search: a group and which of its queues may be taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose queues.
    pub group: GroupId,
    /// Which of them.
    pub reach: Reach,
}

/// Whom a new task wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// This slot, no other can take the task.
    Slot(SlotId),
    /// Any idle worker of this group.
    Group(GroupId),
}

/// The machine as the policy sees it. Immutable.
#[derive(Clone, Debug)]
pub struct Layout {
    slots: Vec<SlotPlace>,
    groups: Vec<GroupPlace>,
    by_node: BTreeMap<NodeId, Vec<GroupId>>,
    by_package: BTreeMap<PackageId, Vec<GroupId>>,
    search: Vec<Vec<Step>>,
    takers: Vec<[Vec<GroupId>; 3]>,
}

impl Layout {
    /// Lays `threads` slots (one per usable cpu when `None`) evenly over the nodes of `topology`.
    pub fn new(topology: &Topology, threads: Option<usize>, stealing: Stealing) -> Layout {
        let cpus = cpus_by_node(topology);
        let counts = spread(&cpus, threads.map(|threads| threads.max(1)));
        let mut slots = Vec::new();
        let mut groups: Vec<GroupPlace> = Vec::new();
        for ((node, cpus), count) in cpus.into_iter().zip(counts) {
            if count == 0 {
                continue;
            }
            let group = GroupId(groups.len() as u32);
            let first = slots.len() as u32;
            slots.extend((0..count).map(|place| SlotPlace { cpu: cpus[place % cpus.len()], group, place }));
            groups.push(GroupPlace {
                node,
                package: topology.node(node).and_then(|node| node.package),
                slots: (first..slots.len() as u32).map(SlotId).collect(),
                cpus,
            });
        }
        let search = search_orders(topology, &groups, stealing);
        let takers = takers(topology, &groups, &search);
        let by_node = groups_by_node(topology, &groups);
        let by_package = groups_by_package(topology, &groups, &by_node);
        Layout { slots, groups, by_node, by_package, search, takers }
    }

    /// All slots, in the order of their numbers.
    pub fn slots(&self) -> &[SlotPlace] {
        &self.slots
    }

    /// All thread groups, in the order of their numbers.
    pub fn groups(&self) -> &[GroupPlace] {
        &self.groups
    }

    /// A slot.
    pub fn slot(&self, slot: SlotId) -> &SlotPlace {
        &self.slots[slot.index()]
    }

    /// A thread group.
    pub fn group(&self, group: GroupId) -> &GroupPlace {
        &self.groups[group.index()]
    }

    /// The group whose queues hold this target.
    pub fn group_of(&self, target: Target) -> GroupId {
        match target {
            Target::Slot(slot) => self.slot(slot).group,
            Target::Group(group, _) => group,
        }
    }

    /// Which queue a task goes to. `caller` is the slot of the worker that submits it; `loads` holds, per group, the
    /// tasks queued or running there.
    pub fn route(&self, affinity: Affinity, caller: Option<SlotId>, loads: &[usize]) -> Target {
        match affinity {
            Affinity::Slot(SlotId(slot)) => Target::Slot(SlotId(slot % self.slots.len() as u32)),
            Affinity::Anywhere => self.route_anywhere(caller, loads),
            Affinity::Near { place, hard } => {
                let (groups, kind) = match place {
                    Place::Node(node) => (self.by_node.get(&node), QueueKind::NodeHard),
                    Place::Package(package) => (self.by_package.get(&package), QueueKind::PackageHard),
                };
                match groups.and_then(|groups| self.least_loaded(groups.iter().copied(), loads)) {
                    Some(group) => Target::Group(group, if hard { kind } else { QueueKind::Stealable }),
                    None => self.route_anywhere(caller, loads),
                }
            }
        }
    }

    /// Where a worker looks for a task, in this order: its own group, the others of its node, then other nodes by
    /// distance. In its own group it also has its private queue.
    pub fn search(&self, group: GroupId) -> &[Step] {
        &self.search[group.index()]
    }

    /// Whether the worker of `slot` may take what is queued at `target`.
    pub fn may_take(&self, slot: SlotId, target: Target) -> bool {
        match target {
            Target::Slot(owner) => owner == slot,
            Target::Group(group, kind) => {
                self.search(self.slot(slot).group).iter().any(|step| step.group == group && step.reach.includes(kind))
            }
        }
    }

    /// The groups whose workers may take what is queued at `target`, the nearest first.
    pub fn takers(&self, target: Target) -> &[GroupId] {
        match target {
            // The slot's own group comes first in its list of hard tasks.
            Target::Slot(slot) => &self.takers[self.slot(slot).group.index()][QueueKind::NodeHard.index()][..1],
            Target::Group(group, kind) => &self.takers[group.index()][kind.index()],
        }
    }

    /// Whom a task at `target` wakes: `asleep` says which groups have an idle worker, and is asked in order of
    /// preference until it says yes (so it may be the waking itself). `None`: all that could take the task are at work
    /// and will look when they are done.
    pub fn wake(&self, target: Target, mut asleep: impl FnMut(GroupId) -> bool) -> Option<Wake> {
        match target {
            Target::Slot(slot) => Some(Wake::Slot(slot)),
            Target::Group(..) => self.takers(target).iter().copied().find(|group| asleep(*group)).map(Wake::Group),
        }
    }

    fn route_anywhere(&self, caller: Option<SlotId>, loads: &[usize]) -> Target {
        let group = match caller {
            Some(slot) => self.slot(slot).group,
            None => {
                let all = (0..self.groups.len() as u32).map(GroupId);
                self.least_loaded(all, loads).unwrap_or(GroupId(0))
            }
        };
        Target::Group(group, QueueKind::Stealable)
    }

    /// The group with the fewest tasks per slot; the first of equals.
    fn least_loaded(&self, groups: impl Iterator<Item = GroupId>, loads: &[usize]) -> Option<GroupId> {
        let load = |group: GroupId| (loads[group.index()] as u128, self.group(group).slots.len() as u128);
        groups.reduce(|best, next| {
            let ((best_tasks, best_slots), (tasks, slots)) = (load(best), load(next));
            if tasks * best_slots < best_tasks * slots { next } else { best }
        })
    }
}

/// The usable cpus of every node that has any: first one cpu of each core, then their siblings.
fn cpus_by_node(topology: &Topology) -> Vec<(NodeId, Vec<CpuId>)> {
    let mut sibling: BTreeMap<CpuId, usize> = BTreeMap::new();
    for core in topology.cores() {
        let usable = core.cpus.iter().filter(|cpu| topology.usable_cpus().binary_search(cpu).is_ok());
        sibling.extend(usable.enumerate().map(|(rank, cpu)| (*cpu, rank)));
    }
    let first_node = topology.nodes().first().map_or(NodeId(0), |node| node.id);
    let mut nodes: BTreeMap<NodeId, Vec<CpuId>> = BTreeMap::new();
    for cpu in topology.usable_cpus() {
        nodes.entry(topology.node_of_cpu(*cpu).unwrap_or(first_node)).or_default().push(*cpu);
    }
    assert!(!nodes.is_empty(), "a topology has at least one usable cpu");
    for cpus in nodes.values_mut() {
        cpus.sort_by_key(|cpu| (sibling.get(cpu).copied().unwrap_or(0), *cpu));
    }
    nodes.into_iter().collect()
}

/// How many slots each node gets: one per cpu, or `threads` dealt out in turn, each cpu once before any twice.
fn spread(cpus: &[(NodeId, Vec<CpuId>)], threads: Option<usize>) -> Vec<usize> {
    let full: Vec<usize> = cpus.iter().map(|(_, cpus)| cpus.len()).collect();
    let total: usize = full.iter().sum();
    let threads = threads.unwrap_or(total);
    let mut counts: Vec<usize> = full.iter().map(|cpus| cpus * (threads / total)).collect();
    let mut dealt = vec![0; full.len()];
    let mut left = threads % total;
    while left > 0 {
        for node in 0..full.len() {
            if left > 0 && dealt[node] < full[node] {
                dealt[node] += 1;
                left -= 1;
            }
        }
    }
    for (count, dealt) in counts.iter_mut().zip(dealt) {
        *count += dealt;
    }
    counts
}

/// How far two groups are apart, nearest first: node, package, distance; equals are rotated so that not every thief
/// comes to the same victim first.
fn farness(topology: &Topology, groups: &[GroupPlace], from: usize, to: usize) -> (bool, bool, u32, usize) {
    let (a, b) = (&groups[from], &groups[to]);
    let rotated = (to + groups.len() - from) % groups.len();
    (a.node != b.node, !same_package(a, b), topology.distance(a.node, b.node), rotated)
}

fn same_package(a: &GroupPlace, b: &GroupPlace) -> bool {
    a.node == b.node || (a.package.is_some() && a.package == b.package)
}

fn search_orders(topology: &Topology, groups: &[GroupPlace], stealing: Stealing) -> Vec<Vec<Step>> {
    let one = |from: usize| {
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|to| (*to != from, farness(topology, groups, from, *to)));
        order
            .into_iter()
            .map(|to| Step { group: GroupId(to as u32), reach: reach(topology, groups, stealing, from, to) })
            .filter(|step| !step.reach.is_empty())
            .collect()
    };
    (0..groups.len()).map(one).collect()
}

/// What a worker of group `from` may take from group `to`.
fn reach(topology: &Topology, groups: &[GroupPlace], stealing: Stealing, from: usize, to: usize) -> Reach {
    if groups[from].node == groups[to].node {
        return Reach::ALL;
    }
    let mut reach = Reach::default();
    if same_package(&groups[from], &groups[to]) {
        reach = reach.with(QueueKind::PackageHard);
    }
    let steals = match stealing {
        Stealing::Off => false,
        Stealing::Any => true,
        Stealing::Neighbour => neighbours(topology, groups, from, to),
    };
    if steals { reach.with(QueueKind::Stealable) } else { reach }
}

/// Nodes of one package are neighbours; where the package has no other node, the nearest nodes are.
fn neighbours(topology: &Topology, groups: &[GroupPlace], from: usize, to: usize) -> bool {
    let here = &groups[from];
    let others = || groups.iter().filter(|group| group.node != here.node);
    if others().any(|group| same_package(here, group)) {
        return same_package(here, &groups[to]);
    }
    let nearest = others().map(|group| topology.distance(here.node, group.node)).min();
    nearest == Some(topology.distance(here.node, groups[to].node))
}

/// Per group and queue kind, who finds it in its search order, the nearest first.
fn takers(topology: &Topology, groups: &[GroupPlace], search: &[Vec<Step>]) -> Vec<[Vec<GroupId>; 3]> {
    let one = |of: usize, kind: QueueKind| {
        let finds = |by: &usize| search[*by].iter().any(|step| step.group.index() == of && step.reach.includes(kind));
        let mut takers: Vec<usize> = (0..groups.len()).filter(finds).collect();
        takers.sort_by_key(|by| (*by != of, farness(topology, groups, of, *by)));
        takers.into_iter().map(|by| GroupId(by as u32)).collect()
    };
    (0..groups.len()).map(|of| QueueKind::ALL.map(|kind| one(of, kind))).collect()
}

fn groups_by_node(topology: &Topology, groups: &[GroupPlace]) -> BTreeMap<NodeId, Vec<GroupId>> {
    let all = || groups.iter().enumerate().map(|(index, group)| (GroupId(index as u32), group));
    let of = |node: NodeId| -> Vec<GroupId> {
        let own: Vec<GroupId> = all().filter(|(_, group)| group.node == node).map(|(id, _)| id).collect();
        if !own.is_empty() {
            return own;
        }
        let nearest = all().min_by_key(|(id, group)| (topology.distance(node, group.node), *id));
        let nearest = nearest.map(|(_, group)| group.node);
        all().filter(|(_, group)| Some(group.node) == nearest).map(|(id, _)| id).collect()
    };
    let nodes = topology.nodes().iter().map(|node| node.id).chain(groups.iter().map(|group| group.node));
    nodes.map(|node| (node, of(node))).collect()
}

/// The groups on a package's nodes, or those nearest to them where it has none.
fn groups_by_package(
    topology: &Topology,
    groups: &[GroupPlace],
    by_node: &BTreeMap<NodeId, Vec<GroupId>>,
) -> BTreeMap<PackageId, Vec<GroupId>> {
    let mut packages: BTreeMap<PackageId, Vec<GroupId>> = BTreeMap::new();
    for node in topology.nodes() {
        let Some(package) = node.package else { continue };
        let own = groups.iter().any(|group| group.package == Some(package));
        let near = by_node.get(&node.id).into_iter().flatten().copied();
        let near = near.filter(|group| !own || groups[group.index()].package == Some(package));
        packages.entry(package).or_default().extend(near);
    }
    for groups in packages.values_mut() {
        groups.sort_unstable();
        groups.dedup();
    }
    packages
}
