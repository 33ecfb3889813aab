//! What cpus read together of their own nodes' memory, in a second or less: the roof that benchmarks hold their figures
//! against.
//!
//! # Limits
//! One kind of figure only, and each node by itself: nodes that share a memory controller (sub-domains of some
//! machines) together give less than the sum. [`super::run`] measures the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clock::Clock;
use super::measure;
use super::memory;
use super::stats::best;
use super::team::Timing;
use crate::ids::{CpuId, NodeId};
use crate::policy::Policy;
use crate::region::Allocator;
use crate::topology::Topology;

/// The buffer is `n` times the caches that could hold it.
const TIMES_CACHES: u64 = 4;
/// Bounds of a node's buffer.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = (64 << 20)..=(1 << 30);
/// The share of what is free that a buffer may take.
const FREE_SHARE: u64 = 4;
/// Windows are short, the best of them counts.
const TIMING: Timing = Timing { windows: 12, window: Duration::from_millis(15) };

/// Bytes per second that `threads` cpus read of memory of their own nodes, one thread per core before cores get a
/// second one: the sum over nodes of the best of several windows. `None` where no buffer could be had or it was
/// elsewhere.
pub fn read_bandwidth(topology: &Topology, threads: usize, clock: &dyn Clock) -> Option<f64> {
    let mut sum = None;
    for (node, cpus) in by_node(topology, threads) {
        let free = memory::node_free_bytes(topology, node) / FREE_SHARE;
        let wanted = caches_bytes(topology, &cpus) * TIMES_CACHES;
        let bytes = wanted.clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end()).min(free);
        let mut region = Allocator::unplaced().with_policy(Policy::Node(node)).region(bytes as usize).ok()?;
        measure::touch(&cpus, region.words_mut(), 1, clock);
        memory::verify(&region, node).ok()?;
        let rate = best(&measure::read(&cpus, region.words(), TIMING, clock).rates());
        sum = Some(sum.unwrap_or(0.0) + rate);
    }
    sum.filter(|rate| *rate > 0.0)
}

/// The first `threads` usable cpus by node, a cpu of every core first.
fn by_node(topology: &Topology, threads: usize) -> BTreeMap<NodeId, Vec<CpuId>> {
    let mut ranked: Vec<(usize, CpuId)> = Vec::new();
    for core in topology.cores() {
        let usable = core.cpus.iter().filter(|cpu| topology.usable_cpus().contains(cpu));
        ranked.extend(usable.enumerate().map(|(rank, cpu)| (rank, *cpu)));
    }
    ranked.sort();
    let mut chosen: BTreeMap<NodeId, Vec<CpuId>> = BTreeMap::new();
    for (_, cpu) in ranked.into_iter().take(threads.max(1)) {
        if let Some(node) = topology.node_of_cpu(cpu) {
            chosen.entry(node).or_default().push(cpu);
        }
    }
    chosen
}

/// Bytes of the last-level caches of these cpus.
fn caches_bytes(topology: &Topology, cpus: &[CpuId]) -> u64 {
    let theirs = || topology.caches().iter().filter(|cache| cache.cpus.iter().any(|cpu| cpus.contains(cpu)));
    let last = theirs().map(|cache| cache.level).max();
    theirs().filter(|cache| Some(cache.level) == last).map(|cache| cache.size_bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::super::clock::Ticks;
    use super::*;

    #[test]
    fn cores_come_before_their_second_threads() {
        let topology = Topology::synthetic(1, 2, 2, 2);
        let counts = |threads| by_node(&topology, threads).values().map(Vec::len).collect::<Vec<_>>();
        assert_eq!((counts(4), counts(8), counts(100)), (vec![2, 2], vec![4, 4], vec![4, 4]));
        let cores: Vec<_> = topology.cores().iter().map(|core| core.cpus[0]).collect();
        let mut four: Vec<_> = by_node(&topology, 4).into_values().flatten().collect();
        four.sort();
        assert_eq!(four, cores);
        assert_eq!(by_node(&topology, 0).len(), 1);
    }

    #[test]
    fn this_machine_reads_at_some_rate() {
        let topology = Topology::discover().expect("a machine");
        let rate = read_bandwidth(&topology, 1, &Ticks::of(Duration::from_millis(1)));
        assert!(rate.is_none_or(|rate| rate > 0.0));
    }
}
