//! Numbers written by a template: `999.99`, `FM9,999`, `S99`, `99PR`, `RN`, `9.99EEEE`.

use super::write::ordinal_of;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Nine,
    Zero,
    Point,
    Comma,
    Sign,
    Minus,
    Plus,
    PlusOrMinus,
    Brackets,
    Currency,
    Ordinal(bool),
    Roman(bool),
    Shift,
    Exponent,
    Text(String),
}

/// A template, taken apart.
pub(super) struct Template {
    parts: Vec<Part>,
    /// FM: without blanks and zeros that fill it.
    bare: bool,
    /// Digits before the point, and behind it.
    before: usize,
    behind: usize,
    /// Digits behind `V`.
    shifted: usize,
    is_shifted: bool,
}

impl Template {
    /// # Errors
    /// What makes no sense in it.
    pub(super) fn of(text: &str) -> Result<Template, String> {
        let mut found =
            Template { parts: Vec::new(), bare: false, before: 0, behind: 0, shifted: 0, is_shifted: false };
        let upper = text.to_ascii_uppercase();
        let mut at = 0;
        let mut has_point = false;
        while at < text.len() {
            let rest = &upper[at..];
            let known: [(&str, Option<Part>); 19] = [
                ("FM", None),
                ("EEEE", Some(Part::Exponent)),
                ("PL", Some(Part::Plus)),
                ("PR", Some(Part::Brackets)),
                ("MI", Some(Part::Minus)),
                ("SG", Some(Part::PlusOrMinus)),
                ("TH", Some(Part::Ordinal(text[at..].starts_with('T')))),
                ("RN", Some(Part::Roman(text[at..].starts_with('R')))),
                ("9", Some(Part::Nine)),
                ("0", Some(Part::Zero)),
                (".", Some(Part::Point)),
                ("D", Some(Part::Point)),
                (",", Some(Part::Comma)),
                ("G", Some(Part::Comma)),
                ("S", Some(Part::Sign)),
                ("L", Some(Part::Currency)),
                ("V", Some(Part::Shift)),
                ("B", None),
                ("C", None),
            ];
            if let Some((name, part)) = known.into_iter().find(|(name, _)| rest.starts_with(name)) {
                at += name.len();
                match &part {
                    None if name == "FM" => found.bare = true,
                    None => return Err(format!("{name} in a template of a number is not supported")),
                    Some(Part::Nine | Part::Zero) => match (has_point, found.is_shifted) {
                        (true, _) => found.behind += 1,
                        (false, true) => found.shifted += 1,
                        (false, false) => found.before += 1,
                    },
                    Some(Part::Point) if has_point => return Err("multiple decimal points".into()),
                    Some(Part::Point) => has_point = true,
                    Some(Part::Shift) => found.is_shifted = true,
                    _ => {}
                }
                found.parts.extend(part);
                continue;
            }
            let length = match text[at..].strip_prefix('"') {
                Some(quoted) => {
                    let end = quoted.find('"').unwrap_or(quoted.len());
                    found.parts.push(Part::Text(quoted[..end].to_string()));
                    (end + 2).min(text.len() - at)
                }
                None => {
                    let length = text[at..].chars().next().map_or(1, char::len_utf8);
                    found.parts.push(Part::Text(text[at..at + length].to_string()));
                    length
                }
            };
            at += length;
        }
        if found.is_shifted && has_point {
            return Err("V cannot stand beside a decimal point".into());
        }
        Ok(found)
    }

    fn has(&self, part: &Part) -> bool {
        self.parts.contains(part)
    }

    /// How many digits behind the point it has room for; a number is multiplied by ten to the second before.
    pub(super) fn scales(&self) -> (usize, usize) {
        (self.behind, self.shifted)
    }

    /// Whether it writes an exponent.
    pub(super) fn has_exponent(&self) -> bool {
        self.has(&Part::Exponent)
    }

    /// Whether it writes a Roman number.
    pub(super) fn is_roman(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Roman(_)))
    }

    /// A Roman number from 1 to 3999.
    pub(super) fn write_roman(&self, number: Option<u32>, to: &mut String) {
        const ALL: [(u32, &str); 13] = [
            (1000, "M"),
            (900, "CM"),
            (500, "D"),
            (400, "CD"),
            (100, "C"),
            (90, "XC"),
            (50, "L"),
            (40, "XL"),
            (10, "X"),
            (9, "IX"),
            (5, "V"),
            (4, "IV"),
            (1, "I"),
        ];
        const WIDTH: usize = 15;
        let mut text = String::new();
        match number.filter(|number| (1..4000).contains(number)) {
            None => text.push_str(&"#".repeat(WIDTH)),
            Some(mut rest) => {
                for (value, letters) in ALL {
                    while rest >= value {
                        text.push_str(letters);
                        rest -= value;
                    }
                }
            }
        }
        if self.has(&Part::Roman(false)) {
            text.make_ascii_lowercase();
        }
        let width = if self.bare { 0 } else { WIDTH };
        to.push_str(&format!("{text:>width$}"));
    }

    /// A number of the digits before and behind its point; the latter as many as [`Template::scales`] says.
    pub(super) fn write(&self, is_negative: bool, whole: &str, fraction: &str, to: &mut String) {
        let room = self.before + self.shifted;
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        // Also where there is no room for the 0 before the point.
        let overflows = whole.len() > room;
        let fraction_kept = match self.bare && !overflows {
            true => {
                // Zeros at the end are left out up to the last 0 of the template.
                let mut behind_point = self.parts.iter().skip_while(|part| **part != Part::Point).skip(1);
                let digits: Vec<bool> = behind_point
                    .by_ref()
                    .filter_map(|part| match part {
                        Part::Nine => Some(false),
                        Part::Zero => Some(true),
                        _ => None,
                    })
                    .collect();
                let least = digits.iter().rposition(|zero| *zero).map_or(0, |at| at + 1);
                fraction.trim_end_matches('0').len().max(least).min(fraction.len())
            }
            false => fraction.len(),
        };
        let digits: Vec<char> = format!("{whole:>room$}").chars().rev().take(room).collect();
        let digits: Vec<char> = digits.into_iter().rev().collect();
        let first_zero = {
            let places = self.parts.iter().take_while(|part| **part != Part::Point);
            let places: Vec<&Part> = places.filter(|part| matches!(part, Part::Nine | Part::Zero)).collect();
            places.iter().position(|part| **part == Part::Zero)
        };
        let own_sign = self.has(&Part::Minus) || self.has(&Part::PlusOrMinus);
        let brackets = self.has(&Part::Brackets);
        let sign_at = self.parts.iter().position(|part| *part == Part::Sign);
        let first_digit = self.parts.iter().position(|part| matches!(part, Part::Nine | Part::Zero | Part::Point));
        let sign_behind = sign_at.is_some_and(|at| first_digit.is_some_and(|first| at > first));
        let mut sign_due = !own_sign && !sign_behind;
        let has_sign = sign_at.is_some();
        let bare = self.bare;
        let mut sign = |to: &mut String| {
            if !std::mem::take(&mut sign_due) {
                return;
            }
            match (is_negative, brackets, has_sign) {
                (true, true, _) => to.push('<'),
                (true, false, _) => to.push('-'),
                (false, _, true) => to.push('+'),
                (false, _, false) if bare => {}
                (false, _, false) => to.push(' '),
            }
        };
        let last = self.parts.iter().rposition(|part| matches!(part, Part::Nine | Part::Zero | Part::Point));
        let (mut place, mut behind, mut is_begun, mut past_point) = (0, 0, false, false);
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Nine | Part::Zero if past_point => {
                    sign(to);
                    if behind < fraction_kept {
                        to.push(if overflows { '#' } else { fraction.as_bytes()[behind].into() });
                    }
                    behind += 1;
                }
                Part::Nine | Part::Zero => {
                    let digit = digits.get(place).copied().unwrap_or(' ');
                    let filled = first_zero.is_some_and(|first| place >= first);
                    place += 1;
                    let is_only_zero = whole == "0" && self.behind > 0 && first_zero.is_none();
                    match digit {
                        _ if overflows => {
                            sign(to);
                            is_begun = true;
                            to.push('#');
                        }
                        ' ' if filled => {
                            sign(to);
                            is_begun = true;
                            to.push('0');
                        }
                        ' ' if bare => {}
                        ' ' => to.push(' '),
                        // The sign stands before the point then.
                        _ if is_only_zero && !bare => to.push(' '),
                        _ if is_only_zero => {
                            sign(to);
                            is_begun = true;
                            if fraction_kept == 0 {
                                to.push('0');
                            }
                        }
                        digit => {
                            sign(to);
                            is_begun = true;
                            to.push(digit);
                        }
                    }
                }
                Part::Point => {
                    sign(to);
                    past_point = true;
                    if self.behind > 0 {
                        to.push('.');
                    }
                }
                Part::Comma => match (is_begun, bare) {
                    (true, _) => to.push(','),
                    (false, true) => {}
                    (false, false) => to.push(' '),
                },
                Part::Sign | Part::Brackets | Part::Shift | Part::Exponent | Part::Roman(_) => {}
                Part::Minus if is_negative => to.push('-'),
                Part::Plus if !is_negative => to.push('+'),
                Part::Minus | Part::Plus if bare => {}
                Part::Minus | Part::Plus | Part::Currency => to.push(' '),
                Part::PlusOrMinus => to.push(if is_negative { '-' } else { '+' }),
                Part::Ordinal(upper) => {
                    if !is_negative && !overflows && self.behind == 0 {
                        let suffix = ordinal_of(whole);
                        to.push_str(&if *upper { suffix.to_uppercase() } else { suffix.to_string() });
                    }
                }
                Part::Text(text) => to.push_str(text),
            }
            if Some(at) == last {
                match (brackets, is_negative) {
                    (true, true) => to.push('>'),
                    (true, false) if !bare => to.push(' '),
                    _ => {}
                }
                if sign_behind {
                    to.push(if is_negative { '-' } else { '+' });
                }
            }
        }
    }

    /// A number with an exponent, as `1.5e3` has it.
    pub(super) fn write_exponent(&self, is_negative: bool, mantissa: &str, exponent: i32, to: &mut String) {
        let sign = match (is_negative, self.has(&Part::Sign)) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) if self.bare => "",
            (false, false) => " ",
        };
        let way = if exponent < 0 { '-' } else { '+' };
        to.push_str(&format!("{sign}{mantissa}e{way}{:02}", exponent.abs()));
    }

    /// The number that a text of this template means, as a decimal's text.
    pub(super) fn read(&self, text: &str) -> Option<String> {
        let mut digits = String::new();
        let mut is_negative = false;
        let mut has_point = false;
        // No more digits are read than the template has.
        let is_digit = |part: &Part| matches!(part, Part::Nine | Part::Zero);
        let point = self.parts.iter().position(|part| *part == Part::Point);
        let (before, behind) = self.parts.split_at(point.unwrap_or(self.parts.len()));
        let [before, behind] = [before, behind].map(|parts| parts.iter().filter(|part| is_digit(part)).count());
        let is_counted = !self.is_shifted && before + behind > 0;
        let mut read = 0;
        for c in text.trim().chars() {
            match c {
                '0'..='9' if is_counted && read >= if has_point { behind } else { before } => {
                    if !has_point && point.is_some() {
                        return None;
                    }
                }
                '0'..='9' => {
                    digits.push(c);
                    read += 1;
                }
                '.' if has_point => return None,
                '.' => {
                    has_point = true;
                    read = 0;
                    digits.push('.');
                }
                '-' | '<' => is_negative = true,
                ',' | ' ' | '+' | '>' | '$' => {}
                c if self.parts.iter().any(|part| matches!(part, Part::Text(text) if text.contains(c))) => {}
                c if c.is_alphabetic() && self.parts.iter().any(|part| matches!(part, Part::Ordinal(_))) => {}
                _ => return None,
            }
        }
        if self.is_shifted && !has_point && self.shifted > 0 {
            let point = digits.len().saturating_sub(self.shifted);
            digits = format!("{:0>1}.{:0>width$}", &digits[..point], &digits[point..], width = self.shifted);
        }
        let is_number = digits.bytes().any(|c| c.is_ascii_digit());
        is_number.then(|| format!("{}{digits}", if is_negative { "-" } else { "" }))
    }
}
