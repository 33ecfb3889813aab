//! Scans of a store whose memory lies on one node, interleaved, or where it is scanned (Kissinger et al., ADMS 2014,
//! section 4.2.2), measured: a client that counts equal entries of one column, pass after pass, on all cpus.
//!
//! What the paper compares is where the column lies and who reads it: for `design = "units"` each node has a range of
//! it, which that node's cpus alone scan.
//!
//! # Limits
//! An entry is the packed code of an INTEGER, of 31 bits at most. The units of the crate own keys and no columns, so a
//! range here belongs to a node, not to a cpu. Look-ups, upserts and commands are those of `keyed.rs`.

use std::time::Duration;

use lab::declaration::{Store, StoreDesign};
use lab::engine::RunError;
use lab::result::{Metric, Outcome};

use super::columns::{GB, outcome};
use super::{Bench, failed};
use crate::bench::clients::{Load, Query, WARM_UP, run_load};
use crate::bench::uniform::Uniform;
use crate::size::thousands;

/// The share of the memory that the column takes at most.
const COLUMN_SHARE: f64 = 0.2;
/// The widest entry.
const BITS_MAX: u32 = 31;

/// Runs passes over the column.
pub fn run(bench: Bench<'_>, asked: &Store) -> Result<Outcome, RunError> {
    let bits = asked.entry_bytes.saturating_mul(8).min(BITS_MAX);
    let entry_bytes = f64::from(bits) / 8.0;
    let rows = asked.keys.min((bench.memory_bytes as f64 * COLUMN_SHARE / entry_bytes) as u64).max(1);
    let seed = bench.conditions.seed;
    let stop = bench.conditions.stop;
    let table = Uniform { table: String::new(), rows, bits: vec![bits], seed, keyed: false };
    let nodes = bench.nodes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let placement = match asked.design {
        StoreDesign::SingleRam => format!("node({})", nodes[0]),
        StoreDesign::Interleaved => format!("interleaved(nodes {})", nodes.join(", ")),
        StoreDesign::Units => format!("ivp(nodes {})", nodes.join(", ")),
    };
    let scheduling = if asked.design == StoreDesign::Units { "; SET nearside.scheduling = 'bound'" } else { "" };
    let name = bench.stored.loaded(&table, &placement)?;
    let query = Query { sql: format!("SELECT count(*) FROM {name} WHERE c0 = {}", table.value(0, 0)), rows: 1 };
    // Every block is read: none shall be skipped, and no pass left out.
    let settings = format!("SET nearside.block_skipping = false; SET nearside.index_lookups = false{scheduling}");
    let session = bench.stored.session_with(&settings)?;
    session.query(&query.sql).and_then(|rows| rows.collect_all()).map_err(failed)?;
    let (own, pick) = (|| session.clone(), |_: u64| &query);
    let length = Duration::from_secs_f64(bench.conditions.seconds / (1.0 - WARM_UP));
    let database = bench.stored.database();
    let load = Load { session: &own, pick: &pick, clients: 1, length, seed, stop };
    let window = run_load(database, &load).map_err(failed)?;
    let passes = window.latencies.len() as f64 / window.length.as_secs_f64();
    let mut found = outcome(&window, 1, database.scheduler().threads())
        .with(Metric::ScanRate, passes * rows as f64 * entry_bytes / GB);
    if rows < asked.keys {
        let some = thousands(rows);
        let all = thousands(asked.keys);
        found.notes.push(format!("scaled to this machine's memory: {some} entries of {all}"));
    }
    if asked.design == StoreDesign::Units {
        found.notes.push("a range of the column per node, scanned by that node's cpus alone".to_string());
    }
    if f64::from(asked.entry_bytes) != entry_bytes {
        found.notes.push(format!("entries are packed codes of {bits} bits, not of {} bytes", asked.entry_bytes));
    }
    Ok(found)
}
