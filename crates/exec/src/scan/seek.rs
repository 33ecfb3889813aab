//! Which rows of a segment an index leaves to be looked at.
//!
//! A row passes a conjunction only where it passes every part, so any part that says which values a column with an
//! index may have names all rows that can pass. Several parts about one column are put together: what a look-up finds
//! is a run of the rows in the order of the column's values, so parts become lists of runs and are intersected. How
//! many rows that makes is known before any is looked at; of several columns the one with the fewest is taken, and none
//! where reading everything costs less.
//!
//! # Limits
//! Parts joined by OR are not looked up unless they are one IN list. One index is used per segment: the rows of two are
//! not intersected.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.1, 5.2 and 6.1.5 (index look-ups at low selectivity).

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use storage::{BLOCK_ROWS, Index, IndexRows, Segment, TableVersion};

use crate::ExecError;
use crate::codes::filter::RowTest;
use crate::keys::key_filter::{FewKeys, KeyFilter};
use crate::plan::expression::CompareOp;
use crate::plan::predicate::Predicate;

/// A row that an index names costs as much as `n` rows that are scanned: it is read out of order, and the position
/// itself is read, sorted and gathered. A guess from VLDB 2015, section 6.1.5; the example `point` prints where the two
/// are equal on a machine.
const SCATTERED_COST: u64 = 512;
/// What scanning a segment costs before its first row; a guess too.
const SEGMENT_COST: u64 = 4096;
/// Look-ups of a list, each as dear as `n` rows that are scanned.
const LOOK_UP_COST: u64 = 1024;
/// Lists of up to `n` keys are looked up without asking whether that pays.
const SHORT_LIST: usize = 16;
/// An estimate looks up about `n` keys at most, which takes a quarter of a millisecond.
const ESTIMATE_LOOK_UPS: usize = 1024;

/// What a part of a conjunction says of one column.
#[derive(Clone, Copy)]
pub(crate) enum ColumnQuery<'a> {
    /// `column op value`.
    Compare(CompareOp, &'a ArrayRef),
    /// `column IN (values)`.
    In(&'a ArrayRef),
    /// Its values are keys of the other side of a join.
    Keys(&'a KeyFilter),
}

/// Rows of a segment that are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// Every row.
    All,
    /// Consecutive rows.
    Range(Range<usize>),
    /// These rows, ascending.
    Rows(Vec<u32>),
}

impl Access {
    /// How many rows these are of a segment of `rows`.
    pub(crate) fn len(&self, rows: usize) -> usize {
        match self {
            Access::All => rows,
            Access::Range(range) => range.len(),
            Access::Rows(rows) => rows.len(),
        }
    }
}

/// Runs of places in the order of an index.
pub(super) type PlaceRuns = Vec<Range<u32>>;
/// Finds the places that a part, by its number, leaves of an index.
type PlacesOf<'p> = dyn FnMut(usize, &Index) -> Result<Option<PlaceRuns>, ExecError> + 'p;

/// The index to use for a segment, and the places in its order that it is asked for.
pub(crate) struct Choice<'s> {
    /// The column.
    pub(crate) column: usize,
    index: &'s Index,
    places: PlaceRuns,
    /// Rows that it names.
    pub(crate) rows: usize,
    /// They follow each other.
    consecutive: bool,
}

impl Choice<'_> {
    /// The index.
    pub(super) fn index(&self) -> &Index {
        self.index
    }

    /// The places in its order, ascending and apart.
    pub(super) fn places(&self) -> &[Range<u32>] {
        &self.places
    }

    /// The rows, where they follow each other.
    pub(super) fn consecutive_rows(&self) -> Option<Range<usize>> {
        let [places] = &self.places[..] else { return None };
        match self.index.rows_at(places.clone()) {
            IndexRows::Range(range) => Some(range.start as usize..range.end as usize),
            IndexRows::Listed(_) => None,
        }
    }
}

/// The rows at some places of an index's order, ascending.
pub(super) fn rows_at(index: &Index, places: &[Range<u32>]) -> Vec<u32> {
    let mut rows = Vec::new();
    places.iter().for_each(|run| rows.extend(index.rows_at(run.clone()).iter()));
    rows.sort_unstable();
    rows
}

impl<'a> ColumnQuery<'a> {
    /// What a leaf says, where an index can look that up.
    pub(crate) fn of_test(test: &'a RowTest) -> Option<(usize, ColumnQuery<'a>)> {
        let column = *test.columns().first()?;
        match (test.as_compare(), test.as_in()) {
            (Some((op, value)), _) if op != CompareOp::NotEq => Some((column, ColumnQuery::Compare(op, value))),
            (_, Some((values, false))) => Some((column, ColumnQuery::In(values))),
            _ => None,
        }
    }

    /// As [`of_test`](Self::of_test), of a predicate.
    fn of_predicate(predicate: &'a Predicate) -> Option<(usize, ColumnQuery<'a>)> {
        match predicate {
            Predicate::Compare { column, op, value } if *op != CompareOp::NotEq => {
                Some((*column, ColumnQuery::Compare(*op, value)))
            }
            Predicate::In { column, values, negated: false } => Some((*column, ColumnQuery::In(values))),
            _ => None,
        }
    }

    /// Look-ups that it takes.
    pub(super) fn look_ups(&self) -> usize {
        match self {
            ColumnQuery::Compare(..) => 1,
            ColumnQuery::In(values) => values.len(),
            ColumnQuery::Keys(keys) => keys.few().map_or(usize::MAX, |few| few.len()),
        }
    }

    /// Whether so many look-ups cost less than to read a segment of `n` rows.
    pub(super) fn pays(&self, rows: usize) -> bool {
        let look_ups = self.look_ups();
        look_ups <= SHORT_LIST || (look_ups as u64).saturating_mul(LOOK_UP_COST) <= rows as u64
    }

    /// The places of the rows that some of its look-ups leave, ascending and apart; `None` where the index cannot tell.
    pub(super) fn places(
        &self,
        segment: &Segment,
        column: usize,
        index: &Index,
        look_ups: Range<usize>,
    ) -> Result<Option<PlaceRuns>, ExecError> {
        let stored = segment.column(column).as_ref();
        let mut places = Vec::with_capacity(look_ups.len());
        match self {
            ColumnQuery::Compare(op, value) => {
                let value: &dyn Array = value.as_ref();
                let (from, to) = match op {
                    CompareOp::Eq => (Bound::Included(value), Bound::Included(value)),
                    CompareOp::Lt => (Bound::Unbounded, Bound::Excluded(value)),
                    CompareOp::LtEq => (Bound::Unbounded, Bound::Included(value)),
                    CompareOp::Gt => (Bound::Excluded(value), Bound::Unbounded),
                    CompareOp::GtEq => (Bound::Included(value), Bound::Unbounded),
                    CompareOp::NotEq => return Ok(None),
                };
                places.push(index.order_between(stored, from, to)?);
            }
            ColumnQuery::In(values) => {
                for i in look_ups {
                    let value = values.slice(i, 1);
                    let value = Bound::Included(value.as_ref());
                    places.push(index.order_between(stored, value, value)?);
                }
            }
            ColumnQuery::Keys(keys) => match keys.few() {
                Some(FewKeys::Integers(values)) => {
                    for &value in &values[look_ups] {
                        let Some(of_value) = index.order_of_integers(stored, value, value) else { return Ok(None) };
                        places.push(of_value);
                    }
                }
                Some(FewKeys::Vids(dictionary, vids)) => {
                    for &vid in &vids[look_ups] {
                        let found = dictionary.bytes_of(vid).and_then(|bytes| index.order_of_bytes(stored, bytes));
                        let Some(of_value) = found else { return Ok(None) };
                        places.push(of_value);
                    }
                }
                None => return Ok(None),
            },
        }
        Ok(Some(in_order(places)))
    }
}

/// Runs of places, ascending, each once. Lists that ascend each are merged.
pub(super) fn in_order(mut places: PlaceRuns) -> PlaceRuns {
    places.retain(|run| !run.is_empty());
    if places.len() > 1 {
        places.sort_by_key(|run| run.start);
        // Equal members of a list.
        places.dedup();
    }
    places
}

/// What both lists of runs have.
fn intersected(a: &[Range<u32>], b: &[Range<u32>]) -> Vec<Range<u32>> {
    let (mut i, mut j, mut both) = (0, 0, Vec::new());
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let run = x.start.max(y.start)..x.end.min(y.end);
        if !run.is_empty() {
            both.push(run);
        }
        if x.end <= y.end { i += 1 } else { j += 1 }
    }
    both
}

/// The index to look rows of a segment up in, given what parts of a conjunction say of columns; `None` where every row
/// is to be looked at.
pub(super) fn choose<'s>(
    segment: &'s Segment,
    asked: &[(usize, ColumnQuery<'_>)],
) -> Result<Option<Choice<'s>>, ExecError> {
    choose_by(segment, asked, &|_| 1, &mut |number, index| {
        let (column, query) = &asked[number];
        query.places(segment, *column, index, 0..query.look_ups())
    })
}

/// As [`choose`], where `places_of` finds the places that a part, by its number, leaves of an index: one row for each
/// `weight_of` its column.
pub(super) fn choose_by<'s>(
    segment: &'s Segment,
    asked: &[(usize, ColumnQuery<'_>)],
    weight_of: &dyn Fn(usize) -> u64,
    places_of: &mut PlacesOf<'_>,
) -> Result<Option<Choice<'s>>, ExecError> {
    let rows = segment.rows() as u64;
    let mut best: Option<(u64, Choice<'s>)> = None;
    for (first, (column, _)) in asked.iter().enumerate() {
        let Some(index) = segment.index(*column) else { continue };
        if asked[..first].iter().any(|(known, _)| known == column) {
            continue;
        }
        let mut places: Option<PlaceRuns> = None;
        let of_column = (first..asked.len()).filter(|&number| asked[number].0 == *column);
        for number in of_column.filter(|&number| asked[number].1.pays(segment.rows())) {
            if let Some(found) = places_of(number, index)? {
                places = Some(match places {
                    Some(known) => intersected(&known, &found),
                    None => found,
                });
            }
        }
        let Some(places) = places else { continue };
        let count = places.iter().map(|run| run.len() as u64).sum::<u64>() * weight_of(*column);
        let consecutive = places.len() == 1 && matches!(index.rows_at(places[0].clone()), IndexRows::Range(_));
        let cost = if consecutive { count + SEGMENT_COST } else { count * SCATTERED_COST };
        if cost < best.as_ref().map_or(rows + SEGMENT_COST, |(cost, _)| *cost) {
            best = Some((cost, Choice { column: *column, index, places, rows: count as usize, consecutive }));
        }
    }
    Ok(best.map(|(_, choice)| choice))
}

/// What the parts of a conjunction over columns of a table say that an index may be asked.
pub(crate) fn asked_by<'a>(conjuncts: &[&'a Predicate]) -> Vec<(usize, ColumnQuery<'a>)> {
    let mut asked = Vec::new();
    for conjunct in conjuncts {
        match conjunct {
            Predicate::And(parts) => asked.extend(asked_by(&parts.iter().collect::<Vec<_>>())),
            other => asked.extend(ColumnQuery::of_predicate(other)),
        }
    }
    asked
}

/// What look-ups leave of a table.
pub(crate) struct Left {
    /// Columns whose index is used in some segment, ascending.
    pub(crate) columns: Vec<usize>,
    /// Rows that are looked at, and of these the ones that an index names one by one.
    pub(crate) rows: u64,
    pub(crate) scattered: u64,
    /// Look-ups in indexes.
    pub(crate) look_ups: u64,
}

/// What look-ups leave of the rows of a snapshot of which a conjunction is asked, exactly where they are few; `None`
/// where no index is used.
pub(crate) fn left(snapshot: &TableVersion, asked: &[(usize, ColumnQuery<'_>)]) -> Option<Left> {
    if asked.is_empty() {
        return None;
    }
    let look_ups: usize = asked.iter().map(|(_, query)| query.look_ups()).sum();
    let step = look_ups.saturating_mul(snapshot.segments().count()).div_ceil(ESTIMATE_LOOK_UPS);
    let mut left = Left { columns: Vec::new(), rows: 0, scattered: 0, look_ups: 0 };
    for version in snapshot.segments() {
        let live = version.live_rows();
        if live == 0 {
            continue;
        }
        match estimated(&version.segment, asked, step).ok().flatten() {
            Some(choice) => {
                let of_column = asked.iter().filter(|(column, _)| *column == choice.column);
                left.look_ups += of_column.map(|(_, query)| query.look_ups() as u64).sum::<u64>();
                left.rows += choice.rows as u64;
                // A few that follow each other cost as much as any few.
                left.scattered += if choice.consecutive && choice.rows > BLOCK_ROWS { 0 } else { choice.rows as u64 };
                left.columns.push(choice.column);
            }
            None => left.rows += live as u64,
        }
    }
    left.columns.sort_unstable();
    left.columns.dedup();
    (!left.columns.is_empty()).then_some(left)
}

/// What [`choose`] would choose if it asked an index for every `step`th member of a list alone, the first such list of
/// each column.
fn estimated<'s>(
    segment: &'s Segment,
    asked: &[(usize, ColumnQuery<'_>)],
    step: usize,
) -> Result<Option<Choice<'s>>, ExecError> {
    let is_sampled = |query: &ColumnQuery<'_>| step > 1 && query.look_ups() > SHORT_LIST;
    let sampled = |column: usize| asked.iter().position(|(other, query)| *other == column && is_sampled(query));
    let weight_of = |column: usize| if sampled(column).is_some() { step as u64 } else { 1 };
    choose_by(segment, asked, &weight_of, &mut |number, index| {
        let (column, query) = &asked[number];
        if !is_sampled(query) {
            return query.places(segment, *column, index, 0..query.look_ups());
        }
        if sampled(*column) != Some(number) {
            return Ok(None);
        }
        let mut places = Vec::new();
        for look_up in (0..query.look_ups()).step_by(step) {
            match query.places(segment, *column, index, look_up..look_up + 1)? {
                Some(found) => places.extend(found),
                None => return Ok(None),
            }
        }
        Ok(Some(in_order(places)))
    })
}

/// Key filters of joins that have few keys, by column of the table.
pub(crate) type ScanKeys = Vec<(usize, Arc<KeyFilter>)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_in_both_lists() {
        let none: [Range<u32>; 0] = [];
        assert_eq!(intersected(&[0..5, 7..9], std::slice::from_ref(&(3..8))), [3..5, 7..8]);
        assert_eq!(intersected(std::slice::from_ref(&(0..5)), std::slice::from_ref(&(5..9))), none);
        assert_eq!(intersected(&[1..2, 4..5, 9..20], &[0..10, 11..12, 15..30]), [1..2, 4..5, 9..10, 11..12, 15..20]);
    }
}
