//! `nearside bench sched`: what the scheduler takes for tasks that do nothing.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use numa::Topology;
use sched::bench::{Figure, run as measure};
use sched::{Config, Scheduler};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Arguments of `nearside bench sched`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench sched
  nearside bench sched --threads 1 --json sched.json")]
pub struct Arguments {
    /// Empty tasks per run
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    tasks: u64,
    /// Slots; one per usable cpu unless given
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let topology = Topology::discover().map_err(|error| Failure::new(error.to_string()))?;
    let scheduler = Scheduler::new(Arc::new(topology), Config { threads: arguments.threads, ..Config::default() });
    let figures = measure(&scheduler, arguments.tasks as usize);
    let mut out = std::io::stdout();
    writeln!(out, "{} slots in {} thread groups", scheduler.threads(), scheduler.layout().groups().len())?;
    for figure in &figures {
        let met = if figure.value_ns <= figure.target_ns { "met" } else { "missed" };
        let Figure { name, value_ns, target_ns, tasks } = figure;
        writeln!(out, "{value_ns:>10.1} ns  {name} (at most {target_ns} ns: {met}; {tasks} tasks)")?;
    }
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&to_json(&scheduler, &figures))
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
        fs::write(path, text + "\n")
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(scheduler: &Scheduler, figures: &[Figure]) -> Value {
    let one = |figure: &Figure| {
        json!({
            "name": figure.name,
            "ns": figure.value_ns,
            "target_ns": figure.target_ns,
            "tasks": figure.tasks,
        })
    };
    json!({
        "benchmark": "sched",
        "source": "measured",
        "revision": env!("NEARSIDE_REVISION"),
        "machine": scheduler.topology().cpu_model(),
        "slots": scheduler.threads(),
        "thread_groups": scheduler.layout().groups().len(),
        "figures": figures.iter().map(one).collect::<Vec<_>>(),
    })
}
