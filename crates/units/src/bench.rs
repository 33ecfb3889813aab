//! Keyed reads and writes of batches, measured: the same four phases on anything that is an ordered map.
//!
//! Invariants: every look-up's value and every range's length is checked; each thread has keys of its own in each
//! phase, drawn over all; what is measured against something else runs the same code around it.
//!
//! Source: Kissinger et al., ADMS 2014, section 4.1 (insert random keys, then read them).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use numa::Budget;
use random::mixed;
use sched::{Affinity, Scheduler, SlotId, Statement};

use crate::request::WriteKind;
use crate::store::Keyed;
use crate::tree::SharedTree;

pub mod joins;
pub mod routing;
pub mod shifting;
pub mod transfers;

/// Pairs that a range scan reads.
pub const RANGE_PAIRS: usize = 100;

/// An ordered map under test.
pub trait OrderedMap: Sync {
    /// What it is called.
    fn name(&self) -> &str;
    /// Sets the values of a batch.
    fn write(&self, pairs: &[(u64, u64)]);
    /// Tells the value of each key of a batch, in any order.
    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>));
    /// Counts pairs from a key on, at most `RANGE_PAIRS`; `None` where it cannot begin at a key without walking to it.
    fn range(&self, first: u64) -> Option<usize>;
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Keys, all different.
    pub keys: u64,
    /// Keys of a batch.
    pub batch: usize,
    /// Whether keys are `0 .. keys` in a mixed order, or any 64 bits.
    pub dense: bool,
    /// What keys are made from.
    pub seed: u64,
}

/// What is done to a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Every key is written for the first time.
    Insert,
    /// A quarter as many are written again, at random.
    Upsert,
    /// As many as there are, at most 20 million, are read at random.
    Lookup,
    /// Ranges of [`RANGE_PAIRS`] pairs, a hundredth of that.
    Range,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Insert => "insert",
            Phase::Upsert => "upsert",
            Phase::Lookup => "look-up",
            Phase::Range => "range",
        })
    }
}

/// All phases, in their order.
pub const PHASES: [Phase; 4] = [Phase::Insert, Phase::Upsert, Phase::Lookup, Phase::Range];

impl Plan {
    /// The `i`th key.
    pub fn key(&self, i: u64) -> u64 {
        if !self.dense {
            return mixed(self.seed ^ i);
        }
        // An odd step near the golden section, coprime to a power of two, walked over the next one: numbers beyond
        // the last key are walked past.
        let mask = self.keys.next_power_of_two() - 1;
        let mut at = i;
        loop {
            at = at.wrapping_mul(0x9E37_79B9_7F4A_7C15 | 1).wrapping_add(self.seed) & mask;
            at ^= at >> (64 - mask.leading_zeros()).div_ceil(2);
            if at < self.keys {
                return at;
            }
        }
    }

    /// The greatest key there may be.
    pub fn last_key(&self) -> u64 {
        if self.dense { self.keys - 1 } else { u64::MAX }
    }

    /// How often a phase does what it does.
    pub fn operations(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Insert => self.keys,
            Phase::Upsert => self.keys.div_ceil(4),
            Phase::Lookup => self.keys.min(20_000_000),
            Phase::Range => self.keys.min(20_000_000).div_ceil(100),
        }
    }
}

/// The value of a key, whenever it was written.
fn value_of(key: u64) -> u64 {
    key.rotate_left(17) ^ 0x5555
}

/// Runs one phase on the workers of a scheduler, one caller per slot: operations per second.
///
/// # Errors
/// The map answered wrongly, or could not do what it was asked; the text says so.
pub fn measure(scheduler: &Scheduler, map: &dyn OrderedMap, plan: Plan, phase: Phase) -> Result<f64, String> {
    let threads = scheduler.threads();
    let operations = plan.operations(phase);
    let batches = operations.div_ceil(plan.batch as u64);
    let next = AtomicU64::new(0);
    let statement = Statement::new(1, Budget::unlimited());
    let begin = Instant::now();
    let body = |_: usize| {
        let mut keys = Vec::new();
        let mut pairs = Vec::new();
        loop {
            let batch = next.fetch_add(1, Ordering::Relaxed);
            if batch >= batches {
                return;
            }
            let first = batch * plan.batch as u64;
            let numbers = first..operations.min(first + plan.batch as u64);
            keys.clear();
            keys.extend(numbers.map(|number| match phase {
                Phase::Insert => plan.key(number),
                _ => plan.key(mixed(number ^ plan.seed << 8 ^ phase as u64) % plan.keys),
            }));
            run_batch(map, plan, phase, &keys, &mut pairs);
        }
    };
    let affinity = |slot: usize| Affinity::Slot(SlotId(slot as u32));
    scheduler.parallel_for(&statement, threads, &affinity, &body).map_err(|error| error.to_string())?;
    Ok(operations as f64 / begin.elapsed().as_secs_f64())
}

fn run_batch(map: &dyn OrderedMap, plan: Plan, phase: Phase, keys: &[u64], pairs: &mut Vec<(u64, u64)>) {
    match phase {
        Phase::Insert | Phase::Upsert => {
            pairs.clear();
            pairs.extend(keys.iter().map(|key| (*key, value_of(*key))));
            map.write(pairs);
        }
        Phase::Lookup => {
            let mut right = 0;
            map.read(keys, &mut |place, value| right += usize::from(value == Some(value_of(keys[place]))));
            assert_eq!(right, keys.len(), "values that were written are read");
        }
        Phase::Range => {
            for key in keys {
                let Some(count) = map.range(*key) else { return };
                assert!(count >= 1 && (!plan.dense || count as u64 == (plan.keys - key).min(RANGE_PAIRS as u64)));
            }
        }
    }
}

impl OrderedMap for Keyed {
    fn name(&self) -> &str {
        "units"
    }

    fn write(&self, pairs: &[(u64, u64)]) {
        if let Err(error) = Keyed::write(self, WriteKind::Upsert, pairs) {
            panic!("{error}");
        }
    }

    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>)) {
        self.lookup(keys, &self.store().pin(), found);
    }

    fn range(&self, first: u64) -> Option<usize> {
        let mut count = 0;
        Keyed::range(self, first, u64::MAX, &self.store().pin(), |_, _| {
            count += 1;
            count < RANGE_PAIRS
        });
        Some(count)
    }
}

impl OrderedMap for SharedTree {
    fn name(&self) -> &str {
        "shared index"
    }

    fn write(&self, pairs: &[(u64, u64)]) {
        if let Err(error) = SharedTree::write(self, pairs) {
            panic!("{error}");
        }
    }

    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>)) {
        self.lookup(keys, found);
    }

    fn range(&self, first: u64) -> Option<usize> {
        let mut count = 0;
        SharedTree::range(self, first, u64::MAX, |_, _| {
            count += 1;
            count < RANGE_PAIRS
        });
        Some(count)
    }
}
