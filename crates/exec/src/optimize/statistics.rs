//! What is known of stored columns before anything is read: distinct values and bounds from dictionaries, and a sample
//! of rows.
//!
//! The rows of a sample are a function of the segment's size alone, so the samples of all columns of a segment are of
//! the same rows and conditions over several columns can be tried out together. A column's sample is taken when it is
//! first asked for and kept for as long as the column lives.
//!
//! # Limits
//! Deleted rows are sampled like others. Of a table of many segments only the largest few are sampled. An affine
//! dictionary lists values that may not occur: distinct values are then at most its length and the number of rows, less
//! where neighbouring rows are seen to repeat values.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use parking_lot::Mutex;
use storage::{Column, ColumnId, Encoding, Segment, TableVersion};

use crate::codes::filter::Filter;
use crate::codes::input::BatchInput;
use crate::mask::Mask;
use crate::plan::predicate::Predicate;

/// Rows of a segment's sample.
const SAMPLE_ROWS: usize = 1024;
/// One row in `n` that is stored as it is, beside codes, tells nothing of how many values there are.
const PLAIN_SHARE: f64 = 8.0;
/// Most segments of a table that are sampled.
const SAMPLED_SEGMENTS: usize = 4;
/// Neighbouring rows that are looked at together to see whether they repeat values, and how many such groups.
const NEIGHBOURS: usize = 16;
const NEIGHBOURHOODS: usize = 64;

/// Values are marked to see whether rows share one where there are at most `n` for each row, or so few,
const MARKED_PER_ROW: u64 = 16;
const MARKED_MIN: u64 = 1 << 20;
/// in tables of at most `n` rows, `n` at a time.
const READ_ROWS: usize = 1 << 25;
const READ_AT_ONCE: usize = 4096;

/// What is kept of a column.
struct Known {
    /// The entry is swept when that is gone.
    column: Weak<Column>,
    sample: Option<ArrayRef>,
    variety: Option<f64>,
    /// Of the columns of these segments together, this one first: has each of their rows a value of its own?
    unique: Option<(Vec<Option<ColumnId>>, bool)>,
}

static KNOWN: LazyLock<Mutex<HashMap<ColumnId, Known>>> = LazyLock::new(Mutex::default);

/// Entries above which those of columns that are gone are swept.
const SWEEP_ABOVE: usize = 4096;

fn cached<T: Clone>(
    column: &Arc<Column>,
    get: impl Fn(&Known) -> Option<T>,
    set: impl Fn(&mut Known, T),
    compute: impl FnOnce() -> T,
) -> T {
    let Some(id) = column.id() else { return compute() };
    if let Some(found) = KNOWN.lock().get(&id).and_then(&get) {
        return found;
    }
    let computed = compute();
    let mut known = KNOWN.lock();
    if known.len() > SWEEP_ABOVE {
        known.retain(|_, k| k.column.strong_count() > 0);
    }
    let fresh = || Known { column: Arc::downgrade(column), sample: None, variety: None, unique: None };
    set(known.entry(id).or_insert_with(fresh), computed.clone());
    computed
}

/// The rows of a segment's sample: one somewhere in each of equal stretches.
fn sampled_rows(rows: usize) -> Vec<u32> {
    if rows <= SAMPLE_ROWS {
        return (0..rows as u32).collect();
    }
    let place = |i: usize| {
        let (from, to) = (i * rows / SAMPLE_ROWS, (i + 1) * rows / SAMPLE_ROWS);
        // Any scattering will do; the same for every column of `n` rows.
        let scattered = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (from + (scattered as usize) % (to - from)) as u32
    };
    (0..SAMPLE_ROWS).map(place).collect()
}

fn sample(column: &Arc<Column>) -> ArrayRef {
    let take = || column.take(&sampled_rows(column.len()));
    cached(column, |k| k.sample.clone(), |k, s| k.sample = Some(s), take)
}

/// Distinct values per row among neighbouring rows: near 1 where they differ, less where a column is sorted or
/// clustered.
fn variety(column: &Arc<Column>) -> f64 {
    let compute = || {
        let Some(coded) = column.as_coded() else { return 1.0 };
        let rows = column.len();
        if rows < 2 * NEIGHBOURS {
            return 1.0;
        }
        let (mut codes, mut changes, mut pairs) = (Vec::new(), 0usize, 0usize);
        for group in 0..NEIGHBOURHOODS {
            let start = group * (rows - NEIGHBOURS) / NEIGHBOURHOODS;
            codes.clear();
            coded.unpack(start..start + NEIGHBOURS, &mut codes);
            changes += codes.windows(2).filter(|w| w[0] != w[1]).count();
            pairs += NEIGHBOURS - 1;
        }
        changes as f64 / pairs as f64
    };
    cached(column, |k| k.variety, |k, v| k.variety = Some(v), compute)
}

/// Has each row of a table a value of its own in this column, and none NULL? Also of rows that are deleted. It is found
/// out by reading the column, once, if its dictionaries do not tell; false where that is too much.
pub(super) fn is_unique(snapshot: &TableVersion, column: usize) -> bool {
    // Dictionaries keep both zeros, which are equal.
    if snapshot.schema.field(column).data_type().is_floating() {
        return false;
    }
    let columns: Vec<&Arc<Column>> =
        snapshot.segments().filter(|v| v.segment.rows() > 0).map(|v| v.segment.column(column)).collect();
    let Some(first) = columns.first() else { return false };
    let rows: usize = columns.iter().map(|column| column.len()).sum();
    let Some(domain) = Domain::of(&columns, rows) else { return false };
    let ids = || columns.iter().map(|column| column.id());
    cached(
        first,
        |known| known.unique.as_ref().filter(|(of, _)| ids().eq(of.iter().copied())).map(|(_, unique)| *unique),
        |known, unique| known.unique = Some((ids().collect(), unique)),
        || domain.is_unique(&columns),
    )
}

/// Values that columns may have, as numbers from 0.
struct Domain {
    /// Added to integers; `None` where codes of one dictionary are the numbers.
    lowest: Option<i64>,
    size: u64,
}

impl Domain {
    /// `None` where some rows surely share a value, there are NULLs, or the values are too many to mark.
    fn of(columns: &[&Arc<Column>], rows: usize) -> Option<Domain> {
        let coded = columns.iter().map(|column| column.as_coded().filter(|coded| !coded.null_code()));
        let dictionaries: Vec<_> = coded.map(|coded| Some(coded?.dictionary())).collect::<Option<_>>()?;
        let one = dictionaries.iter().all(|d| Arc::ptr_eq(d, dictionaries[0]));
        let domain = if one {
            Domain { lowest: None, size: dictionaries[0].len() as u64 }
        } else {
            let bounds = dictionaries.iter().map(|d| d.integer_bounds()).collect::<Option<Vec<_>>>()?;
            let (low, high) = (bounds.iter().map(|b| b.0).min()?, bounds.iter().map(|b| b.1).max()?);
            Domain { lowest: Some(low), size: high.abs_diff(low).checked_add(1)? }
        };
        let most = (MARKED_PER_ROW * rows as u64).max(MARKED_MIN);
        (rows as u64 <= domain.size && domain.size <= most && rows <= READ_ROWS).then_some(domain)
    }

    fn is_unique(&self, columns: &[&Arc<Column>]) -> bool {
        let mut marks = vec![0u64; self.size.div_ceil(64) as usize];
        let (mut codes, mut values) = (Vec::new(), Vec::new());
        let mut mark = |number: u64| {
            let (word, bit) = (&mut marks[(number / 64) as usize], 1 << (number % 64));
            let fresh = *word & bit == 0;
            *word |= bit;
            fresh
        };
        columns.iter().filter_map(|column| column.as_coded()).all(|coded| {
            (0..coded.len()).step_by(READ_AT_ONCE).all(|start| {
                codes.clear();
                coded.unpack(start..(start + READ_AT_ONCE).min(coded.len()), &mut codes);
                let Some(lowest) = self.lowest else {
                    return codes.iter().all(|&code| mark(u64::from(code)));
                };
                values.clear();
                coded.dictionary().integers(&codes, &mut values);
                values.iter().all(|&value| mark(value.abs_diff(lowest)))
            })
        })
    }
}

/// What dictionaries tell of a column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnFacts {
    /// Distinct values, about.
    pub(super) distinct: f64,
    /// Smallest and largest value, of integers.
    pub(super) bounds: Option<(f64, f64)>,
    /// May there be NULLs?
    pub(super) nullable: bool,
}

/// The facts of one column.
pub(super) fn facts(snapshot: &TableVersion, column: usize) -> ColumnFacts {
    let mut known = ColumnFacts { distinct: 0.0, bounds: None, nullable: false };
    let (mut rows, mut last, mut unbounded) = (0.0, None, false);
    let (mut most, mut sum, mut share) = (0.0f64, 0.0, 1.0f64);
    let mut affine = false;
    // Rows of plain segments, and of the largest.
    let mut plain = (0.0, 0.0f64);
    for version in snapshot.segments().filter(|v| v.live_rows() > 0) {
        let stored = version.segment.column(column);
        rows += version.live_rows() as f64;
        known.nullable |= stored.has_nulls();
        let Some(coded) = stored.as_coded() else {
            unbounded = true;
            plain = (plain.0 + version.live_rows() as f64, plain.1.max(version.live_rows() as f64));
            continue;
        };
        let dictionary = coded.dictionary();
        if last.replace(dictionary.id()) == Some(dictionary.id()) {
            continue;
        }
        let entries = dictionary.len() as f64;
        (sum, most) = (sum + entries, most.max(entries));
        if dictionary.encoding() == Encoding::Affine && entries > 1024.0 {
            affine = true;
            share = share.min(variety(stored));
        }
        match (dictionary.integer_bounds(), known.bounds) {
            (Some((low, high)), None) => known.bounds = Some((low as f64, high as f64)),
            (Some((low, high)), Some(b)) => known.bounds = Some((b.0.min(low as f64), b.1.max(high as f64))),
            (None, _) => unbounded |= !dictionary.is_empty(),
        }
    }
    if unbounded {
        known.bounds = None;
    }
    // Values that do not pay as codes are nearly unique. Few rows beside codes are those of small writes, which are
    // kept as they are whatever they hold.
    if last.is_none() || plain.0 * PLAIN_SHARE > rows {
        (sum, most) = (sum + plain.0, most.max(plain.1));
    }
    let values = known.bounds.map_or(f64::MAX, |(low, high)| high - low + 1.0);
    known.distinct = match known.bounds {
        Some(_) => sum.min(values.max(most)),
        // Dictionaries of segments usually list the same values, unless nearly every row has its own.
        None if most * 2.0 > rows => sum,
        None => most,
    };
    if affine {
        known.distinct = known.distinct.min(rows * share);
    }
    known.distinct = known.distinct.min(rows).max(1.0);
    known
}

/// A few rows of a table for which conditions are tried out.
pub(super) struct Sample<'a> {
    segments: Vec<&'a Arc<Segment>>,
    snapshot: &'a TableVersion,
}

impl<'a> Sample<'a> {
    /// Of the largest segments.
    pub(super) fn of(snapshot: &'a TableVersion) -> Sample<'a> {
        let mut segments: Vec<&Arc<Segment>> =
            snapshot.segments().filter(|v| v.live_rows() > 0).map(|v| &v.segment).collect();
        if segments.len() > SAMPLED_SEGMENTS {
            segments.sort_by_key(|s| std::cmp::Reverse(s.rows()));
            segments.truncate(SAMPLED_SEGMENTS);
        }
        Sample { segments, snapshot }
    }

    /// The share of rows that pass all conjuncts (over table columns), and how many rows of the sample did; `None`
    /// where it cannot be told.
    pub(super) fn passing(&self, conjuncts: &[&Predicate]) -> Option<(f64, usize)> {
        let mut columns: Vec<usize> = conjuncts.iter().flat_map(|p| p.columns()).collect();
        columns.sort_unstable();
        columns.dedup();
        let fields: Vec<_> = columns
            .iter()
            .map(|&c| Arc::new(self.snapshot.schema.fields()[c].as_ref().clone().with_nullable(true)))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let place = |c: usize| columns.binary_search(&c).unwrap_or(0);
        let local: Vec<Predicate> = conjuncts.iter().map(|p| p.map_columns(&place)).collect();
        let bound = Filter::new(&local, &schema).ok()?.bind(&|_| None);
        let (mut share, mut total, mut hits) = (0.0, 0.0, 0);
        for segment in &self.segments {
            let arrays: Vec<ArrayRef> = columns.iter().map(|&c| sample(segment.column(c))).collect();
            let rows = segment.rows().min(SAMPLE_ROWS);
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options).ok()?;
            let mut mask = Mask::full(rows);
            bound.evaluate(&BatchInput(&batch), &mut mask).ok()?;
            let found = mask.count();
            hits += found;
            share += found as f64 / rows as f64 * segment.rows() as f64;
            total += segment.rows() as f64;
        }
        (total > 0.0).then(|| (share / total, hits))
    }
}
