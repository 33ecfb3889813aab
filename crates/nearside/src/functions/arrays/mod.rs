//! Functions and operators of lists in the meaning that PostgreSQL gives them for arrays: elements count from 1, what
//! is out of range is NULL, NULL elements are found by `array_position` and the like, and by `@>` and `&&` never.
//!
//! # Limits
//! Every list counts from 1. A list of lists is PostgreSQL's array of several dimensions, but one subscript of it gives
//! the inner list.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MutableArrayData, make_array, new_empty_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;
use datafusion_expr::ScalarUDF;
use datafusion_expr::type_coercion::binary::type_union_coercion;

use super::defined::Defined;
use super::texts::nested::{as_lists, element, is_list};

mod bounds;
pub(crate) mod casts;
mod change;
mod find;
mod numbered;
mod order;
mod planner;
mod sets;
mod split;

pub(crate) use bounds::SLICES;
pub(crate) use numbered::NUMBERED;
pub(crate) use planner::planner;

/// `array_to_string`.
pub(crate) fn joined() -> Arc<ScalarUDF> {
    split::array_to_string().function()
}

/// The functions, in the place of the planner's of the same names.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let all = [
        bounds::functions(),
        change::functions(),
        find::functions(),
        numbered::functions(),
        order::functions(),
        sets::functions(),
        split::functions(),
    ];
    all.into_iter().flatten().map(Defined::function).collect()
}

/// The type of lists of a type.
pub(super) fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// How many dimensions a type has.
pub(super) fn dimensions(data_type: &DataType) -> usize {
    element(data_type).map_or(0, |inner| 1 + dimensions(inner))
}

/// The innermost type, which is no list.
pub(crate) fn innermost(data_type: &DataType) -> &DataType {
    element(data_type).map_or(data_type, innermost)
}

/// A type that values of both have in one list.
///
/// # Errors
/// Types that do not meet.
pub(super) fn common(a: &DataType, b: &DataType) -> Result<DataType, String> {
    if let (Some(a), Some(b)) = (element(a), element(b)) {
        return Ok(list_of(common(a, b)?));
    }
    let stranger = || format!("{a} and {b} do not stand in one list; cast one to the type of the other");
    match (a, b) {
        (DataType::Null, other) | (other, DataType::Null) => Ok(other.clone()),
        _ if a == b => Ok(a.clone()),
        // A text as it is written takes the type of what it meets.
        _ if is_text(a) && !is_text(b) => Ok(b.clone()),
        _ if is_text(b) && !is_text(a) => Ok(a.clone()),
        _ if is_list(a) || is_list(b) => Err(stranger()),
        _ if (a.is_floating() && b.is_decimal()) || (a.is_decimal() && b.is_floating()) => Ok(DataType::Float64),
        _ => type_union_coercion(a, b).ok_or_else(stranger),
    }
}

/// The types of a list and of an element of it.
///
/// # Errors
/// What is no list, and types that do not meet.
pub(super) fn list_and_element(list: &DataType, one: &DataType) -> Result<(DataType, DataType), String> {
    let of = match element(list) {
        Some(of) => of.clone(),
        None if *list == DataType::Null || is_text(list) => one.clone(),
        None => return Err("its first argument is a list".into()),
    };
    let of = common(&of, one)?;
    Ok((list_of(of.clone()), of))
}

/// The type of what has to be a list.
///
/// # Errors
/// What is none.
pub(super) fn must_be_list(data_type: &DataType) -> Result<DataType, String> {
    match element(data_type) {
        Some(of) => Ok(list_of(of.clone())),
        None if *data_type == DataType::Null => Ok(list_of(DataType::Null)),
        None => Err("it takes a list".into()),
    }
}

/// Whether a type counts something.
pub(super) fn is_count(data_type: &DataType) -> bool {
    data_type.is_integer() || *data_type == DataType::Null
}

/// A column of lists.
pub(super) struct Lists(ListArray);

impl Lists {
    pub(super) fn of(column: &ArrayRef) -> Result<Lists> {
        if *column.data_type() == DataType::Null {
            return Ok(Lists(ListArray::new_null(Arc::new(Field::new_list_field(DataType::Null, true)), column.len())));
        }
        Ok(Lists(as_lists(column)?))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All elements, of which a row has a range.
    pub(super) fn elements(&self) -> &ArrayRef {
        self.0.values()
    }

    /// Where a row's elements are; `None` for NULL.
    pub(super) fn range(&self, row: usize) -> Option<std::ops::Range<usize>> {
        self.0.is_valid(row).then(|| {
            let ends = &self.0.value_offsets()[row..row + 2];
            ends[0] as usize..ends[1] as usize
        })
    }
}

/// Puts lists together of parts of columns.
pub(super) struct Maker<'a> {
    elements: MutableArrayData<'a>,
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl<'a> Maker<'a> {
    /// Of columns of one type, which are numbered as they are given.
    pub(super) fn new(data: &'a [arrow::array::ArrayData]) -> Maker<'a> {
        Maker { elements: MutableArrayData::new(data.iter().collect(), true, 0), offsets: vec![0], valid: Vec::new() }
    }

    /// Adds places of a column to the list that is made.
    pub(super) fn add(&mut self, column: usize, places: std::ops::Range<usize>) -> Result<()> {
        Ok(self.elements.try_extend(column, places.start, places.end)?)
    }

    /// Ends a list, or a NULL.
    pub(super) fn end(&mut self, is_list: bool) -> Result<()> {
        let length = i32::try_from(self.elements.len())
            .map_err(|_| arrow::error::ArrowError::OffsetOverflowError(self.elements.len()))?;
        self.offsets.push(length);
        self.valid.push(is_list);
        Ok(())
    }

    /// The lists.
    pub(super) fn finish(self, element: &DataType) -> Result<ArrayRef> {
        let values = make_array(self.elements.freeze());
        let values = if values.data_type() == element { values } else { cast(&values, element)? };
        let field = Arc::new(Field::new_list_field(element.clone(), true));
        let offsets = OffsetBuffer::new(self.offsets.into());
        Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(NullBuffer::from(self.valid)))?))
    }
}

/// The data of columns, for [`Maker::new`]; those of the type of NULL become columns of the element's type.
pub(super) fn data(columns: &[&ArrayRef], element: &DataType) -> Result<Vec<arrow::array::ArrayData>> {
    let one = |column: &&ArrayRef| match column.data_type() == element {
        true => Ok(column.to_data()),
        false if column.is_empty() => Ok(new_empty_array(element).to_data()),
        false => Ok(cast(column, element)?.to_data()),
    };
    columns.iter().map(one).collect()
}
