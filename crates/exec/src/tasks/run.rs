//! [`Run`]: what every part of a running plan needs.

use std::sync::Arc;

use numa::Reservation;
use parking_lot::Mutex;
use sched::{Hint, Statement};
use storage::{CostOf, Interruption, NodeOf, Parallel};

use super::feedback::Shape;
use super::places::Places;
use super::profile::Working;
use super::traffic::{self, Traffic};
use crate::ExecError;
use crate::error::stopped;

/// A help takes one in `n` bytes that are free, at most.
const HELP_SHARE: u64 = 4;

/// What a task is of, and what it was expected to cost before anything was learned.
type ExpectedOf<'a> = dyn Fn(usize) -> Option<(Arc<Shape>, Hint)> + Sync + 'a;

/// What a plan runs with.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// Its budget, deadline and cancellation.
    pub(crate) statement: &'a Arc<Statement>,
    /// Threads lent to it; tasks given here may call it again.
    pub(crate) parallel: &'a dyn Parallel,
    /// How many of them work at a time, at most.
    pub(crate) threads: usize,
    /// Where pages lie.
    pub(crate) places: Places<'a>,
    /// Where it is written down what tasks touch.
    pub(crate) traffic: &'a Arc<Traffic>,
}

impl Run<'_> {
    /// An error if the statement is to stop.
    pub(crate) fn check(&self) -> Result<(), ExecError> {
        self.statement.check().map_err(|_| stopped(self.statement))
    }

    /// Charges the statement.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Reservation, ExecError> {
        Ok(self.statement.budget().reserve(bytes)?)
    }

    /// Charges the statement for what helps it, and what it can do without: `None` unless several times as much is
    /// free, since what it cannot do without comes later and must not fail for a help's sake.
    pub(crate) fn reserve_help(&self, bytes: u64) -> Option<Reservation> {
        let budget = self.statement.budget();
        let ample = budget.available_bytes().is_none_or(|free| free / HELP_SHARE >= bytes);
        ample.then(|| budget.reserve(bytes).ok()).flatten()
    }

    /// Runs `body` for every task, in parallel, near the nodes named; the first error ends it.
    pub(crate) fn for_each(
        &self,
        tasks: usize,
        node_of: &NodeOf<'_>,
        body: &(dyn Fn(usize) -> Result<(), ExecError> + Sync),
    ) -> Result<(), ExecError> {
        self.for_each_costing(tasks, node_of, (&|_| (0, 0), &|_| None), body)
    }

    /// As [`for_each`](Self::for_each), with what each task is expected to cost.
    pub(crate) fn for_each_costing(
        &self,
        tasks: usize,
        node_of: &NodeOf<'_>,
        (cost_of, expected): (&CostOf<'_>, &ExpectedOf<'_>),
        body: &(dyn Fn(usize) -> Result<(), ExecError> + Sync),
    ) -> Result<(), ExecError> {
        let failed: Mutex<Option<ExecError>> = Mutex::new(None);
        let operator = Working::now();
        // Waiting for other threads is nobody's work.
        let _waiting = operator.as_ref().map(|_| Working::on(None));
        let ran = self.parallel.for_each_costing(tasks, node_of, cost_of, &|task| {
            let _working = operator.as_ref().map(|operator| {
                operator.add_task();
                Working::on(Some(operator.clone()))
            });
            if failed.lock().is_some() {
                return;
            }
            let _task = traffic::Task::begin(self.traffic, self.statement, expected(task));
            if let Err(error) = self.check().and_then(|()| body(task)) {
                failed.lock().get_or_insert(error);
            }
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        match ran {
            Ok(()) => Ok(()),
            Err(Interruption::Panicked(text)) => Err(ExecError::Panicked(text)),
            Err(Interruption::Cancelled) => Err(stopped(self.statement)),
        }
    }

    /// As [`for_each`](Self::for_each) with a result per task, in the order of tasks, anywhere.
    pub(crate) fn map<T: Send>(
        &self,
        tasks: usize,
        body: &(dyn Fn(usize) -> Result<T, ExecError> + Sync),
    ) -> Result<Vec<T>, ExecError> {
        self.map_near(tasks, &|_| None, &|_| (0, 0), body)
    }

    /// As [`map`](Self::map), near the nodes named, with what each task is expected to cost.
    pub(crate) fn map_near<T: Send>(
        &self,
        tasks: usize,
        node_of: &NodeOf<'_>,
        cost_of: &CostOf<'_>,
        body: &(dyn Fn(usize) -> Result<T, ExecError> + Sync),
    ) -> Result<Vec<T>, ExecError> {
        let results: Vec<Mutex<Option<T>>> = (0..tasks).map(|_| Mutex::new(None)).collect();
        self.for_each_costing(tasks, node_of, (cost_of, &|_| None), &|task| {
            *results[task].lock() = Some(body(task)?);
            Ok(())
        })?;
        Ok(results.into_iter().map(|r| r.into_inner().expect("every task ran")).collect())
    }
}
