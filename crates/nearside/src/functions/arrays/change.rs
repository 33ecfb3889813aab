//! Lists made of lists: put together, with elements more, less or others, and filled.

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, make_comparator};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::Result;

use super::{Defined, Lists, Maker, common, data, dimensions, is_count, list_and_element, list_of, must_be_list};
use crate::error::value_err;
use crate::functions::floats::canonical;
use crate::functions::texts::nested::element;

/// The functions behind `||`, whose names are no words: an output of one has no name.
pub(super) const APPENDED: &str = "list || element";
pub(super) const PREPENDED: &str = "element || list";
pub(super) const CAT_OF: &str = "list || list";

pub(super) fn functions() -> Vec<Defined> {
    let second = |types: &[DataType]| types.get(1).cloned().unwrap_or(DataType::Null);
    vec![
        Defined::new(
            &["array_append", "list_append", "array_push_back", "list_push_back"],
            false,
            list_then_element,
            list,
            append,
        ),
        Defined::new(
            &["array_prepend", "array_push_front", "list_push_front"],
            false,
            element_then_list,
            second,
            prepend,
        ),
        // DuckDB's has the list behind the element, as PostgreSQL's array_prepend.
        Defined::new(&["list_prepend"], false, element_then_list, second, prepend),
        Defined::new(&["array_cat", "array_concat", "list_concat", "list_cat"], false, all_lists, list, cat),
        Defined::new(&[APPENDED], false, list_then_element, list, append),
        Defined::new(&[PREPENDED], false, element_then_list, second, prepend),
        Defined::new(&[CAT_OF], false, all_lists, list, cat),
        Defined::new(&["array_remove", "list_remove"], false, list_then_element, list, remove),
        Defined::new(&["array_replace", "list_replace"], false, list_and_two, list, replace),
        Defined::new(&["array_fill"], false, filled, filled_type, fill),
    ]
}

fn list(types: &[DataType]) -> DataType {
    types.first().cloned().unwrap_or(DataType::Null)
}

fn list_then_element(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let [list, one] = types else { return Err("it takes a list and an element".into()) };
    let (list, one) = list_and_element(list, one)?;
    Ok(vec![list, one])
}

fn element_then_list(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let [one, list] = types else { return Err("it takes an element and a list".into()) };
    let (list, one) = list_and_element(list, one)?;
    Ok(vec![one, list])
}

fn list_and_two(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let [list, from, to] = types else { return Err("it takes a list and two elements".into()) };
    let (list, one) = list_and_element(list, &common(from, to)?)?;
    Ok(vec![list, one.clone(), one])
}

fn all_lists(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let [first, rest @ ..] = types else { return Err("it takes lists".into()) };
    // Of lists of other dimensions the one with fewer is an element.
    let deepest = types.iter().map(dimensions).max().unwrap_or(0).max(1);
    let raised = |of: &DataType| -> Result<DataType, String> {
        match dimensions(of) {
            _ if *of == DataType::Null => Ok(of.clone()),
            0 if matches!(of, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8) => Ok(of.clone()),
            0 => Err("it takes lists".into()),
            own if own + 1 == deepest => Ok(list_of(of.clone())),
            own if own == deepest => must_be_list(of),
            _ => Err("the dimensions of its lists do not meet".into()),
        }
    };
    let mut all = raised(first)?;
    for other in rest {
        all = common(&all, &raised(other)?)?;
    }
    let to = must_be_list(&all)?;
    let inner = element(&to).cloned().unwrap_or(DataType::Null);
    let one = |of: &DataType| if dimensions(of) > 0 && dimensions(of) < deepest { inner.clone() } else { to.clone() };
    // The first has the type of the result.
    match types.len() {
        2 if dimensions(first) > 0 && dimensions(first) < deepest => {
            Err("write the list with more dimensions first, or use array_prepend".into())
        }
        _ => Ok(types.iter().map(one).collect()),
    }
}

fn append(columns: &[ArrayRef]) -> Result<ArrayRef> {
    with_one(&columns[0], &columns[1], false)
}

fn prepend(columns: &[ArrayRef]) -> Result<ArrayRef> {
    with_one(&columns[1], &columns[0], true)
}

/// Lists with an element more; no list counts as an empty one.
fn with_one(lists: &ArrayRef, ones: &ArrayRef, first: bool) -> Result<ArrayRef> {
    let lists = Lists::of(lists)?;
    let element = ones.data_type();
    let data = data(&[lists.elements(), ones], element)?;
    let mut made = Maker::new(&data);
    for row in 0..lists.len() {
        if first {
            made.add(1, row..row + 1)?;
        }
        if let Some(range) = lists.range(row) {
            made.add(0, range)?;
        }
        if !first {
            made.add(1, row..row + 1)?;
        }
        made.end(true)?;
    }
    made.finish(element)
}

fn cat(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let element = element(columns[0].data_type()).cloned().unwrap_or(DataType::Null);
    // What has a dimension less is an element.
    let is_element: Vec<bool> = columns.iter().map(|column| *column.data_type() == element).collect();
    let lists: Vec<Lists> = columns.iter().map(Lists::of).collect::<Result<_>>()?;
    let sources: Vec<&ArrayRef> =
        columns.iter().zip(&lists).zip(&is_element).map(|((c, l), e)| if *e { c } else { l.elements() }).collect();
    let data = data(&sources, &element)?;
    let mut made = Maker::new(&data);
    for row in 0..columns[0].len() {
        let mut any = false;
        for (at, lists) in lists.iter().enumerate() {
            if let Some(range) = lists.range(row) {
                any = true;
                made.add(at, if is_element[at] { row..row + 1 } else { range })?;
            }
        }
        made.end(any)?;
    }
    made.finish(&element)
}

/// Which of a list's elements are the row's value; a NULL is one of NULL.
fn equals<'a>(elements: &ArrayRef, ones: &ArrayRef) -> Result<Box<dyn Fn(usize, usize) -> bool + 'a>> {
    let (elements, ones) = (canonical(elements), canonical(ones));
    let elements = if elements.data_type() == ones.data_type() { elements } else { cast(&elements, ones.data_type())? };
    if *ones.data_type() == DataType::Null {
        return Ok(Box::new(|_, _| true));
    }
    let compare = make_comparator(&elements, &ones, SortOptions::default())?;
    let (known, wanted) = (elements.logical_nulls(), ones.logical_nulls());
    Ok(Box::new(move |place, row| {
        let nulls = (known.as_ref().is_some_and(|n| n.is_null(place)), wanted.as_ref().is_some_and(|n| n.is_null(row)));
        match nulls {
            (false, false) => compare(place, row).is_eq(),
            (a, b) => a && b,
        }
    }))
}

fn remove(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (lists, ones) = (Lists::of(&columns[0])?, &columns[1]);
    let element = ones.data_type();
    let is_equal = equals(lists.elements(), ones)?;
    let data = data(&[lists.elements()], element)?;
    let mut made = Maker::new(&data);
    for row in 0..lists.len() {
        let range = lists.range(row);
        let is_list = range.is_some();
        for at in range.into_iter().flatten().filter(|place| !is_equal(*place, row)) {
            made.add(0, at..at + 1)?;
        }
        made.end(is_list)?;
    }
    made.finish(element)
}

fn replace(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (lists, from, to) = (Lists::of(&columns[0])?, &columns[1], &columns[2]);
    let element = from.data_type();
    let is_equal = equals(lists.elements(), from)?;
    let data = data(&[lists.elements(), to], element)?;
    let mut made = Maker::new(&data);
    for row in 0..lists.len() {
        let range = lists.range(row);
        let is_list = range.is_some();
        for at in range.into_iter().flatten() {
            if is_equal(at, row) { made.add(1, row..row + 1)? } else { made.add(0, at..at + 1)? }
        }
        made.end(is_list)?;
    }
    made.finish(element)
}

fn filled(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let ints = |of: &DataType| match element(of) {
        Some(inner) if is_count(inner) => Ok(list_of(DataType::Int64)),
        None if matches!(of, DataType::Utf8 | DataType::Utf8View) => Ok(list_of(DataType::Int64)),
        _ => Err("it takes a value and the lengths of the dimensions, as in array_fill(0, ARRAY[3])".to_string()),
    };
    match types {
        [value, lengths] => Ok(vec![value.clone(), ints(lengths)?]),
        [value, lengths, lower] => Ok(vec![value.clone(), ints(lengths)?, ints(lower)?]),
        _ => Err("it takes a value and the lengths of the dimensions".into()),
    }
}

fn filled_type(types: &[DataType]) -> DataType {
    list_of(types.first().cloned().unwrap_or(DataType::Null))
}

/// How many elements a list may be filled with.
const FILLED_MAX: i64 = 1 << 27;

fn fill(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (values, lengths) = (&columns[0], Lists::of(&columns[1])?);
    let all = lengths.elements();
    let all = cast(all, &DataType::Int64)?;
    let all = all.as_primitive::<Int64Type>();
    if let Some(lower) = columns.get(2) {
        let lower = Lists::of(lower)?;
        let bounds = cast(lower.elements(), &DataType::Int64)?;
        if bounds.as_primitive::<Int64Type>().iter().any(|bound| bound != Some(1)) {
            return value_err!(FeatureNotSupported, "array_fill with other lower bounds than 1 is not supported");
        }
    }
    let element = values.data_type().clone();
    let data = data(&[values], &element)?;
    let mut made = Maker::new(&data);
    let mut total = 0i64;
    for row in 0..values.len() {
        let Some(range) = lengths.range(row) else {
            return value_err!(NullValueNotAllowed, "dimension array or low bound array cannot be null");
        };
        let length = match range.len() {
            0 => 0,
            1 if all.is_null(range.start) => {
                return value_err!(NullValueNotAllowed, "dimension values cannot be null");
            }
            1 => all.value(range.start),
            _ => {
                return value_err!(
                    FeatureNotSupported,
                    "array_fill of several dimensions is not supported; fill a list of one, and use that as a value"
                );
            }
        };
        total = total.saturating_add(length.max(0));
        if length < 0 || total > FILLED_MAX {
            return value_err!(ProgramLimitExceeded, "array size {length} is out of range (0 to {FILLED_MAX})");
        }
        for _ in 0..length {
            made.add(0, row..row + 1)?;
        }
        made.end(true)?;
    }
    made.finish(&element)
}

/// Places of elements, for [`find`](super::find).
pub(super) fn places(
    columns: &[ArrayRef],
    mut each: impl FnMut(usize, Option<&mut dyn Iterator<Item = i32>>),
) -> Result<()> {
    let (lists, ones) = (Lists::of(&columns[0])?, &columns[1]);
    let is_equal = equals(lists.elements(), ones)?;
    let from = columns.get(2).map(|from| cast(from, &DataType::Int32)).transpose()?;
    let from: Option<&Int32Array> = from.as_ref().map(|from| from.as_primitive());
    for row in 0..lists.len() {
        let from = from.map_or(Some(1), |from| from.is_valid(row).then(|| from.value(row)));
        match (lists.range(row), from) {
            (Some(range), Some(from)) => {
                let start = range.start;
                let skipped = usize::try_from(from - 1).unwrap_or(0);
                let mut found =
                    range.skip(skipped).filter(|place| is_equal(*place, row)).map(|place| (place - start) as i32 + 1);
                each(row, Some(&mut found));
            }
            _ => each(row, None),
        }
    }
    Ok(())
}
