//! `nearside bench load`: TPC-H loaded from Parquet files or from the generator: time, rates, memory.
//!
//! Invariants: each load is a process of its own, so that memory resident after it and at its peak is its own; a figure
//! is the median over runs, and sources take turns.
//!
//! # Limits
//! Files are read as the page cache has them: the first run may be cold, and is left out when there is more than one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::database_of;
use super::report::{Better, Figure, Output, median, report, write_head};
use crate::failure::Failure;
use crate::size::{human, thousands};
use crate::tpch::data;
use crate::tpch::generate::Table;

/// Arguments of `nearside bench load`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench load                                 scale 1 from the generator
  nearside bench load --data sf1/ --data sf10/        Parquet files, as nearside tpch --save makes them
  nearside bench load --scale 0.1,1 --runs 5 --json load.json

MB/s read are of Parquet files, MB/s stored of what they became in memory. Generating costs more than loading: compare
engines on files.")]
pub struct Arguments {
    /// Scale factors to generate [default: 1, unless --data is given]
    #[arg(long, value_name = "F,..", value_delimiter = ',', value_parser = crate::tpch::parse_scale)]
    scale: Vec<f64>,
    /// Folders with lineitem.parquet, orders.parquet, ..
    #[arg(long, value_name = "DIR")]
    data: Vec<PathBuf>,
    /// Loads of each, after one that is not counted
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Load once here and print the figures as JSON
    #[arg(long, hide = true)]
    once: bool,
}

/// What is loaded.
#[derive(Clone, Debug)]
enum LoadSource {
    Scale(f64),
    Folder(PathBuf),
}

impl LoadSource {
    fn name(&self) -> String {
        match self {
            LoadSource::Scale(scale) => format!("scale {scale} generated"),
            LoadSource::Folder(folder) => format!("{}", folder.display()),
        }
    }
}

/// One load.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LoadFigures {
    load_s: f64,
    scale: f64,
    rows: u64,
    stored_bytes: u64,
    file_bytes: Option<u64>,
    resident_bytes: u64,
    peak_bytes: u64,
}

/// Loads, prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut sources: Vec<LoadSource> = arguments.data.iter().cloned().map(LoadSource::Folder).collect();
    sources.extend(arguments.scale.iter().copied().map(LoadSource::Scale));
    if sources.is_empty() {
        sources.push(LoadSource::Scale(1.0));
    }
    if arguments.once {
        let loaded = load_here(&sources[0], arguments.threads)?;
        writeln!(io::stdout(), "{}", json!(loaded))?;
        return Ok(ExitCode::SUCCESS);
    }
    let json = Output::open(arguments.json.as_deref())?;
    let topology = numa::Topology::discover().map_err(|error| Failure::new(error.to_string()))?;
    let threads = arguments.threads.map_or_else(|| topology.default_threads(), usize::from);
    let mut out = io::stdout();
    write_head(&mut out, &topology, threads)?;
    let mut loads: Vec<Vec<LoadFigures>> = vec![Vec::new(); sources.len()];
    for run in 0..=arguments.runs {
        for (source, loads) in sources.iter().zip(&mut loads) {
            let loaded = load_apart(source, arguments.threads)?;
            if run > 0 {
                loads.push(loaded);
            }
        }
    }
    writeln!(
        out,
        "\n{:<24} {:>12} {:>9} {:>11} {:>10} {:>12} {:>11} {:>11} {:>11}",
        "source", "rows", "load s", "M rows/s", "MB/s read", "MB/s stored", "stored", "resident", "peak"
    )?;
    let mut figures = Vec::new();
    for (source, loads) in sources.iter().zip(&loads) {
        let figure = figure(source, loads);
        write_line(&mut out, source, loads, &figure)?;
        figures.push(figure);
    }
    if let Some(json) = json {
        let names: Vec<_> = sources.iter().map(LoadSource::name).collect();
        json.write(&report("load", &topology, threads, json!({"sources": names, "runs": arguments.runs}), &figures))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads in this process.
fn load_here(source: &LoadSource, threads: Option<u16>) -> Result<LoadFigures, Failure> {
    let database = database_of(threads)?;
    let started = Instant::now();
    let (scale, file_bytes) = match source {
        LoadSource::Scale(scale) => {
            data::generate_all(&database, *scale, data::Wishes::default())?;
            (*scale, None)
        }
        LoadSource::Folder(folder) => {
            (data::load(&database, folder, data::Wishes::default())?, Some(file_bytes(folder)))
        }
    };
    let load_s = started.elapsed().as_secs_f64();
    let columns = database.storage_report();
    Ok(LoadFigures {
        load_s,
        scale,
        rows: Table::ALL.into_iter().map(|table| data::row_count(&database, table)).sum(),
        stored_bytes: columns.iter().map(|column| column.codes_bytes + column.dictionary_bytes).sum(),
        file_bytes,
        resident_bytes: numa::resident_bytes(),
        peak_bytes: numa::peak_resident_bytes(),
    })
}

/// Bytes of the Parquet files of the eight tables; what cannot be read counts nothing, the load has told.
fn file_bytes(folder: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let of_table = |table: Table| {
        let file = folder.join(format!("{}.parquet", table.name()));
        let inner = std::fs::read_dir(folder.join(table.name())).into_iter().flatten().flatten();
        if file.is_file() { size(&file) } else { inner.map(|entry| size(&entry.path())).sum() }
    };
    Table::ALL.into_iter().map(of_table).sum()
}

/// Loads in a process of its own.
fn load_apart(source: &LoadSource, threads: Option<u16>) -> Result<LoadFigures, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("cannot run a load by itself: {error}"));
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.args(["bench", "load", "--once"]);
    match source {
        LoadSource::Scale(scale) => command.arg("--scale").arg(scale.to_string()),
        LoadSource::Folder(folder) => command.arg("--data").arg(folder),
    };
    if let Some(threads) = threads {
        command.arg("--threads").arg(threads.to_string());
    }
    let done = command.stdin(Stdio::null()).output().map_err(|error| failed(&error))?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        return Err(Failure::new(told.trim().trim_start_matches("error: ").to_string()));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| failed(&error))
}

fn of(loads: &[LoadFigures], number: impl Fn(&LoadFigures) -> f64) -> f64 {
    median(&loads.iter().map(number).collect::<Vec<_>>())
}

fn figure(source: &LoadSource, loads: &[LoadFigures]) -> Figure {
    let load_s = of(loads, |l| l.load_s);
    Figure::new(source.name(), load_s, "s", Better::Less).with_details(json!({
        "scale": loads.first().map(|l| l.scale),
        "rows": loads.first().map(|l| l.rows),
        "rows_per_second": of(loads, |l| l.rows as f64 / l.load_s),
        "file_bytes": loads.first().and_then(|l| l.file_bytes),
        "stored_bytes": loads.first().map(|l| l.stored_bytes),
        "resident_bytes": of(loads, |l| l.resident_bytes as f64),
        "peak_bytes": of(loads, |l| l.peak_bytes as f64),
        "runs": loads,
    }))
}

fn write_line(out: &mut dyn Write, source: &LoadSource, loads: &[LoadFigures], figure: &Figure) -> Result<(), Failure> {
    let Some(first) = loads.first() else { return Ok(()) };
    let rate = |bytes: u64| bytes as f64 / 1e6 / figure.value;
    let read = first.file_bytes.map_or_else(|| "-".to_string(), |bytes| format!("{:.0}", rate(bytes)));
    writeln!(
        out,
        "{:<24} {:>12} {:>9.3} {:>11.2} {read:>10} {:>12.0} {:>11} {:>11} {:>11}",
        source.name(),
        thousands(first.rows),
        figure.value,
        first.rows as f64 / 1e6 / figure.value,
        rate(first.stored_bytes),
        human(first.stored_bytes),
        human(of(loads, |l| l.resident_bytes as f64) as u64),
        human(of(loads, |l| l.peak_bytes as f64) as u64)
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_of_loads() {
        let load = |load_s: f64, resident_bytes: u64| LoadFigures {
            load_s,
            scale: 1.0,
            rows: 1000,
            stored_bytes: 5000,
            file_bytes: None,
            resident_bytes,
            peak_bytes: 2 * resident_bytes,
        };
        let figure = figure(&LoadSource::Scale(1.0), &[load(2.0, 30), load(1.0, 10), load(4.0, 20)]);
        assert_eq!((figure.name.as_str(), figure.value), ("scale 1 generated", 2.0));
        assert_eq!(
            (&figure.details["resident_bytes"], &figure.details["rows_per_second"]),
            (&json!(20.0), &json!(500.0))
        );
    }
}
