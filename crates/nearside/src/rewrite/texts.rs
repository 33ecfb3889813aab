//! Casts to and from text, in the meaning of PostgreSQL: values are written as [`texts`](crate::functions::texts) does,
//! and a time without a zone that becomes one with a zone is read in the session's, whatever the zone of the column
//! that it is put into or compared with. The offset of a text that becomes a time without a zone is not looked at. A
//! text as it is written has the bytes that PostgreSQL reads in it.

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Cast, TryCast};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, cast, lit, try_cast};
use datafusion_optimizer::AnalyzerRule;
use files::read_bytes;

use crate::error::Error;
use crate::functions::texts::{is_written_here, text_of};

/// The analyzer rule, behind DataFusion's coercion of types, which makes casts.
#[derive(Debug, Default)]
pub(crate) struct WrittenTexts;

impl AnalyzerRule for WrittenTexts {
    fn name(&self) -> &str {
        "written_texts"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = options.execution.time_zone.as_deref();
        Ok(plan.transform_up_with_subqueries(|node| of_node(node, zone))?.data)
    }
}

fn of_node(node: LogicalPlan, zone: Option<&str>) -> Result<Transformed<LogicalPlan>> {
    let mut any = false;
    node.apply_expressions(|expr| {
        any |= expr.exists(|part| Ok(concerns(part)))?;
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !any {
        return Ok(Transformed::no(node));
    }
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = &node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|part| match bytes(&part)? {
            Some(bytes) => Ok(Transformed::yes(bytes)),
            None => Ok(of_cast(part, &schema, zone)),
        })?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The type that a cast is to.
fn target(expr: &Expr) -> Option<&DataType> {
    match expr {
        Expr::Cast(cast) => Some(cast.field.data_type()),
        Expr::TryCast(cast) => Some(cast.field.data_type()),
        _ => None,
    }
}

fn concerns(expr: &Expr) -> bool {
    target(expr).is_some_and(|to| is_text(to) || is_bytes(to) || matches!(to, DataType::Timestamp(..)))
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// The bytes of a text as it is written.
///
/// # Errors
/// Those of [`read_bytes`].
fn bytes(expr: &Expr) -> Result<Option<Expr>> {
    let (Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })) = expr else {
        return Ok(None);
    };
    let text = inner.as_literal().and_then(|value| value.try_as_str().flatten());
    let (Some(text), true) = (text, is_bytes(field.data_type())) else { return Ok(None) };
    let read = read_bytes(text).map_err(|message| Error::plan(message).into_datafusion())?;
    Ok(Some(lit(ScalarValue::BinaryView(Some(read)).cast_to(field.data_type())?)))
}

/// A time as it is written without seconds, with them.
fn with_seconds(inner: &Expr, to: &DataType) -> Option<Expr> {
    let text = inner.as_literal()?.try_as_str().flatten()?.trim();
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let is_short =
        matches!(to, DataType::Timestamp(..)) && matches!(shape.as_str(), "0000-00-00 00:00" | "0000-00-00T00:00");
    is_short.then(|| lit(ScalarValue::Utf8View(Some(format!("{text}:00")))))
}

/// A time as it is written with an offset, without it.
fn without_offset(inner: &Expr, to: &DataType) -> Option<Expr> {
    let text = inner.as_literal()?.try_as_str().flatten()?.trim();
    let (day, behind) = text.split_at_checked(10).filter(|_| matches!(to, DataType::Timestamp(_, None)))?;
    let is_day = day.bytes().enumerate().all(|(at, c)| if at == 4 || at == 7 { c == b'-' } else { c.is_ascii_digit() });
    let clock = behind.strip_suffix(['Z', 'z']).or_else(|| {
        let at = behind.rfind(['+', '-'])?;
        let offset = &behind[at + 1..];
        let is_offset = !offset.is_empty() && offset.bytes().all(|c| c.is_ascii_digit() || c == b':');
        is_offset.then(|| &behind[..at])
    })?;
    let is_clock = clock.bytes().skip(1).all(|c| c.is_ascii_digit() || matches!(c, b':' | b'.' | b' '));
    (is_day && is_clock).then(|| lit(ScalarValue::Utf8View(Some(format!("{day}{}", clock.trim_end())))))
}

fn of_cast(expr: Expr, schema: &DFSchema, zone: Option<&str>) -> Transformed<Expr> {
    let Some(to) = target(&expr).cloned() else { return Transformed::no(expr) };
    let mut expr = expr;
    if let Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. }) = &mut expr
        && let Some(whole) = without_offset(inner, &to).or_else(|| with_seconds(inner, &to))
    {
        **inner = whole;
        return Transformed::yes(of_cast(expr, schema, zone).data);
    }
    let (Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. })) = &expr else {
        return Transformed::no(expr);
    };
    // What has no type here is of another place's rows.
    let Ok(from) = inner.get_type(schema) else { return Transformed::no(expr) };
    if is_text(&to) && is_written_here(&from) {
        return Transformed::yes(text_of(inner.as_ref().clone(), &to));
    }
    match (&to, zone) {
        (DataType::Timestamp(unit, Some(other)), Some(zone)) if other.as_ref() != zone && is_text(&from) => {
            let own = DataType::Timestamp(*unit, Some(zone.into()));
            let read = match &expr {
                Expr::TryCast(_) => try_cast(inner.as_ref().clone(), own),
                _ => cast(inner.as_ref().clone(), own),
            };
            Transformed::yes(cast(read, to))
        }
        _ => Transformed::no(expr),
    }
}
