//! A set of dead rows that never changes and whose successors share most of it: sorted runs, each less than half as
//! long as the one before it, so that a row is merged into a longer run as often as its set doubles, and is looked for
//! in as many runs.

use std::sync::Arc;

use numa::{Budget, MemoryError, Reservation};

/// Dead rows by a number: the caller's.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadRows {
    /// Longest first; no row is in two.
    runs: Vec<Arc<Run>>,
    count: usize,
}

#[derive(Debug)]
struct Run {
    /// Ascending.
    rows: Box<[u64]>,
    charge: Reservation,
}

impl DeadRows {
    /// Number of rows.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes charged.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.charge.bytes()).sum()
    }

    /// Whether the row is dead.
    pub(super) fn contains(&self, row: u64) -> bool {
        self.runs.iter().any(|run| run.rows.binary_search(&row).is_ok())
    }

    /// With these too, in any order.
    ///
    /// # Errors
    /// The budget is full.
    pub(super) fn with(&self, mut rows: Vec<u64>, budget: &Arc<Budget>) -> Result<DeadRows, MemoryError> {
        rows.sort_unstable();
        rows.dedup();
        rows.retain(|&row| !self.contains(row));
        if rows.is_empty() {
            return Ok(self.clone());
        }
        let count = self.count + rows.len();
        let mut kept = self.runs.len();
        let mut total = rows.len();
        while kept > 0 && self.runs[kept - 1].rows.len() <= 2 * total {
            kept -= 1;
            total += self.runs[kept].rows.len();
        }
        let charge = budget.reserve((size_of::<Run>() + total * size_of::<u64>()) as u64)?;
        let mut merged = Vec::with_capacity(total);
        self.runs[kept..].iter().for_each(|run| merged.extend_from_slice(&run.rows));
        merged.append(&mut rows);
        merged.sort();
        let mut runs = Vec::with_capacity(kept + 1);
        runs.extend_from_slice(&self.runs[..kept]);
        runs.push(Arc::new(Run { rows: merged.into_boxed_slice(), charge }));
        Ok(DeadRows { runs, count })
    }

    /// The rows that `earlier` does not have, ascending; `None` where it has one that is not here. It takes time for
    /// the runs that were merged since, which are a few times as long as what came to be dead.
    pub(super) fn since(&self, earlier: &DeadRows) -> Option<Vec<u64>> {
        let shared = self.runs.iter().zip(&earlier.runs).take_while(|(a, b)| Arc::ptr_eq(a, b)).count();
        let before = sorted(&earlier.runs[shared..]);
        let mut before = before.iter().copied().peekable();
        let mut rows = sorted(&self.runs[shared..]);
        rows.retain(|row| before.next_if_eq(row).is_none());
        before.peek().is_none().then_some(rows)
    }

    /// All rows, ascending.
    pub(super) fn all(&self) -> Vec<u64> {
        sorted(&self.runs)
    }

    /// Those within a range, counted from where it begins, in any order.
    pub(super) fn within(&self, range: std::ops::Range<u32>) -> Vec<u32> {
        let mut rows = Vec::new();
        for run in &self.runs {
            let from = run.rows.partition_point(|&row| row < u64::from(range.start));
            let run = &run.rows[from..];
            let run = &run[..run.partition_point(|&row| row < u64::from(range.end))];
            rows.extend(run.iter().map(|&row| row as u32 - range.start));
        }
        rows
    }
}

/// The rows of some runs, ascending.
fn sorted(runs: &[Arc<Run>]) -> Vec<u64> {
    let mut rows = Vec::with_capacity(runs.iter().map(|run| run.rows.len()).sum());
    runs.iter().for_each(|run| rows.extend_from_slice(&run.rows));
    // Sorted runs one behind the other: a stable sort merges them.
    rows.sort();
    rows
}
