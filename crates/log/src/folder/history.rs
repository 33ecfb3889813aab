//! Checkpoints before the last one, which a folder is restored from.
//!
//! Rows of a log's records are named by where they are in the checkpoint before them, so going back to a time takes the
//! last checkpoint before it, and the log from there on. As long as a folder has a *window*, checkpoints keep their
//! manifests under names of their own, with all data and log that they need.
//!
//! # Invariants
//! - A manifest of the history was the folder's once, byte by byte; its number is below that of the last checkpoint.
//! - What it refers to is removed after its name is, on the disk too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::{Folder, Known};
use crate::data::DataFile;
use crate::error::{ReadError, WriteError};
use crate::files::Files;
use crate::manifest::{Manifest, NAME};

/// The window of a folder whose caller has not said one: checkpoints neither add to the history nor take away from it.
pub(super) const WINDOW_AS_IT_IS: u64 = u64::MAX;

/// What a checkpoint of the history needs.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) number: u64,
    pub(crate) time_us: u64,
    pub(crate) log_file: u64,
    pub(crate) files: Vec<DataFile>,
}

impl Kept {
    pub(crate) fn of(manifest: &Manifest) -> Kept {
        let Manifest { number, time_us, log_file, .. } = *manifest;
        Kept { number, time_us, log_file, files: manifest.files.clone() }
    }
}

impl Folder {
    /// For how long back the folder can be restored to any point of time, in microseconds: what checkpoints from now on
    /// keep; 0 for the last checkpoint alone. What older windows kept goes with the next checkpoint.
    pub fn set_window(&self, us: u64) {
        self.window_us.store(us, Ordering::Relaxed);
    }

    /// The earliest point of time that the folder can be restored to, in microseconds since 1970.
    pub fn restorable_from(&self) -> u64 {
        let known = self.known.lock();
        known.history.first().map_or(known.manifest.time_us, |first| first.time_us)
    }

    /// Bytes of data that only checkpoints before the last one need.
    pub fn history_bytes(&self) -> u64 {
        let known = self.known.lock();
        let of_last = |file: &&DataFile| known.manifest.file(file.number).is_none();
        let files = known.history.iter().flat_map(|kept| &kept.files).filter(of_last);
        let once: BTreeSet<(u64, u64)> = files.map(|file| (file.number, file.bytes)).collect();
        once.into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// Gives the last checkpoint's manifest a name that lasts, before another one takes its place; where there is a
    /// window.
    pub(super) fn keep_manifest(&self, before: &Manifest) -> Result<Option<Kept>, WriteError> {
        if [0, WINDOW_AS_IT_IS].contains(&self.window_us.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        let (from, to) = (self.path.join(NAME), kept_path(&self.path, before.number));
        // Of a checkpoint that came no further than this.
        let _ = self.files.remove(&to);
        if self.files.link(&from, &to).is_err() {
            // There are file systems in which a file has one name.
            before.write(&*self.files, &to, &to, &self.health)?;
        }
        // Without it the history would have a gap once the next one is there.
        let synced = self.files.sync_folder(&self.path);
        synced.map_err(|error| self.health.stop(&self.path, "syncing the folder", &error))?;
        Ok(Some(Kept::of(before)))
    }

    /// Lets go of what is older than the window, on the disk before anything that it needs may go. What cannot be
    /// removed is tried again by the next checkpoint; a sync that fails ends writing.
    pub(super) fn forget_history(&self) {
        let window_us = self.window_us.load(Ordering::Relaxed);
        let from_us = self.log.now_us().saturating_sub(window_us);
        let mut known = self.known.lock();
        let Known { history, manifest, .. } = &mut *known;
        let ends = history.iter().skip(1).map(|kept| kept.time_us).chain([manifest.time_us]);
        let old = match window_us {
            0 => history.len(),
            _ => ends.take_while(|end| *end <= from_us).count(),
        };
        if old == 0 {
            return;
        }
        let gone = history[..old].iter().map(|kept| kept_path(&self.path, kept.number));
        let is_gone = |path: PathBuf| {
            let removed = self.files.remove(&path);
            removed.is_ok() || removed.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        let gone = gone.take_while(|path| is_gone(path.clone())).count();
        match self.files.sync_folder(&self.path) {
            Ok(()) => drop(history.drain(..gone)),
            Err(error) => drop(self.health.stop(&self.path, "syncing the folder", &error)),
        }
    }
}

impl Known {
    /// Whether a checkpoint before the last one needs a file.
    pub(super) fn is_in_history(&self, file: u64) -> bool {
        self.history.iter().any(|kept| kept.files.iter().any(|of| of.number == file))
    }
}

/// That the checkpoint which follows one is there.
///
/// # Errors
/// [`ReadError::Missing`].
pub(super) fn is_followed(path: &Path, of: &Manifest, next: Option<&Manifest>) -> Result<(), ReadError> {
    match next.is_none_or(|next| next.number == of.number + 1) {
        true => Ok(()),
        false => {
            let what = "going back to the time behind the checkpoint before it needs it".to_owned();
            Err(ReadError::Missing { path: kept_path(path, of.number + 1), what })
        }
    }
}

/// The name of a manifest of the history.
pub(super) fn kept_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{NAME}-{number:016}"))
}

/// The number of a manifest of the history, by its name.
fn kept_number(name: &str) -> Option<u64> {
    name.strip_prefix(NAME)?.strip_prefix('-')?.parse().ok()
}

/// The manifests of the history, by their numbers, each or why it cannot be read.
///
/// # Errors
/// The folder cannot be listed.
pub(super) fn read_history(
    files: &dyn Files,
    path: &Path,
    newest: &Manifest,
) -> Result<Vec<Result<Manifest, ReadError>>, ReadError> {
    let names = files.list(path).map_err(|error| ReadError::io(path, error))?;
    // One of the same number as the last checkpoint was about to be replaced when the process ended.
    let numbers: BTreeSet<u64> =
        names.iter().filter_map(|name| kept_number(name)).filter(|number| *number < newest.number).collect();
    let read = |number: u64| {
        let path = kept_path(path, number);
        let manifest = Manifest::read_file(files, &path)?;
        match manifest.folder == newest.folder && manifest.number == number {
            true => Ok(manifest),
            false => Err(ReadError::damaged(&path, 16, "the file belongs to another folder or has another number")),
        }
    };
    Ok(numbers.into_iter().map(read).collect())
}
