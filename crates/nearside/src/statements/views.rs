//! `CREATE VIEW`, and what is kept of the query of a view.

use std::cell::Cell;
use std::sync::Arc;

use datafusion_expr::CreateView;
use datafusion_sql::parser::Statement as DfStatement;
use sqlparser::ast::Statement;

use crate::catalog::check_option::CheckOption;
use crate::catalog::path::is_temporary;
use crate::catalog::rights::Thing;
use crate::catalog::{CatalogState, Entry, Name, ViewEntry};
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::plan::context::PlanContext;
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, KnownTables, normalised, qualify, without_stars};
use crate::statements::{viewed, written_views};

/// Makes a view, or another one of its name.
///
/// # Errors
/// Those of planning its query, a name that is taken, columns that a view in whose place it comes has and it has not.
pub(crate) fn create_view(
    create: CreateView,
    check: Option<CheckOption>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let name = running.new_name(&create.name, create.temporary)?;
    let Some(definition) = create.definition else {
        return Err(Error::Internal("a view without its SQL".into()));
    };
    let (written, columns) = view_query(&definition)?;
    let FixedQuery { sql, reads_temporary } = fixed_query(&written, &name, running)?;
    let name = match reads_temporary && create.name.schema().is_none() {
        true => running.path().of_temporary(&create.name)?,
        false => name,
    };
    let entry = ViewEntry { sql, columns, check, comments: Arc::default() };
    if create.or_replace
        && let Some(Entry::View(known)) = running.catalog.get(&name)
    {
        keeps_columns(&name, (known, &entry), running)?;
    }
    if check.is_some() {
        can_check(&name, &entry, running)?;
    }
    running.home.commit(|state| {
        let mut comments = Arc::default();
        match state.get(&name) {
            // As in PostgreSQL, what was said of it stays.
            Some(Entry::View(known)) if create.or_replace => comments = Arc::clone(&known.comments),
            Some(other) => return Err(Error::Exists { kind: other.kind(), name: name.shown() }),
            None => {}
        }
        let is_new = state.get(&name).is_none();
        state.put_view(name.clone(), Arc::new(ViewEntry { comments, ..entry.clone() }))?;
        if is_new {
            state.made_by(running.user, Thing::named(&name));
        }
        Ok(())
    })?;
    Ok(Done::new("CREATE VIEW"))
}

/// Refuses a view in the place of another whose columns it has not, first and in order, as PostgreSQL does.
fn keeps_columns(name: &Name, (known, new): (&ViewEntry, &ViewEntry), running: &Arc<RunningStatement>) -> Result<()> {
    let context = running.own_context();
    // One that cannot be used any more is nobody's hindrance.
    let Ok(known) = context.columns_of_entry(name, known) else { return Ok(()) };
    let new = context.columns_of_entry(name, new)?;
    let refused = |what: String| {
        let text = format!("OR REPLACE of view '{}' cannot {what}; drop the view first", name.shown());
        Err(Error::plan(SqlState::InvalidTableDefinition, text))
    };
    for (place, column) in known.fields().iter().enumerate() {
        let Some(instead) = new.fields().get(place) else {
            return refused(format!("leave out column '{}'", column.name()));
        };
        if instead.name() != column.name() {
            return refused(format!("call column '{}' '{}'", column.name(), instead.name()));
        }
        let (was, is) = (sql_type(column.data_type()), sql_type(instead.data_type()));
        if was != is {
            return refused(format!("make column '{}' {is}, which is {was}", column.name()));
        }
    }
    Ok(())
}

/// Refuses CHECK OPTION of a view that cannot be written.
fn can_check(name: &Name, entry: &ViewEntry, running: &Arc<RunningStatement>) -> Result<()> {
    let mut state = CatalogState::clone(&running.catalog);
    state.put_view(name.clone(), Arc::new(entry.clone()))?;
    match written_views::updatable(name, &running.over(running.catalog.over(Arc::new(state))))? {
        Ok(_) => Ok(()),
        Err(why) => Err(Error::Unsupported(format!(
            "WITH CHECK OPTION of view '{}' is not supported: it is for views that can be written, and {} cannot",
            name.shown(),
            why.kind
        ))),
    }
}

/// The query of a view as it is kept.
pub(crate) struct FixedQuery {
    /// Its text, in which names mean for good what they mean here and now.
    pub sql: String,
    /// Whether it reads temporary tables.
    pub reads_temporary: bool,
}

/// The query of a view that is to have a name.
///
/// # Errors
/// Those of planning it.
pub(crate) fn fixed_query(written: &str, name: &Name, running: &Arc<RunningStatement>) -> Result<FixedQuery> {
    // Planned once more as the view itself: it must not read itself, through others or in place of the one it replaces.
    let context = PlanContext { planning: vec![name.clone()], ..running.own_context() };
    let plan = AnyStatement::one(written)?.plan(&context)?;
    // What `*` shows is said now; where it cannot be, the text stays as it is.
    let mut sql = written.to_string();
    let mut has_temporary = false;
    if let AnyStatement::Sql(statement) = AnyStatement::one(written)?
        && let DfStatement::Statement(statement) = *statement
        && let Statement::Query(mut query) = *statement
    {
        without_stars(&mut query, &|table| context.columns(table))?;
        // Names mean for good what they mean here and now.
        let path = running.path();
        let is_usual = path.is_usual(&running.catalog);
        if !is_usual {
            let reads_temporary = Cell::new(false);
            qualify(&mut *query, &|name| {
                let found = path.meant(name, &running.catalog)?;
                reads_temporary.set(reads_temporary.get() || is_temporary(&found.schema));
                Some(found)
            });
            has_temporary = reads_temporary.get();
        }
        let fixed = query.to_string();
        let context = PlanContext { path: path.lasting(), ..context };
        let planned = AnyStatement::one(&fixed).and_then(|statement| statement.plan(&context));
        if planned.is_ok_and(|fixed| viewed::types(&fixed) == viewed::types(&plan)) {
            sql = fixed;
        } else if !is_usual {
            return Err(Error::Unsupported(
                "the tables of this view cannot be told from their names alone; write their schemas".into(),
            ));
        }
    }
    Ok(FixedQuery { sql, reads_temporary: has_temporary })
}

/// The query and the column names of `CREATE VIEW v (a, b) AS ..`.
fn view_query(definition: &str) -> Result<(String, Vec<String>)> {
    let AnyStatement::Sql(statement) = AnyStatement::one(definition)? else {
        return Err(Error::Internal("a view's definition is no SQL".into()));
    };
    match *statement {
        DfStatement::Statement(inner) => match *inner {
            Statement::CreateView(view) => {
                let columns = view.columns.into_iter().map(|c| normalised(c.name)).collect();
                Ok((view.query.to_string(), columns))
            }
            _ => Err(Error::Internal("a view's definition is no CREATE VIEW".into())),
        },
        _ => Err(Error::Internal("a view's definition is no CREATE VIEW".into())),
    }
}
