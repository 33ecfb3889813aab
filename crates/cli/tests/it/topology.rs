//! `nearside topology` on this machine and on a recorded one.

use serde_json::{Value, json};

use crate::program::{file, run};

fn parsed(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(arguments).ok()).expect("JSON")
}

#[test]
fn this_machine_has_what_every_machine_has() {
    let machine = parsed(&["topology", "--format", "json"]);
    for list in ["nodes", "online_cpus", "usable_cpus", "usable_memory_nodes"] {
        assert!(machine[list].as_array().is_some_and(|list| !list.is_empty()), "{list}: {machine}");
    }
    assert!(machine["packages"].is_array() && machine["warnings"].is_array());
    for node in machine["nodes"].as_array().expect("nodes") {
        assert_eq!(node["distances"][node["id"].to_string()], 10, "{node}");
        for field in ["package", "cpus", "memory_bytes"] {
            assert!(node.get(field).is_some(), "{field}: {node}");
        }
    }
    let text = run(&["topology"]).ok();
    assert!(!text.trim().is_empty());
}

#[test]
fn a_recorded_machine_is_read_from_its_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let nodes = "sys/devices/system/node";
    let cpus = "sys/devices/system/cpu";
    file(root, &format!("{nodes}/online"), "0,2\n");
    file(root, &format!("{cpus}/online"), "0-3\n");
    for (node, list, distances) in [(0, "0-1", "10 21"), (2, "2-3", "21 10")] {
        file(root, &format!("{nodes}/node{node}/cpulist"), &format!("{list}\n"));
        file(root, &format!("{nodes}/node{node}/distance"), &format!("{distances}\n"));
        let memory = format!("Node {node} MemTotal:       1048576 kB\nNode {node} MemFree:         524288 kB\n");
        file(root, &format!("{nodes}/node{node}/meminfo"), &memory);
    }
    for cpu in 0..4 {
        let topology = format!("{cpus}/cpu{cpu}/topology");
        file(root, &format!("{topology}/physical_package_id"), &format!("{}\n", cpu / 2));
        file(root, &format!("{topology}/core_id"), &format!("{}\n", cpu % 2));
        file(root, &format!("{topology}/thread_siblings_list"), &format!("{cpu}\n"));
        file(root, &format!("{topology}/core_cpus_list"), &format!("{cpu}\n"));
    }
    let root = root.to_str().expect("UTF-8");
    let machine = parsed(&["topology", "--root", root, "--format", "json"]);
    let node = |at: usize, id: u32, package: u32, cpus: [u32; 2], distances: Value| {
        let told =
            json!({"id": id, "package": package, "cpus": cpus, "memory_bytes": 1_u64 << 30, "distances": distances});
        for (key, value) in told.as_object().expect("an object") {
            assert_eq!(&machine["nodes"][at][key], value, "{key}");
        }
    };
    node(0, 0, 0, [0, 1], json!({"0": 10, "2": 21}));
    node(1, 2, 1, [2, 3], json!({"0": 21, "2": 10}));
    assert_eq!(machine["nodes"][1]["free_bytes"], 512_u64 << 20);
    assert_eq!(machine["hop_classes"][1]["name"], "1 hop");
    assert_eq!(machine["default_threads"], 4);
    assert_eq!(machine["nodes"].as_array().map(Vec::len), Some(2));
    assert_eq!(machine["online_cpus"], json!([0, 1, 2, 3]));
    assert_eq!(machine["packages"].as_array().map(Vec::len), Some(2));
    let text = run(&["topology", "--root", root]).ok();
    assert!(text.contains('2') && text.contains("21"), "{text}");
}

#[test]
fn a_tree_that_is_none_is_an_error() {
    let sentence = run(&["topology", "--root", "/nonexistent/tree"]).failed();
    assert!(sentence.contains("/nonexistent/tree"), "{sentence}");
}

#[test]
fn a_machine_is_described_by_name_specification_or_file() {
    let list = run(&["topology", "--machine", "list"]).ok();
    assert!(list.lines().count() == 13 && list.contains("eris-sgi-64"), "{list}");
    assert_eq!(parsed(&["topology", "--machine", "list", "--format", "json"])[5]["name"], "eris-amd-8");
    let machine = parsed(&["topology", "--machine", "eris-sgi-64", "--format", "json"]);
    assert_eq!(machine["nodes"].as_array().map(Vec::len), Some(64));
    assert!(run(&["topology", "--machine", "skylake-2-snc-on"]).ok().contains("latency in ns"));
    let imaginary = parsed(&["topology", "--machine", "2x2x4x2;mem=64G;cpuless=1", "--format", "json"]);
    assert_eq!(imaginary["nodes"][4]["memory_kind"], "cxl");
    assert_eq!(imaginary["tiers"][1]["nodes"], json!([4]));
    // What was printed can be given back.
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "machine.json", &imaginary.to_string());
    let path = folder.path().join("machine.json");
    assert_eq!(parsed(&["topology", "--machine", path.to_str().expect("UTF-8"), "--format", "json"]), imaginary);
    assert!(run(&["topology", "--machine", "eris-amd8"]).failed().contains("did you mean 'eris-amd-8'"));
    assert!(run(&["topology", "--machine", "4x2"]).failed().contains("a shape is packages"));
}

#[test]
fn the_drawing_is_an_svg_of_its_own() {
    let svg = run(&["topology", "--machine", "eris-amd-8", "--format", "svg"]).ok();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    assert!(svg.contains(">node 7<") && svg.contains("distances") && !svg.contains("href"));
    assert!(run(&["topology", "--format", "svg"]).ok().contains(">node 0<"));
}
