//! Indexes as SQL knows them: which a table has, and that its rows have them before anybody sees them.
//!
//! A table's entry in the catalog lists its [`IndexEntry`]s: one for each primary key and UNIQUE constraint, and those
//! that CREATE INDEX made. [`IndexedTable`] is a table whose every segment has the indexes of that list; it is made by
//! [`indexed`] only, and the catalog takes tables in no other form. So whatever a statement did to rows, columns or
//! parts, its commit has them.
//!
//! An index over several columns is, below, one over that column of them that tells rows apart best; the other columns
//! are tested on the rows that it finds.
//!
//! # Limits
//! An index over several columns serves conditions on the column that was chosen, and no prefix of the list otherwise.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use storage::{Column, Segment, TableVersion};

use crate::catalog::placement::column_index;
use crate::catalog::rules::Deferral;
use crate::catalog::{Name, TableEntry, Workers};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Another column is chosen for an index over several only where it has more than this many times as many values: the
/// indexes of all segments are built anew then.
const CHANGE_FACTOR: usize = 2;

/// Where an index comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The table's primary key; it stays as long as the table.
    PrimaryKey,
    /// A UNIQUE constraint; likewise.
    Unique,
    /// CREATE INDEX.
    Created,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Its name, unique within the schema; empty until the catalog has chosen one.
    pub name: String,
    /// The columns, by name, in the order they were given.
    pub columns: Vec<String>,
    /// Whether no two rows have the same values at any time, NULLs apart. Of a key that is DEFERRABLE two may while a
    /// statement or a transaction goes on, so nothing relies on it: it is no unique index.
    pub unique: bool,
    /// When it is looked at whether rows keep a key that is not `unique`.
    pub deferral: Deferral,
    /// Where it comes from.
    pub origin: Origin,
    /// That one of `columns` which segments have an index over.
    pub indexed: String,
}

impl IndexEntry {
    /// An index over `columns`, of which there is at least one.
    pub(crate) fn new(name: String, columns: Vec<String>, unique: bool, origin: Origin) -> IndexEntry {
        let indexed = columns.first().cloned().unwrap_or_default();
        IndexEntry { name, columns, unique, deferral: Deferral::Never, origin, indexed }
    }

    /// The key of a table whose rows keep it, as one that is looked at at other times.
    pub(crate) fn deferrable(self, deferral: Deferral) -> IndexEntry {
        IndexEntry { unique: deferral == Deferral::Never, deferral, ..self }
    }

    /// Whether it is a key that is DEFERRABLE.
    pub(crate) fn is_deferrable(&self) -> bool {
        self.deferral != Deferral::Never
    }

    /// The name that it gets where none was given, and which stays as it is where no other index has it.
    pub(crate) fn usual_name(&self, table: &str) -> String {
        let columns = self.columns.join("_");
        match self.origin {
            Origin::PrimaryKey => format!("{table}_pkey"),
            Origin::Unique => format!("{table}_{columns}_key"),
            Origin::Created => format!("{table}_{columns}_idx"),
        }
    }

    /// With a column's new name.
    pub(crate) fn renamed(&self, from: &str, to: &str) -> IndexEntry {
        let rename = |name: &String| if name == from { to.to_string() } else { name.clone() };
        let columns = self.columns.iter().map(rename).collect();
        IndexEntry { columns, indexed: rename(&self.indexed), ..self.clone() }
    }

    /// Whether it is that of a key which the table is declared with.
    pub(crate) fn is_key(&self) -> bool {
        self.origin != Origin::Created
    }

    /// Whether it is over this column, alone or with others.
    pub(crate) fn is_over(&self, column: &str) -> bool {
        self.columns.iter().any(|c| c == column)
    }
}

/// A table whose segments have the indexes that its entry lists.
#[derive(Debug, Clone)]
pub(crate) struct IndexedTable(TableEntry);

impl IndexedTable {
    /// A table that a catalog has taken before.
    pub(crate) fn again(table: &Arc<TableEntry>) -> IndexedTable {
        IndexedTable(TableEntry::clone(table))
    }

    /// The table.
    pub(crate) fn table(&self) -> &TableEntry {
        &self.0
    }

    /// The table with the same rows and no index listed, so that nobody relies on its keys.
    pub(crate) fn without_keys(&self) -> IndexedTable {
        IndexedTable(TableEntry { indexes: Arc::default(), ..self.0.clone() })
    }

    /// The table with the same indexes, of which something else is said.
    pub(crate) fn with_keys(self, of: impl Fn(&IndexEntry) -> IndexEntry) -> IndexedTable {
        let indexes = Arc::new(self.0.indexes.iter().map(of).collect());
        IndexedTable(TableEntry { indexes, ..self.0 })
    }

    /// The table, which is to be changed again.
    pub(crate) fn into_table(self) -> TableEntry {
        self.0
    }
}

/// The table with all its indexes: those that rows lack are built on the statement's workers, those that are no longer
/// listed go. It costs nothing where nothing is missing.
///
/// # Errors
/// The budget or a node has no room for them, or the statement was cancelled.
pub(crate) fn indexed<W: Workers>(mut table: TableEntry, running: &Arc<W>) -> Result<IndexedTable> {
    for column in table.indexes.iter().flat_map(|index| &index.columns) {
        if let Some(name) = table.lengths.get(column).and_then(|length| length.json_name()) {
            // One of the two has an order, and so an index, in PostgreSQL.
            let state = if name == "json" { SqlState::UndefinedObject } else { SqlState::FeatureNotSupported };
            return Err(Error::plan(
                state,
                format!(
                    "column '{column}' is of type {name}, which cannot be in an index or a key; keep the part of it \
                         that is looked for in a column of its own"
                ),
            ));
        }
    }
    let version = &table.base;
    let chosen: Vec<IndexEntry> = table.indexes.iter().map(|index| with_choice(index, version)).collect();
    if chosen != *table.indexes {
        table.indexes = Arc::new(chosen);
    }
    let columns = stored_columns(&table.indexes, &version.schema)?;
    let allocator = table.meta.allocator();
    let placed = |part: usize, column: usize| {
        let segments = version.parts.get(part).map_or(0, |part| part.segments.len());
        table.placement.allocator(part, segments, version.schema.field(column).name(), &allocator)
    };
    let built = version.with_indexes(&columns, &placed, &running.parallel());
    let built = running.finished(built, || format!("building the indexes of table '{}'", table.name.shown()))?;
    table.base = Arc::new(built);
    Ok(IndexedTable(table))
}

/// The columns, ascending, that segments need an index over.
fn stored_columns(indexes: &[IndexEntry], schema: &SchemaRef) -> Result<Vec<usize>> {
    let mut columns = Vec::with_capacity(indexes.len());
    for index in indexes {
        columns.push(position(&index.indexed, schema)?);
    }
    columns.sort_unstable();
    columns.dedup();
    Ok(columns)
}

/// Fails for a column that cannot have an index.
///
/// # Errors
/// There is no such column, or its type has no order.
pub(crate) fn with_order(column: &str, schema: &SchemaRef) -> Result<()> {
    let data_type = schema.field(column_index(schema, column)?).data_type();
    match storage::indexable(data_type) {
        true => Ok(()),
        false => Err(Error::Unsupported(format!(
            "column '{column}' is of type {data_type}, whose values have no order here; it cannot be in an index or a \
             key"
        ))),
    }
}

/// The place of a column that an index is over.
pub(crate) fn position(column: &str, schema: &SchemaRef) -> Result<usize> {
    schema.index_of(column).map_err(|_| Error::Internal(format!("an index is over '{column}', which is no column")))
}

/// The index with the column chosen that tells the rows of the largest segment apart best. What is there stays unless
/// another is better by [`CHANGE_FACTOR`].
fn with_choice(index: &IndexEntry, version: &TableVersion) -> IndexEntry {
    let largest = version.segments().map(|s| &s.segment).max_by_key(|segment| segment.rows());
    let (Some(segment), true) = (largest, index.columns.len() > 1) else { return index.clone() };
    let values = |name: &String| version.schema.index_of(name).map_or(0, |column| distinct_values(segment, column));
    // Of equals the first, so that the choice is the same every time.
    let best = index.columns.iter().rev().max_by_key(|name| values(name));
    let Some(best) = best else { return index.clone() };
    let place = version.schema.index_of(&index.indexed).ok();
    let is_built = place.is_some_and(|column| version.segments().any(|s| s.segment.index(column).is_some()));
    let factor = if is_built { CHANGE_FACTOR } else { 1 };
    match values(best) > factor * values(&index.indexed) {
        true => IndexEntry { indexed: best.clone(), ..index.clone() },
        false => index.clone(),
    }
}

/// About how many values a segment's column has: counted where it has an index, else at most what its dictionary holds.
fn distinct_values(segment: &Segment, column: usize) -> usize {
    let rows = segment.rows();
    if let Some(index) = segment.index(column) {
        return index.distinct().min(rows);
    }
    match segment.column(column).as_ref() {
        Column::Coded(coded) => coded.dictionary().len().min(rows),
        _ => rows,
    }
}

/// A table's indexes, each with a name that is not `taken`.
pub(super) fn named(indexes: &[IndexEntry], table: &Name, mut taken: HashSet<String>) -> Result<Vec<IndexEntry>> {
    let mut named = indexes.to_vec();
    // Those that must keep their names first.
    for index in named.iter().filter(|index| index.origin == Origin::Created && !index.name.is_empty()) {
        if !taken.insert(index.name.clone()) {
            let name = Name { schema: table.schema.clone(), table: index.name.clone() };
            return Err(Error::Exists { kind: "index", name: name.shown() });
        }
    }
    for index in &mut named {
        let keeps = index.origin == Origin::Created && !index.name.is_empty();
        if keeps || (!index.name.is_empty() && taken.insert(index.name.clone())) {
            continue;
        }
        let usual = index.usual_name(&table.table);
        let numbered = (1_u64..).map(|n| format!("{usual}{n}"));
        let free = std::iter::once(usual.clone()).chain(numbered).find(|name| !taken.contains(name));
        index.name = free.unwrap_or(usual);
        taken.insert(index.name.clone());
    }
    Ok(named)
}
