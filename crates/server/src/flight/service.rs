//! Which call is what.

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    ActionBeginSavepointResult, ActionBeginTransactionResult, ActionCancelQueryResult, Any, Command,
    DoPutPreparedStatementResult, DoPutUpdateResult, ProstMessageExt,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, Criteria, Empty, FlightData,
    FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use prost::Message;
use tokio::sync::watch;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status, Streaming};

use super::ingest::{Incoming, ingest};
use super::sessions::{Caller, Line, Sessions};
use super::status::{malformed, unsupported};
use super::{catalog, prepared, statements, transactions};
use crate::fault::{Fault, codes};
use crate::shared::{Shared, Stop};

/// Actions that there are.
const ACTIONS: [(&str, &str); 9] = [
    ("CreatePreparedStatement", "Prepares a statement."),
    ("ClosePreparedStatement", "Forgets a prepared statement."),
    ("BeginTransaction", "Begins a transaction, one at a time of a session."),
    ("EndTransaction", "Commits a transaction, or rolls it back."),
    ("BeginSavepoint", "Makes a savepoint in a transaction."),
    ("EndSavepoint", "Releases a savepoint, or goes back to it."),
    ("CancelFlightInfo", "Cancels the statement of a FlightInfo."),
    ("CancelQuery", "Cancels the statement of a FlightInfo, as older clients ask for it."),
    ("CloseSession", "Ends the session of the token."),
];

/// The calls of a connection.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
    sessions: Arc<Sessions>,
    line: Arc<Line>,
    stop: watch::Receiver<Stop>,
}

type Answered<T> = Result<Response<T>, Status>;
type Many<T> = BoxStream<'static, Result<T, Status>>;

impl Service {
    /// Of a connection.
    pub fn new(shared: Arc<Shared>, sessions: Arc<Sessions>, line: Arc<Line>, stop: watch::Receiver<Stop>) -> Service {
        Service { shared, sessions, line, stop }
    }

    async fn caller(&self, beside: &MetadataMap) -> Result<Arc<Caller>, Fault> {
        let authorization = authorization(beside)?;
        let caller = self.sessions.caller(authorization.as_deref(), &self.line, &self.shared).await?;
        let ends = *self.stop.borrow() != Stop::Never;
        match ends && caller.session.transaction().is_none() {
            true => Err(Fault::new(codes::ADMIN_SHUTDOWN, "the server ends, and begins nothing any more")),
            false => Ok(caller),
        }
    }

    async fn info(&self, request: Request<FlightDescriptor>) -> Result<FlightInfo, Fault> {
        let caller = self.caller(request.metadata()).await?;
        let descriptor = request.into_inner();
        let shared = &self.shared;
        match command(&descriptor.cmd)? {
            Command::CommandStatementQuery(asked) => statements::query(asked, descriptor, &caller, shared).await,
            Command::CommandPreparedStatementQuery(asked) => {
                prepared::query(&asked.prepared_statement_handle, descriptor, &caller, shared).await
            }
            other => {
                let schema = catalog::schema(&other).ok_or_else(|| none(other.type_url(), "GetFlightInfo"))?;
                statements::info(&schema, other.into_any(), descriptor)
            }
        }
    }

    async fn schema(&self, request: Request<FlightDescriptor>) -> Result<SchemaResult, Fault> {
        let caller = self.caller(request.metadata()).await?;
        let schema = match command(&request.get_ref().cmd)? {
            Command::CommandStatementQuery(asked) => statements::columns(asked, &caller, &self.shared).await?,
            Command::CommandPreparedStatementQuery(asked) => {
                prepared::columns_of(&asked.prepared_statement_handle, &caller, &self.shared).await?
            }
            other => catalog::schema(&other).ok_or_else(|| none(other.type_url(), "GetSchema"))?,
        };
        Ok(SchemaResult { schema: prepared::message_of(&schema)? })
    }

    async fn get(&self, request: Request<Ticket>) -> Result<statements::Sent, Fault> {
        let caller = self.caller(request.metadata()).await?;
        match command(&request.get_ref().ticket)? {
            Command::TicketStatementQuery(asked) => statements::send(&asked.statement_handle, &caller),
            other => match catalog::schema(&other) {
                Some(schema) => {
                    let batch = catalog::rows(other, &caller, &self.shared).await?;
                    Ok(statements::encoded(schema, stream::once(async { Ok(batch) })))
                }
                None => Err(none(other.type_url(), "DoGet")),
            },
        }
    }

    async fn put(&self, request: Request<Streaming<FlightData>>) -> Result<PutResult, Fault> {
        let caller = self.caller(request.metadata()).await?;
        let mut messages = request.into_inner();
        let first = messages.message().await.map_err(|status| malformed(status.message()))?;
        let first = first.ok_or_else(|| malformed("there is no message that says what is put"))?;
        let descriptor = first.flight_descriptor.clone();
        let descriptor = descriptor.ok_or_else(|| malformed("the first message does not say what is put"))?;
        let rows = Incoming::new(first, messages, &self.shared);
        let shared = &self.shared;
        let written = match command(&descriptor.cmd)? {
            Command::CommandStatementUpdate(asked) => statements::update(asked, &caller, shared).await?,
            Command::CommandStatementIngest(asked) => ingest(asked, rows, &caller, shared).await?,
            Command::CommandPreparedStatementUpdate(asked) => {
                prepared::update(&asked.prepared_statement_handle, rows, &caller, shared).await?
            }
            Command::CommandPreparedStatementQuery(asked) => {
                let handle = asked.prepared_statement_handle;
                prepared::bind(&handle, rows, &caller, shared).await?;
                let bound = DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) };
                return Ok(PutResult { app_metadata: bound.encode_to_vec().into() });
            }
            other => return Err(none(other.type_url(), "DoPut")),
        };
        Ok(PutResult { app_metadata: DoPutUpdateResult { record_count: written }.encode_to_vec().into() })
    }

    async fn action(&self, request: Request<Action>) -> Result<Option<bytes::Bytes>, Fault> {
        let authorization = authorization(request.metadata())?;
        let caller = self.caller(request.metadata()).await?;
        let Action { r#type: name, body } = request.into_inner();
        let shared = &self.shared;
        match name.as_str() {
            "CancelFlightInfo" => {
                let asked = CancelFlightInfoRequest::decode(body).map_err(unread)?;
                let was_there = cancelled(&asked.info.unwrap_or_default(), &caller);
                let status = if was_there { CancelStatus::Cancelled } else { CancelStatus::NotCancellable };
                return Ok(Some(CancelFlightInfoResult::new(status).encode_to_vec().into()));
            }
            "CloseSession" => {
                self.sessions.close(authorization.as_deref(), &self.line);
                // CloseSessionResult with the status CLOSED.
                return Ok(Some(bytes::Bytes::from_static(&[8, 1])));
            }
            known if ACTIONS.iter().any(|(name, _)| *name == known) => {}
            other => {
                let other: String = other.chars().take(100).collect();
                return Err(unsupported(format!("there is no action '{}' here", other.escape_default())));
            }
        }
        let command = command(&body)?;
        let is_it = command.type_url().rsplit('.').next().is_some_and(|of| of == format!("Action{name}Request"));
        if !is_it {
            return Err(malformed(&format!("the body of {name} is of another kind")));
        }
        match command {
            Command::ActionCreatePreparedStatementRequest(asked) => {
                let made = prepared::create(asked, &caller, shared).await?;
                Ok(Some(packed(&made)))
            }
            Command::ActionClosePreparedStatementRequest(asked) => {
                caller.statements.lock().remove(&*asked.prepared_statement_handle);
                Ok(None)
            }
            Command::ActionBeginTransactionRequest(_) => {
                let id = transactions::begin(&caller, shared).await?;
                Ok(Some(packed(&ActionBeginTransactionResult { transaction_id: id.into() })))
            }
            Command::ActionEndTransactionRequest(asked) => {
                transactions::end(asked, &caller, shared).await?;
                Ok(None)
            }
            Command::ActionBeginSavepointRequest(asked) => {
                let id = transactions::begin_savepoint(asked, &caller, shared).await?;
                Ok(Some(packed(&ActionBeginSavepointResult { savepoint_id: id.into() })))
            }
            Command::ActionEndSavepointRequest(asked) => {
                transactions::end_savepoint(asked, &caller, shared).await?;
                Ok(None)
            }
            Command::ActionCancelQueryRequest(asked) => {
                let info = FlightInfo::decode(asked.info).map_err(unread)?;
                let was_there = cancelled(&info, &caller);
                // Its numbers are those of the status of CancelFlightInfo.
                let result = if was_there { CancelStatus::Cancelled } else { CancelStatus::NotCancellable };
                Ok(Some(packed(&ActionCancelQueryResult { result: result.into() })))
            }
            other => Err(none(other.type_url(), "DoAction")),
        }
    }
}

fn cancelled(info: &FlightInfo, caller: &Caller) -> bool {
    let tickets = info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref());
    tickets.fold(false, |was_there, ticket| statements::cancel(ticket, caller) | was_there)
}

fn packed(message: &impl ProstMessageExt) -> bytes::Bytes {
    message.as_any().encode_to_vec().into()
}

fn unread(error: prost::DecodeError) -> Fault {
    malformed(&error.to_string())
}

/// What a call asks for.
fn command(bytes: &[u8]) -> Result<Command, Fault> {
    let any = Any::decode(bytes).map_err(unread)?;
    Command::try_from(any).map_err(|error| malformed(&error.to_string()))
}

/// What there is not.
fn none(url: &str, call: &str) -> Fault {
    let name: String = url.rsplit(['.', '/']).next().unwrap_or_default().chars().take(100).collect();
    let name = name.escape_default();
    match name.to_string().contains("Substrait") {
        true => unsupported("plans of Substrait are not run here; send the statement as SQL"),
        false => unsupported(format!("{call} of '{name}' is not supported")),
    }
}

/// What a call says of who calls.
fn authorization(beside: &MetadataMap) -> Result<Option<String>, Fault> {
    let mut all = beside.get_all("authorization").iter();
    let Some(value) = all.next() else { return Ok(None) };
    match (value.to_str(), all.next()) {
        (Ok(value), None) => Ok(Some(value.to_string())),
        _ => Err(Fault::new(codes::INVALID_PASSWORD, "the authorization of the call is not read; say it once")),
    }
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Many<HandshakeResponse>;
    type ListFlightsStream = Many<FlightInfo>;
    type DoGetStream = Many<FlightData>;
    type DoPutStream = Many<PutResult>;
    type DoActionStream = Many<arrow_flight::Result>;
    type ListActionsStream = Many<ActionType>;
    type DoExchangeStream = Many<FlightData>;

    async fn handshake(&self, request: Request<Streaming<HandshakeRequest>>) -> Answered<Self::HandshakeStream> {
        let authorization = authorization(request.metadata())?;
        let token = self.sessions.login(authorization.as_deref(), &self.line, &self.shared).await?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into() };
        let mut response = Response::new(stream::once(async { Ok(answer) }).boxed());
        let value = MetadataValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Fault::new(codes::INTERNAL_ERROR, "a token that is no head"))?;
        response.metadata_mut().insert("authorization", value);
        Ok(response)
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answered<Self::ListFlightsStream> {
        self.caller(request.metadata()).await?;
        Err(unsupported("there is no list of flights: ask for tables with CommandGetTables").into())
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answered<FlightInfo> {
        Ok(Response::new(self.info(request).boxed().await?))
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answered<PollInfo> {
        // What there is to be told is there at once: rows come as they are computed.
        let info = self.info(request).boxed().await?;
        Ok(Response::new(PollInfo::new().with_info(info)))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answered<SchemaResult> {
        Ok(Response::new(self.schema(request).boxed().await?))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answered<Self::DoGetStream> {
        Ok(Response::new(self.get(request).boxed().await?))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answered<Self::DoPutStream> {
        let put = self.put(request).boxed().await?;
        Ok(Response::new(stream::once(async { Ok(put) }).boxed()))
    }

    async fn do_action(&self, request: Request<Action>) -> Answered<Self::DoActionStream> {
        let body = self.action(request).boxed().await?;
        Ok(Response::new(stream::iter(body.map(|body| Ok(arrow_flight::Result { body }))).boxed()))
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answered<Self::ListActionsStream> {
        self.caller(request.metadata()).await?;
        let all = ACTIONS.map(|(name, what)| Ok(ActionType { r#type: name.into(), description: what.into() }));
        Ok(Response::new(stream::iter(all).boxed()))
    }

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Answered<Self::DoExchangeStream> {
        self.caller(request.metadata()).await?;
        Err(unsupported("DoExchange is not supported: put batches into a table, and query it").into())
    }
}
