//! How lists and rows are written as text, as PostgreSQL writes them: `{1,NULL,"a b"}` and `(1,,"a b")`. What could be
//! taken for something else stands in quotes, so that the text can be read back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;

use super::{is_written_here, texts, written};

/// Whether it is a type of lists.
pub(crate) fn is_list(data_type: &DataType) -> bool {
    element(data_type).is_some()
}

/// The type of a list's elements.
pub(crate) fn element(data_type: &DataType) -> Option<&DataType> {
    use DataType as T;
    match data_type {
        T::List(of) | T::LargeList(of) | T::FixedSizeList(of, _) | T::ListView(of) | T::LargeListView(of) => {
            Some(of.data_type())
        }
        _ => None,
    }
}

/// Lists of any kind as those with offsets of 32 bits.
pub(crate) fn as_lists(lists: &ArrayRef) -> Result<ListArray> {
    match lists.data_type() {
        DataType::List(_) => Ok(lists.as_list::<i32>().clone()),
        other => {
            let element = element(other).cloned().unwrap_or(DataType::Null);
            let to = DataType::List(Arc::new(Field::new_list_field(element, true)));
            Ok(cast(lists, &to)?.as_list::<i32>().clone())
        }
    }
}

/// The texts of lists.
pub(super) fn lists(values: &ArrayRef) -> Result<ArrayRef> {
    let values = as_lists(values)?;
    let quotes = !matches!(values.value_type(), DataType::Boolean) && !is_list(&values.value_type());
    let elements = within(values.values())?;
    let elements = elements.as_string_view();
    let rows = (0..values.len()).map(|row| values.is_valid(row).then_some(row));
    Ok(written(rows, |row, to| {
        to.push('{');
        let ends = &values.value_offsets()[row..row + 2];
        for (at, place) in (ends[0] as usize..ends[1] as usize).enumerate() {
            if at > 0 {
                to.push(',');
            }
            match elements.is_valid(place) {
                false => to.push_str("NULL"),
                true if quotes => quoted_element(elements.value(place), to),
                true => to.push_str(elements.value(place)),
            }
        }
        to.push('}');
    }))
}

/// The texts of rows.
pub(super) fn rows(values: &StructArray) -> Result<ArrayRef> {
    let fields: Vec<ArrayRef> = values.columns().iter().map(within).collect::<Result<_>>()?;
    let fields: Vec<&StringViewArray> = fields.iter().map(|field| field.as_string_view()).collect();
    let rows = (0..values.len()).map(|row| values.is_valid(row).then_some(row));
    Ok(written(rows, |row, to| {
        to.push('(');
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                to.push(',');
            }
            if field.is_valid(row) {
                quoted_field(field.value(row), to);
            }
        }
        to.push(')');
    }))
}

/// The texts of what stands in a list or row, where a truth value is a letter.
pub(in crate::functions) fn within(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Boolean => {
            let letter = |value: bool| if value { "t" } else { "f" };
            let letters: StringViewArray = values.as_boolean().iter().map(|value| value.map(letter)).collect();
            Arc::new(letters)
        }
        data_type if is_written_here(data_type) => texts(values)?,
        _ => cast(values, &DataType::Utf8View)?,
    })
}

/// What PostgreSQL takes for blank within lists and rows.
pub(in crate::functions) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

fn quoted_element(text: &str, to: &mut String) {
    let special = |c: char| is_blank(c) || matches!(c, '"' | '\\' | '{' | '}' | ',');
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special) {
        return to.push_str(text);
    }
    to.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            to.push('\\');
        }
        to.push(c);
    }
    to.push('"');
}

fn quoted_field(text: &str, to: &mut String) {
    let special = |c: char| is_blank(c) || matches!(c, '"' | '\\' | '(' | ')' | ',');
    if !text.is_empty() && !text.contains(special) {
        return to.push_str(text);
    }
    to.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            to.push(c);
        }
        to.push(c);
    }
    to.push('"');
}
