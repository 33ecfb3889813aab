//! Sorting all rows: a sample sort of row numbers.
//!
//! Every piece of the input makes words of its keys with the row's number behind them (so that no two are equal), a
//! sample of which gives the bounds of ranges of about equal length; pieces are cut along those, and each range is sorted on
//! its own, in parallel, in cache. Ranges behind the rows that are wanted are not sorted at all.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::row::Rows as ByteRows;
use parking_lot::Mutex;

use super::Sorted;
use super::keys::{Bytes, CHECK_ROWS, Layout, Packed, Word};
use crate::ExecError;
use crate::engine::Run;
use crate::engine::chunk::Rows;

/// Rows of a piece.
const PIECE_ROWS: usize = 65_536;
/// Rows of a range, about: small enough for a core's cache.
const RANGE_ROWS: usize = 65_536;
/// The same where keys are bytes: comparing them takes long, and nobody can stop a range while it is sorted.
const BYTE_RANGE_ROWS: usize = 8192;
/// But not more ranges than about so many.
const BYTE_RANGES: usize = 4096;
/// Samples per range.
const SAMPLES: usize = 32;

/// The first `fetch` rows in order.
pub(super) fn sorted(run: &Run<'_>, rows: Arc<Rows>, layout: &Layout, fetch: usize) -> Result<Sorted, ExecError> {
    let row_bits = usize::BITS - rows.rows.leading_zeros();
    let (order, reservation) = match layout {
        Layout::Packed(packed, _) if packed.bits + row_bits <= u64::BITS => {
            by_words::<u64>(run, &rows, packed, row_bits, fetch)?
        }
        Layout::Packed(packed, _) if packed.bits + row_bits <= u128::BITS => {
            by_words::<u128>(run, &rows, packed, row_bits, fetch)?
        }
        Layout::Packed(_, bytes) | Layout::Bytes(bytes) => by_bytes(run, &rows, bytes, fetch)?,
    };
    Ok(Sorted { rows, order, _reservation: Some(reservation) })
}

type Order = (Vec<Vec<u32>>, numa::Reservation);

fn by_words<W: Word>(
    run: &Run<'_>,
    rows: &Arc<Rows>,
    packed: &Packed,
    row_bits: u32,
    fetch: usize,
) -> Result<Order, ExecError> {
    let mut reservation = run.reserve((2 * size_of::<W>() * rows.rows) as u64)?;
    let pieces = run.map(rows.rows.div_ceil(PIECE_ROWS), &|piece| {
        let range = piece * PIECE_ROWS..((piece + 1) * PIECE_ROWS).min(rows.rows);
        let mut words: Vec<W> = Vec::new();
        packed.words(range.clone(), |c| rows.columns[c].clone(), &mut words);
        words.iter_mut().zip(range).for_each(|(word, row)| *word = word.then(row_bits, W::of(row as u64)));
        Ok(words)
    })?;
    let mask = (1u64 << row_bits) - 1;
    let order = in_ranges(run, pieces, (RANGE_ROWS, fetch), W::cmp, |word| (word.low() & mask) as u32)?;
    reservation.resize((size_of::<u32>() * rows.rows) as u64)?;
    Ok((order, reservation))
}

/// The start of a row's key, and the row.
#[derive(Clone, Copy)]
struct Item {
    prefix: u64,
    row: u32,
}

fn by_bytes(run: &Run<'_>, rows: &Arc<Rows>, bytes: &Bytes, fetch: usize) -> Result<Order, ExecError> {
    let mut reservation = run.reserve((2 * size_of::<Item>() * rows.rows) as u64)?;
    let (mut pieces, mut keys): (Vec<Vec<Item>>, Vec<ByteRows>) = (Vec::new(), Vec::new());
    let made = run.map(rows.rows.div_ceil(PIECE_ROWS), &|piece| {
        let range = piece * PIECE_ROWS..((piece + 1) * PIECE_ROWS).min(rows.rows);
        let keys = bytes.rows(range.clone(), |c| rows.columns[c].clone(), run)?;
        let charged = run.reserve(keys.size() as u64)?;
        let items = range.zip(keys.iter()).map(|(row, key)| Item { prefix: prefix(key.as_ref()), row: row as u32 });
        Ok((items.collect::<Vec<_>>(), keys, charged))
    })?;
    for (items, key, charged) in made {
        pieces.push(items);
        keys.push(key);
        let more = charged.bytes();
        drop(charged);
        reservation.grow(more)?;
    }
    let key = |item: &Item| keys[item.row as usize / PIECE_ROWS].row(item.row as usize % PIECE_ROWS);
    let compare = |a: &Item, b: &Item| -> Ordering {
        let words = a.prefix.cmp(&b.prefix);
        words.then_with(|| key(a).as_ref().cmp(key(b).as_ref())).then(a.row.cmp(&b.row))
    };
    let order =
        in_ranges(run, pieces, (BYTE_RANGE_ROWS.max(rows.rows / BYTE_RANGES), fetch), compare, |item| item.row)?;
    reservation.resize((size_of::<u32>() * rows.rows) as u64)?;
    Ok((order, reservation))
}

/// The first eight bytes as a number; missing ones are zero, as a shorter key sorts first.
fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    let length = key.len().min(8);
    first[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(first)
}

/// Sorts items, no two of which are equal, range by range of about so many rows, as far as the first `fetch` reach.
fn in_ranges<T: Copy + Send + Sync>(
    run: &Run<'_>,
    pieces: Vec<Vec<T>>,
    (range_rows, fetch): (usize, usize),
    compare: impl Fn(&T, &T) -> Ordering + Sync,
    row_of: impl Fn(&T) -> u32 + Sync,
) -> Result<Vec<Vec<u32>>, ExecError> {
    let bounds = bounds(&pieces, range_rows, &compare);
    let cut = cut(run, pieces, &bounds, &compare)?;
    // A range starts behind as many rows as the ranges before it have.
    let mut starts = Vec::with_capacity(bounds.len() + 1);
    let mut start = 0;
    for range in 0..=bounds.len() {
        starts.push(start);
        start += cut.iter().map(|piece| piece.rows_of(range).len()).sum::<usize>();
    }
    run.map(bounds.len() + 1, &|range| {
        if starts[range] >= fetch {
            return Ok(Vec::new());
        }
        let mut items: Vec<T> = Vec::new();
        cut.iter().for_each(|piece| items.extend_from_slice(piece.rows_of(range)));
        items.sort_unstable_by(&compare);
        items.truncate(fetch - starts[range]);
        Ok(items.iter().map(&row_of).collect())
    })
}

/// Items that ranges after the first begin with, ascending.
fn bounds<T: Copy>(pieces: &[Vec<T>], range_rows: usize, compare: &impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    let rows: usize = pieces.iter().map(Vec::len).sum();
    let ranges = rows.div_ceil(range_rows);
    if ranges < 2 {
        return Vec::new();
    }
    let every = (rows / (ranges * SAMPLES)).max(1);
    let mut sample: Vec<T> = pieces.iter().flat_map(|piece| piece.iter().step_by(every).copied()).collect();
    sample.sort_unstable_by(compare);
    (1..ranges).map(|range| sample[range * sample.len() / ranges]).collect()
}

/// A piece in the order of ranges.
struct Cut<T> {
    items: Vec<T>,
    /// Where each range begins, and the end.
    starts: Vec<usize>,
}

impl<T> Cut<T> {
    fn rows_of(&self, range: usize) -> &[T] {
        &self.items[self.starts[range]..self.starts[range + 1]]
    }
}

fn cut<T: Copy + Send + Sync>(
    run: &Run<'_>,
    pieces: Vec<Vec<T>>,
    bounds: &[T],
    compare: &(impl Fn(&T, &T) -> Ordering + Sync),
) -> Result<Vec<Cut<T>>, ExecError> {
    let pieces: Vec<Mutex<Vec<T>>> = pieces.into_iter().map(Mutex::new).collect();
    run.map(pieces.len(), &|piece| {
        let items = std::mem::take(&mut *pieces[piece].lock());
        if bounds.is_empty() {
            let starts = vec![0, items.len()];
            return Ok(Cut { items, starts });
        }
        let mut of: Vec<u32> = Vec::with_capacity(items.len());
        for some in items.chunks(CHECK_ROWS) {
            run.check()?;
            of.extend(some.iter().map(|item| bounds.partition_point(|b| compare(b, item).is_le()) as u32));
        }
        let mut starts = vec![0; bounds.len() + 2];
        of.iter().for_each(|&range| starts[range as usize + 1] += 1);
        (1..starts.len()).for_each(|i| starts[i] += starts[i - 1]);
        let mut next = starts.clone();
        let mut ordered = items.clone();
        for (item, range) in items.iter().zip(of) {
            ordered[next[range as usize]] = *item;
            next[range as usize] += 1;
        }
        Ok(Cut { items: ordered, starts })
    })
}
