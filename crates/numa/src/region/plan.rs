//! What to ask of the kernel for a mapping: which policy calls, after free memory was checked.
//!
//! Invariants: a strict call is planned only where the node has room for all that is bound to it; a refused call leaves
//! the rest of the mapping unplaced and is told once.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::error::MemoryError;
use crate::id_set::IdSet;
use crate::ids::NodeId;
use crate::machine::{Bound, Grant, Machine};
use crate::policy::Policy;
use crate::refusals::refused;
use crate::sys::{Mode, page_bytes};

/// What users lose when policy calls are refused.
pub(super) const UNPLACED: &str = "memory is not placed on the nodes asked for";

/// What to ask of the kernel for one mapping, or part of one.
#[derive(Debug)]
pub(super) struct Plan {
    /// What the region will say that it follows.
    pub(super) policy: Policy,
    calls: Vec<Call>,
    bytes: u64,
}

/// One policy call: bytes of the mapping, and where they shall lie.
#[derive(Debug)]
struct Call {
    bytes: Range<usize>,
    mode: Mode,
    nodes: IdSet,
}

/// The policy without nodes that are not online, which is told.
pub(super) fn online(machine: &Machine, policy: &Policy) -> Policy {
    if policy.nodes().iter().any(|n| !machine.has(*n)) {
        refused("mbind", &io::Error::other("a node that was asked for is not online"), UNPLACED);
    }
    policy.only(|node| machine.has(node))
}

/// The node that a request of a few pages goes to: the first chunk's for stripes, one in turn for interleaving.
pub(super) fn one_of(policy: &Policy, turn: impl FnOnce() -> usize) -> Option<NodeId> {
    match policy {
        Policy::Local => None,
        Policy::Node(node) => Some(*node),
        Policy::Striped { nodes, .. } => nodes.first().copied(),
        Policy::Interleaved(nodes) => (!nodes.is_empty()).then(|| nodes[turn() % nodes.len()]),
        Policy::Weighted(weights) => {
            let sum: u64 = weights.iter().map(|(_, w)| u64::from(*w)).sum();
            let mut at = (turn() as u64).checked_rem(sum)?;
            weights.iter().find(|(_, w)| at.checked_sub(u64::from(*w)).map(|left| at = left).is_none()).map(|(n, _)| *n)
        }
    }
}

/// Checks free memory for the bytes `of` of a mapping whose cuts follow `laid_out_bytes`, and decides which calls to
/// make.
///
/// # Errors
/// `NodeFull` or `MachineFull`.
pub(super) fn plan(
    machine: &Machine,
    policy: &Policy,
    laid_out_bytes: u64,
    of: Range<u64>,
) -> Result<Plan, MemoryError> {
    let page = page_bytes() as u64;
    let bytes = of.end - of.start;
    if !machine.has_choice() {
        machine.ask_anywhere(bytes, *policy != Policy::Local)?;
        return Ok(Plan { policy: policy.clone(), calls: Vec::new(), bytes });
    }
    let policy = online(machine, policy);
    let mut runs = policy.cuts(laid_out_bytes, page);
    for (run, _) in &mut runs {
        *run = run.start.max(of.start)..run.end.min(of.end);
    }
    runs.retain(|(run, _)| !run.is_empty());
    let mut grants: Vec<(NodeId, Grant)> = Vec::new();
    for node in policy.nodes() {
        let share = match runs.is_empty() {
            true => policy.shares(bytes, page).get(&node).copied().unwrap_or(0),
            false => runs.iter().filter(|(_, on)| *on == node).map(|(run, _)| run.end - run.start).sum(),
        };
        if share > 0 {
            grants.push((node, machine.ask_node(node, share)?));
        }
    }
    if grants.is_empty() {
        machine.ask_anywhere(bytes, false)?;
        return Ok(Plan { policy, calls: Vec::new(), bytes });
    }
    let whole = |run: &Range<u64>| run.start as usize..run.end as usize;
    let mut calls: Vec<Call> = Vec::with_capacity(runs.len().max(1));
    for (run, node) in &runs {
        let strict = grants.contains(&(*node, Grant::Strict));
        let mode = if strict { Mode::Bind } else { Mode::Preferred };
        calls.push(Call { bytes: whole(run), mode, nodes: IdSet::from_iter([node.0]) });
    }
    if calls.is_empty() {
        let nodes = policy.nodes().into_iter().map(|n| n.0).collect();
        calls.push(Call { bytes: whole(&of), mode: Mode::Interleave, nodes });
    }
    Ok(Plan { policy, calls, bytes })
}

impl Plan {
    /// Makes the calls through `bind`: the bytes that only one node may supply now. A refusal leaves memory unplaced;
    /// only a kernel without memory is an error.
    pub(super) fn carry_out(
        &self,
        machine: &Arc<Machine>,
        bind: impl Fn(Range<usize>, Mode, &IdSet) -> io::Result<()>,
    ) -> Result<Vec<Bound>, MemoryError> {
        let mut bounds: Vec<Bound> = Vec::new();
        for Call { bytes, mode, nodes } in &self.calls {
            match bind(bytes.clone(), *mode, nodes) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                    return Err(MemoryError::system(self.bytes, error));
                }
                Err(error) => {
                    refused("mbind", &error, UNPLACED);
                    return Ok(bounds);
                }
            }
            let Some(node) = nodes.iter().next().filter(|_| *mode == Mode::Bind).map(NodeId) else { continue };
            let count = (bytes.end - bytes.start) as u64;
            match bounds.iter_mut().find(|b| b.node() == node) {
                Some(bound) => bound.grow(count),
                None => bounds.push(machine.bound(node, count)),
            }
        }
        Ok(bounds)
    }
}
