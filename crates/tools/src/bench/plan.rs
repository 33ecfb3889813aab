//! `nearside bench plan`: what planning takes: binding and starting a prepared query, a small query from its text, and
//! the 22 queries of TPC-H.
//!
//! Invariants: nothing comes from the plan cache, but the prepared plan itself; a figure is the median over runs after
//! one that is not counted; the queries take turns, so that what else the machine does strikes all alike.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use nearside::{Database, PlanTimes, Prepared, Session};
use serde_json::{Value, json};

use super::report::{Better, Figure, Output, median, report, write_head};
use crate::failure::Failure;
use crate::tpch::data::{Wishes, generate_all};
use crate::tpch::queries::QUERIES;

/// TPC-H's scale: planning looks at dictionaries and counts, not at rows.
const SCALE: f64 = 0.01;
/// Rows of the tables of the small queries.
const SMALL_ROWS: u32 = 1000;
/// Columns of the table of the unprepared query.
const COLUMNS: u32 = 16;
/// Most microseconds to bind and start a prepared query, with its rows.
const PREPARED_TARGET_US: f64 = 20.0;
/// Most microseconds to plan the unprepared query.
const UNPREPARED_TARGET_US: f64 = 1000.0;
/// Most microseconds to plan a query of TPC-H.
const TPCH_TARGET_US: f64 = 3000.0;

/// Arguments of `nearside bench plan`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench plan
  nearside bench plan --runs 501 --json plan.json

A plan is all from the text to where rows would flow: parse, resolve names, optimise, lower to our operators, bind to
rows with the order of joins. Of the prepared query two times are told: until query() returns, and until its one row
has come.")]
pub struct Arguments {
    /// Timed runs of each
    #[arg(long, value_name = "N", default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Plans, prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = Database::new()?;
    let threads = database.scheduler().threads();
    let mut out = io::stdout();
    write_head(&mut out, database.topology(), threads)?;
    let session = database.session();
    make_small_tables(&session)?;
    generate_all(&database, SCALE, Wishes::default())?;
    writeln!(out, "\n{:<36} {:>10} {:>10}", "prepared, a row of a small table", "us", "at most")?;
    let mut figures = prepared(&session, arguments.runs)?;
    for figure in &figures {
        write_line(&mut out, figure)?;
    }
    writeln!(
        out,
        "\n{:<36} {:>10} {:>10}          parse   resolve  optimise     lower      bind",
        "planned from the text", "us", "at most"
    )?;
    let texts = texts();
    let planned = planned(&session, &texts, arguments.runs)?;
    for figure in &planned {
        write_line(&mut out, figure)?;
    }
    figures.extend(planned);
    if let Some(json) = json {
        let given = json!({ "runs": arguments.runs, "tpch_scale": SCALE });
        json.write(&report("plan", database.topology(), threads, given, &figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn make_small_tables(session: &Session) -> Result<(), Failure> {
    session.execute("CREATE TABLE small (id BIGINT PRIMARY KEY, a BIGINT NOT NULL, b BIGINT)")?;
    session.execute(&format!(
        "INSERT INTO small SELECT value, value % 7, value * 3 FROM generate_series(1, {SMALL_ROWS})"
    ))?;
    let columns: Vec<String> =
        (0..COLUMNS).map(|i| format!("(value * {}) % {} AS c{i}", 2 * i + 1, 10 * (i + 1))).collect();
    session.execute(&format!(
        "CREATE TABLE wide AS SELECT {} FROM generate_series(1, {SMALL_ROWS})",
        columns.join(", ")
    ))?;
    Ok(())
}

/// The prepared query: until it is started, and until its row has come.
fn prepared(session: &Session, runs: u32) -> Result<Vec<Figure>, Failure> {
    let prepared: Prepared = session.prepare("SELECT a, b FROM small WHERE id = $1")?;
    let mut started = Vec::new();
    let mut done = Vec::new();
    for run in 0..=runs {
        let key = i64::from(run % SMALL_ROWS + 1);
        let begun = Instant::now();
        let stream = prepared.query(&[key.into()])?;
        let bound = begun.elapsed();
        let rows: usize = stream.collect_all()?.iter().map(|batch| batch.num_rows()).sum();
        let all = begun.elapsed();
        if rows != 1 {
            return Err(Failure::new(format!("the prepared query gave {rows} rows for id {key}, not one")));
        }
        if run > 0 {
            started.push(bound.as_secs_f64() * 1e6);
            done.push(all.as_secs_f64() * 1e6);
        }
    }
    let figure = |name: &str, times: &[f64]| Figure::new(name, median(times), "us", Better::Less);
    Ok(vec![
        figure("bind and start", &started).with_target(PREPARED_TARGET_US),
        figure("bind, start and the row", &done),
    ])
}

/// What is planned: name, text, target in microseconds.
fn texts() -> Vec<(String, String, f64)> {
    let columns: Vec<String> = (0..COLUMNS).map(|i| format!("c{i}")).collect();
    let wide = format!("SELECT {} FROM wide WHERE c1 = 5 AND c2 > 3 AND c3 BETWEEN 2 AND 9", columns.join(", "));
    let mut texts = vec![("three predicates, sixteen columns".to_string(), wide, UNPREPARED_TARGET_US)];
    texts.extend(QUERIES.iter().map(|q| (format!("TPC-H query {}", q.number), q.sql.to_string(), TPCH_TARGET_US)));
    texts
}

fn planned(session: &Session, texts: &[(String, String, f64)], runs: u32) -> Result<Vec<Figure>, Failure> {
    let mut times: Vec<Vec<PlanTimes>> = vec![Vec::new(); texts.len()];
    for run in 0..=runs {
        for ((name, sql, _), times) in texts.iter().zip(&mut times) {
            let planned = session.plan_times(sql).map_err(|error| Failure::new(format!("{name}: {error}")))?;
            if run > 0 {
                times.push(planned);
            }
        }
    }
    let figure = |((name, _, target), times): (&(String, String, f64), &Vec<PlanTimes>)| {
        let us = |of: &dyn Fn(&PlanTimes) -> std::time::Duration| {
            median(&times.iter().map(|t| of(t).as_secs_f64() * 1e6).collect::<Vec<_>>())
        };
        let figure = Figure::new(name.clone(), us(&PlanTimes::total), "us", Better::Less).with_target(*target);
        figure.with_details(json!({
            "parse_us": us(&|t| t.parse), "resolve_us": us(&|t| t.resolve), "optimize_us": us(&|t| t.optimize),
            "lower_us": us(&|t| t.lower), "bind_us": us(&|t| t.bind),
        }))
    };
    Ok(texts.iter().zip(&times).map(figure).collect())
}

fn write_line(out: &mut dyn Write, figure: &Figure) -> Result<(), Failure> {
    let target = figure.target.map_or(String::new(), |target| format!("{target:.0}"));
    let mut line = format!("{:<36} {:>10.1} {target:>10}  {:<6}", figure.name, figure.value, figure.verdict());
    for step in ["parse_us", "resolve_us", "optimize_us", "lower_us", "bind_us"] {
        if let Some(us) = figure.details.get(step).and_then(Value::as_f64) {
            line += &format!(" {us:>9.1}");
        }
    }
    writeln!(out, "{}", line.trim_end())?;
    Ok(())
}
