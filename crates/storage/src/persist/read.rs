//! Bytes back into columns and dictionaries.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use numa::{Allocator, Region};

use super::bytes::Reader;
use super::{
    AFFINE, BlobSource, CODED, DATA_ARRAY, DATA_BYTES, DATA_FIXED, FIXED, PLAIN, ReadBackError, STRINGS, checksum,
};
use crate::affine::Affine;
use crate::coded::{CodedColumn, code_bits};
use crate::column::Column;
use crate::copies::Copies;
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::kernels::words_for;
use crate::mover::replicated;
use crate::placement::ColumnAllocator;
use crate::plain::{BytesData, FixedData, PlainColumn, PlainData, PlainPiece};
use crate::strings::{BUFFER_BYTES_MAX, StringValues};
use crate::types::{Native, Physical, with_native};
use crate::{GRANULE_ROWS, SEGMENT_ROWS_MAX};

type Result<T> = std::result::Result<T, ReadBackError>;

/// The column that [`write_column`](super::write_column) made this head and these blobs of. It gets its memory from
/// `allocator`, as segment number `segment` of its part does; a column of codes gets its dictionary from the caller.
///
/// # Errors
/// [`ReadBackError`].
pub fn read_column(
    head: &[u8],
    source: &dyn BlobSource,
    dictionary: Option<&Arc<Dictionary>>,
    allocator: &ColumnAllocator,
    segment: usize,
) -> Result<Column> {
    let mut reader = Reader::new(head);
    let kind = reader.u8();
    let mut blobs = Blobs { source, next: 0 };
    let rows = reader.u32().map(|rows| rows as usize).filter(|rows| *rows <= SEGMENT_ROWS_MAX);
    let rows = rows.ok_or_else(|| malformed("the column has more rows than a segment"))?;
    let column = match (kind, dictionary) {
        (Some(CODED), Some(dictionary)) => read_coded(&mut reader, &mut blobs, rows, dictionary, allocator, segment)?,
        (Some(PLAIN), _) => read_plain(&mut reader, &mut blobs, rows, allocator, segment)?,
        (Some(CODED), None) => return Err(malformed("the column has codes and no dictionary")),
        _ => return Err(malformed("the column is of no known kind")),
    };
    blobs.end(&reader)?;
    Ok(column)
}

/// The dictionary that [`write_dictionary`](super::write_dictionary) made this head and these blobs of.
///
/// # Errors
/// [`ReadBackError`].
pub fn read_dictionary(head: &[u8], source: &dyn BlobSource, allocator: &ColumnAllocator) -> Result<Dictionary> {
    let mut reader = Reader::new(head);
    let mut blobs = Blobs { source, next: 0 };
    let (kind, len) = (reader.u8(), reader.u32().filter(|len| *len < u32::MAX - 1));
    let len = len.ok_or_else(|| malformed("the dictionary has too many values"))?;
    let data_type = read_type(&mut reader)?;
    let physical = Physical::of(&data_type);
    let memory = allocator.dictionary();
    let mut dictionary = match kind {
        Some(AFFINE) if physical.is_number() => {
            let numbers = || Some((i128::from_le_bytes(reader.array()?), u128::from_le_bytes(reader.array()?)));
            let affine = numbers_of(numbers)?;
            Dictionary::affine(data_type, affine, len)
        }
        Some(FIXED) if physical.is_number() => {
            let bytes = len as usize * physical.width_bytes();
            let region = if len > 0 { Some(blobs.region_of(bytes, &memory)?) } else { None };
            if let Some(region) = &region {
                let ascend = with_native!(physical, N => {
                    region.words::<N>().windows(2).all(|pair| pair[0].wide_key() < pair[1].wide_key())
                });
                if !ascend {
                    return Err(malformed("the values of the dictionary do not ascend"));
                }
            }
            Dictionary::fixed(data_type, region, len)
        }
        Some(STRINGS) if physical == Physical::Bytes => {
            let values = read_strings(&mut reader, &mut blobs, &data_type, len as usize, &memory)?;
            Dictionary::strings(data_type, values)
        }
        _ => return Err(malformed("the dictionary is of no known kind, or its type has no such values")),
    };
    blobs.end(&reader)?;
    if let Some(nodes) = allocator.placement.dictionary.replicas() {
        dictionary = dictionary.moved(replicated(dictionary.copies(), nodes, &allocator.allocator)?);
    }
    Ok(dictionary)
}

fn numbers_of(numbers: impl FnOnce() -> Option<(i128, u128)>) -> Result<Affine> {
    let (base, step) = numbers().filter(|(_, step)| *step > 0).ok_or_else(|| malformed("the steps of a dictionary"))?;
    Ok(Affine { base, step })
}

/// The blobs one after the other.
struct Blobs<'a> {
    source: &'a dyn BlobSource,
    next: usize,
}

impl Blobs<'_> {
    /// The length of the next blob.
    fn len(&self) -> Result<usize> {
        self.source.len_bytes(self.next).ok_or_else(|| malformed("a blob is missing"))
    }

    /// The next blob, of any length but 0, in a region as long.
    fn region(&mut self, allocator: &Allocator) -> Result<Region> {
        let len = self.len()?;
        if len == 0 {
            return Err(malformed("a blob has no bytes"));
        }
        let mut region = allocator.region(len).map_err(StoreError::from)?;
        self.source.read(self.next, &mut region.bytes_mut()[..len]).map_err(ReadBackError::Source)?;
        self.next += 1;
        Ok(region)
    }

    /// The next blob, which must have so many bytes.
    fn region_of(&mut self, bytes: usize, allocator: &Allocator) -> Result<Region> {
        if self.len()? != bytes {
            return Err(malformed(format!("a blob has {} bytes instead of {bytes}", self.len()?)));
        }
        self.region(allocator)
    }

    /// The next blob in memory of the process.
    fn bytes(&mut self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.len()?];
        self.source.read(self.next, &mut bytes).map_err(ReadBackError::Source)?;
        self.next += 1;
        Ok(bytes)
    }

    /// Fails where something is left over.
    fn end(&self, head: &Reader<'_>) -> Result<()> {
        match head.is_empty() && self.source.len_bytes(self.next).is_none() {
            true => Ok(()),
            false => Err(malformed("there is more than the head tells of")),
        }
    }
}

fn malformed(what: impl Into<String>) -> ReadBackError {
    ReadBackError::Malformed(what.into())
}

/// What is missing where a head ends too early.
fn ends() -> ReadBackError {
    malformed("the head ends too early")
}

fn read_coded(
    head: &mut Reader<'_>,
    blobs: &mut Blobs<'_>,
    rows: usize,
    dictionary: &Arc<Dictionary>,
    allocator: &ColumnAllocator,
    segment: usize,
) -> Result<Column> {
    let null_code = head.u8().ok_or_else(ends)? != 0;
    let codes_max = (dictionary.len() + usize::from(null_code)).saturating_sub(1) as u32;
    let mut bounds = Vec::with_capacity(rows.div_ceil(GRANULE_ROWS));
    for _ in 0..rows.div_ceil(GRANULE_ROWS) {
        let (low, high) = (head.u32().ok_or_else(ends)?, head.u32().ok_or_else(ends)?);
        if low > high || high > codes_max {
            return Err(malformed(format!("codes {low} to {high} of a dictionary with the last code {codes_max}")));
        }
        bounds.push((low, high));
    }
    let bits = code_bits(dictionary, null_code);
    let bytes = 4 * words_for(rows, bits);
    let memory = allocator.codes(rows, bits, segment);
    let codes = if bytes > 0 { Some(blobs.region_of(bytes, &memory)?) } else { None };
    let mut column = CodedColumn::new(rows, Arc::clone(dictionary), null_code, codes, bounds);
    if let (Some(nodes), Some(codes)) = (allocator.placement.codes.replicas(), column.codes()) {
        let copies = replicated(codes, nodes, &allocator.allocator)?;
        column = column.moved(Some(copies), Arc::clone(dictionary));
    }
    Ok(Column::Coded(column))
}

/// A piece as a head has it.
struct PieceHead {
    start: usize,
    rows: usize,
    offset: usize,
    data: usize,
}

fn read_plain(
    head: &mut Reader<'_>,
    blobs: &mut Blobs<'_>,
    rows: usize,
    allocator: &ColumnAllocator,
    segment: usize,
) -> Result<Column> {
    let data_type = read_type(head)?;
    let mut pieces = Vec::with_capacity(head.count(12).ok_or_else(ends)?);
    let mut start = 0;
    for _ in 0..pieces.capacity() {
        let mut number = || Some(head.u32()? as usize);
        let (rows, offset, data) = (number(), number(), number());
        let (Some(rows), Some(offset), Some(data)) = (rows, offset, data) else { return Err(ends()) };
        if rows == 0 || rows > GRANULE_ROWS {
            return Err(malformed(format!("a piece has {rows} rows")));
        }
        pieces.push(PieceHead { start, rows, offset, data });
        start += rows;
    }
    if start != rows {
        return Err(malformed(format!("pieces of {start} rows for a column of {rows}")));
    }
    let granules = rows.div_ceil(GRANULE_ROWS);
    let mut data = Vec::with_capacity(head.count(2).ok_or_else(ends)?);
    for number in 0..data.capacity() {
        let Some(first) = pieces.iter().find(|piece| piece.data == number) else {
            return Err(malformed("values that no piece has"));
        };
        let memory = allocator.piece(granules, segment, first.start / GRANULE_ROWS);
        let (values, values_rows) = read_data(head, blobs, &data_type, &memory)?;
        let one = Copies::one(Arc::new(values));
        let copies = match allocator.placement.codes.replicas() {
            Some(nodes) => replicated(&one, nodes, &allocator.allocator)?,
            None => one,
        };
        data.push((copies, values_rows));
    }
    let piece = |PieceHead { start, rows, offset, data: number }: PieceHead| {
        let (data, has) = data.get(number).ok_or_else(|| malformed("a piece without values"))?;
        if offset + rows > *has {
            return Err(malformed(format!("rows {offset} to {} of {has} values", offset + rows)));
        }
        Ok(PlainPiece { start, rows, offset, data: data.clone() })
    };
    let pieces = pieces.into_iter().map(piece).collect::<Result<Vec<_>>>()?;
    Ok(Column::Plain(PlainColumn::new(data_type, pieces)))
}

/// The values of some pieces, and of how many rows they are.
fn read_data(
    head: &mut Reader<'_>,
    blobs: &mut Blobs<'_>,
    data_type: &DataType,
    memory: &Allocator,
) -> Result<(PlainData, usize)> {
    let physical = Physical::of(data_type);
    let (kind, flags) = (head.u8().ok_or_else(ends)?, head.u8().ok_or_else(ends)?);
    match kind {
        DATA_FIXED if physical.is_number() => {
            let values = blobs.region(memory)?;
            let rows = values.len() / physical.width_bytes();
            if !values.len().is_multiple_of(physical.width_bytes()) {
                return Err(malformed("values that end amid one"));
            }
            let validity = if flags & 1 != 0 { Some(read_validity(blobs, rows, memory)?) } else { None };
            Ok((PlainData::Fixed(FixedData { values: Arc::new(values), validity: validity.map(Arc::new) }), rows))
        }
        DATA_BYTES if physical == Physical::Bytes => {
            let offsets = blobs.region(memory)?;
            if !offsets.len().is_multiple_of(4) {
                return Err(malformed("offsets that end amid one"));
            }
            let rows = offsets.len() / 4 - 1;
            let bytes = if flags & 1 != 0 { Some(blobs.region(memory)?) } else { None };
            let validity = if flags & 2 != 0 { Some(read_validity(blobs, rows, memory)?) } else { None };
            let all = bytes.as_ref().map_or(&[][..], Region::bytes);
            check_texts(data_type, offsets.words(), all, validity.as_ref())?;
            let (bytes, validity) = (bytes.map(Arc::new), validity.map(Arc::new));
            Ok((PlainData::Bytes(BytesData { offsets: Arc::new(offsets), bytes, validity }), rows))
        }
        DATA_ARRAY if physical == Physical::Opaque => {
            let array = read_array(blobs.bytes()?, data_type)?;
            let rows = array.len();
            Ok((PlainData::Array(array), rows))
        }
        _ => Err(malformed("values are of no known kind, or not those of their type")),
    }
}

fn read_validity(blobs: &mut Blobs<'_>, rows: usize, memory: &Allocator) -> Result<Region> {
    blobs.region_of(rows.div_ceil(64) * 8, memory)
}

/// What columns of strings rely on: offsets ascend and end with the bytes, text is UTF-8.
fn check_texts(data_type: &DataType, offsets: &[u32], bytes: &[u8], validity: Option<&Region>) -> Result<()> {
    let ends = offsets.first() == Some(&0) && offsets.last().map(|end| *end as usize) == Some(bytes.len());
    if !ends || !offsets.is_sorted() || bytes.len() > BUFFER_BYTES_MAX {
        return Err(malformed("offsets of strings that do not lie in their bytes"));
    }
    match data_type {
        DataType::Utf8View => {
            let text =
                std::str::from_utf8(bytes).map_err(|error| malformed(format!("text that is not UTF-8: {error}")))?;
            if !offsets.iter().all(|offset| text.is_char_boundary(*offset as usize)) {
                return Err(malformed("text that begins amid a character"));
            }
        }
        DataType::FixedSizeBinary(width) => {
            let valid = |row: usize| validity.is_none_or(|bits| bits.words::<u64>()[row / 64] >> (row % 64) & 1 == 1);
            let mut lengths = offsets.windows(2).map(|ends| i64::from(ends[1]) - i64::from(ends[0])).enumerate();
            if !lengths.all(|(row, length)| length == i64::from(*width) || !valid(row)) {
                return Err(malformed("values of another width than their type's"));
            }
        }
        _ => {}
    }
    Ok(())
}

fn read_strings(
    head: &mut Reader<'_>,
    blobs: &mut Blobs<'_>,
    data_type: &DataType,
    len: usize,
    memory: &Allocator,
) -> Result<StringValues> {
    let mut buffers = Vec::with_capacity(head.count(8).ok_or_else(ends)?);
    let mut bytes = 0_usize;
    for _ in 0..buffers.capacity() {
        let buffer = head.u64().and_then(|buffer| usize::try_from(buffer).ok()).ok_or_else(ends)?;
        bytes = bytes.checked_add(buffer).ok_or_else(|| malformed("a dictionary's bytes"))?;
        buffers.push(buffer);
    }
    let views = if len > 0 { Some(blobs.region_of(16 * len, memory)?) } else { None };
    let long = if bytes > 0 { Some(blobs.region_of(bytes, memory)?) } else { None };
    StringValues::checked(data_type, len, views, long, &buffers).map_err(malformed)
}

fn read_type(head: &mut Reader<'_>) -> Result<DataType> {
    let expected = head.u64().ok_or_else(ends)?;
    let bytes = head.counted().filter(|bytes| checksum(bytes) == expected).ok_or_else(|| malformed("a type"))?;
    let schema = by_arrow(|| Ok(StreamReader::try_new(Cursor::new(bytes), None)?.schema()))?;
    let data_type = schema.fields().first().map(|field| field.data_type().clone());
    let data_type = data_type.filter(|t| crate::surface_type(t) == *t);
    data_type.ok_or_else(|| malformed("a type that no column has"))
}

fn read_array(bytes: Vec<u8>, data_type: &DataType) -> Result<ArrayRef> {
    let batch = by_arrow(|| StreamReader::try_new(Cursor::new(bytes), None)?.next().transpose())?;
    match batch.as_ref().map(|batch| batch.columns()) {
        Some([array]) if array.data_type() == data_type => Ok(Arc::clone(array)),
        _ => Err(malformed("arrow values of another type")),
    }
}

/// What arrow makes of bytes. It panics over some that it did not write; nothing of it is used then.
fn by_arrow<T>(read: impl FnOnce() -> std::result::Result<T, ArrowError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(malformed(format!("arrow: {error}"))),
        Err(_) => Err(malformed("arrow values that arrow cannot read")),
    }
}
