//! [`PlanStream`]: a plan as a source of steps for the driver, whose window gives it back pressure.
//!
//! The first step runs everything below the last pipeline and puts that together; each morsel of it is a step then,
//! whose chunks leave as batches. A limit on top, or below projections that cannot fail, is the window's: it stops the
//! pipeline as soon as it has enough.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use numa::NodeId;
use sched::Hint;
use sched::policy::concurrency::Pieces;
use storage::GRANULE_ROWS;

use super::compile::compile;
use crate::ExecError;
use crate::codes::shared::AttachedScans;
use crate::operators::limit::Limit;
use crate::operators::project::passes_limits;
use crate::pipe::flow::Flow;
use crate::pipe::{Pipe, Shapes};
use crate::plan::{Plan, width_bytes};
use crate::tasks::feedback::Shape;
use crate::tasks::profile::{OperatorPlace, Profile};
use crate::tasks::run::Run;

/// What is run next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StreamStep {
    /// Everything below the last pipeline.
    Prepare,
    /// A morsel of the last pipeline.
    Morsel(usize),
}

/// What to do next.
pub(crate) enum StreamNext {
    /// Run this, near that node; what it is expected to cost.
    Step(StreamStep, Option<NodeId>, Hint),
    /// The preparation has to end first.
    Wait,
    /// Everything was handed out.
    End,
}

/// A plan whose last pipeline streams.
pub(crate) struct PlanStream {
    plan: Arc<Plan>,
    schema: SchemaRef,
    limit: Option<Limit>,
    /// Bytes of a row that it hands out, about.
    row_bytes: u64,
    /// With the shapes of its tasks.
    pipe: OnceLock<(Pipe, Shapes)>,
    /// The plan's top, if operators are counted.
    top: OperatorPlace,
}

impl PlanStream {
    /// Nothing has run. With a profile it is counted what operators do.
    pub(crate) fn new(plan: Arc<Plan>, schema: SchemaRef, profile: Option<&Profile>) -> PlanStream {
        let top = profile.map(Profile::top).unwrap_or_default();
        let row_bytes = schema.fields().iter().map(|f| width_bytes(f.data_type())).sum();
        let limit = limit_on_top(&plan);
        PlanStream { plan, schema, limit, row_bytes, pipe: OnceLock::new(), top }
    }

    /// What it runs.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the window has to cut off.
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// Bytes of the batches that a morsel makes, about.
    pub(crate) fn morsel_bytes(&self) -> u64 {
        self.row_bytes * self.pipe.get().map_or(GRANULE_ROWS, |(pipe, _)| pipe.morsel_rows()) as u64
    }

    /// Once it is prepared: the nodes that its morsels are on, and how the rows lie, where all come from one table.
    pub(crate) fn spread(&self) -> Option<(&[NodeId], Pieces)> {
        self.pipe.get()?.0.spread()
    }

    /// The next step after `handed_out` steps.
    pub(crate) fn next(&self, handed_out: &mut usize) -> StreamNext {
        let next = *handed_out;
        let step = match (next.checked_sub(1), self.pipe.get()) {
            (None, _) => StreamNext::Step(StreamStep::Prepare, None, Hint::default()),
            (Some(_), None) => return StreamNext::Wait,
            (Some(morsel), Some((pipe, _))) if morsel >= pipe.morsels() => return StreamNext::End,
            (Some(morsel), Some((pipe, shapes))) => {
                let (step, node) = (StreamStep::Morsel(morsel), pipe.node_of(morsel));
                StreamNext::Step(step, node, pipe.hint_learned(shapes, morsel))
            }
        };
        *handed_out += 1;
        step
    }

    /// Once it is prepared: what a step is of, and what it was expected to cost before anything was learned.
    pub(crate) fn expected(&self, step: StreamStep) -> Option<(Arc<Shape>, Hint)> {
        let (StreamStep::Morsel(morsel), Some((pipe, shapes))) = (step, self.pipe.get()) else { return None };
        pipe.expected(shapes, morsel)
    }

    /// Runs a step; `emit` gets the batches of a morsel, of at most `batch_rows` rows, in order and says whether to
    /// go on. True where the step has more to give when it is run again.
    pub(crate) fn run(
        &self,
        step: StreamStep,
        run: Run<'_>,
        batch_rows: usize,
        emit: &mut dyn FnMut(RecordBatch) -> Result<bool, ExecError>,
    ) -> Result<bool, ExecError> {
        match (step, self.pipe.get()) {
            (StreamStep::Prepare, _) => {
                let needed = self.limit.and_then(|limit| limit.rows_needed());
                let pipe = Flow::new(run, compile).last(&self.plan, &self.top, needed)?;
                let shapes = pipe.shapes(&run, "output");
                assert!(self.pipe.set((pipe, shapes)).is_ok(), "a plan is prepared once");
                run.places.attached.into_iter().for_each(AttachedScans::all_prepared);
                Ok(false)
            }
            (StreamStep::Morsel(morsel), Some((pipe, _))) => {
                let wanted = pipe.run_in(morsel, batch_rows, &run, &mut |mut chunk| {
                    let batch = chunk.batch(&pipe.infos, &self.schema)?;
                    if batch.num_rows() <= batch_rows {
                        return emit(batch);
                    }
                    let mut starts = (0..batch.num_rows()).step_by(batch_rows);
                    starts.try_fold(true, |on, start| match on {
                        true => emit(batch.slice(start, batch_rows.min(batch.num_rows() - start))),
                        false => Ok(false),
                    })
                })?;
                Ok(wanted && pipe.has_more(morsel))
            }
            (StreamStep::Morsel(_), None) => unreachable!("morsels are handed out after preparation"),
        }
    }
}

/// The limits on top of a plan, and below projections there that may as well be computed for rows which do not come
/// out, as one.
fn limit_on_top(plan: &Plan) -> Option<Limit> {
    match plan {
        Plan::Limit { input, skip, fetch } => {
            let outer = Limit::new(*skip, *fetch);
            Some(limit_on_top(input).map_or(outer, |inner| inner.then(outer)))
        }
        Plan::Project { input, outputs } if passes_limits(outputs) => limit_on_top(input),
        _ => None,
    }
}
