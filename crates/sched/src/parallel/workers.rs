//! Who runs the tasks of a loop: a [`Scheduler`], or [`Inline`], its slow twin.
//!
//! Invariant: loops use a scheduler through this trait only, and so only what its public interface promises.

use std::sync::Arc;

use numa::{Allocator, Budget, NodeId, Policy};

use crate::{Affinity, Inline, Scheduler, Statement, TaskError};

/// What a loop asks of those who run it.
pub trait Workers: Send + Sync {
    /// Runs `body(0)` to `body(tasks - 1)`, each where `affinity` says, and returns when no call runs any more.
    ///
    /// # Errors
    /// As [`Scheduler::parallel_for`] has them.
    fn run(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &(dyn Fn(usize) -> Affinity + Sync),
        body: &(dyn Fn(usize) + Sync),
    ) -> Result<(), TaskError>;

    /// How many workers there are next to `node`, or at all; 1 for a node that has none of its own.
    fn count(&self, node: Option<NodeId>) -> usize;

    /// Whether workers sit on more than one node, so that it matters where memory is.
    fn have_nodes(&self) -> bool;

    /// The node that the calling thread runs on at this moment, where the machine says.
    fn node_here(&self) -> Option<NodeId>;

    /// An allocator whose regions lie on the node of the calling task: what a task makes for itself lands next to it,
    /// whoever touches it first. Where the node is not known, first touch decides.
    fn allocator_here(&self, budget: Arc<Budget>) -> Allocator {
        Allocator::new(self.node_here().map_or(Policy::Local, Policy::Node), budget)
    }
}

impl Workers for Scheduler {
    fn run(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &(dyn Fn(usize) -> Affinity + Sync),
        body: &(dyn Fn(usize) + Sync),
    ) -> Result<(), TaskError> {
        self.parallel_for(statement, tasks, affinity, body)
    }

    fn count(&self, node: Option<NodeId>) -> usize {
        match node {
            None => self.threads(),
            Some(node) => {
                let groups = self.layout().groups().iter();
                groups.filter(|group| group.node == node).map(|group| group.slots.len()).sum::<usize>().max(1)
            }
        }
    }

    fn have_nodes(&self) -> bool {
        let mut groups = self.layout().groups().iter();
        let first = groups.next();
        groups.any(|group| Some(group.node) != first.map(|first| first.node))
    }

    fn node_here(&self) -> Option<NodeId> {
        numa::current_cpu().and_then(|cpu| self.topology().node_of_cpu(cpu))
    }
}

impl Workers for Inline {
    fn run(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &(dyn Fn(usize) -> Affinity + Sync),
        body: &(dyn Fn(usize) + Sync),
    ) -> Result<(), TaskError> {
        self.parallel_for(statement, tasks, affinity, body)
    }

    fn count(&self, _node: Option<NodeId>) -> usize {
        1
    }

    fn have_nodes(&self) -> bool {
        false
    }

    fn node_here(&self) -> Option<NodeId> {
        None
    }
}

impl<W: Workers + ?Sized> Workers for Arc<W> {
    fn run(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &(dyn Fn(usize) -> Affinity + Sync),
        body: &(dyn Fn(usize) + Sync),
    ) -> Result<(), TaskError> {
        (**self).run(statement, tasks, affinity, body)
    }

    fn count(&self, node: Option<NodeId>) -> usize {
        (**self).count(node)
    }

    fn have_nodes(&self) -> bool {
        (**self).have_nodes()
    }

    fn node_here(&self) -> Option<NodeId> {
        (**self).node_here()
    }
}
