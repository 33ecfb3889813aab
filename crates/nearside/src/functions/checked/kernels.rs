//! Checked `+ - * / %` over arrow arrays of integers, decimals and floats, and unary minus of integers.
//!
//! Arrow's own checked kernels return at the first bad row, which keeps the compiler from vectorising the loop. Here
//! a loop computes every wrapped result and folds "something overflowed" into one flag; only when the flag is up is
//! the batch walked again for the first bad row that is not NULL (values under a NULL are arbitrary and may
//! overflow freely). Decimals of 128 bits have a file of their own, [`super::decimal`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::ScalarBuffer;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DataType, Date64Type, Decimal32Type, Decimal64Type, Decimal256Type, DecimalType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr_common::datum::apply;

use super::decimal::decimal128;
use super::error::ArithmeticError;
use super::operand::{Operand, flagged, union_nulls};
use crate::error::types::sql_type;

/// Milliseconds in a day: what `Date64 - Date64` divides by.
const DAY_MS: i64 = 86_400_000;

/// `lhs op rhs` for two operands of one family (integers or floats of one type, decimals of one width, dates in ms),
/// giving
/// `result`. Fails on overflow and on division by zero; a NULL on either side gives NULL.
pub(super) fn binary(
    op: Operator,
    lhs: &ColumnarValue,
    rhs: &ColumnarValue,
    rows: usize,
    result: &DataType,
) -> Result<ColumnarValue> {
    let lt = lhs.data_type();
    let rt = rhs.data_type();
    if lt.is_null() || rt.is_null() {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from(result)?));
    }
    let both_scalar = matches!((lhs, rhs), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if both_scalar { 1 } else { rows };
    let left = Operand::new(lhs)?;
    let right = Operand::new(rhs)?;

    macro_rules! integers {
        ($t:ty) => {
            integer::<$t>(op, &left, &right, rows)
        };
    }
    let array = match (&lt, &rt) {
        (DataType::Int8, DataType::Int8) => integers!(Int8Type),
        (DataType::Int16, DataType::Int16) => integers!(Int16Type),
        (DataType::Int32, DataType::Int32) => integers!(Int32Type),
        (DataType::Int64, DataType::Int64) => integers!(Int64Type),
        (DataType::UInt8, DataType::UInt8) => integers!(UInt8Type),
        (DataType::UInt16, DataType::UInt16) => integers!(UInt16Type),
        (DataType::UInt32, DataType::UInt32) => integers!(UInt32Type),
        (DataType::UInt64, DataType::UInt64) => integers!(UInt64Type),
        (DataType::Float32, DataType::Float32) => float::<Float32Type>(op, &left, &right, rows),
        (DataType::Float64, DataType::Float64) => float::<Float64Type>(op, &left, &right, rows),
        (DataType::Decimal128(..), DataType::Decimal128(..)) => decimal128(op, &left, &right, rows, result),
        (DataType::Decimal32(..), DataType::Decimal32(..)) => {
            return arrow_decimal::<Decimal32Type>(op, lhs, rhs);
        }
        (DataType::Decimal64(..), DataType::Decimal64(..)) => {
            return arrow_decimal::<Decimal64Type>(op, lhs, rhs);
        }
        (DataType::Decimal256(..), DataType::Decimal256(..)) => {
            return arrow_decimal::<Decimal256Type>(op, lhs, rhs);
        }
        (DataType::Date64, DataType::Date64) if op == Operator::Minus => days_between(&left, &right, rows),
        _ => return internal_err!("checked arithmetic does not cover {lt} {op} {rt}"),
    }?;
    if both_scalar {
        ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
    } else {
        Ok(ColumnarValue::Array(array))
    }
}

/// `-arg` for a signed integer; fails on the one value whose negative does not exist.
pub(super) fn negate(arg: &ColumnarValue, rows: usize) -> Result<ColumnarValue> {
    let zero = match arg.data_type() {
        DataType::Int8 => ScalarValue::Int8(Some(0)),
        DataType::Int16 => ScalarValue::Int16(Some(0)),
        DataType::Int32 => ScalarValue::Int32(Some(0)),
        DataType::Int64 => ScalarValue::Int64(Some(0)),
        DataType::Null => return Ok(arg.clone()),
        other => return internal_err!("checked negation does not cover {other}"),
    };
    let t = zero.data_type();
    binary(Operator::Minus, &ColumnarValue::Scalar(zero), arg, rows, &t).map_err(|error| {
        match ArithmeticError::of(&error) {
            Some(ArithmeticError::Overflow { kind, operation, target }) => ArithmeticError::Overflow {
                kind,
                operation: match operation.strip_prefix("0 - ") {
                    Some(value) => format!("-({value})"),
                    None => operation.clone(),
                },
                target: target.clone(),
            }
            .into(),
            _ => error,
        }
    })
}

/// The fixed-width integers, with the flag of each operation written so that the compiler can vectorise it.
trait Integer: Copy + PartialEq + std::fmt::Display {
    fn add(self, other: Self) -> (Self, bool);
    fn sub(self, other: Self) -> (Self, bool);
    fn mul(self, other: Self) -> (Self, bool);
    /// `true` for a zero divisor and for `MIN / -1`.
    fn div(self, other: Self) -> (Self, bool);
    /// `true` for a zero divisor; `MIN % -1` is 0.
    fn rem(self, other: Self) -> (Self, bool);
    fn is_zero(self) -> bool;
}

macro_rules! impl_integer {
    ($t:ty, $wide:ty, $add:expr, $sub:expr) => {
        impl Integer for $t {
            #[inline(always)]
            fn add(self, other: Self) -> (Self, bool) {
                let sum = self.wrapping_add(other);
                let overflow: fn($t, $t, $t) -> bool = $add;
                (sum, overflow(self, other, sum))
            }
            #[inline(always)]
            fn sub(self, other: Self) -> (Self, bool) {
                let difference = self.wrapping_sub(other);
                let overflow: fn($t, $t, $t) -> bool = $sub;
                (difference, overflow(self, other, difference))
            }
            #[inline(always)]
            fn mul(self, other: Self) -> (Self, bool) {
                let product = (self as $wide) * (other as $wide);
                (product as $t, product as $t as $wide != product)
            }
            #[inline(always)]
            fn div(self, other: Self) -> (Self, bool) {
                match self.checked_div(other) {
                    Some(quotient) => (quotient, false),
                    None => (0, true),
                }
            }
            #[inline(always)]
            fn rem(self, other: Self) -> (Self, bool) {
                if other == 0 { (0, true) } else { (self.wrapping_rem(other), false) }
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0
            }
        }
    };
}

macro_rules! impl_signed {
    ($t:ty, $wide:ty) => {
        // The sign of the sum differs from that of both operands; of the difference: the operands' signs differ and
        // the difference has not the sign of the first.
        impl_integer!($t, $wide, |a, b, s| ((a ^ s) & (b ^ s)) < 0, |a, b, d| ((a ^ b) & (a ^ d)) < 0);
    };
}

macro_rules! impl_unsigned {
    ($t:ty, $wide:ty) => {
        impl_integer!($t, $wide, |a, _, s| s < a, |a, b, _| a < b);
    };
}

impl_signed!(i8, i32);
impl_signed!(i16, i32);
impl_signed!(i32, i64);
impl_signed!(i64, i128);
impl_unsigned!(u8, u32);
impl_unsigned!(u16, u32);
impl_unsigned!(u32, u64);
impl_unsigned!(u64, u128);

fn integer<T: ArrowPrimitiveType>(op: Operator, left: &Operand, right: &Operand, rows: usize) -> Result<ArrayRef>
where
    T::Native: Integer,
{
    let Some(nulls) = union_nulls(left, right) else {
        return Ok(Arc::new(PrimitiveArray::<T>::new_null(rows)));
    };
    let n = nulls.as_ref();
    let values = match op {
        Operator::Plus => flagged::<T, T>(left, right, rows, n, Integer::add),
        Operator::Minus => flagged::<T, T>(left, right, rows, n, Integer::sub),
        Operator::Multiply => flagged::<T, T>(left, right, rows, n, Integer::mul),
        Operator::Divide => flagged::<T, T>(left, right, rows, n, Integer::div),
        Operator::Modulo => flagged::<T, T>(left, right, rows, n, Integer::rem),
        other => return internal_err!("checked arithmetic does not cover {other}"),
    };
    match values {
        Ok(values) => Ok(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))),
        Err(row) => {
            let a = left.array.as_primitive::<T>().value(left.row(row));
            let b = right.array.as_primitive::<T>().value(right.row(row));
            if matches!(op, Operator::Divide | Operator::Modulo) && b.is_zero() {
                return Err(ArithmeticError::DivisionByZero.into());
            }
            Err(ArithmeticError::Overflow {
                kind: "integer",
                operation: format!("{a} {op} {b}"),
                target: sql_type(&T::DATA_TYPE),
            }
            .into())
        }
    }
}

/// Floats, with what PostgreSQL calls out of range: an infinity of finite numbers, a zero that is none, a divisor zero.
trait Float: Copy + std::fmt::LowerExp {
    fn add(self, other: Self) -> (Self, bool);
    fn sub(self, other: Self) -> (Self, bool);
    fn mul(self, other: Self) -> (Self, bool);
    fn div(self, other: Self) -> (Self, bool);
    fn rem(self, other: Self) -> (Self, bool);
    fn is_zero(self) -> bool;
    fn is_infinite(self) -> bool;
}

macro_rules! impl_float {
    ($t:ty) => {
        impl Float for $t {
            #[inline(always)]
            fn add(self, other: Self) -> (Self, bool) {
                let sum = self + other;
                (sum, sum.is_infinite() & self.is_finite() & other.is_finite())
            }
            #[inline(always)]
            fn sub(self, other: Self) -> (Self, bool) {
                let difference = self - other;
                (difference, difference.is_infinite() & self.is_finite() & other.is_finite())
            }
            #[inline(always)]
            fn mul(self, other: Self) -> (Self, bool) {
                let product = self * other;
                let over = product.is_infinite() & self.is_finite() & other.is_finite();
                (product, over | ((product == 0.0) & (self != 0.0) & (other != 0.0)))
            }
            #[inline(always)]
            fn div(self, other: Self) -> (Self, bool) {
                let quotient = self / other;
                let over = quotient.is_infinite() & self.is_finite();
                let under = (quotient == 0.0) & (self != 0.0) & other.is_finite();
                (quotient, over | under | ((other == 0.0) & !self.is_nan()))
            }
            #[inline(always)]
            fn rem(self, other: Self) -> (Self, bool) {
                (self % other, (other == 0.0) & !self.is_nan())
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0.0
            }
            #[inline(always)]
            fn is_infinite(self) -> bool {
                <$t>::is_infinite(self)
            }
        }
    };
}

impl_float!(f32);
impl_float!(f64);

/// What two floats give, and whether that is out of range.
type RangedOperator<F> = fn(F, F) -> (F, bool);

fn float<T: ArrowPrimitiveType>(op: Operator, left: &Operand, right: &Operand, rows: usize) -> Result<ArrayRef>
where
    T::Native: Float,
{
    let Some(nulls) = union_nulls(left, right) else {
        return Ok(Arc::new(PrimitiveArray::<T>::new_null(rows)));
    };
    let compute: RangedOperator<T::Native> = match op {
        Operator::Plus => Float::add,
        Operator::Minus => Float::sub,
        Operator::Multiply => Float::mul,
        Operator::Divide => Float::div,
        Operator::Modulo => Float::rem,
        other => return internal_err!("checked arithmetic does not cover {other}"),
    };
    let n = nulls.as_ref();
    let values = match op {
        Operator::Plus => flagged::<T, T>(left, right, rows, n, Float::add),
        Operator::Minus => flagged::<T, T>(left, right, rows, n, Float::sub),
        Operator::Multiply => flagged::<T, T>(left, right, rows, n, Float::mul),
        Operator::Divide => flagged::<T, T>(left, right, rows, n, Float::div),
        _ => flagged::<T, T>(left, right, rows, n, Float::rem),
    };
    match values {
        Ok(values) => Ok(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))),
        Err(row) => {
            let a = left.array.as_primitive::<T>().value(left.row(row));
            let b = right.array.as_primitive::<T>().value(right.row(row));
            if matches!(op, Operator::Divide | Operator::Modulo) && b.is_zero() {
                return Err(ArithmeticError::DivisionByZero.into());
            }
            let over = compute(a, b).0.is_infinite();
            let operation = format!("{a:e} {op} {b:e}");
            let target = sql_type(&T::DATA_TYPE);
            Err(match over {
                true => ArithmeticError::Overflow { kind: "float", operation, target },
                false => ArithmeticError::Underflow { operation, target },
            }
            .into())
        }
    }
}

/// Whole days between two dates in milliseconds, as `Date64 - Date64` gives them; the difference may not fit.
fn days_between(left: &Operand, right: &Operand, rows: usize) -> Result<ArrayRef> {
    let Some(nulls) = union_nulls(left, right) else {
        return Ok(Arc::new(PrimitiveArray::<Int64Type>::new_null(rows)));
    };
    let values = flagged::<Date64Type, Int64Type>(left, right, rows, nulls.as_ref(), |a, b| {
        let (ms, overflow) = Integer::sub(a, b);
        (ms / DAY_MS, overflow)
    });
    match values {
        Ok(values) => Ok(Arc::new(PrimitiveArray::<Int64Type>::new(ScalarBuffer::from(values), nulls))),
        Err(row) => Err(ArithmeticError::Overflow {
            kind: "date",
            operation: format!(
                "{} ms - {} ms",
                left.array.as_primitive::<Date64Type>().value(left.row(row)),
                right.array.as_primitive::<Date64Type>().value(right.row(row))
            ),
            target: sql_type(&DataType::Int64),
        }
        .into()),
    }
}

/// The widths that SQL text seldom makes: arrow's kernels, which check the width, then the precision.
fn arrow_decimal<T: DecimalType>(op: Operator, lhs: &ColumnarValue, rhs: &ColumnarValue) -> Result<ColumnarValue> {
    let kernel = match op {
        Operator::Plus => numeric::add,
        Operator::Minus => numeric::sub,
        Operator::Multiply => numeric::mul,
        Operator::Modulo => numeric::rem,
        other => return internal_err!("checked arithmetic does not cover {other}"),
    };
    let value = apply(lhs, rhs, kernel)?;
    let check = |array: &dyn Array| -> Result<(), ArrowError> {
        let decimals = array.as_primitive::<T>();
        decimals.validate_decimal_precision(decimals.precision())
    };
    let checked = match &value {
        ColumnarValue::Array(array) => check(array.as_ref()),
        ColumnarValue::Scalar(scalar) => check(scalar.to_array()?.as_ref()),
    };
    checked.map_err(|error| {
        let text = error.to_string();
        let text = text.strip_prefix("Invalid argument error: ").unwrap_or(&text);
        ArithmeticError::Kernel(text.to_string())
    })?;
    Ok(value)
}
