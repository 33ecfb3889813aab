//! [`Bloom`]: which of many far-apart keys a join has, in twelve bits for each, with a few false alarms.
//!
//! A key owns four bits of *one* 64-bit word, so a test is one load, one AND and one comparison, without a branch. The
//! number of keys is known before the first one is put in, so the size is exact and nothing ever grows. There is never
//! a false *no*; about one key in a hundred that is not there gets a *yes*, which the join that made the filter finds
//! out.
//!
//! # Limits
//! Integers only. Keys that come twice count twice towards the size.
//!
//! Source: Bloom, CACM 1970; one word per key as in Putze, Sanders, Singler, WEA 2007, section 3, and Lang et al., VLDB
//! 2019 ("register-blocked").

use std::sync::atomic::{AtomicU64, Ordering};

use numa::Reservation;

use crate::ExecError;
use crate::chunk::vector::Vector;
use crate::tasks::run::Run;

/// Bits of memory per key.
const BITS_PER_KEY: u64 = 12;

/// Bits that a key owns in its word, each chosen by `n` bits of its hash.
const BITS_SET: u32 = 4;
const CHOICE_BITS: u32 = 6;
const _: () = assert!(1 << CHOICE_BITS == u64::BITS && BITS_SET * CHOICE_BITS <= 32, "the upper half chooses the word");

/// With more keys nothing is made: the filter would miss the caches as often as the join's own table does.
const KEYS_MAX: usize = 32 << 20;

/// Keys that one task puts in.
const PIECE_KEYS: usize = 64 << 10;

/// A set of integers; a superset of those put in.
#[derive(Debug)]
pub(crate) struct Bloom {
    words: Vec<u64>,
    _charged: Reservation,
}

impl Bloom {
    /// The valid values of an integer column; `None` where they are too many, or the statement's budget has no room for
    /// a mere help.
    ///
    /// # Errors
    /// The statement is to stop.
    pub(super) fn of(vector: &Vector, run: &Run<'_>) -> Result<Option<Bloom>, ExecError> {
        let values = vector.as_ints();
        if values.len() > KEYS_MAX {
            return Ok(None);
        }
        let count = words_for(values.len());
        let Some(charged) = run.reserve_help(8 * count as u64) else { return Ok(None) };
        let words: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        run.for_each(values.len().div_ceil(PIECE_KEYS), &|_| None, &|piece| {
            let start = piece * PIECE_KEYS;
            let keys = &values[start..(start + PIECE_KEYS).min(values.len())];
            for (row, &key) in (start..).zip(keys) {
                let (place, bits) = place(key, count);
                if vector.is_valid(row) && words[place].load(Ordering::Relaxed) & bits != bits {
                    words[place].fetch_or(bits, Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        Ok(Some(Bloom { words: words.into_iter().map(AtomicU64::into_inner).collect(), _charged: charged }))
    }

    /// May it have been put in?
    #[inline]
    pub(super) fn may_have(&self, key: i64) -> bool {
        let (place, bits) = place(key, self.words.len());
        self.words[place] & bits == bits
    }

    /// Bytes of its words.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        8 * self.words.len()
    }
}

/// Words for `n` keys, at least one.
fn words_for(keys: usize) -> usize {
    (keys as u64 * BITS_PER_KEY).div_ceil(64).max(1) as usize
}

/// The word of a key and its bits there.
#[inline]
fn place(key: i64, words: usize) -> (usize, u64) {
    let hash = mixed(key as u64);
    let bits = (0..BITS_SET).fold(0, |bits, i| bits | (1 << (hash >> (i * CHOICE_BITS) & 63)));
    // The upper half as a fraction of the words: no division, and any number of words will do.
    ((((hash >> 32) * words as u64) >> 32) as usize, bits)
}

/// A hash all bits of which depend on all bits of the key, also where keys are multiples of a power of two. Tables get
/// along with a weaker one ([`keys::hash`](crate::keys::hash)): by that one more keys of others pass than there should,
/// since bits here are chosen by several parts of the hash.
#[inline]
fn mixed(key: u64) -> u64 {
    let once = (key ^ (key >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let twice = (once ^ (once >> 32)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    twice ^ (twice >> 32)
}
