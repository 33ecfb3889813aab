//! One connection: a task that reads messages, has its session run them, and sends what comes of them.
//!
//! # Invariants
//! - What a session does that blocks runs on a thread of the runtime's pool for such work, and nothing else does: a
//!   connection that waits has no thread. Statements outside of transactions take turns for those threads; a statement
//!   of a transaction never waits for one, since others may wait for the locks that its transaction holds.
//! - While a statement runs, the connection is looked at: where its client is gone, or another connection has cancelled
//!   it, the statement is cancelled.
//! - Rows leave as they come: what is buffered is sent before rows are waited for. A client that does not take them
//!   keeps its own query from going on, by not asking the result for more.
//! - After an error, messages are skipped up to the next Sync, as the protocol has it.

mod copying;
mod extended;
mod login;
mod outs;
mod rows;
mod simple;
mod startup;
mod transactions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nearside::{CancelHandle, Position, Session};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use crate::blocking::panicked;
use crate::cancel::Registered;
use crate::fault::{Fault, codes};
use crate::shared::{Shared, Stop, until};
use crate::traces::Trace;
use crate::wire::backend::{Output, Report, Status};
use crate::wire::frontend::{Frontend, decode};
use crate::wire::input::{Broken, Input};
use extended::{Portal, Statement};

pub use login::session_of;
pub use rows::zone;
pub use startup::serve;

/// What is buffered before it is sent.
pub const SEND_AT: usize = 64 << 10;
/// How often what was cancelled is cancelled again: it may not have begun yet the first time.
const AGAIN: Duration = Duration::from_millis(10);

/// Where what is sent goes.
pub type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// Why something did not come to its end.
#[derive(Debug)]
pub enum Failure {
    /// It failed; the client is told.
    Fault(Fault),
    /// There is no client any more, or it is not to be told anything.
    Gone,
}

impl Failure {
    /// The SQLSTATE of what has failed.
    fn code(&self) -> Option<&'static str> {
        match self {
            Failure::Fault(fault) => Some(fault.code),
            Failure::Gone => None,
        }
    }
}

impl<T: Into<Fault>> From<T> for Failure {
    fn from(fault: T) -> Failure {
        Failure::Fault(fault.into())
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Failure {
        match broken {
            Broken::Gone => Failure::Gone,
            Broken::Wrong(why) => Failure::Fault(Fault::fatal(codes::PROTOCOL_VIOLATION, why)),
        }
    }
}

type Result<T, E = Failure> = std::result::Result<T, E>;

/// A client that has come in.
pub struct Connection {
    input: Input,
    output: Output,
    sink: Sink,
    shared: Arc<Shared>,
    stop: watch::Receiver<Stop>,
    session: Session,
    cancels: CancelHandle,
    registered: Registered,
    /// Which settings the client was told, and their number.
    told: (u64, Vec<Option<String>>),
    /// The transaction is one of the messages up to the next Sync, or of one text, and not one that the client began.
    is_implicit: bool,
    /// Messages are skipped up to the next Sync.
    skips: bool,
    /// A portal was run since the last Sync.
    has_executed: bool,
    /// The span of the statement that runs.
    trace: Trace,
    statements: HashMap<String, Arc<Statement>>,
    portals: HashMap<String, Portal>,
}

impl Connection {
    /// Works on messages until the client ends, or something ends it.
    async fn run(&mut self) -> Result<()> {
        loop {
            let (tag, body) = self.next_message(true).await?;
            self.registered.cancel.begin();
            let done = self.message(tag, body).await;
            self.registered.cancel.end();
            if !done? {
                return Ok(());
            }
        }
    }

    /// The next message. What is buffered is sent before it is waited for. Where it is `idle`, a server that ends ends
    /// the connection.
    async fn next_message(&mut self, idle: bool) -> Result<(u8, Bytes)> {
        loop {
            if let Some(message) = self.input.message()? {
                return Ok(message);
            }
            self.flush().await?;
            let is_over = match *self.stop.borrow_and_update() {
                Stop::Never => false,
                Stop::WhenIdle => idle && self.session.transaction().is_none(),
                Stop::Now => true,
            };
            if is_over {
                let message = "terminating connection due to administrator command";
                return Err(Fault::fatal(codes::ADMIN_SHUTDOWN, message).into());
            }
            tokio::select! {
                filled = self.input.fill() => if !filled.unwrap_or(false) { return Err(Failure::Gone) },
                () = self.registered.cancel.notify.notified(), if !idle => {
                    if self.registered.cancel.is_wanted() {
                        return Err(cancelled());
                    }
                }
                changed = self.stop.changed() => if changed.is_err() { return Err(Failure::Gone) },
            }
        }
    }

    /// Works on a message; false where it is the last one.
    async fn message(&mut self, tag: u8, body: Bytes) -> Result<bool> {
        if self.skips && !matches!(tag, b'S' | b'X') {
            return Ok(true);
        }
        let is_extended = matches!(tag, b'P' | b'B' | b'D' | b'E' | b'C' | b'H');
        let message = match decode(tag, body) {
            Ok(message) => message,
            Err(wrong) => {
                self.skips = is_extended;
                self.failed(&wrong.into(), None).await?;
                if !is_extended {
                    self.ready().await?;
                }
                return Ok(true);
            }
        };
        match message {
            Frontend::Query(text) => self.simple(&text).await?,
            Frontend::Sync => self.sync().await?,
            Frontend::Flush => self.flush().await?,
            Frontend::Terminate => return Ok(false),
            // Of a COPY that has failed already.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => {}
            Frontend::FunctionCall => {
                let message = "calls of functions by their numbers are not supported; SELECT the function";
                self.failed(&Fault::new(codes::FEATURE_NOT_SUPPORTED, message), None).await?;
                self.ready().await?;
            }
            extended => match self.extended(extended).await {
                Ok(()) => {}
                Err(Failure::Gone) => return Err(Failure::Gone),
                Err(Failure::Fault(fault)) => {
                    self.skips = true;
                    self.failed(&fault, None).await?;
                }
            },
        }
        Ok(true)
    }

    /// Begins the span of a statement, where statements are traced.
    fn begin_trace(&mut self, sql: &str) {
        self.trace = self.shared.trace(sql, &self.session, "PostgreSQL");
    }

    /// Ends the span of the statement.
    fn end_trace<T>(&mut self, done: &Result<T>) {
        let mut trace = std::mem::take(&mut self.trace);
        if let Err(Failure::Fault(fault)) = done {
            trace.failed(fault);
        }
    }

    /// Tells the client of a failure, and ends what has failed with it.
    async fn failed(&mut self, fault: &Fault, text: Option<(&str, Position)>) -> Result<()> {
        if fault.is_fatal {
            return Err(Failure::Fault(fault.clone()));
        }
        self.output.error(&fault.report(text));
        self.abort().await
    }

    /// The end of a query, or of what belongs together: what is buffered is sent, the state of the transaction last.
    async fn ready(&mut self) -> Result<()> {
        self.tell_settings();
        let status = match self.session.transaction() {
            None => Status::Idle,
            Some(true) => Status::Open,
            Some(false) => Status::Failed,
        };
        self.output.ready(status);
        self.flush().await
    }

    /// Tells what settings have changed of those that clients are told.
    fn tell_settings(&mut self) {
        let version = self.session.settings_version();
        if self.told.0 == version && !self.told.1.is_empty() {
            return;
        }
        let now: Vec<Option<String>> = startup::TOLD.iter().map(|name| startup::told(&self.session, name)).collect();
        for (place, value) in now.iter().enumerate() {
            if let Some(value) = value
                && self.told.1.get(place) != Some(&Some(value.clone()))
            {
                self.output.parameter_status(startup::TOLD[place], value);
            }
        }
        self.told = (version, now);
    }

    fn warn(&mut self, code: &'static str, message: &str) {
        self.output.notice(&Report {
            severity: "WARNING",
            code,
            message: message.into(),
            hint: None,
            context: None,
            position: None,
            about: None,
            routine: None,
        });
    }

    /// Sends what is buffered.
    async fn flush(&mut self) -> Result<()> {
        if self.output.0.is_empty() {
            return Ok(());
        }
        let send = async {
            self.sink.write_all(&self.output.0).await?;
            self.sink.flush().await
        };
        let mut stop = self.stop.clone();
        let sent = tokio::select! {
            // What can be sent at once is.
            biased;
            sent = send => sent.is_ok(),
            // Who does not take what was sent is not waited for any longer.
            () = until(&mut stop, Stop::Now) => false,
        };
        if !sent {
            return Err(Failure::Gone);
        }
        self.output.0.clear();
        self.output.0.shrink_to(SEND_AT);
        Ok(())
    }

    /// Waits for something that is done for the client, which is cancelled where it is cancelled, or the client is
    /// gone; then what comes of it is still waited for, unless it `is_left`.
    async fn wait<T>(&mut self, work: impl Future<Output = T>, is_left: bool) -> Result<T> {
        let mut work = std::pin::pin!(work);
        let mut is_gone = false;
        loop {
            let is_over = *self.stop.borrow_and_update() == Stop::Now;
            let is_cancelled = is_gone || is_over || self.registered.cancel.is_wanted();
            if is_cancelled {
                self.cancels.cancel();
                if is_left {
                    return Err(if is_gone { Failure::Gone } else { cancelled() });
                }
            }
            tokio::select! {
                biased;
                done = &mut work => return if is_gone { Err(Failure::Gone) } else { Ok(done) },
                () = tokio::time::sleep(AGAIN), if is_cancelled => {}
                () = self.registered.cancel.notify.notified(), if !is_cancelled => {}
                changed = self.stop.changed(), if !is_over => is_gone |= changed.is_err(),
                filled = self.input.fill(), if !is_gone && self.input.has_room() => {
                    is_gone |= !filled.unwrap_or(false);
                }
            }
        }
    }

    /// Has the session do something that may block, on a thread for such work.
    async fn blocking<T: Send + 'static>(&mut self, work: impl FnOnce(&Session) -> T + Send + 'static) -> Result<T> {
        let permit = match self.session.transaction() {
            Some(_) => None,
            None => {
                let turns = Arc::clone(&self.shared.turns);
                self.wait(turns.acquire_owned(), true).await?.ok()
            }
        };
        let session = self.session.clone();
        let work = tokio::task::spawn_blocking(move || {
            let done = work(&session);
            drop(permit);
            done
        });
        match self.wait(work, false).await? {
            Ok(done) => Ok(done),
            Err(_) => Err(panicked().into()),
        }
    }
}

fn cancelled() -> Failure {
    Fault::new(codes::QUERY_CANCELED, "the statement was cancelled").into()
}
