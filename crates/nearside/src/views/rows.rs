//! The rows of a view of `information_schema` while they are made.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringViewArray, UInt64Array};
use arrow::datatypes::{Field, Schema};

use crate::error::Result;

/// Columns of a view while it is made.
#[derive(Default)]
pub(super) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    /// With a column of text.
    pub(super) fn text<S: AsRef<str>>(self, name: &str, values: impl Iterator<Item = Option<S>>) -> Columns {
        self.with(name, Arc::new(values.collect::<StringViewArray>()))
    }

    /// With a column of numbers.
    pub(super) fn number(self, name: &str, values: impl Iterator<Item = Option<u64>>) -> Columns {
        self.with(name, Arc::new(values.collect::<UInt64Array>()))
    }

    /// With a column of yes and no.
    pub(super) fn flag(self, name: &str, values: impl Iterator<Item = bool>) -> Columns {
        self.with(name, Arc::new(values.map(Some).collect::<BooleanArray>()))
    }

    fn with(mut self, name: &str, array: ArrayRef) -> Columns {
        self.fields.push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
        self
    }

    /// The rows.
    pub(super) fn batch(self) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)?)
    }
}
