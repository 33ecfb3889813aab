//! Functions of a row's place alone: its number, its rank, its share.

use std::ops::Range;

use super::places::{ColumnPieces, OrderedRows, RowPlace};
use crate::ExecError;
use crate::chunk::vector::ColumnInfo;
use crate::operators::aggregate::column::{Column, Values};
use crate::plan::{WindowCall, WindowFunction};
use crate::tasks::run::Run;

/// The values of such a function.
pub(super) fn column(run: &Run<'_>, ordered: &OrderedRows<'_>, call: &WindowCall) -> Result<ColumnPieces, ExecError> {
    let info = ColumnInfo::plain(call.field.clone());
    let ints = |of: &(dyn Fn(&RowPlace) -> i64 + Sync)| per_row(run, ordered, &info, Values::Int, of);
    let floats = |of: &(dyn Fn(&RowPlace) -> f64 + Sync)| per_row(run, ordered, &info, Values::Float, of);
    match &call.function {
        WindowFunction::RowNumber => ints(&|place| (place.row - place.partition.start + 1) as i64),
        WindowFunction::Rank => ints(&|place| (place.peers.start - place.partition.start + 1) as i64),
        WindowFunction::DenseRank => ints(&|place| (place.group - place.groups.start + 1) as i64),
        WindowFunction::PercentRank => floats(&|place| match place.partition.len() {
            1 => 0.0,
            rows => (place.peers.start - place.partition.start) as f64 / (rows - 1) as f64,
        }),
        WindowFunction::CumeDist => {
            floats(&|place| (place.peers.end - place.partition.start) as f64 / place.partition.len() as f64)
        }
        WindowFunction::Ntile(None) => ordered.in_pieces(run, &|piece: Range<usize>| {
            Ok(Column::new(info.clone(), Values::Int(vec![0; piece.len()]), Some(vec![false; piece.len()])))
        }),
        WindowFunction::Ntile(Some(parts)) => {
            if *parts < 1 && ordered.len() > 0 {
                return Err(ExecError::Evaluation(format!("ntile({parts}): its argument must be at least 1")));
            }
            let parts = *parts as usize;
            ints(&|place| part_of(place, parts) as i64)
        }
        _ => unreachable!("the function is of the row's place"),
    }
}

/// What `of` says of each row's place.
fn per_row<T: Send>(
    run: &Run<'_>,
    ordered: &OrderedRows<'_>,
    info: &ColumnInfo,
    values_of: fn(Vec<T>) -> Values,
    of: &(dyn Fn(&RowPlace) -> T + Sync),
) -> Result<ColumnPieces, ExecError> {
    ordered.in_pieces(run, &|piece: Range<usize>| {
        let mut values = Vec::with_capacity(piece.len());
        ordered.each(piece, |place| {
            values.push(of(place));
            Ok(())
        })?;
        Ok(Column::new(info.clone(), values_of(values), None))
    })
}

/// Which of `parts` parts of its partition a row is in; the first ones have one row more.
fn part_of(place: &RowPlace, parts: usize) -> usize {
    let (number, rows) = (place.row - place.partition.start, place.partition.len());
    let (small, larger) = (rows / parts, rows % parts);
    let in_larger = larger * (small + 1);
    match number < in_larger {
        true => number / (small + 1) + 1,
        false => larger + (number - in_larger) / small + 1,
    }
}
