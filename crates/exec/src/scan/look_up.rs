//! Looking rows up in the indexes of a scan's segments: at once where that is little, as tasks near the indexes where
//! it is much.
//!
//! 1. *Find*: keys become runs of places in the order of an index. What the runs come to says which index of a segment
//!    is used, if any ([`choose`]).
//! 2. *Read*: places become rows. A long list of rows is cut after so many rows, and where it goes on on another node.
//! 3. *Merge*: the rows that tasks have read of a segment are put in the order of the segment.
//!
//! A task finds or reads what lies on one node, of as many indexes as it takes to be worth a task, and runs there. Of
//! copies on several nodes each has its share of the tasks. Finding in an index whose pages lie on several nodes is
//! near none of them: which page a key needs is what is to be found out.
//!
//! Invariant: the rows are the same however the work is cut.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.2 (look-ups as tasks with the affinity of the index).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use numa::{NodeId, nearest_node};
use storage::{Index, Part, SegmentVersion};

use super::seek::{Access, Choice, ColumnQuery, PlaceRuns, choose, choose_by, in_order, rows_at};
use crate::ExecError;
use crate::tasks::counter;
use crate::tasks::places::{Lookup, current_node};
use crate::tasks::run::Run;
use crate::tasks::traffic::{self, Item, TouchPhase, TouchedComponent};

/// Nanoseconds to find a key: to search a dictionary and to read a line of the index, as dear as a look-up is taken to
/// be beside the rows of a scan.
const KEY_NS: u64 = 270;
/// Nanoseconds to read a row: a line of the index, or less, and the row's share of a sort; a guess.
const ROW_NS: u64 = 30;
/// Bytes that a row takes in an index.
const ROW_BYTES: u64 = 4;
/// Rows that a task merges, in tasks that read them: merging takes a quarter of the time.
const MERGED_GRAINS: usize = 4;

/// How much a task has to do at least, and so what is done at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grain {
    pub(super) keys: usize,
    pub(super) rows: usize,
}

/// Some 130 us, beside the 8 us that it costs to hand a task over. Twice a grain is the least that is done by tasks:
/// one task would only be done by somebody else. So a look-up of a key, of a short list, or of a few thousand rows
/// never leaves its thread.
pub(super) const GRAIN: Grain = Grain { keys: 512, rows: 4096 };

/// What is looked up, in which segments.
pub(super) struct IndexLookUps<'a> {
    pub(super) segments: &'a [SegmentVersion],
    /// The parts of the table, which have these segments.
    pub(super) parts: &'a [Arc<Part>],
    /// What parts of the conjunction say of columns.
    pub(super) asked: Vec<(usize, ColumnQuery<'a>)>,
    /// The table's number in the statement's account.
    pub(super) table: u32,
    pub(super) lookup: Lookup<'a>,
    pub(super) grain: Grain,
}

/// An index that is asked, and where it lies.
struct AskedIndex<'a> {
    index: &'a Index,
    item: Item,
    /// Nothing where nobody asks.
    nodes: Vec<NodeId>,
    /// Tasks run near it.
    attracts: bool,
}

/// Keys to be found in an index of a segment.
struct Finding {
    segment: usize,
    /// Which part of the conjunction has them.
    part: usize,
    keys: Range<usize>,
}

/// Places whose rows are to be read; `choice` is the place of their segment's choice among all.
struct Reading {
    choice: usize,
    places: PlaceRuns,
}

/// Work for one task, all on one node.
struct Batch<T> {
    node: Option<NodeId>,
    cost: usize,
    pieces: Vec<T>,
}

/// Puts pieces of work on the same node together until they are enough for a task.
struct Batches<T> {
    enough: usize,
    full: Vec<Batch<T>>,
    /// At most one per node.
    open: Vec<Batch<T>>,
}

/// The places that some keys of a part of the conjunction have in the index of a segment; `None` where the index cannot
/// tell.
type Found = BTreeMap<(usize, usize), Option<PlaceRuns>>;

impl<'a> IndexLookUps<'a> {
    /// The rows of each segment that are looked at. Without anybody to run tasks all is done at once.
    pub(super) fn accesses(&self, run: Option<&Run<'_>>) -> Result<Vec<Access>, ExecError> {
        let mut accesses = vec![Access::All; self.segments.len()];
        if self.asked.is_empty() {
            return Ok(accesses);
        }
        let mut found = match run.filter(|_| self.keys() >= 2 * self.grain.keys) {
            Some(run) => Some(self.find(run)?),
            None => None,
        };
        // Of the rows some are read at once, and the others by tasks.
        let mut rows_read = 0;
        let mut later = Vec::new();
        for (segment, access) in accesses.iter_mut().enumerate() {
            let Some(choice) = self.choice(segment, &mut found)? else { continue };
            if let Some(rows) = choice.consecutive_rows() {
                *access = Access::Range(rows);
            } else if run.is_none() || rows_read + choice.rows < 2 * self.grain.rows {
                rows_read += choice.rows;
                self.index(segment, choice.column).note(choice.places(), None);
                *access = Access::Rows(rows_at(choice.index(), choice.places()));
            } else {
                later.push((segment, choice));
            }
        }
        if let Some(run) = run.filter(|_| !later.is_empty()) {
            let rows = self.read(&later, run)?;
            later.iter().zip(rows).for_each(|((segment, _), rows)| accesses[*segment] = Access::Rows(rows));
        }
        Ok(accesses)
    }

    /// Look-ups in all segments.
    fn keys(&self) -> usize {
        self.queries().map(|(_, _, query)| query.look_ups()).sum()
    }

    /// What an index is asked: the segment, and the part of the conjunction.
    fn queries(&self) -> impl Iterator<Item = (usize, usize, &ColumnQuery<'a>)> + '_ {
        let of_segment = |segment: usize| {
            let version = &self.segments[segment];
            let stored = &version.segment;
            let asked = self.asked.iter().enumerate().filter(|_| version.live_rows() > 0);
            let asked =
                asked.filter(|(_, (column, query))| stored.index(*column).is_some() && query.pays(stored.rows()));
            asked.map(move |(part, (_, query))| (segment, part, query))
        };
        (0..self.segments.len()).flat_map(of_segment)
    }

    /// The index that is used for a segment. What was found before is taken out.
    fn choice(&self, segment: usize, found: &mut Option<Found>) -> Result<Option<Choice<'a>>, ExecError> {
        let version: &'a SegmentVersion = &self.segments[segment];
        if version.live_rows() == 0 {
            return Ok(None);
        }
        if let Some(found) = found {
            let mut known = |part: usize, _: &Index| Ok(found.remove(&(segment, part)).flatten());
            return choose_by(&version.segment, &self.asked, &|_| 1, &mut known);
        }
        choose(&version.segment, &self.asked)
    }

    /// The part of the table that a segment is of.
    fn part_of(&self, segment: usize) -> u32 {
        let mut before = 0;
        let is_of = |part: &Arc<Part>| {
            before += part.segments.len();
            segment < before
        };
        self.parts.iter().position(is_of).expect("every segment is of a part") as u32
    }

    /// The index of a segment on a column that has one.
    fn index(&self, segment: usize, column: usize) -> AskedIndex<'a> {
        let version: &'a SegmentVersion = &self.segments[segment];
        let index = version.segment.index(column).expect("only indexes that are there are asked");
        let part = self.part_of(segment);
        let item = Item { table: self.table, column: column as u32, part, component: TouchedComponent::Index };
        let nodes = match self.lookup {
            Lookup::Only(node) => vec![node],
            Lookup::Nowhere => Vec::new(),
            Lookup::Maps(_) => counter::each_once(index.regions().iter().flat_map(|region| region.policy().nodes())),
        };
        AskedIndex { index, item, nodes, attracts: matches!(self.lookup, Lookup::Maps(_)) }
    }

    /// Finds the places of all keys, as tasks.
    fn find(&self, run: &Run<'_>) -> Result<Found, ExecError> {
        let mut batches = Batches::new(self.grain.keys);
        let mut found = Found::new();
        let mut turn = 0;
        for (segment, part, query) in self.queries() {
            found.insert((segment, part), Some(Vec::new()));
            let index = self.index(segment, self.asked[part].0);
            let all = query.look_ups();
            for start in (0..all).step_by(self.grain.keys) {
                let keys = start..(start + self.grain.keys).min(all);
                batches.add(index.node(&mut turn), keys.len(), Finding { segment, part, keys });
            }
        }
        let batches = batches.finish();
        let cost_of = |task: usize| {
            let keys = batches[task].cost as u64;
            (keys * traffic::LINE_BYTES, keys * KEY_NS)
        };
        let places = run.map_near(batches.len(), &|task| batches[task].node, &cost_of, &|task| {
            let of = |piece: &Finding| {
                let (column, query) = &self.asked[piece.part];
                let segment = &self.segments[piece.segment].segment;
                let index = segment.index(*column).expect("only indexes that are there are asked");
                query.places(segment, *column, index, piece.keys.clone())
            };
            batches[task].pieces.iter().map(of).collect::<Result<Vec<_>, _>>()
        })?;
        for (piece, places) in batches.iter().flat_map(|batch| &batch.pieces).zip(places.into_iter().flatten()) {
            let all = found.entry((piece.segment, piece.part)).or_default();
            match (all.as_mut(), places) {
                (Some(all), Some(places)) => all.extend(places),
                _ => *all = None,
            }
        }
        found.values_mut().flatten().for_each(|places| *places = in_order(std::mem::take(places)));
        Ok(found)
    }

    /// The rows of each choice, ascending, read by tasks.
    fn read(&self, choices: &[(usize, Choice<'a>)], run: &Run<'_>) -> Result<Vec<Vec<u32>>, ExecError> {
        let mut batches = Batches::new(self.grain.rows);
        let mut turn = 0;
        for (number, (segment, choice)) in choices.iter().enumerate() {
            let index = self.index(*segment, choice.column);
            let runs = if index.attracts { index.index.runs_on_nodes() } else { Vec::new() };
            cut(choice.places(), &runs, self.grain.rows, &mut |node, places| {
                let rows = places.iter().map(|run| run.len()).sum();
                let node = node.or_else(|| index.node(&mut turn));
                batches.add(node, rows, Reading { choice: number, places });
            });
        }
        let batches = batches.finish();
        let cost_of = |task: usize| {
            let rows = batches[task].cost as u64;
            (rows * traffic::LINE_BYTES, rows * ROW_NS)
        };
        let rows = run.map_near(batches.len(), &|task| batches[task].node, &cost_of, &|task| {
            let Batch { node, pieces, .. } = &batches[task];
            let of = |piece: &Reading| {
                let (segment, choice) = &choices[piece.choice];
                self.index(*segment, choice.column).note(&piece.places, *node);
                rows_at(choice.index(), &piece.places)
            };
            Ok(pieces.iter().map(of).collect::<Vec<_>>())
        })?;
        let mut lists: Vec<Vec<Vec<u32>>> = choices.iter().map(|_| Vec::new()).collect();
        for (piece, rows) in batches.iter().flat_map(|batch| &batch.pieces).zip(rows.into_iter().flatten()) {
            lists[piece.choice].push(rows);
        }
        merged(lists, MERGED_GRAINS * self.grain.rows, run)
    }
}

impl AskedIndex<'_> {
    /// Where a task that asks it runs: with its only node, or with one of its copies in turn.
    fn node(&self, turn: &mut usize) -> Option<NodeId> {
        let [first, others @ ..] = &self.nodes[..] else { return None };
        if !self.attracts || (!others.is_empty() && !self.index.is_replicated()) {
            return None;
        }
        *turn += usize::from(!others.is_empty());
        Some(if others.is_empty() { *first } else { self.nodes[*turn % self.nodes.len()] })
    }

    /// Tells the account of the task on this thread that the rows at some places are looked up, all on `node` if one is
    /// given: a line for each run of them or four bytes for each row, whichever is more, and no more than there are.
    fn note(&self, places: &[Range<u32>], node: Option<NodeId>) {
        let rows: u64 = places.iter().map(|run| run.len() as u64).sum();
        let bytes = (places.len() as u64 * traffic::LINE_BYTES).max(rows * ROW_BYTES);
        let all = self.index.bytes() as u64;
        let from = |node: NodeId, bytes: u64| traffic::note(self.item, TouchPhase::LookUp, node, bytes);
        if self.index.is_replicated() {
            // The nearest is read.
            let nearest = current_node().map_or(Some(0), |here| nearest_node(here, &self.nodes));
            let node = nearest.and_then(|place| self.nodes.get(place));
            return node.into_iter().for_each(|node| from(*node, bytes.min(all / self.nodes.len() as u64)));
        }
        let bytes = bytes.min(all);
        if let Some(node) = node {
            return from(node, bytes);
        }
        counter::deal_evenly(&self.nodes, bytes, &from);
    }
}

impl<T> Batches<T> {
    fn new(enough: usize) -> Batches<T> {
        Batches { enough, full: Vec::new(), open: Vec::new() }
    }

    fn add(&mut self, node: Option<NodeId>, cost: usize, piece: T) {
        let open = self.open.iter().position(|batch| batch.node == node).unwrap_or_else(|| {
            self.open.push(Batch { node, cost: 0, pieces: Vec::new() });
            self.open.len() - 1
        });
        let batch = &mut self.open[open];
        batch.cost += cost;
        batch.pieces.push(piece);
        if batch.cost >= self.enough {
            self.full.push(self.open.swap_remove(open));
        }
    }

    fn finish(mut self) -> Vec<Batch<T>> {
        self.full.append(&mut self.open);
        self.full
    }
}

/// Hands out places in pieces of at most `most`, each on one node of `runs`, or on none of them.
fn cut(
    places: &[Range<u32>],
    runs: &[(Range<u32>, NodeId)],
    most: usize,
    out: &mut dyn FnMut(Option<NodeId>, PlaceRuns),
) {
    let mut piece = Vec::new();
    let mut count = 0;
    let mut on = None;
    for run in places {
        let mut rest = run.clone();
        while !rest.is_empty() {
            let holder = runs.get(runs.partition_point(|(places, _)| places.end <= rest.start));
            let holder = holder.filter(|(places, _)| places.start <= rest.start);
            let node = holder.map(|(_, node)| *node);
            if !piece.is_empty() && (count == most || node != on) {
                out(on, std::mem::take(&mut piece));
                count = 0;
            }
            on = node;
            let end = rest.end.min(holder.map_or(u32::MAX, |(places, _)| places.end));
            let end = end.min(rest.start.saturating_add((most - count) as u32));
            count += (end - rest.start) as usize;
            piece.push(rest.start..end);
            rest.start = end;
        }
    }
    if !piece.is_empty() {
        out(on, piece);
    }
}

/// Of each segment the ascending lists as one, by tasks of about `enough` rows: a segment is small enough for one.
fn merged(lists: Vec<Vec<Vec<u32>>>, enough: usize, run: &Run<'_>) -> Result<Vec<Vec<u32>>, ExecError> {
    let mut batches = Batches::new(enough);
    for (segment, lists) in lists.iter().enumerate().filter(|(_, lists)| lists.len() > 1) {
        batches.add(None, lists.iter().map(Vec::len).sum(), segment);
    }
    let batches = batches.finish();
    let cost_of = |task: usize| {
        let rows = batches[task].cost as u64;
        (rows * ROW_BYTES, rows * ROW_NS / MERGED_GRAINS as u64)
    };
    let pieces = run.map_near(batches.len(), &|_| None, &cost_of, &|task| {
        let of = |segment: &usize| {
            let mut rows = lists[*segment].concat();
            // Ascending runs are found and merged.
            rows.sort();
            rows
        };
        Ok(batches[task].pieces.iter().map(of).collect::<Vec<_>>())
    })?;
    let mut all: Vec<Vec<u32>> = lists.into_iter().map(|mut lists| lists.pop().unwrap_or_default()).collect();
    let segments = batches.iter().flat_map(|batch| &batch.pieces);
    segments.zip(pieces.into_iter().flatten()).for_each(|(segment, rows)| all[*segment] = rows);
    Ok(all)
}

#[cfg(test)]
mod tests;
