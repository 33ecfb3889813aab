//! `FOR UPDATE`, `FOR NO KEY UPDATE`, `FOR SHARE` and `FOR KEY SHARE` behind a SELECT: the parser knows two of them,
//! with one table, so they are cut out of the tokens.
//!
//! Those of a query within another, of a view, of INSERT .. SELECT and of EXPLAIN stay, and are refused by name.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, Query};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use storage::RowHold;

use super::exclude::{is_word, solid};
use crate::error::{Error, Position, Result};

/// What a statement does where another transaction has locked a row: the first that counts where several are said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    /// It waits.
    Waits,
    /// It leaves the row out.
    Skips,
    /// It fails.
    Fails,
}

/// One clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockClause {
    /// How rows are locked.
    pub kind: RowHold,
    /// Of which tables, by their names in FROM; of all where there is none.
    pub of: Vec<String>,
    /// What is done where another has locked a row.
    pub wait: Wait,
}

/// A query that locks the rows that it gives.
#[derive(Debug, Clone)]
pub(crate) struct LockingSelect {
    /// The query without its clauses.
    pub query: Box<Statement>,
    /// They.
    pub clauses: Vec<LockClause>,
    /// The names that its WITH gives: what they stand for is not locked.
    pub with: Vec<String>,
}

impl LockClause {
    /// As it is written.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            RowHold::KeyShare => "FOR KEY SHARE",
            RowHold::Share => "FOR SHARE",
            RowHold::NoKeyUpdate => "FOR NO KEY UPDATE",
            RowHold::Update | RowHold::Death => "FOR UPDATE",
        }
    }
}

impl LockingSelect {
    /// A parsed statement whose clauses were cut out.
    ///
    /// # Errors
    /// It is no query.
    pub(super) fn of(statement: Statement, clauses: Vec<LockClause>) -> Result<LockingSelect> {
        let Some(query) = query_of(&statement) else {
            return Err(Error::syntax(format!("{} stands behind a SELECT", clauses[0].name())));
        };
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        let with = with.map(|table| super::normalised(table.alias.name.clone())).collect();
        Ok(LockingSelect { query: Box::new(statement), clauses, with })
    }
}

fn query_of(statement: &Statement) -> Option<&Query> {
    match statement {
        Statement::Statement(inner) => match inner.as_ref() {
            ast::Statement::Query(query) => Some(query),
            _ => None,
        },
        _ => None,
    }
}

/// The tokens of a query without its locking clauses, and these.
///
/// # Errors
/// A clause that does not go on as one does.
pub(super) fn without_locking(tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Vec<LockClause>)> {
    let (places, words) = solid(&tokens);
    let is_query = words.first().is_some_and(|first| is_word(first, "SELECT") || is_word(first, "WITH"));
    if !is_query {
        return Ok((tokens, Vec::new()));
    }
    let mut clauses = Vec::new();
    let mut cut = Vec::new();
    let mut depth = 0;
    let mut place = 0;
    while let Some(token) = words.get(place) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth == 0 && is_word(token, "FOR") => {
                let mut clause = Clause { words: &words, place: place + 1 };
                if let Some(read) = clause.read()? {
                    cut.push(places[place]..=places[clause.place - 1]);
                    clauses.push(read);
                    place = clause.place;
                    continue;
                }
            }
            _ => {}
        }
        place += 1;
    }
    if clauses.is_empty() {
        return Ok((tokens, clauses));
    }
    let is_cut = |at: &usize| cut.iter().any(|range| range.contains(at));
    let kept = tokens.iter().enumerate().filter(|(at, _)| !is_cut(at)).map(|(_, token)| token.clone());
    Ok((kept.collect(), clauses))
}

/// A clause that is read.
struct Clause<'a> {
    words: &'a [&'a TokenWithSpan],
    place: usize,
}

impl Clause<'_> {
    fn takes(&mut self, words: &[&str]) -> bool {
        let are_there = words.iter().enumerate().all(|(at, word)| {
            let token = self.words.get(self.place + at);
            token.is_some_and(|token| is_word(token, word))
        });
        self.place += if are_there { words.len() } else { 0 };
        are_there
    }

    /// `None` where it is another clause that begins with FOR.
    fn read(&mut self) -> Result<Option<LockClause>> {
        let kind = match () {
            () if self.takes(&["UPDATE"]) => RowHold::Update,
            () if self.takes(&["NO", "KEY", "UPDATE"]) => RowHold::NoKeyUpdate,
            () if self.takes(&["SHARE"]) => RowHold::Share,
            () if self.takes(&["KEY", "SHARE"]) => RowHold::KeyShare,
            () => return Ok(None),
        };
        let mut of = Vec::new();
        if self.takes(&["OF"]) {
            loop {
                of.push(self.name()?);
                match self.words.get(self.place).map(|token| &token.token) {
                    Some(Token::Comma) => self.place += 1,
                    _ => break,
                }
            }
        }
        let wait = match () {
            () if self.takes(&["NOWAIT"]) => Wait::Fails,
            () if self.takes(&["SKIP", "LOCKED"]) => Wait::Skips,
            () => Wait::Waits,
        };
        Ok(Some(LockClause { kind, of, wait }))
    }

    fn name(&mut self) -> Result<String> {
        let token = self.words.get(self.place).or(self.words.last());
        let position = token.map(|token| Position { line: token.span.start.line, column: token.span.start.column });
        let next = self.words.get(self.place + 1).map(|token| &token.token);
        match self.words.get(self.place).map(|token| &token.token) {
            Some(Token::Word(word)) if !matches!(next, Some(Token::Period)) => {
                self.place += 1;
                Ok(match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                })
            }
            _ => Err(Error::Syntax {
                message: "OF is followed by names of tables as FROM has them, without a schema".into(),
                position,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AnyStatement, only};
    use super::*;

    fn taken(sql: &str) -> Result<(String, Vec<LockClause>)> {
        match AnyStatement::of(only(sql)?)? {
            AnyStatement::Locking(select) => Ok((select.query.to_string(), select.clauses)),
            AnyStatement::Sql(statement) => Ok((statement.to_string(), Vec::new())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clauses_are_taken_off() {
        let clause =
            |kind, of: &[&str], wait| LockClause { kind, of: of.iter().map(|s| s.to_string()).collect(), wait };
        for (sql, query, clauses) in [
            ("SELECT a FROM t FOR UPDATE", "SELECT a FROM t", vec![clause(RowHold::Update, &[], Wait::Waits)]),
            (
                "SELECT a FROM t for no key update of T, \"U\" nowait",
                "SELECT a FROM t",
                vec![clause(RowHold::NoKeyUpdate, &["t", "U"], Wait::Fails)],
            ),
            (
                "SELECT a FROM t FOR SHARE OF t FOR KEY SHARE SKIP LOCKED LIMIT 3",
                "SELECT a FROM t LIMIT 3",
                vec![clause(RowHold::Share, &["t"], Wait::Waits), clause(RowHold::KeyShare, &[], Wait::Skips)],
            ),
            ("SELECT substring(a FROM 1 FOR 2) FROM t", "SELECT SUBSTRING(a FROM 1 FOR 2) FROM t", vec![]),
        ] {
            assert_eq!(taken(sql).unwrap(), (query.to_string(), clauses), "{sql}");
        }
        let error = taken("SELECT a FROM t FOR UPDATE OF s.t").unwrap_err().to_string();
        assert!(error.contains("line 1, column 31") && error.contains("without a schema"), "{error}");
        for within in ["SELECT a FROM (SELECT a FROM t FOR UPDATE) AS x", "INSERT INTO t SELECT a FROM u FOR UPDATE"] {
            let error = taken(within).unwrap_err();
            assert!(matches!(&error, Error::Unsupported(text) if text.contains("FOR UPDATE")), "{error}");
        }
    }
}
