//! A component of a column with its copies on several nodes, of which readers take the nearest.
//!
//! # Invariants
//! All copies hold the same bytes. A single copy is found by one comparison; only where there are several is the node
//! of the calling thread asked for.

use numa::{NodeId, current_node};

/// One component, or equal ones on several nodes.
#[derive(Debug, Clone)]
pub(crate) struct Copies<T> {
    first: T,
    /// The node of `first`, where `others` has any.
    first_node: Option<NodeId>,
    others: Vec<(NodeId, T)>,
}

impl<T> Copies<T> {
    /// A single one.
    pub(crate) fn one(first: T) -> Copies<T> {
        Copies { first, first_node: None, others: Vec::new() }
    }

    /// One on each of these nodes; there is at least one.
    pub(crate) fn on_nodes(mut copies: Vec<(NodeId, T)>) -> Copies<T> {
        let (node, first) = copies.remove(0);
        Copies { first, first_node: Some(node), others: copies }
    }

    /// The copy to read here: on the calling thread's node, else the first.
    #[inline]
    pub(crate) fn near(&self) -> &T {
        if self.others.is_empty() { &self.first } else { self.nearest() }
    }

    #[cold]
    #[inline(never)]
    fn nearest(&self) -> &T {
        current_node().map_or(&self.first, |node| self.on(node))
    }

    /// The copy on a node, else the first.
    pub(crate) fn on(&self, node: NodeId) -> &T {
        let other = self.others.iter().find(|(n, _)| *n == node);
        other.filter(|_| self.first_node != Some(node)).map_or(&self.first, |(_, copy)| copy)
    }

    /// The first copy.
    pub(crate) fn first(&self) -> &T {
        &self.first
    }

    /// Every copy.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(self.others.iter().map(|(_, copy)| copy))
    }

    /// Every copy with its node, where there are several; nothing for a single one.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (NodeId, &T)> {
        let first = self.first_node.filter(|_| !self.others.is_empty()).map(|node| (node, &self.first));
        first.into_iter().chain(self.others.iter().map(|(node, copy)| (*node, copy)))
    }

    /// Whether there are several.
    pub(crate) fn is_replicated(&self) -> bool {
        !self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_of_a_node_is_taken_or_the_first() {
        let one = Copies::one('a');
        assert_eq!((*one.near(), *one.on(NodeId(3)), one.placed().count()), ('a', 'a', 0));
        let three = Copies::on_nodes(vec![(NodeId(4), 'a'), (NodeId(0), 'b'), (NodeId(9), 'c')]);
        let taken = [0, 4, 9, 1].map(|node| *three.on(NodeId(node)));
        assert_eq!(taken, ['b', 'a', 'c', 'a']);
        assert_eq!((three.all().collect::<String>(), three.placed().count()), ("abc".into(), 3));
        assert_eq!(three.near(), three.on(current_node().unwrap_or(NodeId(1))));
    }
}
