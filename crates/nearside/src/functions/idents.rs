//! `parse_ident`: a name as statements write it, taken apart, as PostgreSQL has it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr::ScalarUDF;

use super::arrays::list_of;
use super::defined::Defined;
use crate::error::value_err;

/// `parse_ident(text, strict)`.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Defined::new(&["parse_ident"], true, takes, |_| list_of(DataType::Utf8View), run).function()
}

fn takes(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let is_text = |of: &DataType| of.is_string() || *of == DataType::Null;
    let is_flag = |of: &DataType| matches!(of, DataType::Boolean | DataType::Null);
    match types {
        [text] if is_text(text) => Ok(vec![DataType::Utf8View]),
        [text, strict] if is_text(text) && is_flag(strict) => Ok(vec![DataType::Utf8View, DataType::Boolean]),
        _ => Err("it takes a text, and whether nothing may stand behind the name".into()),
    }
}

fn run(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = columns[0].as_string_view();
    let strict = columns.get(1).map(|column| column.as_boolean());
    let mut found = ListBuilder::new(StringViewBuilder::new());
    for row in 0..texts.len() {
        if texts.is_null(row) || strict.is_some_and(|strict| strict.is_null(row)) {
            found.append(false);
            continue;
        }
        for part in parts(texts.value(row), strict.is_none_or(|strict| strict.value(row)))? {
            found.values().append_value(part);
        }
        found.append(true);
    }
    Ok(Arc::new(found.finish()))
}

/// The parts of a name. What stands behind it is an error where it is read strictly.
fn parts(text: &str, is_strict: bool) -> Result<Vec<String>> {
    let wrong = |why: &str| value_err!(InvalidParameterValue, "string is not a valid identifier: \"{text}\"{why}");
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}');
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_further = |c: char| is_first(c) || c.is_ascii_digit() || c == '$';
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut within = quoted;
            loop {
                let Some(end) = within.find('"') else { return wrong(": a quote is not closed") };
                part.push_str(&within[..end]);
                within = &within[end + 1..];
                match within.strip_prefix('"') {
                    Some(further) => {
                        part.push('"');
                        within = further;
                    }
                    None => break,
                }
            }
            if part.is_empty() {
                return wrong(": a name in quotes must not be empty");
            }
            parts.push(part);
            rest = within;
        } else if rest.starts_with(is_first) {
            let end = rest.find(|c| !is_further(c)).unwrap_or(rest.len());
            parts.push(rest[..end].to_ascii_lowercase());
            rest = &rest[end..];
        } else {
            return match (rest.starts_with('.'), parts.is_empty()) {
                (true, _) => wrong(": there is no name before \".\""),
                (false, false) => wrong(": there is no name behind \".\""),
                (false, true) => wrong(""),
            };
        }
        rest = rest.trim_start_matches(is_blank);
        match rest.strip_prefix('.') {
            Some(further) => rest = further.trim_start_matches(is_blank),
            None if rest.is_empty() || !is_strict => return Ok(parts),
            None => return wrong(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let of = |text: &str| parts(text, true).ok();
        let list = |parts: &[&str]| Some(parts.iter().map(|part| part.to_string()).collect::<Vec<_>>());
        assert_eq!(of(" Shop . \"S a\"\"le\".x$1 "), list(&["shop", "S a\"le", "x$1"]));
        for wrong in ["", " ", "a.", ".a", "1a", "a b", "\"\"", "\"a", "a..b", "a[1]"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(parts("foo(a)", false).ok(), list(&["foo"]));
    }
}
