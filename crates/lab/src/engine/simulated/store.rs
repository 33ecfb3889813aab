//! Scans, lookups, upserts of a store (Kissinger et al., ADMS 2014, section 4): one pass, or one round of lookups,
//! after the other.
//!
//! # Limits
//! Commands of a scan are one per unit and pass. Ranges stay where they are: `shifting.rs` has units that balance.

use sim::workload::RepeatedStatement;
use sim::workload::lookup::{Commands, Index, Lookups};
use sim::workload::stream::{Lies, Pass};

use super::{Bench, GB, RunError, metrics};
use crate::declaration::{Operation, Store, StoreDesign};
use crate::result::{Metric, Outcome};

/// Statements without an end: the run's time ends them.
const ALWAYS: u64 = u64::MAX;

pub(super) fn run(bench: Bench, s: &Store) -> Result<Outcome, RunError> {
    match s.operation {
        Operation::Scan => scan(bench, s),
        Operation::Lookup | Operation::Upsert => lookup(bench, s, true),
        Operation::Route => lookup(bench, s, false),
    }
}

fn scan(bench: Bench, s: &Store) -> Result<Outcome, RunError> {
    let lies = match s.design {
        StoreDesign::SingleRam => Lies::On(0),
        StoreDesign::Interleaved => Lies::Interleaved,
        StoreDesign::Units => Lies::Owned,
    };
    let constants = &bench.options.constants;
    let bytes = s.keys as f64 * f64::from(s.entry_bytes);
    let pass = Pass { entry_bytes: f64::from(s.entry_bytes), ..Pass::scan(bytes, lies, constants) };
    let graph = pass.graph(&bench.machine, &bench.options.layout(&bench.machine));
    let found = bench.run(&mut RepeatedStatement::new(graph, 1, ALWAYS))?;
    // Bytes as they are moved, not as passes end: a pass may be longer than the run.
    Ok(metrics(&found).with(Metric::ScanRate, found.bytes_per_second() / GB))
}

fn lookup(bench: Bench, s: &Store, processing: bool) -> Result<Outcome, RunError> {
    let index = match s.design {
        StoreDesign::Units => {
            let keys = if s.command_keys == 0 { f64::INFINITY } else { f64::from(s.command_keys) };
            Index::Units { commands: Commands { buffer: f64::from(s.batch), keys }, processing }
        }
        StoreDesign::Interleaved if processing => Index::Shared,
        StoreDesign::Interleaved => {
            return Err(RunError::Refused("only units route: set design=units".to_string()));
        }
        StoreDesign::SingleRam => {
            return Err(RunError::Refused(
                "an index on one node is not simulated: set design=interleaved or units".to_string(),
            ));
        }
    };
    let keys = s.keys as f64;
    let lookups = match s.operation {
        Operation::Upsert => Lookups::upserts(keys, index),
        _ => Lookups::new(keys, index),
    };
    let lookups = Lookups { per_task: f64::from(s.round), page_bytes: f64::from(s.page_kib) * 1024.0, ..lookups };
    let layout = bench.options.layout(&bench.machine);
    let graph = lookups.graph(&bench.machine, &layout, &bench.options.constants);
    let found = bench.run(&mut RepeatedStatement::new(graph, 1, ALWAYS))?;
    // Commands, not rounds, are what the paper counts.
    let mut outcome = metrics(&found).with(Metric::Throughput, found.items_per_second() * 60.0);
    if processing {
        outcome = outcome
            .with(Metric::MissRatio, lookups.miss_ratio(&bench.machine))
            .with(Metric::SharedHits, lookups.shared_hits(&bench.machine));
    }
    Ok(outcome)
}
