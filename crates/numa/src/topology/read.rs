//! Reads a machine from its sysfs and procfs.
//!
//! Each piece is taken from the best file that can be read, then from the next best; whatever had to be assumed is a
//! warning. Order of trust for cpus: `cpu/online` with each cpu's own `online`, the cpu folders, `/proc`.

use std::collections::BTreeMap;
use std::path::Path;

use super::facts::Facts;
use super::files::{ID_MAX, Tree};
use super::groups::{Groups, Homes};
use super::reader::{CPUS, FIRST_CPU_BYTES, Reader, Warnings, named};
use super::usable::usable;
use super::{Cache, CacheKind, Core, Node, Topology, packages_of};
use crate::error::TopologyError;
use crate::id_set::{IdSet, trim};
use crate::ids::{CpuId, NodeId, PackageId};

/// No cpu has more levels and kinds of cache than this.
const CACHE_INDEX_MAX: u32 = 15;
const CPU_MODEL_CHARS_MAX: usize = 100;

/// See [`Topology::read`].
pub(super) fn read(root: &Path) -> Result<Topology, TopologyError> {
    let fault = |reason: String| TopologyError::Root { root: root.to_path_buf(), reason };
    let kind = std::fs::metadata(root).map_err(|e| fault(e.to_string()))?;
    if !kind.is_dir() {
        return Err(fault("it is not a folder".to_string()));
    }
    // Other spellings of `/` are this machine too.
    let live = root.canonicalize().is_ok_and(|path| path == Path::new("/"));
    let mut reader =
        Reader { tree: Tree::new(root), warnings: Warnings::default(), memory_unknown: IdSet::default(), live };
    let online = reader.online_cpus();
    if online.is_empty() {
        return Err(TopologyError::NoCpus { root: root.to_path_buf() });
    }
    Ok(reader.machine(&online))
}

impl Reader {
    fn machine(mut self, online: &IdSet) -> Topology {
        let cpu_model = self.cpu_model();
        let mut nodes = self.nodes(online);
        self.describe_memory(&mut nodes, cpu_model.as_deref());
        let node_by_cpu: BTreeMap<CpuId, NodeId> =
            nodes.iter().flat_map(|n| n.cpus.iter().map(|cpu| (*cpu, n.id))).collect();
        let package_by_cpu = self.package_by_cpu(online);
        let packages = packages_of(&mut nodes, &package_by_cpu);
        let cores = self.cores(online, &node_by_cpu, &package_by_cpu);
        let caches = self.caches(online);
        let homes = Homes { nodes: &node_by_cpu, packages: &package_by_cpu };
        let Groups { dies, clusters, books, drawers } = self.groups(online, &homes, &packages, &cores);
        let memory_nodes = self.memory_nodes(&nodes);
        let usable = usable(&self.tree, self.live, online, &memory_nodes, &mut self.warnings);
        self.warn_of_settings(&nodes, online, &usable);
        let memory_bytes = self.usable_memory_bytes(&nodes, &usable.nodes, usable.memory_limit_bytes);
        let facts = Facts {
            nodes,
            packages,
            cores,
            caches,
            online_cpus: online.iter().map(CpuId).collect(),
            usable_cpus: usable.cpus.iter().map(CpuId).collect(),
            usable_memory_nodes: usable.nodes.iter().map(NodeId).collect(),
            memory_limit_bytes: usable.memory_limit_bytes,
            memory_bytes,
            warnings: self.warnings.finish(),
            cpu_model,
            dies,
            clusters,
            books,
            drawers,
            cpu_quota: usable.cpu_quota,
            ..Facts::default()
        };
        facts.finish()
    }

    /// The memory of the usable nodes, no more than the limit.
    fn usable_memory_bytes(&self, nodes: &[Node], usable: &IdSet, limit: Option<u64>) -> u64 {
        let usable = nodes.iter().filter(|n| usable.contains(n.id.0));
        let in_nodes = usable.fold(0u64, |sum, n| sum.saturating_add(n.memory_bytes));
        let bytes = if in_nodes > 0 { in_nodes } else { self.machine_memory_bytes().unwrap_or(0) };
        match limit {
            Some(limit) if bytes == 0 => limit,
            Some(limit) => bytes.min(limit),
            None => bytes,
        }
    }

    /// What the first cpu is called, with single blanks.
    fn cpu_model(&self) -> Option<String> {
        let cpuinfo = self.tree.head("proc/cpuinfo", FIRST_CPU_BYTES)?;
        let value = |key: &str| {
            cpuinfo.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (trim(name) == key).then(|| value.split_whitespace().collect::<Vec<_>>().join(" "))
            })
        };
        let model = ["model name", "cpu model", "Processor", "cpu", "family"].into_iter().find_map(value)?;
        // Control characters would spoil a terminal.
        let model: String = model.chars().filter(|c| !c.is_control()).take(CPU_MODEL_CHARS_MAX).collect();
        Some(model).filter(|m| !m.is_empty())
    }

    /// The cpus that are switched on; empty when nothing tells of any.
    fn online_cpus(&mut self) -> IdSet {
        let folders = self.tree.numbered(CPUS, "cpu");
        let list = self.believed_list(&format!("{CPUS}/online"), "cpus are taken from their folders");
        if folders.is_empty() {
            let found = list.filter(|l| !l.is_empty()).unwrap_or_else(|| self.cpus_of_proc());
            if !found.is_empty() {
                self.warnings.add(format!("no cpu is described in {CPUS}; cores, caches and packages are unknown"));
            }
            return found;
        }
        let off: IdSet =
            folders.iter().filter(|c| self.tree.number(&format!("{CPUS}/cpu{c}/online")) == Some(0)).collect();
        let on = folders.without(&off);
        let Some(list) = list else { return self.described_cpus(on) };
        let unknown = list.without(&folders);
        if !unknown.is_empty() {
            let unknown = named("cpu", &unknown);
            self.warnings.add(format!("said to be online but not described, so left out: {unknown}"));
        }
        let both = on.intersect(&list);
        if both.is_empty() {
            self.warnings
                .add(format!("{CPUS}/online names no cpu that is there; all described cpus are taken as online"));
            return if on.is_empty() { folders } else { on };
        }
        both
    }

    /// Old kernels have no list of online cpus, and folders for cpus that could be plugged in one day: those without a
    /// description, where others have one.
    fn described_cpus(&mut self, on: IdSet) -> IdSet {
        let bare: IdSet = on.iter().filter(|c| !self.tree.is_dir(&format!("{CPUS}/cpu{c}/topology"))).collect();
        if bare.is_empty() || bare == on {
            return on;
        }
        self.warnings.add(format!("not described, so taken as offline: {}", named("cpu", &bare)));
        on.without(&bare)
    }

    /// `processor : 3` of x86 and most others, `processor 3:` of s390; else the `cpu3` lines of the statistics.
    fn cpus_of_proc(&self) -> IdSet {
        let id = |text: &str| text.trim().parse::<u32>().ok().filter(|id| *id <= ID_MAX);
        let cpuinfo = self.tree.text("proc/cpuinfo").unwrap_or_default();
        let listed: IdSet = cpuinfo
            .lines()
            .filter_map(|line| line.strip_prefix("processor"))
            .filter_map(|rest| rest.split(':').map(str::trim).find(|s| !s.is_empty()).and_then(id))
            .collect();
        if !listed.is_empty() {
            return listed;
        }
        let stat = self.tree.text("proc/stat").unwrap_or_default();
        stat.lines().filter_map(|line| line.split_whitespace().next()?.strip_prefix("cpu").and_then(id)).collect()
    }

    fn package_by_cpu(&mut self, online: &IdSet) -> BTreeMap<CpuId, PackageId> {
        let mut told: BTreeMap<CpuId, PackageId> = online
            .iter()
            .filter_map(|cpu| {
                let id = self.tree.number(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id"))?;
                Some((CpuId(cpu), PackageId(u32::try_from(id).ok()?)))
            })
            .collect();
        let silent = online.without(&told.keys().map(|cpu| cpu.0).collect());
        if !silent.is_empty() {
            self.warnings.add(format!("the kernel names no package for {}", named("cpu", &silent)));
        }
        self.unique_packages(&mut told);
        told
    }

    fn cores(
        &mut self,
        online: &IdSet,
        nodes: &BTreeMap<CpuId, NodeId>,
        packages: &BTreeMap<CpuId, PackageId>,
    ) -> Vec<Core> {
        let mut core_of: BTreeMap<u32, usize> = BTreeMap::new();
        let mut cores: Vec<Core> = Vec::new();
        let mut by_core_id: BTreeMap<(PackageId, i64), usize> = BTreeMap::new();
        let mut silent = Vec::new();
        for cpu in online.iter() {
            if core_of.contains_key(&cpu) {
                continue;
            }
            let id = CpuId(cpu);
            let siblings = self.siblings(cpu);
            if siblings.is_none() {
                silent.push(cpu);
                // Old kernels name the core but not its cpus.
                let key =
                    packages.get(&id).copied().zip(self.tree.number(&format!("{CPUS}/cpu{cpu}/topology/core_id")));
                if let Some(core) = key.and_then(|key| by_core_id.get(&key).copied()) {
                    cores[core].cpus.push(id);
                    core_of.insert(cpu, core);
                    continue;
                }
                if let Some(key) = key {
                    by_core_id.insert(key, cores.len());
                }
            }
            // A cpu that is in a core already stays there, whatever another cpu says of it.
            let named = siblings.unwrap_or_default().intersect(online);
            let mut cpus: Vec<CpuId> =
                named.iter().filter(|c| *c != cpu && !core_of.contains_key(c)).map(CpuId).collect();
            cpus.push(id);
            cpus.sort_unstable();
            core_of.extend(cpus.iter().map(|c| (c.0, cores.len())));
            cores.push(Core { cpus, node: nodes.get(&id).copied(), package: packages.get(&id).copied() });
        }
        if !silent.is_empty() {
            let silent: IdSet = silent.into_iter().collect();
            self.warnings.add(format!(
                "which cpus share a core with cpus {silent} is not told; core ids are used, or each is taken as a core"
            ));
        }
        cores
    }

    fn siblings(&self, cpu: u32) -> Option<IdSet> {
        let of = |list: &str, mask: &str| {
            let folder = format!("{CPUS}/cpu{cpu}/topology");
            self.tree.set(&format!("{folder}/{list}"), &format!("{folder}/{mask}")).best()
        };
        of("core_cpus_list", "core_cpus").or_else(|| of("thread_siblings_list", "thread_siblings"))
    }

    fn caches(&mut self, online: &IdSet) -> Vec<Cache> {
        let mut caches: BTreeMap<(u32, CacheKind, Vec<CpuId>), u64> = BTreeMap::new();
        let mut unclear = Vec::new();
        for cpu in online.iter() {
            let folder = format!("{CPUS}/cpu{cpu}/cache");
            for index in self.tree.numbered(&folder, "index").iter().take_while(|i| *i <= CACHE_INDEX_MAX) {
                match self.cache(&format!("{folder}/index{index}"), cpu, online) {
                    Some((level, kind, cpus, size_bytes)) => {
                        let size = caches.entry((level, kind, cpus)).or_insert(0);
                        *size = (*size).max(size_bytes);
                    }
                    None => unclear.push(cpu),
                }
            }
        }
        if !unclear.is_empty() {
            let unclear: IdSet = unclear.into_iter().collect();
            self.warnings
                .add(format!("some caches of cpus {unclear} are described without level or type; they are left out"));
        }
        caches.into_iter().map(|((level, kind, cpus), size_bytes)| Cache { level, kind, size_bytes, cpus }).collect()
    }

    fn cache(&mut self, folder: &str, cpu: u32, online: &IdSet) -> Option<(u32, CacheKind, Vec<CpuId>, u64)> {
        let level = self
            .tree
            .number(&format!("{folder}/level"))
            .and_then(|l| u32::try_from(l).ok())
            .filter(|l| (1..=9).contains(l))?;
        let kind = match trim(&self.tree.text(&format!("{folder}/type"))?) {
            "Data" => CacheKind::Data,
            "Instruction" => CacheKind::Instruction,
            "Unified" => CacheKind::Unified,
            _ => return None,
        };
        let size_bytes = self.tree.text(&format!("{folder}/size")).and_then(|t| cache_bytes(&t)).unwrap_or(0);
        let shared = self.tree.set(&format!("{folder}/shared_cpu_list"), &format!("{folder}/shared_cpu_map"));
        if shared.differs(online) {
            self.warnings.add("lists and masks of the cpus that share a cache differ; the masks are taken".to_string());
        }
        let shared = shared.best().unwrap_or_default().intersect(online);
        let cpus = if shared.contains(cpu) { shared.iter().map(CpuId).collect() } else { vec![CpuId(cpu)] };
        Some((level, kind, cpus, size_bytes))
    }
}

/// `512K`, `8M` or plain bytes.
fn cache_bytes(text: &str) -> Option<u64> {
    let text = trim(text);
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, text.chars().last()),
        None => (text, None),
    };
    let shift = match unit {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        _ => 0,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}
