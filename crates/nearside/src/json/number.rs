//! Numbers of JSON, which are PostgreSQL's `numeric`: exact, with as many digits behind the point as were written.

use super::fault;
use crate::error::Result;
use crate::error::codes::SqlState;

/// Most digits before the point, and behind it, as PostgreSQL has them.
const WHOLE_MAX: i64 = 131_072;
const BEHIND_MAX: i64 = 16_383;

/// A number as `numeric` writes it, without an exponent.
///
/// # Errors
/// More digits than a number has.
pub(crate) fn normal(written: &str) -> Result<String> {
    let overflows = || fault(SqlState::NumericValueOutOfRange, "a number of JSON has too many digits for NUMERIC");
    let (negative, bare) = match written.strip_prefix('-') {
        Some(bare) => (true, bare),
        None => (false, written),
    };
    let (mantissa, exponent) = match bare.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| overflows())?),
        None => (bare, 0),
    };
    if exponent.abs() > 2 * WHOLE_MAX {
        return Err(overflows());
    }
    let (whole, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{behind}");
    let scale = (behind.len() as i64).saturating_sub(exponent);
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    let significant = digits.trim_start_matches('0').len() as i64;
    if scale > BEHIND_MAX || (!is_zero && significant - scale > WHOLE_MAX) {
        return Err(overflows());
    }
    let mut out = String::with_capacity(digits.len() + 2);
    if negative && !is_zero {
        out.push('-');
    }
    if scale <= 0 {
        match digits.trim_start_matches('0') {
            "" => out.push('0'),
            digits => {
                out.push_str(digits);
                out.extend(std::iter::repeat_n('0', scale.unsigned_abs() as usize));
            }
        }
        return Ok(out);
    }
    let scale = scale as usize;
    let padded = format!("{}{digits}", "0".repeat((scale + 1).saturating_sub(digits.len())));
    let (whole, behind) = padded.split_at(padded.len() - scale);
    out.push_str(match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    });
    out.push('.');
    out.push_str(behind);
    Ok(out)
}

/// A number in normal form without zeros at its end, which have no meaning in comparisons.
pub(crate) fn bare(normal: &str) -> &str {
    if normal.contains('.') { normal.trim_end_matches('0').trim_end_matches('.') } else { normal }
}

/// Writes bytes that compare as numbers in normal form do.
pub(crate) fn write_key(normal: &str, key: &mut Vec<u8>) {
    let text = bare(normal);
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    if whole.is_empty() && behind.is_empty() {
        key.push(1);
        return;
    }
    // How many digits stand before the point; zeros behind it count against them.
    let lead = match whole.len() {
        0 => -((behind.len() - behind.trim_start_matches('0').len()) as i64),
        length => length as i64,
    };
    let digits = if whole.is_empty() { behind.trim_start_matches('0').to_string() } else { format!("{whole}{behind}") };
    key.push(if negative { 0 } else { 2 });
    let start = key.len();
    key.extend_from_slice(&((lead + (1 << 30)) as u32).to_be_bytes());
    key.extend(digits.trim_end_matches('0').bytes());
    key.push(0);
    if negative {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}
