//! Stores of several units under several threads.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use random::Random;

use super::*;
use crate::journal::{Event, Journal};

/// Lets the units of a store record what they do, once a test turns the journal on.
pub(super) fn with_journal(mut units: Vec<Unit>) -> Vec<Unit> {
    let journal = Arc::new(Journal::default());
    units.iter_mut().enumerate().for_each(|(number, unit)| unit.journal = (number, Arc::clone(&journal)));
    units
}

pub(super) fn begun(keyed: &Keyed, request: &Request, pairs: &[(u64, u64)]) -> u64 {
    let pairs = || Event::Began { request: request.id, pairs: pairs.to_vec() };
    keyed.store.units[0].journal.1.record(pairs);
    request.id
}

pub(super) fn ended(keyed: &Keyed, request: u64, is_whole: bool) {
    if is_whole {
        keyed.store.units[0].journal.1.record(|| Event::Committed { request });
    }
}

fn store(units: usize) -> Arc<Store> {
    let place = UnitPlace { node: None, allocator: Allocator::unplaced() };
    Store::new(vec![place; units]).unwrap()
}

fn pairs_of(keyed: &Keyed) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    keyed.range(0, u64::MAX, &keyed.store().pin(), |key, value| {
        pairs.push((key, value));
        true
    });
    pairs
}

#[test]
fn one_thread_does_what_an_ordered_map_does() {
    for units in [1, 3, 8] {
        let store = store(units);
        let keyed = store.create(9999, 8);
        let mut model = BTreeMap::new();
        let mut random = Random::new(units as u64);
        for round in 0..400 {
            let mut pairs: Vec<(u64, u64)> =
                (0..random.below(60)).map(|_| (random.below_u64(12_000), random.next_u64())).collect();
            let kind = random.pick(&[
                WriteKind::Upsert,
                WriteKind::Insert,
                WriteKind::InsertMissing,
                WriteKind::Update,
                WriteKind::Delete,
            ]);
            if random.one_in(2) {
                pairs.sort_unstable();
                pairs.dedup_by_key(|pair| pair.0);
            }
            let before = model.clone();
            let mut changed = 0;
            let mut is_duplicate = false;
            for (key, value) in &pairs {
                let had = model.contains_key(key);
                is_duplicate |= had && kind == WriteKind::Insert;
                match kind {
                    WriteKind::Upsert => {
                        model.insert(*key, *value);
                        changed += 1;
                    }
                    WriteKind::Insert | WriteKind::InsertMissing if !had => {
                        model.insert(*key, *value);
                        changed += 1;
                    }
                    WriteKind::Update if had => {
                        model.insert(*key, *value);
                        changed += 1;
                    }
                    WriteKind::Delete if had => {
                        model.remove(key);
                        changed += 1;
                    }
                    _ => {}
                }
            }
            match keyed.write(kind, &pairs) {
                Ok(count) => assert_eq!((count, is_duplicate), (changed, false), "{kind:?}"),
                Err(WriteError::Duplicate { key }) => {
                    assert!(is_duplicate && pairs.iter().any(|pair| pair.0 == key));
                    model = before;
                }
                Err(error) => panic!("{error}"),
            }
            if round % 20 == 0 {
                assert_eq!(pairs_of(&keyed), model.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
                let keys: Vec<u64> = (0..200).map(|_| random.below_u64(12_000)).collect();
                let mut seen = 0;
                keyed.lookup(&keys, &store.pin(), |place, value| {
                    assert_eq!(value, model.get(&keys[place]).copied());
                    seen += 1;
                });
                assert_eq!(seen, keys.len());
            }
        }
        store.settle();
        assert_eq!(keyed.len(), model.len() as u64);
    }
}

/// Keys whose numbers are equal modulo this lie in different partitions and always have one value.
const GROUPS: u64 = 500;
const PER_GROUP: u64 = 6;

fn group(number: u64) -> impl Iterator<Item = u64> {
    (0..PER_GROUP).map(move |member| member * 10_000 + number)
}

#[test]
fn statements_of_many_threads_are_whole_and_none_is_lost() {
    let store = store(3);
    let keyed = store.create(PER_GROUP * 10_000, 8);
    let stop = AtomicBool::new(false);
    let written: Vec<AtomicU64> = (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u64)
            .map(|writer| {
                let (keyed, written) = (&keyed, &written);
                scope.spawn(move || {
                    let mut random = Random::new(writer);
                    for round in 0..2000_u64 {
                        let number = random.below_u64(GROUPS);
                        let value = writer << 32 | round;
                        let pairs: Vec<(u64, u64)> = group(number).map(|key| (key, value)).collect();
                        let deletes = random.one_in(4);
                        let kind = if deletes { WriteKind::Delete } else { WriteKind::Upsert };
                        match keyed.write(kind, &pairs) {
                            Ok(_) => written[number as usize].fetch_add(1, Ordering::Relaxed),
                            Err(WriteError::Busy) => continue,
                            Err(error) => panic!("{error}"),
                        };
                    }
                })
            })
            .collect();
        for reader in 0..2_u64 {
            let (keyed, stop) = (&keyed, &stop);
            scope.spawn(move || {
                let mut random = Random::new(100 + reader);
                while !stop.load(Ordering::Relaxed) {
                    let pin = keyed.store().pin();
                    let keys: Vec<u64> = group(random.below_u64(GROUPS)).collect();
                    let mut values = Vec::new();
                    keyed.lookup(&keys, &pin, |_, value| values.push(value));
                    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
                    let mut count = 0;
                    keyed.range(0, u64::MAX, &pin, |_, _| {
                        count += 1;
                        true
                    });
                    assert_eq!(count % PER_GROUP, 0);
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    store.settle();
    store.settle();
    let pairs = pairs_of(&keyed);
    assert_eq!(pairs.len() as u64, keyed.len());
    assert!(pairs.iter().all(|(key, _)| written[(key % 10_000) as usize].load(Ordering::Relaxed) > 0));
    keyed.write(WriteKind::Delete, &pairs).unwrap();
    store.settle();
    store.settle();
    assert_eq!((keyed.len(), keyed.used_bytes()), (0, 0));
}

#[test]
fn a_batch_that_is_refused_leaves_nothing() {
    let budget = Budget::new("keys", 3 << 20);
    let place = UnitPlace { node: None, allocator: Allocator::new(Policy::Local, budget) };
    let store = Store::new(vec![place; 2]).unwrap();
    let keyed = store.create(u64::MAX, 8);
    keyed.write(WriteKind::Insert, &[(1, 1), (u64::MAX, 2)]).unwrap();
    let error = keyed.write(WriteKind::Insert, &[(5, 5), (u64::MAX, 7)]).unwrap_err();
    assert_eq!(error.to_string(), format!("the key {} is there already; update it, or insert another", u64::MAX));
    let error = keyed.write(WriteKind::Insert, &[(5, 5), (5, 6)]).unwrap_err();
    assert!(matches!(error, WriteError::Duplicate { key: 5 }), "{error}");
    let many: Vec<(u64, u64)> = (2..1_000_000).map(|key| (random::mixed(key), key)).collect();
    let error = keyed.write(WriteKind::Upsert, &many).unwrap_err();
    assert!(error.to_string().contains("keys"), "{error}");
    assert_eq!(pairs_of(&keyed), [(1, 1), (u64::MAX, 2)]);
    assert_eq!(keyed.write(WriteKind::Upsert, &[]).unwrap(), 0);
    assert_eq!(keyed.write(WriteKind::Upsert, &many[..100]).unwrap(), 100);
}

#[test]
fn a_reader_that_stays_stops_no_writer_and_sees_what_it_saw() {
    let store = store(2);
    let keyed = store.create(100, 8);
    keyed.write(WriteKind::Insert, &[(1, 0), (99, 0)]).unwrap();
    let pin = store.pin();
    // More statements than one chunk of numbers has, all of one key, whose older values make one long chain.
    for round in 1..=10_000_u64 {
        keyed.write(WriteKind::Upsert, &[(1, round)]).unwrap();
    }
    let seen = |pin: &Pin| {
        let mut seen = None;
        keyed.lookup(&[1], pin, |_, value| seen = value);
        seen
    };
    assert_eq!((seen(&pin), seen(&store.pin())), (Some(0), Some(10_000)));
    drop(pin);
    keyed.write(WriteKind::Delete, &[(1, 0), (99, 0)]).unwrap();
    store.settle();
    store.settle();
    assert_eq!((keyed.used_bytes(), store.versions.open_writes()), (0, 0));
}

#[test]
fn statements_of_one_key_each_over_many_units_keep_no_numbers_that_others_need() {
    let store = store(40);
    let keyed = store.create(u64::MAX, 8);
    for number in 0..20_000_u64 {
        keyed.write(WriteKind::Upsert, &[(random::mixed(number), number)]).unwrap();
    }
    assert_eq!(keyed.len(), 20_000);
    // Nobody settles: what an object leaves behind goes with it.
    drop(keyed);
    assert_eq!(store.versions.open_writes(), 0);
}

#[test]
fn a_command_that_panics_fails_its_statement_and_leaves_the_partition_as_it_was() {
    let store = store(1);
    let keyed = store.create(u64::MAX, 8);
    keyed.write(WriteKind::Insert, &[(1, 10), (2, 20)]).unwrap();
    let request = Request::new(WriteKind::Upsert, 3, store.versions.begin().unwrap());
    {
        let mut state = store.token(0);
        // The third key has no value: the command panics after it has changed two keys.
        store.units[0].execute(&mut state, keyed.object.id, &request, &[1, 3, 2], &[11, 33]);
    }
    assert!(request.is_answered());
    let failure = request.end().unwrap_err();
    assert!(matches!(&failure, Failure::Panicked(text) if text.contains("out of bounds")), "{failure:?}");
    store.settle();
    assert_eq!(pairs_of(&keyed), [(1, 10), (2, 20)]);
    assert_eq!(keyed.write(WriteKind::Upsert, &[(3, 30)]).unwrap(), 1);
    assert_eq!(pairs_of(&keyed), [(1, 10), (2, 20), (3, 30)]);
}

#[test]
fn a_statement_over_several_objects_shows_all_of_them_or_none() {
    let store = store(3);
    let (one, other) = (store.create(u64::MAX, 8), store.create(u64::MAX, 8));
    let spread = |number: u64| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15), number);
    let pairs: Vec<(u64, u64)> = (0..100).map(spread).collect();
    let seen = || (pairs_of(&one).len(), pairs_of(&other).len());

    let mut statement = store.begin().unwrap();
    assert_eq!(statement.write(&one, WriteKind::Insert, &pairs).unwrap(), 100);
    assert_eq!(statement.write(&other, WriteKind::Insert, &pairs[..10]).unwrap(), 10);
    assert_eq!(seen(), (0, 0));
    let mut own = 0;
    one.range(0, u64::MAX, &statement.pin().unwrap(), |_, _| {
        own += 1;
        true
    });
    assert_eq!(own, 100, "a statement sees what it has written");
    statement.commit();
    assert_eq!(seen(), (100, 10));

    // Dropped, and failed in its second part.
    let mut statement = store.begin().unwrap();
    statement.write(&one, WriteKind::Delete, &pairs).unwrap();
    drop(statement);
    assert_eq!(seen(), (100, 10));
    let mut statement = store.begin().unwrap();
    statement.write(&one, WriteKind::Delete, &pairs).unwrap();
    let error = statement.write(&other, WriteKind::Insert, &pairs).unwrap_err();
    assert!(matches!(error, WriteError::Duplicate { .. }), "{error}");
    assert!(statement.pin().is_none());
    assert!(statement.write(&other, WriteKind::Delete, &pairs).is_err());
    drop(statement);
    assert_eq!(seen(), (100, 10));
    assert_eq!(other.write(WriteKind::Delete, &pairs).unwrap(), 10);
    drop(one);
    // Its number serves another object.
    let again = store.create(u64::MAX, 8);
    assert_eq!((pairs_of(&again).len(), pairs_of(&other).len()), (0, 0));
}

#[test]
fn a_statement_holds_the_keys_that_it_leaves_as_they_are() {
    for (kind, is_there) in [(WriteKind::Delete, false), (WriteKind::Update, false), (WriteKind::InsertMissing, true)] {
        let store = store(2);
        let keyed = store.create(9999, 8);
        let group = [(1, 5), (9000, 5)];
        if is_there {
            keyed.write(WriteKind::Insert, &group).unwrap();
        }
        let mut slow = store.begin().unwrap();
        assert_eq!(slow.write(&keyed, kind, &[(1, 6)]).unwrap(), 0);
        assert_eq!(slow.write(&keyed, kind, &[(1, 6)]).unwrap(), 0);
        for other in [WriteKind::Upsert, WriteKind::Delete, kind] {
            let mut statement = store.begin().unwrap();
            assert!(matches!(statement.write(&keyed, other, &group), Err(WriteError::Busy)), "{kind:?}, {other:?}");
        }
        assert_eq!(slow.write(&keyed, kind, &[(9000, 6)]).unwrap(), 0);
        slow.commit();
        assert_eq!(pairs_of(&keyed), if is_there { group.to_vec() } else { Vec::new() }, "{kind:?}");
        assert_eq!(keyed.write(WriteKind::Upsert, &group).unwrap(), 2);
        assert_eq!(keyed.write(WriteKind::Delete, &group).unwrap(), 2);
        store.settle();
        store.settle();
        assert_eq!((keyed.len(), keyed.used_bytes(), store.versions.open_writes()), (0, 0, 0), "{kind:?}");
    }
}
