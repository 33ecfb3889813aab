//! The base's rows that died, each with the version that let it die, or claimed by a running statement.
//!
//! In shards by the row, so that writers of different rows seldom meet. Few of a base's rows die before a merge, so
//! they are listed instead of all rows having a place.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::FixedState;
use parking_lot::Mutex;

const SHARDS: usize = 16;
/// What a row has while a running statement lets it die. No version, but a reader of whatever is newest may ask for it.
const CLAIMED: u64 = u64::MAX;

/// Bytes that a dead row takes here, as they are charged.
pub(super) const DEAD_ROW_BYTES: usize = 4 * size_of::<(u64, u64)>();

/// See the module. Rows are segments in the upper half, rows of them in the lower.
#[derive(Debug, Default)]
pub(super) struct DeadBase {
    shards: [Mutex<HashMap<u64, u64, FixedState>>; SHARDS],
}

impl DeadBase {
    fn shard(&self, row: u64) -> &Mutex<HashMap<u64, u64, FixedState>> {
        &self.shards[(row ^ row >> 32) as usize % SHARDS]
    }

    /// Whether a reader of `version` finds the row dead.
    pub(super) fn is_dead(&self, row: u64, version: u64) -> bool {
        self.shard(row).lock().get(&row).is_some_and(|died| *died != CLAIMED && *died <= version)
    }

    /// Claims a row that lives; whether it did and nobody else has claimed it.
    pub(super) fn claim(&self, row: u64) -> bool {
        match self.shard(row).lock().entry(row) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(CLAIMED);
                true
            }
        }
    }

    /// Gives a claimed row back.
    pub(super) fn release(&self, row: u64) {
        self.shard(row).lock().remove(&row);
    }

    /// A row dies with this version.
    pub(super) fn kill(&self, row: u64, version: u64) {
        self.shard(row).lock().insert(row, version);
    }
}
