//! PIVOT, UNPIVOT and TABLESAMPLE behind a table in FROM, as queries of it.
//!
//! ```text
//! t PIVOT (sum(x) FOR k IN (1, 2 AS two))   (SELECT rest, sum(x) FILTER (WHERE k = 1) AS "1", .. FROM t GROUP BY rest)
//! t UNPIVOT (v FOR k IN (a, b))             (SELECT rest, k, v FROM t, LATERAL (VALUES ('a', a), ('b', b)) WHERE v ..)
//! t TABLESAMPLE BERNOULLI (10)              (SELECT * FROM t WHERE random() * 100 < 10)
//! ```
//! `rest` are the columns that nothing of it names.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, Function, GroupByExpr, Ident, NullInclusion, PivotValueSource, Query,
    SelectItem, SetExpr, TableAlias, TableFactor, TableSampleKind, TableSampleMethod, TableSampleUnit, TableWithJoins,
    Value, visit_expressions,
};

use super::super::{normalised, parsed};
use super::names::{alias_columns, quoted, renamed};
use super::sources::{Names, binary};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::sql::fresh_name;

/// Writes such a source as a query.
///
/// # Errors
/// What cannot be written so, by name.
pub(super) fn as_query(factor: &mut TableFactor, names: &Names<'_>) -> Result<()> {
    let (query, alias) = match factor {
        TableFactor::Pivot { table, aggregate_functions, value_column, value_source, alias, .. } => {
            let columns = columns_of(table, names, "PIVOT")?;
            let [of] = value_column.as_slice() else {
                return Err(Error::Unsupported("PIVOT over several columns; use aggregates with FILTER".into()));
            };
            let PivotValueSource::List(values) = value_source else {
                return Err(Error::Unsupported("PIVOT over values that are not listed; list them behind IN".into()));
            };
            (pivoted(table, &columns, aggregate_functions, of, values)?, alias.take())
        }
        TableFactor::Unpivot { table, value, name, columns: listed, null_inclusion, alias } => {
            let columns = columns_of(table, names, "UNPIVOT")?;
            let with_nulls = matches!(null_inclusion, Some(NullInclusion::IncludeNulls));
            (unpivoted(table, &columns, value, name, listed, with_nulls)?, alias.take())
        }
        TableFactor::Table { name, alias, sample: sample @ Some(_), .. } => {
            let own = name.0.last().and_then(|part| part.as_ident()).cloned();
            let share = share(sample)?;
            let alias = alias.clone().or_else(|| own.map(|own| named(&normalised(own))));
            (sampled(factor.clone(), share)?, alias)
        }
        TableFactor::Derived { alias, sample: sample @ Some(_), .. } => {
            let share = share(sample)?;
            let alias = alias.clone();
            (sampled(factor.clone(), share)?, alias)
        }
        _ => return Ok(()),
    };
    let alias = alias.map(|alias| TableAlias { columns: alias.columns, ..alias });
    *factor = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None };
    Ok(())
}

fn named(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None }
}

fn columns_of(table: &TableFactor, names: &Names<'_>, what: &str) -> Result<Vec<String>> {
    let (columns, alias) = match table {
        TableFactor::Table { name, alias, args: None, .. } => (names.of_table(name), alias),
        TableFactor::Derived { subquery, alias, .. } => (names.of_query(subquery), alias),
        _ => (None, &None),
    };
    let given = alias.as_ref().map(alias_columns).unwrap_or_default();
    columns.and_then(|columns| renamed(columns, &given)).ok_or_else(|| {
        Error::Unsupported(format!(
            "{what} of a source whose columns are not known before it is planned; name them in a subquery"
        ))
    })
}

/// `SELECT .. FROM table`.
fn select_from(table: TableFactor, items: Vec<SelectItem>) -> Result<Query> {
    let mut query = parsed::query("SELECT 1 FROM x")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = vec![TableWithJoins { relation: table, joins: Vec::new() }];
    }
    Ok(query)
}

fn column(name: &str) -> Expr {
    Expr::Identifier(quoted(name))
}

/// The columns that an expression names.
fn named_in(expr: &Expr, found: &mut HashSet<String>) {
    let _ = visit_expressions(expr, |part| {
        match part {
            Expr::Identifier(name) => drop(found.insert(normalised(name.clone()))),
            Expr::CompoundIdentifier(names) => {
                found.extend(names.last().cloned().map(normalised));
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

fn pivoted(
    table: &TableFactor,
    columns: &[String],
    aggregates: &[ExprWithAlias],
    of: &Expr,
    values: &[ExprWithAlias],
) -> Result<Query> {
    let mut taken = HashSet::new();
    named_in(of, &mut taken);
    aggregates.iter().for_each(|aggregate| named_in(&aggregate.expr, &mut taken));
    let rest: Vec<Expr> = columns.iter().filter(|name| !taken.contains(*name)).map(|name| column(name)).collect();
    let mut items: Vec<SelectItem> = rest.iter().cloned().map(SelectItem::UnnamedExpr).collect();
    for value in values {
        let shown = match &value.alias {
            Some(alias) => normalised(alias.clone()),
            None => text_of(&value.expr),
        };
        for aggregate in aggregates {
            let Expr::Function(call) = &aggregate.expr else {
                return Err(Error::plan(
                    SqlState::SyntaxError,
                    format!("PIVOT ({}): an aggregate is expected before FOR", aggregate.expr),
                ));
            };
            let is = Expr::IsNotDistinctFrom(Box::new(of.clone()), Box::new(value.expr.clone()));
            let filter = match &call.filter {
                Some(own) => binary(Expr::Nested(own.clone()), BinaryOperator::And, is),
                None => is,
            };
            let expr = Expr::Function(Function { filter: Some(Box::new(filter)), ..call.clone() });
            let name = match &aggregate.alias {
                Some(alias) => format!("{shown}_{}", normalised(alias.clone())),
                None if aggregates.len() > 1 => format!("{shown}_{}", aggregate.expr),
                None => shown.clone(),
            };
            items.push(SelectItem::ExprWithAlias { expr, alias: quoted(&name) });
        }
    }
    let mut query = select_from(table.clone(), items)?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.group_by = GroupByExpr::Expressions(rest, Vec::new());
    }
    Ok(query)
}

/// A value as it becomes a column's name.
fn text_of(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Nested(inner) => text_of(inner),
        other => other.to_string(),
    }
}

fn unpivoted(
    table: &TableFactor,
    columns: &[String],
    value: &Expr,
    name: &Ident,
    listed: &[ExprWithAlias],
    with_nulls: bool,
) -> Result<Query> {
    let Expr::Identifier(value) = value else {
        return Err(Error::Unsupported("UNPIVOT into several columns; use UNPIVOT for each".into()));
    };
    let (name, value) = (normalised(name.clone()), normalised(value.clone()));
    let mut pairs = Vec::with_capacity(listed.len());
    let mut taken = HashSet::new();
    for ExprWithAlias { expr, alias } in listed {
        let Expr::Identifier(of) = expr else {
            return Err(Error::Unsupported(format!("UNPIVOT of {expr}; name columns alone")));
        };
        let of = normalised(of.clone());
        if !columns.contains(&of) {
            let nearest = crate::error::names::nearest(&of, columns.iter().map(String::as_str));
            return Err(Error::NotFound { kind: "column", name: of, nearest });
        }
        let shown = alias.clone().map_or_else(|| of.clone(), normalised);
        pairs.push(format!("('{}', {})", shown.replace('\'', "''"), crate::sql::quoted(&of)));
        taken.insert(of);
    }
    let pair = crate::sql::quoted(&fresh_name("pair"));
    let (name, value) = (crate::sql::quoted(&name), crate::sql::quoted(&value));
    let rest =
        columns.iter().filter(|name| !taken.contains(*name)).map(|name| format!("{}, ", crate::sql::quoted(name)));
    let rest: String = rest.collect();
    let nulls = if with_nulls { String::new() } else { format!(" WHERE {pair}.{value} IS NOT NULL") };
    let text = format!(
        "SELECT {rest}{pair}.{name}, {pair}.{value} FROM x CROSS JOIN LATERAL (VALUES {}) AS {pair} ({name}, {value})\
         {nulls}",
        pairs.join(", ")
    );
    let mut query = parsed::query(&text)?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        from.relation = table.clone();
    }
    Ok(query)
}

/// Takes a TABLESAMPLE off a table: the share of rows that it takes.
fn share(sample: &mut Option<TableSampleKind>) -> Result<Expr> {
    let refused = |what: &str| Err(Error::Unsupported(format!("TABLESAMPLE {what}")));
    let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample.take()
    else {
        return refused("without a share");
    };
    if sample.seed.is_some() {
        return refused("REPEATABLE; a sample that has to be the same again is a table of its own");
    }
    let is_method = matches!(sample.name, None | Some(TableSampleMethod::Bernoulli | TableSampleMethod::System));
    if !is_method || sample.bucket.is_some() || sample.offset.is_some() {
        return refused("of this kind; use BERNOULLI (percent)");
    }
    let Some(quantity) = sample.quantity.filter(|quantity| quantity.unit != Some(TableSampleUnit::Rows)) else {
        return refused("of a number of rows; use ORDER BY random() LIMIT n");
    };
    let is_share = match &quantity.value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse::<f64>().is_ok_and(|percent| percent <= 100.0),
            _ => false,
        },
        _ => false,
    };
    if !is_share {
        return Err(Error::plan(
            SqlState::InvalidParameterValue,
            format!("TABLESAMPLE ({}): a share is from 0 to 100 percent", quantity.value),
        ));
    }
    Ok(quantity.value)
}

fn sampled(table: TableFactor, percent: Expr) -> Result<Query> {
    let mut query = parsed::query("SELECT * FROM x WHERE random() * 100 < 1")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        if let Some(from) = select.from.first_mut() {
            from.relation = table;
        }
        if let Some(Expr::BinaryOp { right, .. }) = &mut select.selection {
            **right = percent;
        }
    }
    Ok(query)
}
