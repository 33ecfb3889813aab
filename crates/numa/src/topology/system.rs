//! Warnings about how the machine is set up: what it means for who runs queries here, and what to do.
//!
//! # Limits
//! Settings that a recording leaves out are taken as harmless. Nothing is changed: each warning says how.

use std::collections::BTreeSet;

use super::files::meminfo_bytes;
use super::reader::{Reader, named};
use super::usable::Usable;
use super::{CpuQuota, DISTANCE_SELF, MemoryKind, Node};
use crate::error::size;
use crate::id_set::{IdSet, trim};
use crate::ids::CpuId;

/// A memory limit below this leaves no room for tables worth placing.
const LIMIT_SMALL_BYTES: u64 = 512 << 20;

impl Reader {
    /// Adds a warning for every setting that gets in the way.
    pub(super) fn warn_of_settings(&mut self, nodes: &[Node], online: &IdSet, usable: &Usable) {
        if nodes.len() > 1 {
            self.warn_of_placement(nodes);
            self.warn_of_nodes(nodes, usable);
        }
        self.warn_of_pages();
        if let Some(quota) = usable.cpu_quota.filter(|q| (q.cpus() as u64) < usable.cpus.len()) {
            self.warnings.add(quota_warning(quota, usable.cpus.len()));
        }
        if let Some(limit) = usable.memory_limit_bytes.filter(|limit| *limit < LIMIT_SMALL_BYTES) {
            self.warnings.add(format!(
                "the control group's memory limit is {}: tables and queries get less than that, and the kernel kills \
                 what passes it; raise the limit (memory.max)",
                size(limit)
            ));
        }
        if usable.cpus.len() == 1 && online.len() > 2 {
            self.warnings.add(format!(
                "only one of {} cpus may be used: queries run on one thread; widen the affinity mask or the cpuset",
                online.len()
            ));
        }
    }

    /// Settings by which the kernel moves pages that were placed.
    fn warn_of_placement(&mut self, nodes: &[Node]) {
        if self.tree.number("proc/sys/kernel/numa_balancing").is_some_and(|mode| mode > 0) {
            self.warnings.add(
                "automatic NUMA balancing is on: the kernel unmaps pages to watch who reads them and moves some, which \
                 costs time and works against placement; turn it off with 'sysctl kernel.numa_balancing=0'"
                    .to_string(),
            );
        }
        if self.tree.number("proc/sys/vm/zone_reclaim_mode").is_some_and(|mode| mode > 0) {
            self.warnings.add(
                "zone reclaim is on: a node that is full drops file pages before it takes memory of another node, so \
                 that loading stalls; turn it off with 'sysctl vm.zone_reclaim_mode=0'"
                    .to_string(),
            );
        }
        let demotion = self.tree.text("sys/kernel/mm/numa/demotion_enabled");
        let slow = nodes.iter().any(|n| n.cpus.is_empty() && n.memory_kind != MemoryKind::Hbm && n.memory_bytes > 0);
        if slow && demotion.is_some_and(|t| ["true", "1"].contains(&trim(&t))) {
            self.warnings.add(
                "demotion is on: when a node fills up, the kernel moves its pages to slower memory behind our back; \
                 turn it off with 'echo false > /sys/kernel/mm/numa/demotion_enabled'"
                    .to_string(),
            );
        }
    }

    /// Nodes that are odd, or of which only half may be used.
    fn warn_of_nodes(&mut self, nodes: &[Node], usable: &Usable) {
        let bare: IdSet = nodes.iter().filter(|n| !n.cpus.is_empty() && n.memory_bytes == 0).map(|n| n.id.0).collect();
        let bare = bare.without(&self.memory_unknown);
        if !bare.is_empty() {
            let has = if bare.len() == 1 { "has" } else { "have" };
            let bare = named("node", &bare);
            self.warnings.add(format!(
                "{bare} {has} cpus but no memory: all that they read lies elsewhere; look whether memory modules are \
                 missing"
            ));
        }
        let near = |n: &Node| n.distances.iter().any(|(to, d)| *to != n.id && *d == DISTANCE_SELF);
        if nodes.iter().any(near) {
            self.warnings.add(format!(
                "some nodes are said to be {DISTANCE_SELF} from each other, as if they were one: the firmware or \
                 hypervisor tells no true distances, so nearness is unknown; 'nearside probe' measures it"
            ));
        }
        let far: BTreeSet<CpuId> = nodes
            .iter()
            .filter(|n| !usable.nodes.contains(n.id.0) && n.memory_bytes > 0)
            .flat_map(|n| n.cpus.iter().copied().filter(|cpu| usable.cpus.contains(cpu.0)))
            .collect();
        if !far.is_empty() {
            let far = named("cpu", &far.iter().map(|cpu| cpu.0).collect());
            self.warnings.add(format!(
                "{far} may be used, but not the memory of their nodes: all that they read lies elsewhere; widen the \
                 memory nodes of the cpuset (cpuset.mems)"
            ));
        }
    }

    fn warn_of_pages(&mut self) {
        let huge = self.tree.text("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        if huge.contains("[never]") {
            self.warnings.add(
                "transparent huge pages are off (never): scans miss the TLB more often; allow them where asked for \
                 with 'echo madvise > /sys/kernel/mm/transparent_hugepage/enabled'"
                    .to_string(),
            );
        }
        let meminfo = self.tree.text("proc/meminfo").unwrap_or_default();
        let swap = |key| meminfo_bytes(&meminfo, key);
        if let (Some(total), Some(free)) = (swap("SwapTotal"), swap("SwapFree"))
            && total > free
        {
            self.warnings.add(format!(
                "{} of swap are in use: what was swapped out has lost its node and is read from disk; free memory, \
                 then 'swapoff -a && swapon -a'",
                size(total - free)
            ));
        }
    }
}

fn quota_warning(quota: CpuQuota, usable: u64) -> String {
    let cpus = quota.quota_us as f64 / quota.period_us.max(1) as f64;
    format!(
        "the control group grants the time of {cpus:.1} of {usable} cpus: more threads than {} would be held back for \
         part of every period; raise the quota (cpu.max)",
        quota.cpus()
    )
}
