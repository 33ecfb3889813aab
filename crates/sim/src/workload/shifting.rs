//! Units that balance themselves while what is looked up changes: throughput over time.
//!
//! All keys are looked up for a while, then the middle half of them, then that half moves to the left four times by a
//! sixty-fourth of all. On each node the units make statements of look-ups, find the owners of the keys and send them
//! there; each owner looks its own up. So the unit with most of the hot keys decides how much all of them do. The
//! balancer is the product's, `units::balancer`: it sees a sample of what each unit looked up, decides, and the ranges
//! move that it names.
//!
//! # What a transfer costs
//! Within a node subtrees are linked, between nodes pairs are copied in the product's pieces. Both units of a transfer
//! spend the product's time per pair on it, before any look-up; the giver reads its pairs and writes a stream of them,
//! the taker pulls the stream and writes its tree. As a piece ends, its keys have another owner.
//!
//! Invariants: each key has one owner at any time; a statement's look-ups go to the owners of their keys when it is
//! issued, and each is counted once, when its statement ends.
//!
//! # Limits
//! Look-ups that are on their way when a range moves are done by the unit that had it; nothing is forwarded. Deciding
//! takes no time. The units of a node share the making of its statements evenly. Of the caches of a node each of its
//! hot keys has an equal part, at once.
//!
//! Source: Kissinger et al., ADMS 2014, sections 3.3 and 4.3, Figure 13.

use std::collections::VecDeque;
use std::sync::Arc;

use random::Random;
use sched::policy::Layout;
use sched::{Affinity, SlotId};
use units::balancer::{
    Accesses, KEYS_PER_SAMPLE, PIECE_PAIRS, SAMPLES, SAMPLES_PER_UNIT, THRESHOLD, Transfer, decision, deviation,
    transfers,
};
use units::bench::shifting::hot_part;
use units::routing::table::RangeTable;

use super::lookup::{Commands, Index, LARGE_PAGE_BYTES, Lookups, nodes_with_cpus};
use super::{At, Graph, Task, TaskStage, Workload};
use crate::constants::Constants;
use crate::machine::Machine;

pub use units::balancer::Algorithm;
pub use units::bench::shifting::CHANGES;

/// Statements of each node that are on their way at once: while units look up, there is something to send.
const STATEMENTS: usize = 2;
/// Look-ups of a statement, per unit.
const LOOKUPS_PER_UNIT: f64 = 5_000.0;
/// Statements of which the monitors remember keys; more than their samples hold.
const REMEMBERED: usize = 256;
/// Bytes of a pair as it is streamed.
const STREAMED_BYTES: f64 = 16.0;
/// Parts of all keys in which a node's hot ones are counted, for what its cache holds.
const CACHE_STEPS: f64 = 256.0;

/// Which transfers of a cycle run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfers {
    /// Each unit takes what it is to get, one range after the other: the paper's way (section 3.3.2).
    AtOnce,
    /// All of them one after the other: the product's way, where one caller runs a cycle.
    InTurn,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shifting {
    /// Keys, `0 .. keys`, in equal ranges at the beginning.
    pub keys: u64,
    /// How ranges move.
    pub balancer: Algorithm,
    /// Which of them at the same time.
    pub transfers: Transfers,
    /// How often the balancer looks, in virtual time; it does not while a cycle goes on.
    pub period_ns: u64,
    /// How long all keys are looked up.
    pub all_ns: u64,
    /// How long each range after that is.
    pub each_ns: u64,
    /// Bytes of the pages that the index lies on.
    pub page_bytes: u64,
    /// How long a [`Tick`] is.
    pub tick_ns: u64,
}

impl Shifting {
    /// The paper's run, with the period of the product, which leaves an object alone for that long after a cycle; the
    /// paper does not print its own.
    pub fn new(keys: u64, balancer: Algorithm) -> Shifting {
        Shifting {
            keys,
            balancer,
            transfers: Transfers::AtOnce,
            period_ns: 100_000_000,
            all_ns: 10_000_000_000,
            each_ns: 20_000_000_000,
            page_bytes: LARGE_PAGE_BYTES as u64,
            tick_ns: 250_000_000,
        }
    }

    /// How often what is looked up has changed by a time.
    pub fn changes_at(&self, now_ns: u64) -> u32 {
        match now_ns.checked_sub(self.all_ns) {
            None => 0,
            Some(since) => (since / self.each_ns.max(1)).saturating_add(1).min(u64::from(CHANGES)) as u32,
        }
    }

    /// The keys that are looked up after as many changes: the first, and the first behind them.
    pub fn hot(&self, changes: u32) -> (u64, u64) {
        let part = |sixty_fourths: u64| (u128::from(self.keys) * u128::from(sixty_fourths) / 64) as u64;
        let (first, behind) = hot_part(changes);
        (part(first), part(behind))
    }

    /// Keys of a range.
    fn pairs(&self, first: u64, last: u64) -> u64 {
        if first >= self.keys { 0 } else { last.min(self.keys - 1) - first + 1 }
    }
}

/// What was done in a piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tick {
    /// Look-ups whose statement ended.
    pub lookups: f64,
    /// Pairs that got another owner.
    pub moved: u64,
}

/// What was done in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Cycles in which ranges moved.
    pub cycles: u64,
    /// Pairs that were linked.
    pub linked: u64,
    /// Pairs that were copied.
    pub copied: u64,
}

/// Whose keys are looked up, while neither they nor their owners change.
#[derive(Debug)]
struct Mix {
    /// Per unit, its ranges of hot keys, first and last.
    ranges: Vec<Vec<(u64, u64)>>,
    /// Per unit, how many keys those are.
    keys: Vec<u64>,
    /// Keys of all of them.
    all: u64,
}

/// A range on its way, and what of it is being moved.
#[derive(Debug, Default)]
struct Mover {
    waiting: VecDeque<Transfer>,
    /// The last key of the piece that is being moved.
    piece: Option<u64>,
}

/// The clients: the balancer, those that move ranges, and those that look up.
#[derive(Debug)]
pub struct ShiftingClients {
    what: Shifting,
    index: Lookups,
    /// Per unit, the place of its node.
    homes: Vec<usize>,
    /// The nodes that have units, each with these.
    nodes: Vec<(usize, Vec<usize>)>,
    table: RangeTable,
    movers: Vec<Mover>,
    /// Ranges of the cycle that are not there yet.
    left: usize,
    next_cycle_ns: u64,
    /// The mix at hand, with the number of changes that it is of, and per node of `nodes` its statement.
    mix: Option<(u32, Arc<Mix>)>,
    graphs: Vec<Option<Arc<Graph>>>,
    /// Per client that looks up, what it has issued.
    issued: Vec<Option<Arc<Mix>>>,
    /// Per unit, look-ups since the last cycle.
    seen: Vec<f64>,
    /// What the last statements looked up, the newest last.
    recent: VecDeque<Arc<Mix>>,
    ticks: Vec<Tick>,
    moves: Moves,
}

impl ShiftingClients {
    /// Clients for the slots of a machine, a unit at each.
    pub fn new(what: Shifting, machine: &Machine, layout: &Layout) -> ShiftingClients {
        let home = |slot: usize| {
            let group = layout.slot(SlotId(slot as u32)).group;
            machine.place_of(layout.group(group).node).unwrap_or(0)
        };
        let homes: Vec<usize> = (0..layout.slots().len()).map(home).collect();
        let of_node = |node: usize| (0..homes.len()).filter(|unit| homes[*unit] == node).collect::<Vec<_>>();
        let nodes: Vec<(usize, Vec<usize>)> = (0..machine.node_count()).map(|node| (node, of_node(node))).collect();
        let nodes: Vec<(usize, Vec<usize>)> = nodes.into_iter().filter(|(_, units)| !units.is_empty()).collect();
        let movers = if what.transfers == Transfers::AtOnce { homes.len() } else { 1 };
        let first = |unit: usize| (u128::from(what.keys) * unit as u128 / homes.len() as u128) as u64;
        let table = RangeTable::new((0..homes.len()).map(first).collect());
        ShiftingClients {
            index: Lookups {
                page_bytes: what.page_bytes as f64,
                ..Lookups::new(what.keys as f64, Index::Units { commands: Commands::of_batches(1.0), processing: true })
            },
            table: table.expect("there are as many keys as units"),
            movers: (0..movers).map(|_| Mover::default()).collect(),
            left: 0,
            next_cycle_ns: what.period_ns,
            mix: None,
            graphs: vec![None; nodes.len()],
            issued: vec![None; nodes.len() * STATEMENTS],
            seen: vec![0.0; homes.len()],
            recent: VecDeque::new(),
            ticks: Vec::new(),
            moves: Moves::default(),
            homes,
            nodes,
            what,
        }
    }

    /// What was done in each piece of time, from the beginning on.
    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// What moved.
    pub fn moves(&self) -> Moves {
        self.moves
    }

    /// Which unit owns which keys at the end.
    pub fn table(&self) -> &RangeTable {
        &self.table
    }

    fn lookups(&self) -> f64 {
        LOOKUPS_PER_UNIT * self.homes.len() as f64
    }

    fn tick(&mut self, now_ns: u64) -> &mut Tick {
        let place = (now_ns / self.what.tick_ns.max(1)) as usize;
        if self.ticks.len() <= place {
            self.ticks.resize(place + 1, Tick::default());
        }
        &mut self.ticks[place]
    }

    /// The mix of these changes and the owners at hand.
    fn mix_at(&mut self, changes: u32) -> Arc<Mix> {
        if let Some((of, mix)) = &self.mix
            && *of == changes
        {
            return Arc::clone(mix);
        }
        let (hot, end) = self.what.hot(changes);
        let mut ranges = vec![Vec::new(); self.homes.len()];
        let mut keys = vec![0; self.homes.len()];
        for range in 0..self.table.ranges() {
            let first = self.table.firsts()[range].max(hot);
            let last = self.table.last(range).min(end - 1);
            if first <= last {
                let owner = self.table.owners()[range];
                ranges[owner].push((first, last));
                keys[owner] += last - first + 1;
            }
        }
        let mix = Arc::new(Mix { ranges, all: keys.iter().sum(), keys });
        self.mix = Some((changes, Arc::clone(&mix)));
        self.graphs.fill(None);
        mix
    }

    /// A statement of look-ups that a node's units make.
    fn statement(&self, place: usize, mix: &Mix, machine: &Machine, constants: &Constants) -> Graph {
        let lookups = self.lookups();
        let everywhere = nodes_with_cpus(machine);
        let units = self.homes.len() as f64;
        let makers = &self.nodes[place].1;
        let mut graph = Graph::new(lookups);
        for maker in makers {
            let own = lookups / makers.len() as f64;
            let mut task = Task::new(at_slot(*maker), TaskStage::default());
            task.stages = self.index.route(&everywhere, own, units, constants);
            graph.add(task);
        }
        for (node, owners) in &self.nodes {
            let hot: u64 = owners.iter().map(|unit| mix.keys[*unit]).sum();
            let part = (hot as f64 / self.what.keys as f64 * CACHE_STEPS).ceil() / CACHE_STEPS;
            let missed = self.index.missed_of(machine, part);
            for unit in owners.iter().filter(|unit| mix.keys[**unit] > 0) {
                let own = lookups * mix.keys[*unit] as f64 / mix.all as f64;
                let look = self.index.look(&[*node], own, (missed, constants.routed_key_ns()), constants);
                let mut task = Task::new(at_slot(*unit), self.index.receive(*node, own, units, constants));
                task.stages.push(look);
                graph.add(task.after(0..makers.len()));
            }
        }
        graph
    }

    fn look_up(&mut self, client: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        if let Some(mix) = self.issued[client].take() {
            let lookups = self.lookups();
            self.tick(at.now_ns).lookups += lookups;
            for (seen, keys) in self.seen.iter_mut().zip(&mix.keys) {
                *seen += lookups * *keys as f64 / mix.all as f64;
            }
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(mix);
        }
        let mix = self.mix_at(self.what.changes_at(at.now_ns));
        let place = client / STATEMENTS;
        if self.graphs[place].is_none() {
            self.graphs[place] = Some(Arc::new(self.statement(place, &mix, at.machine, at.constants)));
        }
        self.issued[client] = Some(mix);
        self.graphs[place].clone()
    }

    /// Looks at what was accessed, and begins a cycle where the balancer says so.
    fn balance(&mut self, at: &mut At<'_>) {
        if at.now_ns < self.next_cycle_ns {
            return;
        }
        self.next_cycle_ns += self.what.period_ns.max(1);
        if self.left > 0 || self.what.balancer == Algorithm::Off {
            return;
        }
        let Some(seen) = self.accesses(at.random) else { return };
        let Some(after) = decision(&seen, self.what.balancer).1 else { return };
        let transfers = transfers(&self.table, &after);
        self.left = transfers.len();
        self.moves.cycles += u64::from(self.left > 0);
        for transfer in transfers {
            let mover = if self.movers.len() == 1 { 0 } else { transfer.to };
            self.movers[mover].waiting.push_back(transfer);
        }
    }

    /// What the monitors tell, which begin anew; nothing where they have seen too little.
    fn accesses(&mut self, random: &mut Random) -> Option<Vec<Accesses>> {
        let drawn = |seen: &f64| (*seen / KEYS_PER_SAMPLE as f64) as u64;
        if self.seen.iter().map(drawn).sum::<u64>() < SAMPLES_PER_UNIT * self.homes.len() as u64 {
            return None;
        }
        let counts: Vec<u64> = self.seen.iter().map(|seen| drawn(seen) * KEYS_PER_SAMPLE).collect();
        self.seen.fill(0.0);
        // Nothing is decided then, so no key needs to be drawn.
        if deviation(&counts.iter().map(|count| *count as f64).collect::<Vec<_>>()) <= THRESHOLD {
            return None;
        }
        let accesses = |unit: usize| {
            let remembered = (counts[unit] / KEYS_PER_SAMPLE).min(SAMPLES as u64) as usize;
            Accesses { count: counts[unit] as f64, sample: self.sample(unit, remembered, random) }
        };
        Some((0..self.homes.len()).map(accesses).collect())
    }

    /// The last keys that a unit's monitor has drawn, at most so many.
    fn sample(&self, unit: usize, most: usize, random: &mut Random) -> Vec<u64> {
        let mut sample = Vec::with_capacity(most);
        for mix in self.recent.iter().rev() {
            let own = self.lookups() * mix.keys[unit] as f64 / mix.all as f64 / KEYS_PER_SAMPLE as f64;
            for _ in 0..(own.round() as usize).min(most - sample.len()) {
                let mut place = random.below_u64(mix.keys[unit]);
                let range = mix.ranges[unit].iter().find(|(first, last)| {
                    let keys = last - first + 1;
                    let is_here = place < keys;
                    place -= if is_here { 0 } else { keys };
                    is_here
                });
                sample.extend(range.map(|(first, _)| first + place));
            }
        }
        sample
    }

    /// Ends the piece that a mover has moved, and begins with the next one.
    fn move_on(&mut self, mover: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        if let Some(last) = self.movers[mover].piece.take() {
            self.moved(mover, last, at.now_ns);
        }
        while let Some(transfer) = self.movers[mover].waiting.front().copied() {
            let pairs = self.what.pairs(transfer.first, transfer.last);
            let is_linked = self.homes[transfer.from] == self.homes[transfer.to];
            let last = match pairs > PIECE_PAIRS as u64 && !is_linked {
                true => transfer.first + PIECE_PAIRS as u64 - 1,
                false => transfer.last,
            };
            // Who has no pairs in it only tells others that it is theirs.
            if pairs == 0 {
                self.moved(mover, last, at.now_ns);
                continue;
            }
            self.movers[mover].piece = Some(last);
            let pairs = self.what.pairs(transfer.first, last) as f64;
            return Some(Arc::new(self.piece(transfer, pairs, at.constants)));
        }
        None
    }

    /// A mover's transfer has come to a key.
    fn moved(&mut self, mover: usize, last: u64, now_ns: u64) {
        let Some(transfer) = self.movers[mover].waiting.pop_front() else { return };
        assert_eq!(self.table.owner_of(transfer.first), transfer.from, "who gives a range has it");
        let pairs = self.what.pairs(transfer.first, last);
        match self.homes[transfer.from] == self.homes[transfer.to] {
            true => self.moves.linked += pairs,
            false => self.moves.copied += pairs,
        }
        self.tick(now_ns).moved += pairs;
        self.table = self.table.moved(transfer.first, last, transfer.to);
        self.mix = None;
        match last < transfer.last {
            true => self.movers[mover].waiting.push_front(Transfer { first: last + 1, ..transfer }),
            false => self.left -= 1,
        }
    }

    /// The work of moving pairs of a transfer's range.
    fn piece(&self, transfer: Transfer, pairs: f64, constants: &Constants) -> Graph {
        let giver = self.homes[transfer.from];
        let taker = self.homes[transfer.to];
        let (giving, taking) = if giver == taker {
            let link = TaskStage::cpu(pairs * constants.link_ns_per_pair());
            (link.clone(), link)
        } else {
            let own = pairs * self.index.level_bytes().iter().sum::<f64>() / self.index.keys;
            let stream = pairs * STREAMED_BYTES;
            let copy = TaskStage::cpu(pairs * constants.copy_ns_per_pair());
            let giving = copy.clone().read(giver, own).write(giver, stream, constants);
            (giving, copy.read(giver, stream).write(taker, own, constants))
        };
        let mut graph = Graph { urgent: true, kind: 1, ..Graph::default() };
        graph.add(Task::new(at_slot(transfer.from), giving));
        graph.add(Task::new(at_slot(transfer.to), taking));
        graph
    }
}

impl Workload for ShiftingClients {
    fn clients(&self) -> usize {
        1 + self.movers.len() + self.issued.len()
    }

    fn next(&mut self, client: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        match client.checked_sub(1 + self.movers.len()) {
            Some(client) => self.look_up(client, at),
            None if client == 0 => {
                self.balance(at);
                None
            }
            None => self.move_on(client - 1, at),
        }
    }

    fn asks_again_ns(&self, client: usize) -> Option<u64> {
        match client {
            // The balancer comes first: events of one time happen in the order in which they were planned.
            0 => Some(self.next_cycle_ns),
            _ => Some(self.next_cycle_ns.saturating_add(1)),
        }
    }
}

fn at_slot(unit: usize) -> Affinity {
    Affinity::Slot(SlotId(unit as u32))
}

#[cfg(test)]
mod tests;
