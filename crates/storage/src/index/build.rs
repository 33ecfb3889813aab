//! Building an index.
//!
//! 1. One look at all rows, in runs: do the values ever fall? If not, there is nothing to build. For plain values the
//!    lowest and highest are found on the way.
//! 2. Each run of rows is ranked and dealt out to *lots*, ranges of buckets with about as many rows (cut by a sample).
//! 3. Each lot is sorted by counting its buckets; buckets in which ranks differ are sorted by value.
//!
//! Both passes run in parallel. What waits between them, eight bytes a row where ranks are codes and twelve else, lies
//! in scratch regions of the allocator's budget; a task's own buffers hold a run or a lot.
//!
//! # Limits
//! A column of which half the rows have one value that is not code 0 makes one lot of them, which one thread sorts.

use std::ops::Range;
use std::sync::Arc;

use numa::{Policy, Region};

use super::ranks::Ranks;
use super::{Index, IndexData, IndexKind};
use crate::GRANULE_ROWS;
use crate::coded::CodedColumn;
use crate::column::Column;
use crate::copies::Copies;
use crate::dictionary::Value;
use crate::error::StoreError;
use crate::mover::replicated;
use crate::parallel::{Parallel, map};
use crate::placement::ColumnAllocator;
use crate::plain::PlainColumn;
use crate::region_vec::words_of;

/// Rows that are ranked by one task.
const RUN_ROWS: usize = 4 * GRANULE_ROWS;
/// Rows of a lot, about, and most lots.
const LOT_ROWS: usize = 512 << 10;
const LOTS_MAX: usize = 64;
/// Rows of the sample for each lot.
const SAMPLE_PER_LOT: usize = 64;
/// Codes have an offset each where there are at most `n` for each row.
const CODES_PER_ROW: u64 = 2;

/// The index on a column of a type with an order of ours.
///
/// # Errors
/// [`StoreError::Memory`], [`StoreError::Interrupted`].
pub(crate) fn build(
    column: &Column,
    allocator: &ColumnAllocator,
    parallel: &dyn Parallel,
) -> Result<Index, StoreError> {
    let ranks = match column {
        Column::Coded(coded) => match ascending_codes(coded, parallel)? {
            Some(index) => return Ok(index),
            None => Ranks::of_codes(coded),
        },
        Column::Plain(plain) => match plain_facts(plain, parallel)? {
            facts if facts.ascending && facts.rows == plain.len() => return Ok(ascending(facts.rows, facts.distinct)),
            ColumnFacts { bounds: Some((low, high)), .. } => Ranks::of_values(low, high),
            _ => Ranks::None,
        },
        Column::RowIds(_) => unreachable!("row ids have no index"),
    };
    let Some(highest) = ranks.highest() else { return Ok(ascending(0, 0)) };
    let rows = column.len() as u64;
    let offset_per_code = matches!(ranks, Ranks::Codes { .. }) && highest < CODES_PER_ROW * rows;
    let shift = if offset_per_code { 0 } else { (0..64).find(|shift| highest >> shift < rows.max(1)).unwrap_or(63) };
    let index = sorted(column, ranks, shift, (highest >> shift) as usize + 1, allocator, parallel)?;
    match allocator.placement.index.replicas() {
        Some(nodes) => Ok(index.moved(replicated(index.copies(), nodes, &allocator.allocator)?)),
        None => Ok(index),
    }
}

fn ascending(rows: usize, distinct: usize) -> Index {
    let data = Copies::one(Arc::default());
    Index { kind: IndexKind::Ascending, rows, distinct, ranks: Ranks::None, shift: 0, data }
}

fn runs(rows: usize) -> Vec<Range<usize>> {
    (0..rows).step_by(RUN_ROWS).map(|from| from..rows.min(from + RUN_ROWS)).collect()
}

fn granules(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(GRANULE_ROWS).map(move |from| from..end.min(from + GRANULE_ROWS))
}

/// The index of a column whose codes never fall, if they never do.
fn ascending_codes(column: &CodedColumn, parallel: &dyn Parallel) -> Result<Option<Index>, StoreError> {
    let rises = (1..column.granules()).all(|g| column.code_bounds(g - 1).1 <= column.code_bounds(g).0);
    if !rises {
        return Ok(None);
    }
    // Per run: rows that are not NULL and codes that differ from the one before, unless some code falls.
    let found = map(parallel, runs(column.len()), &|_| None, &|rows: Range<usize>| {
        let mut codes = Vec::with_capacity(GRANULE_ROWS);
        let mut last = None;
        if rows.start > 0 {
            last = Some(column.code(rows.start - 1));
        }
        let mut valid = 0;
        let mut distinct = 0;
        for granule in granules(rows) {
            codes.clear();
            column.unpack(granule, &mut codes);
            if !codes.is_sorted() {
                return Ok(None);
            }
            let nulls = if column.null_code() { codes.partition_point(|&code| code == 0) } else { 0 };
            valid += codes.len() - nulls;
            let codes = &codes[nulls..];
            distinct += usize::from(codes.first().is_some_and(|first| last != Some(*first)));
            distinct += codes.windows(2).filter(|pair| pair[0] != pair[1]).count();
            last = codes.last().copied().or(last);
        }
        Ok(Some((valid, distinct)))
    })?;
    let all =
        found.into_iter().try_fold((0, 0), |sum, run| run.map(|(rows, distinct)| (sum.0 + rows, sum.1 + distinct)));
    Ok(all.map(|(rows, distinct)| ascending(rows, distinct)))
}

/// What a look at plain values tells.
struct ColumnFacts<'a> {
    rows: usize,
    /// The lowest and the highest.
    bounds: Option<(Value<'a>, Value<'a>)>,
    /// The first and the last.
    ends: Option<(Value<'a>, Value<'a>)>,
    /// They never fall.
    ascending: bool,
    /// Values that differ from the one before.
    distinct: usize,
}

impl<'a> ColumnFacts<'a> {
    fn of(column: &'a PlainColumn, rows: Range<usize>) -> ColumnFacts<'a> {
        let mut facts = ColumnFacts { rows: 0, bounds: None, ends: None, ascending: true, distinct: 0 };
        column.for_each_value(rows, |_, value| facts.add(value));
        facts
    }

    fn add(&mut self, value: Value<'a>) {
        self.rows += 1;
        let Some((first, last)) = self.ends else {
            (self.ends, self.bounds, self.distinct) = (Some((value, value)), Some((value, value)), 1);
            return;
        };
        self.ascending &= last <= value;
        self.distinct += usize::from(last != value);
        self.ends = Some((first, value));
        self.bounds = self.bounds.map(|(low, high)| (low.min(value), high.max(value)));
    }

    fn then(self, next: ColumnFacts<'a>) -> ColumnFacts<'a> {
        let (Some(ends), Some(bounds)) = (self.ends, self.bounds) else { return next };
        let (Some(more), Some(others)) = (next.ends, next.bounds) else { return self };
        ColumnFacts {
            rows: self.rows + next.rows,
            bounds: Some((bounds.0.min(others.0), bounds.1.max(others.1))),
            ends: Some((ends.0, more.1)),
            ascending: self.ascending && next.ascending && ends.1 <= more.0,
            distinct: self.distinct + next.distinct - usize::from(ends.1 == more.0),
        }
    }
}

fn plain_facts<'a>(column: &'a PlainColumn, parallel: &dyn Parallel) -> Result<ColumnFacts<'a>, StoreError> {
    let facts = map(parallel, runs(column.len()), &|_| None, &|rows| Ok(ColumnFacts::of(column, rows)))?;
    let none = ColumnFacts { rows: 0, bounds: None, ends: None, ascending: true, distinct: 0 };
    Ok(facts.into_iter().fold(none, ColumnFacts::then))
}

/// How ranks become buckets and buckets lots.
struct Lots {
    shift: u32,
    /// The first bucket of each lot; the first is 0.
    starts: Vec<usize>,
    buckets: usize,
}

impl Lots {
    /// Cuts the buckets where a sample of the ranks says.
    fn cut(column: &Column, ranks: &Ranks, shift: u32, buckets: usize) -> Lots {
        let rows = column.len();
        let lots = (rows / LOT_ROWS).clamp(1, LOTS_MAX);
        let mut starts = vec![0];
        if lots > 1 {
            let mut sample = Vec::new();
            let mut scratch = Vec::new();
            let step = rows / (lots * SAMPLE_PER_LOT);
            for row in (0..rows).step_by(step.max(1)) {
                ranks.append(column, row..row + 1, &mut scratch, &mut sample);
            }
            sample.sort_unstable();
            for lot in 1..lots {
                let Some((rank, _)) = sample.get(lot * sample.len() / lots) else { continue };
                let bucket = (rank >> shift) as usize;
                if starts.last().is_some_and(|&last| last < bucket) {
                    starts.push(bucket);
                }
            }
        }
        Lots { shift, starts, buckets }
    }

    fn bucket(&self, rank: u64) -> usize {
        (rank >> self.shift) as usize
    }

    fn of(&self, rank: u64) -> usize {
        let bucket = self.bucket(rank);
        self.starts.partition_point(|&start| start <= bucket) - 1
    }

    fn range(&self, lot: usize) -> Range<usize> {
        self.starts[lot]..self.starts.get(lot + 1).copied().unwrap_or(self.buckets)
    }
}

/// The rows of a run that are not NULL, by lot.
struct Dealt {
    /// Where the rows of each lot begin, and where the last one's end.
    starts: Vec<usize>,
    /// Of 32 bits where they are codes, else of 64.
    ranks: Option<Region>,
    are_codes: bool,
    rows: Option<Region>,
}

impl Dealt {
    fn of(
        column: &Column,
        ranks: &Ranks,
        lots: &Lots,
        rows: Range<usize>,
        allocator: &ColumnAllocator,
    ) -> Result<Dealt, StoreError> {
        let mut ranked = Vec::with_capacity(rows.len());
        let mut scratch = Vec::with_capacity(GRANULE_ROWS);
        granules(rows).for_each(|granule| ranks.append(column, granule, &mut scratch, &mut ranked));
        let mut starts = vec![0; lots.starts.len() + 1];
        ranked.iter().for_each(|(rank, _)| starts[lots.of(*rank) + 1] += 1);
        (1..starts.len()).for_each(|lot| starts[lot] += starts[lot - 1]);
        let are_codes = matches!(ranks, Ranks::Codes { .. });
        if ranked.is_empty() {
            return Ok(Dealt { starts, ranks: None, are_codes, rows: None });
        }
        let memory = allocator.allocator.with_policy(Policy::Local);
        let rank_bytes = if are_codes { size_of::<u32>() } else { size_of::<u64>() };
        let mut to_ranks = memory.scratch(rank_bytes * ranked.len())?;
        let mut to_rows = memory.scratch(size_of::<u32>() * ranked.len())?;
        let places = deal_out(&ranked, lots, &starts);
        let of_rows = to_rows.words_mut::<u32>();
        if are_codes {
            let of_ranks = to_ranks.words_mut::<u32>();
            places.for_each(|(place, rank, row)| (of_ranks[place], of_rows[place]) = (rank as u32, row));
        } else {
            let of_ranks = to_ranks.words_mut::<u64>();
            places.for_each(|(place, rank, row)| (of_ranks[place], of_rows[place]) = (rank, row));
        }
        Ok(Dealt { starts, ranks: Some(to_ranks), are_codes, rows: Some(to_rows) })
    }

    fn rows(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Ranks and rows of a lot, in row order.
    fn lot(&self, lot: usize) -> impl Iterator<Item = (u64, u32)> + '_ {
        let within = self.starts[lot]..self.starts[lot + 1];
        let (of_codes, of_ranks) = if self.are_codes { (self.rows(), 0) } else { (0, self.rows()) };
        let codes = words_of::<u32>(self.ranks.as_ref().filter(|_| self.are_codes), of_codes);
        let ranks = words_of::<u64>(self.ranks.as_ref().filter(|_| !self.are_codes), of_ranks);
        let rows = &words_of::<u32>(self.rows.as_ref(), self.rows())[within.clone()];
        let rank = move |place: usize| if self.are_codes { u64::from(codes[place]) } else { ranks[place] };
        within.map(rank).zip(rows.iter().copied())
    }
}

/// Ranks and rows, with the place of each where lots begin at `starts`.
fn deal_out<'a>(
    ranked: &'a [(u64, u32)],
    lots: &'a Lots,
    starts: &[usize],
) -> impl Iterator<Item = (usize, u64, u32)> + use<'a> {
    let mut next = starts.to_vec();
    ranked.iter().map(move |&(rank, row)| {
        let place = &mut next[lots.of(rank)];
        *place += 1;
        (*place - 1, rank, row)
    })
}

/// Sorts the rows of a column that are not NULL.
fn sorted(
    column: &Column,
    ranks: Ranks,
    shift: u32,
    buckets: usize,
    allocator: &ColumnAllocator,
    parallel: &dyn Parallel,
) -> Result<Index, StoreError> {
    let lots = Lots::cut(column, &ranks, shift, buckets);
    let dealt =
        map(parallel, runs(column.len()), &|_| None, &|rows| Dealt::of(column, &ranks, &lots, rows, allocator))?;
    let rows: usize = dealt.iter().map(Dealt::rows).sum();
    if rows == 0 {
        return Ok(ascending(0, 0));
    }
    let memory = allocator.index();
    let mut offsets = memory.region(4 * (buckets + 1))?;
    let mut positions = memory.region(4 * rows)?;
    let mut tasks = Vec::with_capacity(lots.starts.len());
    let (mut first, mut of_buckets) = (0, &mut offsets.words_mut::<u32>()[..=buckets]);
    let mut of_rows = &mut positions.words_mut::<u32>()[..rows];
    for lot in 0..lots.starts.len() {
        let count: usize = dealt.iter().map(|run| run.starts[lot + 1] - run.starts[lot]).sum();
        let (ends, places);
        (ends, of_buckets) = of_buckets.split_at_mut(lots.range(lot).len());
        (places, of_rows) = of_rows.split_at_mut(count);
        tasks.push(SortTask { lot, first, offsets: ends, rows: places });
        first += count;
    }
    of_buckets[0] = rows as u32;
    let by_code = shift == 0 && matches!(ranks, Ranks::Codes { .. });
    let distinct = map(parallel, tasks, &|_| None, &|task: SortTask<'_>| {
        Ok(if by_code { task.count(&dealt, &lots) } else { task.sort(&dealt, &lots, column, ranks.are_exact()) })
    })?;
    drop(dealt);
    let distinct = distinct.into_iter().sum();
    let kind = if by_code { IndexKind::Positions } else { IndexKind::Permutation };
    let one_each = by_code && distinct == rows && buckets == rows;
    let offsets = if one_each { None } else { Some(Arc::new(offsets)) };
    let data = Copies::one(Arc::new(IndexData { offsets, positions: Some(Arc::new(positions)) }));
    Ok(Index { kind, rows, distinct, ranks, shift, data })
}

/// A lot to be sorted.
struct SortTask<'a> {
    lot: usize,
    /// Rows of the lots before.
    first: usize,
    /// One for each of its buckets; all 0.
    offsets: &'a mut [u32],
    rows: &'a mut [u32],
}

impl SortTask<'_> {
    /// Codes with an offset each: each row goes straight to its place. Returns how many codes there are.
    fn count(self, dealt: &[Dealt], lots: &Lots) -> usize {
        let start = lots.starts[self.lot];
        let pairs = || dealt.iter().flat_map(|run| run.lot(self.lot));
        pairs().for_each(|(rank, _)| self.offsets[lots.bucket(rank) - start] += 1);
        let distinct = self.offsets.iter().filter(|count| **count > 0).count();
        starts_of_counts(self.offsets, self.first);
        for (rank, row) in pairs() {
            let next = &mut self.offsets[lots.bucket(rank) - start];
            self.rows[*next as usize - self.first] = row;
            *next += 1;
        }
        starts_of_ends(self.offsets, self.first);
        distinct
    }

    /// Buckets of several values. Returns how many values there are.
    fn sort(self, dealt: &[Dealt], lots: &Lots, column: &Column, exact: bool) -> usize {
        let start = lots.starts[self.lot];
        let pairs = || dealt.iter().flat_map(|run| run.lot(self.lot));
        pairs().for_each(|(rank, _)| self.offsets[lots.bucket(rank) - start] += 1);
        starts_of_counts(self.offsets, self.first);
        let mut sorted = vec![(0, 0); self.rows.len()];
        for (rank, row) in pairs() {
            let next = &mut self.offsets[lots.bucket(rank) - start];
            sorted[*next as usize - self.first] = (rank, row);
            *next += 1;
        }
        let value = |row: u32| match column {
            Column::Plain(plain) if !exact => plain.value_at(row as usize),
            _ => None,
        };
        let mut from = 0;
        let mut distinct = 0;
        for &end in self.offsets.iter() {
            let bucket = &mut sorted[from..end as usize - self.first];
            if bucket.len() > 1 {
                bucket.sort_unstable_by(|a, b| {
                    a.0.cmp(&b.0).then_with(|| value(a.1).cmp(&value(b.1))).then(a.1.cmp(&b.1))
                });
            }
            let differs = |pair: &&[(u64, u32)]| pair[0].0 != pair[1].0 || value(pair[0].1) != value(pair[1].1);
            distinct += usize::from(!bucket.is_empty()) + bucket.windows(2).filter(differs).count();
            from = end as usize - self.first;
        }
        self.rows.iter_mut().zip(sorted).for_each(|(to, (_, row))| *to = row);
        starts_of_ends(self.offsets, self.first);
        distinct
    }
}

/// From how many there are in each bucket to where each begins, the first one at `first`.
fn starts_of_counts(offsets: &mut [u32], first: usize) {
    let mut next = first as u32;
    for offset in offsets {
        let count = *offset;
        *offset = next;
        next += count;
    }
}

/// From where each bucket ends to where it begins.
fn starts_of_ends(offsets: &mut [u32], first: usize) {
    let mut start = first as u32;
    for offset in offsets {
        start = std::mem::replace(offset, start);
    }
}
