//! `nearside tpch`: TPC-H from nothing to checked answers.
//!
//! Loads the tables, then runs each query once untimed (plans are made, caches filled) and `--runs` times timed, from
//! the SQL text to the last row. The answer of every run is checked, not only of the first.
//!
//! # Limits
//! The power and throughput metrics of the benchmark's specification are not computed, refreshes are not run: the times
//! are for comparing engines and revisions, and are not TPC results.

pub mod answers;
pub mod data;
pub mod generate;
pub mod placements;
pub mod queries;
pub mod report;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use clap::Args;
use nearside::{Database, Session};

use crate::failure::Failure;
use crate::machine::{describe, with_machine};
use answers::{Check, Text};
use data::Wishes;
use generate::Table;
use placements::Placement;
use queries::{QUERIES, Query};
use report::{QueryReport, Report, TableReport};

const SCALE_MIN: f64 = 0.001;
const SCALE_MAX: f64 = 100_000.0;

/// Arguments of `nearside tpch`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside tpch                            scale 1: about 1 GB of data, 8.7 million rows
  nearside tpch --scale 10 --runs 5
  nearside tpch --queries 1,6 --threads 2
  nearside tpch --data sf10/ --json times.json
  nearside tpch --keys                     with the tables' primary keys declared
  nearside tpch --placement ivp --placement 'lineitem=pp(4, hash(l_orderkey))'
  nearside tpch --scale 1 --save sf1/      also writes sf1/lineitem.parquet, ..

Answers are checked at the scales 0.01, 0.1 and 1. The exit code is 1 when one is wrong or a query fails.
The JSON file holds {machine, scale, threads, load_s, resident_bytes, peak_resident_bytes, revision, tables,
queries:[{query, best_s, median_s, rows, check}]}; the memory figures are those after the load.")]
pub struct Arguments {
    /// Scale factor: 1 is about 1 GB of raw data [default: 1, or that of --data]
    #[arg(long, value_name = "F", value_parser = parse_scale)]
    scale: Option<f64>,
    /// Only these queries, in this order
    #[arg(long, value_name = "1,6,..", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=22))]
    queries: Vec<u8>,
    /// Timed runs per query, after one that is not timed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Read lineitem.parquet, orders.parquet, .. from this folder instead of generating
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write the tables to this folder as Parquet files once they are loaded, for --data and for other engines
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Where tables lie, as in CREATE TABLE .. WITH (placement = '..'): rr, ivp, pp(4), .., for all tables or for one
    /// [default: rr]
    #[arg(long, value_name = "[TABLE=]PLACEMENT", value_parser = placements::parse)]
    placement: Vec<Placement>,
    /// Declare the tables' primary keys
    #[arg(long)]
    keys: bool,
    /// How tasks are scheduled: os, target or bound [default: soft affinities, hard ones for memory-intensive tasks]
    #[arg(long, value_name = "STRATEGY")]
    scheduling: Option<sched::Preset>,
    /// This machine's figures, as `nearside probe --json` wrote them
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// Write the figures to this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A scale factor from the command line.
pub fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (SCALE_MIN..=SCALE_MAX).contains(&scale) => Ok(scale),
        _ => Err(format!("a scale is a number from {SCALE_MIN} to {SCALE_MAX}")),
    }
}

/// Loads, runs, checks, reports.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // An output file that cannot be made should not cost an hour of running.
    let json = arguments.json.as_deref().map(create).transpose()?;
    let mut builder = Database::builder();
    if let Some(threads) = arguments.threads {
        builder = builder.threads(usize::from(threads));
    }
    if let Some(preset) = arguments.scheduling {
        builder = builder.scheduling(sched::Settings::preset(preset));
    }
    let database = with_machine(builder, arguments.machine.as_deref())?.build()?;
    let mut report = load(&database, arguments)?;
    let mut out = io::stdout();
    report.write_load(&mut out)?;
    if let Some(folder) = &arguments.save {
        data::save(&database, folder)?;
    }
    Report::write_query_header(&mut out)?;
    let session = database.session();
    let text = data::text_of(&database);
    for query in chosen(&arguments.queries) {
        let done = measure(&session, query, report.scale, text, arguments.runs);
        Report::write_query(&mut out, &done)?;
        report.queries.push(done);
    }
    report.end_resident_bytes = numa::resident_bytes();
    report.end_peak_resident_bytes = numa::peak_resident_bytes();
    report.write_end(&mut out)?;
    if let (Some(file), Some(path)) = (json, &arguments.json) {
        write_json(file, &report).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(if report.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

fn write_json(file: File, report: &Report) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut file, report)?;
    writeln!(file)?;
    file.flush()
}

/// The queries of these numbers without repetitions; all of them where none is named.
fn chosen(numbers: &[u8]) -> Vec<&'static Query> {
    let mut chosen: Vec<&Query> = Vec::new();
    for query in numbers.iter().filter_map(|number| queries::query(*number)) {
        if !chosen.iter().any(|other| other.number == query.number) {
            chosen.push(query);
        }
    }
    if numbers.is_empty() { QUERIES.iter().collect() } else { chosen }
}

/// Loads the tables of a folder, or generates them at a scale (1 unless given); gives the scale.
pub fn load_tables(database: &Database, scale: Option<f64>, folder: Option<&Path>) -> Result<f64, Failure> {
    match folder {
        Some(folder) => data::load(database, folder, Wishes::default()),
        None => {
            let scale = scale.unwrap_or(1.0);
            data::generate_all(database, scale, Wishes::default())?;
            Ok(scale)
        }
    }
}

fn load(database: &Database, arguments: &Arguments) -> Result<Report, Failure> {
    let started = Instant::now();
    let wishes = Wishes { placements: &arguments.placement, keys: arguments.keys };
    let (scale, source) = match &arguments.data {
        None => {
            let scale = arguments.scale.unwrap_or(1.0);
            data::generate_all(database, scale, wishes)?;
            (scale, "generated")
        }
        Some(folder) => {
            let scale = data::load(database, folder, wishes)?;
            if let Some(wanted) = arguments.scale.filter(|wanted| *wanted != scale) {
                let folder = folder.display();
                return Err(Failure::new(format!("the data in {folder} is of scale {scale}, not {wanted}")));
            }
            (scale, "parquet")
        }
    };
    let load_s = started.elapsed().as_secs_f64();
    Ok(Report {
        machine: describe(database.topology()),
        revision: crate::REVISION,
        debug_build: cfg!(debug_assertions),
        scale,
        threads: database.scheduler().threads(),
        source,
        keys: arguments.keys,
        measured: true,
        load_s,
        resident_bytes: numa::resident_bytes(),
        peak_resident_bytes: numa::peak_resident_bytes(),
        end_resident_bytes: 0,
        end_peak_resident_bytes: 0,
        tables: tables(database),
        queries: Vec::new(),
    })
}

/// Bytes per table and node, in the benchmark's order of tables.
fn tables(database: &Database) -> Vec<TableReport> {
    let columns = database.storage_report();
    let report = |table: Table| {
        let mut report = TableReport { table: table.name().to_string(), ..TableReport::default() };
        for column in columns.iter().filter(|column| column.table == table.name()) {
            report.rows = column.rows;
            report.bytes += column.codes_bytes + column.dictionary_bytes;
            for (node, bytes) in &column.bytes_by_node {
                *report.bytes_per_node.entry(node.0).or_default() += bytes;
            }
        }
        report
    };
    Table::ALL.into_iter().rev().map(report).collect()
}

fn measure(session: &Session, query: &Query, scale: f64, text: Text, runs: u16) -> QueryReport {
    let mut times = Vec::new();
    let mut rows = None;
    let mut check = Check::Ok;
    for run in 0..=runs {
        match timed(session, query) {
            Err(error) => return QueryReport::new(query.number, Vec::new(), None, Check::Failed(error.to_string())),
            Ok((time, schema, batches)) => {
                if run > 0 {
                    times.push(time);
                }
                rows = Some(batches.iter().map(|batch| batch.num_rows() as u64).sum());
                // The first wrong run is the one to tell of.
                if check.passes() {
                    check = answers::check(query, scale, text, &schema, &batches);
                }
            }
        }
    }
    QueryReport::new(query.number, times, rows, check)
}

fn timed(session: &Session, query: &Query) -> nearside::Result<(Duration, SchemaRef, Vec<RecordBatch>)> {
    let started = Instant::now();
    let rows = session.query(query.sql)?;
    let schema = rows.schema().clone();
    let batches = rows.collect_all()?;
    Ok((started.elapsed(), schema, batches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_bounded_numbers() {
        assert_eq!(parse_scale("0.01"), Ok(0.01));
        assert_eq!(parse_scale("10"), Ok(10.0));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "x", "", "0.0001"] {
            assert!(parse_scale(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn queries_run_in_the_order_given_and_once() {
        let numbers = |chosen: Vec<&Query>| chosen.iter().map(|query| query.number).collect::<Vec<_>>();
        assert_eq!(numbers(chosen(&[6, 1, 6])), [6, 1]);
        assert_eq!(numbers(chosen(&[])), (1..=22).collect::<Vec<_>>());
    }
}
