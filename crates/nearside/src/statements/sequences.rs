//! CREATE, ALTER and DROP SEQUENCE, and columns that are numbered by one.
//!
//! A numbered column has `nextval('..')` as its default; the sequence belongs to it, and goes with it. Names of
//! sequences stand in texts of defaults, so who renames a sequence writes these anew.

use std::ops::ControlFlow;
use std::sync::Arc;

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Value, VisitMut, VisitorMut};

use crate::catalog::defaults::ColumnDefault;
use crate::catalog::index::indexed;
use crate::catalog::journal::Position;
use crate::catalog::path::{SearchPath, is_temporary};
use crate::catalog::placement::column_index;
use crate::catalog::rights::Thing;
use crate::catalog::sequences::{
    SequenceEntry, SequenceOptions, SequenceOwner, SequenceSpec, SequenceType, SequenceValues,
};
use crate::catalog::{CatalogState, DEFAULT_SCHEMA, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::sequences::as_needed;
use crate::run::statement::RunningStatement;
use crate::sql::{ColumnChange, Numbered, OwnedBy, SequenceStatement, name_of_text, object_reference, quoted};
use crate::statements::defaults;
use crate::statements::rules;
use crate::statements::writer::as_owner;

/// Carries out a statement about sequences.
///
/// # Errors
/// Names that are taken or that there are not, options that do not go together, others that depend on what is dropped.
pub(crate) fn run(statement: &SequenceStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    match statement {
        SequenceStatement::Create { name, is_temporary, if_not_exists, options, owned_by } => {
            let name = running.new_name(&object_reference(name)?, *is_temporary)?;
            create((name, *if_not_exists), options, owned_by.as_ref(), running)
        }
        SequenceStatement::Alter { name, if_exists, options, owned_by } => {
            alter((name, *if_exists), options, owned_by.as_ref(), running)
        }
        SequenceStatement::Rename { name, if_exists, to } => rename(name, *if_exists, to, running),
        SequenceStatement::Drop { names, if_exists, cascade } => drop_all(names, *if_exists, *cascade, running),
        SequenceStatement::Column { table, if_exists, column, change } => {
            let name = running.named(table)?;
            if *if_exists && running.catalog.get(&name).is_none() {
                return Ok(Done::new("ALTER TABLE"));
            }
            alter_column(&name, column, change, running)
        }
    }
}

fn create(
    (name, if_not_exists): (Name, bool),
    options: &SequenceOptions,
    owned_by: Option<&OwnedBy>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let done = Done::new("CREATE SEQUENCE");
    if options.restart.is_some() {
        return Err(Error::syntax("RESTART is for ALTER SEQUENCE; START WITH says where a new one begins"));
    }
    let entry = new_sequence(options, running)?;
    running.home.commit(|state| {
        if let Some(taken) = state.get(&name) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(Error::Exists { kind: taken.kind(), name: name.shown() }),
            };
        }
        let owner =
            owned_by.and_then(Option::as_ref).map(|of| owner(of, &name, (state, &running.path()))).transpose()?;
        state.put_sequence(name.clone(), Arc::new(SequenceEntry { owner, ..entry }))?;
        state.made_by(running.user, Thing::named(&name));
        Ok(())
    })?;
    Ok(done)
}

/// A sequence that is nobody's and that nobody sees yet.
///
/// # Errors
/// Options that do not go together.
fn new_sequence(options: &SequenceOptions, running: &RunningStatement) -> Result<SequenceEntry> {
    let spec = options.applied(None)?;
    let values = SequenceValues::at(options.position(&spec, None)?);
    Ok(SequenceEntry { id: running.home.next_id(), spec, owner: None, values, comments: Arc::default() })
}

fn owner(
    (table, column): &(ObjectName, String),
    sequence: &Name,
    (state, path): (&CatalogState, &SearchPath),
) -> Result<SequenceOwner> {
    let name = path.resolve(&object_reference(table)?, state)?;
    let table = state.table(&name)?;
    if name.schema != sequence.schema {
        return Err(Error::plan(
            SqlState::ObjectNotInPrerequisiteState,
            format!(
                "sequence '{}' has to be in the schema of table '{}', which it is to belong to",
                sequence.shown(),
                name.shown()
            ),
        ));
    }
    column_index(&table.base.schema, column)?;
    Ok(SequenceOwner { table: table.id, column: column.clone() })
}

fn found(state: &CatalogState, name: &Name, if_exists: bool) -> Result<Option<Arc<SequenceEntry>>> {
    match state.get(name) {
        None if if_exists => Ok(None),
        _ => state.sequence(name).map(|sequence| Some(Arc::clone(sequence))),
    }
}

/// The column that a sequence numbers as its identity, if it does.
fn identity_of(state: &CatalogState, name: &Name, sequence: &SequenceEntry) -> Option<(Arc<TableEntry>, String)> {
    let owner = sequence.owner.as_ref()?;
    let table = state.by_id(owner.table)?;
    numbers(table, &owner.column, name).then(|| (Arc::clone(table), owner.column.clone()))
}

/// Whether a sequence is that of an identity column: others may belong to it as well.
fn numbers(table: &TableEntry, column: &str, sequence: &Name) -> bool {
    let default = table.defaults.get(column).filter(|_| table.rules.identities.contains_key(column));
    default.is_some_and(|default| names(&default.text, sequence))
}

fn alter(
    (name, if_exists): (&ObjectName, bool),
    options: &SequenceOptions,
    owned_by: Option<&OwnedBy>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let name = running.named(name)?;
    running.home.commit(|state| {
        let Some(before) = found(state, &name, if_exists)? else { return Ok(()) };
        let is_identity = identity_of(state, &name, &before);
        if let Some((table, column)) = is_identity.filter(|_| owned_by.is_some()) {
            return Err(Error::plan(
                SqlState::FeatureNotSupported,
                format!(
                    "sequence '{}' numbers column '{column}' of table '{}', and stays its own",
                    name.shown(),
                    table.name.shown()
                ),
            ));
        }
        let owner = match owned_by {
            None => before.owner.clone(),
            Some(None) => None,
            Some(Some(of)) => Some(owner(of, &name, (state, &running.path()))?),
        };
        let changed = changed(&before, options)?;
        state.put_sequence(name.clone(), Arc::new(SequenceEntry { owner, ..changed }))
    })?;
    Ok(Done::new("ALTER SEQUENCE"))
}

/// A sequence with other options; where it is put anew, what was given out of it by others meanwhile is forgotten with
/// ROLLBACK alone.
fn changed(before: &SequenceEntry, options: &SequenceOptions) -> Result<SequenceEntry> {
    let spec = options.applied(Some(&before.spec))?;
    let at = before.values.position();
    let position = options.position(&spec, Some(at))?;
    let values = match options.restart {
        Some(_) => SequenceValues::at(position),
        None => Arc::clone(&before.values),
    };
    Ok(SequenceEntry { spec, values, ..before.clone() })
}

fn rename(name: &ObjectName, if_exists: bool, to: &str, running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.named(name)?;
    let new = Name { schema: name.schema.clone(), table: to.to_string() };
    let done = Done::new("ALTER SEQUENCE");
    if found(&running.catalog, &name, if_exists)?.is_none() {
        return Ok(done);
    }
    // All tables that name it are changed with it.
    if running.transaction.is_none() {
        return Err(running.wants_transaction());
    }
    let users: Vec<Name> =
        running.catalog.tables().filter(|t| is_used_by(t, &name)).map(|t| (*t.name).clone()).collect();
    for user in users {
        as_owner(&user, running, |table, running| {
            let mut changed = table.clone();
            let defaults = Arc::make_mut(&mut changed.defaults);
            for (column, default) in defaults.iter_mut().filter(|(_, default)| names(&default.text, &name)) {
                let text = with_name(&default.text, &name, &new)?;
                let field = table.base.schema.field_with_name(column)?;
                *default = defaults::kept(field, (&text, default.zone.as_deref()), running)?;
            }
            let changed = indexed(changed, running)?;
            running.home.commit(|state| state.put_table(user.clone(), changed))
        })?;
    }
    running.home.commit(|state| {
        let sequence = Arc::clone(state.sequence(&name)?);
        if let Some(taken) = state.get(&new) {
            return Err(Error::Exists { kind: taken.kind(), name: new.shown() });
        }
        let rights = state.take_for_again(&name);
        state.put_sequence(new.clone(), sequence)?;
        state.put_rights(Thing::named(&new), rights);
        Ok(())
    })?;
    Ok(done)
}

fn drop_all(names: &[ObjectName], if_exists: bool, cascade: bool, running: &Arc<RunningStatement>) -> Result<Done> {
    let names = names.iter().map(|name| running.named(name)).collect::<Result<Vec<_>>>()?;
    for name in &names {
        let Some(sequence) = found(&running.catalog, name, if_exists)? else { continue };
        if let Some((table, column)) = identity_of(&running.catalog, name, &sequence) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "sequence '{}' numbers column '{column}' of table '{}'; ALTER TABLE .. ALTER COLUMN .. DROP \
                     IDENTITY drops it",
                    name.shown(),
                    table.name.shown()
                ),
            ));
        }
        let users: Vec<Name> =
            running.catalog.tables().filter(|table| is_used_by(table, name)).map(|t| (*t.name).clone()).collect();
        match users.first() {
            Some(user) if !cascade => {
                return Err(Error::plan(
                    SqlState::DependentObjectsStillExist,
                    format!(
                        "sequence '{}' is used by a default of table '{}'; drop the default first, or use CASCADE",
                        name.shown(),
                        user.shown()
                    ),
                ));
            }
            Some(_) if running.transaction.is_none() => return Err(running.wants_transaction()),
            _ => {}
        }
        for user in users {
            as_owner(&user, running, |table, running| {
                let mut changed = table.clone();
                Arc::make_mut(&mut changed.defaults).retain(|_, default| !self::names(&default.text, name));
                let changed = indexed(changed, running)?;
                running.home.commit(|state| state.put_table(user.clone(), changed))
            })?;
        }
    }
    running.home.commit(|state| {
        for name in &names {
            if found(state, name, if_exists)?.is_some() {
                state.remove(name);
            }
        }
        Ok(())
    })?;
    Ok(Done::new("DROP SEQUENCE"))
}

/// Whether a default of the table takes values of a sequence.
fn is_used_by(table: &TableEntry, sequence: &Name) -> bool {
    table.defaults.values().any(|default| names(&default.text, sequence))
}

/// Whether a default's text names a sequence.
fn names(text: &str, sequence: &Name) -> bool {
    let mut found = false;
    if let Ok(mut expr) = rules::parse(text) {
        let _ = expr.visit(&mut Names(|name: &mut String| {
            found |= name_of_text(name).is_ok_and(|name| name == *sequence);
        }));
    }
    found
}

/// A default's text with a sequence's new name.
fn with_name(text: &str, from: &Name, to: &Name) -> Result<String> {
    let mut expr = rules::parse(text)?;
    let _ = expr.visit(&mut Names(|name: &mut String| {
        if name_of_text(name).is_ok_and(|name| name == *from) {
            *name = written(to);
        }
    }));
    Ok(expr.to_string())
}

/// Shows the names of sequences in calls of their functions.
struct Names<F>(F);

impl<F: FnMut(&mut String)> VisitorMut for Names<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Function(call) = expr
            && ["nextval", "currval", "setval"].iter().any(|name| call.name.to_string().eq_ignore_ascii_case(name))
            && let FunctionArguments::List(list) = &mut call.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Value(value)))) = list.args.first_mut()
            && let Value::SingleQuotedString(name) = &mut value.value
        {
            (self.0)(name);
        }
        ControlFlow::Continue(())
    }
}

/// A sequence's name as a text that functions take.
fn written(name: &Name) -> String {
    match name.schema == DEFAULT_SCHEMA {
        true => as_needed(&name.table),
        false => format!("{}.{}", as_needed(&name.schema), as_needed(&name.table)),
    }
}

/// Numbers a column of a table that nobody else sees; the sequence and its name, which are put into the catalog with
/// the table. `taken`: names that other new sequences have.
///
/// # Errors
/// A column that cannot be numbered so, options that do not go together.
pub(crate) fn number(
    table: &mut TableEntry,
    numbered: &Numbered,
    taken: &[Name],
    running: &Arc<RunningStatement>,
) -> Result<(Name, SequenceEntry)> {
    let usual = format!("{}_{}_seq", table.name.table, numbered.column);
    let name = |table_name: String| Name { schema: table.name.schema.clone(), table: table_name };
    let mut names = std::iter::once(usual.clone()).chain((1_u64..).map(|n| format!("{usual}{n}"))).map(name);
    let is_free = |name: &Name| running.catalog.get(name).is_none() && !taken.contains(name);
    let name = match &numbered.options.name {
        Some(text) => Some(name_of_text(text)?)
            .filter(is_free)
            .ok_or_else(|| Error::Exists { kind: "sequence", name: text.clone() })?,
        None => names.find(is_free).ok_or_else(|| Error::Internal("no name is free".into()))?,
    };
    let mut sequence = new_sequence(&numbered.options, running)?;
    sequence.owner = Some(SequenceOwner { table: table.id, column: numbered.column.clone() });
    let field = table.base.schema.field_with_name(&numbered.column)?.clone();
    let text = format!("nextval('{}')", written(&name).replace('\'', "''"));
    let default: ColumnDefault = defaults::kept(&field, (&text, None), running)?;
    Arc::make_mut(&mut table.defaults).insert(numbered.column.clone(), default);
    if let Some(is_always) = numbered.is_always {
        Arc::make_mut(&mut table.rules).identities.insert(numbered.column.clone(), is_always);
    }
    Ok((name, sequence))
}

fn alter_column(name: &Name, column: &str, change: &ColumnChange, running: &Arc<RunningStatement>) -> Result<Done> {
    as_owner(name, running, |table, running| {
        let place = column_index(&table.base.schema, column)?;
        let field = table.base.schema.field(place);
        let shown = table.name.shown();
        let wrong = |text: String| Err(Error::plan(SqlState::ObjectNotInPrerequisiteState, text));
        let is_identity = table.rules.identities.contains_key(column);
        let mut changed = table.clone();
        let mut sequences: Vec<(Name, Option<SequenceEntry>)> = Vec::new();
        match change {
            ColumnChange::Add { is_always, options } => {
                if is_identity || table.rules.generated.contains_key(column) {
                    return wrong(format!("column '{column}' of table '{shown}' is numbered or computed already"));
                }
                if table.defaults.contains_key(column) {
                    return wrong(format!("column '{column}' of table '{shown}' has a default; drop it first"));
                }
                if field.is_nullable() {
                    return wrong(format!("column '{column}' of table '{shown}' must be NOT NULL to be numbered"));
                }
                let data_type = SequenceType::of(&crate::error::types::sql_type(field.data_type()));
                let Some(data_type) = data_type else {
                    return Err(Error::plan(
                        SqlState::InvalidParameterValue,
                        format!("identity column '{column}' must be SMALLINT, INTEGER or BIGINT"),
                    ));
                };
                let options = SequenceOptions { data_type: Some(data_type), ..options.clone() };
                let numbered = Numbered { column: column.into(), is_always: Some(*is_always), options };
                let (name, sequence) = number(&mut changed, &numbered, &[], running)?;
                sequences.push((name, Some(sequence)));
            }
            ColumnChange::Set { .. } | ColumnChange::DropIdentity { if_exists: false } if !is_identity => {
                return wrong(format!("column '{column}' of table '{shown}' is not an identity column"));
            }
            ColumnChange::Set { is_always, options } => {
                if let Some(is_always) = is_always {
                    Arc::make_mut(&mut changed.rules).identities.insert(column.into(), *is_always);
                }
                let owned = running.catalog.owned_by(table.id, Some(column));
                for (name, before) in owned.into_iter().filter(|(name, _)| numbers(table, column, name)) {
                    sequences.push((name, Some(self::changed(&before, options)?)));
                }
            }
            ColumnChange::DropIdentity { .. } if !is_identity => {}
            ColumnChange::DropIdentity { .. } => {
                Arc::make_mut(&mut changed.rules).identities.remove(column);
                Arc::make_mut(&mut changed.defaults).remove(column);
                let owned = running.catalog.owned_by(table.id, Some(column));
                let own = owned.into_iter().filter(|(name, _)| numbers(table, column, name));
                sequences.extend(own.map(|(name, _)| (name, None)));
            }
            ColumnChange::DropExpression { if_exists } => {
                let was = Arc::make_mut(&mut changed.rules).generated.remove(column);
                if was.is_none() && !if_exists {
                    return wrong(format!("column '{column}' of table '{shown}' is not computed"));
                }
            }
        }
        let changed = indexed(changed, running)?;
        let _ahead = running.home.ahead(&changed.table().base)?;
        running.home.commit(|state| {
            if state.by_id(table.id).is_none_or(|known| known.name != table.name) {
                return Err(state.not_found("table", &table.name));
            }
            state.put_table((*table.name).clone(), changed)?;
            for (name, sequence) in sequences {
                match sequence {
                    Some(sequence) => {
                        let is_new = state.get(&name).is_none();
                        state.put_sequence(name.clone(), Arc::new(sequence))?;
                        if is_new {
                            let owner = state.owner_of(&Thing::named(&table.name));
                            state.made_by(owner, Thing::named(&name));
                        }
                    }
                    None => drop(state.remove(&name)),
                }
            }
            Ok(())
        })?;
        Ok(Done::new("ALTER TABLE"))
    })
}

/// Takes the sequences of a table, or of one of its columns, out of a state with it.
///
/// # Errors
/// Another table's default uses one.
pub(crate) fn drop_owned(state: &mut CatalogState, table: &TableEntry, column: Option<&str>) -> Result<()> {
    for (name, _) in state.owned_by(table.id, column) {
        let uses = |other: &&Arc<TableEntry>| match (other.id == table.id, column) {
            (true, None) => false,
            (true, Some(column)) => {
                let others = other.defaults.iter().filter(|(of, _)| *of != column);
                others.into_iter().any(|(_, default)| names(&default.text, &name))
            }
            (false, _) => is_used_by(other, &name),
        };
        if let Some(other) = state.tables().find(uses) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "sequence '{}', which goes with table '{}', is used by a default of table '{}'; drop that first",
                    name.shown(),
                    table.name.shown(),
                    other.name.shown()
                ),
            ));
        }
        state.remove(&name);
    }
    Ok(())
}

/// Refuses to drop a schema with a sequence that a default from outside uses.
///
/// # Errors
/// One does.
pub(crate) fn none_is_used_from_outside(state: &CatalogState, schema: &str) -> Result<()> {
    let inside = state.sequences().map(|(name, _)| name).filter(|name| name.schema == schema);
    for name in inside {
        let mut outside = state.tables().filter(|table| table.name.schema != schema);
        if let Some(table) = outside.find(|table| is_used_by(table, name)) {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "sequence '{}' is used by a default of table '{}'; drop that first",
                    name.shown(),
                    table.name.shown()
                ),
            ));
        }
    }
    Ok(())
}

/// Puts the sequences of a table's columns where they began, as TRUNCATE .. RESTART IDENTITY does.
///
/// # Errors
/// None that sequences have which are there.
pub(crate) fn restart(state: &mut CatalogState, table: u64) -> Result<()> {
    for (name, sequence) in state.owned_by(table, None) {
        let options = SequenceOptions { restart: Some(None), ..SequenceOptions::default() };
        state.put_sequence(name, Arc::new(changed(&sequence, &options)?))?;
    }
    Ok(())
}

/// Statements that make the catalog's sequences again: those before its tables, and those behind them.
pub(crate) fn scripts(state: &CatalogState) -> (Vec<String>, Vec<String>) {
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    for (name, sequence) in state.sequences().filter(|(name, _)| !is_temporary(&name.schema)) {
        let SequenceSpec { data_type, .. } = sequence.spec;
        let Position { last, is_called } = sequence.values.position();
        let quoted_name = crate::statements::written::name(name);
        let position = |of: &str| format!("SELECT setval({of}, {last}, {is_called})");
        let text = |name: &str| format!("'{}'", name.replace('\'', "''"));
        // An identity's comes with its column.
        if let Some((table, column)) = identity_of(state, name, sequence) {
            let of = format!("pg_get_serial_sequence({}, {})", text(&written(&table.name)), text(&column));
            behind.push(position(&of));
            continue;
        }
        before.push(format!("CREATE SEQUENCE {quoted_name} AS {} {}", data_type.sql(), sequence.spec));
        behind.push(position(&text(&written(name))));
        let owner = sequence.owner.as_ref();
        if let Some((table, owner)) = owner.and_then(|owner| Some((state.by_id(owner.table)?, owner))) {
            let table = crate::statements::written::name(&table.name);
            let column = quoted(&owner.column);
            behind.push(format!("ALTER SEQUENCE {quoted_name} OWNED BY {table}.{column}"));
        }
    }
    (before, behind)
}
