//! Ranges that move while statements of several threads run, against ordered maps and the journal of what units did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use numa::{Allocator, Budget, NodeId, Policy};
use random::Random;

use super::super::{UnitPlace, WriteError};
use super::*;
use crate::request::{Request, WriteKind};
use crate::scale;
use crate::tree::fault;
use crate::unit::Sent;
use crate::versions::Pin;

/// Four units on two nodes: ranges are linked between neighbours of one, and copied between nodes.
fn store() -> Arc<Store> {
    let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::unplaced() };
    Store::new([0, 0, 1, 1].map(place).to_vec()).unwrap()
}

fn pairs_of(keyed: &Keyed, pin: &Pin, belongs: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    keyed.range(0, u64::MAX, pin, |key, value| {
        if belongs(key) {
            pairs.push((key, value));
        }
        true
    });
    pairs
}

/// What one writer knows of its keys: those that are its number modulo the writers.
struct Writer<'a> {
    keyed: &'a Keyed,
    number: u64,
    model: BTreeMap<u64, u64>,
    random: Random,
    readers: Vec<(Pin, BTreeMap<u64, u64>)>,
}

const WRITERS: u64 = 3;
const KEYS: u64 = 6000;

impl Writer<'_> {
    /// A random statement, some of which fail: whether it was told that it did.
    fn write(&mut self) {
        let kinds = [
            WriteKind::Upsert,
            WriteKind::Upsert,
            WriteKind::Insert,
            WriteKind::InsertMissing,
            WriteKind::Update,
            WriteKind::Delete,
        ];
        let kind = self.random.pick(&kinds);
        let size = if self.random.one_in(10) { 2000 } else { 40 };
        let pairs: Vec<(u64, u64)> = (0..self.random.below(size))
            .map(|_| (self.random.below_u64(KEYS) * WRITERS + self.number, self.random.next_u64()))
            .collect();
        let mut after = self.model.clone();
        let mut is_duplicate = false;
        for (key, value) in &pairs {
            let had = after.contains_key(key);
            is_duplicate |= had && kind == WriteKind::Insert;
            match kind {
                WriteKind::Delete => {
                    after.remove(key);
                }
                WriteKind::InsertMissing | WriteKind::Insert if had => {}
                WriteKind::Update if !had => {}
                _ => {
                    after.insert(*key, *value);
                }
            }
        }
        match self.keyed.write(kind, &pairs) {
            Ok(_) => {
                assert!(!is_duplicate);
                self.model = after;
            }
            Err(WriteError::Duplicate { key }) => {
                assert!(is_duplicate && pairs.iter().any(|pair| pair.0 == key));
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn check(&mut self) {
        let keyed = self.keyed;
        if self.random.one_in(4) || self.readers.is_empty() {
            self.readers.push((keyed.store().pin(), self.model.clone()));
        }
        for (pin, model) in &self.readers {
            let keys: Vec<u64> = (0..30).map(|_| self.random.below_u64(KEYS) * WRITERS + self.number).collect();
            let mut seen = 0;
            keyed.lookup(&keys, pin, |place, value| {
                assert_eq!(value, model.get(&keys[place]).copied(), "key {}", keys[place]);
                seen += 1;
            });
            assert_eq!(seen, keys.len());
            keyed.lookup(&keys[..1], pin, |_, value| assert_eq!(value, model.get(&keys[0]).copied()));
            if self.random.one_in(8) {
                let pairs = pairs_of(keyed, pin, |key| key % WRITERS == self.number);
                assert!(pairs.iter().copied().eq(model.iter().map(|(key, value)| (*key, *value))));
            }
        }
        if self.readers.len() > 2 {
            let place = self.random.below(self.readers.len());
            self.readers.swap_remove(place);
        }
    }
}

/// Moves random ranges, and balances, until told to stop: how many ranges moved.
fn move_until(keyed: &Keyed, stop: &AtomicBool, seed: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut moved = 0;
    while !stop.load(Ordering::Relaxed) {
        if random.one_in(4) {
            fault::after(Some(random.below_u64(6)));
        }
        let result = match random.below(6) {
            0 => keyed.balance(Algorithm::OneShot).map(|cycle| cycle.moved),
            1 => keyed.balance(Algorithm::MovingAverage(1)).map(|cycle| cycle.moved),
            _ => {
                let first = random.below_u64(KEYS * WRITERS);
                let last = random.pick(&[first, first + 100, first + 5000, u64::MAX]);
                keyed.move_range(first, last, random.below(4))
            }
        };
        fault::after(None);
        match result {
            Ok(ranges) => moved += ranges.len() as u64,
            Err(BalanceError::Panicked(text)) => assert_eq!(text, "a fault was planted"),
            Err(BalanceError::TooManyRanges { .. }) => {
                keyed.move_range(0, u64::MAX, random.below(4)).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    moved
}

#[test]
fn statements_do_what_ordered_maps_do_while_ranges_move() {
    let seed = scale::seed();
    let rounds = scale::times(50);
    let store = store();
    store.units[0].journal.1.turn_on();
    let keyed = store.create(KEYS * WRITERS, 8);
    let table = keyed.object.balancing.lock().table.clone();
    let stop = AtomicBool::new(false);
    let models = std::thread::scope(|scope| {
        let mover = scope.spawn(|| move_until(&keyed, &stop, seed));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let keyed = &keyed;
                scope.spawn(move || {
                    let random = Random::new(seed + number);
                    let mut writer = Writer { keyed, number, model: BTreeMap::new(), random, readers: Vec::new() };
                    for _ in 0..rounds {
                        writer.write();
                        writer.check();
                    }
                    writer.model
                })
            })
            .collect();
        let models: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(mover.join().unwrap() > 20, "ranges moved");
        models.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    });
    let mut expected: Vec<(u64, u64)> = models.into_iter().flatten().collect();
    expected.sort_unstable();
    assert_eq!(pairs_of(&keyed, &store.pin(), |_| true), expected);
    assert_eq!(keyed.len(), expected.len() as u64);
    assert!(store.units[0].journal.1.check(table).unwrap() as u64 > rounds);
    keyed.write(WriteKind::Delete, &expected).unwrap();
    store.settle();
    store.settle();
    assert_eq!((keyed.len(), keyed.used_bytes(), store.versions.open_writes()), (0, 0, 0));
}

#[test]
fn statements_over_many_units_are_seen_whole_while_ranges_move() {
    const GROUPS: u64 = 300;
    let group = |number: u64| (0..5_u64).map(move |member| member * 10_000 + number);
    let store = store();
    let keyed = store.create(50_000, 8);
    let stop = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| move_until(&keyed, &stop, 77));
        let writers: Vec<_> = (0..3_u64)
            .map(|writer| {
                let (keyed, written) = (&keyed, &written);
                scope.spawn(move || {
                    let mut random = Random::new(writer);
                    for round in 0..500_u64 {
                        let pairs: Vec<(u64, u64)> =
                            group(random.below_u64(GROUPS)).map(|key| (key, writer << 32 | round)).collect();
                        let kind = random.pick(&[
                            WriteKind::Upsert,
                            WriteKind::Upsert,
                            WriteKind::Delete,
                            WriteKind::InsertMissing,
                            WriteKind::Update,
                        ]);
                        match keyed.write(kind, &pairs) {
                            Ok(_) => written.fetch_add(1, Ordering::Relaxed),
                            Err(WriteError::Busy) => 0,
                            Err(error) => panic!("{error}"),
                        };
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut random = Random::new(100);
            while !stop.load(Ordering::Relaxed) {
                let pin = keyed.store().pin();
                let keys: Vec<u64> = group(random.below_u64(GROUPS)).collect();
                let mut values = Vec::new();
                keyed.lookup(&keys, &pin, |_, value| values.push(value));
                assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
                let mut seen = pairs_of(&keyed, &pin, |_| true);
                assert!(seen.is_sorted_by_key(|pair| pair.0));
                seen.sort_by_key(|pair| pair.0 % 10_000);
                for of_group in seen.chunk_by(|one, other| one.0 % 10_000 == other.0 % 10_000) {
                    assert!(of_group.len() == 5 && of_group.iter().all(|pair| pair.1 == of_group[0].1), "{of_group:?}");
                }
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        mover.join().unwrap();
    });
    assert!(written.load(Ordering::Relaxed) > 700);
}

#[test]
fn a_hot_range_is_shared_after_cycles_and_who_is_balanced_stays() {
    for algorithm in [Algorithm::OneShot, Algorithm::MovingAverage(1)] {
        let store = store();
        let keyed = store.create(40_000, 8);
        let pairs: Vec<(u64, u64)> = (0..40_000).map(|key| (key, key)).collect();
        keyed.write(WriteKind::Insert, &pairs).unwrap();
        let mut random = Random::new(1);
        let mut read = |first: u64| {
            for _ in 0..200 {
                let keys: Vec<u64> = (0..500).map(|_| first + random.below_u64(8000)).collect();
                keyed.lookup(&keys, &store.pin(), |place, value| assert_eq!(value, Some(keys[place])));
            }
        };
        keyed.balance(algorithm).unwrap();
        store.set_balancer(algorithm);
        assert_eq!(store.balancer(), algorithm);
        let mut deviation = f64::MAX;
        for _ in 0..30 {
            read(1000);
            for cycle in store.balance() {
                assert!(cycle.failure.is_none() && cycle.pairs() > 0);
                deviation = deviation.min(cycle.deviation.unwrap());
            }
        }
        read(1000);
        let last = keyed.balance(algorithm).unwrap();
        assert!(last.deviation.unwrap() < 0.3, "{algorithm}: {last:?}");
        assert!(!store.balancing().is_empty());
        let partitions = store.partitions();
        assert_eq!(partitions.iter().map(|of| of.pairs).sum::<u64>(), 40_000);
        assert!(partitions.iter().all(|of| of.accesses > 0 && of.bytes > 0 && of.first_key.is_some()));
        assert!(partitions[1].first_key < Some(9000), "the hot range was cut: {partitions:?}");
        assert_eq!(keyed.balance(Algorithm::Off).unwrap().deviation, None);
        assert_eq!(pairs_of(&keyed, &store.pin(), |_| true), pairs);
    }
}

#[test]
fn a_range_that_finds_no_memory_stays_and_the_cycle_says_so() {
    let budget = Budget::new("small node", 1 << 20);
    let places = [
        UnitPlace { node: Some(NodeId(0)), allocator: Allocator::unplaced() },
        UnitPlace { node: Some(NodeId(1)), allocator: Allocator::new(Policy::Local, budget) },
    ];
    let store = Store::new(places.to_vec()).unwrap();
    let keyed = store.create(200_000, 8);
    let pairs: Vec<(u64, u64)> = (0..100_000).map(|key| (key, key)).collect();
    keyed.write(WriteKind::Insert, &pairs).unwrap();
    let error = keyed.move_range(0, 99_999, 1).unwrap_err();
    assert!(error.to_string().contains("small node"), "{error}");
    assert_eq!(pairs_of(&keyed, &store.pin(), |_| true), pairs);
    let moved: u64 = keyed.partitions()[1].pairs;
    assert!(moved < 100_000 && keyed.len() == 100_000, "pieces that found memory have moved: {moved}");
    // It comes back, and the object goes on.
    keyed.move_range(0, 99_999, 0).unwrap();
    assert_eq!(keyed.write(WriteKind::Update, &pairs).unwrap(), 100_000);
}

/// A command that was sent before its range moved.
fn send_and_move(executes_what_moved: bool) -> (Arc<Store>, Keyed, RangeTable, Arc<Request>) {
    let store = store();
    let keyed = store.create(4000, 8);
    let table = keyed.object.balancing.lock().table.clone();
    let journal = Arc::clone(&store.units[0].journal.1);
    journal.turn_on();
    journal.executes_what_moved.store(executes_what_moved, Ordering::Relaxed);
    let pairs = [(5, 50), (7, 70)];
    let request = Request::new(WriteKind::Upsert, 2, store.versions.begin().unwrap());
    super::super::tests::begun(&keyed, &request, &pairs);
    let number = store.requests.enter(Sent::Write(Arc::clone(&request)));
    store.units[0].send(keyed.object.id, number, &pairs, &store.requests);
    // The transfer runs what came to its units when it is done.
    keyed.move_range(0, 6, 1).unwrap();
    store.requests.leave(number);
    (store, keyed, table, request)
}

#[test]
fn a_command_whose_range_has_moved_comes_back_whole() {
    let (store, _keyed, table, request) = send_and_move(false);
    assert!(request.is_answered());
    assert_eq!(request.take_moved(), [(5, 50), (7, 70)]);
    assert!(!request.is_answered(), "its keys are still to be written");
    assert!(store.units[0].journal.1.check(table).is_ok());
}

#[test]
fn the_checker_finds_a_unit_that_executes_what_has_moved() {
    let (store, _keyed, table, request) = send_and_move(true);
    assert!(request.is_answered() && request.take_moved().is_empty());
    let found = store.units[0].journal.1.check(table).unwrap_err();
    assert_eq!(found, "unit 0 executed key 5 of unit 1");
}

#[test]
fn the_checker_finds_what_was_lost_and_what_was_done_twice() {
    use crate::journal::{Event, Journal};
    for (times, expected) in
        [(0, "of [(1, 2)] there was executed []"), (2, "of [(1, 2)] there was executed [(1, 2), (1, 2)]")]
    {
        let journal = Journal::default();
        journal.turn_on();
        journal.record(|| Event::Began { request: 1, pairs: vec![(1, 2)] });
        for _ in 0..times {
            journal.record(|| Event::Executed { unit: 0, request: 1, pairs: vec![(1, 2)] });
        }
        journal.record(|| Event::Committed { request: 1 });
        assert_eq!(journal.check(RangeTable::equal(2)).unwrap_err(), expected);
    }
}
