//! Task graphs: a task runs when its children are done, and nobody blocks for it.
//!
//! Invariants: a graph has no cycle, because a task names children that are there already; a task is queued by whoever
//! ends its last child; a graph ends once, for the first panic or error of its tasks, when a task of it is dropped unrun,
//! or when all are done; tasks that will not run are dropped then.
//!
//! # Limits
//! Tasks hand values on through [`Output`], typed but checked at run time only: one that is taken twice is gone.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 3 (tasks organised in task graphs); Seidel 2011, section 3.3.2
//! (children and continuations of jobs).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Shared;
use super::completion::{Completion, Promise, promise};
use super::parallel::TaskError;
use crate::affinity::{Affinity, Hint};
use crate::panics;
use crate::statement::Statement;

/// A task of a [`TaskGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(usize);

/// What a task's work comes to.
enum Done {
    /// It is done.
    Yes,
    /// It is done when this is.
    After(TaskGraph),
    /// It failed, and with it the statement.
    Failed(String),
}

type Work = Box<dyn FnOnce() -> Done + Send>;

struct Planned {
    affinity: Affinity,
    hint: Hint,
    parents: Vec<usize>,
    children: usize,
    work: Work,
}

/// Tasks and who waits for whom; see [`crate::Scheduler::run_graph`].
///
/// ```
/// use numa::{Budget, Topology};
/// use sched::{Affinity, Config, Scheduler, Statement, TaskGraph};
///
/// let scheduler = Scheduler::new(Topology::synthetic(1, 1, 2, 1).into(), Config::default());
/// let statement = Statement::new(1, Budget::unlimited());
/// let mut graph = TaskGraph::new();
/// let (left, two) = graph.compute(Affinity::Anywhere, &[], || 2);
/// let (right, three) = graph.compute(Affinity::Anywhere, &[], || 3);
/// let (_, sum) = graph.compute(Affinity::Anywhere, &[left, right], move || two.take() + three.take());
/// scheduler.run_graph(&statement, graph).wait().unwrap();
/// assert_eq!(sum.take(), 5);
/// ```
#[derive(Default)]
pub struct TaskGraph {
    tasks: Vec<Planned>,
}

impl TaskGraph {
    /// A graph without tasks.
    pub fn new() -> TaskGraph {
        TaskGraph::default()
    }

    /// Adds a task that runs when `children` are done.
    ///
    /// # Panics
    /// When a child is of another graph and has a higher number than this graph has tasks.
    pub fn add(&mut self, affinity: Affinity, children: &[TaskId], task: impl FnOnce() + Send + 'static) -> TaskId {
        self.plan(affinity, children, || {
            task();
            Done::Yes
        })
    }

    /// Adds a task that may fail: its error's text fails the statement, as a panic's would.
    ///
    /// # Panics
    /// As [`TaskGraph::add`].
    pub fn try_add<E: fmt::Display>(
        &mut self,
        affinity: Affinity,
        children: &[TaskId],
        task: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> TaskId {
        self.plan(affinity, children, || match task() {
            Ok(()) => Done::Yes,
            Err(error) => Done::Failed(error.to_string()),
        })
    }

    /// Adds a task with a value, which tasks above it can take.
    ///
    /// # Panics
    /// As [`TaskGraph::add`].
    pub fn compute<T: Send + 'static>(
        &mut self,
        affinity: Affinity,
        children: &[TaskId],
        task: impl FnOnce() -> T + Send + 'static,
    ) -> (TaskId, Output<T>) {
        let output = Output { value: Arc::new(Mutex::new(None)) };
        let own = output.clone();
        let id = self.add(affinity, children, move || {
            let value = task();
            *own.value.lock() = Some(value);
        });
        (id, output)
    }

    /// Adds a task that finds out what is to be done: it counts as done when the graph that it returns is.
    ///
    /// # Panics
    /// As [`TaskGraph::add`].
    pub fn expand(
        &mut self,
        affinity: Affinity,
        children: &[TaskId],
        task: impl FnOnce() -> TaskGraph + Send + 'static,
    ) -> TaskId {
        self.plan(affinity, children, || Done::After(task()))
    }

    /// Says what a task is estimated to cost.
    ///
    /// # Panics
    /// When the task is not of this graph.
    pub fn set_hint(&mut self, task: TaskId, hint: Hint) {
        self.tasks[task.0].hint = hint;
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    fn plan(
        &mut self,
        affinity: Affinity,
        children: &[TaskId],
        work: impl FnOnce() -> Done + Send + 'static,
    ) -> TaskId {
        let id = self.tasks.len();
        let mut children: Vec<usize> = children.iter().map(|child| child.0).collect();
        children.sort_unstable();
        children.dedup();
        for child in &children {
            assert!(*child < id, "task {child} is not of this graph, which has {id} tasks so far");
            self.tasks[*child].parents.push(id);
        }
        let hint = Hint::default();
        self.tasks.push(Planned {
            affinity,
            hint,
            parents: Vec::new(),
            children: children.len(),
            work: Box::new(work),
        });
        TaskId(id)
    }
}

impl fmt::Debug for TaskGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGraph").field("tasks", &self.tasks.len()).finish()
    }
}

/// The value of a task, for the tasks above it and for whoever waits for the graph.
pub struct Output<T> {
    value: Arc<Mutex<Option<T>>>,
}

impl<T> Output<T> {
    /// Takes the value.
    ///
    /// # Panics
    /// When the task is not done, or the value has been taken: a task that names it as a child, and is alone in taking
    /// it, never sees that.
    pub fn take(&self) -> T {
        self.try_take().expect("the task that gives this value is done, and nobody has taken it")
    }

    /// Takes the value, if it is there.
    pub fn try_take(&self) -> Option<T> {
        self.value.lock().take()
    }
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Output<T> {
        Output { value: Arc::clone(&self.value) }
    }
}

impl<T> fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("there", &self.value.lock().is_some()).finish()
    }
}

struct Node {
    affinity: Affinity,
    hint: Hint,
    parents: Vec<usize>,
    /// Children that are not done, and one more until the graph starts.
    pending: AtomicUsize,
    work: Mutex<Option<Work>>,
}

/// Who hears of a graph's end.
enum End {
    Waiter(Promise<()>),
    Task(Ticket),
}

/// A graph that runs.
struct Run {
    shared: Arc<Shared>,
    statement: Arc<Statement>,
    nodes: Vec<Node>,
    left: AtomicUsize,
    end: Mutex<Option<End>>,
}

/// The right, and the duty, to run a task of a graph: dropped unused, it gives the graph up.
struct Ticket {
    run: Option<Arc<Run>>,
    node: usize,
}

/// Starts a graph.
pub(crate) fn run(shared: &Arc<Shared>, statement: &Arc<Statement>, graph: TaskGraph) -> Completion<()> {
    let (promise, completion) = promise();
    start(shared, statement, graph, End::Waiter(promise));
    completion
}

fn start(shared: &Arc<Shared>, statement: &Arc<Statement>, graph: TaskGraph, end: End) {
    let node = |planned: Planned| Node {
        affinity: planned.affinity,
        hint: planned.hint,
        parents: planned.parents,
        pending: AtomicUsize::new(planned.children + 1),
        work: Mutex::new(Some(planned.work)),
    };
    let nodes: Vec<Node> = graph.tasks.into_iter().map(node).collect();
    let run = Arc::new(Run {
        shared: Arc::clone(shared),
        statement: Arc::clone(statement),
        left: AtomicUsize::new(nodes.len()),
        end: Mutex::new(Some(end)),
        nodes,
    });
    if run.nodes.is_empty() {
        run.end(Ok(()));
    }
    for node in 0..run.nodes.len() {
        Run::ready(&run, node);
    }
}

impl Run {
    /// One thing less that a task waits for; the last one queues it.
    fn ready(self: &Arc<Run>, node: usize) {
        let of = &self.nodes[node];
        if of.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let ticket = Ticket { run: Some(Arc::clone(self)), node };
            self.shared.submit(&self.statement, of.affinity, of.hint, Box::new(move || ticket.redeem()));
        }
    }

    fn done(self: &Arc<Run>, node: usize) {
        if self.was_last(node) {
            self.end(Ok(()));
        }
    }

    /// Queues what waited for a task that is done. Whether it was the last one.
    fn was_last(self: &Arc<Run>, node: usize) -> bool {
        for parent in &self.nodes[node].parents {
            self.ready(*parent);
        }
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Drops what has not begun, and tells the end.
    fn give_up(&self, error: TaskError) {
        self.drop_rest();
        self.end(Err(error));
    }

    fn drop_rest(&self) {
        for node in &self.nodes {
            let work = node.work.lock().take();
            if let Err(text) = panics::caught(|| drop(work)) {
                tracing::warn!("a dropped task panicked: {text}");
            }
        }
    }

    fn end(&self, outcome: Result<(), TaskError>) {
        let mut end = self.end.lock().take();
        // A loop, as graphs that tasks returned may nest deeper than a stack is.
        while let Some(End::Task(mut ticket)) = end {
            let Some(run) = ticket.run.take() else { return };
            let ended = match &outcome {
                Ok(()) => run.was_last(ticket.node),
                Err(_) => {
                    run.drop_rest();
                    true
                }
            };
            if !ended {
                return;
            }
            end = run.end.lock().take();
        }
        if let Some(End::Waiter(promise)) = end {
            promise.fulfil(outcome);
        }
    }
}

impl Ticket {
    /// Runs the task.
    fn redeem(mut self) {
        let Some(run) = self.run.take() else { return };
        let Some(work) = run.nodes[self.node].work.lock().take() else { return };
        match panics::caught(work) {
            Ok(Done::Yes) => run.done(self.node),
            Ok(Done::After(graph)) => {
                let (shared, statement) = (Arc::clone(&run.shared), Arc::clone(&run.statement));
                start(&shared, &statement, graph, End::Task(Ticket { run: Some(run), node: self.node }));
            }
            Ok(Done::Failed(text)) | Err(text) => {
                run.statement.fail(text.clone());
                run.give_up(TaskError::Panicked(text));
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            run.give_up(TaskError::Cancelled);
        }
    }
}
