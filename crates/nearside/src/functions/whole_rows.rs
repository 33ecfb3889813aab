//! The row of a table as one value. Its fields are what the columns are: JSON in it stays JSON, which rows that are put
//! together otherwise have no place for.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::StructArray;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion_common::{Result, internal_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::catalog::named_types::TYPE;

/// The function that makes one: names, each with its value behind it.
pub(crate) const WHOLE_ROW: &str = "__nearside_row";

#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeRow {
    signature: Signature,
}

/// The function of that name.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(WholeRow { signature: Signature::variadic_any(Volatility::Immutable) })
}

fn field(name: &str, of: &Field) -> Field {
    let kept = of.metadata().get(TYPE).map(|kind| (TYPE.to_string(), kind.clone()));
    Field::new(name, of.data_type().clone(), true).with_metadata(HashMap::from_iter(kept))
}

impl ScalarUDFImpl for WholeRow {
    fn name(&self) -> &str {
        WHOLE_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("a row's type has its names")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let names = args.scalar_arguments.iter().step_by(2);
        let values = args.arg_fields.iter().skip(1).step_by(2);
        let named = names.zip(values).map(|(name, value)| {
            let name = name.and_then(|name| name.try_as_str().flatten());
            name.map(|name| field(name, value))
        });
        match named.collect::<Option<Vec<Field>>>() {
            Some(fields) => Ok(Arc::new(Field::new(WHOLE_ROW, DataType::Struct(Fields::from(fields)), true))),
            None => internal_err!("a row's names are texts as they are written"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Struct(fields) = args.return_field.data_type() else {
            return internal_err!("a row was expected");
        };
        let values = args.args.iter().skip(1).step_by(2).map(|value| value.to_array(args.number_rows));
        let rows =
            StructArray::try_new_with_length(fields.clone(), values.collect::<Result<_>>()?, None, args.number_rows)?;
        Ok(ColumnarValue::Array(Arc::new(rows)))
    }
}
