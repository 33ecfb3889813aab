//! What kind of statement a text is, as far as the wire has to know: what begins and ends transactions, what COPY has to
//! do with the client, and what is called how when it is done. What a statement means, the session knows.

use nearside::Done;

use crate::copy::options::{CopyStatement, copy_statement};
use crate::fault::Fault;

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

/// What kind of statement a text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// No statement.
    Empty,
    /// What a session prepares: a query, or what writes rows.
    Query,
    /// Begins a transaction; with these modes, if any are said.
    Begin {
        /// The text of the modes.
        modes: String,
        /// `START TRANSACTION`, not `BEGIN`.
        starts: bool,
    },
    /// Commits.
    Commit,
    /// Rolls back.
    Rollback,
    /// Goes back to a savepoint.
    RollbackTo,
    /// COPY with the client.
    Copy(Box<CopyStatement>),
    /// Runs what PREPARE has named.
    Execute(String),
    /// What does not go into a transaction, and commits by itself.
    Alone,
    /// Any other statement, by its first word.
    Other(String),
}

impl Kind {
    /// The kind of the one statement of a text.
    ///
    /// # Errors
    /// COPY with the client that is wrong, or not supported.
    pub fn of(sql: &str) -> Result<Kind, Fault> {
        let mut tokens = Tokens::new(sql).filter(|placed| placed.token != Token::Sign(';'));
        let Some(first) = tokens.next() else { return Ok(Kind::Empty) };
        let Token::Word(word) = &first.token else { return Ok(Kind::Query) };
        let mut second = || tokens.next();
        Ok(match word.as_str() {
            "select" | "with" | "values" | "table" | "insert" | "update" | "delete" => Kind::Query,
            "begin" => {
                let end = second()
                    .filter(|placed| placed.token.is("transaction") || placed.token.is("work"))
                    .map_or(first.end, |placed| placed.end);
                Kind::Begin { modes: modes(&sql[end..]), starts: false }
            }
            "start" => match second() {
                Some(placed) if placed.token.is("transaction") => {
                    Kind::Begin { modes: modes(&sql[placed.end..]), starts: true }
                }
                _ => Kind::Other(word.clone()),
            },
            "commit" | "end" => Kind::Commit,
            "rollback" | "abort" => match tokens.take(2).any(|placed| placed.token.is("to")) {
                true => Kind::RollbackTo,
                false => Kind::Rollback,
            },
            "copy" => match copy_statement(sql)? {
                Some(copy) => Kind::Copy(Box::new(copy)),
                None => Kind::Other(word.clone()),
            },
            "execute" => match second().map(|placed| placed.token) {
                Some(Token::Word(name) | Token::Quoted(name)) => Kind::Execute(name),
                _ => Kind::Other(word.clone()),
            },
            "checkpoint" | "vacuum" | "backup" | "export" | "import" => Kind::Alone,
            "alter" if second().is_some_and(|placed| placed.token.is("system")) => Kind::Alone,
            _ => Kind::Other(word.clone()),
        })
    }

    /// Whether it may run although a statement of the transaction has failed.
    pub fn ends_failed(&self) -> bool {
        matches!(self, Kind::Commit | Kind::Rollback | Kind::RollbackTo)
    }

    /// What `CommandComplete` says of a statement that has given so many rows.
    pub fn tag_of_rows(&self, rows: u64) -> String {
        match self {
            Kind::Other(word) if word == "explain" || word == "show" => word.to_uppercase(),
            _ => format!("SELECT {rows}"),
        }
    }

    /// What it says of a statement that has done this.
    pub fn tag_of(&self, done: &Done) -> String {
        let rows = done.rows.unwrap_or(0);
        match done.tag.as_str() {
            "INSERT" => format!("INSERT 0 {rows}"),
            "TRUNCATE" => "TRUNCATE TABLE".into(),
            // As of CREATE TABLE AS, which is the only one that has rows.
            "CREATE TABLE" if done.rows.is_some() => format!("SELECT {rows}"),
            "BEGIN" if matches!(self, Kind::Begin { starts: true, .. }) => "START TRANSACTION".into(),
            tag if tag.starts_with("BACKUP") => "BACKUP DATABASE".into(),
            tag if tag.starts_with("EXPORT") => "EXPORT DATABASE".into(),
            tag if tag.starts_with("IMPORT") => "IMPORT DATABASE".into(),
            tag => match done.rows {
                Some(rows) => format!("{tag} {rows}"),
                None => tag.into(),
            },
        }
    }
}

fn modes(text: &str) -> String {
    text.trim().trim_end_matches(';').trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_the_first_words() {
        let of = |sql: &str| Kind::of(sql).unwrap();
        assert_eq!(of(" -- nothing\n /* /* at */ all */ ; "), Kind::Empty);
        assert_eq!(of("/* a */ (SELECT 1)"), Kind::Query);
        assert_eq!(of("BEGIN"), Kind::Begin { modes: String::new(), starts: false });
        let starts = Kind::Begin { modes: "READ ONLY".into(), starts: true };
        assert_eq!(of("start transaction READ ONLY;"), starts);
        assert_eq!(
            of("begin work isolation level serializable"),
            Kind::Begin { modes: "isolation level serializable".into(), starts: false }
        );
        assert_eq!((of("END"), of("abort"), of("rollback to a")), (Kind::Commit, Kind::Rollback, Kind::RollbackTo));
        assert_eq!(of("rollback transaction to savepoint a"), Kind::RollbackTo);
        assert_eq!(of("EXECUTE \"A b\" (1)"), Kind::Execute("A b".into()));
        assert_eq!((of("alter system reset all"), of("alter table t")), (Kind::Alone, Kind::Other("alter".into())));
        assert_eq!(of("COPY t FROM 'file'"), Kind::Other("copy".into()));
        assert!(matches!(of("COPY t FROM STDIN"), Kind::Copy(_)));
        assert_eq!(of("'"), Kind::Query);
    }

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
