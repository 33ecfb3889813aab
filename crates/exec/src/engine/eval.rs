//! Expressions and conditions over chunks: [`Evaluator`] and [`Test`].
//!
//! Everything is evaluated over Arrow arrays here, for the rows of a chunk.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};

use super::chunk::Chunk;
use super::vector::{ColumnInfo, Vector};
use crate::ExecError;
use crate::expression::{Expression, argument_schema, evaluate_over};
use crate::mask::Mask;
use crate::operators::BatchInput;
use crate::operators::filter::{Bound, Filter};
use crate::predicate::Predicate;

/// Computes a column.
pub(crate) trait Evaluator: Send + Sync {
    /// The values for every row of the chunk.
    fn evaluate(&self, chunk: &mut Chunk) -> Result<Vector, ExecError>;
}

/// Tells rows that pass.
pub(crate) trait Test: Send + Sync {
    /// Numbers of the rows of the chunk for which it is TRUE, ascending.
    fn passing(&self, chunk: &mut Chunk) -> Result<Vec<u32>, ExecError>;
}

/// An expression over columns of which `infos` are known, and what is known of its result.
pub(crate) fn evaluator(
    expression: &Arc<dyn Expression>,
    field: &FieldRef,
    infos: &[ColumnInfo],
) -> Result<(ColumnInfo, Arc<dyn Evaluator>), ExecError> {
    let info = ColumnInfo::plain(field.clone());
    let schema = argument_schema(expression.as_ref(), &schema_of(infos));
    let arguments = expression.columns().iter().map(|&c| (c, infos[c].clone())).collect();
    let opaque = Opaque { expression: expression.clone(), schema, arguments, info: info.clone() };
    Ok((info, Arc::new(opaque)))
}

/// A condition over columns of which `infos` are known.
pub(crate) fn test(predicate: &Predicate, infos: &[ColumnInfo]) -> Result<Arc<dyn Test>, ExecError> {
    let parts = match predicate.without_not() {
        Predicate::And(parts) => parts,
        other => vec![other],
    };
    let schema = Arc::new(schema_of(infos));
    let mut columns = predicate.columns();
    columns.sort_unstable();
    columns.dedup();
    let bound = Filter::new(&parts, &schema)?.bind(&|_| None);
    Ok(Arc::new(OverArrow { bound, columns, infos: infos.to_vec(), schema }))
}

/// Fields of columns.
pub(crate) fn schema_of(infos: &[ColumnInfo]) -> Schema {
    let fields = infos.iter().map(|i| Arc::new(i.field.as_ref().clone().with_nullable(true)));
    Schema::new(fields.collect::<Vec<_>>())
}

/// An expression that only its owner can evaluate.
struct Opaque {
    expression: Arc<dyn Expression>,
    schema: SchemaRef,
    arguments: Vec<(usize, ColumnInfo)>,
    info: ColumnInfo,
}

impl Evaluator for Opaque {
    fn evaluate(&self, chunk: &mut Chunk) -> Result<Vector, ExecError> {
        let arguments = self.arguments.iter().map(|(c, info)| info.to_arrow(&chunk.column(*c))).collect();
        let values = evaluate_over(self.expression.as_ref(), &self.schema, arguments, chunk.rows())?;
        Ok(self.info.from_arrow(&values))
    }
}

/// A condition over Arrow arrays.
struct OverArrow {
    bound: Bound,
    /// Columns that it reads; of the others nothing is loaded.
    columns: Vec<usize>,
    infos: Vec<ColumnInfo>,
    schema: SchemaRef,
}

impl Test for OverArrow {
    fn passing(&self, chunk: &mut Chunk) -> Result<Vec<u32>, ExecError> {
        let rows = chunk.rows();
        let arrays: Vec<ArrayRef> = self
            .infos
            .iter()
            .enumerate()
            .map(|(c, info)| match self.columns.binary_search(&c) {
                Ok(_) => info.to_arrow(&chunk.column(c)),
                Err(_) => arrow::array::new_null_array(info.data_type(), rows),
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        let mut mask = Mask::full(rows);
        self.bound.evaluate(&BatchInput(&batch), &mut mask)?;
        let mut passing = Vec::new();
        mask.positions_in(&(0..rows), 0, &mut passing);
        Ok(passing)
    }
}
