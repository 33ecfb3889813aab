//! Dates and times read by a template.

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Weekday};

use super::parse::{Key, Part};
use super::write::{DAYS, MONTHS, ROMAN};

#[derive(Default)]
struct Found {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    iso_year: Option<i32>,
    iso_week: Option<u32>,
    iso_day: Option<u32>,
    julian: Option<i32>,
    century: Option<i32>,
    is_before_christ: bool,
    hour: u32,
    afternoon: Option<bool>,
    minute: u32,
    second: u32,
    micros: u32,
    seconds_of_day: Option<u32>,
    zone_seconds: Option<i32>,
}

/// The time that a text means, and how many seconds its zone is east of UTC, if it says so.
///
/// # Errors
/// A sentence on what does not fit.
pub(super) fn read(text: &str, parts: &[Part]) -> Result<(NaiveDateTime, Option<i32>), String> {
    let mut found = Found::default();
    let mut rest = text;
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Text(literal) => {
                for c in literal.chars() {
                    match c.is_alphanumeric() {
                        // A letter stands for any character.
                        true => rest = rest.strip_prefix(|_: char| true).unwrap_or(""),
                        false => {
                            let skipped = rest.trim_start();
                            rest = match skipped.chars().next() {
                                Some(next) if !next.is_alphanumeric() && !matches!(next, '+' | '-') => {
                                    &skipped[next.len_utf8()..]
                                }
                                Some('-') if c == '-' => &skipped[1..],
                                Some('-') if !matches!(c, ' ') => &skipped[1..],
                                _ => skipped,
                            };
                        }
                    }
                }
            }
            Part::Field { key, ordinal, bare, .. } => {
                rest = rest.trim_start();
                let next_is_digits = matches!(parts.get(at + 1), Some(Part::Field { key, .. }) if is_number(*key));
                field(*key, *bare || !next_is_digits, &mut rest, &mut found)?;
                if ordinal.is_some() {
                    rest = rest.get(2..).unwrap_or("");
                }
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    let date = date(&found)?;
    let clock = clock(&found)?;
    Ok((date.and_time(clock), found.zone_seconds))
}

fn is_number(key: Key) -> bool {
    !matches!(
        key,
        Key::MonthName
            | Key::MonthShort
            | Key::MonthRoman
            | Key::DayName
            | Key::DayShort
            | Key::HalfDay(_)
            | Key::Era(_)
            | Key::ZoneName
            | Key::ZoneHours
            | Key::ZoneOffset
    )
}

/// Takes a number of at most so many digits; of as many as there are where nothing that is one follows.
fn number(rest: &mut &str, digits: usize, greedy: bool, what: &str) -> Result<(u32, usize), String> {
    let all = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length = if greedy { all } else { all.min(digits) };
    let (written, behind) = rest.split_at(length);
    if written.is_empty() {
        let shown: String = rest.chars().take(digits).collect();
        return Err(format!("invalid value \"{shown}\" for \"{what}\""));
    }
    *rest = behind;
    written.parse().map(|number| (number, length)).map_err(|_| format!("value for \"{what}\" is out of range"))
}

fn name(rest: &mut &str, names: &[&str], short: bool, what: &str) -> Result<u32, String> {
    let lower = rest.to_lowercase();
    for (at, name) in names.iter().enumerate() {
        let name = name.to_lowercase();
        let wanted = if short { &name[..3] } else { &name };
        if lower.starts_with(wanted) {
            *rest = &rest[wanted.len()..];
            return Ok(at as u32);
        }
    }
    let shown: String = rest.chars().take(9).collect();
    Err(format!("invalid value \"{shown}\" for \"{what}\""))
}

fn field(key: Key, greedy: bool, rest: &mut &str, found: &mut Found) -> Result<(), String> {
    match key {
        Key::Hour12 => {
            let (hour, _) = number(rest, 2, greedy, "HH12")?;
            if !(1..=12).contains(&hour) {
                return Err(format!("hour \"{hour}\" is invalid for the 12-hour clock"));
            }
            found.hour = hour;
            found.afternoon.get_or_insert(false);
        }
        Key::Hour24 => found.hour = number(rest, 2, greedy, "HH24")?.0,
        Key::Minute => found.minute = number(rest, 2, greedy, "MI")?.0,
        Key::Second => found.second = number(rest, 2, greedy, "SS")?.0,
        Key::Millis | Key::Micros | Key::Fraction(_) => {
            let digits = match key {
                Key::Millis => 3,
                Key::Fraction(digits) => u32::from(digits),
                _ => 6,
            };
            let (value, length) = number(rest, digits as usize, false, "US")?;
            found.micros = value * 10u32.pow(6 - length as u32);
        }
        Key::SecondOfDay => found.seconds_of_day = Some(number(rest, 5, greedy, "SSSS")?.0),
        Key::HalfDay(_) => {
            let lower = rest.to_lowercase();
            let known = ["a.m.", "p.m.", "am", "pm"].into_iter().find(|word| lower.starts_with(word));
            let word = known.ok_or_else(|| format!("invalid value \"{rest}\" for \"AM\""))?;
            *rest = &rest[word.len()..];
            found.afternoon = Some(word.starts_with('p'));
        }
        Key::Year(digits) => {
            let (year, length) = number(rest, digits.into(), greedy, "YYYY")?;
            found.year = Some(completed(year as i32, length, digits));
        }
        Key::YearWithComma => {
            let thousands = number(rest, 4, false, "Y,YYY")?.0;
            *rest = rest.strip_prefix(',').ok_or("invalid input string for \"Y,YYY\"")?;
            found.year = Some((thousands * 1000 + number(rest, 3, false, "Y,YYY")?.0) as i32);
        }
        Key::IsoYear(digits) => {
            let (year, length) = number(rest, digits.into(), greedy, "IYYY")?;
            found.iso_year = Some(completed(year as i32, length, digits));
        }
        Key::Era(_) => {
            let lower = rest.to_lowercase();
            let known = ["b.c.", "a.d.", "bc", "ad"].into_iter().find(|word| lower.starts_with(word));
            let word = known.ok_or_else(|| format!("invalid value \"{rest}\" for \"BC\""))?;
            *rest = &rest[word.len()..];
            found.is_before_christ = word.starts_with('b');
        }
        Key::MonthName => found.month = Some(name(rest, &MONTHS, false, "Month")? + 1),
        Key::MonthShort => found.month = Some(name(rest, &MONTHS, true, "Mon")? + 1),
        Key::Month => found.month = Some(number(rest, 2, greedy, "MM")?.0),
        Key::MonthRoman => {
            let upper = rest.to_uppercase();
            let letters = upper.find(|c| !matches!(c, 'I' | 'V' | 'X')).unwrap_or(upper.len());
            let month = ROMAN.iter().position(|roman| **roman == upper[..letters]);
            found.month = Some(month.ok_or("invalid value for \"RM\"")? as u32 + 1);
            *rest = &rest[letters..];
        }
        Key::DayName => {
            name(rest, &DAYS, false, "Day")?;
        }
        Key::DayShort => {
            name(rest, &DAYS, true, "Dy")?;
        }
        Key::DayOfYear => found.day_of_year = Some(number(rest, 3, greedy, "DDD")?.0),
        Key::DayOfMonth => found.day = Some(number(rest, 2, greedy, "DD")?.0),
        Key::IsoDayOfWeek => found.iso_day = Some(number(rest, 1, greedy, "ID")?.0),
        Key::IsoWeek => found.iso_week = Some(number(rest, 2, greedy, "IW")?.0),
        Key::Julian => found.julian = Some(number(rest, 7, true, "J")?.0 as i32),
        Key::Century => found.century = Some(number(rest, 2, greedy, "CC")?.0 as i32),
        Key::ZoneHours => {
            let sign = if rest.starts_with('-') { -1 } else { 1 };
            *rest = rest.trim_start_matches(['+', '-']);
            found.zone_seconds = Some(sign * number(rest, 2, false, "TZH")?.0 as i32 * 3600);
        }
        Key::ZoneMinutes => {
            let minutes = number(rest, 2, false, "TZM")?.0 as i32;
            let seconds = found.zone_seconds.unwrap_or(0);
            found.zone_seconds = Some(seconds + if seconds < 0 { -60 } else { 60 } * minutes);
        }
        // Weeks and quarters say no date, and PostgreSQL passes over them.
        Key::Quarter | Key::DayOfWeek => {
            number(rest, 1, greedy, "Q")?;
        }
        Key::WeekOfMonth | Key::WeekOfYear | Key::IsoDayOfYear | Key::ZoneName | Key::ZoneOffset => {
            return Err("W, WW, IDDD, TZ and OF are not supported where a text is read".into());
        }
    }
    Ok(())
}

/// Two digits are of the years 1970 to 2069.
fn completed(year: i32, length: usize, digits: u8) -> i32 {
    match (digits, length) {
        (4, _) => year,
        (_, 4..) => year,
        (3, 3) if year < 100 => year + 2000,
        (3, 3) if year < 520 => year + 2000,
        (3, 3) => year + 1000,
        _ if year < 70 => year + 2000,
        _ if year < 100 => year + 1900,
        _ => year,
    }
}

fn date(found: &Found) -> Result<NaiveDate, String> {
    let out_of_range = || "date/time field value out of range".to_string();
    if let Some(julian) = found.julian {
        return NaiveDate::from_num_days_from_ce_opt(julian - 1_721_425).ok_or_else(out_of_range);
    }
    if let (Some(year), Some(week)) = (found.iso_year, found.iso_week) {
        let days = [Weekday::Mon, Weekday::Tue, Weekday::Wed, Weekday::Thu, Weekday::Fri, Weekday::Sat, Weekday::Sun];
        let day = found.iso_day.unwrap_or(1).checked_sub(1).and_then(|day| days.get(day as usize));
        let day = day.ok_or_else(out_of_range)?;
        return NaiveDate::from_isoywd_opt(year, week, *day).ok_or_else(out_of_range);
    }
    let year = match (found.year, found.century) {
        (Some(year), Some(century)) if year < 100 => (century - 1) * 100 + year,
        (Some(year), _) => year,
        (None, Some(century)) => (century - 1) * 100 + 1,
        // Nothing was said of the year: it is 1 BC.
        (None, None) => 0,
    };
    let year = match found.is_before_christ {
        true => 1 - year,
        false => year,
    };
    if let Some(day) = found.day_of_year {
        return NaiveDate::from_yo_opt(year, day).ok_or_else(out_of_range);
    }
    NaiveDate::from_ymd_opt(year, found.month.unwrap_or(1), found.day.unwrap_or(1))
        .filter(|date| date.year() == year)
        .ok_or_else(out_of_range)
}

fn clock(found: &Found) -> Result<NaiveTime, String> {
    let out_of_range = || "date/time field value out of range".to_string();
    if let Some(seconds) = found.seconds_of_day {
        return NaiveTime::from_num_seconds_from_midnight_opt(seconds, found.micros * 1000).ok_or_else(out_of_range);
    }
    let hour = match found.afternoon {
        Some(true) if found.hour < 12 => found.hour + 12,
        Some(false) if found.hour == 12 => 0,
        _ => found.hour,
    };
    NaiveTime::from_hms_micro_opt(hour, found.minute, found.second, found.micros).ok_or_else(out_of_range)
}
