//! [`Transaction`]: a transaction over several statements, and what a statement knows of the one that it is part of.
//!
//! A transaction's statements run over a catalog of its own ([`Catalog::private`]): that of its snapshot, in which the
//! tables that it has written have its rows behind the shared ones, and the shared ones that it has taken away are
//! deleted. So whatever a statement does, it does as outside of a transaction; what it has done is found by comparing
//! the catalog before and after, locked, and kept as [`Content`] until COMMIT makes it everybody's.
//! `statements::transaction` has how.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use storage::{DeltasView, Part, RowsToDelete, TableRow, TableVersion};

use crate::catalog::rights::RightsChange;
use crate::catalog::roles::RolesChange;
use crate::catalog::snapshot::{Reads, Snapshot};
use crate::catalog::transactions::{Level, OpenTransaction};
use crate::catalog::{Catalog, CatalogState, Entry, Name, TableEntry, TableMeta};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::plan::planner::Planner;
use crate::run::changes::RowChanges;
use crate::run::deferred::Deferred;
use crate::run::inner::Inner;
use crate::run::locks::{WantedLocks, WantedTable};
use crate::run::pending::PendingRows;

/// A transaction over several statements.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// As others see it.
    pub open: Arc<OpenTransaction>,
    /// Its own catalog.
    pub home: Arc<Catalog>,
    /// Held while a statement of it runs.
    pub state: Mutex<TransactionState>,
    /// How many savepoints it has made.
    pub savepoints: AtomicU64,
    /// The database.
    pub inner: Weak<Inner>,
    /// Rolls it back where nobody has ended it.
    pub forget: fn(&Transaction),
}

/// Whatever becomes of its session, nothing stays locked.
impl Drop for Transaction {
    fn drop(&mut self) {
        (self.forget)(self);
    }
}

/// What a transaction is at between two statements.
#[derive(Debug)]
pub(crate) struct TransactionState {
    /// What it sees.
    pub level: Level,
    /// Whether it must not write.
    pub is_read_only: bool,
    /// Whether a statement has failed: nothing goes on before it is rolled back, as a whole or to a savepoint.
    pub has_failed: bool,
    /// Statements that were begun.
    pub begun: u64,
    /// The last of them whose rows have ended with an error.
    pub stream_failed: Arc<AtomicU64>,
    /// Up to which of them that is no matter.
    pub forgiven: u64,
    /// Whether it is of one statement, which did not ask for it.
    pub is_implicit: bool,
    /// Why it is over although its session has not ended it.
    pub ended: Option<Ended>,
    /// Of the database, as the last statement saw it, or as all do.
    pub snapshot: Option<Snapshot>,
    /// The writes of tables before that snapshot, as [`crate::catalog::writes_until_now`] counts them.
    pub writes_before: u64,
    /// Its own state over that snapshot, where it is known.
    pub own: Option<Arc<CatalogState>>,
    /// What it has read of tables, where it is serializable.
    pub reads: Reads,
    /// Statements that have written, counted from 1.
    pub step: u64,
    /// What it has written.
    pub content: Content,
    /// What is yet to be looked at of foreign keys.
    pub deferred: Deferred,
    /// The savepoints that can be gone back to, the latest last.
    pub savepoints: Vec<Savepoint>,
    /// The tables in which it has locked something, by their numbers.
    pub locked: BTreeMap<u64, Arc<TableMeta>>,
    /// The session's settings when it began.
    pub settings: SettingsAt,
}

/// Why a transaction is over that its session has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// COMMIT or ROLLBACK has ended it.
    Itself,
    /// Nobody has its session any more.
    Session,
    /// Its session did nothing for too long.
    Idle,
}

/// What a transaction has written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// Schemas that it has made (`true`) and dropped.
    pub schemas: BTreeMap<String, bool>,
    /// Names that it has given, taken away or given to something else. A table that stands here is the transaction's
    /// alone: it has made it, or it owns it.
    pub names: BTreeMap<Name, NameChange>,
    /// Tables of which it has written rows, by their numbers.
    pub tables: BTreeMap<u64, WrittenTable>,
    /// Others of which it has written rows by their keys alone, which no statement has read otherwise since.
    pub pending: BTreeMap<u64, PendingRows>,
    /// What it has changed of who there is.
    pub roles: Option<RolesChange>,
    /// What it has changed of who may do what.
    pub rights: Option<RightsChange>,
}

/// What a name stood for when the transaction first changed it, and what it stands for in it.
#[derive(Debug, Clone)]
pub(crate) struct NameChange {
    pub before: Option<Entry>,
    pub after: Option<Entry>,
}

/// A table of which a transaction has written rows.
#[derive(Debug, Clone)]
pub(crate) struct WrittenTable {
    /// The table as others have committed it, which `table` is made of.
    pub shared: Arc<SharedView>,
    /// The table as the transaction sees it.
    pub table: Arc<TableEntry>,
}

/// A session's settings at some moment, each with the number that tells settings apart.
#[derive(Debug, Clone)]
pub(crate) struct SettingsAt {
    pub now: (Arc<Planner>, u64),
    /// What they are once the transaction is committed, where some are local to it.
    pub after_commit: Option<(Arc<Planner>, u64)>,
}

/// A savepoint.
#[derive(Debug, Clone)]
pub(crate) struct Savepoint {
    pub name: String,
    /// Which of the transaction's it is, from 1.
    pub number: u64,
    /// The last step before it.
    pub step: u64,
    pub content: Content,
    pub deferred: Deferred,
    pub settings: SettingsAt,
    pub is_read_only: bool,
}

/// A table as others have committed it up to a version, and the same as segments alone.
#[derive(Debug)]
pub(crate) struct SharedView {
    /// The table in the database's catalog.
    pub table: Arc<TableEntry>,
    /// What is seen of its delta, if it has one.
    pub view: Option<DeltasView>,
    /// All of its rows as segments.
    pub whole: Arc<TableVersion>,
}

/// What a statement knows of the transaction that it is part of.
#[derive(Debug)]
pub(crate) struct InTransaction {
    /// The transaction's number.
    pub id: u64,
    /// Whether it must not write.
    pub is_read_only: bool,
    /// Whether it is of one statement, which did not ask for it.
    pub is_implicit: bool,
    /// Where a stream of rows tells that it has failed, by the number of its statement: the transaction has, then.
    pub has_failed: Arc<AtomicU64>,
    /// Which of the transaction's statements it is.
    pub number: u64,
    /// What the transaction sees of others.
    pub level: Level,
    /// Tables that are the transaction's alone.
    pub own: HashSet<u64>,
    /// The others whose rows have been written, or are about to be: as others see them.
    pub shared: Mutex<HashMap<u64, Arc<SharedView>>>,
    /// Tables whose rows keys that are deferred have yet to be looked at for.
    pub waited_for: HashSet<u64>,
    /// What the statement wants locked besides what it writes.
    pub wanted: Mutex<Option<WantedLocks>>,
    /// Rows that came and went by the statement, where foreign keys have to know.
    pub changes: RowChanges,
    /// The writes of tables before the transaction's snapshot, as [`crate::catalog::writes_until_now`] counts them.
    pub writes_before: u64,
}

impl InTransaction {
    /// The statement relies on a table: it is the transaction's alone once the statement has ended, as it is now.
    pub(crate) fn wants_unchanged(&self, table: u64) {
        let mut wanted = self.wanted.lock();
        let table = WantedTable { table, alone: true, nowait: false, unchanged: true };
        match wanted.as_mut() {
            Some(WantedLocks::Tables(tables)) => tables.push(table),
            _ => *wanted = Some(WantedLocks::Tables(vec![table])),
        }
    }
}

impl Ended {
    /// In words.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Ended::Itself => "it has ended",
            Ended::Session => "its session has ended",
            Ended::Idle => "it was idle for longer than nearside.idle_in_transaction_session_timeout_ms",
        }
    }

    /// The code of what its statements fail with.
    pub(crate) fn code(self) -> SqlState {
        match self {
            Ended::Idle => SqlState::IdleInTransactionSessionTimeout,
            _ => SqlState::InvalidTransactionState,
        }
    }
}

impl Content {
    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_definitions() && self.tables.is_empty() && self.pending.is_empty()
    }

    /// Whether all that was written was written by keys.
    pub(crate) fn is_by_keys(&self) -> bool {
        !self.pending.is_empty() && self.tables.is_empty() && !self.has_definitions()
    }

    /// Whether names, columns, indexes or roles were changed.
    pub(crate) fn has_definitions(&self) -> bool {
        !self.schemas.is_empty() || !self.names.is_empty() || self.roles.is_some() || self.rights.is_some()
    }

    /// Tables that are the transaction's alone.
    pub(crate) fn own_tables(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.names.values().filter_map(|change| match &change.after {
            Some(Entry::Table(table)) => Some(table),
            _ => None,
        })
    }
}

impl SharedView {
    /// A table up to a version.
    ///
    /// # Errors
    /// No memory for the delta's rows as segments.
    pub(crate) fn of(table: &Arc<TableEntry>, version: u64) -> Result<SharedView> {
        let (view, whole) = match &table.delta {
            None => (None, Arc::clone(&table.base)),
            Some(delta) => {
                let (view, whole) = table.view_and_whole(delta, version)?;
                (Some(view), whole)
            }
        };
        Ok(SharedView { table: Arc::clone(table), view, whole })
    }

    /// Whether rows of another state of the table are where they are in this one.
    pub(crate) fn has_places_of(&self, now: &TableEntry) -> bool {
        let is_same_delta = match (&self.table.delta, &now.delta) {
            (Some(own), Some(now)) => Arc::ptr_eq(&own.rows, &now.rows),
            (None, _) => true,
            (Some(_), None) => false,
        };
        Arc::ptr_eq(&self.table.base, &now.base) && is_same_delta
    }

    /// Whether a reader of `version` sees the same of another state of the table.
    pub(crate) fn is_seen_in(&self, now: &TableEntry, version: u64) -> bool {
        let seen = |table: &TableEntry| table.delta.as_ref().map_or(0, |delta| delta.rows.newest_seen(version));
        self.has_places_of(now) && self.view.as_ref().map_or(0, DeltasView::version) == seen(now)
    }

    /// How many segments each part has: behind them come those of who writes it.
    pub(crate) fn segments(&self, part: usize) -> usize {
        self.whole.parts.get(part).map_or(0, |part| part.segments.len())
    }

    /// Where a row of the whole table is, by its part, the part's segment and the row of that.
    ///
    /// # Errors
    /// It is not there.
    pub(crate) fn row(&self, part: usize, segment: usize, row: u32) -> Result<TableRow> {
        let before: usize = (0..part).map(|part| self.segments(part)).sum();
        let segment = before + segment;
        match &self.view {
            Some(view) => Ok(view.places(&self.table.base).of(segment, row)?),
            None => Ok(TableRow::Base { segment: segment as u32, row }),
        }
    }

    /// Where a row of a table without a delta is, as [`row`](Self::row) takes it.
    fn place(&self, row: TableRow) -> Result<(usize, usize, u32)> {
        let missing = || Error::Internal("a row is held that the table does not have".into());
        let TableRow::Base { segment, row } = row else { return Err(missing()) };
        let mut left = segment as usize;
        for part in 0..self.whole.parts.len() {
            match left.checked_sub(self.segments(part)) {
                None => return Ok((part, left, row)),
                Some(behind) => left = behind,
            }
        }
        Err(missing())
    }

    /// The whole table without some of its rows, and with others behind it.
    ///
    /// # Errors
    /// A row that is not there, no memory.
    pub(crate) fn changed(&self, dead: &[TableRow], added: Vec<Part>) -> Result<TableVersion> {
        let mut deletes: BTreeMap<(usize, usize), Vec<u32>> = BTreeMap::new();
        for row in dead {
            let (part, segment, row) = match &self.view {
                Some(view) => view.place_in_whole(*row, &self.table.base)?,
                None => self.place(*row)?,
            };
            deletes.entry((part, segment)).or_default().push(row);
        }
        let deletes: Vec<RowsToDelete> =
            deletes.into_iter().map(|((part, segment), rows)| RowsToDelete { part, segment, rows }).collect();
        let without = self.whole.with_deleted(&deletes, &self.table.meta.allocator())?;
        Ok(without.with_appended_parts(added))
    }
}

impl WrittenTable {
    /// What the transaction has added, by part.
    pub(crate) fn added(&self) -> Vec<Part> {
        added_to(&self.shared, &self.table.base)
    }
}

/// What a version has behind the segments of another, by part; those without a live row are left out.
fn added_to(shared: &SharedView, version: &TableVersion) -> Vec<Part> {
    let added = version.parts.iter().enumerate().map(|(number, part)| {
        let own = part.segments.iter().skip(shared.segments(number)).filter(|segment| segment.live_rows() > 0);
        Part { segments: own.cloned().collect() }
    });
    added.collect()
}

impl InTransaction {
    /// How many segments of a part of a table are others'; 0 where all are the transaction's.
    pub(crate) fn shared_segments(&self, table: u64, part: usize) -> usize {
        if self.own.contains(&table) {
            return 0;
        }
        self.shared.lock().get(&table).map_or(0, |shared| shared.segments(part))
    }

    /// Fails where the transaction must not write.
    ///
    /// # Errors
    /// It is read only.
    pub(crate) fn may_write(&self) -> Result<()> {
        match self.is_read_only {
            true => Err(Error::transaction(
                SqlState::ReadOnlySqlTransaction,
                "the transaction is read only: it cannot write",
            )),
            false => Ok(()),
        }
    }
}
