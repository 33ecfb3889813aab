//! A query as a value that has more than one row for an outer row is an error where the value is seen.

use std::sync::{Arc, LazyLock};

use arrow::array::AsArray;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion_common::{Result, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::codes::SqlState;
use crate::error::{Error, SEVERAL_ROWS};

static SINGLE: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Single { signature: Signature::any(2, Volatility::Immutable) })));

/// The value, of this number of rows.
pub(super) fn value(rows: Expr, value: Expr) -> Expr {
    SINGLE.call(vec![rows, value])
}

/// It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Single {
    signature: Signature,
}

impl ScalarUDFImpl for Single {
    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.last().map(|value| value.schema_name().to_string()).unwrap_or_default())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.last().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [_, field] => Ok(Arc::new(field.as_ref().clone().with_nullable(true))),
            _ => internal_err!("single_value takes two arguments"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.args.swap_remove(0).into_array(args.number_rows)?;
        if rows.as_primitive::<Int64Type>().iter().flatten().any(|n| n > 1) {
            return Err(Error::execution(SqlState::CardinalityViolation, SEVERAL_ROWS).into_datafusion());
        }
        Ok(args.args.swap_remove(0))
    }
}
