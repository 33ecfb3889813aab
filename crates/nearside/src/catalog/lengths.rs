//! `VARCHAR(n)` and `CHAR(n)` of columns: how long a text may be that is written to one.
//!
//! As in PostgreSQL a longer text is an error, unless what is too much are blanks, which are cut off. A column of
//! `CHAR(n)` keeps texts without the blanks at their end, which have no meaning there: PostgreSQL shows them, and
//! compares and measures texts without them.
//!
//! # Limits
//! A text that a `CHAR(n)` column is compared with counts with its blanks.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use sqlparser::ast::{self, CharacterLength};

use crate::error::{Error, Result};

/// How long texts of a column may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length {
    /// Characters.
    chars: usize,
    /// CHAR(n): blanks at the end are dropped.
    fixed: bool,
}

/// The lengths of a table's columns, by name; those that have none are not in it.
pub(crate) type Lengths = Arc<HashMap<String, Length>>;

impl Length {
    /// What the type in a column's definition says.
    ///
    /// # Errors
    /// Lengths of zero, and in other units than characters.
    pub(crate) fn of_column(name: &str, data_type: &ast::DataType) -> Result<Option<Length>> {
        let (length, fixed) = match data_type {
            ast::DataType::Varchar(length)
            | ast::DataType::CharacterVarying(length)
            | ast::DataType::CharVarying(length)
            | ast::DataType::Nvarchar(length) => (length.as_ref(), false),
            ast::DataType::Char(length) | ast::DataType::Character(length) => (length.as_ref(), true),
            _ => return Ok(None),
        };
        match length {
            None | Some(CharacterLength::Max) => Ok(None),
            Some(CharacterLength::IntegerLength { unit: Some(ast::CharLengthUnits::Octets), .. }) => {
                Err(Error::Unsupported("a length in OCTETS is not supported; lengths are in characters".into()))
            }
            Some(CharacterLength::IntegerLength { length: 0, .. }) => {
                Err(Error::plan(format!("column '{name}': a length is at least 1")))
            }
            Some(CharacterLength::IntegerLength { length, .. }) => {
                Ok(Some(Length { chars: usize::try_from(*length).unwrap_or(usize::MAX), fixed }))
            }
        }
    }

    /// The type's name.
    pub(crate) fn sql(self) -> String {
        format!("{}({})", if self.fixed { "CHAR" } else { "VARCHAR" }, self.chars)
    }

    /// A text as it is kept, or `None` where it is too long.
    fn kept(self, text: &str) -> Option<&str> {
        // A character has at least a byte.
        let fits = text.len() <= self.chars;
        let text = if self.fixed { text.trim_end_matches(' ') } else { text };
        if fits {
            return Some(text);
        }
        match text.char_indices().nth(self.chars) {
            None => Some(text),
            Some((end, _)) if text[end..].bytes().all(|byte| byte == b' ') => Some(&text[..end]),
            Some(_) => None,
        }
    }
}

/// Rows as the table keeps them.
///
/// # Errors
/// A text that is too long for its column.
pub(crate) fn enforced(
    batch: &RecordBatch,
    lengths: &[Option<Length>],
    names: &[String],
) -> Result<Option<RecordBatch>> {
    let mut columns: Option<Vec<ArrayRef>> = None;
    for (place, length) in lengths.iter().enumerate() {
        let Some(length) = length else { continue };
        if let Some(kept) = enforced_column(batch.column(place), *length, &names[place])? {
            columns.get_or_insert_with(|| batch.columns().to_vec())[place] = kept;
        }
    }
    match columns {
        // The types are the same; what was a text of another kind is cast back.
        Some(columns) => Ok(Some(RecordBatch::try_new(batch.schema(), columns)?)),
        None => Ok(None),
    }
}

/// The column with what is cut off, or `None` where nothing is.
pub(crate) fn enforced_column(column: &ArrayRef, length: Length, name: &str) -> Result<Option<ArrayRef>> {
    let texts = match column.data_type() {
        DataType::Utf8View => Arc::clone(column),
        _ => cast(column, &DataType::Utf8View)?,
    };
    let texts = texts.as_string_view();
    let mut changes = false;
    for text in texts.iter().flatten() {
        match length.kept(text) {
            Some(kept) => changes |= kept.len() != text.len(),
            None => {
                const CHARS_MAX: usize = 40;
                let shown: String = text.chars().take(CHARS_MAX).collect();
                let dots = if shown.len() < text.len() { ".." } else { "" };
                return Err(Error::Execution(format!(
                    "the text '{shown}{dots}' is too long for column '{name}', which is {}",
                    length.sql()
                )));
            }
        }
    }
    if !changes {
        return Ok(None);
    }
    let kept: StringViewArray = texts.iter().map(|text| text.and_then(|text| length.kept(text))).collect();
    Ok(Some(cast(&kept, column.data_type())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_that_are_too_much_are_cut_off() {
        let varying = Length { chars: 3, fixed: false };
        let fixed = Length { chars: 3, fixed: true };
        for (text, as_varying, as_fixed) in [
            ("", Some(""), Some("")),
            ("abc", Some("abc"), Some("abc")),
            ("abcd", None, None),
            ("abc  ", Some("abc"), Some("abc")),
            ("a  ", Some("a  "), Some("a")),
            ("a    ", Some("a  "), Some("a")),
            ("a  b", None, None),
            ("äöü", Some("äöü"), Some("äöü")),
            ("äöü ", Some("äöü"), Some("äöü")),
            ("äöüß", None, None),
        ] {
            assert_eq!(varying.kept(text), as_varying, "{text}");
            assert_eq!(fixed.kept(text), as_fixed, "{text}");
        }
    }
}
