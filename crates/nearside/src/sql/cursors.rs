//! DECLARE, FETCH, MOVE and CLOSE: a query whose rows are taken some at a time.
//!
//! ```text
//! DECLARE name [INSENSITIVE | ASENSITIVE] [[NO] SCROLL] CURSOR [WITH | WITHOUT HOLD] FOR query
//! FETCH | MOVE [NEXT | PRIOR | FIRST | LAST | ABSOLUTE n | RELATIVE n | n | ALL
//!     | FORWARD [n | ALL] | BACKWARD [n | ALL]] [FROM | IN] name
//! CLOSE name | ALL
//! ```

use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{AnyStatement, RECURSION_MAX, ScriptPiece, Written, normalised};
use crate::error::{Error, Position, Result};
use crate::sql::dialect::SqlDialect;

/// One of these statements.
#[derive(Debug, Clone)]
pub(crate) enum CursorStatement {
    /// DECLARE.
    Declare(Box<Declared>),
    /// FETCH, or MOVE, which gives no rows.
    Fetch {
        /// The cursor.
        name: String,
        /// Which rows.
        direction: Direction,
        /// MOVE.
        moves: bool,
    },
    /// CLOSE of one, or of all.
    Close(Option<String>),
}

/// What DECLARE says.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    /// The cursor.
    pub name: String,
    /// Whether it goes back, too.
    pub scrolls: bool,
    /// Whether it outlives its transaction.
    pub holds: bool,
    /// The query.
    pub query: AnyStatement,
    /// Its text.
    pub sql: String,
}

/// Which rows are taken, from where a cursor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The next ones, back for less than none; all where no number is said.
    Forward(Option<i64>),
    /// Those before, likewise.
    Backward(Option<i64>),
    /// The one of a number, from the end for less than 0.
    Absolute(i64),
    /// The one so far away.
    Relative(i64),
}

/// What these statements begin with.
const OURS: [&str; 4] = ["declare", "fetch", "move", "close"];

/// The statement, if the tokens are one of these.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<CursorStatement>> {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    let Some(Token::Word(word)) = first.map(|token| &token.token) else { return Ok(None) };
    let Some(which) = OURS.into_iter().find(|own| word.quote_style.is_none() && word.value.eq_ignore_ascii_case(own))
    else {
        return Ok(None);
    };
    let parser = Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX);
    let mut read = Words { parser: parser.with_tokens_with_locations(tokens.to_vec()) };
    read.parser.next_token();
    let statement = match which {
        "declare" => read.declare(tokens)?,
        "close" if read.is_next("all") => CursorStatement::Close(None),
        "close" => CursorStatement::Close(Some(read.name()?)),
        verb => {
            let direction = read.direction()?;
            if !read.is_next("from") {
                read.is_next("in");
            }
            CursorStatement::Fetch { name: read.name()?, direction, moves: verb == "move" }
        }
    };
    if !matches!(statement, CursorStatement::Declare(_)) {
        read.end()?;
    }
    Ok(Some(statement))
}

struct Words<'a> {
    parser: Parser<'a>,
}

impl Words<'_> {
    fn is_next(&mut self, word: &str) -> bool {
        let is = matches!(&self.parser.peek_token().token,
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
        if is {
            self.parser.next_token();
        }
        is
    }

    fn expected<T>(&mut self, what: &str) -> Result<T> {
        let found = self.parser.peek_token();
        let position = Some(Position { line: found.span.start.line, column: found.span.start.column });
        Err(Error::Syntax { message: format!("Expected: {what}, found: {found}"), position })
    }

    fn end(&mut self) -> Result<()> {
        match self.parser.peek_token().token {
            Token::EOF => Ok(()),
            _ => self.expected("end of statement"),
        }
    }

    fn name(&mut self) -> Result<String> {
        match self.parser.parse_identifier() {
            Ok(name) => Ok(normalised(name)),
            Err(_) => {
                self.parser.prev_token();
                self.expected("the name of a cursor")
            }
        }
    }

    /// A number, with a sign or without.
    fn number(&mut self) -> Result<Option<i64>> {
        let is_negative = self.parser.consume_token(&Token::Minus);
        if !is_negative {
            let _ = self.parser.consume_token(&Token::Plus);
        }
        let Token::Number(digits, false) = self.parser.peek_token().token else {
            return if is_negative { self.expected("a number of rows") } else { Ok(None) };
        };
        let Ok(number) = digits.parse::<i64>() else { return self.expected("a whole number of rows") };
        self.parser.next_token();
        Ok(Some(if is_negative { -number } else { number }))
    }

    fn needed_number(&mut self) -> Result<i64> {
        match self.number()? {
            Some(number) => Ok(number),
            None => self.expected("a number of rows"),
        }
    }

    fn direction(&mut self) -> Result<Direction> {
        if let Some(number) = self.number()? {
            return Ok(Direction::Forward(Some(number)));
        }
        if self.is_next("all") {
            return Ok(Direction::Forward(None));
        }
        if self.is_next("absolute") {
            return Ok(Direction::Absolute(self.needed_number()?));
        }
        if self.is_next("relative") {
            return Ok(Direction::Relative(self.needed_number()?));
        }
        for (word, made) in [("forward", Direction::Forward as fn(_) -> _), ("backward", Direction::Backward)] {
            if self.is_next(word) {
                if self.is_next("all") {
                    return Ok(made(None));
                }
                return Ok(made(Some(self.number()?.unwrap_or(1))));
            }
        }
        let words = [
            ("next", Direction::Forward(Some(1))),
            ("prior", Direction::Backward(Some(1))),
            ("first", Direction::Absolute(1)),
            ("last", Direction::Absolute(-1)),
        ];
        let found = words.into_iter().find(|(word, _)| self.is_next(word));
        Ok(found.map_or(Direction::Forward(Some(1)), |(_, direction)| direction))
    }

    fn declare(&mut self, tokens: &[TokenWithSpan]) -> Result<CursorStatement> {
        let name = self.name()?;
        let mut scrolls = false;
        loop {
            if self.is_next("binary") {
                return Err(Error::Unsupported(
                    "a BINARY cursor is not supported; the protocol says in which form rows come".into(),
                ));
            }
            if self.is_next("insensitive") || self.is_next("asensitive") {
                // A cursor sees what was there when it was declared, whatever is said.
                continue;
            }
            if self.is_next("no") {
                if !self.is_next("scroll") {
                    return self.expected("SCROLL behind NO");
                }
                scrolls = false;
                continue;
            }
            if self.is_next("scroll") {
                scrolls = true;
                continue;
            }
            break;
        }
        if !self.is_next("cursor") {
            return self.expected("CURSOR");
        }
        let mut holds = false;
        if self.is_next("with") {
            holds = true;
        } else if !self.is_next("without") {
            return self.query(name, (scrolls, holds), tokens);
        }
        if !self.is_next("hold") {
            return self.expected("HOLD");
        }
        self.query(name, (scrolls, holds), tokens)
    }

    fn query(
        &mut self,
        name: String,
        (scrolls, holds): (bool, bool),
        tokens: &[TokenWithSpan],
    ) -> Result<CursorStatement> {
        if !self.is_next("for") {
            return self.expected("FOR and a query");
        }
        // The end has no place of its own, and a cursor of a cursor is none.
        let next = self.parser.peek_token();
        let begins = matches!(&next.token, Token::LParen)
            || matches!(&next.token, Token::Word(word) if !OURS.iter().any(|own| word.value.eq_ignore_ascii_case(own)));
        if !begins {
            return self.expected("a query");
        }
        let start = next.span.start;
        let rest: Vec<TokenWithSpan> = tokens.iter().filter(|token| token.span.start >= start).cloned().collect();
        let sql = rest.iter().map(ToString::to_string).collect::<String>();
        let piece = ScriptPiece { sql: sql.clone(), start: Position { line: start.line, column: start.column } };
        let query = AnyStatement::of(Written { piece, tokens: rest })?;
        Ok(CursorStatement::Declare(Box::new(Declared { name, scrolls, holds, query, sql })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::only;

    fn read(sql: &str) -> Result<CursorStatement> {
        Ok(statement(&only(sql)?.tokens)?.unwrap())
    }

    #[test]
    fn directions_are_read() {
        use Direction::{Absolute, Backward, Forward, Relative};
        for (text, wanted) in [
            ("FETCH c", Forward(Some(1))),
            ("FETCH FROM c", Forward(Some(1))),
            ("FETCH 5 IN c", Forward(Some(5))),
            ("FETCH -2 c", Forward(Some(-2))),
            ("FETCH ALL c", Forward(None)),
            ("MOVE FORWARD ALL FROM c", Forward(None)),
            ("FETCH FORWARD 3 FROM c", Forward(Some(3))),
            ("FETCH BACKWARD c", Backward(Some(1))),
            ("FETCH BACKWARD ALL c", Backward(None)),
            ("FETCH PRIOR FROM c", Backward(Some(1))),
            ("FETCH FIRST c", Absolute(1)),
            ("FETCH LAST c", Absolute(-1)),
            ("FETCH ABSOLUTE -3 c", Absolute(-3)),
            ("FETCH RELATIVE 0 c", Relative(0)),
        ] {
            match read(text).unwrap() {
                CursorStatement::Fetch { name, direction, moves } => {
                    assert_eq!((name.as_str(), direction, moves), ("c", wanted, text.starts_with("MOVE")), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(read("CLOSE ALL").unwrap(), CursorStatement::Close(None)));
        assert!(matches!(read("CLOSE \"C d\"").unwrap(), CursorStatement::Close(Some(name)) if name == "C d"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in [
            "FETCH",
            "FETCH 1.5 FROM c",
            "FETCH ABSOLUTE c",
            "FETCH c d",
            "CLOSE",
            "DECLARE c CURSOR",
            "DECLARE c CURSOR FOR",
            "DECLARE c CURSOR FOR DECLARE d CURSOR FOR SELECT 1",
            "DECLARE c BINARY CURSOR FOR SELECT 1",
            "DECLARE c CURSOR WITH FOR SELECT 1",
            "DECLARE c NO CURSOR FOR SELECT 1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let CursorStatement::Declare(of) = read("DECLARE C SCROLL CURSOR WITH HOLD FOR SELECT 'a  b'").unwrap() else {
            panic!()
        };
        assert_eq!((of.name.as_str(), of.scrolls, of.holds), ("c", true, true));
    }
}
