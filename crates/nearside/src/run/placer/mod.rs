//! The placer at work: each period it looks at what was read of which column, decides (crate `placer`, pure), and moves
//! data beside the statements that go on.
//!
//! A thread does so while `nearside.placer` is `advise` or `on` and the machine has several nodes with cpus; else there
//! is none. What is decided stands in `nearside.placement_log`, with the reason, the gain that was predicted, and what
//! became of it; with `advise` that is all that happens.
//!
//! # Invariants
//! Where a user said where a column or its table lies, nothing is decided about it. A panic in a period ends that
//! period: the placer begins anew without what it remembered, which the log says.
//!
//! # Limits
//! Columns of tables that are cut into parts are left alone: a part is a user's wish as yet. What is read is known once
//! a statement has ended. Of rows that became segments at once all of the table's count as written.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 7.

mod moving;
mod observe;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use numa::NodeId;
use placer::limits::REST_PERIODS;
use placer::{Copies, Decision, Observation, Placer};

use crate::catalog::placement::spec::{ColumnSpec, Nodes, Where};
use crate::error::{Error, Result};
use crate::run::inner::Inner;
use crate::run::placer_log::{Entry, Outcome};
use crate::run::placer_state::Mode;
use observe::Before;

/// Says what the placer of a database does from now on.
///
/// # Errors
/// There is no thread for it.
pub(crate) fn set_mode(inner: &Arc<Inner>, mode: Mode) -> Result<(), String> {
    let live = &inner.placer;
    let mut state = live.state.lock();
    state.mode = mode;
    live.changed.notify_all();
    if mode == Mode::Off || state.has_thread || !observe::has_choice(inner) {
        return Ok(());
    }
    // What was seen before it was switched off says nothing about now.
    state.open.clear();
    live.decides.lock().begin_anew();
    let weak = Arc::downgrade(inner);
    let thread = std::thread::Builder::new().name("nearside-placer".into());
    match thread.spawn(move || run(&weak)) {
        Ok(_) => {
            state.has_thread = true;
            Ok(())
        }
        Err(error) => {
            state.mode = Mode::Off;
            Err(format!("no thread could be had for the placer: {error}"))
        }
    }
}

/// Period after period, as long as there is a database that wants it.
fn run(weak: &Weak<Inner>) {
    let mut before = Before::default();
    let mut periods = 0;
    loop {
        let Some(inner) = weak.upgrade() else { return };
        let live = Arc::clone(&inner.placer);
        drop(inner);
        if !live.waited() {
            return;
        }
        let Some(inner) = weak.upgrade() else { return };
        periods += 1;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| period(&inner, &mut before, periods))) {
            let why = sched::panic_text(panic.as_ref());
            tracing::error!("the placer failed and begins anew: {why}");
            live.log.restarted(&why);
            before = Before::default();
            *live.decides.lock() = Placer::default();
            live.state.lock().open.clear();
        }
    }
}

/// One period.
fn period(inner: &Arc<Inner>, before: &mut Before, number: u64) {
    let live = &inner.placer;
    let Some(observation) = observe::observe(inner, before) else { return };
    let read = observation.items.iter().flat_map(|item| &item.served).sum::<u64>() as f64 / observation.seconds;
    let (decisions, mode) = {
        let mut state = live.state.lock();
        let due: Vec<(u64, u64, f64)> = state.open.extract_if(.., |(_, at, _)| *at <= number).collect();
        due.into_iter().filter(|of| of.2 > 0.0).for_each(|(entry, _, then)| live.log.achieved(entry, read / then));
        let mode = state.mode;
        drop(state);
        (live.decides.lock().decide(&observation), mode)
    };
    // Whoever has the database besides this thread.
    let is_stopped = || live.is_stopped() || Arc::strong_count(inner) <= 1;
    let mut has_moved = false;
    for decision in decisions {
        let Some(entry) = entry_of(inner, &decision, &observation) else { continue };
        if mode != Mode::On {
            if !live.log.is_said(&entry) {
                live.log.push(entry);
            }
            continue;
        }
        let entry_number = live.log.push(entry.clone());
        live.log.ended(entry_number, Outcome::Moving);
        let moved = moving::carry_out(inner, &entry, &|| Ok(entry.to.clone()), &is_stopped);
        let is_done = moved.is_ok();
        has_moved = true;
        live.log.ended(entry_number, moved.err().map_or(Outcome::Done, |error| Outcome::Failed(error.to_string())));
        if is_done {
            live.state.lock().open.push((entry_number, number + REST_PERIODS, read));
        }
    }
    if has_moved {
        // What was read while data moved was read in both places.
        observe::observe(inner, before);
    }
}

/// A decision as the log has it; `None` where the table or the column went meanwhile.
fn entry_of(inner: &Inner, decision: &Decision, observation: &Observation) -> Option<Entry> {
    let state = inner.catalog.state();
    let table = state.by_id(decision.item.table)?;
    let fields = table.base.schema.fields();
    let is_it = |name: &&String| table.placement.number_of(name) == Some(decision.item.number);
    let column = fields.iter().map(|field| field.name()).find(is_it)?.clone();
    let nodes: Vec<NodeId> = decision.to.iter().map(|place| observation.nodes[*place].id).collect();
    let to = match (&nodes[..], decision.copies) {
        ([one], _) => ColumnSpec::All(Where::Node(*one)),
        (_, Copies::None) => ColumnSpec::Ivp(Nodes::These(nodes)),
        (_, Copies::All) => ColumnSpec::All(Where::Replicated(Nodes::These(nodes))),
        (_, Copies::Dictionary) => ColumnSpec::Components {
            codes: Some(Where::Striped(Nodes::These(nodes.clone()))),
            dictionary: Some(Where::Replicated(Nodes::These(nodes.clone()))),
            index: Some(Where::Interleaved(Nodes::These(nodes))),
        },
    };
    Some(Entry {
        item: decision.item,
        table: table.name.clone(),
        from: table.placement.own_spec(&column).cloned(),
        from_text: table.placement.column_text(&column),
        column,
        to: Some(to),
        to_places: decision.to.clone(),
        why: decision.reason.to_string(),
        bytes: decision.bytes,
        predicted: decision.gain,
    })
}

/// Puts a column back where it was before an entry of the log, and remembers that a user did not want it there.
///
/// # Errors
/// There is no such entry, it was not carried out or was undone already, something else was decided about the column
/// since, it was stopped, or moving failed.
pub(crate) fn undo(inner: &Arc<Inner>, number: u64, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<()> {
    let live = &inner.placer;
    let to_undo = || live.log.to_undo(number).map_err(Error::Setting);
    let entry = to_undo()?;
    // Asked again once nothing else is moved.
    moving::carry_out(inner, &entry, &|| to_undo().map(|entry| entry.from), is_stopped)?;
    live.log.ended(number, Outcome::Undone);
    live.state.lock().open.retain(|(open, ..)| *open != number);
    live.decides.lock().undone(entry.item, &entry.to_places);
    Ok(())
}
