//! The routing table that everybody reads: a range table that changes whole, read without a latch and without writing.
//!
//! A reader takes what it needs of the table, and the roots of the trees that the table sends it to, between two looks
//! at a sequence number; where a change came in between, it takes all of it again. So table and roots belong together.
//! There is a replica of the table on each node, with a number of its own. See `README.md` beside this file.
//!
//! Invariants: one publisher at a time; what a reader was given is one published state, with the roots of that state.
//!
//! # Limits
//! As many ranges as there were places made for.

use numa::NodeId;

use super::table::{RangeTable, Split, range_of};
use crate::primitive::{AtomicU64, Ordering, fence};

/// See the module.
#[derive(Debug)]
pub(crate) struct Published {
    /// At least one; of one node at most one.
    replicas: Box<[Replica]>,
    /// By the number of a node, the place of the replica that its threads read; the first one's for nodes that are not
    /// here. Empty where there is one replica.
    nearest: Box<[usize]>,
    /// The most ranges.
    places: usize,
}

/// The words of one copy of the table, in memory of their own.
#[derive(Debug)]
pub(crate) struct Replica {
    /// Where the words lie; whose readers read them.
    node: Option<NodeId>,
    words: Words,
}

/// Where words are.
#[derive(Debug)]
enum Words {
    Heap(Box<[AtomicU64]>),
    #[cfg(not(loom))]
    Region(numa::AtomicRegion),
}

/// Words of a replica: the sequence number, odd while a table is being published; the number of ranges; and from the
/// next cache line on the ranges' first keys, then their owners.
const SEQUENCE: usize = 0;
const RANGES: usize = 1;
const FIRSTS: usize = 8;

/// What a reader sees of a table; whether it was whole is known afterwards.
pub(crate) struct View<'a> {
    firsts: &'a [AtomicU64],
    owners: &'a [AtomicU64],
    ranges: usize,
}

impl Replica {
    /// Memory for a copy of a table of so many ranges, for readers of one node or of all.
    pub(crate) fn on_heap(node: Option<NodeId>, places: usize) -> Replica {
        let words = (0..words_of(places)).map(|_| AtomicU64::new(0)).collect();
        Replica { node, words: Words::Heap(words) }
    }

    /// As [`on_heap`](Self::on_heap), where an allocator has it.
    #[cfg(not(loom))]
    pub(crate) fn of(
        node: Option<NodeId>,
        places: usize,
        allocator: &numa::Allocator,
    ) -> Result<Replica, numa::MemoryError> {
        let region = allocator.region(words_of(places) * size_of::<u64>())?;
        Ok(Replica { node, words: Words::Region(region.into()) })
    }

    fn words(&self) -> &[AtomicU64] {
        match &self.words {
            Words::Heap(words) => words,
            #[cfg(not(loom))]
            Words::Region(region) => region.words(),
        }
    }

    /// The memory, if it was an allocator's, for the page map.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn region(&self) -> Option<&numa::AtomicRegion> {
        match &self.words {
            Words::Heap(_) => None,
            Words::Region(region) => Some(region),
        }
    }

    fn store(&self, table: &RangeTable, places: usize) {
        let words = self.words();
        words[RANGES].store(table.ranges() as u64, Ordering::Relaxed);
        for (range, (first, owner)) in table.firsts().iter().zip(table.owners()).enumerate() {
            words[FIRSTS + range].store(*first, Ordering::Relaxed);
            words[FIRSTS + places + range].store(*owner as u64, Ordering::Relaxed);
        }
    }
}

fn words_of(places: usize) -> usize {
    FIRSTS + 2 * places
}

impl Published {
    /// A table, and places for as many ranges as `replicas` were made for.
    pub(crate) fn new(table: &RangeTable, places: usize, replicas: Vec<Replica>) -> Published {
        assert!(!replicas.is_empty() && table.ranges() <= places, "a table has memory and places");
        replicas.iter().for_each(|replica| replica.store(table, places));
        let nearest = match &replicas[..] {
            [_] => Box::default(),
            replicas => nearest_of(replicas, &numa::online_nodes(), numa::nearest_node),
        };
        Published { replicas: replicas.into(), nearest, places }
    }

    /// Its copies.
    pub(crate) fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// Whether there are places for a table's ranges.
    pub(crate) fn has_room(&self, table: &RangeTable) -> bool {
        table.ranges() <= self.places
    }

    /// Publishes a table together with what `switch` stores, which must not fail. Gives the table's number, greater
    /// than those of all before. The caller sees to it that nobody else publishes. All replicas are odd while one
    /// changes, so that what is switched belongs to each of them.
    pub(crate) fn publish(&self, table: &RangeTable, switch: impl FnOnce()) -> u64 {
        assert!(self.has_room(table), "places for ranges are asked for beforehand");
        let sequence = self.replicas[0].words()[SEQUENCE].load(Ordering::Relaxed);
        let number = |sequence: u64, order: Ordering| {
            self.replicas.iter().for_each(|replica| replica.words()[SEQUENCE].store(sequence, order));
        };
        number(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.replicas.iter().for_each(|replica| replica.store(table, self.places));
        switch();
        number(sequence + 2, Ordering::Release);
        sequence / 2 + 1
    }

    /// The copy that this thread reads: the one on its node, or nearest to it.
    #[inline]
    fn nearest(&self) -> &Replica {
        match &self.replicas[..] {
            [replica] => replica,
            replicas => {
                let here = numa::current_node().and_then(|node| self.nearest.get(node.0 as usize));
                &replicas[here.copied().unwrap_or(0)]
            }
        }
    }

    /// Takes something of a table; `take` is called again where the table changed meanwhile. Gives the table's number
    /// with it.
    #[inline]
    pub(crate) fn read<T>(&self, take: impl FnMut(&View<'_>) -> T) -> (T, u64) {
        self.read_of(self.nearest(), take)
    }

    /// As [`read`](Self::read), of one replica.
    fn read_of<T>(&self, replica: &Replica, mut take: impl FnMut(&View<'_>) -> T) -> (T, u64) {
        let words = replica.words();
        let (firsts, owners) = words[FIRSTS..FIRSTS + 2 * self.places].split_at(self.places);
        loop {
            let sequence = words[SEQUENCE].load(Ordering::Acquire);
            if sequence & 1 == 0 {
                let ranges = words[RANGES].load(Ordering::Relaxed) as usize;
                let taken = take(&View { firsts, owners, ranges });
                fence(Ordering::Acquire);
                if words[SEQUENCE].load(Ordering::Relaxed) == sequence {
                    return (taken, sequence / 2);
                }
            }
            #[cfg(not(loom))]
            std::hint::spin_loop();
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }
}

/// The place of the replica on each of these nodes, or nearest to it, by the node's number. `nearest` finds the node
/// among some that is nearest to one.
fn nearest_of(
    replicas: &[Replica],
    online: &[NodeId],
    nearest: impl Fn(NodeId, &[NodeId]) -> Option<usize>,
) -> Box<[usize]> {
    let placed: Vec<(usize, NodeId)> =
        replicas.iter().enumerate().filter_map(|(place, replica)| Some((place, replica.node?))).collect();
    let nodes: Vec<NodeId> = placed.iter().map(|(_, node)| *node).collect();
    let mut places = vec![0; online.iter().map(|node| node.0 as usize + 1).max().unwrap_or(0)];
    for node in online {
        places[node.0 as usize] = nearest(*node, &nodes).map_or(0, |at| placed[at].0);
    }
    places.into()
}

impl View<'_> {
    fn first(&self, range: usize) -> u64 {
        self.firsts[range].load(Ordering::Relaxed)
    }

    fn owner(&self, range: usize) -> usize {
        self.owners[range].load(Ordering::Relaxed) as usize
    }

    /// The unit that owns a key.
    #[inline]
    pub(crate) fn owner_of(&self, key: u64) -> usize {
        self.owner(range_of(self.ranges, |range| self.first(range), key))
    }

    /// Splits a batch over as many units.
    pub(crate) fn split(&self, keys: &[u64], units: usize, split: &mut Split) {
        split.fill(keys, units, |key| self.owner_of(key));
    }

    /// The parts of `first ..= last` that one unit each owns, in order: their first and last keys and the unit.
    pub(crate) fn parts(&self, first: u64, last: u64, parts: &mut Vec<(u64, u64, usize)>) {
        parts.clear();
        let mut range = range_of(self.ranges, |range| self.first(range), first);
        let mut from = first;
        loop {
            let end = if range + 1 < self.ranges { self.first(range + 1).wrapping_sub(1) } else { u64::MAX };
            parts.push((from, end.min(last), self.owner(range)));
            range += 1;
            if end >= last || range >= self.ranges {
                return;
            }
            from = end + 1;
        }
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_table() {
        let table = RangeTable::new(vec![0, 10, 20, 30]).unwrap().moved(12, 14, 3);
        let published = Published::new(&RangeTable::equal(1), 16, vec![Replica::on_heap(None, 16)]);
        assert!(published.nearest.is_empty());
        assert_eq!(published.read(|view| view.owner_of(12)), (0, 0));
        assert_eq!(published.publish(&table, || ()), 1);
        let mut parts = Vec::new();
        published.read(|view| view.parts(5, 25, &mut parts));
        assert_eq!(parts, [(5, 9, 0), (10, 11, 1), (12, 14, 3), (15, 19, 1), (20, 25, 2)]);
        published.read(|view| view.parts(13, 13, &mut parts));
        assert_eq!(parts, [(13, 13, 3)]);
        published.read(|view| view.parts(40, u64::MAX, &mut parts));
        assert_eq!(parts, [(40, u64::MAX, 3)]);
    }

    #[test]
    fn each_node_has_a_nearest_replica() {
        let of = |nodes: &[Option<u32>], online: &[u32]| {
            let replicas: Vec<Replica> = nodes.iter().map(|node| Replica::on_heap(node.map(NodeId), 1)).collect();
            let online: Vec<NodeId> = online.iter().map(|node| NodeId(*node)).collect();
            // Nodes lie on a line; of equally near ones the first.
            let near =
                |from: NodeId, among: &[NodeId]| (0..among.len()).min_by_key(|place| from.0.abs_diff(among[*place].0));
            nearest_of(&replicas, &online, near).to_vec()
        };
        assert_eq!(of(&[Some(0), Some(1)], &[0, 1]), [0, 1]);
        assert_eq!(of(&[None, Some(6), Some(1)], &[0, 1, 2, 4, 7]), [2, 2, 2, 0, 1, 0, 0, 1]);
        assert_eq!(of(&[None, None], &[0, 2]), [0, 0, 0]);
        assert_eq!(of(&[Some(3), Some(4)], &[]), [0; 0]);
    }

    #[test]
    fn every_replica_has_the_table_and_its_number() {
        let table = RangeTable::equal(3);
        let nodes = [Some(NodeId(0)), Some(NodeId(7)), None];
        let replicas: Vec<Replica> = nodes.iter().map(|node| Replica::on_heap(*node, 16)).collect();
        let published = Published::new(&table, 16, replicas);
        let after = table.moved(100, 200, 2);
        for replica in published.replicas() {
            assert_eq!(published.read_of(replica, |view| view.owner_of(150)), (0, 0));
        }
        assert_eq!(published.publish(&after, || ()), 1);
        for replica in published.replicas() {
            assert_eq!(published.read_of(replica, |view| (view.owner_of(150), view.owner_of(99))), ((2, 0), 1));
        }
        assert_eq!(published.read(|view| view.ranges), (after.ranges(), 1));
    }
}
