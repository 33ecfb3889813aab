//! Casts to and from text, in the meaning of PostgreSQL: values are written as [`texts`](crate::functions::texts) does,
//! and texts are read as [`reading`](crate::functions::reading) does.

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Cast, TryCast};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, cast, lit, try_cast};
use datafusion_optimizer::AnalyzerRule;

use super::casts::keys;
use super::named::naming_in;
use crate::error::Error;
use crate::error::codes::SqlState;
use crate::functions::arrays::casts::{cast_lists, is_cast_here};
use crate::functions::catalog_asked::named_type;
use crate::functions::reading::{for_arrow, is_read_here, is_read_whole, read_one, reading};
use crate::functions::texts::nested::element;
use crate::functions::texts::{is_written_here, text_of};

/// The analyzer rule, behind DataFusion's coercion of types, which makes casts.
#[derive(Debug, Default)]
pub(crate) struct WrittenTexts;

impl AnalyzerRule for WrittenTexts {
    fn name(&self) -> &str {
        "written_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
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
    let around = schema.fields().iter().any(|field| named_type(field).is_some()).then(|| node.clone());
    let rewrite = |expr: Expr| {
        expr.transform_up(|part| match (of_written(&part)?, of_name(&part, &schema, around.as_ref())?) {
            (_, Some(name)) => Ok(Transformed::yes(name)),
            (Some(read), None) => Ok(Transformed::yes(of_cast(read, &schema)?.data)),
            (None, None) => of_cast(part, &schema),
        })
    };
    node.map_expressions(|expr| match expr {
        // The names are those of what is in the sets.
        Expr::GroupingSet(mut sets) => {
            let mut changed = false;
            for key in keys(&mut sets) {
                let name = names.save(key);
                let rewritten = rewrite(std::mem::take(key))?;
                changed |= rewritten.transformed;
                *key = if rewritten.transformed { name.restore(rewritten.data) } else { rewritten.data };
            }
            Ok(Transformed::new_transformed(Expr::GroupingSet(sets), changed))
        }
        expr => {
            let name = names.save(&expr);
            Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
        }
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
    target(expr).is_some_and(|to| is_text(to) || is_read_here(to))
}

fn has_zone(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

/// A text as it is written, with how it is read: the value, or a text that Arrow reads for times and numbers.
///
/// # Errors
/// What is wrong with the text, but for TRY_CAST, which gives NULL.
fn of_written(expr: &Expr) -> Result<Option<Expr>> {
    let (Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })) = expr else {
        return Ok(None);
    };
    let (Some(text), to) = (inner.as_literal().and_then(|value| value.try_as_str().flatten()), field.data_type())
    else {
        return Ok(None);
    };
    let read = match is_read_whole(to) {
        true => match read_one(text, to) {
            Ok(value) => Ok(Some(lit(value))),
            Err(error) => Err(error),
        },
        false => for_arrow(text, to)
            .map(|text| text.map(|text| lit(ScalarValue::Utf8View(Some(text)))))
            .map_err(|(code, message)| Error::plan(code, message)),
    };
    let read = match read {
        Ok(read) => read,
        Err(_) if matches!(expr, Expr::TryCast(_)) => return Ok(Some(lit(ScalarValue::try_from(to)?))),
        Err(error) => return Err(error.into_datafusion()),
    };
    Ok(read.map(|read| match expr {
        _ if is_read_whole(to) => read,
        Expr::TryCast(_) => try_cast(read, to.clone()),
        _ => cast(read, to.clone()),
    }))
}

/// A cast to text of a number that stands for a name.
///
/// # Errors
/// Nobody in the plan knows names.
fn of_name(expr: &Expr, schema: &DFSchema, around: Option<&LogicalPlan>) -> Result<Option<Expr>> {
    let (Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })) = expr else {
        return Ok(None);
    };
    if !is_text(field.data_type()) {
        return Ok(None);
    }
    let Ok((_, from)) = inner.to_field(schema) else { return Ok(None) };
    match named_type(&from) {
        Some(of) => {
            let naming = naming_in(inner, around, of)?;
            Ok(Some(cast(naming.call(vec![inner.as_ref().clone()]), field.data_type().clone())))
        }
        None => Ok(None),
    }
}

fn of_cast(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(to) = target(&expr).cloned() else { return Ok(Transformed::no(expr)) };
    let (Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. })) = &expr else {
        return Ok(Transformed::no(expr));
    };
    // What has no type here is of another place's rows.
    let Ok(from) = inner.get_type(schema) else { return Ok(Transformed::no(expr)) };
    if is_text(&to) && is_written_here(&from) {
        return Ok(Transformed::yes(text_of(inner.as_ref().clone(), &to)));
    }
    let tries = matches!(expr, Expr::TryCast(_));
    if is_cast_here(&from, &to) {
        if dimensions(&from) > dimensions(&to) {
            let message = format!(
                "a list of {} dimensions cannot be cast to one of {}; write [] once for each behind the type",
                dimensions(&from),
                dimensions(&to)
            );
            return Err(Error::plan(SqlState::CannotCoerce, message).into_datafusion());
        }
        return Ok(Transformed::yes(cast_lists(inner.as_ref().clone(), &to, tries)));
    }
    // A text as it is written is folded, by Arrow.
    let reads = is_text(&from) && inner.as_literal().is_none() && is_read_here(&to) && !has_zone(&to);
    Ok(match reads {
        true => Transformed::yes(reading(inner.as_ref().clone(), &to, tries)),
        false => Transformed::no(expr),
    })
}

/// How many lists are within each other.
fn dimensions(of: &DataType) -> usize {
    element(of).map_or(0, |element| 1 + dimensions(element))
}
