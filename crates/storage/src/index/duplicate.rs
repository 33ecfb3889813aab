//! Does a key identify rows? Found out by look-ups in indexes.
//!
//! Only new rows are looked up: against old segments, against new segments before theirs, and among the rows before them in
//! their own. Most pairs of segments need none: a segment whose index has each value once has no duplicates of its own, and
//! segments whose lowest and highest keys show that they have none in common are passed over.
//!
//! Values are equal as SQL has them: -0.0 equals 0.0, all NaNs are equal, NULL equals nothing.

use std::ops::{Bound, Range};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Index, IndexRows};
use crate::GRANULE_ROWS;
use crate::column::Column;
use crate::dictionary::Value;
use crate::error::StoreError;
use crate::parallel::{Parallel, map};
use crate::segment::SegmentVersion;
use crate::table::TableVersion;
use crate::types::{Native, Physical};

/// Rows that one task looks up.
const RUN_ROWS: usize = 2 * GRANULE_ROWS;

/// A row whose key another row has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateKey {
    /// Place of its segment among all of the version.
    pub segment: usize,
    /// The row within the segment.
    pub row: u32,
}

/// A key that two live rows of `version` have, at least one of them in a segment that `is_new` (by place among
/// [`TableVersion::segments`]) says is new; `None` where there is none. Rows with a NULL in a column of the key have no key. One
/// column of the key at least has an index in every segment with live rows; of several the one that tells most rows apart is used.
///
/// # Errors
/// [`StoreError::NoIndex`]; [`StoreError::NotThere`] or [`StoreError::NotIndexable`] for a column;
/// [`StoreError::Interrupted`].
pub fn duplicate_key(
    version: &TableVersion,
    key: &[usize],
    is_new: &(dyn Fn(usize) -> bool + Sync),
    parallel: &dyn Parallel,
) -> Result<Option<DuplicateKey>, StoreError> {
    for &column in key {
        version.check_indexable(column)?;
    }
    let segments: Vec<&SegmentVersion> = version.segments().collect();
    let live = |segment: &usize| segments[*segment].live_rows() > 0;
    assert!(!key.is_empty(), "a key has a column");
    let distinct = |column: &usize| {
        let of = (0..segments.len()).filter(live).map(|s| segments[s].segment.index(*column).map(|i| i.distinct()));
        of.sum::<Option<usize>>().map(|distinct| (distinct, *column))
    };
    let Some((_, probed)) = key.iter().filter_map(distinct).max_by_key(|(distinct, _)| *distinct) else {
        return if (0..segments.len()).any(|s| live(&s)) { Err(StoreError::NoIndex) } else { Ok(None) };
    };
    let rest: Vec<usize> = key.iter().copied().filter(|column| *column != probed).collect();
    let mut pairs: Vec<(usize, usize, Range<usize>)> = Vec::new();
    for new in (0..segments.len()).filter(live).filter(|&segment| is_new(segment)) {
        for other in (0..segments.len()).filter(live).filter(|&other| other <= new || !is_new(other)) {
            if may_share(segments[new], segments[other], new == other, probed, key) {
                let rows = segments[new].segment.rows();
                let runs = (0..rows).step_by(RUN_ROWS).map(|from| (new, other, from..rows.min(from + RUN_ROWS)));
                pairs.extend(runs);
            }
        }
    }
    let (found, stop) = (Mutex::new(None), AtomicBool::new(false));
    map(parallel, pairs, &|_| None, &|(new, other, rows): (usize, usize, Range<usize>)| {
        let check = Check { new: segments[new], other: segments[other], same: new == other, probed, rest: &rest };
        if !stop.load(Ordering::Relaxed)
            && let Some(row) = check.first_duplicate(rows)
        {
            stop.store(true, Ordering::Relaxed);
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.get_or_insert(DuplicateKey { segment: new, row });
        }
        Ok(())
    })?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Whether a key of one segment may be one of another: not if indexes prove the contrary.
fn may_share(new: &SegmentVersion, other: &SegmentVersion, same: bool, probed: usize, key: &[usize]) -> bool {
    if same {
        let unique = |column: &usize| {
            let index = new.segment.index(*column);
            let float = Physical::of(new.segment.column(*column).data_type()).is_float();
            index.is_some_and(|index| index.is_unique() && !float)
        };
        return !key.iter().any(unique);
    }
    let (column, Some(index)) = (new.segment.column(probed), new.segment.index(probed)) else { return true };
    let all = index.rows_within(column, Bound::Unbounded, Bound::Unbounded);
    let ends = match &all {
        IndexRows::Range(range) => range.clone().next().zip(range.clone().next_back()),
        IndexRows::Listed(rows) => rows.first().copied().zip(rows.last().copied()),
    };
    let Some((low, high)) =
        ends.and_then(|(first, last)| value(column, first as usize).zip(value(column, last as usize)))
    else {
        return false;
    };
    let physical = Physical::of(column.data_type());
    if physical.is_float() {
        return true;
    }
    let Some(index) = other.segment.index(probed) else { return true };
    !index.rows_within(other.segment.column(probed), Bound::Included(low), Bound::Included(high)).is_empty()
}

/// Rows of a new segment that are looked up in another, or among the rows before them.
struct Check<'a> {
    new: &'a SegmentVersion,
    other: &'a SegmentVersion,
    same: bool,
    probed: usize,
    /// The other columns of the key.
    rest: &'a [usize],
}

impl Check<'_> {
    fn first_duplicate(&self, rows: Range<usize>) -> Option<u32> {
        let column = self.new.segment.column(self.probed);
        let (there, index) = (self.other.segment.column(self.probed), self.other.segment.index(self.probed)?);
        let physical = Physical::of(column.data_type());
        let same_codes = match (column.as_coded(), there.as_coded()) {
            (Some(a), Some(b)) => std::sync::Arc::ptr_eq(a.dictionary(), b.dictionary()).then_some((a, b)),
            _ => None,
        };
        let same_codes = same_codes.filter(|_| !physical.is_float());
        rows.map(|row| row as u32).filter(|&row| self.new.is_live(row as usize)).find(|&row| {
            if let Some((here, there)) = same_codes {
                let Some(vid) = here.code(row as usize).checked_sub(u32::from(here.null_code())) else { return false };
                let code = vid + u32::from(there.null_code());
                return self.matches(row, &index.rows_of_codes(there, code..code + 1));
            }
            let Some(value) = value(column, row as usize) else { return false };
            equal_values(physical, value)
                .into_iter()
                .flatten()
                .any(|(low, high)| self.matches(row, &lookup(index, there, low, high)))
        })
    }

    /// Whether one of the rows found is a live one with the same key.
    fn matches(&self, row: u32, found: &IndexRows<'_>) -> bool {
        found.iter().any(|candidate| {
            (!self.same || candidate < row)
                && self.other.is_live(candidate as usize)
                && self.rest.iter().all(|&column| {
                    let (here, there) = (self.new.segment.column(column), self.other.segment.column(column));
                    equal(here, row as usize, there, candidate as usize)
                })
        })
    }
}

fn lookup<'a>(index: &'a Index, column: &Column, low: Value<'_>, high: Value<'_>) -> IndexRows<'a> {
    index.rows_within(column, Bound::Included(low), Bound::Included(high))
}

/// Whether two values of a column are equal, and neither is NULL.
fn equal(here: &Column, row: usize, there: &Column, candidate: usize) -> bool {
    let (Some(a), Some(b)) = (value(here, row), value(there, candidate)) else { return false };
    let physical = Physical::of(here.data_type());
    equal_values(physical, a).into_iter().flatten().any(|(low, high)| low <= b && b <= high)
}

/// The value of a row, unless it is NULL.
fn value(column: &Column, row: usize) -> Option<Value<'_>> {
    match column {
        Column::Coded(coded) => {
            let vid = coded.code(row).checked_sub(u32::from(coded.null_code()))?;
            Some(coded.dictionary().value_of(vid))
        }
        Column::Plain(plain) => plain.value_at(row),
        Column::RowIds(_) => None,
    }
}

/// Ranges, both ends included, of the values that SQL has equal to one.
fn equal_values(physical: Physical, value: Value<'_>) -> [Option<(Value<'_>, Value<'_>)>; 2] {
    let (Value::Key(key), true) = (value, physical.is_float()) else { return [Some((value, value)), None] };
    let infinity = if physical == Physical::F32 { f32::INFINITY.wide_key() } else { f64::INFINITY.wide_key() };
    let minus_infinity = -1 - infinity;
    let range = |low, high| Some((Value::Key(low), Value::Key(high)));
    match key {
        -1 | 0 => [range(-1, 0), None],
        _ if key > infinity || key < minus_infinity => {
            [range(i128::MIN, minus_infinity - 1), range(infinity + 1, i128::MAX)]
        }
        _ => [range(key, key), None],
    }
}
