//! [`Streamed`]: a plan of the engine as a source of steps for the driver, whose window gives it back pressure.

use std::sync::OnceLock;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use sched::Affinity;
use storage::GRANULE_ROWS;

use super::{Filters, Flow, Pipe, Run};
use crate::ExecError;
use crate::plan::{Plan, width_bytes};
use crate::profile::{Numbering, Profile};

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
    /// Run this, there.
    Step(StreamStep, Affinity),
    /// The preparation has to end first.
    Wait,
    /// Everything was handed out.
    End,
}

/// A plan whose last pipeline streams.
pub(crate) struct Streamed {
    /// Where it lies it stays: operators are counted by address.
    plan: Box<Plan>,
    schema: SchemaRef,
    pipe: OnceLock<Pipe>,
    /// Where operators are counted, if they are.
    numbering: Option<Numbering>,
}

impl Streamed {
    /// Nothing has run.
    pub(crate) fn new(plan: Plan) -> Streamed {
        let schema = plan.schema();
        Streamed { plan: Box::new(plan), schema, pipe: OnceLock::new(), numbering: None }
    }

    /// Counts what operators do; `above` operators of the profile's plan are not in this one.
    pub(crate) fn counting(mut self, profile: &Profile, above: usize) -> Streamed {
        self.numbering = Some(Numbering::new(profile, &self.plan, above));
        self
    }

    /// Bytes of the batches that a morsel makes, about.
    pub(crate) fn morsel_bytes(&self) -> u64 {
        let rows = self.pipe.get().map_or(GRANULE_ROWS, |pipe| pipe.morsel_rows());
        self.schema.fields().iter().map(|f| width_bytes(f.data_type())).sum::<u64>() * rows as u64
    }

    /// The next step after `handed_out` steps.
    pub(crate) fn next(&self, handed_out: &mut usize) -> StreamNext {
        let next = *handed_out;
        let step = match (next, self.pipe.get()) {
            (0, _) => (StreamStep::Prepare, Affinity::Anywhere),
            (_, None) => return StreamNext::Wait,
            (_, Some(pipe)) if next > pipe.morsels() => return StreamNext::End,
            (_, Some(pipe)) => {
                (StreamStep::Morsel(next - 1), pipe.node_of(next - 1).map_or(Affinity::Anywhere, Affinity::near))
            }
        };
        *handed_out += 1;
        StreamNext::Step(step.0, step.1)
    }

    /// Runs a step; `emit` gets the batches of a morsel in order and says whether to go on.
    pub(crate) fn run(
        &self,
        step: StreamStep,
        run: Run<'_>,
        emit: &mut dyn FnMut(RecordBatch) -> Result<bool, ExecError>,
    ) -> Result<(), ExecError> {
        match (step, self.pipe.get()) {
            (StreamStep::Prepare, _) => {
                let pipe = Flow::new(run).counting(self.numbering.as_ref()).pipe(&self.plan, &Filters::new())?;
                assert!(self.pipe.set(pipe).is_ok(), "a plan is prepared once");
            }
            (StreamStep::Morsel(morsel), Some(pipe)) => {
                pipe.run(morsel, &run, &mut |mut chunk| emit(chunk.batch(&pipe.infos, &self.schema)?))?;
            }
            (StreamStep::Morsel(_), None) => unreachable!("morsels are handed out after preparation"),
        }
        Ok(())
    }
}
