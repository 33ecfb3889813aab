//! Words, texts and signs of a statement, for who wants to know what kind of statement it is. It reads what the session
//! has taken apart already, so what is wrong with a text is not told here.

/// A word or a sign of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A word, in lower case.
    Word(String),
    /// A name in quotes, as it is.
    Quoted(String),
    /// A text.
    Text(String),
    /// A sign, or a part of one.
    Sign(char),
}

impl Token {
    /// Whether it is a word.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(own) if own == word)
    }
}

/// A token and where it begins and ends in the text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What it is.
    pub token: Token,
    /// Its first byte.
    pub start: usize,
    /// The byte behind its last.
    pub end: usize,
}

/// The tokens of a text, up to what is none.
pub struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// Of a text.
    pub fn new(text: &'a str) -> Tokens<'a> {
        Tokens { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Behind blanks and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let bare = rest.trim_start();
            self.at += rest.len() - bare.len();
            if bare.starts_with("--") {
                self.at += bare.find('\n').map_or(bare.len(), |end| end + 1);
            } else if bare.starts_with("/*") {
                self.at += comment(bare);
            } else {
                return;
            }
        }
    }

    /// What stands between quotes that the text is at, of which two stand for one.
    fn quoted(&mut self, quote: char, escapes: bool) -> String {
        let mut value = String::new();
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' && escapes {
                value.extend(chars.next().map(|(_, escaped)| unescaped(escaped)));
            } else if c != quote {
                value.push(c);
            } else if chars.peek().is_some_and(|(_, next)| *next == quote) {
                value.push(quote);
                chars.next();
            } else {
                self.at += at + quote.len_utf8();
                return value;
            }
        }
        self.at = self.text.len();
        value
    }
}

fn unescaped(c: char) -> char {
    match c {
        't' => '\t',
        'n' => '\n',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        other => other,
    }
}

/// The length of the comment that a text begins with, and of those within it.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => {
                (depth, at) = (depth.saturating_sub(1), at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

impl Iterator for Tokens<'_> {
    type Item = Placed;

    fn next(&mut self) -> Option<Placed> {
        self.skip();
        let start = self.at;
        let first = self.rest().chars().next()?;
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
        let token = match first {
            '\'' => Token::Text(self.quoted('\'', false)),
            '"' => Token::Quoted(self.quoted('"', false)),
            'e' | 'E' if self.rest()[1..].starts_with('\'') => {
                self.at += 1;
                Token::Text(self.quoted('\'', true))
            }
            c if c.is_alphabetic() || c == '_' => {
                let length = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
                let word = self.rest()[..length].to_lowercase();
                self.at += length;
                Token::Word(word)
            }
            other => {
                self.at += other.len_utf8();
                Token::Sign(other)
            }
        };
        Some(Placed { token, start, end: self.at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_names_are_taken_out_of_their_quotes() {
        let all: Vec<Token> = Tokens::new("a_1 \"B\"\"\" 'it''s' E'\\t' é").map(|placed| placed.token).collect();
        let expected = [
            Token::Word("a_1".into()),
            Token::Quoted("B\"".into()),
            Token::Text("it's".into()),
            Token::Text("\t".into()),
            Token::Word("é".into()),
        ];
        assert_eq!(all, expected);
    }
}
