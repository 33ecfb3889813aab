//! Traces of statements, as OpenTelemetry has them: a span for each, sent to a collector by OTLP over HTTP, as JSON.
//!
//! # Invariants
//! - Without traces nothing is made for a statement.
//! - Spans wait in a queue that has bounds, and a task of its own sends them: where the collector is slow or gone they
//!   are thrown away, and no statement waits or fails.
//!
//! # Limits
//! A batch that is not taken is not sent again. What is sent is not encrypted.

mod around;
mod message;
mod send;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nearside::Session;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::fault::Fault;
use crate::tokens::{Token, Tokens};
use around::Around;
pub use around::within;
use message::{Attribute, Finished};
use send::Collector;

/// How many spans wait to be sent at most.
const WAITING_MAX: usize = 4096;
/// What is left has so long to be sent at the end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What is traced, and where it is sent.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// The collector: `http://HOST:PORT`, with the path for spans if that is another than `/v1/traces`.
    pub endpoint: String,
    /// Which part of the statements is traced that no request says it of, from 0 to 1.
    pub ratio: f64,
    /// Heads that are sent along, by their names.
    pub headers: HashMap<String, String>,
    /// Whether spans have the texts of statements, and of errors.
    pub texts: bool,
}

/// Makes spans, and sends them.
pub struct Traces {
    /// `None` once no more are sent.
    queue: Mutex<Option<Arc<Queue>>>,
    /// Says that the last batch was sent.
    ended: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    ratio: f64,
    texts: bool,
}

/// Spans that wait to be sent.
#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<Finished>,
    /// How many were thrown away.
    lost: AtomicU64,
}

impl Traces {
    /// Traces that are sent by this runtime.
    ///
    /// # Errors
    /// An address that is none of HTTP; a part that is none; a head that is none.
    pub fn new(options: &TraceOptions, runtime: &Handle) -> io::Result<Traces> {
        let wrong = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        if !(0.0..=1.0).contains(&options.ratio) {
            return Err(wrong(format!("the part of statements that is traced is from 0 to 1, not {}", options.ratio)));
        }
        let collector = Collector::of(&options.endpoint, &options.headers).map_err(wrong)?;
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        let (end, ended) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            collector.run(waiting).await;
            // Who waits may have gone.
            let _ = end.send(());
        });
        let queue = Arc::new(Queue { sender, lost: AtomicU64::new(0) });
        let (queue, ended) = (Mutex::new(Some(queue)), Mutex::new(Some(ended)));
        Ok(Traces { queue, ended, ratio: options.ratio, texts: options.texts })
    }

    /// The span of a statement that begins.
    pub fn begun(&self, sql: &str, session: &Session, door: &'static str) -> Trace {
        let around = Around::now();
        let Some(queue) = self.queue.lock().clone() else { return Trace(None) };
        let mut random = [0; 24];
        // Without random bytes there are no names for spans.
        if getrandom::fill(&mut random).is_err() {
            return Trace(None);
        }
        let (trace_id, span_id) = random.split_at(16);
        let trace_id = around.as_ref().map_or_else(|| trace_id.to_vec(), |around| around.trace_id.to_vec());
        let is_wanted = around.as_ref().map_or_else(|| is_chosen(&trace_id, self.ratio), |around| around.is_sampled);
        if !is_wanted {
            return Trace(None);
        }
        let operation = Tokens::new(sql).find_map(|placed| match placed.token {
            Token::Word(word) => Some(word.to_uppercase()),
            _ => None,
        });
        let operation = operation.unwrap_or_else(|| "STATEMENT".into());
        let mut attributes = vec![
            Attribute::text("db.system.name", "nearside"),
            Attribute::text("db.namespace", nearside::DATABASE_NAME),
            Attribute::text("db.operation.name", &operation),
        ];
        if self.texts {
            attributes.push(Attribute::text("db.query.text", without_password(sql)));
        }
        attributes.push(Attribute::text("nearside.role", &session.user()));
        attributes.push(Attribute::number("nearside.session", session.number().into()));
        attributes.push(Attribute::text("nearside.door", door));
        if let Some(name) = session.client_setting("application_name").filter(|name| !name.is_empty()) {
            attributes.push(Attribute::text("nearside.application", &name));
        }
        let span = Finished {
            trace_id,
            span_id: span_id.to_vec(),
            around: around.map(|around| (around.span_id.to_vec(), around.state)),
            name: operation,
            began: now(),
            ended: 0,
            attributes,
            started: None,
            failure: None,
        };
        Trace(Some(Box::new(Going { span, texts: self.texts, queue })))
    }

    /// Sends what is left, and nothing more. Blocks.
    pub fn end(&self) {
        let lost = self.queue.lock().take().map_or(0, |queue| queue.lost.load(Ordering::Relaxed));
        let Some(ended) = self.ended.lock().take() else { return };
        if ended.recv_timeout(END_WITHIN).is_err() {
            tracing::warn!("traces that were left could not be sent in {} s", END_WITHIN.as_secs());
        }
        if lost > 0 {
            tracing::warn!("{lost} traces were thrown away, since the collector did not take them fast enough");
        }
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether a trace is among the part that is sent. All who are asked for one part choose the same traces, since its
/// number alone decides.
fn is_chosen(trace_id: &[u8], ratio: f64) -> bool {
    let last = trace_id.last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes) >> 1);
    ratio >= 1.0 || (last as f64) < ratio * (1_u64 << 63) as f64
}

/// The span of a statement, which ends when it is dropped; none where it is not traced.
#[derive(Debug, Default)]
pub struct Trace(Option<Box<Going>>);

#[derive(Debug)]
struct Going {
    span: Finished,
    texts: bool,
    queue: Arc<Queue>,
}

impl Trace {
    /// What came of planning a statement and beginning to run it.
    pub fn watch<T>(&mut self, done: Result<T, Fault>) -> Result<T, Fault> {
        match &done {
            Ok(_) => self.started(),
            Err(fault) => self.failed(fault),
        }
        done
    }

    /// The statement is planned, and runs, or is done where it gives no rows.
    pub fn started(&mut self) {
        if let Some(going) = &mut self.0 {
            going.span.started = Some(now());
        }
    }

    /// How many rows it gave, or wrote.
    pub fn rows(&mut self, rows: u64) {
        if let Some(going) = &mut self.0 {
            let rows = i64::try_from(rows).unwrap_or(i64::MAX);
            going.span.attributes.push(Attribute::number("db.response.returned_rows", rows));
        }
    }

    /// It has failed.
    pub fn failed(&mut self, fault: &Fault) {
        if let Some(going) = &mut self.0 {
            // Messages show values.
            going.span.failure = Some(if going.texts { fault.message.clone() } else { String::new() });
            going.span.attributes.push(Attribute::text("db.response.status_code", fault.code));
            going.span.attributes.push(Attribute::text("error.type", fault.code));
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let Some(mut going) = self.0.take() else { return };
        going.span.ended = now();
        if going.queue.sender.try_send(going.span).is_err() {
            going.queue.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A text as others may see it: without what follows PASSWORD, where it is about a role.
fn without_password(sql: &str) -> &str {
    let mut tokens = Tokens::new(sql);
    match tokens.next() {
        Some(first) if first.token.is("create") || first.token.is("alter") => {
            tokens.find(|placed| placed.token.is("password")).map_or(sql, |placed| &sql[..placed.end])
        }
        _ => sql,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_left_out() {
        assert_eq!(without_password("ALTER ROLE a PASSWORD 'secret' LOGIN"), "ALTER ROLE a PASSWORD");
        assert_eq!(without_password("/* a */ create user a password 'b'"), "/* a */ create user a password");
        assert_eq!(without_password("SELECT password FROM t"), "SELECT password FROM t");
    }

    #[test]
    fn a_part_of_the_traces_is_chosen_by_their_numbers() {
        let chosen = |ratio: f64| {
            let id = |number: u64| (number << 55).to_be_bytes();
            (0..512).filter(|number| is_chosen(&id(*number), ratio)).count()
        };
        assert_eq!([0.0, 0.25, 1.0].map(chosen), [0, 128, 512]);
    }
}
