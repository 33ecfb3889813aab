//! Reading and writing files: Parquet, CSV, TSV, JSON lines and Arrow IPC, the text formats also compressed.
//!
//! [`FileSet::open`] finds the files behind a path, folder or glob, reads or infers their schema and
//! [`FileSet::producers`] cuts them into pieces that can be read in parallel; the concatenation of the pieces is the
//! files' row order. [`write`] makes one file, under a temporary name until it is complete.
//!
//! Invariants:
//! - No input panics: what other crates' decoders might throw at hostile bytes is caught and becomes a [`FileError`].
//! - Every error names its file, and its line, column and value where there are any.
//! - Batches carry surface types: strings are `Utf8View`, binaries `BinaryView`, dictionaries their values.
//! - Nothing here starts a thread; a piece is read by whoever iterates over it.
//!
//! # Limits
//! - Text is UTF-8 with lines that end in LF or CRLF. One CSV record or JSON line holds at most 256 MiB.
//! - Compressed text, JSON lines and Arrow IPC streams are one piece per file.
//! - Encrypted Parquet is refused. Big-endian Arrow IPC is refused.
//! - A panic that is caught still prints its message through the process's panic hook.

mod bytes;
mod csv;
mod discover;
mod error;
mod file_set;
mod format;
mod ipc;
mod json;
mod options;
mod parquet;
mod parquet_bytes;
mod producer;
mod runs;
mod surface;
mod text;
mod write;

#[cfg(test)]
mod tests;

pub use bytes::{bytes_of_escapes, bytes_of_hex, read_bytes, texts_of_bytes, write_bytes};
pub use error::{FileError, FileErrorKind};
pub use file_set::{FileSet, SourceFile};
pub use format::{Compression, FileFormat};
pub use options::{ReadOptions, WriteOptions};
pub use parquet_bytes::ParquetBytes;
pub use producer::{Producer, Progress};
pub use write::{FileWriter, WriteReport, write};
