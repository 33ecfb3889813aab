//! `nearside bench`: what parts of Nearside cost on this machine. `sched` is the scheduler, up to statements of many clients.
//!
//! Invariant: a figure never loses its origin: the JSON says machine, topology, revision, seed and that it was measured.

mod clients;
mod sched;
mod statements;

use std::process::ExitCode;

use clap::{Args, Subcommand};

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
}

/// Runs a benchmark and prints its figures.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.what {
        What::Sched(arguments) => sched::run(arguments),
    }
}
