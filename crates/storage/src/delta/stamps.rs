//! When each row of a log came to be, and when it died, by the version that committed it.
//!
//! A row that nobody has committed is *unborn*: no reader sees it. One that a running statement lets die is *claimed*:
//! readers see it as if it were not (README.md beside this file has all states).
//! What a stamp says once it names a version never changes, so whoever reads as of a version needs no latch.
//!
//! The vector grows by blocks, each twice as long as all before it, so that rows that are there never move.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use numa::{Budget, MemoryError, Reservation};

/// Rows of the first block.
const FIRST_ROWS: u64 = 1024;
/// Blocks: rows of a log are counted in 32 bits.
const BLOCKS: usize = 23;

/// What a row's death is while nothing lets it die: also what memory is when it is new.
const NEVER: u64 = 0;
/// What it is while a running statement has it. No version, but a reader of whatever is newest may ask for it.
const CLAIMED: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Stamp {
    /// 0 until the row is committed.
    born: AtomicU64,
    died: AtomicU64,
}

#[derive(Debug)]
struct Block {
    stamps: Box<[Stamp]>,
    charge: Reservation,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    blocks: [OnceLock<Block>; BLOCKS],
}

/// Which block a row's stamp is in, and where there.
fn place_of(row: u32) -> (usize, usize) {
    let place = u64::from(row) + FIRST_ROWS;
    let block = place.ilog2() - FIRST_ROWS.ilog2();
    (block as usize, (place - (FIRST_ROWS << block)) as usize)
}

impl Stamps {
    /// Makes room for `rows` rows.
    ///
    /// # Errors
    /// The budget is full; then there is room for as many as before.
    pub(super) fn reserve(&self, rows: u32, budget: &Arc<Budget>) -> Result<(), MemoryError> {
        let Some(last) = rows.checked_sub(1) else { return Ok(()) };
        for block in 0..=place_of(last).0 {
            if self.blocks[block].get().is_none() {
                let rows = (FIRST_ROWS << block) as usize;
                let charge = budget.reserve((rows * size_of::<Stamp>()) as u64)?;
                let stamps = (0..rows).map(|_| Stamp::default()).collect();
                // Who makes room holds the log's lock.
                let _ = self.blocks[block].set(Block { stamps, charge });
            }
        }
        Ok(())
    }

    /// Bytes charged.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map_while(OnceLock::get).map(|block| block.charge.bytes()).sum()
    }

    fn stamp(&self, row: u32) -> &Stamp {
        let (block, place) = place_of(row);
        &self.blocks[block].get().expect("there is room for the rows of the log").stamps[place]
    }

    /// Whether a reader of `version` sees the row.
    pub(super) fn is_seen(&self, row: u32, version: u64) -> bool {
        let stamp = self.stamp(row);
        stamp.is_born(version) && !stamp.is_dead(version)
    }

    /// Whether the row was committed by a version, dead by then or not.
    pub(super) fn is_born(&self, row: u32, version: u64) -> bool {
        self.stamp(row).is_born(version)
    }

    /// Those of some rows that a reader of `version` does not see, counted from the first, and whether all were born.
    pub(super) fn unseen(&self, rows: Range<u32>, version: u64) -> (Vec<u32>, bool) {
        let mut unseen = Vec::new();
        let mut are_born = true;
        for row in rows.clone() {
            let stamp = self.stamp(row);
            let is_born = stamp.is_born(version);
            are_born &= is_born;
            if !is_born || stamp.is_dead(version) {
                unseen.push(row - rows.start);
            }
        }
        (unseen, are_born)
    }

    /// The version that let a committed row die, if one has.
    pub(super) fn died(&self, row: u32) -> Option<u64> {
        let died = self.stamp(row).died.load(Ordering::Acquire);
        (died != NEVER && died != CLAIMED).then_some(died)
    }

    /// Claims a row that lives; whether it did and nobody else has claimed it.
    pub(super) fn claim(&self, row: u32) -> bool {
        let stamp = self.stamp(row);
        stamp.born.load(Ordering::Acquire) != 0
            && stamp.died.compare_exchange(NEVER, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives a claimed row back.
    pub(super) fn release(&self, row: u32) {
        self.stamp(row).died.store(NEVER, Ordering::Release);
    }

    /// A row is committed by a version that nobody reads yet.
    pub(super) fn bear(&self, row: u32, version: u64) {
        self.stamp(row).born.store(version, Ordering::Release);
    }

    /// A claimed row dies with a version that nobody reads yet.
    pub(super) fn kill(&self, row: u32, version: u64) {
        self.stamp(row).died.store(version, Ordering::Release);
    }
}

impl Stamp {
    fn is_born(&self, version: u64) -> bool {
        let born = self.born.load(Ordering::Acquire);
        born != 0 && born <= version
    }

    fn is_dead(&self, version: u64) -> bool {
        let died = self.died.load(Ordering::Acquire);
        died != NEVER && died != CLAIMED && died <= version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_places_of_their_own() {
        let mut next = (0, 0);
        for row in 0..100_000 {
            assert_eq!(place_of(row), next);
            next.1 += 1;
            if next.1 == (FIRST_ROWS << next.0) as usize {
                next = (next.0 + 1, 0);
            }
        }
        let (block, place) = place_of(u32::MAX - 1);
        assert!(block < BLOCKS && place < (FIRST_ROWS << block) as usize);
    }

    #[test]
    fn a_row_is_seen_from_its_birth_until_its_death() {
        let budget = Budget::new("test", 3 * FIRST_ROWS * size_of::<Stamp>() as u64);
        let stamps = Stamps::default();
        stamps.reserve(1030, &budget).unwrap();
        assert!(stamps.reserve(4000, &budget).is_err());
        let seen = |row: u32| (1..=9).filter(|version| stamps.is_seen(row, *version)).collect::<Vec<u64>>();
        assert!(seen(1029).is_empty() && !stamps.claim(1029));
        stamps.bear(1029, 3);
        assert_eq!(seen(1029), [3, 4, 5, 6, 7, 8, 9]);
        assert!(stamps.claim(1029) && !stamps.claim(1029));
        assert_eq!((seen(1029).len(), stamps.died(1029)), (7, None));
        stamps.release(1029);
        assert!(stamps.claim(1029));
        stamps.kill(1029, 7);
        assert_eq!((seen(1029), stamps.died(1029)), (vec![3, 4, 5, 6], Some(7)));
        assert!(!stamps.claim(1029));
        assert_eq!(stamps.unseen(1028..1030, 4), (vec![0], false));
        assert_eq!(stamps.unseen(1029..1030, 4), (vec![], true));
        assert_eq!(stamps.unseen(1029..1030, 7), (vec![0], true));
        assert_eq!(budget.used_bytes(), stamps.bytes());
        drop(stamps);
        assert_eq!(budget.used_bytes(), 0);
    }
}
