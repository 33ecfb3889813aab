//! Few rows as a segment, in little time: what each scan beside writes does with the last rows of a delta.
//!
//! Integers become distances from the smallest, strings stay as they are, floats where the table has them so. No value
//! is looked for among others, as whoever makes a large segment does for a dictionary: a segment of the delta lives
//! until it is merged.
//!
//! # Limits
//! Floats, and integers that are farther apart than codes count, of a column that the table has in codes, and rows of
//! more than a granule take the way of all rows ([`built`]): operators want to know their bounds.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};

use crate::GRANULE_ROWS;
use crate::affine::Affine;
use crate::build::build_part;
use crate::coded::{CodedColumn, code_bits};
use crate::column::Column;
use crate::copies::Copies;
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::kernels::pack::pack;
use crate::kernels::words_for;
use crate::parallel::{Parallel, Serial};
use crate::place::settled;
use crate::placement::ColumnAllocator;
use crate::plain::{FixedData, PlainColumn, PlainData, PlainPiece};
use crate::segment::{Part, Segment, SegmentVersion};
use crate::stage::Stager;
use crate::stage::bytes::BytesWriter;
use crate::strings::BUFFER_BYTES_MAX;
use crate::types::{Native, Physical, native_slice, with_native};

/// Most vids: one below what a `u32` counts, and NULL's code.
const VIDS_MAX: u64 = u32::MAX as u64 - 2;

/// The rows, one at least, as a segment. `columns` are of the types of `schema`, surface types; `like` is a segment of
/// the table, if it has one.
///
/// # Errors
/// [`StoreError::Memory`], [`StoreError::Interrupted`].
pub(super) fn encoded(
    schema: &SchemaRef,
    columns: &[ArrayRef],
    like: Option<&Segment>,
    allocators: &[ColumnAllocator],
    parallel: &dyn Parallel,
) -> Result<Arc<Segment>, StoreError> {
    let rows = columns.first().map_or(0, |column| column.len());
    if rows > GRANULE_ROWS {
        return built(schema, columns.to_vec(), allocators, parallel);
    }
    let mut made = Vec::with_capacity(columns.len());
    for (place, (array, allocator)) in columns.iter().zip(allocators).enumerate() {
        // What is on the disk alone is not read for a hint.
        let like = like.and_then(|segment| segment.stored_columns()[place].resident()).map(Arc::as_ref);
        made.push(match quick(array, like, allocator)? {
            Some(column) => Arc::new(column),
            None => {
                let schema = Arc::new(Schema::new(vec![schema.field(place).clone()]));
                let one = built(&schema, vec![Arc::clone(array)], std::slice::from_ref(allocator), &Serial)?;
                Arc::clone(one.column(0))
            }
        });
    }
    let part = Part { segments: vec![SegmentVersion::new(Segment::new(rows, made))] };
    Ok(only_segment(&settled(part, allocators, &Serial)?))
}

/// The same as a load makes it.
///
/// # Errors
/// As [`encoded`].
pub(super) fn built(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    allocators: &[ColumnAllocator],
    parallel: &dyn Parallel,
) -> Result<Arc<Segment>, StoreError> {
    let rows = columns.first().map_or(0, |column| column.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let mut stager = Stager::new(Arc::clone(schema), allocators[0].staging());
    stager.append(&RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)?;
    // A usual chunk takes less time than handing its columns out.
    let parallel = if rows > GRANULE_ROWS { parallel } else { &Serial };
    Ok(only_segment(&build_part(schema, vec![stager.finish()?], allocators, parallel)?))
}

fn only_segment(part: &Part) -> Arc<Segment> {
    let [version] = part.segments.as_slice() else { panic!("{} segments of few rows", part.segments.len()) };
    Arc::clone(&version.segment)
}

/// A column of at most a granule's rows; `None` where that takes more thought.
fn quick(array: &ArrayRef, like: Option<&Column>, of: &ColumnAllocator) -> Result<Option<Column>, StoreError> {
    let data_type = array.data_type();
    let physical = Physical::of(data_type);
    let data = match physical {
        Physical::Opaque => Some(PlainData::Array(Arc::clone(array))),
        Physical::Bytes => return strings(array, of),
        // Where the table has none of them as they are, they are codes here as well.
        _ if physical.is_float() => match like.is_some_and(|like| like.as_plain().is_some()) {
            true => Some(fixed(array, physical, of)?),
            false => None,
        },
        _ => {
            let Some(keys) = keys(array, physical) else { return Ok(None) };
            let valid = |row: usize| array.is_valid(row);
            if let Some(column) = distances(data_type, &keys, &valid, array.null_count() > 0, of)? {
                return Ok(Some(column));
            }
            let is_plain = like.map_or(physical != Physical::I128, |like| like.as_plain().is_some());
            if is_plain { Some(fixed(array, physical, of)?) } else { None }
        }
    };
    Ok(data.map(|data| plain(data_type, vec![(array.len(), Arc::new(data))])))
}

/// Pieces one after the other as a column.
fn plain(data_type: &DataType, data: Vec<(usize, Arc<PlainData>)>) -> Column {
    let mut start = 0;
    let pieces = data.into_iter().map(|(rows, data)| {
        let piece = PlainPiece { start, rows, offset: 0, data: Copies::one(data) };
        start += rows;
        piece
    });
    let pieces = pieces.collect();
    Column::Plain(PlainColumn::new(data_type.clone(), pieces))
}

/// The keys of integers, of NULLs any; `None` where one has more than 64 bits.
fn keys(array: &ArrayRef, physical: Physical) -> Option<Vec<i64>> {
    if physical == Physical::Bool {
        return Some(array.as_boolean().values().iter().map(i64::from).collect());
    }
    let data = array.to_data();
    with_native!(physical, N => native_slice::<N>(&data).iter().map(|value| value.key()).collect())
}

/// Integers as distances from the smallest; `None` where they are too far apart.
fn distances(
    data_type: &DataType,
    keys: &[i64],
    is_valid: &dyn Fn(usize) -> bool,
    nulls: bool,
    of: &ColumnAllocator,
) -> Result<Option<Column>, StoreError> {
    let bounds = |(low, high): (i64, i64), &key: &i64| (low.min(key), high.max(key));
    let (low, high) = match nulls {
        false => keys.iter().fold((i64::MAX, i64::MIN), bounds),
        true => {
            let valid = keys.iter().enumerate().filter(|(row, _)| is_valid(*row)).map(|(_, key)| key);
            valid.fold((i64::MAX, i64::MIN), bounds)
        }
    };
    let any = low <= high;
    let (base, span) = if any { (low, high.wrapping_sub(low) as u64) } else { (0, 0) };
    let distance = |(row, key): (usize, &i64)| match !nulls || is_valid(row) {
        true => key.wrapping_sub(base) as u64,
        false => 0,
    };
    let step = common_step(keys.iter().enumerate().map(distance));
    let last = span / step;
    if last >= VIDS_MAX {
        return Ok(None);
    }
    let len = if any { last as u32 + 1 } else { 0 };
    let dictionary = Dictionary::affine(data_type.clone(), Affine { base: base.into(), step: step.into() }, len);
    let bits = code_bits(&dictionary, nulls);
    let first = u32::from(nulls);
    let code = |(row, key): (usize, &i64)| match !nulls || is_valid(row) {
        true if step == 1 => key.wrapping_sub(base) as u32 + first,
        true => (key.wrapping_sub(base) as u64 / step) as u32 + first,
        false => 0,
    };
    let codes: Vec<u32> = keys.iter().enumerate().map(code).collect();
    let mut region = None;
    if bits > 0 {
        let words = words_for(codes.len(), bits);
        let region = region.insert(of.codes(codes.len(), bits, 0).region(4 * words)?);
        pack(&codes, bits, &mut region.words_mut()[..words]);
    }
    let highest = if any { last as u32 + first } else { 0 };
    let lowest = if nulls { 0 } else { codes.iter().copied().min().unwrap_or(0) };
    let column = CodedColumn::new(codes.len(), Arc::new(dictionary), nulls, region, vec![(lowest, highest)]);
    Ok(Some(Column::Coded(column)))
}

/// The largest step in which all distances are whole, 1 where all are 0.
fn common_step(distances: impl Iterator<Item = u64>) -> u64 {
    let mut step = 0;
    for mut distance in distances {
        while distance > 0 {
            (step, distance) = (distance, step % distance);
        }
        if step == 1 {
            break;
        }
    }
    step.max(1)
}

/// Numbers as they are stored.
fn fixed(array: &ArrayRef, physical: Physical, of: &ColumnAllocator) -> Result<PlainData, StoreError> {
    let allocator = of.piece(1, 0, 0);
    let mut values = allocator.region(array.len() * physical.width_bytes())?;
    let data = array.to_data();
    with_native!(physical, N => {
        for (slot, value) in values.words_mut::<N>().iter_mut().zip(native_slice::<N>(&data)) {
            // By way of its key: a NaN is stored as the one that all are.
            *slot = value.key().map_or_else(|| N::from_wide_key(value.wide_key()), N::from_key);
        }
    });
    let mut validity = None;
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let region = validity.insert(allocator.region(array.len().div_ceil(64) * 8)?);
        for (word, valid) in region.words_mut::<u64>().iter_mut().zip(nulls.inner().bit_chunks().iter_padded()) {
            *word = valid;
        }
    }
    Ok(PlainData::Fixed(FixedData { values: Arc::new(values), validity: validity.map(Arc::new) }))
}

/// Strings one after the other; `None` where one is longer than a piece.
fn strings(array: &ArrayRef, of: &ColumnAllocator) -> Result<Option<Column>, StoreError> {
    let mut writer = BytesWriter::new(&of.staging());
    let rows: Range<usize> = 0..array.len();
    let nulls = array.nulls();
    match array.data_type() {
        DataType::Utf8View => {
            let values = array.as_string_view();
            if values.lengths().any(|length| length as usize > BUFFER_BYTES_MAX) {
                return Ok(None);
            }
            writer.append(nulls, rows, |row| values.value(row).as_bytes())?;
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            if values.lengths().any(|length| length as usize > BUFFER_BYTES_MAX) {
                return Ok(None);
            }
            writer.append(nulls, rows, |row| values.value(row))?;
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            writer.append(nulls, rows, |row| values.value(row))?;
        }
        other => unreachable!("{other} has no bytes"),
    }
    let pieces = writer.finish().into_iter().map(|piece| (piece.rows, piece.data)).collect();
    Ok(Some(plain(array.data_type(), pieces)))
}
