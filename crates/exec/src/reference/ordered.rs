//! Aggregates of the order of rows, over the rows of one group.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, DynComparator, Float64Array, LargeStringArray, ListArray, RecordBatch,
    UInt32Array, make_array, make_comparator, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, cast, take};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, i256};

use super::keys::canonical;
use crate::ExecError;
use crate::plan::{AggregateCall, AggregateFunction};

/// The rows in the call's order; those with equal keys in the order in which they are given.
pub(super) fn in_order(call: &AggregateCall, input: &RecordBatch, rows: &mut [usize]) -> Result<(), ExecError> {
    let options = |key: &crate::plan::SortKey| SortOptions { descending: key.descending, nulls_first: key.nulls_first };
    let compare = call.order.iter().map(|key| {
        let column = canonical(input.column(key.column));
        Ok(make_comparator(column.as_ref(), column.as_ref(), options(key))?)
    });
    let mut compare = compare.collect::<Result<Vec<DynComparator>, ExecError>>()?;
    if call.distinct {
        // By value, where the order leaves it open.
        let column = canonical(input.column(call.arguments[0]));
        let options = SortOptions { descending: false, nulls_first: false };
        compare.push(make_comparator(column.as_ref(), column.as_ref(), options)?);
    }
    rows.sort_by(|&a, &b| compare.iter().map(|c| c(a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal));
    Ok(())
}

/// The result over the rows of a group, which are in order.
pub(super) fn ordered(call: &AggregateCall, values: &ArrayRef, rows: &[usize]) -> Result<ArrayRef, ExecError> {
    let output = call.field.data_type();
    let none = || Ok(new_null_array(output, 1));
    let value = |row: usize| Ok(take(values, &UInt32Array::from(vec![row as u32]), None)?);
    if rows.is_empty() {
        return none();
    }
    match &call.function {
        AggregateFunction::Nth { place, .. } => {
            let steps = place.unsigned_abs() as usize - 1;
            let row = if *place > 0 { rows.get(steps) } else { rows.iter().rev().nth(steps) };
            row.map_or_else(none, |&row| value(row))
        }
        AggregateFunction::Collect { .. } => {
            let DataType::List(item) = output else { unreachable!("it was validated") };
            let all = take(values, &rows.iter().map(|&r| r as u32).collect::<UInt32Array>(), None)?;
            let item = Arc::new(item.as_ref().clone().with_nullable(true));
            let list = ListArray::try_new(item, OffsetBuffer::from_lengths([rows.len()]), all, None)?;
            Ok(make_array(list.into_data().into_builder().data_type(output.clone()).build()?))
        }
        AggregateFunction::Join { separator } => {
            let texts = cast(values, &DataType::LargeUtf8)?;
            let texts: Vec<&str> = rows.iter().map(|&r| texts.as_string::<i64>().value(r)).collect();
            Ok(cast(&LargeStringArray::from(vec![texts.join(separator)]), output)?)
        }
        AggregateFunction::Mode => {
            let key = canonical(values);
            let equal = make_comparator(key.as_ref(), key.as_ref(), SortOptions::default())?;
            // Equal values stand together. The first of the longest is the first of all.
            let runs: Vec<&[usize]> = rows.chunk_by(|&a, &b| equal(a, b).is_eq()).collect();
            let most = runs.iter().map(|run| run.len()).max().unwrap_or(0);
            value(runs.iter().find(|run| run.len() == most).expect("there is a row")[0])
        }
        AggregateFunction::Quantile { share, continuous: false } => {
            let behind = |place: &usize| (place + 1) as f64 >= share * rows.len() as f64;
            value(rows[(0..rows.len()).find(behind).unwrap_or(rows.len() - 1)])
        }
        AggregateFunction::Quantile { share, continuous: true } => {
            let place = share * (rows.len() - 1) as f64;
            mean(values, rows[place.floor() as usize], rows[place.ceil() as usize], place.fract(), output)
        }
        other => unreachable!("{other:?} knows no order"),
    }
}

fn mean(values: &ArrayRef, low: usize, high: usize, part: f64, output: &DataType) -> Result<ArrayRef, ExecError> {
    if let DataType::Decimal128(..) = output {
        let values = values.as_primitive::<Decimal128Type>();
        let (low, high) = (values.value(low), values.value(high));
        let mean = match part {
            0.0 => low,
            0.5 => {
                let total = i256::from_i128(low).wrapping_add(i256::from_i128(high));
                let half = total.wrapping_div(i256::from_i128(2)).to_i128().expect("it lies between");
                let odd = total.wrapping_rem(i256::from_i128(2));
                half + odd.to_i128().expect("it is 1, 0 or -1")
            }
            _ => low + ((high - low) as f64 * part).round() as i128,
        };
        return Ok(Arc::new(Decimal128Array::from(vec![mean]).with_data_type(output.clone())));
    }
    let scale = match values.data_type() {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => i32::from(*s),
        _ => 0,
    };
    let floats = match scale {
        0 => cast(values, &DataType::Float64)?,
        _ => {
            let wide = cast(values, &DataType::Decimal128(38, scale as i8))?;
            let float = |v: i128| v as f64 / 10f64.powi(scale);
            Arc::new(wide.as_primitive::<Decimal128Type>().unary::<_, Float64Type>(float)) as ArrayRef
        }
    };
    let floats = floats.as_primitive::<Float64Type>();
    let (low, high) = (floats.value(low), floats.value(high));
    let mean = if part == 0.0 || low == high { low } else { low + (high - low) * part };
    Ok(Arc::new(Float64Array::from(vec![mean])))
}
