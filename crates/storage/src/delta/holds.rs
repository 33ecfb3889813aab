//! Rows that transactions hold: claimed over several statements, for as long as the transaction goes on. Those that it
//! takes away are dead as soon as it commits; those that it has only locked live on.
//!
//! A claim of a running statement ends before anything takes the delta's place; one that is held does not. So what
//! takes its place takes over the holds ([`Delta::take_over`]), by the places that the rows have then: the old delta
//! keeps its own, for who reads it still, and nothing is held or released there any more.
//!
//! # Invariants
//! Holds change, and are taken over, by who has the table's write turn alone, but for single rows that are taken away
//! by those that share it. A row that is held is claimed once, however many hold it, and until the last of them gives
//! it back. Two transactions hold a row together where [`RowHold::goes_with`] says so.

use std::sync::Arc;

use numa::Reservation;

use super::commits::DeadRows;
use super::{Delta, DeltaWrite, TableRow};
use crate::error::StoreError;

/// How a transaction holds a row, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowHold {
    /// Nobody else takes it away: `FOR KEY SHARE`.
    KeyShare,
    /// Nobody else changes it: `FOR SHARE`.
    Share,
    /// Nobody else changes it, or has it so: `FOR NO KEY UPDATE`.
    NoKeyUpdate,
    /// It is the transaction's alone: `FOR UPDATE`.
    Update,
    /// The same, and it dies when the transaction commits.
    Death,
}

/// Rows that a step of a transaction holds.
#[derive(Debug)]
struct Hold {
    /// The transaction.
    holder: u64,
    /// Which of its steps: those after a step can be released together.
    step: u64,
    kind: RowHold,
    rows: DeadRows,
    /// What they take, for as long.
    _charge: Option<Arc<Reservation>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Holds {
    all: Vec<Hold>,
    /// Whether a row may be held twice.
    overlap: bool,
}

impl RowHold {
    /// Whether two transactions may hold a row so at the same time, as in PostgreSQL.
    pub fn goes_with(self, other: RowHold) -> bool {
        use RowHold::{KeyShare, NoKeyUpdate, Share};
        matches!((self.min(other), self.max(other)), (KeyShare, KeyShare | Share | NoKeyUpdate) | (Share, Share))
    }
}

impl Hold {
    fn has(&self, row: &TableRow) -> bool {
        // Rows of a hold are in order.
        self.rows.rows().binary_search(row).is_ok()
    }
}

impl Holds {
    fn is_held(&self, row: &TableRow) -> bool {
        self.all.iter().any(|hold| hold.has(row))
    }

    /// Those of some rows that nobody holds any more.
    fn free(&self, rows: &[TableRow]) -> Vec<TableRow> {
        match self.overlap {
            true => rows.iter().filter(|row| !self.is_held(row)).copied().collect(),
            false => rows.to_vec(),
        }
    }

    fn others(&self, holder: Option<u64>, kind: RowHold) -> impl Iterator<Item = &Hold> {
        self.all.iter().filter(move |hold| Some(hold.holder) != holder && !kind.goes_with(hold.kind))
    }
}

impl Delta {
    /// Holds rows for a transaction; whether it does, else none: one is dead by now, somebody else has claimed it or
    /// holds it so that it cannot be held so as well, or the transaction takes it away already.
    ///
    /// # Errors
    /// As [`Delta::write`].
    pub(super) fn hold(
        self: &Arc<Self>,
        holder: u64,
        step: u64,
        kind: RowHold,
        rows: &[TableRow],
    ) -> Result<bool, StoreError> {
        if let Some(mut claimed) = self.begin(rows)? {
            let (rows, charge) = (std::mem::take(&mut claimed.dead), claimed.charge.take());
            self.holds.lock().all.push(Hold { holder, step, kind, rows, _charge: charge });
            return Ok(true);
        }
        let mut holds = self.holds.lock();
        if holds.others(Some(holder), kind).any(|hold| rows.iter().any(|row| hold.has(row))) {
            return Ok(false);
        }
        let own = |least: RowHold, row: &TableRow| {
            holds.all.iter().any(|hold| hold.holder == holder && hold.kind >= least && hold.has(row))
        };
        if kind == RowHold::Death && rows.iter().any(|row| own(kind, row)) {
            return Ok(false);
        }
        let (held, unheld): (Vec<TableRow>, Vec<TableRow>) = rows.iter().partition(|row| holds.is_held(row));
        let stronger = held.into_iter().filter(|row| !own(kind, row));
        let rows = DeadRows::of(&stronger.chain(unheld.iter().copied()).collect::<Vec<_>>());
        let charge = self.charged(&rows)?;
        let Some(mut claimed) = self.begin(&unheld)? else { return Ok(false) };
        drop(std::mem::take(&mut claimed.dead));
        holds.overlap = true;
        holds.all.push(Hold { holder, step, kind, rows, _charge: charge });
        Ok(true)
    }

    /// Gives back what a transaction holds since a step.
    pub(super) fn release_held(&self, holder: u64, after_step: u64) {
        let mut holds = self.holds.lock();
        let goes = |hold: &mut Hold| hold.holder == holder && hold.step > after_step;
        let gone: Vec<Hold> = holds.all.extract_if(.., goes).collect();
        match &gone[..] {
            [] => {}
            [one] => self.release(&holds.free(one.rows.rows())),
            several => {
                // Given back twice, a row could be somebody else's the second time.
                let rows: Vec<TableRow> = several.iter().flat_map(|hold| hold.rows.rows()).copied().collect();
                self.release(&holds.free(DeadRows::of(&rows).rows()));
            }
        }
        holds.overlap &= !holds.all.is_empty();
    }

    /// The rows that a transaction takes away, in any order.
    pub(super) fn held(&self, holder: u64) -> Vec<TableRow> {
        let holds = self.holds.lock();
        let own = holds.all.iter().filter(|hold| hold.holder == holder && hold.kind == RowHold::Death);
        own.flat_map(|hold| hold.rows.rows().iter().copied()).collect()
    }

    /// The rows that anybody holds.
    pub(super) fn all_held(&self) -> Vec<TableRow> {
        let mut rows: Vec<TableRow> =
            self.holds.lock().all.iter().flat_map(|hold| hold.rows.rows().iter().copied()).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Whether anybody holds a row.
    pub(super) fn has_holds(&self) -> bool {
        !self.holds.lock().all.is_empty()
    }

    /// How many rows others than a transaction hold.
    pub(super) fn held_by_others(&self, holder: u64) -> usize {
        let holds = self.holds.lock();
        holds.all.iter().filter(|hold| hold.holder != holder).map(|hold| hold.rows.rows().len()).sum()
    }

    /// Who holds the first row of some that another than `holder` holds, so that it cannot be held as `kind`.
    pub(super) fn holder_of(&self, rows: &[TableRow], holder: Option<u64>, kind: RowHold) -> Option<u64> {
        let holds = self.holds.lock();
        let mut others = holds.others(holder, kind);
        others.find(|hold| rows.iter().any(|row| hold.has(row))).map(|hold| hold.holder)
    }

    /// Who takes the first row of some away that another than `holder` does.
    pub(super) fn taker_of(&self, rows: &[TableRow], holder: Option<u64>) -> Option<u64> {
        let holds = self.holds.lock();
        let mut others = holds.all.iter().filter(|hold| Some(hold.holder) != holder && hold.kind == RowHold::Death);
        others.find(|hold| rows.iter().any(|row| hold.has(row))).map(|hold| hold.holder)
    }

    /// Whether a transaction takes a row away.
    pub(super) fn is_taken(&self, row: TableRow, holder: u64) -> bool {
        let holds = self.holds.lock();
        holds.all.iter().any(|hold| hold.holder == holder && hold.kind == RowHold::Death && hold.has(&row))
    }

    /// What a transaction takes away, as what a statement has claimed: it is held no more.
    pub(super) fn take_held(self: &Arc<Self>, holder: u64) -> Result<DeltaWrite, StoreError> {
        let rows = DeadRows::of(&self.held(holder));
        let mut holds = self.holds.lock();
        holds.all.retain(|hold| hold.holder != holder || hold.kind != RowHold::Death);
        if holds.overlap {
            let locked = holds.all.iter_mut().filter(|hold| hold.holder == holder);
            for hold in locked {
                let lives = |row: &&TableRow| rows.rows().binary_search(row).is_err();
                hold.rows = DeadRows::of(&hold.rows.rows().iter().filter(lives).copied().collect::<Vec<_>>());
            }
        }
        drop(holds);
        let mut write = DeltaWrite { delta: Arc::clone(self), rows: 0..0, dead: rows, charge: None };
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
        holds.overlap = others.overlap;
        for hold in &others.all {
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
            holds.all.push(Hold { holder: hold.holder, step: hold.step, kind: hold.kind, rows, _charge: charge });
        }
        Ok(true)
    }
}
