//! Aggregation, one row and one group at a time.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, UInt32Array, UInt64Array,
    make_comparator, new_null_array,
};
use arrow::compute::{SortOptions, cast, concat, take};
use arrow::datatypes::{DataType, Decimal256Type, Float64Type, SchemaRef, i256};

use super::keys::{Equality, key_columns, one_nan};
use super::ordered::{in_order, ordered};
use super::{batch, pick};
use crate::ExecError;
use crate::plan::{AggregateCall, AggregateFunction, Aggregation, GroupedRows, OpaqueAggregate};

/// Groups and aggregates of the rows of `input`.
pub(super) fn aggregate(
    operator: &Aggregation,
    schema: &SchemaRef,
    input: &RecordBatch,
) -> Result<RecordBatch, ExecError> {
    let Some(sets) = &operator.sets else {
        return one_set(operator, schema, input);
    };
    let mut made = Vec::new();
    for set in &sets.sets {
        let keys = set.keys.iter().map(|&key| operator.keys[key]).collect();
        let alone = Aggregation { keys, sets: None, ..operator.clone() };
        let groups = one_set(&alone, &alone.schema(), input)?;
        let rows = groups.num_rows();
        let mut columns: Vec<ArrayRef> = (0..operator.keys.len())
            .map(|key| match set.keys.iter().position(|&k| k == key) {
                Some(at) => groups.column(at).clone(),
                None => new_null_array(schema.field(key).data_type(), rows),
            })
            .collect();
        columns.push(cast(&UInt64Array::from(vec![set.id; rows]), sets.id.data_type())?);
        columns.extend(groups.columns()[set.keys.len()..].iter().cloned());
        made.push(batch(schema, columns, rows)?);
    }
    Ok(arrow::compute::concat_batches(schema, &made)?)
}

/// Groups by all keys.
fn one_set(operator: &Aggregation, schema: &SchemaRef, input: &RecordBatch) -> Result<RecordBatch, ExecError> {
    let groups = groups_of(input, &operator.keys)?;
    let first: Vec<u32> = groups.iter().filter_map(|rows| rows.first().map(|&r| r as u32)).collect();
    let mut columns: Vec<ArrayRef> = Vec::new();
    if !operator.keys.is_empty() {
        let keys = pick(&input.project(&operator.keys)?, &first)?;
        columns.extend(keys.columns().iter().cloned());
    }
    for call in &operator.calls {
        let results = groups.iter().map(|rows| result(call, input, rows)).collect::<Result<Vec<_>, _>>()?;
        let results: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
        let data_type = call.field.data_type();
        columns.push(if results.is_empty() { arrow::array::new_empty_array(data_type) } else { concat(&results)? });
    }
    batch(schema, columns, groups.len())
}

/// Rows of each group. Without keys all rows are one group, which is there even if it is empty.
fn groups_of(input: &RecordBatch, keys: &[usize]) -> Result<Vec<Vec<usize>>, ExecError> {
    if keys.is_empty() {
        return Ok(vec![(0..input.num_rows()).collect()]);
    }
    classes(key_columns(input, keys), &(0..input.num_rows()).collect::<Vec<_>>())
}

/// Rows apart by the values of some columns: each list has equal rows, in order.
pub(super) fn classes(columns: Vec<ArrayRef>, rows: &[usize]) -> Result<Vec<Vec<usize>>, ExecError> {
    let equality = Equality::new(columns.clone(), columns, true)?;
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for &row in rows {
        match classes.iter_mut().find(|class| equality.equal(class[0], row)) {
            Some(class) => class.push(row),
            None => classes.push(vec![row]),
        }
    }
    Ok(classes)
}

/// One aggregate of one group, as an array of one value.
pub(super) fn result(call: &AggregateCall, input: &RecordBatch, group: &[usize]) -> Result<ArrayRef, ExecError> {
    let arguments: Vec<ArrayRef> = call.arguments.iter().map(|&a| input.column(a).clone()).collect();
    let mut rows: Vec<usize> = group.to_vec();
    if let Some(filter) = call.filter {
        let filter = input.column(filter).as_boolean();
        rows.retain(|&r| filter.is_valid(r) && filter.value(r));
    }
    if call.function.skips_nulls() {
        rows.retain(|&r| arguments.iter().all(|a| !a.is_null(r)));
    }
    if call.function.is_ordered() {
        in_order(call, input, &mut rows)?;
    }
    if call.distinct {
        let keys = key_columns(input, &call.arguments);
        rows = classes(keys, &rows)?.into_iter().map(|class| class[0]).collect();
    }
    let output = call.field.data_type();
    match &call.function {
        AggregateFunction::CountRows | AggregateFunction::Count => {
            Ok(Arc::new(Int64Array::from(vec![rows.len() as i64])))
        }
        AggregateFunction::Opaque(function) => opaque_result(function.as_ref(), &arguments, &rows),
        _ if rows.is_empty() => Ok(new_null_array(output, 1)),
        AggregateFunction::Min => extreme(&arguments[0], &rows, Ordering::Less),
        AggregateFunction::Max => extreme(&arguments[0], &rows, Ordering::Greater),
        AggregateFunction::Sum => sum(&arguments[0], &rows, call),
        AggregateFunction::Avg => average(&arguments[0], &rows, call),
        _ => ordered(call, &arguments[0], &rows),
    }
}

fn opaque_result(
    function: &dyn OpaqueAggregate,
    arguments: &[ArrayRef],
    rows: &[usize],
) -> Result<ArrayRef, ExecError> {
    let mut state = function.groups()?;
    let none: Vec<ArrayRef> = arguments.iter().map(|a| a.slice(0, 0)).collect();
    state.update(&none, GroupedRows::none(1))?;
    for &row in rows {
        let one: Vec<ArrayRef> = arguments.iter().map(|a| a.slice(row, 1)).collect();
        state.update(&one, GroupedRows { groups: &[0], ..GroupedRows::none(1) })?;
    }
    state.finish()
}

/// The first of the smallest (or largest) values.
fn extreme(values: &ArrayRef, rows: &[usize], wanted: Ordering) -> Result<ArrayRef, ExecError> {
    let values = &one_nan(values);
    let compare = make_comparator(values.as_ref(), values.as_ref(), SortOptions::default())?;
    let best = rows.iter().copied().reduce(|best, row| if compare(row, best) == wanted { row } else { best });
    let best = best.expect("the caller has seen a row");
    Ok(take(values, &UInt32Array::from(vec![best as u32]), None)?)
}

/// The values as wide integers (decimals unscaled), which no sum of rows in memory overflows; `None` for floats.
fn integers(values: &ArrayRef, rows: &[usize]) -> Result<Option<Vec<i256>>, ExecError> {
    let scale = match values.data_type() {
        DataType::Decimal32(_, s)
        | DataType::Decimal64(_, s)
        | DataType::Decimal128(_, s)
        | DataType::Decimal256(_, s) => *s,
        other if other.is_integer() => 0,
        _ => return Ok(None),
    };
    let wide = cast(values, &DataType::Decimal256(76, scale))?;
    let wide = wide.as_primitive::<Decimal256Type>();
    Ok(Some(rows.iter().map(|&r| wide.value(r)).collect()))
}

fn floats(values: &ArrayRef, rows: &[usize]) -> Result<Vec<f64>, ExecError> {
    let wide = cast(values, &DataType::Float64)?;
    let wide = wide.as_primitive::<Float64Type>();
    Ok(rows.iter().map(|&r| wide.value(r)).collect())
}

fn sum(values: &ArrayRef, rows: &[usize], call: &AggregateCall) -> Result<ArrayRef, ExecError> {
    let output = call.field.data_type();
    let Some(integers) = integers(values, rows)? else {
        let total: f64 = floats(values, rows)?.into_iter().sum();
        return Ok(cast(&Float64Array::from(vec![total]), output)?);
    };
    let total = integers.into_iter().fold(i256::ZERO, i256::wrapping_add);
    integer_result(total, output, call)
}

/// An exact integer in the type of the output, if it fits.
fn integer_result(total: i256, output: &DataType, call: &AggregateCall) -> Result<ArrayRef, ExecError> {
    let overflow = || ExecError::Evaluation(format!("{}: {total} does not fit in {output}", call.field.name()));
    let narrow = total.to_i128().ok_or_else(overflow)?;
    if let DataType::Decimal128(precision, _) = output {
        if narrow.unsigned_abs() >= 10u128.pow(u32::from(*precision)) {
            return Err(overflow());
        }
        return Ok(Arc::new(Decimal128Array::from(vec![narrow]).with_data_type(output.clone())));
    }
    let whole: ArrayRef = Arc::new(Decimal128Array::from(vec![narrow]).with_data_type(DataType::Decimal128(38, 0)));
    let cast = cast(&whole, output)?;
    if cast.is_null(0) { Err(overflow()) } else { Ok(cast) }
}

fn average(values: &ArrayRef, rows: &[usize], call: &AggregateCall) -> Result<ArrayRef, ExecError> {
    let output = call.field.data_type();
    let (Some(integers), DataType::Decimal128(_, to)) = (integers(values, rows)?, output) else {
        let total = match integers(values, rows)? {
            Some(integers) => {
                let exact = integers.into_iter().fold(i256::ZERO, i256::wrapping_add);
                let scale = match values.data_type() {
                    DataType::Decimal128(_, s) => i32::from(*s),
                    _ => 0,
                };
                exact.to_i128().map_or(f64::NAN, |v| v as f64) / 10f64.powi(scale)
            }
            None => floats(values, rows)?.into_iter().sum(),
        };
        return Ok(cast(&Float64Array::from(vec![total / rows.len() as f64]), output)?);
    };
    let from = match values.data_type() {
        DataType::Decimal32(_, s)
        | DataType::Decimal64(_, s)
        | DataType::Decimal128(_, s)
        | DataType::Decimal256(_, s) => *s,
        _ => 0,
    };
    let total = integers.into_iter().fold(i256::ZERO, i256::wrapping_add);
    // total / 10^from / count, in units of 10^-to, rounded half away from zero.
    let ten = |power: i8| i256::from_i128(10i128.pow(power.unsigned_abs().into()));
    let up = if *to >= from { ten(to - from) } else { i256::ONE };
    let down = if *to < from { ten(from - to) } else { i256::ONE };
    let numerator = total.wrapping_mul(up);
    let divisor = i256::from_i128(rows.len() as i128).wrapping_mul(down);
    let (cut, rest) = (numerator.wrapping_div(divisor), numerator.wrapping_rem(divisor));
    let away = if rest.is_negative() { i256::MINUS_ONE } else { i256::ONE };
    let twice = rest.wrapping_add(rest).wrapping_abs();
    let whole = if twice >= divisor { cut.wrapping_add(away) } else { cut };
    integer_result(whole, output, call)
}
