//! `nearside bench writes`: statements of one row, loads of tables with a primary key, and scans beside writes.
//!
//! Invariants: every answer is checked, and every table, row by row, when a kind has ended; kinds begin with the same
//! table, so that their order does not matter.
//!
//! # Limits
//! Embedded, so without a network or a protocol; one table at a time.

mod beside;
mod loads;
mod one_row;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nearside::Database;
use serde_json::{Value, json};

use super::database_of;
use super::report::{Better, Figure, Output, report, write_head};
use super::rows::Rows;
use crate::failure::Failure;
use crate::size::{human, thousands};
use beside::{Updates, Writer};
use loads::LOADS;
use one_row::{KINDS, Kind, RowStatement, SOURCE};

/// Rows of an upsert beside scans.
const UPSERT_ROWS: usize = 100;
/// Rows that are upserted per second beside scans.
const UPSERTS_PER_SECOND: f64 = 100_000.0;

/// Arguments of `nearside bench writes`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench writes                               a million rows, loads of 10 million
  nearside bench writes --seconds 2 --load-rows 0     no loads
  nearside bench writes --write-rate 10000 --json writes.json

Statements of one row come one after the other from one session, as texts and prepared; updates also from four sessions
at the same time. Then a table is scanned at rest, beside single-row updates and beside upserts of 100 rows by their
keys, and rows are loaded into an empty table with a primary key.")]
pub struct Arguments {
    /// Rows of the table that statements of one row and scans are for
    #[arg(
        long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(100..=1 << 30)
    )]
    rows: u64,
    /// Rows of each load; 0 for no loads
    #[arg(
        long, value_name = "N", default_value_t = 10_000_000,
        value_parser = clap::value_parser!(u64).range(0..=1 << 32)
    )]
    load_rows: u64,
    /// Length of each kind of statement, the first fifth of which is not counted
    #[arg(long, value_name = "S", default_value = "5", value_parser = super::sched::parse_seconds)]
    seconds: f64,
    /// Rows that are updated per second beside scans [default: as many as one session can by single statements, 100000
    /// in batches]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    write_rate: Option<u32>,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// What values and the order of keys are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = database_of(arguments.threads)?;
    let topology = database.topology();
    let threads = database.scheduler().threads();
    let rows = Rows { count: arguments.rows, seed: arguments.seed };
    let mut out = io::stdout();
    write_head(&mut out, topology, threads)?;
    writeln!(out, "data      {} rows; loads of {} rows\n", thousands(rows.count), thousands(arguments.load_rows))?;
    let mut figures = Vec::new();
    rows.load(&database, SOURCE, false)?;
    of_one_row(&mut out, &database, rows, arguments, &mut figures)?;
    of_scans(&mut out, &database, rows, arguments, &mut figures)?;
    if arguments.load_rows > 0 {
        of_loads(&mut out, arguments, &mut figures)?;
    }
    if let Some(json) = json {
        let given = json!({
            "rows": rows.count, "load_rows": arguments.load_rows, "seconds": arguments.seconds,
            "write_rate": arguments.write_rate, "seed": arguments.seed,
        });
        json.write(&report("writes", topology, threads, given, &figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Statements of one row.
fn of_one_row(
    out: &mut dyn Write,
    database: &Database,
    rows: Rows,
    arguments: &Arguments,
    figures: &mut Vec<Figure>,
) -> Result<(), Failure> {
    writeln!(
        out,
        "{:<30} {:>12} {:>12} {:>10} {:>10} {:>10}",
        "statements of one row", "statements", "per second", "p50 us", "p99 us", "at least"
    )?;
    for kind in KINDS {
        let figure = one_row::measure(database, rows, kind, arguments.seconds, figures)?;
        let detail = |name: &str| figure.details.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        writeln!(
            out,
            "{:<30} {:>12} {:>12} {:>10.2} {:>10.2} {:>10}  {}",
            figure.name,
            thousands(detail("statements") as u64),
            thousands(figure.value as u64),
            detail("p50_us"),
            detail("p99_us"),
            figure.target.map_or(String::new(), |target| thousands(target as u64)),
            figure.verdict()
        )?;
        out.flush()?;
        figures.push(figure);
    }
    Ok(())
}

/// Scans beside prepared updates, and beside upserts of batches.
fn of_scans(
    out: &mut dyn Write,
    database: &Database,
    rows: Rows,
    arguments: &Arguments,
    figures: &mut Vec<Figure>,
) -> Result<(), Failure> {
    let kind = Kind { statement: RowStatement::Update, is_prepared: true, sessions: 1 };
    let asked = arguments.write_rate.map(f64::from);
    let single = Writer { of: Updates::Statements(kind), per_second: asked };
    let batches = Writer { of: Updates::Batches(UPSERT_ROWS), per_second: asked.or(Some(UPSERTS_PER_SECOND)) };
    for writer in [single, batches] {
        writeln!(out, "\nscans beside writes by {}", writer.name())?;
        for figure in beside::measure(database, rows, writer, arguments.seconds)? {
            write_line(out, &figure)?;
            figures.push(figure);
        }
    }
    Ok(())
}

fn of_loads(out: &mut dyn Write, arguments: &Arguments, figures: &mut Vec<Figure>) -> Result<(), Failure> {
    let rows = Rows { count: arguments.load_rows, seed: arguments.seed };
    writeln!(out, "\nloads of a table with a primary key")?;
    for load in LOADS {
        for figure in loads::measure(rows, load, arguments.threads)? {
            write_line(out, &figure)?;
            figures.push(figure);
        }
    }
    Ok(())
}

/// A figure with its target.
fn write_line(out: &mut dyn Write, figure: &Figure) -> Result<(), Failure> {
    let shown = |value: f64| match figure.unit {
        "x" => format!("{value:.2}"),
        _ => thousands(value as u64),
    };
    let sense = if figure.better == Better::Less { "at most" } else { "at least" };
    let target = figure.target.map_or(String::new(), |target| format!("{sense} {}", shown(target)));
    let bytes = |name: &str| figure.details.get(name).and_then(Value::as_u64).map(human);
    let memory = match (bytes("peak_bytes"), bytes("stays_bytes")) {
        (Some(peak), Some(stays)) if figure.unit == "x" => format!("  peak {peak}, {stays} stay"),
        _ => String::new(),
    };
    let (name, value, unit) = (&figure.name, shown(figure.value), figure.unit);
    writeln!(out, "{name:<30} {value:>12} {unit:<12} {target:>18}  {}{memory}", figure.verdict())?;
    out.flush()?;
    Ok(())
}
