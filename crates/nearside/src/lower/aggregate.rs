//! Aggregates: every function that `exec` knows natively, every other one by its own accumulator, and GROUPING SETS.
//!
//! What PostgreSQL refuses is refused here, by name, when the statement is bound: it is better said late than ignored.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::{AggregateFunction as Call, NullTreatment, Sort};
use datafusion_expr::utils::{AggregateOrderSensitivity, enumerate_grouping_sets};
use datafusion_expr::{Aggregate, Expr, ExprSchemable, GroupingSet as Sets};
use datafusion_functions_aggregate::count::Count;
use datafusion_functions_aggregate::min_max::{Max, Min};
use exec::{AggregateCall, AggregateFunction, GroupingSet, GroupingSets, Plan, SortKey};

use super::binder::Binder;
use super::bug;
use super::opaque::Foreign;
use super::scope::{Columns, Scope};
use super::support::{aggregate_call as call_of, is_key_type, keys};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::checked::{CheckedAvg, CheckedSum};
use crate::functions::ordered_sets::OrderedSet;

/// What counting rows is called in plans that people read.
const COUNT_ROWS: &str = "count(*)";

/// What a call is natively.
enum Native<'e> {
    CountRows,
    /// A function over its arguments.
    Known(AggregateFunction, Vec<&'e Expr>),
    /// A function of the order of rows.
    Ordered(AggregateFunction, &'e Expr, Vec<Order<'e>>),
    Foreign,
}

/// By what rows are put in order.
struct Order<'e> {
    expr: &'e Expr,
    descending: bool,
    nulls_first: bool,
}

impl<'e> Order<'e> {
    fn of(sort: &'e Sort) -> Order<'e> {
        Order { expr: &sort.expr, descending: !sort.asc, nulls_first: sort.nulls_first }
    }
}

/// How a call is computed.
fn native<'e>(call: &'e Call, schema: &DFSchema) -> Result<Native<'e>> {
    let function = call.func.inner();
    let params = &call.params;
    if let Some(ordered) = ordered(call, schema)? {
        return Ok(ordered);
    }
    if params.null_treatment.is_some() {
        return Err(Error::Unsupported(format!("{} takes no IGNORE NULLS or RESPECT NULLS", call.func.name())));
    }
    let within_group = call.func.supports_within_group_clause();
    if !params.order_by.is_empty() && !within_group && !is_insensitive(call) {
        return Err(Error::Unsupported(format!("{} takes no ORDER BY", call.func.name())));
    }
    if function.is::<Count>() && !params.args.is_empty() {
        if let ([Expr::Literal(value, _)], false) = (params.args.as_slice(), params.distinct)
            && !value.is_null()
        {
            return Ok(Native::CountRows);
        }
        let null = |e: &Expr| e.get_type(schema).is_ok_and(|t| t.is_null());
        if !params.args.iter().any(null) {
            return distinct_keys(call, schema, Native::Known(AggregateFunction::Count, params.args.iter().collect()));
        }
    }
    if let [argument] = params.args.as_slice() {
        let data_type = argument.get_type(schema)?;
        let exact = matches!(data_type, DataType::Int64 | DataType::Decimal128(..) | DataType::Float64);
        if function.is::<CheckedSum>() && exact {
            return Ok(Native::Known(AggregateFunction::Sum, vec![widened(argument, schema)]));
        }
        if function.is::<CheckedAvg>() && exact {
            return Ok(Native::Known(AggregateFunction::Avg, vec![widened(argument, schema)]));
        }
        if function.is::<Min>() && is_key_type(&data_type) {
            return Ok(Native::Known(AggregateFunction::Min, vec![argument]));
        }
        if function.is::<Max>() && is_key_type(&data_type) {
            return Ok(Native::Known(AggregateFunction::Max, vec![argument]));
        }
    }
    distinct_keys(call, schema, Native::Foreign)
}

fn is_insensitive(call: &Call) -> bool {
    matches!(call.func.order_sensitivity(), AggregateOrderSensitivity::Insensitive)
}

/// The call, if values that are to be taken once can be told apart.
fn distinct_keys<'e>(call: &Call, schema: &DFSchema, native: Native<'e>) -> Result<Native<'e>> {
    for argument in call.params.args.iter().filter(|_| call.params.distinct) {
        let data_type = argument.get_type(schema)?;
        if !is_key_type(&data_type) {
            let name = call.func.name();
            return Err(Error::Unsupported(format!("{name}(DISTINCT ..) cannot tell values of {data_type} apart")));
        }
    }
    Ok(native)
}

/// A function of the order of rows; `None` where the call is none.
fn ordered<'e>(call: &'e Call, schema: &DFSchema) -> Result<Option<Native<'e>>> {
    let params = &call.params;
    let name = call.func.name();
    let args = params.args.as_slice();
    let Some(argument) = args.first() else { return Ok(None) };
    if let Some(set) = call.func.inner().downcast_ref::<OrderedSet>() {
        let function = set.function(args)?;
        // A narrower number is as good, and may have vids.
        let argument = if matches!(function, AggregateFunction::Quantile { continuous: true, .. }) {
            widened(argument, schema)
        } else {
            argument
        };
        let descending = params.order_by.first().is_some_and(|sort| !sort.asc);
        let order = Order { expr: argument, descending, nulls_first: false };
        return distinct_keys(call, schema, Native::Ordered(function, argument, vec![order])).map(Some);
    }
    let nulls = params.null_treatment != Some(NullTreatment::IgnoreNulls);
    let function = match (name, args) {
        ("first_value", [_]) => AggregateFunction::Nth { place: 1, nulls },
        ("last_value", [_]) => AggregateFunction::Nth { place: -1, nulls },
        ("any_value", [_]) => AggregateFunction::Nth { place: 1, nulls: false },
        ("array_agg", [_]) => AggregateFunction::Collect { nulls },
        ("nth_value", [_, place]) => AggregateFunction::Nth { place: place_of(place)?, nulls },
        ("string_agg", [_, separator]) => AggregateFunction::Join { separator: separator_of(separator)? },
        _ => return Ok(None),
    };
    let mut order: Vec<Order<'_>> = params.order_by.iter().map(Order::of).collect();
    for key in &mut order {
        if is_same_text(argument, key.expr, schema) {
            key.expr = argument;
        }
        let data_type = key.expr.get_type(schema)?;
        if !is_key_type(&data_type) {
            return Err(Error::Unsupported(format!("{name} cannot order by values of {data_type}")));
        }
        if params.distinct && key.expr != argument {
            return Err(Error::plan(
                SqlState::InvalidColumnReference,
                format!("in {name}(DISTINCT ..), ORDER BY can only be by the argument itself"),
            ));
        }
    }
    distinct_keys(call, schema, Native::Ordered(function, argument, order)).map(Some)
}

/// Is the argument this text, in another type of text?
fn is_same_text(argument: &Expr, text: &Expr, schema: &DFSchema) -> bool {
    let is_text = |e: &Expr| {
        e.get_type(schema).is_ok_and(|t| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View))
    };
    matches!(argument, Expr::Cast(cast) if *cast.expr == *text) && is_text(argument) && is_text(text)
}

fn refused<T>(message: &str) -> Result<T> {
    Err(Error::plan(SqlState::DatatypeMismatch, message))
}

fn place_of(expr: &Expr) -> Result<i64> {
    let place = match expr {
        Expr::Literal(value, _) => value.cast_to(&DataType::Int64).ok(),
        _ => None,
    };
    match place {
        Some(ScalarValue::Int64(Some(place))) if place > 0 => Ok(place),
        _ => refused("nth_value takes the number of a row, 1 or more, as a literal"),
    }
}

fn separator_of(expr: &Expr) -> Result<String> {
    match expr {
        Expr::Literal(value, _) if value.is_null() => Ok(String::new()),
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => Ok(text.to_string()),
            _ => refused("string_agg takes a text as separator"),
        },
        _ => refused("string_agg takes a literal as separator; put the text into the argument instead"),
    }
}

/// What a sum or an average is over before DataFusion made it wider: totals are exact here whatever the width.
fn widened<'e>(argument: &'e Expr, schema: &DFSchema) -> &'e Expr {
    let Expr::Cast(cast) = argument else { return argument };
    let Ok(from) = cast.expr.get_type(schema) else { return argument };
    let fits = match cast.field.data_type() {
        DataType::Int64 | DataType::Float64 => {
            from.is_signed_integer() || matches!(from, DataType::UInt8 | DataType::UInt16 | DataType::UInt32)
        }
        _ => false,
    };
    if fits { &cast.expr } else { argument }
}

/// The plan of an aggregation.
pub(super) fn aggregate(binder: &Binder<'_>, node: &Aggregate) -> Result<Plan> {
    let mut scope = Scope::new(binder.plan(&node.input)?, node.input.schema());
    let groups = keys(node).into_iter().map(|e| scope.resolve(binder, e)).collect::<Result<Vec<_>>>()?;
    let calls = scope.resolve_all(binder, &node.aggr_expr)?;
    let mut columns = Columns::new(&scope.schema, binder.props);
    let keys = groups.iter().map(|e| columns.index(e)).collect::<Result<Vec<_>>>()?;
    let sets = sets(node)?;
    let fields = node.schema.fields().iter().skip(keys.len() + usize::from(sets.is_some()));
    let calls = calls.iter().zip(fields).map(|(e, field)| bind_call(&mut columns, e, field));
    let calls = calls.collect::<Result<Vec<_>>>()?;
    let input = columns.over(scope.plan)?;
    match sets {
        Some(sets) => input.aggregate_sets(keys, sets, calls).map_err(bug),
        None => input.aggregate(keys, calls).map_err(bug),
    }
}

/// The grouping sets of an aggregation, numbered as DataFusion's `GROUPING` reads them: a bit per key that a set
/// leaves out, the last key's the lowest, and above those how many equal sets came before.
fn sets(node: &Aggregate) -> Result<Option<GroupingSets>> {
    if !matches!(node.group_expr.as_slice(), [Expr::GroupingSet(_)]) {
        return Ok(None);
    }
    let keys = keys(node);
    let expanded = match enumerate_grouping_sets(node.group_expr.clone())?.as_slice() {
        [Expr::GroupingSet(Sets::GroupingSets(sets))] => sets.clone(),
        [Expr::GroupingSet(Sets::Rollup(exprs))] => (0..=exprs.len()).rev().map(|n| exprs[..n].to_vec()).collect(),
        [Expr::GroupingSet(Sets::Cube(exprs))] => {
            let chosen = |bits: u64| exprs.iter().enumerate().filter(move |(i, _)| bits >> i & 1 == 1);
            let all = 1u64.checked_shl(exprs.len() as u32).filter(|&n| n <= 4096);
            let all = all.ok_or_else(|| Error::Unsupported("CUBE of more than 12 expressions".into()))?;
            (0..all).rev().map(|bits| chosen(bits).map(|(_, e)| e.clone()).collect()).collect()
        }
        _ => return Err(Error::Internal("grouping sets were not expanded".into())),
    };
    let mut sets: Vec<GroupingSet> = Vec::with_capacity(expanded.len());
    for set in &expanded {
        let place = |e: &Expr| keys.iter().position(|key| *key == e);
        let mut places = set
            .iter()
            .map(place)
            .collect::<Option<Vec<usize>>>()
            .ok_or_else(|| Error::Internal("a grouping set has a key that the aggregation has not".into()))?;
        places.sort_unstable();
        places.dedup();
        let left_out = (0..keys.len()).filter(|key| !places.contains(key));
        let bits: u64 = left_out.map(|key| 1 << (keys.len() - 1 - key)).sum();
        let before = sets.iter().filter(|other| other.keys == places).count() as u64;
        let id = bits | before.checked_shl(keys.len() as u32).unwrap_or(0);
        sets.push(GroupingSet { keys: places, id });
    }
    let id = Arc::clone(&node.schema.fields()[keys.len()]);
    Ok(Some(GroupingSets { sets, id }))
}

fn bind_call(columns: &mut Columns<'_>, expr: &Expr, field: &FieldRef) -> Result<AggregateCall> {
    let call = call_of(expr).ok_or_else(|| Error::Internal(format!("{expr} was lowered")))?;
    let schema = columns.schema();
    let mut order = Vec::new();
    let (function, arguments) = match native(call, schema)? {
        Native::CountRows => (AggregateFunction::CountRows, Vec::new()),
        Native::Known(function, arguments) => {
            (function, arguments.into_iter().map(|a| columns.index(a)).collect::<Result<_>>()?)
        }
        Native::Ordered(function, argument, keys) => {
            for key in keys {
                let column = columns.index(key.expr)?;
                order.push(SortKey { column, descending: key.descending, nulls_first: key.nulls_first });
            }
            (function, vec![columns.index(argument)?])
        }
        Native::Foreign => {
            let foreign = Foreign::new(call, schema, field)?;
            let reads = foreign.columns().map(|i| &call.params.args[i]);
            let arguments = reads.map(|a| columns.index(a)).collect::<Result<Vec<_>>>()?;
            (AggregateFunction::Opaque(Arc::new(foreign)), arguments)
        }
    };
    // Taking each value once changes nothing for these.
    let once = !matches!(function, AggregateFunction::Min | AggregateFunction::Max);
    let filter = call.params.filter.as_deref().map(|f| columns.index(f)).transpose()?;
    let field = match function {
        // The planner counts a constant instead.
        AggregateFunction::CountRows => Arc::new(field.as_ref().clone().with_name(COUNT_ROWS)),
        _ => Arc::clone(field),
    };
    Ok(AggregateCall { function, arguments, distinct: call.params.distinct && once, filter, order, field })
}

/// An aggregate over the frames of a window, and the columns that it reads. Functions that heed the order of rows get
/// them in the order of
/// the window.
pub(super) fn over_frames(
    columns: &mut Columns<'_>,
    call: &Call,
    field: &FieldRef,
) -> Result<(AggregateFunction, Vec<usize>)> {
    let schema = columns.schema();
    let name = call.func.name();
    let several = call.params.distinct && call.params.args.len() > 1;
    if matches!(name, "grouping" | "mode" | "percentile_disc") || several {
        return Err(Error::Unsupported(format!("{name}(..) of these arguments is no window function")));
    }
    let known = match ordered(call, schema)? {
        Some(_) => Native::Foreign,
        None => native(call, schema)?,
    };
    Ok(match known {
        Native::CountRows => (AggregateFunction::CountRows, Vec::new()),
        Native::Known(function, arguments) if arguments.len() == 1 => (function, vec![columns.index(arguments[0])?]),
        Native::Ordered(..) | Native::Known(..) => {
            return Err(Error::Unsupported(format!("{name}(..) of these arguments is no window function")));
        }
        Native::Foreign => {
            let foreign = Foreign::new(call, schema, field)?;
            let reads = foreign.columns().map(|i| &call.params.args[i]);
            let arguments = reads.map(|a| columns.index(a)).collect::<Result<Vec<_>>>()?;
            (AggregateFunction::Opaque(Arc::new(foreign)), arguments)
        }
    })
}

/// DISTINCT over all columns.
pub(super) fn distinct(input: Plan) -> Result<Plan> {
    let keys = (0..input.schema().fields().len()).collect();
    input.aggregate(keys, Vec::new()).map_err(bug)
}
