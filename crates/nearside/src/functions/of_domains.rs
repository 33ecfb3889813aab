//! Casts to domains: a call looks at values of the type that the domain is over.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::catalog::rules::DomainRules;
use crate::error::Error;

/// What names of these functions begin with.
const PREFIX: &str = "__nearside_domain_";

/// The name of the function of a domain's casts.
pub(crate) fn function_of(id: u64) -> String {
    format!("{PREFIX}{id}")
}

/// The domain whose function has a name.
pub(crate) fn domain_of(function: &str) -> Option<u64> {
    function.strip_prefix(PREFIX)?.parse().ok()
}

/// The function of a domain.
pub(crate) fn function(rules: DomainRules) -> Arc<ScalarUDF> {
    let (name, signature) = (function_of(rules.id), Signature::any(1, Volatility::Immutable));
    Arc::new(ScalarUDF::from(ToDomain { name, signature, rules: Arc::new(rules) }))
}

#[derive(Debug)]
struct ToDomain {
    name: String,
    signature: Signature,
    rules: Arc<DomainRules>,
}

impl PartialEq for ToDomain {
    fn eq(&self, other: &ToDomain) -> bool {
        self.rules == other.rules
    }
}

impl Eq for ToDomain {}

impl Hash for ToDomain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for ToDomain {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let none = || Arc::new(Field::new(&self.name, DataType::Null, true));
        let of = args.arg_fields.first().cloned().unwrap_or_else(none);
        Ok(Arc::new(Field::clone(&of).with_name(&self.name).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(value) = args.args.first() else {
            return Err(Error::Internal("a cast to a domain without a value".into()).into_datafusion());
        };
        let is_one = matches!(value, ColumnarValue::Scalar(_));
        let rows = if is_one { 1 } else { args.number_rows };
        let values: ArrayRef = value.clone().into_array(rows)?;
        let kept = self.rules.enforced(&values).map_err(Error::into_datafusion)?.unwrap_or(values);
        match is_one {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&kept, 0)?)),
            false => Ok(ColumnarValue::Array(kept)),
        }
    }
}
