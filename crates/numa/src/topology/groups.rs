//! Reads the sets of cpus that lie between package and core, or above packages: dies, clusters, books and drawers.
//!
//! # Limits
//! A level is told only where it says something: dies where a package has several, clusters where they are more than a
//! core and less than a package, books and drawers where there is one at all.

use std::collections::{BTreeMap, BTreeSet};

use super::reader::{CPUS, Reader};
use super::{Core, CpuGroup, Package};
use crate::id_set::IdSet;
use crate::ids::{CpuId, NodeId, PackageId};

/// The levels of a machine beside packages and cores.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) dies: Vec<CpuGroup>,
    pub(super) clusters: Vec<CpuGroup>,
    pub(super) books: Vec<CpuGroup>,
    pub(super) drawers: Vec<CpuGroup>,
}

/// Where each cpu lies.
pub(super) struct Homes<'a> {
    pub(super) nodes: &'a BTreeMap<CpuId, NodeId>,
    pub(super) packages: &'a BTreeMap<CpuId, PackageId>,
}

impl Reader {
    pub(super) fn groups(&self, online: &IdSet, homes: &Homes<'_>, packages: &[Package], cores: &[Core]) -> Groups {
        let of = |name: &str, sets: &str| self.level(online, homes, name, sets);
        let dies = of("die", "die_cpus");
        let of_package = |id: Option<PackageId>| dies.iter().filter(|d| d.package == id).count();
        let several_dies = packages.iter().any(|p| of_package(Some(p.id)) > 1);
        let whole: BTreeSet<&Vec<CpuId>> =
            packages.iter().map(|p| &p.cpus).chain(cores.iter().map(|c| &c.cpus)).collect();
        let mut clusters = of("cluster", "cluster_cpus");
        clusters.retain(|c| c.cpus.len() > 1 && !whole.contains(&c.cpus));
        Groups {
            dies: if several_dies { dies } else { Vec::new() },
            clusters,
            books: of("book", "book_siblings"),
            drawers: of("drawer", "drawer_siblings"),
        }
    }

    /// One level: by the set of cpus that each cpu names, else by number within the package. A cpu stays in the first
    /// group that named it.
    fn level(&self, online: &IdSet, homes: &Homes<'_>, name: &str, sets: &str) -> Vec<CpuGroup> {
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        let mut by_number: BTreeMap<(Option<PackageId>, u32), Vec<CpuId>> = BTreeMap::new();
        let mut groups: Vec<(Option<u32>, Vec<CpuId>)> = Vec::new();
        for cpu in online.iter() {
            if taken.contains(&cpu) {
                continue;
            }
            let folder = format!("{CPUS}/cpu{cpu}/topology");
            let number = self.tree.number(&format!("{folder}/{name}_id")).and_then(|n| u32::try_from(n).ok());
            let told = self.tree.set(&format!("{folder}/{sets}_list"), &format!("{folder}/{sets}")).best();
            // A kernel that knows no such level says -1 and names the core, or nothing.
            let told = told.map(|set| set.intersect(online)).filter(|set| set.contains(cpu));
            match (number, told) {
                (None, _) => {}
                (Some(_), Some(set)) => {
                    let cpus: Vec<CpuId> = set.iter().filter(|c| !taken.contains(c)).map(CpuId).collect();
                    taken.extend(cpus.iter().map(|c| c.0));
                    groups.push((number, cpus));
                }
                (Some(number), None) => {
                    by_number.entry((homes.packages.get(&CpuId(cpu)).copied(), number)).or_default().push(CpuId(cpu));
                }
            }
        }
        groups.extend(by_number.into_iter().map(|((_, number), cpus)| (Some(number), cpus)));
        groups.sort_by(|a, b| a.1.cmp(&b.1));
        groups.into_iter().map(|(id, cpus)| group(id, cpus, homes)).collect()
    }

    /// Mainframes number packages within books: the number of each package in the whole machine, where that differs.
    pub(super) fn unique_packages(&mut self, told: &mut BTreeMap<CpuId, PackageId>) {
        let number =
            |cpu: CpuId, name: &str| self.tree.number(&format!("{CPUS}/cpu{cpu}/topology/{name}")).unwrap_or(-1);
        let place = |cpu: CpuId, id: PackageId| (number(cpu, "drawer_id"), number(cpu, "book_id"), id);
        let places: BTreeMap<CpuId, _> = told.iter().map(|(cpu, id)| (*cpu, place(*cpu, *id))).collect();
        let distinct: BTreeSet<_> = places.values().collect();
        let ids: BTreeSet<PackageId> = told.values().copied().collect();
        if distinct.len() == ids.len() {
            return;
        }
        let order: BTreeMap<_, u32> = distinct.into_iter().zip(0..).collect();
        for (cpu, id) in told.iter_mut() {
            *id = PackageId(order[&places[cpu]]);
        }
        self.warnings.add("the kernel numbers packages within their books; they are numbered anew".to_string());
    }
}

fn group(id: Option<u32>, cpus: Vec<CpuId>, homes: &Homes<'_>) -> CpuGroup {
    let nodes: BTreeSet<NodeId> = cpus.iter().filter_map(|cpu| homes.nodes.get(cpu).copied()).collect();
    let packages: BTreeSet<Option<PackageId>> = cpus.iter().map(|cpu| homes.packages.get(cpu).copied()).collect();
    let package = if packages.len() == 1 { packages.into_iter().next().flatten() } else { None };
    CpuGroup { id, package, nodes: nodes.into_iter().collect(), cpus }
}
