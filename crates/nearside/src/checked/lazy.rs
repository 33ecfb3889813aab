//! The order of a WHERE's and an ON's conditions in the physical plan: those that cannot fail first, the others in
//! their written order and only for the rows that are still undecided.
//!
//! DataFusion gathers conditions from sub-queries, views and ON clauses into one AND, where `10 / b > 1` may meet the
//! `b <> 0` of a sub-query inside it, and then evaluates both for every row. SQL promises no order within one
//! WHERE, but a sub-query's rows are those that passed its own.
//!
//! # Limits
//! Filters, hash joins and nested-loop joins are covered; the filter of a sort-merge join (off by default) is not.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{and_kleene, or_kleene};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};

use super::operators;

/// The physical optimizer rule: makes the conditions of filters and joins lazy where one of them can fail.
#[derive(Debug, Default)]
pub struct LazyConditions;

impl PhysicalOptimizerRule for LazyConditions {
    fn name(&self) -> &str {
        "lazy_conditions"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(plan.transform_up(rewrite_node)?.data)
    }
}

fn rewrite_node(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        if let Some(predicate) = lazy(filter.predicate(), &schema)? {
            let filter = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
            return Ok(Transformed::yes(Arc::new(filter)));
        }
    } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        if let Some(filter) = lazy_join_filter(join.filter())? {
            let join = join.builder().with_filter(Some(filter)).build_exec()?;
            return Ok(Transformed::yes(join));
        }
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = lazy_join_filter(join.filter())?
    {
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        let join = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
            .with_projection_ref(join.projection().clone())
            .with_filter(Some(filter))
            .build()?;
        return Ok(Transformed::yes(Arc::new(join)));
    }
    Ok(Transformed::no(plan))
}

fn lazy_join_filter(filter: Option<&JoinFilter>) -> Result<Option<JoinFilter>> {
    let Some(filter) = filter else {
        return Ok(None);
    };
    let expression = lazy(filter.expression(), filter.schema())?;
    Ok(expression
        .map(|expression| JoinFilter::new(expression, filter.column_indices().to_vec(), Arc::clone(filter.schema()))))
}

/// `expr` with lazy ANDs and ORs where an operand can fail; `None` when there is nothing to do.
fn lazy(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    if !can_fail(expr, schema) {
        return Ok(None);
    }
    let rewritten = Arc::clone(expr).transform_up(|e| {
        let op = match e.downcast_ref::<BinaryExpr>() {
            Some(binary) if matches!(binary.op(), Operator::And | Operator::Or) => *binary.op(),
            _ => return Ok(Transformed::no(e)),
        };
        if !can_fail(&e, schema) {
            return Ok(Transformed::no(e));
        }
        let mut operands = Vec::new();
        flatten(&e, op, &mut operands);
        let (risky, safe): (Vec<_>, Vec<_>) = operands.into_iter().partition(|o| can_fail(o, schema));
        let eager =
            safe.into_iter().reduce(|left, right| Arc::new(BinaryExpr::new(left, op, right)) as Arc<dyn PhysicalExpr>);
        let chain = eager.into_iter().chain(risky).reduce(|left, right| Arc::new(LazyBoolean { left, op, right }));
        Ok(chain.map_or_else(|| Transformed::no(e), Transformed::yes))
    })?;
    Ok(rewritten.transformed.then_some(rewritten.data))
}

fn flatten(expr: &Arc<dyn PhysicalExpr>, op: Operator, into: &mut Vec<Arc<dyn PhysicalExpr>>) {
    // By hand rather than by recursion: generated conditions can be thousands long.
    let mut stack = vec![Arc::clone(expr)];
    while let Some(next) = stack.pop() {
        let sides = match (next.downcast_ref::<BinaryExpr>(), next.downcast_ref::<LazyBoolean>()) {
            (Some(binary), _) if *binary.op() == op => Some((binary.left(), binary.right())),
            (_, Some(lazy)) if lazy.op == op => Some((&lazy.left, &lazy.right)),
            _ => None,
        };
        match sides {
            Some((left, right)) => {
                stack.push(Arc::clone(right));
                stack.push(Arc::clone(left));
            }
            None => into.push(next),
        }
    }
}

/// Whether a row's values can make `expr` fail: a checked operator over a column, or a cast of text.
fn can_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let reads_column = |e: &Arc<dyn PhysicalExpr>| e.exists(|c| Ok(c.is::<Column>())).unwrap_or(true);
    expr.exists(|e| {
        let suspect = if let Some(call) = e.downcast_ref::<ScalarFunctionExpr>() {
            operators::is_checked_function(call.fun())
        } else if let Some(cast) = e.downcast_ref::<CastExpr>() {
            cast.expr().data_type(schema)?.is_string()
        } else {
            false
        };
        Ok(suspect && reads_column(e))
    })
    .unwrap_or(true)
}

/// `left AND right` or `left OR right`, with `right` evaluated only for the rows that `left` leaves undecided.
#[derive(Debug, Eq)]
struct LazyBoolean {
    left: Arc<dyn PhysicalExpr>,
    op: Operator,
    right: Arc<dyn PhysicalExpr>,
}

// By hand: a derive on `Arc<dyn PhysicalExpr>` fields does not compile.
impl PartialEq for LazyBoolean {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for LazyBoolean {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.op.hash(state);
        self.right.hash(state);
    }
}

impl fmt::Display for LazyBoolean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain().fmt(f)
    }
}

impl LazyBoolean {
    /// The eager form: how this reads.
    fn plain(&self) -> BinaryExpr {
        BinaryExpr::new(Arc::clone(&self.left), self.op, Arc::clone(&self.right))
    }

    /// The rows that `left` does not decide: for AND those that are not FALSE, for OR those that are not TRUE.
    fn undecided(&self, left: &BooleanArray) -> BooleanArray {
        let undecided = match self.op {
            Operator::And => left.values().clone(),
            _ => !left.values(),
        };
        let undecided = match left.nulls() {
            None => undecided,
            Some(nulls) => &undecided | &!nulls.inner(),
        };
        BooleanArray::new(undecided, None)
    }
}

impl PhysicalExpr for LazyBoolean {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        Ok(self.left.nullable(schema)? || self.right.nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let left = self.left.evaluate(batch)?.into_array(rows)?;
        let left = left.as_boolean();
        let undecided = self.undecided(left);
        if !undecided.has_true() {
            return Ok(ColumnarValue::Array(Arc::new(left.clone())));
        }
        let right = self.right.evaluate_selection(batch, &undecided)?.into_array(rows)?;
        let right = right.as_boolean();
        // What was not evaluated may hold anything: make it undecided, so that `left` decides.
        let skipped = BooleanBuffer::clone(undecided.values());
        let right_nulls = match right.nulls() {
            None => skipped,
            Some(nulls) => &skipped & nulls.inner(),
        };
        let right = BooleanArray::new(right.values().clone(), Some(right_nulls.into()));
        let result = match self.op {
            Operator::And => and_kleene(left, &right)?,
            _ => or_kleene(left, &right)?,
        };
        Ok(ColumnarValue::Array(Arc::new(result)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let Ok([left, right]) = <[_; 2]>::try_from(children) else {
            return internal_err!("{} takes two operands", self.op);
        };
        let op = self.op;
        Ok(Arc::new(LazyBoolean { left, op, right }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain().fmt_sql(f)
    }
}
