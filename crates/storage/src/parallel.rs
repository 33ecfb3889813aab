//! How a caller lends its threads: `storage` owns none.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use numa::NodeId;

use crate::error::{Interruption, StoreError};

/// Next to which node a task should run, where that matters.
pub type NodeOf<'a> = dyn Fn(usize) -> Option<NodeId> + Sync + 'a;
/// What a task is expected to cost: bytes of memory and nanoseconds of cpu time, 0 where nobody knows.
pub type CostOf<'a> = dyn Fn(usize) -> (u64, u64) + Sync + 'a;
/// What a task does.
pub type TaskBody<'a> = dyn Fn(usize) + Sync + 'a;

/// Runs tasks on threads of the caller's.
pub trait Parallel: Sync {
    /// Calls `body` once for every number below `tasks`, in any order and on any thread, and returns when all have
    /// ended. `node_of` says next to which node a task should run, where that matters.
    ///
    /// # Errors
    /// [`Interruption`] where not every task ran; none runs any more when this returns.
    fn for_each(&self, tasks: usize, node_of: &NodeOf<'_>, body: &TaskBody<'_>) -> Result<(), Interruption>;

    /// As [`for_each`](Self::for_each), told what each task is expected to cost. Whoever cannot use that leaves it.
    ///
    /// # Errors
    /// As [`for_each`](Self::for_each).
    fn for_each_costing(
        &self,
        tasks: usize,
        node_of: &NodeOf<'_>,
        _cost_of: &CostOf<'_>,
        body: &TaskBody<'_>,
    ) -> Result<(), Interruption> {
        self.for_each(tasks, node_of, body)
    }
}

/// Runs the tasks in the caller, in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn for_each(&self, tasks: usize, _node_of: &NodeOf<'_>, body: &TaskBody<'_>) -> Result<(), Interruption> {
        (0..tasks).for_each(body);
        Ok(())
    }
}

/// Runs `body` over `inputs` and returns the results in the inputs' order; after the first error the tasks that have
/// not begun are skipped.
///
/// # Errors
/// The first error of a task, or [`StoreError::Interrupted`].
pub(crate) fn map<I: Send, O: Send>(
    parallel: &dyn Parallel,
    inputs: Vec<I>,
    node_of: &NodeOf<'_>,
    body: &(dyn Fn(I) -> Result<O, StoreError> + Sync),
) -> Result<Vec<O>, StoreError> {
    let failed = AtomicBool::new(false);
    let inputs: Vec<Mutex<Option<I>>> = inputs.into_iter().map(|input| Mutex::new(Some(input))).collect();
    let outputs: Vec<Mutex<Option<Result<O, StoreError>>>> = inputs.iter().map(|_| Mutex::new(None)).collect();
    parallel.for_each(inputs.len(), node_of, &|task| {
        let input = lock(&inputs[task]).take();
        if let Some(input) = input
            && !failed.load(Ordering::Relaxed)
        {
            let output = body(input);
            if output.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            *lock(&outputs[task]) = Some(output);
        }
    })?;
    let mut results = Vec::with_capacity(outputs.len());
    let mut skipped = false;
    for output in outputs {
        match output.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(output) => results.push(output?),
            None => skipped = true,
        }
    }
    // A task is skipped only after another failed, and that one's error has been returned above.
    if skipped { Err(Interruption::Panicked("a storage task was not run".into()).into()) } else { Ok(results) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
