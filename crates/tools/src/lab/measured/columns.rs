//! Range queries over the columns of one table (Psaroudakis et al., VLDB 2015, section 6), measured.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lab::declaration::Columns;
use lab::engine::RunError;
use lab::result::{Metric, Outcome};
use nearside::Database;

use super::fit::fitted;
use super::places::placement;
use super::{Bench, failed};
use crate::bench::clients::{Load, WARM_UP, Window, mixed, run_load};
use crate::bench::statements::latency;
use crate::bench::uniform::Uniform;

/// Bytes of a GB, as results have them.
pub const GB: f64 = 1e9;
/// The widest column that is stored as INTEGER.
const BITS_MAX: u32 = 31;

/// Runs clients over the columns.
pub fn run(bench: Bench<'_>, asked: &Columns) -> Result<Outcome, RunError> {
    if asked.bits_max > BITS_MAX {
        let reason = format!("bits_max = {}: columns are INTEGER, of {BITS_MAX} bits at most", asked.bits_max);
        return Err(RunError::Refused(reason));
    }
    if asked.cache_sharing || asked.dispatch_us > 0.0 {
        let reason = "cache_sharing and dispatch_us are assumptions of the simulator; leave them out";
        return Err(RunError::Refused(reason.to_string()));
    }
    let fitted = fitted(asked, bench.memory_bytes, bench.nodes.len());
    let placement = placement(asked, fitted.bits.len(), bench.nodes)?;
    let seed = bench.conditions.seed;
    let table = Uniform { table: String::new(), rows: fitted.rows, bits: fitted.bits, seed, keyed: false };
    let session = bench.stored.session(asked)?;
    let database = bench.stored.database().clone();
    let (name, queries) = bench.stored.table(&table, &placement, asked, bench.conditions.stop)?;
    // Plans are made once, as the paper prepares its statements.
    for query in queries {
        if bench.conditions.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        session.query(&query.sql).and_then(|rows| rows.collect_all()).map_err(failed)?;
    }
    let columns = table.bits.len();
    let pick = |random: u64| {
        let column = column_of(asked, columns, random);
        let ranges = queries.len() / columns;
        &queries[column * ranges + (mixed(random) % ranges as u64) as usize]
    };
    let own = || session.clone();
    let load = Load {
        session: &own,
        pick: &pick,
        clients: asked.clients as usize,
        // The window alone is as long as the point shall be.
        length: Duration::from_secs_f64(bench.conditions.seconds / (1.0 - WARM_UP)),
        seed,
        stop: bench.conditions.stop,
    };
    let window = run_load(&database, &load).map_err(failed)?;
    let used = memory_used(&database, name);
    let mut outcome = outcome(&window, asked.clients as usize, database.scheduler().threads());
    outcome = outcome.with(Metric::MemoryUsed, used as f64 / GB);
    outcome.notes.extend(fitted.note);
    Ok(outcome)
}

/// The column that a random number asks for: the last ones of the table are hot, as in the simulated workload.
fn column_of(asked: &Columns, columns: usize, random: u64) -> usize {
    let hot = (asked.hot_columns * columns as f64).round() as usize;
    let below = |most: usize| (mixed(random ^ 1) % most as u64) as usize;
    // Nothing is hot where the hot columns get their share and no more, or where all columns are.
    if asked.hot_queries == asked.hot_columns || !(1..columns).contains(&hot) {
        return below(columns);
    }
    let share = (mixed(random ^ 2) >> 11) as f64 / (1_u64 << 53) as f64;
    if share < asked.hot_queries { columns - hot + below(hot) } else { below(columns - hot) }
}

/// Bytes of a table: codes, dictionaries, indexes.
pub fn memory_used(database: &Database, table: &str) -> u64 {
    let columns = database.storage_report().into_iter().filter(|column| column.table == table);
    columns.map(|column| column.codes_bytes + column.dictionary_bytes + column.index_bytes).sum()
}

/// What clients did, as figures.
pub fn outcome(window: &Window, clients: usize, threads: usize) -> Outcome {
    let seconds = window.length.as_secs_f64();
    let work = &window.work;
    let statements = window.latencies.len();
    let local = work.sum(|node| node.bytes_local);
    let remote = work.sum(|node| node.bytes_remote);
    let bytes = (local + remote) as f64;
    let mut outcome = Outcome::default()
        .with(Metric::Throughput, statements as f64 / seconds * 60.0)
        // Statements that report nothing are not known to move nothing.
        .with(Metric::MemoryTraffic, if bytes > 0.0 { bytes / seconds / GB } else { f64::NAN })
        .with(Metric::RemoteShare, remote as f64 / bytes)
        .with(Metric::CpuLoad, work.cpu.as_secs_f64() / seconds / threads as f64)
        .with(Metric::Tasks, work.sum(|node| node.tasks) as f64 / seconds)
        .with(Metric::Stolen, work.sum(|node| node.stolen) as f64 / seconds);
    if remote == 0 && local > 0 {
        // Else it is not known whose memory the remote bytes were.
        outcome.per_node = work.nodes.iter().map(|node| node.bytes_local as f64 / seconds / GB).collect();
    }
    if statements == 0 {
        outcome.notes.push("no statement ended in the measured time".to_string());
        return outcome;
    }
    if statements < clients {
        outcome
            .notes
            .push(format!("{statements} statements of {clients} clients ended: latencies are those of the first"));
    }
    let latency = latency(window.latencies.iter());
    outcome
        .with(Metric::LatencyMean, latency.mean / 1e3)
        .with(Metric::LatencyP05, latency.p5 / 1e3)
        .with(Metric::LatencyP50, latency.p50 / 1e3)
        .with(Metric::LatencyP95, latency.p95 / 1e3)
        .with(Metric::LatencySpread, latency.variation)
}

#[cfg(test)]
mod tests {
    use numa::NodeId;

    use super::*;
    use crate::bench::work::{NodeWork, Work};

    #[test]
    fn hot_columns_get_their_share() {
        let asked = Columns { hot_columns: 0.25, hot_queries: 0.8, ..Columns::default() };
        let all: Vec<usize> = (0..100_000).map(|turn| column_of(&asked, 20, mixed(turn))).collect();
        let of_hot = all.iter().filter(|column| **column >= 15).count() as f64 / all.len() as f64;
        assert!((of_hot - 0.8).abs() < 0.01, "{of_hot}");
        assert!((0..20).all(|column| all.contains(&column)));
        let alike = Columns { hot_columns: 0.5, hot_queries: 0.5, ..Columns::default() };
        let first = (0..100_000).filter(|turn| column_of(&alike, 20, mixed(*turn)) == 0).count();
        assert!((4_700..5_300).contains(&first), "{first}");
    }

    #[test]
    fn figures_are_per_second_and_shares() {
        let node = NodeWork {
            node: NodeId(0),
            tasks: 40,
            stolen: 10,
            bytes_local: 3_000_000_000,
            bytes_remote: 1_000_000_000,
        };
        let window = Window {
            length: Duration::from_secs(2),
            latencies: vec![Duration::from_millis(500); 4],
            work: Work { nodes: vec![node], cpu: Duration::from_secs(3) },
            ..Window::default()
        };
        let all = outcome(&window, 8, 2);
        let get = |metric| all.metrics[&metric];
        assert_eq!([get(Metric::Throughput), get(Metric::MemoryTraffic), get(Metric::RemoteShare)], [120.0, 2.0, 0.25]);
        assert_eq!([get(Metric::CpuLoad), get(Metric::Tasks), get(Metric::Stolen)], [0.75, 20.0, 5.0]);
        assert_eq!((get(Metric::LatencyMean), get(Metric::LatencySpread)), (0.5, 0.0));
        assert!(all.per_node.is_empty() && all.notes[0].contains("4 statements of 8 clients"));
        let none = outcome(&Window { length: Duration::from_secs(1), ..Window::default() }, 1, 1);
        assert!(!none.metrics.contains_key(&Metric::MemoryTraffic) && none.per_node.is_empty());
        assert!(!none.metrics.contains_key(&Metric::RemoteShare) && none.notes[0].contains("no statement ended"));
    }
}
