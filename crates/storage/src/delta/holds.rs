//! Rows that transactions hold: claimed over several statements, for as long as the transaction goes on, and dead as
//! soon as it commits.
//!
//! A claim of a running statement ends before anything takes the delta's place; one that is held does not. So what
//! takes its place takes over the holds ([`Delta::take_over`]), by the places that the rows have then: the old delta
//! keeps its own, for who reads it still, and nothing is held or released there any more.
//!
//! # Invariants
//! Holds change, and are taken over, by who has the table's write turn alone. A row is held once.

use std::sync::Arc;

use numa::Reservation;

use super::commits::DeadRows;
use super::{Delta, DeltaWrite, TableRow};
use crate::error::StoreError;

/// Rows that a step of a transaction holds.
#[derive(Debug)]
struct Hold {
    /// The transaction.
    holder: u64,
    /// Which of its steps: those after a step can be released together.
    step: u64,
    rows: DeadRows,
    /// What they take, for as long.
    _charge: Option<Arc<Reservation>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Holds(Vec<Hold>);

impl Delta {
    /// Holds rows for a transaction; whether it does, else none: one is dead by now, or somebody else has claimed it.
    ///
    /// # Errors
    /// As [`Delta::write`].
    pub(super) fn hold(self: &Arc<Self>, holder: u64, step: u64, rows: &[TableRow]) -> Result<bool, StoreError> {
        let Some(mut claimed) = self.begin(rows)? else { return Ok(false) };
        let (rows, charge) = (std::mem::take(&mut claimed.dead), claimed.charge.take());
        self.holds.lock().0.push(Hold { holder, step, rows, _charge: charge });
        Ok(true)
    }

    /// Gives back what a transaction holds since a step.
    pub(super) fn release_held(&self, holder: u64, after_step: u64) {
        let goes = |hold: &mut Hold| hold.holder == holder && hold.step > after_step;
        let gone: Vec<Hold> = self.holds.lock().0.extract_if(.., goes).collect();
        gone.iter().for_each(|hold| self.release(hold.rows.rows()));
    }

    /// The rows that a transaction holds, in any order.
    pub(super) fn held(&self, holder: u64) -> Vec<TableRow> {
        let holds = self.holds.lock();
        let own = holds.0.iter().filter(|hold| hold.holder == holder);
        own.flat_map(|hold| hold.rows.rows().iter().copied()).collect()
    }

    /// The rows that anybody holds.
    pub(super) fn all_held(&self) -> Vec<TableRow> {
        self.holds.lock().0.iter().flat_map(|hold| hold.rows.rows().iter().copied()).collect()
    }

    /// Whether anybody holds a row.
    pub(super) fn has_holds(&self) -> bool {
        !self.holds.lock().0.is_empty()
    }

    /// Who holds the first row of some that is held by another than `holder`.
    pub(super) fn holder_of(&self, rows: &[TableRow], holder: Option<u64>) -> Option<u64> {
        let holds = self.holds.lock();
        // Rows of a hold are in order.
        let mut others = holds.0.iter().filter(|hold| Some(hold.holder) != holder);
        others.find(|hold| rows.iter().any(|row| hold.rows.rows().binary_search(row).is_ok())).map(|hold| hold.holder)
    }

    /// What a transaction holds, as what a statement has claimed: it is held no more.
    pub(super) fn take_held(self: &Arc<Self>, holder: u64) -> Result<DeltaWrite, StoreError> {
        let rows = self.held(holder);
        self.holds.lock().0.retain(|hold| hold.holder != holder);
        let mut write = DeltaWrite { delta: Arc::clone(self), rows: 0..0, dead: DeadRows::of(&rows), charge: None };
        write.charge = self.charged(&write.dead)?;
        Ok(write)
    }

    /// Holds what another delta does, which this one takes the place of; whether it could. `place` says where rows are
    /// by now.
    pub(super) fn take_over(
        &self,
        other: &Delta,
        place: impl Fn(&TableRow) -> Option<TableRow>,
    ) -> Result<bool, StoreError> {
        let others = other.holds.lock();
        let mut holds = self.holds.lock();
        for hold in &others.0 {
            let rows: Option<Vec<TableRow>> = hold.rows.rows().iter().map(&place).collect();
            let Some(rows) = rows else { return Ok(false) };
            let rows = DeadRows::of(&rows);
            for row in rows.rows() {
                match *row {
                    TableRow::Base { segment, row } => drop(self.dead_base.claim(super::number_of(segment, row))),
                    // Where the log is the same, it is claimed already.
                    TableRow::Delta { row } => drop(self.stamps.claim(row)),
                }
            }
            let charge = self.charged(&rows)?;
            holds.0.push(Hold { holder: hold.holder, step: hold.step, rows, _charge: charge });
        }
        Ok(true)
    }
}
