//! Columns and dictionaries into bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::StreamWriter;

use super::bytes::Writer;
use super::{AFFINE, CODED, DATA_ARRAY, DATA_BYTES, DATA_FIXED, FIXED, PLAIN, STRINGS, Written, checksum};
use crate::coded::CodedColumn;
use crate::column::Column;
use crate::dictionary::{Dictionary, Values};
use crate::error::StoreError;
use crate::kernels::words_for;
use crate::plain::{PlainColumn, PlainData};
use crate::types::Physical;

/// A column as bytes, without its dictionary.
///
/// # Errors
/// [`StoreError::Arrow`] where arrow cannot write an array of its own.
///
/// # Panics
/// For a column of row numbers, which no table has.
pub fn write_column(column: &Column) -> Result<Written<'_>, StoreError> {
    match column {
        Column::Coded(column) => Ok(write_coded(column)),
        Column::Plain(column) => write_plain(column),
        Column::RowIds(_) => panic!("numbers of rows belong to a snapshot, not to a table"),
    }
}

/// A dictionary as bytes.
///
/// # Errors
/// [`StoreError::Arrow`] where arrow cannot write the type.
pub fn write_dictionary(dictionary: &Dictionary) -> Result<Written<'_>, StoreError> {
    let mut head = Writer::default();
    let len = dictionary.len();
    let width = Physical::of(dictionary.data_type()).width_bytes();
    let mut blobs = Vec::new();
    let kind = match dictionary.copies().first() {
        Values::Affine(_) => AFFINE,
        Values::Fixed(_) => FIXED,
        Values::Strings(_) => STRINGS,
    };
    head.u8(kind);
    head.u32(len as u32);
    write_type(dictionary.data_type(), &mut head)?;
    match dictionary.copies().first() {
        Values::Affine(affine) => {
            head.bytes(&affine.base.to_le_bytes());
            head.bytes(&affine.step.to_le_bytes());
        }
        Values::Fixed(region) => {
            blobs.extend(region.iter().map(|region| Cow::Borrowed(&region.bytes()[..len * width])));
        }
        Values::Strings(strings) => {
            let (views, bytes, buffers) = strings.parts();
            head.u32(buffers.len() as u32);
            buffers.iter().for_each(|buffer| head.u64(buffer.len() as u64));
            let bytes_len = buffers.iter().map(|buffer| buffer.len()).sum();
            blobs.extend(views.map(|views| Cow::Borrowed(&views.bytes()[..16 * len])));
            blobs.extend(bytes.map(|bytes| Cow::Borrowed(&bytes.bytes()[..bytes_len])));
        }
    }
    Ok(Written { head: head.0, blobs })
}

fn write_coded(column: &CodedColumn) -> Written<'_> {
    let mut head = Writer::default();
    head.u8(CODED);
    head.u32(column.len() as u32);
    head.u8(u8::from(column.null_code()));
    for granule in 0..column.granules() {
        let (low, high) = column.code_bounds(granule);
        head.u32(low);
        head.u32(high);
    }
    let bytes = 4 * words_for(column.len(), column.bits());
    let codes = column.codes().filter(|_| bytes > 0);
    let blobs = codes.map(|codes| Cow::Borrowed(&codes.first().bytes()[..bytes])).into_iter().collect();
    Written { head: head.0, blobs }
}

fn write_plain(column: &PlainColumn) -> Result<Written<'_>, StoreError> {
    let mut head = Writer::default();
    let mut blobs = Vec::new();
    head.u8(PLAIN);
    head.u32(column.len() as u32);
    write_type(column.data_type(), &mut head)?;
    let mut numbers: HashMap<*const PlainData, u32> = HashMap::new();
    let mut distinct = Vec::new();
    for piece in column.pieces() {
        let data = piece.data.first();
        numbers.entry(Arc::as_ptr(data)).or_insert_with(|| {
            distinct.push(data);
            distinct.len() as u32 - 1
        });
    }
    head.u32(column.pieces().len() as u32);
    for piece in column.pieces() {
        head.u32(piece.rows as u32);
        head.u32(piece.offset as u32);
        head.u32(numbers[&Arc::as_ptr(piece.data.first())]);
    }
    head.u32(distinct.len() as u32);
    for data in distinct {
        write_data(data, column.data_type(), &mut head, &mut blobs)?;
    }
    Ok(Written { head: head.0, blobs })
}

fn write_data<'a>(
    data: &'a PlainData,
    data_type: &DataType,
    head: &mut Writer,
    blobs: &mut Vec<Cow<'a, [u8]>>,
) -> Result<(), StoreError> {
    match data {
        PlainData::Fixed(fixed) => {
            head.u8(DATA_FIXED);
            head.u8(u8::from(fixed.validity.is_some()));
            let regions = std::iter::once(&fixed.values).chain(&fixed.validity);
            blobs.extend(regions.map(|region| Cow::Borrowed(region.bytes())));
        }
        PlainData::Bytes(bytes) => {
            head.u8(DATA_BYTES);
            head.u8(u8::from(bytes.bytes.is_some()) | u8::from(bytes.validity.is_some()) << 1);
            let regions = std::iter::once(&bytes.offsets).chain(&bytes.bytes).chain(&bytes.validity);
            blobs.extend(regions.map(|region| Cow::Borrowed(region.bytes())));
        }
        PlainData::Array(array) => {
            head.u8(DATA_ARRAY);
            head.u8(0);
            let schema = Arc::new(schema_of(data_type));
            let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
            writer.write(&RecordBatch::try_new(schema, vec![Arc::clone(array)])?)?;
            writer.finish()?;
            blobs.push(Cow::Owned(writer.into_inner()?));
        }
    }
    Ok(())
}

/// A type as arrow writes it: a stream of a schema and no batch.
fn write_type(data_type: &DataType, head: &mut Writer) -> Result<(), StoreError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &schema_of(data_type))?;
    writer.finish()?;
    let bytes = writer.into_inner()?;
    head.u64(checksum(&bytes));
    head.counted(&bytes);
    Ok(())
}

fn schema_of(data_type: &DataType) -> Schema {
    Schema::new(vec![Field::new("values", data_type.clone(), true)])
}
