//! Casts to floats that fail where the number is beyond the largest one, or so near to zero that only zero is left of
//! it, as in PostgreSQL: `1e300::REAL`, `'1e400'::DOUBLE`. Arrow's give an infinity and a zero.
//!
//! The function stands under the cast and gives its argument as it is, or fails; under TRY_CAST it gives NULL.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{cast, nullif};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::types::sql_type;
use crate::error::value_err;

/// The function for one type and one kind of cast.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InRange {
    to: DataType,
    /// What is out of range is NULL.
    lenient: bool,
    signature: Signature,
}

static FUNCTIONS: LazyLock<Vec<(DataType, bool, Arc<ScalarUDF>)>> = LazyLock::new(|| {
    let kinds =
        [(DataType::Float32, false), (DataType::Float32, true), (DataType::Float64, false), (DataType::Float64, true)];
    let function = |(to, lenient): (DataType, bool)| {
        let signature = Signature::any(1, Volatility::Immutable);
        let function = ScalarUDF::from(InRange { to: to.clone(), lenient, signature });
        (to, lenient, Arc::new(function))
    };
    kinds.map(function).to_vec()
});

/// The argument of a cast to a float, checked; `None` where any value of its type has a float.
pub(super) fn in_range(arg: &Expr, from: &DataType, to: &DataType, lenient: bool) -> Option<Expr> {
    let wider = *from == DataType::Float64 && *to == DataType::Float32;
    let text = from.is_string() && matches!(to, DataType::Float32 | DataType::Float64);
    let done = matches!(arg, Expr::ScalarFunction(call) if is_range_call(call));
    let function =
        FUNCTIONS.iter().find(|(of, kind, _)| of == to && *kind == lenient).map(|(_, _, function)| function)?;
    ((wider || text) && !done).then(|| function.call(vec![arg.clone()]))
}

/// Is it a call of the function?
pub(super) fn is_range_call(call: &ScalarFunction) -> bool {
    call.func.inner().is::<InRange>()
}

/// Whether a number of the target type stands for a text.
fn reads(text: &str, to: &DataType) -> bool {
    let text = text.trim();
    let (infinite, zero) = match to {
        DataType::Float32 => match text.parse::<f32>() {
            Ok(number) => (number.is_infinite(), number == 0.0),
            Err(_) => return true,
        },
        _ => match text.parse::<f64>() {
            Ok(number) => (number.is_infinite(), number == 0.0),
            Err(_) => return true,
        },
    };
    let named = text.bytes().any(|c| matches!(c, b'n' | b'N'));
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    !(infinite && !named || zero && mantissa.bytes().any(|c| matches!(c, b'1'..=b'9')))
}

/// Whether a REAL stands for a DOUBLE.
fn narrows(value: f64) -> bool {
    let narrow = value as f32;
    narrow.is_infinite() == value.is_infinite() && (narrow == 0.0) == (value == 0.0)
}

impl InRange {
    fn check(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let out: BooleanArray = match values.data_type() {
            DataType::Float64 => values.as_primitive::<Float64Type>().iter().map(|v| v.map(|v| !narrows(v))).collect(),
            _ => {
                let texts = cast(values, &DataType::Utf8View)?;
                texts.as_string_view().iter().map(|text| text.map(|text| !reads(text, &self.to))).collect()
            }
        };
        let Some(row) = (0..out.len()).find(|&row| out.is_valid(row) && out.value(row)) else {
            return Ok(values.clone());
        };
        if self.lenient {
            return Ok(nullif(values, &out)?);
        }
        let value = ScalarValue::try_from_array(values, row)?;
        value_err!(NumericValueOutOfRange, "value out of range: {value} does not fit {}", sql_type(&self.to))
    }
}

impl ScalarUDFImpl for InRange {
    fn name(&self) -> &str {
        "in_range"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [arg] => Ok(arg.schema_name().to_string()),
            _ => internal_err!("in_range takes one argument"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [arg] => Ok(arg.clone()),
            _ => internal_err!("in_range takes one argument"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(self.check(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let one = self.check(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
            _ => internal_err!("in_range takes one argument"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_too_large_or_too_small_have_no_float() {
        for text in ["1e400", "-1e400", "1e-400", "-0.1e-400"] {
            assert!(!reads(text, &DataType::Float64), "{text}");
        }
        for text in ["1e300", "0", "0e99", "-0.0", "inf", "-Infinity", "NaN", "1e-320", "x"] {
            assert!(reads(text, &DataType::Float64), "{text}");
        }
        assert!(!reads("1e39", &DataType::Float32) && reads("1e38", &DataType::Float32));
    }

    #[test]
    fn doubles_out_of_the_range_of_reals() {
        for value in [1e300, -1e39, 1e-60] {
            assert!(!narrows(value), "{value}");
        }
        for value in [0.0, -0.0, 1e38, f64::INFINITY, f64::NAN, 0.1, 1e-44] {
            assert!(narrows(value), "{value}");
        }
    }
}
