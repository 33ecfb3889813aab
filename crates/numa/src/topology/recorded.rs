//! The recorded machines of `shared/topologies`, where that folder exists and `tar` can unpack it.

use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use super::tests::{apply, check, damage, ids};
use super::*;
use crate::fixture::{files_below, folder};

/// Unpacks an archive; the second is the folder of the machine.
fn unpack(name: &str) -> Option<(TempDir, PathBuf)> {
    // Tests run in the folder of their crate, wherever that is by now; the path of the build may be another clone's.
    let archive = PathBuf::from(format!("../../../shared/topologies/{name}.tar.bz2"));
    if !archive.is_file() {
        eprintln!("skipped: {name} is not recorded here");
        return None;
    }
    let folder = folder();
    let unpacked = Command::new("tar").arg("-xjf").arg(&archive).arg("-C").arg(folder.path()).status();
    if !unpacked.is_ok_and(|status| status.success()) {
        eprintln!("skipped: tar cannot unpack {name} here (it needs bzip2)");
        return None;
    }
    let inner = std::fs::read_dir(folder.path()).expect("a folder").flatten().next().expect("one folder").path();
    Some((folder, inner))
}

fn recorded(name: &str) -> Option<Topology> {
    let (_folder, root) = unpack(name)?;
    let machine = Topology::read(&root).expect("a machine");
    check(&machine);
    Some(machine)
}

fn node_ids(machine: &Topology) -> Vec<u32> {
    machine.nodes().iter().map(|n| n.id.0).collect()
}

fn distances(machine: &Topology) -> Vec<Vec<u32>> {
    machine.nodes().iter().map(|n| n.distances.values().copied().collect()).collect()
}

fn classes(machine: &Topology) -> Vec<String> {
    machine.hop_classes().iter().map(|c| format!("{} {}", c.name, c.distance)).collect()
}

fn package_of(machine: &Topology, node: u32) -> Option<u32> {
    machine.node(NodeId(node)).and_then(|n| n.package).map(|p| p.0)
}

#[test]
fn amd_of_64_cpus() {
    let Some(machine) = recorded("64amd64-4s2n4ca2co") else { return };
    assert_eq!(node_ids(&machine), (0..8).collect::<Vec<_>>());
    assert_eq!((machine.online_cpus().len(), machine.usable_cpus().len()), (64, 64));
    assert!(machine.nodes().iter().all(|n| n.cpus.len() == 8));
    let mut seen: Vec<u32> = distances(&machine).concat();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [10, 16, 22]);
    assert_eq!(distances(&machine)[0], [10, 16, 16, 22, 16, 22, 16, 22]);
    let memory = |node| machine.node(NodeId(node)).expect("a node").memory_bytes;
    assert_eq!((memory(5), memory(4)), (8 << 30, 16 << 30));
    assert_eq!(machine.packages().iter().map(|p| p.nodes.len()).collect::<Vec<_>>(), [2; 4]);
    // Two cpus share L2 by the mask; the lists of this kernel are wrong.
    assert!(machine.caches().iter().filter(|c| c.level == 2).all(|c| c.cpus.len() == 2 && c.size_bytes == 2 << 20));
    assert_eq!(machine.warnings().len(), 1, "{:?}", machine.warnings());
    assert_eq!(machine.sub_domains().len(), 4);
    assert_eq!(classes(&machine), ["local 10", "same package 16", "1 hop 16", "2 hops 22"]);
    assert_eq!((machine.tiers().len(), machine.cpu_model()), (1, Some("AMD Opteron(TM) Processor 6276")));
    let sizes: Vec<u64> = machine.nodes()[3].pages.iter().map(|p| p.size_bytes >> 10).collect();
    assert_eq!((sizes[0], sizes[1]), (4, 2048));
}

#[test]
fn amd_in_a_version_2_job() {
    let Some(machine) = recorded("32amd64-4s2n4c-cgroup2") else { return };
    assert_eq!(node_ids(&machine), (0..8).collect::<Vec<_>>());
    assert_eq!(machine.online_cpus().len(), 32);
    assert_eq!(ids(machine.usable_cpus()), [0, 1, 2, 3, 4, 5]);
    assert_eq!(machine.usable_memory_nodes(), [0, 1, 2, 3, 4, 5].map(NodeId));
    assert_eq!(ids(&machine.node(NodeId(1)).expect("node 1").cpus), [4, 5, 6, 7]);
    assert_eq!((machine.default_threads(), machine.cpu_quota(), machine.memory_bytes() >> 30), (6, None, 95));
    assert_eq!(machine.default_memory_bytes(), machine.memory_bytes() / 5 * 4);
    assert_eq!(machine.warnings(), [""; 0]);
}

#[test]
fn power_with_sparse_ids() {
    let Some(machine) = recorded("256ppc-8n8s4t") else { return };
    assert_eq!(node_ids(&machine), [0, 1, 4, 5, 8, 9, 12, 13]);
    assert_eq!(machine.online_cpus().len(), 256);
    assert!(machine.nodes().iter().all(|n| n.cpus.len() == 32));
    assert!(machine.cores().iter().all(|c| c.cpus.len() == 4));
    assert_eq!(machine.distance(NodeId(8), NodeId(9)), 20);
    assert_eq!(machine.distance(NodeId(9), NodeId(13)), 40);
    assert!(machine.packages().is_empty() && package_of(&machine, 4).is_none());
    assert_eq!(classes(&machine), ["local 10", "1 hop 20", "2 hops 40"]);
    assert!(machine.sub_domains().is_empty() && machine.dies().is_empty());
}

#[test]
fn arm_with_clusters() {
    let Some(machine) = recorded("128arm-2pa2n8cluster4co") else { return };
    assert_eq!((machine.nodes().len(), machine.online_cpus().len()), (4, 128));
    let table = [[10, 16, 32, 33], [16, 10, 25, 32], [32, 25, 10, 16], [33, 32, 16, 10]];
    assert_eq!(distances(&machine), table);
    assert_eq!(package_of(&machine, 0), package_of(&machine, 1));
    assert_ne!(package_of(&machine, 1), package_of(&machine, 2));
    assert_eq!(machine.packages().len(), 2);
    assert_eq!(machine.cores().len(), 128);
    assert_eq!(classes(&machine), ["local 10", "same package 16", "1 hop 25", "2 hops 32", "3 hops 33"]);
    let clusters = machine.clusters();
    assert!(clusters.len() == 32 && clusters.iter().all(|c| c.cpus.len() == 4 && c.nodes.len() == 1));
    assert!(machine.dies().is_empty() && machine.books().is_empty());
    assert_eq!(machine.warnings(), [""; 0]);
}

#[test]
fn intel_with_sub_numa_clusters() {
    let Some(machine) = recorded("memorysidecaches") else { return };
    assert_eq!(node_ids(&machine), [0, 1, 2, 3]);
    assert_eq!(package_of(&machine, 0), package_of(&machine, 2));
    assert_eq!(package_of(&machine, 1), package_of(&machine, 3));
    assert_ne!(package_of(&machine, 0), package_of(&machine, 1));
    assert_eq!((machine.distance(NodeId(0), NodeId(2)), machine.distance(NodeId(0), NodeId(1))), (11, 21));
    for node in machine.nodes() {
        assert!(node.cpus.len() == 20 && node.cpus.iter().all(|cpu| cpu.0 % 4 == node.id.0));
    }
    assert!(machine.nodes().iter().all(|n| n.side_caches.len() == 1 && n.side_caches[0].size_bytes == 96 << 30));
    // The firmware says who reaches the memory best, but no figures.
    assert_eq!(machine.nodes()[2].access[0].initiators, [NodeId(2)]);
    assert_eq!((machine.nodes()[2].access[0].read_latency_ns, machine.nodes()[2].access[0].class), (None, 0));
    assert_eq!(classes(&machine), ["local 10", "same package 11", "1 hop 21"]);
    assert_eq!(machine.sub_domains()[0].nodes, [NodeId(0), NodeId(2)]);
    let free: u64 = machine.nodes()[0].free_bytes.expect("it is told");
    assert_eq!((free, machine.nodes()[0].pages[0].total), (387_668_228 << 10, 388_492_316 / 4));
    // SMT siblings share a core although their numbers are far apart.
    assert_eq!(ids(&machine.cores()[10].cpus), [10, 50]);
}

#[test]
fn xeon_with_offline_cpus() {
    let Some(machine) = recorded("16em64t-4s2c2t-offlines") else { return };
    assert_eq!(node_ids(&machine), [0]);
    assert_eq!(ids(machine.online_cpus()), [0, 1, 3, 4, 6, 7, 8, 9, 10, 11, 12, 15]);
    assert_eq!(machine.usable_cpus(), machine.online_cpus());
    assert_eq!((machine.packages().len(), package_of(&machine, 0)), (4, None));
}

#[test]
fn a_node_that_went_offline() {
    let Some(machine) = recorded("offline-cpu0-node0") else { return };
    assert_eq!(node_ids(&machine), [1]);
    assert_eq!(ids(&machine.nodes()[0].cpus), [5, 7, 9, 11, 13, 15, 17, 19]);
    assert_eq!(ids(machine.online_cpus()), (4..=20).collect::<Vec<_>>());
    assert_eq!(distances(&machine), [[10]]);
    // The other half of the machine's memory is the other node's.
    assert_eq!(machine.memory_bytes(), 67_108_864 << 10);
    let lost = machine.warnings().iter().find(|w| w.contains("no online node"));
    assert!(lost.is_some_and(|w| w.contains("4,6,8,10,12,14,16,18,20")), "{:?}", machine.warnings());
    assert_eq!(machine.node_of_cpu(CpuId(4)), None);
    assert!(machine.usable_cpus().contains(&CpuId(4)));
}

#[test]
fn damaged_recordings_never_panic() {
    for name in ["32amd64-4s2n4c-cgroup2", "memorysidecaches"] {
        damage_recording(name);
    }
}

fn damage_recording(name: &str) {
    let Some((_folder, root)) = unpack(name) else { return };
    let files = files_below(&root);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(8));
    // Damage adds up from case to case: the tree decays.
    let hits = prop::collection::vec((any::<prop::sample::Index>(), damage()), 60);
    runner
        .run(&hits, |hits| {
            for (which, damage) in &hits {
                let path = &files[which.index(files.len())];
                if path.is_file() {
                    apply(path, damage);
                }
            }
            if let Ok(machine) = Topology::read(&root) {
                check(&machine);
            }
            Ok(())
        })
        .expect("no damage breaks an invariant");
}
