//! [`bind`]: the native plan of a subtree over the rows of one catalog state.
//!
//! Invariant: the columns of the plan that is made of an operator are those of the operator's schema, one by one, of
//! equal types; names may differ.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::utils::split_conjunction;
use datafusion_expr::{
    Distinct, Expr, ExprSchemable, FetchType, Filter, Limit, LogicalPlan, Projection, SkipType, Values,
};
use exec::{Expression, Output, Plan, SortKey, Union};

use super::binder::Binder;
use super::constant::{row, value};
use super::predicate::predicate;
use super::scan::{filtered_scan, stored_scan};
use super::scope::{Columns, Scope, has_subquery, keep};
use super::support::is_constant;
use super::{LoweredPlan, PhysicalExpression, Props, Slots, aggregate, bug, join, sources, unnest, window};
use crate::catalog::Snapshot;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The plan of a native subtree over the rows of one catalog state.
pub(crate) fn bind(node: &LoweredPlan, catalog: &Snapshot, props: ExecutionProps) -> Result<Plan> {
    bind_with(node, catalog, props, Slots::new())
}

/// As [`bind`], with values for the parameters of the subtree: each has one value, of the type that it is compared
/// with.
pub(crate) fn bind_with(node: &LoweredPlan, catalog: &Snapshot, props: ExecutionProps, slots: Slots) -> Result<Plan> {
    bind_as_written(node, catalog, props, slots).map(exec::optimize)
}

/// As [`bind_with`], and nothing is moved to where it costs less.
pub(crate) fn bind_as_written(
    node: &LoweredPlan,
    catalog: &Snapshot,
    props: ExecutionProps,
    slots: Slots,
) -> Result<Plan> {
    let props = Props::new(props, slots);
    Binder::new(catalog, &props, |binder, plan| binder.operator(plan)).plan(&node.plan)
}

impl Binder<'_> {
    fn operator(&self, plan: &LogicalPlan) -> Result<Plan> {
        match plan {
            LogicalPlan::TableScan(scan) => sources::scan(self, scan),
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => self.project(projection),
            LogicalPlan::SubqueryAlias(alias) => self.plan(&alias.input),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Aggregate(node) => aggregate::aggregate(self, node),
            LogicalPlan::Distinct(Distinct::All(input)) => aggregate::distinct(self.plan(input)?),
            LogicalPlan::Sort(sort) => {
                let mut scope = Scope::new(self.plan(&sort.input)?, sort.input.schema());
                let width = scope.schema.fields().len();
                let exprs = sort.expr.iter().map(|s| scope.resolve(self, &s.expr)).collect::<Result<Vec<_>>>()?;
                let mut columns = Columns::new(&scope.schema, self.props);
                let keys = exprs.iter().zip(&sort.expr).map(|(expr, s)| {
                    Ok(SortKey { column: columns.index(expr)?, descending: !s.asc, nulls_first: s.nulls_first })
                });
                let keys = keys.collect::<Result<Vec<_>>>()?;
                let sorted = columns.over(scope.plan)?.sort(keys, sort.fetch).map_err(bug)?;
                if sorted.schema().fields().len() > width { keep(sorted, 0..width) } else { Ok(sorted) }
            }
            LogicalPlan::Join(node) => join::join(self, node),
            LogicalPlan::Window(node) => window::window(self, node),
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| self.plan(input)).collect::<Result<Vec<_>>>()?;
                let plan = Plan::Union(Union { inputs, schema: Arc::clone(union.schema.inner()) });
                plan.validate().map_err(bug)?;
                Ok(plan)
            }
            LogicalPlan::EmptyRelation(empty) => {
                let schema = Arc::clone(empty.schema.inner());
                let options = RecordBatchOptions::new().with_row_count(Some(1));
                let nulls = schema.fields().iter().map(|f| new_null_array(f.data_type(), 1)).collect();
                let batches = match empty.produce_one_row {
                    true => vec![RecordBatch::try_new_with_options(Arc::clone(&schema), nulls, &options)?],
                    false => Vec::new(),
                };
                Ok(Plan::Values { schema, batches })
            }
            LogicalPlan::Values(node) => self.values(node),
            LogicalPlan::Subquery(query) => self.plan(&query.subquery),
            LogicalPlan::RecursiveQuery(query) => sources::recursive(self, query),
            LogicalPlan::Unnest(node) => unnest::unnest(self, node),
            other => Err(Error::Internal(format!("{} was lowered", other.display()))),
        }
    }

    /// Conditions without subqueries come first: fewer rows meet the values of the others.
    fn filter(&self, filter: &Filter) -> Result<Plan> {
        if self.catalog.is_telling()
            && !has_subquery(&filter.predicate)
            && let Some(scan) = stored_scan(&filter.input)
        {
            let (plan, of) = filtered_scan(scan, self.catalog, self.props)?;
            let predicate = predicate(&filter.predicate, filter.input.schema(), self.props)?;
            let plan = plan.filter(predicate).map_err(bug)?;
            of.tell(self.catalog, &plan);
            return Ok(plan);
        }
        let mut scope = Scope::new(self.plan(&filter.input)?, filter.input.schema());
        if !has_subquery(&filter.predicate) {
            let predicate = predicate(&filter.predicate, &scope.schema, self.props)?;
            return scope.plan.filter(predicate).map_err(bug);
        }
        let (later, first): (Vec<&Expr>, Vec<&Expr>) =
            split_conjunction(&filter.predicate).into_iter().partition(|e| has_subquery(e));
        for condition in first {
            let predicate = predicate(condition, &scope.schema, self.props)?;
            scope.plan = scope.plan.filter(predicate).map_err(bug)?;
        }
        for condition in later {
            let condition = scope.resolve(self, condition)?;
            let predicate = predicate(&condition, &scope.schema, self.props)?;
            scope.plan = scope.plan.filter(predicate).map_err(bug)?;
        }
        scope.finish()
    }

    fn project(&self, projection: &Projection) -> Result<Plan> {
        let mut scope = Scope::new(self.plan(&projection.input)?, projection.input.schema());
        let exprs = scope.resolve_all(self, &projection.expr)?;
        let fields = projection.schema.fields();
        let outputs = exprs.iter().zip(fields).map(|(expr, field)| output(expr, field, &scope.schema, self.props));
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        scope.plan.project(outputs).map_err(bug)
    }

    fn limit(&self, limit: &Limit) -> Result<Plan> {
        let input = self.plan(&limit.input)?;
        let skip = match limit.get_skip_type()? {
            SkipType::Literal(skip) => skip,
            SkipType::UnsupportedExpr => self.row_count(limit.skip.as_deref(), "OFFSET")?.unwrap_or(0),
        };
        let fetch = match limit.get_fetch_type()? {
            FetchType::Literal(fetch) => fetch,
            FetchType::UnsupportedExpr => self.row_count(limit.fetch.as_deref(), "LIMIT")?,
        };
        match (&input, fetch) {
            // The optimiser has told the sort.
            (Plan::Sort(sort), Some(fetch)) if skip == 0 && sort.fetch.is_some_and(|f| f <= fetch) => Ok(input),
            _ => Ok(input.limit(skip, fetch)),
        }
    }

    /// A number of rows that is computed; `None` for NULL, which is no limit.
    fn row_count(&self, expr: Option<&Expr>, clause: &str) -> Result<Option<usize>> {
        let Some(expr) = expr else { return Ok(None) };
        if !is_constant(expr) {
            return Err(Error::Unsupported(format!("{clause} takes a constant, not {expr}; run its query first")));
        }
        match value(expr, self.props)?.cast_to(&DataType::Int64)? {
            ScalarValue::Int64(Some(rows)) => match usize::try_from(rows) {
                Ok(rows) => Ok(Some(rows)),
                Err(_) => {
                    let code = match clause {
                        "OFFSET" => SqlState::InvalidRowCountInOffset,
                        _ => SqlState::InvalidRowCountInLimit,
                    };
                    Err(Error::execution(code, format!("{clause} is {rows}; it takes a number of rows, 0 or more")))
                }
            },
            _ => Ok(None),
        }
    }

    /// Rows with a query among their values, each a projection of one row.
    fn values_of_queries(&self, node: &Values) -> Result<Plan> {
        let empty = DFSchema::empty();
        let mut inputs = Vec::with_capacity(node.values.len());
        for row in &node.values {
            let mut scope = Scope::new(one_row()?, &empty);
            let exprs = scope.resolve_all(self, row)?;
            let output = |(expr, field): (&Cow<'_, Expr>, &Arc<Field>)| {
                let expr = expr.as_ref().clone().cast_to(field.data_type(), scope.schema.as_ref())?;
                output(&expr, field, &scope.schema, self.props)
            };
            let outputs = exprs.iter().zip(node.schema.fields()).map(output).collect::<Result<Vec<_>>>()?;
            inputs.push(scope.plan.project(outputs).map_err(bug)?);
        }
        let plan = Plan::Union(Union { inputs, schema: Arc::clone(node.schema.inner()) });
        plan.validate().map_err(bug)?;
        Ok(plan)
    }

    fn values(&self, node: &Values) -> Result<Plan> {
        if node.values.iter().flatten().any(has_subquery) {
            return self.values_of_queries(node);
        }
        let schema = Arc::clone(node.schema.inner());
        let columns = schema.fields().iter().enumerate().map(|(c, field)| {
            let values = node.values.iter().map(|row| value(&row[c], self.props)).collect::<Result<Vec<_>>>()?;
            let array = ScalarValue::iter_to_array(values)?;
            Ok(match array.data_type() == field.data_type() {
                true => array,
                false => arrow::compute::cast(&array, field.data_type())?,
            })
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(node.values.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
        Ok(Plan::Values { schema, batches: vec![batch] })
    }
}

/// A row without columns.
fn one_row() -> Result<Plan> {
    let row = row()?;
    Ok(Plan::Values { schema: row.schema(), batches: vec![row] })
}

fn output(expr: &Expr, field: &Arc<Field>, schema: &DFSchema, props: &Props) -> Result<Output> {
    let field = Arc::clone(field);
    if let Expr::Column(column) = expr.clone().unalias() {
        return Ok(Output::Column { column: schema.index_of_column(&column)?, field });
    }
    let expression = PhysicalExpression::new(expr, schema, props)?;
    if field.data_type() != expression.data_type() {
        return Err(Error::Internal(format!(
            "{expr} was planned as {} and evaluates to {}",
            field.data_type(),
            expression.data_type()
        )));
    }
    Ok(Output::Expression { expression: Arc::new(expression), field })
}
