//! Files of columns and dictionaries: written once, never changed, removed when no checkpoint refers to them.
//!
//! ```text
//! head | table: items, each with its head and the lengths and checksums of its blobs | the blobs, without gaps
//! ```
//! # Invariants
//! Every byte is under a checksum: that of the head, of the table (in the head, and in the manifest), of a blob (in the
//! table). So what the manifest says of a file says it of all of it.

use std::error::Error;
use std::path::{Path, PathBuf};

use storage::persist::{BlobSource, Written};

use crate::error::{Health, ReadError, WriteError, failed};
use crate::files::{File, Files, read_exact_at, write_all_at};
use crate::format::{HEAD_BYTES, Head, Reader, Writer, crc};

const MAGIC: [u8; 8] = *b"NSIDEDAT";
/// Bytes that are read or written at a time.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;
/// Bytes that a blob takes in the table.
const BLOB_ENTRY_BYTES: usize = 12;

/// Told before so many bytes are written or read in the background: it may wait, and ends the work with `false`.
pub type Pace<'a> = dyn Fn(u64) -> bool + Sync + 'a;

/// A file of data as a manifest has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataFile {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Of its table.
    pub(crate) crc: u32,
}

/// A column or dictionary in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ItemPlace {
    pub(crate) file: u64,
    pub(crate) item: u32,
}

/// A file that is open, with its table.
#[derive(Debug)]
pub(crate) struct OpenData {
    path: PathBuf,
    file: Box<dyn File>,
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    head: Vec<u8>,
    blobs: Vec<Blob>,
}

#[derive(Debug, Clone, Copy)]
struct Blob {
    offset: u64,
    bytes: u64,
    crc: u32,
}

/// The blobs of one item.
struct Blobs<'a> {
    data: &'a OpenData,
    item: &'a Item,
}

/// The path of a file.
pub(crate) fn data_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("data-{number:016}"))
}

/// The number of the file of this name, if it is one of data.
pub(crate) fn data_number(name: &str) -> Option<u64> {
    name.strip_prefix("data-")?.parse().ok()
}

/// Asks whoever paces the work.
pub(crate) fn pace(pace: &Pace<'_>, bytes: usize) -> Result<(), WriteError> {
    if pace(bytes as u64) { Ok(()) } else { Err(WriteError::Cancelled) }
}

/// Writes a file and syncs it; its name is not synced.
///
/// # Errors
/// [`WriteError`]; the file is gone then, as far as that is possible.
pub(crate) fn write_data(
    files: &dyn Files,
    health: &Health,
    path: &Path,
    (folder, number): (u64, u64),
    items: &[Written<'_>],
    paced: &Pace<'_>,
) -> Result<DataFile, WriteError> {
    let table = table_of(items);
    let blobs = items.iter().flat_map(|item| &item.blobs);
    let blob_bytes: u64 = blobs.clone().map(|blob| blob.len() as u64).sum();
    let bytes = (HEAD_BYTES + table.len()) as u64 + blob_bytes;
    let head = Head { magic: MAGIC, body_crc: crc(&table), folder, number, fields: [table.len() as u64, bytes, 0] };
    pace(paced, 0)?;
    let file = match files.create(path, bytes) {
        Ok(file) => file,
        Err(error) => return Err(failed(files, health, path, "making the file", &error)),
    };
    let mut out = Out { file: &*file, offset: 0, buffer: head.encode().to_vec(), paced };
    let written = out.put(&table).and_then(|()| {
        for blob in blobs {
            out.put(blob)?;
        }
        out.flush()
    });
    let outcome = match written {
        Ok(()) => file.sync_data().map_err(|error| health.stop(path, "syncing", &error)),
        Err(None) => Err(WriteError::Cancelled),
        Err(Some(error)) => Err(failed(files, health, path, "writing", &error)),
    };
    if let Err(error) = outcome {
        // Best effort: whoever opens the folder removes what nothing refers to.
        let _ = files.remove(path);
        return Err(error);
    }
    Ok(DataFile { number, bytes, crc: head.body_crc })
}

fn table_of(items: &[Written<'_>]) -> Vec<u8> {
    let mut table = Writer::default();
    table.u32(items.len() as u32);
    for item in items {
        table.counted(&item.head);
        table.u32(item.blobs.len() as u32);
        for blob in &item.blobs {
            table.u64(blob.len() as u64);
            table.u32(crc(blob));
        }
    }
    table.0
}

/// Writes one thing behind the other, small ones together. An error without one of the system's is the pace's.
struct Out<'a> {
    file: &'a dyn File,
    offset: u64,
    buffer: Vec<u8>,
    paced: &'a Pace<'a>,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Option<std::io::Error>> {
        if self.buffer.len() + bytes.len() > CHUNK_BYTES {
            self.flush()?;
        }
        if bytes.len() < CHUNK_BYTES {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        bytes.chunks(CHUNK_BYTES).try_for_each(|chunk| self.write(chunk))
    }

    fn flush(&mut self) -> Result<(), Option<std::io::Error>> {
        let buffer = std::mem::take(&mut self.buffer);
        self.write(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Option<std::io::Error>> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !(self.paced)(bytes.len() as u64) {
            return Err(None);
        }
        write_all_at(self.file, self.offset, bytes).map_err(Some)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

impl OpenData {
    /// Opens a file that a manifest refers to, and reads its table.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn open(
        files: &dyn Files,
        path: &Path,
        folder: u64,
        expected: &DataFile,
    ) -> Result<OpenData, ReadError> {
        let io = |error| ReadError::io(path, error);
        let file = match files.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let what = "the last checkpoint refers to it".to_owned();
                return Err(ReadError::Missing { path: path.to_path_buf(), what });
            }
            Err(error) => return Err(io(error)),
        };
        let len = file.len_bytes().map_err(io)?;
        if len != expected.bytes {
            let what = format!("the file has {len} bytes instead of {}", expected.bytes);
            return Err(ReadError::damaged(path, len.min(expected.bytes), what));
        }
        let mut head = vec![0; HEAD_BYTES.min(len as usize)];
        read_exact_at(&*file, 0, &mut head).map_err(io)?;
        let head = Head::decode(&head, &MAGIC, path)?;
        let [table_bytes, bytes, _] = head.fields;
        let is_it = head.folder == folder && head.number == expected.number && head.body_crc == expected.crc;
        if !is_it || bytes != len || table_bytes > len - HEAD_BYTES as u64 {
            return Err(ReadError::damaged(path, 8, "the file is not the one that the checkpoint refers to"));
        }
        let mut table = vec![0; table_bytes as usize];
        read_exact_at(&*file, HEAD_BYTES as u64, &mut table).map_err(io)?;
        if crc(&table) != head.body_crc {
            return Err(ReadError::damaged(path, HEAD_BYTES as u64, "the table does not match its checksum"));
        }
        let items = items_of(&table, len);
        let items = items.ok_or_else(|| ReadError::damaged(path, HEAD_BYTES as u64, "the table is none"))?;
        Ok(OpenData { path: path.to_path_buf(), file, items })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The head of an item, its blobs and where they begin.
    ///
    /// # Errors
    /// [`ReadError::Damaged`]: there is no such item.
    pub(crate) fn item(&self, item: u32) -> Result<(&[u8], impl BlobSource, u64), ReadError> {
        let Some(item) = self.items.get(item as usize) else {
            let what = format!("the file has no item {item}");
            return Err(ReadError::damaged(&self.path, HEAD_BYTES as u64, what));
        };
        let offset = item.blobs.first().map_or(HEAD_BYTES as u64, |blob| blob.offset);
        Ok((&item.head, Blobs { data: self, item }, offset))
    }

    /// Bytes of the blobs of an item; 0 where there is no such item.
    pub(crate) fn item_bytes(&self, item: u32) -> u64 {
        self.items.get(item as usize).map_or(0, |item| item.blobs.iter().map(|blob| blob.bytes).sum())
    }

    /// Reads everything and compares the checksums.
    ///
    /// # Errors
    /// [`ReadError`]; `None` where whoever paces it ended it.
    pub(crate) fn check(&self, paced: &Pace<'_>) -> Result<(), Option<ReadError>> {
        let mut buffer = vec![0; CHUNK_BYTES];
        for blob in self.items.iter().flat_map(|item| &item.blobs) {
            let mut hasher = crc32fast::Hasher::new();
            let mut done = 0;
            while done < blob.bytes {
                let chunk = &mut buffer[..(blob.bytes - done).min(CHUNK_BYTES as u64) as usize];
                if !paced(chunk.len() as u64) {
                    return Err(None);
                }
                let read = read_exact_at(&*self.file, blob.offset + done, chunk);
                read.map_err(|error| ReadError::io(&self.path, error))?;
                hasher.update(chunk);
                done += chunk.len() as u64;
            }
            self.compare(blob, hasher.finalize())?;
        }
        Ok(())
    }

    fn compare(&self, blob: &Blob, crc: u32) -> Result<(), ReadError> {
        if crc == blob.crc {
            return Ok(());
        }
        let what = format!("{} bytes from there on do not match their checksum", blob.bytes);
        Err(ReadError::damaged(&self.path, blob.offset, what))
    }
}

/// The items of a table of a file of `len` bytes, which their blobs fill to the end.
fn items_of(table: &[u8], len: u64) -> Option<Vec<Item>> {
    let mut reader = Reader::new(table);
    let mut offset = (HEAD_BYTES + table.len()) as u64;
    let mut items = Vec::with_capacity(reader.count(BLOB_ENTRY_BYTES)?);
    for _ in 0..items.capacity() {
        let head = reader.counted()?.to_vec();
        let mut blobs = Vec::with_capacity(reader.count(BLOB_ENTRY_BYTES)?);
        for _ in 0..blobs.capacity() {
            let blob = Blob { offset, bytes: reader.u64()?, crc: reader.u32()? };
            offset = offset.checked_add(blob.bytes).filter(|end| *end <= len)?;
            blobs.push(blob);
        }
        items.push(Item { head, blobs });
    }
    (reader.is_empty() && offset == len).then_some(items)
}

impl BlobSource for Blobs<'_> {
    fn len_bytes(&self, blob: usize) -> Option<usize> {
        self.item.blobs.get(blob).map(|blob| blob.bytes as usize)
    }

    fn read(&self, blob: usize, into: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let blob = &self.item.blobs[blob];
        let mut hasher = crc32fast::Hasher::new();
        let mut offset = blob.offset;
        // The checksum of a piece while it is in the cache.
        for chunk in into.chunks_mut(CHUNK_BYTES) {
            read_exact_at(&*self.data.file, offset, chunk).map_err(|error| ReadError::io(&self.data.path, error))?;
            hasher.update(chunk);
            offset += chunk.len() as u64;
        }
        Ok(self.data.compare(blob, hasher.finalize())?)
    }
}
