//! Clients over columns that the placer moves meanwhile: throughput over time, decisions, bytes moved.
//!
//! The placer is the product's, `placer::Placer`. One client is its thread: each period it looks at what was read of
//! which column on which node, decides, and carries the decisions out one after the other, as `nearside`'s
//! `run::placer` does: a column goes segment by segment, its pages copied by the cpu that asks, with a pause of
//! [`PAUSES`] times what a segment took. Statements that are issued afterwards find a segment where it then lies.
//! What was read while data moved is not looked at.
//!
//! Invariants: what a statement reads is known once it has ended, as in the product; a column's rows lie in one place
//! each at any time, but for copies, which are read once all of them are there.
//!
//! # Limits
//! The mover is a task of a worker, not a thread besides the workers. Writers are not held up for the length of a
//! segment. Deciding takes no time. Ranges are of the whole column, in the product of each of its segments: as much of
//! it lies on each node, and as much goes. Nothing but columns takes memory.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 7.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use placer::{Copies, Decision, Dictionary, Item, ItemId, Lies, Node, Observation, Placer};
use sched::Affinity;

use super::columns::{Column, Lying, Ranges, Statement, Touched, equal, half_way, to_move};
use super::watched::{Look, Watched};
use super::{At, Graph, Task, TaskStage, Workload, migration};
use crate::machine::{Machine, NodeFacts};

/// For each time that a segment takes, so many times it is paused: as the product has it.
pub const PAUSES: u64 = 4;
/// Rows of a segment: as the product has it.
const SEGMENT_ROWS: f64 = (16 << 20) as f64;
/// Rows of the smallest range: as the product has it.
const GRANULE_ROWS: f64 = 65_536.0;

/// What is asked for, until when.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// In virtual time; the last phase goes on.
    pub until_ns: u64,
    /// How often each statement is asked for, beside the others.
    pub weights: Vec<f64>,
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// In a closed loop.
    pub clients: usize,
    /// What lies somewhere.
    pub columns: Vec<Column>,
    /// What is asked for.
    pub statements: Vec<Statement>,
    /// How often.
    pub phases: Vec<Phase>,
    /// Where the columns lie at the beginning.
    pub lies: Vec<Ranges>,
    /// What columns may take of the memory of each node with cpus; `None`: all of it.
    pub memory_bytes: Option<f64>,
    /// How often the placer looks, in virtual time; `None`: nothing moves.
    pub period_ns: Option<u64>,
    /// How long a [`Tick`] is.
    pub tick_ns: u64,
}

/// What was done in a piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tick {
    /// Statements that ended.
    pub statements: u64,
    /// Bytes that went to another node.
    pub moved_bytes: f64,
}

/// A decision that was carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// When it was decided and begun.
    pub begun_ns: u64,
    /// When the last segment was there; `None` while it is on its way.
    pub done_ns: Option<u64>,
    /// Periods before it, this one included.
    pub period: u64,
    /// What was decided; its places are those of the machine's nodes.
    pub decision: Decision,
    /// Bytes that went to another node.
    pub moved_bytes: f64,
}

/// What was read of a column on a node since the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    bytes: f64,
    busy_ns: f64,
    /// Of the bytes those that tasks read that were to run elsewhere, and of these lines at random places.
    remote: f64,
    remote_lines: f64,
}

/// A statement as it is for now.
#[derive(Debug)]
struct Issued {
    graph: Arc<Graph>,
    touched: Vec<Vec<Touched>>,
}

/// A column on its way.
#[derive(Debug)]
struct Mover {
    /// Its place in the log.
    entry: usize,
    from: Ranges,
    to: Ranges,
    /// What it then has copies of.
    copies: Copies,
    /// Segments that are there, of so many.
    done: usize,
    segments: usize,
    /// Copies that are left to be made afterwards: from, to, bytes.
    to_copy: VecDeque<(usize, usize, f64)>,
    /// When the segment that is being moved began, and its bytes.
    since: Option<(u64, f64)>,
}

/// The clients: the placer, and those that ask.
#[derive(Debug)]
pub struct PlacedClients {
    what: Placed,
    lies: Vec<Ranges>,
    copies: Vec<Copies>,
    placer: Placer,
    graphs: BTreeMap<(usize, usize), Arc<Issued>>,
    issued: Vec<Option<Arc<Issued>>>,
    seen: Vec<Vec<Seen>>,
    /// Bytes of two columns that were read by tasks that read both.
    together: BTreeMap<(usize, usize), f64>,
    looked_ns: u64,
    wakes_ns: u64,
    periods: u64,
    waiting: VecDeque<usize>,
    mover: Option<Mover>,
    has_moved: bool,
    log: Vec<Carried>,
    ticks: Vec<Tick>,
    watched: Option<Watched>,
}

impl PlacedClients {
    /// Clients on a machine.
    pub fn new(what: Placed, machine: &Machine) -> PlacedClients {
        PlacedClients {
            lies: what.lies.clone(),
            copies: vec![Copies::None; what.columns.len()],
            placer: Placer::default(),
            graphs: BTreeMap::new(),
            issued: vec![None; what.clients],
            seen: vec![vec![Seen::default(); machine.node_count()]; what.columns.len()],
            together: BTreeMap::new(),
            looked_ns: 0,
            wakes_ns: what.period_ns.unwrap_or(0),
            periods: 0,
            waiting: VecDeque::new(),
            mover: None,
            has_moved: false,
            log: Vec::new(),
            ticks: Vec::new(),
            watched: None,
            what,
        }
    }

    /// The same clients, looked at every so often, in virtual time.
    pub fn watched(mut self, every_ns: u64) -> PlacedClients {
        let nodes = self.seen.first().map_or(0, Vec::len);
        self.watched = Some(Watched::new(every_ns, self.what.columns.len(), nodes));
        self
    }

    /// What the run looked like, from its beginning on; nothing where it was not watched.
    pub fn looks(&self) -> &[Look] {
        self.watched.as_ref().map_or(&[], Watched::looks)
    }

    /// What was done in each piece of time, from the beginning on.
    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// What the placer did.
    pub fn log(&self) -> &[Carried] {
        &self.log
    }

    /// Where the columns lie.
    pub fn lies(&self) -> &[Ranges] {
        &self.lies
    }

    fn tick(&mut self, now_ns: u64) -> &mut Tick {
        let place = (now_ns / self.what.tick_ns.max(1)) as usize;
        if self.ticks.len() <= place {
            self.ticks.resize(place + 1, Tick::default());
        }
        &mut self.ticks[place]
    }

    /// A client's statement has ended: what it read is known.
    fn ended(&mut self, issued: &Issued, at: &At<'_>) {
        self.tick(at.now_ns).statements += 1;
        if let Some(watched) = &mut self.watched {
            watched.ended(at.now_ns, &self.lies);
        }
        for (task, took_ns) in issued.touched.iter().zip(at.took_ns) {
            let all: f64 = task.iter().map(|of| of.bytes).sum();
            for of in task {
                let seen = &mut self.seen[of.column][of.node];
                seen.bytes += of.bytes;
                seen.busy_ns += *took_ns as f64 * of.bytes / all;
                let is_remote = of.node != of.near;
                seen.remote += if is_remote { of.bytes } else { 0.0 };
                seen.remote_lines += if is_remote && of.is_lines { of.bytes } else { 0.0 };
                if let Some(watched) = &mut self.watched {
                    watched.touched(of.column, of.node, of.near, of.bytes);
                }
            }
            for (place, a) in task.iter().enumerate() {
                for b in task[place + 1..].iter().filter(|b| a.column != b.column) {
                    let pair = (a.column.min(b.column), a.column.max(b.column));
                    *self.together.entry(pair).or_default() += a.bytes + b.bytes;
                }
            }
        }
    }

    fn ask(&mut self, client: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        if let Some(issued) = self.issued[client].take() {
            self.ended(&issued, at);
        }
        let phase = self.what.phases.iter().find(|phase| at.now_ns < phase.until_ns).or(self.what.phases.last())?;
        let mut left = at.random.unit() * phase.weights.iter().sum::<f64>();
        let drawn = phase.weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let number = drawn.unwrap_or(0);
        let statement = self.what.statements.get(number)?;
        // Tasks depend on how many statements share the cpus, up to one for each.
        let active = at.active.min(at.layout.slots().len());
        let issued = self.graphs.entry((number, active)).or_insert_with(|| {
            let on = (at.machine, at.layout);
            let lies = Lying { ranges: &self.lies, copies: &self.copies };
            let (graph, touched) = statement.graph(lies, on, (active, at.settings.parallelism));
            Arc::new(Issued { graph: Arc::new(graph), touched })
        });
        self.issued[client] = Some(Arc::clone(issued));
        Some(Arc::clone(&issued.graph))
    }

    /// The placer's thread: goes on with a move, or looks and decides.
    fn place(&mut self, at: &mut At<'_>) -> Option<Arc<Graph>> {
        let period_ns = self.what.period_ns?;
        if let Some(since) = self.mover.as_mut().and_then(|mover| mover.since.take()) {
            self.arrived(since, at);
            return None;
        }
        if at.now_ns < self.wakes_ns {
            return None;
        }
        loop {
            if let Some(step) = self.step(at) {
                return Some(step);
            }
            match self.waiting.pop_front() {
                Some(entry) => self.begin(entry, at.now_ns),
                None if self.has_moved => {
                    // What was read while data moved was read in both places.
                    self.has_moved = false;
                    self.forget(at.now_ns);
                    self.wakes_ns = at.now_ns + period_ns;
                    return None;
                }
                None => {
                    self.look(at);
                    if self.waiting.is_empty() {
                        self.wakes_ns = at.now_ns + period_ns;
                        return None;
                    }
                }
            }
        }
    }

    /// A period is over.
    fn look(&mut self, at: &At<'_>) {
        self.periods += 1;
        let observation = self.observation(at);
        self.forget(at.now_ns);
        for decision in self.placer.decide(&observation) {
            self.waiting.push_back(self.log.len());
            let (begun_ns, period) = (at.now_ns, self.periods);
            self.log.push(Carried { begun_ns, done_ns: None, period, decision, moved_bytes: 0.0 });
        }
    }

    /// As `nearside`'s `run::placer::observe` builds it.
    fn observation(&self, at: &At<'_>) -> Observation {
        let mut used = vec![0.0; at.machine.node_count()];
        for ((column, ranges), copies) in self.what.columns.iter().zip(&self.lies).zip(&self.copies) {
            for (node, share) in ranges {
                let copied = match copies {
                    Copies::None => 0.0,
                    Copies::Dictionary => column.dictionary_bytes,
                    Copies::All => column.bytes,
                };
                used[*node] += column.bytes * share + copied * (1.0 - share);
            }
        }
        // Nodes may give less together than each alone: what the machine has is what counts.
        let alone: f64 = at.machine.nodes().iter().map(|node| node.controller_bytes_per_second).sum();
        let together = (at.machine.total_local() / alone).min(1.0);
        let package = |facts: &NodeFacts| at.machine.topology().home_package(facts.id).map(|package| package.0);
        let node = |(facts, used): (&NodeFacts, &f64)| {
            let all = at.machine.topology().node(facts.id).map_or(0, |node| node.memory_bytes);
            let bytes = match self.what.memory_bytes {
                Some(bytes) if facts.cpus > 0 => bytes as u64,
                _ => all,
            };
            Node {
                id: facts.id,
                bandwidth: facts.controller_bytes_per_second * together,
                cpus: facts.cpus as f64,
                bytes,
                free_bytes: bytes.saturating_sub(*used as u64),
                package: package(facts),
            }
        };
        let item = |(number, column): (usize, &Column)| Item {
            id: ItemId { table: column.table as u64, number: number as u64 },
            bytes: column.bytes as u64,
            served: self.seen[number].iter().map(|seen| seen.bytes as u64).collect(),
            busy: self.seen[number].iter().map(|seen| seen.busy_ns * 1e-9).collect(),
            remote: self.seen[number].iter().map(|seen| seen.remote).sum::<f64>() as u64,
            written: 0,
            dictionary: Dictionary {
                bytes: column.dictionary_bytes as u64,
                remote: match column.dictionary_bytes {
                    0.0 => 0,
                    _ => self.seen[number].iter().map(|seen| seen.remote_lines).sum::<f64>() as u64,
                },
                is_copied: self.copies[number] == Copies::Dictionary,
            },
            lies: self.lies_of(number),
            ranges_max: (column.rows / GRANULE_ROWS).ceil().max(1.0) as usize,
            like: None,
            is_users: false,
        };
        Observation {
            seconds: (at.now_ns - self.looked_ns) as f64 * 1e-9,
            nodes: at.machine.nodes().iter().zip(&used).map(node).collect(),
            items: self.what.columns.iter().enumerate().map(item).collect(),
            together: self.together.iter().map(|((a, b), bytes)| (*a, *b, *bytes as u64)).collect(),
        }
    }

    fn lies_of(&self, column: usize) -> Lies {
        let nodes = self.lies[column].iter().map(|(node, _)| *node).collect();
        if self.copies[column] == Copies::All { Lies::Replicated(nodes) } else { Lies::Ranges(nodes) }
    }

    fn forget(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
        self.together.clear();
        self.seen.iter_mut().for_each(|of_column| of_column.fill(Seen::default()));
    }

    fn begin(&mut self, entry: usize, now_ns: u64) {
        self.has_moved = true;
        let carried = &mut self.log[entry];
        carried.begun_ns = now_ns;
        let column = carried.decision.item.number as usize;
        let to = equal(&carried.decision.to);
        let (of, copies, from) = (self.what.columns[column], carried.decision.copies, self.lies[column].clone());
        let had = std::mem::replace(&mut self.copies[column], Copies::None);
        let whole = [had, copies].contains(&Copies::All);
        // Copies that go are dropped where they are; copies are made once all ranges are there.
        let segments = if whole { 0 } else { (of.rows / SEGMENT_ROWS).ceil().max(1.0) as usize };
        let missing = |(node, share): &(usize, f64)| match copies {
            Copies::None => 0.0,
            Copies::Dictionary if had == Copies::Dictionary && from.iter().any(|(known, _)| known == node) => 0.0,
            Copies::Dictionary => of.dictionary_bytes * (1.0 - share),
            Copies::All => {
                let there: f64 = from.iter().filter(|(known, _)| known == node).map(|(_, share)| share).sum();
                of.bytes * (1.0 - there)
            }
        };
        let source = |node: usize| from.iter().map(|(known, _)| *known).find(|known| *known != node).unwrap_or(node);
        let to_copy = to.iter().map(|range| (source(range.0), range.0, missing(range)));
        let to_copy = to_copy.filter(|(.., bytes)| *bytes > 0.0).collect();
        self.mover = Some(Mover { entry, from, to, copies, done: 0, segments, to_copy, since: None });
    }

    /// The work of moving the next segment of the column on its way; `None` where none is left.
    fn step(&mut self, at: &At<'_>) -> Option<Arc<Graph>> {
        loop {
            let mover = self.mover.as_mut()?;
            if mover.done == mover.segments
                && let Some((from, to, bytes)) = mover.to_copy.pop_front()
            {
                mover.since = Some((at.now_ns, bytes));
                return Some(Arc::new(moved([(from, to, bytes)], at)));
            }
            if mover.done == mover.segments {
                let column = self.log[mover.entry].decision.item.number as usize;
                self.copies[column] = mover.copies;
                self.settle(column);
                let Some(mover) = &self.mover else { return None };
                self.log[mover.entry].done_ns = Some(at.now_ns);
                self.mover = None;
                return None;
            }
            let row = |segment: usize| segment as f64 / mover.segments as f64;
            let moves = to_move(&mover.from, &mover.to, row(mover.done)..row(mover.done + 1));
            let column = self.log[mover.entry].decision.item.number as usize;
            if moves.is_empty() {
                mover.done += 1;
                self.settle(column);
                continue;
            }
            let all = self.what.columns[column].bytes;
            mover.since = Some((at.now_ns, moves.iter().map(|(.., share)| all * share).sum()));
            let moves = moves.into_iter().map(|(from, to, share)| (from, to, all * share));
            return Some(Arc::new(moved(moves, at)));
        }
    }

    /// A segment is there.
    fn arrived(&mut self, (since_ns, bytes): (u64, f64), at: &At<'_>) {
        self.wakes_ns = at.now_ns + (at.now_ns - since_ns) * PAUSES;
        self.tick(at.now_ns).moved_bytes += bytes;
        if let Some(watched) = &mut self.watched {
            watched.moved(bytes);
        }
        let Some(mover) = &mut self.mover else { return };
        mover.done = (mover.done + 1).min(mover.segments);
        self.log[mover.entry].moved_bytes += bytes;
        let column = self.log[mover.entry].decision.item.number as usize;
        self.settle(column);
    }

    /// Statements find a column where it lies by now.
    fn settle(&mut self, column: usize) {
        let Some(mover) = &self.mover else { return };
        self.lies[column] = match mover.done == mover.segments {
            true => mover.to.clone(),
            false => half_way(&mover.from, &mover.to, mover.done as f64 / mover.segments as f64),
        };
        let statements = &self.what.statements;
        self.graphs.retain(|(number, _), _| statements[*number].columns().all(|of| of != column));
    }
}

/// Bytes that go from node to node, as one task.
fn moved(moves: impl IntoIterator<Item = (usize, usize, f64)>, at: &At<'_>) -> Graph {
    let mut task = Task::new(Affinity::Anywhere, TaskStage::default());
    task.stages.clear();
    for (from, to, bytes) in moves {
        task.stages.extend(migration(from, &[to], bytes, at.constants).stages);
    }
    let mut graph = Graph { urgent: true, kind: 1, ..Graph::default() };
    graph.add(task);
    graph
}

impl Workload for PlacedClients {
    fn clients(&self) -> usize {
        1 + self.what.clients
    }

    fn next(&mut self, client: usize, at: &mut At<'_>) -> Option<Arc<Graph>> {
        match client.checked_sub(1) {
            Some(client) => self.ask(client, at),
            None => self.place(at),
        }
    }

    fn wants_times(&self) -> bool {
        self.what.period_ns.is_some()
    }

    fn asks_again_ns(&self, client: usize) -> Option<u64> {
        (client == 0 && self.what.period_ns.is_some()).then_some(self.wakes_ns)
    }
}

#[cfg(test)]
mod tests;
