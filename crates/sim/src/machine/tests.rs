use super::*;

const GIB: f64 = (1u64 << 30) as f64;

/// What one node pulls when it reads all others evenly, by the rule.
fn pulled(machine: &Machine, from: usize) -> f64 {
    let others = (0..machine.node_count()).filter(|to| *to != from);
    let time: f64 = others.clone().map(|to| 1.0 / machine.bandwidth(from, to)).sum();
    others.count() as f64 / time
}

#[test]
fn every_published_machine_is_there_with_its_figures() {
    for name in Machine::published() {
        let machine = Machine::parse(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(machine.topology().nodes().len(), machine.node_count());
        assert_eq!(machine.topology().usable_cpus().len(), machine.cpus());
        assert!(machine.nodes().iter().all(|node| node.llc_bytes > 0), "{name}");
    }
    let sgi = Machine::parse("eris-sgi-64").unwrap();
    assert_eq!((sgi.node_count(), sgi.cpus()), (64, 512));
    assert_eq!(sgi.latency_ns(0, 54), 870.0, "two links in the unit and two between units");
    assert_eq!(sgi.bandwidth(0, 1), 9.5e9);
    assert_eq!(sgi.hops(0, 1), 1.0);
    let opteron = Machine::parse("nbb-opteron-8").unwrap();
    let written = 8.0 * 6.311;
    assert!((opteron.total_local() / GIB - written * 2.0).abs() < 1e-6, "what is written is read and goes back");
    assert!((opteron.bandwidth(0, 1) / GIB - 4.490).abs() < 1e-6, "links carry one each way");
    assert_eq!(Machine::parse("ivybridge-ex-16").unwrap().total_local() / GIB, 16.0 * 47.5);
}

#[test]
fn the_rule_for_remote_memory_gives_the_figures_on_paper() {
    let of = |name| pulled(&Machine::parse(name).unwrap(), 0);
    assert!((of("ivybridge-ex-4") / GIB - 8.8).abs() < 1e-9);
    assert!((of("westmere-ex-8") / GIB - 7.0 / (3.0 / 10.3 + 4.0 / 4.6)).abs() < 1e-9);
    assert!((of("eris-amd-8") / 1e9 - 7.0 / (1.0 / 5.8 + 2.0 / 4.2 + 1.0 / 2.9 + 2.0 / 3.7 + 1.0 / 1.8)).abs() < 1e-9);
}

#[test]
fn only_a_broadcast_that_is_a_limit_has_a_fabric() {
    let constants = Constants::default();
    let westmere = Machine::parse("westmere-ex-8").unwrap();
    assert_eq!(westmere.resources().len(), 17);
    assert_eq!(westmere.uses(0, 0, &constants), [(0, 1.0), (16, 1.0)]);
    let remote = westmere.uses(0, 5, &constants);
    assert_eq!(remote[0], (5, 1.0));
    assert!(remote[2].1 > 1.0, "data loads the links too");
    assert_eq!(Machine::parse("ivybridge-ex-4").unwrap().resources().len(), 8);
    assert_eq!(Machine::parse("eris-amd-8").unwrap().resources().len(), 16, "no total was printed");
}

#[test]
fn machines_are_cut_to_nodes_and_cpus() {
    let sgi = Machine::parse("eris-sgi-64").unwrap().with_nodes(61).unwrap();
    assert_eq!((sgi.node_count(), sgi.cpus()), (61, 488));
    let half = Machine::parse("skylake-2-snc-on").unwrap().with_cpus(7, 2).unwrap();
    assert_eq!(half.cpus(), 56);
    let error = Machine::parse("skylake-2-snc-on").unwrap().with_nodes(3).unwrap_err().to_string();
    assert!(error.contains("1 to 4 in steps of 2"), "{error}");
    assert!(sgi.with_cpus(9, 1).is_err());
}

const RING: &str = r#"
name = "ring"
packages = 4
cores_per_node = 2
latency_ns = [80, 80, 160]
bandwidth_gb_s = [20, 20, 10]
link = [
    { between = [0, 1], gb_s = 8 }, { between = [1, 2], gb_s = 8 },
    { between = [2, 3], gb_s = 8 }, { between = [3, 0], gb_s = 8 }]
"#;

#[test]
fn a_specification_has_links_and_routes() {
    let ring = Machine::from_specification(RING).unwrap();
    assert_eq!(ring.links().len(), 8);
    assert_eq!(ring.hops(0, 2), 2.0);
    let route: Vec<(usize, usize)> =
        ring.route(0, 2).iter().map(|link| (ring.links()[*link].from, ring.links()[*link].to)).collect();
    assert_eq!(route, [(2, 1), (1, 0)], "data flows from the memory to the reader");
    assert_eq!(ring.resources().len(), 4 + 4 + 8);
}

#[test]
fn what_a_neighbours_memory_costs_besides_is_moved_by_the_own_controller() {
    let machine = Machine::parse("2x2x4x2;latency=80,120,200;bandwidth=60G,40G,20G").unwrap();
    let usual = Constants::default();
    let more = usual.scaled("moved_for_neighbours", 1.5).unwrap();
    let own = |to: usize, constants: &Constants| -> f64 {
        machine.uses(0, to, constants).iter().filter(|(resource, _)| *resource == 0).map(|(_, amount)| amount).sum()
    };
    assert_eq!([0, 1, 2].map(|to| own(to, &usual)), [1.0, 0.0, 0.0]);
    assert_eq!([0, 1, 2].map(|to| own(to, &more)), [1.0, 0.5, 0.0], "the other node of the package only");
    assert_eq!(machine.moved_besides(0, 1, &more), 0.5);
}

#[test]
fn what_is_wrong_is_said() {
    let faults = [
        (RING.replace("[0, 1]", "[0, 9]"), "its link from 0 to 9"),
        (RING.replace("{ between = [2, 3], gb_s = 8 }, { between = [3, 0], gb_s = 8 }]", "]"), "no link leads from"),
        (RING.replace("[20, 20, 10]", "[20, 20, -1]"), "above zero"),
        (RING.replace("packages = 4", "packages = 0"), "1 to 1024"),
        (RING.replace("cores_per_node", "cores"), "unknown field"),
        (RING.replace("[80, 80, 160]", "[[80, 80], [80, 80]]"), "needs 4 rows of 4"),
        (RING.replace("[80, 80, 160]", "[0, 80, 160]"), "above zero"),
        (RING.replace("[80, 80, 160]", "[80, 80, nan]"), "above zero"),
        (RING.replace("[80, 80, 160]", "[80, 80, inf]"), "distance"),
        (RING.replace("[20, 20, 10]", "[20, 20, inf]"), "above zero"),
        (RING.replace("cores_per_node = 2", "cores_per_node = 0"), "at least 1"),
        (RING.replace("cores_per_node = 2", "cores_per_node = 99999999"), "no more than"),
        (RING.replace("packages = 4", "packages = -4"), "packages"),
        (RING.replace("gb_s = 8 }]", "gb_s = nan }]"), "above zero"),
        (RING.replace("name = \"ring\"", "coherence = \"telepathy\""), "telepathy"),
    ];
    for (text, expected) in faults {
        let error = Machine::from_specification(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "'{error}' should say '{expected}'");
    }
    let error = Machine::parse("westmere-ex").unwrap_err().to_string();
    assert!(error.contains("westmere-ex-8"), "{error}");
    let error = Machine::parse("2x1x4x1").unwrap_err().to_string();
    assert!(error.contains("probe --json"), "{error}");
    assert!(Machine::parse("/nowhere/machine.toml").is_err());
}

#[test]
fn a_probe_and_a_short_specification_make_machines() {
    let machine = Machine::parse("2x2x4x2;latency=80,120,200;bandwidth=60G,40G,20G").unwrap();
    assert_eq!((machine.node_count(), machine.cpus()), (4, 32));
    assert_eq!(machine.bandwidth(0, 1), 40e9);
    let described = MachineDescription::parse("eris-amd-8").unwrap();
    let text = described.attributes.unwrap().to_json();
    let attributes = numa::Attributes::from_json(&text).unwrap();
    let described = MachineDescription { topology: attributes.topology.clone(), attributes: Some(attributes) };
    let machine = Machine::from_description("a probe", &described).unwrap();
    assert_eq!(machine.latency_ns(0, 1), 136.0);
}
