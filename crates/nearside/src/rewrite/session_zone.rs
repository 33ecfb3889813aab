//! A TIMESTAMPTZ is told in the zone of the session that asks, whatever the zone of its column.
//!
//! The type of a column has a zone, that of the session which made its table. An instant is the same in all of them, so
//! comparisons, joins, groups and the order of rows go by the column as it is. What depends on the clock of a zone
//! takes the instant in the session's: functions (`extract`, `to_char`, `date_trunc`, ..), casts to texts, days and
//! times, and intervals that are added, whose days may be 23 or 25 hours long. A cast from one zone to another is
//! another name for the same numbers. Every expression keeps its type, so nothing around it changes.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast, try_cast};
use datafusion_optimizer::AnalyzerRule;

/// The analyzer rule, behind DataFusion's coercion of types.
#[derive(Debug, Default)]
pub(crate) struct SessionZone;

impl AnalyzerRule for SessionZone {
    fn name(&self) -> &str {
        "session_zone"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let Some(zone) = options.execution.time_zone.as_deref() else { return Ok(plan) };
        Ok(plan.transform_up_with_subqueries(|node| of_node(node, zone))?.data)
    }
}

fn of_node(node: LogicalPlan, zone: &str) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = &node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let mut any = schema.fields().iter().any(|field| here(field.data_type(), zone).is_some());
    if !any {
        node.apply_expressions(|expr| {
            any |= expr.exists(|part| Ok(is_elsewhere(part, zone)))?;
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    if !any {
        return Ok(Transformed::no(node));
    }
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.transform_up(|part| of_part(part, &schema, zone))?.update_data(|expr| name.restore(expr)))
    })
}

/// Whether an expression that is no column of the node's inputs is an instant of another zone.
fn is_elsewhere(expr: &Expr, zone: &str) -> bool {
    let of = match expr {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => field.data_type(),
        Expr::OuterReferenceColumn(field, _) => field.data_type(),
        Expr::Literal(value, _) => return here(&value.data_type(), zone).is_some(),
        _ => return false,
    };
    here(of, zone).is_some()
}

/// The type of the same instants in the session's zone; `None` where there are none of another one.
pub(super) fn here(of: &DataType, zone: &str) -> Option<DataType> {
    let within = |field: &Field| {
        let of = here(field.data_type(), zone)?;
        Some(Arc::new(field.clone().with_data_type(of)))
    };
    match of {
        DataType::Timestamp(unit, Some(other)) if other.as_ref() != zone => {
            Some(DataType::Timestamp(*unit, Some(zone.into())))
        }
        DataType::List(field) => within(field).map(DataType::List),
        DataType::LargeList(field) => within(field).map(DataType::LargeList),
        DataType::Struct(fields) => {
            let told = fields.iter().map(|field| within(field));
            let any = told.clone().any(|field| field.is_some());
            any.then(|| DataType::Struct(told.zip(fields).map(|(told, field)| told.unwrap_or(field.clone())).collect()))
        }
        _ => None,
    }
}

/// Whether values of a type depend on the zone in which an instant is told.
fn is_by_the_clock(to: &DataType) -> bool {
    use DataType as T;
    matches!(
        to,
        T::Utf8
            | T::LargeUtf8
            | T::Utf8View
            | T::Date32
            | T::Date64
            | T::Time32(_)
            | T::Time64(_)
            | T::Timestamp(_, None)
    )
}

/// An expression that tells its instants in the session's zone; `None` where it has none of another one.
fn told(expr: &Expr, schema: &DFSchema, zone: &str) -> Option<Expr> {
    let to = here(&expr.get_type(schema).ok()?, zone)?;
    Some(cast(expr.clone(), to))
}

/// Arguments of which some are told in the session's zone; `None` where none is of another one.
fn told_arguments(arguments: &[Expr], schema: &DFSchema, zone: &str) -> Option<Vec<Expr>> {
    let told: Vec<Option<Expr>> = arguments.iter().map(|argument| told(argument, schema, zone)).collect();
    let any = told.iter().any(Option::is_some);
    any.then(|| told.into_iter().zip(arguments).map(|(told, own)| told.unwrap_or_else(|| own.clone())).collect())
}

/// What takes the place of an expression whose arguments are told in the session's zone: it keeps its type. What puts
/// instants into rows stays as it is, since they are told where those are.
fn of_same_type(own: &Expr, told: Expr, schema: &DFSchema) -> Option<Expr> {
    // What has no type yet is left to who says so.
    let (was, is) = (own.get_type(schema).ok()?, told.get_type(schema).ok()?);
    match was {
        was if was == is => Some(told),
        DataType::Timestamp(..) | DataType::List(_) if !matches!(own, Expr::AggregateFunction(_)) => {
            Some(cast(told, was))
        }
        _ => None,
    }
}

fn of_part(expr: Expr, schema: &DFSchema, zone: &str) -> Result<Transformed<Expr>> {
    let told = match &expr {
        Expr::ScalarFunction(call) => told_arguments(&call.args, schema, zone).and_then(|args| {
            let told = Expr::ScalarFunction(ScalarFunction { func: call.func.clone(), args });
            of_same_type(&expr, told, schema)
        }),
        Expr::AggregateFunction(call) if call.func.name() != "count" => told_arguments(&call.params.args, schema, zone)
            .and_then(|args| {
                let mut told = call.clone();
                told.params.args = args;
                of_same_type(&expr, Expr::AggregateFunction(told), schema)
            }),
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::Plus | Operator::Minus) => {
            let is_span = matches!(binary.right.get_type(schema), Ok(DataType::Interval(_)));
            let is_span_first = matches!(binary.left.get_type(schema), Ok(DataType::Interval(_)));
            let mut sum = binary.clone();
            let side = if is_span { &mut sum.left } else { &mut sum.right };
            match told(side, schema, zone) {
                Some(told) if is_span || is_span_first => {
                    **side = told;
                    of_same_type(&expr, Expr::BinaryExpr(sum), schema)
                }
                _ => None,
            }
        }
        Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field }) => {
            let tries = matches!(expr, Expr::TryCast(_));
            let to = field.data_type();
            let made = |of: Expr, to: DataType| if tries { try_cast(of, to) } else { cast(of, to) };
            match (inner.get_type(schema), here(to, zone)) {
                (Ok(from), _) if is_by_the_clock(to) && here(&from, zone).is_some() => {
                    told(inner, schema, zone).map(|told| made(told, to.clone()))
                }
                (Ok(from), Some(own)) if is_by_the_clock(&from) => {
                    Some(cast(made(inner.as_ref().clone(), own), to.clone()))
                }
                _ => None,
            }
        }
        _ => None,
    };
    Ok(match told {
        Some(told) => Transformed::yes(told),
        None => Transformed::no(expr),
    })
}
