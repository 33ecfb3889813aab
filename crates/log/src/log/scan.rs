//! Where the log ends: looking through the last file, as a pure function of its bytes.
//!
//! Frames that were written since the last sync may have reached the disk in any order, so behind the end there may be
//! whole ones that nobody was told about. A frame says what was on the disk before it was written: one that says so of
//! the place where the log breaks off shows that something was there, and is damaged.
//!
//! # Limits
//! Damage to what was written since the last sync cannot be told from a crash. [`Log::close`](super::Log::close)
//! writes a last record, so that after an orderly end that is the mark alone.

use super::Lsn;
use super::frame::{ALIGN_BYTES, FrameHead, HEADER_BYTES, Place, frame_bytes};
use crate::format::HEAD_BYTES;

/// Looks at the frames of one file, one after the other.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    bytes: &'a [u8],
    place: Place,
    next: Lsn,
}

/// The last file as it was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The next record's number.
    pub(crate) next: Lsn,
    /// Where it would be written.
    pub(crate) offset: u64,
    /// Where the first frame begins of which nobody knows whether it is on the disk, or is only seen there.
    pub(crate) unsynced_offset: u64,
    /// Whether nothing is behind the end.
    pub(crate) is_clean: bool,
    /// When the last record was written; 0 where there is none.
    pub(crate) time_us: u64,
}

impl<'a> Frames<'a> {
    /// The frames of a file whose first record has this number.
    pub(crate) fn new(bytes: &'a [u8], folder: u64, file: u64, first: Lsn) -> Frames<'a> {
        Frames::from(bytes, Place { folder, file, offset: HEAD_BYTES as u64 }, first)
    }

    /// The frames from a place on, where a record of this number is.
    pub(crate) fn from(bytes: &'a [u8], place: Place, next: Lsn) -> Frames<'a> {
        Frames { bytes, place, next }
    }

    /// Where the next frame begins.
    pub(crate) fn offset(&self) -> u64 {
        self.place.offset
    }

    /// The number that it must have.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// The next record; nothing where there is no whole one.
    pub(crate) fn next_frame(&mut self) -> Option<(FrameHead, &'a [u8])> {
        let rest = self.bytes.get(self.place.offset as usize..)?;
        let head = FrameHead::decode(rest, self.place).filter(|head| head.lsn == self.next)?;
        let payload = head.payload(rest)?;
        self.place.offset += frame_bytes(payload.len()) as u64;
        self.next = Lsn(self.next.0 + 1);
        Some((head, payload))
    }
}

/// Looks for the end of the log in its last file.
///
/// # Errors
/// The offset at which a record is damaged that was on the disk.
pub(crate) fn find_end(bytes: &[u8], folder: u64, file: u64, first: Lsn) -> Result<Tail, u64> {
    let mut frames = Frames::new(bytes, folder, file, first);
    let mut begins = Vec::new();
    let (mut synced, mut time_us) = (0, 0);
    loop {
        let offset = frames.offset();
        let Some((head, _)) = frames.next_frame() else { break };
        begins.push((head.lsn, offset));
        synced = synced.max(head.synced);
        time_us = head.time_us;
    }
    let (next, offset) = (frames.next_lsn(), frames.offset());
    let rest = bytes.get(offset as usize..).unwrap_or_default();
    let was_there = |at: usize| {
        let place = Place { folder, file, offset: offset + at as u64 };
        FrameHead::decode(&rest[at..], place).is_some_and(|head| head.synced >= next.0)
    };
    let is_clean = rest.iter().all(|byte| *byte == 0);
    if !is_clean && (0..rest.len().saturating_sub(HEADER_BYTES)).step_by(ALIGN_BYTES).any(was_there) {
        return Err(offset);
    }
    let unsynced = begins.iter().find(|(lsn, _)| lsn.0 > synced).map_or(offset, |(_, begin)| *begin);
    Ok(Tail { next, offset, unsynced_offset: unsynced, is_clean, time_us })
}
