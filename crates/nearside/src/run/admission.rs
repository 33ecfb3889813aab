//! Who begins: with `nearside.admission = model` queries wait until the model says that it is their turn.
//!
//! With `fifo`, as sessions start, every statement begins at once, and the tasks of older ones go first. A session that
//! says `model` has its queries wait where others run, and begin in the order that makes the mean response time small
//! ([`model::online`]), known ones by what earlier runs of the same kind cost; who began first has its tasks done
//! first. A query of a kind that has not run yet begins at once, as do those that touch little, statements that write,
//! and those that a worker asks for itself.
//!
//! # Invariants
//! Nobody waits while nobody runs. Who has waited for ten times its own time begins. Whoever takes twice as long as
//! expected, for its client does not take its rows say, counts no more as one that runs. One that is cancelled or out
//! of time stops waiting.
//!
//! # Limits
//! A kind is known by the first 200 characters of its text without constants. What memory gives is measured once, by
//! the first query of a session that says `model`, in less than half a second.
//!
//! Source: Seidel 2011, chapters 5 and 6.

use std::sync::Arc;
use std::task::{Context, Poll};

use model::curve::{Curve, Interpolation, Outside};
use model::machine::Machine;
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
    Some(inner.admission.arrive(&known?.machine, kind_of(running.statement.label()), is_patient))
}

/// Ready once the query has begun, or failed with what stopped it.
pub(crate) fn poll_begun(ticket: &mut Ticket, running: &RunningStatement, cx: &Context<'_>) -> Poll<Result<()>> {
    running.check()?;
    ticket.poll_begun(cx).map(|is_news| {
        if is_news {
            // Behind those that began meanwhile.
            running.statement.set_time(running.inner.next_statement_time());
        }
        Ok(())
    })
}

/// The query has given its last row: what it cost is known.
pub(crate) fn ended(ticket: &Ticket, running: &RunningStatement) {
    let lines = running.traffic.lines();
    let sum = |of: fn(&exec::Touched) -> u64| lines.iter().map(|line| of(&line.touched)).sum();
    ticket.ended(sum(|touched| touched.bytes), sum(|touched| touched.busy_ns));
}

/// The machine, as it is measured now, which takes half a second; `None` where nothing could be measured.
fn measured(inner: &Arc<Inner>) -> Option<Modelled> {
    let nodes = inner.catalog.usual_nodes().len().max(1) as f64;
    let cpus = inner.scheduler.threads();
    let clock = SystemClock::new();
    let unit = read_bandwidth(&inner.topology, 1, &clock)?;
    let all = read_bandwidth(&inner.topology, inner.topology.usable_cpus().len(), &clock)? / nodes;
    let of_node = ((cpus as f64 / nodes).ceil() as usize).max(1);
    let points: Vec<f64> = (1..=of_node).map(|threads| (threads as f64 * unit).min(all.max(unit))).collect();
    let curve = Curve::of_threads(&points, Interpolation::Linear, Outside::Hold).ok()?;
    let machine = Machine::simple(curve, of_node as f64);
    machine.check().ok()?;
    Some(Modelled { machine, nodes, unit })
}
