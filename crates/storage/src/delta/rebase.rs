//! A delta over another base: over one that has what was written before it, and over one whose segments were compacted.
//!
//! Making segments of a delta takes time, and writers go on meanwhile. So it is done from a view of the delta, and what
//! was committed since becomes a delta over the new segments: rows that were added since are the new delta's, in the
//! order in which they were committed, rows that died since die in the new segments. Both take time for what was
//! written since, and encode nothing. While it is done nobody may write: the caller sees to that.
//!
//! # Invariants
//! The table is the same before and after: its rows and which of them live, to a reader of any version since the view.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};

use super::commits::{Commit, DeadRows};
use super::{Delta, DeltaView, ENTRY_ROWS_MAX, Log, TableRow, number_of};
use crate::compact::Compacted;
use crate::error::StoreError;
use crate::table::TableVersion;

/// What was committed to a delta after a view and is not known yet: what the keys of the delta that goes on from the
/// view ([`Delta::since`]) catch up by.
#[derive(Debug, Default)]
pub struct Caught {
    /// Numbers of the rows that were added and live, each with its number in the delta that goes on.
    pub added: Vec<(u32, u32)>,
    /// Numbers of rows that died and were added after the view, in any order.
    pub died: Vec<u32>,
    /// Up to which version it is.
    pub version: u64,
    /// How many rows the delta that goes on has by then.
    pub rows: u32,
}

impl Delta {
    /// What was written since `view`, as a delta over what [`consolidated`](DeltaView::consolidated) makes of that view
    /// and `base`; its rows are numbered from 0, as [`caught`](Self::caught) tells them. `None` where it is no view of
    /// this delta.
    ///
    /// # Errors
    /// [`StoreError::Memory`].
    pub fn since(self: &Arc<Self>, view: &DeltaView, base: &TableVersion) -> Result<Option<Arc<Delta>>, StoreError> {
        if !Arc::ptr_eq(self, &view.delta) {
            return Ok(None);
        }
        let since = self.committed(view.version);
        let added: Vec<u32> = since.iter().flat_map(|commit| commit.rows.clone()).collect();
        let log = self.log.lock().clone();
        let rest =
            Delta::with_log(Arc::clone(&self.schema), &self.budget, (Log::default(), self.rows_max), Arc::default());
        rest.stamps.reserve(added.len() as u32, &self.budget)?;
        rest.copy(&log, &added)?;
        let numbers: HashMap<u32, u32> = added.iter().copied().zip(0..).collect();
        let segments = base.segments().count();
        let place = |row: &TableRow| match row {
            TableRow::Base { .. } => Some(*row),
            TableRow::Delta { row } => match numbers.get(row) {
                Some(row) => Some(TableRow::Delta { row: *row }),
                None => {
                    let (place, row) = view.log.place_of(*row)?;
                    Some(TableRow::Base { segment: (segments + place) as u32, row })
                }
            },
        };
        let mut first = 0;
        for commit in &since {
            let dead: Option<Vec<TableRow>> = commit.dead.rows().iter().map(place).collect();
            let Some(dead) = dead else { return Ok(None) };
            let rows = first..first + commit.rows.len() as u32;
            first = rows.end;
            // Rows of the log that are the base's by now take more.
            let dead = DeadRows::of(&dead);
            let charge = match &commit.charge {
                Some(charge) if charge.bytes() == dead.bytes() => Some(Arc::clone(charge)),
                _ => rest.charged(&dead)?,
            };
            rest.enter(Commit { version: commit.version, rows, dead, charge });
        }
        match rest.take_over(self, place)? {
            true => Ok(Some(Arc::new(rest))),
            false => Ok(None),
        }
    }

    /// The same over a base whose segments were compacted, of which `base` has the old ones.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] for a dead row that the new segments do not have.
    pub fn moved(&self, compacted: &Compacted, base: &TableVersion) -> Result<Arc<Delta>, StoreError> {
        let commits = self.committed(0);
        let number = |row: &TableRow| match *row {
            TableRow::Base { segment, row } => Some(number_of(segment, row)),
            TableRow::Delta { .. } => None,
        };
        let mut before: Vec<u64> = commits.iter().flat_map(|commit| commit.dead.rows()).filter_map(number).collect();
        before.extend(self.all_held().iter().filter_map(number));
        before.sort_unstable();
        let after = compacted.moved(base, &before);
        if after.len() != before.len() {
            return Err(StoreError::NotThere { what: "row", index: before.len(), count: after.len() });
        }
        let places: HashMap<u64, u64> = before.into_iter().zip(after).collect();
        let log = self.log.lock().clone();
        let moved =
            Delta::with_log(Arc::clone(&self.schema), &self.budget, (log, self.rows_max), Arc::clone(&self.stamps));
        let place = |row: &TableRow| match *row {
            TableRow::Base { segment, row } => {
                let place = places[&number_of(segment, row)];
                TableRow::Base { segment: (place >> 32) as u32, row: place as u32 }
            }
            of_delta => of_delta,
        };
        for commit in &commits {
            let dead: Vec<TableRow> = commit.dead.rows().iter().map(place).collect();
            let (rows, charge) = (commit.rows.clone(), commit.charge.clone());
            moved.enter(Commit { version: commit.version, rows, dead: DeadRows::of(&dead), charge });
        }
        match moved.take_over(self, |row| Some(place(row)))? {
            true => Ok(Arc::new(moved)),
            false => Err(StoreError::NotThere { what: "held row", index: 0, count: 0 }),
        }
    }

    /// What was committed since `view`, and since `known` was caught, up to a version.
    pub fn caught(&self, view: &DeltaView, known: &Caught, version: u64) -> Caught {
        let after = known.version.max(view.version);
        let commits = self.commits.lock().between(after, version).to_vec();
        let version = commits.last().map_or(after, |commit| commit.version);
        let mut caught = Caught { version, rows: known.rows, ..Caught::default() };
        for commit in &commits {
            let numbered = commit.rows.clone().zip(caught.rows..);
            caught.added.extend(numbered.filter(|(row, _)| self.stamps.died(*row).is_none()));
            caught.rows += commit.rows.len() as u32;
            caught.died.extend(commit.dead.rows().iter().filter_map(|row| match *row {
                TableRow::Delta { row } if !view.has_seen(row) => Some(row),
                _ => None,
            }));
        }
        caught
    }

    /// What was committed after a version, for who works on it for longer than readers and commits should wait.
    fn committed(&self, after: u64) -> Vec<Commit> {
        self.commits.lock().between(after, u64::MAX).to_vec()
    }

    /// Copies rows of another log to the end of this one's.
    fn copy(&self, from: &Log, rows: &[u32]) -> Result<(), StoreError> {
        let mut log = self.log.lock();
        for rows in rows.chunks(ENTRY_ROWS_MAX) {
            let fields = self.schema.fields().iter().enumerate();
            let columns: Vec<ArrayRef> = fields.map(|(place, of)| from.take(place, of.data_type(), rows)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
            log.push(&batch, &self.budget)?;
        }
        Ok(())
    }
}

impl DeltaView {
    /// Whether a row of the log was committed by the view's version, dead by then or not.
    fn has_seen(&self, row: u32) -> bool {
        row < self.log.rows() && self.delta.stamps.is_born(row, self.version)
    }
}
