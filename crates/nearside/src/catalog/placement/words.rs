//! The words of a placement's text: names, numbers and signs, with the place of each for errors.

use crate::error::{Error, Result};

/// What is left of a text.
pub(crate) struct Words<'a> {
    text: &'a str,
    words: Vec<Word>,
    next: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    kind: WordKind,
    at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum WordKind {
    /// Unquoted, in lower case.
    Name(String),
    /// In double quotes, as written.
    Quoted(String),
    Number(u32),
    Sign(char),
}

impl<'a> Words<'a> {
    /// Cuts a text into words.
    pub(crate) fn new(text: &'a str) -> Result<Words<'a>> {
        let mut words = Vec::new();
        let mut rest = text.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            let kind = match c {
                c if c.is_whitespace() => continue,
                '"' => {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some((_, '"')) if rest.next_if(|(_, c)| *c == '"').is_some() => name.push('"'),
                            Some((_, '"')) => break,
                            Some((_, c)) => name.push(c),
                            None => return Err(wrong(text, at, "a quoted name does not end")),
                        }
                    }
                    WordKind::Quoted(name)
                }
                c if c.is_ascii_digit() => {
                    let mut digits = String::from(c);
                    while let Some((_, c)) = rest.next_if(|(_, c)| c.is_alphanumeric()) {
                        digits.push(c);
                    }
                    let number = digits.parse();
                    WordKind::Number(number.map_err(|_| wrong(text, at, &format!("'{digits}' is not a number here")))?)
                }
                c if c.is_alphabetic() || c == '_' => {
                    let mut name = String::from(c);
                    while let Some((_, c)) = rest.next_if(|(_, c)| c.is_alphanumeric() || *c == '_') {
                        name.push(c);
                    }
                    WordKind::Name(name.to_lowercase())
                }
                '(' | ')' | ',' | ';' | ':' | '=' | '-' | '.' => WordKind::Sign(c),
                other => return Err(wrong(text, at, &format!("'{other}' is not expected"))),
            };
            words.push(Word { kind, at });
        }
        Ok(Words { text, words, next: 0 })
    }

    fn peek(&self) -> Option<&WordKind> {
        self.words.get(self.next).map(|w| &w.kind)
    }

    /// The next word, if it is an unquoted one.
    pub(crate) fn peek_word(&self) -> Option<&str> {
        match self.peek() {
            Some(WordKind::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// Whether the next is this word or sign.
    pub(crate) fn is(&self, what: &str) -> bool {
        match self.peek() {
            Some(WordKind::Name(name)) => name == what,
            Some(WordKind::Sign(sign)) => what.chars().eq([*sign]),
            _ => false,
        }
    }

    /// Takes this word or sign, if it is the next.
    pub(crate) fn take(&mut self, what: &str) -> bool {
        let found = self.is(what);
        self.next += usize::from(found);
        found
    }

    /// Takes this word or sign.
    pub(crate) fn expect(&mut self, what: &str) -> Result<()> {
        if self.take(what) { Ok(()) } else { Err(self.expected(&format!("'{what}'"))) }
    }

    /// Takes a number, if the next is one.
    pub(crate) fn number(&mut self) -> Result<Option<u32>> {
        match self.peek() {
            Some(WordKind::Number(number)) => {
                let number = *number;
                self.next += 1;
                Ok(Some(number))
            }
            _ => Ok(None),
        }
    }

    /// Whether a number stands behind the next word, which is a comma.
    pub(crate) fn number_follows_comma(&self) -> bool {
        matches!(self.words.get(self.next + 1).map(|w| &w.kind), Some(WordKind::Number(_)))
    }

    /// Whether `n nodes` comes next.
    pub(crate) fn count_of_nodes_follows(&self) -> bool {
        matches!(self.peek(), Some(WordKind::Number(_)))
            && self.words.get(self.next + 1).is_some_and(|w| w.kind == WordKind::Name("nodes".into()))
    }

    /// Takes a name.
    pub(crate) fn name(&mut self, what: &str) -> Result<String> {
        let name = match self.peek() {
            Some(WordKind::Name(name) | WordKind::Quoted(name)) => name.clone(),
            _ => return Err(self.expected(what)),
        };
        self.next += 1;
        Ok(name)
    }

    /// Takes a table's name of one or more parts, as SQL would read it.
    pub(crate) fn table_name(&mut self) -> Result<String> {
        let quoted = |name: String| format!("\"{}\"", name.replace('"', "\"\""));
        let mut name = quoted(self.name("a table's name")?);
        while self.take(".") {
            name = format!("{name}.{}", quoted(self.name("a table's name")?));
        }
        Ok(name)
    }

    /// Whether nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        self.next == self.words.len()
    }

    /// Fails when something is left.
    pub(crate) fn done(&self) -> Result<()> {
        if self.is_done() { Ok(()) } else { Err(self.expected("the end")) }
    }

    /// The error that something else was expected here.
    pub(crate) fn expected(&self, what: &str) -> Error {
        self.error(&format!("expected {what}"))
    }

    /// An error here.
    pub(crate) fn error(&self, message: &str) -> Error {
        wrong(self.text, self.words.get(self.next).map_or(self.text.len(), |w| w.at), message)
    }
}

fn wrong(text: &str, at: usize, message: &str) -> Error {
    let place = match text[at..].split_whitespace().next() {
        Some(_) => format!("at '{}'", text[at..].trim_end()),
        None => "at the end".to_string(),
    };
    Error::Setting(format!("placement '{text}': {message} ({place}); docs/placement.md has the forms"))
}
