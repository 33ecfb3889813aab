//! From text to statements: splitting scripts, our own statements, and DataFusion's parser for the rest.
//!
//! Ours: `ALTER TABLE .. SET PLACEMENT` and `.. NUMA NODE`, `COPY t FROM 'file'`, `EXPORT DATABASE 'folder'`, `IMPORT DATABASE 'folder'`; `COPY .. TO` is parsed by DataFusion and
//! executed by us. Everything else is SQL as DataFusion (sqlparser's generic dialect) reads it.

use std::ops::ControlFlow;

use datafusion::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::ContextProvider;
use datafusion::sql::parser::{CopyToStatement, DFParserBuilder, Statement};
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use datafusion::sql::sqlparser::ast::{self, ObjectName, Value, visit_expressions_mut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::context::PlanContext;
use crate::error::{Error, Position, Result, syntax};
use crate::placement::change::{AlterPlacement, Change};
use crate::planning::deep;

/// How deep expressions may nest.
const RECURSION_MAX: usize = 200;

/// How many operators may follow each other in one expression.
const OPERATORS_MAX: usize = 2000;

/// One statement of a script and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text, without the semicolon.
    pub sql: String,
    /// Where it starts in the script.
    pub start: Position,
}

/// A statement of ours or of DataFusion's.
#[derive(Debug, Clone)]
pub(crate) enum Parsed {
    /// DataFusion's parser took it.
    Sql(Box<Statement>),
    /// `COPY t | (query) TO 'file'`.
    CopyTo(CopyToStatement),
    /// `COPY t FROM 'file'`.
    CopyFrom(CopyFrom),
    /// `ALTER TABLE t SET PLACEMENT ..` and `.. NUMA NODE ..`.
    AlterPlacement(AlterPlacement),
    /// `EXPORT DATABASE 'folder'`.
    Export(String),
    /// `IMPORT DATABASE 'folder'`.
    Import(String),
}

/// `COPY t [(columns)] FROM 'path' [STORED AS format] [[WITH | OPTIONS] (key value, ..)]`.
#[derive(Debug, Clone)]
pub(crate) struct CopyFrom {
    /// The table.
    pub table: ObjectName,
    /// The columns that the file's columns go to, in order; all when empty.
    pub columns: Vec<String>,
    /// File, folder or glob.
    pub path: String,
    /// Options, keys in lower case, `format` among them.
    pub options: Vec<(String, String)>,
}

impl Parsed {
    /// Parses a text that holds exactly one statement.
    pub(crate) fn one(sql: &str) -> Result<Parsed> {
        let mut pieces = split(sql)?;
        match pieces.len() {
            1 => {
                let piece = pieces.remove(0);
                Parsed::parse(&piece.sql).map_err(|e| e.shifted(piece.start))
            }
            0 => Err(Error::syntax("there is no statement in the text")),
            n => Err(Error::syntax(format!("one statement is expected here, and the text holds {n}"))),
        }
    }

    fn parse(sql: &str) -> Result<Parsed> {
        check_tokens(sql)?;
        if let Some(own) = own_statement(sql)? {
            return Ok(own);
        }
        let mut parser = DFParserBuilder::new(sql)
            .with_dialect(&GenericDialect {})
            .with_recursion_limit(RECURSION_MAX)
            .build()
            .map_err(Error::from)?;
        let mut statements = parser.parse_statements().map_err(Error::from)?;
        match (statements.pop_front(), statements.is_empty()) {
            (Some(Statement::CopyTo(copy)), true) => Ok(Parsed::CopyTo(copy)),
            (Some(statement), true) => Ok(Parsed::Sql(Box::new(statement))),
            _ => Err(Error::syntax("one statement is expected here")),
        }
    }

    /// The logical plan of a statement that has one.
    pub(crate) fn plan(self, context: &PlanContext<'_>) -> Result<LogicalPlan> {
        match self {
            Parsed::Sql(statement) => plan_statement(*statement, context),
            Parsed::AlterPlacement(_) => {
                Err(Error::Unsupported("ALTER TABLE cannot be prepared or stand inside another statement".into()))
            }
            _ => Err(Error::plan("COPY, EXPORT and IMPORT cannot stand inside another statement")),
        }
    }
}

/// Plans one of DataFusion's statements.
pub(crate) fn plan_statement(mut statement: Statement, context: &PlanContext<'_>) -> Result<LogicalPlan> {
    mend(&mut statement);
    let planner = SqlToRel::new_with_options(context, parser_options(context.options()));
    Ok(deep(|| planner.statement_to_plan(statement))?)
}

/// Sets right what the parser or the planner would take otherwise than SQL has it.
fn mend(statement: &mut Statement) {
    match statement {
        Statement::Statement(inner) => {
            let _ = visit_expressions_mut(inner.as_mut(), |expr: &mut ast::Expr| {
                bind_distinct_tightly(expr);
                // Numbers with an exponent are DOUBLEs: as decimals, which other numbers with a point are, most would not fit.
                if let ast::Expr::Value(value) = expr
                    && let Value::Number(text, _) = &value.value
                    && text.contains(['e', 'E'])
                {
                    let span = value.span;
                    let text = Value::SingleQuotedString(text.to_string());
                    *expr = ast::Expr::Cast {
                        kind: ast::CastKind::Cast,
                        expr: Box::new(ast::Expr::Value(ast::ValueWithSpan { value: text, span })),
                        data_type: ast::DataType::Double(ast::ExactNumberInfo::None),
                        array: false,
                        format: None,
                    };
                }
                ControlFlow::<()>::Continue(())
            });
        }
        Statement::Explain(explain) => mend(&mut explain.statement),
        _ => {}
    }
}

/// `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`; the parser takes all of `b AND c` to the right of FROM.
fn bind_distinct_tightly(expr: &mut ast::Expr) {
    let (ast::Expr::IsDistinctFrom(_, right) | ast::Expr::IsNotDistinctFrom(_, right)) = &mut *expr else { return };
    if !is_logic(right) {
        return;
    }
    let mut outer = std::mem::replace(right.as_mut(), ast::Expr::Value(Value::Null.into()));
    let mut test = std::mem::replace(expr, ast::Expr::Value(Value::Null.into()));
    // The leftmost operand below the ANDs and ORs is what FROM is about.
    let mut place = &mut outer;
    while is_logic(place) {
        let ast::Expr::BinaryOp { left, .. } = place else { return };
        place = left.as_mut();
    }
    if let ast::Expr::IsDistinctFrom(_, right) | ast::Expr::IsNotDistinctFrom(_, right) = &mut test {
        std::mem::swap(right.as_mut(), place);
    }
    *place = test;
    *expr = outer;
}

fn is_logic(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::BinaryOp { op: ast::BinaryOperator::And | ast::BinaryOperator::Or, .. })
}

/// Refuses what would be ignored, or would exhaust the stack of the threads that plan and evaluate it.
fn check_tokens(sql: &str) -> Result<()> {
    let mut levels = vec![Level::default()];
    for token in tokens(sql)? {
        let position = Some(Position { line: token.span.start.line, column: token.span.start.column });
        match &token.token {
            Token::LParen | Token::LBracket => levels.push(Level::default()),
            Token::RParen | Token::RBracket if levels.len() > 1 => {
                let inner = levels.pop().unwrap_or_default().depth();
                if let Some(level) = levels.last_mut() {
                    level.inner = level.inner.max(inner + 1);
                }
            }
            Token::Comma | Token::SemiColon => {
                if let Some(level) = levels.last_mut() {
                    level.next();
                }
            }
            Token::Word(w) if w.quote_style.is_none() && w.keyword == Keyword::TABLESAMPLE => {
                return Err(Error::Syntax { message: "TABLESAMPLE is not supported".into(), position });
            }
            Token::Word(w) if matches!(w.keyword, Keyword::SELECT | Keyword::FROM | Keyword::WHERE) => {
                if let Some(level) = levels.last_mut() {
                    level.next();
                }
            }
            Token::Word(w) if !matches!(w.keyword, Keyword::AND | Keyword::OR) => {}
            Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::Period => {}
            _ => {
                if let Some(level) = levels.last_mut() {
                    level.operators += 1;
                }
            }
        }
        if levels.last().is_some_and(|level| level.operators + level.inner > OPERATORS_MAX) {
            let message = format!(
                "an expression has more than {OPERATORS_MAX} operators in a row or within each other; use IN, a join with VALUES, or several statements"
            );
            return Err(Error::Syntax { message, position });
        }
    }
    Ok(())
}

/// What stands between two brackets, for how deep its expressions are.
#[derive(Default)]
struct Level {
    /// Operators of the expression that is being read: each is a level of the tree.
    operators: usize,
    /// The deepest brackets within it.
    inner: usize,
    /// The deepest expression before it.
    before: usize,
}

impl Level {
    /// Another expression begins.
    fn next(&mut self) {
        *self = Level { before: self.depth(), ..Level::default() };
    }

    fn depth(&self) -> usize {
        self.before.max(self.operators + self.inner)
    }
}

/// Takes `WITH (placement = '..')` off CREATE TABLE: the planner would refuse it.
///
/// # Errors
/// Other options, and values that are no text.
pub(crate) fn take_placement(statement: &mut Statement) -> Result<Option<String>> {
    let Statement::Statement(inner) = statement else { return Ok(None) };
    let ast::Statement::CreateTable(create) = inner.as_mut() else { return Ok(None) };
    let ast::CreateTableOptions::With(options) = &create.table_options else { return Ok(None) };
    let mut placement = None;
    for option in options {
        let ast::SqlOption::KeyValue { key, value } = option else {
            return Err(Error::plan(format!("WITH ({option}): an option is name = value, as placement = 'ivp'")));
        };
        let key = key.value.to_lowercase();
        if key != "placement" {
            return Err(Error::NotFound { kind: "table option", name: key, nearest: Some("placement".into()) });
        }
        let text = match value {
            ast::Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text.clone(),
            other => other.to_string(),
        };
        if placement.replace(text).is_some() {
            return Err(Error::plan("WITH (..): placement stands twice"));
        }
    }
    create.table_options = ast::CreateTableOptions::None;
    Ok(placement)
}

/// The planner's options as the session's settings say.
pub(crate) fn parser_options(options: &ConfigOptions) -> ParserOptions {
    let sql = &options.sql_parser;
    ParserOptions {
        parse_float_as_decimal: sql.parse_float_as_decimal,
        enable_ident_normalization: sql.enable_ident_normalization,
        support_varchar_with_length: sql.support_varchar_with_length,
        enable_options_value_normalization: sql.enable_options_value_normalization,
        collect_spans: sql.collect_spans,
        map_string_types_to_utf8view: sql.map_string_types_to_utf8view,
        default_null_ordering: sql.default_null_ordering.as_str().into(),
    }
}

fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().map_err(|e| Error::Syntax {
        message: e.message,
        position: Some(Position { line: e.location.line, column: e.location.column }),
    })
}

/// Splits a script at its semicolons; those in strings, quoted names and comments do not count. Empty statements are left out.
pub fn split(script: &str) -> Result<Vec<Piece>> {
    let mut cursor = Cursor::new(script);
    let mut pieces = Vec::new();
    let mut start: Option<(usize, Position)> = None;
    for token in tokens(script)? {
        match token.token {
            Token::Whitespace(_) | Token::EOF => {}
            Token::SemiColon => {
                let end = cursor.byte_at(token.span.start);
                if let Some((from, position)) = start.take() {
                    pieces.push(Piece { sql: script[from..end].to_string(), start: position });
                }
            }
            _ if start.is_none() => {
                let at = token.span.start;
                start = Some((cursor.byte_at(at), Position { line: at.line, column: at.column }));
            }
            _ => {}
        }
    }
    if let Some((from, position)) = start {
        pieces.push(Piece { sql: script[from..].trim_end().to_string(), start: position });
    }
    Ok(pieces)
}

/// True when a prompt need not wait for more: the text is empty or its last statement ends in a semicolon.
pub fn is_complete(text: &str) -> bool {
    let Ok(tokens) = tokens(text) else { return false };
    let last = tokens.iter().rev().find(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF));
    last.is_none_or(|t| t.token == Token::SemiColon)
}

/// Turns ascending line and column places into byte offsets.
struct Cursor<'a> {
    rest: std::str::CharIndices<'a>,
    len: usize,
    line: u64,
    column: u64,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Cursor<'a> {
        Cursor { rest: text.char_indices(), len: text.len(), line: 1, column: 1 }
    }

    fn byte_at(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            match self.rest.next() {
                Some((_, '\n')) => {
                    self.line += 1;
                    self.column = 1;
                }
                Some(_) => self.column += 1,
                None => return self.len,
            }
        }
        self.rest.clone().next().map_or(self.len, |(i, _)| i)
    }
}

fn own_statement(sql: &str) -> Result<Option<Parsed>> {
    let dialect = GenericDialect {};
    let mut parser = match Parser::new(&dialect).with_recursion_limit(RECURSION_MAX).try_with_sql(sql) {
        Ok(parser) => parser,
        Err(e) => return Err(syntax(&e.to_string())),
    };
    let parsed = match parser.peek_token().token {
        Token::Word(w) if w.keyword == Keyword::COPY => copy_from(&mut parser),
        Token::Word(w) if w.keyword == Keyword::ALTER => alter_placement(&mut parser),
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("export") => {
            database(&mut parser).map(|path| Some(Parsed::Export(path)))
        }
        Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("import") => {
            database(&mut parser).map(|path| Some(Parsed::Import(path)))
        }
        _ => return Ok(None),
    };
    let parsed = parsed.map_err(|e| syntax(&e.to_string()))?;
    if parsed.is_some() && parser.peek_token().token != Token::EOF {
        let found = parser.peek_token();
        return Err(Error::Syntax {
            message: format!("Expected: end of statement, found: {found}"),
            position: Some(Position { line: found.span.start.line, column: found.span.start.column }),
        });
    }
    Ok(parsed)
}

/// `EXPORT | IMPORT DATABASE 'folder'`.
fn database(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    parser.next_token();
    parser.expect_keyword(Keyword::DATABASE)?;
    parser.parse_literal_string()
}

/// `ALTER TABLE [IF EXISTS] t [ALTER [COLUMN] c] (SET PLACEMENT .. | [ROWS a TO b] NUMA NODE ..)` and
/// `ALTER TABLE t PARTITION p NUMA NODE ..`; `None` for every other ALTER.
fn alter_placement(parser: &mut Parser<'_>) -> Result<Option<Parsed>, ParserError> {
    if !parser.parse_keywords(&[Keyword::ALTER, Keyword::TABLE]) {
        return Ok(None);
    }
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    // What is wrong with a name is for the other parser to say.
    let Ok(table) = parser.parse_object_name(false) else { return Ok(None) };
    let mut column = None;
    if parser.parse_keyword(Keyword::ALTER) {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        let Ok(name) = parser.parse_identifier() else { return Ok(None) };
        column = Some(normalised(name));
    }
    let change = if word(parser, "set") && word(parser, "placement") {
        let text = placement_text(parser)?;
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
    Ok(Some(Parsed::AlterPlacement(AlterPlacement { table, if_exists, change })))
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

/// A placement as a string, or as words up to the end.
fn placement_text(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    if let Token::SingleQuotedString(text) = parser.peek_token().token {
        parser.next_token();
        return Ok(text);
    }
    let mut text = String::new();
    while parser.peek_token().token != Token::EOF {
        text.push_str(&parser.next_token().token.to_string());
        text.push(' ');
    }
    Ok(text.trim_end().to_string())
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
fn copy_from(parser: &mut Parser<'_>) -> Result<Option<Parsed>, ParserError> {
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
    Ok(Some(Parsed::CopyFrom(CopyFrom { table, columns, path, options })))
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

/// The options of DataFusion's statements in the same shape: keys in lower case, without a `format.` before them, and the
/// format among them.
pub(crate) fn option_pairs(options: &[(String, Value)], format: Option<&str>) -> Vec<(String, String)> {
    let pair = |(key, value): &(String, Value)| {
        let key = key.to_lowercase();
        let key = key.rsplit('.').next().unwrap_or(&key).to_string();
        let text = match value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => s.clone(),
            Value::Number(n, _) => n.to_string(),
            Value::Boolean(b) => b.to_string(),
            other => other.to_string(),
        };
        (key, text)
    };
    let format = format.map(|f| ("format".to_string(), f.to_string()));
    options.iter().map(pair).chain(format).collect()
}

/// SQL folds unquoted names to lower case.
pub(crate) fn normalised(name: datafusion::sql::sqlparser::ast::Ident) -> String {
    if name.quote_style.is_some() { name.value } else { name.value.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        split(script).unwrap().into_iter().map(|p| p.sql).collect()
    }

    #[test]
    fn semicolons_inside_strings_names_and_comments_do_not_split() {
        let script = "select ';' as \"a;b\" -- c;d\n, 1 /* ; */;\n\n ; insert into t values (1);select 2";
        assert_eq!(
            texts(script),
            ["select ';' as \"a;b\" -- c;d\n, 1 /* ; */", "insert into t values (1)", "select 2"]
        );
        assert_eq!(split("\n  ä; select 1").unwrap()[1].start, Position { line: 2, column: 6 });
    }

    #[test]
    fn non_ascii_text_is_cut_at_characters() {
        assert_eq!(texts("select 'äöü€';select 'ß'"), ["select 'äöü€'", "select 'ß'"]);
    }

    #[test]
    fn a_prompt_waits_for_the_semicolon() {
        assert!(is_complete(""));
        assert!(is_complete("select 1;  -- done\n"));
        assert!(!is_complete("select 1"));
        assert!(!is_complete("select 'a;"));
    }

    #[test]
    fn own_statements_are_taken() {
        assert!(matches!(Parsed::one("export database '/a'").unwrap(), Parsed::Export(p) if p == "/a"));
        assert!(matches!(Parsed::one("IMPORT DATABASE 'x';").unwrap(), Parsed::Import(p) if p == "x"));
        assert!(matches!(Parsed::one("copy t to 'x.csv'").unwrap(), Parsed::CopyTo(_)));
        assert!(matches!(Parsed::one("copy (select 1) to 'x.csv'").unwrap(), Parsed::CopyTo(_)));
        let Parsed::CopyFrom(c) =
            Parsed::one("copy s.t (a, \"B\") from 'x' with (format csv, header, delimiter '|')").unwrap()
        else {
            panic!("not a COPY FROM")
        };
        assert_eq!(c.columns, ["a", "B"]);
        let pair = |k: &str, v: &str| (k.to_string(), v.to_string());
        assert_eq!(c.options, [pair("format", "csv"), pair("header", "true"), pair("delimiter", "|")]);
    }

    #[test]
    fn changes_of_placement_are_taken_and_other_alters_are_left() {
        let change = |sql: &str| match Parsed::one(sql).unwrap() {
            Parsed::AlterPlacement(alter) => alter.change,
            other => panic!("{sql}: {other:?}"),
        };
        assert_eq!(change("alter table t set placement 'ivp(4)'"), Change::Table("ivp(4)".into()));
        assert_eq!(
            change("ALTER TABLE s.t SET PLACEMENT pp(4, hash(\"K\"))"),
            Change::Table("pp ( 4 , hash ( \"K\" ) )".into())
        );
        let text = "replicated".to_string();
        assert_eq!(
            change("alter table if exists t alter column C set placement replicated"),
            Change::Column { column: "c".into(), text }
        );
        let nodes = |column: Option<&str>, rows, nodes: &[u32]| Change::Nodes {
            column: column.map(str::to_string),
            rows,
            nodes: nodes.to_vec(),
        };
        assert_eq!(change("alter table t numa node ('0')"), nodes(None, None, &[0]));
        assert_eq!(change("alter table t numa node (1, '3' to '5') immediate"), nodes(None, None, &[1, 3, 4, 5]));
        assert_eq!(change("alter table t numa node null"), nodes(None, None, &[]));
        assert_eq!(change("alter table t alter c numa node 2"), nodes(Some("c"), None, &[2]));
        assert_eq!(change("alter table t rows 0 to 65536 numa node (1)"), nodes(None, Some(0..65536), &[1]));
        assert_eq!(change("alter table t partition 3 numa node ('1')"), Change::Part { part: 3, node: 1 });
        for sql in
            ["alter table t add column c int", "alter table t rename to u", "alter table t alter column c drop default"]
        {
            assert!(matches!(Parsed::one(sql), Ok(Parsed::Sql(_))), "{sql}");
        }
        for sql in [
            "alter table t numa node",
            "alter table t numa node ('x')",
            "alter table t rows 1 numa node (0)",
            "alter table t partition 1 numa node (0, 1)",
            "alter table t numa node (3 to 1)",
        ] {
            assert!(matches!(Parsed::one(sql), Err(Error::Syntax { .. })), "{sql}");
        }
    }

    #[test]
    fn long_chains_of_operators_are_refused_and_long_lists_are_not() {
        let chain = format!("SELECT {}", vec!["a"; 3000].join(" - "));
        let error = Parsed::one(&chain).unwrap_err().to_string();
        assert!(error.contains("2000 operators"), "{error}");
        // Brackets within brackets, each long by itself but not too long.
        let group = |inner: &str| format!("({inner}{})", " + 0".repeat(900));
        let nested = |levels: usize| format!("SELECT {}", (0..levels).fold("1".to_string(), |inner, _| group(&inner)));
        assert!(Parsed::one(&nested(2)).is_ok());
        assert!(Parsed::one(&nested(3)).unwrap_err().to_string().contains("within each other"));
        let beside = format!("SELECT {0}, {0}, {0}", group("1"));
        assert!(Parsed::one(&beside).is_ok());
        let list = format!("SELECT a IN ({}) FROM t", vec!["-1"; 3000].join(", "));
        assert!(Parsed::one(&list).is_ok());
        let rows = format!("INSERT INTO t VALUES {}", vec!["(1, -2 * 3, 'x')"; 3000].join(", "));
        assert!(Parsed::one(&rows).is_ok());
    }

    #[test]
    fn errors_say_where() {
        let error = Parsed::one("\n\n  selec 1").unwrap_err().to_string();
        assert!(error.contains("line 3, column 3"), "{error}");
        let error = Parsed::one("copy t from 'x' nonsense").unwrap_err().to_string();
        assert!(error.contains("line 1, column 17"), "{error}");
    }
}
