//! Views of the scheduler: workers, thread groups, statements and queued tasks.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::{DataType, Field};

use super::{flags, ids, numbers, text};
use crate::database::Inner;

/// Most queued tasks that `nearside.tasks` shows.
const TASKS_MAX: usize = 10_000;

/// The columns of these views.
pub(super) fn fields(view: &str) -> Vec<Field> {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let text = |name| field(name, DataType::Utf8View);
    let number = |name| field(name, DataType::Int64);
    let id = |name| field(name, DataType::UInt32);
    match view {
        super::WORKERS => vec![
            id("worker"),
            id("node"),
            id("cpu"),
            field("pinned", DataType::Boolean),
            text("state"),
            number("tasks_run"),
            number("stolen"),
            field("busy_seconds", DataType::Float64),
            id("thread_group"),
            id("slot"),
            number("dropped"),
        ],
        super::GROUPS => vec![
            id("thread_group"),
            id("node"),
            text("cpus"),
            number("slots"),
            number("working"),
            number("lent"),
            number("spare"),
            number("outside"),
            number("queued_stealable"),
            number("queued_hard"),
            number("queued_private"),
            number("tasks_run"),
            number("stolen"),
            number("stolen_by_others"),
        ],
        super::STATEMENTS => vec![
            text("sql"),
            number("statement_time"),
            id("priority"),
            field("age_seconds", DataType::Float64),
            text("scheduling"),
            number("queued"),
            number("tasks_run"),
            number("dropped"),
            number("memory_bytes"),
            number("memory_peak_bytes"),
        ],
        _ => vec![
            id("thread_group"),
            id("node"),
            text("queue"),
            id("slot"),
            number("statement_time"),
            text("sql"),
            number("tasks"),
        ],
    }
}

pub(super) fn workers(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let mut workers = inner.scheduler.stats().workers;
    workers.retain(|w| w.alive);
    vec![
        ids(workers.iter().map(|w| Some(w.id.0))),
        ids(workers.iter().map(|w| Some(w.node.0))),
        ids(workers.iter().map(|w| Some(w.cpu.0))),
        flags(workers.iter().map(|w| w.pinned)),
        text(workers.iter().map(|w| Some(w.state.name()))),
        numbers(workers.iter().map(|w| w.tasks_run)),
        numbers(workers.iter().map(|w| w.stolen)),
        Arc::new(workers.iter().map(|w| Some(w.busy.as_secs_f64())).collect::<Float64Array>()),
        ids(workers.iter().map(|w| Some(w.group.0))),
        ids(workers.iter().map(|w| w.slot.map(|s| s.0))),
        numbers(workers.iter().map(|w| w.dropped)),
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
        numbers(groups.iter().map(|g| g.outside as u64)),
        numbers(groups.iter().map(|g| g.queued_stealable as u64)),
        numbers(groups.iter().map(|g| g.queued_hard as u64)),
        numbers(groups.iter().map(|g| g.queued_private as u64)),
        numbers(groups.iter().map(|g| g.tasks_run)),
        numbers(groups.iter().map(|g| g.stolen)),
        numbers(groups.iter().map(|g| g.stolen_by_others)),
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
        Arc::new(all.iter().map(|s| Some(s.age.as_secs_f64())).collect::<Float64Array>()),
        text(all.iter().map(settings)),
        numbers(all.iter().map(|s| s.queued as u64)),
        numbers(all.iter().map(|s| s.tasks_run)),
        numbers(all.iter().map(|s| s.dropped)),
        numbers(all.iter().map(|s| s.memory_bytes)),
        numbers(all.iter().map(|s| s.memory_peak_bytes)),
    ]
}

pub(super) fn tasks(inner: &Arc<Inner>) -> Vec<ArrayRef> {
    let all = inner.scheduler.tasks(TASKS_MAX);
    let queue = |t: &sched::QueuedTask| t.queue.map_or("slot".to_string(), |q| format!("{q:?}").to_lowercase());
    let tasks = |t: &sched::QueuedTask| t.tasks.unwrap_or(0) as u64;
    vec![
        ids(all.iter().map(|t| Some(t.group.0))),
        ids(all.iter().map(|t| Some(t.node.0))),
        text(all.iter().map(|t| Some(queue(t)))),
        ids(all.iter().map(|t| t.slot.map(|s| s.0))),
        numbers(all.iter().map(|t| t.priority.statement_time)),
        text(all.iter().map(|t| Some(&t.label))),
        numbers(all.iter().map(tasks)),
    ]
}
