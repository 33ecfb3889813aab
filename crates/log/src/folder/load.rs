//! Segments of the checkpoint, whose columns come from the disk into memory when they are read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use numa::Reservation;
use parking_lot::Mutex;
use storage::persist::{read_column, read_dictionary};
use storage::{
    Column, ColumnAllocator, ColumnOnDisk, ColumnPlacement, ColumnSource, Dictionary, Placement, Segment, StoreError,
    StoredColumn, UnreadColumn, UnreadColumns,
};

use super::{Folder, KeptFiles};
use crate::data::{ItemPlace, OpenData, data_path};
use crate::error::ReadError;
use crate::manifest::{ColumnEntry, NAME};

/// A column of the checkpoint that nobody has read yet, whose files stay.
struct Unread {
    folder: Arc<Folder>,
    of: ColumnEntry,
    rows: usize,
    allocator: ColumnAllocator,
    place: usize,
    /// The memory that it will take, and its dictionary where no other column has reserved that: nobody else gets it.
    reserved: Mutex<Option<Reservation>>,
    _kept: KeptFiles,
    _counted: Vec<UnreadColumn>,
}

impl ColumnSource for Unread {
    fn read(&self) -> Result<Column, StoreError> {
        let reserved = self.reserved.lock().take();
        let bytes = reserved.as_ref().map(Reservation::bytes);
        drop(reserved);
        self.folder.read(self).map_err(|error| {
            // Whoever tries again finds it where nobody was quicker.
            *self.reserved.lock() = bytes.and_then(|bytes| reserve(&self.allocator, bytes).ok().flatten());
            match error {
                ReadError::Store(error) => error,
                error => StoreError::Source(Box::new(error)),
            }
        })
    }
}

/// Files that are read for one column or segment, each opened once.
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

    /// A segment of the checkpoint, whose columns stay on the disk until they are read: then they go into memory of
    /// `allocators`, one for each; `place` is its number within its part. Segments that shared a dictionary share it
    /// again. Several threads may read at once; what is on the disk is not written again by the next checkpoint, and
    /// stays there until it is read, whatever checkpoints are made meanwhile. Until then each counts in all of
    /// `unread`.
    ///
    /// # Errors
    /// [`ReadError`]: its files are not there, or are not those that the checkpoint refers to; there is no memory.
    ///
    /// # Panics
    /// For a segment that the checkpoint does not have, or another number of allocators than of columns.
    pub fn segment(
        self: &Arc<Folder>,
        segment: usize,
        allocators: Vec<ColumnAllocator>,
        place: usize,
        unread: &[&UnreadColumns],
    ) -> Result<Segment, ReadError> {
        let entry = &self.opened.segments[segment];
        assert_eq!(entry.columns.len(), allocators.len(), "an allocator for each column");
        let mut sources = Sources { folder: self, open: HashMap::new() };
        let rows = entry.rows as usize;
        let mut columns = Vec::with_capacity(entry.columns.len());
        for (of, allocator) in entry.columns.iter().zip(allocators) {
            let data = sources.open(of.place.file)?;
            data.item(of.place.item)?;
            let ColumnPlacement { codes, dictionary, .. } = &allocator.placement;
            let mut bytes = data.item_bytes(of.place.item) * copies(codes);
            if let Some(at) = of.dictionary {
                let data = sources.open(at.file)?;
                data.item(at.item)?;
                if let Entry::Vacant(first) = self.dictionaries.lock().entry(at) {
                    first.insert(Arc::default());
                    bytes += data.item_bytes(at.item) * copies(dictionary);
                }
            }
            let reserved = Mutex::new(reserve(&allocator, bytes)?);
            let mut kept = self.hold();
            kept.pin(of);
            let source = Unread {
                folder: Arc::clone(self),
                of: *of,
                rows,
                allocator,
                place,
                reserved,
                _kept: kept,
                _counted: unread.iter().map(|unread| unread.one_more()).collect(),
            };
            let column = ColumnOnDisk::new(rows, Box::new(source));
            self.known.lock().columns.insert(column.id(), *of);
            columns.push(StoredColumn::OnDisk(Arc::new(column)));
        }
        Ok(Segment::stored(rows, columns))
    }

    /// Reads a column.
    fn read(&self, unread: &Unread) -> Result<Column, ReadError> {
        let Unread { of, rows, allocator, place, .. } = unread;
        let mut sources = Sources { folder: self, open: HashMap::new() };
        let dictionary = of.dictionary.map(|at| self.dictionary(at, &mut sources, allocator)).transpose()?;
        let data = sources.open(of.place.file)?;
        let (head, blobs, offset) = data.item(of.place.item)?;
        let column = read_column(head, &blobs, dictionary.as_ref(), allocator, *place);
        let column = column.map_err(|error| ReadError::read_back(data.path(), offset, error))?;
        if column.len() != *rows {
            let what = format!("a column of {} rows in a segment of {rows}", column.len());
            return Err(ReadError::damaged(data.path(), offset, what));
        }
        if let (Some(coded), Some(at)) = (column.as_coded(), of.dictionary) {
            self.known.lock().dictionaries.insert(coded.dictionary().id(), at);
        }
        Ok(column)
    }

    /// The dictionary at a place; who comes second waits for the one who reads it.
    fn dictionary(
        &self,
        place: ItemPlace,
        sources: &mut Sources<'_>,
        allocator: &ColumnAllocator,
    ) -> Result<Arc<Dictionary>, ReadError> {
        let slot = Arc::clone(self.dictionaries.lock().entry(place).or_default());
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

/// How often something lies in memory that is placed so.
fn copies(placement: &Placement) -> u64 {
    match placement {
        Placement::Replicated(nodes) => nodes.len() as u64,
        _ => 1,
    }
}

/// Takes memory from the budget that a column's counts in, if it has one.
fn reserve(allocator: &ColumnAllocator, bytes: u64) -> Result<Option<Reservation>, ReadError> {
    let reserved = allocator.allocator.budget().map(|budget| budget.reserve(bytes)).transpose();
    reserved.map_err(|error| ReadError::Store(error.into()))
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
