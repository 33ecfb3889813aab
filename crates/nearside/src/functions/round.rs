//! `round` of floats: the even one of two whole numbers that are equally near, as in PostgreSQL, and as casts to
//! integers have it. Decimals, integers and digits after the point are DataFusion's: away from zero.
//!
//! How many digits a decimal has then is told by the digits that are asked for, where these are constant. The planner
//! looks at that again whenever an expression becomes constant, and what was compared with the call would then be of
//! another type; so [`settled`] says it once, before types meet. `trunc` of decimals leaves no digits either.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType,
    Field, FieldRef, Float32Type, Float64Type,
};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, cast, lit,
};
use datafusion_functions::math::round::RoundFunc;

/// The function of that name.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(Round { known: RoundFunc::new(), gives: None })
}

/// Says once which type a call of `round` or `trunc` over decimals has. Gives what stands in its place, if anything.
///
/// # Errors
/// More digits than are counted.
pub(crate) fn settled(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let [value, digits @ ..] = call.args.as_slice() else { return Ok(None) };
    let name = call.func.name();
    if digits.len() > 1 || !matches!(name, "round" | "trunc") {
        return Ok(None);
    }
    let Ok(of) = value.get_type(schema) else { return Ok(None) };
    let (true, Some((precision, scale))) = (of.is_decimal(), digits_of(&of)) else { return Ok(None) };
    let known = digits.first().map_or(Some(0), constant);
    if name == "trunc" {
        let Some(left) = known.map(|known| known.max(0)).filter(|known| *known < i64::from(scale)) else {
            return Ok(None);
        };
        let to = decimal(&of, precision, i8::try_from(left).unwrap_or(scale));
        return Ok(Some(cast(Expr::ScalarFunction(call.clone()), to)));
    }
    let (Some(digits), Some(round)) = (digits.first(), call.func.inner().downcast_ref::<Round>()) else {
        return Ok(None);
    };
    match known.and_then(|known| i32::try_from(known).ok()) {
        Some(known) if digits.as_literal() == Some(&ScalarValue::Int32(Some(known))) => Ok(None),
        Some(known) => Ok(Some(call.func.call(vec![value.clone(), lit(known)]))),
        None if round.gives.is_some() => Ok(None),
        None => {
            // A nine that is rounded up may need a digit more.
            let gives = decimal(&of, precision.saturating_add(1).min(most_digits(&of)), scale);
            let function = Round { known: RoundFunc::new(), gives: Some(gives) };
            Ok(Some(ScalarUDF::from(function).call(call.args.clone())))
        }
    }
}

/// A whole number as it is written, maybe with a sign.
fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Negative(inner) => constant(inner)?.checked_neg(),
        Expr::Literal(value, _) if value.data_type().is_integer() => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(value)) => value,
            _ => None,
        },
        _ => None,
    }
}

fn digits_of(decimal: &DataType) -> Option<(u8, i8)> {
    match decimal {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

fn most_digits(of: &DataType) -> u8 {
    match of {
        DataType::Decimal32(..) => DECIMAL32_MAX_PRECISION,
        DataType::Decimal64(..) => DECIMAL64_MAX_PRECISION,
        DataType::Decimal256(..) => DECIMAL256_MAX_PRECISION,
        _ => DECIMAL128_MAX_PRECISION,
    }
}

/// A decimal as wide as another.
fn decimal(like: &DataType, precision: u8, scale: i8) -> DataType {
    match like {
        DataType::Decimal32(..) => DataType::Decimal32(precision, scale),
        DataType::Decimal64(..) => DataType::Decimal64(precision, scale),
        DataType::Decimal256(..) => DataType::Decimal256(precision, scale),
        _ => DataType::Decimal128(precision, scale),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    known: RoundFunc,
    /// The type that it has whatever becomes of its arguments.
    gives: Option<DataType>,
}

impl ScalarUDFImpl for Round {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn signature(&self) -> &Signature {
        self.known.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.known.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match &self.gives {
            Some(gives) => {
                let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
                Ok(Arc::new(Field::new(self.name(), gives.clone(), nullable)))
            }
            None => self.known.return_field_from_args(args),
        }
    }

    fn is_strict(&self) -> bool {
        self.known.is_strict()
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.known.output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return self.known.invoke_with_args(args) };
        Ok(match value {
            ColumnarValue::Scalar(ScalarValue::Float64(value)) => {
                ColumnarValue::Scalar(ScalarValue::Float64(value.map(f64::round_ties_even)))
            }
            ColumnarValue::Scalar(ScalarValue::Float32(value)) => {
                ColumnarValue::Scalar(ScalarValue::Float32(value.map(f32::round_ties_even)))
            }
            ColumnarValue::Array(values) if *values.data_type() == DataType::Float64 => {
                let values = values.as_primitive::<Float64Type>();
                ColumnarValue::Array(Arc::new(values.unary::<_, Float64Type>(f64::round_ties_even)))
            }
            ColumnarValue::Array(values) if *values.data_type() == DataType::Float32 => {
                let values = values.as_primitive::<Float32Type>();
                ColumnarValue::Array(Arc::new(values.unary::<_, Float32Type>(f32::round_ties_even)))
            }
            _ => return self.known.invoke_with_args(args),
        })
    }
}
