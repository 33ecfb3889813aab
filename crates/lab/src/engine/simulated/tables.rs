//! Aggregations over whole tables in parts (Psaroudakis et al., VLDB 2015, section 6.3).
//!
//! Parts lie on the nodes in turn, those of the next table after those of the last, so a table in one part is what
//! round-robin placement makes of it.

use sim::workload::query::{Input, Query, QueryClients};

use super::{Bench, RunError, metrics, settings_of};
use crate::declaration::Aggregate;
use crate::result::Outcome;

pub(super) fn run(mut bench: Bench, a: &Aggregate) -> Result<Outcome, RunError> {
    bench.options.settings = settings_of(a.strategy);
    bench.options.dispatch_ns = (a.dispatch_us * 1e3) as u64;
    let nodes = bench.nodes();
    let rows = a.rows as f64 / f64::from(a.partitions);
    let query = |table: u32| {
        let part = |part: u32| {
            let node = nodes[(table * a.partitions + part) as usize % nodes.len()];
            Input::local(node, rows * a.row_bytes, rows * a.row_ns)
        };
        Query { inputs: (0..a.partitions).map(part).collect(), merge_ns: 0.0, tasks: None, kind: table as usize }
    };
    let queries = (0..a.tables).map(query).collect();
    let found = bench.run(&mut QueryClients::new(a.clients as usize, queries))?;
    Ok(metrics(&found))
}
