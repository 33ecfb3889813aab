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

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, Distinct, ExcludeSelectItem, Expr, FromTable, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind, PipeOperator, Query, ReplaceSelectItem, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, Value, VisitorMut, WildcardAdditionalOptions,
    visit_expressions,
};

use super::fields::name_fields;
use super::normalised;
use super::walk::{outside, rewrite, visit};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::sql::fresh_name;

mod fixed;
mod from_names;
mod levels;
mod looking;
mod names;
mod outputs;
mod pivots;
mod sources;
mod stars;

pub(crate) use fixed::without_stars;
pub(super) use from_names::name_sources;
use from_names::names_itself;
use levels::{Levels, hold, release};
use looking::Looking;
pub(crate) use names::Tables;
use names::left_out;
pub(super) use names::{name_of, output_name, quoted};
use outputs::{distinct_outputs, figured_output, has_output, is_output, keys_of_outputs, keys_of_set, one_output};
pub(super) use sources::binary;
use sources::{FoundColumn, Names, Scope, ShownColumn, unmarked};
use stars::{each_column, has_columns, is_written_out, shown};

/// Writes out what the planner would take otherwise.
///
/// # Errors
/// Columns of USING that a side does not have, or has twice.
pub(super) fn write_out(statement: &mut Statement, tables: Tables<'_>) -> Result<()> {
    let everywhere = visit(statement, &mut Looking::default()).is_break();
    let mut writing = NameWriter {
        names: vec![Names::new(tables)],
        everywhere,
        levels: Levels::default(),
        queries: Vec::new(),
        derived: false,
    };
    rewrite(statement, &mut writing)
}

/// A query that is being visited.
struct OpenQuery {
    /// Its body is one SELECT, which has not been visited yet.
    select: bool,
    /// Whether that has a scope.
    scoped: bool,
    /// How many queries of its WITH are still to come.
    withs: usize,
    /// Whether it does not see the sources of the SELECT that it stands in.
    apart: bool,
}

struct NameWriter<'a> {
    names: Vec<Names<'a>>,
    everywhere: bool,
    levels: Levels,
    queries: Vec<OpenQuery>,
    /// The next query stands in FROM, without LATERAL.
    derived: bool,
}

impl VisitorMut for NameWriter<'_> {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        let Some(names) = self.names.last().filter(|_| self.everywhere) else { return ControlFlow::Continue(()) };
        let scope = match statement {
            ast::Statement::Update(update) => Scope::read(std::slice::from_mut(&mut update.table), names),
            ast::Statement::Delete(ast::Delete { from: FromTable::WithFromKeyword(from), .. }) => {
                Scope::read(from, names)
            }
            _ => return ControlFlow::Continue(()),
        };
        match scope {
            Ok(scope) => self.levels.open(scope),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        let is_open = match statement {
            ast::Statement::Update(_) => true,
            ast::Statement::Delete(delete) => matches!(delete.from, FromTable::WithFromKeyword(_)),
            _ => false,
        };
        if is_open && self.everywhere {
            self.levels.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let apart = self.is_apart();
        if apart {
            self.levels.close();
        }
        let names = self.names.last().map(|names| names.within(query.with.as_ref()));
        self.names.extend(names);
        let withs = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        let mut open = OpenQuery { select: false, scoped: false, withs, apart };
        if let SetExpr::Select(select) = query.body.as_mut() {
            open.select = true;
            if self.everywhere
                || sorts_by_hidden(select, query.order_by.as_ref())
                || names_figured(select, query.order_by.as_ref())
            {
                match self.scope_of(select).and_then(|scope| in_order(query, scope)) {
                    Ok(scope) => self.levels.open(scope),
                    Err(error) => return ControlFlow::Break(error),
                }
                open.scoped = true;
            }
        } else {
            // The names in ORDER BY of a set operation are its outputs.
            if let Err(error) = self.sorted_by_all(query) {
                return ControlFlow::Break(error);
            }
            let columns = self.names.last().and_then(|names| names.of_body(&query.body));
            if let Err(error) = keys_of_set(query.order_by.as_ref(), columns.as_deref()) {
                return ControlFlow::Break(error);
            }
            if let Some(columns) = columns
                && !names_itself(&query.body)
            {
                each_key(&mut query.order_by, |key| {
                    let place = bare(key).and_then(|name| columns.iter().position(|column| *column == name));
                    if let Some(place) = place {
                        *key = Expr::Value(Value::Number((place + 1).to_string(), false).into());
                    }
                });
            }
            each_key(&mut query.order_by, |key| outside(key, &mut hold));
        }
        self.queries.push(open);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.names.pop();
        let Some(open) = self.queries.pop() else { return ControlFlow::Continue(()) };
        if open.scoped {
            self.levels.pop();
        }
        if open.apart {
            self.levels.pop();
        }
        each_key(&mut query.order_by, release);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match self.queries.last_mut() {
            Some(open) if open.select => {}
            _ if self.everywhere => match self.scope_of(select) {
                Ok(scope) => self.levels.open(scope),
                Err(error) => return ControlFlow::Break(error),
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let own = self.queries.last().is_some_and(|open| open.select);
        if !own && self.everywhere {
            self.levels.pop();
        }
        each_group(select, release);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.derived = self.everywhere && matches!(factor, TableFactor::Derived { lateral: false, .. });
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(scope) = self.levels.last().and_then(|scope| scope.at_join(expr)) {
            self.levels.close();
            self.levels.open(scope);
        }
        stars_as_rows(expr);
        // The name of a field is no table's.
        name_fields(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(condition) = unmarked(expr) {
            *expr = condition;
            self.levels.pop();
            self.levels.pop();
        }
        let checked = match expr {
            Expr::Identifier(name) => match self.levels.meant(&normalised(name.clone())) {
                Ok(None) => Ok(self.levels.row_of(name)),
                meant => meant,
            },
            Expr::CompoundIdentifier(names) => self.levels.meant_behind(names),
            _ => return ControlFlow::Continue(()),
        };
        match checked {
            Ok(Some(column)) => *expr = column,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

impl NameWriter<'_> {
    /// Whether the query that comes next does not see the sources of the SELECT around it: it is one of its WITH, or
    /// stands in its FROM without LATERAL.
    fn is_apart(&mut self) -> bool {
        if std::mem::take(&mut self.derived) {
            return true;
        }
        match self.queries.last_mut() {
            Some(around) if around.withs > 0 => {
                around.withs -= 1;
                around.scoped
            }
            _ => false,
        }
    }

    /// Writes out `ORDER BY ALL` of a set operation.
    fn sorted_by_all(&self, query: &mut Query) -> Result<()> {
        let Some(OrderBy { kind, .. }) = &mut query.order_by else { return Ok(()) };
        let OrderByKind::All(options) = kind else { return Ok(()) };
        let columns = self.names.last().and_then(|names| names.of_body(&query.body)).map(|columns| columns.len());
        let Some(columns) = columns else {
            return Err(Error::Unsupported("ORDER BY ALL of columns that are not known; name the columns".into()));
        };
        let key = |place: usize| OrderByExpr {
            expr: Expr::Value(Value::Number(place.to_string(), false).into()),
            options: *options,
            with_fill: None,
        };
        *kind = OrderByKind::Expressions((1..=columns).map(key).collect());
        Ok(())
    }

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
                (SelectItem::Wildcard(options), Some(shown)) if is_written_out(&options) => {
                    items.extend(chosen(&options, shown)?);
                }
                (SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options), _)
                    if is_written_out(&options) =>
                {
                    let Some(shown) = scope.shown_of(&table) else { return Err(unknown_columns()) };
                    items.extend(chosen(&options, &shown)?);
                }
                (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options), _)
                    if is_written_out(&options) =>
                {
                    return Err(unknown_columns());
                }
                (item, Some(shown)) if has_columns(&item) => {
                    let all: Vec<(String, Expr)> =
                        shown.iter().map(|column| (column.name.clone(), column.expr.clone())).collect();
                    items.extend(each_column(&item, &all)?);
                }
                (item, None) if has_columns(&item) => return Err(unknown_columns()),
                (SelectItem::UnnamedExpr(expr), _) => items.push(named_as_written(expr, &scope)),
                (item, _) => items.push(item),
            }
        }
        select.projection = items;
        distinct_outputs(select, &scope)?;
        hold_outputs(select, &scope)?;
        Ok(scope)
    }
}

/// Writes out the names in ORDER BY of a SELECT.
fn in_order(query: &mut Query, scope: Scope) -> Result<Scope> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(scope) };
    each_key(&mut query.order_by, |key| {
        if let Some(output) = figured_output(key, select) {
            *key = output;
        }
    });
    keys_of_outputs(&mut query.order_by, select, &scope)?;
    let mut hidden = hidden(select, query.order_by.as_ref(), &scope);
    hidden.extend(coalesced(select, query.order_by.is_some(), &scope));
    if !hidden.is_empty()
        && let Some(again) = outputs_apart(select, &mut query.order_by, &scope, &hidden)
    {
        query.pipe_operators.insert(0, PipeOperator::Select { exprs: again });
    }
    let select = &*select;
    each_key(&mut query.order_by, |key| match bare(key) {
        Some(name) if is_output(select, &name) => outside(key, &mut hold),
        Some(_) => {}
        None => outside(key, &mut |part| {
            if let Expr::Identifier(name) = part
                && let FoundColumn::One(column) = scope.find(&normalised(name.clone()))
            {
                *part = column.expr.clone();
            }
        }),
    });
    Ok(scope)
}

/// Holds the names in GROUP BY and DISTINCT ON that are outputs and no columns of the SELECT's own.
///
/// # Errors
/// Names of several outputs that are not the same.
fn hold_outputs(select: &mut Select, scope: &Scope) -> Result<()> {
    let outputs = select.projection.clone();
    let mut checked = Ok(());
    let named = select.clone();
    each_group(select, |key| {
        if bare(key).is_some_and(|name| matches!(scope.find(&name), FoundColumn::No))
            && let Some(output) = figured_output(key, &named)
        {
            *key = output;
        }
        if let Some(name) = bare(key)
            && matches!(scope.find(&name), FoundColumn::No)
            && checked.is_ok()
        {
            checked = one_output(&name, &outputs, scope, "GROUP BY");
        }
        outside(key, &mut |part| {
            if let Expr::Identifier(name) = part {
                let name = normalised(name.clone());
                if matches!(scope.find(&name), FoundColumn::No) && has_output(&outputs, &name) {
                    hold(part);
                }
            }
        });
    });
    checked
}

fn each_group(select: &mut Select, mut each: impl FnMut(&mut Expr)) {
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(&mut each);
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        keys.iter_mut().for_each(each);
    }
}

fn each_key(order_by: &mut Option<OrderBy>, mut each: impl FnMut(&mut Expr)) {
    if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by {
        keys.iter_mut().for_each(|key| each(&mut key.expr));
    }
}

/// An output that keeps its name where what it stands for has another.
fn named_as_written(expr: Expr, scope: &Scope) -> SelectItem {
    let Expr::Identifier(written) = &expr else { return SelectItem::UnnamedExpr(expr) };
    let name = normalised(written.clone());
    let meant = match scope.find(&name) {
        FoundColumn::One(ShownColumn { expr: column, source: None, .. }) => Some(column.clone()),
        FoundColumn::No => scope.series(&name).or_else(|| scope.row_of(std::slice::from_ref(written))),
        _ => None,
    };
    match meant {
        Some(column) if name_of(&column).as_deref() != Some(&name) => {
            SelectItem::ExprWithAlias { expr: column, alias: quoted(&name) }
        }
        _ => SelectItem::UnnamedExpr(expr),
    }
}

/// `count(t.*)` is `count(t)`: an argument is the row of a table.
fn stars_as_rows(expr: &mut Expr) {
    let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expr else { return };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table)) = argument
            && let [part] = table.0.as_slice()
            && let Some(table) = part.as_ident()
        {
            let row = Expr::Identifier(table.clone());
            *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(row));
        }
    }
}

fn unknown_columns() -> Error {
    Error::Unsupported(
        "RENAME, ILIKE and COLUMNS(..) over columns that are not known before they are planned; name the columns"
            .into(),
    )
}

/// The columns that a `*` shows which leaves some out by name or pattern, and renames some.
fn chosen(options: &WildcardAdditionalOptions, all: &[ShownColumn]) -> Result<Vec<SelectItem>> {
    let names: Vec<String> = all.iter().map(|column| column.name.clone()).collect();
    let mut replaced: Vec<(String, Expr)> = match &options.opt_replace {
        Some(ReplaceSelectItem { items }) => {
            items.iter().map(|item| (normalised(item.column_name.clone()), item.expr.clone())).collect()
        }
        None => Vec::new(),
    };
    let items = shown(options, &names)?.into_iter().map(|(place, name)| {
        let expr = match replaced.iter().position(|(column, _)| *column == names[place]) {
            Some(at) => replaced.swap_remove(at).1,
            None => all[place].expr.clone(),
        };
        SelectItem::ExprWithAlias { expr, alias: quoted(&name) }
    });
    let items = items.collect();
    match replaced.pop() {
        None => Ok(items),
        Some((name, _)) => Err(Error::NotFound { kind: "column", name, nearest: None }),
    }
}

/// `*` as the columns that it shows.
fn starred(options: WildcardAdditionalOptions, shown: &[ShownColumn], scope: &Scope) -> Result<Vec<SelectItem>> {
    let left_out = left_out(&options)?;
    let mut replaced: Vec<(String, Expr)> = match options.opt_replace {
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
    let mut whole: Vec<usize> = Vec::new();
    for ShownColumn { name, expr, source } in shown {
        if left_out.contains(name) {
            continue;
        }
        if let Some(at) = replaced.iter().position(|(column, _)| column == name) {
            if source.is_some_and(|place| !scope.names_all(place)) {
                return Err(Error::plan(
                    SqlState::SyntaxError,
                    format!("REPLACE ({name}): a column beside it has no name of its own; give it one with AS"),
                ));
            }
            let (_, expr) = replaced.swap_remove(at);
            items.push(SelectItem::ExprWithAlias { expr, alias: quoted(name) });
            continue;
        }
        match source {
            // A column without a name of its own is shown with all of its source's.
            Some(place) if !scope.names_all(*place) => {
                if !whole.contains(place) {
                    items.push(all_of(scope, *place, shown, &left_out)?);
                    whole.push(*place);
                }
            }
            None if name_of(expr).as_ref() != Some(name) => {
                items.push(SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(name) });
            }
            _ => items.push(SelectItem::UnnamedExpr(expr.clone())),
        }
    }
    Ok(items)
}

/// `source.*` without the columns that are merged or left out.
fn all_of(scope: &Scope, place: usize, shown: &[ShownColumn], left_out: &[String]) -> Result<SelectItem> {
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

/// Whether a key of GROUP BY or ORDER BY is the name that an output has without AS, and that is no column's.
fn names_figured(select: &Select, order_by: Option<&OrderBy>) -> bool {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.as_slice(),
        GroupByExpr::All(_) => &[],
    };
    let sorts = match order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) => keys.as_slice(),
        _ => &[],
    };
    groups.iter().chain(sorts.iter().map(|key| &key.expr)).any(|key| figured_output(key, select).is_some())
}

/// Whether an expression in ORDER BY has the name of an output that is no column of that name.
fn sorts_by_hidden(select: &Select, order_by: Option<&OrderBy>) -> bool {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by else { return false };
    keys.iter().any(|key| {
        bare(&key.expr).is_none()
            && visit_expressions(&key.expr, |part| match part {
                Expr::Identifier(name) if is_output(select, &normalised(name.clone())) => ControlFlow::Break(()),
                Expr::CompoundIdentifier(_) if covered(select, part).is_some() => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
            .is_break()
    })
}

/// The name of an output that is another than the column `table.name` of that name: the planner sees no difference.
fn covered(select: &Select, part: &Expr) -> Option<String> {
    let Expr::CompoundIdentifier(names) = part else { return None };
    let name = names.last().cloned().map(normalised).filter(|_| names.len() > 1)?;
    let covers = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            normalised(alias.clone()) == name && name_of(expr).as_deref() != Some(&name)
        }
        _ => false,
    };
    select.projection.iter().any(covers).then_some(name)
}

/// The outputs that have the name of a column which an expression in ORDER BY means.
fn hidden(select: &Select, order_by: Option<&OrderBy>, scope: &Scope) -> Vec<String> {
    let mut hidden = Vec::new();
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by else { return hidden };
    for key in keys.iter().filter(|key| bare(&key.expr).is_none()) {
        let _ = visit_expressions(&key.expr, |part| {
            if let Expr::Identifier(name) = part {
                let name = normalised(name.clone());
                if is_output(select, &name)
                    && matches!(scope.find(&name), FoundColumn::One(_))
                    && !hidden.contains(&name)
                {
                    hidden.push(name);
                }
            } else if let Some(name) = covered(select, part)
                && !hidden.contains(&name)
            {
                hidden.push(name);
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
                let name = output_name(expr).unwrap_or_else(|| expr.to_string());
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

/// The name that a key is, in brackets or not.
fn bare(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(normalised(name.clone())),
        Expr::Nested(inner) => bare(inner),
        _ => None,
    }
}
