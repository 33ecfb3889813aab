//! Lengths of texts and bytes, and `encode` and `decode` with `hex`, `base64` and `escape`, as PostgreSQL has them.
//! DataFusion's base64 has no padding and no lines, so it is another text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, Int32Builder, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use files::{bytes_of_escapes, bytes_of_hex, read_bytes};

use super::defined::Defined;
use crate::error::{statement_err, value_err};

/// Characters of a line of base64.
const LINE: usize = 76;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    let coded = [true, false].map(|to_text| Arc::new(ScalarUDF::from(Coded { to_text, signature: signature() })));
    let bits = Defined::new(&["bit_length"], true, text_or_bytes, |_| DataType::Int32, |columns| lengths(columns, 8));
    coded.into_iter().chain([octet_length(), bits.function()]).collect()
}

/// How many bytes a text or a value of BYTEA has.
pub(crate) fn octet_length() -> Arc<ScalarUDF> {
    Defined::new(&["octet_length"], true, text_or_bytes, |_| DataType::Int32, |columns| lengths(columns, 1)).function()
}

fn text_or_bytes(types: &[DataType]) -> Result<Vec<DataType>, String> {
    match types {
        [of] if of.is_binary() => Ok(vec![DataType::BinaryView]),
        [of] if of.is_string() || of.is_null() => Ok(vec![DataType::Utf8View]),
        _ => Err("it takes a text or bytes".into()),
    }
}

fn lengths(columns: &[ArrayRef], bits: usize) -> Result<ArrayRef> {
    let bytes: Vec<Option<usize>> = match columns[0].as_string_view_opt() {
        Some(texts) => texts.iter().map(|text| text.map(str::len)).collect(),
        None => columns[0].as_binary_view().iter().map(|bytes| bytes.map(<[u8]>::len)).collect(),
    };
    let mut found = Int32Builder::with_capacity(bytes.len());
    for length in bytes {
        match length.map(|length| i32::try_from(length * bits)) {
            None => found.append_null(),
            Some(Ok(length)) => found.append_value(length),
            Some(Err(_)) => return value_err!(NumericValueOutOfRange, "a length does not fit INTEGER"),
        }
    }
    Ok(Arc::new(found.finish()))
}

/// `encode(bytes, format)`, or `decode(text, format)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Coded {
    to_text: bool,
    signature: Signature,
}

fn to_escapes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            0 | 0x80.. => text.push_str(&format!("\\{byte:03o}")),
            byte => text.push(char::from(*byte)),
        }
    }
    text
}

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for (place, chunk) in bytes.chunks(3).enumerate() {
        if place > 0 && place * 4 % LINE == 0 {
            text.push('\n');
        }
        let bits = chunk.iter().enumerate().fold(0u32, |all, (at, byte)| all | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            text.push(if at > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

/// Blanks and ends of lines are left out; the padding has to be there.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let all: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    let mut bytes = Vec::with_capacity(all.len() / 4 * 3);
    let last = all.len().checked_sub(4);
    for (place, chunk) in all.chunks(4).enumerate() {
        let padded = chunk.iter().rev().take_while(|c| **c == b'=').count();
        if chunk.len() < 4 || padded > 2 || (padded > 0 && Some(place * 4) != last) {
            return None;
        }
        let mut bits = 0u32;
        for letter in &chunk[..4 - padded] {
            bits = bits << 6 | LETTERS.iter().position(|known| known == letter)? as u32;
        }
        let bits = bits << (6 * padded);
        bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padded]);
    }
    Some(bytes)
}

fn encoded(bytes: &[u8], format: &str) -> Result<String> {
    Ok(match format {
        "hex" => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        "base64" => to_base64(bytes),
        "escape" => to_escapes(bytes),
        other => return unknown(other),
    })
}

fn decoded(text: &str, format: &str) -> Result<Vec<u8>> {
    let bytes = match format {
        "hex" => bytes_of_hex(text),
        "base64" => from_base64(text),
        "escape" => bytes_of_escapes(text),
        other => return unknown(other),
    };
    match bytes {
        Some(bytes) => Ok(bytes),
        None => value_err!(InvalidParameterValue, "'{text}' is not written in the format {format}"),
    }
}

fn unknown<T>(format: &str) -> Result<T> {
    value_err!(InvalidParameterValue, "the format '{format}' is not supported; there are hex, base64 and escape")
}

impl ScalarUDFImpl for Coded {
    fn name(&self) -> &str {
        if self.to_text { "encode" } else { "decode" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.to_text { DataType::Utf8View } else { DataType::BinaryView })
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |of: &DataType| of.is_string() || of.is_null();
        match types {
            [value, format] if is_text(format) && (is_text(value) || (self.to_text && value.is_binary())) => {
                // A text as it is written has the bytes that are read in it, one of a column its own.
                let value = if value.is_binary() { DataType::BinaryView } else { DataType::Utf8View };
                Ok(vec![value, DataType::Utf8View])
            }
            _ if self.to_text => statement_err!(UndefinedFunction, "encode takes a BYTEA and a format"),
            _ => statement_err!(UndefinedFunction, "decode takes a text and a format"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let mut arrays = ColumnarValue::values_to_arrays(&args.args)?;
        if self.to_text
            && let Some(ColumnarValue::Scalar(value)) = args.args.first()
            && let Some(text) = value.try_as_str().flatten()
        {
            let bytes = read_bytes(text).or_else(|message| value_err!(InvalidTextRepresentation, "{message}"))?;
            arrays[0] = ScalarValue::BinaryView(Some(bytes)).to_array_of_size(arrays[0].len())?;
        }
        let [values, formats] = &arrays[..] else {
            return value_err!(UndefinedFunction, "{} takes two arguments", self.name());
        };
        let values = cast(values, &DataType::BinaryView)?;
        let formats = cast(formats, &DataType::Utf8View)?;
        let rows = values.as_binary_view().iter().zip(formats.as_string_view().iter());
        let found: ArrayRef = if self.to_text {
            let mut texts = StringViewBuilder::with_capacity(values.len());
            for (value, format) in rows {
                match (value, format) {
                    (Some(value), Some(format)) => texts.append_value(encoded(value, &format.to_lowercase())?),
                    _ => texts.append_null(),
                }
            }
            Arc::new(texts.finish())
        } else {
            let mut all = BinaryViewBuilder::with_capacity(values.len());
            for (value, format) in rows {
                match (value.map(String::from_utf8_lossy), format) {
                    (Some(value), Some(format)) => all.append_value(decoded(&value, &format.to_lowercase())?),
                    _ => all.append_null(),
                }
            }
            Arc::new(all.finish())
        };
        match constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)),
            false => Ok(ColumnarValue::Array(found)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut bits = 0x9E37_79B9_7F4A_7C15u64;
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (bits >> 56) as u8
                })
                .collect();
            for format in ["hex", "base64", "escape"] {
                assert_eq!(decoded(&encoded(&bytes, format).unwrap(), format).unwrap(), bytes, "{format}");
            }
            assert_eq!(read_bytes(&format!("\\x{}", encoded(&bytes, "hex").unwrap())).unwrap(), bytes);
        }
    }

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
        }
        assert_eq!(to_base64(&[255; 58]).find('\n'), Some(LINE));
        for wrong in ["YWI", "YW=I", "YQ==YQ==", "Y===", "YW*j"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }
}
