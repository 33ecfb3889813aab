//! Commands that read, as words in outgoing and incoming buffers.
//!
//! | word | |
//! |---|---|
//! | 0 | object (32 bits), words of data (32) |
//! | 1 | kind (2 bits), number of the request (32) |
//! | 2 | number of the routing table that chose the unit |
//! | 3 | tag: what the sender knows the command by |
//! | 4 .. | keys of a look-up; first key, last key and the most pairs of a scan |
//!
//! Source: Kissinger et al., ADMS 2014, section 3.2 (data commands).

use crate::primitive::{AtomicU64, Ordering};
use crate::request::ObjectId;

/// Words before the data.
pub(crate) const HEAD_WORDS: usize = 4;
/// Words of the data of a scan.
pub(crate) const SCAN_WORDS: usize = 3;

const KIND_SHIFT: u32 = 62;

/// What a command is to do; a command that writes has 0 in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadKind {
    /// Tell the values of keys.
    LookUp,
    /// Tell the pairs of a range.
    Scan,
    /// Nothing: what routing alone costs is measured so.
    Nothing,
}

/// A command before its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: ReadKind,
    pub(crate) object: ObjectId,
    pub(crate) request: u32,
    pub(crate) table: u64,
    pub(crate) tag: u64,
}

/// Whether the second word is that of a command that reads.
pub(crate) fn is_read(word: u64) -> bool {
    word >> KIND_SHIFT != 0
}

impl Head {
    /// The words before `len` words of data.
    pub(crate) fn words(&self, len: usize) -> [u64; HEAD_WORDS] {
        let kind = match self.kind {
            ReadKind::LookUp => 1,
            ReadKind::Scan => 2,
            ReadKind::Nothing => 3,
        };
        let object = u64::from(self.object.0) << 32 | len as u64;
        [object, kind << KIND_SHIFT | u64::from(self.request), self.table, self.tag]
    }

    /// The head of the command at the start of `words`, and how many words of data follow it.
    pub(crate) fn of(words: [u64; HEAD_WORDS]) -> (Head, usize) {
        let [object, kind, table, tag] = words;
        let head = Head {
            kind: match kind >> KIND_SHIFT {
                1 => ReadKind::LookUp,
                2 => ReadKind::Scan,
                _ => ReadKind::Nothing,
            },
            object: ObjectId((object >> 32) as u32),
            request: kind as u32,
            table,
            tag,
        };
        (head, object as u32 as usize)
    }

    /// As [`of`](Self::of), of words of an incoming buffer.
    pub(crate) fn read(words: &[AtomicU64]) -> (Head, usize) {
        Head::of(std::array::from_fn(|word| words[word].load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for kind in [ReadKind::LookUp, ReadKind::Scan, ReadKind::Nothing] {
            let head = Head { kind, object: ObjectId(u32::MAX), request: u32::MAX - 1, table: 1 << 60, tag: u64::MAX };
            let words = head.words(u32::MAX as usize);
            assert_eq!(Head::of(words), (head, u32::MAX as usize));
            assert!(is_read(words[1]));
        }
        assert!(!is_read(u64::from(u32::MAX)));
    }
}
