//! What there is one of, or a fixed number: the user, the database, schemas, settings, methods, functions.

use datafusion_common::config::ConfigEntry;

use super::layout::{Row, Value};
use super::numbers::{DATABASE, INDEX_METHOD, TABLE_METHOD, USER};
use super::world::{World, acl_value};
use crate::catalog::rights::{Kind, Thing};
use crate::catalog::roles::Role;
use crate::catalog::{CATALOG, CatalogState, DEFAULT_SCHEMA, INFORMATION_SCHEMA, PG_CATALOG, SYSTEM_SCHEMA};
use crate::plan::planner::Planner;

/// `pg_namespace`.
pub(super) fn pg_namespace(world: &World<'_>) -> Vec<Row> {
    let schemas = world.state.schemas().chain([SYSTEM_SCHEMA, INFORMATION_SCHEMA, PG_CATALOG]);
    let row = |schema: &str| {
        let thing = Thing::Schema(schema.into());
        // As in PostgreSQL, those that are there from the beginning say what everybody may.
        let is_first = [DEFAULT_SCHEMA, SYSTEM_SCHEMA, INFORMATION_SCHEMA, PG_CATALOG].contains(&schema);
        let acl = if is_first { acl_value(Some(&world.state.acl_of(&thing)), world.state) } else { world.acl(&thing) };
        vec![
            ("oid", world.numbers.schema(schema).into()),
            ("nspname", schema.into()),
            ("nspowner", world.state.owner_of(&thing).into()),
            ("nspacl", acl),
        ]
    };
    schemas.map(row).collect()
}

/// `pg_database`.
pub(super) fn pg_database(state: &CatalogState) -> Vec<Row> {
    vec![vec![
        ("oid", DATABASE.into()),
        ("datname", CATALOG.into()),
        ("datdba", state.owner_of(&Thing::Database).into()),
        ("datacl", acl_value(state.rights_to(&Thing::Database).and_then(|rights| rights.acl.as_ref()), state)),
        // UTF8
        ("encoding", 6_i64.into()),
        ("datlocprovider", "c".into()),
        ("datistemplate", false.into()),
        ("datallowconn", true.into()),
        ("datconnlimit", (-1_i64).into()),
        ("dattablespace", 1663_u32.into()),
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ]]
}

/// `pg_default_acl`.
pub(super) fn pg_default_acl(world: &World<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (thing, rights) in world.state.rights().all() {
        if let Thing::Default(role, schema, kind) = thing {
            let kind = match kind {
                Kind::Tables => "r",
                Kind::Sequences => "S",
                Kind::Schemas => "n",
            };
            let schema = schema.as_ref().map_or(0, |schema| world.numbers.schema(schema));
            rows.push(vec![
                ("oid", (16_384 + rows.len() as i64).into()),
                ("defaclrole", (*role).into()),
                ("defaclnamespace", schema.into()),
                ("defaclobjtype", kind.into()),
                ("defaclacl", acl_value(rights.acl.as_ref(), world.state)),
            ]);
        }
    }
    rows
}

/// `pg_parameter_acl`.
pub(super) fn pg_parameter_acl(state: &CatalogState) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (thing, rights) in state.rights().all() {
        if let Thing::Setting(name) = thing {
            rows.push(vec![
                ("oid", (16_384 + rows.len() as i64).into()),
                ("parname", name.as_str().into()),
                ("paracl", acl_value(rights.acl.as_ref(), state)),
            ]);
        }
    }
    rows
}

/// `pg_db_role_setting`: what sessions of roles begin with.
pub(super) fn pg_db_role_setting(state: &CatalogState) -> Vec<Row> {
    let of = state.roles().all().filter(|(_, role)| !role.settings.is_empty());
    let row = |(_, role): (&str, &Role)| {
        let settings = role.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        vec![("setdatabase", 0_u32.into()), ("setrole", role.id.into()), ("setconfig", Value::Texts(settings))]
    };
    of.map(row).collect()
}

/// `pg_tablespace`.
pub(super) fn pg_tablespace() -> Vec<Row> {
    vec![vec![("oid", 1663_u32.into()), ("spcname", "pg_default".into()), ("spcowner", USER.into())]]
}

/// `pg_am`.
pub(super) fn pg_am() -> Vec<Row> {
    let row = |oid: u32, name: &str, kind: &str| {
        vec![("oid", oid.into()), ("amname", name.into()), ("amhandler", "-".into()), ("amtype", kind.into())]
    };
    vec![row(TABLE_METHOD, "heap", "t"), row(INDEX_METHOD, "btree", "i")]
}

/// `pg_collation`: texts are compared by their bytes.
pub(super) fn pg_collation() -> Vec<Row> {
    let row = |oid: u32, name: &str, provider: &str, locale: Option<&str>| {
        vec![
            ("oid", oid.into()),
            ("collname", name.into()),
            ("collnamespace", 11_u32.into()),
            ("collowner", USER.into()),
            ("collprovider", provider.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", (-1_i64).into()),
            ("collcollate", locale.into()),
            ("collctype", locale.into()),
        ]
    };
    vec![row(100, "default", "d", None), row(950, "C", "c", Some("C")), row(951, "POSIX", "c", Some("POSIX"))]
}

/// `pg_language`.
pub(super) fn pg_language() -> Vec<Row> {
    let row = |oid: u32, name: &str| {
        vec![
            ("oid", oid.into()),
            ("lanname", name.into()),
            ("lanowner", USER.into()),
            ("lanispl", false.into()),
            ("lanpltrusted", false.into()),
            ("lanplcallfoid", 0_u32.into()),
            ("laninline", 0_u32.into()),
            ("lanvalidator", 0_u32.into()),
        ]
    };
    vec![row(12, "internal"), row(14, "sql")]
}

/// `pg_proc`: the names of functions; what they take is not told.
pub(super) fn pg_proc(planner: &Planner, world: &World<'_>) -> Vec<Row> {
    let scalars = planner.scalar_functions().keys().map(|name| (name, "f"));
    let aggregates = planner.aggregate_functions().keys().map(|name| (name, "a"));
    let windows = planner.window_functions().keys().map(|name| (name, "w"));
    let mut all: Vec<(&String, &str)> = scalars.chain(aggregates).chain(windows).collect();
    all.sort_unstable();
    all.dedup_by_key(|(name, _)| *name);
    let row = |(name, kind): (&String, &str)| {
        vec![
            ("oid", world.numbers.function(name).into()),
            ("proname", name.as_str().into()),
            ("pronamespace", 11_u32.into()),
            ("proowner", USER.into()),
            ("prolang", 12_u32.into()),
            ("prokind", kind.into()),
            ("prosecdef", false.into()),
            ("proleakproof", false.into()),
            ("proretset", false.into()),
        ]
    };
    all.into_iter().map(row).collect()
}

/// `pg_settings`.
pub(super) fn pg_settings(settings: &[ConfigEntry]) -> Vec<Row> {
    let row = |entry: &ConfigEntry| {
        vec![
            ("name", entry.key.as_str().into()),
            ("setting", entry.value.clone().into()),
            ("category", "Nearside".into()),
            ("short_desc", entry.description.into()),
            ("context", "user".into()),
            ("vartype", "string".into()),
            ("source", "default".into()),
            ("boot_val", Value::Null),
            ("reset_val", Value::Null),
            ("pending_restart", false.into()),
        ]
    };
    settings.iter().map(row).collect()
}
