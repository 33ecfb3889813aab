//! Rows that come from elsewhere ([`RowSource`]): each piece is one task, which takes its batches and cuts them into
//! chunks.
//!
//! A piece may be larger than memory. So a task ends after [`PART_ROWS`] rows, and goes on with the piece when those
//! were taken ([`ChunkSource::has_more`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::array::RecordBatch;
use arrow::datatypes::FieldRef;
use storage::GRANULE_ROWS;

use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, is_integer, type_bounds};
use crate::chunk::{CHUNK_ROWS, Chunk};
use crate::pipe::flow::Flow;
use crate::pipe::{ChunkSource, Out, Pipe};
use crate::plan::{RowPieces, RowSource};
use crate::tasks::run::Run;

/// After `n` rows of a piece its task ends.
pub(crate) const PART_ROWS: usize = GRANULE_ROWS;

/// What is known of a column by its type alone.
pub(crate) fn info_of(field: &FieldRef) -> ColumnInfo {
    match type_bounds(field.data_type()).filter(|_| is_integer(field.data_type())) {
        Some((low, high)) => ColumnInfo::int(field.clone(), low, high, field.is_nullable()),
        None => ColumnInfo::plain(field.clone()),
    }
}

/// A pipe of a source's rows.
pub(crate) fn pipe(flow: &Flow<'_>, source: &Arc<dyn RowSource>, columns: &[usize]) -> Result<Pipe, ExecError> {
    let schema = source.schema();
    let infos = columns.iter().map(|&column| {
        let info = info_of(&schema.fields()[column]);
        match (source.bounds(column), info.bounds()) {
            (Some((low, high)), Some(_)) => ColumnInfo::int(info.field.clone(), low, high, info.nullable),
            _ => info,
        }
    });
    let infos: Arc<[ColumnInfo]> = infos.collect();
    let pieces = source.open(columns, flow.run.threads)?;
    let rows = source.rows().unwrap_or(u64::from(u32::MAX));
    let done = (0..pieces.pieces()).map(|_| AtomicBool::new(false)).collect();
    let per_piece = rows.div_ceil(pieces.pieces().max(1) as u64).min(PART_ROWS as u64) as usize;
    let infos_of_pipe = infos.to_vec();
    Ok(Pipe::of(Box::new(PieceSource { pieces, infos, per_piece, done }), infos_of_pipe, rows))
}

/// The pieces of a source.
struct PieceSource {
    pieces: Box<dyn RowPieces>,
    infos: Arc<[ColumnInfo]>,
    per_piece: usize,
    /// Which pieces have ended.
    done: Vec<AtomicBool>,
}

impl ChunkSource for PieceSource {
    fn morsels(&self) -> usize {
        self.done.len()
    }

    fn morsel_rows(&self) -> usize {
        self.per_piece
    }

    fn has_more(&self, morsel: usize) -> bool {
        !self.done[morsel].load(Relaxed)
    }

    fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let mut given = 0;
        while given < PART_ROWS {
            run.check()?;
            let Some(batch) = self.pieces.next(morsel)? else {
                self.done[morsel].store(true, Relaxed);
                return Ok(true);
            };
            given += batch.num_rows();
            if !hand_out(&batch, &self.infos, run, out)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The rows of a batch, in chunks.
fn hand_out(batch: &RecordBatch, infos: &[ColumnInfo], run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
    for start in (0..batch.num_rows()).step_by(CHUNK_ROWS) {
        run.check()?;
        let rows = CHUNK_ROWS.min(batch.num_rows() - start);
        let mut chunk = Chunk::empty(rows);
        for (column, info) in batch.columns().iter().zip(infos) {
            chunk.push(Arc::new(info.vector_of(&column.slice(start, rows))));
        }
        if !out(chunk)? {
            return Ok(false);
        }
    }
    Ok(true)
}
