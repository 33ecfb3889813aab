//! Ranges of three owners, two of which share an arena, going to and fro under statements and readers, against ordered
//! maps.

use std::collections::BTreeMap;

use numa::{Allocator, Budget, Policy};
use random::Random;

use super::super::{Change, ChangeError, Root};
use super::*;
use crate::arena::Arena;
use crate::routing::table::RangeTable;
use crate::versions::{Pin, Versions, Write};

type Model = BTreeMap<u64, u64>;

/// A statement on its way, and what it has changed.
struct OpenWrite {
    write: Write,
    changes: BTreeMap<u64, Option<u64>>,
}

/// A reader that stays: what it has to see, and where it began.
struct Reader {
    pin: Pin,
    model: Model,
    table: RangeTable,
    roots: Vec<Root>,
}

struct World {
    versions: Arc<Versions>,
    owners: Vec<Owner>,
    table: RangeTable,
    model: Model,
    writes: Vec<OpenWrite>,
    readers: Vec<Reader>,
    random: Random,
}

/// Keys that lie near each other, far from each other, and in clusters.
fn draw(kind: usize, random: &mut Random) -> u64 {
    match kind {
        0 => random.below_u64(3000),
        1 => random::mixed(random.below_u64(2000)),
        2 => (random.below_u64(5) << 61 | random.below_u64(3) << 30).wrapping_add(random.below_u64(300)),
        _ => (0..3).fold(0, |key, _| key | 1 << random.below_u64(64)),
    }
}

impl World {
    fn new(seed: u64, bits: u32) -> World {
        let versions = Versions::new();
        let shared = Arc::new(Arena::new(Allocator::unplaced()));
        let own = Arc::new(Arena::new(Allocator::unplaced()));
        let arenas = [Arc::clone(&shared), shared, own];
        let owners = arenas.into_iter().map(|arena| Owner::new(arena, Arc::clone(&versions), bits)).collect();
        let table = RangeTable::equal(3);
        World {
            versions,
            owners,
            table,
            model: Model::new(),
            writes: Vec::new(),
            readers: Vec::new(),
            random: Random::new(seed),
        }
    }

    fn roots(&self) -> Vec<Root> {
        self.owners.iter().map(|owner| owner.tree.root()).collect()
    }

    fn change(&mut self, kind: usize) {
        if self.writes.is_empty() || self.random.one_in(4) && self.writes.len() < 4 {
            let write = self.versions.begin().unwrap();
            self.writes.push(OpenWrite { write, changes: BTreeMap::new() });
        }
        let own = self.random.below(self.writes.len());
        for _ in 0..self.random.below(60) {
            let key = draw(kind, &mut self.random);
            let change = if self.random.one_in(3) { Change::Remove } else { Change::Put(self.random.next_u64()) };
            let owner = self.table.owner_of(key);
            let is_busy =
                self.writes.iter().enumerate().any(|(place, open)| place != own && open.changes.contains_key(&key));
            let result = self.owners[owner].change(key, change, &self.writes[own].write);
            let committed = self.model.get(&key).copied();
            let OpenWrite { changes, .. } = &mut self.writes[own];
            match result {
                Err(ChangeError::Busy) => assert!(is_busy, "key {key:#x}"),
                Err(error) => panic!("{error:?}"),
                Ok(before) => {
                    assert!(!is_busy);
                    assert_eq!(before, changes.get(&key).copied().unwrap_or(committed), "key {key:#x}");
                    // A key that was not there is the statement's as well when it is removed.
                    changes.insert(key, if let Change::Put(value) = change { Some(value) } else { None });
                }
            }
        }
    }

    fn end_one(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let OpenWrite { write, changes } = self.writes.swap_remove(self.random.below(self.writes.len()));
        if self.random.one_in(3) {
            return;
        }
        write.commit();
        for (key, value) in changes {
            match value {
                Some(value) => self.model.insert(key, value),
                None => self.model.remove(&key),
            };
        }
    }

    fn hand_over(&mut self, kind: usize) {
        let first = draw(kind, &mut self.random);
        let other = draw(kind, &mut self.random);
        let from = self.table.owner_of(first);
        let range = self.table.range_of(first);
        let first = if self.random.one_in(4) { self.table.firsts()[range] } else { first };
        let last = if self.random.one_in(4) { u64::MAX } else { first.max(other) }.min(self.table.last(range));
        let to = (from + 1 + self.random.below(2)) % 3;
        let faulty = self.random.one_in(5);
        let [giver, taker] = self.owners.get_disjoint_mut([from, to]).unwrap();
        if faulty {
            fault::after(Some(self.random.below_u64(4)));
        }
        let before: Vec<u64> = [&*giver, &*taker].map(|owner| owner.tree.len()).to_vec();
        let prepared = catch_unwind(AssertUnwindSafe(|| Handover::prepare(giver, taker, (first, last))));
        fault::after(None);
        let Ok(prepared) = prepared else {
            assert!(faulty, "nothing else panics");
            assert_eq!([&*giver, &*taker].map(|owner| owner.tree.len()).to_vec(), before);
            return;
        };
        let prepared = prepared.unwrap();
        prepared.switch(giver, taker);
        let taken = prepared.finish(giver, taker);
        assert_eq!(taken.linked, from < 2 && to < 2);
        assert_eq!(giver.tree.len() + taken.pairs, before[0]);
        assert_eq!(taker.tree.len(), before[1] + taken.pairs);
        self.table = self.table.moved(first, last, to);
    }

    /// Every block in use is reached from the root, or waits for readers.
    fn expect_no_leak(&self, after: &str) {
        for (number, owner) in self.owners.iter().enumerate() {
            let mut counts = Grafted::default();
            owner.tree.count(owner.tree.child(super::super::Place::Root), &mut counts);
            let unlinked = owner.unlinked.iter().map(|(_, _, lines)| *lines);
            let waiting: usize = unlinked.chain(owner.just_unlinked.iter().map(|(_, lines)| *lines)).sum();
            let lines = counts.linked_lines + waiting as u64;
            assert_eq!((owner.tree.len(), owner.used_bytes()), (counts.pairs, lines * 64), "{number} after {after}");
        }
    }

    fn check(&mut self, kind: usize) {
        let reader = Reader {
            pin: self.versions.pin(),
            model: self.model.clone(),
            table: self.table.clone(),
            roots: self.roots(),
        };
        self.readers.push(reader);
        let now = (self.table.clone(), self.roots());
        let keys: Vec<u64> = (0..100).map(|_| draw(kind, &mut self.random)).collect();
        for reader in &self.readers {
            // By where it began, and by where everything is.
            for (table, roots) in [(&reader.table, &reader.roots), (&now.0, &now.1)] {
                for key in &keys {
                    let owner = table.owner_of(*key);
                    let value = self.owners[owner].tree.get_from(roots[owner], *key, &reader.pin);
                    assert_eq!(value, reader.model.get(key).copied(), "key {key:#x}");
                }
                let mut pairs = Vec::new();
                for range in 0..table.ranges() {
                    let owner = table.owners()[range];
                    let (first, last) = (table.firsts()[range], table.last(range));
                    let (tree, root) = (&self.owners[owner].tree, roots[owner]);
                    tree.range_in(root, first, last, &reader.pin, &mut Vec::new(), |key, value| {
                        pairs.push((key, value));
                        true
                    });
                }
                assert!(pairs.iter().copied().eq(reader.model.iter().map(|(key, value)| (*key, *value))));
            }
        }
        if self.readers.len() > 3 || self.random.one_in(3) {
            let place = self.random.below(self.readers.len());
            self.readers.swap_remove(place);
        }
    }

    fn end(mut self) {
        while !self.writes.is_empty() {
            self.end_one();
        }
        self.readers.clear();
        let write = self.versions.begin().unwrap();
        for key in self.model.keys() {
            assert!(self.owners[self.table.owner_of(*key)].change(*key, Change::Remove, &write).unwrap().is_some());
        }
        write.commit();
        for _ in 0..2 {
            self.owners.iter_mut().for_each(Owner::collect);
        }
        for (number, owner) in self.owners.iter().enumerate() {
            assert_eq!((owner.tree.len(), owner.used_bytes()), (0, 0), "owner {number}");
        }
        assert_eq!(self.versions.open_writes(), 0);
    }
}

#[test]
fn every_reader_sees_its_state_while_ranges_go_to_and_fro() {
    for number in 0..crate::scale::times(24) {
        let kind = number as usize % 4;
        let bits = [8, 4, 1][number as usize / 4 % 3];
        let seed = crate::scale::seed() + number;
        let mut world = World::new(seed, bits);
        for _ in 0..150 {
            let step = world.random.below(12);
            match step {
                0..=4 => world.change(kind),
                5 | 6 => world.end_one(),
                7..=9 => world.hand_over(kind),
                10 => world.check(kind),
                _ => {
                    let owner = world.random.below(3);
                    world.owners[owner].collect();
                }
            }
            world.expect_no_leak(&format!("step {step} of seed {seed}"));
        }
        world.check(kind);
        world.end();
    }
}

#[test]
fn a_range_that_finds_no_memory_stays_where_it_is() {
    let versions = Versions::new();
    let budget = Budget::new("small", 1 << 20);
    let arena = |allocator| Arc::new(Arena::new(allocator));
    let mut giver = Owner::new(arena(Allocator::unplaced()), Arc::clone(&versions), 8);
    let mut taker = Owner::new(arena(Allocator::new(Policy::Local, budget)), Arc::clone(&versions), 8);
    for random in [false, true] {
        let write = versions.begin().unwrap();
        let key = |number: u64| if random { random::mixed(number) } else { number };
        for number in 0..200_000 {
            giver.change(key(number), Change::Put(number), &write).unwrap();
        }
        write.commit();
        giver.collect();
        let used = giver.used_bytes();
        Handover::prepare(&mut giver, &mut taker, (100, u64::MAX - 100)).unwrap_err();
        taker.collect();
        giver.collect();
        assert_eq!((giver.used_bytes(), taker.used_bytes()), (used, 0));
        let pin = versions.pin();
        assert!((0..200_000).all(|number| giver.tree.get(key(number), &pin) == Some(number)));
    }
}

#[test]
fn pieces_cover_a_range() {
    let versions = Versions::new();
    let mut owner = Owner::new(Arc::new(Arena::new(Allocator::unplaced())), Arc::clone(&versions), 8);
    let write = versions.begin().unwrap();
    for number in 0..10_000 {
        owner.change(random::mixed(number), Change::Put(number), &write).unwrap();
    }
    write.commit();
    let mut first = 1000;
    let mut pieces = 0;
    loop {
        let end = owner.tree.piece_end(first, u64::MAX - 1, 500);
        assert!(first <= end && end < u64::MAX);
        pieces += 1;
        if end == u64::MAX - 1 {
            break;
        }
        first = end + 1;
    }
    assert!((18..=21).contains(&pieces), "{pieces} pieces");
}
