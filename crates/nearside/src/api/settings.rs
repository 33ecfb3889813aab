//! A session's settings: SET, SET LOCAL, RESET, and what ends with a transaction.

use std::sync::Arc;

use datafusion_common::config::{ConfigExtension, ConfigField, ConfigOptions};
use sqlparser::ast;

use crate::api::session::Session;
use crate::api::starts;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::{May, Thing, not_allowed};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::planner::{Planner, Who};
use crate::run::client;
use crate::run::config;
use crate::run::options::NearsideOptions;
use crate::run::outcome::{Done, Outcome};
use crate::run::sequences::as_needed;
use crate::run::session_settings::{put, setting_error};
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::run::system;
use crate::run::transaction::SettingsAt;
use crate::sql::SetConfig;
use crate::views;

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

    /// SHOW of ours and of what clients know; `None` for what DataFusion shows.
    pub(super) fn shown(&self, variable: &[ast::Ident], running: &RunningStatement) -> Result<Option<ResultStream>> {
        let words: Vec<&str> = variable.iter().map(|word| word.value.as_str()).collect();
        let planner = &running.planner;
        if let [all] = variable
            && all.value.eq_ignore_ascii_case("all")
        {
            return views::show_all(&self.inner, planner, &running.of_session()).map(Some);
        }
        if let Some(shown) = client::shown(&words.join(" "), planner.config_options(), &running.of_session()) {
            return views::show_client(&shown).map(Some);
        }
        // DataFusion shows its own settings only.
        let full = config::full_name(&words.join("."));
        let variable: Vec<ast::Ident> = full.split('.').map(ast::Ident::new).collect();
        match variable.first() {
            Some(first) if first.value == NearsideOptions::PREFIX => {
                views::show(&variable, &self.inner, planner).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// SET of what the planner does not read: settings that clients know, lists, DEFAULT, NAMES; `None` for others.
    pub(super) fn set_for_client(
        &self,
        set: &ast::Set,
        is_local: bool,
        running: &RunningStatement,
    ) -> Result<Option<Outcome>> {
        let (name, values) = match set {
            ast::Set::SetNames { charset_name, .. } => {
                let value = charset_name.value.as_str();
                return self.set("client_encoding", value, is_local, running).map(Some);
            }
            ast::Set::SingleAssignment { variable, values, .. } => (variable.to_string(), values),
            _ => return Ok(None),
        };
        system::is_for_session("SET", &name)?;
        let is_default = |value: &ast::Expr| match value {
            ast::Expr::Identifier(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"),
            _ => false,
        };
        if let [value] = values.as_slice()
            && is_default(value)
        {
            local_has_transaction(is_local, running)?;
            self.reset(&name, is_local)?;
            return Ok(Some(Outcome::Done(Done::new("SET"))));
        }
        if name.eq_ignore_ascii_case("search_path") {
            // Each is one name, whatever it has in it.
            let one = |value: &ast::Expr| match value {
                ast::Expr::Value(value) => as_needed(&value.value.clone().into_string().unwrap_or_default()),
                other => other.to_string(),
            };
            let value = values.iter().map(one).collect::<Vec<_>>().join(", ");
            return self.set(&name, &value, is_local, running).map(Some);
        }
        if client::fixed_of(&name).is_none() {
            return Ok(None);
        }
        let text = |value: &ast::Expr| match value {
            ast::Expr::Value(value) => value.value.clone().into_string().unwrap_or_else(|| value.to_string()),
            ast::Expr::Identifier(word) => word.value.clone(),
            other => other.to_string(),
        };
        let value = values.iter().map(text).collect::<Vec<_>>().join(", ");
        self.set(&name, &value, is_local, running).map(Some)
    }

    /// `SELECT set_config(..)`.
    pub(super) fn set_config(&self, set: &SetConfig, running: &RunningStatement) -> Result<()> {
        system::is_for_session("SET", &set.name)?;
        self.set(&set.name, &set.value, set.is_local, running).map(|_| ())
    }

    /// Every setting as sessions start with it.
    pub(super) fn reset_all(&self) -> Result<()> {
        let defaults = Arc::clone(&self.shared.defaults);
        self.change_settings(false, |options| {
            *options = ConfigOptions::clone(defaults.config_options());
            Ok(())
        })
    }

    pub(super) fn set(&self, name: &str, value: &str, is_local: bool, running: &RunningStatement) -> Result<Outcome> {
        local_has_transaction(is_local, running)?;
        if let Some(fixed) = client::fixed_of(name) {
            fixed.set(Some(value))?;
            return Ok(Outcome::Done(Done::new("SET")));
        }
        may_set(name, running)?;
        self.change_settings(is_local, |options| put(name, value, options))?;
        Ok(Outcome::Done(Done::new("SET")))
    }

    pub(super) fn reset(&self, name: &str, is_local: bool) -> Result<Outcome> {
        let inner = &self.inner;
        may_set_as(name, &inner.catalog.state().may(self.planner().0.who().user))?;
        if let Some(fixed) = client::fixed_of(name) {
            fixed.set(None)?;
            return Ok(Outcome::Done(Done::new("RESET")));
        }
        let variable = config::full_name(name);
        let defaults = Arc::clone(&self.shared.defaults);
        let default = config::entries(defaults.config_options()).into_iter().find(|e| e.key == variable);
        self.change_settings(is_local, |options| {
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

    /// Runs what follows as others, for the rest of the transaction alone where that is said.
    pub(super) fn run_as(&self, who: Who, is_local: bool) -> Result<()> {
        self.change_planner(is_local, |planner| Ok(planner.run_as(who)))
    }

    /// Changes settings, for the rest of the transaction alone where that is said.
    pub(super) fn change_settings(
        &self,
        is_local: bool,
        change: impl Fn(&mut ConfigOptions) -> Result<()>,
    ) -> Result<()> {
        self.change_planner(is_local, |planner| planner.changed(&change))
    }

    fn change_planner(&self, is_local: bool, change: impl Fn(&Planner) -> Result<Planner>) -> Result<()> {
        let changed = |planner: &Planner| Ok::<_, Error>((Arc::new(change(planner)?), starts::next_number()));
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

/// Refuses a setting that who runs the statement may not change.
fn may_set(name: &str, running: &RunningStatement) -> Result<()> {
    may_set_as(name, &running.may())
}

fn may_set_as(name: &str, may: &May<'_>) -> Result<()> {
    let variable = config::full_name(name);
    if !config::is_limit(&variable) {
        return Ok(());
    }
    match may.with(&Thing::Setting(variable.clone())).has(Privileges::SET) {
        true => Ok(()),
        false => Err(not_allowed(format!("permission denied to set parameter \"{variable}\""))),
    }
}

/// SET LOCAL is for what ends.
fn local_has_transaction(is_local: bool, running: &RunningStatement) -> Result<()> {
    match is_local && running.transaction.as_ref().is_none_or(|of| of.is_implicit) {
        true => Err(Error::transaction(
            SqlState::NoActiveSqlTransaction,
            "SET LOCAL is for transactions; BEGIN one first, or write SET",
        )),
        false => Ok(()),
    }
}
