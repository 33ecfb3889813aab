//! What outlives the versions of a table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use numa::{Allocator, Budget, Policy};
use storage::UnreadColumns;

use super::locks::TableLocks;
use super::merges::Merges;
use super::write_turns::WriteTurns;

/// What belongs to a table for as long as it exists, whatever its rows.
#[derive(Debug)]
pub(crate) struct TableMeta {
    /// Of the statements that write the table.
    pub write_turns: WriteTurns,
    /// Of its delta.
    pub merges: Arc<Merges>,
    /// What transactions have locked of it.
    pub locks: TableLocks,
    budget: Arc<Budget>,
    written_rows: AtomicU64,
    /// When it was last written: see [`TableMeta::wrote`].
    last_write: AtomicU64,
    /// Columns of any version of it that are on the disk alone.
    pub unread: UnreadColumns,
}

/// Writes of tables that were committed, of any database.
static WRITES: AtomicU64 = AtomicU64::new(1);

/// How many writes were committed by now: those that a snapshot which is taken afterwards does not have come later, by
/// [`TableMeta::last_write`].
pub(crate) fn writes_until_now() -> u64 {
    WRITES.load(Ordering::Acquire)
}

impl TableMeta {
    /// Of a table that nobody has written, charged to `budget`.
    pub(crate) fn new(budget: Arc<Budget>) -> TableMeta {
        TableMeta {
            write_turns: WriteTurns::default(),
            merges: Arc::default(),
            locks: TableLocks::default(),
            budget,
            written_rows: AtomicU64::new(0),
            last_write: AtomicU64::new(0),
            unread: UnreadColumns::default(),
        }
    }

    /// Whether no column of it is on the disk alone, in whatever version; for good once it is.
    pub(crate) fn is_resident(&self) -> bool {
        !self.unread.is_any()
    }

    /// Rows were added or died, and are seen so: told by who has the table's turn still.
    pub(crate) fn wrote(&self, rows: usize) {
        self.written_rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.last_write.fetch_max(WRITES.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
    }

    /// The number of the last write, as [`writes_until_now`] counts them; for who has the table's turn.
    pub(crate) fn last_write(&self) -> u64 {
        self.last_write.load(Ordering::Acquire)
    }

    /// Rows that were added and that died since the process began, or more.
    pub(crate) fn written_rows(&self) -> u64 {
        self.written_rows.load(Ordering::Relaxed)
    }

    /// The budget that the table's memory counts in.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The budget that the table's memory counts in; what belongs to no column lies on the node of whoever writes it.
    pub(crate) fn allocator(&self) -> Allocator {
        Allocator::new(Policy::Local, Arc::clone(&self.budget))
    }
}
