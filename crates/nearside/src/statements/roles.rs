//! CREATE, ALTER and DROP ROLE, and memberships.
//!
//! All of it is for superusers, but for one's own password and own settings, and for memberships in roles that one may
//! make others members of.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable};

use crate::catalog::rights::not_allowed;
use crate::catalog::roles::{FIRST, NUMBERS_FROM, Role, Roles};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::outcome::Done;
use crate::run::prepare::constants;
use crate::run::session_settings as settings;
use crate::run::statement::RunningStatement;
use crate::scram::Verifier;
use crate::sql::{RoleName, RoleOptions, RoleSetting, RoleStatement};

/// Carries out a statement about roles.
///
/// # Errors
/// Names that are taken or that there are not, what would take everything from the first role, what is not done.
pub(crate) fn run(statement: &RoleStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    may_run(statement, running)?;
    match statement {
        RoleStatement::Create { name, is_user, options } => create(name, *is_user, options, running),
        RoleStatement::Alter { role, options } => alter(role, options, running),
        RoleStatement::Rename { name, to } => {
            if own(running)? == *name {
                return Err(Error::Unsupported("the session's own role cannot be renamed; log in as another".into()));
            }
            change(running, |roles| roles.rename(name, to))?;
            Ok(Done::new("ALTER ROLE"))
        }
        RoleStatement::Drop { roles, if_exists } => drop_all(roles, *if_exists, running),
        RoleStatement::Grant { groups, members, with_admin } => {
            let (groups, members) = (names(groups, running)?, names(members, running)?);
            change(running, |roles| each(&groups, &members, |group, member| roles.join(member, group, *with_admin)))?;
            Ok(Done::new("GRANT ROLE"))
        }
        RoleStatement::Revoke { groups, members, admin_alone } => {
            let (groups, members) = (names(groups, running)?, names(members, running)?);
            change(running, |roles| {
                each(&groups, &members, |group, member| leave(roles, group, member, *admin_alone))
            })?;
            Ok(Done::new("REVOKE ROLE"))
        }
        RoleStatement::Settings { role, change: to } => {
            let name = name(role, running)?;
            if let RoleSetting::Set(setting, value) = to {
                settings::check(setting, value, &running.planner)?;
            }
            change(running, |roles| {
                roles.change(&name, |role| match to {
                    RoleSetting::Set(setting, value) => drop(role.settings.insert(full(setting), value.clone())),
                    RoleSetting::Reset(setting) => drop(role.settings.remove(&full(setting))),
                    RoleSetting::ResetAll => role.settings.clear(),
                })
            })?;
            Ok(Done::new("ALTER ROLE"))
        }
        RoleStatement::Reset { .. } | RoleStatement::SetRole(..) | RoleStatement::SetSession(..) => {
            Err(Error::Internal("SET ROLE is a session's".into()))
        }
    }
}

/// The name under which a setting is kept.
fn full(setting: &str) -> String {
    config::full_name(setting)
}

/// Fails where the role that runs a statement may not.
fn may_run(statement: &RoleStatement, running: &RunningStatement) -> Result<()> {
    let may = running.may();
    if may.do_everything() {
        return Ok(());
    }
    let roles = running.catalog.roles();
    let is_self = |role: &RoleName| Ok::<_, Error>(id(role, running)? == running.user);
    match statement {
        RoleStatement::Alter { role, options } => {
            let rest = RoleOptions { password: None, ..RoleOptions::clone(options) };
            match is_self(role)? && rest == RoleOptions::default() {
                true => Ok(()),
                false => Err(not_allowed("permission denied: must be superuser to alter roles")),
            }
        }
        RoleStatement::Settings { role, change } => {
            let limits = match change {
                RoleSetting::Set(setting, _) | RoleSetting::Reset(setting) => config::is_limit(&full(setting)),
                RoleSetting::ResetAll => true,
            };
            match is_self(role)? && !limits {
                true => Ok(()),
                false => Err(not_allowed(
                    "permission denied: must be superuser to change settings of other roles, and limits",
                )),
            }
        }
        RoleStatement::Grant { groups, .. } | RoleStatement::Revoke { groups, .. } => {
            groups.iter().try_for_each(|group| {
                let of = id(group, running)?;
                match roles.may_admin(running.user, of) {
                    true => Ok(()),
                    false => {
                        let name = name(group, running)?;
                        Err(not_allowed(format!("must have admin option on role \"{name}\"")))
                    }
                }
            })
        }
        _ => Err(not_allowed("permission denied: must be superuser to create, rename and drop roles")),
    }
}

/// The number of a role that a statement names.
///
/// # Errors
/// There is none.
pub(crate) fn id(role: &RoleName, running: &RunningStatement) -> Result<u32> {
    match role {
        RoleName::Named(name) => Ok(running.catalog.roles().found(name)?.id),
        RoleName::Own => Ok(running.user),
        RoleName::OfSession => Ok(running.planner.who().session),
    }
}

fn each(groups: &[String], members: &[String], mut of: impl FnMut(&str, &str) -> Result<()>) -> Result<()> {
    groups.iter().try_for_each(|group| members.iter().try_for_each(|member| of(group, member)))
}

/// Changes who there is.
fn change(running: &RunningStatement, change: impl FnOnce(&mut Roles) -> Result<()>) -> Result<()> {
    running.home.commit(|state| change(state.roles_mut()))
}

/// The name of the role that runs a statement.
fn own(running: &RunningStatement) -> Result<String> {
    let name = running.catalog.roles().by_id(running.user).map(|(name, _)| name.to_string());
    name.ok_or_else(|| Error::plan(SqlState::UndefinedObject, "the session's role is gone"))
}

fn name(role: &RoleName, running: &RunningStatement) -> Result<String> {
    match role {
        RoleName::Named(name) => Ok(name.clone()),
        RoleName::Own => own(running),
        RoleName::OfSession => {
            let found = running.catalog.roles().by_id(running.planner.who().session).map(|(name, _)| name.to_string());
            found.ok_or_else(|| Error::plan(SqlState::UndefinedObject, "the session's role is gone"))
        }
    }
}

fn names(roles: &[RoleName], running: &RunningStatement) -> Result<Vec<String>> {
    roles.iter().map(|role| name(role, running)).collect()
}

/// What is kept of a password; nothing of one that is empty, which nobody could log in with.
fn verifier(password: &str) -> Result<Option<Verifier>> {
    if password.is_empty() {
        return Ok(None);
    }
    if let Some(verifier) = Verifier::parse(password) {
        return Ok(Some(verifier));
    }
    let is_md5 = password.len() == 35 && password.starts_with("md5");
    if is_md5 && password[3..].bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Error::Unsupported("passwords of MD5 are not supported; give the password itself".into()));
    }
    match Verifier::of_password(password) {
        Some(verifier) => Ok(Some(verifier)),
        None => Err(Error::Internal("the system gives no random bytes".into())),
    }
}

/// A moment in microseconds, as a cast reads it; `None` for infinity.
fn moment(text: &str, running: &RunningStatement) -> Result<Option<i64>> {
    if text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    let written = Expr::Literal(ScalarValue::Utf8View(Some(text.into())), None);
    let to = DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
    let values = constants(vec![written.cast_to(&to, &DFSchema::empty())?], running)?;
    match values.first() {
        Some(ScalarValue::TimestampNanosecond(Some(at), _)) => Ok(Some(at.div_euclid(1000))),
        _ => Err(Error::plan(SqlState::InvalidDatetimeFormat, format!("'{text}' is no timestamp"))),
    }
}

/// What options say, put together before anything is changed: a password takes its time.
fn settings(options: &RoleOptions, running: &RunningStatement) -> Result<impl Fn(&mut Role) + use<>> {
    let password = match &options.password {
        Some(Some(password)) => Some(verifier(&password.0)?),
        Some(None) => Some(None),
        None => None,
    };
    let valid_until = options.valid_until.as_ref().map(|text| moment(text, running)).transpose()?;
    let (is_superuser, can_login) = (options.is_superuser, options.can_login);
    let (inherits, connections) = (options.inherits, options.connections);
    Ok(move |role: &mut Role| {
        role.is_superuser = is_superuser.unwrap_or(role.is_superuser);
        role.can_login = can_login.unwrap_or(role.can_login);
        role.inherits = inherits.unwrap_or(role.inherits);
        role.connections = connections.unwrap_or(role.connections);
        if let Some(verifier) = &password {
            role.verifier.clone_from(verifier);
        }
        role.valid_until = valid_until.unwrap_or(role.valid_until);
    })
}

fn create(name: &str, is_user: bool, options: &RoleOptions, running: &Arc<RunningStatement>) -> Result<Done> {
    let number = u32::try_from(running.home.next_id()).ok().and_then(|id| NUMBERS_FROM.checked_add(id));
    let number = number.ok_or_else(|| Error::plan(SqlState::ProgramLimitExceeded, "there are no numbers left"))?;
    let mut role = Role::new(number);
    role.can_login = is_user;
    settings(options, running)?(&mut role);
    let of = |roles: &Option<Vec<RoleName>>| names(roles.as_deref().unwrap_or_default(), running);
    let (groups, members, admins) = (of(&options.groups)?, of(&options.members)?, of(&options.admins)?);
    change(running, |roles| {
        roles.add(name, role)?;
        groups.iter().try_for_each(|group| roles.join(name, group, false))?;
        members.iter().try_for_each(|member| roles.join(member, name, false))?;
        admins.iter().try_for_each(|member| roles.join(member, name, true))
    })?;
    Ok(Done::new("CREATE ROLE"))
}

fn alter(role: &RoleName, options: &RoleOptions, running: &Arc<RunningStatement>) -> Result<Done> {
    let name = name(role, running)?;
    let known = running.catalog.roles().found(&name)?;
    if known.is_predefined() {
        let message = format!("role '{name}' is the system's, and stays as it is; GRANT it to others");
        return Err(Error::plan(SqlState::ReservedName, message));
    }
    let is_first = known.id == FIRST;
    if is_first && options.is_superuser == Some(false) {
        let message = format!("role '{name}' is the one that a database begins with, and stays a superuser");
        return Err(Error::Unsupported(message));
    }
    let settings = settings(options, running)?;
    change(running, |roles| roles.change(&name, settings))?;
    Ok(Done::new("ALTER ROLE"))
}

fn drop_all(roles: &[RoleName], if_exists: bool, running: &Arc<RunningStatement>) -> Result<Done> {
    let own = own(running)?;
    let of_session = name(&RoleName::OfSession, running)?;
    let names = names(roles, running)?;
    running.home.commit(|state| {
        for name in &names {
            let id = match state.roles().found(name) {
                Ok(role) => role.id,
                Err(_) if if_exists => continue,
                Err(missing) => return Err(missing),
            };
            if *name == own || *name == of_session {
                return Err(Error::plan(SqlState::ObjectInUse, "current user cannot be dropped"));
            }
            if id == FIRST {
                let message = format!("role '{name}' is the one that a database begins with, and cannot be dropped");
                return Err(Error::plan(SqlState::DependentObjectsStillExist, message));
            }
            if state.roles().found(name)?.is_predefined() {
                let message = format!("role '{name}' is the system's, and cannot be dropped");
                return Err(Error::plan(SqlState::DependentObjectsStillExist, message));
            }
            if let Some(thing) = state.things_of(id).into_iter().chain(state.things_naming(id)).next() {
                let does = if state.owner_of(&thing) == id { "owns" } else { "has privileges for" };
                let message = format!(
                    "role \"{name}\" cannot be dropped because some objects depend on it: it {does} {}; REASSIGN OWNED \
                     gives what it owns to another, and DROP OWNED takes what it was given",
                    thing.shown(state)
                );
                return Err(Error::plan(SqlState::DependentObjectsStillExist, message));
            }
            state.roles_mut().remove(name);
        }
        Ok(())
    })?;
    Ok(Done::new("DROP ROLE"))
}

fn leave(roles: &mut Roles, group: &str, member: &str, admin_alone: bool) -> Result<()> {
    let group = roles.found(group)?.id;
    roles.change(member, |role| match admin_alone {
        true => {
            if let Some(with_admin) = role.member_of.get_mut(&group) {
                *with_admin = false;
            }
        }
        false => {
            role.member_of.remove(&group);
        }
    })
}
