//! Arithmetic of JSON's numbers, exact as PostgreSQL's `numeric`: of texts in normal form.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};

use super::{fault, number};
use crate::error::Result;
use crate::error::codes::SqlState;

/// Digits that a quotient has at least, and most behind the point.
const DIGITS_MIN: i64 = 16;
const SCALE_MAX: i64 = 1_000;

/// Digits of one place of a `numeric`, which the scale of a quotient depends on.
const PLACE_DIGITS: i64 = 4;

/// A number: `digits / 10^scale`.
#[derive(Debug, Clone)]
pub(crate) struct Exact {
    digits: BigInt,
    scale: u32,
}

impl Exact {
    /// Of a number in normal form.
    pub(crate) fn of(normal: &str) -> Exact {
        let (whole, behind) = normal.split_once('.').unwrap_or((normal, ""));
        let digits = format!("{whole}{behind}").parse().unwrap_or_default();
        Exact { digits, scale: behind.len() as u32 }
    }

    /// In normal form.
    ///
    /// # Errors
    /// More digits than a number has.
    pub(crate) fn normal(&self) -> Result<String> {
        let sign = if self.digits.sign() == Sign::Minus { "-" } else { "" };
        let digits = self.digits.magnitude().to_string();
        let scale = self.scale as usize;
        if scale == 0 {
            return number::normal(&format!("{sign}{digits}"));
        }
        let padded = format!("{}{digits}", "0".repeat((scale + 1).saturating_sub(digits.len())));
        let (whole, behind) = padded.split_at(padded.len() - scale);
        number::normal(&format!("{sign}{whole}.{behind}"))
    }

    fn scaled(&self, scale: u32) -> BigInt {
        &self.digits * BigInt::from(ten(scale - self.scale))
    }

    fn alike(&self, other: &Exact) -> (BigInt, BigInt, u32) {
        let scale = self.scale.max(other.scale);
        (self.scaled(scale), other.scaled(scale), scale)
    }

    /// The other sign.
    pub(crate) fn negated(&self) -> Exact {
        Exact { digits: -&self.digits, scale: self.scale }
    }

    /// Without its sign.
    pub(crate) fn abs(&self) -> Exact {
        Exact { digits: self.digits.magnitude().clone().into(), scale: self.scale }
    }

    /// The greatest whole number that is not greater.
    pub(crate) fn floor(&self) -> Exact {
        let one = BigInt::from(ten(self.scale));
        let whole = &self.digits / &one;
        let is_below = self.digits.sign() == Sign::Minus && &whole * &one != self.digits;
        Exact { digits: if is_below { whole - 1 } else { whole }, scale: 0 }
    }

    /// The least whole number that is not less.
    pub(crate) fn ceiling(&self) -> Exact {
        self.negated().floor().negated()
    }

    /// What stands before the point, as an integer of 32 bits.
    pub(crate) fn whole(&self) -> Option<i32> {
        i32::try_from(&self.digits / BigInt::from(ten(self.scale))).ok()
    }

    /// The sum.
    pub(crate) fn plus(&self, other: &Exact) -> Exact {
        let (left, right, scale) = self.alike(other);
        Exact { digits: left + right, scale }
    }

    /// The product.
    pub(crate) fn times(&self, other: &Exact) -> Exact {
        Exact { digits: &self.digits * &other.digits, scale: self.scale + other.scale }
    }

    /// The quotient, with as many digits as PostgreSQL gives it.
    ///
    /// # Errors
    /// Division by zero.
    pub(crate) fn over(&self, other: &Exact) -> Result<Exact> {
        other.is_divisor()?;
        let ((weight, first), (other_weight, other_first)) = (self.lead(), other.lead());
        let weight = weight - other_weight - i64::from(first <= other_first);
        let scale = DIGITS_MIN - weight * PLACE_DIGITS;
        let scale = scale.max(self.scale.into()).max(other.scale.into()).clamp(0, SCALE_MAX) as u32;
        // One digit more, which says how the last one is rounded.
        let raised = self.digits.magnitude() * ten(scale + 1 + other.scale);
        let divisor = other.digits.magnitude() * ten(self.scale);
        let digits = (raised / divisor + 5_u32) / 10_u32;
        let is_negative = (self.digits.sign() == Sign::Minus) != (other.digits.sign() == Sign::Minus);
        let digits = BigInt::from(digits);
        Ok(Exact { digits: if is_negative { -digits } else { digits }, scale })
    }

    /// What is left of a division, with the sign of what is divided.
    ///
    /// # Errors
    /// Division by zero.
    pub(crate) fn rest(&self, other: &Exact) -> Result<Exact> {
        other.is_divisor()?;
        let (left, right, scale) = self.alike(other);
        Ok(Exact { digits: left % right, scale })
    }

    fn is_divisor(&self) -> Result<()> {
        match self.digits.sign() {
            Sign::NoSign => Err(fault(SqlState::DivisionByZero, "division by zero")),
            _ => Ok(()),
        }
    }

    /// Of the first place that is not zero how many places it stands before the point, and its value.
    fn lead(&self) -> (i64, u32) {
        let behind = i64::from(self.scale);
        // Places begin at the point, so what is behind it is filled up to whole ones.
        let fill = (PLACE_DIGITS - behind.rem_euclid(PLACE_DIGITS)) % PLACE_DIGITS;
        let text = (self.digits.magnitude() * ten(fill as u32)).to_string();
        if text == "0" {
            return (0, 0);
        }
        let places = (text.len() as i64 + PLACE_DIGITS - 1) / PLACE_DIGITS;
        let length = text.len() as i64 - (places - 1) * PLACE_DIGITS;
        let first = text[..length as usize].parse().unwrap_or(0);
        (places - 1 - (behind + fill) / PLACE_DIGITS, first)
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Exact) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Exact {}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Exact) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Exact) -> Ordering {
        let (left, right, _) = self.alike(other);
        left.cmp(&right)
    }
}

fn ten(power: u32) -> BigUint {
    BigUint::from(10_u32).pow(power)
}
