//! [`BuildSource`]: rows of the build side once the probe side has been drained: those without a match, those with one,
//! or all of them with a mark.

use std::sync::Arc;

use numa::Reservation;

use super::probe::Bits;
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, NO_ROW, Vector};
use crate::chunk::{CHUNK_ROWS, Chunk, Origin, RowIds, Rows};
use crate::pipe::{ChunkSource, Out};
use crate::tasks::run::Run;

/// Rows that one task takes.
const ROWS_PER_MORSEL: usize = 16 * CHUNK_ROWS;

/// What is beside the columns of the build side.
pub(super) enum Beside {
    /// Nothing.
    Nothing,
    /// NULLs for the columns of the probe side; the order of the columns, which are made as probe, then build.
    Nulls(Arc<Rows>, Option<Vec<usize>>),
    /// Which rows have a match.
    Mark(Arc<Bits>),
}

/// Rows of the build side.
pub(super) struct BuildSource {
    build: Arc<Rows>,
    /// Which rows; all if absent.
    rows: Option<Vec<u32>>,
    beside: Beside,
    _charged: Reservation,
}

impl BuildSource {
    /// The rows that pass, or all of them.
    pub(super) fn new(
        build: Arc<Rows>,
        passes: Option<&dyn Fn(usize) -> bool>,
        beside: Beside,
        run: &Run<'_>,
    ) -> Result<BuildSource, ExecError> {
        let mut charged = run.reserve(0)?;
        let rows = match passes {
            None => None,
            Some(passes) => {
                charged.grow(4 * build.rows as u64)?;
                Some((0..build.rows as u32).filter(|&row| passes(row as usize)).collect())
            }
        };
        Ok(BuildSource { build, rows, beside, _charged: charged })
    }

    /// How many rows come out.
    pub(super) fn rows(&self) -> usize {
        self.rows.as_ref().map_or(self.build.rows, Vec::len)
    }
}

/// Columns without a row: where [`NO_ROW`] is looked up.
pub(super) fn no_rows(infos: &[ColumnInfo]) -> Arc<Rows> {
    let columns = infos.iter().map(|info| Arc::new(info.empty())).collect();
    Arc::new(Rows { infos: infos.to_vec(), columns, rows: 0, _charged: Vec::new(), lies: None })
}

impl ChunkSource for BuildSource {
    fn morsels(&self) -> usize {
        self.rows().div_ceil(ROWS_PER_MORSEL)
    }

    fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        run.check()?;
        let mut start = morsel * ROWS_PER_MORSEL;
        let end = (start + ROWS_PER_MORSEL).min(self.rows());
        while start < end {
            let range = start..(start + CHUNK_ROWS).min(end);
            start = range.end;
            let rows = range.len();
            let ids = match &self.rows {
                Some(list) => RowIds::list(list[range.clone()].to_vec()),
                None => RowIds::Range(range.clone()),
            };
            let origin = Origin::Rows(self.build.clone());
            let chunk = match &self.beside {
                Beside::Nothing => Chunk::of(origin, ids),
                Beside::Mark(bits) => {
                    let mut chunk = Chunk::of(origin, ids);
                    chunk.push(Arc::new(Vector::ints(range.map(|row| i64::from(bits.get(row))).collect())));
                    chunk
                }
                Beside::Nulls(nothing, columns) => {
                    let mut chunk = Chunk::empty(rows);
                    chunk.append(Origin::Rows(nothing.clone()), RowIds::list(vec![NO_ROW; rows]), true);
                    chunk.append(origin, ids, false);
                    match columns {
                        Some(columns) => chunk.project(columns),
                        None => chunk,
                    }
                }
            };
            if !out(chunk)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
