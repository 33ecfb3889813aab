//! `nearside lab`: the published experiments, repeated, and how close that came.
//!
//! Only arguments are here: what needs the database is in `tools::lab`, what the other commands do in the crate `lab`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::serve::say;
use crate::settings_file::parse_address;
use clap::{Args, Subcommand};
use lab::command::{ClaimsArguments, RESULTS, ReportArguments, RunArguments, VaryArguments};
use lab::engine::Measure;
use lab::placer::command::PlacerArguments;
use lab::placer::recording::RecordArguments;
use lab::result::ResultKind;
use server::Player;
use tools::failure::Failure;
use tools::lab::measured::AtHand;
use tools::lab::{interference, order, with_context};

/// Arguments of `nearside lab`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside lab list
  nearside lab run vldb2015/fig08                     shortened; --full for the length of the paper
  nearside lab run vldb2015/fig08 --set clients=256 --set machine=westmere-ex-8
  nearside lab run own/experiment.toml
  nearside lab run vldb2015/fig08 --measured          on this machine, with a table that fits it
  nearside lab claims --json claims.json
  nearside lab report --out report.html
  nearside lab placer                                 the placer beside the best placement that does not change

Ctrl-C stops between two points; the same command goes on from there. docs/lab.md says what each file holds.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Threads that simulate; all usable cpus unless given
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Decides all that is random
    #[arg(long, global = true, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run with N seeds, that one and those after it, and tell means and deviations
    #[arg(
        long, global = true, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    seeds: u32,
    /// Where results are kept
    #[arg(long, global = true, value_name = "DIR", default_value = RESULTS)]
    results: PathBuf,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List the experiments, with the claims that each decides
    List,
    /// Run experiments and print their figures
    Run {
        /// Ids, paths of declarations, or 'all'
        #[arg(required = true, value_name = "ID")]
        experiments: Vec<String>,
        /// A setting in place of what the file says; what is set is not varied
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Points run as long as in the paper
        #[arg(long)]
        full: bool,
        /// Measure on this machine instead of simulating the paper's
        #[arg(long)]
        measured: bool,
    },
    /// Hold every published claim against what is obtained here
    Claims {
        /// Only these
        #[arg(value_name = "CLAIM")]
        only: Vec<String>,
        /// Points run as long as in the paper
        #[arg(long)]
        full: bool,
        /// Write all claims as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Change each constant of the simulator by 20% up and down and tell which verdicts move
        #[arg(long)]
        sensitivity: bool,
    },
    /// Vary what is given as the reasons of claims that miss, and tell what comes of it
    Vary {
        /// Only the reasons of these
        #[arg(value_name = "CLAIM")]
        only: Vec<String>,
    },
    /// Judge the placer in the simulator: workloads, machines, the best placement that does not change
    Placer {
        /// Only these workloads
        #[arg(value_name = "WORKLOAD")]
        workloads: Vec<String>,
        /// On this machine, given once or more often [default: four published ones, or the paper's own]
        #[arg(long, value_name = "NAME|FILE")]
        machine: Vec<String>,
        /// Microseconds that a statement takes for each node of its tasks, one statement after the other
        #[arg(long, value_name = "US", default_value_t = 0.0)]
        dispatch_us: f64,
        /// Also try N random workloads, to make the placer lose
        #[arg(long, value_name = "N", default_value_t = 0)]
        search: u32,
        /// Write all verdicts as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Draw the run of one workload on one machine, with its decisions, as SVG
        #[arg(long, value_name = "FILE")]
        draw: Option<PathBuf>,
    },
    /// Simulate one workload with the placer and write a state for each virtual second, to be played
    Record {
        /// The workload, as of 'lab placer'
        #[arg(value_name = "WORKLOAD")]
        workload: String,
        /// On this machine
        #[arg(long, value_name = "NAME|FILE", default_value = "ivybridge-ex-32")]
        machine: String,
        /// Virtual seconds
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
        seconds: u32,
        /// Where the states go, one a line
        #[arg(long, value_name = "FILE", default_value = "run.jsonl")]
        out: PathBuf,
    },
    /// Show a run that was recorded or simulated as a page: states of /api/state, one a line
    Play {
        /// The states
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Listen on this address, as HOST:PORT
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = parse_address)]
        listen: SocketAddr,
    },
    /// Measure how the queries of TPC-H slow each other down here, and predict it
    Interference(interference::Arguments),
    /// Plan in which order, and how many at a time, queries measured by 'interference' should run
    Order(order::Arguments),
    /// Write one HTML page from the results that are kept
    Report {
        /// The page
        #[arg(long, value_name = "FILE", default_value = "lab-report.html")]
        out: PathBuf,
        /// Claims are judged with points as long as in the paper
        #[arg(long)]
        full: bool,
    },
}

/// Runs a command of the lab.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if let What::Play { file, listen } = &arguments.what {
        return play(file, *listen);
    }
    let at_hand = match &arguments.what {
        What::Run { measured: true, .. } => Some(AtHand::discover()?),
        _ => None,
    };
    let measure = at_hand.as_ref().map(|at_hand| at_hand as &dyn Measure);
    with_context(arguments.threads, measure, |context, out| {
        let seed = arguments.seed;
        let seeds = arguments.seeds;
        let results = arguments.results.clone();
        match &arguments.what {
            What::Interference(arguments) => return interference::run(arguments, context.stop),
            What::Order(arguments) => order::run(arguments, out)?,
            What::List => lab::command::list(out)?,
            What::Run { experiments, set, full, measured } => {
                let kind = if *measured { ResultKind::Measured } else { ResultKind::Simulated };
                let experiments = experiments.clone();
                let set = set.clone();
                let wanted = RunArguments { experiments, set, kind, full: *full, seed, seeds, results };
                lab::command::run(&wanted, context, out)?;
            }
            What::Claims { only, full, json, sensitivity } => {
                let only = only.clone();
                let json = json.clone();
                let results = Some(results);
                let wanted =
                    ClaimsArguments { only, full: *full, json, sensitivity: *sensitivity, seed, seeds, results };
                lab::command::claims(&wanted, context, out)?;
            }
            What::Placer { workloads, machine, dispatch_us, search, json, draw } => {
                let wanted = PlacerArguments {
                    workloads: workloads.clone(),
                    machines: machine.clone(),
                    dispatch_us: *dispatch_us,
                    search: *search,
                    seed,
                    json: json.clone(),
                    draw: draw.clone(),
                };
                lab::placer::command::placer(&wanted, context, out)?;
            }
            What::Record { workload, machine, seconds, out: file } => {
                let (workload, machine, file) = (workload.clone(), machine.clone(), file.clone());
                let wanted = RecordArguments { workload, machine, seconds: *seconds, seed, file };
                lab::placer::recording::record(&wanted, out)?;
            }
            What::Play { .. } => unreachable!("it needs nothing of this"),
            What::Vary { only } => {
                let wanted = VaryArguments { only: only.clone(), seed, results: Some(results) };
                lab::command::vary(&wanted, context, out)?;
            }
            What::Report { out: page, full } => {
                let wanted = ReportArguments { out: page.clone(), results, full: *full, seed, seeds };
                lab::command::report(&wanted, context, out)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Shows a run until a signal comes.
fn play(file: &Path, listen: SocketAddr) -> Result<ExitCode, Failure> {
    let player = Player::start(file, listen).map_err(|e| Failure::new(e.to_string()))?;
    say(&format!("{} states; listening on http://{}/", player.states(), player.address()))?;
    player.wait_for_signal().map_err(|e| Failure::new(format!("cannot listen for signals: {e}")))?;
    Ok(ExitCode::SUCCESS)
}
