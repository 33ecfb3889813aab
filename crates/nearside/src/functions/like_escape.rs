//! `like_escape(pattern, escape)`: a pattern of LIKE whose escapes are written with backslashes, as LIKE .. ESCAPE is
//! planned.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr::ScalarUDF;

use super::defined::Defined;
use crate::error::{statement_err, value_err};

/// Its name.
pub(crate) const LIKE_ESCAPE: &str = "like_escape";

/// The function.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Defined::new(&[LIKE_ESCAPE], true, two_texts, |_| DataType::Utf8View, run).function()
}

fn two_texts(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [a, b] if [a, b].iter().all(|of| of.is_string() || of.is_null()) => Ok(vec![DataType::Utf8View; 2]),
        _ => Err("it takes a pattern and the character that escapes in it".into()),
    }
}

fn run(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let columns = columns.iter().map(|of| Ok(cast(of, &DataType::Utf8View)?)).collect::<Result<Vec<_>>>()?;
    let (patterns, escapes) = (columns[0].as_string_view(), columns[1].as_string_view());
    let mut written = StringViewBuilder::with_capacity(patterns.len());
    for (pattern, escape) in patterns.iter().zip(escapes) {
        match (pattern, escape) {
            (Some(pattern), Some(escape)) => written.append_value(with_backslashes(pattern, escape)?),
            _ => written.append_null(),
        }
    }
    Ok(Arc::new(written.finish()))
}

/// The pattern with backslashes; nothing escapes where `escape` is empty.
///
/// # Errors
/// More than one character escapes.
pub(crate) fn with_backslashes(pattern: &str, escape: &str) -> Result<String> {
    let mut characters = escape.chars();
    let escape = characters.next();
    if characters.next().is_some() {
        return value_err!(InvalidEscapeSequence, "ESCAPE takes one character, or none: ''");
    }
    let mut written = String::with_capacity(pattern.len());
    let mut is_escaped = false;
    for character in pattern.chars() {
        match character {
            c if Some(c) == escape && !is_escaped => {
                written.push('\\');
                is_escaped = true;
                continue;
            }
            '\\' if !is_escaped => written.push_str("\\\\"),
            c => written.push(c),
        }
        is_escaped = false;
    }
    if is_escaped {
        return statement_err!(InvalidEscapeSequence, "a pattern of LIKE ends with the character that escapes");
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::with_backslashes;

    #[test]
    fn escapes_become_backslashes() {
        for (pattern, escape, written) in [
            ("pg/_%", "/", "pg\\_%"),
            ("a//b", "/", "a\\/b"),
            ("a\\b", "/", "a\\\\b"),
            ("a\\b", "", "a\\\\b"),
            ("a\\_b", "\\", "a\\_b"),
            ("/\\", "/", "\\\\"),
        ] {
            assert_eq!(with_backslashes(pattern, escape).unwrap(), written, "{pattern} {escape}");
        }
        assert!(with_backslashes("a", "xy").is_err());
        assert!(with_backslashes("a/", "/").is_err());
    }
}
