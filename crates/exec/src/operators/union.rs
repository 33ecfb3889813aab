//! UNION ALL: the lanes of all inputs side by side, their columns brought to one kind.
//!
//! What the inputs know of a column becomes what all of them can say: bounds that hold for every input, vids only where
//! all have one dictionary. An input whose column is of another kind converts it, chunk by chunk. Inputs without any
//! task are left out, so that an empty side never costs the others their codes.
//!
//! # Limits
//! A column that is converted is loaded, whether somebody reads it or not; vids of different dictionaries become Arrow
//! arrays.

use std::sync::Arc;

use arrow::datatypes::FieldRef;

use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector, type_bounds};
use crate::pipe::filters::Filters;
use crate::pipe::flow::Flow;
use crate::pipe::{Operator, Out, Pipe};
use crate::plan::Union;
use crate::tasks::profile::OperatorPlace;

/// A pipe of the rows of all inputs, in their order. `filters` hold for every input by position.
pub(crate) fn pipe(
    flow: &Flow<'_>,
    union: &Union,
    place: &OperatorPlace,
    filters: &Filters,
) -> Result<Pipe, ExecError> {
    let pipes = union.inputs.iter().enumerate().map(|(n, input)| flow.pipe(input, &place.input(n), filters));
    let mut pipes = pipes.collect::<Result<Vec<Pipe>, _>>()?;
    if pipes.iter().any(|pipe| pipe.morsels() > 0) {
        pipes.retain(|pipe| pipe.morsels() > 0);
    } else {
        pipes.truncate(1);
    }
    let infos: Vec<ColumnInfo> = union
        .schema
        .fields()
        .iter()
        .enumerate()
        .map(|(c, field)| common(field, &pipes.iter().map(|pipe| &pipe.infos[c]).collect::<Vec<_>>()))
        .collect();
    let rows = pipes.iter().fold(0u64, |rows, pipe| rows.saturating_add(pipe.rows));
    let mut lanes = Vec::new();
    for pipe in pipes {
        lanes.extend(converted(pipe, &infos).lanes);
    }
    Ok(Pipe { lanes, infos, rows })
}

/// A pipe whose columns are kept as `infos` say; those are integers of wider bounds, or Arrow arrays, or what they
/// are already.
pub(crate) fn converted(pipe: Pipe, infos: &[ColumnInfo]) -> Pipe {
    let steps: Vec<ColumnStep> =
        infos.iter().zip(&pipe.infos).map(|(to, from)| ColumnStep::between(from, to)).collect();
    match steps.iter().all(|step| matches!(step, ColumnStep::Same)) {
        true => pipe,
        false => pipe.then(ConvertOperator { steps: steps.into() }, infos.to_vec()),
    }
}

/// What holds for a column of every input.
fn common(field: &FieldRef, inputs: &[&ColumnInfo]) -> ColumnInfo {
    let kind = common_kind(inputs).unwrap_or(ColumnKind::Arrow);
    ColumnInfo { field: field.clone(), kind, nullable: inputs.iter().any(|info| info.nullable) }
}

/// `None` where only Arrow arrays will do.
fn common_kind(inputs: &[&ColumnInfo]) -> Option<ColumnKind> {
    match &inputs.first()?.kind {
        ColumnKind::Float if inputs.iter().all(|info| matches!(info.kind, ColumnKind::Float)) => {
            Some(ColumnKind::Float)
        }
        ColumnKind::Vid(first) => {
            let same = |info: &&ColumnInfo| matches!(&info.kind, ColumnKind::Vid(own) if Arc::ptr_eq(own, first));
            inputs.iter().all(same).then(|| ColumnKind::Vid(first.clone()))
        }
        _ if inputs.iter().any(|info| matches!(info.kind, ColumnKind::Int { .. })) => {
            // Arrow arrays beside integers become integers too if every value of their type does.
            let bounds = |info: &&ColumnInfo| info.bounds().or_else(|| type_bounds(info.data_type()));
            let all = inputs.iter().map(bounds).collect::<Option<Vec<(i64, i64)>>>()?;
            let low = all.iter().map(|b| b.0).min()?;
            Some(ColumnKind::Int { low, high: all.iter().map(|b| b.1).max()? })
        }
        _ => None,
    }
}

/// What happens to a column of an input.
#[derive(Clone)]
enum ColumnStep {
    Same,
    /// From Arrow arrays to integers.
    Integers(ColumnInfo),
    /// To Arrow arrays.
    Arrow(ColumnInfo),
}

impl ColumnStep {
    fn between(from: &ColumnInfo, to: &ColumnInfo) -> ColumnStep {
        match (&from.kind, &to.kind) {
            (ColumnKind::Arrow, ColumnKind::Int { .. }) => ColumnStep::Integers(to.clone()),
            (ColumnKind::Arrow, _) => ColumnStep::Same,
            (_, ColumnKind::Arrow) => ColumnStep::Arrow(from.clone()),
            _ => ColumnStep::Same,
        }
    }
}

/// Brings columns to the kind that all inputs share.
#[derive(Clone)]
struct ConvertOperator {
    steps: Arc<[ColumnStep]>,
}

impl Operator for ConvertOperator {
    fn kind(&self) -> Option<&'static str> {
        Some("convert")
    }

    fn push(&self, mut chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let mut columns: Vec<usize> = (0..self.steps.len()).collect();
        for (column, step) in self.steps.iter().enumerate() {
            let converted = match step {
                ColumnStep::Same => continue,
                ColumnStep::Integers(to) => {
                    let vector = chunk.column(column);
                    let Data::Arrow(array) = &vector.data else { unreachable!("the kind said so") };
                    to.vector_of(array)
                }
                ColumnStep::Arrow(from) => {
                    let array = from.to_arrow(&chunk.column(column));
                    Vector { data: Data::Arrow(array), valid: None }
                }
            };
            columns[column] = chunk.columns();
            chunk.push(Arc::new(converted));
        }
        out(chunk.project(&columns))
    }

    fn takes_any_size(&self) -> bool {
        true
    }
}
