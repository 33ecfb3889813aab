//! How a [`PlannedQuery`] query comes to be, and how it starts: see there for what is done once.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, ParamValues, ScalarValue};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion_optimizer::OptimizerRule;
use datafusion_optimizer::eliminate_filter::EliminateFilter;
use datafusion_optimizer::eliminate_limit::EliminateLimit;
use datafusion_optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion_optimizer::simplify_expressions::SimplifyExpressions;
use exec::{CheckedPlan, ExecError, ParameterId};
use parking_lot::Mutex;
use storage::TableVersion;

use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::checked;
use crate::lower::{
    LoweredPlan, Slots, bind_with, count_parameter, derived, is_plain, key_query, only_table, parameter_id,
    with_parameters,
};
use crate::plan::headers;
use crate::plan::planning::{self, optimise_with};
use crate::rewrite::days::ComparedDays;
use crate::run::by_key::{self, ReadByKey};
use crate::run::cache::is_cacheable;
use crate::run::loading::load_read;
use crate::run::planned::{BoundPlan, DerivedPlan, PlanKind, PlannedQuery};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::stack::deep;

impl PlannedQuery {
    /// A query as the planner made it, with this many parameters or none.
    ///
    /// # Errors
    /// [`Error::Cancelled`] and [`Error::Timeout`]: what is wrong with the query shows when it has values.
    pub(crate) fn new(plan: LogicalPlan, parameters: usize, running: &RunningStatement) -> Result<PlannedQuery> {
        let names = headers::names(&plan);
        if !is_cacheable(&plan) {
            return Ok(PlannedQuery::unoptimised(plan));
        }
        let lowered = |plan: &LogicalPlan| {
            let lowered = unless_stopped(with_parameters(plan, &|plan| query::lowered(plan, &names)))?.flatten();
            Ok::<_, Error>(lowered.map(|lowered| {
                let schema = headers::named(&lowered.schema, &names);
                LoweredPlan { schema, ..lowered }
            }))
        };
        let Some(analysed) = unless_stopped(planning::analyse(plan.clone(), running))? else {
            return Ok(PlannedQuery::unoptimised(plan));
        };
        if parameters > 0
            && let Some((with_derived, derived)) = derived(&analysed, parameters, &running.props())?
            && let Some(optimised) = unless_stopped(query::optimised_of(with_derived, running))?
            && let Some(lowered) = lowered(&optimised)?
        {
            let by_key = key_query(&lowered.plan, &running.catalog);
            let kind = PlanKind::Derived(Box::new(DerivedPlan { lowered, derived, analysed }));
            return Ok(PlannedQuery { kind, by_key, bound: Mutex::default() });
        }
        let Some(optimised) = unless_stopped(query::optimised_of(analysed, running))? else {
            return Ok(PlannedQuery::unoptimised(plan));
        };
        match lowered(&optimised)? {
            Some(lowered) => Ok(PlannedQuery::lowered(lowered, &running.catalog)),
            None => {
                let kind = PlanKind::Optimised(optimised, names);
                Ok(PlannedQuery { kind, by_key: None, bound: Mutex::default() })
            }
        }
    }

    /// Starts it with values for its parameters, of the parameters' types.
    pub(crate) fn start(&self, values: &[ScalarValue], running: Arc<RunningStatement>) -> Result<ResultStream> {
        if let Some((lowered, values)) = self.as_lowered(values)? {
            return self.start_lowered(lowered, values, running);
        }
        let (plan, _) = self.lowered_with(values, &running)?;
        query::start(&plan, running, false)
    }

    /// The plan that a run with these values has, and the values of its parameters that are left.
    ///
    /// # Errors
    /// Those of planning.
    pub(crate) fn lowered_with(
        &self,
        values: &[ScalarValue],
        running: &RunningStatement,
    ) -> Result<(LoweredPlan, Slots)> {
        if let Some((lowered, values)) = self.as_lowered(values)? {
            return Ok((lowered.clone(), values));
        }
        let names =
            |schema: &SchemaRef| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<String>>();
        let lowered = match &self.kind {
            PlanKind::Lowered(lowered) => folded(&lowered.plan, &names(&lowered.schema), values, running)?,
            PlanKind::Optimised(plan, names) => folded(plan, names, values, running)?,
            PlanKind::Derived(of) => {
                let plan = of.analysed.clone().with_param_values(params(values))?;
                query::lowered(query::optimised_of(plan, running)?, &names(&of.lowered.schema))?
            }
            PlanKind::Unoptimised(plan) => {
                query::prepare(with_texts(plan.clone(), values)?.with_param_values(params(values))?, running)?
            }
        };
        Ok((lowered, Slots::new()))
    }

    /// The plan that was lowered already, and all its values; `None` where these values make another plan.
    fn as_lowered(&self, values: &[ScalarValue]) -> Result<Option<(&LoweredPlan, Slots)>> {
        let lowered = match &self.kind {
            PlanKind::Lowered(lowered) => lowered,
            PlanKind::Derived(plan) => &plan.lowered,
            PlanKind::Optimised(..) | PlanKind::Unoptimised(_) => return Ok(None),
        };
        let values = values.iter().map(ScalarValue::to_array).collect::<std::result::Result<Slots, _>>()?;
        if let PlanKind::Derived(plan) = &self.kind {
            return Ok(plan.derived.values(&values).map(|values| (lowered, values)));
        }
        Ok(values.iter().all(is_plain).then_some((lowered, values)))
    }

    /// Starts it as a statement of a transaction, if it reads a row by its key.
    ///
    /// # Errors
    /// A cancelled statement.
    pub(crate) fn start_by_keys(
        &self,
        values: &[ScalarValue],
        running: &Arc<RunningStatement>,
        read: &ReadByKey<'_>,
    ) -> Result<Option<ResultStream>> {
        let Some(query) = &self.by_key else { return Ok(None) };
        let Some((lowered, values)) = self.as_lowered(values)? else { return Ok(None) };
        by_key::start_within(query, &values, &lowered.schema, running, read)
    }

    /// Starts it, if it reads a row by its key and has to wait for nothing.
    ///
    /// # Errors
    /// A cancelled statement.
    pub(crate) fn start_at_once(
        &self,
        values: &[ScalarValue],
        running: &RunningStatement,
    ) -> Result<Option<ResultStream>> {
        let Some(query) = &self.by_key else { return Ok(None) };
        let Some((lowered, values)) = self.as_lowered(values)? else { return Ok(None) };
        by_key::start(query, &values, &lowered.schema, running)
    }

    fn start_lowered(
        &self,
        lowered: &LoweredPlan,
        values: Slots,
        running: Arc<RunningStatement>,
    ) -> Result<ResultStream> {
        running.check()?;
        if let Some(query) = &self.by_key
            && let Some(rows) = by_key::start(query, &values, &lowered.schema, &running)?
        {
            return Ok(rows);
        }
        let known = self.bound.lock().clone();
        // What is read is told of plans as they are bound.
        if let Some(known) = known.filter(|_| !running.catalog.is_telling())
            && let Some(table) = running.catalog.by_id(known.table)
            && let whole = running.catalog.whole(table)?
            // The very version: as long as it is known here, no other one can lie in its place.
            && std::ptr::eq(known.version.as_ptr(), Arc::as_ptr(&whole))
            && let Some(plan) = known.plan.with_values(&whole, &values)
        {
            return Ok(query::start_bound(plan, Arc::clone(&known.schema), running, false));
        }
        load_read(&lowered.plan, &running)?;
        let bound = deep(|| bind_with(lowered, &running.catalog, running.props(), values.clone()))?;
        let bound = CheckedPlan::new(bound).map_err(ExecError::from)?;
        if !running.catalog.is_telling()
            && let Some(new) = BoundPlan::of(lowered, &bound, &values, &running)?
        {
            *self.bound.lock() = Some(Arc::new(new));
        }
        Ok(query::start_bound(bound, Arc::clone(&lowered.schema), running, false))
    }
}

impl BoundPlan {
    /// What a bound plan leaves for the next run, if it reads one table, and once.
    fn of(
        lowered: &LoweredPlan,
        bound: &CheckedPlan,
        values: &Slots,
        running: &RunningStatement,
    ) -> Result<Option<BoundPlan>> {
        let Some(table) = only_table(&lowered.plan) else { return Ok(None) };
        let Some(entry) = running.catalog.by_id(table) else { return Ok(None) };
        // A comparison that the optimiser did away with, or wrote twice, may rest on its value.
        for parameter in (0..values.len()).map(ParameterId) {
            if bound.plan().count_parameter(parameter) != count_parameter(&lowered.plan, parameter)? {
                return Ok(None);
            }
        }
        let empty = Arc::new(TableVersion::empty(&entry.base.schema));
        let Some(plan) = bound.with_values(&empty, values) else { return Ok(None) };
        let version = Arc::downgrade(&running.catalog.whole(entry)?);
        Ok(Some(BoundPlan { table, version, plan, schema: Arc::clone(&lowered.schema) }))
    }
}

/// Parameters that are texts stay texts whatever they meet, as a column would; a text as it is written would take the
/// type of that.
fn with_texts(plan: LogicalPlan, values: &[ScalarValue]) -> Result<LogicalPlan> {
    let is_text = |part: &Expr| {
        let Expr::Placeholder(parameter) = part else { return false };
        let is_declared = parameter.field.as_ref().is_some_and(|field| field.data_type().is_string());
        let value = parameter_id(parameter).and_then(|id| values.get(id.0));
        is_declared && value.is_some_and(|value| value.data_type().is_string())
    };
    let plan = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let cast = expr.transform_up(|part| match is_text(&part) {
                true => Ok(Transformed::yes(cast(part, DataType::Utf8View))),
                false => Ok(Transformed::no(part)),
            })?;
            Ok(cast.update_data(|expr| name.restore(expr)))
        })
    });
    Ok(plan?.data)
}

/// Nothing instead of an error, but for those that are not the query's.
fn unless_stopped<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(stopped @ (Error::Cancelled | Error::Timeout)) => Err(stopped),
        Err(_) => Ok(None),
    }
}

/// An optimised plan with values where its parameters stand, lowered.
fn folded(
    plan: &LogicalPlan,
    names: &[String],
    values: &[ScalarValue],
    running: &RunningStatement,
) -> Result<LoweredPlan> {
    deep(|| folded_here(plan, names, values, running))
}

fn folded_here(
    plan: &LogicalPlan,
    names: &[String],
    values: &[ScalarValue],
    running: &RunningStatement,
) -> Result<LoweredPlan> {
    let plan = plan.clone().with_param_values(params(values))?;
    // What literals make possible; the rest was done without them.
    let fold: [Arc<dyn OptimizerRule + Send + Sync>; 5] = [
        Arc::new(SimplifyExpressions::new()),
        Arc::new(ComparedDays),
        Arc::new(EliminateFilter::new()),
        Arc::new(EliminateLimit::new()),
        Arc::new(PropagateEmptyRelation::new()),
    ];
    let plan = optimise_with(&fold, plan, running)?;
    query::lowered(plan, names)
}

/// Values as the parameters `$1`, `$2`, ..
pub(crate) fn params(values: &[ScalarValue]) -> ParamValues {
    ParamValues::from(values.to_vec())
}

/// The values of expressions without columns, as `EXECUTE` has them: literals, `DATE '2024-01-31'`, `-1e3`, `2 * 3`.
///
/// # Errors
/// What has no value before rows are read, or another one each time; what fails; [`Error::Cancelled`] and
/// [`Error::Timeout`].
pub(crate) fn constants(expressions: Vec<Expr>, running: &RunningStatement) -> Result<Vec<ScalarValue>> {
    if expressions.iter().all(|value| matches!(value, Expr::Literal(..))) {
        return Ok(expressions.into_iter().filter_map(|value| value.as_literal().cloned()).collect());
    }
    deep(|| {
        let named = expressions.iter().enumerate().map(|(place, value)| value.clone().alias(format!("${}", place + 1)));
        let row = LogicalPlanBuilder::empty(true).project(named)?.build()?;
        let found = query::optimised(row, running)?;
        let values = match &found {
            LogicalPlan::Projection(row) if row.expr.len() == expressions.len() => &row.expr[..],
            _ => &expressions[..],
        };
        let one = RecordBatch::try_new_with_options(
            Arc::new(Schema::empty()),
            Vec::new(),
            &RecordBatchOptions::new().with_row_count(Some(1)),
        )?;
        values.iter().zip(&expressions).map(|(value, written)| constant(value, written, &one, running)).collect()
    })
}

/// The value of an optimised expression; an expression that could not be folded fails, and tells why when it is
/// evaluated.
fn constant(value: &Expr, written: &Expr, one: &RecordBatch, running: &RunningStatement) -> Result<ScalarValue> {
    let value = value.clone().unalias();
    if let Expr::Literal(value, _) = value {
        return Ok(value);
    }
    let has_query = |part: &Expr| Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)));
    if value.is_volatile() || value.any_column_refs() || value.exists(has_query)? {
        let shown = written.human_display();
        return Err(Error::plan(
            SqlState::SyntaxError,
            format!("a parameter's value must be a constant, and {shown} is not"),
        ));
    }
    let physical = checked::create_physical_expr(&value, &DFSchema::empty(), &running.props())?;
    match physical.evaluate(one)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(values) => Ok(ScalarValue::try_from_array(&values, 0)?),
    }
}
