//! Does a key identify rows? Found out by look-ups in indexes.
//!
//! Only new rows are looked up: against old segments, against new segments before theirs, and among the rows before
//! them in their own. Most pairs of segments need none: a segment whose index has each value once has no duplicates of
//! its own, and segments whose lowest and highest keys show that they have none in common are passed over.
//!
//! Values are equal as SQL has them: -0.0 equals 0.0, all NaNs are equal, NULL equals nothing.

use std::ops::{Bound, Range};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::TableVersion;
use crate::GRANULE_ROWS;
use crate::column::Column;
use crate::dictionary::Value;
use crate::error::{Interruption, StoreError};
use crate::index::{Index, IndexRows};
use crate::parallel::{Parallel, map};
use crate::segment::SegmentVersion;
use crate::types::{Native, Physical};

/// Rows that one task looks up.
const RUN_ROWS: usize = 2 * GRANULE_ROWS;

/// Rows or candidates after which a task tells what it did and asks whether to go on.
const METERED: u64 = 4096;

/// A row whose key another row has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateKey {
    /// Place of its segment among all of the version.
    pub segment: usize,
    /// The row within the segment.
    pub row: u32,
}

/// What looking for a key that two rows have came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCheck {
    /// No two rows have one.
    Unique,
    /// Two rows have this one's.
    Duplicate(DuplicateKey),
    /// Look-ups found more rows than the caller had them look at: another way is cheaper.
    TooMany,
}

/// How much look-ups may find, and whether they should go on at all.
#[derive(Clone, Copy)]
pub struct KeyLimits<'a> {
    /// Rows that all look-ups together may find.
    pub candidates_max: u64,
    /// Asked now and then; TRUE ends the check.
    pub is_stopped: &'a (dyn Fn() -> bool + Sync),
}

impl KeyLimits<'_> {
    /// As long as it takes.
    pub const NONE: KeyLimits<'static> = KeyLimits { candidates_max: u64::MAX, is_stopped: &|| false };
}

/// Looks for a key that two live rows of `version` have, at least one of them in a segment that `is_new` (by place
/// among [`TableVersion::segments`]) says is new. Rows with a NULL in a column of the key have no key. One
/// column of the key at least has an index in every segment with live rows; of several the one that tells most rows
/// apart is used. A value that very many rows share makes each of them a candidate of each: `limits` say when that is
/// too much.
///
/// # Errors
/// [`StoreError::NoIndex`]; [`StoreError::NotThere`] or [`StoreError::NotIndexable`] for a column;
/// [`StoreError::Interrupted`], also when it was stopped.
pub fn duplicate_key(
    version: &TableVersion,
    key: &[usize],
    is_new: &(dyn Fn(usize) -> bool + Sync),
    limits: KeyLimits<'_>,
    parallel: &dyn Parallel,
) -> Result<KeyCheck, StoreError> {
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
        return if (0..segments.len()).any(|s| live(&s)) { Err(StoreError::NoIndex) } else { Ok(KeyCheck::Unique) };
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
    let meter = Meter { limits, candidates: AtomicU64::new(0), found: Mutex::new(None), end: AtomicBool::new(false) };
    map(parallel, pairs, &|_| None, &|(new, other, rows): (usize, usize, Range<usize>)| {
        let same = new == other;
        let rest = rest.as_slice();
        let meter = &meter;
        let check = Check { new: segments[new], other: segments[other], same, probed, rest, meter };
        if let Some(row) = check.first_duplicate(rows) {
            meter.end(KeyCheck::Duplicate(DuplicateKey { segment: new, row }));
        }
        Ok(())
    })?;
    let ended = meter.end.into_inner();
    match meter.found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(found) => Ok(found),
        // Ended without an answer: it was stopped.
        None if ended => Err(Interruption::Cancelled.into()),
        None => Ok(KeyCheck::Unique),
    }
}

/// What the tasks of a check share.
struct Meter<'a> {
    limits: KeyLimits<'a>,
    candidates: AtomicU64,
    found: Mutex<Option<KeyCheck>>,
    /// Nothing more is to be looked up.
    end: AtomicBool,
}

impl Meter<'_> {
    /// Adds what a task has looked at since it last said so; whether to go on.
    fn goes_on(&self, candidates: &mut u64) -> bool {
        let added = std::mem::take(candidates);
        let sum = self.candidates.fetch_add(added, Ordering::Relaxed) + added;
        if sum > self.limits.candidates_max {
            self.end(KeyCheck::TooMany);
        } else if (self.limits.is_stopped)() {
            self.end.store(true, Ordering::Relaxed);
        }
        !self.end.load(Ordering::Relaxed)
    }

    /// Ends the check; a duplicate is an answer even if there was too much to look at.
    fn end(&self, how: KeyCheck) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(how, KeyCheck::Duplicate(_)) || found.is_none() {
            *found = Some(how);
        }
        self.end.store(true, Ordering::Relaxed);
    }
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
    meter: &'a Meter<'a>,
}

impl Check<'_> {
    fn first_duplicate(&self, rows: Range<usize>) -> Option<u32> {
        let column = self.new.segment.column(self.probed);
        let there = self.other.segment.column(self.probed);
        let index = self.other.segment.index(self.probed)?;
        let physical = Physical::of(column.data_type());
        let same_codes = match (column.as_coded(), there.as_coded()) {
            (Some(a), Some(b)) => std::sync::Arc::ptr_eq(a.dictionary(), b.dictionary()).then_some((a, b)),
            _ => None,
        };
        let same_codes = same_codes.filter(|_| !physical.is_float());
        // Rows, and candidates that the meter was not told of yet.
        let mut looked = 0_u64;
        let mut candidates = 0;
        for row in rows.map(|row| row as u32).filter(|&row| self.new.is_live(row as usize)) {
            looked += 1;
            if looked.is_multiple_of(METERED) && !self.meter.goes_on(&mut candidates) {
                return None;
            }
            let mut matches = |found: &IndexRows<'_>| self.matches(row, found, &mut candidates);
            let is_double = if let Some((here, there)) = same_codes {
                let Some(vid) = here.code(row as usize).checked_sub(u32::from(here.null_code())) else { continue };
                let code = vid + u32::from(there.null_code());
                matches(&index.rows_of_codes(there, code..code + 1))
            } else {
                let Some(value) = value(column, row as usize) else { continue };
                let mut ranges = equal_values(physical, value).into_iter().flatten();
                ranges.any(|(low, high)| matches(&lookup(index, there, low, high)))
            };
            if is_double {
                return Some(row);
            }
        }
        self.meter.goes_on(&mut candidates);
        None
    }

    /// Whether one of the rows found is a live one with the same key; FALSE too where the check has ended. Counts what
    /// it looks at.
    fn matches(&self, row: u32, found: &IndexRows<'_>, candidates: &mut u64) -> bool {
        for candidate in found.iter() {
            *candidates += 1;
            if *candidates >= METERED && !self.meter.goes_on(candidates) {
                return false;
            }
            let other = !self.same || candidate < row;
            if other && self.other.is_live(candidate as usize) && self.rest_is_equal(row, candidate) {
                return true;
            }
        }
        false
    }

    fn rest_is_equal(&self, row: u32, candidate: u32) -> bool {
        self.rest.iter().all(|&column| {
            let here = self.new.segment.column(column);
            let there = self.other.segment.column(column);
            equal(here, row as usize, there, candidate as usize)
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
pub(super) fn value(column: &Column, row: usize) -> Option<Value<'_>> {
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
pub(super) fn equal_values(physical: Physical, value: Value<'_>) -> [Option<(Value<'_>, Value<'_>)>; 2] {
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
