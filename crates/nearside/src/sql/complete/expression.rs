//! Expressions, every kind of them that is planned.

use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DateTimeField, DictionaryField, Expr,
    Interval, LambdaFunction, Map, MapEntry, OrderByExpr, OrderByOptions, Subscript, TypedString, Value, ValueWithSpan,
};

use super::{inner_call, inner_query, refuse, refused, refused_text, types};
use crate::error::Result;
use crate::sql::nocase;
use crate::sql::similar::pattern_of;

pub(super) fn exprs<'a>(all: impl IntoIterator<Item = &'a Expr>) -> Result<()> {
    all.into_iter().try_for_each(expr)
}

fn maybe(inner: &Option<Box<Expr>>) -> Result<()> {
    inner.as_deref().map_or(Ok(()), expr)
}

pub(super) fn expr(of: &Expr) -> Result<()> {
    match of {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Wildcard(_) | Expr::QualifiedWildcard(_, _) => Ok(()),
        Expr::Value(ValueWithSpan { value: inner, span: _ }) => value(inner),
        Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner)
        | Expr::Nested(inner)
        | Expr::UnaryOp { op: _, expr: inner } => expr(inner),
        Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right)
        | Expr::BinaryOp { left, op: _, right }
        | Expr::AtTimeZone { timestamp: left, time_zone: right }
        | Expr::Position { expr: left, r#in: right } => exprs([left.as_ref(), right.as_ref()]),
        Expr::InList { expr: inner, list, negated: _ } => {
            expr(inner)?;
            exprs(list)
        }
        Expr::InSubquery { expr: inner, subquery, negated: _ } => {
            expr(inner)?;
            inner_query(subquery)
        }
        Expr::Between { expr: inner, negated: _, low, high } => exprs([inner.as_ref(), low.as_ref(), high.as_ref()]),
        Expr::Exists { subquery, negated: _ } | Expr::Subquery(subquery) => inner_query(subquery),
        Expr::AnyOp { left, compare_op, right, is_some: _ } | Expr::AllOp { left, compare_op, right } => {
            compared(compare_op)?;
            exprs([left.as_ref(), right.as_ref()])
        }
        Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
            maybe(operand)?;
            for CaseWhen { condition, result } in conditions {
                exprs([condition, result])?;
            }
            maybe(else_result)
        }
        Expr::Cast { kind, expr: inner, data_type, array, format } => {
            match kind {
                CastKind::Cast | CastKind::TryCast | CastKind::SafeCast | CastKind::DoubleColon => {}
            }
            refuse(&[
                (*array, "CAST (.. AS type ARRAY); use CAST (.. AS type[])"),
                (format.is_some(), "CAST .. FORMAT; use to_char(), to_date() or to_timestamp() with a format"),
            ])?;
            types::data_type(data_type)?;
            expr(inner)
        }
        Expr::TypedString(TypedString { data_type, value: inner, uses_odbc_syntax: _ }) => {
            types::data_type(data_type)?;
            value(&inner.value)
        }
        Expr::Function(call) => inner_call(call),
        Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => sets.iter().try_for_each(exprs),
        Expr::Tuple(inner) => exprs(inner),
        other => rarer(other),
    }
}

/// What is not in nearly every query.
fn rarer(of: &Expr) -> Result<()> {
    match of {
        Expr::SimilarTo { negated: _, expr: inner, pattern, escape_char: _ } if pattern_of(pattern).is_some() => {
            expr(inner)
        }
        Expr::Like { negated: _, any, expr: inner, pattern, escape_char: _ }
        | Expr::ILike { negated: _, any, expr: inner, pattern, escape_char: _ } => {
            // Which characters may escape, the planner says.
            refuse(&[(*any, "LIKE ANY; use OR")])?;
            exprs([inner.as_ref(), pattern.as_ref()])
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            expr(root)?;
            access_chain.iter().try_for_each(access)
        }
        Expr::Extract { field, syntax: _, expr: inner } => {
            unit(field)?;
            expr(inner)
        }
        Expr::Ceil { expr: inner, field } | Expr::Floor { expr: inner, field } => {
            let whole = matches!(field, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime));
            refuse(&[(!whole, "CEIL or FLOOR to a unit or to digits; use date_trunc() or round()")])?;
            expr(inner)
        }
        Expr::Substring { expr: inner, substring_from, substring_for, special: _, shorthand: _ } => {
            expr(inner)?;
            maybe(substring_from)?;
            maybe(substring_for)
        }
        Expr::Trim { trim_where: _, trim_what, expr: inner, trim_characters } => {
            let several = trim_characters.as_ref().is_some_and(|all| all.len() != 1);
            refuse(&[(several, "TRIM of several texts; put all characters into one")])?;
            maybe(trim_what)?;
            exprs(trim_characters.iter().flatten())?;
            expr(inner)
        }
        Expr::Overlay { expr: inner, overlay_what, overlay_from, overlay_for } => {
            exprs([inner.as_ref(), overlay_what.as_ref(), overlay_from.as_ref()])?;
            maybe(overlay_for)
        }
        Expr::Struct { values, fields } => {
            refuse(&[(!fields.is_empty(), "STRUCT<..> with types; use CAST, or named_struct(..)")])?;
            exprs(values)
        }
        Expr::Named { expr: inner, name: _ } => expr(inner),
        Expr::Dictionary(fields) => fields.iter().try_for_each(|DictionaryField { key: _, value }| expr(value)),
        Expr::Map(Map { entries }) => {
            entries.iter().try_for_each(|MapEntry { key, value }| exprs([key.as_ref(), value.as_ref()]))
        }
        Expr::Array(Array { elem, named: _ }) => exprs(elem),
        Expr::Interval(inner) => interval(inner),
        Expr::Lambda(LambdaFunction { params: _, body, syntax: _ }) => expr(body),
        other => never(other),
    }
}

/// Kinds that are refused, with what to use instead where there is something.
fn never(of: &Expr) -> Result<()> {
    Err(match of {
        Expr::Collate { expr: _, collation } if nocase::is_it(collation) => {
            refused("COLLATE NOCASE but beside a comparison and in ORDER BY; write lower()")
        }
        Expr::Collate { expr: _, collation: _ } => {
            refused("COLLATE; texts compare by their bytes, lower() and upper() fold case")
        }
        Expr::SimilarTo { negated: _, expr: _, pattern: _, escape_char: _ } => {
            refused("SIMILAR TO a pattern that is no literal; use LIKE, or ~ with a regular expression between ^ and $")
        }
        Expr::RLike { negated: _, expr: _, pattern: _, regexp: _ } => refused("RLIKE or REGEXP; use ~"),
        Expr::IsNormalized { expr: _, form: _, negated: _ } => refused("IS NORMALIZED"),
        Expr::InUnnest { expr: _, array_expr: _, negated: _ } => refused("IN UNNEST; use = ANY (list)"),
        Expr::JsonAccess { value: _, path: _ } => refused("a path into JSON (value:path); use struct fields"),
        Expr::Prefixed { prefix: _, value: _ } => refused("a character set before a text; leave it out"),
        Expr::MemberOf(_) => refused("MEMBER OF; use = ANY (list)"),
        Expr::OuterJoin(_) => refused("(+); use LEFT JOIN or RIGHT JOIN"),
        Expr::Prior(_) => refused("PRIOR; use WITH RECURSIVE"),
        Expr::Convert { .. } => refused("CONVERT; use CAST"),
        Expr::MatchAgainst { .. } => refused("MATCH .. AGAINST; use LIKE"),
        other => refused_text("this kind of expression", other),
    })
}

fn value(of: &Value) -> Result<()> {
    match of {
        Value::Number(_, long) => refuse(&[(*long, "L behind a number; use CAST (.. AS BIGINT)")]),
        // The planner takes some notations of texts, and refuses the others.
        _ => Ok(()),
    }
}

fn compared(op: &BinaryOperator) -> Result<()> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    match op {
        Eq | NotEq | Lt | LtEq | Gt | GtEq => Ok(()),
        other => Err(refused_text("this operator before ANY or ALL (there are =, <>, <, <=, > or >=)", other)),
    }
}

fn access(of: &AccessExpr) -> Result<()> {
    match of {
        AccessExpr::Dot(inner) | AccessExpr::Subscript(Subscript::Index { index: inner }) => expr(inner),
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride }) => {
            exprs([lower_bound, upper_bound, stride].into_iter().flatten())
        }
    }
}

fn interval(of: &Interval) -> Result<()> {
    let Interval { value, leading_field, leading_precision, last_field, fractional_seconds_precision } = of;
    let is_text = matches!(value.as_ref(), Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
    let precise = leading_precision.is_some() || fractional_seconds_precision.is_some();
    let seconds = matches!(last_field.as_ref().or(leading_field.as_ref()), Some(DateTimeField::Second));
    let of_lead = leading_precision.is_some()
        && (!matches!(leading_field, Some(DateTimeField::Second)) || fractional_seconds_precision.is_some());
    refuse(&[
        (of_lead || (precise && !(seconds && is_text)), "a precision in INTERVAL of what are no seconds; leave it out"),
        (
            last_field.is_some() && !is_text,
            "INTERVAL .. TO ..; write the units into the text, as in INTERVAL '1 day 2 hours'",
        ),
    ])?;
    leading_field.iter().try_for_each(unit)?;
    expr(value)
}

/// A key of ORDER BY.
pub(super) fn order_by(key: &OrderByExpr) -> Result<()> {
    let OrderByExpr { expr: inner, options, with_fill } = key;
    refuse(&[(with_fill.is_some(), "ORDER BY .. WITH FILL; join the rows with generate_series(..)")])?;
    order_options(options);
    expr(inner)
}

/// Whichever way and wherever NULLs stand.
pub(super) fn order_options(options: &OrderByOptions) {
    let OrderByOptions { asc: _, nulls_first: _ } = options;
}

fn unit(field: &DateTimeField) -> Result<()> {
    let day = matches!(field, DateTimeField::Week(Some(_)));
    refuse(&[(day, "WEEK (day); weeks begin on Mondays")])
}
