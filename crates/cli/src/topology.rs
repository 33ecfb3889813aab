//! `nearside topology`: what the machine is, as text or JSON.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use numa::Topology;

use crate::failure::Failure;

/// Arguments of `nearside topology`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside topology
  nearside topology --format json
  nearside topology --root recorded/machine    a tree that holds the sys/ and proc/ of another machine")]
pub struct Arguments {
    /// Read sys/ and proc/ below this folder instead of this machine's
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
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
}

/// Reads and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let topology = match &arguments.root {
        Some(root) => Topology::read(root),
        None => Topology::discover(),
    };
    let topology = topology.map_err(|error| Failure::new(error.to_string()))?;
    let text = match arguments.format {
        Format::Text => topology.render_text(),
        Format::Json => serde_json::to_string_pretty(&topology)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?,
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
