//! Keyed stores (Kissinger et al., ADMS 2014, sections 3.2, 4.2.1 and 4.3), measured: batches of look-ups and upserts,
//! commands of one key through outgoing buffers, and throughput over time while what is written halves and moves.
//!
//! The calls of `nearside bench keyed`: units and callers are the slots of the scheduler; keys are dense, as in the
//! paper. `design = "interleaved"` is the paper's baseline, one tree that every thread changes. Each point fills a
//! store of its own, since an earlier one has moved its ranges.
//!
//! # Limits
//! Batches of look-ups read any unit's tree on the caller's own thread, where the paper routes them; so what a hot unit
//! slows down are writes, and over time those are measured. Filling a store is not interrupted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::declaration::{Operation, Shifting, Store, StoreDesign, Transfers};
use lab::engine::RunError;
use lab::result::{Metric, Outcome, with_recovery};
use numa::{Allocator, Budget, Policy};
use sched::Scheduler;
use units::bench::routing::measure_routing;
use units::bench::shifting::{self, CHANGES, measure_shifting};
use units::bench::{OrderedMap, Phase, Plan, measure};
use units::store::{Keyed, Store as Units, UnitPlace};
use units::tree::SharedTree;

use super::columns::GB;
use super::{Bench, failed};
use crate::size::thousands;

/// The share of the memory that keys take at most.
const KEYS_SHARE: f64 = 0.2;
/// Bytes of a dense key at most, while a tree grows.
const KEY_BYTES: f64 = 16.0;
/// Bits of a key that a node of the tree takes at most, as in the paper.
const PREFIX_BITS: u32 = 8;
/// Keys of a statement of look-ups or upserts: the measured unit of work, as outgoing buffers are not measured.
const BATCH: usize = 1000;
/// Commands that are sent between two looks at the time.
const COMMANDS: u64 = 1_000_000;

/// What holds the keys of a point.
enum Kept {
    Units(Keyed),
    Shared(SharedTree),
}

impl Kept {
    fn map(&self) -> &dyn OrderedMap {
        match self {
            Kept::Units(keyed) => keyed,
            Kept::Shared(tree) => tree,
        }
    }

    fn used_bytes(&self) -> u64 {
        match self {
            Kept::Units(keyed) => keyed.used_bytes(),
            Kept::Shared(tree) => tree.used_bytes(),
        }
    }
}

/// Look-ups or upserts, phase after phase, for the time of the point.
pub fn run(bench: &Bench<'_>, asked: &Store) -> Result<Outcome, RunError> {
    let phase = match asked.operation {
        Operation::Lookup => Phase::Lookup,
        Operation::Upsert => Phase::Upsert,
        Operation::Scan | Operation::Route => unreachable!("these are not batches of keys"),
    };
    let database = bench.stored.database();
    let scheduler = database.scheduler();
    let budget = Budget::new("keys of the lab", bench.memory_bytes);
    let (plan, note) = plan(bench, asked.keys, BATCH);
    let routed = (asked.design == StoreDesign::Units).then(|| {
        let asked = asked.batch;
        format!("statements have {BATCH} keys each; outgoing buffers, which 'batch' = {asked} is of, are not measured")
    });
    let kept = match asked.design {
        StoreDesign::Units => Kept::Units(filled(scheduler, UnitPlace::of_slots(scheduler, &budget), plan)?),
        StoreDesign::Interleaved => Kept::Shared(filled_shared(bench, &budget, plan)?),
        StoreDesign::SingleRam => {
            let reason = "keys are looked up and written with design=units or design=interleaved";
            return Err(RunError::Refused(reason.to_string()));
        }
    };
    let rates = repeated(bench, || measure(scheduler, kept.map(), plan, phase).map_err(RunError::Failed))?;
    let mut found = Outcome::default()
        .with(Metric::Throughput, mean_rate(&rates) * 60.0)
        .with(Metric::MemoryUsed, kept.used_bytes() as f64 / GB);
    found.notes.extend(note.into_iter().chain(routed));
    Ok(found)
}

/// What `once` gives, again and again for the time of the point, once at least.
fn repeated<T>(bench: &Bench<'_>, mut once: impl FnMut() -> Result<T, RunError>) -> Result<Vec<T>, RunError> {
    let begin = Instant::now();
    let length = Duration::from_secs_f64(bench.conditions.seconds);
    let mut all = Vec::new();
    while all.is_empty() || begin.elapsed() < length {
        if bench.conditions.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        all.push(once()?);
    }
    Ok(all)
}

/// Commands of one key each, sent in buffers of a size, for the time of the point: only routed, or looked up.
pub fn run_commands(bench: &Bench<'_>, asked: &Store) -> Result<Outcome, RunError> {
    if asked.design != StoreDesign::Units {
        return Err(RunError::Refused("only units are sent commands: set design=units".to_string()));
    }
    if asked.command_keys != 1 {
        let reason = "commands that are measured have one key each: set command_keys=1, or 0 for look-ups in batches";
        return Err(RunError::Refused(reason.to_string()));
    }
    let scheduler = bench.stored.database().scheduler();
    let budget = Budget::new("keys of the lab", bench.memory_bytes);
    let (plan, note) = plan(bench, asked.keys, BATCH);
    let keyed = filled(scheduler, UnitPlace::of_slots(scheduler, &budget), plan)?;
    let commands = plan.keys.min(COMMANDS);
    let rates = repeated(bench, || {
        let point = measure_routing(scheduler, &keyed, plan, asked.batch as usize, commands);
        let Some(point) = point.map_err(RunError::Failed)? else {
            let units = keyed.store().units();
            let reason = format!("batch = {}: an outgoing buffer for one of {units} units holds fewer", asked.batch);
            return Err(RunError::Refused(reason));
        };
        Ok(if asked.operation == Operation::Route { point.routed } else { point.looked_up })
    })?;
    let mut found = Outcome::default()
        .with(Metric::Throughput, mean_rate(&rates) * 60.0)
        .with(Metric::MemoryUsed, keyed.used_bytes() as f64 / GB);
    found.notes.extend(note);
    Ok(found)
}

/// The rate of phases of equal work one after the other: their times are what is averaged.
fn mean_rate(per_second: &[f64]) -> f64 {
    per_second.len() as f64 / per_second.iter().map(|rate| 1.0 / rate).sum::<f64>()
}

/// Writes of a range that halves and moves, with a balancer.
pub fn run_shifting(bench: &Bench<'_>, asked: &Shifting) -> Result<Outcome, RunError> {
    if asked.transfers == Transfers::AtOnce {
        let reason = "a cycle here moves one range after the other; set transfers=in-turn";
        return Err(RunError::Refused(reason.to_string()));
    }
    let database = bench.stored.database();
    let scheduler = database.scheduler();
    let budget = Budget::new("keys of the lab", bench.memory_bytes);
    let (plan, note) = plan(bench, asked.keys, asked.batch as usize);
    let keyed = filled(scheduler, UnitPlace::of_slots(scheduler, &budget), plan)?;
    keyed.store().set_balancer(asked.balancer.0);
    let shifting = shifting::Shifting {
        all: Duration::from_secs_f64(asked.all_seconds),
        each: Duration::from_secs_f64(asked.each_seconds),
        length: Duration::from_secs_f64(bench.conditions.seconds),
        tick: Duration::from_millis(u64::from(asked.period_ms)),
    };
    let go_on = |_| !bench.conditions.stop.load(Ordering::Relaxed);
    let ticks = measure_shifting(scheduler, &keyed, plan, shifting, &go_on).map_err(RunError::Failed)?;
    if keyed.len() != plan.keys {
        return Err(RunError::Failed(format!("{} keys are {} after the run: this is a bug", plan.keys, keyed.len())));
    }
    let mut outcome = Outcome::default();
    let mut begin = 0.0;
    let mut written = 0.0;
    for tick in &ticks {
        let end = tick.at.as_secs_f64();
        written += tick.per_second * (end - begin);
        begin = end;
        outcome.over_time.push((end, tick.per_second * 60.0));
    }
    let mut outcome = outcome
        .with(Metric::Throughput, written / begin * 60.0)
        .with(Metric::MovedPairs, ticks.iter().map(|tick| tick.moved as f64).sum())
        .with(Metric::MemoryUsed, keyed.used_bytes() as f64 / GB);
    outcome.notes.push("upserts are measured, since a look-up here needs no unit".to_string());
    outcome.notes.extend(note);
    let change = |change: u32| asked.all_seconds + f64::from(change) * asked.each_seconds;
    Ok(with_recovery(outcome, &(0..CHANGES).map(change).collect::<Vec<_>>()))
}

/// Dense keys, as many as fit, and what was cut.
fn plan(bench: &Bench<'_>, asked: u64, batch: usize) -> (Plan, Option<String>) {
    let keys = asked.min((bench.memory_bytes as f64 * KEYS_SHARE / KEY_BYTES) as u64).max(1);
    let note = (keys < asked)
        .then(|| format!("scaled to this machine's memory: {} keys of {}", thousands(keys), thousands(asked)));
    (Plan { keys, batch, dense: true, seed: bench.conditions.seed }, note)
}

fn filled(scheduler: &Arc<Scheduler>, places: Vec<UnitPlace>, plan: Plan) -> Result<Keyed, RunError> {
    let store = Units::new(places).map_err(failed)?;
    let keyed = store.create(plan.last_key(), PREFIX_BITS);
    measure(scheduler, &keyed, plan, Phase::Insert).map_err(RunError::Failed)?;
    store.settle();
    Ok(keyed)
}

/// The shared index: one tree, interleaved, which every cpu reads and changes.
fn filled_shared(bench: &Bench<'_>, budget: &Arc<Budget>, plan: Plan) -> Result<SharedTree, RunError> {
    let scheduler = bench.stored.database().scheduler();
    let allocator = Allocator::new(Policy::Interleaved(bench.nodes.to_vec()), Arc::clone(budget));
    let tree = SharedTree::new(allocator, scheduler.threads(), PREFIX_BITS);
    measure(scheduler, &tree, plan, Phase::Insert).map_err(RunError::Failed)?;
    Ok(tree)
}
