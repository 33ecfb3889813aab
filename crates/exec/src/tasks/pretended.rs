//! Nodes that tests pretend there are: tasks run one after the other, each as if it were on the node that it asks for.

use std::cell::Cell;

use numa::NodeId;
use parking_lot::Mutex;
use storage::{Interruption, NodeOf, Parallel, TaskBody};

thread_local! {
    static NODE: Cell<Option<NodeId>> = const { Cell::new(None) };
}

/// The node that the calling thread is taken to be on.
pub(crate) fn node() -> Option<NodeId> {
    NODE.get()
}

/// Runs something as if on a node.
pub(crate) fn on<T>(node: NodeId, run: impl FnOnce() -> T) -> T {
    let outer = NODE.replace(Some(node));
    let result = run();
    NODE.set(outer);
    result
}

/// A machine of `n` nodes; tasks that ask for none are dealt out to them in turn.
pub(crate) struct Pretended {
    nodes: u32,
    wishes: Mutex<Vec<Option<NodeId>>>,
}

impl Pretended {
    /// Nothing has run.
    pub(crate) fn new(nodes: u32) -> Pretended {
        Pretended { nodes, wishes: Mutex::default() }
    }

    /// The nodes that tasks asked for since the last call, in the order of the tasks.
    pub(crate) fn take_wishes(&self) -> Vec<Option<NodeId>> {
        std::mem::take(&mut self.wishes.lock())
    }
}

impl Parallel for Pretended {
    fn for_each(&self, tasks: usize, node_of: &NodeOf<'_>, body: &TaskBody<'_>) -> Result<(), Interruption> {
        for task in 0..tasks {
            let wish = node_of(task);
            self.wishes.lock().push(wish);
            on(wish.unwrap_or(NodeId(task as u32 % self.nodes)), || body(task));
        }
        Ok(())
    }
}
