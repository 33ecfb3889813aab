//! [`Expression`]: a function of some input columns, opaque to this crate, and [`Remapped`], the same function over
//! columns that are numbered differently.
//!
//! The caller wraps whatever evaluates expressions for it; this crate decides over which rows (or dictionary entries)
//! and how often it is evaluated.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};

use super::scalar::Scalar;
use super::text::TextTest;
use crate::ExecError;

/// A function of one row of the input.
///
/// It must be deterministic and treat rows apart from each other: it is evaluated over any subset of the input's rows,
/// in any order, by any thread, and, when it has one column, possibly once per distinct value instead of once per row
/// (`random()` and the like must therefore say so through [`Expression::volatile`]).
pub trait Expression: Send + Sync + Debug {
    /// Input columns that it reads, ascending, each once. Empty for a constant.
    fn columns(&self) -> &[usize];

    /// Evaluates it for every row of `batch`, whose columns are exactly [`Expression::columns`], in that order, with
    /// their surface types. The result has `batch.num_rows()` rows of [`Expression::data_type`].
    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError>;

    /// Type of the result.
    fn data_type(&self) -> &DataType;

    /// Text for EXPLAIN.
    fn describe(&self) -> String;

    /// May it fail on some value? Then a failure over a value that no live row of the result holds is never reported.
    fn fallible(&self) -> bool;

    /// May two evaluations over the same values differ? Then it is evaluated exactly once per row, never per distinct
    /// value.
    fn volatile(&self) -> bool {
        false
    }

    /// What it is made of, where that is known: column `n` of the tree is `columns()[n]`. It must mean what
    /// [`Expression::evaluate`] computes, errors included.
    fn structure(&self) -> Option<&Scalar> {
        None
    }

    /// Where it is LIKE over its only column, which pattern: texts are then searched as they are stored.
    fn text_test(&self) -> Option<&TextTest> {
        None
    }
}

/// Schema of the batch that `expression` is evaluated over: its columns of `input`.
pub(crate) fn argument_schema(expression: &dyn Expression, input: &Schema) -> SchemaRef {
    let fields: Vec<_> =
        expression.columns().iter().map(|&c| Arc::new(input.field(c).clone().with_nullable(true))).collect();
    Arc::new(Schema::new(fields))
}

/// Evaluates over `arguments`, one array per column of the expression.
pub(crate) fn evaluate_over(
    expression: &dyn Expression,
    schema: &SchemaRef,
    arguments: Vec<ArrayRef>,
    rows: usize,
) -> Result<ArrayRef, ExecError> {
    if let Some(test) = expression.text_test()
        && let [texts] = &arguments[..]
        && let Some(result) = test.evaluate(texts)
    {
        return Ok(Arc::new(result));
    }
    evaluate_by_owner(expression, schema, arguments, rows)
}

/// As [`evaluate_over`], by [`Expression::evaluate`], and checks what comes back.
pub(crate) fn evaluate_by_owner(
    expression: &dyn Expression,
    schema: &SchemaRef,
    arguments: Vec<ArrayRef>,
    rows: usize,
) -> Result<ArrayRef, ExecError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema.clone(), arguments, &options)?;
    let result = expression.evaluate(&batch)?;
    if result.len() != rows || result.data_type() != expression.data_type() {
        return Err(ExecError::Evaluation(format!(
            "expression {} returned {} rows of {} for {rows} rows of {}",
            expression.describe(),
            result.len(),
            result.data_type(),
            expression.data_type(),
        )));
    }
    Ok(result)
}

/// An expression whose column `i` is `columns[i]` of another input, which may order or repeat columns differently.
#[derive(Debug)]
pub(crate) struct Remapped {
    inner: Arc<dyn Expression>,
    /// Ascending, unique columns of the new input.
    columns: Vec<usize>,
    /// For each column of `inner`, its position in `columns`.
    positions: Vec<usize>,
    structure: Option<Scalar>,
}

impl Remapped {
    /// `map` gives the new number of each column that `inner` reads.
    pub(crate) fn over(inner: Arc<dyn Expression>, map: &dyn Fn(usize) -> usize) -> Arc<dyn Expression> {
        let mapped: Vec<usize> = inner.columns().iter().map(|&c| map(c)).collect();
        if mapped == inner.columns() {
            return inner;
        }
        let mut columns = mapped.clone();
        columns.sort_unstable();
        columns.dedup();
        let positions: Vec<usize> =
            mapped.iter().map(|m| columns.binary_search(m).expect("built from the same list")).collect();
        let structure = inner.structure().map(|tree| tree.map_columns(&|c| positions[c]));
        Arc::new(Remapped { inner, columns, positions, structure })
    }
}

impl Expression for Remapped {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let schema = batch.schema();
        let fields: Vec<_> = self.positions.iter().map(|&p| schema.fields()[p].clone()).collect();
        let arguments = self.positions.iter().map(|&p| batch.column(p).clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let arguments = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arguments, &options)?;
        self.inner.evaluate(&arguments)
    }

    fn data_type(&self) -> &DataType {
        self.inner.data_type()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn fallible(&self) -> bool {
        self.inner.fallible()
    }

    fn volatile(&self) -> bool {
        self.inner.volatile()
    }

    fn structure(&self) -> Option<&Scalar> {
        self.structure.as_ref()
    }

    fn text_test(&self) -> Option<&TextTest> {
        self.inner.text_test()
    }
}
