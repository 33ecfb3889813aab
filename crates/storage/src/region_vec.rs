//! A growing vector whose memory is a region: what staging appends to.
//!
//! # Invariants
//! Nothing is allocated before the first element. The region doubles as it grows and is cut to what is used when it is
//! taken over, so the slack lives only while a producer runs.

use std::marker::PhantomData;
use std::mem::size_of;

use numa::{Allocator, MemoryError, Region, Word};

const FIRST_BYTES: usize = 4096;

/// A growing vector of `T` in a region.
pub(crate) struct RegionVec<T: Word> {
    allocator: Allocator,
    region: Option<Region>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Word> RegionVec<T> {
    /// An empty vector that allocates from `allocator`.
    pub(crate) fn new(allocator: &Allocator) -> Self {
        RegionVec { allocator: allocator.clone(), region: None, len: 0, element: PhantomData }
    }

    /// Makes room for `additional` more elements.
    pub(crate) fn reserve(&mut self, additional: usize) -> Result<(), MemoryError> {
        let needed = self.len + additional;
        let capacity = self.region.as_ref().map_or(0, |r| r.len() / size_of::<T>());
        if needed <= capacity {
            return Ok(());
        }
        let elements = needed.max(capacity * 2).max(FIRST_BYTES / size_of::<T>());
        let mut grown = self.allocator.region(elements * size_of::<T>())?;
        grown.words_mut::<T>()[..self.len].copy_from_slice(self.as_slice());
        self.region = Some(grown);
        Ok(())
    }

    /// Appends `additional` elements (zeros, or what lay there before a `clear`) and returns them to be written.
    pub(crate) fn extend(&mut self, additional: usize) -> Result<&mut [T], MemoryError> {
        self.reserve(additional)?;
        let from = self.len;
        self.len += additional;
        let len = self.len;
        match &mut self.region {
            Some(region) => Ok(&mut region.words_mut::<T>()[from..len]),
            None => Ok(&mut []),
        }
    }

    pub(crate) fn push(&mut self, value: T) -> Result<(), MemoryError> {
        self.extend(1)?[0] = value;
        Ok(())
    }

    pub(crate) fn extend_from_slice(&mut self, values: &[T]) -> Result<(), MemoryError> {
        self.extend(values.len())?.copy_from_slice(values);
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        match &self.region {
            Some(region) => &region.words::<T>()[..self.len],
            None => &[],
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        let len = self.len;
        match &mut self.region {
            Some(region) => &mut region.words_mut::<T>()[..len],
            None => &mut [],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Forgets the elements, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Gives the memory behind the last element back.
    pub(crate) fn shrink(&mut self) {
        if self.len == 0 {
            self.region = None;
        } else if let Some(region) = &mut self.region {
            region.shrink(self.len * size_of::<T>());
        }
    }

    /// The elements as a region of exactly their bytes, `None` where there are none; the vector is empty afterwards.
    pub(crate) fn take(&mut self) -> Option<Region> {
        let bytes = self.len * size_of::<T>();
        self.len = 0;
        let mut region = self.region.take()?;
        if bytes == 0 {
            return None;
        }
        region.shrink(bytes);
        Some(region)
    }
}

impl<T: Word> std::fmt::Debug for RegionVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RegionVec(len {})", self.len)
    }
}

/// The first `len` words of a region that may be absent because it would be empty.
pub(crate) fn words_of<T: Word>(region: Option<&Region>, len: usize) -> &[T] {
    match region {
        Some(region) => &region.words::<T>()[..len],
        None => &[],
    }
}
