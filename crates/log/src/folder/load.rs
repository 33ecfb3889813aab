//! Segments of the checkpoint, from the disk into memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use storage::persist::{read_column, read_dictionary};
use storage::{Column, ColumnAllocator, Dictionary, Segment};

use super::Folder;
use crate::data::{ItemPlace, OpenData, data_path};
use crate::error::ReadError;
use crate::manifest::NAME;

/// Files that are read for one segment, each opened once.
struct Sources<'a> {
    folder: &'a Folder,
    open: HashMap<u64, OpenData>,
}

impl Folder {
    /// How many segments the checkpoint has that the folder was opened with.
    pub fn segments(&self) -> usize {
        self.opened.segments.len()
    }

    /// Rows and columns of a segment.
    pub fn segment_shape(&self, segment: usize) -> (usize, usize) {
        let entry = &self.opened.segments[segment];
        (entry.rows as usize, entry.columns.len())
    }

    /// The files that a segment of that checkpoint has something of, with their bytes.
    pub fn segment_files(&self, segment: usize) -> impl Iterator<Item = (u64, u64)> {
        let columns = self.opened.segments[segment].columns.iter();
        let places = columns.flat_map(|column| [Some(column.place), column.dictionary]).flatten();
        places.filter_map(|place| self.opened.file(place.file)).map(|file| (file.number, file.bytes))
    }

    /// Brings a segment of the checkpoint into memory of `allocators`, one for each of its columns; `place` is its
    /// number within its part. Segments that shared a dictionary share it again. Several threads may load at once, each
    /// its own segments; what is loaded is not written again by the next checkpoint.
    ///
    /// # Errors
    /// [`ReadError`].
    ///
    /// # Panics
    /// For a segment that the checkpoint does not have, or another number of allocators than of columns.
    pub fn load_segment(
        &self,
        segment: usize,
        allocators: &[ColumnAllocator],
        place: usize,
    ) -> Result<Segment, ReadError> {
        let entry = &self.opened.segments[segment];
        assert_eq!(entry.columns.len(), allocators.len(), "an allocator for each column");
        let mut sources = Sources { folder: self, open: HashMap::new() };
        let mut columns = Vec::with_capacity(entry.columns.len());
        for (of, allocator) in entry.columns.iter().zip(allocators) {
            let dictionary = of.dictionary.map(|at| self.dictionary(at, &mut sources, allocator)).transpose()?;
            let data = sources.open(of.place.file)?;
            let (head, blobs, offset) = data.item(of.place.item)?;
            let column = read_column(head, &blobs, dictionary.as_ref(), allocator, place);
            let column = column.map_err(|error| ReadError::read_back(data.path(), offset, error))?;
            if column.len() != entry.rows as usize {
                let what = format!("a column of {} rows in a segment of {}", column.len(), entry.rows);
                return Err(ReadError::damaged(data.path(), offset, what));
            }
            columns.push(Arc::new(column));
        }
        let mut known = self.known.lock();
        for (of, column) in entry.columns.iter().zip(&columns) {
            known.columns.extend(column.id().map(|id| (id, of.place)));
            if let (Column::Coded(coded), Some(place)) = (column.as_ref(), of.dictionary) {
                known.dictionaries.insert(coded.dictionary().id(), place);
            }
        }
        Ok(Segment::new(entry.rows as usize, columns))
    }

    /// The dictionary at a place; who comes second waits for the one who reads it.
    fn dictionary(
        &self,
        place: ItemPlace,
        sources: &mut Sources<'_>,
        allocator: &ColumnAllocator,
    ) -> Result<Arc<Dictionary>, ReadError> {
        let slot =
            Arc::clone(self.dictionaries.lock().entry(place).or_insert_with(|| Arc::new(Mutex::new(Weak::new()))));
        let mut slot = slot.lock();
        if let Some(dictionary) = slot.upgrade() {
            return Ok(dictionary);
        }
        let data = sources.open(place.file)?;
        let (head, blobs, offset) = data.item(place.item)?;
        let dictionary = read_dictionary(head, &blobs, allocator);
        let dictionary = Arc::new(dictionary.map_err(|error| ReadError::read_back(data.path(), offset, error))?);
        *slot = Arc::downgrade(&dictionary);
        Ok(dictionary)
    }
}

impl Sources<'_> {
    fn open(&mut self, number: u64) -> Result<&OpenData, ReadError> {
        let folder = self.folder;
        let place = match self.open.entry(number) {
            Entry::Occupied(open) => return Ok(open.into_mut()),
            Entry::Vacant(place) => place,
        };
        let path = data_path(&folder.path, number);
        let Some(expected) = folder.opened.file(number) else {
            let what = format!("a segment refers to {}, which it does not list", path.display());
            return Err(ReadError::damaged(&folder.path.join(NAME), 0, what));
        };
        Ok(place.insert(OpenData::open(&*folder.files, &path, folder.opened.folder, expected)?))
    }
}
