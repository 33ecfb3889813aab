//! What runs natively: [`is_native`] for operators, [`is_exact`] for its expressions.

use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, JoinType};
use datafusion_expr::expr::{AggregateFunction, WindowFunction};
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Aggregate, Distinct, Expr, ExprSchemable, Join, LogicalPlan, SortExpr, Subquery, Union, Window};

use crate::rewrite::shared_queries::SharedQuery;
use crate::tables::exact::{is_exact, is_foreign};
use crate::tables::sources::{ForeignSource, GivenSource, WorkSource};
use crate::tables::stored::StoredSource;

/// True for a subtree that [`bind`](super::bind) can turn into a native plan.
pub(super) fn is_native(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let source = &scan.source;
            let foreign = source.is::<ForeignSource>() || source.is::<GivenSource>() || source.is::<WorkSource>();
            (source.is::<StoredSource>() || foreign) && scan.filters.iter().all(is_exact)
        }
        LogicalPlan::Filter(filter) => over_rows(&filter.predicate) && is_native(&filter.input),
        LogicalPlan::Projection(p) => p.expr.iter().all(over_rows) && is_native(&p.input),
        LogicalPlan::SubqueryAlias(alias) => is_native(&alias.input),
        LogicalPlan::Limit(limit) => {
            let numbers = limit.skip.iter().chain(&limit.fetch);
            numbers.into_iter().all(|e| is_constant(e)) && is_native(&limit.input)
        }
        LogicalPlan::Extension(_) => SharedQuery::of(plan).is_some_and(|shared| is_native(&shared.query)),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.iter().flatten().all(over_rows),
        LogicalPlan::Subquery(query) => query.outer_ref_columns.is_empty() && is_native(&query.subquery),
        LogicalPlan::RecursiveQuery(query) => is_native(&query.static_term) && is_native(&query.recursive_term),
        LogicalPlan::Unnest(unnest) => is_native(&unnest.input),
        LogicalPlan::Aggregate(node) => {
            let schema = node.input.schema();
            keys(node).into_iter().all(|e| over_rows(e) && is_key(e, schema))
                && node.aggr_expr.iter().all(|e| is_native_aggregate(e, schema))
                && is_native(&node.input)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let fields = input.schema().fields();
            !fields.is_empty() && fields.iter().all(|f| is_key_type(f.data_type())) && is_native(input)
        }
        LogicalPlan::Sort(sort) => {
            let key = |s: &SortExpr| over_rows(&s.expr) && is_ordered(&s.expr, sort.input.schema());
            sort.expr.iter().all(key) && is_native(&sort.input)
        }
        LogicalPlan::Join(join) => is_native_join(join) && is_native(&join.left) && is_native(&join.right),
        LogicalPlan::Window(node) => is_native_window(node) && is_native(&node.input),
        LogicalPlan::Union(union) => is_native_union(union) && union.inputs.iter().all(|i| is_native(i)),
        _ => false,
    }
}

fn is_native_join(join: &Join) -> bool {
    let pairs = join.on.iter().all(|(l, r)| is_exact(l) && is_exact(r));
    let filter = join.filter.as_ref().is_none_or(over_rows);
    // Which of several keys is the value that NOT IN compares nobody says.
    let aware = !join.null_aware || (join.join_type == JoinType::LeftAnti && join.on.len() <= 1);
    pairs && filter && aware
}

/// Keys of all grouping sets together, or of the only one.
pub(super) fn keys(node: &Aggregate) -> Vec<&Expr> {
    match node.group_expr.as_slice() {
        [Expr::GroupingSet(_)] => grouping_set_to_exprlist(&node.group_expr).unwrap_or_default(),
        keys => keys.iter().collect(),
    }
}

/// True for an aggregate expression that can be bound, or refused by name.
fn is_native_aggregate(expr: &Expr, schema: &DFSchema) -> bool {
    let Some(call) = aggregate_call(expr) else { return false };
    let params = &call.params;
    let order = params.order_by.iter().map(|s| &s.expr);
    let mut parts = params.args.iter().chain(params.filter.as_deref()).chain(order);
    parts.all(over_rows) && params.args.iter().all(|e| e.get_type(schema).is_ok())
}

/// The call below the name of an output of an aggregation.
pub(super) fn aggregate_call(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => aggregate_call(&alias.expr),
        Expr::AggregateFunction(call) => Some(call),
        _ => None,
    }
}

/// True for a window node that can be bound, or refused by name.
fn is_native_window(node: &Window) -> bool {
    let schema = node.input.schema();
    let key = |e: &Expr| over_rows(e) && (is_fixed(e) || is_key(e, schema));
    node.window_expr.iter().all(|expr| {
        window_call(expr).is_some_and(|call| {
            let params = &call.params;
            params.args.iter().chain(params.filter.as_deref()).all(over_rows)
                && params.partition_by.iter().all(key)
                && params.order_by.iter().all(|s| key(&s.expr))
        })
    })
}

/// The call below the name of an output of a window.
pub(super) fn window_call(expr: &Expr) -> Option<&WindowFunction> {
    match expr {
        Expr::Alias(alias) => window_call(&alias.expr),
        Expr::WindowFunction(call) => Some(call),
        _ => None,
    }
}

/// True for expressions that have one value in all rows, and whenever they are evaluated.
pub(super) fn is_fixed(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..)) || (!expr.any_column_refs() && !expr.is_volatile() && is_exact(expr))
}

/// True for expressions that can be evaluated from the row and the one value of each of its scalar subqueries.
fn over_rows(expr: &Expr) -> bool {
    let mut native = true;
    let walked = expr.apply(|e| {
        native &= match e {
            Expr::ScalarSubquery(query) => is_native_scalar(query),
            other => !is_foreign(other),
        };
        Ok(if native { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && native
}

fn is_native_scalar(query: &Subquery) -> bool {
    query.outer_ref_columns.is_empty() && query.subquery.schema().fields().len() == 1 && is_native(&query.subquery)
}

fn is_native_union(union: &Union) -> bool {
    let types = |schema: &DFSchema| schema.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
    let expected = types(&union.schema);
    !union.inputs.is_empty() && union.inputs.iter().all(|input| types(input.schema()) == expected)
}

fn is_key(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|t| is_key_type(&t))
}

/// True for expressions whose values can be sorted by.
fn is_ordered(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|t| has_order(&t))
}

/// True for types whose values have an order and equals, if only as bytes.
pub(super) fn has_order(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}

/// True for types whose values can be grouped, joined and sorted by natively.
pub(super) fn is_key_type(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}

/// True for expressions that can be evaluated without any row.
pub(super) fn is_constant(expr: &Expr) -> bool {
    matches!(expr.exists(|e| Ok(is_foreign(e) || matches!(e, Expr::Column(_)))), Ok(false))
}
