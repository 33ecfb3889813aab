//! Values and columns as JSON.
//!
//! Integers are numbers as far as every reader has them exactly (2^53), and texts of digits beyond; NUMERIC is a text
//! always, so that none of its digits is lost. `NaN` and the infinities are texts. What JSON has no type for is the
//! text that PostgreSQL shows, and so is what `json` and `jsonb` hold.

use arrow::datatypes::Field;
use nearside::pg_types as types;

/// The largest integer below which a reader that has floating-point numbers alone has all of them.
const EXACT: i64 = 1 << 53;

/// How values of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `true`, `false`.
    Flag,
    /// A number, a text beyond [`EXACT`].
    Integer,
    /// A number, a text where it is none.
    Float,
    /// A text.
    Text,
}

impl Shape {
    /// Of a column.
    pub fn of(field: &Field) -> Shape {
        match types::of_field(field).oid {
            types::BOOL => Shape::Flag,
            types::INT2 | types::INT4 | types::INT8 | types::OID => Shape::Integer,
            types::FLOAT4 | types::FLOAT8 => Shape::Float,
            _ => Shape::Text,
        }
    }

    /// Writes a value that is shown as this text.
    pub fn write(self, shown: &[u8], to: &mut Vec<u8>) {
        let is_plain = match self {
            Shape::Flag => return to.extend_from_slice(if shown == b"t" { b"true" } else { b"false" }),
            Shape::Integer => {
                let number = std::str::from_utf8(shown).ok().and_then(|text| text.parse::<i64>().ok());
                number.is_some_and(|number| (-EXACT..=EXACT).contains(&number))
            }
            Shape::Float => shown.iter().any(u8::is_ascii_digit),
            Shape::Text => false,
        };
        match is_plain {
            true => to.extend_from_slice(shown),
            false => text(&String::from_utf8_lossy(shown), to),
        }
    }
}

/// Writes a text with what JSON wants around and within it.
pub fn text(text: &str, to: &mut Vec<u8>) {
    let written = serde_json::to_writer(to, text);
    assert!(written.is_ok(), "a text is JSON, and memory takes it");
}

/// PostgreSQL's name of a column's type; `text` for what it has none for.
pub fn type_name(field: &Field) -> String {
    let oid = types::of_field(field).oid;
    let name = |oid: u32| NAMES.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name);
    if let Some(name) = name(oid) {
        return name.into();
    }
    let element = types::innermost(field.data_type()).and_then(|element| name(types::of_type(element).oid));
    element.map_or_else(|| "text".to_string(), |element| format!("{element}[]"))
}

const NAMES: [(u32, &str); 19] = [
    (types::BOOL, "boolean"),
    (types::BYTEA, "bytea"),
    (types::INT2, "smallint"),
    (types::INT4, "integer"),
    (types::INT8, "bigint"),
    (types::OID, "oid"),
    (types::TEXT, "text"),
    (types::VARCHAR, "character varying"),
    (types::BPCHAR, "character"),
    (types::JSON, "json"),
    (types::JSONB, "jsonb"),
    (types::FLOAT4, "real"),
    (types::FLOAT8, "double precision"),
    (types::NUMERIC, "numeric"),
    (types::DATE, "date"),
    (types::TIME, "time without time zone"),
    (types::TIMESTAMP, "timestamp without time zone"),
    (types::TIMESTAMPTZ, "timestamp with time zone"),
    (types::INTERVAL, "interval"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn written(shape: Shape, shown: &str) -> String {
        let mut to = Vec::new();
        shape.write(shown.as_bytes(), &mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn no_digit_is_lost_and_all_of_it_is_json() {
        assert_eq!(written(Shape::Integer, "9007199254740992"), "9007199254740992");
        assert_eq!(written(Shape::Integer, "9007199254740993"), "\"9007199254740993\"");
        assert_eq!(written(Shape::Integer, "-9223372036854775808"), "\"-9223372036854775808\"");
        assert_eq!(written(Shape::Float, "1e-05"), "1e-05");
        assert_eq!(written(Shape::Float, "-Infinity"), "\"-Infinity\"");
        assert_eq!(written(Shape::Float, "NaN"), "\"NaN\"");
        assert_eq!(written(Shape::Text, "0.10"), "\"0.10\"");
        assert_eq!(written(Shape::Text, "a\"\\\n\u{1}ä"), "\"a\\\"\\\\\\n\\u0001ä\"");
        assert_eq!((written(Shape::Flag, "t"), written(Shape::Flag, "f")), ("true".into(), "false".into()));
    }
}
