//! What a statement writes to a delta: rows that it has added and rows that it has claimed, until it commits.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use numa::Reservation;

use super::commits::{Commit, DeadRows};
use super::{Delta, ENTRY_ROWS_MAX, TableRow, check_types, number_of};
use crate::error::StoreError;

/// Rows that a running statement adds and lets die; dropped before it is committed, it never was.
#[derive(Debug)]
pub struct DeltaWrite {
    pub(super) delta: Arc<Delta>,
    pub(super) rows: Range<u32>,
    /// Claimed.
    pub(super) dead: DeadRows,
    /// What they take.
    pub(super) charge: Option<Arc<Reservation>>,
}

impl Delta {
    /// Adds `rows` and lets those of `dead` die, at once, as soon as it is committed. `None` where one of those that
    /// are to die is dead by now, is not committed yet, or another running statement lets it die. That a row of the
    /// base is there is the caller's to know, as are NULLs.
    ///
    /// # Errors
    /// [`StoreError::Memory`] where the budget is full; [`StoreError::ColumnCount`] and [`StoreError::TypeMismatch`]
    /// for rows of another schema; [`StoreError::NotThere`] for a dead row that the log does not have;
    /// [`StoreError::TooManyRows`].
    pub fn write(self: &Arc<Self>, rows: &RecordBatch, dead: &[TableRow]) -> Result<Option<DeltaWrite>, StoreError> {
        let Some(mut write) = self.begin(dead)? else { return Ok(None) };
        write.add(rows)?;
        Ok(Some(write))
    }

    /// As [`write`](Self::write), without rows yet: they are [added](DeltaWrite::add).
    ///
    /// # Errors
    /// As there.
    pub(super) fn begin(self: &Arc<Self>, dead: &[TableRow]) -> Result<Option<DeltaWrite>, StoreError> {
        if !dead.is_empty() {
            let count = self.rows();
            let beyond = |row: &TableRow| matches!(row, TableRow::Delta { row } if *row as usize >= count);
            if let Some(TableRow::Delta { row }) = dead.iter().find(|row| beyond(row)) {
                return Err(StoreError::NotThere { what: "row", index: *row as usize, count });
            }
        }
        let mut write = DeltaWrite { delta: Arc::clone(self), rows: 0..0, dead: DeadRows::None, charge: None };
        Ok(write.claim(DeadRows::of(dead))?.then_some(write))
    }
}

impl DeltaWrite {
    /// Adds rows, once.
    ///
    /// # Errors
    /// As [`Delta::write`].
    pub(super) fn add(&mut self, rows: &RecordBatch) -> Result<(), StoreError> {
        let delta = Arc::clone(&self.delta);
        check_types(&delta.schema, rows.columns().iter().map(|column| column.data_type()))?;
        if rows.num_rows() > ENTRY_ROWS_MAX {
            return Err(StoreError::TooManyRows { rows: rows.num_rows(), rows_max: ENTRY_ROWS_MAX });
        }
        if rows.num_rows() > 0 {
            let mut log = delta.log.lock();
            let end = log.end_with(rows.num_rows())?;
            if end > delta.rows_max {
                let rows_max = (delta.rows_max - log.rows()) as usize;
                return Err(StoreError::TooManyRows { rows: rows.num_rows(), rows_max });
            }
            delta.stamps.reserve(end, &delta.budget)?;
            self.rows = log.push(rows, &delta.budget)?;
        }
        Ok(())
    }

    /// Number of the first of its rows.
    pub fn first_row(&self) -> u32 {
        self.rows.start
    }

    /// Claims rows; whether it has all of them, else none.
    fn claim(&mut self, dead: DeadRows) -> Result<bool, StoreError> {
        self.charge = self.delta.charged(&dead)?;
        for (place, row) in dead.rows().iter().enumerate() {
            let is_claimed = match *row {
                TableRow::Base { segment, row } => self.delta.dead_base.claim(number_of(segment, row)),
                TableRow::Delta { row } => self.delta.stamps.claim(row),
            };
            if !is_claimed {
                self.delta.release(&dead.rows()[..place]);
                return Ok(false);
            }
        }
        self.dead = dead;
        Ok(true)
    }

    /// Makes it what `version` has done, which is later than all that were committed and which nobody reads yet.
    pub fn commit(mut self, version: u64) {
        let dead = std::mem::take(&mut self.dead);
        self.delta.enter(Commit { version, rows: self.rows.clone(), dead, charge: self.charge.take() });
    }
}

impl Delta {
    /// What dead rows take of the budget; `None` where that is nothing.
    pub(super) fn charged(&self, dead: &DeadRows) -> Result<Option<Arc<Reservation>>, StoreError> {
        match dead.bytes() {
            0 => Ok(None),
            bytes => Ok(Some(Arc::new(self.budget.reserve(bytes)?))),
        }
    }

    /// Enters what a version has done, which is later than all that were entered.
    pub(super) fn enter(&self, commit: Commit) {
        // Whoever catches up by the list finds what it says in the stamps.
        let mut commits = self.commits.lock();
        commit.rows.clone().for_each(|row| self.stamps.bear(row, commit.version));
        let mut of_base = 0;
        for row in commit.dead.rows() {
            match *row {
                TableRow::Delta { row } => self.stamps.kill(row, commit.version),
                TableRow::Base { segment, row } => {
                    self.dead_base.kill(number_of(segment, row), commit.version);
                    of_base += 1;
                }
            }
        }
        // What is added counts before it dies, so that no reader counts less than none.
        let counts = &self.counts;
        counts.added.fetch_add(commit.rows.len(), Ordering::AcqRel);
        counts.dead_base.fetch_add(of_base, Ordering::AcqRel);
        counts.dead_delta.fetch_add(commit.dead.rows().len() - of_base, Ordering::AcqRel);
        commits.push(commit);
    }

    /// Gives claimed rows back.
    pub(super) fn release(&self, rows: &[TableRow]) {
        for row in rows {
            match *row {
                TableRow::Base { segment, row } => self.dead_base.release(number_of(segment, row)),
                TableRow::Delta { row } => self.stamps.release(row),
            }
        }
    }
}

impl Drop for DeltaWrite {
    fn drop(&mut self) {
        self.delta.release(self.dead.rows());
    }
}
