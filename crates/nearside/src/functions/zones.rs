//! `timezone(zone, time)`, which `time AT TIME ZONE zone` is, as in PostgreSQL: the instant of a local time in a zone
//! (`TIMESTAMP` becomes `TIMESTAMPTZ`), and the local time of an instant (`TIMESTAMPTZ` becomes `TIMESTAMP`).
//!
//! Casts between the two types are calls of it too ([`between_clocks`]): DataFusion's optimiser would take such a cast
//! from a column that is compared with a constant, and leave the zone out, and its cast to TIMESTAMP gives the time in
//! UTC.
//!
//! Of a local time that a change of clocks has twice it is the later one; one that it leaves out is told by the clocks
//! before it.
//!
//! # Limits
//! The zone is a text as it is written.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray, TimestampNanosecondBuilder};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion_functions::datetime::to_local_time::ToLocalTimeFunc;

use crate::error::Error;
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::value_err;

/// What `AT TIME ZONE` calls.
pub(crate) const NAME: &str = "timezone";

/// The function of that name.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(Zoned::of(UTC.into(), false))
}

/// The zone of sessions that have set none.
pub(crate) const UTC: &str = "+00:00";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Zoned {
    signature: Signature,
    /// Gives NULL for local times that there are not.
    tries: bool,
    /// The zone in which instants are told: the session's.
    told_in: Arc<str>,
}

impl Zoned {
    fn of(told_in: Arc<str>, tries: bool) -> Zoned {
        Zoned { signature: Signature::any(2, Volatility::Immutable), tries, told_in }
    }
}

/// A cast of a time, or a day, of one type to one where there is a zone, or none, in place of one: by the zone's
/// clocks. `None` for other casts, and in UTC, where they are the same.
pub(crate) fn between_clocks(inner: &Expr, from: &DataType, to: &DataType, tries: bool) -> Option<Expr> {
    use DataType::{Date32, Timestamp};
    let (zone, time, unit) = match (from, to) {
        (Timestamp(unit, Some(zone)), Timestamp(_, None)) => (zone, inner.clone(), *unit),
        (Timestamp(_, None), Timestamp(_, Some(zone))) => (zone, inner.clone(), TimeUnit::Nanosecond),
        (Date32, Timestamp(unit, Some(zone))) => {
            (zone, datafusion_expr::cast(inner.clone(), Timestamp(*unit, None)), TimeUnit::Nanosecond)
        }
        _ => return None,
    };
    if matches!(zone.as_ref(), "UTC" | "Z" | "+00:00") {
        return None;
    }
    let found = ScalarUDF::from(Zoned::of(Arc::clone(zone), tries)).call(vec![lit(zone.as_ref()), time]);
    Some(match to {
        Timestamp(wanted, _) if *wanted != unit => datafusion_expr::cast(found, to.clone()),
        _ => found,
    })
}

/// The zone of a call, which is one that there is.
fn zone_of(value: Option<&ScalarValue>) -> Result<Arc<str>> {
    let Some(zone) = value.and_then(|value| value.try_as_str().flatten()) else {
        let message = "the zone of AT TIME ZONE has to be a text as it is written, as in x AT TIME ZONE '+02:00'";
        return Err(Error::Unsupported(message.into()).into_datafusion());
    };
    match zone.parse::<Tz>() {
        Ok(_) => Ok(zone.into()),
        Err(_) => {
            let message = format!("'{zone}' is no time zone; write an offset ('+02:00') or a name ('Europe/Berlin')");
            Err(Error::plan(SqlState::InvalidParameterValue, message).into_datafusion())
        }
    }
}

/// The instants of local times in a zone; where `tries`, NULL for those that are no times of ours.
fn instants(locals: &TimestampNanosecondArray, zone: &Tz, tries: bool) -> Result<TimestampNanosecondArray> {
    let mut found = TimestampNanosecondBuilder::with_capacity(locals.len());
    for local in locals {
        let Some(local) = local else {
            found.append_null();
            continue;
        };
        let local = DateTime::from_timestamp_nanos(local).naive_utc();
        match instant(local, zone).and_then(|instant| instant.and_utc().timestamp_nanos_opt()) {
            Some(instant) => found.append_value(instant),
            None if tries => found.append_null(),
            None => return value_err!(DatetimeFieldOverflow, "{local} is no time that TIMESTAMPTZ has room for"),
        }
    }
    Ok(found.finish())
}

/// The instant of a local time, in UTC; of one that a change of clocks leaves out as the clocks before it tell it.
pub(super) fn instant(local: NaiveDateTime, zone: &Tz) -> Option<NaiveDateTime> {
    match zone.from_local_datetime(&local).latest() {
        Some(found) => Some(found.naive_utc()),
        None => {
            // No change of clocks leaves out more than a day.
            let before = zone.from_local_datetime(&local.checked_sub_signed(TimeDelta::days(1))?).latest()?;
            local.checked_sub_offset(before.offset().fix())
        }
    }
}

impl ScalarUDFImpl for Zoned {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let told_in = config.execution.time_zone.as_deref().unwrap_or(UTC).into();
        Some(ScalarUDF::from(Zoned::of(told_in, self.tries)))
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {NAME} depends on its arguments")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        zone_of(args.scalar_arguments.first().copied().flatten())?;
        let to = match args.arg_fields[1].data_type() {
            DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(&self.told_in))),
            DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, None),
            other => {
                let message = format!(
                    "AT TIME ZONE takes a TIMESTAMP or a TIMESTAMPTZ, not {}; cast it to the one that is meant",
                    sql_type(other)
                );
                return Err(Error::Unsupported(message).into_datafusion());
            }
        };
        Ok(Arc::new(Field::new(NAME, to, self.tries || args.arg_fields[1].is_nullable())))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(zone), times] = args.args.as_slice() else {
            return internal_err!("{NAME} takes a zone and a time");
        };
        let is_scalar = matches!(times, ColumnarValue::Scalar(_));
        let zone = zone_of(Some(zone))?;
        let times = times.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let to = args.return_field.data_type();
        let found = match (times.data_type(), to) {
            (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(_, None)) => {
                let there = cast(&times, &DataType::Timestamp(*unit, Some(zone)))?;
                args.args = vec![ColumnarValue::Array(there)];
                ToLocalTimeFunc::new().invoke_with_args(args)?.to_array(1)?
            }
            (DataType::Timestamp(_, None), _) => {
                let options = CastOptions { safe: self.tries, ..CastOptions::default() };
                let times = cast_with_options(&times, &DataType::Timestamp(TimeUnit::Nanosecond, None), &options)?;
                let instants = instants(times.as_primitive(), &zone.parse()?, self.tries)?;
                let utc: ArrayRef = Arc::new(instants.with_timezone("+00:00"));
                cast_with_options(&utc, to, &options)?
            }
            (other, _) => return internal_err!("{NAME} takes no {other}"),
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}
