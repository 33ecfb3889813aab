//! Intervals as PostgreSQL writes them, `1 day 02:03:04.5`, `1-2` and `P1DT2H`, in the words that the planner reads: a
//! number of months, days and microseconds.

use arrow::datatypes::IntervalMonthDayNano;
use sqlparser::ast::{self, DateTimeField, UnaryOperator, Value};

use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::span_texts::{Fault, Field, cut, read};

/// Writes a literal interval out in units.
///
/// # Errors
/// A text that is no interval.
pub(super) fn spell_out(expr: &mut ast::Expr) -> Result<()> {
    match expr {
        ast::Expr::Interval(interval) => {
            let of = |field: &Option<DateTimeField>| field.as_ref().and_then(field_of);
            let (first, last) = (of(&interval.leading_field), of(&interval.last_field));
            // Other words are the planner's, which reads them or refuses them.
            if interval.leading_field.is_some() != first.is_some() || interval.last_field.is_some() != last.is_some() {
                return Ok(());
            }
            let digits = interval.fractional_seconds_precision.or(interval.leading_precision);
            let is_clock_of_minutes = first == Some(Field::Minute) && last == Some(Field::Second);
            let (Some(text), last) = (text_of(&mut interval.value), last.or(first)) else { return Ok(()) };
            if let (Some(first), Some(last)) = (first, last)
                && first > last
            {
                return Err(Error::syntax(format!("an interval has no fields from {first:?} to {last:?}")));
            }
            let value = read(text, last, is_clock_of_minutes).map_err(|fault| unreadable(text, fault))?;
            let value = last.map_or(value, |last| cut(value, last));
            *text = in_units(digits.map_or(value, |digits| rounded(value, digits)));
            (interval.leading_field, interval.last_field) = (None, None);
            (interval.leading_precision, interval.fractional_seconds_precision) = (None, None);
        }
        // The planner would negate the first unit alone.
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            let mut inside = inner.as_mut();
            while let ast::Expr::Nested(deeper) = inside {
                inside = deeper.as_mut();
            }
            let ast::Expr::Interval(interval) = inside else { return Ok(()) };
            let Some(text) = text_of(&mut interval.value) else { return Ok(()) };
            let value = read_units(text).ok_or_else(|| unreadable(text, Fault::Shape))?;
            let negated = (value.months.checked_neg(), value.days.checked_neg(), value.nanoseconds.checked_neg());
            let (Some(months), Some(days), Some(nanoseconds)) = negated else {
                return Err(unreadable(text, Fault::Range));
            };
            *text = in_units(IntervalMonthDayNano { months, days, nanoseconds });
            *expr = std::mem::replace(inside, ast::Expr::Value(Value::Null.into()));
        }
        _ => {}
    }
    Ok(())
}

fn text_of(expr: &mut ast::Expr) -> Option<&mut String> {
    match expr {
        ast::Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

fn unreadable(text: &str, fault: Fault) -> Error {
    match fault {
        Fault::Shape => Error::plan(
            SqlState::InvalidDatetimeFormat,
            format!("'{text}' cannot be read as INTERVAL; write numbers with units, as in '1 day 2 hours'"),
        ),
        Fault::Range => Error::plan(
            SqlState::DatetimeFieldOverflow,
            format!("'{text}' cannot be read as INTERVAL: a number in it is out of its range"),
        ),
    }
}

fn field_of(field: &DateTimeField) -> Option<Field> {
    Some(match field {
        DateTimeField::Year | DateTimeField::Years => Field::Year,
        DateTimeField::Month | DateTimeField::Months => Field::Month,
        DateTimeField::Day | DateTimeField::Days => Field::Day,
        DateTimeField::Hour | DateTimeField::Hours => Field::Hour,
        DateTimeField::Minute | DateTimeField::Minutes => Field::Minute,
        DateTimeField::Second | DateTimeField::Seconds => Field::Second,
        _ => return None,
    })
}

/// An interval whose seconds have so many digits behind the point.
fn rounded(value: IntervalMonthDayNano, digits: u64) -> IntervalMonthDayNano {
    let unit = 10i64.pow(9 - digits.min(6) as u32);
    let half = if value.nanoseconds < 0 { -unit / 2 } else { unit / 2 };
    let nanoseconds = value.nanoseconds.saturating_add(half) / unit * unit;
    IntervalMonthDayNano { nanoseconds, ..value }
}

/// The text that the planner reads.
fn in_units(value: IntervalMonthDayNano) -> String {
    let IntervalMonthDayNano { months, days, nanoseconds } = value;
    format!("{months} months {days} days {} microseconds", nanoseconds / 1000)
}

/// What [`in_units`] wrote.
fn read_units(text: &str) -> Option<IntervalMonthDayNano> {
    match text.split(' ').collect::<Vec<_>>().as_slice() {
        [months, "months", days, "days", micros, "microseconds"] => Some(IntervalMonthDayNano {
            months: months.parse().ok()?,
            days: days.parse().ok()?,
            nanoseconds: micros.parse::<i64>().ok()?.checked_mul(1000)?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_back() {
        let value = IntervalMonthDayNano { months: -14, days: 3, nanoseconds: -5_000 };
        assert_eq!(read_units(&in_units(value)), Some(value));
        assert_eq!(read_units("1 day"), None);
    }
}
