//! What is read of memory, groups of cpus and settings, and what follows from it, on machines made of a few files.

use proptest::prelude::*;

use super::tests::{check, ids};
use super::*;
use crate::fixture::Fixture;

fn read(fixture: &Fixture) -> Topology {
    let machine = Topology::read(fixture.root()).expect("a machine");
    check(&machine);
    machine
}

/// Two nodes of four cpus in one package each, and node 4 with memory only.
fn with_memory_node() -> Fixture {
    let fixture = Fixture::machine(&[0, 2], 4);
    fixture.node_file("online", "0,2,4");
    fixture.node_file("has_memory", "0,2,4");
    fixture.node_file("node0/distance", "10 21 17");
    fixture.node_file("node2/distance", "21 10 28");
    fixture.node_file("node4/distance", "17 28 10");
    fixture.node_file("node4/cpulist", "\n");
    fixture.node_memory(4, 16 << 20, 12 << 20);
    fixture
}

/// A machine with everything that is read of one.
pub(super) fn rich() -> Fixture {
    let fixture = with_memory_node();
    for (node, latency, bandwidth) in [(0, 90, 100_000), (2, 95, 100_000), (4, 250, 30_000)] {
        let of = |name: &str| format!("node{node}/access1/initiators/{name}");
        fixture.node_file(&of("read_latency"), &format!("{latency}\n"));
        fixture.node_file(&of("write_latency"), "0\n");
        fixture.node_file(&of("read_bandwidth"), &format!("{bandwidth}\n"));
        fixture.node_file(&of(if node == 2 { "node2/x" } else { "node0/x" }), "");
        fixture.node_file(&format!("node{node}/hugepages/hugepages-2048kB/nr_hugepages"), "512\n");
        fixture.node_file(&format!("node{node}/hugepages/hugepages-2048kB/free_hugepages"), "100\n");
        fixture.node_file(&format!("node{node}/memory_side_cache/index1/size"), "1073741824\n");
        fixture.node_file(&format!("node{node}/memory_side_cache/index1/line_size"), "64\n");
    }
    fixture.write("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0,2\n");
    fixture.write("sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "4\n");
    fixture.write("sys/bus/dax/devices/dax0.0/target_node", "9\n");
    fixture.write("proc/driver/nvidia/gpus/0/numa_status", "Node: 8\nNuma status: online\n");
    fixture.write("proc/cpuinfo", "processor : 0\nmodel name\t: A  Cpu\n");
    for cpu in 0..8 {
        let set = |name: &str, cpus: &str| fixture.cpu_file(&format!("cpu{cpu}/topology/{name}"), cpus);
        set("die_id", &format!("{}\n", cpu / 2 % 2));
        set("die_cpus", if cpu < 4 { ["3", "c"][cpu / 2] } else { ["30", "c0"][cpu / 2 - 2] });
        set("cluster_id", "1\n");
        set("cluster_cpus_list", if cpu < 4 { "0-2\n" } else { "4-6\n" });
        set("book_id", &format!("{}\n", cpu / 4));
        set("book_siblings_list", if cpu < 4 { "0-3\n" } else { "4-7\n" });
        set("drawer_id", "0\n");
        set("drawer_siblings_list", "0-7\n");
    }
    fixture
}

#[test]
fn everything_is_read() {
    let machine = read(&rich());
    assert_eq!((machine.cpu_model(), machine.warnings()), (Some("A Cpu"), &[][..]));
    let node = machine.node(NodeId(4)).expect("node 4");
    assert_eq!((node.memory_kind, node.kernel_tier, node.free_bytes), (MemoryKind::Cxl, Some(22), Some(12 << 30)));
    let huge = Pages { size_bytes: 2 << 20, total: 512, free: 100 };
    let base = Pages { size_bytes: 4096, total: (15 << 30) / 4096, free: (12 << 30) / 4096 };
    assert_eq!(node.pages, [base, huge]);
    assert_eq!(node.side_caches, [SideCache { level: 1, size_bytes: 1 << 30, line_bytes: 64 }]);
    let access = Access {
        class: 1,
        initiators: vec![NodeId(0)],
        read_latency_ns: Some(250),
        read_bytes_per_second: Some(30_000_000_000),
        ..Access::default()
    };
    assert_eq!(node.access, [access]);
    let tiers: Vec<_> = machine.tiers().iter().map(|t| (t.tier, t.nodes.clone(), t.kinds.clone())).collect();
    let dram = vec![NodeId(0), NodeId(2)];
    let cxl = vec![NodeId(4)];
    assert_eq!(tiers, [(0, dram, vec![MemoryKind::Dram]), (1, cxl, vec![MemoryKind::Cxl])]);
    assert_eq!((machine.tier_of(NodeId(4)), machine.tier_of(NodeId(9))), (Some(1), None));
    assert_eq!(machine.dies().len(), 4);
    assert_eq!((ids(&machine.dies()[3].cpus), machine.dies()[3].package), (vec![6, 7], Some(PackageId(2))));
    // Cpu 3 names a cluster without itself: it is in none.
    assert_eq!(machine.clusters().iter().map(|c| ids(&c.cpus)).collect::<Vec<_>>(), [[0, 1, 2], [4, 5, 6]]);
    assert_eq!((machine.books().len(), machine.drawers().len()), (2, 1));
    assert_eq!(machine.drawers()[0].nodes, [NodeId(0), NodeId(2)]);
    let json = serde_json::to_value(&machine).expect("serializes");
    assert_eq!(json["nodes"][2]["memory_kind"], "cxl");
    assert_eq!(json["tiers"][1]["nodes"], serde_json::json!([4]));
    assert_eq!(json["hop_classes"][1]["name"], "attached memory");
}

#[test]
fn memory_without_cpus_belongs_to_the_nearest_package() {
    let machine = read(&with_memory_node());
    assert_eq!(machine.nearest_cpu_nodes(NodeId(4)), [NodeId(0)]);
    assert_eq!(
        (machine.home_package(NodeId(4)), machine.home_package(NodeId(2))),
        (Some(PackageId(0)), Some(PackageId(2)))
    );
    let names: Vec<_> = machine.hop_classes().iter().map(|c| (c.name.as_str(), c.distance, c.pairs)).collect();
    assert_eq!(
        names,
        [("local", 10, 2), ("attached memory", 17, 1), ("1 hop", 21, 2), ("attached memory, 1 hop", 28, 1)]
    );
    assert_eq!(machine.hop_class(NodeId(0), NodeId(4)).map(|c| c.kind), Some(HopKind::Package));
    assert_eq!(machine.hop_class(NodeId(4), NodeId(0)), None);
    assert!(machine.sub_domains().is_empty());
    // Nearest to both packages alike: of none.
    let fixture = with_memory_node();
    fixture.node_file("node2/distance", "21 10 17");
    assert_eq!(read(&fixture).home_package(NodeId(4)), None);
}

#[test]
fn the_kind_of_memory_is_taken_from_what_speaks_for_it() {
    let kind = |change: &dyn Fn(&Fixture)| {
        let fixture = with_memory_node();
        change(&fixture);
        let machine = read(&fixture);
        let node = machine.node(NodeId(4)).expect("node 4");
        (node.memory_kind, machine.tier_of(node.id).expect("it has memory"))
    };
    assert_eq!(kind(&|_| ()), (MemoryKind::Cxl, 1));
    assert_eq!(
        kind(&|f| f.write("proc/cpuinfo", "model name : Intel(R) Xeon Phi(TM) CPU 7250\n")),
        (MemoryKind::Hbm, 0)
    );
    assert_eq!(kind(&|f| f.write("proc/driver/nvidia/gpus/0/numa_status", "Node: 4\n")), (MemoryKind::Gpu, 1));
    assert_eq!(kind(&|f| f.write("sys/bus/dax/devices/dax1.0/target_node", "4\n")), (MemoryKind::Hbm, 0));
    let linked = |to: &'static str| {
        move |f: &Fixture| {
            f.write("sys/bus/dax/devices/x", "");
            f.write("real/target_node", "4\n");
            // The folder that the link names is there under its own name only.
            let link = f.root().join("sys/bus/dax/devices/dax1.0");
            std::fs::create_dir_all(f.root().join("sys/bus/dax/devices").join(to)).expect("folders");
            f.write(&format!("sys/bus/dax/devices/{to}/target_node"), "4\n");
            std::os::unix::fs::symlink(to, link).expect("a link");
        }
    };
    assert_eq!(kind(&linked("LNXSYSTM:00/ndbus0/region0/dax0.0")), (MemoryKind::Pmem, 1));
    assert_eq!(kind(&linked("root0/decoder0.0/region0/dax_region0")), (MemoryKind::Cxl, 1));
    let bandwidth = |f: &Fixture, node: u32, mb: u32| {
        f.node_file(&format!("node{node}/access0/initiators/read_bandwidth"), &format!("{mb}\n"));
    };
    let fast = |f: &Fixture| {
        bandwidth(f, 0, 90_000);
        bandwidth(f, 4, 400_000);
    };
    assert_eq!(kind(&fast), (MemoryKind::Hbm, 0));
    let tier = |f: &Fixture, tier: u32, nodes: &str| {
        f.write(&format!("sys/devices/virtual/memory_tiering/memory_tier{tier}/nodelist"), nodes);
    };
    let before = |f: &Fixture| {
        tier(f, 4, "0,2");
        tier(f, 1, "4");
    };
    assert_eq!(kind(&before), (MemoryKind::Hbm, 0));
    // One tier for all tells nothing.
    assert_eq!(kind(&|f| tier(f, 4, "0,2,4")), (MemoryKind::Cxl, 1));
    // Its cpus are only switched off.
    assert_eq!(kind(&|f| f.node_file("node4/cpulist", "8-11\n")), (MemoryKind::Dram, 0));
}

#[test]
fn a_lone_node_is_not_given_the_memory_of_one_that_went() {
    let fixture = Fixture::machine(&[1], 2);
    fixture.write("proc/meminfo", "MemTotal: 16777216 kB\n");
    // Memory that was plugged in later.
    assert_eq!(read(&fixture).nodes()[0].memory_bytes, 16 << 30);
    fixture.node_file("has_memory", "0-1\n");
    let machine = read(&fixture);
    assert_eq!((machine.nodes()[0].memory_bytes, machine.memory_bytes()), (8 << 30, 8 << 30));
}

#[test]
fn nodes_of_one_package_are_sub_domains() {
    let machine = Topology::synthetic(2, 2, 2, 1);
    let sub_domains: Vec<_> = machine.sub_domains().iter().map(|s| (s.package.0, s.nodes.clone())).collect();
    assert_eq!(sub_domains, [(0, vec![NodeId(0), NodeId(1)]), (1, vec![NodeId(2), NodeId(3)])]);
    let classes: Vec<_> = machine.hop_classes().iter().map(|c| (c.kind, c.distance, c.pairs)).collect();
    assert_eq!(classes, [(HopKind::Local, 10, 4), (HopKind::Package, 12, 4), (HopKind::Remote, 21, 8)]);
}

#[test]
fn packages_numbered_within_books_are_told_apart() {
    let fixture = Fixture::machine(&[0], 8);
    for cpu in 0..8 {
        fixture.cpu_file(&format!("cpu{cpu}/topology/physical_package_id"), &format!("{}\n", cpu / 2 % 2));
        fixture.cpu_file(&format!("cpu{cpu}/topology/book_id"), &format!("{}\n", cpu / 4));
    }
    let machine = read(&fixture);
    assert_eq!(machine.packages().len(), 4);
    assert_eq!(ids(&machine.packages()[2].cpus), [4, 5]);
    assert!(machine.warnings()[0].contains("numbered anew"), "{:?}", machine.warnings());
    // Without sets of cpus, books are told by number and package.
    assert_eq!(machine.books().len(), 4);
}

#[test]
fn page_sizes_follow_the_huge_pages() {
    let base = |sizes: &[u32]| {
        let fixture = Fixture::machine(&[0], 2);
        for kib in sizes {
            fixture.write(&format!("sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"), "3\n");
        }
        let machine = read(&fixture);
        assert_eq!(machine.nodes()[0].pages.len(), sizes.len() + 1);
        machine.nodes()[0].pages[0].size_bytes >> 10
    };
    assert_eq!([base(&[]), base(&[2048, 1_048_576])], [4, 4]);
    assert_eq!([base(&[2048, 524_288]), base(&[16_384]), base(&[2048, 32_768, 1_048_576])], [64, 64, 16]);
    // More than there is, or no size at all.
    let fixture = Fixture::machine(&[0], 2);
    fixture.node_file("node0/hugepages/hugepages-2048kB/nr_hugepages", "999999999999\n");
    fixture.node_file("node0/hugepages/hugepages-2048kB/free_hugepages", "-4\n");
    fixture.node_file("node0/hugepages/hugepages-0kB/nr_hugepages", "4\n");
    fixture.node_file("node0/hugepages/hugepages-99999999999999999999kB/nr_hugepages", "4\n");
    let pages = read(&fixture).nodes()[0].pages.clone();
    assert_eq!(pages[1], Pages { size_bytes: 2 << 20, total: 4096, free: 0 });
    assert_eq!((pages.len(), pages[0].total), (2, 0));
}

#[test]
fn settings_that_get_in_the_way_are_warned_of() {
    let warned = |path: &str, text: &str, of: &str| {
        let fixture = with_memory_node();
        assert_eq!(read(&fixture).warnings(), [""; 0]);
        fixture.write(path, text);
        let machine = read(&fixture);
        assert!(machine.warnings().len() == 1 && machine.warnings()[0].contains(of), "{:?}", machine.warnings());
        // One node has nothing to place.
        let alone = Fixture::machine(&[0], 2);
        alone.write(path, text);
        read(&alone).warnings().len()
    };
    assert_eq!(warned("proc/sys/kernel/numa_balancing", "1\n", "automatic NUMA balancing is on"), 0);
    assert_eq!(warned("proc/sys/vm/zone_reclaim_mode", "1\n", "zone reclaim is on"), 0);
    assert_eq!(warned("sys/kernel/mm/numa/demotion_enabled", "true\n", "demotion is on"), 0);
    let huge = "always madvise [never]\n";
    assert_eq!(warned("sys/kernel/mm/transparent_hugepage/enabled", huge, "transparent huge pages are off"), 1);
    let meminfo = "MemTotal: 41943040 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\n";
    warned("proc/meminfo", meminfo, "60 KiB of swap are in use");
    warned("sys/devices/system/node/node0/distance", "10 10 17\n", "some nodes are said to be 10 from each other");
    warned("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 0 kB\n", "node 2 has cpus but no memory");
    warned("proc/self/status", "Cpus_allowed_list: 5\n", "only one of 8 cpus");
}

#[test]
fn json_that_is_no_machine_is_refused() {
    let json = serde_json::to_value(read(&rich())).expect("serializes");
    let refused = |change: &dyn Fn(&mut serde_json::Value), of: &str| {
        let mut json = json.clone();
        change(&mut json);
        let error = serde_json::from_value::<Topology>(json).expect_err(of).to_string();
        assert!(error.contains(of), "{error}");
    };
    refused(&|j| j["nodes"] = serde_json::json!([]), "no nodes");
    refused(&|j| j["nodes"][0]["distances"]["0"] = 11.into(), "not 10 from itself");
    refused(&|j| j["nodes"][0]["distances"]["3"] = 11.into(), "distance to every node");
    refused(&|j| j["nodes"][0]["cpus"][0] = 4.into(), "cpu");
    refused(&|j| j["cores"][0]["cpus"] = serde_json::json!([]), "cores");
    refused(&|j| j["packages"][0]["id"] = 7.into(), "packages do not ascend");
    refused(&|j| j["dies"][0]["package"] = 7.into(), "package that is not there");
    refused(&|j| j["usable_cpus"] = serde_json::json!([77]), "usable cpus");
    refused(&|j| j["usable_memory_nodes"] = serde_json::json!([77]), "usable memory nodes");
    refused(&|j| j["cpu_quota"] = serde_json::json!({"quota_us": 1, "period_us": 0}), "period of 0");
    refused(&|j| j["nodes"] = "x".into(), "invalid type");
    // The keys of the first release suffice.
    let mut first = json;
    let keys = ["nodes", "packages", "cores", "caches", "online_cpus", "usable_cpus", "usable_memory_nodes"];
    let object = first.as_object_mut().expect("an object");
    object.retain(|key, _| keys.contains(&key.as_str()));
    for node in object["nodes"].as_array_mut().expect("nodes") {
        let keys = ["id", "package", "cpus", "memory_bytes", "distances"];
        node.as_object_mut().expect("a node").retain(|key, _| keys.contains(&key.as_str()));
    }
    let machine: Topology = serde_json::from_value(first).expect("an older file");
    check(&machine);
    assert_eq!((machine.hop_classes().len(), machine.default_threads()), (4, 8));
}

/// Many nodes with cpus far apart, old and new ways of telling, nothing else: as mainframes and large machines had it.
#[test]
fn many_nodes_are_read_and_drawn() {
    let fixture = Fixture::empty();
    let nodes = 96u32;
    for node in 0..nodes {
        // One group of 32 cpus per mask, highest first.
        let mut groups = vec!["00000000".to_string(); (nodes / 4) as usize];
        let group = groups.len() - 1 - (node / 4) as usize;
        groups[group] = format!("{:08x}", 0xffu32 << (node % 4 * 8));
        fixture.node_file(&format!("node{node}/cpumap"), &format!("{}\n", groups.join(",")));
        let row: Vec<String> = (0..nodes).map(|to| (10 + 12 * (node ^ to).count_ones()).to_string()).collect();
        fixture.node_file(&format!("node{node}/distance"), &row.join(" "));
        fixture.node_memory(node, 1 << 20, 1 << 19);
        for cpu in node * 8..node * 8 + 8 {
            fixture.cpu_file(&format!("cpu{cpu}/topology/physical_package_id"), &format!("{node}\n"));
            fixture.cpu_file(&format!("cpu{cpu}/topology/core_id"), &format!("{}\n", cpu % 8 / 2));
        }
    }
    let machine = read(&fixture);
    assert_eq!((machine.nodes().len(), machine.cores().len(), machine.packages().len()), (96, 384, 96));
    assert_eq!(ids(&machine.nodes()[95].cpus), (760..768).collect::<Vec<_>>());
    assert_eq!(machine.hop_classes().len(), 8);
    assert!(machine.render_text().contains("package 95, node 95: 8 cpus (760-767), 1 GiB (512 MiB free)"));
    // Runs of equal distances are one rectangle.
    assert!(machine.render_svg().matches("<rect").count() < 96 * 96);
}

/// The JSON of a machine with everything.
fn rich_json() -> &'static str {
    static JSON: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| serde_json::to_string(&read(&rich())).expect("serializes"));
    &JSON
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// JSON that was tampered with is refused, or can be shown.
    #[test]
    fn tampered_json_never_panics(
        hits in prop::collection::vec((any::<prop::sample::Index>(), "[0-9]{1,4}|-1|null|[18]{20}"), 1..6),
    ) {
        let json = rich_json();
        let numbers: Vec<(usize, &str)> = json
            .match_indices(|c: char| c.is_ascii_digit())
            .filter(|(at, _)| !json.as_bytes()[at - 1].is_ascii_digit())
            .collect();
        let mut text = json.to_string();
        for (which, with) in &hits {
            let (at, _) = numbers[which.index(numbers.len())];
            let end = at + json[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
            if text.len() == json.len() {
                text.replace_range(at..end, with);
            } else {
                text = text.replacen(&json[at..end], with, 1);
            }
        }
        if let Ok(machine) = serde_json::from_str::<Topology>(&text) {
            prop_assert!(machine.render_text().contains("machine: "));
            prop_assert!(machine.render_svg().starts_with("<svg"));
            for from in machine.nodes() {
                prop_assert!(machine.nodes().iter().all(|to| machine.distance(from.id, to.id) >= 10));
                machine.hop_class(from.id, NodeId(0));
            }
            let text = serde_json::to_string(&machine).expect("serializes");
            let back: Topology = serde_json::from_str(&text).expect("its own");
            prop_assert_eq!(back, machine);
        }
    }
}
