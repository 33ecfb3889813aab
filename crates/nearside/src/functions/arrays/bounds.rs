//! How long lists are, and elements by number: `a[1]`, `a[2:3]`, `array_length`, `cardinality` and the like.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, ListArray, StringViewArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion_common::Result;

use super::{Defined, Lists, Maker, data, dimensions, is_count, must_be_list};
use crate::error::value_err;
use crate::functions::texts::nested::element;

/// The name of the function behind `a[1]`.
pub(super) const ELEMENT: &str = "array_element";

/// The name of the function behind `a[2:3]`.
pub(super) const SLICE: &str = "array_slice";

/// The name of the function behind `a[1:2][3]`, where a slice stands among several subscripts.
pub(crate) const SLICES: &str = "__nearside_slices";

pub(super) fn functions() -> Vec<Defined> {
    let int = |_: &[DataType]| DataType::Int32;
    vec![
        Defined::new(&[ELEMENT, "array_extract", "list_element", "list_extract"], true, by_number, inner, element_at),
        Defined::new(&[SLICE, "list_slice"], true, with_ends, first, slice),
        Defined::new(&[SLICES], true, with_pairs, first, slices),
        Defined::new(&["array_length", "list_length"], true, with_dimension, int, length),
        Defined::new(&["array_upper"], true, with_dimension, int, length),
        Defined::new(&["array_lower"], true, with_dimension, int, lower),
        Defined::new(&["array_ndims", "list_ndims"], true, one_list, int, ndims),
        Defined::new(&["array_dims", "list_dims"], true, one_list, |_| DataType::Utf8View, dims),
        Defined::new(&["cardinality"], true, list_or_map, int, cardinality),
        Defined::new(&["trim_array"], true, by_number, first, trim),
    ]
}

fn first(types: &[DataType]) -> DataType {
    types.first().cloned().unwrap_or(DataType::Null)
}

fn inner(types: &[DataType]) -> DataType {
    types.first().and_then(element).cloned().unwrap_or(DataType::Null)
}

fn one_list(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [list] => Ok(vec![must_be_list(list)?]),
        _ => Err("it takes one list".into()),
    }
}

fn list_or_map(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [DataType::Map(..)] => Ok(types.to_vec()),
        types => one_list(types),
    }
}

fn by_number(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [list, number] if is_count(number) => Ok(vec![must_be_list(list)?, DataType::Int64]),
        _ => Err("it takes a list and an integer".into()),
    }
}

fn with_ends(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [list, ends @ ..] if matches!(ends.len(), 2 | 3) && ends.iter().all(is_count) => {
            let mut all = vec![must_be_list(list)?];
            all.extend(ends.iter().map(|_| DataType::Int64));
            Ok(all)
        }
        _ => Err("it takes a list and the numbers of its first and last element".into()),
    }
}

fn with_pairs(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [list, ends @ ..] if ends.iter().all(is_count) => {
            Ok(std::iter::once(must_be_list(list)?).chain(ends.iter().map(|_| DataType::Int64)).collect())
        }
        _ => Err("subscripts are integers".into()),
    }
}

fn with_dimension(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [list] => Ok(vec![must_be_list(list)?]),
        [list, dimension] if is_count(dimension) => Ok(vec![must_be_list(list)?, DataType::Int64]),
        _ => Err("it takes a list and the number of a dimension".into()),
    }
}

fn numbers(column: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn element_at(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (lists, numbers) = (Lists::of(&columns[0])?, numbers(&columns[1])?);
    let place = |row: usize| {
        let range = lists.range(row)?;
        let number = numbers.is_valid(row).then(|| numbers.value(row))?;
        let place = usize::try_from(number.checked_sub(1)?).ok()?;
        (place < range.len()).then(|| (range.start + place) as u64)
    };
    let places: arrow::array::UInt64Array = (0..lists.len()).map(place).collect();
    Ok(take(lists.elements(), &places, None)?)
}

fn slice(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let lists = Lists::of(&columns[0])?;
    let ends = columns[1..].iter().map(numbers).collect::<Result<Vec<_>>>()?;
    let element = element(columns[0].data_type()).cloned().unwrap_or(DataType::Null);
    let data = data(&[lists.elements()], &element)?;
    let mut made = Maker::new(&data);
    for row in 0..lists.len() {
        let range = lists.range(row).filter(|_| ends.iter().all(|ends| ends.is_valid(row)));
        let Some(range) = range else {
            made.end(false)?;
            continue;
        };
        let length = range.len() as i64;
        let (from, to) = (ends[0].value(row).max(1), ends[1].value(row).min(length));
        let step = ends.get(2).map_or(1, |steps| steps.value(row));
        match step {
            1 if from <= to => made.add(0, range.start + from as usize - 1..range.start + to as usize)?,
            1.. => {
                let mut number = from;
                while number <= to {
                    let place = range.start + number as usize - 1;
                    made.add(0, place..place + 1)?;
                    number = number.saturating_add(step);
                }
            }
            _ => return value_err!(InvalidParameterValue, "the step of a slice is at least 1, and not {step}"),
        }
        made.end(true)?;
    }
    made.finish(&element)
}

/// Slices over the first dimensions: each pair of numbers is of one. What has no element left is the empty list, also
/// where the list has fewer dimensions.
fn slices(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let ends = columns[1..].iter().map(numbers).collect::<Result<Vec<_>>>()?;
    let lists = Lists::of(&columns[0])?;
    let is_list = |row: &usize| lists.range(*row).is_some() && ends.iter().all(|ends| ends.is_valid(*row));
    let slots: Vec<Option<Slot>> =
        (0..lists.len()).map(|row| is_list(&row).then_some(Slot { place: row, row })).collect();
    let mut left = vec![0; lists.len()];
    if ends.len() / 2 > dimensions(columns[0].data_type()) {
        return sliced(&columns[0], &slots, &ends[..2], &mut left, &vec![false; lists.len()]);
    }
    let made = sliced(&columns[0], &slots, &ends, &mut left, &vec![true; lists.len()])?;
    let some: Vec<bool> = left.iter().map(|left| *left > 0).collect();
    match some.iter().all(|some| *some) {
        true => Ok(made),
        false => sliced(&columns[0], &slots, &ends, &mut left, &some),
    }
}

/// A list that is cut, and the row whose numbers say where.
#[derive(Clone, Copy)]
struct Slot {
    place: usize,
    row: usize,
}

/// The lists of `slots`, cut by a pair of `ends` for each dimension; how many elements each row has is added to `left`.
/// Rows that are not to have `some` elements have none.
fn sliced(
    column: &ArrayRef,
    slots: &[Option<Slot>],
    ends: &[Int64Array],
    left: &mut [usize],
    some: &[bool],
) -> Result<ArrayRef> {
    let [from, to, rest @ ..] = ends else {
        slots.iter().flatten().for_each(|slot| left[slot.row] += 1);
        let places: arrow::array::UInt64Array = slots.iter().map(|slot| slot.map(|slot| slot.place as u64)).collect();
        return Ok(take(column, &places, None)?);
    };
    let lists = Lists::of(column)?;
    let mut inner = Vec::new();
    let mut lengths = Vec::with_capacity(slots.len());
    let mut valid = Vec::with_capacity(slots.len());
    for slot in slots {
        let before = inner.len();
        let range = slot.and_then(|slot| Some((lists.range(slot.place)?, slot.row)));
        if let Some((range, row)) = &range
            && some[*row]
        {
            let first = usize::try_from(from.value(*row).max(1) - 1).unwrap_or(usize::MAX);
            let end = usize::try_from(to.value(*row).max(0)).unwrap_or(usize::MAX).min(range.len());
            inner.extend((first..end).map(|place| Some(Slot { place: range.start + place, row: *row })));
        }
        lengths.push(inner.len() - before);
        valid.push(range.is_some());
    }
    let values = sliced(lists.elements(), &inner, rest, left, some)?;
    i32::try_from(inner.len()).map_err(|_| arrow::error::ArrowError::OffsetOverflowError(inner.len()))?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(NullBuffer::from(valid)))?))
}

fn trim(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (lists, numbers) = (Lists::of(&columns[0])?, numbers(&columns[1])?);
    let element = element(columns[0].data_type()).cloned().unwrap_or(DataType::Null);
    let data = data(&[lists.elements()], &element)?;
    let mut made = Maker::new(&data);
    for row in 0..lists.len() {
        let Some(range) = lists.range(row).filter(|_| numbers.is_valid(row)) else {
            made.end(false)?;
            continue;
        };
        match usize::try_from(numbers.value(row)) {
            Ok(number) if number <= range.len() => made.add(0, range.start..range.end - number)?,
            _ => {
                let length = range.len();
                return value_err!(ArraySubscriptError, "number of elements to trim must be between 0 and {length}");
            }
        }
        made.end(true)?;
    }
    made.finish(&element)
}

/// The lengths of a row's dimensions: of the list, of its first list, and so on. None of an empty list, as PostgreSQL
/// has it.
fn lengths(lists: &Lists, row: usize) -> Result<Option<Vec<i32>>> {
    let Some(mut range) = lists.range(row) else { return Ok(None) };
    let mut lengths = Vec::new();
    let mut values = lists.elements().clone();
    while !range.is_empty() {
        lengths.push(range.len() as i32);
        if element(values.data_type()).is_none() {
            break;
        }
        let inner = Lists::of(&values)?;
        let Some(first) = range.clone().find_map(|place| inner.range(place)) else { break };
        range = first;
        values = inner.elements().clone();
    }
    Ok(Some(lengths))
}

fn of_dimension(columns: &[ArrayRef], of: impl Fn(i32) -> i32) -> Result<ArrayRef> {
    let lists = Lists::of(&columns[0])?;
    let dimensions = columns.get(1).map(numbers).transpose()?;
    let mut found = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let Some(dimensions) = &dimensions else {
            found.push(lists.range(row).map(|range| of(range.len() as i32)));
            continue;
        };
        let dimension = dimensions.is_valid(row).then(|| dimensions.value(row)).filter(|number| *number > 0);
        found.push(match (lengths(&lists, row)?, dimension) {
            (Some(lengths), Some(number)) => lengths.get(number as usize - 1).map(|length| of(*length)),
            _ => None,
        });
    }
    Ok(Arc::new(Int32Array::from(found)))
}

fn length(columns: &[ArrayRef]) -> Result<ArrayRef> {
    of_dimension(columns, |length| length)
}

fn lower(columns: &[ArrayRef]) -> Result<ArrayRef> {
    of_dimension(columns, |_| 1)
}

fn ndims(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let lists = Lists::of(&columns[0])?;
    let number = |row| Ok(lengths(&lists, row)?.map(|lengths| lengths.len() as i32).filter(|number| *number > 0));
    Ok(Arc::new((0..lists.len()).map(number).collect::<Result<Int32Array>>()?))
}

fn dims(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let lists = Lists::of(&columns[0])?;
    let text = |row| {
        let lengths = lengths(&lists, row)?.filter(|lengths| !lengths.is_empty());
        Ok(lengths.map(|lengths| lengths.iter().map(|length| format!("[1:{length}]")).collect::<String>()))
    };
    Ok(Arc::new((0..lists.len()).map(text).collect::<Result<StringViewArray>>()?))
}

fn cardinality(columns: &[ArrayRef]) -> Result<ArrayRef> {
    if let DataType::Map(..) = columns[0].data_type() {
        let maps = columns[0].as_map();
        let length = |row| maps.is_valid(row).then(|| maps.value_length(row));
        return Ok(Arc::new((0..maps.len()).map(length).collect::<Int32Array>()));
    }
    let lists = Lists::of(&columns[0])?;
    let product = |row| {
        Ok(lengths(&lists, row)?.map(|lengths| match lengths.is_empty() {
            true => 0,
            false => lengths.iter().product(),
        }))
    };
    Ok(Arc::new((0..lists.len()).map(product).collect::<Result<Int32Array>>()?))
}
