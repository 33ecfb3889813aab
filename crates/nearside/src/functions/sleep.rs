//! `pg_sleep(seconds)`: the statement waits, once for each row, and can be cancelled meanwhile. The worker that waits
//! lends its cpu to others.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::{Result as OwnResult, value_err};

const NAME: &str = "pg_sleep";
/// How soon a statement that waits hears that it is cancelled.
const STEP: Duration = Duration::from_millis(5);

/// Fails once the statement is to end.
pub(crate) type Check = Arc<dyn Fn() -> OwnResult<()> + Send + Sync>;

/// The function without a statement, for who asks what functions there are.
pub(crate) fn function() -> Arc<ScalarUDF> {
    made(None)
}

/// The function, if this is its name, for a statement.
pub(crate) fn of_statement(name: &str, check: impl FnOnce() -> Check) -> Option<Arc<ScalarUDF>> {
    (name == NAME).then(|| made(Some(check())))
}

/// Whether it is the function, which belongs to one statement.
pub(crate) fn is_sleep(function: &ScalarUDF) -> bool {
    function.name() == NAME
}

fn made(check: Option<Check>) -> Arc<ScalarUDF> {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    Arc::new(ScalarUDF::from(Sleep { check, signature }))
}

struct Sleep {
    check: Option<Check>,
    signature: Signature,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

impl PartialEq for Sleep {
    fn eq(&self, other: &Sleep) -> bool {
        match (&self.check, &other.check) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Sleep {}

impl Hash for Sleep {
    fn hash<H: Hasher>(&self, state: &mut H) {
        NAME.hash(state);
    }
}

impl Sleep {
    fn wait(&self, seconds: f64) -> Result<()> {
        // Longer than a year is as good as for ever.
        let wait = Duration::try_from_secs_f64(seconds.clamp(0.0, 4e7));
        let Ok(wait) = wait else { return value_err!(InvalidParameterValue, "{NAME} takes a number of seconds") };
        let begin = Instant::now();
        loop {
            if let Some(check) = &self.check {
                check().map_err(crate::error::Error::into_datafusion)?;
            }
            let left = wait.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// PostgreSQL's gives `void`, which clients show as an empty text.
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seconds = args.args[0].to_array(args.number_rows)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        sched::blocking(|| seconds.iter().flatten().try_for_each(|seconds| self.wait(seconds)))?;
        let texts = (0..args.number_rows).map(|row| seconds.is_valid(row).then_some(""));
        let texts: arrow::array::StringViewArray = texts.collect();
        match &args.args[0] {
            ColumnarValue::Scalar(_) if !texts.is_empty() => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?))
            }
            _ => Ok(ColumnarValue::Array(Arc::new(texts))),
        }
    }
}
