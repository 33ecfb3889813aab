//! What stands around an argument of a function that a statement has made, until types are known: then it is looked
//! at whether the parameter takes it (`rewrite::argument_types`), and the argument stands there alone.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::Result;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Its name. It takes the argument, the parameter's type and the function's name.
pub(crate) const ARGUMENT: &str = "__nearside_argument";

/// The function.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Argument { signature: Signature::any(3, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Argument {
    signature: Signature,
}

impl ScalarUDFImpl for Argument {
    fn name(&self) -> &str {
        ARGUMENT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Simplified(args.swap_remove(0)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
