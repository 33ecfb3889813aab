//! [`Flow`]: the pipes of a running plan, each put together when what it reads is known.
//!
//! A plan is walked from the top; an operator that has to see all its input first (a breaker) runs the pipe of that
//! input and becomes a source of rows. So when a pipe is put together, everything that it reads is known: row counts,
//! bounds, and the keys of joins, which are passed down as [`Filters`] to the scans that they can thin out. Which
//! operator makes which pipe is said above the operators, in one function that a flow is given ([`Compile`]): operators
//! ask the flow for the pipes of their inputs and know nothing of each other.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Pipe;
use super::filters::Filters;
use super::kept::{of_rows, rows_of};
use super::profiled::watch;
use crate::ExecError;
use crate::chunk::Rows;
use crate::plan::{Plan, Shared};
use crate::tasks::profile::{OperatorPlace, Working};
use crate::tasks::run::Run;

/// Makes the pipe of a plan's topmost operator, whose inputs it asks the flow for.
pub(crate) type Compile = fn(&Flow<'_>, &Plan, &OperatorPlace, Demand<'_>) -> Result<Pipe, ExecError>;

/// What is wanted of a pipe.
#[derive(Clone, Copy)]
pub(crate) struct Demand<'a> {
    /// Rows that do not pass may be left out.
    pub(crate) filters: &'a Filters,
    /// `n` of the first rows are enough, if that is given.
    pub(crate) rows: Option<usize>,
    /// Somebody else cuts off what limits on top of the plan cut off.
    pub(crate) unlimited: bool,
    /// Nobody computes with its columns: nothing need be known of them. Finding out takes longer than a look-up by an
    /// index.
    pub(crate) as_stored: bool,
}

impl<'a> Demand<'a> {
    /// All rows but those that do not pass.
    pub(crate) fn of(filters: &'a Filters) -> Demand<'a> {
        Demand { filters, rows: None, unlimited: false, as_stored: false }
    }
}

/// A running plan.
pub(crate) struct Flow<'a> {
    /// What it runs with.
    pub(crate) run: Run<'a>,
    /// Results of shared plans by number, of those that read a work table: they are those of this flow alone.
    shared: Mutex<HashMap<usize, Arc<Rows>>>,
    outer: Outer,
}

/// What a flow hands on to those of the recursions in it, each step of which is a flow of its own.
#[derive(Clone)]
pub(crate) struct Outer {
    compile: Compile,
    /// Results of shared plans that read no work table, by number.
    shared: Arc<Mutex<HashMap<usize, Arc<Rows>>>>,
    /// Work tables by the number of their recursion.
    pub(crate) work_tables: HashMap<usize, Arc<Rows>>,
}

impl<'a> Flow<'a> {
    /// Nothing has run yet.
    pub(crate) fn new(run: Run<'a>, compile: Compile) -> Flow<'a> {
        Flow::within(run, Outer { compile, shared: Arc::default(), work_tables: HashMap::new() })
    }

    /// A step of a recursion.
    pub(crate) fn within(run: Run<'a>, outer: Outer) -> Flow<'a> {
        Flow { run, shared: Mutex::default(), outer }
    }

    /// What recursions in the plan need.
    pub(crate) fn outer(&self) -> Outer {
        self.outer.clone()
    }

    /// A pipe of the rows of a plan, whose top stands at `place`. Rows whose columns cannot pass `filters` may be left
    /// out.
    pub(crate) fn pipe(&self, plan: &Plan, place: &OperatorPlace, filters: &Filters) -> Result<Pipe, ExecError> {
        self.pipe_of(plan, place, Demand::of(filters))
    }

    /// The last pipe of a plan, without the limits on top of it, which leave the first `rows` rows at most.
    pub(crate) fn last(&self, plan: &Plan, top: &OperatorPlace, rows: Option<usize>) -> Result<Pipe, ExecError> {
        self.pipe_of(plan, top, Demand { rows, unlimited: true, as_stored: true, ..Demand::of(&Filters::new()) })
    }

    /// As [`pipe`](Self::pipe), with what else is wanted.
    pub(crate) fn pipe_of(&self, plan: &Plan, place: &OperatorPlace, wanted: Demand<'_>) -> Result<Pipe, ExecError> {
        if let (Plan::Limit { input, .. }, true) = (plan, wanted.unlimited) {
            return self.pipe_of(input, &place.input(0), wanted);
        }
        let Some((own, above)) = place.counters() else {
            return self.compiled(plan, place, wanted);
        };
        let _working = Working::on(Some(own.clone()));
        Ok(watch(self.compiled(plan, place, wanted)?, &own, &above))
    }

    fn compiled(&self, plan: &Plan, place: &OperatorPlace, wanted: Demand<'_>) -> Result<Pipe, ExecError> {
        self.run.check()?;
        (self.outer.compile)(self, plan, place, wanted)
    }

    /// A pipe of what several places share, which runs for the first of them.
    pub(crate) fn shared(&self, plan: &Shared, place: &OperatorPlace) -> Result<Pipe, ExecError> {
        let known = if plan.work_tables().is_empty() { self.outer.shared.as_ref() } else { &self.shared };
        let rows = known.lock().get(&plan.id).cloned();
        let rows = match rows {
            Some(rows) => rows,
            None => {
                let rows = self.rows(plan, &place.input(0), &Filters::new())?;
                known.lock().insert(plan.id, rows.clone());
                rows
            }
        };
        Ok(of_rows(rows))
    }

    /// The rows of the last step of a recursion.
    pub(crate) fn work_table(&self, id: usize) -> Pipe {
        match self.outer.work_tables.get(&id) {
            Some(rows) => of_rows(rows.clone()),
            None => unreachable!("a work table is read in the step of its recursion"),
        }
    }

    /// All rows of a plan, in the order of its pipe.
    pub(crate) fn rows(&self, plan: &Plan, place: &OperatorPlace, filters: &Filters) -> Result<Arc<Rows>, ExecError> {
        rows_of(&self.pipe(plan, place, filters)?, &self.run)
    }
}
