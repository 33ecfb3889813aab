//! Views of the scheduler: workers, thread groups, statements and queued tasks.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use numa::counters::Counter;
use sched::{WorkerState, WorkerStats};

use super::{decimals, field, flags, ids, known_numbers, numbers, pairs, text};
use crate::run::inner::Inner;

/// Most queued tasks that `nearside.tasks` shows.
const TASKS_MAX: usize = 10_000;

/// The columns of these views.
pub(super) fn fields(view: &str) -> Vec<Field> {
    match view {
        super::WORKERS => vec![
            field::id("worker"),
            field::id("node"),
            field::id("cpu"),
            field::flag("pinned"),
            field::text("state"),
            field::number("tasks_run"),
            field::number("stolen"),
            field::decimal("busy_seconds"),
            field::id("thread_group"),
            field::id("slot"),
            field::number("dropped"),
            field::text("stolen_from"),
            field::number("moved"),
            field::decimal("inactive_seconds"),
            field::decimal("free_seconds"),
            field::decimal("parked_seconds"),
            field::number("bytes_local"),
            field::number("bytes_remote"),
        ],
        super::GROUPS => vec![
            field::id("thread_group"),
            field::id("node"),
            field::text("cpus"),
            field::number("slots"),
            field::number("working"),
            field::number("lent"),
            field::number("spare"),
            field::number("queued_stealable"),
            field::number("queued_hard"),
            field::number("queued_private"),
            field::number("tasks_run"),
            field::number("stolen"),
            field::number("stolen_by_others"),
            field::decimal("mean_working"),
            field::decimal("mean_queued"),
            field::number("samples"),
            field::number("unsaturated"),
            field::number("bytes_local"),
            field::number("bytes_remote"),
        ],
        super::STATEMENTS => vec![
            field::text("sql"),
            field::number("statement_time"),
            field::id("priority"),
            field::decimal("age_seconds"),
            field::text("scheduling"),
            field::number("queued"),
            field::number("tasks_run"),
            field::number("dropped"),
            field::number("memory_bytes"),
            field::number("memory_peak_bytes"),
            field::number("bytes_local"),
            field::number("bytes_remote"),
            field::number("llc_misses"),
            field::number("instructions"),
            field::number("cycles"),
        ],
        _ => vec![
            field::id("thread_group"),
            field::id("node"),
            field::text("queue"),
            field::id("slot"),
            field::number("statement_time"),
            field::text("sql"),
            field::number("tasks"),
            field::id("priority"),
            field::number("estimated_bytes"),
            field::decimal("estimated_seconds"),
        ],
    }
}

pub(super) fn workers(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let mut workers = inner.scheduler.stats().workers;
    workers.retain(|w| w.alive);
    let seconds = |w: &WorkerStats, state| w.in_state[state as usize].as_secs_f64();
    // Thread groups and tasks, as the other views write pairs.
    let stolen_from = |w: &WorkerStats| pairs(w.stolen_from.iter().map(|(group, tasks)| (group.0, tasks)));
    vec![
        ids(workers.iter().map(|w| Some(w.id.0))),
        ids(workers.iter().map(|w| Some(w.node.0))),
        ids(workers.iter().map(|w| Some(w.cpu.0))),
        flags(workers.iter().map(|w| w.pinned)),
        text(workers.iter().map(|w| Some(w.state.name()))),
        numbers(workers.iter().map(|w| w.tasks_run)),
        numbers(workers.iter().map(|w| w.stolen)),
        decimals(workers.iter().map(|w| w.busy.as_secs_f64())),
        ids(workers.iter().map(|w| Some(w.group.0))),
        ids(workers.iter().map(|w| w.slot.map(|s| s.0))),
        numbers(workers.iter().map(|w| w.dropped)),
        text(workers.iter().map(|w| Some(stolen_from(w)))),
        numbers(workers.iter().map(|w| w.moved)),
        decimals(workers.iter().map(|w| seconds(w, WorkerState::Inactive))),
        decimals(workers.iter().map(|w| seconds(w, WorkerState::Free))),
        decimals(workers.iter().map(|w| seconds(w, WorkerState::Parked))),
        numbers(workers.iter().map(|w| w.bytes_local)),
        numbers(workers.iter().map(|w| w.bytes_remote)),
    ]
}

pub(super) fn groups(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let groups = inner.scheduler.stats().groups;
    let cpus = |g: &sched::GroupStats| g.cpus.iter().map(|c| c.to_string()).collect::<Vec<_>>().join(",");
    vec![
        ids(groups.iter().map(|g| Some(g.id.0))),
        ids(groups.iter().map(|g| Some(g.node.0))),
        text(groups.iter().map(|g| Some(cpus(g)))),
        numbers(groups.iter().map(|g| g.slots.len() as u64)),
        numbers(groups.iter().map(|g| g.working as u64)),
        numbers(groups.iter().map(|g| g.lent as u64)),
        numbers(groups.iter().map(|g| g.spare as u64)),
        numbers(groups.iter().map(|g| g.queued_stealable as u64)),
        numbers(groups.iter().map(|g| g.queued_hard as u64)),
        numbers(groups.iter().map(|g| g.queued_private as u64)),
        numbers(groups.iter().map(|g| g.tasks_run)),
        numbers(groups.iter().map(|g| g.stolen)),
        numbers(groups.iter().map(|g| g.stolen_by_others)),
        decimals(groups.iter().map(|g| g.mean_working)),
        decimals(groups.iter().map(|g| g.mean_queued)),
        numbers(groups.iter().map(|g| g.samples)),
        numbers(groups.iter().map(|g| g.unsaturated)),
        numbers(groups.iter().map(|g| g.bytes_local)),
        numbers(groups.iter().map(|g| g.bytes_remote)),
    ]
}

pub(super) fn statements(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let mut all = inner.scheduler.statements();
    all.retain(|s| s.stopped.is_none());
    let settings = |s: &sched::StatementStats| s.settings.and_then(|s| s.strategy()).map(|p| p.to_string());
    vec![
        text(all.iter().map(|s| Some(&s.label))),
        numbers(all.iter().map(|s| s.priority.statement_time)),
        ids(all.iter().map(|s| Some(u32::from(s.priority.user)))),
        decimals(all.iter().map(|s| s.age.as_secs_f64())),
        text(all.iter().map(settings)),
        numbers(all.iter().map(|s| s.queued as u64)),
        numbers(all.iter().map(|s| s.tasks_run)),
        numbers(all.iter().map(|s| s.dropped)),
        numbers(all.iter().map(|s| s.memory_bytes)),
        numbers(all.iter().map(|s| s.memory_peak_bytes)),
        numbers(all.iter().map(|s| s.bytes_local)),
        numbers(all.iter().map(|s| s.bytes_remote)),
        known_numbers(all.iter().map(|s| s.counts.get(Counter::LlcMisses))),
        known_numbers(all.iter().map(|s| s.counts.get(Counter::Instructions))),
        known_numbers(all.iter().map(|s| s.counts.get(Counter::Cycles))),
    ]
}

pub(super) fn tasks(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let all = inner.scheduler.tasks(TASKS_MAX);
    let queue = |t: &sched::QueuedTask| t.queue.map_or("slot".to_string(), |q| format!("{q:?}").to_lowercase());
    let tasks = |t: &sched::QueuedTask| t.tasks.map(|tasks| tasks as u64);
    vec![
        ids(all.iter().map(|t| Some(t.group.0))),
        ids(all.iter().map(|t| Some(t.node.0))),
        text(all.iter().map(|t| Some(queue(t)))),
        ids(all.iter().map(|t| t.slot.map(|s| s.0))),
        numbers(all.iter().map(|t| t.priority.statement_time)),
        text(all.iter().map(|t| Some(&t.label))),
        known_numbers(all.iter().map(tasks)),
        ids(all.iter().map(|t| Some(u32::from(t.priority.user)))),
        numbers(all.iter().map(|t| t.hint.bytes)),
        decimals(all.iter().map(|t| t.hint.cpu_ns as f64 / 1e9)),
    ]
}
