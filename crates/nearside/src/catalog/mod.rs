//! What exists: schemas, tables, views and external tables, as one immutable state that commits replace.
//!
//! A statement takes one [`CatalogState`] at its start and sees nothing else (snapshot isolation over all tables);
//! readers never block. A commit copies the map, changes it and swaps it under one lock, so every statement is atomic:
//! either all its tables, versions and names are there, or none. What statements write to a table's delta changes no
//! state: it has versions of its own, and a statement's [`Snapshot`] is a state and one of those. A statement that
//! writes a table has the table's write turn from before it takes its snapshot until it has committed, alone or, where
//! it writes the delta, beside others; so no write is lost.
//!
//! Tables come in as [`IndexedTable`] only, so none is ever without its indexes. Names of indexes are unique within a
//! schema; those that nobody chose are chosen here, when the table is put in.
//! `ddl_version` grows when names, columns, indexes or views change, and keys the plan cache; new rows do not.
//!
//! A transaction over several statements has a catalog of its own ([`Catalog::private`]), whose tables are those of its
//! snapshot with what it has written; what others must not touch meanwhile is in [`locks`].

pub(crate) mod check_option;
pub(crate) mod comments;
pub(crate) mod defaults;
pub(crate) mod delta;
pub(crate) mod domains;
pub(crate) mod index;
pub(crate) mod journal;
mod kinds;
pub(crate) mod lengths;
mod loading;
pub(crate) mod locks;
pub(crate) mod made_functions;
pub(crate) mod materialized;
pub(crate) mod merges;
pub(crate) mod named_types;
mod owned;
pub(crate) mod path;
pub mod pg_types;
pub(crate) mod placement;
pub(crate) mod privileges;
pub(crate) mod report;
pub(crate) mod rights;
pub(crate) mod roles;
pub(crate) mod rules;
pub(crate) mod sequences;
pub(crate) mod snapshot;
mod table_meta;
pub(crate) mod transactions;
pub(crate) mod units;
pub(crate) mod user_types;
mod workers;
pub(crate) mod write_turns;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ::units::store::{Statement, Store};
use ::units::versions::Pin;
use arrow::datatypes::SchemaRef;
use datafusion_common::TableReference;
use files::ReadOptions;
use numa::{Allocator, Budget, NodeId, Policy};
use parking_lot::{Mutex, RwLock};
use storage::{DeltasWrite, TableVersion, UnreadColumns};

use crate::catalog::check_option::CheckOption;
use crate::catalog::comments::Comments;
use crate::catalog::defaults::ColumnDefaults;
use crate::catalog::delta::{SmallStatement, TableDelta};
use crate::catalog::domains::DomainEntry;
use crate::catalog::index::{IndexEntry, IndexedTable};
use crate::catalog::journal::{Ahead, Haste, Journal, WrittenRows};
use crate::catalog::lengths::Lengths;
use crate::catalog::made_functions::FunctionEntry;
use crate::catalog::materialized::Materialized;
use crate::catalog::placement::spec::Spec;
use crate::catalog::placement::{FirstTurn, KeptPlacement, MachineNodes, TablePlacement};
use crate::catalog::rights::Thing;
use crate::catalog::rules::RowRules;
use crate::catalog::sequences::SequenceEntry;
use crate::catalog::units::Units;
use crate::catalog::user_types::TypeEntry;
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};

pub(crate) use snapshot::Snapshot;
pub(crate) use table_meta::{TableMeta, writes_until_now};
pub(crate) use workers::{Alone, Workers};

/// The name of the database: the catalog's in three-part names, and the one that clients connect to.
pub const CATALOG: &str = "nearside";
/// The schema of names without one.
pub(crate) const DEFAULT_SCHEMA: &str = "public";
/// The schema of the system views.
pub(crate) const SYSTEM_SCHEMA: &str = "nearside";
/// The schema of PostgreSQL's tables of the catalog.
pub(crate) const PG_CATALOG: &str = "pg_catalog";
/// The schema of SQL's own views of the catalog.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// A table's or view's full name within the one catalog.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    /// The schema.
    pub schema: String,
    /// The table or view.
    pub table: String,
}

impl Name {
    /// Resolves a reference of one, two or three parts.
    pub(crate) fn resolve(reference: &TableReference) -> Result<Name> {
        if let Some(catalog) = reference.catalog()
            && catalog != CATALOG
        {
            return Err(Error::NotFound { kind: "catalog", name: catalog.into(), nearest: Some(CATALOG.into()) });
        }
        Ok(Name { schema: reference.schema().unwrap_or(DEFAULT_SCHEMA).into(), table: reference.table().into() })
    }

    /// The name as a user would write it: without the default schema, and that of temporary tables.
    pub(crate) fn shown(&self) -> String {
        match self.schema == DEFAULT_SCHEMA || self.schema.is_empty() || path::is_temporary(&self.schema) {
            true => self.table.clone(),
            false => format!("{}.{}", self.schema, self.table),
        }
    }
}

/// A table: identity, what it demands of rows, and its rows as of this state.
#[derive(Debug, Clone)]
pub(crate) struct TableEntry {
    /// Unique for the life of the database; a dropped and re-created table has another.
    pub id: u64,
    /// Its name.
    pub name: Arc<Name>,
    /// What outlives versions.
    pub meta: Arc<TableMeta>,
    /// Where its columns and parts lie.
    pub placement: Arc<TablePlacement>,
    /// Columns and rows, but for what `delta` has.
    pub base: Arc<TableVersion>,
    /// What small statements wrote since.
    pub delta: Option<Arc<TableDelta>>,
    /// Default values by column name.
    pub defaults: ColumnDefaults,
    /// How long texts of its columns may be.
    pub lengths: Lengths,
    /// What it says of each row by itself.
    pub rules: Arc<RowRules>,
    /// Its indexes, those of its keys among them.
    pub indexes: Arc<Vec<IndexEntry>>,
    /// What was said of it and of its columns, constraints and indexes.
    pub comments: Arc<Comments>,
    /// The query that its rows are of, where it is a materialized view.
    pub materialized: Option<Arc<Materialized>>,
}

impl TableEntry {
    /// Column sets whose values must be unique, by name.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[String]> {
        self.indexes.iter().filter(|index| index.unique).map(|index| index.columns.as_slice())
    }
}

/// A view, kept as SQL.
#[derive(Debug, Clone)]
pub(crate) struct ViewEntry {
    /// The query's text.
    pub sql: String,
    /// Names given to its columns, where given.
    pub columns: Vec<String>,
    /// What it says of rows that are written through it.
    pub check: Option<CheckOption>,
    /// What was said of it.
    pub comments: Arc<Comments>,
}

/// A table that stays in files and is read by each statement.
#[derive(Debug, Clone)]
pub(crate) struct ExternalEntry {
    /// File, folder or glob.
    pub path: String,
    /// How to read it.
    pub options: ReadOptions,
    /// What was said of it.
    pub comments: Arc<Comments>,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// A stored table.
    Table(Arc<TableEntry>),
    /// A view.
    View(Arc<ViewEntry>),
    /// Files.
    External(Arc<ExternalEntry>),
    /// Numbers.
    Sequence(Arc<SequenceEntry>),
    /// A type.
    Type(Arc<TypeEntry>),
    /// A function.
    Function(Arc<FunctionEntry>),
    /// A domain.
    Domain(Arc<DomainEntry>),
}

/// Everything that exists at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct CatalogState {
    /// Grows with every change of names, columns or views.
    pub ddl_version: u64,
    // Names are shared: a small write copies all of this.
    schemas: Arc<BTreeSet<String>>,
    entries: BTreeMap<Arc<Name>, Entry>,
    names: Arc<HashMap<u64, Arc<Name>>>,
    /// What `ALTER SYSTEM SET` has said, by the names of settings.
    settings: Arc<BTreeMap<String, String>>,
    roles: Arc<roles::Roles>,
    rights: Arc<rights::AllRights>,
}

impl CatalogState {
    /// Settings of the database that are not at their defaults, as they are shown.
    pub(crate) fn settings(&self) -> &Arc<BTreeMap<String, String>> {
        &self.settings
    }

    /// Gives a setting a value, or its default.
    pub(crate) fn set_setting(&mut self, name: &str, value: Option<&str>) {
        let settings = Arc::make_mut(&mut self.settings);
        match value {
            Some(value) => settings.insert(name.into(), value.into()),
            None => settings.remove(name),
        };
    }

    /// The schemas that hold tables, the system's own included.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = &str> {
        self.schemas.iter().map(String::as_str)
    }

    /// Whether another state has the same schemas.
    pub(crate) fn has_schemas_of(&self, other: &CatalogState) -> bool {
        self.schemas == other.schemas
    }

    /// All entries in the order of their names.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Name, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_ref(), entry))
    }

    /// The stored tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.entries.values().filter_map(|e| match e {
            Entry::Table(t) => Some(t),
            _ => None,
        })
    }

    /// What a name stands for.
    pub(crate) fn get(&self, name: &Name) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// A stored table by identity: the same one, whatever its rows.
    pub(crate) fn by_id(&self, id: u64) -> Option<&Arc<TableEntry>> {
        match self.entries.get(self.names.get(&id)?) {
            Some(Entry::Table(t)) => Some(t),
            _ => None,
        }
    }

    /// The error for a name that stands for nothing, with the nearest one that does.
    pub(crate) fn not_found(&self, kind: &'static str, name: &Name) -> Error {
        // Of no schema is what stands for nothing in any.
        if !self.has_schema(&name.schema) && !name.schema.is_empty() && !path::is_temporary(&name.schema) {
            return Error::NotFound {
                kind: "schema",
                name: name.schema.clone(),
                nearest: nearest(&name.schema, self.schemas()),
            };
        }
        let candidates = self.entries.keys().filter(|n| n.schema == name.schema).map(|n| n.table.as_str());
        let found = nearest(&name.table, candidates);
        Error::NotFound { kind, name: name.shown(), nearest: found }
    }

    /// True for schemas of the user and of the system.
    pub(crate) fn has_schema(&self, schema: &str) -> bool {
        self.schemas.contains(schema) || is_system(schema)
    }

    /// Adds a schema.
    pub(crate) fn create_schema(&mut self, schema: &str) -> bool {
        self.ddl_version += 1;
        Arc::make_mut(&mut self.schemas).insert(schema.into())
    }

    /// Takes a schema away, with all it holds when `cascade`.
    pub(crate) fn drop_schema(&mut self, schema: &str, cascade: bool) -> Result<()> {
        if is_system(schema) || schema == DEFAULT_SCHEMA {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!("schema '{schema}' cannot be dropped"),
            ));
        }
        let inside: Vec<Arc<Name>> = self.entries.keys().filter(|n| n.schema == schema).cloned().collect();
        if !inside.is_empty() && !cascade {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!("schema '{schema}' holds {} tables or views; drop them first, or use CASCADE", inside.len()),
            ));
        }
        if let Some(user) = self.user_of_domains_in(schema) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!("{user} is of a domain in schema '{schema}'; drop that first"),
            ));
        }
        for name in inside {
            self.remove(&name);
        }
        Arc::make_mut(&mut self.schemas).remove(schema);
        self.put_rights(Thing::Schema(schema.into()), None);
        self.ddl_version += 1;
        Ok(())
    }

    /// An index by name, and the table it is of.
    pub(crate) fn index(&self, name: &Name) -> Option<(&Arc<TableEntry>, &IndexEntry)> {
        let tables = self.tables().filter(|table| table.name.schema == name.schema);
        let mut indexes = tables.flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
        indexes.find(|(_, index)| index.name == name.table)
    }

    /// The error for an index that does not exist, with the nearest one that does.
    pub(crate) fn no_index(&self, name: &Name) -> Error {
        if !self.has_schema(&name.schema) {
            return self.not_found("index", name);
        }
        let tables = self.tables().filter(|table| table.name.schema == name.schema);
        let names = tables.flat_map(|table| table.indexes.iter().map(|index| index.name.as_str()));
        Error::NotFound { kind: "index", name: name.shown(), nearest: nearest(&name.table, names) }
    }

    /// Puts a table under a name, in place of what stood there. Its indexes get the names that they lack; those of keys
    /// get others where theirs are taken in this schema.
    ///
    /// # Errors
    /// As [`CatalogState::put_view`], and an index of a name that is taken.
    pub(crate) fn put_table(&mut self, name: Name, table: IndexedTable) -> Result<()> {
        let mut table = table.into_table();
        if !table.indexes.is_empty() {
            let own = table.id;
            let others = self.tables().filter(|t| t.name.schema == name.schema && *t.name != name && t.id != own);
            let taken = others.flat_map(|t| t.indexes.iter().map(|index| index.name.clone())).collect();
            table.indexes = Arc::new(index::named(&table.indexes, &name, taken)?);
        }
        table.forget_gone();
        self.refresh_domains(&mut table);
        self.insert(name, Entry::Table(Arc::new(table)))
    }

    /// Puts a view under a name, in place of what stood there.
    ///
    /// # Errors
    /// The schema does not exist, or belongs to the system.
    pub(crate) fn put_view(&mut self, name: Name, view: Arc<ViewEntry>) -> Result<()> {
        self.insert(name, Entry::View(view))
    }

    /// Puts files under a name, in place of what stood there.
    ///
    /// # Errors
    /// As [`CatalogState::put_view`].
    pub(crate) fn put_external(&mut self, name: Name, files: Arc<ExternalEntry>) -> Result<()> {
        self.insert(name, Entry::External(files))
    }

    /// Puts a sequence under a name, in place of what stood there.
    ///
    /// # Errors
    /// As [`CatalogState::put_view`].
    pub(crate) fn put_sequence(&mut self, name: Name, sequence: Arc<SequenceEntry>) -> Result<()> {
        self.insert(name, Entry::Sequence(sequence))
    }

    fn insert(&mut self, name: Name, entry: Entry) -> Result<()> {
        if is_system(&name.schema) {
            return Err(Error::plan(
                SqlState::ReservedName,
                format!("schema '{}' belongs to the system; use another", name.schema),
            ));
        }
        if !self.schemas.contains(&name.schema) {
            // That of a session's temporary tables is made by the first of them.
            if !path::is_temporary(&name.schema) {
                return Err(self.not_found("schema", &name));
            }
            self.create_schema(&name.schema);
        }
        // What stands in the place of something is treated as it.
        self.take(&name);
        let name = Arc::new(name);
        if let Entry::Table(table) = &entry {
            Arc::make_mut(&mut self.names).insert(table.id, Arc::clone(&name));
        }
        self.entries.insert(name, entry);
        Ok(())
    }

    /// Other rows for a table, whose names, columns and indexes stay as they are, in a transaction's own state.
    pub(crate) fn set_rows(&mut self, table: Arc<TableEntry>) -> Result<()> {
        let id = table.id;
        *self.existing(id)? = table;
        Ok(())
    }

    /// Takes a name away, with the rights to what it stood for.
    pub(crate) fn remove(&mut self, name: &Name) -> Option<Entry> {
        self.put_rights(Thing::named(name), None);
        self.take(name)
    }

    fn take(&mut self, name: &Name) -> Option<Entry> {
        self.ddl_version += 1;
        let entry = self.entries.remove(name)?;
        if let Entry::Table(table) = &entry {
            Arc::make_mut(&mut self.names).remove(&table.id);
        }
        self.ddl_version += 1;
        Some(entry)
    }

    /// Takes over everything of another state; a name that is taken is an error.
    pub(crate) fn absorb(&mut self, other: &CatalogState) -> Result<()> {
        for schema in other.schemas.iter() {
            Arc::make_mut(&mut self.schemas).insert(schema.clone());
        }
        for (thing, rights) in other.rights.all().filter(|(thing, _)| matches!(thing, Thing::Schema(_))) {
            if rights.comment.is_some() {
                self.rights_to_mut(thing).comment.clone_from(&rights.comment);
            }
        }
        for (name, entry) in other.entries() {
            if let Some(taken) = self.get(name) {
                return Err(Error::Exists { kind: taken.kind(), name: name.shown() });
            }
            match entry {
                // It came into the other state with its indexes.
                Entry::Table(table) => self.put_table(name.clone(), IndexedTable::again(table))?,
                other => self.insert(name.clone(), other.clone())?,
            }
        }
        Ok(())
    }

    /// A delta over the base of `table`, which has all its indexes and which who writes the table alone has made from
    /// what stands here; it must still exist.
    pub(crate) fn set_delta(&mut self, table: &TableEntry, delta: Arc<TableDelta>) -> Result<()> {
        *self.existing(table.id)? = Arc::new(TableEntry { delta: Some(delta), ..table.clone() });
        Ok(())
    }

    /// A delta without a row for a table that has none. Of several who do so at the same time, the first one's stays.
    pub(crate) fn begin_delta(&mut self, table: u64, delta: &Arc<TableDelta>) -> Result<()> {
        let entry = self.existing(table)?;
        if entry.delta.is_none() {
            *entry = Arc::new(TableEntry { delta: Some(Arc::clone(delta)), ..TableEntry::clone(entry) });
        }
        Ok(())
    }

    fn existing(&mut self, table: u64) -> Result<&mut Arc<TableEntry>> {
        match self.names.get(&table).and_then(|name| self.entries.get_mut(name)) {
            Some(Entry::Table(entry)) => Ok(entry),
            _ => Err(Error::execution(
                SqlState::UndefinedTable,
                "the table that is written was dropped while the statement ran",
            )),
        }
    }

    /// New rows and a new placement for a table that must still exist; its name, columns and indexes stay as they are.
    pub(crate) fn set_table(&mut self, table: IndexedTable) -> Result<()> {
        let table = table.into_table();
        let id = table.id;
        *self.existing(id)? = Arc::new(table);
        Ok(())
    }
}

fn is_system(schema: &str) -> bool {
    [SYSTEM_SCHEMA, INFORMATION_SCHEMA, PG_CATALOG].contains(&schema)
}

/// The one catalog of a database.
#[derive(Debug)]
pub(crate) struct Catalog {
    state: RwLock<Arc<CatalogState>>,
    commit: Mutex<()>,
    next_id: Arc<AtomicU64>,
    next_column: Arc<AtomicUsize>,
    /// Tables that were given their turn in RR.
    next_table: Arc<AtomicUsize>,
    nodes: Arc<MachineNodes>,
    budget: Arc<Budget>,
    units: Arc<Units>,
    /// Who is told of commits, where they last.
    journal: OnceLock<Arc<dyn Journal>>,
    /// Up to which version small writes are seen, where that does not grow: a transaction's.
    version: Option<AtomicU64>,
    /// Columns of all tables that are on the disk alone.
    unread: Arc<UnreadColumns>,
}

impl Catalog {
    /// An empty catalog whose tables lie on `nodes` and are charged to `budget`.
    pub(crate) fn new(nodes: MachineNodes, budget: Arc<Budget>, units: Arc<Units>) -> Catalog {
        let state = CatalogState { schemas: Arc::new([DEFAULT_SCHEMA.to_string()].into()), ..CatalogState::default() };
        Catalog {
            state: RwLock::new(Arc::new(state)),
            commit: Mutex::new(()),
            next_id: Arc::new(AtomicU64::new(1)),
            next_column: Arc::new(AtomicUsize::new(0)),
            next_table: Arc::new(AtomicUsize::new(0)),
            nodes: Arc::new(nodes),
            budget,
            units,
            journal: OnceLock::new(),
            version: None,
            unread: Arc::default(),
        }
    }

    /// An empty catalog whose tables can move into this one with [`CatalogState::absorb`].
    pub(crate) fn scratch(&self) -> Catalog {
        let empty = Catalog::new(MachineNodes::default(), Arc::clone(&self.budget), Arc::clone(&self.units));
        Catalog {
            next_id: Arc::clone(&self.next_id),
            next_column: Arc::clone(&self.next_column),
            next_table: Arc::clone(&self.next_table),
            nodes: Arc::clone(&self.nodes),
            unread: Arc::clone(&self.unread),
            ..empty
        }
    }

    /// An empty catalog for a transaction, which sees what [`begin`](Self::begin) says.
    pub(crate) fn private(&self) -> Catalog {
        Catalog { version: Some(AtomicU64::new(0)), ..self.scratch() }
    }

    /// Has this state, written up to a version, from now on: for the one transaction whose catalog it is.
    pub(crate) fn begin(&self, state: Arc<CatalogState>, version: u64) {
        if let Some(own) = &self.version {
            own.store(version, Ordering::Release);
        }
        *self.state.write() = state;
    }

    /// What exists now.
    pub(crate) fn state(&self) -> Arc<CatalogState> {
        Arc::clone(&self.state.read())
    }

    /// What exists now, and up to which version small statements have written it.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.read();
        let version = match &self.version {
            Some(own) => own.load(Ordering::Acquire),
            None => self.units.known().map_or(0, |units| units.committed()),
        };
        Snapshot::new(Arc::clone(&state), version)
    }

    /// What exists now, and a reader of units that sees the keys of just that, and up to which version deltas are seen.
    pub(crate) fn pinned(&self) -> (Arc<CatalogState>, Option<Pin>) {
        let state = self.state.read();
        (Arc::clone(&state), self.units.known().map(|units| units.pin()))
    }

    /// The units, which begin with the first call.
    ///
    /// # Errors
    /// No memory for their buffers.
    pub(crate) fn units(&self) -> Result<Arc<Store>> {
        self.units.store()
    }

    /// The units, if any statement has needed them.
    pub(crate) fn known_units(&self) -> Option<&Arc<Store>> {
        self.units.known()
    }

    /// How units are set up.
    pub(crate) fn units_setup(&self) -> &Units {
        &self.units
    }

    /// Changes what exists, all or nothing: when `change` fails nothing has happened.
    pub(crate) fn commit<T>(&self, change: impl FnOnce(&mut CatalogState) -> Result<T>) -> Result<T> {
        self.commit_keys(None::<(Statement, fn(u64))>, change)
    }

    /// As [`commit`](Self::commit), together with what a statement has written in units and what is to be marked with
    /// its version: whoever is [`pinned`](Self::pinned) sees all of it or nothing.
    pub(crate) fn commit_keys<T>(
        &self,
        keys: Option<(Statement, impl FnOnce(u64))>,
        change: impl FnOnce(&mut CatalogState) -> Result<T>,
    ) -> Result<T> {
        let one = self.commit.lock();
        let before = self.state();
        let mut state = CatalogState::clone(&before);
        let value = change(&mut state)?;
        let state = Arc::new(state);
        let journal = self.journal.get();
        let alone = journal.map(|journal| journal.gate().write());
        if let Some(journal) = journal {
            journal.state(&before, &state)?;
        }
        drop(before);
        let mut current = self.state.write();
        let before = std::mem::replace(&mut *current, state);
        if let Some((keys, mark)) = keys {
            keys.commit_with(mark);
        }
        drop(current);
        drop(alone);
        drop(one);
        // What nobody else holds goes here, and neither readers nor writers wait for that: keys that are being moved
        // between units go when they have been.
        drop(before);
        Ok(value)
    }

    /// Commits rows that a statement has written to a table's delta.
    ///
    /// # Errors
    /// They cannot be kept; then they never were.
    pub(crate) fn commit_rows(&self, write: SmallStatement, rows: WrittenRows<'_>) -> Result<()> {
        let journal = self.journal.get();
        let _shared = journal.map(|journal| journal.gate().read());
        if let Some(journal) = journal
            && self.lasts(&rows)
        {
            journal.rows(&[rows])?;
        }
        write.commit();
        Ok(())
    }

    /// Commits rows that a transaction has written to the deltas of several tables: all are seen, or none.
    ///
    /// # Errors
    /// As [`commit_rows`](Self::commit_rows).
    pub(crate) fn commit_several(
        &self,
        keys: Statement,
        writes: Vec<DeltasWrite>,
        rows: &[WrittenRows<'_>],
    ) -> Result<()> {
        let journal = self.journal.get();
        let _shared = journal.map(|journal| journal.gate().read());
        if let Some(journal) = journal {
            match rows.iter().all(|rows| self.lasts(rows)) {
                true => journal.rows(rows)?,
                false => {
                    let lasting: Vec<WrittenRows<'_>> = rows.iter().filter(|rows| self.lasts(rows)).cloned().collect();
                    if !lasting.is_empty() {
                        journal.rows(&lasting)?;
                    }
                }
            }
        }
        keys.commit_with(|version| writes.into_iter().for_each(|write| write.commit(version)));
        Ok(())
    }

    /// Does the long part of committing a version ahead of it, where commits last: see [`Journal::ahead`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn ahead(&self, version: &TableVersion) -> Result<Option<Ahead>> {
        self.journal.get().map(|journal| journal.ahead(version, Haste::Waited)).transpose()
    }

    /// As [`ahead`](Self::ahead), for what nobody waits for: within the limit of such writes.
    pub(crate) fn ahead_in_background(&self, version: &TableVersion) -> Result<Option<Ahead>> {
        self.journal.get().map(|journal| journal.ahead(version, Haste::Background)).transpose()
    }

    /// Who is told of commits, where they last.
    pub(crate) fn journal(&self) -> Option<&Arc<dyn Journal>> {
        self.journal.get()
    }

    /// Commits last from now on.
    pub(crate) fn set_journal(&self, journal: Arc<dyn Journal>) {
        // A database has one folder, which it is opened with.
        let _ = self.journal.set(journal);
    }

    /// Whether no table has a column that is on the disk alone; for good once it is so.
    pub(crate) fn is_resident(&self) -> bool {
        !self.unread.is_any()
    }

    /// What counts the columns of all tables that are on the disk alone.
    pub(crate) fn unread(&self) -> &UnreadColumns {
        &self.unread
    }

    /// What the next tables begin with: their number, and the turns of their columns and of themselves.
    pub(crate) fn numbers(&self) -> (u64, (usize, usize)) {
        let turns = (self.next_column.load(Ordering::Relaxed), self.next_table.load(Ordering::Relaxed));
        (self.next_id.load(Ordering::Relaxed), turns)
    }

    /// Has another state, of which nothing was known; and numbers that go on from these.
    pub(crate) fn restore(&self, state: CatalogState, (id, turns): (u64, (usize, usize))) {
        let _one = self.commit.lock();
        *self.state.write() = Arc::new(state);
        self.next_id.fetch_max(id, Ordering::Relaxed);
        self.next_column.store(turns.0, Ordering::Relaxed);
        self.next_table.store(turns.1, Ordering::Relaxed);
    }

    /// A table as it was in another process, without its rows.
    ///
    /// # Errors
    /// A placement that is none.
    pub(crate) fn restored_table(
        &self,
        id: u64,
        name: Name,
        schema: &SchemaRef,
        placement: &KeptPlacement,
    ) -> Result<TableEntry> {
        let placement = TablePlacement::restored(placement, &self.nodes, schema)?;
        let table = self.new_table(name, Arc::clone(schema))?;
        Ok(TableEntry { id, placement: Arc::new(placement), ..table })
    }

    /// What belongs to no table lies on the node of whoever makes it.
    pub(crate) fn allocator(&self) -> Allocator {
        Allocator::new(Policy::Local, Arc::clone(&self.budget))
    }

    /// The nodes that columns are dealt out to where nobody says otherwise.
    pub(crate) fn usual_nodes(&self) -> &[NodeId] {
        &self.nodes.usual
    }

    /// Nodes with memory for this process and without cpus.
    pub(crate) fn further_nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.nodes.allowed.iter().filter(|node| !self.nodes.usual.contains(node))
    }

    /// Whether a placement names only nodes that this process may use.
    pub(crate) fn fits(&self, placement: &Spec) -> bool {
        placement.named_nodes().iter().all(|node| self.nodes.allowed.contains(node))
    }

    /// A table that nobody sees yet, placed by RR from the next node in turn on.
    pub(crate) fn new_table(&self, name: Name, schema: SchemaRef) -> Result<TableEntry> {
        let first_turn = FirstTurn {
            column: self.next_column.fetch_add(schema.fields().len(), Ordering::Relaxed),
            table: self.next_table.fetch_add(1, Ordering::Relaxed),
        };
        let placement = TablePlacement::new(Spec::default(), first_turn, &self.nodes, &schema)?;
        let meta = TableMeta::new(Arc::clone(&self.budget));
        Ok(TableEntry {
            placement: Arc::new(placement),
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            name: Arc::new(name),
            meta: Arc::new(meta),
            base: Arc::new(TableVersion::empty(&schema)),
            delta: None,
            defaults: Arc::new(HashMap::new()),
            lengths: Lengths::default(),
            rules: Arc::default(),
            indexes: Arc::new(Vec::new()),
            comments: Arc::default(),
            materialized: None,
        })
    }

    /// A number for a table or a sequence that is none's.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}
