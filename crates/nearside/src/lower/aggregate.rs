//! Aggregates: counts, exact sums and averages, smallest and largest values natively, every other function by its own accumulator.
//!
//! Functions whose result depends on the order of rows stay DataFusion's, and so do grouping sets, ORDER BY and WITHIN GROUP.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::logical_expr::expr::AggregateFunction as Call;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable};
use exec::{AggregateCall, AggregateFunction, Plan};

use super::bind::Binder;
use super::bug;
use super::opaque::Foreign;
use super::scope::{Columns, Scope};
use super::support::{Support, is_key_type};
use crate::checked::{CheckedAvg, CheckedSum};
use crate::error::{Error, Result};

/// Functions that give what came first, or all in the order of rows; and one that only DataFusion's grouping sets know.
const ORDERED: [&str; 6] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value", "grouping"];

/// What a call is natively.
enum Native<'e> {
    CountRows,
    /// A function over one argument.
    Known(AggregateFunction, &'e Expr),
    Foreign,
}

/// True for an aggregate expression that [`aggregate`] can bind.
pub(super) fn is_native(expr: &Expr, schema: &DFSchema, support: Support) -> bool {
    let Some(call) = call_of(expr) else { return false };
    let params = &call.params;
    let parts = params.args.iter().chain(params.filter.as_deref());
    parts.into_iter().all(|e| support.over_rows(e))
        && params.order_by.is_empty()
        && params.null_treatment.is_none()
        && native(call, schema).is_some()
}

fn call_of(expr: &Expr) -> Option<&Call> {
    match expr {
        Expr::Alias(alias) => call_of(&alias.expr),
        Expr::AggregateFunction(call) => Some(call),
        _ => None,
    }
}

/// How a call is computed; `None` where DataFusion has to.
fn native<'e>(call: &'e Call, schema: &DFSchema) -> Option<Native<'e>> {
    let (function, params) = (call.func.inner(), &call.params);
    if let ([argument], true) = (params.args.as_slice(), function.is::<Count>()) {
        return match argument {
            Expr::Literal(value, _) if !value.is_null() && !params.distinct => Some(Native::CountRows),
            other => known(AggregateFunction::Count, other, params.distinct, schema),
        };
    }
    if let [argument] = params.args.as_slice() {
        let data_type = argument.get_type(schema).ok()?;
        let exact = matches!(data_type, DataType::Int64 | DataType::Decimal128(..) | DataType::Float64);
        if function.is::<CheckedSum>() && exact {
            return known(AggregateFunction::Sum, widened(argument, schema), params.distinct, schema);
        }
        if function.is::<CheckedAvg>() && exact {
            return known(AggregateFunction::Avg, widened(argument, schema), params.distinct, schema);
        }
        if function.is::<Min>() && is_key_type(&data_type) {
            return known(AggregateFunction::Min, argument, false, schema);
        }
        if function.is::<Max>() && is_key_type(&data_type) {
            return known(AggregateFunction::Max, argument, false, schema);
        }
    }
    let distinct_keys = || {
        params.args.iter().all(|a| matches!(a, Expr::Literal(..)) || a.get_type(schema).is_ok_and(|t| is_key_type(&t)))
    };
    let unordered = !ORDERED.contains(&call.func.name());
    let reads = params.args.iter().any(|a| !matches!(a, Expr::Literal(..)));
    (unordered && reads && (!params.distinct || distinct_keys())).then_some(Native::Foreign)
}

fn known<'e>(function: AggregateFunction, argument: &'e Expr, distinct: bool, schema: &DFSchema) -> Option<Native<'e>> {
    let data_type = argument.get_type(schema).ok()?;
    let counts_nulls = matches!(data_type, DataType::Null);
    (!counts_nulls && (!distinct || is_key_type(&data_type))).then_some(Native::Known(function, argument))
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
    let groups = scope.resolve_all(binder, &node.group_expr)?;
    let calls = scope.resolve_all(binder, &node.aggr_expr)?;
    let mut columns = Columns::new(&scope.schema, binder.props);
    let keys = groups.iter().map(|e| columns.index(e)).collect::<Result<Vec<_>>>()?;
    let fields = node.schema.fields().iter().skip(keys.len());
    let calls = calls.iter().zip(fields).map(|(e, field)| bind_call(&mut columns, e, field));
    let calls = calls.collect::<Result<Vec<_>>>()?;
    let input = columns.over(scope.plan)?;
    input.aggregate(keys, calls).map_err(bug)
}

fn bind_call(columns: &mut Columns<'_>, expr: &Expr, field: &FieldRef) -> Result<AggregateCall> {
    let name = || Error::Internal(format!("{expr} was lowered"));
    let call = call_of(expr).ok_or_else(name)?;
    let schema = columns.schema();
    let (function, arguments) = match native(call, schema).ok_or_else(name)? {
        Native::CountRows => (AggregateFunction::CountRows, Vec::new()),
        Native::Known(function, argument) => (function, vec![columns.index(argument)?]),
        Native::Foreign => {
            let reads = call.params.args.iter().filter(|a| !matches!(a, Expr::Literal(..)));
            let arguments = reads.map(|a| columns.index(a)).collect::<Result<Vec<_>>>()?;
            (AggregateFunction::Opaque(Arc::new(Foreign::new(call, schema, field)?)), arguments)
        }
    };
    // Taking each value once changes nothing for these.
    let once = !matches!(function, AggregateFunction::Min | AggregateFunction::Max);
    let filter = call.params.filter.as_deref().map(|f| columns.index(f)).transpose()?;
    let field = Arc::clone(field);
    Ok(AggregateCall { function, arguments, distinct: call.params.distinct && once, filter, field })
}

/// DISTINCT over all columns.
pub(super) fn distinct(input: Plan) -> Result<Plan> {
    let keys = (0..input.schema().fields().len()).collect();
    input.aggregate(keys, Vec::new()).map_err(bug)
}
