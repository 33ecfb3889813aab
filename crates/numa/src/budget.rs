//! Memory budgets: how many bytes a database, a statement or a load may hold at a time.
//!
//! Budgets form a tree; a reservation counts in its budget and in every ancestor, or in none. The count of a budget
//! never exceeds its limit at any instant, however many threads reserve at once: each level is one atomic
//! compare-and-swap that refuses to pass the limit.
//!
//! # Limits
//! A reservation that an ancestor refuses is counted for a moment in the budgets below it; a second reservation in the
//! same branch may be refused in that moment although it would just have fitted. Nothing is ever over-reserved.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::MemoryError;
use crate::usage::Counts;

/// A limit on bytes with what is in use of it.
pub struct Budget {
    name: String,
    limit_bytes: Option<u64>,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    parent: Option<Arc<Budget>>,
    counts: OnceLock<Arc<Counts>>,
}

impl Budget {
    /// A budget that counts and never refuses.
    pub fn unlimited() -> Arc<Budget> {
        Budget::build("unlimited".to_string(), None, None)
    }

    /// A budget of its own; `name` is what errors call it.
    pub fn new(name: impl Into<String>, limit_bytes: u64) -> Arc<Budget> {
        Budget::build(name.into(), Some(limit_bytes), None)
    }

    /// A budget within this one: what it reserves is reserved here too. Without a limit only the ancestors' apply.
    pub fn child(self: &Arc<Self>, name: impl Into<String>, limit_bytes: Option<u64>) -> Arc<Budget> {
        Budget::build(name.into(), limit_bytes, Some(Arc::clone(self)))
    }

    /// Takes `bytes` from this budget and all its ancestors, or from none.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] names the first budget on the way up that has not enough left.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, MemoryError> {
        self.take(bytes)?;
        Ok(Reservation { budget: Arc::clone(self), bytes })
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes reserved now, here and in all descendants.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes that were reserved at a time since the start.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Its own limit; an ancestor's may be tighter.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.limit_bytes
    }

    /// What could be reserved at this instant, by its own limit and its ancestors'; `None` when nothing limits it.
    pub fn available_bytes(&self) -> Option<u64> {
        self.with_ancestors().filter_map(|b| b.limit_bytes.map(|limit| limit.saturating_sub(b.used_bytes()))).min()
    }

    fn build(name: String, limit_bytes: Option<u64>, parent: Option<Arc<Budget>>) -> Arc<Budget> {
        let used_bytes = AtomicU64::new(0);
        let peak_bytes = AtomicU64::new(0);
        let counts = OnceLock::new();
        Arc::new(Budget { name, limit_bytes, used_bytes, peak_bytes, parent, counts })
    }

    /// What [`usage`](crate::usage()) shows of its regions; a budget without any is not shown.
    pub(crate) fn counts(&self) -> &Arc<Counts> {
        self.counts.get_or_init(|| Counts::register(&self.name))
    }

    fn with_ancestors(&self) -> impl Iterator<Item = &Budget> {
        std::iter::successors(Some(self), |b| b.parent.as_deref())
    }

    /// From here up; an ancestor's refusal undoes what was taken below it.
    fn take(&self, bytes: u64) -> Result<(), MemoryError> {
        let used_bytes = self.take_here(bytes)?;
        if let Some(parent) = &self.parent {
            parent.take(bytes).inspect_err(|_| self.give_here(bytes))?;
        }
        // Only after all agreed, so that a refused request does not show as a peak.
        self.peak_bytes.fetch_max(used_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// What is in use with `bytes` more.
    fn take_here(&self, bytes: u64) -> Result<u64, MemoryError> {
        let limit = self.limit_bytes.unwrap_or(u64::MAX);
        self.used_bytes
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= limit)
            })
            .map(|before| before + bytes)
            .map_err(|used_bytes| MemoryError::OverBudget {
                budget: self.name.clone(),
                limit_bytes: limit,
                used_bytes,
                requested_bytes: bytes,
            })
    }

    fn give_here(&self, bytes: u64) {
        let before = self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "budget {} gave back {bytes} of {before} bytes", self.name);
    }

    fn give(&self, bytes: u64) {
        for budget in self.with_ancestors() {
            budget.give_here(bytes);
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("name", &self.name)
            .field("limit_bytes", &self.limit_bytes)
            .field("used_bytes", &self.used_bytes())
            .finish_non_exhaustive()
    }
}

/// Bytes taken from a budget; they go back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    /// How many bytes it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget it was taken from.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`]; the reservation then holds what it held.
    pub fn grow(&mut self, bytes: u64) -> Result<(), MemoryError> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives `bytes` back, or all it has when that is less.
    pub fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.give(bytes);
    }

    /// Grows or shrinks to exactly `bytes`.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] when it had to grow and could not; the reservation then holds what it held.
    pub fn resize(&mut self, bytes: u64) -> Result<(), MemoryError> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// Cuts `bytes` off, or all it has when that is less, as a reservation of its own; the budget does not notice.
    pub fn split(&mut self, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { budget: Arc::clone(&self.budget), bytes }
    }

    /// Where bytes of this reservation are counted; those of nobody's where there is none.
    pub(crate) fn counts(reservation: Option<&Reservation>) -> &Counts {
        reservation.map_or_else(|| Counts::of_nobody().as_ref(), |reservation| reservation.budget.counts())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

#[cfg(test)]
mod tests;
