//! The rows of the log, in pieces that views share.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, MutableArrayData, RecordBatch, UInt32Array, make_array, new_empty_array};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::DataType;
use numa::{Budget, Reservation};

use crate::error::StoreError;
use crate::segment::Segment;

/// An open chunk closes with the entry that brings it to this many rows.
pub(super) const CHUNK_ROWS: usize = 1024;
/// Chunks that make one segment once there are so many: a scan takes time for each segment, whatever its rows.
pub(super) const RUN_CHUNKS: usize = 8;
/// Singles that are merged into a group. Chunks close before there are more groups than that.
const GROUP_PIECES: usize = 32;
/// An array may hold twice what its rows need and this much more before they are copied.
const SLACK_BYTES: usize = 1024;

const _: () = assert!(GROUP_PIECES * GROUP_PIECES == CHUNK_ROWS);

/// The rows of a log up to one of its entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    rows: u32,
    /// Closed chunks.
    chunks: Arc<Vec<Arc<Piece>>>,
    /// The rows behind the chunks: merged entries first, then single ones.
    groups: Vec<Arc<Piece>>,
    singles: Vec<Arc<Piece>>,
    /// The rows behind the chunks encoded; logs with the same rows share it.
    tail: Arc<OnceLock<Arc<Segment>>>,
    /// Bytes charged.
    bytes: u64,
}

/// Consecutive rows.
#[derive(Debug)]
struct Piece {
    /// Number of the first row.
    first: u32,
    rows: u32,
    columns: Vec<ArrayRef>,
    charge: Reservation,
    /// Of a chunk: its segment, once somebody needed it.
    encoded: OnceLock<Arc<Segment>>,
    /// Of the last chunk of a run: the run's segment. No log has it behind other chunks.
    run: OnceLock<Arc<Segment>>,
}

/// Rows that make one segment.
pub(super) struct LogSegment<'a> {
    pieces: Vec<&'a Arc<Piece>>,
    /// Where the segment is kept once it is encoded.
    pub(super) encoded: &'a OnceLock<Arc<Segment>>,
    /// Numbers of the rows.
    pub(super) rows: Range<u32>,
}

/// Rows of a log that lie together.
pub(super) struct LogRows(Arc<Piece>);

impl LogRows {
    /// The value of a column in one of them.
    pub(super) fn value(&self, column: usize, row: u32) -> ArrayRef {
        let values = &self.0.columns[column];
        match values.len() {
            1 => Arc::clone(values),
            _ => values.slice((row - self.0.first) as usize, 1),
        }
    }
}

impl Log {
    /// A log whose first `rows` rows are nowhere.
    #[cfg(test)]
    pub(super) fn starting_at(rows: u32) -> Log {
        Log { rows, ..Log::default() }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    /// Bytes charged.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds the rows of one more entry, one at least, and gives their numbers.
    ///
    /// # Errors
    /// [`StoreError::Memory`], [`StoreError::TooManyRows`] where row numbers end; then nothing was added.
    pub(super) fn push(&mut self, batch: &RecordBatch, budget: &Arc<Budget>) -> Result<Range<u32>, StoreError> {
        let end = self.end_with(batch.num_rows())?;
        let columns = batch.columns().iter().map(unshared).collect::<Result<_, _>>()?;
        let piece = Arc::new(Piece::new(self.rows, end - self.rows, columns, budget)?);
        let bytes = piece.charge.bytes();
        if (end - self.tail_first()) as usize >= CHUNK_ROWS {
            let pieces: Vec<_> = self.groups.iter().chain(&self.singles).chain([&piece]).collect();
            let chunk = Piece::merged(&pieces, budget)?;
            self.bytes -= bytes_of(&self.groups) + bytes_of(&self.singles);
            self.bytes += chunk.charge.bytes();
            self.groups.clear();
            self.singles.clear();
            Arc::make_mut(&mut self.chunks).push(chunk);
        } else if self.singles.len() + 1 == GROUP_PIECES {
            let pieces: Vec<_> = self.singles.iter().chain([&piece]).collect();
            let group = Piece::merged(&pieces, budget)?;
            self.bytes -= bytes_of(&self.singles);
            self.bytes += group.charge.bytes();
            self.singles.clear();
            self.groups.push(group);
        } else {
            self.bytes += bytes;
            self.singles.push(piece);
        }
        // Who has the log as it was keeps its rows' segment.
        self.tail = Arc::default();
        let rows = self.rows..end;
        self.rows = end;
        Ok(rows)
    }

    /// How many rows there are with `rows` more.
    ///
    /// # Errors
    /// [`StoreError::TooManyRows`] where row numbers end.
    pub(super) fn end_with(&self, rows: usize) -> Result<u32, StoreError> {
        let rows_max = (u32::MAX - self.rows) as usize;
        match u32::try_from(rows).ok().filter(|&rows| rows as usize <= rows_max) {
            Some(rows) => Ok(self.rows + rows),
            None => Err(StoreError::TooManyRows { rows, rows_max }),
        }
    }

    /// The rows that lie together with a row.
    pub(super) fn beside(&self, row: u32) -> LogRows {
        LogRows(Arc::clone(self.piece_of(row)))
    }

    /// The values of a column of type `data_type` at `rows`.
    pub(super) fn take(&self, column: usize, data_type: &DataType, rows: &[u32]) -> ArrayRef {
        let Some(&first) = rows.first() else { return new_empty_array(data_type) };
        let piece = self.piece_of(first);
        if rows.iter().all(|row| piece.range().contains(row)) {
            let rows: UInt32Array = rows.iter().map(|row| row - piece.first).collect();
            return take(piece.columns[column].as_ref(), &rows, None).expect("rows of the piece");
        }
        let of_rows: Vec<&Arc<Piece>> = rows.iter().map(|&row| self.piece_of(row)).collect();
        let mut used = of_rows.clone();
        used.sort_unstable_by_key(|piece| piece.first);
        used.dedup_by_key(|piece| piece.first);
        let place = |(&row, piece): (&u32, &Arc<Piece>)| {
            let place = used.partition_point(|other| other.first < piece.first);
            (place, (row - piece.first) as usize)
        };
        let places: Vec<(usize, usize)> = rows.iter().zip(of_rows).map(place).collect();
        let arrays: Vec<&dyn Array> = used.iter().map(|piece| piece.columns[column].as_ref()).collect();
        interleave(&arrays, &places).expect("rows of pieces of one type")
    }

    /// Into how many segments the rows go.
    pub(super) fn segments(&self) -> usize {
        self.closed() + usize::from(self.tail_first() < self.rows)
    }

    /// Segments of whole runs, and of chunks behind those.
    fn closed(&self) -> usize {
        self.chunks.len() / RUN_CHUNKS + self.chunks.len() % RUN_CHUNKS
    }

    /// The numbers of the rows of a segment.
    pub(super) fn segment_rows(&self, place: usize) -> Option<Range<u32>> {
        match self.chunks_of(place) {
            Some(chunks) => Some(rows_of(chunks)),
            None => (place < self.segments()).then(|| self.tail_first()..self.rows),
        }
    }

    /// Which segment a row goes into, and which row of it that is.
    pub(super) fn place_of(&self, row: u32) -> Option<(usize, u32)> {
        let (mut place, mut behind) = (0, self.segments());
        while place + 1 < behind {
            let middle = place + (behind - place) / 2;
            match self.segment_rows(middle)?.start <= row {
                true => place = middle,
                false => behind = middle,
            }
        }
        let rows = self.segment_rows(place)?;
        rows.contains(&row).then(|| (place, row - rows.start))
    }

    /// The chunks of a segment; `None` behind them.
    fn chunks_of(&self, place: usize) -> Option<&[Arc<Piece>]> {
        let runs = self.chunks.len() / RUN_CHUNKS;
        match place {
            _ if place < runs => Some(&self.chunks[place * RUN_CHUNKS..][..RUN_CHUNKS]),
            _ if place < self.closed() => Some(&self.chunks[runs * RUN_CHUNKS + place - runs..][..1]),
            _ => None,
        }
    }

    /// What each segment of chunks is made of.
    pub(super) fn closed_segments(&self) -> impl Iterator<Item = LogSegment<'_>> {
        (0..self.closed()).filter_map(|place| self.chunks_of(place)).map(|chunks| LogSegment {
            encoded: match chunks {
                [chunk] => &chunk.encoded,
                run => &run[run.len() - 1].run,
            },
            pieces: chunks.iter().collect(),
            rows: rows_of(chunks),
        })
    }

    /// What the segment of the rows behind the chunks is made of, if there are any.
    pub(super) fn tail(&self) -> Option<LogSegment<'_>> {
        let rows = self.tail_first()..self.rows;
        let pieces = || self.groups.iter().chain(&self.singles).collect();
        (!rows.is_empty()).then(|| LogSegment { pieces: pieces(), encoded: &self.tail, rows })
    }

    /// Number of the first row behind the chunks.
    fn tail_first(&self) -> u32 {
        self.chunks.last().map_or(0, |chunk| chunk.range().end)
    }

    fn piece_of(&self, row: u32) -> &Arc<Piece> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let lists = [&self.singles, &self.groups, self.chunks.as_ref()];
        let list = lists.into_iter().find(|list| list.first().is_some_and(|piece| piece.first <= row));
        let list = list.expect("pieces cover all rows");
        &list[list.partition_point(|piece| piece.first <= row) - 1]
    }
}

impl Piece {
    fn new(first: u32, rows: u32, columns: Vec<ArrayRef>, budget: &Arc<Budget>) -> Result<Piece, StoreError> {
        let bytes: usize = columns.iter().map(|column| column.get_array_memory_size()).sum();
        let charge = budget.reserve((size_of::<Piece>() + bytes) as u64)?;
        Ok(Piece { first, rows, columns, charge, encoded: OnceLock::new(), run: OnceLock::new() })
    }

    /// Consecutive pieces, one at least, as one.
    fn merged(pieces: &[&Arc<Piece>], budget: &Arc<Budget>) -> Result<Arc<Piece>, StoreError> {
        if let [piece] = pieces {
            return Ok(Arc::clone(piece));
        }
        let rows = pieces.iter().map(|piece| piece.rows).sum();
        let columns = concatenated(pieces)?.iter().map(without_gaps).collect();
        Ok(Arc::new(Piece::new(pieces[0].first, rows, columns, budget)?))
    }

    fn range(&self) -> Range<u32> {
        self.first..self.first + self.rows
    }
}

fn bytes_of(pieces: &[Arc<Piece>]) -> u64 {
    pieces.iter().map(|piece| piece.charge.bytes()).sum()
}

/// Numbers of the rows of consecutive pieces, one at least.
fn rows_of(pieces: &[Arc<Piece>]) -> Range<u32> {
    pieces[0].range().start..pieces[pieces.len() - 1].range().end
}

impl LogSegment<'_> {
    /// What it is encoded, which it is.
    pub(super) fn segment(&self) -> &Arc<Segment> {
        self.encoded.get().expect("the rows are encoded")
    }

    /// The columns of the rows.
    ///
    /// # Errors
    /// [`StoreError::Arrow`].
    pub(super) fn columns(&self) -> Result<Vec<ArrayRef>, StoreError> {
        concatenated(&self.pieces)
    }
}

fn concatenated(pieces: &[&Arc<Piece>]) -> Result<Vec<ArrayRef>, StoreError> {
    if let [piece] = pieces {
        return Ok(piece.columns.clone());
    }
    let column = |column: usize| {
        let arrays: Vec<&dyn Array> = pieces.iter().map(|piece| piece.columns[column].as_ref()).collect();
        Ok(concat(&arrays)?)
    };
    (0..pieces[0].columns.len()).map(column).collect()
}

/// The array, or a copy of its values where it holds on to much more memory than they need.
fn unshared(array: &ArrayRef) -> Result<ArrayRef, StoreError> {
    let held = array.get_array_memory_size();
    if held <= SLACK_BYTES || held <= 2 * needed(array.as_ref()) + SLACK_BYTES {
        return Ok(Arc::clone(array));
    }
    let data = array.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, array.len());
    copy.try_extend(0, 0, array.len())?;
    Ok(without_gaps(&make_array(copy.freeze())))
}

/// Bytes that the rows of a batch will hold once they are added, nearly.
pub(super) fn bytes_with(rows: &RecordBatch) -> u64 {
    let of_column = |column: &ArrayRef| match column.get_array_memory_size() {
        held if held <= SLACK_BYTES => held,
        held => held.min(2 * needed(column.as_ref()) + SLACK_BYTES),
    };
    rows.columns().iter().map(of_column).sum::<usize>() as u64
}

/// Bytes that the values of an array take, whatever else is in its buffers.
fn needed(array: &dyn Array) -> usize {
    let of_own = |array: &dyn Array| array.len() * size_of::<i32>() + array.len().div_ceil(8);
    match array.data_type() {
        DataType::Utf8View => 16 * array.len() + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => 16 * array.len() + array.as_binary_view().total_buffer_bytes_used(),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let (first, end) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
            of_own(array) + needed(&lists.values().slice(first as usize, (end - first) as usize))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns();
            array.len().div_ceil(8) + columns.iter().map(|column| needed(column)).sum::<usize>()
        }
        // How much of its children a slice of others needs is not told: a copy is smaller or as large.
        nested if nested.is_nested() => 0,
        _ => array.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

/// The array; where its values are views, with one buffer that holds just what they need.
fn without_gaps(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => Arc::clone(array),
    }
}
