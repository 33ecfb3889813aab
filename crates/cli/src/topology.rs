//! `nearside topology`: what a machine is, as text, JSON or a drawing.
//!
//! The machine is the one at hand, a recorded one (`--root`), or a described one (`--machine`).

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use numa::{MachineDescription, Topology};

use tools::failure::Failure;

/// What `--machine` takes instead of a description, to list the published ones.
const LIST: &str = "list";

/// Arguments of `nearside topology`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside topology
  nearside topology --format json
  nearside topology --format svg > machine.svg
  nearside topology --root recorded/machine    a tree that holds the sys/ and proc/ of another machine
  nearside topology --machine list             the machines that papers measured
  nearside topology --machine eris-sgi-64      one of them
  nearside topology --machine '2x2x8x2;mem=64G;cpuless=2'   an imaginary one: packages x nodes per package x cores
                                               per node x threads per core; docs/topology.md has all options")]
pub struct Arguments {
    /// Read sys/ and proc/ below this folder instead of this machine's
    #[arg(long, value_name = "DIR", conflicts_with = "machine")]
    root: Option<PathBuf>,
    /// Show this machine instead: a file of 'nearside probe --json', a published machine's name ('list' lists them), or
    /// a specification such as 4x2x8x2
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// What the output looks like
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// A drawing
    Svg,
}

/// Reads and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if arguments.machine.as_deref() == Some(LIST) {
        return list(arguments.format);
    }
    let machine = match (&arguments.machine, &arguments.root) {
        (Some(text), _) => MachineDescription::parse(text).map_err(|error| Failure::new(error.to_string()))?,
        (None, root) => {
            let topology = match root {
                Some(root) => Topology::read(root),
                None => Topology::discover(),
            };
            let topology = topology.map_err(|error| Failure::new(error.to_string()))?;
            MachineDescription { topology, attributes: None }
        }
    };
    let text = match arguments.format {
        Format::Text => machine.render_text(),
        Format::Json => serde_json::to_string_pretty(&machine.topology)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?,
        Format::Svg => machine.topology.render_svg(),
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the machines that are known by name.
fn list(format: Format) -> Result<ExitCode, Failure> {
    let machines = numa::published_machines();
    let mut out = std::io::stdout().lock();
    match format {
        Format::Json => {
            let machines: Vec<_> = machines
                .iter()
                .map(|m| serde_json::json!({"name": m.name, "cpu": m.cpu, "source": m.source}))
                .collect();
            writeln!(out, "{:#}", serde_json::Value::from(machines))?;
        }
        Format::Text => {
            let width =
                |of: fn(&numa::PublishedMachine) -> &str| machines.iter().map(|m| of(m).len()).max().unwrap_or(0);
            let names = width(|m| m.name);
            let cpus = width(|m| m.cpu);
            for machine in &machines {
                writeln!(out, "{:<names$}  {:<cpus$}  {}", machine.name, machine.cpu, machine.source)?;
            }
        }
        Format::Svg => return Err(Failure::new("a list of machines has no drawing; name one of them")),
    }
    Ok(ExitCode::SUCCESS)
}
