//! All rows in an order, with where its keys change: what windows are evaluated over.

use std::sync::Arc;

use numa::Reservation;
use parking_lot::Mutex;

use super::full::{self, ByteKeys, WordOrder, in_ranges, word_pieces};
use crate::ExecError;
use crate::chunk::Rows;
use crate::keys::order::{ByteLayout, OrderLayout, Word, WordLayout};
use crate::plan::SortKey;
use crate::tasks::run::Run;

/// Positions that are compared without a look at the statement.
const CHECK_ROWS: usize = 65_536;

/// Rows in an order.
pub(crate) struct GroupedOrder {
    /// Row numbers.
    pub(crate) order: Vec<u32>,
    /// For each number of leading keys that was asked for: the positions where a group of rows begins that are equal in
    /// those,
    /// and the number of rows behind the last.
    pub(crate) starts: Vec<Vec<u32>>,
    /// What both are charged to.
    _reservation: Reservation,
}

/// Sorts all rows by keys; equal ones stay in their order. `prefixes` are numbers of leading keys.
pub(crate) fn grouped(
    run: &Run<'_>,
    rows: &Arc<Rows>,
    keys: &[SortKey],
    prefixes: &[usize],
) -> Result<GroupedOrder, ExecError> {
    let count = rows.rows;
    let mut reservation = run.reserve((size_of::<u32>() * count) as u64)?;
    let layout = OrderLayout::new(keys, &rows.infos)?;
    let row_bits = usize::BITS - count.leading_zeros();
    let (order, starts) = match &layout {
        _ if keys.is_empty() => ((0..count as u32).collect(), vec![ends(vec![0], count); prefixes.len()]),
        OrderLayout::Words(packed, _) if packed.bits + row_bits <= u64::BITS => {
            by_words::<u64>(run, rows, packed, row_bits, &bits_behind(packed, keys, prefixes))?
        }
        OrderLayout::Words(packed, _) if packed.bits + row_bits <= u128::BITS => {
            by_words::<u128>(run, rows, packed, row_bits, &bits_behind(packed, keys, prefixes))?
        }
        layout => {
            let sorted = full::sorted(run, rows.clone(), layout, usize::MAX)?;
            let order = sorted.order.concat();
            drop(sorted);
            let starts = prefixes.iter().map(|&prefix| by_bytes(run, rows, &keys[..prefix], &order));
            let starts = starts.collect::<Result<_, _>>()?;
            (order, starts)
        }
    };
    reservation.grow(starts.iter().map(|s| (size_of::<u32>() * s.len()) as u64).sum())?;
    Ok(GroupedOrder { order, starts, _reservation: reservation })
}

/// Starts and the end, of which there is none where no row is.
fn ends(mut starts: Vec<u32>, rows: usize) -> Vec<u32> {
    if rows == 0 {
        starts.clear();
    }
    starts.push(rows as u32);
    starts
}

/// Bits of a word behind the first keys, for each number of those.
fn bits_behind(packed: &WordLayout, keys: &[SortKey], prefixes: &[usize]) -> Vec<u32> {
    prefixes.iter().map(|&prefix| packed.bits_behind(keys, prefix)).collect()
}

/// A range of sorted words.
struct Range<W> {
    rows: Vec<u32>,
    ends: Option<(W, W)>,
    /// Where groups begin behind the first row.
    starts: Vec<Vec<u32>>,
}

type Order = (Vec<u32>, Vec<Vec<u32>>);

fn by_words<W: Word>(
    run: &Run<'_>,
    rows: &Arc<Rows>,
    packed: &WordLayout,
    row_bits: u32,
    behind: &[u32],
) -> Result<Order, ExecError> {
    let _words = run.reserve((2 * size_of::<W>() * rows.rows) as u64)?;
    let pieces = word_pieces::<W>(run, rows, packed, row_bits)?;
    let mask = (1u64 << row_bits) - 1;
    let groups = |word: W, bits: u32| word.without(row_bits + bits);
    let by_word = WordOrder::of(packed, row_bits);
    let ranges = in_ranges(run, pieces, (usize::MAX, usize::MAX), &by_word, |words: &[W]| {
        let changes = |bits: u32| -> Vec<u32> {
            let change = |i: &usize| groups(words[i - 1], bits) != groups(words[*i], bits);
            (1..words.len()).filter(change).map(|i| i as u32).collect()
        };
        Range {
            rows: words.iter().map(|word| (word.low() & mask) as u32).collect(),
            ends: words.first().copied().zip(words.last().copied()),
            starts: behind.iter().map(|&bits| changes(bits)).collect(),
        }
    })?;
    // Does a group begin with a range, too? Not where the last row before it is of the same one.
    let mut last = None;
    let mut begins = Vec::with_capacity(ranges.len());
    for range in &ranges {
        let first = range.ends.map(|(first, _)| first);
        let new = |bits: &u32| first.is_some_and(|f| last.is_none_or(|l| groups(l, *bits) != groups(f, *bits)));
        begins.push(behind.iter().map(new).collect::<Vec<bool>>());
        last = range.ends.map(|(_, end)| end).or(last);
    }
    let mut rows_before = 0;
    let before: Vec<u32> = ranges
        .iter()
        .map(|range| {
            let own = rows_before;
            rows_before += range.rows.len() as u32;
            own
        })
        .collect();
    let lengths = ranges.iter().map(|range| range.rows.len()).collect();
    let order = joined(run, lengths, &|range, to: &mut [u32]| to.copy_from_slice(&ranges[range].rows))?;
    let mut starts = Vec::with_capacity(behind.len());
    for number in 0..behind.len() {
        let lengths =
            ranges.iter().zip(&begins).map(|(r, begins)| r.starts[number].len() + usize::from(begins[number]));
        let all = joined(run, lengths.collect(), &|range, to: &mut [u32]| {
            let begins = usize::from(begins[range][number]);
            to[..begins].fill(before[range]);
            to[begins..].iter_mut().zip(&ranges[range].starts[number]).for_each(|(to, s)| *to = before[range] + s);
        })?;
        starts.push(ends(all, rows.rows));
    }
    Ok((order, starts))
}

/// Parts of such lengths, one after the other, each filled by a task of its own.
fn joined(
    run: &Run<'_>,
    lengths: Vec<usize>,
    fill: &(dyn Fn(usize, &mut [u32]) + Sync),
) -> Result<Vec<u32>, ExecError> {
    let mut all = vec![0; lengths.iter().sum()];
    let mut rest = all.as_mut_slice();
    let mut parts = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (part, behind) = rest.split_at_mut(length);
        parts.push(Mutex::new(part));
        rest = behind;
    }
    run.for_each(parts.len(), &|_| None, &|part| {
        fill(part, &mut parts[part].lock());
        Ok(())
    })?;
    Ok(all)
}

/// Where groups of rows begin that are equal in all keys.
fn by_bytes(run: &Run<'_>, rows: &Arc<Rows>, keys: &[SortKey], order: &[u32]) -> Result<Vec<u32>, ExecError> {
    if keys.is_empty() {
        return Ok(ends(vec![0], order.len()));
    }
    let bytes = ByteKeys::new(run, rows, &ByteLayout::new(keys, &rows.infos))?;
    let found: Vec<Mutex<Vec<u32>>> = order.chunks(CHECK_ROWS).map(|_| Mutex::default()).collect();
    run.for_each(found.len(), &|_| None, &|piece| {
        let range = piece * CHECK_ROWS..((piece + 1) * CHECK_ROWS).min(order.len());
        let change = |i: &usize| *i == 0 || bytes.of(order[i - 1]) != bytes.of(order[*i]);
        *found[piece].lock() = range.filter(change).map(|i| i as u32).collect();
        Ok(())
    })?;
    let starts: Vec<Vec<u32>> = found.into_iter().map(Mutex::into_inner).collect();
    Ok(ends(starts.concat(), order.len()))
}
