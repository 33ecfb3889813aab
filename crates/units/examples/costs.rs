//! What keyed reads and writes cost a core: the constants of the simulator that are this crate's code.
//! `cargo run --release -p nearside-units --example costs` [keys of the large index, 24 million if not given]
//!
//! One thread does everything, so nothing waits for another core; each figure is the best of some runs. What a look-up
//! costs without waiting is told by an index that the core's own cache holds; how many look-ups wait together, by what
//! batches of 1 and of 1,000 take longer in an index that no cache holds; what routing costs, by look-ups by commands
//! beside direct ones.
//!
//! # Limits
//! Lines that another core has written are not waited for: the simulator counts them as memory.

use std::sync::Arc;

use numa::{Allocator, Topology};
use sched::{Config, Scheduler};
use units::bench::routing::measure_routing;
use units::bench::{OrderedMap, Phase, Plan, measure};
use units::store::{Keyed, Route, Store, UnitPlace};
use units::tree::SharedTree;

/// Keys of an index that a core's own cache holds: 1 MB.
const SMALL: u64 = 50_000;
/// Units over which the search of owners is told, and those of the routing measurement: as many as eris-amd-8 has.
const UNITS: usize = 64;
/// Commands for one unit that are sent together: the paper's.
const BUFFER: usize = 128;
/// Keys of a batch that goes by commands: as many as a sender has on their way.
const BATCH: usize = 8192;
/// Commands of a routing measurement.
const COMMANDS: u64 = 1_000_000;
const RUNS: usize = 16;

type Failure = Box<dyn std::error::Error>;

/// One worker.
struct Bench {
    scheduler: Arc<Scheduler>,
}

impl Bench {
    /// Dense keys over so many units, filled.
    fn units(&self, keys: u64, units: usize) -> Result<Keyed, Failure> {
        let place = UnitPlace { node: None, allocator: Allocator::unplaced() };
        let store = Store::new(vec![place; units])?;
        let keyed = store.create(keys - 1, 8);
        measure(&self.scheduler, &keyed, plan(keys, 1000), Phase::Insert)?;
        store.settle();
        Ok(keyed)
    }

    /// The same in one tree without units.
    fn shared(&self, keys: u64) -> Result<SharedTree, Failure> {
        let tree = SharedTree::new(Allocator::unplaced(), 1, 8);
        measure(&self.scheduler, &tree, plan(keys, 1000), Phase::Insert)?;
        Ok(tree)
    }

    /// Nanoseconds per key, the best of some runs.
    fn ns(&self, map: &dyn OrderedMap, plan: Plan, phase: Phase) -> Result<f64, Failure> {
        let mut best = 0f64;
        for _ in 0..RUNS {
            best = best.max(measure(&self.scheduler, map, plan, phase)?);
        }
        Ok(1e9 / best)
    }

    /// Nanoseconds per key of look-ups by a route.
    fn route_ns(&self, keyed: &Keyed, route: Route) -> Result<f64, Failure> {
        keyed.store().set_route(route);
        self.ns(keyed, plan(SMALL, BATCH), Phase::Lookup)
    }

    /// Nanoseconds per command of one key: only routed, and looked up.
    fn command_ns(&self, keyed: &Keyed, buffer: usize) -> Result<[f64; 2], Failure> {
        let mut best = [0f64; 2];
        for _ in 0..RUNS {
            let point = measure_routing(&self.scheduler, keyed, plan(SMALL, 1), buffer, COMMANDS)?;
            let point = point.ok_or("the buffer is larger than an outgoing one")?;
            best = [best[0].max(point.routed), best[1].max(point.looked_up)];
        }
        Ok(best.map(|per_second| 1e9 / per_second))
    }
}

fn plan(keys: u64, batch: usize) -> Plan {
    Plan { keys, batch, dense: true, seed: 1 }
}

fn main() -> Result<(), Failure> {
    let large = std::env::args().nth(1).map_or(Ok(24_000_000), |keys| keys.parse())?;
    let config = Config { threads: Some(1), ..Config::default() };
    let bench = Bench { scheduler: Scheduler::new(Arc::new(Topology::discover()?), config) };
    let print = |name: &str, value: f64| println!("{name:<20} {value:>7.1}");

    let one = bench.units(SMALL, 1)?;
    let lookup = bench.ns(&one, plan(SMALL, 1000), Phase::Lookup)?;
    let alone = bench.ns(&one, plan(SMALL, 1), Phase::Lookup)?;
    print("lookup_ns", lookup);
    print("upsert_ns", bench.ns(&one, plan(SMALL, 1000), Phase::Upsert)?);
    let shared = bench.shared(SMALL)?;
    print("shared look-up, ns", bench.ns(&shared, plan(SMALL, 1000), Phase::Lookup)?);
    print("shared_upsert_ns", bench.ns(&shared, plan(SMALL, 1000), Phase::Upsert)?);

    let waiting = {
        let keyed = bench.units(large, 1)?;
        let batched = bench.ns(&keyed, plan(large, 1000), Phase::Lookup)?;
        let single = bench.ns(&keyed, plan(large, 1), Phase::Lookup)?;
        (single - alone) / (batched - lookup)
    };
    print("lookups_in_flight", waiting);

    let key = bench.route_ns(&one, Route::Commands)? - bench.route_ns(&one, Route::Direct)?;
    print("routed_key_ns", key);
    // With one unit, so that its tree is the one that was looked up directly; among many what is routed only tells.
    let [routed_to_one, looked_up] = bench.command_ns(&one, BUFFER)?;
    print("command_ns", looked_up - lookup - key);
    let many = bench.units(SMALL, UNITS)?;
    let [routed, _] = bench.command_ns(&many, BUFFER)?;
    print("owner_ns", (routed - routed_to_one) / (UNITS as f64).log2());
    let [singly, _] = bench.command_ns(&many, 1)?;
    print("send_ns", singly - routed);
    Ok(())
}
