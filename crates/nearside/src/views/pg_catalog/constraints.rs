//! `pg_constraint`, and constraints as they are written.

use std::sync::Arc;

use super::layout::{Row, Value};
use super::world::{World, places};
use crate::catalog::TableEntry;
use crate::catalog::domains::DomainEntry;
use crate::catalog::index::{IndexEntry, Origin};
use crate::catalog::rules::{Check, Deferral, ForeignKey, OnChange};
use crate::functions::quoting::ident;

enum Of<'a> {
    Key(&'a IndexEntry),
    Check(&'a Check),
    Foreign(&'a ForeignKey),
}

fn all(table: &TableEntry) -> Vec<Of<'_>> {
    let keys = table.indexes.iter().filter(|index| index.is_key()).map(Of::Key);
    let checks = table.rules.checks.iter().map(Of::Check);
    keys.chain(checks).chain(table.rules.foreign_keys.iter().map(Of::Foreign)).collect()
}

impl Of<'_> {
    fn name(&self) -> &str {
        match self {
            Of::Key(index) => &index.name,
            Of::Check(check) => &check.name,
            Of::Foreign(key) => &key.name,
        }
    }

    fn deferral(&self) -> Deferral {
        match self {
            Of::Key(index) => index.deferral,
            Of::Check(_) => Deferral::Never,
            Of::Foreign(key) => key.deferral,
        }
    }
}

/// `pg_constraint`.
pub(super) fn pg_constraint(world: &World<'_>) -> Vec<Row> {
    world
        .state
        .tables()
        .flat_map(|table| all(table).iter().map(|of| row(table, of, world)).collect::<Vec<_>>())
        .chain(world.state.domains().flat_map(|(_, domain)| of_domain(domain, world)))
        .collect()
}

/// The conditions of a domain.
fn of_domain(domain: &DomainEntry, world: &World<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = all(&domain.of).iter().map(|of| row(&domain.of, of, world)).collect();
    for (column, value) in rows.iter_mut().flatten() {
        match *column {
            "conrelid" => *value = 0_u32.into(),
            "contypid" => *value = domain.oid().into(),
            "conkey" => *value = Value::Null,
            _ => {}
        }
    }
    rows
}

fn row(table: &Arc<TableEntry>, of: &Of<'_>, world: &World<'_>) -> Row {
    let (kind, is_valid, keys) = match of {
        Of::Key(index) if index.origin == Origin::PrimaryKey => ("p", true, &index.columns),
        Of::Key(index) => ("u", true, &index.columns),
        Of::Check(check) => ("c", check.is_valid, &check.condition.columns),
        Of::Foreign(key) => ("f", true, &key.columns),
    };
    let mut row: Row = vec![
        ("oid", world.numbers.constraint(table, of.name()).into()),
        ("conname", of.name().into()),
        ("connamespace", world.numbers.schema(&table.name.schema).into()),
        ("contype", kind.into()),
        ("condeferrable", (of.deferral() != Deferral::Never).into()),
        ("condeferred", (of.deferral() == Deferral::Deferred).into()),
        ("convalidated", is_valid.into()),
        ("conrelid", world.numbers.table(table).into()),
        ("contypid", 0_u32.into()),
        ("conparentid", 0_u32.into()),
        ("conislocal", true.into()),
        ("coninhcount", 0_i64.into()),
        ("connoinherit", (kind != "c").into()),
        ("conkey", Value::Numbers(places(table, keys))),
    ];
    match of {
        Of::Key(index) => {
            row.push(("conindid", world.numbers.relation(&table.name.schema, &index.name).into()));
            row.extend(nothing_referred_to());
        }
        Of::Check(check) => {
            row.push(("conindid", 0_u32.into()));
            row.push(("conbin", check.condition.text.to_string().into()));
            row.extend(nothing_referred_to());
        }
        Of::Foreign(key) => {
            let to = world.state.by_id(key.to);
            let index = to.and_then(|to| {
                let is_it = |index: &&IndexEntry| {
                    let has = |column: &String| index.is_over(column);
                    index.unique && index.columns.len() == key.to_columns.len() && key.to_columns.iter().all(has)
                };
                let index = to.indexes.iter().find(is_it)?;
                Some(world.numbers.relation(&to.name.schema, &index.name))
            });
            row.extend([
                ("conindid", index.unwrap_or(0).into()),
                ("confrelid", world.numbers.table_of(key.to).into()),
                ("confupdtype", letter(key.on_update).into()),
                ("confdeltype", letter(key.on_delete).into()),
                ("confmatchtype", if key.is_full { "f" } else { "s" }.into()),
                ("confkey", to.map_or(Value::Null, |to| Value::Numbers(places(to, &key.to_columns)))),
            ]);
        }
    }
    row
}

fn nothing_referred_to() -> [(&'static str, Value); 4] {
    [
        ("confrelid", 0_u32.into()),
        ("confupdtype", " ".into()),
        ("confdeltype", " ".into()),
        ("confmatchtype", " ".into()),
    ]
}

fn letter(action: OnChange) -> &'static str {
    match action {
        OnChange::NoAction => "a",
        OnChange::Restrict => "r",
        OnChange::Cascade => "c",
        OnChange::SetNull => "n",
        OnChange::SetDefault => "d",
    }
}

/// A constraint as a statement has it, by its number; `is_short` leaves out brackets that nobody needs.
pub(super) fn definition(oid: i64, is_short: bool, world: &World<'_>) -> Option<String> {
    let of_table = |table: &'_ Arc<TableEntry>| {
        let of = all(table).into_iter().find(|of| i64::from(world.numbers.constraint(table, of.name())) == oid)?;
        Some(written(&of, is_short, world))
    };
    let of_domain = || world.state.domains().find_map(|(_, domain)| of_table(&domain.of));
    world.state.tables().find_map(of_table).or_else(of_domain)
}

fn written(of: &Of<'_>, is_short: bool, world: &World<'_>) -> String {
    let list = |columns: &[String]| columns.iter().map(|column| ident(column)).collect::<Vec<_>>().join(", ");
    match of {
        Of::Key(index) => {
            let kind = if index.origin == Origin::PrimaryKey { "PRIMARY KEY" } else { "UNIQUE" };
            format!("{kind} ({}){}", list(&index.columns), index.deferral.suffix())
        }
        Of::Check(check) => {
            let valid = if check.is_valid { "" } else { " NOT VALID" };
            let text = &check.condition.text;
            if is_short { format!("CHECK ({text}){valid}") } else { format!("CHECK (({text})){valid}") }
        }
        Of::Foreign(key) => {
            let to = world.state.by_id(key.to).map_or_else(String::new, |table| world.shown_table(table));
            let full = if key.is_full { " MATCH FULL" } else { "" };
            let action = |event, action: OnChange| match action {
                OnChange::NoAction => String::new(),
                action => format!(" ON {event} {}", action.sql()),
            };
            format!(
                "FOREIGN KEY ({}) REFERENCES {to}({}){full}{}{}{}",
                list(&key.columns),
                list(&key.to_columns),
                action("UPDATE", key.on_update),
                action("DELETE", key.on_delete),
                key.deferral.suffix()
            )
        }
    }
}
