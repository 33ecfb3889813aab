//! Names that the planner would take for something else than SQL has it, written out: columns that joins by NATURAL and
//! USING merge, columns in ORDER BY that an output has the name of, and functions in FROM named in the place of their
//! one column.
//!
//! Every SELECT's own sources are looked at first, then those around it, so a name is never taken for a column of the
//! wrong query; where the columns of a source are not known, the names below it are left to the planner.
//!
//! In ORDER BY a name alone is an output's first, as in PostgreSQL; within an expression it is an input column's. Where
//! there is no such column it may be an output's there too, which PostgreSQL does not have.

use std::ops::ControlFlow;

use datafusion_sql::parser::{CopyToSource, CopyToStatement, Statement};
use sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, OrderBy, OrderByKind, PipeOperator, Query, ReplaceSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, Value, Visit, VisitMut, Visitor, VisitorMut,
    WildcardAdditionalOptions, visit_expressions, visit_expressions_mut,
};

use super::normalised;
use crate::error::{Error, Result};
use crate::sql::fresh_name;

mod names;
mod sources;

pub(crate) use names::Tables;
pub(super) use names::name_of;
use names::quoted;
pub(super) use sources::binary;
use sources::{Found, Names, Scope, Shown, merged_by};

/// Writes out what the planner would take otherwise.
///
/// # Errors
/// Columns of USING that a side does not have, or has twice.
pub(super) fn write_out(statement: &mut Statement, tables: Tables<'_>) -> Result<()> {
    match statement {
        Statement::Statement(inner) => in_node(inner.as_mut(), tables),
        Statement::Explain(explain) => write_out(&mut explain.statement, tables),
        Statement::CopyTo(CopyToStatement { source: CopyToSource::Query(query), .. }) => {
            in_node(query.as_mut(), tables)
        }
        _ => Ok(()),
    }
}

fn in_node<N: Visit + VisitMut>(node: &mut N, tables: Tables<'_>) -> Result<()> {
    let everywhere = Visit::visit(node, &mut Looking).is_break();
    let mut writing = Writing { names: vec![Names::new(tables)], everywhere, scopes: Vec::new(), queries: Vec::new() };
    match VisitMut::visit(node, &mut writing) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Whether any name of the statement may be one of a merged column or of a function in FROM.
struct Looking;

impl Visitor for Looking {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let merges = select.from.iter().flat_map(|from| &from.joins).any(|j| merged_by(&j.join_operator).is_some());
        if merges { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let nested = match factor {
            TableFactor::Table { args: Some(_), .. } => true,
            TableFactor::NestedJoin { table_with_joins, .. } => {
                table_with_joins.joins.iter().any(|join| merged_by(&join.join_operator).is_some())
            }
            _ => false,
        };
        if nested { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A query that is being visited.
struct Open {
    /// Its body is one SELECT, which has not been visited yet.
    select: bool,
    /// Whether that has a scope.
    scoped: bool,
    /// Keys of ORDER BY that are outputs: nobody may look at them.
    kept: Vec<(usize, Expr)>,
}

struct Writing<'a> {
    names: Vec<Names<'a>>,
    everywhere: bool,
    /// Of the SELECTs around, the innermost last.
    scopes: Vec<Scope>,
    queries: Vec<Open>,
}

impl VisitorMut for Writing<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let names = self.names.last().map(|names| names.within(query.with.as_ref()));
        self.names.extend(names);
        let mut open = Open { select: false, scoped: false, kept: Vec::new() };
        if let SetExpr::Select(select) = query.body.as_mut() {
            open.select = true;
            if self.everywhere || sorts_by_hidden(select, query.order_by.as_ref()) {
                match self.scope_of(select) {
                    Ok(scope) => {
                        let mut hidden = hidden(select, query.order_by.as_ref(), &scope);
                        hidden.extend(coalesced(select, query.order_by.is_some(), &scope));
                        if !hidden.is_empty()
                            && let Some(again) = outputs_apart(select, &mut query.order_by, &scope, &hidden)
                        {
                            query.pipe_operators.insert(0, PipeOperator::Select { exprs: again });
                        }
                        open.kept = keys(&mut query.order_by, select, &scope);
                        self.scopes.push(scope);
                        open.scoped = true;
                    }
                    Err(error) => return ControlFlow::Break(error),
                }
            }
        }
        self.queries.push(open);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.names.pop();
        let Some(open) = self.queries.pop() else { return ControlFlow::Continue(()) };
        if open.scoped {
            self.scopes.pop();
        }
        if let Some(OrderBy { kind: OrderByKind::Expressions(all), .. }) = &mut query.order_by {
            for (place, key) in open.kept {
                all[place].expr = key;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match self.queries.last_mut() {
            Some(open) if open.select => {}
            _ if self.everywhere => match self.scope_of(select) {
                Ok(scope) => self.scopes.push(scope),
                Err(error) => return ControlFlow::Break(error),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Error> {
        let own = self.queries.last().is_some_and(|open| open.select);
        if !own && self.everywhere {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        let name = normalised(name.clone());
        for scope in self.scopes.iter().rev() {
            match scope.find(&name) {
                Found::One(Shown { expr: column, source: None, .. }) => *expr = column.clone(),
                Found::No => match scope.series(&name) {
                    Some(column) => *expr = column,
                    None => continue,
                },
                Found::One(_) | Found::Several | Found::Unknown => {}
            }
            break;
        }
        ControlFlow::Continue(())
    }
}

impl Writing<'_> {
    /// Reads a SELECT's sources, and writes out its joins and its `*`.
    fn scope_of(&self, select: &mut Select) -> Result<Scope> {
        let Some(names) = self.names.last() else { return Err(Error::Internal("a SELECT outside of a query".into())) };
        let scope = Scope::read(&mut select.from, names)?;
        let mut items = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            match (item, &scope.shown) {
                (SelectItem::Wildcard(options), Some(shown)) if scope.merges => {
                    items.extend(starred(options, shown, &scope)?);
                }
                (SelectItem::UnnamedExpr(expr), _) => items.push(named_as_written(expr, &scope)),
                (item, _) => items.push(item),
            }
        }
        select.projection = items;
        Ok(scope)
    }
}

/// An output that keeps its name where what it stands for has another.
fn named_as_written(expr: Expr, scope: &Scope) -> SelectItem {
    let Expr::Identifier(written) = &expr else { return SelectItem::UnnamedExpr(expr) };
    let name = normalised(written.clone());
    let meant = match scope.find(&name) {
        Found::One(Shown { expr: column, source: None, .. }) => Some(column.clone()),
        Found::No => scope.series(&name),
        _ => None,
    };
    match meant {
        Some(column) if name_of(&column).as_deref() != Some(&name) => {
            SelectItem::ExprWithAlias { expr: column, alias: quoted(&name) }
        }
        _ => SelectItem::UnnamedExpr(expr),
    }
}

/// `*` as the columns that it shows.
fn starred(options: WildcardAdditionalOptions, shown: &[Shown], scope: &Scope) -> Result<Vec<SelectItem>> {
    let WildcardAdditionalOptions { opt_exclude, opt_except, opt_replace, .. } = options;
    let mut left_out: Vec<String> = match opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![one_name(&name)?],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(one_name).collect::<Result<_>>()?,
        None => Vec::new(),
    };
    left_out.extend(
        opt_except
            .into_iter()
            .flat_map(|except| std::iter::once(except.first_element).chain(except.additional_elements).map(normalised)),
    );
    let mut replaced: Vec<(String, Expr)> = match opt_replace {
        Some(ReplaceSelectItem { items }) => {
            items.into_iter().map(|item| (normalised(item.column_name), item.expr)).collect()
        }
        None => Vec::new(),
    };
    for name in left_out.iter().chain(replaced.iter().map(|(name, _)| name)) {
        if !shown.iter().any(|column| column.name == *name) {
            let known = shown.iter().map(|column| column.name.as_str());
            let nearest = crate::error::names::nearest(name, known);
            return Err(Error::NotFound { kind: "column", name: name.clone(), nearest });
        }
    }
    let mut items = Vec::with_capacity(shown.len());
    for Shown { name, expr, source } in shown {
        if left_out.contains(name) {
            continue;
        }
        if let Some(at) = replaced.iter().position(|(column, _)| column == name) {
            let (_, expr) = replaced.swap_remove(at);
            items.push(SelectItem::ExprWithAlias { expr, alias: quoted(name) });
            continue;
        }
        match source {
            // A column without a name is shown with all of its source's.
            Some(place) if name.is_empty() => items.push(all_of(scope, *place, shown, &left_out)?),
            Some(place) if scope.source(*place).1.iter().any(String::is_empty) => {}
            None if name_of(expr).as_ref() != Some(name) => {
                items.push(SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(name) });
            }
            _ => items.push(SelectItem::UnnamedExpr(expr.clone())),
        }
    }
    items.dedup();
    Ok(items)
}

/// `source.*` without the columns that are merged or left out.
fn all_of(scope: &Scope, place: usize, shown: &[Shown], left_out: &[String]) -> Result<SelectItem> {
    let (qualifier, columns) = scope.source(place);
    let is_shown = |name: &String| {
        shown.iter().any(|column| column.source == Some(place) && column.name == *name) && !left_out.contains(name)
    };
    let hidden: Vec<ObjectName> =
        columns.iter().filter(|name| !is_shown(name)).map(|name| ObjectName::from(vec![quoted(name)])).collect();
    let opt_exclude = (!hidden.is_empty()).then_some(ExcludeSelectItem::Multiple(hidden));
    let options = WildcardAdditionalOptions { opt_exclude, ..WildcardAdditionalOptions::default() };
    let name = ObjectName::from(qualifier.to_vec());
    Ok(SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options))
}

fn one_name(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned().map(normalised),
        _ => None,
    }
    .ok_or_else(|| Error::plan(format!("EXCLUDE ({name}): a column's name without a table before it")))
}

/// Whether an expression in ORDER BY has the name of an output that is no column of that name.
fn sorts_by_hidden(select: &Select, order_by: Option<&OrderBy>) -> bool {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by else { return false };
    keys.iter().any(|key| {
        bare(&key.expr).is_none()
            && visit_expressions(&key.expr, |part| match part {
                Expr::Identifier(name) if is_output(select, &normalised(name.clone())) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
            .is_break()
    })
}

/// The outputs that have the name of a column which an expression in ORDER BY means.
fn hidden(select: &Select, order_by: Option<&OrderBy>, scope: &Scope) -> Vec<String> {
    let mut hidden = Vec::new();
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by else { return hidden };
    for key in keys.iter().filter(|key| bare(&key.expr).is_none() && !has_query(&key.expr)) {
        let _ = visit_expressions(&key.expr, |part| {
            if let Expr::Identifier(name) = part {
                let name = normalised(name.clone());
                if is_output(select, &name) && matches!(scope.find(&name), Found::One(_)) && !hidden.contains(&name) {
                    hidden.push(name);
                }
            }
            ControlFlow::<()>::Continue(())
        });
    }
    hidden
}

/// The outputs that FULL JOIN made of two columns, where these may be named too.
fn coalesced(select: &Select, sorted: bool, scope: &Scope) -> Vec<String> {
    let Some(shown) = scope.shown.as_ref().filter(|_| scope.merges) else { return Vec::new() };
    let made = shown.iter().filter(|column| column.source.is_none() && name_of(&column.expr).is_none());
    let outputs = |name: &str| {
        let is = |item: &&SelectItem| match item {
            SelectItem::UnnamedExpr(expr) => name_of(expr).as_deref() == Some(name),
            SelectItem::ExprWithAlias { alias, .. } => normalised(alias.clone()) == name,
            _ => true,
        };
        select.projection.iter().filter(is).count()
    };
    let apart = made.filter(|column| is_output(select, &column.name) && (sorted || outputs(&column.name) > 1));
    apart.map(|column| column.name.clone()).collect()
}

/// Gives outputs names that no column has, and returns what gives them their own back behind the sort: the planner does
/// not tell an output from a column of the same name. `None` where the columns of a `*` are not known.
fn outputs_apart(
    select: &mut Select,
    order_by: &mut Option<OrderBy>,
    scope: &Scope,
    hidden: &[String],
) -> Option<Vec<SelectItem>> {
    let mut items = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(options) => {
                items.extend(starred(options.clone(), scope.shown.as_ref()?, scope).ok()?);
            }
            other => items.push(other.clone()),
        }
    }
    let mut again = Vec::with_capacity(items.len());
    let mut taken: Vec<String> = Vec::new();
    let mut renamed: Vec<(String, Ident)> = Vec::new();
    for item in &mut items {
        let (expr, own) = match item {
            SelectItem::ExprWithAlias { alias, .. } if !hidden.contains(&normalised(alias.clone())) => {
                let name = normalised(alias.clone());
                again.push(SelectItem::UnnamedExpr(Expr::Identifier(quoted(&name))));
                taken.push(name);
                continue;
            }
            SelectItem::ExprWithAlias { expr, alias } => (expr, normalised(alias.clone())),
            SelectItem::UnnamedExpr(expr) => {
                let name = name_of(expr).unwrap_or_else(|| expr.to_string());
                (expr, name)
            }
            _ => return None,
        };
        let fresh = quoted(&fresh_name("output"));
        renamed.push((own.clone(), fresh.clone()));
        let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *item = SelectItem::ExprWithAlias { expr, alias: fresh.clone() };
        let free = (1..).map(|number| format!("{own}_{number}"));
        let name = std::iter::once(own.clone()).chain(free).find(|name| !taken.contains(name)).unwrap_or(own);
        again.push(SelectItem::ExprWithAlias { expr: Expr::Identifier(fresh), alias: quoted(&name) });
        taken.push(name);
    }
    select.projection = items;
    if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by {
        for key in keys {
            let of_output = bare(&key.expr).filter(|name| hidden.contains(name));
            let output = of_output.and_then(|name| renamed.iter().find(|(own, _)| *own == name));
            if let Some((_, fresh)) = output {
                key.expr = Expr::Identifier(fresh.clone());
            }
        }
    }
    Some(again)
}

/// Whether an output got this name by AS.
fn is_output(select: &Select, wanted: &str) -> bool {
    let named = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => normalised(alias.clone()) == wanted,
        _ => false,
    };
    select.projection.iter().any(named)
}

/// Writes input columns out in the keys of ORDER BY, and takes those away that are outputs.
fn keys(order_by: &mut Option<OrderBy>, select: &Select, scope: &Scope) -> Vec<(usize, Expr)> {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by else { return Vec::new() };
    let mut kept = Vec::new();
    for (place, key) in keys.iter_mut().enumerate() {
        match bare(&key.expr) {
            Some(name) if is_output(select, &name) => {
                let output = std::mem::replace(&mut key.expr, Expr::Value(Value::Null.into()));
                kept.push((place, output));
            }
            Some(_) => {}
            None if has_query(&key.expr) => {}
            None => {
                let _ = visit_expressions_mut(&mut key.expr, |part| {
                    if let Expr::Identifier(name) = part
                        && let Found::One(column) = scope.find(&normalised(name.clone()))
                    {
                        *part = column.expr.clone();
                    }
                    ControlFlow::<()>::Continue(())
                });
            }
        }
    }
    kept
}

fn has_query(expr: &Expr) -> bool {
    struct Found;
    impl Visitor for Found {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    Visit::visit(expr, &mut Found).is_break()
}

/// The name that a key is, in brackets or not.
fn bare(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(normalised(name.clone())),
        Expr::Nested(inner) => bare(inner),
        _ => None,
    }
}
