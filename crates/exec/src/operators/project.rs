//! Projection: the output columns of rows that survived, materialised last and only there.
//!
//! A column is decoded for the surviving rows only. An expression over one coded column may have been evaluated once per
//! dictionary entry before (`per_code`, indexed by code); then the row's code picks its result. Every other expression is
//! evaluated over the materialised rows; a column that several outputs read is materialised once per batch.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.2, "Output materialization".

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};

use super::{Input, Rows};
use crate::ExecError;
use crate::expression::{Expression, argument_schema, evaluate_over};
use crate::plan::Output;

/// Output columns over an input.
pub(crate) struct Projection {
    outputs: Vec<Source>,
    schema: SchemaRef,
}

/// Where an output column comes from.
pub(crate) enum Source {
    /// A column of the input.
    Column(usize),
    /// An expression, and the schema of its arguments.
    Expression(Arc<dyn Expression>, SchemaRef),
}

impl Projection {
    /// `outputs` over columns of `input`.
    pub(crate) fn new(outputs: &[Output], input: &Schema) -> Projection {
        let fields: Vec<_> = outputs.iter().map(|o| o.field().clone()).collect();
        let outputs = outputs
            .iter()
            .map(|output| match output {
                Output::Column { column, .. } => Source::Column(*column),
                Output::Expression { expression, .. } => {
                    Source::Expression(expression.clone(), argument_schema(expression.as_ref(), input))
                }
            })
            .collect();
        Projection { outputs, schema: Arc::new(Schema::new(fields)) }
    }

    /// Where each output column comes from.
    pub(crate) fn outputs(&self) -> &[Source] {
        &self.outputs
    }

    /// Schema of the batches it makes.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The output for some rows. `per_code(i)` is output `i`'s result for each code of the column it reads, where that
    /// is known.
    pub(crate) fn evaluate<'a>(
        &self,
        input: &dyn Input,
        rows: &Rows<'_>,
        per_code: &dyn Fn(usize) -> Option<&'a ArrayRef>,
    ) -> Result<RecordBatch, ExecError> {
        let mut known: Vec<(usize, ArrayRef)> = Vec::new();
        let mut columns = Vec::with_capacity(self.outputs.len());
        for (i, output) in self.outputs.iter().enumerate() {
            columns.push(match output {
                Source::Column(column) => materialised(input, rows, *column, &mut known)?,
                Source::Expression(expression, schema) => {
                    match per_code(i).and_then(|results| Some((results, input.codes(expression.columns()[0], rows)?))) {
                        Some((results, codes)) => take(results, &UInt32Array::from(codes), None)?,
                        None => {
                            let arguments = expression.columns().iter();
                            let arguments = arguments.map(|&c| materialised(input, rows, c, &mut known));
                            let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                            evaluate_over(expression.as_ref(), schema, arguments, rows.len())?
                        }
                    }
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

/// The column's values in these rows, decoded once per batch.
fn materialised(
    input: &dyn Input,
    rows: &Rows<'_>,
    column: usize,
    known: &mut Vec<(usize, ArrayRef)>,
) -> Result<ArrayRef, ExecError> {
    if let Some((_, values)) = known.iter().find(|(c, _)| *c == column) {
        return Ok(values.clone());
    }
    let values = input.column(column, rows)?;
    known.push((column, values.clone()));
    Ok(values)
}
