//! Templates of dates and times, taken apart: `FMDay, DD "of" Month`.

/// What a template asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Hour12,
    Hour24,
    Minute,
    Second,
    Millis,
    Micros,
    /// So many digits of the fraction of a second.
    Fraction(u8),
    SecondOfDay,
    /// With points or without.
    HalfDay(bool),
    /// So many digits of the year.
    Year(u8),
    YearWithComma,
    IsoYear(u8),
    Era(bool),
    MonthName,
    MonthShort,
    Month,
    MonthRoman,
    DayName,
    DayShort,
    DayOfYear,
    IsoDayOfYear,
    DayOfMonth,
    DayOfWeek,
    IsoDayOfWeek,
    WeekOfMonth,
    WeekOfYear,
    IsoWeek,
    Century,
    Julian,
    Quarter,
    ZoneName,
    ZoneHours,
    ZoneMinutes,
    ZoneOffset,
}

/// How the letters of a word stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
    /// The first one is large.
    Title,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Field {
        key: Key,
        case: Case,
        /// FM: without blanks and zeros that fill it.
        bare: bool,
        /// `TH` or `th` stands behind it.
        ordinal: Option<Case>,
    },
}

/// Keys as they are written in large letters, longer ones before those that they begin with.
const KEYS: [(&str, Key); 47] = [
    ("SSSSS", Key::SecondOfDay),
    ("SSSS", Key::SecondOfDay),
    ("SS", Key::Second),
    ("HH24", Key::Hour24),
    ("HH12", Key::Hour12),
    ("HH", Key::Hour12),
    ("MI", Key::Minute),
    ("MS", Key::Millis),
    ("US", Key::Micros),
    ("FF1", Key::Fraction(1)),
    ("FF2", Key::Fraction(2)),
    ("FF3", Key::Fraction(3)),
    ("FF4", Key::Fraction(4)),
    ("FF5", Key::Fraction(5)),
    ("FF6", Key::Fraction(6)),
    ("A.M.", Key::HalfDay(true)),
    ("P.M.", Key::HalfDay(true)),
    ("AM", Key::HalfDay(false)),
    ("PM", Key::HalfDay(false)),
    ("Y,YYY", Key::YearWithComma),
    ("YYYY", Key::Year(4)),
    ("YYY", Key::Year(3)),
    ("YY", Key::Year(2)),
    ("Y", Key::Year(1)),
    ("IYYY", Key::IsoYear(4)),
    ("IYY", Key::IsoYear(3)),
    ("IY", Key::IsoYear(2)),
    ("B.C.", Key::Era(true)),
    ("A.D.", Key::Era(true)),
    ("BC", Key::Era(false)),
    ("AD", Key::Era(false)),
    ("MONTH", Key::MonthName),
    ("MON", Key::MonthShort),
    ("MM", Key::Month),
    ("RM", Key::MonthRoman),
    ("DAY", Key::DayName),
    ("DY", Key::DayShort),
    ("DDD", Key::DayOfYear),
    ("DD", Key::DayOfMonth),
    ("IDDD", Key::IsoDayOfYear),
    ("ID", Key::IsoDayOfWeek),
    ("IW", Key::IsoWeek),
    ("WW", Key::WeekOfYear),
    ("TZH", Key::ZoneHours),
    ("TZM", Key::ZoneMinutes),
    ("TZ", Key::ZoneName),
    ("OF", Key::ZoneOffset),
];

/// Keys of one or two letters that others begin with.
const SHORT_KEYS: [(&str, Key); 6] = [
    ("CC", Key::Century),
    ("I", Key::IsoYear(1)),
    ("D", Key::DayOfWeek),
    ("W", Key::WeekOfMonth),
    ("J", Key::Julian),
    ("Q", Key::Quarter),
];

/// The key at the start of a template, how long it is, and its letters.
fn key_of(rest: &str) -> Option<(Key, usize, Case)> {
    for (name, key) in KEYS.iter().chain(&SHORT_KEYS) {
        let Some(written) = rest.get(..name.len()) else { continue };
        let case = match written {
            same if same == *name => Case::Upper,
            lower if lower == name.to_lowercase() => Case::Lower,
            title if is_named(*key) && title == titled(name) => Case::Title,
            _ => continue,
        };
        return Some((*key, name.len(), case));
    }
    None
}

fn is_named(key: Key) -> bool {
    matches!(key, Key::MonthName | Key::MonthShort | Key::DayName | Key::DayShort)
}

/// A word with a large first letter.
pub(super) fn titled(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars.flat_map(char::to_lowercase)).collect())
}

/// Takes a template apart.
pub(super) fn parts(template: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    let mut bare = false;
    while let Some(c) = rest.chars().next() {
        if let Some(behind) = ["FM", "fm"].iter().find_map(|prefix| rest.strip_prefix(prefix)) {
            bare = true;
            rest = behind;
            continue;
        }
        if let Some(behind) = ["FX", "fx", "TM", "tm"].iter().find_map(|prefix| rest.strip_prefix(prefix)) {
            // Names in a language are not filled with blanks; those here are English.
            let is_name = ["mon", "day", "dy"]
                .iter()
                .any(|name| behind.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)));
            bare |= is_name && rest.starts_with(['T', 't']);
            rest = behind;
            continue;
        }
        if let Some((key, length, case)) = key_of(rest) {
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            rest = &rest[length..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(Case::Upper),
                Some("th") => Some(Case::Lower),
                _ => None,
            };
            if ordinal.is_some() {
                rest = &rest[2..];
            }
            parts.push(Part::Field { key, case, bare: std::mem::take(&mut bare), ordinal });
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => {
                let mut escaped = false;
                let mut end = rest.len();
                for (at, c) in rest.char_indices() {
                    match c {
                        _ if escaped => {
                            escaped = false;
                            text.push(c);
                        }
                        '\\' => escaped = true,
                        '"' => {
                            end = at + 1;
                            break;
                        }
                        c => text.push(c),
                    }
                }
                rest = &rest[end..];
            }
            '\\' if rest.starts_with('"') => {
                text.push('"');
                rest = &rest[1..];
            }
            c => text.push(c),
        }
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    parts
}
