//! What time it is: `clock_timestamp()` each time that it is asked, `statement_timestamp()` when the statement began,
//! `transaction_timestamp()`, which is `now()`, when its transaction did.

use std::sync::Arc;

use arrow::array::TimestampNanosecondArray;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use chrono::{DateTime, SubsecRound, Utc};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::functions::zones::UTC;

/// Digits of a second that a clock tells, as PostgreSQL's.
const DIGITS: u16 = 6;

/// Whose time a function tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Clock,
    Transaction,
    /// With the nanoseconds since 1970, where a statement is planned.
    Statement(Option<i64>),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Told {
    name: &'static str,
    of: Of,
    zone: Arc<str>,
    signature: Signature,
}

const STATEMENT: &str = "statement_timestamp";

fn made(name: &'static str, of: Of, zone: Arc<str>) -> ScalarUDF {
    let volatility = match of {
        Of::Clock => Volatility::Volatile,
        Of::Transaction | Of::Statement(_) => Volatility::Stable,
    };
    ScalarUDF::from(Told { name, of, zone, signature: Signature::nullary(volatility) })
}

/// The functions, with UTC as the zone.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 3] {
    let all =
        [("clock_timestamp", Of::Clock), ("transaction_timestamp", Of::Transaction), (STATEMENT, Of::Statement(None))];
    all.map(|(name, of)| Arc::new(made(name, of, UTC.into())))
}

/// The function of this name for a statement that began then, in a zone; `None` for those that need no statement.
pub(crate) fn of_statement(name: &str, began: DateTime<Utc>, zone: Option<&str>) -> Option<Arc<ScalarUDF>> {
    let of = Of::Statement(began.timestamp_nanos_opt());
    (name == STATEMENT).then(|| Arc::new(made(STATEMENT, of, zone.unwrap_or(UTC).into())))
}

impl Told {
    fn literal(&self, nanoseconds: Option<i64>) -> ScalarValue {
        ScalarValue::TimestampNanosecond(nanoseconds, Some(Arc::clone(&self.zone)))
    }
}

impl ScalarUDFImpl for Told {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let zone = config.execution.time_zone.as_deref().unwrap_or(UTC);
        Some(made(self.name, self.of, zone.into()))
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(&self.zone))))
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name, self.return_type(&[])?, false)))
    }

    fn simplify(&self, args: Vec<Expr>, of: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let moment = match self.of {
            Of::Transaction => of.query_execution_start_time().and_then(|moment| moment.timestamp_nanos_opt()),
            Of::Statement(began) => began,
            Of::Clock => None,
        };
        Ok(match moment {
            Some(moment) => ExprSimplifyResult::Simplified(Expr::Literal(self.literal(Some(moment)), None)),
            None => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.of != Of::Clock {
            return internal_err!("{} of no statement", self.name);
        }
        // PostgreSQL asks the clock for each row.
        let times = (0..args.number_rows).map(|_| Utc::now().trunc_subsecs(DIGITS).timestamp_nanos_opt());
        let times = TimestampNanosecondArray::from_iter(times).with_timezone(Arc::clone(&self.zone));
        Ok(ColumnarValue::Array(Arc::new(times)))
    }
}
