//! A component of a column with its copies on several nodes, of which readers take the nearest.
//!
//! # Invariants
//! All copies hold the same bytes. A single copy is found by one comparison; only where there are several is the node
//! of the calling thread asked for. Which copy stands in on a node without one is decided when copies are made, by the
//! distances of this machine, as [`numa::nearest_node`] has it: whoever accounts for what is read asks that.

use numa::{NodeId, current_node, nearest_node, online_nodes};

/// One component, or equal ones on several nodes.
#[derive(Debug, Clone)]
pub(crate) struct Copies<T> {
    first: T,
    /// The node of `first`, where `others` has any.
    first_node: Option<NodeId>,
    others: Vec<(NodeId, T)>,
    /// Online nodes without a copy for which one of `others` is the nearest, and which.
    stand_ins: Vec<(NodeId, usize)>,
}

impl<T> Copies<T> {
    /// A single one.
    pub(crate) fn one(first: T) -> Copies<T> {
        Copies { first, first_node: None, others: Vec::new(), stand_ins: Vec::new() }
    }

    /// One on each of these nodes; there is at least one.
    pub(crate) fn on_nodes(copies: Vec<(NodeId, T)>) -> Copies<T> {
        Copies::near_to(copies, &online_nodes(), &nearest_node)
    }

    /// With the copy that `nearest` names, by its place, for each of these nodes.
    fn near_to(
        mut copies: Vec<(NodeId, T)>,
        online: &[NodeId],
        nearest: &dyn Fn(NodeId, &[NodeId]) -> Option<usize>,
    ) -> Copies<T> {
        let nodes: Vec<NodeId> = copies.iter().map(|(node, _)| *node).collect();
        let without = online.iter().filter(|node| !nodes.contains(node));
        let stand_in = |node: &NodeId| Some((*node, nearest(*node, &nodes)?.checked_sub(1)?));
        let stand_ins = without.filter_map(stand_in).collect();
        let (node, first) = copies.remove(0);
        Copies { first, first_node: Some(node), others: copies, stand_ins }
    }

    /// The copy to read here: the one nearest to the calling thread.
    #[inline]
    pub(crate) fn near(&self) -> &T {
        if self.others.is_empty() { &self.first } else { self.nearest() }
    }

    #[cold]
    #[inline(never)]
    fn nearest(&self) -> &T {
        current_node().map_or(&self.first, |node| self.on(node))
    }

    /// The copy on a node, else the nearest one, and the first for a node that this machine does not have.
    pub(crate) fn on(&self, node: NodeId) -> &T {
        if self.first_node == Some(node) {
            return &self.first;
        }
        let own = self.others.iter().find(|(n, _)| *n == node).map(|(_, copy)| copy);
        let stand_in = || self.stand_ins.iter().find(|(n, _)| *n == node).map(|(_, place)| &self.others[*place].1);
        own.or_else(stand_in).unwrap_or(&self.first)
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
    fn a_node_without_a_copy_reads_the_nearest() {
        // Two packages of two nodes each: 12 apart within one, 21 between them.
        let machine = numa::Topology::synthetic(2, 2, 1, 1);
        let online: Vec<NodeId> = machine.nodes().iter().map(|node| node.id).collect();
        let near = |from: NodeId, nodes: &[NodeId]| machine.nearest_of(from, nodes);
        for copies in [vec![0, 2], vec![2, 0], vec![1, 3], vec![3, 1, 0], vec![3], vec![2, 3]] {
            let of = Copies::near_to(copies.iter().map(|n| (NodeId(*n), *n)).collect(), &online, &near);
            for node in &online {
                let least = copies.iter().map(|n| machine.distance(*node, NodeId(*n))).min().unwrap();
                let taken = *of.on(*node);
                assert_eq!(machine.distance(*node, NodeId(taken)), least, "{node} of {copies:?} reads {taken}");
            }
        }
    }

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
