//! Checked arithmetic on decimals of 128 bits: `DECIMAL(1..38, s)`, what SQL text and files make.
//!
//! Scales and results are arrow's (the Hive rules), but results are checked against their declared precision, which
//! arrow does not do: it raises only when the 128 bits are exceeded, and 10^38 is smaller than 2^127. Where only an
//! intermediate value needs more than 128 bits, 256 carry it. Quotients are in the module `quotient`.
//!
//! Operands are taken to lie within their own declared precision, as everything that Nearside loads or computes does;
//! where the result's precision then cannot be exceeded, it is not checked.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, i256};
use datafusion_common::{Result, internal_err};
use datafusion_expr::Operator;

use super::error::ArithmeticError;
use super::operand::{Operand, flagged, union_nulls};
use crate::error::types::sql_type;

/// Digits that 128 bits hold, and the first value that has more, as an unscaled magnitude.
const DIGITS: i32 = 38;
const END: u128 = 10u128.pow(DIGITS as u32);

type D = Decimal128Type;

/// Precision and scale.
#[derive(Debug, Clone, Copy)]
struct Form {
    precision: u8,
    scale: i8,
}

impl Form {
    fn of(t: &DataType) -> Result<Form> {
        match *t {
            DataType::Decimal128(precision, scale) => Ok(Form { precision, scale }),
            ref other => internal_err!("a decimal was expected, found {other}"),
        }
    }

    /// Digits before the point.
    fn whole(self) -> i32 {
        i32::from(self.precision) - i32::from(self.scale)
    }
}

/// `left op right` over `rows` rows, as `result`.
pub(super) fn decimal128(
    op: Operator,
    left: &Operand,
    right: &Operand,
    rows: usize,
    result: &DataType,
) -> Result<ArrayRef> {
    let l = Form::of(left.array.data_type())?;
    let r = Form::of(right.array.data_type())?;
    let form = Form::of(result)?;
    let finish = |array: PrimitiveArray<D>| -> Result<ArrayRef> {
        Ok(Arc::new(array.with_precision_and_scale(form.precision, form.scale)?))
    };
    let Some(nulls) = union_nulls(left, right) else {
        return finish(PrimitiveArray::<D>::new_null(rows));
    };
    let n = nulls.as_ref();
    let values = match op {
        Operator::Plus => sums(left, right, rows, n, [l, r, form], i128::overflowing_add),
        Operator::Minus => sums(left, right, rows, n, [l, r, form], i128::overflowing_sub),
        Operator::Multiply => products(left, right, rows, n, [l, r]),
        Operator::Modulo => {
            let common = i32::from(l.scale.max(r.scale));
            let factor = |f: Form| ten_to(common - i32::from(f.scale));
            let lm = factor(l);
            let rm = factor(r);
            flagged::<D, D>(left, right, rows, n, |a, b| {
                remainder(a, b, lm, rm).map_or((0, true), |v| (v, too_long(v)))
            })
        }
        other => return internal_err!("checked arithmetic does not cover {other}"),
    };
    match values {
        Ok(values) => finish(PrimitiveArray::<D>::new(ScalarBuffer::from(values), nulls)),
        Err(row) => Err(fault(op, left, right, row, result)?.into()),
    }
}

/// What is wrong in `row`.
fn fault(op: Operator, left: &Operand, right: &Operand, row: usize, result: &DataType) -> Result<ArithmeticError> {
    let l = Form::of(left.array.data_type())?;
    let r = Form::of(right.array.data_type())?;
    let a = left.array.as_primitive::<D>().value(left.row(row));
    let b = right.array.as_primitive::<D>().value(right.row(row));
    if op == Operator::Modulo && b == 0 {
        return Ok(ArithmeticError::DivisionByZero);
    }
    let text = |value, form: Form| D::format_decimal(value, form.precision, form.scale);
    Ok(ArithmeticError::Overflow {
        kind: "decimal",
        operation: format!("{} {op} {}", text(a, l), text(b, r)),
        target: sql_type(result),
    })
}

/// Sums or differences: `step` after both sides were brought to the result's scale.
fn sums(
    left: &Operand,
    right: &Operand,
    rows: usize,
    nulls: Option<&NullBuffer>,
    [l, r, form]: [Form; 3],
    step: impl Fn(i128, i128) -> (i128, bool),
) -> Result<Vec<i128>, usize> {
    // Only where a sum may need more digits than its type can have can it be too long.
    let check = l.whole().max(r.whole()) >= DIGITS - i32::from(form.scale);
    let finish = move |(value, overflow): (i128, bool)| (value, overflow | (check && too_long(value)));
    if l.scale == r.scale {
        return flagged::<D, D>(left, right, rows, nulls, |a, b| finish(step(a, b)));
    }
    let factor = |f: Form| ten_to(i32::from(form.scale) - i32::from(f.scale));
    let lm = factor(l);
    let rm = factor(r);
    flagged::<D, D>(left, right, rows, nulls, |a, b| {
        let (a, o1) = scaled(a, lm);
        let (b, o2) = scaled(b, rm);
        let (value, o3) = finish(step(a, b));
        (value, o1 | o2 | o3)
    })
}

fn products(
    left: &Operand,
    right: &Operand,
    rows: usize,
    nulls: Option<&NullBuffer>,
    [l, r]: [Form; 2],
) -> Result<Vec<i128>, usize> {
    let check = i32::from(l.precision) + i32::from(r.precision) > DIGITS;
    flagged::<D, D>(left, right, rows, nulls, |a, b| {
        let (value, overflow) = multiply(a, b);
        (value, overflow | (check && too_long(value)))
    })
}

#[inline(always)]
fn too_long(value: i128) -> bool {
    value.unsigned_abs() >= END
}

/// 10^`n` where it fits in 128 bits.
fn ten_to(n: i32) -> Option<i128> {
    u32::try_from(n).ok().and_then(|n| 10i128.checked_pow(n))
}

/// `a * b`; one hardware multiplication when both fit 64 bits, as prices and quantities do.
#[inline(always)]
fn multiply(a: i128, b: i128) -> (i128, bool) {
    let low_a = a as i64;
    let low_b = b as i64;
    if i128::from(low_a) == a && i128::from(low_b) == b {
        (i128::from(low_a) * i128::from(low_b), false)
    } else {
        a.overflowing_mul(b)
    }
}

/// `value * factor`, where no factor stands for one beyond 128 bits, which only zero survives.
#[inline(always)]
fn scaled(value: i128, factor: Option<i128>) -> (i128, bool) {
    match factor {
        Some(factor) => multiply(value, factor),
        None => (0, value != 0),
    }
}

/// `a % b` after both are brought to one scale; `None` when `b` is zero or the remainder does not fit 128 bits.
#[inline]
fn remainder(a: i128, b: i128, lm: Option<i128>, rm: Option<i128>) -> Option<i128> {
    if b == 0 {
        return None;
    }
    let lm = lm?;
    let rm = rm?;
    if let (Some(a), Some(b)) = (a.checked_mul(lm), b.checked_mul(rm)) {
        return Some(a.wrapping_rem(b));
    }
    let a = i256::from_i128(a).checked_mul(i256::from_i128(lm))?;
    let b = i256::from_i128(b).checked_mul(i256::from_i128(rm))?;
    a.checked_rem(b)?.to_i128()
}
