//! Scans of one partition that share a pass over it: each pair is read once for all scans whose range it is in.
//!
//! Pure: told pairs in the order of keys, it says when nobody wants more, and which pairs are whose.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.1 (scan sharing by command coalescing).

use std::ops::Range;

/// A scan of `first ..= last`, of at most `limit` pairs, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Scan {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) limit: usize,
}

/// A pass for the first of some scans, which ascend by first key, and those that its range reaches.
#[derive(Debug)]
pub(super) struct ScanPass<'a> {
    scans: &'a [Scan],
    last: u64,
    pairs: &'a mut Vec<(u64, u64)>,
    /// Where the pairs of each scan that has begun begin.
    starts: &'a mut Vec<usize>,
    /// Scans that have begun and want more, as of the last look.
    wanting: &'a mut Vec<usize>,
    /// With this many pairs one of those has enough.
    enough_at: usize,
    /// Behind this key none of those wants anything.
    wanted_to: u64,
    /// Nobody wanted more.
    has_stopped: bool,
}

/// What a scan has of a pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Its pairs.
    pub(super) pairs: Range<usize>,
    /// The next key of its range, if there is one.
    pub(super) rest: Option<u64>,
}

/// Room for what a pass finds.
#[derive(Debug, Default)]
pub(super) struct PassRoom {
    pub(super) pairs: Vec<(u64, u64)>,
    starts: Vec<usize>,
    wanting: Vec<usize>,
}

impl<'a> ScanPass<'a> {
    pub(super) fn new(scans: &'a [Scan], room: &'a mut PassRoom) -> ScanPass<'a> {
        let mut last = scans[0].last;
        let reached = scans.iter().take_while(|scan| {
            let is_reached = scan.first <= last;
            last = if is_reached { last.max(scan.last) } else { last };
            is_reached
        });
        let scans = &scans[..reached.count()];
        let PassRoom { pairs, starts, wanting } = room;
        pairs.clear();
        starts.clear();
        wanting.clear();
        ScanPass { scans, last, pairs, starts, wanting, enough_at: 0, wanted_to: 0, has_stopped: false }
    }

    /// The keys that it reads, if nobody stops it.
    pub(super) fn keys(&self) -> (u64, u64) {
        (self.scans[0].first, self.last)
    }

    /// Takes a pair; false where nobody wants it, which ends the pass.
    pub(super) fn add(&mut self, key: u64, value: u64) -> bool {
        let begun = self.starts.len();
        let begins = self.scans[begun..].iter().take_while(|scan| scan.first <= key).count();
        self.starts.resize(begun + begins, self.pairs.len());
        self.wanting.extend(begun..begun + begins);
        if (begins > 0 || self.pairs.len() >= self.enough_at || key > self.wanted_to) && !self.look(key) {
            self.has_stopped = true;
            return false;
        }
        self.pairs.push((key, value));
        true
    }

    /// Whether a scan that has begun wants the pair of a key, if only to know that there is more than it asked for.
    fn look(&mut self, key: u64) -> bool {
        let enough = |scan: usize| self.starts[scan].saturating_add(self.scans[scan].limit).saturating_add(1);
        self.wanting.retain(|scan| key <= self.scans[*scan].last && self.pairs.len() < enough(*scan));
        self.enough_at = self.wanting.iter().map(|scan| enough(*scan)).min().unwrap_or(0);
        self.wanted_to = self.wanting.iter().map(|scan| self.scans[*scan].last).max().unwrap_or(0);
        !self.wanting.is_empty()
    }

    /// What the first scans have, when all pairs were told or nobody wanted more; at least one is done with.
    pub(super) fn end(self, into: &mut Vec<Scanned>) {
        if !self.has_stopped {
            self.starts.resize(self.scans.len(), self.pairs.len());
        }
        let scanned = |(scan, from): (&Scan, &usize)| {
            let own = &self.pairs[*from..];
            let within = own.partition_point(|pair| pair.0 <= scan.last);
            let rest = own[..within].get(scan.limit).map(|pair| pair.0);
            Scanned { pairs: *from..from + within.min(scan.limit), rest }
        };
        into.clear();
        into.extend(self.scans.iter().zip(self.starts.iter()).map(scanned));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use random::Random;

    use super::*;

    /// Runs passes until all scans are done: what each has, and how many pairs were read.
    fn run(pairs: &BTreeMap<u64, u64>, scans: &[Scan]) -> (Vec<(Vec<(u64, u64)>, Option<u64>)>, usize) {
        let (mut done, mut read, mut room) = (Vec::new(), 0, PassRoom::default());
        while done.len() < scans.len() {
            let mut pass = ScanPass::new(&scans[done.len()..], &mut room);
            let (first, last) = pass.keys();
            for (key, value) in pairs.range(first..=last) {
                if !pass.add(*key, *value) {
                    break;
                }
            }
            let mut scanned = Vec::new();
            pass.end(&mut scanned);
            assert!(!scanned.is_empty(), "a pass is of use");
            read += room.pairs.len();
            done.extend(scanned.into_iter().map(|scanned| (room.pairs[scanned.pairs].to_vec(), scanned.rest)));
        }
        (done, read)
    }

    fn alone(pairs: &BTreeMap<u64, u64>, scan: &Scan) -> (Vec<(u64, u64)>, Option<u64>) {
        let mut own = pairs.range(scan.first..=scan.last).map(|(key, value)| (*key, *value));
        (own.by_ref().take(scan.limit).collect(), own.next().map(|pair| pair.0))
    }

    #[test]
    fn each_scan_has_what_it_has_alone_and_nothing_is_read_in_vain() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let pairs: BTreeMap<u64, u64> =
                (0..random.below(120)).map(|_| random.below_u64(200)).map(|key| (key, key * 7)).collect();
            let scan = |random: &mut Random| {
                let first = random.below_u64(200);
                Scan { first, last: first + random.below_u64(80), limit: 1 + random.below(40) }
            };
            let mut scans: Vec<Scan> = (0..1 + random.below(30)).map(|_| scan(&mut random)).collect();
            scans.sort_unstable();
            let (done, read) = run(&pairs, &scans);
            let mut wanted = BTreeSet::new();
            for (scan, got) in scans.iter().zip(&done) {
                let expected = alone(&pairs, scan);
                wanted.extend(expected.0.iter().map(|pair| pair.0).chain(expected.1));
                assert_eq!(got, &expected, "{scan:?}, seed {seed}");
            }
            assert!(read <= wanted.len(), "{read} pairs were read, {} are wanted, seed {seed}", wanted.len());
        }
    }

    #[test]
    fn scans_of_everything_share_one_pass() {
        let pairs: BTreeMap<u64, u64> = (0..1000).map(|key| (key, key)).collect();
        let all = Scan { first: 0, last: u64::MAX, limit: usize::MAX };
        let (done, read) = run(&pairs, &[all; 50]);
        assert_eq!((done.len(), read), (50, 1000));
        assert!(done.iter().all(|(own, rest)| own.len() == 1000 && rest.is_none()));
        // Who wants one pair of them all, and who wants all of a few, do not make each other read.
        let one = Scan { limit: 1, ..all };
        let few = Scan { last: 9, ..all };
        assert_eq!(run(&pairs, &[few, one]).1, 10);
    }
}
