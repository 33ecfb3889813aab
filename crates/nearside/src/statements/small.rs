//! Statements that write few rows: they go to the table's delta, and encode nothing.
//!
//! Rows are added and die in one step: rows that die are claimed, keys are looked up and written, and one commit shows
//! both. What fails before leaves nothing behind. Several statements do so at the same time; one that meets a row or
//! key of another is told so and begins again. Who makes the delta large has it merged.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use storage::{DeltasWrite, Keys, Partitioner, Serial, StoreError, TableRow, TableVersion};
use units::versions::Pin;

use crate::catalog::TableEntry;
use crate::catalog::delta::{FoundKeys, KeyChanges, SMALL_ROWS_MAX, SmallStatement, TableDelta};
use crate::catalog::index::IndexEntry;
use crate::catalog::journal::WrittenRows;
use crate::catalog::merges::DeltaSize;
use crate::error::{Error, Result};
use crate::run::config;
use crate::run::statement::RunningStatement;
use crate::statements::keys::{duplicate_error, shown};
use crate::statements::merging;
use crate::statements::stage::as_kept;

/// Rows among which one is looked for one by one.
const FEW_ROWS: usize = 8;

/// A key of a unique index that was looked up: the one row that is added, if there is one, and the one that dies, if
/// there is one, have it, and no other row does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownKey {
    /// Which of the table's unique indexes.
    pub index: usize,
    /// As [`Keys::codes`] has it.
    pub code: Option<u64>,
}

/// Keys of a unique index that were looked up: those of the rows that are added, no two of which are alike, and of rows
/// that die; no other row has one of them.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    /// Which of the table's unique indexes.
    pub index: usize,
    /// Of rows of the delta that die.
    pub removed: Vec<u64>,
    /// Of the rows that are added, in their order.
    pub added: Vec<Option<u64>>,
}

/// What a statement has looked up before it writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    /// Keys of the one row that is written.
    pub of_row: &'a [KnownKey],
    /// Keys of several rows.
    pub of_rows: Option<&'a KnownKeys>,
    /// As of when, where something was looked up.
    pub pin: Option<&'a Pin>,
}

impl Known<'_> {
    /// Nothing, or nothing that others could change.
    pub(crate) const NOTHING: Known<'static> = Known { of_row: &[], of_rows: None, pin: None };
}

/// What became of a small write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SmallWrite {
    /// It is committed.
    Done,
    /// Nothing was done: its rows have to become segments, for they are too many, or the table has no delta.
    NotSmall,
    /// Nothing was done: another statement has changed a row or key meanwhile, or is about to.
    Met,
}

/// As [`write_beside_others`], for who writes the table alone; whether it was done.
///
/// # Errors
/// As there.
pub(crate) fn write_small(
    table: &TableEntry,
    rows: &RecordBatch,
    dead: &[TableRow],
    running: &Arc<RunningStatement>,
) -> Result<bool> {
    match write_beside_others(table, rows, (dead, Known::NOTHING), running)? {
        SmallWrite::Done => Ok(true),
        SmallWrite::NotSmall => Ok(false),
        SmallWrite::Met => Err(Error::Internal("somebody else changed a table that one statement writes alone".into())),
    }
}

/// Whether small statements write a delta of the table.
pub(crate) fn may_be_small(table: &TableEntry, running: &RunningStatement) -> bool {
    running.transaction.is_none()
        && config::nearside(running.planner.config_options()).small_writes
        && table.has_room_for_delta()
}

/// Adds rows of the table's columns and lets others die, all or nothing. `table` is as of the running statement's
/// state; who writes it beside others has seen that it has a delta. Of keys that are known nothing is looked up.
///
/// # Errors
/// A NULL or a text that the table does not allow, a key that is there already, no memory, a cancelled statement. A key
/// was there as of the same version as all that is known, whatever others have done since.
pub(crate) fn write_beside_others(
    table: &TableEntry,
    rows: &RecordBatch,
    (dead, known): (&[TableRow], Known<'_>),
    running: &Arc<RunningStatement>,
) -> Result<SmallWrite> {
    if !may_be_small(table, running) || rows.num_rows() + dead.len() > SMALL_ROWS_MAX {
        return Ok(SmallWrite::NotSmall);
    }
    let rows = checked_rows(table, rows)?;
    let first;
    let delta = match &table.delta {
        Some(delta) => delta,
        None => match TableDelta::empty(table, &|| running.home.units()) {
            Err(Error::Memory(_)) => return Ok(SmallWrite::NotSmall),
            empty => {
                first = Arc::new(empty?);
                &first
            }
        },
    };
    let adds = rows.num_rows() > 0;
    let newest = known.pin.is_none().then(|| table.newest_keys()).flatten();
    let pin = known.pin.or(newest.as_ref());
    let mut changes = Vec::with_capacity(delta.keys.objects.len());
    for (number, index) in table.unique_indexes().enumerate() {
        if let Some(key) = known.of_row.iter().find(|key| key.index == number) {
            changes.push(key.changes(adds, dead));
            continue;
        }
        let looked_up = match known.of_rows.filter(|keys| keys.index == number) {
            Some(keys) => keys.changes(adds),
            None => key_changes(table, number, index, &rows, dead, (pin, &|holder| running.blocked_by(holder)))?,
        };
        match looked_up {
            Some(change) => changes.push(change),
            None => return Ok(SmallWrite::NotSmall),
        }
    }
    if table.meta.locks.is_any() {
        let holder = |(number, change): (usize, &KeyChanges)| table.meta.locks.key_holder(number, change.put(), None);
        if let Some(holder) = changes.iter().enumerate().find_map(holder) {
            return Err(running.blocked_by(holder));
        }
    }
    let free = || table.meta.budget().available_bytes();
    // Whoever scans it needs room for its rows, and for encoding them.
    if adds && free().is_some_and(|free| free / 4 < delta.rows.bytes_with(&rows)) {
        return Ok(SmallWrite::NotSmall);
    }
    running.check()?;
    let done = put(table, delta, (&rows, dead), changes, running);
    // What was added stays in the log until the next merge, also where it is not committed.
    if table.delta.is_some() || matches!(done, Ok(SmallWrite::Done)) {
        let size = DeltaSize::of(delta.rows.rows(), delta.rows.entries(), delta.rows.bytes(), free());
        merging::written(table.id, &table.meta, size, running);
    }
    match done {
        // As segments they take less, and with what the delta has by now.
        Err(Error::Memory(_)) => Ok(SmallWrite::NotSmall),
        done => done,
    }
}

/// Adds rows to a delta, lets others die, and changes the keys.
fn put(
    table: &TableEntry,
    delta: &Arc<TableDelta>,
    (rows, dead): (&RecordBatch, &[TableRow]),
    mut changes: Vec<KeyChanges>,
    running: &Arc<RunningStatement>,
) -> Result<SmallWrite> {
    let routed = Routed::of(rows, dead, table, delta)?;
    let written = match routed.write(rows, dead, delta, &table.base) {
        Ok(Some(written)) => written,
        Ok(None) => {
            return match delta.rows.holder_of(dead, None, &table.base)? {
                Some(holder) => Err(running.blocked_by(holder)),
                None => Ok(SmallWrite::Met),
            };
        }
        // The log of a part is full.
        Err(StoreError::TooManyRows { .. }) => return Ok(SmallWrite::NotSmall),
        Err(error) => return Err(error.into()),
    };
    routed.number(&mut changes, &written);
    let Some(keys) = delta.keys.written(&changes)? else { return Ok(SmallWrite::Met) };
    // A table that was merged while transactions hold rows of it has a delta that nobody else knows yet.
    let is_known = || {
        let state = running.home.state();
        let known = state.by_id(table.id).and_then(|known| known.delta.as_ref());
        known.is_some_and(|known| Arc::ptr_eq(&known.rows, &delta.rows))
    };
    if table.delta.is_none() || delta.rows.has_holds() && !is_known() {
        running.home.commit(|state| state.set_delta(table, Arc::clone(delta)))?;
    }
    let added = if running.home.journal().is_some() { routed.added(rows, &written) } else { Vec::new() };
    let write = SmallStatement { rows: written, keys };
    running.home.commit_rows(write, WrittenRows { table: table.id, added: &added, dead })?;
    table.meta.wrote(rows.num_rows() + dead.len());
    Ok(SmallWrite::Done)
}

/// Which parts of the table rows belong to.
pub(crate) enum Routed {
    /// All to one.
    One(usize),
    Several {
        /// The parts, ascending, each with its rows.
        parts: Vec<(usize, RecordBatch)>,
        /// Of each row: which of the parts, and which of that part's rows.
        places: Vec<(usize, u32)>,
    },
}

impl Routed {
    /// Of rows that are to be written to a table's delta.
    pub(crate) fn of(rows: &RecordBatch, dead: &[TableRow], table: &TableEntry, delta: &TableDelta) -> Result<Routed> {
        if rows.num_rows() == 0 || table.placement.parts() <= 1 {
            return Ok(Routed::One(0));
        }
        let partitioner = match table.placement.partitioner(&table.base.schema)? {
            None => return Ok(Routed::One(0)),
            // A row stays where it is when it changes. The rows of a statement stay together, and the next one's go to
            // the next part.
            Some(Partitioner::RoundRobin { .. }) => {
                let before = dead.first().and_then(|dead| delta.rows.part_of(*dead, &table.base));
                return Ok(Routed::One(before.unwrap_or_else(|| delta.rows.next_part())));
            }
            Some(partitioner) => partitioner,
        };
        let split = partitioner.split(rows, 0)?.into_iter().enumerate();
        let parts: Vec<(usize, RecordBatch)> = split.filter_map(|(part, rows)| Some((part, rows?))).collect();
        if let [(part, _)] = &parts[..] {
            return Ok(Routed::One(*part));
        }
        let mut rows_of: Vec<u32> = vec![0; parts.len()];
        let place = |part: u32| {
            let place = parts.partition_point(|(of, _)| *of < part as usize);
            rows_of[place] += 1;
            (place, rows_of[place] - 1)
        };
        let places = partitioner.route(rows, 0)?.into_iter().map(place).collect();
        Ok(Routed::Several { parts, places })
    }

    /// Adds the rows to a delta and lets others die: see [`storage::Deltas::write`].
    fn write(
        &self,
        rows: &RecordBatch,
        dead: &[TableRow],
        delta: &TableDelta,
        base: &TableVersion,
    ) -> std::result::Result<Option<DeltasWrite>, StoreError> {
        match self {
            Routed::One(_) if rows.num_rows() == 0 => delta.rows.write([], dead, base),
            Routed::One(part) => delta.rows.write([(*part, rows)], dead, base),
            Routed::Several { parts, .. } => {
                delta.rows.write(parts.iter().map(|(part, rows)| (*part, rows)), dead, base)
            }
        }
    }

    /// Adds the rows to a delta and lets those die that a transaction holds: see [`storage::Deltas::write_held`].
    pub(crate) fn write_held(&self, rows: &RecordBatch, holder: u64, delta: &TableDelta) -> Result<DeltasWrite> {
        Ok(match self {
            Routed::One(_) if rows.num_rows() == 0 => delta.rows.write_held(holder, [])?,
            Routed::One(part) => delta.rows.write_held(holder, [(*part, rows)])?,
            Routed::Several { parts, .. } => {
                delta.rows.write_held(holder, parts.iter().map(|(part, rows)| (*part, rows)))?
            }
        })
    }

    /// The rows of each part, with the number of the first.
    pub(crate) fn added<'a>(&'a self, rows: &'a RecordBatch, write: &DeltasWrite) -> Vec<(u32, &'a RecordBatch)> {
        let first_rows = write.first_rows();
        match self {
            Routed::One(_) if rows.num_rows() == 0 => Vec::new(),
            Routed::One(_) => first_rows.take(1).map(|first| (first, rows)).collect(),
            Routed::Several { parts, .. } => {
                parts.iter().zip(first_rows).map(|((_, rows), first)| (first, rows)).collect()
            }
        }
    }

    /// Gives keys of rows that were counted from 0 the rows' numbers.
    pub(crate) fn number(&self, changes: &mut [KeyChanges], write: &DeltasWrite) {
        let mut first_rows = write.first_rows();
        match self {
            Routed::One(_) => {
                let first = u64::from(first_rows.next().unwrap_or(0));
                changes.iter_mut().for_each(|change| change.number(|row| first + row));
            }
            Routed::Several { places, .. } => {
                let first_rows: Vec<u32> = first_rows.collect();
                let number = |row: u64| {
                    let (part, row) = places[row as usize];
                    u64::from(first_rows[part] + row)
                };
                changes.iter_mut().for_each(|change| change.number(number));
            }
        }
    }
}

/// The rows as the table stores them.
pub(super) fn checked_rows(table: &TableEntry, rows: &RecordBatch) -> Result<RecordBatch> {
    let kept = as_kept(rows.clone(), table)?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(kept.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&table.base.schema), kept.columns().to_vec(), &options)?)
}

impl KnownKey {
    /// What its index has to know: the row that is added, if there is one, has it.
    fn changes(self, adds: bool, dead: &[TableRow]) -> KeyChanges {
        let of_delta = matches!(dead, [TableRow::Delta { .. }]);
        match self.code {
            Some(code) if adds && of_delta => KeyChanges::replacing(Vec::new(), vec![(code, 0)]),
            Some(code) if adds => KeyChanges::new(Vec::new(), vec![(code, 0)]),
            Some(code) if of_delta => KeyChanges::new(vec![(code, 0)], Vec::new()),
            _ => KeyChanges::default(),
        }
    }
}

impl KnownKeys {
    /// What their index has to know; `None` where two keys have one code.
    fn changes(&self, adds: bool) -> Option<KeyChanges> {
        let removed = self.removed.iter().map(|code| (*code, 0)).collect();
        if !adds {
            return Some(KeyChanges::new(removed, Vec::new()));
        }
        Some(KeyChanges::new(removed, added(self.added.iter().copied())?))
    }
}

/// The codes of rows with the rows' numbers, counted from 0; `None` where two are alike.
fn added(codes: impl Iterator<Item = Option<u64>>) -> Option<Vec<(u64, u64)>> {
    let added = codes.enumerate().filter_map(|(row, code)| Some((code?, row as u64)));
    let added: Vec<(u64, u64)> = added.collect();
    if added.len() > 1 {
        let codes: HashSet<u64> = added.iter().map(|(code, _)| *code).collect();
        if codes.len() < added.len() {
            return None;
        }
    }
    Some(added)
}

/// What a unique index has to know; `None` where two keys have one code. `blocked` is the error where a transaction
/// holds a row that has a key.
pub(crate) fn key_changes(
    table: &TableEntry,
    number: usize,
    index: &IndexEntry,
    rows: &RecordBatch,
    dead: &[TableRow],
    (pin, blocked): (Option<&Pin>, &dyn Fn(u64) -> Error),
) -> Result<Option<KeyChanges>> {
    let columns = table.key_columns(index)?;
    let mut removed = Vec::new();
    let gone: Vec<TableRow> = dead.iter().copied().filter(|place| matches!(place, TableRow::Delta { .. })).collect();
    if !gone.is_empty() {
        let keys = Keys::new(&table.columns_at(&gone, &columns)?)?;
        removed.extend(keys.codes().flatten().map(|code| (code, 0)));
    }
    if rows.num_rows() == 0 {
        return Ok(Some(KeyChanges::new(removed, Vec::new())));
    }
    let values: Vec<ArrayRef> = columns.iter().map(|column| Arc::clone(rows.column(*column))).collect();
    let keys = Keys::new(&values)?;
    let FoundKeys::Rows(found) = table.find(number, &keys, pin, &|| false, &Serial)? else { return Ok(None) };
    // Of few, looking at all of them takes less time than hashing them.
    let dying: HashSet<TableRow> = if dead.len() > FEW_ROWS { dead.iter().copied().collect() } else { HashSet::new() };
    let dies = |place: &TableRow| if dead.len() > FEW_ROWS { dying.contains(place) } else { dead.contains(place) };
    let is_first = |row: usize| keys.first_equal()[row].is_none_or(|first| first as usize == row);
    let stays = |row: usize| found[row].is_some_and(|place| !dies(&place));
    if let Some(row) = (0..rows.num_rows()).find(|row| stays(*row) || !is_first(*row)) {
        if let (Some(place), Some(delta)) = (found[row].filter(|_| stays(row)), &table.delta)
            && let Some(holder) = delta.rows.taker_of(&[place], None, &table.base)?
        {
            return Err(blocked(holder));
        }
        let values: Vec<ArrayRef> = values.iter().map(|column| column.slice(row, 1)).collect();
        return Err(duplicate_error(&table.name, index, &shown(&values)));
    }
    Ok(added(keys.codes()).map(|added| KeyChanges::new(removed, added)))
}
