//! Memory sizes as people write them: `512MB`, `4GiB`, `80%`.
//!
//! `kB`, `MB`, `GB`, `TB` are powers of 1000; `KiB`, `MiB`, `GiB`, `TiB` and the bare letters `K`, `M`, `G`, `T` are
//! powers of 1024; a number alone is bytes; a percentage is of the memory that this process may use.

use std::str::FromStr;

const KIB: u64 = 1 << 10;

/// A size as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// `n` bytes.
    Bytes(u64),
    /// `n` per cent of the usable memory, over 0 and at most 100.
    Percent(f64),
}

impl Size {
    /// The size in bytes where `usable_bytes` of memory may be used.
    pub fn resolve(self, usable_bytes: u64) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => (usable_bytes as f64 * percent / 100.0) as u64,
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong(text))?;
        let unit = unit.trim();
        if unit == "%" {
            return if number > 0.0 && number <= 100.0 {
                Ok(Size::Percent(number))
            } else {
                Err(format!("{text} is not a share of the memory: give more than 0% and at most 100%"))
            };
        }
        let bytes = number * unit_bytes(unit).ok_or_else(|| wrong(text))? as f64;
        if bytes < 1.0 {
            return Err(format!("{text} is less than one byte"));
        }
        if bytes >= u64::MAX as f64 {
            return Err(format!("{text} is more than a 64-bit machine can address"));
        }
        Ok(Size::Bytes(bytes as u64))
    }
}

fn unit_bytes(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => KIB,
        "m" | "mib" => KIB.pow(2),
        "g" | "gib" => KIB.pow(3),
        "t" | "tib" => KIB.pow(4),
        _ => return None,
    })
}

fn wrong(text: &str) -> String {
    format!("'{text}' is not a size: write it like 512MB, 4GiB or 80%")
}

/// `bytes` for people, in binary units with one digit after the point: `345.2 MiB`.
pub fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    // 1023.95 would print as 1024.0 of the smaller unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// `n` with commas between the thousands: `6,001,215`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("1024", 1024),
            ("7B", 7),
            ("512MB", 512_000_000),
            ("512 mb", 512_000_000),
            ("4GiB", 4 << 30),
            ("4g", 4 << 30),
            ("1.5KiB", 1536),
            ("2TiB", 2 << 40),
            ("0.5k", 512),
        ] {
            assert_eq!(text.parse(), Ok(Size::Bytes(bytes)), "{text}");
        }
        assert_eq!("80%".parse(), Ok(Size::Percent(80.0)));
        assert_eq!(Size::Percent(50.0).resolve(1000), 500);
        assert_eq!(Size::Bytes(5).resolve(1000), 5);
    }

    #[test]
    fn what_is_no_size_says_so() {
        for text in ["", "x", "GB", "4XB", "-1", "1..2", "0", "0%", "101%", "1e9", "99999999999TB", "5%%", "nan"] {
            let error = text.parse::<Size>().expect_err(text);
            assert!(!error.contains('\n') && error.len() > 10, "{text}: {error}");
        }
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1024), "1.0 KiB");
        assert_eq!(human(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(human(u64::MAX), "16384.0 PiB");
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(6_001_215), "6,001,215");
    }
}
