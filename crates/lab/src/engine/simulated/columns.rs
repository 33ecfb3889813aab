//! Range queries over the columns of one table (Psaroudakis et al., VLDB 2015, section 6).
//!
//! # Limits
//! Pruning changes nothing, since values are uniform: no block's summary excludes it. Shares of a statement's time are
//! estimated from what its phases cost at the rates of the run.

use sched::policy::Layout;
use sim::work::scan::{Hot, Placement as Lies, Scans};
use sim::work::{Stage, Task, stream};
use sim::{At, Machine, Options, Random};

use super::{Bench, GB, NS, RunError, metrics, settings_of};
use crate::declaration::{Columns, LayoutOrder, Placement, Placing};
use crate::result::{Metric, Outcome};

/// Runs clients over the columns.
pub(super) fn run(mut bench: Bench, c: &Columns) -> Result<Outcome, RunError> {
    bench.options.settings = settings_of(c.strategy);
    if !c.parallel {
        bench.options.settings.parallelism = 1;
    }
    let hot_columns = (c.hot_columns * f64::from(c.columns)).round() as usize;
    let scans = Scans {
        clients: c.clients as usize,
        rows: c.rows as f64,
        columns: c.columns as usize,
        bits: (c.bits_min..=c.bits_max).collect(),
        placement: placement_of(c, bench.machine.node_count()),
        selectivity: c.selectivity,
        index: c.index,
        // Nothing is hot where the hot columns get their share and no more, or where all columns are.
        hot: (c.hot_queries != c.hot_columns && (1..c.columns as usize).contains(&hot_columns))
            .then_some(Hot { columns: hot_columns, share: c.hot_queries }),
    };
    let found = bench.run(&mut scans.clone().workload())?;
    let outcome = metrics(&found);
    let [lookup, scan, output] = shares(&scans, &bench.machine, &bench.options, &found);
    let mut outcome = outcome
        .with(Metric::LookupShare, lookup)
        .with(Metric::ScanShare, scan)
        .with(Metric::OutputShare, output)
        .with(Metric::MemoryUsed, scans.memory_bytes() / GB);
    if c.pruning {
        outcome.notes.push("pruning changes nothing: values are uniform".to_string());
    }
    Ok(outcome)
}

/// What a placement takes of memory. How long placing takes depends on the kernel, which is not simulated.
pub(super) fn placed(p: &Placing, machine: &Machine) -> Result<Outcome, RunError> {
    let nodes = machine.node_count();
    let scans = Scans {
        clients: 1,
        rows: p.rows as f64,
        columns: p.columns as usize,
        bits: (p.bits_min..=p.bits_max).collect(),
        placement: if p.placement == Placement::Pp { Lies::Pp(nodes) } else { Lies::Ivp(nodes) },
        selectivity: 0.0,
        index: false,
        hot: None,
    };
    Ok(Outcome::default().with(Metric::MemoryUsed, scans.memory_bytes() / GB))
}

fn placement_of(c: &Columns, nodes: usize) -> Lies {
    let partitions = if c.partitions == 0 { nodes } else { c.partitions as usize };
    match (c.placement, c.order) {
        (Placement::Rr, LayoutOrder::InTurn) => Lies::RoundRobin,
        (Placement::Rr, LayoutOrder::Blocks) => Lies::Blocks,
        (Placement::Ivp, _) => Lies::Ivp(partitions),
        (Placement::Pp, _) => Lies::Pp(partitions),
    }
}

/// The shares of a statement's time in index lookups, scans and materialisation: each stage takes its cpu time, or its
/// bytes at the rate that a busy cpu got in the run, whichever is longer.
fn shares(scans: &Scans, machine: &Machine, options: &Options, found: &sim::Outcome) -> [f64; 3] {
    let layout: Layout = stream::layout(machine, options);
    let busy_cpus = (found.busy * layout.slots().len() as f64).max(f64::MIN_POSITIVE);
    let bytes_per_ns = (found.bytes_per_second() / busy_cpus / NS).max(f64::MIN_POSITIVE);
    let mut random = Random::new(options.seed);
    let at = At {
        now_ns: 0,
        active: scans.clients,
        turn: 0,
        machine,
        layout: &layout,
        settings: options.settings,
        constants: &options.constants,
        random: &mut random,
    };
    let graph = scans.graph(0, 1, &at);
    let cost = |stage: &Stage| stage.cpu_ns.max(stage.bytes() / bytes_per_ns);
    let (mut first, mut second) = (0.0, 0.0);
    for task in &graph.tasks {
        // A statement in one task has both phases in it, the second as long as the first.
        let alone = graph.tasks.len() == 1;
        let half = task.stages.len().div_ceil(2);
        let split = if alone { half } else { task.stages.len() };
        let costs: Vec<f64> = task.stages.iter().map(cost).collect();
        if is_second(task) {
            second += costs.iter().sum::<f64>();
        } else {
            first += costs[..split].iter().sum::<f64>();
            second += costs[split..].iter().sum::<f64>();
        }
    }
    let all = (first + second).max(f64::MIN_POSITIVE);
    let (lookup, scan) = if scans.uses_index(&options.constants) { (first, 0.0) } else { (0.0, first) };
    [lookup / all, scan / all, second / all]
}

fn is_second(task: &Task) -> bool {
    !task.after.is_empty()
}
