//! Parts of dates: the proleptic Gregorian calendar by arithmetic on days since 1970-01-01.
//!
//! The year is taken to begin in March, so that the leap day is its last; 400 years have 146,097 days.
//!
//! # Limits
//! Years 1 to 9999, where every other implementation agrees on the answer.

use crate::plan::expression::DatePart;

/// 0001-01-01 and 9999-12-31.
pub(super) const DAYS: (i64, i64) = (-719_162, 2_932_896);

const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const SHIFT: i64 = 719_468;

/// Year, month and day of the month of a day.
#[inline]
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + SHIFT;
    let era = day.div_euclid(DAYS_PER_ERA);
    let of_era = day.rem_euclid(DAYS_PER_ERA);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / (DAYS_PER_ERA - 1)) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // March is month 0.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// The day `n` months later, or the last of its month where that has no such day.
pub(crate) fn plus_months(day: i64, months: i64) -> i64 {
    let (year, month, of_month) = civil(day);
    let months = year * 12 + (month - 1) + months;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    // Years that begin in March, as in `civil`.
    let (year, from_march) = (year - i64::from(month <= 2), (month + 9) % 12);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * from_march + 2) / 5 + of_month.min(days) - 1;
    year.div_euclid(400) * DAYS_PER_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - SHIFT
}

/// A part of the date of a day, which lies within [`DAYS`] (the answer for another means nothing).
pub(super) fn part_of(part: DatePart, day: i64) -> i64 {
    let (year, month, of_month) = civil(day.clamp(DAYS.0, DAYS.1));
    match part {
        DatePart::Year => year,
        DatePart::Quarter => (month - 1) / 3 + 1,
        DatePart::Month => month,
        DatePart::Day => of_month,
    }
}

/// Bounds of a part over some days.
pub(super) fn part_bounds(part: DatePart, (low, high): (i64, i64)) -> (i64, i64) {
    match part {
        DatePart::Year => (part_of(part, low), part_of(part, high)),
        DatePart::Quarter => (1, 4),
        DatePart::Month => (1, 12),
        DatePart::Day => (1, 31),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, AsArray, Date32Array};
    use arrow::compute::kernels::temporal;
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn every_day_agrees_with_arrow() {
        let days: Vec<i32> = (DAYS.0 as i32..=DAYS.1 as i32).step_by(3).chain([DAYS.0 as i32, DAYS.1 as i32]).collect();
        let array: Arc<dyn Array> = Arc::new(Date32Array::from(days.clone()));
        for (part, arrows) in [
            (DatePart::Year, temporal::DatePart::Year),
            (DatePart::Quarter, temporal::DatePart::Quarter),
            (DatePart::Month, temporal::DatePart::Month),
            (DatePart::Day, temporal::DatePart::Day),
        ] {
            let expected = temporal::date_part(array.as_ref(), arrows).expect("a date");
            let expected = expected.as_primitive::<Int32Type>();
            for (i, &day) in days.iter().enumerate() {
                assert_eq!(part_of(part, i64::from(day)), i64::from(expected.value(i)), "{part:?} of day {day}");
            }
        }
    }
}
