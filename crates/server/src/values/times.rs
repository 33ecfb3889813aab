//! Days, times and intervals as PostgreSQL writes them (`DateStyle` ISO, `IntervalStyle` postgres).

use std::io::Write;

/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400_000_000_000;

/// Year, month and day of the day that lies so many days behind 1970-01-01, in the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, u32, u32) {
    // Eras of 400 years that begin in March, so that the day of the leap year is the last one.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

/// Writing to memory cannot fail.
macro_rules! put {
    ($to:expr, $($text:tt)*) => { let _ = write!($to, $($text)*); };
}

/// A day, and whether it is one before the year 1.
fn day_of(days: i64, to: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil(days);
    put!(to, "{:04}-{month:02}-{day:02}", if year > 0 { year } else { 1 - year });
    year <= 0
}

/// `2024-01-31`, of days since 1970-01-01.
pub fn date(days: i64, to: &mut Vec<u8>) {
    if day_of(days, to) {
        to.extend(b" BC");
    }
}

/// `12:34:56.789`, of nanoseconds of a day.
pub fn time(ns: i64, to: &mut Vec<u8>) {
    let seconds = ns / 1_000_000_000;
    put!(to, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    fraction(ns % 1_000_000_000, to);
}

/// The digits behind the point, without zeros at their end.
fn fraction(ns: i64, to: &mut Vec<u8>) {
    if ns != 0 {
        put!(to, ".{ns:09}");
        while to.last() == Some(&b'0') {
            to.pop();
        }
    }
}

/// `2024-01-31 12:34:56.789`, of units since 1970 of which a second has `per_second`; with an offset in seconds where
/// the type has a zone, which has been added already.
pub fn timestamp(count: i128, per_second: i64, offset: Option<i32>, to: &mut Vec<u8>) {
    let (seconds, rest) = (count.div_euclid(per_second.into()), count.rem_euclid(per_second.into()));
    let (days, seconds) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let is_bc = day_of(days as i64, to);
    to.push(b' ');
    time(seconds as i64 * 1_000_000_000 + rest as i64 * (1_000_000_000 / per_second), to);
    if let Some(offset) = offset {
        let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.abs());
        put!(to, "{sign}{:02}", offset / 3600);
        if offset % 3600 != 0 {
            put!(to, ":{:02}", offset / 60 % 60);
        }
        if offset % 60 != 0 {
            put!(to, ":{:02}", offset % 60);
        }
    }
    if is_bc {
        to.extend(b" BC");
    }
}

/// `1 year 2 mons -3 days +04:05:06.7`.
pub fn interval(months: i32, days: i64, ns: i64, to: &mut Vec<u8>) {
    let start = to.len();
    let mut is_before = false;
    for (value, unit) in [(i64::from(months / 12), "year"), (i64::from(months % 12), "mon"), (days, "day")] {
        if value == 0 {
            continue;
        }
        let blank = if to.len() > start { " " } else { "" };
        let sign = if is_before && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        put!(to, "{blank}{sign}{value} {unit}{plural}");
        is_before = value < 0;
    }
    if to.len() > start && ns == 0 {
        return;
    }
    let blank = if to.len() > start { " " } else { "" };
    let sign = if ns < 0 {
        "-"
    } else if is_before {
        "+"
    } else {
        ""
    };
    put!(to, "{blank}{sign}");
    let ns = ns.unsigned_abs();
    let seconds = ns / 1_000_000_000;
    put!(to, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    fraction((ns % 1_000_000_000) as i64, to);
}

/// Nanoseconds as days and the rest of them.
pub fn days_and_rest(ns: i64) -> (i64, i64) {
    (ns / DAY_NS, ns % DAY_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut to = Vec::new();
        write(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (19_782, "2024-02-29"),
            (11_016, "2000-02-29"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
            (2_932_897, "10000-01-01"),
        ] {
            assert_eq!(text(|to| date(days, to)), expected);
        }
    }

    #[test]
    fn times_have_the_digits_that_they_need() {
        assert_eq!(text(|to| time(45_296_789_000_000, to)), "12:34:56.789");
        assert_eq!(text(|to| time(DAY_NS, to)), "24:00:00");
        assert_eq!(text(|to| timestamp(-1, 1_000_000, None, to)), "1969-12-31 23:59:59.999999");
        assert_eq!(text(|to| timestamp(5, 1, Some(0), to)), "1970-01-01 00:00:05+00");
        assert_eq!(text(|to| timestamp(0, 1, Some(-12_600), to)), "1970-01-01 00:00:00-03:30");
        assert_eq!(text(|to| timestamp(0, 1, Some(3208), to)), "1970-01-01 00:00:00+00:53:28");
        assert_eq!(text(|to| timestamp(-62_167_219_201, 1, None, to)), "0002-12-31 23:59:59 BC");
    }

    #[test]
    fn intervals_are_written_as_postgres_does() {
        for (months, days, ns, expected) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706_700_000_000, "1 year 2 mons 3 days 04:05:06.7"),
            (-1, 2, 0, "-1 mons +2 days"),
            (-12, 0, 1_000_000_000, "-1 years +00:00:01"),
            (0, 1, -1_500_000_000, "1 day -00:00:01.5"),
            (0, 0, 360_000_000_000_000, "100:00:00"),
        ] {
            assert_eq!(text(|to| interval(months, days, ns, to)), expected);
        }
    }
}
