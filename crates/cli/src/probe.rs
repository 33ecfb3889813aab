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

use tools::failure::Failure;
use tools::progress::Progress;

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// Arguments of `nearside probe`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside probe
  nearside probe --quick --svg probe.svg
  nearside probe --json here.json                      then, for other commands: --machine here.json

A full run takes less than a minute, a quick one less than ten seconds. Both want an otherwise idle machine and no
rights. docs/probe.md says what each figure means.")]
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
    check_apart(&[&arguments.json, &arguments.csv, &arguments.svg])?;
    let json = arguments.json.as_deref().map(Output::create).transpose()?;
    let csv = arguments.csv.as_deref().map(Output::create).transpose()?;
    let svg = arguments.svg.as_deref().map(Output::create).transpose()?;
    let topology = Topology::discover().map_err(|error| Failure::new(error.to_string()))?;
    let options = Options { quick: arguments.quick, revision: tools::VERSION.to_string() };
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

/// A file that was named on the command line. It takes its name when it is whole, so that a run that is interrupted
/// leaves what was there.
struct Output<'a> {
    path: &'a Path,
    unfinished: PathBuf,
    file: File,
}

impl<'a> Output<'a> {
    fn create(path: &'a Path) -> Result<Output<'a>, Failure> {
        let Some(name) = path.file_name() else {
            return Err(Failure::new(format!("cannot write '{}': it is not the name of a file", path.display())));
        };
        let unfinished = path.with_file_name(format!(".{}.unfinished", name.to_string_lossy()));
        let failure = |error| Failure::new(format!("cannot write '{}': {error}", path.display()));
        if path.is_dir() {
            return Err(failure(std::io::ErrorKind::IsADirectory.into()));
        }
        let file = File::create(&unfinished).map_err(failure)?;
        Ok(Output { path, unfinished, file })
    }

    fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&self.unfinished, self.path));
        written.map_err(|error| Failure::new(format!("cannot write '{}': {error}", self.path.display())))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        // Nothing is there under this name once it is whole.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

/// Fails when two outputs are one file.
fn check_apart(paths: &[&Option<PathBuf>]) -> Result<(), Failure> {
    let named: Vec<&PathBuf> = paths.iter().copied().flatten().collect();
    match named.iter().enumerate().find(|(i, path)| named[..*i].contains(path)) {
        Some((_, twice)) => {
            Err(Failure::new(format!("'{}' is named for two outputs; give each its own file", twice.display())))
        }
        None => Ok(()),
    }
}
