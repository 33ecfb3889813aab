//! Who may do what, as `information_schema` shows it to a role: what it was given, has given, or everybody has.

use std::collections::BTreeMap;

use super::rows::Columns;
use crate::catalog::privileges::{Acl, PUBLIC, Privileges};
use crate::catalog::rights::{May, Thing};
use crate::catalog::{CATALOG, CatalogState, Entry, Name};
use crate::plan::system::Descriptions;

/// A privilege that somebody has.
struct Given {
    by: String,
    to: String,
    name: Name,
    column: Option<String>,
    what: &'static str,
    may_grant: bool,
}

fn role(id: u32, state: &CatalogState) -> String {
    match id {
        PUBLIC => "PUBLIC".into(),
        id => state.roles().by_id(id).map_or_else(|| id.to_string(), |(name, _)| name.to_string()),
    }
}

fn add(
    all: &mut Vec<Given>,
    (name, column): (&Name, Option<&str>),
    (acl, of): (&Acl, Privileges),
    (may, state): (&May<'_>, &CatalogState),
) {
    let owner = state.owner_of(&Thing::named(name));
    let is_shown = |id: u32| id == PUBLIC || may.act_as(id);
    for grant in acl.all().filter(|grant| is_shown(grant.to) || is_shown(grant.by)) {
        for (one, what) in grant.may.within(of).each() {
            all.push(Given {
                by: role(grant.by, state),
                to: role(grant.to, state),
                name: name.clone(),
                column: column.map(String::from),
                what,
                may_grant: grant.to == owner || grant.may_grant.has(one),
            });
        }
    }
}

fn tables(state: &CatalogState) -> impl Iterator<Item = &Name> {
    let is_table = |entry: &Entry| !matches!(entry, Entry::Sequence(_) | Entry::Function(_));
    state.entries().filter(move |(_, entry)| is_table(entry)).map(|(name, _)| name)
}

fn yes_or_no(is: bool) -> Option<&'static str> {
    Some(if is { "YES" } else { "NO" })
}

/// `table_privileges`, and `role_table_grants`, which has not what everybody has.
pub(super) fn of_tables(state: &CatalogState, user: u32, with_public: bool) -> Columns {
    let may = state.may(user);
    let mut all = Vec::new();
    for name in tables(state) {
        let acl = state.acl_of(&Thing::named(name));
        add(&mut all, (name, None), (&acl, Privileges::OF_TABLE), (&may, state));
    }
    all.retain(|given| with_public || given.to != "PUBLIC");
    shown(&all, false).text("with_hierarchy", all.iter().map(|given| yes_or_no(given.what == "SELECT")))
}

/// `column_privileges`, and `role_column_grants`.
pub(super) fn of_columns(all: &Descriptions, state: &CatalogState, user: u32, with_public: bool) -> Columns {
    let may = state.may(user);
    let mut given = Vec::new();
    for name in tables(state) {
        let thing = Thing::named(name);
        let table = state.acl_of(&thing);
        let described = all.get(&name.schema).and_then(|tables| tables.get(&name.table));
        let own: Option<&BTreeMap<String, Acl>> = state.rights_to(&thing).map(|rights| &rights.columns);
        for field in described.iter().flat_map(|of| of.schema.fields()) {
            let column = Some(field.name().as_str());
            add(&mut given, (name, column), (&table, Privileges::OF_COLUMN), (&may, state));
            if let Some(acl) = own.and_then(|own| own.get(field.name())) {
                add(&mut given, (name, column), (acl, Privileges::OF_COLUMN), (&may, state));
            }
        }
    }
    given.retain(|given| with_public || given.to != "PUBLIC");
    shown(&given, true)
}

fn shown(all: &[Given], of_columns: bool) -> Columns {
    let columns = Columns::default()
        .text("grantor", all.iter().map(|given| Some(given.by.as_str())))
        .text("grantee", all.iter().map(|given| Some(given.to.as_str())))
        .text("table_catalog", all.iter().map(|_| Some(CATALOG)))
        .text("table_schema", all.iter().map(|given| Some(given.name.schema.as_str())))
        .text("table_name", all.iter().map(|given| Some(given.name.table.as_str())));
    let columns = match of_columns {
        true => columns.text("column_name", all.iter().map(|given| given.column.as_deref())),
        false => columns,
    };
    columns
        .text("privilege_type", all.iter().map(|given| Some(given.what)))
        .text("is_grantable", all.iter().map(|given| yes_or_no(given.may_grant)))
}

/// `enabled_roles`: the roles that one acts as.
pub(super) fn enabled_roles(state: &CatalogState, user: u32) -> Columns {
    let may = state.may(user);
    let names: Vec<&str> = state.roles().all().filter(|(_, role)| may.act_as(role.id)).map(|(name, _)| name).collect();
    Columns::default().text("role_name", names.iter().map(|name| Some(*name)))
}

/// `applicable_roles`: memberships of those.
pub(super) fn applicable_roles(state: &CatalogState, user: u32) -> Columns {
    let may = state.may(user);
    let mut rows: Vec<(&str, &str, bool)> = Vec::new();
    for (name, role) in state.roles().all().filter(|(_, role)| may.act_as(role.id)) {
        let of = role.member_of.iter().filter_map(|(group, admin)| Some((state.roles().by_id(*group)?.0, *admin)));
        rows.extend(of.map(|(group, admin)| (name, group, admin)));
    }
    Columns::default()
        .text("grantee", rows.iter().map(|row| Some(row.0)))
        .text("role_name", rows.iter().map(|row| Some(row.1)))
        .text("is_grantable", rows.iter().map(|row| yes_or_no(row.2)))
}

/// Whether a role may do anything with a table, which is what it is shown.
pub(super) fn is_shown(may: &May<'_>, state: &CatalogState, schema: &str, table: &str) -> bool {
    let name = Name { schema: schema.into(), table: table.into() };
    if may.do_everything() || state.get(&name).is_none() {
        return true;
    }
    let thing = Thing::named(&name);
    let columns = state.rights_to(&thing).into_iter().flat_map(|rights| rights.columns.keys());
    let has_column = columns.into_iter().any(|column| !may.with_column(&thing, column).is_empty());
    may.own(&thing) || !may.with(&thing).is_empty() || has_column
}
