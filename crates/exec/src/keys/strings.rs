//! [`Strings`]: byte strings numbered from 0 in the order of their first appearance, and the bytes that stand for a
//! value of any type.
//!
//! # Limits
//! Floats inside lists and structs are compared by total order: -0.0 and 0.0 differ there.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use hashbrown::HashTable;
use numa::Reservation;

use super::hash::hash_bytes;
use crate::ExecError;

/// Bytes beside those of a string: its end, its number and a byte of the hash table, which is up to half empty.
const STRING_BYTES: usize = size_of::<usize>() + 2 * (size_of::<u32>() + 1);

/// The least that is charged at a time.
const CHARGED_BYTES_MIN: usize = 4 << 10;

/// Different byte strings, one after the other.
#[derive(Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    /// Where each string ends in `bytes`.
    ends: Vec<usize>,
    table: HashTable<u32>,
    /// What [`insert`](Self::insert) has charged so far.
    charged_bytes: usize,
}

impl Strings {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The string of a number.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        string(&self.bytes, &self.ends, number)
    }

    /// The number of a string that is there.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        self.find_hashed(hash_bytes(bytes), bytes)
    }

    /// The number of a string of this [hash](hash_bytes), and whether it came just now.
    pub(crate) fn number(&mut self, hash: u64, bytes: &[u8]) -> (u32, bool) {
        match self.find_hashed(hash, bytes) {
            Some(number) => (number, false),
            None => (self.add(hash, bytes), true),
        }
    }

    /// The number of a string; for one that was not there `charged` grows.
    ///
    /// # Errors
    /// The budget has no room for more.
    pub(crate) fn insert(&mut self, bytes: &[u8], charged: &mut Reservation) -> Result<u32, ExecError> {
        let hash = hash_bytes(bytes);
        if let Some(known) = self.find_hashed(hash, bytes) {
            return Ok(known);
        }
        let held = self.bytes.len() + bytes.len() + STRING_BYTES * (self.ends.len() + 1);
        if held > self.charged_bytes {
            // In steps that grow with it, as its vectors do.
            let more = (held / 2).max(CHARGED_BYTES_MIN);
            charged.grow(more as u64)?;
            self.charged_bytes += more;
        }
        Ok(self.add(hash, bytes))
    }

    /// Bytes of memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        (self.bytes.capacity() + self.ends.capacity() * size_of::<usize>() + self.table.capacity() * 5) as u64
    }

    #[inline]
    fn find_hashed(&self, hash: u64, bytes: &[u8]) -> Option<u32> {
        self.table.find(hash, |&n| string(&self.bytes, &self.ends, n) == bytes).copied()
    }

    fn add(&mut self, hash: u64, bytes: &[u8]) -> u32 {
        let Strings { bytes: all, ends, table, .. } = self;
        let number = ends.len() as u32;
        all.extend_from_slice(bytes);
        ends.push(all.len());
        table.insert_unique(hash, number, |&n| hash_bytes(string(all, ends, n)));
        number
    }
}

fn string<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

/// Calls `f` with the bytes that stand for each value, `None` for NULL: equal values have equal bytes. Values of
/// strings stand for themselves, as in [`Dictionary::bytes_of`](storage::Dictionary::bytes_of).
pub(crate) fn each_key(array: &ArrayRef, f: &mut dyn FnMut(Option<&[u8]>)) -> Result<(), ExecError> {
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
