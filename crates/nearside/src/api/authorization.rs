//! SET ROLE and SET SESSION AUTHORIZATION: as whom a session goes on.
//!
//! As PostgreSQL has it both are settings: they go back with a transaction that is rolled back. A session may become
//! any role that the one it is of is a member of, and of any role where the one that has logged in is a superuser.

use std::sync::Arc;

use crate::api::session::Session;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::{Thing, not_allowed};
use crate::error::codes::{Message, SqlState};
use crate::error::{Error, Result};
use crate::plan::planner::Who;
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{RoleName, RoleStatement};
use crate::statements::roles;

impl Session {
    /// Carries out a statement about roles, of which some are about the session.
    ///
    /// # Errors
    /// As [`roles::run`]; a role that the session may not become.
    pub(super) fn about_roles(&self, statement: &RoleStatement, running: &Arc<RunningStatement>) -> Result<Done> {
        match statement {
            RoleStatement::Reset { of_session } => {
                match of_session {
                    true => self.become_session_of(None, false, running)?,
                    false => self.become_role(None, false, running)?,
                };
                Ok(Done::new("RESET"))
            }
            RoleStatement::SetRole(role, is_local) => self.become_role(role.as_ref(), *is_local, running),
            RoleStatement::SetSession(role, is_local) => self.become_session_of(role.as_ref(), *is_local, running),
            other => roles::run(other, running),
        }
    }

    /// An error without the values that it shows, where who runs the statement may not read them.
    pub(super) fn as_may_be_told(&self, error: Error) -> Error {
        let Error::Execution(message) = &error else { return error };
        let Some(shows) = message.shows() else { return error };
        let state = self.inner.catalog.state();
        let may = state.may(self.planner().0.who().user);
        let (schema, table) = shows.table.clone();
        let columns = shows.columns.iter().cloned().collect();
        match may.do_everything() || may.with_columns(&Thing::Relation(schema, table), Privileges::SELECT, &columns) {
            true => error,
            false => {
                let without = Message::new(error.code(), shows.without.clone());
                Error::Execution(match message.about() {
                    Some(about) => without.naming(about.clone()),
                    None => without,
                })
            }
        }
    }

    /// As it has logged in.
    pub(super) fn reset_authorization(&self) -> Result<()> {
        let user = self.shared.user;
        self.run_as(Who { session: user, user }, false)
    }

    fn become_role(&self, role: Option<&RoleName>, is_local: bool, running: &RunningStatement) -> Result<Done> {
        let who = running.planner.who();
        let user = match role {
            Some(role) => known(role, running)?,
            None => who.session,
        };
        let all = running.catalog.roles();
        if !all.is_superuser(who.session) && !all.is_member(who.session, user) {
            let name = all.by_id(user).map_or_else(String::new, |(name, _)| name.to_string());
            return Err(not_allowed(format!("permission denied to set role \"{name}\"")));
        }
        self.run_as(Who { user, ..who }, is_local)?;
        Ok(Done::new("SET"))
    }

    fn become_session_of(&self, role: Option<&RoleName>, is_local: bool, running: &RunningStatement) -> Result<Done> {
        let user = match role {
            Some(role) => known(role, running)?,
            None => self.shared.user,
        };
        let all = running.catalog.roles();
        if user != self.shared.user && !all.is_superuser(self.shared.user) {
            let name = all.by_id(user).map_or_else(String::new, |(name, _)| name.to_string());
            return Err(not_allowed(format!("permission denied to set session authorization \"{name}\"")));
        }
        self.run_as(Who { session: user, user }, is_local)?;
        Ok(Done::new("SET"))
    }
}

/// The number of a role.
fn known(role: &RoleName, running: &RunningStatement) -> Result<u32> {
    roles::id(role, running).map_err(|missing| Error::plan(SqlState::InvalidParameterValue, missing.to_string()))
}
