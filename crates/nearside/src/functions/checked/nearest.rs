//! The nearest whole number, which a cast to an integer gives: SQL's casts of decimals and floats round, Arrow's cut
//! off.
//!
//! As in PostgreSQL decimals that lie in the middle are rounded away from zero, floats to the even number. The
//! function that stands under such a cast keeps its argument's kind of number; the cast then finds nothing to cut
//! off, and says so where the type is too small.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Float32Type,
    Float64Type, i256,
};
use datafusion_common::{Result, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Nearest {
    signature: Signature,
}

static NEAREST: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(ScalarUDF::new_from_impl(Nearest { signature: Signature::any(1, Volatility::Immutable) }))
});

/// The nearest whole number to an expression.
pub(super) fn nearest(arg: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&NEAREST), args: vec![arg] })
}

/// Is it what [`nearest`] gives?
pub(super) fn is_nearest(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if is_nearest_call(call))
}

/// Is it a call of the function?
pub(super) fn is_nearest_call(call: &ScalarFunction) -> bool {
    call.func.inner().is::<Nearest>()
}

/// Does a cast between these types have digits to round?
pub(super) fn rounds(from: &DataType, to: &DataType) -> bool {
    let digits = match from {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale > 0,
        other => other.is_floating(),
    };
    digits && to.is_integer()
}

/// The type of the result: a decimal may have a digit more.
fn type_of(arg: &DataType) -> Option<DataType> {
    match arg {
        DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale) => {
            Some(DataType::Decimal128(digits + 1, *scale))
        }
        DataType::Decimal128(digits, scale) => Some(match *digits < DECIMAL128_MAX_PRECISION {
            true => DataType::Decimal128(digits + 1, *scale),
            false => DataType::Decimal256(digits + 1, *scale),
        }),
        DataType::Decimal256(digits, scale) => {
            Some(DataType::Decimal256((digits + 1).min(DECIMAL256_MAX_PRECISION), *scale))
        }
        DataType::Float16 => Some(DataType::Float32),
        other if other.is_floating() => Some(other.clone()),
        _ => None,
    }
}

fn each<T: ArrowPrimitiveType>(array: &ArrayRef, f: impl Fn(T::Native) -> T::Native) -> PrimitiveArray<T> {
    array.as_primitive::<T>().unary(f)
}

/// `value` times ten to the `-scale`, rounded, with the same scale.
macro_rules! rounded {
    ($value:expr, $unit:expr, $zero:expr) => {{
        let value = $value;
        let unit = $unit;
        let rest = value.wrapping_rem(unit);
        let whole = value.wrapping_sub(rest);
        let magnitude = if rest < $zero { $zero.wrapping_sub(rest) } else { rest };
        // Twice the rest might not fit where the unit is the largest power of ten.
        match magnitude >= unit.wrapping_sub(magnitude) {
            true if rest < $zero => whole.wrapping_sub(unit),
            true => whole.wrapping_add(unit),
            false => whole,
        }
    }};
}

fn nearest_of(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(to) = type_of(array.data_type()) else {
        return internal_err!("{} has no digits to round", array.data_type());
    };
    Ok(match &to {
        DataType::Float32 => Arc::new(each::<Float32Type>(&cast(array, &to)?, f32::round_ties_even)),
        DataType::Float64 => Arc::new(each::<Float64Type>(array, f64::round_ties_even)),
        DataType::Decimal128(digits, scale) => {
            let unit = 10i128.pow(scale.unsigned_abs().into());
            let wide = cast(array, &to)?;
            let nearest = each::<Decimal128Type>(&wide, |v| rounded!(v, unit, 0i128));
            Arc::new(nearest.with_precision_and_scale(*digits, *scale)?)
        }
        DataType::Decimal256(digits, scale) => {
            let unit = i256::from_i128(10).wrapping_pow(scale.unsigned_abs().into());
            let wide = cast(array, &to)?;
            let nearest = each::<Decimal256Type>(&wide, |v| rounded!(v, unit, i256::ZERO));
            Arc::new(nearest.with_precision_and_scale(*digits, *scale)?)
        }
        other => return internal_err!("{other} is no type of a rounded number"),
    })
}

/// The values rounded for a cast to a type, if such a cast rounds.
///
/// # Errors
/// Those of Arrow.
pub(crate) fn rounded_to(values: &ArrayRef, to: &DataType) -> Result<Option<ArrayRef>> {
    if rounds(values.data_type(), to) { nearest_of(values).map(Some) } else { Ok(None) }
}

impl ScalarUDFImpl for Nearest {
    fn name(&self) -> &str {
        "nearest"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [arg] => Ok(arg.schema_name().to_string()),
            _ => internal_err!("nearest takes one argument"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [arg] => type_of(arg).map_or_else(|| internal_err!("{arg} has no digits to round"), Ok),
            _ => internal_err!("nearest takes one argument"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(nearest_of(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let one = nearest_of(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(datafusion_common::ScalarValue::try_from_array(&one, 0)?))
            }
            _ => internal_err!("nearest takes one argument"),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Decimal128Array, Float64Array, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn ints(array: ArrayRef) -> Vec<Option<i64>> {
        let whole = cast(&nearest_of(&array).unwrap(), &DataType::Int64).unwrap();
        whole.as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn floats_go_to_the_even_number() {
        let values = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.4, 2.6, -2.6, 0.49999999999999994];
        let expected = [0, 2, 2, 0, -2, -2, 2, 3, -3, 0];
        assert_eq!(ints(Arc::new(Float64Array::from(values.to_vec()))), expected.map(Some));
    }

    #[test]
    fn decimals_go_away_from_zero() {
        for digits in [5, 38] {
            let values = [50, 150, 250, -50, -150, -250, 249, 251, -251, 99950, 0];
            let array = Decimal128Array::from(values.to_vec()).with_precision_and_scale(digits, 2).unwrap();
            let expected = [1, 2, 3, -1, -2, -3, 2, 3, -3, 1000, 0];
            assert_eq!(ints(Arc::new(array)), expected.map(Some));
        }
    }

    /// Scales up to the largest, of which twice the rest does not fit.
    #[test]
    fn decimals_agree_with_slow_rounding() {
        for scale in 1..=38i8 {
            let unit = 10i128.pow(scale as u32);
            let mut values = vec![unit / 2 - 1, unit / 2, unit / 2 + 1, unit - 1, 0, 1];
            values.extend(values.clone().into_iter().map(|v| -v));
            let array = Decimal128Array::from(values.clone()).with_precision_and_scale(38, scale).unwrap();
            let expected: Int64Array = values
                .iter()
                .map(|v| Some(if v.unsigned_abs() * 2 >= unit as u128 { v.signum() as i64 } else { 0 }))
                .collect();
            assert_eq!(ints(Arc::new(array)), expected.iter().collect::<Vec<_>>(), "scale {scale}");
            assert_eq!(expected.null_count(), 0);
        }
    }
}
