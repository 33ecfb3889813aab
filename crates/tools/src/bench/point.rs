//! `nearside bench point`: prepared queries of one row by primary key, embedded, one thread, one at a time.
//!
//! Invariants: every answer is checked, value by value; keys have gaps, so that a miss is among them and is no matter
//! of bounds; each kind of query runs for the same time, and a latency is from the call to the last row.
//!
//! # Limits
//! One table and one client; `bench sched` has many clients.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use clap::Args;
use nearside::{Database, Prepared, ScalarValue, Session};
use serde_json::json;

use super::clients::mixed;
use super::report::{Better, Figure, Output, percentile, report, write_head};
use super::rows::{COLUMNS, Rows};
use crate::failure::Failure;
use crate::size::{human, thousands};

/// Queries per second by primary key, at least.
const HITS_TARGET: f64 = 100_000.0;
/// The share of the time of a kind that passes before latencies count.
const WARM_UP: f64 = 0.2;

/// Arguments of `nearside bench point`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench point                                50 million rows
  nearside bench point --rows 1000000 --seconds 2 --json point.json
  nearside bench point --shuffled                     rows in no order of their keys

Three kinds of queries take turns of --seconds each: a row by its key, a key that no row has, and a range of keys that
about ten rows have.")]
pub struct Arguments {
    /// Rows of the table
    #[arg(
        long, value_name = "N", default_value_t = 50_000_000,
        value_parser = clap::value_parser!(u64).range(100..=1 << 32)
    )]
    rows: u64,
    /// Length of each kind of query, the first fifth of which is not counted
    #[arg(long, value_name = "S", default_value = "5", value_parser = super::sched::parse_seconds)]
    seconds: f64,
    /// Rows that a range holds, about
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    range: u64,
    /// Load the rows in no order of their keys
    #[arg(long)]
    shuffled: bool,
    /// What values and the order of queries are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Loads, queries, prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = Database::new()?;
    let threads = database.scheduler().threads();
    let rows = Rows { count: arguments.rows, seed: arguments.seed };
    let mut out = io::stdout();
    write_head(&mut out, database.topology(), threads)?;
    let started = Instant::now();
    load(&database, rows, arguments.shuffled)?;
    let load_s = started.elapsed().as_secs_f64();
    let resident = human(numa::resident_bytes());
    let order = if arguments.shuffled { "in no order of their keys" } else { "ascending by key" };
    writeln!(out, "data      {} rows {order}, loaded in {load_s:.2} s; {resident} resident\n", thousands(rows.count))?;
    writeln!(
        out,
        "{:<8} {:>12} {:>12} {:>10} {:>10} {:>10}",
        "query", "queries", "per second", "p50 us", "p99 us", "at least"
    )?;
    let session = database.session();
    let mut figures = Vec::new();
    for kind in [StatementForm::Hit, StatementForm::Miss, StatementForm::Range] {
        let latencies = measure(&session, rows, kind, arguments)?;
        let figure = figure(kind, latencies);
        write_line(&mut out, &figure)?;
        figures.push(figure);
    }
    if let Some(json) = json {
        let given = json!({
            "rows": rows.count, "seconds": arguments.seconds, "range": arguments.range, "shuffled": arguments.shuffled,
            "seed": arguments.seed,
        });
        let mut value = report("point", database.topology(), threads, given, &figures);
        value["load_s"] = json!(load_s);
        value["resident_bytes"] = json!(numa::resident_bytes());
        json.write(&value)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the table `points` with its primary key.
fn load(database: &Database, rows: Rows, shuffled: bool) -> Result<(), Failure> {
    rows.load(database, "made", shuffled)?;
    let create = format!("CREATE TABLE points ({COLUMNS}); INSERT INTO points SELECT * FROM made; DROP TABLE made");
    database.session().execute(&create)?;
    Ok(())
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum StatementForm {
    Hit,
    Miss,
    Range,
}

impl StatementForm {
    fn name(self) -> &'static str {
        match self {
            StatementForm::Hit => "hit",
            StatementForm::Miss => "miss",
            StatementForm::Range => "range",
        }
    }

    fn sql(self) -> &'static str {
        match self {
            StatementForm::Hit | StatementForm::Miss => "SELECT a, b FROM points WHERE id = $1",
            StatementForm::Range => "SELECT a, b FROM points WHERE id >= $1 AND id <= $2",
        }
    }
}

/// Microseconds of each query after the warm-up.
fn measure(session: &Session, rows: Rows, kind: StatementForm, arguments: &Arguments) -> Result<Vec<f64>, Failure> {
    let prepared = session.prepare(kind.sql())?;
    let length = Duration::from_secs_f64(arguments.seconds);
    let range = arguments.range.min(rows.count);
    let mut latencies = Vec::new();
    let begun = Instant::now();
    let mut turn = 0;
    loop {
        turn += 1;
        let i =
            mixed(rows.seed ^ mixed(turn)) % (rows.count - if kind == StatementForm::Range { range - 1 } else { 0 });
        let started = Instant::now();
        query(&prepared, rows, kind, i, range)?;
        let ended = Instant::now();
        if ended - begun >= length.mul_f64(WARM_UP) {
            latencies.push((ended - started).as_secs_f64() * 1e6);
        }
        if ended - begun >= length {
            return Ok(latencies);
        }
    }
}

/// Asks for the `i`th key and checks the answer.
fn query(prepared: &Prepared, rows: Rows, kind: StatementForm, i: u64, range: u64) -> Result<(), Failure> {
    let key = |value: i64| ScalarValue::Int64(Some(value));
    let (batches, expected) = match kind {
        StatementForm::Hit => (prepared.query(&[key(rows.key(i))])?.collect_all()?, 1),
        StatementForm::Miss => (prepared.query(&[key(rows.gap(i))])?.collect_all()?, 0),
        StatementForm::Range => {
            (prepared.query(&[key(rows.key(i)), key(rows.key(i + range - 1))])?.collect_all()?, range)
        }
    };
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let sum = |batch: &RecordBatch| batch.column(1).as_primitive::<Int64Type>().values().iter().sum::<i64>();
    let found: i64 = batches.iter().map(sum).sum();
    let of = if kind == StatementForm::Miss { 0 } else { (i..i + expected).map(|i| rows.b(i)).sum() };
    if count as u64 != expected || found != of {
        let kind = kind.name();
        let id = rows.key(i);
        return Err(Failure::new(format!(
            "the {kind} query of id {id} gave {count} rows, not the {expected} there are"
        )));
    }
    Ok(())
}

fn figure(kind: StatementForm, mut latencies: Vec<f64>) -> Figure {
    let seconds = latencies.iter().sum::<f64>() / 1e6;
    let per_second = latencies.len() as f64 / seconds.max(1e-12);
    latencies.sort_by(f64::total_cmp);
    let figure = Figure::new(kind.name(), per_second, "queries/s", Better::More);
    let figure = if kind == StatementForm::Hit { figure.with_target(HITS_TARGET) } else { figure };
    figure.with_details(json!({
        "queries": latencies.len(), "sql": kind.sql(),
        "p50_us": percentile(&latencies, 50.0),
        "p99_us": percentile(&latencies, 99.0),
        "max_us": percentile(&latencies, 100.0),
    }))
}

fn write_line(out: &mut dyn Write, figure: &Figure) -> Result<(), Failure> {
    let detail = |name: &str| figure.details.get(name).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let target = figure.target.map_or(String::new(), |target| thousands(target as u64));
    writeln!(
        out,
        "{:<8} {:>12} {:>12.0} {:>10.2} {:>10.2} {target:>10}  {}",
        figure.name,
        thousands(detail("queries") as u64),
        figure.value,
        detail("p50_us"),
        detail("p99_us"),
        figure.verdict()
    )?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_latencies() {
        let figure = figure(StatementForm::Hit, vec![5.0, 15.0, 10.0, 10.0]);
        assert!((figure.value - 100_000.0).abs() < 1e-6, "{}", figure.value);
        assert_eq!((&figure.details["p50_us"], &figure.details["max_us"]), (&json!(10.0), &json!(15.0)));
    }
}
