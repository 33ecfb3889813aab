//! `CREATE`, `ALTER`, `REFRESH` and `DROP MATERIALIZED VIEW`.

use sqlparser::ast::ObjectName;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::solid;
use super::grants;
use super::roles::Words;
use super::{AnyStatement, ScriptPiece, Written};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Position, Result};

/// A statement about materialized views.
#[derive(Debug, Clone)]
pub(crate) enum MaterializedStatement {
    /// `CREATE MATERIALIZED VIEW`.
    Create(Box<NewMaterialized>),
    /// `REFRESH MATERIALIZED VIEW`.
    Refresh { name: ObjectName, is_concurrent: bool, with_data: bool },
    /// `ALTER MATERIALIZED VIEW`, but for its owner: the same of a table.
    Alter { name: ObjectName, if_exists: bool, as_table: Box<AnyStatement> },
    /// `DROP MATERIALIZED VIEW`.
    Drop { names: Vec<ObjectName>, if_exists: bool, cascade: bool },
}

/// A materialized view that is to be.
#[derive(Debug, Clone)]
pub(crate) struct NewMaterialized {
    /// Its name.
    pub name: ObjectName,
    /// Nothing is done where the name is taken.
    pub if_not_exists: bool,
    /// Names for its first columns.
    pub columns: Vec<String>,
    /// What `WITH (placement = '..')` says.
    pub placement: Option<String>,
    /// The query.
    pub query: AnyStatement,
    /// Whether its rows are computed at once.
    pub with_data: bool,
}

/// The statement, if the tokens are one.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<MaterializedStatement>> {
    let (places, solid) = solid(tokens);
    let mut words = Words::of(&solid);
    let Some(verb) = words.word().filter(|_| words.is_at(1, "materialized") && words.is_at(2, "view")) else {
        return Ok(None);
    };
    words.skip(3);
    let found = match verb.as_str() {
        "create" => {
            let new = create(&mut words, tokens, &places)?;
            return Ok(Some(MaterializedStatement::Create(Box::new(new))));
        }
        "refresh" => refresh(&mut words)?,
        "alter" => return alter(&mut words, tokens, &places).map(Some),
        "drop" => {
            let if_exists = take_all(&mut words, &["if", "exists"]);
            let names = grants::object_names(&mut words)?;
            let cascade = words.take("cascade");
            if !cascade {
                words.take("restrict");
            }
            MaterializedStatement::Drop { names, if_exists, cascade }
        }
        _ => return Ok(None),
    };
    match words.is_over() {
        true => Ok(Some(found)),
        false => Err(words.expected("the end of the statement")),
    }
}

/// Takes words that follow each other, if all of them are next.
fn take_all(words: &mut Words<'_>, all: &[&str]) -> bool {
    let are_next = all.iter().enumerate().all(|(place, word)| words.is_at(words.at() + place, word));
    if are_next {
        words.skip(all.len());
    }
    are_next
}

fn refresh(words: &mut Words<'_>) -> Result<MaterializedStatement> {
    let is_concurrent = words.take("concurrently");
    let name = grants::name(words)?;
    let with_data = !take_all(words, &["with", "no", "data"]);
    if with_data {
        take_all(words, &["with", "data"]);
    }
    Ok(MaterializedStatement::Refresh { name, is_concurrent, with_data })
}

fn create(words: &mut Words<'_>, tokens: &[TokenWithSpan], places: &[usize]) -> Result<NewMaterialized> {
    let if_not_exists = take_all(words, &["if", "not", "exists"]);
    let name = grants::name(words)?;
    let mut columns = Vec::new();
    if words.take_token(&Token::LParen) {
        columns = grants::names(words)?;
        if !words.take_token(&Token::RParen) {
            return Err(words.expected("')'"));
        }
    }
    if words.take("using") {
        return Err(Error::Unsupported("USING of a materialized view is not supported; leave it out".into()));
    }
    let placement = if words.take("with") { placement(words)? } else { None };
    if words.take("tablespace") {
        let message = "TABLESPACE of a materialized view is not supported; WITH (placement = '..') says where it lies";
        return Err(Error::Unsupported(message.into()));
    }
    words.expect("as")?;
    let begin = words.at();
    let mut end = places.len();
    let mut with_data = true;
    for (last, data) in [(&["with", "no", "data"][..], false), (&["with", "data"], true)] {
        let from = end.saturating_sub(last.len());
        if from > begin && last.iter().enumerate().all(|(place, word)| words.is_at(from + place, word)) {
            (end, with_data) = (from, data);
            break;
        }
    }
    let Some(&first) = places.get(begin).filter(|_| begin < end) else { return Err(words.expected("a query")) };
    let until = places.get(end).copied().unwrap_or(tokens.len());
    let query = read(&tokens[first..until])?;
    Ok(NewMaterialized { name, if_not_exists, columns, placement, query, with_data })
}

/// The statement that tokens are.
fn read(tokens: &[TokenWithSpan]) -> Result<AnyStatement> {
    let start = tokens.first().map_or(Position { line: 1, column: 1 }, |token| Position {
        line: token.span.start.line,
        column: token.span.start.column,
    });
    let sql = tokens.iter().map(ToString::to_string).collect::<String>();
    let piece = ScriptPiece { sql, start };
    AnyStatement::of(Written { piece, tokens: tokens.to_vec() })
}

/// `(placement = '..')`.
fn placement(words: &mut Words<'_>) -> Result<Option<String>> {
    if !words.take_token(&Token::LParen) {
        return Err(words.expected("'('"));
    }
    let mut placement = None;
    loop {
        let key = words.name()?;
        if key != "placement" {
            let nearest = nearest(&key, ["placement"].into_iter());
            return Err(Error::NotFound { kind: "option of a materialized view", name: key, nearest });
        }
        if !words.take_token(&Token::Eq) {
            return Err(words.expected("'='"));
        }
        let text = match words.word() {
            Some(word) => {
                words.skip(1);
                word
            }
            None => words.text()?,
        };
        if placement.replace(text).is_some() {
            let message = "WITH (..): placement stands twice";
            return Err(Error::plan(SqlState::InvalidParameterValue, message));
        }
        if !words.take_token(&Token::Comma) {
            break;
        }
    }
    match words.take_token(&Token::RParen) {
        true => Ok(placement),
        false => Err(words.expected("')'")),
    }
}

/// What is said of it as a table: a materialized view has no other columns than its query, so most of it is refused
/// when it is done.
fn alter(words: &mut Words<'_>, tokens: &[TokenWithSpan], places: &[usize]) -> Result<MaterializedStatement> {
    let if_exists = take_all(words, &["if", "exists"]);
    let name = grants::name(words)?;
    let mut tokens = tokens.to_vec();
    tokens[places[1]].token = Token::make_keyword("TABLE");
    tokens.remove(places[2]);
    let as_table = Box::new(read(&tokens)?);
    Ok(MaterializedStatement::Alter { name, if_exists, as_table })
}
