//! [`Roles`]: who there is.
//!
//! One role is there from the beginning ([`FIRST`]): it may do everything, cannot be taken away, and is who works with
//! a database that nobody has logged in to.
//!
//! # Invariants
//! - Numbers of roles are given once: who has the number of a role that is gone is nobody.
//! - Memberships have no circles, and are of roles that there are.
//! - A password is here as its [`Verifier`] alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::CatalogState;
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::scram::Verifier;

/// The number of the role that is there from the beginning.
pub(crate) const FIRST: u32 = 10;
/// Its name at the beginning.
const FIRST_NAME: &str = "nearside";
/// Numbers of other roles begin here, as PostgreSQL's do.
pub(crate) const NUMBERS_FROM: u32 = 16_384;

/// Roles that are there from the beginning for who is given them: members of one may do what it is for. Names and
/// numbers are PostgreSQL's, but for that of placement, which PostgreSQL has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PredefinedRole {
    /// All of what the next two are for.
    Monitor,
    /// Reading settings that others must not see.
    ReadAllSettings,
    /// Seeing what others do, and what the machine does.
    ReadAllStats,
    /// Cancelling statements of others.
    SignalBackend,
    /// CHECKPOINT.
    Checkpoint,
    /// Reading files of the server's machine.
    ReadServerFiles,
    /// Writing them.
    WriteServerFiles,
    /// Reading all tables.
    ReadAllData,
    /// Writing them.
    WriteAllData,
    /// Placing all tables.
    Placement,
}

const PREDEFINED: [(PredefinedRole, u32, &str); 10] = [
    (PredefinedRole::Monitor, 3373, "pg_monitor"),
    (PredefinedRole::ReadAllSettings, 3374, "pg_read_all_settings"),
    (PredefinedRole::ReadAllStats, 3375, "pg_read_all_stats"),
    (PredefinedRole::SignalBackend, 4200, "pg_signal_backend"),
    (PredefinedRole::Checkpoint, 4544, "pg_checkpoint"),
    (PredefinedRole::ReadServerFiles, 4569, "pg_read_server_files"),
    (PredefinedRole::WriteServerFiles, 4570, "pg_write_server_files"),
    (PredefinedRole::ReadAllData, 6181, "pg_read_all_data"),
    (PredefinedRole::WriteAllData, 6182, "pg_write_all_data"),
    (PredefinedRole::Placement, 16_000, "pg_placement"),
];

impl PredefinedRole {
    fn known(self) -> (u32, &'static str) {
        let known = PREDEFINED.iter().find(|(role, ..)| *role == self);
        known.map_or((0, ""), |(_, id, name)| (*id, name))
    }

    /// Its number.
    pub(crate) fn id(self) -> u32 {
        self.known().0
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.known().1
    }
}

/// Which memberships count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    /// All: what a role may become.
    Any,
    /// Those of roles that inherit: what a role has.
    Inherits,
}

/// A role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Role {
    /// Its number.
    pub id: u32,
    /// Whether it may do everything.
    pub is_superuser: bool,
    /// Whether somebody may log in as it.
    pub can_login: bool,
    /// Whether it may do what the roles may that it is a member of.
    pub inherits: bool,
    /// How many may be connected as it; below 0 for any number.
    pub connections: i32,
    /// What is kept of its password.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub verifier: Option<Verifier>,
    /// Up to when its password holds, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<i64>,
    /// The roles that it is a member of, and whether it may make others members.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub member_of: BTreeMap<u32, bool>,
    /// Settings that its sessions begin with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// What was said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Verifiers as their texts.
mod as_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::scram::Verifier;

    pub(super) fn serialize<S: Serializer>(verifier: &Option<Verifier>, to: S) -> Result<S::Ok, S::Error> {
        match verifier {
            Some(verifier) => to.collect_str(verifier),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Verifier>, D::Error> {
        let text = String::deserialize(from)?;
        Verifier::parse(&text).map(Some).ok_or_else(|| D::Error::custom("what is kept of a password is not readable"))
    }
}

/// All roles by their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Role>")]
pub(crate) struct Roles(BTreeMap<String, Role>);

impl Default for Roles {
    fn default() -> Roles {
        let mut first = Role::new(FIRST);
        (first.is_superuser, first.can_login) = (true, true);
        Roles::from(BTreeMap::from([(FIRST_NAME.to_string(), first)]))
    }
}

/// Those that were kept before there were predefined ones have these too.
impl From<BTreeMap<String, Role>> for Roles {
    fn from(mut all: BTreeMap<String, Role>) -> Roles {
        for (_, id, name) in PREDEFINED {
            all.entry(name.to_string()).or_insert_with(|| predefined(id));
        }
        Roles(all)
    }
}

fn predefined(id: u32) -> Role {
    let mut role = Role::new(id);
    if id == PredefinedRole::Monitor.id() {
        let of = [PredefinedRole::ReadAllSettings, PredefinedRole::ReadAllStats];
        role.member_of = of.into_iter().map(|of| (of.id(), false)).collect();
    }
    role
}

impl Role {
    /// One that may do nothing.
    pub(crate) fn new(id: u32) -> Role {
        Role {
            id,
            is_superuser: false,
            can_login: false,
            inherits: true,
            connections: -1,
            verifier: None,
            valid_until: None,
            member_of: BTreeMap::new(),
            settings: BTreeMap::new(),
            comment: None,
        }
    }

    /// Whether it was there from the beginning for others to be members of.
    pub(crate) fn is_predefined(&self) -> bool {
        self.id != FIRST && self.id < NUMBERS_FROM
    }
}

impl Roles {
    /// All in the order of their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Role)> {
        self.0.iter().map(|(name, role)| (name.as_str(), role))
    }

    /// A role by its name.
    pub(crate) fn get(&self, name: &str) -> Option<&Role> {
        self.0.get(name)
    }

    /// A role by its name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn found(&self, name: &str) -> Result<&Role> {
        self.get(name).ok_or_else(|| self.missing(name))
    }

    /// The error for a name that no role has.
    pub(crate) fn missing(&self, name: &str) -> Error {
        let nearest = nearest(name, self.0.keys().map(String::as_str));
        Error::NotFound { kind: "role", name: name.into(), nearest }
    }

    /// A role and its name by its number.
    pub(crate) fn by_id(&self, id: u32) -> Option<(&str, &Role)> {
        self.all().find(|(_, role)| role.id == id)
    }

    /// Changes a role.
    ///
    /// # Errors
    /// There is none of the name.
    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut Role)) -> Result<()> {
        match self.0.get_mut(name) {
            Some(role) => {
                change(role);
                Ok(())
            }
            None => Err(self.missing(name)),
        }
    }

    /// Adds a role.
    ///
    /// # Errors
    /// The name is taken.
    pub(crate) fn add(&mut self, name: &str, role: Role) -> Result<()> {
        if self.0.contains_key(name) {
            return Err(Error::Exists { kind: "role", name: name.into() });
        }
        self.0.insert(name.into(), role);
        Ok(())
    }

    /// Gives a role another name.
    ///
    /// # Errors
    /// There is none, or the new name is taken.
    pub(crate) fn rename(&mut self, name: &str, to: &str) -> Result<()> {
        let role = self.found(name)?.clone();
        self.add(to, role)?;
        self.0.remove(name);
        Ok(())
    }

    /// Says something of a role, or nothing any more.
    pub(crate) fn comment(&mut self, id: u32, text: Option<&str>) {
        if let Some(role) = self.0.values_mut().find(|role| role.id == id) {
            role.comment = text.filter(|text| !text.is_empty()).map(String::from);
        }
    }

    /// Takes a role away, with its memberships and those in it.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
        self.forget_members();
    }

    /// Memberships in what is no role any more are none.
    fn forget_members(&mut self) {
        let known: BTreeSet<u32> = self.0.values().map(|role| role.id).collect();
        self.0.values_mut().for_each(|role| role.member_of.retain(|of, _| known.contains(of)));
    }

    /// Makes a role a member of another.
    ///
    /// # Errors
    /// There is no such role; the other is a member of it.
    pub(crate) fn join(&mut self, member: &str, of: &str, with_admin: bool) -> Result<()> {
        let (id, group) = (self.found(member)?.id, self.found(of)?.id);
        if self.is_member(group, id) {
            let what = format!("role '{of}' is a member of role '{member}', or the same");
            return Err(Error::plan(SqlState::InvalidGrantOperation, what));
        }
        self.change(member, |role| *role.member_of.entry(group).or_default() |= with_admin)
    }

    /// Whether a role is another one, or a member of it, also by way of others.
    pub(crate) fn is_member(&self, member: u32, of: u32) -> bool {
        self.closure(member, Member::Any).contains(&of)
    }

    /// A role and those that it is a member of, also by way of others.
    pub(crate) fn closure(&self, member: u32, which: Member) -> BTreeSet<u32> {
        let mut seen = BTreeSet::from([member]);
        let mut left = vec![member];
        while let Some(id) = left.pop() {
            let counts = |role: &&Role| which == Member::Any || role.inherits;
            let role = self.by_id(id).map(|(_, role)| role).filter(counts);
            left.extend(role.into_iter().flat_map(|role| role.member_of.keys()).filter(|group| seen.insert(**group)));
        }
        seen
    }

    /// Whether a role may do everything.
    pub(crate) fn is_superuser(&self, id: u32) -> bool {
        self.by_id(id).is_some_and(|(_, role)| role.is_superuser)
    }

    /// Whether a role may make others members of another one.
    pub(crate) fn may_admin(&self, id: u32, of: u32) -> bool {
        let admins = |id: &u32| self.by_id(*id).is_some_and(|(_, role)| role.member_of.get(&of) == Some(&true));
        self.is_superuser(id) || self.closure(id, Member::Any).iter().any(admins)
    }

    /// Whether a login with a password is possible.
    pub(crate) fn has_passwords(&self) -> bool {
        self.0.values().any(|role| role.can_login && role.verifier.is_some())
    }

    /// Whether they are those of a new database.
    pub(crate) fn is_untouched(&self) -> bool {
        *self == Roles::default()
    }
}

/// What a transaction has changed of the roles.
#[derive(Debug, Clone)]
pub(crate) struct RolesChange {
    /// As they were when it first changed one.
    pub before: Arc<Roles>,
    /// As it has them.
    pub after: Arc<Roles>,
}

impl RolesChange {
    fn names(&self) -> impl Iterator<Item = &String> {
        let all: BTreeSet<&String> = self.before.0.keys().chain(self.after.0.keys()).collect();
        all.into_iter().filter(|name| self.before.0.get(*name) != self.after.0.get(*name))
    }

    /// A role that it has changed and another transaction has changed too.
    pub(crate) fn changed_by_others(&self, now: &Roles) -> Option<&str> {
        self.names().find(|name| now.0.get(*name) != self.before.0.get(*name)).map(String::as_str)
    }

    /// The roles as they are now with what it has changed.
    pub(crate) fn over(&self, now: &Roles) -> Roles {
        let mut roles = now.clone();
        for name in self.names() {
            match self.after.0.get(name) {
                Some(role) => roles.0.insert(name.clone(), role.clone()),
                None => roles.0.remove(name),
            };
        }
        roles.forget_members();
        roles
    }
}

impl CatalogState {
    /// Who there is.
    pub(crate) fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// Who there is, to be changed. Plans depend on it, by what their roles may.
    pub(crate) fn roles_mut(&mut self) -> &mut Roles {
        self.ddl_version += 1;
        Arc::make_mut(&mut self.roles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(names: &[&str]) -> Roles {
        let mut roles = Roles::default();
        for (place, name) in names.iter().enumerate() {
            roles.add(name, Role::new(NUMBERS_FROM + place as u32)).unwrap();
        }
        roles
    }

    #[test]
    fn memberships_have_no_circles() {
        let mut roles = with(&["a", "b", "c"]);
        roles.join("a", "b", false).unwrap();
        roles.join("b", "c", true).unwrap();
        assert!(roles.join("c", "a", false).is_err() && roles.join("a", "a", false).is_err());
        let id = |name: &str| roles.get(name).unwrap().id;
        assert!(roles.is_member(id("a"), id("c")) && !roles.is_member(id("c"), id("a")));
        roles.remove("b");
        assert!(roles.get("a").unwrap().member_of.is_empty());
    }

    #[test]
    fn changes_meet_those_of_others() {
        let before = Arc::new(with(&["a", "b"]));
        let mut after = Roles::clone(&before);
        after.remove("a");
        after.change("b", |role| role.can_login = true).unwrap();
        let change = RolesChange { before: Arc::clone(&before), after: Arc::new(after) };
        let mut now = Roles::clone(&before);
        now.add("c", Role::new(NUMBERS_FROM + 9)).unwrap();
        assert_eq!(change.changed_by_others(&now), None);
        let merged = change.over(&now);
        assert!(merged.get("a").is_none() && merged.get("b").unwrap().can_login && merged.get("c").is_some());
        now.change("b", |role| role.inherits = false).unwrap();
        assert_eq!(change.changed_by_others(&now), Some("b"));
    }

    #[test]
    fn roles_are_kept_as_they_are() {
        let mut roles = with(&["a", "b"]);
        roles.join("a", "b", true).unwrap();
        let verifier = Verifier::of_password("secret");
        roles.change("a", |role| (role.verifier, role.valid_until) = (verifier, Some(5))).unwrap();
        let json = serde_json::to_string(&roles).unwrap();
        assert!(!json.contains("secret"));
        assert_eq!(serde_json::from_str::<Roles>(&json).unwrap(), roles);
        assert!(!format!("{roles:?}").contains("SCRAM"));
    }
}
