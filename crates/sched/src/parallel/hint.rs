//! Policy hints: what a loop tells the scheduler about where its tasks may run.
//!
//! A loop knows on which node its memory lies; a hint turns that into the affinities of the tasks that work on it.
//! Exchange the hint and the same loop runs under another policy, for an experiment or for good.
//!
//! Invariant: a hint decides where, never what: each element is visited once under every hint.
//!
//! # Limits
//! A task that is hard for one node waits until a worker there is free, also when others have done
//! all the work meanwhile.
//!
//! Source: Seidel 2011, NUMA Building Blocks, section 3.1.2 (policy hints); the names of the
//! presets are those of Psaroudakis et al., VLDB 2015.

use numa::NodeId;

use super::workers::Workers;
use crate::Affinity;

/// Where tasks of a loop may run.
///
/// ```
/// use numa::NodeId;
/// use sched::Affinity;
/// use sched::parallel::{PolicyHint, Workers};
///
/// /// Leaves one worker of every node to others.
/// #[derive(Debug)]
/// struct Polite;
///
/// impl PolicyHint for Polite {
///     fn runners(&self, node: Option<NodeId>, workers: &dyn Workers) -> Vec<Affinity> {
///         let affinity = node.map_or(Affinity::Anywhere, Affinity::near);
///         vec![affinity; workers.count(node).saturating_sub(1).max(1)]
///     }
/// }
/// ```
pub trait PolicyHint: Sync + std::fmt::Debug {
    /// Who works on memory of `node` (`None`: on memory of no particular node): one affinity for each worker that may
    /// be at it at the same time. An empty list stands for one task anywhere.
    fn runners(&self, node: Option<NodeId>, workers: &dyn Workers) -> Vec<Affinity>;
}

/// Next to the memory, and may be stolen by whom the scheduler allows. The default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target;

impl PolicyHint for Target {
    fn runners(&self, node: Option<NodeId>, workers: &dyn Workers) -> Vec<Affinity> {
        vec![node.map_or(Affinity::Anywhere, Affinity::near); workers.count(node)]
    }
}

/// Next to the memory and never elsewhere: for loops that memory bandwidth limits, and for the first touch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound;

impl PolicyHint for Bound {
    fn runners(&self, node: Option<NodeId>, workers: &dyn Workers) -> Vec<Affinity> {
        vec![node.map_or(Affinity::Anywhere, Affinity::on); workers.count(node)]
    }
}

/// Anywhere, as if memory were uniform: for loops that compute, and to compare with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Os;

impl PolicyHint for Os {
    fn runners(&self, _node: Option<NodeId>, workers: &dyn Workers) -> Vec<Affinity> {
        vec![Affinity::Anywhere; workers.count(None)]
    }
}
