//! The index: value -> rows of a segment that hold it (the papers' IX, vid -> positions).
//!
//! Every index is, in effect, the rows of a segment without those that are NULL, ordered by value and among equals by
//! row; a look-up gives a run of that order, so it knows how many rows there are before it has looked at one. How that
//! order is kept is the [`IndexKind`]:
//! ```text
//! Ascending     values never fall in row order            nothing: the rows themselves are the order; binary search
//! Positions     codes, dense enough for one offset each   [offset; codes + 1]  [row; rows]
//! Permutation   plain values, codes far apart             [offset; buckets + 1] [row; rows], a bucket is searched
//! ```
//! Buckets: a value has a *rank*, a number of 64 bits that never falls as values rise (its code; its key less the
//! lowest; the eight bytes that follow what all strings begin with). A bucket is the values whose ranks agree but for
//! their lowest bits, and there are about as many buckets as rows: a look-up reads two offsets and compares a value or
//! two. Where values crowd together, a bucket is long and binary search makes up for it.
//!
//! # Invariants
//! - An index belongs to a column's rows, not to its memory: the column may move, its codes and values stay.
//! - NULL is in no index. Deleted rows are: whoever looks rows up leaves them out.
//! - Values are ordered as the column's type is (`types`): floats by IEEE 754 total order.
//!
//! # Limits
//! One column; a key of several is looked up by one of them. Types without an order of ours have no index.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 2 and 4.1 (the optional index of a column); the buckets are ours.

mod build;
mod ranks;

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::DataType;
use numa::{NodeId, Region};

use crate::GRANULE_ROWS;
use crate::coded::CodedColumn;
use crate::column::Column;
use crate::copies::Copies;
use crate::dictionary::{Value, comparable};
use crate::error::StoreError;
use crate::mover::{Movable, unless_same};
use crate::placement::Exchange;
use crate::region_vec::words_of;
use crate::types::Physical;
pub(crate) use build::build;
use ranks::Ranks;

/// Whether a column of this type may have an index.
pub fn indexable(data_type: &DataType) -> bool {
    Physical::of(&crate::surface_type(data_type)) != Physical::Opaque
}

/// How the order of the rows is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// Values never fall in row order, NULLs first: no memory.
    Ascending,
    /// The rows of each code, by code.
    Positions,
    /// The rows ordered by value.
    Permutation,
}

/// How often a straight line is followed before a row is looked for by halves.
const GUESSES: usize = 3;

/// Codes that are looked up beside each other, at most.
pub(crate) const WARM_MAX: usize = 32;

/// The index on one column of one segment.
#[derive(Debug)]
pub struct Index {
    kind: IndexKind,
    /// Rows that are not NULL.
    rows: usize,
    distinct: usize,
    ranks: Ranks,
    /// Ranks that agree but for `n` low bits share a bucket.
    shift: u32,
    /// Nothing for [`IndexKind::Ascending`].
    data: Copies<Arc<IndexData>>,
}

/// What an index keeps.
#[derive(Debug, Default)]
pub(crate) struct IndexData {
    /// Where the rows of each bucket begin, and one more; absent where every bucket has exactly one row.
    offsets: Option<Arc<Region>>,
    /// The rows.
    positions: Option<Arc<Region>>,
}

/// What a look-up finds: rows of the segment, deleted ones among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexRows<'a> {
    /// Consecutive rows.
    Range(Range<u32>),
    /// Rows by value, and ascending among equals.
    Listed(&'a [u32]),
}

impl IndexRows<'_> {
    /// How many rows these are.
    pub fn len(&self) -> usize {
        match self {
            IndexRows::Range(range) => range.len(),
            IndexRows::Listed(rows) => rows.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (range, listed) = match self {
            IndexRows::Range(range) => (range.clone(), &[][..]),
            IndexRows::Listed(rows) => (0..0, *rows),
        };
        range.chain(listed.iter().copied())
    }
}

impl IndexData {
    /// The regions that it lies in.
    pub(crate) fn regions(&self) -> Vec<&Region> {
        self.offsets.iter().chain(&self.positions).map(|region| region.as_ref()).collect()
    }

    /// The same with each region as `exchange` gives it.
    ///
    /// # Errors
    /// Those of `exchange`.
    pub(crate) fn exchanged<E>(&self, exchange: &mut Exchange<'_, E>) -> Result<IndexData, E> {
        Ok(IndexData {
            offsets: self.offsets.as_ref().map(&mut *exchange).transpose()?,
            positions: self.positions.as_ref().map(&mut *exchange).transpose()?,
        })
    }
}

impl Movable for Arc<IndexData> {
    fn exchanged(&self, exchange: &mut Exchange<'_, StoreError>) -> Result<Self, StoreError> {
        unless_same(self, exchange, IndexData::exchanged)
    }

    fn regions(&self) -> Vec<&Region> {
        IndexData::regions(self)
    }
}

impl Index {
    /// How the order of the rows is kept.
    pub fn kind(&self) -> IndexKind {
        self.kind
    }

    /// Bytes of memory, every copy counted.
    pub fn bytes(&self) -> usize {
        self.regions().iter().map(|region| region.len()).sum()
    }

    /// Rows that it lists: those that are not NULL, deleted ones included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Distinct values among them.
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// Whether no two of its rows, deleted ones included, have the same value. Floats: 0.0 and -0.0 are two values
    /// here.
    pub fn is_unique(&self) -> bool {
        self.distinct == self.rows
    }

    /// Whether it has a copy on several nodes.
    pub fn is_replicated(&self) -> bool {
        self.data.is_replicated()
    }

    /// The regions that it lies in, those of all copies.
    pub fn regions(&self) -> Vec<&Region> {
        self.data.all().flat_map(|data| data.regions()).collect()
    }

    /// The rows whose codes lie in `codes`. `column` is the coded column that the index belongs to; NULL's code finds
    /// nothing.
    pub fn rows_of_codes(&self, column: &CodedColumn, codes: Range<u32>) -> IndexRows<'_> {
        self.rows_at(self.order_of_codes(column, codes))
    }

    /// Where the rows whose codes lie in `codes` stand in the order of the values: look-ups in the same index are put
    /// together by their places, which [`rows_at`](Self::rows_at) turns into rows.
    fn order_of_codes(&self, column: &CodedColumn, codes: Range<u32>) -> Range<u32> {
        if codes.is_empty() {
            return 0..0;
        }
        let before = |code: u32| match self.kind {
            IndexKind::Ascending => ascending_codes_before(column, code),
            _ => self.codes_before(column, code),
        };
        // NULLs, whose code is 0, come first where rows ascend, and are in no list.
        let lowest = codes.start.max(u32::from(column.null_code()));
        if self.kind != IndexKind::Ascending && codes.end == lowest + 1 {
            let places = self.order_of_code(column, lowest);
            return places.start as u32..places.end as u32;
        }
        let from = before(lowest);
        if codes.end == lowest + 1 && (from + 1 >= column.len() || column.code(from + 1) > lowest) {
            // A key has one row at most.
            let is_there = from < column.len() && column.code(from) == lowest;
            return from as u32..(from + usize::from(is_there)) as u32;
        }
        from as u32..before(codes.end).max(from) as u32
    }

    /// Where rows whose values lie between two bounds stand in the order of the values, for [`rows_at`](Self::rows_at);
    /// see [`order_of_codes`](Self::order_of_codes). Bounds are arrays of one value of the column's surface type that
    /// is not NULL; `column` is the one that the index belongs to.
    ///
    /// # Errors
    /// [`StoreError::NotComparable`] for another type, [`StoreError::NotOneValue`] for NULL or another length.
    pub fn order_between(
        &self,
        column: &Column,
        from: Bound<&dyn Array>,
        to: Bound<&dyn Array>,
    ) -> Result<Range<u32>, StoreError> {
        let from = bound_value(column.data_type(), from)?;
        let to = bound_value(column.data_type(), to)?;
        Ok(self.order_within(column, from, to))
    }

    /// As [`order_between`](Self::order_between), of integers (decimals unscaled, dates and times in their unit,
    /// booleans as 0 and 1), both included; `None` where the column has other values.
    pub fn order_of_integers(&self, column: &Column, low: i64, high: i64) -> Option<Range<u32>> {
        let physical = Physical::of(column.data_type());
        if !physical.is_number() || physical.is_float() {
            return None;
        }
        let raised = if physical == Physical::U64 { 1 << 63 } else { 0 };
        let key = |value: i64| Bound::Included(Value::Key(i128::from(value) - raised));
        Some(self.order_within(column, key(low), key(high)))
    }

    /// As [`order_between`](Self::order_between), of one string or binary value; `None` where the column has other
    /// values.
    pub fn order_of_bytes(&self, column: &Column, value: &[u8]) -> Option<Range<u32>> {
        let bytes = Physical::of(column.data_type()) == Physical::Bytes;
        let value = Bound::Included(Value::Bytes(value));
        bytes.then(|| self.order_within(column, value, value))
    }

    /// The rows whose values lie between two bounds.
    pub(crate) fn rows_within(&self, column: &Column, from: Bound<Value<'_>>, to: Bound<Value<'_>>) -> IndexRows<'_> {
        self.rows_at(self.order_within(column, from, to))
    }

    fn order_within(&self, column: &Column, from: Bound<Value<'_>>, to: Bound<Value<'_>>) -> Range<u32> {
        if let Some(coded) = column.as_coded() {
            let dictionary = coded.dictionary();
            let vid = |bound: Bound<Value<'_>>, upper: bool, open: u32| match bound {
                Bound::Included(value) => dictionary.bound_of(value, upper),
                Bound::Excluded(value) => dictionary.bound_of(value, !upper),
                Bound::Unbounded => open,
            };
            let from = vid(from, false, 0);
            let to = vid(to, true, dictionary.len() as u32);
            let first = u32::from(coded.null_code());
            return self.order_of_codes(coded, from + first..to.max(from) + first);
        }
        let Column::Plain(plain) = column else { unreachable!("row ids have no index") };
        let before = |value: Value<'_>, upper: bool| match self.kind {
            IndexKind::Ascending => ascending_values_before(plain, self.rows, value, upper),
            _ => self.values_before(plain, value, upper),
        };
        let from = match from {
            Bound::Included(value) => before(value, false),
            Bound::Excluded(value) => before(value, true),
            Bound::Unbounded => 0,
        };
        let to = match to {
            Bound::Included(value) => before(value, true),
            Bound::Excluded(value) => before(value, false),
            Bound::Unbounded => self.rows,
        };
        from as u32..to.max(from) as u32
    }

    /// The rows at some places of the order of the values, as look-ups in this index gave them.
    pub fn rows_at(&self, places: Range<u32>) -> IndexRows<'_> {
        match self.kind {
            // In front of ascending values stand NULLs, whose places are counted.
            IndexKind::Ascending => IndexRows::Range(places),
            _ => IndexRows::Listed(&self.positions(self.data.near())[places.start as usize..places.end as usize]),
        }
    }

    /// Which places of the order lie on which node, ascending, as the policy of the rows says: nothing where pages take
    /// turns or lie wherever they were touched first, where there are copies, and where nothing is kept.
    pub fn runs_on_nodes(&self) -> Vec<(Range<u32>, NodeId)> {
        const ROW_BYTES: u64 = size_of::<u32>() as u64;
        const PAGE_BYTES: u64 = 4096;
        let Some(rows) = self.data.first().positions.as_ref().filter(|_| !self.is_replicated()) else {
            return Vec::new();
        };
        let places = |bytes: Range<u64>| (bytes.start / ROW_BYTES) as u32..(bytes.end / ROW_BYTES) as u32;
        let cuts = rows.policy().cuts(ROW_BYTES * self.rows as u64, PAGE_BYTES).into_iter();
        cuts.map(|(bytes, node)| (places(bytes), node)).collect()
    }

    fn positions<'a>(&self, data: &'a IndexData) -> &'a [u32] {
        words_of(data.positions.as_deref(), self.rows)
    }

    /// Where a bucket's rows lie among all.
    #[inline]
    fn bucket(data: &IndexData, bucket: usize) -> Range<usize> {
        match &data.offsets {
            Some(offsets) => {
                let ends = &offsets.words::<u32>()[bucket..bucket + 2];
                ends[0] as usize..ends[1] as usize
            }
            None => bucket..bucket + 1,
        }
    }

    /// How many rows have a lower code.
    fn codes_before(&self, column: &CodedColumn, code: u32) -> usize {
        let Ranks::Codes { first, last } = self.ranks else { unreachable!("coded columns are ranked by code") };
        if code <= first || self.rows == 0 {
            return 0;
        }
        if code > last {
            return self.rows;
        }
        let data = self.data.near();
        let within = Self::bucket(data, ((code - first) >> self.shift) as usize);
        if self.shift == 0 {
            return within.start;
        }
        let rows = &self.positions(data)[within.clone()];
        within.start + rows.partition_point(|&row| column.code(row as usize) < code)
    }

    /// Reads what look-ups of single codes will read, so that they find it in the cache: here no read waits for another
    /// code's, where each look-up waits for its own, one after the other.
    pub(crate) fn warm(&self, column: &CodedColumn, codes: &[u32]) {
        let Ranks::Codes { first, last } = self.ranks else { return };
        if self.kind == IndexKind::Ascending || self.rows == 0 {
            return;
        }
        let data = self.data.near();
        let positions = self.positions(data);
        let mut within = [0; WARM_MAX];
        for codes in codes.chunks(WARM_MAX) {
            let buckets = codes.iter().map(|code| ((*code).clamp(first, last) - first) >> self.shift);
            within
                .iter_mut()
                .zip(buckets)
                .for_each(|(start, bucket)| *start = Self::bucket(data, bucket as usize).start);
            let rows = within[..codes.len()].iter_mut();
            // An empty bucket behind the last row has no row to look at.
            rows.for_each(|row| *row = positions.get(*row).map_or(0, |row| *row as usize));
            let seen = within[..codes.len()].iter().fold(0, |seen, row| seen ^ column.code(*row));
            std::hint::black_box(seen);
        }
    }

    /// Where the rows with one code stand: as what is before it and before the next one says, in one look.
    fn order_of_code(&self, column: &CodedColumn, code: u32) -> Range<usize> {
        let Ranks::Codes { first, last } = self.ranks else { unreachable!("coded columns are ranked by code") };
        if code < first || self.rows == 0 {
            return 0..0;
        }
        if code > last {
            return self.rows..self.rows;
        }
        let data = self.data.near();
        let within = Self::bucket(data, ((code - first) >> self.shift) as usize);
        if self.shift == 0 {
            return within;
        }
        let rows = &self.positions(data)[within.clone()];
        let from = rows.partition_point(|&row| column.code(row as usize) < code);
        let is_code = |&row: &u32| column.code(row as usize) == code;
        // A key has one row at most; else there may be many.
        let count = match rows[from..].iter().take(2).filter(|row| is_code(row)).count() {
            2 => rows[from..].partition_point(is_code),
            few => few,
        };
        within.start + from..within.start + from + count
    }

    /// How many rows have a lower value, or the same one with `upper`.
    fn values_before(&self, column: &crate::PlainColumn, value: Value<'_>, upper: bool) -> usize {
        let Some(rank) = self.ranks.of_value(value) else {
            return if self.ranks.is_above(value) { self.rows } else { 0 };
        };
        let data = self.data.near();
        let within = Self::bucket(data, (rank >> self.shift) as usize);
        let rows = &self.positions(data)[within.clone()];
        let before =
            |&row: &u32| column.value_at(row as usize).is_some_and(|here| here < value || upper && here == value);
        within.start + rows.partition_point(before)
    }

    /// What is kept; one of each for every copy.
    pub(crate) fn copies(&self) -> &Copies<Arc<IndexData>> {
        &self.data
    }

    /// The same index, kept elsewhere.
    pub(crate) fn moved(&self, data: Copies<Arc<IndexData>>) -> Index {
        let kind = self.kind;
        let rows = self.rows;
        let distinct = self.distinct;
        let shift = self.shift;
        Index { kind, rows, distinct, ranks: self.ranks.clone(), shift, data }
    }
}

fn bound_value<'a>(expected: &DataType, bound: Bound<&'a dyn Array>) -> Result<Bound<Value<'a>>, StoreError> {
    let value = |array: &'a dyn Array| {
        if !comparable(expected, array.data_type()) {
            let expected = expected.clone();
            let found = array.data_type().clone();
            return Err(StoreError::NotComparable { expected, found });
        }
        if array.len() != 1 || array.is_null(0) {
            return Err(StoreError::NotOneValue { values: array.len(), nulls: array.null_count() });
        }
        Ok(Value::at(array, 0))
    };
    Ok(match bound {
        Bound::Included(array) => Bound::Included(value(array)?),
        Bound::Excluded(array) => Bound::Excluded(value(array)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// How many rows of a column whose codes never fall have a lower code, NULLs counted.
fn ascending_codes_before(column: &CodedColumn, code: u32) -> usize {
    let mut from = 0;
    let mut to = column.granules();
    while from < to {
        let middle = from + (to - from) / 2;
        if column.code_bounds(middle).1 < code { from = middle + 1 } else { to = middle }
    }
    let granule = from;
    let mut from = granule * GRANULE_ROWS;
    let mut to = ((granule + 1) * GRANULE_ROWS).min(column.len());
    if from >= column.len() {
        return column.len();
    }
    let (low, high) = column.code_bounds(granule);
    if low >= code {
        return from;
    }
    // Evenly spread codes are where a straight line says: a serial number takes two reads. Where some are missing, the
    // line from what was found there leads nearer each time.
    let rows = (to - from - 1) as i64;
    let ahead = |behind: i64| behind * rows / i64::from(high - low);
    let mut guess = from + ahead(i64::from(code - low)) as usize;
    for _ in 0..GUESSES {
        let here = column.code(guess);
        if here < code {
            from = guess + 1
        } else {
            to = guess
        }
        if from == to {
            return from;
        }
        let next = guess as i64 + ahead(i64::from(code) - i64::from(here));
        guess = next.clamp(from as i64, to as i64 - 1) as usize;
    }
    let mut step = 1;
    if column.code(guess) < code {
        from = guess + 1;
        while from < to {
            let next = (guess + step).min(to - 1);
            if column.code(next) >= code {
                to = next;
                break;
            }
            from = next + 1;
            step *= 2;
        }
    } else {
        to = guess;
        while from < to {
            let next = guess.saturating_sub(step).max(from);
            if column.code(next) < code {
                from = next + 1;
                break;
            }
            to = next;
            step *= 2;
        }
    }
    while from < to {
        let middle = from + (to - from) / 2;
        if column.code(middle) < code { from = middle + 1 } else { to = middle }
    }
    from
}

/// How many of the rows of a column without NULLs whose values never fall have a lower value, or the same one with
/// `upper`.
fn ascending_values_before(column: &crate::PlainColumn, rows: usize, value: Value<'_>, upper: bool) -> usize {
    let mut from = 0;
    let mut to = rows;
    while from < to {
        let middle = from + (to - from) / 2;
        let before = column.value_at(middle).is_some_and(|here| here < value || upper && here == value);
        if before { from = middle + 1 } else { to = middle }
    }
    from
}
