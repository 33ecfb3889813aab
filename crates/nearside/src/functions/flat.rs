//! `unnest` takes lists within lists apart at every level, as PostgreSQL has it for arrays of several dimensions: its
//! argument is put into a call of [`FLAT`], which makes one list of them.
//!
//! The call is not seen in names, and gives what is no list within a list as it is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The name of the function.
pub(crate) const FLAT: &str = "__nearside_flat";

/// The function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(Flat { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Flat {
    signature: Signature,
}

impl ScalarUDFImpl for Flat {
    fn name(&self) -> &str {
        FLAT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().map_or(DataType::Null, flat_type))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = args.args.swap_remove(0);
        if flat_type(&value.data_type()) == value.data_type() {
            return Ok(value);
        }
        Ok(match value {
            ColumnarValue::Array(lists) => ColumnarValue::Array(flat(&lists)?),
            ColumnarValue::Scalar(list) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&flat(&list.to_array()?)?, 0)?)
            }
        })
    }
}

/// The elements of a list.
fn element(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => Some(element),
        _ => None,
    }
}

/// A list of what is no list any more; other types, and lists of it, as they are.
fn flat_type(data_type: &DataType) -> DataType {
    let Some(mut inner) = element(data_type).filter(|inner| element(inner.data_type()).is_some()) else {
        return data_type.clone();
    };
    while let Some(further) = element(inner.data_type()) {
        inner = further;
    }
    DataType::List(Arc::new(Field::new_list_field(inner.data_type().clone(), true)))
}

/// Lists of the elements of their lists, at every level; a list of no lists is given as it is.
///
/// # Errors
/// Those of Arrow.
pub(crate) fn flat_lists(lists: &ArrayRef) -> Result<ArrayRef> {
    Ok(if flat_type(lists.data_type()) == *lists.data_type() { Arc::clone(lists) } else { flat(lists)? })
}

/// Lists of the elements of their lists, at every level.
fn flat(lists: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let mut lists = as_lists(lists)?;
    while element(lists.values().data_type()).is_some() {
        lists = one_level(&lists)?;
    }
    let element = Arc::new(Field::new_list_field(lists.values().data_type().clone(), true));
    let (_, offsets, values, nulls) = lists.into_parts();
    Ok(Arc::new(ListArray::try_new(element, offsets, values, nulls)?))
}

fn as_lists(lists: &ArrayRef) -> Result<ListArray, ArrowError> {
    match lists.data_type() {
        DataType::List(_) => Ok(lists.as_list::<i32>().clone()),
        other => {
            let element =
                element(other).cloned().unwrap_or_else(|| Arc::new(Field::new_list_field(DataType::Null, true)));
            Ok(cast(lists, &DataType::List(element))?.as_list::<i32>().clone())
        }
    }
}

/// What is within the inner lists, in lists like the outer ones.
fn one_level(lists: &ListArray) -> Result<ListArray, ArrowError> {
    let inner = as_lists(lists.values())?;
    let mut taken: Vec<u64> = Vec::with_capacity(inner.values().len());
    let mut lengths: Vec<usize> = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let before = taken.len();
        if lists.is_valid(row) {
            let ends = &lists.value_offsets()[row..row + 2];
            for place in (ends[0] as usize..ends[1] as usize).filter(|place| inner.is_valid(*place)) {
                let ends = &inner.value_offsets()[place..place + 2];
                taken.extend(ends[0] as u64..ends[1] as u64);
            }
        }
        lengths.push(taken.len() - before);
    }
    i32::try_from(taken.len()).map_err(|_| ArrowError::OffsetOverflowError(taken.len()))?;
    let values = take(inner.values(), &UInt64Array::from(taken), None)?;
    let element = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    ListArray::try_new(element, OffsetBuffer::from_lengths(lengths), values, lists.nulls().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::types::Int32Type;

    #[test]
    fn every_level_is_taken_apart() {
        let rows = [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(2), Some(3)]), Some(vec![Some(4)])];
        let inner = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        let element = Arc::new(Field::new_list_field(inner.data_type().clone(), true));
        let nulls = Some(vec![true, false, true].into());
        // The NULL in the middle hides an element.
        let outer = ListArray::new(element, OffsetBuffer::from_lengths([3, 1, 1]), Arc::new(inner), nulls);
        let outer: ArrayRef = Arc::new(outer);
        let expected =
            ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![Some(4)])]);
        assert_eq!(flat(&outer).unwrap().as_list::<i32>(), &expected);
        assert_eq!(&flat_type(outer.data_type()), flat(&outer).unwrap().data_type());
        let third = Arc::new(Field::new_list_field(outer.data_type().clone(), true));
        let deep = ListArray::new(third, OffsetBuffer::from_lengths([2, 1]), outer, None);
        let deep: ArrayRef = Arc::new(deep);
        let expected =
            ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), Some(vec![Some(4)])]);
        assert_eq!(flat(&deep).unwrap().as_list::<i32>(), &expected);
    }
}
