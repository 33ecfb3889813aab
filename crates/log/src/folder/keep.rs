//! Segments on the disk before a checkpoint has them, so that the checkpoint that commits them is short.
//!
//! # Invariants
//! - A column or dictionary that is on the disk is not written again, whichever segment has it.
//! - A file that is in no checkpoint is there as long as somebody holds it; then it goes.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::persist::{Written, write_column, write_dictionary};
use storage::{Column, ColumnId, DictionaryId, Segment, StoreError};

use super::{Folder, Known};
use crate::data::{DataFile, ItemPlace, Pace, data_path, write_data};
use crate::error::{Health, ReadError, WriteError};
use crate::files::Files;
use crate::manifest::{ColumnEntry, SegmentEntry};

/// Files that stay where they are as long as this is held, whatever checkpoints are made meanwhile.
#[derive(Debug)]
pub struct KeptFiles {
    known: Arc<Mutex<Known>>,
    files: Arc<dyn Files>,
    health: Arc<Health>,
    path: PathBuf,
    numbers: BTreeSet<u64>,
}

impl Folder {
    /// Writes what of a segment is not on the disk yet, beside checkpoints and other segments: a checkpoint that has
    /// the segment then writes nothing of it. What no checkpoint has when it is let go is removed.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn keep(&self, segment: &Segment, pace: &Pace<'_>) -> Result<KeptFiles, WriteError> {
        self.kept(segment, pace).map(|(files, _)| files)
    }

    /// As [`keep`](Self::keep), with what a manifest says of the segment.
    pub(super) fn kept(&self, segment: &Segment, pace: &Pace<'_>) -> Result<(KeptFiles, SegmentEntry), WriteError> {
        self.writable()?;
        let mut kept = self.hold();
        let mut columns = Vec::with_capacity(segment.stored_columns().len());
        let mut fresh: Vec<(ColumnId, &Column)> = Vec::new();
        for column in segment.stored_columns() {
            let id = column.id().expect("tables have no columns of row numbers");
            let known = kept.find_column(id);
            // Twice in one segment: it is written once.
            let is_new = known.is_none() && fresh.iter().all(|(other, _)| *other != id);
            if is_new {
                // What is not on the disk is in memory.
                fresh.push((id, column.load().map_err(unread)?));
            }
            columns.push(known.ok_or(id));
        }
        let dictionaries = self.dictionaries_of(&fresh, &mut kept, pace)?;
        let items = fresh.iter().map(|(_, column)| written(write_column(column))).collect::<Result<Vec<_>, _>>()?;
        let mut entries = HashMap::with_capacity(fresh.len());
        if let Some(file) = self.write_file(&items, &mut kept, pace)? {
            for ((id, column), item) in fresh.iter().zip(0..) {
                let dictionary = column.as_coded().map(|coded| coded.dictionary().id());
                let dictionary = dictionary.and_then(|id| dictionaries.get(&id).copied());
                entries.insert(*id, ColumnEntry { place: ItemPlace { file, item }, dictionary });
            }
            self.known.lock().columns.extend(entries.iter().map(|(id, entry)| (*id, *entry)));
        }
        let columns = columns.into_iter().map(|known| known.unwrap_or_else(|id| entries[&id])).collect();
        Ok((kept, SegmentEntry { rows: segment.rows() as u32, columns }))
    }

    /// Nothing yet.
    pub(super) fn hold(&self) -> KeptFiles {
        KeptFiles {
            known: Arc::clone(&self.known),
            files: Arc::clone(&self.files),
            health: Arc::clone(&self.health),
            path: self.path.clone(),
            numbers: BTreeSet::new(),
        }
    }

    /// Where the dictionaries of some columns are; those that are not there yet are written, into one file.
    fn dictionaries_of(
        &self,
        columns: &[(ColumnId, &Column)],
        kept: &mut KeptFiles,
        pace: &Pace<'_>,
    ) -> Result<HashMap<DictionaryId, ItemPlace>, WriteError> {
        let mut places = HashMap::new();
        let mut fresh: Vec<DictionaryId> = Vec::new();
        let mut items = Vec::new();
        for dictionary in columns.iter().filter_map(|(_, column)| column.as_coded()).map(|of| of.dictionary()) {
            let id = dictionary.id();
            if places.contains_key(&id) || fresh.contains(&id) {
                continue;
            }
            match kept.find_dictionary(id) {
                Some(place) => drop(places.insert(id, place)),
                None => {
                    fresh.push(id);
                    items.push(written(write_dictionary(dictionary))?);
                }
            }
        }
        if let Some(file) = self.write_file(&items, kept, pace)? {
            let fresh = fresh.into_iter().zip(0..).map(|(id, item)| (id, ItemPlace { file, item }));
            places.extend(fresh);
            self.known.lock().dictionaries.extend(places.iter().map(|(id, place)| (*id, *place)));
        }
        Ok(places)
    }

    /// Writes a file of these, which is held; none where there are none.
    fn write_file(
        &self,
        items: &[Written<'_>],
        kept: &mut KeptFiles,
        pace: &Pace<'_>,
    ) -> Result<Option<u64>, WriteError> {
        if items.is_empty() {
            return Ok(None);
        }
        let (folder, number) = {
            let mut known = self.known.lock();
            let number = known.next_file;
            known.next_file += 1;
            known.writing.insert(number);
            (known.manifest.folder, number)
        };
        let path = data_path(&self.path, number);
        let file: Result<DataFile, _> = write_data(&*self.files, &self.health, &path, (folder, number), items, pace);
        let mut known = self.known.lock();
        known.writing.remove(&number);
        known.loose.insert(number, file?);
        known.pin(number);
        kept.numbers.insert(number);
        Ok(Some(number))
    }
}

impl KeptFiles {
    /// Where a column is, whose files are held from now on; `None` where it is nowhere.
    fn find_column(&mut self, id: ColumnId) -> Option<ColumnEntry> {
        let known = Arc::clone(&self.known);
        let mut known = known.lock();
        let of = known.columns.get(&id).copied()?;
        self.pin_files(&mut known, &of);
        Some(of)
    }

    /// Where a dictionary is, whose file is held from now on; `None` where it is nowhere.
    fn find_dictionary(&mut self, id: DictionaryId) -> Option<ItemPlace> {
        let known = Arc::clone(&self.known);
        let mut known = known.lock();
        let place = known.dictionaries.get(&id).copied()?;
        self.pin_file(&mut known, place.file);
        Some(place)
    }

    /// Holds the files that a column lies in.
    pub(super) fn pin(&mut self, of: &ColumnEntry) {
        let known = Arc::clone(&self.known);
        self.pin_files(&mut known.lock(), of);
    }

    fn pin_files(&mut self, known: &mut Known, of: &ColumnEntry) {
        for place in [Some(of.place), of.dictionary].into_iter().flatten() {
            self.pin_file(known, place.file);
        }
    }

    fn pin_file(&mut self, known: &mut Known, file: u64) {
        if self.numbers.insert(file) {
            known.pin(file);
        }
    }

    /// Holds all files of the last checkpoint and of its history as well.
    pub(super) fn hold_checkpoint(&mut self) {
        let mut known = self.known.lock();
        let (manifest, history) = (Arc::clone(&known.manifest), known.history.clone());
        let older = history.iter().flat_map(|kept| &kept.files);
        for file in manifest.files.iter().chain(older).filter(|file| self.numbers.insert(file.number)) {
            known.pin(file.number);
        }
    }
}

/// What could not be read.
fn unread(error: StoreError) -> WriteError {
    WriteError::Read(Arc::new(ReadError::Store(error)))
}

/// What arrow could not write.
fn written<T>(written: Result<T, StoreError>) -> Result<T, WriteError> {
    written.map_err(unread)
}

impl Drop for KeptFiles {
    fn drop(&mut self) {
        let mut known = self.known.lock();
        let free = std::mem::take(&mut self.numbers).into_iter().filter(|file| known.unpin(*file));
        let free: Vec<u64> = free.collect();
        for file in free {
            if known.manifest.file(file).is_some() {
                continue;
            }
            known.loose.remove(&file);
            if known.is_in_history(file) {
                continue;
            }
            known.columns.retain(|_, of| of.place.file != file && of.dictionary.is_none_or(|place| place.file != file));
            known.dictionaries.retain(|_, place| place.file != file);
            if self.health.check().is_err() {
                // A manifest may have its name that nobody knows to be on the disk.
                continue;
            }
            // Best effort: whoever opens the folder removes what nothing refers to.
            let _ = self.files.remove(&data_path(&self.path, file));
        }
    }
}
