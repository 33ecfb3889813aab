//! Intervals are compared as lengths of time: `INTERVAL '1 day'` is equal to `INTERVAL '24 hours'`, a month to 30 days.
//! Comparisons, sort keys and joins go by [`length`](crate::functions::spans::length); Arrow's order is another one.
//!
//! Groups are made by lengths, and one of a group's intervals stands for those that are equal to it: that of which the
//! text is the least, so that it is the same one each time. `min` and `max` are the first value in the order of
//! lengths.
//! Grouping sets, `DISTINCT ON`, INTERSECT and EXCEPT over intervals are refused by name, and so are functions that
//! compare and give one of their arguments. Differences of times (`ts - ts`) are no intervals in this sense: they have
//! one form.
//!
//! # Limits
//! Intervals within lists and structs are compared part by part.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, NullEquality, Result};
use datafusion_expr::expr::{AggregateFunction, Cast, InSubquery, Sort, TryCast, WindowFunctionDefinition};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::{grouping_set_to_exprlist, merge_schema};
use datafusion_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, WindowFrameBound, WindowFrameUnits, when,
};
use datafusion_functions_aggregate::first_last::{first_value, first_value_udaf};
use datafusion_optimizer::AnalyzerRule;

use crate::error::Error;
use crate::functions::floats::is_comparison;
use crate::functions::spans::{length, of_difference};
use crate::functions::texts::text_of;

/// The analyzer rule, behind DataFusion's coercion of types.
#[derive(Debug, Default)]
pub(crate) struct ComparedSpans;

impl AnalyzerRule for ComparedSpans {
    fn name(&self) -> &str {
        "compared_spans"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !mentions_spans(&plan)? {
            return Ok(plan);
        }
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }
}

/// Whether anything in a plan is an interval: most plans have none, and are left alone.
fn mentions_spans(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= node.schema().fields().iter().any(|field| is_span(field.data_type()));
        if !found {
            let schema = merge_schema(&node.inputs());
            node.apply_expressions(|expr| {
                found |= expr.exists(|part| Ok(is_literal_or_cast(part, &schema)))?;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Intervals that are no columns begin with one of these.
fn is_literal_or_cast(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(value, _) => is_span(&value.data_type()),
        Expr::Cast(cast) => is_span(cast.field.data_type()),
        Expr::TryCast(cast) => is_span(cast.field.data_type()),
        Expr::Column(_) | Expr::ScalarFunction(_) => is_interval(expr, schema),
        _ => false,
    }
}

fn is_span(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| is_span(&data_type))
}

fn refused(what: &str) -> datafusion_common::DataFusionError {
    Error::Unsupported(format!(
        "{what} over INTERVAL, of which different ones are equal, is not supported; take extract(epoch FROM x), or \
         CAST(x AS TEXT)"
    ))
    .into_datafusion()
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    refuse_groups(&node)?;
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = &node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    match node {
        LogicalPlan::Sort(mut sort) => {
            let mut changed = false;
            sort.expr.iter_mut().for_each(|key| changed |= by_length(&mut key.expr, &schema));
            let node = of_expressions(LogicalPlan::Sort(sort), &schema)?;
            Ok(Transformed::new_transformed(node.data, changed || node.transformed))
        }
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                if is_interval(left, join.left.schema()) && is_interval(right, join.right.schema()) {
                    changed |= by_length(left, join.left.schema()) | by_length(right, join.right.schema());
                }
            }
            let node = of_expressions(LogicalPlan::Join(join), &schema)?;
            Ok(Transformed::new_transformed(node.data, changed || node.transformed))
        }
        LogicalPlan::Distinct(Distinct::All(input)) if has_spans(input.schema()) => {
            let keys = input.schema().columns().into_iter().map(Expr::Column).collect();
            by_lengths(Aggregate::try_new(input, keys, Vec::new())?).map(Transformed::yes)
        }
        node => {
            let node = of_expressions(node, &schema)?;
            match node.data {
                LogicalPlan::Aggregate(aggregate)
                    if aggregate.group_expr.iter().any(|key| is_interval(key, &schema)) =>
                {
                    by_lengths(aggregate).map(Transformed::yes)
                }
                other => Ok(Transformed::new_transformed(other, node.transformed)),
            }
        }
    }
}

fn has_spans(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| is_span(field.data_type()))
}

/// Groups by the lengths of intervals, and takes one of them for each group.
fn by_lengths(aggregate: Aggregate) -> Result<LogicalPlan> {
    let columns = aggregate.schema.columns();
    let input = Arc::clone(aggregate.input.schema());
    let (mut keys, mut calls) = (aggregate.group_expr, aggregate.aggr_expr);
    let mut places = Vec::new();
    for (place, key) in keys.iter_mut().enumerate() {
        let interval = key.clone().unalias();
        if by_length(key, &input) {
            let text = text_of(interval.clone(), &DataType::Utf8View);
            let one =
                first_value(interval, vec![text.sort(true, false)]).alias(format!("{} of a length", columns[place]));
            places.push((place, columns.len() + places.len()));
            calls.push(one);
        }
    }
    let grouped = Aggregate::try_new(aggregate.input, keys, calls)?;
    let new = grouped.schema.columns();
    let outputs = columns.into_iter().enumerate().map(|(place, column)| {
        let found = places.iter().find(|(key, _)| *key == place).map_or(place, |(_, call)| *call);
        Expr::Column(new[found].clone()).alias_qualified(column.relation, column.name)
    });
    let outputs: Vec<Expr> = outputs.collect();
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped)).project(outputs)?.build()
}

/// Refuses what makes one row of several, where that is not done.
fn refuse_groups(node: &LogicalPlan) -> Result<()> {
    match node {
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(_)] => {
                let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
                match keys.into_iter().any(|key| is_interval(key, aggregate.input.schema())) {
                    true => Err(refused("GROUPING SETS")),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        },
        LogicalPlan::Distinct(Distinct::On(on)) if on.on_expr.iter().any(|key| is_interval(key, on.input.schema())) => {
            Err(refused("DISTINCT ON"))
        }
        LogicalPlan::Join(join)
            if join.null_equality == NullEquality::NullEqualsNull
                && join.on.iter().any(|(left, _)| is_interval(left, join.left.schema())) =>
        {
            Err(refused("INTERSECT or EXCEPT"))
        }
        _ => Ok(()),
    }
}

fn of_expressions(node: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let rewritten = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|part| of_part(part, schema))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
}

/// Puts the length in the place of an interval; true when it is one.
fn by_length(expr: &mut Expr, schema: &DFSchema) -> bool {
    let is = is_interval(expr, schema);
    if is {
        *expr = length(std::mem::take(expr));
    }
    is
}

fn of_part(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let mut by = |e: &mut Expr| changed |= by_length(e, schema);
    let expr = match expr {
        Expr::BinaryExpr(mut binary) if is_comparison(binary.op) => {
            by(&mut binary.left);
            by(&mut binary.right);
            Expr::BinaryExpr(binary)
        }
        Expr::Between(mut between) => {
            [&mut between.expr, &mut between.low, &mut between.high].into_iter().for_each(|e| by(e));
            Expr::Between(between)
        }
        Expr::InList(mut list) => {
            by(&mut list.expr);
            list.list.iter_mut().for_each(by);
            Expr::InList(list)
        }
        Expr::InSubquery(test) => return in_subquery(test, schema),
        Expr::Case(mut case) => {
            if let Some(operand) = &mut case.expr {
                by(operand);
                case.when_then_expr.iter_mut().for_each(|(when, _)| by(when));
            }
            Expr::Case(case)
        }
        Expr::ScalarFunction(call) => return of_call(Expr::ScalarFunction(call), schema),
        Expr::AggregateFunction(call) => return of_aggregate(call, schema),
        Expr::Cast(Cast { expr: inner, field }) | Expr::TryCast(TryCast { expr: inner, field })
            if is_span(field.data_type()) && matches!(inner.get_type(schema), Ok(DataType::Duration(_))) =>
        {
            changed = true;
            of_difference(*inner)
        }
        Expr::WindowFunction(mut window) => {
            let first = window.params.args.first().is_some_and(|first| is_interval(first, schema));
            if let WindowFunctionDefinition::AggregateUDF(function) = &window.fun
                && first
                && (matches!(function.name(), "min" | "max") || window.params.distinct)
            {
                return Err(refused(&format!("the window function {}", function.name())));
            }
            window.params.partition_by.iter_mut().for_each(&mut by);
            let frame = &window.params.window_frame;
            let distance = |bound: &WindowFrameBound| match bound {
                WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) => !value.is_null(),
                WindowFrameBound::CurrentRow => false,
            };
            let measured =
                frame.units == WindowFrameUnits::Range && (distance(&frame.start_bound) || distance(&frame.end_bound));
            if measured && window.params.order_by.iter().any(|key| is_interval(&key.expr, schema)) {
                return Err(refused("RANGE with a distance"));
            }
            window.params.order_by.iter_mut().for_each(|key| by(&mut key.expr));
            Expr::WindowFunction(window)
        }
        other => other,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

fn in_subquery(mut test: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let rows = &test.subquery.subquery;
    let [column] = &rows.schema().columns()[..] else { return Ok(Transformed::no(Expr::InSubquery(test))) };
    if !is_span(rows.schema().field(0).data_type()) || !by_length(&mut test.expr, schema) {
        return Ok(Transformed::no(Expr::InSubquery(test)));
    }
    let compared = length(Expr::Column(column.clone())).alias("compared");
    let rows = LogicalPlanBuilder::from(rows.as_ref().clone()).project([compared])?.build()?;
    test.subquery.subquery = rows.into();
    Ok(Transformed::yes(Expr::InSubquery(test)))
}

/// Scalar functions that compare their arguments and give one of them.
fn of_call(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
    match (call.name(), call.args.as_slice()) {
        ("nullif", [value, other]) if is_interval(value, schema) && is_interval(other, schema) => {
            let same = length(value.clone()).eq(length(other.clone()));
            let null = datafusion_common::ScalarValue::try_from(value.get_type(schema)?)?;
            Ok(Transformed::yes(when(same, datafusion_expr::lit(null)).otherwise(value.clone())?))
        }
        (name @ ("greatest" | "least"), args) if args.iter().any(|arg| is_interval(arg, schema)) => Err(refused(name)),
        _ => Ok(Transformed::no(expr)),
    }
}

fn of_aggregate(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let is_first = call.params.args.first().is_some_and(|first| is_interval(first, schema));
    let name = call.func.name().to_string();
    if is_first {
        match name.as_str() {
            "min" | "max" => {
                let ascending = name == "min";
                let key = length(call.params.args[0].clone());
                call.func = first_value_udaf();
                call.params.distinct = false;
                call.params.order_by = vec![Sort { expr: key, asc: ascending, nulls_first: false }];
                return Ok(Transformed::yes(Expr::AggregateFunction(call)));
            }
            "count" if call.params.distinct => {
                call.params.args.iter_mut().for_each(|arg| changed |= by_length(arg, schema));
            }
            "mode" | "percentile_disc" | "percentile_cont" | "median" => return Err(refused(&name)),
            _ if call.params.distinct => return Err(refused(&format!("{name}(DISTINCT ..)"))),
            _ => {}
        }
    }
    call.params.order_by.iter_mut().for_each(|key| changed |= by_length(&mut key.expr, schema));
    Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed))
}
