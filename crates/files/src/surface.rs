//! Surface types: what the rest of Nearside sees, whatever a file's encoding of it was.
//!
//! Strings become `Utf8View`, binaries `BinaryView`, dictionaries and runs their values; all else stays. Only the top
//! level is mapped: what a list or struct holds stays as the file has it. Metadata of schema and fields is dropped: it
//! describes the file (pandas indexes, field ids), not the table.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

use crate::error::{FileError, FileErrorKind, arrow_text, list_names};

/// The surface type of a file's type.
pub(crate) fn surface_type(t: &DataType) -> DataType {
    match t {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, value) => surface_type(value),
        DataType::RunEndEncoded(_, values) => surface_type(values.data_type()),
        other => other.clone(),
    }
}

/// The surface of a file's fields.
pub(crate) fn surface_fields(fields: &Fields) -> Fields {
    fields.iter().map(|f| Arc::new(Field::new(f.name(), surface_type(f.data_type()), f.is_nullable()))).collect()
}

/// Refuses a file without columns or with two of one name.
pub(crate) fn check_names<'a>(file: &Path, names: impl Iterator<Item = &'a str>) -> Result<(), FileError> {
    let mut seen = std::collections::HashMap::new();
    for (i, name) in names.enumerate() {
        if let Some(before) = seen.insert(name, i) {
            let message = format!(
                "columns {} and {} have the same name {name:?}; rename one of them in the file",
                before + 1,
                i + 1
            );
            return Err(FileError::new(FileErrorKind::Schema, message).at(file).column(name));
        }
    }
    if seen.is_empty() {
        return Err(FileError::new(FileErrorKind::Schema, "has no columns").at(file));
    }
    Ok(())
}

/// The schema of several files: the first one's order; names and types must agree, a column is nullable if it is so in
/// any file.
pub(crate) fn agree(files: &[(&Path, Fields)]) -> Result<Fields, FileError> {
    let (first_file, first) = &files[0];
    let mut nullable: Vec<bool> = first.iter().map(|f| f.is_nullable()).collect();
    for (file, fields) in &files[1..] {
        for (i, field) in first.iter().enumerate() {
            let Some((_, other)) = fields.find(field.name()) else {
                let message = format!("lacks the column {:?} that {} has", field.name(), first_file.display());
                return Err(FileError::new(FileErrorKind::Schema, message).at(file).column(field.name()));
            };
            if other.data_type() != field.data_type() {
                let message = format!(
                    "the type is {} while it is {} in {}; files that are read together must agree",
                    other.data_type(),
                    field.data_type(),
                    first_file.display()
                );
                return Err(FileError::new(FileErrorKind::Schema, message).at(file).column(field.name()));
            }
            nullable[i] |= other.is_nullable();
        }
        if let Some(extra) = fields.iter().find(|f| first.find(f.name()).is_none()) {
            let message = format!("has the column {:?} that {} lacks", extra.name(), first_file.display());
            return Err(FileError::new(FileErrorKind::Schema, message).at(file).column(extra.name()));
        }
    }
    let merged = first.iter().zip(nullable);
    Ok(merged.map(|(f, nullable)| Arc::new(f.as_ref().clone().with_nullable(nullable))).collect())
}

/// The named columns of `fields`, in the order of the names.
pub(crate) fn project(file: &Path, fields: &Fields, columns: Option<&[String]>) -> Result<Fields, FileError> {
    let Some(columns) = columns else {
        return Ok(fields.clone());
    };
    check_names(file, columns.iter().map(String::as_str)).map_err(|mut e| {
        e.message = "the list of columns to read names it twice".to_string();
        e
    })?;
    columns
        .iter()
        .map(|name| match fields.find(name) {
            Some((_, field)) => Ok(Arc::clone(field)),
            None => {
                let names = list_names(fields.iter().map(|f| f.name().as_str()));
                let message = format!("there is no such column; the columns are {names}");
                Err(FileError::new(FileErrorKind::Schema, message).at(file).column(name))
            }
        })
        .collect()
}

/// Brings the batches of one file into the shape of the file set's schema: columns by name, surface types.
pub(crate) struct Adapter {
    schema: SchemaRef,
    /// Where in the file's batches each column of `schema` stands; filled at the first batch.
    positions: Option<Vec<usize>>,
}

impl Adapter {
    pub(crate) fn new(schema: SchemaRef) -> Adapter {
        Adapter { schema, positions: None }
    }

    pub(crate) fn adapt(&mut self, file: &Path, batch: &RecordBatch) -> Result<RecordBatch, FileError> {
        let positions = match &self.positions {
            Some(positions) => positions,
            None => self.positions.insert(self.locate(file, &batch.schema())?),
        };
        let mut columns = Vec::with_capacity(positions.len());
        for (field, position) in self.schema.fields().iter().zip(positions) {
            columns.push(to_type(file, batch.column(*position), field)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|e| FileError::corrupt(file, "a table", arrow_text(&e)))
    }

    fn locate(&self, file: &Path, batch: &Schema) -> Result<Vec<usize>, FileError> {
        let position = |field: &Arc<Field>| match batch.fields().find(field.name()) {
            Some((position, _)) => Ok(position),
            None => {
                let message = "the column was there when the file was opened and is gone now";
                Err(FileError::new(FileErrorKind::Schema, message).at(file).column(field.name()))
            }
        };
        self.schema.fields().iter().map(position).collect()
    }
}

fn to_type(file: &Path, column: &ArrayRef, field: &Field) -> Result<ArrayRef, FileError> {
    if column.data_type() == field.data_type() {
        return Ok(Arc::clone(column));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, field.data_type(), &options).map_err(|e| {
        let message =
            format!("its type {} cannot be read as {}: {}", column.data_type(), field.data_type(), arrow_text(&e));
        FileError::new(FileErrorKind::Schema, message).at(file).column(field.name())
    })
}
