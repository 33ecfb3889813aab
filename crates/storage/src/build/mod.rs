//! From staged rows to a part: dictionaries first, then codes, granule by granule.
//!
//! 1. Where producers staged strings as they are and all rows together have few values, these are encoded, in parallel.
//! 2. Per column, in parallel: what the producers know of their values is put together and the smallest encoding
//!    chosen.
//! 3. Per group of columns: the final memory is allocated, runs of granules are packed in parallel, each freeing what
//!    it has read. Groups keep the peak at the staged bytes and one group more.
//! 4. What moved into a column without a copy is put where it shall lie, and copies for other nodes are made.
//!
//! Strings that were staged as they are move into the column without a copy, also where a producer ended amid a
//! granule.

mod encode;
mod numbers;
mod plan;
mod recode;
mod strings;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use numa::Allocator;

use crate::SEGMENT_ROWS_MAX;
use crate::column::Column;
use crate::error::StoreError;
use crate::parallel::{Parallel, map};
use crate::place::settled;
use crate::placement::ColumnAllocator;
use crate::plain::PlainData;
use crate::segment::{Part, Segment, SegmentVersion};
use crate::stage::{ProducerRows, StagedColumn};
use crate::types::{Physical, surface_type};
use numbers::plan_numbers;
use plan::{Plan, PlannedColumn, StagedRows};
use strings::plan_strings;

/// Columns are packed in groups of at least this many bytes, so that small tables take one step.
const GROUP_BYTES_MIN: usize = 64 << 20;

/// Makes a part of what producers staged: their rows in the order of the vector, in segments of at most
/// [`SEGMENT_ROWS_MAX`] rows that share one dictionary per column. `allocators` has one allocator per column of
/// `schema`, each component where its placement says. Staging memory is freed as the part grows.
///
/// # Errors
/// [`StoreError::Memory`] or [`StoreError::Interrupted`]; nothing is left behind.
pub fn build_part(
    schema: &SchemaRef,
    staged: Vec<ProducerRows>,
    allocators: &[ColumnAllocator],
    parallel: &dyn Parallel,
) -> Result<Part, StoreError> {
    let count = schema.fields().len();
    assert_eq!(allocators.len(), count, "one allocator per column");
    assert!(staged.iter().all(|producer| producer.columns.len() == count), "producers staged another schema");
    let rows: usize = staged.iter().map(|producer| producer.rows).sum();
    let columns = recode::recoded(transposed(staged, count), allocators, parallel)?;
    let node = |column: usize| allocators[column].home();

    let inputs = columns.into_iter().enumerate().collect();
    let planned = map(parallel, inputs, &node, &|(column, producers): (usize, Vec<StagedColumn>)| {
        let data_type = surface_type(schema.field(column).data_type());
        plan_column(data_type, producers, rows, &allocators[column].dictionary())
    })?;

    let mut finished: Vec<Vec<Column>> = Vec::with_capacity(count);
    let total: usize = planned.iter().map(|column| column.new_bytes).sum();
    let mut rest = planned.into_iter().peekable();
    while rest.peek().is_some() {
        let mut group: Vec<(PlannedColumn, &ColumnAllocator)> = Vec::new();
        let mut bytes = 0;
        while let Some(column) = rest.next_if(|c| group.is_empty() || bytes + c.new_bytes <= group_limit(total)) {
            bytes += column.new_bytes;
            group.push((column, &allocators[finished.len() + group.len()]));
        }
        finished.extend(encode::encode_group(group, rows, parallel)?);
    }
    settled(Part { segments: segments(finished, rows) }, allocators, parallel)
}

/// Puts the producers of one column together and chooses its encoding.
fn plan_column(
    data_type: DataType,
    producers: Vec<StagedColumn>,
    rows: usize,
    allocator: &Allocator,
) -> Result<PlannedColumn, StoreError> {
    let mut numbers = Vec::new();
    let mut strings = Vec::new();
    let mut arrays = Vec::new();
    for producer in producers {
        match producer {
            StagedColumn::Numbers(staged) => numbers.push(staged),
            StagedColumn::Strings(staged) => strings.push(staged),
            StagedColumn::Arrays(staged) => arrays.extend(staged),
        }
    }
    match Physical::of(&data_type) {
        Physical::Bytes => plan_strings(data_type, strings, rows, allocator),
        Physical::Opaque => Ok(plan_arrays(data_type, arrays)),
        _ => plan_numbers(data_type, numbers, rows, allocator),
    }
}

fn plan_arrays(data_type: DataType, arrays: Vec<ArrayRef>) -> PlannedColumn {
    let piece = |array: ArrayRef| StagedRows::piece(array.len(), Arc::new(PlainData::Array(array)));
    let sources = arrays.into_iter().map(piece).collect();
    PlannedColumn { data_type, plan: Plan::Arrays, sources, new_bytes: 0 }
}

fn group_limit(total: usize) -> usize {
    (total / 8).max(GROUP_BYTES_MIN)
}

/// Producers' columns to columns' producers.
fn transposed(staged: Vec<ProducerRows>, count: usize) -> Vec<Vec<StagedColumn>> {
    let mut columns: Vec<Vec<StagedColumn>> = (0..count).map(|_| Vec::with_capacity(staged.len())).collect();
    for producer in staged {
        for (column, staged) in columns.iter_mut().zip(producer.columns) {
            column.push(staged);
        }
    }
    columns
}

/// Puts the columns' segments together.
fn segments(columns: Vec<Vec<Column>>, rows: usize) -> Vec<SegmentVersion> {
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let starts = (0..rows).step_by(SEGMENT_ROWS_MAX);
    starts
        .map(|start| {
            let of_segment = columns.iter_mut().filter_map(Iterator::next).map(Arc::new).collect();
            SegmentVersion::new(Segment::new((rows - start).min(SEGMENT_ROWS_MAX), of_segment))
        })
        .collect()
}
