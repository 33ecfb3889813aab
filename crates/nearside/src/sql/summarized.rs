//! `SUMMARIZE t` and `SUMMARIZE query`, which the parser does not read.

use datafusion_sql::parser::Statement;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::exclude::{is_word, solid};
use super::{AnyStatement, Written};
use crate::error::{Error, Result};

/// What a query begins with.
const BEGIN: [&str; 5] = ["SELECT", "WITH", "VALUES", "FROM", "TABLE"];

/// What SUMMARIZE is about, as a query; `None` for other statements.
pub(super) fn query(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let (places, words) = solid(tokens);
    if !words.first().is_some_and(|word| is_word(word, "SUMMARIZE")) {
        return None;
    }
    let rest = tokens[places[0] + 1..].to_vec();
    let begins = |word: &TokenWithSpan| word.token == Token::LParen || BEGIN.iter().any(|begin| is_word(word, begin));
    if words.get(1).is_none_or(|word| begins(word)) {
        return Some(rest);
    }
    let blank = Token::Whitespace(Whitespace::Space);
    let select = [Token::make_word("SELECT", None), blank.clone(), Token::Mul, blank.clone()];
    let from = [Token::make_word("FROM", None), blank];
    let mut query: Vec<TokenWithSpan> = select.into_iter().chain(from).map(TokenWithSpan::wrap).collect();
    query.extend(rest);
    Some(query)
}

/// The statement about the query that is written.
///
/// # Errors
/// It is none.
pub(super) fn statement(written: Written) -> Result<AnyStatement> {
    let is_query = |statement: &Statement| match statement {
        Statement::Statement(inner) => matches!(inner.as_ref(), ast::Statement::Query(_)),
        _ => false,
    };
    match AnyStatement::of(written)? {
        AnyStatement::Sql(query) if is_query(&query) => Ok(AnyStatement::Summarize(query)),
        _ => Err(Error::syntax("SUMMARIZE is for a table or a query")),
    }
}
