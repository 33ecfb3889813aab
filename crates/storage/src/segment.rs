//! Segments and parts.

use std::sync::Arc;

use crate::column::Column;
use crate::deleted::DeletedRows;
use crate::error::StoreError;
use crate::identity::ColumnId;
use crate::index::Index;
use crate::on_disk::ColumnOnDisk;
use crate::{GRANULE_ROWS, SEGMENT_ROWS_MAX};

/// At most [`SEGMENT_ROWS_MAX`] rows, column by column; immutable, but that columns on the disk come into memory.
#[derive(Debug)]
pub struct Segment {
    rows: usize,
    columns: Vec<StoredColumn>,
    /// Per column.
    indexes: Vec<Option<Arc<Index>>>,
}

/// A column of a segment.
#[derive(Debug, Clone)]
pub enum StoredColumn {
    /// In memory.
    Resident(Arc<Column>),
    /// On the disk; in memory too once it was read.
    OnDisk(Arc<ColumnOnDisk>),
}

impl StoredColumn {
    /// Its number; `None` where nothing is stored.
    pub fn id(&self) -> Option<ColumnId> {
        match self {
            StoredColumn::Resident(column) => column.id(),
            StoredColumn::OnDisk(column) => Some(column.id()),
        }
    }

    /// The column if it is in memory.
    pub fn resident(&self) -> Option<&Arc<Column>> {
        match self {
            StoredColumn::Resident(column) => Some(column),
            StoredColumn::OnDisk(column) => column.get(),
        }
    }

    /// The column, which is read if it is not in memory.
    ///
    /// # Errors
    /// Those of [`ColumnOnDisk::load`].
    pub fn load(&self) -> Result<&Arc<Column>, StoreError> {
        match self {
            StoredColumn::Resident(column) => Ok(column),
            StoredColumn::OnDisk(column) => column.load(),
        }
    }

    /// Whether it is the same object.
    pub(crate) fn is(&self, other: &StoredColumn) -> bool {
        match (self, other) {
            (StoredColumn::Resident(a), StoredColumn::Resident(b)) => Arc::ptr_eq(a, b),
            (StoredColumn::OnDisk(a), StoredColumn::OnDisk(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn rows(&self) -> usize {
        match self {
            StoredColumn::Resident(column) => column.len(),
            StoredColumn::OnDisk(column) => column.rows(),
        }
    }
}

impl Segment {
    /// A segment of `rows` rows; each column has as many.
    pub fn new(rows: usize, columns: Vec<Arc<Column>>) -> Segment {
        Segment::stored(rows, columns.into_iter().map(StoredColumn::Resident).collect())
    }

    /// A segment of `rows` rows, of which some columns may be on the disk; each has as many.
    pub fn stored(rows: usize, columns: Vec<StoredColumn>) -> Segment {
        let indexes = vec![None; columns.len()];
        Segment::indexed(rows, columns, indexes)
    }

    /// As [`stored`](Self::stored), with what there is of an index on each column.
    pub(crate) fn indexed(rows: usize, columns: Vec<StoredColumn>, indexes: Vec<Option<Arc<Index>>>) -> Segment {
        assert!(rows <= SEGMENT_ROWS_MAX && columns.iter().all(|column| column.rows() == rows));
        assert_eq!(columns.len(), indexes.len(), "an index or none for each column");
        Segment { rows, columns, indexes }
    }

    /// Number of rows, deleted ones included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of granules.
    pub fn granules(&self) -> usize {
        self.rows.div_ceil(GRANULE_ROWS)
    }

    /// The columns, in the table's order, wherever they are.
    pub fn stored_columns(&self) -> &[StoredColumn] {
        &self.columns
    }

    /// The columns in memory, in the table's order: each is read when it is reached, as [`column`](Self::column) does.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &Arc<Column>> + Clone {
        (0..self.columns.len()).map(|index| self.column(index))
    }

    /// One column.
    ///
    /// # Panics
    /// Where it is on the disk, and reading it fails: whoever reads columns that may be there
    /// [loads](StoredColumn::load) them first.
    #[inline]
    pub fn column(&self, index: usize) -> &Arc<Column> {
        match &self.columns[index] {
            StoredColumn::Resident(column) => column,
            StoredColumn::OnDisk(column) => {
                column.load().unwrap_or_else(|error| panic!("a column that nobody had read: {error}"))
            }
        }
    }

    /// The index on a column, if it has one.
    #[inline]
    pub fn index(&self, column: usize) -> Option<&Arc<Index>> {
        self.indexes[column].as_ref()
    }

    /// What there is of an index on each column.
    pub(crate) fn indexes(&self) -> &[Option<Arc<Index>>] {
        &self.indexes
    }
}

/// A segment and which of its rows are deleted in this version.
#[derive(Debug, Clone)]
pub struct SegmentVersion {
    /// The rows.
    pub segment: Arc<Segment>,
    /// The deleted ones, if any.
    pub deleted: Option<Arc<DeletedRows>>,
}

impl SegmentVersion {
    /// A segment without deleted rows.
    pub fn new(segment: Segment) -> SegmentVersion {
        SegmentVersion { segment: Arc::new(segment), deleted: None }
    }

    /// Number of rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        self.segment.rows() - self.deleted.as_ref().map_or(0, |deleted| deleted.count())
    }

    /// True where the row is not deleted.
    pub fn is_live(&self, row: usize) -> bool {
        self.deleted.as_ref().is_none_or(|deleted| !deleted.contains(row))
    }
}

/// A horizontal piece of a table; its segments share dictionaries where they were loaded together.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// The segments, in row order.
    pub segments: Vec<SegmentVersion>,
}

impl Part {
    /// Number of rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        self.segments.iter().map(SegmentVersion::live_rows).sum()
    }
}
