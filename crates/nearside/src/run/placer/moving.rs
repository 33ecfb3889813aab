//! Moving a column beside the statements that read and write its table.
//!
//! First the table is told where the column belongs, so that what is written from then on goes there; then its segments
//! are moved, one after the other. A writer waits for one segment at most. Where pages move in place nothing of the
//! table changes, so merges go on. A move that is stopped or fails leaves segments in both places, and the column
//! belongs where it did before: what reads them finds each where it is.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chrono::Utc;
use storage::{Part, Segment, SegmentVersion, Serial};

use crate::catalog::delta::TableDelta;
use crate::catalog::index::indexed;
use crate::catalog::placement::changes::{PlacementChange, Report};
use crate::catalog::placement::spec::ColumnSpec;
use crate::catalog::{Alone, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::background::{self, Background};
use crate::run::inner::Inner;
use crate::run::placer_log::Entry;

/// For each time that a segment takes, so many times it is paused: statements have the memory's bandwidth meanwhile.
const PAUSES: u32 = 4;
/// How long to wait for another move to end before it is asked whether to go on.
const LOOK: Duration = Duration::from_millis(20);
/// Of what was to be moved, as 1 in so many, what the kernel may leave where it is.
const STUCK_SHARE: u64 = 10;

/// Has a column lie as `spec` says, as the placer's wish; `spec` is asked once nothing else is moved.
///
/// # Errors
/// Those of `spec`; the table or column is gone, a user said meanwhile where it lies, it was stopped, the kernel does
/// not move it, or there is no memory. Then the column belongs where it did.
pub(super) fn carry_out(
    inner: &Arc<Inner>,
    entry: &Entry,
    spec: &dyn Fn() -> Result<Option<ColumnSpec>>,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let _one_at_a_time = loop {
        match inner.placer.moving.try_lock_for(LOOK) {
            Some(guard) => break guard,
            None if is_stopped() => return Err(Error::Cancelled),
            None => {}
        }
    };
    let spec = spec()?;
    let started = Instant::now();
    let mut report = Report::default();
    let from = text_of(inner, entry);
    let mut done = loaded(inner, entry).and_then(|()| told(inner, entry, spec, is_stopped));
    if let Ok(before) = &done {
        let moved = moved(inner, entry, &mut report, is_stopped).and_then(|()| check_stuck(&report));
        if let Err(error) = moved {
            // It goes on to belong where most of it is.
            done = told(inner, entry, before.clone(), &|| false).and(Err(error));
        }
    }
    inner.changes.push(PlacementChange {
        at: Utc::now(),
        table: entry.table.as_ref().clone(),
        from,
        to: format!("{}: {}", entry.column, text_of(inner, entry)),
        report,
        elapsed: started.elapsed(),
        error: done.as_ref().err().map(ToString::to_string),
    });
    done.map(|_| ())
}

/// Fails where the kernel left much of it where it was.
fn check_stuck(report: &Report) -> Result<()> {
    let of = &report.placed;
    let all = of.moved_bytes + of.already_bytes + of.copied_bytes + of.stuck_bytes;
    if of.stuck_bytes > all / STUCK_SHARE {
        return Err(Error::execution(
            SqlState::ObjectNotInPrerequisiteState,
            format!(
                "the system does not move {} of {all} bytes of the column; allow this process to move its memory (in a \
             container: the capability SYS_NICE), or switch the placer off",
                of.stuck_bytes
            ),
        ));
    }
    Ok(())
}

/// How a column lies, as a user would write it.
fn text_of(inner: &Inner, entry: &Entry) -> String {
    let state = inner.catalog.state();
    let column = state.by_id(entry.item.table).and_then(|table| Some((table, column_of(table, entry)?)));
    column.map_or_else(String::new, |(table, column)| table.placement.column_text(&column))
}

/// What the column is called by now.
fn column_of(table: &TableEntry, entry: &Entry) -> Option<String> {
    let mut names = table.base.schema.fields().iter().map(|field| field.name());
    names.find(|name| table.placement.number_of(name) == Some(entry.item.number)).cloned()
}

/// Changes a table as its one writer.
fn change(
    inner: &Arc<Inner>,
    table: u64,
    is_stopped: &(dyn Fn() -> bool + Sync),
    work: impl FnOnce(&TableEntry) -> Result<Option<TableEntry>>,
) -> Result<()> {
    let gone = || Error::execution(SqlState::UndefinedTable, "the table was dropped while a column of it was moved");
    let meta = Arc::clone(&inner.catalog.state().by_id(table).ok_or_else(gone)?.meta);
    let go_on = || if is_stopped() { Err(Error::Cancelled) } else { Ok(()) };
    let _turn = meta.write_turns.next(go_on)?;
    let state = inner.catalog.state();
    let entry = state.by_id(table).ok_or_else(gone)?;
    if meta.locks.other_owner(None).is_some() {
        return Err(Error::execution(SqlState::ObjectInUse, "a transaction that has not ended changes the table"));
    }
    match work(entry)? {
        Some(entry) => {
            // With the turn no worker is waited for: it may have others' tasks to do first.
            let entry = indexed(entry, &Arc::new(Alone))?;
            inner.catalog.commit(|state| state.set_table(entry))
        }
        None => Ok(()),
    }
}

/// Has the column in memory: what is on the disk alone cannot be moved.
fn loaded(inner: &Arc<Inner>, entry: &Entry) -> Result<()> {
    let Some(table) = inner.catalog.state().by_id(entry.item.table).cloned() else { return Ok(()) };
    let Some(name) = column_of(&table, entry) else { return Ok(()) };
    let workers = Background::new(&inner.scheduler, background::statement(inner, "reading columns"));
    table.load(|column| *table.base.schema.field(column).name() == name, &Arc::new(workers))
}

/// Tells the table where the column belongs; what it had of its own before.
fn told(
    inner: &Arc<Inner>,
    entry: &Entry,
    spec: Option<ColumnSpec>,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Option<ColumnSpec>> {
    let mut before = None;
    change(inner, entry.item.table, is_stopped, |table| {
        let column = column_of(table, entry).ok_or_else(|| gone(entry))?;
        if table.placement.is_by_user(&column) || table.placement.parts() > 1 {
            return Err(Error::execution(
                SqlState::ObjectNotInPrerequisiteState,
                format!("where column '{column}' lies was said by a user meanwhile"),
            ));
        }
        before = table.placement.own_spec(&column).cloned();
        let placement = table.placement.placed(&column, spec, &table.base.schema)?;
        Ok(Some(TableEntry { placement: Arc::new(placement), ..table.clone() }))
    })?;
    Ok(before)
}

fn gone(entry: &Entry) -> Error {
    Error::execution(SqlState::UndefinedColumn, format!("column '{}' was dropped while it was moved", entry.column))
}

/// Moves the table's segments, those too that come meanwhile: of what lies right already nothing is moved.
fn moved(inner: &Arc<Inner>, entry: &Entry, report: &mut Report, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<()> {
    let mut seen: Vec<Weak<Segment>> = Vec::new();
    loop {
        if is_stopped() {
            return Err(Error::Cancelled);
        }
        let started = Instant::now();
        let mut is_left = false;
        change(inner, entry.item.table, is_stopped, |table| {
            let is_seen = |version: &SegmentVersion| {
                let segment = Arc::as_ptr(&version.segment);
                seen.iter().any(|seen| Weak::as_ptr(seen) == segment)
            };
            let next = table.base.segments().enumerate().find(|(_, version)| !is_seen(version));
            let Some((place, version)) = next else { return Ok(None) };
            is_left = true;
            let name = column_of(table, entry).ok_or_else(|| gone(entry))?;
            let schema = &table.base.schema;
            let column = schema.index_of(&name).map_err(|_| gone(entry))?;
            // Each segment begins with the next node.
            let wanted = table.placement.columns(0, schema).into_iter().enumerate();
            let wishes = wanted.map(|(at, wanted)| (at == column).then(|| wanted.turned(place)));
            let alone = table.base.with_parts(vec![Arc::new(Part { segments: vec![version.clone()] })]);
            let allocator = table.meta.allocator();
            let placed = storage::place_parts(&alone, &[wishes.collect()], &allocator, &Serial, is_stopped);
            let (alone, placed) = placed?;
            report.placed.add(&placed);
            let new: Vec<SegmentVersion> = alone.segments().cloned().collect();
            seen.push(Arc::downgrade(&version.segment));
            seen.extend(new.iter().map(|version| Arc::downgrade(&version.segment)));
            if matches!(&new[..], [new] if Arc::ptr_eq(&new.segment, &version.segment)) {
                // Its pages were moved.
                return Ok(None);
            }
            let base = table.base.with_replaced(0, place..place + 1, new)?;
            // What it knows of the base is of the old segments.
            let again =
                |delta: &Arc<TableDelta>| Arc::new(TableDelta::new(Arc::clone(&delta.rows), Arc::clone(&delta.keys)));
            let delta = table.delta.as_ref().map(again);
            Ok(Some(TableEntry { base: Arc::new(base), delta, ..table.clone() }))
        })?;
        if !is_left {
            return Ok(());
        }
        inner.placer.pause(started.elapsed() * PAUSES, is_stopped);
    }
}
