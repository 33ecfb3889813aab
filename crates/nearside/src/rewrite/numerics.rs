//! NUMERIC without digits. PostgreSQL keeps with each value how many digits it has behind the point; here that is of
//! the type. So a number that is cast to NUMERIC keeps the digits of its type: an integer has none behind the point,
//! and `1.50` two. What is not known until it is read (texts, floats, columns of tables) has ten, and is written
//! without the zeros at their end ([`ANY_DIGITS`]).

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};

use crate::functions::texts::ANY_DIGITS;
use crate::sql::NUMERIC;

#[derive(Debug, PartialEq, Eq, Hash)]
struct OwnDigits {
    signature: Signature,
}

/// The function that what is cast to NUMERIC is put into, until types are known ([`settled`]).
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(OwnDigits { signature: Signature::any(1, Volatility::Immutable) })
}

/// NUMERIC with the digits of a type.
fn with_digits_of(of: &DataType) -> DataType {
    let whole = |digits| DataType::Decimal128(digits, 0);
    match of {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => of.clone(),
        DataType::Int8 | DataType::UInt8 => whole(3),
        DataType::Int16 | DataType::UInt16 => whole(5),
        DataType::Int32 | DataType::UInt32 => whole(10),
        DataType::Int64 => whole(19),
        DataType::UInt64 => whole(20),
        _ => ANY_DIGITS,
    }
}

/// The cast that a call of the function is; `None` for other calls.
pub(super) fn settled(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let [value] = call.args.as_slice() else { return Ok(None) };
    if call.name() != NUMERIC {
        return Ok(None);
    }
    Ok(Some(cast(value.clone(), with_digits_of(&value.get_type(schema)?))))
}

impl ScalarUDFImpl for OwnDigits {
    fn name(&self) -> &str {
        NUMERIC
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [of] => Ok(with_digits_of(of)),
            _ => internal_err!("{NUMERIC} takes one argument"),
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value] => Ok(format!("CAST({} AS NUMERIC)", value.schema_name())),
            _ => internal_err!("{NUMERIC} takes one argument"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{NUMERIC} becomes a cast when types are known")
    }
}
