//! Types as SQL writes them: which of their numbers mean something.

use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, ObjectName, StructField, TimezoneInfo,
};

use super::{refuse, refused, refused_text};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::sql::may_be_made;

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
        DataType::Float(info) => float(info),
        DataType::Numeric(info) | DataType::Decimal(info) => {
            let (digits, scale) = match info {
                ExactNumberInfo::None => return Ok(()),
                ExactNumberInfo::Precision(digits) => (*digits, 0),
                ExactNumberInfo::PrecisionAndScale(digits, scale) => (*digits, *scale),
            };
            if !(1..=1000).contains(&digits) {
                let message = format!("the precision of NUMERIC is from 1 to 1000, not {digits}");
                return Err(Error::plan(SqlState::InvalidParameterValue, message));
            }
            let beyond = i64::try_from(digits).is_ok_and(|digits| scale > digits);
            refuse(&[
                (scale < 0, "DECIMAL with a negative scale; use scale 0"),
                (digits > 76, "DECIMAL of more than 76 digits; use a smaller precision, or DOUBLE"),
                (beyond, "DECIMAL with a scale that is larger than its precision; make both as large as the scale"),
            ])
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
            | ArrayElemTypeDef::Parenthesis(inner) => {
                let has_length = match inner.as_ref() {
                    DataType::Varchar(length) => !matches!(length, None | Some(CharacterLength::Max)),
                    DataType::Char(_) => true,
                    _ => false,
                };
                refuse(&[(has_length, "a length of an array's elements; use TEXT[], and CHECK where it matters")])?;
                data_type(inner)
            }
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
        | DataType::Date
        | DataType::Bytea
        | DataType::JSON
        | DataType::JSONB
        | DataType::Uuid => Ok(()),
        // Told by their names, where they are no columns'.
        DataType::Custom(name, modifiers) if modifiers.is_empty() && (is_named(name) || is_path(name)) => Ok(()),
        // What the catalog has.
        DataType::Custom(name, modifiers) if modifiers.is_empty() && may_be_made(name) && !is_refused(name) => Ok(()),
        DataType::Timestamp(digits, _) => {
            let between = !matches!(digits, None | Some(0 | 3 | 6 | 9));
            refuse(&[(between, "this precision of TIMESTAMP; use TIMESTAMP(0), (3), (6) or (9)")])
        }
        DataType::Time(digits, zone) => refuse(&[
            (
                matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz),
                "TIME WITH TIME ZONE; use TIMESTAMP WITH TIME ZONE, or TIME",
            ),
            (digits.is_some(), "a precision of TIME; leave it out"),
        ]),
        DataType::Interval { fields: _, precision } => {
            refuse(&[(precision.is_some(), "a precision of INTERVAL; leave it out")])
        }
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

/// The type of paths into JSON.
fn is_path(name: &ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|ident| ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("jsonpath"))
}

/// Whether a name is that of a type which PostgreSQL has from the beginning, and which is not here.
fn is_refused(name: &ObjectName) -> bool {
    const NAMES: [&str; 24] = [
        "xml",
        "money",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "point",
        "line",
        "lseg",
        "box",
        "path",
        "polygon",
        "circle",
        "tsvector",
        "tsquery",
        "bit",
        "varbit",
        "int4range",
        "int8range",
        "numrange",
        "daterange",
        "tsrange",
        "tstzrange",
        "xid8",
    ];
    let [part] = name.0.as_slice() else { return false };
    part.as_ident()
        .is_some_and(|ident| ident.quote_style.is_none() && NAMES.contains(&ident.value.to_lowercase().as_str()))
}

/// The type of a column, which a table keeps.
pub(super) fn of_column(of: &DataType) -> Result<()> {
    match of {
        DataType::Custom(name, _) if is_path(name) => Err(refused("a column of type JSONPATH; keep the path as TEXT")),
        DataType::Custom(name, _) if is_named(name) => Err(refused_text(
            "a column of a type that pg_catalog alone has (BIGINT holds its numbers, TEXT its names)",
            of,
        )),
        of => data_type(of),
    }
}

/// FLOAT has a precision in bits, and no scale.
fn float(info: &ExactNumberInfo) -> Result<()> {
    let wrong = |message: &str| Err(Error::plan(SqlState::InvalidParameterValue, message.to_string()));
    match info {
        ExactNumberInfo::Precision(0) => wrong("the precision of FLOAT is at least 1 bit"),
        ExactNumberInfo::Precision(54..) => wrong("the precision of FLOAT is less than 54 bits"),
        ExactNumberInfo::None | ExactNumberInfo::Precision(_) => Ok(()),
        ExactNumberInfo::PrecisionAndScale(..) => {
            refuse(&[(true, "FLOAT with a scale; use DECIMAL, or FLOAT with a precision in bits")])
        }
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
