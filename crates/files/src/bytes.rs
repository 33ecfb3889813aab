//! How bytes are written and read as text, as PostgreSQL does: two hexadecimal digits each behind `\x`.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;

/// Writes the bytes behind a text.
pub fn write_bytes(bytes: &[u8], to: &mut String) {
    to.push_str("\\x");
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(to, "{byte:02x}");
    }
}

/// The texts in the place of bytes, also in lists; `None` for an array without any.
///
/// # Errors
/// Those of Arrow.
pub fn texts_of_bytes(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    match array.data_type() {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = cast(array, &DataType::BinaryView)?;
            let text = |bytes: &[u8]| {
                let mut text = String::with_capacity(2 + 2 * bytes.len());
                write_bytes(bytes, &mut text);
                text
            };
            let texts: StringViewArray = bytes.as_binary_view().iter().map(|bytes| bytes.map(text)).collect();
            Ok(Some(Arc::new(texts)))
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let Some(values) = texts_of_bytes(list.values())? else { return Ok(None) };
            let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Some(Arc::new(ListArray::try_new(field, offsets, values, nulls)?)))
        }
        _ => Ok(None),
    }
}

/// The bytes that a text means: two hexadecimal digits each behind `\x`, else characters, of which a backslash is two
/// or stands before three octal digits.
///
/// # Errors
/// A sentence that says what is wrong with the text.
pub fn read_bytes(text: &str) -> Result<Vec<u8>, String> {
    match text.strip_prefix("\\x") {
        Some(digits) => bytes_of_hex(digits)
            .ok_or_else(|| format!("'{text}' cannot be read as BYTEA; two hexadecimal digits are a byte")),
        None => bytes_of_escapes(text).ok_or_else(|| {
            format!("'{text}' cannot be read as BYTEA; write a backslash twice, or before three octal digits")
        }),
    }
}

/// The bytes of two hexadecimal digits each; blanks between them are left out. `None` where there is something else.
pub fn bytes_of_hex(digits: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut rest = digits.bytes().filter(|c| !c.is_ascii_whitespace());
    while let Some(high) = rest.next() {
        let digit = |c: u8| char::from(c).to_digit(16);
        bytes.push((digit(high)? * 16 + digit(rest.next()?)?) as u8);
    }
    Some(bytes)
}

/// The bytes of characters, of which a backslash is two or stands before three octal digits; `None` where one is not.
pub fn bytes_of_escapes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                bytes.push(b'\\');
                rest = behind;
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = behind;
            }
            (b'\\', _) => return None,
            (byte, _) => bytes.push(*byte),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_type_are_texts_in_lists_too() {
        use arrow::array::{BinaryArray, Int64Array};
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"\xde\xad"[..]), None, Some(b"")]));
        for data_type in [DataType::Binary, DataType::LargeBinary, DataType::BinaryView] {
            let texts = texts_of_bytes(&cast(&bytes, &data_type).unwrap()).unwrap().unwrap();
            let texts: Vec<_> = texts.as_string_view().iter().collect();
            assert_eq!(texts, [Some("\\xdead"), None, Some("\\x")]);
        }
        let list = |values: ArrayRef| -> ArrayRef {
            let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let offsets = arrow::buffer::OffsetBuffer::from_lengths([2, 1]);
            Arc::new(ListArray::new(field, offsets, values, None))
        };
        let texts = texts_of_bytes(&list(bytes)).unwrap().unwrap();
        assert_eq!(texts.as_list::<i32>().value(1).as_string_view().value(0), "\\x");
        assert!(texts_of_bytes(&list(Arc::new(Int64Array::from(vec![1, 2, 3])))).unwrap().is_none());
    }

    #[test]
    fn a_backslash_stands_before_itself_or_digits() {
        assert_eq!(read_bytes(r"a\\b\001").unwrap(), b"a\\b\x01");
        for wrong in [r"a\q", r"\", r"\400", r"\xzz", r"\x1"] {
            assert!(read_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut text = String::new();
        write_bytes(&bytes, &mut text);
        assert!(text.starts_with("\\x000102") && text.ends_with("feff"));
        assert_eq!(read_bytes(&text).unwrap(), bytes);
    }
}
