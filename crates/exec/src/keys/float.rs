//! Floats as integers that keep their order.

/// Floats in order as numbers: every NaN is the greatest. Of -0.0 and 0.0, which are equal, the first is the smaller.
#[inline(always)]
pub(crate) fn ordered(value: f64) -> u64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
    bits ^ (((bits as i64) >> 63) as u64 | 1 << 63)
}

/// The float behind [`ordered`].
#[inline(always)]
pub(crate) fn of_ordered(number: u64) -> f64 {
    f64::from_bits(if number >> 63 == 1 { number ^ 1 << 63 } else { !number })
}
