//! `nearside restore`: a database's folder as it was at a point of time.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use chrono::{DateTime, NaiveDateTime, Utc};
use clap::Args;
use tools::failure::Failure;

/// Arguments of `nearside restore`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside restore shop --to '2026-11-26 09:59:00' --into shop-before
  nearside restore /backup/monday --to 2026-11-26T10:59:00+01:00 --into shop-before

The new folder has all that was committed by then and is opened like any other; the old one stays as it is. How far a
folder goes back is said by ALTER SYSTEM SET nearside.restore_window_s beforehand, and by nearside check; a backup goes
back as far as its folder did. Exit codes: 0 done, 1 not possible.")]
pub struct Arguments {
    /// The folder of a database that nobody has open, or a backup
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The point of time, in UTC unless it says otherwise
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: DateTime<Utc>,
    /// The new folder, which is empty or not there
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

/// Copies and says what there is.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let Arguments { folder, to, into } = arguments;
    let restored = nearside::restore_folder(folder, into, *to)?;
    writeln!(
        std::io::stdout(),
        "{} is {} as of {} UTC, {} bytes",
        into.display(),
        folder.display(),
        restored.last_at.format("%Y-%m-%d %H:%M:%S%.6f"),
        restored.bytes
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A time as PostgreSQL writes it, or as RFC 3339 does.
fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    let with_zone = ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z"];
    let without = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let text = text.trim();
    let text = text.strip_suffix('Z').or(text.strip_suffix(" UTC")).unwrap_or(text);
    let plain = without.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let zoned = || with_zone.iter().find_map(|format| DateTime::parse_from_str(text, format).ok());
    let time = plain.map(|time| time.and_utc()).or_else(|| zoned().map(|time| time.to_utc()));
    time.ok_or_else(|| "no point of time; write it as '2026-11-26 09:59:00', in UTC, or with its zone, +01".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let time = |text| parse_time(text).map(|time| time.to_rfc3339());
        let wanted = Ok("2026-11-26T09:59:00+00:00".to_owned());
        for text in [
            "2026-11-26 09:59:00",
            " 2026-11-26 09:59",
            "2026-11-26T09:59:00Z",
            "2026-11-26 09:59:00 UTC",
            "2026-11-26 10:59:00+01",
            "2026-11-26T10:59:00+01:00",
            "2026-11-26 09:59:00.000",
        ] {
            assert_eq!(time(text), wanted, "{text}");
        }
        assert_eq!(time("2026-11-26 09:59:00.25").unwrap(), "2026-11-26T09:59:00.250+00:00");
        for text in ["", "yesterday", "2026-13-26 09:59:00", "26.11.2026"] {
            assert!(time(text).unwrap_err().contains("no point of time"), "{text}");
        }
    }
}
