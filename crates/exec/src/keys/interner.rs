//! [`Interner`]: numbers for values of any type, the same for all workers.
//!
//! A row of values becomes bytes (Arrow's row format: equal rows have equal bytes), and bytes become an id. Workers
//! keep what they have seen, so the shared table, cut into shards with a lock each, is asked once per worker and value.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use parking_lot::Mutex;

use super::hash::hash_bytes;
use super::strings::Strings;
use crate::ExecError;

/// Shards; ids of shard `s` are `s` modulo this.
const SHARDS: usize = 16;

/// Numbers rows of values of some types.
pub(crate) struct Interner {
    converter: RowConverter,
    shards: Vec<Mutex<Strings>>,
}

/// What one worker has seen.
#[derive(Default)]
pub(crate) struct LocalInterner {
    strings: Strings,
    ids: Vec<u32>,
}

impl LocalInterner {
    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.strings.held_bytes() + 4 * self.ids.capacity() as u64
    }
}

impl Interner {
    /// For rows of these types.
    pub(crate) fn new(types: Vec<DataType>) -> Result<Interner, ExecError> {
        let converter = RowConverter::new(types.into_iter().map(SortField::new).collect())?;
        Ok(Interner { converter, shards: (0..SHARDS).map(|_| Mutex::default()).collect() })
    }

    /// The ids of rows.
    pub(crate) fn intern(
        &self,
        arrays: &[ArrayRef],
        local: &mut LocalInterner,
        ids: &mut Vec<u32>,
    ) -> Result<(), ExecError> {
        let rows = self.converter.convert_columns(arrays)?;
        ids.clear();
        for row in rows.iter() {
            let hash = hash_bytes(row.data());
            let (number, new) = local.strings.number(hash, row.data());
            if new {
                local.ids.push(self.shared_id(hash, row.data())?);
            }
            ids.push(local.ids[number as usize]);
        }
        Ok(())
    }

    fn shared_id(&self, hash: u64, bytes: &[u8]) -> Result<u32, ExecError> {
        // The low bits choose the slot and the top ones the tag of the shard's table.
        let shard = (hash >> 40) as usize % SHARDS;
        let number = self.shards[shard].lock().number(hash, bytes).0 as usize;
        u32::try_from(number * SHARDS + shard).map_err(|_| {
            let most = u32::MAX as usize / SHARDS;
            ExecError::Evaluation(format!("too many different keys to group by: about {most} per shard are the most"))
        })
    }

    /// The values behind ids, column by column.
    pub(crate) fn arrays(&self, ids: &[u32]) -> Result<Vec<ArrayRef>, ExecError> {
        let shards: Vec<_> = self.shards.iter().map(|s| s.lock()).collect();
        let parser = self.converter.parser();
        let rows = ids.iter().map(|&id| parser.parse(shards[id as usize % SHARDS].get(id / SHARDS as u32)));
        Ok(self.converter.convert_rows(rows)?)
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|s| s.lock().held_bytes()).sum()
    }
}
