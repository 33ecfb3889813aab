//! A delta over another base: over one that has what was written before it, and over one whose segments were compacted.
//!
//! Making segments of a delta takes time, and writers go on meanwhile. So it is done from a state of the delta, and
//! what
//! was written since that state becomes a delta over the new segments: rows that were added since are the new delta's,
//! rows that died since die in the new segments. Both take time for what was written since, and encode nothing.
//!
//! # Invariants
//! The table is the same before and after: its rows, their order and which of them live.

use std::sync::Arc;

use super::dead::DeadRows;
use super::{Delta, View};
use crate::compact::Compacted;
use crate::error::StoreError;
use crate::table::TableVersion;

impl Delta {
    /// What was written since `earlier`, as a delta over what [`consolidated`](Self::consolidated) makes of that state
    /// and `base`; its rows are numbered from 0. `None` where `earlier` is no state before this one.
    ///
    /// # Errors
    /// [`StoreError::Memory`].
    pub fn since(&self, earlier: &Delta, base: &TableVersion) -> Result<Option<Delta>, StoreError> {
        let (view, before) = (self.view.as_ref(), earlier.view.as_ref());
        let first = before.log.rows();
        let is_of_one = Arc::ptr_eq(&view.newest, &before.newest) && first <= view.log.rows();
        let Some(entries) = view.entries.checked_sub(before.entries).filter(|_| is_of_one) else { return Ok(None) };
        let of_base = view.dead_base.since(&before.dead_base);
        let of_delta = view.dead_delta.since(&before.dead_delta);
        let (Some(mut of_base), Some(mut of_delta)) = (of_base, of_delta) else { return Ok(None) };
        let segments = base.segments().count();
        let own = of_delta.split_off(of_delta.partition_point(|row| *row < u64::from(first)));
        for row in of_delta {
            let Some((place, row)) = before.log.place_of(row as u32) else { return Ok(None) };
            of_base.push(((segments + place) as u64) << 32 | u64::from(row));
        }
        let own = own.into_iter().map(|row| row - u64::from(first)).collect();
        let none = DeadRows::default();
        let view = View {
            schema: Arc::clone(&view.schema),
            budget: Arc::clone(&view.budget),
            entries,
            log: view.log.since(first, &view.budget)?,
            dead_base: none.with(of_base, &view.budget)?,
            dead_delta: none.with(own, &view.budget)?,
            newest: Arc::default(),
        };
        Ok(Some(Delta { view: Arc::new(view) }))
    }

    /// The same over a base whose segments were compacted, of which `base` has the old ones.
    ///
    /// # Errors
    /// [`StoreError::Memory`].
    pub fn moved(&self, compacted: &Compacted, base: &TableVersion) -> Result<Delta, StoreError> {
        let view = self.view.as_ref();
        let dead_base = compacted.moved(base, &view.dead_base.all());
        let view = View {
            schema: Arc::clone(&view.schema),
            budget: Arc::clone(&view.budget),
            entries: view.entries,
            log: view.log.clone(),
            dead_base: DeadRows::default().with(dead_base, &view.budget)?,
            dead_delta: view.dead_delta.clone(),
            newest: Arc::default(),
        };
        Ok(Delta { view: Arc::new(view) })
    }

    /// The rows of the log that were added since `earlier`, a state before this one, and live.
    pub fn added_since(&self, earlier: &Delta) -> Vec<u32> {
        let rows = earlier.view.log.rows()..self.view.log.rows();
        rows.filter(|row| !self.view.dead_delta.contains(u64::from(*row))).collect()
    }

    /// The rows of the log that `earlier`, a state before this one, has and that have died since, ascending.
    pub fn died_since(&self, earlier: &Delta) -> Vec<u32> {
        let died = self.view.dead_delta.since(&earlier.view.dead_delta).unwrap_or_default();
        died.into_iter().map(|row| row as u32).filter(|row| *row < earlier.view.log.rows()).collect()
    }
}
