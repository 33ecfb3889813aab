//! Look-ups and upserts of keys in an index: one that all cpus share, or the units' own.
//!
//! The index is a prefix tree of eight bits per level over dense keys, with a record of 16 bytes per key: 24 GB for a
//! billion keys (the paper: about 25). A look-up follows a line per level and one of the record, and, where a page is
//! none that the core has just translated, a line of the page tables before each. The last-level cache of a node holds
//! what was touched last, upper levels first by that (Che, Tung and Wang, IEEE JSAC 2002: what is asked for again
//! within the time that it takes to fill the cache is there). Shared, the index is interleaved over all nodes, and
//! every node's cache holds lines of all of it; with units a node's cache holds lines of its own part.
//!
//! A unit also routes: in each round it draws keys, finds their owners and sends them there in commands. Those for one
//! unit wait in a buffer, which is copied to where the other unit reads it and announced there when it is full or the
//! round ends: so a round of few keys over many units fills no buffer. A command has as many keys of one unit as a
//! round has, as the product's look-ups of batches, or fewer.
//!
//! An upsert goes the same way, carries a value beside its key, and writes the record's line, which goes back to
//! memory. Where all cpus share the index, a record that a cache holds was mostly written by another node since,
//! and comes from there.
//!
//! # Limits
//! Upserts set values of keys that are there: no node grows. Keys are uniform. What is cached is what would be cached
//! in the long run; there is no warming up, and what only passes through leaves no trace. Page tables are told by their
//! last level; upper ones are in nearer caches. The paper prints neither how many keys a round has nor how many a
//! command: those of the product are assumed.
//!
//! Source: Kissinger et al., ADMS 2014, sections 3.2, 4.1 and 4.2.

use sched::policy::Layout;
use sched::{Affinity, SlotId};

use super::{Graph, LINE_BYTES, Task, TaskStage, UnderWay};
use crate::constants::Constants;
use crate::machine::Machine;

const FANOUT: f64 = 256.0;
const POINTER_BYTES: f64 = 8.0;
const RECORD_BYTES: f64 = 16.0;
/// What a command has of a key.
const KEY_BYTES: f64 = 8.0;
/// What an upsert sends beside its key.
const VALUE_BYTES: f64 = 8.0;
/// Lines that announcing a buffer touches at the other unit, by an atomic instruction each: words are taken, and the
/// sender is counted out (`units/src/routing/README.md`).
const ANNOUNCE_LINES: f64 = 2.0;
/// Pages that a core keeps translated: entries of the second translation buffer, Intel 64 and IA-32 Architectures
/// Optimization Reference Manual, Nehalem to Ivy Bridge.
const TRANSLATED_PAGES: f64 = 512.0;
/// An entry of a page table.
const ENTRY_BYTES: f64 = 8.0;
/// What a core's own cache holds; page tables that are no larger are found there.
const NEAR_BYTES: f64 = 262_144.0;
/// Bytes of a large page: what bulk memory of the product lies on.
pub(super) const LARGE_PAGE_BYTES: f64 = 2_097_152.0;
/// Keys of a round unless said otherwise: as many as a sender of the product has on their way.
pub const ROUND_KEYS: f64 = 8192.0;

/// Who looks up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Index {
    /// All cpus in one index, interleaved over all nodes.
    Shared,
    /// Units, each in its own part.
    Units {
        /// How keys travel.
        commands: Commands,
        /// Whether the commands are also run, or only routed.
        processing: bool,
    },
}

/// How keys are sent to their units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Commands {
    /// Commands that an outgoing buffer holds.
    pub buffer: f64,
    /// Keys that a command has at most; infinity: all that a round has for one unit.
    pub keys: f64,
}

impl Commands {
    /// A command for all that a round has for one unit, and so many commands in a buffer.
    pub fn of_batches(buffer: f64) -> Commands {
        Commands { buffer, keys: f64::INFINITY }
    }

    /// How many commands so many keys are, and in how many pieces they are sent, where a round has `per_unit` keys for
    /// each unit.
    pub(super) fn of(&self, keys: f64, per_unit: f64) -> (f64, f64) {
        // A key that is alone goes alone.
        let per_unit = per_unit.max(1.0);
        let in_command = self.keys.clamp(1.0, per_unit);
        let together = self.buffer.clamp(1.0, (per_unit / in_command).max(1.0));
        let commands = keys / in_command;
        (commands, commands / together)
    }
}

/// What is done with a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Its value is read.
    #[default]
    Lookup,
    /// Its value is set.
    Upsert,
}

/// Look-ups, or upserts.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookups {
    /// Of the whole index.
    pub keys: f64,
    /// Who.
    pub index: Index,
    /// What.
    pub access: Access,
    /// Look-ups per task, which is a unit's round.
    pub per_task: f64,
    /// Bytes of the pages that the index lies on.
    pub page_bytes: f64,
}

/// What a look-up misses in all caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Missed {
    /// Lines of all levels.
    lines: f64,
    /// Of the records.
    records: f64,
    /// Lines of page tables.
    tables: f64,
    /// Latency of those, ns, one after the other: a core walks page tables for one address at a time (so until Haswell,
    /// same manual).
    walked_ns: f64,
    /// How many lines of page tables it finds in the last-level cache instead.
    tables_held: f64,
}

/// Lines that are asked for alike, and how often they are found in the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lines {
    /// How many there are.
    count: f64,
    /// How often a look-up asks for one of them.
    asked: f64,
    /// The share of these that are found.
    hit: f64,
}

/// What a node's cache sees of an index.
struct Held {
    /// Of each level, the root first.
    levels: Vec<Lines>,
    /// Of the page tables of each level.
    tables: Vec<Lines>,
}

/// What is found of lines in a cache of so many that keeps those that were asked for last.
fn find(cache: f64, all: &mut [Lines]) {
    let hit = |lines: &Lines, within: f64| -(-lines.asked * within / lines.count.max(1.0)).exp_m1();
    let held = |within: f64| -> f64 { all.iter().map(|lines| lines.count * hit(lines, within)).sum() };
    let counted: f64 = all.iter().filter(|lines| lines.asked > 0.0).map(|lines| lines.count).sum();
    if counted <= cache {
        all.iter_mut().for_each(|lines| lines.hit = 1.0);
        return;
    }
    // Look-ups that fill the cache: more than one line each, so no more than it has; fewer would be asked in vain.
    let (mut low, mut high) = (0.0, 1.0);
    while held(high) < cache && high < 1e18 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if held(middle) < cache { low = middle } else { high = middle }
    }
    all.iter_mut().for_each(|lines| lines.hit = hit(lines, high));
}

impl Lookups {
    /// Look-ups in an index of `n` keys, in rounds of [`ROUND_KEYS`].
    pub fn new(keys: f64, index: Index) -> Lookups {
        Lookups { keys, index, access: Access::Lookup, per_task: ROUND_KEYS, page_bytes: LARGE_PAGE_BYTES }
    }

    /// As [`Self::new`], of upserts.
    pub fn upserts(keys: f64, index: Index) -> Lookups {
        Lookups { access: Access::Upsert, ..Lookups::new(keys, index) }
    }

    /// Bytes of each level, the root first, the records last.
    pub fn level_bytes(&self) -> Vec<f64> {
        let levels = (self.keys.max(2.0).log2() / FANOUT.log2()).ceil().max(1.0) as i32;
        let nodes = |level: i32| (self.keys / FANOUT.powi(levels - level)).ceil().max(1.0);
        let mut bytes: Vec<f64> = (0..levels).map(|level| nodes(level) * FANOUT * POINTER_BYTES).collect();
        // The last level has a pointer per key.
        bytes.push(self.keys * RECORD_BYTES);
        bytes
    }

    /// Per level, the share of accesses that find it in the last-level cache of a node.
    pub fn hits(&self, machine: &Machine) -> Vec<f64> {
        self.held(machine, self.part(machine)).levels.iter().map(|lines| lines.hit).collect()
    }

    /// The part of all keys that a node's cpus access.
    fn part(&self, machine: &Machine) -> f64 {
        if self.index == Index::Shared { 1.0 } else { 1.0 / machine.node_count() as f64 }
    }

    /// What a node's cache holds whose cpus access this part of all keys and nothing else.
    fn held(&self, machine: &Machine, part: f64) -> Held {
        let nodes = machine.node_count() as f64;
        let of_nodes = |figure: &dyn Fn(&crate::machine::NodeFacts) -> f64| -> f64 {
            machine.nodes().iter().map(figure).sum::<f64>() / nodes
        };
        let cache = of_nodes(&|node| node.llc_bytes as f64);
        // A unit's addresses are its own part's.
        let own = if self.index == Index::Shared { part } else { part / of_nodes(&|node| node.cpus as f64).max(1.0) };
        let level = |bytes: &f64| Lines { count: bytes * part / LINE_BYTES, asked: 1.0, hit: 1.0 };
        let table = |bytes: &f64| {
            let entries = bytes * part / self.page_bytes * ENTRY_BYTES;
            let translated = TRANSLATED_PAGES * self.page_bytes / (bytes * own).max(1.0);
            let asked = if entries <= NEAR_BYTES { 0.0 } else { (1.0 - translated).max(0.0) };
            Lines { count: entries / LINE_BYTES, asked, hit: 1.0 }
        };
        let bytes = self.level_bytes();
        let mut all: Vec<Lines> = bytes.iter().map(level).chain(bytes.iter().map(table)).collect();
        // What a core's own cache holds need not be in the last one.
        let (mut far, near): (Vec<Lines>, Vec<Lines>) =
            all.iter().copied().partition(|lines: &Lines| lines.count * LINE_BYTES > NEAR_BYTES && lines.asked > 0.0);
        find(cache / LINE_BYTES, &mut far);
        let (mut far, mut near) = (far.into_iter(), near.into_iter());
        for lines in &mut all {
            let is_far = lines.count * LINE_BYTES > NEAR_BYTES && lines.asked > 0.0;
            *lines = if is_far { far.next() } else { near.next() }.unwrap_or(*lines);
        }
        let tables = all.split_off(bytes.len());
        if let Some(records) = all.last_mut()
            && (self.index, self.access) == (Index::Shared, Access::Upsert)
        {
            // Whoever wrote a record last has it in its cache alone: of all nodes' writes, this node's share.
            records.hit /= nodes;
        }
        Held { levels: all, tables }
    }

    /// What a node misses whose cpus access this part of all keys and nothing else.
    pub(super) fn missed_of(&self, machine: &Machine, part: f64) -> Missed {
        let held = self.held(machine, part);
        let missed = |all: &[Lines]| -> f64 { all.iter().map(|lines| lines.asked * (1.0 - lines.hit)).sum() };
        let tables = missed(&held.tables);
        let nodes = nodes_with_cpus(machine);
        let latency = |from: usize| -> f64 {
            match self.index {
                Index::Shared => nodes.iter().map(|to| machine.latency_ns(from, *to)).sum::<f64>() / nodes.len() as f64,
                Index::Units { .. } => machine.latency_ns(from, from),
            }
        };
        let latency_ns = nodes.iter().map(|from| latency(*from)).sum::<f64>() / nodes.len().max(1) as f64;
        Missed {
            lines: missed(&held.levels),
            records: held.levels.last().map_or(0.0, |lines| 1.0 - lines.hit),
            tables,
            walked_ns: tables * latency_ns,
            tables_held: held.tables.iter().map(|lines| lines.asked * lines.hit).sum(),
        }
    }

    fn missed(&self, machine: &Machine) -> Missed {
        self.missed_of(machine, self.part(machine))
    }

    /// Bytes of a key within a command: an upsert has its value too.
    fn key_bytes(&self) -> f64 {
        match self.access {
            Access::Lookup => KEY_BYTES,
            Access::Upsert => KEY_BYTES + VALUE_BYTES,
        }
    }

    /// Bytes of keys that are sent to so many units.
    pub(super) fn sent_bytes(&self, keys: f64, units: f64, constants: &Constants) -> f64 {
        let Index::Units { commands, .. } = self.index else { return 0.0 };
        keys * self.key_bytes() + commands.of(keys, self.per_task / units).0 * constants.command_head_bytes()
    }

    /// Lines that a look-up misses in all caches, page tables left out.
    pub fn misses(&self, machine: &Machine) -> f64 {
        self.missed(machine).lines
    }

    /// Of the accesses to the last-level cache (the root is nearer), the share that misses.
    pub fn miss_ratio(&self, machine: &Machine) -> f64 {
        let Missed { lines, tables, tables_held, .. } = self.missed(machine);
        let accesses = self.level_bytes().len().saturating_sub(1).max(1) as f64 + tables + tables_held;
        (lines + tables) / accesses
    }

    /// Of the hits in the last-level cache, the share on lines that another node's cache holds too.
    pub fn shared_hits(&self, machine: &Machine) -> f64 {
        if self.index != Index::Shared {
            return 0.0;
        }
        let others = machine.node_count() as i32 - 1;
        let held = self.held(machine, 1.0);
        // The root stays in nearer caches.
        let hits: Vec<(f64, f64)> =
            held.levels.iter().skip(1).chain(&held.tables).map(|lines| (lines.asked * lines.hit, lines.hit)).collect();
        let all: f64 = hits.iter().map(|(found, _)| found).sum();
        let shared: f64 = hits.iter().map(|(found, hit)| found * (1.0 - (1.0 - hit).powi(others))).sum();
        if all > 0.0 { shared / all } else { 0.0 }
    }

    /// A round of all cpus: a task per slot. Items are look-ups (or commands routed).
    pub fn graph(&self, machine: &Machine, layout: &Layout, constants: &Constants) -> Graph {
        let slots = layout.slots().len();
        let mut graph = Graph::new(self.per_task * slots as f64);
        for slot in 0..slots as u32 {
            let home = machine.place_of(layout.group(layout.slot(SlotId(slot)).group).node).unwrap_or(0);
            let mut task = Task::new(Affinity::Slot(SlotId(slot)), TaskStage::default());
            task.stages = self.stages(machine, (home, slots as f64), constants);
            graph.add(task);
        }
        graph
    }

    fn stages(&self, machine: &Machine, (home, units): (usize, f64), constants: &Constants) -> Vec<TaskStage> {
        let everywhere = nodes_with_cpus(machine);
        let missed = self.missed(machine);
        match self.index {
            Index::Shared => vec![self.look(&everywhere, self.per_task, (missed, 0.0), constants)],
            Index::Units { processing, .. } => {
                let mut stages = self.route(&everywhere, self.per_task, units, constants);
                stages.push(self.receive(home, self.per_task, units, constants));
                if processing {
                    stages.push(self.look(&[home], self.per_task, (missed, constants.routed_key_ns()), constants));
                }
                stages
            }
        }
    }

    /// Finds the owners of keys among so many units and sends the keys out.
    pub(super) fn route(&self, everywhere: &[usize], keys: f64, units: f64, constants: &Constants) -> Vec<TaskStage> {
        let Index::Units { commands, .. } = self.index else { return Vec::new() };
        let (heads, sends) = commands.of(keys, self.per_task / units);
        let out = self.sent_bytes(keys, units, constants) * constants.write_factor();
        // Whose key it is: the first keys of all ranges in their order, which every cache holds.
        let halvings = units.max(1.0).log2();
        let own_ns =
            keys * halvings * constants.owner_ns() + heads * constants.command_ns() + sends * constants.send_ns();
        let announced = TaskStage::default().random_over(everywhere, sends * ANNOUNCE_LINES);
        vec![TaskStage::cpu(own_ns).read_over(everywhere, out), announced.waiting(UnderWay::One)]
    }

    /// Takes keys from the own buffer.
    pub(super) fn receive(&self, home: usize, keys: f64, units: f64, constants: &Constants) -> TaskStage {
        TaskStage::cpu(0.0).read(home, self.sent_bytes(keys, units, constants))
    }

    /// Looks keys up in an index on these nodes, with something more to do for each.
    pub(super) fn look(
        &self,
        nodes: &[usize],
        keys: f64,
        (missed, more_ns): (Missed, f64),
        constants: &Constants,
    ) -> TaskStage {
        let held = self.level_bytes().len() as f64 - missed.lines;
        let walked_ns = if missed.tables_held > 0.0 {
            missed.walked_ns + missed.tables_held * constants.llc_ns()
        } else {
            missed.walked_ns
        };
        let cached = held * constants.llc_ns() / constants.lookups_in_flight() + walked_ns;
        let own_ns = match (self.access, self.index) {
            (Access::Lookup, _) => constants.lookup_ns(),
            (Access::Upsert, Index::Shared) => constants.shared_upsert_ns(),
            (Access::Upsert, Index::Units { .. }) => constants.upsert_ns(),
        };
        let look = TaskStage::cpu(keys * (own_ns + cached + more_ns))
            .random_over(nodes, keys * (missed.lines + missed.tables))
            .waiting(UnderWay::Lookups);
        match self.access {
            Access::Lookup => look,
            // Lines that were written go back.
            Access::Upsert => {
                let written = keys * missed.records * LINE_BYTES * (constants.write_factor() - 1.0).max(0.0);
                look.read_over(nodes, written)
            }
        }
    }
}

/// The places of nodes that have cpus.
pub(super) fn nodes_with_cpus(machine: &Machine) -> Vec<usize> {
    (0..machine.node_count()).filter(|node| machine.nodes()[*node].cpus > 0).collect()
}
