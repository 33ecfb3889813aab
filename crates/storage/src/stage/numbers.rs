//! Staging a column of numbers.
//!
//! A producer knows its values exactly while there are few. Of more, which are too far apart to be numbered by what
//! lies between them, a [`Sketch`] tells about how many there are, by which `build` may still make a dictionary of
//! them.

use std::ops::Range;

use arrow::array::{Array, AsArray};
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use numa::{Allocator, MemoryError};

use crate::GRANULE_ROWS;
use crate::region_vec::RegionVec;
use crate::stage::chunk::{ChunkView, Frame, NumberChunk, common_frame};
use crate::stage::distinct::Sketch;
use crate::stage::validity::OpenValidity;
use crate::types::{Native, Physical, native_slice, with_native};

/// Most distinct keys that are tracked exactly while rows come.
const DISTINCT_MAX: usize = 65_536;
/// Keys that span more steps than this take so many bits when they are numbered by their distance that a dictionary may
/// be smaller.
const NEAR_STEPS_MAX: u128 = 1 << 28;
/// Offsets of up to this many bits are found to be distinct with a bitmap, wider ones one by one.
const BITMAP_BITS_MAX: u8 = 20;

/// Room that the columns of a producer take turns with.
#[derive(Default)]
pub(crate) struct Scratch {
    offsets: Vec<u32>,
    seen: Vec<u64>,
}

/// The distinct keys of a column, until there are too many.
pub(crate) type Distinct = Option<HashSet<i128, RandomState>>;

/// One number column of a producer.
pub(crate) struct NumberStage {
    physical: Physical,
    allocator: Allocator,
    open: RegionVec<i64>,
    /// The open chunk's keys instead, once one needs more than 64 bits.
    open_wide: RegionVec<i128>,
    wide: bool,
    validity: OpenValidity,
    chunks: Vec<NumberChunk>,
    distinct: Distinct,
    /// About how many keys there are, once they are neither few nor near each other.
    sketch: Option<Sketch>,
    /// Chunks that the sketch has seen.
    sketched: usize,
    /// What the sealed chunks have in common.
    frame: Option<Frame>,
}

/// What is left of it.
pub(crate) struct StagedNumbers {
    pub(crate) chunks: Vec<NumberChunk>,
    /// Exact where present.
    pub(crate) distinct: Distinct,
    /// Of all chunks where present.
    pub(crate) sketch: Option<Sketch>,
}

/// Whether keys of this frame are numbered by their distance from the smallest in few bits.
pub(crate) fn are_near(physical: Physical, frame: Frame) -> bool {
    !physical.is_float() && frame.span() / frame.step <= NEAR_STEPS_MAX
}

impl NumberStage {
    pub(crate) fn new(physical: Physical, allocator: &Allocator) -> Self {
        NumberStage {
            physical,
            allocator: allocator.clone(),
            open: RegionVec::new(allocator),
            open_wide: RegionVec::new(allocator),
            wide: false,
            validity: OpenValidity::new(allocator),
            chunks: Vec::new(),
            distinct: Some(HashSet::default()),
            sketch: None,
            sketched: 0,
            frame: None,
        }
    }

    /// Appends a number array of this column's surface type.
    pub(crate) fn append(&mut self, array: &dyn Array, scratch: &mut Scratch) -> Result<(), MemoryError> {
        let mut from = 0;
        while from < array.len() {
            let rows = from..array.len().min(from + GRANULE_ROWS - self.open_rows());
            from = rows.end;
            self.validity.append(array.nulls(), rows.clone())?;
            self.append_keys(array, rows)?;
            if self.open_rows() == GRANULE_ROWS {
                self.seal(scratch)?;
            }
        }
        Ok(())
    }

    /// Seals the open chunk and hands everything over.
    pub(crate) fn finish(mut self, scratch: &mut Scratch) -> Result<StagedNumbers, MemoryError> {
        if self.open_rows() > 0 {
            self.seal(scratch)?;
        }
        Ok(StagedNumbers { chunks: self.chunks, distinct: self.distinct, sketch: self.sketch })
    }

    fn open_rows(&self) -> usize {
        if self.wide { self.open_wide.len() } else { self.open.len() }
    }

    fn append_keys(&mut self, array: &dyn Array, rows: Range<usize>) -> Result<(), MemoryError> {
        if self.physical == Physical::Bool {
            let values = array.as_boolean().values().slice(rows.start, rows.len());
            for (slot, value) in self.open.extend(rows.len())?.iter_mut().zip(values.iter()) {
                *slot = i64::from(value);
            }
            return Ok(());
        }
        let data = array.to_data();
        with_native!(self.physical, N => {
            let values = &native_slice::<N>(&data)[rows];
            if self.physical == Physical::I128 && !self.wide && values.iter().any(|value| value.key().is_none()) {
                self.widen()?;
            }
            if self.wide {
                for (slot, value) in self.open_wide.extend(values.len())?.iter_mut().zip(values) {
                    *slot = value.wide_key();
                }
            } else {
                for (slot, value) in self.open.extend(values.len())?.iter_mut().zip(values) {
                    *slot = value.key().unwrap_or(0);
                }
            }
        });
        Ok(())
    }

    fn widen(&mut self) -> Result<(), MemoryError> {
        let keys = self.open.as_slice();
        for (slot, key) in self.open_wide.extend(keys.len())?.iter_mut().zip(keys) {
            *slot = i128::from(*key);
        }
        self.open.clear();
        self.wide = true;
        Ok(())
    }

    fn seal(&mut self, scratch: &mut Scratch) -> Result<(), MemoryError> {
        let nulls = self.validity.nulls();
        let validity = self.validity.seal();
        let offsets = &mut scratch.offsets;
        let chunk = if self.wide {
            NumberChunk::seal(self.open_wide.as_mut_slice(), nulls, validity, &self.allocator, offsets)?
        } else {
            NumberChunk::seal(self.open.as_mut_slice(), nulls, validity, &self.allocator, offsets)?
        };
        self.open.clear();
        self.open_wide.clear();
        self.wide = false;
        if let Some(distinct) = &mut self.distinct {
            note_distinct(&chunk, scratch, distinct);
            if distinct.len() > DISTINCT_MAX {
                self.distinct = None;
            }
        }
        self.frame = common_frame(self.frame.into_iter().chain(chunk.frame));
        self.chunks.push(chunk);
        let far = self.frame.is_some_and(|frame| !are_near(self.physical, frame));
        if self.distinct.is_none() && far {
            let sketch = self.sketch.get_or_insert_with(Sketch::new);
            for chunk in &self.chunks[self.sketched..] {
                chunk.for_each_key(&mut scratch.offsets, |key| sketch.add_number(key));
            }
            self.sketched = self.chunks.len();
        }
        Ok(())
    }
}

/// Adds the keys of a chunk whose offsets are in `scratch`; stops somewhere beyond [`DISTINCT_MAX`].
fn note_distinct(chunk: &NumberChunk, scratch: &mut Scratch, distinct: &mut HashSet<i128, RandomState>) {
    let Some(frame) = chunk.frame else { return };
    let key_of = |offset: u32| frame.min.wrapping_add(frame.step.wrapping_mul(offset.into()) as i128);
    let mut insert = |key: i128| {
        distinct.insert(key);
        distinct.len() <= DISTINCT_MAX
    };
    match chunk.view() {
        ChunkView::Offsets(bits) if bits <= BITMAP_BITS_MAX => {
            let words = (1usize << bits).div_ceil(64);
            scratch.seen.clear();
            scratch.seen.resize(words, 0);
            for &offset in &scratch.offsets {
                scratch.seen[offset as usize / 64] |= 1 << (offset % 64);
            }
            for (i, &word) in scratch.seen.iter().enumerate() {
                let mut rest = word;
                while rest != 0 {
                    if !insert(key_of(64 * i as u32 + rest.trailing_zeros())) {
                        return;
                    }
                    rest &= rest - 1;
                }
            }
        }
        ChunkView::Offsets(_) => {
            let _all = scratch.offsets.iter().all(|&offset| insert(key_of(offset)));
        }
        ChunkView::Narrow(keys) => {
            let _all = keys.iter().all(|&key| insert(key.into()));
        }
        ChunkView::Wide(keys) => {
            let _all = keys.iter().all(|&key| insert(key));
        }
    }
}
