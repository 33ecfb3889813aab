//! Few rows as their values alone, for records of the log: their table has the types.
//!
//! A record of one row as an arrow stream has a schema of several hundred bytes, which takes longer to write than all
//! else that a small commit does.
//!
//! ```text
//! rows u32, then for each column: kind u8 | flags u8 | flag 1: which rows have a value, a bit each |
//!   kind 1, as wide as the type   all rows' values
//!   kind 2, yes or no             a byte each
//!   kind 3, text or bytes         lengths u32, then all bytes
//! ```
//!
//! # Invariants
//! What is read back is what was written; bytes that are none are an error, and nothing is allocated by a length that
//! they claim.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, BooleanArray, RecordBatch, RecordBatchOptions,
    StringViewArray, downcast_primitive_array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{DataType, SchemaRef};

use crate::durable::rest::{Rest, malformed};
use crate::error::Result;

/// More rows are written as arrow has them.
const ROWS_MAX: usize = 256;
const FIXED: u8 = 1;
const BOOLEAN: u8 = 2;
const BYTES: u8 = 3;
/// Some rows are NULL.
const HAS_NULLS: u8 = 1;

/// Appends the rows of a batch. `false` where there are too many, or a column of another type: nothing is appended.
pub(super) fn put(batch: &RecordBatch, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let is_done = batch.num_rows() <= ROWS_MAX && {
        out.extend_from_slice(&(batch.num_rows() as u32).to_le_bytes());
        batch.columns().iter().all(|column| put_column(column, out))
    };
    if !is_done {
        out.truncate(begin);
    }
    is_done
}

fn put_column(column: &ArrayRef, out: &mut Vec<u8>) -> bool {
    let kind = match column.data_type() {
        DataType::Boolean => BOOLEAN,
        DataType::Utf8View | DataType::BinaryView => BYTES,
        other if other.is_primitive() => FIXED,
        _ => return false,
    };
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    out.extend_from_slice(&[kind, if nulls.is_some() { HAS_NULLS } else { 0 }]);
    if let Some(nulls) = nulls {
        let begin = out.len();
        out.resize(begin + nulls.len().div_ceil(8), 0);
        nulls
            .iter()
            .enumerate()
            .filter(|(_, is_there)| *is_there)
            .for_each(|(row, _)| out[begin + row / 8] |= 1 << (row % 8));
    }
    downcast_primitive_array! {
        column => out.extend_from_slice(column.values().inner().as_slice()),
        DataType::Boolean => out.extend(column.as_boolean().values().iter().map(u8::from)),
        DataType::Utf8View => put_bytes(column.as_string_view().iter().map(|text| text.map(str::as_bytes)), out),
        DataType::BinaryView => put_bytes(column.as_binary_view().iter(), out),
        _ => return false,
    }
    true
}

/// A NULL has no bytes.
fn put_bytes<'a>(values: impl Iterator<Item = Option<&'a [u8]>> + Clone, out: &mut Vec<u8>) {
    let values = values.map(Option::unwrap_or_default);
    values.clone().for_each(|value| out.extend_from_slice(&(value.len() as u32).to_le_bytes()));
    values.for_each(|value| out.extend_from_slice(value));
}

/// The rows that [`put`] wrote, of a table with this schema.
///
/// # Errors
/// These are none, or of other types.
pub(super) fn read(bytes: &mut Rest<'_>, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = bytes.u32()? as usize;
    if rows > ROWS_MAX {
        return Err(malformed("there are too many rows"));
    }
    let columns = schema.fields().iter().map(|field| read_column(bytes, rows, field.data_type()));
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn read_column(bytes: &mut Rest<'_>, rows: usize, data_type: &DataType) -> Result<ArrayRef> {
    let (kind, flags) = (bytes.u8()?, bytes.u8()?);
    let nulls = match flags {
        0 => None,
        HAS_NULLS => {
            let bits = Buffer::from(bytes.take(rows.div_ceil(8))?);
            Some(NullBuffer::new(BooleanBuffer::new(bits, 0, rows)))
        }
        _ => return Err(malformed("values have flags that nobody knows")),
    };
    let is_there = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    match (kind, data_type) {
        (FIXED, fixed) if fixed.is_primitive() => {
            let width = fixed.primitive_width().unwrap_or_default();
            let values = Buffer::from(bytes.take(rows * width)?);
            let data =
                ArrayData::builder(fixed.clone()).len(rows).add_buffer(values).nulls(nulls.clone()).align_buffers(true);
            Ok(make_array(data.build()?))
        }
        (BOOLEAN, DataType::Boolean) => {
            let values = bytes.take(rows)?.iter().map(|byte| *byte != 0).collect();
            Ok(Arc::new(BooleanArray::new(values, nulls.clone())))
        }
        (BYTES, DataType::Utf8View | DataType::BinaryView) => {
            let lengths =
                (0..rows).map(|_| bytes.u32().map(|length| length as usize)).collect::<Result<Vec<usize>>>()?;
            let mut values = Vec::with_capacity(rows);
            for (row, length) in lengths.into_iter().enumerate() {
                let value = bytes.take(length)?;
                values.push(is_there(row).then_some(value));
            }
            if *data_type == DataType::BinaryView {
                return Ok(Arc::new(values.into_iter().collect::<BinaryViewArray>()));
            }
            let texts: Vec<Option<&str>> = values
                .into_iter()
                .map(|value| value.map(std::str::from_utf8).transpose())
                .collect::<std::result::Result<_, _>>()
                .map_err(|error| malformed(&format!("text that is not UTF-8: {error}")))?;
            Ok(Arc::new(texts.into_iter().collect::<StringViewArray>()))
        }
        _ => Err(malformed(&format!("values are not of type {data_type}"))),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int16Array, Int64Array,
        IntervalMonthDayNanoArray, ListArray, StringViewArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::{Field, Int32Type, IntervalMonthDayNano, Schema};
    use random::Random;

    use super::*;

    const TEXTS: [&str; 4] = ["", "short", "longer than the twelve bytes of a view", "ünïcödé"];

    /// A column of one of the types that are written so, and a field for it.
    fn column(kind: usize, rows: usize, random: &mut Random) -> ArrayRef {
        let mut number = || {
            let wide = random.next_u64() as i64;
            (!random.one_in(4)).then(|| wide >> random.below(60))
        };
        let numbers: Vec<Option<i64>> = (0..rows).map(|_| number()).collect();
        let text = |number: &Option<i64>| number.map(|number| TEXTS[number.unsigned_abs() as usize % 4]);
        match kind {
            0 => Arc::new(Int64Array::from(numbers)),
            1 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
            2 => Arc::new(numbers.iter().map(|n| n.map(|n| n as f64 / 3.0)).collect::<Float64Array>()),
            3 => Arc::new(numbers.iter().map(|n| n.map(|n| n % 2 == 0)).collect::<BooleanArray>()),
            4 => Arc::new(numbers.iter().map(text).collect::<StringViewArray>()),
            5 => Arc::new(numbers.iter().map(|n| text(n).map(str::as_bytes)).collect::<BinaryViewArray>()),
            6 => Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<Date32Array>()),
            7 => {
                let decimals = numbers.iter().map(|n| n.map(i128::from)).collect::<Decimal128Array>();
                Arc::new(decimals.with_precision_and_scale(38, 3).unwrap())
            }
            8 => Arc::new(TimestampMicrosecondArray::from(numbers).with_timezone("UTC")),
            _ => {
                let spans = numbers.iter().map(|n| n.map(|n| IntervalMonthDayNano::new(n as i32, 3, n)));
                Arc::new(spans.collect::<IntervalMonthDayNanoArray>())
            }
        }
    }

    fn batch(random: &mut Random) -> RecordBatch {
        let rows_max = if random.one_in(3) { 20 } else { 3 };
        let rows = random.below(rows_max);
        let mut columns = Vec::new();
        for _ in 0..random.below(6) {
            let kind = random.below(10);
            columns.push(column(kind, rows, random));
        }
        // Rows in the middle of others, as slices are.
        let fields: Vec<Field> = (columns.iter().enumerate())
            .map(|(place, column)| Field::new(format!("c{place}"), column.data_type().clone(), true))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let whole = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap();
        let from = random.below(rows + 1);
        whole.slice(from, rows - from)
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let mut random = Random::new(11);
        for _ in 0..2000 {
            let batch = batch(&mut random);
            let mut bytes = b"before".to_vec();
            assert!(put(&batch, &mut bytes));
            let mut rest = Rest(&bytes[6..]);
            assert_eq!(read(&mut rest, &batch.schema()).unwrap(), batch);
            assert!(rest.0.is_empty());
            // What is cut off or changed is an error or other values, never a panic.
            let end = random.below(bytes.len() - 6);
            assert!(read(&mut Rest(&bytes[6..6 + end]), &batch.schema()).is_err());
            let at = 6 + random.below(bytes.len() - 6);
            bytes[at] ^= 1 << random.below(8);
            let _ = read(&mut Rest(&bytes[6..]), &batch.schema());
        }
    }

    #[test]
    fn other_types_and_many_rows_are_left_to_arrow() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let mixed = RecordBatch::try_from_iter([("n", ids), ("l", Arc::new(list) as ArrayRef)]).unwrap();
        let many: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS_MAX as i64 + 1));
        for batch in [mixed, RecordBatch::try_from_iter([("n", many)]).unwrap()] {
            let mut bytes = b"before".to_vec();
            assert!(!put(&batch, &mut bytes));
            assert_eq!(bytes, b"before");
        }
    }
}
