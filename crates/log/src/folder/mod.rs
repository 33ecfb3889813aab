//! A database's folder: its lock, the last checkpoint, and the log behind it.
//!
//! ```text
//! lock                    who has the folder
//! manifest                the last checkpoint: which data, the caller's catalog, where the log goes on
//! manifest-0000000000003  a checkpoint before it, while the folder can be restored to the time after that
//! data-0000000000000012   columns or dictionaries of segments
//! log-0000000000000007    records
//! *.new                   what is not whole yet
//! ```

mod backup;
mod check;
mod checkpoint;
mod copy;
mod history;
mod keep;
mod load;
mod open;
mod restore;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use storage::{ColumnId, Dictionary, DictionaryId};

use crate::data::{DataFile, ItemPlace};
use crate::error::{Health, WriteError};
use crate::files::Files;
use crate::log::{Log, LogFile, LogOptions, LogPlace, Record, Replay, bounds};
use crate::manifest::{ColumnEntry, Manifest};
use crate::point::{Lsn, Until};
pub use backup::BackupReport;
pub use check::{CheckFailure, CheckReport};
pub use checkpoint::{Checkpoint, CheckpointReport};
use history::Kept;
pub use keep::KeptFiles;
pub use restore::RestoreReport;

/// The name of the file that stands for the folder's lock.
const LOCK: &str = "lock";

/// How a folder is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct FolderOptions {
    /// How its log is written.
    pub log: LogOptions,
    /// What is left out of the log, for good; of a copy.
    pub(crate) until: Option<Until>,
}

/// A database's folder, open for one process.
pub struct Folder {
    files: Arc<dyn Files>,
    path: PathBuf,
    health: Arc<Health>,
    log: Log,
    /// As it was opened: what [`segment`](Folder::segment) and [`replay`](Folder::replay) read.
    opened: Arc<Manifest>,
    chain: Vec<LogFile>,
    end: Lsn,
    /// Checkpoints and backups, one after the other.
    turn: Mutex<()>,
    known: Arc<Mutex<Known>>,
    /// See [`set_window`](Folder::set_window).
    window_us: AtomicU64,
    dictionaries: Mutex<HashMap<ItemPlace, Arc<Mutex<Weak<Dictionary>>>>>,
    _lock: Box<dyn Send + Sync>,
}

/// What is on the disk.
#[derive(Debug, Default)]
struct Known {
    manifest: Arc<Manifest>,
    /// Checkpoints before it that it can be restored from, in their order.
    history: Vec<Kept>,
    /// Where columns are, with their dictionaries.
    columns: HashMap<ColumnId, ColumnEntry>,
    dictionaries: HashMap<DictionaryId, ItemPlace>,
    /// Files that are on the disk and in no checkpoint yet.
    loose: BTreeMap<u64, DataFile>,
    /// Files that somebody holds whatever checkpoints say, and how many do.
    pins: HashMap<u64, usize>,
    /// Files of the log from which on somebody reads.
    log_pins: Vec<u64>,
    /// Files that are being written.
    writing: HashSet<u64>,
    next_file: u64,
}

impl Known {
    fn pin(&mut self, file: u64) {
        *self.pins.entry(file).or_default() += 1;
    }

    /// Whether nobody holds it any more.
    fn unpin(&mut self, file: u64) -> bool {
        let Some(pins) = self.pins.get_mut(&file) else { return true };
        *pins -= 1;
        let is_free = *pins == 0;
        if is_free {
            self.pins.remove(&file);
        }
        is_free
    }
}

impl Folder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets nothing be written any more, for a cause; what is there can be read.
    pub fn end_writing(&self, cause: &str) {
        self.health.end(cause);
    }

    /// Its log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The caller's bytes in the checkpoint that it was opened with; none where there was no checkpoint yet.
    pub fn catalog(&self) -> &[u8] {
        &self.opened.catalog
    }

    /// The last record that the checkpoint has which it was opened with.
    pub fn opened_at(&self) -> Lsn {
        Lsn(self.opened.contains)
    }

    /// The records behind the checkpoint that it was opened with, in order, as they were when it was opened. Before the
    /// next checkpoint is made.
    pub fn replay(&self) -> Replay {
        Replay::new(self.log_place(), bounds(&self.chain, self.end), self.opened.next())
    }

    /// Whether it may still be written.
    ///
    /// # Errors
    /// [`WriteError::Stopped`] with what ended it.
    pub fn writable(&self) -> Result<(), WriteError> {
        self.health.check()
    }

    /// An orderly end: everything is on the disk, and the next one to open it can tell damage to the last records from
    /// a crash.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn close(&self) -> Result<(), WriteError> {
        self.log.close()
    }

    fn log_place(&self) -> LogPlace {
        LogPlace { files: Arc::clone(&self.files), path: self.path.clone(), folder: self.opened.folder }
    }
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Folder({})", self.path.display())
    }
}

/// Whether a record is part of what is restored.
fn is_until(until: Until, record: &Record) -> bool {
    match until {
        Until::Lsn(lsn) => record.lsn <= lsn,
        Until::TimeUs(time_us) => record.time_us <= time_us,
    }
}
