//! ORDER BY, and top-k where only the first rows are wanted.
//!
//! Keys of a row become one integer wherever their bounds allow it (see [`keys`]), so that comparing rows is comparing
//! words; else the bytes of Arrow's row format. Only row numbers are moved while sorting: [`SortedSource`] gathers a
//! chunk's columns when somebody reads them, in the pipeline above. A full sort ([`full`]) is a sample sort; top-k
//! ([`top`]) keeps the best rows of each worker, whose columns stay where they are until the end.
//!
//! # Limits
//! Everything is in memory; over the statement's budget is an error.

mod full;
mod grouped;
mod top;

use std::sync::Arc;

use crate::ExecError;
use crate::chunk::{CHUNK_ROWS, Chunk, Origin, RowIds, Rows};
use crate::keys::order::OrderLayout;
use crate::pipe::filters::Filters;
use crate::pipe::flow::Flow;
use crate::pipe::kept::rows_of;
use crate::pipe::{ChunkSource, Out, Pipe};
use crate::plan::Sort;
use crate::tasks::profile::OperatorPlace;
use crate::tasks::run::Run;
pub(crate) use grouped::{GroupedOrder, grouped};

/// More rows than this are sorted as a whole.
const TOP_ROWS_MAX: usize = 65_536;
/// Chunks of a morsel of sorted rows.
const CHUNKS_PER_MORSEL: usize = 16;

/// A pipe of the operator's rows, in order.
pub(crate) fn pipe(
    flow: &Flow<'_>,
    operator: &Sort,
    place: &OperatorPlace,
    filters: &Filters,
) -> Result<Pipe, ExecError> {
    // Rows that are left out would let others in where only the first are wanted.
    let none = Filters::new();
    let filters = if operator.fetch.is_some() { &none } else { filters };
    let input = flow.pipe(&operator.input, &place.input(0), filters)?;
    let layout = OrderLayout::new(&operator.keys, &input.infos)?;
    let rows = match operator.fetch {
        Some(0) => SortedRows::nothing(&input),
        Some(fetch) if fetch <= TOP_ROWS_MAX && (fetch as u64) < input.rows / 2 => {
            top::sorted(&flow.run, &input, &layout, fetch)?
        }
        fetch => full::sorted(&flow.run, rows_of(&input, &flow.run)?, &layout, fetch.unwrap_or(usize::MAX))?,
    };
    let count = rows.len() as u64;
    Ok(Pipe::of(Box::new(SortedSource::new(rows)), input.infos, count))
}

/// Rows that were kept and the order that they come in.
pub(crate) struct SortedRows {
    rows: Arc<Rows>,
    /// Row numbers, piece by piece.
    order: Vec<Vec<u32>>,
    /// What the order is charged to.
    _reservation: Option<numa::Reservation>,
}

impl SortedRows {
    fn nothing(input: &Pipe) -> SortedRows {
        SortedRows { rows: Arc::new(Rows::none(input.infos.clone())), order: Vec::new(), _reservation: None }
    }

    fn len(&self) -> usize {
        self.order.iter().map(Vec::len).sum()
    }
}

/// Hands out rows in an order; a column is gathered where it is read.
struct SortedSource {
    sorted: SortedRows,
    /// Piece and first row in it, per morsel.
    morsels: Vec<(usize, usize)>,
}

impl SortedSource {
    fn new(sorted: SortedRows) -> SortedSource {
        let step = CHUNKS_PER_MORSEL * CHUNK_ROWS;
        let starts = |(piece, rows): (usize, &Vec<u32>)| (0..rows.len()).step_by(step).map(move |start| (piece, start));
        let morsels = sorted.order.iter().enumerate().flat_map(starts).collect();
        SortedSource { sorted, morsels }
    }
}

impl ChunkSource for SortedSource {
    fn morsels(&self) -> usize {
        self.morsels.len()
    }

    fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        self.run_in(morsel, CHUNK_ROWS, run, out)
    }

    fn run_in(&self, morsel: usize, most: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        run.check()?;
        let (piece, start) = self.morsels[morsel];
        let rest = &self.sorted.order[piece][start..];
        for ids in rest[..rest.len().min(CHUNKS_PER_MORSEL * CHUNK_ROWS)].chunks(most) {
            let ids = RowIds::list(ids.to_vec());
            if !out(Chunk::of(Origin::Rows(self.sorted.rows.clone()), ids))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
