//! Arrow IPC, files and streams, buffers plain or compressed.
//!
//! The messages are walked before any is decoded, and checked against the file's length: arrow's reader allocates what
//! a message claims, and a failed allocation would end the process.
//!
//! # Limits
//! One compressed buffer holds at most 4 GiB when uncompressed. A stream is one piece; a file is cut between batches.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::{Fields, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader, read_footer_length};
use arrow::ipc::{root_as_footer, root_as_message};

use crate::error::{FileError, arrow_text};
use crate::parquet::Share;
use crate::producer::{Batches, Progress, guarded};
use crate::surface::{Adapter, check_names, surface_fields};

const MAGIC: &[u8] = b"ARROW1";
const CONTINUATION: [u8; 4] = [0xff; 4];
const BUFFER_BYTES_MAX: i64 = 4 << 30;
const BATCH_ROWS_MAX: i64 = 1 << 32;

/// An opened IPC file or stream.
#[derive(Debug, Clone)]
pub(crate) struct IpcFile {
    path: PathBuf,
    is_file: bool,
    fields: Fields,
    /// Rows and bytes of each batch.
    batches: Vec<(u64, u64)>,
}

impl IpcFile {
    /// Walks the messages and reads the schema.
    pub(crate) fn open(path: &Path) -> Result<IpcFile, FileError> {
        guarded(path, || {
            let mut file = File::open(path).map_err(|e| FileError::reading(path, &e))?;
            let mut head = [0u8; 6];
            let is_file = file.read_exact(&mut head).is_ok() && head == MAGIC;
            let walk = if is_file { walk_file(&mut file) } else { walk_stream(&mut file) };
            let batches = walk.map_err(|text| FileError::corrupt(path, "Arrow IPC", text))?;
            file.seek(SeekFrom::Start(0)).map_err(|e| FileError::reading(path, &e))?;
            let fail = |e: ArrowError| FileError::corrupt(path, "Arrow IPC", arrow_text(&e));
            let reader = BufReader::new(file);
            let schema = if is_file {
                FileReader::try_new(reader, None).map_err(fail)?.schema()
            } else {
                StreamReader::try_new(reader, None).map_err(fail)?.schema()
            };
            check_names(path, schema.fields().iter().map(|f| f.name().as_str()))?;
            let fields = surface_fields(schema.fields());
            Ok(IpcFile { path: path.to_path_buf(), is_file, fields, batches })
        })
    }

    /// Its columns as surface types.
    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    pub(crate) fn rows(&self) -> u64 {
        self.batches.iter().map(|(rows, _)| rows).sum()
    }

    /// Bytes of each batch that can be read on its own; of all, for a stream.
    pub(crate) fn piece_bytes(&self) -> Vec<u64> {
        let bytes = self.batches.iter().map(|(_, bytes)| *bytes);
        if self.is_file { bytes.collect() } else { vec![bytes.sum()] }
    }

    /// The batches of consecutive pieces in the shape of `schema`.
    pub(crate) fn read(
        &self,
        pieces: Range<usize>,
        schema: SchemaRef,
        batch_rows: usize,
        bytes: u64,
        progress: Option<Progress>,
    ) -> Result<Batches, FileError> {
        let fail = |e: ArrowError| FileError::corrupt(&self.path, "Arrow IPC", arrow_text(&e));
        let file = File::open(&self.path).map_err(|e| FileError::reading(&self.path, &e))?;
        let reader = BufReader::new(file);
        let (batches, rows): (Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>, u64) = if self.is_file {
            let mut reader = FileReader::try_new(reader, None).map_err(fail)?;
            let rows = self.batches[pieces.clone()].iter().map(|(rows, _)| rows).sum();
            if !pieces.is_empty() {
                reader.set_index(pieces.start).map_err(fail)?;
            }
            (Box::new(reader.take(pieces.len())), rows)
        } else {
            (Box::new(StreamReader::try_new(reader, None).map_err(fail)?), self.rows())
        };
        let progress = Share { progress, bytes, rows, bytes_told: 0 };
        Ok(Box::new(Reader {
            path: self.path.clone(),
            batches,
            adapter: Adapter::new(schema),
            rest: None,
            batch_rows,
            rows_read: 0,
            progress,
        }))
    }
}

/// Checks the footer and every block it names; rows and bytes of each batch.
fn walk_file(file: &mut File) -> Result<Vec<(u64, u64)>, String> {
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    if len < 20 {
        return Err("it ends before its footer".to_string());
    }
    let trailer: [u8; 10] = read_at(file, len - 10, 10)?.try_into().map_err(|_| "it has no trailer".to_string())?;
    let footer_bytes = read_footer_length(trailer).map_err(|e| arrow_text(&e))? as u64;
    let start = (len - 10).checked_sub(footer_bytes).ok_or("its footer is longer than the file")?;
    let footer_data = read_at(file, start, footer_bytes)?;
    let footer = root_as_footer(&footer_data).map_err(|e| format!("its footer does not decode: {e}"))?;
    let mut batches = Vec::new();
    let dictionaries =
        footer.dictionaries().iter().flat_map(|blocks| blocks.iter()).map(|b| (b, false)).collect::<Vec<_>>();
    let records = footer.recordBatches().iter().flat_map(|blocks| blocks.iter()).map(|b| (b, true)).collect::<Vec<_>>();
    for (block, is_batch) in dictionaries.into_iter().chain(records) {
        let (Ok(offset), Ok(meta), Ok(body)) =
            (u64::try_from(block.offset()), u64::try_from(block.metaDataLength()), u64::try_from(block.bodyLength()))
        else {
            return Err("its footer names a block of negative size".to_string());
        };
        let end = offset.checked_add(meta).and_then(|end| end.checked_add(body));
        if meta < 8 || end.is_none_or(|end| end > len) {
            return Err("its footer names a block beyond the end of the file".to_string());
        }
        let head = read_at(file, offset, meta)?;
        let message = if head[..4] == CONTINUATION { &head[8..] } else { &head[4..] };
        let rows = check_message(file, message, offset + meta, body)?;
        if is_batch {
            batches.push((rows, meta + body));
        }
    }
    Ok(batches)
}

/// Checks every message of a stream; rows and bytes of each batch.
fn walk_stream(file: &mut File) -> Result<Vec<(u64, u64)>, String> {
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let mut at = 0u64;
    let mut batches = Vec::new();
    while at + 4 <= len {
        let word = read_at(file, at, 4)?;
        at += 4;
        let word = if word == CONTINUATION {
            at += 4;
            if at > len {
                return Err("it ends within a message".to_string());
            }
            read_at(file, at - 4, 4)?
        } else {
            word
        };
        let meta = u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        if meta == 0 {
            return Ok(batches);
        }
        if meta > len - at {
            return Err("it is no Arrow IPC file, or it ends within a message".to_string());
        }
        let head = read_at(file, at, meta)?;
        at += meta;
        let message = root_as_message(&head).map_err(|e| format!("a message does not decode: {e}"))?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| "a message has a negative size".to_string())?;
        if body > len - at {
            return Err("it ends within a message".to_string());
        }
        let rows = check_message(file, &head, at, body)?;
        if message.header_as_record_batch().is_some() {
            batches.push((rows, meta + body));
        }
        at += body;
    }
    if at == 0 {
        return Err("it is empty".to_string());
    }
    Ok(batches)
}

/// Checks what a batch's buffers claim; its rows.
fn check_message(file: &mut File, message: &[u8], body_at: u64, body_bytes: u64) -> Result<u64, String> {
    let message = root_as_message(message).map_err(|e| format!("a message does not decode: {e}"))?;
    if u64::try_from(message.bodyLength()).is_ok_and(|claimed| claimed > body_bytes) || message.bodyLength() < 0 {
        return Err("a message is longer than its place".to_string());
    }
    let dictionary = message.header_as_dictionary_batch().and_then(|d| d.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else {
        return Ok(0);
    };
    if !(0..=BATCH_ROWS_MAX).contains(&batch.length()) {
        return Err(format!("a batch claims {} rows", batch.length()));
    }
    let compressed = batch.compression().is_some();
    for buffer in batch.buffers().iter().flatten() {
        let (Ok(offset), Ok(length)) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length())) else {
            return Err("a buffer has a negative size".to_string());
        };
        if offset.checked_add(length).is_none_or(|end| end > body_bytes) {
            return Err("a buffer lies beyond its message".to_string());
        }
        if compressed && length >= 8 {
            let prefix = read_at(file, body_at + offset, 8)?;
            let claimed = i64::from_le_bytes(prefix.try_into().map_err(|_| "a buffer is cut off".to_string())?);
            if claimed > BUFFER_BYTES_MAX {
                return Err(format!("a compressed buffer claims {claimed} bytes, more than 4 GiB"));
            }
        }
    }
    Ok(u64::try_from(batch.length()).unwrap_or(0))
}

/// `length` bytes at `offset`; callers have compared both with the file's length.
fn read_at(file: &mut File, offset: u64, length: u64) -> Result<Vec<u8>, String> {
    let mut data = vec![0u8; usize::try_from(length).map_err(|e| e.to_string())?];
    file.seek(SeekFrom::Start(offset)).map_err(|e| e.to_string())?;
    // On a worker: whoever waits for a file lends its slot.
    sched::blocking(|| file.read_exact(&mut data)).map_err(|e| e.to_string())?;
    Ok(data)
}

struct Reader {
    path: PathBuf,
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>,
    adapter: Adapter,
    /// What is left of a batch that has more rows than are wanted at once.
    rest: Option<RecordBatch>,
    batch_rows: usize,
    rows_read: u64,
    progress: Share,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.batches.next() {
                None => {
                    self.progress.finished();
                    return None;
                }
                Some(Err(e)) => {
                    return Some(Err(FileError::corrupt(&self.path, "Arrow IPC", arrow_text(&e))));
                }
                Some(Ok(batch)) => match self.adapter.adapt(&self.path, &batch) {
                    Ok(batch) => batch,
                    Err(e) => return Some(Err(e)),
                },
            },
        };
        let rows = batch.num_rows().min(self.batch_rows);
        if rows < batch.num_rows() {
            self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        self.rows_read += rows as u64;
        self.progress.rows_done(self.rows_read);
        Some(Ok(batch.slice(0, rows)))
    }
}
