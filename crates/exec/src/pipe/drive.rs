//! [`drive`]: sends a pipe's chunks into a [`Sink`].

use parking_lot::Mutex;

use super::Pipe;
use crate::ExecError;
use crate::chunk::Chunk;
use crate::tasks::run::Run;

/// Where the chunks of a pipeline end up. `Local` is the state of one worker at a time; there are about as many as
/// workers.
pub(crate) trait Sink: Sync {
    /// State of one worker.
    type Local: Send;

    /// A new state.
    fn local(&self) -> Result<Self::Local, ExecError>;

    /// The chunks that this worker gives next are those of a piece of the pipeline; pieces are numbered in the order
    /// of its rows.
    fn begin(&self, _local: &mut Self::Local, _morsel: usize) {}

    /// Takes a chunk, never an empty one. False where nobody wants more.
    fn push(&self, local: &mut Self::Local, chunk: Chunk) -> Result<bool, ExecError>;
}

/// Sends every chunk of the pipeline into the sink and gives back the states of its workers, in no particular order;
/// none if there was no task.
pub(crate) fn drive<S: Sink>(pipe: &Pipe, sink: &S, run: &Run<'_>) -> Result<Vec<S::Local>, ExecError> {
    let idle: Mutex<Vec<S::Local>> = Mutex::new(Vec::new());
    let done = std::sync::atomic::AtomicBool::new(false);
    for_each_morsel(pipe, run, &|morsel| {
        if done.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(());
        }
        let taken = idle.lock().pop();
        let mut local = match taken {
            Some(local) => local,
            None => sink.local()?,
        };
        sink.begin(&mut local, morsel);
        let wanted = pipe.run(morsel, run, &mut |chunk| sink.push(&mut local, chunk));
        idle.lock().push(local);
        if !wanted? {
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(())
    })?;
    Ok(idle.into_inner())
}

/// Runs `body` for every morsel of a pipe, where its source wants it, with what it is expected to cost; the first error
/// ends it.
pub(crate) fn for_each_morsel(
    pipe: &Pipe,
    run: &Run<'_>,
    body: &(dyn Fn(usize) -> Result<(), ExecError> + Sync),
) -> Result<(), ExecError> {
    let cost_of = |morsel| {
        let hint = pipe.hint(morsel);
        (hint.bytes, hint.cpu_ns)
    };
    run.for_each_costing(pipe.morsels(), &|morsel| pipe.node_of(morsel), &cost_of, body)
}
