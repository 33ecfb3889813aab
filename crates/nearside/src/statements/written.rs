//! SQL text for what the catalog holds: names, literals and the statements that make a table or view again.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use crate::catalog::comments::Part;
use crate::catalog::domains::DomainEntry;
use crate::catalog::index::Origin;
use crate::catalog::lengths::{Length, of_query};
use crate::catalog::made_functions::called;
use crate::catalog::materialized::Materialized;
use crate::catalog::placement::spec::Spec;
use crate::catalog::rules::{Check, ForeignKey, RowRules};
use crate::catalog::user_types::EnumType;
use crate::catalog::{CatalogState, Entry, Name, TableEntry, ViewEntry};
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::sql::{AnyStatement, Including, quoted};
use crate::statements::types;

/// A table's name, quoted.
pub(crate) fn name(name: &Name) -> String {
    format!("{}.{}", quoted(&name.schema), quoted(&name.table))
}

/// A string literal.
pub(crate) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `CREATE VIEW`.
pub(crate) fn create_view(view_name: &Name, view: &ViewEntry) -> String {
    let columns = match view.columns.is_empty() {
        true => String::new(),
        false => format!(" ({})", self::columns(&view.columns)),
    };
    let check = view.check.map(|check| format!(" WITH {} CHECK OPTION", check.sql())).unwrap_or_default();
    format!("CREATE VIEW {}{columns} AS {}{check}", name(view_name), view.sql)
}

/// `CREATE MATERIALIZED VIEW`, and its indexes.
pub(crate) fn create_materialized_view(table: &TableEntry, of: &Materialized) -> Vec<String> {
    let named: Vec<String> = table.base.schema.fields().iter().map(|field| field.name().clone()).collect();
    let create = format!(
        "CREATE MATERIALIZED VIEW {} ({}){} AS {}{}",
        name(&table.name),
        columns(&named),
        with_placement(table),
        of.sql,
        if of.is_populated { "" } else { " WITH NO DATA" }
    );
    std::iter::once(create).chain(create_indexes(table)).collect()
}

/// `CREATE TABLE`, with the same types, defaults and keys. Types that SQL has no name for are made with `arrow_cast`.
pub(crate) fn create_table(table: &TableEntry, running: &Arc<RunningStatement>) -> Result<String> {
    let fields = table.base.schema.fields();
    let named: Option<Vec<String>> = fields.iter().map(|f| type_name(f.data_type(), running)).collect();
    match named {
        Some(types) => with_types(table, &types, running),
        None => with_casts(table, fields),
    }
}

/// The lines of a CREATE TABLE that make what `(LIKE table ..)` asks for.
///
/// # Errors
/// Types that SQL has no name for.
pub(crate) fn lines_like(
    table: &TableEntry,
    including: Including,
    running: &Arc<RunningStatement>,
) -> Result<Vec<String>> {
    let types =
        table.base.schema.fields().iter().map(|field| named_type(field, running)).collect::<Result<Vec<_>>>()?;
    Ok(lines(table, &types, (including, false), running))
}

/// The columns of a view, or of files, as a CREATE TABLE has them.
///
/// # Errors
/// Types that SQL has no name for.
pub(crate) fn columns_of_view(of: &Name, running: &Arc<RunningStatement>) -> Result<Vec<String>> {
    let plan = AnyStatement::one(&format!("SELECT * FROM {}", name(of)))?.plan(&running.plan_context())?;
    let schema = storage::surface_schema(plan.schema().as_arrow());
    let lengths = of_query(plan.schema().as_arrow());
    let column = |field: &Arc<Field>| {
        let data_type = match lengths.get(field.name()) {
            Some(length) => length_name(length),
            None => named_type(field, running)?,
        };
        Ok(format!("{} {data_type}", quoted(field.name())))
    };
    schema.fields().iter().map(column).collect()
}

fn named_type(field: &Field, running: &Arc<RunningStatement>) -> Result<String> {
    type_name(field.data_type(), running).ok_or_else(|| {
        Error::Unsupported(format!(
            "column '{}' has a type that SQL has no name for; LIKE cannot make it",
            field.name()
        ))
    })
}

/// How a length, JSON or an enum stands behind a column's name.
fn length_name(length: &Length) -> String {
    length.enum_type().map_or_else(|| length.sql(), |of| type_name_of(of))
}

fn with_types(table: &TableEntry, types: &[String], running: &Arc<RunningStatement>) -> Result<String> {
    let all = Including {
        comments: false,
        constraints: true,
        defaults: true,
        generated: true,
        identity: true,
        indexes: true,
    };
    let lines = lines(table, types, (all, true), running);
    Ok(format!("CREATE TABLE {} ({}){}", name(&table.name), lines.join(", "), with_placement(table)))
}

/// `keeps_names`: whether keys are called as they are, not as those of another table are usually.
fn lines(
    table: &TableEntry,
    types: &[String],
    (including, keeps_names): (Including, bool),
    running: &Arc<RunningStatement>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (field, data_type) in table.base.schema.fields().iter().zip(types) {
        let length = table.lengths.get(field.name());
        let length = length.map(length_name);
        let domain = table.rules.domains.get(field.name()).and_then(|rules| running.catalog.domain_of(rules.id));
        let domain = domain.map(|(of, _)| name(of));
        let mut line = format!("{} {}", quoted(field.name()), domain.as_ref().or(length.as_ref()).unwrap_or(data_type));
        if !field.is_nullable() {
            line.push_str(" NOT NULL");
        }
        if let Some(always) = table.rules.identities.get(field.name()) {
            if !including.identity {
                lines.push(line);
                continue;
            }
            let when = if *always { "ALWAYS" } else { "BY DEFAULT" };
            let owned = running.catalog.owned_by(table.id, Some(field.name()));
            // The name stands in the default as it was chosen for it.
            let default = table.defaults.get(field.name()).map_or("", |default| &default.text);
            let own = owned.iter().find(|(name, _)| default.contains(&name.table));
            let options = own.map_or_else(String::new, |(_, sequence)| format!(" ({})", sequence.spec));
            line.push_str(&format!(" GENERATED {when} AS IDENTITY{options}"));
        } else if let Some(computed) = table.rules.generated.get(field.name()) {
            if including.generated {
                line.push_str(&format!(" GENERATED ALWAYS AS ({}) STORED", computed.text));
            }
        } else if let Some(default) = table.defaults.get(field.name()).filter(|_| including.defaults) {
            line.push_str(&format!(" DEFAULT {}", default.text));
        }
        lines.push(line);
    }
    // Those that are DEFERRABLE come once the rows are there, which they look at then.
    for index in table.indexes.iter().filter(|of| including.indexes && !(keeps_names && of.is_deferrable())) {
        let key = match index.origin {
            Origin::PrimaryKey => "PRIMARY KEY",
            Origin::Unique => "UNIQUE",
            Origin::Created => continue,
        };
        let named = match !keeps_names || index.name == index.usual_name(&table.name.table) {
            true => String::new(),
            false => format!("CONSTRAINT {} ", quoted(&index.name)),
        };
        lines.push(format!("{named}{key} ({}){}", columns(&index.columns), index.deferral.suffix()));
    }
    lines.extend(table.rules.checks.iter().filter(|check| check.is_valid && including.constraints).map(check));
    lines
}

fn check(check: &Check) -> String {
    format!("CONSTRAINT {} CHECK ({})", quoted(&check.name), check.condition.text)
}

/// `ALTER TABLE .. ADD .. FOREIGN KEY` for each of a table's, once all tables are there.
pub(crate) fn add_foreign_keys(table: &TableEntry, state: &CatalogState) -> Vec<String> {
    let statement = |key: &ForeignKey| {
        let to = state.by_id(key.to)?;
        Some(format!(
            "ALTER TABLE {} ADD CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}){} ON DELETE {} ON UPDATE {}{}",
            name(&table.name),
            quoted(&key.name),
            columns(&key.columns),
            name(&to.name),
            columns(&key.to_columns),
            if key.is_full { " MATCH FULL" } else { "" },
            key.on_delete.sql(),
            key.on_update.sql(),
            key.deferral.suffix()
        ))
    };
    table.rules.foreign_keys.iter().filter_map(statement).collect()
}

/// `ALTER TABLE .. ADD` for each key of a table that is DEFERRABLE, for a table that has its rows.
pub(crate) fn add_deferrable_keys(table: &TableEntry) -> impl Iterator<Item = String> {
    table.deferrable_keys().map(|index| {
        format!(
            "ALTER TABLE {} ADD CONSTRAINT {} {} ({}){}",
            name(&table.name),
            quoted(&index.name),
            if index.origin == Origin::PrimaryKey { "PRIMARY KEY" } else { "UNIQUE" },
            columns(&index.columns),
            index.deferral.suffix()
        )
    })
}

/// Conditions that rows need not keep which were there before, for a table that has its rows.
pub(crate) fn add_checks(table: &TableEntry) -> impl Iterator<Item = String> {
    let later = table.rules.checks.iter().filter(|check| !check.is_valid);
    later.map(|of| format!("ALTER TABLE {} ADD {} NOT VALID", name(&table.name), check(of)))
}

/// `CREATE INDEX` for each of a table's indexes that were made so; those of keys come with [`create_table`].
pub(crate) fn create_indexes(table: &TableEntry) -> impl Iterator<Item = String> {
    table.indexes.iter().filter(|index| index.origin == Origin::Created).map(|index| {
        let unique = if index.unique { "UNIQUE " } else { "" };
        let index_name = quoted(&index.name);
        let over = columns(&index.columns);
        format!("CREATE {unique}INDEX {index_name} ON {} ({over})", name(&table.name))
    })
}

/// `CREATE TYPE` of an enum.
pub(crate) fn create_type(of: &EnumType) -> String {
    let labels: Vec<String> = of.labels.iter().map(|label| text(label)).collect();
    format!("CREATE TYPE {} AS ENUM ({})", type_name_of(of), labels.join(", "))
}

/// `CREATE DOMAIN`.
pub(crate) fn create_domain(of: &DomainEntry, state: &CatalogState) -> String {
    let over = of.over.and_then(|id| state.domain_of(id)).map(|(of, _)| name(of));
    let mut text = format!("CREATE DOMAIN {} AS {}", name(&of.of.name), over.as_ref().unwrap_or(&of.base));
    if let Some(default) = of.default() {
        text.push_str(&format!(" DEFAULT ({})", default.text));
    }
    if of.is_required() {
        text.push_str(" NOT NULL");
    }
    of.of.rules.checks.iter().filter(|of| of.is_valid).for_each(|of| text.push_str(&format!(" {}", check(of))));
    text
}

/// Conditions of a domain that values need not keep which were there before.
pub(crate) fn add_checks_to_domain(of: &DomainEntry) -> impl Iterator<Item = String> {
    let later = of.of.rules.checks.iter().filter(|check| !check.is_valid);
    later.map(|later| format!("ALTER DOMAIN {} ADD {} NOT VALID", name(&of.of.name), check(later)))
}

/// An enum's name as a statement needs it, wherever it runs.
fn type_name_of(of: &EnumType) -> String {
    name(&Name { schema: of.schema.clone(), table: of.name.clone() })
}

/// `COMMENT ON` for all that was said of what a name stands for.
pub(crate) fn comments(of: &Name, entry: &Entry) -> Vec<String> {
    let kind = match entry {
        Entry::Table(table) if table.materialized.is_some() => "MATERIALIZED VIEW",
        Entry::Table(_) => "TABLE",
        Entry::View(_) => "VIEW",
        Entry::External(_) => "FOREIGN TABLE",
        Entry::Sequence(_) => "SEQUENCE",
        Entry::Type(_) => "TYPE",
        Entry::Domain(_) => "DOMAIN",
        Entry::Function(_) => "FUNCTION",
    };
    let statement = |(part, said): (Option<(Part, &str)>, &str)| {
        let what = match part {
            None if matches!(entry, Entry::Function(_)) => {
                format!("FUNCTION {}", name(&Name { table: called(of).to_string(), ..of.clone() }))
            }
            None => format!("{kind} {}", name(of)),
            Some((Part::Column, column)) => format!("COLUMN {}.{}", name(of), quoted(column)),
            Some((Part::Index, index)) => format!("INDEX {}.{}", quoted(&of.schema), quoted(index)),
            Some((Part::Constraint, constraint)) => format!("CONSTRAINT {} ON {}", quoted(constraint), name(of)),
        };
        format!("COMMENT ON {what} IS {}", text(said))
    };
    entry.comments().all().map(statement).collect()
}

/// Names of columns, quoted.
fn columns(names: &[String]) -> String {
    names.iter().map(|c| quoted(c)).collect::<Vec<_>>().join(", ")
}

fn with_casts(table: &TableEntry, fields: &arrow::datatypes::Fields) -> Result<String> {
    let keys = table.indexes.iter().any(|index| index.origin != Origin::Created);
    let plain = !keys
        && *table.rules == RowRules::default()
        && table.defaults.is_empty()
        && table.lengths.is_empty()
        && fields.iter().all(|f| f.is_nullable());
    if !plain {
        return Err(Error::Unsupported(format!(
            "table '{}' has types that SQL has no name for, and keys, defaults, lengths or NOT NULL as well; it cannot \
             be exported",
            table.name.shown()
        )));
    }
    let column =
        |f: &Arc<Field>| format!("arrow_cast(NULL, {}) AS {}", text(&f.data_type().to_string()), quoted(f.name()));
    let columns: Vec<String> = fields.iter().map(column).collect();
    let placement = with_placement(table);
    Ok(format!("CREATE TABLE {}{placement} AS SELECT {} WHERE false", name(&table.name), columns.join(", ")))
}

/// ` WITH (placement = '..')`, where it is not the usual one.
fn with_placement(table: &TableEntry) -> String {
    match table.placement.spec() {
        spec if *spec == Spec::default() => String::new(),
        spec => format!(" WITH (placement = {})", text(&spec.to_string())),
    }
}

/// SQL's name of a type, if reading it back gives the same type.
fn type_name(data_type: &DataType, running: &Arc<RunningStatement>) -> Option<String> {
    let name = sql_type(data_type);
    let back = types::parse(&name, running).ok()?;
    (back == *data_type).then_some(name)
}
