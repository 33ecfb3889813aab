//! Segments and parts.

use std::sync::Arc;

use crate::column::Column;
use crate::deleted::DeletedRows;
use crate::index::Index;
use crate::{GRANULE_ROWS, SEGMENT_ROWS_MAX};

/// At most [`SEGMENT_ROWS_MAX`] rows, column by column; immutable.
#[derive(Debug)]
pub struct Segment {
    rows: usize,
    columns: Vec<Arc<Column>>,
    /// Per column.
    indexes: Vec<Option<Arc<Index>>>,
}

impl Segment {
    /// A segment of `rows` rows; each column has as many.
    pub fn new(rows: usize, columns: Vec<Arc<Column>>) -> Segment {
        let indexes = vec![None; columns.len()];
        Segment::indexed(rows, columns, indexes)
    }

    /// As [`new`](Self::new), with what there is of an index on each column.
    pub(crate) fn indexed(rows: usize, columns: Vec<Arc<Column>>, indexes: Vec<Option<Arc<Index>>>) -> Segment {
        assert!(rows <= SEGMENT_ROWS_MAX && columns.iter().all(|column| column.len() == rows));
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

    /// The columns, in the table's order.
    pub fn columns(&self) -> &[Arc<Column>] {
        &self.columns
    }

    /// One column.
    pub fn column(&self, index: usize) -> &Arc<Column> {
        &self.columns[index]
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
