//! The delta: what was written to a table since its base, a [`TableVersion`], was made.
//!
//! A delta is a log of entries, each of added rows and of rows that died with them, as of one entry. It never changes;
//! the next one shares what stays the same, so that a reader's view costs nothing and a writer's next entry little:
//! ```text
//! chunks   [ 1024 rows or more ] [ ... ] [ ... ]    one list, shared until a chunk joins; encoded by who scans, once
//!                                                   each, and once more eight together
//! groups   [ 32 entries ] [ 32 entries ] ...        merged, so that an entry copies two lists of 32 at most
//! singles  [ entry ] [ entry ] ...
//! dead     [ sorted ............ ] [ ..... ] [ . ]  runs, each less than half of the one before it
//! ```
//! [`Delta::consolidated`] makes a table version that can be scanned: the base's segments and one more for each eight
//! chunks, for each chunk behind those, and for what is behind the last chunk.
//!
//! # Invariants
//! - Rows of the log are numbered from 0 in the order in which they were added; a number never changes.
//! - Chunks are cut after entries, by the number of rows alone: equal entries give equal segments.
//! - What one view shares with another is immutable but for cells that are filled once. So any number of threads may
//!   derive from any view: views never see entries of another branch, and an entry that no view has is freed.
//!
//! # Limits
//! An entry has at most [`ENTRY_ROWS_MAX`] rows, a delta 2^32 - 1. The base is the caller's: a delta does not know how
//! many rows it has, nor which of them were deleted before. Columns of nested types whose strings are views keep the
//! buffers of their strings whole. The lists of chunks and runs themselves are not charged.

mod consolidate;
mod dead;
mod encode;
mod log;
mod rebase;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use numa::Budget;
use parking_lot::Mutex;

use crate::SEGMENT_ROWS_MAX;
use crate::error::StoreError;
use crate::segment::SegmentVersion;
use crate::table::TableVersion;
use crate::types::surface_schema;
use consolidate::Newest;
use dead::DeadRows;
use log::{CHUNK_ROWS, Log, RUN_CHUNKS};

/// Most rows of one entry: with the rows of an open chunk before them they make a chunk of a run that fits one segment.
const ENTRY_ROWS_MAX: usize = SEGMENT_ROWS_MAX / RUN_CHUNKS - CHUNK_ROWS;

/// A row of a table with a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableRow {
    /// A row of the base.
    Base {
        /// Place of the segment among [`TableVersion::segments`].
        segment: u32,
        /// Row of the segment.
        row: u32,
    },
    /// A row of the log.
    Delta {
        /// Its number in the log.
        row: u32,
    },
}

/// What was written since the base; cheap to clone, never changes.
#[derive(Clone, Debug)]
pub struct Delta {
    view: Arc<View>,
}

#[derive(Debug)]
struct View {
    /// In surface types, all nullable: the caller checks NOT NULL.
    schema: SchemaRef,
    budget: Arc<Budget>,
    entries: usize,
    log: Log,
    /// Segment in the upper half, row in the lower.
    dead_base: DeadRows,
    dead_delta: DeadRows,
    /// Shared by all views that come from one empty delta.
    newest: Arc<Mutex<Option<Newest>>>,
}

impl Delta {
    /// A delta without an entry for a table of this schema. What is appended is charged to `budget`.
    pub fn new(schema: SchemaRef, budget: &Arc<Budget>) -> Delta {
        let view = View {
            schema: Arc::new(nullable(&surface_schema(&schema))),
            budget: Arc::clone(budget),
            entries: 0,
            log: Log::default(),
            dead_base: DeadRows::default(),
            dead_delta: DeadRows::default(),
            newest: Arc::default(),
        };
        Delta { view: Arc::new(view) }
    }

    /// Whether there is no entry at all.
    pub fn is_empty(&self) -> bool {
        self.view.entries == 0
    }

    /// Rows of the log, dead ones included.
    pub fn rows(&self) -> usize {
        self.view.log.rows() as usize
    }

    /// Rows of the log that live.
    pub fn live_rows(&self) -> usize {
        self.rows() - self.view.dead_delta.count()
    }

    /// Rows of the base that died: `base.rows() - dead_base_rows() + live_rows()` is the table's number of rows.
    pub fn dead_base_rows(&self) -> usize {
        self.view.dead_base.count()
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        self.view.entries
    }

    /// Bytes that it holds of the budget. Views of one log share most of them.
    pub fn bytes(&self) -> u64 {
        self.view.log.bytes() + self.view.dead_base.bytes() + self.view.dead_delta.bytes()
    }

    /// With one more entry: `rows` are added and those of `dead` die, at once. A row that is dead already stays so, and
    /// counts once. Rows of the base are taken as they are named: that they are there and live is the caller's to know,
    /// as are NULLs.
    ///
    /// This view stays as it is; where the result is thrown away, so is its entry.
    ///
    /// # Errors
    /// [`StoreError::Memory`] where the budget is full; [`StoreError::ColumnCount`] and [`StoreError::TypeMismatch`]
    /// for rows of another schema; [`StoreError::NotThere`] for a dead row that this view's log does not have;
    /// [`StoreError::TooManyRows`].
    pub fn with(&self, rows: RecordBatch, dead: &[TableRow]) -> Result<Delta, StoreError> {
        let view = self.view.as_ref();
        check_types(&view.schema, rows.columns().iter().map(|column| column.data_type()))?;
        if rows.num_rows() > ENTRY_ROWS_MAX {
            return Err(StoreError::TooManyRows { rows: rows.num_rows(), rows_max: ENTRY_ROWS_MAX });
        }
        let mut of_base = Vec::new();
        let mut of_delta = Vec::new();
        for &place in dead {
            match place {
                TableRow::Base { segment, row } => of_base.push(u64::from(segment) << 32 | u64::from(row)),
                TableRow::Delta { row } if row < view.log.rows() => of_delta.push(u64::from(row)),
                TableRow::Delta { row } => {
                    return Err(StoreError::NotThere { what: "row", index: row as usize, count: self.rows() });
                }
            }
        }
        let view = View {
            schema: Arc::clone(&view.schema),
            budget: Arc::clone(&view.budget),
            entries: view.entries + 1,
            log: view.log.with(rows, &view.budget)?,
            dead_base: view.dead_base.with(of_base, &view.budget)?,
            dead_delta: view.dead_delta.with(of_delta, &view.budget)?,
            newest: Arc::clone(&view.newest),
        };
        Ok(Delta { view: Arc::new(view) })
    }

    /// The values of a column at `rows` of the log, in any order, dead ones too, in the surface type.
    ///
    /// # Panics
    /// For a column or row that is not there.
    pub fn take(&self, column: usize, rows: &[u32]) -> ArrayRef {
        self.view.log.take(column, self.view.schema.field(column).data_type(), rows)
    }

    /// Whether the row is there and lives; a row of the base may have been deleted in the base too.
    pub fn is_live(&self, place: TableRow, base: &TableVersion) -> bool {
        match place {
            TableRow::Delta { row } => row < self.view.log.rows() && !self.view.dead_delta.contains(u64::from(row)),
            TableRow::Base { segment, row } => {
                let version = segment_of(base, segment as usize);
                version.is_some_and(|v| (row as usize) < v.segment.rows() && v.is_live(row as usize))
                    && !self.view.dead_base.contains(u64::from(segment) << 32 | u64::from(row))
            }
        }
    }

    /// The row of the base or of the log that is row `row` of segment `segment`, a place among the segments of what
    /// [`consolidated`](Self::consolidated) makes of this view and this base.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn place_of(&self, base: &TableVersion, segment: usize, row: u32) -> Result<TableRow, StoreError> {
        let of_base: usize = base.parts.iter().map(|part| part.segments.len()).sum();
        let rows = match segment.checked_sub(of_base) {
            None => segment_of(base, segment).map(|version| 0..version.segment.rows() as u32),
            Some(place) => self.view.log.segment_rows(place),
        };
        let Some(rows) = rows else {
            let count = of_base + self.view.log.segments();
            return Err(StoreError::NotThere { what: "segment", index: segment, count });
        };
        if row >= rows.end - rows.start {
            return Err(StoreError::NotThere { what: "row", index: row as usize, count: rows.len() });
        }
        if segment >= of_base {
            return Ok(TableRow::Delta { row: rows.start + row });
        }
        let count = u32::MAX as usize;
        let segment =
            u32::try_from(segment).map_err(|_| StoreError::NotThere { what: "segment", index: segment, count })?;
        Ok(TableRow::Base { segment, row })
    }
}

/// The segment at a place among all of them.
fn segment_of(base: &TableVersion, mut place: usize) -> Option<&SegmentVersion> {
    for part in &base.parts {
        match part.segments.get(place) {
            Some(version) => return Some(version),
            None => place -= part.segments.len(),
        }
    }
    None
}

/// Fails unless these are the types of the schema's columns.
fn check_types<'a>(schema: &Schema, types: impl ExactSizeIterator<Item = &'a DataType>) -> Result<(), StoreError> {
    let fields = schema.fields();
    if types.len() != fields.len() {
        return Err(StoreError::ColumnCount { expected: fields.len(), found: types.len() });
    }
    for (field, found) in fields.iter().zip(types) {
        if field.data_type() != found {
            let expected = field.data_type().clone();
            return Err(StoreError::TypeMismatch { column: field.name().clone(), expected, found: found.clone() });
        }
    }
    Ok(())
}

/// The schema with every column nullable.
fn nullable(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Schema::new(fields.collect::<Vec<Field>>())
}
