//! What INSERT, UPDATE and DELETE say of their table: `DEFAULT` in the place of a value or of all of them, rows that
//! are shorter than the table, the alias of a DELETE, and which casts are the statement's own.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, FromTable, Ident, ObjectName, Query, SelectItem, SetExpr, TableFactor,
    TableObject, TableWithJoins, Value, VisitMut, VisitorMut, visit_expressions,
};

use super::calls::call;
use super::casts::CAST;
use super::overriding::{self, Overriding};
use super::returning::{from_of, joined};
use super::scope::{Tables, output_name, quoted};
use super::values::is_float_type;
use super::walk::rewrite;
use super::{normalised, parsed};
use crate::catalog::rules::Writable;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// A column's default, as it is written; `None` where it has none, which is NULL.
pub(super) type Defaults<'a> = &'a dyn Fn(&ObjectName, &str) -> Result<Option<Expr>>;

/// What a statement may put into a column.
pub(super) type Writables<'a> = &'a dyn Fn(&ObjectName, &str) -> Writable;

/// Writes out what the planner does not read.
///
/// # Errors
/// Defaults that cannot be written.
pub(super) fn write_out(
    statement: &mut Statement,
    tables: Tables<'_>,
    (defaults, writables): (Defaults<'_>, Writables<'_>),
) -> Result<()> {
    rewrite(statement, &mut Writes { tables, defaults, writables })
}

struct Writes<'a> {
    tables: Tables<'a>,
    defaults: Defaults<'a>,
    writables: Writables<'a>,
}

impl VisitorMut for Writes<'_> {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        match in_statement(statement, self.tables, (self.defaults, self.writables)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn in_statement(
    statement: &mut ast::Statement,
    tables: Tables<'_>,
    (defaults, writables): (Defaults<'_>, Writables<'_>),
) -> Result<()> {
    match statement {
        ast::Statement::Update(update) => {
            is_taken_off(update.returning.is_some())?;
            let from = update.from.take();
            from_of(from.as_ref()).iter().try_for_each(has_names_apart)?;
            reads_no_target(&update.table, from_of(from.as_ref()))?;
            update.table = joined(&update.table, from_of(from.as_ref()));
            let TableFactor::Table { name, .. } = &update.table.relation else { return Ok(()) };
            for Assignment { target, value } in &mut update.assignments {
                if let AssignmentTarget::ColumnName(column) = target
                    && let Some(column) = column.0.last().and_then(|part| part.as_ident())
                {
                    let column = normalised(column.clone());
                    let writable = writables(name, &column);
                    if is_default(value) {
                        *value = default_of(name, &column, defaults)?;
                    } else if matches!(writable, Writable::Computed | Writable::NumberedAlways) {
                        return Err(not_given(&column, writable, "can only be updated to DEFAULT"));
                    }
                }
                keep_cast(value);
            }
            keep_others(update, tables);
            Ok(())
        }
        ast::Statement::Insert(insert) => in_insert(insert, tables, (defaults, writables)),
        ast::Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let [table] = from.as_slice() else { return Ok(()) };
            is_taken_off(delete.returning.is_some())?;
            let others = delete.using.take().unwrap_or_default();
            others.iter().try_for_each(has_names_apart)?;
            reads_no_target(table, &others)?;
            let TableFactor::Table { name, alias, args: None, .. } = &table.relation else { return Ok(()) };
            if alias.is_none() && others.is_empty() {
                return Ok(());
            }
            // Of a table that is not there the planner says so.
            let Some(columns) = tables(name) else { return Ok(()) };
            let Some(column) = columns.into_iter().next() else {
                return Err(Error::Unsupported("DELETE with an alias or USING of a table without columns".into()));
            };
            let sql = "UPDATE x SET y = 1";
            let ast::Statement::Update(mut update) = parsed::statement(sql)? else { return Err(parsed::other(sql)) };
            let column = Ident::with_quote('"', column);
            let mut kept = match alias {
                Some(alias) => vec![alias.name.clone()],
                None => name.0.iter().filter_map(|part| part.as_ident().cloned()).collect(),
            };
            kept.push(column.clone());
            update.table = joined(table, &others);
            update.selection = delete.selection.clone();
            update.assignments = vec![Assignment {
                target: AssignmentTarget::ColumnName(ObjectName::from(vec![column.clone()])),
                value: Expr::CompoundIdentifier(kept),
            }];
            keep_others(&mut update, tables);
            *statement = ast::Statement::Update(update);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn in_insert(
    insert: &mut ast::Insert,
    tables: Tables<'_>,
    (defaults, writables): (Defaults<'_>, Writables<'_>),
) -> Result<()> {
    let overriding = overriding::take(insert);
    // Who runs the statement has taken it off.
    if insert.on.is_some() {
        return Err(Error::Unsupported(
            "ON CONFLICT within another statement is not supported; EXPLAIN the query that gives the rows".into(),
        ));
    }
    is_taken_off(insert.returning.is_some())?;
    insert.table_alias = None;
    let TableObject::TableName(name) = &insert.table else { return Ok(()) };
    if insert.source.is_none() {
        insert.source = all_defaults(tables(name).map_or(0, |columns| columns.len()))?;
    }
    let Some(source) = &mut insert.source else { return Ok(()) };
    if insert.columns.is_empty()
        && let Some(given) = outputs(&source.body)
        && let Some(columns) = tables(name).filter(|columns| given < columns.len())
    {
        let first = columns.into_iter().take(given);
        insert.columns = first.map(|column| ObjectName::from(vec![quoted(&column)])).collect();
    }
    let given: Option<Vec<String>> = match insert.columns.is_empty() {
        true => tables(name),
        false => insert.columns.iter().map(named).collect(),
    };
    for column in given.iter().flatten() {
        let writable = writables(name, column);
        let takes_its_own = match (writable, overriding) {
            (Writable::Any, _) | (Writable::NumberedAlways, Some(Overriding::System)) => continue,
            (Writable::NumberedByDefault, None | Some(Overriding::System)) => continue,
            (_, overriding) => overriding == Some(Overriding::User) && writable != Writable::Computed,
        };
        let place = given.iter().flatten().position(|of| of == column);
        match (source.body.as_mut(), place) {
            (SetExpr::Values(values), Some(place)) => {
                let cells = values.rows.iter_mut().filter_map(|row| row.content.get_mut(place));
                for value in cells.filter(|value| !is_default(value)) {
                    if !takes_its_own {
                        return Err(not_given(column, writable, "takes DEFAULT alone"));
                    }
                    *value = Expr::Identifier(Ident::new("DEFAULT"));
                }
            }
            _ if takes_its_own => {
                return Err(Error::Unsupported(format!(
                    "OVERRIDING USER VALUE with a query is not supported; leave column '{column}' out of both"
                )));
            }
            _ => return Err(not_given(column, writable, "takes DEFAULT alone")),
        }
    }
    let SetExpr::Values(values) = source.body.as_mut() else { return Ok(()) };
    if !values.rows.iter().any(|row| row.content.iter().any(is_default)) {
        values.rows.iter_mut().flat_map(|row| row.content.iter_mut()).for_each(keep_cast);
        return Ok(());
    }
    let Some(columns) = given else { return Ok(()) };
    for row in &mut values.rows {
        for (value, column) in row.content.iter_mut().zip(&columns).filter(|(value, _)| is_default(value)) {
            *value = default_of(name, column, defaults)?;
        }
        row.content.iter_mut().for_each(keep_cast);
    }
    Ok(())
}

fn named(column: &ObjectName) -> Option<String> {
    column.0.last().and_then(|part| part.as_ident()).cloned().map(normalised)
}

/// A value for a column that takes none.
fn not_given(column: &str, writable: Writable, what: &str) -> Error {
    let why = match writable {
        Writable::Computed => "it is computed",
        _ => "it is GENERATED ALWAYS AS IDENTITY, and INSERT .. OVERRIDING SYSTEM VALUE gives it others",
    };
    Error::plan(SqlState::GeneratedAlways, format!("column '{column}' {what}: {why}"))
}

/// Has queries of an INSERT read each VALUES within them by a name that `give` makes of it: the planner would take its
/// rows for rows of the table. Rows that refer to others around them stay.
///
/// # Errors
/// Those of `give`.
pub(super) fn give_values(statement: &mut Statement, give: &mut dyn FnMut(Statement) -> Result<String>) -> Result<()> {
    let Statement::Statement(inner) = statement else { return Ok(()) };
    let ast::Statement::Insert(insert) = inner.as_mut() else { return Ok(()) };
    let Some(source) = &mut insert.source else { return Ok(()) };
    if matches!(source.body.as_ref(), SetExpr::Values(_)) && source.with.is_none() {
        return Ok(());
    }
    match source.visit(&mut GiveValues(give)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct GiveValues<'a>(&'a mut dyn FnMut(Statement) -> Result<String>);

impl VisitorMut for GiveValues<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        match self.in_body(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl GiveValues<'_> {
    fn in_body(&mut self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::Values(values) if !names_a_column(values) => {
                let mut query = parsed::query("SELECT * FROM x")?;
                let values = SetExpr::Values(values.clone());
                *query.body = values;
                let name = (self.0)(Statement::Statement(Box::new(ast::Statement::Query(Box::new(query)))))?;
                *body = *parsed::query(&format!("SELECT * FROM {}", crate::sql::quoted(&name)))?.body;
                Ok(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.in_body(left)?;
                self.in_body(right)
            }
            _ => Ok(()),
        }
    }
}

fn names_a_column(values: &ast::Values) -> bool {
    let is_column = |expr: &Expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(values, is_column).is_break()
}

/// Assigns the columns that an UPDATE leaves as they are, where its table's alias is not as the planner folds names: it
/// would take them of another table.
fn keep_others(update: &mut ast::Update, tables: Tables<'_>) {
    let TableFactor::Table { name, alias: Some(alias), .. } = &update.table.relation else { return };
    let own = normalised(alias.name.clone());
    if own.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        return;
    }
    let assigned = update.assignments.iter().filter_map(|assignment| match &assignment.target {
        AssignmentTarget::ColumnName(column) => column.0.last().and_then(|part| part.as_ident()).cloned(),
        AssignmentTarget::Tuple(_) => None,
    });
    let assigned: Vec<String> = assigned.map(normalised).collect();
    let columns = tables(name).unwrap_or_default().into_iter().filter(|column| !assigned.contains(column));
    let kept = columns.map(|column| {
        let column = Ident::with_quote('"', column);
        Assignment {
            target: AssignmentTarget::ColumnName(ObjectName::from(vec![column.clone()])),
            value: Expr::CompoundIdentifier(vec![Ident::with_quote('"', own.clone()), column]),
        }
    });
    update.assignments.extend(kept);
}

/// Refuses a query in FROM or USING of a statement that writes which has several columns of one name.
fn has_names_apart(table: &TableWithJoins) -> Result<()> {
    let factors = std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation));
    for factor in factors {
        let TableFactor::Derived { subquery, alias, .. } = factor else { continue };
        let names_itself = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
        let of_with = subquery.with.iter().flat_map(|with| &with.cte_tables).filter(|cte| cte.alias.columns.is_empty());
        let bodies = of_with.map(|cte| cte.query.body.as_ref());
        for body in bodies.chain((!names_itself).then_some(subquery.body.as_ref())) {
            let SetExpr::Select(select) = body else { continue };
            let mut seen = HashSet::new();
            let names = select.projection.iter().filter_map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(normalised(alias.clone())),
                SelectItem::UnnamedExpr(expr) => output_name(expr),
                _ => None,
            });
            if let Some(name) = names.into_iter().find(|name| !seen.insert(name.clone())) {
                return Err(Error::plan(
                    SqlState::AmbiguousColumn,
                    format!(
                        "column '{name}' is ambiguous: a query in FROM or USING has several columns of that name; give \
                         them names with AS"
                    ),
                ));
            }
        }
    }
    Ok(())
}

/// LATERAL in FROM or USING does not see the table that is written.
fn reads_no_target(target: &TableWithJoins, others: &[TableWithJoins]) -> Result<()> {
    let TableFactor::Table { name, alias, .. } = &target.relation else { return Ok(()) };
    let own = match alias {
        Some(alias) => Some(normalised(alias.name.clone())),
        None => name.0.last().and_then(|part| part.as_ident()).cloned().map(normalised),
    };
    let Some(own) = own else { return Ok(()) };
    let factors = others
        .iter()
        .flat_map(|other| std::iter::once(&other.relation).chain(other.joins.iter().map(|join| &join.relation)));
    for factor in factors {
        let reads = visit_expressions(factor, |part| match part {
            Expr::CompoundIdentifier(names) if names.len() == 2 && normalised(names[0].clone()) == own => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        let is_lateral = match factor {
            TableFactor::Derived { lateral, .. } => *lateral,
            other => matches!(other, TableFactor::UNNEST { .. } | TableFactor::Table { args: Some(_), .. }),
        };
        let redefines = ast::visit_relations(factor, |relation| {
            match relation.0.last().and_then(|part| part.as_ident()).cloned().map(normalised) == Some(own.clone()) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if is_lateral && reads.is_break() && redefines.is_continue() {
            return Err(Error::plan(
                SqlState::InvalidColumnReference,
                format!("'{own}' is the table that is written: what stands in FROM or USING does not see it"),
            ));
        }
    }
    Ok(())
}

/// Whoever runs a statement has taken RETURNING off.
fn is_taken_off(returns: bool) -> Result<()> {
    match returns {
        true => Err(Error::Unsupported(
            "RETURNING within another statement is not supported; EXPLAIN the statement without it".into(),
        )),
        false => Ok(()),
    }
}

/// How many columns a query gives; `None` where it does not tell.
fn outputs(query: &SetExpr) -> Option<usize> {
    match query {
        SetExpr::Values(values) => {
            let length = values.rows.first()?.content.len();
            values.rows.iter().all(|row| row.content.len() == length).then_some(length)
        }
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => outputs(&query.body),
        SetExpr::SetOperation { left, .. } => outputs(left),
        _ => None,
    }
}

/// Tells a cast that a value is from the one that the planner makes for the column.
fn keep_cast(value: &mut Expr) {
    let mut inner = &*value;
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    let Expr::Cast { expr, data_type, .. } = inner else { return };
    // A parameter is of the type that it is cast to, and rows of floats are looked at in VALUES.
    let is_parameter = matches!(expr.as_ref(), Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    if !is_parameter && !is_float_type(data_type) {
        *value = call(CAST, vec![std::mem::replace(value, Expr::Value(Value::Null.into()))]);
    }
}

/// `VALUES (DEFAULT, ..)`, for as many columns.
fn all_defaults(columns: usize) -> Result<Option<Box<Query>>> {
    let row = format!("INSERT INTO x VALUES ({})", vec!["DEFAULT"; columns.max(1)].join(", "));
    match parsed::statement(&row)? {
        ast::Statement::Insert(insert) => Ok(insert.source),
        _ => Err(parsed::other(&row)),
    }
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

fn default_of(table: &ObjectName, column: &str, defaults: Defaults<'_>) -> Result<Expr> {
    Ok(defaults(table, column)?.unwrap_or_else(|| Expr::Value(Value::Null.into())))
}
