//! The end of an aggregation: groups of all workers, merged in pieces that do not share a key.
//!
//! Where a worker has an array by key, pieces are ranges of keys; else they are taken by hash, unless there is one
//! worker, or the keys of every worker ascend: then pieces are ranges between some of the keys, and lists are merged.
//! Each piece is merged and finished by one task and becomes rows of its own.

use std::ops::Range;
use std::sync::Arc;

use numa::Reservation;
use parking_lot::Mutex;

use super::calls::{Calls, States};
use super::column::{Column, settle};
use super::groups::Pick;
use super::state::State;
use super::table::Table;
use super::{Grouping, Strategy, Worker, too_many};
use crate::ExecError;
use crate::chunk::Rows;
use crate::chunk::vector::Vector;
use crate::keys::group::GroupKey;
use crate::pipe::kept::RowsSource;
use crate::pipe::{Lane, Pipe};
use crate::tasks::run::Run;

/// Groups of a piece, about.
const PIECE_GROUPS: usize = 1 << 14;
/// Most pieces.
const PIECES_MAX: usize = 256;
/// Pieces per thread where groups differ in what they cost.
const PIECES_PER_THREAD: usize = 8;
/// Partitions by hash: one for each value of its top byte.
const PARTITIONS: usize = 256;

/// Groups that take no more rows, one partition after the other.
pub(super) struct GroupPart<K> {
    /// The keys by group.
    keys: Vec<K>,
    /// The states, sealed.
    pub(super) states: States,
    /// Partition `p` has the groups `starts[p]..starts[p + 1]`.
    starts: Vec<usize>,
}

/// Makes a part of a table's keys and states.
type MakePart<'a, K> = dyn Fn(&[K], States) -> Result<GroupPart<K>, ExecError> + Sync + 'a;

/// A piece of the result.
pub(super) struct ResultPiece {
    pub(super) rows: usize,
    pub(super) columns: Vec<Column>,
}

/// What becomes of the groups of a piece, by their keys.
type End<'a, K, T> = dyn Fn(&[K], States) -> Result<T, ExecError> + Sync + 'a;

/// A pipe of the workers' groups.
pub(super) fn pipe_of<K: GroupKey>(sink: &Grouping<'_, K>, workers: Vec<Worker<K>>) -> Result<Pipe, ExecError> {
    let finished = |keys: &[K], states: States| finished(sink, keys, states);
    let pieces = pieces(sink, workers, &finished)?;
    joined(&sink.run, pieces, || finished(&[], sink.calls.states(0, 0)?))
}

/// The workers' groups, in pieces that share no key.
pub(super) fn pieces<K: GroupKey, T: Send>(
    sink: &Grouping<'_, K>,
    workers: Vec<Worker<K>>,
    end: &End<'_, K, T>,
) -> Result<Vec<T>, ExecError> {
    let workers = sealed(sink, workers)?;
    // Lists are there twice while they are merged.
    let twice =
        if sink.calls.has_lists() { workers.iter().map(|w| w.states.bytes() + w.flushed_bytes).sum() } else { 0 };
    let _held = sink.run.reserve(twice)?;
    let rows: u64 = workers.iter().map(Worker::rows).sum();
    match (sink.strategy, workers.iter().find(|w| w.direct).map(|w| w.states.groups)) {
        (Strategy::One, _) => Ok(vec![one_group(sink, &workers, rows, end)?]),
        (_, Some(domain)) => by_range(sink, workers, domain, rows, end),
        (_, None) if workers.len() == 1 && workers[0].flushed.is_empty() => of_one(sink, &workers[0], rows, end),
        (_, None) if workers.iter().all(|w| w.table.is_ordered() && w.flushed.is_empty()) => {
            by_order(sink, &workers, rows, end)
        }
        (_, None) => by_hash(sink, workers, rows, end),
    }
}

/// The workers with sealed states.
fn sealed<K: GroupKey>(sink: &Grouping<'_, K>, workers: Vec<Worker<K>>) -> Result<Vec<Worker<K>>, ExecError> {
    let workers: Vec<_> = workers.into_iter().map(|worker| Mutex::new(Some(worker))).collect();
    sink.run.map(workers.len(), &|number| {
        let mut worker = workers[number].lock().take().expect("a worker is sealed once");
        sink.calls.seal(&mut worker.states)?;
        Ok(worker)
    })
}

fn one_group<K: GroupKey, T>(
    sink: &Grouping<'_, K>,
    workers: &[Worker<K>],
    rows: u64,
    end: &End<'_, K, T>,
) -> Result<T, ExecError> {
    let mut states = sink.calls.states(1, rows)?;
    for worker in workers {
        sink.calls.merge(&mut states, &worker.states, &Pick::Range(0..1), None)?;
    }
    end(&[K::default()], states)
}

/// Pieces of the groups of one table.
fn of_one<K: GroupKey, T: Send>(
    sink: &Grouping<'_, K>,
    worker: &Worker<K>,
    rows: u64,
    end: &End<'_, K, T>,
) -> Result<Vec<T>, ExecError> {
    let groups = worker.table.len();
    let size = piece_size(sink, groups);
    sink.run.map(groups.div_ceil(size), &|piece| {
        let range = piece * size..((piece + 1) * size).min(groups);
        let mut states = sink.calls.states(range.len(), rows)?;
        sink.calls.merge(&mut states, &worker.states, &Pick::Range(range.clone()), None)?;
        end(&worker.table.keys()[range], states)
    })
}

/// Groups of a piece, where there are so many in all.
fn piece_size<K: GroupKey>(sink: &Grouping<'_, K>, groups: usize) -> usize {
    match sink.calls.has_distinct() {
        true => groups.max(1),
        // A group may have any number of values: the fewer groups, the more they are likely to have.
        false if sink.calls.has_lists() => groups.div_ceil(PIECES_PER_THREAD * sink.run.threads).clamp(1, PIECE_GROUPS),
        false => groups.div_ceil(PIECES_MAX).max(PIECE_GROUPS),
    }
}

fn finished<K: GroupKey>(sink: &Grouping<'_, K>, keys: &[K], mut states: States) -> Result<ResultPiece, ExecError> {
    let decoded = sink.coder.decode(keys)?.into_iter();
    let mut columns: Vec<Column> = decoded.map(|(info, vector)| Column::of_vector(info, vector)).collect();
    columns.extend(sink.calls.finish(&mut states, &sink.run)?);
    Ok(ResultPiece { rows: keys.len(), columns })
}

impl<K: GroupKey> GroupPart<K> {
    /// Groups, sorted by partitions; the states need not be sealed. Done while they are in the cache: from then on,
    /// every partition is read from its start to its end.
    pub(super) fn new(
        calls: &Calls,
        keys: &[K],
        mut states: States,
        partitions: usize,
        partition_of: impl Fn(K) -> usize,
    ) -> Result<GroupPart<K>, ExecError> {
        let mut starts = vec![0; partitions + 1];
        let of: Vec<u32> = keys.iter().map(|&k| partition_of(k) as u32).collect();
        of.iter().for_each(|&p| starts[p as usize + 1] += 1);
        (0..partitions).for_each(|p| starts[p + 1] += starts[p]);
        let mut next = starts.clone();
        let mut order = vec![0; of.len()];
        for (group, &partition) in of.iter().enumerate() {
            order[next[partition as usize]] = group as u32;
            next[partition as usize] += 1;
        }
        let mut sorted = calls.states(keys.len(), states.rows())?;
        calls.take_over(&mut sorted, &mut states, &Pick::List(&order), None)?;
        calls.seal(&mut sorted)?;
        let keys = order.iter().map(|&group| keys[group as usize]).collect();
        Ok(GroupPart { keys, states: sorted, starts })
    }

    /// Groups by hash.
    pub(super) fn by_hash(calls: &Calls, keys: &[K], states: States) -> Result<GroupPart<K>, ExecError> {
        // Slots of tables go by the low bits.
        GroupPart::new(calls, keys, states, PARTITIONS, |key: K| (key.hash() >> 56) as usize)
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.states.bytes() + (self.keys.capacity() * size_of::<K>()) as u64
    }

    /// The groups of consecutive partitions.
    fn groups_of(&self, partitions: Range<usize>) -> Range<usize> {
        self.starts[partitions.start]..self.starts[partitions.end]
    }
}

/// The groups of workers whose group numbers are no keys, in parts that `sorted` makes of a table, with what they are
/// charged to.
fn parts_of<K: GroupKey>(
    sink: &Grouping<'_, K>,
    workers: Vec<Worker<K>>,
    sorted: &MakePart<'_, K>,
) -> Result<(Vec<GroupPart<K>>, Vec<Reservation>), ExecError> {
    let (mut parts, mut held, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for worker in workers {
        // Both copies are there for a moment.
        held.push(sink.run.reserve(worker.states.bytes())?);
        held.push(worker.reservation);
        parts.extend(worker.flushed);
        tables.push(Mutex::new(Some((worker.table, worker.states))));
    }
    let rest = sink.run.map(tables.len(), &|number| {
        let (table, states) = tables[number].lock().take().expect("a table is sorted once");
        sorted(table.keys(), states)
    })?;
    parts.extend(rest);
    Ok((parts, held))
}

/// Pieces of tables whose keys ascend.
fn by_order<K: GroupKey, T: Send>(
    sink: &Grouping<'_, K>,
    workers: &[Worker<K>],
    rows: u64,
    end: &End<'_, K, T>,
) -> Result<Vec<T>, ExecError> {
    let groups: usize = workers.iter().map(|w| w.table.len()).sum();
    let pieces = groups.div_ceil(piece_size(sink, groups));
    let Some(longest) = workers.iter().map(|w| w.table.keys()).max_by_key(|keys| keys.len()) else {
        return Ok(Vec::new());
    };
    let cuts: Vec<K> = (1..pieces).map(|piece| longest[piece * longest.len() / pieces]).collect();
    sink.run.map(pieces, &|piece| {
        let ranges: Vec<Range<usize>> = workers
            .iter()
            .map(|w| {
                let below = |cut: Option<&K>| cut.map(|cut| w.table.keys().partition_point(|key| key < cut));
                let start = piece.checked_sub(1).and_then(|p| below(cuts.get(p))).unwrap_or(0);
                start..below(cuts.get(piece)).unwrap_or(w.table.len())
            })
            .collect();
        let parts = ranges.iter().zip(workers).map(|(range, w)| &w.table.keys()[range.clone()]);
        let keys = parts.clone().fold(Vec::new(), |all, part| united(all, part));
        let mut states = sink.calls.states(keys.len(), rows)?;
        for ((range, worker), part) in ranges.iter().zip(workers).zip(parts) {
            let targets = (part.len() < keys.len()).then(|| places(part, &keys));
            sink.calls.merge(&mut states, &worker.states, &Pick::Range(range.clone()), targets.as_deref())?;
        }
        end(&keys, states)
    })
}

/// Two ascending lists as one, each key once.
fn united<K: GroupKey>(left: Vec<K>, right: &[K]) -> Vec<K> {
    if left.is_empty() {
        return right.to_vec();
    }
    if right.is_empty() {
        return left;
    }
    let mut all = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        let key = left[l].min(right[r]);
        all.push(key);
        l += usize::from(left[l] == key);
        r += usize::from(right[r] == key);
    }
    all.extend_from_slice(&left[l..]);
    all.extend_from_slice(&right[r..]);
    all
}

/// Where each key of an ascending list is in another one that has them all.
fn places<K: GroupKey>(keys: &[K], among: &[K]) -> Vec<u32> {
    let mut place = 0;
    keys.iter()
        .map(|key| {
            while among[place] != *key {
                place += 1;
            }
            place as u32
        })
        .collect()
}

fn by_hash<K: GroupKey, T: Send>(
    sink: &Grouping<'_, K>,
    workers: Vec<Worker<K>>,
    rows: u64,
    end: &End<'_, K, T>,
) -> Result<Vec<T>, ExecError> {
    let (parts, _held) = parts_of(sink, workers, &|keys, states| GroupPart::by_hash(&sink.calls, keys, states))?;
    let groups: usize = parts.iter().map(|p| p.keys.len()).sum();
    let pieces = match sink.calls.has_distinct() {
        true => 1,
        false => groups.div_ceil(piece_size(sink, groups)).next_power_of_two().clamp(1, PARTITIONS),
    };
    let width = PARTITIONS / pieces;
    sink.run.map(pieces, &|piece| {
        let ranges: Vec<Range<usize>> = parts.iter().map(|p| p.groups_of(piece * width..(piece + 1) * width)).collect();
        let mut table = Table::<K>::with_groups(ranges.iter().map(Range::len).max().unwrap_or(0));
        too_many(ranges.iter().map(Range::len).sum())?;
        let mut targets = vec![Vec::new(); parts.len()];
        for ((part, range), targets) in parts.iter().zip(&ranges).zip(&mut targets) {
            table.groups(&part.keys[range.clone()], targets);
        }
        let mut states = sink.calls.states(table.len(), rows)?;
        for ((part, range), targets) in parts.iter().zip(ranges).zip(&targets) {
            sink.calls.merge(&mut states, &part.states, &Pick::Range(range), Some(targets))?;
        }
        end(table.keys(), states)
    })
}

fn by_range<K: GroupKey, T: Send>(
    sink: &Grouping<'_, K>,
    workers: Vec<Worker<K>>,
    domain: usize,
    rows: u64,
    end: &End<'_, K, T>,
) -> Result<Vec<T>, ExecError> {
    let size = piece_size(sink, domain);
    let pieces = domain.div_ceil(size);
    let (direct, tables): (Vec<_>, Vec<_>) = workers.into_iter().partition(|w| w.direct);
    let (parts, _held) = parts_of(sink, tables, &|keys, states| {
        GroupPart::new(&sink.calls, keys, states, pieces, |key: K| key.low() as usize / size)
    })?;
    let counts = sink.calls.row_count();
    sink.run.map(pieces, &|piece| {
        let range = piece * size..((piece + 1) * size).min(domain);
        let mut present = vec![false; range.len()];
        let mut states = sink.calls.states(range.len(), rows)?;
        for worker in &direct {
            mark(worker, counts, range.clone(), &mut present);
            sink.calls.merge(&mut states, &worker.states, &Pick::Range(range.clone()), None)?;
        }
        for part in &parts {
            let groups = part.groups_of(piece..piece + 1);
            let target = |key: &K| (key.low() as usize - range.start) as u32;
            let targets: Vec<u32> = part.keys[groups.clone()].iter().map(target).collect();
            targets.iter().for_each(|&t| present[t as usize] = true);
            sink.calls.merge(&mut states, &part.states, &Pick::Range(groups), Some(&targets))?;
        }
        let live: Vec<u32> = (0..range.len() as u32).filter(|&g| present[g as usize]).collect();
        let keys: Vec<K> = live.iter().map(|&g| key_of(range.start + g as usize)).collect();
        if live.len() < range.len() {
            let mut packed = sink.calls.states(live.len(), rows)?;
            sink.calls.take_over(&mut packed, &mut states, &Pick::List(&live), None)?;
            states = packed;
        }
        end(&keys, states)
    })
}

fn key_of<K: GroupKey>(number: usize) -> K {
    let mut key = K::default();
    key.add(0, number as u64);
    key
}

/// Which entries of an array have rows.
fn mark<K>(worker: &Worker<K>, counts: Option<usize>, range: Range<usize>, present: &mut [bool]) {
    match counts.map(|c| &worker.states.states[c]) {
        Some(State::Count(counts)) => {
            present.iter_mut().zip(&counts[range]).for_each(|(p, &count)| *p |= count > 0);
        }
        _ => present.iter_mut().zip(&worker.seen[range]).for_each(|(p, &seen)| *p |= seen),
    }
}

/// The pieces as lanes of a pipe.
pub(super) fn joined(
    run: &Run<'_>,
    pieces: Vec<ResultPiece>,
    none: impl FnOnce() -> Result<ResultPiece, ExecError>,
) -> Result<Pipe, ExecError> {
    let mut pieces: Vec<ResultPiece> = pieces.into_iter().filter(|p| p.rows > 0).collect();
    if pieces.is_empty() {
        pieces.push(none()?);
    }
    let counts: Vec<usize> = pieces.iter().map(|p| p.rows).collect();
    let width = pieces[0].columns.len();
    let mut columns: Vec<Vec<Column>> = (0..width).map(|_| Vec::with_capacity(counts.len())).collect();
    for piece in pieces {
        columns.iter_mut().zip(piece.columns).for_each(|(all, column)| all.push(column));
    }
    let (mut infos, mut parts) = (Vec::with_capacity(width), vec![Vec::with_capacity(width); counts.len()]);
    for column in columns {
        let (info, vectors) = settle(column);
        infos.push(info);
        parts.iter_mut().zip(vectors).for_each(|(part, vector)| part.push(Arc::new(vector)));
    }
    let bytes = parts.iter().flatten().map(|v: &Arc<Vector>| v.bytes()).sum();
    let mut reservation = Some(run.reserve(bytes)?);
    let mut lanes = Vec::with_capacity(counts.len());
    for (rows, columns) in counts.iter().zip(parts) {
        let reservations = reservation.take().into_iter().collect();
        let rows = Rows { infos: infos.clone(), columns, rows: *rows, _charged: reservations, lies: None };
        lanes.push(Lane { source: Box::new(RowsSource(Arc::new(rows))), operators: Vec::new() });
    }
    let rows = counts.iter().sum::<usize>() as u64;
    Ok(Pipe { lanes, infos, rows })
}
