//! Specifications, published machines and files as descriptions.

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::ids::NodeId;
use crate::topology::{HopKind, MemoryKind};

fn parsed(text: &str) -> MachineDescription {
    let machine = MachineDescription::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let json = serde_json::to_string(&machine.topology).expect("serializes");
    assert_eq!(serde_json::from_str::<Topology>(&json).expect("its own"), machine.topology);
    if let Some(attributes) = &machine.attributes {
        assert_eq!(&Attributes::from_json(&attributes.to_json()).expect("its own"), attributes);
        assert_eq!(attributes.topology, machine.topology);
    }
    machine
}

fn refused(text: &str) -> String {
    MachineDescription::parse(text).expect_err(text).to_string()
}

#[test]
fn a_specification_has_a_shape() {
    let machine = parsed("4x2x8x2").topology;
    assert_eq!(machine, {
        let mut same = Topology::synthetic(4, 2, 8, 2);
        let text = serde_json::to_string(&same)
            .expect("serializes")
            .replace("\"cpu_model\":null", "\"cpu_model\":\"imaginary (4x2x8x2)\"");
        same = serde_json::from_str(&text).expect("its own");
        same
    });
    assert_eq!(parsed("2x1x4").topology.online_cpus().len(), 8);
    assert_eq!(parsed(" 1x1x1x1 ").topology.nodes().len(), 1);
}

#[test]
fn options_change_the_machine() {
    let machine =
        parsed("2x1x2x1; mem=64G; cpuless=3; cpuless-mem=1.5T; kind=hbm; distance=10,12,21,14,24; l3=0").topology;
    let nodes: Vec<_> = machine.nodes().iter().map(|n| (n.cpus.len(), n.memory_bytes >> 30, n.memory_kind)).collect();
    assert_eq!(nodes[1..3], [(2, 64, MemoryKind::Dram), (0, 1536, MemoryKind::Hbm)]);
    assert_eq!(nodes.len(), 5);
    let row = |from: usize| machine.nodes()[from].distances.values().copied().collect::<Vec<_>>();
    assert_eq!((row(0), row(2)), (vec![10, 21, 14, 24, 14], vec![14, 24, 10, 24, 14]));
    assert_eq!(machine.hop_class(NodeId(0), NodeId(4)).map(|c| c.kind), Some(HopKind::Package));
    assert_eq!(machine.tier_of(NodeId(3)), Some(0));
    assert!(machine.caches().iter().all(|c| c.level < 3));
    let machine = parsed("1x2x1x1;distance=10,15/16,10;latency=80,90;bandwidth=60G,0.5G");
    assert_eq!(machine.topology.distance(NodeId(1), NodeId(0)), 16);
    let attributes = machine.attributes.expect("figures were given");
    assert_eq!(attributes.latency_ns(NodeId(0), NodeId(1)), Some(90.0));
    assert_eq!(attributes.read_bytes_per_second(NodeId(1), NodeId(0)), Some(5e8));
    assert_eq!(attributes.read_bytes_per_second(NodeId(1), NodeId(1)), Some(6e10));
}

#[test]
fn wrong_specifications_say_what_would_be_right() {
    for (text, of) in [
        ("4", "a shape is packages x nodes"),
        ("4x2", "a shape is packages x nodes"),
        ("4x2x8x2x2", "a shape is packages x nodes"),
        ("0x1x1", "at least 1"),
        ("1xx1", "at least 1"),
        ("99999999999x1x1", "at least 1"),
        ("4000x1x1", "no more than 1024 nodes"),
        ("1x1x4294967295x4294967295", "cpus"),
        ("1x1x1;cpuless=5000000", "no more than 1024 nodes"),
        ("1x1x1;mem", "'mem' is no option"),
        ("1x1x1;mem=", "takes a size"),
        ("1x1x1;mem=5Q", "takes a size"),
        ("1x1x1;mem=-5G", "takes a size"),
        ("1x1x1;mem=1e300", "takes a size"),
        ("1x1x1;mem=0", "above 0"),
        ("1x1x1;mem=1G;mem=1G", "given twice"),
        ("1x1x1;memory=1G", "there is no option 'memory'"),
        ("1x1x1;cpuless=x", "takes a number"),
        ("1x1x1;kind=tape", "kinds are cxl"),
        ("1x2x1;distance=11,20", "is always 10"),
        ("1x2x1;distance=10,9", "9 is no distance"),
        ("1x2x1;distance=10,12.5", "12.5 is no distance"),
        ("1x2x1;distance=10,12/10", "2 rows of 2"),
        ("1x2x1;distance=10,12,13,14,15,16", "1 to 5 figures"),
        ("1x2x1;latency=80,", "figures above 0"),
        ("1x2x1;bandwidth=0", "figures above 0"),
    ] {
        let error = refused(text);
        assert!(error.contains(of), "{text}: {error}");
    }
}

#[test]
fn published_machines_are_known_by_name() {
    for machine in published_machines() {
        let MachineDescription { topology, attributes } = parsed(machine.name);
        let attributes = attributes.expect("figures");
        assert!(topology.warnings().is_empty() && attributes.source.contains("20"), "{}", machine.name);
        assert!(!attributes.notes.is_empty() && topology.cpu_model() == Some(machine.cpu));
        let some = attributes.latency.iter().chain([]).flatten().flatten().count() + attributes.write.len();
        assert!(some > 0, "{}", machine.name);
    }
    let amd = parsed("eris-amd-8");
    let row: Vec<u32> = amd.topology.nodes()[0].distances.values().copied().collect();
    assert_eq!(row, [10, 16, 18, 23, 18, 23, 18, 23]);
    assert_eq!((amd.topology.online_cpus().len(), amd.topology.memory_bytes() >> 30), (64, 64));
    let sgi = parsed("eris-sgi-64");
    let attributes = sgi.attributes.expect("figures");
    let mut seen: Vec<u32> = attributes.latency[0].iter().flatten().map(|l| l.avg_ns as u32).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [81, 400, 510, 630, 750, 870]);
    assert_eq!((sgi.topology.online_cpus().len(), sgi.topology.hop_classes().len()), (512, 6));
    let cod = parsed("broadwell-2-cod-on").attributes.expect("figures");
    let latency = cod.latency(NodeId(1), NodeId(0)).expect("a figure");
    assert_eq!((latency.avg_ns, latency.max_ns), (152.7, 152.7 + 2.2));
    assert_eq!(cod.topology.distance(NodeId(0), NodeId(1)), 21);
    let classes: Vec<u32> = cod.topology.hop_classes().iter().map(|c| c.distance).collect();
    assert_eq!(classes, [10, 21, 27]);
    let nbb = parsed("nbb-opteron-8").attributes.expect("figures");
    assert_eq!((nbb.stream.len(), nbb.by_threads.len(), nbb.by_threads[3].target), (3, 4, NodeId(3)));
    assert_eq!(parsed("ivybridge-ex-16").topology.packages().len(), 16);
}

/// Every number of a machine's entry in the reference that is a latency, rate or count must be found in what we make of
/// the machine; the reference is read as text.
#[test]
fn published_machines_are_those_of_the_reference() {
    let Ok(text) = fs::read_to_string("../../../shared/reference/machines.toml") else {
        eprintln!("skipped: the reference is not here");
        return;
    };
    let mut names = Vec::new();
    let mut machine = None;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            names.push(name.to_string());
            machine = Some(parsed(name));
        }
        let (Some((key, value)), Some(machine)) = (line.split_once('='), &machine) else { continue };
        let numbers: Vec<f64> =
            value.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter_map(|n| n.parse().ok()).collect();
        check_figures(key.trim(), value, &numbers, machine);
    }
    let ours: Vec<_> = published_machines().iter().map(|m| m.name.to_string()).collect();
    assert_eq!(ours, names);
}

fn check_figures(key: &str, value: &str, numbers: &[f64], machine: &MachineDescription) {
    let topology = &machine.topology;
    let attributes = machine.attributes.as_ref().expect("figures");
    let first = numbers.first().copied().unwrap_or(0.0) as usize;
    let cpus = topology.online_cpus().len();
    match key.trim_end_matches("_vendor") {
        "sockets" => assert_eq!(topology.packages().len(), first),
        "nodes" => assert_eq!(topology.nodes().len(), first),
        "cores" => assert_eq!(topology.cores().len(), first),
        "hw_threads" => assert_eq!(cpus, first),
        "cores_per_socket" => assert_eq!(topology.cores().len(), first * topology.packages().len()),
        "cores_per_node" => assert_eq!(topology.cores().len(), first * topology.nodes().len()),
        "threads_per_core" => assert_eq!(topology.cores()[0].cpus.len(), first),
        "memory_gb_per_node" => assert_eq!(topology.nodes()[0].memory_bytes >> 30, first as u64),
        "latency_ns" => {
            let ours: Vec<f64> =
                attributes.latency.iter().flatten().flatten().flat_map(|l| [l.min_ns, l.avg_ns, l.max_ns]).collect();
            for (name, number) in names_of(value).zip(numbers_of(value)) {
                // Split links of both kinds have one latency; a name with a digit is no figure.
                assert!(ours.iter().any(|o| (o - number).abs() < 1e-9), "{name} {number} of {key}");
            }
        }
        "bandwidth_gib_s" | "bandwidth_gb_s" | "bandwidth_mb_s" => {
            let unit = match key {
                "bandwidth_gib_s" => (1u64 << 30) as f64,
                "bandwidth_gb_s" => 1e9,
                _ => 1e6,
            };
            let ours: Vec<f64> = attributes.read.iter().flatten().flatten().map(|r| r / unit).collect();
            for (name, number) in names_of(value).zip(numbers_of(value)) {
                // Of all nodes at once, or of links that no pair is known to use: in the notes.
                let noted = name.starts_with("total") || name.contains("dual");
                let found = ours.iter().any(|o| (o - number).abs() < 1e-6);
                assert!(found || noted, "{name} {number} of {key}");
            }
        }
        key if key.starts_with("stream_") => {
            let same = |s: &crate::attributes::Stream| {
                [s.copy, s.scale, s.add, s.triad].iter().zip(numbers).all(|(o, n)| (o / 1e6 - n).abs() < 1e-6)
            };
            assert!(attributes.stream.iter().any(same), "{key}");
        }
        key if key.ends_with("_by_threads") => {
            let gib = (1u64 << 30) as f64;
            let same = |b: &crate::attributes::ByThreads| {
                b.bytes_per_second.iter().zip(numbers).all(|(o, n)| (o / gib - n).abs() < 1e-6)
            };
            assert!(attributes.by_threads.iter().any(same), "{key}");
        }
        _ => {}
    }
}

/// The figures of an inline table or array, without the digits of names.
fn numbers_of(value: &str) -> impl Iterator<Item = f64> + '_ {
    let values = value.split([',', '[', ']', '{', '}']).filter_map(|piece| {
        let piece = piece.rsplit('=').next().unwrap_or_default().trim();
        piece.parse::<f64>().ok()
    });
    values.collect::<Vec<_>>().into_iter()
}

/// The name beside each figure; the last one named, for figures of an array.
fn names_of(value: &str) -> impl Iterator<Item = String> + '_ {
    let mut name = String::new();
    let names: Vec<String> = value
        .split([',', '[', ']', '{', '}'])
        .filter_map(|piece| {
            if let Some((key, _)) = piece.split_once('=') {
                name = key.trim().to_string();
            }
            piece.rsplit('=').next().unwrap_or_default().trim().parse::<f64>().ok().map(|_| name.clone())
        })
        .collect();
    names.into_iter()
}

#[test]
fn figures_are_shown_as_tables() {
    let text = parsed("broadwell-2-cod-off").render_text();
    let table = "latency in ns (cpus of row, memory of column)\n          0   1\n     0   79 134\n     1  134  80\n";
    assert!(text.contains(table) && text.contains("reading in GB/s") && !text.contains("writing"), "{text}");
    assert!(text.contains("figures: Greinsmark 2020, Tables 1 and 3\n  - measured with"), "{text}");
    let text = parsed("nbb-xeon-4").render_text();
    assert!(text.contains("  striped, threads 64: copy 27.8, scale 25.7, add 34.5, triad 32.0\n"), "{text}");
    assert!(!parsed("1x1x1").render_text().contains("figures"));
}

#[test]
fn unknown_names_are_met_with_the_nearest() {
    assert!(refused("eris-sgi64").contains("did you mean 'eris-sgi-64'"));
    assert!(refused("skylake").contains("did you mean 'skylake-2-snc-o"));
    assert!(refused("").contains("did you mean"));
    assert!(refused("./none.json").contains("'./none.json' describes no machine"));
}

#[test]
fn files_of_the_probe_and_of_the_topology_are_read() {
    let folder = crate::fixture::folder();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("UTF-8").to_string()
    };
    let sgi = parsed("eris-sgi-64");
    let attributes = sgi.attributes.as_ref().expect("figures");
    assert_eq!(parsed(&file("probe.json", &attributes.to_json())), sgi);
    let topology = serde_json::to_string_pretty(&sgi.topology).expect("serializes");
    let read = parsed(&file("topology", &topology));
    assert_eq!((read.topology, read.attributes), (sgi.topology, None));
    assert!(refused(&file("bad.json", "{\"nodes\": 4}")).contains("as one of 'nearside topology --format json'"));
    let newer = attributes.to_json().replacen("\"format\": 1", "\"format\": 7", 1);
    assert!(refused(&file("newer.json", &newer)).contains("format 7"));
    assert!(refused(folder.path().to_str().expect("UTF-8")).contains("--root"));
}

proptest! {
    #[test]
    fn any_text_is_a_machine_or_an_error(
        text in "[0-9]{0,3}x?[0-9]{0,2}x[0-9]{0,2}(;(mem|cpuless|distance|latency|kind|l3)=[0-9GMx,/.]{0,8}){0,3}",
    ) {
        match MachineDescription::parse(&text) {
            Ok(machine) => {
                prop_assert!(!machine.topology.nodes().is_empty());
                if let Some(attributes) = machine.attributes {
                    prop_assert!(Attributes::from_json(&attributes.to_json()).is_ok());
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
