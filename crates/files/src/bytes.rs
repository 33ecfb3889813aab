//! How bytes are written and read as text, as PostgreSQL does: two hexadecimal digits each behind `\x`.

use std::fmt::Write;

/// Writes the bytes behind a text.
pub fn write_bytes(bytes: &[u8], to: &mut String) {
    to.push_str("\\x");
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(to, "{byte:02x}");
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
