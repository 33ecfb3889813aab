//! [`drive`]: sends a pipe's chunks into a [`Sink`].

use numa::NodeId;
use parking_lot::Mutex;

use super::Pipe;
use crate::ExecError;
use crate::chunk::Chunk;
use crate::tasks::places::current_node;
use crate::tasks::run::Run;

/// Where the chunks of a pipeline end up. `Local` is the state of one worker at a time; there are about as many as
/// workers.
pub(crate) trait Sink: Sync {
    /// What becomes of the chunks, in a word.
    const KIND: &'static str;
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

/// Which of the idle states, each with the node that it lies on, a worker on the node `here` goes on with: one that
/// lies there. It begins another where there is none, unless there are as many as threads by then.
fn near_state(idle: &[Option<NodeId>], here: Option<NodeId>, made: usize, threads: usize) -> Option<usize> {
    let near = idle.iter().rposition(|node| *node == here);
    near.or_else(|| idle.len().checked_sub(1).filter(|_| made >= threads))
}

/// States that no worker is at, by the node that each lies on.
struct Idle<L> {
    nodes: Vec<Option<NodeId>>,
    locals: Vec<L>,
    /// How many there are, those at work included.
    made: usize,
}

/// Sends every chunk of the pipeline into the sink and gives back the states of its workers, in no particular order;
/// none if there was no task. A worker goes on with a state that lies on its own node.
pub(crate) fn drive<S: Sink>(pipe: &Pipe, sink: &S, run: &Run<'_>) -> Result<Vec<S::Local>, ExecError> {
    let idle: Mutex<Idle<S::Local>> = Mutex::new(Idle { nodes: Vec::new(), locals: Vec::new(), made: 0 });
    let done = std::sync::atomic::AtomicBool::new(false);
    for_each_morsel(pipe, run, S::KIND, &|morsel| {
        if done.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(());
        }
        let here = current_node();
        let taken = {
            let mut idle = idle.lock();
            let taken = near_state(&idle.nodes, here, idle.made, run.threads);
            idle.made += usize::from(taken.is_none());
            taken.map(|place| (idle.nodes.swap_remove(place), idle.locals.swap_remove(place)))
        };
        let (node, mut local) = match taken {
            Some(known) => known,
            None => (here, sink.local()?),
        };
        sink.begin(&mut local, morsel);
        let wanted = pipe.run(morsel, run, &mut |chunk| sink.push(&mut local, chunk));
        {
            let mut idle = idle.lock();
            idle.nodes.push(node);
            idle.locals.push(local);
        }
        if !wanted? {
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(())
    })?;
    Ok(idle.into_inner().locals)
}

/// Runs `body` for every morsel of a pipe, where its source wants it, with what it is expected to cost; the first error
/// ends it. `into`: what becomes of the rows.
pub(crate) fn for_each_morsel(
    pipe: &Pipe,
    run: &Run<'_>,
    into: &str,
    body: &(dyn Fn(usize) -> Result<(), ExecError> + Sync),
) -> Result<(), ExecError> {
    let shapes = pipe.shapes(run, into);
    let cost_of = |morsel| {
        let hint = pipe.hint_learned(&shapes, morsel);
        (hint.bytes, hint.cpu_ns)
    };
    let expected = |morsel| pipe.expected(&shapes, morsel);
    run.for_each_costing(pipe.morsels(), &|morsel| pipe.node_of(morsel), (&cost_of, &expected), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_stays_on_its_node_and_there_are_no_more_than_threads() {
        for seed in 0..200 {
            let mut random = random::Random::new(seed);
            let threads = 1 + random.below(8);
            let (mut idle, mut at_work, mut made): (Vec<Option<NodeId>>, Vec<Option<NodeId>>, usize) =
                Default::default();
            for _ in 0..200 {
                if at_work.len() == threads || (random.one_in(2) && !at_work.is_empty()) {
                    idle.push(at_work.swap_remove(random.below(at_work.len())));
                    continue;
                }
                let here = Some(NodeId(random.below(4) as u32));
                match near_state(&idle, here, made, threads) {
                    Some(place) => {
                        let state = idle.swap_remove(place);
                        assert!(state == here || (made >= threads && !idle.contains(&here)), "seed {seed}");
                        at_work.push(state);
                    }
                    None => {
                        assert!(!idle.contains(&here), "seed {seed}: one that is near is left");
                        made += 1;
                        at_work.push(here);
                    }
                }
                assert!(made <= threads, "seed {seed}: {made} states for {threads} threads");
            }
        }
    }
}
