//! The rows of a query as they come: an iterator for synchronous callers, a stream for asynchronous ones.
//!
//! A synchronous caller parks its own thread and is woken by a waker; it never enters a runtime, so it may be called inside
//! one. Dropping a stream cancels what still runs for it.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use exec::Execution;
use futures::channel::mpsc;
use futures::{FutureExt, SinkExt, Stream, StreamExt, select_biased};

use crate::busy;
use crate::error::{Error, Result};
use crate::native::conform;
use crate::recording::Recording;
use crate::session::not_on_a_worker;
use crate::statement::{Canceller, Running};

/// Batches that may wait for the consumer.
const CHANNEL_BATCHES: usize = 2;

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
    source: Source,
    running: Option<Arc<Running>>,
    canceller: Option<Canceller>,
    recording: Option<Recording>,
    ended: bool,
}

enum Source {
    Native(Execution),
    Channel(mpsc::Receiver<Result<RecordBatch>>),
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
            source: Source::Ready(batches.into_iter()),
            running: None,
            canceller: None,
            recording: None,
            ended: false,
        }
    }

    /// The rows of a wholly native plan.
    pub(crate) fn native(schema: SchemaRef, execution: Execution, running: Arc<Running>) -> ResultStream {
        let canceller = Some(running.canceller());
        let (source, running) = (Source::Native(execution), Some(running));
        ResultStream { schema, source, running, canceller, recording: None, ended: false }
    }

    /// The rows of a plan that runs on the private runtime.
    pub(crate) fn spawn(plan: Arc<dyn ExecutionPlan>, running: Arc<Running>) -> Result<ResultStream> {
        let schema = plan.schema();
        let (sender, receiver) = mpsc::channel(CHANNEL_BATCHES);
        let runtime = running.inner.runtime()?;
        let canceller = Some(running.canceller());
        runtime.spawn(pump(plan, Arc::clone(&running), sender));
        let (source, running) = (Source::Channel(receiver), Some(running));
        Ok(ResultStream { schema, source, running, canceller, recording: None, ended: false })
    }

    /// The same rows, counted by a recording when the last of them was taken.
    pub(crate) fn recorded(mut self, recording: Option<Recording>) -> ResultStream {
        self.recording = recording;
        self
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All rows, when they fit in memory.
    pub fn collect_all(self) -> Result<Vec<RecordBatch>> {
        Iterator::collect(self)
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let item = match &mut self.source {
            Source::Ready(batches) => Poll::Ready(batches.next().map(Ok)),
            Source::Channel(receiver) => receiver.poll_next_unpin(cx),
            Source::Native(execution) => execution
                .poll_next(cx)
                .map(|item| item.map(|batch| Ok(conform(batch.map_err(Error::from)?, &self.schema)?))),
        };
        if let Poll::Ready(item) = &item {
            self.count(item);
        }
        match item {
            Poll::Ready(None) => self.finish(),
            Poll::Ready(Some(Err(_))) => self.fail(),
            _ => {}
        }
        item
    }

    /// Tells the recording, if there is one, what comes.
    fn count(&mut self, item: &Option<Result<RecordBatch>>) {
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

    /// The statement has failed or is out of time: what it has queued is dropped now.
    fn fail(&mut self) {
        if let Some(canceller) = &self.canceller {
            canceller.cancel();
        }
        self.finish();
    }

    fn finish(&mut self) {
        self.ended = true;
        self.source = Source::Ready(Vec::new().into_iter());
        self.running = None;
        self.canceller = None;
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
        match &self.source {
            // On a worker this helps with the morsels instead of waiting for other workers.
            Source::Native(execution) if !self.ended => {
                let item = execution.next_blocking();
                let item = item.map(|batch| Ok(conform(batch.map_err(Error::from)?, &self.schema)?));
                self.count(&item);
                match item {
                    None => self.finish(),
                    Some(Err(_)) => self.fail(),
                    Some(Ok(_)) => {}
                }
                return item;
            }
            Source::Channel(_) if !self.ended => {
                if let Err(error) = not_on_a_worker() {
                    self.fail();
                    return Some(Err(error));
                }
            }
            _ => {}
        }
        block_on(std::future::poll_fn(|cx| self.poll_batch(cx)))
    }
}

/// Takes a plan's batches to the consumer until they end, fail, are cancelled or run out of time.
async fn pump(plan: Arc<dyn ExecutionPlan>, running: Arc<Running>, mut sender: mpsc::Sender<Result<RecordBatch>>) {
    busy::begin();
    let signal = Arc::clone(running.signal());
    // The block owns the operators and what they hold: both are gone before the error waits to be taken.
    let outcome = {
        let work = AssertUnwindSafe(forward(plan, Arc::clone(&running), sender.clone())).catch_unwind();
        let stopped = async {
            match running.deadline() {
                None => signal.raised().await,
                Some(deadline) => {
                    let _ = tokio::time::timeout_at(deadline.into(), signal.raised()).await;
                }
            }
        };
        let mut work = std::pin::pin!(work.fuse());
        let mut stopped = std::pin::pin!(stopped.fuse());
        select_biased! {
            () = stopped => running.check().and(Err(Error::Timeout)),
            done = work => done.unwrap_or_else(|panic| Err(Error::Internal(panic_text(panic.as_ref())))),
        }
    };
    if let Err(error) = outcome {
        let _ = sender.send(Err(error)).await;
    }
}

async fn forward(
    plan: Arc<dyn ExecutionPlan>,
    running: Arc<Running>,
    mut sender: mpsc::Sender<Result<RecordBatch>>,
) -> Result<()> {
    let mut batches = execute_stream(plan, running.task_context())?;
    while let Some(batch) = batches.next().await {
        if sender.send(Ok(batch?)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// The text of a panic's payload.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a task panicked".into())
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
