//! `date_bin`: DataFusion's, whose widths may be of months and below zero, which PostgreSQL refuses.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNanoType, IntervalUnit};
use datafusion_common::Result;
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion_functions::datetime;

use crate::error::value_err;

const DAY: i128 = 86_400_000_000_000;

/// The function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(DateBin { known: datetime::date_bin() })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateBin {
    known: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn signature(&self) -> &Signature {
        self.known.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.known.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.known.inner().return_field_from_args(args)
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.known.inner().output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.inner().documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(width) = args.args.first() {
            let is_scalar = matches!(width, ColumnarValue::Scalar(_));
            let widths = width.to_array(if is_scalar { 1 } else { args.number_rows })?;
            let widths = cast(&widths, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            for width in widths.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
                if width.months != 0 {
                    return value_err!(FeatureNotSupported, "bins of date_bin have days and parts of days, not months");
                }
                if i128::from(width.days) * DAY + i128::from(width.nanoseconds) <= 0 {
                    return value_err!(DatetimeFieldOverflow, "the width of date_bin's bins has to be more than zero");
                }
            }
        }
        self.known.inner().invoke_with_args(args)
    }
}
