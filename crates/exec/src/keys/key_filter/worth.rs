//! [`Worth`]: whether a key filter still leaves out enough rows to be tested.
//!
//! A filter that keeps nearly every row costs its test for nothing. Scans count what a filter was asked and what it
//! kept, and leave it out while it keeps too many; now and then it is tried on one piece again, since tables are often
//! clustered and the next rows may be others. Which pieces are tested depends on which thread comes first; answers do
//! not, as the join tests every key again. Where a row that gets there could be seen otherwise, by an error above all,
//! the filter is tested [`always`](Worth::always).
//!
//! The decision ([`Seen::pays`]) and the memory ([`Seen::after`]) are pure; no clock is asked.
//!
//! # Limits
//! What a row that is let through costs above is not known: the shares below are break-even points for a cheap probe.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rows to be seen before a filter is judged, and how many of those seen earlier count at most beside newer ones.
const ROWS_MIN: u32 = 32 << 10;

/// Of `n` pieces in turn that a filter was left out of, the last one tries it again.
const AGAIN: u32 = 16;

/// The largest share of its rows that a filter may keep, in hundredths.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Most {
    /// Of a test of codes by a kernel: a quarter of a nanosecond per row.
    Codes,
    /// Of a test of values, which have to be decoded and hashed.
    Values,
}

impl Most {
    fn hundredths(self) -> u64 {
        match self {
            Most::Codes => 90,
            Most::Values => 75,
        }
    }
}

/// Rows that a filter was lately asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) tested: u32,
    pub(super) kept: u32,
}

impl Seen {
    /// With more rows seen; earlier ones fade.
    pub(super) fn after(self, tested: u32, kept: u32) -> Seen {
        let Seen { tested: mut before, kept: mut kept_before } = self;
        while before > ROWS_MIN {
            (before, kept_before) = (before / 2, kept_before / 2);
        }
        Seen { tested: before.saturating_add(tested), kept: kept_before.saturating_add(kept) }
    }

    /// Should the next piece be tested, where `n` before it were not?
    pub(super) fn pays(self, left_out: u32, most: Most) -> bool {
        let judged = self.tested >= ROWS_MIN;
        let keeps_most = u64::from(self.kept) * 100 > u64::from(self.tested) * most.hundredths();
        !(judged && keeps_most) || left_out % AGAIN == AGAIN - 1
    }
}

/// What is known of a filter's use in one scan; all its workers share it.
#[derive(Debug)]
pub(crate) struct Worth {
    /// A [`Seen`]: tested above, kept below.
    seen: AtomicU64,
    /// Pieces that it was left out of.
    left_out: AtomicU32,
    /// `None`: it is tested whatever it keeps.
    most: Option<Most>,
}

impl Worth {
    /// Nothing is known.
    pub(crate) fn new(most: Most) -> Worth {
        Worth { seen: AtomicU64::new(0), left_out: AtomicU32::new(0), most: Some(most) }
    }

    /// Of a filter that is never left out.
    pub(crate) fn always() -> Worth {
        Worth { most: None, ..Worth::new(Most::Codes) }
    }

    /// Should the next piece be tested? Counted if not.
    pub(crate) fn pays(&self) -> bool {
        let Some(most) = self.most else { return true };
        let seen = unpacked(self.seen.load(Ordering::Relaxed));
        // Asked once more without an effect on the count while it pays anyway.
        seen.pays(0, most) || seen.pays(self.left_out.fetch_add(1, Ordering::Relaxed), most)
    }

    /// Notes what a test gave.
    pub(crate) fn note(&self, tested: usize, kept: usize) {
        if self.most.is_none() {
            return;
        }
        let rows = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
        // Two workers at a time may each see the other's count or not: either is a fair judgement.
        let seen = unpacked(self.seen.load(Ordering::Relaxed)).after(rows(tested), rows(kept));
        self.seen.store(u64::from(seen.tested) << 32 | u64::from(seen.kept), Ordering::Relaxed);
    }
}

fn unpacked(word: u64) -> Seen {
    Seen { tested: (word >> 32) as u32, kept: word as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of `pieces` pieces of `rows` rows are tested, where `kept` says how many rows of each pass.
    fn tested(most: Most, pieces: usize, rows: usize, kept: impl Fn(usize) -> usize) -> Vec<usize> {
        let worth = Worth::new(most);
        let test = |piece: &usize| {
            let pays = worth.pays();
            if pays {
                worth.note(rows, kept(*piece));
            }
            pays
        };
        (0..pieces).filter(test).collect()
    }

    #[test]
    fn a_filter_that_pays_is_always_tested() {
        for most in [Most::Codes, Most::Values] {
            for rows in [1, 2048, 65_536] {
                assert_eq!(tested(most, 300, rows, |_| rows / 2).len(), 300);
                assert_eq!(tested(most, 300, rows, |_| 0).len(), 300);
            }
        }
    }

    #[test]
    fn a_filter_that_must_be_tested_always_is() {
        let worth = Worth::always();
        for _ in 0..100 {
            assert!(worth.pays());
            worth.note(65_536, 65_536);
        }
    }

    #[test]
    fn a_filter_that_keeps_all_is_tried_now_and_then() {
        let tries = tested(Most::Values, 100, 65_536, |_| 65_536);
        assert_eq!(tries, [0, 16, 32, 48, 64, 80, 96]);
        // Of small pieces as many are seen before it is judged as have that many rows.
        let tries = tested(Most::Values, 100, 2048, |_| 2048);
        assert_eq!(tries[..17], (0..16).chain([31]).collect::<Vec<_>>()[..]);
    }

    #[test]
    fn the_shares_decide() {
        let share = |most, hundredths: usize| tested(most, 160, 65_536, |_| 65_536 * hundredths / 100).len() == 160;
        assert!(share(Most::Values, 74) && !share(Most::Values, 76));
        assert!(share(Most::Codes, 89) && !share(Most::Codes, 91));
    }

    #[test]
    fn where_other_rows_begin_it_is_tested_again() {
        // The first half of the table has the keys, the other has none; and the other way around.
        let tries = tested(Most::Values, 200, 65_536, |piece| if piece < 100 { 65_536 } else { 0 });
        assert!(tries.iter().filter(|&&piece| piece < 100).count() <= 7);
        assert!(tries.iter().filter(|&&piece| piece >= 100).count() >= 100 - AGAIN as usize);
        let tries = tested(Most::Values, 200, 65_536, |piece| if piece < 100 { 0 } else { 65_536 });
        assert_eq!(tries.iter().filter(|&&piece| piece < 100).count(), 100);
        assert!(tries.iter().filter(|&&piece| piece >= 100).count() <= 8);
    }

    #[test]
    fn counts_neither_overflow_nor_mix() {
        let mut seen = Seen::default();
        for _ in 0..100 {
            seen = seen.after(u32::MAX, u32::MAX);
            assert!(seen.kept <= seen.tested);
        }
        let worth = Worth::new(Most::Codes);
        worth.note(usize::MAX, 3);
        assert_eq!(unpacked(worth.seen.load(Ordering::Relaxed)), Seen { tested: u32::MAX, kept: 3 });
    }
}
