//! Columns and dictionaries as bytes, and back: what files of segments are made of.
//!
//! Either is a *head*, which says what it is, and *blobs*, the bytes of its regions as they lie in memory. Whoever
//! keeps them adds where they are and checksums; `docs/design/files-on-disk.md` draws both. Reading asks a
//! [`BlobSource`] for blobs one by one and has them put where they stay: into regions of the caller's allocator.
//!
//! # Invariants
//! - What is read is the same, bit for bit, but for its numbers ([`ColumnId`](crate::ColumnId)), its indexes and where
//!   it lies.
//! - Nothing is allocated by a length that a head claims: blobs are as long as their source says they are.
//! - Whatever the bytes are, reading returns: what columns rely on for the soundness of what they do (text is UTF-8,
//!   views and offsets lie within their bytes) is looked at, not believed.
//!
//! # Limits
//! Little-endian machines. That codes are vids of the dictionary is believed: checksums are for that, and a code that
//! is none panics when it is read. Indexes are not kept: they are built again.

mod bytes;
mod deleted;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::borrow::Cow;
use std::error::Error;

pub use bytes::{Reader, Writer};
pub use deleted::{deleted_from_bytes, deleted_to_bytes};
pub use read::{read_column, read_dictionary};
pub use write::{write_column, write_dictionary};

use crate::error::StoreError;

const _: () = assert!(cfg!(target_endian = "little"), "regions are written as they lie in memory");

/// Something stored as bytes.
#[derive(Debug)]
pub struct Written<'a> {
    /// What it is.
    pub head: Vec<u8>,
    /// Its regions.
    pub blobs: Vec<Cow<'a, [u8]>>,
}

/// Where the blobs of one column or dictionary come from.
pub trait BlobSource {
    /// How long a blob is; `None` where there is none.
    fn len_bytes(&self, blob: usize) -> Option<usize>;

    /// Fills `into`, which is as long as the blob, with its bytes, after which it is known that they are those that
    /// were written.
    ///
    /// # Errors
    /// Whatever keeps it from that; [`ReadBackError::Source`] hands it on.
    fn read(&self, blob: usize, into: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Why bytes could not be brought back into memory.
#[derive(Debug, thiserror::Error)]
pub enum ReadBackError {
    /// They are not what was written.
    #[error("{0}")]
    Malformed(String),
    /// Their source failed.
    #[error(transparent)]
    Source(Box<dyn Error + Send + Sync>),
    /// There is no memory, or the caller's threads stopped.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Tells whether the bytes of a type are what was written, which arrow takes on trust (FNV-1a).
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How a column is kept, as its head begins.
const CODED: u8 = 1;
const PLAIN: u8 = 2;
/// How a dictionary is.
const AFFINE: u8 = 1;
const FIXED: u8 = 2;
const STRINGS: u8 = 3;
/// How the data of a plain column's piece are.
const DATA_FIXED: u8 = 1;
const DATA_BYTES: u8 = 2;
const DATA_ARRAY: u8 = 3;
