//! `VARCHAR(n)` and `CHAR(n)` of columns: how long a text may be that is written to one.
//!
//! As in PostgreSQL a longer text is an error, unless what is too much are blanks, which are cut off. A column of
//! `CHAR(n)` keeps texts without the blanks at their end, which have no meaning there (`rewrite::chars` says what sees
//! them). `CHAR` alone is `CHAR(1)`.
//!
//! `JSON` and `JSONB` are kept as such rules of columns of texts too: the one takes texts that are JSON, the other has
//! them in their normal form ([`crate::json`]). So are enums, which take their labels (`catalog::user_types`).
//!
//! The planner sees the length of a column in its field's metadata ([`LENGTH`], for JSON [`TYPE`]), which goes with the
//! column wherever it is named; so a table made of a query has it too.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use sqlparser::ast::{self, CharacterLength};

use crate::catalog::named_types::{self, TYPE};
use crate::catalog::user_types::EnumType;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::json;

/// The key of a field's metadata under which the length of its texts stands, as SQL has it: `CHAR(3)`.
pub const LENGTH: &str = "nearside.length";

/// What the text of a rule of labels begins with.
const OF_ENUM: &str = "ENUM ";

/// How long texts of a column may be, or that they are JSON or labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Length {
    /// Characters.
    pub chars: usize,
    of: Of,
}

/// What texts they are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    /// VARCHAR(n)
    Varying,
    /// CHAR(n): blanks at the end are dropped.
    Fixed,
    /// JSON as it was written.
    Json,
    /// JSON in its normal form.
    Jsonb,
    /// Labels.
    Enum(Arc<EnumType>),
}

/// The lengths of a table's columns, by name; those that have none are not in it.
pub(crate) type Lengths = Arc<HashMap<String, Length>>;

impl Length {
    /// What the type in a column's definition says; `made` tells the types that statements have made.
    ///
    /// # Errors
    /// Lengths of zero, and in other units than characters; types that there are not.
    pub(crate) fn of_column(
        name: &str,
        data_type: &ast::DataType,
        made: &dyn Fn(&ast::ObjectName) -> Result<Option<Arc<EnumType>>>,
    ) -> Result<Option<Length>> {
        let (length, fixed) = match data_type {
            ast::DataType::Custom(name, modifiers) if modifiers.is_empty() => {
                return Ok(made(name)?.map(Length::of_enum));
            }
            ast::DataType::Varchar(length)
            | ast::DataType::CharacterVarying(length)
            | ast::DataType::CharVarying(length)
            | ast::DataType::Nvarchar(length) => (length.as_ref(), false),
            ast::DataType::Char(length) | ast::DataType::Character(length) => (length.as_ref(), true),
            ast::DataType::JSON => return Ok(Some(Length::json(false))),
            ast::DataType::JSONB => return Ok(Some(Length::json(true))),
            _ => return Ok(None),
        };
        let of = if fixed { Of::Fixed } else { Of::Varying };
        match length {
            None if fixed => Ok(Some(Length { chars: 1, of })),
            None | Some(CharacterLength::Max) => Ok(None),
            Some(CharacterLength::IntegerLength { unit: Some(ast::CharLengthUnits::Octets), .. }) => {
                Err(Error::Unsupported("a length in OCTETS is not supported; lengths are in characters".into()))
            }
            Some(CharacterLength::IntegerLength { length: 0, .. }) => {
                Err(Error::plan(SqlState::InvalidParameterValue, format!("column '{name}': a length is at least 1")))
            }
            Some(CharacterLength::IntegerLength { length, .. }) => {
                Ok(Some(Length { chars: usize::try_from(*length).unwrap_or(usize::MAX), of }))
            }
        }
    }

    /// That of columns of an enum.
    pub(crate) fn of_enum(of: Arc<EnumType>) -> Length {
        Length { chars: usize::MAX, of: Of::Enum(of) }
    }

    /// The enum whose labels they are.
    pub(crate) fn enum_type(&self) -> Option<&Arc<EnumType>> {
        match &self.of {
            Of::Enum(of) => Some(of),
            _ => None,
        }
    }

    /// Whether it is no length, but what texts they are.
    pub(crate) fn is_of_type(&self) -> bool {
        matches!(self.of, Of::Json | Of::Jsonb | Of::Enum(_))
    }

    fn json(is_binary: bool) -> Length {
        Length { chars: usize::MAX, of: if is_binary { Of::Jsonb } else { Of::Json } }
    }

    /// What [`Length::sql`] wrote.
    pub(crate) fn of_text(text: &str) -> Option<Length> {
        if matches!(text, "JSON" | "JSONB") {
            return Some(Length::json(text == "JSONB"));
        }
        if let Some(text) = text.strip_prefix(OF_ENUM) {
            return Some(Length::of_enum(Arc::new(EnumType::of_text(text)?)));
        }
        let (name, chars) = text.strip_suffix(')')?.split_once('(')?;
        Some(Length { chars: chars.parse().ok()?, of: if name == "CHAR" { Of::Fixed } else { Of::Varying } })
    }

    /// Whether it is that of `CHAR(n)`.
    pub(crate) fn is_fixed(&self) -> bool {
        self.of == Of::Fixed
    }

    /// `json` or `jsonb`, where it is one of these.
    pub(crate) fn json_name(&self) -> Option<&'static str> {
        match &self.of {
            Of::Json => Some("json"),
            Of::Jsonb => Some("jsonb"),
            Of::Varying | Of::Fixed | Of::Enum(_) => None,
        }
    }

    /// How it stands in the metadata of a field.
    pub(crate) fn metadata(&self) -> HashMap<String, String> {
        match (self.json_name(), self.enum_type()) {
            (Some(name), _) => named_types::metadata(name),
            (None, Some(of)) => of.metadata(),
            (None, None) => HashMap::from([(LENGTH.to_string(), self.sql())]),
        }
    }

    /// How many characters.
    pub(crate) fn chars(&self) -> usize {
        self.chars
    }

    /// The type's name, as the log has it.
    pub(crate) fn sql(&self) -> String {
        let name = match &self.of {
            Of::Enum(of) => return format!("{OF_ENUM}{}", of.text()),
            Of::Json => return "JSON".into(),
            Of::Jsonb => return "JSONB".into(),
            Of::Fixed => "CHAR",
            Of::Varying => "VARCHAR",
        };
        format!("{name}({})", self.chars)
    }

    /// A text as it is kept, or `None` where it is too long.
    fn kept<'t>(&self, text: &'t str) -> Option<&'t str> {
        // A character has at least a byte.
        let fits = text.len() <= self.chars;
        let text = if self.is_fixed() { text.trim_end_matches(' ') } else { text };
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
        Some(length) => Arc::new(field.as_ref().clone().with_metadata(length.metadata())),
        None => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// The lengths that a query's columns have.
pub(crate) fn of_query(schema: &Schema) -> Lengths {
    let length = |field: &FieldRef| {
        let length = match field.metadata().get(TYPE).map(String::as_str) {
            Some("json") => Length::json(false),
            Some("jsonb") => Length::json(true),
            Some(_) => Length::of_enum(Arc::new(EnumType::of_field(field)?)),
            None => Length::of_text(field.metadata().get(LENGTH)?)?,
        };
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
        if let Some(kept) = enforced_column(batch.column(place), length, &names[place])? {
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
pub(crate) fn enforced_column(column: &ArrayRef, length: &Length, name: &str) -> Result<Option<ArrayRef>> {
    let texts = match column.data_type() {
        DataType::Utf8View => Arc::clone(column),
        _ => cast(column, &DataType::Utf8View)?,
    };
    let texts = texts.as_string_view();
    match &length.of {
        Of::Enum(of) => {
            texts.iter().flatten().try_for_each(|label| of.read(label).map(drop))?;
            return Ok(None);
        }
        Of::Json => {
            texts.iter().flatten().try_for_each(json::scan::check)?;
            return Ok(None);
        }
        Of::Jsonb => {
            let normal = texts.iter().map(|text| text.map(json::normal).transpose());
            let normal = normal.collect::<Result<StringViewArray>>()?;
            return Ok(Some(cast(&normal, column.data_type())?));
        }
        Of::Varying | Of::Fixed => {}
    }
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
        let varying = Length { chars: 3, of: Of::Varying };
        let fixed = Length { chars: 3, of: Of::Fixed };
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
