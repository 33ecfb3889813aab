//! Reads by commands: against ordered maps beside balancing, with nobody to take results, with full inboxes, and with
//! callbacks that do what they must not.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use numa::{Allocator, Budget, NodeId, Policy};
use random::Random;

use super::*;
use crate::balancer::Algorithm;
use crate::journal::Event;
use crate::request::WriteKind;
use crate::routing::outgoing::{SENDER_WORDS, UNITS_MAX};
use crate::scale;
use crate::store::{SendError, UnitPlace, WriteError};
use crate::versions::PINS_MAX;

/// Longer than anything takes on a machine that does other things too.
const LIMIT: Duration = Duration::from_secs(60);

/// Four units on two nodes by name, with incoming buffers of so many words.
fn store_of(words: usize) -> Arc<Store> {
    let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::unplaced() };
    Store::with_buffers([0, 0, 1, 1].map(place).to_vec(), words).unwrap()
}

fn store() -> Arc<Store> {
    store_of(crate::unit::BUFFER_WORDS)
}

fn filled(store: &Arc<Store>, keys: u64) -> Keyed {
    let keyed = store.create(keys - 1, 8);
    let pairs: Vec<(u64, u64)> = (0..keys).map(|key| (key, key + 1)).collect();
    keyed.write(WriteKind::Insert, &pairs).unwrap();
    keyed
}

/// Counts what it is told, and checks that values are those of [`filled`].
#[derive(Default)]
struct Counted {
    values: AtomicU64,
    pairs: AtomicU64,
    calls: AtomicU64,
}

impl Callback for Counted {
    fn values(&self, _: u64, keys: &[u64], values: &[Option<u64>]) {
        assert!(keys.iter().zip(values).all(|(key, value)| *value == Some(key + 1)), "{keys:?}: {values:?}");
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.values.fetch_add(keys.len() as u64, Ordering::Relaxed);
    }

    fn pairs(&self, _: u64, part: Part, pairs: &[(u64, u64)]) {
        assert!(pairs.iter().all(|(key, value)| key + 1 == *value && part.first <= *key && *key <= part.last));
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.pairs.fetch_add(pairs.len() as u64, Ordering::Relaxed);
    }
}

impl Counted {
    fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }
}

fn until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < LIMIT, "it does not happen");
        std::thread::yield_now();
    }
}

#[test]
fn the_rule_sends_large_batches_to_other_nodes_and_nothing_else() {
    let rule = look_up_goes_by_commands;
    assert!(rule(Route::Commands, 1, 1, 1, false) && !rule(Route::Direct, 1 << 20, 8, 8, true));
    assert!(rule(Route::Auto, 4 * KEYS_PER_UNIT, 4, 2, true));
    assert!(!rule(Route::Auto, 4 * KEYS_PER_UNIT - 1, 4, 2, true), "too few");
    assert!(!rule(Route::Auto, 1 << 20, 4, 1, true), "one node");
    assert!(!rule(Route::Auto, 1 << 20, 4, 2, false), "nobody is there");
    for (route, name) in ROUTES {
        assert_eq!((route.to_string(), name.parse()), (name.to_owned(), Ok(route)));
    }
    assert!("command".parse::<Route>().unwrap_err().contains("auto, direct or commands"));
}

#[test]
fn both_ways_tell_what_an_ordered_map_has() {
    for units in [1, 3, 8] {
        let place = UnitPlace { node: None, allocator: Allocator::unplaced() };
        let store = Store::new(vec![place; units]).unwrap();
        let keyed = store.create(9999, 8);
        let mut random = Random::new(units as u64);
        let pairs: Vec<(u64, u64)> = (0..4000).map(|_| (random.below_u64(12_000), random.next_u64())).collect();
        keyed.write(WriteKind::Upsert, &pairs).unwrap();
        let model: BTreeMap<u64, u64> = pairs.into_iter().collect();
        for route in [Route::Direct, Route::Commands] {
            store.set_route(route);
            assert_eq!(store.route(), route);
            for keys in [0, 1, 2, 100, WINDOW_KEYS + 1, 3 * WINDOW_KEYS] {
                let keys: Vec<u64> = (0..keys).map(|_| random.below_u64(12_000)).collect();
                let mut seen = vec![0; keys.len()];
                keyed.lookup(&keys, &store.pin(), |place, value| {
                    assert_eq!(value, model.get(&keys[place]).copied());
                    seen[place] += 1;
                });
                assert!(seen.iter().all(|times| *times == 1));
            }
            for (first, last) in
                [(0, u64::MAX), (0, 0), (5000, 5100), (9, 3), (11_999, 12_500), (777, 777), (100, 9000)]
            {
                for limit in [1, 100, usize::MAX] {
                    let mut pairs = Vec::new();
                    keyed.range(first, last, &store.pin(), |key, value| {
                        pairs.push((key, value));
                        pairs.len() < limit
                    });
                    let own = model.iter().filter(|(key, _)| first <= **key && **key <= last);
                    let expected: Vec<(u64, u64)> = own.map(|(key, value)| (*key, *value)).take(limit).collect();
                    assert_eq!(pairs, expected, "{first} to {last}, {limit}");
                }
            }
        }
        assert!(store.counts().iter().all(|counts| counts.commands > 0));
    }
}

#[test]
fn many_look_ups_of_one_buffer_are_one_batch_and_each_sees_its_own_state() {
    let store = store();
    let keyed = store.create(3999, 8);
    keyed.write(WriteKind::Insert, &[(5, 1), (6, 1), (7, 1)]).unwrap();
    let pins: Vec<Pin> = (2..=4)
        .map(|value| {
            let pin = store.pin();
            keyed.write(WriteKind::Update, &[(5, value), (7, value)]).unwrap();
            pin
        })
        .collect();
    struct Seen(Mutex<Vec<(u64, Option<u64>)>>);
    impl Callback for Seen {
        fn values(&self, tag: u64, keys: &[u64], values: &[Option<u64>]) {
            assert_eq!(keys.len(), values.len());
            self.0.lock().extend((tag..).zip(values.iter().copied()));
        }

        fn pairs(&self, _: u64, _: Part, _: &[(u64, u64)]) {
            panic!("nothing is scanned");
        }
    }
    let seen: Vec<Arc<Seen>> = pins.iter().map(|_| Arc::new(Seen(Mutex::default()))).collect();
    let mut senders: Vec<_> =
        pins.iter().zip(&seen).map(|(pin, seen)| keyed.sender(pin, Arc::clone(seen) as _, 1000).unwrap()).collect();
    let token = store.token(0);
    for tag in [10, 20] {
        senders.iter_mut().for_each(|sender| sender.look_up(tag, &[5, 6, 7, 8]));
    }
    // All of it lies in the inbox of one unit, and is taken at once.
    senders.iter_mut().for_each(|sender| sender.flush());
    drop(token);
    for (number, sender) in senders.iter_mut().enumerate() {
        sender.wait().unwrap();
        let value = Some(number as u64 + 1);
        let mut seen = seen[number].0.lock();
        seen.sort_unstable();
        let of = |tag| [(tag, value), (tag + 1, Some(1)), (tag + 2, value), (tag + 3, None)];
        assert_eq!(*seen, [of(10), of(20)].concat());
    }
}

#[test]
fn reads_see_what_ordered_maps_have_while_ranges_move_and_statements_fail() {
    const KEYS: u64 = 12_000;
    let seed = scale::seed();
    let store = store();
    store.set_route(Route::Commands);
    let journal = Arc::clone(&store.units[0].journal.1);
    journal.turn_on();
    let keyed = store.create(KEYS - 1, 8);
    let table = keyed.object.balancing.lock().table.clone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut random = Random::new(seed + 50);
            let mut moved = 0;
            while !stop.load(Ordering::Relaxed) {
                let first = random.below_u64(KEYS);
                let last = random.pick(&[first, first + 50, first + 4000, u64::MAX]);
                let result = match random.below(4) {
                    0 => keyed.balance(Algorithm::OneShot).map(|cycle| cycle.moved),
                    _ => keyed.move_range(first, last, random.below(4)),
                };
                match result {
                    Ok(ranges) => moved += ranges.len(),
                    Err(_) => moved += keyed.move_range(0, u64::MAX, random.below(4)).unwrap().len(),
                }
            }
            moved
        });
        let workers: Vec<_> = (0..3_u64)
            .map(|number| {
                let (keyed, store, journal) = (&keyed, &store, &journal);
                scope.spawn(move || read_and_write(keyed, store, journal, number, seed))
            })
            .collect();
        let models: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(mover.join().unwrap() > 20, "ranges moved");
        models.into_iter().for_each(|model| model.unwrap());
    });
    assert!(journal.check(table).unwrap() > 0);
    assert_eq!(store.requests.slots.read().iter().flatten().count(), 0, "every request has left");
}

/// Writes keys that are its number modulo 3, some of them in vain, and reads them by commands in all ways.
fn read_and_write(keyed: &Keyed, store: &Store, journal: &crate::journal::Journal, number: u64, seed: u64) {
    let mut random = Random::new(seed + number);
    let mut model = BTreeMap::new();
    for round in 0..scale::times(60) {
        let size = 1 + random.below(200);
        let pairs: Vec<(u64, u64)> =
            (0..size).map(|_| (random.below_u64(4000) * 3 + number, random.next_u64())).collect();
        let kind = random.pick(&[WriteKind::Upsert, WriteKind::Insert, WriteKind::Delete]);
        match (keyed.write(kind, &pairs), kind) {
            (Ok(_), WriteKind::Delete) => pairs.iter().for_each(|pair| _ = model.remove(&pair.0)),
            (Ok(_), _) => model.extend(pairs),
            (Err(WriteError::Duplicate { .. }), WriteKind::Insert) => {}
            (Err(error), _) => panic!("{error}"),
        }
        let pin = store.pin();
        let keys: Vec<u64> = (0..random.below(600)).map(|_| random.below_u64(4000) * 3 + number).collect();
        let mut seen = 0;
        keyed.lookup(&keys, &pin, |place, value| {
            assert_eq!(value, model.get(&keys[place]).copied(), "key {}", keys[place]);
            seen += 1;
        });
        assert_eq!(seen, keys.len());
        if round % 4 == 0 {
            let mut pairs = Vec::new();
            keyed.range(0, u64::MAX, &pin, |key, value| {
                if key % 3 == number {
                    pairs.push((key, value));
                }
                true
            });
            assert!(pairs.into_iter().eq(model.iter().map(|(key, value)| (*key, *value))));
        }
        // One key per command; the journal is told what was asked and that all was answered. It wants an order for
        // commands of one key, which reads do not have.
        let keys: Vec<u64> = std::collections::BTreeSet::from_iter(keys).into_iter().collect();
        let told = Arc::new(Told::default());
        let mut sender = keyed.sender(&pin, Arc::clone(&told) as _, 1 + random.below(20)).unwrap();
        let request = sender.id();
        journal.record(|| Event::Began { request, pairs: keys.iter().copied().zip(0..).collect() });
        for (tag, key) in keys.iter().enumerate() {
            sender.look_up(tag as u64, &[*key]);
        }
        sender.wait().unwrap();
        journal.record(|| Event::Committed { request });
        let mut told = std::mem::take(&mut *told.0.lock());
        told.sort_unstable();
        let expected = keys.iter().enumerate().map(|(tag, key)| (tag as u64, model.get(key).copied()));
        assert!(told.into_iter().eq(expected));
    }
}

/// The value of each tag.
#[derive(Default)]
struct Told(Mutex<Vec<(u64, Option<u64>)>>);

impl Callback for Told {
    fn values(&self, tag: u64, _: &[u64], values: &[Option<u64>]) {
        self.0.lock().extend((tag..).zip(values.iter().copied()));
    }

    fn pairs(&self, _: u64, _: Part, _: &[(u64, u64)]) {
        panic!("nothing is scanned");
    }
}

/// A look-up and a scan that were sent before a part of their keys moved; what they were told, and what the journal
/// finds.
fn send_and_move(executes_what_moved: bool) -> (u64, u64, Result<usize, String>) {
    let store = store();
    let keyed = filled(&store, 4000);
    let table = keyed.object.balancing.lock().table.clone();
    let journal = Arc::clone(&store.units[0].journal.1);
    let counted = Arc::new(Counted::default());
    let pin = store.pin();
    let mut sender = keyed.sender(&pin, Arc::clone(&counted) as _, 100).unwrap();
    journal.turn_on();
    journal.executes_what_moved.store(executes_what_moved, Ordering::Relaxed);
    sender.look_up(0, &[5, 7, 300]);
    sender.scan(1, 0, 1999, usize::MAX);
    // The routing table is older than what lies in the outgoing buffers.
    keyed.move_range(0, 6, 3).unwrap();
    sender.flush();
    let result = sender.wait();
    assert!(executes_what_moved || result.is_ok());
    (counted.values(), counted.pairs.load(Ordering::Relaxed), journal.check(table))
}

#[test]
fn reads_of_what_has_moved_are_told_by_its_owner_once() {
    let (values, pairs, found) = send_and_move(false);
    assert_eq!((values, pairs), (3, 2000));
    found.unwrap();
}

#[test]
fn the_checker_finds_reads_of_what_has_moved() {
    let (_, _, found) = send_and_move(true);
    assert_eq!(found.unwrap_err(), "unit 0 executed key 5 of unit 3");
}

#[test]
fn the_checker_finds_a_scan_of_another_units_keys() {
    let journal = crate::journal::Journal::default();
    journal.turn_on();
    journal.record(|| Event::Scanned { unit: 0, first: 3, last: 9 });
    let table = crate::routing::table::RangeTable::new(vec![0, 10]).unwrap();
    assert!(journal.check(table.clone()).is_ok());
    journal.record(|| Event::Moved { first: 8, last: 8, to: 1 });
    journal.record(|| Event::Scanned { unit: 0, first: 3, last: 9 });
    assert_eq!(journal.check(table).unwrap_err(), "unit 0 scanned 3 to 9, where keys are unit 1's");
}

#[test]
fn full_inboxes_of_units_that_are_busy_hold_up_nobody_for_ever() {
    // An inbox holds twelve look-ups of one key. Two threads fill that of the other's unit while they hold their own
    // unit now and then; a third one has the balancer's two tokens.
    let store = store_of(64);
    let keyed = filled(&store, 4000);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let mut moved = 0;
            while !stop.load(Ordering::Relaxed) {
                moved += keyed.move_range(1990, 2010, moved % 4).unwrap().len().max(1);
            }
        });
        let senders: Vec<_> = [0, 3]
            .map(|own| {
                let (store, keyed) = (&store, &keyed);
                scope.spawn(move || {
                    let counted = Arc::new(Counted::default());
                    let pin = store.pin();
                    let mut sender = keyed.sender(&pin, Arc::clone(&counted) as _, 8).unwrap();
                    for round in 0..3000_u64 {
                        // The other's keys, and a scan over all.
                        sender.look_up(round, &[(3 - own as u64) * 1000 + round % 1000]);
                        if round % 100 == 0 {
                            drop(store.token(own));
                            sender.scan(round, 0, u64::MAX, 1);
                        }
                    }
                    sender.wait().unwrap();
                    assert_eq!(counted.values(), 3000);
                })
            })
            .into_iter()
            .collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        mover.join().unwrap();
    });
}

#[test]
fn a_sender_sleeps_while_an_inbox_is_full_and_a_writer_until_it_is_answered() {
    let store = store_of(64);
    let keyed = filled(&store, 4000);
    let pin = store.pin();
    let token = store.token(0);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let counted = Arc::new(Counted::default());
            let mut sender = keyed.sender(&pin, Arc::clone(&counted) as _, 1).unwrap();
            (0..100).for_each(|key| sender.look_up(key, &[key]));
            sender.wait().unwrap();
            counted.values()
        });
        until(|| store.units[0].senders_asleep() > 0);
        let writer = scope.spawn(|| keyed.write(WriteKind::Update, &[(7, 8)]).unwrap());
        // Both sleep before the token is given back; who has it executes what came.
        until(|| {
            store.requests.slots.read().iter().flatten().any(|sent| match sent {
                crate::unit::Sent::Write(request) => request.has_sleeper(),
                crate::unit::Sent::Read(_) => false,
            }) || store.units[0].senders_asleep() > 1
        });
        drop(token);
        assert_eq!((sender.join().unwrap(), writer.join().unwrap()), (100, 1));
    });
    assert_eq!(store.units[0].senders_asleep(), 0);
}

#[test]
fn a_consumer_that_stops_holds_up_nobody_and_nothing_piles_up() {
    let budget = Budget::new("consumer", 256 << 20);
    let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::new(Policy::Local, budget.clone()) };
    let store = Store::new([0, 1].map(place).to_vec()).unwrap();
    let keyed = filled(&store, 200_000);
    store.settle();
    let pin = store.pin();
    let (stopped, other) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
    let mut stops = keyed.sender(&pin, Arc::clone(&stopped) as _, 1000).unwrap();
    // It asks for 10 pairs of each unit, and for a key; sends; and does not come back.
    stops.scan(0, 0, u64::MAX, 10);
    stops.look_up(1, &[5]);
    stops.flush();
    stops.look_up(2, &[6]);
    let mut goes_on = keyed.sender(&pin, Arc::clone(&other) as _, 1000).unwrap();
    let used = budget.used_bytes();
    for round in 0..20 {
        (0..5000).for_each(|number| goes_on.look_up(number, &[random::mixed(round << 32 | number) % 200_000]));
        goes_on.wait().unwrap();
        keyed.write(WriteKind::Update, &[(round, round + 1)]).unwrap();
    }
    assert_eq!(other.values(), 100_000);
    assert_eq!((stopped.pairs.load(Ordering::Relaxed), stopped.values()), (20, 1), "as much as it has asked for");
    assert!(budget.used_bytes() <= used + (1 << 20), "{} bytes became {}", used, budget.used_bytes());
    drop(stops);
    assert_eq!(stopped.values(), 1, "what was never sent is not executed");
    drop(goes_on);
    store.settle();
    assert_eq!(store.senders_made(), 0);
}

#[test]
fn outgoing_buffers_are_bounded_and_who_finds_none_reads_directly() {
    let budget = Budget::new("senders", 256 << 20);
    let place = UnitPlace { node: None, allocator: Allocator::new(Policy::Local, budget.clone()) };
    let store = Store::new(vec![place; 2]).unwrap();
    let keyed = filled(&store, 1000);
    store.set_route(Route::Commands);
    let pin = store.pin();
    let before = budget.used_bytes();
    let mut senders = Vec::new();
    let error = loop {
        match keyed.sender(&pin, Arc::new(Counted::default()), 1) {
            Ok(sender) => senders.push(sender),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SendError::NoBuffers { senders: 12 }), "{error}");
    assert_eq!((senders.len(), store.senders_made()), (12, 12));
    let most = 12 * (SENDER_WORDS + 2 * WINDOW_KEYS) as u64 * 8;
    let used = budget.used_bytes() - before;
    assert!((most..=most + most / 4).contains(&used), "{used}, windows and all, of {most}");
    let commands = store.counts()[0].commands;
    keyed.lookup(&[1, 2], &pin, |place, value| assert_eq!(value, Some(place as u64 + 2)));
    keyed.range(3, 3, &pin, |_, value| {
        assert_eq!(value, 4);
        true
    });
    assert_eq!(store.counts()[0].commands, commands);
    // Given back, they are lent again.
    senders.clear();
    keyed.lookup(&[1, 2], &pin, |place, value| assert_eq!(value, Some(place as u64 + 2)));
    assert_eq!((store.counts()[0].commands, store.senders_made()), (commands + 1, 12));
    drop(store);
}

#[test]
fn no_memory_for_buffers_is_said_and_look_ups_are_direct() {
    let budget = Budget::new("small", 1 << 20);
    let place = UnitPlace { node: None, allocator: Allocator::new(Policy::Local, budget.clone()) };
    let store = Store::new(vec![place; 2]).unwrap();
    let keyed = filled(&store, 100);
    store.set_route(Route::Commands);
    let error = keyed.sender(&store.pin(), Arc::new(Counted::default()), 1).unwrap_err();
    assert!(matches!(&error, SendError::Memory(_)) && error.to_string().contains("small"), "{error}");
    assert_eq!(store.senders_made(), 0);
    keyed.lookup(&[1, 99], &store.pin(), |_, value| assert!(value.is_some()));
}

#[test]
fn a_callback_that_panics_fails_its_own_reads_only() {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    struct Panics;
    impl Callback for Panics {
        fn values(&self, _: u64, keys: &[u64], _: &[Option<u64>]) {
            assert_ne!(keys, [13], "thirteen");
        }

        fn pairs(&self, _: u64, _: Part, _: &[(u64, u64)]) {
            TOLD.fetch_add(1, Ordering::Relaxed);
            panic!("no pairs");
        }
    }
    let store = store();
    let keyed = filled(&store, 4000);
    let pin = store.pin();
    let counted = Arc::new(Counted::default());
    let mut other = keyed.sender(&pin, Arc::clone(&counted) as _, 100).unwrap();
    let mut panics = keyed.sender(&pin, Arc::new(Panics), 100).unwrap();
    let token = store.token(0);
    for key in 10..20 {
        panics.look_up(key, &[key]);
        other.look_up(key, &[key]);
    }
    panics.flush();
    other.flush();
    drop(token);
    other.wait().unwrap();
    assert_eq!(counted.values(), 10);
    assert!(panics.wait().unwrap_err().to_string().contains("thirteen"));
    drop(panics);
    let mut panics = keyed.sender(&pin, Arc::new(Panics), 100).unwrap();
    (0..20).for_each(|tag| panics.scan(tag, 0, 10, 5));
    assert_eq!(panics.wait().unwrap_err().to_string(), "a command failed: no pairs");
    assert_eq!(TOLD.load(Ordering::Relaxed), 1, "who has panicked is told no more");
    assert_eq!(keyed.write(WriteKind::Update, &[(13, 14)]).unwrap(), 1);
}

#[test]
fn callbacks_read_directly_and_may_neither_send_nor_write() {
    struct Reads {
        keyed: Arc<Keyed>,
        writes: bool,
        value: AtomicU64,
    }
    impl Callback for Reads {
        fn values(&self, _: u64, _: &[u64], _: &[Option<u64>]) {
            let pin = self.keyed.store().pin();
            assert!(matches!(self.keyed.sender(&pin, Arc::new(Counted::default()), 1), Err(SendError::InCallback)));
            let set = |_, value: Option<u64>| self.value.store(value.unwrap_or(0), Ordering::Relaxed);
            self.keyed.lookup(&[6], &pin, set);
            if self.writes {
                let _ = self.keyed.write(WriteKind::Update, &[(5, 6)]);
            }
        }

        fn pairs(&self, _: u64, _: Part, _: &[(u64, u64)]) {}
    }
    let store = store();
    store.set_route(Route::Commands);
    let keyed = Arc::new(filled(&store, 4000));
    for writes in [false, true] {
        let reads = Arc::new(Reads { keyed: Arc::clone(&keyed), writes, value: AtomicU64::new(0) });
        let pin = store.pin();
        let mut sender = keyed.sender(&pin, Arc::clone(&reads) as _, 1).unwrap();
        sender.look_up(0, &[5]);
        let result = sender.wait();
        assert_eq!(reads.value.load(Ordering::Relaxed), 7);
        assert_eq!(result.is_err(), writes, "{result:?}");
        drop(sender);
    }
}

#[test]
fn workers_are_called_once_for_an_inbox_that_nobody_serves() {
    let store = store();
    let keyed = filled(&store, 4000);
    type Call = (usize, Box<dyn FnOnce() + Send>);
    let jobs: Arc<Mutex<Vec<Call>>> = Arc::default();
    let called = Arc::clone(&jobs);
    store.serve_by(Box::new(move |unit, job| {
        called.lock().push((unit, job));
        true
    }));
    let pin = store.pin();
    let counted = Arc::new(Counted::default());
    let mut sender = keyed.sender(&pin, Arc::clone(&counted) as _, 1).unwrap();
    sender.call_workers();
    for key in [5, 6, 3500, 7] {
        sender.look_up(key, &[key]);
    }
    let calls = std::mem::take(&mut *jobs.lock());
    assert_eq!(calls.iter().map(|call| call.0).collect::<Vec<_>>(), [0, 3], "each unit's worker once");
    assert_eq!(counted.values(), 0, "the sender leaves it to them");
    calls.into_iter().for_each(|(_, job)| job());
    assert_eq!(counted.values(), 4);
    sender.look_up(8, &[8]);
    assert_eq!(jobs.lock().len(), 1, "a worker that has come is called again");
    // Nobody comes: the sender that waits does it itself.
    sender.wait().unwrap();
    assert_eq!(counted.values(), 5);
    drop(sender);
    // A worker that comes late finds nothing, or no store.
    let late = std::mem::take(&mut *jobs.lock());
    drop((pin, keyed, store));
    late.into_iter().for_each(|(_, job)| job());
}

#[test]
fn workers_of_a_scheduler_that_all_wait_for_each_other_are_answered() {
    let config = sched::Config { threads: Some(2), ..sched::Config::default() };
    let scheduler = sched::Scheduler::new(Arc::new(numa::Topology::discover().unwrap()), config);
    let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::unplaced() };
    let store = Store::new([0, 1].map(place).to_vec()).unwrap();
    store.serve_on(&scheduler);
    store.set_route(Route::Auto);
    let keyed = filled(&store, 20_000);
    let statement = sched::Statement::new(1, Budget::unlimited());
    let body = |task: usize| {
        let mut random = Random::new(task as u64);
        for _ in 0..20 {
            let keys: Vec<u64> = (0..2 * KEYS_PER_UNIT).map(|_| random.below_u64(20_000)).collect();
            keyed.lookup(&keys, &store.pin(), |place, value| assert_eq!(value, Some(keys[place] + 1)));
        }
    };
    let affinity = |slot: usize| sched::Affinity::Slot(sched::SlotId(slot as u32 % 2));
    scheduler.parallel_for(&statement, 4, &affinity, &body).unwrap();
    assert!(store.counts().iter().all(|counts| counts.keys >= 20_000), "{:?}", store.counts());
}

#[test]
fn readers_that_have_all_places_read_directly_and_do_not_wait_for_each_other() {
    let (done, is_done) = std::sync::mpsc::channel();
    // Not joined: with the fault it never ends.
    std::thread::spawn(move || {
        let store = store();
        store.set_route(Route::Commands);
        let keyed = filled(&store, 4000);
        let mut pins: Vec<Pin> = (0..PINS_MAX).map(|_| store.pin()).collect();
        let before = store.counts();
        let error = keyed.sender(&pins[0], Arc::new(Counted::default()), 1).unwrap_err();
        assert!(matches!(error, SendError::NoPlace) && error.to_string().contains("all 512 places"), "{error}");
        assert_eq!(store.senders_made(), 0, "nothing is kept of who was refused");
        let mut seen = 0;
        keyed.lookup(&[5, 3500], &pins[1], |_, value| seen += value.unwrap());
        keyed.range(7, 8, &pins[2], |_, value| {
            seen += value;
            true
        });
        assert_eq!((seen, store.counts()), (6 + 3501 + 8 + 9, before.clone()));
        // With one place free it goes by commands.
        pins.pop();
        keyed.lookup(&[5], &pins[1], |_, value| assert_eq!(value, Some(6)));
        assert_ne!(store.counts(), before);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LIMIT).expect("who has a pin waits for nobody's, and reads");
}

#[test]
fn stores_of_more_units_than_buffers_are_for_read_directly() {
    for units in [UNITS_MAX, UNITS_MAX + 1] {
        let place = UnitPlace { node: None, allocator: Allocator::unplaced() };
        let store = Store::with_buffers(vec![place; units], 32).unwrap();
        store.set_route(Route::Commands);
        let keys = 2 * units as u64;
        let keyed = filled(&store, keys);
        let pin = store.pin();
        let commands = || store.counts().iter().map(|counts| counts.commands).sum::<u64>();
        let before = commands();
        if units > UNITS_MAX {
            let error = keyed.sender(&pin, Arc::new(Counted::default()), 1).unwrap_err();
            assert!(matches!(error, SendError::TooManyUnits { units: 2731 }), "{error}");
        }
        let all: Vec<u64> = (0..keys).collect();
        let mut seen = 0;
        keyed.lookup(&all, &pin, |place, value| {
            assert_eq!(value, Some(place as u64 + 1));
            seen += 1;
        });
        assert_eq!(seen, keys);
        let mut next = 0;
        keyed.range(0, u64::MAX, &pin, |key, value| {
            assert_eq!((key, value), (next, next + 1));
            next += 1;
            true
        });
        assert_eq!(next, keys);
        assert_eq!(commands() > before, units == UNITS_MAX);
    }
}

#[test]
fn workers_that_have_gone_are_called_once_and_senders_serve() {
    let store = store();
    let keyed = filled(&store, 4000);
    let calls = Arc::new(AtomicU64::new(0));
    let called = Arc::clone(&calls);
    store.serve_by(Box::new(move |_, _| {
        called.fetch_add(1, Ordering::Relaxed);
        false
    }));
    assert!(store.is_served() && keyed.looks_up_by_commands(4 * KEYS_PER_UNIT));
    let pin = store.pin();
    let counted = Arc::new(Counted::default());
    let mut sender = keyed.sender(&pin, Arc::clone(&counted) as _, 1).unwrap();
    sender.call_workers();
    for (count, key) in [5, 6, 3500].into_iter().enumerate() {
        sender.look_up(key, &[key]);
        assert_eq!(counted.values(), count as u64 + 1, "at once, before the sender waits");
    }
    assert!((0..4).all(|unit| !sender.is_coming_for(unit)), "nobody is waited for");
    sender.wait().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(!store.is_served() && !keyed.looks_up_by_commands(4 * KEYS_PER_UNIT));
}

#[test]
fn a_call_that_was_dropped_is_made_again_and_not_waited_for() {
    let store = store();
    let keyed = filled(&store, 4000);
    type Call = (usize, Box<dyn FnOnce() + Send>);
    let jobs: Arc<Mutex<Vec<Call>>> = Arc::default();
    let drops = Arc::new(AtomicBool::new(true));
    let (called, is_dropping) = (Arc::clone(&jobs), Arc::clone(&drops));
    store.serve_by(Box::new(move |unit, job| {
        if !is_dropping.load(Ordering::Relaxed) {
            called.lock().push((unit, job));
        }
        true
    }));
    let pin = store.pin();
    let counted = Arc::new(Counted::default());
    let mut sender = keyed.sender(&pin, Arc::clone(&counted) as _, 1).unwrap();
    sender.call_workers();
    // Dropped at once: the sender does it.
    sender.look_up(5, &[5]);
    assert_eq!((counted.values(), store.is_served()), (1, true));
    // Taken, and dropped later: the sender that waits does it, and the next one is called.
    drops.store(false, Ordering::Relaxed);
    sender.look_up(6, &[6]);
    assert!(sender.is_coming_for(0) && counted.values() == 1);
    jobs.lock().clear();
    assert!(!sender.is_coming_for(0));
    sender.wait().unwrap();
    assert_eq!(counted.values(), 2);
    sender.look_up(7, &[7]);
    let calls = std::mem::take(&mut *jobs.lock());
    assert_eq!((calls.len(), counted.values()), (1, 2));
    calls.into_iter().for_each(|(_, job)| job());
    assert_eq!(counted.values(), 3);
}

#[test]
fn a_scheduler_that_has_gone_serves_nobody() {
    let config = sched::Config { threads: Some(2), ..sched::Config::default() };
    let scheduler = sched::Scheduler::new(Arc::new(numa::Topology::discover().unwrap()), config);
    let store = store();
    store.serve_on(&scheduler);
    let keyed = filled(&store, 20_000);
    let keys: Vec<u64> = (0..4 * KEYS_PER_UNIT as u64).map(|number| number * 9).collect();
    let look_up = || keyed.lookup(&keys, &store.pin(), |place, value| assert_eq!(value, Some(keys[place] + 1)));
    look_up();
    drop(scheduler);
    look_up();
    assert!(!store.is_served());
    let commands = store.counts();
    look_up();
    assert_eq!(store.counts(), commands, "directly");
}

/// Scans that a unit finds in its inbox read each pair once for all who see the same, and tell each what it sees.
#[test]
fn scans_that_meet_share_a_pass() {
    let place = UnitPlace { node: Some(NodeId(0)), allocator: Allocator::unplaced() };
    let store = Store::new(vec![place]).unwrap();
    let keyed = filled(&store, 5000);
    let before = store.pin();
    keyed.write(WriteKind::Delete, &[(10, 0), (11, 0)]).unwrap();
    let after = store.pin();
    let counted: Vec<Arc<Counted>> = (0..3).map(|_| Arc::default()).collect();
    let pins = [&before, &after, &after].into_iter().zip(&counted);
    let senders = pins.map(|(pin, counted)| keyed.sender(pin, Arc::clone(counted) as _, 1000).unwrap());
    let mut senders: Vec<_> = senders.collect();
    let keys = || store.counts()[0].keys;
    let read_before = keys();
    // The token is taken, so that all of them lie in the inbox when it is free.
    let token = store.token(0);
    for sender in &mut senders {
        (0..20).for_each(|tag| sender.scan(tag, 0, 999, usize::MAX));
        sender.scan(20, 5, u64::MAX, 10);
        sender.flush();
    }
    drop(token);
    senders.iter_mut().for_each(|sender| sender.wait().unwrap());
    let pairs = |place: usize| counted[place].pairs.load(Ordering::Relaxed);
    assert_eq!([0, 1, 2].map(pairs), [20 * 1000 + 10, 20 * 998 + 10, 20 * 998 + 10]);
    assert_eq!(keys() - read_before, 1000 + 998, "once for each version that is seen");
    let calls: u64 = counted.iter().map(|counted| counted.calls.load(Ordering::Relaxed)).sum();
    assert_eq!(calls, 3 * 21);
}
