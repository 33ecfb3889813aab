//! Types that statements have made, in `pg_type` and `pg_enum` and by their names and numbers.

use super::layout::Row;
use super::types::{self, Known};
use super::world::World;
use crate::catalog::domains::DomainEntry;
use crate::catalog::lengths::told;
use crate::catalog::pg_types::of_field;
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

fn domains<'a>(world: &World<'a>) -> impl Iterator<Item = (&'a Name, &'a DomainEntry)> {
    world.state.domains().map(|(name, of)| (name, of.as_ref()))
}

/// Names and numbers of all.
fn all<'a>(world: &World<'a>) -> impl Iterator<Item = (&'a Name, u32)> {
    enums(world).map(|(name, of)| (name, of.oid())).chain(domains(world).map(|(name, of)| (name, of.oid())))
}

fn by_number<'a>(oid: i64, world: &World<'a>) -> Option<(&'a Name, u32)> {
    all(world).find(|(_, of)| i64::from(*of) == oid)
}

/// The number of a type by its name; without a schema as it is looked up.
pub(super) fn named(schema: Option<&str>, name: &str, world: &World<'_>) -> Option<u32> {
    let within = |schema: &str| all(world).find(|(known, _)| known.schema == schema && known.table == name);
    let found = match schema {
        Some(schema) => within(schema),
        None => world.path().iter().find_map(|schema| within(schema)),
    };
    found.map(|(_, of)| of)
}

/// Whether there is a type of a number.
pub(super) fn is_known(oid: i64, world: &World<'_>) -> bool {
    u32::try_from(oid).ok().and_then(types::of).is_some() || by_number(oid, world).is_some()
}

/// Whether a type is found by its name alone.
pub(super) fn is_visible(oid: i64, world: &World<'_>) -> bool {
    match by_number(oid, world) {
        Some((name, of)) => named(None, &name.table, world) == Some(of),
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
    rows.extend(domains(world).filter_map(|(name, of)| domain(name, of, world)));
    rows
}

/// A domain's row, which is that of the type that it is over but for what is its own.
fn domain(name: &Name, of: &DomainEntry, world: &World<'_>) -> Option<Row> {
    let schema = told(&of.of.base.schema, &of.of.lengths);
    let base = of_field(schema.field(0));
    let (known, _) = types::of(base.oid)?;
    let over = of.over.and_then(|id| world.state.domain_of(id)).map(|(_, over)| over.oid());
    let mut row = types::row(known, of.oid(), name.table.clone(), 0, 0);
    for (column, value) in &mut row {
        match *column {
            "typnamespace" => *value = world.numbers.schema(&name.schema).into(),
            "typowner" => *value = world.state.owner_of(&Thing::named(name)).into(),
            "typtype" => *value = "d".into(),
            "typispreferred" => *value = false.into(),
            "typinput" => *value = "domain_in".into(),
            "typreceive" => *value = "domain_recv".into(),
            "typnotnull" => *value = of.is_required().into(),
            "typbasetype" => *value = over.unwrap_or(base.oid).into(),
            "typtypmod" => *value = if over.is_some() { (-1_i64).into() } else { i64::from(base.modifier).into() },
            _ => {}
        }
    }
    row.push(("typdefault", of.default().map(|default| default.text.to_string()).into()));
    Some(row)
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
