//! Copies of what is small and read from other nodes, of dictionaries, and ranges within packages.

use super::*;

/// Four nodes, one large item on each, and a small one on the first that is read from all.
fn joined(bytes: u64) -> Machine {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 1.0, 1.0, 1.0, 0.02]);
    machine.items[4].bytes = bytes;
    machine
}

/// Periods in which the last item is read from other nodes, and written; decisions are carried out.
fn run(
    machine: &mut Machine,
    placer: &mut Placer,
    periods: u32,
    change: &dyn Fn(&mut Observation, u32),
) -> Vec<Decision> {
    let mut random = Random::new(1);
    let mut copied: Option<Vec<usize>> = None;
    let mut all = Vec::new();
    for period in 0..periods {
        let mut observation = machine.observe(f64::INFINITY, &mut random);
        let item = observation.items.last_mut().unwrap();
        item.remote = item.served.iter().sum::<u64>() * 3 / 4;
        if let Some(nodes) = &copied {
            let served = item.served.iter().sum::<u64>() / nodes.len() as u64;
            (item.lies, item.remote) = (Lies::Replicated(nodes.clone()), 0);
            nodes.iter().for_each(|node| item.served[*node] = served);
        }
        change(&mut observation, period);
        for decision in placer.decide(&observation) {
            copied = (decision.copies == Copies::All).then(|| decision.to.clone());
            machine.items.last_mut().unwrap().lies = decision.to.clone();
            all.push(decision);
        }
    }
    all
}

#[test]
fn what_is_small_and_read_from_afar_gets_copies_until_it_is_written() {
    let (mut machine, mut placer) = (joined(1 << 20), Placer::default());
    let made = run(&mut machine, &mut placer, 100, &|_, _| ());
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!((&made[0].from, &made[0].to, made[0].copies), (&vec![0], &vec![0, 1, 2, 3], Copies::All));
    assert_eq!(made[0].bytes, 3 << 20);
    assert!(made[0].reason.to_string().contains("75% of what is read of it is read from other nodes"));
    let (mut machine, mut placer) = (joined(1 << 20), Placer::default());
    let written =
        |observation: &mut Observation, period| observation.items[4].written = if period < 60 { 0 } else { 1 << 18 };
    let decided = run(&mut machine, &mut placer, 120, &written);
    assert_eq!(decided.len(), 2, "{decided:?}");
    assert_eq!((decided[1].copies, decided[1].to.len()), (Copies::None, 1));
    assert_eq!(decided[1].reason, Reason::CopiesCost { is_written: true });
}

#[test]
fn copies_go_from_a_node_that_is_nearly_full() {
    let (mut machine, mut placer) = (joined(1 << 20), Placer::default());
    let full = |observation: &mut Observation, period| {
        observation.nodes[2].bytes = 1 << 41;
        observation.nodes[2].free_bytes = if period < 60 { 1 << 40 } else { 1 << 35 };
    };
    let decided = run(&mut machine, &mut placer, 120, &full);
    let copies: Vec<Copies> = decided.iter().map(|of| of.copies).collect();
    assert_eq!(copies, [Copies::All, Copies::None], "{decided:?}");
    assert_eq!(decided[1].reason, Reason::CopiesCost { is_written: false });
}

#[test]
fn what_is_large_a_users_or_written_gets_no_copies() {
    let none = |bytes: u64, change: &dyn Fn(&mut Observation, u32)| {
        let decided = run(&mut joined(bytes), &mut Placer::default(), 90, change);
        assert!(decided.iter().all(|of| of.copies == Copies::None), "{decided:?}");
    };
    none(1 << 34, &|_, _| ());
    none(1 << 20, &|observation, _| observation.items[4].is_users = true);
    none(1 << 20, &|observation, _| observation.items[4].written = 1 << 18);
    none(1 << 20, &|observation, _| observation.items[4].remote /= 2);
}

#[test]
fn a_divided_items_dictionary_gets_copies_where_it_is_read_from_afar() {
    for (part, copies) in [(4, true), (100, false)] {
        let mut machine = Machine::new(vec![1e9; 4], &[1.0]);
        machine.items[0].lies = vec![0, 1, 2, 3];
        let (mut placer, mut random) = (Placer::default(), Random::new(1));
        let (mut is_copied, mut decided) = (false, Vec::new());
        for _ in 0..100 {
            let mut observation = machine.observe(f64::INFINITY, &mut random);
            let item = &mut observation.items[0];
            item.remote = if is_copied { 0 } else { item.served.iter().sum::<u64>() / part };
            item.dictionary = Dictionary { bytes: 1 << 16, remote: item.remote, is_copied };
            for decision in placer.decide(&observation) {
                is_copied = decision.copies == Copies::Dictionary;
                decided.push(decision);
            }
        }
        assert_eq!(decided.len(), usize::from(copies), "{decided:?}");
        for of in decided {
            assert_eq!((&of.from, &of.to, of.copies), (&vec![0, 1, 2, 3], &vec![0, 1, 2, 3], Copies::Dictionary));
            assert_eq!(of.bytes, 3 << 16);
            assert!(of.reason.to_string().starts_with("25% of what is read of it is entries of its dictionary"));
        }
    }
}

/// Copies by chance: what is read from afar now and then only.
#[test]
fn copies_do_not_come_and_go_beside_noise() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let shares: Vec<f64> = (0..300).map(|_| 0.35 + 0.3 * random.unit()).collect();
        let (mut machine, mut placer) = (joined(1 << 20), Placer::default());
        let decided = run(&mut machine, &mut placer, 300, &|observation, period| {
            let item = &mut observation.items[4];
            if item.remote > 0 {
                item.remote = (item.served.iter().sum::<u64>() as f64 * shares[period as usize]) as u64;
            }
            item.written = if shares[period as usize] > 0.5 { 1 << 12 } else { 0 };
        });
        assert_eq!(decided, [], "seed {seed}: it is written in half of the periods");
        let (mut machine, mut placer) = (joined(1 << 20), Placer::default());
        let decided = run(&mut machine, &mut placer, 300, &|observation, period| {
            let item = &mut observation.items[4];
            item.remote = item.remote.min((item.served.iter().sum::<u64>() as f64 * shares[period as usize]) as u64);
        });
        assert!(decided.len() <= 1, "seed {seed}: {decided:?}");
    }
}

/// Two packages of two nodes whose places alternate.
#[test]
fn ranges_lie_within_one_package_where_that_is_as_good() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 0.0, 0.0, 0.0]);
    machine.items[0].ranges_max = 2;
    machine.items[0].lies = vec![1];
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let mut decided = Vec::new();
    for _ in 0..20 {
        let mut observation = machine.observe(f64::INFINITY, &mut random);
        observation.nodes.iter_mut().enumerate().for_each(|(place, node)| node.package = Some(place as u32 % 2));
        let decisions = placer.decide(&observation);
        machine.carry_out(&decisions);
        decided.extend(decisions);
    }
    assert_eq!(decided.iter().map(|of| &of.to[..]).collect::<Vec<_>>(), [[1, 3]], "{decided:?}");
}

#[test]
fn neighbours_follow_each_other_and_a_cooler_package_is_better_than_the_own() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 0.0, 0.0, 0.0]);
    let packaged = |machine: &Machine, random: &mut Random| {
        let mut observation = machine.observe(f64::INFINITY, random);
        observation.nodes.iter_mut().enumerate().for_each(|(place, node)| node.package = Some(place as u32 % 2));
        observation
    };
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let decided: Vec<Decision> = (0..5).flat_map(|_| placer.decide(&packaged(&machine, &mut random))).collect();
    assert_eq!(decided[0].to, [0, 2, 1, 3]);
    // The other node of the package has as much to do already.
    machine = Machine::new(vec![1e9; 4], &[1.0, 0.0, 1.0, 0.0, 1.0]);
    let mut placer = Placer::default();
    let decided: Vec<Decision> = (0..5).flat_map(|_| placer.decide(&packaged(&machine, &mut random))).collect();
    assert!(!decided.is_empty() && decided.iter().all(|of| of.to.iter().any(|node| node % 2 == 1)), "{decided:?}");
}
