//! [`Interval`]: between which bounds the result of integer arithmetic lies.
//!
//! Bounds are computed in 128 bits from operands of 64, so they never overflow themselves.

use arrow::datatypes::DataType;

use crate::chunk::vector::type_bounds;

/// Smallest and largest value of an expression over rows where it is not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) low: i128,
    pub(super) high: i128,
}

impl Interval {
    /// Between two integers.
    pub(super) fn of(low: i64, high: i64) -> Interval {
        Interval { low: low.into(), high: high.into() }
    }

    fn hull(values: impl IntoIterator<Item = Option<i128>>) -> Option<Interval> {
        let mut hull: Option<Interval> = None;
        for value in values {
            let value = value?;
            let known = hull.unwrap_or(Interval { low: value, high: value });
            hull = Some(Interval { low: known.low.min(value), high: known.high.max(value) });
        }
        hull
    }

    fn corners(self, other: Interval, f: impl Fn(i128, i128) -> Option<i128>) -> Option<Interval> {
        let corners = [(self.low, other.low), (self.low, other.high), (self.high, other.low), (self.high, other.high)];
        Interval::hull(corners.map(|(a, b)| f(a, b)))
    }

    pub(super) fn plus(self, other: Interval) -> Option<Interval> {
        self.corners(other, i128::checked_add)
    }

    pub(super) fn minus(self, other: Interval) -> Option<Interval> {
        self.corners(other, i128::checked_sub)
    }

    pub(super) fn times(self, other: Interval) -> Option<Interval> {
        self.corners(other, i128::checked_mul)
    }

    /// Quotients cut towards zero; `None` where the divisor may be 0.
    pub(super) fn over(self, other: Interval) -> Option<Interval> {
        if other.low <= 0 && other.high >= 0 {
            return None;
        }
        self.corners(other, i128::checked_div)
    }

    /// Quotients rounded half away from zero; `None` where the divisor may be 0.
    pub(super) fn over_nearest(self, other: Interval) -> Option<Interval> {
        if other.low <= 0 && other.high >= 0 {
            return None;
        }
        self.corners(other, |a, b| a.checked_div(b).map(|_| nearest_quotient(a, b)))
    }

    /// Remainders with the sign of the left side; `None` where the divisor may be 0.
    pub(super) fn modulo(self, other: Interval) -> Option<Interval> {
        if other.low <= 0 && other.high >= 0 {
            return None;
        }
        let most = other.low.abs().max(other.high.abs()) - 1;
        Some(Interval { low: self.low.min(0).max(-most), high: self.high.max(0).min(most) })
    }

    /// Of either.
    pub(super) fn or(self, other: Interval) -> Interval {
        Interval { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Bounds of 64 bits, if every value fits in them.
    pub(super) fn bounds(self) -> Option<(i64, i64)> {
        Some((i64::try_from(self.low).ok()?, i64::try_from(self.high).ok()?))
    }

    /// Is every value one of 64 bits that the type can hold?
    pub(super) fn fits(self, data_type: &DataType) -> bool {
        self.bounds().is_some() && range_of(data_type).is_some_and(|r| r.low <= self.low && self.high <= r.high)
    }
}

/// `a / b`, rounded half away from zero; `b` is not 0.
#[inline(always)]
pub(super) fn nearest_quotient(a: i128, b: i128) -> i128 {
    let rest = a.wrapping_rem(b).unsigned_abs();
    let further = i128::from(rest >= b.unsigned_abs() - rest);
    a.wrapping_div(b).wrapping_add(if (a < 0) == (b < 0) { further } else { -further })
}

/// What a type can hold, as far as 64 bits can.
pub(super) fn range_of(data_type: &DataType) -> Option<Interval> {
    match data_type {
        DataType::UInt64 => Some(Interval { low: 0, high: u64::MAX.into() }),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
            let (precision, _) = decimal(data_type)?;
            let most = 10i128.checked_pow(u32::from(precision))? - 1;
            Some(Interval { low: -most, high: most })
        }
        other => type_bounds(other).map(|(low, high)| Interval::of(low, high)),
    }
}

/// Precision and scale of a decimal whose values may travel as integers.
pub(super) fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    match *data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => Some((precision, scale)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_every_result() {
        let ranges: Vec<(i64, i64)> = (-4..=4).flat_map(|low| (low..=4).map(move |high| (low, high))).collect();
        for &(al, ah) in &ranges {
            for &(bl, bh) in &ranges {
                let (a, b) = (Interval::of(al, ah), Interval::of(bl, bh));
                for x in i128::from(al)..=ah.into() {
                    for y in i128::from(bl)..=bh.into() {
                        let holds = |interval: Option<Interval>, value: i128| {
                            let interval = interval.expect("no overflow here");
                            assert!(interval.low <= value && value <= interval.high, "{x} {y} {interval:?}");
                        };
                        holds(a.plus(b), x + y);
                        holds(a.minus(b), x - y);
                        holds(a.times(b), x * y);
                        if bl > 0 || bh < 0 {
                            holds(a.over(b), x / y);
                            holds(a.over_nearest(b), nearest_quotient(x, y));
                            assert_eq!(nearest_quotient(x, y), (x as f64 / y as f64).round() as i128, "{x} / {y}");
                            holds(a.modulo(b), x % y);
                        } else {
                            assert_eq!((a.over(b), a.modulo(b)), (None, None));
                        }
                    }
                }
            }
        }
    }
}
