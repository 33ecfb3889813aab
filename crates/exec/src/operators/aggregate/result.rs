//! What becomes of states at the end: values, checked once against the type that they surface as.
//!
//! Averages of decimals are rounded half away from zero, and errors have the words of `nearside`'s checked aggregates,
//! so that it does not matter which of the two computes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, PrimitiveArray, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, IntervalUnit, i256};
use arrow::row::RowConverter;

use super::calls::{Calls, Op, States, of_ordered};
use super::ordered::Ordered;
use super::ranked::Ranked;
use super::state::State;
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, Data, Kind, Vector, type_bounds};
use crate::plan::AggregateCall;
use crate::tasks::run::Run;

/// How a call's result is made; `of` and `counts` are states by number.
pub(super) enum Output {
    /// A count.
    Count { of: usize, field: FieldRef },
    /// A sum; NULL where the count is 0.
    Sum { of: usize, counts: Option<usize>, finish: Finish },
    /// A sum divided by a count.
    Avg { of: usize, counts: usize, finish: Finish },
    /// The smallest or largest value of a column.
    Most { of: usize, counts: Option<usize>, info: ColumnInfo },
    /// Of a function that this crate does not know.
    Opaque { of: usize, field: FieldRef },
    /// A call over different values.
    Distinct { of: usize },
    /// A percentile or the most frequent of numbers.
    Ranked { of: usize, finish: Ranked },
    /// The first or the last row.
    Best { of: usize, finish: Ordered },
    /// Of rows in an order.
    Ordered { of: usize, finish: Ordered },
}

/// How a sum or an average ends.
pub(crate) struct Finish {
    field: FieldRef,
    /// An average of decimals or durations: digits that it has more than its argument.
    shift: Option<u32>,
    /// Digits behind the point of the argument, where the result is a float.
    scale: i32,
    least: i128,
    most: i128,
}

/// Values of a column before all pieces are known.
pub(crate) enum Values {
    Int(Vec<i64>),
    Wide(Vec<i128>),
    Float(Vec<f64>),
    Vid(Vec<u32>),
    Arrow(ArrayRef),
}

/// A column of one piece of the result.
pub(crate) struct Column {
    pub(super) info: ColumnInfo,
    pub(super) values: Values,
    pub(super) valid: Option<Vec<bool>>,
    /// Of integers that are not NULL; found by [`bound`](Self::bound).
    pub(super) bounds: Option<(i64, i64)>,
}

impl Column {
    /// Values of which the bounds are not known yet.
    pub(crate) fn new(info: ColumnInfo, values: Values, valid: Option<Vec<bool>>) -> Column {
        Column { info, values, valid, bounds: None }
    }

    /// Of a whole vector.
    pub(super) fn of_vector(info: ColumnInfo, vector: Vector) -> Column {
        let values = match vector.data {
            Data::Int(values) => Values::Int(values),
            Data::Float(values) => Values::Float(values),
            Data::Vid(vids) => Values::Vid(vids),
            Data::Arrow(array) => Values::Arrow(array),
        };
        Column::new(info, values, vector.valid).bound()
    }

    /// As an Arrow array.
    pub(super) fn into_arrow(self) -> ArrayRef {
        let data = match self.values {
            Values::Int(values) => Data::Int(values),
            Values::Float(values) => Data::Float(values),
            Values::Vid(vids) => Data::Vid(vids),
            Values::Arrow(array) => return array,
            Values::Wide(values) => return wide_array(values, self.valid, self.info.data_type()),
        };
        self.info.to_arrow(&Vector { data, valid: self.valid })
    }

    /// The same with bounds.
    pub(crate) fn bound(mut self) -> Column {
        let Values::Int(values) = &self.values else { return self };
        let of = |values: &mut dyn Iterator<Item = i64>| {
            values.fold((i64::MAX, i64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (low, high) = match &self.valid {
            None => values.iter().fold((i64::MAX, i64::MIN), |(low, high), &v| (low.min(v), high.max(v))),
            Some(valid) => of(&mut values.iter().zip(valid).filter(|(_, valid)| **valid).map(|(&v, _)| v)),
        };
        self.bounds = (low <= high).then_some((low, high));
        self
    }
}

fn scale_of(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => *s,
        _ => 0,
    }
}

impl Finish {
    /// Of a sum.
    pub(crate) fn sum(call: &AggregateCall) -> Result<Finish, ExecError> {
        Finish::new(call, None, 0)
    }

    /// Of an average of values of a type.
    pub(crate) fn average(call: &AggregateCall, of: &DataType) -> Result<Finish, ExecError> {
        let scale = scale_of(of);
        match call.field.data_type() {
            DataType::Float64 => Finish::new(call, None, i32::from(scale)),
            result @ (DataType::Decimal128(..) | DataType::Duration(_)) => {
                let shift = u32::try_from(scale_of(result) - scale).map_err(|_| {
                    ExecError::Evaluation(format!("{}: no average of {of} as {result}", call.field.name()))
                })?;
                Finish::new(call, Some(shift), 0)
            }
            result => Err(ExecError::Evaluation(format!("{}: no average of {of} as {result}", call.field.name()))),
        }
    }

    fn new(call: &AggregateCall, shift: Option<u32>, scale: i32) -> Result<Finish, ExecError> {
        let (least, most) = match call.field.data_type() {
            DataType::UInt64 => (0, i128::from(u64::MAX)),
            DataType::Decimal128(p, _) => {
                let end = 10i128.pow(u32::from(*p));
                (1 - end, end - 1)
            }
            DataType::Interval(IntervalUnit::YearMonth) => (i128::from(i32::MIN), i128::from(i32::MAX)),
            other => type_bounds(other).map_or((i128::MIN, i128::MAX), |(l, h)| (i128::from(l), i128::from(h))),
        };
        Ok(Finish { field: call.field.clone(), shift, scale, least, most })
    }

    /// Name and type of the result.
    pub(crate) fn field(&self) -> &FieldRef {
        &self.field
    }

    fn is_float(&self) -> bool {
        *self.field.data_type() == DataType::Float64
    }

    fn checked(&self, value: Option<i128>) -> Result<i128, ExecError> {
        match value {
            Some(value) if value >= self.least && value <= self.most => Ok(value),
            _ => Err(self.overflow()),
        }
    }

    /// The words are those of `nearside`'s `ArithmeticError::Aggregate`, which this becomes.
    #[cold]
    fn overflow(&self) -> ExecError {
        let (kind, target, advice) = match self.field.data_type() {
            DataType::Decimal128(p, s) => ("decimal", format!("DECIMAL({p}, {s})"), "cast the argument to DOUBLE"),
            DataType::Duration(_) | DataType::Interval(_) => {
                ("interval", "INTERVAL".to_string(), "total fewer rows at a time")
            }
            DataType::Int64 => ("integer", "BIGINT".to_string(), "cast the argument to DECIMAL"),
            DataType::UInt64 => ("integer", "BIGINT UNSIGNED".to_string(), "cast the argument to DECIMAL"),
            other => ("integer", other.to_string(), "cast the argument to DECIMAL"),
        };
        let what = if self.shift.is_some() { "the average" } else { "the total" };
        let aggregate = display_name(self.field.name());
        ExecError::Evaluation(format!("{kind} overflow in {aggregate}: {what} does not fit {target}; {advice}"))
    }

    /// The values of a sum, or of an average with its counts.
    pub(crate) fn values(&self, state: &State, counts: Option<&[i64]>, average: bool) -> Result<Values, ExecError> {
        let count = |group: usize| counts.map_or(1, |c| c[group].max(1));
        let divisor = |group: usize| if average { count(group) as f64 } else { 1.0 };
        let unit = 10f64.powi(self.scale);
        match state {
            State::Float(sums) => {
                Ok(Values::Float(sums.iter().enumerate().map(|(group, sum)| sum / divisor(group)).collect()))
            }
            State::Sum(sums) if self.is_float() => Ok(Values::Float(
                sums.iter().enumerate().map(|(group, &sum)| sum as f64 / unit / divisor(group)).collect(),
            )),
            State::Exact(sums, _) if self.is_float() => Ok(Values::Float(
                sums.iter().enumerate().map(|(group, &sum)| sum as f64 / unit / divisor(group)).collect(),
            )),
            State::Sum(sums) if self.shift.is_none() => {
                let range = self.least.max(i64::MIN.into()) as i64..=self.most.min(i64::MAX.into()) as i64;
                match sums.iter().all(|sum| range.contains(sum)) {
                    true => Ok(Values::Int(sums.clone())),
                    false => Err(self.overflow()),
                }
            }
            State::Sum(sums) => {
                self.narrow(sums.iter().enumerate().map(|(group, &sum)| self.total(sum.into(), 0, count(group))))
            }
            State::Exact(sums, wraps) => self.narrow(
                sums.iter()
                    .enumerate()
                    .map(|(group, &sum)| self.total(sum, wraps.get(group).copied().unwrap_or(0), count(group))),
            ),
            _ => unreachable!("a sum has the state of one"),
        }
    }

    #[inline]
    fn total(&self, low: i128, wraps: i64, count: i64) -> Result<i128, ExecError> {
        self.checked(match self.shift {
            None => (wraps == 0).then_some(low),
            Some(shift) => average(low, wraps, count, shift),
        })
    }

    /// As 64 bits if they all fit.
    fn narrow(&self, values: impl Iterator<Item = Result<i128, ExecError>>) -> Result<Values, ExecError> {
        let values: Vec<i128> = values.collect::<Result<_, _>>()?;
        let fits = values.iter().all(|&v| i64::try_from(v).is_ok());
        Ok(if fits { Values::Int(values.into_iter().map(|v| v as i64).collect()) } else { Values::Wide(values) })
    }
}

/// The call's name; of a DISTINCT that became two aggregations, the argument's made-up name is hidden.
fn display_name(name: &str) -> String {
    match name.split_once("(alias") {
        Some((function, rest)) if rest.trim_end_matches(')').parse::<u32>().is_ok() => {
            format!("{function}(DISTINCT ..)")
        }
        _ => name.to_string(),
    }
}

/// `total * 10^shift / count`, rounded half away from zero; `None` where it needs more than 128 bits.
fn average(low: i128, wraps: i64, count: i64, shift: u32) -> Option<i128> {
    let factor = 10i128.checked_pow(shift)?;
    if wraps == 0
        && let Some(scaled) = low.checked_mul(factor)
    {
        // 64 bits divide many times faster than 128.
        let (cut, rest) = match i64::try_from(scaled) {
            Ok(scaled) => (i128::from(scaled / count), i128::from(scaled % count)),
            Err(_) => (scaled / i128::from(count), scaled % i128::from(count)),
        };
        return Some(rounded(cut, rest, count));
    }
    let total = i256::from_parts(low as u128, (low >> 127) + i128::from(wraps));
    let (scaled, count_wide) = (total.checked_mul(i256::from_i128(factor))?, i256::from_i128(i128::from(count)));
    let (cut, rest) = (scaled.checked_div(count_wide)?.to_i128()?, scaled.checked_rem(count_wide)?.to_i128()?);
    if 2 * rest.abs() >= i128::from(count) { cut.checked_add(rest.signum()) } else { Some(cut) }
}

/// A quotient that was cut off, rounded half away from zero by what is left of the dividend.
fn rounded(cut: i128, rest: i128, count: i64) -> i128 {
    if 2 * rest.abs() >= i128::from(count) { cut + rest.signum() } else { cut }
}

impl Calls {
    /// The results of all calls for every group; the states are of no more use.
    pub(super) fn finish(&self, states: &mut States, run: &Run<'_>) -> Result<Vec<Column>, ExecError> {
        for state in &mut states.states {
            if let State::Lists(lists) = state {
                lists.seal();
            }
        }
        let mut columns = Vec::with_capacity(self.outputs.len());
        for output in &self.outputs {
            columns.push(self.finish_one(output, states, run)?.bound());
        }
        Ok(columns)
    }

    fn finish_one(&self, output: &Output, states: &mut States, run: &Run<'_>) -> Result<Column, ExecError> {
        let counts = |states: &States, of: usize| match &states.states[of] {
            State::Count(counts) => counts.clone(),
            _ => unreachable!("a count has the state of one"),
        };
        let valid = |counts: Option<&[i64]>| {
            counts.filter(|c| c.contains(&0)).map(|c| c.iter().map(|&n| n > 0).collect::<Vec<bool>>())
        };
        Ok(match output {
            Output::Count { of, field } => {
                let values = Values::Int(counts(states, *of));
                Column::new(ColumnInfo::plain(field.clone()), values, None)
            }
            Output::Sum { of, counts: number, finish } => {
                let counts = number.map(|n| counts(states, n));
                let values = finish.values(&states.states[*of], None, false)?;
                Column::new(ColumnInfo::plain(finish.field.clone()), values, valid(counts.as_deref()))
            }
            Output::Avg { of, counts: number, finish } => {
                let counts = counts(states, *number);
                let values = finish.values(&states.states[*of], Some(&counts), true)?;
                Column::new(ColumnInfo::plain(finish.field.clone()), values, valid(Some(&counts)))
            }
            Output::Most { of, counts: number, info } => {
                let valid = valid(number.map(|n| counts(states, n)).as_deref());
                let values = self.most_values(*of, &states.states[*of], info, valid.as_deref())?;
                Column::new(info.clone(), values, valid)
            }
            Output::Opaque { of, field } => {
                let groups = states.groups;
                let State::Opaque(opaque) = &mut states.states[*of] else {
                    unreachable!("an opaque function has a state of its own")
                };
                let types = self.kept[*of].columns.iter().map(|&c| self.infos[c].data_type().clone());
                let array = opaque.finish(types)?;
                if array.len() != groups {
                    let name = field.name();
                    return Err(ExecError::Evaluation(format!(
                        "{name} gave {} results for {groups} groups",
                        array.len()
                    )));
                }
                Column::new(ColumnInfo::plain(field.clone()), Values::Arrow(array), None)
            }
            Output::Distinct { of } => {
                let (Op::Distinct { coder, call }, State::Distinct(distinct)) =
                    (&self.kept[*of].op, &states.states[*of])
                else {
                    unreachable!("a set has the state of one")
                };
                let mut inner = distinct.finish(coder, call, states.groups)?;
                call.finish(&mut inner, run)?.pop().expect("one call has one result")
            }
            Output::Ranked { .. } | Output::Best { .. } | Output::Ordered { .. } => {
                self.finish_ordered(output, states, run)?
            }
        })
    }

    fn finish_ordered(&self, output: &Output, states: &States, run: &Run<'_>) -> Result<Column, ExecError> {
        match output {
            Output::Ranked { of, finish } => {
                let State::Lists(lists) = &states.states[*of] else { unreachable!("numbers are lists") };
                finish.finish(lists, states.groups, run)
            }
            Output::Best { of, finish } => {
                let (Op::Best { store, .. }, State::Best(best)) = (&self.kept[*of].op, &states.states[*of]) else {
                    unreachable!("the best rows have the state of such")
                };
                finish.of_rows(&store.read(&self.infos), best.rows())
            }
            Output::Ordered { of, finish } => {
                let (Op::Rows(store), State::Lists(lists)) = (&self.kept[*of].op, &states.states[*of]) else {
                    unreachable!("rows are lists of locators")
                };
                finish.finish(&store.read(&self.infos), lists, states.groups, run)
            }
            _ => unreachable!("the caller has looked"),
        }
    }

    fn most_values(
        &self,
        of: usize,
        state: &State,
        info: &ColumnInfo,
        valid: Option<&[bool]>,
    ) -> Result<Values, ExecError> {
        Ok(match (&self.kept[of].op, state) {
            (Op::Bytes { converter, .. }, State::Bytes(rows)) => Values::Arrow(array_of_rows(converter, rows, info)?),
            (Op::Most { low, high, smallest }, State::Most(numbers)) => {
                let (low, high, smallest) = (*low, *high, *smallest);
                let is_value = |group: usize| valid.is_none_or(|v| v[group]);
                let number = |(group, &number): (usize, &u64)| {
                    let value =
                        if smallest { high.wrapping_sub(number as i64) } else { low.wrapping_add(number as i64) };
                    if is_value(group) { value } else { low }
                };
                let numbers = numbers.iter().enumerate();
                match &info.kind {
                    Kind::Vid(_) => Values::Vid(numbers.map(|n| number(n) as u32).collect()),
                    Kind::Float => Values::Float(
                        numbers
                            .map(|(group, &n)| match is_value(group) {
                                true => of_ordered(if smallest { !n } else { n }),
                                false => 0.0,
                            })
                            .collect(),
                    ),
                    _ => Values::Int(numbers.map(number).collect()),
                }
            }
            _ => unreachable!("a smallest or largest value has the state of one"),
        })
    }
}

/// An array of a value of one column per row; NULL where there is none.
fn array_of_rows(
    converter: &RowConverter,
    rows: &[Option<Box<[u8]>>],
    info: &ColumnInfo,
) -> Result<ArrayRef, ExecError> {
    let null = converter.convert_columns(&[arrow::array::new_null_array(info.data_type(), 1)])?;
    let parser = converter.parser();
    let parsed = rows.iter().map(|row| parser.parse(row.as_deref().unwrap_or(null.row(0).data())));
    Ok(converter.convert_rows(parsed)?.pop().expect("one column"))
}

/// One column of all pieces: what is known of it, and its vectors.
pub(crate) fn settle(pieces: Vec<Column>) -> (ColumnInfo, Vec<Vector>) {
    let mut info = pieces[0].info.clone();
    info.nullable = pieces.iter().any(|p| match &p.values {
        Values::Arrow(array) => array.logical_null_count() > 0,
        _ => p.valid.as_ref().is_some_and(|v| v.contains(&false)),
    });
    let wide = pieces.iter().any(|p| matches!(p.values, Values::Wide(_)));
    if wide {
        info.kind = Kind::Arrow;
    } else if matches!(pieces[0].values, Values::Int(_)) {
        let bounds = pieces.iter().filter_map(|p| p.bounds).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (low, high) = bounds.unwrap_or((0, 0));
        info.kind = Kind::Int { low, high };
    }
    let vectors = pieces.into_iter().map(|piece| {
        let data = match piece.values {
            Values::Int(values) if wide => {
                let values = values.into_iter().map(i128::from).collect();
                return Vector { data: Data::Arrow(wide_array(values, piece.valid, info.data_type())), valid: None };
            }
            Values::Wide(values) => {
                return Vector { data: Data::Arrow(wide_array(values, piece.valid, info.data_type())), valid: None };
            }
            Values::Int(values) => Data::Int(values),
            Values::Float(values) => Data::Float(values),
            Values::Vid(vids) => Data::Vid(vids),
            Values::Arrow(array) if matches!(info.kind, Kind::Float) => return info.vector_of(&array),
            Values::Arrow(array) => Data::Arrow(array),
        };
        Vector { data, valid: piece.valid }
    });
    let vectors = vectors.collect();
    (info, vectors)
}

fn wide_array(values: Vec<i128>, valid: Option<Vec<bool>>, data_type: &DataType) -> ArrayRef {
    let nulls = valid.map(NullBuffer::from);
    match data_type {
        DataType::UInt64 => {
            let values: Vec<u64> = values.into_iter().map(|v| v as u64).collect();
            Arc::new(UInt64Array::new(values.into(), nulls))
        }
        DataType::Decimal128(..) => {
            let array: Decimal128Array = PrimitiveArray::new(values.into(), nulls);
            Arc::new(array.with_data_type(data_type.clone()))
        }
        other => unreachable!("{other} has no more than 64 bits"),
    }
}
