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

/// Pairs that the scans of a pass may ask for together, but for one that asks for more alone: so much memory a pass
/// has.
const PASS_PAIRS: usize = 64 << 10;

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

impl Scan {
    /// Pairs that it may have.
    fn pairs_max(&self) -> usize {
        self.limit.min(self.keys_max())
    }

    fn keys_max(&self) -> usize {
        usize::try_from((self.last - self.first).saturating_add(1)).unwrap_or(usize::MAX)
    }

    /// Whether it reads nothing that the other does not.
    fn is_within(&self, other: &Scan) -> bool {
        other.first <= self.first && self.last <= other.last && other.limit >= other.keys_max()
            || (self.first, self.last) == (other.first, other.last) && self.limit <= other.limit
    }
}

impl PassRoom {
    /// Gives back what a large pass took.
    pub(super) fn shrink(&mut self) {
        if self.pairs.capacity() > PASS_PAIRS {
            self.pairs = Vec::new();
        }
    }
}

impl<'a> ScanPass<'a> {
    pub(super) fn new(scans: &'a [Scan], room: &'a mut PassRoom) -> ScanPass<'a> {
        let (mut last, mut asked) = (scans[0].last, scans[0].pairs_max());
        let reached = scans[1..].iter().take_while(|scan| {
            let reads_more = !scan.is_within(&scans[0]);
            asked = if reads_more { asked.saturating_add(scan.pairs_max()) } else { asked };
            let is_reached = scan.first <= last && (asked <= PASS_PAIRS || !reads_more);
            last = if is_reached { last.max(scan.last) } else { last };
            is_reached
        });
        let scans = &scans[..1 + reached.count()];
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
        for scan in begun..begun + begins {
            // As a look would have it, without looking at the others.
            let is_first = self.wanting.is_empty();
            self.enough_at = if is_first { self.enough(scan) } else { self.enough_at.min(self.enough(scan)) };
            self.wanted_to = self.scans[scan].last.max(if is_first { 0 } else { self.wanted_to });
            self.wanting.push(scan);
        }
        if (self.pairs.len() >= self.enough_at || key > self.wanted_to) && !self.look(key) {
            self.has_stopped = true;
            return false;
        }
        self.pairs.push((key, value));
        true
    }

    /// With how many pairs a scan has enough: one more than it asked for.
    fn enough(&self, scan: usize) -> usize {
        self.starts[scan].saturating_add(self.scans[scan].limit).saturating_add(1)
    }

    /// How many scans it is for, if nobody stops it.
    pub(super) fn scans(&self) -> usize {
        self.scans.len()
    }

    /// Whether a scan that has begun wants the pair of a key, if only to know that there is more than it asked for.
    fn look(&mut self, key: u64) -> bool {
        let mut wanting = std::mem::take(self.wanting);
        wanting.retain(|scan| key <= self.scans[*scan].last && self.pairs.len() < self.enough(*scan));
        *self.wanting = wanting;
        self.enough_at = self.wanting.iter().map(|scan| self.enough(*scan)).min().unwrap_or(0);
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

    /// Pairs, and the key to go on from.
    type Part = (Vec<(u64, u64)>, Option<u64>);

    /// Runs passes until all scans are done: what each has, and how many pairs were read.
    fn run(pairs: &BTreeMap<u64, u64>, scans: &[Scan]) -> (Vec<Part>, usize) {
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

    fn alone(pairs: &BTreeMap<u64, u64>, scan: &Scan) -> Part {
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
        let two = [Scan { limit: PASS_PAIRS, ..all }, Scan { first: 1, limit: PASS_PAIRS, ..all }];
        assert_eq!(run(&pairs, &two).1, 1999, "together they may ask for too much");
        // Who wants one pair of them all, and who wants all of a few, do not make each other read.
        let one = Scan { limit: 1, ..all };
        let few = Scan { last: 9, ..all };
        assert_eq!(run(&pairs, &[few, one]).1, 10);
    }
}
