//! Who is told of commits before anybody sees them, so that they last: see [`Journal`].

use std::any::Any;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use arrow::array::RecordBatch;
use chrono::{DateTime, Utc};
use parking_lot::RwLock;
use storage::{TableRow, TableVersion};

use crate::catalog::CatalogState;
use crate::error::Result;

/// What a statement has added to a table's delta, and which rows died.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenRows<'a> {
    /// The table.
    pub table: u64,
    /// Rows, a batch for each part, with the number of the first of them; the others follow.
    pub added: &'a [(u32, &'a RecordBatch)],
    /// Rows that died.
    pub dead: &'a [TableRow],
}

/// What was brought to the disk ahead of a commit stays there as long as this is held.
pub(crate) type Ahead = Box<dyn Any + Send>;

/// The setting that [`DiskLimits::restore_window_s`] is given by.
pub(crate) const RESTORE_WINDOW: &str = "nearside.restore_window_s";

/// Where a sequence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// The last value that was given out; where none was, the first that will be.
    pub last: i64,
    /// Whether it was given out.
    pub is_called: bool,
}

/// Who waits for what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    /// A statement: it is written as fast as the disk takes it.
    Waited,
    /// Nobody: it keeps to [`DiskLimits::background_bytes_per_s`].
    Background,
}

/// What users say of how much is written and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiskLimits {
    /// For how long back the folder can be restored to any point of time; 0: what that takes is not kept.
    pub restore_window_s: u64,
    /// Bytes that merges of deltas, compaction and backups write per second at most; 0: as many as the disk takes.
    pub background_bytes_per_s: u64,
}

/// Keeps what is committed.
///
/// A commit is told first and seen then. Both happen with the [`gate`](Self::gate) in hand: statements that write
/// deltas share it, who changes the catalog's state or takes a checkpoint has it alone. So what is told is told in an
/// order in which it can be done again, and a checkpoint has all that was told before it.
pub(crate) trait Journal: Debug + Send + Sync {
    /// See the trait.
    fn gate(&self) -> &RwLock<()>;

    /// Does the long part of keeping a version that is about to be committed, while others commit: what it brings to
    /// the disk stays there as long as what it returns is held.
    ///
    /// # Errors
    /// It cannot be kept.
    fn ahead(&self, version: &TableVersion, haste: Haste) -> Result<Ahead>;

    /// A state is about to take the place of another.
    ///
    /// # Errors
    /// It cannot be kept, and must not be seen.
    fn state(&self, before: &CatalogState, after: &CatalogState) -> Result<()>;

    /// Rows are about to be seen in the deltas of tables, all in the same moment; each table is named once.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    fn rows(&self, rows: &[WrittenRows<'_>]) -> Result<()>;

    /// A sequence is about to be as far as this, at most: with the [`gate`](Self::gate) shared.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    fn sequence(&self, id: u64, at: Position) -> Result<()>;

    /// Returns once everything that was told so far is on the disk.
    ///
    /// # Errors
    /// The disk failed: nobody knows whether it is, and nothing is written any more.
    fn settle(&self) -> Result<()>;

    /// The same, in a while and by somebody else.
    fn settle_later(&self);

    /// Makes a checkpoint of all that was told.
    ///
    /// # Errors
    /// The disk failed or has no room, or `is_stopped` said so; the last checkpoint stays.
    fn checkpoint(&self, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<()>;

    /// Copies all that was told to a new folder, beside whoever writes; how many bytes that were.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint); there is something in the other folder.
    fn backup(&self, to: &Path, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<u64>;

    /// What is on the disk.
    fn status(&self) -> JournalStatus;

    /// What users have said of how much is written and kept.
    fn limits(&self) -> DiskLimits;

    /// Other limits from now on.
    fn set_limits(&self, limits: DiskLimits);

    /// Everything goes to the disk, and nothing is told any more; `state` is the last one.
    fn end(&self, state: &CatalogState);
}

/// What is on the disk.
#[derive(Debug, Clone)]
pub(crate) struct JournalStatus {
    /// The folder.
    pub path: String,
    /// The number of the last record.
    pub last: u64,
    /// Of the last one that is on the disk.
    pub durable: u64,
    /// Of the last one that the last checkpoint has.
    pub checkpointed: u64,
    /// Bytes of records behind it.
    pub log_bytes: u64,
    /// How often the log was synced.
    pub syncs: u64,
    /// The earliest point of time that the folder can be restored to.
    pub restorable_from: DateTime<Utc>,
    /// Bytes of data that are there for older points of time alone.
    pub history_bytes: u64,
    /// Columns of segments that nobody has read since it was opened.
    pub unread_columns: u64,
    /// What the last checkpoint of this process did.
    pub checkpoint: Option<MadeCheckpoint>,
    /// Why nothing is written any more.
    pub stopped: Option<String>,
}

/// A checkpoint that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MadeCheckpoint {
    /// When it was there.
    pub at: DateTime<Utc>,
    /// Bytes of data that were written for it.
    pub bytes: u64,
    /// Files of data that were written for it.
    pub files: usize,
    /// How long it took.
    pub elapsed: Duration,
}
