//! A session's settings: SET, SET LOCAL, RESET, and what ends with a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::timezone::Tz;
use datafusion_common::config::{ConfigField, ConfigOptions};
use datafusion_expr::SetVariable;
use datafusion_expr::logical_plan::ResetVariable;

use crate::api::session::Session;
use crate::catalog::placement;
use crate::error::codes::SqlState;
use crate::error::{Error, Result, names};
use crate::plan::planner::Planner;
use crate::run::config;
use crate::run::outcome::{Done, Outcome};
use crate::run::statement::RunningStatement;
use crate::run::system;
use crate::run::transaction::SettingsAt;

/// Tells settings apart in the plan cache's keys; 0 are the defaults.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl Session {
    /// Functions and settings, and a number that tells settings apart.
    pub(super) fn planner(&self) -> (Arc<Planner>, u64) {
        self.settings().now
    }

    pub(super) fn settings(&self) -> SettingsAt {
        self.shared.settings.read().clone()
    }

    /// Has other settings from now on.
    pub(super) fn put_settings(&self, settings: SettingsAt) {
        *self.shared.settings.write() = settings;
    }

    /// A transaction was committed: what was local to it is over.
    pub(super) fn end_local_settings(&self) {
        let mut settings = self.shared.settings.write();
        if let Some(after) = settings.after_commit.take() {
            settings.now = after;
        }
    }

    pub(super) fn set(&self, set: &SetVariable, is_local: bool, running: &RunningStatement) -> Result<Outcome> {
        if is_local && running.transaction.as_ref().is_none_or(|of| of.is_implicit) {
            return Err(Error::transaction(
                SqlState::NoActiveSqlTransaction,
                "SET LOCAL is for transactions; BEGIN one first, or write SET",
            ));
        }
        self.change_settings(is_local, |options| {
            let variable = config::full_name(&set.variable);
            if variable == "nearside.placement" {
                placement::spec::Spec::parse(&set.value)?;
            }
            if variable == "datafusion.execution.time_zone" {
                check_time_zone(&set.value)?;
            }
            let value = config::value_of(&variable, &set.value, options);
            options.set(&variable, &value).map_err(|e| setting_error(&variable, e.into(), options))?;
            config::settle(&variable, options)
        })?;
        Ok(Outcome::Done(Done::new("SET")))
    }

    pub(super) fn reset(&self, reset: &ResetVariable) -> Result<Outcome> {
        let variable = config::full_name(&reset.variable);
        let defaults = self.inner.default_planner();
        let default = config::entries(defaults.config_options()).into_iter().find(|e| e.key == variable);
        self.change_settings(false, |options| {
            let done = match default.as_ref().map(|e| &e.value) {
                Some(Some(value)) => options.set(&variable, value),
                // Its default is to be unset.
                Some(None) => ConfigField::reset(options, &variable),
                None => {
                    return Err(setting_error(
                        &variable,
                        Error::plan(SqlState::UndefinedObject, "there is no such setting"),
                        options,
                    ));
                }
            };
            done.map_err(|e| setting_error(&variable, e.into(), options))?;
            match variable.as_str() {
                "nearside.scheduling" => config::reset_scheduling(options, defaults.config_options()),
                _ => config::settle(&variable, options),
            }
        })?;
        Ok(Outcome::Done(Done::new("RESET")))
    }

    /// Changes settings, for the rest of the transaction alone where that is said.
    pub(super) fn change_settings(
        &self,
        is_local: bool,
        change: impl Fn(&mut ConfigOptions) -> Result<()>,
    ) -> Result<()> {
        let changed = |planner: &Planner| {
            let planner = planner.changed(&change)?;
            Ok::<_, Error>((Arc::new(planner), NUMBERS.fetch_add(1, Ordering::Relaxed)))
        };
        let mut settings = self.shared.settings.write();
        let now = changed(&settings.now.0)?;
        settings.after_commit = match (settings.after_commit.take(), is_local) {
            (None, true) => Some(settings.now.clone()),
            // It outlasts what is local.
            (Some(after), false) => Some(changed(&after.0)?),
            (after, _) => after,
        };
        settings.now = now;
        Ok(())
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

fn setting_error(variable: &str, error: Error, options: &ConfigOptions) -> Error {
    let entries = config::entries(options);
    if entries.iter().any(|e| e.key == variable) {
        return Error::Setting(format!("setting '{variable}': {error}"));
    }
    let known = entries.iter().map(|e| e.key.as_str()).chain(system::names());
    let nearest = names::nearest(variable, known);
    Error::NotFound { kind: "setting", name: variable.into(), nearest }
}
