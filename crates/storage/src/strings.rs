//! Strings and binary values: arrow's 16-byte views, and a sorted dictionary made of them.
//!
//! A view holds a value of up to 12 bytes itself; of a longer one it holds the length, the first four bytes and where
//! the bytes lie. A sorted dictionary is one region of views and one of the long values' bytes, so short values cost 16
//! bytes each and nothing else, and materialising is a gather of views.
//!
//! # Limits
//! A value is shorter than 2 GiB, as arrow's views demand.

// Arrays are made of stored values without checking again that they are UTF-8.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, FixedSizeBinaryArray, StringViewArray};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use numa::{Allocator, MemoryError, Region};

use crate::kernels::share::{region_buffer, view_array};
use crate::placement::Exchange;

/// Longest value that a view holds itself.
pub(crate) const INLINE_BYTES_MAX: usize = 12;
/// Longest buffer that views refer to: their offsets are signed 32-bit numbers to other arrow implementations.
pub(crate) const BUFFER_BYTES_MAX: usize = i32::MAX as usize;
/// Dictionaries with more bytes of long values than this are not shared with results: who accounts for a batch counts
/// every buffer it refers to in full, and would count the whole dictionary for every few rows.
const SHARED_BYTES_MAX: usize = 1 << 20;

/// The view of `value`; `buffer` and `offset` say where its bytes lie if it is a long one.
#[inline]
fn make_view(value: &[u8], buffer: usize, offset: usize) -> u128 {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
    if value.len() <= INLINE_BYTES_MAX {
        bytes[4..4 + value.len()].copy_from_slice(value);
    } else {
        bytes[4..8].copy_from_slice(&value[..4]);
        bytes[8..12].copy_from_slice(&(buffer as u32).to_le_bytes());
        bytes[12..].copy_from_slice(&(offset as u32).to_le_bytes());
    }
    u128::from_le_bytes(bytes)
}

/// The view of `bytes[range]`, which lies at `offset` of buffer `buffer` if it is a long value.
#[inline]
pub(crate) fn view_within(bytes: &[u8], range: Range<usize>, buffer: usize, offset: usize) -> u128 {
    let len = range.len();
    // Twelve bytes at once and what is too much masked away: copying a few bytes of a length that is not known costs
    // more.
    let Some(head) = bytes.get(range.start..range.start + INLINE_BYTES_MAX) else {
        return make_view(&bytes[range], buffer, offset);
    };
    let mut padded = [0; 16];
    padded[4..].copy_from_slice(head);
    let head = u128::from_le_bytes(padded);
    if len <= INLINE_BYTES_MAX {
        let kept = u128::MAX >> (96 - 8 * len);
        return head & kept | len as u128;
    }
    moved_view(head | len as u128, buffer, offset)
}

/// Length of the value behind a view.
#[inline]
pub(crate) fn view_len(view: u128) -> usize {
    view as u32 as usize
}

/// Where a long value lies: buffer and offset.
#[inline]
fn view_place(view: u128) -> (usize, usize) {
    ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize)
}

/// `view`, a long one, moved to another place.
#[inline]
pub(crate) fn moved_view(view: u128, buffer: usize, offset: usize) -> u128 {
    view & u128::from(u64::MAX) | (buffer as u128) << 64 | (offset as u128) << 96
}

/// The array of surface type `t` (views, or fixed-size binary) with these views over `buffers`.
///
/// # Safety
/// The views are well formed for `buffers`, and there are as many as `nulls` has bits. Where `t` is `Utf8View`, every
/// value is UTF-8: it came out of an arrow string array.
pub(crate) unsafe fn array_of_views(
    t: &DataType,
    views: ScalarBuffer<u128>,
    buffers: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let DataType::FixedSizeBinary(width) = t else {
        // SAFETY: the caller's promise.
        return unsafe { view_array(*t == DataType::Utf8View, views, buffers, nulls) };
    };
    let width = *width as usize;
    let mut bytes = Vec::with_capacity(views.len() * width);
    for (i, view) in views.iter().enumerate() {
        if nulls.as_ref().is_some_and(|n| n.is_null(i)) {
            bytes.resize(bytes.len() + width, 0);
        } else if width <= INLINE_BYTES_MAX {
            bytes.extend_from_slice(&view.to_le_bytes()[4..4 + width]);
        } else {
            let (buffer, offset) = view_place(*view);
            bytes.extend_from_slice(&buffers[buffer][offset..offset + width]);
        }
    }
    let rows = views.len();
    let bytes = Buffer::from_vec(bytes);
    let array = FixedSizeBinaryArray::try_new_with_len(width as i32, bytes, nulls, rows);
    Arc::new(array.expect("every value has the type's width"))
}

/// Copies the long values that `views` refer to into fresh buffers of exactly their bytes and moves the views there. A
/// run of equal views is copied once.
pub(crate) fn copy_long_values(views: &mut [u128], source: &[&[u8]]) -> Arc<[Buffer]> {
    let mut total = 0;
    let mut previous = 0;
    for &view in views.iter() {
        if view_len(view) > INLINE_BYTES_MAX && view != previous {
            total += view_len(view);
        }
        previous = view;
    }
    let mut buffers = Vec::new();
    let mut current: Vec<u8> = Vec::with_capacity(total.min(BUFFER_BYTES_MAX));
    let mut previous = 0;
    let mut previous_moved = 0;
    for view in views {
        let len = view_len(*view);
        if len <= INLINE_BYTES_MAX {
            continue;
        }
        if *view == previous {
            *view = previous_moved;
            continue;
        }
        if current.len() + len > BUFFER_BYTES_MAX {
            buffers.push(Buffer::from_vec(std::mem::take(&mut current)));
        }
        let (buffer, offset) = view_place(*view);
        previous = *view;
        *view = moved_view(*view, buffers.len(), current.len());
        previous_moved = *view;
        current.extend_from_slice(&source[buffer][offset..offset + len]);
    }
    if !current.is_empty() {
        buffers.push(Buffer::from_vec(current));
    }
    buffers.into()
}

/// Sorted values: one view each, and the bytes of the long ones. They are those of a column of one surface type, whose
/// staging took them out of arrow arrays of that type, and they are asked for as that type only: so text is UTF-8.
#[derive(Clone)]
pub(crate) struct StringValues {
    len: usize,
    views: Option<Arc<Region>>,
    bytes: Option<Arc<Region>>,
    /// The bytes as the buffers that the views refer to.
    buffers: Arc<[Buffer]>,
}

impl StringValues {
    /// Stores `len` values, ascending and without repeats, whose long ones have `long_bytes` bytes in all.
    pub(crate) fn build<'a>(
        allocator: &Allocator,
        len: usize,
        long_bytes: usize,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<StringValues, MemoryError> {
        let mut views = if len > 0 { Some(allocator.region(len * 16)?) } else { None };
        let mut bytes = if long_bytes > 0 { Some(allocator.region(long_bytes)?) } else { None };
        // Where each buffer starts within the bytes, and how far they are filled.
        let mut cuts = vec![0];
        let mut filled = 0;
        let slots = views.as_mut().map_or(&mut [][..], |region| &mut region.words_mut::<u128>()[..len]);
        let target = bytes.as_mut().map_or(&mut [][..], |region| &mut region.bytes_mut()[..long_bytes]);
        let mut stored = 0;
        for (slot, value) in slots.iter_mut().zip(values) {
            let mut start = cuts[cuts.len() - 1];
            if value.len() > INLINE_BYTES_MAX {
                if filled - start + value.len() > BUFFER_BYTES_MAX {
                    start = filled;
                    cuts.push(start);
                }
                target[filled..filled + value.len()].copy_from_slice(value);
            }
            *slot = make_view(value, cuts.len() - 1, filled - start);
            filled += if value.len() > INLINE_BYTES_MAX { value.len() } else { 0 };
            stored += 1;
        }
        assert_eq!((stored, filled), (len, long_bytes), "the caller counted the values");
        let bytes = bytes.map(Arc::new);
        let buffers = match &bytes {
            Some(region) => {
                cuts.push(filled);
                cuts.windows(2).map(|cut| region_buffer(region, cut[0]..cut[1])).collect()
            }
            None => Vec::new(),
        };
        Ok(StringValues { len, views: views.map(Arc::new), bytes, buffers: buffers.into() })
    }

    /// The same values with each region as `exchange` gives it: itself, or a copy.
    ///
    /// # Errors
    /// Those of `exchange`.
    pub(crate) fn exchanged<E>(&self, exchange: &mut Exchange<'_, E>) -> Result<StringValues, E> {
        let views = self.views.as_ref().map(&mut *exchange).transpose()?;
        let bytes = self.bytes.as_ref().map(&mut *exchange).transpose()?;
        let same = match (&self.bytes, &bytes) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            _ => true,
        };
        let mut start = 0;
        let buffers = match &bytes {
            Some(region) if !same => {
                let cut = |buffer: &Buffer| {
                    start += buffer.len();
                    region_buffer(region, start - buffer.len()..start)
                };
                self.buffers.iter().map(cut).collect()
            }
            _ => Arc::clone(&self.buffers),
        };
        Ok(StringValues { len: self.len, views, bytes, buffers })
    }

    /// Values that were stored by [`build`](Self::build) once, from whoever kept their bytes meanwhile: `len` views,
    /// and the bytes of the long values, of which so many are each buffer's.
    ///
    /// # Errors
    /// What is wrong with them: they are not ascending values of surface type `t`.
    pub(crate) fn checked(
        t: &DataType,
        len: usize,
        views: Option<Region>,
        bytes: Option<Region>,
        buffers: &[usize],
    ) -> Result<StringValues, String> {
        let (views, bytes) = (views.map(Arc::new), bytes.map(Arc::new));
        let mut start = 0;
        let mut cut = |len: &usize| {
            start += len;
            bytes.as_ref().map_or_else(Buffer::default, |region| region_buffer(region, start - len..start))
        };
        let buffers: Arc<[Buffer]> = buffers.iter().map(&mut cut).collect();
        let all = views.as_ref().map_or_else(Buffer::default, |region| region_buffer(region, 0..16 * len));
        let all = ScalarBuffer::<u128>::from(all);
        // These look at every view, and whether text is UTF-8.
        match t {
            DataType::Utf8View => StringViewArray::try_new(all.clone(), Arc::clone(&buffers), None).map(drop),
            _ => BinaryViewArray::try_new(all.clone(), Arc::clone(&buffers), None).map(drop),
        }
        .map_err(|error| error.to_string())?;
        let width = |width: i32| all.iter().all(|view| view_len(*view) == width as usize);
        if matches!(t, DataType::FixedSizeBinary(bytes) if !width(*bytes)) {
            return Err("values of another width than their type's".to_owned());
        }
        let values = StringValues { len, views, bytes, buffers };
        match (1..len).all(|vid| values.value(vid - 1) < values.value(vid)) {
            true => Ok(values),
            false => Err("the values of the dictionary do not ascend".to_owned()),
        }
    }

    /// The views, the bytes of long values, and the buffers that these are cut into.
    pub(crate) fn parts(&self) -> (Option<&Region>, Option<&Region>, &[Buffer]) {
        (self.views.as_deref(), self.bytes.as_deref(), &self.buffers)
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn views(&self) -> &[u128] {
        match &self.views {
            Some(region) => &region.words::<u128>()[..self.len],
            None => &[],
        }
    }

    /// The bytes of a value.
    pub(crate) fn value(&self, vid: usize) -> &[u8] {
        let view = self.views()[vid];
        let len = view_len(view);
        if len > INLINE_BYTES_MAX {
            let (buffer, offset) = view_place(view);
            return &self.buffers[buffer].as_slice()[offset..offset + len];
        }
        match &self.views {
            // Views are kept little-endian in memory on every platform that arrow's views work on.
            Some(region) => &region.bytes()[16 * vid + 4..16 * vid + 4 + len],
            None => &[],
        }
    }

    /// The values of the vids as an array of surface type `t`; what stands where `nulls` has a null does not matter.
    pub(crate) fn gather(
        &self,
        t: &DataType,
        vids: impl ExactSizeIterator<Item = u32>,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        let stored = self.views();
        let mut views: Vec<u128> = vids.map(|vid| stored[vid as usize]).collect();
        if self.shared_whole() {
            // SAFETY: views that `build` made over these buffers, one per vid; the type's note says why text is UTF-8.
            return unsafe { array_of_views(t, views.into(), Arc::clone(&self.buffers), nulls) };
        }
        if let Some(nulls) = &nulls {
            for (i, view) in views.iter_mut().enumerate() {
                *view = if nulls.is_valid(i) { *view } else { 0 };
            }
        }
        let source: Vec<&[u8]> = self.buffers.iter().map(|b| b.as_slice()).collect();
        let buffers = copy_long_values(&mut views, &source);
        // SAFETY: as above, with the long values moved along with their views; NULLs have empty ones.
        unsafe { array_of_views(t, views.into(), buffers, nulls) }
    }

    /// A range of the values as an array, without a copy of views or bytes where that is most of the dictionary, or if
    /// `share`.
    pub(crate) fn slice(&self, t: &DataType, vids: Range<usize>, share: bool) -> ArrayRef {
        match &self.views {
            Some(region) if share || self.shared_whole() || vids.len() * 2 > self.len => {
                let views = ScalarBuffer::from(region_buffer(region, 16 * vids.start..16 * vids.end));
                // SAFETY: views that `build` made over these buffers; the type's note says why text is UTF-8.
                unsafe { array_of_views(t, views, Arc::clone(&self.buffers), None) }
            }
            _ => self.gather(t, vids.start as u32..vids.end as u32, None),
        }
    }

    /// The regions behind the values.
    pub(crate) fn regions(&self) -> impl Iterator<Item = &Region> {
        self.views.iter().chain(self.bytes.iter()).map(|region| region.as_ref())
    }

    fn shared_whole(&self) -> bool {
        self.bytes.as_ref().is_none_or(|bytes| bytes.len() <= SHARED_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_make_a_view_agree() {
        let bytes: Vec<u8> = (1..=60).collect();
        for start in 0..60 {
            for end in start..60 {
                let view = make_view(&bytes[start..end], 3, 1000 + start);
                assert_eq!(view_within(&bytes, start..end, 3, 1000 + start), view, "{start}..{end}");
            }
        }
    }
}
