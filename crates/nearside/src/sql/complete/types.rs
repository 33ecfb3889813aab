//! Types as SQL writes them: which of their numbers mean something.

use sqlparser::ast::{ArrayElemTypeDef, DataType, ExactNumberInfo, ObjectName, StructField};

use super::{refuse, refused, refused_text};
use crate::error::Result;

pub(super) fn data_type(of: &DataType) -> Result<()> {
    match of {
        DataType::TinyInt(width)
        | DataType::SmallInt(width)
        | DataType::Int2(width)
        | DataType::Int(width)
        | DataType::Integer(width)
        | DataType::Int4(width)
        | DataType::BigInt(width)
        | DataType::Int8(width)
        | DataType::TinyIntUnsigned(width)
        | DataType::SmallIntUnsigned(width)
        | DataType::Int2Unsigned(width)
        | DataType::IntUnsigned(width)
        | DataType::IntegerUnsigned(width)
        | DataType::Int4Unsigned(width)
        | DataType::BigIntUnsigned(width)
        | DataType::Int8Unsigned(width) => refuse(&[(width.is_some(), "a width of an integer type; leave it out")]),
        DataType::Float(info) => {
            let digits = !matches!(info, ExactNumberInfo::None);
            refuse(&[(digits, "FLOAT with a precision; use REAL or DOUBLE")])
        }
        DataType::Numeric(info) | DataType::Decimal(info) => {
            let negative = matches!(info, ExactNumberInfo::PrecisionAndScale(_, scale) if *scale < 0);
            refuse(&[(negative, "DECIMAL with a negative scale; use scale 0")])
        }
        DataType::String(length) => refuse(&[(length.is_some(), "a length of STRING; use VARCHAR(n)")]),
        DataType::Struct(fields, _) => fields.iter().try_for_each(field),
        DataType::Array(element) => match element {
            ArrayElemTypeDef::None => Ok(()),
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::Parenthesis(inner)
                if matches!(inner.as_ref(), DataType::JSON | DataType::JSONB) =>
            {
                Err(refused("a list of JSON or JSONB; use JSONB, whose values may be arrays"))
            }
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::Parenthesis(inner) => data_type(inner),
        },
        // What follows means what it says, or the planner refuses it by name.
        DataType::Boolean
        | DataType::Bool
        | DataType::Real
        | DataType::Float4
        | DataType::Float8
        | DataType::Double(_)
        | DataType::DoublePrecision
        | DataType::Varchar(_)
        | DataType::Char(_)
        | DataType::Text
        | DataType::Timestamp(_, _)
        | DataType::Date
        | DataType::Time(_, _)
        | DataType::Bytea
        | DataType::Uuid
        | DataType::JSON
        | DataType::JSONB
        | DataType::Interval { fields: _, precision: _ } => Ok(()),
        // Told by their names, where they are no columns'.
        DataType::Custom(name, modifiers) if modifiers.is_empty() && is_named(name) => Ok(()),
        other => Err(refused_text("this type", other)),
    }
}

/// Types of `pg_catalog` that values may be cast to.
fn is_named(name: &ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    let Some(ident) = part.as_ident() else { return false };
    match ident.quote_style {
        None => ["oid", "name"].contains(&ident.value.to_lowercase().as_str()),
        Some(_) => ident.value == "char",
    }
}

/// The type of a column, which a table keeps.
pub(super) fn of_column(of: &DataType) -> Result<()> {
    match of {
        DataType::Custom(name, _) if is_named(name) => Err(refused_text(
            "a column of a type that pg_catalog alone has (BIGINT holds its numbers, TEXT its names)",
            of,
        )),
        of => data_type(of),
    }
}

fn field(of: &StructField) -> Result<()> {
    let StructField { field_name: _, field_type, options } = of;
    let json = matches!(field_type, DataType::JSON | DataType::JSONB);
    refuse(&[
        (options.is_some(), "OPTIONS of a field of a STRUCT; leave them out"),
        (json, "a field of a STRUCT that is JSON or JSONB; use JSONB for the whole"),
    ])?;
    data_type(field_type)
}
