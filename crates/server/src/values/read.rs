//! Values of parameters, and of COPY, as clients send them.

use arrow::datatypes::DataType;
use nearside::pg_types::{self as types, Declared};
use nearside::{ScalarValue, Session};

use super::column::JSONB_VERSION;
use super::lists::{self, Item};
use super::{binary, numeric};
use crate::fault::{Fault, codes};
use crate::wire::Format;

/// `numeric` without a scale, as SQL has it.
const NUMERIC: DataType = DataType::Decimal128(38, 10);

/// A parameter of a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The number of its type, as the client is told.
    pub oid: u32,
    /// Its type.
    pub data_type: DataType,
}

impl Parameter {
    /// What a client has declared, or else what the statement tells of it, or else a text.
    pub fn of(declared: u32, inferred: Option<&DataType>) -> Result<Parameter, Fault> {
        let inferred = || {
            let data_type = inferred.cloned().unwrap_or(DataType::Utf8View);
            Parameter { oid: types::of_type(&data_type).oid, data_type }
        };
        match types::declared(declared) {
            Some(Declared::Nothing) => Ok(inferred()),
            Some(Declared::Numeric) => Ok(Parameter { oid: types::NUMERIC, data_type: DataType::Decimal128(38, 0) }),
            Some(Declared::Numerics) => {
                let inferred = inferred().data_type;
                let is_known = types::innermost(&inferred).is_some_and(DataType::is_decimal);
                let data_type = if is_known { inferred } else { DataType::new_list(NUMERIC, true) };
                Ok(Parameter { oid: declared, data_type })
            }
            Some(Declared::Type(data_type)) => Ok(Parameter { oid: declared, data_type }),
            None => Err(Fault::new(
                codes::FEATURE_NOT_SUPPORTED,
                format!("the type with the number {declared} is not supported for parameters"),
            )
            .hint("Leave the type to the server, with the number 0.")),
        }
    }

    /// What stands for a function's result, and has no value.
    pub fn out() -> Parameter {
        Parameter { oid: types::VOID, data_type: DataType::Null }
    }

    /// Whether it is that.
    pub fn is_out(&self) -> bool {
        self.oid == types::VOID
    }

    /// The value that a client sends for it.
    ///
    /// # Errors
    /// It is no value of the type.
    pub fn value(&self, bytes: Option<&[u8]>, format: Format, session: &Session) -> Result<ScalarValue, Fault> {
        let Some(bytes) = bytes else {
            return ScalarValue::try_from(&self.data_type).map_err(|_| unsupported(&self.data_type));
        };
        match format {
            Format::Text => of_text(text(bytes)?, &self.data_type, session),
            Format::Binary => of_binary(self.oid, bytes, &self.data_type),
        }
    }
}

fn unsupported(data_type: &DataType) -> Fault {
    Fault::new(codes::FEATURE_NOT_SUPPORTED, format!("values of the type {data_type} cannot be sent"))
}

/// Bytes as UTF-8.
///
/// # Errors
/// They are none, or have a zero among them.
pub fn text(bytes: &[u8]) -> Result<&str, Fault> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(Fault::new(codes::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\"")),
    }
}

/// A text as a value of a type.
///
/// # Errors
/// It is none.
pub fn of_text(text: &str, data_type: &DataType, session: &Session) -> Result<ScalarValue, Fault> {
    match data_type {
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            decimal(text)
        }
        DataType::Utf8View => Ok(ScalarValue::Utf8View(Some(text.into()))),
        list => match types::element(list) {
            Some(element) => {
                let items =
                    lists::parse(text).map_err(|wrong| Fault::new(codes::INVALID_TEXT_REPRESENTATION, wrong))?;
                list_of(items, element, list, session)
            }
            None => Ok(session.value_of(text, data_type)?),
        },
    }
}

fn list_of(items: Vec<Item>, element: &DataType, list: &DataType, session: &Session) -> Result<ScalarValue, Fault> {
    let null = || ScalarValue::try_from(element).map_err(|_| unsupported(element));
    let value = |item: Item| match (item, types::element(element)) {
        (Item::Null, _) => null(),
        (Item::Value(text), None) => {
            let value = of_text(&text, element, session)?;
            if value.data_type() == *element { Ok(value) } else { Ok(value.cast_to(element).map_err(out_of_range)?) }
        }
        (Item::List(items), Some(inner)) => list_of(items, inner, element, session),
        _ => Err(Fault::new(codes::INVALID_TEXT_REPRESENTATION, "a list of another number of dimensions is expected")),
    };
    let values = items.into_iter().map(value).collect::<Result<Vec<_>, Fault>>()?;
    as_list(&values, element, list)
}

fn out_of_range(error: impl std::fmt::Display) -> Fault {
    Fault::new(codes::NUMERIC_VALUE_OUT_OF_RANGE, error.to_string())
}

fn as_list(values: &[ScalarValue], element: &DataType, list: &DataType) -> Result<ScalarValue, Fault> {
    let made = ScalarValue::List(ScalarValue::new_list_nullable(values, element));
    if made.data_type() == *list { Ok(made) } else { made.cast_to(list).map_err(|_| unsupported(list)) }
}

/// A number with as many digits as it is written with.
fn decimal(text: &str) -> Result<ScalarValue, Fault> {
    let wrong =
        || Fault::new(codes::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type numeric: \"{text}\""));
    let bare = text.trim();
    let (number, exponent) = match bare.find(['e', 'E']) {
        Some(at) => (&bare[..at], bare[at + 1..].parse::<i32>().map_err(|_| wrong())?),
        None => (bare, 0),
    };
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (before, behind) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(before) || !is_number(behind) || before.len() + behind.len() == 0 {
        if ["nan", "infinity", "-infinity", "inf", "-inf"].contains(&bare.to_lowercase().as_str()) {
            return Err(Fault::new(codes::FEATURE_NOT_SUPPORTED, format!("a numeric that is {bare} is not supported")));
        }
        return Err(wrong());
    }
    let too_large = || Fault::new(codes::NUMERIC_VALUE_OUT_OF_RANGE, "a numeric has more than 76 digits");
    let mut digits = format!("{}{behind}", before.trim_start_matches('0'));
    let mut scale = i64::try_from(behind.len()).map_err(|_| too_large())? - i64::from(exponent);
    if !(-76..=76).contains(&scale) {
        return Err(too_large());
    }
    if scale < 0 {
        digits.extend(std::iter::repeat_n('0', scale.unsigned_abs() as usize));
        scale = 0;
    }
    let precision = digits.len().max(scale as usize).max(1);
    let text = format!("{}{}", if is_negative { "-" } else { "" }, if digits.is_empty() { "0" } else { &digits });
    match precision {
        0..=38 => {
            let value = text.parse::<i128>().map_err(|_| wrong())?;
            Ok(ScalarValue::Decimal128(Some(value), precision as u8, scale as i8))
        }
        39..=76 => {
            let value = text.parse::<arrow::datatypes::i256>().map_err(|_| wrong())?;
            Ok(ScalarValue::Decimal256(Some(value), precision as u8, scale as i8))
        }
        _ => Err(too_large()),
    }
}

/// Bytes as PostgreSQL's receive functions read them, as a value of the type that has this number; `data_type` is it
/// more closely, for lists.
///
/// # Errors
/// They are no value of the type.
pub fn of_binary(oid: u32, bytes: &[u8], data_type: &DataType) -> Result<ScalarValue, Fault> {
    let wrong = || Fault::new(codes::INVALID_BINARY_REPRESENTATION, format!("incorrect binary data of the type {oid}"));
    macro_rules! number {
        ($t:ty) => {
            <$t>::from_be_bytes(bytes.try_into().map_err(|_| wrong())?)
        };
    }
    Ok(match oid {
        types::BOOL => match bytes {
            [0] => ScalarValue::Boolean(Some(false)),
            [_] => ScalarValue::Boolean(Some(true)),
            _ => return Err(wrong()),
        },
        types::BYTEA => ScalarValue::BinaryView(Some(bytes.to_vec())),
        types::UUID if bytes.len() == 16 => ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())),
        types::UUID => return Err(wrong()),
        types::INT2 => ScalarValue::Int16(Some(number!(i16))),
        types::INT4 => ScalarValue::Int32(Some(number!(i32))),
        types::INT8 => ScalarValue::Int64(Some(number!(i64))),
        types::OID => ScalarValue::UInt32(Some(number!(u32))),
        types::FLOAT4 => ScalarValue::Float32(Some(number!(f32))),
        types::FLOAT8 => ScalarValue::Float64(Some(number!(f64))),
        types::TEXT | types::VARCHAR | types::BPCHAR | types::UNKNOWN | types::JSON | 18 | 19 | types::FIRST_MADE.. => {
            ScalarValue::Utf8View(Some(text(bytes)?.into()))
        }
        types::JSONB => match bytes.split_first() {
            Some((&JSONB_VERSION, rest)) => ScalarValue::Utf8View(Some(text(rest)?.into())),
            _ => return Err(wrong()),
        },
        types::NUMERIC => decimal(&numeric::text_of_binary(bytes).ok_or_else(wrong)?)?,
        types::DATE => {
            let days = number!(i32).checked_add(binary::EPOCH_DAYS).ok_or_else(wrong)?;
            ScalarValue::Date32(Some(days))
        }
        types::TIME => {
            let us = number!(i64);
            match (0..=86_400_000_000).contains(&us) {
                true => ScalarValue::Time64Nanosecond(Some(us * 1000)),
                false => return Err(wrong()),
            }
        }
        types::TIMESTAMP | types::TIMESTAMPTZ => {
            let us = number!(i64).checked_add(binary::EPOCH_US).ok_or_else(wrong)?;
            let zone = (oid == types::TIMESTAMPTZ).then(|| "UTC".into());
            match us.checked_mul(1000) {
                Some(ns) => ScalarValue::TimestampNanosecond(Some(ns), zone),
                None => ScalarValue::TimestampMicrosecond(Some(us), zone),
            }
        }
        types::INTERVAL => {
            let (us, rest) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
            let (days, rest) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
            let months = <[u8; 4]>::try_from(rest).map_err(|_| wrong())?;
            let ns = i64::from_be_bytes(*us).checked_mul(1000).ok_or_else(wrong)?;
            let (days, months) = (i32::from_be_bytes(*days), i32::from_be_bytes(months));
            let span = arrow::datatypes::IntervalMonthDayNano::new(months, days, ns);
            ScalarValue::IntervalMonthDayNano(Some(span))
        }
        _ => match types::element(data_type) {
            Some(element) if types::element(element).is_none() => array(bytes, element, data_type)?,
            _ => return Err(unsupported(data_type)),
        },
    })
}

/// An array of one dimension.
fn array(bytes: &[u8], element: &DataType, list: &DataType) -> Result<ScalarValue, Fault> {
    let wrong = || Fault::new(codes::INVALID_BINARY_REPRESENTATION, "incorrect binary data of an array");
    let mut rest = bytes;
    let mut number = || {
        let (number, behind) = rest.split_first_chunk::<4>()?;
        rest = behind;
        Some(i32::from_be_bytes(*number))
    };
    let mut next = || number().ok_or_else(wrong);
    let (dimensions, _, oid) = (next()?, next()?, next()?.cast_unsigned());
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = next()?;
            next()?;
            count
        }
        _ => {
            return Err(Fault::new(
                codes::FEATURE_NOT_SUPPORTED,
                "arrays of several dimensions are not supported as binary parameters; send them as text",
            ));
        }
    };
    let mut values = Vec::new();
    for _ in 0..count.max(0) {
        let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        rest = behind;
        let length = i32::from_be_bytes(*length);
        let Ok(length) = usize::try_from(length) else {
            values.push(ScalarValue::try_from(element).map_err(|_| unsupported(element))?);
            continue;
        };
        let (value, behind) = rest.split_at_checked(length).ok_or_else(wrong)?;
        rest = behind;
        let value = of_binary(oid, value, element)?;
        values.push(match value.data_type() == *element {
            true => value,
            false => value.cast_to(element).map_err(out_of_range)?,
        });
    }
    if rest.is_empty() { as_list(&values, element, list) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_their_digits() {
        let of = |text: &str| decimal(text).unwrap();
        assert_eq!(of("12.340"), ScalarValue::Decimal128(Some(12_340), 5, 3));
        assert_eq!(of(" -0.05 "), ScalarValue::Decimal128(Some(-5), 2, 2));
        assert_eq!(of("1.5e3"), ScalarValue::Decimal128(Some(1500), 4, 0));
        assert_eq!(of("0"), ScalarValue::Decimal128(Some(0), 1, 0));
        assert_eq!(of(&"9".repeat(40)).data_type(), DataType::Decimal256(40, 0));
        for wrong in ["", "-", ".", "1e", "1x", "--1", "NaN", &"9".repeat(77), "1e99999999999", "1e-2000000000"] {
            assert!(decimal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn binary_values_have_their_length() {
        assert_eq!(of_binary(23, &[0, 0, 0, 5], &DataType::Int32).unwrap(), ScalarValue::Int32(Some(5)));
        let list = DataType::new_list(DataType::Int32, true);
        let array = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 9];
        assert_eq!(of_binary(1007, &array, &list).unwrap().to_string(), "[9]");
        for length in 0..array.len() {
            assert!(of_binary(1007, &array[..length], &list).is_err(), "{length}");
        }
        let mut many = array;
        many[12..16].copy_from_slice(&i32::MAX.to_be_bytes());
        assert!(of_binary(1007, &many, &list).is_err());
        for oid in [16, 20, 21, 23, 700, 701, 1082, 1083, 1114, 1184, 1186, 1700] {
            assert!(of_binary(oid, &[0; 3], &DataType::Int32).is_err(), "{oid}");
        }
    }
}
