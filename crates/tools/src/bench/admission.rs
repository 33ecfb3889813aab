//! `nearside bench admission`: queries of TPC-H that come at the same time, let in as they come and by the model.
//!
//! Each set has a client for each of its queries, in an order drawn from the seed; all ask at once. Rounds take turns
//! with `nearside.admission = fifo` and `model`, with the same sets. What is reckoned stands beside what was measured:
//! one query after the other, as they came and shortest first, each in the time that the model expects of it alone
//! (`nearside.admission`), or that it took where it touches too little to be known.
//!
//! Invariant: every query gives as many rows as it did alone.
//!
//! Source: Seidel 2011, section 5.4.1.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::{Float64Type, Int64Type};
use clap::Args;
use nearside::{Database, Session};
use random::Random;
use serde_json::json;

use super::database_of;
use super::report::{Better, Figure, Output, median, report, write_head};
use crate::failure::Failure;
use crate::tpch::data::{self, Wishes};
use crate::tpch::parse_scale;
use crate::tpch::queries::{QUERIES, Query};

/// Runs of each query alone, before sets are measured.
const RUNS_ALONE: usize = 3;
/// From one client's query to the next one's: so that they come in their order.
const APART: Duration = Duration::from_micros(300);

/// Arguments of `nearside bench admission`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench admission                      scale 0.1, all 22 queries at once, five rounds
  nearside bench admission --data tpch-1 --queries 8 --rounds 20 --json admission.json")]
pub struct Arguments {
    /// TPC-H's scale, of data that is generated
    #[arg(
        long, value_name = "F", default_value = "0.1", conflicts_with = "data",
        value_parser = parse_scale
    )]
    scale: f64,
    /// A folder with TPC-H's tables as Parquet files instead
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Queries of a set, each drawn once
    #[arg(long, value_name = "N", default_value_t = 22, value_parser = clap::value_parser!(u8).range(2..=22))]
    queries: u8,
    /// Sets, each of which is run both ways
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// What sets are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A query as it is run here.
struct Known {
    query: &'static Query,
    rows: usize,
    alone_s: f64,
}

/// How a set went.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    makespan_s: f64,
    response_s: f64,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = database_of(arguments.threads)?;
    let (topology, threads) = (database.topology(), database.scheduler().threads());
    let mut out = io::stdout();
    write_head(&mut out, topology, threads)?;
    let scale = match &arguments.data {
        Some(folder) => data::load(&database, folder, Wishes::default())?,
        None => {
            data::generate_all(&database, arguments.scale, Wishes::default())?;
            arguments.scale
        }
    };
    let known = alone(&database)?;
    writeln!(
        out,
        "data      TPC-H at scale {scale}; {} sets of {} queries that come at once\n",
        arguments.rounds, arguments.queries
    )?;
    let figures = measured(&database, &known, arguments)?;
    writeln!(out, "{:<34} {:>12}", "medians of the sets", "")?;
    for figure in &figures {
        let value = if figure.unit == "x" { format!("{:.3}", figure.value) } else { format!("{:.2}", figure.value) };
        writeln!(out, "{:<34} {value:>12} {}", figure.name, figure.unit)?;
    }
    if let Some(json) = json {
        let given = json!({
            "scale": scale, "queries": arguments.queries, "rounds": arguments.rounds, "seed": arguments.seed,
        });
        json.write(&report("admission", topology, threads, given, &figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Each query by itself: how many rows it gives and, as the model learns meanwhile, how long it takes.
fn alone(database: &Database) -> Result<Vec<Known>, Failure> {
    let session = database.session();
    session.execute("SET nearside.admission = model")?;
    let mut known = Vec::with_capacity(QUERIES.len());
    let mut before = kinds(&session)?;
    let mut is_any_known = false;
    for query in &QUERIES {
        let mut times = Vec::with_capacity(RUNS_ALONE);
        let mut rows = 0;
        for _ in 0..RUNS_ALONE {
            let begun = Instant::now();
            rows = rows_of(&session, query)?;
            times.push(begun.elapsed().as_secs_f64());
        }
        let after = kinds(&session)?;
        let is_it = |(sql, (statements, _)): &(&String, &(i64, f64))| {
            before.get(*sql).map_or(0, |kind| kind.0) + RUNS_ALONE as i64 == *statements
        };
        let modelled_s = after.iter().find(is_it).map(|(_, (_, alone_s))| *alone_s);
        is_any_known |= modelled_s.is_some();
        known.push(Known { query, rows, alone_s: modelled_s.unwrap_or_else(|| median(&times)) });
        before = after;
    }
    if !is_any_known {
        return Err(Failure::new(
            "the model has learned of no query, as all of them touch too little to wait; take a larger scale",
        ));
    }
    Ok(known)
}

/// Kinds of queries that the model knows: how often they ran, and what it expects of them alone, in seconds.
fn kinds(session: &Session) -> Result<HashMap<String, (i64, f64)>, Failure> {
    let mut kinds = HashMap::new();
    for batch in session.query("SELECT sql, statements, alone_seconds FROM nearside.admission")? {
        let batch = batch?;
        let sql = batch.column(0).as_string_view();
        let statements = batch.column(1).as_primitive::<Int64Type>();
        let alone_s = batch.column(2).as_primitive::<Float64Type>();
        for row in 0..batch.num_rows() {
            kinds.insert(sql.value(row).to_string(), (statements.value(row), alone_s.value(row)));
        }
    }
    Ok(kinds)
}

fn rows_of(session: &Session, query: &Query) -> Result<usize, Failure> {
    Ok(session.query(query.sql)?.collect_all()?.iter().map(|batch| batch.num_rows()).sum())
}

fn measured(database: &Database, known: &[Known], arguments: &Arguments) -> Result<Vec<Figure>, Failure> {
    const MODES: [&str; 2] = ["fifo", "model"];
    let mut random = Random::new(arguments.seed);
    let mut outcomes = [Vec::new(), Vec::new()];
    let mut reckoned = [Vec::new(), Vec::new()];
    for round in 0..arguments.rounds as usize {
        let mut left: Vec<&Known> = known.iter().collect();
        let set: Vec<&Known> = (0..arguments.queries).map(|_| left.swap_remove(random.below(left.len()))).collect();
        let mut times: Vec<f64> = set.iter().map(|of| of.alone_s).collect();
        reckoned[0].push(one_by_one(&times));
        times.sort_by(f64::total_cmp);
        reckoned[1].push(one_by_one(&times));
        for turn in 0..MODES.len() {
            let mode = (round + turn) % MODES.len();
            outcomes[mode].push(at_once(database, &set, MODES[mode])?);
        }
    }
    let mut figures = Vec::new();
    for (what, of) in [
        ("mean response", (|outcome: &Outcome| outcome.response_s) as fn(&Outcome) -> f64),
        ("makespan", |outcome: &Outcome| outcome.makespan_s),
    ] {
        for (source, outcomes) in [("reckoned", &reckoned), ("measured", &outcomes)] {
            let times = outcomes.each_ref().map(|outcomes| outcomes.iter().map(of).collect::<Vec<f64>>());
            let ratios: Vec<f64> = times[1].iter().zip(&times[0]).map(|(model, fifo)| model / fifo).collect();
            for (mode, times) in MODES.into_iter().zip(&times) {
                let name = format!("{what}, {source}, {mode}");
                figures.push(Figure::new(name, median(times) * 1e3, "ms", Better::Less));
            }
            let name = format!("{what}, {source}, model : fifo");
            figures.push(Figure::new(name, median(&ratios), "x", Better::Less));
        }
    }
    Ok(figures)
}

/// Queries one after the other, all there at the beginning.
fn one_by_one(times: &[f64]) -> Outcome {
    let mut now_s = 0.0;
    let ends: f64 = times
        .iter()
        .map(|time| {
            now_s += time;
            now_s
        })
        .sum();
    Outcome { makespan_s: now_s, response_s: ends / times.len() as f64 }
}

/// A set of queries that come at once, each from a client of its own.
fn at_once(database: &Database, set: &[&Known], mode: &str) -> Result<Outcome, Failure> {
    let barrier = Barrier::new(set.len());
    let ends = thread::scope(|scope| {
        let begun = Instant::now();
        let mut clients = Vec::with_capacity(set.len());
        for (place, of) in set.iter().enumerate() {
            let (barrier, session) = (&barrier, database.session());
            clients.push(scope.spawn(move || -> Result<(Duration, Instant), Failure> {
                let is_set = session.execute(&format!("SET nearside.admission = {mode}"));
                barrier.wait();
                is_set?;
                thread::sleep(APART * place as u32);
                let begun = Instant::now();
                let rows = rows_of(&session, of.query)?;
                if rows != of.rows {
                    return Err(Failure::new(format!("query {} gave {rows} rows, not {}", of.query.number, of.rows)));
                }
                Ok((begun.elapsed(), Instant::now()))
            }));
        }
        let ends = clients.into_iter().map(|client| {
            client.join().map_err(|_| Failure::new("a client panicked"))?.map(|(took, end)| (took, end - begun))
        });
        ends.collect::<Result<Vec<(Duration, Duration)>, Failure>>()
    })?;
    let response_s = ends.iter().map(|(took, _)| took.as_secs_f64()).sum::<f64>() / ends.len() as f64;
    let makespan_s = ends.iter().map(|(_, end)| end.as_secs_f64()).fold(0.0, f64::max);
    Ok(Outcome { makespan_s, response_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_first_responds_soonest_and_ends_at_the_same_time() {
        let (as_they_came, shortest) = (one_by_one(&[3.0, 1.0, 2.0]), one_by_one(&[1.0, 2.0, 3.0]));
        assert_eq!(as_they_came, Outcome { makespan_s: 6.0, response_s: 13.0 / 3.0 });
        assert_eq!(shortest, Outcome { makespan_s: 6.0, response_s: 10.0 / 3.0 });
    }
}
