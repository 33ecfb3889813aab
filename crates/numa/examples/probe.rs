//! Measures this machine and prints the tables; `--quick` for less than ten seconds, `--json FILE` and `--svg FILE` to
//! keep the result.
//!
//! `cargo run --release -p nearside-numa --example probe -- --quick --svg probe.svg`

use std::error::Error;
use std::fs;

use numa::Topology;
use numa::probe::{self, Options, SystemClock};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options { revision: env!("CARGO_PKG_VERSION").to_string(), ..Options::default() };
    let (mut json, mut svg) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--json" => json = arguments.next(),
            "--svg" => svg = arguments.next(),
            other => return Err(format!("unknown argument '{other}'; give --quick, --json FILE or --svg FILE").into()),
        }
    }
    let topology = Topology::discover()?;
    let result = probe::run(&topology, &options, &SystemClock::new(), &mut |_, _| {});
    print!("{}", probe::text(&result));
    if let Some(file) = json {
        fs::write(file, result.to_json())?;
    }
    if let Some(file) = svg {
        fs::write(file, probe::svg(&result))?;
    }
    Ok(())
}
