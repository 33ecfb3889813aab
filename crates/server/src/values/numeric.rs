//! Decimal numbers: digits without a point and how many of them stand behind it, as text and as PostgreSQL's binary.

use std::io::Write;

/// `-12.340`, of digits without leading zeros; `scale` of them stand behind the point, and that may be more than there
/// are. A negative one are zeros.
pub fn text(is_negative: bool, digits: &str, scale: i32, to: &mut Vec<u8>) {
    if is_negative && digits != "0" {
        to.push(b'-');
    }
    let Ok(behind) = usize::try_from(scale) else {
        to.extend(digits.bytes());
        if digits != "0" {
            to.extend(std::iter::repeat_n(b'0', scale.unsigned_abs() as usize));
        }
        return;
    };
    match digits.len().checked_sub(behind) {
        Some(before) if before > 0 => {
            to.extend(digits[..before].bytes());
            if behind > 0 {
                to.push(b'.');
                to.extend(digits[before..].bytes());
            }
        }
        _ => {
            let _ = write!(to, "0.{:0>behind$}", digits);
        }
    }
}

/// PostgreSQL's: digits of base 10000 around the point.
pub fn binary(is_negative: bool, digits: &str, scale: i32, to: &mut Vec<u8>) {
    let mut plain = Vec::with_capacity(digits.len() + 8);
    let (before, behind) = match usize::try_from(scale) {
        Ok(behind) => match digits.len().checked_sub(behind) {
            Some(before) => {
                plain.extend(digits.bytes());
                (before, behind)
            }
            None => {
                plain.extend(std::iter::repeat_n(b'0', behind - digits.len()));
                plain.extend(digits.bytes());
                (0, behind)
            }
        },
        Err(_) => {
            plain.extend(digits.bytes());
            plain.extend(std::iter::repeat_n(b'0', scale.unsigned_abs() as usize));
            (plain.len(), 0)
        }
    };
    // Whole groups on both sides of the point.
    let lead = (4 - before % 4) % 4;
    let mut all = vec![b'0'; lead];
    all.extend(&plain);
    all.extend(std::iter::repeat_n(b'0', (4 - behind % 4) % 4));
    let group = |four: &[u8]| four.iter().fold(0_i16, |sum, digit| sum * 10 + i16::from(digit - b'0'));
    let mut groups: Vec<i16> = all.chunks_exact(4).map(group).collect();
    let mut weight = ((before + lead) / 4) as i16 - 1;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    weight -= zeros as i16;
    if groups.is_empty() {
        weight = 0;
    }
    let sign: u16 = if is_negative && !groups.is_empty() { 0x4000 } else { 0 };
    to.extend((groups.len() as i16).to_be_bytes());
    to.extend(weight.to_be_bytes());
    to.extend(sign.to_be_bytes());
    to.extend((scale.max(0) as i16).to_be_bytes());
    groups.iter().for_each(|group| to.extend(group.to_be_bytes()));
}

/// The text of PostgreSQL's binary; `None` where it is none.
pub fn text_of_binary(bytes: &[u8]) -> Option<String> {
    let short = |at: usize| Some(i16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (count, weight, sign, scale) = (short(0)?, i32::from(short(2)?), short(4)? as u16, i32::from(short(6)?));
    if usize::try_from(count).ok()? * 2 + 8 != bytes.len() || !(0..=0x3FFF).contains(&scale) {
        return None;
    }
    let sign = match sign {
        0 => "",
        0x4000 => "-",
        0xC000 => return Some("NaN".into()),
        0xD000 => return Some("Infinity".into()),
        0xF000 => return Some("-Infinity".into()),
        _ => return None,
    };
    let groups: Vec<i16> = (0..count as usize).map(|at| short(8 + 2 * at)).collect::<Option<_>>()?;
    if groups.iter().any(|group| !(0..10_000).contains(group)) {
        return None;
    }
    // A type of ours has 76 digits at most; what has more is refused where it is read.
    if weight.abs() > 1000 || scale > 4000 {
        return None;
    }
    let group = |at: i32| usize::try_from(at).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let mut text = String::from(sign);
    let before: String = (0..=weight).map(|at| format!("{:04}", group(at))).collect();
    let before = before.trim_start_matches('0');
    text.push_str(if before.is_empty() { "0" } else { before });
    if scale > 0 {
        let behind: String = (0..scale.div_euclid(4) + 1).map(|at| format!("{:04}", group(weight + 1 + at))).collect();
        text.push('.');
        text.push_str(&behind[..scale as usize]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read_back() {
        for (is_negative, digits, scale, expected) in [
            (false, "0", 0, "0"),
            (true, "0", 2, "0.00"),
            (false, "5", 3, "0.005"),
            (true, "12345", 2, "-123.45"),
            (false, "12", -3, "12000"),
            (false, "100000000", 4, "10000.0000"),
            (true, "99999999999999999999999999999999999999", 19, "-9999999999999999999.9999999999999999999"),
            (false, "1", 9, "0.000000001"),
        ] {
            let (mut written, mut sent) = (Vec::new(), Vec::new());
            text(is_negative, digits, scale, &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), expected);
            binary(is_negative, digits, scale, &mut sent);
            assert_eq!(text_of_binary(&sent).as_deref(), Some(expected), "{sent:?}");
        }
        // As PostgreSQL sends 123.45 and 0.005.
        let mut sent = Vec::new();
        binary(false, "12345", 2, &mut sent);
        assert_eq!(sent, [0, 2, 0, 0, 0, 0, 0, 2, 0, 123, 0x11, 0x94]);
        sent.clear();
        binary(false, "5", 3, &mut sent);
        assert_eq!(sent, [0, 1, 0xFF, 0xFF, 0, 0, 0, 3, 0, 50]);
        for wrong in [&[][..], &[0, 1, 0, 0, 0, 0, 0, 0], &[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10], &[0xFF; 8]] {
            assert_eq!(text_of_binary(wrong), None);
        }
    }
}
