//! UUIDs, which are kept as 16 bytes: how they are written and read as texts, and random ones.
//!
//! A type of 16 bytes is one of UUIDs wherever it comes from, also from a file.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, FixedSizeBinaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion_functions::string;

/// The type of UUIDs.
pub(crate) const UUID: DataType = DataType::FixedSizeBinary(BYTES as i32);

const BYTES: usize = 16;

/// Writes the bytes in groups of hexadecimal digits.
pub(crate) fn write_uuid(bytes: &[u8], to: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            to.push('-');
        }
        to.push(char::from(DIGITS[usize::from(byte >> 4)]));
        to.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Reads 32 hexadecimal digits, which may stand in braces and have a hyphen behind every four.
pub(crate) fn read_uuid(text: &str) -> Option<[u8; BYTES]> {
    let bare = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut bytes = [0; BYTES];
    let mut digits = 0;
    let mut hyphen = false;
    for c in bare.bytes() {
        if c == b'-' {
            if hyphen || digits == 0 || digits % 4 != 0 {
                return None;
            }
            hyphen = true;
            continue;
        }
        hyphen = false;
        let digit = char::from(c).to_digit(16)? as u8;
        *bytes.get_mut(digits / 2)? |= if digits % 2 == 0 { digit << 4 } else { digit };
        digits += 1;
    }
    (digits == 2 * BYTES && !hyphen).then_some(bytes)
}

/// The function under both of its names.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 2] {
    ["gen_random_uuid", "uuid"].map(|name| {
        let signature = Signature::nullary(Volatility::Volatile);
        Arc::new(ScalarUDF::from(Random { name, texts: string::uuid(), signature }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Random {
    name: &'static str,
    texts: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(UUID)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let texts = self.texts.inner().invoke_with_args(args)?;
        let is_scalar = matches!(texts, ColumnarValue::Scalar(_));
        let texts = cast(&texts.to_array(if is_scalar { 1 } else { rows })?, &DataType::Utf8View)?;
        let mut values = FixedSizeBinaryBuilder::with_capacity(texts.len(), BYTES as i32);
        for text in texts.as_string_view() {
            match text.and_then(read_uuid) {
                Some(bytes) => values.append_value(bytes)?,
                None => values.append_null(),
            }
        }
        let values: ArrayRef = Arc::new(values.finish());
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_read_in_every_form() {
        let plain = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            plain,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            let mut written = String::new();
            write_uuid(&read_uuid(text).unwrap(), &mut written);
            assert_eq!(written, plain, "{text}");
        }
        for wrong in [
            "",
            "a0eebc99",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
            "a0e-ebc999c0b4ef8bb6d6bb9bd380a11",
            "g0eebc999c0b4ef8bb6d6bb9bd380a11",
        ] {
            assert_eq!(read_uuid(wrong), None, "{wrong}");
        }
    }
}
