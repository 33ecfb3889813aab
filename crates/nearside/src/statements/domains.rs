//! CREATE, ALTER and DROP DOMAIN.
//!
//! What a domain says stands in the rules of the tables that have columns of it, too: a statement that changes a domain
//! changes these tables, all or none.

use std::sync::Arc;

use arrow::array::Array;
use sqlparser::ast::{ColumnDef, ColumnOption, ColumnOptionDef, DataType, Ident, ObjectName};

use crate::catalog::domains::{DomainEntry, is_plain};
use crate::catalog::index::indexed;
use crate::catalog::lengths::Length;
use crate::catalog::path::is_temporary;
use crate::catalog::rights::Thing;
use crate::catalog::rules::{Check, VALUE};
use crate::catalog::{CatalogState, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{
    DomainChange, DomainStatement, KnownTables, NewDomain, WrittenCheck, base_of, data_type_of, object_reference,
};
use crate::statements::user_types::{User, drop_columns, is_free, users};
use crate::statements::writer::as_owner;
use crate::statements::{ddl, defaults, rules};

/// Carries out a statement about domains.
///
/// # Errors
/// Names that are taken or that there are not, values that a condition does not allow, columns of a domain that goes.
pub(crate) fn run(statement: &DomainStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    match statement {
        DomainStatement::Create(new) => create(new, running),
        DomainStatement::Alter { name, change } => alter(name, change, running),
        DomainStatement::Drop { names, if_exists, cascade } => drop_all(names, (*if_exists, *cascade), running),
    }
}

fn create(new: &NewDomain, running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.new_name(&object_reference(&new.name)?, false)?;
    if is_temporary(&name.schema) {
        return Err(Error::Unsupported("temporary domains are not supported; make it in another schema".into()));
    }
    let context = running.plan_context();
    let (data_type, over) = base_of(&new.data_type, &context)?;
    if let DataType::Custom(of, modifiers) = &data_type
        && modifiers.is_empty()
        && let Some(of) = context.made_type(of)?
    {
        return Err(Error::Unsupported(format!(
            "a domain over enum {} is not supported; give columns the enum, with NOT NULL, DEFAULT and CHECK",
            of.shown()
        )));
    }
    let option = |option| ColumnOptionDef { name: None, option };
    let default = new.default.clone().map(ColumnOption::Default).map(option);
    let column = ColumnDef {
        name: Ident::new(VALUE),
        data_type: data_type.clone(),
        options: default.into_iter().chain(new.is_required.then(|| option(ColumnOption::NotNull))).collect(),
    };
    let (field, default) = ddl::column_field(&column, running)?;
    if !is_plain(field.data_type()) {
        return Err(Error::Unsupported(format!(
            "a domain over {data_type} is not supported; give columns the type itself, with a CHECK"
        )));
    }
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![field.as_ref().clone()]));
    let mut of = running.home.new_table(name.clone(), schema)?;
    let length = Length::of_column(VALUE, &data_type, &|name| context.made_type(name))?;
    Arc::make_mut(&mut of.lengths).extend(length.map(|length| (VALUE.to_string(), length)));
    Arc::make_mut(&mut of.defaults).extend(default.map(|default| (VALUE.to_string(), default)));
    for (named, condition) in &new.checks {
        add_check(&mut of, named.as_deref(), condition, true, running)?;
    }
    let over = over.map(|over| over.id());
    let entry = DomainEntry { of: Arc::new(of), base: data_type.to_string(), over, comments: Arc::default() };
    running.home.commit(|state| {
        is_free(state, &name)?;
        state.put_domain(name.clone(), Arc::new(entry))?;
        state.made_by(running.user, Thing::named(&name));
        Ok(())
    })?;
    Ok(Done::new("CREATE DOMAIN"))
}

/// A domain as it was kept.
pub(crate) struct Kept {
    /// Its number.
    pub id: u64,
    /// The type that it is over.
    pub base: String,
    /// The domain that it is over.
    pub over: Option<u64>,
    /// Its default, and the zone that it was planned in.
    pub default: Option<Text>,
    /// Whether it allows no NULL.
    pub is_required: bool,
    /// Names of conditions, what they say, and whether all values keep them.
    pub checks: Vec<(String, Text, bool)>,
}

/// An expression, and the zone that it was planned in.
type Text = (String, Option<String>);

/// A domain as it was kept.
///
/// # Errors
/// Texts that are none.
pub(crate) fn kept(name: Name, of: Kept, running: &Arc<RunningStatement>) -> Result<DomainEntry> {
    let data_type = data_type_of(&of.base)?;
    let required = ColumnOptionDef { name: None, option: ColumnOption::NotNull };
    let column = ColumnDef {
        name: Ident::new(VALUE),
        data_type: data_type.clone(),
        options: of.is_required.then_some(required).into_iter().collect(),
    };
    let (field, _) = ddl::column_field(&column, running)?;
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![field.as_ref().clone()]));
    let mut table = TableEntry { id: of.id, ..running.home.new_table(name, schema)? };
    let context = running.own_context();
    let length = Length::of_column(VALUE, &data_type, &|name| context.made_type(name))?;
    Arc::make_mut(&mut table.lengths).extend(length.map(|length| (VALUE.to_string(), length)));
    if let Some((text, zone)) = &of.default {
        let default = defaults::kept(&field, (text, zone.as_deref()), running)?;
        Arc::make_mut(&mut table.defaults).insert(VALUE.to_string(), default);
    }
    for (name, (text, zone), is_valid) in of.checks {
        let condition = rules::kept(&table, (&text, zone.as_deref()), running)?;
        Arc::make_mut(&mut table.rules).add(Check { name, condition, is_valid });
    }
    Ok(DomainEntry { of: Arc::new(table), base: of.base, over: of.over, comments: Arc::default() })
}

/// Adds a condition to a domain, under the name that it was given or under a free one.
fn add_check(
    of: &mut TableEntry,
    named: Option<&str>,
    condition: &sqlparser::ast::Expr,
    is_valid: bool,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let usual = format!("{}_check", of.name.table);
    let mut names = std::iter::once(usual.clone()).chain((1_u64..).map(|n| format!("{usual}{n}")));
    let name = match named {
        Some(name) => name.to_string(),
        None => names.find(|name| rules::is_free(of, name).is_ok()).unwrap_or(usual),
    };
    if rules::is_free(of, &name).is_err() {
        return Err(Error::plan(
            SqlState::DuplicateObject,
            format!("domain '{}' has a constraint '{name}' already; give it another name", of.name.shown()),
        ));
    }
    let check = WrittenCheck { name: Some(name), column: None, condition: condition.clone(), is_valid };
    rules::add_check(of, &check, running)
}

/// What values that are there have to keep.
enum Wanted {
    /// They are not NULL.
    Value,
    /// A condition.
    Check(Box<Check>),
}

fn alter(name: &ObjectName, change: &DomainChange, running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.named(name)?;
    let known = Arc::clone(running.catalog.domain(&name)?);
    let mut of = TableEntry::clone(&known.of);
    let mut wanted = None;
    let place = |of: &TableEntry, constraint: &str| {
        of.rules.checks.iter().position(|check| check.name == constraint).ok_or_else(|| {
            let text = format!("domain '{}' has no constraint '{constraint}'", name.shown());
            Error::plan(SqlState::UndefinedObject, text)
        })
    };
    match change {
        DomainChange::Default(value) => {
            let default = value.as_ref().map(|value| defaults::default_of(value, known.field(), running));
            let all = Arc::make_mut(&mut of.defaults);
            all.remove(VALUE);
            all.extend(default.transpose()?.flatten().map(|default| (VALUE.to_string(), default)));
        }
        DomainChange::Required(is_required) => {
            of.base = Arc::new(of.base.with_column_nullable(0, !is_required)?);
            wanted = (*is_required && !known.is_required()).then_some(Wanted::Value);
        }
        DomainChange::Add { name: named, condition, is_valid } => {
            let before = of.rules.checks.clone();
            add_check(&mut of, named.as_deref(), condition, *is_valid, running)?;
            let added = of.rules.checks.iter().find(|check| !before.iter().any(|old| old.name == check.name));
            wanted = added.filter(|_| *is_valid).map(|check| Wanted::Check(Box::new(check.clone())));
        }
        DomainChange::DropConstraint { name: constraint, if_exists } => match place(&of, constraint) {
            Ok(place) => drop(Arc::make_mut(&mut of.rules).checks.remove(place)),
            Err(_) if *if_exists => return Ok(Done::new("ALTER DOMAIN")),
            Err(error) => return Err(error),
        },
        DomainChange::Validate(constraint) => {
            let place = place(&of, constraint)?;
            let check = &mut Arc::make_mut(&mut of.rules).checks[place];
            if !check.is_valid {
                check.is_valid = true;
                wanted = Some(Wanted::Check(Box::new(check.clone())));
            }
        }
        DomainChange::RenameConstraint(from, to) => {
            let place = place(&of, from)?;
            rules::is_free(&of, to)?;
            let rules = Arc::make_mut(&mut of.rules);
            let check = rules.checks.remove(place);
            rules.add(Check { name: to.clone(), ..check });
        }
        DomainChange::Rename(to) => of.name = Arc::new(Name { schema: name.schema.clone(), table: to.clone() }),
        DomainChange::Schema(to) => of.name = Arc::new(Name { schema: to.clone(), table: name.table.clone() }),
    }
    changed(&name, &known, of, wanted.as_ref(), running)
}

/// Makes a domain another, in the catalog and in the tables that have columns of it.
fn changed(
    name: &Name,
    known: &DomainEntry,
    of: TableEntry,
    wanted: Option<&Wanted>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let to = Name::clone(&of.name);
    if to != *name {
        is_free(&running.catalog, &to)?;
        if !running.catalog.has_schema(&to.schema) {
            return Err(running.catalog.not_found("schema", &to));
        }
        if let Some(user) = users(name, running)?.into_iter().next() {
            return Err(Error::Unsupported(format!(
                "a domain that {} casts to cannot be renamed; drop that first",
                user.shown()
            )));
        }
    }
    let columns = running.catalog.columns_of_domain(known.id());
    // An import's tables are its own.
    let is_shared = Arc::ptr_eq(&running.home, &running.inner.catalog);
    if !columns.is_empty() && running.transaction.is_none() && is_shared {
        return Err(running.wants_transaction());
    }
    let entry = Arc::new(DomainEntry { of: Arc::new(of), ..known.clone() });
    let mut after = CatalogState::clone(&running.catalog);
    after.remove(name);
    after.put_domain(to.clone(), Arc::clone(&entry))?;
    for (table, columns) in columns {
        as_owner(&table, running, |table, running| {
            let mut changed = table.clone();
            let rules = Arc::make_mut(&mut changed.rules);
            for column in &columns {
                let id = rules.domains.get(column).map(|rules| rules.id);
                let Some((_, domain)) = id.and_then(|id| after.domain_of(id)) else { continue };
                rules.domains.insert(column.clone(), Arc::new(after.rules_of_domain(domain)));
            }
            if let Some(wanted) = wanted {
                are_kept(table, &columns, wanted, running)?;
            }
            let name = Name::clone(&table.name);
            let changed = indexed(changed, running)?;
            let _ahead = running.home.ahead(&changed.table().base)?;
            running.home.commit(|state| state.put_table(name, changed))
        })?;
    }
    running.home.commit(|state| {
        let comments = Arc::clone(&state.domain(name)?.comments);
        if to != *name {
            is_free(state, &to)?;
        }
        let rights = state.take_for_again(name);
        state.put_domain(to.clone(), Arc::new(DomainEntry { comments, ..DomainEntry::clone(&entry) }))?;
        state.put_rights(Thing::named(&to), rights);
        Ok(())
    })?;
    Ok(Done::new("ALTER DOMAIN"))
}

/// Fails where a value of some columns is not as it has to be.
fn are_kept(table: &TableEntry, columns: &[String], wanted: &Wanted, running: &Arc<RunningStatement>) -> Result<()> {
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
        VALUE,
        arrow::datatypes::DataType::Null,
        true,
    )]));
    rules::each_batch(table, running, &mut |rows| {
        for column in columns {
            let values = rows.column(rows.schema().index_of(column)?);
            let (code, what) = match wanted {
                Wanted::Value if values.logical_null_count() > 0 => {
                    (SqlState::NotNullViolation, "contains null values")
                }
                Wanted::Value => continue,
                Wanted::Check(check) => {
                    let field = schema.field(0).clone().with_data_type(values.data_type().clone());
                    let schema = Arc::new(arrow::datatypes::Schema::new(vec![field]));
                    let of = arrow::array::RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(values)])?;
                    match check.broken_by(&of, &schema)? {
                        Some(_) => (SqlState::CheckViolation, "contains values that violate the new constraint"),
                        None => continue,
                    }
                }
            };
            let shown = table.name.shown();
            return Err(Error::execution(code, format!("column '{column}' of table '{shown}' {what}")));
        }
        Ok(())
    })
}

fn drop_all(names: &[ObjectName], (if_exists, cascade): (bool, bool), running: &Arc<RunningStatement>) -> Result<Done> {
    let mut going: Vec<(Name, Arc<DomainEntry>)> = Vec::new();
    for name in names {
        let name = running.named(name)?;
        match running.catalog.get(&name) {
            None if if_exists => {}
            _ => {
                let found = Arc::clone(running.catalog.domain(&name)?);
                going.push((name, found));
            }
        }
    }
    let depends = |what: String| {
        let hint = if cascade { "" } else { ", or use CASCADE" };
        Error::plan(SqlState::DependentObjectsStillExist, format!("{what}; drop it first{hint}"))
    };
    let mut views = Vec::new();
    for (name, domain) in &going {
        let shown = name.shown();
        let is_over = |other: &DomainEntry| other.over == Some(domain.id());
        let mut others = running.catalog.domains().filter(|(other, _)| !going.iter().any(|(name, _)| name == *other));
        if let Some((other, _)) = others.find(|(_, other)| is_over(other)) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!("domain '{}' is over domain '{shown}'; drop it first", other.shown()),
            ));
        }
        for user in users(name, running)? {
            match user {
                User::View(view) if cascade => views.push(view),
                user => return Err(depends(format!("{} casts to domain '{shown}'", user.shown()))),
            }
        }
        let columns = running.catalog.columns_of_domain(domain.id());
        if let (Some((table, columns)), false) = (columns.first(), cascade) {
            let what = format!("column '{}' of table '{}' is of domain '{shown}'", columns[0], table.shown());
            return Err(depends(what));
        }
        if !columns.is_empty() && running.transaction.is_none() {
            return Err(running.wants_transaction());
        }
        for (table, columns) in columns {
            drop_columns(&table, &columns, running)?;
        }
    }
    running.home.commit(|state| {
        if let Some((table, _)) = going.iter().flat_map(|(_, domain)| state.columns_of_domain(domain.id())).next() {
            return Err(depends(format!("table '{}' has a column of the domain", table.shown())));
        }
        views.iter().chain(going.iter().map(|(name, _)| name)).for_each(|name| drop(state.remove(name)));
        Ok(())
    })?;
    Ok(Done::new("DROP DOMAIN"))
}
