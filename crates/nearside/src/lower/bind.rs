//! [`bind`]: the native plan of a subtree over the rows of one catalog state.
//!
//! Invariant: the columns of the plan that is made of an operator are those of the operator's schema, one by one, of equal types; names
//! may differ.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Distinct, Expr, FetchType, Filter, Limit, LogicalPlan, Projection, SkipType, Values};
use exec::{Expression, Output, Plan, SortKey, Union};

use super::predicate::predicate;
use super::scan::bind_scan;
use super::scope::{Columns, Scope, has_subquery, keep};
use super::{NativeNode, PhysicalExpression, Props, Slots, aggregate, bug, join};
use crate::catalog::CatalogState;
use crate::error::{Error, Result};
use crate::shared_queries::SharedQuery;

/// The plan of a native subtree over the rows of one catalog state.
pub(crate) fn bind(node: &NativeNode, catalog: &CatalogState, props: ExecutionProps) -> Result<Plan> {
    bind_with(node, catalog, props, Slots::new())
}

/// As [`bind`], with values for the parameters of the subtree: each has one value, of the type that it is compared with.
pub(crate) fn bind_with(
    node: &NativeNode,
    catalog: &CatalogState,
    props: ExecutionProps,
    slots: Slots,
) -> Result<Plan> {
    let props = Props::new(props, slots);
    let plan = Binder { catalog, props: &props, known: RefCell::default() }.plan(&node.plan)?;
    Ok(exec::optimize(plan))
}

/// What binding one subtree needs.
pub(super) struct Binder<'a> {
    catalog: &'a CatalogState,
    /// The statement's time and settings, and the values of parameters.
    pub props: &'a Props,
    /// Plans of queries that stand in several places, by id.
    known: RefCell<HashMap<usize, Arc<exec::Shared>>>,
}

impl Binder<'_> {
    /// The plan of a subtree.
    pub(super) fn plan(&self, plan: &LogicalPlan) -> Result<Plan> {
        let Some(SharedQuery { id, keep, query }) = SharedQuery::of(plan) else { return self.operator(plan) };
        let known = self.known.borrow().get(id).cloned();
        if let Some(known) = known {
            return Ok(Plan::Shared(known));
        }
        let bound = Arc::new(exec::Shared { id: *id, keep: *keep, plan: self.plan(query)? });
        self.known.borrow_mut().insert(*id, Arc::clone(&bound));
        Ok(Plan::Shared(bound))
    }

    fn operator(&self, plan: &LogicalPlan) -> Result<Plan> {
        match plan {
            LogicalPlan::TableScan(scan) => bind_scan(scan, self.catalog, self.props),
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
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| self.plan(input)).collect::<Result<Vec<_>>>()?;
                let plan = Plan::Union(Union { inputs, schema: Arc::clone(union.schema.inner()) });
                plan.validate().map_err(bug)?;
                Ok(plan)
            }
            LogicalPlan::EmptyRelation(empty) => {
                let schema = Arc::clone(empty.schema.inner());
                let options = RecordBatchOptions::new().with_row_count(Some(1));
                let row = RecordBatch::try_new_with_options(Arc::clone(&schema), Vec::new(), &options);
                let batches = if empty.produce_one_row { vec![row?] } else { Vec::new() };
                Ok(Plan::Values { schema, batches })
            }
            LogicalPlan::Values(node) => self.values(node),
            other => Err(Error::Internal(format!("{} was lowered", other.display()))),
        }
    }

    /// Conditions without subqueries come first: fewer rows meet the values of the others.
    fn filter(&self, filter: &Filter) -> Result<Plan> {
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
        let (skip, fetch) = match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(skip), FetchType::Literal(fetch)) => (skip, fetch),
            _ => return Err(Error::Internal("a limit that is no literal was lowered".into())),
        };
        match (&input, fetch) {
            // The optimiser has told the sort.
            (Plan::Sort(sort), Some(fetch)) if skip == 0 && sort.fetch.is_some_and(|f| f <= fetch) => Ok(input),
            _ => Ok(input.limit(skip, fetch)),
        }
    }

    fn values(&self, node: &Values) -> Result<Plan> {
        let schema = Arc::clone(node.schema.inner());
        let empty = DFSchema::empty();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        let value = |expr: &Expr| match expr {
            Expr::Literal(value, _) => Ok(value.clone()),
            other => {
                let value = PhysicalExpression::new(other, &empty, self.props)?.evaluate(&row)?;
                Ok(ScalarValue::try_from_array(&value, 0)?)
            }
        };
        let columns = schema.fields().iter().enumerate().map(|(c, field)| {
            let values = node.values.iter().map(|row| value(&row[c])).collect::<Result<Vec<_>>>()?;
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
