//! `nearside probe`: measures what it costs this machine's nodes to reach each other's memory.
//!
//! Invariant: the files to write are opened before anything is measured, so a wrong path costs no minute.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use numa::Topology;
use numa::probe::{self, Options, SystemClock};

use crate::failure::Failure;
use crate::progress::Progress;

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// Arguments of `nearside probe`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside probe
  nearside probe --quick --svg probe.svg
  nearside probe --json here.json                      then, for other commands: --machine here.json

A full run takes less than a minute, a quick one less than ten seconds. Both want an otherwise idle machine and no rights.
docs/probe.md says what each figure means.")]
pub struct Arguments {
    /// Fewer and shorter measurements on smaller buffers
    #[arg(long)]
    quick: bool,
    /// Write all figures with the machine, for --machine of other commands and for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one figure per line
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw heat maps and curves
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Measures, writes the files, prints the tables.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = arguments.json.as_deref().map(Output::create).transpose()?;
    let csv = arguments.csv.as_deref().map(Output::create).transpose()?;
    let svg = arguments.svg.as_deref().map(Output::create).transpose()?;
    let topology = Topology::discover().map_err(|error| Failure::new(error.to_string()))?;
    let options = Options { quick: arguments.quick, revision: crate::VERSION.to_string() };
    let bar = Progress::new(Some(STEPS), "probing");
    let result = probe::run(&topology, &options, &SystemClock::new(), &mut |what, share| {
        bar.say(what.to_string());
        bar.set((share * STEPS as f64) as u64, STEPS);
    });
    bar.clear();
    if let Some(file) = json {
        file.write(&result.to_json())?;
    }
    if let Some(file) = csv {
        file.write(&probe::csv(&result))?;
    }
    if let Some(file) = svg {
        file.write(&probe::svg(&result))?;
    }
    writeln!(std::io::stdout(), "{}", probe::text(&result).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// A file that was named on the command line.
struct Output<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Output<'a> {
    fn create(path: &'a Path) -> Result<Output<'a>, Failure> {
        let file = File::create(path)
            .map_err(|error| Failure::new(format!("cannot write '{}': {error}", path.display())))?;
        Ok(Output { path, file })
    }

    fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| Failure::new(format!("cannot write '{}': {error}", self.path.display())))
    }
}
