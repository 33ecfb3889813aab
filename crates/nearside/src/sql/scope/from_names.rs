//! Names of the columns of what stands in FROM and WITH, where the planner would give them others, or none.
//!
//! ```text
//! (SELECT max(a), b + 1 FROM t) s        (SELECT ..) AS s (max, "?column?")
//! t AS x (a)                             t AS x (a, b, c), where t has more columns
//! generate_series(1, 3) g                generate_series(1, 3) AS g (g); `value` is another name of its column
//! t, unnest(t.list) u                    t, LATERAL (SELECT unnest(t.list)) AS u (u)
//! WITH x .. (WITH x .. FROM x)           WITH x .. (WITH other .. FROM other AS x)
//! ```
//! Of several columns of one name each gets one that nothing else has; who names one of them is told that it is
//! ambiguous. What is not known, and what the planner names as SQL does, is left as it is.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    Expr, FunctionArg, Ident, ObjectName, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
    Value, VisitorMut,
};

use super::super::calls::call;
use super::super::figured::is_column;
use super::super::text_rows::{EXPANDED, FIELDS};
use super::super::walk::{is_any_outside, rewrite};
use super::super::{normalised, parsed};
use super::names::{Tables, quoted};
use super::pivots::as_query;
use super::sources::{FoundColumn, Names, Scope, repeats};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::sql::{fresh_name, is_made, named_otherwise};

/// Names what the planner would not.
///
/// # Errors
/// More names than columns.
pub(in crate::sql) fn name_sources(statement: &mut Statement, tables: Tables<'_>) -> Result<()> {
    rewrite(statement, &mut Sources { frames: Vec::new(), outermost: Names::new(tables) })
}

/// A query that is being visited.
struct Frame<'a> {
    /// What names mean within each query of its WITH, in their order.
    with: Vec<Names<'a>>,
    /// How many of those have been visited.
    visited: usize,
    /// What names mean in its body.
    body: Names<'a>,
}

struct Sources<'a> {
    frames: Vec<Frame<'a>>,
    outermost: Names<'a>,
}

impl VisitorMut for Sources<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let around = match self.frames.last_mut() {
            None => self.outermost.clone(),
            Some(frame) => match frame.with.get(frame.visited) {
                Some(names) => {
                    frame.visited += 1;
                    names.clone()
                }
                None => frame.body.clone(),
            },
        };
        match opened(query, around) {
            Ok(frame) => self.frames.push(frame),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.frames.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let names = self.frames.last().map_or(&self.outermost, |frame| &frame.body);
        rename_reference(factor, names);
        match as_lateral(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let names = self.frames.last().map_or(&self.outermost, |frame| &frame.body);
        match as_query(factor, names).and_then(|()| name_factor(factor, names)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Names the queries of a WITH, and their columns.
fn opened<'a>(query: &mut Query, around: Names<'a>) -> Result<Frame<'a>> {
    let mut frame = Frame { with: Vec::new(), visited: 0, body: around.clone() };
    let Some(with) = &mut query.with else { return Ok(frame) };
    let recursive = with.recursive;
    for cte in &mut with.cte_tables {
        let own = normalised(cte.alias.name.clone());
        if around.cte(&own).is_some() {
            cte.alias.name = quoted(&named_otherwise(&own));
        }
        let within = if recursive { frame.body.with(cte, true) } else { frame.body.clone() };
        if let Some(columns) = within.of_query(&cte.query) {
            let wanted = !names_itself(&cte.query.body) || repeats(&columns);
            name_columns(&own, &mut cte.alias.columns, columns, wanted)?;
        }
        let names = frame.body.with(cte, recursive);
        frame.with.push(if recursive { names.clone() } else { within });
        frame.body = names;
    }
    Ok(frame)
}

/// Has a reference to a common table expression that was renamed name it.
fn rename_reference(factor: &mut TableFactor, names: &Names<'_>) {
    let TableFactor::Table { name, alias, args: None, .. } = factor else { return };
    let [part] = name.0.as_slice() else { return };
    let Some(written) = part.as_ident().cloned().map(normalised) else { return };
    let Some(renamed) = names.cte(&written).filter(|renamed| *renamed != written) else { return };
    *name = ObjectName::from(vec![quoted(renamed)]);
    alias.get_or_insert_with(|| named(&written));
}

/// A function in FROM whose arguments are columns is a query of its own for each row, and so is a series up to a
/// parameter: it has no value when the query is planned.
fn as_lateral(factor: &mut TableFactor) -> Result<()> {
    let reads = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let varies =
        |expr: &Expr| reads(expr) || matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    let calls = match factor {
        TableFactor::UNNEST { array_exprs, with_offset: false, with_ordinality: false, .. } => {
            if !array_exprs.iter().any(|list| is_any_outside(list, &reads)) {
                return Ok(());
            }
            array_exprs.iter().map(|list| call("unnest", vec![list.clone()])).collect::<Vec<_>>()
        }
        TableFactor::Table { name, args: Some(args), with_ordinality: false, .. } => {
            if !args.args.iter().any(|argument| is_any_outside(argument, &varies)) {
                return Ok(());
            }
            vec![series(name, &args.args)?]
        }
        TableFactor::Function { name, args, with_ordinality: false, .. } => vec![series(name, args)?],
        _ => return Ok(()),
    };
    let mut subquery = parsed::query("SELECT 1")?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.projection = calls.into_iter().map(SelectItem::UnnamedExpr).collect();
    }
    let single = matches!(subquery.body.as_ref(), SetExpr::Select(select) if select.projection.len() == 1);
    let (function, alias) = match factor {
        TableFactor::UNNEST { alias, .. } => ("unnest".to_string(), alias.take()),
        TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
            (name.to_string().to_lowercase(), alias.take())
        }
        _ => return Ok(()),
    };
    let mut alias = alias.unwrap_or_else(|| named(&function));
    if single && alias.columns.is_empty() {
        alias.columns = vec![column(&normalised(alias.name.clone()))];
    }
    *factor = TableFactor::Derived { lateral: true, subquery: Box::new(subquery), alias: Some(alias), sample: None };
    Ok(())
}

/// The call that gives the rows of a series in a SELECT list.
fn series(name: &ObjectName, args: &[FunctionArg]) -> Result<Expr> {
    let function = name.to_string().to_lowercase();
    if function != "generate_series" && function != "range" {
        return Err(Error::NotFound { kind: "table function", name: function, nearest: None });
    }
    let given = args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let text = match function.as_str() {
        "range" => format!("SELECT unnest(range({given}))"),
        _ => format!("SELECT generate_series({given})"),
    };
    match *parsed::query(&text)?.body {
        SetExpr::Select(mut select) => match select.projection.pop() {
            Some(SelectItem::UnnamedExpr(expr)) => Ok(expr),
            _ => Err(parsed::other(&text)),
        },
        _ => Err(parsed::other(&text)),
    }
}

fn name_factor(factor: &mut TableFactor, names: &Names<'_>) -> Result<()> {
    match factor {
        TableFactor::Table { name, alias: Some(alias), args: None, .. } if !alias.columns.is_empty() => {
            let shown = normalised(alias.name.clone());
            match names.of_table(name) {
                Some(columns) => name_columns(&shown, &mut alias.columns, columns, false),
                None => Ok(()),
            }
        }
        TableFactor::Table { name, alias, args: Some(_), .. } => {
            let function = name.to_string().to_lowercase();
            let alias = alias.get_or_insert_with(|| named(&function));
            let own = normalised(alias.name.clone());
            let is_expanded = name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value == EXPANDED);
            let columns = if is_expanded { FIELDS.map(String::from).to_vec() } else { vec![own.clone()] };
            name_columns(&own, &mut alias.columns, columns, true)
        }
        TableFactor::UNNEST { alias, array_exprs, .. } => {
            let alias = alias.get_or_insert_with(|| named("unnest"));
            let own = normalised(alias.name.clone());
            let columns = match array_exprs.len() {
                1 => vec![own.clone()],
                lists => vec!["unnest".to_string(); lists],
            };
            name_columns(&own, &mut alias.columns, columns, true)
        }
        TableFactor::Derived { lateral, subquery, alias, .. } => {
            let Some(columns) = names.of_query(subquery) else { return Ok(()) };
            let given = alias.as_ref().map_or(0, |alias| alias.columns.len());
            let of_outer = *lateral && !gives_own(&subquery.body, &names.within(subquery.with.as_ref()));
            let wanted = of_outer || !names_itself(&subquery.body) || repeats(&columns);
            if given == 0 && !wanted {
                return Ok(());
            }
            let alias = alias.get_or_insert_with(|| named(&fresh_name("from")));
            let own = normalised(alias.name.clone());
            name_columns(&own, &mut alias.columns, columns, wanted)
        }
        _ => Ok(()),
    }
}

/// Completes a list of names, which may be empty where nobody wants one.
fn name_columns(of: &str, given: &mut Vec<TableAliasColumnDef>, columns: Vec<String>, wanted: bool) -> Result<()> {
    if given.len() > columns.len() {
        let (n, m) = (columns.len(), given.len());
        let of = if is_made(of) { "a query" } else { &format!("'{of}'") };
        return Err(Error::plan(
            SqlState::InvalidColumnReference,
            format!("{of} has {n} columns, and {m} names are given for them"),
        ));
    }
    let named = |column: &TableAliasColumnDef| normalised(column.name.clone());
    let repeated = |names: &[String]| repeats(names);
    let own: Vec<String> = given.iter().map(named).collect();
    let all: Vec<String> = own.iter().chain(&columns[own.len()..]).cloned().collect();
    let is_whole = own.len() == all.len() || (own.is_empty() && !wanted);
    if is_whole && !repeated(&all) {
        return Ok(());
    }
    let is_alone = |name: &String| all.iter().filter(|other| *other == name).count() == 1;
    let names = all.iter().map(|name| if is_alone(name) { name.clone() } else { named_otherwise(name) });
    *given = names.map(|name| column(&name)).collect();
    Ok(())
}

/// Whether the planner names each output of a query as SQL does.
pub(super) fn names_itself(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            // A column beside a star is called otherwise for the planner (`mend`), since the star may give it as well.
            let is_star =
                |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            let has_star = select.projection.iter().any(is_star);
            select.projection.iter().all(|item| match item {
                SelectItem::UnnamedExpr(expr) => is_column(expr) && !has_star,
                SelectItem::ExprWithAlias { .. } | SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
                SelectItem::ExprWithAliases { .. } => false,
            })
        }
        SetExpr::Query(query) => names_itself(&query.body),
        SetExpr::SetOperation { left, .. } => names_itself(left),
        _ => true,
    }
}

/// Whether the columns that a query gives are those of its own FROM, and not of one around it.
fn gives_own(body: &SetExpr, names: &Names<'_>) -> bool {
    match body {
        SetExpr::Select(select) => {
            let Ok(scope) = Scope::read(&mut select.from.clone(), names) else { return false };
            select.projection.iter().all(|item| match item {
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                    matches!(scope.find(&normalised(name.clone())), FoundColumn::One(_))
                }
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts
                    .split_last()
                    .is_some_and(|(name, table)| scope.column_of(table, &normalised(name.clone())).is_some()),
                SelectItem::UnnamedExpr(_) => false,
                _ => true,
            })
        }
        SetExpr::Query(query) => gives_own(&query.body, &names.within(query.with.as_ref())),
        SetExpr::SetOperation { left, .. } => gives_own(left, names),
        _ => true,
    }
}

fn named(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None }
}

fn column(name: &str) -> TableAliasColumnDef {
    TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None }
}
