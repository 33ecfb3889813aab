//! [`Input`]: what a filter reads from.
//!
//! A scan gives its filter a *piece* (some rows of one granule of a segment), where values are codes; what is evaluated
//! above a scan reads a record batch instead. Both are an [`Input`], so the filter is written once.

use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use storage::{CodePredicate, Texts, mask_positions};

use crate::ExecError;
use crate::mask::Mask;

/// Rows of an [`Input`], by its own row numbers.
#[derive(Debug, Clone)]
pub(crate) enum InputRows<'a> {
    /// Consecutive rows.
    Range(Range<usize>),
    /// Ascending rows.
    Positions(&'a [u32]),
    /// Rows that are close to each other.
    Marked(MarkedInput<'a>),
}

/// Rows of which a bit mask says whether they are meant.
#[derive(Debug, Clone)]
pub(crate) struct MarkedInput<'a> {
    /// The rows that have a bit; the first one's number is a multiple of 256.
    pub(crate) rows: Range<usize>,
    /// A word for every 64 of them; bits past the last are 0.
    pub(crate) mask: &'a [u64],
    /// Bits that are set.
    pub(crate) count: usize,
}

impl MarkedInput<'_> {
    /// The rows' numbers.
    pub(crate) fn positions(&self) -> Vec<u32> {
        let mut positions = Vec::new();
        mask_positions(self.mask, self.rows.start as u32, &mut positions);
        positions
    }
}

impl InputRows<'_> {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows these are.
    pub(crate) fn len(&self) -> usize {
        match self {
            InputRows::Range(range) => range.len(),
            InputRows::Positions(positions) => positions.len(),
            InputRows::Marked(marked) => marked.count,
        }
    }
}

/// Rows that a filter or projection reads, numbered from `start()`.
pub(crate) trait Input {
    /// Number of the first row; bit 0 of a mask over this input.
    fn start(&self) -> usize;

    /// Values of some rows of a column, in order.
    fn column(&self, column: usize, rows: &InputRows<'_>) -> Result<ArrayRef, ExecError>;

    /// Smallest and largest code that a coded column may hold in these rows; `None` where the column has no codes.
    fn code_bounds(&self, _column: usize) -> Option<(u32, u32)> {
        None
    }

    /// Codes of some rows; `None` where the column has no codes.
    fn codes(&self, _column: usize, _rows: &InputRows<'_>) -> Option<Vec<u32>> {
        None
    }

    /// The texts of all its rows as they lie in memory; `None` where they are kept in another way.
    fn texts(&self, _column: usize) -> Option<Vec<Texts<'_>>> {
        None
    }

    /// Keeps the rows of `mask` whose codes pass. Only for columns that have codes.
    fn select(&self, column: usize, _predicate: &CodePredicate, _mask: &mut Mask) {
        unreachable!("column {column} has no codes to select on");
    }
}

/// A record batch as an input.
pub(crate) struct BatchInput<'a>(pub(crate) &'a RecordBatch);

impl Input for BatchInput<'_> {
    fn start(&self) -> usize {
        0
    }

    fn column(&self, column: usize, rows: &InputRows<'_>) -> Result<ArrayRef, ExecError> {
        let values = self.0.column(column);
        match rows {
            InputRows::Range(range) if *range == (0..values.len()) => Ok(values.clone()),
            InputRows::Range(range) => Ok(values.slice(range.start, range.len())),
            InputRows::Positions(positions) => Ok(take(values, &UInt32Array::from(positions.to_vec()), None)?),
            InputRows::Marked(marked) => Ok(take(values, &UInt32Array::from(marked.positions()), None)?),
        }
    }
}
