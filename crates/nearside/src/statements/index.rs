//! CREATE INDEX and DROP INDEX.

use std::sync::Arc;

use sqlparser::ast::{CreateIndex, Expr, IndexColumn, IndexType, ObjectName};

use crate::catalog::index::{IndexEntry, IndexedTable, Origin, indexed, with_order};
use crate::catalog::{CatalogState, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{normalised, object_name, object_reference};
use crate::statements::keys::{duplicate, shown};
use crate::statements::relations::referring_to;
use crate::statements::writer::as_owner;

/// Operator classes of texts.
const OF_TEXTS: [&str; 6] =
    ["text_ops", "text_pattern_ops", "varchar_ops", "varchar_pattern_ops", "bpchar_ops", "bpchar_pattern_ops"];

/// `CREATE [UNIQUE] INDEX [[IF NOT EXISTS] name] ON table (columns)`.
pub(crate) fn create(create: &CreateIndex, running: &Arc<RunningStatement>) -> Result<Done> {
    let done = Done::new("CREATE INDEX");
    refuse_extras(create)?;
    let table_name = running.named(&create.table_name)?;
    let name = create.name.as_ref().map(|name| own_name(name, &table_name)).transpose()?;
    if let Some(name) = &name
        && running.catalog.index(name).is_some()
    {
        return if create.if_not_exists { Ok(done) } else { Err(taken(name)) };
    }
    let columns = create.columns.iter().map(column_name).collect::<Result<Vec<_>>>()?;
    as_owner(&table_name, running, |table, running| {
        let index = checked(name.as_ref(), columns, create.unique, table)?;
        for (column, name) in create.columns.iter().zip(&index.columns) {
            has_own_order(column, name, table)?;
        }
        let is_indexed = |column: usize| index.is_over(table.base.schema.field(column).name());
        table.load(is_indexed, running)?;
        let mut changed = table.clone();
        changed.indexes = Arc::new(table.indexes.iter().cloned().chain([index]).collect());
        let changed = indexed(changed, running)?;
        if let Some(index) = changed.table().indexes.last().filter(|index| index.unique)
            && let Some(values) = duplicate(&changed, index, None, running)?
        {
            return Err(Error::execution(
                SqlState::UniqueViolation,
                format!(
                    "the index cannot be unique: table '{}' holds two rows with ({}) = ({values})",
                    table_name.shown(),
                    index.columns.join(", "),
                    values = shown(&values)
                ),
            )
            .of_constraint((&table_name.schema, &table_name.table), &index.name));
        }
        let _ahead = running.home.ahead(&changed.table().base)?;
        running.check()?;
        running.home.commit(|state| {
            if name.as_ref().is_some_and(|name| state.index(name).is_some()) && create.if_not_exists {
                return Ok(());
            }
            replace(state, table, changed)
        })?;
        Ok(done)
    })
}

/// Puts the changed table in the place of the one that it was made from.
fn replace(state: &mut CatalogState, table: &TableEntry, changed: IndexedTable) -> Result<()> {
    if state.by_id(table.id).is_none_or(|t| t.name != table.name) {
        let name = table.name.shown();
        return Err(Error::execution(
            SqlState::UndefinedTable,
            format!("table '{name}' was dropped while the statement ran"),
        ));
    }
    state.put_table(Name::clone(&table.name), changed)
}

/// `DROP INDEX [IF EXISTS] name`.
///
/// `on`: the table that MySQL's form names.
pub(crate) fn drop_index(
    names: &[ObjectName],
    if_exists: bool,
    on: Option<&ObjectName>,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let done = Done::new("DROP INDEX");
    let [name] = names else {
        return Err(Error::Unsupported("DROP INDEX takes one name; use a statement for each".into()));
    };
    if let Some(table) = on {
        return Err(Error::Unsupported(format!(
            "DROP INDEX .. ON {table} is not supported: names of indexes are unique within their schema; write DROP \
             INDEX {name}"
        )));
    }
    let name = running.path().resolve_index(&object_reference(name)?, &running.catalog)?;
    let Some((table, _)) = running.catalog.index(&name) else {
        return if if_exists { Ok(done) } else { Err(running.catalog.no_index(&name)) };
    };
    as_owner(&table.name.clone(), running, |table, running| {
        let place = table.indexes.iter().position(|index| index.name == name.table);
        let Some(place) = place else {
            return if if_exists { Ok(done) } else { Err(running.catalog.no_index(&name)) };
        };
        let index = &table.indexes[place];
        if index.origin != Origin::Created {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "index '{}' belongs to the key ({}) of table '{}'; ALTER TABLE {} DROP CONSTRAINT {} drops both",
                    name.shown(),
                    index.columns.join(", "),
                    table.name.shown(),
                    table.name.shown(),
                    index.name
                ),
            ));
        }
        if index.unique
            && let Some((child, key)) = referring_to(&running.catalog, table.id, &index.columns)
        {
            return Err(Error::plan(
                SqlState::DependentObjectsStillExist,
                format!(
                    "index '{}' is what foreign key '{}' of table '{}' refers to; drop that first",
                    name.shown(),
                    key.name,
                    child.name.shown()
                ),
            ));
        }
        let mut changed = table.clone();
        Arc::make_mut(&mut changed.indexes).remove(place);
        let changed = indexed(changed, running)?;
        let _ahead = running.home.ahead(&changed.table().base)?;
        running.home.commit(|state| replace(state, table, changed))?;
        Ok(done)
    })
}

/// Refuses what an index here does not have.
fn refuse_extras(create: &CreateIndex) -> Result<()> {
    let refused = |what: &str| Err(Error::Unsupported(format!("CREATE INDEX .. {what}")));
    // What `pg_catalog` calls all of them.
    if let Some(using) = create.using.as_ref().filter(|using| !matches!(using, IndexType::BTree)) {
        return refused(&format!(
            "USING {using} is not supported: the kind of an index is chosen by its column's values; leave USING out"
        ));
    }
    if create.concurrently {
        return refused("CONCURRENTLY is not supported: readers never wait anyway; leave it out");
    }
    if let Some(condition) = &create.predicate {
        return refused(&format!("WHERE {condition} is not supported: an index is over all rows; leave WHERE out"));
    }
    if !create.include.is_empty() {
        return refused("INCLUDE is not supported: an index leads to rows, which have all columns; leave INCLUDE out");
    }
    if create.nulls_distinct == Some(false) {
        return refused("NULLS NOT DISTINCT is not supported: NULLs never break a key; declare the columns NOT NULL");
    }
    if !create.with.is_empty() || !create.index_options.is_empty() || !create.alter_options.is_empty() {
        return refused("does not take options; leave what stands behind the columns out");
    }
    Ok(())
}

/// The index's name, which lies in its table's schema.
fn own_name(name: &ObjectName, table: &Name) -> Result<Name> {
    let mut own = object_name(name)?;
    if name.0.len() == 1 {
        own.schema = table.schema.clone();
    }
    if own.table.is_empty() {
        return Err(Error::plan(
            SqlState::InvalidName,
            "the name of an index must not be empty; leave it out to have one chosen",
        ));
    }
    if own.schema != table.schema {
        return Err(Error::plan(
            SqlState::SyntaxError,
            format!("an index lies in the schema of its table: '{}' cannot be in schema '{}'", name, own.schema),
        ));
    }
    Ok(own)
}

fn taken(name: &Name) -> Error {
    Error::Exists { kind: "index", name: name.shown() }
}

/// The column that an element of the list names.
fn column_name(column: &IndexColumn) -> Result<String> {
    let element = &column.column;
    // From the first to the last, NULL behind: that is what ASC says.
    let options = &element.options;
    if options.asc == Some(false) || options.nulls_first == Some(true) || element.with_fill.is_some() {
        return Err(Error::Unsupported(format!(
            "CREATE INDEX .. ({element}): an index has no direction; leave DESC and NULLS out"
        )));
    }
    match &element.expr {
        Expr::Identifier(ident) => Ok(normalised(ident.clone())),
        other => Err(Error::Unsupported(format!(
            "CREATE INDEX .. ({other}): an index is over columns, not over expressions; add a column for it, or leave \
             it out"
        ))),
    }
}

/// Refuses operator classes but those that order texts as indexes do here, by their bytes.
fn has_own_order(column: &IndexColumn, name: &str, table: &TableEntry) -> Result<()> {
    let Some(class) = &column.operator_class else { return Ok(()) };
    let known = class.0.last().and_then(|part| part.as_ident()).map(|part| normalised(part.clone()));
    let is_of_texts = known.is_some_and(|known| OF_TEXTS.contains(&known.as_str()));
    let has_texts = table.base.schema.field_with_name(name).is_ok_and(|field| field.data_type().is_string());
    match is_of_texts && has_texts {
        true => Ok(()),
        false => Err(Error::Unsupported(format!("CREATE INDEX .. ({column}): leave the operator class {class} out"))),
    }
}

/// An index that the table can have.
fn checked(name: Option<&Name>, columns: Vec<String>, unique: bool, table: &TableEntry) -> Result<IndexEntry> {
    let schema = &table.base.schema;
    for (i, column) in columns.iter().enumerate() {
        with_order(column, schema)?;
        if columns[..i].contains(column) {
            return Err(Error::plan(SqlState::DuplicateColumn, format!("column '{column}' stands twice in the list")));
        }
    }
    let name = name.map_or_else(String::new, |name| name.table.clone());
    Ok(IndexEntry::new(name, columns, unique, Origin::Created))
}
