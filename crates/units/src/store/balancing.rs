//! Balancing: cycles that look at what was accessed of an object, decide, and move ranges from unit to unit while
//! statements run.
//!
//! `routing/README.md` is the protocol of a transfer. Each object is balanced by itself, one cycle at a time.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.3. There, units stop for a cycle and change their tables together;
//! here each range moves by itself, under the tokens of the two units, and everybody else goes on.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use numa::{MemoryError, NodeId};

use super::{Keyed, Object, Store};
use crate::balancer::{Accesses, Algorithm, PIECE_PAIRS, SAMPLES_PER_UNIT, Transfer, decision, transfers};
use crate::request::{ObjectId, text_of};
use crate::routing::table::RangeTable;
use crate::tree::{Handover, Taken};
use crate::unit::{Partition, UnitState, UnitToken};

/// Cycles that are remembered.
const CYCLES_KEPT: usize = 64;

/// Why a cycle ended early. What it had moved until then stays moved; the transfer that failed changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum BalanceError {
    /// No memory where a range was to go.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Cycles that failed have left more ranges than there are places for.
    #[error("the object is in {ranges} ranges, for which its routing table has no place; let a cycle end well")]
    TooManyRanges {
        /// Ranges that there would be.
        ranges: usize,
    },
    /// A fault of ours.
    #[error("a transfer failed: {0}")]
    Panicked(String),
}

/// What a cycle did.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// When it began.
    pub at: SystemTime,
    /// Of which object; the number may be another one's by now.
    pub object: ObjectId,
    /// What the object was called when it was made, part by part.
    pub name: Arc<[String]>,
    /// How targets were computed.
    pub algorithm: Algorithm,
    /// The standard deviation of accesses over their mean beforehand; `None` where too few were seen to say.
    pub deviation: Option<f64>,
    /// What moved, in order.
    pub moved: Vec<Moved>,
    /// How long it took.
    pub took: Duration,
    /// Why it ended early, if it did.
    pub failure: Option<String>,
}

/// A range that changed its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// From where, where to, and which keys.
    pub transfer: Transfer,
    /// Whether subtrees were linked, within a node; else all was copied.
    pub linked: bool,
    /// How many pairs.
    pub pairs: u64,
}

impl Cycle {
    /// Pairs that moved.
    pub fn pairs(&self) -> u64 {
        self.moved.iter().map(|moved| moved.pairs).sum()
    }
}

/// What a unit has of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionCounts {
    /// The object.
    pub object: ObjectId,
    /// The unit.
    pub unit: usize,
    /// The unit's node.
    pub node: Option<NodeId>,
    /// Ranges of keys that it owns: one, but for a cycle that is on its way or has failed.
    pub ranges: usize,
    /// The first key of the first of them, if there is one.
    pub first_key: Option<u64>,
    /// The last key of the last of them.
    pub last_key: Option<u64>,
    /// Pairs in it, those of statements that have not committed included.
    pub pairs: u64,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// About how many accesses there were.
    pub accesses: u64,
    /// The mean time of a key in a batch, if any was timed.
    pub time_per_key: Option<Duration>,
}

/// Which unit has which keys of an object, as commands are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The table's number: 0 is the first, each range that moved made another.
    pub version: u64,
    /// Copies of the table that senders read.
    pub replicas: usize,
    /// Its ranges, in the order of keys; together they are all keys.
    pub ranges: Vec<RoutedRange>,
}

/// A range of keys and who owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutedRange {
    /// Its first key.
    pub first: u64,
    /// Its last key.
    pub last: u64,
    /// The unit.
    pub unit: usize,
    /// The unit's node.
    pub node: Option<NodeId>,
}

/// What cycles of an object share.
#[derive(Debug)]
pub(super) struct Balancing {
    /// The table that is published.
    pub(super) table: RangeTable,
    /// Its partitions are gone, and its number may be another object's.
    pub(super) is_dropped: bool,
}

/// The last cycles of a store.
#[derive(Default)]
pub(super) struct Cycles(VecDeque<Cycle>);

impl fmt::Debug for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cycles", self.0.len())
    }
}

impl Keyed {
    /// One cycle: where units differ in what is accessed, ranges move as the algorithm says. Statements run meanwhile;
    /// readers see what they saw.
    ///
    /// # Errors
    /// [`BalanceError`]; the object is whole and its routing is right all the same.
    pub fn balance(&self, algorithm: Algorithm) -> Result<Cycle, BalanceError> {
        let (cycle, error) = self.store.cycle(&self.object, algorithm);
        error.map_or(Ok(cycle), Err)
    }

    /// Moves one range to a unit, whatever the accesses are.
    ///
    /// # Errors
    /// As [`balance`](Self::balance).
    pub fn move_range(&self, first: u64, last: u64, unit: usize) -> Result<Vec<Moved>, BalanceError> {
        assert!(unit < self.object.trees.len() && first <= last, "a range goes to a unit of its object");
        let mut balancing = self.object.balancing.lock();
        let after = balancing.table.moved(first, last, unit);
        let mut moved = Vec::new();
        self.store.move_all(&self.object, &mut balancing.table, &after, &mut moved)?;
        Ok(moved)
    }

    /// What each unit has of it.
    pub fn partitions(&self) -> Vec<PartitionCounts> {
        self.store.partitions_of(&self.object)
    }

    /// Its number, which no other object has while it is there.
    pub fn id(&self) -> ObjectId {
        self.object.id
    }

    /// Its routing table, as it is read by who sends commands.
    pub fn routing(&self) -> Routing {
        let mut parts = Vec::new();
        let ((), version) = self.object.routing.read(|view| view.parts(0, u64::MAX, &mut parts));
        let range = |(first, last, unit): (u64, u64, usize)| RoutedRange {
            first,
            last,
            unit,
            node: self.store.units[unit].node,
        };
        Routing {
            version,
            replicas: self.object.routing.replicas().len(),
            ranges: parts.into_iter().map(range).collect(),
        }
    }
}

impl Store {
    /// Sets how cycles balance that [`balance`](Self::balance) runs, and those that begin by themselves
    /// ([`balance_on`](Self::balance_on)). What was accessed while nothing was balanced does not count.
    pub fn set_balancer(&self, algorithm: Algorithm) {
        let before = self.balancer.replace(algorithm);
        if before == Algorithm::Off && algorithm != Algorithm::Off {
            for object in self.living() {
                let _one = object.balancing.lock();
                object.bell.forget();
                object.monitors.iter().for_each(|monitor| monitor.forget());
            }
        }
    }

    /// How they balance; [`Algorithm::Off`] unless set.
    pub fn balancer(&self) -> Algorithm {
        self.balancer.get()
    }

    /// A cycle of each object, as was set; to be called from time to time. Gives those that moved something or failed.
    pub fn balance(&self) -> Vec<Cycle> {
        let algorithm = self.balancer();
        let objects = if algorithm == Algorithm::Off { Vec::new() } else { self.living() };
        let cycles = objects.iter().map(|object| self.cycle(object, algorithm).0);
        cycles.filter(|cycle| !cycle.moved.is_empty() || cycle.failure.is_some()).collect()
    }

    /// The last cycles that moved something or failed, the oldest first.
    pub fn balancing(&self) -> Vec<Cycle> {
        self.cycles.lock().0.iter().cloned().collect()
    }

    /// What each unit has of each object.
    pub fn partitions(&self) -> Vec<PartitionCounts> {
        self.living().iter().flat_map(|object| self.partitions_of(object)).collect()
    }

    fn living(&self) -> Vec<Arc<Object>> {
        let mut objects = self.living.lock();
        objects.retain(|object| object.strong_count() > 0);
        objects.iter().filter_map(std::sync::Weak::upgrade).collect()
    }

    fn partitions_of(&self, object: &Object) -> Vec<PartitionCounts> {
        let balancing = object.balancing.lock();
        if balancing.is_dropped {
            return Vec::new();
        }
        let table = &balancing.table;
        let counts = |unit: usize| {
            let mut own = (0..table.ranges()).filter(|range| table.owners()[*range] == unit);
            let state = self.token(unit);
            let partition = partition_of(&state, object)?;
            Some(PartitionCounts {
                object: object.id,
                unit,
                node: self.units[unit].node,
                ranges: own.clone().count(),
                first_key: own.clone().next().map(|range| table.firsts()[range]),
                last_key: own.next_back().map(|range| table.last(range)),
                pairs: partition.owner.tree().len(),
                bytes: partition.owner.used_bytes(),
                accesses: object.monitors[unit].accesses(),
                time_per_key: object.monitors[unit].time_per_key(),
            })
        };
        (0..object.trees.len()).filter_map(counts).collect()
    }

    pub(super) fn cycle(&self, object: &Object, algorithm: Algorithm) -> (Cycle, Option<BalanceError>) {
        let begin = Instant::now();
        let at = SystemTime::now();
        let mut balancing = object.balancing.lock();
        let mut moved = Vec::new();
        let is_wanted = algorithm != Algorithm::Off && !balancing.is_dropped;
        let seen = if is_wanted { object.accesses() } else { None };
        let decided = seen.map(|seen| decision(&seen, algorithm));
        let deviation = decided.as_ref().map(|decided| decided.0);
        let after = decided.and_then(|decided| decided.1);
        let error = after.and_then(|after| self.move_all(object, &mut balancing.table, &after, &mut moved).err());
        let failure = error.as_ref().map(ToString::to_string);
        let name = Arc::clone(&object.name);
        let cycle = Cycle { at, object: object.id, name, algorithm, deviation, moved, took: begin.elapsed(), failure };
        if !cycle.moved.is_empty() || cycle.failure.is_some() {
            let mut cycles = self.cycles.lock();
            if cycles.0.len() == CYCLES_KEPT {
                cycles.0.pop_front();
            }
            cycles.0.push_back(cycle.clone());
        }
        (cycle, error)
    }

    /// Moves what has to move for a table to become another, in the order of keys.
    fn move_all(
        &self,
        object: &Object,
        table: &mut RangeTable,
        after: &RangeTable,
        moved: &mut Vec<Moved>,
    ) -> Result<(), BalanceError> {
        for transfer in transfers(table, after) {
            let mut rest = transfer;
            let mut whole = Moved { transfer, linked: true, pairs: 0 };
            loop {
                let piece = self.move_piece(object, table, rest);
                let Some((last, taken)) = piece? else { return Ok(()) };
                whole = Moved { transfer: Transfer { last, ..transfer }, linked: taken.linked, ..whole };
                whole.pairs += taken.pairs;
                if last >= transfer.last {
                    break;
                }
                rest.first = last + 1;
            }
            moved.push(whole);
        }
        Ok(())
    }

    /// Moves a transfer's range, or a piece of it from its first key on: its last key, and what moved. Nothing where
    /// the object is being dropped.
    fn move_piece(
        &self,
        object: &Object,
        table: &mut RangeTable,
        transfer: Transfer,
    ) -> Result<Option<(u64, Taken)>, BalanceError> {
        let Transfer { from, to, first, .. } = transfer;
        let (mut giving, mut taking) = self.tokens(from, to);
        let parts = partition_of_mut(&mut giving, object).zip(partition_of_mut(&mut taking, object));
        let Some((giver, taker)) = parts else { return Ok(None) };
        giver.owner.collect();
        let last = match giver.owner.may_link(&taker.owner) {
            true => transfer.last,
            false => giver.owner.tree().piece_end(first, transfer.last, PIECE_PAIRS),
        };
        let after = table.moved(first, last, to);
        if !object.routing.has_room(&after) {
            return Err(BalanceError::TooManyRanges { ranges: after.ranges() });
        }
        let prepare = AssertUnwindSafe(|| Handover::prepare(&mut giver.owner, &mut taker.owner, (first, last)));
        let handover = match catch_unwind(prepare) {
            Ok(prepared) => prepared?,
            Err(panic) => return Err(BalanceError::Panicked(text_of(&*panic))),
        };
        // Commands of earlier tables may be for what is gone from here on.
        giver.lost_at = object.routing.publish(&after, || handover.switch(&giver.owner, &taker.owner));
        #[cfg(test)]
        self.units[from].journal.1.record(|| crate::journal::Event::Moved { first, last, to });
        let taken = handover.finish(&mut giver.owner, &mut taker.owner);
        *table = after;
        Ok(Some((last, taken)))
    }

    /// The tokens of two units. All who want two take the lesser first, so who waits for one has a lesser one only.
    fn tokens(&self, one: usize, other: usize) -> (UnitToken<'_>, UnitToken<'_>) {
        if one < other {
            let first = self.token(one);
            return (first, self.token(other));
        }
        let first = self.token(other);
        (self.token(one), first)
    }
}

impl Object {
    /// What was accessed since the last cycle, if that is enough to tell.
    fn accesses(&self) -> Option<Vec<Accesses>> {
        let seen: u64 = self.monitors.iter().map(|monitor| monitor.uncounted()).sum();
        let enough = self.monitors.len() > 1 && seen >= SAMPLES_PER_UNIT * self.monitors.len() as u64;
        enough.then(|| self.monitors.iter().map(|monitor| monitor.count()).collect())
    }
}

fn partition_of<'a>(state: &'a UnitState, object: &Object) -> Option<&'a Partition> {
    state.partitions.get(object.id.0 as usize)?.as_ref()
}

fn partition_of_mut<'a>(state: &'a mut UnitState, object: &Object) -> Option<&'a mut Partition> {
    state.partitions.get_mut(object.id.0 as usize)?.as_mut()
}

#[cfg(test)]
mod tests;
