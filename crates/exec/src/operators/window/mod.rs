//! Window functions: values of a row that come from the rows around it.
//!
//! All rows are kept and sorted by partition and order, as any sort does it (`sort/grouped.rs`), which also tells where
//! partitions and groups of peers begin. A row is
//! then a *position* in that order ([`places`]), its frame a range of positions or up to three ([`frames`],
//! [`distance`]), and every function is evaluated for
//! pieces of 32 Ki positions in parallel, wherever partitions begin and end: what reaches over pieces is made before,
//! for all rows at once: sums
//! up to each row ([`sums`]), trees ([`tree`], [`extremes`], [`opaque`]), the rows that are not NULL ([`values`]). So
//! one partition of all rows is as parallel as many are.
//!
//! Rows come out in that order, with the input's columns still to be gathered by whoever reads them.
//!
//! A window over another one whose order begins with its own has no sort of its own: both are evaluated over one order.
//!
//! # Limits
//! Everything is in memory; over the statement's budget is an error.

mod distance;
mod distinct;
mod extremes;
mod frames;
mod numbering;
mod opaque;
mod places;
mod sums;
#[cfg(test)]
mod tests;
mod tree;
mod values;

use std::sync::Arc;

use numa::{NodeId, Reservation};

use super::sort::grouped;
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, Vector};
use crate::chunk::{CHUNK_ROWS, Chunk, Origin, RowIds, Rows};
use crate::pipe::filters::Filters;
use crate::pipe::flow::Flow;
use crate::pipe::kept::rows_of;
use crate::pipe::{ChunkSource, Out, Pipe};
use crate::plan::delicate::is_delicate_window;
use crate::plan::{
    AggregateFunction, FrameBound, FrameExclusion, FrameUnits, Plan, SortKey, Window, WindowCall, WindowFunction,
};
use crate::tasks::profile::OperatorPlace;
use crate::tasks::run::Run;
use crate::tasks::traffic::{self, KeptColumn, Traffic};
use frames::{Frames, WindowInput};
use places::{ColumnPieces, OrderedRows, PIECE_ROWS};

/// A pipe of the operator's rows, partition by partition.
pub(crate) fn pipe(
    flow: &Flow<'_>,
    window: &Window,
    place: &OperatorPlace,
    filters: &Filters,
) -> Result<Pipe, ExecError> {
    let levels = levels(window);
    let lowest = levels[0];
    let shows = levels.iter().any(|window| is_delicate_window(window));
    // A row that is of no use is of a partition that is of none, if its column tells partitions apart.
    let below = filters.iter().filter(|wanted| levels.iter().all(|w| w.partition.contains(&wanted.column)));
    let below = below.map(|wanted| wanted.below(wanted.column, shows)).collect();
    let place = levels[1..].iter().fold(place.clone(), |place, _| place.part());
    let input = flow.pipe(&lowest.input, &place.input(0), &below)?;
    let rows = rows_of(&input, &flow.run)?;
    let keys = lowest.sort_keys();
    let mut prefixes = Vec::new();
    let mut asked_for = |prefix: usize| {
        prefixes.iter().position(|&known| known == prefix).unwrap_or_else(|| {
            prefixes.push(prefix);
            prefixes.len() - 1
        })
    };
    let mut places = Vec::with_capacity(levels.len());
    for window in &levels {
        let partition = window.partition.len();
        let peers = if window.calls.iter().any(sees_peers) { partition + window.order.len() } else { partition };
        places.push((asked_for(partition), asked_for(peers)));
    }
    let sorted = grouped(&flow.run, &rows, &keys, &prefixes)?;
    let mut results = Results { infos: Vec::new(), pieces: Vec::new(), charged: Vec::new() };
    for (window, (partitions, peers)) in levels.iter().zip(places) {
        let (partitions, peers) = (&sorted.starts[partitions], &sorted.starts[peers]);
        for call in &window.calls {
            let reads = columns_read(call, &window.order);
            let ordered = OrderedRows { rows: &rows, order: &sorted.order, partitions, peers, reads: &reads };
            results.add(&flow.run, evaluate(&flow.run, &ordered, &window.order, call)?)?;
        }
    }
    let infos: Vec<ColumnInfo> = input.infos.iter().cloned().chain(results.infos.iter().cloned()).collect();
    let count = rows.rows as u64;
    let source = WindowSource::new(rows, sorted, results, flow.run.traffic);
    Ok(Pipe::of(Box::new(source), infos, count))
}

/// The columns whose values a function reads: its own, and the key of a frame by distance.
fn columns_read(call: &WindowCall, order: &[SortKey]) -> Vec<usize> {
    let by_distance =
        call.has_frame() && call.frame.units == FrameUnits::Range && call.frame.offsets().next().is_some();
    let key = order.first().filter(|_| by_distance).map(|key| key.column);
    call.columns().into_iter().chain(key).collect()
}

/// Windows that are evaluated over one order, the lowest first: each reads no column that one below it has made.
fn levels(window: &Window) -> Vec<&Window> {
    let mut levels = vec![window];
    while let Plan::Window(below) = &levels[levels.len() - 1].input {
        let (keys, width) = (below.sort_keys(), below.input.schema().fields().len());
        let fits = |above: &&Window| {
            let own: Vec<SortKey> = above.sort_keys();
            let reads = above.calls.iter().flat_map(WindowCall::columns);
            keys.starts_with(&own) && own.iter().map(|k| k.column).chain(reads).all(|column| column < width)
        };
        if !levels.iter().all(fits) {
            break;
        }
        levels.push(below);
    }
    levels.reverse();
    levels
}

/// Does a function depend on which rows are peers?
fn sees_peers(call: &WindowCall) -> bool {
    match call.function {
        WindowFunction::Rank | WindowFunction::DenseRank | WindowFunction::PercentRank | WindowFunction::CumeDist => {
            true
        }
        WindowFunction::RowNumber | WindowFunction::Ntile(_) => false,
        WindowFunction::Lag { .. } | WindowFunction::Lead { .. } => false,
        _ => {
            let frame = call.frame;
            let is_whole = frame.start == FrameBound::UnboundedPreceding && frame.end == FrameBound::UnboundedFollowing;
            let excludes = matches!(frame.exclusion, FrameExclusion::Group | FrameExclusion::Ties);
            excludes || (frame.units != FrameUnits::Rows && !is_whole)
        }
    }
}

/// The values of a function for all rows, piece by piece.
fn evaluate(
    run: &Run<'_>,
    ordered: &OrderedRows<'_>,
    order: &[SortKey],
    call: &WindowCall,
) -> Result<ColumnPieces, ExecError> {
    run.check()?;
    let _working = run.reserve(working_bytes(call) * ordered.len() as u64)?;
    if !call.has_frame() && !matches!(call.function, WindowFunction::Lag { .. } | WindowFunction::Lead { .. }) {
        return numbering::column(run, ordered, call);
    }
    let frames = Frames::new(run, ordered, order, call.frame)?;
    let input = WindowInput { run, ordered, frames: &frames };
    let Some(aggregate) = call.aggregate() else { return values::column(&input, call) };
    match &aggregate.function {
        AggregateFunction::Opaque(function) => opaque::column(&input, &aggregate, function),
        AggregateFunction::Min | AggregateFunction::Max => extremes::column(&input, &aggregate),
        AggregateFunction::CountRows => sums::column(&input, &aggregate),
        _ if aggregate.distinct => distinct::column(&input, &aggregate),
        _ => sums::column(&input, &aggregate),
    }
}

/// Bytes of a row that a function needs while it is evaluated, about: sums up to each row, leaves of trees, keys of
/// frames by distance.
fn working_bytes(call: &WindowCall) -> u64 {
    let distance = if call.frame.offsets().next().is_some() && call.has_frame() { 16 } else { 0 };
    let own = match &call.function {
        WindowFunction::Aggregate { function: AggregateFunction::CountRows, .. } => 4,
        WindowFunction::Aggregate { function: AggregateFunction::Opaque(_), .. } => 0,
        WindowFunction::Aggregate { .. } => 20,
        _ => 4,
    };
    distance + own
}

/// What calls gave so far.
struct Results {
    infos: Vec<ColumnInfo>,
    /// By piece, the columns, and where each lies.
    pieces: Vec<Vec<(Arc<Vector>, Option<NodeId>)>>,
    charged: Vec<Reservation>,
}

impl Results {
    fn add(&mut self, run: &Run<'_>, (info, vectors): ColumnPieces) -> Result<(), ExecError> {
        self.charged.push(run.reserve(vectors.iter().map(|(vector, _)| vector.bytes()).sum())?);
        self.infos.push(info);
        self.pieces.resize(vectors.len(), Vec::new());
        self.pieces.iter_mut().zip(vectors).for_each(|(piece, (vector, node))| piece.push((Arc::new(vector), node)));
        Ok(())
    }
}

/// Hands out the rows in order; columns of the input are gathered where they are read.
struct WindowSource {
    rows: Arc<Rows>,
    sorted: super::sort::GroupedOrder,
    pieces: Vec<Arc<Rows>>,
    _charged: Vec<Reservation>,
}

impl WindowSource {
    fn new(rows: Arc<Rows>, sorted: super::sort::GroupedOrder, results: Results, traffic: &Traffic) -> WindowSource {
        let Results { infos, pieces, charged } = results;
        let count = rows.rows;
        let pieces = pieces.into_iter().enumerate().map(|(number, columns)| {
            let rows = count.saturating_sub(number * PIECE_ROWS).min(PIECE_ROWS);
            let lies = columns.iter().map(|(vector, node)| KeptColumn { bytes: vector.bytes(), rows, node: *node });
            let lies = Some(traffic.kept_rows(traffic::WINDOW_RESULTS, lies));
            let columns = columns.into_iter().map(|(vector, _)| vector).collect();
            Arc::new(Rows { infos: infos.clone(), columns, rows, _charged: Vec::new(), lies })
        });
        let pieces = pieces.collect();
        WindowSource { rows, sorted, pieces, _charged: charged }
    }
}

impl ChunkSource for WindowSource {
    fn morsels(&self) -> usize {
        self.rows.rows.div_ceil(PIECE_ROWS)
    }

    fn morsel_rows(&self) -> usize {
        PIECE_ROWS
    }

    fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        run.check()?;
        let first = morsel * PIECE_ROWS;
        let order = &self.sorted.order[first..(first + PIECE_ROWS).min(self.rows.rows)];
        for (number, rows) in order.chunks(CHUNK_ROWS).enumerate() {
            let mut chunk = Chunk::of(Origin::Rows(self.rows.clone()), RowIds::list(rows.to_vec()));
            if let Some(piece) = self.pieces.get(morsel) {
                let start = number * CHUNK_ROWS;
                chunk.append(Origin::Rows(piece.clone()), RowIds::Range(start..start + rows.len()), false);
            }
            if !out(chunk)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
