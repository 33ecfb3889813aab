//! Checkpoints: what is in memory and not on the disk yet is written, then the manifest says what belongs together.
//!
//! # Invariants
//! - A column or dictionary that is on the disk is not written again, whichever segment has it.
//! - Until the manifest has its name the old checkpoint is whole: nothing that it refers to is removed before.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::MutexGuard;
use storage::persist::{Written, write_column, write_dictionary};
use storage::{Column, ColumnId, DictionaryId, Segment, StoreError};

use super::Folder;
use crate::data::{DataFile, ItemPlace, Pace, data_number, data_path, write_data};
use crate::error::{ReadError, WriteError};
use crate::log::Lsn;
use crate::manifest::{ColumnEntry, Manifest, SegmentEntry};

/// A checkpoint that is being made; dropped before it is [committed](Checkpoint::commit), it leaves nothing.
pub struct Checkpoint<'a> {
    folder: &'a Folder,
    pace: &'a Pace<'a>,
    before: Arc<Manifest>,
    segments: Vec<SegmentEntry>,
    /// Files that were written for it.
    written: BTreeMap<u64, DataFile>,
    columns: HashMap<ColumnId, ItemPlace>,
    dictionaries: HashMap<DictionaryId, ItemPlace>,
    is_done: bool,
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
    /// Begins a checkpoint, once others and backups have ended. `pace` is asked before anything large is written.
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
            written: BTreeMap::new(),
            columns: HashMap::new(),
            dictionaries: HashMap::new(),
            is_done: false,
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
        self.folder.health.check()?;
        self.write_dictionaries(segment)?;
        self.write_columns(segment)?;
        let entry = |column: &Arc<Column>| {
            let dictionary = column.as_coded().map(|coded| coded.dictionary().id());
            let dictionary = dictionary.and_then(|id| self.dictionary(id));
            let place = column.id().and_then(|id| self.column(id)).expect("every column was written");
            ColumnEntry { place, dictionary }
        };
        let columns = segment.columns().iter().map(entry).collect();
        self.segments.push(SegmentEntry { rows: segment.rows() as u32, columns });
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
        let files = self.before.files.iter().chain(self.written.values()).filter(|file| used.contains(&file.number));
        let manifest = Manifest {
            folder: self.before.folder,
            number: self.before.number + 1,
            contains: contains.0,
            log_file: folder.log.file_of(next),
            time_us: folder.log.last_time_us(),
            files: files.copied().collect(),
            segments: std::mem::take(&mut self.segments),
            catalog: catalog.to_vec(),
        };
        manifest.put(&*folder.files, &folder.path, &folder.health)?;
        self.is_done = true;
        let manifest = Arc::new(manifest);
        let mut known = folder.known.lock();
        known.manifest = Arc::clone(&manifest);
        known.columns.extend(self.columns.drain());
        known.dictionaries.extend(self.dictionaries.drain());
        // What the manifest does not have is not on the disk any more.
        known.columns.retain(|_, place| used.contains(&place.file));
        known.dictionaries.retain(|_, place| used.contains(&place.file));
        drop(known);
        let removed = folder.remove_unused(&manifest);
        let bytes = self.written.values().map(|file| file.bytes).sum();
        Ok(CheckpointReport { files: self.written.len(), bytes, removed })
    }

    /// The files that its segments have something of.
    fn used(&self) -> HashSet<u64> {
        let columns = self.segments.iter().flat_map(|segment| &segment.columns);
        columns.flat_map(|column| [Some(column.place), column.dictionary]).flatten().map(|place| place.file).collect()
    }

    fn column(&self, id: ColumnId) -> Option<ItemPlace> {
        self.columns.get(&id).copied().or_else(|| self.folder.known.lock().columns.get(&id).copied())
    }

    fn dictionary(&self, id: DictionaryId) -> Option<ItemPlace> {
        self.dictionaries.get(&id).copied().or_else(|| self.folder.known.lock().dictionaries.get(&id).copied())
    }

    fn write_dictionaries(&mut self, segment: &Segment) -> Result<(), WriteError> {
        let coded = segment.columns().iter().filter_map(|column| column.as_coded());
        let mut fresh: Vec<DictionaryId> = Vec::new();
        let mut items = Vec::new();
        for dictionary in coded.map(|column| column.dictionary()) {
            if self.dictionary(dictionary.id()).is_none() && !fresh.contains(&dictionary.id()) {
                fresh.push(dictionary.id());
                items.push(written(write_dictionary(dictionary))?);
            }
        }
        let Some(file) = self.write(&items)? else { return Ok(()) };
        self.dictionaries.extend(fresh.into_iter().zip(0..).map(|(id, item)| (id, ItemPlace { file, item })));
        Ok(())
    }

    fn write_columns(&mut self, segment: &Segment) -> Result<(), WriteError> {
        let mut fresh = Vec::new();
        let mut items = Vec::new();
        for column in segment.columns() {
            let id = column.id().expect("tables have no columns of row numbers");
            if self.column(id).is_none() && !fresh.contains(&id) {
                fresh.push(id);
                items.push(written(write_column(column))?);
            }
        }
        let Some(file) = self.write(&items)? else { return Ok(()) };
        self.columns.extend(fresh.into_iter().zip(0..).map(|(id, item)| (id, ItemPlace { file, item })));
        Ok(())
    }

    /// Writes a file of these; none where there are none.
    fn write(&mut self, items: &[Written<'_>]) -> Result<Option<u64>, WriteError> {
        if items.is_empty() {
            return Ok(None);
        }
        let folder = self.folder;
        let number = {
            let mut known = folder.known.lock();
            known.next_file += 1;
            known.next_file - 1
        };
        let path = data_path(&folder.path, number);
        let identity = (self.before.folder, number);
        let file = write_data(&*folder.files, &folder.health, &path, identity, items, self.pace)?;
        self.written.insert(number, file);
        Ok(Some(number))
    }
}

/// What arrow could not write.
fn written<T>(written: Result<T, StoreError>) -> Result<T, WriteError> {
    written.map_err(|error| WriteError::Read(Arc::new(ReadError::Store(error))))
}

impl Drop for Checkpoint<'_> {
    fn drop(&mut self) {
        if !self.is_done && self.folder.health.check().is_ok() {
            for number in self.written.keys() {
                // Best effort: whoever opens the folder removes what nothing refers to.
                let _ = self.folder.files.remove(&data_path(&self.folder.path, *number));
            }
        }
    }
}

impl Folder {
    /// Removes what the checkpoint does not need; what fails is tried again by the next.
    fn remove_unused(&self, manifest: &Manifest) -> usize {
        let Ok(names) = self.files.list(&self.path) else { return 0 };
        let is_unused = |name: &&String| match data_number(name) {
            Some(number) => manifest.file(number).is_none(),
            None => {
                let log = name.strip_prefix("log-").and_then(|number| number.parse::<u64>().ok());
                log.is_some_and(|number| number < manifest.log_file)
            }
        };
        let removed = names.iter().filter(is_unused).filter(|name| self.files.remove(&self.path.join(name)).is_ok());
        let removed = removed.count();
        self.log.forget_before(manifest.log_file);
        removed
    }
}
