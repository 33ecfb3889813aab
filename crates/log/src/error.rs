//! What can go wrong between memory and disk, and the end of writing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use storage::persist::ReadBackError;

use crate::files::{Files, is_full};
use crate::point::Until;

/// Why something was not written. What was written before stays, and reading goes on.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// The disk has no room. What was asked for was not done and nothing else is harmed: writing goes on when there is
    /// room.
    #[error("no room on the disk for {}, {free_bytes} bytes are free; make room and try again", path.display())]
    Full {
        /// What had no room.
        path: PathBuf,
        /// What the disk had left, as far as it says.
        free_bytes: u64,
    },
    /// A write or a sync failed, so nobody knows what is on the disk, and nothing is written any more.
    #[error("{cause}; nothing is written any more, reading goes on; mend the disk, then open the folder again")]
    Stopped {
        /// The first error, with its file.
        cause: String,
    },
    /// A record is longer than records may be.
    #[error("a commit of {bytes} bytes is too long for the log, at most {bytes_max} fit; commit less at a time")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// Whoever paces the work said that it shall end.
    #[error("the work was stopped before it was done")]
    Cancelled,
    /// A copy is to go where something is.
    #[error("{} is not empty; name a new folder", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A copy could not be written; the database is not harmed.
    #[error("{cause}; the copy is not whole, remove it and try again elsewhere")]
    NotWhole {
        /// The first error, with its file.
        cause: String,
    },
    /// What a backup copies cannot be read.
    #[error(transparent)]
    Read(#[from] std::sync::Arc<ReadError>),
}

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file is not what was written.
    #[error("{} is damaged at byte {offset}: {what}; restore the folder from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A file that others refer to is not there.
    #[error("{} is missing: {what}; restore the folder from a backup", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// Who refers to it.
        what: String,
    },
    /// A file has another version of the format than this program reads.
    #[error(
        "{} has format version {found}, this program reads {supported}; open it with the program that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        supported: u32,
    },
    /// The system could not read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its error.
        error: io::Error,
    },
    /// There is no room in memory, or the statement was cancelled.
    #[error(transparent)]
    Store(#[from] storage::StoreError),
}

/// Why a folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{} is in use by {owner}; a folder belongs to one process at a time", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Who, as they wrote it.
        owner: String,
    },
    /// It has no database.
    #[error("{} is no database folder: it has no file \"manifest\"", path.display())]
    NotADatabase {
        /// The folder.
        path: PathBuf,
    },
    /// A new database is to go where something is.
    #[error("{} is not empty; create the database in a new folder", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The point to restore to does not lie between the checkpoint and the end of the log.
    #[error("{} cannot be restored to {wanted}: its log has {first} to {last}", path.display())]
    OutOfLog {
        /// The folder.
        path: PathBuf,
        /// What was asked for.
        wanted: Until,
        /// The earliest point.
        first: Until,
        /// The latest point.
        last: Until,
    },
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ReadError {
    /// The error of the system at a file.
    pub(crate) fn io(path: &Path, error: io::Error) -> ReadError {
        ReadError::Io { path: path.to_path_buf(), error }
    }

    /// Damage at a byte of a file.
    pub(crate) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> ReadError {
        ReadError::Damaged { path: path.to_path_buf(), offset, what: what.into() }
    }

    /// What went wrong while a file's contents were brought into memory; `offset` is where they begin.
    pub(crate) fn read_back(path: &Path, offset: u64, error: ReadBackError) -> ReadError {
        match error {
            ReadBackError::Malformed(what) => ReadError::damaged(path, offset, what),
            ReadBackError::Store(error) => ReadError::Store(error),
            ReadBackError::Source(error) => match error.downcast::<ReadError>() {
                Ok(error) => *error,
                Err(error) => ReadError::damaged(path, offset, error.to_string()),
            },
        }
    }
}

/// What a failed write means: no room, or the end of writing.
pub(crate) fn failed(files: &dyn Files, health: &Health, path: &Path, what: &str, error: &io::Error) -> WriteError {
    if !is_full(error) {
        return health.stop(path, what, error);
    }
    let free_bytes = files.free_bytes(path.parent().unwrap_or(path)).unwrap_or(0);
    WriteError::Full { path: path.to_path_buf(), free_bytes }
}

/// Whether a folder may still be written. The first failure ends that for all who write there.
#[derive(Debug, Default)]
pub(crate) struct Health(OnceLock<String>);

impl Health {
    /// Fails where writing has ended.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        match self.0.get() {
            Some(cause) => Err(WriteError::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Ends writing for a cause; of several the first stays.
    pub(crate) fn end(&self, cause: &str) {
        self.0.get_or_init(|| cause.to_owned());
    }

    /// Ends writing; of several causes the first stays.
    pub(crate) fn stop(&self, path: &Path, what: &str, error: &io::Error) -> WriteError {
        let cause = self.0.get_or_init(|| format!("{}: {what} failed: {error}", path.display()));
        WriteError::Stopped { cause: cause.clone() }
    }
}
