//! Times and intervals written by a template.

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};

use super::parse::{Case, Key, Part, titled};

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// What is written: a time, or an interval's parts.
pub(super) struct Fields {
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micros: i64,
    /// The date, which an interval has not.
    pub date: Option<NaiveDate>,
    /// Seconds that the zone is east of UTC, and its name.
    pub zone: Option<(i32, String)>,
}

impl Fields {
    pub(super) fn of_moment(moment: NaiveDateTime, zone: Option<(i32, String)>) -> Fields {
        Fields {
            year: moment.year().into(),
            month: moment.month().into(),
            day: moment.day().into(),
            hour: moment.hour().into(),
            minute: moment.minute().into(),
            second: moment.second().into(),
            micros: i64::from(moment.nanosecond()) / 1000,
            date: Some(moment.date()),
            zone,
        }
    }

    pub(super) fn of_span(months: i32, days: i32, nanoseconds: i64) -> Fields {
        let micros = nanoseconds / 1000;
        let seconds = micros / 1_000_000;
        Fields {
            year: (months / 12).into(),
            month: (months % 12).into(),
            day: days.into(),
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: micros % 1_000_000,
            date: None,
            zone: None,
        }
    }
}

/// Writes the fields that a template asks for; `None` where it asks for something that an interval has not.
pub(super) fn write(fields: &Fields, parts: &[Part], to: &mut String) -> Option<()> {
    for part in parts {
        match part {
            Part::Text(text) => to.push_str(text),
            Part::Field { key, case, bare, ordinal } => {
                let start = to.len();
                field(fields, *key, *case, *bare, to)?;
                if let Some(ordinal) = ordinal {
                    let suffix = ordinal_of(&to[start..]);
                    to.push_str(&if *ordinal == Case::Upper { suffix.to_uppercase() } else { suffix.to_string() });
                }
            }
        }
    }
    Some(())
}

/// `st`, `nd`, `rd` or `th`.
pub(super) fn ordinal_of(number: &str) -> &'static str {
    let digits = number.trim();
    let tens = digits.len() >= 2 && digits.as_bytes()[digits.len() - 2] == b'1';
    match digits.bytes().last() {
        Some(b'1') if !tens => "st",
        Some(b'2') if !tens => "nd",
        Some(b'3') if !tens => "rd",
        _ => "th",
    }
}

fn cased(word: &str, case: Case) -> String {
    match case {
        Case::Upper => word.to_uppercase(),
        Case::Lower => word.to_lowercase(),
        Case::Title => titled(word),
    }
}

fn field(fields: &Fields, key: Key, case: Case, bare: bool, to: &mut String) -> Option<()> {
    let mut number = |value: i64, digits: usize| {
        let sign = if value < 0 { "-" } else { "" };
        let width = if bare { 0 } else { digits };
        to.push_str(&format!("{sign}{:0width$}", value.unsigned_abs()));
    };
    // A sign takes the place of a zero.
    let signed = |value: i64, digits: usize| {
        let width = if bare { 0 } else { digits };
        format!("{value:0width$}")
    };
    let is_span = fields.date.is_none();
    // There is no year 0: the one before 1 is 1 BC.
    let year = if is_span || fields.year > 0 { fields.year } else { 1 - fields.year };
    let short = |year: i64, digits: u8| if digits == 4 { year } else { year % 10i64.pow(digits.into()) };
    match key {
        Key::Hour12 => number(if fields.hour % 12 == 0 { 12 } else { fields.hour % 12 }, 2),
        Key::Hour24 => number(fields.hour, 2),
        Key::Minute => number(fields.minute, 2),
        Key::Second => number(fields.second, 2),
        Key::Millis => to.push_str(&format!("{:03}", fields.micros / 1000)),
        Key::Micros => to.push_str(&format!("{:06}", fields.micros)),
        Key::Fraction(digits) => {
            let unit = 10i64.pow(6 - u32::from(digits));
            to.push_str(&format!("{:0width$}", fields.micros / unit, width = usize::from(digits)));
        }
        Key::SecondOfDay => number(fields.hour * 3600 + fields.minute * 60 + fields.second, 0),
        Key::HalfDay(points) => {
            let word = match (fields.hour % 24 >= 12, points) {
                (true, true) => "P.M.",
                (true, false) => "PM",
                (false, true) => "A.M.",
                (false, false) => "AM",
            };
            to.push_str(&cased(word, case));
        }
        Key::Year(digits) => number(short(year, digits), digits.into()),
        Key::YearWithComma => to.push_str(&format!("{},{:03}", year / 1000, year % 1000)),
        Key::Month => to.push_str(&signed(fields.month, 2)),
        Key::DayOfMonth => to.push_str(&signed(fields.day, 2)),
        Key::MonthRoman => {
            let roman = *ROMAN.get(usize::try_from(fields.month).ok()?.checked_sub(1)?)?;
            let width = if bare { 0 } else { 4 };
            to.push_str(&format!("{:<width$}", cased(roman, case)));
        }
        Key::Century if is_span => number(year / 100, 2),
        Key::Quarter if is_span => number((fields.month - 1) / 3 + 1, 1),
        Key::DayOfYear if is_span => to.push_str(&signed(fields.year * 360 + fields.month * 30 + fields.day, 3)),
        _ => return of_date(fields, fields.date?, year, key, case, bare, to),
    }
    Some(())
}

/// Fields that an interval has not.
fn of_date(
    fields: &Fields,
    date: NaiveDate,
    year: i64,
    key: Key,
    case: Case,
    bare: bool,
    to: &mut String,
) -> Option<()> {
    let mut number = |value: i64, digits: usize| {
        let width = if bare { 0 } else { digits };
        to.push_str(&format!("{value:0width$}"));
    };
    let iso = date.iso_week();
    match key {
        Key::IsoYear(digits) => {
            let year = if iso.year() > 0 { i64::from(iso.year()) } else { 1 - i64::from(iso.year()) };
            number(if digits == 4 { year } else { year % 10i64.pow(digits.into()) }, digits.into());
        }
        Key::Era(points) => {
            let word = match (fields.year > 0, points) {
                (true, true) => "A.D.",
                (true, false) => "AD",
                (false, true) => "B.C.",
                (false, false) => "BC",
            };
            to.push_str(&cased(word, case));
        }
        Key::MonthName => word(MONTHS[date.month0() as usize], 9, case, bare, to),
        Key::MonthShort => word(&MONTHS[date.month0() as usize][..3], 0, case, bare, to),
        Key::DayName => word(DAYS[date.weekday().num_days_from_sunday() as usize], 9, case, bare, to),
        Key::DayShort => word(&DAYS[date.weekday().num_days_from_sunday() as usize][..3], 0, case, bare, to),
        Key::DayOfYear => number(date.ordinal().into(), 3),
        Key::IsoDayOfYear => {
            number(i64::from(iso.week0()) * 7 + i64::from(date.weekday().number_from_monday()), 3);
        }
        Key::DayOfWeek => number(date.weekday().number_from_sunday().into(), 0),
        Key::IsoDayOfWeek => number(date.weekday().number_from_monday().into(), 0),
        Key::WeekOfMonth => number((i64::from(date.day()) - 1) / 7 + 1, 0),
        Key::WeekOfYear => number((i64::from(date.ordinal()) - 1) / 7 + 1, 2),
        Key::IsoWeek => number(iso.week().into(), 2),
        Key::Century => {
            let century = (year + 99) / 100;
            number(if fields.year > 0 { century } else { -century }, 2);
        }
        // The day 0 of Julian days is 4713 BC; 1 AD begins with 1721426.
        Key::Julian => number(i64::from(date.num_days_from_ce()) + 1_721_425, 0),
        Key::Quarter => number((i64::from(date.month()) - 1) / 3 + 1, 0),
        Key::ZoneName => {
            let name = fields.zone.as_ref().map_or("", |(_, name)| name.as_str());
            to.push_str(&if case == Case::Lower { name.to_lowercase() } else { name.to_uppercase() });
        }
        Key::ZoneHours => {
            let seconds = fields.zone.as_ref().map_or(0, |(seconds, _)| *seconds);
            let sign = if seconds < 0 { '-' } else { '+' };
            to.push_str(&format!("{sign}{:02}", seconds.abs() / 3600));
        }
        Key::ZoneMinutes => {
            let seconds = fields.zone.as_ref().map_or(0, |(seconds, _)| *seconds);
            to.push_str(&format!("{:02}", seconds.abs() / 60 % 60));
        }
        Key::ZoneOffset => {
            let seconds = fields.zone.as_ref().map_or(0, |(seconds, _)| *seconds);
            let sign = if seconds < 0 { '-' } else { '+' };
            to.push_str(&format!("{sign}{:02}", seconds.abs() / 3600));
            if seconds / 60 % 60 != 0 {
                to.push_str(&format!(":{:02}", seconds.abs() / 60 % 60));
            }
        }
        _ => return None,
    }
    Some(())
}

fn word(word: &str, width: usize, case: Case, bare: bool, to: &mut String) {
    let width = if bare { 0 } else { width };
    to.push_str(&format!("{:<width$}", cased(word, case)));
}
