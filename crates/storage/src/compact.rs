//! Which segments to merge, and merging them.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::datatypes::{Schema, SchemaRef};
use numa::Allocator;
use std::sync::Arc;

use crate::build::build_part;
use crate::error::StoreError;
use crate::parallel::{Parallel, map};
use crate::placement::ColumnAllocator;
use crate::segment::SegmentVersion;
use crate::stage::{ProducerRows, Stager};
use crate::{GRANULE_ROWS, SEGMENT_ROWS_MAX};

/// Fewest neighbours that are worth merging.
const MERGED_MIN: usize = 8;
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
        let columns = version.segment.columns().iter();
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
