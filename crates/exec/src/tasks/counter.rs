//! [`Counter`]: what a piece of a scan reads, by column and phase, for its statement's [traffic](super::traffic).
//!
//! # Limits
//! What is read by position counts a cache line for every row, at most what lies between the first and the last of them
//! (codes) or all of it (dictionaries). Bytes of which nobody knows where they lie are not reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use numa::{NodeId, Region, nearest_node};
use storage::{Column, Component, Encoding, GRANULE_ROWS, IndexKind, Segment};

use super::locate::Locator;
use super::places::{Lookup, current_node};
use super::traffic::{self, DictionaryBytes, Item, Line, TouchPhase, TouchedComponent, Traffic};
use crate::codes::input::InputRows;

/// Bytes that come from memory at a time.
pub(crate) const LINE_BYTES: f64 = traffic::LINE_BYTES as f64;

/// A column that a scan reads of a segment.
pub(crate) struct Read {
    pub(crate) column: usize,
    pub(crate) bytes_per_row: f64,
    lies: Where,
    dictionary: Option<ReadDictionary>,
    /// What its codes are called in the statement's account.
    item: Item,
}

/// A dictionary that lies in memory.
#[derive(Debug)]
struct ReadDictionary {
    /// Of one value, about; at most a line.
    bytes_per_value: f64,
    /// All of it.
    bytes: u64,
    lies: Where,
}

#[derive(Debug)]
enum Where {
    /// As its locator says.
    Granules(Locator),
    /// A copy on each of these.
    Copies(Vec<NodeId>),
    /// Spread over these.
    Spread(Vec<NodeId>),
    /// All memory is on this one.
    Only(NodeId),
    Unknown,
}

impl Read {
    /// A column of a segment of `part`; `table` is its number in the statement's account.
    pub(crate) fn new(segment: &Segment, column: usize, lookup: Lookup<'_>, (table, part): (u32, u32)) -> Read {
        let of = segment.column(column);
        let lies = match lookup {
            Lookup::Only(node) => Where::Only(node),
            Lookup::Nowhere => Where::Unknown,
            Lookup::Maps(maps) => match maps.locator(of) {
                Some(locator) => Where::Granules(locator),
                None => Where::Copies(copies(of)),
            },
        };
        let item = Item { table, column: column as u32, part, component: TouchedComponent::Codes };
        Read { column, bytes_per_row: bytes_per_row(of), lies, dictionary: ReadDictionary::of(of, lookup), item }
    }

    /// Where its granules lie, if some lie on one node.
    pub(crate) fn locator(&self) -> Option<&Locator> {
        match &self.lies {
            Where::Granules(locator) => Some(locator).filter(|locator| locator.tells()),
            _ => None,
        }
    }

    /// The nodes that have a copy of its codes, where several do.
    pub(crate) fn copies(&self) -> Option<&[NodeId]> {
        match &self.lies {
            Where::Copies(nodes) if !nodes.is_empty() => Some(nodes),
            _ => None,
        }
    }
}

/// Makes the dictionaries of some columns known to a statement, for whoever reads their values without the columns:
/// those of segments, each with its part, of the table of this number.
pub(crate) fn know_dictionaries<'a>(
    traffic: &Traffic,
    segments: impl Iterator<Item = (&'a Segment, u32)>,
    columns: &[usize],
    table: u32,
    lookup: Lookup<'_>,
) {
    let all = segments.flat_map(|(segment, part)| {
        let known = move |&column: &usize| {
            let of = segment.column(column);
            let dictionary = of.as_coded()?.dictionary();
            let has_values = dictionary.encoding() != Encoding::Affine && !dictionary.is_empty();
            let item = Item { table, column: column as u32, part, component: TouchedComponent::Dictionary };
            has_values.then(|| (dictionary.id(), move || KnownDictionary { item, of: ReadDictionary::of(of, lookup) }))
        };
        columns.iter().filter_map(known)
    });
    traffic.know_dictionaries(all);
}

/// A dictionary and its name in the account.
#[derive(Debug)]
struct KnownDictionary {
    item: Item,
    of: Option<ReadDictionary>,
}

impl DictionaryBytes for KnownDictionary {
    fn bytes(&self, values: usize) -> (u64, u64) {
        self.of.as_ref().map_or((0, 0), |of| (of.bytes, (of.bytes_per_value * values as f64) as u64))
    }

    fn note(&self, phase: TouchPhase, bytes: u64) {
        let Some(of) = &self.of else { return };
        of.lies.deal_out(0, bytes, &|node, bytes| traffic::note(self.item, phase, node, bytes));
    }
}

/// What one row of a column, given as both, reads when it is read by itself: a line of the codes and one of the
/// dictionary. `only`: the machine's node, if it has one; `table` and `part` as [`Read::new`] has them.
pub(crate) fn row_lines(
    segment: &Segment,
    (column, row): (usize, usize),
    only: Option<NodeId>,
    (table, part): (u32, u32),
    to: &dyn Fn(Line),
) {
    let of = segment.column(column);
    let (granule, line) = (row / GRANULE_ROWS, traffic::LINE_BYTES);
    let item = Item { table, column: column as u32, part, component: TouchedComponent::Codes };
    let lies = match only {
        _ if !of.takes_memory(granule) => Where::Unknown,
        Some(node) => Where::Only(node),
        None => Where::by_policy(of, granule),
    };
    lies.deal_out(granule, line, &|from, bytes| to(Line { item, phase: TouchPhase::Materialize, from, bytes }));
    let Some(coded) = of.as_coded() else { return };
    let dictionary = coded.dictionary();
    if dictionary.encoding() == Encoding::Affine || dictionary.is_empty() {
        return;
    }
    let lies = match only {
        Some(node) => Where::Only(node),
        None => Where::of_regions(&dictionary.regions(), dictionary.is_replicated()),
    };
    let item = Item { component: TouchedComponent::Dictionary, ..item };
    lies.deal_out(granule, line, &|from, bytes| to(Line { item, phase: TouchPhase::Materialize, from, bytes }));
}

/// As [`row_lines`], of a line of a column's index, if it has one.
pub(crate) fn index_line(
    segment: &Segment,
    column: usize,
    only: Option<NodeId>,
    (table, part): (u32, u32),
    to: &dyn Fn(Line),
) {
    let Some(index) = segment.index(column).filter(|index| index.kind() != IndexKind::Ascending) else { return };
    let item = Item { table, column: column as u32, part, component: TouchedComponent::Index };
    let lies = match only {
        Some(node) => Where::Only(node),
        None => Where::of_regions(&index.regions(), index.is_replicated()),
    };
    let bytes = traffic::LINE_BYTES;
    lies.deal_out(0, bytes, &|from, bytes| to(Line { item, phase: TouchPhase::LookUp, from, bytes }));
}

impl ReadDictionary {
    /// That of a column, unless its values are computed.
    fn of(column: &Column, lookup: Lookup<'_>) -> Option<ReadDictionary> {
        let dictionary = column.as_coded()?.dictionary();
        if dictionary.encoding() == Encoding::Affine || dictionary.is_empty() {
            return None;
        }
        let mut bytes = dictionary.bytes() as u64;
        let regions = || column.components().into_iter().filter(|(component, _)| *component == Component::Dictionary);
        let nodes = || each_once(regions().flat_map(|(_, region)| region.policy().nodes()));
        let lies = match lookup {
            Lookup::Only(node) => Where::Only(node),
            Lookup::Nowhere => Where::Unknown,
            Lookup::Maps(_) if dictionary.is_replicated() => {
                let nodes = nodes();
                // Of one copy.
                bytes /= nodes.len().max(1) as u64;
                Where::Copies(nodes)
            }
            Lookup::Maps(_) => Where::Spread(nodes()),
        };
        let bytes_per_value = (bytes as f64 / dictionary.len() as f64).min(LINE_BYTES);
        Some(ReadDictionary { bytes_per_value, bytes, lies })
    }
}

/// Bytes of codes, or of plain values, per row.
fn bytes_per_row(column: &Column) -> f64 {
    match column.bits() {
        Some(bits) => f64::from(bits) / 8.0,
        None => {
            let rows = column.len().clamp(1, GRANULE_ROWS);
            column.granule_bytes(0).iter().map(|(_, bytes)| bytes.len()).sum::<usize>() as f64 / rows as f64
        }
    }
}

/// The nodes that copies of a column's codes or values lie on.
fn copies(column: &Column) -> Vec<NodeId> {
    let regions = column.components().into_iter().filter(|(component, _)| *component == Component::Codes);
    each_once(regions.flat_map(|(_, region)| region.policy().nodes()))
}

/// Nodes of copies, each once, in the order of the copies: of equally near ones the first is read.
pub(crate) fn each_once(nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut known = Vec::new();
    for node in nodes {
        if !known.contains(&node) {
            known.push(node);
        }
    }
    known
}

/// Counts what is read of one granule's rows, by the filter and by whoever loads columns of what passed.
pub(crate) struct Counter {
    reads: Arc<[Read]>,
    rows: usize,
    granule: usize,
    bytes: Box<[Bytes]>,
}

/// What was read of a column.
#[derive(Default)]
struct Bytes {
    /// Codes, to find rows that match.
    found: AtomicU64,
    /// Codes of rows that were found.
    materialized: AtomicU64,
    /// Values of the dictionary.
    values: AtomicU64,
}

impl Counter {
    pub(crate) fn new(reads: Arc<[Read]>, granule: usize, rows: usize) -> Counter {
        let bytes = reads.iter().map(|_| Bytes::default()).collect();
        Counter { reads, rows, granule, bytes }
    }

    /// Notes that the codes of these rows of a column are read.
    pub(crate) fn reads(&self, column: usize, rows: &InputRows<'_>, phase: TouchPhase) {
        if rows.is_empty() {
            return;
        }
        match rows {
            InputRows::Range(range) => self.add(column, phase, |width| between(width, range.len())),
            InputRows::Marked(marked) => self.add(column, phase, |width| between(width, marked.rows.len())),
            InputRows::Positions(positions) => {
                let ends = positions.iter().fold((u32::MAX, 0), |(low, high), &row| (low.min(row), high.max(row)));
                self.reads_among(column, (positions.len(), (ends.1 - ends.0) as usize + 1), phase);
            }
        }
    }

    /// As [`reads`](Self::reads), of `rows` rows, one at least, among `all` from the first to the last of them. Rows
    /// that are close to each other have lines in common: these are no more than lie between them.
    pub(crate) fn reads_among(&self, column: usize, (rows, all): (usize, usize), phase: TouchPhase) {
        self.add(column, phase, |width| {
            let each = width.max(LINE_BYTES) * rows as f64;
            each.min(between(width, all)).min(between(width, self.rows))
        });
    }

    /// Adds what a column's bytes per row make of rows.
    fn add(&self, column: usize, phase: TouchPhase, bytes: impl FnOnce(f64) -> f64) {
        let Some(place) = self.place(column) else { return };
        let width = self.reads[place].bytes_per_row;
        if width == 0.0 {
            return;
        }
        let counter = match phase {
            TouchPhase::Find => &self.bytes[place].found,
            _ => &self.bytes[place].materialized,
        };
        counter.fetch_add(bytes(width) as u64, Relaxed);
    }

    /// Notes that the values of `rows` rows of a column are taken from its dictionary.
    pub(crate) fn takes_values(&self, column: usize, rows: usize) {
        let Some(place) = self.place(column) else { return };
        if let Some(dictionary) = &self.reads[place].dictionary {
            let bytes = (dictionary.bytes_per_value * rows as f64) as u64;
            self.bytes[place].values.fetch_add(bytes, Relaxed);
        }
    }

    fn place(&self, column: usize) -> Option<usize> {
        self.reads.iter().position(|read| read.column == column)
    }

    /// Tells the account of the task on this thread what was read so far, once.
    pub(crate) fn settle(&self) {
        (0..self.reads.len()).for_each(|place| self.settle_read(place));
    }

    /// As [`settle`](Self::settle), of one column: other tasks may be loading others.
    pub(crate) fn settle_column(&self, column: usize) {
        if let Some(place) = self.place(column) {
            self.settle_read(place);
        }
    }

    fn settle_read(&self, place: usize) {
        let (read, bytes) = (&self.reads[place], &self.bytes[place]);
        for (phase, bytes) in [(TouchPhase::Find, &bytes.found), (TouchPhase::Materialize, &bytes.materialized)] {
            read.lies.deal_out(self.granule, bytes.swap(0, Relaxed), &|node, bytes| {
                traffic::note(read.item, phase, node, bytes);
            });
        }
        let Some(dictionary) = &read.dictionary else { return };
        // What is read again and again comes from memory once.
        let values = bytes.values.swap(0, Relaxed).min(dictionary.bytes);
        let item = Item { component: TouchedComponent::Dictionary, ..read.item };
        dictionary.lies.deal_out(self.granule, values, &|node, bytes| {
            traffic::note(item, TouchPhase::Materialize, node, bytes);
        });
    }
}

/// Bytes of consecutive rows: a line at least.
fn between(bytes_per_row: f64, rows: usize) -> f64 {
    (bytes_per_row * rows as f64).max(LINE_BYTES)
}

impl Where {
    /// Where the policies of some regions, copies of each other or not, say that they are.
    fn of_regions(regions: &[&Region], copies: bool) -> Where {
        let nodes = each_once(regions.iter().flat_map(|region| region.policy().nodes()));
        if copies { Where::Copies(nodes) } else { Where::Spread(nodes) }
    }

    /// Where its policy says that a granule of a column's codes, or values, is.
    fn by_policy(column: &Column, granule: usize) -> Where {
        if column.is_replicated() {
            return Where::Copies(copies(column));
        }
        match (column.placed_node(granule), column.granule_bytes(granule).first()) {
            (Some(node), _) => Where::Only(node),
            (None, Some((region, _))) => Where::Spread(region.policy().nodes()),
            (None, None) => Where::Unknown,
        }
    }

    /// Deals bytes that a task on this thread read out to the nodes that hold them.
    fn deal_out(&self, granule: usize, bytes: u64, to: &dyn Fn(NodeId, u64)) {
        match self {
            _ if bytes == 0 => {}
            Where::Only(node) => to(*node, bytes),
            Where::Granules(locator) => locator.deal_out(granule, bytes, &mut |node, bytes| to(node, bytes)),
            // As readers do.
            Where::Copies(nodes) => {
                let nearest = current_node().map_or(Some(0), |here| nearest_node(here, nodes));
                nearest.and_then(|place| nodes.get(place)).into_iter().for_each(|node| to(*node, bytes));
            }
            Where::Spread(nodes) => deal_evenly(nodes, bytes, to),
            Where::Unknown => {}
        }
    }
}

/// Deals bytes out to nodes in equal shares; what is left goes to the first ones, so that none is lost.
pub(crate) fn deal_evenly(nodes: &[NodeId], bytes: u64, to: &dyn Fn(NodeId, u64)) {
    let mut dealt = 0;
    for (node, place) in nodes.iter().zip(1u64..) {
        let upto = (u128::from(bytes) * u128::from(place)).div_ceil(nodes.len() as u128) as u64;
        to(*node, upto - dealt);
        dealt = upto;
    }
}
