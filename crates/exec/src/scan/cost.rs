//! What a morsel costs: an estimate before it runs, for whoever decides where it may run; and what it read, for its
//! statement's [traffic](crate::tasks::traffic).
//!
//! # Limits
//! Deleted rows and expressions' own memory are not counted. What is read by position counts a cache line for every
//! row, at most its share of the granule (codes) or all of it (dictionaries). Bytes of which nobody knows where they
//! lie are not reported.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 (hints of tasks) and 6.1.2 (memory-intensive and cpu-intensive
//! tasks).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use numa::{NodeId, current_node};
use sched::Hint;
use storage::{Column, Component, Encoding, GRANULE_ROWS, Segment};

use crate::codes::input::Rows;
use crate::tasks::locate::{Locator, PageMaps};
use crate::tasks::traffic::{self, Item, TouchPhase, TouchedComponent};

/// Bytes that come from memory at a time.
const LINE_BYTES: f64 = 64.0;

/// Picoseconds of cpu time per row, one thread, as `EXPLAIN ANALYZE` told of 16 million rows on an EPYC (Zen 3, 2.4
/// GHz, release build; codes of 13 and 20 bits): only their order of magnitude matters, since they are weighed against
/// a measured threshold. A test of codes by a kernel.
const CODE_TEST_PS: f64 = 260.0;
/// A test of values by an expression, such as `x + y = 3`, its columns decoded.
const ROW_TEST_PS: f64 = 2_000.0;
/// A value of a run of rows, decoded.
const VALUE_PS: f64 = 1_100.0;
/// A value of a row among others that did not pass, gathered at its position.
const GATHERED_VALUE_PS: f64 = 10_000.0;
/// The same where so many pass that whole blocks are unpacked: `bench scan` at 1% and 10% of 30 million rows (Zen 4).
const MARKED_VALUE_PS: f64 = 1_500.0;
/// Share of rows from which on they are.
const MARKED_FRACTION: f64 = 1.0 / 32.0;

/// A column that a scan reads of a segment.
pub(crate) struct Read {
    pub(super) column: usize,
    bytes_per_row: f64,
    lies: Where,
    dictionary: Option<ReadDictionary>,
    /// What its codes are called in the statement's account.
    item: Item,
}

/// A dictionary that lies in memory.
struct ReadDictionary {
    /// Of one value, about; at most a line.
    bytes_per_value: f64,
    /// All of it.
    bytes: u64,
    lies: Where,
}

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

/// Where a scan's columns are looked up.
#[derive(Clone, Copy)]
pub(crate) enum Lookup<'a> {
    /// There is a choice of nodes.
    Maps(&'a PageMaps),
    /// There is one node.
    Only(NodeId),
    /// Nobody asks.
    Nowhere,
}

impl Read {
    /// A column of a segment of `part`; `table` is its number in the statement's account.
    pub(super) fn new(segment: &Segment, column: usize, lookup: Lookup<'_>, (table, part): (u32, u32)) -> Read {
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
    pub(super) fn locator(&self) -> Option<&Locator> {
        match &self.lies {
            Where::Granules(locator) => Some(locator).filter(|locator| locator.tells()),
            _ => None,
        }
    }
}

impl ReadDictionary {
    /// That of a column, unless its values are computed.
    fn of(column: &Column, lookup: Lookup<'_>) -> Option<ReadDictionary> {
        let dictionary = column.as_coded()?.dictionary();
        if dictionary.encoding() == Encoding::Affine || dictionary.is_empty() {
            return None;
        }
        let bytes = dictionary.bytes() as u64;
        let regions = || column.components().into_iter().filter(|(component, _)| *component == Component::Dictionary);
        let mut nodes: Vec<NodeId> = regions().flat_map(|(_, region)| region.policy().nodes()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let lies = match lookup {
            Lookup::Only(node) => Where::Only(node),
            Lookup::Nowhere => Where::Unknown,
            Lookup::Maps(_) if dictionary.is_replicated() => Where::Copies(nodes),
            Lookup::Maps(_) => Where::Spread(nodes),
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
    let mut nodes: Vec<NodeId> = regions.flat_map(|(_, region)| region.policy().nodes()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// What a row of a segment is expected to cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PerRow {
    bytes: f64,
    cpu_ps: f64,
}

/// What is known of a segment before its morsels run.
pub(super) struct Expected<'a> {
    pub(super) reads: &'a [Read],
    /// Columns that the filter reads, once per test.
    pub(super) code_tests: &'a [usize],
    pub(super) row_tests: &'a [usize],
    /// Columns that are materialised, and bytes of a row of the output.
    pub(super) outputs: &'a [usize],
    pub(super) output_bytes: u64,
    /// Share of rows that are expected to pass.
    pub(super) fraction: f64,
}

impl PerRow {
    pub(super) fn of(expected: &Expected<'_>) -> PerRow {
        let width =
            |column: &usize| expected.reads.iter().find(|r| r.column == *column).map_or(0.0, |r| r.bytes_per_row);
        let tested: Vec<usize> = expected.code_tests.iter().chain(expected.row_tests).copied().collect();
        let scanned: f64 = tested.iter().map(width).sum();
        // Of a column that is only materialised, every line that holds a surviving row.
        let gathered = expected.outputs.iter().filter(|column| !tested.contains(column)).map(|column| {
            let width = width(column);
            width.min(expected.fraction * LINE_BYTES)
        });
        let values = expected.fraction * expected.outputs.len() as f64;
        PerRow {
            bytes: scanned + gathered.sum::<f64>() + expected.fraction * expected.output_bytes as f64,
            cpu_ps: CODE_TEST_PS * expected.code_tests.len() as f64
                + ROW_TEST_PS * expected.row_tests.len() as f64
                + values
                    * match expected.fraction {
                        1.0.. => VALUE_PS,
                        MARKED_FRACTION.. => MARKED_VALUE_PS,
                        _ => GATHERED_VALUE_PS,
                    },
        }
    }

    /// So much time and no bytes.
    #[cfg(test)]
    pub(super) fn of_cpu(cpu_ps: f64) -> PerRow {
        PerRow { bytes: 0.0, cpu_ps }
    }

    /// What `n` rows are expected to cost, on top of `hint`.
    pub(super) fn add_to(&self, hint: &mut Hint, rows: usize) {
        hint.bytes += (self.bytes * rows as f64) as u64;
        hint.cpu_ns += (self.cpu_ps * rows as f64 / 1000.0) as u64;
    }
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
    pub(super) fn new(reads: Arc<[Read]>, granule: usize, rows: usize) -> Counter {
        let bytes = reads.iter().map(|_| Bytes::default()).collect();
        Counter { reads, rows, granule, bytes }
    }

    /// Notes that the codes of these rows of a column are read.
    pub(crate) fn reads(&self, column: usize, rows: &Rows<'_>, phase: TouchPhase) {
        let Some(place) = self.place(column) else { return };
        let width = self.reads[place].bytes_per_row;
        let bytes = match rows {
            Rows::Range(range) => width * range.len() as f64,
            Rows::Marked(marked) => width * marked.rows.len() as f64,
            Rows::Positions(positions) => {
                (width.max(LINE_BYTES) * positions.len() as f64).min(width * self.rows as f64)
            }
        };
        let counter = match phase {
            TouchPhase::Find => &self.bytes[place].found,
            _ => &self.bytes[place].materialized,
        };
        counter.fetch_add(bytes as u64, Relaxed);
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
        for (read, bytes) in self.reads.iter().zip(&self.bytes) {
            for (phase, bytes) in [(TouchPhase::Find, &bytes.found), (TouchPhase::Materialize, &bytes.materialized)] {
                read.lies.deal_out(self.granule, bytes.swap(0, Relaxed), &|node, bytes| {
                    traffic::note(read.item, phase, node, bytes);
                });
            }
            let Some(dictionary) = &read.dictionary else { continue };
            // What is read again and again comes from memory once.
            let values = bytes.values.swap(0, Relaxed).min(dictionary.bytes);
            let item = Item { component: TouchedComponent::Dictionary, ..read.item };
            dictionary.lies.deal_out(self.granule, values, &|node, bytes| {
                traffic::note(item, TouchPhase::Materialize, node, bytes);
            });
        }
    }
}

impl Where {
    /// Deals bytes that a task on this thread read out to the nodes that hold them.
    fn deal_out(&self, granule: usize, bytes: u64, to: &dyn Fn(NodeId, u64)) {
        match self {
            _ if bytes == 0 => {}
            Where::Only(node) => to(*node, bytes),
            Where::Granules(locator) => locator.deal_out(granule, bytes, &mut |node, bytes| to(node, bytes)),
            // Readers take the copy of the node they run on, else the first.
            Where::Copies(nodes) => {
                let here = current_node().filter(|node| nodes.contains(node));
                here.or(nodes.first().copied()).into_iter().for_each(|node| to(node, bytes));
            }
            Where::Spread(nodes) => {
                let share = bytes / nodes.len().max(1) as u64;
                nodes.iter().for_each(|node| to(*node, share));
            }
            Where::Unknown => {}
        }
    }
}
