//! Columns that have one value in every row: what ADD COLUMN makes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, make_array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use numa::Allocator;

use crate::affine::Affine;
use crate::coded::CodedColumn;
use crate::column::Column;
use crate::copies::Copies;
use crate::dictionary::{Dictionary, bytes_at};
use crate::error::StoreError;
use crate::mover::replicated;
use crate::placement::ColumnAllocator;
use crate::plain::{PlainColumn, PlainData, PlainPiece};
use crate::strings::{INLINE_BYTES_MAX, StringValues};
use crate::types::{Native, Physical, surface_type, wide_key_at, with_native};
use crate::{GRANULE_ROWS, SEGMENT_ROWS_MAX};

/// A column of `rows` rows (at most [`SEGMENT_ROWS_MAX`]) that all hold `value`: one value of type `t`, or NULL for
/// `None`. Whatever the number of rows it takes next to no memory.
///
/// # Errors
/// [`StoreError::NotComparable`] for a value of another type, [`StoreError::NotOneValue`] for more or fewer than one,
/// [`StoreError::Memory`].
pub fn constant_column(
    t: &DataType,
    value: Option<&dyn Array>,
    rows: usize,
    allocator: &ColumnAllocator,
) -> Result<Column, StoreError> {
    assert!(rows <= SEGMENT_ROWS_MAX);
    let t = surface_type(t);
    let mut present: Option<ArrayRef> = None;
    if let Some(value) = value {
        if value.len() != 1 {
            return Err(StoreError::NotOneValue { values: value.len(), nulls: value.null_count() });
        }
        if surface_type(value.data_type()) != t {
            return Err(StoreError::NotComparable { expected: t, found: value.data_type().clone() });
        }
        if value.is_valid(0) {
            present = Some(arrow::compute::cast(&make_array(value.to_data()), &t)?);
        }
    }
    if Physical::of(&t) == Physical::Opaque {
        return opaque(&t, present, rows);
    }
    let null_code = present.is_none();
    let mut dictionary = dictionary_of(&t, present.as_deref(), &allocator.dictionary())?;
    if let Some(nodes) = allocator.placement.dictionary.replicas() {
        let copies = replicated(dictionary.copies(), nodes, &allocator.allocator)?;
        dictionary = dictionary.moved(copies);
    }
    let bounds = vec![(0, 0); rows.div_ceil(GRANULE_ROWS)];
    Ok(Column::Coded(CodedColumn::new(rows, Arc::new(dictionary), null_code, None, bounds)))
}

/// The dictionary of one value, or of none.
fn dictionary_of(t: &DataType, value: Option<&dyn Array>, allocator: &Allocator) -> Result<Dictionary, StoreError> {
    let physical = Physical::of(t);
    let len = u32::from(value.is_some());
    if physical == Physical::Bytes {
        let bytes: &[u8] = value.map_or(&[], |value| bytes_at(value, 0));
        let long_bytes = if bytes.len() > INLINE_BYTES_MAX { bytes.len() } else { 0 };
        let values = StringValues::build(allocator, len as usize, long_bytes, std::iter::once(bytes))?;
        return Ok(Dictionary::strings(t.clone(), values));
    }
    let key = value.map_or(0, |value| wide_key_at(value, 0));
    if !physical.is_float() {
        return Ok(Dictionary::affine(t.clone(), Affine { base: key, step: 1 }, len));
    }
    if len == 0 {
        return Ok(Dictionary::fixed(t.clone(), None, 0));
    }
    let mut region = allocator.region(physical.width_bytes())?;
    with_native!(physical, N => region.words_mut::<N>()[0] = N::from_wide_key(key));
    Ok(Dictionary::fixed(t.clone(), Some(region), 1))
}

/// Pieces that all share one array.
fn opaque(t: &DataType, value: Option<ArrayRef>, rows: usize) -> Result<Column, StoreError> {
    let piece_rows = rows.min(GRANULE_ROWS);
    let array = match value {
        None => new_null_array(t, piece_rows),
        Some(value) => take(value.as_ref(), &UInt32Array::from(vec![0; piece_rows]), None)?,
    };
    let data = Arc::new(PlainData::Array(array));
    let starts = (0..rows).step_by(GRANULE_ROWS);
    let pieces = starts.map(|start| {
        let rows = (rows - start).min(GRANULE_ROWS);
        PlainPiece { start, rows, offset: 0, data: Copies::one(Arc::clone(&data)) }
    });
    Ok(Column::Plain(PlainColumn::new(t.clone(), pieces.collect())))
}
