//! Window functions, one row at a time: every row of its partition is asked whether it is in the frame.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, DynComparator, Float64Array, Int64Array, RecordBatch, make_comparator};
use arrow::array::{new_empty_array, new_null_array};
use arrow::compute::{SortOptions, cast, concat};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, SchemaRef, TimeUnit};

use super::aggregate::{classes, result};
use super::batch;
use super::keys::{canonical, key_columns};
use crate::ExecError;
use crate::plan::{
    Amount, Frame, FrameBound, FrameExclusion, FrameOffset, FrameUnits, SortKey, Window, WindowCall, WindowFunction,
};

const DAY_NANOSECONDS: i128 = 86_400_000_000_000;

/// The rows of `input`, in their order, with the values of all calls.
pub(super) fn window(operator: &Window, schema: &SchemaRef, input: &RecordBatch) -> Result<RecordBatch, ExecError> {
    let mut columns = input.columns().to_vec();
    let partitions = partitions(operator, input)?;
    for call in &operator.calls {
        let mut values: Vec<ArrayRef> = vec![new_null_array(call.field.data_type(), 1); input.num_rows()];
        for partition in &partitions {
            for place in 0..partition.rows.len() {
                values[partition.rows[place]] = partition.value(WindowColumn { operator, call, input }, place)?;
            }
        }
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        columns.push(match values.is_empty() {
            true => new_empty_array(call.field.data_type()),
            false => concat(&values)?,
        });
    }
    batch(schema, columns, input.num_rows())
}

/// What is asked for: a call of an operator over its input.
#[derive(Clone, Copy)]
struct WindowColumn<'a> {
    operator: &'a Window,
    call: &'a WindowCall,
    input: &'a RecordBatch,
}

/// The rows of a partition in order, and which group of peers each is in.
struct Partition {
    rows: Vec<usize>,
    groups: Vec<usize>,
}

fn partitions(operator: &Window, input: &RecordBatch) -> Result<Vec<Partition>, ExecError> {
    let all: Vec<usize> = (0..input.num_rows()).collect();
    let apart = match operator.partition.is_empty() {
        true => vec![all],
        false => classes(key_columns(input, &operator.partition), &all)?,
    };
    let mut compare: Vec<DynComparator> = Vec::new();
    for key in &operator.order {
        let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        let column = canonical(input.column(key.column));
        compare.push(make_comparator(column.as_ref(), column.as_ref(), options)?);
    }
    let order = |a: usize, b: usize| compare.iter().map(|c| c(a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal);
    let sorted = apart.into_iter().map(|mut rows| {
        rows.sort_by(|&a, &b| order(a, b));
        let mut groups = vec![0; rows.len()];
        for place in 1..rows.len() {
            groups[place] = groups[place - 1] + usize::from(order(rows[place - 1], rows[place]).is_ne());
        }
        Partition { rows, groups }
    });
    Ok(sorted.collect())
}

impl Partition {
    fn value(&self, asked: WindowColumn<'_>, place: usize) -> Result<ArrayRef, ExecError> {
        let WindowColumn { call, input, .. } = asked;
        let (count, group) = (self.rows.len(), self.groups[place]);
        let of_group = |wanted: usize| self.groups.iter().filter(move |&&g| g == wanted).count();
        let before: usize = (0..group).map(of_group).sum();
        let integer = |value: usize| Ok(cast(&Int64Array::from(vec![value as i64]), call.field.data_type())?);
        let float = |value: f64| Ok(std::sync::Arc::new(Float64Array::from(vec![value])) as ArrayRef);
        match &call.function {
            WindowFunction::RowNumber => integer(place + 1),
            WindowFunction::Rank => integer(before + 1),
            WindowFunction::DenseRank => integer(group + 1),
            WindowFunction::PercentRank if count == 1 => float(0.0),
            WindowFunction::PercentRank => float(before as f64 / (count - 1) as f64),
            WindowFunction::CumeDist => float((before + of_group(group)) as f64 / count as f64),
            WindowFunction::Ntile(None) => Ok(new_null_array(call.field.data_type(), 1)),
            WindowFunction::Ntile(Some(parts)) if *parts < 1 => Err(too_small("ntile", *parts)),
            WindowFunction::Ntile(Some(parts)) => {
                let mut parts_of_rows = Vec::new();
                for part in 0..(*parts as usize).min(count) {
                    let rows = count / *parts as usize + usize::from(part < count % *parts as usize);
                    parts_of_rows.extend(std::iter::repeat_n(part + 1, rows));
                }
                integer(parts_of_rows[place])
            }
            WindowFunction::Lag { offset, default } => self.shifted(call, input, place, (*offset, -1), *default),
            WindowFunction::Lead { offset, default } => self.shifted(call, input, place, (*offset, 1), *default),
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue(_) => {
                self.of_frame(asked, place)
            }
            WindowFunction::Aggregate { .. } => {
                let aggregate = call.aggregate().expect("it is one");
                result(&aggregate, input, &self.frame(asked, place)?)
            }
        }
    }

    fn shifted(
        &self,
        call: &WindowCall,
        input: &RecordBatch,
        place: usize,
        (offset, direction): (Amount, i64),
        default: Option<usize>,
    ) -> Result<ArrayRef, ExecError> {
        let null = new_null_array(call.field.data_type(), 1);
        let Some(by) = amount(offset, input, self.rows[place]) else { return Ok(null) };
        let argument = input.column(call.arguments[0]);
        let mut left = by.saturating_mul(direction);
        let mut at = place as i64;
        while left != 0 && at >= 0 && (at as usize) < self.rows.len() {
            at += left.signum();
            let counts = usize::try_from(at).ok().and_then(|at| self.rows.get(at));
            if counts.is_none_or(|&row| !call.ignore_nulls || argument.is_valid(row)) {
                left -= left.signum();
            }
        }
        let found = usize::try_from(at).ok().and_then(|at| self.rows.get(at));
        Ok(match (found, default) {
            (Some(&row), _) => argument.slice(row, 1),
            (None, Some(default)) => input.column(default).slice(self.rows[place], 1),
            (None, None) => null,
        })
    }

    fn of_frame(&self, asked: WindowColumn<'_>, place: usize) -> Result<ArrayRef, ExecError> {
        let WindowColumn { call, input, .. } = asked;
        let argument = input.column(call.arguments[0]);
        let mut rows = self.frame(asked, place)?;
        rows.retain(|&row| !call.ignore_nulls || argument.is_valid(row));
        let row = match &call.function {
            WindowFunction::FirstValue => rows.first(),
            WindowFunction::LastValue => rows.last(),
            WindowFunction::NthValue(number) => match amount(*number, input, self.rows[place]) {
                None => None,
                Some(number) if number < 1 => return Err(too_small("nth_value", number)),
                Some(number) => rows.get(number as usize - 1),
            },
            _ => unreachable!("the function gives the value of a row"),
        };
        Ok(row.map_or_else(|| new_null_array(call.field.data_type(), 1), |&row| argument.slice(row, 1)))
    }

    /// Rows of the frame, in order.
    fn frame(&self, asked: WindowColumn<'_>, place: usize) -> Result<Vec<usize>, ExecError> {
        let WindowColumn { operator, call, input } = asked;
        let mut rows = Vec::new();
        for other in 0..self.rows.len() {
            let excluded = match call.frame.exclusion {
                FrameExclusion::NoOthers => false,
                FrameExclusion::CurrentRow => other == place,
                FrameExclusion::Group => self.groups[other] == self.groups[place],
                FrameExclusion::Ties => other != place && self.groups[other] == self.groups[place],
            };
            let from = self.within(&operator.order, &call.frame, input, place, other, false)?;
            if !excluded && from && self.within(&operator.order, &call.frame, input, place, other, true)? {
                rows.push(self.rows[other]);
            }
        }
        Ok(rows)
    }

    /// Is a row not before the start of a frame, or with `end` not behind its end?
    fn within(
        &self,
        order: &[SortKey],
        frame: &Frame,
        input: &RecordBatch,
        place: usize,
        other: usize,
        end: bool,
    ) -> Result<bool, ExecError> {
        let (offset, preceding) = match if end { frame.end } else { frame.start } {
            FrameBound::UnboundedPreceding => return Ok(!end),
            FrameBound::UnboundedFollowing => return Ok(end),
            FrameBound::CurrentRow => (FrameOffset::Count(0), false),
            FrameBound::Preceding(offset) => (offset, true),
            FrameBound::Following(offset) => (offset, false),
        };
        let (mine, theirs) = match frame.units {
            FrameUnits::Rows => (place, other),
            _ => (self.groups[place], self.groups[other]),
        };
        if let FrameOffset::Count(count) = offset {
            let limit = mine as i128 + if preceding { -i128::from(count) } else { i128::from(count) };
            return Ok(if end { theirs as i128 <= limit } else { theirs as i128 >= limit });
        }
        let key = order[0];
        let column = input.column(key.column);
        let (row, other_row) = (self.rows[place], self.rows[other]);
        if column.is_null(row) || column.is_null(other_row) {
            return Ok(if end { theirs <= mine } else { theirs >= mine });
        }
        let (subtract, less) = (preceding != key.descending, end != key.descending);
        in_range(column, other_row, row, offset, subtract, less)
    }
}

/// Is one value at most (`less`), or at least, so far from another? PostgreSQL's support function `in_range`.
fn in_range(
    column: &ArrayRef,
    value: usize,
    base: usize,
    offset: FrameOffset,
    subtract: bool,
    less: bool,
) -> Result<bool, ExecError> {
    let sign = if subtract { -1 } else { 1 };
    let (value, limit) = match offset {
        FrameOffset::Float(offset) => {
            let wide = cast(column, &DataType::Float64)?;
            let wide = wide.as_primitive::<Float64Type>();
            let (value, base) = (wide.value(value), wide.value(base));
            return Ok(match (value.is_nan(), base.is_nan()) {
                (true, true) => true,
                (true, false) => !less,
                (false, true) => less,
                _ if offset.is_infinite() && base.is_infinite() && subtract == (base > 0.0) => true,
                _ => {
                    let limit = if subtract { base - offset } else { base + offset };
                    if less { value <= limit } else { value >= limit }
                }
            });
        }
        FrameOffset::Interval { months, days, nanoseconds } => {
            let moved = |row| -> Result<i128, ExecError> {
                let at = nanoseconds_of(column, row)?;
                let (day, rest) = (at.div_euclid(DAY_NANOSECONDS), at.rem_euclid(DAY_NANOSECONDS));
                let months = sign as i32 * months;
                let day = Date32Type::add_year_months_opt(day as i32, months)
                    .ok_or_else(|| ExecError::Evaluation("a date is too far away".into()))?;
                let day = i128::from(day) + sign * i128::from(days);
                Ok(day * DAY_NANOSECONDS + rest + sign * i128::from(nanoseconds))
            };
            (nanoseconds_of(column, value)?, moved(base)?)
        }
        FrameOffset::Integer(offset) => {
            let scale = if let DataType::Decimal128(_, scale) = column.data_type() { *scale } else { 0 };
            let wide = match column.data_type() {
                DataType::Decimal128(..) => column.clone(),
                _ => cast(column, &DataType::Decimal128(38, scale))?,
            };
            let wide = wide.as_primitive::<Decimal128Type>();
            (wide.value(value), wide.value(base) + sign * offset)
        }
        FrameOffset::Count(_) => unreachable!("a distance is no number of rows"),
    };
    Ok(if less { value <= limit } else { value >= limit })
}

/// A date or a timestamp in nanoseconds.
fn nanoseconds_of(column: &ArrayRef, row: usize) -> Result<i128, ExecError> {
    let unit = match column.data_type() {
        DataType::Date32 => {
            return Ok(i128::from(column.as_primitive::<Date32Type>().value(row)) * DAY_NANOSECONDS);
        }
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1000,
        _ => 1,
    };
    let numbers = cast(column, &DataType::Int64)?;
    Ok(i128::from(numbers.as_primitive::<Int64Type>().value(row)) * unit)
}

fn amount(amount: Amount, input: &RecordBatch, row: usize) -> Option<i64> {
    match amount {
        Amount::Constant(rows) => rows,
        Amount::Column(column) => {
            let column = input.column(column).as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        }
    }
}

fn too_small(function: &str, number: i64) -> ExecError {
    ExecError::Evaluation(format!("{function}: {number} is less than 1"))
}
