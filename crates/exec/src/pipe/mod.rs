//! [`Pipe`]: a pipeline that is ready to run: sources of chunks, and operators that each chunk goes through.
//!
//! A pipe has *lanes*, one per input of a UNION ALL; each is cut into morsels. What a morsel costs and where it runs
//! its source says. Everything below the sources has run already.

pub(crate) mod drive;
pub(crate) mod filters;
pub(crate) mod flow;
pub(crate) mod kept;
pub(crate) mod profiled;

use std::sync::Arc;

use numa::NodeId;
use sched::Hint;
use sched::policy::concurrency::Pieces;
use storage::GRANULE_ROWS;

use crate::ExecError;
use crate::chunk::vector::ColumnInfo;
use crate::chunk::{Chunk, Rows};
use crate::codes::bind::Coding;
use crate::tasks::feedback::Shape;
use crate::tasks::run::Run;
use crate::tasks::traffic::Traffic;

/// Where a chunk goes; false where nobody wants more.
pub(crate) type Out<'a> = dyn FnMut(Chunk) -> Result<bool, ExecError> + 'a;

/// Where chunks come from.
pub(crate) trait ChunkSource: Send + Sync {
    /// Pieces that it is cut into; one is one task.
    fn morsels(&self) -> usize;

    /// The most rows that a morsel hands out.
    fn morsel_rows(&self) -> usize {
        GRANULE_ROWS
    }

    /// The node that a morsel is best run on.
    fn node_of(&self, _morsel: usize) -> Option<NodeId> {
        None
    }

    /// The rows that it hands out, if those are all rows of something kept, in order.
    fn kept(&self) -> Option<&Arc<Rows>> {
        None
    }

    /// Whether its work is counted for an operator.
    fn is_watched(&self) -> bool {
        false
    }

    /// What a morsel is expected to cost.
    fn hint(&self, _morsel: usize) -> Hint {
        Hint::default()
    }

    /// What its morsels read, by name: those of the same name cost the same, by their hints. `None` where hints say
    /// nothing.
    fn shape(&self, _traffic: &Traffic) -> Option<String> {
        None
    }

    /// The nodes that its morsels are on, and how its rows lie, for the concurrency hint.
    fn spread(&self) -> Option<(&[NodeId], Pieces)> {
        None
    }

    /// Rows that it is expected to hand out, where it has an estimate that may be too low.
    fn rows_expected(&self) -> Option<u64> {
        None
    }

    /// What a column of its chunks may be stored as, and of about how many rows.
    fn codings(&self, _column: usize) -> Vec<(Coding, u64)> {
        Vec::new()
    }

    /// Whether a morsel that was run has more chunks: it is run again, and goes on where it ended, when what it gave
    /// was taken. So morsels may be of any length.
    fn has_more(&self, _morsel: usize) -> bool {
        false
    }

    /// Hands out the chunks of a morsel, of at most [`CHUNK_ROWS`](crate::chunk::CHUNK_ROWS) rows, in order.
    fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError>;

    /// As [`run`](Self::run), in chunks of at most `most` rows, which a source that cannot makes smaller.
    fn run_in(&self, morsel: usize, _most: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        self.run(morsel, run, out)
    }
}

/// Something that each chunk goes through.
pub(crate) trait Operator: Send + Sync {
    /// Takes a chunk that is not empty and hands on any number of chunks.
    fn push(&self, chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError>;

    /// What it does, for the shape of the tasks that it is in; `None` where that is next to nothing.
    fn kind(&self) -> Option<&'static str>;

    /// Whether it takes chunks of more rows than [`CHUNK_ROWS`](crate::chunk::CHUNK_ROWS), and makes none that are
    /// larger than those.
    fn takes_any_size(&self) -> bool {
        false
    }
}

/// The shapes of a pipe's tasks, by lane; none where nobody looks at hints.
#[derive(Debug, Default)]
pub(crate) struct Shapes(Vec<Option<Arc<Shape>>>);

/// A source and the operators over it.
pub(crate) struct Lane {
    pub(crate) source: Box<dyn ChunkSource>,
    pub(crate) operators: Vec<Box<dyn Operator>>,
}

impl Lane {
    /// Is all that is done to its rows done row by row?
    fn is_by_row(&self) -> bool {
        self.operators.iter().all(|operator| operator.takes_any_size())
    }

    /// What its tasks do, with rows that end up in `into`.
    fn shape(&self, traffic: &Traffic, into: &str) -> Option<String> {
        let mut name = self.source.shape(traffic)?;
        for kind in self.operators.iter().filter_map(|operator| operator.kind()).chain([into]) {
            name.push_str(" > ");
            name.push_str(kind);
        }
        Some(name)
    }
}

/// A pipeline that is ready to run.
pub(crate) struct Pipe {
    /// At least one.
    pub(crate) lanes: Vec<Lane>,
    /// What is known of the columns of its chunks.
    pub(crate) infos: Vec<ColumnInfo>,
    /// Rows that come out, about; never fewer than the sources make where nothing multiplies them.
    pub(crate) rows: u64,
}

impl Pipe {
    /// A source on its own.
    pub(crate) fn of(source: Box<dyn ChunkSource>, infos: Vec<ColumnInfo>, rows: u64) -> Pipe {
        Pipe { lanes: vec![Lane { source, operators: Vec::new() }], infos, rows }
    }

    /// Puts an operator behind every lane; the columns are `infos` from there.
    pub(crate) fn then<O: Operator + Clone + 'static>(mut self, operator: O, infos: Vec<ColumnInfo>) -> Pipe {
        for lane in &mut self.lanes {
            lane.operators.push(Box::new(operator.clone()));
        }
        self.infos = infos;
        self
    }

    /// Its rows, if it only hands out what was kept.
    pub(crate) fn kept(&self) -> Option<&Arc<Rows>> {
        match self.lanes.as_slice() {
            [lane] if lane.operators.is_empty() => lane.source.kept(),
            _ => None,
        }
    }

    /// Number of tasks.
    pub(crate) fn morsels(&self) -> usize {
        self.lanes.iter().map(|lane| lane.source.morsels()).sum()
    }

    /// The most rows that a task takes from its source.
    pub(crate) fn morsel_rows(&self) -> usize {
        self.lanes.iter().map(|lane| lane.source.morsel_rows()).max().unwrap_or(0)
    }

    /// Where a task runs best.
    pub(crate) fn node_of(&self, morsel: usize) -> Option<NodeId> {
        let (lane, morsel) = self.lane_of(morsel);
        lane.source.node_of(morsel)
    }

    /// What a task is expected to cost.
    pub(crate) fn hint(&self, morsel: usize) -> Hint {
        let (lane, morsel) = self.lane_of(morsel);
        lane.source.hint(morsel)
    }

    /// The shapes of its tasks, whose rows end up in `into`, by lane. Where no hint is ever looked at there are none.
    pub(crate) fn shapes(&self, run: &Run<'_>, into: &str) -> Shapes {
        // A name takes longer to write than a look-up by an index takes.
        if run.threads <= 1 {
            return Shapes::default();
        }
        let shape = |lane: &Lane| Some(run.traffic.feedback().shape(lane.shape(run.traffic, into)?));
        Shapes(self.lanes.iter().map(shape).collect())
    }

    /// The shape and the hint of a task, the latter as it was before anything was learned.
    pub(crate) fn expected(&self, shapes: &Shapes, task: usize) -> Option<(Arc<Shape>, Hint)> {
        if shapes.0.is_empty() {
            return None;
        }
        let mut before = 0;
        let lane = self.lanes.iter().position(|lane| {
            before += lane.source.morsels();
            task < before
        })?;
        Some((shapes.0[lane].clone()?, self.hint(task)))
    }

    /// What a task is expected to cost, by what others of its shape did.
    pub(crate) fn hint_learned(&self, shapes: &Shapes, task: usize) -> Hint {
        self.expected(shapes, task).map_or_else(|| self.hint(task), |(shape, hint)| shape.corrected(hint))
    }

    /// The nodes that its tasks are on, and how the rows lie, where all come from one table.
    pub(crate) fn spread(&self) -> Option<(&[NodeId], Pieces)> {
        match self.lanes.as_slice() {
            [lane] => lane.source.spread(),
            _ => None,
        }
    }

    /// Rows that come out, about, perhaps fewer than there are: what pays for `n` is done.
    pub(crate) fn rows_expected(&self) -> u64 {
        let expected = |lane: &Lane| lane.source.rows_expected().filter(|_| lane.is_by_row());
        self.lanes.iter().map(expected).sum::<Option<u64>>().map_or(self.rows, |rows| rows.min(self.rows))
    }

    /// What a column of the source's chunks may be stored as, and of about how many rows.
    pub(crate) fn codings(&self, column: usize) -> Vec<(Coding, u64)> {
        match self.lanes.as_slice() {
            [lane] => lane.source.codings(column),
            _ => Vec::new(),
        }
    }

    /// As [`run`](Self::run), in chunks of up to `most` rows wherever all that is done to them is row by row, and
    /// only until the source pauses: it may have more then.
    pub(crate) fn run_in(
        &self,
        morsel: usize,
        most: usize,
        run: &Run<'_>,
        out: &mut Out<'_>,
    ) -> Result<bool, ExecError> {
        let (lane, morsel) = self.lane_of(morsel);
        let mut feed = |chunk| feed(&lane.operators, chunk, out);
        match lane.is_by_row() {
            true => lane.source.run_in(morsel, most, run, &mut feed),
            false => lane.source.run(morsel, run, &mut feed),
        }
    }

    /// Runs a task: every chunk that comes out, none of them empty, goes to `out`. False where `out` wants no more.
    pub(crate) fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        while self.run_part(morsel, run, out)? {
            if !self.has_more(morsel) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`run`](Self::run), but only until the source pauses: it may have more then.
    fn run_part(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let (lane, morsel) = self.lane_of(morsel);
        lane.source.run(morsel, run, &mut |chunk| feed(&lane.operators, chunk, out))
    }

    /// Whether a task that was run has more to give.
    pub(crate) fn has_more(&self, morsel: usize) -> bool {
        let (lane, morsel) = self.lane_of(morsel);
        lane.source.has_more(morsel)
    }

    fn lane_of(&self, mut morsel: usize) -> (&Lane, usize) {
        for lane in &self.lanes {
            match lane.source.morsels() {
                here if morsel < here => return (lane, morsel),
                here => morsel -= here,
            }
        }
        unreachable!("no such morsel")
    }
}

fn feed(operators: &[Box<dyn Operator>], chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
    if chunk.rows() == 0 {
        return Ok(true);
    }
    match operators.split_first() {
        None => out(chunk),
        Some((first, rest)) => first.push(chunk, &mut |chunk| feed(rest, chunk, out)),
    }
}
