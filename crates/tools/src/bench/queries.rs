//! `nearside bench queries`: any queries over any Parquet files: what `nearside tpch` does for TPC-H, for schemas of
//! your own.
//!
//! Invariants: each file of queries holds one; it runs once untimed, then in turns with the others; every run must give
//! as many rows as the first. Answers can be written as CSV, to be compared with those of another engine.
//!
//! # Limits
//! Answers are not checked here.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use clap::Args;
use nearside::{LoadOptions, Session};
use serde_json::json;

use super::database_of;
use super::report::{Better, Figure, Output, median, report, write_head};
use crate::failure::Failure;
use crate::size::{human, thousands};

/// Arguments of `nearside bench queries`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench queries ssb1/ bench/ssb/q*.sql
  nearside bench queries trips/ fares.sql tips.sql --runs 9 --json trips.json
  nearside bench queries trips/ fares.sql --answers found/        also writes found/fares.csv

Every file NAME.parquet of the folder becomes the table NAME. A figure is the median of the runs, from the text to the
last row.")]
pub struct Arguments {
    /// A folder of Parquet files, one per table
    #[arg(value_name = "FOLDER")]
    data: PathBuf,
    /// Files with one query each
    #[arg(value_name = "FILE", required = true)]
    queries: Vec<PathBuf>,
    /// Timed runs of each query, after one that is not timed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Write each query's answer to this folder, as CSV with a line of names
    #[arg(long, value_name = "DIR")]
    answers: Option<PathBuf>,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A query and what came of it.
struct Query {
    name: String,
    sql: String,
    rows: u64,
    times_s: Vec<f64>,
}

/// Loads, runs, prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let mut queries = arguments.queries.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    for (i, query) in queries.iter().enumerate() {
        if queries[..i].iter().any(|other| other.name == query.name) {
            return Err(Failure::new(format!(
                "two files of queries are named '{}'; their figures need a name each",
                query.name
            )));
        }
    }
    let tables = tables(&arguments.data)?;
    if let Some(folder) = &arguments.answers {
        fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("cannot make the folder {}: {error}", folder.display())))?;
    }
    let database = database_of(arguments.threads)?;
    let threads = database.scheduler().threads();
    let mut out = io::stdout();
    write_head(&mut out, database.topology(), threads)?;
    let started = Instant::now();
    let mut rows = 0;
    for (table, path) in &tables {
        rows += database.load(table, path, &LoadOptions::default())?.rows;
    }
    let load_s = started.elapsed().as_secs_f64();
    let resident_bytes = numa::resident_bytes();
    writeln!(
        out,
        "data      {} rows in {} tables, loaded in {load_s:.2} s; {} resident\n",
        thousands(rows),
        tables.len(),
        human(resident_bytes)
    )?;
    let session = database.session();
    for run in 0..=arguments.runs {
        for query in &mut queries {
            let answers = arguments.answers.as_deref().filter(|_| run == 0);
            run_once(&session, query, run, answers)?;
        }
    }
    writeln!(out, "{:<16} {:>10} {:>10} {:>10}", "query", "best ms", "median ms", "rows")?;
    let figures: Vec<Figure> = queries.iter().map(figure).collect();
    for (query, figure) in queries.iter().zip(&figures) {
        let best = query.times_s.iter().copied().fold(f64::INFINITY, f64::min) * 1e3;
        writeln!(out, "{:<16} {best:>10.3} {:>10.3} {:>10}", query.name, figure.value, thousands(query.rows))?;
    }
    writeln!(out, "{:<16} {:>10} {:>10.3}", "total", "", figures.iter().map(|figure| figure.value).sum::<f64>())?;
    if let Some(json) = json {
        let names: Vec<&String> = tables.iter().map(|(table, _)| table).collect();
        let given = json!({"data": arguments.data, "tables": names, "runs": arguments.runs});
        let mut value = report("queries", database.topology(), threads, given, &figures);
        value["load_s"] = json!(load_s);
        value["resident_bytes"] = json!(resident_bytes);
        json.write(&value)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Query, Failure> {
    let sql = fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read the query {}: {error}", path.display())))?;
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Query { name, sql, rows: 0, times_s: Vec::new() })
}

/// The tables of a folder and their files, by name.
fn tables(folder: &Path) -> Result<Vec<(String, String)>, Failure> {
    let cannot = |error: io::Error| Failure::new(format!("cannot read the folder {}: {error}", folder.display()));
    let mut tables = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let (Some(name), Some(text)) = (path.file_stem().and_then(|stem| stem.to_str()), path.to_str()) else {
            continue;
        };
        if path.extension().is_some_and(|extension| extension == "parquet") {
            tables.push((name.to_string(), text.to_string()));
        }
    }
    if tables.is_empty() {
        return Err(Failure::new(format!(
            "{} holds no Parquet file; each NAME.parquet there becomes a table",
            folder.display()
        )));
    }
    tables.sort();
    Ok(tables)
}

/// Runs a query; the run 0 is not timed, and its answer may be written.
fn run_once(session: &Session, query: &mut Query, run: u16, answers: Option<&Path>) -> Result<(), Failure> {
    let of_query = |error: nearside::Error| Failure::new(format!("query {}: {error}", query.name));
    let started = Instant::now();
    let stream = session.query(&query.sql).map_err(of_query)?;
    let schema = stream.schema().clone();
    let batches = stream.collect_all().map_err(of_query)?;
    let taken = started.elapsed().as_secs_f64();
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    match run {
        0 => query.rows = rows,
        _ if rows != query.rows => {
            let name = &query.name;
            let first = query.rows;
            return Err(Failure::new(format!("query {name} gave {first} rows, and {rows} in run {run}")));
        }
        _ => query.times_s.push(taken),
    }
    if let Some(folder) = answers {
        let path = folder.join(format!("{}.csv", query.name));
        let cannot = |error: &dyn std::fmt::Display| Failure::new(format!("cannot write {}: {error}", path.display()));
        let mut writer = WriterBuilder::new().with_header(true).build(File::create(&path).map_err(|e| cannot(&e))?);
        let empty = RecordBatch::new_empty(schema);
        let all = if batches.is_empty() { std::slice::from_ref(&empty) } else { &batches[..] };
        all.iter().try_for_each(|batch| writer.write(batch)).map_err(|e| cannot(&e))?;
    }
    Ok(())
}

fn figure(query: &Query) -> Figure {
    let figure = Figure::new(query.name.clone(), median(&query.times_s) * 1e3, "ms", Better::Less);
    figure.with_details(json!({"rows": query.rows, "runs_s": query.times_s}))
}
