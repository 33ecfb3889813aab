//! Values of parameters: columns of a batch, a row for each run.
//!
//! A column has the type that the statement tells, where its values are ones of that without a doubt; a text is read as
//! a value of it; else the statement is prepared for the type that the client sends, as PostgreSQL does where a client
//! declares one.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use nearside::pg_types::{self as types, Declared};
use nearside::{Prepared, ScalarValue, Session};

use super::sessions::Statement;
use super::status::unsupported;
use crate::fault::{Fault, codes};
use crate::values::read::text;

/// Names and types of a statement's parameters, as clients are told.
pub fn columns(prepared: Option<&Prepared>) -> Schema {
    let types = prepared.map_or(&[][..], Prepared::parameter_types);
    let field = |(place, of): (usize, &Option<DataType>)| {
        // Types that every client makes values of.
        let of = match of {
            None | Some(DataType::Utf8View) => DataType::Utf8,
            Some(DataType::BinaryView) => DataType::Binary,
            Some(other) => other.clone(),
        };
        Field::new(format!("${}", place + 1), of, true)
    };
    Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>())
}

/// A statement with rows of values.
pub struct Bound {
    prepared: Prepared,
    columns: Vec<Column>,
}

enum Column {
    Values(ArrayRef),
    /// Texts that are read as values of a type.
    Texts(ArrayRef, DataType),
}

impl Bound {
    /// The statement with these rows.
    ///
    /// # Errors
    /// Another number of columns than parameters; types that there are not, or that the statement does not go with.
    pub fn new(statement: &Statement, rows: &RecordBatch, session: &Session) -> Result<Bound, Fault> {
        let Some(prepared) = &statement.prepared else {
            return Err(unsupported(
                "parameters are for SELECT, INSERT, UPDATE and DELETE; write the values into this statement",
            ));
        };
        let prepared = prepared.run_by(session);
        let (given, wanted) = (rows.num_columns(), prepared.parameter_types().len());
        if given != wanted {
            let message = format!("{given} parameters were sent, but the statement has {wanted}");
            return Err(Fault::new(codes::PROTOCOL_VIOLATION, message));
        }
        let columns: Vec<ArrayRef> = rows.columns().iter().map(unpacked).collect::<Result<_, _>>()?;
        let told = columns.iter().zip(prepared.parameter_types()).map(|(column, of)| as_told(column, of.as_ref()));
        if let Some(columns) = told.collect::<Option<Vec<_>>>() {
            return Ok(Bound { prepared, columns });
        }
        let declared = columns.iter().map(|column| declared(column.data_type())).collect::<Result<Vec<_>, _>>()?;
        let prepared = session.prepare_as(&statement.sql, &declared)?;
        let of = columns.iter().zip(prepared.parameter_types()).map(|(column, of)| cast(column, of.as_ref()));
        let columns = of.collect::<Result<_, Fault>>()?;
        Ok(Bound { prepared, columns })
    }

    /// The statement.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// The values of a row.
    ///
    /// # Errors
    /// A text that is no value of its parameter's type.
    pub fn row(&self, row: usize, session: &Session) -> Result<Vec<ScalarValue>, Fault> {
        let value = |column: &Column| match column {
            Column::Values(values) => Ok(ScalarValue::try_from_array(values, row).map_err(wrong)?),
            Column::Texts(texts, to) => match ScalarValue::try_from_array(texts, row).map_err(wrong)?.try_as_str() {
                Some(Some(value)) => Ok(session.value_of(text(value.as_bytes())?, to)?),
                _ => ScalarValue::try_from(to).map_err(wrong),
            },
        };
        self.columns.iter().map(value).collect()
    }
}

fn wrong(error: impl std::fmt::Display) -> Fault {
    Fault::new(codes::INVALID_PARAMETER_VALUE, error.to_string())
}

/// The values themselves, where they stand in a dictionary or in runs.
fn unpacked(column: &ArrayRef) -> Result<ArrayRef, Fault> {
    match column.data_type() {
        DataType::Dictionary(_, values) => exactly(column, values).ok_or_else(|| wrong("a dictionary is not read")),
        DataType::RunEndEncoded(_, values) => {
            exactly(column, values.data_type()).ok_or_else(|| wrong("runs are not read"))
        }
        _ => Ok(Arc::clone(column)),
    }
}

/// The same values as another type; `None` where one is none of it.
fn exactly(column: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, to, &options).ok()
}

/// A column as the type that the statement tells; `None` where the statement has to be asked.
fn as_told(column: &ArrayRef, told: Option<&DataType>) -> Option<Column> {
    let told = told.unwrap_or(&DataType::Utf8View);
    let given = column.data_type();
    let is_bytes = |of: &DataType| matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    if given == told {
        return Some(Column::Values(Arc::clone(column)));
    }
    if given.is_string() && !told.is_string() && !is_bytes(told) {
        return Some(Column::Texts(Arc::clone(column), told.clone()));
    }
    let is_alike = *given == DataType::Null
        || given.is_string() && told.is_string()
        || is_bytes(given) && is_bytes(told)
        || given.is_integer() && (told.is_integer() || matches!(told, DataType::Float64) || told.is_decimal())
        || matches!((given, told), (DataType::Float32, DataType::Float64));
    if !is_alike {
        return None;
    }
    exactly(column, told).map(Column::Values)
}

/// The type that a client declares by sending values of it; `None` of a text, which is what the statement tells.
fn declared(given: &DataType) -> Result<Option<DataType>, Fault> {
    if given.is_string() || *given == DataType::Null {
        return Ok(None);
    }
    match (given, types::declared(types::of_type(given).oid)) {
        (DataType::Decimal128(..), _) => Ok(Some(given.clone())),
        (DataType::UInt64, _) => Ok(Some(DataType::Decimal128(20, 0))),
        (DataType::UInt32, _) => Ok(Some(DataType::Int64)),
        (_, Some(Declared::Type(of))) if !of.is_string() => Ok(Some(of)),
        _ => Err(unsupported(format!("values of the type {given} are not taken as parameters; send another type"))),
    }
}

/// A column as the type that the statement has been prepared for.
fn cast(column: &ArrayRef, of: Option<&DataType>) -> Result<Column, Fault> {
    let of = of.unwrap_or(&DataType::Utf8View);
    let given = column.data_type();
    if given.is_string() && !of.is_string() {
        return Ok(Column::Texts(Arc::clone(column), of.clone()));
    }
    let is_out = || {
        let message = format!("a value of the type {given} is none of the parameter's type {of}");
        Fault::new(codes::NUMERIC_VALUE_OUT_OF_RANGE, message)
    };
    exactly(column, of).map(Column::Values).ok_or_else(is_out)
}
