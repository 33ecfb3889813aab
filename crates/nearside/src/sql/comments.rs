//! `COMMENT ON`, of which the other parser reads a part.

use sqlparser::ast::{DataType, ObjectName};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{RECURSION_MAX, function_statements, normalised};
use crate::error::{Error, Result, syntax};
use crate::sql::dialect::{SqlDialect, ended};
use crate::sql::roles::RoleName;

/// `COMMENT ON .. IS 'text' | NULL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommentOn {
    /// What it is about.
    pub what: Commented,
    /// What it says; `None` for NULL.
    pub text: Option<String>,
}

/// What a comment is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Commented {
    /// A table, a view, a sequence, a type, an external table, as messages call it.
    Relation { kind: &'static str, name: ObjectName },
    /// A column.
    Column { table: ObjectName, column: String },
    /// A constraint.
    Constraint { table: ObjectName, name: String },
    /// An index.
    Index(ObjectName),
    /// A schema.
    Schema(String),
    /// The database.
    Database(String),
    /// A role.
    Role(RoleName),
    /// A function, and the types that it takes where they are told.
    Function(ObjectName, Option<Vec<DataType>>),
}

/// The statement, if the tokens are one.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<CommentOn>> {
    let mut solid = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut is = |word: &str| {
        let next = solid.next().map(|token| &token.token);
        matches!(next, Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    };
    if !is("comment") || !is("on") {
        return Ok(None);
    }
    let parser = Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX);
    let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
    parser.next_token();
    parser.next_token();
    let what = commented(&mut parser)?;
    let text = said(&mut parser).map_err(wrong)?;
    ended(&parser)?;
    Ok(Some(CommentOn { what, text }))
}

fn wrong(error: ParserError) -> Error {
    syntax(&error.to_string())
}

fn commented(parser: &mut Parser<'_>) -> Result<Commented> {
    let kind = parser.next_token().token.to_string().to_uppercase();
    let relation = |parser: &mut Parser<'_>, kind| {
        Ok(Commented::Relation { kind, name: parser.parse_object_name(false).map_err(wrong)? })
    };
    match kind.as_str() {
        "TABLE" => relation(parser, "table"),
        "VIEW" => relation(parser, "view"),
        "MATERIALIZED" if parser.parse_keyword(Keyword::VIEW) => relation(parser, "materialized view"),
        "SEQUENCE" => relation(parser, "sequence"),
        "TYPE" => relation(parser, "type"),
        "FOREIGN" if parser.parse_keyword(Keyword::TABLE) => relation(parser, "external table"),
        "SCHEMA" => Ok(Commented::Schema(normalised(parser.parse_identifier().map_err(wrong)?))),
        "DATABASE" => Ok(Commented::Database(normalised(parser.parse_identifier().map_err(wrong)?))),
        "ROLE" => Ok(Commented::Role(RoleName::Named(normalised(parser.parse_identifier().map_err(wrong)?)))),
        "FUNCTION" => function_statements::named(parser).map(|(name, types)| Commented::Function(name, types)),
        "INDEX" => Ok(Commented::Index(parser.parse_object_name(false).map_err(wrong)?)),
        "COLUMN" => {
            let mut name = parser.parse_object_name(false).map_err(wrong)?;
            let column = name.0.pop().and_then(|part| part.as_ident().cloned());
            match column.filter(|_| !name.0.is_empty()) {
                Some(column) => Ok(Commented::Column { table: name, column: normalised(column) }),
                None => Err(Error::syntax("COMMENT ON COLUMN takes a table and its column: t.c")),
            }
        }
        "CONSTRAINT" => {
            let name = normalised(parser.parse_identifier().map_err(wrong)?);
            parser.expect_keyword(Keyword::ON).map_err(wrong)?;
            if parser.parse_keyword(Keyword::DOMAIN) {
                return Err(Error::Unsupported(
                    "COMMENT ON CONSTRAINT of a domain is not supported; say it of the domain".into(),
                ));
            }
            Ok(Commented::Constraint { table: parser.parse_object_name(false).map_err(wrong)?, name })
        }
        other => Err(Error::Unsupported(format!(
            "COMMENT ON {other} is not supported; comments are kept of tables, columns, constraints, indexes, views, \
             sequences, types, functions, schemas, roles and the database"
        ))),
    }
}

fn said(parser: &mut Parser<'_>) -> Result<Option<String>, ParserError> {
    parser.expect_keyword(Keyword::IS)?;
    match parser.parse_keyword(Keyword::NULL) {
        true => Ok(None),
        false => match parser.next_token().token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Ok(Some(text)),
            Token::DollarQuotedString(text) => Ok(Some(text.value)),
            other => parser.expected("a text, or NULL", TokenWithSpan::wrap(other)),
        },
    }
}
