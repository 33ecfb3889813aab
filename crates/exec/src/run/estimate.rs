//! [`Plan::estimated_bytes`]: how much memory a plan touches, from summaries only.

use arrow::datatypes::Schema;
use storage::Segment;

use crate::charge::batch_bytes;
use crate::plan::{AggregateCall, Join, JoinKind, Output, Plan, Side, WindowCall, width_bytes};
use crate::scan::seek::{Left, asked_by, left};
use crate::tasks::traffic::LINE_BYTES;

/// What the estimate of an operator's input needs to know from above.
struct ReadColumns {
    /// Columns of this operator's output that something above reads.
    columns: Vec<usize>,
    /// Rows that are wanted at most.
    rows: u64,
}

impl Plan {
    /// Bytes that running it touches, about: codes (or plain values) of every column that it reads, and the values of
    /// what it hands out, were every row to pass its filters. A limit without a filter below it bounds the rows. The
    /// size of a statement is judged by it: under 256 KiB it is not worth a task.
    pub fn estimated_bytes(&self) -> u64 {
        self.estimated_bytes_as(&self.schema())
    }

    /// The same of a plan whose rows have this schema.
    pub(crate) fn estimated_bytes_as(&self, schema: &Schema) -> u64 {
        let wanted = ReadColumns { columns: (0..schema.fields().len()).collect(), rows: u64::MAX };
        let (read, rows) = self.read(wanted);
        let width: u64 = schema.fields().iter().map(|f| width_bytes(f.data_type())).sum();
        read.saturating_add(rows.saturating_mul(width))
    }

    /// Bytes read, and rows of the output at most.
    fn read(&self, mut wanted: ReadColumns) -> (u64, u64) {
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
                if let Some(left) = self.left_by_indexes() {
                    wanted.columns.sort_unstable();
                    wanted.columns.dedup();
                    let line = LINE_BYTES * (1 + wanted.columns.len() as u64);
                    let (bytes, rows) = input.read(ReadColumns { rows: left.rows - left.scattered, ..wanted });
                    let looked_up = left.scattered * line + left.look_ups * LINE_BYTES;
                    return (bytes.saturating_add(looked_up), rows + left.scattered);
                }
                input.read(ReadColumns { rows: u64::MAX, ..wanted })
            }
            Plan::Project { input, outputs } => {
                let mut columns = Vec::new();
                for &c in &wanted.columns {
                    match &outputs[c] {
                        Output::Column { column, .. } => columns.push(*column),
                        Output::Expression { expression, .. } => columns.extend_from_slice(expression.columns()),
                    }
                }
                input.read(ReadColumns { columns, rows: wanted.rows })
            }
            Plan::Limit { input, skip, fetch } => {
                let needed =
                    fetch.map_or(u64::MAX, |f| if f == 0 { 0 } else { (f as u64).saturating_add(*skip as u64) });
                let (bytes, rows) = input.read(ReadColumns { rows: wanted.rows.min(needed), ..wanted });
                (bytes, rows.min(needed))
            }
            Plan::Shared(plan) => plan.read(wanted),
            Plan::Values { batches, .. } => {
                (batches.iter().map(batch_bytes).sum(), batches.iter().map(|b| b.num_rows() as u64).sum())
            }
            Plan::Source { source, .. } => {
                let rows = source.rows().unwrap_or(u64::MAX).min(wanted.rows);
                (source.bytes(), rows)
            }
            // Nobody knows how often the step is taken.
            Plan::Recursive(_) => (RECURSION_BYTES, RECURSION_BYTES),
            Plan::WorkTable { schema, .. } => (schema.fields().len() as u64 * LINE_BYTES, 1),
            Plan::Unnest(unnesting) => {
                let width = unnesting.input.schema().fields().len();
                let lists = unnesting.lists.iter().map(|(column, _)| *column);
                let columns = wanted.columns.iter().copied().filter(|&c| c < width).chain(lists).collect();
                let (bytes, rows) = unnesting.input.read(ReadColumns { columns, rows: wanted.rows });
                (bytes, rows.saturating_mul(UNNESTED_ROWS))
            }
            Plan::Aggregate(aggregation) => {
                let arguments = aggregation.calls.iter().flat_map(AggregateCall::columns);
                let columns = aggregation.keys.iter().copied().chain(arguments).collect();
                let (bytes, rows) = aggregation.input.read(ReadColumns { columns, rows: u64::MAX });
                let sets = aggregation.sets.as_ref().map_or(1, |sets| sets.sets.len() as u64);
                (bytes, if aggregation.keys.is_empty() { sets } else { rows.saturating_mul(sets) })
            }
            Plan::Join(join) => join_read(join, &wanted.columns),
            Plan::Sort(sort) => {
                // Every row is kept, with all columns, before the first one comes out.
                wanted.columns.extend(sort.keys.iter().map(|k| k.column));
                let (bytes, rows) = sort.input.read(ReadColumns { rows: u64::MAX, ..wanted });
                (bytes, sort.fetch.map_or(rows, |f| rows.min(f as u64)))
            }
            Plan::Window(window) => {
                let width = window.input.schema().fields().len();
                let keys = window.sort_keys().into_iter().map(|k| k.column);
                let reads = keys.chain(window.calls.iter().flat_map(WindowCall::columns));
                let columns = wanted.columns.into_iter().filter(|&c| c < width).chain(reads).collect();
                window.input.read(ReadColumns { columns, rows: u64::MAX })
            }
            Plan::Union(union) => {
                let mut total = (0u64, 0u64);
                for input in &union.inputs {
                    let (bytes, rows) = input.read(ReadColumns { columns: wanted.columns.clone(), rows: wanted.rows });
                    total = (total.0.saturating_add(bytes), total.1.saturating_add(rows));
                }
                total
            }
        }
    }
}

/// What a recursion is taken to touch: enough not to be run by the thread that polls.
const RECURSION_BYTES: u64 = 1 << 20;

/// How many elements lists are taken to have.
const UNNESTED_ROWS: u64 = 8;

impl Plan {
    /// Of a filter, or several, over a scan: what look-ups in indexes leave of the table; `None` where none is used.
    pub(crate) fn left_by_indexes(&self) -> Option<Left> {
        let (mut below, mut predicates) = (self, Vec::new());
        while let Plan::Filter { input, predicate } = below {
            predicates.push(predicate);
            below = input;
        }
        let Plan::Scan { snapshot, columns, .. } = below else { return None };
        let mut asked = asked_by(&predicates);
        asked.iter_mut().for_each(|(column, _)| *column = columns[*column]);
        left(snapshot, &asked)
    }
}

/// Bytes that both sides of a join read, and rows that it gives at most if no key of the larger side has several
/// matches; all pairs where there is no key.
fn join_read(join: &Join, wanted: &[usize]) -> (u64, u64) {
    let width = join.left.schema().fields().len();
    let mut left: Vec<usize> = join.on.iter().map(|k| k.0).collect();
    let mut right: Vec<usize> = join.on.iter().map(|k| k.1).collect();
    let mut of_pair = |c: usize| if c < width { left.push(c) } else { right.push(c - width) };
    join.residual.iter().flat_map(|r| r.columns()).for_each(&mut of_pair);
    let only = match join.kind {
        JoinKind::Semi(side) | JoinKind::Anti(side) | JoinKind::Mark(side) => Some(side),
        _ => None,
    };
    match only {
        None => wanted.iter().copied().for_each(&mut of_pair),
        // The last column of a mark join is made.
        Some(Side::Left) => left.extend(wanted.iter().copied().filter(|&c| c < width)),
        Some(Side::Right) => {
            let right_width = join.right.schema().fields().len();
            right.extend(wanted.iter().copied().filter(|&c| c < right_width));
        }
    }
    let (left_bytes, left_rows) = join.left.read(ReadColumns { columns: left, rows: u64::MAX });
    let (right_bytes, right_rows) = join.right.read(ReadColumns { columns: right, rows: u64::MAX });
    let rows = match (only, join.on.is_empty()) {
        (Some(Side::Left), _) => left_rows,
        (Some(Side::Right), _) => right_rows,
        (None, true) => left_rows.saturating_mul(right_rows),
        (None, false) => left_rows.saturating_add(right_rows),
    };
    // Pairs that a condition drops are looked at too.
    let looked_at = if join.on.is_empty() { left_rows.saturating_mul(right_rows) } else { 0 };
    (left_bytes.saturating_add(right_bytes).saturating_add(looked_at), rows)
}

/// Bytes of the codes of some columns, and of a bit for every row.
fn segment_bytes(segment: &Segment, columns: &[usize]) -> u64 {
    let codes: usize = columns.iter().map(|&c| segment.column(c).bytes_codes()).sum();
    (codes + segment.rows().div_ceil(8)) as u64
}
