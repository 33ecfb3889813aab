//! The tree against ordered maps, one per version.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use numa::{Allocator, Budget, Policy};
use random::Random;

use super::*;
use crate::versions::{Pin, Versions, Write};

type Model = BTreeMap<u64, u64>;

fn owner(bits: u32) -> (Owner, Arc<Versions>) {
    let versions = Versions::new();
    let arena = Arc::new(Arena::new(Allocator::unplaced()));
    (Owner::new(arena, Arc::clone(&versions), bits), versions)
}

/// How keys are drawn: what the tree does depends on how near to each other they lie.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys {
    Dense(u64),
    Random,
    /// A few places far apart, dense around each.
    Clusters,
    /// Few bits of the whole word.
    Bits,
}

impl Keys {
    pub(super) fn draw(self, random: &mut Random) -> u64 {
        match self {
            Keys::Dense(count) => random.below_u64(count),
            // Few enough that keys come again.
            Keys::Random => random::mixed(random.below_u64(3000)),
            Keys::Clusters => (random.below_u64(5) << 61 | random.below_u64(3) << 30)
                .wrapping_sub(40)
                .wrapping_add(random.below_u64(90)),
            Keys::Bits => (0..3).fold(0, |key, _| key | 1 << random.below_u64(64)),
        }
    }
}

/// A statement on its way, and what it has changed.
struct OpenWrite {
    write: Write,
    changes: BTreeMap<u64, Option<u64>>,
}

fn expect_same(tree: &Tree, pin: &Pin, model: &Model, random: &mut Random, keys: Keys) {
    let drawn: Vec<u64> = (0..70).map(|_| keys.draw(random)).collect();
    let mut places = 0;
    tree.get_many(&drawn, pin, |place, value| {
        assert_eq!(place, places);
        assert_eq!(value, model.get(&drawn[place]).copied(), "key {:#x}", drawn[place]);
        assert_eq!(value, tree.get(drawn[place], pin));
        places += 1;
    });
    assert_eq!(places, drawn.len());
    let mut ends = [keys.draw(random), keys.draw(random)];
    ends.sort_unstable();
    if random.one_in(8) {
        ends = [0, u64::MAX];
    }
    let limit = if random.one_in(3) { 1 + random.below(20) } else { usize::MAX };
    let mut found = Vec::new();
    tree.range(ends[0], ends[1], pin, |key, value| {
        found.push((key, value));
        found.len() < limit
    });
    let expected: Vec<_> = model.range(ends[0]..=ends[1]).map(|(key, value)| (*key, *value)).take(limit).collect();
    assert_eq!(found, expected, "{ends:x?}");
}

/// Random statements of one owner, several at a time, with readers that stay: each sees its version, and its own.
fn agrees_with_maps(seed: u64, keys: Keys, bits: u32, steps: usize) {
    let mut random = Random::new(seed);
    let (mut owner, versions) = owner(bits);
    let tree = Arc::clone(owner.tree());
    let mut committed = Model::new();
    let mut open: Vec<OpenWrite> = Vec::new();
    let mut pins: Vec<(Pin, Model)> = Vec::new();
    for _ in 0..steps {
        match random.below(20) {
            0 if open.len() < 4 => {
                open.push(OpenWrite { write: versions.begin().unwrap(), changes: BTreeMap::new() });
            }
            1 | 2 if !open.is_empty() => {
                let ended = open.swap_remove(random.below(open.len()));
                if random.one_in(3) {
                    drop(ended.write);
                } else {
                    ended.write.commit();
                    for (key, value) in ended.changes {
                        match value {
                            Some(value) => committed.insert(key, value),
                            None => committed.remove(&key),
                        };
                    }
                }
            }
            3 => owner.collect(),
            4 if pins.len() < 6 => pins.push((versions.pin(), committed.clone())),
            5 if !pins.is_empty() => drop(pins.swap_remove(random.below(pins.len()))),
            6 => {
                expect_same(&tree, &versions.pin(), &committed, &mut random, keys);
                if let Some((pin, model)) = random.choose(&(0..pins.len()).collect::<Vec<_>>()).map(|pin| &pins[pin]) {
                    expect_same(&tree, pin, model, &mut random, keys);
                }
                if let Some(own) = open.first() {
                    let mut model = committed.clone();
                    for (key, value) in &own.changes {
                        match value {
                            Some(value) => model.insert(*key, *value),
                            None => model.remove(key),
                        };
                    }
                    expect_same(&tree, &own.write.pin(), &model, &mut random, keys);
                }
            }
            _ if !open.is_empty() => {
                let by = random.below(open.len());
                let removes = random.one_in(2);
                for _ in 0..random.below(30) {
                    let key = keys.draw(&mut random);
                    let value = random.next_u64();
                    let change = match random.below(4) {
                        0 => Change::Insert(value),
                        1 => Change::Replace(value),
                        _ if removes => Change::Remove,
                        _ => Change::Put(value),
                    };
                    let is_busy =
                        open.iter().enumerate().any(|(other, open)| other != by && open.changes.contains_key(&key));
                    let own = open[by].changes.get(&key);
                    let before = own.copied().unwrap_or_else(|| committed.get(&key).copied());
                    match owner.change(key, change, &open[by].write) {
                        Err(ChangeError::Busy) => assert!(is_busy),
                        Err(error) => panic!("{error:?}"),
                        Ok(given) => {
                            assert!(!is_busy);
                            assert_eq!(given, before);
                            let after = match (change, before) {
                                // It stays, and is the statement's until that ends.
                                (Change::Insert(_), Some(_)) | (Change::Replace(_) | Change::Remove, None) => before,
                                (Change::Remove, _) => None,
                                (Change::Put(value) | Change::Insert(value) | Change::Replace(value), _) => Some(value),
                            };
                            open[by].changes.insert(key, after);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    drop((open, pins));
    owner.collect();
    owner.collect();
    expect_same(&tree, &versions.pin(), &committed, &mut random, keys);
    assert_eq!(tree.len(), committed.len() as u64);
    assert_eq!((owner.changes_kept(), versions.open_writes()), (0, 0));
    let write = versions.begin().unwrap();
    for key in committed.keys() {
        owner.change(*key, Change::Remove, &write).unwrap();
    }
    write.commit();
    owner.collect();
    owner.collect();
    assert_eq!((tree.len(), owner.used_bytes()), (0, 0), "{keys:?}");
}

#[test]
fn statements_and_readers_see_what_ordered_maps_have() {
    for keys in [Keys::Dense(400), Keys::Dense(9000), Keys::Random, Keys::Clusters, Keys::Bits] {
        for bits in [1, 4, 8] {
            for number in 0..crate::scale::times(2) {
                agrees_with_maps(crate::scale::seed() + number, keys, bits, 2000);
            }
        }
    }
}

#[test]
fn dense_pairs_take_at_most_the_bytes_of_the_paper() {
    let (mut owner, versions) = owner(8);
    for order in [false, true] {
        let write = versions.begin().unwrap();
        let mut keys: Vec<u64> = (0..60_000).map(|key| key + 60_000 * u64::from(order)).collect();
        if order {
            Random::new(1).shuffle(&mut keys);
        }
        owner.change_many(&keys, |_| Change::Put(1), &write, |_, before| assert_eq!(before, None)).unwrap();
        write.commit();
        owner.collect();
        owner.collect();
        let bytes = owner.used_bytes() as f64 / owner.tree().len() as f64;
        assert!(bytes < 12.0, "{bytes} bytes per pair");
    }
}

#[test]
fn a_statement_that_finds_no_memory_leaves_nothing_behind() {
    let versions = Versions::new();
    let budget = Budget::new("keys", 2 << 20);
    let arena = Arc::new(Arena::new(Allocator::new(Policy::Local, budget)));
    let mut owner = Owner::new(arena, Arc::clone(&versions), 8);
    let write = versions.begin().unwrap();
    let keys: Vec<u64> = (0..1_000_000).map(random::mixed).collect();
    let mut done = 0;
    let (place, error) = owner.change_many(&keys, |_| Change::Put(1), &write, |_, _| done += 1).unwrap_err();
    assert!(matches!(error, ChangeError::Memory(_)), "{error:?}");
    assert!(place == done && place > 1000, "{place}");
    drop(write);
    owner.collect();
    owner.collect();
    assert_eq!((owner.tree().len(), owner.used_bytes(), versions.open_writes()), (0, 0, 0));
    // What is left of the budget serves the next statement.
    let write = versions.begin().unwrap();
    owner.change(1, Change::Put(1), &write).unwrap();
    write.commit();
    assert_eq!(owner.tree().get(1, &versions.pin()), Some(1));
}

#[test]
fn readers_see_whole_statements_while_the_owner_writes() {
    const KEYS: u64 = 2000;
    let (mut owner, versions) = owner(8);
    let tree = Arc::clone(owner.tree());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (tree, versions, stop) = (&tree, &versions, &stop);
            scope.spawn(move || {
                let mut random = Random::new(reader);
                let mut reads = 0_u64;
                while !stop.load(Ordering::Relaxed) || reads < 50 {
                    let pin = versions.pin();
                    // All keys there are have one value, and there are none or all of a kind.
                    let mut values = std::collections::BTreeSet::new();
                    let mut count = 0;
                    tree.range(0, u64::MAX, &pin, |_, value| {
                        values.insert(value);
                        count += 1;
                        true
                    });
                    assert!(values.len() <= 1, "{values:?}");
                    assert!(count == 0 || count == KEYS, "{count}");
                    let key = random::mixed(random.below_u64(KEYS));
                    assert_eq!(tree.get(key, &pin), values.first().copied());
                    reads += 1;
                }
            });
        }
        for round in 0..60 {
            let write = versions.begin().unwrap();
            for number in 0..KEYS {
                let change = if round % 5 == 4 { Change::Remove } else { Change::Put(round) };
                owner.change(random::mixed(number), change, &write).unwrap();
            }
            if round % 7 == 6 {
                drop(write);
            } else {
                write.commit();
            }
            owner.collect();
        }
        stop.store(true, Ordering::Relaxed);
    });
}
