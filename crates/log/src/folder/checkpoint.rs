//! Checkpoints: what is in memory and not on the disk yet is written, then the manifest says what belongs together.
//!
//! # Invariants
//! - A column or dictionary that is on the disk is not written again, whichever segment has it.
//! - Until the manifest has its name the old checkpoint is whole: nothing that it refers to is removed before.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::MutexGuard;
use storage::Segment;

use super::{Folder, KeptFiles, Known};
use crate::data::{DataFile, ItemPlace, Pace, data_number};
use crate::error::WriteError;
use crate::manifest::{Manifest, SegmentEntry};
use crate::point::Lsn;

/// A checkpoint that is being made; dropped before it is [committed](Checkpoint::commit), it leaves nothing.
pub struct Checkpoint<'a> {
    folder: &'a Folder,
    pace: &'a Pace<'a>,
    before: Arc<Manifest>,
    segments: Vec<SegmentEntry>,
    kept: Vec<KeptFiles>,
    _turn: MutexGuard<'a, ()>,
}

/// What a checkpoint did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Files of data that were written.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are gone: of data, and of the log.
    pub removed: usize,
}

impl Folder {
    /// Begins a checkpoint, once others have ended. `pace` is asked before anything large is written.
    ///
    /// # Errors
    /// [`WriteError::Stopped`].
    pub fn checkpoint<'a>(&'a self, pace: &'a Pace<'a>) -> Result<Checkpoint<'a>, WriteError> {
        let turn = self.turn.lock();
        self.health.check()?;
        Ok(Checkpoint {
            folder: self,
            pace,
            before: Arc::clone(&self.known.lock().manifest),
            segments: Vec::new(),
            kept: Vec::new(),
            _turn: turn,
        })
    }
}

impl Checkpoint<'_> {
    /// Puts a segment into the checkpoint and returns its number there: those of its columns and dictionaries that are
    /// not on the disk are written. Deleted rows and indexes are not part of it.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn segment(&mut self, segment: &Segment) -> Result<usize, WriteError> {
        let (kept, entry) = self.folder.kept(segment, self.pace)?;
        self.kept.push(kept);
        self.segments.push(entry);
        Ok(self.segments.len() - 1)
    }

    /// Makes it the folder's checkpoint, with the caller's `catalog`. It has what the log says up to the record
    /// `contains`, which is not replayed again; files that only older checkpoints needed are removed.
    ///
    /// # Errors
    /// [`WriteError`]: the older checkpoint stays.
    pub fn commit(mut self, contains: Lsn, catalog: &[u8]) -> Result<CheckpointReport, WriteError> {
        let folder = self.folder;
        assert!(contains >= Lsn(self.before.contains), "a checkpoint has what the one before it had");
        if contains.0 > 0 {
            folder.log.wait_durable(contains)?;
        }
        let next = Lsn(contains.0 + 1);
        let used = self.used();
        let loose: Vec<DataFile> = folder.known.lock().loose.values().copied().collect();
        let files = self.before.files.iter().chain(&loose).filter(|file| used.contains(&file.number));
        let mut files: Vec<DataFile> = files.copied().collect();
        files.sort_unstable_by_key(|file| file.number);
        let before = folder.keep_manifest(&self.before)?;
        let manifest = Manifest {
            folder: self.before.folder,
            number: self.before.number + 1,
            contains: contains.0,
            log_file: folder.log.file_of(next),
            time_us: folder.log.now_us(),
            files,
            segments: std::mem::take(&mut self.segments),
            catalog: catalog.to_vec(),
        };
        manifest.put(&*folder.files, &folder.path, &folder.health)?;
        let manifest = Arc::new(manifest);
        let mut known = folder.known.lock();
        let fresh = known.loose.extract_if(.., |number, _| used.contains(number)).map(|(_, file)| file);
        let fresh: Vec<DataFile> = fresh.collect();
        // Those that are held and in no checkpoint any more go when they are let go.
        for file in self.before.files.iter().filter(|file| manifest.file(file.number).is_none()) {
            if known.pins.contains_key(&file.number) {
                known.loose.insert(file.number, *file);
            }
        }
        known.manifest = Arc::clone(&manifest);
        known.history.extend(before);
        let Known { columns, dictionaries, loose, .. } = &mut *known;
        let is_there = |place: &ItemPlace| used.contains(&place.file) || loose.contains_key(&place.file);
        columns.retain(|_, of| is_there(&of.place) && of.dictionary.as_ref().is_none_or(is_there));
        dictionaries.retain(|_, place| is_there(place));
        drop(known);
        folder.forget_history();
        let removed = folder.remove_unused(&manifest);
        Ok(CheckpointReport { files: fresh.len(), bytes: fresh.iter().map(|file| file.bytes).sum(), removed })
    }

    /// The files that its segments have something of.
    fn used(&self) -> HashSet<u64> {
        let columns = self.segments.iter().flat_map(|segment| &segment.columns);
        columns.flat_map(|column| [Some(column.place), column.dictionary]).flatten().map(|place| place.file).collect()
    }
}

impl Folder {
    /// Removes what the checkpoint does not need; what fails is tried again by the next.
    fn remove_unused(&self, manifest: &Manifest) -> usize {
        let Ok(names) = self.files.list(&self.path) else { return 0 };
        // What is being written has no place yet, and a number that is not below the next.
        let known = self.known.lock();
        let older = known.history.iter().map(|kept| kept.log_file);
        let first_log = known.log_pins.iter().copied().chain(older).fold(manifest.log_file, u64::min);
        let older: HashSet<u64> = known.history.iter().flat_map(|kept| &kept.files).map(|file| file.number).collect();
        let is_unused = |name: &&String| match data_number(name) {
            Some(number) => !older.contains(&number) && self.is_forgotten(&known, manifest, number),
            None => {
                let log = name.strip_prefix("log-").and_then(|number| number.parse::<u64>().ok());
                log.is_some_and(|number| number < first_log)
            }
        };
        let unused: Vec<&String> = names.iter().filter(is_unused).collect();
        let removed = unused.into_iter().filter(|name| self.files.remove(&self.path.join(name)).is_ok()).count();
        drop(known);
        self.log.forget_before(first_log);
        removed
    }

    /// Whether a file was once of a checkpoint, or of a process before this one, and of nobody now.
    fn is_forgotten(&self, known: &Known, manifest: &Manifest, number: u64) -> bool {
        manifest.file(number).is_none()
            && !known.loose.contains_key(&number)
            && !known.pins.contains_key(&number)
            && !known.writing.contains(&number)
    }
}
