//! What there is: schemas, tables, keys, as queries of `information_schema` and `pg_catalog` in the caller's session.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::{
    Command, CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetTableTypes, CommandGetTables,
};
use nearside::{DATABASE_NAME, ScalarValue, Session};

use super::facts;
use super::sessions::Caller;
use super::statements::unsendable;
use super::status::unsupported;
use crate::blocking::blocking;
use crate::fault::Fault;
use crate::shared::Shared;

/// What a table's kind is called, as `information_schema.tables` has it.
const KINDS: [&str; 3] = ["BASE TABLE", "LOCAL TEMPORARY", "VIEW"];

/// The columns of what a command asks for; `None` where it does not ask what there is.
pub fn schema(command: &Command) -> Option<SchemaRef> {
    Some(match command {
        Command::CommandGetCatalogs(_) => CommandGetCatalogs {}.into_builder().schema(),
        Command::CommandGetDbSchemas(asked) => asked.clone().into_builder().schema(),
        Command::CommandGetTables(asked) => asked.clone().into_builder().schema(),
        Command::CommandGetTableTypes(_) => CommandGetTableTypes {}.into_builder().schema(),
        Command::CommandGetPrimaryKeys(_) => primary_keys(),
        Command::CommandGetExportedKeys(_)
        | Command::CommandGetImportedKeys(_)
        | Command::CommandGetCrossReference(_) => foreign_keys(),
        Command::CommandGetSqlInfo(_) => facts::sql_info().ok()?.schema(),
        Command::CommandGetXdbcTypeInfo(_) => facts::types().ok()?.schema(),
        _ => return None,
    })
}

/// The rows of it.
///
/// # Errors
/// What the session says.
pub async fn rows(command: Command, caller: &Arc<Caller>, shared: &Arc<Shared>) -> Result<RecordBatch, Fault> {
    blocking(&caller.session, shared, move |session| match command {
        Command::CommandGetCatalogs(asked) => {
            let mut all = asked.into_builder();
            all.append(DATABASE_NAME);
            all.build().map_err(unsendable)
        }
        Command::CommandGetDbSchemas(asked) => schemas(session, asked),
        Command::CommandGetTables(asked) => tables(session, asked),
        Command::CommandGetTableTypes(asked) => {
            let mut all = asked.into_builder();
            KINDS.into_iter().for_each(|kind| all.append(kind));
            all.build().map_err(unsendable)
        }
        Command::CommandGetPrimaryKeys(asked) => keys_of(session, asked),
        Command::CommandGetExportedKeys(asked) => exported(session, asked),
        Command::CommandGetImportedKeys(asked) => imported(session, asked),
        Command::CommandGetCrossReference(asked) => between(session, asked),
        Command::CommandGetSqlInfo(asked) => asked.into_builder(facts::sql_info()?).build().map_err(unsendable),
        Command::CommandGetXdbcTypeInfo(asked) => asked.into_builder(facts::types()?).build().map_err(unsendable),
        other => Err(unsupported(format!("'{}' does not ask what there is", other.type_url()))),
    })
    .await
}

/// Rows of a query with texts as its parameters.
fn ask(session: &Session, sql: &str, texts: &[Option<String>]) -> Result<RecordBatch, Fault> {
    let values: Vec<ScalarValue> = texts.iter().map(|text| ScalarValue::Utf8View(text.clone())).collect();
    let declared = vec![Some(DataType::Utf8View); values.len()];
    let rows = session.prepare_as(sql, &declared)?.query(&values)?;
    let schema = Arc::clone(rows.schema());
    let batches = rows.collect_all()?;
    concat_batches(&schema, &batches).map_err(unsendable)
}

/// A text of a batch; empty where there is none.
pub fn text(batch: &RecordBatch, column: usize, row: usize) -> String {
    batch.column(column).as_string_opt::<i32>().map_or_else(
        || batch.column(column).as_string_view_opt().map_or_else(String::new, |all| all.value(row).to_string()),
        |all| all.value(row).to_string(),
    )
}

fn schemas(session: &Session, asked: CommandGetDbSchemas) -> Result<RecordBatch, Fault> {
    let found = ask(session, "SELECT nspname::text FROM pg_catalog.pg_namespace", &[])?;
    let mut all = asked.into_builder();
    (0..found.num_rows()).for_each(|row| all.append(DATABASE_NAME, text(&found, 0, row)));
    all.build().map_err(unsendable)
}

fn tables(session: &Session, asked: CommandGetTables) -> Result<RecordBatch, Fault> {
    let patterns = [asked.db_schema_filter_pattern.clone(), asked.table_name_filter_pattern.clone()];
    let found = ask(
        session,
        "SELECT table_schema::text, table_name::text, table_type::text FROM information_schema.tables \
         WHERE ($1 IS NULL OR table_schema LIKE $1) AND ($2 IS NULL OR table_name LIKE $2)",
        &patterns,
    )?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let with_columns = asked.include_schema;
    let kinds = asked.table_types.clone();
    let catalog = asked.catalog.clone();
    let mut all = asked.into_builder();
    for row in 0..found.num_rows() {
        let (schema, table, kind) = (text(&found, 0, row), text(&found, 1, row), text(&found, 2, row));
        let kind = if schema.starts_with("pg_temp") && kind == "BASE TABLE" { "LOCAL TEMPORARY".into() } else { kind };
        let is_wanted = catalog.as_deref().is_none_or(|catalog| catalog == DATABASE_NAME)
            && (kinds.is_empty() || kinds.contains(&kind));
        if !is_wanted {
            continue;
        }
        let columns = match with_columns {
            false => None,
            true => {
                session.prepare_as(&format!("SELECT * FROM {}.{}", quoted(&schema), quoted(&table)), &[])?.columns()?
            }
        };
        let columns = columns.unwrap_or_else(|| Arc::new(Schema::empty()));
        all.append(DATABASE_NAME, schema, table, kind, &columns).map_err(unsendable)?;
    }
    all.build().map_err(unsendable)
}

fn primary_keys() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

fn foreign_keys() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}

/// Rows under the columns that the protocol has.
fn under(schema: SchemaRef, found: &RecordBatch) -> Result<RecordBatch, Fault> {
    let columns = found.columns().iter().zip(schema.fields()).map(|(column, field)| cast(column, field.data_type()));
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>().map_err(unsendable)?;
    RecordBatch::try_new(schema, columns).map_err(unsendable)
}

fn keys_of(session: &Session, asked: CommandGetPrimaryKeys) -> Result<RecordBatch, Fault> {
    let found = ask(
        session,
        "SELECT current_database()::text, n.nspname::text, c.relname::text, a.attname::text, k.conname::text, \
         k.place FROM (SELECT conname, conrelid, conkey, generate_subscripts(conkey, 1) AS place \
         FROM pg_catalog.pg_constraint WHERE contype = 'p') k \
         JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[k.place] \
         WHERE c.relname = $3 AND ($2 IS NULL OR n.nspname = $2) AND ($1 IS NULL OR current_database() = $1) \
         ORDER BY 2, 5, 6",
        &[asked.catalog, asked.db_schema, Some(asked.table)],
    )?;
    under(primary_keys(), &found)
}

/// Foreign keys between tables; `None` of what any may be.
struct Between {
    catalog: [Option<String>; 2],
    schema: [Option<String>; 2],
    table: [Option<String>; 2],
}

fn foreign(session: &Session, of: Between) -> Result<RecordBatch, Fault> {
    let Between { catalog: [to_catalog, from_catalog], schema: [to_schema, from_schema], table: [to, from] } = of;
    let found = ask(
        session,
        "SELECT current_database()::text, tn.nspname::text, tc.relname::text, ta.attname::text, \
         current_database()::text, fn.nspname::text, fc.relname::text, fa.attname::text, k.place, k.conname::text, \
         p.conname::text, \
         CASE k.confupdtype WHEN 'c' THEN 0 WHEN 'r' THEN 1 WHEN 'n' THEN 2 WHEN 'd' THEN 4 ELSE 3 END, \
         CASE k.confdeltype WHEN 'c' THEN 0 WHEN 'r' THEN 1 WHEN 'n' THEN 2 WHEN 'd' THEN 4 ELSE 3 END \
         FROM (SELECT *, generate_subscripts(conkey, 1) AS place FROM pg_catalog.pg_constraint \
         WHERE contype = 'f') k \
         JOIN pg_catalog.pg_class fc ON fc.oid = k.conrelid \
         JOIN pg_catalog.pg_namespace fn ON fn.oid = fc.relnamespace \
         JOIN pg_catalog.pg_class tc ON tc.oid = k.confrelid \
         JOIN pg_catalog.pg_namespace tn ON tn.oid = tc.relnamespace \
         JOIN pg_catalog.pg_attribute fa ON fa.attrelid = k.conrelid AND fa.attnum = k.conkey[k.place] \
         JOIN pg_catalog.pg_attribute ta ON ta.attrelid = k.confrelid AND ta.attnum = k.confkey[k.place] \
         LEFT JOIN pg_catalog.pg_constraint p ON p.conindid = k.conindid AND p.contype IN ('p', 'u') \
         WHERE ($1 IS NULL OR current_database() = $1) AND ($2 IS NULL OR tn.nspname = $2) \
         AND ($3 IS NULL OR tc.relname = $3) AND ($4 IS NULL OR current_database() = $4) \
         AND ($5 IS NULL OR fn.nspname = $5) AND ($6 IS NULL OR fc.relname = $6) ORDER BY 2, 3, 6, 7, 10, 9",
        &[to_catalog, to_schema, to, from_catalog, from_schema, from],
    )?;
    under(foreign_keys(), &found)
}

fn exported(session: &Session, asked: CommandGetExportedKeys) -> Result<RecordBatch, Fault> {
    let (catalog, schema, table) = ([asked.catalog, None], [asked.db_schema, None], [Some(asked.table), None]);
    foreign(session, Between { catalog, schema, table })
}

fn imported(session: &Session, asked: CommandGetImportedKeys) -> Result<RecordBatch, Fault> {
    let (catalog, schema, table) = ([None, asked.catalog], [None, asked.db_schema], [None, Some(asked.table)]);
    foreign(session, Between { catalog, schema, table })
}

fn between(session: &Session, asked: CommandGetCrossReference) -> Result<RecordBatch, Fault> {
    let catalog = [asked.pk_catalog, asked.fk_catalog];
    let schema = [asked.pk_db_schema, asked.fk_db_schema];
    foreign(session, Between { catalog, schema, table: [Some(asked.pk_table), Some(asked.fk_table)] })
}
