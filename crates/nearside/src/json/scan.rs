//! Looking into a JSON text without a tree of it: what is checked, what is skipped, what is found.

use super::{DEPTH_MAX, malformed, too_deep};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// A text from a place on.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// Whether a text is JSON.
///
/// # Errors
/// It is not.
pub(crate) fn check(text: &str) -> Result<()> {
    let mut scanner = Scanner::new(text);
    scanner.check_value(0)?;
    scanner.end()
}

/// The first character that says what a value is: `{`, `[`, `"`, `t`, `f`, `n`, or that of a number.
pub(crate) fn first(text: &str) -> u8 {
    text.bytes().find(|byte| !is_blank(*byte)).unwrap_or(b' ')
}

/// The text of the value of a key, the last one where there are several; `text` is JSON.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut found = None;
    if first(text) == b'{' {
        each_field(text, |name, value| {
            if is_key(name, key) {
                found = Some(value);
            }
        });
    }
    found
}

/// The text of an element of an array; the last is -1.
pub(crate) fn element(text: &str, place: i64) -> Option<&str> {
    if first(text) != b'[' {
        return None;
    }
    let place = match place {
        0.. => usize::try_from(place).ok()?,
        _ => elements(text).len().checked_sub(usize::try_from(place.unsigned_abs()).ok()?)?,
    };
    let mut scanner = Scanner::new(text);
    scanner.open();
    let mut at = 0;
    while let Some(value) = scanner.next_element() {
        if at == place {
            return Some(value);
        }
        at += 1;
    }
    None
}

/// The texts of an array's elements.
pub(crate) fn elements(text: &str) -> Vec<&str> {
    let mut scanner = Scanner::new(text);
    scanner.open();
    std::iter::from_fn(|| scanner.next_element()).collect()
}

/// The keys, as they are written, and the texts of the values of an object.
pub(crate) fn each_field<'a>(text: &'a str, mut what: impl FnMut(&'a str, &'a str)) {
    let mut scanner = Scanner::new(text);
    scanner.open();
    while let Some((name, value)) = scanner.next_field() {
        what(name, value);
    }
}

/// Whether a key as it is written is this one.
fn is_key(written: &str, key: &str) -> bool {
    let inner = &written[1..written.len() - 1];
    match inner.contains('\\') {
        false => inner == key,
        true => string(written).is_ok_and(|name| name == key),
    }
}

/// The text that a string means.
///
/// # Errors
/// `\u0000`, and halves of surrogates.
pub(crate) fn string(written: &str) -> Result<String> {
    let inner = &written[1..written.len() - 1];
    if !inner.contains('\\') {
        return Ok(inner.to_string());
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        match escape {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let mut code = hex(rest).ok_or_else(|| malformed(written, 0, "an escape that is none"))?;
                rest = &rest[4..];
                if (0xd800..0xdc00).contains(&code)
                    && let Some(low) = rest.strip_prefix("\\u").and_then(hex)
                    && (0xdc00..0xe000).contains(&low)
                {
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    rest = &rest[6..];
                }
                match char::from_u32(code) {
                    Some('\0') => {
                        let what = "\\u0000 cannot be converted to text";
                        return Err(super::fault(SqlState::UntranslatableCharacter, what));
                    }
                    Some(c) => out.push(c),
                    None => return Err(malformed(written, 0, "half of a surrogate pair of \\u")),
                }
            }
            other => out.push(char::from(other)),
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn hex(text: &str) -> Option<u32> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u32::from_str_radix(digits, 16).ok()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

impl<'a> Scanner<'a> {
    /// From the start.
    pub(crate) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, bytes: text.as_bytes(), at: 0 }
    }

    /// The next character that is no blank.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).is_some_and(|byte| is_blank(*byte)) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Steps over a character that is there.
    pub(crate) fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// A fault at the place where the scanner is.
    pub(crate) fn wrong(&mut self, expected: &str) -> Error {
        let what = match self.peek() {
            None => format!("{expected} is expected, and the text ends"),
            Some(_) => format!("{expected} is expected"),
        };
        malformed(self.text, self.at, &what)
    }

    /// Nothing else stands there.
    ///
    /// # Errors
    /// Something does.
    pub(crate) fn end(&mut self) -> Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.wrong("the end of the text")) }
    }

    /// `true`, `false` or `null`.
    ///
    /// # Errors
    /// Another word.
    pub(crate) fn word(&mut self) -> Result<&'a str> {
        let from = self.at;
        let length = self.bytes[from..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let word = &self.text[from..from + length];
        if !matches!(word, "true" | "false" | "null") {
            return Err(self.wrong("a value"));
        }
        self.at += length;
        Ok(word)
    }

    /// A number as it is written.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn number(&mut self) -> Result<&'a str> {
        let from = self.at;
        self.at += usize::from(self.bytes[self.at] == b'-');
        let whole = self.digits();
        let leading = whole > 1 && self.bytes[self.at - whole] == b'0';
        let mut right = whole > 0 && !leading;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            right &= self.digits() > 0;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            right &= self.digits() > 0;
        }
        let follows = self.text[self.at..].chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.');
        if !right || follows {
            self.at = from;
            return Err(self.wrong("a number"));
        }
        Ok(&self.text[from..self.at])
    }

    fn digits(&mut self) -> usize {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    /// A string as it is written, with its quotes.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn quoted(&mut self) -> Result<&'a str> {
        let from = self.at;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(malformed(self.text, self.at, "a string does not end")),
                Some(b'"') => break,
                Some(b'\\') => {
                    match self.bytes.get(self.at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {}
                        Some(b'u') if self.text.get(self.at + 2..).and_then(hex).is_some() => self.at += 4,
                        _ => return Err(malformed(self.text, self.at, "an escape that is none")),
                    }
                    self.at += 2;
                }
                Some(0..=0x1f) => {
                    return Err(malformed(self.text, self.at, "a character that has to be written as an escape"));
                }
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.text[from..self.at])
    }

    fn check_value(&mut self, depth: usize) -> Result<()> {
        match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH_MAX => Err(too_deep()),
            Some(b'{') => {
                self.at += 1;
                if self.takes(b'}') {
                    return Ok(());
                }
                loop {
                    self.key()?;
                    self.check_value(depth + 1)?;
                    if !self.more(b'}', "',' or '}'")? {
                        return Ok(());
                    }
                }
            }
            Some(b'[') => {
                self.at += 1;
                if self.takes(b']') {
                    return Ok(());
                }
                loop {
                    self.check_value(depth + 1)?;
                    if !self.more(b']', "',' or ']'")? {
                        return Ok(());
                    }
                }
            }
            Some(b'"') => self.quoted().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            Some(_) => self.word().map(drop),
            None => Err(self.wrong("a value")),
        }
    }

    /// A key and the colon behind it.
    ///
    /// # Errors
    /// Something else stands there.
    pub(crate) fn key(&mut self) -> Result<&'a str> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a string"));
        }
        let key = self.quoted()?;
        if self.takes(b':') { Ok(key) } else { Err(self.wrong("':'")) }
    }

    /// Whether a comma and no end stands there.
    ///
    /// # Errors
    /// Neither does.
    pub(crate) fn more(&mut self, end: u8, expected: &str) -> Result<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.wrong(expected)),
        }
    }

    /// Steps over the bracket of an array or object that is JSON.
    fn open(&mut self) {
        self.peek();
        self.at += 1;
    }

    fn next_element(&mut self) -> Option<&'a str> {
        self.takes(b',');
        match self.peek() {
            None | Some(b']') => None,
            Some(_) => Some(self.skipped()),
        }
    }

    fn next_field(&mut self) -> Option<(&'a str, &'a str)> {
        self.takes(b',');
        match self.peek() {
            Some(b'"') => {}
            _ => return None,
        }
        let name = self.skipped();
        self.takes(b':');
        self.peek()?;
        Some((name, self.skipped()))
    }

    /// The text of the value that begins here, of which nothing is checked.
    fn skipped(&mut self) -> &'a str {
        let from = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.at += 1;
                    while let Some(byte) = self.bytes.get(self.at) {
                        match byte {
                            b'"' => break,
                            b'\\' => self.at += 2,
                            _ => self.at += 1,
                        }
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        break;
                    }
                }
                b',' if depth == 0 => break,
                byte if depth == 0 && is_blank(*byte) => break,
                _ => {}
            }
            self.at += 1;
        }
        self.at = self.at.min(self.bytes.len());
        &self.text[from..self.at]
    }
}
