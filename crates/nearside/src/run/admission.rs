//! Who begins: with `nearside.admission = model` queries wait until the model says that it is their turn.
//!
//! With `fifo`, as sessions start, every statement begins at once, and the tasks of older ones go first. A session that
//! says `model` has its queries wait where others run, and begin in the order that makes the mean response time small
//! ([`model::online`]), known ones by what earlier runs of the same kind cost; who began first has its tasks done
//! first. A query of a kind that has not run yet begins at once, as do those that touch little, statements that write,
//! and those that a worker asks for itself.
//!
//! # Invariants
//! Nobody waits while nobody runs that is known and goes on. Who has waited for ten times its own time takes the next
//! free place, or one more once nobody has begun for as long as it takes itself. The first of those that run counts no
//! more while it makes no progress, for its client does not take its rows say. One that is cancelled or out of time
//! stops waiting.
//!
//! # Limits
//! A kind is known by the first 200 characters of its text without constants. What memory gives is measured once, by
//! the first query of a session that says `model`, in less than half a second; where it cannot be, queries begin at
//! once, and a warning says so.
//!
//! Source: Seidel 2011, chapters 5 and 6.

use std::sync::Arc;
use std::task::{Context, Poll};

use model::curve::{Curve, Interpolation, Outside};
use model::machine::{DemandRule, Machine};
use numa::probe::{SystemClock, read_bandwidth};

use crate::error::Result;
use crate::run::admission_state::{Modelled, Ticket};
use crate::run::config::{self, AdmissionMode};
use crate::run::inner::Inner;
use crate::run::recording::kind_of;
use crate::run::statement::RunningStatement;

/// Queries that are estimated to touch less begin at once and are not counted: a scan of as much takes half a
/// millisecond.
const BYTES_MIN: u64 = 4 << 20;

/// Whether a session's queries are let in by the model, which has to know their texts.
pub(crate) fn is_wanted(running: &RunningStatement) -> bool {
    config::nearside(running.planner.config_options()).admission == AdmissionMode::Model.name()
}

/// A query comes that is estimated to touch so many bytes; `None` where it begins and nobody counts it.
pub(crate) fn arrive(running: &RunningStatement, bytes: u64) -> Option<Ticket> {
    if bytes < BYTES_MIN || sched::Scheduler::on_worker() {
        return None;
    }
    let inner = &running.inner;
    let is_patient = is_wanted(running);
    let known = match is_patient {
        true => inner.admission.machine(|| measured(inner)),
        false => inner.admission.known_machine(),
    };
    let on = (&running.statement, &running.traffic);
    Some(inner.admission.arrive(&known?.machine, kind_of(running.text()), is_patient, on))
}

/// Ready once the query has begun, or failed with what stopped it. On a worker it begins at once: others may need the
/// worker to end.
pub(crate) fn poll_begun(ticket: &mut Ticket, running: &RunningStatement, cx: &Context<'_>) -> Poll<Result<()>> {
    running.check()?;
    if sched::Scheduler::on_worker() {
        ticket.begin();
    }
    ticket.poll_begun(cx).map(Ok)
}

/// The query has given its last row: what it cost is known.
pub(crate) fn ended(ticket: &Ticket, running: &RunningStatement) {
    let bytes = running.traffic.lines().iter().map(|line| line.touched.bytes).sum();
    ticket.ended(bytes, running.traffic.busy_ns());
}

/// The machine, as it is measured now, which takes half a second; `None` where nothing could be measured.
fn measured(inner: &Arc<Inner>) -> Option<Modelled> {
    let cpus = inner.scheduler.threads();
    let clock = SystemClock::new();
    let unit = read_bandwidth(&inner.topology, 1, &clock)?;
    let all = read_bandwidth(&inner.topology, cpus.min(inner.topology.usable_cpus().len()), &clock)?;
    let points: Vec<f64> = (1..=cpus).map(|threads| (threads as f64 * unit).min(all.max(unit))).collect();
    let curve = Curve::of_threads(&points, Interpolation::Linear, Outside::Hold).ok()?;
    // Quick to reckon with, whatever the number of cpus.
    let machine = Machine { rule: DemandRule::Waiting, ..Machine::simple(curve, cpus as f64) };
    machine.check().ok()?;
    Some(Modelled { machine, unit })
}
