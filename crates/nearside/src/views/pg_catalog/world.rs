//! [`World`]: what the tables of `pg_catalog` and the functions that ask it are about, as of one state of the catalog.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

use super::layout::{self, Value};
use super::numbers::Numbers;
use crate::catalog::index::IndexEntry;
use crate::catalog::lengths::told;
use crate::catalog::privileges::Acl;
use crate::catalog::rights::Thing;
use crate::catalog::sequences::SequenceEntry;
use crate::catalog::{CatalogState, Entry, Name, PG_CATALOG, SYSTEM_SCHEMA, TableEntry, ViewEntry};
use crate::functions::quoting::ident;
use crate::plan::system::Descriptions;

/// See the module.
pub(super) struct World<'a> {
    /// What exists.
    pub state: &'a CatalogState,
    /// Its numbers.
    pub numbers: Arc<Numbers>,
    /// Names of the system's views.
    system: &'a [&'static str],
    /// Where names without a schema are looked up, in order, but for `pg_catalog`.
    path: &'a [String],
}

/// What a relation is.
#[derive(Clone, Copy)]
pub(super) enum Of<'a> {
    Table(&'a Arc<TableEntry>),
    View(&'a ViewEntry),
    External,
    Sequence(&'a SequenceEntry),
    Index(&'a Arc<TableEntry>, &'a IndexEntry),
    /// A table of `pg_catalog`, or a view of the system.
    System(&'static str),
}

/// A row of `pg_class`.
#[derive(Clone, Copy)]
pub(super) struct Relation<'a> {
    pub oid: u32,
    pub schema: &'a str,
    pub name: &'a str,
    pub of: Of<'a>,
}

impl Relation<'_> {
    /// `relkind`.
    pub(super) fn kind(&self) -> &'static str {
        match self.of {
            Of::Table(table) if table.materialized.is_some() => "m",
            Of::Table(_) => "r",
            Of::View(_) => "v",
            Of::External => "f",
            Of::Sequence(_) => "S",
            Of::Index(..) => "i",
            Of::System(kind) => kind,
        }
    }
}

impl Relation<'_> {
    /// What has the rights to it: itself, or the table of an index.
    pub(super) fn thing(&self) -> Thing {
        match self.of {
            Of::Index(table, _) => Thing::named(&table.name),
            _ => Thing::Relation(self.schema.into(), self.name.into()),
        }
    }
}

/// An acl as a column has it; NULL where nothing was given or taken.
pub(super) fn acl_value(acl: Option<&Acl>, state: &CatalogState) -> Value {
    acl.map_or(Value::Null, |acl| Value::Texts(acl.shown(state.roles())))
}

impl<'a> World<'a> {
    /// Who may do what with a thing, as a column has it.
    pub(super) fn acl(&self, thing: &Thing) -> Value {
        acl_value(self.state.rights_to(thing).and_then(|rights| rights.acl.as_ref()), self.state)
    }

    /// The name of the role that something belongs to.
    pub(super) fn owner_name(&self, schema: &str, name: &str) -> String {
        let owner = self.state.owner_of(&Thing::Relation(schema.into(), name.into()));
        self.state.roles().by_id(owner).map_or_else(String::new, |(name, _)| name.to_string())
    }

    /// Of a state, with its numbers and the system's views.
    pub(super) fn new(
        state: &'a CatalogState,
        path: &'a [String],
        system: &'a [&'static str],
        numbers: Arc<Numbers>,
    ) -> World<'a> {
        World { state, numbers, system, path }
    }

    /// Where names without a schema are looked up, in order.
    pub(super) fn path(&self) -> &[String] {
        self.path
    }

    /// Everything that `pg_class` has.
    pub(super) fn relations(&self) -> Vec<Relation<'_>> {
        let mut all = Vec::new();
        for (name, entry) in self.state.entries() {
            let of = match entry {
                Entry::Table(table) => Of::Table(table),
                Entry::View(view) => Of::View(view),
                Entry::External(_) => Of::External,
                Entry::Sequence(sequence) => Of::Sequence(sequence),
                Entry::Type(_) | Entry::Function(_) | Entry::Domain(_) => continue,
            };
            let oid = self.numbers.entry(name, entry);
            all.push(Relation { oid, schema: &name.schema, name: &name.table, of });
        }
        for table in self.state.tables() {
            all.extend(table.indexes.iter().map(|index| {
                let oid = self.numbers.relation(&table.name.schema, &index.name);
                Relation { oid, schema: &table.name.schema, name: &index.name, of: Of::Index(table, index) }
            }));
        }
        all.extend(self.system.iter().map(|view| {
            let oid = self.numbers.relation(SYSTEM_SCHEMA, view);
            Relation { oid, schema: SYSTEM_SCHEMA, name: view, of: Of::System("v") }
        }));
        all.extend(layout::all().filter(|layout| layout.kind != "f").map(|layout| Relation {
            oid: layout.oid,
            schema: PG_CATALOG,
            name: layout.name,
            of: Of::System(layout.kind),
        }));
        all
    }

    /// What a number stands for in `pg_class`.
    pub(super) fn relation(&self, oid: i64) -> Option<Relation<'_>> {
        self.relations().into_iter().find(|relation| i64::from(relation.oid) == oid)
    }

    /// What a name stands for in `pg_class`; without a schema what it would in a query.
    pub(super) fn named(&self, schema: Option<&str>, name: &str) -> Option<Relation<'_>> {
        let all = self.relations();
        let within = |schema: &str| all.iter().find(|of| of.schema == schema && of.name == name).copied();
        match schema {
            Some(schema) => within(schema),
            None => within(PG_CATALOG).or_else(|| self.path.iter().find_map(|schema| within(schema))),
        }
    }

    /// A relation's name as a statement needs it.
    pub(super) fn shown(&self, of: &Relation<'_>) -> String {
        let is_found = self.named(None, of.name).is_some_and(|found| found.oid == of.oid);
        match is_found {
            true => ident(of.name),
            false => format!("{}.{}", ident(of.schema), ident(of.name)),
        }
    }

    /// A table's name as a statement needs it.
    pub(super) fn shown_table(&self, table: &Arc<TableEntry>) -> String {
        let Name { schema, table: name } = table.name.as_ref();
        self.shown(&Relation { oid: self.numbers.table(table), schema, name, of: Of::Table(table) })
    }
}

/// Names and types of a relation's columns.
pub(super) fn columns_of(of: &Relation<'_>, all: &Descriptions) -> SchemaRef {
    let none = || Arc::new(Schema::empty());
    match of.of {
        Of::Table(table) => told(&table.base.schema, &table.lengths),
        Of::Index(table, index) => {
            let schema = told(&table.base.schema, &table.lengths);
            let column = |name: &String| schema.field_with_name(name).ok().cloned();
            Arc::new(Schema::new(index.columns.iter().filter_map(column).collect::<Vec<_>>()))
        }
        Of::System(_) if of.schema == PG_CATALOG => layout::of(of.name).map_or_else(none, |layout| layout.schema()),
        Of::Sequence(_) => none(),
        Of::View(_) | Of::External | Of::System(_) => {
            let described = all.get(of.schema).and_then(|tables| tables.get(of.name));
            described.map_or_else(none, |described| Arc::clone(&described.schema))
        }
    }
}

/// The number of a column of a table, from 1 on.
pub(super) fn place(table: &TableEntry, column: &str) -> i64 {
    table.base.schema.index_of(column).map_or(0, |place| place as i64 + 1)
}

/// Numbers of columns.
pub(super) fn places(table: &TableEntry, columns: &[String]) -> Vec<i64> {
    columns.iter().map(|column| place(table, column)).collect()
}
