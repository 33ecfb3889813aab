//! Which segments to merge, and merging them.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::datatypes::{Schema, SchemaRef};
use numa::Allocator;
use std::sync::Arc;

use crate::build::build_part;
use crate::deleted::DeletedRows;
use crate::error::StoreError;
use crate::parallel::{Parallel, map};
use crate::placement::ColumnAllocator;
use crate::segment::SegmentVersion;
use crate::stage::{ProducerRows, Stager};
use crate::table::TableVersion;
use crate::{GRANULE_ROWS, SEGMENT_ROWS_MAX};

/// Fewest neighbours that are worth merging.
const MERGED_MIN: usize = 8;
/// Deleted rows for which no segment is written anew: it has as few rows as a merge of a delta makes.
const THINNED_MIN: usize = 8192;
/// Rows that one producer stages when segments are merged.
const PRODUCER_ROWS: usize = 16 * GRANULE_ROWS;

/// The neighbours to merge next, given the live rows of a part's segments in order; `None` where merging does not pay.
///
/// A range is worth it when it has eight segments and none of them holds more than half of its rows: so a row is
/// rewritten only when the segment it lies in at least doubles, 24 times at most until the segment is full, and ten
/// inserted rows never rewrite sixty million. Of several the one with the fewest rows is chosen. A segment without live
/// rows is a range of its own: merging drops it.
pub fn compaction(sizes: &[usize]) -> Option<Range<usize>> {
    if let Some(empty) = sizes.iter().position(|&size| size == 0) {
        return Some(empty..empty + 1);
    }
    let mut best: Option<(usize, Range<usize>)> = None;
    for start in 0..sizes.len() {
        let mut total = 0;
        let mut largest = 0;
        for (end, &size) in sizes.iter().enumerate().skip(start) {
            total += size;
            largest = largest.max(size);
            let limit = best.as_ref().map_or(SEGMENT_ROWS_MAX, |(rows, _)| *rows);
            if total > limit {
                break;
            }
            if end + 1 - start < MERGED_MIN || 2 * largest > total {
                continue;
            }
            best = Some((total, start..end + 1));
            break;
        }
    }
    // A cheap range is often the tail of a run of equals: take in further neighbours that are no larger than its
    // largest.
    best.map(|(total, range)| widened(sizes, total, range))
}

/// The first of a part's segments of which so many rows are deleted that it is worth writing anew; `segments` are the
/// live rows and all rows of each.
///
/// A quarter, so that a scan reads a third more than it has to at most, and a row that dies has three others written
/// anew. Where a segment's rows die for long, all of them are: for who does it beside statements, not within one.
pub fn thinned(segments: &[(usize, usize)]) -> Option<usize> {
    segments.iter().position(|(live, rows)| rows - live >= THINNED_MIN && 4 * (rows - live) >= *rows)
}

fn widened(sizes: &[usize], mut total: usize, mut range: Range<usize>) -> Range<usize> {
    let largest = sizes[range.clone()].iter().copied().max().unwrap_or(0);
    while range.end < sizes.len() && sizes[range.end] <= largest && total + sizes[range.end] <= SEGMENT_ROWS_MAX {
        total += sizes[range.end];
        range.end += 1;
    }
    while range.start > 0 && sizes[range.start - 1] <= largest && total + sizes[range.start - 1] <= SEGMENT_ROWS_MAX {
        range.start -= 1;
        total += sizes[range.start];
    }
    range
}

/// The live rows of `segments`, in order, as new segments without deleted rows. `allocators` has one for every column;
/// rows are staged by the first one's.
///
/// # Errors
/// [`StoreError::Memory`] or [`StoreError::Interrupted`]; the old segments are untouched.
pub fn compact(
    schema: &SchemaRef,
    segments: &[SegmentVersion],
    allocators: &[ColumnAllocator],
    parallel: &dyn Parallel,
) -> Result<Vec<SegmentVersion>, StoreError> {
    let Some(first) = allocators.first() else { return Ok(Vec::new()) };
    let staging = &first.staging();
    let mut ranges = Vec::new();
    for version in segments {
        let rows = version.segment.rows();
        ranges.extend((0..rows).step_by(PRODUCER_ROWS).map(|from| (version, from..rows.min(from + PRODUCER_ROWS))));
    }
    let node = first.placement.codes.only_node();
    let staged = map(parallel, ranges, &|_| node, &|(version, rows): (&SegmentVersion, Range<usize>)| {
        stage_live_rows(schema, version, rows, staging)
    })?;
    Ok(build_part(schema, staged, allocators, parallel)?.segments)
}

/// Neighbouring segments of a part, and those that were made of their live rows; where each row went.
#[derive(Debug)]
pub struct Compacted {
    part: usize,
    /// First of the old segments, among those of its part.
    first: usize,
    old: Vec<SegmentVersion>,
    new: Vec<SegmentVersion>,
}

impl Compacted {
    /// Compacts a range of a part's segments: see [`compact`].
    ///
    /// # Errors
    /// [`StoreError::NotThere`] for a part or segments that the version does not have, and those of [`compact`].
    pub fn of(
        version: &TableVersion,
        part: usize,
        range: Range<usize>,
        allocators: &[ColumnAllocator],
        parallel: &dyn Parallel,
    ) -> Result<Compacted, StoreError> {
        let old = version.segments_of(part, range.clone())?.to_vec();
        let new = compact(&version.schema, &old, allocators, parallel)?;
        Ok(Compacted { part, first: range.start, old, new })
    }

    /// Whose segments they are.
    pub fn part(&self) -> usize {
        self.part
    }

    /// Rows that were written anew.
    pub fn rows(&self) -> usize {
        self.new.iter().map(|version| version.segment.rows()).sum()
    }

    /// A version with the new segments in place of the old ones; `None` where it has others there. Rows that have died
    /// in it since are dead in the new segments.
    ///
    /// # Errors
    /// [`StoreError::Memory`].
    pub fn within(&self, version: &TableVersion, allocator: &Allocator) -> Result<Option<TableVersion>, StoreError> {
        let range = self.first..self.first + self.old.len();
        let Ok(known) = version.segments_of(self.part, range.clone()) else { return Ok(None) };
        if !known.iter().zip(&self.old).all(|(a, b)| Arc::ptr_eq(&a.segment, &b.segment)) {
            return Ok(None);
        }
        let mut died = Vec::new();
        for (place, (now, then)) in known.iter().zip(&self.old).enumerate() {
            let since = now.deleted.as_ref().map_or_else(Vec::new, |now| now.since(then.deleted.as_deref()));
            died.extend(since.into_iter().map(|row| (place, row)));
        }
        let mut new = self.new.clone();
        for rows in self.places(died.into_iter()).chunk_by(|a, b| a.0 == b.0) {
            let version = &mut new[rows[0].0];
            let positions: Vec<u32> = rows.iter().map(|(_, row)| *row).collect();
            DeletedRows::delete_in(&mut version.deleted, version.segment.rows(), &positions, allocator)?;
        }
        version.with_replaced(self.part, range, new).map(Some)
    }

    /// With the new segments as a version has them by now: with indexes, say.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] where it does not have as many.
    pub fn as_in(self, version: &TableVersion) -> Result<Compacted, StoreError> {
        let new = version.segments_of(self.part, self.first..self.first + self.new.len())?.to_vec();
        Ok(Compacted { new, ..self })
    }

    /// Where rows of a version's segments are in one that has the new segments instead: a segment among those of all
    /// parts in the upper half of a number, its row in the lower. The rows ascend, before and after. Those that the
    /// old segments had as dead are left out.
    pub(crate) fn moved(&self, version: &TableVersion, rows: &[u64]) -> Vec<u64> {
        let before: usize = version.parts.iter().take(self.part).map(|part| part.segments.len()).sum();
        let range = (before + self.first) as u64..(before + self.first + self.old.len()) as u64;
        let from = rows.partition_point(|row| row >> 32 < range.start);
        let end = rows.partition_point(|row| row >> 32 < range.end);
        let within = rows[from..end].iter().map(|row| ((row >> 32) as usize - range.start as usize, *row as u32));
        let placed = self.places(within).into_iter().map(|(place, row)| {
            let segment = range.start + place as u64;
            segment << 32 | u64::from(row)
        });
        let (old, new) = (self.old.len() as u64, self.new.len() as u64);
        let behind = rows[end..].iter().map(|row| ((row >> 32) - old + new) << 32 | u64::from(*row as u32));
        rows[..from].iter().copied().chain(placed).chain(behind).collect()
    }

    /// Which rows of which new segments some rows of the old ones have become, both ascending; without those that were
    /// dead. Each row is as many live ones behind the first as it was.
    fn places(&self, rows: impl Iterator<Item = (usize, u32)>) -> Vec<(usize, u32)> {
        let mut places = Vec::new();
        let (mut old, mut old_first) = (0, 0);
        let (mut new, mut new_first) = (0, 0);
        // Dead rows of the old segment, before a row of it.
        let (mut dead, mut counted) = (0, 0);
        for (segment, row) in rows {
            while old < segment {
                old_first += self.old[old].live_rows();
                old += 1;
                (dead, counted) = (0, 0);
            }
            if let Some(deleted) = &self.old[old].deleted {
                dead += deleted.count_in(counted..row as usize);
                counted = row as usize;
                if deleted.contains(row as usize) {
                    continue;
                }
            }
            let place = old_first + row as usize - dead;
            while place >= new_first + self.new[new].segment.rows() {
                new_first += self.new[new].segment.rows();
                new += 1;
            }
            places.push((new, (place - new_first) as u32));
        }
        places
    }
}

fn stage_live_rows(
    schema: &SchemaRef,
    version: &SegmentVersion,
    rows: Range<usize>,
    allocator: &Allocator,
) -> Result<ProducerRows, StoreError> {
    // The rows were checked when they came in; names and NOT NULL of today's schema are not theirs to answer for.
    let fields: Vec<_> = schema.fields().iter().map(|f| Arc::new(f.as_ref().clone().with_nullable(true))).collect();
    let relaxed: SchemaRef = Arc::new(Schema::new(fields));
    let mut stager = Stager::new(Arc::clone(&relaxed), allocator.clone());
    for from in rows.clone().step_by(GRANULE_ROWS) {
        let granule = from..rows.end.min(from + GRANULE_ROWS);
        let columns = version.segment.columns();
        let (columns, count) = match &version.deleted {
            None => (columns.map(|column| column.slice(granule.clone())).collect::<Vec<_>>(), granule.len()),
            Some(deleted) => {
                let live: Vec<u32> = granule.filter(|&row| !deleted.contains(row)).map(|row| row as u32).collect();
                (columns.map(|column| column.take(&live)).collect(), live.len())
            }
        };
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        stager.append(&RecordBatch::try_new_with_options(Arc::clone(&relaxed), columns, &options)?)?;
    }
    stager.finish()
}
