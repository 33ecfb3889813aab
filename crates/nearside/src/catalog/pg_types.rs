//! Which of PostgreSQL's types a type of ours is, by its number in PostgreSQL's catalog, and back: for the catalog's
//! own tables, and for clients on the wire.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

use crate::catalog::lengths::LENGTH;
use crate::catalog::named_types::TYPE;
use crate::catalog::user_types::{EnumType, FIRST};

/// `bool`
pub const BOOL: u32 = 16;
/// `bytea`
pub const BYTEA: u32 = 17;
/// `int8`
pub const INT8: u32 = 20;
/// `int2`
pub const INT2: u32 = 21;
/// `int4`
pub const INT4: u32 = 23;
/// `text`
pub const TEXT: u32 = 25;
/// `json`
pub const JSON: u32 = 114;
/// `jsonb`
pub const JSONB: u32 = 3802;
/// `float4`
pub const FLOAT4: u32 = 700;
/// `float8`
pub const FLOAT8: u32 = 701;
/// `char(n)`
pub const BPCHAR: u32 = 1042;
/// `varchar(n)`
pub const VARCHAR: u32 = 1043;
/// `oid`
pub const OID: u32 = 26;
/// `date`
pub const DATE: u32 = 1082;
/// `time`
pub const TIME: u32 = 1083;
/// `timestamp`
pub const TIMESTAMP: u32 = 1114;
/// `timestamptz`
pub const TIMESTAMPTZ: u32 = 1184;
/// `interval`
pub const INTERVAL: u32 = 1186;
/// `numeric`
pub const NUMERIC: u32 = 1700;
/// `uuid`
pub const UUID: u32 = 2950;
/// `record`
pub const RECORD: u32 = 2249;
/// `void`: of parameters that stand for what a function gives.
pub const VOID: u32 = 2278;
/// The first number of types that statements have made.
pub const FIRST_MADE: u32 = FIRST;
/// What a client says of a parameter of which it knows nothing.
pub const UNKNOWN: u32 = 705;

/// Types and those of their arrays.
const ARRAYS: [(u32, u32); 19] = [
    (BOOL, 1000),
    (BYTEA, 1001),
    (INT2, 1005),
    (INT4, 1007),
    (TEXT, 1009),
    (BPCHAR, 1014),
    (VARCHAR, 1015),
    (INT8, 1016),
    (OID, 1028),
    (FLOAT4, 1021),
    (FLOAT8, 1022),
    (TIMESTAMP, 1115),
    (DATE, 1182),
    (TIME, 1183),
    (TIMESTAMPTZ, 1185),
    (UUID, 2951),
    (INTERVAL, 1187),
    (NUMERIC, 1231),
    (RECORD, 2287),
];

/// Types whose values are another type's here, by their names ([`TYPE`]): the number, and the length of a value.
const NAMED: [(&str, u32, i16); 5] =
    [("oid", OID, 4), ("name", 19, 64), ("\"char\"", 18, 1), ("json", JSON, -1), ("jsonb", JSONB, -1)];

/// What a column's type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgType {
    /// Its number.
    pub oid: u32,
    /// How many bytes a value has in PostgreSQL's memory; -1 where that differs.
    pub length: i16,
    /// Length, digits and the like; -1 for nothing.
    pub modifier: i32,
}

/// The type of a field, with the length of its texts where it has one.
pub fn of_field(field: &Field) -> PgType {
    let of = of_type(field.data_type());
    let length = field.metadata().get(LENGTH).and_then(|length| {
        let (name, chars) = length.strip_suffix(')')?.split_once('(')?;
        Some((if name == "CHAR" { BPCHAR } else { VARCHAR }, chars.parse::<i32>().ok()?.checked_add(4)?))
    });
    let named = field.metadata().get(TYPE);
    let named = named.and_then(|name| NAMED.iter().find(|(known, ..)| known == name));
    if let Some(of) = EnumType::of_field(field) {
        return PgType { oid: of.oid(), length: 4, modifier: -1 };
    }
    match (length, named) {
        // A column of INTEGER UNSIGNED is a number, and what it says is none of pg_catalog's.
        (None, None) if of.oid == OID => PgType { oid: INT8, length: 8, modifier: -1 },
        (Some((oid, modifier)), _) if of.oid == TEXT => PgType { oid, length: -1, modifier },
        (_, Some((_, oid, length))) => PgType { oid: *oid, length: *length, modifier: -1 },
        _ => of,
    }
}

/// The type of values.
pub fn of_type(data_type: &DataType) -> PgType {
    use DataType as T;
    let (oid, length) = match data_type {
        T::Boolean => (BOOL, 1),
        T::Int8 | T::UInt8 | T::Int16 => (INT2, 2),
        T::Int32 | T::UInt16 => (INT4, 4),
        T::UInt32 => (OID, 4),
        T::Int64 => (INT8, 8),
        T::UInt64 => (NUMERIC, -1),
        T::Float16 | T::Float32 => (FLOAT4, 4),
        T::Float64 => (FLOAT8, 8),
        T::Decimal32(precision, scale)
        | T::Decimal64(precision, scale)
        | T::Decimal128(precision, scale)
        | T::Decimal256(precision, scale) => {
            let scale = i32::from(*scale);
            let modifier = if scale < 0 { -1 } else { (i32::from(*precision) << 16 | scale) + 4 };
            return PgType { oid: NUMERIC, length: -1, modifier };
        }
        T::FixedSizeBinary(16) => (UUID, 16),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => (BYTEA, -1),
        T::Date32 | T::Date64 => (DATE, 4),
        T::Time32(_) | T::Time64(_) => (TIME, 8),
        T::Timestamp(unit, zone) => {
            let oid = if zone.is_some() { TIMESTAMPTZ } else { TIMESTAMP };
            let modifier = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond | TimeUnit::Nanosecond => -1,
            };
            return PgType { oid, length: 8, modifier };
        }
        T::Interval(_) | T::Duration(_) => (INTERVAL, 16),
        T::Struct(_) => (RECORD, -1),
        T::Dictionary(_, values) => return of_type(values),
        T::RunEndEncoded(_, values) => return of_type(values.data_type()),
        list => match innermost(list) {
            Some(element) => (array_of(of_type(element).oid), -1),
            None => (TEXT, -1),
        },
    };
    PgType { oid, length, modifier: -1 }
}

/// The type of a list's elements, and of their elements where they are lists; `None` for what is no list.
pub fn innermost(data_type: &DataType) -> Option<&DataType> {
    let element = element(data_type)?;
    Some(innermost(element).unwrap_or(element))
}

/// The type of a list's elements.
pub fn element(data_type: &DataType) -> Option<&DataType> {
    use DataType as T;
    match data_type {
        T::List(field)
        | T::LargeList(field)
        | T::ListView(field)
        | T::LargeListView(field)
        | T::FixedSizeList(field, _) => Some(field.data_type()),
        _ => None,
    }
}

/// The number of the arrays of a type.
fn array_of(oid: u32) -> u32 {
    // What is told as text is also told as text within lists.
    ARRAYS.iter().find(|(element, _)| *element == oid).map_or(1009, |(_, array)| *array)
}

/// What a client says of a parameter's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared {
    /// Nothing.
    Nothing,
    /// A number with digits behind the point, as many as a value has.
    Numeric,
    /// `numeric[]`, of which it is not told either.
    Numerics,
    /// A type.
    Type(DataType),
}

/// The type that a number stands for; `None` for those that there are not.
pub fn declared(oid: u32) -> Option<Declared> {
    use DataType as T;
    let data_type = match oid {
        0 | UNKNOWN => return Some(Declared::Nothing),
        NUMERIC => return Some(Declared::Numeric),
        BOOL => T::Boolean,
        BYTEA => T::BinaryView,
        UUID => T::FixedSizeBinary(16),
        INT2 => T::Int16,
        INT4 => T::Int32,
        OID => T::UInt32,
        INT8 => T::Int64,
        FLOAT4 => T::Float32,
        FLOAT8 => T::Float64,
        // Texts by other names: "char", name, json, jsonb.
        TEXT | BPCHAR | VARCHAR | 18 | 19 | JSON | JSONB => T::Utf8View,
        DATE => T::Date32,
        TIME => T::Time64(TimeUnit::Nanosecond),
        TIMESTAMP => T::Timestamp(TimeUnit::Nanosecond, None),
        TIMESTAMPTZ => T::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        INTERVAL => T::Interval(IntervalUnit::MonthDayNano),
        // Types that statements have made: labels are texts.
        FIRST_MADE.. => T::Utf8View,
        array if array == array_of(NUMERIC) => return Some(Declared::Numerics),
        array => {
            let (element, _) = ARRAYS.iter().find(|(_, known)| *known == array)?;
            let Declared::Type(element) = declared(*element)? else { return None };
            T::List(Arc::new(Field::new_list_field(element, true)))
        }
    };
    Some(Declared::Type(data_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_numbers_and_lengths() {
        let of = |data_type| of_type(&data_type);
        assert_eq!(of(DataType::Int32), PgType { oid: 23, length: 4, modifier: -1 });
        // numeric(10,2)
        assert_eq!(of(DataType::Decimal128(10, 2)).modifier, 655_366);
        let list = DataType::new_list(DataType::new_list(DataType::Utf8View, true), true);
        assert_eq!(of(list).oid, 1009);
        let length = |text: &str| {
            let metadata = [(LENGTH.to_string(), text.to_string())].into();
            of_field(&Field::new("a", DataType::Utf8View, true).with_metadata(metadata))
        };
        assert_eq!(length("VARCHAR(10)"), PgType { oid: 1043, length: -1, modifier: 14 });
        assert_eq!(length("CHAR(3)"), PgType { oid: 1042, length: -1, modifier: 7 });
    }

    #[test]
    fn every_type_that_may_be_declared_is_told_by_its_number() {
        for (element, array) in ARRAYS {
            if let Some(Declared::Type(of)) = declared(element) {
                let told = of_type(&of).oid;
                assert!(told == element || told == TEXT, "{element}");
                let Some(Declared::Type(list)) = declared(array) else { panic!("{array}") };
                assert!(matches!(of_type(&list).oid, oid if oid == array || oid == 1009), "{array}");
            }
        }
        assert_eq!(declared(600), None);
    }
}
