//! Moving a column beside the statements that read and write its table.
//!
//! First the table is told where the column belongs, so that what is written from then on goes there; then its segments
//! are moved, one after the other. A writer waits for one segment at most. A move that is stopped or fails leaves
//! segments in both places, and the table's placement as it was before: what reads them finds each where it is.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chrono::Utc;
use storage::{Part, Segment, SegmentVersion, Serial};

use crate::catalog::delta::TableDelta;
use crate::catalog::index::indexed;
use crate::catalog::placement::changes::{PlacementChange, Report};
use crate::catalog::placement::spec::ColumnSpec;
use crate::catalog::{Alone, TableEntry};
use crate::error::{Error, Result};
use crate::run::inner::Inner;
use crate::run::placer_log::Entry;

/// Of the time, what moving takes at most: statements have the rest of the memory's bandwidth.
const SHARE: u32 = 4;
/// A pause between two segments ends after so long at the latest.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Has a column lie as `spec` says, as the placer's wish.
///
/// # Errors
/// The table or column is gone, a user said meanwhile where it lies, it was stopped, or there is no memory. Then the
/// column belongs where it did.
pub(super) fn carry_out(
    inner: &Arc<Inner>,
    entry: &Entry,
    spec: Option<ColumnSpec>,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let _one_at_a_time = inner.placer.moving.lock();
    let started = Instant::now();
    let mut report = Report::default();
    let (before, done) = match told(inner, entry, spec, is_stopped) {
        Err(error) => (None, Err(error)),
        Ok((before, segments)) => (Some(before), moved(inner, entry, &segments, &mut report, is_stopped)),
    };
    if let (Some(before), Err(_)) = (before, &done) {
        // It goes on to belong where most of it is.
        told(inner, entry, before, &|| false)?;
    }
    inner.changes.push(PlacementChange {
        at: Utc::now(),
        table: entry.table.as_ref().clone(),
        from: entry.from_text.clone(),
        to: format!("{}: {}", entry.column, text_of(inner, entry)),
        report,
        elapsed: started.elapsed(),
        error: done.as_ref().err().map(ToString::to_string),
    });
    done
}

/// How a column lies, as a user would write it.
fn text_of(inner: &Inner, entry: &Entry) -> String {
    let state = inner.catalog.state();
    state.by_id(entry.item.table).map_or_else(String::new, |table| table.placement.column_text(&entry.column))
}

/// Changes a table as its one writer.
fn change(
    inner: &Arc<Inner>,
    table: u64,
    is_stopped: &(dyn Fn() -> bool + Sync),
    work: impl FnOnce(&TableEntry) -> Result<Option<TableEntry>>,
) -> Result<()> {
    let gone = || Error::Execution("the table was dropped while a column of it was moved".into());
    let meta = Arc::clone(&inner.catalog.state().by_id(table).ok_or_else(gone)?.meta);
    let go_on = || if is_stopped() { Err(Error::Cancelled) } else { Ok(()) };
    let _turn = meta.write_turns.next(go_on)?;
    let state = inner.catalog.state();
    let entry = state.by_id(table).ok_or_else(gone)?;
    match work(entry)? {
        Some(entry) => {
            // With the turn no worker is waited for: it may have others' tasks to do first.
            let entry = indexed(entry, &Arc::new(Alone))?;
            inner.catalog.commit(|state| state.set_table(entry))
        }
        None => Ok(()),
    }
}

/// Tells the table where the column belongs; what it had of its own before, and the segments that there are.
fn told(
    inner: &Arc<Inner>,
    entry: &Entry,
    spec: Option<ColumnSpec>,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(Option<ColumnSpec>, Vec<Weak<Segment>>)> {
    let mut known = (None, Vec::new());
    change(inner, entry.item.table, is_stopped, |table| {
        let schema = &table.base.schema;
        if table.placement.is_by_user(&entry.column) || table.placement.parts() > 1 {
            return Err(Error::Execution(format!("where column '{}' lies was said by a user meanwhile", entry.column)));
        }
        if schema.field_with_name(&entry.column).is_err() {
            return Err(Error::Execution(format!("column '{}' is gone", entry.column)));
        }
        known.0 = table.placement.own_spec(&entry.column).cloned();
        known.1 = table.base.segments().map(|version| Arc::downgrade(&version.segment)).collect();
        let placement = table.placement.placed(&entry.column, spec, schema)?;
        Ok(Some(TableEntry { placement: Arc::new(placement), ..table.clone() }))
    })?;
    Ok(known)
}

/// Moves those of the segments that are still there.
fn moved(
    inner: &Arc<Inner>,
    entry: &Entry,
    segments: &[Weak<Segment>],
    report: &mut Report,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    for segment in segments {
        if is_stopped() {
            return Err(Error::Cancelled);
        }
        let started = Instant::now();
        change(inner, entry.item.table, is_stopped, |table| {
            let Some(segment) = segment.upgrade() else { return Ok(None) };
            let is_it = |version: &SegmentVersion| Arc::ptr_eq(&version.segment, &segment);
            let Some(place) = table.base.segments().position(is_it) else { return Ok(None) };
            let Some(column) = table.base.schema.fields().iter().position(|field| *field.name() == entry.column) else {
                return Ok(None);
            };
            let wanted = table.placement.columns(0, &table.base.schema);
            let wishes = wanted.into_iter().enumerate().map(|(at, wanted)| (at == column).then_some(wanted));
            let version = table.base.segments().nth(place).cloned().into_iter().collect();
            let alone = table.base.with_parts(vec![Arc::new(Part { segments: version })]);
            let allocator = table.meta.allocator();
            let placed = storage::place_parts(&alone, &[wishes.collect()], &allocator, &Serial, is_stopped);
            let (alone, placed) = placed?;
            report.placed.add(&placed);
            let new: Vec<SegmentVersion> = alone.segments().cloned().collect();
            let base = table.base.with_replaced(0, place..place + 1, new)?;
            // What it knows of the base is of the old segments.
            let again =
                |delta: &Arc<TableDelta>| Arc::new(TableDelta::new(Arc::clone(&delta.rows), Arc::clone(&delta.keys)));
            let delta = table.delta.as_ref().map(again);
            Ok(Some(TableEntry { base: Arc::new(base), delta, ..table.clone() }))
        })?;
        std::thread::sleep((started.elapsed() * SHARE).min(PAUSE_MAX));
    }
    Ok(())
}
