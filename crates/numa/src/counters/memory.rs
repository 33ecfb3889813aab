//! What passes the memory controllers, by whomever: counters outside of the cores, one set per package.
//!
//! Invariants: a controller's events are found by name and read together; packages of which one controller cannot be
//! read are left out rather than told too low.
//!
//! # Limits
//! Only sources that describe their events with a unit in sysfs (Intel's `uncore_imc*`). The kernel lets a process read
//! them with `perf_event_paranoid` at 0 or below, or with CAP_PERFMON. A controller's node is not told, only its
//! package.

use std::collections::BTreeMap;
use std::path::Path;

use super::Files;
use super::events::{self, NamedEvent};
use crate::ids::{CpuId, PackageId};
use crate::refusals::refused;
use crate::sys::perf::{Group, WatchTarget};
use crate::topology::Topology;
use crate::topology::files::Tree;

const CONTROLLERS: &str = "uncore_imc";
/// What controllers call reads and writes: those of servers, and those of smaller machines.
const READS: [&str; 2] = ["cas_count_read", "data_reads"];
const WRITES: [&str; 2] = ["cas_count_write", "data_writes"];

/// Bytes that passed a package's memory controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTraffic {
    /// The package.
    pub package: PackageId,
    /// Bytes read from its memory since the counters were opened.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
}

/// The counters of the memory controllers of a machine.
#[derive(Debug)]
pub struct MemoryCounters {
    open: Vec<Open>,
    _files: Vec<Files>,
}

/// A counter of one controller.
#[derive(Debug)]
struct Open {
    package: PackageId,
    writes: bool,
    bytes: f64,
    group: Group,
}

impl MemoryCounters {
    /// Those of this machine, counting from here on. `None` where it tells of none, or where the kernel refuses them,
    /// which is told once.
    pub fn open(topology: &Topology) -> Option<MemoryCounters> {
        let tree = Tree::new(Path::new("/"));
        let package_of = |cpu| topology.cores().iter().find(|core| core.cpus.contains(&CpuId(cpu)))?.package;
        let mut counters = MemoryCounters { open: Vec::new(), _files: Vec::new() };
        for planned in plan(&tree, &package_of) {
            let opened = Files::take(1)
                .and_then(|files| Ok((files, Group::open(planned.named.event, WatchTarget::Cpu(planned.cpu))?)));
            match opened {
                Ok((files, group)) => {
                    counters._files.push(files);
                    let package = planned.package;
                    let writes = planned.writes;
                    let bytes = planned.named.bytes;
                    counters.open.push(Open { package, writes, bytes, group });
                }
                Err(error) => {
                    refused("perf_event_open", &error, "what passes the memory controllers is not counted");
                    return None;
                }
            }
        }
        (!counters.open.is_empty()).then_some(counters)
    }

    /// What passed since the counters were opened, by package.
    pub fn read(&self) -> Vec<MemoryTraffic> {
        let read = self.open.iter().map(|open| {
            let count = open.group.read().ok().map(|reading| reading.values[0]);
            (open.package, open.writes, count.map(|count| count as f64 * open.bytes))
        });
        summed(read)
    }
}

/// A counter that is to be opened.
struct PlannedCounter {
    named: NamedEvent,
    cpu: u32,
    package: PackageId,
    writes: bool,
}

/// Every counter of reads and writes of every controller; those of cpus without a package are left out.
fn plan(tree: &Tree, package_of: &dyn Fn(u32) -> Option<PackageId>) -> Vec<PlannedCounter> {
    let mut planned = Vec::new();
    for (writes, names) in [(false, &READS), (true, &WRITES)] {
        for named in events::named(tree, CONTROLLERS, names) {
            for cpu in named.cpus.clone() {
                if let Some(package) = package_of(cpu) {
                    planned.push(PlannedCounter { named: named.clone(), cpu, package, writes });
                }
            }
        }
    }
    planned
}

/// Bytes by package, given those of each counter; without packages of which one is unknown.
fn summed(counters: impl Iterator<Item = (PackageId, bool, Option<f64>)>) -> Vec<MemoryTraffic> {
    let mut packages: BTreeMap<PackageId, Option<[f64; 2]>> = BTreeMap::new();
    for (package, writes, bytes) in counters {
        let sums = packages.entry(package).or_insert(Some([0.0; 2]));
        *sums = sums.zip(bytes).map(|(mut sums, bytes)| {
            sums[usize::from(writes)] += bytes;
            sums
        });
    }
    let known = packages.into_iter().filter_map(|(package, sums)| Some((package, sums?)));
    known
        .map(|(package, [read, written])| MemoryTraffic {
            package,
            read_bytes: read as u64,
            written_bytes: written as u64,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn controller(fixture: &Fixture, name: &str) {
        let folder = format!("sys/bus/event_source/devices/{name}");
        fixture.write(&format!("{folder}/type"), "23\n");
        fixture.write(&format!("{folder}/cpumask"), "0,24\n");
        fixture.write(&format!("{folder}/format/event"), "config:0-7\n");
        fixture.write(&format!("{folder}/format/umask"), "config:8-15\n");
        for (event, terms) in
            [("cas_count_read", "event=0x04,umask=0x03"), ("cas_count_write", "event=0x04,umask=0x0c")]
        {
            fixture.write(&format!("{folder}/events/{event}"), &format!("{terms}\n"));
            fixture.write(&format!("{folder}/events/{event}.scale"), "6.103515625e-5\n");
            fixture.write(&format!("{folder}/events/{event}.unit"), "MiB\n");
        }
    }

    #[test]
    fn all_controllers_of_all_packages_are_planned() {
        let fixture = Fixture::empty();
        controller(&fixture, "uncore_imc_0");
        controller(&fixture, "uncore_imc_1");
        controller(&fixture, "uncore_cha_0");
        let planned = plan(&Tree::new(fixture.root()), &|cpu| Some(PackageId(u32::from(cpu == 24))));
        assert_eq!(planned.len(), 8, "two controllers, two packages, reads and writes");
        assert_eq!(planned.iter().filter(|p| p.writes && p.package == PackageId(1) && p.cpu == 24).count(), 2);
        assert!(planned.iter().all(|p| p.named.bytes == 64.0 && p.named.event.kind == 23));
        let codes: Vec<u64> = planned.iter().map(|p| p.named.event.config[0]).collect();
        assert_eq!(codes, [0x304, 0x304, 0x304, 0x304, 0xc04, 0xc04, 0xc04, 0xc04]);
        assert!(plan(&Tree::new(fixture.root()), &|_| None).is_empty());
    }

    #[test]
    fn a_package_is_told_whole_or_not_at_all() {
        let a = PackageId(0);
        let b = PackageId(1);
        let read = [
            (a, false, Some(64.0)),
            (b, false, Some(1.0)),
            (a, true, Some(128.0)),
            (a, false, Some(6.0)),
            (b, true, None),
        ];
        assert_eq!(summed(read.into_iter()), [MemoryTraffic { package: a, read_bytes: 70, written_bytes: 128 }]);
    }

    #[test]
    fn this_machines_controllers_count_or_are_refused() {
        let Ok(topology) = Topology::discover() else {
            eprintln!("skipped: this machine's topology cannot be read");
            return;
        };
        let Some(counters) = MemoryCounters::open(&topology) else {
            eprintln!("skipped: no memory controller can be read here");
            return;
        };
        let before: u64 = counters.read().iter().map(|package| package.read_bytes).sum();
        let words = vec![1u64; 32 << 20];
        assert_eq!(words.iter().sum::<u64>(), 32 << 20);
        let after: u64 = counters.read().iter().map(|package| package.read_bytes).sum();
        assert!(after - before >= 64 << 20, "{before} {after}");
    }
}
