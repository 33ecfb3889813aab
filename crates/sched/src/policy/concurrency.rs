//! The concurrency hint: how many tasks an operation may issue, and where a partitioned one starts.
//!
//! Invariants: at least one task, and at least one per partition; never more than needed to keep every cpu concerned
//! busy, but for rounding up to whole partitions.
//!
//! # Limits
//! Every active statement is taken to be as demanding as the others.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 5.1 and 5.2 ("we round up the number of tasks to a multiple of the
//! partitions"); the hint itself: Psaroudakis et al., 2013, cited there as [28].

use numa::NodeId;

use super::Layout;

/// How an operation's data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// In one piece.
    Whole,
    /// In `n` partitions of one column (IVP): the number of tasks is a multiple of them.
    Partitions(usize),
    /// In `n` parts, each its own operation (PP): the tasks of each.
    Parts(usize),
}

/// How many tasks an operation over data on `nodes` (none: anywhere) may issue while `statements` are active, itself
/// included; for [`Pieces::Parts`] per part. `parallelism` is the user's limit, 0 for none; a limit of 1 is kept even
/// where there are several partitions.
pub fn hint(layout: &Layout, nodes: &[NodeId], statements: usize, parallelism: u16, pieces: Pieces) -> usize {
    if parallelism == 1 {
        return 1;
    }
    let concerned = layout.groups().iter().filter(|group| nodes.contains(&group.node));
    let cpus: usize = concerned.map(|group| group.slots.len()).sum();
    let cpus = if cpus == 0 { layout.slots().len() } else { cpus };
    let share = cpus.div_ceil(statements.max(1)).max(1);
    let limited = if parallelism == 0 { share } else { share.min(usize::from(parallelism)) };
    match pieces {
        Pieces::Whole => limited,
        Pieces::Partitions(partitions) => limited.next_multiple_of(partitions.max(1)),
        Pieces::Parts(parts) => limited.div_ceil(parts.max(1)),
    }
}

/// The order in which the `turn`-th operation visits its `pieces`: each begins one further, so that concurrent ones do
/// not all begin on the first node.
pub fn rotated(turn: u64, pieces: usize) -> impl Iterator<Item = usize> {
    let start = if pieces == 0 { 0 } else { (turn % pieces as u64) as usize };
    (start..pieces).chain(0..start)
}

#[cfg(test)]
mod tests {
    use numa::Topology;

    use super::*;
    use crate::policy::Split;

    #[test]
    fn a_hint_follows_the_cpus_the_statements_and_the_partitions() {
        let layout = Layout::new(&Topology::synthetic(2, 2, 4, 1), None, Split::default());
        let all: Vec<NodeId> = (0..4).map(NodeId).collect();
        assert_eq!(hint(&layout, &all, 1, 0, Pieces::Whole), 16);
        assert_eq!(hint(&layout, &[], 1, 0, Pieces::Whole), 16);
        assert_eq!(hint(&layout, &all[..1], 1, 0, Pieces::Whole), 4);
        assert_eq!(hint(&layout, &all, 3, 0, Pieces::Whole), 6);
        assert_eq!(hint(&layout, &all, 3, 0, Pieces::Partitions(4)), 8);
        assert_eq!(hint(&layout, &all, 1000, 0, Pieces::Whole), 1);
        assert_eq!(hint(&layout, &all, 1000, 0, Pieces::Partitions(4)), 4);
        assert_eq!(hint(&layout, &all, 1, 0, Pieces::Parts(3)), 6);
        assert_eq!(hint(&layout, &all, 1, 5, Pieces::Whole), 5);
        assert_eq!(hint(&layout, &all, 1, 1, Pieces::Partitions(4)), 1);
    }

    #[test]
    fn turns_begin_in_turn() {
        assert_eq!(rotated(5, 3).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(rotated(5, 0).count(), 0);
    }
}
