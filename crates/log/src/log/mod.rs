//! The log of commits: records in the order of their numbers, in files that are made before they are needed.
//!
//! A record gets its place when it is appended, so its order is that of the calls, and it is refused there and then if
//! there is no room. It stays in a buffer until one of those who wait for theirs writes and syncs for all: the
//! *leader*. Who does not wait is covered by the next leader, or by [`Log::flush`].
//!
//! ```text
//! log-0000000000000007:  head (first LSN 41) | frame 41 | frame 42 | frame 43 | zeros, as far as the file was made
//! log-0000000000000008:  head (first LSN 44) | ..
//! ```
//!
//! # Invariants
//! - A file is whole and on the disk, its name too, before a record is written there, and everything in the files
//!   before it is on the disk by then: its head says where the log goes on, whatever is left behind that place in the
//!   file before.
//! - Syncs come one after the other: of two at the same time the system tells only one about an error.
//! - Of what was appended all is in the file but for the buffer, which has the rest without a gap. A leader takes the
//!   buffer along and writes it without the lock; what comes meanwhile lies behind it.
//! - After a failed sync, or a failed write that is no lack of room, nothing is written any more. What a record that
//!   was refused left behind has no end and is overwritten by the next.
//!
//! # Limits
//! Files are not used again, but removed by checkpoints. A record has less than 4 GiB. A file's room is taken when it
//! is made, so the buffer finds it; where a file system has none after all, that ends writing, since others have seen
//! what the buffer has.

mod frame;
mod read;
mod scan;
#[cfg(test)]
mod tests;

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::{Health, OpenError, ReadError, WriteError};
use crate::files::{File, Files, read_exact_at, write_all_at};
use crate::format::{HEAD_BYTES, Head, crc};
use crate::point::Lsn;
use frame::{FrameHead, HEADER_BYTES, Place, frame_bytes};
pub(crate) use read::{LogFile, bounds, chain, read_end};
pub use read::{Record, Replay};

const MAGIC: [u8; 8] = *b"NSIDELOG";
/// The kind of records that say nothing: an orderly end.
const KIND_MARK: u16 = u16::MAX;
/// Longest payload.
const PAYLOAD_BYTES_MAX: u64 = u32::MAX as u64 - 64;
/// Payloads up to this are copied behind their headers into the buffer; a longer one is written there and then.
const COPY_BYTES_MAX: usize = 64 * 1024;

/// How a log is written.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Bytes that a file is made with; a longer record gets a file of its own.
    pub file_bytes: u64,
    /// Bytes of records that wait to be written together at most; with 0 each is written when it is appended.
    pub buffer_bytes: usize,
    /// Microseconds since 1970. Times of records never fall, whatever it says.
    pub clock: fn() -> u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { file_bytes: 16 << 20, buffer_bytes: 1 << 20, clock: system_time_us }
    }
}

fn system_time_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// The log of a folder; see the module.
#[derive(Debug)]
pub struct Log {
    place: LogPlace,
    options: LogOptions,
    health: Arc<Health>,
    state: Mutex<State>,
    /// A sync has ended.
    synced: Condvar,
}

/// Where a log lies.
#[derive(Debug, Clone)]
pub(crate) struct LogPlace {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) path: PathBuf,
    pub(crate) folder: u64,
}

#[derive(Debug)]
struct State {
    file: Arc<dyn File>,
    path: PathBuf,
    number: u64,
    /// Where the next frame begins.
    offset: u64,
    len_bytes: u64,
    next: Lsn,
    /// Everything up to this record is on the disk.
    durable: u64,
    is_syncing: bool,
    /// Syncs that succeeded.
    syncs: u64,
    time_us: u64,
    /// The last frames before `offset`, which are not in the file yet.
    buffer: Vec<u8>,
    /// Memory for the next buffer.
    spare: Vec<u8>,
    /// The files that are there and the first record of each.
    firsts: Vec<(u64, Lsn)>,
}

/// What a backup copies of the log.
#[derive(Debug)]
pub(crate) struct Extent {
    /// Numbers of files and how much of each; `None` is all of it.
    pub(crate) files: Vec<(u64, Option<u64>)>,
    pub(crate) last: Lsn,
}

impl Log {
    /// The first file of a new log.
    ///
    /// # Errors
    /// [`WriteError`].
    pub(crate) fn create(place: &LogPlace, options: &LogOptions, health: &Health) -> Result<(), WriteError> {
        new_file(place, health, 1, Lsn(1), options.file_bytes).map(drop)
    }

    /// Goes on where the log ends: with the files that are there, of which the last was looked through.
    ///
    /// # Errors
    /// [`OpenError`]: it cannot be read or written.
    pub(crate) fn open(
        place: LogPlace,
        options: LogOptions,
        health: Arc<Health>,
        chain: &[LogFile],
        tail: &scan::Tail,
    ) -> Result<Log, OpenError> {
        let last = chain.last().expect("a log has a file");
        let path = place.file(last.number);
        let file: Arc<dyn File> = place.files.open(&path).map_err(|error| ReadError::io(&path, error))?.into();
        let len_bytes = file.len_bytes().map_err(|error| ReadError::io(&path, error))?;
        // What is seen may be in the system's memory only, where a failed sync may have left it for good: written again
        // it is on the disk, or the sync says that it is not.
        let mut seen = vec![0; (tail.offset - tail.unsynced_offset) as usize];
        read_exact_at(&*file, tail.unsynced_offset, &mut seen).map_err(|error| ReadError::io(&path, error))?;
        let written = write_all_at(&*file, tail.unsynced_offset, &seen).and_then(|()| file.sync_data());
        written.map_err(|error| health.stop(&path, "writing the log again", &error))?;
        let state = State {
            file,
            path,
            number: last.number,
            // Behind what a crash left there is room for nothing: the next record goes to another file.
            offset: if tail.is_clean { tail.offset } else { len_bytes },
            len_bytes,
            next: tail.next,
            durable: tail.next.0 - 1,
            is_syncing: false,
            syncs: 0,
            time_us: tail.time_us,
            buffer: Vec::new(),
            spare: Vec::new(),
            firsts: chain.iter().map(|file| (file.number, file.first)).collect(),
        };
        Ok(Log { place, options, health, state: Mutex::new(state), synced: Condvar::new() })
    }

    /// Appends a record, which lasts once [`wait_durable`](Self::wait_durable) says so. `kind` is the caller's, below
    /// `u16::MAX`. Records have the order of these calls.
    ///
    /// # Errors
    /// [`WriteError::Full`], [`WriteError::TooLong`]: this record is not in the log, others may be tried.
    /// [`WriteError::Stopped`].
    pub fn append(&self, kind: u16, payload: &[u8]) -> Result<Lsn, WriteError> {
        assert!(kind != KIND_MARK, "this kind is the log's own");
        self.append_any(kind, payload)
    }

    fn append_any(&self, kind: u16, payload: &[u8]) -> Result<Lsn, WriteError> {
        if payload.len() as u64 > PAYLOAD_BYTES_MAX {
            return Err(WriteError::TooLong { bytes: payload.len() as u64, bytes_max: PAYLOAD_BYTES_MAX });
        }
        let payload_crc = crc(payload);
        let bytes = frame_bytes(payload.len()) as u64;
        let mut guard = self.state.lock();
        self.health.check()?;
        while guard.offset + bytes > guard.len_bytes {
            self.next_file(&mut guard, bytes)?;
        }
        let state = &mut *guard;
        let head = FrameHead {
            lsn: state.next,
            synced: state.durable,
            time_us: (self.options.clock)().max(state.time_us),
            payload_bytes: payload.len() as u32,
            payload_crc,
            kind,
        };
        let place = Place { folder: self.place.folder, file: state.number, offset: state.offset };
        let before = state.buffer.len();
        head.encode(place, &mut state.buffer);
        let written = match payload.len() <= COPY_BYTES_MAX {
            true => {
                state.buffer.extend_from_slice(payload);
                head.tail(&mut state.buffer);
                if state.buffer.len() > self.options.buffer_bytes { state.write_buffer(bytes) } else { Ok(()) }
            }
            false => state.write_long(&head, payload),
        };
        if let Err(error) = written {
            // What others have appended before is still to be written, where there is room for it.
            state.buffer.truncate(before);
            return Err(self.place.failed(&self.health, &state.path, "writing", &error));
        }
        state.offset += bytes;
        state.next = Lsn(head.lsn.0 + 1);
        state.time_us = head.time_us;
        Ok(head.lsn)
    }

    /// Returns when a record is on the disk, and with it all before it. One of those who wait syncs for all.
    ///
    /// # Errors
    /// [`WriteError::Stopped`]: nobody knows whether it is.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), WriteError> {
        let mut state = self.state.lock();
        assert!(lsn < state.next, "record {lsn} was appended");
        while state.durable < lsn.0 {
            self.health.check()?;
            if state.is_syncing {
                self.synced.wait(&mut state);
                continue;
            }
            state.is_syncing = true;
            let (file, path, written) = (Arc::clone(&state.file), state.path.clone(), state.next.0 - 1);
            let spare = mem::take(&mut state.spare);
            let mut buffer = mem::replace(&mut state.buffer, spare);
            let begin = state.offset - buffer.len() as u64;
            let outcome = MutexGuard::unlocked(&mut state, || {
                write_all_at(&*file, begin, &buffer).map_err(|error| ("writing", error))?;
                file.sync_data().map_err(|error| ("syncing", error))
            });
            state.is_syncing = false;
            match outcome {
                Ok(()) => {
                    state.durable = state.durable.max(written);
                    state.syncs += 1;
                }
                Err((what, error)) => {
                    self.health.stop(&path, what, &error);
                }
            }
            buffer.clear();
            state.spare = buffer;
            self.synced.notify_all();
        }
        Ok(())
    }

    /// Returns when everything that was appended is on the disk, and the last record's number (0 for none).
    ///
    /// # Errors
    /// As [`wait_durable`](Self::wait_durable).
    pub fn flush(&self) -> Result<Lsn, WriteError> {
        let last = self.last();
        if last.0 > 0 {
            self.wait_durable(last)?;
        }
        Ok(last)
    }

    /// An orderly end: everything is on the disk, and a mark shows that it was.
    ///
    /// # Errors
    /// As [`append`](Self::append) and [`wait_durable`](Self::wait_durable).
    pub fn close(&self) -> Result<(), WriteError> {
        self.flush()?;
        let mark = self.append_any(KIND_MARK, &[])?;
        self.wait_durable(mark)
    }

    /// The last record that was appended; 0 where there is none.
    pub fn last(&self) -> Lsn {
        Lsn(self.state.lock().next.0 - 1)
    }

    /// The last record that is on the disk; 0 where there is none.
    pub fn durable(&self) -> Lsn {
        Lsn(self.state.lock().durable)
    }

    /// How often records were synced since it was opened.
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// What time it is: never before the last record, and no later record is before it.
    pub(crate) fn now_us(&self) -> u64 {
        let mut state = self.state.lock();
        state.time_us = state.time_us.max((self.options.clock)());
        state.time_us
    }

    /// Bytes that recovery would read at most, from the file on that a record lies in.
    pub fn bytes_since(&self, lsn: Lsn) -> u64 {
        let state = self.state.lock();
        let from = file_of(&state.firsts, lsn);
        let before = state.firsts.iter().filter(|(number, _)| *number >= from && *number < state.number).count() as u64;
        before * self.options.file_bytes + state.offset
    }

    /// The number of the file that a record lies in, or would.
    pub(crate) fn file_of(&self, lsn: Lsn) -> u64 {
        file_of(&self.state.lock().firsts, lsn)
    }

    /// Forgets files before this one, which were removed.
    pub(crate) fn forget_before(&self, number: u64) {
        self.state.lock().firsts.retain(|(file, _)| *file >= number);
    }

    /// Everything from a file on, as it is on the disk now.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub(crate) fn extent(&self, from: u64) -> Result<Extent, WriteError> {
        self.flush()?;
        let mut state = self.state.lock();
        // What was appended meanwhile is copied too: whoever made it durable or not, it is whole.
        while state.is_syncing {
            self.synced.wait(&mut state);
        }
        self.health.check()?;
        let written = state.write_buffer(0);
        written.map_err(|error| self.place.failed(&self.health, &state.path, "writing", &error))?;
        let numbers = state.firsts.iter().map(|(number, _)| *number).filter(|number| *number >= from);
        let files = numbers.map(|number| (number, (number == state.number).then_some(state.offset))).collect();
        Ok(Extent { files, last: Lsn(state.next.0 - 1) })
    }

    /// Makes the next file, with room for a frame of `bytes`; may let others in meanwhile.
    fn next_file(&self, state: &mut MutexGuard<'_, State>, bytes: u64) -> Result<(), WriteError> {
        if state.is_syncing {
            self.synced.wait(state);
            return self.health.check();
        }
        if state.durable < state.next.0 - 1 {
            let written = state.write_buffer(0);
            written.map_err(|error| self.health.stop(&state.path, "writing", &error))?;
            let synced = state.file.sync_data();
            synced.map_err(|error| self.health.stop(&state.path, "syncing", &error))?;
            state.durable = state.next.0 - 1;
            self.synced.notify_all();
        }
        let len_bytes = self.options.file_bytes.max(HEAD_BYTES as u64 + bytes);
        let number = state.number + 1;
        let file = new_file(&self.place, &self.health, number, state.next, len_bytes)?;
        let next = state.next;
        state.firsts.push((number, next));
        state.path = self.place.file(number);
        (state.file, state.number, state.len_bytes) = (file.into(), number, len_bytes);
        state.offset = HEAD_BYTES as u64;
        Ok(())
    }
}

/// Ends a log behind a record, for restoring: files behind it are removed, and the next one begins there.
///
/// # Errors
/// [`WriteError`]; the log is as long as before or ends somewhere behind the record.
pub(crate) fn cut(
    place: &LogPlace,
    options: &LogOptions,
    health: &Health,
    chain: &mut Vec<LogFile>,
    last: Lsn,
) -> Result<(), WriteError> {
    let highest = chain.last().map_or(0, |file| file.number);
    while chain.len() > 1 && chain.last().is_some_and(|file| file.first > last) {
        let file = chain.pop().map_or(0, |file| file.number);
        let path = place.file(file);
        let removed = place.files.remove(&path).and_then(|()| place.files.sync_folder(&place.path));
        removed.map_err(|error| health.stop(&path, "removing", &error))?;
    }
    if let Some(end) = chain.last() {
        // What is before a file is on the disk.
        let path = place.file(end.number);
        let synced = place.files.open(&path).and_then(|file| file.sync_data());
        synced.map_err(|error| health.stop(&path, "syncing", &error))?;
    }
    let next = Lsn(last.0 + 1);
    new_file(place, health, highest + 1, next, options.file_bytes)?;
    chain.push(LogFile { number: highest + 1, first: next });
    Ok(())
}

fn file_of(firsts: &[(u64, Lsn)], lsn: Lsn) -> u64 {
    let before = firsts.iter().rev().find(|(_, first)| *first <= lsn);
    before.or(firsts.first()).map_or(0, |(number, _)| *number)
}

impl State {
    /// Writes what is in the buffer, which ends `ahead` bytes behind `offset`.
    fn write_buffer(&mut self, ahead: u64) -> io::Result<()> {
        let begin = self.offset + ahead - self.buffer.len() as u64;
        write_all_at(&*self.file, begin, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes a record that is too long to be copied, its head in the buffer behind others; its end is written last.
    fn write_long(&mut self, head: &FrameHead, payload: &[u8]) -> io::Result<()> {
        let begin = self.offset + HEADER_BYTES as u64 - self.buffer.len() as u64;
        write_all_at(&*self.file, begin, &self.buffer)?;
        let payload_at = self.offset + HEADER_BYTES as u64;
        write_all_at(&*self.file, payload_at, payload)?;
        let mut end = Vec::new();
        head.tail(&mut end);
        write_all_at(&*self.file, payload_at + payload.len() as u64, &end)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Makes a file of the log, which is on the disk when this returns. It gets its name when it is whole.
fn new_file(
    place: &LogPlace,
    health: &Health,
    number: u64,
    first: Lsn,
    len_bytes: u64,
) -> Result<Box<dyn File>, WriteError> {
    let path = place.file(number);
    let fresh = path.with_extension("new");
    let head = Head { magic: MAGIC, body_crc: 0, folder: place.folder, number, fields: [first.0, len_bytes, 0] };
    let files = &place.files;
    if let Err(error) = files.remove(&fresh)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(health.stop(&fresh, "removing", &error));
    }
    let refused = |what: &str, error: io::Error| {
        // Best effort: whoever opens the folder removes it.
        let _ = files.remove(&fresh);
        place.failed(health, &path, what, &error)
    };
    let file = files.create(&fresh, len_bytes).map_err(|error| refused("making the file", error))?;
    write_all_at(&*file, 0, &head.encode()).map_err(|error| refused("writing", error))?;
    file.sync_data().map_err(|error| health.stop(&path, "syncing", &error))?;
    files.rename(&fresh, &path).map_err(|error| refused("naming the file", error))?;
    files.sync_folder(&place.path).map_err(|error| health.stop(&place.path, "syncing the folder", &error))?;
    Ok(file)
}

impl LogPlace {
    /// The path of a file.
    pub(crate) fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("log-{number:016}"))
    }

    /// The same log in another folder.
    pub(crate) fn elsewhere(&self, path: &Path) -> LogPlace {
        LogPlace { path: path.to_path_buf(), ..self.clone() }
    }

    /// What a failed write means: no room, or the end of writing.
    fn failed(&self, health: &Health, path: &Path, what: &str, error: &io::Error) -> WriteError {
        crate::error::failed(&*self.files, health, path, what, error)
    }
}

pub(crate) use scan::Tail;
