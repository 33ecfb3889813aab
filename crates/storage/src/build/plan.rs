//! What a column becomes: the encoding by measured size, and how staged rows turn into it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use foldhash::fast::RandomState;
use numa::Region;

use crate::affine::Affine;
use crate::coded::code_bits;
use crate::dictionary::Dictionary;
use crate::kernels::words_for;
use crate::plain::PlainData;
use crate::stage::chunk::{Frame, NumberChunk};
use crate::stage::table::StringTable;

/// Codes are taken over plain values up to this much more, and an eighth: groups, joins and predicates run on codes.
const CODED_BONUS_BYTES: usize = 64 << 10;

/// A column whose encoding is chosen.
pub(crate) struct PlannedColumn {
    pub(crate) data_type: DataType,
    pub(crate) plan: Plan,
    /// Staged rows, in order.
    pub(crate) sources: Vec<StagedRows>,
    /// Bytes that encoding will allocate.
    pub(crate) new_bytes: usize,
}

/// Into what the rows are turned.
pub(crate) enum Plan {
    /// Codes.
    Coded { dictionary: Arc<Dictionary>, null_code: bool, mapping: Mapping },
    /// Native numbers.
    Fixed,
    /// Strings; the tables are those of producers that staged ids.
    Bytes { tables: Vec<Option<Box<StringTable>>> },
    /// Arrow arrays.
    Arrays,
}

/// From what was staged to the code.
pub(crate) enum Mapping {
    /// Every code is 0.
    Zero,
    /// A key's vid is computed.
    Affine(Affine),
    /// A key's vid is looked up.
    Sorted(SortedKeys),
    /// The codes of each producer's ids, `u32` each.
    Ids(Vec<Option<Region>>),
}

/// Consecutive staged rows.
#[derive(Clone)]
pub(crate) struct StagedRows {
    pub(crate) rows: usize,
    /// Which producer's ids they are.
    pub(crate) producer: usize,
    pub(crate) data: SourceData,
}

#[derive(Clone)]
pub(crate) enum SourceData {
    Chunk(Arc<NumberChunk>),
    Piece(Arc<PlainData>),
}

impl StagedRows {
    pub(crate) fn chunk(chunk: NumberChunk, producer: usize) -> StagedRows {
        StagedRows { rows: chunk.rows, producer, data: SourceData::Chunk(Arc::new(chunk)) }
    }

    pub(crate) fn piece(rows: usize, data: Arc<PlainData>) -> StagedRows {
        StagedRows { rows, producer: 0, data: SourceData::Piece(data) }
    }
}

impl PlannedColumn {
    /// A coded column of `rows` rows.
    pub(crate) fn coded(
        dictionary: Dictionary,
        null_code: bool,
        mapping: Mapping,
        sources: Vec<StagedRows>,
        rows: usize,
    ) -> PlannedColumn {
        let bits = code_bits(&dictionary, null_code);
        // Without bits nothing of the staged rows is needed any more.
        let (mapping, sources) = if bits == 0 { (Mapping::Zero, Vec::new()) } else { (mapping, sources) };
        let data_type = dictionary.data_type().clone();
        let plan = Plan::Coded { dictionary: Arc::new(dictionary), null_code, mapping };
        PlannedColumn { data_type, plan, sources, new_bytes: 4 * words_for(rows, bits) }
    }
}

/// The keys of a sorted dictionary and their vids.
pub(crate) struct SortedKeys {
    pub(crate) keys: Vec<i128>,
    pub(crate) vids: HashMap<i128, u32, RandomState>,
}

impl SortedKeys {
    /// The vid of every offset of a packed chunk whose key is in the dictionary.
    pub(crate) fn table(&self, frame: Frame, bits: u8) -> Vec<u32> {
        let mut table = vec![0; 1 << bits];
        let from = self.keys.partition_point(|&key| key < frame.min);
        for (vid, &key) in self.keys.iter().enumerate().skip(from) {
            if key > frame.max {
                break;
            }
            let distance = key.wrapping_sub(frame.min) as u128;
            if distance.is_multiple_of(frame.step) {
                table[(distance / frame.step) as usize] = vid as u32;
            }
        }
        table
    }
}

/// Whether codes that take `coded` bytes, the dictionary included, are worth it where the values take `plain`.
pub(crate) fn worth_coding(coded: u128, plain: u128) -> bool {
    coded <= plain + plain / 8 + CODED_BONUS_BYTES as u128
}

/// Bytes of `rows` codes of `bits` bits.
pub(crate) fn code_bytes(rows: usize, bits: u8) -> u128 {
    rows as u128 * u128::from(bits) / 8
}
