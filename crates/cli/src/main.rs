//! `nearside`: the one command. Argument parsing, dispatch and exit codes; each subcommand is a module here or in
//! the crate `tools`.
//!
//! Invariants: exit code 0 is done, 1 failed, 2 used wrongly; every error is one sentence on standard error; a reader
//! of our output that goes away (`| head`) is no error.

mod check;
mod lab;
mod log;
mod probe;
mod restore;
mod serve;
mod settings_file;
mod sql;
mod topology;
mod whatif;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tools::failure::Failure;
use tools::{bench, tpch};

#[derive(Parser)]
#[command(
    name = "nearside",
    version = tools::VERSION,
    about = "An in-memory analytical SQL database that keeps every query next to its data",
    arg_required_else_help = true,
    after_help = "Examples:
  nearside tpch                                        generate TPC-H at scale 1, run and check the 22 queries
  nearside sql                                         a prompt
  nearside sql --load trips='trips/*.parquet' -c 'SELECT count(*) FROM trips'
  nearside topology                                    what this machine is
  nearside probe                                       what it costs its nodes to reach each other's memory

Exit codes: 0 done, 1 failed, 2 used wrongly."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run TPC-H: load it, run the 22 queries, check every answer
    Tpch(tpch::Arguments),
    /// Run SQL: at a prompt, from standard input, from a file or from the command line
    Sql(sql::Arguments),
    /// Serve a database to clients of PostgreSQL
    Serve(serve::Arguments),
    /// Read every byte of a database's folder, and say whether it is whole
    Check(check::Arguments),
    /// Copy a database's folder to a new one, as it was at a point of time
    Restore(restore::Arguments),
    /// Measure parts of Nearside
    Bench(bench::Arguments),
    /// Repeat the published experiments, simulated or measured, and judge their claims
    Lab(lab::Arguments),
    /// Show what the machine is and what this process may use of it
    Topology(topology::Arguments),
    /// Measure the latency and bandwidth between this machine's nodes
    Probe(probe::Arguments),
    /// Simulate a workload on another machine and say which placement and scheduling to choose
    Whatif(whatif::Arguments),
}

fn main() -> ExitCode {
    // Without it every query faults its working memory in anew: 10 to 18% of the time of large ones.
    numa::keep_freed_memory();
    let result = match Arguments::parse().command {
        Command::Tpch(arguments) => tpch::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Topology(arguments) => topology::run(&arguments),
        Command::Whatif(arguments) => whatif::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
    };
    tell_refusals();
    match result {
        Ok(code) => code,
        Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::FAILURE
        }
    }
}

/// What the kernel or a container denied, and what it cost: once, at the end.
fn tell_refusals() {
    use std::io::Write;
    for refusal in numa::refusals() {
        let numa::Refusal { call, error, effect, .. } = refusal;
        let _ = writeln!(std::io::stderr(), "note: {call} was refused ({error}): {effect}");
    }
}

/// One sentence on standard error, which may itself be closed.
fn report(failure: &Failure) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "error: {failure}");
}
