//! [`Interner`]: numbers for byte strings, and the bytes that stand for a value of any type.
//!
//! # Limits
//! Floats inside lists and structs are compared by total order: -0.0 and 0.0 differ there.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use numa::Reservation;
use std::hash::BuildHasher;

use crate::ExecError;

/// Bytes beside those of a string: its end, its number and a byte of the hash table, which is up to half empty.
const STRING_BYTES: usize = size_of::<usize>() + 2 * (size_of::<u32>() + 1);

/// The least that is charged at a time.
const CHARGED_BYTES_MIN: usize = 4 << 10;

/// Byte strings numbered from 0 in the order of their first appearance.
pub(super) struct Interner {
    table: HashTable<u32>,
    bytes: Vec<u8>,
    /// Where each string ends in `bytes`.
    ends: Vec<usize>,
    state: FixedState,
    /// Charged so far.
    charged_bytes: usize,
}

impl Interner {
    pub(super) fn new() -> Interner {
        let state = FixedState::with_seed(0x5eed);
        Interner { table: HashTable::new(), bytes: Vec::new(), ends: Vec::new(), state, charged_bytes: 0 }
    }

    /// How many different strings there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of a string that was inserted.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        self.table.find(self.state.hash_one(key), |&n| value(&self.bytes, &self.ends, n) == key).copied()
    }

    /// The number of a string; a new one for a new string, for which `charged` grows.
    ///
    /// # Errors
    /// The budget has no room for more.
    pub(super) fn insert(&mut self, key: &[u8], charged: &mut Reservation) -> Result<u32, ExecError> {
        let hash = self.state.hash_one(key);
        let Interner { table, bytes, ends, state, charged_bytes } = self;
        if let Some(&known) = table.find(hash, |&n| value(bytes, ends, n) == key) {
            return Ok(known);
        }
        let number = ends.len() as u32;
        let held = bytes.len() + key.len() + STRING_BYTES * (ends.len() + 1);
        if held > *charged_bytes {
            // In steps that grow with it, as its vectors do.
            let more = (held / 2).max(CHARGED_BYTES_MIN);
            charged.grow(more as u64)?;
            *charged_bytes += more;
        }
        bytes.extend_from_slice(key);
        ends.push(bytes.len());
        table.insert_unique(hash, number, |&n| state.hash_one(value(bytes, ends, n)));
        Ok(number)
    }
}

fn value<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let at = number as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] };
    &bytes[start..ends[at]]
}

/// Calls `f` with the bytes that stand for each value, `None` for NULL: equal values have equal bytes. Values of
/// strings stand for themselves, as in [`Dictionary::bytes_of`](storage::Dictionary::bytes_of).
pub(super) fn each_key(array: &ArrayRef, f: &mut dyn FnMut(Option<&[u8]>)) -> Result<(), ExecError> {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().iter().for_each(|v| f(v.map(str::as_bytes))),
        DataType::Utf8 => array.as_string::<i32>().iter().for_each(|v| f(v.map(str::as_bytes))),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().for_each(|v| f(v.map(str::as_bytes))),
        DataType::BinaryView => array.as_binary_view().iter().for_each(f),
        DataType::Binary => array.as_binary::<i32>().iter().for_each(f),
        DataType::LargeBinary => array.as_binary::<i64>().iter().for_each(f),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().for_each(f),
        other => {
            let converter = RowConverter::new(vec![SortField::new(other.clone())])?;
            let rows = converter.convert_columns(std::slice::from_ref(array))?;
            let nulls = array.logical_nulls();
            for (i, row) in rows.iter().enumerate() {
                f(nulls.as_ref().is_none_or(|n| n.is_valid(i)).then_some(row.as_ref()));
            }
        }
    }
    Ok(())
}
