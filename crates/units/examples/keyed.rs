//! Keyed reads and writes of this crate beside ordered maps of others, in turns:
//! `cargo run --release -p nearside-units --example keyed` [keys, 10 million if not given] [`dense`] [`only=NAME`, of
//! one map] [`threads=N`]. With few keys each phase is repeated until [`OPERATIONS_MIN`] were done.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use congee::Congee;
use crossbeam_skiplist::SkipMap;
use foldhash::fast::RandomState;
use masstree::{MassTree, RangeBound};
use numa::{Allocator, Budget, Policy, Topology};
use parking_lot::RwLock;
use scc::TreeIndex;
use sched::{Config, Scheduler};
use units::bench::{OrderedMap, PHASES, Phase, Plan, RANGE_PAIRS, measure};
use units::store::{Store, UnitPlace};
use units::tree::SharedTree;

/// Maps with a lock each, by the highest bits that keys differ in.
struct Shards<M> {
    shards: Vec<RwLock<M>>,
    shift: u32,
}

/// A map of one shard.
trait Shard: Default + Send + Sync {
    /// What all shards are called.
    const NAME: &str;

    fn set(&mut self, key: u64, value: u64);
    fn get_value(&self, key: u64) -> Option<u64>;
    /// How many pairs there are from a key on, at most so many; `None` where they are in no order.
    fn count_from(&self, first: u64, most: usize) -> Option<usize>;
}

impl Shard for BTreeMap<u64, u64> {
    const NAME: &str = "256 BTreeMaps";

    fn set(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get_value(&self, key: u64) -> Option<u64> {
        self.get(&key).copied()
    }

    fn count_from(&self, first: u64, most: usize) -> Option<usize> {
        Some(self.range(first..).take(most).count())
    }
}

type Hashed = HashMap<u64, u64, RandomState>;

impl Shard for Hashed {
    const NAME: &str = "256 HashMaps";

    fn set(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn get_value(&self, key: u64) -> Option<u64> {
        self.get(&key).copied()
    }

    fn count_from(&self, _: u64, _: usize) -> Option<usize> {
        None
    }
}

impl<M: Shard> Shards<M> {
    fn new(last_key: u64) -> Shards<M> {
        const BITS: u32 = 8;
        let shards = (0..1 << BITS).map(|_| RwLock::default()).collect();
        Shards { shards, shift: (64 - last_key.leading_zeros()).saturating_sub(BITS) }
    }

    fn of(&self, key: u64) -> usize {
        (key >> self.shift) as usize
    }
}

impl<M: Shard> OrderedMap for Shards<M> {
    fn name(&self) -> &str {
        M::NAME
    }

    fn write(&self, pairs: &[(u64, u64)]) {
        for (key, value) in pairs {
            self.shards[self.of(*key)].write().set(*key, *value);
        }
    }

    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>)) {
        for (place, key) in keys.iter().enumerate() {
            found(place, self.shards[self.of(*key)].read().get_value(*key));
        }
    }

    fn range(&self, first: u64) -> Option<usize> {
        let mut count = 0;
        for shard in &self.shards[self.of(first)..] {
            count += shard.read().count_from(first, RANGE_PAIRS - count)?;
            if count == RANGE_PAIRS {
                break;
            }
        }
        Some(count)
    }
}

struct Skips(SkipMap<u64, u64>);

impl OrderedMap for Skips {
    fn name(&self) -> &str {
        "crossbeam_skiplist"
    }

    fn write(&self, pairs: &[(u64, u64)]) {
        for (key, value) in pairs {
            self.0.insert(*key, *value);
        }
    }

    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>)) {
        for (place, key) in keys.iter().enumerate() {
            found(place, self.0.get(key).map(|entry| *entry.value()));
        }
    }

    fn range(&self, first: u64) -> Option<usize> {
        Some(self.0.range(first..).take(RANGE_PAIRS).filter(|entry| *entry.key() >= first).count())
    }
}

struct Trees(TreeIndex<u64, u64>);

impl OrderedMap for Trees {
    fn name(&self) -> &str {
        "scc::TreeIndex"
    }

    fn write(&self, pairs: &[(u64, u64)]) {
        for (key, value) in pairs {
            // It has no upsert: a value is removed and inserted again.
            let mut pair = (*key, *value);
            while let Err(again) = self.0.insert(pair.0, pair.1) {
                self.0.remove(key);
                pair = again;
            }
        }
    }

    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>)) {
        for (place, key) in keys.iter().enumerate() {
            found(place, self.0.peek_with(key, |_, value| *value));
        }
    }

    fn range(&self, _first: u64) -> Option<usize> {
        // Its ranges begin at its first leaf, whatever key they are asked from.
        None
    }
}

struct Radix(Congee<usize, usize>);

impl OrderedMap for Radix {
    fn name(&self) -> &str {
        "congee"
    }

    fn write(&self, pairs: &[(u64, u64)]) {
        let guard = self.0.pin();
        for (key, value) in pairs {
            self.0.insert(*key as usize, *value as usize, &guard).expect("there is memory for the keys");
        }
    }

    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>)) {
        let guard = self.0.pin();
        for (place, key) in keys.iter().enumerate() {
            found(place, self.0.get(&(*key as usize), &guard).map(|value| value as u64));
        }
    }

    fn range(&self, first: u64) -> Option<usize> {
        let mut pairs = [(0, 0); RANGE_PAIRS];
        // Its ranges end before the last key, and may miss the only one.
        Some(self.0.range(&(first as usize), &usize::MAX, &mut pairs, &self.0.pin()).max(1))
    }
}

struct Layers(MassTree<u64>);

impl OrderedMap for Layers {
    fn name(&self) -> &str {
        "masstree"
    }

    fn write(&self, pairs: &[(u64, u64)]) {
        let guard = self.0.guard();
        for (key, value) in pairs {
            self.0.insert_with_guard(&key.to_be_bytes(), *value, &guard);
        }
    }

    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>)) {
        let guard = self.0.guard();
        for (place, key) in keys.iter().enumerate() {
            found(place, self.0.get_with_guard(&key.to_be_bytes(), &guard));
        }
    }

    fn range(&self, first: u64) -> Option<usize> {
        let mut count = 0;
        let counted = |_| {
            count += 1;
            count < RANGE_PAIRS
        };
        let from = first.to_be_bytes();
        self.0.scan_values(RangeBound::Included(&from), RangeBound::Unbounded, counted, &self.0.guard());
        Some(count)
    }
}

/// Makes a map whose keys end at the one given.
type Maker = fn(&Arc<Scheduler>, u64) -> Box<dyn OrderedMap>;

/// Operations of a phase, at least: a small map is written and read again and again.
const OPERATIONS_MIN: u64 = 4_000_000;

/// Millions of operations per second, one map per phase that inserts, as often as there are enough.
fn rate(
    scheduler: &Arc<Scheduler>,
    make: Maker,
    map: &mut Box<dyn OrderedMap>,
    of: (Plan, Phase),
) -> Result<f64, String> {
    let (plan, phase) = of;
    let times = OPERATIONS_MIN.div_ceil(plan.operations(phase).max(1)).min(400);
    let mut per_operation = 0.0;
    for time in 0..times {
        if phase == Phase::Insert && time > 0 {
            *map = make(scheduler, plan.last_key());
        }
        per_operation += 1e6 / measure(scheduler, &**map, plan, phase)?;
    }
    Ok(times as f64 / per_operation)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = std::env::args().nth(1).map_or(Ok(10_000_000), |keys| keys.parse())?;
    let dense = std::env::args().any(|word| word == "dense");
    let only = std::env::args().find_map(|word| word.strip_prefix("only=").map(str::to_string));
    let threads = std::env::args().find_map(|word| word.strip_prefix("threads=").map(str::parse)).transpose()?;
    let plan = Plan { keys, batch: 1000, dense, seed: 1 };
    let config = Config { threads, ..Config::default() };
    let scheduler = Scheduler::new(Arc::new(Topology::discover()?), config);
    println!("{keys} keys, {} threads, batches of {}; millions per second", scheduler.threads(), plan.batch);
    print!("{:<20}", "map");
    PHASES.iter().for_each(|phase| print!(" {phase:>9}"));
    println!();
    let makers: [Maker; 8] = [
        |scheduler, last_key| {
            let store = Store::new(UnitPlace::of_slots(scheduler, &Budget::unlimited())).expect("there is memory");
            Box::new(store.create(last_key, 8))
        },
        |scheduler, _| {
            let nodes = Topology::discover().expect("it was discovered before").usable_memory_nodes().to_vec();
            let allocator = Allocator::new(Policy::Interleaved(nodes), Budget::unlimited());
            Box::new(SharedTree::new(allocator, scheduler.threads(), 8))
        },
        |_, _| Box::new(Radix(Congee::default())),
        |_, _| Box::new(Layers(MassTree::new())),
        |_, _| Box::new(Trees(TreeIndex::new())),
        |_, _| Box::new(Skips(SkipMap::new())),
        |_, last_key| Box::new(Shards::<BTreeMap<u64, u64>>::new(last_key)),
        |_, last_key| Box::new(Shards::<Hashed>::new(last_key)),
    ];
    // One map at a time, so that each has the machine's memory and caches for itself.
    for make in makers {
        let mut map = make(&scheduler, plan.last_key());
        if only.as_ref().is_some_and(|only| only != map.name()) {
            continue;
        }
        print!("{:<20}", map.name());
        for phase in PHASES {
            if phase == Phase::Range && map.range(0).is_none() {
                print!(" {:>9}", "none");
                continue;
            }
            print!(" {:>9.3}", rate(&scheduler, make, &mut map, (plan, phase))?);
        }
        println!();
    }
    Ok(())
}
