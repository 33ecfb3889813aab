//! Who there is: roles, their memberships, and what functions are told of both.

use super::layout::{Row, Value};
use crate::catalog::CatalogState;
use crate::catalog::roles::{FIRST, Role};

/// What stands in place of a password.
const HIDDEN: &str = "********";

fn moment(at: Option<i64>) -> Value {
    at.map_or(Value::Null, Value::Moment)
}

/// What `pg_roles` and `pg_authid` have both. Who may do everything may do that too.
fn role_row(name: &str, role: &Role, password: Value) -> Row {
    vec![
        ("oid", role.id.into()),
        ("rolname", name.into()),
        ("rolsuper", role.is_superuser.into()),
        ("rolinherit", role.inherits.into()),
        ("rolcreaterole", false.into()),
        ("rolcreatedb", false.into()),
        ("rolcanlogin", role.can_login.into()),
        ("rolreplication", false.into()),
        ("rolconnlimit", i64::from(role.connections).into()),
        ("rolpassword", password),
        ("rolvaliduntil", moment(role.valid_until)),
        ("rolbypassrls", (role.id == FIRST).into()),
    ]
}

/// Settings that a role's sessions begin with.
fn settings(role: &Role) -> Value {
    match role.settings.is_empty() {
        true => Value::Null,
        false => Value::Texts(role.settings.iter().map(|(name, value)| format!("{name}={value}")).collect()),
    }
}

fn verifier(role: &Role) -> Value {
    role.verifier.as_ref().map(ToString::to_string).into()
}

/// `pg_roles`.
pub(super) fn pg_roles(state: &CatalogState) -> Vec<Row> {
    let row = |(name, role): (&str, &Role)| {
        let mut row = role_row(name, role, HIDDEN.into());
        row.push(("rolconfig", settings(role)));
        row
    };
    state.roles().all().map(row).collect()
}

/// `pg_authid`, which superusers alone read: all who log in.
pub(super) fn pg_authid(state: &CatalogState) -> Vec<Row> {
    state.roles().all().map(|(name, role)| role_row(name, role, verifier(role))).collect()
}

/// `pg_auth_members`.
pub(super) fn pg_auth_members(state: &CatalogState) -> Vec<Row> {
    let of = |role: &Role| {
        let (id, groups) = (role.id, role.member_of.clone());
        groups.into_iter().map(move |(group, with_admin)| {
            vec![
                ("roleid", group.into()),
                ("member", id.into()),
                ("grantor", FIRST.into()),
                ("admin_option", with_admin.into()),
            ]
        })
    };
    state.roles().all().flat_map(|(_, role)| of(role)).collect()
}

fn user_row(name: &str, role: &Role, password: Value) -> Row {
    vec![
        ("usename", name.into()),
        ("usesysid", role.id.into()),
        ("usecreatedb", false.into()),
        ("usesuper", role.is_superuser.into()),
        ("userepl", false.into()),
        ("usebypassrls", (role.id == FIRST).into()),
        ("passwd", password),
        ("valuntil", moment(role.valid_until)),
        ("useconfig", settings(role)),
    ]
}

/// `pg_user`.
pub(super) fn pg_user(state: &CatalogState) -> Vec<Row> {
    let users = state.roles().all().filter(|(_, role)| role.can_login);
    users.map(|(name, role)| user_row(name, role, HIDDEN.into())).collect()
}

/// `pg_shadow`.
pub(super) fn pg_shadow(state: &CatalogState) -> Vec<Row> {
    let users = state.roles().all().filter(|(_, role)| role.can_login);
    users.map(|(name, role)| user_row(name, role, verifier(role))).collect()
}

/// `pg_group`.
pub(super) fn pg_group(state: &CatalogState) -> Vec<Row> {
    let groups = state.roles().all().filter(|(_, role)| !role.can_login);
    let members = |group: u32| {
        let all = state.roles().all().filter(move |(_, role)| role.member_of.contains_key(&group));
        all.map(|(_, role)| i64::from(role.id)).collect()
    };
    let row = |(name, role): (&str, &Role)| {
        vec![("groname", name.into()), ("grosysid", role.id.into()), ("grolist", Value::Numbers(members(role.id)))]
    };
    groups.map(row).collect()
}
