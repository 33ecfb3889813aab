//! Functions that give rows: `unnest`, and `generate_series` in the SELECT list, as PostgreSQL has them.
//!
//! `generate_series(a, b)` in a SELECT list is `unnest` of the list that the planner's function of that name gives;
//! elsewhere, where it would be that list, it is refused. `unnest` takes lists within lists apart at every level
//! (`flat`). An output that is such a call alone has the function's name.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select,
    SelectItem, TableAlias, TableFactor, TypedString, Value, VisitorMut,
};
use sqlparser::parser::Parser;

use super::calls::call;
use super::dialect::SqlDialect;
use super::text_rows::EXPANDED;
use super::walk::{outside, rewrite};
use crate::error::{Error, Result};
use crate::functions::flat::FLAT;
use crate::functions::matches::ALL_MATCHES;

const SERIES: &str = "generate_series";
const UNNEST: &str = "unnest";
/// `generate_subscripts(x, d)` is `generate_series(array_lower(x, d), array_upper(x, d))`.
const SUBSCRIPTS: &str = "generate_subscripts";

/// Writes calls of functions that give rows as the planner takes them.
///
/// # Errors
/// `generate_series` where no rows can come from.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Rows)
}

/// Whether a function of this name gives rows.
pub(crate) fn gives_rows(function: &str) -> bool {
    [SERIES, UNNEST, SUBSCRIPTS, "regexp_matches", "regexp_split_to_table", "string_to_table", EXPANDED]
        .contains(&function)
        || ["json", "jsonb"].iter().any(|kind| {
            let of_kind = function.strip_prefix(kind).unwrap_or_default();
            ["_array_elements", "_array_elements_text", "_each", "_each_text", "_object_keys"].contains(&of_kind)
        })
}

struct Rows;

impl VisitorMut for Rows {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_subscripts(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(SUBSCRIPTS) };
            }
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                outside(expr, &mut |part| as_series(part));
            }
            let unnamed = match item {
                SelectItem::UnnamedExpr(expr) => named(expr),
                _ => None,
            };
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                outside(expr, &mut in_list);
            }
            if let (SelectItem::UnnamedExpr(expr), Some(SERIES)) = (&mut *item, unnamed) {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(SERIES) };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let TableFactor::Table { name, args: Some(args), alias, .. } = factor
            && is_called_so(name, SUBSCRIPTS)
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list)), FunctionArg::Unnamed(FunctionArgExpr::Expr(d))] =
                args.args.as_slice()
        {
            let bounds = bounds(list, d).map(|bound| FunctionArg::Unnamed(FunctionArgExpr::Expr(bound)));
            args.args = bounds.into();
            *name = ObjectName::from(vec![Ident::new(SERIES)]);
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: Ident::new(SUBSCRIPTS),
                columns: Vec::new(),
                at: None,
            });
        }
        if let TableFactor::UNNEST { array_exprs, .. } = factor {
            array_exprs.iter_mut().for_each(flatten);
        }
        if let Some(query) = computed_series(factor) {
            *factor = query;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match named(expr) {
            Some(UNNEST) => flatten_argument(expr),
            Some(SERIES) => {
                return ControlFlow::Break(Error::Unsupported(
                    "generate_series() gives rows, and can stand in the SELECT list and in FROM only; range(from, to) \
                     gives a list"
                        .into(),
                ));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// A query in the place of a series in FROM whose bounds are computed when it runs: the planner's function there takes
/// constants.
fn computed_series(factor: &mut TableFactor) -> Option<TableFactor> {
    let TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, sample: None, .. } = factor else {
        return None;
    };
    if !is_called_so(name, SERIES) || !(2..=3).contains(&args.args.len()) {
        return None;
    }
    let plain = |arg: &mut FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    let mut bounds: Vec<Expr> = args.args.iter_mut().map(plain).collect::<Option<_>>()?;
    moments_of_texts(&mut bounds);
    if bounds.iter().all(is_constant) {
        args.args = bounds.into_iter().map(|bound| FunctionArg::Unnamed(FunctionArgExpr::Expr(bound))).collect();
        return None;
    }
    let mut series = call(SERIES, bounds);
    quote(&mut series);
    let alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(SERIES),
        columns: Vec::new(),
        at: None,
    });
    let query = format!("SELECT {} AS {}", call(UNNEST, vec![series]), alias.name);
    let subquery = Parser::new(&SqlDialect).try_with_sql(&query).and_then(|mut parser| parser.parse_query()).ok()?;
    Some(TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None })
}

/// A step that is written as a text is an interval, unless it is a number; a bound that is, is of the other's type.
fn moments_of_texts(bounds: &mut [Expr]) {
    let text = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    let cast = |expr: &Expr, data_type: DataType| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr.clone()),
        data_type,
        array: false,
        format: None,
    };
    if let [_, _, step] = bounds
        && text(step).is_some_and(|text| text.trim().parse::<f64>().is_err())
    {
        *step = cast(step, DataType::Interval { fields: None, precision: None });
    }
    let type_of = |expr: &Expr| match expr {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => Some(data_type.clone()),
        _ => None,
    };
    for (one, other) in [(0, 1), (1, 0)] {
        if text(&bounds[one]).is_some()
            && let Some(data_type) = type_of(&bounds[other])
        {
            bounds[one] = cast(&bounds[one], data_type);
        }
    }
}

/// Whether a value is known before the statement runs. What a text says of a time is read when it runs.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::Interval(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        Expr::BinaryOp { left, right, .. } => is_constant(left) && is_constant(right),
        Expr::Cast { expr, data_type, .. } => {
            let is_moment = matches!(data_type, DataType::Timestamp(..) | DataType::Date);
            is_constant(expr) && !(is_moment && matches!(expr.as_ref(), Expr::Value(_)))
        }
        _ => false,
    }
}

fn is_called_so(name: &ObjectName, wanted: &str) -> bool {
    let [part] = name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case(wanted))
}

fn is_subscripts(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(Function { name, .. }) if is_called_so(name, SUBSCRIPTS))
}

fn bounds(list: &Expr, dimension: &Expr) -> [Expr; 2] {
    ["array_lower", "array_upper"].map(|bound| call(bound, vec![list.clone(), dimension.clone()]))
}

fn as_series(expr: &mut Expr) {
    if is_subscripts(expr)
        && let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &*expr
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list)), FunctionArg::Unnamed(FunctionArgExpr::Expr(d))] =
            list.args.as_slice()
    {
        *expr = call(SERIES, bounds(list, d).into());
        if let Expr::Function(function) = expr {
            function.name = ObjectName::from(vec![Ident::new(SERIES)]);
        }
    }
}

/// Makes `unnest` of a call of `generate_series` in an output; `unnest` of that is the same once more, which
/// [`flatten_argument`] takes away.
fn in_list(expr: &mut Expr) {
    if named(expr) == Some(SERIES) {
        quote(expr);
        *expr = call(UNNEST, vec![expr.clone()]);
    }
}

/// Which of the two functions is called. The name in quotes is the planner's function.
fn named(expr: &Expr) -> Option<&'static str> {
    let Expr::Function(Function { name, .. }) = expr else { return None };
    let [part] = name.0.as_slice() else { return None };
    let ident = part.as_ident()?;
    let folded = ident.value.to_lowercase();
    [SERIES, UNNEST].into_iter().find(|known| folded == *known && (ident.quote_style.is_none() || *known == UNNEST))
}

fn quote(series: &mut Expr) {
    if let Expr::Function(function) = series {
        function.name = ObjectName::from(vec![Ident::with_quote('"', SERIES)]);
    }
}

/// The only argument of a call.
fn argument(expr: &mut Expr) -> Option<&mut Expr> {
    let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expr else { return None };
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => Some(argument),
        _ => None,
    }
}

/// `unnest(unnest(x))` is `unnest(x)`, which leaves no list.
fn flatten_argument(expr: &mut Expr) {
    let Some(inner) = argument(expr) else { return };
    match named(inner) {
        Some(UNNEST) => *expr = inner.clone(),
        _ => flatten(inner),
    }
}

fn flatten(list: &mut Expr) {
    match named(list) {
        Some(SERIES) => quote(list),
        _ if is_flat(list) => return,
        _ => {}
    }
    *list = call(FLAT, vec![list.clone()]);
}

/// Whether it is a list of no lists, or one whose rows are lists.
fn is_flat(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function)
        if [FLAT, ALL_MATCHES].contains(&function.name.to_string().trim_matches('"')))
}
