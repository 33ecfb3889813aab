//! `pg_description`: what COMMENT ON has said.

use super::layout::Row;
use super::numbers::DATABASE;
use super::world::{World, place};
use crate::catalog::comments::Part;
use crate::catalog::rights::Thing;
use crate::catalog::{CatalogState, Entry};

/// The numbers of the tables that things are in.
const CLASS: u32 = 1259;
const CONSTRAINT: u32 = 2606;
const TYPE: u32 = 1247;
const FUNCTION: u32 = 1255;
const NAMESPACE: u32 = 2615;
const ROLE: u32 = 1260;
const DATABASES: u32 = 1262;

struct Said<'a> {
    of: u32,
    class: u32,
    column: i64,
    text: &'a str,
}

fn all<'a>(world: &World<'a>) -> Vec<Said<'a>> {
    let mut all = Vec::new();
    for (name, entry) in world.state.entries() {
        let own = world.numbers.entry(name, entry);
        for (part, text) in entry.comments().all() {
            let (of, class, column) = match (part, entry) {
                (None, Entry::Type(_) | Entry::Domain(_)) => (own, TYPE, 0),
                (None, Entry::Function(_)) => (own, FUNCTION, 0),
                (None, _) => (own, CLASS, 0),
                (Some((Part::Column, column)), Entry::Table(table)) => (own, CLASS, place(table, column)),
                (Some((Part::Index, index)), _) => (world.numbers.relation(&name.schema, index), CLASS, 0),
                (Some((Part::Constraint, constraint)), Entry::Table(table)) => {
                    (world.numbers.constraint(table, constraint), CONSTRAINT, 0)
                }
                (Some(_), _) => continue,
            };
            all.push(Said { of, class, column, text });
        }
    }
    for (thing, rights) in world.state.rights().all() {
        if let (Thing::Schema(schema), Some(text)) = (thing, &rights.comment) {
            all.push(Said { of: world.numbers.schema(schema), class: NAMESPACE, column: 0, text });
        }
    }
    all
}

/// What was said of what all databases of a server share: of roles, and of the database.
fn shared(state: &CatalogState) -> impl Iterator<Item = (u32, u32, &str)> {
    let roles = state.roles().all().filter_map(|(_, role)| Some((role.id, ROLE, role.comment.as_deref()?)));
    let rights = state.rights_to(&Thing::Database);
    let database = rights.and_then(|rights| rights.comment.as_deref()).map(|text| (DATABASE, DATABASES, text));
    roles.chain(database)
}

/// `pg_shdescription`.
pub(super) fn pg_shdescription(state: &CatalogState) -> Vec<Row> {
    let row = |(of, class, text): (u32, u32, &str)| {
        vec![("objoid", of.into()), ("classoid", class.into()), ("description", text.into())]
    };
    shared(state).map(row).collect()
}

/// What was said of a number in a table of what is shared.
pub(super) fn of_shared(number: i64, class: &str, state: &CatalogState) -> Option<String> {
    let class = match class {
        "pg_authid" => ROLE,
        "pg_database" => DATABASES,
        _ => return None,
    };
    let mut said = shared(state).filter(|(of, known, _)| i64::from(*of) == number && *known == class);
    said.next().map(|(_, _, text)| text.to_string())
}

/// `pg_description`.
pub(super) fn pg_description(world: &World<'_>) -> Vec<Row> {
    let row = |said: &Said<'_>| {
        vec![
            ("objoid", said.of.into()),
            ("classoid", said.class.into()),
            ("objsubid", said.column.into()),
            ("description", said.text.into()),
        ]
    };
    all(world).iter().map(row).collect()
}

/// What was said of a number, in a table of `pg_catalog` or in any, or of a column of it.
pub(super) fn of(number: i64, class: Option<&str>, column: i64, world: &World<'_>) -> Option<String> {
    let class = match class {
        None => None,
        Some("pg_class") => Some(CLASS),
        Some("pg_constraint") => Some(CONSTRAINT),
        Some("pg_type") => Some(TYPE),
        Some("pg_proc") => Some(FUNCTION),
        Some("pg_namespace") => Some(NAMESPACE),
        Some(_) => return None,
    };
    let is_it = |said: &&Said<'_>| {
        i64::from(said.of) == number && said.column == column && class.is_none_or(|class| class == said.class)
    };
    all(world).iter().find(is_it).map(|said| said.text.to_string())
}
