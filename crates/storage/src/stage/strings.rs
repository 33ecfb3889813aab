//! Staging a column of strings or binary values: as ids while a dictionary pays, as they are from then on.

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
use crate::stage::table::StringTable;
use crate::stage::validity::OpenValidity;
use crate::strings::BUFFER_BYTES_MAX;

/// A dictionary with more than this share of the rows (as a percentage) does not pay.
const DISTINCT_PERCENT_MAX: usize = 40;
/// No more ids than this, so that every one has a code beside NULL's.
const IDS_MAX: usize = u32::MAX as usize - 2;

/// One string column of a producer.
pub(crate) struct StringStage {
    column: String,
    allocator: Allocator,
    mode: Mode,
    /// Whether the column may be staged as it is.
    may_be_plain: bool,
    /// Bytes of all values.
    total_bytes: usize,
}

enum Mode {
    Coded(Box<OpenIds>),
    Plain(Box<BytesWriter>),
}

/// The dictionary so far, the ids of the open chunk and the chunks before it.
struct OpenIds {
    table: StringTable,
    ids: RegionVec<u32>,
    validity: OpenValidity,
    chunks: Vec<NumberChunk>,
}

/// What is left of it.
pub(crate) enum StagedStrings {
    /// Ids of the table's values.
    Coded { table: Box<StringTable>, chunks: Vec<NumberChunk>, total_bytes: usize },
    /// The values.
    Plain { pieces: Vec<StagedPiece>, total_bytes: usize },
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
            })),
            may_be_plain: true,
            total_bytes: 0,
        }
    }

    /// Appends an array of strings or binary values, in any of arrow's layouts but dictionaries.
    pub(crate) fn append(&mut self, array: &dyn Array) -> Result<(), StoreError> {
        let (rows, nulls) = (0..array.len(), array.nulls());
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

    /// Encodes values that another producer's dictionary does pay for after all.
    pub(crate) fn encoded(pieces: &[StagedPiece], allocator: &Allocator) -> Result<StagedStrings, StoreError> {
        let mut stage = StringStage::new("", allocator);
        stage.may_be_plain = false;
        for piece in pieces {
            let PlainData::Bytes(data) = piece.data.as_ref() else { unreachable!("strings are kept as bytes") };
            stage.append_piece(piece, data)?;
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
            Mode::Plain(writer) => StagedStrings::Plain { pieces: writer.finish(), total_bytes },
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
                Mode::Plain(writer) => {
                    writer.append(nulls, from..rows.end, &value)?;
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

    /// Seals the open chunk, and changes to plain staging once the dictionary does not pay.
    fn seal(&mut self) -> Result<(), StoreError> {
        let Mode::Coded(open) = &mut self.mode else { return Ok(()) };
        let OpenIds { table, ids, validity, chunks } = open.as_mut();
        if ids.len() == 0 {
            return Ok(());
        }
        let nulls = validity.nulls();
        chunks.push(NumberChunk::seal_ids(ids.as_slice(), nulls, validity.seal(), &self.allocator)?);
        ids.clear();
        let rows: usize = chunks.iter().map(|chunk| chunk.rows).sum();
        let too_many = table.len() * 100 > rows * DISTINCT_PERCENT_MAX && rows >= GRANULE_ROWS;
        if self.may_be_plain && (too_many || table.len() > IDS_MAX - GRANULE_ROWS) {
            let mut writer = BytesWriter::new(&self.allocator);
            for chunk in chunks.drain(..) {
                decode_ids(&chunk, 0..chunk.rows, table, &mut writer)?;
            }
            self.mode = Mode::Plain(Box::new(writer));
        }
        Ok(())
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
