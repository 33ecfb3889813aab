//! Enums in a plan, whose values are texts: what is equal is so as texts are; what is less, the places of labels say.
//!
//! Which enum a text is of stands in its field's metadata, which goes with columns. Wherever values are ordered their
//! places are put in their place; a comparison with one label becomes a list of the labels that it is true for, which
//! is found on codes. Functions that are not of enums take none, as in PostgreSQL: a text would be another value.
//!
//! # Limits
//! Lists, rows and grouping sets of enums are refused.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::config::ConfigOptions;
use datafusion_common::metadata::FieldMetadata;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, DataFusionError, Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, Cast, InList, Placeholder, ScalarFunction, TryCast, WindowFunction};
use datafusion_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, SortExpr, Window,
    WindowFrame, WindowFrameBound, WindowFrameUnits, lit, when,
};
use datafusion_optimizer::AnalyzerRule;

use crate::catalog::user_types::EnumType;
use crate::error::Error;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::functions::anywhere::{any_node, any_part};
use crate::functions::enums::{EnumCall, call, called, wants};
use crate::functions::json::planner::{CHOICES, HANDED_ON, is_untyped};
use crate::rewrite::field_types::{with_parts, with_read_column};
use crate::rewrite::kinds::is_comparison;
use crate::sql::{CAST, STEP, fresh_name};

/// Functions that take values of any type, and make nothing of what a value is.
const OF_ANY: [&str; 8] =
    [CAST, STEP, "pg_typeof", "num_nulls", "num_nonnulls", "__nearside_single_value", "value_or_null", "count"];

/// Functions that make a text of each argument.
const OF_TEXTS: [&str; 6] = ["concat", "concat_ws", "format", "quote_literal", "quote_nullable", "text_of"];

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct EnumMeaning;

impl AnalyzerRule for EnumMeaning {
    fn name(&self) -> &str {
        "enum_meaning"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        match concerns(&plan)? {
            true => Ok(plan.transform_up_with_subqueries(rewrite_plan)?.data),
            false => Ok(plan),
        }
    }
}

/// Whether there are such values in a plan.
fn concerns(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| match node {
        LogicalPlan::TableScan(scan)
            if scan.source.schema().fields().iter().any(|field| EnumType::of_field(field).is_some()) =>
        {
            Ok(true)
        }
        node => {
            any_part(node, |part| matches!(part, Expr::ScalarFunction(function) if called(&function.func).is_some()))
        }
    })
}

/// The enum that an expression is of, as far as its schema tells.
pub(crate) fn enum_of(expr: &Expr, schema: &DFSchema) -> Option<EnumType> {
    let first = |mut all: Box<dyn Iterator<Item = &Expr> + '_>| all.find_map(|expr| enum_of(expr, schema));
    match expr {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            first(Box::new(results.chain(case.else_expr.as_deref())))
        }
        Expr::ScalarFunction(function) if CHOICES.contains(&function.name()) || is_extreme(function.name()) => {
            first(Box::new(function.args.iter()))
        }
        Expr::ScalarFunction(function) if ["nullif", CAST, STEP].contains(&function.name()) => {
            first(Box::new(function.args.iter().take(1)))
        }
        Expr::AggregateFunction(call) if HANDED_ON.contains(&call.func.name()) => {
            first(Box::new(call.params.args.iter().take(1)))
        }
        Expr::WindowFunction(call) if HANDED_ON.contains(&call.fun.name()) => {
            first(Box::new(call.params.args.iter().take(1)))
        }
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::ScalarSubquery(_)
        | Expr::ScalarFunction(_)
        | Expr::Placeholder(_) => expr.to_field(schema).ok().and_then(|(_, field)| EnumType::of_field(&field)),
        Expr::Literal(_, Some(metadata)) => of_metadata(metadata),
        Expr::Alias(alias) => match &alias.metadata {
            Some(metadata) => of_metadata(metadata),
            None => enum_of(&alias.expr, schema),
        },
        _ => None,
    }
}

fn of_metadata(metadata: &FieldMetadata) -> Option<EnumType> {
    EnumType::of_field(&metadata.add_to_field(Field::new("", DataType::Utf8View, true)))
}

fn is_extreme(name: &str) -> bool {
    matches!(name, "greatest" | "least")
}

fn undefined(message: String) -> DataFusionError {
    Error::plan(SqlState::UndefinedFunction, message).into_datafusion()
}

fn mismatch(message: String) -> DataFusionError {
    Error::plan(SqlState::DatatypeMismatch, message).into_datafusion()
}

fn unsupported(message: String) -> DataFusionError {
    Error::Unsupported(message).into_datafusion()
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = with_read_texts(plan)?;
    let of = |expr: &Expr, schema: &DFSchema| handed_on(expr, schema).map(|of| of.metadata());
    let plan = with_parts(plan, rewrite, of)?;
    Ok(Transformed::yes(with_places(plan)?))
}

/// The enum of a value that an aggregate or window function hands on.
fn handed_on(expr: &Expr, schema: &DFSchema) -> Option<EnumType> {
    match expr {
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => enum_of(expr, schema),
        _ => None,
    }
}

/// A UNION in which texts as they are written are labels where the other columns are of an enum.
fn with_read_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(mut union) = plan else { return Ok(plan) };
    for column in 0..union.schema.fields().len() {
        let of = |input: &Arc<LogicalPlan>| EnumType::of_field(input.schema().field(column));
        let Some(to) = union.inputs.iter().find_map(of) else { continue };
        for input in &mut union.inputs {
            if of(input).is_some_and(|own| own == to) {
                continue;
            }
            let read = with_read_column(input, column, |value, schema| read_as(value, &to, "UNION", schema))?;
            let read = read.ok_or_else(|| {
                let other = match of(input) {
                    Some(other) => other.shown(),
                    None => sql_type(input.schema().field(column).data_type()).to_lowercase(),
                };
                mismatch(format!(
                    "UNION types {} and {other} cannot be matched; cast one to the type of the other",
                    to.shown()
                ))
            })?;
            *input = Arc::new(read);
        }
    }
    LogicalPlan::Union(union).recompute_schema()
}

fn placed_keys(keys: &mut [SortExpr], schema: &DFSchema) {
    for key in keys {
        key.expr = placed(std::mem::take(&mut key.expr), schema);
    }
}

/// What a node orders its rows by.
fn with_places(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            placed_keys(&mut sort.expr, &schema);
            Ok(LogicalPlan::Sort(sort))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let schema = Arc::clone(aggregate.input.schema());
            for key in &aggregate.group_expr {
                if let Expr::GroupingSet(_) = key
                    && key.exists(|part| Ok(enum_of(part, &schema).is_some()))?
                {
                    return Err(unsupported("grouping sets of an enum are not supported; group by x::text".into()));
                }
            }
            extremes(aggregate)
        }
        LogicalPlan::Window(window) => extremes_over(window),
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let schema = Arc::clone(on.input.schema());
            let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = on;
            let on_expr = on_expr.into_iter().map(|expr| placed(expr, &schema)).collect();
            let sort_expr = sort_expr.map(|mut keys| {
                placed_keys(&mut keys, &schema);
                keys
            });
            Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(on_expr, select_expr, sort_expr, input)?)))
        }
        LogicalPlan::Join(join) => {
            for (left, right) in &join.on {
                let kinds = (enum_of(left, join.left.schema()), enum_of(right, join.right.schema()));
                if kinds.0 != kinds.1 {
                    let side = |kind: &Option<EnumType>, expr: &Expr, schema: &DFSchema| match kind {
                        Some(of) => of.shown(),
                        None => shown_type(expr, schema),
                    };
                    return Err(incomparable(
                        "=",
                        &side(&kinds.0, left, join.left.schema()),
                        &side(&kinds.1, right, join.right.schema()),
                    ));
                }
            }
            Ok(LogicalPlan::Join(join))
        }
        other => Ok(other),
    }
}

/// `min` and `max` of an enum are the labels of the least and greatest place.
fn extremes(aggregate: Aggregate) -> Result<LogicalPlan> {
    let names = aggregate.schema.columns();
    let Some((values, outputs)) = placed_extremes(&aggregate.aggr_expr, &names, aggregate.input.schema()) else {
        return Ok(LogicalPlan::Aggregate(aggregate));
    };
    let groups = LogicalPlan::Aggregate(Aggregate::try_new(aggregate.input, aggregate.group_expr, values)?);
    LogicalPlanBuilder::from(groups).project(outputs)?.build()
}

/// The same of windows.
fn extremes_over(window: Window) -> Result<LogicalPlan> {
    let names = window.schema.columns();
    let Some((values, outputs)) = placed_extremes(&window.window_expr, &names, window.input.schema()) else {
        return Ok(LogicalPlan::Window(window));
    };
    let window = LogicalPlan::Window(Window::try_new(values, window.input)?);
    LogicalPlanBuilder::from(window).project(outputs)?.build()
}

/// The arguments of `min` or `max`, if that is what an output is.
fn extreme_args(expr: &mut Expr) -> Option<&mut Vec<Expr>> {
    match expr {
        Expr::Alias(alias) => extreme_args(&mut alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, params }) if matches!(func.name(), "min" | "max") => {
            Some(&mut params.args)
        }
        Expr::WindowFunction(function) if matches!(function.fun.name(), "min" | "max") => {
            Some(&mut function.params.args)
        }
        _ => None,
    }
}

/// The last outputs of a step with `min` and `max` of places in the place of those of enums, and all its outputs, by
/// their names, over that; `None` where there are none of enums.
fn placed_extremes(exprs: &[Expr], names: &[Column], schema: &DFSchema) -> Option<(Vec<Expr>, Vec<Expr>)> {
    let before = names.len() - exprs.len();
    let mut outputs: Vec<Expr> = names[..before].iter().cloned().map(Expr::Column).collect();
    let mut values = Vec::with_capacity(exprs.len());
    let mut is_any = false;
    for (expr, name) in exprs.iter().zip(&names[before..]) {
        let mut value = expr.clone().unalias();
        let args = extreme_args(&mut value);
        let of = args.as_ref().and_then(|args| enum_of(args.first()?, schema));
        let (Some(args), Some(of)) = (args, of) else {
            outputs.push(Expr::Column(name.clone()));
            values.push(expr.clone());
            continue;
        };
        is_any = true;
        for arg in args {
            *arg = call(EnumCall::Place, std::mem::take(arg), &of);
        }
        // A window has no outputs by other names than their own; two aggregates may be one.
        let place = match &value {
            Expr::WindowFunction(_) => value.schema_name().to_string(),
            _ => fresh_name("place"),
        };
        values.push(if let Expr::WindowFunction(_) = &value { value } else { value.alias(&place) });
        let label = call(EnumCall::Label, Expr::Column(Column::from_name(place)), &of);
        outputs.push(label.alias_qualified(name.relation.clone(), name.name.clone()));
    }
    is_any.then_some((values, outputs))
}

/// What a value of an enum is ordered by; others as they are.
fn placed(expr: Expr, schema: &DFSchema) -> Expr {
    match enum_of(&expr, schema) {
        Some(of) => call(EnumCall::Place, expr.unalias(), &of),
        None => expr,
    }
}

fn shown_type(expr: &Expr, schema: &DFSchema) -> String {
    match (enum_of(expr, schema), is_untyped(expr)) {
        (Some(of), _) => of.shown(),
        (None, true) => "unknown".into(),
        (None, false) => expr.get_type(schema).map_or_else(|_| "unknown".into(), |of| sql_type(&of).to_lowercase()),
    }
}

fn incomparable(op: &str, left: &str, right: &str) -> DataFusionError {
    undefined(format!("there is no operator {left} {op} {right}; cast one side to the type of the other"))
}

/// The enum that is compared, after what is compared with it was read as one; `None` where there is none.
fn compared(all: &mut [&mut Expr], op: &str, schema: &DFSchema) -> Result<Option<EnumType>> {
    let Some(of) = all.iter().find_map(|expr| enum_of(expr, schema)) else { return Ok(None) };
    for (place, expr) in all.iter_mut().enumerate() {
        let is_parameter = matches!(expr, Expr::Placeholder(_));
        if !is_parameter && enum_of(expr, schema).is_some_and(|own| own == of) {
            continue;
        }
        if !is_untyped(expr) && !is_null(expr, schema) {
            let own = of.shown();
            let (left, right) = match place {
                0 => (shown_type(expr, schema), own),
                _ => (own, shown_type(expr, schema)),
            };
            return Err(incomparable(op, &left, &right));
        }
        **expr = label(std::mem::take(*expr), &of)?;
    }
    Ok(Some(of))
}

fn is_null(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| of.is_null())
}

/// A text, NULL or parameter whose type nobody has said as a label: what is written is looked at now.
fn label(expr: Expr, of: &EnumType) -> Result<Expr> {
    if let Expr::Literal(value, _) = &expr {
        if let Some(text) = value.try_as_str().flatten() {
            of.read(text).map_err(Error::into_datafusion)?;
            let metadata = FieldMetadata::from(of.metadata());
            return Ok(Expr::Literal(ScalarValue::Utf8View(Some(text.into())), Some(metadata)));
        }
        if value.is_null() {
            let metadata = FieldMetadata::from(of.metadata());
            return Ok(Expr::Literal(ScalarValue::Utf8View(None), Some(metadata)));
        }
    }
    Ok(call(EnumCall::Read, as_text(expr), of))
}

/// A parameter of which nobody has said a type is a text.
fn as_text(expr: Expr) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = Some(Arc::new(Field::new(id.clone(), DataType::Utf8View, true)));
            Expr::Placeholder(Placeholder { id, field })
        }
        other => other,
    }
}

/// A text whose type nobody has said as a value of an enum, where one of several is chosen.
fn read_as(expr: Expr, of: &EnumType, what: &str, schema: &DFSchema) -> Result<Expr> {
    if !is_untyped(&expr) && !is_null(&expr, schema) {
        let other = shown_type(&expr, schema);
        return Err(mismatch(format!(
            "{what} types {} and {other} cannot be matched; cast one to the type of the other",
            of.shown()
        )));
    }
    label(expr, of)
}

/// Has all of what one is chosen of be of one enum, where one of it is.
fn of_choice(what: &str, all: Vec<&mut Expr>, schema: &DFSchema) -> Result<Option<EnumType>> {
    let Some(of) = all.iter().find_map(|expr| enum_of(expr, schema)) else { return Ok(None) };
    for expr in all {
        if enum_of(expr, schema).is_none_or(|own| own != of) {
            *expr = read_as(std::mem::take(expr), &of, what, schema)?;
        }
    }
    Ok(Some(of))
}

/// A value whose place is known is written as it is.
fn place_of(expr: Expr, of: &EnumType) -> Expr {
    match &expr {
        Expr::Literal(value, _) => match value.try_as_str().flatten().and_then(|text| of.place(text)) {
            Some(place) => lit(i32::try_from(place).unwrap_or(i32::MAX)),
            None => call(EnumCall::Place, expr, of),
        },
        _ => call(EnumCall::Place, expr, of),
    }
}

/// A comparison of a value with a label as a list of the labels that it is true for; `None` where it is none such, or
/// is true for all or none.
fn as_list(value: &Expr, op: Operator, by: &Expr, of: &EnumType) -> Option<Expr> {
    let Expr::Literal(by, _) = by else { return None };
    let by = of.place(by.try_as_str().flatten()?)?;
    let holds = |place: usize| match op {
        Operator::Lt => place < by,
        Operator::LtEq => place <= by,
        Operator::Gt => place > by,
        Operator::GtEq => place >= by,
        _ => false,
    };
    let list = of.labels.iter().enumerate().filter(|(place, _)| holds(*place));
    let list: Vec<Expr> =
        list.map(|(_, label)| Expr::Literal(ScalarValue::Utf8View(Some(label.clone())), None)).collect();
    let some = !list.is_empty() && list.len() < of.labels.len();
    some.then(|| Expr::InList(InList::new(Box::new(value.clone()), list, false)))
}

fn comparison(left: Expr, op: Operator, right: Expr, of: &EnumType) -> Expr {
    use Operator as O;
    if matches!(op, O::Eq | O::NotEq | O::IsDistinctFrom | O::IsNotDistinctFrom) {
        return datafusion_expr::binary_expr(left, op, right);
    }
    let list = match &left {
        Expr::Literal(..) => op.swap().and_then(|op| as_list(&right, op, &left, of)),
        _ => as_list(&left, op, &right, of),
    };
    list.unwrap_or_else(|| datafusion_expr::binary_expr(place_of(left, of), op, place_of(right, of)))
}

fn rewrite(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_enum = |expr: &Expr| enum_of(expr, schema).is_some();
    let changed = match &mut expr {
        Expr::BinaryExpr(binary) => match binary.op {
            op if is_comparison(op) => {
                let Some(of) = compared(&mut [&mut binary.left, &mut binary.right], &op.to_string(), schema)? else {
                    return Ok(Transformed::no(expr));
                };
                let (left, right) = (std::mem::take(binary.left.as_mut()), std::mem::take(binary.right.as_mut()));
                return Ok(Transformed::yes(comparison(left, op, right, &of)));
            }
            Operator::StringConcat if is_enum(&binary.left) != is_enum(&binary.right) => {
                let side = if is_enum(&binary.left) { &mut binary.left } else { &mut binary.right };
                if let Some(of) = enum_of(side, schema) {
                    **side = call(EnumCall::Text, std::mem::take(side.as_mut()), &of);
                }
                true
            }
            op if is_enum(&binary.left) || is_enum(&binary.right) => {
                let (left, right) = (shown_type(&binary.left, schema), shown_type(&binary.right, schema));
                return Err(undefined(format!("there is no operator {left} {op} {right}; cast it to TEXT")));
            }
            _ => false,
        },
        Expr::Like(like) | Expr::SimilarTo(like) if is_enum(&like.expr) || is_enum(&like.pattern) => {
            let of = shown_type(&like.expr, schema);
            return Err(undefined(format!("there is no LIKE of {of}; cast it to TEXT")));
        }
        Expr::InSubquery(test) => of_query(&mut test.expr, &test.subquery.subquery, Operator::Eq, schema)?,
        Expr::SetComparison(test) => of_query(&mut test.expr, &test.subquery.subquery, test.op, schema)?,
        Expr::Between(between) => {
            let of = compared(&mut [&mut between.expr, &mut between.low, &mut between.high], "BETWEEN", schema)?;
            if let Some(of) = of {
                for part in [&mut between.expr, &mut between.low, &mut between.high] {
                    **part = place_of(std::mem::take(part.as_mut()), &of);
                }
                return Ok(Transformed::yes(expr));
            }
            false
        }
        Expr::InList(list) => {
            let mut all = vec![list.expr.as_mut()];
            all.extend(list.list.iter_mut());
            compared(&mut all, "=", schema)?.is_some()
        }
        Expr::Case(case) => {
            let mut tested: Vec<&mut Expr> = case.expr.iter_mut().map(AsMut::as_mut).collect();
            let mut changed = false;
            if !tested.is_empty() {
                tested.extend(case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut()));
                changed = compared(&mut tested, "=", schema)?.is_some();
            }
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            let results: Vec<&mut Expr> = results.chain(case.else_expr.as_deref_mut()).collect();
            let Some(of) = of_choice("CASE", results, schema)? else {
                return Ok(Transformed::new_transformed(expr, changed));
            };
            return Ok(Transformed::yes(call(EnumCall::Read, expr, &of)));
        }
        Expr::Cast(_) | Expr::TryCast(_) => return of_cast(expr, schema),
        Expr::ScalarFunction(_) => return of_call(expr, schema),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            placed_keys(&mut params.order_by, schema);
            let name = func.name();
            let is_known = name == "count" || matches!(name, "min" | "max") || HANDED_ON.contains(&name);
            if let Some(arg) = params.args.iter().find(|arg| is_enum(arg)).filter(|_| !is_known) {
                return Err(no_function(name, arg, schema));
            }
            true
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, params } = window.as_mut();
            if let Some(of) = params.order_by.first().and_then(|key| enum_of(&key.expr, schema))
                && has_distance(&params.window_frame)
            {
                return Err(unsupported(format!(
                    "RANGE with an offset is not supported over an order by {}",
                    of.shown()
                )));
            }
            placed_keys(&mut params.order_by, schema);
            let name = fun.name();
            let is_known = name == "count" || matches!(name, "min" | "max") || HANDED_ON.contains(&name);
            if let Some(arg) = params.args.iter().find(|arg| is_enum(arg)).filter(|_| !is_known) {
                return Err(no_function(name, arg, schema));
            }
            // The third argument of lag and lead is read as the first.
            if let Some(of) = params.args.first().and_then(|first| enum_of(first, schema))
                && let Some(other) = params.args.get_mut(2)
                && enum_of(other, schema).is_none_or(|own| own != of)
            {
                *other = read_as(std::mem::take(other), &of, name, schema)?;
            }
            true
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// Whether a frame goes as far as a value says, which labels have no distances for.
fn has_distance(frame: &WindowFrame) -> bool {
    let is_offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => !offset.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range && (is_offset(&frame.start_bound) || is_offset(&frame.end_bound))
}

fn no_function(name: &str, of: &Expr, schema: &DFSchema) -> DataFusionError {
    let of = shown_type(of, schema);
    match name {
        "array_agg" | "make_array" => unsupported(format!("a list of {of} is not supported; cast it to TEXT")),
        "struct" | "row" | "named_struct" => unsupported(format!("a row with {of} is not supported; cast it to TEXT")),
        name => undefined(format!("there is no function {name}() of {of}; cast the argument to TEXT")),
    }
}

/// A value and the rows of a query that it is compared with.
fn of_query(value: &mut Expr, query: &LogicalPlan, op: Operator, schema: &DFSchema) -> Result<bool> {
    let of_rows = query.schema().fields().first().and_then(|field| EnumType::of_field(field));
    let of_value = enum_of(value, schema);
    if of_rows == of_value {
        let is_ordered = !matches!(op, Operator::Eq | Operator::NotEq);
        if let (Some(of), true) = (&of_rows, is_ordered) {
            return Err(unsupported(format!(
                "{op} ANY or ALL of a query of {} is not supported; compare with its min or max",
                of.shown()
            )));
        }
        return Ok(false);
    }
    match of_rows {
        Some(of) if is_untyped(value) => {
            *value = label(std::mem::take(value), &of)?;
            Ok(true)
        }
        of => {
            let of = match (of, query.schema().fields().first()) {
                (Some(of), _) => of.shown(),
                (None, Some(field)) => sql_type(field.data_type()).to_lowercase(),
                (None, None) => "unknown".into(),
            };
            Err(incomparable("=", &shown_type(value, schema), &of))
        }
    }
}

/// A cast of an enum to another type.
fn of_cast(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (inner, field) = match &expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => (expr, field),
        _ => return Ok(Transformed::no(expr)),
    };
    let Some(of) = enum_of(inner, schema) else { return Ok(Transformed::no(expr)) };
    if !field.data_type().is_string() {
        return Err(Error::plan(
            SqlState::CannotCoerce,
            format!(
                "there is no cast of {} to {}; cast it to TEXT first",
                of.shown(),
                sql_type(field.data_type()).to_lowercase()
            ),
        )
        .into_datafusion());
    }
    Ok(Transformed::yes(match expr {
        Expr::Cast(Cast { expr, field }) => {
            Expr::Cast(Cast { expr: Box::new(call(EnumCall::Text, *expr, &of)), field })
        }
        Expr::TryCast(TryCast { expr, field }) => {
            Expr::TryCast(TryCast { expr: Box::new(call(EnumCall::Text, *expr, &of)), field })
        }
        other => other,
    }))
}

fn of_call(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut function) = expr else { return Ok(Transformed::no(expr)) };
    if let Some(own) = called(&function.func) {
        return of_own(own, function, schema);
    }
    let Some(of) = function.args.iter().find_map(|arg| enum_of(arg, schema)) else {
        return Ok(Transformed::no(Expr::ScalarFunction(function)));
    };
    let name = function.func.name().to_string();
    let is_json = crate::functions::json::called(&function.func).is_some();
    match name.as_str() {
        name if OF_ANY.contains(&name) => Ok(Transformed::no(Expr::ScalarFunction(function))),
        name if CHOICES.contains(&name) => {
            of_choice(&name.to_uppercase(), function.args.iter_mut().collect(), schema)?;
            Ok(Transformed::yes(call(EnumCall::Read, Expr::ScalarFunction(function), &of)))
        }
        name if is_extreme(name) => {
            of_choice(&name.to_uppercase(), function.args.iter_mut().collect(), schema)?;
            for arg in &mut function.args {
                *arg = place_of(std::mem::take(arg), &of);
            }
            Ok(Transformed::yes(call(EnumCall::Label, Expr::ScalarFunction(function), &of)))
        }
        "nullif" if function.args.len() == 2 => {
            compared(&mut function.args.iter_mut().collect::<Vec<_>>(), "=", schema)?;
            let null = Expr::Literal(ScalarValue::Utf8View(None), None);
            let [first, second]: [Expr; 2] = function.args.try_into().map_err(|_| undefined("nullif".into()))?;
            let chosen = when(first.clone().eq(second), null).otherwise(first)?;
            Ok(Transformed::yes(call(EnumCall::Read, chosen, &of)))
        }
        name if OF_TEXTS.contains(&name) || is_json => {
            for arg in &mut function.args {
                if enum_of(arg, schema).is_some() {
                    *arg = call(EnumCall::Text, std::mem::take(arg), &of);
                }
            }
            Ok(Transformed::yes(Expr::ScalarFunction(function)))
        }
        name => {
            let arg = function.args.iter().find(|arg| enum_of(arg, schema).is_some());
            Err(no_function(name, arg.unwrap_or(&Expr::default()), schema))
        }
    }
}

/// A call of one of the functions of enums, as it is written.
fn of_own(own: EnumCall, mut function: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match own {
        EnumCall::Read => {
            let [value, _] = function.args.as_mut_slice() else {
                return Ok(Transformed::no(Expr::ScalarFunction(function)));
            };
            let from = enum_of(value, schema);
            let of_call = Expr::ScalarFunction(ScalarFunction {
                func: Arc::clone(&function.func),
                args: vec![Expr::Literal(ScalarValue::Utf8View(None), None), function.args[1].clone()],
            });
            let Some(to) = enum_of(&of_call, schema) else {
                return Ok(Transformed::no(Expr::ScalarFunction(function)));
            };
            let value = &mut function.args[0];
            if from.as_ref() == Some(&to) && !matches!(value, Expr::Placeholder(_)) {
                return Ok(Transformed::yes(std::mem::take(value)));
            }
            let data_type = value.get_type(schema).unwrap_or(DataType::Null);
            let is_text = data_type.is_string() || data_type.is_null() || is_untyped(value);
            if from.is_some_and(|from| from != to) || !is_text {
                let message = format!(
                    "there is no cast of {} to {}; cast it to TEXT first",
                    shown_type(value, schema),
                    to.shown()
                );
                return Err(Error::plan(SqlState::CannotCoerce, message).into_datafusion());
            }
            if let Expr::Literal(..) = value {
                return Ok(Transformed::yes(label(std::mem::take(value), &to)?));
            }
            *value = as_text(std::mem::take(value));
            Ok(Transformed::yes(Expr::ScalarFunction(function)))
        }
        EnumCall::First | EnumCall::Last | EnumCall::Range => {
            let name = function.name().to_string();
            let Some(of) = function.args.iter().find_map(|arg| enum_of(arg, schema)) else {
                return Err(undefined(wants(&name)));
            };
            labels_of(own, function.args, &of, &name)
        }
        EnumCall::Place | EnumCall::Label | EnumCall::Text => Ok(Transformed::no(Expr::ScalarFunction(function))),
    }
}

/// `enum_first`, `enum_last` and `enum_range` of labels that are told when a statement is planned.
fn labels_of(own: EnumCall, args: Vec<Expr>, of: &EnumType, name: &str) -> Result<Transformed<Expr>> {
    let one = |label: Option<&String>| {
        let metadata = FieldMetadata::from(of.metadata());
        Expr::Literal(ScalarValue::Utf8View(label.cloned()), Some(metadata))
    };
    let list = |labels: &[String]| {
        let values: Vec<ScalarValue> = labels.iter().map(|label| ScalarValue::Utf8View(Some(label.clone()))).collect();
        let list = ScalarValue::new_list(&values, &DataType::Utf8View, true);
        Expr::Literal(ScalarValue::List(list), None)
    };
    let bound = |arg: &Expr| match arg {
        Expr::Literal(value, _) if value.is_null() => Ok(None),
        Expr::Literal(value, _) => match value.try_as_str().flatten() {
            Some(text) => of.read(text).map(Some).map_err(Error::into_datafusion),
            None => Err(undefined(wants(name))),
        },
        _ => Err(unsupported("enum_range of two values that are no constants is not supported".into())),
    };
    Ok(Transformed::yes(match (own, args.as_slice()) {
        (EnumCall::First, [_]) => one(of.labels.first()),
        (EnumCall::Last, [_]) => one(of.labels.last()),
        (EnumCall::Range, [_]) => list(&of.labels),
        (EnumCall::Range, [from, to]) => {
            let from = bound(from)?.unwrap_or(0);
            let to = bound(to)?.map_or(of.labels.len(), |to| to + 1);
            list(of.labels.get(from..to).unwrap_or_default())
        }
        _ => return Err(undefined(wants(name))),
    }))
}
