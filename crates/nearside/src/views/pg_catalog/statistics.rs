//! What goes on, as PostgreSQL's statistics tell it: sessions, and the rows of tables. What is not counted is NULL.

use super::layout::{Row, Value};
use super::numbers::DATABASE;
use super::relations::rows_of;
use super::world::{Of, Relation, World};
use crate::catalog::rights::May;
use crate::catalog::roles::PredefinedRole;
use crate::catalog::{CATALOG, INFORMATION_SCHEMA, PG_CATALOG, SYSTEM_SCHEMA};
use crate::run::inner::SessionReport;

/// Words of PostgreSQL 15's grammar, each with its kind and whether it names an output without AS.
const KEYWORDS: &str = include_str!("keywords.txt");

/// `pg_stat_activity`: sessions. What those of others do is for who may see it.
pub(super) fn pg_stat_activity(sessions: Vec<SessionReport>, world: &World<'_>, may: &May<'_>) -> Vec<Row> {
    let sees_all = may.act_as_predefined(PredefinedRole::ReadAllStats);
    let row = |one: SessionReport| {
        let mut row: Row = vec![
            ("datid", DATABASE.into()),
            ("datname", CATALOG.into()),
            ("pid", i64::from(one.number).into()),
            ("usesysid", one.user.into()),
            ("usename", world.state.roles().by_id(one.user).map(|(name, _)| name).into()),
        ];
        if !(sees_all || may.act_as(one.user)) {
            row.push(("query", "<insufficient privilege>".into()));
            return row;
        }
        let moment = |at: chrono::DateTime<chrono::Utc>| Value::Moment(at.timestamp_micros());
        let state = match (&one.statement, one.transaction) {
            (Some(_), _) => "active",
            (None, None) => "idle",
            (None, Some((_, false))) => "idle in transaction",
            (None, Some((_, true))) => "idle in transaction (aborted)",
        };
        let began = one.transaction.map(|(began, _)| began).or(one.statement.as_ref().map(|(_, began)| *began));
        row.extend([
            ("application_name", one.application_name.into()),
            ("backend_start", moment(one.began)),
            ("xact_start", began.map_or(Value::Null, moment)),
            ("query_start", one.statement.as_ref().map_or(Value::Null, |(_, began)| moment(*began))),
            ("state", state.into()),
            ("query", one.statement.map_or_else(String::new, |(text, _)| text).into()),
            ("backend_type", "client backend".into()),
        ]);
        row
    };
    sessions.into_iter().map(row).collect()
}

/// `pg_stat_database`.
pub(super) fn pg_stat_database(sessions: usize) -> Vec<Row> {
    vec![vec![
        ("datid", DATABASE.into()),
        ("datname", CATALOG.into()),
        ("numbackends", i64::try_from(sessions).unwrap_or(i64::MAX).into()),
    ]]
}

/// `pg_stat_all_tables`, or without those of the system `pg_stat_user_tables`.
pub(super) fn pg_stat_tables(world: &World<'_>, with_system: bool) -> Vec<Row> {
    let row = |of: &Relation<'_>| {
        let is_system = [PG_CATALOG, INFORMATION_SCHEMA, SYSTEM_SCHEMA].contains(&of.schema);
        let is_table = matches!(of.of, Of::Table(_) | Of::System("r"));
        (is_table && (with_system || !is_system)).then(|| {
            let rows = rows_of(of);
            vec![
                ("relid", of.oid.into()),
                ("schemaname", of.schema.into()),
                ("relname", of.name.into()),
                ("n_live_tup", if rows < 0 { Value::Null } else { rows.into() }),
            ]
        })
    };
    world.relations().iter().filter_map(row).collect()
}

/// What `pg_get_keywords()` gives.
pub(super) fn pg_get_keywords() -> Vec<Row> {
    let row = |line: &'static str| {
        let mut parts = line.split(' ');
        let (word, kind, is_label) = (parts.next()?, parts.next()?, parts.next()? == "t");
        let about = match kind {
            "U" => "unreserved",
            "C" => "unreserved (cannot be function or type name)",
            "T" => "reserved (can be function or type name)",
            _ => "reserved",
        };
        let label = if is_label { "can be bare label" } else { "requires AS" };
        let row: Row = vec![
            ("word", word.into()),
            ("catcode", kind.into()),
            ("barelabel", is_label.into()),
            ("catdesc", about.into()),
            ("baredesc", label.into()),
        ];
        Some(row)
    };
    KEYWORDS.lines().filter_map(row).collect()
}
