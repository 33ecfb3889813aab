//! A copy of a folder beside running writers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::copy::{copy_file, empty_folder, unreadable, write_file};
use super::history::{Kept, kept_path};
use super::{Folder, KeptFiles, Known};
use crate::data::{DataFile, OpenData, Pace, data_path};
use crate::error::{Health, ReadError, WriteError};
use crate::files::read_whole;
use crate::log::Extent;
use crate::manifest::Manifest;
use crate::point::Lsn;

/// What a backup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// Its files.
    pub files: usize,
    /// Bytes that were copied.
    pub bytes: u64,
    /// The last record that it has.
    pub last: Lsn,
}

impl Folder {
    /// Copies the folder to `to`, which is empty or not there: the last checkpoint, those of its history and the log
    /// behind them, as they are when this begins. The copy is opened like any folder, and
    /// [restored](Folder::restore) to any point of time that this one could be. Writers and checkpoints go on
    /// meanwhile. What is copied is checked.
    ///
    /// With `link`, files of data are not copied where both are on one disk, but get a second name: they never change,
    /// so that is as good, except that what damages one damages both. Files of the log change and are always copied.
    ///
    /// # Errors
    /// [`WriteError`]: what was copied so far is not opened by anything and may be removed.
    pub fn backup(&self, to: &Path, link: bool, paced: &Pace<'_>) -> Result<BackupReport, WriteError> {
        // Of the copy: that it cannot be written harms nobody else.
        let health = Health::default();
        self.copy(to, link, paced, &health).map_err(|error| {
            if !matches!(error, WriteError::NotEmpty { .. }) {
                // Best effort: whoever tries again finds it empty.
                let names = self.files.list(to).unwrap_or_default();
                names.iter().for_each(|name| drop(self.files.remove(&to.join(name))));
            }
            match error {
                WriteError::Stopped { cause } if health.check().is_err() => WriteError::NotWhole { cause },
                other => other,
            }
        })
    }

    fn copy(&self, to: &Path, link: bool, paced: &Pace<'_>, health: &Health) -> Result<BackupReport, WriteError> {
        let files = &*self.files;
        empty_folder(files, to, health)?;
        let Held { manifest, history, manifests, extent, .. } = &self.held()?;
        let mut report = BackupReport { files: 1, bytes: 0, last: Lsn(0) };
        let needed = manifest.files.iter().chain(history.iter().flat_map(|kept| &kept.files));
        let needed: BTreeMap<u64, &DataFile> = needed.map(|file| (file.number, file)).collect();
        for file in needed.into_values() {
            let (from, to) = (data_path(&self.path, file.number), data_path(to, file.number));
            let data = OpenData::open(files, &from, manifest.folder, file).map_err(unreadable)?;
            data.check(paced).map_err(|error| error.map_or(WriteError::Cancelled, unreadable))?;
            report.files += 1;
            if !link || files.link(&from, &to).is_err() {
                report.bytes += copy_file(files, &from, &to, None, paced, health)?;
            }
        }
        for (kept, bytes) in history.iter().zip(manifests) {
            report.files += 1;
            report.bytes += write_file(files, &kept_path(to, kept.number), bytes, health)?;
        }
        let (from, place) = (self.log_place(), self.log_place().elsewhere(to));
        for (number, bytes) in extent.files.iter().copied() {
            report.files += 1;
            report.bytes += copy_file(files, &from.file(number), &place.file(number), bytes, paced, health)?;
        }
        report.last = extent.last;
        // With it the copy is a folder; it syncs the names of all.
        manifest.put(files, to, health)?;
        Ok(report)
    }

    /// The last checkpoint, its history and the log behind them, which stay as long as what it gives is held. What is
    /// appended later may rest on a later checkpoint.
    fn held(&self) -> Result<Held, WriteError> {
        let _turn = self.turn.lock();
        let mut files = self.hold();
        files.hold_checkpoint();
        let (manifest, history) = {
            let known = self.known.lock();
            (Arc::clone(&known.manifest), known.history.clone())
        };
        // They go with the next checkpoint, whoever copies what they name.
        let read = |kept: &Kept| {
            let path = kept_path(&self.path, kept.number);
            read_whole(&*self.files, &path).map_err(|error| unreadable(ReadError::io(&path, error)))
        };
        let manifests = history.iter().map(read).collect::<Result<_, _>>()?;
        let first = history.iter().map(|kept| kept.log_file).fold(manifest.log_file, u64::min);
        let extent = self.log.extent(first)?;
        self.known.lock().log_pins.push(first);
        let log = HeldLog { known: Arc::clone(&self.known), first };
        Ok(Held { manifest, history, manifests, extent, _files: files, _log: log })
    }
}

/// What a backup copies, which stays as long as this is held.
struct Held {
    manifest: Arc<Manifest>,
    history: Vec<Kept>,
    /// The bytes of its manifests.
    manifests: Vec<Vec<u8>>,
    extent: Extent,
    _files: KeptFiles,
    _log: HeldLog,
}

/// Files of the log from one on, which stay.
struct HeldLog {
    known: Arc<Mutex<Known>>,
    first: u64,
}

impl Drop for HeldLog {
    fn drop(&mut self) {
        let mut known = self.known.lock();
        let place = known.log_pins.iter().position(|first| *first == self.first);
        place.map(|place| known.log_pins.swap_remove(place));
    }
}
