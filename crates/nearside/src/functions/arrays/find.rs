//! Where elements are in lists.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, ListArray};
use arrow::datatypes::{DataType, Int32Type};
use datafusion_common::Result;

use super::change::places;
use super::{Defined, is_count, list_and_element, list_of};
use crate::error::value_err;

pub(super) fn functions() -> Vec<Defined> {
    vec![
        Defined::new(
            &["array_position", "list_position", "list_indexof", "array_indexof"],
            false,
            with_start,
            |_| DataType::Int32,
            position,
        ),
        Defined::new(&["array_positions", "list_positions"], false, plain, |_| list_of(DataType::Int32), positions),
    ]
}

fn plain(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let [list, one] = types else { return Err("it takes a list and an element".into()) };
    let (list, one) = list_and_element(list, one)?;
    Ok(vec![list, one])
}

fn with_start(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [list, one, start] if is_count(start) => {
            let mut types = plain(&[list.clone(), one.clone()])?;
            types.push(DataType::Int32);
            Ok(types)
        }
        types => plain(types),
    }
}

fn position(columns: &[ArrayRef]) -> Result<ArrayRef> {
    if let Some(start) = columns.get(2)
        && start.null_count() > 0
    {
        return value_err!(NullValueNotAllowed, "initial position must not be null");
    }
    let mut found: Vec<Option<i32>> = Vec::new();
    places(columns, |_, places| found.push(places.and_then(|places| places.next())))?;
    Ok(Arc::new(Int32Array::from(found)))
}

fn positions(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut found: Vec<Option<Vec<Option<i32>>>> = Vec::new();
    places(columns, |_, places| found.push(places.map(|places| places.map(Some).collect())))?;
    Ok(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(found)))
}
