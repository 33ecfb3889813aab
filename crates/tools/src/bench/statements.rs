//! Many statements at a time: clients that scan short ranges of random columns, for several numbers of clients and
//! placements.
//!
//! The load is that of Psaroudakis et al., VLDB 2015, section 6.1: `SELECT c FROM t WHERE c >= ? AND c <= ?` over a
//! table of integer columns of several bit cases, each client with one statement at a time and a random column and
//! range for each. As there, statements are planned once: those of a pool of texts, whose plans are kept.
//!
//! Invariants: the numbers of clients and the placements take turns, so that what else the machine does strikes all
//! alike; a figure is the median over rounds; every answer's rows are counted and must be right.

use std::time::Duration;

use nearside::Database;
use serde::Serialize;

use super::clients::{self, Query, Window, mixed};
use super::uniform::Uniform;
use crate::failure::Failure;

/// Column `c0` has values of `n` bits, `c1` one more, ..: the bit cases of the paper begin here too.
const FIRST_BITS: u32 = 17;
/// Columns of the table.
const COLUMNS: u32 = 8;
/// Ranges per column that statements are made of.
const RANGES: u64 = 16;
/// The share of the rows that a statement gives.
const SELECTIVITY: f64 = 0.0001;
/// Resident memory may grow by this share in a window and count as flat.
const FLAT: f64 = 0.05;
/// The throughput with the most clients is at least this share of that with the fewest.
const RATIO_MIN: f64 = 0.95;

/// The placements that are compared: the paper's RR and IVP.
pub const PLACEMENTS: [&str; 2] = ["rr", "ivp"];

/// What to run.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Rows of each table.
    pub rows: u64,
    /// Numbers of clients, from few to many.
    pub clients: Vec<usize>,
    /// Length of one run.
    pub seconds: f64,
    /// Runs of each number of clients and placement.
    pub rounds: usize,
    /// What the values and the order of statements are made from.
    pub seed: u64,
}

/// The figures of one number of clients on one placement: medians over rounds, latencies of all rounds together.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `rr` or `ivp`.
    pub placement: &'static str,
    /// Statements at a time.
    pub clients: usize,
    /// Statements that ended in all windows.
    pub statements: usize,
    /// Statements per second, of each round.
    pub per_second_of_rounds: Vec<f64>,
    /// Their median.
    pub per_second: f64,
    /// The median over rounds of the throughput divided by that of the fewest clients in the same round.
    pub ratio: f64,
    /// Milliseconds from issue to last row: percentiles 5, 25, 50, 75, 95 and 99, and the longest.
    pub latency_ms: Latency,
    /// Resident memory when the first window opened.
    pub resident_before_bytes: u64,
    /// Resident memory when the last window closed.
    pub resident_after_bytes: u64,
    /// The largest growth within one window, as a share.
    pub resident_growth: f64,
}

/// A distribution of latencies, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Percentile 5.
    pub p5: f64,
    /// Percentile 25.
    pub p25: f64,
    /// The median.
    pub p50: f64,
    /// Percentile 75.
    pub p75: f64,
    /// Percentile 95.
    pub p95: f64,
    /// Percentile 99.
    pub p99: f64,
    /// The longest.
    pub max: f64,
    /// The standard deviation divided by the mean.
    pub variation: f64,
}

impl Row {
    /// Whether many clients get as much done as few.
    pub fn keeps_throughput(&self) -> bool {
        self.ratio >= RATIO_MIN
    }

    /// Whether memory stayed what it was.
    pub fn is_flat(&self) -> bool {
        self.resident_growth <= FLAT
    }
}

/// Loads the tables and runs the clients.
///
/// # Errors
/// A table that does not fit, a statement that fails or gives wrong rows.
pub fn run(database: &Database, plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut pools = Vec::new();
    for placement in PLACEMENTS {
        table(placement, plan).load(database, placement)?;
        pools.push(pool(database, placement, plan)?);
    }
    let mut windows: Vec<Vec<Window>> = vec![Vec::new(); PLACEMENTS.len() * plan.clients.len()];
    for round in 0..plan.rounds {
        for (index, done) in windows.iter_mut().enumerate() {
            let placement = index / plan.clients.len();
            let clients = plan.clients[index % plan.clients.len()];
            let length = Duration::from_secs_f64(plan.seconds);
            let seed = mixed(plan.seed ^ round as u64);
            done.push(clients::run(database, &pools[placement], clients, length, seed)?);
        }
    }
    let mut rows = Vec::new();
    for (index, done) in windows.iter().enumerate() {
        let few = &windows[index / plan.clients.len() * plan.clients.len()];
        let placement = PLACEMENTS[index / plan.clients.len()];
        let clients = plan.clients[index % plan.clients.len()];
        rows.push(row(placement, clients, done, few));
    }
    Ok(rows)
}

fn row(placement: &'static str, clients: usize, windows: &[Window], few: &[Window]) -> Row {
    let per_second = |window: &Window| window.latencies.len() as f64 / window.length.as_secs_f64();
    let rounds: Vec<f64> = windows.iter().map(per_second).collect();
    let ratios = rounds.iter().zip(few).map(|(many, few)| many / per_second(few).max(f64::MIN_POSITIVE));
    let growth = |window: &Window| {
        window.resident_after.saturating_sub(window.resident_before) as f64 / window.resident_before.max(1) as f64
    };
    Row {
        placement,
        clients,
        statements: windows.iter().map(|window| window.latencies.len()).sum(),
        per_second: median(rounds.clone()),
        ratio: median(ratios.collect()),
        per_second_of_rounds: rounds,
        latency_ms: latency(windows.iter().flat_map(|window| &window.latencies)),
        resident_before_bytes: windows.first().map_or(0, |window| window.resident_before),
        resident_after_bytes: windows.last().map_or(0, |window| window.resident_after),
        resident_growth: windows.iter().map(growth).fold(0.0, f64::max),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The distribution of latencies; all zeros of none.
pub fn latency<'a>(all: impl Iterator<Item = &'a Duration>) -> Latency {
    let mut ms: Vec<f64> = all.map(|latency| latency.as_secs_f64() * 1e3).collect();
    ms.sort_by(f64::total_cmp);
    let at = |percent: usize| match ms.len() {
        0 => 0.0,
        n => ms[(n - 1) * percent / 100],
    };
    let count = ms.len().max(1) as f64;
    let mean = ms.iter().sum::<f64>() / count;
    let variance = ms.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / count;
    Latency {
        mean,
        p5: at(5),
        p25: at(25),
        p50: at(50),
        p75: at(75),
        p95: at(95),
        p99: at(99),
        max: at(100),
        variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
    }
}

fn table(placement: &str, plan: &Plan) -> Uniform {
    let bits = (FIRST_BITS..FIRST_BITS + COLUMNS).collect();
    Uniform { table: format!("bench_{placement}"), rows: plan.rows, bits, seed: plan.seed, keyed: false }
}

/// The statements that clients choose from, planned already, with the rows that each must give.
fn pool(database: &Database, placement: &str, plan: &Plan) -> Result<Vec<Query>, Failure> {
    let session = database.session();
    let table = table(placement, plan);
    let mut queries = Vec::new();
    for column in 0..COLUMNS as usize {
        for range in 0..RANGES {
            let query = table.query(&session, column, SELECTIVITY, column as u64 * RANGES + range)?;
            session.query(&query.sql)?.collect_all()?;
            queries.push(query);
        }
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_of_all_rounds() {
        let window = |statements: u64, resident_after: u64| Window {
            length: Duration::from_secs(2),
            latencies: (1..=statements).map(Duration::from_millis).collect(),
            resident_before: 1000,
            resident_after,
            ..Window::default()
        };
        let few = [window(100, 1000), window(50, 1000), window(200, 1000)];
        let many = [window(98, 1010), window(48, 900), window(100, 1040)];
        let row = row("rr", 8, &many, &few);
        assert_eq!((row.statements, row.per_second, row.ratio), (246, 49.0, 0.96));
        assert!(row.keeps_throughput() && row.is_flat());
        assert_eq!((row.resident_before_bytes, row.resident_after_bytes, row.resident_growth), (1000, 1040, 0.04));
        assert!(!Row { ratio: 0.94, ..row.clone() }.keeps_throughput());
        assert!(!Row { resident_growth: 0.06, ..row }.is_flat());
    }

    #[test]
    fn latencies_have_percentiles_and_a_spread() {
        let all: Vec<Duration> = (1..=101).map(Duration::from_millis).collect();
        let latency = latency(all.iter().rev());
        assert_eq!((latency.p5, latency.p25, latency.p50, latency.p75), (6.0, 26.0, 51.0, 76.0));
        assert_eq!((latency.p95, latency.p99, latency.max), (96.0, 100.0, 101.0));
        assert_eq!(latency.mean, 51.0);
        assert!((latency.variation - 0.5717).abs() < 0.001, "{}", latency.variation);
        assert_eq!(super::latency([].iter()).max, 0.0);
    }
}
