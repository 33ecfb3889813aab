//! Views of `information_schema` about what tables demand of rows, and about sequences.

use super::rows::Columns;
use crate::catalog::domains::DomainEntry;
use crate::catalog::index::{IndexEntry, Origin};
use crate::catalog::rules::{Check, Deferral, ForeignKey, OnChange};
use crate::catalog::{CATALOG, CatalogState, Name, TableEntry};

/// A constraint of a table.
#[derive(Clone, Copy)]
enum Constraint<'a> {
    Key(&'a IndexEntry),
    Check(&'a Check),
    Foreign(&'a ForeignKey),
}

impl<'a> Constraint<'a> {
    fn name(self) -> &'a str {
        match self {
            Constraint::Key(index) => &index.name,
            Constraint::Check(check) => &check.name,
            Constraint::Foreign(key) => &key.name,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Constraint::Key(index) if index.origin == Origin::PrimaryKey => "PRIMARY KEY",
            Constraint::Key(_) => "UNIQUE",
            Constraint::Check(_) => "CHECK",
            Constraint::Foreign(_) => "FOREIGN KEY",
        }
    }

    fn deferral(self) -> Deferral {
        match self {
            Constraint::Key(index) => index.deferral,
            Constraint::Check(_) => Deferral::Never,
            Constraint::Foreign(key) => key.deferral,
        }
    }

    /// The columns of a key, which a CHECK has none of.
    fn key_columns(self) -> &'a [String] {
        match self {
            Constraint::Key(index) => &index.columns,
            Constraint::Check(_) => &[],
            Constraint::Foreign(key) => &key.columns,
        }
    }
}

fn yes(is_so: bool) -> Option<&'static str> {
    Some(if is_so { "YES" } else { "NO" })
}

fn all(state: &CatalogState) -> Vec<(&TableEntry, Constraint<'_>)> {
    let mut all = Vec::new();
    for table in state.tables() {
        all.extend(table.indexes.iter().filter(|index| index.is_key()).map(|i| (table.as_ref(), Constraint::Key(i))));
        all.extend(table.rules.checks.iter().map(|check| (table.as_ref(), Constraint::Check(check))));
        all.extend(table.rules.foreign_keys.iter().map(|key| (table.as_ref(), Constraint::Foreign(key))));
    }
    all
}

fn catalog<T>(rows: &[T]) -> impl Iterator<Item = Option<&'static str>> {
    rows.iter().map(|_| Some(CATALOG))
}

/// `table_constraints`.
pub(super) fn table_constraints(state: &CatalogState) -> Columns {
    let rows = all(state);
    Columns::default()
        .text("constraint_catalog", catalog(&rows))
        .text("constraint_schema", rows.iter().map(|(table, _)| Some(&table.name.schema)))
        .text("constraint_name", rows.iter().map(|(_, of)| Some(of.name())))
        .text("table_catalog", catalog(&rows))
        .text("table_schema", rows.iter().map(|(table, _)| Some(&table.name.schema)))
        .text("table_name", rows.iter().map(|(table, _)| Some(&table.name.table)))
        .text("constraint_type", rows.iter().map(|(_, of)| Some(of.kind())))
        .text("is_deferrable", rows.iter().map(|(_, of)| yes(of.deferral() != Deferral::Never)))
        .text("initially_deferred", rows.iter().map(|(_, of)| yes(of.deferral() == Deferral::Deferred)))
        .text("enforced", rows.iter().map(|_| Some("YES")))
}

/// `key_column_usage`: columns of keys and of foreign keys, and which column of the other table's key each is for.
pub(super) fn key_column_usage(state: &CatalogState) -> Columns {
    let mut rows = Vec::new();
    for (table, of) in all(state) {
        for (place, column) in of.key_columns().iter().enumerate() {
            let other = match of {
                Constraint::Foreign(key) => key_of(state, key).and_then(|(_, index)| {
                    let wanted = key.to_columns.get(place)?;
                    index.columns.iter().position(|column| column == wanted)
                }),
                _ => None,
            };
            rows.push((table, of.name(), column, place as u64 + 1, other.map(|place| place as u64 + 1)));
        }
    }
    Columns::default()
        .text("constraint_catalog", catalog(&rows))
        .text("constraint_schema", rows.iter().map(|row| Some(&row.0.name.schema)))
        .text("constraint_name", rows.iter().map(|row| Some(row.1)))
        .text("table_catalog", catalog(&rows))
        .text("table_schema", rows.iter().map(|row| Some(&row.0.name.schema)))
        .text("table_name", rows.iter().map(|row| Some(&row.0.name.table)))
        .text("column_name", rows.iter().map(|row| Some(row.2)))
        .number("ordinal_position", rows.iter().map(|row| Some(row.3)))
        .number("position_in_unique_constraint", rows.iter().map(|row| row.4))
}

/// The table and the key that a foreign key refers to.
fn key_of<'a>(state: &'a CatalogState, key: &ForeignKey) -> Option<(&'a TableEntry, &'a IndexEntry)> {
    let table = state.by_id(key.to)?;
    let is_it = |index: &&IndexEntry| {
        index.unique && index.columns.len() == key.to_columns.len() && key.to_columns.iter().all(|c| index.is_over(c))
    };
    Some((table, table.indexes.iter().find(is_it)?))
}

/// `referential_constraints`.
pub(super) fn referential_constraints(state: &CatalogState) -> Columns {
    let foreign = state.tables().flat_map(|table| table.rules.foreign_keys.iter().map(move |key| (table, key)));
    let rows: Vec<_> = foreign.map(|(table, key)| (table, key, key_of(state, key))).collect();
    let rule = |action: OnChange| Some(action.sql());
    Columns::default()
        .text("constraint_catalog", catalog(&rows))
        .text("constraint_schema", rows.iter().map(|row| Some(&row.0.name.schema)))
        .text("constraint_name", rows.iter().map(|row| Some(&row.1.name)))
        .text("unique_constraint_catalog", rows.iter().map(|row| row.2.map(|_| CATALOG)))
        .text("unique_constraint_schema", rows.iter().map(|row| row.2.map(|(table, _)| &table.name.schema)))
        .text("unique_constraint_name", rows.iter().map(|row| row.2.map(|(_, index)| &index.name)))
        .text("match_option", rows.iter().map(|row| Some(if row.1.is_full { "FULL" } else { "NONE" })))
        .text("update_rule", rows.iter().map(|row| rule(row.1.on_update)))
        .text("delete_rule", rows.iter().map(|row| rule(row.1.on_delete)))
}

/// `check_constraints`.
pub(super) fn check_constraints(state: &CatalogState) -> Columns {
    let of = |table: &'_ std::sync::Arc<TableEntry>| {
        let checks = table.rules.checks.iter();
        checks.map(|check| (table.name.schema.clone(), check.clone())).collect::<Vec<_>>()
    };
    let of_domains = state.domains().flat_map(|(_, domain)| of(&domain.of));
    let rows: Vec<_> = state.tables().flat_map(of).chain(of_domains).collect();
    Columns::default()
        .text("constraint_catalog", catalog(&rows))
        .text("constraint_schema", rows.iter().map(|row| Some(&row.0)))
        .text("constraint_name", rows.iter().map(|row| Some(&row.1.name)))
        .text("check_clause", rows.iter().map(|row| Some(format!("({})", row.1.condition.text))))
}

/// `domain_constraints`.
pub(super) fn domain_constraints(state: &CatalogState) -> Columns {
    let of = |(name, domain): (&Name, &'_ std::sync::Arc<DomainEntry>)| {
        let checks = domain.of.rules.checks.iter();
        checks.map(|check| (name.clone(), check.name.clone())).collect::<Vec<_>>()
    };
    let rows: Vec<(Name, String)> = state.domains().flat_map(of).collect();
    Columns::default()
        .text("constraint_catalog", catalog(&rows))
        .text("constraint_schema", rows.iter().map(|row| Some(&row.0.schema)))
        .text("constraint_name", rows.iter().map(|row| Some(&row.1)))
        .text("domain_catalog", catalog(&rows))
        .text("domain_schema", rows.iter().map(|row| Some(&row.0.schema)))
        .text("domain_name", rows.iter().map(|row| Some(&row.0.table)))
        .text("is_deferrable", rows.iter().map(|_| yes(false)))
        .text("initially_deferred", rows.iter().map(|_| yes(false)))
}

/// `constraint_column_usage`: the columns that keys and conditions are about, and for foreign keys those of the other
/// table.
pub(super) fn constraint_column_usage(state: &CatalogState) -> Columns {
    let mut rows: Vec<(&TableEntry, &str, &TableEntry, &str)> = Vec::new();
    for (table, of) in all(state) {
        let (other, columns) = match of {
            Constraint::Key(index) => (table, &index.columns),
            Constraint::Check(check) => (table, &check.condition.columns),
            Constraint::Foreign(key) => match state.by_id(key.to) {
                Some(other) => (other.as_ref(), &key.to_columns),
                None => continue,
            },
        };
        rows.extend(columns.iter().map(|column| (other, column.as_str(), table, of.name())));
    }
    Columns::default()
        .text("table_catalog", catalog(&rows))
        .text("table_schema", rows.iter().map(|row| Some(&row.0.name.schema)))
        .text("table_name", rows.iter().map(|row| Some(&row.0.name.table)))
        .text("column_name", rows.iter().map(|row| Some(row.1)))
        .text("constraint_catalog", catalog(&rows))
        .text("constraint_schema", rows.iter().map(|row| Some(&row.2.name.schema)))
        .text("constraint_name", rows.iter().map(|row| Some(row.3)))
}

/// `sequences`.
pub(super) fn sequences(state: &CatalogState) -> Columns {
    let rows: Vec<_> = state.sequences().collect();
    let bits = |sequence: &crate::catalog::sequences::SequenceSpec| match sequence.data_type.sql() {
        "SMALLINT" => 16,
        "INTEGER" => 32,
        _ => 64,
    };
    Columns::default()
        .text("sequence_catalog", catalog(&rows))
        .text("sequence_schema", rows.iter().map(|row| Some(&row.0.schema)))
        .text("sequence_name", rows.iter().map(|row| Some(&row.0.table)))
        .text("data_type", rows.iter().map(|row| Some(row.1.spec.data_type.sql().to_ascii_lowercase())))
        .number("numeric_precision", rows.iter().map(|row| Some(bits(&row.1.spec))))
        .number("numeric_precision_radix", rows.iter().map(|_| Some(2)))
        .number("numeric_scale", rows.iter().map(|_| Some(0)))
        .text("start_value", rows.iter().map(|row| Some(row.1.spec.start.to_string())))
        .text("minimum_value", rows.iter().map(|row| Some(row.1.spec.min.to_string())))
        .text("maximum_value", rows.iter().map(|row| Some(row.1.spec.max.to_string())))
        .text("increment", rows.iter().map(|row| Some(row.1.spec.increment.to_string())))
        .text("cycle_option", rows.iter().map(|row| Some(if row.1.spec.cycle { "YES" } else { "NO" })))
}
