//! Functions in FROM that the planner has no rows of: one that gives a value is a query of one row, and those of
//! `pg_catalog` that give what a table of it has are that table.
//!
//! ```text
//! FROM string_to_array(x, ',') AS s     FROM LATERAL (SELECT string_to_array(x, ',') AS s) AS s
//! FROM pg_get_keywords()                FROM pg_catalog.pg_get_keywords AS pg_get_keywords
//! ```

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, SelectItem, SetExpr, TableAlias, TableFactor, VisitorMut,
};

use super::calls::call;
use super::rows::gives_rows;
use super::walk::rewrite;
use super::{normalised, parsed};
use crate::catalog::PG_CATALOG;
use crate::error::Error;
use crate::error::Result;
use crate::functions::series;

/// Functions of `pg_catalog` without arguments, and the tables whose rows they give.
const TABLES: [(&str, &str); 3] = [
    ("pg_available_extensions", "pg_available_extensions"),
    ("pg_get_keywords", "pg_get_keywords"),
    ("pg_show_all_settings", "pg_settings"),
];

/// Writes such functions as the planner takes them; `gives_value` tells which functions give a value.
///
/// # Errors
/// None that a statement has which was parsed.
pub(super) fn write_out(statement: &mut Statement, gives_value: &dyn Fn(&str) -> bool) -> Result<()> {
    rewrite(statement, &mut Functions { gives_value })
}

struct Functions<'a> {
    gives_value: &'a dyn Fn(&str) -> bool,
}

impl VisitorMut for Functions<'_> {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match in_from(factor, self.gives_value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn in_from(factor: &mut TableFactor, gives_value: &dyn Fn(&str) -> bool) -> Result<()> {
    let (name, args, alias) = match &*factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, sample: None, .. } => {
            (name, args.args.as_slice(), alias)
        }
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => (name, args.as_slice(), alias),
        _ => return Ok(()),
    };
    let [part] = name.0.as_slice() else { return Ok(()) };
    let Some(own) = part.as_ident().cloned().map(normalised) else { return Ok(()) };
    let ident = |name: &str| Ident::with_quote('"', name);
    let named = |alias: &Option<TableAlias>| {
        let made = || TableAlias { explicit: true, name: ident(&own), columns: Vec::new(), at: None };
        alias.clone().unwrap_or_else(made)
    };
    if let Some((_, table)) = TABLES.iter().find(|(function, _)| *function == own && args.is_empty()) {
        let mut query = parsed::query("SELECT * FROM t")?;
        if let SetExpr::Select(select) = query.body.as_mut()
            && let Some(from) = select.from.first_mut()
            && let TableFactor::Table { name, .. } = &mut from.relation
        {
            *name = ObjectName::from(vec![ident(PG_CATALOG), ident(table)]);
        }
        *factor =
            TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(named(alias)), sample: None };
        return Ok(());
    }
    if gives_rows(&own) || series::FUNCTIONS.contains(&own.as_str()) || !gives_value(&own) {
        return Ok(());
    }
    let values = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    // What is no expression the planner refuses.
    let Some(values) = values.collect::<Option<Vec<Expr>>>() else { return Ok(()) };
    let alias = named(alias);
    let mut query = parsed::query("SELECT x AS x")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        // The column is called like the function's alias.
        select.projection = vec![SelectItem::ExprWithAlias { expr: call(&own, values), alias: alias.name.clone() }];
    }
    *factor = TableFactor::Derived { lateral: true, subquery: Box::new(query), alias: Some(alias), sample: None };
    Ok(())
}
