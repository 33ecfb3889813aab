//! Sorting all rows: a sample sort of row numbers.
//!
//! Every piece of the input makes words of its keys with the row's number behind them (so that no two are equal), a
//! sample of which gives the bounds of ranges of about equal length; pieces are cut along those, and each range is
//! sorted on its own, in parallel, in cache. An item's range is looked up by the beginning of its key and searched for
//! among few. Ranges behind the rows that are wanted are not sorted at all. Where comparing takes long, what one thread
//! sorts it sorts in parts that it merges, and looks at the statement in between.
//!
//! # Limits
//! There are no more than [`RANGES_MAX`] ranges, as each piece notes where each begins: beyond 268 million rows ranges
//! grow out of the caches.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::row::Rows as ByteRows;
use parking_lot::Mutex;

use super::SortedRows;
use crate::ExecError;
use crate::chunk::Rows;
use crate::keys::order::{ByteLayout, CHECK_ROWS, OrderLayout, Word, WordLayout};
use crate::tasks::run::Run;
use crate::tasks::traffic;

/// Rows of a piece.
const PIECE_ROWS: usize = 65_536;
/// Rows of a range, about: small enough for a core's cache.
const RANGE_ROWS: usize = 65_536;
/// But not more ranges than about so many.
const RANGES_MAX: usize = 4096;
/// Beginnings of keys that ranges are looked up by, for each range.
const SLOTS_PER_RANGE: usize = 16;
/// Rows that are sorted without a look at the statement where keys are bytes, which take long to compare.
const BYTE_PART_ROWS: usize = 8192;
/// Samples per range.
const SAMPLES: usize = 32;

/// The first `fetch` rows in order.
pub(super) fn sorted(
    run: &Run<'_>,
    rows: Arc<Rows>,
    layout: &OrderLayout,
    fetch: usize,
) -> Result<SortedRows, ExecError> {
    let row_bits = usize::BITS - rows.rows.leading_zeros();
    let (order, reservation) = match layout {
        OrderLayout::Words(packed, _) if packed.bits + row_bits <= u64::BITS => {
            by_words::<u64>(run, &rows, packed, row_bits, fetch)?
        }
        OrderLayout::Words(packed, _) if packed.bits + row_bits <= u128::BITS => {
            by_words::<u128>(run, &rows, packed, row_bits, fetch)?
        }
        OrderLayout::Words(_, bytes) | OrderLayout::Bytes(bytes) => by_bytes(run, &rows, bytes, fetch)?,
    };
    Ok(SortedRows { rows, order, _reservation: Some(reservation) })
}

type Order = (Vec<Vec<u32>>, numa::Reservation);

fn by_words<W: Word>(
    run: &Run<'_>,
    rows: &Arc<Rows>,
    packed: &WordLayout,
    row_bits: u32,
    fetch: usize,
) -> Result<Order, ExecError> {
    let mut reservation = run.reserve((2 * size_of::<W>() * rows.rows) as u64)?;
    let pieces = word_pieces::<W>(run, rows, packed, row_bits)?;
    let mask = (1u64 << row_bits) - 1;
    let rows_of = |words: &[W]| words.iter().map(|word| (word.low() & mask) as u32).collect();
    let order = in_ranges(run, pieces, (usize::MAX, fetch), &WordOrder::of(packed, row_bits), rows_of)?;
    reservation.resize((size_of::<u32>() * rows.rows) as u64)?;
    Ok((order, reservation))
}

/// An order of items, no two of which are equal.
pub(super) trait ItemOrder<T>: Sync {
    fn compare(&self, a: &T, b: &T) -> Ordering;

    /// The beginning of an item's key: it never falls where items rise.
    fn lead(&self, item: &T) -> u64;

    fn sort(&self, items: &mut [T]) {
        items.sort_unstable_by(|a, b| self.compare(a, b));
    }
}

/// That of words.
pub(super) struct WordOrder {
    /// Bits behind a word's first 64.
    behind: u32,
}

impl WordOrder {
    /// Of keys with `row_bits` bits behind them.
    pub(super) fn of(packed: &WordLayout, row_bits: u32) -> WordOrder {
        WordOrder { behind: (packed.bits + row_bits).saturating_sub(u64::BITS) }
    }
}

impl<W: Word> ItemOrder<W> for WordOrder {
    #[inline]
    fn compare(&self, a: &W, b: &W) -> Ordering {
        a.cmp(b)
    }

    #[inline]
    fn lead(&self, word: &W) -> u64 {
        word.without(self.behind).low()
    }

    fn sort(&self, words: &mut [W]) {
        W::sort(words);
    }
}

/// The key of every row with the row's number in its lowest bits.
pub(super) fn word_pieces<W: Word>(
    run: &Run<'_>,
    rows: &Rows,
    packed: &WordLayout,
    row_bits: u32,
) -> Result<Vec<Vec<W>>, ExecError> {
    run.map(rows.rows.div_ceil(PIECE_ROWS), &|piece| {
        let range = piece * PIECE_ROWS..((piece + 1) * PIECE_ROWS).min(rows.rows);
        let mut words: Vec<W> = Vec::new();
        packed.words(range.clone(), |c| rows.column_read(c, range.len()).clone(), &mut words);
        words.iter_mut().zip(range).for_each(|(word, row)| *word = word.then(row_bits, W::of(row as u64)));
        traffic::note_kept(traffic::SORT_KEYS, size_of_val(words.as_slice()) as u64);
        Ok(words)
    })
}

/// The start of a row's key, and the row.
#[derive(Clone, Copy)]
struct Item {
    prefix: u64,
    row: u32,
}

/// The keys of all rows as bytes.
pub(super) struct ByteKeys {
    pieces: Vec<ByteRows>,
    _reservation: numa::Reservation,
}

impl ByteKeys {
    /// Makes them.
    pub(super) fn new(run: &Run<'_>, rows: &Rows, bytes: &ByteLayout) -> Result<ByteKeys, ExecError> {
        let mut reservation = run.reserve(0)?;
        let made = run.map(rows.rows.div_ceil(PIECE_ROWS), &|piece| {
            let range = piece * PIECE_ROWS..((piece + 1) * PIECE_ROWS).min(rows.rows);
            let length = range.len();
            let keys = bytes.rows(range, |c| rows.column_read(c, length).clone(), run)?;
            let charged = run.reserve(keys.size() as u64)?;
            traffic::note_kept(traffic::SORT_KEYS, keys.size() as u64);
            Ok((keys, charged))
        })?;
        let mut pieces = Vec::with_capacity(made.len());
        for (keys, charged) in made {
            pieces.push(keys);
            let more = charged.bytes();
            drop(charged);
            reservation.grow(more)?;
        }
        Ok(ByteKeys { pieces, _reservation: reservation })
    }

    /// The key of a row.
    pub(super) fn of(&self, row: u32) -> &[u8] {
        self.pieces[row as usize / PIECE_ROWS].row(row as usize % PIECE_ROWS).data()
    }
}

impl ItemOrder<Item> for ByteKeys {
    fn compare(&self, a: &Item, b: &Item) -> Ordering {
        let words = a.prefix.cmp(&b.prefix);
        words.then_with(|| self.of(a.row).cmp(self.of(b.row))).then(a.row.cmp(&b.row))
    }

    fn lead(&self, item: &Item) -> u64 {
        item.prefix
    }
}

fn by_bytes(run: &Run<'_>, rows: &Arc<Rows>, bytes: &ByteLayout, fetch: usize) -> Result<Order, ExecError> {
    let keys = ByteKeys::new(run, rows, bytes)?;
    let mut reservation = run.reserve((2 * size_of::<Item>() * rows.rows) as u64)?;
    let pieces = run.map(rows.rows.div_ceil(PIECE_ROWS), &|piece| {
        let range = piece * PIECE_ROWS..((piece + 1) * PIECE_ROWS).min(rows.rows);
        Ok(range.map(|row| Item { prefix: prefix(keys.of(row as u32)), row: row as u32 }).collect::<Vec<_>>())
    })?;
    let rows_of = |items: &[Item]| items.iter().map(|item| item.row).collect();
    let order = in_ranges(run, pieces, (BYTE_PART_ROWS, fetch), &keys, rows_of)?;
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

/// Sorts items, no two of which are equal, range by range, as far as the first `fetch` reach; `part_rows` at a time.
/// What `finish` makes
/// of each range comes out.
pub(super) fn in_ranges<T: Copy + Send + Sync, R: Send>(
    run: &Run<'_>,
    pieces: Vec<Vec<T>>,
    (part_rows, fetch): (usize, usize),
    order: &impl ItemOrder<T>,
    finish: impl Fn(&[T]) -> R + Sync,
) -> Result<Vec<R>, ExecError> {
    let rows: usize = pieces.iter().map(Vec::len).sum();
    let bounds = bounds(run, &pieces, rows.div_ceil(RANGE_ROWS.max(rows / RANGES_MAX)), part_rows, order)?;
    let _starts = run.reserve((size_of::<u32>() * pieces.len() * (bounds.len() + 2)) as u64)?;
    let cut = cut(run, pieces, &bounds, order)?;
    // A range starts behind as many rows as the ranges before it have.
    let mut starts = Vec::with_capacity(bounds.len() + 1);
    let mut start = 0;
    for range in 0..=bounds.len() {
        starts.push(start);
        start += cut.iter().map(|piece| piece.rows_of(range).len()).sum::<usize>();
    }
    run.map(bounds.len() + 1, &|range| {
        if starts[range] >= fetch {
            return Ok(finish(&[]));
        }
        let mut items: Vec<T> = Vec::new();
        cut.iter().for_each(|piece| items.extend_from_slice(piece.rows_of(range)));
        let mut items = in_order(run, items, part_rows, order)?;
        items.truncate(fetch - starts[range]);
        Ok(finish(&items))
    })
}

/// Sorts items in parts of `n`, which are then merged two by two; looks at the statement as often.
fn in_order<T: Copy>(
    run: &Run<'_>,
    mut items: Vec<T>,
    part_rows: usize,
    order: &impl ItemOrder<T>,
) -> Result<Vec<T>, ExecError> {
    for part in items.chunks_mut(part_rows) {
        run.check()?;
        order.sort(part);
    }
    let mut sorted_rows = part_rows;
    while sorted_rows < items.len() {
        let mut merged = Vec::with_capacity(items.len());
        for pair in items.chunks(2 * sorted_rows) {
            let (mut left, mut right) = pair.split_at(sorted_rows.min(pair.len()));
            while let ([l, ..], [r, ..]) = (left, right) {
                if merged.len().is_multiple_of(part_rows) {
                    run.check()?;
                }
                let from = if order.compare(r, l).is_lt() { &mut right } else { &mut left };
                merged.push(from[0]);
                *from = &from[1..];
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        items = merged;
        sorted_rows *= 2;
    }
    Ok(items)
}

/// Items that ranges after the first begin with, ascending.
fn bounds<T: Copy>(
    run: &Run<'_>,
    pieces: &[Vec<T>],
    ranges: usize,
    part_rows: usize,
    order: &impl ItemOrder<T>,
) -> Result<Vec<T>, ExecError> {
    if ranges < 2 {
        return Ok(Vec::new());
    }
    let rows: usize = pieces.iter().map(Vec::len).sum();
    let every = (rows / (ranges * SAMPLES)).max(1);
    let sample: Vec<T> = pieces.iter().flat_map(|piece| piece.iter().step_by(every).copied()).collect();
    let sample = in_order(run, sample, part_rows, order)?;
    Ok((1..ranges).map(|range| sample[range * sample.len() / ranges]).collect())
}

/// Finds the range of an item.
struct RangeFinder<'a, T, O> {
    order: &'a O,
    /// What ranges after the first begin with.
    bounds: &'a [T],
    /// The lead of the first bound, and bits of the leads behind those that tell slots apart.
    first: u64,
    shift: u32,
    /// By slot, how many bounds lie in those before it; and the end.
    slots: Vec<u32>,
}

impl<'a, T, O: ItemOrder<T>> RangeFinder<'a, T, O> {
    /// For at least one bound.
    fn new(bounds: &'a [T], order: &'a O) -> RangeFinder<'a, T, O> {
        let (first, last) = (order.lead(&bounds[0]), order.lead(&bounds[bounds.len() - 1]));
        let most = (bounds.len() * SLOTS_PER_RANGE).ilog2();
        let shift = (u64::BITS - (last - first).leading_zeros()).saturating_sub(most);
        let mut finder = RangeFinder { order, bounds, first, shift, slots: Vec::new() };
        let count = ((last - first) >> shift) as usize + 1;
        let mut slots = vec![0; count + 1];
        bounds.iter().for_each(|bound| slots[finder.slot(order.lead(bound), count) + 1] += 1);
        (1..slots.len()).for_each(|slot| slots[slot] += slots[slot - 1]);
        finder.slots = slots;
        finder
    }

    #[inline]
    fn slot(&self, lead: u64, count: usize) -> usize {
        ((lead.saturating_sub(self.first) >> self.shift) as usize).min(count - 1)
    }

    /// How many bounds an item is not below.
    #[inline]
    fn find(&self, item: &T) -> u32 {
        let slot = self.slot(self.order.lead(item), self.slots.len() - 1);
        let (from, to) = (self.slots[slot], self.slots[slot + 1]);
        let among = &self.bounds[from as usize..to as usize];
        from + among.partition_point(|bound| self.order.compare(bound, item).is_le()) as u32
    }
}

/// A piece in the order of ranges.
struct Cut<T> {
    items: Vec<T>,
    /// Where each range begins, and the end.
    starts: Vec<u32>,
}

impl<T> Cut<T> {
    fn rows_of(&self, range: usize) -> &[T] {
        &self.items[self.starts[range] as usize..self.starts[range + 1] as usize]
    }
}

fn cut<T: Copy + Send + Sync>(
    run: &Run<'_>,
    pieces: Vec<Vec<T>>,
    bounds: &[T],
    order: &impl ItemOrder<T>,
) -> Result<Vec<Cut<T>>, ExecError> {
    let finder = (!bounds.is_empty()).then(|| RangeFinder::new(bounds, order));
    let pieces: Vec<Mutex<Vec<T>>> = pieces.into_iter().map(Mutex::new).collect();
    run.map(pieces.len(), &|piece| {
        let items = std::mem::take(&mut *pieces[piece].lock());
        let Some(finder) = &finder else {
            let starts = vec![0, items.len() as u32];
            return Ok(Cut { items, starts });
        };
        let mut of: Vec<u32> = Vec::with_capacity(items.len());
        for some in items.chunks(CHECK_ROWS) {
            run.check()?;
            of.extend(some.iter().map(|item| finder.find(item)));
        }
        let mut starts = vec![0u32; bounds.len() + 2];
        of.iter().for_each(|&range| starts[range as usize + 1] += 1);
        (1..starts.len()).for_each(|i| starts[i] += starts[i - 1]);
        let mut next = starts.clone();
        let mut ordered = items.clone();
        for (item, range) in items.iter().zip(of) {
            ordered[next[range as usize] as usize] = *item;
            next[range as usize] += 1;
        }
        Ok(Cut { items: ordered, starts })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering as Order};

    use numa::Budget;
    use sched::Statement;
    use storage::Serial;

    use super::*;
    use crate::tasks::places::{Lookup, Places};

    fn with_run<T>(statement: &Arc<Statement>, body: impl FnOnce(&Run<'_>) -> T) -> T {
        let options = crate::ScanOptions::default();
        let places = Places { lookup: Lookup::Nowhere, options, turn: None, morsels_min: usize::MAX, attached: None };
        body(&Run { statement, parallel: &Serial, threads: 1, places, traffic: &Arc::default() })
    }

    /// Numbers by a comparison, with as much of them as a lead as is said.
    struct Numbers<C>(C, u32);

    impl<C: Fn(&u64, &u64) -> Ordering + Sync> ItemOrder<u64> for Numbers<C> {
        fn compare(&self, a: &u64, b: &u64) -> Ordering {
            self.0(a, b)
        }

        fn lead(&self, item: &u64) -> u64 {
            item.checked_shr(self.1).unwrap_or(0)
        }
    }

    fn items(count: u64) -> Vec<u64> {
        (0..count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7).collect()
    }

    #[test]
    fn parts_that_are_merged_are_sorted() {
        with_run(&Statement::new(1, Budget::unlimited()), |run| {
            for count in [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1000] {
                for part_rows in [1, 2, 3, 8, 64, 5000, usize::MAX] {
                    let mut expected = items(count);
                    expected.sort_unstable();
                    assert_eq!(
                        in_order(run, items(count), part_rows, &Numbers(u64::cmp, 0)).unwrap(),
                        expected,
                        "{count} {part_rows}"
                    );
                }
            }
        });
    }

    #[test]
    fn a_statement_that_is_stopped_compares_little_more() {
        const PART: usize = 64;
        let whole = AtomicUsize::new(0);
        let free = Statement::new(1, Budget::unlimited());
        let count = |a: &u64, b: &u64| {
            whole.fetch_add(1, Order::Relaxed);
            a.cmp(b)
        };
        with_run(&free, |run| in_order(run, items(4096), PART, &Numbers(count, 0))).unwrap();
        let whole = whole.into_inner();
        for tenth in 0..10 {
            let stopped_at = whole * tenth / 10;
            let (statement, compared) = (Statement::new(1, Budget::unlimited()), AtomicUsize::new(0));
            let stops = |a: &u64, b: &u64| {
                if compared.fetch_add(1, Order::Relaxed) == stopped_at {
                    statement.cancel();
                }
                a.cmp(b)
            };
            let error = with_run(&statement, |run| in_order(run, items(4096), PART, &Numbers(stops, 0))).unwrap_err();
            assert!(matches!(error, ExecError::Cancelled), "{error}");
            // As many as sorting one part takes.
            let after = compared.load(Order::Relaxed) - stopped_at;
            assert!(after <= 2 * PART * 6, "{after} after {stopped_at} of {whole}");
        }
    }

    #[test]
    fn ranges_are_found_as_by_search() {
        type Spread = fn(u64) -> u64;
        let cases: [(&str, Spread); 4] = [
            ("even", |i| i << 40),
            ("near the ends", |i| if i % 2 == 0 { i } else { u64::MAX - i }),
            ("one far away", |i| if i == 0 { u64::MAX } else { i }),
            ("alike", |i| 7 + i / 50),
        ];
        for (name, value) in cases {
            for shift in [0, 3, 40, 64] {
                let order = Numbers(u64::cmp, shift);
                for count in [1, 2, 3, 90] {
                    let mut bounds: Vec<u64> = (0..count).map(value).collect();
                    bounds.sort_unstable();
                    let finder = RangeFinder::new(&bounds, &order);
                    let near = bounds.iter().flat_map(|b| [b.wrapping_sub(1), *b, b.wrapping_add(1)]);
                    for item in near.chain([0, 1, u64::MAX / 2, u64::MAX]) {
                        let expected = bounds.partition_point(|bound| *bound <= item) as u32;
                        assert_eq!(finder.find(&item), expected, "{name} {shift} {count}: {item}");
                    }
                }
            }
        }
    }

    #[test]
    fn wide_words_are_sorted_near_and_far_from_each_other() {
        for high in [0u128, 5 << 64, u128::MAX << 63] {
            let near: Vec<u128> = items(3000).into_iter().map(|i| high.saturating_add(u128::from(i))).collect();
            let far: Vec<u128> = near.iter().zip(0..).map(|(word, i)| if i % 2 == 0 { *word } else { i }).collect();
            for mut words in [near, far, Vec::new(), vec![high]] {
                let mut expected = words.clone();
                expected.sort_unstable();
                Word::sort(&mut words);
                assert_eq!(words, expected);
            }
        }
    }

    #[test]
    fn where_ranges_begin_is_charged() {
        let budget = Budget::unlimited();
        with_run(&Statement::new(1, budget.clone()), |run| {
            let pieces: Vec<Vec<u64>> = items(500_000).chunks(PIECE_ROWS).map(<[u64]>::to_vec).collect();
            let (count, ranges) = (pieces.len(), 500_000usize.div_ceil(RANGE_ROWS));
            let rows_of = |items: &[u64]| items.iter().map(|&item| item as u32).collect::<Vec<_>>();
            let order = in_ranges(run, pieces, (BYTE_PART_ROWS, usize::MAX), &Numbers(u64::cmp, 0), rows_of).unwrap();
            let mut expected = items(500_000);
            expected.sort_unstable();
            assert!(order.concat().into_iter().eq(expected.into_iter().map(|item| item as u32)));
            assert_eq!(budget.peak_bytes(), (4 * count * (ranges + 1)) as u64);
        });
        assert_eq!(budget.used_bytes(), 0);
    }
}
