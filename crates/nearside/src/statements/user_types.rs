//! CREATE, ALTER and DROP TYPE, of enums.
//!
//! Columns of an enum have it in their rules, with its labels: a statement that changes an enum changes the tables that
//! have such columns too, all or none.

use std::sync::Arc;

use datafusion_sql::parser::Statement as DfStatement;
use sqlparser::ast::{ObjectName, Statement};

use crate::catalog::index::indexed;
use crate::catalog::lengths::Length;
use crate::catalog::rights::Thing;
use crate::catalog::user_types::{EnumType, LABEL_BYTES, TypeEntry, no_type};
use crate::catalog::{CatalogState, Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, Beside, TypeStatement, casts_to, object_name, object_reference, quoted};
use crate::statements::writer::as_owner;
use crate::statements::{alter_column, ddl, rules, written};

/// Carries out a statement about types.
///
/// # Errors
/// Names and labels that are taken or that there are not, columns of a type that goes.
pub(crate) fn run(statement: &TypeStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    match statement {
        TypeStatement::Create { name, labels } => create(name, labels, running),
        TypeStatement::AddValue { name, label, if_not_exists, place } => {
            check_label(label)?;
            let name = running.named(name)?;
            let of = Arc::clone(&running.catalog.user_type(&name)?.of);
            if of.place(label).is_some() {
                return match if_not_exists {
                    true => Ok(Done::new("ALTER TYPE")),
                    false => Err(taken(&of, label)),
                };
            }
            let place = match place {
                None => of.labels.len(),
                Some((beside, other)) => found(&of, other)? + usize::from(*beside == Beside::After),
            };
            let mut changed = EnumType::clone(&of);
            changed.labels.insert(place, label.clone());
            change(&name, changed, None, running)
        }
        TypeStatement::RenameValue { name, from, to } => {
            check_label(to)?;
            let name = running.named(name)?;
            let of = Arc::clone(&running.catalog.user_type(&name)?.of);
            let place = found(&of, from)?;
            if of.place(to).is_some() {
                return Err(taken(&of, to));
            }
            let mut changed = EnumType::clone(&of);
            changed.labels[place].clone_from(to);
            change(&name, changed, Some((from, to)), running)
        }
        TypeStatement::Rename { name, to } => {
            let name = running.named(name)?;
            let of = Arc::clone(&running.catalog.user_type(&name)?.of);
            change(&name, EnumType { name: to.clone(), ..EnumType::clone(&of) }, None, running)
        }
        TypeStatement::Drop { names, if_exists, cascade } => drop_all(names, (*if_exists, *cascade), running),
    }
}

fn create(name: &ObjectName, labels: &[String], running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.new_name(&object_reference(name)?, false)?;
    for (place, label) in labels.iter().enumerate() {
        check_label(label)?;
        if labels[..place].contains(label) {
            return Err(Error::plan(
                SqlState::DuplicateObject,
                format!("enum '{}': the label '{label}' stands twice", name.shown()),
            ));
        }
    }
    let of = EnumType {
        id: running.home.next_id(),
        schema: name.schema.clone(),
        name: name.table.clone(),
        labels: labels.to_vec(),
    };
    let entry = Arc::new(TypeEntry { of: Arc::new(of), comments: Arc::default() });
    running.home.commit(|state| {
        is_free(state, &name)?;
        state.put_type(name.clone(), entry)?;
        state.made_by(running.user, Thing::named(&name));
        Ok(())
    })?;
    Ok(Done::new("CREATE TYPE"))
}

pub(super) fn is_free(state: &CatalogState, name: &Name) -> Result<()> {
    match state.get(name) {
        Some(taken) => Err(Error::Exists { kind: taken.kind(), name: name.shown() }),
        None => Ok(()),
    }
}

fn check_label(label: &str) -> Result<()> {
    match label.len() > LABEL_BYTES {
        true => Err(Error::plan(
            SqlState::InvalidName,
            format!("the label '{label}' is too long; labels have at most {LABEL_BYTES} bytes"),
        )),
        false => Ok(()),
    }
}

fn taken(of: &EnumType, label: &str) -> Error {
    Error::plan(SqlState::DuplicateObject, format!("enum {} has the label '{label}' already", of.shown()))
}

fn found(of: &EnumType, label: &str) -> Result<usize> {
    let none = || Error::plan(SqlState::InvalidParameterValue, format!("enum {} has no label '{label}'", of.shown()));
    of.place(label).ok_or_else(none)
}

/// Makes an enum another, in the catalog and in the tables that have columns of it, whose values `renamed` says.
fn change(
    name: &Name,
    changed: EnumType,
    renamed: Option<(&str, &str)>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let to = Name { schema: name.schema.clone(), table: changed.name.clone() };
    if to != *name
        && let Some(user) = users(name, running)?.into_iter().next()
    {
        return Err(Error::Unsupported(format!(
            "a type that {} casts to cannot be renamed; drop that first",
            user.shown()
        )));
    }
    let of = Arc::new(changed);
    let columns = running.catalog.columns_of_enum(of.id);
    if !columns.is_empty() && running.transaction.is_none() {
        return Err(running.wants_transaction());
    }
    for (table, columns) in columns {
        as_owner(&table, running, |entry, running| {
            let mut changed = with_enum(entry, &columns, &of, running)?;
            if let Some(renamed) = renamed {
                changed = alter_column::with_labels(entry, &changed, &columns, renamed, running)?;
            }
            let changed = indexed(changed, running)?;
            let _ahead = running.home.ahead(&changed.table().base)?;
            running.home.commit(|state| state.put_table(table.clone(), changed))
        })?;
    }
    running.home.commit(|state| {
        let comments = Arc::clone(&state.user_type(name)?.comments);
        if to != *name {
            is_free(state, &to)?;
        }
        let rights = state.take_for_again(name);
        state.put_type(to.clone(), Arc::new(TypeEntry { of: Arc::clone(&of), comments }))?;
        state.put_rights(Thing::named(&to), rights);
        Ok(())
    })?;
    Ok(Done::new("ALTER TYPE"))
}

/// A table whose columns have another state of their enum.
fn with_enum(
    table: &TableEntry,
    columns: &[String],
    of: &Arc<EnumType>,
    running: &Arc<RunningStatement>,
) -> Result<TableEntry> {
    let mut changed = table.clone();
    for column in columns {
        Arc::make_mut(&mut changed.lengths).insert(column.clone(), Length::of_enum(Arc::clone(of)));
    }
    // Conditions that cast to the type cast to what it becomes.
    let mut state = CatalogState::clone(running.catalog.state());
    let name = Name { schema: of.schema.clone(), table: of.name.clone() };
    state.put_type(name, Arc::new(TypeEntry { of: Arc::clone(of), comments: Arc::default() }))?;
    let running = &Arc::new(running.over(running.catalog.over(Arc::new(state))));
    for column in columns {
        let rules = rules::retyped(&changed, column, running).map_err(|error| {
            Error::plan(
                error.code(),
                format!("a condition of table '{}' would be none any more: {error}; drop it first", table.name.shown()),
            )
        })?;
        changed.rules = Arc::new(rules);
    }
    Ok(changed)
}

fn drop_all(names: &[ObjectName], (if_exists, cascade): (bool, bool), running: &Arc<RunningStatement>) -> Result<Done> {
    let mut going: Vec<(Name, Arc<EnumType>)> = Vec::new();
    for name in names {
        let name = running.named(name)?;
        match running.catalog.get(&name) {
            Some(Entry::Type(found)) => going.push((name, Arc::clone(&found.of))),
            None if if_exists => {}
            _ => return Err(no_type(&name.shown())),
        }
    }
    let mut views = Vec::new();
    for (name, of) in &going {
        for user in users(name, running)? {
            match user {
                User::View(view) if cascade => views.push(view),
                user => {
                    return Err(Error::plan(
                        SqlState::DependentObjectsStillExist,
                        format!(
                            "{} casts to type {}; drop it first{}",
                            user.shown(),
                            of.shown(),
                            if cascade { "" } else { ", or use CASCADE" }
                        ),
                    ));
                }
            }
        }
        let columns = running.catalog.columns_of_enum(of.id);
        if let (Some((table, columns)), false) = (columns.first(), cascade) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "column '{}' of table '{}' is of type {}; drop it first, or use CASCADE",
                    columns[0],
                    table.shown(),
                    of.shown()
                ),
            ));
        }
        if !columns.is_empty() && running.transaction.is_none() {
            return Err(running.wants_transaction());
        }
        for (table, columns) in columns {
            drop_columns(&table, &columns, running)?;
        }
    }
    running.home.commit(|state| {
        views.iter().chain(going.iter().map(|(name, _)| name)).for_each(|name| drop(state.remove(name)));
        Ok(())
    })?;
    Ok(Done::new("DROP TYPE"))
}

/// What casts to a type in a text that is kept.
pub(super) enum User {
    View(Name),
    /// A default, a condition or a computed column of a table.
    Table(Name),
}

impl User {
    pub(super) fn shown(&self) -> String {
        match self {
            User::View(name) => format!("view '{}'", name.shown()),
            User::Table(name) => format!("a default or a condition of table '{}'", name.shown()),
        }
    }
}

/// What casts to a type in texts that are kept.
pub(super) fn users(of: &Name, running: &RunningStatement) -> Result<Vec<User>> {
    let is = |name: &ObjectName| object_name(name).is_ok_and(|name| name == *of);
    let mut users = Vec::new();
    for (name, entry) in running.catalog.entries() {
        if let Some(query) = entry.query()
            && let AnyStatement::Sql(statement) = AnyStatement::one(query)?
            && let DfStatement::Statement(statement) = *statement
            && casts_to(statement.as_ref(), &is)
        {
            users.push(User::View(name.clone()));
        }
        match entry {
            Entry::Table(table) => {
                let defaults = table.defaults.values().map(|default| &default.text);
                let rules =
                    table.rules.generated.values().chain(table.rules.checks.iter().map(|check| &check.condition));
                let mut texts = defaults.chain(rules.map(|rule| &rule.text));
                if texts.any(|text| rules::parse(text).is_ok_and(|expr| casts_to(&expr, &is))) {
                    users.push(User::Table(name.clone()));
                }
            }
            Entry::View(_)
            | Entry::External(_)
            | Entry::Sequence(_)
            | Entry::Type(_)
            | Entry::Function(_)
            | Entry::Domain(_) => {}
        }
    }
    Ok(users)
}

/// Drops columns of a table, with all that depends on them.
///
/// # Errors
/// As `ALTER TABLE .. DROP COLUMN .. CASCADE`.
pub(super) fn drop_columns(table: &Name, columns: &[String], running: &Arc<RunningStatement>) -> Result<()> {
    let drops: Vec<String> = columns.iter().map(|column| format!("DROP COLUMN {} CASCADE", quoted(column))).collect();
    let sql = format!("ALTER TABLE {} {}", written::name(table), drops.join(", "));
    let AnyStatement::Sql(statement) = AnyStatement::one(&sql)? else {
        return Err(Error::Internal("an ALTER TABLE that is none".into()));
    };
    match *statement {
        DfStatement::Statement(statement) => match *statement {
            Statement::AlterTable(alter) => ddl::alter_table(&alter, running).map(drop),
            _ => Err(Error::Internal("an ALTER TABLE that is none".into())),
        },
        _ => Err(Error::Internal("an ALTER TABLE that is none".into())),
    }
}
