//! Prepared statements: told of, bound to rows of parameters, run.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::sql::{ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult};
use arrow_flight::{FlightDescriptor, FlightInfo, IpcMessage, SchemaAsIpc};
use nearside::{Outcome, Session};
use parking_lot::Mutex;

use super::ingest::Incoming;
use super::parameters::{Bound, columns};
use super::sessions::{Caller, Statement};
use super::statements::{DOOR, count, told, unsendable, usable};
use super::transactions::{Together, may_run, may_run_prepared};
use crate::blocking::blocking;
use crate::fault::{Fault, codes};
use crate::shared::Shared;
use crate::statement::Kind;
use crate::traces::Trace;

/// Prepares a statement, and tells what goes in and what comes out.
///
/// # Errors
/// What is wrong with it.
pub async fn create(
    asked: ActionCreatePreparedStatementRequest,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<ActionCreatePreparedStatementResult, Fault> {
    let kind = usable(&asked.query)?;
    may_run(&kind, asked.transaction_id.as_deref(), caller)?;
    let (sql, of) = (asked.query.clone(), kind.clone());
    let (prepared, rows) = blocking(&caller.session, shared, move |session| match of {
        Kind::Query => {
            let prepared = session.prepare_as(&sql, &[])?;
            let rows = prepared.columns()?;
            Ok((Some(prepared), rows))
        }
        // What is run from its text alone: who runs it sees its columns.
        _ => Ok((None, None)),
    })
    .await?;
    let parameters = columns(prepared.as_ref());
    let in_transaction = asked.transaction_id.is_some_and(|id| !id.is_empty());
    let bound = Mutex::default();
    let handle = caller.keep(Statement { sql: asked.query, kind, prepared, in_transaction, bound })?;
    Ok(ActionCreatePreparedStatementResult {
        prepared_statement_handle: handle.into(),
        dataset_schema: rows.map_or_else(|| Ok(Default::default()), |rows| message_of(&rows))?,
        parameter_schema: message_of(&parameters)?,
    })
}

/// A schema as a message.
///
/// # Errors
/// None that columns have.
pub fn message_of(schema: &Schema) -> Result<bytes::Bytes, Fault> {
    let options = IpcWriteOptions::default();
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &options).try_into().map_err(unsendable)?;
    Ok(bytes)
}

/// The columns of a prepared statement.
///
/// # Errors
/// There is none of that name; names that are gone since it was prepared.
pub async fn columns_of(handle: &[u8], caller: &Arc<Caller>, shared: &Arc<Shared>) -> Result<SchemaRef, Fault> {
    let statement = caller.statement(handle)?;
    blocking(&caller.session, shared, move |session| {
        let columns = match &statement.prepared {
            Some(prepared) => prepared.run_by(session).columns()?,
            None => None,
        };
        Ok(columns.unwrap_or_else(|| Arc::new(Schema::empty())))
    })
    .await
}

/// Binds rows of parameters, for the runs that follow.
///
/// # Errors
/// There is no statement of that name; rows that are too many bytes, or not as they should be.
pub async fn bind(handle: &[u8], mut rows: Incoming, caller: &Arc<Caller>, shared: &Arc<Shared>) -> Result<(), Fault> {
    let statement = caller.statement(handle)?;
    let mut all = Vec::new();
    let mut bytes = 0;
    while let Some(batch) = rows.next().await? {
        bytes += batch.get_array_memory_size();
        if bytes > shared.limits.message_bytes {
            let message = "the rows of parameters are too many bytes: send them with the update itself, or ingest them";
            return Err(Fault::new(codes::LIMIT_EXCEEDED, message));
        }
        all.push(batch);
    }
    *statement.bound.lock() = all;
    Ok(())
}

/// Runs a prepared statement, with the row of parameters that it is bound to, and tells where its rows are.
///
/// # Errors
/// There is none of that name; parameters that are missing, or several rows of them; what goes wrong with it.
pub async fn query(
    handle: &[u8],
    descriptor: FlightDescriptor,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<FlightInfo, Fault> {
    let outcome = run_once(handle, caller, shared).await?;
    told(outcome, descriptor, caller, shared)
}

/// Runs a prepared statement once.
///
/// # Errors
/// As [`query`].
pub async fn run_once(handle: &[u8], caller: &Arc<Caller>, shared: &Arc<Shared>) -> Result<(Outcome, Trace), Fault> {
    let statement = caller.statement(handle)?;
    may_run_prepared(&statement.kind, statement.in_transaction, caller)?;
    let bound = one_row(&statement.bound.lock())?;
    let _gate = match statement.in_transaction {
        true => None,
        false => Some(caller.gate.read().await),
    };
    let mut trace = shared.trace(&statement.sql, &caller.session, DOOR);
    let outcome = blocking(&caller.session, shared, move |session| run(&statement, bound.as_ref(), session)).await;
    Ok((trace.watch(outcome)?, trace))
}

fn one_row(bound: &[RecordBatch]) -> Result<Option<RecordBatch>, Fault> {
    let mut rows = bound.iter().filter(|batch| batch.num_rows() > 0);
    match (rows.next(), rows.next()) {
        (None, _) => Ok(None),
        (Some(batch), None) if batch.num_rows() == 1 => Ok(Some(batch.clone())),
        _ => {
            let message = "a query runs with one row of parameters at a time; several are for updates";
            Err(Fault::new(codes::FEATURE_NOT_SUPPORTED, message))
        }
    }
}

fn run(statement: &Statement, row: Option<&RecordBatch>, session: &Session) -> Result<Outcome, Fault> {
    match (row, &statement.prepared) {
        (Some(row), _) => {
            let bound = Bound::new(statement, row, session)?;
            Ok(bound.prepared().run(&bound.row(0, session)?)?)
        }
        (None, Some(prepared)) => {
            let parameters = prepared.parameter_types().len();
            if parameters > 0 {
                let message = format!("the statement has {parameters} parameters, and none are bound");
                return Err(Fault::new(codes::PROTOCOL_VIOLATION, message));
            }
            Ok(prepared.run_by(session).run(&[])?)
        }
        (None, None) => Ok(session.run(&statement.sql)?),
    }
}

/// Runs a prepared statement for its effect, once for each row of parameters that comes or that it is bound to, all of
/// that or nothing: how many rows it wrote.
///
/// # Errors
/// As [`query`].
pub async fn update(
    handle: &[u8],
    mut rows: Incoming,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<i64, Fault> {
    let statement = caller.statement(handle)?;
    may_run_prepared(&statement.kind, statement.in_transaction, caller)?;
    let mut bound = std::mem::take(&mut *statement.bound.lock()).into_iter();
    let has_parameters = statement.prepared.as_ref().is_some_and(|prepared| !prepared.parameter_types().is_empty());
    if !has_parameters {
        while rows.next().await?.is_some_and(|batch| batch.num_columns() == 0) {}
        return count(run_once(handle, caller, shared).await?, shared).await;
    }
    let together = Together::begin(caller, shared).await?;
    let mut trace = shared.trace(&statement.sql, &caller.session, DOOR);
    let all = async {
        let mut written = 0;
        let mut has_run = false;
        loop {
            let batch = match bound.next() {
                Some(batch) => batch,
                None => match rows.next().await? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            has_run |= batch.num_rows() > 0;
            let statement = Arc::clone(&statement);
            written += blocking(&caller.session, shared, move |session| run_rows(&statement, &batch, session)).await?;
        }
        match has_run || rows.schema().is_some() {
            true => Ok(written),
            false => Err(Fault::new(codes::PROTOCOL_VIOLATION, "the statement has parameters, and none are bound")),
        }
    };
    let done = trace.watch(all.await);
    let done = together.end(done, shared).await;
    if let Ok(rows) = &done {
        trace.rows(rows.unsigned_abs());
    }
    done
}

fn run_rows(statement: &Statement, rows: &RecordBatch, session: &Session) -> Result<i64, Fault> {
    let bound = Bound::new(statement, rows, session)?;
    let mut written = 0;
    for row in 0..rows.num_rows() {
        let done = match bound.prepared().run(&bound.row(row, session)?)? {
            Outcome::Done(done) => done.rows,
            Outcome::Rows(result) => {
                let done = result.written().and_then(|done| done.rows);
                for batch in result {
                    batch?;
                }
                done
            }
        };
        written += done.and_then(|rows| i64::try_from(rows).ok()).unwrap_or(0);
    }
    Ok(written)
}
