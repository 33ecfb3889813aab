//! `nearside whatif`: a workload on a machine that is not here, under every placement and strategy, simulated.
//!
//! Only arguments are here; the work is done by the crate `lab`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lab::command::Context;
use lab::whatif::WhatIf;

use tools::bench::report::Output;
use tools::failure::Failure;
use tools::lab::with_context;

/// Arguments of `nearside whatif`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside whatif --machine ivybridge-ex-4 --workload scans.toml
  nearside whatif --machine probe.json --workload scans.toml --json advice.json
  nearside whatif --machine '2x1x8x2' --workload scans.toml --placement rr,ivp --strategy target,bound

A workload is recorded with 'nearside sql --record-workload FILE', or described by the tables 'data' and 'workload' of
docs/lab.md:

  [data]
  rows = 100_000_000
  columns = 160
  [workload]
  kind = \"columns\"
  clients = 256
  selectivity = 0.001

Figures are simulated: trust their ratios more than their seconds.")]
pub struct Arguments {
    /// A published machine ('nearside topology --help' names them), what 'nearside probe --json' wrote, or a
    /// specification
    #[arg(long, value_name = "NAME|FILE")]
    machine: String,
    /// The workload, in TOML
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// Placements to try [default: rr,ivp,pp,placer]
    #[arg(long, value_name = "P,..", value_delimiter = ',')]
    placement: Vec<String>,
    /// Strategies to try [default: os,target,bound]
    #[arg(long, value_name = "S,..", value_delimiter = ',')]
    strategy: Vec<String>,
    /// Threads that simulate; all usable cpus unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Decides all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures and the advice to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Simulates, prints, advises.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let wanted = WhatIf {
        machine: arguments.machine.clone(),
        workload: arguments.workload.clone(),
        placements: arguments.placement.clone(),
        strategies: arguments.strategy.clone(),
        seed: arguments.seed,
    };
    with_context(arguments.threads, None, |context: &Context<'_>, out| {
        let advice = lab::whatif::whatif(&wanted, context, out)?;
        if let Some(json) = &json {
            json.write(&serde_json::json!(advice))?;
        }
        Ok(if advice.best.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}
