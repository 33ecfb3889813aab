//! The rows of VALUES: which types a column of them has, as PostgreSQL has it.
//!
//! # Limits
//! Types are those that are written: of numbers, truth values, casts and typed texts. Other expressions are left to the
//! planner, which refuses what it cannot match.

use sqlparser::ast::{CastKind, DataType, ExactNumberInfo, Expr, Value, Values};

use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// `VALUES (1e0), (2.5)` are DOUBLE: beside one number with a point, the planner makes decimals of them. Where all
/// floats are REAL, so are the numbers beside them.
pub(super) fn values_of_floats(values: &mut Values) {
    for column in 0..columns(values) {
        let floats: Vec<&DataType> = values.rows.iter().filter_map(|row| float_type(&row[column])).collect();
        if floats.is_empty() {
            continue;
        }
        let is_real = floats.iter().all(|of| is_real(of));
        let to = if is_real { DataType::Real } else { DataType::Double(ExactNumberInfo::None) };
        for row in &mut values.rows {
            if has_point(&row[column]) || (is_real && is_number(&row[column])) {
                cast(&mut row[column], to.clone());
            }
        }
    }
}

/// Casts texts as they are written to the type of the rows beside them: the planner does that for numbers alone.
///
/// # Errors
/// Rows of different kinds, of which the planner would make texts.
pub(super) fn of_one_type(values: &mut Values) -> Result<()> {
    for column in 0..columns(values) {
        let mut typed: Option<(Kind, usize)> = None;
        for (place, row) in values.rows.iter().enumerate() {
            let Some(kind) = kind(&row[column]).filter(|kind| *kind != Kind::Written) else { continue };
            match typed {
                None => typed = Some((kind, place)),
                Some((first, other)) if first != kind => {
                    return Err(Error::plan(
                        SqlState::DatatypeMismatch,
                        format!(
                            "VALUES: {} and {} cannot be matched in column {}; cast one to the type of the other",
                            values.rows[other][column],
                            row[column],
                            column + 1
                        ),
                    ));
                }
                Some(_) => {}
            }
        }
        let to = match typed {
            Some((Kind::Truth, _)) => DataType::Boolean,
            Some((Kind::Moment | Kind::Time | Kind::Bytes | Kind::Span | Kind::Uuid, _)) => {
                let types = values.rows.iter().filter_map(|row| type_of(&row[column]));
                // A moment is more than a day.
                let Some(to) = types.max_by_key(|to| matches!(to, DataType::Timestamp(..))).cloned() else { continue };
                to
            }
            _ => continue,
        };
        for row in &mut values.rows {
            if kind(&row[column]) == Some(Kind::Written) {
                cast(&mut row[column], to.clone());
            }
        }
    }
    Ok(())
}

/// Types that meet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Truth,
    Text,
    Moment,
    Time,
    Bytes,
    Span,
    Uuid,
    /// A text whose type nobody has said.
    Written,
}

fn kind(cell: &Expr) -> Option<Kind> {
    match cell {
        Expr::Nested(inner) => kind(inner),
        Expr::UnaryOp { expr, .. } => kind(expr).filter(|kind| *kind != Kind::Written),
        Expr::Value(value) => match &value.value {
            Value::Number(..) => Some(Kind::Number),
            Value::Boolean(_) => Some(Kind::Truth),
            Value::SingleQuotedString(_) => Some(Kind::Written),
            _ => None,
        },
        other => type_of(other).and_then(kind_of_type),
    }
}

/// The type that is written.
fn type_of(cell: &Expr) -> Option<&DataType> {
    match cell {
        Expr::Nested(inner) => type_of(inner),
        Expr::Cast { data_type, .. } => Some(data_type),
        Expr::TypedString(typed) => Some(&typed.data_type),
        _ => None,
    }
}

fn kind_of_type(data_type: &DataType) -> Option<Kind> {
    use DataType as T;
    match data_type {
        T::TinyInt(_) | T::SmallInt(_) | T::Int2(_) | T::Int(_) | T::Integer(_) | T::Int4(_) | T::BigInt(_) => {
            Some(Kind::Number)
        }
        T::Int8(_) | T::Numeric(_) | T::Decimal(_) => Some(Kind::Number),
        other if is_float_type(other) => Some(Kind::Number),
        T::Boolean | T::Bool => Some(Kind::Truth),
        T::Varchar(_) | T::Char(_) | T::Text | T::String(_) => Some(Kind::Text),
        T::Date | T::Timestamp(..) => Some(Kind::Moment),
        T::Time(..) => Some(Kind::Time),
        T::Bytea => Some(Kind::Bytes),
        T::Interval { .. } => Some(Kind::Span),
        T::Uuid => Some(Kind::Uuid),
        _ => None,
    }
}

fn columns(values: &Values) -> usize {
    values.rows.iter().map(|row| row.len()).min().unwrap_or(0)
}

fn cast(cell: &mut Expr, data_type: DataType) {
    let expr = Box::new(std::mem::replace(cell, Expr::Value(Value::Null.into())));
    *cell = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
}

/// The type of a float, where it is written.
fn float_type(expr: &Expr) -> Option<&DataType> {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => float_type(inner),
        Expr::Cast { data_type, .. } => Some(data_type).filter(|of| is_float_type(of)),
        _ => None,
    }
}

/// A number as it is written.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_number(inner),
        Expr::Value(value) => matches!(&value.value, Value::Number(..)),
        _ => false,
    }
}

/// Whether a type is that of floats of 32 bits: FLOAT is one up to a precision of 24 bits, and else DOUBLE.
pub(crate) fn is_real(data_type: &DataType) -> bool {
    use DataType::{Float, Float4, Float32, Real};
    matches!(data_type, Real | Float4 | Float32 | Float(ExactNumberInfo::Precision(..=24)))
}

pub(super) fn is_float_type(data_type: &DataType) -> bool {
    use DataType::{Double, DoublePrecision, Float, Float4, Float8, Float32, Float64, Real};
    matches!(data_type, Double(_) | DoublePrecision | Float(_) | Float4 | Float8 | Float32 | Float64 | Real)
}

/// A number as it is written, with digits behind the point.
fn has_point(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => has_point(inner),
        Expr::Value(value) => matches!(&value.value, Value::Number(text, _) if text.contains('.')),
        _ => false,
    }
}
