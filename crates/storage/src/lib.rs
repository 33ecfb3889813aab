//! How Nearside keeps tables in memory: dictionaries, bit-packed codes, plain columns, segments, parts and table versions.
//!
//! What is stored is immutable. Producers stage batches ([`Stager`]), [`build_part`] turns what they staged into
//! segments, and a [`TableVersion`] is a snapshot that readers share. `docs/design/storage.md` draws the bytes.
//!
//! # Invariants
//! - No thread is started here: parallel work runs on what the caller lends through [`Parallel`].
//! - Bulk data comes from the [`numa::Allocator`]s the caller gave, so the caller decides the node and the budget.
//! - Codes preserve the order of the values within one dictionary; NULL, where a column has any, is code 0.
//! - `unsafe` stands in `kernels` only.
//!
//! # Limits
//! The index (vid -> positions) and the delta are not here yet. Arrays of types that have no order of ours (lists,
//! structs, intervals, ...) are kept as arrow arrays in the allocator of the process, outside regions and budgets.

mod affine;
mod build;
mod coded;
mod column;
mod compact;
mod constant;
mod deleted;
mod dictionary;
mod error;
mod kernels;
mod parallel;
mod plain;
mod predicate;
mod region_vec;
mod segment;
mod stage;
mod strings;
mod table;
#[cfg(test)]
mod tests;
mod types;

pub use build::build_part;
pub use coded::CodedColumn;
pub use column::{Column, Component};
pub use compact::{compact, compaction};
pub use constant::constant_column;
pub use deleted::DeletedRows;
pub use dictionary::{Dictionary, Encoding};
pub use error::StoreError;
pub use parallel::{Interrupted, Parallel, Serial};
pub use plain::PlainColumn;
pub use predicate::{CodePredicate, CodeSet};
pub use segment::{Part, Segment, SegmentVersion};
pub use stage::{Staged, Stager};
pub use table::{RowsToDelete, TableVersion};
pub use types::{surface_schema, surface_type};

/// Values per block of packed codes: 8 lanes of 32 values.
pub const BLOCK_ROWS: usize = 256;
/// Rows per granule: the unit of block summaries, of morsels and of placement splits. `b` bits take exactly `2b` pages.
pub const GRANULE_ROWS: usize = 65_536;
/// Most rows of one segment.
pub const SEGMENT_ROWS_MAX: usize = 16 << 20;

const _: () = assert!(GRANULE_ROWS.is_multiple_of(BLOCK_ROWS) && SEGMENT_ROWS_MAX.is_multiple_of(GRANULE_ROWS));
