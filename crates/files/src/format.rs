//! Which format and compression a file has: by option, by name, and by its first bytes where the name says nothing.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{FileError, FileErrorKind};

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const SNIFF_BYTES: usize = 4096;

/// A file format that Nearside reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values, RFC 4180.
    Csv,
    /// As CSV, with tabs.
    Tsv,
    /// One JSON object per line.
    JsonLines,
    /// Arrow IPC, read as file or stream, written as file.
    ArrowIpc,
}

/// How a file's bytes are compressed. Text formats take `None`, `Gzip` and `Zstd` (the whole file); Parquet takes all
/// but `Lz4`, Arrow IPC `None`, `Zstd` and `Lz4` (their pages and buffers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// As it is.
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard.
    Zstd,
    /// Snappy; Parquet only.
    Snappy,
    /// LZ4 frames; Arrow IPC only.
    Lz4,
}

impl FileFormat {
    /// The format that a file's extension promises, looking through `.gz` and `.zst`.
    pub fn from_path(path: &Path) -> Option<FileFormat> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = strip_compression(&name).0;
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension {
            "parquet" | "pq" | "parq" => FileFormat::Parquet,
            "csv" => FileFormat::Csv,
            "tsv" | "tab" => FileFormat::Tsv,
            "json" | "jsonl" | "ndjson" => FileFormat::JsonLines,
            "arrow" | "arrows" | "ipc" | "feather" => FileFormat::ArrowIpc,
            _ => return None,
        })
    }

    /// Whether the format is text, and so may be compressed as a whole.
    pub fn is_text(self) -> bool {
        matches!(self, FileFormat::Csv | FileFormat::Tsv | FileFormat::JsonLines)
    }

    /// Whether fields are separated by a delimiter.
    pub fn is_delimited(self) -> bool {
        matches!(self, FileFormat::Csv | FileFormat::Tsv)
    }

    /// What separates fields where nothing else is said.
    pub(crate) fn delimiter(self) -> u8 {
        if self == FileFormat::Tsv { b'\t' } else { b',' }
    }

    /// The extension that files of this format get.
    pub fn extension(self) -> &'static str {
        match self {
            FileFormat::Parquet => "parquet",
            FileFormat::Csv => "csv",
            FileFormat::Tsv => "tsv",
            FileFormat::JsonLines => "jsonl",
            FileFormat::ArrowIpc => "arrow",
        }
    }

    /// The format of `path` from its name or, where that says nothing, its first bytes.
    ///
    /// # Errors
    /// The file cannot be read, or is none of the formats.
    pub fn of_file(path: &Path) -> Result<FileFormat, FileError> {
        if let Some(format) = FileFormat::from_path(path) {
            return Ok(format);
        }
        let head = read_head(path)?;
        FileFormat::sniff(&head).ok_or_else(|| {
            let message = "its format cannot be told from its name or its first bytes; give the format \
                           (parquet, csv, tsv, jsonl or arrow)";
            FileError::new(FileErrorKind::Format, message).at(path)
        })
    }

    /// The format that the first bytes of a file show. Text counts as CSV when its first line holds a comma, as TSV
    /// when it holds a tab.
    fn sniff(head: &[u8]) -> Option<FileFormat> {
        if head.starts_with(b"PAR1") || head.starts_with(b"PARE") {
            return Some(FileFormat::Parquet);
        }
        // A stream starts with the continuation marker of its schema message.
        if head.starts_with(b"ARROW1") || head.starts_with(&[0xff; 4]) {
            return Some(FileFormat::ArrowIpc);
        }
        let mut text = Vec::new();
        let unpacked: &[u8] = match Compression::sniff(head) {
            Compression::Gzip => {
                // The head is cut off, so an error at its end is expected.
                let _ = flate2::read::MultiGzDecoder::new(head).take(SNIFF_BYTES as u64).read_to_end(&mut text);
                &text
            }
            Compression::Zstd => {
                if let Ok(decoder) = zstd::stream::read::Decoder::new(head) {
                    let _ = decoder.take(SNIFF_BYTES as u64).read_to_end(&mut text);
                }
                &text
            }
            _ => head,
        };
        let unpacked = unpacked.strip_prefix(b"\xef\xbb\xbf").unwrap_or(unpacked);
        if unpacked.contains(&0) {
            return None;
        }
        let first_line = unpacked.split(|b| *b == b'\n').find(|line| !line.trim_ascii().is_empty())?;
        if first_line.trim_ascii_start().starts_with(b"{") {
            return Some(FileFormat::JsonLines);
        }
        if first_line.contains(&b'\t') {
            return Some(FileFormat::Tsv);
        }
        first_line.contains(&b',').then_some(FileFormat::Csv)
    }
}

impl Compression {
    /// What the last extension of a name promises.
    pub fn from_path(path: &Path) -> Compression {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("").to_ascii_lowercase();
        strip_compression(&name).1
    }

    /// What the first bytes of a file show: gzip, zstd or none.
    fn sniff(head: &[u8]) -> Compression {
        if head.starts_with(GZIP_MAGIC) {
            Compression::Gzip
        } else if head.starts_with(ZSTD_MAGIC) {
            Compression::Zstd
        } else {
            Compression::None
        }
    }

    /// What the first bytes of the file at `path` show. Neither magic number can begin a UTF-8 text that anybody
    /// means, so the bytes are trusted over the name.
    pub(crate) fn of_file(path: &Path) -> Result<Compression, FileError> {
        let mut head = [0u8; 4];
        let file = File::open(path).map_err(|e| FileError::reading(path, &e))?;
        let read = read_up_to(file, &mut head).map_err(|e| FileError::reading(path, &e))?;
        Ok(Compression::sniff(&head[..read]))
    }
}

fn strip_compression(name: &str) -> (&str, Compression) {
    for (suffix, compression) in [
        (".gz", Compression::Gzip),
        (".gzip", Compression::Gzip),
        (".zst", Compression::Zstd),
        (".zstd", Compression::Zstd),
    ] {
        if let Some(stem) = name.strip_suffix(suffix) {
            return (stem, compression);
        }
    }
    (name, Compression::None)
}

fn read_head(path: &Path) -> Result<Vec<u8>, FileError> {
    let mut head = vec![0u8; SNIFF_BYTES];
    let file = File::open(path).map_err(|e| FileError::reading(path, &e))?;
    let read = read_up_to(file, &mut head).map_err(|e| FileError::reading(path, &e))?;
    head.truncate(read);
    Ok(head)
}

fn read_up_to(mut file: File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileFormat::Parquet => "Parquet",
            FileFormat::Csv => "CSV",
            FileFormat::Tsv => "TSV",
            FileFormat::JsonLines => "JSON lines",
            FileFormat::ArrowIpc => "Arrow IPC",
        })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
        })
    }
}

impl FromStr for FileFormat {
    type Err = FileError;

    fn from_str(text: &str) -> Result<FileFormat, FileError> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "parquet" => FileFormat::Parquet,
            "csv" => FileFormat::Csv,
            "tsv" => FileFormat::Tsv,
            "json" | "jsonl" | "ndjson" | "jsonlines" => FileFormat::JsonLines,
            "arrow" | "ipc" | "feather" => FileFormat::ArrowIpc,
            _ => {
                let message = format!("there is no file format {text:?}; use parquet, csv, tsv, jsonl or arrow");
                return Err(FileError::new(FileErrorKind::Options, message));
            }
        })
    }
}

impl FromStr for Compression {
    type Err = FileError;

    fn from_str(text: &str) -> Result<Compression, FileError> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "none" | "uncompressed" => Compression::None,
            "gzip" | "gz" => Compression::Gzip,
            "zstd" | "zst" => Compression::Zstd,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            _ => {
                let message = format!("there is no compression {text:?}; use none, gzip, zstd, snappy or lz4");
                return Err(FileError::new(FileErrorKind::Options, message));
            }
        })
    }
}
