//! A stored column, whichever way it is kept.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::DataType;
use numa::{NodeId, Region};

use crate::GRANULE_ROWS;
use crate::coded::CodedColumn;
use crate::dictionary::Encoding;
use crate::identity::ColumnId;
use crate::kernels::positions::positions as mask_positions;
use crate::kernels::words_for;
use crate::plain::PlainColumn;

/// One column of a segment.
#[derive(Debug)]
pub enum Column {
    /// Codes and a dictionary.
    Coded(CodedColumn),
    /// The values.
    Plain(PlainColumn),
    /// Which row it is: nothing is stored.
    RowIds(RowIds),
}

/// The identity of a segment's rows within one snapshot, as an unsigned 64-bit column: the segment's place in the upper
/// half, the row in the lower. Deletes and updates read it beside the columns of their conditions.
#[derive(Debug, Clone, Copy)]
pub struct RowIds {
    /// Place of the segment among all segments of the snapshot.
    pub segment: u32,
    /// Rows of the segment.
    pub rows: usize,
}

impl RowIds {
    fn ids(&self, rows: impl Iterator<Item = u64>) -> ArrayRef {
        let first = u64::from(self.segment) << 32;
        Arc::new(rows.map(|row| first | row).collect::<UInt64Array>())
    }
}

/// What of a column is placed on its own (Psaroudakis et al., VLDB 2015, section 3, has the index too).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The bit-packed codes, or the values of a plain column.
    Codes,
    /// The dictionary; the segments of a part share it.
    Dictionary,
}

impl Column {
    /// Its number; `None` where nothing is stored.
    pub fn id(&self) -> Option<ColumnId> {
        match self {
            Column::Coded(column) => Some(column.id()),
            Column::Plain(column) => Some(column.id()),
            Column::RowIds(_) => None,
        }
    }

    /// The same column under another number, for one that had it before it was read.
    pub(crate) fn numbered(self, id: ColumnId) -> Column {
        match self {
            Column::Coded(column) => Column::Coded(column.numbered(id)),
            Column::Plain(column) => Column::Plain(column.numbered(id)),
            Column::RowIds(column) => Column::RowIds(column),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Coded(column) => column.len(),
            Column::Plain(column) => column.len(),
            Column::RowIds(column) => column.rows,
        }
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The surface type.
    pub fn data_type(&self) -> &DataType {
        match self {
            Column::Coded(column) => column.dictionary().data_type(),
            Column::Plain(column) => column.data_type(),
            Column::RowIds(_) => &DataType::UInt64,
        }
    }

    /// How the values are kept.
    pub fn encoding(&self) -> Encoding {
        match self {
            Column::Coded(column) => column.dictionary().encoding(),
            Column::Plain(_) | Column::RowIds(_) => Encoding::Plain,
        }
    }

    /// Bits of a code; `None` for a plain column.
    pub fn bits(&self) -> Option<u8> {
        match self {
            Column::Coded(column) => Some(column.bits()),
            Column::Plain(_) | Column::RowIds(_) => None,
        }
    }

    /// Whether a NULL may be among the rows; never false where one is.
    pub fn has_nulls(&self) -> bool {
        match self {
            Column::Coded(column) => column.null_code(),
            Column::Plain(column) => column.has_nulls(),
            Column::RowIds(_) => false,
        }
    }

    /// The coded column, if this is one.
    pub fn as_coded(&self) -> Option<&CodedColumn> {
        match self {
            Column::Coded(column) => Some(column),
            Column::Plain(_) | Column::RowIds(_) => None,
        }
    }

    /// The column if it is kept as its values.
    pub fn as_plain(&self) -> Option<&PlainColumn> {
        match self {
            Column::Plain(column) => Some(column),
            Column::Coded(_) | Column::RowIds(_) => None,
        }
    }

    /// Bytes of the codes, or of the values of a plain column; every copy counts.
    pub fn bytes_codes(&self) -> usize {
        match self {
            Column::Coded(column) => column.codes().into_iter().flat_map(|c| c.all()).map(|region| region.len()).sum(),
            Column::Plain(column) => column.bytes(),
            Column::RowIds(_) => 0,
        }
    }

    /// Bytes of the dictionary, which the segments of a part share, every copy counted; 0 for a plain column.
    pub fn bytes_dictionary(&self) -> usize {
        match self {
            Column::Coded(column) => column.dictionary().bytes(),
            Column::Plain(_) | Column::RowIds(_) => 0,
        }
    }

    /// The regions that hold the column, those of all copies, for the page map. Arrays that are kept as arrow made them
    /// are not in regions.
    pub fn components(&self) -> Vec<(Component, &Region)> {
        match self {
            Column::Coded(column) => {
                let codes = column.codes().into_iter().flat_map(|copies| copies.all());
                let codes = codes.map(|region| (Component::Codes, region.as_ref()));
                let dictionary = column.dictionary().regions().into_iter();
                codes.chain(dictionary.map(|region| (Component::Dictionary, region))).collect()
            }
            Column::Plain(column) => column.regions().into_iter().map(|region| (Component::Codes, region)).collect(),
            Column::RowIds(_) => Vec::new(),
        }
    }

    /// Whether its codes (or values) have a copy on several nodes, so that a reader may run on any of them.
    pub fn is_replicated(&self) -> bool {
        match self {
            Column::Coded(column) => column.codes().is_some_and(|copies| copies.is_replicated()),
            Column::Plain(column) => column.pieces().first().is_some_and(|piece| piece.data.is_replicated()),
            Column::RowIds(_) => false,
        }
    }

    /// How often the placement of its codes (or values) was changed: whoever keeps a page map reads it anew when this
    /// grew.
    pub fn placements(&self) -> u64 {
        let codes = self.components().into_iter().filter(|(component, _)| *component == Component::Codes);
        codes.map(|(_, region)| region.placements()).sum()
    }

    /// The bytes that hold the codes (or values, with all that belongs to them) of a granule's rows, in the first copy,
    /// and the region that each range lies in. Columns that take no memory of ours have none.
    pub fn granule_bytes(&self, granule: usize) -> Vec<(&Region, Range<usize>)> {
        match self {
            Column::Coded(column) => column.codes().map_or(Vec::new(), |copies| {
                let region = copies.first();
                let size = 4 * words_for(GRANULE_ROWS, column.bits());
                vec![(region.as_ref(), (granule * size).min(region.len())..((granule + 1) * size).min(region.len()))]
            }),
            Column::Plain(column) => {
                let pieces = column.pieces_of_granule(granule).iter();
                pieces.flat_map(|piece| piece.data.first().regions()).map(|region| (region, 0..region.len())).collect()
            }
            Column::RowIds(_) => Vec::new(),
        }
    }

    /// Whether a granule has [bytes](Self::granule_bytes).
    pub fn takes_memory(&self, granule: usize) -> bool {
        match self {
            Column::Coded(column) => column.codes().is_some(),
            Column::Plain(_) => !self.granule_bytes(granule).is_empty(),
            Column::RowIds(_) => false,
        }
    }

    /// The node that its policy names for the first byte of a granule of a column that is not replicated; the page map
    /// tells where it really lies, at the cost of a call.
    pub fn placed_node(&self, granule: usize) -> Option<NodeId> {
        if self.is_replicated() {
            return None;
        }
        let bytes = self.granule_bytes(granule);
        let (region, range) = bytes.first()?;
        region.node_by_policy(range.start)
    }

    /// The values of `rows`, in the surface type.
    pub fn slice(&self, rows: Range<usize>) -> ArrayRef {
        match self {
            Column::Plain(column) => column.slice(rows),
            Column::RowIds(column) => column.ids(rows.map(|row| row as u64)),
            Column::Coded(column) => {
                let mut codes = Vec::with_capacity(rows.len());
                column.unpack(rows, &mut codes);
                column.materialize_into(codes)
            }
        }
    }

    /// The values at `positions`, rows of the segment in any order, in the surface type.
    pub fn take(&self, positions: &[u32]) -> ArrayRef {
        match self {
            Column::Plain(column) => column.take(positions),
            Column::RowIds(column) => column.ids(positions.iter().map(|&row| u64::from(row))),
            Column::Coded(column) => {
                let mut codes = Vec::with_capacity(positions.len());
                column.gather(positions, &mut codes);
                column.materialize_into(codes)
            }
        }
    }

    /// The sum of the integers of `rows`, of those whose bits are set where there is a mask ([`CodedColumn::compress`]
    /// says which bit is whose), without a copy of them; decimals unscaled, dates and times in their unit. `None` where
    /// it is not that simple: values that may be NULL, that are no integers or may not fit in 64 bits.
    pub fn sum(&self, rows: Range<usize>, mask: Option<&[u64]>) -> Option<i128> {
        match self {
            Column::Coded(column) => column.sum(rows, mask),
            Column::Plain(column) => column.sum(rows, mask),
            Column::RowIds(_) => None,
        }
    }

    /// The values of those of `rows` whose bits are set in `mask`, in the surface type; see [`CodedColumn::compress`].
    pub fn take_marked(&self, rows: Range<usize>, mask: &[u64]) -> ArrayRef {
        match self {
            Column::Coded(column) => {
                let mut codes = Vec::new();
                column.compress(rows, mask, &mut codes);
                column.materialize_into(codes)
            }
            Column::Plain(column) if column.is_of_numbers() => column.compress(rows, mask),
            Column::Plain(_) | Column::RowIds(_) => {
                let mut positions = Vec::new();
                mask_positions(mask, rows.start as u32, &mut positions);
                self.take(&positions)
            }
        }
    }
}
