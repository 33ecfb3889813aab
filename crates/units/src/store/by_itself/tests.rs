//! Objects whose cycles nobody calls.

use std::time::Instant;

use numa::{Allocator, Budget, NodeId, Policy, Topology};
use parking_lot::Mutex;
use random::Random;
use sched::Config;

use super::*;
use crate::request::WriteKind;
use crate::store::{Store, UnitPlace};

const KEYS: u64 = 40_000;
/// Longer than anything takes on a machine that does other things too.
const LIMIT: Duration = Duration::from_secs(60);

fn store() -> Arc<Store> {
    let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::unplaced() };
    Store::new([0, 0, 1, 1].map(place).to_vec()).unwrap()
}

fn filled(store: &Arc<Store>) -> Keyed {
    let keyed = store.create_named(vec!["public".to_owned(), "t".to_owned()].into(), KEYS, 8);
    let pairs: Vec<(u64, u64)> = (0..KEYS).map(|key| (key, key)).collect();
    keyed.write(WriteKind::Insert, &pairs).unwrap();
    keyed
}

/// Reads keys of the first fifth.
fn read_hot(keyed: &Keyed, random: &mut Random) {
    let keys: Vec<u64> = (0..1000).map(|_| random.below_u64(KEYS / 5)).collect();
    keyed.lookup(&keys, &keyed.store().pin(), |place, value| assert_eq!(value, Some(keys[place])));
}

/// Reads until something holds.
fn read_until(keyed: &Keyed, what: impl Fn() -> bool) {
    let mut random = Random::new(4);
    let begin = Instant::now();
    while !what() {
        read_hot(keyed, &mut random);
        assert!(begin.elapsed() < LIMIT, "it does not happen");
    }
}

fn read_for(keyed: &Keyed, time: Duration) {
    let begin = Instant::now();
    let mut random = Random::new(5);
    while begin.elapsed() < time {
        read_hot(keyed, &mut random);
    }
}

#[test]
fn a_hot_range_is_shared_though_nobody_calls_for_a_cycle() {
    for algorithm in [Algorithm::OneShot, Algorithm::MovingAverage(1), Algorithm::MovingAverage(8)] {
        let store = store();
        store.balance_by(Box::new(|cycle| cycle()));
        store.set_balancer(algorithm);
        let keyed = filled(&store);
        let before = keyed.routing();
        assert_eq!((before.version, before.replicas, before.ranges.len()), (0, 2, 4), "a replica for each node");
        read_until(&keyed, || keyed.partitions()[1].first_key < Some(KEYS / 10));
        let cycles = store.balancing();
        assert!(cycles.iter().all(|cycle| cycle.algorithm == algorithm && cycle.name[1] == "t"), "{cycles:?}");
        assert!(cycles.iter().all(|cycle| cycle.failure.is_none() && cycle.deviation > Some(0.2)));
        assert!(cycles.iter().all(|cycle| cycle.at.elapsed().is_ok_and(|since| since < LIMIT * 3)));
        let routing = keyed.routing();
        assert_eq!(routing.version, cycles.iter().map(|cycle| cycle.moved.len() as u64).sum::<u64>());
        assert_eq!((routing.ranges[0].first, routing.ranges.last().unwrap().last), (0, u64::MAX));
        assert!(routing.ranges.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
        for (range, partition) in routing.ranges.iter().zip(keyed.partitions()) {
            assert_eq!((range.unit, range.node, partition.ranges), (partition.unit, partition.node, 1));
            assert_eq!((Some(range.first), Some(range.last)), (partition.first_key, partition.last_key));
        }
        assert_eq!(keyed.partitions().iter().map(|of| of.pairs).sum::<u64>(), KEYS);
    }
}

#[test]
fn writers_have_cycles_begun_as_readers_do() {
    let store = store();
    store.balance_by(Box::new(|cycle| cycle()));
    store.set_balancer(Algorithm::OneShot);
    let keyed = filled(&store);
    let begin = Instant::now();
    let mut random = Random::new(6);
    while store.balancing().is_empty() {
        let pairs: Vec<(u64, u64)> = (0..100).map(|_| (random.below_u64(KEYS / 5), 1)).collect();
        keyed.write(WriteKind::Upsert, &pairs).unwrap();
        keyed.range(random.below_u64(KEYS / 5), KEYS, &store.pin(), |_, _| false);
        assert!(begin.elapsed() < LIMIT);
    }
    assert_eq!(keyed.len(), KEYS);
}

/// A store whose cycles run at once, and how many have begun.
fn counting_store() -> (Arc<Store>, Arc<AtomicU64>) {
    let store = store();
    let begun = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&begun);
    store.balance_by(Box::new(move |cycle| {
        count.fetch_add(1, Ordering::Relaxed);
        cycle();
    }));
    (store, begun)
}

#[test]
fn nothing_moves_while_the_balancer_is_off_and_what_was_read_then_does_not_count() {
    let (store, begun) = counting_store();
    let keyed = filled(&store);
    read_until(&keyed, || keyed.object.bell.is_ringing());
    read_for(&keyed, Duration::from_millis(20));
    assert_eq!((begun.load(Ordering::Relaxed), store.balancing().len()), (0, 0));
    store.set_balancer(Algorithm::OneShot);
    assert!(!keyed.object.bell.is_ringing());
    assert_eq!(keyed.balance(Algorithm::OneShot).unwrap().deviation, None);
    read_until(&keyed, || begun.load(Ordering::Relaxed) > 0 && !store.balancing().is_empty());
    store.set_balancer(Algorithm::Off);
    let before = begun.load(Ordering::Relaxed);
    read_for(&keyed, 2 * REST);
    assert_eq!(begun.load(Ordering::Relaxed), before);
}

#[test]
fn what_is_accessed_evenly_or_not_at_all_stays() {
    let (store, begun) = counting_store();
    store.set_balancer(Algorithm::OneShot);
    let keyed = filled(&store);
    let other = filled(&store);
    let mut random = Random::new(7);
    let begin = Instant::now();
    while begun.load(Ordering::Relaxed) < 3 {
        let keys: Vec<u64> = (0..1000).map(|_| random.below_u64(KEYS)).collect();
        keyed.lookup(&keys, &store.pin(), |_, _| ());
        assert!(begin.elapsed() < LIMIT);
    }
    assert!(store.balancing().is_empty());
    assert_eq!((keyed.routing().version, other.routing().version), (0, 0));
    // One unit has nobody to share with.
    let place = UnitPlace { node: None, allocator: Allocator::unplaced() };
    let alone = Store::new(vec![place]).unwrap();
    alone.balance_by(Box::new(|_| panic!("a cycle of one unit")));
    alone.set_balancer(Algorithm::OneShot);
    read_for(&filled(&alone), Duration::from_millis(50));
}

#[test]
fn workers_run_cycles_and_have_nothing_to_do_afterwards() {
    let config = Config { threads: Some(2), ..Config::default() };
    let scheduler = Scheduler::new(Arc::new(Topology::discover().unwrap()), config);
    let store = store();
    store.balance_on(&scheduler);
    store.set_balancer(Algorithm::OneShot);
    let keyed = filled(&store);
    let tasks = || scheduler.stats().workers.iter().map(|worker| worker.tasks_run).sum::<u64>();
    read_until(&keyed, || !store.balancing().is_empty());
    let begin = Instant::now();
    while !scheduler.statements().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
        assert!(begin.elapsed() < LIMIT);
    }
    let before = tasks();
    assert!(before > 0);
    std::thread::sleep(2 * REST);
    assert_eq!(tasks(), before, "nobody reads, nobody looks");
    // Without workers there are no cycles, and nobody minds.
    drop(scheduler);
    read_for(&keyed, 2 * REST);
    assert_eq!(keyed.partitions().iter().map(|of| of.pairs).sum::<u64>(), KEYS);
}

#[test]
fn a_cycle_that_comes_late_finds_its_object_gone() {
    let store = store();
    type Waiting = Mutex<Vec<Box<dyn FnOnce() + Send>>>;
    let waiting: Arc<Waiting> = Arc::default();
    let queue = Arc::clone(&waiting);
    store.balance_by(Box::new(move |cycle| queue.lock().push(cycle)));
    store.set_balancer(Algorithm::OneShot);
    let keyed = filled(&store);
    read_until(&keyed, || !waiting.lock().is_empty());
    read_for(&keyed, Duration::from_millis(20));
    assert_eq!(waiting.lock().len(), 1, "one at a time");
    // One that is never run does not keep the next from being begun.
    waiting.lock().clear();
    read_until(&keyed, || !waiting.lock().is_empty());
    drop(keyed);
    let next = filled(&store);
    let cycle = waiting.lock().pop().unwrap();
    cycle();
    assert!(store.balancing().is_empty());
    assert_eq!(next.routing().version, 0);
    read_until(&next, || !waiting.lock().is_empty());
    drop((next, store));
    let cycle = waiting.lock().pop().unwrap();
    cycle();
}

#[test]
fn a_cycle_that_failed_is_not_tried_again_at_once() {
    // The other unit has no room for half of them.
    const MANY: u64 = 80_000;
    let budget = Budget::new("small node", 640 << 10);
    let places = [
        UnitPlace { node: Some(NodeId(0)), allocator: Allocator::unplaced() },
        UnitPlace { node: Some(NodeId(1)), allocator: Allocator::new(Policy::Local, budget) },
    ];
    let store = Store::new(places.to_vec()).unwrap();
    store.balance_by(Box::new(|cycle| cycle()));
    store.set_balancer(Algorithm::OneShot);
    let keyed = store.create(2 * MANY, 8);
    let pairs: Vec<(u64, u64)> = (0..MANY).map(|key| (key, key)).collect();
    keyed.write(WriteKind::Insert, &pairs).unwrap();
    let mut random = Random::new(8);
    let begin = Instant::now();
    let mut read = || {
        let keys: Vec<u64> = (0..1000).map(|_| random.below_u64(MANY)).collect();
        keyed.lookup(&keys, &store.pin(), |place, value| assert_eq!(value, Some(keys[place])));
    };
    let failures = || store.balancing().iter().filter(|cycle| cycle.failure.is_some()).count();
    while failures() == 0 {
        read();
        assert!(begin.elapsed() < LIMIT);
    }
    assert!(store.balancing().iter().any(|cycle| cycle.failure.as_ref().is_some_and(|text| text.contains("small"))));
    let begin = Instant::now();
    while begin.elapsed() < 3 * REST {
        read();
    }
    assert_eq!(failures(), 1);
    assert_eq!(keyed.len(), MANY);
}
