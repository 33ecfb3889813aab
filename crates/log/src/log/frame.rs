//! Records as bytes: frames one behind the other.
//!
//! ```text
//!  0  magic u32 | 4 CRC of the place and of bytes 8..48 u32
//!  8  LSN u64 | 16 LSN up to which all was synced when this was written u64 | 24 time, microseconds since 1970 u64
//! 32  length of the payload u32 | 36 its CRC u32 | 40 kind u16 | 42 six bytes 0
//! 48  payload, with zeros up to a multiple of 8
//!  .  LSN, inverted u64
//! ```
//! # Invariants
//! - The place (folder, file, offset) is part of the checksum: the bytes of a frame elsewhere, as part of a payload or
//!   left over from another file, are no frame.
//! - The last word of a frame is never 0 where the file was, and is written last: a beginning of a frame is none.

use super::Lsn;
use crate::format::{Reader, Writer, crc};

const MAGIC: u32 = u32::from_le_bytes(*b"NSfr");
/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 48;
/// Bytes behind it.
const TRAILER_BYTES: usize = 8;
/// Frames begin at multiples of this.
pub(crate) const ALIGN_BYTES: usize = 8;

const _: () = assert!(HEADER_BYTES.is_multiple_of(ALIGN_BYTES) && TRAILER_BYTES == ALIGN_BYTES);

/// Where a frame lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) folder: u64,
    pub(crate) file: u64,
    pub(crate) offset: u64,
}

/// What stands before a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) lsn: Lsn,
    /// Every record up to this one was on the disk before this one was written.
    pub(crate) synced: u64,
    pub(crate) time_us: u64,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_crc: u32,
    pub(crate) kind: u16,
}

/// Bytes of the frame of a payload.
pub(crate) fn frame_bytes(payload_bytes: usize) -> usize {
    HEADER_BYTES + payload_bytes.next_multiple_of(ALIGN_BYTES) + TRAILER_BYTES
}

fn crc_of(place: Place, rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [place.folder, place.file, place.offset] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(rest);
    hasher.finalize()
}

impl FrameHead {
    /// Appends the frame's header.
    pub(crate) fn encode(&self, place: Place, out: &mut Vec<u8>) {
        let mut rest = Writer::default();
        rest.u64(self.lsn.0);
        rest.u64(self.synced);
        rest.u64(self.time_us);
        rest.u32(self.payload_bytes);
        rest.u32(self.payload_crc);
        rest.u64(u64::from(self.kind));
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&crc_of(place, &rest.0).to_le_bytes());
        out.extend_from_slice(&rest.0);
    }

    /// The header at this place, if one is there.
    pub(crate) fn decode(bytes: &[u8], place: Place) -> Option<FrameHead> {
        let mut reader = Reader::new(bytes.get(..HEADER_BYTES)?);
        if reader.u32()? != MAGIC || reader.u32()? != crc_of(place, &bytes[8..HEADER_BYTES]) {
            return None;
        }
        let (lsn, synced, time_us) = (Lsn(reader.u64()?), reader.u64()?, reader.u64()?);
        let (payload_bytes, payload_crc) = (reader.u32()?, reader.u32()?);
        let kind = u16::try_from(reader.u64()?).ok()?;
        Some(FrameHead { lsn, synced, time_us, payload_bytes, payload_crc, kind })
    }

    /// What follows the payload: its padding and the end of the frame.
    pub(crate) fn tail(&self, out: &mut Vec<u8>) {
        let payload_bytes = self.payload_bytes as usize;
        out.resize(out.len() + payload_bytes.next_multiple_of(ALIGN_BYTES) - payload_bytes, 0);
        out.extend_from_slice(&(!self.lsn.0).to_le_bytes());
    }

    /// The payload, if the whole frame is there, unharmed: `bytes` begin with it.
    pub(crate) fn payload<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let frame = bytes.get(..frame_bytes(self.payload_bytes as usize))?;
        let payload = &frame[HEADER_BYTES..HEADER_BYTES + self.payload_bytes as usize];
        let mut tail = Vec::with_capacity(2 * ALIGN_BYTES);
        self.tail(&mut tail);
        (frame.ends_with(&tail) && crc(payload) == self.payload_crc).then_some(payload)
    }
}
