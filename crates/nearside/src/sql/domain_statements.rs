//! `CREATE DOMAIN`, `ALTER DOMAIN`, `DROP DOMAIN`.

use sqlparser::ast::{DataType, Expr, ObjectName};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::is_word;
use super::{RECURSION_MAX, normalised};
use crate::error::codes::SqlState;
use crate::error::{Error, Result, syntax};
use crate::sql::dialect::{SqlDialect, ended};

/// A statement about domains.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DomainStatement {
    /// `CREATE DOMAIN`.
    Create(Box<NewDomain>),
    /// `ALTER DOMAIN`.
    Alter {
        /// Which.
        name: ObjectName,
        /// How.
        change: Box<DomainChange>,
    },
    /// `DROP DOMAIN`.
    Drop {
        /// Which.
        names: Vec<ObjectName>,
        /// Those that there are not are passed over.
        if_exists: bool,
        /// With columns and views that have them.
        cascade: bool,
    },
}

/// A domain that is made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewDomain {
    /// Its name.
    pub name: ObjectName,
    /// The type of its values.
    pub data_type: DataType,
    /// DEFAULT.
    pub default: Option<Expr>,
    /// NOT NULL.
    pub is_required: bool,
    /// CHECK, and the names that they were given.
    pub checks: Vec<(Option<String>, Expr)>,
}

/// What becomes of a domain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DomainChange {
    /// SET DEFAULT, DROP DEFAULT.
    Default(Option<Expr>),
    /// SET NOT NULL, DROP NOT NULL.
    Required(bool),
    /// ADD CONSTRAINT.
    Add {
        /// Its name.
        name: Option<String>,
        /// What it says.
        condition: Expr,
        /// Whether values that are there have to keep it.
        is_valid: bool,
    },
    /// DROP CONSTRAINT.
    DropConstraint {
        /// Its name.
        name: String,
        /// One that there is not is passed over.
        if_exists: bool,
    },
    /// VALIDATE CONSTRAINT.
    Validate(String),
    /// RENAME CONSTRAINT.
    RenameConstraint(String, String),
    /// RENAME TO.
    Rename(String),
    /// SET SCHEMA.
    Schema(String),
}

/// The statement, if the tokens are one.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<DomainStatement>> {
    let solid: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let is = |at: usize, word: &str| solid.get(at).is_some_and(|token| is_word(token, word));
    // Who it belongs to is said as of other things.
    let is_owner = is(0, "alter") && solid.windows(2).any(|two| is_word(two[0], "owner") && is_word(two[1], "to"));
    if !is(1, "domain") || !(is(0, "create") || is(0, "alter") || is(0, "drop")) || is_owner {
        return Ok(None);
    }
    let parser = Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX);
    let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
    let verb = parser.next_token().token.to_string().to_lowercase();
    parser.next_token();
    let parsed = match verb.as_str() {
        "create" => create(&mut parser)?,
        "alter" => alter(&mut parser)?,
        _ => dropped(&mut parser).map_err(wrong)?,
    };
    ended(&parser)?;
    Ok(Some(parsed))
}

fn wrong(error: ParserError) -> Error {
    syntax(&error.to_string())
}

fn create(parser: &mut Parser<'_>) -> Result<DomainStatement> {
    let name = parser.parse_object_name(false).map_err(wrong)?;
    let _ = parser.parse_keyword(Keyword::AS);
    let data_type = parser.parse_data_type().map_err(wrong)?;
    let mut domain = NewDomain { name, data_type, default: None, is_required: false, checks: Vec::new() };
    let mut said_null = None;
    loop {
        let named = match parser.parse_keyword(Keyword::CONSTRAINT) {
            true => Some(normalised(parser.parse_identifier().map_err(wrong)?)),
            false => None,
        };
        if parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]) {
            not_both(&mut said_null, true, &domain.name)?;
            domain.is_required = true;
        } else if parser.parse_keyword(Keyword::NULL) {
            not_both(&mut said_null, false, &domain.name)?;
        } else if parser.parse_keyword(Keyword::CHECK) {
            domain.checks.push((named, condition(parser).map_err(wrong)?));
        } else if let Some(named) = named {
            return Err(Error::Unsupported(format!(
                "CONSTRAINT {named} of a domain that is neither CHECK nor NOT NULL is not supported"
            )));
        } else if parser.parse_keyword(Keyword::DEFAULT) {
            if domain.default.is_some() {
                return Err(Error::syntax(format!("domain {}: DEFAULT stands twice; leave one out", domain.name)));
            }
            // NOT NULL behind it is the domain's.
            let above_is = SqlDialect.prec_value(Precedence::Is);
            domain.default = Some(parser.parse_subexpr(above_is).map_err(wrong)?);
        } else if parser.parse_keyword(Keyword::COLLATE) {
            return Err(Error::Unsupported(
                "COLLATE of a domain is not supported: texts are compared by their bytes".into(),
            ));
        } else if let Some(word) = [Keyword::UNIQUE, Keyword::PRIMARY, Keyword::REFERENCES]
            .into_iter()
            .find(|word| parser.parse_keyword(*word))
        {
            return Err(Error::plan(
                SqlState::SyntaxError,
                format!("{word:?} is not for domains; say so of the columns that have it"),
            ));
        } else {
            return Ok(DomainStatement::Create(Box::new(domain)));
        }
    }
}

fn not_both(said: &mut Option<bool>, now: bool, name: &ObjectName) -> Result<()> {
    match said.replace(now) {
        Some(before) if before != now => {
            Err(Error::syntax(format!("domain {name} is both NULL and NOT NULL; leave one out")))
        }
        _ => Ok(()),
    }
}

fn condition(parser: &mut Parser<'_>) -> std::result::Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let condition = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(condition)
}

fn alter(parser: &mut Parser<'_>) -> Result<DomainStatement> {
    let name = parser.parse_object_name(false).map_err(wrong)?;
    let change = change(parser, &name)?;
    Ok(DomainStatement::Alter { name, change: Box::new(change) })
}

fn change(parser: &mut Parser<'_>, name: &ObjectName) -> Result<DomainChange> {
    let ident = |parser: &mut Parser<'_>| parser.parse_identifier().map(normalised).map_err(wrong);
    if parser.parse_keywords(&[Keyword::SET, Keyword::DEFAULT]) {
        return Ok(DomainChange::Default(Some(parser.parse_expr().map_err(wrong)?)));
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::DEFAULT]) {
        return Ok(DomainChange::Default(None));
    }
    if parser.parse_keywords(&[Keyword::SET, Keyword::NOT, Keyword::NULL]) {
        return Ok(DomainChange::Required(true));
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::NOT, Keyword::NULL]) {
        return Ok(DomainChange::Required(false));
    }
    if parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
        return Ok(DomainChange::Schema(ident(parser)?));
    }
    if parser.parse_keyword(Keyword::ADD) {
        let named = match parser.parse_keyword(Keyword::CONSTRAINT) {
            true => Some(ident(parser)?),
            false => None,
        };
        if !parser.parse_keyword(Keyword::CHECK) {
            return Err(Error::Unsupported(format!(
                "ALTER DOMAIN {name} ADD is for CHECK (..); NOT NULL is said by SET NOT NULL"
            )));
        }
        let condition = condition(parser).map_err(wrong)?;
        let is_valid = !parser.parse_keywords(&[Keyword::NOT, Keyword::VALID]);
        return Ok(DomainChange::Add { name: named, condition, is_valid });
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::CONSTRAINT]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = ident(parser)?;
        let _ = parser.parse_one_of_keywords(&[Keyword::RESTRICT, Keyword::CASCADE]);
        return Ok(DomainChange::DropConstraint { name, if_exists });
    }
    if parser.parse_keywords(&[Keyword::VALIDATE, Keyword::CONSTRAINT]) {
        return Ok(DomainChange::Validate(ident(parser)?));
    }
    if parser.parse_keywords(&[Keyword::RENAME, Keyword::CONSTRAINT]) {
        let from = ident(parser)?;
        parser.expect_keyword(Keyword::TO).map_err(wrong)?;
        return Ok(DomainChange::RenameConstraint(from, ident(parser)?));
    }
    if parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        return Ok(DomainChange::Rename(ident(parser)?));
    }
    Err(Error::Unsupported(format!(
        "this form of ALTER DOMAIN {name} is not supported; there are SET and DROP DEFAULT, SET and DROP NOT NULL, \
         ADD, DROP, VALIDATE and RENAME CONSTRAINT, RENAME TO, SET SCHEMA and OWNER TO"
    )))
}

fn dropped(parser: &mut Parser<'_>) -> std::result::Result<DomainStatement, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    if !cascade {
        let _ = parser.parse_keyword(Keyword::RESTRICT);
    }
    Ok(DomainStatement::Drop { names, if_exists, cascade })
}
