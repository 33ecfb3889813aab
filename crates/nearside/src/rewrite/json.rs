//! JSON and JSONB in a plan, whose expressions are texts: what is compared, what a call takes, what is handed on.
//!
//! Which type a text is of stands in its field's metadata, which goes with columns. Values of JSONB compare by a key of
//! bytes, which is put around them wherever values are compared, sorted, grouped or joined. JSON does not compare.
//! Functions that are not of JSON take neither type, as in PostgreSQL: a text would be another value.
//!
//! # Limits
//! Lists, rows and grouping sets of the types are refused, and so is where one meets another type (CASE, UNION).

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, DataFusionError, Result};
use datafusion_expr::expr::{AggregateFunction, Cast, Placeholder, ScalarFunction, TryCast, WindowFunction};
use datafusion_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, RecursiveQuery,
    Subquery, cast, lit, when,
};
use datafusion_functions::core::named_struct;
use datafusion_functions_aggregate::first_last::first_value_udaf;
use datafusion_optimizer::AnalyzerRule;

use crate::catalog::named_types;
use crate::error::Error;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::functions::anywhere::{any_node, any_part};
use crate::functions::json::planner::{CHOICES, HANDED_ON, is_untyped, kind};
use crate::functions::json::{
    AS_JSON, AS_JSONB, AS_TEXT, KEY, Kind, NUMBER, PART, TRUTH, TYPED, Takes, WHOLE, call, called, kind_of,
};
use crate::functions::texts::nested::is_list;
use crate::functions::whole_rows::WHOLE_ROW;
use crate::rewrite::field_types::{with_parts, with_read_column};
use crate::rewrite::kinds::is_comparison;
use crate::sql::{CAST, STEP, fresh_name};

/// Functions that take values of any type, and make nothing of what a value is.
const OF_ANY: [&str; 9] =
    [CAST, STEP, WHOLE_ROW, "pg_typeof", "num_nulls", "num_nonnulls", "__nearside_single_value", "text_of", "count"];

/// Functions that make a text of each argument.
const OF_TEXTS: [&str; 8] =
    ["concat", "concat_ws", "format", "quote_literal", "quote_nullable", "md5", "octet_length", "to_char"];

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct JsonMeaning;

impl AnalyzerRule for JsonMeaning {
    fn name(&self) -> &str {
        "json_meaning"
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
            if scan.source.schema().fields().iter().any(|field| kind_of(field) != Kind::Other) =>
        {
            Ok(true)
        }
        node => {
            any_part(node, |part| matches!(part, Expr::ScalarFunction(function) if called(&function.func).is_some()))
        }
    })
}

fn undefined(message: String) -> DataFusionError {
    Error::plan(SqlState::UndefinedFunction, message).into_datafusion()
}

fn unsupported(message: String) -> DataFusionError {
    Error::Unsupported(message).into_datafusion()
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = with_read_texts(plan)?;
    let of = |expr: &Expr, schema: &DFSchema| handed_on(expr, schema).map(|of| named_types::metadata(of.name()));
    let plan = with_parts(plan, rewrite, of)?;
    Ok(Transformed::yes(with_keys(plan)?))
}

/// A UNION in which texts as they are written are read as JSON where the other columns are that.
fn with_read_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(mut union) = plan else { return Ok(plan) };
    for column in 0..union.schema.fields().len() {
        let kinds: Vec<Kind> = union.inputs.iter().map(|input| kind_of(input.schema().field(column))).collect();
        let Some(of) = kinds.iter().find(|kind| **kind != Kind::Other) else { continue };
        for (input, own) in union.inputs.iter_mut().zip(&kinds) {
            if own == of {
                continue;
            }
            let read = with_read_column(input, column, |value, schema| read_as(value, *of, "UNION", schema))?;
            let read = read.ok_or_else(|| {
                unsupported(format!(
                    "UNION of {} and another type is not supported; cast the column of the other query to {0}",
                    of.name()
                ))
            })?;
            *input = Arc::new(read);
        }
    }
    LogicalPlan::Union(union).recompute_schema()
}

/// What a node compares of its rows.
fn with_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    if let LogicalPlan::RecursiveQuery(query) = &plan
        && let Some(place) = differing_step(query)
    {
        let message = format!(
            "recursive query '{}': column {} is JSON or JSONB in one of its parts, and another type in the other",
            query.name,
            place + 1
        );
        return Err(Error::plan(SqlState::DatatypeMismatch, message).into_datafusion());
    }
    match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            for key in &mut sort.expr {
                key.expr = compared(std::mem::take(&mut key.expr), &schema)?;
            }
            Ok(LogicalPlan::Sort(sort))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let schema = Arc::clone(aggregate.input.schema());
            let is_json = |expr: &Expr| kind(expr, &schema) != Kind::Other;
            for key in &aggregate.group_expr {
                if let Expr::GroupingSet(_) = key
                    && key.exists(|part| Ok(is_json(part)))?
                {
                    let message = "grouping sets of JSONB are not supported; group by a cast to TEXT";
                    return Err(unsupported(message.into()));
                }
            }
            if !aggregate.group_expr.iter().any(is_json) {
                return Ok(LogicalPlan::Aggregate(aggregate));
            }
            let (keys, values) = (aggregate.group_expr.clone(), aggregate.aggr_expr.clone());
            let wanted = Arc::clone(&aggregate.schema);
            grouped(Arc::unwrap_or_clone(aggregate.input), keys, values, &wanted)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            if input.schema().fields().iter().all(|field| kind_of(field) == Kind::Other) {
                return Ok(LogicalPlan::Distinct(Distinct::All(input)));
            }
            let schema = Arc::clone(input.schema());
            let columns = schema.columns().into_iter().map(Expr::Column).collect();
            grouped(Arc::unwrap_or_clone(input), columns, Vec::new(), &schema)
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let schema = Arc::clone(on.input.schema());
            let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = on;
            let on_expr = on_expr.into_iter().map(|expr| compared(expr, &schema)).collect::<Result<Vec<_>>>()?;
            let sort_expr = sort_expr.map(|keys| {
                let keys = keys.into_iter().map(|mut key| {
                    key.expr = compared(std::mem::take(&mut key.expr), &schema)?;
                    Ok(key)
                });
                keys.collect::<Result<Vec<_>>>()
            });
            let on = DistinctOn::try_new(on_expr, select_expr, sort_expr.transpose()?, input)?;
            Ok(LogicalPlan::Distinct(Distinct::On(on)))
        }
        LogicalPlan::Join(mut join) => {
            let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
            for (own, other) in &mut join.on {
                if kind(own, &left) != Kind::Other || kind(other, &right) != Kind::Other {
                    *own = compared(std::mem::take(own), &left)?;
                    *other = compared(std::mem::take(other), &right)?;
                }
            }
            Ok(LogicalPlan::Join(join))
        }
        LogicalPlan::RecursiveQuery(query)
            if query.is_distinct
                && query.static_term.schema().fields().iter().any(|field| kind_of(field) != Kind::Other) =>
        {
            let message = "UNION of JSONB in a recursive query is not supported; use UNION ALL";
            Err(unsupported(message.into()))
        }
        other => Ok(other),
    }
}

/// The first column that is another of the types in a recursive query's step.
fn differing_step(query: &RecursiveQuery) -> Option<usize> {
    let LogicalPlan::Projection(step) = query.recursive_term.as_ref() else { return None };
    let stepped = |output: &Expr| match output.clone().unalias() {
        Expr::ScalarFunction(call) if call.name() == STEP => {
            call.args.first().map_or(Kind::Other, |value| kind(value, step.input.schema()))
        }
        other => kind(&other, step.input.schema()),
    };
    let fields = query.static_term.schema().fields();
    fields.iter().zip(&step.expr).position(|(field, output)| kind_of(field) != stepped(output))
}

/// Groups by values of which some are JSONB: by what these compare by, with the first value of each group.
fn grouped(input: LogicalPlan, keys: Vec<Expr>, mut values: Vec<Expr>, wanted: &DFSchema) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let (mut outputs, mut by) = (Vec::new(), Vec::new());
    let (count, names) = (keys.len(), wanted.columns());
    for (key, name) in keys.into_iter().zip(&names) {
        if kind(&key, &schema) == Kind::Other {
            by.push(key);
            outputs.push(Expr::Column(name.clone()));
            continue;
        }
        let (group, first) = (fresh_name("group"), fresh_name("first"));
        values.push(first_value_udaf().call(vec![key.clone().unalias()]).alias(&first));
        by.push(compared(key, &schema)?.alias(group));
        let value = of_type(Expr::Column(Column::from_name(first)), Kind::Jsonb);
        outputs.push(value.alias_qualified(name.relation.clone(), name.name.clone()));
    }
    outputs.extend(names.into_iter().skip(count).map(Expr::Column));
    let groups = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), by, values)?);
    LogicalPlanBuilder::from(groups).project(outputs)?.build()
}

/// What a value of JSONB compares by; others as they are.
fn compared(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match kind(&expr, schema) {
        Kind::Json => Err(undefined("there is no order or equality of json; cast it to JSONB, which has one".into())),
        Kind::Jsonb => Ok(call(KEY, vec![expr.unalias()])),
        Kind::Other => Ok(expr),
    }
}

/// Makes keys of what is compared where one of it is JSONB.
fn compare(all: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    if all.iter().all(|expr| kind(expr, schema) == Kind::Other) {
        return Ok(false);
    }
    for expr in all.iter_mut() {
        let value = std::mem::take(*expr);
        **expr = match kind(&value, schema) {
            Kind::Other if is_untyped(&value) => call(KEY, vec![as_jsonb(value)]),
            Kind::Other => {
                let other = value.get_type(schema).map_or_else(|_| "unknown".into(), |of| sql_type(&of).to_lowercase());
                return Err(undefined(format!("there is no comparison of jsonb and {other}; cast one side")));
            }
            _ => compared(value, schema)?,
        };
    }
    Ok(true)
}

/// A text, NULL or parameter as JSONB.
fn as_jsonb(expr: Expr) -> Expr {
    call(AS_JSONB, vec![as_text(expr)])
}

/// A parameter of which nobody has said a type is a text.
fn as_text(expr: Expr) -> Expr {
    typed(expr, DataType::Utf8View)
}

fn typed(expr: Expr, data_type: DataType) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = Some(Arc::new(arrow::datatypes::Field::new(id.clone(), data_type, true)));
            Expr::Placeholder(Placeholder { id, field })
        }
        other => other,
    }
}

fn rewrite(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_json = |expr: &Expr| kind(expr, schema) != Kind::Other;
    let changed = match &mut expr {
        Expr::BinaryExpr(binary) => match binary.op {
            op if is_comparison(op) || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) => {
                compare(&mut [&mut binary.left, &mut binary.right], schema)?
            }
            op if is_json(&binary.left) || is_json(&binary.right) => {
                return Err(undefined(format!("there is no operator {op} of json or jsonb; cast it to TEXT")));
            }
            _ => false,
        },
        Expr::Like(like) | Expr::SimilarTo(like) if is_json(&like.expr) || is_json(&like.pattern) => {
            return Err(undefined("there is no LIKE of json or jsonb; cast it to TEXT".into()));
        }
        Expr::InSubquery(test) => compare_query(&mut test.expr, &mut test.subquery, schema)?,
        Expr::SetComparison(test) => compare_query(&mut test.expr, &mut test.subquery, schema)?,
        Expr::Between(between) => compare(&mut [&mut between.expr, &mut between.low, &mut between.high], schema)?,
        Expr::InList(list) => {
            let mut all = vec![list.expr.as_mut()];
            all.extend(list.list.iter_mut());
            compare(&mut all, schema)?
        }
        Expr::Case(case) => {
            let mut tested: Vec<&mut Expr> = case.expr.iter_mut().map(AsMut::as_mut).collect();
            if !tested.is_empty() {
                tested.extend(case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut()));
            }
            let changed = compare(&mut tested, schema)?;
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            let results: Vec<&mut Expr> = results.chain(case.else_expr.as_deref_mut()).collect();
            let Some(of) = of_choice("CASE", results, schema)? else {
                return Ok(Transformed::new_transformed(expr, changed));
            };
            return Ok(Transformed::yes(of_type(expr, of)));
        }
        Expr::Cast(_) | Expr::TryCast(_) => return of_cast(expr, schema),
        Expr::ScalarFunction(_) => return of_call(expr, schema),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            for key in &mut params.order_by {
                key.expr = compared(std::mem::take(&mut key.expr), schema)?;
            }
            let name = func.name();
            if params.args.iter().any(is_json) {
                match name {
                    "count" if params.distinct => {
                        for arg in &mut params.args {
                            *arg = compared(std::mem::take(arg), schema)?;
                        }
                    }
                    "count" => {}
                    _ if HANDED_ON.contains(&name) => {}
                    "array_agg" => return Err(no_list()),
                    _ => return Err(no_function(name, params.args.iter().find(|arg| is_json(arg)), schema)),
                }
            }
            true
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, params } = window.as_mut();
            for key in &mut params.order_by {
                key.expr = compared(std::mem::take(&mut key.expr), schema)?;
            }
            for key in &mut params.partition_by {
                *key = compared(std::mem::take(key), schema)?;
            }
            let name = fun.name();
            if params.args.iter().any(is_json) && name != "count" && !HANDED_ON.contains(&name) {
                return Err(no_function(name, params.args.iter().find(|arg| is_json(arg)), schema));
            }
            if name == "count" && params.distinct {
                for arg in &mut params.args {
                    *arg = compared(std::mem::take(arg), schema)?;
                }
            }
            // The third argument of lag and lead is read as the first.
            if params.args.first().is_some_and(is_json) && params.args.len() > 2 {
                let of = kind(&params.args[0], schema);
                let other = &mut params.args[2];
                if kind(other, schema) != of {
                    *other = read_as(std::mem::take(other), of, name, schema)?;
                }
            }
            true
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

fn no_list() -> DataFusionError {
    unsupported("a list of json or jsonb is not supported; use jsonb_agg or jsonb_build_array".into())
}

fn no_function(name: &str, of: Option<&Expr>, schema: &DFSchema) -> DataFusionError {
    let of = of.map_or(Kind::Json, |expr| kind(expr, schema)).name();
    undefined(format!("there is no function {name}() of {of}; cast the argument to TEXT"))
}

/// The type of the results of a choice, which are read as that.
fn of_choice(what: &str, all: Vec<&mut Expr>, schema: &DFSchema) -> Result<Option<Kind>> {
    let of = all.iter().map(|expr| kind(expr, schema)).find(|of| *of != Kind::Other);
    let Some(of) = of else { return Ok(None) };
    for expr in all {
        if kind(expr, schema) != of {
            *expr = read_as(std::mem::take(expr), of, what, schema)?;
        }
    }
    Ok(Some(of))
}

/// A text whose type nobody has said as JSON or JSONB.
fn read_as(expr: Expr, of: Kind, what: &str, schema: &DFSchema) -> Result<Expr> {
    if !is_untyped(&expr) {
        let (of, other) = (
            of.name(),
            match kind(&expr, schema) {
                Kind::Other => {
                    expr.get_type(schema).map_or_else(|_| "unknown".into(), |of| sql_type(&of).to_lowercase())
                }
                kind => kind.name().to_string(),
            },
        );
        let state = if other.starts_with("json") { SqlState::CannotCoerce } else { SqlState::DatatypeMismatch };
        let message = format!("{what} cannot have {of} and {other}; cast one to the type of the other");
        return Err(Error::plan(state, message).into_datafusion());
    }
    Ok(call(if of == Kind::Json { AS_JSON } else { AS_JSONB }, vec![as_text(expr)]))
}

fn of_type(expr: Expr, of: Kind) -> Expr {
    call(TYPED, vec![expr, lit(of.name())])
}

/// A value and the rows of a query that it is compared with.
fn compare_query(value: &mut Expr, query: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let [column] = query.subquery.schema().columns().try_into().unwrap_or_else(|_| [Column::from_name("")]);
    let rows = Expr::Column(column.clone());
    let is_rows = kind(&rows, query.subquery.schema()) != Kind::Other;
    if !is_rows && kind(value, schema) == Kind::Other {
        return Ok(false);
    }
    if !is_rows {
        return Err(undefined("there is no comparison of jsonb and the rows of this query; cast one side".into()));
    }
    let of_rows = compared(rows, query.subquery.schema())?.alias_qualified(column.relation, column.name);
    query.subquery = Arc::new(LogicalPlanBuilder::from(Arc::clone(&query.subquery)).project([of_rows])?.build()?);
    let given = std::mem::take(value);
    *value = match kind(&given, schema) {
        Kind::Other if is_untyped(&given) => call(KEY, vec![as_jsonb(given)]),
        Kind::Other => return Err(undefined("there is no comparison of this value and jsonb; cast one side".into())),
        _ => compared(given, schema)?,
    };
    Ok(true)
}

/// A cast of JSON to another type.
fn of_cast(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (inner, field, tries) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field, false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field, true),
        other => return Ok(Transformed::no(other)),
    };
    let of = kind(&inner, schema);
    let to = field.data_type().clone();
    let again = |inner: Box<Expr>| match tries {
        true => Expr::TryCast(TryCast { expr: inner, field: Arc::clone(&field) }),
        false => Expr::Cast(Cast { expr: inner, field: Arc::clone(&field) }),
    };
    if of == Kind::Other {
        return Ok(Transformed::no(again(inner)));
    }
    Ok(Transformed::yes(match &to {
        text if text.is_string() => again(Box::new(call(AS_TEXT, vec![*inner]))),
        DataType::Boolean if of == Kind::Jsonb && !tries => call(TRUTH, vec![*inner]),
        number if number.is_integer() && of == Kind::Jsonb && !tries => again(Box::new(call(WHOLE, vec![*inner]))),
        number if number.is_numeric() && of == Kind::Jsonb && !tries => again(Box::new(call(NUMBER, vec![*inner]))),
        other => {
            let message = format!("there is no cast of {} to {}; cast it to TEXT first", of.name(), sql_type(other));
            return Err(Error::plan(SqlState::CannotCoerce, message).into_datafusion());
        }
    }))
}

fn of_call(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut function) = expr else { return Ok(Transformed::no(expr)) };
    if called(&function.func).is_some() {
        return of_own(function, schema);
    }
    let is_json = |expr: &Expr| kind(expr, schema) != Kind::Other;
    let name = function.func.name().to_string();
    if !function.args.iter().any(is_json) || OF_ANY.contains(&name.as_str()) {
        return Ok(Transformed::no(Expr::ScalarFunction(function)));
    }
    match name.as_str() {
        name if CHOICES.contains(&name) => {
            let of = of_choice(&name.to_uppercase(), function.args.iter_mut().collect(), schema)?;
            let choice = Expr::ScalarFunction(function);
            Ok(Transformed::yes(of.map_or(choice.clone(), |of| of_type(choice, of))))
        }
        "nullif" if function.args.len() == 2 && is_json(&function.args[0]) => {
            let (first, mut tested) = (function.args[0].clone(), function.args);
            let of = kind(&first, schema);
            compare(&mut tested.iter_mut().collect::<Vec<_>>(), schema)?;
            let [left, right] = tested.try_into().map_err(|_| no_list())?;
            let null = Expr::Literal(datafusion_common::ScalarValue::Utf8View(None), None);
            Ok(Transformed::yes(of_type(when(left.eq(right), null).otherwise(first)?, of)))
        }
        name if OF_TEXTS.contains(&name) => {
            for arg in function.args.iter_mut().filter(|arg| is_json(arg)) {
                *arg = call(AS_TEXT, vec![std::mem::take(arg)]);
            }
            Ok(Transformed::yes(Expr::ScalarFunction(function)))
        }
        "make_array" | "struct" | "row" | "named_struct" => Err(no_list()),
        name => Err(no_function(name, function.args.iter().find(|arg| is_json(arg)), schema)),
    }
}

/// A call of one of the functions of JSON, of arguments that are what it takes.
fn of_own(mut function: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let udf = Arc::clone(&function.func);
    let Some(own) = called(&udf) else { return Ok(Transformed::no(Expr::ScalarFunction(function))) };
    let name = function.func.name().to_string();
    if name == TYPED {
        return Ok(Transformed::no(Expr::ScalarFunction(function)));
    }
    let takes: Vec<Takes> = (0..function.args.len()).map(|place| own.takes_at(place)).collect();
    if let ("to_json" | "to_jsonb", [of]) = (name.as_str(), function.args.as_slice())
        && kind(of, schema) != Kind::Other
    {
        let to = if name == "to_json" { AS_JSON } else { AS_JSONB };
        return Ok(Transformed::yes(call(to, function.args)));
    }
    let mut changed = false;
    for arg in &mut function.args {
        // Under the name that it is written by.
        let row = match &*arg {
            Expr::Alias(named) => named.expr.as_ref(),
            plain => plain,
        };
        if let Expr::ScalarFunction(row) = row
            && let Some(fields) = unnamed_fields(row)
        {
            let fields = fields.into_iter().enumerate();
            let fields = fields.flat_map(|(at, field)| [lit(format!("f{}", at + 1)), field]);
            *arg = named_struct().call(fields.collect());
            changed = true;
        }
    }
    for (arg, takes) in function.args.iter_mut().zip(takes) {
        let of = kind(arg, schema);
        let data_type = arg.get_type(schema).unwrap_or(DataType::Null);
        let untyped = is_untyped(arg);
        let fits = match takes {
            Takes::Json => of == Kind::Json,
            Takes::Jsonb => of == Kind::Jsonb,
            Takes::Either | Takes::Part => of != Kind::Other,
            Takes::Text => of == Kind::Other && data_type.is_string(),
            Takes::Int => data_type.is_integer(),
            Takes::Truth => data_type == DataType::Boolean,
            Takes::Texts => is_list(&data_type),
            Takes::Any => true,
        };
        if fits && !matches!(arg, Expr::Placeholder(_)) && !matches!(takes, Takes::Any) {
            continue;
        }
        let value = std::mem::take(arg);
        *arg = match takes {
            Takes::Json if untyped => call(AS_JSON, vec![as_text(value)]),
            Takes::Jsonb if untyped => call(AS_JSONB, vec![as_text(value)]),
            Takes::Either if untyped => call(AS_JSON, vec![as_text(value)]),
            Takes::Part if fits => value,
            Takes::Part => call(PART, vec![as_text(value)]),
            Takes::Text if untyped => as_text(value),
            Takes::Int if untyped => cast(typed(value, DataType::Int64), DataType::Int64),
            Takes::Truth if untyped => cast(typed(value, DataType::Boolean), DataType::Boolean),
            Takes::Texts if untyped => {
                let texts = DataType::new_list(DataType::Utf8View, true);
                cast(typed(value, texts.clone()), texts)
            }
            Takes::Any if name == AS_JSON || name == AS_JSONB => of_text(value, of, &data_type, &name)?,
            Takes::Any => as_text(value),
            _ if fits => value,
            _ => {
                let of = if of == Kind::Other { sql_type(&data_type).to_lowercase() } else { of.name().into() };
                return Err(undefined(format!("{name} does not take arguments of these types ({of}); cast them")));
            }
        };
        changed = true;
    }
    if name == "row_to_json" && !matches!(function.args[0].get_type(schema), Ok(DataType::Struct(_) | DataType::Null)) {
        return Err(undefined("row_to_json does not take arguments of these types; it takes a row, as to_json".into()));
    }
    if name == "array_to_json" && !function.args[0].get_type(schema).is_ok_and(|of| is_list(&of)) {
        return Err(undefined("array_to_json does not take arguments of these types; use to_json".into()));
    }
    Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
}

/// The fields of a row that is written as `ROW(..)`: they are called `f1`, `f2` and so on in JSON.
fn unnamed_fields(row: &ScalarFunction) -> Option<Vec<Expr>> {
    if matches!(row.name(), "struct" | "row") {
        return Some(row.args.clone());
    }
    let is_unnamed = |(at, pair): (usize, &[Expr])| match &pair[0] {
        Expr::Literal(name, _) => name.try_as_str().flatten() == Some(format!("c{at}").as_str()),
        _ => false,
    };
    let all = row.name() == "named_struct" && row.args.chunks_exact(2).enumerate().all(is_unnamed);
    all.then(|| row.args.chunks_exact(2).map(|pair| pair[1].clone()).collect())
}

/// What is cast to JSON: texts, and the other of the two types.
fn of_text(value: Expr, of: Kind, data_type: &DataType, name: &str) -> Result<Expr> {
    let is_text = data_type.is_string() || *data_type == DataType::Null;
    if of != Kind::Other || is_text || matches!(value, Expr::Placeholder(_)) {
        return Ok(as_text(value));
    }
    let to = if name == AS_JSON { "json" } else { "jsonb" };
    let message = format!("there is no cast of {} to {to}; use to_{to}()", sql_type(data_type));
    Err(Error::plan(SqlState::CannotCoerce, message).into_datafusion())
}

/// The type of a value that an aggregate or window function hands on.
fn handed_on(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
    let (name, args) = match expr {
        Expr::AggregateFunction(AggregateFunction { func, params }) => (func.name(), &params.args),
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, params } = window.as_ref();
            (fun.name(), &params.args)
        }
        _ => return None,
    };
    let argument = args.first().filter(|_| HANDED_ON.contains(&name))?;
    Some(kind(argument, schema)).filter(|of| *of != Kind::Other)
}
