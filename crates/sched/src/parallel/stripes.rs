//! The striping partitioner: on which node each stripe of an array shall lie. Pure.
//!
//! Invariant: all stripes of an array but the last have the same length, a common multiple of page and element size.
//!
//! # Limits
//! Pages are taken to be 4 KiB on x86-64 and 64 KiB elsewhere, which is a multiple of what a kernel may use there. An
//! array of more than 256 stripes gets longer ones (see [`Policy::Striped`]).
//!
//! Source: Seidel 2011, NUMA Building Blocks, section 3.1.1 and 3.3.1 (Partitioner).

use numa::{NodeId, Policy};

/// What stripe lengths are multiples of.
pub(super) const PAGE_BYTES: u64 = if cfg!(target_arch = "x86_64") { 4 << 10 } else { 64 << 10 };
/// The length of a stripe that NBB found good in many cases.
const STRIPE_BYTES: u64 = 1 << 20;

/// Deals stripes of 1 MiB, or a little more where elements have odd sizes, to nodes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripingPartitioner {
    nodes: Vec<NodeId>,
    stripe_bytes: u64,
}

impl StripingPartitioner {
    /// Stripes on these nodes, in this order, again and again; a node may be named more than once. Without nodes there
    /// is one stripe, which lies nowhere in particular.
    pub fn new(nodes: Vec<NodeId>) -> StripingPartitioner {
        StripingPartitioner { nodes, stripe_bytes: STRIPE_BYTES }
    }

    /// The same with short stripes, so that little memory has several.
    #[cfg(test)]
    pub(super) fn with_stripe_bytes(self, stripe_bytes: u64) -> StripingPartitioner {
        StripingPartitioner { stripe_bytes, ..self }
    }

    /// What an allocator must be asked for, so that elements of this size lie in stripes.
    pub(super) fn policy(&self, element_bytes: usize) -> Policy {
        match self.nodes.as_slice() {
            [] => Policy::Local,
            [node] => Policy::Node(*node),
            nodes => {
                Policy::Striped { nodes: nodes.to_vec(), chunk_bytes: self.chunk_bytes(element_bytes.max(1) as u64) }
            }
        }
    }

    /// The length of a stripe: the least common multiple of page and element size, as often as is needed.
    fn chunk_bytes(&self, element: u64) -> u64 {
        let multiple = element / greatest_common_divisor(element, PAGE_BYTES) * PAGE_BYTES;
        self.stripe_bytes.max(1).checked_next_multiple_of(multiple).unwrap_or(multiple)
    }
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
    fn one_node_takes_all_and_no_node_leaves_it_open() {
        let partitioner = StripingPartitioner::new(nodes(&[0, 1]));
        assert_eq!(partitioner.policy(8), Policy::Striped { nodes: nodes(&[0, 1]), chunk_bytes: 1 << 20 });
        assert_eq!(StripingPartitioner::new(nodes(&[3])).policy(8), Policy::Node(NodeId(3)));
        assert_eq!(StripingPartitioner::new(Vec::new()).policy(8), Policy::Local);
    }

    proptest! {
        #[test]
        fn no_element_and_no_page_lies_on_two_nodes(stripe_bytes in 1u64..40_000, element_bytes in 1usize..50) {
            let partitioner = StripingPartitioner::new(nodes(&[0, 1])).with_stripe_bytes(stripe_bytes);
            let Policy::Striped { chunk_bytes, .. } = partitioner.policy(element_bytes) else {
                unreachable!("two nodes")
            };
            prop_assert!(chunk_bytes.is_multiple_of(PAGE_BYTES) && chunk_bytes.is_multiple_of(element_bytes as u64));
            prop_assert!(chunk_bytes >= stripe_bytes && chunk_bytes < stripe_bytes + PAGE_BYTES * element_bytes as u64);
        }
    }
}
