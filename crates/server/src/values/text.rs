//! Values as text: floats, bytes, records and the offsets of zones.

use std::io::Write;

use arrow::array::timezone::Tz;
use chrono::{DateTime, Offset, TimeZone};

/// The shortest text of which the same number is read: `0.1`, `1e+20`, `NaN`.
pub fn float8(value: f64, to: &mut Vec<u8>) {
    float(value, &format!("{value:e}"), 15, to);
}

/// The same of a float of 4 bytes.
pub fn float4(value: f32, to: &mut Vec<u8>) {
    float(value.into(), &format!("{value:e}"), 6, to);
}

/// `short` is `d.ddde-dd`; with an exponent of `digits` or more, or less than -4, it is written with one.
fn float(value: f64, short: &str, digits: i32, to: &mut Vec<u8>) {
    if !value.is_finite() {
        let name: &[u8] = match (value.is_nan(), value > 0.0) {
            (true, _) => b"NaN",
            (false, true) => b"Infinity",
            (false, false) => b"-Infinity",
        };
        return to.extend(name);
    }
    let (mantissa, exponent) = short.split_once('e').unwrap_or((short, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(to, "{mantissa}e{sign}{:02}", exponent.abs());
        return;
    }
    if mantissa.starts_with('-') {
        to.push(b'-');
    }
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let before = exponent + 1;
    if before <= 0 {
        to.extend(b"0.");
        to.extend(std::iter::repeat_n(b'0', before.unsigned_abs() as usize));
        return to.extend(&digits);
    }
    let before = before as usize;
    let whole = digits.len().min(before);
    to.extend(&digits[..whole]);
    to.extend(std::iter::repeat_n(b'0', before - whole));
    if digits.len() > before {
        to.push(b'.');
        to.extend(&digits[before..]);
    }
}

/// `\x6162`.
pub fn bytes(value: &[u8], to: &mut Vec<u8>) {
    to.extend(b"\\x");
    to.extend(value.iter().copied().flat_map(hex));
}

/// `a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11`, of 16 bytes.
pub fn uuid(value: &[u8], to: &mut Vec<u8>) {
    for (place, byte) in value.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            to.push(b'-');
        }
        to.extend(hex(*byte));
    }
}

fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// How many seconds a zone is ahead of UTC at a time.
pub fn offset(count: i64, per_second: i64, zone: Tz) -> i32 {
    let moment = DateTime::from_timestamp(count.div_euclid(per_second), 0);
    moment.map_or(0, |moment| zone.offset_from_utc_datetime(&moment.naive_utc()).fix().local_minus_utc())
}

/// What C calls a space.
pub fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0B
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_as_short_as_can_be() {
        for (value, expected) in [
            (0.1, "0.1"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-120.5, "-120.5"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e-300, "1e-300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            let mut to = Vec::new();
            float8(value, &mut to);
            assert_eq!(String::from_utf8(to).unwrap(), expected);
        }
        for (value, expected) in [(1e5_f32, "100000"), (1e6, "1e+06"), (0.1, "0.1"), (123_456.7, "123456.7")] {
            let mut to = Vec::new();
            float4(value, &mut to);
            assert_eq!(String::from_utf8(to).unwrap(), expected);
        }
    }
}
