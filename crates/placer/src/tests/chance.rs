//! What chance, or waiting, makes of loads, and plans that gain nothing.

use super::*;
use crate::history::History;
use crate::plan::Loads;

/// Sixteen items of four nodes, of which so many statements a period ask at random.
struct Drawn {
    machine: Machine,
    statements: usize,
}

impl Drawn {
    fn new(weights: [f64; 4]) -> Drawn {
        let weights: Vec<f64> = (0..16).map(|item| weights[item % 4]).collect();
        Drawn { machine: Machine::new(vec![1e9; 4], &weights), statements: 400 }
    }

    /// How often each item is asked for in a period.
    fn counts(&self, random: &mut Random) -> Vec<u64> {
        let all: f64 = self.machine.items.iter().map(|item| item.weight).sum();
        let mut counts = vec![0; self.machine.items.len()];
        for _ in 0..self.statements {
            let mut left = random.unit() * all;
            let drawn = self.machine.items.iter().position(|item| {
                left -= item.weight;
                left < 0.0
            });
            counts[drawn.unwrap_or(0)] += 1;
        }
        counts
    }

    /// A period in which they were drawn; nodes have little more to give than they are asked for.
    fn observe(&self, random: &mut Random) -> Observation {
        let mut observation = self.machine.observe(0.0, random);
        for (item, count) in observation.items.iter_mut().zip(self.counts(random)) {
            let Lies::Ranges(on) = &item.lies else { continue };
            on.iter().for_each(|node| item.served[*node] = count * item.bytes / on.len() as u64);
        }
        let asked = (self.statements << 20) as f64 / 4.0;
        observation.nodes.iter_mut().for_each(|node| node.bandwidth = asked / 0.97);
        observation
    }

    fn run(&mut self, periods: usize, seed: u64) -> Vec<Decision> {
        let (mut placer, mut random) = (Placer::default(), Random::new(seed));
        let mut all = Vec::new();
        for _ in 0..periods {
            let decisions = placer.decide(&self.observe(&mut random));
            self.machine.carry_out(&decisions);
            all.extend(decisions);
        }
        all
    }
}

#[test]
fn chance_moves_nothing() {
    for seed in 0..20 {
        assert_eq!(Drawn::new([1.0; 4]).run(200, seed), [], "seed {seed}");
    }
}

#[test]
fn what_is_more_than_chance_is_mended() {
    for seed in 0..20 {
        let mut drawn = Drawn::new([1.24, 1.0, 1.0, 1.0]);
        assert!(!drawn.run(200, seed).is_empty(), "seed {seed}");
        let mut demand = drawn.machine.demand(&drawn.machine.items.iter().map(|of| &of.lies[..]).collect::<Vec<_>>());
        demand.sort_by(f64::total_cmp);
        assert!(demand[3] < 1.13 * demand.iter().sum::<f64>() / 4.0, "seed {seed}: {demand:?}");
    }
}

/// Many that are asked for equally often, some items a second each: one plan has to be about enough, though those that
/// look largest were drawn most often.
#[test]
fn a_plan_is_not_made_by_what_was_drawn_most_often() {
    for seed in 0..10 {
        // Eight of ten lie on two of four nodes.
        let mut machine = Machine::new(vec![1e9; 4], &[1.0; 80]);
        let on = |place: usize| [2, 3, 2, 3, 2, 3, 2, 3, 0, 1][place % 10];
        machine.items.iter_mut().enumerate().for_each(|(place, item)| item.lies = vec![on(place)]);
        let mut drawn = Drawn { machine, statements: 800 };
        let decided = drawn.run(8, seed);
        assert!(!decided.is_empty(), "seed {seed}");
        let demand = drawn.machine.demand(&drawn.machine.items.iter().map(|of| &of.lies[..]).collect::<Vec<_>>());
        let most = demand.iter().copied().fold(0.0, f64::max);
        assert!(most < 1.16 * demand.iter().sum::<f64>() / 4.0, "seed {seed}: {demand:?}");
    }
}

/// A node that is a little hotter is cooler than the mean in some windows, by chance: in the end it is known.
#[test]
fn a_cool_window_does_not_hide_a_hot_node() {
    let mut mended = 0;
    for seed in 0..20 {
        let mut drawn = Drawn::new([1.08, 1.0, 1.0, 1.0]);
        drawn.statements = 200;
        drawn.machine.items[12].weight = 0.2;
        mended += usize::from(!drawn.run(600, seed).is_empty());
    }
    assert!(mended >= 15, "{mended} of 20");
}

/// The error that is computed is what many draws differ by.
#[test]
fn the_error_is_that_of_many_draws() {
    let mut random = Random::new(1);
    for divided in [0, 3, 8] {
        let mut drawn = Drawn::new([1.0; 4]);
        drawn.machine.items.iter_mut().take(divided).for_each(|item| item.lies = vec![0, 1, 2, 3]);
        let loads = |observation: &Observation| {
            let mut alone = History::default();
            alone.observe(observation);
            Loads::new(observation, &alone)
        };
        let reads = vec![drawn.statements as f64 / 16.0; 16];
        let found: Vec<(f64, f64)> = (0..2000).map(|_| loads(&drawn.observe(&mut random)).excess(&reads)[0]).collect();
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
        let excess = mean(&|(excess, _)| *excess);
        let drawn_error = mean(&|(of, _)| (of - excess).powi(2)).sqrt();
        let ratio = mean(&|(_, error)| *error) / drawn_error;
        assert!((0.9..1.1).contains(&ratio), "{divided} divided: {ratio}");
    }
}

/// Memory of all nodes gives all that it has; where more wait for it, cpus are busier, which is no load of their own.
#[test]
fn who_waits_for_memory_is_no_load_of_cpus() {
    let machine = Machine::new(vec![1e9; 4], &[1.0; 8]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    for period in 0..100 {
        let mut observation = machine.observe(f64::INFINITY, &mut random);
        for (place, item) in observation.items.iter_mut().enumerate() {
            item.busy[place % 4] = if place % 4 == 0 { 2.0 } else { 1.4 };
        }
        assert_eq!(placer.decide(&observation), [], "period {period}");
    }
}

/// An item lies on all nodes; beside it all but the first have one more. Their memory gives nearly all that it has, so
/// that their cpus take twice as long, and the first seems half idle: it has a tenth less to do.
#[test]
fn a_node_where_nobody_waits_is_not_idle() {
    let mut machine = Machine::new(vec![1e9; 4], &[8.0, 0.25, 0.25, 0.25, 0.25]);
    machine.items[0].lies = vec![0, 1, 2, 3];
    machine.items.iter_mut().skip(1).enumerate().for_each(|(place, item)| item.lies = vec![(place + 1).min(3)]);
    machine.items[4].weight = 0.01;
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let rate = 0.92 * machine.throughput();
    let mut decided = Vec::new();
    for _ in 0..60 {
        let mut observation = machine.observe(rate, &mut random);
        for (item, of) in observation.items.iter_mut().zip(&machine.items) {
            let takes = |node: usize| if node == 0 { 2.0 } else { 4.0 };
            of.lies.iter().for_each(|node| item.busy[*node] = takes(*node) * item.served[*node] as f64 / 1e9);
        }
        let decisions = placer.decide(&observation);
        machine.carry_out(&decisions);
        decided.extend(decisions);
    }
    let is_put_there = |of: &Decision| of.to == [0];
    assert!(decided.iter().filter(|of| is_put_there(of)).count() <= 1, "{decided:?}");
}

/// One client: its statement has a node to itself, and the others have nothing to do, wherever items lie whole.
#[test]
fn where_no_node_is_full_items_are_divided_and_not_moved() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let half = 0.5 * machine.throughput();
    let mut decided = Vec::new();
    for _ in 0..100 {
        let is_divided = machine.items.iter().all(|item| item.weight == 0.0 || item.lies.len() == 4);
        let rate = if is_divided { 4.0 * half } else { half };
        let decisions = placer.decide(&machine.observe(rate, &mut random));
        machine.carry_out(&decisions);
        decided.extend(decisions);
    }
    assert_eq!(decided.len(), 4, "{decided:?}");
    assert!(decided.iter().all(|of| matches!(of.reason, Reason::Idle { .. }) && of.to.len() == 4), "{decided:?}");
}

/// Whatever is moved, one node takes more than the others: that is found out once.
#[test]
fn a_plan_that_gains_nothing_is_not_followed_by_others() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0; 8]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let mut decided = Vec::new();
    for period in 0..400 {
        let mut observation = machine.observe(f64::INFINITY, &mut random);
        // Cpus of the node that the first item lies on, whichever that is, take longer.
        for (item, of) in observation.items.iter_mut().zip(&machine.items) {
            item.served.iter_mut().for_each(|bytes| *bytes /= 2);
            let is_slow = |node: &usize| machine.items[0].lies.contains(node);
            of.lies.iter().for_each(|node| item.busy[*node] = if is_slow(node) { 2.0 } else { 1.2 });
        }
        let decisions = placer.decide(&observation);
        machine.carry_out(&decisions);
        decided.extend(decisions.into_iter().map(|of| (period, of)));
    }
    let plans: Vec<usize> = decided
        .iter()
        .filter(|(_, of)| !matches!(of.reason, Reason::Idle { .. } | Reason::DidNotHelp))
        .map(|(period, _)| *period)
        .collect();
    assert!(plans.iter().all(|period| *period == plans[0]), "{decided:?}");
}

/// What is left whole after a trial that helped has little of the load: it need not gain as much.
#[test]
fn a_trial_of_little_may_gain_little() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 1.0, 1.0, 1.0, 0.0]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let half = 0.5 * machine.throughput();
    let mut decided = Vec::new();
    for period in 0..200 {
        machine.items[4].weight = if period < 60 { 0.0 } else { 0.2 };
        let whole = machine.items.iter().filter(|item| item.weight > 0.0 && item.lies.len() == 1);
        let rate = half * (1.7 - 0.7 * whole.map(|item| item.weight).sum::<f64>() / 4.0);
        let decisions = placer.decide(&machine.observe(rate * if period < 60 { 1.0 } else { 0.96 }, &mut random));
        machine.carry_out(&decisions);
        decided.extend(decisions);
    }
    assert!(machine.items.iter().all(|item| item.lies.len() == 4), "{decided:?}");
    assert!(!decided.iter().any(|of| of.reason == Reason::DidNotHelp), "{decided:?}");
}

/// While items wait for room beside cpus nothing is divided to see whether that helps: what is divided keeps its place.
#[test]
fn nothing_is_tried_while_memory_is_short() {
    for (free, is_tried) in [(1 << 27, false), (1 << 29, true)] {
        let mut machine = Machine::new(vec![1e9; 5], &[1.0; 4]);
        machine.with_cpus = 4;
        let (mut placer, mut random) = (Placer::default(), Random::new(1));
        let half = 0.5 * machine.throughput();
        let mut decided = Vec::new();
        for _ in 0..40 {
            let mut observation = machine.observe(half, &mut random);
            (observation.nodes[0].bytes, observation.nodes[0].free_bytes) = (1 << 30, free);
            let decisions = placer.decide(&observation);
            machine.carry_out(&decisions);
            decided.extend(decisions);
        }
        assert_eq!(!decided.is_empty(), is_tried, "{decided:?}");
    }
}
