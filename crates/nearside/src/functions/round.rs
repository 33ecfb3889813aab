//! `round` of floats: the even one of two whole numbers that are equally near, as in PostgreSQL, and as casts to
//! integers have it. Decimals, integers and digits after the point are DataFusion's: away from zero.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion_functions::math::round::RoundFunc;

/// The function of that name.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(Round { known: RoundFunc::new() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Round {
    known: RoundFunc,
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
        self.known.return_field_from_args(args)
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
