//! How Nearside keeps tables in memory: dictionaries, bit-packed codes, plain columns, segments, parts and table
//! versions.
//!
//! What is stored is immutable. Producers stage batches ([`Stager`]), [`build_part`] turns what they staged into
//! segments, and a [`TableVersion`] is a snapshot that readers share. Small writes go to a [`Delta`], which becomes
//! part of a table version when somebody scans. `docs/design/storage.md` draws the bytes.
//!
//! # Invariants
//! - No thread is started here: parallel work runs on what the caller lends through [`Parallel`].
//! - Bulk data comes from the [`numa::Allocator`]s the caller gave, so the caller decides the node and the budget.
//! - Codes preserve the order of the values within one dictionary; NULL, where a column has any, is code 0.
//! - `unsafe` stands in `kernels` only.
//!
//! # Limits
//! Arrays of types that have no order of ours (lists, structs, intervals, ...) are kept as arrow arrays in the
//! allocator of the process, outside regions and budgets.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow::array::{AsArray, Date32Array, RecordBatch};
//! use arrow::datatypes::{DataType, Date32Type, Field, Schema};
//! use numa::Allocator;
//! use storage::{CodePredicate, ColumnAllocator, Serial, Stager, TableVersion, build_part};
//!
//! let schema = Arc::new(Schema::new(vec![Field::new("shipped", DataType::Date32, true)]));
//! let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
//! let days = Date32Array::from_iter((0..1000).map(|row| (row % 10 != 0).then_some(9000 + row % 365)));
//! stager.append(&RecordBatch::try_new(schema.clone(), vec![Arc::new(days)])?)?;
//! let part = build_part(&schema, vec![stager.finish()?], &[ColumnAllocator::unplaced()], &Serial)?;
//! let table = TableVersion::empty(&schema).with_appended(part);
//!
//! // shipped < 9005: a bound in the dictionary, then a scan of codes. NULL is code 0, the first vid is code 1.
//! let segment = &table.segments().next().expect("one segment").segment;
//! let column = segment.column(0).as_coded().expect("dates in a range have codes");
//! let hi = column.dictionary().lower_bound(&Date32Array::from(vec![9005]))?;
//! let mut mask = vec![u64::MAX; segment.rows().div_ceil(64)];
//! column.select(0..segment.rows(), &CodePredicate::Range { lo: 1, hi }, &mut mask);
//! assert_eq!(mask.iter().map(|word| word.count_ones()).sum::<u32>(), 13);
//! assert_eq!(segment.column(0).take(&[1, 366]).as_primitive::<Date32Type>().values(), &[9001, 9001]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod affine;
mod build;
mod coded;
mod column;
mod compact;
mod constant;
mod copies;
mod deleted;
mod delta;
mod dictionary;
mod error;
mod identity;
mod index;
mod kernels;
mod mask;
mod mover;
mod on_disk;
mod parallel;
mod partition;
pub mod persist;
mod place;
mod placement;
mod plain;
mod predicate;
mod region_vec;
mod repartition;
mod segment;
mod stage;
mod strings;
mod table;
#[cfg(test)]
mod tests;
mod types;

pub use build::build_part;
pub use coded::CodedColumn;
pub use column::{Column, Component, RowIds};
pub use compact::{Compacted, compact, compaction, thinned};
pub use constant::constant_column;
pub use deleted::DeletedRows;
pub use delta::{
    DELTA_PARTS_MAX, DeltaCounts, Deltas, DeltasCaught, DeltasView, DeltasWrite, Places, RowHold, TableRow,
};
pub use dictionary::{Dictionary, Encoding};
pub use error::{Interruption, StoreError};
pub use identity::{ColumnId, DictionaryId};
pub use index::{Index, IndexKind, IndexRows, indexable};
#[doc(hidden)]
pub use kernels::bench;
pub use mask::{mask_count, mask_positions};
pub use mover::PlaceReport;
pub use on_disk::{ColumnOnDisk, ColumnSource, UnreadColumn, UnreadColumns, load_columns, load_columns_with};
pub use parallel::{CostOf, NodeOf, Parallel, Serial, TaskBody};
pub use partition::Partitioner;
pub use place::{place, place_parts, place_rows};
pub use placement::{ColumnAllocator, ColumnPlacement, Placement};
pub use plain::{PlainColumn, Texts};
pub use predicate::{CodePredicate, CodeSet};
pub use repartition::{range_bounds, repartition};
pub use segment::{Part, Segment, SegmentVersion, StoredColumn};
pub use stage::{ProducerRows, Stager};
pub use table::{DuplicateKey, KeyCheck, KeyLimits, Keys, RowPlace, RowsToDelete, TableVersion, duplicate_key};
pub use types::{surface_schema, surface_type};

/// Values per block of packed codes: 8 lanes of 32 values.
pub const BLOCK_ROWS: usize = 256;
/// Rows per granule: the unit of block summaries, of morsels and of placement splits. `b` bits take exactly `2b` pages.
pub const GRANULE_ROWS: usize = 65_536;
/// Most rows of one segment.
pub const SEGMENT_ROWS_MAX: usize = 16 << 20;

const _: () = assert!(GRANULE_ROWS.is_multiple_of(BLOCK_ROWS) && SEGMENT_ROWS_MAX.is_multiple_of(GRANULE_ROWS));
