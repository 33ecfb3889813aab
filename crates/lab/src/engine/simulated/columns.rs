//! Range queries over the columns of one table (Psaroudakis et al., VLDB 2015, section 6).
//!
//! # Limits
//! Pruning changes nothing, since values are uniform: no block's summary excludes it.

use sim::workload::RepeatedStatement;
use sim::workload::columns::{Column, Static, range_scan};
use sim::workload::placed::{Phase, Placed};
use sim::workload::scan::{self, Hot, Placement as Lies, Scans};

use super::{Bench, GB, NS, RunError, metrics, run_placed, settings_of};
use crate::declaration::{Columns, LayoutOrder, Placement, Placing};
use crate::result::{Metric, Outcome};

/// Runs clients over the columns.
pub(super) fn run(mut bench: Bench, c: &Columns) -> Result<Outcome, RunError> {
    bench.options.settings = settings_of(c.strategy);
    if !c.parallel {
        bench.options.settings.parallelism = 1;
    }
    bench.options.dispatch_ns = (c.dispatch_us * 1e3) as u64;
    if c.placement == Placement::Placer {
        return placer(bench, c);
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
        shares_cache: c.cache_sharing,
    };
    let found = bench.run(&mut scans.clone().workload())?;
    let [lookup, scan, output] = shares(&found);
    let mut outcome = metrics(&found)
        .with(Metric::LookupShare, lookup)
        .with(Metric::ScanShare, scan)
        .with(Metric::OutputShare, output)
        .with(Metric::MemoryUsed, scans.memory_bytes() / GB);
    if c.pruning {
        outcome.notes.push("pruning changes nothing: values are uniform".to_string());
    }
    Ok(outcome)
}

/// Runs clients over columns that the placer moves.
fn placer(bench: Bench, c: &Columns) -> Result<Outcome, RunError> {
    if c.index || c.cache_sharing {
        return Err(RunError::Refused(
            "placement = placer: neither indexes nor shared caches are simulated".to_string(),
        ));
    }
    let rows = c.rows as f64;
    let bits = |column: u32| f64::from(c.bits_min + column % (c.bits_max - c.bits_min + 1));
    let of_bits = |column: u32| Column { table: 0, rows, bytes: rows * bits(column) / 8.0, dictionary_bytes: 0.0 };
    let columns: Vec<Column> = (0..c.columns).map(of_bits).collect();
    let constants = &bench.options.constants;
    let scan = |column: u32| range_scan(column as usize, rows, bits(column), c.selectivity, constants);
    let hot = ((c.hot_columns * f64::from(c.columns)).round() as u32).min(c.columns);
    let is_even = c.hot_queries == c.hot_columns || hot == 0 || hot == c.columns;
    let weight = |column: u32| match column >= c.columns - hot {
        _ if is_even => 1.0,
        true => c.hot_queries / f64::from(hot),
        false => (1.0 - c.hot_queries) / f64::from(c.columns - hot),
    };
    let from = if c.order == LayoutOrder::Blocks { Static::Blocks } else { Static::RrColumns };
    let what = Placed {
        clients: c.clients as usize,
        statements: (0..c.columns).map(scan).collect(),
        phases: vec![Phase { until_ns: u64::MAX, weights: (0..c.columns).map(weight).collect() }],
        lies: from.ranges(&columns, &bench.nodes()),
        columns,
        memory_bytes: None,
        period_ns: None,
        tick_ns: 1_000_000_000,
    };
    run_placed(bench, what)
}

/// Places the table once: how long it takes, and what the placement takes of memory.
pub(super) fn placed(mut bench: Bench, p: &Placing) -> Result<Outcome, RunError> {
    let nodes = bench.machine.node_count();
    let scans = Scans {
        clients: 1,
        rows: p.rows as f64,
        columns: p.columns as usize,
        bits: (p.bits_min..=p.bits_max).collect(),
        placement: if p.placement == Placement::Pp { Lies::Pp(nodes) } else { Lies::Ivp(nodes) },
        selectivity: 0.0,
        index: false,
        hot: None,
        shares_cache: false,
    };
    bench.options.warm_up_ns = 0;
    let graph = scans.placing(&bench.machine, &bench.options.constants);
    let found = bench.run(&mut RepeatedStatement::new(graph, 1, 1))?;
    if found.statements == 0 {
        let seconds = bench.options.measured_ns as f64 / NS;
        return Err(RunError::Failed(format!("placing takes longer than the {seconds} virtual seconds of the run")));
    }
    Ok(metrics(&found)
        .with(Metric::RunTime, found.latency.mean_ns() / NS)
        .with(Metric::MemoryUsed, scans.memory_bytes() / GB))
}

fn placement_of(c: &Columns, nodes: usize) -> Lies {
    let partitions = if c.partitions == 0 { nodes } else { c.partitions as usize };
    match (c.placement, c.order) {
        (Placement::Rr | Placement::Placer, LayoutOrder::InTurn) => Lies::RoundRobin,
        (Placement::Rr | Placement::Placer, LayoutOrder::Blocks) => Lies::Blocks,
        (Placement::Ivp, _) => Lies::Ivp(partitions),
        (Placement::Pp, _) => Lies::Pp(partitions),
    }
}

/// The shares of the statements' time in index lookups, scans and materialisation.
fn shares(found: &sim::Outcome) -> [f64; 3] {
    let ns = |phase: usize| found.phases_ns.get(phase).copied().unwrap_or_default() as f64;
    let parts = [scan::LOOK_UP, scan::FIND, scan::MATERIALISE].map(ns);
    let all: f64 = parts.iter().sum();
    parts.map(|part| part / all.max(f64::MIN_POSITIVE))
}
