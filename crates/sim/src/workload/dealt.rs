//! Statements over several columns of several tables that RR deals out over the nodes: single columns or whole tables.
//!
//! VLDB 2015 deals columns in its section 6.1, where a statement reads one column, and whole tables in section 6.3,
//! where statements read several. A task reads its rows of all columns and runs near the node that most of these bytes
//! lie on, as the product's scans do.
//!
//! Invariant: both ways read the same bytes with the same cpu time; only where they lie differs.
//!
//! # Limits
//! Tables are alike. Results are small and not written. The hash table of a join lies where its build side's task runs.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.1, 6.1 and 6.3.

use super::query::{Input, Query, QueryClients};
use crate::constants::Constants;

/// Bits of a code: the middle of the paper's 17 to 26.
const BITS: f64 = 21.0;
/// An entry of a join's hash table that is looked up in memory rather than in a cache.
const LINES_PER_PROBE: f64 = 1.0;
/// A statement in `n` asks for the first table where statements are skewed.
const HOT_SHARE: (usize, usize) = (4, 5);

/// What RR deals out in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// Each column whole on one node; a table's first follows the last of the table before.
    Columns,
    /// Each table with all its columns on one node.
    Tables,
}

/// What statements do with the columns that they read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reads {
    /// A condition on the first column, a sum of each other one, over columns that follow each other.
    Sums(usize),
    /// As the first query of TPC-H: seven columns, of which two are grouped by, with so many sums of expressions that
    /// the cpu has more to do than the memory.
    Groups,
    /// Three columns of a table and two of the next, a tenth as long, which is built into a hash table.
    Join,
}

/// Clients that ask for tables at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dealt {
    /// In a closed loop.
    pub clients: usize,
    /// How many tables there are.
    pub tables: usize,
    /// Rows of each.
    pub rows: f64,
    /// Columns of each.
    pub columns: usize,
    /// What is dealt out.
    pub deal: Deal,
    /// What statements read.
    pub reads: Reads,
    /// Whether four of five statements ask for the first table.
    pub skewed: bool,
}

impl Dealt {
    /// The clients on a machine of `n` nodes.
    pub fn workload(&self, nodes: usize, constants: &Constants) -> QueryClients {
        let of = |table: usize| {
            // Every column is the first of a statement once, so that no column is asked for more than another.
            (0..self.columns).map(move |first| (table, first))
        };
        let all: Vec<(usize, usize)> = (0..self.tables).flat_map(of).collect();
        let mut asked = all.clone();
        if self.skewed && self.tables > 1 {
            // Statements are drawn evenly: the hot ones stand in the list as often as they are asked for.
            let (hot, of_all) = HOT_SHARE;
            let times = (all.len() - self.columns) * hot / ((of_all - hot) * self.columns);
            asked = all.iter().copied().skip(self.columns).collect();
            asked.extend((0..times).flat_map(|_| of(0)));
        }
        let queries = asked.into_iter().map(|(table, first)| self.query(table, first, nodes, constants));
        QueryClients::new(self.clients, queries.collect())
    }

    /// The node of a table's column.
    pub fn node_of(&self, table: usize, column: usize, nodes: usize) -> usize {
        match self.deal {
            Deal::Columns => (table * self.columns + column) % nodes,
            Deal::Tables => table % nodes,
        }
    }

    /// A statement over a table that begins with this of its columns.
    pub fn query(&self, table: usize, first: usize, nodes: usize, constants: &Constants) -> Query {
        let per_row = |columns: usize, sums: usize| {
            constants.scan_ns_per_row() * columns as f64 + constants.sum_ns_per_row() * sums as f64
        };
        let inputs = match self.reads {
            Reads::Sums(columns) => vec![self.input(table, first, columns, self.rows, per_row(1, columns - 1), nodes)],
            // Eight aggregates, most of them over products: as the work of three sums each.
            Reads::Groups => vec![self.input(table, first, 7, self.rows, per_row(7, 24), nodes)],
            Reads::Join => {
                let build_rows = self.rows / 10.0;
                let random = constants.random_access_ns();
                let other = (table + 1) % self.tables;
                let build = self.input(other, first, 2, build_rows, per_row(2, 0) + random, nodes);
                let mut probe = self.input(table, first, 3, self.rows, per_row(3, 1) + random, nodes);
                probe.lines = self.rows * LINES_PER_PROBE / 8.0;
                vec![build, probe]
            }
        };
        Query { inputs, merge_ns: 0.0, tasks: None, kind: 0 }
    }

    fn input(&self, table: usize, first: usize, columns: usize, rows: f64, ns_per_row: f64, nodes: usize) -> Input {
        let lies: Vec<usize> =
            (0..columns).map(|next| self.node_of(table, (first + next) % self.columns, nodes)).collect();
        let most = |node: &usize| lies.iter().filter(|other| *other == node).count();
        // The first of those that hold most, as columns that weigh alike are told apart by their order.
        let near = lies.iter().copied().rev().max_by_key(most).unwrap_or(0);
        Input {
            bytes: rows * columns as f64 * BITS / 8.0,
            lines: 0.0,
            cpu_ns: rows * ns_per_row,
            result_bytes: 0.0,
            result_node: None,
            near: vec![near],
            nodes: lies,
        }
    }
}

#[cfg(test)]
mod tests {
    use sched::{Preset, Settings};

    use super::*;
    use crate::{Machine, Options};

    fn dealt(deal: Deal, reads: Reads) -> Dealt {
        Dealt { clients: 64, tables: 8, rows: 1e6, columns: 10, deal, reads, skewed: false }
    }

    #[test]
    fn both_ways_read_the_same_and_differ_in_where_it_lies() {
        let constants = Constants::default();
        for reads in [Reads::Sums(1), Reads::Sums(4), Reads::Groups, Reads::Join] {
            let of = |deal| dealt(deal, reads).query(3, 8, 4, &constants);
            let columns = of(Deal::Columns);
            let tables = of(Deal::Tables);
            for (a, b) in columns.inputs.iter().zip(&tables.inputs) {
                assert_eq!((a.bytes, a.cpu_ns, a.lines), (b.bytes, b.cpu_ns, b.lines));
                assert!(b.nodes.iter().all(|node| *node == b.near[0]), "a table is whole");
                assert!(a.nodes.contains(&a.near[0]));
            }
        }
        let spread = dealt(Deal::Columns, Reads::Sums(4)).query(0, 0, 4, &constants);
        assert_eq!(
            (spread.inputs[0].nodes.as_slice(), spread.inputs[0].near.as_slice()),
            (&[0, 1, 2, 3][..], &[0][..])
        );
        let most = dealt(Deal::Columns, Reads::Sums(4)).query(0, 1, 3, &constants);
        assert_eq!((most.inputs[0].nodes.as_slice(), most.inputs[0].near.as_slice()), (&[1, 2, 0, 1][..], &[1][..]));
    }

    #[test]
    fn a_hot_table_gets_four_statements_of_five() {
        let machine = Machine::parse("ivybridge-ex-4").unwrap();
        // Bound: nobody helps the node that has the hot table.
        let settings = Settings::preset(Preset::Bound);
        let options = Options { settings, warm_up_ns: 0, measured_ns: 20_000_000, ..Options::default() };
        let run = |deal, skewed| {
            let mut clients = Dealt { skewed, ..dealt(deal, Reads::Sums(1)) }.workload(4, &options.constants);
            crate::run(&machine, &options, &mut clients).unwrap()
        };
        let even = run(Deal::Tables, false);
        let hot = run(Deal::Tables, true);
        assert!(hot.statements_per_second() < 0.6 * even.statements_per_second(), "one node has most of the work");
        let columns = run(Deal::Columns, true);
        assert!(columns.statements_per_second() > 1.5 * hot.statements_per_second(), "its columns lie on all nodes");
    }
}
