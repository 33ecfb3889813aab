//! What keeps a database on a disk through any crash: a log of commits, checkpoints of segments, recovery, backup.
//!
//! A [`Folder`] belongs to one process. What a transaction changed is one record of its [`Log`]; what a record says is
//! the caller's affair. A checkpoint writes segments that are not on the disk yet, with the caller's catalog, and names
//! the record up to which it has everything; the log before it goes. Opening gives the last checkpoint back and
//! replays the records behind it. `docs/design/files-on-disk.md` draws the bytes and says what survives what.
//!
//! # Invariants
//! - Once [`Log::wait_durable`] has returned, the record and all before it are found after any crash. Of the others
//!   some first ones are found, whole and in order.
//! - A write or sync that fails for another reason than room ends writing for good ([`WriteError::Stopped`]); no room
//!   refuses what asked for it and nothing else ([`WriteError::Full`]).
//! - Damage is an error that names file and offset; nothing damaged is returned, and no length in a file is believed
//!   before memory is taken for it.
//! - Every call of the file system goes through [`Files`]; with the feature `testing`, [`sim`] loses what was not
//!   synced, in every legal way.
//!
//! # Limits
//! Calls block; callers bring the threads. Linux. One folder, one disk.
//!
//! ```
//! use std::sync::Arc;
//!
//! use log_store::{Disk, Files, Folder, FolderOptions};
//! # use storage::{ColumnAllocator, Serial, Stager, TableVersion, build_part};
//! # use arrow::array::{Int64Array, RecordBatch};
//! # use arrow::datatypes::{DataType, Field, Schema};
//! # let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
//! # let mut stager = Stager::new(schema.clone(), numa::Allocator::unplaced());
//! # let numbers = Arc::new(Int64Array::from_iter_values(0..1000));
//! # stager.append(&RecordBatch::try_new(schema.clone(), vec![numbers])?)?;
//! # let part = build_part(&schema, vec![stager.finish()?], &[ColumnAllocator::unplaced()], &Serial)?;
//! # let table = TableVersion::empty(&schema).with_appended(part);
//! let dir = tempfile::tempdir()?;
//! let files: Arc<dyn Files> = Arc::new(Disk);
//! let folder = Folder::create(Arc::clone(&files), &dir.path().join("db"), &FolderOptions::default())?;
//!
//! // A commit: its place in the order, then the wait for the disk.
//! let lsn = folder.log().append(1, b"create table t")?;
//! folder.log().wait_durable(lsn)?;
//!
//! // A checkpoint of a snapshot that has everything up to that record; here without a limit on bandwidth.
//! let mut checkpoint = folder.checkpoint(&|_bytes| true)?;
//! let mut catalog = Vec::new();
//! for version in table.segments() {
//!     catalog.push(checkpoint.segment(&version.segment)? as u8);
//! }
//! checkpoint.commit(lsn, &catalog)?;
//! let lsn = folder.log().append(1, b"insert into t")?;
//! folder.log().wait_durable(lsn)?;
//! drop(folder);
//!
//! // The next process: the checkpoint's segments, then what came behind it.
//! let folder = Arc::new(Folder::open(files, &dir.path().join("db"), &FolderOptions::default())?);
//! let segment = folder.segment(folder.catalog()[0] as usize, vec![ColumnAllocator::unplaced()], 0, &[])?;
//! // Its column is read now.
//! assert_eq!(segment.stored_columns()[0].load()?.len(), 1000);
//! let records: Vec<_> = folder.replay().collect::<Result<_, _>>()?;
//! assert_eq!((records.len(), records[0].payload.as_slice()), (1, &b"insert into t"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod data;
mod error;
mod files;
mod folder;
mod format;
mod log;
mod manifest;
mod point;
#[cfg(test)]
mod tests;

pub use data::Pace;
pub use error::{OpenError, ReadError, WriteError};
#[cfg(any(test, feature = "testing"))]
pub use files::sim;
pub use files::{Disk, File, Files, Locking};
pub use folder::{
    BackupReport, CheckFailure, CheckReport, Checkpoint, CheckpointReport, Folder, FolderOptions, KeptFiles,
    RestoreReport,
};
pub use log::{Log, LogOptions, Record, Replay};
pub use point::{Lsn, Until};
