//! How many different values a column has: counted roughly over all rows, and foretold from the first rows. Pure.
//!
//! [`Sketch`] counts what it has seen in 4 KiB, whatever the order and the number of rows (HyperLogLog); [`Seen`] tells
//! from how often values came so far how many there will be after more rows: the share of rows whose value came once
//! says how likely the next value is a fresh one (Good and Turing), and those that came once and twice how many are
//! still to come (Chao).
//!
//! # Limits
//! A sketch is off by 2% as a rule, seldom by 5%. What is foretold holds for rows in no particular order, and for rows
//! in order of their values; a column that changes its nature later can be told by nobody, so it is asked again as more
//! is seen.
//!
//! Sources: Flajolet, Fusy, Gandouet and Meunier, HyperLogLog, AofA 2007; Good, Biometrika 1953; Chao, Scandinavian
//! Journal of Statistics 1984; Shen, Chao and Lin, Ecology 2003, for the number of values after more rows.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;

/// Bits of a hash that choose a register.
const INDEX_BITS: u32 = 12;
const REGISTERS: usize = 1 << INDEX_BITS;
/// The same in every sketch, so that sketches can be put together.
const HASHER: FixedState = FixedState::with_seed(0x6e65_6172);

/// Which values were seen, by their hashes: each register keeps the longest run of zeros.
#[derive(Clone)]
pub(crate) struct Sketch {
    longest: Box<[u8]>,
}

impl Sketch {
    pub(crate) fn new() -> Sketch {
        Sketch { longest: vec![0; REGISTERS].into() }
    }

    /// Notes a value of bytes.
    #[inline]
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.add_hash(HASHER.hash_one(value));
    }

    /// Notes a number.
    #[inline]
    pub(crate) fn add_number(&mut self, value: i128) {
        self.add_hash(HASHER.hash_one(value));
    }

    #[inline]
    fn add_hash(&mut self, hash: u64) {
        let register = &mut self.longest[(hash >> (64 - INDEX_BITS)) as usize];
        // The bit behind the last ends a run of nothing but zeros.
        let run = ((hash << INDEX_BITS) | 1 << (INDEX_BITS - 1)).leading_zeros() as u8 + 1;
        *register = run.max(*register);
    }

    /// Notes all that another sketch has seen.
    pub(crate) fn merge(&mut self, other: &Sketch) {
        for (longest, others) in self.longest.iter_mut().zip(&other.longest) {
            *longest = (*longest).max(*others);
        }
    }

    /// About how many different values were noted.
    pub(crate) fn estimate(&self) -> usize {
        let registers = REGISTERS as f64;
        let sum: f64 = self.longest.iter().map(|longest| (-f64::from(*longest)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        let empty = self.longest.iter().filter(|longest| **longest == 0).count();
        // Few values are better counted by the registers that are still empty.
        let few = raw <= 2.5 * registers && empty > 0;
        if few { (registers * (registers / empty as f64).ln()).round() as usize } else { raw.round() as usize }
    }
}

/// How often the values of a column came so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Rows that are not NULL.
    pub(crate) rows: usize,
    /// Different values among them.
    pub(crate) distinct: usize,
    /// Values that came once.
    pub(crate) once: usize,
    /// Values that came twice.
    pub(crate) twice: usize,
    /// The last few of the rows.
    pub(crate) late_rows: usize,
    /// Values that came first among those.
    pub(crate) late_new: usize,
}

impl Seen {
    /// How many different values there will likely be once there are `rows` rows, at least as many as were seen.
    pub(crate) fn foretold(&self, rows: usize) -> usize {
        let more = rows.saturating_sub(self.rows) as f64;
        if self.rows == 0 || more == 0.0 {
            return self.distinct;
        }
        let once = self.once as f64;
        let twice = self.twice as f64;
        let chance = once / self.rows as f64;
        let late = self.late_new as f64 / self.late_rows.max(1) as f64;
        // In rows without an order fresh values come about as often as values that came once. Where they come twice as
        // often, rows are sorted or come in runs, and values go on coming as they do.
        let fresh = if late > 2.0 * chance + 0.01 {
            late * more
        } else {
            let unseen = once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0));
            let share = if unseen > 0.0 { chance / (unseen + chance) } else { 1.0 };
            unseen * -(more * (-share).ln_1p()).exp_m1()
        };
        self.distinct + fresh.min(more).round() as usize
    }
}

#[cfg(test)]
mod tests;
