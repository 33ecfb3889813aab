//! `nearside bench`: what parts of Nearside cost on this machine, each part a benchmark of its own.
//!
//! Invariant: a figure never loses its origin: the JSON says machine, topology, revision, arguments and that it was
//! measured.

mod admission;
mod checkpoint;
pub mod clients;
mod kernels;
mod keyed;
mod load;
mod oltp;
mod plan;
mod point;
mod queries;
pub mod report;
mod rows;
mod scan;
mod sched;
pub mod statements;
pub mod uniform;
pub mod work;
mod writes;

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use nearside::Database;

use crate::failure::Failure;

/// Arguments of `nearside bench`.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Measure the scheduler: empty tasks, loops, statements of many clients
    Sched(sched::Arguments),
    /// Measure range scans over uniform integers of 17 to 26 bits, beside what this machine reads
    Scan(scan::Arguments),
    /// Measure the loops over packed codes, per width, beside what one thread reads
    Kernels(kernels::Arguments),
    /// Measure prepared queries of one row by primary key
    Point(point::Arguments),
    /// Measure reads and writes of keys in batches, by units that own ranges of them
    Keyed(keyed::Arguments),
    /// Measure statements that write or read one row, loads of tables with a key, and scans beside writes
    Writes(writes::Arguments),
    /// Measure transactions of a row or two by many clients, in a folder or in memory
    Oltp(oltp::Arguments),
    /// Measure what checkpoints write, and what they cost the queries beside them
    Checkpoint(checkpoint::Arguments),
    /// Measure planning: prepared, unprepared, and the queries of TPC-H
    Plan(plan::Arguments),
    /// Measure loads: seconds, rows and bytes per second, memory
    Load(load::Arguments),
    /// Measure queries that come at once, let in as they come and by the model
    Admission(admission::Arguments),
    /// Measure queries of your own over Parquet files
    Queries(queries::Arguments),
}

/// A database with these many slots; one per usable cpu unless given.
fn database_of(threads: Option<u16>) -> Result<Database, Failure> {
    database_in(None, threads)
}

/// The same in a folder, where one is given.
fn database_in(folder: Option<&Path>, threads: Option<u16>) -> Result<Database, Failure> {
    let mut builder = Database::builder();
    if let Some(threads) = threads {
        builder = builder.threads(usize::from(threads));
    }
    if let Some(folder) = folder {
        builder = builder.folder(folder);
    }
    Ok(builder.build()?)
}

/// Runs a benchmark and prints its figures.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.what {
        What::Sched(arguments) => sched::run(arguments),
        What::Scan(arguments) => scan::run(arguments),
        What::Kernels(arguments) => kernels::run(arguments),
        What::Point(arguments) => point::run(arguments),
        What::Keyed(arguments) => keyed::run(arguments),
        What::Writes(arguments) => writes::run(arguments),
        What::Oltp(arguments) => oltp::run(arguments),
        What::Checkpoint(arguments) => checkpoint::run(arguments),
        What::Plan(arguments) => plan::run(arguments),
        What::Load(arguments) => load::run(arguments),
        What::Admission(arguments) => admission::run(arguments),
        What::Queries(arguments) => queries::run(arguments),
    }
}
