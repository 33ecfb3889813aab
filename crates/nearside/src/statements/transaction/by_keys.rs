//! Statements of a transaction that write or read one row by its key: without a plan, and without segments.
//!
//! A row that such a statement writes is pending ([`PendingRows`]): it is found by its key before the table's own rows
//! are, and at COMMIT it becomes a row of the table's delta. The row of others that it takes the place of is held,
//! beside who else writes the table: of two who want one row one gets it. A key that nobody has is locked, as those of
//! other statements are, with the table's write turn alone. Whatever else the transaction does makes what is pending
//! part of its own tables first ([`with_pending`]).
//!
//! In REPEATABLE READ a row is looked up as it is now, and taken where the snapshot has the very same: it was there
//! then, at the same place. Where that is not known, since others have changed the row or merges have moved the
//! table's, the statement goes the usual way, which knows what to say.
//!
//! # Limits
//! READ COMMITTED and REPEATABLE READ, tables with one unique index at most, statements that leave keys as they are,
//! 65,536 rows of a table. Others go the usual way.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use storage::{Keys, Part, RowHold, Serial, TableRow, TableVersion};
use units::versions::Pin;

use super::view::gone;
use crate::catalog::delta::{FoundKeys, TableDelta};
use crate::catalog::index::indexed;
use crate::catalog::snapshot::Snapshot;
use crate::catalog::transactions::Level;
use crate::catalog::{Alone, Name, TableEntry};
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::outcome::Done;
use crate::run::pending::{PendingKey, PendingRows};
use crate::run::statement::RunningStatement;
use crate::run::transaction::{Content, SharedView, Transaction, TransactionState, WrittenTable};
use crate::statements::stage::{PartStager, build, nullable};

/// How often a statement begins again whose row others have changed.
const TRIES: u32 = 32;

/// A transaction, for a statement that writes or reads one row of it by its key.
pub(crate) struct ByKeys<'a> {
    id: u64,
    state: &'a mut TransactionState,
}

/// A row that has a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyedRow {
    /// None.
    None,
    /// One that is pending.
    Own(usize),
    /// One that is committed, and that nobody takes away.
    Shared(TableRow),
    /// Nobody knows: the statement has to go the usual way.
    Unsure,
}

/// A table that a transaction writes by keys, with its write turn in hand, alone or beside others.
pub(crate) struct KeyedTable<'a> {
    /// The table as it is now.
    pub table: &'a TableEntry,
    /// What the transaction sees, where that is not what is there now.
    snapshot: Option<Snapshot>,
    id: u64,
    step: u64,
    delta: &'a Arc<TableDelta>,
    rows: &'a mut PendingRows,
    pin: Option<Pin>,
    /// The columns of its unique index, if it has one.
    key: Option<Vec<usize>>,
    /// Whether nobody else writes the table meanwhile, so that keys can be locked.
    is_alone: bool,
    running: &'a RunningStatement,
}

/// What became of a statement.
pub(crate) enum Keyed {
    Done(Done),
    /// Nothing was done, and it has to go the usual way.
    Otherwise,
    /// Nothing was done, and it has to be done by who has the table's write turn alone.
    Alone,
    /// Nothing was done: others have changed the row just now.
    Again,
}

impl<'a> ByKeys<'a> {
    /// `None` where all statements of the transaction go the usual way.
    pub(crate) fn of(transaction: &Transaction, state: &'a mut TransactionState) -> Option<ByKeys<'a>> {
        let is_usual = state.level == Level::Serializable || state.is_read_only || state.content.has_definitions();
        (!is_usual).then_some(ByKeys { id: transaction.open.id, state })
    }

    /// Carries out a statement that writes a row of a table; `None` where it has done nothing and has to go the usual
    /// way.
    ///
    /// # Errors
    /// Those of `work`; what it has locked is the caller's to release.
    pub(crate) fn write(
        &mut self,
        name: &Name,
        running: &Arc<RunningStatement>,
        work: impl Fn(&mut KeyedTable<'_>, &Arc<RunningStatement>) -> Result<Keyed>,
    ) -> Result<Option<Done>> {
        let known = running.catalog.table(name)?;
        let (table, meta) = (known.id, Arc::clone(&known.meta));
        let is_small = config::nearside(running.planner.config_options()).small_writes;
        if !is_small || self.state.content.tables.contains_key(&table) {
            return Ok(None);
        }
        let mut is_alone = false;
        for _ in 0..TRIES {
            let check = || running.check();
            let _alone = is_alone.then(|| meta.write_turns.next(check)).transpose()?;
            let _beside = (!is_alone).then(|| meta.write_turns.share(check)).transpose()?;
            let running = Arc::new(running.refreshed());
            let now = Arc::clone(running.catalog.table(name)?);
            if now.id != table || !now.has_room_for_delta() || now.unique_indexes().count() > 1 {
                return Ok(None);
            }
            now.load_all(&running)?;
            if let Some(holder) = meta.locks.other_owner(Some(self.id)) {
                return Err(running.blocked_by(holder));
            }
            let Some(delta) = &now.delta else {
                let empty = match TableDelta::empty(&now, &|| running.home.units()) {
                    Err(Error::Memory(_)) => return Ok(None),
                    empty => Arc::new(empty?),
                };
                running.home.commit(|state| state.begin_delta(table, &empty))?;
                continue;
            };
            meta.locks.join(self.id, self.state.step + 1);
            self.state.locked.insert(table, Arc::clone(&meta));
            let rows = self.state.content.pending.entry(table).or_default();
            if rows.is_full() {
                return Ok(None);
            }
            let key = now.unique_indexes().next().map(|index| now.key_columns(index)).transpose()?;
            let snapshot = (self.state.level != Level::ReadCommitted).then(|| self.state.snapshot.clone()).flatten();
            let mut of = KeyedTable {
                table: &now,
                snapshot,
                id: self.id,
                step: self.state.step + 1,
                delta,
                rows,
                pin: now.newest_keys(),
                key,
                is_alone,
                running: &running,
            };
            match work(&mut of, &running)? {
                Keyed::Done(done) => {
                    self.state.step += 1;
                    return Ok(Some(done));
                }
                Keyed::Otherwise => return Ok(None),
                Keyed::Alone => is_alone = true,
                Keyed::Again => {}
            }
        }
        Ok(None)
    }

    /// The columns of the row of a table that has a key: none where there is no such row; `None` where the statement
    /// has to go the usual way.
    ///
    /// # Errors
    /// A cancelled statement.
    pub(crate) fn read(
        &self,
        (table, index): (u64, usize),
        key: &[ArrayRef],
        columns: &[usize],
        running: &RunningStatement,
    ) -> Result<Option<Vec<ArrayRef>>> {
        running.check()?;
        if self.state.content.tables.contains_key(&table) {
            return Ok(None);
        }
        let (state, pin) = running.home.pinned();
        // Columns are those that the query was planned with.
        if state.ddl_version != running.catalog.ddl_version {
            return Ok(None);
        }
        let is_alike = |now: &&Arc<TableEntry>| now.unique_indexes().count() == 1 && now.meta.is_resident();
        let Some(now) = state.by_id(table).filter(is_alike).filter(|_| index == 0) else { return Ok(None) };
        let keys = Keys::new(key)?;
        let of_key = now.unique_indexes().next().map(|index| now.key_columns(index)).transpose()?.unwrap_or_default();
        if let (Some(rows), Some(code)) = (self.state.content.pending.get(&table), keys.codes().next().flatten()) {
            match rows.find(code, key, &of_key)? {
                PendingKey::Free => {}
                PendingKey::Row(place) => {
                    let row = rows.row(place);
                    return Ok(row.map(|row| columns.iter().map(|column| Arc::clone(row.column(*column))).collect()));
                }
                PendingKey::Clash => return Ok(None),
            }
        }
        let FoundKeys::Rows(found) = now.find(0, &keys, pin.as_ref(), &|| false, &Serial)? else { return Ok(None) };
        let mut rows: Vec<TableRow> = found.into_iter().flatten().collect();
        if self.state.level != Level::ReadCommitted
            && !self.state.snapshot.as_ref().is_some_and(|snapshot| has_same(snapshot, now, rows.first()))
        {
            return Ok(None);
        }
        if let Some(delta) = now.delta.as_ref().filter(|delta| delta.rows.has_holds()) {
            for row in std::mem::take(&mut rows) {
                if !delta.rows.is_taken(row, self.id, &now.base)? {
                    rows.push(row);
                }
            }
        }
        now.columns_at(&rows, columns).map(Some)
    }

    /// How many rows the transaction has written by keys.
    pub(crate) fn written(&self) -> u64 {
        self.state.content.pending.values().map(PendingRows::written).sum()
    }
}

impl KeyedTable<'_> {
    /// The row that has a key of the unique index.
    ///
    /// # Errors
    /// Another transaction holds it.
    pub(crate) fn find(&self, index: usize, key: &[ArrayRef]) -> Result<KeyedRow> {
        let Some(columns) = self.key.as_ref().filter(|_| index == 0) else { return Ok(KeyedRow::Unsure) };
        let keys = Keys::new(key)?;
        let Some(code) = keys.codes().next().flatten() else { return Ok(KeyedRow::None) };
        match self.rows.find(code, key, columns)? {
            PendingKey::Free => {}
            PendingKey::Row(place) => return Ok(KeyedRow::Own(place)),
            PendingKey::Clash => return Ok(KeyedRow::Unsure),
        }
        let found = match self.table.find(0, &keys, self.pin.as_ref(), &|| false, &Serial)? {
            FoundKeys::Rows(rows) => rows.into_iter().next().flatten(),
            FoundKeys::Clash => return Ok(KeyedRow::Unsure),
        };
        if self.snapshot.as_ref().is_some_and(|snapshot| !has_same(snapshot, self.table, found.as_ref())) {
            return Ok(KeyedRow::Unsure);
        }
        let Some(place) = found else { return Ok(KeyedRow::None) };
        if self.delta.rows.is_taken(place, self.id, &self.table.base)? {
            return Ok(KeyedRow::None);
        }
        match self.delta.rows.taker_of(&[place], Some(self.id), &self.table.base)? {
            None => Ok(KeyedRow::Shared(place)),
            Some(holder) => Err(self.running.blocked_by(holder)),
        }
    }

    /// The row that has the key of a row, in a table with a unique index.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(crate) fn find_key_of(&self, row: &RecordBatch) -> Result<KeyedRow> {
        match &self.key {
            None => Ok(KeyedRow::None),
            Some(columns) => self.find(0, &self.key_of(row, columns)),
        }
    }

    fn key_of(&self, row: &RecordBatch, columns: &[usize]) -> Vec<ArrayRef> {
        columns.iter().map(|column| Arc::clone(row.column(*column))).collect()
    }

    /// The columns of a row that was found.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn columns(&self, row: KeyedRow, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        match row {
            KeyedRow::Shared(place) => self.table.columns_at(&[place], columns),
            KeyedRow::Own(place) => {
                let row = self.rows.row(place).ok_or_else(|| Error::Internal("a pending row that is gone".into()))?;
                Ok(columns.iter().map(|column| Arc::clone(row.column(*column))).collect())
            }
            KeyedRow::None | KeyedRow::Unsure => Err(Error::Internal("a row that was not found".into())),
        }
    }

    /// Adds a row whose key is free, as far as is committed.
    ///
    /// # Errors
    /// Another transaction has the key.
    pub(crate) fn add(&mut self, row: RecordBatch, tag: &'static str) -> Result<Keyed> {
        let code = self.code_of(&row)?;
        if let Some(code) = code {
            if !self.is_alone {
                return Ok(Keyed::Alone);
            }
            let locks = &self.table.meta.locks;
            if let Some(holder) = locks.key_holder(0, std::iter::once(code), Some(self.id)) {
                return Err(self.running.blocked_by(holder));
            }
            locks.lock_keys(0, std::iter::once(code), self.id, self.step);
        }
        self.rows.add(row, code);
        Ok(Keyed::Done(Done::rows(tag, 1)))
    }

    /// Gives a row that was found other values, with which it has the same key, or takes it away. Who holds a row needs
    /// no lock for its key: nobody can give it to another row as long as that one is there.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn change(&mut self, at: KeyedRow, row: Option<RecordBatch>, tag: &'static str) -> Result<Keyed> {
        match at {
            KeyedRow::Own(place) => self.rows.change(place, row),
            KeyedRow::Shared(place) => {
                let base = &self.table.base;
                let code = row.as_ref().map(|row| self.code_of(row)).transpose()?;
                if let Some(holder) = self.delta.rows.holder_of(&[place], Some(self.id), base)? {
                    return Err(self.running.blocked_by(holder));
                }
                let is_live = self.delta.rows.is_live(place, base, u64::MAX);
                if !is_live || !self.delta.rows.hold((self.id, self.step), RowHold::Death, &[place], base)? {
                    return Ok(Keyed::Again);
                }
                self.rows.taken(place);
                if let (Some(row), Some(code)) = (row, code) {
                    self.rows.add(row, code);
                }
            }
            KeyedRow::None | KeyedRow::Unsure => return Ok(Keyed::Otherwise),
        }
        Ok(Keyed::Done(Done::rows(tag, 1)))
    }

    /// The code of a row's key, where it has one.
    fn code_of(&self, row: &RecordBatch) -> Result<Option<u64>> {
        let Some(columns) = &self.key else { return Ok(None) };
        Ok(Keys::new(&self.key_of(row, columns))?.codes().next().flatten())
    }
}

/// Whether a snapshot has the same row with a key as a table has now: the one that was found, or none; as far as is
/// known.
fn has_same(snapshot: &Snapshot, now: &TableEntry, found: Option<&TableRow>) -> bool {
    let Some(known) = snapshot.by_id(now.id) else { return false };
    let is_same_delta = match (&known.delta, &now.delta) {
        (Some(known), Some(now)) => Arc::ptr_eq(&known.rows, &now.rows),
        // It has begun since.
        (None, _) => true,
        (Some(_), None) => false,
    };
    if !Arc::ptr_eq(&known.base, &now.base) || !is_same_delta {
        return false;
    }
    let version = snapshot.version();
    match (found, &now.delta) {
        (Some(place), Some(delta)) => delta.rows.is_live(*place, &now.base, version),
        // Who has had the key may have lost it.
        (None, Some(delta)) => delta.rows.newest_seen(u64::MAX) <= version,
        (_, None) => true,
    }
}

/// What a transaction has written, with what is pending as part of its own tables; over its snapshot, if it has one for
/// all statements.
///
/// # Errors
/// A table that it has written was dropped, no memory.
pub(crate) fn with_pending(
    id: u64,
    content: &Content,
    of_all: Option<&Snapshot>,
    running: &Arc<RunningStatement>,
) -> Result<Content> {
    let mut content = content.clone();
    let snapshot = of_all.cloned().unwrap_or_else(|| running.inner.catalog.snapshot());
    for (table, rows) in std::mem::take(&mut content.pending) {
        let now = snapshot.by_id(table);
        let now = now.ok_or_else(|| Error::Serialization("a table that was written was dropped".into()))?;
        let held = match of_all {
            // Where they were then, wherever merges have moved them.
            Some(_) => rows.taken_rows().to_vec(),
            None => now.delta.as_ref().map_or_else(Vec::new, |delta| delta.rows.held(id, &now.base)),
        };
        if rows.count() + held.len() == 0 {
            continue;
        }
        if content.tables.contains_key(&table) {
            return Err(gone(now));
        }
        let shared = SharedView::of(now, snapshot.version())?;
        let base = Arc::new(shared.changed(&held, segments_of(&rows, now, running)?)?);
        let own = indexed(TableEntry { base, delta: None, ..TableEntry::clone(now) }, &Arc::new(Alone))?;
        content.tables.insert(table, WrittenTable { shared: Arc::new(shared), table: Arc::new(own.into_table()) });
    }
    Ok(content)
}

/// Pending rows as segments of a table, by part.
fn segments_of(rows: &PendingRows, table: &TableEntry, running: &Arc<RunningStatement>) -> Result<Vec<Part>> {
    if rows.count() == 0 {
        return Ok(Vec::new());
    }
    let mut stager = PartStager::new(table, running)?;
    stager.append(&rows.batch(&nullable(&table.base.schema))?)?;
    let new = build(vec![stager.finish()?], table, running)?;
    let empty = TableVersion::empty(&table.base.schema);
    let of = TableEntry { base: Arc::new(empty.clone()), delta: None, ..table.clone() };
    Ok(new.appended_to(&of, &empty).base.parts.iter().map(|part| Part::clone(part)).collect())
}
