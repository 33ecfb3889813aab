//! Pairs of rows: one of a table, and beside it the one that was to be inserted and has its key. ON CONFLICT DO UPDATE
//! is planned as an UPDATE of a table of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use storage::TableVersion;

use crate::catalog::{Name, TableEntry};
use crate::sql::fresh_name;
use crate::statements::stage::nullable;

/// The table of pairs; no other one has so high an identity.
pub(super) const PAIRS_ID: u64 = u64::MAX;

/// What the columns of a pair are called: those of the row, and of the proposed one.
pub(super) fn names_of_pairs(table: &TableEntry) -> (Vec<String>, Vec<String>) {
    let columns: Vec<String> = table.base.schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut excluded = Vec::with_capacity(columns.len());
    for column in &columns {
        let mut name = format!("excluded.{column}");
        while columns.contains(&name) || excluded.contains(&name) {
            name.insert(0, '_');
        }
        excluded.push(name);
    }
    (columns, excluded)
}

/// The table that DO UPDATE is planned over: a row, the proposed one beside it, and the number of that.
pub(super) fn pairs_table(table: &TableEntry, columns: &[String], excluded: &[String]) -> TableEntry {
    let schema = nullable(&table.base.schema);
    let fields = schema.fields().iter().cloned();
    let beside =
        schema.fields().iter().zip(excluded).map(|(field, name)| Arc::new(Field::clone(field).with_name(name)));
    let number = Arc::new(Field::new(fresh_name("row"), DataType::UInt64, true));
    let schema = Schema::new(fields.chain(beside).chain([number]).collect::<Vec<_>>());
    let name = Name { schema: table.name.schema.clone(), table: fresh_name("pairs") };
    let lengths =
        columns.iter().zip(excluded).filter_map(|(c, name)| Some((name.clone(), table.lengths.get(c)?.clone())));
    TableEntry {
        id: PAIRS_ID,
        name: Arc::new(name),
        base: Arc::new(TableVersion::empty(&schema)),
        delta: None,
        lengths: Arc::new(table.lengths.iter().map(|(c, length)| (c.clone(), length.clone())).chain(lengths).collect()),
        indexes: Arc::default(),
        // Defaults stay; nothing else is asked of a table without rows.
        ..table.clone()
    }
}
