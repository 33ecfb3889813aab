//! GRANT and REVOKE of privileges, ALTER DEFAULT PRIVILEGES, ALTER .. OWNER TO, REASSIGN OWNED and DROP OWNED.

use std::sync::Arc;

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use crate::catalog::made_functions::called;
use crate::catalog::path::is_temporary;
use crate::catalog::privileges::{Acl, Dependent, PUBLIC, Privileges};
use crate::catalog::rights::{Kind, Thing, not_allowed};
use crate::catalog::{CATALOG, CatalogState, Entry, Name};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::run::system;
use crate::sql::{
    DomainStatement, FunctionStatement, Given, GrantStatement, Grantee, Of, Owned, RightsStatement, RoleName,
    SequenceStatement, TypeStatement,
};
use crate::statements::dropping::{self, Dropped};
use crate::statements::{ddl, domains, made_functions, roles, sequences, user_types};

/// Carries out a statement about rights.
///
/// # Errors
/// Names that there are not, privileges that something has not, what the role may not do.
pub(crate) fn run(statement: &RightsStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    match statement {
        RightsStatement::Grant(grant) => give(grant, running),
        RightsStatement::Defaults { roles, schemas, grant } => defaults(roles, schemas, grant, running),
        RightsStatement::Owner { of, to } => change_owner(of, to, running),
        RightsStatement::Reassign { roles, to } => {
            let (from, to) = (ids(roles, running)?, roles::id(to, running)?);
            may_act_as_all(from.iter().chain([&to]), running)?;
            running.home.commit(|state| {
                let things: Vec<Thing> = from.iter().flat_map(|role| state.things_of(*role)).collect();
                things.iter().for_each(|thing| state.give_to(thing, to));
                Ok(())
            })?;
            Ok(Done::new("REASSIGN OWNED"))
        }
        RightsStatement::DropOwned { roles, cascade } => {
            let from = ids(roles, running)?;
            may_act_as_all(from.iter(), running)?;
            let things: Vec<Thing> = from.iter().flat_map(|role| running.catalog.things_of(*role)).collect();
            drop_things(&things, *cascade, running)?;
            running.home.commit(|state| {
                from.iter().for_each(|role| state.forget_given(*role));
                Ok(())
            })?;
            Ok(Done::new("DROP OWNED"))
        }
    }
}

fn ids(roles: &[RoleName], running: &RunningStatement) -> Result<Vec<u32>> {
    roles.iter().map(|role| roles::id(role, running)).collect()
}

fn may_act_as_all<'a>(roles: impl Iterator<Item = &'a u32>, running: &RunningStatement) -> Result<()> {
    let may = running.may();
    for role in roles {
        if !may.act_as(*role) {
            let name = running.catalog.roles().by_id(*role).map_or_else(String::new, |(name, _)| name.to_string());
            return Err(not_allowed(format!("permission denied: must be a member of role '{name}'")));
        }
    }
    Ok(())
}

/// Whether an entry is of a kind.
type IsOf<'a> = &'a dyn Fn(&Entry) -> bool;

/// Drops things, as one statement of a transaction: all or none. As in PostgreSQL, the database stays.
fn drop_things(things: &[Thing], cascade: bool, running: &Arc<RunningStatement>) -> Result<()> {
    let names: Vec<Name> = things.iter().filter_map(Thing::name).collect();
    let schemas = things.iter().filter_map(|thing| match thing {
        Thing::Schema(schema) => Some(schema),
        _ => None,
    });
    let schemas: Vec<&String> = schemas.collect();
    if names.is_empty() && schemas.is_empty() {
        return Ok(());
    }
    if running.transaction.is_none() {
        return Err(running.wants_transaction());
    }
    let of = |is: IsOf<'_>| -> Vec<ObjectName> {
        let found = names.iter().filter_map(|name| Some((name, running.catalog.get(name).filter(|entry| is(entry))?)));
        let object = |(name, entry): (&Name, &Entry)| match entry {
            Entry::Function(_) => object(&[&name.schema, called(name)]),
            _ => object(&[&name.schema, &name.table]),
        };
        found.map(object).collect()
    };
    let if_exists = true;
    let is_view = |entry: &Entry| matches!(entry, Entry::View(_));
    let is_stored = |entry: &Entry| matches!(entry, Entry::Table(_) | Entry::External(_));
    let kinds: [(Dropped, IsOf<'_>); 3] = [
        (Dropped::Views, &is_view),
        (Dropped::Materialized, &|entry| is_stored(entry) && entry.query().is_some()),
        (Dropped::Tables, &|entry| is_stored(entry) && entry.query().is_none()),
    ];
    for (kind, is) in kinds {
        let names = of(is);
        if !names.is_empty() {
            dropping::drop_all(kind, &names, (if_exists, cascade), &Arc::new(running.refreshed()))?;
        }
    }
    let sequences = of(&|entry| matches!(entry, Entry::Sequence(_)));
    if !sequences.is_empty() {
        let drop = SequenceStatement::Drop { names: sequences, if_exists, cascade };
        sequences::run(&drop, &Arc::new(running.refreshed()))?;
    }
    let functions = of(&|entry| matches!(entry, Entry::Function(_)));
    if !functions.is_empty() {
        let names = functions.into_iter().map(|name| (name, None)).collect();
        let drop = FunctionStatement::Drop { names, if_exists, cascade, is_macro: false };
        made_functions::run(&drop, &Arc::new(running.refreshed()))?;
    }
    let types = of(&|entry| matches!(entry, Entry::Type(_)));
    if !types.is_empty() {
        let drop = TypeStatement::Drop { names: types, if_exists, cascade };
        user_types::run(&drop, &Arc::new(running.refreshed()))?;
    }
    let domains = of(&|entry| matches!(entry, Entry::Domain(_)));
    if !domains.is_empty() {
        let drop = DomainStatement::Drop { names: domains, if_exists, cascade };
        domains::run(&drop, &Arc::new(running.refreshed()))?;
    }
    schemas.into_iter().try_for_each(|schema| ddl::drop_schema(schema, (if_exists, cascade), running).map(drop))
}

/// A name with its schema, as it is.
fn object(parts: &[&str]) -> ObjectName {
    let part = |part: &&str| ObjectNamePart::Identifier(Ident::with_quote('"', *part));
    ObjectName(parts.iter().map(part).collect())
}

/// What the things of a statement are, and the privileges that such have.
fn things(of: &Of, running: &RunningStatement) -> Result<(Vec<Thing>, Privileges, &'static str)> {
    let state = &running.catalog;
    let relation = |name: &ObjectName| {
        let name = running.named(name)?;
        match state.get(&name) {
            Some(Entry::Function(_)) | None => Err(state.not_found("table", &name)),
            Some(_) => Ok(name),
        }
    };
    let schema = |schema: &String| match state.has_schema(schema) {
        true => Ok(Thing::Schema(schema.clone())),
        false => Err(Error::NotFound { kind: "schema", name: schema.clone(), nearest: None }),
    };
    Ok(match of {
        Of::Tables(names) => {
            let found = names.iter().map(|name| relation(name).map(|name| Thing::named(&name)));
            (found.collect::<Result<_>>()?, Privileges::OF_TABLE, "relation")
        }
        Of::Sequences(names) => {
            let found = names.iter().map(|name| {
                let name = running.named(name)?;
                state.sequence(&name).map(|_| Thing::named(&name))
            });
            (found.collect::<Result<_>>()?, Privileges::OF_SEQUENCE, "sequence")
        }
        Of::AllIn(kind, schemas) => {
            schemas.iter().try_for_each(|name| schema(name).map(|_| ()))?;
            let is_meant = |(name, entry): &(&Name, &Entry)| {
                schemas.contains(&name.schema)
                    && !matches!(entry, Entry::Function(_))
                    && matches!(entry, Entry::Sequence(_)) == (*kind == Kind::Sequences)
            };
            let all = state.entries().filter(is_meant).map(|(name, _)| Thing::named(name)).collect();
            match kind {
                Kind::Sequences => (all, Privileges::OF_SEQUENCE, "sequence"),
                _ => (all, Privileges::OF_TABLE, "relation"),
            }
        }
        Of::Schemas(names) => (names.iter().map(schema).collect::<Result<_>>()?, Privileges::OF_SCHEMA, "schema"),
        Of::Database(names) => {
            if let Some(name) = names.iter().find(|name| *name != CATALOG) {
                return Err(Error::NotFound { kind: "database", name: name.clone(), nearest: Some(CATALOG.into()) });
            }
            (vec![Thing::Database], Privileges::OF_DATABASE, "database")
        }
        Of::Settings(names) => {
            let known = config::entries(running.planner.config_options());
            let found = names.iter().map(|name| {
                let full = config::full_name(name);
                match known.iter().any(|entry| entry.key == full) || system::names().contains(&full.as_str()) {
                    true => Ok(Thing::Setting(full)),
                    false => Err(Error::NotFound { kind: "setting", name: name.clone(), nearest: None }),
                }
            });
            (found.collect::<Result<_>>()?, Privileges::OF_SETTING, "parameter")
        }
        Of::Future(_) => return Err(Error::Internal("privileges of what there is not yet".into())),
    })
}

/// What is given of all of a thing, and of its columns.
fn privileges(
    given: &[Given],
    (all, kind): (Privileges, &str),
    is_sequence: bool,
) -> Result<(Privileges, Vec<(String, Privileges)>)> {
    let (mut whole, mut columns) = (Privileges::NONE, Vec::new());
    for one in given {
        if !one.columns.is_empty() && kind != "relation" {
            return Err(Error::plan(SqlState::InvalidGrantOperation, "column privileges are only valid for relations"));
        }
        let possible = if one.columns.is_empty() { all } else { Privileges::OF_COLUMN };
        let what = match one.what {
            None if is_sequence && kind == "relation" => Privileges::OF_SEQUENCE,
            None => possible,
            // A sequence may be named as a table.
            Some((what, _)) if is_sequence && what == Privileges::USAGE => what,
            Some((what, _)) if possible.has(what) => what,
            Some((_, name)) if one.columns.is_empty() => {
                return Err(Error::plan(
                    SqlState::InvalidGrantOperation,
                    format!("invalid privilege type {name} for {kind}"),
                ));
            }
            Some((_, name)) => {
                return Err(Error::plan(
                    SqlState::InvalidGrantOperation,
                    format!("invalid privilege type {name} for column"),
                ));
            }
        };
        match one.columns.is_empty() {
            true => whole = whole.and(what),
            false => columns.extend(one.columns.iter().map(|column| (column.clone(), what))),
        }
    }
    Ok((whole, columns))
}

fn grantees(grant: &GrantStatement, running: &RunningStatement) -> Result<Vec<u32>> {
    let one = |grantee: &Grantee| match grantee {
        Grantee::Public if grant.option && !grant.revokes => {
            Err(Error::plan(SqlState::InvalidGrantOperation, "grant options can only be granted to roles"))
        }
        Grantee::Public => Ok(PUBLIC),
        Grantee::Role(role) => roles::id(role, running),
    };
    grant.grantees.iter().map(one).collect()
}

fn give(grant: &GrantStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    let to = grantees(grant, running)?;
    let (things, all, kind) = things(&grant.of, running)?;
    for thing in &things {
        let is_sequence =
            thing.name().is_some_and(|name| matches!(running.catalog.get(&name), Some(Entry::Sequence(_))));
        let (_, columns) = privileges(&grant.given, (all, kind), is_sequence)?;
        let known = thing.name().map(|name| column_names(&name, running)).transpose()?.unwrap_or_default();
        for (column, _) in &columns {
            if !known.contains(column) {
                let shown = thing.name().map_or_else(String::new, |name| name.shown());
                return Err(Error::plan(
                    SqlState::UndefinedColumn,
                    format!("column '{column}' of relation '{shown}' does not exist"),
                ));
            }
        }
    }
    running.home.commit(|state| {
        for thing in &things {
            let is_sequence = thing.name().is_some_and(|name| matches!(state.get(&name), Some(Entry::Sequence(_))));
            let (whole, columns) = privileges(&grant.given, (all, kind), is_sequence)?;
            change(thing, whole, &columns, grant, &to, (state, running))?;
        }
        Ok(())
    })?;
    Ok(Done::new(if grant.revokes { "REVOKE" } else { "GRANT" }))
}

/// The columns of a table or view.
fn column_names(name: &Name, running: &RunningStatement) -> Result<Vec<String>> {
    let fields = match running.catalog.get(name) {
        Some(Entry::Table(table)) => Arc::clone(&table.base.schema),
        Some(Entry::View(_)) => running.own_context().columns_of_view(name)?,
        _ => return Ok(Vec::new()),
    };
    Ok(fields.fields().iter().map(|field| field.name().clone()).collect())
}

/// Gives or takes privileges of one thing.
fn change(
    thing: &Thing,
    whole: Privileges,
    columns: &[(String, Privileges)],
    grant: &GrantStatement,
    to: &[u32],
    (state, running): (&mut CatalogState, &RunningStatement),
) -> Result<()> {
    let owner = state.owner_of(thing);
    let table = state.acl_of(thing);
    if !whole.is_empty() {
        let acl = changed(thing, table.clone(), whole, grant, to, (state, running))?;
        let mut parts = state.rights_to(thing).map(|rights| rights.columns.clone()).unwrap_or_default();
        if grant.revokes {
            // As in PostgreSQL, what is taken of the table is taken of each of its columns.
            let (grantor, _) = state.may(running.user).grantor(thing, &table, whole);
            for acl in parts.values_mut() {
                take(acl, to, grantor, whole.within(Privileges::OF_COLUMN), grant, owner)?;
            }
            parts.retain(|_, acl| !acl.is_empty());
        }
        let rights = state.rights_to_mut(thing);
        (rights.acl, rights.columns) = (Some(acl), parts);
    }
    for (column, what) in columns {
        let acl = state.rights_to(thing).and_then(|rights| rights.columns.get(column)).cloned().unwrap_or_default();
        // Who may give of the table may give of its columns.
        let acl = changed_column(thing, (&table, acl), *what, grant, to, (state, running))?;
        let columns = &mut state.rights_to_mut(thing).columns;
        match acl.is_empty() {
            true => drop(columns.remove(column)),
            false => drop(columns.insert(column.clone(), acl)),
        }
    }
    Ok(())
}

fn take(acl: &mut Acl, from: &[u32], by: u32, what: Privileges, grant: &GrantStatement, owner: u32) -> Result<()> {
    from.iter().try_for_each(|from| {
        acl.take((*from, by), what, grant.option, (owner, grant.cascade)).map_err(|Dependent| {
            Error::plan(
                SqlState::DependentObjectsStillExist,
                "dependent privileges exist; use CASCADE to revoke them too",
            )
        })
    })
}

fn changed(
    thing: &Thing,
    mut acl: Acl,
    what: Privileges,
    grant: &GrantStatement,
    to: &[u32],
    (state, running): (&CatalogState, &RunningStatement),
) -> Result<Acl> {
    let may = state.may(running.user);
    let (grantor, grantable) = may.grantor(thing, &acl, what);
    allowed(thing, grantable, may.with(thing), (state, running))?;
    apply(&mut acl, to, grantor, what.within(grantable), grant, state.owner_of(thing))?;
    Ok(acl)
}

fn changed_column(
    thing: &Thing,
    (table, mut acl): (&Acl, Acl),
    what: Privileges,
    grant: &GrantStatement,
    to: &[u32],
    (state, running): (&CatalogState, &RunningStatement),
) -> Result<Acl> {
    let may = state.may(running.user);
    let (grantor, of_table) = may.grantor(thing, table, what);
    let (by_column, of_column) = may.grantor(thing, &acl, what);
    let (grantor, grantable) = match of_table.has(of_column) {
        true => (grantor, of_table),
        false => (by_column, of_column),
    };
    allowed(thing, grantable, may.with(thing), (state, running))?;
    apply(&mut acl, to, grantor, what.within(grantable), grant, state.owner_of(thing))?;
    Ok(acl)
}

/// Who may give nothing of it is refused, where he has nothing of it; else, as in PostgreSQL, nothing is done.
fn allowed(
    thing: &Thing,
    grantable: Privileges,
    has: Privileges,
    (state, running): (&CatalogState, &RunningStatement),
) -> Result<()> {
    let columns = state.rights_to(thing).into_iter().flat_map(|rights| rights.columns.keys());
    let may = state.may(running.user);
    let has_some = !has.is_empty() || columns.into_iter().any(|column| !may.with_column(thing, column).is_empty());
    match grantable.is_empty() && !has_some {
        true => Err(may.denied(thing)),
        false => Ok(()),
    }
}

fn apply(acl: &mut Acl, to: &[u32], by: u32, what: Privileges, grant: &GrantStatement, owner: u32) -> Result<()> {
    if grant.revokes {
        return take(acl, to, by, what, grant, owner);
    }
    let option = if grant.option { what } else { Privileges::NONE };
    to.iter().for_each(|to| acl.give(*to, by, what, option));
    Ok(())
}

fn defaults(
    of: &[RoleName],
    schemas: &[String],
    grant: &GrantStatement,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let Of::Future(kind) = grant.of else { return Err(Error::Internal("privileges of what there is".into())) };
    let (all, word) = match kind {
        Kind::Tables => (Privileges::OF_TABLE, "relation"),
        Kind::Sequences => (Privileges::OF_SEQUENCE, "sequence"),
        Kind::Schemas => (Privileges::OF_SCHEMA, "schema"),
    };
    if kind == Kind::Schemas && !schemas.is_empty() {
        return Err(Error::plan(
            SqlState::InvalidGrantOperation,
            "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS",
        ));
    }
    let owners = if of.is_empty() { vec![running.user] } else { ids(of, running)? };
    may_act_as_all(owners.iter(), running)?;
    let (whole, columns) = privileges(&grant.given, (all, word), kind == Kind::Sequences)?;
    if !columns.is_empty() {
        return Err(Error::plan(SqlState::InvalidGrantOperation, "default privileges cannot be set for columns"));
    }
    let to = grantees(grant, running)?;
    if let Some(missing) = schemas.iter().find(|schema| !running.catalog.has_schema(schema)) {
        return Err(Error::NotFound { kind: "schema", name: missing.clone(), nearest: None });
    }
    running.home.commit(|state| {
        for owner in owners {
            let within: Vec<Option<String>> = match schemas.is_empty() {
                true => vec![None],
                false => schemas.iter().cloned().map(Some).collect(),
            };
            for schema in within {
                let thing = Thing::Default(owner, schema, kind);
                let mut acl = state.acl_of(&thing);
                apply(&mut acl, &to, owner, whole, grant, owner)?;
                let rights = state.rights_to_mut(&thing);
                (rights.owner, rights.acl) = (owner, Some(acl));
            }
        }
        Ok(())
    })?;
    Ok(Done::new("ALTER DEFAULT PRIVILEGES"))
}

fn change_owner(of: &Owned, to: &RoleName, running: &Arc<RunningStatement>) -> Result<Done> {
    let (thing, tag) = match of {
        Owned::Relation(kind, if_exists, name) => {
            let tag = format!("ALTER {}", kind.to_uppercase());
            let name = running.named(name)?;
            match running.catalog.get(&name) {
                None if *if_exists => return Ok(Done { tag, rows: None }),
                None => return Err(running.catalog.not_found("table", &name)),
                // As in PostgreSQL, ALTER TABLE is for all of them.
                Some(entry) if *kind != "table" && entry.kind() != *kind => {
                    let text = format!("'{}' is {}, not a {kind}", name.shown(), entry.described());
                    return Err(Error::plan(SqlState::WrongObjectType, text));
                }
                Some(Entry::Sequence(sequence)) if sequence.owner.is_some() => {
                    let text = format!("cannot change owner of sequence '{}': it goes with its table", name.shown());
                    return Err(Error::Unsupported(text));
                }
                Some(_) => (Thing::named(&name), tag),
            }
        }
        Owned::Function(name, types) => {
            let key = made_functions::found(name, types.as_deref(), running)?;
            (Thing::named(&key), "ALTER FUNCTION".into())
        }
        Owned::Schema(schema) if !running.catalog.has_schema(schema) => {
            return Err(Error::NotFound { kind: "schema", name: schema.clone(), nearest: None });
        }
        Owned::Schema(schema) => (Thing::Schema(schema.clone()), "ALTER SCHEMA".into()),
        Owned::Database(name) if name != CATALOG => {
            return Err(Error::NotFound { kind: "database", name: name.clone(), nearest: Some(CATALOG.into()) });
        }
        Owned::Database(_) => (Thing::Database, "ALTER DATABASE".into()),
    };
    let to = roles::id(to, running)?;
    let may = running.may();
    may.need_own(&thing)?;
    if !may.do_everything() && running.catalog.owner_of(&thing) != to {
        let roles = running.catalog.roles();
        if !roles.is_member(running.user, to) {
            let name = roles.by_id(to).map_or_else(String::new, |(name, _)| name.to_string());
            return Err(not_allowed(format!("must be member of role \"{name}\"")));
        }
        // The new owner has to be able to make it where it is.
        match thing.name() {
            Some(name) if !is_temporary(&name.schema) => {
                running.catalog.may(to).need(&Thing::Schema(name.schema), Privileges::CREATE)?;
            }
            Some(_) => {}
            None => may.need(&Thing::Database, Privileges::CREATE)?,
        }
    }
    running.home.commit(|state| {
        state.give_to(&thing, to);
        Ok(())
    })?;
    Ok(Done { tag, rows: None })
}
