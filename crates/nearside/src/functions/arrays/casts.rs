//! Casts of lists to lists of other elements, each of which is cast as it would be alone: numbers are rounded, texts
//! read and written.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::{innermost, is_text};
use crate::error::Error;
use crate::functions::checked::rounded_to;
use crate::functions::reading;
use crate::functions::texts::nested::{as_lists, element, is_list};
use crate::functions::texts::{is_written_here, texts};

/// It has the name of its argument, as a cast has, and is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Cast {
    to: DataType,
    tries: bool,
    signature: Signature,
}

/// Whether a cast between these types is one of lists that Arrow does otherwise.
pub(crate) fn is_cast_here(from: &DataType, to: &DataType) -> bool {
    is_list(from) && is_list(to) && innermost(from) != innermost(to)
}

/// The lists, in the place of a cast.
pub(crate) fn cast_lists(lists: Expr, to: &DataType, tries: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Cast { to: to.clone(), tries, signature }).call(vec![lists])
}

/// Values of a type as those of another.
fn values_as(values: &ArrayRef, to: &DataType, tries: bool) -> Result<ArrayRef> {
    let from = values.data_type();
    if from == to {
        return Ok(Arc::clone(values));
    }
    if let (true, Some(of)) = (is_list(from), element(to)) {
        let (_, offsets, elements, nulls) = as_lists(values)?.into_parts();
        let elements = values_as(&elements, of, tries)?;
        let field = Arc::new(Field::new_list_field(of.clone(), true));
        let lists: ArrayRef = Arc::new(ListArray::try_new(field, offsets, elements, nulls)?);
        return Ok(if lists.data_type() == to { lists } else { cast(&lists, to)? });
    }
    let options = CastOptions { safe: tries, ..CastOptions::default() };
    Ok(match (is_text(from), is_text(to)) {
        (true, false) => reading::read(values, to, tries).map_err(Error::into_datafusion)?,
        (false, true) if is_written_here(from) => cast(&texts(values)?, to)?,
        _ => match rounded_to(values, to)? {
            Some(rounded) => cast_with_options(&rounded, to, &options)?,
            None => cast_with_options(values, to, &options)?,
        },
    })
}

impl ScalarUDFImpl for Cast {
    fn name(&self) -> &str {
        "cast_of_lists"
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
            _ => internal_err!("cast_of_lists takes one argument"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(list) => {
                let cast = values_as(&list.to_array()?, &self.to, self.tries)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&cast, 0)?)
            }
            ColumnarValue::Array(lists) => ColumnarValue::Array(values_as(lists, &self.to, self.tries)?),
        })
    }
}
