//! Functions told by what they take, give and do: each a name and three plain functions, for the many that need no
//! more.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::Error;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;

/// What a function does with the types of a call: those that it takes instead, or why it takes none such.
pub(crate) type Takes = fn(&[DataType]) -> Result<Vec<DataType>, String>;

/// The type of what it gives, of types that it takes.
pub(crate) type Gives = fn(&[DataType]) -> DataType;

/// What it does with columns of one length.
pub(crate) type Runs = fn(&[ArrayRef]) -> Result<ArrayRef>;

/// A function of one row.
#[derive(Debug)]
pub(crate) struct Defined {
    name: &'static str,
    aliases: Vec<String>,
    takes: Takes,
    gives: Gives,
    runs: Runs,
    is_strict: bool,
    signature: Signature,
}

impl Defined {
    /// A function of a name and its other names, which is NULL where an argument is, if it is `strict`; that is for the
    /// planner, and the function has to see to it itself.
    pub(crate) fn new(names: &[&'static str], is_strict: bool, takes: Takes, gives: Gives, runs: Runs) -> Defined {
        let (name, aliases) = names.split_first().map_or(("", &[][..]), |(name, aliases)| (*name, aliases));
        let aliases = aliases.iter().map(|alias| alias.to_string()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        Defined { name, aliases, takes, gives, runs, is_strict, signature }
    }

    /// The function for the planner.
    pub(crate) fn function(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(self))
    }
}

// Each has a name of its own.
impl PartialEq for Defined {
    fn eq(&self, other: &Defined) -> bool {
        self.name == other.name
    }
}

impl Eq for Defined {}

impl Hash for Defined {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Defined {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        self.is_strict
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.gives)(types))
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        (self.takes)(types).map_err(|why| {
            let shown: Vec<String> = types.iter().map(sql_type).collect();
            let message = format!("{}({}): {why}", self.name, shown.join(", "));
            Error::plan(SqlState::UndefinedFunction, message).into_datafusion()
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let values = (self.runs)(&columns)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}
