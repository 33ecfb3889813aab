//! [`Finish`]: how a sum or an average ends, checked once against the type that it surfaces as.
//!
//! Averages of decimals are rounded half away from zero, and errors have the words of `nearside`'s checked aggregates,
//! so that it does not matter which of the two computes.

use arrow::datatypes::{DataType, FieldRef, IntervalUnit, i256};

use super::column::Values;
use super::state::State;
use crate::ExecError;
use crate::chunk::vector::type_bounds;
use crate::plan::AggregateCall;

/// How a sum or an average ends.
pub(crate) struct Finish {
    pub(super) field: FieldRef,
    /// An average of decimals or durations: digits that it has more than its argument.
    shift: Option<u32>,
    /// Digits behind the point of the argument, where the result is a float.
    scale: i32,
    least: i128,
    most: i128,
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
