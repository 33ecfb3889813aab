//! Reading the log back.

use std::collections::VecDeque;

use super::frame::Place;
use super::scan::{Frames, Tail, find_end};
use super::{KIND_MARK, LogPlace, Lsn, MAGIC};
use crate::error::ReadError;
use crate::files::{read_exact_at, read_whole};
use crate::format::{HEAD_BYTES, Head};

/// A record as it was appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub lsn: Lsn,
    /// When it was appended, in microseconds since 1970; never less than that of the record before.
    pub time_us: u64,
    /// The caller's.
    pub kind: u16,
    /// The caller's.
    pub payload: Vec<u8>,
}

/// A file of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub(crate) number: u64,
    /// The first record that was to be written there.
    pub(crate) first: Lsn,
}

/// The records from one on, in order; see [`Folder::replay`](crate::Folder::replay). After an error there is none.
#[derive(Debug)]
pub struct Replay {
    place: LogPlace,
    /// What is to be read: each file and the number that it ends before.
    files: VecDeque<(LogFile, Lsn)>,
    from: Lsn,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    file: LogFile,
    bytes: Vec<u8>,
    offset: u64,
    next: Lsn,
    end: Lsn,
}

/// The files of the log from number `from` on, in order.
///
/// # Errors
/// [`ReadError`]: there is none of that number, or the head of one is damaged.
pub(crate) fn chain(place: &LogPlace, from: u64) -> Result<Vec<LogFile>, ReadError> {
    let names = place.files.list(&place.path).map_err(|error| ReadError::io(&place.path, error))?;
    let number = |name: &String| name.strip_prefix("log-")?.parse::<u64>().ok();
    let mut numbers: Vec<u64> = names.iter().filter_map(number).filter(|number| *number >= from).collect();
    numbers.sort_unstable();
    if numbers.first() != Some(&from) {
        let what = "the log goes on there behind the last checkpoint".to_owned();
        return Err(ReadError::Missing { path: place.file(from), what });
    }
    let mut files: Vec<LogFile> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let path = place.file(number);
        let file = place.files.open(&path).map_err(|error| ReadError::io(&path, error))?;
        let len = file.len_bytes().map_err(|error| ReadError::io(&path, error))?;
        let mut head = vec![0; HEAD_BYTES.min(len as usize)];
        read_exact_at(&*file, 0, &mut head).map_err(|error| ReadError::io(&path, error))?;
        let head = Head::decode(&head, &MAGIC, &path)?;
        if head.folder != place.folder || head.number != number {
            return Err(ReadError::damaged(&path, 16, "the file belongs to another folder or has another number"));
        }
        // It got its name when it had its length. Folders of before do not say it.
        if len < head.fields[1] {
            let what = format!("the file is cut off: it has {len} of {} bytes", head.fields[1]);
            return Err(ReadError::damaged(&path, len, what));
        }
        let first = Lsn(head.fields[0]);
        if files.last().is_some_and(|before| before.first > first) {
            return Err(ReadError::damaged(&path, 32, "the file begins before the one before it"));
        }
        files.push(LogFile { number, first });
    }
    Ok(files)
}

/// The bytes of a whole file.
///
/// # Errors
/// [`ReadError::Io`].
fn read_file(place: &LogPlace, number: u64) -> Result<Vec<u8>, ReadError> {
    let path = place.file(number);
    read_whole(&*place.files, &path).map_err(|error| ReadError::io(&path, error))
}

/// Where the log ends, which is in its last file.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn read_end(place: &LogPlace, last: LogFile) -> Result<Tail, ReadError> {
    let bytes = read_file(place, last.number)?;
    find_end(&bytes, place.folder, last.number, last.first).map_err(|offset| {
        let what = "a record that was on the disk is not whole, and others follow it";
        ReadError::damaged(&place.file(last.number), offset, what)
    })
}

/// Each file with the number that it ends before.
pub(crate) fn bounds(chain: &[LogFile], end: Lsn) -> VecDeque<(LogFile, Lsn)> {
    let ends = chain.iter().skip(1).map(|file| file.first).chain([end]);
    chain.iter().copied().zip(ends).collect()
}

impl Replay {
    /// The records from `from` on of these files.
    pub(crate) fn new(place: LogPlace, files: VecDeque<(LogFile, Lsn)>, from: Lsn) -> Replay {
        Replay { place, files, from, current: None }
    }

    fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let Some(current) = &mut self.current else {
                let Some((file, end)) = self.files.pop_front() else { return Ok(None) };
                if end > self.from.max(file.first) {
                    let bytes = read_file(&self.place, file.number)?;
                    let offset = HEAD_BYTES as u64;
                    self.current = Some(Current { file, bytes, offset, next: file.first, end });
                }
                continue;
            };
            if current.next == current.end {
                self.current = None;
                continue;
            }
            let place = Place { folder: self.place.folder, file: current.file.number, offset: current.offset };
            let mut frames = Frames::from(&current.bytes, place, current.next);
            let Some((head, payload)) = frames.next_frame() else {
                let what = format!("record {} is not whole, and the log goes on behind it", current.next);
                return Err(ReadError::damaged(&self.place.file(current.file.number), current.offset, what));
            };
            (current.offset, current.next) = (frames.offset(), frames.next_lsn());
            if head.kind != KIND_MARK && head.lsn >= self.from {
                let payload = payload.to_vec();
                return Ok(Some(Record { lsn: head.lsn, time_us: head.time_us, kind: head.kind, payload }));
            }
        }
    }
}

impl Iterator for Replay {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_record();
        if next.is_err() {
            self.files.clear();
            self.current = None;
        }
        next.transpose()
    }
}
