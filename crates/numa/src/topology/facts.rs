//! What is known of a machine as it is written to JSON and read back.
//!
//! Invariants: a machine read from JSON keeps every invariant of the topology module, or is refused with what is wrong;
//! what follows from other facts (tiers, hop classes, sub-domains, defaults) is derived anew, not believed.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::derive;
use super::types::{Cache, Core, CpuGroup, CpuQuota, HopClass, Node, Package, SubDomains, Tier};
use super::{DISTANCE_SELF, Topology};
use crate::ids::{CpuId, NodeId};

/// All of a [`Topology`] but its look-up tables. The keys up to `warnings` are those of the first release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) nodes: Vec<Node>,
    pub(super) packages: Vec<Package>,
    pub(super) cores: Vec<Core>,
    pub(super) caches: Vec<Cache>,
    pub(super) online_cpus: Vec<CpuId>,
    pub(super) usable_cpus: Vec<CpuId>,
    pub(super) usable_memory_nodes: Vec<NodeId>,
    #[serde(default)]
    pub(super) memory_limit_bytes: Option<u64>,
    #[serde(default)]
    pub(super) memory_bytes: u64,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
    #[serde(default)]
    pub(super) cpu_model: Option<String>,
    #[serde(default)]
    pub(super) dies: Vec<CpuGroup>,
    #[serde(default)]
    pub(super) clusters: Vec<CpuGroup>,
    #[serde(default)]
    pub(super) books: Vec<CpuGroup>,
    #[serde(default)]
    pub(super) drawers: Vec<CpuGroup>,
    #[serde(default)]
    pub(super) cpu_quota: Option<CpuQuota>,
    // Derived from here on.
    #[serde(default)]
    pub(super) default_threads: usize,
    #[serde(default)]
    pub(super) default_memory_bytes: u64,
    #[serde(default)]
    pub(super) sub_domains: Vec<SubDomains>,
    #[serde(default)]
    pub(super) tiers: Vec<Tier>,
    #[serde(default)]
    pub(super) hop_classes: Vec<HopClass>,
}

impl Facts {
    /// The machine; fills in what follows from the rest.
    pub(super) fn finish(mut self) -> Topology {
        let quota = self.cpu_quota.map_or(usize::MAX, |quota| quota.cpus());
        self.default_threads = self.usable_cpus.len().min(quota).max(1);
        self.default_memory_bytes = self.memory_bytes / 5 * 4;
        self.sub_domains = derive::sub_domains(&self.nodes);
        self.tiers = derive::tiers(&self.nodes);
        self.hop_classes = derive::hop_classes(&self.nodes);
        let node_by_cpu: BTreeMap<CpuId, NodeId> =
            self.nodes.iter().flat_map(|n| n.cpus.iter().map(|cpu| (*cpu, n.id))).collect();
        let class_by_distance = self.hop_classes.iter().map(|c| ((c.kind, c.distance), c.class as usize)).collect();
        Topology { facts: self, node_by_cpu, class_by_distance }
    }

    /// The first invariant that does not hold.
    fn fault(&self) -> Option<String> {
        let online = |cpus: &[CpuId]| cpus.iter().all(|cpu| self.online_cpus.binary_search(cpu).is_ok());
        let sound = |cpus: &[CpuId]| ascending(cpus) && online(cpus);
        let node = |id: &NodeId| self.nodes.binary_search_by_key(id, |n| n.id).is_ok();
        let package = |id| self.packages.binary_search_by_key(id, |p: &Package| p.id).is_ok();
        let faults = [
            (self.nodes.is_empty(), "it has no nodes"),
            (self.online_cpus.is_empty() || self.usable_cpus.is_empty(), "it has no cpus that may be used"),
            (self.usable_memory_nodes.is_empty(), "it has no node whose memory may be used"),
            (!self.nodes.windows(2).all(|w| w[0].id < w[1].id), "its nodes do not ascend"),
            (!self.packages.windows(2).all(|w| w[0].id < w[1].id), "its packages do not ascend"),
            (!ascending(&self.online_cpus), "its online cpus do not ascend"),
            (!sound(&self.usable_cpus), "its usable cpus do not ascend or are not online"),
            (
                !ascending(&self.usable_memory_nodes) || !self.usable_memory_nodes.iter().all(node),
                "its usable memory nodes do not ascend or are not there",
            ),
            (
                self.caches.iter().any(|c| c.cpus.is_empty() || !sound(&c.cpus)),
                "a cache has no cpus, or cpus that do not ascend or are not online",
            ),
            (
                self.packages.iter().any(|p| !sound(&p.cpus) || !p.nodes.iter().all(node)),
                "a package has cpus or nodes that are not there",
            ),
            (
                self.nodes.iter().filter_map(|n| n.package.as_ref()).any(|p| !package(p))
                    || self.cores.iter().filter_map(|c| c.package.as_ref()).any(|p| !package(p))
                    || self.groups().filter_map(|g| g.package.as_ref()).any(|p| !package(p)),
                "a node, core or group of cpus names a package that is not there",
            ),
            (
                self.groups().any(|g| g.cpus.is_empty() || !sound(&g.cpus) || !g.nodes.iter().all(node)),
                "a die, cluster, book or drawer has cpus or nodes that are not there",
            ),
            (self.cpu_quota.is_some_and(|q| q.period_us == 0), "its cpu quota has a period of 0"),
        ];
        let of_nodes = || self.nodes.iter().find_map(|n| self.node_fault(n));
        let first = faults.iter().find(|(wrong, _)| *wrong).map(|(_, what)| (*what).to_string());
        first.or_else(of_nodes).or_else(|| self.cpu_fault())
    }

    fn groups(&self) -> impl Iterator<Item = &CpuGroup> {
        self.dies.iter().chain(&self.clusters).chain(&self.books).chain(&self.drawers)
    }

    fn node_fault(&self, node: &Node) -> Option<String> {
        let id = node.id;
        if !node.distances.keys().eq(self.nodes.iter().map(|n| &n.id)) {
            return Some(format!("node {id} does not tell its distance to every node"));
        }
        if node.distances[&id] != DISTANCE_SELF || node.distances.values().any(|d| *d < DISTANCE_SELF) {
            return Some(format!("node {id} is not {DISTANCE_SELF} from itself, or nearer to another node"));
        }
        if node.pages.iter().any(|p| p.size_bytes == 0) {
            return Some(format!("node {id} has pages of no size"));
        }
        None
    }

    /// Every cpu is in exactly one core and in one node at most.
    fn cpu_fault(&self) -> Option<String> {
        let sorted = |lists: Vec<&Vec<CpuId>>| {
            let mut cpus: Vec<CpuId> = lists.into_iter().flatten().copied().collect();
            cpus.sort_unstable();
            cpus
        };
        if self.cores.iter().any(|c| !ascending(&c.cpus) || c.cpus.is_empty())
            || sorted(self.cores.iter().map(|c| &c.cpus).collect()) != self.online_cpus
        {
            return Some("its cores do not hold every online cpu once".to_string());
        }
        let in_nodes = sorted(self.nodes.iter().map(|n| &n.cpus).collect());
        let online = in_nodes.iter().all(|cpu| self.online_cpus.binary_search(cpu).is_ok());
        if !ascending(&in_nodes) || !online || self.nodes.iter().any(|n| !ascending(&n.cpus)) {
            return Some("its nodes name a cpu twice, out of order, or one that is not online".to_string());
        }
        None
    }
}

/// Strictly, so that nothing occurs twice.
fn ascending<T: PartialOrd>(list: &[T]) -> bool {
    list.windows(2).all(|w| w[0] < w[1])
}

impl Serialize for Topology {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.facts.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Topology {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Topology, D::Error> {
        let facts = Facts::deserialize(deserializer)?;
        match facts.fault() {
            Some(fault) => Err(de::Error::custom(format!("this is no machine: {fault}"))),
            None => Ok(facts.finish()),
        }
    }
}
