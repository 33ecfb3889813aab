//! What of the machine this process may use: its affinity mask, and the cpusets, memory limits and cpu quotas of its
//! cgroups, v1 and v2, wherever they are mounted.
//!
//! A cgroup's folder is looked for under each mount of its hierarchy; where a container shows only a part of the
//! hierarchy, the nearest ancestor that is there counts. All sources are intersected: each can only take away.
//!
//! # Limits
//! Only `memory.max` and `memory.limit_in_bytes` bound memory; `memory.high` throttles and is left to the user.

use super::CpuQuota;
use super::files::Tree;
use super::reader::Warnings;
use crate::id_set::{IdSet, trim};
use crate::refusals::refused;
use crate::sys;

/// Limits from here on mean none: v1 prints the largest page-aligned number it can hold.
const UNLIMITED_BYTES_MIN: u64 = 1 << 60;

/// What the process may use.
#[derive(Debug)]
pub(super) struct Usable {
    pub(super) cpus: IdSet,
    pub(super) nodes: IdSet,
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) cpu_quota: Option<CpuQuota>,
}

/// Cuts online cpus and nodes with memory to what is allowed. An allowance that leaves nothing is not believed.
pub(super) fn usable(tree: &Tree, live: bool, online: &IdSet, memory_nodes: &IdSet, warnings: &mut Warnings) -> Usable {
    let status = tree.text("proc/self/status").unwrap_or_default();
    let cgroups = Cgroups::read(tree);
    let mut cpus = online.clone();
    let mut nodes = memory_nodes.clone();
    let affinity = if live { affinity() } else { None };
    let affinity = affinity.or_else(|| status_set(&status, "Cpus_allowed_list", "Cpus_allowed"));
    narrow(&mut cpus, affinity, "the affinity mask allows no online cpu; it is ignored", warnings);
    let allowed = status_set(&status, "Mems_allowed_list", "Mems_allowed");
    narrow(&mut nodes, allowed, "the process is allowed no node with memory; that is ignored", warnings);
    for cpuset in cgroups.cpusets(tree) {
        narrow(&mut cpus, cpuset.cpus, "the cgroup's cpuset holds no cpu that could be used; it is ignored", warnings);
        narrow(&mut nodes, cpuset.nodes, "the cgroup's cpuset holds no node with memory; it is ignored", warnings);
    }
    Usable { cpus, nodes, memory_limit_bytes: cgroups.memory_limit_bytes(tree), cpu_quota: cgroups.cpu_quota(tree) }
}

fn narrow(set: &mut IdSet, allowed: Option<IdSet>, ignored: &str, warnings: &mut Warnings) {
    let Some(allowed) = allowed else { return };
    let both = set.intersect(&allowed);
    if both.is_empty() {
        warnings.add(ignored.to_string());
    } else {
        *set = both;
    }
}

fn affinity() -> Option<IdSet> {
    sys::affinity()
        .inspect_err(|error| refused("sched_getaffinity", error, "which cpus may be used is taken from /proc"))
        .ok()
}

/// A `key:` line of the process's status, as a list or, on old kernels, as a mask.
fn status_set(status: &str, list_key: &str, mask_key: &str) -> Option<IdSet> {
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value(list_key).and_then(IdSet::parse_list).or_else(|| value(mask_key).and_then(IdSet::parse_mask))
}

/// Which hierarchy a mount shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hierarchy {
    /// cgroup v2.
    Unified,
    /// cgroup v1 with the cpuset controller.
    Cpuset,
    /// cgroup v1 with the memory controller.
    Memory,
    /// cgroup v1 with the cpu controller.
    Cpu,
}

#[derive(Debug)]
struct Mount {
    hierarchy: Hierarchy,
    /// Where it is mounted.
    point: String,
    /// The cgroup that the mount shows as its top.
    top: String,
}

#[derive(Debug, Default)]
struct Cpuset {
    cpus: Option<IdSet>,
    nodes: Option<IdSet>,
}

/// The process's cgroups and where their file systems are.
#[derive(Debug, Default)]
struct Cgroups {
    mounts: Vec<Mount>,
    unified: Option<String>,
    cpuset: Option<String>,
    memory: Option<String>,
    cpu: Option<String>,
}

impl Cgroups {
    fn read(tree: &Tree) -> Cgroups {
        let mut cgroups = Cgroups { mounts: mounts(tree), ..Cgroups::default() };
        for line in tree.text("proc/self/cgroup").unwrap_or_default().lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let has = |name| controllers.split(',').any(|c| c == name);
            let path = || Some(path.to_string());
            match controllers {
                "" => cgroups.unified = path(),
                _ if has("cpuset") => cgroups.cpuset = path(),
                _ => {}
            }
            if has("memory") {
                cgroups.memory = path();
            }
            if has("cpu") {
                cgroups.cpu = path();
            }
        }
        // Kernels without /proc/self/cgroup, and recordings that leave it out, still tell the cpuset.
        if let Some(path) = tree.text("proc/self/cpuset").map(|t| trim(&t).to_string()).filter(|p| !p.is_empty()) {
            cgroups.cpuset.get_or_insert_with(|| path.clone());
            cgroups.unified.get_or_insert(path);
        }
        cgroups
    }

    /// The folders from the process's own cgroup up to the mount's top, in that order.
    fn folders(&self, mount: &Mount) -> Vec<String> {
        let own = match mount.hierarchy {
            Hierarchy::Unified => &self.unified,
            Hierarchy::Cpuset => &self.cpuset,
            Hierarchy::Memory => &self.memory,
            Hierarchy::Cpu => &self.cpu,
        };
        let own = own.as_deref().unwrap_or("/");
        let below = match own.strip_prefix(mount.top.trim_end_matches('/')) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => own,
        };
        let names: Vec<&str> = below.split('/').filter(|n| !n.is_empty() && *n != "." && *n != "..").collect();
        (0..=names.len()).rev().map(|n| format!("{}/{}", mount.point, names[..n].join("/"))).collect()
    }

    fn cpusets<'a>(&'a self, tree: &'a Tree) -> impl Iterator<Item = Cpuset> + 'a {
        self.mounts.iter().filter(|m| matches!(m.hierarchy, Hierarchy::Unified | Hierarchy::Cpuset)).map(move |mount| {
            let folders = self.folders(mount);
            let nearest = |names: &[&str]| {
                let files = folders.iter().flat_map(|folder| names.iter().map(move |name| format!("{folder}/{name}")));
                let texts = files.filter_map(|file| tree.text(&file));
                // An empty file means that the parent's set applies.
                texts.filter_map(|text| IdSet::parse_list(&text)).find(|set| !set.is_empty())
            };
            let (cpus, nodes): (&[&str], &[&str]) = match mount.hierarchy {
                Hierarchy::Unified => {
                    (&["cpuset.cpus.effective", "cpuset.cpus"], &["cpuset.mems.effective", "cpuset.mems"])
                }
                // Which of the names are there depends on a mount option that mount tables do not always show.
                _ => (
                    &["cpuset.effective_cpus", "cpuset.cpus", "effective_cpus", "cpus"],
                    &["cpuset.effective_mems", "cpuset.mems", "effective_mems", "mems"],
                ),
            };
            Cpuset { cpus: nearest(cpus), nodes: nearest(nodes) }
        })
    }

    /// The tightest limit of the process's cgroups and all their ancestors.
    fn memory_limit_bytes(&self, tree: &Tree) -> Option<u64> {
        let limits = self.mounts.iter().flat_map(|mount| {
            let file = match mount.hierarchy {
                Hierarchy::Unified => "memory.max",
                Hierarchy::Memory => "memory.limit_in_bytes",
                Hierarchy::Cpuset | Hierarchy::Cpu => return Vec::new(),
            };
            let texts = self.folders(mount).into_iter().filter_map(|folder| tree.text(&format!("{folder}/{file}")));
            texts.filter_map(|text| trim(&text).parse::<u64>().ok()).collect()
        });
        limits.filter(|bytes| *bytes < UNLIMITED_BYTES_MIN).min()
    }

    /// The tightest quota of the process's cgroups and all their ancestors.
    fn cpu_quota(&self, tree: &Tree) -> Option<CpuQuota> {
        let of_folder = |hierarchy: Hierarchy, folder: &str| match hierarchy {
            Hierarchy::Unified => {
                let text = tree.text(&format!("{folder}/cpu.max"))?;
                let (most, period) = trim(&text).split_once(char::is_whitespace)?;
                quota(most, period)
            }
            Hierarchy::Cpu => {
                let text = |name: &str| tree.text(&format!("{folder}/{name}"));
                quota(&text("cpu.cfs_quota_us")?, &text("cpu.cfs_period_us")?)
            }
            Hierarchy::Cpuset | Hierarchy::Memory => None,
        };
        let folders = self.mounts.iter().flat_map(|m| self.folders(m).into_iter().map(|f| (m.hierarchy, f)));
        let quotas = folders.filter_map(|(hierarchy, folder)| of_folder(hierarchy, &folder));
        // By the share of a period: a / b < c / d as a * d < c * b, in numbers that cannot overflow.
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        quotas.min_by(|a, b| product(a.quota_us, b.period_us).cmp(&product(b.quota_us, a.period_us)))
    }
}

/// A quota of cpu time; `None` for no limit, or figures that are none.
fn quota(quota: &str, period: &str) -> Option<CpuQuota> {
    let quota_us = trim(quota).parse::<u64>().ok().filter(|us| *us > 0)?;
    let period_us = trim(period).parse::<u64>().ok().filter(|us| *us > 0)?;
    Some(CpuQuota { quota_us, period_us })
}

/// The mounts of cgroup file systems. `mountinfo` also tells which part of the hierarchy a mount shows.
fn mounts(tree: &Tree) -> Vec<Mount> {
    if let Some(text) = tree.text("proc/self/mountinfo") {
        let mounts: Vec<Mount> = text.lines().flat_map(mountinfo_line).collect();
        if !mounts.is_empty() {
            return mounts;
        }
    }
    let text = tree.text("proc/self/mounts").or_else(|| tree.text("proc/mounts")).unwrap_or_default();
    text.lines()
        .flat_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            match (fields.next(), fields.next(), fields.next()) {
                (Some(point), Some(kind), Some(options)) => hierarchies(kind, options, point, "/"),
                _ => Vec::new(),
            }
        })
        .collect()
}

fn mountinfo_line(line: &str) -> Vec<Mount> {
    let Some((before, after)) = line.split_once(" - ") else { return Vec::new() };
    let mut before = before.split_whitespace().skip(3);
    let mut after = after.split_whitespace();
    match (before.next(), before.next(), after.next(), after.nth(1)) {
        (Some(top), Some(point), Some(kind), Some(options)) => hierarchies(kind, options, point, top),
        _ => Vec::new(),
    }
}

fn hierarchies(kind: &str, options: &str, point: &str, top: &str) -> Vec<Mount> {
    let has = |name| options.split(',').any(|o| o == name);
    let mut found = Vec::new();
    match kind {
        "cgroup2" => found.push(Hierarchy::Unified),
        // The file system that cpusets had before cgroups.
        "cpuset" => found.push(Hierarchy::Cpuset),
        "cgroup" => {
            if has("cpuset") {
                found.push(Hierarchy::Cpuset);
            }
            if has("memory") {
                found.push(Hierarchy::Memory);
            }
            if has("cpu") {
                found.push(Hierarchy::Cpu);
            }
        }
        _ => {}
    }
    let mount = |hierarchy| Mount { hierarchy, point: unescape(point), top: unescape(top) };
    found.into_iter().map(mount).collect()
}

/// Mount tables write blanks and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        match piece.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) if byte.is_ascii() => {
                plain.push(char::from(byte));
                plain.push_str(&piece[3..]);
            }
            _ => {
                plain.push('\\');
                plain.push_str(piece);
            }
        }
    }
    plain
}
