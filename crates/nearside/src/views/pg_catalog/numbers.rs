//! Numbers of what there is (`oid`), the same for as long as it has its name, across restarts.
//!
//! ```text
//! up to 16383       what is PostgreSQL's: its types, its tables, the schema public
//! 16384 + id        tables and sequences, which keep their number when they are renamed
//! from 2^30 to 2^31 the rest, by a hash of its kind and name; of two with one hash, the later one has the next number
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::layout;
use crate::catalog::{
    CatalogState, DEFAULT_SCHEMA, Entry, INFORMATION_SCHEMA, Name, PG_CATALOG, SYSTEM_SCHEMA, TableEntry,
};

/// The first number that PostgreSQL leaves to users.
const FIRST: u64 = 16_384;
/// The first of those that are found by a hash.
const HASHED: u32 = 1 << 30;

/// The one user, who owns everything: PostgreSQL's number of its first one.
pub(super) const USER: u32 = 10;
/// The one database.
pub(super) const DATABASE: u32 = 5;
/// How rows are kept: `heap`.
pub(super) const TABLE_METHOD: u32 = 2;
/// How indexes are kept: `btree`.
pub(super) const INDEX_METHOD: u32 = 403;

/// What a number is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Schema,
    /// A view, files, an index.
    Relation,
    Constraint,
    Default,
    Function,
    Label,
}

type Key = (Kind, String, String);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<Key, u32>);

fn hash((kind, outer, inner): &Key) -> u32 {
    // FNV-1a, which is the same in all versions of the program.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let kind = [*kind as u8];
    for byte in kind.iter().chain(outer.as_bytes()).chain(&[0]).chain(inner.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    HASHED | ((hash ^ (hash >> 32)) as u32 & (HASHED - 1))
}

/// The number of a table or a sequence.
fn of_id(id: u64) -> u32 {
    u32::try_from(FIRST + id).unwrap_or(u32::MAX)
}

/// The name of something of a table: a constraint, a default.
fn within(table: &TableEntry) -> String {
    format!("{}\0{}", table.name.schema, table.name.table)
}

impl Numbers {
    /// Of all that a state of the catalog has, of views of the system, and of functions.
    pub(super) fn new<'a>(
        state: &CatalogState,
        system: impl Iterator<Item = &'a str>,
        functions: impl Iterator<Item = &'a str>,
    ) -> Numbers {
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        let mut add = |kind, outer: &str, inner: &str| {
            keys.insert((kind, outer.to_string(), inner.to_string()));
        };
        for schema in state.schemas().chain([SYSTEM_SCHEMA, INFORMATION_SCHEMA]) {
            add(Kind::Schema, schema, "");
        }
        for (name, entry) in state.entries() {
            match entry {
                Entry::View(_) | Entry::External(_) => add(Kind::Relation, &name.schema, &name.table),
                Entry::Type(found) => {
                    let of = format!("{}\0{}", name.schema, name.table);
                    found.of.labels.iter().for_each(|label| add(Kind::Label, &of, label));
                }
                Entry::Domain(found) => {
                    let of = within(&found.of);
                    found.of.rules.checks.iter().for_each(|check| add(Kind::Constraint, &of, &check.name));
                }
                Entry::Table(_) | Entry::Sequence(_) | Entry::Function(_) => {}
            }
        }
        for table in state.tables() {
            let of = within(table);
            for index in table.indexes.iter() {
                add(Kind::Relation, &table.name.schema, &index.name);
                add(Kind::Constraint, &of, &index.name);
            }
            table.rules.checks.iter().for_each(|check| add(Kind::Constraint, &of, &check.name));
            table.rules.foreign_keys.iter().for_each(|key| add(Kind::Constraint, &of, &key.name));
            table.base.schema.fields().iter().for_each(|field| add(Kind::Default, &of, field.name()));
        }
        system.for_each(|view| add(Kind::Relation, SYSTEM_SCHEMA, view));
        functions.for_each(|function| add(Kind::Function, PG_CATALOG, function));
        let mut taken = BTreeSet::new();
        let mut numbers = BTreeMap::new();
        for key in keys {
            let mut number = hash(&key);
            while !taken.insert(number) {
                number = HASHED | ((number + 1) & (HASHED - 1));
            }
            numbers.insert(key, number);
        }
        Numbers(numbers)
    }

    fn of(&self, kind: Kind, outer: &str, inner: &str) -> u32 {
        self.0.get(&(kind, outer.to_string(), inner.to_string())).copied().unwrap_or(0)
    }

    /// A schema's; 0 where there is none.
    pub(super) fn schema(&self, schema: &str) -> u32 {
        match schema {
            PG_CATALOG => 11,
            DEFAULT_SCHEMA => 2200,
            other => self.of(Kind::Schema, other, ""),
        }
    }

    /// A table's, a view's or a sequence's, by what its name stands for.
    pub(super) fn entry(&self, name: &Name, entry: &Entry) -> u32 {
        match entry {
            Entry::Table(table) => of_id(table.id),
            Entry::Sequence(sequence) => of_id(sequence.id),
            Entry::Type(found) => found.of.oid(),
            Entry::Function(found) => found.of.oid(),
            Entry::Domain(found) => found.oid(),
            Entry::View(_) | Entry::External(_) => self.of(Kind::Relation, &name.schema, &name.table),
        }
    }

    /// A table's.
    pub(super) fn table(&self, table: &TableEntry) -> u32 {
        of_id(table.id)
    }

    /// That of a table by its identity.
    pub(super) fn table_of(&self, id: u64) -> u32 {
        of_id(id)
    }

    /// That of a system view or of an index.
    pub(super) fn relation(&self, schema: &str, name: &str) -> u32 {
        match schema {
            PG_CATALOG => layout::of(name).map_or(0, |layout| layout.oid),
            _ => self.of(Kind::Relation, schema, name),
        }
    }

    /// A constraint's.
    pub(super) fn constraint(&self, table: &TableEntry, name: &str) -> u32 {
        self.of(Kind::Constraint, &within(table), name)
    }

    /// That of a column's default.
    pub(super) fn default(&self, table: &TableEntry, column: &str) -> u32 {
        self.of(Kind::Default, &within(table), column)
    }

    /// That of a label of an enum.
    pub(super) fn label(&self, of: &Name, label: &str) -> u32 {
        self.of(Kind::Label, &format!("{}\0{}", of.schema, of.table), label)
    }

    /// A function's.
    pub(super) fn function(&self, name: &str) -> u32 {
        match name {
            // What types that are arrays are told by.
            "array_in" => 750,
            other => self.of(Kind::Function, PG_CATALOG, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_again_and_no_two_alike() {
        let mut state = CatalogState::default();
        for n in 0..2000 {
            state.create_schema(&format!("s{n}"));
        }
        let of = |state: &CatalogState| Numbers::new(state, ["nodes"].into_iter(), ["abs"].into_iter());
        let numbers = of(&state);
        let all: BTreeSet<u32> = (0..2000).map(|n| numbers.schema(&format!("s{n}"))).collect();
        assert_eq!(all.len(), 2000);
        assert!(all.iter().all(|number| (HASHED..2 * HASHED).contains(number)));
        let before = numbers.schema("s7");
        state.create_schema("another");
        assert_eq!(of(&state).schema("s7"), before);
        assert_eq!(numbers.schema("none"), 0);
        assert_eq!(numbers.relation(PG_CATALOG, "pg_type"), 1247);
    }
}
