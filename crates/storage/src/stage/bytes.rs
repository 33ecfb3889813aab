//! Staging strings and binary values as they are: granules that move into the column unchanged.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::NullBuffer;
use numa::{Allocator, MemoryError};

use crate::GRANULE_ROWS;
use crate::plain::{BytesData, PlainData};
use crate::region_vec::RegionVec;
use crate::stage::validity::OpenValidity;
use crate::strings::BUFFER_BYTES_MAX;

/// Writes pieces of at most a granule's rows, whose bytes fit one arrow buffer.
pub(crate) struct BytesWriter {
    /// Where each value of the open piece ends, and a 0 before the first.
    offsets: RegionVec<u32>,
    bytes: RegionVec<u8>,
    validity: OpenValidity,
    sealed: Vec<StagedPiece>,
    /// Bytes of the last piece: what the next one will likely need.
    last_bytes: usize,
}

/// A sealed piece and its rows.
pub(crate) struct StagedPiece {
    pub(crate) rows: usize,
    pub(crate) data: Arc<PlainData>,
}

impl BytesWriter {
    pub(crate) fn new(allocator: &Allocator) -> Self {
        BytesWriter {
            offsets: RegionVec::new(allocator),
            bytes: RegionVec::new(allocator),
            validity: OpenValidity::new(allocator),
            sealed: Vec::new(),
            last_bytes: 0,
        }
    }

    /// Appends `rows` of an array whose values `value` gives; a NULL's is not stored. No value is longer than
    /// [`BUFFER_BYTES_MAX`].
    pub(crate) fn append<'a>(
        &mut self,
        nulls: Option<&NullBuffer>,
        rows: Range<usize>,
        value: impl Fn(usize) -> &'a [u8],
    ) -> Result<(), MemoryError> {
        let value = |row: usize| if nulls.is_some_and(|nulls| nulls.is_null(row)) { &[] } else { value(row) };
        let mut from = rows.start;
        while from < rows.end {
            // As many rows as the open piece takes.
            let room = rows.end.min(from + GRANULE_ROWS - self.open_rows());
            let mut to = from;
            let mut total = self.bytes.len();
            while to < room {
                let len = value(to).len();
                if total + len > BUFFER_BYTES_MAX {
                    break;
                }
                total += len;
                to += 1;
            }
            if to > from {
                self.append_open(from..to, total, &value)?;
                self.validity.append(nulls, from..to)?;
            }
            if to < rows.end || self.open_rows() == GRANULE_ROWS {
                self.seal();
            }
            from = to;
        }
        Ok(())
    }

    /// What was written.
    pub(crate) fn finish(mut self) -> Vec<StagedPiece> {
        self.seal();
        self.sealed
    }

    /// Closes the open piece, if it has a row.
    pub(crate) fn seal(&mut self) {
        let rows = self.open_rows();
        if rows == 0 {
            return;
        }
        self.last_bytes = self.bytes.len();
        let bytes = self.bytes.take().map(Arc::new);
        let validity = self.validity.seal().map(Arc::new);
        if let Some(offsets) = self.offsets.take() {
            self.sealed.push(StagedPiece {
                rows,
                data: Arc::new(PlainData::Bytes(BytesData { offsets: Arc::new(offsets), bytes, validity })),
            });
        }
    }

    fn open_rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Appends rows to the open piece, which then has `total` bytes.
    fn append_open<'a>(
        &mut self,
        rows: Range<usize>,
        total: usize,
        value: &impl Fn(usize) -> &'a [u8],
    ) -> Result<(), MemoryError> {
        if self.offsets.len() == 0 {
            if !self.sealed.is_empty() {
                // The next piece will likely be as large as the last one.
                self.offsets.reserve(GRANULE_ROWS + 1)?;
            }
            self.offsets.push(0)?;
        }
        let start = self.bytes.len();
        if start == 0 && total > 0 && self.last_bytes > total {
            self.bytes.reserve(self.last_bytes + self.last_bytes / 16)?;
        }
        let offsets = self.offsets.extend(rows.len())?;
        let bytes = self.bytes.extend(total - start)?;
        let mut filled = 0;
        for (offset, row) in offsets.iter_mut().zip(rows) {
            let value = value(row);
            bytes[filled..filled + value.len()].copy_from_slice(value);
            filled += value.len();
            *offset = (start + filled) as u32;
        }
        Ok(())
    }
}
