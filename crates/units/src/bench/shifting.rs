//! Throughput over time while the range that is written halves and moves, with a balancer or without.
//!
//! All keys are written for a while; then those of the middle half; then that half moves to the left four times, by a
//! sixty-fourth of all keys each.
//!
//! # Limits
//! The paper looks keys up. Here a look-up needs no unit, so what a hot unit slows down are writes: each batch is one
//! statement that sets values.
//!
//! Source: Kissinger et al., ADMS 2014, section 4.3 and Figure 13.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use numa::Budget;
use parking_lot::Mutex;
use random::mixed;
use sched::{Affinity, Scheduler, SlotId, Statement};

use super::{Plan, value_of};
use crate::request::WriteKind;
use crate::store::Keyed;

/// Times that the range changes.
pub const CHANGES: u32 = 5;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shifting {
    /// How long all keys are written.
    pub all: Duration,
    /// How long each range after that is.
    pub each: Duration,
    /// After how long it ends, if not with the last range.
    pub length: Duration,
    /// How often throughput is told, and a cycle run.
    pub tick: Duration,
}

/// What was done since the tick before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// Since the beginning.
    pub at: Duration,
    /// How often the range had changed.
    pub changes: u32,
    /// Keys written per second.
    pub per_second: f64,
    /// Pairs that moved.
    pub moved: u64,
    /// How long they took to move.
    pub moving: Duration,
}

/// The keys that are accessed after as many changes, in sixty-fourths of all: the first, and the first behind them.
pub fn hot_part(changes: u32) -> (u64, u64) {
    match changes {
        0 => (0, 64),
        changes => (17 - u64::from(changes), 49 - u64::from(changes)),
    }
}

impl Shifting {
    fn changes_at(&self, at: Duration) -> u32 {
        match at.checked_sub(self.all) {
            None => 0,
            Some(since) => ((since.as_secs_f64() / self.each.as_secs_f64()) as u32).saturating_add(1),
        }
        .min(CHANGES)
    }

    fn ends_at(&self) -> Duration {
        self.length.min(self.all + self.each * CHANGES)
    }
}

/// Runs it on the workers of a scheduler, one caller per slot, on an object that has the plan's keys; the first caller
/// runs the cycles, between two of its batches. `each` is told every tick, and says whether to go on.
///
/// # Errors
/// A write or a cycle failed; the text says why.
pub fn measure_shifting(
    scheduler: &Scheduler,
    keyed: &Keyed,
    plan: Plan,
    shifting: Shifting,
    each: &(dyn Fn(Tick) -> bool + Sync),
) -> Result<Vec<Tick>, String> {
    let begin = Instant::now();
    let written = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let ticks: Mutex<Result<Vec<Tick>, String>> = Mutex::new(Ok(Vec::new()));
    let body = |caller: usize| {
        let mut pairs = Vec::new();
        let mut number = (caller as u64) << 48;
        let mut last = (Duration::ZERO, 0);
        while !stop.load(Ordering::Relaxed) {
            let at = begin.elapsed();
            draw(plan, shifting.changes_at(at), &mut number, &mut pairs);
            if let Err(error) = keyed.write(WriteKind::Upsert, &pairs) {
                *ticks.lock() = Err(error.to_string());
                stop.store(true, Ordering::Relaxed);
            }
            written.fetch_add(pairs.len() as u64, Ordering::Relaxed);
            if caller == 0 && at >= last.0 + shifting.tick {
                let tick = end_tick(keyed, begin, written.load(Ordering::Relaxed), &mut last, shifting);
                if let Ok(ticks) = &mut *ticks.lock() {
                    ticks.push(tick);
                }
                if !each(tick) || at >= shifting.ends_at() {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    let statement = Statement::new(1, Budget::unlimited());
    let affinity = |slot: usize| Affinity::Slot(SlotId(slot as u32));
    let ran = scheduler.parallel_for(&statement, scheduler.threads(), &affinity, &body);
    ran.map_err(|error| error.to_string())?;
    let failed = keyed.store().balancing().into_iter().find_map(|cycle| cycle.failure);
    failed.map_or(ticks.into_inner(), Err)
}

fn end_tick(keyed: &Keyed, begin: Instant, written: u64, last: &mut (Duration, u64), shifting: Shifting) -> Tick {
    let cycles = keyed.store().balance();
    let at = begin.elapsed();
    let tick = Tick {
        at,
        changes: shifting.changes_at(at),
        per_second: (written - last.1) as f64 / (at - last.0).as_secs_f64(),
        moved: cycles.iter().map(|cycle| cycle.pairs()).sum(),
        moving: cycles.iter().map(|cycle| cycle.took).sum(),
    };
    *last = (at, written);
    tick
}

/// A batch of keys of the hot part.
fn draw(plan: Plan, changes: u32, number: &mut u64, pairs: &mut Vec<(u64, u64)>) {
    let all = u128::from(plan.last_key()) + 1;
    let (first, end) = hot_part(changes);
    let part = |of: u64| all * u128::from(of) / 64;
    let hot = part(first)..part(end);
    pairs.clear();
    while pairs.len() < plan.batch {
        *number += 1;
        // Keys that are there; about half of them are in the part.
        let key = plan.key(mixed(*number ^ plan.seed << 8) % plan.keys);
        if hot.contains(&u128::from(key)) {
            pairs.push((key, value_of(key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use numa::Topology;
    use sched::Config;

    use super::*;
    use crate::balancer::Algorithm;
    use crate::store::{Store, UnitPlace};

    #[test]
    fn hot_parts_are_halves_that_move_to_the_left() {
        assert_eq!(hot_part(0), (0, 64));
        assert_eq!((1..=CHANGES).map(hot_part).collect::<Vec<_>>(), [(16, 48), (15, 47), (14, 46), (13, 45), (12, 44)]);
    }

    #[test]
    fn keys_stay_while_the_range_moves_and_the_balancer_runs() {
        let config = Config { threads: Some(2), ..Config::default() };
        let scheduler = Scheduler::new(Arc::new(Topology::discover().unwrap()), config);
        let store = Store::new(UnitPlace::of_slots(&scheduler, &Budget::unlimited())).unwrap();
        let plan = Plan { keys: 5000, batch: 100, dense: true, seed: 1 };
        let keyed = store.create(plan.last_key(), 8);
        let pairs: Vec<(u64, u64)> = (0..plan.keys).map(|key| (key, value_of(key))).collect();
        keyed.write(WriteKind::Insert, &pairs).unwrap();
        store.set_balancer(Algorithm::OneShot);
        let each = Duration::from_millis(60);
        let shifting = Shifting { all: each / 2, each, length: Duration::MAX, tick: Duration::from_millis(20) };
        let ticks = measure_shifting(&scheduler, &keyed, plan, shifting, &|_| true).unwrap();
        assert!(ticks.last().unwrap().at >= each / 2 + each * CHANGES);
        assert_eq!([29, 30, 89, 90, 500].map(|ms| shifting.changes_at(Duration::from_millis(ms))), [0, 1, 1, 2, 5]);
        let stopped = measure_shifting(&scheduler, &keyed, plan, shifting, &|tick| tick.changes < 1).unwrap();
        assert!(stopped.last().unwrap().at < each + each * CHANGES);
        assert!(ticks.iter().all(|tick| tick.per_second > 0.0));
        assert_eq!(keyed.len(), plan.keys);
    }
}
