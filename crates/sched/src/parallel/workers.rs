//! Who runs the tasks of a loop: a [`Scheduler`], or [`Inline`], its slow twin.
//!
//! Invariant: loops use a scheduler through this trait only, and so only what its public interface promises.

use std::sync::Arc;

use numa::NodeId;

use crate::{AffinityOf, CallBody, Inline, Scheduler, Statement, TaskError};

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
        affinity: &AffinityOf<'_>,
        body: &CallBody<'_>,
    ) -> Result<(), TaskError>;

    /// How many workers there are next to `node`, or at all; 1 for a node that has none of its own.
    fn count(&self, node: Option<NodeId>) -> usize;

    /// Whether workers sit on more than one node, so that it matters where memory is.
    fn have_nodes(&self) -> bool;
}

impl Workers for Scheduler {
    fn run(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &AffinityOf<'_>,
        body: &CallBody<'_>,
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
}

impl Workers for Inline {
    fn run(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &AffinityOf<'_>,
        body: &CallBody<'_>,
    ) -> Result<(), TaskError> {
        self.parallel_for(statement, tasks, affinity, body)
    }

    fn count(&self, _node: Option<NodeId>) -> usize {
        1
    }

    fn have_nodes(&self) -> bool {
        false
    }
}

impl<W: Workers + ?Sized> Workers for Arc<W> {
    fn run(
        &self,
        statement: &Arc<Statement>,
        tasks: usize,
        affinity: &AffinityOf<'_>,
        body: &CallBody<'_>,
    ) -> Result<(), TaskError> {
        (**self).run(statement, tasks, affinity, body)
    }

    fn count(&self, node: Option<NodeId>) -> usize {
        (**self).count(node)
    }

    fn have_nodes(&self) -> bool {
        (**self).have_nodes()
    }
}
