//! A stored column, whichever way it is kept.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use numa::Region;

use crate::coded::CodedColumn;
use crate::dictionary::Encoding;
use crate::plain::PlainColumn;

/// One column of a segment.
#[derive(Debug)]
pub enum Column {
    /// Codes and a dictionary.
    Coded(CodedColumn),
    /// The values.
    Plain(PlainColumn),
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
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Coded(column) => column.len(),
            Column::Plain(column) => column.len(),
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
        }
    }

    /// How the values are kept.
    pub fn encoding(&self) -> Encoding {
        match self {
            Column::Coded(column) => column.dictionary().encoding(),
            Column::Plain(_) => Encoding::Plain,
        }
    }

    /// Bits of a code; `None` for a plain column.
    pub fn bits(&self) -> Option<u8> {
        match self {
            Column::Coded(column) => Some(column.bits()),
            Column::Plain(_) => None,
        }
    }

    /// Whether a NULL may be among the rows; never false where one is.
    pub fn has_nulls(&self) -> bool {
        match self {
            Column::Coded(column) => column.null_code(),
            Column::Plain(column) => column.has_nulls(),
        }
    }

    /// The coded column, if this is one.
    pub fn as_coded(&self) -> Option<&CodedColumn> {
        match self {
            Column::Coded(column) => Some(column),
            Column::Plain(_) => None,
        }
    }

    /// Bytes of the codes, or of the values of a plain column.
    pub fn bytes_codes(&self) -> usize {
        match self {
            Column::Coded(column) => column.codes_region().map_or(0, |region| region.len()),
            Column::Plain(column) => column.bytes(),
        }
    }

    /// Bytes of the dictionary, which the segments of a part share; 0 for a plain column.
    pub fn bytes_dictionary(&self) -> usize {
        match self {
            Column::Coded(column) => column.dictionary().bytes(),
            Column::Plain(_) => 0,
        }
    }

    /// The regions that hold the column, for the page map. Arrays that are kept as arrow made them are not in regions.
    pub fn components(&self) -> Vec<(Component, &Region)> {
        match self {
            Column::Coded(column) => {
                let codes = column.codes_region().map(|region| (Component::Codes, region));
                let dictionary = column.dictionary().regions().into_iter();
                codes.into_iter().chain(dictionary.map(|region| (Component::Dictionary, region))).collect()
            }
            Column::Plain(column) => column.regions().into_iter().map(|region| (Component::Codes, region)).collect(),
        }
    }

    /// The values of `rows`, in the surface type.
    pub fn slice(&self, rows: Range<usize>) -> ArrayRef {
        match self {
            Column::Plain(column) => column.slice(rows),
            Column::Coded(column) => {
                let mut codes = Vec::with_capacity(rows.len());
                column.unpack(rows, &mut codes);
                column.materialize(&codes)
            }
        }
    }

    /// The values at `positions`, rows of the segment in any order, in the surface type.
    pub fn take(&self, positions: &[u32]) -> ArrayRef {
        match self {
            Column::Plain(column) => column.take(positions),
            Column::Coded(column) => {
                let mut codes = Vec::with_capacity(positions.len());
                column.gather(positions, &mut codes);
                column.materialize(&codes)
            }
        }
    }
}
