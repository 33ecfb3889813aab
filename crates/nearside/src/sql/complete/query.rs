//! Queries: WITH, SELECT, set operations, ORDER BY, LIMIT and what may stand behind them.

use sqlparser::ast::{
    Cte, CteAsMaterialized, Distinct, ExprWithAlias, ExprWithAliasAndOrderBy, Fetch, GroupByExpr, LimitClause,
    NamedWindowDefinition, NamedWindowExpr, Offset, OrderBy, OrderByKind, OrderByOptions, PipeOperator, Query,
    ReplaceSelectElement, ReplaceSelectItem, Select, SelectFlavor, SelectItem, SetExpr, SetQuantifier, TableAlias,
    Values, WildcardAdditionalOptions, With,
};

use super::expression::{expr, exprs, order_by, order_options};
use super::{function, joined_with, read_by, refuse, refused, refused_text};
use crate::error::Result;

pub(super) fn query(query: &Query) -> Result<()> {
    let Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause: format,
        pipe_operators,
    } = query;
    refuse(&[
        (!locks.is_empty(), "FOR UPDATE or FOR SHARE within another statement; lock the rows by a SELECT of their own"),
        (for_clause.is_some(), "FOR XML, FOR JSON or FOR BROWSE; COPY (query) TO 'file.json' writes JSON"),
        (settings.is_some(), "SETTINGS behind a query; use SET before it"),
        (format.is_some(), "FORMAT behind a query; COPY (query) TO 'file' writes files"),
    ])?;
    // `mend` sees to `with_ties`.
    if let Some(Fetch { with_ties: _, percent, quantity }) = fetch {
        refuse(&[(*percent, "FETCH FIRST .. PERCENT; use percent_rank() or a LIMIT")])?;
        quantity.iter().try_for_each(expr)?;
    }
    if let Some(With { with_token: _, recursive: _, cte_tables }) = with {
        cte_tables.iter().try_for_each(common_table)?;
    }
    set_expr(body)?;
    if let Some(order) = order_by {
        order_all(order)?;
    }
    limit_clause.iter().try_for_each(limit)?;
    pipe_operators.iter().try_for_each(pipe)
}

fn common_table(table: &Cte) -> Result<()> {
    let Cte { alias: name, query: inner, from, materialized, closing_paren_token: _ } = table;
    // `materialized` keeps what was wished for.
    match materialized {
        Some(CteAsMaterialized::Materialized | CteAsMaterialized::NotMaterialized) | None => {}
    }
    refuse(&[(from.is_some(), "WITH .. AS (query) FROM; write the name behind FROM of the query")])?;
    alias(Some(name))?;
    query(inner)
}

/// The alias of a source or of a common table expression.
pub(super) fn alias(alias: Option<&TableAlias>) -> Result<()> {
    let Some(TableAlias { explicit: _, name: _, columns, at }) = alias else { return Ok(()) };
    let typed = columns.iter().any(|column| column.data_type.is_some());
    refuse(&[
        (typed, "a type in the column list of an alias; use CAST"),
        (at.is_some(), "AT behind an alias; number the rows with row_number()"),
    ])
}

fn set_expr(body: &SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(inner) => select(inner),
        SetExpr::Query(inner) => query(inner),
        SetExpr::SetOperation { left, op: _, set_quantifier, right } => {
            quantifier(*set_quantifier);
            set_expr(left)?;
            set_expr(right)
        }
        SetExpr::Values(inner) => values(inner),
        SetExpr::Insert(statement)
        | SetExpr::Update(statement)
        | SetExpr::Delete(statement)
        | SetExpr::Merge(statement) => Err(refused_text("a statement that writes within a query", statement)),
        SetExpr::Table(_) => Err(refused("TABLE name as a query; use SELECT * FROM name")),
    }
}

/// The planner does all of them, or says that it does not.
fn quantifier(quantifier: SetQuantifier) {
    match quantifier {
        SetQuantifier::All
        | SetQuantifier::Distinct
        | SetQuantifier::ByName
        | SetQuantifier::AllByName
        | SetQuantifier::DistinctByName
        | SetQuantifier::None => {}
    }
}

pub(super) fn values(values: &Values) -> Result<()> {
    let Values { explicit_row: _, value_keyword: _, rows } = values;
    rows.iter().try_for_each(|row| exprs(&row.content))
}

fn select(select: &Select) -> Result<()> {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    refuse(&[
        (!optimizer_hints.is_empty(), "a hint for an optimiser; leave it out"),
        (select_modifiers.is_some(), "HIGH_PRIORITY, STRAIGHT_JOIN, SQL_NO_CACHE or the like; leave them out"),
        (top.is_some(), "TOP; use LIMIT"),
        (exclude.is_some(), "EXCLUDE behind a SELECT list; write it behind the *"),
        (into.is_some(), "SELECT .. INTO UNLOGGED, or within a statement; use CREATE TABLE .. AS"),
        (!lateral_views.is_empty(), "LATERAL VIEW; use unnest()"),
        (prewhere.is_some(), "PREWHERE; use WHERE"),
        (!connect_by.is_empty(), "CONNECT BY or START WITH; use WITH RECURSIVE"),
        (!cluster_by.is_empty(), "CLUSTER BY; use ORDER BY"),
        (!distribute_by.is_empty(), "DISTRIBUTE BY; leave it out"),
        (!sort_by.is_empty(), "SORT BY; use ORDER BY"),
        (value_table_mode.is_some(), "SELECT AS STRUCT or AS VALUE; use struct(..) or named_struct(..)"),
    ])?;
    match flavor {
        SelectFlavor::Standard | SelectFlavor::FromFirst | SelectFlavor::FromFirstNoSelect => {}
    }
    match distinct {
        Some(Distinct::On(keys)) => exprs(keys)?,
        Some(Distinct::All | Distinct::Distinct) | None => {}
    }
    projection.iter().try_for_each(item)?;
    from.iter().try_for_each(read_by)?;
    selection.iter().try_for_each(expr)?;
    grouping(group_by)?;
    having.iter().try_for_each(expr)?;
    for NamedWindowDefinition(name, definition) in named_window {
        match definition {
            NamedWindowExpr::WindowSpec(spec) => function::window(spec)?,
            NamedWindowExpr::NamedWindow(_) => return Err(refused_text("WINDOW that is another one", name)),
        }
    }
    qualify.iter().try_for_each(expr)?;
    // The planner puts windows in the place of their names in the SELECT list only.
    let elsewhere = selection.iter().chain(having).chain(qualify);
    elsewhere.into_iter().try_for_each(function::no_named_window)
}

fn grouping(group_by: &GroupByExpr) -> Result<()> {
    let (keys, modifiers) = match group_by {
        GroupByExpr::All(modifiers) => (&[][..], modifiers),
        GroupByExpr::Expressions(keys, modifiers) => (&keys[..], modifiers),
    };
    let with = "GROUP BY .. WITH ROLLUP, CUBE or TOTALS; use GROUP BY ROLLUP (..), CUBE (..) or GROUPING SETS (..)";
    refuse(&[(!modifiers.is_empty(), with)])?;
    exprs(keys)
}

pub(super) fn item(item: &SelectItem) -> Result<()> {
    match item {
        SelectItem::UnnamedExpr(inner) => expr(inner),
        SelectItem::ExprWithAlias { expr: inner, alias: _ } => expr(inner),
        SelectItem::ExprWithAliases { expr: inner, aliases: _ } => {
            Err(refused_text("an item of a SELECT list with several names", inner))
        }
        SelectItem::QualifiedWildcard(_, options) => wildcard(options),
        SelectItem::Wildcard(options) => wildcard(options),
    }
}

/// What stands behind a `*`.
fn wildcard(options: &WildcardAdditionalOptions) -> Result<()> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike: _,
        opt_exclude: _,
        opt_except: _,
        opt_replace,
        opt_rename: _,
        opt_alias,
    } = options;
    refuse(&[(opt_alias.is_some(), "* AS name; leave the name out")])?;
    let Some(ReplaceSelectItem { items }) = opt_replace else { return Ok(()) };
    for element in items {
        // That there is such a column, `mend` sees to.
        let ReplaceSelectElement { expr: inner, column_name: _, as_keyword: _ } = element.as_ref();
        expr(inner)?;
    }
    Ok(())
}

fn order_all(order: &OrderBy) -> Result<()> {
    let OrderBy { kind, interpolate } = order;
    refuse(&[(interpolate.is_some(), "INTERPOLATE; join the rows with generate_series(..)")])?;
    match kind {
        OrderByKind::All(options) => {
            order_options(options);
            Ok(())
        }
        OrderByKind::Expressions(keys) => {
            keys.iter().try_for_each(order_by)?;
            keys.iter().try_for_each(|key| function::no_named_window(&key.expr))
        }
    }
}

fn limit(clause: &LimitClause) -> Result<()> {
    match clause {
        LimitClause::LimitOffset { limit, offset, limit_by } => {
            refuse(&[(!limit_by.is_empty(), "LIMIT .. BY; use row_number() OVER (PARTITION BY ..) in a subquery")])?;
            limit.iter().try_for_each(expr)?;
            offset.iter().try_for_each(|Offset { value, rows: _ }| expr(value))
        }
        LimitClause::OffsetCommaLimit { offset, limit } => {
            expr(offset)?;
            expr(limit)
        }
    }
}

/// `query |> operator`.
fn pipe(operator: &PipeOperator) -> Result<()> {
    match operator {
        PipeOperator::Limit { expr: limit, offset } => {
            expr(limit)?;
            offset.iter().try_for_each(expr)
        }
        PipeOperator::Where { expr: condition } => expr(condition),
        PipeOperator::OrderBy { exprs: keys } => keys.iter().try_for_each(order_by),
        PipeOperator::Select { exprs: items } | PipeOperator::Extend { exprs: items } => {
            let renames = items.iter().any(|item| match item {
                SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                    options.opt_rename.is_some() || options.opt_ilike.is_some()
                }
                _ => false,
            });
            refuse(&[(renames, "* RENAME and * ILIKE in a pipe operator; name the columns")])?;
            items.iter().try_for_each(item)
        }
        PipeOperator::As { alias: _ } => Ok(()),
        PipeOperator::Aggregate { full_table_exprs, group_by_expr } => {
            full_table_exprs.iter().chain(group_by_expr).try_for_each(aggregated)
        }
        PipeOperator::Union { set_quantifier, queries }
        | PipeOperator::Intersect { set_quantifier, queries }
        | PipeOperator::Except { set_quantifier, queries } => {
            quantifier(*set_quantifier);
            queries.iter().try_for_each(query)
        }
        PipeOperator::Join(join) => joined_with(join),
        other => Err(refused_text("a pipe operator", other)),
    }
}

fn aggregated(item: &ExprWithAliasAndOrderBy) -> Result<()> {
    let ExprWithAliasAndOrderBy { expr: ExprWithAlias { expr: inner, alias: _ }, order_by } = item;
    let OrderByOptions { asc, nulls_first } = order_by;
    let ordered = asc.is_some() || nulls_first.is_some();
    refuse(&[(ordered, "ASC, DESC or NULLS in |> AGGREGATE; use |> ORDER BY behind it")])?;
    expr(inner)
}
