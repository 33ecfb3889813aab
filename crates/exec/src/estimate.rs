//! [`Plan::estimated_bytes`]: how much memory a plan touches, from summaries only.

use storage::Segment;

use crate::charge::batch_bytes;
use crate::plan::{Output, Plan, width_bytes};

/// What the estimate of an operator's input needs to know from above.
struct Wanted {
    /// Columns of this operator's output that something above reads.
    columns: Vec<usize>,
    /// Rows that are wanted at most.
    rows: u64,
}

impl Plan {
    /// Bytes that running it touches, about: codes (or plain values) of every column that it reads, and the values of what
    /// it hands out, were every row to pass its filters. A limit without a filter below it bounds the rows. The size of a
    /// statement is judged by it: under 256 KiB it is not worth a task.
    pub fn estimated_bytes(&self) -> u64 {
        let schema = self.schema();
        let wanted = Wanted { columns: (0..schema.fields().len()).collect(), rows: u64::MAX };
        let (read, rows) = self.read(wanted);
        let width: u64 = schema.fields().iter().map(|f| width_bytes(f.data_type())).sum();
        read.saturating_add(rows.saturating_mul(width))
    }

    /// Bytes read, and rows of the output at most.
    fn read(&self, mut wanted: Wanted) -> (u64, u64) {
        match self {
            Plan::Scan { snapshot, columns, .. } => {
                let mut table: Vec<usize> = wanted.columns.iter().map(|&c| columns[c]).collect();
                table.sort_unstable();
                table.dedup();
                let total = snapshot.rows() as u64;
                let bytes: u64 = snapshot
                    .segments()
                    .filter(|version| version.live_rows() > 0)
                    .map(|version| segment_bytes(&version.segment, &table))
                    .sum();
                let rows = total.min(wanted.rows);
                // A scan that stops early reads that share of its columns.
                let share =
                    if total == 0 { 0 } else { (u128::from(bytes) * u128::from(rows)).div_ceil(u128::from(total)) };
                (share as u64, rows)
            }
            Plan::Filter { input, predicate } => {
                wanted.columns.extend(predicate.columns());
                input.read(Wanted { rows: u64::MAX, ..wanted })
            }
            Plan::Project { input, outputs } => {
                let mut columns = Vec::new();
                for &c in &wanted.columns {
                    match &outputs[c] {
                        Output::Column { column, .. } => columns.push(*column),
                        Output::Expression { expression, .. } => columns.extend_from_slice(expression.columns()),
                    }
                }
                input.read(Wanted { columns, rows: wanted.rows })
            }
            Plan::Limit { input, skip, fetch } => {
                let needed =
                    fetch.map_or(u64::MAX, |f| if f == 0 { 0 } else { (f as u64).saturating_add(*skip as u64) });
                let (bytes, rows) = input.read(Wanted { rows: wanted.rows.min(needed), ..wanted });
                (bytes, rows.min(needed))
            }
            Plan::Shared(plan) => plan.read(wanted),
            Plan::Values { batches, .. } => {
                (batches.iter().map(batch_bytes).sum(), batches.iter().map(|b| b.num_rows() as u64).sum())
            }
            // Whole inputs are read; how many rows come out is not known, so no more is claimed than goes in.
            Plan::Aggregate(_) | Plan::Join(_) | Plan::Sort(_) | Plan::Union(_) => {
                let mut total = (0u64, 0u64);
                for input in self.inputs() {
                    let columns = (0..input.schema().fields().len()).collect();
                    let (bytes, rows) = input.read(Wanted { columns, rows: u64::MAX });
                    total = (total.0.saturating_add(bytes), total.1.saturating_add(rows));
                }
                total
            }
        }
    }
}

/// Bytes of the codes of some columns, and of a bit for every row.
fn segment_bytes(segment: &Segment, columns: &[usize]) -> u64 {
    let codes: usize = columns.iter().map(|&c| segment.column(c).bytes_codes()).sum();
    (codes + segment.rows().div_ceil(8)) as u64
}
