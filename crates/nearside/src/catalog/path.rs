//! [`SearchPath`]: in which schemas a session looks names up that have none, as `search_path` says; and the schema of
//! its temporary tables, which comes before all of them.
//!
//! Each session has a schema for temporary tables of its own, `pg_temp_7`, which is made by the first of them, is
//! called `pg_temp` in its statements, and goes with the session. Nothing in one is told to the log, or is in a
//! checkpoint, a backup or an export.

use std::sync::Arc;

use datafusion_common::TableReference;

use super::journal::WrittenRows;
use super::{Catalog, CatalogState, Name};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// What names of schemas for temporary tables begin with.
const TEMPORARY: &str = "pg_temp_";
/// A session's own.
const OWN: &str = "pg_temp";

/// Whether a schema is one for temporary tables.
pub(crate) fn is_temporary(schema: &str) -> bool {
    schema.starts_with(TEMPORARY)
}

/// The schema for temporary tables of a session.
pub(crate) fn temporary_of(session: i32) -> String {
    format!("{TEMPORARY}{session}")
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchPath {
    temporary: String,
    schemas: Arc<[String]>,
}

impl SearchPath {
    /// That of a session, with what its setting says.
    pub(crate) fn new(session: i32, setting: &str) -> SearchPath {
        SearchPath { temporary: temporary_of(session), schemas: parts(setting).into() }
    }

    /// That of texts that outlive what the session has set: the usual one. Temporary tables are named in such by their
    /// schema.
    pub(crate) fn lasting(&self) -> SearchPath {
        let schemas = [super::DEFAULT_SCHEMA.to_string(), OWN.to_string()];
        SearchPath { temporary: self.temporary.clone(), schemas: schemas.into() }
    }

    /// What a table's or a sequence's name without a schema stands for, if it stands for anything.
    pub(crate) fn meant(&self, name: &str, state: &CatalogState) -> Option<Name> {
        let found = self.resolve(&TableReference::bare(name), state).ok()?;
        state.get(&found).is_some().then_some(found)
    }

    /// The schemas that there are, in order; that of temporary tables first, if there is one.
    pub(crate) fn existing<'a>(&'a self, state: &'a CatalogState) -> impl Iterator<Item = &'a str> {
        let named = |schema: &'a str| if schema == OWN { self.temporary.as_str() } else { schema };
        let is_first = !self.schemas.iter().any(|schema| named(schema) == self.temporary);
        let temporary = std::iter::once(self.temporary.as_str()).filter(move |_| is_first);
        let all = temporary.chain(self.schemas.iter().map(move |schema| named(schema)));
        all.filter(|schema| state.has_schema(schema))
    }

    /// Whether the session has a schema for temporary tables.
    pub(crate) fn has_temporary(&self, state: &CatalogState) -> bool {
        state.has_schema(&self.temporary)
    }

    /// Whether names are looked up as by who has said nothing and has no temporary tables.
    pub(crate) fn is_usual(&self, state: &CatalogState) -> bool {
        self.schemas.as_ref() == [super::DEFAULT_SCHEMA.to_string()] && !state.has_schema(&self.temporary)
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// Another catalog than the database's; a temporary table of another session.
    pub(crate) fn resolve(&self, reference: &TableReference, state: &CatalogState) -> Result<Name> {
        self.resolve_by(reference, state, &|name| state.get(name).is_some())
    }

    /// The same of the name of an index.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn resolve_index(&self, reference: &TableReference, state: &CatalogState) -> Result<Name> {
        self.resolve_by(reference, state, &|name| state.index(name).is_some())
    }

    fn resolve_by(
        &self,
        reference: &TableReference,
        state: &CatalogState,
        is_there: &dyn Fn(&Name) -> bool,
    ) -> Result<Name> {
        let table = reference.table();
        if reference.schema().is_some() {
            return self.of_schema(reference);
        }
        let within = |schema: &str| Name { schema: schema.into(), table: table.into() };
        let found = self.existing(state).map(within).find(|name| is_there(name));
        // What stands for nothing is told by its name alone, where there is more than the usual schema.
        let is_usual = self.schemas.as_ref() == [super::DEFAULT_SCHEMA.to_string()];
        Ok(found.unwrap_or_else(|| within(if is_usual { super::DEFAULT_SCHEMA } else { "" })))
    }

    /// The name that something gets which is made.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve); without a schema, if none of the path's exists.
    pub(crate) fn of_new(&self, reference: &TableReference, state: &CatalogState) -> Result<Name> {
        if reference.schema().is_some() {
            return self.of_schema(reference);
        }
        // Temporary tables are made by those who say so, or name their schema.
        let usual = self.existing(state).find(|schema| !is_temporary(schema) || self.schemas.iter().any(|s| s == OWN));
        match usual {
            Some(schema) => Ok(Name { schema: schema.into(), table: reference.table().into() }),
            None => Err(Error::plan(
                SqlState::InvalidSchemaName,
                format!(
                    "no schema of search_path exists to make '{}' in; SET search_path, or write schema.name",
                    reference.table()
                ),
            )),
        }
    }

    /// The name that a temporary table gets.
    ///
    /// # Errors
    /// Another schema is named.
    pub(crate) fn of_temporary(&self, reference: &TableReference) -> Result<Name> {
        let table = reference.table().to_string();
        match reference.schema() {
            None => Ok(Name { schema: self.temporary.clone(), table }),
            Some(schema) if schema == OWN || schema == self.temporary => {
                Ok(Name { schema: self.temporary.clone(), table })
            }
            Some(schema) => Err(Error::plan(
                SqlState::InvalidTableDefinition,
                format!("a temporary table is in no schema such as '{schema}'; leave the schema out"),
            )),
        }
    }

    fn of_schema(&self, reference: &TableReference) -> Result<Name> {
        let mut name = Name::resolve(reference)?;
        if name.schema == OWN {
            name.schema.clone_from(&self.temporary);
        }
        if is_temporary(&name.schema) && name.schema != self.temporary {
            return Err(Error::Unsupported("temporary tables of other sessions cannot be used".into()));
        }
        Ok(name)
    }
}

impl Catalog {
    /// Whether rows are of a table that outlives sessions.
    pub(super) fn lasts(&self, rows: &WrittenRows<'_>) -> bool {
        !self.state.read().by_id(rows.table).is_some_and(|table| is_temporary(&table.name.schema))
    }
}

/// The schemas of a setting as it is written: names without quotes are in lower case.
pub(crate) fn parts(setting: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = setting.trim();
    while !rest.is_empty() {
        let (part, behind) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut name = String::new();
                let mut characters = quoted.char_indices().peekable();
                let mut end = quoted.len();
                while let Some((at, character)) = characters.next() {
                    if character != '"' {
                        name.push(character);
                    } else if characters.peek().is_some_and(|(_, next)| *next == '"') {
                        characters.next();
                        name.push('"');
                    } else {
                        end = at + 1;
                        break;
                    }
                }
                (name, quoted[end..].trim_start().trim_start_matches(','))
            }
            None => {
                let (name, behind) = rest.split_once(',').unwrap_or((rest, ""));
                (name.trim().to_lowercase(), behind)
            }
        };
        // No schema is a role's own; `pg_catalog` is looked into before all.
        if !part.is_empty() && part != "$user" && part != super::PG_CATALOG {
            parts.push(part);
        }
        rest = behind.trim();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_apart() {
        for (setting, wanted) in [
            ("public", vec!["public"]),
            ("\"$user\", public", vec!["public"]),
            ("A, \"B c\" , pg_catalog", vec!["a", "B c"]),
            ("\"a\"\"b\",c", vec!["a\"b", "c"]),
            ("", vec![]),
            ("\"\"", vec![]),
        ] {
            assert_eq!(parts(setting), wanted, "{setting}");
        }
    }

    #[test]
    fn names_are_looked_up_in_order() {
        let mut state = CatalogState::default();
        state.create_schema("public");
        state.create_schema("s");
        let view = || {
            Arc::new(super::super::ViewEntry {
                sql: "SELECT 1".into(),
                columns: Vec::new(),
                check: None,
                comments: Arc::default(),
            })
        };
        let name = |schema: &str| Name { schema: schema.into(), table: "v".into() };
        state.put_view(name("public"), view()).unwrap();
        state.put_view(name("s"), view()).unwrap();
        let bare = TableReference::bare("v");
        let of =
            |setting: &str, state: &CatalogState| SearchPath::new(7, setting).resolve(&bare, state).unwrap().schema;
        assert_eq!([of("public", &state), of("nothing, s, public", &state)], ["public", "s"]);
        // In none it is nowhere.
        assert_eq!(of("", &state), "");
        state.create_schema("pg_temp_7");
        assert_eq!(of("s", &state), "s");
        assert_eq!(SearchPath::new(7, "s").resolve(&TableReference::bare("w"), &state).unwrap().schema, "");
        state.put_view(name("pg_temp_7"), view()).unwrap();
        assert_eq!([of("s", &state), of("s, pg_temp", &state)], ["pg_temp_7", "s"]);
        let path = SearchPath::new(7, "nothing");
        assert!(path.of_new(&bare, &state).is_err());
        assert_eq!(path.of_temporary(&bare).unwrap(), name("pg_temp_7"));
        assert!(path.resolve(&TableReference::partial("pg_temp_8", "v"), &state).is_err());
        assert_eq!(path.resolve(&TableReference::partial("pg_temp", "v"), &state).unwrap(), name("pg_temp_7"));
    }
}
