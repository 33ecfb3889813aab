//! Intervals times numbers, and over them.

use arrow::datatypes::IntervalMonthDayNano;

const SECOND: f64 = 1e9;
const MONTH_DAYS: f64 = 30.0;

/// An interval over a number that is not zero; `None` for what fits none.
pub(crate) fn divided(interval: IntervalMonthDayNano, by: f64) -> Option<IntervalMonthDayNano> {
    scaled_by(interval, |value| value / by)
}

/// To a millionth: what is left over of months is a number of days and not a ten-millionth less.
fn millionths(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

/// The parts of an interval, each scaled, with what is left over of months and days in the parts below; `None` for what
/// fits no interval.
pub(crate) fn scaled_by(interval: IntervalMonthDayNano, scale: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    const DAY_SECONDS: f64 = 86_400.0;
    let whole = |value: f64| {
        let whole = value.trunc();
        (whole >= i32::MIN.into() && whole <= i32::MAX.into()).then_some(whole as i32)
    };
    let of_months = scale(interval.months.into());
    let of_days = scale(interval.days.into());
    let months = whole(of_months)?;
    let days = whole(of_days)?;
    let more_days = millionths((of_months - f64::from(months)) * MONTH_DAYS);
    let more_seconds = millionths((of_days - f64::from(days) + more_days - more_days.trunc()) * DAY_SECONDS);
    let carried = (more_seconds / DAY_SECONDS).trunc();
    let days = days.checked_add(whole(more_days)?)?.checked_add(whole(carried)?)?;
    let rest = more_seconds - carried * DAY_SECONDS;
    // To microseconds, which PostgreSQL's intervals have.
    let microseconds = (scale(interval.nanoseconds as f64) + rest * SECOND) / 1e3;
    let nanoseconds = microseconds.round_ties_even() * 1e3;
    let fits = nanoseconds >= i64::MIN as f64 && nanoseconds < i64::MAX as f64;
    fits.then_some(IntervalMonthDayNano { months, days, nanoseconds: nanoseconds as i64 })
}
