//! The end of an aggregation: groups of all workers, merged in pieces that do not share a key.
//!
//! Where a worker has an array by key, pieces are ranges of keys; else they are taken by hash, unless there is one
//! worker, or the keys of every worker ascend: then pieces are ranges between some of the keys, and lists are merged.
//! Each piece is merged and finished by one task and becomes rows of its own; where, and what is merged before, is said
//! in [`near`].

mod near;

use std::sync::Arc;

use numa::{NodeId, Reservation};
use parking_lot::Mutex;

use super::calls::{Calls, States};
use super::column::{Column, settle};
use super::groups::Pick;
use super::{Grouping, Strategy, Worker};
use crate::ExecError;
use crate::chunk::Rows;
use crate::chunk::vector::Vector;
use crate::keys::group::GroupKey;
use crate::pipe::kept::RowsSource;
use crate::pipe::{Lane, Pipe};
use crate::tasks::places::current_node;
use crate::tasks::run::Run;
use near::{Input, Joining, merged};

/// Groups of a piece, about.
const PIECE_GROUPS: usize = 1 << 14;
/// Most pieces.
const PIECES_MAX: usize = 256;
/// Pieces per thread where groups differ in what they cost.
const PIECES_PER_THREAD: usize = 8;
/// Keys that are drawn per piece to cut ascending ones into pieces of about the same length.
const SAMPLES_PER_PIECE: usize = 8;
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
    /// Where it was made.
    node: Option<NodeId>,
}

/// Makes a part of a table's keys and states.
type MakePart<'a, K> = dyn Fn(&[K], States) -> Result<GroupPart<K>, ExecError> + Sync + 'a;

/// A piece of the result.
pub(super) struct ResultPiece {
    pub(super) rows: usize,
    pub(super) columns: Vec<Column>,
    /// Where it was made.
    pub(super) node: Option<NodeId>,
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
        (Strategy::One, _) => {
            let inputs: Vec<Input<'_, K>> = workers.iter().map(|worker| of_worker(worker, vec![0, 1])).collect();
            merged(sink, &inputs, Joining::One, rows, end)
        }
        (_, Some(domain)) => by_range(sink, workers, domain, rows, end),
        (_, None) if workers.len() == 1 && workers[0].flushed.is_empty() => of_one(sink, &workers[0], rows, end),
        (_, None) if workers.iter().all(|w| w.table.is_ordered() && w.flushed.is_empty()) => {
            by_order(sink, &workers, rows, end)
        }
        (_, None) => by_hash(sink, workers, rows, end),
    }
}

/// What a worker has, cut into pieces.
fn of_worker<K: GroupKey>(worker: &Worker<K>, starts: Vec<usize>) -> Input<'_, K> {
    let seen = worker.direct.then_some(&worker.seen[..]);
    Input { keys: worker.table.keys(), seen, states: &worker.states, starts, node: worker.look_ups.node() }
}

/// The workers with sealed states.
fn sealed<K: GroupKey>(sink: &Grouping<'_, K>, workers: Vec<Worker<K>>) -> Result<Vec<Worker<K>>, ExecError> {
    let nodes = nodes_of(sink, &workers);
    let workers: Vec<_> = workers.into_iter().map(|worker| Mutex::new(Some(worker))).collect();
    sink.run.map_near(workers.len(), &|number| nodes[number], &|_| (0, 0), &|number| {
        let mut worker = workers[number].lock().take().expect("a worker is sealed once");
        sink.calls.seal(&mut worker.states)?;
        Ok(worker)
    })
}

/// Where tasks over the workers run, one for each.
fn nodes_of<K>(sink: &Grouping<'_, K>, workers: &[Worker<K>]) -> Vec<Option<NodeId>> {
    let have_nodes = sink.run.places.have_nodes();
    workers.iter().map(|worker| worker.look_ups.node().filter(|_| have_nodes)).collect()
}

/// Pieces of the groups of one table.
fn of_one<K: GroupKey, T: Send>(
    sink: &Grouping<'_, K>,
    worker: &Worker<K>,
    rows: u64,
    end: &End<'_, K, T>,
) -> Result<Vec<T>, ExecError> {
    let groups = worker.table.len();
    let starts = (0..groups).step_by(piece_size(sink, groups)).chain([groups]).collect();
    merged(sink, &[of_worker(worker, starts)], Joining::Ordered, rows, end)
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
    Ok(ResultPiece { rows: keys.len(), columns, node: current_node() })
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
        Ok(GroupPart { keys, states: sorted, starts, node: current_node() })
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

    /// Pieces of `n` partitions each.
    fn input(&self, partitions: usize) -> Input<'_, K> {
        let starts = self.starts.iter().step_by(partitions).copied().collect();
        Input { keys: &self.keys, seen: None, states: &self.states, starts, node: self.node }
    }
}

/// The groups of workers whose group numbers are no keys, in parts that `sorted` makes of a table, with what they are
/// charged to.
fn parts_of<K: GroupKey>(
    sink: &Grouping<'_, K>,
    workers: Vec<Worker<K>>,
    sorted: &MakePart<'_, K>,
) -> Result<(Vec<GroupPart<K>>, Vec<Reservation>), ExecError> {
    let nodes = nodes_of(sink, &workers);
    let (mut parts, mut held, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for worker in workers {
        // Both copies are there for a moment.
        held.push(sink.run.reserve(worker.states.bytes())?);
        held.push(worker.reservation);
        parts.extend(worker.flushed);
        tables.push(Mutex::new(Some((worker.table, worker.states))));
    }
    let rest = sink.run.map_near(tables.len(), &|number| nodes[number], &|_| (0, 0), &|number| {
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
    if groups == 0 {
        return Ok(Vec::new());
    }
    let cuts = cuts(workers, groups, groups.div_ceil(piece_size(sink, groups)));
    let nodes = nodes_of(sink, workers);
    let starts = sink.run.map_near(workers.len(), &|number| nodes[number], &|_| (0, 0), &|number| {
        let keys = workers[number].table.keys();
        let below = cuts.iter().map(|cut| keys.partition_point(|key| key < cut));
        Ok([0].into_iter().chain(below).chain([keys.len()]).collect())
    })?;
    let inputs: Vec<Input<'_, K>> = workers.iter().zip(starts).map(|(w, starts)| of_worker(w, starts)).collect();
    merged(sink, &inputs, Joining::Ordered, rows, end)
}

/// Keys between which pieces have about as many groups each, whichever workers have them: on a machine with several
/// nodes, those of a node may have seen one range of keys.
fn cuts<K: GroupKey>(workers: &[Worker<K>], groups: usize, pieces: usize) -> Vec<K> {
    let step = (groups / (pieces * SAMPLES_PER_PIECE)).max(1);
    let drawn = workers.iter().flat_map(|worker| worker.table.keys().iter().skip(step / 2).step_by(step));
    let mut drawn: Vec<K> = drawn.copied().collect();
    drawn.sort_unstable();
    let mut cuts: Vec<K> = (1..pieces).filter_map(|piece| drawn.get(piece * drawn.len() / pieces).copied()).collect();
    cuts.dedup();
    cuts
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
    let inputs: Vec<Input<'_, K>> = parts.iter().map(|part| part.input(PARTITIONS / pieces)).collect();
    merged(sink, &inputs, Joining::Hashed, rows, end)
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
    let starts: Vec<usize> = (0..pieces).map(|piece| piece * size).chain([domain]).collect();
    let arrays = direct.iter().map(|worker| of_worker(worker, starts.clone()));
    let inputs: Vec<Input<'_, K>> = arrays.chain(parts.iter().map(|part| part.input(1))).collect();
    merged(sink, &inputs, Joining::Array { size, domain }, rows, end)
}

fn key_of<K: GroupKey>(number: usize) -> K {
    let mut key = K::default();
    key.add(0, number as u64);
    key
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
    let nodes: Vec<Option<NodeId>> = pieces.iter().map(|p| p.node.filter(|_| run.places.have_nodes())).collect();
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
    for ((rows, columns), node) in counts.iter().zip(parts).zip(nodes) {
        let reservations = reservation.take().into_iter().collect();
        let rows = Rows { infos: infos.clone(), columns, rows: *rows, _charged: reservations, lies: None };
        lanes.push(Lane { source: Box::new(RowsSource::near(Arc::new(rows), node)), operators: Vec::new() });
    }
    let rows = counts.iter().sum::<usize>() as u64;
    Ok(Pipe { lanes, infos, rows })
}
