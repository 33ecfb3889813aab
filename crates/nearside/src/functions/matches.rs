//! What is matched by a regular expression, where DataFusion has no function for it: `regexp_substr`,
//! `regexp_split_to_array`, and the lists that `regexp_matches` gives the rows of.
//!
//! # Limits
//! Those of [`patterns`](super::patterns). `regexp_split_to_array` and all matches of `regexp_matches` are refused for
//! patterns that also match nothing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListBuilder, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::Result;
use datafusion_expr::ScalarUDF;
use regex::Regex;

use super::defined::Defined;
use super::patterns::{Asked, written};
use crate::error::value_err;

/// A list of the groups of each match, in a list.
pub(crate) const ALL_MATCHES: &str = "__nearside_all_matches";

/// The functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let all = [
        Defined::new(&["regexp_split_to_array"], true, two_or_three_texts, |_| texts(), split),
        Defined::new(&[ALL_MATCHES], true, two_or_three_texts, |_| DataType::new_list(texts(), true), matches),
        Defined::new(&["regexp_substr"], true, text_and_place, |_| DataType::Utf8View, substr),
    ];
    all.into_iter().map(Defined::function).collect()
}

/// `substring(text FROM pattern)`: the first group of the first match, or all of it where the pattern has none. It is
/// in no registry.
pub(super) fn substring() -> Arc<ScalarUDF> {
    Defined::new(&["substring"], true, two_or_three_texts, |_| DataType::Utf8View, matched).function()
}

fn texts() -> DataType {
    DataType::new_list(DataType::Utf8View, true)
}

fn is_text(of: &DataType) -> bool {
    of.is_string() || of.is_null()
}

fn two_or_three_texts(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match matches!(types.len(), 2 | 3) && types.iter().all(is_text) {
        true => Ok(vec![DataType::Utf8View; types.len()]),
        false => Err("it takes a text, a regular expression and flags".into()),
    }
}

fn text_and_place(types: &[DataType]) -> Result<Vec<DataType>, String> {
    const WANTED: [DataType; 6] =
        [DataType::Utf8View, DataType::Utf8View, DataType::Int64, DataType::Int64, DataType::Utf8View, DataType::Int64];
    let fits = |(of, wanted): (&DataType, &DataType)| match wanted {
        DataType::Int64 => of.is_integer() || of.is_null(),
        _ => is_text(of),
    };
    match matches!(types.len(), 2..=6) && types.iter().zip(&WANTED).all(fits) {
        true => Ok(WANTED[..types.len()].to_vec()),
        false => Err("it takes a text, a regular expression, a start, the number of a match, flags and a group".into()),
    }
}

fn texts_of(column: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(column, &DataType::Utf8View)?.as_string_view().clone())
}

/// The engine's expression of the last pattern; rows mostly have the same.
#[derive(Default)]
struct Last(Option<(String, String, Asked, Regex)>);

impl Last {
    fn of(&mut self, pattern: &str, options: &str, asked: Asked) -> Result<&Regex> {
        let is_same = self.0.as_ref().is_some_and(|(p, o, a, _)| p == pattern && o == options && *a == asked);
        if !is_same {
            let text = written(pattern, options, asked)?;
            let Ok(regex) = Regex::new(&text) else {
                return value_err!(InvalidRegularExpression, "regular expression '{pattern}' is none");
            };
            self.0 = Some((pattern.to_string(), options.to_string(), asked, regex));
        }
        match &self.0 {
            Some((.., regex)) => Ok(regex),
            None => value_err!(InvalidRegularExpression, "regular expression '{pattern}' is none"),
        }
    }
}

/// The texts of a row; `None` where one is NULL.
fn row_of(columns: &[StringViewArray], row: usize) -> Option<Vec<&str>> {
    columns.iter().map(|column| column.is_valid(row).then(|| column.value(row))).collect()
}

fn split(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let columns = columns.iter().map(texts_of).collect::<Result<Vec<_>>>()?;
    let mut last = Last::default();
    let mut found = ListBuilder::new(StringViewBuilder::new());
    for row in 0..columns[0].len() {
        let Some(texts) = row_of(&columns, row) else {
            found.append(false);
            continue;
        };
        let flags = texts.get(2).copied().unwrap_or_default();
        if flags.contains('g') {
            return value_err!(
                InvalidParameterValue,
                "regexp_split_to_array does not support the flag 'g': it is global"
            );
        }
        let regex = last.of(texts[1], flags, Asked::All)?;
        regex.split(texts[0]).for_each(|part| found.values().append_value(part));
        found.append(true);
    }
    Ok(Arc::new(found.finish()))
}

fn matches(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let columns = columns.iter().map(texts_of).collect::<Result<Vec<_>>>()?;
    let mut last = Last::default();
    let mut found = ListBuilder::new(ListBuilder::new(StringViewBuilder::new()));
    for row in 0..columns[0].len() {
        let Some(texts) = row_of(&columns, row) else {
            found.append(false);
            continue;
        };
        let flags = texts.get(2).copied().unwrap_or_default();
        let is_global = flags.contains('g');
        let (asked, most) = if is_global { (Asked::All, usize::MAX) } else { (Asked::One, 1) };
        let regex = last.of(texts[1], &flags.replace('g', ""), asked)?;
        for one in regex.captures_iter(texts[0]).take(most) {
            let groups = found.values();
            let first = usize::from(one.len() > 1);
            one.iter().skip(first).for_each(|group| groups.values().append_option(group.map(|group| group.as_str())));
            groups.append(true);
        }
        found.append(true);
    }
    Ok(Arc::new(found.finish()))
}

fn matched(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let columns = columns.iter().map(texts_of).collect::<Result<Vec<_>>>()?;
    let mut last = Last::default();
    let mut found = StringViewBuilder::new();
    for row in 0..columns[0].len() {
        let Some(texts) = row_of(&columns, row) else {
            found.append_null();
            continue;
        };
        let one = last.of(texts[1], "", Asked::One)?.captures(texts[0]);
        let part = one.as_ref().and_then(|one| one.get(usize::from(one.len() > 1)));
        found.append_option(part.map(|part| part.as_str()));
    }
    Ok(Arc::new(found.finish()))
}

fn substr(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let number = |at: usize| columns.get(at).map(|column| column.as_primitive::<Int64Type>());
    let numbers: [Option<&Int64Array>; 3] = [number(2), number(3), number(5)];
    let texts = [0, 1, 4].iter().filter_map(|at| columns.get(*at)).map(texts_of).collect::<Result<Vec<_>>>()?;
    let mut last = Last::default();
    let mut found = StringViewBuilder::new();
    for row in 0..columns[0].len() {
        let is_known = numbers.iter().flatten().all(|column| column.is_valid(row));
        let Some(texts) = row_of(&texts, row).filter(|_| is_known) else {
            found.append_null();
            continue;
        };
        let [start, place, group] = [(0, 1), (1, 1), (2, 0)].map(|(at, none)| match numbers[at] {
            Some(column) => column.value(row),
            None => none,
        });
        for (name, value, least) in [("start", start, 1), ("n", place, 1), ("subexpr", group, 0)] {
            if value < least {
                return value_err!(InvalidParameterValue, "invalid value for parameter \"{name}\": {value}");
            }
        }
        let flags = texts.get(2).copied().unwrap_or_default();
        if flags.contains('g') {
            return value_err!(
                InvalidParameterValue,
                "regexp_substr does not support the flag 'g'; give the number of a match"
            );
        }
        let asked = if place > 1 { Asked::All } else { Asked::One };
        let regex = last.of(texts[1], flags, asked)?;
        // A start behind the end finds what is there: nothing.
        let skipped = usize::try_from(start - 1).unwrap_or(usize::MAX);
        let begin = texts[0].char_indices().nth(skipped).map_or(texts[0].len(), |(at, _)| at);
        let mut all = regex.captures_iter(&texts[0][begin..]);
        let one = all.nth(usize::try_from(place - 1).unwrap_or(usize::MAX));
        let part = one.as_ref().and_then(|one| one.get(usize::try_from(group).unwrap_or(usize::MAX)));
        found.append_option(part.map(|part| part.as_str()));
    }
    Ok(Arc::new(found.finish()))
}
