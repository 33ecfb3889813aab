//! `CREATE TYPE .. AS ENUM`, `ALTER TYPE`, `DROP TYPE`.

use sqlparser::ast::ObjectName;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::{RECURSION_MAX, normalised};
use crate::error::{Error, Result, syntax};
use crate::sql::dialect::{SqlDialect, ended};

/// A statement about types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TypeStatement {
    /// `CREATE TYPE .. AS ENUM`, and its labels.
    Create { name: ObjectName, labels: Vec<String> },
    /// `ALTER TYPE .. ADD VALUE`.
    AddValue { name: ObjectName, label: String, if_not_exists: bool, place: Option<(Beside, String)> },
    /// `ALTER TYPE .. RENAME VALUE`.
    RenameValue { name: ObjectName, from: String, to: String },
    /// `ALTER TYPE .. RENAME TO`.
    Rename { name: ObjectName, to: String },
    /// `DROP TYPE`.
    Drop { names: Vec<ObjectName>, if_exists: bool, cascade: bool },
}

/// Where a label stands beside another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Below it.
    Before,
    /// Above it.
    After,
}

/// The statement, if the tokens are one.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<TypeStatement>> {
    let solid: Vec<&Token> = tokens.iter().map(|token| &token.token).filter(|token| !is_blank(token)).collect();
    let is_word = |w: &Word, word: &str| w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word);
    let is = |at: usize, word: &str| matches!(solid.get(at), Some(Token::Word(w)) if is_word(w, word));
    if !is(1, "type") || !(is(0, "create") || is(0, "alter") || is(0, "drop")) {
        return Ok(None);
    }
    let parser = Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX);
    let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
    let verb = parser.next_token().token.to_string().to_lowercase();
    parser.next_token();
    let parsed = match verb.as_str() {
        "create" => create(&mut parser)?,
        "alter" => alter(&mut parser)?,
        _ => drop_types(&mut parser).map_err(wrong)?,
    };
    ended(&parser)?;
    Ok(Some(parsed))
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

fn wrong(error: ParserError) -> Error {
    syntax(&error.to_string())
}

fn word(parser: &mut Parser<'_>, word: &str) -> bool {
    let found = matches!(
        parser.peek_token().token,
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word)
    );
    if found {
        parser.next_token();
    }
    found
}

fn create(parser: &mut Parser<'_>) -> Result<TypeStatement> {
    let name = parser.parse_object_name(false).map_err(wrong)?;
    if !parser.parse_keyword(Keyword::AS) || !word(parser, "enum") {
        return Err(Error::Unsupported(format!(
            "CREATE TYPE {name} of another kind is not supported; there is CREATE TYPE .. AS ENUM ('label', ..)"
        )));
    }
    labels(parser, name).map_err(wrong)
}

fn labels(parser: &mut Parser<'_>, name: ObjectName) -> std::result::Result<TypeStatement, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut labels = Vec::new();
    if !parser.consume_token(&Token::RParen) {
        labels = parser.parse_comma_separated(Parser::parse_literal_string)?;
        parser.expect_token(&Token::RParen)?;
    }
    Ok(TypeStatement::Create { name, labels })
}

fn alter(parser: &mut Parser<'_>) -> Result<TypeStatement> {
    let name = parser.parse_object_name(false).map_err(wrong)?;
    if word(parser, "add") && word(parser, "value") {
        return add_value(parser, name).map_err(wrong);
    }
    if word(parser, "rename") {
        if parser.parse_keyword(Keyword::TO) {
            let to = normalised(parser.parse_identifier().map_err(wrong)?);
            return Ok(TypeStatement::Rename { name, to });
        }
        if word(parser, "value") {
            let from = parser.parse_literal_string().map_err(wrong)?;
            parser.expect_keyword(Keyword::TO).map_err(wrong)?;
            let to = parser.parse_literal_string().map_err(wrong)?;
            return Ok(TypeStatement::RenameValue { name, from, to });
        }
    }
    Err(Error::Unsupported(format!(
        "this form of ALTER TYPE {name} is not supported; there are ADD VALUE, RENAME VALUE and RENAME TO"
    )))
}

fn add_value(parser: &mut Parser<'_>, name: ObjectName) -> std::result::Result<TypeStatement, ParserError> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let label = parser.parse_literal_string()?;
    let beside = if word(parser, "before") {
        Some(Beside::Before)
    } else if word(parser, "after") {
        Some(Beside::After)
    } else {
        None
    };
    let place = match beside {
        Some(beside) => Some((beside, parser.parse_literal_string()?)),
        None => None,
    };
    Ok(TypeStatement::AddValue { name, label, if_not_exists, place })
}

fn drop_types(parser: &mut Parser<'_>) -> std::result::Result<TypeStatement, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    if !cascade {
        let _ = parser.parse_keyword(Keyword::RESTRICT);
    }
    Ok(TypeStatement::Drop { names, if_exists, cascade })
}
