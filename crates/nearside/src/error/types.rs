//! SQL's names of types.

use arrow::datatypes::{DataType, TimeUnit};

/// SQL's name of a type, as messages and EXPLAIN have it; Arrow's own for what SQL has no word for.
pub fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INTEGER".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INTEGER UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float16 | DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::FixedSizeBinary(16) => "UUID".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "BYTEA".into()
        }
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Timestamp(unit, zone) => {
            let digits = match unit {
                TimeUnit::Second => "(0)",
                TimeUnit::Millisecond => "(3)",
                TimeUnit::Microsecond => "(6)",
                TimeUnit::Nanosecond => "",
            };
            let zone = if zone.is_some() { " WITH TIME ZONE" } else { "" };
            format!("TIMESTAMP{digits}{zone}")
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Duration(_) | DataType::Interval(_) => "INTERVAL".into(),
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::ListView(inner)
        | DataType::LargeListView(inner)
        | DataType::FixedSizeList(inner, _) => format!("{}[]", sql_type(inner.data_type())),
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| format!("{} {}", field.name(), sql_type(field.data_type())));
            format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "))
        }
        DataType::Dictionary(_, values) => sql_type(values),
        DataType::RunEndEncoded(_, values) => sql_type(values.data_type()),
        DataType::Null => "NULL".into(),
        DataType::Map(..) | DataType::Union(..) => data_type.to_string(),
    }
}
