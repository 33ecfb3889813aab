//! The delta: what was written to a table since its base, a [`TableVersion`], was made.
//!
//! Each part of a table has a delta of its own; what a table has together is [`Deltas`] (`parts.rs`).
//!
//! A delta is a log of rows that were added, and of rows that died. Several statements write it at the same time, each
//! its own rows; readers see what was committed up to their version and wait for nobody (README.md beside this file has
//! the protocol):
//! ```text
//! log      chunks   [ 1024 rows or more ] [ ... ] [ ... ]    one list; encoded by who scans, once each, and once more
//!                                                            eight together
//!          groups   [ 32 entries ] [ 32 entries ] ...        merged, so that a scan finds two lists of 32 at most
//!          singles  [ entry ] [ entry ] ...
//! stamps   of each row of the log: the version that committed it, the version that let it die
//! dead     rows of the base that died, each with its version
//! commits  what each statement added and let die, in the order of versions
//! ```
//! [`DeltaView::consolidated`] makes a table version that can be scanned: the base's segments and one more for each
//! eight chunks, for each chunk behind those, and for what is behind the last chunk.
//!
//! # Invariants
//! - Rows of the log are numbered from 0 in the order in which they were added; a number never changes.
//! - A row dies once: who lets it die claims it first, and nobody else can until that one gives it back.
//! - Versions are committed in order, and none is told to readers before all of it stands in the stamps.
//! - Rows of a statement that failed stay in the log and are never seen.
//! - Rows that a transaction holds are claimed for as long as it does, and are held in whatever takes this delta's
//!   place.
//!
//! # Limits
//! An entry has at most [`ENTRY_ROWS_MAX`] rows, a delta 2^32 - 1. The base is the caller's: a delta does not know how
//! many rows it has, nor which of them were deleted before. Columns of nested types whose strings are views keep the
//! buffers of their strings whole. The list of chunks is not charged, nor what a commit takes besides the rows that die
//! with it.

mod commits;
mod consolidate;
mod dead;
mod encode;
mod holds;
mod log;
mod parts;
mod rebase;
mod stamps;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use numa::Budget;
use parking_lot::Mutex;

use crate::SEGMENT_ROWS_MAX;
use crate::error::StoreError;
use crate::segment::SegmentVersion;
use crate::table::TableVersion;
use commits::Commits;
use consolidate::Newest;
use dead::DeadBase;
use holds::Holds;
use log::{CHUNK_ROWS, Log, RUN_CHUNKS};
use stamps::Stamps;

pub use holds::RowHold;
pub use parts::{DELTA_PARTS_MAX, DeltaCounts, Deltas, DeltasCaught, DeltasView, DeltasWrite, Places};
pub use write::DeltaWrite;

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

/// What was written since the base: see the module.
#[derive(Debug)]
pub struct Delta {
    /// In surface types, all nullable: the caller checks NOT NULL.
    schema: SchemaRef,
    budget: Arc<Budget>,
    log: Mutex<Log>,
    /// Those of a delta over another base too, if this one became it.
    stamps: Arc<Stamps>,
    dead_base: DeadBase,
    commits: Mutex<Commits>,
    /// Rows that transactions hold.
    holds: Mutex<Holds>,
    counts: Counts,
    /// What was made of the newest version that was consolidated.
    newest: Mutex<Option<Newest>>,
    /// Most rows of the log.
    rows_max: u32,
}

/// Of what is committed.
#[derive(Debug, Default)]
struct Counts {
    added: AtomicUsize,
    dead_base: AtomicUsize,
    dead_delta: AtomicUsize,
}

/// What a reader of one version sees of a delta.
#[derive(Clone, Debug)]
pub struct DeltaView {
    delta: Arc<Delta>,
    /// Has all rows that were committed by then, and maybe others.
    log: Log,
    /// The newest version that committed something of it.
    version: u64,
    /// How many statements had by then.
    entries: usize,
}

impl Delta {
    /// A delta without an entry for a table of this schema. What is added is charged to `budget`.
    #[cfg(test)]
    fn new(schema: SchemaRef, budget: &Arc<Budget>) -> Arc<Delta> {
        Delta::of_part(&Arc::new(nullable(&crate::surface_schema(&schema))), budget, u32::MAX)
    }

    /// One of a schema in surface types, all nullable, whose log has at most `rows_max` rows.
    fn of_part(schema: &SchemaRef, budget: &Arc<Budget>, rows_max: u32) -> Arc<Delta> {
        Arc::new(Delta::with_log(Arc::clone(schema), budget, (Log::default(), rows_max), Arc::default()))
    }

    fn with_log(schema: SchemaRef, budget: &Arc<Budget>, (log, rows_max): (Log, u32), stamps: Arc<Stamps>) -> Delta {
        Delta {
            rows_max,
            schema,
            budget: Arc::clone(budget),
            log: Mutex::new(log),
            stamps,
            dead_base: DeadBase::default(),
            commits: Mutex::default(),
            holds: Mutex::default(),
            counts: Counts::default(),
            newest: Mutex::default(),
        }
    }

    /// Whether nothing was committed.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// Rows of the log: dead ones and those of statements that failed or run included.
    pub fn rows(&self) -> usize {
        self.log.lock().rows() as usize
    }

    /// Rows of the log that are committed and live.
    pub fn live_rows(&self) -> usize {
        let dead = self.counts.dead_delta.load(Ordering::Acquire);
        self.counts.added.load(Ordering::Acquire) - dead
    }

    /// Rows of the base that died: `base.rows() - dead_base_rows() + live_rows()` is the table's number of rows.
    pub fn dead_base_rows(&self) -> usize {
        self.counts.dead_base.load(Ordering::Acquire)
    }

    /// Number of statements that were committed.
    pub fn entries(&self) -> usize {
        self.commits.lock().len()
    }

    /// Bytes of the budget that it holds: rows of the log with their stamps, and committed dead rows.
    pub fn bytes(&self) -> u64 {
        let of_rows = self.log.lock().bytes() + self.stamps.bytes();
        of_rows + self.commits.lock().dead_bytes()
    }

    /// The values of a column at `rows` of the log, in any order, dead ones too, in the surface type.
    ///
    /// # Panics
    /// For a column or row that is not there.
    pub fn take(&self, column: usize, rows: &[u32]) -> ArrayRef {
        if let [row] = rows {
            let beside = self.log.lock().beside(*row);
            return beside.value(column, *row);
        }
        let log = self.log.lock().clone();
        log.take(column, self.schema.field(column).data_type(), rows)
    }

    /// Whether a reader of `version` finds the row, and finds it live; a row of the base may have been deleted in the
    /// base too.
    pub fn is_live(&self, place: TableRow, base: &TableVersion, version: u64) -> bool {
        match place {
            TableRow::Delta { row } => (row as usize) < self.rows() && self.stamps.is_seen(row, version),
            TableRow::Base { segment, row } => {
                let of_base = segment_of(base, segment as usize);
                of_base.is_some_and(|v| (row as usize) < v.segment.rows() && v.is_live(row as usize))
                    && !self.is_dead_in_base(segment, row, version)
            }
        }
    }

    /// Whether a reader of `version` finds a row of the base dead that the base has as live.
    fn is_dead_in_base(&self, segment: u32, row: u32, version: u64) -> bool {
        self.dead_base.is_dead(number_of(segment, row), version)
    }

    /// What a reader of `version` sees: everything that was committed up to it, which is all that there ever will be.
    pub fn view(self: &Arc<Self>, version: u64) -> DeltaView {
        let (version, entries) = {
            let commits = self.commits.lock();
            (commits.newest_seen(version), commits.seen(version))
        };
        DeltaView { delta: Arc::clone(self), log: self.log.lock().clone(), version, entries }
    }

    /// The newest version that a reader of `version` sees something of; 0 where it sees nothing. Two readers for which
    /// that is the same see the same.
    pub fn newest_seen(&self, version: u64) -> u64 {
        self.commits.lock().newest_seen(version)
    }
}

impl DeltaView {
    /// As [`Delta::newest_seen`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many segments the rows of the log go into.
    fn log_segments(&self) -> usize {
        self.log.segments()
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
            Some(place) => self.log.segment_rows(place),
        };
        let Some(rows) = rows else {
            let count = of_base + self.log.segments();
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

/// A row of the base in one number: the segment in the upper half, the row in the lower.
fn number_of(segment: u32, row: u32) -> u64 {
    u64::from(segment) << 32 | u64::from(row)
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
