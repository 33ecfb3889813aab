//! [`Fault`]: what a client is told when something fails.

use nearside::{About, Error, Position};

use crate::wire::backend::Report;
use crate::wire::frontend::Malformed;

/// Codes that the wire has beside those of [`nearside::SqlState`].
pub mod codes {
    /// A message is not as the protocol has it.
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    /// Bytes that are no UTF-8.
    pub const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
    /// A value in binary is none of its type.
    pub const INVALID_BINARY_REPRESENTATION: &str = "22P03";
    /// There is no portal of that name.
    pub const INVALID_CURSOR_NAME: &str = "34000";
    /// There is no statement of that name.
    pub const INVALID_SQL_STATEMENT_NAME: &str = "26000";
    /// There is no database of that name.
    pub const INVALID_CATALOG_NAME: &str = "3D000";
    /// A password is another one.
    pub const INVALID_PASSWORD: &str = "28P01";
    /// Who asks may not come in.
    pub const INVALID_AUTHORIZATION: &str = "28000";
    /// A name of a portal that is taken.
    pub const DUPLICATE_CURSOR: &str = "42P03";
    /// A name of a statement that is taken.
    pub const DUPLICATE_PREPARED_STATEMENT: &str = "42P05";
    /// A statement that is not read.
    pub const SYNTAX_ERROR: &str = "42601";
    /// A parameter whose type there is not.
    pub const UNDEFINED_OBJECT: &str = "42704";
    /// What a connection may not have more of.
    pub const LIMIT_EXCEEDED: &str = "54000";
    /// All connections are taken.
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    /// What is not in the state that it would have to be in.
    pub const OBJECT_NOT_IN_PREREQUISITE_STATE: &str = "55000";
    /// The server ends.
    pub const ADMIN_SHUTDOWN: &str = "57P01";
    /// The server does not do this.
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    /// The statement was cancelled.
    pub const QUERY_CANCELED: &str = "57014";
    /// A statement that does not go together with a transaction.
    pub const ACTIVE_SQL_TRANSACTION: &str = "25001";
    /// A statement for transactions, outside of one.
    pub const NO_ACTIVE_SQL_TRANSACTION: &str = "25P01";
    /// A statement of the transaction has failed before.
    pub const IN_FAILED_SQL_TRANSACTION: &str = "25P02";
    /// A number that does not fit.
    pub const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";
    /// A text that is no value of a type.
    pub const INVALID_TEXT_REPRESENTATION: &str = "22P02";
    /// Data of COPY that is not as it should be.
    pub const BAD_COPY_FILE_FORMAT: &str = "22P04";
    /// An option with another value than it takes.
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    /// The role may not do that.
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    /// A bug.
    pub const INTERNAL_ERROR: &str = "XX000";
}

/// What fails a message of a client; the connection goes on unless it is fatal.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Its SQLSTATE.
    pub code: &'static str,
    /// What has happened.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What was being done.
    pub context: Option<Box<str>>,
    /// Where in the statement.
    pub position: Option<Position>,
    /// What is told of few, apart so that results of functions stay small.
    pub further: Option<Box<Further>>,
    /// Whether the connection ends with it.
    pub is_fatal: bool,
}

/// What is told of few faults.
#[derive(Debug, Clone, Default)]
pub struct Further {
    /// Where in the client's text: which character, counted from 1, where that is known without the text.
    character: Option<u64>,
    /// The table that it is about, and the column or the constraint.
    about: Option<About>,
    /// What PostgreSQL calls the place in its source, where drivers look at that.
    routine: Option<&'static str>,
}

impl Fault {
    /// One with a code.
    pub fn new(code: &'static str, message: impl Into<String>) -> Fault {
        Fault {
            code,
            message: message.into(),
            hint: None,
            context: None,
            position: None,
            further: None,
            is_fatal: false,
        }
    }

    /// One that ends the connection.
    pub fn fatal(code: &'static str, message: impl Into<String>) -> Fault {
        Fault { is_fatal: true, ..Fault::new(code, message) }
    }

    /// The same, and what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }

    /// The same, whose place is a place of the client's text, in which the statement begins at `start`.
    pub fn placed(self, text: &str, start: Position) -> Fault {
        let character = self.position.map(|at| character_at(text, within(at, start)));
        self.told_further(|further| further.character = character)
    }

    /// The same, of a place of PostgreSQL's source.
    pub fn of_routine(self, routine: &'static str) -> Fault {
        self.told_further(|further| further.routine = Some(routine))
    }

    fn told_further(mut self, tell: impl FnOnce(&mut Further)) -> Fault {
        tell(self.further.get_or_insert_default());
        self
    }

    /// As a message; `text` is the client's, in which the statement begins at `start`.
    pub fn report(&self, text: Option<(&str, Position)>) -> Report {
        let position = self.position.zip(text).map(|(at, (text, start))| character_at(text, within(at, start)));
        let further = self.further.as_deref().cloned().unwrap_or_default();
        let position = position.or(further.character);
        Report {
            severity: if self.is_fatal { "FATAL" } else { "ERROR" },
            code: self.code,
            message: self.message.clone(),
            hint: self.hint.clone(),
            context: self.context.as_deref().map(str::to_string),
            position,
            about: further.about,
            routine: further.routine,
        }
    }
}

/// A place of a statement that begins at `start` of a text, as one of the text.
fn within(at: Position, start: Position) -> Position {
    match at.line {
        1 => Position { line: start.line, column: start.column + at.column - 1 },
        line => Position { line: start.line + line - 1, column: at.column },
    }
}

/// Which character of a text stands at a line and a column, all counted from 1.
fn character_at(text: &str, at: Position) -> u64 {
    let before: usize = text.split_inclusive('\n').take(at.line as usize - 1).map(|line| line.chars().count()).sum();
    before as u64 + at.column
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let position = match &error {
            Error::Syntax { position, .. } | Error::Plan { position, .. } => *position,
            _ => None,
        };
        let mut message = error.to_string();
        if let Some(position) = position {
            // Clients show the place themselves.
            message = message.replacen(&format!(" at {position}"), "", 1);
        }
        let position = position.filter(|at| at.line > 0 && at.column > 0);
        let fault = Fault { position, ..Fault::new(error.code().as_str(), message) };
        match error.about().cloned() {
            Some(about) => fault.told_further(|further| further.about = Some(about)),
            None => fault,
        }
    }
}

impl From<Malformed> for Fault {
    fn from(wrong: Malformed) -> Fault {
        let code = match wrong.0.starts_with("invalid byte sequence") {
            true => codes::CHARACTER_NOT_IN_REPERTOIRE,
            false => codes::PROTOCOL_VIOLATION,
        };
        Fault::new(code, wrong.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_counted_in_characters_of_the_clients_text() {
        let text = "SELECT 1;\nSELECT 'ä',\n  nowhere";
        let start = Position { line: 2, column: 1 };
        let mut fault = Fault::new(codes::SYNTAX_ERROR, "x");
        fault.position = Some(Position { line: 2, column: 3 });
        let place = fault.report(Some((text, start))).position.unwrap();
        assert_eq!(text.chars().nth(place as usize - 1), Some('n'));
        fault.position = Some(Position { line: 1, column: 8 });
        let place = fault.report(Some((text, start))).position.unwrap();
        assert_eq!(text.chars().nth(place as usize - 1), Some('\''));
        assert_eq!(fault.placed(text, start).report(None).position, Some(place));
    }
}
