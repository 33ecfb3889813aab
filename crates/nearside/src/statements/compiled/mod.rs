//! Expressions over one row, optimised once and evaluated often.

mod direct;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection};
use exec::Expression;

use crate::catalog::lengths::{LENGTH, Length};
use crate::error::{Error, Result};
use crate::lower::PhysicalExpression;
use crate::rewrite::assigned::is_assignable;
use crate::run::cache::is_now;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::statements::compiled::direct::Direct;
use crate::tables::sources::GivenSource;

/// What the row is called while its expressions are optimised.
const ROW: &str = "row";

/// An expression over a row.
#[derive(Debug)]
pub(super) struct Compiled {
    planned: PhysicalExpression,
    /// The columns of the row that it is planned over.
    columns: SchemaRef,
    direct: Option<Direct>,
}

/// The columns of a row: values of parameters are columns like others, the last ones, called `$1`, `$2`, ..
pub(super) struct RowSchema {
    columns: SchemaRef,
    parameters: usize,
}

/// What the moment of a statement is called, which is the last parameter where there is one.
pub(super) const MOMENT: &str = "$moment";

impl Compiled {
    fn new(expression: &Expr, schema: &DFSchema, running: &RunningStatement) -> Result<Compiled> {
        let planned = PhysicalExpression::opaque(expression, schema, &running.props())?;
        let field = |place: &usize| Field::new("", schema.field(*place).data_type().clone(), true);
        let columns = Arc::new(Schema::new(planned.columns().iter().map(field).collect::<Vec<_>>()));
        let direct = Direct::new(expression, schema, planned.data_type());
        Ok(Compiled { planned, columns, direct })
    }

    /// The type of its values.
    pub(super) fn data_type(&self) -> &DataType {
        self.planned.data_type()
    }

    /// The column of the row that it is, if it is one as it stands.
    pub(super) fn column(&self) -> Option<usize> {
        match self.direct {
            Some(Direct::Column(place)) => Some(place),
            _ => None,
        }
    }

    /// Its value for a row: the columns, an array of one value each.
    ///
    /// # Errors
    /// Those of evaluating it.
    pub(super) fn of(&self, row: &[ArrayRef]) -> Result<ArrayRef> {
        match self.direct_of(row) {
            Some(value) => Ok(value),
            None => self.planned_of(row),
        }
    }

    pub(super) fn direct_of(&self, row: &[ArrayRef]) -> Option<ArrayRef> {
        self.direct.as_ref()?.of(row)
    }

    pub(super) fn planned_of(&self, row: &[ArrayRef]) -> Result<ArrayRef> {
        self.over(row, 1)
    }

    /// Its values for several rows, whose columns are those that it is planned over.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) fn over(&self, row: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let columns = self.planned.columns().iter().map(|place| Arc::clone(&row[*place])).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let row = RecordBatch::try_new_with_options(Arc::clone(&self.columns), columns, &options)?;
        Ok(self.planned.evaluate(&row)?)
    }
}

/// A plan in which what several outputs have in common, and is computed below them, stands in each of them; `None`
/// where that is something else each time.
fn at_once(plan: LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(outputs) = plan else { return Ok(Some(plan)) };
    let LogicalPlan::Projection(below) = outputs.input.as_ref() else {
        return Ok(Some(LogicalPlan::Projection(outputs)));
    };
    if below.expr.iter().any(Expr::is_volatile) {
        return Ok(None);
    }
    let put = |output: &Expr| {
        let name = output.qualified_name().1;
        let put = output.clone().unalias().transform_up(|part| match &part {
            Expr::Column(column) => {
                let place = below.schema.index_of_column(column)?;
                Ok(Transformed::yes(below.expr[place].clone().unalias()))
            }
            _ => Ok(Transformed::no(part)),
        })?;
        Ok(put.data.alias(name))
    };
    let merged = outputs.expr.iter().map(put).collect::<Result<Vec<_>>>()?;
    at_once(LogicalPlan::Projection(Projection::try_new(merged, Arc::clone(&below.input))?))
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
                // What is wrong with it, or how a text is read, is said where values are known.
                let from = field.data_type();
                let is_read = from.is_string() && !to.data_type().is_string();
                if is_read || !is_assignable(from, to.data_type()) {
                    return Ok(None);
                }
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
        let Some(optimised) = at_once(optimised)? else { return Ok(None) };
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
        let compiled = outputs.iter().map(|output| Compiled::new(&output.clone().unalias(), &schema, running));
        compiled.collect::<Result<Vec<_>>>().map(Some)
    }

    /// The expression with the row's columns; `None` where it has another, or a parameter without a type.
    fn over_row(&self, expression: Expr) -> Result<Option<Expr>> {
        let (mut is_known, mut has_parameter, mut has_fixed) = (true, false, false);
        let over_row = expression.transform_up(|part| {
            let (name, is_parameter) = match &part {
                Expr::Column(column) => (column.name.as_str(), false),
                Expr::Placeholder(parameter) => (parameter.id.as_str(), true),
                Expr::ScalarFunction(call) if is_now(&call.func) => (MOMENT, true),
                _ => return Ok(Transformed::no(part)),
            };
            // Parameters are the last columns.
            let first_parameter = self.columns.fields().len() - self.parameters;
            let place = self.columns.index_of(name);
            if let Ok(place) = &place {
                let length = self.columns.field(*place).metadata().get(LENGTH);
                has_fixed |= length.and_then(|text| Length::of_text(text)).is_some_and(|length| length.is_fixed());
            }
            has_parameter |= is_parameter;
            is_known &= place.is_ok_and(|place| (place >= first_parameter) == is_parameter);
            Ok(Transformed::yes(Expr::Column(Column::new(Some(ROW), name))))
        })?;
        // A text that is compared with a CHAR(n) counts without the blanks at its end, and what a parameter is there
        // its value decides, which is no text yet.
        is_known &= !(has_parameter && has_fixed);
        Ok(is_known.then_some(over_row.data))
    }
}
