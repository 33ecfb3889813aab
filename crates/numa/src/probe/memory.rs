//! Memory for the probe: allocated by policy, touched, and proven to be where it was asked for.
//!
//! Invariant: nothing is timed on memory whose place is neither certain (a machine of one node) nor told by the kernel.

use std::path::Path;
use std::time::Duration;

use super::clock::Clock;
use crate::error::size;
use crate::ids::NodeId;
use crate::machine::Machine;
use crate::page_map::PageMap;
use crate::process::resident_bytes;
use crate::region::{Allocator, Region};
use crate::sys::probe::fill;
use crate::topology::Topology;
use crate::topology::files::{Tree, meminfo_bytes};

/// So much is touched to learn how fast pages come.
const TRIAL_BYTES: usize = 16 << 20;
/// Assumed where not even that can be had.
const TOUCH_RATE_ASSUMED: f64 = 1e9;
/// A page or two may lie elsewhere (the kernel's own choice at the edges) without changing a figure.
const MISPLACED_SHARE_MAX: f64 = 0.01;

/// What can be allocated on a node, by what the kernel tells; half of its memory where it does not.
pub fn node_free_bytes(topology: &Topology, node: NodeId) -> u64 {
    let machine = Machine::this();
    let of = topology.node(node);
    let told = machine.node_available_bytes(node).or(of.and_then(|n| n.free_bytes));
    let told = told.unwrap_or_else(|| of.map_or(0, |n| n.memory_bytes / 2));
    told.min(limit_left(topology))
}

/// What can be allocated on all nodes together.
pub(super) fn free_bytes(topology: &Topology) -> u64 {
    let told = Machine::this().available_bytes().unwrap_or(topology.memory_bytes() / 2);
    told.min(limit_left(topology))
}

fn limit_left(topology: &Topology) -> u64 {
    topology.memory_limit_bytes().map_or(u64::MAX, |limit| limit.saturating_sub(resident_bytes()))
}

/// How many bytes of fresh pages one thread touches in a second.
pub(super) fn touch_bytes_per_second(clock: &dyn Clock) -> f64 {
    let Ok(mut region) = Allocator::unplaced().region(TRIAL_BYTES) else { return TOUCH_RATE_ASSUMED };
    let start = clock.now();
    fill(region.words_mut(), 1);
    let taken = clock.now().saturating_sub(start).max(Duration::from_nanos(1));
    TRIAL_BYTES as f64 / taken.as_secs_f64()
}

/// Whether a region lies on this node, by the kernel.
///
/// # Errors
/// A sentence that says where it lies instead, or that nobody tells.
pub(super) fn verify(region: &Region, node: NodeId) -> Result<(), String> {
    placed_on(&PageMap::of(region), node, Machine::this().only_node())
}

fn placed_on(map: &PageMap, node: NodeId, only: Option<NodeId>) -> Result<(), String> {
    if !map.is_measured() {
        return match only {
            Some(only) if only == node => Ok(()),
            _ => Err("the kernel does not tell where memory lies (move_pages was refused)".to_string()),
        };
    }
    let bytes = map.bytes_per_node();
    let all = bytes.values().sum::<u64>() + map.unknown_bytes();
    let there = bytes.get(&node).copied().unwrap_or(0);
    if all.saturating_sub(there) as f64 <= all as f64 * MISPLACED_SHARE_MAX {
        return Ok(());
    }
    let lies: Vec<String> = bytes.iter().map(|(node, bytes)| format!("{} on node {node}", size(*bytes))).collect();
    let lies = if lies.is_empty() { "nowhere".to_string() } else { lies.join(", ") };
    Err(format!("of {} asked for on node {node}, the kernel says: {lies}", size(all)))
}

/// Where a region lies, for a note: the share of each node.
pub(super) fn shares(regions: &[&Region]) -> String {
    let mut map = std::collections::BTreeMap::new();
    for region in regions {
        for (node, bytes) in PageMap::of(region).bytes_per_node() {
            *map.entry(node).or_insert(0u64) += bytes;
        }
    }
    let all: u64 = map.values().sum();
    let share = |bytes: u64| format!("{:.0}%", bytes as f64 * 100.0 / all.max(1) as f64);
    map.iter().map(|(node, bytes)| format!("{} on node {node}", share(*bytes))).collect::<Vec<_>>().join(", ")
}

/// The share of a region that huge pages hold; `None` where the kernel does not tell.
pub(super) fn huge_page_share(region: &Region) -> Option<f64> {
    let text = Tree::new(Path::new("/")).text("proc/self/smaps")?;
    huge_share(&text, region.address(), region.len())
}

fn huge_share(smaps: &str, address: usize, len_bytes: usize) -> Option<f64> {
    let mut inside = false;
    let mut huge: Option<u64> = None;
    for line in smaps.lines() {
        if let Some((start, end)) = mapping(line) {
            inside = start < address.saturating_add(len_bytes) && end > address;
        } else if inside && let Some(bytes) = meminfo_bytes(line, "AnonHugePages") {
            huge = Some(huge.unwrap_or(0).saturating_add(bytes));
        }
    }
    // A neighbour that the kernel joined to the same mapping counts with it, hence the bound.
    huge.map(|bytes| (bytes as f64 / len_bytes.max(1) as f64).min(1.0))
}

/// The addresses of a line that begins a mapping: `7f00-7f10 rw-p ...`.
fn mapping(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::clock::Ticks;
    use super::*;
    use crate::policy::Policy;
    use crate::sys::deny::without_calls;

    #[test]
    fn touched_memory_is_proven_to_be_where_it_is() {
        let mut region = Allocator::unplaced().region(4 << 20).expect("memory");
        let node = Topology::discover().expect("a machine").usable_memory_nodes()[0];
        if Machine::this().only_node().is_some() && PageMap::of(&region).is_measured() {
            let error = verify(&region, node).expect_err("nothing is touched");
            assert!(error.contains("nowhere"), "{error}");
        }
        fill(region.words_mut(), 1);
        if Machine::this().only_node().is_some() {
            assert_eq!(verify(&region, node), Ok(()));
            assert_eq!(shares(&[&region]), format!("100% on node {node}"));
        }
    }

    #[test]
    fn memory_elsewhere_is_told_and_refused() {
        let mut region = Allocator::unplaced().region(1 << 20).expect("memory");
        fill(region.words_mut(), 1);
        let map = PageMap::of(&region);
        let elsewhere = NodeId(4000);
        if map.is_measured() {
            let error = placed_on(&map, elsewhere, None).expect_err("no such node");
            assert!(error.contains("1 MiB on node") && error.contains("node 4000"), "{error}");
        }
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_believed_of_one_node_only() {
        without_calls(&[libc::SYS_move_pages], libc::EPERM, || {
            let allocator = Allocator::unplaced().with_policy(Policy::Node(NodeId(0)));
            let mut region = allocator.region(1 << 20).expect("memory");
            fill(region.words_mut(), 1);
            let map = PageMap::of(&region);
            assert!(!map.is_measured());
            assert_eq!(placed_on(&map, NodeId(0), Some(NodeId(0))), Ok(()));
            assert!(placed_on(&map, NodeId(0), None).expect_err("unknown").contains("move_pages"));
        });
    }

    #[test]
    fn huge_pages_are_counted_in_the_mappings_of_a_region() {
        let smaps = "1000-3000 rw-p 0 0:0 0\nSize: 8 kB\nAnonHugePages:         2 kB\n\
                     3000-4000 rw-p 0 0:0 0\nAnonHugePages:         1 kB\n9000-a000 rw-p 0 0:0 0\nAnonHugePages: 64 \
                     kB\n";
        assert_eq!(huge_share(smaps, 0x1000, 0x3000), Some(0.25));
        assert_eq!(huge_share(smaps, 0x9000, 0x1000), Some(1.0));
        assert_eq!(huge_share(smaps, 0xb000, 0x1000), None);
        assert_eq!(huge_share("nothing", 0, 4096), None);
    }

    #[test]
    fn the_rate_of_touching_is_bytes_by_time() {
        let rate = touch_bytes_per_second(&Ticks::of(Duration::from_secs(1)));
        assert_eq!(rate, TRIAL_BYTES as f64);
    }
}
