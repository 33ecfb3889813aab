//! A sealed chunk of staged numbers: offsets from the smallest one in steps, bit-packed, or the keys where that does
//! not fit 32 bits.
//!
//! # Invariants
//! A chunk has at most a granule's rows. A NULL's slot holds the smallest key, so no reader has to step around it.

use std::ops::Range;

use numa::{Allocator, MemoryError, Region};

use crate::kernels::pack::pack;
use crate::kernels::unpack::unpack;
use crate::kernels::{bits_for, words_for};
use crate::region_vec::words_of;

/// Rows of a number column, or the ids of a string column's.
#[derive(Debug)]
pub(crate) struct NumberChunk {
    pub(crate) rows: usize,
    pub(crate) nulls: usize,
    validity: Option<Region>,
    /// What the valid rows have in common; `None` where there is none.
    pub(crate) frame: Option<Frame>,
    data: ChunkData,
}

/// Smallest and largest key, and a step that divides every key's distance from the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) min: i128,
    pub(crate) max: i128,
    pub(crate) step: u128,
}

impl Frame {
    /// Distance of the largest key from the smallest.
    pub(crate) fn span(self) -> u128 {
        self.max.wrapping_sub(self.min) as u128
    }
}

/// The frame of all chunks: the step divides every key's distance from the smallest.
pub(crate) fn common_frame(frames: impl Iterator<Item = Frame> + Clone) -> Option<Frame> {
    let min = frames.clone().map(|frame| frame.min).min()?;
    let max = frames.clone().map(|frame| frame.max).max()?;
    let mut step = 0;
    for frame in frames {
        step = gcd(step, frame.min.wrapping_sub(min) as u128);
        if frame.span() > 0 {
            step = gcd(step, frame.step);
        }
    }
    Some(Frame { min, max, step: step.max(1) })
}

/// How the keys are kept.
#[derive(Debug)]
pub(crate) enum ChunkData {
    /// `(key - min) / step`.
    Packed { bits: u8, codes: Option<Region> },
    /// The keys, 64 bits each.
    Narrow(Region),
    /// The keys, 128 bits each.
    Wide(Region),
}

/// How the rows of a chunk can be read.
pub(crate) enum ChunkView<'a> {
    /// Unpack the offsets of this many bits, see [`NumberChunk::offsets`].
    Offsets(u8),
    /// Every key.
    Narrow(&'a [i64]),
    /// Every key.
    Wide(&'a [i128]),
}

/// A key as it is staged.
pub(crate) trait Key: Copy + Ord + numa::Word {
    fn wide(self) -> i128;
    /// Greatest common divisor of the distances from `min`; 0 where all are 0.
    fn common_step(keys: &[Self], min: Self) -> u128;
    /// Replaces `out` with `(key - min) / step`, which fits 32 bits.
    fn offsets(keys: &[Self], min: Self, step: u128, out: &mut Vec<u32>);
    /// The data of a chunk whose keys are kept as they are.
    fn kept(region: Region) -> ChunkData;
}

macro_rules! key {
    ($key:ty, $distance:ty, $data:ident) => {
        impl Key for $key {
            fn wide(self) -> i128 {
                i128::from(self)
            }

            fn common_step(keys: &[Self], min: Self) -> u128 {
                let mut step: $distance = 0;
                for key in keys {
                    let distance = key.wrapping_sub(min) as $distance;
                    if distance != step && (step == 0 || distance % step != 0) {
                        step = gcd(step.into(), distance.into()) as $distance;
                        if step == 1 {
                            break;
                        }
                    }
                }
                step.into()
            }

            fn offsets(keys: &[Self], min: Self, step: u128, out: &mut Vec<u32>) {
                out.clear();
                let distances = keys.iter().map(|key| key.wrapping_sub(min) as $distance);
                match step as $distance {
                    1 => out.extend(distances.map(|distance| distance as u32)),
                    step => out.extend(distances.map(|distance| (distance / step) as u32)),
                }
            }

            fn kept(region: Region) -> ChunkData {
                ChunkData::$data(region)
            }
        }
    };
}
key!(i64, u64, Narrow);
key!(i128, u128, Wide);

/// Greatest common divisor; that of 0 and `a` is `a`.
pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        if a <= u128::from(u64::MAX) && b <= u128::from(u64::MAX) {
            let mut x = a as u64;
            let mut y = b as u64;
            while y != 0 {
                (x, y) = (y, x % y);
            }
            return x.into();
        }
        (a, b) = (b, a % b);
    }
    a
}

impl NumberChunk {
    /// Seals `keys`, in which NULLs' slots may hold anything and are overwritten. `validity` has a bit for each row
    /// where `nulls` is not 0. `offsets` is left holding what was packed, and empty where nothing was.
    pub(crate) fn seal<K: Key>(
        keys: &mut [K],
        nulls: usize,
        validity: Option<Region>,
        allocator: &Allocator,
        offsets: &mut Vec<u32>,
    ) -> Result<NumberChunk, MemoryError> {
        let rows = keys.len();
        offsets.clear();
        let bits = validity.as_ref().map(|region| region.words::<u64>());
        let Some((min, max)) = bounds(keys, bits) else {
            let data = ChunkData::Packed { bits: 0, codes: None };
            return Ok(NumberChunk { rows, nulls, validity, frame: None, data });
        };
        if let Some(bits) = bits {
            for (i, key) in keys.iter_mut().enumerate() {
                if bits[i / 64] >> (i % 64) & 1 == 0 {
                    *key = min;
                }
            }
        }
        let step = K::common_step(keys, min).max(1);
        let frame = Frame { min: min.wide(), max: max.wide(), step };
        let data = match u32::try_from(frame.span() / step) {
            Ok(highest) => {
                K::offsets(keys, min, step, offsets);
                packed(offsets, highest, allocator)?
            }
            Err(_) => {
                let mut region = allocator.region(std::mem::size_of_val(keys))?;
                region.words_mut::<K>().copy_from_slice(keys);
                K::kept(region)
            }
        };
        Ok(NumberChunk { rows, nulls, validity, frame: Some(frame), data })
    }

    /// Seals ids, of which every NULL's is 0.
    pub(crate) fn seal_ids(
        ids: &[u32],
        nulls: usize,
        validity: Option<Region>,
        allocator: &Allocator,
    ) -> Result<NumberChunk, MemoryError> {
        let highest = ids.iter().copied().max().unwrap_or(0);
        let data = packed(ids, highest, allocator)?;
        let frame = (nulls < ids.len()).then_some(Frame { min: 0, max: highest.into(), step: 1 });
        Ok(NumberChunk { rows: ids.len(), nulls, validity, frame, data })
    }

    /// How to read the keys.
    pub(crate) fn view(&self) -> ChunkView<'_> {
        match &self.data {
            ChunkData::Packed { bits, .. } => ChunkView::Offsets(*bits),
            ChunkData::Narrow(region) => ChunkView::Narrow(region.words()),
            ChunkData::Wide(region) => ChunkView::Wide(region.words()),
        }
    }

    /// Appends the offsets of `rows` to `out`; the chunk has some.
    pub(crate) fn offsets(&self, rows: Range<usize>, out: &mut Vec<u32>) {
        match &self.data {
            ChunkData::Packed { bits, codes } => {
                unpack(words_of(codes.as_ref(), words_for(self.rows, *bits)), *bits, rows, out);
            }
            _ => unreachable!("only packed chunks have offsets"),
        }
    }

    /// Calls `body` with the key of every row, those of NULLs' slots too. `room` is for the chunk's offsets.
    pub(crate) fn for_each_key(&self, room: &mut Vec<u32>, mut body: impl FnMut(i128)) {
        let Some(frame) = self.frame else { return };
        match self.view() {
            ChunkView::Offsets(_) => {
                room.clear();
                self.offsets(0..self.rows, room);
                let key_of = |offset: u32| frame.min.wrapping_add(frame.step.wrapping_mul(offset.into()) as i128);
                room.iter().for_each(|&offset| body(key_of(offset)));
            }
            ChunkView::Narrow(keys) => keys[..self.rows].iter().for_each(|&key| body(key.into())),
            ChunkView::Wide(keys) => keys[..self.rows].iter().for_each(|&key| body(key)),
        }
    }

    /// Whether the row is not NULL.
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.as_ref().is_none_or(|bits| bits.words::<u64>()[row / 64] >> (row % 64) & 1 == 1)
    }
}

fn packed(offsets: &[u32], highest: u32, allocator: &Allocator) -> Result<ChunkData, MemoryError> {
    let bits = bits_for(highest);
    let mut codes = None;
    if bits > 0 {
        let mut region = allocator.region(4 * words_for(offsets.len(), bits))?;
        pack(offsets, bits, region.words_mut());
        codes = Some(region);
    }
    Ok(ChunkData::Packed { bits, codes })
}

/// Smallest and largest of the valid keys.
fn bounds<K: Key>(keys: &[K], validity: Option<&[u64]>) -> Option<(K, K)> {
    match validity {
        None => {
            let first = *keys.first()?;
            Some(keys.iter().fold((first, first), |(min, max), &key| (min.min(key), max.max(key))))
        }
        Some(bits) => {
            let valid = |i: &usize| bits[i / 64] >> (i % 64) & 1 == 1;
            (0..keys.len()).filter(valid).fold(None, |known, i| match known {
                None => Some((keys[i], keys[i])),
                Some((min, max)) => Some((keys[i].min(min), keys[i].max(max))),
            })
        }
    }
}
