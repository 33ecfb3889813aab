//! Staging a column of strings or binary values: as ids while a dictionary will likely pay, as they are from then on.
//!
//! The first rows of a column with 100,000 values look nearly distinct, so it is not their share of values that decides
//! but the share that they foretell for [`FORETOLD_TIMES`] as many rows ([`Seen`]); each further chunk decides again.
//! What is staged as it is keeps a [`Sketch`], by which `build` may still make a dictionary of it.

use std::ops::Range;

use arrow::array::{Array, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use numa::Allocator;

use crate::GRANULE_ROWS;
use crate::error::StoreError;
use crate::plain::{BytesData, PlainData};
use crate::region_vec::RegionVec;
use crate::stage::bytes::{BytesWriter, StagedPiece};
use crate::stage::chunk::NumberChunk;
use crate::stage::distinct::{Seen, Sketch};
use crate::stage::table::StringTable;
use crate::stage::validity::OpenValidity;
use crate::strings::BUFFER_BYTES_MAX;

/// A dictionary with more than this share of the rows (as a percentage) does not pay.
const DISTINCT_PERCENT_MAX: usize = 40;
/// How many times the rows that were seen a column is taken to have in the end: a dictionary that pays by then is kept.
const FORETOLD_TIMES: usize = 16;
/// Of `n` rows of a chunk the last one's worth tells how values come at its end.
const LATE_SHARE: usize = 4;
/// How often a value came is counted up to this.
const TIMES_MAX: u8 = 3;
/// No more ids than this, so that every one has a code beside NULL's.
const IDS_MAX: usize = u32::MAX as usize - 2;
/// The table takes fewer ids than that by a chunk, so that one more chunk of fresh values fits.
pub(crate) const VALUES_MAX: usize = IDS_MAX - GRANULE_ROWS;

/// One string column of a producer.
pub(crate) struct StringStage {
    column: String,
    allocator: Allocator,
    mode: Mode,
    /// A dictionary of `n` values is worth it, whatever is foretold.
    values_kept: Option<usize>,
    /// Bytes of all values.
    total_bytes: usize,
}

enum Mode {
    Coded(Box<OpenIds>),
    Plain(Box<OpenPlain>),
}

/// Values as they are, and about how many different ones.
struct OpenPlain {
    writer: BytesWriter,
    sketch: Sketch,
}

/// The dictionary so far, the ids of the open chunk and the chunks before it.
struct OpenIds {
    table: StringTable,
    ids: RegionVec<u32>,
    validity: OpenValidity,
    chunks: Vec<NumberChunk>,
    times: Times,
}

/// How often each id came, up to [`TIMES_MAX`]; counted only where it is asked for.
struct Times {
    of_ids: RegionVec<u8>,
    /// Chunks that are counted.
    chunks: usize,
    rows: usize,
}

/// What is left of it.
pub(crate) enum StagedStrings {
    /// Ids of the table's values.
    Coded { table: Box<StringTable>, chunks: Vec<NumberChunk>, total_bytes: usize },
    /// The values, and about how many different ones.
    Plain { pieces: Vec<StagedPiece>, total_bytes: usize, sketch: Box<Sketch> },
}

impl StringStage {
    pub(crate) fn new(column: &str, allocator: &Allocator) -> Self {
        StringStage {
            column: column.to_string(),
            allocator: allocator.clone(),
            mode: Mode::Coded(Box::new(OpenIds {
                table: StringTable::new(allocator),
                ids: RegionVec::new(allocator),
                validity: OpenValidity::new(allocator),
                chunks: Vec::new(),
                times: Times { of_ids: RegionVec::new(allocator), chunks: 0, rows: 0 },
            })),
            values_kept: None,
            total_bytes: 0,
        }
    }

    /// Appends an array of strings or binary values, in any of arrow's layouts but dictionaries.
    pub(crate) fn append(&mut self, array: &dyn Array) -> Result<(), StoreError> {
        let rows = 0..array.len();
        let nulls = array.nulls();
        match array.data_type() {
            DataType::Utf8View => {
                let array = array.as_string_view();
                self.append_values(nulls, rows, |i| array.value(i).as_bytes())
            }
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                self.append_values(nulls, rows, |i| array.value(i).as_bytes())
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                self.append_values(nulls, rows, |i| array.value(i).as_bytes())
            }
            DataType::BinaryView => {
                let array = array.as_binary_view();
                self.append_values(nulls, rows, |i| array.value(i))
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                self.append_values(nulls, rows, |i| array.value(i))
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                self.append_values(nulls, rows, |i| array.value(i))
            }
            _ => {
                let array = array.as_fixed_size_binary();
                self.append_values(nulls, rows, |i| array.value(i))
            }
        }
    }

    /// Encodes values that a dictionary of up to `values_max` values does pay for after all, and frees each piece once
    /// its ids are there. With more values (but for a chunk) they are staged as they are again.
    pub(crate) fn encoded(
        pieces: Vec<StagedPiece>,
        values_max: usize,
        allocator: &Allocator,
    ) -> Result<StagedStrings, StoreError> {
        let mut stage = StringStage::new("", allocator);
        stage.values_kept = Some(values_max.min(VALUES_MAX));
        for piece in pieces {
            let PlainData::Bytes(data) = piece.data.as_ref() else { unreachable!("strings are kept as bytes") };
            stage.append_piece(&piece, data)?;
        }
        stage.finish()
    }

    /// Seals what is open and hands everything over.
    pub(crate) fn finish(mut self) -> Result<StagedStrings, StoreError> {
        self.seal()?;
        let total_bytes = self.total_bytes;
        Ok(match self.mode {
            Mode::Coded(open) => {
                let OpenIds { mut table, chunks, .. } = *open;
                table.freeze();
                StagedStrings::Coded { table: Box::new(table), chunks, total_bytes }
            }
            Mode::Plain(open) => {
                let OpenPlain { writer, sketch } = *open;
                StagedStrings::Plain { pieces: writer.finish(), total_bytes, sketch: Box::new(sketch) }
            }
        })
    }

    fn append_piece(&mut self, piece: &StagedPiece, data: &BytesData) -> Result<(), StoreError> {
        let all = data.all_bytes();
        let nulls = data.validity.is_some().then(|| (0..piece.rows).map(|row| piece.data.is_valid(row)).collect());
        self.append_values(nulls.as_ref(), 0..piece.rows, |row| &all[data.range(row)])
    }

    fn append_values<'a>(
        &mut self,
        nulls: Option<&NullBuffer>,
        rows: Range<usize>,
        value: impl Fn(usize) -> &'a [u8],
    ) -> Result<(), StoreError> {
        for row in rows.clone() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                let bytes = value(row).len();
                if bytes > BUFFER_BYTES_MAX {
                    return Err(StoreError::ValueTooLong { column: self.column.clone(), bytes });
                }
                self.total_bytes += bytes;
            }
        }
        let mut from = rows.start;
        while from < rows.end {
            match &mut self.mode {
                Mode::Plain(open) => {
                    let valid = |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
                    (from..rows.end).filter(valid).for_each(|row| open.sketch.add(value(row)));
                    open.writer.append(nulls, from..rows.end, &value)?;
                    return Ok(());
                }
                Mode::Coded(open) => {
                    let OpenIds { table, ids, validity, .. } = open.as_mut();
                    let part = from..rows.end.min(from + GRANULE_ROWS - ids.len());
                    from = part.end;
                    validity.append(nulls, part.clone())?;
                    for (slot, row) in ids.extend(part.len())?.iter_mut().zip(part) {
                        let null = nulls.is_some_and(|nulls| nulls.is_null(row));
                        *slot = if null { 0 } else { table.id_of(value(row))? };
                    }
                    if ids.len() == GRANULE_ROWS {
                        self.seal()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Seals the open chunk, and changes to plain staging where the dictionary will likely not pay.
    fn seal(&mut self) -> Result<(), StoreError> {
        let Mode::Coded(open) = &mut self.mode else { return Ok(()) };
        if open.ids.len() == 0 {
            return Ok(());
        }
        open.seal(&self.allocator)?;
        let too_many = match self.values_kept {
            Some(values_max) => open.table.len() > values_max,
            None => open.table.len() > VALUES_MAX || open.will_not_pay()?,
        };
        if too_many {
            let mut writer = BytesWriter::new(&self.allocator);
            let mut sketch = Sketch::new();
            for chunk in open.chunks.drain(..) {
                decode_ids(&chunk, 0..chunk.rows, &open.table, &mut writer)?;
            }
            (0..open.table.len() as u32).for_each(|id| sketch.add(open.table.value(id)));
            self.mode = Mode::Plain(Box::new(OpenPlain { writer, sketch }));
        }
        Ok(())
    }
}

impl StagedStrings {
    pub(crate) fn rows(&self) -> usize {
        match self {
            StagedStrings::Coded { chunks, .. } => chunks.iter().map(|chunk| chunk.rows).sum(),
            StagedStrings::Plain { .. } => self.plain_rows(),
        }
    }

    /// Rows that are staged as they are.
    pub(crate) fn plain_rows(&self) -> usize {
        match self {
            StagedStrings::Coded { .. } => 0,
            StagedStrings::Plain { pieces, .. } => pieces.iter().map(|piece| piece.rows).sum(),
        }
    }

    /// Bytes of all values.
    pub(crate) fn total_bytes(&self) -> usize {
        match self {
            StagedStrings::Coded { total_bytes, .. } | StagedStrings::Plain { total_bytes, .. } => *total_bytes,
        }
    }

    /// About which values it has.
    pub(crate) fn sketch(&self) -> Sketch {
        match self {
            StagedStrings::Plain { sketch, .. } => sketch.as_ref().clone(),
            StagedStrings::Coded { table, .. } => {
                let mut sketch = Sketch::new();
                (0..table.len() as u32).for_each(|id| sketch.add(table.value(id)));
                sketch
            }
        }
    }
}

impl OpenIds {
    /// Makes a chunk of the open rows.
    fn seal(&mut self, allocator: &Allocator) -> Result<(), StoreError> {
        let nulls = self.validity.nulls();
        self.chunks.push(NumberChunk::seal_ids(self.ids.as_slice(), nulls, self.validity.seal(), allocator)?);
        self.ids.clear();
        Ok(())
    }

    /// Whether there are many values for the rows so far, and will still be when there are more rows.
    fn will_not_pay(&mut self) -> Result<bool, StoreError> {
        let rows: usize = self.chunks.iter().map(|chunk| chunk.rows).sum();
        let doubtful = rows >= GRANULE_ROWS && self.table.len() * 100 > rows * DISTINCT_PERCENT_MAX;
        if !doubtful {
            return Ok(false);
        }
        let in_the_end = rows.saturating_mul(FORETOLD_TIMES);
        Ok(self.seen()?.foretold(in_the_end) as u128 * 100 > in_the_end as u128 * DISTINCT_PERCENT_MAX as u128)
    }

    /// How often the values came so far.
    fn seen(&mut self) -> Result<Seen, StoreError> {
        let OpenIds { table, chunks, times, .. } = self;
        times.of_ids.extend(table.len() - times.of_ids.len())?;
        let mut ids = Vec::new();
        let mut late_rows = 0;
        let mut late_new = 0;
        for chunk in &chunks[times.chunks..] {
            ids.clear();
            chunk.offsets(0..chunk.rows, &mut ids);
            let late_from = chunk.rows - chunk.rows / LATE_SHARE;
            (late_rows, late_new) = (0, 0);
            let of_ids = times.of_ids.as_mut_slice();
            for (row, &id) in ids.iter().enumerate().filter(|(row, _)| chunk.is_valid(*row)) {
                let came = &mut of_ids[id as usize];
                late_rows += usize::from(row >= late_from);
                late_new += usize::from(row >= late_from && *came == 0);
                *came = TIMES_MAX.min(*came + 1);
                times.rows += 1;
            }
        }
        times.chunks = chunks.len();
        let came = |often: u8| times.of_ids.as_slice().iter().filter(|came| **came == often).count();
        Ok(Seen { rows: times.rows, distinct: table.len(), once: came(1), twice: came(2), late_rows, late_new })
    }
}

/// Writes the values of a range of a chunk of ids.
pub(crate) fn decode_ids(
    chunk: &NumberChunk,
    rows: Range<usize>,
    table: &StringTable,
    writer: &mut BytesWriter,
) -> Result<(), StoreError> {
    let mut ids = Vec::with_capacity(rows.len());
    chunk.offsets(rows.clone(), &mut ids);
    let nulls: Option<NullBuffer> = (chunk.nulls > 0).then(|| rows.clone().map(|row| chunk.is_valid(row)).collect());
    writer.append(nulls.as_ref(), 0..rows.len(), |i| table.value(ids[i]))?;
    Ok(())
}
