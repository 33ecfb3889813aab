//! Functions that are made of others: `year(d)` is `extract(year FROM d)`. They are DuckDB's, for who comes from there;
//! whatever PostgreSQL has under such a name means what it means there.
//!
//! A call is written in other words before anybody looks at it, so nothing else has to know of these functions. An
//! argument that stands twice in these words is computed twice, so it may not be something else each time.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, Select, SelectItem, SetExpr, Value, VisitorMut,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::figured::figured;
use super::walk::rewrite;
use super::written_with::volatile_call;
use super::{normalised, parsed};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Functions by name and number of arguments, and what they are made of.
const COMPOSED: &[(&str, usize, &str)] = &[
    ("arg_max", 2, "first_value($1 ORDER BY $2 DESC) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)"),
    ("arg_min", 2, "first_value($1 ORDER BY $2) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)"),
    ("count_if", 1, "count(*) FILTER (WHERE $1)"),
    ("mode", 1, "mode() WITHIN GROUP (ORDER BY $1)"),
    ("quantile", 2, "percentile_disc($2) WITHIN GROUP (ORDER BY $1)"),
    ("approx_quantile", 2, "approx_percentile_cont($1, $2)"),
    ("approx_count_distinct", 1, "approx_distinct($1)"),
    ("geomean", 1, "exp(avg(ln(CAST($1 AS DOUBLE PRECISION))))"),
    ("favg", 1, "avg(CAST($1 AS DOUBLE PRECISION))"),
    ("fsum", 1, "sum(CAST($1 AS DOUBLE PRECISION))"),
    ("group_concat", 1, "string_agg(CAST($1 AS TEXT), ',')"),
    ("group_concat", 2, "string_agg(CAST($1 AS TEXT), $2)"),
    ("first", 1, "first_value($1)"),
    ("last", 1, "last_value($1)"),
    ("year", 1, "CAST(extract(year FROM $1) AS BIGINT)"),
    ("quarter", 1, "CAST(extract(quarter FROM $1) AS BIGINT)"),
    ("month", 1, "CAST(extract(month FROM $1) AS BIGINT)"),
    ("week", 1, "CAST(extract(week FROM $1) AS BIGINT)"),
    ("day", 1, "CAST(extract(day FROM $1) AS BIGINT)"),
    ("dayofweek", 1, "CAST(extract(dow FROM $1) AS BIGINT)"),
    ("isodow", 1, "CAST(extract(isodow FROM $1) AS BIGINT)"),
    ("dayofyear", 1, "CAST(extract(doy FROM $1) AS BIGINT)"),
    ("isoyear", 1, "CAST(extract(isoyear FROM $1) AS BIGINT)"),
    ("hour", 1, "CAST(extract(hour FROM $1) AS BIGINT)"),
    ("minute", 1, "CAST(extract(minute FROM $1) AS BIGINT)"),
    ("second", 1, "CAST(floor(extract(second FROM $1)) AS BIGINT)"),
    ("millisecond", 1, "CAST(floor(extract(milliseconds FROM $1)) AS BIGINT)"),
    ("microsecond", 1, "CAST(extract(microseconds FROM $1) AS BIGINT)"),
    ("century", 1, "CAST(extract(century FROM $1) AS BIGINT)"),
    ("decade", 1, "CAST(extract(decade FROM $1) AS BIGINT)"),
    ("dayname", 1, "to_char($1, 'FMDay')"),
    ("monthname", 1, "to_char($1, 'FMMonth')"),
    ("last_day", 1, "CAST(date_trunc('month', CAST($1 AS TIMESTAMP)) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)"),
    ("epoch", 1, "CAST(extract(epoch FROM $1) AS DOUBLE PRECISION)"),
    ("epoch_ms", 1, "CAST(floor(extract(epoch FROM $1) * 1000) AS BIGINT)"),
    ("epoch_us", 1, "CAST(extract(epoch FROM $1) * 1000000 AS BIGINT)"),
    ("date_add", 2, "$1 + $2"),
    ("get_current_timestamp", 0, "now()"),
    ("localtime", 0, "CAST(now() AS TIME)"),
    ("localtimestamp", 0, "CAST(now() AS TIMESTAMP)"),
    ("age", 1, "age(CAST(current_date AS TIMESTAMP), $1)"),
    ("date_trunc", 3, "timezone($3, date_trunc($1, timezone($3, $2)))"),
    ("to_years", 1, "$1 * INTERVAL '1 year'"),
    ("to_months", 1, "$1 * INTERVAL '1 month'"),
    ("to_weeks", 1, "$1 * INTERVAL '7 days'"),
    ("to_days", 1, "$1 * INTERVAL '1 day'"),
    ("to_hours", 1, "$1 * INTERVAL '1 hour'"),
    ("to_minutes", 1, "$1 * INTERVAL '1 minute'"),
    ("to_seconds", 1, "$1 * INTERVAL '1 second'"),
    ("prefix", 2, "starts_with($1, $2)"),
    ("suffix", 2, "ends_with($1, $2)"),
    ("ord", 1, "ascii($1)"),
    ("lcase", 1, "lower($1)"),
    ("ucase", 1, "upper($1)"),
    ("string_split", 2, "string_to_array($1, $2)"),
    ("regexp_extract", 2, "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN coalesce(regexp_substr($1, $2), '') END"),
    (
        "regexp_extract",
        3,
        "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN coalesce(regexp_substr($1, $2, 1, 1, '', $3), '') END",
    ),
    ("regexp_full_match", 2, "$1 ~ ('^(?:' || $2 || ')$')"),
    (
        "regexp_extract_all",
        2,
        "CASE WHEN $1 IS NOT NULL AND $2 IS NOT NULL THEN coalesce((SELECT array_agg(found[1]) FROM \
         (SELECT regexp_matches($1, '(' || $2 || ')', 'g') AS found) AS matches), CAST('{}' AS TEXT[])) END",
    ),
    ("if", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("list_count", 1, "(SELECT count(element) FROM unnest($1) AS list (element))"),
    ("list_unique", 1, "(SELECT count(DISTINCT element) FROM unnest($1) AS list (element))"),
    ("list_first", 1, "($1)[1]"),
    ("list_last", 1, "($1)[cardinality($1)]"),
    ("isinf", 1, "$1 IN ('Infinity', '-Infinity')"),
    ("xor", 2, "$1 # $2"),
];

/// Other names of these functions.
const ALSO: &[(&str, &str)] = &[
    ("argmax", "arg_max"),
    ("max_by", "arg_max"),
    ("argmin", "arg_min"),
    ("min_by", "arg_min"),
    ("countif", "count_if"),
    ("geometric_mean", "geomean"),
    ("listagg", "group_concat"),
    ("arbitrary", "first"),
    ("weekday", "dayofweek"),
    ("weekofyear", "week"),
    ("dayofmonth", "day"),
    ("datediff", "date_diff"),
    ("unicode", "ord"),
    ("str_split", "string_split"),
    ("iif", "if"),
    ("list_aggr", "list_aggregate"),
];

/// Differences of dates, `date_diff('unit', $1, $2)`: how many borders of the unit lie between.
const DIFFERENCES: &[(&str, &str)] = &[
    ("year", "CAST(extract(year FROM $2) - extract(year FROM $1) AS BIGINT)"),
    (
        "quarter",
        "CAST(extract(year FROM $2) * 4 + extract(quarter FROM $2) \
         - extract(year FROM $1) * 4 - extract(quarter FROM $1) AS BIGINT)",
    ),
    (
        "month",
        "CAST(extract(year FROM $2) * 12 + extract(month FROM $2) \
         - extract(year FROM $1) * 12 - extract(month FROM $1) AS BIGINT)",
    ),
    (
        "week",
        "CAST((CAST(date_trunc('week', CAST($2 AS TIMESTAMP)) AS DATE) \
         - CAST(date_trunc('week', CAST($1 AS TIMESTAMP)) AS DATE)) / 7 AS BIGINT)",
    ),
    ("day", "CAST(CAST($2 AS DATE) - CAST($1 AS DATE) AS BIGINT)"),
    ("hour", "CAST((EPOCH_OF_HOUR($2) - EPOCH_OF_HOUR($1)) / 3600 AS BIGINT)"),
    ("minute", "CAST((EPOCH_OF_MINUTE($2) - EPOCH_OF_MINUTE($1)) / 60 AS BIGINT)"),
    ("second", "CAST(EPOCH_OF_SECOND($2) - EPOCH_OF_SECOND($1) AS BIGINT)"),
];

/// What `list_aggregate(list, 'name')` may compute.
const LIST_AGGREGATES: &[&str] =
    &["sum", "avg", "min", "max", "count", "median", "stddev", "variance", "bool_and", "bool_or", "string_agg"];

/// A function as it is parsed: its name, its arguments, and what it is made of.
type Made = (&'static str, usize, Expr);

static MADE: LazyLock<Vec<Made>> = LazyLock::new(|| {
    let made = |(name, arguments, text): &(&'static str, usize, &str)| Some((*name, *arguments, template(text).ok()?));
    COMPOSED.iter().filter_map(made).collect()
});

/// The expression of a text of ours.
fn template(text: &str) -> Result<Expr> {
    let query = parsed::query(&format!("SELECT {text}"))?;
    match *query.body {
        SetExpr::Select(select) => match select.projection.into_iter().next() {
            Some(SelectItem::UnnamedExpr(expr)) => Ok(expr),
            _ => Err(parsed::other(text)),
        },
        _ => Err(parsed::other(text)),
    }
}

/// The names of these functions.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let own = COMPOSED.iter().map(|(name, ..)| *name).chain(["date_diff", "list_aggregate"]);
    own.chain(ALSO.iter().map(|(name, _)| *name))
}

fn own_name(name: &str) -> &str {
    ALSO.iter().find(|(also, _)| *also == name).map_or(name, |(_, own)| own)
}

/// Whether there is such a function.
pub(crate) fn is_known(name: &str) -> bool {
    let name = own_name(name);
    matches!(name, "date_diff" | "list_aggregate") || COMPOSED.iter().any(|(known, ..)| *known == name)
}

/// Whether a text may call one of these functions: most call none, and are not looked through.
pub(super) fn may_be_called(tokens: &[TokenWithSpan]) -> bool {
    let said = tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut before: Option<&Token> = None;
    for token in said {
        if let (Some(Token::Word(word)), Token::LParen) = (before, token)
            && word.quote_style.is_none()
            && is_known(&word.value.to_lowercase())
        {
            return true;
        }
        before = Some(token);
    }
    false
}

/// Writes calls of these functions in other words.
///
/// # Errors
/// What these words have no place for.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Composed)
}

struct Composed;

impl VisitorMut for Composed {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            // An output is called as its function.
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(name) = root(expr)
            {
                let alias = Ident::with_quote('"', name);
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Function(call) = expr
            && let Some(name) = called(&call.name).filter(|name| is_known(name))
        {
            match written(call, &name) {
                Ok(Some(made)) => *expr = made,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

/// The name of an output that such a function gives.
fn root(expr: &Expr) -> Option<String> {
    let mut inner = expr;
    while let Expr::Nested(within) | Expr::Cast { expr: within, .. } = inner {
        inner = within;
    }
    match inner {
        Expr::Function(call) => called(&call.name).filter(|name| is_known(name)).map(|_| figured(expr)),
        _ => None,
    }
}

/// A function's name, without quotes and a schema.
fn called(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] if name.quote_style.is_none() => Some(normalised(name.clone())),
        _ => None,
    }
}

/// A call in other words; `None` where there is no such function, with so many arguments.
fn written(call: &Function, name: &str) -> Result<Option<Expr>> {
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let given = match &call.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        // A word that is a call: LOCALTIME.
        FunctionArguments::None => &[],
        FunctionArguments::Subquery(_) => return Ok(None),
    };
    let Some(arguments) = given.iter().map(value).collect::<Option<Vec<Expr>>>() else { return Ok(None) };
    // What PostgreSQL has under this name is another function.
    if !call.within_group.is_empty() {
        return Ok(None);
    }
    let own = own_name(name);
    let (made, arguments) = match own {
        "date_diff" => match difference(name, &arguments)? {
            Some(made) => (made, arguments[1..].to_vec()),
            None => return Ok(None),
        },
        "list_aggregate" => match list_aggregate(name, &arguments)? {
            Some(made) => (made, arguments[..1].to_vec()),
            None => return Ok(None),
        },
        _ => match MADE.iter().find(|(known, count, _)| *known == own && *count == arguments.len()) {
            Some((_, _, made)) => (made.clone(), arguments),
            None => return Ok(None),
        },
    };
    put_together(made, arguments, call, name).map(Some)
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.to_lowercase()),
            _ => None,
        },
        _ => None,
    }
}

/// What `date_diff('unit', from, to)` is made of.
fn difference(name: &str, arguments: &[Expr]) -> Result<Option<Expr>> {
    let [unit, _, _] = arguments else { return Ok(None) };
    let refused = || {
        let units: Vec<&str> = DIFFERENCES.iter().map(|(unit, _)| *unit).collect();
        Error::Unsupported(format!("{name} counts one of these units, as a text: {}", units.join(", ")))
    };
    let unit = text_of(unit).ok_or_else(refused)?;
    let unit = unit.strip_suffix('s').unwrap_or(&unit);
    let (_, text) = DIFFERENCES.iter().find(|(known, _)| *known == unit).ok_or_else(refused)?;
    let mut text = text.to_string();
    for unit in ["HOUR", "MINUTE", "SECOND"] {
        for place in ["$1", "$2"] {
            let epoch = format!("extract(epoch FROM date_trunc('{unit}', CAST({place} AS TIMESTAMP)))").to_lowercase();
            text = text.replace(&format!("EPOCH_OF_{unit}({place})"), &epoch);
        }
    }
    template(&text).map(Some)
}

/// What `list_aggregate(list, 'name')` is made of.
fn list_aggregate(name: &str, arguments: &[Expr]) -> Result<Option<Expr>> {
    let [_, aggregate] = arguments else { return Ok(None) };
    let aggregate = text_of(aggregate).filter(|aggregate| LIST_AGGREGATES.contains(&aggregate.as_str()));
    let aggregate = aggregate.ok_or_else(|| {
        Error::Unsupported(format!("{name} computes one of these, as a text: {}", LIST_AGGREGATES.join(", ")))
    })?;
    let of = if aggregate == "string_agg" { "CAST(element AS TEXT), ','" } else { "element" };
    template(&format!("(SELECT {aggregate}({of}) FROM unnest($1) AS list (element))")).map(Some)
}

/// Arguments put in the places that they have, and what else a call of an aggregate says.
fn put_together(made: Expr, arguments: Vec<Expr>, call: &Function, name: &str) -> Result<Expr> {
    struct Places {
        arguments: Vec<Expr>,
        used: Vec<usize>,
    }
    impl VisitorMut for Places {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let place = match expr {
                Expr::Value(value) => match &value.value {
                    Value::Placeholder(id) => id.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()),
                    _ => None,
                },
                _ => None,
            };
            if let Some(place) = place.and_then(|number| number.checked_sub(1))
                && let Some(argument) = self.arguments.get(place)
            {
                self.used[place] += 1;
                *expr = match argument {
                    Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Function(_) => {
                        argument.clone()
                    }
                    other => Expr::Nested(Box::new(other.clone())),
                };
            }
            ControlFlow::Continue(())
        }
    }
    let mut places = Places { used: vec![0; arguments.len()], arguments };
    let mut made = made;
    let _ = ast::VisitMut::visit(&mut made, &mut places);
    for (argument, used) in places.arguments.iter().zip(&places.used) {
        if *used > 1
            && let Some(volatile) = volatile_call(argument)
        {
            return Err(Error::Unsupported(format!(
                "{name} of {volatile}(), which is something else each time, is not supported; compute it in a subquery"
            )));
        }
    }
    let FunctionArguments::List(list) = &call.args else { return Ok(made) };
    let has_clauses = list.duplicate_treatment.is_some() || !list.clauses.is_empty() || call.null_treatment.is_some();
    if call.filter.is_none() && call.over.is_none() && !has_clauses {
        return Ok(match made {
            Expr::Function(_) | Expr::Cast { .. } | Expr::Case { .. } | Expr::Nested(_) | Expr::Subquery(_) => made,
            other => Expr::Nested(Box::new(other)),
        });
    }
    let refused = |what: &str| {
        Err(Error::plan(
            SqlState::FeatureNotSupported,
            format!("{what} in a call of {name} is not supported; write what it is made of, see docs/functions.md"),
        ))
    };
    let Expr::Function(function) = &mut made else {
        return refused(if call.over.is_some() { "OVER" } else { "FILTER, DISTINCT or ORDER BY" });
    };
    if call.over.is_some() {
        if function.filter.is_some() || !function.within_group.is_empty() {
            return refused("OVER");
        }
        function.over.clone_from(&call.over);
    }
    if let Some(filter) = &call.filter {
        let both = match function.filter.take() {
            None => filter.clone(),
            Some(own) => Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Nested(own)),
                op: BinaryOperator::And,
                right: Box::new(Expr::Nested(filter.clone())),
            }),
        };
        function.filter = Some(both);
    }
    if has_clauses {
        match &mut function.args {
            FunctionArguments::List(own) if own.clauses.is_empty() && function.within_group.is_empty() => {
                own.duplicate_treatment = list.duplicate_treatment;
                own.clauses.clone_from(&list.clauses);
                // What is ordered by what it gathers is ordered by that as it is gathered, which DISTINCT asks for.
                if let (Some(written), Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(made)))) =
                    (places.arguments.first(), own.args.first())
                    && list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
                {
                    for clause in &mut own.clauses {
                        if let FunctionArgumentClause::OrderBy(keys) = clause {
                            keys.iter_mut().filter(|key| key.expr == *written).for_each(|key| key.expr = made.clone());
                        }
                    }
                }
                function.null_treatment = call.null_treatment;
            }
            _ => return refused("DISTINCT or ORDER BY"),
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_functions_are_made_of_is_sql() {
        assert_eq!(MADE.len(), COMPOSED.len());
        for (name, arguments, text) in COMPOSED {
            assert!(template(text).is_ok(), "{name}");
            for place in 1..=*arguments {
                assert!(text.contains(&format!("${place}")), "{name} does without ${place}");
            }
            assert!(!text.contains(&format!("${}", arguments + 1)), "{name}");
        }
        for (also, own) in ALSO {
            assert!(is_known(own) && !COMPOSED.iter().any(|(name, ..)| name == also), "{also}");
        }
        for (unit, _) in DIFFERENCES {
            let arguments = ["SELECT 'x'", "SELECT 1", "SELECT 2"].map(|_| Expr::Value(Value::Null.into()));
            let unit = Expr::Value(Value::SingleQuotedString(format!("{unit}s")).into());
            let made = difference("date_diff", &[&[unit][..], &arguments[1..]].concat()).unwrap().unwrap();
            assert!(!made.to_string().contains("EPOCH_OF"), "{made}");
        }
    }
}
