//! Whether a serializable transaction may commit: whether it would have read the same had it begun now.
//!
//! What a scan read is kept as the scan with its conditions, and what others have committed since, rows that came and
//! rows that went, is scanned so: where a row passes, the transaction has read something that is not so any more. (As
//! precision locking does: Neumann, Muehlbauer and Kemper, SIGMOD 2015, section 2.3.)
//!
//! # Limits
//! What was read otherwise than by a scan with conditions counts as the whole table; so does every read of a table
//! whose rows were moved since, by a merge or a large statement.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use exec::{CheckedPlan, ExecError};
use storage::{DeltasView, SegmentVersion, TableRow, TableVersion};

use crate::catalog::TableEntry;
use crate::catalog::snapshot::{FilteredScan, ReadOf};
use crate::catalog::transactions::Level;
use crate::error::{Error, Result};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::run::transaction::TransactionState;
use crate::statements::stage::{PartStager, build, nullable};
use crate::tables::stored::ROW_ID;

/// Fails where a serializable transaction that has written has read what another has changed since; for who has the
/// turns of all tables that it has read.
///
/// # Errors
/// [`Error::Serialization`]; no memory for rows that are compared.
pub(super) fn is_serializable(state: &TransactionState, running: &Arc<RunningStatement>) -> Result<()> {
    let Some(snapshot) = &state.snapshot else { return Ok(()) };
    if state.level != Level::Serializable || state.content.is_empty() {
        return Ok(());
    }
    let now = running.inner.catalog.state();
    for (id, read) in state.reads.lock().iter() {
        let changed = |table: &TableEntry| {
            Err(Error::Serialization(format!(
                "rows of table '{}', which the transaction has read, were changed by another",
                table.name.shown()
            )))
        };
        match (now.by_id(*id), snapshot.by_id(*id)) {
            (Some(table), _) if table.meta.last_write() <= state.writes_before => {}
            (Some(table), Some(then)) => {
                let ReadOf::Rows(scans) = read else { return changed(table) };
                let Some(rows) = changed_since(then, snapshot.version(), table, running)? else {
                    return changed(table);
                };
                for scan in scans {
                    if gives_any(scan, &rows, running)? {
                        return changed(table);
                    }
                }
            }
            (None, Some(_)) => {
                return Err(Error::Serialization("a table that the transaction has read was dropped".into()));
            }
            // Those that it has made itself are nobody else's.
            (_, None) => {}
        }
    }
    Ok(())
}

/// The rows of a table that came and those that went since a version; `None` where nobody knows.
fn changed_since(
    then: &TableEntry,
    version: u64,
    now: &Arc<TableEntry>,
    running: &Arc<RunningStatement>,
) -> Result<Option<TableVersion>> {
    let is_same_delta = match (&then.delta, &now.delta) {
        (Some(then), Some(now)) => Arc::ptr_eq(&then.rows, &now.rows),
        (None, _) => true,
        (Some(_), None) => false,
    };
    if !Arc::ptr_eq(&then.base, &now.base) || !is_same_delta {
        return Ok(None);
    }
    let empty = TableVersion::empty(&now.base.schema);
    let Some(delta) = &now.delta else { return Ok(Some(empty)) };
    now.load_all(running)?;
    let (then, before) = now.view_and_whole(delta, version)?;
    let (view, after) = now.view_and_whole(delta, u64::MAX)?;
    let (came, went) = (rows_of_delta(&view, &after, now)?, rows_of_delta(&then, &before, now)?);
    let only_in = |some: &DeltaRows, others: &DeltaRows| -> Vec<(usize, u32)> {
        some.iter().filter(|(row, _)| !others.contains_key(row)).map(|(_, place)| *place).collect()
    };
    let of_base = |of| segments(of, &now.base).filter(|(_, is_of_base, _)| *is_of_base);
    let mut died = Vec::new();
    for ((segment, _, after), (_, _, before)) in of_base(&after).zip(of_base(&before)) {
        let since = after.deleted.as_ref().map_or_else(Vec::new, |after| after.since(before.deleted.as_deref()));
        died.extend(since.into_iter().map(|row| (segment, row)));
    }
    let mut batches = rows_at(&after, only_in(&came, &went), now)?;
    batches.extend(rows_at(&before, only_in(&went, &came), now)?);
    batches.extend(rows_at(&after, died, now)?);
    // What others have written keeps what it had to.
    let plain = TableEntry { rules: Arc::default(), ..TableEntry::clone(now) };
    let mut stager = PartStager::new(&plain, running)?;
    batches.iter().try_for_each(|batch| stager.append(batch))?;
    let new = build(vec![stager.finish()?], now, running)?;
    let of = TableEntry { base: Arc::new(empty.clone()), delta: None, ..TableEntry::clone(now) };
    Ok(Some(TableVersion::clone(&new.appended_to(&of, &empty).base)))
}

/// Rows of a delta by their numbers: segment and row of a table as segments alone.
type DeltaRows = BTreeMap<u32, (usize, u32)>;

/// The segments of a table as segments alone, with their places and whether they are the base's.
fn segments<'a>(
    whole: &'a TableVersion,
    base: &'a TableVersion,
) -> impl Iterator<Item = (usize, bool, &'a SegmentVersion)> {
    let parts = whole.parts.iter().enumerate().flat_map(|(part, of)| {
        let of_base = base.parts.get(part).map_or(0, |part| part.segments.len());
        of.segments.iter().enumerate().map(move |(place, segment)| (place < of_base, segment))
    });
    parts.enumerate().map(|(place, (is_of_base, segment))| (place, is_of_base, segment))
}

/// The live rows of a view of a table's delta.
fn rows_of_delta(view: &DeltasView, whole: &TableVersion, table: &TableEntry) -> Result<DeltaRows> {
    let places = view.places(&table.base);
    let mut rows = BTreeMap::new();
    for (segment, _, of) in segments(whole, &table.base).filter(|(_, is_of_base, _)| !is_of_base) {
        for row in (0..of.segment.rows()).filter(|row| of.is_live(*row)).map(|row| row as u32) {
            match places.of(segment, row)? {
                TableRow::Delta { row: number } => rows.insert(number, (segment, row)),
                TableRow::Base { .. } => return Err(Error::Internal("a row of a delta that is none".into())),
            };
        }
    }
    Ok(rows)
}

/// Rows by segment and row.
fn rows_at(whole: &TableVersion, mut rows: Vec<(usize, u32)>, table: &TableEntry) -> Result<Vec<RecordBatch>> {
    rows.sort_unstable();
    let segments: Vec<_> = whole.segments().collect();
    let of_segment = |rows: &[(usize, u32)]| {
        let numbers: Vec<u32> = rows.iter().map(|(_, row)| *row).collect();
        let columns = segments[rows[0].0].segment.columns().map(|column| column.take(&numbers)).collect();
        Ok(RecordBatch::try_new(nullable(&table.base.schema), columns)?)
    };
    rows.chunk_by(|a, b| a.0 == b.0).map(of_segment).collect()
}

/// Whether a scan passes any of some rows; a condition that fails for one might have failed the statement, too.
fn gives_any(scan: &FilteredScan, rows: &TableVersion, running: &Arc<RunningStatement>) -> Result<bool> {
    let rows = if scan.has_row_ids { rows.with_row_ids(ROW_ID) } else { rows.clone() };
    let plan = scan.plan.over(&Arc::new(rows)).ok_or_else(|| Error::Internal("a scan that is none".into()))?;
    let plan = CheckedPlan::new(plan.limit(0, Some(1))).map_err(ExecError::from)?;
    let schema = Arc::clone(plan.schema());
    match query::start_bound(plan, schema, Arc::clone(running), true).collect_all() {
        Ok(found) => Ok(found.iter().any(|batch| batch.num_rows() > 0)),
        Err(error @ (Error::Cancelled | Error::Timeout | Error::Memory(_))) => Err(error),
        Err(_) => Ok(true),
    }
}
