//! Rows of a pipe that are kept, and pipes of rows that were.

use std::sync::Arc;

use numa::{NodeId, Reservation};
use parking_lot::Mutex;

use super::drive::for_each_morsel;
use super::{ChunkSource, Out, Pipe};
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, Vector};
use crate::chunk::{CHUNK_ROWS, Chunk, Origin, RowIds, Rows, check_kept};
use crate::tasks::places::current_node;
use crate::tasks::run::Run;
use crate::tasks::traffic::{self, KeptColumn};

/// Values, and the node on which they lie.
type PlacedVector = (Arc<Vector>, Option<NodeId>);

/// Rows that one task takes of rows that were kept.
const ROWS_PER_MORSEL: usize = 16 * CHUNK_ROWS;

/// All rows of a pipe, in order; those that were kept are not copied.
pub(crate) fn rows_of(pipe: &Pipe, run: &Run<'_>) -> Result<Arc<Rows>, ExecError> {
    match pipe.kept() {
        Some(rows) => Ok(rows.clone()),
        None => Ok(Arc::new(collect(pipe, run, None)?)),
    }
}

/// A pipe of rows that were kept.
pub(crate) fn of_rows(rows: Arc<Rows>) -> Pipe {
    let (infos, count) = (rows.infos.clone(), rows.rows as u64);
    Pipe::of(Box::new(RowsSource::new(rows)), infos, count)
}

/// Runs a pipe and keeps its rows in order; the first `needed` at least, if that is given.
pub(crate) fn collect(pipe: &Pipe, run: &Run<'_>, needed: Option<usize>) -> Result<Rows, ExecError> {
    let needed = needed.unwrap_or(usize::MAX);
    let done = Mutex::new(Done { counts: vec![None; pipe.morsels()], prefix: 0, rows: 0, all: 0 });
    let kept: Vec<Mutex<Kept>> = (0..pipe.morsels()).map(|_| Mutex::default()).collect();
    for_each_morsel(pipe, run, "keep rows", &|morsel| {
        if done.lock().rows >= needed {
            return Ok(());
        }
        let mut mine = Kept::default();
        pipe.run(morsel, run, &mut |mut chunk: Chunk| {
            mine.take(&mut chunk, pipe.infos.len(), run)?;
            Ok(mine.rows < needed)
        })?;
        traffic::note_kept(traffic::ROWS_KEPT, mine.bytes);
        mine.node = current_node();
        check_kept(done.lock().end(morsel, mine.rows))?;
        *kept[morsel].lock() = mine;
        Ok(())
    })?;
    let kept: Vec<Kept> = kept.into_iter().map(Mutex::into_inner).collect();
    joined(kept, &pipe.infos, run)
}

fn joined(kept: Vec<Kept>, infos: &[ColumnInfo], run: &Run<'_>) -> Result<Rows, ExecError> {
    let rows = kept.iter().map(|k| k.rows).sum();
    check_kept(rows)?;
    let mut reservations = Vec::new();
    let mut columns: Vec<Vec<(Arc<Vector>, Option<NodeId>)>> = vec![Vec::new(); infos.len()];
    for part in kept {
        reservations.extend(part.reservations);
        for (column, vectors) in columns.iter_mut().zip(part.columns) {
            column.extend(vectors.into_iter().map(|vector| (vector, part.node)));
        }
    }
    // A column is put together while its pieces are still there: that much more for a moment.
    let columns: Vec<Mutex<Vec<PlacedVector>>> = columns.into_iter().map(Mutex::new).collect();
    let columns = run.map(infos.len(), &|c| {
        let parts = std::mem::take(&mut *columns[c].lock());
        let lies = match parts.as_slice() {
            [] => return Ok((Arc::new(infos[c].empty()), None)),
            [(_, node)] => *node,
            several => {
                let read = |(vector, node): &(Arc<Vector>, Option<NodeId>)| {
                    traffic::note_kept_read(traffic::ROWS_KEPT, *node, vector.bytes());
                };
                several.iter().for_each(read);
                traffic::note_kept(traffic::ROWS_KEPT, several.iter().map(|(vector, _)| vector.bytes()).sum());
                current_node()
            }
        };
        let own = parts.into_iter().map(|(p, _)| Arc::try_unwrap(p).unwrap_or_else(|shared| (*shared).clone()));
        Ok((Arc::new(Vector::concat(own.collect())), lies))
    })?;
    let (columns, nodes): (Vec<Arc<Vector>>, Vec<Option<NodeId>>) = columns.into_iter().unzip();
    let lies = columns.iter().zip(nodes).map(|(c, node)| KeptColumn { bytes: c.bytes(), rows, node });
    let lies = Some(run.traffic.kept_rows(traffic::ROWS_KEPT, lies));
    Ok(Rows { infos: infos.to_vec(), columns, rows, _charged: reservations, lies })
}

/// How far a pipe whose rows are kept has come.
struct Done {
    counts: Vec<Option<usize>>,
    prefix: usize,
    /// Rows of the first `prefix` morsels.
    rows: usize,
    /// Rows of all that have ended.
    all: usize,
}

impl Done {
    /// Counts a morsel; how many rows there are.
    fn end(&mut self, morsel: usize, rows: usize) -> usize {
        self.counts[morsel] = Some(rows);
        self.all = self.all.saturating_add(rows);
        while let Some(Some(rows)) = self.counts.get(self.prefix) {
            self.rows = self.rows.saturating_add(*rows);
            self.prefix += 1;
        }
        self.all
    }
}

/// Rows of one morsel that are kept.
#[derive(Default)]
struct Kept {
    columns: Vec<Vec<Arc<Vector>>>,
    rows: usize,
    reservations: Vec<Reservation>,
    bytes: u64,
    /// The node of the task that wrote them.
    node: Option<NodeId>,
}

impl Kept {
    fn take(&mut self, chunk: &mut Chunk, columns: usize, run: &Run<'_>) -> Result<(), ExecError> {
        self.columns.resize(columns, Vec::new());
        let mut bytes = 0;
        for (c, kept) in self.columns.iter_mut().enumerate() {
            let vector = chunk.column(c);
            bytes += vector.bytes();
            kept.push(vector);
        }
        self.rows += chunk.rows();
        self.bytes += bytes;
        match self.reservations.last_mut() {
            Some(reservation) => reservation.grow(bytes)?,
            None => self.reservations.push(run.reserve(bytes)?),
        }
        Ok(())
    }
}

/// Rows that were kept.
pub(crate) struct RowsSource {
    rows: Arc<Rows>,
    node: Option<NodeId>,
}

impl RowsSource {
    /// Wherever they lie.
    pub(crate) fn new(rows: Arc<Rows>) -> RowsSource {
        RowsSource { rows, node: None }
    }

    /// All on a node, if one is given: whoever reads them had better run there.
    pub(crate) fn near(rows: Arc<Rows>, node: Option<NodeId>) -> RowsSource {
        RowsSource { rows, node }
    }
}

impl ChunkSource for RowsSource {
    fn kept(&self) -> Option<&Arc<Rows>> {
        Some(&self.rows)
    }

    fn morsels(&self) -> usize {
        self.rows.rows.div_ceil(ROWS_PER_MORSEL)
    }

    fn node_of(&self, _morsel: usize) -> Option<NodeId> {
        self.node
    }

    fn run(&self, morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        self.run_in(morsel, CHUNK_ROWS, run, out)
    }

    fn run_in(&self, morsel: usize, most: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let mut start = morsel * ROWS_PER_MORSEL;
        let end = (start + ROWS_PER_MORSEL).min(self.rows.rows);
        run.check()?;
        while start < end {
            let rows = start..(start + most).min(end);
            start = rows.end;
            if !out(Chunk::of(Origin::Rows(self.rows.clone()), RowIds::Range(rows)))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::KEPT_ROWS_MAX;
    use crate::chunk::vector::NO_ROW;

    #[test]
    fn rows_that_are_kept_have_numbers_of_their_own() {
        let mut done = Done { counts: vec![None; 3], prefix: 0, rows: 0, all: 0 };
        let half = 1 << 31;
        assert!(check_kept(done.end(2, half)).is_ok());
        assert!(check_kept(done.end(0, half - 1)).is_ok(), "the last number is {NO_ROW}, which no row has");
        let error = check_kept(done.end(1, 1)).unwrap_err();
        assert!(matches!(error, ExecError::TooManyRows { rows, most } if rows == 1 << 32 && most == KEPT_ROWS_MAX));
        assert!(error.to_string().contains("4294967296 rows"), "{error}");
        assert_eq!(done.rows, 1 << 32);
    }
}
