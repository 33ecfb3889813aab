//! Copying files into another folder.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::data::{CHUNK_BYTES, Pace, pace};
use crate::error::{Health, ReadError, WriteError, failed};
use crate::files::{Files, read_exact_at, write_all_at};

/// Makes a folder for a copy.
///
/// # Errors
/// [`WriteError::NotEmpty`], and those of the system.
pub(super) fn empty_folder(files: &dyn Files, to: &Path, health: &Health) -> Result<(), WriteError> {
    files.create_folder(to).map_err(|error| match error.kind() {
        // A file, which is not the copy's.
        io::ErrorKind::AlreadyExists => WriteError::NotEmpty { path: to.to_path_buf() },
        _ => failed(files, health, to, "making the folder", &error),
    })?;
    match files.list(to) {
        Ok(names) if names.is_empty() => Ok(()),
        Ok(_) => Err(WriteError::NotEmpty { path: to.to_path_buf() }),
        Err(error) => Err(health.stop(to, "listing the folder", &error)),
    }
}

/// Copies the first bytes of a file, or all, and syncs it; the copy is as long in any case.
///
/// # Errors
/// [`WriteError`].
pub(super) fn copy_file(
    files: &dyn Files,
    from: &Path,
    to: &Path,
    bytes: Option<u64>,
    paced: &Pace<'_>,
    health: &Health,
) -> Result<u64, WriteError> {
    let unreadable = |error| unreadable(ReadError::io(from, error));
    let source = files.open(from).map_err(unreadable)?;
    let len = source.len_bytes().map_err(unreadable)?;
    let bytes = bytes.unwrap_or(len).min(len);
    let target = files.create(to, len).map_err(|error| failed(files, health, to, "making the file", &error))?;
    let mut buffer = vec![0; CHUNK_BYTES.min(bytes as usize)];
    let mut done = 0;
    while done < bytes {
        let chunk = (bytes - done).min(buffer.len() as u64) as usize;
        pace(paced, chunk)?;
        read_exact_at(&*source, done, &mut buffer[..chunk]).map_err(unreadable)?;
        let written = write_all_at(&*target, done, &buffer[..chunk]);
        written.map_err(|error| failed(files, health, to, "writing", &error))?;
        done += chunk as u64;
    }
    target.sync_data().map_err(|error| health.stop(to, "syncing", &error))?;
    Ok(bytes)
}

/// Writes a file and syncs it.
///
/// # Errors
/// [`WriteError`].
pub(super) fn write_file(files: &dyn Files, to: &Path, bytes: &[u8], health: &Health) -> Result<u64, WriteError> {
    let len = bytes.len() as u64;
    let target = files.create(to, len).map_err(|error| failed(files, health, to, "making the file", &error))?;
    write_all_at(&*target, 0, bytes).map_err(|error| failed(files, health, to, "writing", &error))?;
    target.sync_data().map_err(|error| health.stop(to, "syncing", &error))?;
    Ok(len)
}

/// What is copied cannot be read.
pub(super) fn unreadable(error: ReadError) -> WriteError {
    WriteError::Read(Arc::new(error))
}
