//! The rows of a query as they come: an iterator for synchronous callers, a stream for asynchronous ones.
//!
//! A synchronous caller parks its own thread and is woken by a waker; it never enters a runtime, so it may be called
//! inside one. Dropping a stream cancels what still runs for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use exec::Execution;
use futures::Stream;

use crate::error::{Error, Result};
use crate::plan::headers;
use crate::run::admission;
use crate::run::admission_state::Ticket;
use crate::run::done::Done;
use crate::run::profile::Recording;
use crate::run::role_limits::RowsLeft;
use crate::run::statement::{Canceller, RunningStatement};

/// The rows of a query.
///
/// ```
/// # fn main() -> nearside::Result<()> {
/// let session = nearside::Database::new()?.session();
/// for batch in session.query("SELECT value FROM generate_series(1, 3)")? {
///     println!("{} rows", batch?.num_rows());
/// }
/// # Ok(())
/// # }
/// ```
pub struct ResultStream {
    schema: SchemaRef,
    source: BatchSource,
    running: Option<Arc<RunningStatement>>,
    canceller: Option<Canceller>,
    recording: Option<Recording>,
    ticket: Option<Ticket>,
    written: Option<Done>,
    rows_left: Option<Box<RowsLeft>>,
    ended: bool,
}

enum BatchSource {
    Native(Execution),
    Ready(std::vec::IntoIter<RecordBatch>),
}

impl std::fmt::Debug for ResultStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResultStream").field("schema", &self.schema).field("ended", &self.ended).finish()
    }
}

impl ResultStream {
    /// Rows that are there already.
    pub(crate) fn ready(schema: SchemaRef, batches: Vec<RecordBatch>) -> ResultStream {
        ResultStream {
            schema,
            source: BatchSource::Ready(batches.into_iter()),
            running: None,
            canceller: None,
            recording: None,
            ticket: None,
            written: None,
            rows_left: None,
            ended: false,
        }
    }

    /// What RETURNING gives of a statement that has done this.
    pub(crate) fn returned(schema: SchemaRef, batches: Vec<RecordBatch>, done: Done) -> ResultStream {
        let mut stream = ResultStream::ready(schema, batches);
        stream.written = Some(done);
        stream
    }

    /// What the statement did, where its rows are those of RETURNING.
    pub fn written(&self) -> Option<&Done> {
        self.written.as_ref()
    }

    /// The rows of a wholly native plan.
    pub(crate) fn native(schema: SchemaRef, execution: Execution, running: Arc<RunningStatement>) -> ResultStream {
        let canceller = Some(running.canceller());
        let source = BatchSource::Native(execution);
        let running = Some(running);
        ResultStream {
            schema,
            source,
            running,
            canceller,
            recording: None,
            ticket: None,
            written: None,
            rows_left: None,
            ended: false,
        }
    }

    /// The same rows, counted by a recording when the last of them was taken.
    pub(crate) fn recorded(mut self, recording: Option<Recording>) -> ResultStream {
        self.recording = recording;
        self
    }

    /// The same rows, which come when it is their turn.
    pub(crate) fn let_in(mut self, ticket: Option<Ticket>) -> ResultStream {
        self.ticket = ticket;
        self
    }

    /// The same rows, which fail where they are more than this.
    pub(crate) fn limited(mut self, rows_left: RowsLeft) -> ResultStream {
        self.rows_left = Some(Box::new(rows_left));
        self
    }

    /// A batch, if the statement may give its rows too.
    fn allowed(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        if let Some(left) = &mut self.rows_left {
            left.give(batch.num_rows())?;
        }
        Ok(batch)
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The same rows with names of which no two are the same (`sum`, `sum_1`), as objects and files have them.
    pub fn with_names_apart(mut self) -> ResultStream {
        let names = self.schema.fields().iter().map(|field| field.name().clone()).collect();
        self.schema = headers::named(&self.schema, &headers::apart(names, &|_, _| false));
        self
    }

    /// All rows, when they fit in memory.
    pub fn collect_all(self) -> Result<Vec<RecordBatch>> {
        Iterator::collect(self)
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.poll_begun(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                self.fail();
                return Poll::Ready(Some(Err(error)));
            }
            Poll::Pending => return Poll::Pending,
        }
        self.asked();
        let item = match &mut self.source {
            BatchSource::Ready(batches) => Poll::Ready(batches.next().map(Ok)),
            BatchSource::Native(execution) => {
                execution.poll_next(cx).map(|item| item.map(|batch| conform(batch.map_err(Error::from)?, &self.schema)))
            }
        };
        let item = item.map(|item| item.map(|batch| batch.and_then(|batch| self.allowed(batch))));
        if let Poll::Ready(item) = &item {
            self.told(item);
        }
        match item {
            Poll::Ready(None) => self.complete(),
            Poll::Ready(Some(Err(_))) => self.fail(),
            _ => {}
        }
        item
    }

    /// Whether the statement has begun.
    fn poll_begun(&mut self, cx: &Context<'_>) -> Poll<Result<()>> {
        match (&mut self.ticket, &self.running) {
            (Some(ticket), Some(running)) if !ticket.has_begun() => admission::poll_begun(ticket, running, cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The client waits for rows of a statement that has begun.
    fn asked(&mut self) {
        if let Some(ticket) = &mut self.ticket {
            ticket.asked();
        }
    }

    /// Tells the ticket and the recording, if there are any, what comes.
    fn told(&mut self, item: &Option<Result<RecordBatch>>) {
        if let Some(ticket) = &mut self.ticket {
            ticket.told();
        }
        match (item, &mut self.recording) {
            (Some(Ok(batch)), Some(recording)) => recording.took(batch.num_rows()),
            (Some(Err(_)), _) => self.recording = None,
            (None, _) => {
                if let Some(recording) = self.recording.take() {
                    recording.done();
                }
            }
            (_, None) => {}
        }
    }

    /// The last row was taken.
    fn complete(&mut self) {
        if let (Some(ticket), Some(running)) = (&self.ticket, &self.running) {
            admission::ended(ticket, running);
        }
        self.finish();
    }

    /// The statement has failed or is out of time: what it has queued is dropped now.
    fn fail(&mut self) {
        if let Some(running) = &self.running {
            running.inner.statements.failed();
        }
        if let Some(canceller) = &self.canceller {
            canceller.cancel();
        }
        if let Some(of) = self.running.as_ref().and_then(|running| running.transaction.as_ref()) {
            of.has_failed.fetch_max(of.number, std::sync::atomic::Ordering::AcqRel);
        }
        self.finish();
    }

    fn finish(&mut self) {
        self.ended = true;
        self.source = BatchSource::Ready(Vec::new().into_iter());
        self.running = None;
        self.canceller = None;
        self.ticket = None;
    }
}

impl Drop for ResultStream {
    fn drop(&mut self) {
        if let Some(canceller) = self.canceller.take() {
            canceller.cancel();
        }
    }
}

impl Stream for ResultStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_batch(cx)
    }
}

impl Iterator for ResultStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ticket.as_ref().is_some_and(|ticket| !ticket.has_begun())
            && let Err(error) = block_on(std::future::poll_fn(|cx| self.poll_begun(cx)))
        {
            self.fail();
            return Some(Err(error));
        }
        match &self.source {
            // On a worker this helps with the morsels instead of waiting for other workers.
            BatchSource::Native(execution) if !self.ended => {
                if let Some(ticket) = &mut self.ticket {
                    ticket.asked();
                }
                let item = execution.next_blocking();
                let item = item.map(|batch| conform(batch.map_err(Error::from)?, &self.schema));
                let item = item.map(|batch| batch.and_then(|batch| self.allowed(batch)));
                self.told(&item);
                match item {
                    None => self.complete(),
                    Some(Err(_)) => self.fail(),
                    Some(Ok(_)) => {}
                }
                return item;
            }
            _ => {}
        }
        block_on(std::future::poll_fn(|cx| self.poll_batch(cx)))
    }
}

/// The same columns under the schema that was promised (names, metadata and nullability come from the logical plan).
fn conform(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let (_, columns, _) = batch.into_parts();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread, whatever runtime the thread belongs to.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
