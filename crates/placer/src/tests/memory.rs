//! Memory that is nearly full and memory without cpus, with a slow look at every single move that would be right.

use super::*;
use crate::limits::{COLDER_MIN, FULL_FROM, FULL_UNTIL, HORIZON_PERIODS};

/// Nodes with cpus, one without behind them, items of a megabyte.
fn tiered(with_cpus: usize, megabytes: u64, weights: &[f64]) -> Machine {
    let mut bandwidth = vec![1e9; with_cpus];
    bandwidth.push(2e8);
    Machine { with_cpus, memory: megabytes << 20, ..Machine::new(bandwidth, weights) }
}

fn goes_without_cpus(machine: &Machine, decision: &Decision) -> bool {
    decision.to.iter().any(|node| *node >= machine.with_cpus)
}

#[test]
fn what_is_coldest_leaves_a_node_that_is_nearly_full() {
    // Nineteen of twenty megabytes are used; three may stay unread.
    let weights: Vec<f64> = (0..19).map(|item| if item < 16 { 1.0 } else { 0.0 }).collect();
    let mut machine = tiered(1, 20, &weights);
    machine.items.iter_mut().for_each(|item| item.lies = vec![0]);
    let decided = machine.run(&mut Placer::default(), 60, &mut Random::new(1));
    assert_eq!(decided.iter().map(|(_, of)| of.item.number).collect::<Vec<_>>(), [16, 17, 18], "{decided:?}");
    assert!(decided.iter().all(|(_, of)| matches!(of.reason, Reason::NearlyFull { node: NodeId(0), .. })));
    assert!(decided[0].1.reason.to_string().starts_with("95% of the memory of node 0 is used"));
    assert_eq!(machine.used(0), 16 << 20);
}

#[test]
fn between_the_marks_nothing_goes_and_nothing_comes() {
    // 17 of 20 megabytes: neither nearly full, nor with room for what is read on memory without cpus.
    let mut machine = tiered(1, 20, &[1.0; 18]);
    machine.items.iter_mut().for_each(|item| item.lies = vec![0]);
    machine.items[17].lies = vec![1];
    assert_eq!(machine.run(&mut Placer::default(), 60, &mut Random::new(1)), []);
}

#[test]
fn what_is_read_comes_back_where_there_is_room() {
    let mut machine = tiered(2, 20, &[1.0, 1.0, 1.0, 0.0]);
    (machine.items[2].lies, machine.items[3].lies) = (vec![2], vec![2]);
    let decided = machine.run(&mut Placer::default(), 60, &mut Random::new(1));
    let back = decided.iter().find(|(_, of)| of.item == id(2)).unwrap();
    assert!(matches!(back.1.reason, Reason::ComesBack { node: NodeId(2), .. }), "{decided:?}");
    assert!(back.1.reason.to_string().contains("which has no cpus"));
    assert_eq!(machine.items[3].lies, [2], "nobody reads it");
}

#[test]
fn what_is_read_changes_places_with_what_is_colder() {
    let mut machine = tiered(1, 20, &[1.0; 17]);
    machine.items.iter_mut().for_each(|item| item.lies = vec![0]);
    machine.items[16].lies = vec![1];
    machine.items[5].weight = 0.01;
    let decided = machine.run(&mut Placer::default(), 60, &mut Random::new(1));
    let moved: Vec<u64> = decided.iter().map(|(_, of)| of.item.number).collect();
    assert_eq!(moved, [5, 16], "{decided:?}");
    assert!(matches!(decided[0].1.reason, Reason::Colder { node: NodeId(0) }));
    assert!(decided[0].1.reason.to_string().contains("makes room on node 0"));
}

#[test]
fn what_is_cold_goes_to_a_node_with_cpus_that_has_room() {
    let weights: Vec<f64> = (0..22).map(|item| if item % 10 == 0 { 1.0 } else { 0.0 }).collect();
    let mut machine = Machine { memory: 20 << 20, ..Machine::new(vec![1e9; 3], &weights) };
    machine.items.iter_mut().enumerate().for_each(|(place, item)| item.lies = vec![place / 19]);
    machine.items[20].lies = vec![2];
    let decided = machine.run(&mut Placer::default(), 60, &mut Random::new(1));
    let cold: Vec<&Decision> =
        decided.iter().map(|(_, of)| of).filter(|of| matches!(of.reason, Reason::NearlyFull { .. })).collect();
    assert!(cold.len() >= 3 && cold.iter().all(|of| of.to != [0] && of.item.number % 10 != 0), "{decided:?}");
    assert!(machine.used(0) <= 16 << 20);
}

/// Whatever moves by itself, an item or two that change places, and should have.
fn left_to_do(machine: &Machine) -> Option<String> {
    let rate = machine.throughput();
    let heat = |item: usize| rate * machine.items[item].weight;
    let is_free = |item: &usize| !machine.items[*item].is_users && machine.items[*item].like.is_none();
    let used = |node: usize, more: u64, less: u64| {
        (machine.used(node) + more).saturating_sub(less) as f64 / machine.memory as f64
    };
    let beside = 0..machine.with_cpus;
    let without = machine.with_cpus..machine.bandwidth.len();
    for hot in (0..machine.items.len()).filter(is_free) {
        let of = &machine.items[hot];
        let pays = |moved: u64| heat(hot) * of.bytes as f64 * HORIZON_PERIODS > 2.1 * moved as f64;
        if of.lies.iter().all(|node| beside.contains(node)) || !pays(of.bytes) {
            continue;
        }
        for node in beside.clone() {
            if used(node, of.bytes, 0) < FULL_UNTIL - 0.01 {
                return Some(format!("item {hot} has room on node {node}"));
            }
            for cold in (0..machine.items.len()).filter(is_free) {
                let other = &machine.items[cold];
                let is_colder = heat(cold) * COLDER_MIN * 1.1 < heat(hot) && other.lies == [node];
                let fits = used(node, of.bytes, other.bytes) <= FULL_UNTIL.max(used(node, 0, 0));
                let takes = |to: usize| {
                    let read: f64 = (0..machine.items.len())
                        .filter(|item| machine.items[*item].lies.contains(&to))
                        .map(|item| heat(item) * machine.items[item].bytes as f64)
                        .sum();
                    let read = read + heat(cold) * other.bytes as f64;
                    used(to, other.bytes, 0) < FULL_FROM - 0.01 && read < 0.19 * machine.bandwidth[to]
                };
                if is_colder && fits && pays(of.bytes + other.bytes) && without.clone().any(takes) {
                    return Some(format!("items {hot} and {cold} should change places"));
                }
            }
        }
    }
    None
}

/// Random machines with memory without cpus, that have hardly enough memory: no node gets more than it has, what
/// balances loads goes to nodes with cpus, users' items stay, items that are alike stay together, nothing is left to
/// do, and nothing goes on for ever.
#[test]
fn random_machines_with_little_memory_come_to_rest() {
    let (mut went, mut came) = (0, 0);
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let (with_cpus, without) = (1 + random.below(3), random.below(3));
        let nodes = with_cpus + without;
        let mut bandwidth = vec![1e9; with_cpus];
        bandwidth.extend(vec![2e8; without]);
        let count = 8 + random.below(16);
        let weights: Vec<f64> = (0..count).map(|_| random.pick(&[0.0, 0.0, 0.01, 0.3, 1.0, 5.0])).collect();
        let mut machine = Machine { with_cpus, memory: 12 << 20, ..Machine::new(bandwidth, &weights) };
        for place in 0..count {
            let item = &mut machine.items[place];
            item.bytes = random.pick(&[1 << 19, 1 << 20, 3 << 20]);
            item.is_users = random.one_in(8);
            item.like = random.one_in(6).then_some(1);
            item.lies = Vec::new();
            let wanted = random.below(nodes);
            let bytes = item.bytes;
            let mut places = (wanted..nodes).chain(0..wanted);
            let node = places.find(|node| machine.used(*node) + bytes <= machine.memory * 49 / 50);
            machine.items[place].lies = vec![node.unwrap_or(0)];
        }
        if (0..nodes).any(|node| machine.used(node) > machine.memory) {
            continue;
        }
        let mut placer = Placer::default();
        let mut decided = machine.run(&mut placer, 200, &mut random);
        for (_, of) in &decided {
            let balances = matches!(
                of.reason,
                Reason::Hot { .. } | Reason::Dominates { .. } | Reason::MakesRoom { .. } | Reason::Idle { .. }
            );
            assert!(!(balances && goes_without_cpus(&machine, of)), "seed {seed}: {of:?}");
            assert!(!machine.items[of.item.number as usize].is_users, "seed {seed}: {of:?}");
            went += usize::from(goes_without_cpus(&machine, of));
            came += usize::from(matches!(of.reason, Reason::ComesBack { .. }));
        }
        let alike = decided.iter().filter(|(_, of)| machine.items[of.item.number as usize].like == Some(1));
        let mut places: BTreeMap<usize, Vec<&Vec<usize>>> = BTreeMap::new();
        alike.for_each(|(period, of)| places.entry(*period).or_default().push(&of.to));
        assert!(places.values().all(|of| of.iter().all(|to| to == &of[0])), "seed {seed}: {places:?}");
        assert_eq!(left_to_do(&machine), None, "seed {seed}: {machine:?} after {decided:?}");
        machine.noise = 0.02;
        let later = machine.run(&mut placer, 60, &mut random);
        let is_first = |period: usize| period == later[0].0;
        let is_right = |(period, of): &(usize, Decision)| is_first(*period) || of.reason == Reason::DidNotHelp;
        assert!(later.iter().all(is_right), "seed {seed}: {later:?}");
        decided.extend(later.into_iter().map(|(period, of)| (period + 200, of)));
        let mut left: BTreeMap<ItemId, (usize, Vec<usize>)> = BTreeMap::new();
        for (period, decision) in &decided {
            if let Some((at, from)) = left.get(&decision.item) {
                let is_back = decision.to == *from;
                assert!(!is_back || *period >= at + RETURN_PERIODS as usize, "seed {seed}: {decision:?} goes back");
            }
            left.insert(decision.item, (*period, decision.from.clone()));
        }
    }
    assert!(went > 30 && came > 100, "{went} went and {came} came");
}
