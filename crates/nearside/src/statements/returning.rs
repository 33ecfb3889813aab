//! `RETURNING`: what a statement that writes gives of its rows.
//!
//! The list is planned as a query of the tables that the statement names, and what it reads of them is replaced by the
//! rows that the statement is about to write. It is evaluated before they are committed: where it fails nothing was
//! written, and its own queries see what the statement saw.
//!
//! # Limits
//! Rows are kept in memory, within the statement's budget. Of what a row was before UPDATE nothing is given.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::{Column as ColumnName, DFSchemaRef, ScalarValue, TableReference};
use datafusion_expr::{Expr, LogicalPlan, Projection, TableScanBuilder};
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
use crate::statements::parameters::with_values;
use crate::tables::sources::GivenSource;

/// The query of RETURNING, as planned: its outputs over the rows of the tables that the statement names.
///
/// # Errors
/// Wrong SQL, unknown names, what gives other rows than those that were written.
pub(crate) fn planned(returning: &Returning, running: &RunningStatement) -> Result<LogicalPlan> {
    let table = returning.table().and_then(|name| running.named(name).ok());
    let target = table.and_then(|name| running.catalog.table(&name).ok()).map(|table| table.id);
    let plan = plan_statement(returning.query()?, &PlanContext { target, ..running.plan_context() })?;
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
        values: &[ScalarValue],
        running: &RunningStatement,
    ) -> Result<Returned> {
        let Some(returning) = returning else { return Ok(Returned::default()) };
        let plan = planned(returning, running)?;
        let names = headers::names(&plan);
        Ok(Returned { plan: Some(with_values(plan, values, None)?), names, rows: Mutex::default() })
    }

    /// Whether rows have to be told.
    pub(crate) fn is_wanted(&self) -> bool {
        self.plan.is_some()
    }

    /// Columns beside those of the table that is written, of the tables it is joined with: those of a plan's input
    /// from the `first` on, under names that nothing else has.
    pub(crate) fn others(&self, input: &LogicalPlan, first: usize) -> Vec<Expr> {
        if !self.is_wanted() {
            return Vec::new();
        }
        let others = input.schema().columns().into_iter().skip(first);
        others.map(|column| Expr::Column(column).alias(fresh_name("joined"))).collect()
    }

    /// Evaluates it for the rows that the statement writes: they have the table's columns, then those of the tables
    /// it is joined with.
    ///
    /// # Errors
    /// Those of the list.
    pub(crate) fn evaluate(&self, rows: &[RecordBatch], running: &Arc<RunningStatement>) -> Result<()> {
        let Some(LogicalPlan::Projection(outputs)) = &self.plan else { return Ok(()) };
        let bytes: usize = rows.iter().map(RecordBatch::get_array_memory_size).sum();
        let _rows_held = running.statement.budget().reserve(2 * bytes as u64)?;
        let input = given(outputs.input.schema(), rows)?;
        let plan = LogicalPlan::Projection(Projection::try_new(outputs.expr.clone(), Arc::new(input))?);
        let lowered = query::lowered(query::optimised(delivered(plan)?, running)?, &self.names)?;
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

/// Rows in the place of the tables that a query reads, whose schema it is.
fn given(of: &DFSchemaRef, rows: &[RecordBatch]) -> Result<LogicalPlan> {
    let fields = of.fields().iter().enumerate();
    let fields =
        fields.map(|(place, field)| Arc::new(Field::clone(field).with_name(format!("c{place}")).with_nullable(true)));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batches = rows.iter().map(|batch| {
        let of_types = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
            match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => Ok(arrow::compute::cast(column, field.data_type())?),
            }
        });
        let columns = of_types.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
    });
    let batches = batches.collect::<Result<Vec<_>>>()?;
    let rows = match batches.is_empty() {
        true => {
            let none = schema.fields().iter().map(|field| new_empty_array(field.data_type())).collect();
            RecordBatch::try_new(Arc::clone(&schema), none)?
        }
        false => concat_batches(&schema, &batches)?,
    };
    let name = TableReference::bare(fresh_name("written"));
    let scan = TableScanBuilder::new(name.clone(), GivenSource::table(rows)).build()?;
    let named = of.iter().enumerate().map(|(place, (qualifier, field))| {
        let column = Expr::Column(ColumnName::new(Some(name.clone()), format!("c{place}")));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(LogicalPlan::TableScan(scan)))?))
}
