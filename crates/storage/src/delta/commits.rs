//! What was committed to a delta, in the order of versions: what scans and merges catch up by.

use std::ops::Range;
use std::sync::Arc;

use numa::Reservation;

use super::TableRow;
use super::dead::DEAD_ROW_BYTES;

/// What one statement did.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) version: u64,
    /// Numbers of the rows that it added.
    pub(super) rows: Range<u32>,
    pub(super) dead: DeadRows,
    /// What its dead rows take.
    pub(super) charge: Option<Arc<Reservation>>,
}

/// Rows that a statement lets die, mostly one at most; each once.
#[derive(Clone, Debug, Default)]
pub(super) enum DeadRows {
    #[default]
    None,
    One(TableRow),
    Several(Arc<[TableRow]>),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Commits {
    all: Vec<Commit>,
    /// Bytes that their dead rows are charged.
    dead_bytes: u64,
}

impl DeadRows {
    /// Of a list in any order, in which a row may stand twice.
    pub(super) fn of(rows: &[TableRow]) -> DeadRows {
        match rows {
            [] => DeadRows::None,
            [row] => DeadRows::One(*row),
            several => {
                let mut rows = several.to_vec();
                rows.sort_unstable();
                rows.dedup();
                DeadRows::Several(rows.into())
            }
        }
    }

    /// Bytes that they take, listed here and among the base's dead rows.
    pub(super) fn bytes(&self) -> u64 {
        let of_base = self.rows().iter().filter(|row| matches!(row, TableRow::Base { .. })).count();
        let listed = match self {
            DeadRows::Several(rows) => size_of_val::<[TableRow]>(rows),
            DeadRows::None | DeadRows::One(_) => 0,
        };
        (listed + of_base * DEAD_ROW_BYTES) as u64
    }

    /// The rows.
    pub(super) fn rows(&self) -> &[TableRow] {
        match self {
            DeadRows::None => &[],
            DeadRows::One(row) => std::slice::from_ref(row),
            DeadRows::Several(rows) => rows,
        }
    }
}

impl Commits {
    /// One more, of a version that is later than all others.
    pub(super) fn push(&mut self, commit: Commit) {
        debug_assert!(self.last() < commit.version, "versions ascend");
        self.dead_bytes += commit.charge.as_ref().map_or(0, |charge| charge.bytes());
        self.all.push(commit);
    }

    /// Bytes of the budget that their dead rows hold.
    pub(super) fn dead_bytes(&self) -> u64 {
        self.dead_bytes
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The newest version, 0 where nothing was committed.
    pub(super) fn last(&self) -> u64 {
        self.all.last().map_or(0, |commit| commit.version)
    }

    /// How many of them a reader of `version` sees.
    pub(super) fn seen(&self, version: u64) -> usize {
        // Readers are mostly near the end.
        match self.last() <= version {
            true => self.all.len(),
            false => self.all.partition_point(|commit| commit.version <= version),
        }
    }

    /// The newest version that a reader of `version` sees something of.
    pub(super) fn newest_seen(&self, version: u64) -> u64 {
        self.seen(version).checked_sub(1).map_or(0, |last| self.all[last].version)
    }

    /// Those after version `after` that a reader of `version` sees.
    pub(super) fn between(&self, after: u64, version: u64) -> &[Commit] {
        let end = self.seen(version);
        let from = self.all[..end].partition_point(|commit| commit.version <= after);
        &self.all[from..end]
    }
}
