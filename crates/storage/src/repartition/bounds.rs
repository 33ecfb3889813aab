//! Bounds that cut a column into ranges of equal shares of its live rows.
//!
//! Rows are counted per dictionary entry, or per run of entries where there are very many; what is plain is sampled.
//! The counts of all dictionaries are put in value order and cut where the shares are reached.
//!
//! # Limits
//! Equal values cannot be cut apart, so one frequent value makes one large part. Of plain columns every `n`-th row
//! counts.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryViewArray, FixedSizeBinaryArray, StringViewArray, UInt32Array, new_empty_array,
};
use arrow::buffer::Buffer;
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;

use crate::GRANULE_ROWS;
use crate::coded::CodedColumn;
use crate::dictionary::bytes_at;
use crate::error::StoreError;
use crate::identity::DictionaryId;
use crate::partition::{PARTS_MAX, Partitioner, keys_of};
use crate::segment::SegmentVersion;
use crate::table::TableVersion;
use crate::types::{Physical, number_array, with_native};

/// Most counters of one dictionary.
const COUNTERS_MAX: usize = 1 << 20;
/// Most rows that are taken of the plain segments of a column.
const SAMPLES_MAX: usize = 1 << 18;

/// Bounds for [`Partitioner::Range`] over `column` such that each of `parts` parts gets about the same number of the
/// live rows that are not NULL. A column without such rows gives the type's zero or empty value for each bound.
///
/// # Errors
/// [`StoreError::NotThere`] for the column, [`StoreError::BadPartitioner`] for a number of parts or a type that cannot
/// be.
pub fn range_bounds(version: &TableVersion, column: usize, parts: usize) -> Result<ArrayRef, StoreError> {
    let count = version.schema.fields().len();
    if column >= count {
        return Err(StoreError::NotThere { what: "column", index: column, count });
    }
    if !(1..=PARTS_MAX).contains(&parts) {
        return Err(StoreError::BadPartitioner(format!("a table has 1 to {PARTS_MAX} parts, not {parts}")));
    }
    let types: Vec<DataType> = version.schema.fields().iter().map(|field| field.data_type().clone()).collect();
    Partitioner::Hash { columns: vec![column], parts }.check(&types)?;
    let t = &types[column];
    if parts == 1 {
        return Ok(new_empty_array(t));
    }
    let (values, weights) = weighted_values(version, column, t)?;
    let total: u64 = weights.iter().sum();
    if total == 0 {
        return Ok(zeros(t, parts - 1));
    }
    let order = value_order(&values);
    let mut indices = Vec::with_capacity(parts - 1);
    let mut before = 0;
    let mut next = 0;
    for bound in 1..parts as u64 {
        let wanted = (u128::from(total) * u128::from(bound) / parts as u128) as u64;
        // The first value with `n` rows before it; or the one at which fewer are missing than would be too many.
        while next + 1 < order.len() && before + weights[order[next] as usize] / 2 < wanted {
            before += weights[order[next] as usize];
            next += 1;
        }
        indices.push(order[next]);
    }
    Ok(take(&values, &UInt32Array::from(indices), None)?)
}

/// Values of a column in any order, with repeats, and how many live rows each stands for.
fn weighted_values(version: &TableVersion, column: usize, t: &DataType) -> Result<(ArrayRef, Vec<u64>), StoreError> {
    let mut counters: HashMap<(DictionaryId, bool), (&CodedColumn, Counters)> = HashMap::new();
    let (mut arrays, mut weights): (Vec<ArrayRef>, Vec<u64>) = (Vec::new(), Vec::new());
    let plain: usize = version
        .segments()
        .filter(|version| version.segment.column(column).as_coded().is_none())
        .map(SegmentVersion::live_rows)
        .sum();
    let every = plain.div_ceil(SAMPLES_MAX).max(1);
    for version in version.segments() {
        let stored = version.segment.column(column);
        match stored.as_coded() {
            Some(coded) => {
                let key = (coded.dictionary().id(), coded.null_code());
                let (_, counters) = counters.entry(key).or_insert_with(|| (coded, Counters::of(coded)));
                counters.count(coded, version);
            }
            None => {
                for rows in granules(version.segment.rows()) {
                    let positions: Vec<u32> =
                        rows.filter(|&row| version.is_live(row)).step_by(every).map(|r| r as u32).collect();
                    let values = stored.take(&positions);
                    let valid = arrow::compute::is_not_null(&values)?;
                    let values = arrow::compute::filter(&values, &valid)?;
                    weights.extend(std::iter::repeat_n(every as u64, values.len()));
                    arrays.push(values);
                }
            }
        }
    }
    for (coded, counters) in counters.into_values() {
        let (codes, counts) = counters.firsts(coded.null_code());
        arrays.push(coded.materialize(&codes));
        weights.extend(counts);
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
    let values = if arrays.is_empty() { new_empty_array(t) } else { concat(&arrays)? };
    Ok((values, weights))
}

fn granules(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(GRANULE_ROWS).map(move |from| from..rows.min(from + GRANULE_ROWS))
}

/// Live rows per run of `1 << shift` vids.
struct Counters {
    shift: u32,
    counts: Vec<u64>,
}

impl Counters {
    fn of(coded: &CodedColumn) -> Counters {
        let len = coded.dictionary().len();
        let shift = len.div_ceil(COUNTERS_MAX).next_power_of_two().trailing_zeros();
        Counters { shift, counts: vec![0; len.div_ceil(1 << shift)] }
    }

    fn count(&mut self, coded: &CodedColumn, version: &SegmentVersion) {
        let mut codes = Vec::with_capacity(GRANULE_ROWS);
        for rows in granules(version.segment.rows()) {
            codes.clear();
            coded.unpack(rows.clone(), &mut codes);
            for (row, &code) in rows.zip(&codes) {
                let vid = if coded.null_code() { code.checked_sub(1) } else { Some(code) };
                if let Some(vid) = vid.filter(|_| version.is_live(row)) {
                    self.counts[(vid >> self.shift) as usize] += 1;
                }
            }
        }
    }

    /// The first code of each run that has rows, and its rows.
    fn firsts(&self, null_code: bool) -> (Vec<u32>, Vec<u64>) {
        let runs = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        runs.map(|(run, &count)| (((run as u32) << self.shift) + u32::from(null_code), count)).unzip()
    }
}

/// Indices of the values, which have no NULL, in the order of [`Partitioner::Range`].
fn value_order(values: &ArrayRef) -> Vec<u32> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    if Physical::of(values.data_type()) == Physical::Bytes {
        order.sort_by(|&a, &b| bytes_at(values, a as usize).cmp(bytes_at(values, b as usize)));
    } else {
        let keys = keys_of(values);
        order.sort_by_key(|&i| keys[i as usize]);
    }
    order
}

/// Values of zeros, or without a byte.
fn zeros(t: &DataType, len: usize) -> ArrayRef {
    match (Physical::of(t), t) {
        (Physical::Bytes, DataType::FixedSizeBinary(width)) => {
            let bytes = Buffer::from_vec(vec![0u8; *width as usize * len]);
            let array = FixedSizeBinaryArray::try_new_with_len(*width, bytes, None, len);
            Arc::new(array.expect("every value has the type's width"))
        }
        (Physical::Bytes, DataType::Utf8View) => Arc::new(StringViewArray::from_iter_values(repeat_n("", len))),
        (Physical::Bytes, _) => Arc::new(BinaryViewArray::from_iter_values(repeat_n([], len))),
        (Physical::Bool, _) => number_array(t, len, Buffer::from_vec(vec![0u8; len]), None),
        (physical, _) => with_native!(physical, N => {
            number_array(t, len, Buffer::from_vec(vec![N::default(); len]), None)
        }),
    }
}
