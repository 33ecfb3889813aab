//! Which row has this key? Many keys at a time, looked up in the indexes of a version's segments.
//!
//! A segment is looked through instead, each of its rows being looked up among the keys, where it has no index on a
//! column of the key, or where look-ups find more rows than it has: no column tells its rows apart by itself.
//!
//! Values are equal as SQL has them: -0.0 equals 0.0, all NaNs are equal, NULL equals nothing.
//!
//! # Limits
//! What the keys take besides their arrays, some 12 bytes each, is in no budget.

use std::hash::BuildHasher;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef};
use foldhash::fast::{FixedState, RandomState};
use hashbrown::HashTable;

use super::TableVersion;
use super::duplicate::{equal_values, value};
use crate::GRANULE_ROWS;
use crate::dictionary::{Value, comparable};
use crate::error::{Interruption, StoreError};
use crate::index::{Index, WARM_MAX};
use crate::parallel::{Parallel, map};
use crate::segment::SegmentVersion;
use crate::types::{Native, Physical};

/// Keys that one task looks up.
const RUN_KEYS: usize = GRANULE_ROWS;

/// Look-ups that the caller does itself: about a millisecond.
const FEW_LOOK_UPS: usize = 2048;

/// Keys, rows or candidates after which a task asks whether to go on.
const METERED: usize = 4096;

/// Rows that look-ups find which take as long as one row that is looked through.
const CANDIDATES_PER_ROW: usize = 2;

/// Rows that look-ups may find however few a segment has.
const CANDIDATES_MIN: usize = 1 << 12;

/// A row of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowPlace {
    /// Place of its segment among [`TableVersion::segments`].
    pub segment: u32,
    /// The row within the segment.
    pub row: u32,
}

/// Keys: for each the values of some columns, those that are equal known as such.
pub struct Keys {
    columns: Vec<(ArrayRef, Physical)>,
    rows: usize,
    /// For each the first with the same values; `None` where a value is NULL.
    first: Vec<Option<u32>>,
    /// Those that are first, by hash.
    table: HashTable<u32>,
    hasher: RandomState,
}

/// A key that was found: which, and the row that has it.
type Found = (u32, RowPlace);

impl Keys {
    /// The keys whose values stand in the rows of `values`, arrays of one length in surface types that have an order.
    ///
    /// # Errors
    /// [`StoreError::NotIndexable`] for another type; [`StoreError::ColumnCount`] without a column.
    pub fn new(values: &[ArrayRef]) -> Result<Keys, StoreError> {
        let Some(rows) = values.first().map(|column| column.len()) else {
            return Err(StoreError::ColumnCount { expected: 1, found: 0 });
        };
        let mut columns = Vec::with_capacity(values.len());
        for (place, values) in values.iter().enumerate() {
            assert_eq!(values.len(), rows, "columns of one length");
            let physical = Physical::of(values.data_type());
            if physical == Physical::Opaque || crate::surface_type(values.data_type()) != *values.data_type() {
                let column = format!("{} of the key", place + 1);
                return Err(StoreError::NotIndexable { column, data_type: values.data_type().clone() });
            }
            columns.push((ArrayRef::clone(values), physical));
        }
        assert!(u32::try_from(rows).is_ok(), "keys are counted in 32 bits");
        let hasher = RandomState::default();
        let mut keys = Keys { columns, rows, first: Vec::with_capacity(rows), table: HashTable::new(), hasher };
        for key in 0..rows as u32 {
            let first = keys.added(key);
            keys.first.push(first);
        }
        Ok(keys)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// For each key the first one with the same values, itself where that is the first; `None` for one with a NULL,
    /// which equals nothing.
    pub fn first_equal(&self) -> &[Option<u32>] {
        &self.first
    }

    /// 64 bits by which each key can be known: equal keys have the same, in every run; others nearly always have
    /// others. `None` for one with a NULL.
    pub fn codes(&self) -> impl Iterator<Item = Option<u64>> + '_ {
        let hasher = FixedState::default();
        (0..self.rows as u32).map(move |key| hash_of(&hasher, &self.columns, &|column| self.value(column, key)))
    }

    /// For each key of other values the one here that equals it, the first of those; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError::NotComparable`] for values of other types.
    pub fn equal_to(&self, others: &[ArrayRef]) -> Result<Vec<Option<u32>>, StoreError> {
        self.check_types(others.iter().map(|column| column.data_type()))?;
        let rows = others.first().map_or(0, |column| column.len());
        Ok((0..rows).map(|row| self.like(&|column| value_at(&others[column], row))).collect())
    }

    /// For each key a live row of `version` that has its values in the columns `key`, any one where several do; `None`
    /// where no row does. `is_stopped` is asked now and then, and ends it.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] or [`StoreError::NotIndexable`] for a column, [`StoreError::NotComparable`] for one of
    /// another type than the keys; [`StoreError::Interrupted`], also when it was stopped.
    pub fn find(
        &self,
        version: &TableVersion,
        key: &[usize],
        is_stopped: &(dyn Fn() -> bool + Sync),
        parallel: &dyn Parallel,
    ) -> Result<Vec<Option<RowPlace>>, StoreError> {
        for &column in key {
            version.check_indexable(column)?;
        }
        self.check_types(key.iter().map(|&column| version.schema.field(column).data_type()))?;
        let stop = Stop { is_stopped, stopped: AtomicBool::new(false) };
        let mut looked_up = Vec::new();
        let mut scanned = Vec::new();
        let segments: Vec<&SegmentVersion> = version.segments().collect();
        for (place, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.live_rows() > 0) {
            let search = Search { keys: self, segment, place: place as u32, key, stop: &stop };
            match search.probed() {
                Some(probed) => looked_up.push((search, probed)),
                None => scanned.push(search),
            }
        }
        let mut found = vec![None; self.rows];
        // Equal keys are found with the first of them.
        let is_first = |key: &u32| self.first[*key as usize] == Some(*key);
        let mut left: Vec<u32> = (0..self.rows as u32).filter(is_first).collect();
        // Handing few look-ups out takes longer than they do, and what the workers do otherwise has to be waited for.
        if left.len().saturating_mul(looked_up.len()) <= FEW_LOOK_UPS {
            // Most are where most rows are; what is found need not be looked for elsewhere.
            looked_up.sort_by_key(|(search, _)| std::cmp::Reverse(search.segment.live_rows()));
            for (search, probed) in looked_up {
                match search.by_look_ups(probed, &left) {
                    Some(rows) if rows.is_empty() => {}
                    Some(rows) => {
                        keep(&mut found, rows);
                        left.retain(|&key| found[key as usize].is_none());
                    }
                    None => scanned.push(search),
                }
            }
        } else {
            let runs = looked_up.iter().flat_map(|of| left.chunks(RUN_KEYS).map(move |keys| (of, keys))).collect();
            let tried = map(parallel, runs, &|_| None, &|((search, probed), keys)| {
                Ok((search, search.by_look_ups(*probed, keys)))
            })?;
            for (search, looked_up) in tried {
                match looked_up {
                    Some(rows) => keep(&mut found, rows),
                    None if scanned.iter().all(|other| other.place != search.place) => scanned.push(*search),
                    None => {}
                }
            }
        }
        let granules = scanned.into_iter().flat_map(|search| {
            let rows = search.segment.segment.rows();
            let granules = (0..rows).step_by(GRANULE_ROWS);
            granules.map(move |from| (search, from..rows.min(from + GRANULE_ROWS)))
        });
        let seen = map(parallel, granules.collect(), &|_| None, &|(search, rows)| Ok(search.by_scan(rows)))?;
        seen.into_iter().for_each(|rows| keep(&mut found, rows));
        if stop.stopped.into_inner() {
            return Err(Interruption::Cancelled.into());
        }
        Ok(self.first.iter().map(|first| first.and_then(|first| found[first as usize])).collect())
    }

    fn check_types<'a>(
        &self,
        types: impl ExactSizeIterator<Item = &'a arrow::datatypes::DataType>,
    ) -> Result<(), StoreError> {
        if types.len() != self.columns.len() {
            return Err(StoreError::ColumnCount { expected: self.columns.len(), found: types.len() });
        }
        for (found, (column, _)) in types.zip(&self.columns) {
            if !comparable(column.data_type(), found) {
                let expected = column.data_type().clone();
                return Err(StoreError::NotComparable { expected, found: found.clone() });
            }
        }
        Ok(())
    }

    /// The first key with the values of one that is added.
    fn added(&mut self, key: u32) -> Option<u32> {
        let hash = self.hash(&|column| self.value(column, key))?;
        let same = |&other: &u32| self.is_equal(other, &|column| self.value(column, key));
        if let Some(&first) = self.table.find(hash, same) {
            return Some(first);
        }
        let Keys { columns, hasher, table, .. } = self;
        let rehash = |&other: &u32| hash_of(hasher, columns, &|column| value_at(&columns[column].0, other as usize));
        table.insert_unique(hash, key, |other| rehash(other).unwrap_or_default());
        Some(key)
    }

    /// The first key with these values.
    fn like<'a>(&self, values: &dyn Fn(usize) -> Option<Value<'a>>) -> Option<u32> {
        let hash = self.hash(values)?;
        self.table.find(hash, |&key| self.is_equal(key, values)).copied()
    }

    fn value(&self, column: usize, key: u32) -> Option<Value<'_>> {
        value_at(&self.columns[column].0, key as usize)
    }

    fn is_equal<'a>(&self, key: u32, values: &dyn Fn(usize) -> Option<Value<'a>>) -> bool {
        self.columns.iter().enumerate().all(|(column, (_, physical))| {
            let here = self.value(column, key).map(|value| plain(*physical, value));
            here.is_some() && here == values(column).map(|value| plain(*physical, value))
        })
    }

    fn hash<'a>(&self, values: &dyn Fn(usize) -> Option<Value<'a>>) -> Option<u64> {
        hash_of(&self.hasher, &self.columns, values)
    }
}

/// The hash of a key; `None` where a value is NULL.
fn hash_of<'a>(
    hasher: &impl BuildHasher,
    columns: &[(ArrayRef, Physical)],
    values: &dyn Fn(usize) -> Option<Value<'a>>,
) -> Option<u64> {
    let mut hash = 0_u64;
    for (column, (_, physical)) in columns.iter().enumerate() {
        hash = hasher.hash_one((hash, plain(*physical, values(column)?)));
    }
    Some(hash)
}

fn keep(found: &mut [Option<RowPlace>], rows: Vec<Found>) {
    rows.into_iter().for_each(|(key, place)| found[key as usize] = Some(place));
}

fn value_at(values: &ArrayRef, row: usize) -> Option<Value<'_>> {
    values.is_valid(row).then(|| Value::at(values.as_ref(), row))
}

/// Of the values that SQL has equal to one, one.
fn plain(physical: Physical, value: Value<'_>) -> Value<'_> {
    let (Value::Key(key), true) = (value, physical.is_float()) else { return value };
    let infinity = if physical == Physical::F32 { f32::INFINITY.wide_key() } else { f64::INFINITY.wide_key() };
    match key {
        -1 => Value::Key(0),
        _ if key > infinity || key < -1 - infinity => Value::Key(i128::MAX),
        _ => value,
    }
}

/// Whether to go on.
struct Stop<'a> {
    is_stopped: &'a (dyn Fn() -> bool + Sync),
    stopped: AtomicBool,
}

impl Stop<'_> {
    fn goes_on(&self) -> bool {
        if (self.is_stopped)() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        !self.stopped.load(Ordering::Relaxed)
    }
}

/// Keys that are looked for in a segment.
#[derive(Clone, Copy)]
struct Search<'a> {
    keys: &'a Keys,
    segment: &'a SegmentVersion,
    place: u32,
    /// The segment's columns.
    key: &'a [usize],
    stop: &'a Stop<'a>,
}

impl<'a> Search<'a> {
    /// Which column of the key is looked up: of those with an index the one that tells most rows apart. `None` where
    /// looking at all rows is cheaper.
    fn probed(&self) -> Option<usize> {
        let indexes = self.key.iter().enumerate().filter_map(|(place, &column)| Some((self.index(column)?, place)));
        let (index, place) = indexes.max_by_key(|(index, place)| (index.distinct(), std::cmp::Reverse(*place)))?;
        let per_look_up = index.rows() / index.distinct().max(1);
        let candidates = per_look_up.saturating_mul(self.keys.table.len());
        (per_look_up <= 1 || candidates <= self.candidates_max()).then_some(place)
    }

    fn index(&self, column: usize) -> Option<&'a Index> {
        self.segment.segment.index(column).map(|index| index.as_ref())
    }

    fn candidates_max(&self) -> usize {
        CANDIDATES_MIN + self.segment.segment.rows() * CANDIDATES_PER_ROW
    }

    /// The rows that have some of the keys; `None` where there are too many candidates. What was found when it was
    /// stopped is not all there is.
    fn by_look_ups(&self, probed: usize, keys: &[u32]) -> Option<Vec<Found>> {
        let column = self.segment.segment.column(self.key[probed]);
        let index = self.index(self.key[probed])?;
        let physical = self.keys.columns[probed].1;
        let mut found = Vec::new();
        // One that each look-up may find is not counted.
        let mut left = self.candidates_max();
        for (looked, &key) in keys.iter().enumerate() {
            if (looked + 1).is_multiple_of(METERED) && !self.stop.goes_on() {
                return Some(found);
            }
            if looked.is_multiple_of(WARM_MAX) {
                self.warm(probed, &keys[looked..keys.len().min(looked + WARM_MAX)]);
            }
            let Some(value) = self.keys.value(probed, key) else { continue };
            for (low, high) in equal_values(physical, value).into_iter().flatten() {
                let rows = index.rows_within(column, Bound::Included(low), Bound::Included(high));
                left = left.checked_sub(rows.len().saturating_sub(1))?;
                if let Some(row) = rows.iter().find(|&row| self.is_it(row, key, probed)) {
                    found.push((key, RowPlace { segment: self.place, row }));
                    break;
                }
            }
        }
        Some(found)
    }

    /// Has what look-ups of several keys read come into the cache at the same time.
    fn warm(&self, probed: usize, keys: &[u32]) {
        let (column, physical) = (self.key[probed], self.keys.columns[probed].1);
        let Some(coded) = self.segment.segment.column(column).as_coded().filter(|_| keys.len() > 1) else { return };
        let Some(index) = self.index(column) else { return };
        let code = |&key: &u32| {
            let value = self.keys.value(probed, key)?;
            let (low, _) = equal_values(physical, value).into_iter().flatten().next()?;
            Some(coded.dictionary().bound_of(low, false) + u32::from(coded.null_code()))
        };
        let mut codes = [0; WARM_MAX];
        let known = codes.iter_mut().zip(keys.iter().filter_map(code)).map(|(place, code)| *place = code).count();
        index.warm(coded, &codes[..known]);
    }

    /// Whether a row is live and has the key.
    fn is_it(&self, row: u32, key: u32, probed: usize) -> bool {
        self.segment.is_live(row as usize) && self.has(row, key, probed)
    }

    /// Whether a row has a key's values in the columns that were not looked up.
    fn has(&self, row: u32, key: u32, probed: usize) -> bool {
        self.keys.columns.iter().enumerate().filter(|(place, _)| *place != probed).all(|(place, (_, physical))| {
            let there = value(self.segment.segment.column(self.key[place]), row as usize);
            let here = self.keys.value(place, key);
            here.is_some() && here.map(|v| plain(*physical, v)) == there.map(|v| plain(*physical, v))
        })
    }

    /// Those of some rows that have one of the keys.
    fn by_scan(&self, rows: Range<usize>) -> Vec<Found> {
        let mut found = Vec::new();
        let columns: Vec<ArrayRef> =
            self.key.iter().map(|&column| self.segment.segment.column(column).slice(rows.clone())).collect();
        for (place, row) in rows.enumerate() {
            if (place + 1).is_multiple_of(METERED) && !self.stop.goes_on() {
                return found;
            }
            if self.segment.is_live(row)
                && let Some(key) = self.keys.like(&|column| value_at(&columns[column], place))
            {
                found.push((key, RowPlace { segment: self.place, row: row as u32 }));
            }
        }
        found
    }
}
