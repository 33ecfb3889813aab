//! Reads the nodes of a machine: which are online, their cpus, memory and distances.

use std::collections::BTreeMap;

use super::files::{ID_MAX, meminfo_bytes};
use super::reader::{CPUS, Reader, named};
use super::{DISTANCE_REMOTE, DISTANCE_SELF, Node};
use crate::id_set::{IdSet, trim};
use crate::ids::{CpuId, NodeId};

pub(super) const NODES: &str = "sys/devices/system/node";

impl Reader {
    /// The online nodes with their online cpus, memory and distances.
    pub(super) fn nodes(&mut self, online: &IdSet) -> Vec<Node> {
        let ids = self.node_ids();
        if ids.is_empty() {
            self.warnings.add(format!("{NODES} describes no node; the machine is taken as one node 0 with all cpus"));
            let memory_bytes = self.machine_memory_bytes().unwrap_or(0);
            let distances = BTreeMap::from([(NodeId(0), DISTANCE_SELF)]);
            let cpus = online.iter().map(CpuId).collect();
            return vec![Node { cpus, memory_bytes, distances, ..Node::bare(NodeId(0)) }];
        }
        let has_cpu = self.tree.text(&format!("{NODES}/has_cpu")).as_deref().and_then(IdSet::parse_list);
        let mut taken = IdSet::default();
        let mut nodes = Vec::with_capacity(ids.len());
        for &id in &ids {
            let cpus = self.node_cpus(id, online);
            let twice = cpus.intersect(&taken);
            if !twice.is_empty() {
                let twice = named("cpu", &twice);
                self.warnings
                    .add(format!("several nodes list {twice}, which counts for the lowest and not for node {id}"));
            }
            let cpus = cpus.without(&taken);
            taken = taken.iter().chain(cpus.iter()).collect();
            if cpus.is_empty() && has_cpu.as_ref().is_some_and(|h| h.contains(id.0)) {
                self.warnings.add(format!("node {id} is said to have cpus but none of its cpus is online"));
            }
            // Where another node with memory went offline, the machine's memory is not this node's.
            let alone = ids.len() == 1 && self.has_memory().is_none_or(|with| with.iter().all(|node| node == id.0));
            let memory_bytes = self.node_memory_bytes(id, alone);
            let distances = self.distances(id, &ids);
            let cpus = cpus.iter().map(CpuId).collect();
            nodes.push(Node { cpus, memory_bytes, distances, ..Node::bare(id) });
        }
        let homeless = online.without(&taken);
        let adopted = self.adopt(&mut nodes, &homeless);
        let homeless = homeless.without(&adopted);
        if !homeless.is_empty() {
            let homeless = named("online cpu", &homeless);
            self.warnings.add(format!("no online node has {homeless}; used without a node"));
        }
        nodes
    }

    fn node_ids(&mut self) -> Vec<NodeId> {
        let there = self.tree.numbered(NODES, "node");
        if let Some(list) = self.believed_list(&format!("{NODES}/online"), "nodes are taken from their folders") {
            let unknown = list.without(&there);
            if !unknown.is_empty() {
                let unknown = named("node", &unknown);
                self.warnings.add(format!("said to be online but not described, so left out: {unknown}"));
            }
            let off = there.without(&list);
            if !off.is_empty() {
                let used = if off == there { "used all the same, as no other is there" } else { "left out" };
                self.warnings.add(format!("described but not said to be online, {used}: {}", named("node", &off)));
            }
        }
        if let Some(with) = self.has_memory() {
            let gone = with.without(&there);
            if !there.is_empty() && !gone.is_empty() {
                self.warnings.add(format!("said to have memory but offline: {}", named("node", &gone)));
            }
        }
        self.tree.online_nodes()
    }

    /// The online cpus of a node: as it lists them, else by the links in its folder.
    fn node_cpus(&mut self, id: NodeId, online: &IdSet) -> IdSet {
        let folder = format!("{NODES}/node{id}");
        let told = self.tree.set(&format!("{folder}/cpulist"), &format!("{folder}/cpumap"));
        if told.differs(online) {
            self.warnings.add(format!("list and mask of the cpus of node {id} differ; the mask is taken"));
        }
        let told = told.best().map(|set| set.intersect(online));
        if let Some(cpus) = told.as_ref().filter(|set| !set.is_empty()) {
            return cpus.clone();
        }
        let linked = self.tree.numbered(&folder, "cpu").intersect(online);
        if told.is_none() || !linked.is_empty() {
            self.warnings.add(format!("the cpus of node {id} are not told; its links to cpus are taken"));
        }
        linked
    }

    /// A cpu that no node claims may itself link to its node.
    fn adopt(&mut self, nodes: &mut [Node], homeless: &IdSet) -> IdSet {
        let mut adopted = Vec::new();
        for cpu in homeless.iter() {
            let linked = self.tree.numbered(&format!("{CPUS}/cpu{cpu}"), "node");
            if let Some(node) = nodes.iter_mut().find(|n| linked.contains(n.id.0)) {
                node.cpus.push(CpuId(cpu));
                node.cpus.sort_unstable();
                self.warnings.add(format!("node {} leaves out cpus that say they are in it; they are added", node.id));
                adopted.push(cpu);
            }
        }
        adopted.into_iter().collect()
    }

    fn node_memory_bytes(&mut self, id: NodeId, alone: bool) -> u64 {
        let text = self.tree.text(&format!("{NODES}/node{id}/meminfo"));
        if let Some(bytes) = text.and_then(|t| meminfo_bytes(&t, "MemTotal")) {
            // Memory that was plugged in later is missing from the node's count on some virtual machines.
            let whole = self.machine_memory_bytes().filter(|whole| alone && *whole > bytes);
            if whole.is_some() {
                self.warnings
                    .add(format!("node {id} tells of less memory than the machine has; the machine's is taken"));
            }
            return whole.unwrap_or(bytes);
        }
        self.memory_unknown = self.memory_unknown.iter().chain([id.0]).collect();
        let whole = if alone { self.machine_memory_bytes() } else { None };
        let assumed = if whole.is_some() { "the machine's" } else { "0" };
        self.warnings.add(format!("the memory of node {id} is not told; {assumed} is assumed"));
        whole.unwrap_or(0)
    }

    pub(super) fn machine_memory_bytes(&self) -> Option<u64> {
        meminfo_bytes(&self.tree.text("proc/meminfo")?, "MemTotal")
    }

    /// Nodes that memory can come from: those with some, and those that have some for all the kernel tells.
    pub(super) fn memory_nodes(&self, nodes: &[Node]) -> IdSet {
        let listed = self.has_memory();
        let has = |id: u32| listed.as_ref().map_or(self.memory_unknown.contains(id), |listed| listed.contains(id));
        let with: IdSet = nodes.iter().filter(|n| n.memory_bytes > 0 || has(n.id.0)).map(|n| n.id.0).collect();
        if with.is_empty() { nodes.iter().map(|n| n.id.0).collect() } else { with }
    }

    /// The nodes with memory as the kernel lists them; older kernels leave out those with high memory only.
    fn has_memory(&self) -> Option<IdSet> {
        let list = |name| self.tree.text(&format!("{NODES}/{name}")).as_deref().and_then(IdSet::parse_list);
        let listed = list("has_memory").or_else(|| list("has_normal_memory"))?;
        Some(listed.intersect(&IdSet::from_ranges(vec![(0, ID_MAX)])))
    }

    /// One row of the distance table. The kernel prints one number per online node, in ascending order; trees recorded
    /// while nodes went offline have one per possible node.
    fn distances(&mut self, id: NodeId, online: &[NodeId]) -> BTreeMap<NodeId, u32> {
        let path = format!("{NODES}/node{id}/distance");
        let text = self.tree.text(&path).unwrap_or_default();
        let row: Vec<Option<u32>> = trim(&text).split_whitespace().map(|w| w.parse().ok()).collect();
        let possible = self.tree.text(&format!("{NODES}/possible")).as_deref().and_then(IdSet::parse_list);
        let possible: Vec<NodeId> =
            possible.filter(|p| p.len() == row.len() as u64).iter().flat_map(|p| p.iter()).map(NodeId).collect();
        let positional: Vec<NodeId> = (0..row.len() as u32).map(NodeId).collect();
        let at = |ids: &[NodeId]| ids.iter().position(|n| *n == id).and_then(|i| row.get(i).copied().flatten());
        let fits = |ids: &[NodeId]| ids.len() == row.len() && online.iter().all(|n| ids.contains(n));
        let candidates = [online, &possible, &positional];
        let columns = candidates
            .iter()
            .find(|ids| fits(ids) && at(ids) == Some(DISTANCE_SELF))
            .or_else(|| candidates.iter().find(|ids| fits(ids)))
            .map_or(online, |ids| ids);
        let told: BTreeMap<NodeId, u32> =
            columns.iter().copied().zip(row.iter().copied()).filter_map(|(n, d)| Some((n, d?))).collect();
        online.iter().map(|&to| (to, self.believed_distance(id, to, told.get(&to).copied()))).collect()
    }

    fn believed_distance(&mut self, from: NodeId, to: NodeId, told: Option<u32>) -> u32 {
        match told {
            Some(DISTANCE_SELF) if from == to => DISTANCE_SELF,
            Some(other) if from == to => {
                self.warnings.add(format!("node {from} is said to be {other} from itself; {DISTANCE_SELF} is assumed"));
                DISTANCE_SELF
            }
            Some(distance) if distance >= DISTANCE_SELF => distance,
            Some(distance) => {
                self.warnings.add(format!(
                    "node {from} is said to be {distance} from node {to}, nearer than from \
                                           itself; {DISTANCE_REMOTE} is assumed"
                ));
                DISTANCE_REMOTE
            }
            None => {
                let assumed = if from == to { DISTANCE_SELF } else { DISTANCE_REMOTE };
                self.warnings.add(format!(
                    "node {from} tells no distances, or not all; {DISTANCE_SELF} to itself and \
                                           {DISTANCE_REMOTE} to others are assumed"
                ));
                assumed
            }
        }
    }
}
