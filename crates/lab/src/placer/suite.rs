//! The workloads that the placer is judged with, for a machine of any number of nodes.
//!
//! Sizes are the papers' where they print one: columns of 100 million rows (VLDB 2015, section 6.1), one table for
//! TPC-H's first query and three for BW-EML (section 6.3). What no paper prints (how skewed, how long a phase, how many
//! rows a load has) is an assumption; [`super::search`] draws others.

use sched::{Calibration, Settings};
use sim::machine::NodeFacts;
use sim::workload::columns::{Column, Pass, Read, Statement, Static, range_scan};
use sim::workload::dealt::{Dealt, Reads};
use sim::workload::placed::{Phase, Placed};
use sim::{Constants, Machine};

/// Rows of a column.
const ROWS: f64 = 1e8;
/// Bits of a code: the middle of the paper's 17 to 26.
const BITS: f64 = 21.0;
/// The share of statements that ask for what is hot.
const HOT: f64 = 0.8;
/// How long a phase of a workload that changes is, in seconds: what is to move takes some tens of seconds, throttled as
/// it is.
const PHASE_S: u64 = 150;
const SECOND_NS: u64 = 1_000_000_000;
/// How full nodes with cpus are at the beginning where memory is short.
const FILLED: f64 = 0.95;
/// A machine with memory without cpus, all of it assumed: two packages, each with an expander beside it. Local and
/// other package's figures are of the order of a server of 2023 with eight channels of DDR5; what an expander adds
/// (some 150 ns; a CXL 1.1 link of 16 lanes gives half of its 64 GB/s to reads of one direction) is of the order of
/// what makers and first studies say. No paper of this project has measured one.
pub const TIERED: &str = "2x1x16x2;mem=256G;cpuless=2;cpuless-mem=512G;kind=cxl;l3=60M;\
                          latency=110,110,200,260,380;bandwidth=200G,200G,60G,28G,16G";

/// What the placer must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// At least 95% of the best placement that does not change.
    ComeNear,
    /// Besides, leave everything where it is, also where ranges would be a little better.
    LeaveAlone,
}

/// A workload of the suite.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// What it is.
    pub what: Placed,
    /// Where columns lie at first.
    pub from: Static,
    /// What the placer must come to.
    pub must: Must,
    /// The nodes that columns lie on where the placer does not move them.
    pub nodes: Vec<usize>,
}

/// The names of the suite's workloads, in order.
pub const NAMES: [&str; 18] = [
    "uniform",
    "uniform-many",
    "skewed",
    "one-hot-column",
    "shifting-skew",
    "selectivity-phases",
    "few-clients",
    "many-clients",
    "multi-column",
    "mixed-tables",
    "joins",
    "tpch-q1",
    "bw-eml",
    "loads-beside",
    "keyed",
    "tiers",
    "v6",
    "v12",
];

/// One of the suite, on a machine; `None` for a name that is not in it.
pub fn case(name: &str, machine: &Machine, constants: &Constants) -> Option<Case> {
    // Only where memory is short does anything begin on memory without cpus.
    let nodes = if name == "tiers" { (0..machine.node_count()).collect() } else { nodes_of(machine) };
    let count = nodes.len();
    let of = Maker { nodes: &nodes, constants, clients: 16 * count };
    let hot_on_first = |place: usize| if place.is_multiple_of(count) { 1.0 } else { 0.0 };
    let (what, from, must) = match name {
        "uniform" => (of.scans(4 * count, |_| 1.0), Static::RrColumns, Must::ComeNear),
        // So many that every node always has something to do.
        "uniform-many" => {
            (Placed { clients: 64 * count, ..of.scans(4 * count, |_| 1.0) }, Static::RrColumns, Must::LeaveAlone)
        }
        // The columns of the first node are asked for.
        "skewed" => (of.scans(4 * count, skew(HOT, 4 * count, hot_on_first)), Static::RrColumns, Must::ComeNear),
        "one-hot-column" => (
            of.scans(4 * count, skew(HOT, 4 * count, |c| f64::from(u8::from(c == 1)))),
            Static::RrColumns,
            Must::ComeNear,
        ),
        "shifting-skew" => (of.shifting(), Static::RrColumns, Must::ComeNear),
        "selectivity-phases" => (of.selectivities(), Static::RrColumns, Must::ComeNear),
        "few-clients" => {
            let skewed = of.scans(4 * count, skew(HOT, 4 * count, hot_on_first));
            (Placed { clients: 4, ..skewed }, Static::RrColumns, Must::ComeNear)
        }
        "many-clients" => {
            let skewed = of.scans(4 * count, skew(HOT, 4 * count, hot_on_first));
            (Placed { clients: 1024, ..skewed }, Static::RrColumns, Must::ComeNear)
        }
        "multi-column" => (of.dealt(2 * count, 10, Reads::Sums(4), true), Static::RrTables, Must::ComeNear),
        "mixed-tables" => (of.mixed(), Static::RrColumns, Must::ComeNear),
        "joins" => (of.dealt(count, 6, Reads::Join, true), Static::RrTables, Must::ComeNear),
        "tpch-q1" => (Placed { clients: 32, ..of.dealt(1, 7, Reads::Groups, false) }, Static::RrTables, Must::ComeNear),
        "bw-eml" => (Placed { clients: 64, ..of.dealt(3, 5, Reads::Sums(5), false) }, Static::RrTables, Must::ComeNear),
        "loads-beside" => (of.loads(), Static::RrColumns, Must::ComeNear),
        "keyed" => (of.keyed(), Static::RrColumns, Must::ComeNear),
        "tiers" => (of.tiers(machine), Static::RrColumns, Must::ComeNear),
        // The paper's: 160 columns, 1024 clients, all asked for alike; V8 is of the same run, with two ranges.
        "v6" => (Placed { clients: 1024, ..of.scans(160, |_| 1.0) }, Static::RrColumns, Must::LeaveAlone),
        // Half of the columns get four of five statements, and lie on half of the nodes.
        "v12" => {
            let half = skew(HOT, 160, |column| if column >= 80 { 1.0 } else { 0.0 });
            (Placed { clients: 1024, ..of.scans(160, half) }, Static::Blocks, Must::ComeNear)
        }
        _ => return None,
    };
    let what = Placed { lies: from.ranges(&what.columns, &nodes), ..what };
    Some(Case { name: name.to_string(), what, from, must, nodes })
}

/// The product's usual settings on a machine whose figures it knows: tasks that want half of what memory gives a cpu,
/// or more, stay where their data is.
pub fn settings_of(machine: &Machine) -> Settings {
    let nodes = machine.nodes().iter().filter(|node| node.cpus > 0);
    let of_node = |node: &NodeFacts| Calibration::from_rates(node.controller_bytes_per_second, node.cpus);
    let least = nodes.map(|node| of_node(node).memory_intensive_bytes_per_us).min();
    Settings { memory_intensive_bytes_per_us: least.unwrap_or(0), ..Settings::default() }
}

/// The places of the nodes with cpus.
pub fn nodes_of(machine: &Machine) -> Vec<usize> {
    (0..machine.node_count()).filter(|node| machine.nodes()[*node].cpus > 0).collect()
}

/// Hot columns, told by a weight above 0, share `hot` of the statements, the others the rest.
fn skew(hot: f64, columns: usize, is_hot: impl Fn(usize) -> f64) -> impl Fn(usize) -> f64 {
    let all: f64 = (0..columns).map(&is_hot).sum();
    let cold = (columns - (0..columns).filter(|column| is_hot(*column) > 0.0).count()).max(1) as f64;
    move |column| if is_hot(column) > 0.0 { hot * is_hot(column) / all } else { (1.0 - hot) / cold }
}

struct Maker<'a> {
    nodes: &'a [usize],
    constants: &'a Constants,
    clients: usize,
}

impl Maker<'_> {
    fn placed(&self, columns: Vec<Column>, statements: Vec<Statement>, phases: Vec<Phase>) -> Placed {
        Placed {
            clients: self.clients,
            columns,
            statements,
            phases,
            lies: Vec::new(),
            memory_bytes: None,
            period_ns: None,
            tick_ns: SECOND_NS / 2,
        }
    }

    /// Scans of single columns of one table.
    fn scans(&self, columns: usize, weight: impl Fn(usize) -> f64) -> Placed {
        let scan = |column| range_scan(column, ROWS, BITS, 1e-5, self.constants);
        let phase = Phase { until_ns: u64::MAX, weights: (0..columns).map(weight).collect() };
        self.placed(vec![column(0, ROWS); columns], (0..columns).map(scan).collect(), vec![phase])
    }

    /// What is hot goes from the columns of one node to those of the next.
    fn shifting(&self) -> Placed {
        self.shifting_over(4 * self.nodes.len(), 3.min(self.nodes.len()))
    }

    fn shifting_over(&self, columns: usize, phases: usize) -> Placed {
        let count = self.nodes.len();
        let phase = |turn: usize| {
            let hot = skew(HOT, columns, |column| if column % count == turn { 1.0 } else { 0.0 });
            Phase { until_ns: (turn as u64 + 1) * PHASE_S * SECOND_NS, weights: (0..columns).map(hot).collect() }
        };
        Placed { phases: (0..phases).map(phase).collect(), ..self.scans(columns, |_| 1.0) }
    }

    /// Few rows qualify, then a tenth, then few again, of the columns of one node.
    fn selectivities(&self) -> Placed {
        let count = self.nodes.len();
        let columns = 4 * count;
        let hot = skew(HOT, columns, |column| if column % count == 0 { 1.0 } else { 0.0 });
        let weights: Vec<f64> = (0..columns).map(hot).collect();
        let none = vec![0.0; columns];
        let scan = |column: usize, selectivity| range_scan(column, ROWS, BITS, selectivity, self.constants);
        let low = (0..columns).map(|column| scan(column, 1e-5));
        let statements = low.chain((0..columns).map(|column| scan(column, 0.1))).collect();
        let phase = |turn: u64| {
            let [first, second] = if turn == 1 { [&none, &weights] } else { [&weights, &none] };
            Phase { until_ns: (turn + 1) * PHASE_S * SECOND_NS, weights: [first.as_slice(), second].concat() }
        };
        self.placed(vec![with_dictionary(column(0, ROWS)); columns], statements, (0..3).map(phase).collect())
    }

    fn dealt(&self, tables: usize, columns: usize, reads: Reads, skewed: bool) -> Placed {
        let of = Dealt { clients: self.clients, tables, rows: ROWS, columns, reads, skewed };
        Placed { tick_ns: SECOND_NS / 2, ..of.placed(Static::RrTables, self.nodes, self.constants) }
    }

    /// Columns in turn on all nodes, those without cpus too, which fill the others to [`FILLED`]; the columns of one
    /// node after the other are asked for, those on memory without cpus last.
    fn tiers(&self, machine: &Machine) -> Placed {
        let placed = self.shifting_over(8 * self.nodes.len(), self.nodes.len());
        let of_node = placed.columns.iter().step_by(self.nodes.len()).map(|column| column.bytes).sum::<f64>();
        let clients = 16 * nodes_of(machine).len();
        Placed { clients, memory_bytes: Some(of_node / FILLED), ..placed }
    }

    /// Tables of three sizes; the small ones are asked for more often.
    fn mixed(&self) -> Placed {
        let count = self.nodes.len();
        let (mut columns, mut statements, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (table, (rows, weight)) in [(ROWS, 1.0), (ROWS / 3.0, 3.0), (ROWS / 10.0, 20.0)].into_iter().enumerate() {
            for place in 0..2 * count {
                statements.push(range_scan(columns.len(), rows, BITS, 1e-5, self.constants));
                columns.push(column(table, rows));
                // The first columns of a table are asked for most.
                weights.push(weight / (1 + place) as f64);
            }
        }
        self.placed(columns, statements, vec![Phase { until_ns: u64::MAX, weights }])
    }

    /// Scans of the columns of one node, and now and then a load of a million rows into all columns.
    fn loads(&self) -> Placed {
        let count = self.nodes.len();
        let columns = 2 * count;
        let mut placed = self.scans(columns, skew(HOT, columns, |c| if c % count == 0 { 1.0 } else { 0.0 }));
        let rows = 1e6;
        let write = |column| Read::scan(column, rows * BITS / 8.0 * self.constants.write_factor());
        let cpu_ns = rows * columns as f64 * self.constants.encode_ns_per_value();
        let reads = (0..columns).map(write).collect();
        placed.statements.push(Statement { passes: vec![Pass { reads, cpu_ns, tasks_max: None }] });
        placed.phases[0].weights.push(0.05);
        placed
    }

    /// Batches of a hundred thousand look-ups in one table of many, a fifth of which also write; scans besides.
    fn keyed(&self) -> Placed {
        let count = self.nodes.len();
        let columns = 2 * count;
        let mut placed = self.scans(columns, |_| 0.1 / columns as f64);
        let keys = 1e5;
        for column in 0..columns {
            for writes in [0.0, 1.0] {
                let read = Read { column, bytes: 0.0, lines: keys * (1.0 + writes) };
                let cpu_ns = keys * (self.constants.lookup_ns() + writes * self.constants.upsert_ns());
                placed
                    .statements
                    .push(Statement { passes: vec![Pass { reads: vec![read], cpu_ns, tasks_max: Some(1) }] });
                let hot =
                    if column.is_multiple_of(count) { HOT / 2.0 } else { (1.0 - HOT) / (columns - 2).max(1) as f64 };
                placed.phases[0].weights.push(hot * if writes > 0.0 { 0.2 } else { 0.8 });
            }
        }
        placed
    }
}

fn column(table: usize, rows: f64) -> Column {
    Column { table, rows, bytes: rows * BITS / 8.0, dictionary_bytes: 0.0 }
}

/// A column whose dictionary results are looked up in: each value that its codes can stand for takes eight bytes.
pub(super) fn with_dictionary(of: Column) -> Column {
    let dictionary_bytes = 8.0 * BITS.exp2().min(of.rows);
    Column { bytes: of.bytes + dictionary_bytes, dictionary_bytes, ..of }
}
