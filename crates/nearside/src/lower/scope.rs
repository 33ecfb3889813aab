//! [`Scope`]: rows that expressions are bound over, with a column for each of their scalar subqueries, and [`Columns`],
//! the columns that an operator reads, computed below it where they are more than a column.
//!
//! A scalar subquery that does not depend on the row is a cross join with its one row: without a row its value is NULL,
//! and with more than one the statement fails ([`SingleValue`](super::opaque::SingleValue)).

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, TableReference};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::{Expr, LogicalPlan, Subquery};
use exec::{AggregateCall, AggregateFunction, Join, JoinKind, Output, Plan, Side};

use super::binder::Binder;
use super::opaque::SingleValue;
use super::{PhysicalExpression, bug};
use crate::error::{Error, Result};

/// Rows and what their columns are called.
pub(super) struct Scope<'a> {
    /// The rows.
    pub plan: Plan,
    /// Of the plan's columns, one by one.
    pub schema: Cow<'a, DFSchema>,
    /// Columns before those of subqueries.
    width: usize,
    subqueries: Vec<(Subquery, Column)>,
}

impl<'a> Scope<'a> {
    /// The rows of an operator's input.
    pub(super) fn new(plan: Plan, schema: &'a DFSchema) -> Scope<'a> {
        Scope { plan, schema: Cow::Borrowed(schema), width: schema.fields().len(), subqueries: Vec::new() }
    }

    /// `expr` with columns in place of its scalar subqueries; the columns are there from then on.
    pub(super) fn resolve<'e>(&mut self, binder: &Binder<'_>, expr: &'e Expr) -> Result<Cow<'e, Expr>> {
        if !has_subquery(expr) {
            return Ok(Cow::Borrowed(expr));
        }
        let mut failed = None;
        let resolved = expr.clone().transform_down(|e| {
            let Expr::ScalarSubquery(query) = &e else { return Ok(Transformed::no(e)) };
            match self.column_of(binder, query) {
                Ok(column) => Ok(Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump)),
                Err(error) => {
                    failed = Some(error);
                    Ok(Transformed::new(e, false, TreeNodeRecursion::Stop))
                }
            }
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(Cow::Owned(resolved.data)),
        }
    }

    /// [`Scope::resolve`] for each.
    pub(super) fn resolve_all<'e>(&mut self, binder: &Binder<'_>, exprs: &'e [Expr]) -> Result<Vec<Cow<'e, Expr>>> {
        exprs.iter().map(|e| self.resolve(binder, e)).collect()
    }

    /// The rows without the columns of subqueries.
    pub(super) fn finish(self) -> Result<Plan> {
        match self.subqueries.is_empty() {
            true => Ok(self.plan),
            false => keep(self.plan, 0..self.width),
        }
    }

    fn column_of(&mut self, binder: &Binder<'_>, query: &Subquery) -> Result<Column> {
        // What differs from call to call is computed where it is written.
        let again = self.subqueries.iter().find(|(known, _)| known == query && !is_volatile(&query.subquery));
        if let Some((_, column)) = again {
            return Ok(column.clone());
        }
        let name = format!("__subquery_{}", self.schema.fields().len());
        let data_type = query.subquery.schema().field(0).data_type();
        let field = Arc::new(Field::new(&name, data_type.clone(), true));
        let value = one_row(binder.plan(&query.subquery)?, &query.subquery, &field)?;
        let join = Join {
            left: std::mem::replace(&mut self.plan, Plan::Values { schema: value.schema(), batches: Vec::new() }),
            right: value,
            kind: JoinKind::Inner,
            on: Vec::new(),
            nulls_equal: false,
            null_aware: false,
            residual: None,
            build: Side::Right,
        };
        self.plan = Plan::join(join).map_err(bug)?;
        let mut fields: Vec<(Option<TableReference>, FieldRef)> =
            self.schema.iter().map(|(q, f)| (q.cloned(), Arc::clone(f))).collect();
        fields.push((None, field));
        self.schema = Cow::Owned(DFSchema::new_with_metadata(fields, self.schema.metadata().clone())?);
        let column = Column::new_unqualified(name);
        self.subqueries.push((query.clone(), column.clone()));
        Ok(column)
    }
}

/// Exactly one row: the value of a scalar subquery.
fn one_row(plan: Plan, query: &LogicalPlan, field: &FieldRef) -> Result<Plan> {
    if has_one_row(query) {
        let output = Output::Column { column: 0, field: Arc::clone(field) };
        return plan.project(vec![output]).map_err(bug);
    }
    let function = AggregateFunction::Opaque(Arc::new(SingleValue::new(field.data_type().clone())));
    let call = AggregateCall {
        function,
        arguments: vec![0],
        distinct: false,
        filter: None,
        order: Vec::new(),
        field: Arc::clone(field),
    };
    plan.aggregate(Vec::new(), vec![call]).map_err(bug)
}

/// True for plans that give one row whatever the tables hold.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// True where some expression of a plan may give another value each time.
pub(super) fn is_volatile(plan: &LogicalPlan) -> bool {
    let mut volatile = false;
    // The walk never fails.
    let _ = plan.apply_with_subqueries(|node| {
        volatile |= node.expressions().iter().any(Expr::is_volatile);
        Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    volatile
}

/// True where a scalar subquery is part of the expression.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    matches!(expr.exists(|e| Ok(matches!(e, Expr::ScalarSubquery(_)))), Ok(true))
}

/// The plan's rows with some of its columns only.
pub(super) fn keep(plan: Plan, columns: impl IntoIterator<Item = usize>) -> Result<Plan> {
    let schema = plan.schema();
    let outputs = columns.into_iter().map(|column| {
        let field = Arc::clone(&schema.fields()[column]);
        Output::Column { column, field }
    });
    plan.project(outputs.collect()).map_err(bug)
}

/// Columns that an operator reads: those of its input, and computed ones behind them.
pub(super) struct Columns<'a> {
    schema: &'a DFSchema,
    props: &'a ExecutionProps,
    computed: Vec<(Expr, Output)>,
}

impl<'a> Columns<'a> {
    /// Of an input with this schema.
    pub(super) fn new(schema: &'a DFSchema, props: &'a ExecutionProps) -> Columns<'a> {
        Columns { schema, props, computed: Vec::new() }
    }

    /// The names that expressions refer to.
    pub(super) fn schema(&self) -> &'a DFSchema {
        self.schema
    }

    /// The index of the column that holds `expr`.
    pub(super) fn index(&mut self, expr: &Expr) -> Result<usize> {
        let mut bare = expr;
        while let Expr::Alias(alias) = bare {
            bare = &alias.expr;
        }
        if let Expr::Column(column) = bare {
            return Ok(self.schema.index_of_column(column)?);
        }
        let first = self.schema.fields().len();
        if let Some(known) = self.computed.iter().position(|(known, _)| known == bare && !bare.is_volatile()) {
            return Ok(first + known);
        }
        let expression = PhysicalExpression::new(bare, self.schema, self.props)?;
        let field =
            Field::new(exec::Expression::describe(&expression), exec::Expression::data_type(&expression).clone(), true);
        let output = Output::Expression { expression: Arc::new(expression), field: Arc::new(field) };
        self.computed.push((bare.clone(), output));
        Ok(first + self.computed.len() - 1)
    }

    /// What expressions are bound with.
    pub(super) fn props(&self) -> &'a ExecutionProps {
        self.props
    }

    /// How many columns are computed.
    pub(super) fn computed(&self) -> usize {
        self.computed.len()
    }

    /// The input with the computed columns behind its own.
    pub(super) fn over(self, input: Plan) -> Result<Plan> {
        if self.computed.is_empty() {
            return Ok(input);
        }
        let schema = input.schema();
        if schema.fields().len() != self.schema.fields().len() {
            return Err(Error::Internal(format!(
                "a plan has {} columns and its logical plan {}",
                schema.fields().len(),
                self.schema.fields().len()
            )));
        }
        let own = schema.fields().iter().enumerate().map(|(column, f)| Output::Column { column, field: Arc::clone(f) });
        let outputs = own.chain(self.computed.into_iter().map(|(_, output)| output)).collect();
        input.project(outputs).map_err(bug)
    }
}
