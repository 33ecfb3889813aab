//! [`PackageQueues`]: where the sub-domains of a package give each other's cpus memory as fast as their own, so that a
//! task may as well wait in the queue that they share.
//!
//! A scan is limited by the bandwidth of the node that holds its rows. Where a sub-domain's cpus get as much of its
//! neighbour's memory as the neighbour's own cpus do, it makes no difference which of them reads it, and two queues
//! only let one of them be idle while tasks wait at the other.
//!
//! Invariant: a function of the topology and of figures; a node that is in no such package stays by itself.
//!
//! # Limits
//! Bandwidth decides, of one node at a time, latency does not: scans read ahead. Memory without cpus is never shared.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 (thread groups and what they may share); sub-domains: DESIGN's
//! topology.

use std::collections::BTreeMap;

use numa::{NodeId, PackageId, Topology};

use crate::affinity::{Affinity, Place};

/// A sub-domain's memory is as fast as one's own from this share of its bandwidth on: probes of one pair differ by so
/// much.
const EVEN_SHARE: f64 = 0.9;
/// Where nobody measured: the largest distance that firmware gives to what is as near, 10 being the node itself.
const EVEN_DISTANCE: u32 = 11;

/// Nodes whose tasks wait in the queue of their package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageQueues {
    packages: BTreeMap<NodeId, PackageId>,
}

impl PackageQueues {
    /// Of packages whose sub-domains are alike: by `rate`, the bytes per second that the first node's cpus read of the
    /// second's memory, and by their distances where it does not say.
    pub fn even(topology: &Topology, rate: &dyn Fn(NodeId, NodeId) -> Option<f64>) -> PackageQueues {
        let alike = |from: NodeId, to: NodeId| match (rate(from, to), rate(to, to)) {
            (Some(there), Some(own)) => there >= EVEN_SHARE * own,
            _ => topology.distance(from, to) <= EVEN_DISTANCE,
        };
        PackageQueues::of(topology, &|nodes| nodes.iter().all(|from| nodes.iter().all(|to| alike(*from, *to))))
    }

    /// Of all packages with sub-domains.
    pub fn all(topology: &Topology) -> PackageQueues {
        PackageQueues::of(topology, &|_| true)
    }

    fn of(topology: &Topology, wanted: &dyn Fn(&[NodeId]) -> bool) -> PackageQueues {
        let shared = topology.sub_domains().iter().filter(|domains| wanted(&domains.nodes));
        let packages = shared.flat_map(|domains| domains.nodes.iter().map(|node| (*node, domains.package)));
        PackageQueues { packages: packages.collect() }
    }

    /// Where a task that reads a node's memory waits; it may be stolen from there.
    pub fn near(&self, node: NodeId) -> Affinity {
        let place = self.packages.get(&node).map_or(Place::Node(node), |package| Place::Package(*package));
        Affinity::Near { place, hard: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Split;
    use crate::affinity::{Hint, SlotId};
    use crate::policy::{GroupId, Layout, QueueKind, QueueTarget, Request, route};
    use crate::settings::{Affinities, Settings, Stealing};

    /// Two packages of two sub-domains with two cores each.
    fn topology() -> Topology {
        Topology::synthetic(2, 2, 2, 1)
    }

    fn shared(queues: &PackageQueues) -> Vec<u32> {
        queues.packages.keys().map(|node| node.0).collect()
    }

    #[test]
    fn sub_domains_of_one_bandwidth_share() {
        // Of package 0 all pairs are alike, of package 1 one is slower.
        let rate = |from: NodeId, to: NodeId| match (from.0, to.0) {
            (0 | 1, 0 | 1) => Some(if from == to { 10e9 } else { 9.5e9 }),
            (2, 3) => Some(8e9),
            (2 | 3, 2 | 3) => Some(10e9),
            _ => Some(3e9),
        };
        assert_eq!(shared(&PackageQueues::even(&topology(), &rate)), [0, 1]);
        // Whose memory it is counts: a slow node that both read alike is shared.
        let slow = |_: NodeId, to: NodeId| Some(if to.0.is_multiple_of(2) { 10e9 } else { 5e9 });
        assert_eq!(shared(&PackageQueues::even(&topology(), &slow)), [0, 1, 2, 3]);
    }

    #[test]
    fn without_figures_distances_decide() {
        let unknown = |_: NodeId, _: NodeId| None;
        assert_eq!(topology().distance(NodeId(0), NodeId(1)), 12);
        assert_eq!(shared(&PackageQueues::even(&topology(), &unknown)), [0u32; 0]);
        assert_eq!(shared(&PackageQueues::all(&topology())), [0, 1, 2, 3]);
        // One known figure says nothing of a pair.
        let half = |from: NodeId, to: NodeId| (from == to).then_some(10e9);
        assert_eq!(shared(&PackageQueues::even(&topology(), &half)), [0u32; 0]);
        // A package of one node shares with nobody.
        assert_eq!(PackageQueues::all(&Topology::synthetic(4, 1, 2, 1)), PackageQueues::default());
    }

    #[test]
    fn a_shared_task_goes_to_the_idler_sub_domain_and_no_further() {
        let topology = topology();
        let layout = Layout::new(&topology, None, Split::default());
        let loads = |group: GroupId| [9, 1, 0, 0][group.index()];
        let settings = Settings { affinities: Affinities::Hard, stealing: Stealing::Off, ..Settings::default() };
        let target = |queues: &PackageQueues| {
            let affinity = queues.near(NodeId(0));
            route(&layout, &Request { affinity, hint: Hint::default(), caller: None, settings, loads: &loads })
        };
        let takers = |target: QueueTarget| -> Vec<u32> {
            let slots = (0..layout.slots().len() as u32).map(SlotId);
            slots.filter(|slot| layout.may_take(*slot, target)).map(|slot| layout.slot(slot).group.0).collect()
        };
        let alone = target(&PackageQueues::default());
        let both = target(&PackageQueues::all(&topology));
        assert_eq!((alone, takers(alone)), (QueueTarget::Group(GroupId(0), QueueKind::NodeHard), vec![0, 0]));
        assert_eq!((both, takers(both)), (QueueTarget::Group(GroupId(1), QueueKind::PackageHard), vec![0, 0, 1, 1]));
    }
}
