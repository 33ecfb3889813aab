//! Functions that give the value of another row: `lag`, `lead`, `first_value`, `last_value`, `nth_value`.
//!
//! The other row is found as a position; the value is then taken from the column as it was kept, so that vids stay
//! vids.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::kernels::zip::zip;

use super::frames::{Frames, Ranges, WindowInput};
use super::places::{Argument, ColumnPieces, OrderedRows, RowPlace};
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, NO_ROW, Vector};
use crate::operators::aggregate::column::{Column, Values};
use crate::plan::{Amount, WindowCall, WindowFunction};
use crate::tasks::run::Run;

/// Positions of the rows whose argument is not NULL.
struct NotNull(Vec<u32>);

impl NotNull {
    fn new(run: &Run<'_>, ordered: &OrderedRows<'_>, argument: Argument<'_>) -> Result<NotNull, ExecError> {
        let pieces = run.map(ordered.pieces(), &|piece| {
            let valid = |position: &usize| argument.is_valid(*position);
            Ok(ordered.piece(piece).filter(valid).map(|p| p as u32).collect::<Vec<u32>>())
        })?;
        Ok(NotNull(pieces.concat()))
    }

    /// How many of them lie before a position.
    fn before(&self, position: usize) -> usize {
        self.0.partition_point(|&p| (p as usize) < position)
    }

    /// Those of some positions, by number.
    fn within(&self, positions: &Range<usize>) -> Range<usize> {
        self.before(positions.start)..self.before(positions.end)
    }
}

/// The values of such a function.
pub(super) fn column(input: &WindowInput<'_>, call: &WindowCall) -> Result<ColumnPieces, ExecError> {
    let WindowInput { run, ordered, frames } = *input;
    let argument = ordered.argument(call.arguments[0]);
    let not_null = match call.ignore_nulls && argument.info.nullable {
        true => Some(NotNull::new(run, ordered, argument)?),
        false => None,
    };
    let not_null = not_null.as_ref();
    match &call.function {
        WindowFunction::Lag { offset, default } => shifted(run, ordered, call, not_null, (*offset, -1), *default),
        WindowFunction::Lead { offset, default } => shifted(run, ordered, call, not_null, (*offset, 1), *default),
        _ => of_frame(run, ordered, call, not_null, frames),
    }
}

/// A number of rows at a position.
fn amount(ordered: &OrderedRows<'_>, amount: Amount, position: usize) -> Option<i64> {
    let column = match amount {
        Amount::Constant(rows) => return rows,
        Amount::Column(column) => ordered.argument(column),
    };
    if !column.is_valid(position) {
        return None;
    }
    let row = column.at(position);
    match &column.vector.data {
        Data::Int(values) => Some(values[row]),
        Data::Arrow(array) => crate::chunk::vector::ints_of_arrow(&array.slice(row, 1)).first().copied(),
        _ => unreachable!("a number of rows is an integer"),
    }
}

/// What stands in the place of a row.
enum Found {
    Row(usize),
    Null,
    Default,
}

fn shifted(
    run: &Run<'_>,
    ordered: &OrderedRows<'_>,
    call: &WindowCall,
    not_null: Option<&NotNull>,
    (offset, direction): (Amount, i64),
    default: Option<usize>,
) -> Result<ColumnPieces, ExecError> {
    let find = |place: &RowPlace| -> Found {
        let Some(by) = amount(ordered, offset, place.row).map(|rows| rows.saturating_mul(direction)) else {
            return Found::Null;
        };
        let partition = &place.partition;
        let target = match not_null {
            Some(not_null) if by != 0 => {
                let within = not_null.within(partition);
                let before = not_null.before(place.row);
                let behind = not_null.before(place.row + 1);
                let number = match by < 0 {
                    true => (before as i64).checked_add(by),
                    false => (behind as i64).checked_add(by - 1),
                };
                number.filter(|&n| n >= 0 && within.contains(&(n as usize))).map(|n| not_null.0[n as usize] as usize)
            }
            _ => (place.row as i64)
                .checked_add(by)
                .filter(|&t| t >= 0 && partition.contains(&(t as usize)))
                .map(|t| t as usize),
        };
        target.map_or(Found::Default, Found::Row)
    };
    let argument = ordered.argument(call.arguments[0]);
    let source = argument.info;
    let default = default.map(|column| ordered.column(column));
    let kind = result_kind(source, default.map(|d| d.0));
    let info = ColumnInfo { field: call.field.clone(), kind, nullable: true };
    ordered.in_pieces(run, &|piece: Range<usize>| {
        let mut rows = Vec::with_capacity(piece.len());
        let mut defaults = Vec::new();
        ordered.each(piece, |place| {
            rows.push(match find(place) {
                Found::Row(position) => argument.at(position) as u32,
                Found::Null => NO_ROW,
                Found::Default => {
                    if default.is_some() {
                        defaults.push((rows.len(), ordered.order[place.row]));
                    }
                    NO_ROW
                }
            });
            Ok(())
        })?;
        let values = argument.vector.take(&rows, true);
        match default.filter(|_| !defaults.is_empty()) {
            None => Ok(column_of(&info, source, values)),
            Some((default_info, default)) => with_defaults(&info, (source, values), (default_info, default), &defaults),
        }
    })
}

/// How values are kept that come from a column or another one.
fn result_kind(source: &ColumnInfo, default: Option<&ColumnInfo>) -> ColumnKind {
    match (&source.kind, default.map(|d| &d.kind)) {
        (kind, None) => kind.clone(),
        (ColumnKind::Int { low, high }, Some(ColumnKind::Int { low: l, high: h })) => {
            ColumnKind::Int { low: *low.min(l), high: *high.max(h) }
        }
        (ColumnKind::Float, Some(ColumnKind::Float)) => ColumnKind::Float,
        (ColumnKind::Vid(own), Some(ColumnKind::Vid(other))) if Arc::ptr_eq(own, other) => ColumnKind::Vid(own.clone()),
        _ => ColumnKind::Arrow,
    }
}

/// A vector of a column as one of the result, which is of the same kind or of Arrow arrays.
fn column_of(info: &ColumnInfo, source: &ColumnInfo, vector: Vector) -> Column {
    let values = match (vector.data, &info.kind) {
        (Data::Int(values), ColumnKind::Int { .. }) => Values::Int(values),
        (Data::Float(values), ColumnKind::Float) => Values::Float(values),
        (Data::Vid(vids), ColumnKind::Vid(_)) => Values::Vid(vids),
        (data, _) => {
            let array = source.to_arrow(&Vector { data, valid: vector.valid });
            return Column::new(info.clone(), Values::Arrow(array), None);
        }
    };
    Column::new(info.clone(), values, vector.valid)
}

/// Values with those of another column at some places, each given with the row that it is taken from.
fn with_defaults(
    info: &ColumnInfo,
    (source, mut values): (&ColumnInfo, Vector),
    (default_info, default): (&ColumnInfo, &Vector),
    places: &[(usize, u32)],
) -> Result<Column, ExecError> {
    let mut valid = values.valid.take().unwrap_or_else(|| vec![true; values.len()]);
    if !matches!(info.kind, ColumnKind::Arrow) {
        for &(place, row) in places {
            valid[place] = default.is_valid(row as usize);
            match (&mut values.data, &default.data) {
                (Data::Int(values), Data::Int(defaults)) => values[place] = defaults[row as usize],
                (Data::Float(values), Data::Float(defaults)) => values[place] = defaults[row as usize],
                (Data::Vid(values), Data::Vid(defaults)) => values[place] = defaults[row as usize],
                _ => unreachable!("both are of the kind of the result"),
            }
        }
        return Ok(column_of(info, source, Vector { data: values.data, valid: Some(valid) }));
    }
    let is_arrow = matches!(values.data, Data::Arrow(_));
    let count = values.len();
    values.valid = (!is_arrow).then_some(valid);
    let mut rows = vec![NO_ROW; count];
    places.iter().for_each(|&(place, row)| rows[place] = row);
    let mask: BooleanArray = rows.iter().map(|&row| Some(row != NO_ROW)).collect();
    let (values, defaults): (ArrayRef, ArrayRef) =
        (source.to_arrow(&values), default_info.to_arrow(&default.take(&rows, true)));
    let both = zip(&mask, &defaults, &values)?;
    Ok(Column::new(info.clone(), Values::Arrow(both), None))
}

fn of_frame(
    run: &Run<'_>,
    ordered: &OrderedRows<'_>,
    call: &WindowCall,
    not_null: Option<&NotNull>,
    frames: &Frames<'_>,
) -> Result<ColumnPieces, ExecError> {
    let find = |place: &RowPlace, ranges: &Ranges| -> Result<Option<usize>, ExecError> {
        let number = match &call.function {
            WindowFunction::LastValue => return Ok(last(ranges, not_null)),
            WindowFunction::NthValue(number) => match amount(ordered, *number, place.row) {
                None => return Ok(None),
                Some(number) if number < 1 => {
                    let name = call.field.name();
                    return Err(ExecError::Evaluation(format!(
                        "{name}: the number of the row is {number}; it must be at least 1"
                    )));
                }
                Some(number) => number as usize - 1,
            },
            _ => 0,
        };
        Ok(nth(ranges, number, not_null))
    };
    let argument = ordered.argument(call.arguments[0]);
    let source = argument.info;
    let info = ColumnInfo { field: call.field.clone(), kind: source.kind.clone(), nullable: true };
    ordered.in_pieces(run, &|piece: Range<usize>| {
        let mut rows = Vec::with_capacity(piece.len());
        let mut cursor = frames.cursor();
        ordered.each(piece, |place| {
            let found = find(place, &cursor.at(place))?;
            rows.push(found.map_or(NO_ROW, |position| argument.at(position) as u32));
            Ok(())
        })?;
        Ok(column_of(&info, source, argument.vector.take(&rows, true)))
    })
}

/// The position of a row of a frame by its number from 0; of those whose argument is not NULL, if only they count.
fn nth(ranges: &Ranges, mut number: usize, not_null: Option<&NotNull>) -> Option<usize> {
    let Some(not_null) = not_null else { return ranges.nth(number) };
    for range in ranges.parts() {
        let within = not_null.within(range);
        if number < within.len() {
            return Some(not_null.0[within.start + number] as usize);
        }
        number -= within.len();
    }
    None
}

/// The position of the last row.
fn last(ranges: &Ranges, not_null: Option<&NotNull>) -> Option<usize> {
    let Some(not_null) = not_null else { return ranges.parts().last().map(|range| range.end - 1) };
    let last = |range: &Range<usize>| {
        let within = not_null.within(range);
        (!within.is_empty()).then(|| not_null.0[within.end - 1] as usize)
    };
    ranges.parts().iter().rev().find_map(last)
}
