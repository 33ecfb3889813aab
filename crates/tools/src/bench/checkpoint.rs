//! `nearside bench checkpoint`: what a checkpoint writes, and what it costs the queries that run beside it.
//!
//! A folder holds a large table and a small one. A round changes rows of the large one, then counts how many queries of
//! the small one end: for a while at rest, and while a checkpoint runs. Queries use all worker threads, so what the
//! checkpoint takes of cpus, memory and disk is theirs. Large statements write their segments before they commit, and
//! the checkpoint then names them: bytes are those of the whole process from before the change to the checkpoint's end,
//! the log's among them.
//!
//! Invariant: queries are counted by the share of their time that lies within, so none is counted twice and a
//! checkpoint that is shorter than a query has its share.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use clap::Args;
use nearside::{Database, Session};
use serde_json::json;

use super::database_in;
use super::report::{Better, Figure, Output, percentile, report, write_head};
use crate::failure::Failure;
use crate::size::thousands;

/// Rows that are made by one statement.
const ROWS_AT_ONCE: u64 = 4_000_000;
/// What a row of the large table takes, nearly: three numbers of 63 bits and its key.
const BYTES_PER_ROW: u64 = 28;
/// What the bytes of a checkpoint, and the rate of queries beside it, may come to: 1.5 times what was changed, and 0.9
/// of the rate at rest.
const WRITTEN_MAX: f64 = 1.5;
const RATE_MIN: f64 = 0.9;

/// Arguments of `nearside bench checkpoint`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench checkpoint --database dir
  nearside bench checkpoint --database dir --rows 200000000      a table of 5 GiB

The folder must be empty or not there: its tables are made here.")]
pub struct Arguments {
    /// The folder of the database
    #[arg(long, value_name = "DIR")]
    database: PathBuf,
    /// Rows of the large table, of 28 bytes each
    #[arg(long, value_name = "N", default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    rows: u64,
    /// Rows that are changed before each checkpoint [default: 100 MB of them, or all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    changed: Option<u64>,
    /// Rows of the table that queries read
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    queried: u64,
    /// Checkpoints
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// How long queries are counted at rest before each checkpoint
    #[arg(long, value_name = "S", default_value = "1", value_parser = super::sched::parse_seconds)]
    seconds: f64,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Arguments {
    fn changed(&self) -> u64 {
        self.changed.unwrap_or(100_000_000 / BYTES_PER_ROW).min(self.rows)
    }
}

/// When something began and ended.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Instant,
    to: Instant,
}

impl Span {
    fn seconds(self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }

    /// How many of some queries it has per second, by the shares of their times.
    fn rate(self, queries: &[Span]) -> f64 {
        let share = |query: &Span| {
            let within = query.to.min(self.to).saturating_duration_since(query.from.max(self.from));
            within.as_secs_f64() / query.seconds().max(1e-9)
        };
        queries.iter().map(share).sum::<f64>() / self.seconds().max(1e-9)
    }
}

/// What a round saw.
struct Round {
    bytes: u64,
    own_bytes: u64,
    rest: Span,
    checkpoint: Span,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = database_in(Some(&arguments.database), arguments.threads)?;
    if !database.table_names().is_empty() {
        return Err(Failure::new("the folder has tables already; name one that is empty or not there"));
    }
    let (topology, threads) = (database.topology(), database.scheduler().threads());
    let mut out = io::stdout();
    write_head(&mut out, topology, threads)?;
    let session = database.session();
    make_tables(&session, arguments)?;
    let changed = arguments.changed();
    writeln!(
        out,
        "tables    {} rows, of which each round changes {}; queries read {}\n",
        thousands(arguments.rows),
        thousands(changed),
        thousands(arguments.queried)
    )?;
    let (rounds, queries) = measure(&database, arguments)?;
    let figures = figures(&rounds, &queries, changed * BYTES_PER_ROW);
    for figure in &figures {
        writeln!(out, "{:<28} {:>14.3} {:<10} {}", figure.name, figure.value, figure.unit, figure.verdict())?;
    }
    if let Some(json) = json {
        let given = json!({
            "rows": arguments.rows, "changed": changed, "queried": arguments.queried, "rounds": arguments.rounds,
            "seconds": arguments.seconds,
        });
        json.write(&report("checkpoint", topology, threads, given, &figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the tables, and a checkpoint of them.
fn make_tables(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let value = "CAST(random() * 9e18 AS BIGINT)";
    session.execute("CREATE TABLE large (k BIGINT, a BIGINT, b BIGINT, c BIGINT)")?;
    let last = arguments.rows - 1;
    for first in (0..arguments.rows).step_by(ROWS_AT_ONCE as usize) {
        let to = (first + ROWS_AT_ONCE - 1).min(last);
        let rows = format!("SELECT i, {value}, {value}, {value} FROM generate_series({first}, {to}) AS s(i)");
        session.execute(&format!("INSERT INTO large {rows}"))?;
    }
    session.execute(&format!(
        "CREATE TABLE queried AS SELECT i AS k, {value} AS v FROM generate_series(1, {}) AS s(i); CHECKPOINT",
        arguments.queried
    ))?;
    Ok(())
}

/// The rounds, and when each query beside them began and ended.
fn measure(database: &Database, arguments: &Arguments) -> Result<(Vec<Round>, Vec<Span>), Failure> {
    let (reader, writer) = (database.session(), database.session());
    let query = reader.prepare("SELECT sum(v % 1000) FROM queried WHERE k % 3 <> 1")?;
    let expected = query.query(&[])?.collect_all()?;
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_done = &is_done;
        let reading = scope.spawn(move || -> Result<Vec<Span>, Failure> {
            let mut queries = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                let from = Instant::now();
                let found = query.query(&[])?.collect_all()?;
                queries.push(Span { from, to: Instant::now() });
                if found != expected {
                    return Err(Failure::new("a query beside a checkpoint gave another answer"));
                }
            }
            Ok(queries)
        });
        let rounds = (0..u64::from(arguments.rounds)).map(|number| round(&writer, arguments, number));
        let rounds: Result<Vec<Round>, Failure> = rounds.collect();
        is_done.store(true, Ordering::Relaxed);
        let queries = reading.join().expect("readers give errors")?;
        Ok((rounds?, queries))
    })
}

fn round(session: &Session, arguments: &Arguments, number: u64) -> Result<Round, Failure> {
    let changed = arguments.changed();
    let first = (number * changed) % (arguments.rows - changed + 1);
    let last = first + changed - 1;
    let before = bytes_written();
    session.execute(&format!("UPDATE large SET b = b + 1 WHERE k BETWEEN {first} AND {last}"))?;
    let from = Instant::now();
    thread::sleep(Duration::from_secs_f64(arguments.seconds));
    let begun = Instant::now();
    session.execute("CHECKPOINT")?;
    let to = Instant::now();
    let bytes = bytes_written().saturating_sub(before);
    let own_bytes = own_bytes_of_last(session)?;
    Ok(Round { bytes, own_bytes, rest: Span { from, to: begun }, checkpoint: Span { from: begun, to } })
}

/// What this process has sent to disks; 0 where `/proc` does not tell.
fn bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

/// Bytes that the last checkpoint itself has written.
fn own_bytes_of_last(session: &Session) -> Result<u64, Failure> {
    let query = "SELECT CAST(checkpoint_bytes AS BIGINT) FROM nearside.durability";
    let batches = session.query(query)?.collect_all()?;
    let first = batches.iter().find(|batch| batch.num_rows() > 0);
    let first = first.ok_or_else(|| Failure::new("the database says nothing of its checkpoints"))?;
    Ok(first.column(0).as_primitive::<Int64Type>().value(0) as u64)
}

/// Medians over the rounds.
fn figures(rounds: &[Round], queries: &[Span], changed_bytes: u64) -> Vec<Figure> {
    let median = |of: &dyn Fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        percentile(&values, 50.0)
    };
    let at_rest = median(&|round| round.rest.rate(queries));
    let beside = median(&|round| round.checkpoint.rate(queries));
    // What was read in a round's time beside its checkpoint, of what would have been.
    let kept = median(&|round| round.checkpoint.rate(queries) / round.rest.rate(queries).max(1e-9));
    let bytes = median(&|round| round.bytes as f64);
    vec![
        Figure::new("checkpoint", median(&|round| round.checkpoint.seconds()), "s", Better::Less)
            .with_details(json!({"own_bytes": median(&|round| round.own_bytes as f64)})),
        Figure::new("written", bytes / 1e6, "MB", Better::Less),
        Figure::new("written by changed", bytes / changed_bytes.max(1) as f64, "times", Better::Less)
            .with_target(WRITTEN_MAX),
        Figure::new("queries at rest", at_rest, "per second", Better::More),
        Figure::new("queries beside it", beside, "per second", Better::More),
        Figure::new("queries beside it, of rest", kept, "times", Better::More).with_target(RATE_MIN),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_count_by_their_shares() {
        let begun = Instant::now();
        let span = |from: u64, to: u64| Span {
            from: begun + Duration::from_millis(from),
            to: begun + Duration::from_millis(to),
        };
        let queries = [span(0, 100), span(100, 300), span(300, 400), span(900, 1000)];
        assert!((span(0, 200).rate(&queries) - 1.5 / 0.2).abs() < 1e-9);
        assert!((span(150, 250).rate(&queries) - 0.5 / 0.1).abs() < 1e-9);
        assert!(span(500, 600).rate(&queries).abs() < 1e-9);
    }

    #[test]
    fn a_checkpoint_writes_what_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = Arguments {
            database: folder.path().join("d"),
            rows: 200_000,
            changed: Some(50_000),
            queried: 1000,
            rounds: 3,
            seconds: 0.05,
            threads: Some(2),
            json: None,
        };
        let database = database_in(Some(&arguments.database), arguments.threads).unwrap();
        make_tables(&database.session(), &arguments).unwrap();
        let (rounds, queries) = measure(&database, &arguments).unwrap();
        let figures = figures(&rounds, &queries, 50_000 * BYTES_PER_ROW);
        let value = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().value;
        let written = value("written by changed");
        // In memory's file systems nothing is sent to a disk.
        assert!(written == 0.0 || (written > 0.5 && written < 5.0), "{written}");
        assert!(value("queries at rest") > 0.0);
    }
}
