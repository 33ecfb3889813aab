//! Projections: other columns for the same rows.

use std::sync::Arc;

use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::ColumnInfo;
use crate::eval::{self, Evaluator};
use crate::pipe::filters::Filters;
use crate::pipe::flow::{Demand, Flow};
use crate::pipe::{Operator, Out, Pipe};
use crate::plan::delicate::is_delicate_output;
use crate::plan::{Output, Plan};
use crate::tasks::profile::OperatorPlace;

/// A pipe of other columns for the rows of `input`. `place` is the projection's.
pub(crate) fn pipe(
    flow: &Flow<'_>,
    input: &Plan,
    place: &OperatorPlace,
    outputs: &[Output],
    wanted: Demand<'_>,
) -> Result<Pipe, ExecError> {
    let shows = outputs.iter().any(is_delicate_output);
    let below = wanted.filters.iter().filter_map(|wanted| match &outputs[wanted.column] {
        Output::Column { column, .. } => Some(wanted.below(*column, shows)),
        Output::Expression { .. } => None,
    });
    let below: Filters = below.collect();
    let unlimited = wanted.unlimited && passes_limits(outputs);
    let as_stored = wanted.as_stored && outputs.iter().all(|output| matches!(output, Output::Column { .. }));
    let pipe = flow.pipe_of(input, &place.input(0), Demand { filters: &below, unlimited, as_stored, ..wanted })?;
    let rows = pipe.rows_expected();
    let codings = |column| if is_stored(input) { pipe.codings(column) } else { Vec::new() };
    let (mut infos, mut sources) = (Vec::new(), Vec::new());
    for output in outputs {
        match output {
            Output::Column { column, field } => {
                infos.push(ColumnInfo { field: field.clone(), ..pipe.infos[*column].clone() });
                sources.push(OutputSource::Column(*column));
            }
            Output::Expression { expression, field } => {
                let (info, evaluator) =
                    eval::prepared_evaluator(expression, field, &pipe.infos, &flow.run, rows, &codings)?;
                infos.push(info);
                sources.push(OutputSource::Computed(evaluator));
            }
        }
    }
    Ok(pipe.then(ProjectOperator { sources: sources.into() }, infos))
}

/// Are its columns those of a table, one by one?
fn is_stored(plan: &Plan) -> bool {
    match plan {
        Plan::Scan { .. } => true,
        Plan::Filter { input, .. } => is_stored(input),
        _ => false,
    }
}

/// Whether it makes no difference that columns are computed for rows which a limit below would not let through.
pub(crate) fn passes_limits(outputs: &[Output]) -> bool {
    !outputs.iter().any(|output| match output {
        Output::Column { .. } => false,
        Output::Expression { expression, .. } => expression.fallible() || expression.volatile(),
    })
}

#[derive(Clone)]
enum OutputSource {
    Column(usize),
    Computed(Arc<dyn Evaluator>),
}

/// Other columns for the same rows.
#[derive(Clone)]
struct ProjectOperator {
    sources: Arc<[OutputSource]>,
}

impl Operator for ProjectOperator {
    fn kind(&self) -> Option<&'static str> {
        Some("project")
    }

    fn push(&self, mut chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let mut columns = Vec::with_capacity(self.sources.len());
        for source in self.sources.iter() {
            match source {
                OutputSource::Column(column) => columns.push(*column),
                OutputSource::Computed(evaluator) => {
                    let vector = evaluator.evaluate(&mut chunk)?;
                    columns.push(chunk.columns());
                    chunk.push(Arc::new(vector));
                }
            }
        }
        out(chunk.project(&columns))
    }

    fn takes_any_size(&self) -> bool {
        true
    }
}
