//! Machines made of a few files, honest and lying ones; the recorded ones are in `recorded.rs`.

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::fixture::Fixture;

/// Asserts the module's invariants.
pub(super) fn check(machine: &Topology) {
    let ascending = |cpus: &[CpuId]| cpus.windows(2).all(|w| w[0] < w[1]);
    let online = |cpus: &[CpuId]| cpus.iter().all(|cpu| machine.online_cpus().binary_search(cpu).is_ok());
    assert!(!machine.nodes().is_empty() && machine.nodes().windows(2).all(|w| w[0].id < w[1].id));
    assert!(machine.packages().windows(2).all(|w| w[0].id < w[1].id));
    assert!(!machine.usable_cpus().is_empty() && ascending(machine.usable_cpus()) && online(machine.usable_cpus()));
    assert!(!machine.usable_memory_nodes().is_empty());
    assert!(machine.usable_memory_nodes().iter().all(|id| machine.node(*id).is_some()));
    assert!(ascending(machine.online_cpus()));
    for node in machine.nodes() {
        assert!(ascending(&node.cpus) && online(&node.cpus));
        assert!(node.cpus.iter().all(|cpu| machine.node_of_cpu(*cpu) == Some(node.id)));
        assert_eq!(node.distances[&node.id], DISTANCE_SELF);
        assert!(node.distances.keys().eq(machine.nodes().iter().map(|n| &n.id)));
        assert!(node.distances.values().all(|d| *d >= DISTANCE_SELF));
    }
    for package in machine.packages() {
        assert!(!package.cpus.is_empty() && ascending(&package.cpus) && online(&package.cpus));
    }
    let mut in_cores: Vec<CpuId> = machine.cores().iter().flat_map(|c| c.cpus.iter().copied()).collect();
    in_cores.sort_unstable();
    assert_eq!(in_cores, machine.online_cpus());
    assert!(machine.cores().iter().all(|c| ascending(&c.cpus)));
    for cache in machine.caches() {
        assert!(!cache.cpus.is_empty() && ascending(&cache.cpus) && online(&cache.cpus));
    }
    for group in machine.dies().iter().chain(machine.clusters()).chain(machine.books()).chain(machine.drawers()) {
        assert!(!group.cpus.is_empty() && ascending(&group.cpus) && online(&group.cpus));
        assert!(group.nodes.iter().all(|id| machine.node(*id).is_some()));
    }
    check_derived(machine);
    assert!(machine.warnings().len() <= 51);
    let json = serde_json::to_value(machine).expect("serializes");
    let keys = ["nodes", "packages", "online_cpus", "usable_cpus", "usable_memory_nodes", "warnings"];
    assert!(keys.iter().all(|key| json[key].is_array()), "{json}");
    let back: Topology = serde_json::from_value(json).expect("its own JSON");
    assert_eq!(&back, machine);
    assert!(machine.render_text().contains("machine: "));
    let svg = machine.render_svg();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    assert!(machine.nodes().iter().all(|n| svg.contains(&format!(">node {}<", n.id))));
}

/// What follows from the facts, against the obvious reading of them.
fn check_derived(machine: &Topology) {
    assert!((1..=machine.usable_cpus().len()).contains(&machine.default_threads()));
    assert!(machine.default_memory_bytes() <= machine.memory_bytes());
    let mut in_tiers: Vec<NodeId> = machine.tiers().iter().flat_map(|t| t.nodes.iter().copied()).collect();
    in_tiers.sort_unstable();
    let any = machine.nodes().iter().any(|n| n.memory_bytes > 0);
    let with: Vec<NodeId> = machine.nodes().iter().filter(|n| !any || n.memory_bytes > 0).map(|n| n.id).collect();
    assert_eq!(in_tiers, with);
    assert!(machine.tiers().iter().zip(0..).all(|(t, i)| t.tier == i && !t.nodes.is_empty()));
    let classes = machine.hop_classes();
    assert!(classes.iter().zip(0..).all(|(c, i)| c.class == i && c.pairs > 0));
    assert!(classes.windows(2).all(|w| (w[0].kind, w[0].distance) < (w[1].kind, w[1].distance)));
    let mut pairs = vec![0; classes.len()];
    for from in machine.nodes() {
        for to in machine.nodes() {
            let Some(class) = machine.hop_class(from.id, to.id) else { continue };
            assert_eq!(class.distance, machine.distance(from.id, to.id));
            assert_eq!(class.kind == HopKind::Local, from.id == to.id);
            pairs[class.class as usize] += 1;
        }
        let package: u64 = machine.pages_bytes(from.id);
        assert!(package <= from.memory_bytes && from.free_bytes.is_none_or(|free| free <= from.memory_bytes));
        assert!(machine.nearest_cpu_nodes(from.id).iter().all(|id| machine.node(*id).is_some()));
    }
    assert!(classes.iter().zip(pairs).all(|(c, pairs)| c.pairs == pairs));
}

impl Topology {
    /// What a node's pages add up to.
    fn pages_bytes(&self, node: NodeId) -> u64 {
        self.node(node).map_or(0, |n| n.pages.iter().map(|p| p.size_bytes * p.total).sum())
    }
}

pub(super) fn ids(cpus: &[CpuId]) -> Vec<u32> {
    cpus.iter().map(|cpu| cpu.0).collect()
}

fn read(fixture: &Fixture) -> Topology {
    let machine = Topology::read(fixture.root()).expect("a machine");
    check(&machine);
    machine
}

fn warned(machine: &Topology, of: &str) -> bool {
    machine.warnings().iter().any(|w| w.contains(of))
}

#[test]
fn an_honest_machine_has_no_warnings() {
    let machine = read(&Fixture::machine(&[0, 3], 4));
    assert_eq!(machine.warnings(), [""; 0]);
    assert_eq!(ids(machine.online_cpus()), (0..8).collect::<Vec<_>>());
    assert_eq!(machine.distance(NodeId(0), NodeId(3)), 21);
    assert_eq!(machine.node_of_cpu(CpuId(5)), Some(NodeId(3)));
    assert_eq!((machine.cores().len(), machine.caches().len(), machine.packages().len()), (4, 4, 2));
    assert_eq!(machine.caches()[0].size_bytes, 1 << 20);
    assert_eq!(machine.memory_bytes(), 16 << 30);
    let json = serde_json::to_value(&machine).expect("serializes");
    assert_eq!(json["nodes"][1]["distances"], serde_json::json!({"0": 21, "3": 10}));
    assert_eq!(json["nodes"][1]["cpus"], serde_json::json!([4, 5, 6, 7]));
    assert_eq!(json["usable_memory_nodes"], serde_json::json!([0, 3]));
    let text = machine.render_text();
    let table = "distances (from row to column)\n        0  3\n    0  10 21\n    3  21 10\n";
    assert!(text.contains(table) && text.contains("node 3: 4 cpus (4-7), 8 GiB"), "{text}");
}

#[test]
fn this_machine_is_read() {
    let machine = Topology::discover().expect("tests run on Linux");
    check(&machine);
    let mine = crate::current_cpu().expect("a cpu");
    assert!(machine.usable_cpus().contains(&mine), "{mine} of {:?}", machine.usable_cpus());
    assert!(machine.memory_bytes() > 0);
    // What sched_getaffinity says, and nothing else, where no cgroup cuts it further.
    let own = Topology::read(Path::new("/proc/../")).expect("another spelling of the root");
    assert_eq!(own.usable_cpus(), machine.usable_cpus());
}

#[test]
fn pinning_narrows_what_is_usable() {
    let before = Topology::discover().expect("a machine");
    std::thread::spawn(move || {
        let last = *before.usable_cpus().last().expect("never empty");
        if !crate::pin_current_thread(&[last]) {
            eprintln!("skipped: pinning is refused here");
            return;
        }
        assert_eq!(crate::current_cpu(), Some(last));
        assert_eq!(Topology::discover().expect("a machine").usable_cpus(), [last]);
        assert!(!crate::pin_current_thread(&[]));
        assert!(!crate::pin_current_thread(&[CpuId(60_000)]));
        assert_eq!(crate::current_cpu(), Some(last));
    })
    .join()
    .expect("no panic");
}

#[test]
fn what_is_no_machine_is_an_error() {
    let fixture = Fixture::empty();
    let error = Topology::read(fixture.root()).expect_err("empty");
    assert!(matches!(error, TopologyError::NoCpus { .. }), "{error}");
    let error = Topology::read(&fixture.root().join("none")).expect_err("missing");
    assert!(matches!(error, TopologyError::Root { .. }), "{error}");
    fixture.write("file", "");
    let error = Topology::read(&fixture.root().join("file")).expect_err("a file");
    assert!(error.to_string().contains("not a folder"), "{error}");
}

#[test]
fn machines_without_nodes_are_one_node() {
    let fixture = Fixture::machine(&[0, 1], 2);
    fixture.remove("sys/devices/system/node");
    let machine = read(&fixture);
    assert_eq!(machine.nodes().len(), 1);
    assert_eq!(ids(&machine.nodes()[0].cpus), [0, 1, 2, 3]);
    assert_eq!(machine.nodes()[0].memory_bytes, 16 << 30);
    assert!(warned(&machine, "describes no node"));
    // Down to /proc alone.
    fixture.remove("sys");
    fixture.write("proc/cpuinfo", "processor\t: 0\nmodel\t: x\n\nprocessor\t: 2\n");
    let machine = read(&fixture);
    assert_eq!(ids(machine.usable_cpus()), [0, 2]);
    fixture.write("proc/cpuinfo", "vendor_id : IBM/S390\nprocessor 4: version = 00\nprocessor 5: version = 00\n");
    assert_eq!(ids(read(&fixture).online_cpus()), [4, 5]);
    fixture.remove("proc/cpuinfo");
    fixture.write("proc/stat", "cpu  1 2 3\ncpu0 1 2\ncpu7 1 2\nintr 5\n");
    assert_eq!(ids(read(&fixture).online_cpus()), [0, 7]);
}

#[test]
fn offline_cpus_and_nodes_are_left_out() {
    let fixture = Fixture::machine(&[0, 2], 4);
    fixture.cpu_file("cpu5/online", "0\n");
    fixture.cpu_file("online", "0-6,9\n");
    let machine = read(&fixture);
    assert_eq!(ids(machine.online_cpus()), [0, 1, 2, 3, 4, 6]);
    assert!(warned(&machine, "not described, so left out: cpu 9"));
    fixture.node_file("online", "2\n");
    let machine = read(&fixture);
    assert_eq!(machine.nodes().iter().map(|n| n.id.0).collect::<Vec<_>>(), [2]);
    assert!(warned(&machine, "online cpus 0-3"));
    assert!(warned(&machine, "left out: node 0"));
    // The row still has a column for the node that went.
    assert_eq!(machine.nodes()[0].distances, BTreeMap::from([(NodeId(2), 10)]));
    assert_eq!(machine.node_of_cpu(CpuId(0)), None);
    assert_eq!(ids(machine.usable_cpus()), [0, 1, 2, 3, 4, 6]);
    fixture.remove("sys/devices/system/cpu/online");
    assert_eq!(ids(read(&fixture).online_cpus()), [0, 1, 2, 3, 4, 6, 7]);
    fixture.remove("sys/devices/system/cpu/cpu7/topology");
    let machine = read(&fixture);
    assert_eq!(ids(machine.online_cpus()), [0, 1, 2, 3, 4, 6]);
    assert!(warned(&machine, "taken as offline: cpu 7"));
}

#[test]
fn lying_kernels_are_survived_with_warnings() {
    let lie = |path: &str, text: &str, warning: &str| {
        let fixture = Fixture::machine(&[0, 1], 4);
        fixture.write(&format!("sys/devices/system/{path}"), text);
        let machine = read(&fixture);
        assert!(warned(&machine, warning), "{path} = {text:?}: {:?}", machine.warnings());
        machine
    };
    let machine = lie("node/node0/distance", "12 21\n", "12 from itself");
    assert_eq!((machine.distance(NodeId(0), NodeId(0)), machine.distance(NodeId(0), NodeId(1))), (10, 21));
    let machine = lie("node/node0/distance", "10\n", "tells no distances, or not all");
    assert_eq!(machine.distance(NodeId(0), NodeId(1)), DISTANCE_REMOTE);
    let machine = lie("node/node1/distance", "", "tells no distances");
    assert_eq!((machine.distance(NodeId(1), NodeId(0)), machine.distance(NodeId(0), NodeId(1))), (20, 21));
    lie("node/node1/distance", "3 10", "nearer than from itself");
    lie("node/node1/distance", "99999999999999999999 10", "tells no distances, or not all");
    let machine = lie("node/node1/cpulist", "2-7", "several nodes list cpus 2-3");
    assert_eq!(ids(&machine.node(NodeId(1)).expect("node 1").cpus), [4, 5, 6, 7]);
    lie("node/node1/cpulist", "what", "cpus of node 1 are not told");
    lie("node/node1/cpumap", "f", "list and mask of the cpus of node 1 differ");
    lie("cpu/online", "40-50", "names no cpu that is there");
    lie("cpu/online", "garbage", "is not a list of numbers");
    lie("node/online", "0-1,6", "not described, so left out: node 6");
    lie("node/online", "9", "used all the same");
    lie("node/has_memory", "0-1,3", "offline: node 3");
    lie("cpu/cpu3/cache/index0/level", "?", "without level or type");
    let fixture = Fixture::machine(&[0, 1], 4);
    fixture.node_file("has_cpu", "0-1");
    fixture.node_file("node1/cpulist", "\n");
    fixture.cpu_file("cpu6/node1/online", "1");
    let machine = read(&fixture);
    assert!(warned(&machine, "node 1 is said to have cpus") && warned(&machine, "node 1 leaves out cpus"));
    assert_eq!(machine.node_of_cpu(CpuId(6)), Some(NodeId(1)));
    assert!(warned(&machine, "no online node has online cpus 4-5,7"));
}

#[test]
fn missing_pieces_are_assumed() {
    let fixture = Fixture::machine(&[0, 1], 4);
    fixture.remove("sys/devices/system/node/node1/meminfo");
    let machine = read(&fixture);
    assert!(warned(&machine, "memory of node 1 is not told"));
    // The kernel says that it has memory, only not how much.
    assert_eq!(machine.usable_memory_nodes(), [NodeId(0), NodeId(1)]);
    fixture.node_file("has_memory", "0\n");
    assert_eq!(read(&fixture).usable_memory_nodes(), [NodeId(0)]);
    for cpu in 0..8 {
        fixture.remove(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"));
        fixture.cpu_file(&format!("cpu{cpu}/cache/index0/shared_cpu_list"), "garbage");
    }
    let machine = read(&fixture);
    assert!(warned(&machine, "share a core"));
    // By core id, as old kernels tell it.
    assert_eq!(ids(&machine.cores()[1].cpus), [2, 3]);
    assert_eq!(machine.caches().len(), 8);
    for cpu in 0..8 {
        fixture.remove(&format!("sys/devices/system/cpu/cpu{cpu}/topology"));
        fixture.remove(&format!("sys/devices/system/cpu/cpu{cpu}/cache"));
    }
    let machine = read(&fixture);
    assert_eq!((machine.cores().len(), machine.caches().len(), machine.packages().len()), (8, 0, 0));
    assert!(warned(&machine, "names no package for cpus 0-7"));
    assert!(machine.nodes().iter().all(|n| n.package.is_none()));
}

#[test]
fn nodes_without_cpus_are_memory() {
    let fixture = Fixture::machine(&[0, 1], 2);
    fixture.node_file("node2/cpulist", "\n");
    fixture.node_file("node2/distance", "17 28 10");
    fixture.node_memory(2, 64 << 20, 64 << 20);
    fixture.node_file("online", "0-2");
    fixture.node_file("has_memory", "0-2");
    fixture.node_file("node0/distance", "10 21 17");
    fixture.node_file("node1/distance", "21 10 28");
    let machine = read(&fixture);
    assert_eq!(machine.warnings(), [""; 0]);
    assert_eq!(machine.usable_memory_nodes().len(), 3);
    let memory = machine.node(NodeId(2)).expect("node 2");
    assert_eq!((memory.cpus.len(), memory.package, memory.memory_bytes), (0, None, 64 << 30));
    assert!(machine.render_text().contains("node 2: no cpus, 64 GiB"));
}

#[test]
fn a_huge_list_is_cut_to_what_is_there() {
    let fixture = Fixture::machine(&[0], 4);
    fixture.cpu_file("online", "0-4294967295");
    fixture.node_file("online", "0-4294967295");
    fixture.node_file("node0/cpulist", "0-4294967295");
    fixture.cpu_file("cpu0/topology/core_cpus_list", "0-4294967295");
    fixture.node_file("possible", "0-4294967295");
    fixture.cpu_file("cpu4294967295/online", "1");
    let machine = read(&fixture);
    assert_eq!(ids(machine.online_cpus()), [0, 1, 2, 3]);
    assert!(warned(&machine, "above 65535"));
    assert_eq!(machine.cores().len(), 1);
}

#[test]
fn synthetic_machines_keep_the_invariants() {
    for (packages, nodes, cores, smt) in [(1, 1, 1, 1), (2, 1, 4, 2), (4, 2, 3, 2), (0, 0, 0, 0)] {
        let machine = Topology::synthetic(packages, nodes, cores, smt);
        check(&machine);
        let packages = packages.max(1);
        let nodes = nodes.max(1);
        let cores = cores.max(1);
        let smt = smt.max(1);
        assert_eq!(machine.nodes().len() as u32, packages * nodes);
        assert_eq!(machine.cores().len() as u32, packages * nodes * cores);
        assert_eq!(machine.usable_cpus().len() as u32, packages * nodes * cores * smt);
        assert!(machine.cores().iter().all(|c| c.cpus.len() as u32 == smt && c.node.is_some()));
        assert!(machine.packages().iter().all(|p| p.nodes.len() as u32 == nodes));
    }
    let machine = Topology::synthetic(2, 2, 2, 2);
    assert_eq!(ids(&machine.cores()[0].cpus), [0, 8]);
    let from_0: Vec<u32> = (0..4).map(|to| machine.distance(NodeId(0), NodeId(to))).collect();
    assert_eq!(from_0, [10, 12, 21, 21]);
}

/// What a test does to one file of a machine.
#[derive(Clone, Debug)]
pub(super) enum Damage {
    Cut(prop::sample::Index),
    Replace(Vec<u8>),
    Text(&'static str),
    Remove,
    Folder,
}

pub(super) fn damage() -> impl Strategy<Value = Damage> {
    let texts = [
        "",
        "\0\0",
        "0-4294967295",
        "-1",
        "0",
        "99999999999999999999999",
        "7,3,3-9",
        "ffffffff,ffffffff",
        "a\nb",
        "NaN kB",
    ];
    prop_oneof![
        any::<prop::sample::Index>().prop_map(Damage::Cut),
        prop::collection::vec(any::<u8>(), 0..64).prop_map(Damage::Replace),
        prop::sample::select(texts.to_vec()).prop_map(Damage::Text),
        Just(Damage::Remove),
        Just(Damage::Folder),
    ]
}

pub(super) fn apply(path: &Path, damage: &Damage) {
    let text = fs::read(path).unwrap_or_default();
    // Recorded trees may be read-only file by file.
    let _ = fs::remove_file(path);
    let done = match damage {
        Damage::Cut(at) => fs::write(path, &text[..at.index(text.len() + 1)]),
        Damage::Replace(bytes) => fs::write(path, bytes),
        Damage::Text(text) => fs::write(path, text),
        Damage::Remove => Ok(()),
        Damage::Folder => fs::create_dir(path),
    };
    done.expect("the tree is the test's own");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn damaged_trees_never_panic(hits in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..12)) {
        let fixture = super::facts_tests::rich();
        fixture.write("proc/mounts", "cgroup2 /cg cgroup2 rw 0 0\ncgroup /cg1 cgroup rw,cpuset,memory 0 0\n");
        fixture.write("proc/self/cgroup", "0::/a/b\n3:memory,cpuset:/a\n");
        fixture.write("cg/a/b/cpuset.cpus.effective", "0-3\n");
        fixture.write("cg/a/memory.max", "123456789\n");
        fixture.write("cg/a/b/cpu.max", "150000 100000\n");
        fixture.write("proc/sys/kernel/numa_balancing", "1\n");
        fixture.write("cg1/a/cpuset.mems", "0\n");
        fixture.write("proc/self/status", "Cpus_allowed_list:\t0-2\nMems_allowed:\t5\n");
        let files = fixture.files();
        for (which, damage) in &hits {
            let path = &files[which.index(files.len())];
            if path.is_file() {
                apply(path, damage);
            }
        }
        if let Ok(machine) = Topology::read(fixture.root()) {
            check(&machine);
        }
    }
}
