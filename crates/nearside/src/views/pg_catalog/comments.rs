//! `pg_description`: what COMMENT ON has said.

use super::layout::Row;
use super::world::{World, place};
use crate::catalog::Entry;
use crate::catalog::comments::Part;

/// The numbers of the tables that things are in.
const CLASS: u32 = 1259;
const CONSTRAINT: u32 = 2606;
const TYPE: u32 = 1247;

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
                (None, Entry::Type(_)) => (own, TYPE, 0),
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
    all
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
        Some(_) => return None,
    };
    let is_it = |said: &&Said<'_>| {
        i64::from(said.of) == number && said.column == column && class.is_none_or(|class| class == said.class)
    };
    all(world).iter().find(is_it).map(|said| said.text.to_string())
}
