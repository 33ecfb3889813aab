//! Statements of ours: what stands in them, word by word.
//!
//! What is wrong with a statement that is not ours is for the other parser to say, so `None` comes early and errors
//! only where it is.

use std::ops::Range;

use sqlparser::ast::ObjectName;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{IsOptional, Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::complete::of_key;
use super::rules::deferral;
use super::{AnyStatement, CopyFrom, RECURSION_MAX, normalised};
use crate::catalog::rules::Deferral;
use crate::error::{Result, syntax};
use crate::sql::dialect::{SqlDialect, ended};

/// `ALTER TABLE [IF EXISTS] t` and what about its placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlterPlacement {
    /// The table.
    pub table: ObjectName,
    /// Nothing is done where the table does not exist.
    pub if_exists: bool,
    /// What is to change.
    pub change: Change,
}

/// What is to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// `SET PLACEMENT ..`.
    Table(String),
    /// `ALTER COLUMN c SET PLACEMENT ..`.
    Column { column: String, text: String },
    /// `[ALTER COLUMN c] [ROWS a TO b] NUMA NODE (..)`; no nodes for `NULL`.
    Nodes { column: Option<String>, rows: Option<Range<u64>>, nodes: Vec<u32> },
    /// `PARTITION p NUMA NODE (..)`.
    Part { part: usize, node: u32 },
}

/// `ALTER TABLE [IF EXISTS] t RENAME CONSTRAINT a TO b`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RenameConstraint {
    /// The table.
    pub table: ObjectName,
    /// Nothing is done where the table does not exist.
    pub if_exists: bool,
    /// Its name.
    pub from: String,
    /// What it is to be called.
    pub to: String,
}

/// `ALTER TABLE [IF EXISTS] t ALTER CONSTRAINT a [NOT] DEFERRABLE ..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlterConstraint {
    /// The table.
    pub table: ObjectName,
    /// Nothing is done where the table does not exist.
    pub if_exists: bool,
    /// Its name.
    pub name: String,
    /// When it is looked at from then on.
    pub deferral: Deferral,
}

/// `SET CONSTRAINTS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetConstraints {
    /// Which; `None` for all that are deferrable.
    pub names: Option<Vec<ObjectName>>,
    /// Whether they are looked at at COMMIT, or by each statement.
    pub is_deferred: bool,
}

/// `ALTER SYSTEM`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AlterSystem {
    /// `SET name = value`.
    Set { name: String, value: String },
    /// `RESET name`, `SET name = DEFAULT`.
    Reset(String),
    /// `RESET ALL`.
    ResetAll,
    /// `UNDO PLACEMENT n`.
    UndoPlacement(u64),
}

/// One of our statements, if the text is one.
///
/// # Errors
/// What is wrong with it.
pub(super) fn own_statement(tokens: &[TokenWithSpan]) -> Result<Option<AnyStatement>> {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    const OURS: [&str; 7] = ["copy", "alter", "export", "import", "checkpoint", "backup", "set"];
    let is_ours = |word: &str| OURS.iter().any(|own| word.eq_ignore_ascii_case(own));
    if !matches!(first.map(|token| &token.token), Some(Token::Word(word)) if is_ours(&word.value)) {
        return Ok(None);
    }
    let parser = Parser::new(&SqlDialect).with_recursion_limit(RECURSION_MAX);
    let mut parser = parser.with_tokens_with_locations(tokens.to_vec());
    let parsed = match parser.peek_token().token {
        Token::Word(w) if w.keyword == Keyword::COPY => copy_from(&mut parser),
        Token::Word(w) if w.keyword == Keyword::ALTER => alter(&mut parser),
        Token::Word(w) if w.keyword == Keyword::SET => set_constraints(&mut parser),
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("export") => {
            database(&mut parser).map(|path| Some(AnyStatement::Export(path)))
        }
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("import") => {
            database(&mut parser).map(|path| Some(AnyStatement::Import(path)))
        }
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("checkpoint") => {
            parser.next_token();
            Ok(Some(AnyStatement::Checkpoint))
        }
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("backup") => {
            backup(&mut parser).map(|path| Some(AnyStatement::Backup(path)))
        }
        _ => return Ok(None),
    };
    let parsed = parsed.map_err(|e| syntax(&e.to_string()))?;
    if parsed.is_some() {
        ended(&parser)?;
    }
    Ok(parsed)
}

/// `EXPORT | IMPORT DATABASE 'folder'`.
fn database(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    parser.next_token();
    parser.expect_keyword(Keyword::DATABASE)?;
    parser.parse_literal_string()
}

/// `BACKUP DATABASE TO 'folder'`.
fn backup(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    parser.next_token();
    parser.expect_keyword(Keyword::DATABASE)?;
    parser.expect_keyword(Keyword::TO)?;
    parser.parse_literal_string()
}

/// `SET CONSTRAINTS (ALL | name, ..) (DEFERRED | IMMEDIATE)`; `None` for every other SET.
fn set_constraints(parser: &mut Parser<'_>) -> Result<Option<AnyStatement>, ParserError> {
    parser.next_token();
    let is_setting = matches!(parser.peek_nth_token(1).token, Token::Eq | Token::Period)
        || matches!(parser.peek_nth_token(1).token, Token::Word(w) if w.keyword == Keyword::TO);
    if is_setting || !word(parser, "constraints") {
        return Ok(None);
    }
    let names = match word(parser, "all") {
        true => None,
        false => Some(parser.parse_comma_separated(|parser| parser.parse_object_name(false))?),
    };
    let is_deferred = match parser.parse_one_of_keywords(&[Keyword::DEFERRED, Keyword::IMMEDIATE]) {
        Some(said) => said == Keyword::DEFERRED,
        None => return parser.expected("DEFERRED or IMMEDIATE", parser.peek_token()),
    };
    Ok(Some(AnyStatement::SetConstraints(SetConstraints { names, is_deferred })))
}

/// The statements of ours that begin with ALTER; `None` for every other one.
fn alter(parser: &mut Parser<'_>) -> Result<Option<AnyStatement>, ParserError> {
    let is_system = |token: &Token| matches!(token, Token::Word(w) if w.value.eq_ignore_ascii_case("system"));
    if !is_system(&parser.peek_nth_token(1).token) {
        return alter_placement(parser);
    }
    parser.next_token();
    parser.next_token();
    alter_system(parser).map(|alter| Some(AnyStatement::AlterSystem(alter)))
}

/// `SET name (= | TO) (value | DEFAULT)`, `RESET (name | ALL)`, `UNDO PLACEMENT n`, behind `ALTER SYSTEM`.
fn alter_system(parser: &mut Parser<'_>) -> Result<AlterSystem, ParserError> {
    if word(parser, "reset") {
        return match is_word(parser, "all") {
            true => {
                parser.next_token();
                Ok(AlterSystem::ResetAll)
            }
            false => Ok(AlterSystem::Reset(setting_name(parser)?)),
        };
    }
    if word(parser, "undo") {
        if !word(parser, "placement") {
            return parser.expected("PLACEMENT and the number of a decision behind UNDO", parser.peek_token());
        }
        return Ok(AlterSystem::UndoPlacement(parser.parse_literal_uint()?));
    }
    if !word(parser, "set") {
        return parser.expected("SET, RESET or UNDO PLACEMENT behind ALTER SYSTEM", parser.peek_token());
    }
    let name = setting_name(parser)?;
    if !parser.consume_token(&Token::Eq) && !parser.parse_keyword(Keyword::TO) {
        return parser.expected("= or TO behind the name of a setting", parser.peek_token());
    }
    if parser.peek_token().token == Token::EOF {
        return parser.expected("the value of a setting", parser.peek_token());
    }
    if word(parser, "default") {
        return Ok(AlterSystem::Reset(name));
    }
    Ok(AlterSystem::Set { name, value: text_or_words(parser) })
}

/// A setting's name in lower case, `nearside.balancer`.
fn setting_name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let name = parser.parse_object_name(false)?;
    let parts = name.0.iter().map(|part| part.as_ident().map_or_else(|| part.to_string(), |name| name.value.clone()));
    Ok(parts.collect::<Vec<_>>().join(".").to_lowercase())
}

/// `ALTER TABLE [IF EXISTS] t [ALTER [COLUMN] c] (SET PLACEMENT .. | [ROWS a TO b] NUMA NODE ..)` and
/// `ALTER TABLE t PARTITION p NUMA NODE ..`; `None` for every other ALTER.
fn alter_placement(parser: &mut Parser<'_>) -> Result<Option<AnyStatement>, ParserError> {
    if !parser.parse_keywords(&[Keyword::ALTER, Keyword::TABLE]) {
        return Ok(None);
    }
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    // What is wrong with a name is for the other parser to say.
    let Ok(table) = parser.parse_object_name(false) else { return Ok(None) };
    if parser.parse_keywords(&[Keyword::RENAME, Keyword::CONSTRAINT]) {
        let from = normalised(parser.parse_identifier()?);
        parser.expect_keyword(Keyword::TO)?;
        let to = normalised(parser.parse_identifier()?);
        return Ok(Some(AnyStatement::RenameConstraint(RenameConstraint { table, if_exists, from, to })));
    }
    if parser.parse_keywords(&[Keyword::ALTER, Keyword::CONSTRAINT]) {
        let name = normalised(parser.parse_identifier()?);
        let said = parser.parse_constraint_characteristics()?;
        if let Some(Err(error)) = said.as_ref().map(of_key) {
            return Err(ParserError::ParserError(error.to_string()));
        }
        let deferral = deferral(said.as_ref());
        return Ok(Some(AnyStatement::AlterConstraint(AlterConstraint { table, if_exists, name, deferral })));
    }
    let mut column = None;
    if parser.parse_keyword(Keyword::ALTER) {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        let Ok(name) = parser.parse_identifier() else { return Ok(None) };
        column = Some(normalised(name));
    }
    let change = if word(parser, "set") && word(parser, "placement") {
        let text = text_or_words(parser);
        match column {
            Some(column) => Change::Column { column, text },
            None => Change::Table(text),
        }
    } else if column.is_none() && parser.parse_keyword(Keyword::PARTITION) {
        let part = parser.parse_literal_uint()? as usize;
        match numa_nodes(parser)?.as_slice() {
            [node] => Change::Part { part, node: *node },
            _ => return parser.expected("one node for a part", parser.peek_token()),
        }
    } else if parser.parse_keyword(Keyword::ROWS) {
        let from = parser.parse_literal_uint()?;
        parser.expect_keyword(Keyword::TO)?;
        let rows = Some(from..parser.parse_literal_uint()?);
        Change::Nodes { column, rows, nodes: numa_nodes(parser)? }
    } else if is_word(parser, "numa") {
        Change::Nodes { column, rows: None, nodes: numa_nodes(parser)? }
    } else {
        return Ok(None);
    };
    Ok(Some(AnyStatement::AlterPlacement(AlterPlacement { table, if_exists, change })))
}

fn is_word(parser: &Parser<'_>, word: &str) -> bool {
    matches!(parser.peek_token().token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

fn word(parser: &mut Parser<'_>, word: &str) -> bool {
    let found = is_word(parser, word);
    if found {
        parser.next_token();
    }
    found
}

/// A placement or a value as a string, or as words up to the end.
fn text_or_words(parser: &mut Parser<'_>) -> String {
    if let Token::SingleQuotedString(text) = parser.peek_token().token {
        parser.next_token();
        return text;
    }
    let mut text = String::new();
    while parser.peek_token().token != Token::EOF {
        text.push_str(&parser.next_token().token.to_string());
        text.push(' ');
    }
    text.trim_end().to_string()
}

/// `NUMA NODE ('0', '2' TO '3') [IMMEDIATE]`, `NUMA NODE 1`; no nodes for `NUMA NODE NULL`.
fn numa_nodes(parser: &mut Parser<'_>) -> Result<Vec<u32>, ParserError> {
    if !word(parser, "numa") || !word(parser, "node") {
        return parser.expected("NUMA NODE ('node', ..)", parser.peek_token());
    }
    let mut nodes = Vec::new();
    if parser.parse_keyword(Keyword::NULL) {
    } else if parser.consume_token(&Token::LParen) {
        loop {
            let from = node(parser)?;
            let to = if parser.parse_keyword(Keyword::TO) { node(parser)? } else { from };
            if to < from || to - from > 4096 {
                return parser.expected("a range of nodes from the lower to the higher", parser.peek_token());
            }
            nodes.extend((from..=to).filter(|node| !nodes.contains(node)).collect::<Vec<_>>());
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    } else {
        nodes.push(node(parser)?);
    }
    // Other systems ask whether it is to be done now or at the next load; it is always done now.
    word(parser, "immediate");
    Ok(nodes)
}

fn node(parser: &mut Parser<'_>) -> Result<u32, ParserError> {
    let token = parser.next_token();
    let number = match &token.token {
        Token::SingleQuotedString(text) => text.trim().parse().ok(),
        Token::Number(text, _) => text.parse().ok(),
        _ => None,
    };
    match number {
        Some(node) => Ok(node),
        None => parser.expected("a node's number", token),
    }
}

/// `None` when the statement is `COPY .. TO`, which DataFusion parses.
fn copy_from(parser: &mut Parser<'_>) -> Result<Option<AnyStatement>, ParserError> {
    parser.next_token();
    if parser.peek_token().token == Token::LParen {
        return Ok(None);
    }
    let table = parser.parse_object_name(false)?;
    let columns = parser.parse_parenthesized_column_list(IsOptional::Optional, false)?;
    if !parser.parse_keyword(Keyword::FROM) {
        return Ok(None);
    }
    let path = parser.parse_literal_string()?;
    let mut options = Vec::new();
    if parser.parse_keywords(&[Keyword::STORED, Keyword::AS]) {
        options.push(("format".to_string(), parser.parse_identifier()?.value));
    }
    let _ = parser.parse_keyword(Keyword::WITH) || parser.parse_keyword(Keyword::OPTIONS);
    if parser.consume_token(&Token::LParen) {
        loop {
            options.push(option(parser)?);
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    }
    let columns = columns.into_iter().map(normalised).collect();
    Ok(Some(AnyStatement::CopyFrom(CopyFrom { table, columns, path, options })))
}

fn option(parser: &mut Parser<'_>) -> Result<(String, String), ParserError> {
    let key = match parser.next_token().token {
        Token::SingleQuotedString(s) => s,
        Token::Word(w) => w.value,
        other => return parser.expected("the name of an option", TokenWithSpan::wrap(other)),
    };
    let mut key = key.to_lowercase();
    while parser.consume_token(&Token::Period) {
        key = format!("{key}.{}", parser.parse_identifier()?.value.to_lowercase());
    }
    let _ = parser.consume_token(&Token::Eq);
    let value = match parser.peek_token().token {
        Token::Comma | Token::RParen => "true".to_string(),
        _ => value_text(&parser.next_token().token),
    };
    let key = key.rsplit('.').next().unwrap_or(&key).to_string();
    Ok((key, value))
}

fn value_text(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(s) | Token::EscapedStringLiteral(s) => s.clone(),
        Token::Word(w) => w.value.clone(),
        Token::Number(n, _) => n.clone(),
        other => other.to_string(),
    }
}
