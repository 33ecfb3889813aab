//! Physical partitioning: a table's live rows as parts with dictionaries of their own.
//!
//! 1. Near what is read: the part of every live row, as 16 bits; per dictionary entry where the column is coded.
//! 2. Near what is written: for each part, producers stage its rows granule by granule.
//! 3. Each part is built of what its producers staged, which is freed on the way.
//!
//! Rows of a part keep their order. The peak is the old table, what is staged (about the new table), two bytes a row
//! and one group of columns of the parts being built; all of it counts in the budgets of the allocators.
//!
//! # Limits
//! Parts are built inside tasks, so the caller's [`Parallel`] must allow a task to call it. Everything is rewritten,
//! also rows whose part stays what it was.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 4.2 (PP).

mod bounds;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use numa::{Allocator, NodeId, Region};

use crate::GRANULE_ROWS;
use crate::build::build_part;
use crate::coded::CodedColumn;
use crate::column::Column;
use crate::error::StoreError;
use crate::identity::DictionaryId;
use crate::parallel::{Parallel, map};
use crate::partition::{HASH_START, Partitioner, Ranges, hashes_of, joined, part_of_hash};
use crate::placement::ColumnAllocator;
use crate::segment::{Part, SegmentVersion};
use crate::stage::{ProducerRows, Stager};
use crate::table::TableVersion;
pub use bounds::range_bounds;

/// Granules of a segment that one task routes.
const RUN_GRANULES: usize = 16;
/// Rows that one producer of a part reads, per part that there is: each stages about this many.
const PRODUCER_ROWS: usize = 16 * GRANULE_ROWS;
/// The route of a deleted row.
const DELETED: u16 = u16::MAX;
/// Entries of a dictionary that are routed at once.
const ENTRIES_AT_ONCE: usize = 65_536;

/// The live rows of `version`, sent to parts by `partitioner` (`None`: all to one part), each part with dictionaries of
/// its own and in the memory of `allocators[part]`, which has one allocator per column. As many parts come out as the
/// partitioner has, some perhaps empty; rows keep their order within a part. `version` is untouched.
///
/// # Errors
/// [`StoreError::BadPartitioner`], [`StoreError::Memory`] or [`StoreError::Interrupted`]; nothing is left behind.
pub fn repartition(
    version: &TableVersion,
    partitioner: Option<&Partitioner>,
    allocators: &[Vec<ColumnAllocator>],
    parallel: &dyn Parallel,
) -> Result<Vec<Arc<Part>>, StoreError> {
    let types: Vec<DataType> = version.schema.fields().iter().map(|field| field.data_type().clone()).collect();
    let one = Partitioner::RoundRobin { parts: 1 };
    let partitioner = partitioner.unwrap_or(&one);
    partitioner.check(&types)?;
    let parts = partitioner.parts();
    assert_eq!(allocators.len(), parts, "allocators for each part");
    assert!(allocators.iter().all(|of| of.len() == types.len()), "one allocator per column");
    if types.is_empty() {
        let rows = rows_without_columns(version, partitioner)?;
        return Ok(rows);
    }
    let runs = routed(version, partitioner, &allocators[0][0].allocator, parallel)?;
    let staged = stage_parts(version, &runs, allocators, parallel)?;
    drop(runs);
    let schema = &version.schema;
    let build = |(staged, allocators): (Vec<ProducerRows>, &Vec<ColumnAllocator>)| {
        if staged.iter().all(|staged| staged.rows() == 0) {
            return Ok(Arc::new(Part::default()));
        }
        Ok(Arc::new(build_part(schema, staged, allocators, parallel)?))
    };
    let inputs = staged.into_iter().zip(allocators).collect();
    map(parallel, inputs, &|part| allocators[part][0].home(), &build)
}

/// Consecutive granules of a segment and where their rows go.
struct Run<'a> {
    version: &'a SegmentVersion,
    /// Number of the first live row.
    first_live: u64,
    rows: Range<usize>,
    /// The part of each row, or [`DELETED`]; absent for no row.
    routes: Option<Region>,
}

/// The runs of a table, in order, not routed yet.
fn runs_of(version: &TableVersion) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut first_live = 0;
    for version in version.segments() {
        let total = version.segment.rows();
        for from in (0..total).step_by(RUN_GRANULES * GRANULE_ROWS) {
            let rows = from..total.min(from + RUN_GRANULES * GRANULE_ROWS);
            let live = match &version.deleted {
                None => rows.len(),
                Some(deleted) => rows.clone().filter(|&row| !deleted.contains(row)).count(),
            };
            runs.push(Run { version, first_live, rows, routes: None });
            first_live += live as u64;
        }
    }
    runs
}

fn routed<'a>(
    version: &'a TableVersion,
    partitioner: &Partitioner,
    allocator: &Allocator,
    parallel: &dyn Parallel,
) -> Result<Vec<Run<'a>>, StoreError> {
    let routes = Routes { partitioner, known: Mutex::default() };
    let runs = runs_of(version);
    let nodes: Vec<Option<NodeId>> = runs.iter().map(|run| node_read(partitioner, run)).collect();
    map(parallel, runs, &|i| nodes[i], &|mut run: Run<'a>| {
        let mut region = allocator.region(2 * run.rows.len())?;
        let target = &mut region.words_mut::<u16>()[..run.rows.len()];
        for (i, chunk) in target.chunks_mut(GRANULE_ROWS).enumerate() {
            let start = run.rows.start + i * GRANULE_ROWS;
            routes.route(run.version, start..start + chunk.len(), chunk)?;
        }
        if let Some(deleted) = &run.version.deleted {
            for (row, route) in run.rows.clone().zip(target.iter_mut()) {
                *route = if deleted.contains(row) { DELETED } else { *route };
            }
        }
        if let Partitioner::RoundRobin { parts } = partitioner {
            let live = target.iter_mut().filter(|route| **route != DELETED);
            for (number, route) in (run.first_live..).zip(live) {
                *route = (number % *parts as u64) as u16;
            }
        }
        run.routes = Some(region);
        Ok(run)
    })
}

/// The node that the first column to be read for the route lies on, by policy.
fn node_read(partitioner: &Partitioner, run: &Run<'_>) -> Option<NodeId> {
    let column = match partitioner {
        Partitioner::Range { column, .. } => *column,
        Partitioner::Hash { columns, .. } => *columns.first()?,
        Partitioner::RoundRobin { .. } => return None,
    };
    run.version.segment.column(column).placed_node(run.rows.start / GRANULE_ROWS)
}

/// What the rule says of the entries of dictionaries, by dictionary and NULL code: the part (range) or the hash of each
/// code.
struct Routes<'a> {
    partitioner: &'a Partitioner,
    known: Mutex<HashMap<(DictionaryId, bool), Arc<PerCode>>>,
}

enum PerCode {
    Parts(Vec<u16>),
    Hashes(Vec<Option<u64>>),
}

impl Routes<'_> {
    /// The parts of rows of a segment; those of deleted rows and of rows in turn are not told here.
    fn route(&self, version: &SegmentVersion, rows: Range<usize>, out: &mut [u16]) -> Result<(), StoreError> {
        match self.partitioner {
            Partitioner::RoundRobin { .. } => {}
            Partitioner::Range { column, bounds } => {
                let column = version.segment.column(*column);
                if let Some(codes) = self.per_code(column, version.segment.rows())? {
                    let PerCode::Parts(parts) = codes.as_ref() else { unreachable!("ranges have parts per code") };
                    for (out, code) in out.iter_mut().zip(codes_of(column, rows)) {
                        *out = parts[code as usize];
                    }
                } else {
                    let mut parts = Vec::with_capacity(rows.len());
                    Ranges::new(bounds)?.push_parts(&column.slice(rows), &mut parts);
                    out.iter_mut().zip(parts).for_each(|(out, part)| *out = part as u16);
                }
            }
            Partitioner::Hash { columns, parts } => {
                let mut hashes = vec![HASH_START; rows.len()];
                for &column in columns {
                    let column = version.segment.column(column);
                    if let Some(codes) = self.per_code(column, version.segment.rows())? {
                        let PerCode::Hashes(known) = codes.as_ref() else { unreachable!("hashes per code") };
                        for (hash, code) in hashes.iter_mut().zip(codes_of(column, rows.clone())) {
                            *hash = joined(*hash, known[code as usize]);
                        }
                    } else {
                        let values = hashes_of(&column.slice(rows.clone()));
                        hashes.iter_mut().zip(values).for_each(|(hash, value)| *hash = joined(*hash, value));
                    }
                }
                out.iter_mut().zip(hashes).for_each(|(out, hash)| *out = part_of_hash(hash, *parts) as u16);
            }
        }
        Ok(())
    }

    /// What is known per code of a column; `None` where its segment has fewer rows than the dictionary entries.
    fn per_code(&self, column: &Column, rows: usize) -> Result<Option<Arc<PerCode>>, StoreError> {
        let Some(coded) = column.as_coded().filter(|coded| coded.dictionary().len() <= rows.max(1)) else {
            return Ok(None);
        };
        let key = (coded.dictionary().id(), coded.null_code());
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return Ok(Some(Arc::clone(known)));
        }
        let made = Arc::new(self.evaluated(coded)?);
        Ok(Some(Arc::clone(lock().entry(key).or_insert(made))))
    }

    fn evaluated(&self, coded: &CodedColumn) -> Result<PerCode, StoreError> {
        let dictionary = coded.dictionary();
        let mut parts = Vec::new();
        let mut hashes = Vec::new();
        if coded.null_code() {
            parts.push(0);
            hashes.push(None);
        }
        for from in (0..dictionary.len()).step_by(ENTRIES_AT_ONCE) {
            let to = dictionary.len().min(from + ENTRIES_AT_ONCE);
            let values = dictionary.values(from as u32..to as u32);
            match self.partitioner {
                Partitioner::Range { bounds, .. } => Ranges::new(bounds)?.push_parts(&values, &mut parts),
                _ => hashes.extend(hashes_of(&values)),
            }
        }
        Ok(match self.partitioner {
            Partitioner::Range { .. } => PerCode::Parts(parts.into_iter().map(|part| part as u16).collect()),
            _ => PerCode::Hashes(hashes),
        })
    }
}

fn codes_of(column: &Column, rows: Range<usize>) -> Vec<u32> {
    let mut codes = Vec::with_capacity(rows.len());
    if let Some(coded) = column.as_coded() {
        coded.unpack(rows, &mut codes);
    }
    codes
}

/// Stages the rows of every part; each part's producers in row order.
fn stage_parts(
    version: &TableVersion,
    runs: &[Run<'_>],
    allocators: &[Vec<ColumnAllocator>],
    parallel: &dyn Parallel,
) -> Result<Vec<Vec<ProducerRows>>, StoreError> {
    let schema = relaxed(&version.schema);
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut rows = usize::MAX;
    for (i, run) in runs.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if rows < PRODUCER_ROWS.saturating_mul(allocators.len()) => group.end = i + 1,
            _ => {
                groups.push(i..i + 1);
                rows = 0;
            }
        }
        rows += run.rows.len();
    }
    let tasks: Vec<(usize, Range<usize>)> =
        (0..allocators.len()).flat_map(|part| groups.iter().map(move |group| (part, group.clone()))).collect();
    let nodes: Vec<Option<NodeId>> =
        tasks.iter().map(|(part, _)| allocators[*part][0].placement.codes.only_node()).collect();
    let staged = map(parallel, tasks, &|i| nodes[i], &|(part, group): (usize, Range<usize>)| {
        let mut stager = Stager::new(Arc::clone(&schema), allocators[part][0].staging());
        for run in &runs[group] {
            stage_run(run, part as u16, &schema, &mut stager)?;
        }
        stager.finish()
    })?;
    let mut staged = staged.into_iter();
    Ok(allocators.iter().map(|_| staged.by_ref().take(groups.len()).collect()).collect())
}

/// The rows were checked when they came in; NOT NULL of today's schema is not theirs to answer for.
fn relaxed(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<_> = schema.fields().iter().map(|f| Arc::new(f.as_ref().clone().with_nullable(true))).collect();
    Arc::new(Schema::new(fields))
}

fn stage_run(run: &Run<'_>, part: u16, schema: &SchemaRef, stager: &mut Stager) -> Result<(), StoreError> {
    let routes = run.routes.as_ref().map_or(&[][..], |region| &region.words::<u16>()[..run.rows.len()]);
    let mut positions = Vec::new();
    for (i, routes) in routes.chunks(GRANULE_ROWS).enumerate() {
        let start = run.rows.start + i * GRANULE_ROWS;
        positions.clear();
        positions.extend((start as u32..).zip(routes).filter(|(_, route)| **route == part).map(|(row, _)| row));
        if positions.is_empty() {
            continue;
        }
        let columns = run.version.segment.columns();
        let columns: Vec<ArrayRef> = if positions.len() == routes.len() {
            columns.map(|column| column.slice(start..start + routes.len())).collect()
        } else {
            columns.map(|column| column.take(&positions)).collect()
        };
        let options = RecordBatchOptions::new().with_row_count(Some(positions.len()));
        stager.append(&RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)?;
    }
    Ok(())
}

/// A table may have rows and no columns: then rows are only counted.
fn rows_without_columns(version: &TableVersion, partitioner: &Partitioner) -> Result<Vec<Arc<Part>>, StoreError> {
    let parts = partitioner.parts();
    let rows = version.rows();
    let schema = relaxed(&version.schema);
    let part = |part: usize| {
        let count = rows / parts + usize::from(part < rows % parts);
        let mut stager = Stager::new(Arc::clone(&schema), Allocator::unplaced());
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        stager.append(&RecordBatch::try_new_with_options(Arc::clone(&schema), Vec::new(), &options)?)?;
        Ok(Arc::new(build_part(&version.schema, vec![stager.finish()?], &[], &crate::Serial)?))
    };
    (0..parts).map(part).collect()
}
