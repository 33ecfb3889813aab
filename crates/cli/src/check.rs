//! `nearside check`: whether a database's folder is whole.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tools::failure::Failure;

/// Arguments of `nearside check`.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  nearside check shop                reads every byte of the folder 'shop' and changes none

Exit codes: 0 whole, 1 damaged or in use; the first damage is told with its file, where in it, and its table.")]
pub struct Arguments {
    /// The folder of a database that nobody has open
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Reads everything and says what there is.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let report = nearside::check_folder(&arguments.folder)?;
    let nearside::FolderReport { files, bytes, segments, records, history, restorable_from } = report;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{} is whole: {files} files, {segments} segments, {bytes} bytes of data, {records} records of the log behind \
         the last checkpoint",
        arguments.folder.display()
    )?;
    writeln!(
        out,
        "it can be restored to any time from {} UTC on ({history} checkpoints before the last)",
        restorable_from.format("%Y-%m-%d %H:%M:%S%.6f")
    )?;
    Ok(ExitCode::SUCCESS)
}
