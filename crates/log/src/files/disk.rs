//! The files of the system.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use super::{File, Files, Locking};

/// Longest note of a lock's owner that is read.
const OWNER_BYTES_MAX: u64 = 200;
/// Zeros that are written at a time where room cannot be asked for.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// The files of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl File for fs::File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<usize> {
        FileExt::write_at(self, from, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        fs::File::sync_data(self)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Files for Disk {
    fn create(&self, path: &Path, len_bytes: u64) -> io::Result<Box<dyn File>> {
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        if let Err(error) = take_room(&file, len_bytes) {
            drop(file);
            // Best effort: the caller is told of the first error, and whoever opens the folder next removes it.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        match fs::OpenOptions::new().read(true).write(true).open(path) {
            // Who looks at what nothing can write to writes nothing.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(Box::new(fs::File::open(path)?)),
            opened => Ok(Box::new(opened?)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above {
            self.create_folder(above)?;
        }
        fs::create_dir(folder)?;
        self.sync_folder(above.unwrap_or(Path::new(".")))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking> {
        let opened = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = match opened {
            // Where nothing can be written, what is there can be looked at: the folder itself is locked.
            Err(error) if matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem) => {
                fs::File::open(path.parent().unwrap_or(Path::new(".")))?
            }
            opened => opened?,
        };
        match file.try_lock() {
            Ok(()) => {
                // Best effort: a full disk keeps nobody out.
                let mut note = || {
                    file.set_len(0)?;
                    file.seek(SeekFrom::Start(0))?;
                    file.write_all(owner.as_bytes())
                };
                let _: io::Result<()> = note();
                Ok(Locking::Held(Box::new(file)))
            }
            Err(fs::TryLockError::WouldBlock) => {
                let mut note = Vec::new();
                file.take(OWNER_BYTES_MAX).read_to_end(&mut note)?;
                Ok(Locking::Taken(String::from_utf8_lossy(&note).trim().to_owned()))
            }
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        let of = statvfs(folder)?;
        Ok(of.f_bavail.saturating_mul(of.f_frsize))
    }
}

/// Makes an empty file as long as this, all zeros, with its room taken.
fn take_room(file: &fs::File, len_bytes: u64) -> io::Result<()> {
    if len_bytes == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), 0, len_bytes) {
        Ok(()) => return Ok(()),
        // A file system that cannot: what is written takes room as well.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    let mut done = 0;
    while done < len_bytes {
        let count = (len_bytes - done).min(ZEROS.len() as u64) as usize;
        done += FileExt::write_at(file, &ZEROS[..count], done)? as u64;
    }
    Ok(())
}
