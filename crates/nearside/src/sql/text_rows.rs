//! Functions of texts that give rows: `regexp_matches`, `regexp_split_to_table` and `string_to_table` are `unnest` of
//! the lists that other functions give, in the SELECT list and in FROM.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select, SelectItem,
    SetExpr, TableAlias, TableFactor, VisitorMut,
};

use super::calls::call;
use super::figured::{UNNAMED, figured};
use super::parsed;
use super::walk::{is_any_outside, outside, rewrite};
use crate::error::{Error, Result};
use crate::functions::arrays::NUMBERED;
use crate::functions::matches::ALL_MATCHES;

/// What gives the elements of a list with their numbers, in `information_schema`.
pub(super) const EXPANDED: &str = "_pg_expandarray";

/// The functions, and those of the lists.
const LISTS: [(&str, &str); 4] = [
    ("regexp_matches", ALL_MATCHES),
    ("regexp_split_to_table", "regexp_split_to_array"),
    ("string_to_table", "string_to_array"),
    (EXPANDED, NUMBERED),
];

/// Writes them as the planner takes them.
///
/// # Errors
/// Such a function where no rows can come from.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Rows)
}

struct Rows;

impl VisitorMut for Rows {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            let is_known = |part: &Expr| matches!(part, Expr::Function(function) if known(&function.name).is_some());
            if let SelectItem::UnnamedExpr(expr) = &*item
                && is_any_outside(expr, &is_known)
            {
                // The list's function, and `unnest`, have other names.
                let name = figured(expr);
                if name != UNNAMED {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
                }
            }
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                outside(expr, &mut |part| {
                    if let Expr::Function(function) = part
                        && let Some((_, list)) = known(&function.name)
                    {
                        let list = in_its_place(function, list);
                        *part = call("unnest", vec![list]);
                    }
                });
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        match in_from(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(function) if let Some((name, _)) = known(&function.name) => {
                let message = format!("{name}() gives rows, and can stand in the SELECT list and in FROM only");
                ControlFlow::Break(Error::Unsupported(message))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn known(name: &ObjectName) -> Option<(&'static str, &'static str)> {
    let [part] = name.0.as_slice() else { return None };
    let ident = part.as_ident()?;
    LISTS.into_iter().find(|(known, _)| ident.value.eq_ignore_ascii_case(known))
}

/// The same call of another function.
fn in_its_place(function: &Function, name: &str) -> Expr {
    let mut function = function.clone();
    function.name = ObjectName::from(vec![Ident::with_quote('"', name)]);
    Expr::Function(function)
}

/// The columns of elements with their numbers.
pub(super) const FIELDS: [&str; 2] = ["x", "n"];

/// A field of rows as an output.
fn field(rows: &Expr, name: &str) -> SelectItem {
    let access = AccessExpr::Dot(Expr::Identifier(Ident::with_quote('"', name)));
    let expr =
        Expr::CompoundFieldAccess { root: Box::new(Expr::Nested(Box::new(rows.clone()))), access_chain: vec![access] };
    SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) }
}

/// A query in the place of such a function in FROM.
fn in_from(factor: &mut TableFactor) -> Result<()> {
    let (name, args, alias) = match &*factor {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, args.args.as_slice(), alias),
        TableFactor::Function { name, args, alias, .. } => (name, args.as_slice(), alias),
        _ => return Ok(()),
    };
    let Some((own, list)) = known(name) else { return Ok(()) };
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => values.push(value.clone()),
            _ => return Err(Error::Unsupported(format!("an argument of {own}() that is no expression"))),
        }
    }
    let mut alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(own),
        columns: Vec::new(),
        at: None,
    });
    let mut subquery = parsed::query("SELECT unnest(x) AS x")?;
    if let SetExpr::Select(select) = subquery.body.as_mut()
        && let Some(SelectItem::ExprWithAlias { expr: Expr::Function(rows), alias: column }) =
            select.projection.first_mut()
        && let FunctionArguments::List(arguments) = &mut rows.args
    {
        arguments.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(call(list, values)))];
        // The column is called like the function's alias.
        *column = alias.name.clone();
        if own == EXPANDED {
            let rows = Expr::Function(rows.clone());
            select.projection = FIELDS.map(|name| field(&rows, name)).into();
        }
    }
    alias.explicit = true;
    *factor = TableFactor::Derived { lateral: true, subquery: Box::new(subquery), alias: Some(alias), sample: None };
    Ok(())
}
