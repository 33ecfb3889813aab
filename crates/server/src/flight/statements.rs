//! Statements by their texts: run when they are told of, their rows sent when they are asked for.
//!
//! A statement runs once, when its FlightInfo is asked for, as the protocol has it: so the columns are those of its
//! rows, and one that writes is done whether or not somebody takes its empty result. Rows are computed as they are
//! asked for, by the window that `exec` has.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{Any, CommandStatementQuery, CommandStatementUpdate, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use nearside::Outcome;
use prost::Message;
use tonic::Status;

use super::pieces::pieces;
use super::sessions::{Caller, Handle, Held};
use super::status::unsupported;
use super::transactions::may_run;
use crate::blocking::blocking;
use crate::fault::{Fault, codes};
use crate::outgoing::{Ender, Outgoing};
use crate::shared::Shared;
use crate::statement::Kind;
use crate::traces::Trace;

/// How spans of statements call where they come from.
pub const DOOR: &str = "Flight";

/// What is sent of rows.
pub type Sent = BoxStream<'static, Result<FlightData, Status>>;

/// Runs a query, or any statement, and tells where its rows are.
///
/// # Errors
/// What is wrong with it.
pub async fn query(
    asked: CommandStatementQuery,
    descriptor: FlightDescriptor,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<FlightInfo, Fault> {
    let mut trace = shared.trace(&asked.query, &caller.session, DOOR);
    let outcome = trace.watch(run(asked.query, asked.transaction_id.as_deref(), caller, shared).await)?;
    told((outcome, trace), descriptor, caller, shared)
}

/// Runs a statement that is not asked for its rows: how many it wrote, -1 where it does not say.
///
/// # Errors
/// What is wrong with it.
pub async fn update(asked: CommandStatementUpdate, caller: &Arc<Caller>, shared: &Arc<Shared>) -> Result<i64, Fault> {
    let mut trace = shared.trace(&asked.query, &caller.session, DOOR);
    let outcome = trace.watch(run(asked.query, asked.transaction_id.as_deref(), caller, shared).await)?;
    count((outcome, trace), shared).await
}

/// The columns of a statement, which is not run.
///
/// # Errors
/// What is wrong with it; a statement whose columns only who runs it sees.
pub async fn columns(
    asked: CommandStatementQuery,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<SchemaRef, Fault> {
    let kind = usable(&asked.query)?;
    may_run(&kind, asked.transaction_id.as_deref(), caller)?;
    let sql = asked.query;
    blocking(&caller.session, shared, move |session| match kind {
        Kind::Query => {
            let columns = session.prepare_as(&sql, &[])?.columns()?;
            Ok(columns.unwrap_or_else(|| Arc::new(Schema::empty())))
        }
        _ => Err(unsupported("the columns of this statement are seen by who runs it: ask for its FlightInfo")),
    })
    .await
}

async fn run(
    sql: String,
    transaction: Option<&[u8]>,
    caller: &Arc<Caller>,
    shared: &Arc<Shared>,
) -> Result<Outcome, Fault> {
    let kind = usable(&sql)?;
    may_run(&kind, transaction, caller)?;
    let _gate = caller.gate.read().await;
    blocking(&caller.session, shared, move |session| Ok(session.run(&sql)?)).await
}

/// The kind of a text that is one statement which goes over this protocol.
///
/// # Errors
/// It is none.
pub fn usable(sql: &str) -> Result<Kind, Fault> {
    match Kind::of(sql)? {
        Kind::Empty => Err(Fault::new(codes::SYNTAX_ERROR, "there is no statement in the text")),
        Kind::Copy(_) => Err(unsupported(
            "COPY with the client does not go over Flight: send the query itself for its rows, and ingest batches \
             (CommandStatementIngest) into a table",
        )),
        kind => Ok(kind),
    }
}

/// What a client is told of a statement that has run.
///
/// # Errors
/// There are too many results whose rows nobody takes.
pub fn told(
    (outcome, mut trace): (Outcome, Trace),
    descriptor: FlightDescriptor,
    caller: &Caller,
    shared: &Shared,
) -> Result<FlightInfo, Fault> {
    let (schema, rows, handle) = match outcome {
        Outcome::Done(done) => {
            trace.rows(done.rows.unwrap_or(0));
            (Arc::new(Schema::empty()), number(done.rows), Handle::new())
        }
        Outcome::Rows(rows) => {
            let written = number(rows.written().and_then(|done| done.rows));
            let schema = Arc::clone(rows.schema());
            (schema, written, caller.hold(Outgoing::new(rows, shared.limits.stall, trace))?)
        }
    };
    let ticket = TicketStatementQuery { statement_handle: handle.into() };
    info(&schema, ticket.as_any(), descriptor).map(|info| info.with_total_records(rows))
}

fn number(rows: Option<u64>) -> i64 {
    rows.and_then(|rows| i64::try_from(rows).ok()).unwrap_or(-1)
}

/// Where rows of these columns are.
///
/// # Errors
/// None that columns have.
pub fn info(schema: &Schema, ticket: Any, descriptor: FlightDescriptor) -> Result<FlightInfo, Fault> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket.encode_to_vec()));
    let info = FlightInfo::new().try_with_schema(schema).map_err(unsendable)?;
    Ok(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true))
}

/// What Arrow's messages cannot hold.
pub fn unsendable(error: impl std::fmt::Display) -> Fault {
    unsupported(error.to_string())
}

/// How many rows a statement wrote; rows of one that gives some are taken, and thrown away.
///
/// # Errors
/// What goes wrong meanwhile.
pub async fn count((outcome, mut trace): (Outcome, Trace), shared: &Shared) -> Result<i64, Fault> {
    match outcome {
        Outcome::Done(done) => {
            trace.rows(done.rows.unwrap_or(0));
            Ok(number(done.rows))
        }
        Outcome::Rows(rows) => {
            let written = number(rows.written().and_then(|done| done.rows));
            let mut rows = Outgoing::new(rows, shared.limits.stall, trace);
            while rows.try_next().await?.is_some() {}
            Ok(written)
        }
    }
}

/// Sends the rows of a statement that has run.
///
/// # Errors
/// There are none of that name, or they were asked for already.
pub fn send(handle: &[u8], caller: &Arc<Caller>) -> Result<Sent, Fault> {
    if handle.is_empty() {
        return Ok(encoded(Arc::new(Schema::empty()), stream::empty()));
    }
    let gone = || {
        let message = "there are no rows of this ticket: they are taken once, by the session that has run the \
                       statement, and in time";
        Fault::new(codes::INVALID_CURSOR_NAME, message)
    };
    let mut all = caller.results.lock();
    let held = all.get_mut(handle).ok_or_else(gone)?;
    let Held::Waiting(rows) = held else { return Err(gone()) };
    let ender = rows.ender();
    let schema = rows.schema();
    let Held::Waiting(rows) = std::mem::replace(held, Held::Going(ender)) else { return Err(gone()) };
    drop(all);
    let going = Going { caller: Arc::clone(caller), handle: handle.to_vec() };
    Ok(encoded(schema, rows.inspect(move |_| _ = &going)))
}

/// Holds the session while rows go, and takes their entry away at their end.
struct Going {
    caller: Arc<Caller>,
    handle: Handle,
}

impl Drop for Going {
    fn drop(&mut self) {
        self.caller.results.lock().remove(&self.handle);
    }
}

/// Batches as messages.
pub fn encoded(
    schema: SchemaRef,
    batches: impl futures::Stream<Item = Result<arrow::array::RecordBatch, Fault>> + Send + 'static,
) -> Sent {
    let failed = |fault: Fault| FlightError::Tonic(Box::new(fault.into()));
    let in_pieces = batches.map(move |batch| {
        let of = batch.and_then(|batch| pieces(&batch).map_err(unsendable));
        match of {
            Ok(all) => all.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(fault) => vec![Err(failed(fault))],
        }
    });
    FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_max_flight_data_size(usize::MAX)
        .build(in_pieces.flat_map(stream::iter))
        .map_err(|error| match error {
            FlightError::Tonic(status) => *status,
            other => unsendable(other).into(),
        })
        .boxed()
}

/// Cancels the statement of a ticket. Whether there was one.
pub fn cancel(ticket: &Ticket, caller: &Caller) -> bool {
    let ticket = Any::decode(&*ticket.ticket).ok().and_then(|any| any.unpack::<TicketStatementQuery>().ok().flatten());
    let Some(ticket) = ticket else { return false };
    let ender: Option<Ender> = match caller.results.lock().get(&*ticket.statement_handle) {
        Some(Held::Waiting(rows)) => Some(rows.ender()),
        Some(Held::Going(ender)) => Some(ender.clone()),
        None => None,
    };
    ender.is_some_and(|ender| ender.end(Fault::new(codes::QUERY_CANCELED, "the statement was cancelled")))
}
