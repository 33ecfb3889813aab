//! Choosing the encoding of a string column.

use arrow::datatypes::DataType;
use numa::{Allocator, MemoryError, Region};

use crate::build::plan::{Mapping, Plan, PlannedColumn, StagedRows, code_bytes, worth_coding};
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::kernels::bits_for;
use crate::region_vec::RegionVec;
use crate::stage::chunk::NumberChunk;
use crate::stage::strings::{StagedStrings, StringStage, VALUES_MAX};
use crate::stage::table::StringTable;
use crate::strings::{INLINE_BYTES_MAX, StringValues};

/// Where some producers found that a dictionary pays and others did not, the others' rows are encoded after all if they
/// are fewer than one in this many.
const ENCODED_SHARE: usize = 4;
/// Bytes of a value's view.
pub(super) const VIEW_BYTES: usize = 16;

/// One producer that staged ids.
struct CodedProducer {
    table: Box<StringTable>,
    chunks: Vec<NumberChunk>,
}

/// Puts the producers' strings together.
pub(crate) fn plan_strings(
    data_type: DataType,
    producers: Vec<StagedStrings>,
    rows: usize,
    allocator: &Allocator,
) -> Result<PlannedColumn, StoreError> {
    let total_bytes: usize = producers.iter().map(StagedStrings::total_bytes).sum();
    let plain_rows: usize = producers.iter().map(StagedStrings::plain_rows).sum();
    if plain_rows > 0 && plain_rows * ENCODED_SHARE >= rows {
        return Ok(plain(data_type, producers, total_bytes));
    }
    let encoded = |producer| match producer {
        StagedStrings::Plain { pieces, .. } => StringStage::encoded(pieces, VALUES_MAX, allocator),
        ids => Ok(ids),
    };
    let producers: Vec<StagedStrings> = producers.into_iter().map(encoded).collect::<Result<_, _>>()?;
    if producers.iter().any(|producer| producer.plain_rows() > 0) {
        return Ok(plain(data_type, producers, total_bytes));
    }
    let mut coded = Vec::with_capacity(producers.len());
    for producer in producers {
        let StagedStrings::Coded { table, chunks, .. } = producer else { unreachable!("no producer has plain rows") };
        coded.push(CodedProducer { table, chunks });
    }
    let null_code = coded.iter().flat_map(|c| &c.chunks).any(|chunk| chunk.nulls > 0);
    let plain_bytes = (total_bytes + 4 * rows + if null_code { rows / 8 } else { 0 }) as u128;
    // The largest producer's dictionary is a lower bound; the union has to be sorted to be known.
    let least = coded.iter().map(|c| dictionary_bytes(&c.table)).max().unwrap_or(0);
    if worth_coding(least as u128, plain_bytes) {
        let union = Union::of(&coded, null_code, allocator)?;
        let bits = bits_for((union.len + usize::from(null_code)).saturating_sub(1) as u32);
        let bytes = (union.len * VIEW_BYTES + union.long_bytes) as u128 + code_bytes(rows, bits);
        if worth_coding(bytes, plain_bytes) {
            let dictionary = Dictionary::strings(data_type, union.values(&coded, allocator)?);
            let mapping = Mapping::Ids(union.codes);
            return Ok(PlannedColumn::coded(dictionary, null_code, mapping, chunk_sources(coded).0, rows));
        }
    }
    let (sources, tables) = chunk_sources(coded);
    let new_bytes = plain_bytes as usize;
    Ok(PlannedColumn { data_type, plan: Plan::Bytes { tables }, sources, new_bytes })
}

/// The column as it is; producers that staged ids are decoded while encoding.
fn plain(data_type: DataType, producers: Vec<StagedStrings>, total_bytes: usize) -> PlannedColumn {
    let mut sources = Vec::new();
    let mut tables = Vec::new();
    let mut new_bytes = 0;
    for (producer, staged) in producers.into_iter().enumerate() {
        match staged {
            StagedStrings::Coded { table, chunks, total_bytes } => {
                new_bytes += total_bytes;
                sources.extend(chunks.into_iter().map(|chunk| StagedRows::chunk(chunk, producer)));
                tables.push(Some(table));
            }
            StagedStrings::Plain { pieces, .. } => {
                sources.extend(pieces.into_iter().map(|piece| StagedRows::piece(piece.rows, piece.data)));
                tables.push(None);
            }
        }
    }
    debug_assert!(new_bytes <= total_bytes);
    PlannedColumn { data_type, plan: Plan::Bytes { tables }, sources, new_bytes }
}

fn dictionary_bytes(table: &StringTable) -> usize {
    table.len() * VIEW_BYTES + (0..table.len() as u32).map(|id| long_len(table.value(id))).sum::<usize>()
}

fn long_len(value: &[u8]) -> usize {
    long_len_of(value.len())
}

/// Bytes of a value of this length beside its view.
pub(super) fn long_len_of(len: usize) -> usize {
    if len > INLINE_BYTES_MAX { len } else { 0 }
}

fn chunk_sources(coded: Vec<CodedProducer>) -> (Vec<StagedRows>, Vec<Option<Box<StringTable>>>) {
    let mut sources = Vec::new();
    let mut tables = Vec::new();
    for (producer, CodedProducer { table, chunks }) in coded.into_iter().enumerate() {
        sources.extend(chunks.into_iter().map(|chunk| StagedRows::chunk(chunk, producer)));
        tables.push(Some(table));
    }
    (sources, tables)
}

/// The union of the producers' dictionaries, sorted.
struct Union {
    /// One entry per value of a producer, in value order: the value's first eight bytes, the producer, the id.
    entries: RegionVec<u128>,
    /// The code of each producer's ids.
    codes: Vec<Option<Region>>,
    /// Number of distinct values.
    len: usize,
    /// Bytes of those that do not fit a view.
    long_bytes: usize,
}

impl Union {
    fn of(coded: &[CodedProducer], null_code: bool, allocator: &Allocator) -> Result<Union, MemoryError> {
        let mut entries = RegionVec::new(allocator);
        let mut codes = Vec::with_capacity(coded.len());
        entries.reserve(coded.iter().map(|c| c.table.len()).sum())?;
        for (producer, CodedProducer { table, .. }) in coded.iter().enumerate() {
            let slots = entries.extend(table.len())?;
            for (slot, id) in slots.iter_mut().zip(0u32..) {
                *slot = u128::from(prefix(table.value(id))) << 64 | (producer as u128) << 32 | u128::from(id);
            }
            codes.push(if table.len() > 0 { Some(allocator.region(4 * table.len())?) } else { None });
        }
        entries.as_mut_slice().sort_unstable_by(|&a, &b| {
            ((a >> 64) as u64).cmp(&((b >> 64) as u64)).then_with(|| value(coded, a).cmp(value(coded, b)))
        });
        let mut len = 0usize;
        let mut long_bytes = 0;
        let mut previous = None;
        for &entry in entries.as_slice() {
            let this = value(coded, entry);
            if previous != Some(this) {
                len += 1;
                long_bytes += long_len(this);
                previous = Some(this);
            }
            let producer = (entry >> 32) as u32 as usize;
            let id = entry as u32 as usize;
            if let Some(codes) = &mut codes[producer] {
                codes.words_mut::<u32>()[id] = (len - 1) as u32 + u32::from(null_code);
            }
        }
        Ok(Union { entries, codes, len, long_bytes })
    }

    /// The dictionary's values.
    fn values(&self, coded: &[CodedProducer], allocator: &Allocator) -> Result<StringValues, MemoryError> {
        let mut previous = None;
        let distinct = self.entries.as_slice().iter().filter_map(|&entry| {
            let this = value(coded, entry);
            (previous.replace(this) != Some(this)).then_some(this)
        });
        StringValues::build(allocator, self.len, self.long_bytes, distinct)
    }
}

/// The value of a union's entry.
fn value(coded: &[CodedProducer], entry: u128) -> &[u8] {
    coded[(entry >> 32) as u32 as usize].table.value(entry as u32)
}

/// The first eight bytes as a number that sorts as they do, padded with zeros.
fn prefix(value: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = value.len().min(8);
    bytes[..len].copy_from_slice(&value[..len]);
    u64::from_be_bytes(bytes)
}
