//! What this crate cannot take apart, evaluated over Arrow arrays: [`ArrowLeaf`], an expression of its owner's,
//! [`ArrowTest`], a leaf of a predicate, and [`ArrowFilter`], a predicate.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Float64Type, SchemaRef};

use super::lanes::{Lanes, Valid, Values};
use super::schema_of;
use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::{ColumnInfo, ints_of_arrow};
use crate::codes::filter::{Bound, Filter, RowTest};
use crate::codes::input::BatchInput;
use crate::mask::Mask;
use crate::plan::expression::{Expression, argument_schema, evaluate_over};
use crate::plan::predicate::Predicate;

/// An expression that only its owner can evaluate.
pub(super) struct ArrowLeaf {
    expression: Arc<dyn Expression>,
    schema: SchemaRef,
    /// Columns of the chunk and what is known of them.
    arguments: Vec<(usize, ColumnInfo)>,
}

impl ArrowLeaf {
    /// Over columns of which `infos` are known.
    pub(super) fn new(expression: Arc<dyn Expression>, infos: &[ColumnInfo]) -> ArrowLeaf {
        let schema = argument_schema(expression.as_ref(), &schema_of(infos));
        let arguments = expression.columns().iter().map(|&c| (c, infos[c].clone())).collect();
        ArrowLeaf { expression, schema, arguments }
    }

    /// The values for every row of the chunk.
    pub(super) fn evaluate(&self, chunk: &mut Chunk) -> Result<ArrayRef, ExecError> {
        let arguments = self.arguments.iter().map(|(c, info)| chunk.array(*c, info)).collect();
        evaluate_over(self.expression.as_ref(), &self.schema, arguments, chunk.rows())
    }

    /// As integers; every value of the type must fit.
    pub(super) fn ints(&self, chunk: &mut Chunk) -> Result<Lanes<i64>, ExecError> {
        let array = self.evaluate(chunk)?;
        Ok(Lanes { values: Values::Own(ints_of_arrow(array.as_ref())), valid: valid_of(array.as_ref()) })
    }

    /// As floats of 64 bits; the type must be that.
    pub(super) fn floats(&self, chunk: &mut Chunk) -> Result<Lanes<f64>, ExecError> {
        let array = self.evaluate(chunk)?;
        let values = array.as_primitive::<Float64Type>().values().to_vec();
        Ok(Lanes { values: Values::Own(values), valid: valid_of(array.as_ref()) })
    }

    /// As booleans; the type must be that.
    pub(super) fn bools(&self, chunk: &mut Chunk) -> Result<Lanes<bool>, ExecError> {
        let array = self.evaluate(chunk)?;
        Ok(bools_of(array.as_boolean()))
    }
}

fn valid_of(array: &dyn Array) -> Valid {
    match array.logical_nulls().filter(|n| n.null_count() > 0) {
        Some(nulls) => Valid::Own(nulls.iter().collect()),
        None => Valid::Always,
    }
}

fn bools_of(array: &BooleanArray) -> Lanes<bool> {
    Lanes { values: Values::Own(array.values().iter().collect()), valid: valid_of(array) }
}

/// A leaf of a predicate, over Arrow arrays.
pub(super) struct ArrowTest {
    test: Arc<RowTest>,
    arguments: Vec<(usize, ColumnInfo)>,
}

impl ArrowTest {
    /// A predicate that is neither AND nor OR nor, unless over an expression, NOT.
    pub(super) fn new(leaf: &Predicate, infos: &[ColumnInfo]) -> Result<ArrowTest, ExecError> {
        let filter = Filter::new(std::slice::from_ref(leaf), &schema_of(infos))?;
        let [test] = filter.leaves() else { unreachable!("a leaf is given") };
        let arguments = test.columns().iter().map(|&c| (c, infos[c].clone())).collect();
        Ok(ArrowTest { test: test.clone(), arguments })
    }

    /// May it fail on some value?
    pub(super) fn fallible(&self) -> bool {
        self.test.fallible() || self.test.volatile()
    }

    /// TRUE, FALSE or NULL for every row of the chunk.
    pub(super) fn evaluate(&self, chunk: &mut Chunk) -> Result<Lanes<bool>, ExecError> {
        let arguments = self.arguments.iter().map(|(c, info)| chunk.array(*c, info)).collect();
        Ok(bools_of(&self.test.evaluate(arguments, chunk.rows())?))
    }
}

/// A predicate of parts that may fail: each sees only the rows that no other part has decided.
pub(super) struct ArrowFilter {
    bound: Bound,
    schema: SchemaRef,
    arguments: Vec<(usize, ColumnInfo)>,
}

impl ArrowFilter {
    /// Over columns of which `infos` are known.
    pub(super) fn new(predicate: &Predicate, infos: &[ColumnInfo]) -> Result<ArrowFilter, ExecError> {
        let columns = predicate.columns();
        let arguments: Vec<(usize, ColumnInfo)> = columns.iter().map(|&c| (c, infos[c].clone())).collect();
        let own: Vec<ColumnInfo> = arguments.iter().map(|(_, info)| info.clone()).collect();
        let schema = Arc::new(schema_of(&own));
        let predicate = predicate.map_columns(&|c| columns.partition_point(|&known| known < c));
        let bound = Filter::new(std::slice::from_ref(&predicate), &schema)?.bind(&|_| None);
        Ok(ArrowFilter { bound, schema, arguments })
    }

    /// TRUE for the rows that pass, else FALSE.
    pub(super) fn evaluate(&self, chunk: &mut Chunk) -> Result<Lanes<bool>, ExecError> {
        let rows = chunk.rows();
        let arrays = self.arguments.iter().map(|(c, info)| chunk.array(*c, info)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        let mut mask = Mask::full(rows);
        self.bound.evaluate(&BatchInput(&batch), &mut mask)?;
        let mut passing = Vec::new();
        mask.positions_in(&(0..rows), 0, &mut passing);
        let mut flags = vec![false; rows];
        passing.into_iter().for_each(|row| flags[row as usize] = true);
        Ok(Lanes { values: Values::Own(flags), valid: Valid::Always })
    }
}
