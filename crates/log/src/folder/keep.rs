//! Segments on the disk before a checkpoint has them, so that the checkpoint that commits them is short.
//!
//! # Invariants
//! - A column or dictionary that is on the disk is not written again, whichever segment has it.
//! - A file that is in no checkpoint is there as long as somebody holds it; then it goes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use storage::persist::{Written, write_column, write_dictionary};
use storage::{Column, ColumnId, DictionaryId, Segment, StoreError};

use super::{Folder, Known};
use crate::data::{DataFile, ItemPlace, Pace, data_path, write_data};
use crate::error::{ReadError, WriteError};
use crate::files::Files;
use crate::manifest::{ColumnEntry, SegmentEntry};

/// Files that stay where they are as long as this is held, whatever checkpoints are made meanwhile.
#[derive(Debug)]
pub struct KeptFiles {
    known: Arc<Mutex<Known>>,
    files: Arc<dyn Files>,
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
        let mut columns = Vec::with_capacity(segment.columns().len());
        let mut fresh: Vec<(usize, &Column, ColumnId)> = Vec::new();
        for column in segment.columns() {
            let id = column.id().expect("tables have no columns of row numbers");
            let known = kept.find(|known| known.columns.get(&id));
            let place = match (known, fresh.iter().position(|(_, _, other)| *other == id)) {
                (Some(place), _) => Ok(place),
                // Twice in one segment: it is written once.
                (None, Some(twin)) => Err(fresh[twin].0),
                (None, None) => {
                    fresh.push((columns.len(), column, id));
                    Err(columns.len())
                }
            };
            columns.push((place, self.dictionary_of(column, &mut kept, pace)?));
        }
        let items = fresh.iter().map(|(_, column, _)| written(write_column(column))).collect::<Result<Vec<_>, _>>()?;
        let file = self.write_file(&items, &mut kept, pace)?;
        let place_of = |number: usize| {
            let item = fresh.iter().position(|(place, _, _)| *place == number)?;
            Some(ItemPlace { file: file?, item: item as u32 })
        };
        let mut known = self.known.lock();
        known.columns.extend(fresh.iter().filter_map(|(place, _, id)| Some((*id, place_of(*place)?))));
        drop(known);
        let entry = |(place, dictionary): (Result<ItemPlace, usize>, Option<ItemPlace>)| {
            let place = place.or_else(|number| place_of(number).ok_or(number));
            ColumnEntry { place: place.expect("every column was written"), dictionary }
        };
        let columns = columns.into_iter().map(entry).collect();
        Ok((kept, SegmentEntry { rows: segment.rows() as u32, columns }))
    }

    /// Nothing yet.
    pub(super) fn hold(&self) -> KeptFiles {
        KeptFiles {
            known: Arc::clone(&self.known),
            files: Arc::clone(&self.files),
            path: self.path.clone(),
            numbers: BTreeSet::new(),
        }
    }

    /// Where the dictionary of a column is, which is written if it is not there yet.
    fn dictionary_of(
        &self,
        column: &Column,
        kept: &mut KeptFiles,
        pace: &Pace<'_>,
    ) -> Result<Option<ItemPlace>, WriteError> {
        let Some(dictionary) = column.as_coded().map(|coded| coded.dictionary()) else { return Ok(None) };
        let id: DictionaryId = dictionary.id();
        if let Some(place) = kept.find(|known| known.dictionaries.get(&id)) {
            return Ok(Some(place));
        }
        let file = self.write_file(&[written(write_dictionary(dictionary))?], kept, pace)?;
        let place = file.map(|file| ItemPlace { file, item: 0 });
        self.known.lock().dictionaries.extend(place.map(|place| (id, place)));
        Ok(place)
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
    /// A place on the disk, whose file is held from now on; `None` where there is none.
    fn find(&mut self, of: impl FnOnce(&Known) -> Option<&ItemPlace>) -> Option<ItemPlace> {
        let mut known = self.known.lock();
        let place = of(&known).copied()?;
        if self.numbers.insert(place.file) {
            known.pin(place.file);
        }
        Some(place)
    }

    /// Holds all files of the last checkpoint as well.
    pub(super) fn hold_checkpoint(&mut self) {
        let mut known = self.known.lock();
        let manifest = Arc::clone(&known.manifest);
        for file in manifest.files.iter().filter(|file| self.numbers.insert(file.number)) {
            known.pin(file.number);
        }
    }
}

/// What arrow could not write.
fn written<T>(written: Result<T, StoreError>) -> Result<T, WriteError> {
    written.map_err(|error| WriteError::Read(Arc::new(ReadError::Store(error))))
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
            known.columns.retain(|_, place| place.file != file);
            known.dictionaries.retain(|_, place| place.file != file);
            // Best effort: whoever opens the folder removes what nothing refers to.
            let _ = self.files.remove(&data_path(&self.path, file));
        }
    }
}
