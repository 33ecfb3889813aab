//! What was read of which column since the last look, by node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use exec::TouchedComponent;
use numa::NodeId;
use numa::probe::{SystemClock, node_free_bytes, read_bandwidth};
use placer::{Dictionary, Item, ItemId, Lies, Node, Observation};
use storage::{GRANULE_ROWS, Placement};

use crate::catalog::TableEntry;
use crate::run::inner::Inner;

/// Of the same tasks, bytes of each column of a set of one table, by the table and the names of the columns.
type ReadTogether = HashMap<(Arc<str>, Vec<String>), Vec<u64>>;

/// What was read of a column.
#[derive(Debug, Default)]
struct Read {
    /// Bytes and nanoseconds of cpus, by the node on which what was read lies.
    by_node: HashMap<NodeId, (u64, u64)>,
    /// Bytes that cpus of other nodes read, and of those what was of the dictionary.
    remote: u64,
    remote_dictionary: u64,
}

/// What is known from the last look.
#[derive(Debug, Default)]
pub(super) struct Before {
    at: Option<Instant>,
    /// By table and column.
    read: HashMap<(Arc<str>, String), Read>,
    together: ReadTogether,
    /// Rows that were written, by table.
    written: HashMap<u64, u64>,
}

/// The nodes that columns may lie on: those that columns are dealt out to first, behind them memory without cpus.
fn nodes(inner: &Inner) -> Vec<NodeId> {
    let catalog = &inner.catalog;
    catalog.usual_nodes().iter().chain(catalog.further_nodes()).copied().collect()
}

/// Whether there is anything to choose from.
pub(super) fn has_choice(inner: &Inner) -> bool {
    nodes(inner).len() > 1
}

/// What was read since the last look; `None` at the first one.
pub(super) fn observe(inner: &Inner, before: &mut Before) -> Option<Observation> {
    let ids = nodes(inner);
    let read = read_by_column(inner);
    let now = Instant::now();
    let since = before.at.replace(now);
    let old = std::mem::replace(&mut before.read, read);
    let old_together = std::mem::replace(&mut before.together, read_together(inner));
    let bandwidth = inner.placer.bandwidth.get_or_init(|| bandwidths(inner, &ids));
    let seconds = (now - since?).as_secs_f64();
    let state = inner.catalog.state();
    let mut items = Vec::new();
    let mut places = HashMap::new();
    let mut written = HashMap::new();
    // How large columns are that are on the disk alone nobody knows yet.
    let is_known = |table: &&Arc<TableEntry>| table.placement.parts() <= 1 && table.meta.is_resident();
    for table in state.tables().filter(is_known) {
        let rows = table.meta.written_rows();
        written.insert(table.id, rows);
        let rows = before.written.get(&table.id).map_or(0, |before| rows.saturating_sub(*before));
        for (column, item) in items_of(table, &ids, rows, &before.read, &old) {
            places.insert(column, items.len());
            items.push(item);
        }
    }
    before.written = written;
    let together = pairs(&before.together, &old_together, &places);
    let usable = inner.topology.usable_cpus();
    let is_limited = inner.topology.memory_limit_bytes().is_some_and(|limit| limit <= inner.topology.memory_bytes());
    let node = |id: &NodeId| {
        let cpus = inner.topology.node(*id).map_or(0, |node| node.cpus.iter().filter(|c| usable.contains(c)).count());
        let bandwidth = bandwidth.get(id).copied().unwrap_or(f64::INFINITY);
        let free_bytes = node_free_bytes(&inner.topology, *id);
        // Where it is the process that may take no more, no other node has more room.
        let bytes = if is_limited { 0 } else { inner.topology.node(*id).map_or(0, |node| node.memory_bytes) };
        let package = inner.topology.home_package(*id).map(|package| package.0);
        Node { id: *id, bandwidth, cpus: cpus as f64, bytes, free_bytes, package }
    };
    Some(Observation { seconds, nodes: ids.iter().map(node).collect(), items, together })
}

/// Bytes of two items, by their places, that were read by tasks that read both, since an earlier look.
fn pairs(
    now: &ReadTogether,
    then: &ReadTogether,
    places: &HashMap<(Arc<str>, String), usize>,
) -> Vec<(usize, usize, u64)> {
    let mut pairs: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (set, bytes) in now {
        let then = then.get(set);
        let (table, columns) = set;
        let since = |(place, column): (usize, &String)| {
            let before = then.map_or(0, |then| then[place]);
            Some((*places.get(&(Arc::clone(table), column.clone()))?, bytes[place].saturating_sub(before)))
        };
        let read: Vec<(usize, u64)> = columns.iter().enumerate().filter_map(since).collect();
        for (n, (a, of_a)) in read.iter().enumerate() {
            for (b, of_b) in read[n + 1..].iter().filter(|(_, of_b)| of_a + of_b > 0) {
                *pairs.entry((*a.min(b), *a.max(b))).or_default() += of_a + of_b;
            }
        }
    }
    pairs.into_iter().map(|((a, b), bytes)| (a, b, bytes)).collect()
}

fn read_together(inner: &Inner) -> ReadTogether {
    let mut all = ReadTogether::new();
    for set in inner.traffic.together() {
        let (names, bytes): (Vec<String>, Vec<u64>) = set.columns.into_iter().unzip();
        // A table that was altered has sets of the same names twice.
        let known = all.entry((set.table, names)).or_insert_with(|| vec![0; bytes.len()]);
        known.iter_mut().zip(bytes).for_each(|(known, bytes)| *known += bytes);
    }
    all
}

/// What each node's memory gives its own cpus, or where it has none those that read it fastest: by the figures of the
/// machine where there are any, else as measured now, which takes a fifth of a second per node.
fn bandwidths(inner: &Inner, ids: &[NodeId]) -> HashMap<NodeId, f64> {
    let usual = inner.catalog.usual_nodes();
    let given = |id: &NodeId| {
        let attributes = inner.attributes.as_ref()?;
        let from = |reader: &NodeId| attributes.read_bytes_per_second(*reader, *id);
        let of_readers = || usual.iter().filter_map(from).max_by(f64::total_cmp);
        Some((*id, if usual.contains(id) { from(id)? } else { of_readers()? }))
    };
    let known: HashMap<NodeId, f64> = ids.iter().filter_map(given).collect();
    if known.len() == ids.len() {
        return known;
    }
    let cpus = inner.topology.usable_cpus().len();
    let sum = read_bandwidth(&inner.topology, cpus, &SystemClock::new());
    // Without a figure cpus decide.
    let each = sum.map_or(f64::INFINITY, |sum| sum / usual.len().max(1) as f64);
    ids.iter().map(|id| (*id, known.get(id).copied().unwrap_or(each))).collect()
}

fn read_by_column(inner: &Inner) -> HashMap<(Arc<str>, String), Read> {
    let mut all: HashMap<(Arc<str>, String), Read> = HashMap::new();
    for line in inner.traffic.lines() {
        let Some(column) = line.column else { continue };
        let read = all.entry((line.table, column)).or_default();
        let (bytes, busy) = read.by_node.entry(line.from).or_default();
        *bytes += line.touched.bytes;
        *busy += line.touched.busy_ns;
        if line.to.is_some_and(|to| to != line.from) {
            read.remote += line.touched.bytes;
            if line.component == TouchedComponent::Dictionary {
                read.remote_dictionary += line.touched.bytes;
            }
        }
    }
    all
}

/// The columns of a table, with its name and theirs; `written` rows were written.
fn items_of(
    table: &TableEntry,
    ids: &[NodeId],
    written: u64,
    read: &HashMap<(Arc<str>, String), Read>,
    before: &HashMap<(Arc<str>, String), Read>,
) -> Vec<((Arc<str>, String), Item)> {
    let shown: Arc<str> = table.name.shown().into();
    let schema = &table.base.schema;
    let placements = table.placement.columns(0, schema);
    let fields = schema.fields().iter().enumerate();
    let item = |(place, field): (usize, &Arc<arrow::datatypes::Field>)| {
        let key = (Arc::clone(&shown), field.name().clone());
        let (now, then) = (read.get(&key), before.get(&key));
        let since = |id: &NodeId| {
            let of = |read: Option<&Read>| read.and_then(|read| read.by_node.get(id)).copied().unwrap_or_default();
            let (now, then) = (of(now), of(then));
            (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1))
        };
        let remote = |of: fn(&Read) -> u64| now.map_or(0, of).saturating_sub(then.map_or(0, of));
        let columns = || table.base.segments().filter_map(|of| of.segment.stored_columns()[place].resident());
        let codes: usize = columns().map(|column| column.bytes_codes()).sum();
        let dictionary = columns().map(|column| column.bytes_dictionary()).max().unwrap_or(0);
        let places_of = |nodes: &[NodeId]| -> Option<Vec<usize>> {
            nodes.iter().map(|id| ids.iter().position(|known| known == id)).collect()
        };
        let lies = match &placements[place].codes {
            Placement::One(node) => places_of(std::slice::from_ref(node)).map(Lies::Ranges),
            Placement::Striped(nodes) => places_of(nodes).map(Lies::Ranges),
            Placement::Replicated(nodes) => places_of(nodes).map(Lies::Replicated),
            Placement::Local | Placement::Interleaved(_) => None,
        };
        let rows = table.base.segments().map(|version| version.segment.rows() as u64).sum::<u64>().max(1);
        let bytes = (codes + dictionary) as u64;
        let item = Item {
            id: ItemId { table: table.id, number: table.placement.number_of(field.name())? },
            bytes,
            served: ids.iter().map(|id| since(id).0).collect(),
            busy: ids.iter().map(|id| since(id).1 as f64 / 1e9).collect(),
            remote: remote(|read| read.remote),
            written: (u128::from(bytes) * u128::from(written) / u128::from(rows)).try_into().unwrap_or(u64::MAX),
            dictionary: Dictionary {
                bytes: dictionary as u64,
                remote: remote(|read| read.remote_dictionary),
                is_copied: matches!(placements[place].dictionary, Placement::Replicated(_)),
            },
            lies: lies.unwrap_or(Lies::Otherwise),
            // A run of IVP is of whole granules, and each segment begins with the next node.
            ranges_max: table.base.segments().map(|version| version.segment.rows().div_ceil(GRANULE_ROWS)).sum(),
            // Tables that are cut alike are tables in parts, which are left alone.
            like: None,
            is_users: table.placement.is_by_user(field.name()),
        };
        Some((key, item))
    };
    fields.filter_map(item).collect()
}
