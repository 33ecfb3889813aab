//! [`Collected`]: rows of a client on their way into a table.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use nearside::{ScalarValue, Session, pg_types as types};

use super::text::Row;
use crate::fault::{Fault, codes};
use crate::values::read;

/// How many rows, and how many bytes of them, are collected before the table gets them.
const ROWS: usize = 64 << 10;
/// See [`ROWS`].
const BYTES: usize = 8 << 20;

/// Rows that are not in the table yet.
pub struct Collected {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    /// The line that each row begins on, of those that are texts.
    lines: Vec<u64>,
}

enum Column {
    /// What the table reads.
    Texts(StringViewBuilder),
    /// What was read here.
    Values(Vec<ScalarValue>),
}

fn bad(message: impl Into<String>) -> Fault {
    Fault::new(codes::BAD_COPY_FILE_FORMAT, message)
}

impl Collected {
    /// No row yet of these columns.
    pub fn new(schema: SchemaRef) -> Collected {
        Collected { schema, columns: Vec::new(), rows: 0, bytes: 0, lines: Vec::new() }
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Whether the table should get them now.
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes >= BYTES
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn begin(&mut self, is_text: bool) {
        if !self.columns.is_empty() || self.rows > 0 {
            return;
        }
        let column = |field: &Arc<Field>| match is_text && types::element(field.data_type()).is_none() {
            true => Column::Texts(StringViewBuilder::new()),
            false => Column::Values(Vec::new()),
        };
        self.columns = self.schema.fields().iter().map(column).collect();
    }

    /// Adds a row of texts.
    ///
    /// # Errors
    /// It has more values than there are columns, or less; a list that is none.
    pub fn add_texts(&mut self, row: Row, session: &Session) -> Result<(), Fault> {
        self.begin(true);
        let (found, expected) = (row.values.len(), self.columns.len());
        if found > expected && !(expected == 0 && row.values == [Some(String::new())]) {
            return Err(bad("extra data after last expected column"));
        }
        if found < expected {
            return Err(bad(format!("missing data for column \"{}\"", self.schema.field(found).name())));
        }
        for ((column, value), field) in self.columns.iter_mut().zip(row.values).zip(self.schema.fields()) {
            self.bytes += value.as_ref().map_or(0, String::len) + 16;
            match column {
                Column::Texts(texts) => texts.append_option(value),
                Column::Values(values) => values.push(match value {
                    None => null(field.data_type())?,
                    Some(text) => fitted(read::of_text(&text, field.data_type(), session)?, field)?,
                }),
            }
        }
        self.rows += 1;
        self.lines.push(row.line);
        Ok(())
    }

    /// Adds a row of binary values.
    ///
    /// # Errors
    /// As of texts; a value that is none of its column's type.
    pub fn add_binary(&mut self, row: &[Option<&[u8]>]) -> Result<(), Fault> {
        self.begin(false);
        if row.len() != self.columns.len() {
            return Err(bad(format!("row field count is {}, expected {}", row.len(), self.columns.len())));
        }
        for ((column, value), field) in self.columns.iter_mut().zip(row).zip(self.schema.fields()) {
            self.bytes += value.map_or(0, <[u8]>::len) + 64;
            let value = match value {
                None => null(field.data_type())?,
                Some(bytes) => {
                    let oid = types::of_field(field).oid;
                    fitted(read::of_binary(oid, bytes, field.data_type())?, field)?
                }
            };
            if let Column::Values(values) = column {
                values.push(value);
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Takes the rows out.
    ///
    /// # Errors
    /// Values of a column that do not go together.
    pub fn take(&mut self) -> Result<Taken, Fault> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let columns = std::mem::take(&mut self.columns).into_iter().zip(self.schema.fields());
        let array = |(column, field): (Column, &Arc<Field>)| -> Result<ArrayRef, Fault> {
            Ok(match column {
                Column::Texts(mut texts) => Arc::new(texts.finish()),
                Column::Values(values) => ScalarValue::iter_to_array(values)
                    .map_err(|_| bad(format!("column \"{}\": values of several types", field.name())))?,
            })
        };
        let arrays = columns.map(array).collect::<Result<Vec<_>, Fault>>()?;
        let fields = arrays.iter().zip(self.schema.fields());
        let fields = fields.map(|(array, field)| Field::new(field.name(), array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)
            .map_err(|wrong| Fault::new(codes::INTERNAL_ERROR, wrong.to_string()))?;
        Ok(Taken { batch, lines: std::mem::take(&mut self.lines), schema: Arc::clone(&self.schema) })
    }
}

fn null(data_type: &DataType) -> Result<ScalarValue, Fault> {
    ScalarValue::try_from(data_type)
        .map_err(|_| Fault::new(codes::FEATURE_NOT_SUPPORTED, format!("COPY of {data_type} is not supported")))
}

/// A value as one of a column, where it is one.
fn fitted(value: ScalarValue, field: &Field) -> Result<ScalarValue, Fault> {
    if value.data_type() == *field.data_type() {
        return Ok(value);
    }
    value.cast_to(field.data_type()).map_err(|wrong| {
        let message = format!("column \"{}\": {wrong}", field.name());
        Fault::new(codes::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

/// Rows that a table gets.
pub struct Taken {
    /// The rows; texts where the table has other types.
    pub batch: RecordBatch,
    lines: Vec<u64>,
    schema: SchemaRef,
}

impl Taken {
    /// Where among the rows a text stands that is no value of its column: its line, column and text.
    pub fn first_unreadable(&self, session: &Session) -> Option<(u64, String, String)> {
        for (row, line) in self.lines.iter().enumerate() {
            for (column, field) in self.batch.columns().iter().zip(self.schema.fields()) {
                let Ok(ScalarValue::Utf8View(Some(text))) = ScalarValue::try_from_array(column, row) else { continue };
                if session.value_of(&text, field.data_type()).is_err() {
                    return Some((*line, field.name().clone(), text));
                }
            }
        }
        None
    }
}
