//! [`Privileges`]: what somebody may do with something, and [`Acl`]: who was given which of them by whom.
//!
//! As in PostgreSQL a privilege is given by somebody, who may take it back; who was given it with the option to give it
//! on may give it to others, and what these have goes with what he has.

use serde::{Deserialize, Serialize};

use crate::catalog::roles::Roles;

/// The number that stands for everybody.
pub(crate) const PUBLIC: u32 = 0;

/// Privileges, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Privileges(u16);

/// Each with its letter in texts of PostgreSQL's type `aclitem`, in the order in which they stand there.
const ALL: [(Privileges, char, &str); 13] = [
    (Privileges::INSERT, 'a', "INSERT"),
    (Privileges::SELECT, 'r', "SELECT"),
    (Privileges::UPDATE, 'w', "UPDATE"),
    (Privileges::DELETE, 'd', "DELETE"),
    (Privileges::TRUNCATE, 'D', "TRUNCATE"),
    (Privileges::REFERENCES, 'x', "REFERENCES"),
    (Privileges::TRIGGER, 't', "TRIGGER"),
    (Privileges::USAGE, 'U', "USAGE"),
    (Privileges::CREATE, 'C', "CREATE"),
    (Privileges::TEMPORARY, 'T', "TEMPORARY"),
    (Privileges::CONNECT, 'c', "CONNECT"),
    (Privileges::SET, 's', "SET"),
    (Privileges::ALTER_SYSTEM, 'A', "ALTER SYSTEM"),
];

impl Privileges {
    /// None.
    pub(crate) const NONE: Privileges = Privileges(0);
    /// Reading rows, and values of a sequence.
    pub(crate) const SELECT: Privileges = Privileges(1);
    /// Adding rows.
    pub(crate) const INSERT: Privileges = Privileges(1 << 1);
    /// Changing rows, and taking and setting values of a sequence.
    pub(crate) const UPDATE: Privileges = Privileges(1 << 2);
    /// Taking rows away.
    pub(crate) const DELETE: Privileges = Privileges(1 << 3);
    /// Taking all rows away.
    pub(crate) const TRUNCATE: Privileges = Privileges(1 << 4);
    /// Foreign keys that refer to it.
    pub(crate) const REFERENCES: Privileges = Privileges(1 << 5);
    /// Triggers, of which there are none.
    const TRIGGER: Privileges = Privileges(1 << 6);
    /// Naming what is in a schema; taking values of a sequence.
    pub(crate) const USAGE: Privileges = Privileges(1 << 7);
    /// Making something in it.
    pub(crate) const CREATE: Privileges = Privileges(1 << 8);
    /// Temporary tables.
    pub(crate) const TEMPORARY: Privileges = Privileges(1 << 9);
    /// Coming in.
    pub(crate) const CONNECT: Privileges = Privileges(1 << 10);
    /// SET of a setting that is for superusers.
    pub(crate) const SET: Privileges = Privileges(1 << 11);
    /// ALTER SYSTEM of a setting.
    pub(crate) const ALTER_SYSTEM: Privileges = Privileges(1 << 12);
    /// Those of tables and views.
    pub(crate) const OF_TABLE: Privileges = Privileges(0b111_1111);
    /// Those of columns.
    pub(crate) const OF_COLUMN: Privileges = Privileges(0b10_0111);
    /// Those of sequences.
    pub(crate) const OF_SEQUENCE: Privileges = Privileges(1 | 1 << 2 | 1 << 7);
    /// Those of schemas.
    pub(crate) const OF_SCHEMA: Privileges = Privileges(1 << 7 | 1 << 8);
    /// Those of the database.
    pub(crate) const OF_DATABASE: Privileges = Privileges(1 << 8 | 1 << 9 | 1 << 10);
    /// Those of settings.
    pub(crate) const OF_SETTING: Privileges = Privileges(1 << 11 | 1 << 12);

    /// The one of a name in SQL.
    pub(crate) fn of(name: &str) -> Option<Privileges> {
        if name.eq_ignore_ascii_case("temp") {
            return Some(Privileges::TEMPORARY);
        }
        ALL.iter().find(|(_, _, known)| known.eq_ignore_ascii_case(name)).map(|(one, ..)| *one)
    }

    /// Each of them, with its name in SQL.
    pub(crate) fn each(self) -> impl Iterator<Item = (Privileges, &'static str)> {
        ALL.iter().filter(move |(one, ..)| self.meets(*one)).map(|(one, _, name)| (*one, *name))
    }

    /// Those of both.
    pub(crate) fn and(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// Those that both have.
    pub(crate) fn within(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    /// Without those.
    pub(crate) fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }

    /// Whether all of the others are among them.
    pub(crate) fn has(self, other: Privileges) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of the others is among them.
    pub(crate) fn meets(self, other: Privileges) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there are none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What somebody was given by somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grant {
    /// Whom: a role's number, or [`PUBLIC`].
    pub to: u32,
    /// By whom.
    pub by: u32,
    /// What he may do.
    pub may: Privileges,
    /// Which of it he may give on.
    #[serde(default)]
    pub may_grant: Privileges,
}

/// Who was given what of one thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Acl(Vec<Grant>);

/// What privileges depend on that would be taken away.
#[derive(Debug)]
pub(crate) struct Dependent;

impl Acl {
    /// With these.
    pub(crate) fn new(grants: Vec<Grant>) -> Acl {
        Acl(grants)
    }

    /// All of it, in the order in which it came.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// Whether nobody was given anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What roles may do that act as one of these; everybody's is among it.
    pub(crate) fn of(&self, acts_as: &dyn Fn(u32) -> bool) -> Privileges {
        let meant = self.0.iter().filter(|grant| grant.to == PUBLIC || acts_as(grant.to));
        meant.fold(Privileges::NONE, |all, grant| all.and(grant.may))
    }

    /// What they may give on.
    pub(crate) fn grantable(&self, acts_as: &dyn Fn(u32) -> bool) -> Privileges {
        let meant = self.0.iter().filter(|grant| grant.to != PUBLIC && acts_as(grant.to));
        meant.fold(Privileges::NONE, |all, grant| all.and(grant.may_grant))
    }

    /// Gives something.
    pub(crate) fn give(&mut self, to: u32, by: u32, may: Privileges, may_grant: Privileges) {
        if may.is_empty() {
            return;
        }
        match self.0.iter_mut().find(|grant| grant.to == to && grant.by == by) {
            Some(grant) => {
                grant.may = grant.may.and(may);
                grant.may_grant = grant.may_grant.and(may_grant);
            }
            None => self.0.push(Grant { to, by, may, may_grant }),
        }
    }

    /// Takes something back that somebody has given, or the option to give it on alone; and, where it is said, what
    /// others have by it.
    ///
    /// # Errors
    /// Others have something by it, and it was not said that it goes too.
    pub(crate) fn take(
        &mut self,
        (from, by): (u32, u32),
        what: Privileges,
        option_alone: bool,
        (owner, cascade): (u32, bool),
    ) -> Result<(), Dependent> {
        let Some(grant) = self.0.iter_mut().find(|grant| grant.to == from && grant.by == by) else { return Ok(()) };
        let could_grant = grant.may_grant;
        grant.may_grant = grant.may_grant.without(what);
        if !option_alone {
            grant.may = grant.may.without(what);
        }
        self.0.retain(|grant| !grant.may.is_empty());
        // The owner may give on whatever is taken from him.
        let lost = could_grant.within(what);
        if from == owner || from == PUBLIC || lost.is_empty() {
            return Ok(());
        }
        let lost = lost.without(self.grantable(&|role| role == from));
        let given: Vec<Grant> =
            self.0.iter().filter(|grant| grant.by == from && grant.may.meets(lost)).copied().collect();
        if !given.is_empty() && !cascade {
            return Err(Dependent);
        }
        given.iter().try_for_each(|grant| self.take((grant.to, from), lost, false, (owner, cascade)))
    }

    /// Whatever a role was given or has given.
    pub(crate) fn forget(&mut self, role: u32) {
        self.0.retain(|grant| grant.to != role && grant.by != role);
    }

    /// Whether a role was given something, or has given it.
    pub(crate) fn names(&self, role: u32) -> bool {
        self.0.iter().any(|grant| grant.to == role || grant.by == role)
    }

    /// Another owner: what the one before has given and was given is his.
    pub(crate) fn change_owner(&mut self, from: u32, to: u32) {
        let other = |role: u32| if role == from { to } else { role };
        for grant in std::mem::take(&mut self.0) {
            self.give(other(grant.to), other(grant.by), grant.may, grant.may_grant);
        }
    }

    /// As texts of PostgreSQL's type `aclitem`.
    pub(crate) fn shown(&self, roles: &Roles) -> Vec<String> {
        let name = |role: u32| match roles.by_id(role) {
            Some((name, _)) => shown_name(name),
            None => role.to_string(),
        };
        let item = |grant: &Grant| {
            let to = if grant.to == PUBLIC { String::new() } else { name(grant.to) };
            let mut text = format!("{to}=");
            for (one, letter, _) in ALL.iter().filter(|(one, ..)| grant.may.meets(*one)) {
                text.push(*letter);
                if grant.may_grant.meets(*one) {
                    text.push('*');
                }
            }
            format!("{text}/{}", name(grant.by))
        };
        self.0.iter().map(item).collect()
    }
}

/// A name within an `aclitem`: in quotes where it has more than letters, digits and underscores.
fn shown_name(name: &str) -> String {
    match name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
        true => name.into(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_on_goes_with_it() {
        let (owner, ann, bob, cid) = (10, 11, 12, 13);
        let read = Privileges::SELECT;
        let mut acl = Acl::default();
        acl.give(ann, owner, read, read);
        acl.give(bob, ann, read, read);
        acl.give(cid, bob, read, Privileges::NONE);
        let is = |who: u32| move |role: u32| role == who;
        assert!(acl.clone().take((ann, owner), read, false, (owner, false)).is_err());
        let mut by_option = acl.clone();
        by_option.take((ann, owner), read, true, (owner, true)).unwrap();
        assert_eq!((by_option.of(&is(ann)), by_option.of(&is(bob))), (read, Privileges::NONE));
        acl.take((ann, owner), read, false, (owner, true)).unwrap();
        assert!(acl.is_empty(), "{acl:?}");
        // What somebody else has given too stays.
        acl.give(ann, owner, read, read);
        acl.give(bob, owner, read, read);
        acl.give(cid, bob, read, Privileges::NONE);
        acl.give(bob, ann, read, read);
        acl.take((ann, owner), read, false, (owner, true)).unwrap();
        assert_eq!(acl.of(&is(cid)), read);
    }

    #[test]
    fn texts_are_those_of_postgresql() {
        let roles = Roles::default();
        let mut acl = Acl::default();
        acl.give(10, 10, Privileges::OF_TABLE, Privileges::NONE);
        acl.give(PUBLIC, 10, Privileges::SELECT, Privileges::NONE);
        acl.give(99, 10, Privileges::SELECT.and(Privileges::UPDATE), Privileges::UPDATE);
        let shown = ["nearside=arwdDxt/nearside", "=r/nearside", "99=rw*/nearside"];
        assert_eq!(acl.shown(&roles), shown);
    }
}
