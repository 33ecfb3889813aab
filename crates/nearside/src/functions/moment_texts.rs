//! Dates and times as texts, read as PostgreSQL reads them: `2024-01-31 10:00`, `20240131T103000`, `Jan 31, 2024 3 PM`,
//! `1/31/2024`, `31-Jan-2024`, `44-03-15 BC`. Numbers between slashes are month, day and year.
//!
//! # Limits
//! `now`, `today` and their like are refused, since a text's value may not depend on the clock; so are `infinity` and
//! Julian days. Zones are offsets, names as `Europe/Berlin`, and a few abbreviations.

use arrow::array::timezone::Tz;
use chrono::NaiveDate;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Nanoseconds of a day.
pub(crate) const DAY: i64 = 24 * HOUR;

/// What a text says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The date, if there is one.
    pub day: Option<NaiveDate>,
    /// Nanoseconds since midnight, which may be those of a whole day; `None` where the text has no time of day.
    pub clock: Option<i64>,
    /// The zone: an offset (`+02:00`) or a name.
    pub zone: Option<String>,
}

/// What kind of wrong a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is no date or time.
    Shape,
    /// A number in it is out of its range.
    Range,
    /// Something that PostgreSQL has, and what to write instead.
    Refused(&'static str),
}

#[derive(Debug)]
enum Token {
    /// Digits with `-`, `/` or `.` between, and maybe a month's name.
    Date(String),
    /// Digits and colons.
    Clock(String),
    Number(String),
    Word(String),
    /// `+02`, `-0330`.
    Offset(String),
}

/// Reads a text.
///
/// # Errors
/// What kind of wrong it is.
pub(crate) fn read(text: &str) -> Result<Moment, Fault> {
    if matches!(text.trim().to_lowercase().as_str(), "infinity" | "-infinity" | "+infinity") {
        return Err(Fault::Refused("there are no infinite dates and times; use NULL"));
    }
    let tokens = tokens(text)?;
    let mut found = Moment::default();
    let mut parts = Parts::default();
    for token in tokens {
        match token {
            Token::Date(text) => {
                if parts.has_date() {
                    return Err(Fault::Shape);
                }
                parts.date(&text)?;
            }
            Token::Clock(text) => set(&mut found.clock, clock(&text)?)?,
            Token::Number(text) => match parts.has_date() || parts.time_follows {
                true => set(&mut found.clock, digits_of_clock(&text)?)?,
                false => parts.number(&text)?,
            },
            Token::Word(word) => parts.word(&word, &mut found)?,
            Token::Offset(text) => {
                if found.clock.is_none() && !parts.has_date() {
                    return Err(Fault::Shape);
                }
                set(&mut found.zone, offset(&text)?)?;
            }
        }
    }
    parts.finish(&mut found)?;
    if found.day.is_none() && found.clock.is_none() {
        return Err(Fault::Shape);
    }
    Ok(found)
}

fn set<T>(place: &mut Option<T>, value: T) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::Shape),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let bytes = rest.as_bytes();
        let end_of = |from: usize, more: &dyn Fn(u8) -> bool| {
            bytes[from..].iter().position(|c| !more(*c)).map_or(bytes.len(), |length| from + length)
        };
        let digits = |c: u8| c.is_ascii_digit();
        let end = match first {
            c if c.is_whitespace() || c == ',' => {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            '0'..='9' => {
                let end = end_of(0, &digits);
                match bytes.get(end) {
                    Some(b':') => {
                        let end = end_of(end, &|c| c.is_ascii_digit() || matches!(c, b':' | b'.'));
                        tokens.push(Token::Clock(rest[..end].to_string()));
                        end
                    }
                    Some(separator @ (b'-' | b'/' | b'.')) if dated(&bytes[end..], *separator) => {
                        let end = end_of_date(bytes, end, *separator);
                        tokens.push(Token::Date(rest[..end].to_string()));
                        end
                    }
                    // `103015.5`
                    Some(b'.') => {
                        let end = end_of(end + 1, &digits);
                        tokens.push(Token::Number(rest[..end].to_string()));
                        end
                    }
                    _ => {
                        tokens.push(Token::Number(rest[..end].to_string()));
                        end
                    }
                }
            }
            c if c.is_ascii_alphabetic() => {
                let mut end = end_of(0, &|c| c.is_ascii_alphabetic());
                // `T10:00`: the letter stands before a time. `Etc/GMT+5` and `America/New_York` are names.
                if matches!(bytes.get(end), Some(b'/' | b'_')) {
                    end = end_of(end, &|c| c.is_ascii_alphanumeric() || matches!(c, b'/' | b'_' | b'-' | b'+'));
                }
                tokens.push(Token::Word(rest[..end].to_string()));
                end
            }
            '+' | '-' => {
                let end = end_of(1, &|c| c.is_ascii_digit() || c == b':');
                tokens.push(Token::Offset(rest[..end].to_string()));
                end
            }
            _ => return Err(Fault::Shape),
        };
        rest = &rest[end..];
    }
    Ok(tokens)
}

/// Whether what follows digits makes a date of them: a separator, more, and the separator again.
fn dated(rest: &[u8], separator: u8) -> bool {
    let middle = rest[1..].iter().position(|c| !c.is_ascii_alphanumeric());
    middle.is_some_and(|length| length > 0 && rest[1 + length] == separator)
}

fn end_of_date(bytes: &[u8], first: usize, separator: u8) -> usize {
    let middle = first + 1 + bytes[first + 1..].iter().position(|c| *c == separator).unwrap_or(0);
    let digits = bytes[middle + 1..].iter().position(|c| !c.is_ascii_digit());
    digits.map_or(bytes.len(), |length| middle + 1 + length)
}

#[derive(Debug, Default)]
struct Parts {
    year: Option<i32>,
    /// As it was written, so that two digits are told from four.
    year_digits: usize,
    month: Option<u32>,
    day: Option<u32>,
    is_before_christ: bool,
    /// Whether hours are of the afternoon; `None` where nobody says.
    afternoon: Option<bool>,
    /// An ISO `T` was read.
    time_follows: bool,
}

impl Parts {
    fn has_date(&self) -> bool {
        self.year.is_some() && self.month.is_some() && self.day.is_some()
    }

    fn date(&mut self, text: &str) -> Result<(), Fault> {
        let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
        let [a, b, c] = parts.as_slice() else { return Err(Fault::Shape) };
        let number = |text: &str| text.parse::<u32>().map_err(|_| Fault::Shape);
        if let Some(month) = month_of(b) {
            self.month = Some(month);
            match a.len() > 2 {
                true => {
                    self.set_year(a)?;
                    self.day = Some(number(c)?);
                }
                false => {
                    self.day = Some(number(a)?);
                    self.set_year(c)?;
                }
            }
            return Ok(());
        }
        let (year, month, day) = if a.len() > 2 { (a, b, c) } else { (c, a, b) };
        self.set_year(year)?;
        (self.month, self.day) = (Some(number(month)?), Some(number(day)?));
        Ok(())
    }

    fn set_year(&mut self, text: &str) -> Result<(), Fault> {
        if text.is_empty() || !text.bytes().all(|c| c.is_ascii_digit()) {
            return Err(Fault::Shape);
        }
        self.year_digits = text.len();
        set(&mut self.year, text.parse().map_err(|_| Fault::Range)?)
    }

    /// A number alone: `20240131`, `240131`, or the day or year beside a month's name.
    fn number(&mut self, text: &str) -> Result<(), Fault> {
        let piece = |from: usize, to: usize| text[from..to].parse().map_err(|_| Fault::Shape);
        if text.contains('.') {
            return Err(Fault::Shape);
        }
        match (text.len(), self.month) {
            (8, None) => {
                self.set_year(&text[..4])?;
                (self.month, self.day) = (Some(piece(4, 6)?), Some(piece(6, 8)?));
                Ok(())
            }
            (6, None) => {
                self.set_year(&text[..2])?;
                (self.month, self.day) = (Some(piece(2, 4)?), Some(piece(4, 6)?));
                Ok(())
            }
            (1 | 2, _) if self.day.is_none() => {
                self.day = Some(piece(0, text.len())?);
                Ok(())
            }
            (_, _) if self.year.is_none() => self.set_year(text),
            _ => Err(Fault::Shape),
        }
    }

    fn word(&mut self, word: &str, found: &mut Moment) -> Result<(), Fault> {
        let lower = word.to_lowercase();
        if let Some(month) = month_of(&lower) {
            return set(&mut self.month, month);
        }
        const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
        if lower.len() >= 3 && DAYS.iter().any(|day| day.starts_with(&lower)) {
            return Ok(());
        }
        match lower.as_str() {
            "t" if self.has_date() && found.clock.is_none() => {
                self.time_follows = true;
                Ok(())
            }
            "am" | "pm" => set(&mut self.afternoon, lower == "pm"),
            "ad" => Ok(()),
            "bc" => {
                self.is_before_christ = true;
                Ok(())
            }
            "z" | "utc" | "gmt" | "zulu" | "ut" => set(&mut found.zone, "+00:00".to_string()),
            "epoch" => {
                (self.year, self.month, self.day) = (Some(1970), Some(1), Some(1));
                self.year_digits = 4;
                set(&mut found.clock, 0)?;
                set(&mut found.zone, "+00:00".to_string())
            }
            "now" | "today" | "tomorrow" | "yesterday" => {
                Err(Fault::Refused("a text cannot mean the day of the statement; write now() or current_date"))
            }
            _ => match abbreviated(&lower) {
                Some(zone) => set(&mut found.zone, zone.to_string()),
                None if word.parse::<Tz>().is_ok() => set(&mut found.zone, word.to_string()),
                None => Err(Fault::Shape),
            },
        }
    }

    fn finish(self, found: &mut Moment) -> Result<(), Fault> {
        if let Some(afternoon) = self.afternoon {
            let clock = found.clock.as_mut().ok_or(Fault::Shape)?;
            let hour = *clock / HOUR;
            match (afternoon, hour) {
                (_, 13..) => return Err(Fault::Range),
                (false, 12) => *clock -= 12 * HOUR,
                (true, 0..=11) => *clock += 12 * HOUR,
                _ => {}
            }
        }
        let (year, month, day) = match (self.year, self.month, self.day) {
            (Some(year), Some(month), Some(day)) => (year, month, day),
            (None, None, None) => return Ok(()),
            _ => return Err(Fault::Shape),
        };
        let year = match (self.is_before_christ, self.year_digits) {
            (true, _) => 1 - year,
            (false, 1 | 2) => year + if year < 70 { 2000 } else { 1900 },
            (false, _) if year == 0 => return Err(Fault::Range),
            (false, _) => year,
        };
        found.day = Some(NaiveDate::from_ymd_opt(year, month, day).ok_or(Fault::Range)?);
        Ok(())
    }
}

fn month_of(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let lower = word.to_lowercase();
    let is = |month: &str| lower == month || lower == month[..3] || (lower == "sept" && month.starts_with("sept"));
    MONTHS.iter().position(|month| is(month)).map(|at| at as u32 + 1)
}

/// Zones by the short names that PostgreSQL knows.
fn abbreviated(word: &str) -> Option<&'static str> {
    Some(match word {
        "est" => "-05:00",
        "edt" => "-04:00",
        "cst" => "-06:00",
        "cdt" => "-05:00",
        "mst" => "-07:00",
        "mdt" => "-06:00",
        "pst" => "-08:00",
        "pdt" => "-07:00",
        "wet" => "+00:00",
        "west" | "bst" | "cet" | "met" => "+01:00",
        "cest" | "mest" | "eet" => "+02:00",
        "eest" | "msk" => "+03:00",
        "jst" | "kst" => "+09:00",
        _ => return None,
    })
}

fn number(text: &str) -> Result<i64, Fault> {
    match !text.is_empty() && text.len() < 10 && text.bytes().all(|c| c.is_ascii_digit()) {
        true => text.parse().map_err(|_| Fault::Shape),
        false => Err(Fault::Shape),
    }
}

/// `5.25` seconds in nanoseconds.
fn seconds(text: &str) -> Result<i64, Fault> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|c| c.is_ascii_digit()) {
        return Err(Fault::Shape);
    }
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    let up = i64::from(fraction.as_bytes().get(9).is_some_and(|c| *c >= b'5'));
    Ok(number(whole)? * SECOND + number(&digits)? + up)
}

fn of_parts(hour: i64, minute: i64, second: i64) -> Result<i64, Fault> {
    let all = hour * HOUR + minute * MINUTE + second;
    // A minute may have a 60th second, which is the next minute's first.
    match hour <= 24 && minute < 60 && second <= 60 * SECOND && all <= DAY {
        true => Ok(all),
        false => Err(Fault::Range),
    }
}

fn clock(text: &str) -> Result<i64, Fault> {
    match text.split(':').collect::<Vec<_>>().as_slice() {
        [minutes, rest] if rest.contains('.') => of_parts(0, number(minutes)?, seconds(rest)?),
        [hours, minutes] => of_parts(number(hours)?, number(minutes)?, 0),
        [hours, minutes, rest] => of_parts(number(hours)?, number(minutes)?, seconds(rest)?),
        _ => Err(Fault::Shape),
    }
}

/// `1030` and `103015.5`.
fn digits_of_clock(text: &str) -> Result<i64, Fault> {
    let (whole, _) = text.split_once('.').unwrap_or((text, ""));
    match whole.len() {
        4 if whole.len() == text.len() => of_parts(number(&text[..2])?, number(&text[2..])?, 0),
        6 => of_parts(number(&text[..2])?, number(&text[2..4])?, seconds(&text[4..])?),
        _ => Err(Fault::Shape),
    }
}

/// `+02`, `-0330`, `+05:30`, as `+05:30`.
fn offset(text: &str) -> Result<String, Fault> {
    let (sign, rest) = text.split_at(1);
    let (hours, minutes) = match rest.split(':').collect::<Vec<_>>().as_slice() {
        [all] if all.len() == 4 => (&rest[..2], &rest[2..]),
        [hours] => (*hours, "0"),
        [hours, minutes] => (*hours, *minutes),
        [hours, minutes, "00"] => (*hours, *minutes),
        _ => return Err(Fault::Shape),
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    match hours <= 15 && minutes < 60 {
        true => Ok(format!("{sign}{hours:02}:{minutes:02}")),
        false => Err(Fault::Range),
    }
}

/// A time of day without a date.
///
/// # Errors
/// What kind of wrong the text is.
pub(crate) fn read_clock(text: &str) -> Result<i64, Fault> {
    let bare = text.trim();
    let is_digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    if !bare.is_empty() && is_digits(bare) {
        return digits_of_clock(bare);
    }
    match read(bare.strip_prefix(['T', 't']).unwrap_or(bare))? {
        Moment { clock: Some(clock), .. } => Ok(clock),
        _ => Err(Fault::Shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> String {
        match read(text) {
            Ok(Moment { day, clock, zone }) => {
                let day = day.map_or("-".into(), |day| day.to_string());
                let clock = clock.map_or("-".into(), |clock| (clock / SECOND).to_string());
                format!("{day} {clock} {}", zone.unwrap_or("-".into()))
            }
            Err(fault) => format!("{fault:?}"),
        }
    }

    #[test]
    fn dates_are_read_as_postgresql_reads_them() {
        for (written, expected) in [
            ("2024-01-31", "2024-01-31 - -"),
            ("20240131", "2024-01-31 - -"),
            ("240131", "2024-01-31 - -"),
            ("1/31/2024", "2024-01-31 - -"),
            ("1/31/24", "2024-01-31 - -"),
            ("31-Jan-2024", "2024-01-31 - -"),
            ("2024-Jan-31", "2024-01-31 - -"),
            ("January 31, 2024", "2024-01-31 - -"),
            ("Wed 31 Jan 2024", "2024-01-31 - -"),
            ("0044-03-15 BC", "-0043-03-15 - -"),
            ("2024-01-31 10:00", "2024-01-31 36000 -"),
            ("2024-01-31T10:00:30.5Z", "2024-01-31 36030 +00:00"),
            ("20240131T103000", "2024-01-31 37800 -"),
            ("2024-01-31 10:00 PM", "2024-01-31 79200 -"),
            ("2024-01-31 12:00 AM", "2024-01-31 0 -"),
            ("2024-01-31 23:59:60", "2024-01-31 86400 -"),
            ("2024-01-31 10:00+02", "2024-01-31 36000 +02:00"),
            ("2024-01-31 10:00:00 -0330", "2024-01-31 36000 -03:30"),
            ("2024-01-31 10:00 Europe/Berlin", "2024-01-31 36000 Europe/Berlin"),
            ("2024-01-31 10:00 EST", "2024-01-31 36000 -05:00"),
            ("epoch", "1970-01-01 0 +00:00"),
            ("10:00", "- 36000 -"),
            ("2024-02-30", "Range"),
            ("2024-13-01", "Range"),
            ("2024-01-31 25:00", "Range"),
            ("2024-01", "Shape"),
            ("nowhere", "Shape"),
            ("", "Shape"),
            ("2024-01-31 2024-01-31", "Shape"),
            ("0000-01-01", "Range"),
        ] {
            assert_eq!(text(written), expected, "{written}");
        }
        assert!(matches!(read("infinity"), Err(Fault::Refused(_))));
        assert!(matches!(read("-infinity"), Err(Fault::Refused(_))));
        assert!(matches!(read("today"), Err(Fault::Refused(_))));
    }
}
