//! Lists and texts: `array_to_string` and `string_to_array`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::Result;

use super::{Defined, Lists, is_text, list_of, must_be_list};
use crate::functions::flat::flat_lists;
use crate::functions::texts::nested;

pub(super) fn functions() -> Vec<Defined> {
    vec![
        array_to_string(),
        Defined::new(&["string_to_array", "string_to_list"], false, texts, |_| list_of(DataType::Utf8View), split),
    ]
}

/// `array_to_string`.
pub(super) fn array_to_string() -> Defined {
    let names = ["array_to_string", "list_to_string", "array_join", "list_join"];
    Defined::new(&names, false, list_and_texts, |_| DataType::Utf8View, joined)
}

fn must_be_text(data_type: &DataType) -> Result<DataType, String> {
    match is_text(data_type) || *data_type == DataType::Null {
        true => Ok(DataType::Utf8View),
        false => Err("what stands between elements, or for NULL, is a text".into()),
    }
}

fn list_and_texts(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [list, rest @ ..] if matches!(rest.len(), 1 | 2) => {
            let mut all = vec![must_be_list(list)?];
            for one in rest {
                all.push(must_be_text(one)?);
            }
            Ok(all)
        }
        _ => Err("it takes a list and the text between its elements".into()),
    }
}

fn texts(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types.len() {
        2 | 3 => types.iter().map(must_be_text).collect(),
        _ => Err("it takes a text and what stands between the elements in it".into()),
    }
}

fn as_texts(column: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(column, &DataType::Utf8View)?.as_string_view().clone())
}

fn joined(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let lists = Lists::of(&flat_lists(&columns[0])?)?;
    let between = as_texts(&columns[1])?;
    let for_null = columns.get(2).map(as_texts).transpose()?;
    let elements = nested::within(lists.elements())?;
    let elements = elements.as_string_view();
    let mut found = StringViewBuilder::new();
    let mut text = String::new();
    for row in 0..lists.len() {
        let Some(range) = lists.range(row).filter(|_| between.is_valid(row)) else {
            found.append_null();
            continue;
        };
        text.clear();
        let mut is_first = true;
        for place in range {
            let for_null = for_null.as_ref().filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row));
            let one = if elements.is_valid(place) { Some(elements.value(place)) } else { for_null };
            let Some(one) = one else { continue };
            if !std::mem::take(&mut is_first) {
                text.push_str(between.value(row));
            }
            text.push_str(one);
        }
        found.append_value(&text);
    }
    Ok(Arc::new(found.finish()))
}

fn split(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, between) = (as_texts(&columns[0])?, as_texts(&columns[1])?);
    let for_null = columns.get(2).map(as_texts).transpose()?;
    let mut found = ListBuilder::new(StringViewBuilder::new());
    for row in 0..texts.len() {
        if texts.is_null(row) {
            found.append(false);
            continue;
        }
        let (text, for_null) =
            (texts.value(row), for_null.as_ref().filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row)));
        let mut add = |part: &str| match for_null == Some(part) {
            true => found.values().append_null(),
            false => found.values().append_value(part),
        };
        match between.is_valid(row).then(|| between.value(row)) {
            _ if text.is_empty() => {}
            None => text.char_indices().for_each(|(at, c)| add(&text[at..at + c.len_utf8()])),
            Some("") => add(text),
            Some(between) => text.split(between).for_each(add),
        }
        found.append(true);
    }
    Ok(Arc::new(found.finish()))
}
