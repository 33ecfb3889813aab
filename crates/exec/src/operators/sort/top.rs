//! Top-k: the first rows of an order without sorting the others.
//!
//! A worker keeps the keys of the best rows that it has seen and the chunks that those are rows of; once it has twice
//! as many as wanted it forgets the worse half, and the worst key left is a bound: rows behind it are dropped as they
//! come, first by their first key alone, before anything else of them is read. All workers share the best bound.
//! Columns that are no key are read at the end, for the rows that are left. Where workers are on several nodes and have
//! kept many rows, those of each node forget together before the nodes' are put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use numa::{NodeId, Reservation};
use parking_lot::Mutex;

use super::SortedRows;
use crate::ExecError;
use crate::chunk::vector::Vector;
use crate::chunk::{CHUNK_ROWS, Chunk, Rows};
use crate::keys::order::{ByteLayout, OrderLayout, Word, WordLayout};
use crate::pipe::Pipe;
use crate::pipe::drive::{Sink, drive};
use crate::tasks::places::{LITTLE_BYTES, current_node};
use crate::tasks::run::Run;
use crate::tasks::traffic::{self, KeptColumn};

/// The first `fetch` rows, at least one, in order.
pub(super) fn sorted(run: &Run<'_>, pipe: &Pipe, layout: &OrderLayout, fetch: usize) -> Result<SortedRows, ExecError> {
    match layout {
        OrderLayout::Words(packed, _) if packed.bits <= u64::BITS => best(run, pipe, ByWord::<u64>::new(packed), fetch),
        OrderLayout::Words(packed, _) => best(run, pipe, ByWord::<u128>::new(packed), fetch),
        OrderLayout::Bytes(bytes) => best(run, pipe, ByBytes { bytes, run }, fetch),
    }
}

/// Makes keys of rows.
trait TopKeys: Sync {
    type Key: Ord + Clone + Send;

    /// The keys of a chunk's rows; rows that are certain not to come before `bound` may be dropped from it.
    fn of(&self, chunk: &mut Chunk, bound: Option<&Self::Key>) -> Result<Vec<Self::Key>, ExecError>;
}

struct ByWord<'a, W> {
    packed: &'a WordLayout,
    /// Column and bits behind it, if there is more than one key.
    first: Option<(usize, u32)>,
    word: std::marker::PhantomData<W>,
}

impl<'a, W: Word> ByWord<'a, W> {
    fn new(packed: &'a WordLayout) -> Self {
        let mut columns = packed.columns();
        let first = match (columns.next(), columns.next()) {
            (Some(first), Some(_)) => Some((first, packed.bits_after_first())),
            _ => None,
        };
        ByWord { packed, first, word: std::marker::PhantomData }
    }
}

impl<W: Word> TopKeys for ByWord<'_, W> {
    type Key = W;

    fn of(&self, chunk: &mut Chunk, bound: Option<&W>) -> Result<Vec<W>, ExecError> {
        let mut words: Vec<W> = Vec::new();
        if let (Some((column, bits)), Some(bound)) = (self.first, bound) {
            self.packed.first_words(&chunk.column(column), &mut words);
            let most = bound.without(bits);
            let near: Vec<u32> = (0..chunk.rows() as u32).filter(|&r| words[r as usize] <= most).collect();
            if near.len() < chunk.rows() {
                chunk.keep(&near);
            }
        }
        self.packed.words(0..chunk.rows(), |c| chunk.column(c), &mut words);
        Ok(words)
    }
}

struct ByBytes<'a> {
    bytes: &'a ByteLayout,
    run: &'a Run<'a>,
}

impl TopKeys for ByBytes<'_> {
    type Key = Box<[u8]>;

    fn of(&self, chunk: &mut Chunk, bound: Option<&Box<[u8]>>) -> Result<Vec<Box<[u8]>>, ExecError> {
        let rows = self.bytes.rows(0..chunk.rows(), |c| chunk.column(c), self.run)?;
        let near = (0..chunk.rows() as u32).filter(|&r| bound.is_none_or(|b| rows.row(r as usize).as_ref() < &**b));
        let near: Vec<u32> = near.collect();
        if near.len() < chunk.rows() {
            chunk.keep(&near);
        }
        Ok(near.into_iter().map(|r| rows.row(r as usize).as_ref().into()).collect())
    }
}

/// A row that may be among the first: its key, its chunk and its row in that.
#[derive(Clone)]
struct Item<K> {
    key: K,
    chunk: u32,
    row: u32,
}

/// What a worker has seen.
struct Best<K> {
    chunks: Vec<Chunk>,
    items: Vec<Item<K>>,
    /// Rows of all chunks.
    held: usize,
    reservation: Reservation,
    /// What those are charged to that it has taken over.
    charged: Vec<Reservation>,
    /// Where it lies.
    node: Option<NodeId>,
}

struct Top<'a, M: TopKeys> {
    run: &'a Run<'a>,
    keys: M,
    fetch: usize,
    /// `fetch` rows are known that are not behind this key.
    bound: Mutex<Option<M::Key>>,
}

impl<M: TopKeys> Sink for Top<'_, M> {
    const KIND: &'static str = "top rows";
    type Local = Best<M::Key>;

    fn local(&self) -> Result<Self::Local, ExecError> {
        Best::nothing(self.run)
    }

    fn push(&self, local: &mut Self::Local, mut chunk: Chunk) -> Result<bool, ExecError> {
        let bound = self.bound.lock().clone();
        let mut keys = self.keys.of(&mut chunk, bound.as_ref())?;
        if let Some(bound) = bound {
            let near: Vec<u32> = (0..keys.len() as u32).filter(|&r| keys[r as usize] < bound).collect();
            if near.len() < keys.len() {
                chunk.keep(&near);
                keys = near.iter().map(|&r| keys[r as usize].clone()).collect();
            }
        }
        if keys.is_empty() {
            return Ok(true);
        }
        let number = local.chunks.len() as u32;
        let items = keys.into_iter().enumerate().map(|(row, key)| Item { key, chunk: number, row: row as u32 });
        local.items.extend(items);
        local.held += chunk.rows();
        local.reservation.grow(chunk.bytes() + (chunk.rows() * size_of::<Item<M::Key>>()) as u64)?;
        local.chunks.push(chunk);
        if local.items.len() >= (2 * self.fetch).max(self.fetch + CHUNK_ROWS / 2) {
            self.forget(local)?;
        }
        Ok(true)
    }
}

impl<M: TopKeys> Top<'_, M> {
    /// Forgets all but the best `fetch` rows.
    fn forget(&self, local: &mut Best<M::Key>) -> Result<(), ExecError> {
        let worst = self.fetch - 1;
        local.items.select_nth_unstable_by(worst, |a, b| a.key.cmp(&b.key));
        local.items.truncate(self.fetch);
        let key = local.items[worst].key.clone();
        let mut bound = self.bound.lock();
        if bound.as_ref().is_none_or(|known| key < *known) {
            *bound = Some(key);
        }
        drop(bound);
        if local.held > 4 * self.fetch + 4 * CHUNK_ROWS {
            local.compact();
            let items = local.items.len() * size_of::<Item<M::Key>>();
            local.reservation.resize(local.chunks.iter().map(Chunk::bytes).sum::<u64>() + items as u64)?;
        }
        Ok(())
    }
}

impl<K> Best<K> {
    fn nothing(run: &Run<'_>) -> Result<Best<K>, ExecError> {
        let (reservation, node) = (run.reserve(0)?, current_node());
        Ok(Best { chunks: Vec::new(), items: Vec::new(), held: 0, reservation, charged: Vec::new(), node })
    }

    /// Bytes of the items.
    fn bytes(&self) -> u64 {
        size_of_val(&self.items[..]) as u64
    }

    /// Drops the rows of chunks that no item names.
    fn compact(&mut self) {
        self.items.sort_unstable_by_key(|item| (item.chunk, item.row));
        let mut chunks = Vec::new();
        for items in self.items.chunk_by_mut(|a, b| a.chunk == b.chunk) {
            let mut chunk = self.chunks[items[0].chunk as usize].clone();
            chunk.keep(&items.iter().map(|item| item.row).collect::<Vec<_>>());
            for (row, item) in items.iter_mut().enumerate() {
                (item.chunk, item.row) = (chunks.len() as u32, row as u32);
            }
            chunks.push(chunk);
        }
        self.chunks = chunks;
        self.held = self.items.len();
    }
}

/// The best rows of several workers.
fn together<K: Ord>(run: &Run<'_>, fetch: usize, locals: Vec<Best<K>>) -> Result<Best<K>, ExecError> {
    let mut all = Best::nothing(run)?;
    for local in locals {
        let base = all.chunks.len() as u32;
        all.held += local.held;
        all.chunks.extend(local.chunks);
        all.items.extend(local.items.into_iter().map(|item| Item { chunk: base + item.chunk, ..item }));
        all.charged.extend(local.charged);
        all.charged.push(local.reservation);
    }
    if all.items.len() > fetch {
        all.items.select_nth_unstable_by(fetch - 1, |a, b| a.key.cmp(&b.key));
        all.items.truncate(fetch);
    }
    Ok(all)
}

/// The workers' rows, of which those of one node have forgotten all but the best together, each node's on that node:
/// what crosses between nodes are the wanted rows once per node, not up to twice as many of each worker. Nothing is
/// done where that would save fewer than `little_bytes`.
fn node_first<K: Ord + Send>(
    run: &Run<'_>,
    fetch: usize,
    locals: Vec<Best<K>>,
    little_bytes: u64,
) -> Result<Vec<Best<K>>, ExecError> {
    let mut on: BTreeMap<Option<NodeId>, Vec<Best<K>>> = BTreeMap::new();
    let all: u64 = locals.iter().map(Best::bytes).sum();
    locals.into_iter().for_each(|local| on.entry(local.node).or_default().push(local));
    let left = (on.len() * fetch * size_of::<Item<K>>()) as u64;
    let saves = all.saturating_sub(left) >= little_bytes.max(1);
    if !run.places.have_nodes() || on.len() < 2 || !saves {
        return Ok(on.into_values().flatten().collect());
    }
    let nodes: Vec<Option<NodeId>> = on.keys().copied().collect();
    let locals: Vec<Mutex<Vec<Best<K>>>> = on.into_values().map(Mutex::new).collect();
    let merged = run.map_near(nodes.len(), &|task| nodes[task], &|_| (0, 0), &|task| {
        let locals = std::mem::take(&mut *locals[task].lock());
        locals.iter().for_each(|local| traffic::note_kept_read(traffic::SORT_KEYS, local.node, local.bytes()));
        let best = together(run, fetch, locals)?;
        traffic::note_kept(traffic::SORT_KEYS, best.bytes());
        Ok(best)
    })?;
    merged.iter().for_each(|best| traffic::note_kept_read(traffic::SORT_KEYS, best.node, best.bytes()));
    Ok(merged)
}

fn best<M: TopKeys>(run: &Run<'_>, pipe: &Pipe, keys: M, fetch: usize) -> Result<SortedRows, ExecError> {
    let top = Top { run, keys, fetch, bound: Mutex::new(None) };
    let locals = drive(pipe, &top, run)?;
    let mut all = together(run, fetch, node_first(run, fetch, locals, LITTLE_BYTES)?)?;
    all.compact();
    // Rows of the chunks one after the other, then the order among them.
    let mut starts = Vec::with_capacity(all.chunks.len());
    let mut rows = 0;
    for chunk in &all.chunks {
        starts.push(rows);
        rows += chunk.rows();
    }
    all.items.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let order = all.items.iter().map(|item| (starts[item.chunk as usize] + item.row as usize) as u32).collect();
    let chunks: Vec<Mutex<Chunk>> = all.chunks.into_iter().map(Mutex::new).collect();
    let columns = run.map(pipe.infos.len(), &|c| {
        let parts: Vec<Vector> = chunks.iter().map(|chunk| (*chunk.lock().column_late(c)).clone()).collect();
        let column = if parts.is_empty() { pipe.infos[c].empty() } else { Vector::concat(parts) };
        traffic::note_kept(traffic::ROWS_KEPT, column.bytes());
        Ok((Arc::new(column), current_node()))
    })?;
    let (columns, nodes): (Vec<Arc<Vector>>, Vec<Option<NodeId>>) = columns.into_iter().unzip();
    let bytes = columns.iter().map(|c| c.bytes()).sum::<u64>() + 4 * rows as u64;
    drop(all.charged);
    let reservations = vec![run.reserve(bytes)?];
    let lies = columns.iter().zip(nodes).map(|(c, node)| KeptColumn { bytes: c.bytes(), rows, node });
    let lies = Some(run.traffic.kept_rows(traffic::ROWS_KEPT, lies));
    let rows = Arc::new(Rows { infos: pipe.infos.clone(), columns, rows, _charged: reservations, lies });
    Ok(SortedRows { rows, order: vec![order], _reservation: None })
}

#[cfg(test)]
mod tests {
    use numa::Budget;
    use random::Random;
    use sched::Statement;
    use storage::Serial;

    use super::*;
    use crate::tasks::locate::PageMaps;
    use crate::tasks::places::{Lookup, Places, ScanOptions};
    use crate::tasks::pretended::{Pretended, on};
    use crate::tasks::traffic::Traffic;

    /// Workers on three nodes, one of them with a worker more, that have some rows each.
    fn locals(run: &Run<'_>, keys: &[Vec<u64>]) -> Vec<Best<u64>> {
        let local = |(number, keys): (usize, &Vec<u64>)| {
            let mut best = on(NodeId(number as u32 % 3), || Best::nothing(run)).unwrap();
            best.chunks.push(Chunk::empty(keys.len()));
            best.items = keys.iter().zip(0..).map(|(key, row)| Item { key: *key, chunk: 0, row }).collect();
            best.held = keys.len();
            best
        };
        keys.iter().enumerate().map(local).collect()
    }

    #[test]
    fn the_best_rows_of_a_node_cross_once() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let fetch = 1 + random.below(50);
            let mut keys: Vec<Vec<u64>> = Vec::new();
            for _ in 0..7 {
                keys.push((0..random.below(100)).map(|_| random.below_u64(300)).collect());
            }
            let statement = Statement::new(1, Budget::unlimited());
            let machine = Pretended::new(3);
            let maps = PageMaps::new(Box::new(|_| None), usize::MAX);
            let lookup = Lookup::Maps(&maps);
            let places = Places { lookup, options: ScanOptions::default(), turn: None, morsels_min: 1, attached: None };
            let traffic = Arc::new(Traffic::default());
            let run = Run { statement: &statement, parallel: &machine, threads: 7, places, traffic: &traffic };
            let by_node = node_first(&run, fetch, locals(&run, &keys), 0).unwrap();
            let of_node = |node: usize| keys.iter().skip(node).step_by(3).map(Vec::len).sum::<usize>().min(fetch);
            let sizes: Vec<usize> = by_node.iter().map(|best| best.items.len()).collect();
            let all: usize = keys.iter().map(Vec::len).sum();
            if all > 3 * fetch {
                assert_eq!(sizes, [0, 1, 2].map(of_node), "seed {seed}");
                assert_eq!(machine.take_wishes(), [0, 1, 2].map(|node| Some(NodeId(node))), "seed {seed}");
                assert!(traffic.lines().iter().all(|line| line.to == Some(line.from)), "seed {seed}");
            }
            // The rows that one worker with all of them would keep, each still where its chunk says.
            let best = together(&run, fetch, by_node).unwrap();
            let mut found: Vec<u64> = best.items.iter().map(|item| item.key).collect();
            found.sort_unstable();
            let mut wanted = keys.concat();
            wanted.sort_unstable();
            wanted.truncate(fetch);
            assert_eq!(found, wanted, "seed {seed}");
            for item in &best.items {
                let rows = best.chunks[item.chunk as usize].rows();
                let is_there = |keys: &Vec<u64>| keys.len() == rows && keys[item.row as usize] == item.key;
                assert!(keys.iter().any(is_there), "seed {seed}");
            }
            let one_node =
                Run { parallel: &Serial, places: Places { lookup: Lookup::Only(NodeId(0)), ..places }, ..run };
            assert_eq!(node_first(&one_node, fetch, locals(&run, &keys), 0).unwrap().len(), 7, "seed {seed}");
        }
    }
}
