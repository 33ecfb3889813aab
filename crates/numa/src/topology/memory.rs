//! Reads what the nodes' memory is: page sizes, memory-side caches, what the firmware declares, kinds and kernel tiers.
//!
//! # Limits
//! The kind of memory without cpus is a guess from what speaks for it, in this order: a GPU driver or a memory device
//! that names the node, a cpu model that is known for its HBM, declared speeds, the kernel's tiers. Where nothing
//! speaks, such memory is taken as an expander (CXL). Machines whose only memory is HBM show as DRAM.

use std::collections::BTreeMap;

use super::derive;
use super::files::{ID_MAX, meminfo_bytes};
use super::nodes::NODES;
use super::reader::{FIRST_CPU_BYTES, Reader};
use super::{Access, MemoryKind, Node, Pages, SideCache};
use crate::id_set::{IdSet, trim};
use crate::ids::NodeId;

const TIERS: &str = "sys/devices/virtual/memory_tiering";
const DAX: &str = "sys/bus/dax/devices";
const NVIDIA: &str = "proc/driver/nvidia/gpus";
/// No machine has more levels of memory-side cache, or more access classes, that are worth reading.
const SIDE_CACHES_MAX: usize = 8;
/// A page size above this is no page size.
const PAGE_KIB_MAX: u64 = 1 << 30;

impl Reader {
    /// Fills in all that is told of the nodes' memory but its amount.
    pub(super) fn describe_memory(&mut self, nodes: &mut [Node], cpu_model: Option<&str>) {
        let kernel_tiers = self.kernel_tiers();
        let devices = self.memory_devices();
        let alone = nodes.len() == 1;
        let base_bytes = self.base_page_bytes();
        let ids: IdSet = nodes.iter().map(|n| n.id.0).collect();
        for node in nodes.iter_mut() {
            let folder = format!("{NODES}/node{}", node.id);
            let meminfo = self.tree.text(&format!("{folder}/meminfo"));
            let meminfo = meminfo.or_else(|| self.tree.text("proc/meminfo").filter(|_| alone));
            node.free_bytes = meminfo.and_then(|t| meminfo_bytes(&t, "MemFree")).map(|f| f.min(node.memory_bytes));
            node.pages = self.pages(&folder, node, base_bytes, alone);
            node.side_caches = self.side_caches(&folder);
            node.access = self.access(&folder, &ids);
            node.kernel_tier = kernel_tiers.iter().find(|(_, nodes)| nodes.contains(node.id.0)).map(|(tier, _)| *tier);
        }
        let of_phi = self.is_xeon_phi(cpu_model);
        let kinds: Vec<MemoryKind> = nodes
            .iter()
            .map(|node| match devices.get(&node.id) {
                _ if !node.cpus.is_empty() || node.memory_bytes == 0 => MemoryKind::Dram,
                Some(Device::Kind(kind)) => *kind,
                Some(Device::Special) => by_speed(node, nodes).unwrap_or(MemoryKind::Hbm),
                None if of_phi => MemoryKind::Hbm,
                None if self.has_offline_cpus(node.id) => MemoryKind::Dram,
                None => by_speed(node, nodes).unwrap_or(MemoryKind::Cxl),
            })
            .collect();
        for (node, kind) in nodes.iter_mut().zip(kinds) {
            node.memory_kind = kind;
        }
    }

    /// Machines whose memory without cpus is HBM on the package: by name, or by what no other x86 cpu can do.
    fn is_xeon_phi(&self, cpu_model: Option<&str>) -> bool {
        let named = cpu_model.is_some_and(|m| m.to_ascii_lowercase().contains("xeon phi"));
        named
            || self
                .tree
                .head("proc/cpuinfo", FIRST_CPU_BYTES)
                .is_some_and(|t| t.lines().any(|l| l.starts_with("flags") && l.contains(" avx512er")))
    }

    /// The bytes of an ordinary page: asked of the kernel for this machine; else from the huge pages that go with it.
    fn base_page_bytes(&self) -> u64 {
        if self.live {
            return crate::sys::page_bytes() as u64;
        }
        let huge = self.huge_page_kib("sys/kernel/mm/hugepages");
        let kib = match huge.as_slice() {
            sizes if sizes.contains(&524_288) || sizes.contains(&16_384) => 64,
            sizes if sizes.contains(&32_768) => 16,
            _ => 4,
        };
        kib << 10
    }

    /// The sizes of huge pages, ascending, in KiB.
    fn huge_page_kib(&self, folder: &str) -> Vec<u64> {
        let size = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
        let mut sizes: Vec<u64> = self.tree.names(folder).iter().filter_map(|name| size(name)).collect();
        sizes.retain(|kib| (1..=PAGE_KIB_MAX).contains(kib));
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn pages(&self, folder: &str, node: &Node, base_bytes: u64, alone: bool) -> Vec<Pages> {
        let Some(free_bytes) = node.free_bytes else { return Vec::new() };
        let mut of = format!("{folder}/hugepages");
        if alone && !self.tree.is_dir(&of) {
            of = "sys/kernel/mm/hugepages".to_string();
        }
        let number = |path: String| self.tree.number(&path).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let mut left_bytes = node.memory_bytes;
        let mut pages = Vec::new();
        for kib in self.huge_page_kib(&of) {
            let size_bytes = kib << 10;
            // A kernel cannot set aside more than there is.
            let total = number(format!("{of}/hugepages-{kib}kB/nr_hugepages")).min(left_bytes / size_bytes);
            let free = number(format!("{of}/hugepages-{kib}kB/free_hugepages")).min(total);
            left_bytes -= total * size_bytes;
            pages.push(Pages { size_bytes, total, free });
        }
        let base = Pages {
            size_bytes: base_bytes,
            total: left_bytes / base_bytes,
            free: (free_bytes / base_bytes).min(left_bytes / base_bytes),
        };
        pages.insert(0, base);
        pages
    }

    fn side_caches(&self, folder: &str) -> Vec<SideCache> {
        let folder = format!("{folder}/memory_side_cache");
        let number = |path: String| self.tree.number(&path).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let levels = self.tree.numbered(&folder, "index");
        let cache = |level: u32| SideCache {
            level,
            size_bytes: number(format!("{folder}/index{level}/size")),
            line_bytes: number(format!("{folder}/index{level}/line_size")),
        };
        levels.iter().take(SIDE_CACHES_MAX).map(cache).collect()
    }

    /// Declared access, where anything is declared: firmware without figures prints zeros.
    fn access(&self, folder: &str, ids: &IdSet) -> Vec<Access> {
        let class = |class: u32| {
            let of = format!("{folder}/access{class}/initiators");
            let number = |name: &str| {
                let number = u64::try_from(self.tree.number(&format!("{of}/{name}"))?).ok()?;
                Some(number).filter(|n| *n > 0)
            };
            // The kernel tells MB/s.
            let rate = |name: &str| number(name).map(|mb| mb.saturating_mul(1_000_000));
            let access = Access {
                class,
                initiators: self.tree.numbered(&of, "node").intersect(ids).iter().map(NodeId).collect(),
                read_latency_ns: number("read_latency"),
                write_latency_ns: number("write_latency"),
                read_bytes_per_second: rate("read_bandwidth"),
                write_bytes_per_second: rate("write_bandwidth"),
            };
            (access != Access { class, ..Access::default() }).then_some(access)
        };
        self.tree.numbered(folder, "access").iter().filter(|c| *c <= 1).filter_map(class).collect()
    }

    fn kernel_tiers(&self) -> Vec<(u32, IdSet)> {
        let nodes = |tier: u32| {
            let text =
                ["nodelist", "nodes"].iter().find_map(|f| self.tree.text(&format!("{TIERS}/memory_tier{tier}/{f}")));
            Some((tier, IdSet::parse_list(&text?)?))
        };
        self.tree.numbered(TIERS, "memory_tier").iter().filter_map(nodes).collect()
    }

    /// Nodes that a device names as its memory.
    fn memory_devices(&self) -> BTreeMap<NodeId, Device> {
        let mut found = BTreeMap::new();
        for name in self.tree.names(DAX) {
            let folder = format!("{DAX}/{name}");
            let Some(node) = self.tree.number(&format!("{folder}/target_node")) else { continue };
            let Some(node) = u32::try_from(node).ok().filter(|n| *n <= ID_MAX) else { continue };
            let path = self.tree.link(&folder).unwrap_or_default();
            let device = match path {
                path if path.contains("ndbus") || path.contains("ACPI0012") => Device::Kind(MemoryKind::Pmem),
                path if path.contains("cxl") || path.contains("region") || path.contains("ACPI0017") => {
                    Device::Kind(MemoryKind::Cxl)
                }
                _ => Device::Special,
            };
            found.insert(NodeId(node), device);
        }
        for gpu in self.tree.names(NVIDIA) {
            let status = self.tree.text(&format!("{NVIDIA}/{gpu}/numa_status")).unwrap_or_default();
            let node = status.lines().find_map(|line| trim(line.strip_prefix("Node:")?).parse::<u32>().ok());
            if let Some(node) = node {
                found.insert(NodeId(node), Device::Kind(MemoryKind::Gpu));
            }
        }
        found
    }

    /// Whether cpus of this node are only switched off, so that its memory is a package's own.
    fn has_offline_cpus(&self, id: NodeId) -> bool {
        let folder = format!("{NODES}/node{id}");
        let told = self.tree.set(&format!("{folder}/cpulist"), &format!("{folder}/cpumap")).best();
        told.is_some_and(|set| !set.is_empty()) || !self.tree.numbered(&folder, "cpu").is_empty()
    }
}

/// What a device says of the memory that it offers.
#[derive(Debug)]
enum Device {
    Kind(MemoryKind),
    /// Memory that the firmware sets aside for special purposes: HBM, or slow.
    Special,
}

/// The kind of a node without cpus by what the firmware or the kernel says of it and of the nearest node with cpus.
fn by_speed(node: &Node, nodes: &[Node]) -> Option<MemoryKind> {
    let beside = nodes.iter().find(|n| derive::nearest_to(node, nodes).contains(&n.id))?;
    let best = |node: &Node, of: fn(&Access) -> Option<u64>| node.access.iter().rev().find_map(of);
    let bandwidth = |node| best(node, |a| a.read_bytes_per_second);
    let latency = |node| best(node, |a| a.read_latency_ns);
    if let (Some(own), Some(other)) = (bandwidth(node), bandwidth(beside))
        && own >= other.saturating_add(other / 2)
    {
        return Some(MemoryKind::Hbm);
    }
    if let (Some(own), Some(other)) = (latency(node), latency(beside))
        && own > other.saturating_add(other / 5)
    {
        return Some(MemoryKind::Cxl);
    }
    match (node.kernel_tier?, beside.kernel_tier?) {
        (own, other) if own < other => Some(MemoryKind::Hbm),
        (own, other) if own > other => Some(MemoryKind::Cxl),
        _ => None,
    }
}
