//! `information_schema`: what there is, under the names that the SQL standard has for it.
//!
//! `df_settings`, which SHOW reads, is the caller's affair:
//! [`SystemTables::settings`](crate::plan::system::SystemTables::settings).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_expr::TableSource;

use super::rows::Columns;
use super::{constraints, functions, pg_catalog, privileges};
use crate::catalog::check_option::CheckOption;
use crate::catalog::domains::DomainEntry;
use crate::catalog::lengths::Length;
use crate::catalog::pg_types::of_field;
use crate::catalog::rights::{May, Thing};
use crate::catalog::user_types::EnumType;
use crate::catalog::{CATALOG, CatalogState, Entry, INFORMATION_SCHEMA, Name, PG_CATALOG, TableEntry};
use crate::error::Result;
use crate::error::types::sql_type;
use crate::plan::planner::Planner;
use crate::plan::system::{Descriptions, TableDescription};
use crate::plan::updatable::Updatable;
use crate::tables::sources::GivenSource;

/// Views and their names.
const VIEWS: [&str; 21] = [
    "tables",
    "views",
    "columns",
    "df_settings",
    "schemata",
    "routines",
    "parameters",
    "sequences",
    "table_constraints",
    "key_column_usage",
    "referential_constraints",
    "check_constraints",
    "constraint_column_usage",
    "table_privileges",
    "column_privileges",
    "role_table_grants",
    "role_column_grants",
    "enabled_roles",
    "applicable_roles",
    "domains",
    "domain_constraints",
];

/// The rows of a view; `None` where there is no such view.
///
/// # Errors
/// None that rows of the catalog have.
pub(crate) fn table(
    view: &str,
    (all, state): (&Descriptions, &CatalogState),
    (planner, user): (&Planner, u32),
) -> Result<Option<Arc<dyn TableSource>>> {
    let may = state.may(user);
    let rows = match view.to_ascii_lowercase().as_str() {
        "tables" => tables(all, &may, state),
        "views" => views(all, &may, state),
        "columns" => columns(all, &may, state),
        "table_privileges" => privileges::of_tables(state, user, true),
        "role_table_grants" => privileges::of_tables(state, user, false),
        "column_privileges" => privileges::of_columns(all, state, user, true),
        "role_column_grants" => privileges::of_columns(all, state, user, false),
        "enabled_roles" => privileges::enabled_roles(state, user),
        "applicable_roles" => privileges::applicable_roles(state, user),
        "sequences" => constraints::sequences(state),
        "table_constraints" => constraints::table_constraints(state),
        "key_column_usage" => constraints::key_column_usage(state),
        "referential_constraints" => constraints::referential_constraints(state),
        "check_constraints" => constraints::check_constraints(state),
        "constraint_column_usage" => constraints::constraint_column_usage(state),
        "domains" => domains(state),
        "domain_constraints" => constraints::domain_constraints(state),
        "schemata" => schemata(all, state),
        "routines" => functions::routines(planner),
        "parameters" => functions::parameters(planner),
        _ => return Ok(None),
    };
    Ok(Some(GivenSource::table(rows.batch()?)))
}

/// Tables and views that a role may do something with.
fn each<'a>(
    all: &'a Descriptions,
    may: &'a May<'a>,
    state: &'a CatalogState,
) -> impl Iterator<Item = (&'a str, &'a str, &'a TableDescription)> + Clone {
    let each = all.iter().flat_map(|(schema, tables)| tables.iter().map(move |(name, of)| (schema, name, of)));
    let each = each.filter(|(schema, name, _)| privileges::is_shown(may, state, schema, name));
    each.map(|(schema, name, of)| (schema.as_str(), name.as_str(), of))
}

fn yes(is_so: bool) -> Option<&'static str> {
    Some(if is_so { "YES" } else { "NO" })
}

/// Whether a view shows a column of its table.
fn has_columns(view: &Updatable) -> bool {
    view.levels.iter().all(|level| level.columns.iter().any(|(_, column)| column.is_some()))
}

fn tables(all: &Descriptions, may: &May<'_>, state: &CatalogState) -> Columns {
    let kind = |table: &TableDescription| if table.is_view { "VIEW" } else { "BASE TABLE" };
    let own = VIEWS.into_iter().map(|view| (INFORMATION_SCHEMA, view, "VIEW", false));
    let is_filled = |schema: &str, name: &str, table: &TableDescription| match table.is_view {
        true => table.written.as_ref().is_some_and(has_columns),
        false => state.table(&Name { schema: schema.into(), table: name.into() }).is_ok(),
    };
    let tables =
        each(all, may, state).map(|(schema, name, table)| (schema, name, kind(table), is_filled(schema, name, table)));
    let rows: Vec<_> = tables.chain(own).collect();
    Columns::default()
        .text("table_catalog", rows.iter().map(|_| Some(CATALOG)))
        .text("table_schema", rows.iter().map(|row| Some(row.0)))
        .text("table_name", rows.iter().map(|row| Some(row.1)))
        .text("table_type", rows.iter().map(|row| Some(row.2)))
        .text("is_insertable_into", rows.iter().map(|row| yes(row.3)))
}

fn views(all: &Descriptions, may: &May<'_>, state: &CatalogState) -> Columns {
    let rows: Vec<_> = each(all, may, state).collect();
    // As in PostgreSQL, what a view is made of is shown to who it belongs to.
    let text = |row: &(&'_ str, &'_ str, &'_ TableDescription)| {
        let is_own = may.do_everything() || may.own(&Thing::Relation(row.0.into(), row.1.into()));
        row.2.sql.clone().filter(|_| is_own)
    };
    let texts: Vec<Option<String>> = rows.iter().map(text).collect();
    let is_written = |row: &(&str, &str, &TableDescription)| row.2.written.as_ref().is_some_and(has_columns);
    let check = |row: &(&str, &str, &TableDescription)| {
        let name = Name { schema: row.0.into(), table: row.1.into() };
        match state.get(&name) {
            Some(Entry::View(view)) => view.check.map_or("NONE", CheckOption::sql),
            _ => "NONE",
        }
    };
    Columns::default()
        .text("table_catalog", rows.iter().map(|_| Some(CATALOG)))
        .text("table_schema", rows.iter().map(|row| Some(row.0)))
        .text("table_name", rows.iter().map(|row| Some(row.1)))
        .text("definition", texts.iter().map(Option::as_deref))
        .text("view_definition", texts.iter().map(Option::as_deref))
        .text("check_option", rows.iter().map(|row| Some(check(row))))
        .text("is_updatable", rows.iter().map(|row| yes(is_written(row))))
        .text("is_insertable_into", rows.iter().map(|row| yes(is_written(row))))
        .text("is_trigger_updatable", rows.iter().map(|_| yes(false)))
        .text("is_trigger_deletable", rows.iter().map(|_| yes(false)))
        .text("is_trigger_insertable_into", rows.iter().map(|_| yes(false)))
}

fn schemata(all: &Descriptions, state: &CatalogState) -> Columns {
    let owner = |schema: &String| {
        let owner = state.owner_of(&Thing::Schema(schema.clone()));
        state.roles().by_id(owner).map(|(name, _)| name.to_string())
    };
    let owners: Vec<Option<String>> = all.keys().map(owner).collect();
    let none = || all.keys().map(|_| None::<&str>);
    Columns::default()
        .text("catalog_name", all.keys().map(|_| Some(CATALOG)))
        .text("schema_name", all.keys().map(Some))
        .text("schema_owner", owners.iter().map(Option::as_deref))
        .text("default_character_set_catalog", none())
        .text("default_character_set_schema", none())
        .text("default_character_set_name", none())
        .text("sql_path", none())
}

fn columns(all: &Descriptions, may: &May<'_>, state: &CatalogState) -> Columns {
    let rows: Vec<(&str, &str, usize, &Field)> = each(all, may, state)
        .flat_map(|(schema, name, table)| {
            table.schema.fields().iter().enumerate().map(move |(i, field)| (schema, name, i, field.as_ref()))
        })
        .collect();
    let is_written = |row: &(&str, &str, usize, &Field)| {
        let of = all.get(row.0).and_then(|tables| tables.get(row.1));
        of.is_some_and(|of| match (&of.written, of.is_view) {
            (Some(view), _) => view.column(row.3.name()).is_some(),
            (None, is_view) => !is_view,
        })
    };
    let numeric = || rows.iter().map(|row| numeric(row.3.data_type()));
    let unknown = || rows.iter().map(|_| None::<u64>);
    let none = || rows.iter().map(|_| None::<&str>);
    let table = |row: &(&str, &str, usize, &Field)| {
        let name = Name { schema: row.0.into(), table: row.1.into() };
        state.table(&name).ok().cloned()
    };
    let of_table: Vec<Option<Arc<TableEntry>>> = rows.iter().map(table).collect();
    let each_of = || rows.iter().zip(&of_table).map(|(row, table)| (row.3.name(), table.as_ref()));
    let default = |(column, table): (&String, Option<&Arc<TableEntry>>)| {
        let table = table.filter(|table| !table.rules.identities.contains_key(column))?;
        table.defaults.get(column).map(|default| default.text.to_string())
    };
    let identity = |(column, table): (&String, Option<&Arc<TableEntry>>)| table?.rules.identities.get(column).copied();
    let computed = |(column, table): (&String, Option<&Arc<TableEntry>>)| {
        table?.rules.generated.get(column).map(|computed| computed.text.to_string())
    };
    let length = |(column, table): (&String, Option<&Arc<TableEntry>>)| table?.lengths.get(column).cloned();
    let domain_of =
        |(column, table): (&String, Option<&Arc<TableEntry>>)| state.domain_of(table?.rules.domains.get(column)?.id);
    let domain = |of| domain_of(of).map(|(name, _)| name);
    // As PostgreSQL tells it of a domain that is over another.
    let is_over = |of| domain_of(of).is_some_and(|(_, domain)| domain.over.is_some());
    Columns::default()
        .text("table_catalog", rows.iter().map(|_| Some(CATALOG)))
        .text("table_schema", rows.iter().map(|row| Some(row.0)))
        .text("table_name", rows.iter().map(|row| Some(row.1)))
        .text("column_name", rows.iter().map(|row| Some(row.3.name())))
        .number("ordinal_position", rows.iter().map(|row| Some(row.2 as u64 + 1)))
        .text("column_default", each_of().map(default))
        .text("is_nullable", rows.iter().map(|row| Some(if row.3.is_nullable() { "YES" } else { "NO" })))
        .text(
            "data_type",
            rows.iter().zip(each_of()).map(|(row, of)| match is_over(of) {
                true => Some("USER-DEFINED".to_string()),
                false => Some(type_name(row.3.data_type(), length(of))),
            }),
        )
        .number(
            "character_maximum_length",
            each_of().map(|of| length(of).filter(|length| !length.is_of_type()).map(|length| length.chars as u64)),
        )
        .number("character_octet_length", rows.iter().map(|row| octets(row.3.data_type())))
        .number("numeric_precision", numeric().map(|n| n.map(|n| n.0)))
        .number("numeric_precision_radix", numeric().map(|n| n.map(|n| n.1)))
        .number("numeric_scale", numeric().map(|n| n.and_then(|n| n.2)))
        .number("datetime_precision", unknown())
        .text("interval_type", rows.iter().map(|_| None::<&str>))
        .number("interval_precision", unknown())
        .text("character_set_catalog", none())
        .text("character_set_schema", none())
        .text("character_set_name", none())
        .text("collation_catalog", none())
        .text("collation_schema", none())
        .text("collation_name", none())
        .text("udt_catalog", rows.iter().map(|_| Some(CATALOG)))
        .text("udt_schema", rows.iter().zip(each_of()).map(|(row, of)| udt(row.3, length(of)).map(|udt| udt.0)))
        .text("udt_name", rows.iter().zip(each_of()).map(|(row, of)| udt(row.3, length(of)).map(|udt| udt.1)))
        .text("scope_catalog", none())
        .text("scope_schema", none())
        .text("scope_name", none())
        .number("maximum_cardinality", unknown())
        .text("dtd_identifier", rows.iter().map(|row| Some((row.2 + 1).to_string())))
        .text("is_self_referencing", rows.iter().map(|_| yes(false)))
        .text("is_identity", each_of().map(|of| Some(if identity(of).is_some() { "YES" } else { "NO" })))
        .text(
            "identity_generation",
            each_of().map(|of| identity(of).map(|always| if always { "ALWAYS" } else { "BY DEFAULT" })),
        )
        .text("is_generated", each_of().map(|of| Some(if computed(of).is_some() { "ALWAYS" } else { "NEVER" })))
        .text("generation_expression", each_of().map(computed))
        .text("is_updatable", rows.iter().map(|row| yes(is_written(row))))
        .text("domain_catalog", each_of().map(|of| domain(of).map(|_| CATALOG)))
        .text("domain_schema", each_of().map(|of| domain(of).map(|name| name.schema.clone())))
        .text("domain_name", each_of().map(|of| domain(of).map(|name| name.table.clone())))
}

/// `domains`.
fn domains(state: &CatalogState) -> Columns {
    let rows: Vec<(&Name, &DomainEntry)> = state.domains().map(|(name, of)| (name, of.as_ref())).collect();
    let numeric = || rows.iter().map(|row| numeric(row.1.field().data_type()));
    let length = |row: &(&Name, &DomainEntry)| row.1.length().cloned();
    let chars = |row: &(&Name, &DomainEntry)| length(row).filter(|of| !of.is_of_type()).map(|of| of.chars as u64);
    Columns::default()
        .text("domain_catalog", rows.iter().map(|_| Some(CATALOG)))
        .text("domain_schema", rows.iter().map(|row| Some(&row.0.schema)))
        .text("domain_name", rows.iter().map(|row| Some(&row.0.table)))
        .text(
            "data_type",
            rows.iter().map(|row| match row.1.over {
                Some(_) => Some("USER-DEFINED".to_string()),
                None => Some(type_name(row.1.field().data_type(), length(row))),
            }),
        )
        .number("character_maximum_length", rows.iter().map(chars))
        .number("numeric_precision", numeric().map(|n| n.map(|n| n.0)))
        .number("numeric_precision_radix", numeric().map(|n| n.map(|n| n.1)))
        .number("numeric_scale", numeric().map(|n| n.and_then(|n| n.2)))
        .text("domain_default", rows.iter().map(|row| row.1.default().map(|default| default.text.to_string())))
}

/// A type under the name that PostgreSQL's catalog has for it.
fn type_name(data_type: &DataType, length: Option<Length>) -> String {
    let name = match data_type {
        DataType::Boolean => "boolean",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            "numeric"
        }
        of if of.is_string() => match length {
            Some(length) if length.enum_type().is_some() => "USER-DEFINED",
            Some(length) if length.json_name().is_some() => length.json_name().unwrap_or("json"),
            Some(length) if length.is_fixed() => "character",
            Some(_) => "character varying",
            None => "text",
        },
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::FixedSizeBinary(16) => "uuid",
        DataType::Interval(_) => "interval",
        DataType::List(_) | DataType::LargeList(_) => "ARRAY",
        other => return sql_type(other),
    };
    name.into()
}

/// Schema and name of a column's type in `pg_type`; of a domain's, those of the type that it is over.
fn udt(field: &Field, length: Option<Length>) -> Option<(String, String)> {
    let field = match length {
        Some(length) => field.clone().with_metadata(length.metadata()),
        None => field.clone(),
    };
    match EnumType::of_field(&field) {
        Some(of) => Some((of.schema, of.name)),
        None => pg_catalog::type_name(of_field(&field).oid).map(|name| (PG_CATALOG.into(), name)),
    }
}

/// Most bytes of a text.
fn octets(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Utf8 | DataType::Binary => Some(i32::MAX as u64),
        DataType::LargeUtf8 | DataType::LargeBinary => Some(i64::MAX as u64),
        _ => None,
    }
}

/// Precision, its base, and scale of a number.
fn numeric(data_type: &DataType) -> Option<(u64, u64, Option<u64>)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (8, 2, None),
        DataType::Int16 | DataType::UInt16 => (16, 2, None),
        DataType::Int32 | DataType::UInt32 => (32, 2, None),
        DataType::Int64 | DataType::UInt64 => (64, 2, None),
        DataType::Float16 => (11, 2, None),
        DataType::Float32 => (24, 2, None),
        DataType::Float64 => (53, 2, None),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (u64::from(*precision), 10, u64::try_from(*scale).ok()),
        _ => return None,
    })
}
