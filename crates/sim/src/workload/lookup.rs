//! Look-ups and upserts of keys in an index: one that all cpus share, or the units' own.
//!
//! The index is a prefix tree of eight bits per level over dense keys, with a record of 16 bytes per key: 24 GB for a
//! billion keys (the paper: about 25). A look-up follows a line per level and one of the record; the last-level cache
//! of a node holds the upper levels first. Shared, it is interleaved over all nodes, and every node's cache holds the
//! same levels; with units a node's cache holds those of its own part.
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
//! in the long run; there is no warming up. The paper prints neither how many keys a round has nor how many a command:
//! those of the product are assumed.
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
}

/// Lines that a look-up misses in all caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Missed {
    /// Of all levels.
    lines: f64,
    /// Of the records.
    records: f64,
}

impl Lookups {
    /// Look-ups in an index of `n` keys, in rounds of [`ROUND_KEYS`].
    pub fn new(keys: f64, index: Index) -> Lookups {
        Lookups { keys, index, access: Access::Lookup, per_task: ROUND_KEYS }
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
        let nodes = machine.node_count() as f64;
        let part = if self.index == Index::Shared { 1.0 } else { 1.0 / nodes };
        self.hits_of(machine, part)
    }

    /// As [`Self::hits`], of a node whose cpus access this part of all keys and nothing else.
    fn hits_of(&self, machine: &Machine, part: f64) -> Vec<f64> {
        let nodes = machine.node_count() as f64;
        let cache = machine.nodes().iter().map(|node| node.llc_bytes as f64).sum::<f64>() / nodes;
        let mut left = cache;
        let hit = |bytes: f64| {
            let bytes = bytes * part;
            let held = left.min(bytes);
            left -= held;
            if bytes > 0.0 { held / bytes } else { 1.0 }
        };
        let mut hits: Vec<f64> = self.level_bytes().into_iter().map(hit).collect();
        if let Some(records) = hits.last_mut()
            && (self.index, self.access) == (Index::Shared, Access::Upsert)
        {
            // Whoever wrote a record last has it in its cache alone: of all nodes' writes, this node's share.
            *records /= nodes;
        }
        hits
    }

    /// What a node misses whose cpus access this part of all keys and nothing else.
    pub(super) fn missed_of(&self, machine: &Machine, part: f64) -> Missed {
        let hits = self.hits_of(machine, part);
        Missed { lines: hits.iter().map(|hit| 1.0 - hit).sum(), records: hits.last().map_or(0.0, |hit| 1.0 - hit) }
    }

    fn missed(&self, machine: &Machine) -> Missed {
        let part = if self.index == Index::Shared { 1.0 } else { 1.0 / machine.node_count() as f64 };
        self.missed_of(machine, part)
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

    /// Lines that a look-up misses in all caches.
    pub fn misses(&self, machine: &Machine) -> f64 {
        self.hits(machine).iter().map(|hit| 1.0 - hit).sum()
    }

    /// Of the accesses to the last-level cache (the root is nearer), the share that misses.
    pub fn miss_ratio(&self, machine: &Machine) -> f64 {
        let accesses = self.level_bytes().len().saturating_sub(1).max(1) as f64;
        self.misses(machine) / accesses
    }

    /// Of the hits in the last-level cache, the share on lines that another node's cache holds too.
    pub fn shared_hits(&self, machine: &Machine) -> f64 {
        if self.index != Index::Shared {
            return 0.0;
        }
        let others = machine.node_count() as i32 - 1;
        let hits = self.hits(machine);
        // The root stays in nearer caches.
        let hits = hits.get(1..).unwrap_or_default();
        let all: f64 = hits.iter().sum();
        let shared: f64 = hits.iter().map(|hit| hit * (1.0 - (1.0 - hit).powi(others))).sum();
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
        let cached = held * constants.llc_ns() / constants.lookups_in_flight();
        let own_ns = match (self.access, self.index) {
            (Access::Lookup, _) => constants.lookup_ns(),
            (Access::Upsert, Index::Shared) => constants.shared_upsert_ns(),
            (Access::Upsert, Index::Units { .. }) => constants.upsert_ns(),
        };
        let look = TaskStage::cpu(keys * (own_ns + cached + more_ns))
            .random_over(nodes, keys * missed.lines)
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
