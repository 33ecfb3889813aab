//! The placer against a machine that is a few numbers: statements pick items, and the node that has most to give for
//! its bandwidth decides how many there are per second.

mod apart;
mod chance;
mod copies;
mod memory;
mod together;
mod undo;

use std::collections::BTreeMap;

use random::Random;

use crate::limits::{COLD_PERIODS, REST_PERIODS, RETURN_PERIODS};
use crate::{Copies, Decision, Dictionary, Item, ItemId, Lies, Node, NodeId, Observation, Placer, Reason};

/// What each further range of an item costs its statements (VLDB 2015, sections 6.1.2 and 6.2.2, has more and less).
const RANGE_COST: f64 = 0.02;

#[derive(Clone, Debug)]
struct Machine {
    bandwidth: Vec<f64>,
    /// Nodes behind these many have no cpus.
    with_cpus: usize,
    /// Of each node; 0: endless.
    memory: u64,
    items: Vec<ModelItem>,
    /// Relative error of what a period says of an item.
    noise: f64,
}

#[derive(Clone, Debug)]
struct ModelItem {
    bytes: u64,
    /// How often it is asked for, relative to others.
    weight: f64,
    lies: Vec<usize>,
    like: Option<u64>,
    is_users: bool,
    ranges_max: usize,
}

impl Machine {
    fn new(bandwidth: Vec<f64>, weights: &[f64]) -> Machine {
        let nodes = bandwidth.len();
        let item = |(place, weight): (usize, &f64)| ModelItem {
            bytes: 1 << 20,
            weight: *weight,
            lies: vec![place % nodes],
            like: None,
            is_users: false,
            ranges_max: usize::MAX,
        };
        let items = weights.iter().enumerate().map(item).collect();
        Machine { bandwidth, with_cpus: nodes, memory: 0, items, noise: 0.0 }
    }

    /// What one statement takes from each node, in the mean.
    fn demand(&self, placed: &[&[usize]]) -> Vec<f64> {
        let mut demand = vec![0.0; self.bandwidth.len()];
        for (item, on) in self.items.iter().zip(placed) {
            let all = item.weight * item.bytes as f64 * (1.0 + RANGE_COST * (on.len() - 1) as f64);
            on.iter().for_each(|node| demand[*node] += all / on.len() as f64);
        }
        demand
    }

    fn throughput_of(&self, placed: &[&[usize]]) -> f64 {
        let of_node = |(demand, bandwidth): (f64, &f64)| bandwidth / demand.max(1e-9);
        self.demand(placed).into_iter().zip(&self.bandwidth).map(of_node).fold(f64::INFINITY, f64::min)
    }

    fn throughput(&self) -> f64 {
        self.throughput_of(&self.items.iter().map(|item| item.lies.as_slice()).collect::<Vec<_>>())
    }

    /// The best of all placements of whole items, and of those of one item, or all, over all nodes.
    fn best_static(&self) -> f64 {
        let (nodes, items) = (self.bandwidth.len(), self.items.len());
        let all: Vec<usize> = (0..nodes).collect();
        let singles: Vec<Vec<usize>> = (0..nodes).map(|node| vec![node]).collect();
        let mut best = self.throughput_of(&vec![all.as_slice(); items]);
        for number in 0..nodes.pow(items as u32) {
            let mut left = number;
            let mut placed: Vec<&[usize]> = Vec::new();
            for _ in 0..items {
                placed.push(&singles[left % nodes]);
                left /= nodes;
            }
            best = best.max(self.throughput_of(&placed));
            for divided in 0..items {
                let whole = std::mem::replace(&mut placed[divided], &all);
                best = best.max(self.throughput_of(&placed));
                placed[divided] = whole;
            }
        }
        best
    }

    /// A period of a second, as many statements as go through, or `most`.
    fn observe(&self, most: f64, random: &mut Random) -> Observation {
        let rate = self.throughput().min(most);
        let item = |(number, of): (usize, &ModelItem)| {
            let error = 1.0 + self.noise * (2.0 * random.below(1000) as f64 / 1000.0 - 1.0);
            let load = rate * of.weight * of.bytes as f64 * error;
            let mut served = vec![0; self.bandwidth.len()];
            of.lies.iter().for_each(|node| served[*node] += (load / of.lies.len() as f64) as u64);
            Item {
                id: id(number),
                bytes: of.bytes,
                served,
                busy: vec![0.0; self.bandwidth.len()],
                remote: 0,
                written: 0,
                dictionary: Dictionary::default(),
                lies: Lies::Ranges(of.lies.clone()),
                ranges_max: of.ranges_max,
                like: of.like,
                is_users: of.is_users,
            }
        };
        let items = self.items.iter().enumerate().map(item).collect();
        let nodes = self.bandwidth.iter().enumerate().map(|(node, bandwidth)| Node {
            id: NodeId(node as u32),
            bandwidth: *bandwidth,
            cpus: if node < self.with_cpus { 4.0 } else { 0.0 },
            bytes: self.memory,
            free_bytes: if self.memory == 0 { 1 << 40 } else { self.memory - self.used(node) },
            package: None,
        });
        Observation { seconds: 1.0, nodes: nodes.collect(), items, together: Vec::new() }
    }

    /// Bytes of a node that items take.
    fn used(&self, node: usize) -> u64 {
        let there = self.items.iter().filter(|item| item.lies.contains(&node));
        there.map(|item| item.bytes / item.lies.len() as u64).sum()
    }

    fn carry_out(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            let item = &mut self.items[decision.item.number as usize];
            assert_eq!(item.lies, decision.from);
            item.lies = decision.to.clone();
            for node in decision.to.iter().filter(|_| self.memory > 0) {
                assert!(self.used(*node) <= self.memory, "{decision:?} has no room");
            }
        }
    }

    /// Periods with the placer; what it decided, by period.
    fn run(&mut self, placer: &mut Placer, periods: usize, random: &mut Random) -> Vec<(usize, Decision)> {
        let mut all = Vec::new();
        for period in 0..periods {
            let decisions = placer.decide(&self.observe(f64::INFINITY, random));
            self.carry_out(&decisions);
            all.extend(decisions.into_iter().map(|decision| (period, decision)));
        }
        all
    }
}

fn id(number: usize) -> ItemId {
    ItemId { table: 1, number: number as u64 }
}

#[test]
fn a_balanced_load_is_left_alone() {
    for weights in [vec![1.0; 8], vec![1.0, 2.0, 3.0, 4.0, 4.0, 3.0, 2.0, 1.0]] {
        let mut machine = Machine::new(vec![1e9; 4], &weights);
        machine.noise = 0.03;
        assert_eq!(machine.run(&mut Placer::default(), 100, &mut Random::new(1)), []);
    }
}

#[test]
fn what_does_not_dominate_is_moved_whole() {
    // Four items of one node are asked for, and nothing else.
    let weights: Vec<f64> = (0..16).map(|item| if item % 4 == 0 { 1.0 } else { 0.0 }).collect();
    let mut machine = Machine::new(vec![1e9; 4], &weights);
    let decided = machine.run(&mut Placer::default(), 5, &mut Random::new(1));
    assert_eq!(decided.len(), 3, "{decided:?}");
    assert!(decided.iter().all(|(_, of)| matches!(of.reason, Reason::Hot { node: NodeId(0), .. }) && of.to.len() == 1));
    assert!((decided[0].1.gain - 4.0).abs() < 0.01, "{decided:?}");
}

#[test]
fn what_dominates_is_divided_at_once() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 0.0, 0.0, 0.0]);
    let decided = machine.run(&mut Placer::default(), 40, &mut Random::new(1));
    assert_eq!(decided.len(), 1, "{decided:?}");
    let decision = &decided[0].1;
    assert!(matches!(decision.reason, Reason::Dominates { node: NodeId(0), .. }), "{decision:?}");
    assert_eq!(decision.to, [0, 1, 2, 3]);
    assert!(decision.reason.to_string().contains("divided it is less for any one node"));
}

/// Statements that compute more than they read: the cpus beside the data are what is short.
#[test]
fn what_keeps_cpus_busy_is_divided_too() {
    let machine = Machine::new(vec![1e9; 4], &[1.0, 1.0, 0.0, 0.0]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let mut decided = Vec::new();
    for _ in 0..3 {
        let mut observation = machine.observe(1.0, &mut random);
        observation.items[0].busy = vec![6.0, 0.0, 0.0, 0.0];
        observation.items[1].busy = vec![0.0, 0.1, 0.0, 0.0];
        decided = placer.decide(&observation);
    }
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert_eq!((decided[0].item, decided[0].to.len()), (id(0), 4));
}

/// A statement that took many periods is told in one.
#[test]
fn one_long_statement_moves_nothing() {
    let machine = Machine::new(vec![1e9; 4], &[1.0, 1.0, 1.0, 1.0]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    for period in 0..30 {
        let mut observation = machine.observe(100.0, &mut random);
        if period % 10 == 5 {
            observation.items[0].served[0] = 20_000_000_000;
            observation.items[0].busy[0] = 80.0;
        }
        assert_eq!(placer.decide(&observation), [], "period {period}");
    }
}

/// Many columns on many nodes, all of which are read: a decision takes no longer than a look.
#[test]
fn thousands_of_items_are_decided_about_in_time() {
    let weights: Vec<f64> =
        (0..2000).map(|item| f64::from(item % 7) + if item % 32 == 0 { 50.0 } else { 0.0 }).collect();
    let mut machine = Machine::new(vec![1e9; 32], &weights);
    let decided = machine.run(&mut Placer::default(), 12, &mut Random::new(1));
    assert!(!decided.is_empty());
}

#[test]
fn what_is_of_few_blocks_is_divided_into_few_ranges() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 0.0, 0.0, 0.0]);
    machine.items[0].ranges_max = 2;
    let decided = machine.run(&mut Placer::default(), 20, &mut Random::new(1));
    assert_eq!(decided.iter().map(|(_, of)| of.to.len()).collect::<Vec<_>>(), [2]);
    machine.items[0] = ModelItem { ranges_max: 1, lies: vec![0], ..machine.items[0].clone() };
    assert_eq!(machine.run(&mut Placer::default(), 20, &mut Random::new(1)), []);
}

#[test]
fn what_nobody_reads_any_more_is_put_together() {
    let mut machine = Machine::new(vec![1e9; 2], &[1.0, 0.0]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    machine.run(&mut placer, 10, &mut random);
    assert_eq!(machine.items[0].lies.len(), 2);
    (machine.items[0].weight, machine.items[1].weight) = (0.0, 1.0);
    let decided = machine.run(&mut placer, 2 * COLD_PERIODS as usize, &mut random);
    assert!(decided.iter().any(|(_, of)| of.item == id(0) && of.reason == Reason::Cold), "{decided:?}");
    assert_eq!((machine.items[0].lies.len(), machine.items[1].lies.len()), (1, 2));
}

#[test]
fn users_items_idle_machines_and_single_nodes_are_left_alone() {
    let mut random = Random::new(1);
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 0.0]);
    machine.items[0].is_users = true;
    assert_eq!(machine.run(&mut Placer::default(), 20, &mut random), []);
    machine.items[0].is_users = false;
    let mut placer = Placer::default();
    let (bytes, weight) = (machine.items[0].bytes as f64, machine.items[0].weight);
    for _ in 0..20 {
        // A tenth of what one node gives.
        assert_eq!(placer.decide(&machine.observe(1e8 / (bytes * weight), &mut random)), []);
    }
    let mut alone = Machine::new(vec![1e9], &[1.0, 5.0]);
    assert_eq!(alone.run(&mut Placer::default(), 20, &mut random), []);
    assert_eq!(Placer::default().decide(&Observation::default()), []);
}

#[test]
fn what_a_user_undid_is_not_done_again() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0, 0.0, 0.0, 0.0]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let decided = machine.run(&mut placer, 3, &mut random);
    let (item, to) = (decided[0].1.item, decided[0].1.to.clone());
    machine.items[0].lies = vec![0];
    placer.undone(item, &to);
    assert_eq!(machine.run(&mut placer, 200, &mut random), []);
    // With another load something else may be done, but not that.
    machine.items[1].weight = 9.0;
    let again = machine.run(&mut placer, 200, &mut random);
    assert!(!again.is_empty() && again.iter().all(|(_, of)| of.item != item || of.to != to), "{again:?}");
}

#[test]
fn a_node_without_room_takes_nothing() {
    let machine = Machine::new(vec![1e9; 3], &[1.0, 0.0, 0.0, 1.0]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    for _ in 0..5 {
        let mut observation = machine.observe(f64::INFINITY, &mut random);
        observation.nodes[1].free_bytes = 10;
        for decision in placer.decide(&observation) {
            assert!(!decision.to.contains(&1), "{decision:?}");
        }
    }
}

/// Columns that one task reads go hand in hand: whole, or with the same ranges.
#[test]
fn what_is_read_together_goes_together() {
    let mut machine = Machine::new(vec![1e9; 2], &[1.0; 4]);
    machine.items.iter_mut().for_each(|item| item.lies = vec![0]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    for _ in 0..4 {
        let mut observation = machine.observe(f64::INFINITY, &mut random);
        let both = |a: usize, b: usize| observation.items[a].served[0] + observation.items[b].served[0];
        observation.together = vec![(0, 1, both(0, 1)), (2, 3, both(2, 3))];
        let decisions = placer.decide(&observation);
        machine.carry_out(&decisions);
    }
    let lies: Vec<&Vec<usize>> = machine.items.iter().map(|item| &item.lies).collect();
    assert_eq!((lies[0], lies[2]), (lies[1], lies[3]), "{lies:?}");
    assert_ne!(lies[0], lies[2], "{lies:?}");
}

/// Every node has the same to do, and half of the time nothing: divided, statements use all; the model says whether
/// that helps.
#[test]
fn idle_nodes_are_tried_out_once() {
    for gains in [true, false] {
        let mut machine = Machine::new(vec![1e9; 4], &[1.0; 4]);
        let (mut placer, mut random) = (Placer::default(), Random::new(1));
        let half = 0.5 * machine.throughput();
        let mut decided = Vec::new();
        for _ in 0..200 {
            let is_divided = machine.items.iter().all(|item| item.lies.len() == 4);
            let rate = if is_divided && gains { 2.0 * half } else { half };
            let decisions = placer.decide(&machine.observe(rate, &mut random));
            machine.carry_out(&decisions);
            decided.extend(decisions);
        }
        let tried = decided.iter().filter(|of| matches!(of.reason, Reason::Idle { .. })).count();
        let back = decided.iter().filter(|of| of.reason == Reason::DidNotHelp).count();
        assert_eq!((tried, back, decided.len()), if gains { (4, 0, 4) } else { (4, 4, 8) }, "{decided:?}");
        assert!(machine.items.iter().all(|item| item.lies.len() == if gains { 4 } else { 1 }));
    }
}

/// Divided, statements take twice as long: that is known as soon as anything may go back.
#[test]
fn a_trial_that_loses_much_ends_soon() {
    let mut machine = Machine::new(vec![1e9; 4], &[1.0; 4]);
    let (mut placer, mut random) = (Placer::default(), Random::new(1));
    let half = 0.5 * machine.throughput();
    let (mut began, mut ended) = (None, None);
    for period in 0..100 {
        let is_whole = machine.items.iter().all(|item| item.lies.len() == 1);
        let rate = if is_whole { half } else { 0.5 * half };
        let decisions = placer.decide(&machine.observe(rate, &mut random));
        machine.carry_out(&decisions);
        for of in decisions {
            match of.reason {
                Reason::DidNotHelp => ended = ended.or(Some(period)),
                _ => began = began.or(Some(period)),
            }
        }
    }
    assert_eq!(ended.zip(began).map(|(ended, began)| ended - began), Some(RETURN_PERIODS), "{began:?} {ended:?}");
}

/// A hot node and a full one change items: what leaves the hot one goes first.
#[test]
fn what_cools_nodes_is_done_first() {
    // Two large ones and two small ones on the first node, the others have nothing.
    let mut machine = Machine::new(vec![1e9; 3], &[4.0, 4.0, 1.0, 1.0, 1.0, 1.0]);
    machine.items.iter_mut().for_each(|item| item.lies = vec![0]);
    let decided = machine.clone().run(&mut Placer::default(), 4, &mut Random::new(1));
    let peak = |machine: &Machine| 1e9 / machine.throughput();
    let mut before = peak(&machine);
    assert!(decided.len() >= 2, "{decided:?}");
    for (_, decision) in decided {
        machine.carry_out(&[decision]);
        assert!(peak(&machine) <= before, "on the way no node gets hotter");
        before = peak(&machine);
    }
}

/// Random machines and loads: what is reached is at least 95% of the best placement that does not change, in few
/// periods, and then nothing moves any more, back least of all.
#[test]
fn random_loads_come_near_the_best_placement_and_stay_there() {
    let mut lost = Vec::new();
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let nodes = 2 + random.below(3);
        let bandwidth = match random.one_in(3) {
            true => (0..nodes).map(|_| random.pick(&[1e9, 2e9])).collect(),
            false => vec![1e9; nodes],
        };
        let count = 1 + random.below(6);
        let weights: Vec<f64> = (0..count).map(|_| random.pick(&[0.0, 0.2, 1.0, 1.0, 3.0, 10.0])).collect();
        if weights.iter().all(|weight| *weight == 0.0) {
            continue;
        }
        let mut machine = Machine::new(bandwidth, &weights);
        machine.items.iter_mut().for_each(|item| {
            item.bytes = 1 << (18 + random.below(4));
            item.lies = vec![random.below(nodes)];
        });
        let best = machine.best_static();
        let mut placer = Placer::default();
        let mut decided = machine.run(&mut placer, 40, &mut random);
        let reached = machine.throughput();
        if reached < 0.95 * best {
            lost.push((seed, reached / best, machine.clone()));
        }
        machine.noise = 0.02;
        let later = machine.run(&mut placer, 60, &mut random);
        // What was just not worth it may seem to be once, and stays so; what was tried and did not help goes back.
        let is_first = |period: &usize| *period == later[0].0;
        let is_right = |(period, of): &(usize, Decision)| is_first(period) || of.reason == Reason::DidNotHelp;
        assert!(later.iter().all(is_right), "seed {seed}: {later:?}");
        decided.extend(later.into_iter().map(|(period, of)| (period + 40, of)));
        let mut left: BTreeMap<ItemId, (usize, Vec<usize>)> = BTreeMap::new();
        for (period, decision) in &decided {
            if let Some((at, from)) = left.get(&decision.item) {
                assert!(*period >= at + REST_PERIODS as usize, "seed {seed}: {decision:?} while it rests");
                let is_back = decision.to == *from;
                assert!(!is_back || *period >= at + RETURN_PERIODS as usize, "seed {seed}: {decision:?} goes back");
            }
            left.insert(decision.item, (*period, decision.from.clone()));
        }
    }
    assert!(lost.is_empty(), "{} lost, the first: {:?}", lost.len(), lost[0]);
}
