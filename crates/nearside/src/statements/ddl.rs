//! Statements that change names and columns: views, schemas, external tables, DROP, ALTER TABLE.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion_common::{SchemaReference, TableReference};
use datafusion_expr::{CreateCatalogSchema, CreateMemoryTable, DdlStatement, DropCatalogSchema, LogicalPlan};
use datafusion_sql::parser::CreateExternalTable;
use sqlparser::ast::{
    AlterTable, AlterTableOperation, ColumnDef, ColumnOption, Ident, ObjectName, RenameTableNameKind, SchemaName,
};
use storage::TableVersion;

use crate::catalog::comments::Part;
use crate::catalog::defaults::ColumnDefault;
use crate::catalog::index::{Origin, indexed};
use crate::catalog::lengths::{Length, enforced_column};
use crate::catalog::placement::column_index;
use crate::catalog::rights::{Thing, not_allowed};
use crate::catalog::rules::{Deferral, ForeignKey, RowExpression};
use crate::catalog::sequences::{SequenceEntry, SequenceOwner};
use crate::catalog::{CATALOG, CatalogState, Entry, ExternalEntry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{
    AlterConstraint, AnyStatement, KnownTables, RenameConstraint, RoleName, WrittenRules, base_of, normalised,
    object_reference, of_column, option_pairs,
};
use crate::statements::default_values::default_value;
use crate::statements::options::read_options;
use crate::statements::types;
use crate::statements::writer::{as_owner, is_left_alone};
use crate::statements::{
    alter_column, constraints, defaults, dropping, relations, roles, rules, sequences, viewed, views,
};
use crate::tables::files::FileTable;
use crate::tables::stored::ROW_ID;

/// What DataFusion's planner calls DDL.
pub(crate) fn ddl(statement: DdlStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    match statement {
        DdlStatement::CreateView(create) => views::create_view(create, None, running),
        DdlStatement::CreateCatalogSchema(create) => create_schema(create, running),
        DdlStatement::DropCatalogSchema(DropCatalogSchema { name, if_exists, cascade, .. }) => {
            let schema = match &name {
                SchemaReference::Bare { schema } => schema.to_string(),
                SchemaReference::Full { catalog, schema } => in_catalog(&format!("{catalog}.{schema}"))?,
            };
            drop_schema(&schema, (if_exists, cascade), running)
        }
        DdlStatement::DropTable(drop) => {
            remove(&drop.name, "table", drop.if_exists, running, |e| {
                e.is_written() || matches!(e, Entry::External(_))
            })?;
            Ok(Done::new("DROP TABLE"))
        }
        DdlStatement::DropView(drop) => {
            remove(&drop.name, "view", drop.if_exists, running, |e| matches!(e, Entry::View(_)))?;
            Ok(Done::new("DROP VIEW"))
        }
        DdlStatement::CreateCatalog(_) => {
            Err(Error::Unsupported("there is one database per process; use CREATE SCHEMA to group tables".into()))
        }
        DdlStatement::CreateFunction(_) | DdlStatement::DropFunction(_) => {
            Err(Error::Unsupported("functions cannot be defined in SQL".into()))
        }
        other => Err(Error::Unsupported(format!("{} is not supported", other.name()))),
    }
}

fn create_schema(create: CreateCatalogSchema, running: &Arc<RunningStatement>) -> Result<Done> {
    let schema = in_catalog(&create.schema_name)?;
    make_schema(&schema, create.if_not_exists, running.user, running)
}

/// `CREATE SCHEMA .. AUTHORIZATION role`.
///
/// # Errors
/// Roles that there are not, or that the one which runs it is no member of.
pub(crate) fn create_schema_for(
    name: &SchemaName,
    if_not_exists: bool,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let (schema, role) = match name {
        SchemaName::Simple(schema) => (Some(schema), None),
        SchemaName::UnnamedAuthorization(role) => (None, Some(role)),
        SchemaName::NamedAuthorization(schema, role) => (Some(schema), Some(role)),
    };
    let is_keyword = |role: &Ident, word: &str| role.quote_style.is_none() && role.value.eq_ignore_ascii_case(word);
    let role = match role {
        None => RoleName::Own,
        Some(role) if is_keyword(role, "current_user") || is_keyword(role, "current_role") => RoleName::Own,
        Some(role) if is_keyword(role, "session_user") => RoleName::OfSession,
        Some(role) => RoleName::Named(normalised(role.clone())),
    };
    let owner = roles::id(&role, running)?;
    let owner_name = running.catalog.roles().by_id(owner).map_or_else(String::new, |(name, _)| name.to_string());
    if !running.may().act_as(owner) {
        return Err(not_allowed(format!("must be member of role \"{owner_name}\"")));
    }
    let schema = match schema {
        Some(schema) => {
            let parts = schema.0.iter().filter_map(|part| part.as_ident()).cloned().map(normalised);
            in_catalog(&parts.collect::<Vec<_>>().join("."))?
        }
        None => owner_name,
    };
    make_schema(&schema, if_not_exists, owner, running)
}

fn make_schema(schema: &str, if_not_exists: bool, owner: u32, running: &Arc<RunningStatement>) -> Result<Done> {
    if schema.starts_with("pg_") {
        return Err(Error::plan(
            SqlState::ReservedName,
            format!("schema '{schema}' belongs to the system, as all that begin with pg_; use another name"),
        ));
    }
    running.home.commit(|state| {
        if state.has_schema(schema) {
            return match if_not_exists {
                true => Ok(()),
                false => Err(Error::Exists { kind: "schema", name: schema.into() }),
            };
        }
        state.create_schema(schema);
        state.made_by(owner, Thing::Schema(schema.into()));
        Ok(())
    })?;
    Ok(Done::new("CREATE SCHEMA"))
}

fn in_catalog(schema: &str) -> Result<String> {
    match schema.split_once('.') {
        None => Ok(schema.to_string()),
        Some((catalog, schema)) if catalog == CATALOG => Ok(schema.to_string()),
        Some((catalog, _)) => {
            Err(Error::NotFound { kind: "catalog", name: catalog.into(), nearest: Some(CATALOG.into()) })
        }
    }
}

/// Drops a schema, with all it holds where that is said.
///
/// # Errors
/// There is none, or it holds what others use, or anything without CASCADE.
pub(crate) fn drop_schema(
    schema: &str,
    (if_exists, cascade): (bool, bool),
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    running.home.commit(|state| {
        if !state.has_schema(schema) {
            let found = nearest(schema, state.schemas());
            return match if_exists {
                true => Ok(()),
                false => Err(Error::NotFound { kind: "schema", name: schema.into(), nearest: found }),
            };
        }
        let inside = |table: &&Arc<TableEntry>| table.name.schema == schema;
        state.tables().filter(inside).try_for_each(|table| is_left_alone(table, running))?;
        relations::none_refers_into(state, schema)?;
        sequences::none_is_used_from_outside(state, schema)?;
        relations::no_type_is_used_from_outside(state, schema)?;
        state.drop_schema(schema, cascade)
    })?;
    Ok(Done::new("DROP SCHEMA"))
}

fn remove(
    reference: &TableReference,
    kind: &'static str,
    if_exists: bool,
    running: &Arc<RunningStatement>,
    fits: impl Fn(&Entry) -> bool,
) -> Result<()> {
    let name = running.resolve(reference)?;
    running.home.commit(|state| {
        match state.get(&name) {
            Some(Entry::Table(table)) if fits(&Entry::Table(Arc::clone(table))) => is_left_alone(table, running)?,
            Some(entry) if fits(entry) => {}
            Some(entry) => {
                return Err(Error::plan(
                    SqlState::WrongObjectType,
                    format!(
                        "'{}' is {other}, not a {kind}; use DROP {}",
                        name.shown(),
                        match entry {
                            Entry::View(_) => "VIEW",
                            Entry::Sequence(_) => "SEQUENCE",
                            Entry::Type(_) => "TYPE",
                            Entry::Function(_) => "FUNCTION",
                            Entry::Domain(_) => "DOMAIN",
                            Entry::Table(table) if table.materialized.is_some() => "MATERIALIZED VIEW",
                            Entry::Table(_) | Entry::External(_) => "TABLE",
                        },
                        other = entry.described()
                    ),
                ));
            }
            None if if_exists => return Ok(()),
            None => return Err(state.not_found(kind, &name)),
        }
        if let Some(Entry::Table(table)) = state.remove(&name) {
            relations::is_referred_to_by_none(state, &table)?;
            sequences::drop_owned(state, &table, None)?;
        }
        Ok(())
    })
}

/// CREATE EXTERNAL TABLE: the files stay where they are, each statement reads them.
pub(crate) fn create_external(create: &CreateExternalTable, running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.new_name(&object_reference(&create.name)?, false)?;
    let [path] = create.locations.as_slice() else {
        return Err(Error::Unsupported(
            "an external table has one LOCATION; use a folder or a glob for many files".into(),
        ));
    };
    if !create.table_partition_cols.is_empty() || create.unbounded || !create.order_exprs.is_empty() {
        return Err(Error::Unsupported(
            "PARTITIONED BY, WITH ORDER and UNBOUNDED are not supported for external tables".into(),
        ));
    }
    let pairs = option_pairs(&create.options, Some(&create.file_type));
    let mut options = read_options(&pairs)?;
    for column in &create.columns {
        let data_type = types::parse(&column.data_type.to_string(), running)?;
        options.types.push((normalised(column.name.clone()), data_type));
    }
    FileTable::open(path, &options)?;
    let entry = Arc::new(ExternalEntry { path: path.clone(), options, comments: Arc::default() });
    running.home.commit(|state| {
        match state.get(&name) {
            Some(_) if create.if_not_exists => return Ok(()),
            Some(Entry::External(_)) if create.or_replace => {}
            Some(other) => return Err(Error::Exists { kind: other.kind(), name: name.shown() }),
            None => {}
        }
        state.remove(&name);
        state.put_external(name.clone(), entry)?;
        state.made_by(running.user, Thing::named(&name));
        Ok(())
    })?;
    Ok(Done::new("CREATE EXTERNAL TABLE"))
}

/// ALTER TABLE: all its operations or none.
pub(crate) fn alter_table(alter: &AlterTable, running: &Arc<RunningStatement>) -> Result<Done> {
    let name = running.named(&alter.name)?;
    if alter.if_exists && running.catalog.get(&name).is_none() {
        return Ok(Done::new("ALTER TABLE"));
    }
    let dropped = alter.operations.iter().filter(|operation| viewed::drops_by_cascade(operation));
    let dropped = dropped.flat_map(|operation| match operation {
        AlterTableOperation::DropColumn { column_names, .. } => column_names.as_slice(),
        _ => &[],
    });
    let dropped: Vec<String> = dropped.cloned().map(normalised).collect();
    if !dropped.is_empty() {
        dropping::drop_references(&name, &dropped, running)?;
    }
    as_owner(&name, running, |table, running| {
        viewed::may_be_altered(table, alter)?;
        let mut changed = TableEntry::clone(table);
        let mut sequences = Vec::new();
        for operation in &alter.operations {
            alter_one(&mut changed, operation, &mut sequences, running)?;
            changed.forget_gone();
        }
        running.check()?;
        let new_name = Name::clone(&changed.name);
        let columns: BTreeSet<String> = changed.base.schema.fields().iter().map(|field| field.name().clone()).collect();
        let renamed: Vec<(String, String)> = alter.operations.iter().filter_map(renaming).collect();
        let changed = indexed(changed, running)?;
        let going = viewed::survive(&alter.operations, &name, &changed, running)?;
        let _ahead = running.home.ahead(&changed.table().base)?;
        running.home.commit(|state| {
            if state.by_id(table.id).is_none_or(|t| *t.name != name) {
                return Err(Error::execution(
                    SqlState::UndefinedTable,
                    format!("table '{}' was dropped while the statement ran", name.shown()),
                ));
            }
            if new_name != name && state.get(&new_name).is_some() {
                return Err(Error::Exists { kind: "table", name: new_name.shown() });
            }
            let rights = state.take_for_again(&name);
            state.has_domains_of(changed.table())?;
            state.put_table(new_name.clone(), changed)?;
            state.put_rights(Thing::named(&new_name), rights);
            renamed.iter().for_each(|(from, to)| state.rename_column_rights(&new_name, from, to));
            state.forget_column_rights(&new_name, |column| columns.contains(column));
            going.iter().for_each(|view| drop(state.remove(view)));
            sequences.into_iter().try_for_each(|change| change.put(state, table))
        })?;
        Ok(Done::new("ALTER TABLE"))
    })
}

/// The names of a column before and after, where an operation changes it.
fn renaming(operation: &AlterTableOperation) -> Option<(String, String)> {
    match operation {
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            Some((normalised(old_column_name.clone()), normalised(new_column_name.clone())))
        }
        _ => None,
    }
}

/// ALTER TABLE .. RENAME CONSTRAINT.
pub(crate) fn rename_constraint(of: &RenameConstraint, running: &Arc<RunningStatement>) -> Result<Done> {
    change_constraint((&of.table, of.if_exists), running, |table, running| {
        constraints::rename(table, &of.from, &of.to, running)
    })
}

/// ALTER TABLE .. ALTER CONSTRAINT.
pub(crate) fn alter_constraint(of: &AlterConstraint, running: &Arc<RunningStatement>) -> Result<Done> {
    change_constraint((&of.table, of.if_exists), running, |table, _| constraints::defer(table, &of.name, of.deferral))
}

/// Changes what a table's constraints are called, or when they are looked at.
fn change_constraint(
    (table, if_exists): (&ObjectName, bool),
    running: &Arc<RunningStatement>,
    change: impl FnOnce(&mut TableEntry, &Arc<RunningStatement>) -> Result<()>,
) -> Result<Done> {
    let name = running.named(table)?;
    if if_exists && running.catalog.get(&name).is_none() {
        return Ok(Done::new("ALTER TABLE"));
    }
    as_owner(&name, running, |table, running| {
        let mut changed = table.clone();
        change(&mut changed, running)?;
        let changed = indexed(changed, running)?;
        running.home.commit(|state| match state.by_id(table.id) {
            Some(known) if known.name == table.name => state.put_table((*table.name).clone(), changed),
            _ => Err(state.not_found("table", &table.name)),
        })?;
        Ok(Done::new("ALTER TABLE"))
    })
}

/// What becomes of the sequences of a table that is changed.
enum SequenceChange {
    /// A column is numbered by a new one.
    Put(Name, SequenceEntry),
    /// Those of a column go with it.
    DropOf(String),
    /// Their column has another name.
    Renamed(String, String),
}

impl SequenceChange {
    fn put(self, state: &mut CatalogState, table: &TableEntry) -> Result<()> {
        match self {
            SequenceChange::Put(name, sequence) => match state.get(&name) {
                Some(taken) => Err(Error::Exists { kind: taken.kind(), name: name.shown() }),
                None => {
                    state.put_sequence(name.clone(), Arc::new(sequence))?;
                    // It goes with its table.
                    let owner = state.owner_of(&Thing::named(&table.name));
                    state.made_by(owner, Thing::named(&name));
                    Ok(())
                }
            },
            SequenceChange::DropOf(column) => sequences::drop_owned(state, table, Some(&column)),
            SequenceChange::Renamed(from, to) => {
                state.owned_by(table.id, Some(&from)).into_iter().try_for_each(|(name, sequence)| {
                    let owner = Some(SequenceOwner { table: table.id, column: to.clone() });
                    state.put_sequence(name, Arc::new(SequenceEntry { owner, ..SequenceEntry::clone(&sequence) }))
                })
            }
        }
    }
}

fn alter_one(
    table: &mut TableEntry,
    operation: &AlterTableOperation,
    sequences: &mut Vec<SequenceChange>,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
            add_column(table, column_def, *if_not_exists, sequences, running)
        }
        AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
            for column in column_names {
                let column = normalised(column.clone());
                if viewed::drops_by_cascade(operation) {
                    let reads =
                        |(of, by): (&String, &RowExpression)| (*of != column && by.reads(&column)).then(|| of.clone());
                    for computed in table.rules.generated.iter().filter_map(reads).collect::<Vec<_>>() {
                        drop_column(table, &computed, false)?;
                    }
                    let own = table.id;
                    let refers = |key: &ForeignKey| key.to == own && key.to_columns.contains(&column);
                    Arc::make_mut(&mut table.rules).foreign_keys.retain(|key| !refers(key));
                } else {
                    relations::is_not_referred_to(&running.catalog, table, &column, "dropped")?;
                }
                drop_column(table, &column, *if_exists)?;
                sequences.push(SequenceChange::DropOf(column));
            }
            Ok(())
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let (from, to) = (normalised(old_column_name.clone()), normalised(new_column_name.clone()));
            relations::is_not_referred_to(&running.catalog, table, &from, "renamed")?;
            rename_column(table, &from, &to, running)?;
            sequences.push(SequenceChange::Renamed(from, to));
            Ok(())
        }
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = table_name;
            let mut to_name = running.named(to)?;
            if to.0.len() == 1 {
                to_name.schema = table.name.schema.clone();
            }
            table.name = Arc::new(to_name);
            Ok(())
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            alter_column::alter(table, &normalised(column_name.clone()), op, running)
        }
        AlterTableOperation::AddConstraint { constraint, not_valid } => {
            table.load_all(running)?;
            constraints::add(table, constraint, *not_valid, running)
        }
        AlterTableOperation::DropConstraint { if_exists, name, .. } => {
            constraints::drop_one(table, &normalised(name.clone()), *if_exists, running)
        }
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            constraints::rename(table, &normalised(old_name.clone()), &normalised(new_name.clone()), running)
        }
        AlterTableOperation::ValidateConstraint { name } => {
            constraints::validate(table, &normalised(name.clone()), running)
        }
        other => Err(Error::Unsupported(format!(
            "ALTER TABLE .. {other} is not supported; there are ADD, DROP, RENAME and ALTER COLUMN, ADD, DROP, RENAME \
             and VALIDATE CONSTRAINT, and RENAME TO"
        ))),
    }
}

fn add_column(
    table: &mut TableEntry,
    column: &ColumnDef,
    if_not_exists: bool,
    sequences: &mut Vec<SequenceChange>,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let mut column = column.clone();
    let mut written = WrittenRules::default();
    of_column(&mut column, &mut written)?;
    let keys = take_keys(&mut column, &written);
    let column = &column;
    let (field, default) = column_field(column, running)?;
    if table.base.schema.index_of(field.name()).is_ok() {
        return if if_not_exists { Ok(()) } else { Err(Error::Exists { kind: "column", name: field.name().clone() }) };
    }
    let context = running.plan_context();
    let (data_type, domain) = base_of(&column.data_type, &context)?;
    let length = Length::of_column(field.name(), &data_type, &|name| context.made_type(name))?;
    if let Some(domain) = domain {
        // What its rows get is looked at as what is written.
        let rules = running.catalog.rules_of_domain(&domain);
        let is_of_domain = default.is_none();
        let default = default.or_else(|| rules.default.clone());
        written.domains.push((field.name().clone(), domain));
        add_filled_column(table, (&field, default, length), &written, sequences, running)?;
        if is_of_domain {
            Arc::make_mut(&mut table.defaults).remove(field.name());
        }
        return constraints::add_keys(table, field.name(), &keys, running);
    }
    let differs = default.as_ref().is_some_and(|default| default.expr.is_volatile());
    if differs || !written.generated.is_empty() || !written.numbered.is_empty() {
        add_filled_column(table, (&field, default, length), &written, sequences, running)?;
        return constraints::add_keys(table, field.name(), &keys, running);
    }
    let mut value = default.as_ref().map(|d| default_value(&d.expr, &field, running)).transpose()?;
    if let (Some(length), Some(given)) = (&length, &mut value)
        && let Some(kept) = enforced_column(given, length, field.name())?
    {
        *given = kept;
    }
    let rows = table.base.rows();
    let missing = value.as_ref().is_none_or(|v| v.is_null(0));
    if rows > 0 && missing && !field.is_nullable() {
        return Err(Error::execution(
            SqlState::NotNullViolation,
            format!(
                "column '{}' does not allow NULL, and the table's {rows} rows need a value for it; give a DEFAULT",
                field.name()
            ),
        )
        .of_column((&table.name.schema, &table.name.table), field.name()));
    }
    let value = value.filter(|v| !v.is_null(0));
    let placement = table.placement.with_column(field.name());
    let name = field.name();
    let budget = table.meta.allocator();
    let allocator = |part| placement.allocator(part, 0, name, &budget);
    let version = table.base.with_column_added(&field, value.as_deref(), &allocator)?;
    table.base = Arc::new(version);
    table.placement = Arc::new(placement);
    if let Some(default) = default {
        let mut defaults = HashMap::clone(&table.defaults);
        defaults.insert(field.name().clone(), default);
        table.defaults = Arc::new(defaults);
    }
    if let Some(length) = length {
        Arc::make_mut(&mut table.lengths).insert(field.name().clone(), length);
    }
    add_checks(table, &written, running)?;
    add_foreign_keys(table, &written, running)?;
    constraints::add_keys(table, name, &keys, running)
}

/// Takes the keys off a new column's definition, each with its name and when it is looked at: they are added once the
/// column is there.
fn take_keys(column: &mut ColumnDef, written: &WrittenRules) -> Vec<(Origin, Option<Ident>, Deferral)> {
    let mut keys = Vec::new();
    let mut deferrals = written.key_deferrals.iter();
    column.options.retain(|option| {
        let origin = match option.option {
            ColumnOption::PrimaryKey(_) => Origin::PrimaryKey,
            ColumnOption::Unique(_) => Origin::Unique,
            _ => return true,
        };
        let deferral = deferrals.next().map_or(Deferral::Never, |(_, deferral)| *deferral);
        keys.push((origin, option.name.clone(), deferral));
        false
    });
    keys
}

/// Conditions of a new column, which the rows that are there have to keep.
fn add_checks(table: &mut TableEntry, written: &WrittenRules, running: &Arc<RunningStatement>) -> Result<()> {
    for check in &written.checks {
        let before: Vec<String> = rules::constraint_names(table).map(str::to_string).collect();
        rules::add_check(table, check, running)?;
        let added = table.rules.checks.iter().find(|check| !before.contains(&check.name)).cloned();
        added.iter().try_for_each(|check| rules::is_kept_by_all(table, check, running))?;
    }
    Ok(())
}

/// Adds a column that has another value in each row: it is numbered or computed, or its default differs.
fn add_filled_column(
    table: &mut TableEntry,
    (field, default, length): (&FieldRef, Option<ColumnDefault>, Option<Length>),
    written: &WrittenRules,
    sequences: &mut Vec<SequenceChange>,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let fields = table.base.schema.fields().iter().cloned().chain([Arc::clone(field)]);
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut changed = TableEntry {
        base: Arc::new(TableVersion::empty(&schema)),
        delta: None,
        placement: Arc::new(table.placement.with_column(field.name()).emptied()),
        ..table.clone()
    };
    if let Some(length) = length {
        Arc::make_mut(&mut changed.lengths).insert(field.name().clone(), length);
    }
    let mut output = "NULL".to_string();
    if let Some(default) = default {
        output = format!("({})", default.text);
        Arc::make_mut(&mut changed.defaults).insert(field.name().clone(), default);
    }
    let checks = WrittenRules { generated: Vec::new(), ..written.clone() };
    rules::put(&mut changed, &WrittenRules { checks: Vec::new(), ..written.clone() }, running)?;
    for column in &written.numbered {
        let (name, sequence) = sequences::number(&mut changed, column, &[], running)?;
        // Nobody else knows it yet: the rows that are there take its first values.
        let rows = table.base.rows() as u64;
        let first = sequence.values.next((&name.table, &sequence), rows, None)?;
        output = match (first.first(), sequence.spec.increment) {
            (Some(first), by) => format!("({first} + {by} * (row_number() OVER () - 1))"),
            (None, _) => "NULL".into(),
        };
        sequences.push(SequenceChange::Put(name, sequence));
    }
    *table = alter_column::with_column(table, &changed, &output, running)?;
    add_checks(table, &checks, running)?;
    add_foreign_keys(table, written, running)
}

/// Foreign keys of a new column.
fn add_foreign_keys(table: &mut TableEntry, written: &WrittenRules, running: &Arc<RunningStatement>) -> Result<()> {
    written.foreign_keys.iter().try_for_each(|key| constraints::add_foreign_key(table, key, running))
}

/// The field and default of a column's definition, planned as CREATE TABLE plans it.
pub(crate) fn column_field(
    column: &ColumnDef,
    running: &Arc<RunningStatement>,
) -> Result<(FieldRef, Option<ColumnDefault>)> {
    let context = running.own_context();
    let default = defaults::written(column).cloned();
    let mut column = column.clone();
    column.options.retain(|option| !matches!(option.option, ColumnOption::Default(_)));
    let plan = AnyStatement::one(&format!("CREATE TABLE new_column ({column})"))?.plan(&context)?;
    let LogicalPlan::Ddl(datafusion_expr::DdlStatement::CreateMemoryTable(CreateMemoryTable {
        input,
        constraints,
        ..
    })) = plan
    else {
        return Err(Error::Internal("a column's definition planned to something else".into()));
    };
    if constraints.iter().next().is_some() {
        return Err(Error::Internal("a column's keys are added with it".into()));
    }
    let field = input.schema().field(0);
    if field.name() == ROW_ID {
        return Err(Error::plan(
            SqlState::ReservedName,
            format!("the column name '{ROW_ID}' is taken by Nearside; use another"),
        ));
    }
    let data_type = storage::surface_type(field.data_type());
    let field = Arc::new(Field::new(field.name(), data_type, field.is_nullable()));
    let default = default.map(|value| defaults::default_of(&value, &field, running)).transpose()?.flatten();
    Ok((field, default))
}

fn drop_column(table: &mut TableEntry, column: &str, if_exists: bool) -> Result<()> {
    let index = match column_index(&table.base.schema, column) {
        Ok(index) => index,
        Err(_) if if_exists => return Ok(()),
        Err(error) => return Err(error),
    };
    if table.base.schema.fields().len() == 1 {
        return Err(Error::plan(
            SqlState::InvalidTableDefinition,
            format!("column '{column}' is the table's last; drop the table instead"),
        ));
    }
    if let Some((computed, _)) = table.rules.generated.iter().find(|(of, by)| *of != column && by.reads(column)) {
        return Err(Error::plan(
            SqlState::DependentObjectsStillExist,
            format!("column '{computed}' is computed of column '{column}'; drop it first"),
        ));
    }
    let own = table.id;
    let refers = |key: &&ForeignKey| key.to == own && key.to_columns.iter().any(|of| of == column);
    let is_own = |key: &ForeignKey| key.columns.iter().any(|of| of == column);
    if let Some(key) = table.rules.foreign_keys.iter().filter(refers).find(|key| !is_own(key)) {
        return Err(Error::plan(
            SqlState::DependentObjectsStillExist,
            format!("column '{column}' is what foreign key '{}' refers to; drop that first", key.name),
        ));
    }
    let rules = Arc::make_mut(&mut table.rules);
    rules.generated.remove(column);
    rules.identities.remove(column);
    rules.domains.remove(column);
    // As PostgreSQL has it, keys and conditions that a column is in go with it.
    rules.checks.retain(|check| !check.condition.reads(column));
    rules.foreign_keys.retain(|key| !key.columns.iter().any(|of| of == column));
    table.indexes = Arc::new(table.indexes.iter().filter(|index| !index.is_over(column)).cloned().collect());
    table.placement = Arc::new(table.placement.without(column)?);
    table.base = Arc::new(table.base.with_column_dropped(index)?);
    let mut defaults = HashMap::clone(&table.defaults);
    defaults.remove(column);
    table.defaults = Arc::new(defaults);
    if table.lengths.contains_key(column) {
        Arc::make_mut(&mut table.lengths).remove(column);
    }
    Ok(())
}

fn rename_column(table: &mut TableEntry, from: &str, to: &str, running: &Arc<RunningStatement>) -> Result<()> {
    let index = column_index(&table.base.schema, from)?;
    if to == ROW_ID {
        return Err(Error::plan(
            SqlState::ReservedName,
            format!("the column name '{ROW_ID}' is taken by Nearside; use another"),
        ));
    }
    if from != to && table.base.schema.index_of(to).is_ok() {
        return Err(Error::Exists { kind: "column", name: to.into() });
    }
    table.base = Arc::new(table.base.with_column_renamed(index, to)?);
    table.placement = Arc::new(table.placement.renamed(from, to));
    let mut defaults = HashMap::clone(&table.defaults);
    if let Some(default) = defaults.remove(from) {
        defaults.insert(to.to_string(), default);
    }
    table.defaults = Arc::new(defaults);
    if table.lengths.contains_key(from) {
        let lengths = Arc::make_mut(&mut table.lengths);
        let length = lengths.remove(from);
        lengths.extend(length.map(|length| (to.to_string(), length)));
    }
    table.indexes = Arc::new(table.indexes.iter().map(|index| index.renamed(from, to)).collect());
    Arc::make_mut(&mut table.comments).rename(Part::Column, from, to);
    table.rules = Arc::new(rules::renamed(table, (from, to), running)?);
    Ok(())
}
