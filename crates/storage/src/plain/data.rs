//! What the pieces of a plain column consist of: regions of numbers or of strings, or arrays as arrow made them.
//!
//! Invariant: the offsets of strings ascend and end at the length of their bytes.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use numa::Region;

use crate::copies::Copies;
use crate::placement::Exchange;

/// Rows `start .. start + rows` of a column: rows `offset ..` of `data`.
#[derive(Debug, Clone)]
pub(crate) struct PlainPiece {
    pub(crate) start: usize,
    pub(crate) rows: usize,
    pub(crate) offset: usize,
    pub(crate) data: Copies<Arc<PlainData>>,
}

/// The values of a piece.
#[derive(Debug)]
pub(crate) enum PlainData {
    Fixed(FixedData),
    Bytes(BytesData),
    Array(ArrayRef),
}

/// Native values, and a bit for each that is not NULL.
#[derive(Debug)]
pub(crate) struct FixedData {
    pub(crate) values: Arc<Region>,
    pub(crate) validity: Option<Arc<Region>>,
}

/// Strings or binary values one after the other, where each starts and the last one ends, and validity as above.
#[derive(Debug)]
pub(crate) struct BytesData {
    pub(crate) offsets: Arc<Region>,
    pub(crate) bytes: Option<Arc<Region>>,
    pub(crate) validity: Option<Arc<Region>>,
}

impl PlainData {
    pub(super) fn validity(&self) -> Option<&Arc<Region>> {
        match self {
            PlainData::Fixed(data) => data.validity.as_ref(),
            PlainData::Bytes(data) => data.validity.as_ref(),
            PlainData::Array(_) => None,
        }
    }

    pub(crate) fn is_valid(&self, row: usize) -> bool {
        match self {
            PlainData::Array(array) => array.is_valid(row),
            _ => self.validity().is_none_or(|bits| bits.words::<u64>()[row / 64] >> (row % 64) & 1 == 1),
        }
    }

    pub(super) fn has_nulls(&self) -> bool {
        match self {
            PlainData::Array(array) => array.logical_null_count() > 0,
            _ => self.validity().is_some(),
        }
    }

    /// The regions behind it; none for an array.
    pub(crate) fn regions(&self) -> Vec<&Region> {
        match self {
            PlainData::Fixed(data) => {
                let validity = data.validity.iter().map(|r| r.as_ref());
                std::iter::once(data.values.as_ref()).chain(validity).collect()
            }
            PlainData::Bytes(data) => {
                let rest = data.bytes.iter().chain(&data.validity).map(|r| r.as_ref());
                std::iter::once(data.offsets.as_ref()).chain(rest).collect()
            }
            PlainData::Array(_) => Vec::new(),
        }
    }

    /// The same values with each region as `exchange` gives it; an array stays what it is.
    ///
    /// # Errors
    /// Those of `exchange`.
    pub(crate) fn exchanged<E>(&self, exchange: &mut Exchange<'_, E>) -> Result<PlainData, E> {
        Ok(match self {
            PlainData::Fixed(data) => PlainData::Fixed(FixedData {
                values: exchange(&data.values)?,
                validity: data.validity.as_ref().map(&mut *exchange).transpose()?,
            }),
            PlainData::Bytes(data) => PlainData::Bytes(BytesData {
                offsets: exchange(&data.offsets)?,
                bytes: data.bytes.as_ref().map(&mut *exchange).transpose()?,
                validity: data.validity.as_ref().map(&mut *exchange).transpose()?,
            }),
            PlainData::Array(array) => PlainData::Array(Arc::clone(array)),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            PlainData::Array(array) => array.get_array_memory_size(),
            _ => self.regions().iter().map(|region| region.len()).sum(),
        }
    }
}

impl BytesData {
    /// The bytes of all values.
    pub(crate) fn all_bytes(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |region| region.bytes())
    }

    /// Where the bytes of a row's value lie.
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        let offsets = &self.offsets.words::<u32>()[row..row + 2];
        offsets[0] as usize..offsets[1] as usize
    }
}
