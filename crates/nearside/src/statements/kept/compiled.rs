//! Expressions over one row, optimised once and evaluated often.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use exec::Expression;

use crate::error::Result;
use crate::lower::PhysicalExpression;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::tables::sources::GivenSource;

/// What the row is called while its expressions are optimised.
const ROW: &str = "row";

/// An expression over a row.
#[derive(Debug)]
pub(super) struct Compiled(PhysicalExpression);

/// The columns of a row: values of parameters are columns like others, called `$1`, `$2`, ..
pub(super) struct RowSchema(SchemaRef);

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
    /// A row of these columns, in this order; `None` where two have one name.
    pub(super) fn new(parts: &[&SchemaRef]) -> Option<RowSchema> {
        let fields = parts.iter().flat_map(|part| part.fields().iter());
        let fields: Vec<FieldRef> = fields.map(|field| Arc::new(Field::clone(field).with_nullable(true))).collect();
        let names: std::collections::HashSet<&String> = fields.iter().map(|field| field.name()).collect();
        (names.len() == fields.len()).then(|| RowSchema(Arc::new(Schema::new(fields))))
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
        let source = GivenSource::table(RecordBatch::new_empty(Arc::clone(&self.0)));
        let mut plan = LogicalPlanBuilder::scan(ROW, source, None)?.project(outputs)?.build()?;
        if let Some(to) = to {
            let mut cast = Vec::with_capacity(count);
            for ((table, field), to) in plan.schema().iter().zip(to.fields()) {
                let column = Expr::Column(Column::from((table, field)));
                cast.push(column.cast_to(to.data_type(), plan.schema())?.alias(field.name()));
            }
            plan = LogicalPlanBuilder::from(plan).project(cast)?.build()?;
        }
        let optimised = query::optimised(plan, running)?;
        let outputs = match &optimised {
            LogicalPlan::Projection(projection) if matches!(*projection.input, LogicalPlan::TableScan(_)) => {
                projection.expr.clone()
            }
            LogicalPlan::Projection(projection) if matches!(*projection.input, LogicalPlan::EmptyRelation(_)) => {
                return Ok(None);
            }
            LogicalPlan::TableScan(_) => {
                optimised.schema().iter().map(|(table, field)| Expr::Column(Column::from((table, field)))).collect()
            }
            _ => return Ok(None),
        };
        if outputs.len() != count {
            return Ok(None);
        }
        let schema = DFSchema::try_from_qualified_schema(ROW, &self.0)?;
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
            let name = match &part {
                Expr::Column(column) => &column.name,
                Expr::Placeholder(parameter) => &parameter.id,
                _ => return Ok(Transformed::no(part)),
            };
            is_known &= self.0.index_of(name).is_ok();
            Ok(Transformed::yes(Expr::Column(Column::new(Some(ROW), name))))
        })?;
        Ok(is_known.then_some(over_row.data))
    }
}
