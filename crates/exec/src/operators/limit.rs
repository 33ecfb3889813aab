//! Limit: some consecutive rows of what a pipeline hands out, counted where results are put in order.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::ExecError;
use crate::chunk::Rows;
use crate::chunk::vector::ColumnInfo;
use crate::pipe::Pipe;
use crate::pipe::filters::Filters;
use crate::pipe::flow::{Demand, Flow};
use crate::pipe::kept::{collect, of_rows};
use crate::plan::Plan;
use crate::tasks::profile::OperatorPlace;

/// Rows still to pass over and to hand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    skip: usize,
    fetch: Option<usize>,
}

impl Limit {
    /// Hands out `fetch` rows, or all, after the first `skip`.
    pub(crate) fn new(skip: usize, fetch: Option<usize>) -> Limit {
        Limit { skip, fetch }
    }

    /// This limit, then `outer` over what it hands out, as one limit.
    pub(crate) fn then(self, outer: Limit) -> Limit {
        let left = self.fetch.map(|f| f.saturating_sub(outer.skip));
        let fetch = match (left, outer.fetch) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Limit { skip: self.skip.saturating_add(outer.skip), fetch }
    }

    /// Input rows that it can need at most; `None` for all.
    pub(crate) fn rows_needed(&self) -> Option<usize> {
        self.fetch.map(|f| if f == 0 { 0 } else { f.saturating_add(self.skip) })
    }

    /// Where what it hands out of `n` rows begins, and how many that is.
    pub(crate) fn of(&self, rows: usize) -> (usize, usize) {
        let skip = self.skip.min(rows);
        (skip, self.fetch.map_or(rows - skip, |fetch| fetch.min(rows - skip)))
    }

    /// Nothing more will be handed out.
    pub(crate) fn is_done(&self) -> bool {
        self.fetch == Some(0)
    }

    /// The part of the next batch that is handed out.
    pub(crate) fn apply(&mut self, batch: &RecordBatch) -> Option<RecordBatch> {
        let (skipped, rows) = self.of(batch.num_rows());
        self.skip -= skipped;
        if let Some(fetch) = &mut self.fetch {
            *fetch -= rows;
        }
        (rows > 0).then(|| batch.slice(skipped, rows))
    }
}

/// The rows that a limit leaves, kept: what is above sees no other. Its input ends as soon as it has enough.
/// `place` is the limit's.
pub(crate) fn pipe(
    flow: &Flow<'_>,
    input: &Plan,
    place: &OperatorPlace,
    limit: Limit,
    wanted: Option<usize>,
) -> Result<Pipe, ExecError> {
    let limit = wanted.map_or(limit, |rows| limit.then(Limit::new(0, Some(rows))));
    let needed = limit.rows_needed();
    if needed == Some(0) {
        let infos = input.schema().fields().iter().map(|field| ColumnInfo::plain(field.clone())).collect();
        return Ok(of_rows(Arc::new(Rows::none(infos))));
    }
    let pipe = flow.pipe_of(input, &place.input(0), Demand { rows: needed, ..Demand::of(&Filters::new()) })?;
    // What another limit, or a join, has kept is not kept again.
    if let Some(kept) = pipe.kept().filter(|kept| limit.of(kept.rows) == (0, kept.rows)) {
        return Ok(of_rows(kept.clone()));
    }
    let rows = collect(&pipe, &flow.run, needed)?;
    let (skip, kept) = limit.of(rows.rows);
    Ok(of_rows(Arc::new(rows.slice(skip, kept))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;

    fn batch(values: &[i64]) -> RecordBatch {
        let column: arrow::array::ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        RecordBatch::try_from_iter([("v", column)]).unwrap()
    }

    proptest! {
        #[test]
        fn two_limits_are_one(
            (s1, f1, s2, f2) in (0usize..8, proptest::option::of(0usize..12), 0usize..8,
                proptest::option::of(0usize..12)),
            lengths in proptest::collection::vec(0usize..6, 0..6),
        ) {
            let total: usize = lengths.iter().sum();
            let all: Vec<i64> = (0..total as i64).collect();
            let expected: Vec<i64> = all.iter().copied().skip(s1).take(f1.unwrap_or(usize::MAX))
                .skip(s2).take(f2.unwrap_or(usize::MAX)).collect();
            let mut limit = Limit::new(s1, f1).then(Limit::new(s2, f2));
            if let Some(needed) = limit.rows_needed() {
                prop_assert!(needed >= expected.len());
            }
            let (mut got, mut at) = (Vec::new(), 0);
            for length in lengths {
                if let Some(part) = limit.apply(&batch(&all[at..at + length])) {
                    got.extend_from_slice(part.column(0).as_primitive::<Int64Type>().values());
                    prop_assert!(part.column(0).len() == part.num_rows());
                }
                at += length;
            }
            prop_assert_eq!(got, expected);
        }
    }
}
