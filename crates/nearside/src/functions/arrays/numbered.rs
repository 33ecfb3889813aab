//! `information_schema._pg_expandarray`: the elements of a list with their numbers, which is how drivers ask for the
//! columns of keys.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion_common::Result;

use super::{Defined, Lists, list_of, must_be_list};
use crate::functions::texts::nested::element;

/// The list of elements and numbers, of which the function gives the rows.
pub(crate) const NUMBERED: &str = "__nearside_numbered";

pub(super) fn functions() -> Vec<Defined> {
    vec![Defined::new(&[NUMBERED], false, takes, |types| list_of(row(&types[0])), run)]
}

fn takes(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [list] => Ok(vec![must_be_list(list)?]),
        _ => Err("it takes a list".into()),
    }
}

fn row(list: &DataType) -> DataType {
    let of = element(list).cloned().unwrap_or(DataType::Null);
    DataType::Struct(Fields::from(vec![Field::new("x", of, true), Field::new("n", DataType::Int32, true)]))
}

fn run(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let made = row(columns[0].data_type());
    let lists = Lists::of(&columns[0])?;
    let (mut offsets, mut numbers) = (vec![0_usize], Vec::new());
    let mut places: Vec<u32> = Vec::new();
    for row in 0..lists.len() {
        // NULL gives no rows either.
        let range = lists.range(row).unwrap_or(0..0);
        for (number, place) in range.enumerate() {
            numbers.push(number as i32 + 1);
            places.push(place as u32);
        }
        offsets.push(numbers.len());
    }
    let values = arrow::compute::take(lists.elements(), &arrow::array::UInt32Array::from(places), None)?;
    let DataType::Struct(fields) = &made else { return Ok(arrow::array::new_null_array(&made, 0)) };
    let values = cast(&values, fields[0].data_type())?;
    let rows = StructArray::try_new(fields.clone(), vec![values, Arc::new(Int32Array::from(numbers))], None)?;
    let offsets = OffsetBuffer::from_lengths(offsets.windows(2).map(|pair| pair[1] - pair[0]));
    let field = Arc::new(Field::new_list_field(made.clone(), true));
    Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(rows), None)?))
}
