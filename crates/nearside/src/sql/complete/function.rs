//! Calls of functions: which clauses a function knows. The planner passes over those that stand behind a function of
//! another kind.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, NullTreatment, ObjectName, ObjectNamePart, UnaryOperator, Value, ValueWithSpan, WindowFrame,
    WindowFrameBound, WindowSpec, WindowType, visit_expressions,
};

use super::expression::{expr, exprs, order_by};
use super::{inner_query, refuse, refused, refused_text};
use crate::error::{Error, Result};

/// Functions over rows, by all their names: aggregates.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut all = datafusion_functions_aggregate::all_default_aggregate_functions();
    all.extend(crate::functions::checked::own_aggregates());
    all.iter()
        .flat_map(|f| f.aliases().iter().cloned().chain([f.name().to_string()]))
        .map(|n| n.to_lowercase())
        .chain(JSON.map(String::from))
        .collect()
});

/// Aggregates that are written as others (`sql::json`).
const JSON: [&str; 4] = ["json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"];

/// Functions over rows, by all their names: those that only windows have.
static WINDOWS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let all = datafusion_functions_window::all_default_window_functions();
    all.iter()
        .flat_map(|f| f.aliases().iter().cloned().chain([f.name().to_string()]))
        .map(|n| n.to_lowercase())
        .collect()
});

/// What IGNORE NULLS means something for.
const NULLS: [&str; 5] = ["first_value", "last_value", "nth_value", "lag", "lead"];

/// Aggregates that take no notice of DISTINCT, or are not written with it.
const NEVER_DISTINCT: [&str; 22] = [
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "jsonb_object_agg",
    "corr",
    "covar",
    "covar_pop",
    "covar_samp",
    "regr_slope",
    "regr_intercept",
    "regr_count",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "nth_value",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "approx_median",
    "grouping",
];

/// What a function is called with beside its arguments.
#[derive(Default)]
struct Clauses {
    distinct: bool,
    ordered: bool,
    nulls: bool,
    within: bool,
    filter: bool,
    over: bool,
}

pub(super) fn function(call: &Function) -> Result<()> {
    let Function { name, uses_odbc_syntax: _, parameters, args, filter, null_treatment, over, within_group } = call;
    let none = matches!(parameters, FunctionArguments::None);
    refuse(&[(!none, "a second list of arguments; put all into one")])?;
    let mut clauses = Clauses {
        nulls: matches!(null_treatment, Some(NullTreatment::IgnoreNulls)),
        within: !within_group.is_empty(),
        filter: filter.is_some(),
        over: over.is_some(),
        ..Clauses::default()
    };
    match args {
        FunctionArguments::None => {}
        FunctionArguments::Subquery(inner) => {
            inner_query(inner)?;
            return Err(refused_text("a query as the arguments of a function (put it into brackets of its own)", name));
        }
        // Which columns it names, `scope::stars` says.
        FunctionArguments::List(_) if is_columns(name) => {}
        FunctionArguments::List(list) => arguments(list, &mut clauses)?,
    }
    filter.as_deref().map_or(Ok(()), expr)?;
    within_group.iter().try_for_each(order_by)?;
    match over {
        Some(WindowType::WindowSpec(spec)) => window(spec)?,
        Some(WindowType::NamedWindow(_)) | None => {}
    }
    let name = match name.0.as_slice() {
        [ObjectNamePart::Identifier(one)] => one.value.to_lowercase(),
        _ => name.to_string(),
    };
    known(&name, &clauses)?;
    pattern(&name, args)?;
    places(&name, args)
}

fn is_columns(name: &ObjectName) -> bool {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(one)] => one.quote_style.is_none() && one.value.eq_ignore_ascii_case("columns"),
        _ => false,
    }
}

fn arguments(list: &FunctionArgumentList, clauses: &mut Clauses) -> Result<()> {
    let FunctionArgumentList { duplicate_treatment, args, clauses: inner } = list;
    clauses.distinct = matches!(duplicate_treatment, Some(DuplicateTreatment::Distinct));
    args.iter().try_for_each(argument)?;
    for clause in inner {
        match clause {
            FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => {
                clauses.nulls |= matches!(treatment, NullTreatment::IgnoreNulls);
            }
            FunctionArgumentClause::OrderBy(keys) => {
                clauses.ordered = true;
                keys.iter().try_for_each(order_by)?;
            }
            FunctionArgumentClause::Limit(_) => {
                return Err(refused("LIMIT within a call; use array_slice() of the list"));
            }
            FunctionArgumentClause::OnOverflow(_) => {
                return Err(refused("ON OVERFLOW; leave it out, texts have no limit"));
            }
            FunctionArgumentClause::Having(_) => return Err(refused("HAVING within a call; use FILTER (WHERE ..)")),
            FunctionArgumentClause::Separator(_) => return Err(refused("SEPARATOR; use string_agg(text, separator)")),
            FunctionArgumentClause::JsonNullClause(_) => return Err(refused("NULL ON NULL or ABSENT ON NULL")),
            FunctionArgumentClause::JsonReturningClause(_) => return Err(refused("RETURNING within a call; use CAST")),
        }
    }
    Ok(())
}

fn argument(of: &FunctionArg) -> Result<()> {
    match of {
        FunctionArg::Named { name: _, arg, operator: _ } | FunctionArg::Unnamed(arg) => value(arg),
        FunctionArg::ExprNamed { name, arg, operator: _ } => {
            expr(name)?;
            value(arg)
        }
    }
}

fn value(of: &FunctionArgExpr) -> Result<()> {
    match of {
        FunctionArgExpr::Expr(inner) => expr(inner),
        FunctionArgExpr::Wildcard => Ok(()),
        // The row of a table in FROM.
        FunctionArgExpr::QualifiedWildcard(name) if name.0.len() == 1 => Ok(()),
        FunctionArgExpr::QualifiedWildcard(name) => {
            Err(refused_text("all columns of a table as an argument (count(*) counts rows)", name))
        }
        FunctionArgExpr::WildcardWithOptions(_) => Err(refused("EXCLUDE, REPLACE or the like within a call")),
    }
}

/// The arguments of a function in FROM, whose names nobody looks at.
pub(super) fn positional(args: &[FunctionArg]) -> Result<()> {
    for arg in args {
        match arg {
            FunctionArg::Unnamed(inner) => value(inner)?,
            FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => {
                return Err(refused_text("a named argument of a function in FROM (give them in order)", arg));
            }
        }
    }
    Ok(())
}

/// Refuses clauses that a function of this kind does not know.
fn known(name: &str, clauses: &Clauses) -> Result<()> {
    let Clauses { distinct, ordered, nulls, within, filter, over } = *clauses;
    let aggregate = AGGREGATES.contains(name);
    let refused_for =
        |what: &str, kinds: &str| Err(Error::Unsupported(format!("{what} is not supported for {name}(), {kinds}")));
    if nulls && !NULLS.contains(&name) {
        return refused_for("IGNORE NULLS", "only for first_value, last_value, nth_value, lag and lead");
    }
    if !aggregate && !WINDOWS.contains(name) {
        let stray = [
            (distinct, "DISTINCT"),
            (ordered, "ORDER BY"),
            (within, "WITHIN GROUP"),
            (filter, "FILTER"),
            (over, "OVER"),
        ];
        let stray = stray.iter().find(|(there, _)| *there);
        return stray.map_or(Ok(()), |(_, what)| refused_for(what, "which is no aggregate and no window function"));
    }
    if distinct && NEVER_DISTINCT.contains(&name) {
        return refused_for("DISTINCT", "aggregate over a subquery with DISTINCT instead");
    }
    if !aggregate {
        let stray = [(distinct, "DISTINCT"), (ordered, "ORDER BY"), (within, "WITHIN GROUP"), (filter, "FILTER")];
        let stray = stray.iter().find(|(there, _)| *there);
        return stray.map_or(Ok(()), |(_, what)| refused_for(what, "which is no aggregate"));
    }
    Ok(())
}

/// Dates are written by templates in to_char, and by patterns with `%` in strftime: of the other's nothing but the
/// pattern would come out.
fn pattern(name: &str, args: &FunctionArguments) -> Result<()> {
    let FunctionArguments::List(list) = args else { return Ok(()) };
    if !matches!(name, "to_char" | "date_format" | "strftime") {
        return Ok(());
    }
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(pattern)))) = list.args.get(1) else {
        return Ok(());
    };
    let Value::SingleQuotedString(text) = &pattern.value else { return Ok(()) };
    let has_percent = text.contains('%');
    refuse(&[
        (name == "to_char" && has_percent, "to_char with a pattern like '%Y-%m-%d'; write strftime, or 'YYYY-MM-DD'"),
        (name != "to_char" && !has_percent, "strftime with a pattern like 'YYYY-MM-DD'; write to_char, or '%Y-%m-%d'"),
    ])
}

/// The rows of `nth_value` count from 1.
fn places(name: &str, args: &FunctionArguments) -> Result<()> {
    let FunctionArguments::List(list) = args else { return Ok(()) };
    if name != "nth_value" {
        return Ok(());
    }
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(place))) = list.args.get(1) else { return Ok(()) };
    let below = match place {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: _ } => true,
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), span: _ }) => text.chars().all(|c| c == '0'),
        _ => false,
    };
    let from_the_end = "a place below 1 in nth_value; turn the order around to count from the end";
    refuse(&[(below, from_the_end)])
}

/// Whether a name is an aggregate's.
pub(in crate::sql) fn is_aggregate(name: &ObjectName) -> bool {
    AGGREGATES.contains(&name.to_string().to_lowercase())
}

pub(super) fn window(spec: &WindowSpec) -> Result<()> {
    let WindowSpec { window_name, partition_by, order_by: keys, window_frame } = spec;
    refuse(&[(
        window_name.is_some(),
        "a window that goes on from another, OVER (name ..); write its PARTITION BY and ORDER BY out",
    )])?;
    exprs(partition_by)?;
    keys.iter().try_for_each(order_by)?;
    let Some(WindowFrame { units: _, start_bound, end_bound }) = window_frame else { return Ok(()) };
    [Some(start_bound), end_bound.as_ref()].into_iter().flatten().try_for_each(bound)
}

fn bound(of: &WindowFrameBound) -> Result<()> {
    match of {
        WindowFrameBound::Preceding(Some(inner)) | WindowFrameBound::Following(Some(inner)) => expr(inner),
        WindowFrameBound::CurrentRow | WindowFrameBound::Preceding(None) | WindowFrameBound::Following(None) => Ok(()),
    }
}

/// Refuses `OVER name` in a place where the planner takes the call for an aggregate.
pub(super) fn no_named_window(within: &Expr) -> Result<()> {
    let found = visit_expressions(within, |part: &Expr| match part {
        Expr::Function(Function { over: Some(WindowType::NamedWindow(name)), .. }) => {
            ControlFlow::Break(name.to_string())
        }
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(name) => {
            let what = format!(
                "OVER {name} outside of the SELECT list; write the window out, or refer to a column of the SELECT list"
            );
            Err(refused(&what))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}
