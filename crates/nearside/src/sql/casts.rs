//! Casts of columns, which the planner names after the column alone: beside the column itself it would take them for
//! one.
//!
//! So a cast that is an output gets the name that it has in PostgreSQL, that of the column, in words; and every cast of
//! something with a column in it is put into a call of [`CAST`], which has a name of its own until the plan's types are
//! known (`rewrite::casts`). A key of ORDER BY that is written as an output is, is that output.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, OrderByKind, Query, Select, SelectItem, SetExpr, Value, ValueWithSpan,
    VisitorMut, visit_expressions,
};

use super::calls::call;
use super::scope::{output_name, quoted};
use super::walk::visit_mut;

/// The function that casts are put into: it gives its argument.
pub(crate) const CAST: &str = "__nearside_cast";

/// What is cast to NUMERIC without digits: it gives its argument as a number with the digits that its type has.
pub(crate) const NUMERIC: &str = "__nearside_numeric";

/// Names outputs that are casts.
pub(super) fn write_out(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Outputs);
}

/// Tells a cast from the column that it casts.
pub(super) fn apart_from_its_column(expr: &mut Expr) {
    if is_cast(expr) && (has_column(expr) || is_of_call(expr)) {
        let cast = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = call(CAST, vec![cast]);
    }
}

/// A number that is cast to NUMERIC without digits keeps its own, and a text as it is written has those that are
/// written there. A parameter is left: its type is told by the cast.
pub(super) fn with_own_digits(expr: &mut Expr) {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } = expr else { return };
    let (DataType::Numeric(digits) | DataType::Decimal(digits) | DataType::Dec(digits)) = data_type else { return };
    if *digits != ExactNumberInfo::None {
        return;
    }
    match bare(inner) {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(_) | Value::Null, .. }) => {}
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            if let Some((precision, scale)) = digits_of(text) {
                *digits = ExactNumberInfo::PrecisionAndScale(precision, scale);
            }
        }
        _ => {
            let value = std::mem::replace(inner.as_mut(), Expr::Value(Value::Null.into()));
            *expr = call(CAST, vec![call(NUMERIC, vec![value])]);
        }
    }
}

/// How many digits a number that is written has, and how many of them stand behind the point; `None` where it is
/// written otherwise, or has more than the type takes.
fn digits_of(text: &str) -> Option<(u64, i64)> {
    const DIGITS_MAX: usize = 38;
    let text = text.trim();
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (before, behind) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let all = before.len() + behind.len();
    let is_number = all > 0 && are_digits(before) && are_digits(behind);
    (is_number && all <= DIGITS_MAX).then_some((all as u64, behind.len() as i64))
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

/// Gives outputs that are casts the names of their columns, where no other output may have that name.
pub(super) fn name_outputs(select: &mut Select) {
    let stars = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. })
    };
    if select.projection.iter().any(stars) || !select.projection.iter().any(|item| unnamed(item).is_some()) {
        return;
    }
    let names: Vec<Option<String>> = select.projection.iter().map(name).collect();
    for item in &mut select.projection {
        if let Some(own) = unnamed(item)
            && names.iter().flatten().filter(|name| **name == own).count() == 1
            && let SelectItem::UnnamedExpr(expr) = item
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(&own) };
        }
    }
}

struct Outputs;

impl VisitorMut for Outputs {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        let all_known = select
            .projection
            .iter()
            .all(|item| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }));
        if let Some(order_by) = query.order_by.as_mut()
            && let OrderByKind::Expressions(keys) = &mut order_by.kind
            && all_known
        {
            for key in keys.iter_mut().filter(|key| is_cast(&key.expr)) {
                let place = select.projection.iter().position(|item| match item {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => *expr == key.expr,
                    _ => false,
                });
                if let Some(place) = place {
                    key.expr = Expr::Value(Value::Number((place + 1).to_string(), false).into());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_outputs(select);
        ControlFlow::Continue(())
    }
}

/// The name of an output that is a cast and has none by AS.
fn unnamed(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) if is_cast(expr) => output_name(expr),
        _ => None,
    }
}

fn name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(super::normalised(alias.clone())),
        SelectItem::UnnamedExpr(expr) => output_name(expr),
        _ => None,
    }
}

fn is_cast(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_cast(inner),
        Expr::Cast { .. } | Expr::AtTimeZone { .. } => true,
        _ => false,
    }
}

/// Whether it casts a call, whose type may be told by a name (JSONB), which the cast would keep.
fn is_of_call(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { expr: inner, .. } | Expr::Nested(inner) => is_of_call(inner),
        Expr::Function(_) | Expr::BinaryOp { .. } | Expr::CompoundFieldAccess { .. } | Expr::Subquery(_) => true,
        _ => false,
    }
}

fn has_column(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}
