//! [`Outgoing`]: rows on their way to a client, which others may end: who cancels them, and the clock where the client
//! takes none.
//!
//! # Invariants
//! - Rows are asked for by the client's side alone; what ends them takes them away, which cancels their statement.
//! - A client waits for rows as long as it likes to; only the time in which rows wait for the client counts.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::Stream;
use nearside::ResultStream;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::fault::{Fault, codes};
use crate::traces::Trace;

/// See the module.
#[derive(Debug)]
pub struct Outgoing {
    schema: SchemaRef,
    inner: Arc<Inner>,
    watch: Option<AbortHandle>,
}

/// Ends rows from elsewhere.
#[derive(Debug, Clone)]
pub struct Ender(Weak<Inner>);

#[derive(Debug)]
struct Inner(Mutex<State>);

#[derive(Debug)]
struct State {
    rows: Option<ResultStream>,
    /// Why they have ended, until the client was told.
    why: Option<Fault>,
    waker: Option<Waker>,
    /// Since when rows wait for the client; `None` while the client waits for rows.
    since: Option<Instant>,
    /// The statement's span, which ends with the rows, and how many were taken.
    trace: Trace,
    taken: u64,
}

impl Outgoing {
    /// Rows whose client may let them wait for so long, if that has a limit; within a runtime.
    pub fn new(rows: ResultStream, stall: Option<Duration>, trace: Trace) -> Outgoing {
        let schema = Arc::clone(rows.schema());
        let state = State { rows: Some(rows), why: None, waker: None, since: Some(Instant::now()), trace, taken: 0 };
        let inner = Arc::new(Inner(Mutex::new(state)));
        let watch = stall.map(|stall| tokio::spawn(watch(Arc::downgrade(&inner), stall)).abort_handle());
        Outgoing { schema, inner, watch }
    }

    /// Their columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// What ends them from elsewhere.
    pub fn ender(&self) -> Ender {
        Ender(Arc::downgrade(&self.inner))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

impl Stream for Outgoing {
    type Item = Result<RecordBatch, Fault>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.inner.0.lock();
        if let Some(why) = state.why.take() {
            return Poll::Ready(Some(Err(why)));
        }
        let Some(rows) = &mut state.rows else { return Poll::Ready(None) };
        let item = Pin::new(rows).poll_next(cx);
        state.since = item.is_ready().then(Instant::now);
        match item {
            Poll::Pending => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Poll::Ready(item) => {
                if let Some(Ok(batch)) = &item {
                    state.taken += batch.num_rows() as u64;
                } else {
                    state.rows = None;
                }
                let item = item.map(|batch| batch.map_err(Fault::from));
                if !matches!(item, Some(Ok(_))) {
                    let mut trace = std::mem::take(&mut state.trace);
                    trace.rows(state.taken);
                    if let Some(Err(fault)) = &item {
                        trace.failed(fault);
                    }
                }
                Poll::Ready(item)
            }
        }
    }
}

impl Ender {
    /// Whether all rows were taken, or are gone.
    pub fn has_ended(&self) -> bool {
        self.0.upgrade().is_none_or(|inner| inner.0.lock().rows.is_none())
    }

    /// Ends the rows, whose client is told why. False where they have ended already.
    pub fn end(&self, why: Fault) -> bool {
        let Some(inner) = self.0.upgrade() else { return false };
        let mut state = inner.0.lock();
        let Some(rows) = state.rows.take() else { return false };
        std::mem::take(&mut state.trace).failed(&why);
        state.why = Some(why);
        let waker = state.waker.take();
        drop(state);
        drop(rows);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

/// Ends rows that wait for their client for too long.
async fn watch(inner: Weak<Inner>, stall: Duration) {
    loop {
        let waits = {
            let Some(inner) = inner.upgrade() else { return };
            let state = inner.0.lock();
            if state.rows.is_none() {
                return;
            }
            state.since.map_or(Duration::ZERO, |since| since.elapsed())
        };
        if waits >= stall {
            let message = format!("the statement was cancelled: its rows were not taken for {} s", stall.as_secs_f64());
            Ender(inner).end(Fault::new(codes::QUERY_CANCELED, message));
            return;
        }
        // While the client waits for rows nothing runs off, so half the time is slept at least.
        tokio::time::sleep((stall - waits).max(stall / 2)).await;
    }
}
