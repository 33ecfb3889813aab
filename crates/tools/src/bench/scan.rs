//! `nearside bench scan`: range selections over uniform integers, beside the bandwidth that the same threads read with.
//!
//! The load is that of Psaroudakis et al., VLDB 2015, section 6.1, without indexes:
//! `SELECT c FROM t WHERE c >= ? AND c <= ?` over ten integer columns of 17 to 26 bits, each in turn, at several
//! selectivities; `bench/compare scan` runs the same texts on other engines.
//!
//! Invariants: values are counted while they are made, and every answer must have as many rows; a time ends when the
//! whole result has come and is given back; the bandwidth is measured before and after, the better one counts.
//!
//! Statements come one at a time. With `--clients`, many clients scan one column at a time, with and without shared
//! passes ([`shared`]).

mod shared;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use clap::Args;
use nearside::{BatchProducer, Database, LoadOptions, Session};
use numa::probe::{SystemClock, read_bandwidth};
use serde_json::json;

use super::clients::mixed;
use super::database_of;
use super::report::{Better, Figure, Output, median, report, write_head};
use super::sched::parse_seconds;
use crate::failure::Failure;
use crate::size::{human, thousands};

/// The bit cases of the columns, one column each.
const BITS: std::ops::RangeInclusive<u32> = 17..=26;
/// Rows of a batch that is loaded.
const BATCH_ROWS: u64 = 64 * 1024;
/// The least share of the bandwidth that the most selective scan should read with.
const SHARE_MIN: f64 = 0.6;
/// The selectivity up to which that holds: above, results cost what counts.
const SHARE_SELECTIVITY: f64 = 1e-5;

/// Arguments of `nearside bench scan`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside bench scan                                 100 million rows: about 2.7 GB
  nearside bench scan --rows 10000000 --json scan.json
  nearside bench scan --selectivity 0.01 --threads 1 --runs 9
  nearside bench scan --clients 64,1024 --selectivity 1e-05       clients that scan one column, passes shared or not

A figure is the median over all columns and runs, after one run that is not timed. GB/s are of packed codes; the share
is of what as many threads read at best, measured before the load and after the scans. Beside other engines:
bench/compare scan.")]
pub struct Arguments {
    /// Rows of the table
    #[arg(
        long, value_name = "N", default_value_t = 100_000_000,
        value_parser = clap::value_parser!(u64).range(1000..=1 << 40)
    )]
    rows: u64,
    /// Worker threads [default: one per usable cpu]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=sched::Config::THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Shares of the rows that a statement selects
    #[arg(
        long, value_name = "F,..", value_delimiter = ',', default_value = "1e-05,0.001,0.01,0.1",
        value_parser = parse_selectivity
    )]
    selectivity: Vec<Selectivity>,
    /// Timed runs over all columns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Have so many clients scan one column at the same time, in place of one statement after the other
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Whether clients share passes, each value of nearside.scan_sharing in turn; the first is what others are compared
    /// with
    #[arg(
        long, value_name = "WAY,..", value_delimiter = ',', default_value = "off,on,auto", requires = "clients",
        value_parser = ["off", "on", "auto"]
    )]
    sharing: Vec<String>,
    /// Bits of the column that clients scan
    #[arg(
        long, value_name = "N", default_value_t = 20, requires = "clients",
        value_parser = clap::value_parser!(u32).range(1..=31)
    )]
    bits: u32,
    /// Length of each run of clients
    #[arg(long, value_name = "S", default_value = "5", requires = "clients", value_parser = parse_seconds)]
    seconds: f64,
    /// Where the table lies, as in CREATE TABLE .. WITH (placement = '..') [default: rr]
    #[arg(long, value_name = "PLACEMENT")]
    placement: Option<String>,
    /// What values are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A share of the rows as it was given: the text names the figure.
#[derive(Clone, Debug)]
struct Selectivity {
    text: String,
    share: f64,
}

fn parse_selectivity(text: &str) -> Result<Selectivity, String> {
    match text.trim().parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(Selectivity { text: text.trim().to_string(), share }),
        _ => Err("a selectivity is a share of the rows: a number over 0 and at most 1, like 0.001".to_string()),
    }
}

/// Loads, scans, prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = database_of(arguments.threads)?;
    let threads = database.scheduler().threads();
    let mut out = io::stdout();
    write_head(&mut out, database.topology(), threads)?;
    if !arguments.clients.is_empty() {
        let figures = shared::run(&database, arguments, &mut out)?;
        let given = json!({
            "rows": arguments.rows, "runs": arguments.runs, "seed": arguments.seed, "placement": arguments.placement,
            "selectivity": arguments.selectivity.iter().map(|s| &s.text).collect::<Vec<_>>(), "bits": arguments.bits,
            "clients": arguments.clients, "sharing": arguments.sharing, "seconds": arguments.seconds,
        });
        if let Some(json) = json {
            json.write(&report("scan", database.topology(), threads, given, &figures))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bandwidth = || read_bandwidth(database.topology(), threads, &SystemClock::new());
    let before = bandwidth();
    let ranges: Vec<Range> =
        arguments.selectivity.iter().flat_map(|s| BITS.map(|bits| Range::of(bits, s.share))).collect();
    let started = Instant::now();
    let ranges = load(&database, arguments, ranges)?;
    let load_s = started.elapsed().as_secs_f64();
    writeln!(
        out,
        "data      {} rows, {} columns of {} to {} bits, loaded in {load_s:.2} s; {} resident\n",
        thousands(arguments.rows),
        BITS.count(),
        BITS.start(),
        BITS.end(),
        human(numa::resident_bytes())
    )?;
    let times = scan(&database.session(), &ranges, arguments.runs)?;
    let roof = [before, bandwidth()].into_iter().flatten().reduce(f64::max);
    let figures = figures(arguments, &ranges, &times, roof);
    write_table(&mut out, &figures, roof)?;
    if let Some(json) = json {
        let given = json!({
            "rows": arguments.rows, "runs": arguments.runs, "seed": arguments.seed, "placement": arguments.placement,
            "selectivity": arguments.selectivity.iter().map(|s| &s.text).collect::<Vec<_>>(),
        });
        let mut value = report("scan", database.topology(), threads, given, &figures);
        value["read_bytes_per_second"] = json!(roof);
        value["load_s"] = json!(load_s);
        value["resident_bytes"] = json!(numa::resident_bytes());
        json.write(&value)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The values of one column that a statement selects.
#[derive(Debug)]
struct Range {
    bits: u32,
    low: i32,
    high: i32,
    /// The rows that hold one of them.
    rows: AtomicU64,
}

impl Range {
    /// As the peers' script has it: from a third of the domain on.
    fn of(bits: u32, share: f64) -> Range {
        let domain = 1_u64 << bits;
        let width = ((domain as f64 * share) as u64).max(1);
        let low = domain / 3;
        let high = (low + width - 1).min(domain - 1);
        Range { bits, low: low as i32, high: high as i32, rows: AtomicU64::new(0) }
    }

    fn count(&self, values: &[i32]) {
        let rows = values.iter().filter(|v| (self.low..=self.high).contains(*v)).count();
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    fn sql(&self) -> String {
        let Range { bits, low, high, .. } = self;
        format!("SELECT c{bits} FROM t WHERE c{bits} >= {low} AND c{bits} <= {high}")
    }
}

/// The value of a row and column: uniform, of `bits` bits.
fn value(seed: u64, row: u64, bits: u32) -> i32 {
    (mixed(seed.wrapping_add(row.wrapping_mul(32)).wrapping_add(u64::from(bits))) >> (64 - bits)) as i32
}

fn schema() -> SchemaRef {
    let fields: Vec<Field> = BITS.map(|bits| Field::new(format!("c{bits}"), DataType::Int32, false)).collect();
    Arc::new(Schema::new(fields))
}

/// Makes the table `t` on all threads; gives the ranges with their rows counted.
fn load(database: &Database, arguments: &Arguments, ranges: Vec<Range>) -> Result<Arc<Vec<Range>>, Failure> {
    let schema = schema();
    let ranges = Arc::new(ranges);
    let producers = database.scheduler().threads() as u64 * 4;
    let share = arguments.rows.div_ceil(producers).next_multiple_of(BATCH_ROWS);
    let producer = |number: u64| -> BatchProducer {
        let schema = Arc::clone(&schema);
        let ranges = Arc::clone(&ranges);
        let seed = arguments.seed;
        let first = (number * share).min(arguments.rows);
        let end = ((number + 1) * share).min(arguments.rows);
        Box::new((first..end).step_by(BATCH_ROWS as usize).map(move |begin| {
            let rows = begin..end.min(begin + BATCH_ROWS);
            let columns = BITS.map(|bits| {
                let values: Vec<i32> = rows.clone().map(|row| value(seed, row, bits)).collect();
                ranges.iter().filter(|range| range.bits == bits).for_each(|range| range.count(&values));
                Arc::new(Int32Array::from(values)) as ArrayRef
            });
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns.collect())?)
        }))
    };
    let options = LoadOptions { placement: arguments.placement.clone(), ..LoadOptions::default() };
    database.load_batches("t", Arc::clone(&schema), (0..producers).map(producer).collect(), &options)?;
    Ok(ranges)
}

/// Seconds of each run of each range, in the order of the ranges.
fn scan(session: &Session, ranges: &[Range], runs: u16) -> Result<Vec<Vec<f64>>, Failure> {
    let mut times = vec![Vec::new(); ranges.len()];
    for (first, of_one) in ranges.chunks(BITS.count()).enumerate() {
        for run in 0..=runs {
            for (i, range) in of_one.iter().enumerate() {
                let sql = range.sql();
                let started = Instant::now();
                let batches = session.query(&sql)?.collect_all()?;
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                drop(batches);
                let taken = started.elapsed().as_secs_f64();
                let expected = range.rows.load(Ordering::Relaxed);
                if rows as u64 != expected {
                    return Err(Failure::new(format!("'{sql}' gave {rows} rows instead of {expected}")));
                }
                if run > 0 {
                    times[first * BITS.count() + i].push(taken);
                }
            }
        }
    }
    Ok(times)
}

/// A figure per selectivity.
fn figures(arguments: &Arguments, ranges: &[Range], times: &[Vec<f64>], roof: Option<f64>) -> Vec<Figure> {
    let columns = BITS.count();
    let rows = arguments.rows as f64;
    let figure = |(i, selectivity): (usize, &Selectivity)| {
        let ranges = &ranges[i * columns..][..columns];
        let times = &times[i * columns..][..columns];
        let all: Vec<f64> = times.concat();
        let rate = |(range, times): (&Range, &Vec<f64>)| rows * f64::from(range.bits) / 8.0 / median(times).max(1e-12);
        let bytes_per_second = median(&ranges.iter().zip(times).map(rate).collect::<Vec<_>>());
        let median_s = median(&all);
        let share = roof.map(|roof| bytes_per_second / roof);
        let figure = Figure::new(selectivity.text.clone(), median_s * 1e3, "ms", Better::Less);
        figure.with_details(json!({
            "selectivity": selectivity.share,
            "median_s": median_s,
            "runs_s": all,
            "columns": ranges.iter().zip(times).map(|(range, times)| json!({
                "bits": range.bits, "median_s": median(times), "rows": range.rows.load(Ordering::Relaxed),
            })).collect::<Vec<_>>(),
            "rows_per_second": rows / median_s.max(1e-12),
            "bytes_per_second": bytes_per_second,
            "share_of_bandwidth": share,
            "share_min": (selectivity.share <= SHARE_SELECTIVITY).then_some(SHARE_MIN),
        }))
    };
    arguments.selectivity.iter().enumerate().map(figure).collect()
}

fn write_table(out: &mut dyn Write, figures: &[Figure], roof: Option<f64>) -> Result<(), Failure> {
    writeln!(
        out,
        "{:>11} {:>12} {:>12} {:>12} {:>13}",
        "selectivity", "median ms", "G rows/s", "GB/s", "of bandwidth"
    )?;
    for figure in figures {
        let detail = |name: &str| figure.details.get(name).and_then(serde_json::Value::as_f64);
        let percent = format!("{}%", detail("selectivity").unwrap_or(0.0) * 100.0);
        let rows = detail("rows_per_second").unwrap_or(0.0) / 1e9;
        let bytes = detail("bytes_per_second").unwrap_or(0.0) / 1e9;
        let share = detail("share_of_bandwidth");
        let verdict = match (share, detail("share_min")) {
            (Some(share), Some(least)) if share >= least => format!("  ok: at least {:.0}%", least * 100.0),
            (Some(_), Some(least)) => format!("  missed: at least {:.0}%", least * 100.0),
            _ => String::new(),
        };
        let share = share.map_or_else(|| "-".to_string(), |share| format!("{:.0}%", share * 100.0));
        writeln!(out, "{percent:>11} {:>12.3} {rows:>12.3} {bytes:>12.2} {share:>13}{verdict}", figure.value)?;
    }
    match roof {
        Some(roof) => {
            writeln!(out, "\nas many threads read {:.1} GB/s at best (nearside probe measures more)", roof / 1e9)?
        }
        None => writeln!(out, "\nthe bandwidth could not be measured: no memory of known place was to be had")?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_uniform_and_of_their_bits() {
        for bits in BITS {
            let values: Vec<i32> = (0..100_000).map(|row| value(3, row, bits)).collect();
            let domain = 1 << bits;
            assert!(values.iter().all(|v| (0..domain).contains(v)), "{bits}");
            let range = Range::of(bits, 0.1);
            range.count(&values);
            assert!((9_500..10_500).contains(&range.rows.into_inner()), "{bits}");
        }
    }

    #[test]
    fn ranges_are_those_of_the_peers() {
        let Range { low, high, .. } = Range::of(17, 1e-5);
        assert_eq!((low, high), (43690, 43690));
        let Range { low, high, .. } = Range::of(20, 0.001);
        assert_eq!((low, high), (349_525, 349_525 + 1047));
        assert_eq!(Range::of(17, 1.0).high, (1 << 17) - 1);
        assert_eq!(Range::of(18, 0.5).sql(), "SELECT c18 FROM t WHERE c18 >= 87381 AND c18 <= 218452");
        for wrong in ["0", "-1", "1.5", "x", "nan", ""] {
            assert!(parse_selectivity(wrong).is_err(), "{wrong}");
        }
    }
}
