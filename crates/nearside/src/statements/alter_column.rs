//! `ALTER TABLE .. ALTER COLUMN`: defaults, NOT NULL, types.
//!
//! A column gets another type as if its table's rows were inserted into a table that has it so: what INSERT would put
//! into the column by itself is, the rest takes USING.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion_expr::LogicalPlan;
use sqlparser::ast::{AlterColumnOperation, DataType as SqlType, Expr};
use storage::TableVersion;

use crate::catalog::index::{Origin, indexed};
use crate::catalog::lengths::Length;
use crate::catalog::placement::column_index;
use crate::catalog::rights::Thing;
use crate::catalog::rules::Writable;
use crate::catalog::{Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::query;
use crate::run::statement::RunningStatement;
use crate::run::stream::ResultStream;
use crate::sql::{AnyStatement, KnownTables, base_of, fresh_name, quoted};
use crate::statements::default_values::default_value;
use crate::statements::defaults;
use crate::statements::keys::check_keys;
use crate::statements::over::over;
use crate::statements::types;
use crate::statements::write::stage;
use crate::statements::written;
use crate::statements::{relations, rules};

/// The new table while rows are put into it; no other one has so high an identity, but for that of pairs.
const CHANGED_ID: u64 = u64::MAX - 1;

/// Carries out one operation on a column of a table that nobody else sees.
///
/// # Errors
/// A column that there is not, rows that do not allow it, what a column's type does not take.
pub(crate) fn alter(
    table: &mut TableEntry,
    column: &str,
    operation: &AlterColumnOperation,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let place = column_index(&table.base.schema, column)?;
    match operation {
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
            if table.rules.writable(column) != Writable::Any =>
        {
            let (is, instead) = match table.rules.generated.contains_key(column) {
                true => ("computed", "DROP EXPRESSION"),
                false => ("an identity column", "DROP IDENTITY"),
            };
            Err(Error::plan(
                SqlState::SyntaxError,
                format!("column '{column}' is {is}, and has no default; ALTER COLUMN .. {instead} comes first"),
            ))
        }
        AlterColumnOperation::SetDefault { value } => {
            let field = Arc::clone(&table.base.schema.fields()[place]);
            let default = defaults::default_of(value, &field, running)?;
            default.iter().try_for_each(|default| defaults::is_label(default, table.lengths.get(column)))?;
            let all = Arc::make_mut(&mut table.defaults);
            match default {
                Some(default) => all.insert(column.to_string(), default),
                None => all.remove(column),
            };
            Ok(())
        }
        AlterColumnOperation::DropDefault => {
            Arc::make_mut(&mut table.defaults).remove(column);
            Ok(())
        }
        AlterColumnOperation::SetNotNull => not_null(table, column, running),
        AlterColumnOperation::DropNotNull => {
            let is_key =
                |origin, columns: &[String]| origin == Origin::PrimaryKey && columns.iter().any(|c| c == column);
            if table.rules.identities.contains_key(column) {
                return Err(Error::plan(
                    SqlState::SyntaxError,
                    format!("column '{column}' is an identity column, which has no NULL"),
                ));
            }
            if table.indexes.iter().any(|index| is_key(index.origin, &index.columns)) {
                return Err(Error::plan(
                    SqlState::InvalidTableDefinition,
                    format!("column '{column}' belongs to the primary key, which allows no NULL"),
                ));
            }
            table.base = Arc::new(table.base.with_column_nullable(place, true)?);
            Ok(())
        }
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            relations::is_of_none(&running.catalog, table, column, "given another type")?;
            if table.rules.identities.contains_key(column) {
                return Err(Error::Unsupported(format!(
                    "column '{column}' is an identity, whose sequence has its type; ALTER COLUMN .. DROP IDENTITY \
                     before it, and ADD GENERATED behind it"
                )));
            }
            set_type(table, place, data_type, using.as_ref(), running)
        }
        AlterColumnOperation::AddGenerated { .. } => {
            Err(Error::Unsupported("ALTER COLUMN .. ADD GENERATED is not supported".into()))
        }
    }
}

/// Has a column allow no NULL from now on.
///
/// # Errors
/// It has some.
pub(super) fn not_null(table: &mut TableEntry, column: &str, running: &Arc<RunningStatement>) -> Result<()> {
    let place = column_index(&table.base.schema, column)?;
    if !table.base.schema.field(place).is_nullable() {
        return Ok(());
    }
    if has_null(table, column, running)? {
        return Err(Error::execution(
            SqlState::NotNullViolation,
            format!("column '{column}' of table '{}' has NULLs", table.name.shown()),
        )
        .of_column((&table.name.schema, &table.name.table), column));
    }
    table.base = Arc::new(table.base.with_column_nullable(place, false)?);
    Ok(())
}

fn has_null(table: &TableEntry, column: &str, running: &Arc<RunningStatement>) -> Result<bool> {
    let (state, name) = over(table, running)?;
    let running = Arc::new(running.over(running.catalog.over(Arc::new(state))));
    let sql = format!("SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1", written::name(&name), quoted(column));
    let plan = AnyStatement::one(&sql)?.plan(&running.plan_context())?;
    let found = query::run(plan, Arc::clone(&running), true)?.collect_all()?;
    Ok(found.iter().any(|batch| batch.num_rows() > 0))
}

fn set_type(
    table: &mut TableEntry,
    place: usize,
    data_type: &SqlType,
    using: Option<&Expr>,
    running: &Arc<RunningStatement>,
) -> Result<()> {
    let column = table.base.schema.field(place).name().clone();
    // Rows lie in parts by its values.
    table.placement.without(&column)?;
    let of = types::parse(&data_type.to_string(), running)?;
    let fields = table.base.schema.fields().iter().enumerate();
    let fields = fields.map(|(at, field)| match at == place {
        true => Arc::new(Field::clone(field).with_data_type(storage::surface_type(&of))),
        false => Arc::clone(field),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut changed = TableEntry {
        base: Arc::new(TableVersion::empty(&schema)),
        delta: None,
        placement: Arc::new(table.placement.emptied()),
        ..table.clone()
    };
    let lengths = Arc::make_mut(&mut changed.lengths);
    lengths.remove(&column);
    let context = running.plan_context();
    let (base, domain) = base_of(data_type, &context)?;
    let length = Length::of_column(&column, &base, &|name| context.made_type(name))?;
    lengths.extend(length.map(|length| (column.clone(), length)));
    let mut rules = rules::retyped(&changed, &column, running)?;
    rules.domains.remove(&column);
    rules.domains.extend(domain.map(|domain| (column.clone(), Arc::new(running.catalog.rules_of_domain(&domain)))));
    changed.rules = Arc::new(rules);
    let outputs = table.base.schema.fields().iter().enumerate().map(|(at, field)| match (at == place, using) {
        (true, Some(using)) => format!("({using})"),
        _ => quoted(field.name()),
    });
    let outputs: Vec<String> = outputs.collect();
    let (plan, over) = filling(table, &changed, &outputs, running)?;
    let plan = plan.map_err(|error| match (using, error.code()) {
        (None, SqlState::DatatypeMismatch) => Error::plan(
            SqlState::DatatypeMismatch,
            format!(
                "column '{column}' does not become {data_type} by itself; write USING {}::{data_type}",
                quoted(&column)
            ),
        ),
        _ => error,
    })?;
    if let Some(default) = table.defaults.get(&column) {
        let text = (&*default.text, default.zone.as_deref());
        let default = defaults::kept(schema.field(place), text, running).and_then(|default| {
            defaults::is_of_type(&schema.fields()[place], &default.expr)?;
            if !default.expr.is_volatile() {
                default_value(&default.expr, &schema.fields()[place], running)?;
            }
            Ok(default)
        });
        let default = default.map_err(|error| {
            Error::plan(
                SqlState::DatatypeMismatch,
                format!(
                    "the default of column '{column}' cannot be {data_type}: {error}; ALTER COLUMN .. DROP DEFAULT \
                     first"
                ),
            )
        })?;
        Arc::make_mut(&mut changed.defaults).insert(column.clone(), default);
    }
    *table = filled(plan, &changed, (&over, running))?;
    Ok(())
}

/// Gives a table one more column, in which each row has a value of its own: what `output` says of it, or what the
/// table's rules compute. `changed` is the table with the column, without rows.
///
/// # Errors
/// Those of computing the values; rows that keys or conditions do not allow.
pub(super) fn with_column(
    table: &TableEntry,
    changed: &TableEntry,
    output: &str,
    running: &Arc<RunningStatement>,
) -> Result<TableEntry> {
    let outputs = table.base.schema.fields().iter().map(|field| quoted(field.name()));
    let outputs: Vec<String> = outputs.chain([output.to_string()]).collect();
    let (plan, over) = filling(table, changed, &outputs, running)?;
    filled(plan?, changed, (&over, running))
}

/// A table in whose columns one label of their enum is called another way; `changed` is the table with the enum as it
/// is then.
///
/// # Errors
/// No memory.
pub(super) fn with_labels(
    table: &TableEntry,
    changed: &TableEntry,
    columns: &[String],
    (from, to): (&str, &str),
    running: &Arc<RunningStatement>,
) -> Result<TableEntry> {
    table.load_all(running)?;
    let (state, name) = over(table, running)?;
    let over = Arc::new(running.over(running.catalog.over(Arc::new(state))));
    let (old, new) = (written::text(from), written::text(to));
    let outputs = table.base.schema.fields().iter().map(|field| {
        let column = quoted(field.name());
        match columns.contains(field.name()) {
            true => format!(
                "arrow_cast(CASE {column}::text WHEN {old} THEN {new} ELSE {column}::text END, 'Utf8View') AS {column}"
            ),
            false => column,
        }
    });
    let sql = format!("SELECT {} FROM {}", outputs.collect::<Vec<_>>().join(", "), written::name(&name));
    let plan = AnyStatement::one(&sql)?.plan(&over.plan_context())?;
    let mut changed = changed.clone();
    for column in columns {
        let Some(default) = changed.defaults.get(column).filter(|default| *default.text == *old) else { continue };
        let field = changed.base.schema.field_with_name(column)?;
        let default = defaults::kept(field, (&new, default.zone.as_deref()), running)?;
        Arc::make_mut(&mut changed.defaults).insert(column.clone(), default);
    }
    let rows = query::run(plan, over, true)?;
    let emptied = Arc::new(TableVersion::empty(&changed.base.schema));
    let placement = Arc::new(changed.placement.emptied());
    put(rows, &TableEntry { base: emptied, delta: None, placement, ..changed }, running)
}

/// The plan that gives the rows of one table to another, with these outputs, and the statement that runs it.
fn filling(
    table: &TableEntry,
    changed: &TableEntry,
    outputs: &[String],
    running: &Arc<RunningStatement>,
) -> Result<(Result<LogicalPlan>, Arc<RunningStatement>)> {
    table.load_all(running)?;
    let (mut state, from) = over(table, running)?;
    let to = Name { schema: from.schema.clone(), table: fresh_name("altered") };
    // It takes the rows of a table without keys: these are checked once all rows are there.
    let target = TableEntry {
        id: CHANGED_ID,
        name: Arc::new(to.clone()),
        indexes: Arc::default(),
        defaults: Arc::default(),
        rules: Arc::default(),
        ..changed.clone()
    };
    state.put_table(to.clone(), indexed(target, running)?)?;
    state.made_by(running.user, Thing::named(&to));
    let over = Arc::new(running.over(running.catalog.over(Arc::new(state))));
    let sql = format!("INSERT INTO {} SELECT {} FROM {}", written::name(&to), outputs.join(", "), written::name(&from));
    let plan = AnyStatement::one(&sql)?.plan(&over.plan_context());
    Ok((plan, over))
}

/// A table with the rows that a plan gives.
fn filled(
    plan: LogicalPlan,
    changed: &TableEntry,
    (over, running): (&Arc<RunningStatement>, &Arc<RunningStatement>),
) -> Result<TableEntry> {
    let LogicalPlan::Dml(dml) = plan else {
        return Err(Error::Internal("an INSERT planned to something else".into()));
    };
    let rows = query::run(Arc::unwrap_or_clone(dml.input), Arc::clone(over), true)?;
    put(rows, changed, running)
}

/// A table with these rows.
fn put(rows: ResultStream, changed: &TableEntry, running: &Arc<RunningStatement>) -> Result<TableEntry> {
    // They are staged as the table will keep them, but for conditions that rows which are there need not keep.
    let mut staged = changed.clone();
    let rules = Arc::make_mut(&mut staged.rules);
    rules.checks.retain(|check| check.is_valid);
    rules.foreign_keys.clear();
    let new = stage(rows, &staged, running)?;
    let filled = indexed(new.appended_to(changed, &changed.base), running)?;
    check_keys(&filled, None, running)?;
    Ok(filled.into_table())
}
