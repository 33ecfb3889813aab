//! Quotients of decimals, with PostgreSQL's digits, and products of many digits.
//!
//! PostgreSQL gives a quotient of NUMERIC at least 16 significant digits, and no fewer behind the point than either
//! side has; how many that are depends on the values (`select_div_scale` of its numeric.c, which decides by groups of
//! four digits: 1.0/3 has 20 digits behind the point, 10.0/3 has 16, 1000000.0/3 has 12). A type here has one scale, so
//! every quotient is computed with PostgreSQL's digits and then held in a scale that is wide enough for all but small
//! ones: the values are PostgreSQL's, and only zeros at the end differ.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal128Type, Decimal256Type, DecimalType, Field, FieldRef, i256,
};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
};

use super::error::ArithmeticError;
use super::operand::{Operand, flagged, union_nulls};
use crate::error::types::sql_type;
use crate::functions::texts::ANY_DIGITS;

/// Digits behind the point of a quotient.
const SCALE: i32 = 16;
/// Those of a quotient that has few digits before it: what PostgreSQL gives one between 0.0001 and 1.
const SCALE_OF_SMALL: i32 = 20;
/// The most digits before the point of a quotient that has [`SCALE_OF_SMALL`].
const SMALL: i32 = 8;
/// Digits before the point that a result has at most where 38 digits do not suffice for all there could be.
const WHOLE_MAX: i32 = 22;
/// Digits before the point that a product keeps within 38 digits; with fewer it takes more digits in all.
const WHOLE_MIN: i32 = 16;
/// Digits behind the point of a product beyond which it is rounded.
const PRODUCT_SCALE_MAX: i32 = 40;
const DIGITS: i32 = 38;
const WIDE_DIGITS: i32 = 76;

/// Precision and scale.
fn form(data_type: &DataType) -> Option<(i32, i32)> {
    match *data_type {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => Some((p.into(), s.into())),
        DataType::Int8 | DataType::UInt8 => Some((3, 0)),
        DataType::Int16 | DataType::UInt16 => Some((5, 0)),
        DataType::Int32 | DataType::UInt32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::UInt64 => Some((20, 0)),
        _ => None,
    }
}

fn decimal(wide: bool, precision: i32, scale: i32) -> DataType {
    match wide {
        true => DataType::Decimal256(precision.clamp(1, WIDE_DIGITS) as u8, scale as i8),
        false => DataType::Decimal128(precision.clamp(1, DIGITS) as u8, scale as i8),
    }
}

/// The type of `left / right`, both decimals.
fn quotient_type(left: &DataType, right: &DataType) -> Result<DataType> {
    let (Some((p1, s1)), Some((_, s2))) = (form(left), form(right)) else {
        return internal_err!("decimals were expected, found {left} and {right}");
    };
    let whole = (p1 - s1 + s2).max(1);
    let least = s1.max(s2);
    let wide = is_wide([left, right]);
    let scale = least.max(if whole <= SMALL && !wide { SCALE_OF_SMALL } else { SCALE });
    Ok(match whole + scale > DIGITS {
        _ if wide => decimal(true, whole + scale, scale),
        false => decimal(false, whole + scale, scale),
        true if DIGITS - scale >= WHOLE_MIN => decimal(false, DIGITS, scale),
        true => decimal(true, scale + whole.min(WHOLE_MAX), scale),
    })
}

/// `left / right` as SQL has it, where the two are decimals, or one of them and the other an integer; `None` for
/// other types.
pub(crate) fn quotient(left: &Expr, right: &Expr, types: [&DataType; 2]) -> Option<Expr> {
    let [left, right] = as_decimals([left, right], types)?;
    Some(over(left, right))
}

fn over(left: Expr, right: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&QUOTIENT), args: vec![left, right] })
}

/// `left * right` of two decimals with so many digits behind the point that 38 digits would leave few before it, or 76
/// would not hold them; `None` where there is room, and for other types.
pub(crate) fn product(left: &Expr, right: &Expr, types: [&DataType; 2]) -> Option<Expr> {
    if !types.into_iter().any(DataType::is_decimal) || has_room(form(types[0])?, form(types[1])?, types) {
        return None;
    }
    let [left, right] = as_decimals([left, right], types)?;
    Some(multiplied(left, right))
}

/// A product in which NUMERIC without digits meets a decimal; `None` for other types. Its type is one that is written
/// without zeros at the end.
pub(crate) fn product_of_any_digits(left: &Expr, right: &Expr, types: [&DataType; 2]) -> Option<Expr> {
    let is_other = |of: &DataType| of.is_decimal() && matches!(form(of), Some((_, 1..=10)));
    if !types.contains(&&ANY_DIGITS) || !types.into_iter().all(is_other) {
        return None;
    }
    let same =
        |side: &Expr, of: &DataType| if *of == ANY_DIGITS { side.clone() } else { cast(side.clone(), ANY_DIGITS) };
    Some(multiplied(same(left, types[0]), same(right, types[1])))
}

fn multiplied(left: Expr, right: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&PRODUCT), args: vec![left, right] })
}

/// Whether the planner's own product of decimals has digits enough.
fn has_room((p1, s1): (i32, i32), (p2, s2): (i32, i32), types: [&DataType; 2]) -> bool {
    let scale = s1 + s2;
    match is_wide(types) {
        true => scale <= PRODUCT_SCALE_MAX,
        false => DIGITS - scale >= (p1 - s1 + p2 - s2).min(WHOLE_MIN),
    }
}

fn is_wide(types: [&DataType; 2]) -> bool {
    types.into_iter().any(|of| matches!(of, DataType::Decimal256(..)))
}

/// The type of a product that [`product`] makes.
fn product_type(left: &DataType, right: &DataType) -> Result<DataType> {
    let (Some((p1, s1)), Some((p2, s2))) = (form(left), form(right)) else {
        return internal_err!("decimals were expected, found {left} and {right}");
    };
    let scale = (s1 + s2).min(PRODUCT_SCALE_MAX);
    let whole = match is_wide([left, right]) {
        true => WIDE_DIGITS - scale,
        false => (p1 - s1 + p2 - s2).clamp(1, WHOLE_MAX),
    };
    Ok(decimal(true, scale + whole, scale))
}

/// Both as decimals of one width; `None` unless one of them is a decimal and the other a decimal or an integer.
fn as_decimals(operands: [&Expr; 2], types: [&DataType; 2]) -> Option<[Expr; 2]> {
    if !types.iter().any(|of| of.is_decimal()) {
        return None;
    }
    let wide = is_wide(types);
    let mut made = Vec::with_capacity(2);
    for (expr, of) in operands.into_iter().zip(types) {
        let (precision, scale) = match expr {
            // What is written has no more digits than it shows.
            Expr::Literal(value, _) if of.is_integer() => (digits_of(value)?, 0),
            _ => form(of)?,
        };
        // A scale below zero is brought to zero, so that quotients have digits behind the point.
        let to = decimal(wide, precision - scale.min(0), scale.max(0));
        made.push(if *of == to { expr.clone() } else { cast(expr.clone(), to) });
    }
    made.try_into().ok()
}

/// Digits of an integer that is written.
fn digits_of(value: &ScalarValue) -> Option<i32> {
    let number = match *value {
        ScalarValue::Int8(value) => value?.into(),
        ScalarValue::Int16(value) => value?.into(),
        ScalarValue::Int32(value) => value?.into(),
        ScalarValue::Int64(value) => i128::from(value?),
        ScalarValue::UInt8(value) => value?.into(),
        ScalarValue::UInt16(value) => value?.into(),
        ScalarValue::UInt32(value) => value?.into(),
        ScalarValue::UInt64(value) => value?.into(),
        _ => return None,
    };
    Some(digits(number.unsigned_abs()).max(1))
}

/// `left / right` or `left * right` of decimals. It is in no registry: SQL has it by the operator alone.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfDecimals {
    op: Operator,
    signature: Signature,
}

impl OfDecimals {
    fn function(op: Operator) -> Arc<ScalarUDF> {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(OfDecimals { op, signature }))
    }

    fn result_type(&self, left: &DataType, right: &DataType) -> Result<DataType> {
        match self.op {
            Operator::Multiply => product_type(left, right),
            _ => quotient_type(left, right),
        }
    }
}

static QUOTIENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OfDecimals::function(Operator::Divide));
static PRODUCT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OfDecimals::function(Operator::Multiply));

/// The operator and the operands of a quotient or product of decimals.
pub(super) fn operands(expr: &Expr) -> Option<(Operator, &[Expr])> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let function = call.func.inner().downcast_ref::<OfDecimals>()?;
    Some((function.op, &call.args))
}

/// `left / right` of the types that the operator of the planner's own has where nobody knew their types when the SQL
/// was planned: with the digits of that operator's type.
pub(super) fn quotient_as(left: Expr, right: Expr, types: [&DataType; 2], result: DataType) -> Option<Expr> {
    Some(cast(quotient(&left, &right, types)?, result))
}

impl ScalarUDFImpl for OfDecimals {
    fn name(&self) -> &str {
        if self.op == Operator::Multiply { "*" } else { "/" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return internal_err!("{} takes two arguments", self.op);
        };
        Ok(format!("{} {} {}", left.schema_name(), self.op, right.schema_name()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] => self.result_type(left, right),
            _ => internal_err!("{} takes two arguments", self.op),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [left, right] = args.arg_fields else {
            return internal_err!("{} takes two arguments", self.op);
        };
        let data_type = self.result_type(left.data_type(), right.data_type())?;
        Ok(Arc::new(Field::new(self.name(), data_type, left.is_nullable() || right.is_nullable())))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let is_null = |e: &Expr| matches!(e, Expr::Literal(value, _) if value.is_null());
        if let [left, right] = args.as_slice()
            && (is_null(left) || is_null(right))
        {
            let data_type = self.result_type(&info.get_data_type(left)?, &info.get_data_type(right)?)?;
            return Ok(ExprSimplifyResult::Simplified(Expr::Literal(ScalarValue::try_from(&data_type)?, None)));
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} takes two arguments", self.op);
        };
        let both_scalar = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if both_scalar { 1 } else { args.number_rows };
        let values = computed(self.op, &Operand::new(left)?, &Operand::new(right)?, rows, args.return_type())?;
        match both_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

/// `left op right` row by row, as `result`.
fn computed(op: Operator, left: &Operand, right: &Operand, rows: usize, result: &DataType) -> Result<ArrayRef> {
    let types = [left.array.data_type(), right.array.data_type()];
    let (Some((_, s1)), Some((_, s2)), Some((precision, scale))) = (form(types[0]), form(types[1]), form(result))
    else {
        return internal_err!("decimals were expected, found {} and {}", types[0], types[1]);
    };
    let scales = Scales { left: s1, right: s2, result: scale };
    match (types, result) {
        ([DataType::Decimal128(..), DataType::Decimal128(..)], DataType::Decimal128(p, s)) => {
            let Some(nulls) = union_nulls(left, right) else {
                return Ok(Arc::new(
                    PrimitiveArray::<Decimal128Type>::new_null(rows).with_precision_and_scale(*p, *s)?,
                ));
            };
            let end = 10u128.pow(precision as u32);
            let values = flagged::<Decimal128Type, Decimal128Type>(left, right, rows, nulls.as_ref(), |a, b| {
                let found = scales.divide(a, b).filter(|value| value.unsigned_abs() < end);
                found.map_or((0, true), |value| (value, false))
            });
            match values {
                Ok(values) => {
                    let array = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), nulls);
                    Ok(Arc::new(array.with_precision_and_scale(*p, *s)?))
                }
                Err(row) => Err(fault::<Decimal128Type>(op, left, right, row, result).into()),
            }
        }
        (_, DataType::Decimal256(p, s)) => {
            let widened = |operand: &Operand, scale: i32| -> Result<Operand> {
                let array = arrow::compute::cast(&operand.array, &decimal(true, WIDE_DIGITS, scale))?;
                Ok(Operand { array, scalar: operand.scalar })
            };
            let (left, right) = (widened(left, s1)?, widened(right, s2)?);
            let Some(nulls) = union_nulls(&left, &right) else {
                return Ok(Arc::new(
                    PrimitiveArray::<Decimal256Type>::new_null(rows).with_precision_and_scale(*p, *s)?,
                ));
            };
            let end = ten_to(precision);
            let values = flagged::<Decimal256Type, Decimal256Type>(&left, &right, rows, nulls.as_ref(), |a, b| {
                let found = if op == Operator::Multiply { scales.multiply(a, b) } else { scales.divide_wide(a, b) };
                let found = found.filter(|value| value.wrapping_abs() < end);
                found.map_or((i256::ZERO, true), |value| (value, false))
            });
            match values {
                Ok(values) => {
                    let array = PrimitiveArray::<Decimal256Type>::new(ScalarBuffer::from(values), nulls);
                    Ok(Arc::new(array.with_precision_and_scale(*p, *s)?))
                }
                Err(row) => Err(fault::<Decimal256Type>(op, &left, &right, row, result).into()),
            }
        }
        _ => internal_err!("no quotient of {} and {} as {result}", types[0], types[1]),
    }
}

/// What is wrong in `row`.
fn fault<T: DecimalType>(
    op: Operator,
    left: &Operand,
    right: &Operand,
    row: usize,
    result: &DataType,
) -> ArithmeticError {
    let text = |operand: &Operand, row| operand.array.as_primitive::<T>().value_as_string(row);
    let divisor = right.row(row);
    if op == Operator::Divide && right.array.as_primitive::<T>().value(divisor).is_zero() {
        return ArithmeticError::DivisionByZero;
    }
    ArithmeticError::Overflow {
        kind: "decimal",
        operation: format!("{} {op} {}", text(left, left.row(row)), text(right, divisor)),
        target: sql_type(result),
    }
}

/// Digits behind the point of the two sides and of the result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scales {
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) result: i32,
}

impl Scales {
    /// Digits behind the point that PostgreSQL gives the quotient, from what [`leading`] says of the two sides.
    fn postgres(self, (left, left_group): (i32, u32), (right, right_group): (i32, u32)) -> i32 {
        let groups = left - right - i32::from(left_group <= right_group);
        (16 - 4 * groups).max(self.left).max(self.right).max(0)
    }

    /// `a / b` of unscaled values; `None` for zero as `b`, and beyond 128 bits.
    pub(super) fn divide(self, a: i128, b: i128) -> Option<i128> {
        if b == 0 {
            return None;
        }
        let scale = self.postgres(leading(a.unsigned_abs(), self.left), leading(b.unsigned_abs(), self.right));
        let scale = scale.min(self.result);
        let fill = (self.result - scale) as u32;
        let shift = (scale - self.left + self.right) as u32;
        match 10i128.checked_pow(shift).and_then(|factor| a.checked_mul(factor)) {
            Some(dividend) => {
                let cut = dividend.checked_div(b)?;
                let rest = dividend.checked_rem(b)?.unsigned_abs();
                let further = i128::from(rest >= b.unsigned_abs() - rest);
                let rounded = cut.checked_add(if (a < 0) == (b < 0) { further } else { -further })?;
                rounded.checked_mul(10i128.checked_pow(fill)?)
            }
            None => divided(i256::from_i128(a), i256::from_i128(b), shift, fill)?.to_i128(),
        }
    }

    /// `a * b`, rounded to the result's digits; `None` beyond 256 bits. Operands whose product has no room there are
    /// rounded before.
    pub(super) fn multiply(self, a: i256, b: i256) -> Option<i256> {
        if let Some(product) = a.checked_mul(b) {
            return without(product, self.left + self.right - self.result);
        }
        let room = WIDE_DIGITS - WHOLE_MAX;
        let right = self.right.min((room / 2).max(room - self.left));
        let left = self.left.min(room - right);
        let product = without(a, self.left - left)?.checked_mul(without(b, self.right - right)?)?;
        without(product, left + right - self.result)
    }

    /// As [`divide`](Self::divide), of 256 bits.
    pub(super) fn divide_wide(self, a: i256, b: i256) -> Option<i256> {
        if b == i256::ZERO {
            return None;
        }
        let scale = self.postgres(leading_wide(a, self.left), leading_wide(b, self.right)).min(self.result);
        divided(a, b, (scale - self.left + self.right) as u32, (self.result - scale) as u32)
    }
}

/// `a` with `digits` fewer, rounded half away from zero.
fn without(a: i256, digits: i32) -> Option<i256> {
    if digits <= 0 { Some(a) } else { divided(a, ten_to(digits), 0, 0) }
}

/// `a * 10^shift / b`, rounded half away from zero, with `fill` zeros more; `None` beyond 256 bits.
fn divided(a: i256, b: i256, shift: u32, fill: u32) -> Option<i256> {
    let ten = i256::from_i128(10);
    let is_negative = a.is_negative() != b.is_negative();
    let divisor = b.checked_abs()?;
    // Digit by digit where the dividend would be too long: only the quotient has to fit.
    let mut quotient = a.checked_abs()?.checked_div(divisor)?;
    let mut rest = a.checked_abs()?.checked_rem(divisor)?;
    let mut left = shift;
    while left > 0 {
        let (step, factor) = match rest.checked_mul(ten_to(left.min(19) as i32)) {
            Some(_) => (left.min(19), ten_to(left.min(19) as i32)),
            None => (1, ten),
        };
        let dividend = rest.checked_mul(factor)?;
        quotient = quotient.checked_mul(factor)?.checked_add(dividend.checked_div(divisor)?)?;
        rest = dividend.checked_rem(divisor)?;
        left -= step;
    }
    if rest >= divisor.checked_sub(rest)? {
        quotient = quotient.checked_add(i256::ONE)?;
    }
    let filled = quotient.checked_mul(ten.checked_pow(fill)?)?;
    Some(if is_negative { filled.wrapping_neg() } else { filled })
}

/// 10^`n` for `n` from 0 to 76.
fn ten_to(n: i32) -> i256 {
    i256::from_i128(10).wrapping_pow(n as u32)
}

fn digits(value: u128) -> i32 {
    value.checked_ilog10().map_or(0, |log| log as i32 + 1)
}

/// Of a value of `scale` digits behind its point, in groups of four digits as PostgreSQL holds it: the place of its
/// first group, counted from the point, and that group.
fn leading(value: u128, scale: i32) -> (i32, u32) {
    if value == 0 {
        return (0, 0);
    }
    let digits = digits(value);
    let exponent = digits - scale - 1;
    let group = exponent.div_euclid(4);
    let have = exponent - 4 * group + 1;
    let first = match digits >= have {
        true => value / 10u128.pow((digits - have) as u32),
        false => value * 10u128.pow((have - digits) as u32),
    };
    (group, first as u32)
}

/// As [`leading`], of 256 bits.
fn leading_wide(value: i256, scale: i32) -> (i32, u32) {
    let mut value = value.wrapping_abs();
    let mut scale = scale;
    // Digits at the end do not change what is in front, as long as 38 are left.
    while value.to_i128().is_none() {
        value = value.wrapping_div(ten_to(19));
        scale -= 19;
    }
    leading(value.to_i128().map_or(0, i128::unsigned_abs), scale)
}
