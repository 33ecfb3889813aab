//! Random workloads that try to make the placer lose: machines, sizes, skews, clients and beginnings are drawn.
//!
//! Invariant: a seed draws the same workload on every machine and in every run.

use random::Random;
use sched::{Preset, Settings};
use sim::workload::columns::{Column, Pass, Read, Statement, Static, range_scan};
use sim::workload::placed::{Phase, Placed};
use sim::{Machine, Options};

use super::suite::{Case, Must, nodes_of, settings_of, with_dictionary};

/// Small enough to run many of them.
const MACHINES: [&str; 4] = ["ivybridge-ex-4", "nbb-xeon-4", "eris-intel-4", "skylake-2-snc-on"];
const BITS: f64 = 21.0;

/// A workload that was drawn.
pub struct Drawn {
    /// The workload.
    pub case: Case,
    /// Its machine.
    pub machine: Machine,
    /// How it is run.
    pub options: Options,
    /// What it is.
    pub about: String,
}

/// Draws a workload.
pub fn draw(seed: u64) -> Drawn {
    let mut random = Random::new(seed);
    let name = random.pick(&MACHINES);
    let machine = Machine::parse(name).expect("published");
    let bound = random.one_in(2);
    let settings = if bound { Settings::preset(Preset::Bound) } else { settings_of(&machine) };
    let dispatch_ns = random.pick(&[0, 0, 2_000, 17_000]);
    let options = Options { seed, settings, dispatch_ns, ..Options::default() }.on(&machine);
    let nodes = nodes_of(&machine);
    let tables = 1 + random.below(4);
    let per_table = 1 + random.below(2 * nodes.len());
    let mut columns: Vec<Column> = Vec::new();
    for table in 0..tables {
        let rows = random.pick(&[3e7, 1e8, 1e8, 3e8]);
        columns.extend(
            (0..per_table)
                .map(|_| with_dictionary(Column { table, rows, bytes: rows * BITS / 8.0, dictionary_bytes: 0.0 })),
        );
    }
    let exponent = random.pick(&[0.0, 0.0, 0.5, 1.0, 2.0]);
    let hot = random.pick(&[0, 0, 1, 2]);
    let (mut statements, mut weights) = (Vec::new(), Vec::new());
    let wide = random.pick(&[1, 1, 2, 4]);
    let selectivity = random.pick(&[1e-5, 1e-5, 1e-3, 0.05]);
    for first in 0..columns.len() {
        let mut statement = range_scan(first, columns[first].rows, BITS, selectivity, &options.constants);
        add_columns(&mut statement, &columns, first, wide.min(per_table), &options);
        statements.push(statement);
        weights.push(1.0 / (1.0 + first as f64).powf(exponent));
    }
    for _ in 0..hot {
        let place = random.below(weights.len());
        weights[place] += random.pick(&[1.0, 4.0]) * weights.iter().sum::<f64>();
    }
    // Which columns are asked for most has nothing to do with where they lie.
    for place in (1..weights.len()).rev() {
        weights.swap(place, random.below(place + 1));
    }
    let from = random.pick(&[Static::RrColumns, Static::RrColumns, Static::RrTables, Static::Blocks]);
    let clients = random.pick(&[1, 4, 16, 64, 256]);
    let what = Placed {
        clients,
        lies: from.ranges(&columns, &nodes),
        statements,
        phases: vec![Phase { until_ns: u64::MAX, weights: weights.clone() }],
        memory_bytes: None,
        period_ns: None,
        tick_ns: 500_000_000,
        columns,
    };
    let about = format!(
        "{name}, {}, dispatch {} us, {tables} tables of {per_table} columns, rows {:?}, statements over {wide}, \
         selectivity {selectivity}, {clients} clients, from {from:?}, weights {:.2?}",
        if bound { "bound" } else { "default" },
        dispatch_ns / 1000,
        what.columns.iter().step_by(per_table).map(|column| column.rows).collect::<Vec<_>>(),
        weights
    );
    let case = Case { name: format!("random-{seed}"), what, from, must: Must::ComeNear, nodes };
    Drawn { case, machine, options, about }
}

/// A statement also sums up the columns behind its first, as far as its table has some.
fn add_columns(statement: &mut Statement, columns: &[Column], first: usize, wide: usize, options: &Options) {
    let table = columns[first].table;
    let own: Vec<usize> = (0..columns.len()).filter(|place| columns[*place].table == table).collect();
    let begin = first - own[0];
    let rows = columns[first].rows;
    let Some(Pass { reads, cpu_ns, .. }) = statement.passes.first_mut() else { return };
    for next in 1..wide {
        reads.push(Read::scan(own[(begin + next) % own.len()], rows * BITS / 8.0));
        *cpu_ns += rows * options.constants.sum_ns_per_row();
    }
}
