//! CREATE, REFRESH, ALTER and DROP MATERIALIZED VIEW.
//!
//! A refresh computes all rows anew and puts them in the place of those that were there in one commit: readers see the
//! ones or the others, and wait for nobody, whether it is CONCURRENTLY or not.

use std::sync::Arc;

use datafusion_common::Constraints;
use datafusion_expr::LogicalPlan;
use datafusion_sql::parser::Statement as DfStatement;
use sqlparser::ast::{ObjectName, Statement};

use crate::catalog::index::{Origin, indexed};
use crate::catalog::lengths::of_query;
use crate::catalog::materialized::Materialized;
use crate::catalog::path::is_temporary;
use crate::catalog::rights::Thing;
use crate::catalog::{CatalogState, Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::context::with_column_names;
use crate::run::outcome::Done;
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, MaterializedStatement, NewMaterialized, object_reference, quoted};
use crate::statements::keys::check_keys;
use crate::statements::write::{emptied, new_table, stage, stored_schema};
use crate::statements::writer::as_owner;
use crate::statements::{ddl, dropping, placement, views};

/// Carries out a statement about materialized views.
///
/// # Errors
/// Names that are taken or that there are not, those of queries.
pub(crate) fn run(statement: &MaterializedStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    match statement {
        MaterializedStatement::Create(new) => create(new, running),
        MaterializedStatement::Refresh { name, is_concurrent, with_data } => {
            refresh(name, (*is_concurrent, *with_data), running)
        }
        MaterializedStatement::Alter { name, if_exists, as_table } => alter((name, *if_exists), as_table, running),
        MaterializedStatement::Drop { names, if_exists, cascade } => {
            dropping::drop_all(dropping::Dropped::Materialized, names, (*if_exists, *cascade), running)
        }
    }
}

/// What a name stands for, if that is a materialized view.
///
/// # Errors
/// There is nothing of the name, or something else.
fn found<'a>(name: &Name, state: &'a CatalogState) -> Result<(&'a Arc<TableEntry>, &'a Arc<Materialized>)> {
    match state.get(name) {
        Some(Entry::Table(table)) if let Some(of) = &table.materialized => Ok((table, of)),
        Some(other) => Err(Error::plan(
            SqlState::WrongObjectType,
            format!("'{}' is {}, not a materialized view", name.shown(), other.described()),
        )),
        None => Err(state.not_found("materialized view", name)),
    }
}

fn create(new: &NewMaterialized, running: &Arc<RunningStatement>) -> Result<Done> {
    let done = Done::new("CREATE MATERIALIZED VIEW");
    let name = running.new_name(&object_reference(&new.name)?, false)?;
    if let Some(taken) = running.catalog.get(&name) {
        return match new.if_not_exists {
            true => Ok(done),
            false => Err(Error::Exists { kind: taken.kind(), name: name.shown() }),
        };
    }
    let AnyStatement::Sql(statement) = &new.query else {
        return Err(Error::Unsupported("a materialized view is of a query that only reads".into()));
    };
    let written = match statement.as_ref() {
        DfStatement::Statement(statement) if matches!(statement.as_ref(), Statement::Query(_)) => statement.to_string(),
        _ => return Err(Error::syntax("a query is expected behind AS")),
    };
    let fixed = views::fixed_query(&written, &name, running)?;
    if fixed.reads_temporary || is_temporary(&name.schema) {
        return Err(Error::Unsupported(
            "a materialized view of temporary tables, or in their schema, is not supported; use CREATE TEMPORARY TABLE \
             .. AS"
                .into(),
        ));
    }
    // Who makes it reads it.
    let plan = AnyStatement::one(&written)?.plan(&running.plan_context())?;
    let columns = all_columns(&plan_names(&plan), &new.columns)?;
    let plan = with_column_names(plan, &columns)?;
    // What shows the query shows the columns that it has.
    let sql = match columns.is_empty() {
        true => fixed.sql,
        false => {
            let named = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
            format!("SELECT {named} FROM ({}) AS {} ({named})", fixed.sql, quoted(&name.table))
        }
    };
    let schema = stored_schema(plan.schema().as_arrow(), &Constraints::default(), false)?;
    let mut table = new_table(name.clone(), schema, new.placement.as_deref(), running)?;
    table.lengths = of_query(plan.schema().as_arrow());
    let mut count = None;
    if new.with_data {
        let rows = stage(query::run(plan, Arc::clone(running), true)?, &table, running)?;
        count = Some(rows.rows());
        table = rows.appended_to(&table, &table.base);
    }
    table.materialized = Some(Arc::new(Materialized { sql, is_populated: new.with_data }));
    let table = indexed(table, running)?;
    let _ahead = running.home.ahead(&table.table().base)?;
    running.check()?;
    running.home.commit(|state| {
        match state.get(&name) {
            Some(_) if new.if_not_exists => return Ok(()),
            Some(taken) => return Err(Error::Exists { kind: taken.kind(), name: name.shown() }),
            None => {}
        }
        state.put_table(name.clone(), table)?;
        state.made_by(running.user, Thing::named(&name));
        Ok(())
    })?;
    Ok(Done { rows: count, ..done })
}

fn plan_names(plan: &LogicalPlan) -> Vec<String> {
    plan.schema().fields().iter().map(|field| field.name().clone()).collect()
}

/// The names of all columns, of which the first ones are given.
fn all_columns(of_query: &[String], given: &[String]) -> Result<Vec<String>> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    match of_query.get(given.len()..) {
        Some(rest) => Ok(given.iter().chain(rest).cloned().collect()),
        None => Err(Error::plan(SqlState::SyntaxError, "too many column names were specified")),
    }
}

fn refresh(
    name: &ObjectName,
    (is_concurrent, with_data): (bool, bool),
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let name = running.named(name)?;
    found(&name, &running.catalog)?;
    if is_concurrent && !with_data {
        return Err(Error::syntax("REFRESH CONCURRENTLY computes the rows; leave WITH NO DATA out, or CONCURRENTLY"));
    }
    as_owner(&name, running, |table, running| {
        let (_, of) = found(&name, &running.catalog)?;
        if is_concurrent {
            may_be_concurrent(table, of)?;
        }
        let mut changed = emptied(table);
        if with_data {
            let plan = running.plan_context().plan_as_owner(&name, &of.sql)?;
            let is_same = |(of, to): (&Arc<arrow::datatypes::Field>, &Arc<arrow::datatypes::Field>)| {
                storage::surface_type(of.data_type()) == *to.data_type()
            };
            let (given, kept) = (plan.schema().fields(), table.base.schema.fields());
            if given.len() != kept.len() || !given.iter().zip(kept).all(is_same) {
                return Err(Error::plan(
                    SqlState::InvalidObjectDefinition,
                    format!(
                        "the query of materialized view '{}' has other columns by now; drop it and make it again",
                        name.shown()
                    ),
                ));
            }
            let rows = stage(query::run(plan, Arc::clone(running), true)?, &changed, running)?;
            changed = rows.appended_to(&changed, &changed.base);
        }
        let of = Materialized { is_populated: with_data, ..Materialized::clone(of) };
        changed.materialized = Some(Arc::new(of));
        let changed = indexed(changed, running)?;
        check_keys(&changed, None, running)?;
        let _ahead = running.home.ahead(&changed.table().base)?;
        running.check()?;
        let rows = changed.table().base.rows();
        running.home.commit(|state| match state.by_id(table.id) {
            Some(known) if known.name == table.name => state.put_table(name.clone(), changed),
            _ => Err(state.not_found("materialized view", &name)),
        })?;
        if running.transaction.is_none() {
            table.meta.wrote(rows);
        }
        Ok(Done::new("REFRESH MATERIALIZED VIEW"))
    })
}

/// As in PostgreSQL, for who relies on it.
fn may_be_concurrent(table: &TableEntry, of: &Materialized) -> Result<()> {
    if !of.is_populated {
        return Err(Error::Unsupported(format!(
            "REFRESH CONCURRENTLY of materialized view '{}', which has not been populated, is not supported; leave \
             CONCURRENTLY out",
            table.name.shown()
        )));
    }
    match table.indexes.iter().any(|index| index.unique && index.origin == Origin::Created) {
        true => Ok(()),
        false => Err(Error::plan(
            SqlState::ObjectNotInPrerequisiteState,
            format!(
                "materialized view '{}' cannot be refreshed CONCURRENTLY: it has no unique index; CREATE UNIQUE INDEX \
                 makes one",
                table.name.shown()
            ),
        )),
    }
}

fn alter(
    (name, if_exists): (&ObjectName, bool),
    as_table: &AnyStatement,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let found_name = running.named(name)?;
    if !if_exists || running.catalog.get(&found_name).is_some() {
        found(&found_name, &running.catalog)?;
        match as_table {
            AnyStatement::AlterPlacement(alter) => drop(placement::alter(alter, running)?),
            AnyStatement::Sql(statement) => match statement.as_ref() {
                DfStatement::Statement(statement) if let Statement::AlterTable(alter) = statement.as_ref() => {
                    ddl::alter_table(alter, running)?;
                }
                _ => return Err(not_altered()),
            },
            _ => return Err(not_altered()),
        }
    }
    Ok(Done::new("ALTER MATERIALIZED VIEW"))
}

fn not_altered() -> Error {
    Error::Unsupported(
        "this form of ALTER MATERIALIZED VIEW is not supported; there are RENAME TO, RENAME COLUMN, OWNER TO and SET \
         PLACEMENT"
            .into(),
    )
}
