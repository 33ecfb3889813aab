//! How fast this machine stages, builds, scans and gathers:
//! `cargo run --release -p nearside-storage --example throughput`.
//!
//! One thread, data made up here. Times are the thread's own time on a cpu, so the rates are per core and other
//! programs disturb them little. The first argument is the number of rows of the table, in
//! millions (6 if absent).

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use numa::{Allocator, Budget, Policy};
use random::Random;
use storage::{
    CodePredicate, CodeSet, Column, ColumnAllocator, Parallel, Part, Segment, Serial, Stager, TableVersion, build_part,
};

const BATCH_ROWS: usize = 8192;
/// How often each read is repeated: the clock ticks every few milliseconds.
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let millions: usize = std::env::args().nth(1).map_or(Ok(6), |text| text.parse())?;
    load(millions * 1_000_000, &Serial)?;
    scans()?;
    Ok(())
}

/// Columns like those of TPC-H's lineitem.
fn batch(schema: &SchemaRef, first: usize, random: &mut Random) -> Result<RecordBatch, Box<dyn std::error::Error>> {
    let rows = 0..BATCH_ROWS;
    let words =
        ["carefully", "final", "deposits", "sleep", "furiously", "above", "the", "pending", "ideas", "blithely"];
    let modes = ["AIR", "MAIL", "SHIP", "TRUCK", "REG AIR", "RAIL", "FOB"];
    let decimals = |limit: u64, scale: i128, random: &mut Random| -> Result<ArrayRef, Box<dyn std::error::Error>> {
        let values: Vec<i128> = rows.clone().map(|_| i128::from(random.below_u64(limit)) * scale).collect();
        Ok(Arc::new(Decimal128Array::from(values).with_precision_and_scale(15, 2)?))
    };
    let comment = |random: &mut Random| {
        (0..4).map(|_| words[random.below_u64(10) as usize]).collect::<Vec<_>>().join(" ")
            + &random.below_u64(100_000).to_string()
    };
    let days = |random: &mut Random| -> ArrayRef {
        Arc::new(Date32Array::from_iter_values(rows.clone().map(|_| 8000 + random.below_u64(2526) as i32)))
    };
    let instructions = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| ((first + row) / 4 * 4) as i64))),
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|_| random.below_u64(200_000) as i64))),
        Arc::new(Int32Array::from_iter_values(rows.clone().map(|row| (row % 7) as i32))),
        decimals(50, 100, random)?,
        decimals(10_000_000, 1, random)?,
        decimals(11, 1, random)?,
        Arc::new(StringViewArray::from_iter_values(
            rows.clone().map(|_| ["A", "N", "R"][random.below_u64(3) as usize]),
        )),
        days(random),
        days(random),
        days(random),
        Arc::new(StringViewArray::from_iter_values(rows.clone().map(|_| instructions[random.below_u64(4) as usize]))),
        Arc::new(StringViewArray::from_iter_values(rows.clone().map(|_| modes[random.below_u64(7) as usize]))),
        Arc::new(StringViewArray::from_iter_values(rows.clone().map(|_| comment(random)))),
    ];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn lineitem() -> SchemaRef {
    let decimal = DataType::Decimal128(15, 2);
    let types = [
        ("orderkey", DataType::Int64),
        ("partkey", DataType::Int64),
        ("linenumber", DataType::Int32),
        ("quantity", decimal.clone()),
        ("extendedprice", decimal.clone()),
        ("discount", decimal),
        ("returnflag", DataType::Utf8View),
        ("shipdate", DataType::Date32),
        ("commitdate", DataType::Date32),
        ("receiptdate", DataType::Date32),
        ("shipinstruct", DataType::Utf8View),
        ("shipmode", DataType::Utf8View),
        ("comment", DataType::Utf8View),
    ];
    Arc::new(Schema::new(types.map(|(name, t)| Field::new(name, t, false)).to_vec()))
}

fn load(rows: usize, parallel: &dyn Parallel) -> Result<(), Box<dyn std::error::Error>> {
    let schema = lineitem();
    let budget = Budget::new("throughput", u64::MAX);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    let mut stager = Stager::new(Arc::clone(&schema), allocator.clone());
    let mut random = Random::new(88_172_645);
    let (mut staging_s, mut arrow_bytes) = (0.0, 0);
    let column_ns = staging_ns_per_value(&schema)?;
    while stager.rows() < rows {
        let batch = batch(&schema, stager.rows(), &mut random)?;
        arrow_bytes += batch.get_array_memory_size();
        let start = cpu_s();
        stager.append(&batch)?;
        staging_s += cpu_s() - start;
    }
    let start = cpu_s();
    let staged = vec![stager.finish()?];
    let part = build_part(&schema, staged, &vec![ColumnAllocator::local(allocator); schema.fields().len()], parallel)?;
    let build_s = cpu_s() - start;
    let mebi = |bytes: usize| bytes as f64 / 1048576.0;
    let table = TableVersion::empty(&schema).with_appended(part.clone());
    println!(
        "{} rows: staged in {staging_s:.2} s, built in {build_s:.2} s; {:.0} MiB of arrow became {:.0} MiB, peak {:.0} \
         MiB",
        table.rows(),
        mebi(arrow_bytes),
        mebi(table.bytes()),
        mebi(budget.peak_bytes() as usize)
    );
    let columns = part.segments[0].segment.columns();
    for ((field, column), ns) in schema.fields().iter().zip(columns).zip(column_ns) {
        let bits = column.bits().map_or(String::new(), |bits| format!("{bits} bits"));
        println!("  {:<14} {:<15} {bits:<8} staging {ns:.1} ns per value", field.name(), column.encoding().to_string());
    }
    reads(&part);
    Ok(())
}

/// What staging each column takes by itself.
fn staging_ns_per_value(schema: &SchemaRef) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let mut random = Random::new(88_172_645);
    let batches = (0..160).map(|i| batch(schema, i * BATCH_ROWS, &mut random)).collect::<Result<Vec<_>, _>>()?;
    let mut all = Vec::new();
    for column in 0..schema.fields().len() {
        let projected = Arc::new(schema.project(&[column])?);
        let start = cpu_s();
        let mut stager = Stager::new(projected, Allocator::unplaced());
        for batch in &batches {
            stager.append(&batch.project(&[column])?)?;
        }
        black_box(stager.finish()?);
        all.push((cpu_s() - start) * 1e9 / (batches.len() * BATCH_ROWS) as f64);
    }
    Ok(all)
}

/// Values out of the part just made.
fn reads(part: &Part) {
    let segment: &Segment = &part.segments[0].segment;
    for column in [4, 7, 10, 12] {
        let start = cpu_s();
        for from in (0..ROUNDS).flat_map(|_| (0..segment.rows()).step_by(BATCH_ROWS)) {
            black_box(segment.column(column).slice(from..segment.rows().min(from + BATCH_ROWS)));
        }
        report(&format!("slice column {column}"), ROUNDS * segment.rows(), start);
    }
}

/// Rates over 16 Mi codes of several widths.
fn scans() -> Result<(), Box<dyn std::error::Error>> {
    let rows = storage::SEGMENT_ROWS_MAX;
    for bits in [1u32, 4, 8, 12, 16, 20, 21, 24] {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, false)]));
        let mut stager = Stager::new(Arc::clone(&schema), Allocator::unplaced());
        let mut random = Random::new(88_172_645);
        while stager.rows() < rows {
            let values = Int64Array::from_iter_values((0..BATCH_ROWS).map(|_| random.below_u64(1 << bits) as i64));
            stager.append(&RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)])?)?;
        }
        let part = build_part(&schema, vec![stager.finish()?], &[ColumnAllocator::unplaced()], &Serial)?;
        let column: &Column = part.segments[0].segment.column(0);
        let Some(coded) = column.as_coded() else { continue };
        println!("{} bits", coded.bits());
        let top = (1u32 << bits) - 1;
        let half = CodePredicate::Range { lo: top / 4, hi: top / 4 * 3 };
        let set = CodePredicate::Set(Arc::new(CodeSet::new((0..=top).filter(|code| code % 3 == 0))));
        for (name, predicate) in [("range", &half), ("set", &set)] {
            let mut mask = vec![0; 1024];
            let start = cpu_s();
            for granule in (0..ROUNDS).flat_map(|_| 0..rows / storage::GRANULE_ROWS) {
                mask.fill(u64::MAX);
                let from = granule * storage::GRANULE_ROWS;
                coded.select(from..from + storage::GRANULE_ROWS, predicate, &mut mask);
                black_box(&mask);
            }
            report(name, ROUNDS * rows, start);
        }
        let mut codes = Vec::new();
        let start = cpu_s();
        for from in (0..ROUNDS).flat_map(|_| (0..rows).step_by(BATCH_ROWS)) {
            codes.clear();
            coded.unpack(from..from + BATCH_ROWS, &mut codes);
            black_box(&codes);
        }
        report("unpack", ROUNDS * rows, start);
        let positions: Vec<u32> = (0..BATCH_ROWS as u32).map(|i| i * 7).collect();
        let start = cpu_s();
        for _ in 0..10_000 {
            codes.clear();
            coded.gather(&positions, &mut codes);
            black_box(&codes);
        }
        report("gather", 10_000 * BATCH_ROWS, start);
    }
    Ok(())
}

fn report(what: &str, rows: usize, start: f64) {
    println!("  {what:<16} {:.2} G rows/s", rows as f64 / (cpu_s() - start) / 1e9);
}

/// Seconds that this thread has run.
fn cpu_s() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    statistics.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}
