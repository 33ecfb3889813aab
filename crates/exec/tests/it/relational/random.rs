//! Random tables: columns of every type with few, many, unique or extreme values, NULLs, deleted rows, several
//! segments.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int32Array,
    Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray, UInt16Array,
    UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use numa::Allocator;
pub use random::Random;
use storage::{ColumnAllocator, RowsToDelete, Serial, TableVersion};

use crate::support::table;

/// How the values of a column are spread.
#[derive(Debug, Clone, Copy)]
pub enum Spread {
    /// A few, over and over.
    Few(i64),
    /// Each once, in some order.
    Unique,
    /// As far apart as the type allows.
    Wide,
    /// One.
    Constant,
    /// None: NULL only.
    Nulls,
}

/// Types of the columns of tables.
pub fn types() -> Vec<DataType> {
    vec![
        DataType::Int64,
        DataType::Int64,
        DataType::Int32,
        DataType::Int8,
        DataType::UInt16,
        DataType::UInt64,
        DataType::Boolean,
        DataType::Utf8View,
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::Float64,
        DataType::Float32,
        DataType::Decimal128(12, 2),
        DataType::Decimal128(30, 3),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ]
}

/// Columns that hold -0.0 and NaN are named so; what depends on more than their equality is left alone.
pub const WEIRD: &str = "weird";

/// An array of numbers in the type; numbers that it cannot hold are cut.
pub fn array(data_type: &DataType, numbers: &[Option<i64>], weird: bool) -> ArrayRef {
    let some = || numbers.iter().copied();
    match data_type {
        DataType::Int64 => Arc::new(some().collect::<Int64Array>()),
        DataType::Int32 => Arc::new(some().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        DataType::Int8 => Arc::new(some().map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
        DataType::UInt16 => Arc::new(some().map(|v| v.map(|v| v as u16)).collect::<UInt16Array>()),
        DataType::UInt64 => Arc::new(some().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
        DataType::Boolean => Arc::new(some().map(|v| v.map(|v| v % 2 != 0)).collect::<BooleanArray>()),
        DataType::Utf8View | DataType::BinaryView => {
            let text = |v: i64| if v % 3 == 0 { format!("a text of some length {v}") } else { format!("{v}") };
            let texts: ArrayRef = Arc::new(some().map(|v| v.map(text)).collect::<StringArray>());
            cast(&cast(&texts, &DataType::Utf8View).unwrap(), data_type).unwrap()
        }
        // Quarters below a million: sums are exact in any order.
        DataType::Float64 => {
            let special = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, f64::INFINITY];
            let of = |v: i64| match weird {
                true => special[v.unsigned_abs() as usize % special.len()],
                false => (v % 1_000_000) as f64 / 4.0,
            };
            Arc::new(some().map(|v| v.map(of)).collect::<Float64Array>())
        }
        DataType::Float32 => {
            let of = |v: i64| if weird && v % 2 == 0 { -0.0 } else { (v % 1000) as f32 / 4.0 };
            Arc::new(some().map(|v| v.map(of)).collect::<Float32Array>())
        }
        DataType::Decimal128(precision, scale) => {
            let most = 10i128.pow(u32::from(*precision).min(20));
            let of = |v: i64| i128::from(v) * (if *precision > 20 { 100_003 } else { 1 }) % most;
            let decimals = some().map(|v| v.map(of)).collect::<Decimal128Array>();
            Arc::new(decimals.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Date32 => Arc::new(some().map(|v| v.map(|v| (v % 40_000) as i32)).collect::<Date32Array>()),
        DataType::Timestamp(..) => {
            Arc::new(some().map(|v| v.map(|v| v % (1 << 50))).collect::<TimestampMicrosecondArray>())
        }
        // One value each.
        DataType::List(item) => {
            let values = array(item.data_type(), numbers, weird);
            let valid = NullBuffer::from(numbers.iter().map(Option::is_some).collect::<Vec<bool>>());
            let ends = OffsetBuffer::from_lengths(numbers.iter().map(|_| 1));
            Arc::new(ListArray::new(item.clone(), ends, values, Some(valid)))
        }
        other => unreachable!("no test column is of {other}"),
    }
}

/// Numbers for `rows` rows.
pub fn numbers(random: &mut Random, rows: usize, spread: Spread, nulls: bool) -> Vec<Option<i64>> {
    let start = random.below(1000) as i64 - 300;
    let mut unique: Vec<i64> = (0..rows as i64).map(|i| start + i).collect();
    for i in (1..unique.len()).rev() {
        unique.swap(i, random.below(i + 1));
    }
    (0..rows)
        .map(|row| {
            if nulls && random.one_in(5) {
                return None;
            }
            Some(match spread {
                Spread::Few(k) => random.below(k as usize) as i64 - k / 3,
                Spread::Unique => unique[row],
                Spread::Wide => match random.below(6) {
                    0 => i64::MAX,
                    1 => i64::MIN,
                    2 => random.below(3) as i64 - 1,
                    _ => random.next_u64() as i64,
                },
                Spread::Constant => 7,
                Spread::Nulls => return None,
            })
        })
        .collect()
}

fn spread(random: &mut Random) -> Spread {
    match random.below(14) {
        0..=5 => Spread::Few(3 + random.below(8) as i64),
        6..=7 => Spread::Few(30),
        8..=10 => Spread::Unique,
        11 => Spread::Wide,
        12 => Spread::Constant,
        _ => Spread::Nulls,
    }
}

/// A schema of one to six columns.
pub fn schema(random: &mut Random) -> SchemaRef {
    let types = types();
    let fields = (0..1 + random.below(6)).map(|c| {
        let data_type = random.pick(&types);
        let weird = data_type.is_floating() && random.one_in(3);
        Field::new(format!("{}{c}", if weird { WEIRD } else { "c" }), data_type, !random.one_in(3))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Rows of a schema.
pub fn batch(random: &mut Random, schema: &SchemaRef, rows: usize, spreads: &[Spread]) -> RecordBatch {
    let columns = schema.fields().iter().zip(spreads).map(|(field, &spread)| {
        let spread = if field.is_nullable() || !matches!(spread, Spread::Nulls) { spread } else { Spread::Constant };
        let nulls = field.is_nullable() && random.one_in(2);
        array(field.data_type(), &numbers(random, rows, spread, nulls), field.name().starts_with(WEIRD))
    });
    let columns = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).unwrap()
}

/// How a column of each of a schema's is spread.
pub fn spreads(random: &mut Random, schema: &SchemaRef) -> Vec<Spread> {
    schema.fields().iter().map(|_| spread(random)).collect()
}

/// A table of some segments, each with dictionaries of its own and of up to `rows` rows, some of them deleted.
pub fn snapshot(random: &mut Random, segments: &[usize]) -> Arc<TableVersion> {
    let schema = schema(random);
    let spreads = spreads(random, &schema);
    let batches: Vec<RecordBatch> = segments.iter().map(|&rows| batch(random, &schema, rows, &spreads)).collect();
    let mut version = table(&schema, &batches);
    if random.one_in(2) {
        let mut deletes = Vec::new();
        for (part, p) in version.parts.iter().enumerate() {
            for (segment, s) in p.segments.iter().enumerate() {
                let rows = s.segment.rows();
                let some = if random.one_in(6) { rows } else { random.below(1 + rows / 5) };
                let mut rows: Vec<u32> = (0..some).map(|_| random.below(rows) as u32).collect();
                if some == s.segment.rows() {
                    rows = (0..some as u32).collect();
                }
                deletes.push(RowsToDelete { part, segment, rows });
            }
        }
        version = version.with_deleted(&deletes, &Allocator::unplaced()).unwrap();
    }
    if random.one_in(3) && version.parts.len() == 1 {
        let whole = version.parts[0].as_ref().clone();
        let (left, right) = whole.segments.split_at(whole.segments.len() / 2);
        let part = |s: &[storage::SegmentVersion]| Arc::new(storage::Part { segments: s.to_vec() });
        version = version.with_parts(vec![part(left), part(right)]);
    }
    if random.one_in(2) {
        let columns: Vec<usize> = (0..schema.fields().len()).filter(|_| random.one_in(2)).collect();
        version = version.with_indexes(&columns, &|_, _| ColumnAllocator::unplaced(), &Serial).unwrap();
    }
    Arc::new(version)
}

/// A value of a type that tables of few values are likely to have.
pub fn literal(random: &mut Random, data_type: &DataType, count: usize) -> ArrayRef {
    let numbers: Vec<Option<i64>> = (0..count).map(|_| Some(random.below(14) as i64 - 4)).collect();
    array(data_type, &numbers, false)
}

/// Are all values of the column written so that sums and order are the same however they come about?
pub fn plain(field: &Field) -> bool {
    !field.name().starts_with(WEIRD)
}
