//! A native subtree inside one of DataFusion's plans: its rows come from `sched` workers, and DataFusion's operators above
//! take them on the private runtime.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, TableScan, UserDefinedLogicalNode};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use exec::{Execution, Plan, Profile};
use futures::Stream;

use crate::busy;
use crate::config::{self, BATCH_ROWS};
use crate::context::StoredSource;
use crate::error::Error;
use crate::estimate::estimate;
use crate::lower::{NativeNode, Props, Slots, bind, bind_scan};
use crate::statement::Running;

/// Plans [`NativeNode`]s, and scans of stored tables that were not lowered, for one statement.
pub(crate) struct NativePlanner {
    /// The statement.
    pub running: Arc<Running>,
    /// Whether operators count what they do.
    pub profiled: bool,
}

#[async_trait::async_trait]
impl ExtensionPlanner for NativePlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<NativeNode>() else { return Ok(None) };
        let plan = bind(node, &self.running.catalog, self.running.props()).map_err(Error::into_datafusion)?;
        let schema = Arc::new(node.plan.schema().as_arrow().clone());
        Ok(Some(Arc::new(NativeExec::new(plan, schema, &self.running, self.profiled))))
    }

    async fn plan_table_scan(
        &self,
        _: &dyn PhysicalPlanner,
        scan: &TableScan,
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        if !scan.source.is::<StoredSource>() {
            return Ok(None);
        }
        let props = Props::new(self.running.props(), Slots::new());
        let plan = bind_scan(scan, &self.running.catalog, &props).map_err(Error::into_datafusion)?;
        let schema = Arc::new(scan.projected_schema.as_arrow().clone());
        Ok(Some(Arc::new(NativeExec::new(plan, schema, &self.running, self.profiled))))
    }
}

/// DataFusion's view of a native subtree; each partition takes whatever morsel is ready next.
#[derive(Debug)]
pub(crate) struct NativeExec {
    plan: Arc<Plan>,
    profile: Option<Arc<Profile>>,
    schema: SchemaRef,
    running: Arc<Running>,
    execution: OnceLock<Execution>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl NativeExec {
    fn new(plan: Plan, schema: SchemaRef, running: &Arc<Running>, profiled: bool) -> NativeExec {
        let partitions = match plan.estimated_bytes() < SMALL_BYTES {
            true => 1,
            false => running.state.config().target_partitions(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        NativeExec {
            profile: profiled.then(|| Arc::new(Profile::new(&plan))),
            plan: Arc::new(plan),
            schema,
            running: Arc::clone(running),
            execution: OnceLock::new(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The native plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What its operators did, where that is counted.
    pub(crate) fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }
}

/// Below this a scan is not worth several partitions.
const SMALL_BYTES: u64 = 256 * 1024;

impl DisplayAs for NativeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Nearside: {}", self.plan.describe_operator())
    }
}

impl ExecutionPlan for NativeExec {
    fn name(&self) -> &str {
        "NativeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(NativeExec {
            plan: Arc::clone(&self.plan),
            profile: self.profile.as_ref().map(|_| Arc::new(Profile::new(&self.plan))),
            schema: Arc::clone(&self.schema),
            running: Arc::clone(&self.running),
            execution: OnceLock::new(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let execution = self.execution.get_or_init(|| {
            // Whoever polls is a thread of the private runtime, which native operators must not run on.
            // With several partitions the order between them is lost anyway.
            let ordered = self.properties.partitioning.partition_count() == 1;
            let (plan, context) = (Arc::clone(&self.plan), exec::Context { ordered, ..context_of(&self.running) });
            match &self.profile {
                Some(profile) => exec::execute_profiled(plan, context, profile),
                None => exec::execute_on_workers(plan, context),
            }
        });
        Ok(Box::pin(NativeStream {
            execution: execution.clone(),
            schema: Arc::clone(&self.schema),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Arc<Statistics>> {
        let mut statistics = estimate(&self.plan);
        if partition.is_some() {
            let partitions = self.properties.partitioning.partition_count().max(1);
            statistics = Statistics::new_unknown(&self.schema);
            if let Precision::Exact(rows) | Precision::Inexact(rows) = estimate(&self.plan).num_rows {
                statistics.num_rows = Precision::Inexact(rows / partitions);
            }
        }
        Ok(Arc::new(statistics))
    }
}

/// What `exec` runs a statement's plan with.
pub(crate) fn context_of(running: &Running) -> exec::Context {
    exec::Context {
        scheduler: Arc::clone(&running.inner.scheduler),
        statement: Arc::clone(&running.statement),
        batch_rows: BATCH_ROWS,
        ordered: true,
        scan: config::scan_options(running.state.config_options()),
        traffic: Arc::clone(running.traffic.own()),
    }
}

struct NativeStream {
    execution: Execution,
    schema: SchemaRef,
    metrics: BaselineMetrics,
}

impl Stream for NativeStream {
    type Item = DfResult<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        busy::begin();
        let poll = self.execution.poll_next(cx).map(|item| {
            item.map(|batch| match batch {
                Ok(batch) => conform(batch, &self.schema),
                Err(error) => Err(Error::from(error).into_datafusion()),
            })
        });
        self.metrics.record_poll(poll)
    }
}

impl RecordBatchStream for NativeStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The same columns under the schema that was promised (names, metadata and nullability come from the logical plan).
pub(crate) fn conform(batch: RecordBatch, schema: &SchemaRef) -> DfResult<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let (_, columns, _) = batch.into_parts();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
