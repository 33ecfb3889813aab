//! The words and signs of a path.

use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::json::fault;

/// A word or sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Sign(&'static str),
    /// Not quoted: a key, or a word of the language.
    Word(String),
    /// In double quotes.
    Text(String),
    /// `$name`
    Variable(String),
    Number(String),
    End,
}

/// Signs, those first that begin with another.
const SIGNS: [&str; 29] = [
    "&&", "||", "**", "==", "<>", "!=", "<=", ">=", "!", "<", ">", "?", "$", "@", ".", ",", ":", "[", "]", "{", "}",
    "(", ")", "+", "-", "*", "/", "%", "#",
];

/// A text that is no path.
pub(super) fn malformed(text: &str, what: &str) -> Error {
    fault(SqlState::SyntaxError, format!("the text '{text}' is not of type jsonpath: {what}"))
}

/// The tokens of a text, the end last.
///
/// # Errors
/// Quotes that do not end, numbers and escapes that are none.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut reader = Reader { text, chars: text.chars().collect(), at: 0 };
    let mut all = Vec::new();
    while reader.skip_blanks()? {
        all.push(reader.token()?);
    }
    all.push(Token::End);
    Ok(all)
}

fn is_of_word(c: char) -> bool {
    !c.is_whitespace() && !"?%$.[]{}()|&!=<>@#,*:-+/\\\"".contains(c)
}

struct Reader<'a> {
    text: &'a str,
    chars: Vec<char>,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn wrong<T>(&self, what: &str) -> Result<T> {
        Err(malformed(self.text, what))
    }

    /// Whether there is more.
    fn skip_blanks(&mut self) -> Result<bool> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(c), _) if c.is_whitespace() => self.at += 1,
                (Some('/'), Some('*')) => {
                    let rest = &self.chars[self.at + 2..];
                    let Some(end) = rest.windows(2).position(|pair| pair == ['*', '/']) else {
                        return self.wrong("a comment does not end");
                    };
                    self.at += end + 4;
                }
                (next, _) => return Ok(next.is_some()),
            }
        }
    }

    fn token(&mut self) -> Result<Token> {
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        match self.peek(0) {
            Some('"') => self.quoted().map(Token::Text),
            Some('$') if self.peek(1) == Some('"') => {
                self.at += 1;
                self.quoted().map(Token::Variable)
            }
            Some('$') if self.peek(1).is_some_and(|c| is_of_word(c) || c == '\\') => {
                self.at += 1;
                self.word().map(Token::Variable)
            }
            Some('.') if is_digit(self.peek(1)) => self.number(),
            next if is_digit(next) => self.number(),
            Some(c) if is_of_word(c) || c == '\\' => self.word().map(Token::Word),
            _ => {
                let is_next = |sign: &&&str| sign.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c));
                match SIGNS.iter().find(is_next) {
                    Some(sign) => {
                        self.at += sign.len();
                        Ok(Token::Sign(sign))
                    }
                    None => {
                        let c = self.peek(0).unwrap_or(' ');
                        self.wrong(&format!("'{c}' stands alone"))
                    }
                }
            }
        }
    }

    fn digits(&mut self, to: &mut String) -> bool {
        let start = to.len();
        while let Some(c) = self.peek(0).filter(char::is_ascii_digit) {
            to.push(c);
            self.at += 1;
        }
        to.len() > start
    }

    fn number(&mut self) -> Result<Token> {
        let mut text = String::new();
        self.digits(&mut text);
        if text.len() > 1 && text.starts_with('0') {
            return self.wrong("a number begins with 0");
        }
        if self.peek(0) == Some('.') {
            text.push_str(if text.is_empty() { "0." } else { "." });
            self.at += 1;
            if !self.digits(&mut text) {
                text.pop();
            }
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            text.push('e');
            self.at += 1;
            if let Some(sign) = self.peek(0).filter(|c| matches!(c, '+' | '-')) {
                text.push(sign);
                self.at += 1;
            }
            if !self.digits(&mut text) {
                return self.wrong("an exponent has no digits");
            }
        }
        match self.peek(0).is_some_and(is_of_word) {
            true => self.wrong("something stands right behind a number"),
            false => Ok(Token::Number(crate::json::number::normal(&text)?)),
        }
    }

    fn word(&mut self) -> Result<String> {
        let mut word = String::new();
        loop {
            match self.peek(0) {
                Some('\\') => word.push(self.escape()?),
                Some(c) if is_of_word(c) => {
                    word.push(c);
                    self.at += 1;
                }
                _ => return Ok(word),
            }
        }
    }

    fn quoted(&mut self) -> Result<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek(0) {
                None => return self.wrong("a quote does not end"),
                Some('"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some('\\') => text.push(self.escape()?),
                Some(c) => {
                    text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    /// What a backslash and what is behind it stand for.
    fn escape(&mut self) -> Result<char> {
        self.at += 1;
        let Some(c) = self.peek(0) else { return self.wrong("it ends with a backslash") };
        self.at += 1;
        Ok(match c {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => {
                let code = self.hex(2)?;
                self.character(code)?
            }
            'u' => {
                let high = self.unicode()?;
                if (0xd800..0xdc00).contains(&high) && self.peek(0) == Some('\\') && self.peek(1) == Some('u') {
                    self.at += 2;
                    let low = self.unicode()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return self.wrong("half of a surrogate stands alone");
                    }
                    return self.character(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
                }
                self.character(high)?
            }
            other => other,
        })
    }

    fn unicode(&mut self) -> Result<u32> {
        if self.peek(0) != Some('{') {
            return self.hex(4);
        }
        self.at += 1;
        let rest = &self.chars[self.at..];
        match rest.iter().take(7).position(|c| *c == '}') {
            Some(length) if length > 0 => {
                let code = self.hex(length)?;
                self.at += 1;
                Ok(code)
            }
            _ => self.wrong("\\u{..} has one to six digits"),
        }
    }

    fn hex(&mut self, count: usize) -> Result<u32> {
        let digits: String = self.chars.iter().skip(self.at).take(count).collect();
        self.at += count;
        match u32::from_str_radix(&digits, 16) {
            Ok(code) if digits.len() == count && !digits.starts_with('+') => Ok(code),
            _ => self.wrong("an escape has too few digits"),
        }
    }

    fn character(&self, code: u32) -> Result<char> {
        match char::from_u32(code) {
            Some('\0') => Err(fault(SqlState::UntranslatableCharacter, "\\u0000 cannot be converted to a text")),
            Some(c) => Ok(c),
            None => self.wrong("an escape stands for no character"),
        }
    }
}
