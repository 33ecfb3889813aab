//! `pg_catalog`: what there is, in the tables that PostgreSQL has for it, as psql, drivers and tools ask for it.
//!
//! Rows are made of the catalog when a statement names a table. Tables that have none (triggers, policies,
//! publications, ..) are of what there is not. Numbers (`oid`) are those of [`numbers`]; expressions are kept as texts,
//! which is what `pg_node_tree` columns have; what is told by number but shown by name (`regclass`) is the affair of
//! [`catalog_asked`](crate::functions::catalog_asked).
//!
//! # Limits
//! Types of rows (`reltype`), operators, casts and classes of operators are not told; arguments of functions neither.

mod answers;
mod comments;
mod constraints;
mod layout;
mod made_functions;
mod made_types;
mod numbers;
mod relations;
mod roles;
mod server;
mod statistics;
mod types;
mod world;

use std::sync::{Arc, OnceLock};

use datafusion_common::config::ConfigEntry;
use datafusion_expr::TableSource;

use crate::catalog::CatalogState;
use crate::error::Result;
use crate::functions::catalog_asked::Answers;
use crate::plan::planner::Planner;
use crate::plan::system::{Descriptions, OfSession};
use crate::run::inner::SessionReport;
use crate::tables::sources::GivenSource;
use answers::OfCatalog;
use numbers::Numbers;
use world::World;

/// Whether there is a table of the name.
pub(super) fn has(name: &str) -> bool {
    layout::of(name).is_some()
}

/// Names of the tables, for who looks for a near one.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    layout::all().map(|layout| layout.name)
}

fn function_names(planner: &Planner) -> impl Iterator<Item = &str> {
    let scalars = planner.scalar_functions().keys().map(String::as_str);
    let aggregates = planner.aggregate_functions().keys().map(String::as_str);
    scalars.chain(aggregates).chain(planner.window_functions().keys().map(String::as_str))
}

/// The name of a type in `pg_type`, by its number; of those that are there from the beginning.
pub(super) fn type_name(oid: u32) -> Option<String> {
    let (known, is_array) = types::of(oid)?;
    Some(if is_array { format!("_{}", known.name) } else { known.name.to_string() })
}

/// What the rows are made of.
pub(super) struct Made<'a> {
    /// What exists.
    pub state: &'a CatalogState,
    /// Names and columns of it.
    pub all: &'a Descriptions,
    /// Functions.
    pub planner: &'a Planner,
    /// Where names without a schema are looked up.
    pub path: &'a [String],
    /// Names of the system's views.
    pub system: &'a [&'static str],
    /// The sessions that there are.
    pub sessions: &'a dyn Fn() -> Vec<SessionReport>,
    /// The number of the role that asks.
    pub user: u32,
}

/// The rows of a table; `None` where there is none of the name.
///
/// # Errors
/// None that rows of the catalog have.
pub(super) fn table(
    name: &str,
    of: &Made<'_>,
    settings: impl FnOnce() -> Vec<ConfigEntry>,
) -> Result<Option<Arc<dyn TableSource>>> {
    let Some(layout) = layout::of(name) else { return Ok(None) };
    let numbers = Numbers::new(of.state, of.system.iter().copied(), function_names(of.planner));
    let world = World::new(of.state, of.path, of.system, Arc::new(numbers));
    let rows = match name {
        "pg_namespace" => server::pg_namespace(&world),
        "pg_class" => relations::pg_class(&world, of.all),
        "pg_attribute" => relations::pg_attribute(&world, of.all),
        "pg_attrdef" => relations::pg_attrdef(&world),
        "pg_index" => relations::pg_index(&world),
        "pg_indexes" => relations::pg_indexes(&world),
        "pg_tables" => relations::pg_tables(&world),
        "pg_matviews" => relations::pg_matviews(&world),
        "pg_views" => relations::pg_views(&world),
        "pg_sequence" => relations::pg_sequence(&world),
        "pg_sequences" => relations::pg_sequences(&world),
        "pg_depend" => relations::pg_depend(&world),
        "pg_shdescription" => comments::pg_shdescription(of.state),
        "pg_description" => comments::pg_description(&world),
        "pg_constraint" => constraints::pg_constraint(&world),
        "pg_type" => made_types::pg_type(&world),
        "pg_enum" => made_types::pg_enum(&world),
        "pg_opclass" => types::pg_opclass(),
        "pg_database" => server::pg_database(of.state),
        "pg_default_acl" => server::pg_default_acl(&world),
        "pg_parameter_acl" => server::pg_parameter_acl(of.state),
        "pg_db_role_setting" => server::pg_db_role_setting(of.state),
        "pg_tablespace" => server::pg_tablespace(),
        "pg_roles" => roles::pg_roles(of.state),
        "pg_authid" => roles::pg_authid(of.state),
        "pg_auth_members" => roles::pg_auth_members(of.state),
        "pg_user" => roles::pg_user(of.state),
        "pg_shadow" => roles::pg_shadow(of.state),
        "pg_group" => roles::pg_group(of.state),
        "pg_am" => server::pg_am(),
        "pg_collation" => server::pg_collation(),
        "pg_language" => server::pg_language(),
        "pg_proc" => made_functions::pg_proc(server::pg_proc(of.planner, &world), &world),
        "pg_settings" => server::pg_settings(&settings()),
        "pg_stat_activity" => statistics::pg_stat_activity((of.sessions)(), &world, &of.state.may(of.user)),
        "pg_stat_database" => statistics::pg_stat_database((of.sessions)().len()),
        "pg_stat_all_tables" => statistics::pg_stat_tables(&world, true),
        "pg_stat_user_tables" => statistics::pg_stat_tables(&world, false),
        "pg_get_keywords" => statistics::pg_get_keywords(),
        _ => Vec::new(),
    };
    Ok(Some(GivenSource::table(layout.batch(&rows)?)))
}

/// What functions that ask the catalog are answered.
pub(super) fn answers(
    state: &Arc<CatalogState>,
    planner: &Planner,
    of: &OfSession,
    system: Vec<&'static str>,
) -> Arc<dyn Answers> {
    let functions = function_names(planner).map(String::from).collect();
    let (path, user) = (of.path.clone(), of.user_id);
    Arc::new(OfCatalog { state: Arc::clone(state), path, user, system, functions, known: OnceLock::new() })
}
