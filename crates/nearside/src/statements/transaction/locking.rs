//! What a statement of a transaction has written is found, and locked against others, before the statement ends.
//!
//! For each table whose rows have changed: the rows of others that are deleted now are held, the keys of those that
//! were added are locked, with the table's write turn alone for a moment. A row that another transaction holds, or a
//! key that it has locked, means to wait for that one and to begin the statement again; one that another has changed
//! since the snapshot means to begin again with a new one, or the end of a transaction that has one snapshot. A table
//! whose columns, indexes or placement have changed, of which segments were put in place of others', or of which very
//! many rows were written, is owned.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::concat;
use arrow::compute::kernels::cmp::not_distinct;
use storage::{ColumnId, Keys, RowHold, Serial, StoredColumn, TableRow, TableVersion};

use super::view::gone;
use crate::catalog::delta::{FoundKeys, TableDelta};
use crate::catalog::index::{IndexEntry, indexed};
use crate::catalog::transactions::Level;
use crate::catalog::write_turns::WriteTurn;
use crate::catalog::{Alone, CatalogState, Entry, Name, TableEntry, TableMeta};
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::run::transaction::{Content, NameChange, SharedView, Transaction, TransactionState, WrittenTable};

/// A statement that adds and takes away more rows of a table than this owns it.
const LOCKED_ROWS_MAX: usize = 1 << 20;

/// Why something could not be locked.
pub(super) enum Unlocked {
    /// Others have changed it since the snapshot.
    Changed,
    /// More was locked by others than was known when the statement began: it is run again.
    Again,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Unlocked {
    fn from(error: E) -> Unlocked {
        Unlocked::Failed(error.into())
    }
}

/// Gives back what a transaction has locked since a step.
pub(crate) fn release(
    id: u64,
    after_step: u64,
    state: &TransactionState,
    (running, with_turn): (&RunningStatement, Option<u64>),
) {
    // Who has a turn in hand has written that table alone, and waits for no other turn.
    let written = state.locked.iter().filter(|(table, _)| with_turn.is_none_or(|with_turn| with_turn == **table));
    for (table, meta) in written {
        // Nobody who has the turn waits for a transaction.
        let wants_turn = with_turn != Some(*table);
        let _turn = wants_turn.then(|| meta.write_turns.next(|| Ok::<(), std::convert::Infallible>(())));
        if let Some(delta) = running.inner.catalog.state().by_id(*table).and_then(|table| table.delta.clone()) {
            delta.rows.release_held(id, after_step);
        }
        meta.locks.release(id, after_step);
    }
}

/// The table whose write turn the caller has, and the one that others have changed.
pub(super) struct Turns<'a> {
    pub with_turn: Option<u64>,
    pub is_one_table: bool,
    pub changed: &'a mut Option<(u64, Arc<TableMeta>)>,
}

/// What differs between two states of a transaction's catalog.
pub(super) struct Changed {
    /// Schemas that were made (`true`) and dropped.
    pub schemas: Vec<(String, bool)>,
    /// Names that stand for something else, or for a table with other rows.
    pub names: Vec<Name>,
}

impl Changed {
    pub(super) fn between(before: &CatalogState, after: &CatalogState) -> Changed {
        let schemas = |of: &CatalogState| of.schemas().map(String::from).collect::<BTreeSet<String>>();
        let (old, new) = (schemas(before), schemas(after));
        let made = new.difference(&old).map(|schema| (schema.clone(), true));
        let dropped = old.difference(&new).map(|schema| (schema.clone(), false));
        let schemas = made.chain(dropped).collect();
        let is_same = |name: &Name, entry: &Entry| before.get(name).is_some_and(|known| is_same(known, entry));
        let put = after.entries().filter(|(name, entry)| !is_same(name, entry)).map(|(name, _)| name);
        let removed = before.entries().filter(|(name, _)| after.get(name).is_none()).map(|(name, _)| name);
        Changed { schemas, names: put.chain(removed).cloned().collect() }
    }
}

/// Whether two entries are the very same.
fn is_same(a: &Entry, b: &Entry) -> bool {
    match (a, b) {
        (Entry::Table(a), Entry::Table(b)) => Arc::ptr_eq(a, b),
        _ => stands_for_same(a, b),
    }
}

/// Whether two entries are the same table, with whatever rows, or the very same view or files.
pub(super) fn stands_for_same(a: &Entry, b: &Entry) -> bool {
    match (a, b) {
        (Entry::Table(a), Entry::Table(b)) => a.id == b.id,
        (Entry::View(a), Entry::View(b)) => Arc::ptr_eq(a, b),
        (Entry::External(a), Entry::External(b)) => Arc::ptr_eq(a, b),
        (Entry::Sequence(a), Entry::Sequence(b)) => Arc::ptr_eq(a, b),
        (Entry::Type(a), Entry::Type(b)) => Arc::ptr_eq(a, b),
        (Entry::Domain(a), Entry::Domain(b)) => Arc::ptr_eq(a, b),
        (Entry::Function(a), Entry::Function(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Locks what was written; the tables of which nothing was, as they were before.
pub(super) fn lock_all(
    names: &[Name],
    (before, after): (&CatalogState, &CatalogState),
    content: &mut Content,
    transaction: &Transaction,
    state: &mut TransactionState,
    (running, turns): (&Arc<RunningStatement>, &mut Turns<'_>),
) -> Result<Vec<Arc<TableEntry>>, Unlocked> {
    let mut unwritten = Vec::new();
    let snapshot = state.snapshot.clone();
    let snapshot = snapshot.as_ref().ok_or_else(|| Error::Internal("a transaction without a snapshot".into()))?;
    let shared = |entry: Option<&Entry>| match entry {
        Some(Entry::Table(table)) => snapshot.by_id(table.id).cloned(),
        _ => None,
    };
    let ids = names.iter().flat_map(|name| [shared(before.get(name)), shared(after.get(name))]);
    let ids: BTreeSet<u64> = ids.flatten().map(|table| table.id).collect();
    turns.is_one_table = ids.len() == 1;
    if turns.with_turn.is_some_and(|table| ids.iter().any(|id| *id != table)) {
        return Err(Unlocked::Changed);
    }
    for name in names {
        let (was, is) = (before.get(name), after.get(name));
        // Tables of the database whose rows alone have changed.
        if let (Some(Entry::Table(was)), Some(Entry::Table(is))) = (was, is)
            && was.id == is.id
            && let Some(shared) = shared(Some(&Entry::Table(Arc::clone(is))))
            && !content.names.contains_key(name)
            && has_definition_of(was, is)
        {
            let before = content.tables.get(&is.id).map(|written| Arc::clone(&written.table.base));
            let is_new = before.is_none();
            let mut locking = Locking { transaction, state, running, shared: &shared, turns };
            match locking.rows(before, is)? {
                Rows::Locked(written) => {
                    content.tables.insert(is.id, written);
                    continue;
                }
                Rows::None => {
                    // What was made of it to be written is as good as what it was made of.
                    if is_new {
                        unwritten.push(Arc::clone(was));
                    }
                    continue;
                }
                Rows::ToBeOwned => {}
            }
        }
        for table in [shared(was), shared(is)].into_iter().flatten() {
            let mut locking = Locking { transaction, state, running, shared: &table, turns };
            locking.own(is.is_some())?;
            content.tables.remove(&table.id);
        }
        let known = content.names.remove(name);
        let is_known = known.is_some();
        let first = known.map_or_else(|| snapshot.get(name).cloned(), |change| change.before);
        let change = NameChange { before: first, after: is.cloned() };
        // What was made and taken away again never was.
        if !(is_known && change.before.is_none() && change.after.is_none()) {
            content.names.insert(name.clone(), change);
        }
    }
    Ok(unwritten)
}

/// Whether a table has the columns, indexes and placement that it had.
pub(super) fn has_definition_of(before: &TableEntry, after: &TableEntry) -> bool {
    *before.name == *after.name
        && Arc::ptr_eq(&before.placement, &after.placement)
        && Arc::ptr_eq(&before.defaults, &after.defaults)
        && Arc::ptr_eq(&before.rules, &after.rules)
        && before.lengths == after.lengths
        && Arc::ptr_eq(&before.comments, &after.comments)
        && before.base.schema == after.base.schema
        && before.materialized == after.materialized
        && has_indexes_of(before, after)
}

fn has_indexes_of(before: &TableEntry, after: &TableEntry) -> bool {
    // Which column of several an index is kept over is chosen anew when rows come.
    let is_same = |(a, b): (&IndexEntry, &IndexEntry)| {
        (&a.name, &a.columns, a.unique, a.deferral, a.origin) == (&b.name, &b.columns, b.unique, b.deferral, b.origin)
    };
    before.indexes.len() == after.indexes.len() && before.indexes.iter().zip(after.indexes.iter()).all(is_same)
}

/// What became of the rows that a statement has written of a table.
enum Rows {
    /// They are locked.
    Locked(WrittenTable),
    /// There are none.
    None,
    /// The table has to be owned.
    ToBeOwned,
}

/// A table of the database that a statement has written, or of which it locks rows.
pub(super) struct Locking<'a, 'b> {
    pub transaction: &'a Transaction,
    pub state: &'a mut TransactionState,
    pub running: &'a Arc<RunningStatement>,
    /// As the statement's snapshot has it.
    pub shared: &'a Arc<TableEntry>,
    pub turns: &'a mut Turns<'b>,
}

impl Locking<'_, '_> {
    pub(super) fn id(&self) -> u64 {
        self.transaction.open.id
    }

    /// The table as it is now, for who has its turn.
    pub(super) fn now(&self) -> Result<Arc<TableEntry>, Unlocked> {
        let state = self.running.inner.catalog.state();
        let now = state.by_id(self.shared.id).filter(|now| now.name == self.shared.name);
        Ok(Arc::clone(now.ok_or_else(|| Unlocked::Failed(gone(self.shared)))?))
    }

    pub(super) fn is_blocked(&self, holder: Option<u64>) -> Result<(), Unlocked> {
        match holder {
            Some(holder) => Err(Unlocked::Failed(self.running.blocked_by(holder))),
            None => Ok(()),
        }
    }

    /// The table's write turn, if the caller has it not.
    pub(super) fn turn<'t>(&self, meta: &'t TableMeta) -> Result<Option<WriteTurn<'t>>, Unlocked> {
        match self.turns.with_turn == Some(self.shared.id) {
            true => Ok(None),
            false => Ok(Some(meta.write_turns.next(|| self.running.check())?)),
        }
    }

    /// Others have changed the table since the snapshot.
    pub(super) fn changed(&mut self) -> Unlocked {
        // Of several tables nobody has the turn in hand: turns are taken in the order of tables' numbers.
        if self.turns.is_one_table {
            *self.turns.changed = Some((self.shared.id, Arc::clone(&self.shared.meta)));
        }
        Unlocked::Changed
    }

    /// Where rows are by now that were elsewhere when the snapshot was taken: by their key, if they are what they were.
    pub(super) fn found(
        &mut self,
        view: &SharedView,
        now: &TableEntry,
        rows: &[TableRow],
    ) -> Result<Vec<TableRow>, Unlocked> {
        // Who sees what is newest sees all of it again.
        let index = match self.state.level {
            Level::ReadCommitted => None,
            _ => now.unique_indexes().next(),
        };
        let Some(index) = index else { return Err(self.changed()) };
        view.table.load_all(self.running)?;
        now.load_all(self.running)?;
        let all: Vec<usize> = (0..now.base.schema.fields().len()).collect();
        let were = view.table.columns_at(rows, &all)?;
        let keys: Vec<ArrayRef> = now.key_columns(index)?.iter().map(|column| Arc::clone(&were[*column])).collect();
        let pin = now.newest_keys();
        let found = match now.find(0, &Keys::new(&keys)?, pin.as_ref(), &|| false, &Serial)? {
            FoundKeys::Rows(rows) => rows.into_iter().collect::<Option<Vec<TableRow>>>(),
            FoundKeys::Clash => None,
        };
        let Some(found) = found else { return Err(self.changed()) };
        let are = now.columns_at(&found, &all)?;
        let is_same = |(were, are): (&ArrayRef, &ArrayRef)| {
            not_distinct(were, are).is_ok_and(|same| same.true_count() == same.len())
        };
        match were.iter().zip(&are).all(is_same) {
            true => Ok(found),
            false => Err(self.changed()),
        }
    }

    /// Has the table for the transaction alone; `is_kept` where it, or what was made of it, is there afterwards.
    fn own(&mut self, is_kept: bool) -> Result<(), Unlocked> {
        let meta = Arc::clone(&self.shared.meta);
        let _turn = self.turn(&meta)?;
        self.is_blocked(meta.locks.other(Some(self.id())))?;
        let now = self.now()?;
        // What the transaction has made of it is all that is left of it.
        let is_written = meta.last_write() > self.state.writes_before || !has_definition_of(self.shared, &now);
        if is_kept && is_written {
            return Err(self.changed());
        }
        meta.locks.own(self.id(), self.state.step);
        self.state.locked.insert(self.shared.id, Arc::clone(&meta));
        Ok(())
    }

    /// Locks the rows that the statement has taken away and the keys of those that it has added, where the transaction
    /// had the table as `before`.
    fn rows(&mut self, before: Option<Arc<TableVersion>>, is: &Arc<TableEntry>) -> Result<Rows, Unlocked> {
        let of = self.running.transaction.as_ref();
        let Some(view) = of.and_then(|of| of.shared.lock().get(&is.id).cloned()) else {
            return Ok(Rows::ToBeOwned);
        };
        // Before its first statement it was as others see it.
        let before = before.unwrap_or_else(|| Arc::clone(&view.whole));
        let Some(written) = Written::between(&before, &is.base, &view) else { return Ok(Rows::ToBeOwned) };
        if written.rows() == 0 {
            // Of others' rows nothing is written; of its own some may be gone.
            return Ok(match written.is_own_changed {
                true => Rows::Locked(WrittenTable { shared: view, table: Arc::clone(is) }),
                false => Rows::None,
            });
        }
        let meta = Arc::clone(&self.shared.meta);
        if written.rows() > LOCKED_ROWS_MAX || !self.shared.has_room_for_delta() {
            return Ok(Rows::ToBeOwned);
        }
        let dead = written.dead.iter().map(|(part, segment, row)| view.row(*part, *segment, *row));
        let dead = dead.collect::<Result<Vec<TableRow>>>()?;
        let added: Vec<Keys> = written.keys(is)?;
        let unique = is.unique_indexes().count();
        let _turn = self.turn(&meta)?;
        self.is_blocked(meta.locks.other_owner(Some(self.id())))?;
        // Before anything is held: who changes more than rows asks who has written the table.
        let mut now = self.now()?;
        // What rows have to keep is something else by now.
        if now.rules != self.shared.rules || now.base.schema != self.shared.base.schema {
            return Err(self.changed());
        }
        meta.locks.join(self.id(), self.state.step);
        self.state.locked.insert(now.id, Arc::clone(&meta));
        self.hold(&view, &mut now, &dead)?;
        for (number, keys) in added.iter().enumerate() {
            self.is_blocked(meta.locks.key_holder(number, keys.codes().flatten(), Some(self.id())))?;
            // Those that are DEFERRABLE are looked at by a further statement.
            if number < unique {
                self.check_free(&now, &view, number, keys)?;
            }
        }
        for (number, keys) in added.iter().enumerate() {
            meta.locks.lock_keys(number, keys.codes().flatten(), self.id(), self.state.step);
        }
        Ok(Rows::Locked(WrittenTable { shared: view, table: Arc::clone(is) }))
    }

    /// Holds rows of the table as it is now, with its turn in hand.
    fn hold(&mut self, view: &SharedView, now: &mut Arc<TableEntry>, dead: &[TableRow]) -> Result<(), Unlocked> {
        let (id, step) = (self.id(), self.state.step);
        if dead.is_empty() {
            return Ok(());
        }
        let found;
        let dead = match view.has_places_of(now) {
            true => dead,
            false => {
                found = self.found(view, now, dead)?;
                &found
            }
        };
        self.begin_delta(now)?;
        let Some(delta) = &now.delta else {
            return Err(Error::Internal("a delta that was begun is not there".into()).into());
        };
        self.is_blocked(delta.rows.holder_of(dead, Some(id), &now.base)?)?;
        // Whoever has deleted one of them in segments has put others in the place of the base.
        let is_live = |row: &TableRow| delta.rows.is_live(*row, &now.base, u64::MAX);
        if !dead.iter().all(is_live) || !delta.rows.hold((id, step), RowHold::Death, dead, &now.base)? {
            return Err(self.changed());
        }
        Ok(())
    }

    /// Sees to it that the table has a delta, in which rows are held; with its turn in hand.
    pub(super) fn begin_delta(&self, now: &mut Arc<TableEntry>) -> Result<(), Unlocked> {
        if now.delta.is_none() {
            let inner = &self.running.inner;
            let empty = Arc::new(TableDelta::empty(now, &|| inner.catalog.units())?);
            inner.catalog.commit(|state| state.begin_delta(now.id, &empty))?;
            *now = self.now()?;
        }
        Ok(())
    }

    /// Fails where a row that others have committed has one of some keys, and the transaction does not take it away.
    fn check_free(&mut self, now: &TableEntry, view: &SharedView, number: usize, keys: &Keys) -> Result<(), Unlocked> {
        // What the statement has seen, it has checked itself.
        if view.is_seen_in(now, u64::MAX) {
            return Ok(());
        }
        let pin = now.newest_keys();
        let mut found = now.find(number, keys, pin.as_ref(), &|| false, &Serial)?;
        if matches!(found, FoundKeys::Clash) {
            let merged = indexed(now.merged()?, &Arc::new(Alone))?.into_table();
            found = merged.find(number, keys, None, &|| false, &Serial)?;
            // Which of them the transaction holds is not known there.
            if matches!(&found, FoundKeys::Rows(rows) if rows.iter().any(Option::is_some)) {
                return Err(self.changed());
            }
        }
        let FoundKeys::Rows(rows) = found else {
            return Err(Error::Internal("keys of a merged table clash".into()).into());
        };
        let own = now.delta.as_ref().map_or_else(Vec::new, |delta| delta.rows.held(self.id(), &now.base));
        let own: HashSet<TableRow> = own.into_iter().collect();
        let Some(taken) = rows.iter().position(|row| row.is_some_and(|row| !own.contains(&row))) else { return Ok(()) };
        if let (Some(row), Some(delta)) = (rows[taken], &now.delta) {
            self.is_blocked(delta.rows.taker_of(&[row], Some(self.id()), &now.base)?)?;
        }
        // Over what is there now the statement says itself that the key is there, or does what it says of such a row.
        Err(self.changed())
    }
}

/// What a statement has done to a table's rows.
struct Written {
    /// Rows of others that it has taken away: part, segment of the part, row.
    dead: Vec<(usize, usize, u32)>,
    /// Segments that it has added.
    added: Vec<storage::SegmentVersion>,
    /// Whether the transaction's own segments are others than before, or have other rows.
    is_own_changed: bool,
}

impl Written {
    /// Between two versions of a table of a transaction; `None` where segments of others are not what they were.
    fn between(before: &TableVersion, after: &TableVersion, shared: &SharedView) -> Option<Written> {
        let mut written = Written { dead: Vec::new(), added: Vec::new(), is_own_changed: false };
        if after.parts.len() < before.parts.len() {
            return None;
        }
        for (number, part) in after.parts.iter().enumerate() {
            let count = shared.segments(number);
            let old = before.parts.get(number).map_or(&[][..], |part| &part.segments[..]);
            if part.segments.len() < count || old.len() < count {
                return None;
            }
            for (place, (was, is)) in old.iter().zip(&part.segments).take(count).enumerate() {
                // Indexes may have been built: the columns are the same.
                let ids = |of: &storage::SegmentVersion| -> Vec<Option<ColumnId>> {
                    of.segment.stored_columns().iter().map(StoredColumn::id).collect()
                };
                if ids(was) != ids(is) {
                    return None;
                }
                let gone = is.deleted.as_ref().map_or_else(Vec::new, |now| now.since(was.deleted.as_deref()));
                written.dead.extend(gone.into_iter().map(|row| (number, place, row)));
            }
            let own = |segments: &[storage::SegmentVersion]| -> Vec<_> {
                let of = segments.iter().skip(count);
                of.map(|of| (Arc::as_ptr(&of.segment), of.deleted.as_ref().map(Arc::as_ptr))).collect()
            };
            written.is_own_changed |= own(old) != own(&part.segments);
            let known: HashSet<ColumnId> = old.iter().skip(count).filter_map(first_column).collect();
            let is_new = |of: &&storage::SegmentVersion| first_column(of).is_none_or(|column| !known.contains(&column));
            written.added.extend(part.segments.iter().skip(count).filter(is_new).cloned());
        }
        Some(written)
    }

    fn rows(&self) -> usize {
        self.dead.len() + self.added.iter().map(storage::SegmentVersion::live_rows).sum::<usize>()
    }

    /// The keys of the added rows, of each unique index of the table, and behind these of each key that is DEFERRABLE.
    fn keys(&self, table: &TableEntry) -> Result<Vec<Keys>> {
        let mut all = Vec::new();
        for index in table.unique_indexes().chain(table.deferrable_keys()) {
            let columns = table.key_columns(index)?;
            let values = columns.iter().map(|column| live_values(&self.added, *column, table));
            all.push(Keys::new(&values.collect::<Result<Vec<ArrayRef>>>()?)?);
        }
        Ok(all)
    }
}

/// What tells a segment from others: indexes and deleted rows may have come to it.
fn first_column(of: &storage::SegmentVersion) -> Option<ColumnId> {
    of.segment.stored_columns().first()?.id()
}

/// Which transaction has locked a key of rows that a table has and had not `before`, if one has.
///
/// # Errors
/// A column that the table does not have.
pub(crate) fn key_holder(table: &TableEntry, before: Option<&TableVersion>) -> Result<Option<u64>> {
    if !table.meta.locks.is_any() {
        return Ok(None);
    }
    let known: HashSet<_> = before.into_iter().flat_map(TableVersion::segments).filter_map(first_column).collect();
    let is_new = |of: &&storage::SegmentVersion| first_column(of).is_none_or(|column| !known.contains(&column));
    let added = table.base.segments().filter(is_new).cloned().collect();
    let keys = Written { dead: Vec::new(), added, is_own_changed: true }.keys(table)?;
    let holder = |(number, keys): (usize, &Keys)| table.meta.locks.key_holder(number, keys.codes().flatten(), None);
    Ok(keys.iter().enumerate().find_map(holder))
}

/// A column's values in the live rows of some segments.
fn live_values(segments: &[storage::SegmentVersion], column: usize, table: &TableEntry) -> Result<ArrayRef> {
    let mut arrays = Vec::with_capacity(segments.len());
    for of in segments {
        arrays.push(of.segment.column(column).take(&live_rows(of)));
    }
    match &arrays[..] {
        [] => Ok(arrow::array::new_empty_array(table.base.schema.field(column).data_type())),
        [one] => Ok(Arc::clone(one)),
        several => Ok(concat(&several.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
    }
}

/// The live rows of a segment.
pub(super) fn live_rows(of: &storage::SegmentVersion) -> Vec<u32> {
    (0..of.segment.rows() as u32).filter(|row| of.is_live(*row as usize)).collect()
}

/// How many rows a transaction has added and taken away.
pub(super) fn written_rows(content: &Content) -> u64 {
    let of_tables = content.tables.values().map(|written| {
        let added: u64 = written.added().iter().map(|part| part.live_rows() as u64).sum();
        let own: u64 = written.table.base.segments().map(|of| of.live_rows() as u64).sum();
        let shared = written.shared.whole.rows() as u64;
        added + shared.saturating_sub(own - added)
    });
    of_tables.sum::<u64>() + content.own_tables().map(|table| table.base.rows() as u64).sum::<u64>()
}
