//! When scans share passes, and which of them: pure functions of plain numbers.
//!
//! # Limits
//! The constants are those of two cpus that share a last-level cache of 32 MiB; docs/design/exec.md has the figures.

use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::codes::ranges::CodeRanges;

/// Whether scans of one column that run at the same time share their passes over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScanSharing {
    /// Never: each scan reads for itself.
    Off,
    /// Whenever another scan of the column is under way.
    On,
    /// Where enough of them are and the column is larger than a cpu's share of the caches.
    #[default]
    Auto,
}

/// From how many scans of a column on `auto` shares.
const AUTO_SCANS: usize = 4;
/// From how many bytes of codes on `auto` shares: below, the second scan finds the column in the caches.
const AUTO_BYTES: u64 = 4 << 20;
/// From how many scans that each find few rows on these are found together, by the set of all their codes: that test
/// looks into a bitmap and costs as much as about so many tests of ranges.
const TOGETHER_MIN: usize = 6;
/// A scan that finds more than one row in `n` is tested on its own: its rows would be sorted one by one.
pub(super) const FEW_ROWS: f64 = 1.0 / 256.0;
/// A scan of more ranges is tested on its own.
const FEW_RANGES: usize = 16;
/// Scans that are tested on their own in a pass, at most: so much longer whoever leads it takes for the others.
pub(super) const APART_MAX: usize = 16;
/// Rows of a granule that are found together, at most: what is kept of more is a MiB, and sorting them takes longer
/// than reading some granules.
const HITS_MAX: usize = 256 << 10;
/// Rows of a granule that a scan of few rows may have on average, where the granule has hardly any.
const HITS_EACH: usize = 16;
/// Scans of a pass, at most.
const TOGETHER_MAX: usize = 4096;
/// Granules that each scan reads for itself after a pass of which nothing could be kept, for each of its readers: the
/// pass took as long as reading a third of as many granules.
const ALONE_EACH: usize = 4;
/// The same, at least; and granules that nobody looks for readers at after there were none.
pub(super) const ALONE_MIN: usize = 16;
/// How often there may be no room before what nobody took in that time gives way: while that happens, each scan reads
/// some thousand granules for itself.
const STALLED_REFUSALS: usize = 64;
/// Codes of a column of which sets are kept as bitmaps.
const BITMAP_CODES_MAX: u32 = 1 << 26;

impl ScanSharing {
    /// In lower case, as settings have it.
    pub fn name(self) -> &'static str {
        match self {
            ScanSharing::Off => "off",
            ScanSharing::On => "on",
            ScanSharing::Auto => "auto",
        }
    }

    /// Whether a scan of a column of so many bytes takes part at all.
    pub(crate) fn takes_part(self, bytes: u64) -> bool {
        match self {
            ScanSharing::Off => false,
            ScanSharing::On => true,
            ScanSharing::Auto => bytes >= AUTO_BYTES,
        }
    }

    /// Whether scans of a statement are to be attached before they are prepared. Binding them takes time, so on `auto`
    /// it is done only where there are `others` that may read for them; on `on` the scans of a lone statement share.
    pub(super) fn attaches_early(self, others: impl FnOnce() -> bool) -> bool {
        match self {
            ScanSharing::Off => false,
            ScanSharing::On => true,
            ScanSharing::Auto => others(),
        }
    }

    /// Whether a scan that takes part reads for others too, where `scans` of the column are under way, itself one of
    /// them.
    pub(super) fn shares(self, scans: usize) -> bool {
        match self {
            ScanSharing::Off => false,
            ScanSharing::On => scans >= 2,
            ScanSharing::Auto => scans >= AUTO_SCANS,
        }
    }
}

impl FromStr for ScanSharing {
    type Err = ();

    fn from_str(text: &str) -> Result<ScanSharing, ()> {
        let all = [ScanSharing::Off, ScanSharing::On, ScanSharing::Auto];
        all.into_iter().find(|known| text.trim().eq_ignore_ascii_case(known.name())).ok_or(())
    }
}

/// Whether a statement may work for others at `now`: it has at least as much time left as has passed, if it has a
/// deadline. So others never make it late that would have ended in a small part of its time.
pub(super) fn may_lead(began: Instant, now: Instant, deadline: Option<Instant>) -> bool {
    let Some(deadline) = deadline else { return true };
    let passed: Duration = now.saturating_duration_since(began);
    deadline.saturating_duration_since(now) >= passed
}

/// Whether a scan of these codes is worth attaching before anybody knows whether its rows will be wanted: it is found
/// together with others, at next to no cost.
pub(crate) fn is_found_soon(set: &CodeRanges) -> bool {
    is_few(set.ranges().len(), set.fraction())
}

fn is_few(ranges: usize, fraction: f64) -> bool {
    ranges <= FEW_RANGES && fraction <= FEW_ROWS
}

/// Rows of a granule of `rows` rows that `scans` scans of few rows may have between them: twice what is expected at
/// most. Where there are more, testing one scan after the other takes less time.
pub(super) fn hits_max(scans: usize, rows: usize) -> usize {
    let each = (2.0 * FEW_ROWS * rows as f64) as usize;
    scans.saturating_mul(each.max(HITS_EACH)).min(HITS_MAX)
}

/// Granules that each scan reads for itself after a pass for so many readers of which nothing could be kept.
pub(super) fn alone_after(readers: usize) -> usize {
    ALONE_MIN.max(readers.saturating_mul(ALONE_EACH))
}

/// Whether what is kept for the oldest readers is still being taken.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// The readers' stamp, and how often something had been taken by them.
    seen: Option<(u64, u64)>,
    /// How often there was no room since then.
    refusals: usize,
}

impl Stall {
    /// There was no room while something was kept for the readers of a stamp, who took something so many times; whether
    /// it should give way. `have_begun`: all of them run, so that none waits for its turn.
    pub(super) fn refused(&mut self, stamp: u64, taken: u64, have_begun: bool) -> bool {
        let now = Some((stamp, taken));
        if self.seen != now || !have_begun {
            (self.seen, self.refusals) = (now, 0);
        }
        self.refusals += 1;
        let gives_way = self.refusals > STALLED_REFUSALS;
        if gives_way {
            *self = Stall::default();
        }
        gives_way
    }
}

/// How a scan's rows are found in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// With those of others.
    Together,
    /// On its own, on codes that are in the cache.
    Apart,
    /// Not in this pass.
    Never,
}

/// What is known of a scan that would take part in a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Ranges of codes that it looks for.
    pub(super) ranges: usize,
    /// Share of the codes that is in them.
    pub(super) fraction: f64,
    /// Bytes that its results are expected to take until it has taken them.
    pub(super) bytes: u64,
}

/// The ways of scans, the leader of the pass first and the others from the oldest on: what all their results together
/// are expected to take is at most `bytes_max`, and no more than [`APART_MAX`] are tested on their own. The leader
/// always takes part.
pub(super) fn ways(candidates: &[Candidate], codes: u32, bytes_max: u64) -> Vec<Way> {
    let few = |c: &Candidate| is_few(c.ranges, c.fraction);
    let many = codes <= BITMAP_CODES_MAX && candidates.iter().filter(|c| few(c)).count() >= TOGETHER_MIN;
    let (mut apart, mut together, mut bytes) = (0, 0, 0u64);
    let way = |(place, candidate): (usize, &Candidate)| {
        let sum = bytes.saturating_add(candidate.bytes);
        let (way, count, most) = match many && few(candidate) {
            true => (Way::Together, &mut together, TOGETHER_MAX),
            false => (Way::Apart, &mut apart, APART_MAX),
        };
        // What the leader finds is not kept.
        if place > 0 && (sum > bytes_max || *count >= most) {
            return Way::Never;
        }
        *count += 1;
        bytes = if place > 0 { sum } else { bytes };
        way
    };
    candidates.iter().enumerate().map(way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_statement_attaches_early_on_word_only() {
        for others in [false, true] {
            assert!(!ScanSharing::Off.attaches_early(|| others));
            assert!(ScanSharing::On.attaches_early(|| others));
            assert_eq!(ScanSharing::Auto.attaches_early(|| others), others);
        }
    }

    #[test]
    fn what_somebody_takes_does_not_give_way() {
        let mut stall = Stall::default();
        for taken in 0..100 {
            assert!(!stall.refused(7, taken, true));
        }
        for _ in 0..2 {
            assert!((0..STALLED_REFUSALS - 1).all(|_| !stall.refused(7, 99, true)));
            assert!(stall.refused(7, 99, true));
            assert!(!stall.refused(7, 99, true), "it begins anew");
        }
        assert!((0..100).all(|_| !stall.refused(7, 100, false)), "who waits for its turn is not asleep");
        assert!((0..STALLED_REFUSALS - 1).all(|_| !stall.refused(7, 100, true)));
        assert!(!stall.refused(8, 100, true), "others are the oldest now");
    }

    #[test]
    fn names_are_read_back() {
        for sharing in [ScanSharing::Off, ScanSharing::On, ScanSharing::Auto] {
            assert_eq!(sharing.name().to_uppercase().parse(), Ok(sharing));
        }
        assert_eq!("maybe".parse::<ScanSharing>(), Err(()));
    }

    #[test]
    fn auto_wants_many_scans_of_much() {
        assert!(!ScanSharing::Off.takes_part(u64::MAX) && !ScanSharing::Off.shares(1000));
        assert!(ScanSharing::On.takes_part(1) && ScanSharing::On.shares(2) && !ScanSharing::On.shares(1));
        assert!(ScanSharing::Auto.takes_part(AUTO_BYTES) && !ScanSharing::Auto.takes_part(AUTO_BYTES - 1));
        assert!(ScanSharing::Auto.shares(AUTO_SCANS) && !ScanSharing::Auto.shares(AUTO_SCANS - 1));
    }

    #[test]
    fn who_has_less_than_half_of_its_time_left_works_for_itself() {
        let began = Instant::now();
        let after = |ms| began + Duration::from_millis(ms);
        assert!(may_lead(began, after(1_000_000), None));
        assert!(may_lead(began, after(50), Some(after(100))));
        assert!(!may_lead(began, after(51), Some(after(100))));
        assert!(!may_lead(began, after(200), Some(after(100))));
    }

    #[test]
    fn rows_that_are_found_together_are_bounded() {
        assert_eq!(hits_max(10, 65_536), 10 * 512);
        assert_eq!(hits_max(10, 100), 10 * HITS_EACH);
        assert_eq!(hits_max(TOGETHER_MAX, 65_536), HITS_MAX);
        assert_eq!(hits_max(usize::MAX, 65_536), HITS_MAX);
    }

    #[test]
    fn the_leader_takes_part_and_others_as_far_as_there_is_room() {
        let few = Candidate { ranges: 1, fraction: 0.001, bytes: 10 };
        let much = Candidate { ranges: 1, fraction: 0.5, bytes: 100 };
        assert_eq!(ways(&[few; 5], 1000, 1000), [Way::Apart; 5]);
        assert_eq!(ways(&[few; 6], 1000, 1000), [Way::Together; 6]);
        assert_eq!(ways(&[few; 6], u32::MAX, 1000), [Way::Apart; 6]);
        // What the leader finds is not kept; the others are let in until there is no room.
        assert_eq!(ways(&[much, few, much, few], 1000, 30), [Way::Apart, Way::Apart, Way::Never, Way::Apart]);
        let all = ways(&[much; 40], 1000, u64::MAX);
        assert_eq!(all.iter().filter(|way| **way == Way::Apart).count(), APART_MAX);
        assert_eq!(all[APART_MAX], Way::Never);
        assert_eq!(ways(&[Candidate { bytes: u64::MAX, ..much }; 2], 1000, 0), [Way::Apart, Way::Never]);
        for count in 0..3 * TOGETHER_MIN {
            let ways = ways(&vec![few; count], 1000, 45);
            assert_eq!(ways.iter().filter(|way| **way != Way::Never).count(), count.min(5), "the leader and four more");
        }
    }
}
