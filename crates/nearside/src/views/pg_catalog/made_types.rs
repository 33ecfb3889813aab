//! Types that statements have made, in `pg_type` and `pg_enum` and by their names and numbers.

use super::layout::Row;
use super::types::{self, Known};
use super::world::World;
use crate::catalog::rights::Thing;
use crate::catalog::user_types::EnumType;
use crate::catalog::{Entry, Name};
use crate::functions::quoting::ident;

/// What all enums have in common.
const ENUM: Known =
    Known { kind: "e", functions: "enum_", ..types::known(0, "", "", (4, true), ("E", false), 0, ("i", "p")) };

fn enums<'a>(world: &World<'a>) -> impl Iterator<Item = (&'a Name, &'a EnumType)> {
    world.state.entries().filter_map(|(name, entry)| match entry {
        Entry::Type(found) => Some((name, found.of.as_ref())),
        _ => None,
    })
}

fn by_number<'a>(oid: i64, world: &World<'a>) -> Option<(&'a Name, &'a EnumType)> {
    enums(world).find(|(_, of)| i64::from(of.oid()) == oid)
}

/// The number of a type by its name; without a schema as it is looked up.
pub(super) fn named(schema: Option<&str>, name: &str, world: &World<'_>) -> Option<u32> {
    let within = |schema: &str| enums(world).find(|(known, _)| known.schema == schema && known.table == name);
    let found = match schema {
        Some(schema) => within(schema),
        None => world.path().iter().find_map(|schema| within(schema)),
    };
    found.map(|(_, of)| of.oid())
}

/// Whether there is a type of a number.
pub(super) fn is_known(oid: i64, world: &World<'_>) -> bool {
    u32::try_from(oid).ok().and_then(types::of).is_some() || by_number(oid, world).is_some()
}

/// Whether a type is found by its name alone.
pub(super) fn is_visible(oid: i64, world: &World<'_>) -> bool {
    match by_number(oid, world) {
        Some((name, of)) => named(None, &name.table, world) == Some(of.oid()),
        None => u32::try_from(oid).ok().and_then(types::of).is_some(),
    }
}

/// A type as SQL writes it.
pub(super) fn format_type(oid: i64, modifier: Option<i64>, world: &World<'_>) -> String {
    match by_number(oid, world) {
        Some((name, _)) if is_visible(oid, world) => ident(&name.table),
        Some((name, _)) => format!("{}.{}", ident(&name.schema), ident(&name.table)),
        None => types::format_type(oid, modifier),
    }
}

/// `pg_type`.
pub(super) fn pg_type(world: &World<'_>) -> Vec<Row> {
    let mut rows = types::pg_type();
    for (name, of) in enums(world) {
        let mut row = types::row(&ENUM, of.oid(), name.table.clone(), 0, 0);
        for (column, value) in &mut row {
            match *column {
                "typnamespace" => *value = world.numbers.schema(&name.schema).into(),
                "typowner" => *value = world.state.owner_of(&Thing::named(name)).into(),
                _ => {}
            }
        }
        rows.push(row);
    }
    rows
}

/// `pg_enum`: the labels.
pub(super) fn pg_enum(world: &World<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, of) in enums(world) {
        for (place, label) in of.labels.iter().enumerate() {
            rows.push(vec![
                ("oid", world.numbers.label(name, label).into()),
                ("enumtypid", of.oid().into()),
                ("enumsortorder", (place as i64 + 1).into()),
                ("enumlabel", label.as_str().into()),
            ]);
        }
    }
    rows
}
