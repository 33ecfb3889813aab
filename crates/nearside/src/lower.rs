//! From DataFusion's optimised logical plan to Nearside's operators.
//!
//! Two steps, because plans are cached and rows change: [`lower`] marks the largest native subtrees of an optimised plan
//! by putting a [`NativeNode`] in their place; [`bind`] turns such a subtree into an [`exec::Plan`] over one snapshot when a
//! statement starts. What is native says [`support`]; everything above stays DataFusion's.
//!
//! An expression is native unless it needs something from outside the row (outer columns, parameters) or may
//! differ from call to call. Comparisons with literals, lists and NULL tests become structured [`Predicate`](exec::Predicate)s,
//! which `exec` turns into ranges and sets of codes; the rest is opaque to it ([`PhysicalExpression`]). Scalar subqueries become
//! columns ([`scope`]).
//!
//! Invariant: whatever [`Support::is_native`] says yes to, [`bind`] can bind.

mod aggregate;
mod bind;
mod join;
mod opaque;
mod parameters;
mod predicate;
mod props;
mod refuse;
mod scan;
mod scope;
mod sources;
mod support;
mod unnest;
mod window;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, Operator, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use exec::{ExecError, Expression, Scalar, TextTest};

use crate::checked;
use crate::error::{Error, Result};
use crate::floats;
use crate::like::text_test;
use crate::shared_queries;
use crate::structure::structure;
use crate::substring::with_substring;

pub(crate) use bind::{bind, bind_as_written, bind_with};
pub(crate) use parameters::{count_parameters, only_table, with_parameters};
pub(crate) use props::{Props, Slots};
pub(crate) use scan::bind_scan;
pub(crate) use support::is_exact_in_scan;

use support::Support;

/// A subtree of a logical plan that runs natively.
#[derive(Debug, Clone)]
pub(crate) struct NativeNode {
    /// The subtree, as DataFusion optimised it.
    pub plan: Arc<LogicalPlan>,
}

impl NativeNode {
    fn new(plan: LogicalPlan) -> NativeNode {
        NativeNode { plan: Arc::new(plan) }
    }
}

impl PartialEq for NativeNode {
    fn eq(&self, other: &Self) -> bool {
        self.plan == other.plan
    }
}

impl Eq for NativeNode {}

impl PartialOrd for NativeNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.plan.partial_cmp(&other.plan)
    }
}

impl Hash for NativeNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.plan.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for NativeNode {
    fn name(&self) -> &str {
        "Nearside"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.plan.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Nearside: {}", self.plan.display())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> DfResult<Self> {
        Ok(self.clone())
    }
}

/// Puts a [`NativeNode`] in place of each largest native subtree, in subqueries too. Only scans and what looks at one row
/// at a time unless `relational`.
pub(crate) fn lower(plan: LogicalPlan, relational: bool) -> Result<LogicalPlan> {
    let support = Support { relational };
    if support.is_native(&plan) {
        return Ok(native(plan));
    }
    match relational && !refuse::is_left_over(support, &plan) {
        true => Err(refuse::refusal(support, &plan)),
        false => Ok(support.lower_in_order(shared_queries::without_marks(plan)?)?),
    }
}

fn native(plan: LogicalPlan) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(NativeNode::new(plan)) })
}

impl Support {
    /// For the operators on top, which decide the order of the statement's rows: a sort below one that DataFusion runs
    /// stays DataFusion's too, since a native subtree tells DataFusion of no order.
    fn lower_in_order(self, plan: LogicalPlan) -> DfResult<LogicalPlan> {
        let mut ordered = &plan;
        while keeps_order(ordered) {
            ordered = ordered.inputs()[0];
        }
        if !matches!(ordered, LogicalPlan::Sort(_)) {
            return self.lower_anywhere(plan);
        }
        let sorts = matches!(plan, LogicalPlan::Sort(_));
        let below = |input| if sorts { self.lower_anywhere(input) } else { self.lower_in_order(input) };
        let plan = plan.map_children(|input| below(input).map(Transformed::yes))?.data;
        Ok(plan.map_subqueries(|query| self.lower_anywhere(query).map(Transformed::yes))?.data)
    }

    fn lower_anywhere(self, plan: LogicalPlan) -> DfResult<LogicalPlan> {
        let lowered = plan.transform_down_with_subqueries(|node| {
            if !self.is_native(&node) {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::new(native(node), true, TreeNodeRecursion::Jump))
        })?;
        Ok(lowered.data)
    }
}

/// True for operators whose rows come in the order of their input's.
fn keeps_order(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Limit(_) | LogicalPlan::SubqueryAlias(_)
    )
}

/// The native subtree that a whole plan is, if it is one.
pub(crate) fn wholly_native(plan: &LogicalPlan) -> Option<&NativeNode> {
    match plan {
        LogicalPlan::Extension(e) => e.node.as_any().downcast_ref::<NativeNode>(),
        _ => None,
    }
}

fn bug(error: exec::PlanError) -> Error {
    Error::Internal(error.to_string())
}
/// A DataFusion expression as `exec` sees one.
#[derive(Debug)]
pub(crate) struct PhysicalExpression {
    inner: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    data_type: DataType,
    fallible: bool,
    volatile: bool,
    text: String,
    structure: Option<Scalar>,
    text_test: Option<TextTest>,
}

impl PhysicalExpression {
    /// Plans `expr` over rows of `schema`; arithmetic is checked.
    pub(crate) fn new(expr: &Expr, schema: &DFSchema, props: &ExecutionProps) -> Result<PhysicalExpression> {
        let mut planned = PhysicalExpression::opaque(expr, schema, props)?;
        let checked = checked::checked(expr.clone().unalias(), schema)?.data;
        // What differs from call to call is evaluated by its owner, once per row.
        if !planned.volatile {
            planned.structure = structure(&checked, schema, &planned.columns, props);
        }
        Ok(planned)
    }

    /// As [`new`](Self::new), but nothing is told of what it is made of.
    pub(crate) fn opaque(expr: &Expr, schema: &DFSchema, props: &ExecutionProps) -> Result<PhysicalExpression> {
        let expr = expr.clone().unalias();
        let comparable = floats::in_expression(expr.clone(), schema)?;
        let planned = checked::create_physical_expr(&with_substring(comparable)?, schema, props)?;
        let mut columns: Vec<usize> = collect_columns(&planned).iter().map(|c| c.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        // Evaluated over just its own columns.
        let inner = planned
            .transform_up(|node| {
                let Some(column) = node.downcast_ref::<datafusion::physical_expr::expressions::Column>() else {
                    return Ok(Transformed::no(node));
                };
                let index = columns.binary_search(&column.index()).unwrap_or_default();
                let column = datafusion::physical_expr::expressions::Column::new(column.name(), index);
                Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
            })?
            .data;
        let narrow = Schema::new(columns.iter().map(|&i| Arc::clone(&schema.fields()[i])).collect::<Vec<_>>());
        let data_type = inner.data_type(&narrow)?;
        let (fallible, volatile) = (fallible(&expr), expr.is_volatile());
        let text_test = text_test(&expr, schema);
        let text = checked::plain(expr)?.data.to_string();
        Ok(PhysicalExpression { inner, columns, data_type, fallible, volatile, text, structure: None, text_test })
    }

    /// The same over a batch of just `columns`, ascending; `None` if one that it reads is missing.
    pub(crate) fn within(mut self, columns: &[usize]) -> Option<PhysicalExpression> {
        for column in &mut self.columns {
            *column = columns.binary_search(column).ok()?;
        }
        Some(self)
    }
}

/// False for what can never fail: comparisons, logic, NULL tests, LIKE and literals over columns.
fn fallible(expr: &Expr) -> bool {
    let risky = expr.exists(|e| {
        Ok(match e {
            Expr::Column(_) | Expr::Literal(..) | Expr::Not(_) | Expr::IsNull(_) | Expr::IsNotNull(_) => false,
            Expr::IsTrue(_) | Expr::IsFalse(_) | Expr::IsUnknown(_) => false,
            Expr::IsNotTrue(_) | Expr::IsNotFalse(_) | Expr::IsNotUnknown(_) => false,
            Expr::Between(_) | Expr::InList(_) | Expr::Alias(_) => false,
            // A pattern from a column may be malformed.
            Expr::Like(like) => !matches!(like.pattern.as_ref(), Expr::Literal(..)),
            Expr::BinaryExpr(b) => !floats::is_comparison(b.op) && !matches!(b.op, Operator::And | Operator::Or),
            _ => true,
        })
    });
    !matches!(risky, Ok(false))
}

impl Expression for PhysicalExpression {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let value = self.inner.evaluate(batch).and_then(|v| v.into_array(batch.num_rows()));
        value.map_err(|e| ExecError::Evaluation(Error::from(e).to_string()))
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn describe(&self) -> String {
        self.text.clone()
    }

    fn fallible(&self) -> bool {
        self.fallible
    }

    fn volatile(&self) -> bool {
        self.volatile
    }

    fn structure(&self) -> Option<&Scalar> {
        self.structure.as_ref()
    }

    fn text_test(&self) -> Option<&TextTest> {
        self.text_test.as_ref()
    }
}
