//! Types that statements have made: enums.
//!
//! Values of an enum are texts here, each one of its labels: what is equal is so as texts are, and what is told to
//! clients, files and tables is the label. What is less, the type says, by the place of a label in it. Which enum a
//! column is of, its rule says (`catalog::lengths`), with the labels; the planner sees it in the field's metadata
//! ([`ENUM`]).
//!
//! # Invariants
//! The rules of all columns of an enum have it as the catalog has it: who changes one changes the other.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::Field;
use serde::{Deserialize, Serialize};

use crate::catalog::comments::Comments;
use crate::catalog::named_types::TYPE;
use crate::catalog::{CatalogState, DEFAULT_SCHEMA, Entry, Name};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The key of a field's metadata under which its enum stands, as [`EnumType::text`] writes it.
pub const ENUM: &str = "nearside.enum";

/// The most bytes that a label has, as in PostgreSQL.
pub(crate) const LABEL_BYTES: usize = 63;

/// The first number of what statements make, as PostgreSQL counts.
pub(crate) const FIRST: u32 = 16_384;

/// An enum.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnumType {
    /// Unique for the life of the database.
    pub id: u64,
    /// The schema that it is in.
    pub schema: String,
    /// Its name in it.
    pub name: String,
    /// From the least to the greatest.
    pub labels: Vec<String>,
}

impl EnumType {
    /// What [`text`](Self::text) wrote.
    pub(crate) fn of_text(text: &str) -> Option<EnumType> {
        serde_json::from_str(text).ok()
    }

    /// As it stands in metadata and in the log.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The metadata of a field of it.
    pub(crate) fn metadata(&self) -> HashMap<String, String> {
        HashMap::from([(TYPE.to_string(), self.shown()), (ENUM.to_string(), self.text())])
    }

    /// The enum of a field.
    pub(crate) fn of_field(field: &Field) -> Option<EnumType> {
        field.metadata().get(ENUM).and_then(|text| EnumType::of_text(text))
    }

    /// Its name as messages have it, without the usual schema.
    pub(crate) fn shown(&self) -> String {
        match self.schema == DEFAULT_SCHEMA {
            true => self.name.clone(),
            false => format!("{}.{}", self.schema, self.name),
        }
    }

    /// The place of a label; `None` for what is none.
    pub(crate) fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }

    /// The place of a label.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(&self, label: &str) -> Result<usize> {
        self.place(label).ok_or_else(|| {
            const SHOWN: usize = 12;
            let mut labels: Vec<String> = self.labels.iter().take(SHOWN).map(|label| format!("'{label}'")).collect();
            if labels.len() < self.labels.len() {
                labels.push("..".into());
            }
            let labels = if labels.is_empty() { "none".into() } else { labels.join(", ") };
            Error::execution(
                SqlState::InvalidTextRepresentation,
                format!("'{label}' is no label of enum {}; its labels are {labels}", self.shown()),
            )
        })
    }

    /// Its number in `pg_type`.
    pub(crate) fn oid(&self) -> u32 {
        u32::try_from(u64::from(FIRST) + self.id).unwrap_or(u32::MAX)
    }
}

/// A type that a statement has made.
#[derive(Debug, Clone)]
pub(crate) struct TypeEntry {
    /// What it is.
    pub of: Arc<EnumType>,
    /// What was said of it.
    pub comments: Arc<Comments>,
}

impl CatalogState {
    /// A type by name.
    ///
    /// # Errors
    /// There is none, or the name stands for something else.
    pub(crate) fn user_type(&self, name: &Name) -> Result<&Arc<TypeEntry>> {
        match self.get(name) {
            Some(Entry::Type(found)) => Ok(found),
            Some(Entry::Domain(found)) => Err(Error::Unsupported(format!(
                "domain {} is not supported here; use the type that it is over, {}",
                name.shown(),
                found.base
            ))),
            _ => Err(no_type(&name.shown())),
        }
    }

    /// Puts a type under a name, in place of what stood there.
    ///
    /// # Errors
    /// As [`CatalogState::put_view`].
    pub(crate) fn put_type(&mut self, name: Name, of: Arc<TypeEntry>) -> Result<()> {
        self.insert(name, Entry::Type(of))
    }

    /// Names of the tables that have columns of an enum, and of these columns.
    pub(crate) fn columns_of_enum(&self, id: u64) -> Vec<(Name, Vec<String>)> {
        let of = |table: &Arc<super::TableEntry>| {
            let columns = table.lengths.iter().filter(|(_, length)| length.enum_type().is_some_and(|of| of.id == id));
            let mut columns: Vec<String> = columns.map(|(column, _)| column.clone()).collect();
            columns.sort();
            (!columns.is_empty()).then(|| (Name::clone(&table.name), columns))
        };
        self.tables().filter_map(of).collect()
    }
}

/// The error for a type that there is not.
pub(crate) fn no_type(name: &str) -> Error {
    Error::plan(SqlState::UndefinedObject, format!("type '{name}' does not exist; CREATE TYPE makes one"))
}
