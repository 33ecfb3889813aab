//! An exact running total, and what an aggregate makes of it at the end.
//!
//! Totals are kept in 128 bits plus a count of how often those wrapped, so adding never fails and never loses
//! anything: the outcome does not depend on the order of the rows, on how they were split over tasks, or on values
//! that come and go in a sliding window. The range of the result's type is checked once, when the value is asked for.

use arrow::datatypes::{DataType, IntervalUnit, i256};
use datafusion_common::{Result, internal_err};

use super::error::ArithmeticError;
use crate::error::types::sql_type;

/// `wraps * 2^128 + low`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub low: i128,
    pub wraps: i64,
}

impl Total {
    #[inline(always)]
    pub fn add(&mut self, value: i128) {
        let (low, overflow) = self.low.overflowing_add(value);
        self.low = low;
        if overflow {
            self.wraps += if value < 0 { -1 } else { 1 };
        }
    }

    #[inline(always)]
    pub fn sub(&mut self, value: i128) {
        let (low, overflow) = self.low.overflowing_sub(value);
        self.low = low;
        if overflow {
            self.wraps += if value < 0 { 1 } else { -1 };
        }
    }

    pub fn merge(&mut self, other: Total) {
        self.add(other.low);
        self.wraps += other.wraps;
    }

    fn as_i256(self) -> i256 {
        i256::from_parts(self.low as u128, (self.low >> 127) + i128::from(self.wraps))
    }
}

/// What the aggregate computes from the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AggregateKind {
    /// The total itself.
    Sum,
    /// `total * 10^shift / count`, rounded half away from zero.
    Average { shift: u32 },
}

/// How one call of `sum` or `avg` ends: what it computes, the result's type and range, and its name for errors.
#[derive(Debug, Clone)]
pub(super) struct Finish {
    pub wanted: AggregateKind,
    pub data_type: DataType,
    /// The type of the total's low half in partial states: its scale is the argument's.
    pub low_type: DataType,
    /// The call as it stands in the plan.
    name: String,
    min: i128,
    max: i128,
}

impl Finish {
    /// The end of `name`, which totals values of `input` and returns `result`.
    pub fn new(wanted: AggregateKind, name: &str, input: &DataType, result: &DataType) -> Result<Finish> {
        let (min, max) = match result {
            DataType::Int64 | DataType::Duration(_) => (i128::from(i64::MIN), i128::from(i64::MAX)),
            DataType::UInt64 => (0, i128::from(u64::MAX)),
            DataType::Interval(IntervalUnit::YearMonth) => (i128::from(i32::MIN), i128::from(i32::MAX)),
            DataType::Decimal128(p, _) => {
                let end = 10i128.pow(u32::from(*p));
                (1 - end, end - 1)
            }
            other => return internal_err!("no exact total for {other}"),
        };
        let scale = match input {
            DataType::Decimal128(_, s) => *s,
            _ => 0,
        };
        Ok(Finish {
            wanted,
            data_type: result.clone(),
            low_type: DataType::Decimal128(38, scale),
            name: display_name(name),
            min,
            max,
        })
    }

    /// The aggregate's value for a group of `count` (at least one) values.
    #[inline]
    pub fn value(&self, total: Total, count: u64) -> Result<i128> {
        let value = match self.wanted {
            AggregateKind::Sum if total.wraps == 0 => Some(total.low),
            AggregateKind::Sum => None,
            AggregateKind::Average { shift } => average(total, count, shift),
        };
        match value {
            Some(value) if value >= self.min && value <= self.max => Ok(value),
            _ => Err(self.overflow().into()),
        }
    }

    fn overflow(&self) -> ArithmeticError {
        let (kind, advice) = match &self.data_type {
            DataType::Int64 | DataType::UInt64 => ("integer", "cast the argument to DECIMAL"),
            DataType::Decimal128(..) => ("decimal", "cast the argument to DOUBLE"),
            _ => ("interval", "total fewer rows at a time"),
        };
        ArithmeticError::Aggregate {
            kind,
            aggregate: self.name.clone(),
            what: match self.wanted {
                AggregateKind::Sum => "the total",
                AggregateKind::Average { .. } => "the average",
            },
            target: sql_type(&self.data_type),
            advice,
        }
    }
}

/// The call's name; for a DISTINCT that DataFusion turned into two aggregations, its argument's made-up name is hidden.
fn display_name(name: &str) -> String {
    match name.split_once("(alias") {
        Some((function, rest)) if rest.trim_end_matches(')').parse::<u32>().is_ok() => {
            format!("{function}(DISTINCT ..)")
        }
        _ => name.to_string(),
    }
}

/// `total * 10^shift / count`, rounded half away from zero, as native averages are; `None` where it needs more than 128
/// bits.
fn average(total: Total, count: u64, shift: u32) -> Option<i128> {
    let factor = 10i128.checked_pow(shift)?;
    let divisor = i128::from(count);
    if total.wraps == 0
        && let Some(scaled) = total.low.checked_mul(factor)
    {
        let cut = scaled.checked_div(divisor)?;
        let rest = scaled.checked_rem(divisor)?;
        // The rest is less than a count, which has 64 bits.
        return Some(if 2 * rest.abs() >= divisor { cut + rest.signum() } else { cut });
    }
    let scaled = total.as_i256().checked_mul(i256::from_i128(factor))?;
    let divisor = i256::from_i128(divisor);
    let cut = scaled.checked_div(divisor)?.to_i128()?;
    let rest = scaled.checked_rem(divisor)?.to_i128()?;
    if 2 * rest.abs() >= i128::from(count) { cut.checked_add(rest.signum()) } else { Some(cut) }
}
