//! Staging: what a producer of rows keeps until all rows are there and dictionaries can be made.
//!
//! Numbers are kept chunk by chunk as bit-packed offsets, strings as ids of a growing hash dictionary or, once that
//! will likely not pay, as the granules of a plain column with a sketch of how many values there are. So staging takes
//! about as much memory as the finished column, and all of it lies in regions of the producer's allocator.
//!
//! # Limits
//! Types without an order of ours are kept as arrow arrays, outside regions. The sets of distinct numbers (at most
//! 65,536 per column) and the room for one chunk's offsets lie on the heap.

pub(crate) mod bytes;
pub(crate) mod chunk;
pub(crate) mod distinct;
pub(crate) mod numbers;
pub(crate) mod strings;
pub(crate) mod table;
mod validity;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, SchemaRef};
use numa::Allocator;

use crate::GRANULE_ROWS;
use crate::error::StoreError;
use crate::stage::numbers::{NumberStage, Scratch, StagedNumbers};
use crate::stage::strings::{StagedStrings, StringStage};
use crate::types::{Physical, surface_schema, surface_type};

/// Stages the rows of one producer; `build_part` puts producers together.
pub struct Stager {
    schema: SchemaRef,
    columns: Vec<ColumnStage>,
    rows: usize,
    scratch: Scratch,
    failed: bool,
}

enum ColumnStage {
    Numbers(Box<NumberStage>),
    Strings(Box<StringStage>),
    Arrays(ArrayStage),
}

/// The rows of one producer, staged.
pub struct ProducerRows {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<StagedColumn>,
}

pub(crate) enum StagedColumn {
    Numbers(StagedNumbers),
    Strings(StagedStrings),
    Arrays(Vec<ArrayRef>),
}

impl Stager {
    /// A stager for rows of this schema, in surface types or types that surface to them. Bulk memory comes from
    /// `allocator` and stays small until rows come.
    pub fn new(schema: SchemaRef, allocator: Allocator) -> Stager {
        let schema = Arc::new(surface_schema(&schema));
        let column = |field: &Arc<arrow::datatypes::Field>| match Physical::of(field.data_type()) {
            Physical::Bytes => ColumnStage::Strings(Box::new(StringStage::new(field.name(), &allocator))),
            Physical::Opaque => ColumnStage::Arrays(ArrayStage::default()),
            physical => ColumnStage::Numbers(Box::new(NumberStage::new(physical, &allocator))),
        };
        let columns = schema.fields().iter().map(column).collect();
        Stager { schema, columns, rows: 0, scratch: Scratch::default(), failed: false }
    }

    /// Stages the rows of a batch. Columns are taken by position; a column's type is the schema's or surfaces to it.
    ///
    /// # Errors
    /// Faults of the batch (number of columns, types, a NULL that is not allowed) leave the stager as it was. After a
    /// value that is too long, or without memory, part of the batch is staged: such a stager refuses to go on.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        assert!(!self.failed, "a stager that failed is dropped");
        let columns = self.checked(batch)?;
        self.failed = true;
        for (stage, array) in self.columns.iter_mut().zip(columns) {
            match stage {
                ColumnStage::Numbers(stage) => stage.append(array.as_ref(), &mut self.scratch)?,
                ColumnStage::Strings(stage) => stage.append(array.as_ref())?,
                ColumnStage::Arrays(stage) => stage.append(array)?,
            }
        }
        self.failed = false;
        self.rows += batch.num_rows();
        Ok(())
    }

    /// Number of rows staged.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Ends the producer.
    ///
    /// # Errors
    /// [`StoreError::Memory`].
    pub fn finish(mut self) -> Result<ProducerRows, StoreError> {
        assert!(!self.failed, "a stager that failed is dropped");
        let mut columns = Vec::with_capacity(self.columns.len());
        for stage in self.columns {
            columns.push(match stage {
                ColumnStage::Numbers(stage) => StagedColumn::Numbers(stage.finish(&mut self.scratch)?),
                ColumnStage::Strings(stage) => StagedColumn::Strings(stage.finish()?),
                ColumnStage::Arrays(stage) => StagedColumn::Arrays(stage.finish()?),
            });
        }
        Ok(ProducerRows { rows: self.rows, columns })
    }

    /// The batch's columns in a layout that staging reads: dictionaries as their values.
    fn checked(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, StoreError> {
        let fields = self.schema.fields();
        if batch.num_columns() != fields.len() {
            return Err(StoreError::ColumnCount { expected: fields.len(), found: batch.num_columns() });
        }
        let mut columns = Vec::with_capacity(fields.len());
        for (field, array) in fields.iter().zip(batch.columns()) {
            let expected = field.data_type();
            let found = array.data_type();
            if surface_type(found) != *expected {
                let expected = expected.clone();
                let found = found.clone();
                return Err(StoreError::TypeMismatch { column: field.name().clone(), expected, found });
            }
            let array = match found {
                DataType::Dictionary(..) => cast(array, expected)?,
                _ => Arc::clone(array),
            };
            if !field.is_nullable() && array.logical_null_count() > 0 {
                return Err(StoreError::NullNotAllowed { column: field.name().clone() });
            }
            columns.push(array);
        }
        Ok(columns)
    }
}

impl ProducerRows {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

/// A column of a type that has no layout of ours.
#[derive(Default)]
struct ArrayStage {
    open: Vec<ArrayRef>,
    open_rows: usize,
    chunks: Vec<ArrayRef>,
}

impl ArrayStage {
    fn append(&mut self, array: ArrayRef) -> Result<(), StoreError> {
        let mut from = 0;
        while from < array.len() {
            let rows = (array.len() - from).min(GRANULE_ROWS - self.open_rows);
            self.open.push(array.slice(from, rows));
            self.open_rows += rows;
            from += rows;
            if self.open_rows == GRANULE_ROWS {
                self.seal()?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<ArrayRef>, StoreError> {
        self.seal()?;
        Ok(self.chunks)
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        if self.open_rows > 0 {
            let parts: Vec<&dyn Array> = self.open.iter().map(|array| array.as_ref()).collect();
            self.chunks.push(concat(&parts)?);
            self.open.clear();
            self.open_rows = 0;
        }
        Ok(())
    }
}
