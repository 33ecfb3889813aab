//! Bytes of text files: decompression, counting for progress, and a buffer that keeps line numbers right.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{FileError, FileErrorKind};
use crate::format::Compression;
use crate::producer::Progress;

/// How much is asked of the system at a time.
const READ_BYTES: usize = 1 << 20;
/// The longest record; beyond it a quote was most likely left open.
pub(crate) const RECORD_BYTES_MAX: usize = 256 << 20;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A text file, or a range of the bytes of an uncompressed one.
#[derive(Debug, Clone)]
pub(crate) struct TextSource {
    pub path: PathBuf,
    pub compression: Compression,
    /// Bytes of an uncompressed file; `None` is all.
    pub range: Option<Range<u64>>,
}

impl TextSource {
    /// Opens it for reading from its start; `progress` hears of bytes as they stand in the file.
    pub(crate) fn open(&self, progress: Option<Progress>) -> Result<TextBuffer, FileError> {
        let fail = |e: io::Error| FileError::reading(&self.path, &e);
        let mut file = File::open(&self.path).map_err(fail)?;
        let file_bytes = file.metadata().map_err(fail)?.len();
        let mut limit = u64::MAX;
        if let Some(range) = &self.range {
            file.seek(SeekFrom::Start(range.start)).map_err(fail)?;
            limit = range.end - range.start;
        }
        let raw = CountedFile { file: file.take(limit), progress };
        let reader: Box<dyn Read + Send> = match self.compression {
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(raw)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(raw).map_err(fail)?),
            _ => Box::new(raw),
        };
        let expected = match (&self.range, self.compression) {
            (Some(range), _) => range.end - range.start,
            (None, Compression::None) => file_bytes,
            // A guess at what the text comes to.
            (None, _) => file_bytes.saturating_mul(8),
        };
        // One more than there is, so that the end is seen without growing the buffer.
        let read_bytes = usize::try_from(expected).unwrap_or(READ_BYTES).saturating_add(1).clamp(64, READ_BYTES);
        let first_line = match &self.range {
            Some(range) if range.start > 0 => None,
            _ => Some(1),
        };
        let mut buffer = TextBuffer {
            source: self.clone(),
            reader,
            data: Vec::new(),
            start: 0,
            end: 0,
            ended: false,
            read_bytes,
            bom_bytes: 0,
            first_line,
            lines_before: 0,
        };
        if first_line.is_some() {
            buffer.skip_bom()?;
        }
        Ok(buffer)
    }
}

/// A window over a text that moves forward; offsets are relative to what is not yet consumed.
pub(crate) struct TextBuffer {
    source: TextSource,
    reader: Box<dyn Read + Send>,
    data: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// How much to read at a time.
    read_bytes: usize,
    bom_bytes: usize,
    /// The line of the source's first byte, or `None` for a range whose line is found when an error needs it.
    first_line: Option<u64>,
    /// Line ends consumed so far.
    lines_before: u64,
}

impl TextBuffer {
    pub(crate) fn path(&self) -> &Path {
        &self.source.path
    }

    /// What is buffered and not yet consumed.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// The length of the byte order mark that was skipped.
    pub(crate) fn bom_bytes(&self) -> usize {
        self.bom_bytes
    }

    /// Whether nothing follows what is pending.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Reads more; pending bytes keep their relative offsets.
    pub(crate) fn fill(&mut self) -> Result<(), FileError> {
        if self.ended {
            return Ok(());
        }
        if self.start > 0 && (self.start == self.end || self.start >= self.read_bytes) {
            self.data.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let wanted = self.end + self.read_bytes.max((self.end - self.start) / 2);
        if self.data.len() < wanted {
            self.data.resize(wanted, 0);
        }
        while self.end < wanted {
            match self.reader.read(&mut self.data[self.end..wanted]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(());
                }
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(FileError::reading(&self.source.path, &e)),
            }
        }
        Ok(())
    }

    /// Moves past `bytes` pending ones.
    pub(crate) fn consume(&mut self, bytes: usize) {
        debug_assert!(self.start + bytes <= self.end);
        self.lines_before += count_lines(&self.data[self.start..self.start + bytes]);
        self.start += bytes;
    }

    /// The line, from 1, on which the pending byte at `offset` stands. Reads the file's beginning when this is a range
    /// of it, which only an error does.
    fn line_at(&mut self, offset: usize) -> u64 {
        let first = match self.first_line {
            Some(line) => line,
            None => {
                let start = self.source.range.as_ref().map_or(0, |r| r.start);
                let line = 1 + count_lines_of_file(&self.source.path, start).unwrap_or(0);
                *self.first_line.insert(line)
            }
        };
        first + self.lines_before + count_lines(&self.pending()[..offset])
    }

    /// An error about the pending byte at `offset`.
    pub(crate) fn error_at(&mut self, offset: usize, kind: FileErrorKind, message: impl Into<String>) -> FileError {
        let line = self.line_at(offset);
        FileError::new(kind, message).at(&self.source.path).line(line)
    }

    /// The pending bytes before `end` as text.
    pub(crate) fn check_utf8(&mut self, end: usize) -> Result<(), FileError> {
        match std::str::from_utf8(&self.pending()[..end]) {
            Ok(_) => Ok(()),
            Err(e) => {
                let byte = self.pending()[e.valid_up_to()];
                let message = format!("is not valid UTF-8 (byte 0x{byte:02x}); convert the file to UTF-8");
                Err(self.error_at(e.valid_up_to(), FileErrorKind::Corrupt, message))
            }
        }
    }

    fn skip_bom(&mut self) -> Result<(), FileError> {
        self.fill()?;
        let pending = self.pending();
        if pending.starts_with(&[0xff, 0xfe]) || pending.starts_with(&[0xfe, 0xff]) {
            return Err(self.error_at(0, FileErrorKind::Corrupt, "is UTF-16 text; convert the file to UTF-8"));
        }
        if pending.starts_with(BOM) {
            self.start += BOM.len();
            self.bom_bytes = BOM.len();
        }
        Ok(())
    }
}

/// How many bytes of a byte order mark `head` begins with.
pub(crate) fn bom_bytes(head: &[u8]) -> usize {
    if head.starts_with(BOM) { BOM.len() } else { 0 }
}

/// Line ends in `data`; written so that the compiler vectorises it.
fn count_lines(data: &[u8]) -> u64 {
    // Sums of at most 255 ones fit a byte, so the inner loop stays in byte lanes.
    data.chunks(255).map(|chunk| u64::from(chunk.iter().map(|b| u8::from(*b == b'\n')).sum::<u8>())).sum()
}

fn count_lines_of_file(path: &Path, bytes: u64) -> io::Result<u64> {
    let mut reader = File::open(path)?.take(bytes);
    let mut buffer = vec![0u8; READ_BYTES];
    let mut lines = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(lines),
            Ok(n) => lines += count_lines(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Which bytes of `word` equal `byte`: the lowest set high bit marks the first (higher marks may be false).
fn equal_bytes(word: u64, byte: u8) -> u64 {
    let x = word ^ (LOW * u64::from(byte));
    x.wrapping_sub(LOW) & !x & HIGH
}

/// Offset of the first `a` or `b` at or after `from`.
pub(crate) fn find_either(data: &[u8], from: usize, a: u8, b: u8) -> Option<usize> {
    let tail = data.get(from..)?;
    let mut words = tail.chunks_exact(8);
    let mut at = from;
    for word in &mut words {
        let word = u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]);
        let hits = equal_bytes(word, a) | equal_bytes(word, b);
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    words.remainder().iter().position(|x| *x == a || *x == b).map(|i| at + i)
}

/// Offset of the first `byte` at or after `from`.
pub(crate) fn find_byte(data: &[u8], from: usize, byte: u8) -> Option<usize> {
    find_either(data, from, byte, byte)
}

/// A file that reports what is read of it.
struct CountedFile {
    file: io::Take<File>,
    progress: Option<Progress>,
}

impl Read for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // On a worker: whoever waits for a file lends its slot.
        let read = sched::blocking(|| self.file.read(buffer))?;
        if let (Some(progress), true) = (&self.progress, read > 0) {
            progress(read as u64);
        }
        Ok(read)
    }
}
