//! The pairs of a range of keys, in their order, as a reader sees them.

use super::slot::{Child, DIRECT_BITS, interval_end, interval_start};
use super::{Place, Root, Tree, agrees, slot_of};
use crate::versions::Pin;

impl Tree {
    /// Hands the pairs from `first` to `last`, both included, to `each`, in the order of keys, until it says that it
    /// has enough (`false`).
    pub fn range(&self, first: u64, last: u64, pin: &Pin, each: impl FnMut(u64, u64) -> bool) {
        self.range_in(self.root(), first, last, pin, &mut Vec::new(), each);
    }

    /// As [`range`](Self::range), from a root on; `buffer` is room for a leaf's pairs.
    pub(crate) fn range_in(
        &self,
        root: Root,
        first: u64,
        last: u64,
        pin: &Pin,
        buffer: &mut Vec<(u64, u64)>,
        mut each: impl FnMut(u64, u64) -> bool,
    ) {
        let mut next = first;
        while next <= last {
            let (child, end) = self.reach(root, next);
            if let Some(leaf) = self.leaf(child) {
                leaf.seen_pairs(&self.arena, pin, buffer);
                let start = buffer.partition_point(|pair| pair.0 < next);
                for (key, value) in &buffer[start..] {
                    if *key > last || !each(*key, *value) {
                        return;
                    }
                }
            }
            let Some(after) = end.checked_add(1) else { return };
            next = after;
        }
    }

    /// What holds a key, if anything does, and the last key up to which that is so.
    pub(super) fn reach(&self, root: Root, key: u64) -> (Child, u64) {
        let mut child = Child::of(root.0);
        let mut end = u64::MAX;
        loop {
            match child {
                Child::Inner { block, shift, bits, .. } => {
                    let prefix = self.prefix(block);
                    if !agrees(key, prefix, shift, bits) {
                        let start = interval_start(prefix, shift + bits);
                        // Nothing lies before the node's first key, and nothing behind its last in this interval.
                        return (Child::Empty, if key < start { start - 1 } else { end });
                    }
                    let slot = slot_of(key, shift, bits);
                    end = interval_end(key, shift);
                    child = self.child(Place::Slot { node: block, slot });
                }
                Child::Leaf { cover, .. } => return (child, interval_end(key, cover)),
                Child::Direct { .. } => return (child, interval_end(key, DIRECT_BITS)),
                Child::Empty => return (child, end),
            }
        }
    }
}
