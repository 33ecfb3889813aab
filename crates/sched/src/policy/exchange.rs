//! Exchangeable policies: where a submitted task goes.
//!
//! Invariants: a slot's private task goes to that slot under every policy; a target is one of the layout's.
//!
//! # Limits
//! A policy chooses the queue. Which task of a queue goes next, and who may take from it, is the same for all: the
//! priority and the queue's kind say it.
//!
//! Source: Seidel 2011 (NBB), sections 3.3.3 and 3.3.4 (policies with hints, `static_policy`); Psaroudakis et al., VLDB
//! 2015, section 5.1 (affinities).

use std::fmt::Debug;

use numa::CpuId;

use super::{GroupId, Layout, QueueTarget};
use crate::affinity::{Affinity, Hint, Place, SlotId};
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
    /// A number that differs from task to task; asked for only where it is needed.
    pub turn: &'a dyn Fn() -> u64,
}

/// Decides where tasks go. Give one to [`crate::Config::policy`] for all statements, or to
/// [`crate::Statement::set_policy`] for one.
pub trait Policy: Send + Sync + Debug {
    /// The policy's name, as views show it.
    fn name(&self) -> &str;
    /// The queue that a task goes to.
    fn route(&self, layout: &Layout, request: &Request<'_>) -> QueueTarget;
}

/// The default: tasks go to the node or package that they ask for, as firmly as the settings say.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumaPolicy;

impl Policy for NumaPolicy {
    fn name(&self) -> &str {
        "numa"
    }

    fn route(&self, layout: &Layout, request: &Request<'_>) -> QueueTarget {
        let affinity = effective(request);
        layout.route(affinity, request.settings.stealing, request.caller, request.loads)
    }
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

/// Tasks run on given cpus only: NBB's `static_policy`, with its hint (cpus, strict) as its fields.
///
/// A task near a place goes to one of the cpus there, another one to the cpus in turn. A strict task is run by its cpu
/// alone; otherwise its cpu's thread group runs it, and whoever may steal from there. Cpus without a slot do not count;
/// where none has one, tasks go where [`NumaPolicy`] sends them.
#[derive(Clone, Debug)]
pub struct StaticPolicy {
    /// The cpus to be used.
    pub cpus: Vec<CpuId>,
    /// Whether no other cpu may ever help.
    pub strict: bool,
}

impl Policy for StaticPolicy {
    fn name(&self) -> &str {
        "static"
    }

    fn route(&self, layout: &Layout, request: &Request<'_>) -> QueueTarget {
        if let Affinity::Slot(_) = request.affinity {
            return NumaPolicy.route(layout, request);
        }
        let slots = layout.slots().iter().enumerate();
        let given: Vec<u32> =
            slots.filter(|(_, slot)| self.cpus.contains(&slot.cpu)).map(|(slot, _)| slot as u32).collect();
        let wanted = |slot: &u32| {
            let group = layout.group(layout.slot(SlotId(*slot)).group);
            match request.affinity {
                Affinity::Near { place: Place::Node(node), .. } => group.node == node,
                Affinity::Near { place: Place::Package(package), .. } => group.package == Some(package),
                _ => true,
            }
        };
        let near: Vec<u32> = given.iter().copied().filter(wanted).collect();
        let among = if near.is_empty() { &given } else { &near };
        if among.is_empty() {
            return NumaPolicy.route(layout, request);
        }
        let slot = SlotId(among[((request.turn)() % among.len() as u64) as usize]);
        if self.strict {
            return QueueTarget::Slot(slot);
        }
        let node = layout.group(layout.slot(slot).group).node;
        layout.route(Affinity::near(node), request.settings.stealing, None, request.loads)
    }
}
