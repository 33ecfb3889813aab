//! What all files have in common: numbers are little-endian, a file begins with a head of 64 bytes, and whatever is
//! read is told by a checksum first.
//!
//! The checksum is CRC-32 as in zip and PNG (polynomial 0xEDB88320).

use std::path::Path;

pub(crate) use storage::persist::{Reader, Writer};

use crate::error::ReadError;

/// Bytes of a file's head.
pub(crate) const HEAD_BYTES: usize = 64;
/// The version that is written and read.
pub(crate) const VERSION: u32 = 1;

/// The head of a file.
///
/// ```text
///  0  magic, 8 bytes | 8 version u32 | 12 CRC of the body u32 | 16 folder u64 | 24 number u64
/// 32  a u64 | 40 b u64 | 48 c u64 | 56 0 u32 | 60 CRC of bytes 0..60 u32
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) magic: [u8; 8],
    /// Checksum of what follows, as far as the kind of file has one.
    pub(crate) body_crc: u32,
    /// The number of the folder that the file belongs to.
    pub(crate) folder: u64,
    /// The file's own.
    pub(crate) number: u64,
    /// What the kind of file says in three numbers.
    pub(crate) fields: [u64; 3],
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = Writer::default();
        out.bytes(&self.magic);
        out.u32(VERSION);
        out.u32(self.body_crc);
        out.u64(self.folder);
        out.u64(self.number);
        self.fields.iter().for_each(|field| out.u64(*field));
        out.u32(0);
        out.u32(crc(&out.0));
        out.0.try_into().expect("the fields have 64 bytes")
    }

    /// Reads the head of the file at `path`, which must be of this kind.
    ///
    /// # Errors
    /// [`ReadError::Damaged`], [`ReadError::Version`].
    pub(crate) fn decode(bytes: &[u8], magic: &[u8; 8], path: &Path) -> Result<Head, ReadError> {
        let mut reader = Reader::new(bytes);
        let mut field = || {
            let found: [u8; 8] = reader.take(8)?.try_into().ok()?;
            let (version, body_crc, folder, number) = (reader.u32()?, reader.u32()?, reader.u64()?, reader.u64()?);
            let fields = [reader.u64()?, reader.u64()?, reader.u64()?];
            reader.u32()?;
            Some((version, reader.u32()?, Head { magic: found, body_crc, folder, number, fields }))
        };
        let Some((version, stored, head)) = field() else {
            return Err(ReadError::damaged(path, bytes.len() as u64, "the file ends within its head"));
        };
        if head.magic != *magic {
            return Err(ReadError::damaged(path, 0, "the head does not begin as that of such a file"));
        }
        if crc(&bytes[..HEAD_BYTES - 4]) != stored {
            return Err(ReadError::damaged(path, 0, "the head does not match its checksum"));
        }
        if version != VERSION {
            return Err(ReadError::Version { path: path.to_path_buf(), found: version, supported: VERSION });
        }
        Ok(head)
    }
}

/// The checksum of bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}
