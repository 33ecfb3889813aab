//! What routing commands costs, by how many of them for one unit are sent together.
//!
//! Every worker has a unit and is a sender: it draws keys, has each looked up by a command of its own, and now and then
//! executes what lies in its unit's inbox, as in the paper's loop. Measured once with commands that do nothing, once
//! with look-ups whose values are checked.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.2 (Figure 5).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use numa::Budget;
use random::mixed;
use sched::{Affinity, Scheduler, SlotId, Statement};

use super::{Plan, value_of};
use crate::read::{Callback, Part};
use crate::store::Keyed;

/// Commands that a worker puts into buffers before it looks into its unit's inbox: a flush of the largest buffer.
const COMMANDS_PER_TURN: u64 = 4096;

/// A buffer's size, and what went through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoutingPoint {
    /// Commands for one unit that were sent together.
    pub buffer: usize,
    /// Commands per second that did nothing.
    pub routed: f64,
    /// Commands per second that each looked a key up.
    pub looked_up: f64,
}

/// Sizes of outgoing buffers, in commands: the powers of two up to 4096, as in the figure.
pub fn buffer_sizes() -> impl Iterator<Item = usize> {
    (0..=12).map(|power| 1 << power)
}

/// Measures one buffer size with so many commands of each kind, of an object that `plan`'s keys were written to.
/// `None` where buffers for that many units do not hold so many commands.
///
/// # Errors
/// A value was wrong, or nothing could be sent; the text says so.
pub fn measure_routing(
    scheduler: &Arc<Scheduler>,
    keyed: &Keyed,
    plan: Plan,
    buffer: usize,
    commands: u64,
) -> Result<Option<RoutingPoint>, String> {
    keyed.store().serve_on(scheduler);
    let pin = keyed.store().pin();
    let sender = keyed.sender(&pin, Arc::new(Checked::default()), buffer).map_err(|error| error.to_string())?;
    let most = sender.commands_max();
    drop(sender);
    if buffer > most {
        return Ok(None);
    }
    let routed = per_second(scheduler, keyed, plan, buffer, commands, false)?;
    let looked_up = per_second(scheduler, keyed, plan, buffer, commands, true)?;
    Ok(Some(RoutingPoint { buffer, routed, looked_up }))
}

/// Counts values that are right.
#[derive(Debug, Default)]
struct Checked(AtomicU64);

impl Callback for Checked {
    fn values(&self, _: u64, keys: &[u64], values: &[Option<u64>]) {
        let right = keys.iter().zip(values).filter(|(key, value)| **value == Some(value_of(**key))).count();
        self.0.fetch_add(right as u64, Ordering::Relaxed);
    }

    fn pairs(&self, _: u64, _: Part, _: &[(u64, u64)]) {}
}

fn per_second(
    scheduler: &Scheduler,
    keyed: &Keyed,
    plan: Plan,
    buffer: usize,
    commands: u64,
    looks_up: bool,
) -> Result<f64, String> {
    let threads = scheduler.threads();
    let right = AtomicU64::new(0);
    let statement = Statement::new(1, Budget::unlimited());
    let body = |slot: usize| {
        let store = keyed.store();
        let (first, end) = (commands * slot as u64 / threads as u64, commands * (slot as u64 + 1) / threads as u64);
        let checked = Arc::new(Checked::default());
        let pin = store.pin();
        let mut sender = match keyed.sender(&pin, Arc::clone(&checked) as Arc<dyn Callback>, buffer) {
            Ok(sender) => sender,
            Err(error) => panic!("{error}"),
        };
        sender.call_workers();
        for number in first..end {
            let key = plan.key(mixed(number ^ plan.seed << 8) % plan.keys);
            match looks_up {
                true => sender.look_up(number, &[key]),
                false => sender.route_only(number, &[key]),
            }
            if number % COMMANDS_PER_TURN == 0 {
                store.serve(slot % store.units());
            }
        }
        if let Err(error) = sender.wait() {
            panic!("{error}");
        }
        drop(sender);
        right.fetch_add(checked.0.load(Ordering::Relaxed), Ordering::Relaxed);
    };
    let affinity = |slot: usize| Affinity::Slot(SlotId(slot as u32));
    let begin = Instant::now();
    scheduler.parallel_for(&statement, threads, &affinity, &body).map_err(|error| error.to_string())?;
    let took = begin.elapsed();
    let (right, expected) = (right.into_inner(), if looks_up { commands } else { 0 });
    if right != expected {
        return Err(format!("of {expected} look-ups by commands {right} told the right value"));
    }
    Ok(commands as f64 / took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Phase, measure};
    use crate::store::{Store, UnitPlace};
    use numa::{Allocator, NodeId, Topology};
    use sched::Config;

    #[test]
    fn every_size_is_measured_and_every_value_is_right() {
        let config = Config { threads: Some(2), ..Config::default() };
        let scheduler = Scheduler::new(Arc::new(Topology::discover().unwrap()), config);
        for dense in [false, true] {
            let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::unplaced() };
            let store = Store::new([0, 1].map(place).to_vec()).unwrap();
            let plan = Plan { keys: 5000, batch: 500, dense, seed: 9 };
            let keyed = store.create(plan.last_key(), 8);
            measure(&scheduler, &keyed, plan, Phase::Insert).unwrap();
            let before: u64 = store.counts().iter().map(|counts| counts.commands).sum();
            for buffer in buffer_sizes() {
                let point = measure_routing(&scheduler, &keyed, plan, buffer, 6000).unwrap().unwrap();
                assert!(point.buffer == buffer && point.routed > 0.0 && point.looked_up > 0.0);
            }
            let after: u64 = store.counts().iter().map(|counts| counts.commands).sum();
            assert_eq!(after - before, 13 * 2 * 6000, "each command is executed once");
        }
        let places = vec![UnitPlace { node: None, allocator: Allocator::unplaced() }; 64];
        let store = Store::new(places).unwrap();
        let plan = Plan { keys: 100, batch: 100, dense: true, seed: 9 };
        let keyed = store.create(plan.last_key(), 8);
        assert_eq!(measure_routing(&scheduler, &keyed, plan, 4096, 10), Ok(None), "64 buffers are smaller");
    }

    #[test]
    fn a_wrong_value_is_found() {
        let config = Config { threads: Some(2), ..Config::default() };
        let scheduler = Scheduler::new(Arc::new(Topology::discover().unwrap()), config);
        let store = Store::new(vec![UnitPlace { node: None, allocator: Allocator::unplaced() }; 2]).unwrap();
        let plan = Plan { keys: 1000, batch: 100, dense: true, seed: 9 };
        let keyed = store.create(plan.last_key(), 8);
        measure(&scheduler, &keyed, plan, Phase::Insert).unwrap();
        keyed.write(crate::request::WriteKind::Update, &[(7, 7)]).unwrap();
        let error = measure_routing(&scheduler, &keyed, plan, 16, 100_000).unwrap_err();
        assert!(error.starts_with("of 100000 look-ups by commands 99"), "{error}");
    }
}
