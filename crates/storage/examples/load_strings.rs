//! What it takes to load strings of several natures: `cargo run --release -p nearside-storage --example load_strings
//! [million rows]`.
//!
//! Each column is staged and built by itself in one thread: its own time on a cpu per row, the encoding it got, its
//! bytes, and the largest number of bytes held meanwhile. Data are made up here; `values` is how many different ones
//! there are.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use numa::{Allocator, Budget, Policy};
use random::mixed;
use storage::{ColumnAllocator, Serial, Stager, build_part};

const BATCH_ROWS: usize = 8192;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// A column: its name and the value of a row.
type Nature = (&'static str, Box<dyn Fn(u64) -> String>);

fn main() -> Fallible<()> {
    let millions: usize = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let rows = millions * 1_000_000;
    println!("{:<34} {:>10} {:>9} {:>10} {:>10}  encoding", "values", "stage ns", "build ns", "MiB", "peak MiB");
    for (name, value) in natures(rows as u64) {
        load(name, rows, &*value)?;
    }
    Ok(())
}

fn natures(rows: u64) -> Vec<Nature> {
    let below = |row: u64, end: u64| ((u128::from(mixed(row)) * u128::from(end)) >> 64) as u64;
    let key = move |values: u64| move |row: u64| format!("key{:07}", below(row, values));
    vec![
        ("seven", Box::new(key(7))),
        ("1,000", Box::new(key(1_000))),
        ("100,000", Box::new(key(100_000))),
        ("1,000,000", Box::new(key(1_000_000))),
        ("a third of the rows, sorted", Box::new(|row| format!("key{:07}", row / 3))),
        ("half of the rows", Box::new(key(rows / 2))),
        // As comments of TPC-H.
        (
            "three quarters, of 27 bytes",
            Box::new(move |row| {
                let value = if row % 4 == 0 { below(row, 1000) } else { 1000 + row };
                format!("furiously even deps {value:07}")
            }),
        ),
        (
            "each row its own, of 50 bytes",
            Box::new(|row| format!("{row:010} a value of fifty bytes, unlike any other")),
        ),
    ]
}

fn load(name: &str, rows: usize, value: &dyn Fn(u64) -> String) -> Fallible<()> {
    let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Utf8View, false)]));
    let budget = Budget::new("load_strings", u64::MAX);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    let mut stager = Stager::new(Arc::clone(&schema), allocator.clone());
    let mut stage_s = 0.0;
    for from in (0..rows).step_by(BATCH_ROWS) {
        let of_batch = (from..rows.min(from + BATCH_ROWS)).map(|row| value(row as u64));
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(of_batch));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array])?;
        let start = cpu_s();
        stager.append(&batch)?;
        stage_s += cpu_s() - start;
    }
    let start = cpu_s();
    let part = build_part(&schema, vec![stager.finish()?], &[ColumnAllocator::local(allocator)], &Serial)?;
    let build_s = cpu_s() - start;
    let column = part.segments[0].segment.column(0);
    let codes: usize = part.segments.iter().map(|segment| segment.segment.column(0).bytes_codes()).sum();
    // All segments share the dictionary.
    let bytes = codes + column.bytes_dictionary();
    println!(
        "{name:<34} {:>10.1} {:>9.1} {:>10.1} {:>10.1}  {}",
        stage_s * 1e9 / rows as f64,
        build_s * 1e9 / rows as f64,
        bytes as f64 / 1048576.0,
        budget.peak_bytes() as f64 / 1048576.0,
        column.encoding(),
    );
    Ok(())
}

/// The time that this thread has run.
fn cpu_s() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    statistics.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}
