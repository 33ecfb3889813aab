//! Intervals as texts, read as PostgreSQL reads them: `1 day 02:03:04.5`, `1-2`, `1 2:03`, `1.5 years ago`, and the
//! forms of ISO 8601 (`P1Y2M3DT4H`, `P0001-02-03T04:05:06`). A fraction of a unit is told in smaller ones: half a month
//! is 15 days, half a day 12 hours.
//!
//! # Limits
//! Seconds have six digits behind the point, as in PostgreSQL; what is behind these is rounded.

use arrow::datatypes::IntervalMonthDayNano;

/// What the words behind an interval's literal leave of it: `INTERVAL '..' DAY TO HOUR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    /// Years.
    Year,
    /// Months.
    Month,
    /// Days.
    Day,
    /// Hours.
    Hour,
    /// Minutes.
    Minute,
    /// Seconds.
    Second,
}

const MICROS: i64 = 1_000_000;
const MINUTE: i64 = 60 * MICROS;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const MONTH_DAYS: f64 = 30.0;

/// What was read so far, in months, days and microseconds; wide enough that only the whole has to fit.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    micros: i128,
}

/// What kind of wrong a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is no interval.
    Shape,
    /// It is one that is too long.
    Range,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Micros,
    Millis,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    /// So many years.
    Years(u16),
}

impl Unit {
    fn of(word: &str) -> Option<Unit> {
        Some(match word {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => Unit::Micros,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => Unit::Millis,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Years(1),
            "dec" | "decs" | "decade" | "decades" => Unit::Years(10),
            "c" | "cent" | "century" | "centuries" => Unit::Years(100),
            "mil" | "mils" | "millennium" | "millennia" => Unit::Years(1000),
            _ => return None,
        })
    }

    /// A bit by which a unit that comes twice is found.
    fn bit(self) -> u32 {
        match self {
            Unit::Micros => 1,
            Unit::Millis => 2,
            Unit::Second => 4,
            Unit::Minute => 8,
            Unit::Hour => 16,
            Unit::Day => 32,
            Unit::Week => 64,
            Unit::Month => 128,
            Unit::Years(1) => 256,
            Unit::Years(10) => 512,
            Unit::Years(100) => 1024,
            Unit::Years(_) => 2048,
        }
    }
}

/// Bits of hours, minutes and seconds.
const CLOCK: u32 = 4 | 8 | 16;

impl From<Field> for Unit {
    fn from(field: Field) -> Unit {
        match field {
            Field::Year => Unit::Years(1),
            Field::Month => Unit::Month,
            Field::Day => Unit::Day,
            Field::Hour => Unit::Hour,
            Field::Minute => Unit::Minute,
            Field::Second => Unit::Second,
        }
    }
}

/// A number with a fraction: `-1.5` is -1 and -0.5.
#[derive(Debug, Clone, Copy)]
struct Number {
    whole: i64,
    fraction: f64,
}

impl Number {
    fn of(text: &str) -> Option<Number> {
        let (sign, digits) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let number: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let part: f64 = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
        Some(Number { whole: sign * number, fraction: sign as f64 * part })
    }
}

impl Sum {
    fn add(&mut self, number: Number, unit: Unit) {
        let Number { whole, fraction } = number;
        let whole = i128::from(whole);
        let micros = |sum: &mut Sum, of: i64| {
            sum.micros += whole * i128::from(of) + (fraction * of as f64).round_ties_even() as i128;
        };
        match unit {
            Unit::Micros => micros(self, 1),
            Unit::Millis => micros(self, 1000),
            Unit::Second => micros(self, MICROS),
            Unit::Minute => micros(self, MINUTE),
            Unit::Hour => micros(self, HOUR),
            Unit::Day => {
                self.days += whole;
                self.micros += (fraction * DAY as f64).round_ties_even() as i128;
            }
            Unit::Week => {
                self.days += whole * 7;
                self.add_days(fraction * 7.0);
            }
            Unit::Month => {
                self.months += whole;
                self.add_days(fraction * MONTH_DAYS);
            }
            Unit::Years(years) => {
                let years = i128::from(years);
                self.months += whole * years * 12 + (fraction * years as f64 * 12.0).round_ties_even() as i128;
            }
        }
    }

    fn add_days(&mut self, days: f64) {
        self.days += days.trunc() as i128;
        self.micros += (days.fract() * DAY as f64).round_ties_even() as i128;
    }

    fn negate(&mut self) {
        (self.months, self.days, self.micros) = (-self.months, -self.days, -self.micros);
    }

    fn done(self) -> Result<IntervalMonthDayNano, Fault> {
        Ok(IntervalMonthDayNano {
            months: i32::try_from(self.months).map_err(|_| Fault::Range)?,
            days: i32::try_from(self.days).map_err(|_| Fault::Range)?,
            nanoseconds: i64::try_from(self.micros * 1000).map_err(|_| Fault::Range)?,
        })
    }
}

/// The name of a unit that a word means: `hours` and `hrs` are `hour`.
pub(crate) fn unit_named(word: &str) -> Option<&'static str> {
    let lower = word.trim().to_lowercase();
    Some(match Unit::of(&lower) {
        None if matches!(lower.as_str(), "quarter" | "qtr") => "quarter",
        None => return None,
        Some(Unit::Micros) => "microsecond",
        Some(Unit::Millis) => "millisecond",
        Some(Unit::Second) => "second",
        Some(Unit::Minute) => "minute",
        Some(Unit::Hour) => "hour",
        Some(Unit::Day) => "day",
        Some(Unit::Week) => "week",
        Some(Unit::Month) => "month",
        Some(Unit::Years(10)) => "decade",
        Some(Unit::Years(100)) => "century",
        Some(Unit::Years(1000)) => "millennium",
        Some(Unit::Years(_)) => "year",
    })
}

/// The interval that a text means. `last` is the unit of a number that has none, seconds where nobody says which;
/// `5:06` is minutes and seconds where the words behind it say these (`MINUTE TO SECOND`), else hours and minutes.
///
/// # Errors
/// A text that is no interval, or one that is too long.
pub(crate) fn read(text: &str, last: Option<Field>, of_minutes: bool) -> Result<IntervalMonthDayNano, Fault> {
    let text = text.trim();
    if text.starts_with(['P', 'p']) && text.len() > 1 {
        return iso(&text[1..]);
    }
    let tokens = tokens(text).ok_or(Fault::Shape)?;
    let mut sum = Sum::default();
    let mut seen = 0u32;
    let mut once = |bit: u32| match seen & bit {
        0 => {
            seen |= bit;
            Ok(())
        }
        _ => Err(Fault::Shape),
    };
    let mut at = 0;
    let mut ago = false;
    while at < tokens.len() {
        let token = tokens[at].as_str();
        at += 1;
        if ago {
            return Err(Fault::Shape);
        }
        if token == "ago" {
            ago = true;
            continue;
        }
        if let Some(clock) = clock(token, of_minutes)? {
            once(CLOCK)?;
            sum.micros += clock;
            continue;
        }
        if let Some((years, months)) = years_and_months(token) {
            once(Unit::Month.bit() | Unit::Years(1).bit())?;
            sum.months += years * 12 + months;
            continue;
        }
        let number = Number::of(token).ok_or(match is_number(token) {
            true => Fault::Range,
            false => Fault::Shape,
        })?;
        let next = tokens.get(at).map(String::as_str);
        let unit = match next.and_then(Unit::of) {
            Some(unit) => {
                at += 1;
                unit
            }
            // Days stand before a clock, and before a number of hours.
            None if next.is_some_and(|next| next.contains(':')) => Unit::Day,
            None if last == Some(Field::Hour) && next.is_some_and(is_number) && at + 1 == tokens.len() => Unit::Day,
            None if next.is_none_or(|next| next == "ago") => last.map_or(Unit::Second, Unit::from),
            None => return Err(Fault::Shape),
        };
        once(unit.bit())?;
        sum.add(number, unit);
    }
    if seen == 0 {
        return Err(Fault::Shape);
    }
    if ago {
        sum.negate();
    }
    sum.done()
}

fn is_number(token: &str) -> bool {
    let digits = token.strip_prefix(['+', '-']).unwrap_or(token);
    !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit() || c == b'.')
}

/// Numbers, clocks and words, in small letters; `None` where a character belongs to none of them.
fn tokens(text: &str) -> Option<Vec<String>> {
    let lower = text.to_lowercase();
    let mut rest = lower.as_str();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if c.is_whitespace() => {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            // Noise at the start of PostgreSQL's verbose form.
            '@' if tokens.is_empty() => {
                rest = &rest[1..];
                continue;
            }
            c if c.is_ascii_alphabetic() => rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()),
            c if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => {
                let more = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | '-');
                let sign = usize::from(matches!(c, '-' | '+'));
                let blank = rest[sign..].len() - rest[sign..].trim_start().len();
                let start = sign + blank;
                let end = start + rest[start..].find(|c| !more(c)).unwrap_or(rest.len() - start);
                if blank > 0 {
                    tokens.push(format!("{}{}", &rest[..sign], &rest[start..end]));
                    rest = &rest[end..];
                    continue;
                }
                end
            }
            _ => return None,
        };
        tokens.push(rest[..length].to_string());
        rest = &rest[length..];
    }
    Some(tokens)
}

/// `1-2`: years and months.
fn years_and_months(token: &str) -> Option<(i128, i128)> {
    let (sign, both) = match token.as_bytes().first()? {
        b'-' => (-1, &token[1..]),
        b'+' => (1, &token[1..]),
        _ => (1, token),
    };
    let (years, months) = both.split_once('-')?;
    let number = |text: &str| (!text.is_empty() && is_number(text)).then(|| text.parse::<i64>().ok()).flatten();
    let (years, months) = (number(years)?, number(months)?);
    (months < 12).then_some((sign * i128::from(years), sign * i128::from(months)))
}

/// `4:05:06.7`, `4:05` and `5:06.7`, in microseconds; `None` where the token is no clock.
fn clock(token: &str, of_minutes: bool) -> Result<Option<i128>, Fault> {
    if !token.contains(':') {
        return Ok(None);
    }
    let (sign, all) = match token.as_bytes().first() {
        Some(b'-') => (-1, &token[1..]),
        Some(b'+') => (1, &token[1..]),
        _ => (1, token),
    };
    let parts: Vec<&str> = all.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [minutes, seconds] if seconds.contains('.') || of_minutes => ("0", *minutes, *seconds),
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return Err(Fault::Shape),
    };
    let whole = |text: &str| -> Result<i64, Fault> {
        match !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()) {
            true => text.parse().map_err(|_| Fault::Range),
            false => Err(Fault::Shape),
        }
    };
    let seconds = if seconds.is_empty() { "0" } else { seconds };
    let second = Number::of(seconds).ok_or(Fault::Shape)?;
    let (hours, minutes) = (whole(hours)?, whole(minutes)?);
    let in_hour = parts.len() == 3 || !all.contains('.');
    if (in_hour && minutes > 59) || second.whole > 60 {
        return Err(Fault::Range);
    }
    let mut sum = Sum::default();
    sum.add(Number { whole: hours, fraction: 0.0 }, Unit::Hour);
    sum.add(Number { whole: minutes, fraction: 0.0 }, Unit::Minute);
    sum.add(second, Unit::Second);
    Ok(Some(sign * sum.micros))
}

/// The forms of ISO 8601, behind their `P`.
fn iso(text: &str) -> Result<IntervalMonthDayNano, Fault> {
    let upper = text.to_uppercase();
    let (days, clock_part) = match upper.split_once('T') {
        Some((days, clock)) => (days, Some(clock)),
        None => (upper.as_str(), None),
    };
    let mut sum = Sum::default();
    let designated = |part: &str| part.bytes().any(|c| c.is_ascii_alphabetic());
    if !days.is_empty() {
        match designated(days) {
            true => with_designators(days, false, &mut sum)?,
            false => alternative_days(days, &mut sum)?,
        }
    }
    match clock_part {
        Some("") => return Err(Fault::Shape),
        Some(clock) if designated(clock) => with_designators(clock, true, &mut sum)?,
        Some(clock_text) => {
            let text = match clock_text.contains(':') {
                true => clock_text.to_string(),
                false if clock_text.len() == 6 && is_number(clock_text) => {
                    format!("{}:{}:{}", &clock_text[..2], &clock_text[2..4], &clock_text[4..])
                }
                false => return Err(Fault::Shape),
            };
            sum.micros += clock(&text, false)?.ok_or(Fault::Shape)?;
        }
        None if days.is_empty() => return Err(Fault::Shape),
        None => {}
    }
    sum.done()
}

/// `1Y2M3W4D`, or `4H5M6.7S` behind the T.
fn with_designators(text: &str, is_clock: bool, sum: &mut Sum) -> Result<(), Fault> {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(Fault::Shape)?;
        let number = Number::of(&rest[..end]).ok_or(Fault::Shape)?;
        let unit = match (is_clock, rest.as_bytes()[end]) {
            (false, b'Y') => Unit::Years(1),
            (false, b'M') => Unit::Month,
            (false, b'W') => Unit::Week,
            (false, b'D') => Unit::Day,
            (true, b'H') => Unit::Hour,
            (true, b'M') => Unit::Minute,
            (true, b'S') => Unit::Second,
            _ => return Err(Fault::Shape),
        };
        sum.add(number, unit);
        rest = &rest[end + 1..];
    }
    Ok(())
}

/// `0001-02-03` or `00010203`: years, months and days.
fn alternative_days(text: &str, sum: &mut Sum) -> Result<(), Fault> {
    let parts: Vec<&str> = match text.split('-').collect::<Vec<_>>().as_slice() {
        [all] if all.len() == 8 && all.is_ascii() => vec![&all[..4], &all[4..6], &all[6..]],
        [one] => vec![*one],
        parts if parts.len() <= 3 => parts.to_vec(),
        _ => return Err(Fault::Shape),
    };
    for (part, unit) in parts.iter().zip([Unit::Years(1), Unit::Month, Unit::Day]) {
        sum.add(Number::of(part).ok_or(Fault::Shape)?, unit);
    }
    Ok(())
}

/// An interval with what a literal's words leave of it: units below the last are cut off.
pub(crate) fn cut(value: IntervalMonthDayNano, last: Field) -> IntervalMonthDayNano {
    let IntervalMonthDayNano { months, days, nanoseconds } = value;
    let whole = |of: i64| nanoseconds / (of * 1000) * (of * 1000);
    match last {
        Field::Year => IntervalMonthDayNano { months: months / 12 * 12, days: 0, nanoseconds: 0 },
        Field::Month => IntervalMonthDayNano { months, days: 0, nanoseconds: 0 },
        Field::Day => IntervalMonthDayNano { months, days, nanoseconds: 0 },
        Field::Hour => IntervalMonthDayNano { months, days, nanoseconds: whole(HOUR) },
        Field::Minute => IntervalMonthDayNano { months, days, nanoseconds: whole(MINUTE) },
        Field::Second => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(i32, i32, i64)> {
        read(text, None, false).ok().map(|value| (value.months, value.days, value.nanoseconds / 1000))
    }

    #[test]
    fn intervals_are_read_as_postgresql_reads_them() {
        for (text, expected) in [
            ("1 day", (0, 1, 0)),
            ("1day", (0, 1, 0)),
            ("01:02:03", (0, 0, HOUR + 2 * MINUTE + 3 * MICROS)),
            ("1 2:03", (0, 1, 2 * HOUR + 3 * MINUTE)),
            ("-1 2:03", (0, -1, 2 * HOUR + 3 * MINUTE)),
            ("1-2", (14, 0, 0)),
            ("-1-2", (-14, 0, 0)),
            ("P1DT2H", (0, 1, 2 * HOUR)),
            ("P1Y2M3W4DT5H6M7.5S", (14, 25, 5 * HOUR + 6 * MINUTE + 7 * MICROS + MICROS / 2)),
            ("P0001-02-03T04:05:06", (14, 3, 4 * HOUR + 5 * MINUTE + 6 * MICROS)),
            ("PT-1H", (0, 0, -HOUR)),
            ("1 day ago", (0, -1, 0)),
            ("1 year -2 months 3 days ago", (-10, -3, 0)),
            ("@ 1 minute", (0, 0, MINUTE)),
            ("1.5 days", (0, 1, 12 * HOUR)),
            ("1.5 months", (1, 15, 0)),
            ("1.5 years", (18, 0, 0)),
            ("1.5 weeks", (0, 10, 12 * HOUR)),
            ("5", (0, 0, 5 * MICROS)),
            ("-2.5", (0, 0, -5 * MICROS / 2)),
            ("04:05.6", (0, 0, 4 * MINUTE + 5_600_000)),
            ("100:00", (0, 0, 100 * HOUR)),
        ] {
            assert_eq!(parts(text), Some(expected), "{text}");
        }
        for wrong in ["", "day", "1 foo", "1 day 2 days", "1:2:3:4", "P", "PT", "1 day ago ago", "x1 day", "1-13"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
        assert_eq!(read("3000000000 months", None, false), Err(Fault::Range));
    }
}
