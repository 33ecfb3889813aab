//! Columns that stay on the disk until somebody reads them.
//!
//! # Invariants
//! A column is read once; whoever comes meanwhile waits. What was read has the number that the column had before. A
//! read that fails leaves everything as it was, so that the next one may succeed.

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::column::Column;
use crate::error::StoreError;
use crate::identity::ColumnId;
use crate::parallel::{Parallel, map};

/// How many columns nobody has read yet.
#[derive(Debug, Default)]
pub struct UnreadColumns(Arc<()>);

/// One of them, until it is dropped: whoever reads the column does so, and who forgets it unread.
#[derive(Debug)]
pub struct UnreadColumn {
    _counted: Arc<()>,
}

impl UnreadColumns {
    /// One more.
    pub fn one_more(&self) -> UnreadColumn {
        UnreadColumn { _counted: Arc::clone(&self.0) }
    }

    /// Whether there are any.
    pub fn is_any(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// Where a column is read from.
pub trait ColumnSource: Send {
    /// The column, in the memory that is meant for it.
    ///
    /// # Errors
    /// [`StoreError::Source`], [`StoreError::Memory`].
    fn read(&self) -> Result<Column, StoreError>;
}

/// A column that is on the disk, and in memory too once it was [read](Self::load).
pub struct ColumnOnDisk {
    id: ColumnId,
    rows: usize,
    column: OnceLock<Arc<Column>>,
    /// Gone once it was read.
    source: Mutex<Option<Box<dyn ColumnSource>>>,
}

impl ColumnOnDisk {
    /// A column of so many rows that nobody has read yet.
    pub fn new(rows: usize, source: Box<dyn ColumnSource>) -> ColumnOnDisk {
        ColumnOnDisk { id: ColumnId::next(), rows, column: OnceLock::new(), source: Mutex::new(Some(source)) }
    }

    /// Its number.
    pub fn id(&self) -> ColumnId {
        self.id
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The column if it was read.
    pub fn get(&self) -> Option<&Arc<Column>> {
        self.column.get()
    }

    /// The column, which is read if it was not.
    ///
    /// # Errors
    /// Those of its source.
    pub fn load(&self) -> Result<&Arc<Column>, StoreError> {
        if let Some(column) = self.column.get() {
            return Ok(column);
        }
        let mut source = self.source.lock();
        if let Some(from) = source.as_ref() {
            let column = from.read()?.numbered(self.id);
            assert_eq!(column.len(), self.rows, "a source gives as many rows as it said");
            self.column.get_or_init(|| Arc::new(column));
            *source = None;
        }
        Ok(self.column.get().expect("without a source it was read"))
    }
}

/// Brings columns into memory.
///
/// # Errors
/// [`StoreError::Source`], [`StoreError::Memory`], [`StoreError::Interrupted`]; some may have come.
pub fn load_columns(columns: Vec<&Arc<ColumnOnDisk>>, parallel: &dyn Parallel) -> Result<(), StoreError> {
    load_columns_with(columns, parallel, |column| column.load().map(drop))
}

/// As [`load_columns`], each by a function which [loads](ColumnOnDisk::load) it.
///
/// # Errors
/// Those of the function; [`StoreError::Interrupted`].
pub fn load_columns_with(
    columns: Vec<&Arc<ColumnOnDisk>>,
    parallel: &dyn Parallel,
    load: impl Fn(&ColumnOnDisk) -> Result<(), StoreError> + Sync,
) -> Result<(), StoreError> {
    map(parallel, columns, &|_| None, &|column: &Arc<ColumnOnDisk>| load(column)).map(drop)
}

impl fmt::Debug for ColumnOnDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnOnDisk").field("id", &self.id).field("column", &self.column).finish_non_exhaustive()
    }
}
