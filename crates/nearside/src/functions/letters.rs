//! What texts are put together of: a truth value is `t` or `f` in `concat`, `concat_ws` and `format`, as in
//! PostgreSQL, and `true` or `false` in a cast and beside `||`.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, StringViewArray};
use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

use super::uuids::UUID;

/// Functions that put texts together.
const CONCATENATIONS: [&str; 3] = ["concat", "concat_ws", "format"];

static LETTER: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Letter { signature: Signature::any(1, Volatility::Immutable) })));

/// The letter of a truth value. It is in no registry, and has the name of its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Letter {
    signature: Signature,
}

/// Gives truth values that a function puts into a text their letters; true when there was one.
pub(crate) fn with_letters(function: &str, arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    if CONCATENATIONS.contains(&function) {
        for argument in arguments {
            if matches!(argument.get_type(schema), Ok(DataType::Boolean)) {
                *argument = LETTER.call(vec![std::mem::take(argument)]);
                changed = true;
            } else if matches!(argument.get_type(schema), Ok(UUID)) {
                *argument = cast(std::mem::take(argument), DataType::Utf8View);
                changed = true;
            }
        }
    }
    changed
}

fn letter(value: bool) -> &'static str {
    if value { "t" } else { "f" }
}

impl ScalarUDFImpl for Letter {
    fn name(&self) -> &str {
        "letter"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [arg] => Ok(arg.schema_name().to_string()),
            _ => internal_err!("letter takes one argument"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(ScalarValue::Boolean(value)) => {
                ColumnarValue::Scalar(ScalarValue::Utf8View(value.map(|value| letter(value).into())))
            }
            ColumnarValue::Scalar(other) => return internal_err!("{other} is no truth value"),
            ColumnarValue::Array(values) => {
                let letters = values.as_boolean().iter().map(|value| value.map(letter));
                ColumnarValue::Array(Arc::new(letters.collect::<StringViewArray>()))
            }
        })
    }
}
