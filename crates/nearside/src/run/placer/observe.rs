//! What was read of which column since the last look, by node.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use numa::NodeId;
use numa::probe::{SystemClock, node_free_bytes, read_bandwidth};
use placer::{Item, ItemId, Lies, Node, Observation};
use storage::{GRANULE_ROWS, Placement};

use crate::catalog::TableEntry;
use crate::run::inner::Inner;

/// Of the same tasks, bytes of each column of a set of one table, by the table and the names of the columns.
type ReadTogether = HashMap<(Arc<str>, Vec<String>), Vec<u64>>;

/// Bytes and nanoseconds of cpus, by the node on which what was read lies.
type Read = HashMap<NodeId, (u64, u64)>;

/// What is known from the last look.
#[derive(Debug, Default)]
pub(super) struct Before {
    at: Option<Instant>,
    /// By table and column.
    read: HashMap<(Arc<str>, String), Read>,
    together: ReadTogether,
}

/// The nodes that columns are dealt out to.
pub(super) fn nodes(inner: &Inner) -> Vec<NodeId> {
    inner.catalog.usual_nodes().to_vec()
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
    for table in state.tables().filter(|table| table.placement.parts() <= 1) {
        for (column, item) in items_of(table, &ids, &before.read, &old) {
            places.insert(column, items.len());
            items.push(item);
        }
    }
    let together = pairs(&before.together, &old_together, &places);
    let usable = inner.topology.usable_cpus();
    let node = |id: &NodeId| {
        let cpus = inner.topology.node(*id).map_or(0, |node| node.cpus.iter().filter(|c| usable.contains(c)).count());
        let bandwidth = bandwidth.get(id).copied().unwrap_or(f64::INFINITY);
        let free_bytes = node_free_bytes(&inner.topology, *id);
        Node { id: *id, bandwidth, cpus: cpus as f64, free_bytes }
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

/// What each node's memory gives its own cpus: by the figures of the machine where there are any, else as measured now,
/// which takes a fifth of a second per node.
fn bandwidths(inner: &Inner, ids: &[NodeId]) -> HashMap<NodeId, f64> {
    let given = |id: &NodeId| Some((*id, inner.attributes.as_ref()?.read_bytes_per_second(*id, *id)?));
    let known: HashMap<NodeId, f64> = ids.iter().filter_map(given).collect();
    if known.len() == ids.len() {
        return known;
    }
    let cpus = inner.topology.usable_cpus().len();
    let sum = read_bandwidth(&inner.topology, cpus, &SystemClock::new());
    // Without a figure cpus decide.
    let each = sum.map_or(f64::INFINITY, |sum| sum / ids.len() as f64);
    ids.iter().map(|id| (*id, known.get(id).copied().unwrap_or(each))).collect()
}

fn read_by_column(inner: &Inner) -> HashMap<(Arc<str>, String), Read> {
    let mut all: HashMap<(Arc<str>, String), Read> = HashMap::new();
    for line in inner.traffic.lines() {
        let Some(column) = line.column else { continue };
        let (bytes, busy) = all.entry((line.table, column)).or_default().entry(line.from).or_default();
        *bytes += line.touched.bytes;
        *busy += line.touched.busy_ns;
    }
    all
}

/// The columns of a table, with its name and theirs.
fn items_of(
    table: &TableEntry,
    ids: &[NodeId],
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
            let of = |read: Option<&Read>| read.and_then(|read| read.get(id)).copied().unwrap_or_default();
            let (now, then) = (of(now), of(then));
            (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1))
        };
        let columns = || table.base.segments().map(|version| version.segment.column(place));
        let codes: usize = columns().map(|column| column.bytes_codes()).sum();
        let dictionary = columns().map(|column| column.bytes_dictionary()).max().unwrap_or(0);
        let place_of = |id: &NodeId| ids.iter().position(|known| known == id);
        let lies = match &placements[place].codes {
            Placement::One(node) => place_of(node).map(|place| vec![place]),
            Placement::Striped(nodes) => nodes.iter().map(place_of).collect(),
            Placement::Local | Placement::Interleaved(_) | Placement::Replicated(_) => None,
        };
        let item = Item {
            id: ItemId { table: table.id, number: table.placement.number_of(field.name())? },
            bytes: (codes + dictionary) as u64,
            served: ids.iter().map(|id| since(id).0).collect(),
            busy: ids.iter().map(|id| since(id).1 as f64 / 1e9).collect(),
            lies: lies.map_or(Lies::Otherwise, Lies::Ranges),
            // A run of IVP is of whole granules, and each segment begins with the next node.
            ranges_max: table.base.segments().map(|version| version.segment.rows().div_ceil(GRANULE_ROWS)).sum(),
            is_users: table.placement.is_by_user(field.name()),
        };
        Some((key, item))
    };
    fields.filter_map(item).collect()
}
