//! From a base and a delta to a table version that can be scanned.
//!
//! A chunk of the log is encoded by whoever first needs it and kept for all views that have it; what is behind the last
//! chunk is kept for the views that end with it. Two threads that need the same at the same time may both encode it:
//! one result stays. Which rows are dead is kept for the newest version that was consolidated ([`Newest`]): the next
//! one marks what died since, so that a scan takes time for what was written since the scan before it. Rows that nobody
//! has committed by a version are deleted ones to it.
//!
//! # Invariants
//! What is kept is used only for later versions over the same base, and chunk by chunk, where they have the very same.
//! So an older version begins anew. A chunk with rows that were not born is looked through again each time.

use std::sync::Arc;

use numa::Allocator;

use super::encode::encoded;
use super::log::LogSegment;
use super::{DeltaView, TableRow, check_types, number_of};
use crate::deleted::DeletedRows;
use crate::error::StoreError;
use crate::parallel::{Parallel, map};
use crate::placement::ColumnAllocator;
use crate::segment::{Part, SegmentVersion};
use crate::table::TableVersion;

/// What was made of the newest version that was consolidated.
#[derive(Debug)]
pub(super) struct Newest {
    version: u64,
    /// The base's parts, to tell it by.
    base: Vec<Arc<Part>>,
    /// The same with more deleted rows.
    parts: Vec<Arc<Part>>,
    /// Of the log's chunks.
    segments: Vec<LogVersion>,
}

/// A segment of the log's rows as of a version.
#[derive(Debug)]
struct LogVersion {
    version: SegmentVersion,
    /// Whether all of its rows were born, so that it changes by deaths alone.
    are_born: bool,
}

/// Rows that died after one version and until another, ascending: of the base in one number each, and of the log.
#[derive(Default)]
struct Died {
    of_base: Vec<u64>,
    of_delta: Vec<u32>,
}

impl DeltaView {
    /// The whole content as a table version: the base's segments, with more deleted rows where rows died, and the log's
    /// rows as further segments of the last part (of the first, where the base has none). Rows are in the base's order,
    /// then in the log's. Its number is the base's and the number of statements.
    ///
    /// Encoded rows and deleted ones are kept for later calls and other views, in the memory of who first called:
    /// `allocators`, one for each column, and `table_allocator`, for the deleted rows, are to be the table's own, not a
    /// statement's. The work is spread over `parallel`, whose tasks may call it again.
    ///
    /// # Errors
    /// [`StoreError::Memory`], [`StoreError::Interrupted`], [`StoreError::NotThere`] where a row of the base died that
    /// this base does not have, [`StoreError::ColumnCount`] and [`StoreError::TypeMismatch`] where the base has another
    /// schema. Nothing is left behind but chunks that were encoded before.
    pub fn consolidated(
        &self,
        base: &TableVersion,
        allocators: &[ColumnAllocator],
        table_allocator: &Allocator,
        parallel: &dyn Parallel,
    ) -> Result<TableVersion, StoreError> {
        check_types(&base.schema, self.delta.schema.fields().iter().map(|field| field.data_type()))?;
        self.encode_missing(base, allocators, parallel)?;
        let tail = self.log.tail().map(|rows| self.version_of(&rows, table_allocator)).transpose()?;
        let parts = {
            // Whoever waits here finds done what it would have had to do.
            let mut newest = self.delta.newest.lock();
            if newest.as_ref().is_some_and(|newest| newest.version > self.version && newest.is_over(base)) {
                // An older version begins anew, and holds up nobody.
                drop(newest);
                Newest::of(base).extended(self, base, table_allocator)?.parts_with(tail)
            } else {
                // What is of another base is of no use any more: this one takes its place.
                let known = newest.take().filter(|newest| newest.is_over(base));
                let next = known.unwrap_or_else(|| Newest::of(base)).extended(self, base, table_allocator)?;
                newest.insert(next).parts_with(tail)
            }
        };
        Ok(TableVersion { schema: Arc::clone(&base.schema), parts, version: base.version + self.entries as u64 })
    }
}

impl Newest {
    /// Of a base to which nothing was done.
    fn of(base: &TableVersion) -> Newest {
        Newest { version: 0, base: base.parts.clone(), parts: base.parts.clone(), segments: Vec::new() }
    }

    fn is_over(&self, base: &TableVersion) -> bool {
        let is_same = |(a, b): (&Arc<Part>, &Arc<Part>)| Arc::ptr_eq(a, b);
        self.base.len() == base.parts.len() && self.base.iter().zip(&base.parts).all(is_same)
    }

    /// The same of a later view, whose chunks are encoded.
    fn extended(mut self, view: &DeltaView, base: &TableVersion, allocator: &Allocator) -> Result<Newest, StoreError> {
        let died = view.died_after(self.version);
        for rows in died.of_base.chunk_by(|a, b| a >> 32 == b >> 32) {
            let place = (rows[0] >> 32) as usize;
            let version = segment_mut(&mut self.parts, place).ok_or_else(|| {
                let count = base.segments().count();
                StoreError::NotThere { what: "segment", index: place, count }
            })?;
            delete(version, rows.iter().map(|&row| row as u32), allocator)?;
        }
        let mut known = std::mem::take(&mut self.segments).into_iter();
        for chunks in view.log.closed_segments() {
            // Behind chunks that are a run by now all are others.
            let before = known.next().filter(|of| Arc::ptr_eq(&of.version.segment, chunks.segment()));
            let Some(mut of) = before.filter(|of| of.are_born) else {
                self.segments.push(view.version_of(&chunks, allocator)?);
                continue;
            };
            let rows = chunks.rows;
            let from = died.of_delta.partition_point(|&row| row < rows.start);
            let of_chunks = &died.of_delta[from..];
            let of_chunks = &of_chunks[..of_chunks.partition_point(|&row| row < rows.end)];
            delete(&mut of.version, of_chunks.iter().map(|&row| row - rows.start), allocator)?;
            self.segments.push(of);
        }
        Ok(Newest { version: view.version, ..self })
    }

    /// All segments, in parts.
    fn parts_with(&self, tail: Option<LogVersion>) -> Vec<Arc<Part>> {
        let mut parts = self.parts.clone();
        if self.segments.is_empty() && tail.is_none() {
            return parts;
        }
        let last = parts.pop();
        let of_base = last.iter().flat_map(|part| &part.segments);
        let of_log = self.segments.iter().chain(&tail).map(|of| &of.version);
        let segments = of_base.chain(of_log).cloned().collect();
        parts.push(Arc::new(Part { segments }));
        parts
    }
}

/// The segment at a place among those of all parts.
fn segment_mut(parts: &mut [Arc<Part>], mut place: usize) -> Option<&mut SegmentVersion> {
    for part in parts {
        match part.segments.len() {
            segments if place < segments => return Arc::make_mut(part).segments.get_mut(place),
            segments => place -= segments,
        }
    }
    None
}

/// Rows of a segment, ascending, are deleted too.
fn delete(
    version: &mut SegmentVersion,
    rows: impl Iterator<Item = u32>,
    allocator: &Allocator,
) -> Result<(), StoreError> {
    let rows: Vec<u32> = rows.collect();
    match rows.is_empty() {
        true => Ok(()),
        false => DeletedRows::delete_in(&mut version.deleted, version.segment.rows(), &rows, allocator),
    }
}

impl DeltaView {
    /// What died after a version and until this one.
    fn died_after(&self, version: u64) -> Died {
        let mut died = Died::default();
        {
            let commits = self.delta.commits.lock();
            for row in commits.between(version, self.version).iter().flat_map(|commit| commit.dead.rows()) {
                match *row {
                    TableRow::Base { segment, row } => died.of_base.push(number_of(segment, row)),
                    TableRow::Delta { row } => died.of_delta.push(row),
                }
            }
        }
        died.of_base.sort_unstable();
        died.of_delta.sort_unstable();
        died
    }

    /// Encodes the segments of the log's rows that are not.
    fn encode_missing(
        &self,
        base: &TableVersion,
        allocators: &[ColumnAllocator],
        parallel: &dyn Parallel,
    ) -> Result<(), StoreError> {
        let schema = &self.delta.schema;
        assert_eq!(allocators.len(), schema.fields().len(), "one allocator per column");
        let all = self.log.closed_segments().chain(self.log.tail());
        let missing: Vec<_> = all.filter(|segment| segment.encoded.get().is_none()).collect();
        let like = match missing.is_empty() {
            true => return Ok(()),
            false => base.segments().map(|version| &version.segment).max_by_key(|segment| segment.rows()),
        };
        let encode = |segment: LogSegment<'_>| {
            let columns = segment.columns()?;
            let built = encoded(schema, &columns, like.map(AsRef::as_ref), allocators, parallel)?;
            segment.encoded.get_or_init(|| built);
            Ok(())
        };
        if missing.len() > 1 {
            let node = allocators[0].home();
            map(parallel, missing, &|_| node, &encode)?;
        } else {
            missing.into_iter().try_for_each(encode)?;
        }
        Ok(())
    }

    /// Rows that are encoded, with those that are not seen.
    fn version_of(&self, rows: &LogSegment<'_>, allocator: &Allocator) -> Result<LogVersion, StoreError> {
        let mut version = SegmentVersion { segment: Arc::clone(rows.segment()), deleted: None };
        let (unseen, are_born) = self.delta.stamps.unseen(rows.rows.clone(), self.version);
        delete(&mut version, unseen.into_iter(), allocator)?;
        Ok(LogVersion { version, are_born })
    }
}
