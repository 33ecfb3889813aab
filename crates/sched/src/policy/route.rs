//! Where a submitted task goes: what the settings make of the affinity that it asks for.
//!
//! Invariant: a slot's private task goes to that slot under all settings.
//!
//! # Limits
//! The queue is chosen here. Which task of a queue goes next, and who may take from it, the priority and the queue's
//! kind say.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 (affinities); Seidel 2011 (NBB), section 3.3.3 (policies with
//! hints).

use super::{GroupId, Layout, QueueTarget};
use crate::affinity::{Affinity, Hint, SlotId};
use crate::settings::{Affinities, Settings};

/// A task that asks where to go.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What it asked for.
    pub affinity: Affinity,
    /// What it is estimated to cost.
    pub hint: Hint,
    /// The slot of the worker that submits it, if one does.
    pub caller: Option<SlotId>,
    /// The settings of its statement.
    pub settings: Settings,
    /// Tasks queued or running in a group.
    pub loads: &'a dyn Fn(GroupId) -> usize,
}

/// The queue that a task goes to: near the node or package that it asks for, as firmly as the settings say.
pub fn route(layout: &Layout, request: &Request<'_>) -> QueueTarget {
    layout.route(effective(request), request.settings.stealing, request.caller, request.loads)
}

/// What the settings make of the affinity that a task asks for.
fn effective(request: &Request<'_>) -> Affinity {
    let Affinity::Near { place, hard } = request.affinity else { return request.affinity };
    let threshold = u64::from(request.settings.memory_intensive_bytes_per_us);
    let memory_intensive = || threshold > 0 && request.hint.bytes_per_us().is_some_and(|rate| rate >= threshold);
    match request.settings.affinities {
        Affinities::Ignored => Affinity::Anywhere,
        Affinities::Soft => Affinity::Near { place, hard: false },
        Affinities::Weighed => Affinity::Near { place, hard: hard || memory_intensive() },
        Affinities::Hard => Affinity::Near { place, hard: true },
    }
}
