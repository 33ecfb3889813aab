//! `nearside bench scan --clients`: clients that scan one column at the same time, with and without shared passes.
//!
//! Each client has one range scan at a time on its way, of a range that it draws from a pool. Ways to share take turns
//! round by round, so that what else the machine does strikes all alike.
//!
//! Invariant: every answer must have as many rows as the database counted before, alone.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nearside::Database;
use serde_json::json;

use super::super::clients::{Load, Query, Window, mixed, run_load};
use super::super::report::{Better, Figure, median};
use super::super::statements::latency;
use super::super::uniform::Uniform;
use super::{Arguments, Selectivity};
use crate::failure::Failure;
use crate::size::thousands;

/// Ranges that clients draw from; their plans are kept.
const RANGES: u64 = 256;

/// What is compared.
struct Setup<'a> {
    database: &'a Database,
    arguments: &'a Arguments,
    queries: Vec<Query>,
    /// Bytes of the column's codes.
    column_bytes: f64,
}

/// Loads one column and has clients scan it; a figure per selectivity, number of clients and way to share.
pub(super) fn run(database: &Database, arguments: &Arguments, out: &mut dyn Write) -> Result<Vec<Figure>, Failure> {
    let Arguments { rows, bits, seed, .. } = *arguments;
    let table = Uniform { table: "t".into(), rows, bits: vec![bits], seed, keyed: false };
    table.load(database, arguments.placement.as_deref().unwrap_or("rr"))?;
    writeln!(
        out,
        "data      {} rows of {bits} bits; {} x {} s each, the first quarter of which is not counted\n",
        thousands(rows),
        arguments.runs,
        arguments.seconds
    )?;
    writeln!(
        out,
        "{:>11} {:>7} {:>7} {:>12} {:>8} {:>9} {:>9} {:>9}",
        "selectivity", "clients", "sharing", "statements/s", "of first", "scan GB/s", "p50 ms", "p95 ms"
    )?;
    let mut figures = Vec::new();
    for selectivity in &arguments.selectivity {
        let session = database.session();
        let query = |number| table.query(&session, 0, selectivity.share, number);
        let queries = (0..RANGES).map(query).collect::<Result<_, _>>()?;
        let column_bytes = rows as f64 * f64::from(bits) / 8.0;
        let setup = Setup { database, arguments, queries, column_bytes };
        for &clients in &arguments.clients {
            figures.extend(setup.compared(selectivity, clients as usize, out)?);
        }
    }
    writeln!(out, "\nscan GB/s: what the statements would have read, had each read the column by itself")?;
    Ok(figures)
}

impl Setup<'_> {
    /// A figure per way to share.
    fn compared(&self, selectivity: &Selectivity, clients: usize, out: &mut dyn Write) -> Result<Vec<Figure>, Failure> {
        let ways = &self.arguments.sharing;
        let mut windows: Vec<Vec<Window>> = ways.iter().map(|_| Vec::new()).collect();
        for round in 0..self.arguments.runs {
            for (way, done) in ways.iter().zip(&mut windows) {
                done.push(self.window(way, clients, u64::from(round))?);
            }
        }
        let mut figures = Vec::new();
        let mut first = None;
        for (way, windows) in ways.iter().zip(&windows) {
            let rate = |window: &Window| window.latencies.len() as f64 / window.length.as_secs_f64();
            let rounds: Vec<f64> = windows.iter().map(rate).collect();
            let per_second = median(&rounds);
            let ratio = per_second / f64::max(*first.get_or_insert(per_second), f64::MIN_POSITIVE);
            let latency_ms = latency(windows.iter().flat_map(|window| &window.latencies));
            let bytes_per_second = per_second * self.column_bytes;
            let percent = format!("{}%", selectivity.share * 100.0);
            writeln!(
                out,
                "{percent:>11} {clients:>7} {way:>7} {per_second:>12.1} {ratio:>8.2} {:>9.1} {:>9.2} {:>9.2}",
                bytes_per_second / 1e9,
                latency_ms.p50,
                latency_ms.p95
            )?;
            let name = format!("{} {clients} clients {way}", selectivity.text);
            let figure = Figure::new(name, per_second, "statements/s", Better::More);
            figures.push(figure.with_details(json!({
                "selectivity": selectivity.share,
                "clients": clients,
                "sharing": way,
                "per_second_of_rounds": rounds,
                "of_first": ratio,
                "bytes_per_second_alone": bytes_per_second,
                "latency_ms": latency_ms,
            })));
        }
        Ok(figures)
    }

    fn window(&self, way: &str, clients: usize, round: u64) -> Result<Window, Failure> {
        let own = self.database.session();
        own.execute(&format!("SET nearside.scan_sharing = {way}"))?;
        let session = || {
            let session = self.database.session();
            let set = session.execute(&format!("SET nearside.scan_sharing = {way}"));
            set.expect("another session could set it");
            session
        };
        let pick = |random: u64| &self.queries[(random % self.queries.len() as u64) as usize];
        let length = Duration::from_secs_f64(self.arguments.seconds);
        let (seed, stop) = (mixed(self.arguments.seed ^ round), AtomicBool::new(false));
        let load = Load { session: &session, pick: &pick, clients, length, seed, stop: &stop };
        run_load(self.database, &load)
    }
}
