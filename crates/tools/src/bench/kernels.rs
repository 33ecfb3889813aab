//! `nearside bench kernels`: the loops over packed codes on one thread, per width, kernel and instruction set, beside
//! the roof: what one thread reads, divided by the bits of a row.
//!
//! Invariants: every figure is the median of several windows of the same length; "memory" goes over data that no cache
//! holds, "cache" over data that the core's own caches hold; the roof is measured before and after, the better one
//! counts.
//!
//! # Limits
//! Random codes, half of which pass the range test and a third the membership test: no block can be skipped.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use numa::Topology;
use numa::probe::{SystemClock, read_bandwidth};
use serde_json::json;
use storage::bench::{Bench, GATHER_STRIDE, Kernel, Path, random_words};

use super::report::{Better, Figure, Output, median, report, write_head};
use crate::failure::Failure;
use crate::size::{Size, human};

/// The data is `n` times the last-level caches unless given.
const TIMES_CACHES: u64 = 4;
/// Bounds of that.
const BYTES: std::ops::RangeInclusive<u64> = (256 << 20)..=(2 << 30);
/// What goes over and over through the core's caches; the widest codes need 256 KiB for a granule.
const CACHED_BYTES: usize = 256 << 10;

/// Arguments of `nearside bench kernels`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench kernels                              widths 1 to 32: about a minute
  nearside bench kernels --bits 17,21,26 --runs 15
  nearside bench kernels --json kernels.json

range and member make a bit mask, unpack makes 32-bit integers, gather and compress fetch one of 16 rows (and count
those). The roof is what one thread reads at best, divided by the bytes of a row; for gather by those of the rows it
passes over. In the caches a kernel may be above it.")]
pub struct Arguments {
    /// Bits of the codes [default: 1 to 32]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=32))]
    bits: Vec<u8>,
    /// Bytes of codes to go over, like 512MB [default: four times the last-level caches, at least 256MiB]
    #[arg(long, value_name = "SIZE")]
    data: Option<Size>,
    /// Windows per figure
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// The least length of a window
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    milliseconds: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One width and kernel.
struct Row {
    bits: u8,
    kernel: Kernel,
    /// Rows per second of each instruction set, over memory and in the caches.
    rates: Vec<(Path, f64, f64)>,
}

/// Measures, prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let topology = Topology::discover().map_err(|error| Failure::new(error.to_string()))?;
    let bytes = data_bytes(arguments, &topology)?;
    let all: Vec<u8> = (1..=32).collect();
    let widths = if arguments.bits.is_empty() { &all } else { &arguments.bits };
    let mut out = io::stdout();
    write_head(&mut out, &topology, 1)?;
    let bandwidth = || read_bandwidth(&topology, 1, &SystemClock::new());
    let before = bandwidth();
    writeln!(out, "data      {} of random codes\n", human(bytes))?;
    let words = random_words(bytes as usize);
    writeln!(out, "{}", heading())?;
    let mut rows = Vec::new();
    for bits in widths {
        for kernel in Kernel::ALL {
            let row = measure(arguments, &words, *bits, kernel)?;
            write_row(&mut out, &row, before)?;
            rows.push(row);
        }
    }
    let roof = [before, bandwidth()].into_iter().flatten().reduce(f64::max);
    if let Some(roof) = roof {
        writeln!(out, "\nroof: one thread reads {:.1} GB/s at best (the better of before and after)", roof / 1e9)?;
    }
    if let Some(json) = json {
        let figures: Vec<Figure> = rows.iter().flat_map(|row| figures(row, roof)).collect();
        let given = json!({
            "bits": widths, "data_bytes": bytes, "runs": arguments.runs, "milliseconds": arguments.milliseconds,
        });
        let mut value = report("kernels", &topology, 1, given, &figures);
        value["read_bytes_per_second"] = json!(roof);
        json.write(&value)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How much to go over.
fn data_bytes(arguments: &Arguments, topology: &Topology) -> Result<u64, Failure> {
    let usable = topology.memory_bytes();
    let caches = topology.caches();
    let last = caches.iter().map(|cache| cache.level).max();
    let last_bytes: u64 = caches.iter().filter(|cache| Some(cache.level) == last).map(|cache| cache.size_bytes).sum();
    let bytes = match arguments.data {
        Some(size) => size.resolve(usable),
        None => (last_bytes * TIMES_CACHES).clamp(*BYTES.start(), *BYTES.end()).min(usable / 4),
    };
    if bytes < CACHED_BYTES as u64 || bytes > usable {
        let least = human(CACHED_BYTES as u64);
        let most = human(usable);
        return Err(Failure::new(format!("--data is {}: give at least {least} and at most {most}", human(bytes))));
    }
    Ok(bytes)
}

fn measure(arguments: &Arguments, words: &Arc<[u32]>, bits: u8, kernel: Kernel) -> Result<Row, Failure> {
    let of = |bytes: usize| {
        Bench::new(words, bytes, bits)
            .ok_or_else(|| Failure::new(format!("the data holds no 65,536 codes of {bits} bits")))
    };
    let mut large = of(size_of_val(&**words))?;
    let mut small = of(CACHED_BYTES)?;
    let mut rates = Vec::new();
    for path in Path::here(kernel) {
        let rate = |bench: &mut Bench| {
            let windows: Vec<f64> =
                (0..arguments.runs).map(|_| window(bench, kernel, path, arguments.milliseconds)).collect();
            median(&windows)
        };
        rates.push((path, rate(&mut large), rate(&mut small)));
    }
    Ok(Row { bits, kernel, rates })
}

/// Rows per second of one window.
fn window(bench: &mut Bench, kernel: Kernel, path: Path, milliseconds: u64) -> f64 {
    // The first granule pays for a cold start.
    bench.step(kernel, path);
    let least = Duration::from_millis(milliseconds);
    let started = Instant::now();
    let mut rows = 0;
    loop {
        rows += bench.step(kernel, path);
        let taken = started.elapsed();
        if taken >= least {
            return rows as f64 / taken.as_secs_f64();
        }
    }
}

/// Rows per second that a bandwidth allows.
fn roof_rows(bytes_per_second: f64, bits: u8, kernel: Kernel) -> f64 {
    let rows_read = if matches!(kernel, Kernel::Gather | Kernel::Compress) { GATHER_STRIDE as f64 } else { 1.0 };
    bytes_per_second * 8.0 / (f64::from(bits) * rows_read)
}

fn figures(row: &Row, roof: Option<f64>) -> Vec<Figure> {
    let roof = roof.map(|roof| roof_rows(roof, row.bits, row.kernel));
    let one = |path: Path, place: &str, rate: f64| {
        let name = format!("{} {} {} {place}", row.kernel.name(), row.bits, path.name());
        Figure::new(name, rate, "rows/s", Better::More).with_details(json!({
            "kernel": row.kernel.name(), "bits": row.bits, "path": path.name(), "place": place,
            "roof_rows_per_second": roof, "share_of_roof": roof.map(|roof| rate / roof),
        }))
    };
    row.rates
        .iter()
        .flat_map(|(path, memory, cache)| [one(*path, "memory", *memory), one(*path, "cache", *cache)])
        .collect()
}

fn heading() -> String {
    let mut line = format!("{:>4} {:<8}", "bits", "G rows/s");
    for path in Path::here(Kernel::Range) {
        line += &format!(" {:>14} {:>13}", format!("{} memory", path.name()), format!("{} cache", path.name()));
    }
    line + &format!(" {:>9} {:>9}", "roof", "of roof")
}

fn write_row(out: &mut dyn Write, row: &Row, roof: Option<f64>) -> Result<(), Failure> {
    let mut line = format!("{:>4} {:<8}", row.bits, row.kernel.name());
    for (_, memory, cache) in &row.rates {
        line += &format!(" {:>14.3} {:>13.3}", memory / 1e9, cache / 1e9);
    }
    for _ in row.rates.len()..Path::here(Kernel::Range).len() {
        line += &format!(" {:>14} {:>13}", "", "");
    }
    let best = row.rates.iter().map(|(_, memory, _)| *memory).fold(0.0, f64::max);
    match roof.map(|roof| roof_rows(roof, row.bits, row.kernel)) {
        Some(roof) => line += &format!(" {:>9.3} {:>8.0}%", roof / 1e9, best / roof * 100.0),
        None => line += &format!(" {:>9} {:>9}", "-", "-"),
    }
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roofs_are_bits_of_bandwidth() {
        assert_eq!(roof_rows(10e9, 20, Kernel::Range), 4e9);
        assert_eq!(roof_rows(10e9, 20, Kernel::Gather), 0.25e9);
    }

    #[test]
    fn a_row_has_a_figure_per_path_and_place() {
        let row =
            Row { bits: 8, kernel: Kernel::Unpack, rates: vec![(Path::Scalar, 1e9, 2e9), (Path::Avx2, 3e9, 4e9)] };
        let figures = figures(&row, Some(8e9));
        let names: Vec<_> = figures.iter().map(|figure| (figure.name.as_str(), figure.value)).collect();
        assert_eq!(
            names,
            [
                ("unpack 8 scalar memory", 1e9),
                ("unpack 8 scalar cache", 2e9),
                ("unpack 8 avx2 memory", 3e9),
                ("unpack 8 avx2 cache", 4e9)
            ]
        );
        assert_eq!(figures[2].details["share_of_roof"], 3.0 / 8.0);
    }
}
