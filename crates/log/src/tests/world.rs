//! A small database: a list of numbers in a table of two columns. A commit adds one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use numa::Allocator;
use parking_lot::Mutex;
use storage::{ColumnAllocator, Segment, Serial, Stager, StoreError, build_part};

use crate::files::Files;
use crate::files::sim::SimFiles;
use crate::log::LogOptions;
use crate::point::Lsn;
use crate::{Folder, FolderOptions, OpenError, ReadError, Until, WriteError};

pub const PATH: &str = "db";

/// What is done.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// A commit that waits for the disk, with so many bytes beside its number.
    Commit(usize),
    /// One that does not.
    Lazy(usize),
    Flush,
    Checkpoint,
    Backup,
    /// Closed in order, and opened.
    Close,
    /// Opened after it was merely dropped.
    Reopen,
}

/// What somebody outside knows.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The numbers in the order of their commits; the last one may be on its way.
    pub numbers: Vec<i64>,
    /// How many of them were promised to last.
    pub durable: usize,
    /// Whether the folder was made.
    pub exists: bool,
    /// Of the backup that was made last, if it was promised.
    pub backup: Option<usize>,
}

pub struct World {
    pub files: SimFiles,
    pub folder: Arc<Folder>,
    pub progress: Arc<Mutex<Progress>>,
    segments: Vec<Arc<Segment>>,
    in_segments: usize,
    numbers: Vec<i64>,
    next: i64,
    backups: usize,
    options: FolderOptions,
}

/// A log that writes each record when it is appended, and one that writes several together.
pub const BUFFER_BYTES: [usize; 2] = [0, 600];

pub fn options(buffer_bytes: usize) -> FolderOptions {
    FolderOptions { log: LogOptions { file_bytes: 1024, buffer_bytes, clock: || 7 }, until: None }
}

pub fn shared(files: &SimFiles) -> Arc<dyn Files> {
    Arc::new(files.clone())
}

fn schema() -> SchemaRef {
    let fields = vec![Field::new("n", DataType::Int64, true), Field::new("s", DataType::Utf8View, true)];
    Arc::new(Schema::new(fields))
}

fn text(number: i64) -> String {
    format!("the number {} of many", number % 3)
}

fn allocators() -> [ColumnAllocator; 2] {
    [ColumnAllocator::unplaced(), ColumnAllocator::unplaced()]
}

fn segment_of(numbers: &[i64]) -> Arc<Segment> {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.iter().map(|number| text(*number))));
    let texts = arrow::compute::cast(&texts, &DataType::Utf8View).unwrap();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(numbers.to_vec())), texts];
    let mut stager = Stager::new(schema(), Allocator::unplaced());
    stager.append(&RecordBatch::try_new(schema(), columns).unwrap()).unwrap();
    let part = build_part(&schema(), vec![stager.finish().unwrap()], &allocators(), &Serial).unwrap();
    Arc::clone(&part.segments[0].segment)
}

fn numbers_of(segment: &Segment) -> Vec<i64> {
    let numbers = segment.column(0).slice(0..segment.rows()).as_primitive::<Int64Type>().values().to_vec();
    let texts = segment.column(1).slice(0..segment.rows());
    assert!(numbers.iter().zip(texts.as_string_view()).all(|(n, s)| s == Some(text(*n).as_str())));
    assert_eq!(texts.len(), numbers.len());
    numbers
}

/// A segment of the checkpoint, all of it in memory.
pub fn loaded(
    folder: &Arc<Folder>,
    segment: usize,
    allocators: &[ColumnAllocator],
    place: usize,
) -> Result<Segment, ReadError> {
    let segment = folder.segment(segment, allocators.to_vec(), place, &[])?;
    for column in segment.stored_columns() {
        column.load().map_err(|error| match error {
            StoreError::Source(error) => *error.downcast::<ReadError>().unwrap(),
            error => ReadError::Store(error),
        })?;
    }
    Ok(segment)
}

/// A folder, its segments, and all numbers.
pub type Recovered = (Arc<Folder>, Vec<Arc<Segment>>, Vec<i64>);

/// Opens a folder as a database does: its segments, and all numbers.
pub fn recovered(files: &SimFiles, path: &str, until: Option<Until>) -> Result<Recovered, OpenError> {
    recovered_with(files, path, &FolderOptions { until, ..options(0) })
}

fn recovered_with(files: &SimFiles, path: &str, options: &FolderOptions) -> Result<Recovered, OpenError> {
    let folder = Arc::new(Folder::open(shared(files), Path::new(path), options)?);
    let load = |segment| loaded(&folder, segment, &allocators(), segment).map(Arc::new);
    let segments = (0..folder.segments()).map(load).collect::<Result<Vec<_>, ReadError>>()?;
    let mut numbers: Vec<i64> = segments.iter().flat_map(|segment| numbers_of(segment)).collect();
    assert_eq!(folder.catalog(), (numbers.len() as u64).to_le_bytes().get(..folder.catalog().len()).unwrap());
    for record in folder.replay() {
        let record = record?;
        numbers.push(i64::from_le_bytes(record.payload[..8].try_into().unwrap()));
        assert!(record.payload[8..].iter().all(|byte| *byte == 0xab));
    }
    Ok((folder, segments, numbers))
}

impl World {
    pub fn create(files: &SimFiles, progress: &Arc<Mutex<Progress>>, buffer_bytes: usize) -> Result<World, OpenError> {
        let options = options(buffer_bytes);
        let folder = match Folder::exists(files, Path::new(PATH))? {
            true => Folder::open(shared(files), Path::new(PATH), &options)?,
            false => Folder::create(shared(files), Path::new(PATH), &options)?,
        };
        progress.lock().exists = true;
        Ok(World {
            files: files.clone(),
            folder: Arc::new(folder),
            progress: Arc::clone(progress),
            segments: Vec::new(),
            in_segments: 0,
            numbers: Vec::new(),
            next: 1,
            backups: 0,
            options,
        })
    }

    pub fn numbers(&self) -> &[i64] {
        &self.numbers
    }

    /// What is done; a commit that is refused has not happened.
    pub fn step(&mut self, step: Step) -> Result<(), OpenError> {
        match step {
            Step::Commit(bytes) => {
                let lsn = self.append(bytes)?;
                self.folder.log().wait_durable(lsn)?;
                self.lasts(self.numbers.len());
            }
            Step::Lazy(bytes) => drop(self.append(bytes)?),
            Step::Flush => {
                self.folder.log().flush()?;
                self.lasts(self.numbers.len());
            }
            Step::Checkpoint => self.checkpoint()?,
            Step::Backup => self.backup()?,
            Step::Close => {
                self.folder.close()?;
                self.lasts(self.numbers.len());
                self.reopen()?;
            }
            Step::Reopen => self.reopen()?,
        }
        Ok(())
    }

    fn lasts(&self, count: usize) {
        let mut progress = self.progress.lock();
        progress.durable = progress.durable.max(count);
    }

    fn append(&mut self, bytes: usize) -> Result<Lsn, WriteError> {
        let number = self.next;
        self.next += 1;
        self.progress.lock().numbers.push(number);
        let payload = [number.to_le_bytes().as_slice(), &vec![0xab; bytes]].concat();
        let appended = self.folder.log().append(1, &payload);
        match &appended {
            Ok(_) => self.numbers.push(number),
            Err(WriteError::Full { .. }) => drop(self.progress.lock().numbers.pop()),
            // Nobody knows.
            Err(_) => {}
        }
        appended
    }

    fn checkpoint(&mut self) -> Result<(), WriteError> {
        let contains = self.folder.log().last();
        if self.in_segments < self.numbers.len() {
            self.segments.push(segment_of(&self.numbers[self.in_segments..]));
            self.in_segments = self.numbers.len();
        }
        let mut checkpoint = self.folder.checkpoint(&|_| true)?;
        for (number, segment) in self.segments.iter().enumerate() {
            assert_eq!(checkpoint.segment(segment)?, number);
        }
        checkpoint.commit(contains, &(self.numbers.len() as u64).to_le_bytes())?;
        self.lasts(self.numbers.len());
        Ok(())
    }

    fn backup(&mut self) -> Result<(), WriteError> {
        self.backups += 1;
        let to = PathBuf::from(format!("backup {}", self.backups));
        self.progress.lock().backup = None;
        self.folder.backup(&to, self.backups.is_multiple_of(2), &|_| true)?;
        self.lasts(self.numbers.len());
        self.progress.lock().backup = Some(self.backups);
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        // The lock is given back before it is taken.
        let other = Folder::create(Arc::new(SimFiles::new()), Path::new(PATH), &self.options)?;
        drop(std::mem::replace(&mut self.folder, Arc::new(other)));
        let open = || recovered_with(&self.files, PATH, &self.options);
        let reopened = open().or_else(|_| open());
        let (folder, segments, numbers) = reopened?;
        self.in_segments = segments.iter().map(|segment| segment.rows()).sum();
        (self.folder, self.segments) = (folder, segments);
        // What was on its way may be there or not.
        let mut progress = self.progress.lock();
        assert!(
            progress.numbers.starts_with(&numbers) && numbers.len() >= progress.durable,
            "{numbers:?} {progress:?}"
        );
        progress.numbers = numbers.clone();
        drop(progress);
        self.numbers = numbers;
        Ok(())
    }
}
