//! Who may log in: what a server has to know of a role before it has a session.

use std::sync::Arc;

use chrono::Utc;

use crate::api::database::Database;
use crate::api::session::Session;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::{Thing, not_allowed};
use crate::catalog::roles::{FIRST, PredefinedRole};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::scram::Verifier;

/// A role that somebody would log in as.
#[derive(Debug, Clone)]
pub struct Login {
    id: u32,
    can_login: bool,
    is_superuser: bool,
    connections: i32,
    verifier: Option<Verifier>,
    valid_until: Option<i64>,
}

impl Login {
    /// Whether the role may log in at all.
    pub fn can_login(&self) -> bool {
        self.can_login
    }

    /// What is kept of its password; `None` where it has none that holds.
    pub fn verifier(&self) -> Option<&Verifier> {
        let has_ended = self.valid_until.is_some_and(|until| Utc::now().timestamp_micros() > until);
        self.verifier.as_ref().filter(|_| !has_ended)
    }
}

impl Database {
    /// The role of a name, to log in as.
    pub fn login(&self, name: &str) -> Option<Login> {
        let state = self.inner.catalog.state();
        let role = state.roles().get(name)?;
        Some(Login {
            id: role.id,
            can_login: role.can_login,
            is_superuser: role.is_superuser,
            connections: role.connections,
            verifier: role.verifier.clone(),
            valid_until: role.valid_until,
        })
    }

    /// Whether there is no role but the one that a database begins with, as it was then.
    pub fn has_no_roles(&self) -> bool {
        self.inner.catalog.state().roles().is_untouched()
    }

    /// Whether a role that may log in has a password.
    pub fn has_passwords(&self) -> bool {
        self.inner.catalog.state().roles().has_passwords()
    }

    /// A session of a role. [`Database::session`] is one of the role that a database begins with.
    ///
    /// # Errors
    /// The role has as many sessions as it may, or must not connect.
    pub fn session_of(&self, login: &Login) -> Result<Session> {
        let mut turn = None;
        if !login.is_superuser {
            let state = self.inner.catalog.state();
            if !state.may(login.id).with(&Thing::Database).has(Privileges::CONNECT) {
                return Err(not_allowed("permission denied for database: the role has no CONNECT privilege"));
            }
            if let Ok(most) = u32::try_from(login.connections) {
                turn = self.inner.sessions_of_roles.begin(login.id, most);
                if turn.is_none() {
                    return Err(Error::execution(
                        SqlState::TooManyConnections,
                        "too many connections for the role; ALTER ROLE .. CONNECTION LIMIT says how many it may have",
                    ));
                }
            }
        }
        Ok(Session::of_role(Arc::clone(&self.inner), login.id, turn))
    }
}

impl Session {
    /// The name of the role that the session is of; empty where it is gone.
    pub fn user(&self) -> String {
        let state = self.inner.catalog.state();
        state.roles().by_id(self.planner().0.who().session).map_or_else(String::new, |(name, _)| name.to_string())
    }

    /// Whether the current role may do everything, or is a member of the one of PostgreSQL's roles that is for seeing
    /// what others do (`pg_read_all_stats`).
    pub fn sees_others(&self) -> bool {
        let user = self.planner().0.who().user;
        self.inner.catalog.state().may(user).act_as_predefined(PredefinedRole::ReadAllStats)
    }

    /// The same of `pg_signal_backend`, which is for cancelling what others run.
    pub fn cancels_others(&self) -> bool {
        let user = self.planner().0.who().user;
        self.inner.catalog.state().may(user).act_as_predefined(PredefinedRole::SignalBackend)
    }

    /// Fails where the session's role has been taken away.
    ///
    /// # Errors
    /// So it is.
    pub(super) fn may_work(&self) -> Result<()> {
        let user = self.shared.user;
        if user == FIRST || self.inner.catalog.state().roles().by_id(user).is_some() {
            return Ok(());
        }
        Err(Error::plan(SqlState::InsufficientPrivilege, "permission denied: the session's role is gone"))
    }
}
