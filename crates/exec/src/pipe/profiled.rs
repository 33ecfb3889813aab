//! Pipes that count: behind every operator a [`RowCounter`], around every source a [`ProfiledSource`]. Only statements
//! with a [`Profile`](crate::Profile) have them.

use std::sync::Arc;

use numa::NodeId;
use sched::Hint;
use sched::policy::concurrency::Pieces;

use super::{ChunkSource, Operator, Out, Pipe};
use crate::ExecError;
use crate::chunk::{Chunk, Rows};
use crate::codes::bind::Coding;
use crate::tasks::profile::{Counters, Working};
use crate::tasks::run::Run;
use crate::tasks::traffic::Traffic;

/// The pipe of an operator, with its rows counted; what is done with them counts for the operator above, and making
/// results of them for the one on top.
pub(crate) fn watch(mut pipe: Pipe, own: &Arc<Counters>, above: &Option<Arc<Counters>>) -> Pipe {
    own.see();
    if let Some(rows) = pipe.kept() {
        own.add_rows(rows.rows);
        let lane = &mut pipe.lanes[0];
        let source = std::mem::replace(&mut lane.source, Box::new(EmptySource));
        lane.source =
            Box::new(ProfiledSource { source, own: above.clone().unwrap_or_else(|| own.clone()), alone: false });
        return pipe;
    }
    for lane in &mut pipe.lanes {
        if !lane.source.is_watched() {
            let source = std::mem::replace(&mut lane.source, Box::new(EmptySource));
            lane.source = Box::new(ProfiledSource { source, own: own.clone(), alone: true });
        }
    }
    let infos = pipe.infos.clone();
    let above = above.clone().unwrap_or_else(|| own.clone());
    pipe.then(RowCounter { own: own.clone(), above }, infos)
}

/// A source whose work counts for an operator.
struct ProfiledSource {
    source: Box<dyn ChunkSource>,
    own: Arc<Counters>,
    /// The operator is what makes the rows, rather than one that reads what was kept.
    alone: bool,
}

impl ChunkSource for ProfiledSource {
    fn morsels(&self) -> usize {
        self.source.morsels()
    }

    fn morsel_rows(&self) -> usize {
        self.source.morsel_rows()
    }

    fn node_of(&self, morsel: usize) -> Option<NodeId> {
        self.source.node_of(morsel)
    }

    fn kept(&self) -> Option<&Arc<Rows>> {
        self.source.kept()
    }

    fn is_watched(&self) -> bool {
        true
    }

    fn hint(&self, morsel: usize) -> Hint {
        self.source.hint(morsel)
    }

    fn shape(&self, traffic: &Traffic) -> Option<String> {
        self.source.shape(traffic)
    }

    fn spread(&self) -> Option<(&[NodeId], Pieces)> {
        self.source.spread()
    }

    fn rows_expected(&self) -> Option<u64> {
        self.source.rows_expected()
    }

    fn codings(&self, column: usize) -> Vec<(Coding, u64)> {
        self.source.codings(column)
    }

    fn has_more(&self, morsel: usize) -> bool {
        self.source.has_more(morsel)
    }

    fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let _working = self.begun();
        self.source.run(morsel, run, out)
    }

    fn run_in(&self, morsel: usize, most: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let _working = self.begun();
        self.source.run_in(morsel, most, run, out)
    }
}

impl ProfiledSource {
    /// Counts a morsel, which is work of the operator as long as the guard lives.
    fn begun(&self) -> Working {
        let working = Working::on(Some(self.own.clone()));
        if self.alone {
            self.own.add_task();
        }
        working
    }
}

/// In the place of a source for a moment.
struct EmptySource;

impl ChunkSource for EmptySource {
    fn morsels(&self) -> usize {
        0
    }

    fn run(&self, _: usize, _: &Run<'_>, _: &mut Out<'_>) -> Result<bool, ExecError> {
        Ok(true)
    }
}

/// Counts the rows of an operator and hands them on to the one above.
#[derive(Clone)]
struct RowCounter {
    own: Arc<Counters>,
    above: Arc<Counters>,
}

impl Operator for RowCounter {
    fn kind(&self) -> Option<&'static str> {
        None
    }

    fn push(&self, chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        self.own.add_rows(chunk.rows());
        let _working = Working::on(Some(self.above.clone()));
        out(chunk)
    }

    fn takes_any_size(&self) -> bool {
        true
    }
}
