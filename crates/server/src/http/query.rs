//! `POST /query`: one statement, in a session of its own, and its rows as they are computed.
//!
//! Invariants: the rows of a statement are asked for by its body alone, so a reader that takes none holds it back, and
//! one that goes away ends it; a statement that is over before its head was sent is told with a status of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use nearside::arrow::datatypes::DataType;
use nearside::{Done, Outcome, ResultStream, ScalarValue, Session};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::answer::{Answer, failed, refused, streamed, whole};
use super::body;
use super::guard::kind;
use super::rows::{Form, Writes};
use super::spans;
use crate::blocking::blocking;
use crate::connection::zone;
use crate::fault::{Fault, codes};
use crate::outgoing::Outgoing;
use crate::shared::Shared;
use crate::statement::Kind;
use crate::traces::Trace;

/// How long a statement's text with its parameters may be.
const BODY_BYTES: usize = 16 << 20;
/// Rows that are written at a time.
const PIECE_ROWS: usize = 4096;
/// What a statement that gives no rows has done, where the form has no place for it.
const COMMAND: HeaderName = HeaderName::from_static("nearside-command");

/// What a body in JSON says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    sql: String,
    parameters: Option<Vec<IgnoredAny>>,
    /// After which time the statement fails.
    timeout_ms: Option<u32>,
}

/// What is asked.
#[derive(Debug)]
struct Asked {
    sql: String,
    /// As they stand in the body: numbers have the digits that were sent.
    parameters: Vec<String>,
    timeout_ms: Option<u32>,
}

/// Answers a request for `/query`.
pub async fn query(session: Session, shared: &Arc<Shared>, request: Request<Incoming>) -> Answer {
    let form = match form(&request) {
        Ok(form) => form,
        Err(answer) => return *answer,
    };
    let kind = kind(request.headers());
    let is_json = kind == "application/json";
    if !is_json && kind != "application/sql" {
        let message = "send the statement as application/sql, or as application/json like {\"sql\": \"SELECT $1\", \
                       \"parameters\": [1]}, and say so in Content-Type";
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::PROTOCOL_VIOLATION, message);
    }
    let text = match body::text(request.into_body(), BODY_BYTES.min(shared.limits.message_bytes)).await {
        Ok(text) => text,
        Err(answer) => return answer,
    };
    let asked = match is_json {
        false => Asked { sql: text, parameters: Vec::new(), timeout_ms: None },
        true => match serde_json::from_str::<Body>(&text) {
            Ok(body) => {
                let parameters = body.parameters.map_or_else(Vec::new, |_| spans::of(&text, "parameters"));
                Asked { sql: body.sql, parameters, timeout_ms: body.timeout_ms }
            }
            Err(error) => {
                let message = format!("the body is not as it should be: {error}");
                return refused(StatusCode::BAD_REQUEST, codes::INVALID_PARAMETER_VALUE, message);
            }
        },
    };
    let sql = asked.sql.clone();
    match run(session, shared, asked, form).await {
        Ok(answer) => answer,
        Err(fault) => failed(&fault, Some(&sql)),
    }
}

/// The form that rows are wanted in.
fn form(request: &Request<Incoming>) -> Result<Form, Box<Answer>> {
    if let Some(query) = request.uri().query() {
        return query.strip_prefix("format=").and_then(Form::named).ok_or_else(|| {
            let message = "what stands behind ? is format=json, csv, arrow or parquet";
            Box::new(refused(StatusCode::BAD_REQUEST, codes::INVALID_PARAMETER_VALUE, message))
        });
    }
    let accept: Vec<&str> = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    Form::accepted(&accept.join(",")).ok_or_else(|| {
        let message = "rows come as application/json, text/csv, application/vnd.apache.arrow.stream or \
                       application/vnd.apache.parquet";
        Box::new(refused(StatusCode::NOT_ACCEPTABLE, codes::FEATURE_NOT_SUPPORTED, message))
    })
}

async fn run(session: Session, shared: &Arc<Shared>, asked: Asked, form: Form) -> Result<Answer, Fault> {
    let kind = Kind::of(&asked.sql)?;
    is_for_one_request(&kind)?;
    let of = kind.clone();
    let mut trace = shared.trace(&asked.sql, &session, "HTTP");
    let outcome = trace.watch(blocking(&session, shared, move |session| start(session, &asked, &of)).await)?;
    match outcome {
        Outcome::Done(done) => {
            trace.rows(done.rows.unwrap_or(0));
            done_as(form, &kind, &done)
        }
        Outcome::Rows(rows) => send(session, (rows, trace), form, kind, shared.limits.stall).await,
    }
}

/// A request is a session: what only means something to the next statement is refused.
fn is_for_one_request(kind: &Kind) -> Result<(), Fault> {
    let refused = |message: &str| Err(Fault::new(codes::FEATURE_NOT_SUPPORTED, message));
    match kind {
        Kind::Empty => Err(Fault::new(codes::SYNTAX_ERROR, "there is no statement in the text")),
        Kind::Begin { .. } | Kind::Commit | Kind::Rollback | Kind::EndAndChain { .. } | Kind::RollbackTo => refused(
            "a transaction does not last over several requests: each statement commits by itself; use PostgreSQL's \
             protocol for transactions",
        ),
        Kind::Copy(_) => refused(
            "COPY with the client is not supported over HTTP: send the query itself for its rows, and use \
             PostgreSQL's protocol for COPY FROM STDIN",
        ),
        _ => Ok(()),
    }
}

fn start(session: &Session, asked: &Asked, kind: &Kind) -> Result<Outcome, Fault> {
    if let Some(timeout) = asked.timeout_ms {
        session.run(&format!("SET nearside.statement_timeout_ms = {timeout}"))?;
    }
    if asked.parameters.is_empty() {
        return Ok(session.run(&asked.sql)?);
    }
    if !matches!(kind, Kind::Query) {
        let message = "parameters are for SELECT, INSERT, UPDATE and DELETE; write the values into this statement";
        return Err(Fault::new(codes::FEATURE_NOT_SUPPORTED, message));
    }
    let prepared = session.prepare_as(&asked.sql, &[])?;
    let types = prepared.parameter_types();
    if types.len() != asked.parameters.len() {
        let message = format!("the statement has {} parameters, not {}", types.len(), asked.parameters.len());
        return Err(Fault::new(codes::PROTOCOL_VIOLATION, message));
    }
    let value = |(of, given): (&Option<DataType>, &String)| {
        parameter(session, of.as_ref().unwrap_or(&DataType::Utf8View), given)
    };
    let values = types.iter().zip(&asked.parameters).map(value).collect::<Result<Vec<_>, Fault>>()?;
    Ok(prepared.run(&values)?)
}

/// A parameter's value: a text is read as SQL reads one of its type, and so are the digits of a number.
fn parameter(session: &Session, to: &DataType, given: &str) -> Result<ScalarValue, Fault> {
    let wrong = |error: String| Fault::new(codes::INVALID_PARAMETER_VALUE, error);
    if given == "null" {
        return ScalarValue::try_from(to).map_err(|error| wrong(error.to_string()));
    }
    match given.starts_with('"') {
        true => {
            let text: String = serde_json::from_str(given).map_err(|error| wrong(error.to_string()))?;
            Ok(session.value_of(&text, to)?)
        }
        false => Ok(session.value_of(given, to)?),
    }
}

/// What a statement without rows has done.
fn done_as(form: Form, kind: &Kind, done: &Done) -> Result<Answer, Fault> {
    let tag = kind.tag_of(done);
    if form == Form::Json {
        let body =
            serde_json::json!({ "columns": [], "rows": [], "row_count": done.rows.unwrap_or(0), "command": tag });
        return Ok(whole(StatusCode::OK, form.kind(), format!("{body}\n")));
    }
    let mut answer = whole(StatusCode::NO_CONTENT, form.kind(), Bytes::new());
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(COMMAND, tag);
    }
    Ok(answer)
}

/// Rows on their way.
struct Sending {
    rows: Outgoing,
    /// What the statement did, where its rows are those of RETURNING.
    done: Option<Done>,
    writer: Box<dyn Writes>,
    batch: Option<RecordBatch>,
    kind: Kind,
    sent: u64,
    /// The first batch was looked at.
    has_begun: bool,
    has_ended: bool,
    /// What the head wrote.
    written: Vec<u8>,
    /// Temporary tables and the like go with it.
    _session: Session,
}

async fn send(
    session: Session,
    (rows, trace): (ResultStream, Trace),
    form: Form,
    kind: Kind,
    stall: Option<Duration>,
) -> Result<Answer, Fault> {
    let rows = match form {
        Form::Json | Form::Csv => rows,
        Form::Arrow | Form::Parquet => rows.with_names_apart(),
    };
    let mut written = Vec::new();
    let writer = form.begin(rows.schema(), zone(&session), &mut written)?;
    let done = rows.written().cloned();
    let mut rows = Outgoing::new(rows, stall, trace);
    let batch = StreamExt::next(&mut rows).await.transpose()?;
    let mut sending = Sending {
        has_begun: batch.is_some(),
        rows,
        done,
        writer,
        batch,
        kind,
        sent: 0,
        has_ended: false,
        written,
        _session: session,
    };
    // What fails at once has a status of its own.
    let first = sending.piece().await.transpose()?;
    let others = stream::unfold(sending, |mut sending| async move {
        let piece = sending.next().await?;
        Some((piece, sending))
    });
    Ok(streamed(form.kind(), stream::iter(first.map(Ok)).chain(others).boxed()))
}

impl Sending {
    /// What is sent next; `None` when all was.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let piece = self.piece().await?;
        Some(piece.or_else(|fault| self.fail(&fault)))
    }

    async fn piece(&mut self) -> Option<Result<Bytes, Fault>> {
        if self.has_ended {
            return None;
        }
        if self.batch.is_none() && std::mem::replace(&mut self.has_begun, true) {
            match StreamExt::next(&mut self.rows).await.transpose() {
                Ok(batch) => self.batch = batch,
                Err(fault) => return Some(Err(fault)),
            }
        }
        let written = match self.batch.take() {
            None => {
                self.has_ended = true;
                let rows = self.sent;
                let tag = self.done.as_ref().map_or_else(|| self.kind.tag_of_rows(rows), |done| self.kind.tag_of(done));
                self.writer.end(&tag, &mut self.written)
            }
            Some(batch) => {
                let rows = batch.num_rows().min(PIECE_ROWS);
                self.sent += rows as u64;
                if rows < batch.num_rows() {
                    self.batch = Some(batch.slice(rows, batch.num_rows() - rows));
                }
                self.writer.batch(&batch.slice(0, rows), &mut self.written)
            }
        };
        Some(written.map(|()| std::mem::take(&mut self.written).into()))
    }

    fn fail(&mut self, fault: &Fault) -> io::Result<Bytes> {
        self.has_ended = true;
        match self.writer.fail(fault, &mut self.written) {
            true => Ok(std::mem::take(&mut self.written).into()),
            false => Err(io::Error::other(fault.message.clone())),
        }
    }
}
