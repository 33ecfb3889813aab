//! The few calls of a file system that durability rests on, so that tests can put files in their place that lose
//! whatever was not synced.
//!
//! # Invariants
//! Nothing else of this crate touches a disk: what holds for [`Files`] in memory holds for the real ones.
//!
//! # Limits
//! Calls block the calling thread. A folder has no folders in it.

mod disk;
#[cfg(any(test, feature = "testing"))]
pub mod sim;

use std::fmt;
use std::io;
use std::path::Path;

pub use disk::Disk;

/// A file that is open for reading and writing; several threads may use it.
pub trait File: Send + Sync + fmt::Debug {
    /// Reads at most `into.len()` bytes from `offset` on; fewer where the file ends or the system says so.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes the first bytes of `from` and returns how many.
    ///
    /// # Errors
    /// The system's; nothing was written then.
    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<usize>;

    /// Returns when what was written is on the disk, and its length (`fdatasync`). After an error it is not known what
    /// is, and another call that succeeds does not tell either.
    ///
    /// # Errors
    /// The system's.
    fn sync_data(&self) -> io::Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn len_bytes(&self) -> io::Result<u64>;
}

/// What became of asking for a lock.
pub enum Locking {
    /// It is held until this is dropped or the process ends, however it ends.
    Held(Box<dyn Send + Sync>),
    /// Somebody else has it: what they wrote about themselves, empty where they wrote nothing.
    Taken(String),
}

/// Files by their paths.
pub trait Files: Send + Sync + fmt::Debug {
    /// Makes a file of `len_bytes` zeros whose room on the disk is taken.
    ///
    /// # Errors
    /// The system's: one is there already, there is no room.
    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Box<dyn File>>;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Gives a file another name, in place of what has that name. After a crash the old name or the new one is there.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    ///
    /// # Errors
    /// The system's: another disk, a file system without such names.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a file's name away.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names of the files in a folder, in any order.
    ///
    /// # Errors
    /// The system's: there is no such folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes a folder, and those above it, unless it is there.
    ///
    /// # Errors
    /// The system's.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Returns when the names in a folder are on the disk.
    ///
    /// # Errors
    /// The system's; see [`File::sync_data`].
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Asks for the lock that a file stands for, which is made where it is missing; does not wait. `owner` is what
    /// others are told about who has it.
    ///
    /// # Errors
    /// The system's.
    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking>;

    /// Bytes that the disk under a folder has left.
    ///
    /// # Errors
    /// The system's.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
}

/// Fills `into` from `offset` on.
///
/// # Errors
/// The system's, and `UnexpectedEof` where the file ends before.
pub(crate) fn read_exact_at(file: &dyn File, offset: u64, into: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(offset + done as u64, &mut into[done..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The bytes of a whole file.
pub(crate) fn read_whole(files: &dyn Files, path: &Path) -> io::Result<Vec<u8>> {
    let file = files.open(path)?;
    let mut bytes = vec![0; file.len_bytes()? as usize];
    read_exact_at(&*file, 0, &mut bytes)?;
    Ok(bytes)
}

/// Writes all of `from` at `offset`.
///
/// # Errors
/// The system's; a beginning of it may have been written.
pub(crate) fn write_all_at(file: &dyn File, offset: u64, from: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < from.len() {
        match file.write_at(offset + done as u64, &from[done..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether an error says that there is no room: of the disk, or of what the user may have of it.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}
