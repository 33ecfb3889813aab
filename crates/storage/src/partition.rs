//! Which part of a table a row belongs to.
//!
//! # Invariants
//! - The part depends on the row's values only (round-robin: on its number), so equal values of different tables,
//!   whatever their encoding, go to the same part by hash. Numbers are equal as SQL compares them: integers of any
//!   width and decimals of any scale, dates and timestamps of any unit, `0.0` and `-0.0`, all NaNs.
//! - NULL goes to part 0, and so does a row of which one hashed column is NULL.
//! - By range, values are compared as the dictionaries' order has them, but `-0.0` is `0.0` and every NaN the greatest.
//!
//! # Limits
//! Types without an order of ours (lists, structs, ...) cannot be partitioned by. A float is never equal to an integer
//! here.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.2 (PP).

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, TimeUnit};

use crate::dictionary::bytes_at;
use crate::error::StoreError;
use crate::types::{Native, Physical, native_slice, surface_type, with_native};

/// Most parts that a table may have: their numbers are kept in 16 bits while rows are on their way.
pub(crate) const PARTS_MAX: usize = 65_535;

/// A rule that sends each row of a table to one of its parts.
#[derive(Debug, Clone)]
pub enum Partitioner {
    /// By ranges of a column: part `i` holds the values below `bounds[i]` that no part before it holds, the last part
    /// the rest.
    Range {
        /// The column.
        column: usize,
        /// Ascending values of the column's type, without NULL; one fewer than there are parts.
        bounds: ArrayRef,
    },
    /// By a hash of some columns.
    Hash {
        /// The columns; their order matters.
        columns: Vec<usize>,
        /// How many parts.
        parts: usize,
    },
    /// In turn.
    RoundRobin {
        /// How many parts.
        parts: usize,
    },
}

impl Partitioner {
    /// How many parts it knows.
    pub fn parts(&self) -> usize {
        match self {
            Partitioner::Range { bounds, .. } => bounds.len() + 1,
            Partitioner::Hash { parts, .. } | Partitioner::RoundRobin { parts } => *parts,
        }
    }

    /// The part of each row of `batch`, whose columns are the table's, in surface types or types that surface to them.
    /// `first_row` is the number of the first row, for [`Partitioner::RoundRobin`].
    ///
    /// # Errors
    /// [`StoreError::BadPartitioner`] where the rule does not fit the table, see [`Partitioner::check`].
    pub fn route(&self, batch: &RecordBatch, first_row: u64) -> Result<Vec<u32>, StoreError> {
        let schema = batch.schema();
        self.check(&schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>())?;
        let rows = batch.num_rows();
        Ok(match self {
            Partitioner::RoundRobin { parts } => {
                (0..rows as u64).map(|i| ((first_row + i) % *parts as u64) as u32).collect()
            }
            Partitioner::Range { column, bounds } => {
                let values = surfaced(batch.column(*column))?;
                let mut parts = Vec::with_capacity(rows);
                Ranges::new(bounds)?.push_parts(&values, &mut parts);
                parts
            }
            Partitioner::Hash { columns, parts } => {
                let mut hashes = vec![HASH_START; rows];
                for &column in columns {
                    let values = surfaced(batch.column(column))?;
                    hashes_of(&values)
                        .into_iter()
                        .zip(&mut hashes)
                        .for_each(|(value, hash)| *hash = joined(*hash, value));
                }
                hashes.into_iter().map(|hash| part_of_hash(hash, *parts)).collect()
            }
        })
    }

    /// The rows of `batch` by part, in their order; `None` for a part that gets none.
    ///
    /// # Errors
    /// As [`Partitioner::route`].
    pub fn split(&self, batch: &RecordBatch, first_row: u64) -> Result<Vec<Option<RecordBatch>>, StoreError> {
        let mut positions: Vec<Vec<u32>> = vec![Vec::new(); self.parts()];
        for (row, part) in (0u32..).zip(self.route(batch, first_row)?) {
            positions[part as usize].push(row);
        }
        let rows_at = |positions: Vec<u32>| match positions.len() {
            0 => Ok(None),
            all if all == batch.num_rows() => Ok(Some(batch.clone())),
            _ => Ok(Some(take_record_batch(batch, &UInt32Array::from(positions))?)),
        };
        positions.into_iter().map(rows_at).collect()
    }

    /// Whether it can be used for a table whose columns have these types.
    ///
    /// # Errors
    /// [`StoreError::BadPartitioner`]: no part or more than 65,535, a column that is not there or of a type without
    /// order, bounds that are NULL, not ascending or of another type.
    pub fn check(&self, types: &[DataType]) -> Result<(), StoreError> {
        let bad = |text: String| Err(StoreError::BadPartitioner(text));
        if !(1..=PARTS_MAX).contains(&self.parts()) {
            return bad(format!("a table has 1 to {PARTS_MAX} parts, not {}", self.parts()));
        }
        let columns = match self {
            Partitioner::Range { column, .. } => std::slice::from_ref(column),
            Partitioner::Hash { columns, .. } if columns.is_empty() => {
                return bad("hash parts need at least one column; name the columns to hash".into());
            }
            Partitioner::Hash { columns, .. } => columns,
            Partitioner::RoundRobin { .. } => &[],
        };
        for &index in columns {
            let Some(t) = types.get(index) else {
                return Err(StoreError::NotThere { what: "column", index, count: types.len() });
            };
            if Physical::of(&surface_type(t)) == Physical::Opaque {
                return bad(format!(
                    "rows cannot be sent to parts by a column of type {t}; choose a number or text column"
                ));
            }
        }
        let Partitioner::Range { column, bounds } = self else { return Ok(()) };
        let expected = surface_type(&types[*column]);
        let found = bounds.data_type();
        if !same_values(&expected, &surface_type(found)) {
            return bad(format!(
                "the bounds of the parts are of type {found}, the column of type {expected}; cast them"
            ));
        }
        if bounds.null_count() > 0 {
            return bad("a bound between parts is NULL; NULL rows go to the first part anyway".into());
        }
        if !Ranges::new(bounds)?.ascending() {
            return bad("the bounds between parts do not ascend; sort them".into());
        }
        Ok(())
    }
}

/// Whether keys of the two surface types mean the same values.
fn same_values(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Decimal32(_, a), DataType::Decimal32(_, b))
        | (DataType::Decimal64(_, a), DataType::Decimal64(_, b))
        | (DataType::Decimal128(_, a), DataType::Decimal128(_, b)) => a == b,
        _ => a == b,
    }
}

fn surfaced(array: &ArrayRef) -> Result<ArrayRef, StoreError> {
    let surface = surface_type(array.data_type());
    Ok(if surface == *array.data_type() { ArrayRef::clone(array) } else { cast(array, &surface)? })
}

/// Bounds between ranges, ready to be searched.
pub(crate) enum Ranges {
    Keys(Vec<i128>),
    Bytes(Vec<Vec<u8>>),
}

impl Ranges {
    pub(crate) fn new(bounds: &ArrayRef) -> Result<Ranges, StoreError> {
        let bounds = surfaced(bounds)?;
        Ok(match Physical::of(bounds.data_type()) {
            Physical::Bytes => Ranges::Bytes((0..bounds.len()).map(|i| bytes_at(&bounds, i).to_vec()).collect()),
            _ => Ranges::Keys(keys_of(&bounds)),
        })
    }

    fn ascending(&self) -> bool {
        match self {
            Ranges::Keys(keys) => keys.is_sorted(),
            Ranges::Bytes(values) => values.is_sorted(),
        }
    }

    /// Appends the part of each value.
    pub(crate) fn push_parts(&self, values: &dyn Array, parts: &mut Vec<u32>) {
        let start = parts.len();
        match self {
            Ranges::Keys(bounds) => {
                let part = |key: i128| bounds.partition_point(|bound| *bound <= key) as u32;
                parts.extend(keys_of(values).into_iter().map(part));
            }
            Ranges::Bytes(bounds) => {
                let part = |value: &[u8]| bounds.partition_point(|bound| bound.as_slice() <= value) as u32;
                parts.extend((0..values.len()).map(|i| if values.is_null(i) { 0 } else { part(bytes_at(values, i)) }));
            }
        }
        if let Some(nulls) = values.logical_nulls() {
            for (i, part) in parts[start..].iter_mut().enumerate() {
                *part = if nulls.is_null(i) { 0 } else { *part };
            }
        }
    }
}

/// A key for each value of a number array, by which parts are told: that of [`Native`], but zeros are one and NaNs are
/// one.
pub(crate) fn keys_of(array: &dyn Array) -> Vec<i128> {
    use arrow::array::AsArray;
    let physical = Physical::of(array.data_type());
    match physical {
        Physical::Bool => {
            let values = array.as_boolean().values();
            values.iter().map(i128::from).collect()
        }
        Physical::F32 => {
            let data = array.to_data();
            native_slice::<f32>(&data).iter().map(|&value| float_key(f64::from(value))).collect()
        }
        Physical::F64 => {
            let data = array.to_data();
            native_slice::<f64>(&data).iter().map(|&value| float_key(value)).collect()
        }
        _ => with_native!(physical, N => {
            let data = array.to_data();
            native_slice::<N>(&data).iter().map(|value| value.wide_key()).collect()
        }),
    }
}

fn float_key(value: f64) -> i128 {
    let value = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
    value.wide_key()
}

/// Hash of no column.
pub(crate) const HASH_START: Option<u64> = Some(0);

/// A row's hash and that of its next column; `None`, for NULL, stays.
pub(crate) fn joined(hash: Option<u64>, value: Option<u64>) -> Option<u64> {
    Some(mixed(hash?.rotate_left(23) ^ value?))
}

/// The part of a row's hash.
pub(crate) fn part_of_hash(hash: Option<u64>, parts: usize) -> u32 {
    hash.map_or(0, |hash| ((u128::from(hash) * parts as u128) >> 64) as u32)
}

/// The hash of each value, `None` for NULL. It stays the same over versions of this program.
pub(crate) fn hashes_of(array: &dyn Array) -> Vec<Option<u64>> {
    let valid = |i: usize| array.is_valid(i);
    if Physical::of(array.data_type()) == Physical::Bytes {
        return (0..array.len()).map(|i| valid(i).then(|| hash_bytes(bytes_at(array, i)))).collect();
    }
    let canon = Canonical::of(array.data_type());
    keys_of(array).into_iter().enumerate().map(|(i, key)| valid(i).then(|| hash_number(canon.value(key)))).collect()
}

/// How a key becomes the number that stands for it whatever the type: values that SQL takes as equal give equal
/// numbers.
enum Canonical {
    Same,
    /// Keys of unsigned 64-bit numbers have their highest bit turned.
    Unsigned,
    /// A decimal with this many digits behind its point.
    Decimal(i8),
    /// `n` nanoseconds.
    Nanoseconds(i128),
}

impl Canonical {
    fn of(t: &DataType) -> Canonical {
        let unit = |unit: &TimeUnit| match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1000,
            TimeUnit::Nanosecond => 1,
        };
        match t {
            DataType::UInt64 => Canonical::Unsigned,
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
                Canonical::Decimal(*scale)
            }
            DataType::Date32 => Canonical::Nanoseconds(86_400_000_000_000),
            DataType::Date64 => Canonical::Nanoseconds(1_000_000),
            DataType::Time32(u) | DataType::Time64(u) | DataType::Timestamp(u, _) | DataType::Duration(u) => {
                Canonical::Nanoseconds(unit(u))
            }
            _ => Canonical::Same,
        }
    }

    /// A number and, for decimals that are not whole, their digits behind the point.
    fn value(&self, key: i128) -> (i128, i8) {
        match self {
            Canonical::Same => (key, 0),
            Canonical::Unsigned => (i128::from(key as i64 as u64 ^ (1 << 63)), 0),
            Canonical::Nanoseconds(factor) => (key.wrapping_mul(*factor), 0),
            Canonical::Decimal(scale) => {
                let mut value = key;
                let mut scale = *scale;
                while scale > 0 && value % 10 == 0 && value != 0 {
                    (value, scale) = (value / 10, scale - 1);
                }
                while scale < 0 {
                    (value, scale) = (value.wrapping_mul(10), scale + 1);
                }
                (value, if value == 0 { 0 } else { scale })
            }
        }
    }
}

fn hash_number((value, scale): (i128, i8)) -> u64 {
    let high = (value >> 64) as u64;
    // Numbers that fit 64 bits have a high half that follows from the low one, and are hashed once.
    let rest = if high == (value as i64 >> 63) as u64 { 0 } else { mixed(high ^ 0x9e37_79b9_7f4a_7c15) };
    mixed(value as u64 ^ rest ^ (scale as u64).rotate_left(56))
}

fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = mixed(bytes.len() as u64 ^ 0xa076_1d64_78bd_642f);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mixed(hash ^ u64::from_le_bytes(word));
    }
    hash
}

/// Every bit of the result depends on every bit of `x`.
fn mixed(x: u64) -> u64 {
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (x ^ x >> 32).wrapping_add(0x9e37_79b9_7f4a_7c15)
}
