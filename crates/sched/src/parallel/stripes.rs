//! The striping partitioner: which stripe of an array or a range belongs to which node. Pure.
//!
//! Invariants: stripes cover a range without gap or overlap; all but the last have the same length, a common multiple
//! of page and element size, counted from index 0. They are the chunks that [`Policy::Striped`] cuts memory of that
//! length into: of long memory, whose chunks are longer than was asked for, too.
//!
//! # Limits
//! Pages are taken to be 4 KiB on x86-64 and 64 KiB elsewhere, which is a multiple of what a kernel may use there.
//!
//! Source: Seidel 2011, NUMA Building Blocks, section 3.1.1 and 3.3.1 (Partitioner).

use std::ops::Range;

use numa::{NodeId, Policy, Topology};
use random::Random;

use super::grain::Grain;
use super::span::Span;
use super::workers::Workers;

/// What stripe lengths are multiples of.
pub(super) const PAGE_BYTES: u64 = if cfg!(target_arch = "x86_64") { 4 << 10 } else { 64 << 10 };

/// Deals stripes of an array or of a range to nodes, in turn.
///
/// ```
/// use numa::NodeId;
/// use sched::parallel::StripingPartitioner;
///
/// let nodes = vec![NodeId(0), NodeId(1)];
/// let partitioner = StripingPartitioner::new(nodes).with_stripe_bytes(1 << 20);
/// let stripes: Vec<_> = partitioner.stripes(300_000, size_of::<u64>()).collect();
/// assert_eq!(stripes[0], (0..131_072, Some(NodeId(0))));
/// assert_eq!(stripes[1], (131_072..262_144, Some(NodeId(1))));
/// assert_eq!(stripes[2], (262_144..300_000, Some(NodeId(0))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripingPartitioner {
    nodes: Vec<NodeId>,
    stripe_bytes: u64,
    grain: Grain,
}

impl StripingPartitioner {
    /// The length of a stripe that NBB found good in many cases.
    pub const STRIPE_BYTES: u64 = 1 << 20;
    /// The grain that NBB found best.
    const GRAIN_BYTES: u64 = 256 << 10;

    /// Stripes of [`StripingPartitioner::STRIPE_BYTES`] on these nodes, in this order, again and again; a node may be
    /// named more than once. Without nodes there is one stripe, which lies nowhere in particular.
    pub fn new(nodes: Vec<NodeId>) -> StripingPartitioner {
        StripingPartitioner {
            nodes,
            stripe_bytes: StripingPartitioner::STRIPE_BYTES,
            grain: Grain::Bytes(StripingPartitioner::GRAIN_BYTES),
        }
    }

    /// As [`StripingPartitioner::new`], on all nodes of a machine that the process may have memory of.
    pub fn all_nodes(topology: &Topology) -> StripingPartitioner {
        StripingPartitioner::new(topology.usable_memory_nodes().to_vec())
    }

    /// The same with stripes of at least this many bytes, rounded up to a common multiple of page and element size when
    /// they are used.
    #[must_use]
    pub fn with_stripe_bytes(self, stripe_bytes: u64) -> StripingPartitioner {
        StripingPartitioner { stripe_bytes, ..self }
    }

    /// Random striping: the nodes in an order drawn from `seed`, each as often as before (but for one), over `n`
    /// stripes; then again from the start.
    #[must_use]
    pub fn shuffled(mut self, stripes: usize, seed: u64) -> StripingPartitioner {
        let mut nodes: Vec<NodeId> = self.nodes.iter().copied().cycle().take(stripes).collect();
        Random::new(seed).shuffle(&mut nodes);
        if !nodes.is_empty() {
            self.nodes = nodes;
        }
        self
    }

    /// The nodes, in the order of the stripes.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The grain of its loops: 256 KiB.
    pub fn grain(&self) -> Grain {
        self.grain
    }

    /// How many elements a stripe of `len` elements of this size has: the least common multiple of page and element
    /// size, as often as the stripe's length needs, and as often that as 256 stripes at most need. Elements of no size
    /// count as one byte.
    pub fn stripe_elements(&self, len: usize, element_bytes: usize) -> usize {
        let element = element_bytes.max(1) as u64;
        let len_bytes = (len as u64).saturating_mul(element);
        let stripe = Policy::chunk_within(self.chunk_bytes(element), len_bytes, PAGE_BYTES);
        usize::try_from(stripe / element).unwrap_or(usize::MAX)
    }

    /// What a stripe has when there are few: a common multiple of page and element size.
    fn chunk_bytes(&self, element: u64) -> u64 {
        let multiple = element / greatest_common_divisor(element, PAGE_BYTES) * PAGE_BYTES;
        self.stripe_bytes.max(1).checked_next_multiple_of(multiple).unwrap_or(multiple)
    }

    /// What an allocator must be asked for, so that elements of this size lie as the stripes say.
    pub fn policy(&self, element_bytes: usize) -> Policy {
        match self.nodes.as_slice() {
            [] => Policy::Local,
            [node] => Policy::Node(*node),
            nodes => {
                Policy::Striped { nodes: nodes.to_vec(), chunk_bytes: self.chunk_bytes(element_bytes.max(1) as u64) }
            }
        }
    }

    /// The node of one of `len` elements of this size.
    pub fn node_of(&self, index: usize, len: usize, element_bytes: usize) -> Option<NodeId> {
        let stripe = index / self.stripe_elements(len, element_bytes);
        (!self.nodes.is_empty()).then(|| self.nodes[stripe % self.nodes.len()])
    }

    /// The stripes of `len` elements of this size and their nodes (NBB's `nodewise_action`).
    pub fn stripes(&self, len: usize, element_bytes: usize) -> impl Iterator<Item = (Range<usize>, Option<NodeId>)> {
        self.stripes_of(0..len, len, element_bytes)
    }

    /// A range whose indices stand for some of `len` elements of this size in memory that is striped like this, for a
    /// loop over memory that is no [`StripedArray`](super::StripedArray).
    pub fn over(&self, range: Range<usize>, len: usize, element_bytes: usize) -> Partitioned<'_> {
        Partitioned { partitioner: self, range, len, element_bytes }
    }

    fn stripes_of(
        &self,
        range: Range<usize>,
        len: usize,
        element_bytes: usize,
    ) -> impl Iterator<Item = (Range<usize>, Option<NodeId>)> {
        let stripe = if self.nodes.is_empty() { usize::MAX } else { self.stripe_elements(len, element_bytes) };
        let mut next = range.start;
        std::iter::from_fn(move || {
            let start = next;
            let number = start / stripe;
            next = (number + 1).saturating_mul(stripe).min(range.end);
            let node = (!self.nodes.is_empty()).then(|| self.nodes[number % self.nodes.len()]);
            (start < range.end).then_some((start..next, node))
        })
    }
}

/// A range of indices that a [`StripingPartitioner`] lays stripes over: see [`StripingPartitioner::over`].
#[derive(Clone, Debug)]
pub struct Partitioned<'a> {
    partitioner: &'a StripingPartitioner,
    range: Range<usize>,
    /// Elements of the memory as a whole, which says how long its stripes are.
    len: usize,
    element_bytes: usize,
}

impl Span for Partitioned<'_> {
    fn pieces(&self, workers: &dyn Workers) -> Vec<(Option<NodeId>, Range<usize>)> {
        if !workers.have_nodes() {
            return vec![(None, self.range.clone())];
        }
        let stripes = self.partitioner.stripes_of(self.range.clone(), self.len, self.element_bytes);
        joined(stripes.map(|(range, node)| (node, range)))
    }

    fn element_bytes(&self) -> usize {
        self.element_bytes
    }
}

/// Stretches side by side on one node, as one.
pub(super) fn joined(
    pieces: impl Iterator<Item = (Option<NodeId>, Range<usize>)>,
) -> Vec<(Option<NodeId>, Range<usize>)> {
    let mut joined: Vec<(Option<NodeId>, Range<usize>)> = Vec::new();
    for (node, range) in pieces.filter(|(_, range)| !range.is_empty()) {
        match joined.last_mut() {
            Some((last, before)) if *last == node && before.end == range.start => before.end = range.end,
            _ => joined.push((node, range)),
        }
    }
    joined
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(ids: &[u32]) -> Vec<NodeId> {
        ids.iter().map(|id| NodeId(*id)).collect()
    }

    #[test]
    fn the_defaults_are_those_of_nbb() {
        let partitioner = StripingPartitioner::new(nodes(&[0, 1]));
        assert_eq!(partitioner.stripe_elements(1, 8) * 8, 1 << 20);
        assert_eq!(partitioner.stripe_elements(256 << 17, 8) * 8, 1 << 20);
        assert_eq!(partitioner.stripe_elements((256 << 17) + 1, 8) * 8, 2 << 20);
        assert_eq!(partitioner.grain().fixed(4), Some(64 << 10));
        assert_eq!(partitioner.policy(8), Policy::Striped { nodes: nodes(&[0, 1]), chunk_bytes: 1 << 20 });
        assert_eq!(StripingPartitioner::new(nodes(&[3])).policy(8), Policy::Node(NodeId(3)));
        assert_eq!(StripingPartitioner::new(Vec::new()).policy(8), Policy::Local);
    }

    #[test]
    fn odd_elements_get_stripes_of_whole_pages() {
        let partitioner = StripingPartitioner::new(nodes(&[0, 1])).with_stripe_bytes(1);
        let elements = partitioner.stripe_elements(1, 24) as u64;
        assert!((elements * 24).is_multiple_of(PAGE_BYTES));
        assert_eq!(elements * 24, 3 * PAGE_BYTES);
    }

    #[test]
    fn shuffling_keeps_the_shares() {
        let shuffled = StripingPartitioner::new(nodes(&[0, 1, 2, 3])).shuffled(64, 7);
        for node in 0..4 {
            assert_eq!(shuffled.nodes().iter().filter(|n| n.0 == node).count(), 16);
        }
        let again = StripingPartitioner::new(nodes(&[0, 1, 2, 3])).shuffled(64, 7);
        assert_eq!(shuffled, again, "drawn from the seed and nothing else");
        let other = StripingPartitioner::new(nodes(&[0, 1, 2, 3])).shuffled(64, 8);
        assert_ne!(shuffled, other);
        assert_ne!(shuffled.nodes()[..4], shuffled.nodes()[4..8], "no mere rotation");
        assert_eq!(StripingPartitioner::new(nodes(&[5])).shuffled(0, 1).nodes(), nodes(&[5]));
    }

    proptest! {
        #[test]
        fn stripes_cover_and_agree_with_node_of_and_with_the_policy(
            ids in proptest::collection::vec(0u32..5, 0..6), stripe_bytes in 1u64..40_000, element_bytes in 1usize..50,
            len in prop_oneof![0usize..20_000, 0usize..2_000_000], start in 0usize..20_000,
        ) {
            let partitioner = StripingPartitioner::new(nodes(&ids)).with_stripe_bytes(stripe_bytes);
            let start = start.min(len);
            let (mut next, mut stripes) = (start, 0);
            for (range, node) in partitioner.stripes_of(start..len, len, element_bytes) {
                prop_assert!(range.start == next && range.end > next);
                for index in [range.start, range.end - 1] {
                    prop_assert_eq!(partitioner.node_of(index, len, element_bytes), node);
                }
                next = range.end;
                stripes += 1;
            }
            prop_assert_eq!(next, len);
            prop_assert!(stripes <= 256);
            // Where the memory lies by the policy: a different piece of code.
            let bytes = (len * element_bytes) as u64;
            for (bytes, node) in partitioner.policy(element_bytes).cuts(bytes, PAGE_BYTES) {
                let first = bytes.start.div_ceil(element_bytes as u64) as usize;
                let last = (bytes.end - 1) as usize / element_bytes;
                prop_assert_eq!(partitioner.node_of(first, len, element_bytes), Some(node));
                prop_assert_eq!(partitioner.node_of(last, len, element_bytes), Some(node));
            }
        }
    }
}
