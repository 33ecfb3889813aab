//! Giving settings of sessions values, by the names that SET takes.

use arrow::array::timezone::Tz;
use datafusion_common::config::ConfigOptions;

use crate::catalog::placement;
use crate::error::codes::SqlState;
use crate::error::{Error, Result, names};
use crate::plan::planner::Planner;
use crate::run::client;
use crate::run::config;
use crate::run::system;

/// Gives a setting a value.
///
/// # Errors
/// There is none of the name, or it does not have the value.
pub(crate) fn put(name: &str, value: &str, options: &mut ConfigOptions) -> Result<()> {
    let variable = config::full_name(name);
    if variable == "nearside.placement" {
        placement::spec::Spec::parse(value)?;
    }
    if variable == "datafusion.execution.time_zone" {
        check_time_zone(value)?;
    }
    let value = config::value_of(&variable, value, options);
    options.set(&variable, &value).map_err(|e| setting_error(&variable, e.into(), options))?;
    config::settle(&variable, options)
}

/// Refuses a setting that a role's sessions could not begin with.
///
/// # Errors
/// There is none of the name, or it does not have the value.
pub(crate) fn check(name: &str, value: &str, planner: &Planner) -> Result<()> {
    match client::fixed_of(name) {
        Some(fixed) => fixed.set(Some(value)),
        None => planner.changed(|options| put(name, value, options)).map(|_| ()),
    }
}

/// Refuses what is no time zone: every statement that needs it would fail later.
fn check_time_zone(zone: &str) -> Result<()> {
    let known = zone.parse::<Tz>().is_ok();
    known.then_some(()).ok_or_else(|| {
        Error::plan(
            SqlState::InvalidParameterValue,
            format!("'{zone}' is no time zone; give an offset like '+02:00' or a name like 'Europe/Berlin'"),
        )
    })
}

/// What is wrong with a setting.
pub(crate) fn setting_error(variable: &str, error: Error, options: &ConfigOptions) -> Error {
    let entries = config::entries(options);
    if entries.iter().any(|e| e.key == variable) {
        return Error::Setting(format!("setting '{variable}': {error}"));
    }
    let known = entries.iter().map(|e| e.key.as_str()).chain(system::names());
    let nearest = names::nearest(variable, known);
    Error::NotFound { kind: "setting", name: variable.into(), nearest }
}
