//! `ON CONFLICT` of an INSERT, and the alias of its table: the planner takes neither, so they are taken off, and what
//! DO UPDATE says is planned as an UPDATE of pairs of rows ([`Pairs`]).
//!
//! The parser does not know an alias there, and of a target nothing but columns: an alias is cut out of the tokens and
//! put back into the tree, other targets are refused by name.

use std::ops::ControlFlow;

use datafusion_common::DataFusionError;
use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, ConflictTarget, DoUpdate, Expr, Ident, ObjectName, OnConflict,
    OnConflictAction, OnInsert, TableAliasWithoutColumns, TableFactor, VisitMut, VisitorMut,
};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};
use super::walk::visit_mut;
use super::{normalised, quoted};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::sql::dialect::SqlDialect;

/// The row that was to be inserted, as DO UPDATE names it.
const EXCLUDED: &str = "excluded";

/// What an INSERT says of rows whose key is taken.
#[derive(Debug, Clone)]
pub(crate) struct Conflict {
    /// The table's name within the statement.
    pub alias: String,
    /// Which keys it is about.
    pub target: Target,
    /// What is done with the row that has the key; `None` for DO NOTHING.
    pub update: Option<DoUpdate>,
}

/// Which keys ON CONFLICT is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// All of the table's.
    Any,
    /// That over these columns.
    Columns(Vec<String>),
    /// That of this constraint.
    Constraint(String),
}

/// The table that DO UPDATE is planned over: each row is a row of the table, beside the one that was to be inserted.
pub(crate) struct Pairs<'a> {
    /// What the table is called, which no statement can name.
    pub table: &'a str,
    /// What the statement calls it.
    pub alias: &'a str,
    /// The table's columns.
    pub columns: &'a [String],
    /// What the columns of the row that was to be inserted are called, in the same order.
    pub excluded: &'a [String],
}

/// The tokens without the alias of an INSERT's table.
pub(super) fn without_alias(tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Option<Ident>) {
    let (places, words) = solid(&tokens);
    let Some(insert) = words.windows(2).position(|two| is_word(two[0], "INSERT") && is_word(two[1], "INTO")) else {
        return (tokens, None);
    };
    let is_name = |place: usize| matches!(words.get(place).map(|token| &token.token), Some(Token::Word(_)));
    let mut place = insert + 2;
    while is_name(place) && matches!(words.get(place + 1).map(|token| &token.token), Some(Token::Period)) {
        place += 2;
    }
    let Some((r#as, alias)) = words.get(place + 1).zip(words.get(place + 2)) else { return (tokens, None) };
    let Token::Word(word) = &alias.token else { return (tokens, None) };
    if !is_name(place) || !is_word(r#as, "AS") {
        return (tokens, None);
    }
    let alias = Ident { value: word.value.clone(), quote_style: word.quote_style, span: alias.span };
    let cut = places[place + 1]..=places[place + 2];
    let kept = tokens.iter().enumerate().filter(|(at, _)| !cut.contains(at)).map(|(_, token)| token.clone());
    (kept.collect(), Some(alias))
}

/// Puts the alias of an INSERT's table back.
pub(super) fn put_alias(statement: &mut Statement, alias: &Option<Ident>) {
    struct Put<'a>(&'a Ident);

    impl VisitorMut for Put<'_> {
        type Break = ();

        fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<()> {
            match statement {
                ast::Statement::Insert(insert) => {
                    insert.table_alias = Some(TableAliasWithoutColumns { explicit: true, alias: self.0.clone() });
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }

    if let Some(alias) = alias {
        let _ = visit_mut(statement, &mut Put(alias));
    }
}

/// Whether what follows a parenthesis is a target of ON CONFLICT: behind it stands what is to be done, or for which
/// rows.
fn is_target(inside: &[&TokenWithSpan]) -> bool {
    let mut depth = 1;
    let close = inside.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let behind = close.map_or(&[][..], |close| &inside[close + 1..]);
    match behind {
        [action, ..] if is_word(action, "DO") => true,
        [condition, rest @ ..] if is_word(condition, "WHERE") => rest
            .windows(2)
            .any(|two| is_word(two[0], "DO") && (is_word(two[1], "NOTHING") || is_word(two[1], "UPDATE"))),
        _ => false,
    }
}

/// Refuses targets of ON CONFLICT that the parser does not know.
///
/// # Errors
/// [`Error::Unsupported`] that names what stands there.
pub(super) fn check_target(tokens: &[TokenWithSpan]) -> Result<()> {
    let (_, words) = solid(tokens);
    let starts = words.windows(3).enumerate().filter(|(_, three)| {
        is_word(three[0], "ON") && is_word(three[1], "CONFLICT") && three[2].token == Token::LParen
    });
    for (start, _) in starts {
        let inside = &words[start + 3..];
        // A function of that name may stand in a join's condition.
        if !is_target(inside) {
            continue;
        }
        let end = inside.iter().position(|token| !matches!(token.token, Token::Word(_) | Token::Comma));
        let Some(end) = end else { continue };
        let plain = inside[..end].chunks(2).all(|pair| {
            matches!(pair[0].token, Token::Word(_)) && pair.get(1).is_none_or(|token| token.token == Token::Comma)
        });
        if !plain || inside[end].token != Token::RParen {
            return Err(Error::Unsupported(
                "an expression, COLLATE or an operator class in ON CONFLICT (..) is not supported; name columns".into(),
            ));
        }
        if inside.get(end + 1).is_some_and(|token| is_word(token, "WHERE")) {
            return Err(Error::Unsupported(
                "WHERE behind the columns of ON CONFLICT is not supported: there are no partial indexes; WHERE behind \
                 DO UPDATE SET says which rows change"
                    .into(),
            ));
        }
    }
    Ok(())
}

/// Takes ON CONFLICT and the table's alias off an INSERT.
///
/// # Errors
/// A name of a constraint that is none.
pub(crate) fn take_conflict(statement: &mut Statement) -> Result<Option<Conflict>> {
    let Statement::Statement(inner) = statement else { return Ok(None) };
    let ast::Statement::Insert(insert) = inner.as_mut() else { return Ok(None) };
    let alias = insert.table_alias.take().map(|alias| normalised(alias.alias));
    let Some(OnInsert::OnConflict(OnConflict { conflict_target, action })) =
        insert.on.take_if(|on| matches!(on, OnInsert::OnConflict(_)))
    else {
        return Ok(None);
    };
    let name = |name: &ObjectName| match name.0.as_slice() {
        [part] => part.as_ident().cloned().map(normalised),
        _ => None,
    };
    let alias = match (alias, &insert.table) {
        (Some(alias), _) => alias,
        (None, ast::TableObject::TableName(table)) => {
            table.0.last().and_then(|part| part.as_ident()).cloned().map(normalised).unwrap_or_default()
        }
        (None, _) => String::new(),
    };
    let target = match conflict_target {
        None => Target::Any,
        Some(ConflictTarget::Columns(columns)) => Target::Columns(columns.into_iter().map(normalised).collect()),
        Some(ConflictTarget::OnConstraint(constraint)) => match name(&constraint) {
            Some(name) => Target::Constraint(name),
            None => {
                return Err(Error::plan(
                    SqlState::SyntaxError,
                    format!("'{constraint}' is not the name of a constraint; leave the schema out"),
                ));
            }
        },
    };
    let update = match action {
        OnConflictAction::DoNothing => None,
        OnConflictAction::DoUpdate(update) => Some(update),
    };
    Ok(Some(Conflict { alias, target, update }))
}

/// What DO UPDATE says, as an UPDATE of pairs of rows.
///
/// # Errors
/// Columns that are not there; a table called `excluded`, the statement's or one within a query.
pub(crate) fn as_update(update: &DoUpdate, pairs: &Pairs<'_>) -> Result<Statement> {
    if pairs.alias == EXCLUDED {
        return Err(Error::plan(
            SqlState::DuplicateAlias,
            "'excluded' is the row that was to be inserted; give the table another alias: INSERT INTO t AS x ..",
        ));
    }
    let text = format!("UPDATE {} AS {} SET c = 1", pairs.table, quoted(pairs.alias));
    let parsed = Parser::parse_sql(&SqlDialect, &text).map_err(DataFusionError::from)?;
    let Some(ast::Statement::Update(mut written)) = parsed.into_iter().next() else {
        return Err(Error::Internal("an UPDATE was parsed as something else".into()));
    };
    written.assignments = Vec::new();
    for Assignment { target, value } in &update.assignments {
        let AssignmentTarget::ColumnName(column) = target else {
            return Err(Error::Internal(format!("SET {target} was not taken apart")));
        };
        written.assignments.push(pairs.assignment(column, value.clone())?);
    }
    written.selection = update.selection.clone();
    match written.visit(&mut Rename(pairs)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(Statement::Statement(Box::new(ast::Statement::Update(written)))),
    }
}

impl Pairs<'_> {
    /// `SET column = value`.
    fn assignment(&self, column: &ObjectName, value: Expr) -> Result<Assignment> {
        let [part] = column.0.as_slice() else {
            return Err(Error::plan(
                SqlState::SyntaxError,
                format!("SET {column} = ..: name the column alone, without its table"),
            ));
        };
        let name = part.as_ident().cloned().map(normalised).unwrap_or_default();
        let place = self.place(&name)?;
        let target = ObjectName::from(vec![Ident::with_quote('"', self.columns[place].as_str())]);
        Ok(Assignment { target: AssignmentTarget::ColumnName(target), value })
    }

    fn place(&self, column: &str) -> Result<usize> {
        self.columns.iter().position(|name| name == column).ok_or_else(|| Error::NotFound {
            kind: "column",
            name: column.into(),
            nearest: nearest(column, self.columns.iter().map(String::as_str)),
        })
    }
}

/// Makes `excluded.c` the column of the pairs that it is.
struct Rename<'a>(&'a Pairs<'a>);

impl Rename<'_> {
    fn renamed(&self, expr: &mut Expr) -> Result<()> {
        let Expr::CompoundIdentifier(parts) = expr else { return Ok(()) };
        let [table, column, ..] = parts.as_mut_slice() else { return Ok(()) };
        if normalised(table.clone()) == EXCLUDED {
            let place = self.0.place(&normalised(column.clone()))?;
            *table = Ident::with_quote('"', self.0.alias);
            *column = Ident::with_quote('"', self.0.excluded[place].as_str());
        }
        Ok(())
    }
}

impl VisitorMut for Rename<'_> {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.renamed(expr).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let is_excluded = |name: Option<&Ident>| name.is_some_and(|name| normalised(name.clone()) == EXCLUDED);
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, .. } => (name.0.last().and_then(|part| part.as_ident()), alias.as_ref()),
            TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => (None, alias.as_ref()),
            _ => (None, None),
        };
        if is_excluded(name) || is_excluded(alias.map(|alias| &alias.name)) {
            return ControlFlow::Break(Error::Unsupported(
                "a table called 'excluded' in a query of ON CONFLICT is not supported; give it another alias".into(),
            ));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::text;

    #[test]
    fn aliases_are_cut_out() {
        for (sql, rest, expected) in [
            ("INSERT INTO t AS x VALUES (1)", "INSERT INTO t  VALUES (1)", Some("x")),
            ("insert into s.\"T\" as \"X\" (a) SELECT 1 AS b", "insert into s.\"T\"  (a) SELECT 1 AS b", Some("X")),
            ("PREPARE p AS INSERT INTO t AS x DEFAULT VALUES", "PREPARE p AS INSERT INTO t  DEFAULT VALUES", Some("x")),
            ("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)", None),
            ("INSERT INTO t SELECT 1 AS x", "INSERT INTO t SELECT 1 AS x", None),
            ("SELECT 'INSERT INTO t AS x'", "SELECT 'INSERT INTO t AS x'", None),
            ("INSERT INTO t", "INSERT INTO t", None),
        ] {
            let (tokens, alias) = without_alias(text::tokens(sql).unwrap());
            let text: String = tokens.iter().map(|token| token.token.to_string()).collect();
            assert_eq!((text.as_str(), alias.map(|alias| alias.value).as_deref()), (rest, expected), "{sql}");
        }
    }

    #[test]
    fn targets_that_are_no_columns_are_refused() {
        let check = |target: &str| {
            check_target(&text::tokens(&format!("INSERT INTO t VALUES (1) ON CONFLICT {target} DO NOTHING")).unwrap())
        };
        for target in ["", "(a)", "(a, \"B\")", "ON CONSTRAINT c", "( a /* b */ , b )"] {
            assert!(check(target).is_ok(), "{target}");
        }
        for (target, part) in [
            ("(lower(a))", "an expression"),
            ("(a, (b + 1))", "an expression"),
            ("(a COLLATE \"C\")", "COLLATE"),
            ("(a text_ops)", "operator class"),
            ("(a) WHERE b > 0", "WHERE behind the columns"),
        ] {
            let error = check(target).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("not supported"), "{target}: {error}");
        }
    }
}
