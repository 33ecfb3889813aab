//! [`Rights`]: to whom things belong, and who may do what with them.
//!
//! What is not told of a thing is as at its beginning: it belongs to the role that a database begins with, who may do
//! everything with it, and nobody else anything but what PostgreSQL gives everybody: USAGE of the schema of names
//! without one, CONNECT and TEMPORARY of the database.
//!
//! # Invariants
//! - Rights go with their thing: what is made under a name has nothing of what stood there before.
//! - Plans are checked when they are made. Whatever is changed here gives the catalog's state another `ddl_version`, so
//!   that no plan outlives what allowed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::path::is_temporary;
use crate::catalog::privileges::{Acl, Grant, PUBLIC, Privileges};
use crate::catalog::roles::{FIRST, Member, PredefinedRole};
use crate::catalog::{CATALOG, CatalogState, DEFAULT_SCHEMA, Entry, Name, is_system};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// Kinds of things that have privileges by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Tables and views.
    Tables,
    /// Sequences.
    Sequences,
    /// Schemas.
    Schemas,
}

/// What has rights.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Thing {
    /// A table, view or sequence, by its schema and its name.
    Relation(String, String),
    /// A schema.
    Schema(String),
    /// The database.
    Database,
    /// A setting.
    Setting(String),
    /// What a role makes from now on, everywhere or in a schema.
    Default(u32, Option<String>, Kind),
}

impl Thing {
    /// What has a name.
    pub(crate) fn named(name: &Name) -> Thing {
        Thing::Relation(name.schema.clone(), name.table.clone())
    }

    /// The name of a table, view or sequence.
    pub(crate) fn name(&self) -> Option<Name> {
        match self {
            Thing::Relation(schema, table) => Some(Name { schema: schema.clone(), table: table.clone() }),
            _ => None,
        }
    }

    /// As an error names it, of what exists.
    pub(crate) fn shown(&self, state: &CatalogState) -> String {
        match self {
            Thing::Relation(..) => {
                let name = self.name().unwrap_or_else(|| Name { schema: String::new(), table: String::new() });
                let kind = match state.get(&name) {
                    Some(Entry::External(_)) | None => "table",
                    Some(entry) => entry.kind(),
                };
                format!("{kind} {}", name.table)
            }
            Thing::Schema(schema) => format!("schema {schema}"),
            Thing::Database => format!("database {CATALOG}"),
            Thing::Setting(name) => format!("parameter \"{name}\""),
            Thing::Default(..) => "default privileges".into(),
        }
    }

    fn lasts(&self) -> bool {
        !matches!(self, Thing::Relation(schema, _) | Thing::Schema(schema) if is_temporary(schema))
    }
}

/// The rights to one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rights {
    /// To whom it belongs.
    pub owner: u32,
    /// Who may do what; `None` as long as nothing was given or taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<Acl>,
    /// The same of columns by themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, Acl>,
    /// What was said of it, where it is no entry of the catalog: of a schema, of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Default for Rights {
    fn default() -> Rights {
        Rights { owner: FIRST, acl: None, columns: BTreeMap::new(), comment: None }
    }
}

impl Rights {
    fn names(&self, role: u32) -> bool {
        self.acl.iter().chain(self.columns.values()).any(|acl| acl.names(role))
    }

    fn forget(&mut self, role: u32) {
        self.acl.iter_mut().chain(self.columns.values_mut()).for_each(|acl| acl.forget(role));
        self.columns.retain(|_, acl| !acl.is_empty());
    }
}

/// All rights that are told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(Thing, Rights)>", into = "Vec<(Thing, Rights)>")]
pub(crate) struct AllRights(BTreeMap<Thing, Rights>);

impl From<Vec<(Thing, Rights)>> for AllRights {
    fn from(all: Vec<(Thing, Rights)>) -> AllRights {
        AllRights(all.into_iter().collect())
    }
}

impl From<AllRights> for Vec<(Thing, Rights)> {
    fn from(all: AllRights) -> Vec<(Thing, Rights)> {
        all.0.into_iter().collect()
    }
}

impl AllRights {
    /// Whether nothing is told.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of things that outlive sessions.
    pub(crate) fn lasting(&self) -> AllRights {
        AllRights(self.0.iter().filter(|(thing, _)| thing.lasts()).map(|(t, r)| (t.clone(), r.clone())).collect())
    }

    /// All things of which rights are told.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Thing, &Rights)> {
        self.0.iter()
    }
}

/// What a transaction has changed of rights.
#[derive(Debug, Clone)]
pub(crate) struct RightsChange {
    /// As they were when it first changed some.
    pub before: Arc<AllRights>,
    /// As it has them.
    pub after: Arc<AllRights>,
}

impl RightsChange {
    fn things(&self) -> impl Iterator<Item = &Thing> {
        let all: BTreeSet<&Thing> = self.before.0.keys().chain(self.after.0.keys()).collect();
        all.into_iter().filter(|thing| self.before.0.get(*thing) != self.after.0.get(*thing))
    }

    /// A thing of which it has changed the rights and another transaction has too.
    pub(crate) fn changed_by_others(&self, now: &AllRights) -> Option<&Thing> {
        self.things().find(|thing| now.0.get(*thing) != self.before.0.get(*thing))
    }

    /// The rights as they are now with what it has changed.
    pub(crate) fn over(&self, now: &AllRights) -> AllRights {
        let mut rights = now.clone();
        for thing in self.things() {
            match self.after.0.get(thing) {
                Some(of) => rights.0.insert(thing.clone(), of.clone()),
                None => rights.0.remove(thing),
            };
        }
        rights
    }
}

/// What everybody and the owner may do with something of a kind where nothing else was said.
fn usual(thing: &Thing, owner: u32, is_sequence: bool) -> Acl {
    let own = |may: Privileges| Grant { to: owner, by: owner, may, may_grant: Privileges::NONE };
    let public = |may: Privileges| Grant { to: PUBLIC, by: owner, may, may_grant: Privileges::NONE };
    Acl::new(match thing {
        Thing::Relation(..) if is_sequence => vec![own(Privileges::OF_SEQUENCE)],
        Thing::Relation(..) => vec![own(Privileges::OF_TABLE)],
        Thing::Schema(name) if name == DEFAULT_SCHEMA => vec![own(Privileges::OF_SCHEMA), public(Privileges::USAGE)],
        Thing::Schema(name) if is_system(name) => vec![own(Privileges::OF_SCHEMA), public(Privileges::USAGE)],
        Thing::Schema(_) => vec![own(Privileges::OF_SCHEMA)],
        Thing::Database => {
            vec![public(Privileges::TEMPORARY.and(Privileges::CONNECT)), own(Privileges::OF_DATABASE)]
        }
        Thing::Setting(_) => Vec::new(),
        Thing::Default(_, Some(_), _) => Vec::new(),
        Thing::Default(_, None, Kind::Tables) => vec![own(Privileges::OF_TABLE)],
        Thing::Default(_, None, Kind::Sequences) => vec![own(Privileges::OF_SEQUENCE)],
        Thing::Default(_, None, Kind::Schemas) => vec![own(Privileges::OF_SCHEMA)],
    })
}

impl CatalogState {
    /// All rights that are told.
    pub(crate) fn rights(&self) -> &Arc<AllRights> {
        &self.rights
    }

    /// Has other rights.
    pub(crate) fn set_rights(&mut self, rights: Arc<AllRights>) {
        self.rights = rights;
        self.ddl_version += 1;
    }

    /// The rights to a thing, where they are told.
    pub(crate) fn rights_to(&self, thing: &Thing) -> Option<&Rights> {
        self.rights.0.get(thing)
    }

    /// Those to a thing, to be changed.
    pub(crate) fn rights_to_mut(&mut self, thing: &Thing) -> &mut Rights {
        self.ddl_version += 1;
        Arc::make_mut(&mut self.rights).0.entry(thing.clone()).or_default()
    }

    /// Tells the rights to a thing, or nothing any more.
    pub(crate) fn put_rights(&mut self, thing: Thing, rights: Option<Rights>) {
        if rights.is_none() && !self.rights.0.contains_key(&thing) {
            return;
        }
        self.ddl_version += 1;
        let all = Arc::make_mut(&mut self.rights);
        match rights {
            Some(rights) => all.0.insert(thing, rights),
            None => all.0.remove(&thing),
        };
    }

    /// Takes a name away that is to stand for the same again, by this name or another; its rights are given back.
    pub(crate) fn take_for_again(&mut self, name: &Name) -> Option<Rights> {
        let rights = self.rights_to(&Thing::named(name)).cloned();
        self.remove(name);
        rights
    }

    /// To whom a thing belongs.
    pub(crate) fn owner_of(&self, thing: &Thing) -> u32 {
        match thing {
            Thing::Default(role, ..) => *role,
            _ => self.rights_to(thing).map_or(FIRST, |rights| rights.owner),
        }
    }

    /// Who may do what with a thing.
    pub(crate) fn acl_of(&self, thing: &Thing) -> Acl {
        match self.rights_to(thing).and_then(|rights| rights.acl.clone()) {
            Some(acl) => acl,
            None => self.usual_acl_of(thing),
        }
    }

    fn usual_acl_of(&self, thing: &Thing) -> Acl {
        let is_sequence = thing.name().is_some_and(|name| matches!(self.get(&name), Some(Entry::Sequence(_))));
        usual(thing, self.owner_of(thing), is_sequence)
    }

    /// Somebody has made a thing: it is his, and whom he gives such things has it.
    pub(crate) fn made_by(&mut self, user: u32, thing: Thing) {
        // Everybody may use types and functions: there is nothing to give of them.
        let entry = thing.name().and_then(|name| self.get(&name));
        if matches!(entry, Some(Entry::Type(_) | Entry::Function(_) | Entry::Domain(_))) {
            if user != FIRST {
                self.put_rights(thing, Some(Rights { owner: user, ..Rights::default() }));
            }
            return;
        }
        let (schema, kind) = match &thing {
            Thing::Relation(schema, table) => {
                let name = Name { schema: schema.clone(), table: table.clone() };
                match self.get(&name) {
                    Some(Entry::Sequence(_)) => (Some(schema.clone()), Kind::Sequences),
                    _ => (Some(schema.clone()), Kind::Tables),
                }
            }
            Thing::Schema(_) => (None, Kind::Schemas),
            _ => return,
        };
        let everywhere = self.rights_to(&Thing::Default(user, None, kind)).and_then(|of| of.acl.clone());
        let in_schema = schema
            .and_then(|schema| self.rights_to(&Thing::Default(user, Some(schema), kind)).and_then(|of| of.acl.clone()));
        if user == FIRST && everywhere.is_none() && in_schema.is_none() {
            return;
        }
        let mut rights = Rights { owner: user, ..Rights::default() };
        if everywhere.is_some() || in_schema.is_some() {
            let is_sequence = kind == Kind::Sequences;
            let mut acl = everywhere.unwrap_or_else(|| usual(&thing, user, is_sequence));
            for grant in in_schema.iter().flat_map(Acl::all) {
                acl.give(grant.to, grant.by, grant.may, grant.may_grant);
            }
            rights.acl = Some(acl);
        }
        self.put_rights(thing, Some(rights));
    }

    /// Gives a thing to another role.
    pub(crate) fn give_to(&mut self, thing: &Thing, owner: u32) {
        let rights = self.rights_to_mut(thing);
        let before = std::mem::replace(&mut rights.owner, owner);
        rights.acl.iter_mut().chain(rights.columns.values_mut()).for_each(|acl| acl.change_owner(before, owner));
        let relation = thing.name();
        let table = relation.and_then(|name| self.table(&name).ok().map(|table| table.id));
        // As in PostgreSQL the sequences of its columns go with a table.
        for (name, _) in table.map_or_else(Vec::new, |id| self.owned_by(id, None)) {
            self.give_to(&Thing::named(&name), owner);
        }
    }

    /// A column has another name.
    pub(crate) fn rename_column_rights(&mut self, table: &Name, from: &str, to: &str) {
        let thing = Thing::named(table);
        if self.rights_to(&thing).is_some_and(|rights| rights.columns.contains_key(from)) {
            let columns = &mut self.rights_to_mut(&thing).columns;
            if let Some(acl) = columns.remove(from) {
                columns.insert(to.into(), acl);
            }
        }
    }

    /// Forgets the rights to columns that are gone.
    pub(crate) fn forget_column_rights(&mut self, table: &Name, is_there: impl Fn(&str) -> bool) {
        let thing = Thing::named(table);
        if self.rights_to(&thing).is_some_and(|rights| rights.columns.keys().any(|column| !is_there(column))) {
            self.rights_to_mut(&thing).columns.retain(|column, _| is_there(column));
        }
    }

    /// Things that belong to a role.
    pub(crate) fn things_of(&self, role: u32) -> Vec<Thing> {
        let owned = |(thing, rights): &(&Thing, &Rights)| {
            !matches!(thing, Thing::Default(..) | Thing::Setting(_)) && rights.owner == role
        };
        self.rights.0.iter().filter(owned).map(|(thing, _)| thing.clone()).collect()
    }

    /// Things that a role was given something of, or has given, or that say what becomes of what it makes.
    pub(crate) fn things_naming(&self, role: u32) -> Vec<Thing> {
        let names = |(thing, rights): &(&Thing, &Rights)| {
            matches!(thing, Thing::Default(of, ..) if *of == role) || rights.owner != role && rights.names(role)
        };
        self.rights.0.iter().filter(names).map(|(thing, _)| thing.clone()).collect()
    }

    /// Takes all that a role was given.
    pub(crate) fn forget_given(&mut self, role: u32) {
        for thing in self.things_naming(role) {
            match thing {
                Thing::Default(of, ..) if of == role => self.put_rights(thing, None),
                _ => self.rights_to_mut(&thing).forget(role),
            }
        }
    }
}

/// What one role may do, of what exists.
#[derive(Debug, Clone)]
pub(crate) struct May<'a> {
    state: &'a CatalogState,
    user: u32,
    is_superuser: bool,
    acts_as: BTreeSet<u32>,
}

impl CatalogState {
    /// What a role may do.
    pub(crate) fn may(&self, user: u32) -> May<'_> {
        let is_superuser = self.roles().is_superuser(user);
        let acts_as = if is_superuser { BTreeSet::new() } else { self.roles().closure(user, Member::Inherits) };
        May { state: self, user, is_superuser, acts_as }
    }
}

impl May<'_> {
    /// Whether it may do everything.
    pub(crate) fn do_everything(&self) -> bool {
        self.is_superuser
    }

    /// Whether it has what another role has.
    pub(crate) fn act_as(&self, role: u32) -> bool {
        self.is_superuser || self.acts_as.contains(&role)
    }

    /// Whether it is one of those that a predefined role is for.
    pub(crate) fn act_as_predefined(&self, role: PredefinedRole) -> bool {
        self.act_as(role.id())
    }

    /// Whether a thing belongs to it.
    pub(crate) fn own(&self, thing: &Thing) -> bool {
        self.act_as(self.state.owner_of(thing))
    }

    /// What it may do with a thing.
    pub(crate) fn with(&self, thing: &Thing) -> Privileges {
        if self.is_superuser {
            return Privileges::OF_TABLE
                .and(Privileges::OF_SEQUENCE)
                .and(Privileges::OF_SCHEMA)
                .and(Privileges::OF_DATABASE)
                .and(Privileges::OF_SETTING);
        }
        let mut all = self.state.acl_of(thing).of(&|role| self.acts_as.contains(&role));
        if matches!(thing, Thing::Schema(name) if is_temporary(name)) {
            all = all.and(Privileges::OF_SCHEMA);
        }
        let reads = || self.act_as_predefined(PredefinedRole::ReadAllData);
        let writes = || self.act_as_predefined(PredefinedRole::WriteAllData);
        match thing {
            Thing::Relation(..) => {
                if reads() {
                    all = all.and(Privileges::SELECT);
                }
                if writes() {
                    all = all.and(Privileges::INSERT).and(Privileges::UPDATE).and(Privileges::DELETE);
                }
            }
            Thing::Schema(_) if reads() || writes() => all = all.and(Privileges::USAGE),
            _ => {}
        }
        all
    }

    /// What it may do with a column, whatever it may do with all of the table.
    pub(crate) fn with_column(&self, table: &Thing, column: &str) -> Privileges {
        let acl = self.state.rights_to(table).and_then(|rights| rights.columns.get(column));
        acl.map_or(Privileges::NONE, |acl| acl.of(&|role| self.acts_as.contains(&role)))
    }

    /// Whether it may do something with each of some columns; with any one of them where none are named.
    pub(crate) fn with_columns(&self, table: &Thing, what: Privileges, columns: &BTreeSet<String>) -> bool {
        if self.with(table).has(what) {
            return true;
        }
        match columns.is_empty() {
            true => {
                let known = self.state.rights_to(table).into_iter().flat_map(|rights| rights.columns.keys());
                known.into_iter().any(|column| self.with_column(table, column).has(what))
            }
            false => columns.iter().all(|column| self.with_column(table, column).has(what)),
        }
    }

    /// Who gives what this role gives of a thing, and what he may give: the owner where it may act as him, else the one
    /// of its roles that may give most of it.
    pub(crate) fn grantor(&self, thing: &Thing, acl: &Acl, what: Privileges) -> (u32, Privileges) {
        let owner = self.state.owner_of(thing);
        if self.act_as(owner) {
            return (owner, what);
        }
        let grantable = |role: u32| acl.grantable(&|of| of == role).within(what);
        let own = (self.user, grantable(self.user));
        let best = self.acts_as.iter().map(|role| (*role, grantable(*role)));
        let count = |of: Privileges| of.each().count();
        best.fold(own, |best, next| if count(next.1) > count(best.1) { next } else { best })
    }

    /// Fails where it may not.
    ///
    /// # Errors
    /// So it is.
    pub(crate) fn need(&self, thing: &Thing, what: Privileges) -> Result<()> {
        match self.is_superuser || self.with(thing).has(what) {
            true => Ok(()),
            false => Err(self.denied(thing)),
        }
    }

    /// As [`need`](Self::need), of columns.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn need_columns(&self, table: &Thing, what: Privileges, columns: &BTreeSet<String>) -> Result<()> {
        match self.is_superuser || self.with_columns(table, what, columns) {
            true => Ok(()),
            false => Err(self.denied(table)),
        }
    }

    /// Fails where a thing does not belong to it.
    ///
    /// # Errors
    /// So it is.
    pub(crate) fn need_own(&self, thing: &Thing) -> Result<()> {
        match self.own(thing) {
            true => Ok(()),
            false => Err(not_allowed(format!("must be owner of {}", thing.shown(self.state)))),
        }
    }

    /// Fails where it is no superuser, and not one of those that a predefined role is for.
    ///
    /// # Errors
    /// So it is, for `what`.
    pub(crate) fn need_superuser(&self, or: Option<PredefinedRole>, what: &str) -> Result<()> {
        if self.is_superuser || or.is_some_and(|role| self.act_as_predefined(role)) {
            return Ok(());
        }
        let or = or.map_or_else(String::new, |role| format!(" or a member of {}", role.name()));
        Err(not_allowed(format!("permission denied: must be superuser{or} to {what}")))
    }

    /// The error where something may not be done with a thing.
    pub(crate) fn denied(&self, thing: &Thing) -> Error {
        not_allowed(format!("permission denied for {}", thing.shown(self.state)))
    }
}

/// The error where somebody may not do something.
pub(crate) fn not_allowed(text: impl Into<String>) -> Error {
    Error::plan(SqlState::InsufficientPrivilege, text.into())
}
