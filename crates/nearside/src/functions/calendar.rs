//! Functions of dates, times and intervals that DataFusion has not: `age`, `make_date` and its like, `justify_days`,
//! `isfinite`, and `date_trunc` to decades and centuries and of intervals.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, IntervalMonthDayNanoArray, Time64NanosecondArray,
    TimestampNanosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};
use datafusion_common::Result;
use datafusion_expr::ScalarUDF;

use super::defined::Defined;
use super::templates::moments;
use crate::error::value_err;

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const MOMENT: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// The functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let span = |_: &[DataType]| SPAN;
    let all = [
        Defined::new(&["age"], true, two_moments, span, age),
        Defined::new(&["make_date"], true, three_integers, |_| DataType::Date32, make_date),
        Defined::new(&["make_time"], true, three_parts, |_| DataType::Time64(TimeUnit::Nanosecond), make_time),
        Defined::new(&["make_timestamp"], true, six_parts, |_| MOMENT, make_timestamp),
        Defined::new(&["make_interval"], true, up_to_seven, span, make_interval),
        Defined::new(&["justify_days"], true, one_span, span, |columns| justified(columns, days_to_months)),
        Defined::new(&["justify_hours"], true, one_span, span, |columns| justified(columns, hours_to_days)),
        Defined::new(&["justify_interval"], true, one_span, span, |columns| justified(columns, both)),
        Defined::new(
            &["isfinite"],
            true,
            one_finite,
            |_| DataType::Boolean,
            |columns| {
                let known = |row| columns[0].is_valid(row).then_some(true);
                Ok(Arc::new((0..columns[0].len()).map(known).collect::<BooleanArray>()))
            },
        ),
    ];
    all.into_iter().map(Defined::function).collect()
}

fn is_moment(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Null)
}

/// A text as it is written becomes a time.
fn as_moment(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::Utf8View | DataType::Null => Some(MOMENT),
        DataType::Date32 | DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        of if is_moment(of) => Some(of.clone()),
        _ => None,
    }
}

fn two_moments(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [later, earlier] => match (as_moment(later), as_moment(earlier)) {
            (Some(later), Some(earlier)) => Ok(vec![later, earlier]),
            _ => Err("it takes two times".into()),
        },
        [_] => Err("it takes two times; write age(current_date, t)".into()),
        _ => Err("it takes two times".into()),
    }
}

fn one_finite(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [of] if is_moment(of) || matches!(of, DataType::Interval(_) | DataType::Duration(_)) => Ok(types.to_vec()),
        _ => Err("it takes a date, a time or an interval".into()),
    }
}

fn one_span(types: &[DataType]) -> Result<Vec<DataType>, String> {
    use DataType as T;
    match types {
        [T::Interval(_) | T::Duration(_) | T::Null | T::Utf8 | T::Utf8View] => Ok(vec![SPAN]),
        _ => Err("it takes an interval".into()),
    }
}

fn numbers(types: &[DataType], seconds_at: usize) -> Result<Vec<DataType>, String> {
    let one = |(at, of): (usize, &DataType)| match at == seconds_at {
        true if of.is_numeric() || *of == DataType::Null => Ok(DataType::Float64),
        false if of.is_integer() || *of == DataType::Null => Ok(DataType::Int64),
        _ => Err("its parts are integers, and the seconds a number".to_string()),
    };
    types.iter().enumerate().map(one).collect()
}

fn three_integers(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let is_whole =
        |of: &DataType| of.is_integer() || matches!(of, DataType::Null | DataType::Utf8 | DataType::Utf8View);
    match types.len() == 3 && types.iter().all(is_whole) {
        true => Ok(vec![DataType::Int64; 3]),
        false => Err("it takes a year, a month and a day, which are integers".into()),
    }
}

fn six_parts(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types.len() {
        6 => numbers(types, 5),
        _ => Err("it takes a year, month, day, hour, minute and seconds".into()),
    }
}

fn three_parts(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types.len() {
        3 => numbers(types, 2),
        _ => Err("it takes an hour, minute and seconds".into()),
    }
}

fn up_to_seven(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types.len() {
        1..=7 => numbers(types, 6),
        _ => Err("it takes years, months, weeks, days, hours, minutes and seconds".into()),
    }
}

fn days_in_month(year: i32, month: u32) -> i64 {
    let next =
        if month == 12 { NaiveDate::from_ymd_opt(year + 1, 1, 1) } else { NaiveDate::from_ymd_opt(year, month + 1, 1) };
    next.and_then(|next| next.pred_opt()).map_or(31, |last| last.day().into())
}

/// How far two times are apart, in years and months, days and hours, as a person counts.
fn apart(later: NaiveDateTime, earlier: NaiveDateTime) -> IntervalMonthDayNano {
    let is_negative = later < earlier;
    let (a, b) = if is_negative { (earlier, later) } else { (later, earlier) };
    let clock = |of: NaiveDateTime| i64::from(of.num_seconds_from_midnight()) * SECOND + i64::from(of.nanosecond());
    let mut months = i64::from(a.year() - b.year()) * 12 + i64::from(a.month()) - i64::from(b.month());
    let mut days = i64::from(a.day()) - i64::from(b.day());
    let mut nanoseconds = clock(a) - clock(b);
    if nanoseconds < 0 {
        nanoseconds += DAY;
        days -= 1;
    }
    // The month that is taken apart into days is the earlier one's.
    let (mut year, mut month) = (b.year(), b.month());
    while days < 0 {
        days += days_in_month(year, month);
        months -= 1;
        (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    }
    let sign = if is_negative { -1 } else { 1 };
    IntervalMonthDayNano { months: (sign * months) as i32, days: (sign * days) as i32, nanoseconds: sign * nanoseconds }
}

fn age(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (later, earlier) = (moments(&columns[0])?, moments(&columns[1])?);
    let pairs = later.into_iter().zip(earlier);
    let spans = pairs.map(|pair| match pair {
        (Some((later, _)), Some((earlier, _))) => Some(apart(later, earlier)),
        _ => None,
    });
    Ok(Arc::new(spans.collect::<IntervalMonthDayNanoArray>()))
}

/// The integers of columns of a row, and the seconds behind them; `None` where one is NULL.
fn parts(columns: &[ArrayRef], row: usize, seconds_at: usize) -> Option<(Vec<i64>, f64)> {
    let known = columns.iter().all(|column| column.is_valid(row));
    known.then(|| {
        let whole =
            columns.iter().take(seconds_at).map(|column| column.as_primitive::<Int64Type>().value(row)).collect();
        let seconds = columns.get(seconds_at).map_or(0.0, |column| column.as_primitive::<Float64Type>().value(row));
        (whole, seconds)
    })
}

/// The day of three numbers; years before 1 are counted from 1 BC.
fn day_of(year: i64, month: i64, day: i64) -> Option<NaiveDate> {
    let year = i32::try_from(year).ok().filter(|year| *year != 0)?;
    let year = if year < 0 { year + 1 } else { year };
    NaiveDate::from_ymd_opt(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)
}

fn make_date(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut found = Vec::with_capacity(columns[0].len());
    for row in 0..columns[0].len() {
        let Some((whole, _)) = parts(columns, row, 3) else {
            found.push(None);
            continue;
        };
        let (year, month, day) = (whole[0], whole[1], whole[2]);
        match day_of(year, month, day) {
            Some(day) => found.push(Some(day.to_epoch_days())),
            None => return value_err!(DatetimeFieldOverflow, "date field value out of range: {year}-{month}-{day}"),
        }
    }
    Ok(Arc::new(Date32Array::from(found)))
}

fn make_time(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut found = Vec::with_capacity(columns[0].len());
    for row in 0..columns[0].len() {
        let Some((whole, seconds)) = parts(columns, row, 2) else {
            found.push(None);
            continue;
        };
        let (hour, minute, micros) = (whole[0], whole[1], (seconds * 1e6).round());
        let is_clock = (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60e6).contains(&micros);
        let clock =
            hour.wrapping_mul(HOUR).wrapping_add(minute.wrapping_mul(60 * SECOND)).wrapping_add(micros as i64 * 1000);
        match is_clock && clock < DAY {
            true => found.push(Some(clock)),
            false => {
                return value_err!(DatetimeFieldOverflow, "time field value out of range: {hour}:{minute}:{seconds}");
            }
        }
    }
    Ok(Arc::new(Time64NanosecondArray::from(found)))
}

fn make_timestamp(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut found = Vec::with_capacity(columns[0].len());
    for row in 0..columns[0].len() {
        let Some((whole, seconds)) = parts(columns, row, 5) else {
            found.push(None);
            continue;
        };
        let moment = || {
            let part = |at: usize| u32::try_from(whole[at]).ok();
            let day = day_of(whole[0], whole[1], whole[2])?;
            let (hour, minute) = (part(3).filter(|h| *h < 24)?, part(4).filter(|m| *m < 60)?);
            let micros = (seconds * 1e6).round();
            let seconds = (0.0..=60e6).contains(&micros).then_some(micros as i64)?;
            let clock = i64::from(hour * 3600 + minute * 60) * 1_000_000 + seconds;
            day.and_hms_opt(0, 0, 0)?
                .checked_add_signed(chrono::TimeDelta::microseconds(clock))?
                .and_utc()
                .timestamp_nanos_opt()
        };
        match moment() {
            Some(moment) => found.push(Some(moment)),
            None => {
                return value_err!(DatetimeFieldOverflow, "date/time field value out of range: {whole:?} {seconds}");
            }
        }
    }
    Ok(Arc::new(TimestampNanosecondArray::from(found)))
}

fn make_interval(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut found = Vec::with_capacity(columns[0].len());
    for row in 0..columns[0].len() {
        let Some((whole, seconds)) = parts(columns, row, 6) else {
            found.push(None);
            continue;
        };
        let span = || {
            let part = |at: usize| whole.get(at).copied().unwrap_or(0);
            let months = part(0).checked_mul(12)?.checked_add(part(1))?;
            let days = part(2).checked_mul(7)?.checked_add(part(3))?;
            let clock = part(4).checked_mul(HOUR)?.checked_add(part(5).checked_mul(60 * SECOND)?)?;
            let micros = (seconds * 1e6).round_ties_even();
            let seconds = (micros.abs() < 9e15).then_some(micros as i64)?.checked_mul(1000)?;
            Some(IntervalMonthDayNano {
                months: months.try_into().ok()?,
                days: days.try_into().ok()?,
                nanoseconds: clock.checked_add(seconds)?,
            })
        };
        match span() {
            Some(span) => found.push(Some(span)),
            None => return value_err!(DatetimeFieldOverflow, "interval out of range"),
        }
    }
    Ok(Arc::new(IntervalMonthDayNanoArray::from(found)))
}

type Parts = (i64, i64, i64);

fn justified(columns: &[ArrayRef], by: fn(Parts) -> Parts) -> Result<ArrayRef> {
    let spans = cast(&columns[0], &SPAN)?;
    let one = |span: IntervalMonthDayNano| {
        let (months, days, nanoseconds) = by((span.months.into(), span.days.into(), span.nanoseconds));
        Some(IntervalMonthDayNano { months: months.try_into().ok()?, days: days.try_into().ok()?, nanoseconds })
    };
    let mut found = Vec::with_capacity(spans.len());
    for span in spans.as_primitive::<IntervalMonthDayNanoType>() {
        match span.map(one) {
            None => found.push(None),
            Some(Some(span)) => found.push(Some(span)),
            Some(None) => return value_err!(DatetimeFieldOverflow, "interval out of range"),
        }
    }
    Ok(Arc::new(IntervalMonthDayNanoArray::from(found)))
}

/// Moves whole larger units up, and then lets what is left have the sign of these.
fn moved(large: i64, small: i64, unit: i64) -> (i64, i64) {
    let (mut large, mut small) = (large + small / unit, small % unit);
    if large > 0 && small < 0 {
        (large, small) = (large - 1, small + unit);
    } else if large < 0 && small > 0 {
        (large, small) = (large + 1, small - unit);
    }
    (large, small)
}

fn days_to_months((months, days, nanoseconds): Parts) -> Parts {
    let (months, days) = moved(months, days, 30);
    (months, days, nanoseconds)
}

fn hours_to_days((months, days, nanoseconds): Parts) -> Parts {
    let (days, nanoseconds) = moved(days, nanoseconds, DAY);
    (months, days, nanoseconds)
}

fn both((months, days, nanoseconds): Parts) -> Parts {
    let (mut days, mut nanoseconds) = (days + nanoseconds / DAY, nanoseconds % DAY);
    let mut months = months + days / 30;
    days %= 30;
    if months > 0 && (days < 0 || (days == 0 && nanoseconds < 0)) {
        days += 30;
        months -= 1;
    } else if months < 0 && (days > 0 || (days == 0 && nanoseconds > 0)) {
        days -= 30;
        months += 1;
    }
    if days > 0 && nanoseconds < 0 {
        nanoseconds += DAY;
        days -= 1;
    } else if days < 0 && nanoseconds > 0 {
        nanoseconds -= DAY;
        days += 1;
    }
    (months, days, nanoseconds)
}
