//! Which columns of a table the same tasks touched: what shall lie on one node because it is read together.
//!
//! Per set of columns, not per pair: a task adds to one set of each table that it touched, whatever it has columns.
//!
//! # Limits
//! The first 64 columns of a table are told apart, and [`SETS_MAX`] sets. One more, and all are forgotten: those of
//! tables that are gone would else keep out new ones for good, and who reads differences misses them once.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use foldhash::fast::FixedState;

use super::{Line, TouchedComponent};

/// Sets of columns that an account tells apart.
const SETS_MAX: usize = 4096;
/// The columns of a table that are told apart.
const COLUMNS_MAX: usize = u64::BITS as usize;

/// Columns of one table that the same tasks touched, two at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TouchedTogether {
    /// The table.
    pub table: Arc<str>,
    /// The columns, in the table's order, with the bytes of each that these tasks touched.
    pub columns: Vec<(String, u64)>,
}

/// Columns of a table, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ColumnSet {
    table: u32,
    columns: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ColumnSets {
    /// Bytes of each column of a set, in the table's order.
    bytes: HashMap<ColumnSet, Vec<u64>, FixedState>,
}

impl ColumnSet {
    fn places(self) -> impl Iterator<Item = usize> {
        (0..COLUMNS_MAX).filter(move |place| self.columns >> place & 1 == 1)
    }
}

impl ColumnSets {
    /// Adds what one task touched.
    pub(super) fn add(&mut self, lines: &[Line]) {
        let is_told =
            |line: &&Line| line.item.component != TouchedComponent::Output && (line.item.column as usize) < COLUMNS_MAX;
        let told = || lines.iter().filter(is_told);
        for (place, first) in told().enumerate() {
            let table = first.item.table;
            if told().take(place).any(|line| line.item.table == table) {
                continue;
            }
            let mut bytes = [0; COLUMNS_MAX];
            let mut set = ColumnSet { table, columns: 0 };
            for line in told().filter(|line| line.item.table == table) {
                bytes[line.item.column as usize] += line.bytes;
                set.columns |= 1 << line.item.column;
            }
            if set.columns.count_ones() > 1 {
                self.add_set(set, set.places().map(|place| bytes[place]));
            }
        }
    }

    /// Adds what another one has, whose tables have these numbers here.
    pub(super) fn absorb(&mut self, other: &ColumnSets, numbers: &[u32]) {
        for (set, bytes) in &other.bytes {
            self.add_set(ColumnSet { table: numbers[set.table as usize], ..*set }, bytes.iter().copied());
        }
    }

    fn add_set(&mut self, set: ColumnSet, bytes: impl Iterator<Item = u64>) {
        if self.bytes.len() >= SETS_MAX && !self.bytes.contains_key(&set) {
            self.bytes.clear();
        }
        let known = self.bytes.entry(set).or_insert_with(|| vec![0; set.columns.count_ones() as usize]);
        known.iter_mut().zip(bytes).for_each(|(known, bytes)| *known += bytes);
    }

    /// All of it, given the tables by their numbers.
    pub(super) fn told(&self, tables: &[(Arc<str>, SchemaRef)]) -> Vec<TouchedTogether> {
        let mut sets: Vec<(&ColumnSet, &Vec<u64>)> = self.bytes.iter().collect();
        sets.sort();
        let told = |(set, bytes): (&ColumnSet, &Vec<u64>)| {
            let (table, schema) = &tables[set.table as usize];
            let name = |place: usize| Some(schema.fields().get(place)?.name().clone());
            let columns = set.places().zip(bytes).filter_map(|(place, bytes)| Some((name(place)?, *bytes))).collect();
            TouchedTogether { table: Arc::clone(table), columns }
        };
        sets.into_iter().map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use numa::NodeId;

    use super::super::{Item, TouchPhase, Traffic};
    use super::*;

    #[test]
    fn tasks_add_to_the_set_of_the_columns_that_they_touched() {
        let field = |place: usize| Field::new(format!("c{place}"), DataType::Int64, false);
        let schema: SchemaRef = Arc::new(Schema::new((0..70).map(field).collect::<Vec<_>>()));
        let all = Arc::new(Traffic::of_all(2));
        let names: [Arc<str>; 2] = ["b".into(), "a".into()];
        let task = |touched: &[(usize, u32, u64)]| {
            let statement = Traffic::within(Arc::clone(&all));
            let line = |&(name, column, bytes): &(usize, u32, u64)| {
                let table = statement.table(&names[name], &schema);
                let item = Item { table, column, part: 0, component: TouchedComponent::Codes };
                Line { item, phase: TouchPhase::Find, from: NodeId(0), bytes }
            };
            statement.add(&touched.iter().map(line).collect::<Vec<_>>(), 1);
        };
        // Two of one table, in any order, and one of another; a column twice.
        task(&[(1, 3, 10), (0, 0, 100), (1, 1, 20)]);
        task(&[(1, 1, 1), (1, 3, 2), (1, 1, 4)]);
        task(&[(0, 0, 7), (0, 63, 1), (0, 64, 9)]);
        // One column of each, and of the last ones: nothing is together.
        task(&[(0, 0, 5), (1, 0, 5)]);
        task(&[(0, 65, 5), (0, 66, 5)]);
        let told = |table: &str, columns: &[(&str, u64)]| TouchedTogether {
            table: table.into(),
            columns: columns.iter().map(|(name, bytes)| ((*name).to_string(), *bytes)).collect(),
        };
        let mut found = all.together();
        found.sort_by(|a, b| a.table.cmp(&b.table));
        assert_eq!(found, [told("a", &[("c1", 25), ("c3", 12)]), told("b", &[("c0", 7), ("c63", 1)])]);
    }

    #[test]
    fn new_sets_are_told_of_whatever_was_there_before() {
        let mut sets = ColumnSets::default();
        for columns in 0..=SETS_MAX as u64 {
            sets.add_set(ColumnSet { table: 0, columns: columns << 2 | 3 }, [1, 2].into_iter());
            assert!(sets.bytes.len() <= SETS_MAX);
        }
        let last = ColumnSet { table: 0, columns: (SETS_MAX as u64) << 2 | 3 };
        assert_eq!(sets.bytes[&last][..2], [1, 2]);
    }
}
