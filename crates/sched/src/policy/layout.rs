//! Slots and thread groups of a machine, and what follows from them: routes, search orders, whom to wake.
//!
//! Invariants: every group has a slot; every node of the topology leads to a group (the nearest one where it has no
//! slot of its own); whoever finds a queue in its search order is among those that a task there can wake, and back.
//!
//! # Limits
//! Loads count tasks, not their weight.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1; Greinsmark 2020 (stealing off, neighbour, any).

use std::collections::BTreeMap;

use numa::{CpuId, NodeId, PackageId, Topology};

use super::split::{self, Cpus, Split};
use super::{GroupId, QueueKind, QueueTarget, Reach};
use crate::affinity::{Affinity, Place, SlotId};
use crate::settings::Stealing;

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
    /// Its usable cpus, of one node: what its workers are pinned to.
    pub cpus: Vec<CpuId>,
}

/// A stop on a worker's search: a group and which of its queues may be taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchStep {
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
    search: Vec<Vec<SearchStep>>,
    takers: Vec<[Vec<GroupId>; QueueKind::COUNT]>,
}

impl Layout {
    /// Lays `threads` slots (one per usable cpu when `None`) evenly over the nodes of `topology`, and over the groups
    /// of a node, cores before their SMT siblings.
    pub fn new(topology: &Topology, threads: Option<usize>, split: Split) -> Layout {
        let nodes = split::groups(topology, split);
        let cpus: Vec<usize> = nodes.iter().map(|(_, groups)| groups.iter().map(Vec::len).sum()).collect();
        let counts = spread(&cpus, threads.map(|threads| threads.max(1)));
        let siblings = split::siblings(topology);
        let mut slots = Vec::new();
        let mut groups: Vec<GroupPlace> = Vec::new();
        for ((node, of_node), count) in nodes.into_iter().zip(counts) {
            let chosen = deal(&of_node, &siblings, count);
            for (cpus, mut chosen) in of_node.into_iter().zip(chosen) {
                if chosen.is_empty() {
                    continue;
                }
                chosen.sort_by_key(|cpu| cpus.iter().position(|own| own == cpu));
                let group = GroupId(groups.len() as u32);
                let first = slots.len() as u32;
                slots.extend(chosen.into_iter().enumerate().map(|(place, cpu)| SlotPlace { cpu, group, place }));
                groups.push(GroupPlace {
                    node,
                    package: topology.node(node).and_then(|node| node.package),
                    slots: (first..slots.len() as u32).map(SlotId).collect(),
                    cpus,
                });
            }
        }
        let search = search_orders(topology, &groups);
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
    pub fn group_of(&self, target: QueueTarget) -> GroupId {
        match target {
            QueueTarget::Slot(slot) => self.slot(slot).group,
            QueueTarget::Group(group, _) => group,
        }
    }

    /// Which queue a task of this affinity goes to. `caller` is the slot of the worker that submits it; `loads` tells,
    /// per group, the tasks queued or running there, and is asked only where there is a choice.
    pub fn route(
        &self,
        affinity: Affinity,
        stealing: Stealing,
        caller: Option<SlotId>,
        loads: &dyn Fn(GroupId) -> usize,
    ) -> QueueTarget {
        let soft = match stealing {
            Stealing::Off => QueueKind::NodeHard,
            Stealing::Neighbour => QueueKind::Neighbour,
            Stealing::Any => QueueKind::Stealable,
        };
        match affinity {
            Affinity::Slot(SlotId(slot)) => QueueTarget::Slot(SlotId(slot % self.slots.len() as u32)),
            Affinity::Anywhere => self.route_anywhere(soft, caller, loads),
            Affinity::Near { place, hard } => {
                let (groups, kind) = match place {
                    Place::Node(node) => (self.by_node.get(&node), QueueKind::NodeHard),
                    Place::Package(package) => (self.by_package.get(&package), QueueKind::PackageHard),
                };
                match groups.and_then(|groups| self.least_loaded(groups.iter().copied(), loads)) {
                    Some(group) => QueueTarget::Group(group, if hard { kind } else { soft }),
                    None => self.route_anywhere(soft, caller, loads),
                }
            }
        }
    }

    /// Where a worker looks for a task, in this order: its own group, the others of its node, then other nodes by
    /// distance. In its own group it also has its private queue.
    pub fn search(&self, group: GroupId) -> &[SearchStep] {
        &self.search[group.index()]
    }

    /// Whether the worker of `slot` may take what is queued at `target`.
    pub fn may_take(&self, slot: SlotId, target: QueueTarget) -> bool {
        match target {
            QueueTarget::Slot(owner) => owner == slot,
            QueueTarget::Group(group, kind) => {
                self.search(self.slot(slot).group).iter().any(|step| step.group == group && step.reach.includes(kind))
            }
        }
    }

    /// The groups whose workers may take what is queued at `target`, the nearest first.
    pub fn takers(&self, target: QueueTarget) -> &[GroupId] {
        match target {
            // The slot's own group comes first in its list of hard tasks.
            QueueTarget::Slot(slot) => &self.takers[self.slot(slot).group.index()][QueueKind::NodeHard.index()][..1],
            QueueTarget::Group(group, kind) => &self.takers[group.index()][kind.index()],
        }
    }

    /// Whom a task at `target` wakes: `asleep` says which groups have an idle worker, and is asked in order of
    /// preference until it says yes (so it may be the waking itself). `None`: all that could take the task are at work
    /// and will look when they are done.
    pub fn wake(&self, target: QueueTarget, mut asleep: impl FnMut(GroupId) -> bool) -> Option<Wake> {
        match target {
            QueueTarget::Slot(slot) => Some(Wake::Slot(slot)),
            QueueTarget::Group(..) => self.takers(target).iter().copied().find(|group| asleep(*group)).map(Wake::Group),
        }
    }

    fn route_anywhere(&self, kind: QueueKind, caller: Option<SlotId>, loads: &dyn Fn(GroupId) -> usize) -> QueueTarget {
        let group = match caller {
            Some(slot) => self.slot(slot).group,
            None => {
                let all = (0..self.groups.len() as u32).map(GroupId);
                self.least_loaded(all, loads).unwrap_or(GroupId(0))
            }
        };
        QueueTarget::Group(group, kind)
    }

    /// The group with the fewest tasks per slot; the first of equals.
    fn least_loaded(
        &self,
        mut groups: impl ExactSizeIterator<Item = GroupId>,
        loads: &dyn Fn(GroupId) -> usize,
    ) -> Option<GroupId> {
        if groups.len() <= 1 {
            return groups.next();
        }
        let load = |group: GroupId| (group, loads(group) as u128, self.group(group).slots.len() as u128);
        let fewer = |best: (GroupId, u128, u128), next: (GroupId, u128, u128)| {
            if next.1 * best.2 < best.1 * next.2 { next } else { best }
        };
        groups.map(load).reduce(fewer).map(|(group, ..)| group)
    }
}

/// Deals `count` slots of a node out over its groups: every core's first cpu of all groups in turn, then the siblings,
/// and again from the start when there are more slots than cpus. The cpus chosen, per group.
fn deal(groups: &[Cpus], siblings: &BTreeMap<CpuId, usize>, count: usize) -> Vec<Vec<CpuId>> {
    let mut order: Vec<(usize, usize, usize, CpuId)> = Vec::new();
    for (group, cpus) in groups.iter().enumerate() {
        let mut ranks: BTreeMap<usize, usize> = BTreeMap::new();
        for cpu in cpus {
            let sibling = siblings.get(cpu).copied().unwrap_or(0);
            let rank = ranks.entry(sibling).or_default();
            order.push((sibling, *rank, group, *cpu));
            *rank += 1;
        }
    }
    order.sort_unstable();
    let mut chosen = vec![Vec::new(); groups.len()];
    for (_, _, group, cpu) in order.iter().cycle().take(count) {
        chosen[*group].push(*cpu);
    }
    chosen
}

/// How many slots each node gets: one per cpu, or `threads` dealt out in turn, each cpu once before any twice.
fn spread(full: &[usize], threads: Option<usize>) -> Vec<usize> {
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
    let a = &groups[from];
    let b = &groups[to];
    let rotated = (to + groups.len() - from) % groups.len();
    (a.node != b.node, !same_package(a, b), topology.distance(a.node, b.node), rotated)
}

fn same_package(a: &GroupPlace, b: &GroupPlace) -> bool {
    a.node == b.node || (a.package.is_some() && a.package == b.package)
}

fn search_orders(topology: &Topology, groups: &[GroupPlace]) -> Vec<Vec<SearchStep>> {
    let one = |from: usize| {
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by_key(|to| (*to != from, farness(topology, groups, from, *to)));
        let step = |to: usize| SearchStep { group: GroupId(to as u32), reach: reach(topology, groups, from, to) };
        order.into_iter().map(step).collect()
    };
    (0..groups.len()).map(one).collect()
}

/// What a worker of group `from` may take from group `to`. Whether a soft task may be stolen, and how far, is decided
/// when it is queued: by the kind of its queue.
fn reach(topology: &Topology, groups: &[GroupPlace], from: usize, to: usize) -> Reach {
    if groups[from].node == groups[to].node {
        return Reach::ALL;
    }
    let mut reach = Reach::default().with(QueueKind::Stealable);
    if same_package(&groups[from], &groups[to]) {
        reach = reach.with(QueueKind::PackageHard);
    }
    if neighbours(topology, groups, from, to) { reach.with(QueueKind::Neighbour) } else { reach }
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
fn takers(
    topology: &Topology,
    groups: &[GroupPlace],
    search: &[Vec<SearchStep>],
) -> Vec<[Vec<GroupId>; QueueKind::COUNT]> {
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
