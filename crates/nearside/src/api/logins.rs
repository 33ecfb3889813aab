//! Who may log in: what a server has to know of a role before it has a session.

use std::sync::Arc;

use chrono::Utc;

use crate::api::database::Database;
use crate::api::session::Session;
use crate::catalog::roles::FIRST;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::scram::Verifier;

/// A role that somebody would log in as.
#[derive(Debug, Clone)]
pub struct Login {
    id: u32,
    can_login: bool,
    is_superuser: bool,
    verifier: Option<Verifier>,
    valid_until: Option<i64>,
}

impl Login {
    /// Whether the role may log in at all.
    pub fn can_login(&self) -> bool {
        self.can_login
    }

    /// Whether it may do everything. What others may is not told apart, so they have to be kept out.
    pub fn is_superuser(&self) -> bool {
        self.is_superuser
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
    pub fn session_of(&self, login: &Login) -> Session {
        Session::new(Arc::clone(&self.inner), login.id)
    }
}

impl Session {
    /// The name of the role that has logged in; empty where it is gone.
    pub fn user(&self) -> String {
        let state = self.inner.catalog.state();
        state.roles().by_id(self.shared.user).map_or_else(String::new, |(name, _)| name.to_string())
    }

    /// Fails where the session's role has been taken away, or what it may do: others are not told apart by that.
    ///
    /// # Errors
    /// So it is.
    pub(super) fn may_work(&self) -> Result<()> {
        let user = self.shared.user;
        if user == FIRST {
            return Ok(());
        }
        match self.inner.catalog.state().roles().by_id(user) {
            Some((_, role)) if role.is_superuser => Ok(()),
            Some((name, _)) => Err(Error::plan(
                SqlState::InsufficientPrivilege,
                format!("permission denied: role '{name}' is no superuser any more, and only superusers work here yet"),
            )),
            None => Err(Error::plan(SqlState::InsufficientPrivilege, "permission denied: the session's role is gone")),
        }
    }
}
