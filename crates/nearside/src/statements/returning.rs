//! `RETURNING`: what a statement that writes gives of its rows.
//!
//! The list is planned as a query of the tables that the statement names, and what it reads of them is replaced by the
//! rows that the statement is about to write. It is evaluated before they are committed: where it fails nothing was
//! written, and its own queries see what the statement saw.
//!
//! # Limits
//! Rows are kept in memory, within the statement's budget. Of what a row was before UPDATE nothing is given.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::ScalarValue;
use datafusion_expr::{Expr, LogicalPlan, Projection};
use numa::Reservation;
use parking_lot::Mutex;

use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::context::PlanContext;
use crate::plan::headers;
use crate::rewrite::chars::delivered;
use crate::run::outcome::{Done, Outcome};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::sql::{Returning, fresh_name, plan_statement};
use crate::statements::given::given;
use crate::statements::parameters::with_values;
use crate::statements::written_views::{ViewChecks, WrittenView};

/// The query of RETURNING, as planned: its outputs over the rows of the tables that the statement names.
///
/// # Errors
/// Wrong SQL, unknown names, what gives other rows than those that were written.
pub(crate) fn planned(
    returning: &Returning,
    view: Option<&Arc<WrittenView>>,
    running: &RunningStatement,
) -> Result<LogicalPlan> {
    let table = returning.table().and_then(|name| running.named(name).ok());
    let target = table.and_then(|name| running.catalog.table(&name).ok()).map(|table| table.id);
    let context = match view {
        Some(view) => view.context(running),
        None => PlanContext { target, ..running.plan_context() },
    };
    let plan = plan_statement(returning.query()?, &context)?;
    let is_of_rows = match &plan {
        LogicalPlan::Projection(outputs) => {
            matches!(
                outputs.input.as_ref(),
                LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_)
            )
        }
        _ => false,
    };
    match is_of_rows {
        true => Ok(plan),
        false => Err(Error::plan(
            SqlState::FeatureNotSupported,
            "RETURNING gives a row for each that was written: aggregates, window functions and functions that give \
             rows are not allowed in it",
        )),
    }
}

/// What a statement gives of its rows, if it has RETURNING.
#[derive(Default)]
pub(crate) struct Returned {
    plan: Option<LogicalPlan>,
    /// What its columns are called.
    names: Vec<String>,
    /// The view through which the rows are written.
    view: Option<Arc<WrittenView>>,
    /// What views say of rows that are written through them.
    checks: Option<ViewChecks>,
    rows: Mutex<Option<Evaluated>>,
}

struct Evaluated {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    _held: Vec<Reservation>,
}

impl Returned {
    /// For a statement with these values for its parameters.
    ///
    /// # Errors
    /// Those of [`planned`].
    pub(crate) fn of(
        returning: Option<&Returning>,
        view: Option<&Arc<WrittenView>>,
        values: &[ScalarValue],
        running: &RunningStatement,
    ) -> Result<Returned> {
        let view_or_none = view.cloned();
        let Some(returning) = returning else { return Ok(Returned { view: view_or_none, ..Returned::default() }) };
        let plan = planned(returning, view, running)?;
        let names = headers::names(&plan);
        let plan = Some(with_values(plan, values, None)?);
        Ok(Returned { plan, names, view: view_or_none, ..Returned::default() })
    }

    /// The same, which has rows looked at that a view would not show.
    pub(crate) fn checking(self, checks: ViewChecks) -> Returned {
        Returned { checks: Some(checks).filter(|checks| !checks.is_empty()), ..self }
    }

    /// Whether rows have to be told.
    pub(crate) fn is_wanted(&self) -> bool {
        self.plan.is_some() || self.checks.is_some()
    }

    /// The view through which the rows are written.
    pub(crate) fn view(&self) -> Option<&Arc<WrittenView>> {
        self.view.as_ref()
    }

    /// Columns beside those of the table that is written, of the tables it is joined with: those of a plan's input
    /// from the `first` on, under names that nothing else has.
    pub(crate) fn others(&self, input: &LogicalPlan, first: usize) -> Vec<Expr> {
        if !self.is_wanted() {
            return Vec::new();
        }
        let first = self.view.as_ref().map_or(first, |view| view.width());
        let others = input.schema().columns().into_iter().skip(first);
        others.map(|column| Expr::Column(column).alias(fresh_name("joined"))).collect()
    }

    /// Evaluates it for the rows that the statement writes: they have the table's columns, then those of the tables
    /// it is joined with.
    ///
    /// # Errors
    /// Those of the list.
    pub(crate) fn evaluate(&self, rows: &[RecordBatch], running: &Arc<RunningStatement>) -> Result<()> {
        if let Some(checks) = &self.checks {
            checks.check(rows, running)?;
        }
        let Some(LogicalPlan::Projection(outputs)) = &self.plan else { return Ok(()) };
        let bytes: usize = rows.iter().map(RecordBatch::get_array_memory_size).sum();
        let _rows_held = running.statement.budget().reserve(2 * bytes as u64)?;
        let input = match &self.view {
            Some(view) => view.seen(outputs.input.schema(), rows)?,
            None => given(outputs.input.schema(), rows)?,
        };
        let mut plan = LogicalPlan::Projection(Projection::try_new(outputs.expr.clone(), Arc::new(input))?);
        if let Some(view) = &self.view {
            plan = view.with_views(plan)?;
        }
        let lowered = query::lowered(
            query::optimised(delivered(plan, running.planner.config_options())?, running)?,
            &self.names,
        )?;
        let stream = query::start(&lowered, Arc::clone(running), true)?;
        let schema = Arc::clone(stream.schema());
        let mut batches = Vec::new();
        let mut held = Vec::new();
        for batch in stream {
            let batch = batch?;
            held.push(running.statement.budget().reserve(exec::batch_bytes(&batch))?);
            batches.push(batch);
        }
        *self.rows.lock() = Some(Evaluated { schema, batches, _held: held });
        Ok(())
    }

    /// What comes of the statement that has done this.
    pub(crate) fn outcome(self, done: Done) -> Outcome {
        match self.rows.into_inner() {
            Some(rows) => Outcome::Rows(ResultStream::returned(rows.schema, rows.batches, done)),
            None => Outcome::Done(done),
        }
    }
}
