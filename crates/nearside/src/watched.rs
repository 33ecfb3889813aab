//! Makes DataFusion's joins and recursive queries heed cancellation and time-outs.
//!
//! A task of the runtime can only be stopped where it yields. Operators yield when a leaf has given its share of batches, but a
//! join can work for hours on one batch of its input, giving batches to an operator that swallows them (`count(*)` over a cross
//! join) or none at all (a nested loop whose filter nothing passes). So every batch such an operator gives passes a check
//! ([`WatchedExec`]), and so does every evaluation of a nested loop's filter ([`WatchedExpr`]).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result as DfResult, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};

use crate::error::{Error, Result};
use crate::statement::Running;

/// Puts the checks into a physical plan.
pub(crate) fn watch(plan: Arc<dyn ExecutionPlan>, running: &Arc<Running>) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(plan.transform_up(|node| watch_node(node, running))?.data)
}

fn watch_node(node: Arc<dyn ExecutionPlan>, running: &Arc<Running>) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut node = node;
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        if let Some(filter) = join.filter() {
            node = watched_join(join, filter, running)?;
        }
    } else if !(node.is::<CrossJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<RecursiveQueryExec>())
    {
        return Ok(Transformed::no(node));
    }
    Ok(Transformed::yes(Arc::new(WatchedExec { inner: node, running: Arc::clone(running) })))
}

fn watched_join(
    join: &NestedLoopJoinExec,
    filter: &JoinFilter,
    running: &Arc<Running>,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let expression = WatchedExpr { inner: Arc::clone(filter.expression()), running: Arc::clone(running) };
    let filter = JoinFilter::new(Arc::new(expression), filter.column_indices().to_vec(), Arc::clone(filter.schema()));
    let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
    let join = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
        .with_projection_ref(join.projection().clone())
        .with_filter(Some(filter))
        .build()?;
    Ok(Arc::new(join))
}

/// Passes its input's batches on while the statement may run.
#[derive(Debug)]
pub(crate) struct WatchedExec {
    inner: Arc<dyn ExecutionPlan>,
    running: Arc<Running>,
}

impl WatchedExec {
    fn over(&self, mut children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(WatchedExec { inner, running: Arc::clone(&self.running) }))
    }

    /// What is watched.
    pub(crate) fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }
}

impl DisplayAs for WatchedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("WatchedExec")
    }
}

impl ExecutionPlan for WatchedExec {
    fn name(&self) -> &str {
        "WatchedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.over(children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let inner = self.inner.execute(partition, context)?;
        Ok(Box::pin(WatchedStream { inner, running: Arc::clone(&self.running) }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Arc<Statistics>> {
        #[expect(deprecated)]
        self.inner.partition_statistics(partition)
    }
}

struct WatchedStream {
    inner: SendableRecordBatchStream,
    running: Arc<Running>,
}

impl Stream for WatchedStream {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.running.check() {
            return Poll::Ready(Some(Err(error.into_datafusion())));
        }
        self.inner.poll_next_unpin(cx)
    }
}

impl RecordBatchStream for WatchedStream {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}

/// An expression that is evaluated only while the statement may run.
#[derive(Debug)]
struct WatchedExpr {
    inner: Arc<dyn PhysicalExpr>,
    running: Arc<Running>,
}

impl fmt::Display for WatchedExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl PartialEq for WatchedExpr {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for WatchedExpr {}

impl Hash for WatchedExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl PhysicalExpr for WatchedExpr {
    fn data_type(&self, input: &Schema) -> DfResult<DataType> {
        self.inner.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> DfResult<bool> {
        self.inner.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> DfResult<FieldRef> {
        self.inner.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        self.running.check().map_err(Error::into_datafusion)?;
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(WatchedExpr { inner, running: Arc::clone(&self.running) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
