//! Batches of a client: as they come, and on their way into a table.
//!
//! What is ingested is one transaction, the client's if it names one: all of it is there or nothing.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use nearside::{DATABASE_NAME, Session, TableName, sql_type};
use tokio::time::timeout;
use tonic::Streaming;

use super::catalog::text as text_at;
use super::sessions::Caller;
use super::status::{malformed, unsupported};
use super::transactions::{Together, may_run};
use crate::blocking::blocking;
use crate::fault::{Fault, codes};
use crate::shared::Shared;
use crate::statement::Kind;

/// What is collected before it is given to the table.
const COLLECTED_BYTES: usize = 8 << 20;
const COLLECTED_ROWS: usize = 65_536;

/// Batches of a client as they come.
pub struct Incoming {
    batches: Option<FlightRecordBatchStream>,
    shared: Arc<Shared>,
}

impl Incoming {
    /// What follows a message, which may have something of it itself.
    pub fn new(first: FlightData, rest: Streaming<FlightData>, shared: &Arc<Shared>) -> Incoming {
        let has_data = !first.data_header.is_empty();
        let all = stream::once(async { Ok(first) }).chain(rest).map_err(FlightError::from);
        let batches = has_data.then(|| FlightRecordBatchStream::new_from_flight_data(all));
        Incoming { batches, shared: Arc::clone(shared) }
    }

    /// The next one.
    ///
    /// # Errors
    /// A message that is not as it should be; none comes for too long.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, Fault> {
        let Some(batches) = &mut self.batches else { return Ok(None) };
        // Messages are bytes of anybody's, and what reads them takes some for granted.
        let read = AssertUnwindSafe(batches.next()).catch_unwind();
        let read = match self.shared.limits.stall {
            None => read.await,
            Some(stall) => match timeout(stall, read).await {
                Ok(read) => read,
                Err(_) => {
                    let message = format!("the statement was cancelled: no batch came for {} s", stall.as_secs_f64());
                    return Err(Fault::new(codes::QUERY_CANCELED, message));
                }
            },
        };
        match read {
            Err(_) => {
                self.batches = None;
                Err(malformed("its data are no batch of Arrow's"))
            }
            Ok(batch) => batch.transpose().map_err(|error| match error {
                FlightError::Tonic(status) => malformed(status.message()),
                other => malformed(&other.to_string()),
            }),
        }
    }

    /// The columns, once the first batch was asked for.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.batches.as_ref()?.schema()
    }
}

/// What is asked of a table.
struct Wanted {
    table: TableName,
    is_temporary: bool,
    if_there: TableExistsOption,
    if_not: TableNotExistOption,
}

/// Ingests batches into a table: how many rows.
///
/// # Errors
/// A table that is there, or is not, other than was asked for; columns that it has not; values that do not fit.
pub async fn ingest(
    asked: CommandStatementIngest,
    mut rows: Incoming,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<i64, Fault> {
    // Clients of ADBC name no transaction, and mean the one that there is.
    let open = caller.transaction.lock().as_ref().map(|open| open.id.clone());
    let transaction = asked.transaction_id.as_deref().filter(|id| !id.is_empty()).or(open.as_deref());
    may_run(&Kind::Other("ingest".into()), transaction, caller)?;
    let wanted = Arc::new(wanted(asked)?);
    let together = Together::begin(caller, shared).await?;
    let all = async {
        let mut next = rows.next().await?;
        let schema = rows.schema().cloned().ok_or_else(|| malformed("there are no columns to ingest"))?;
        let (of, columns) = (Arc::clone(&wanted), Arc::clone(&schema));
        let table = blocking(&caller.session, shared, move |session| make(session, &of, &columns)).await?;
        let table = Arc::new(table);
        let names: Arc<Vec<String>> = Arc::new(schema.fields().iter().map(|field| field.name().clone()).collect());
        let mut written: u64 = 0;
        while let Some(batch) = next {
            let mut collected = vec![plain(&batch)?];
            let (mut bytes, mut count) = (batch.get_array_memory_size(), batch.num_rows());
            next = rows.next().await?;
            while let Some(batch) = next.take_if(|_| bytes < COLLECTED_BYTES && count < COLLECTED_ROWS) {
                bytes += batch.get_array_memory_size();
                count += batch.num_rows();
                collected.push(plain(&batch)?);
                next = rows.next().await?;
            }
            let (of, names) = (Arc::clone(&table), Arc::clone(&names));
            written +=
                blocking(&caller.session, shared, move |session| Ok(session.append(&of, &names, &collected)?)).await?;
        }
        Ok(i64::try_from(written).unwrap_or(i64::MAX))
    };
    let done = all.await;
    together.end(done, shared).await
}

fn wanted(asked: CommandStatementIngest) -> Result<Wanted, Fault> {
    if asked.catalog.as_deref().is_some_and(|catalog| !catalog.is_empty() && catalog != DATABASE_NAME) {
        let catalog = asked.catalog.unwrap_or_default();
        return Err(unsupported(format!("tables are those of the database \"{DATABASE_NAME}\", not of \"{catalog}\"")));
    }
    if let Some(name) = asked.options.keys().next() {
        return Err(unsupported(format!("the option '{name}' of an ingestion is not supported")));
    }
    let options = asked.table_definition_options.unwrap_or_default();
    let wrong = || malformed("what is to be done with the table is not said as the protocol has it");
    let if_there = TableExistsOption::try_from(options.if_exists).map_err(|_| wrong())?;
    let if_not = TableNotExistOption::try_from(options.if_not_exist).map_err(|_| wrong())?;
    let schema = asked.schema.filter(|schema| !schema.is_empty());
    if asked.temporary && schema.is_some() {
        return Err(Fault::new("42P16", "cannot create temporary relation in non-temporary schema"));
    }
    Ok(Wanted { table: TableName { schema, table: asked.table }, is_temporary: asked.temporary, if_there, if_not })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn written(table: &TableName) -> String {
    let schema = table.schema.as_deref().map_or_else(String::new, |schema| format!("{}.", quoted(schema)));
    format!("{schema}{}", quoted(&table.table))
}

/// The schema in which a table of that name is found; `None` where there is none. A transaction has not failed by that.
fn schema_of(session: &Session, wanted: &Wanted) -> Result<Option<String>, Fault> {
    let name = format!("'{}'", written(&wanted.table).replace('\'', "''"));
    let sql = format!(
        "SELECT n.nspname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.oid = to_regclass({name})::oid"
    );
    for batch in session.query(&sql)? {
        let batch = batch?;
        if batch.num_rows() > 0 {
            let found = text_at(&batch, 0, 0);
            // What hides behind a temporary one of that name is another table.
            return Ok((!wanted.is_temporary || found.starts_with("pg_temp")).then_some(found));
        }
    }
    Ok(None)
}

/// Has the table there be as it was asked for, and tells which one it is.
fn make(session: &Session, wanted: &Wanted, columns: &Schema) -> Result<TableName, Fault> {
    let shown = &wanted.table.table;
    let found = schema_of(session, wanted)?.map(|schema| TableName { schema: Some(schema), table: shown.clone() });
    match (found, wanted.if_there, wanted.if_not) {
        (Some(found), TableExistsOption::Append, _) => return Ok(found),
        (Some(found), TableExistsOption::Replace, _) => {
            session.run(&format!("DROP TABLE {}", written(&found)))?;
        }
        (Some(_), TableExistsOption::Fail | TableExistsOption::Unspecified, _) => {
            return Err(Fault::new("42P07", format!("relation \"{shown}\" already exists")));
        }
        (None, _, TableNotExistOption::Create) => {}
        (None, _, TableNotExistOption::Fail | TableNotExistOption::Unspecified) => {
            return Err(Fault::new("42P01", format!("relation \"{shown}\" does not exist")));
        }
    }
    let column = |field: &arrow::datatypes::FieldRef| {
        let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
        Ok(format!("{} {}{not_null}", quoted(field.name()), type_of(field.name(), field.data_type())?))
    };
    let columns = columns.fields().iter().map(column).collect::<Result<Vec<_>, Fault>>()?.join(", ");
    let kind = if wanted.is_temporary { "TEMPORARY TABLE" } else { "TABLE" };
    session.run(&format!("CREATE {kind} {} ({columns})", written(&wanted.table)))?;
    let gone = || Fault::new("42P01", format!("relation \"{shown}\" does not exist"));
    let schema = schema_of(session, wanted)?.ok_or_else(gone)?;
    Ok(TableName { schema: Some(schema), table: shown.clone() })
}

/// SQL's type for a column of these values.
fn type_of(column: &str, given: &DataType) -> Result<String, Fault> {
    match given {
        // All of them are NULL.
        DataType::Null => Ok("TEXT".into()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok("TEXT".into()),
        DataType::Float64 => Ok("DOUBLE PRECISION".into()),
        DataType::Dictionary(_, values) => type_of(column, values),
        DataType::RunEndEncoded(_, values) => type_of(column, values.data_type()),
        DataType::Duration(_) | DataType::Map(..) | DataType::Union(..) => {
            let message = format!("column \"{column}\" is of the type {given}, for which there is no type of SQL");
            Err(unsupported(message))
        }
        other => Ok(sql_type(other)),
    }
}

/// The batch without dictionaries and runs.
fn plain(batch: &RecordBatch) -> Result<RecordBatch, Fault> {
    let is_packed = |of: &DataType| matches!(of, DataType::Dictionary(..) | DataType::RunEndEncoded(..));
    if !batch.schema_ref().fields().iter().any(|field| is_packed(field.data_type())) {
        return Ok(batch.clone());
    }
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let to = match field.data_type() {
            DataType::Dictionary(_, values) => values.as_ref(),
            DataType::RunEndEncoded(_, values) => values.data_type(),
            other => other,
        };
        columns.push(arrow::compute::cast(column, to).map_err(|error| malformed(&error.to_string()))?);
        fields.push(field.as_ref().clone().with_data_type(to.clone()));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| malformed(&error.to_string()))
}
