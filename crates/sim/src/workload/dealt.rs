//! Statements over several columns of several tables that RR deals out over the nodes: single columns or whole tables.
//!
//! VLDB 2015 deals columns in its section 6.1, where a statement reads one column, and whole tables in section 6.3,
//! where statements read several. A task reads its rows of all columns and runs near the node that most of these bytes
//! lie on, as the product's scans do.
//!
//! # Limits
//! Tables are alike. Results are small and not written. The hash table of a join lies where its build side's task runs.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.1, 6.1 and 6.3.

use super::columns::{Column, Pass, Read, Statement, Static};
use super::lookup::nodes_with_cpus;
use super::placed::{Phase, Placed, PlacedClients};
use crate::constants::Constants;
use crate::machine::Machine;

/// Bits of a code: the middle of the paper's 17 to 26.
const BITS: f64 = 21.0;
/// An entry of a join's hash table that is looked up in memory rather than in a cache.
const LINES_PER_PROBE: f64 = 1.0;
/// The share of statements that ask for the first table where they are skewed.
const HOT_SHARE: f64 = 0.8;

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
    /// What statements read.
    pub reads: Reads,
    /// Whether four of five statements ask for the first table.
    pub skewed: bool,
}

impl Dealt {
    /// The clients on a machine, over columns that stay where they are.
    pub fn workload(&self, lies: Static, machine: &Machine, constants: &Constants) -> PlacedClients {
        PlacedClients::new(self.placed(lies, &nodes_with_cpus(machine), constants), machine)
    }

    /// The same, of which the placer may be told to move columns.
    pub fn placed(&self, lies: Static, nodes: &[usize], constants: &Constants) -> Placed {
        let columns = self.all();
        let asked: Vec<(usize, usize)> =
            (0..self.tables).flat_map(|table| (0..self.columns).map(move |first| (table, first))).collect();
        // Every column is the first of a statement as often as any other of its table.
        let weight = |(table, _): &(usize, usize)| match (self.skewed && self.tables > 1, table) {
            (false, _) => 1.0,
            (true, 0) => HOT_SHARE,
            (true, _) => (1.0 - HOT_SHARE) / (self.tables - 1) as f64,
        };
        Placed {
            clients: self.clients,
            lies: lies.ranges(&columns, nodes),
            columns,
            statements: asked.iter().map(|(table, first)| self.statement(*table, *first, constants)).collect(),
            phases: vec![Phase { until_ns: u64::MAX, weights: asked.iter().map(weight).collect() }],
            memory_bytes: None,
            period_ns: None,
            tick_ns: 1_000_000_000,
        }
    }

    /// The columns, table by table.
    fn all(&self) -> Vec<Column> {
        let column = |place: usize| Column {
            table: place / self.columns,
            rows: self.rows,
            bytes: self.bytes(),
            dictionary_bytes: 0.0,
        };
        (0..self.tables * self.columns).map(column).collect()
    }

    fn bytes(&self) -> f64 {
        self.rows * BITS / 8.0
    }

    /// A statement over a table that begins with this of its columns.
    pub fn statement(&self, table: usize, first: usize, constants: &Constants) -> Statement {
        let per_row = |columns: usize, sums: usize| {
            constants.scan_ns_per_row() * columns as f64 + constants.sum_ns_per_row() * sums as f64
        };
        let pass = |table: usize, columns: usize, share: f64, ns_per_row: f64| {
            let column = |next: usize| table * self.columns + (first + next) % self.columns;
            let reads = (0..columns).map(|next| Read::scan(column(next), self.bytes() * share)).collect();
            Pass { reads, cpu_ns: self.rows * share * ns_per_row, tasks_max: None }
        };
        let passes = match self.reads {
            Reads::Sums(columns) => vec![pass(table, columns, 1.0, per_row(1, columns - 1))],
            // Eight aggregates, most of them over products: as the work of three sums each.
            Reads::Groups => vec![pass(table, 7, 1.0, per_row(7, 24))],
            Reads::Join => {
                let random = constants.random_access_ns();
                let build = pass((table + 1) % self.tables, 2, 0.1, per_row(2, 0) + random);
                let mut probe = pass(table, 3, 1.0, per_row(3, 1) + random);
                probe.reads[0].lines = self.rows * LINES_PER_PROBE / 8.0;
                vec![build, probe]
            }
        };
        Statement { passes }
    }
}

#[cfg(test)]
mod tests {
    use sched::{Preset, Settings};

    use super::*;
    use crate::Options;

    fn dealt(reads: Reads) -> Dealt {
        Dealt { clients: 64, tables: 8, rows: 1e6, columns: 10, reads, skewed: false }
    }

    #[test]
    fn statements_read_columns_that_follow_each_other() {
        let constants = Constants::default();
        let of = |reads, first| dealt(reads).statement(3, first, &constants);
        let columns = |statement: &Statement| statement.columns().collect::<Vec<_>>();
        assert_eq!(columns(&of(Reads::Sums(4), 8)), [38, 39, 30, 31]);
        assert_eq!(columns(&of(Reads::Join, 0)), [40, 41, 30, 31, 32]);
        assert_eq!(columns(&of(Reads::Groups, 0)).len(), 7);
        assert!(of(Reads::Groups, 0).passes[0].cpu_ns > 5.0 * of(Reads::Sums(4), 0).passes[0].cpu_ns);
    }

    #[test]
    fn a_hot_table_gets_four_statements_of_five() {
        let machine = Machine::parse("ivybridge-ex-4").unwrap();
        // Bound: nobody helps the node that has the hot table.
        let settings = Settings::preset(Preset::Bound);
        let options = Options { settings, warm_up_ns: 0, measured_ns: 20_000_000, ..Options::default() };
        let run = |lies, skewed| {
            let of = Dealt { skewed, ..dealt(Reads::Sums(1)) };
            let mut clients = of.workload(lies, &machine, &options.constants);
            crate::run(&machine, &options, &mut clients).unwrap()
        };
        let even = run(Static::RrTables, false);
        let hot = run(Static::RrTables, true);
        assert!(hot.statements_per_second() < 0.6 * even.statements_per_second(), "one node has most of the work");
        let columns = run(Static::RrColumns, true);
        assert!(columns.statements_per_second() > 1.5 * hot.statements_per_second(), "its columns lie on all nodes");
    }
}
