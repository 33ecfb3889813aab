//! Numbers that tell stored things apart, for whoever keeps what was found out about them.
//!
//! Invariant: no two have the same number as long as the process runs, also when one of them is gone. What is kept
//! elsewhere has a number of its own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of a [`Dictionary`](crate::Dictionary).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryId(u64);

/// The number of a [`Column`](crate::Column) that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(u64);

static NEXT: AtomicU64 = AtomicU64::new(0);

impl DictionaryId {
    /// The next number.
    pub(crate) fn next() -> DictionaryId {
        DictionaryId(NEXT.fetch_add(1, Relaxed))
    }
}

impl ColumnId {
    /// The next number.
    pub(crate) fn next() -> ColumnId {
        ColumnId(NEXT.fetch_add(1, Relaxed))
    }
}
