//! Expressions over one row, optimised once and evaluated often.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use exec::Expression;

use crate::error::{Error, Result};
use crate::lower::PhysicalExpression;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::tables::sources::GivenSource;

/// What the row is called while its expressions are optimised.
const ROW: &str = "row";

/// An expression over a row.
#[derive(Debug)]
pub(super) struct Compiled(PhysicalExpression);

/// The columns of a row: values of parameters are columns like others, the last ones, called `$1`, `$2`, ..
pub(super) struct RowSchema {
    columns: SchemaRef,
    parameters: usize,
}

impl Compiled {
    /// The type of its values.
    pub(super) fn data_type(&self) -> &DataType {
        self.0.data_type()
    }

    /// Its value for a row.
    ///
    /// # Errors
    /// Those of evaluating it.
    pub(super) fn of(&self, row: &RecordBatch) -> Result<ArrayRef> {
        Ok(self.0.evaluate(&row.project(self.0.columns())?)?)
    }
}

impl RowSchema {
    /// A row of these columns, and parameters behind them; `None` where two have one name.
    pub(super) fn new(columns: Option<&SchemaRef>, parameters: &SchemaRef) -> Option<RowSchema> {
        let fields = columns.into_iter().chain([parameters]).flat_map(|part| part.fields().iter());
        let fields: Vec<FieldRef> = fields.map(|field| Arc::new(Field::clone(field).with_nullable(true))).collect();
        let names: std::collections::HashSet<&String> = fields.iter().map(|field| field.name()).collect();
        (names.len() == fields.len())
            .then(|| RowSchema { columns: Arc::new(Schema::new(fields)), parameters: parameters.fields().len() })
    }

    /// Expressions over the row, cast to the types of the columns of `to` where it is given; `None` where they cannot
    /// be evaluated by themselves. Columns are known by their names alone.
    ///
    /// # Errors
    /// Those of planning.
    pub(super) fn compiled(
        &self,
        expressions: Vec<Expr>,
        to: Option<&SchemaRef>,
        running: &Arc<RunningStatement>,
    ) -> Result<Option<Vec<Compiled>>> {
        let count = expressions.len();
        let mut outputs = Vec::with_capacity(count);
        for (place, expression) in expressions.into_iter().enumerate() {
            let Some(expression) = self.over_row(expression.unalias())? else { return Ok(None) };
            outputs.push(expression.alias(format!("output {place}")));
        }
        let source = GivenSource::table(RecordBatch::new_empty(Arc::clone(&self.columns)));
        let planned = LogicalPlanBuilder::scan(ROW, source, None)?.project(outputs).and_then(LogicalPlanBuilder::build);
        let Ok(mut plan) = planned else { return Ok(None) };
        if let Some(to) = to {
            let mut cast = Vec::with_capacity(count);
            for ((table, field), to) in plan.schema().iter().zip(to.fields()) {
                let column = Expr::Column(Column::from((table, field)));
                let Ok(output) = column.cast_to(to.data_type(), plan.schema()) else { return Ok(None) };
                cast.push(output.alias(field.name()));
            }
            plan = LogicalPlanBuilder::from(plan).project(cast)?.build()?;
        }
        // What is wrong with it shows when the statement is planned, in its own words.
        let optimised = match query::optimised(plan, running) {
            Ok(optimised) => optimised,
            Err(stopped @ (Error::Cancelled | Error::Timeout)) => return Err(stopped),
            Err(_) => return Ok(None),
        };
        let outputs = match &optimised {
            LogicalPlan::Projection(projection) if matches!(*projection.input, LogicalPlan::TableScan(_)) => {
                projection.expr.clone()
            }
            LogicalPlan::TableScan(_) => {
                optimised.schema().iter().map(|(table, field)| Expr::Column(Column::from((table, field)))).collect()
            }
            _ => return Ok(None),
        };
        if outputs.len() != count {
            return Ok(None);
        }
        let schema = DFSchema::try_from_qualified_schema(ROW, &self.columns)?;
        let compiled = outputs.iter().map(|output| {
            let output = output.clone().unalias();
            Ok(Compiled(PhysicalExpression::opaque(&output, &schema, &running.props())?))
        });
        compiled.collect::<Result<Vec<_>>>().map(Some)
    }

    /// The expression with the row's columns; `None` where it has another, or a parameter without a type.
    fn over_row(&self, expression: Expr) -> Result<Option<Expr>> {
        let mut is_known = true;
        let over_row = expression.transform_up(|part| {
            let (name, is_parameter) = match &part {
                Expr::Column(column) => (&column.name, false),
                Expr::Placeholder(parameter) => (&parameter.id, true),
                _ => return Ok(Transformed::no(part)),
            };
            // Parameters are the last columns.
            let first_parameter = self.columns.fields().len() - self.parameters;
            let place = self.columns.index_of(name);
            is_known &= place.is_ok_and(|place| (place >= first_parameter) == is_parameter);
            Ok(Transformed::yes(Expr::Column(Column::new(Some(ROW), name))))
        })?;
        Ok(is_known.then_some(over_row.data))
    }
}
