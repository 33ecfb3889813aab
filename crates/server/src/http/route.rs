//! What is where, of a server that has a database.

use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use nearside::Session;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

use super::answer::{Answer, failed, kinds, refused, whole};
use super::door::Answers;
use super::guard::kind;
use super::look::Look;
use super::metrics::{Counts, metrics};
use super::{body, entry, page, query};
use crate::blocking::panicked;
use crate::entry::Entry;
use crate::fault::{Fault, codes};
use crate::shared::{Shared, Stop};
use crate::tls::Tls;
use crate::traces::within;

/// How long what is asked of the page's own addresses may be.
const BODY_BYTES: usize = 4096;

/// A database over HTTP.
pub struct Live {
    shared: Arc<Shared>,
    stop: watch::Receiver<Stop>,
    look: Look,
    entry: Entry,
    /// Looks at views.
    session: Session,
    begun: Instant,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToCancel {
    /// Its `statement_time` in `nearside.statements`.
    statement: u64,
}

impl Live {
    /// Of what all connections share.
    pub fn new(shared: Arc<Shared>, stop: watch::Receiver<Stop>) -> Live {
        let session = shared.database.session();
        Live { shared, stop, look: Look::default(), entry: Entry::default(), session, begun: Instant::now() }
    }

    async fn metrics(&self) -> Result<String, Fault> {
        let (statements, failed) = self.shared.database.statement_counts();
        let connected = self.shared.connected.load(std::sync::atomic::Ordering::Acquire);
        let counts = Counts { statements, failed, connected, seconds: self.begun.elapsed().as_secs_f64() };
        let session = self.session.clone();
        tokio::task::spawn_blocking(move || metrics(&session, counts)).await.map_err(|_| panicked())?
    }

    async fn cancel(&self, request: Request<Incoming>) -> Result<Answer, Answer> {
        if kind(request.headers()) != kinds::JSON {
            let message = "send {\"statement\": N} as application/json";
            return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, codes::PROTOCOL_VIOLATION, message));
        }
        let text = body::text(request.into_body(), BODY_BYTES).await?;
        let of: ToCancel = serde_json::from_str(&text).map_err(|error| {
            let message = format!("the body is not as it should be: {error}");
            refused(StatusCode::BAD_REQUEST, codes::INVALID_PARAMETER_VALUE, message)
        })?;
        let was_running = self.shared.database.cancel_statement(of.statement);
        Ok(whole(StatusCode::OK, kinds::JSON, json!({ "cancelled": was_running }).to_string()))
    }
}

impl Answers for Live {
    fn tls(&self) -> Option<Arc<Tls>> {
        self.shared.tls.read().clone()
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_string();
        let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
        let is_post = *request.method() == Method::POST;
        // Whether it works a server says to everybody.
        let session = match path.as_str() {
            "/health" | "/ready" => self.session.clone(),
            _ => match entry::session(&self.entry, &request, &self.session, &self.shared).await {
                Ok(session) => session,
                Err(answer) => return *answer,
            },
        };
        match path.as_str() {
            "/query" if is_post && self.shared.traces.is_some() => {
                let heads = request.headers().clone();
                within(&heads, query::query(session, &self.shared, request)).await
            }
            "/query" if is_post => query::query(session, &self.shared, request).await,
            "/api/cancel" if is_post && !session.cancels_others() => not_allowed("pg_signal_backend"),
            "/metrics" | "/api/state" if is_reading && !session.sees_others() => not_allowed("pg_read_all_stats"),
            "/api/cancel" if is_post => self.cancel(request).await.unwrap_or_else(|refused| refused),
            "/query" | "/api/cancel" => only("POST"),
            _ if !is_reading => match is_known(&path) {
                true => only("GET"),
                false => unknown(&path),
            },
            "/health" => whole(StatusCode::OK, kinds::TEXT, "ok\n"),
            "/ready" => match *self.stop.borrow() {
                Stop::Never => whole(StatusCode::OK, kinds::TEXT, "ready\n"),
                _ => whole(StatusCode::SERVICE_UNAVAILABLE, kinds::TEXT, "the server ends\n"),
            },
            "/metrics" => match self.metrics().await {
                Ok(text) => whole(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text),
                Err(fault) => failed(&fault, None),
            },
            "/api/run" => whole(StatusCode::OK, kinds::JSON, json!({ "live": true }).to_string()),
            "/api/state" => {
                let (seconds, counts) = (self.begun.elapsed().as_secs_f64(), self.shared.database.statement_counts());
                match self.look.state(self.session.clone(), seconds, counts).await {
                    Ok(state) => whole(StatusCode::OK, kinds::JSON, state),
                    Err(fault) => failed(&fault, None),
                }
            }
            _ => page::file(&path).unwrap_or_else(|| unknown(&path)),
        }
    }
}

fn is_known(path: &str) -> bool {
    ["/health", "/ready", "/metrics", "/api/run", "/api/state"].contains(&path) || page::file(path).is_some()
}

/// Who asks may not.
fn not_allowed(role: &str) -> Answer {
    let message = format!("permission denied: must be superuser or a member of {role}");
    refused(StatusCode::FORBIDDEN, codes::INSUFFICIENT_PRIVILEGE, message)
}

/// There is nothing there.
pub fn unknown(path: &str) -> Answer {
    let message = format!(
        "there is nothing at '{}'; there are /, /query, /health, /ready, /metrics and /api/state",
        path.chars().take(100).collect::<String>().escape_default()
    );
    refused(StatusCode::NOT_FOUND, codes::UNDEFINED_OBJECT, message)
}

/// It is asked for by another method.
pub fn only(method: &'static str) -> Answer {
    let mut answer = refused(
        StatusCode::METHOD_NOT_ALLOWED,
        codes::FEATURE_NOT_SUPPORTED,
        format!("this address is asked for with {method}"),
    );
    answer.headers_mut().insert(hyper::header::ALLOW, hyper::header::HeaderValue::from_static(method));
    answer
}
