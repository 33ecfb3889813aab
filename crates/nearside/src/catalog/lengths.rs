//! `VARCHAR(n)` and `CHAR(n)` of columns: how long a text may be that is written to one.
//!
//! As in PostgreSQL a longer text is an error, unless what is too much are blanks, which are cut off. A column of
//! `CHAR(n)` keeps texts without the blanks at their end, which have no meaning there (`rewrite::chars` says what sees
//! them). `CHAR` alone is `CHAR(1)`.
//!
//! The planner sees the length of a column in its field's metadata ([`LENGTH`]), which goes with the column wherever it
//! is named; so a table made of a query has it too.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use sqlparser::ast::{self, CharacterLength};

use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The key of a field's metadata under which the length of its texts stands, as SQL has it: `CHAR(3)`.
pub const LENGTH: &str = "nearside.length";

/// How long texts of a column may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length {
    /// Characters.
    pub chars: usize,
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
            None if fixed => Ok(Some(Length { chars: 1, fixed })),
            None | Some(CharacterLength::Max) => Ok(None),
            Some(CharacterLength::IntegerLength { unit: Some(ast::CharLengthUnits::Octets), .. }) => {
                Err(Error::Unsupported("a length in OCTETS is not supported; lengths are in characters".into()))
            }
            Some(CharacterLength::IntegerLength { length: 0, .. }) => {
                Err(Error::plan(SqlState::InvalidParameterValue, format!("column '{name}': a length is at least 1")))
            }
            Some(CharacterLength::IntegerLength { length, .. }) => {
                Ok(Some(Length { chars: usize::try_from(*length).unwrap_or(usize::MAX), fixed }))
            }
        }
    }

    /// What [`Length::sql`] wrote.
    pub(crate) fn of_text(text: &str) -> Option<Length> {
        let (name, chars) = text.strip_suffix(')')?.split_once('(')?;
        Some(Length { chars: chars.parse().ok()?, fixed: name == "CHAR" })
    }

    /// Whether it is that of `CHAR(n)`.
    pub(crate) fn is_fixed(self) -> bool {
        self.fixed
    }

    /// How many characters.
    pub(crate) fn chars(self) -> usize {
        self.chars
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

/// A table's columns as the planner sees them.
pub(crate) fn told(schema: &SchemaRef, lengths: &Lengths) -> SchemaRef {
    if lengths.is_empty() {
        return Arc::clone(schema);
    }
    let field = |field: &FieldRef| match lengths.get(field.name()) {
        Some(length) => {
            let metadata = HashMap::from([(LENGTH.to_string(), length.sql())]);
            Arc::new(field.as_ref().clone().with_metadata(metadata))
        }
        None => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// The lengths that a query's columns have.
pub(crate) fn of_query(schema: &Schema) -> Lengths {
    let length = |field: &FieldRef| {
        let length = Length::of_text(field.metadata().get(LENGTH)?)?;
        Some((field.name().clone(), length))
    };
    Arc::new(schema.fields().iter().filter_map(length).collect())
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
                return Err(Error::execution(
                    SqlState::StringDataRightTruncation,
                    format!("the text '{shown}{dots}' is too long for column '{name}', which is {}", length.sql()),
                ));
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
