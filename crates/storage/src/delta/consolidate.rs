//! From a base and a delta to a table version that can be scanned.
//!
//! A chunk of the log is encoded by whoever first needs it and kept for all views that have it; what is behind the last
//! chunk is kept for the views that end with it. Two threads that need the same at the same time may both encode it:
//! one result stays. Which rows are dead is kept for the newest view that was consolidated ([`Newest`]): the next one
//! marks what died since, so that a scan takes time for what was written since the scan before it.
//!
//! # Invariants
//! What is kept is used only for views that have the same base and each of its dead rows, and chunk by chunk, where
//! they have the very same. So an older view, or one of another branch in which other rows died, begins anew.

use std::sync::Arc;

use numa::Allocator;

use super::dead::DeadRows;
use super::encode::encoded;
use super::log::LogSegment;
use super::{Delta, View, check_types};
use crate::deleted::DeletedRows;
use crate::error::StoreError;
use crate::parallel::{Parallel, map};
use crate::placement::ColumnAllocator;
use crate::segment::{Part, SegmentVersion};
use crate::table::TableVersion;

/// Rows that died, ascending: of the base as [`View`] names them, and of the log.
struct Died {
    of_base: Vec<u64>,
    of_delta: Vec<u64>,
}

/// What was made of the newest view that was consolidated.
#[derive(Debug)]
pub(super) struct Newest {
    entries: usize,
    /// The base's parts, to tell it by.
    base: Vec<Arc<Part>>,
    /// The same with more deleted rows.
    parts: Vec<Arc<Part>>,
    /// Of the log's chunks.
    segments: Vec<SegmentVersion>,
    dead_base: DeadRows,
    dead_delta: DeadRows,
}

impl Delta {
    /// The whole content as a table version: the base's segments, with more deleted rows where rows died, and the log's
    /// rows as further segments of the last part (of the first, where the base has none). Rows are in the base's order,
    /// then in the log's. Its number is the base's and the number of entries.
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
        let view = self.view.as_ref();
        check_types(&base.schema, view.schema.fields().iter().map(|field| field.data_type()))?;
        view.encode_missing(base, allocators, parallel)?;
        let tail = view.log.tail().map(|rows| view.version(&rows, table_allocator)).transpose()?;
        // Whoever waits here finds done what it would have had to do.
        let mut newest = view.newest.lock();
        let (known, died) = match newest.take_if(|newest| newest.entries <= view.entries) {
            Some(known) => match known.died_since(view, base) {
                Some(died) => (known, died),
                None => Newest::of(view, base),
            },
            None => Newest::of(view, base),
        };
        let next = known.extended(view, &died, base, table_allocator)?;
        let parts = next.parts_with(tail);
        if newest.is_none() {
            *newest = Some(next);
        }
        Ok(TableVersion { schema: Arc::clone(&base.schema), parts, version: base.version + view.entries as u64 })
    }
}

impl Newest {
    /// Of no entry, and what died until a view.
    fn of(view: &View, base: &TableVersion) -> (Newest, Died) {
        let none = Newest {
            entries: 0,
            base: base.parts.clone(),
            parts: base.parts.clone(),
            segments: Vec::new(),
            dead_base: DeadRows::default(),
            dead_delta: DeadRows::default(),
        };
        let died = Died { of_base: view.dead_base.all(), of_delta: view.dead_delta.all() };
        (none, died)
    }

    /// What died since; `None` where the view does not have all that is known, or another base.
    fn died_since(&self, view: &View, base: &TableVersion) -> Option<Died> {
        let is_same = |(a, b): (&Arc<Part>, &Arc<Part>)| Arc::ptr_eq(a, b);
        if self.base.len() != base.parts.len() || !self.base.iter().zip(&base.parts).all(is_same) {
            return None;
        }
        let of_base = view.dead_base.since(&self.dead_base)?;
        Some(Died { of_base, of_delta: view.dead_delta.since(&self.dead_delta)? })
    }

    /// The same of a view, whose chunks are encoded.
    fn extended(
        mut self,
        view: &View,
        died: &Died,
        base: &TableVersion,
        allocator: &Allocator,
    ) -> Result<Newest, StoreError> {
        for rows in died.of_base.chunk_by(|a, b| a >> 32 == b >> 32) {
            let place = (rows[0] >> 32) as usize;
            let version = segment_mut(&mut self.parts, place).ok_or_else(|| {
                let count = base.segments().count();
                StoreError::NotThere { what: "segment", index: place, count }
            })?;
            delete(version, rows.iter().map(|&row| row as u32), allocator)?;
        }
        let mut known = std::mem::take(&mut self.segments).into_iter();
        let mut goes_on = true;
        for chunks in view.log.closed_segments() {
            // Of another branch, or chunks that are a run by now: all behind it is as well.
            let before = known.next().filter(|known| goes_on && Arc::ptr_eq(&known.segment, chunks.segment()));
            goes_on = before.is_some();
            let Some(mut version) = before else {
                self.segments.push(view.version(&chunks, allocator)?);
                continue;
            };
            let rows = chunks.rows;
            let from = died.of_delta.partition_point(|&row| row < u64::from(rows.start));
            let of_chunks = &died.of_delta[from..];
            let of_chunks = &of_chunks[..of_chunks.partition_point(|&row| row < u64::from(rows.end))];
            delete(&mut version, of_chunks.iter().map(|&row| row as u32 - rows.start), allocator)?;
            self.segments.push(version);
        }
        Ok(Newest {
            entries: view.entries,
            dead_base: view.dead_base.clone(),
            dead_delta: view.dead_delta.clone(),
            ..self
        })
    }

    /// All segments, in parts.
    fn parts_with(&self, tail: Option<SegmentVersion>) -> Vec<Arc<Part>> {
        let mut parts = self.parts.clone();
        if self.segments.is_empty() && tail.is_none() {
            return parts;
        }
        let last = parts.pop();
        let of_base = last.iter().flat_map(|part| &part.segments);
        let segments = of_base.chain(&self.segments).chain(&tail).cloned().collect();
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

impl View {
    /// Encodes the segments of the log's rows that are not.
    fn encode_missing(
        &self,
        base: &TableVersion,
        allocators: &[ColumnAllocator],
        parallel: &dyn Parallel,
    ) -> Result<(), StoreError> {
        assert_eq!(allocators.len(), self.schema.fields().len(), "one allocator per column");
        let all = self.log.closed_segments().chain(self.log.tail());
        let missing: Vec<_> = all.filter(|segment| segment.encoded.get().is_none()).collect();
        let like = match missing.is_empty() {
            true => return Ok(()),
            false => base.segments().map(|version| &version.segment).max_by_key(|segment| segment.rows()),
        };
        let encode = |segment: LogSegment<'_>| {
            let columns = segment.columns()?;
            let built = encoded(&self.schema, &columns, like.map(AsRef::as_ref), allocators, parallel)?;
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

    /// Rows that are encoded, with those that are dead.
    fn version(&self, rows: &LogSegment<'_>, allocator: &Allocator) -> Result<SegmentVersion, StoreError> {
        let mut version = SegmentVersion { segment: Arc::clone(rows.segment()), deleted: None };
        delete(&mut version, self.dead_delta.within(rows.rows.clone()).into_iter(), allocator)?;
        Ok(version)
    }
}
