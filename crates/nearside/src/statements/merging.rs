//! Segments of deltas, made beside the statements that go on writing.
//!
//! A merge takes a state of a table's delta, makes segments of it while nobody waits, and then, as the table's one
//! writer and for a moment only, puts them in the place of that state: what was written meanwhile becomes a delta over
//! them ([`storage::Delta::since`]), with keys of its own, most of which are written before. Segments that are small by
//! now are compacted afterwards, in the same way, beside further merges.
//!
//! Invariants: a table has the same rows before and after; where it was changed otherwise meanwhile (merged by a
//! statement of many rows, altered, emptied, dropped) or something fails, what was made is thrown away. A worker never
//! waits for the turn to write: what is left to do is left to whoever has it, since that one may wait for this worker.
//! What runs with the turn uses no other worker, for the same reason.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use sched::Affinity;
use storage::{Compacted, DeltasCaught, DeltasView, Keys, SegmentVersion, TableVersion};

use crate::catalog::delta::{DeltaKeys, KeyChanges, TableDelta};
use crate::catalog::index::indexed;
use crate::catalog::journal::Ahead;
use crate::catalog::merges::{CompactionTurn, DeltaSize, MergeTurn, Merged, REST_AFTER_FAILURE};
use crate::catalog::{Alone, Catalog, TableEntry, TableMeta, Workers};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::background::{self, Background};
use crate::run::inner::Inner;
use crate::run::statement::RunningStatement;

/// How long a statement sleeps at most before it looks whether it was cancelled.
const WAIT: Duration = Duration::from_millis(20);

/// How large a table's delta is.
fn size(table: &TableEntry) -> DeltaSize {
    let Some(delta) = table.delta.as_ref().map(|delta| &delta.rows) else { return DeltaSize::Small };
    DeltaSize::of(delta.rows(), delta.entries(), delta.bytes(), table.meta.budget().available_bytes())
}

/// Whether nobody misses the memory that it takes to merge it.
fn has_room(table: &TableEntry) -> bool {
    let bytes = table.delta.as_ref().map_or(0, |delta| delta.rows.bytes());
    table.meta.budget().available_bytes().is_none_or(|free| bytes <= free / 4)
}

/// A statement has committed a delta of this size to a table: has the workers merge it when it is time.
pub(crate) fn written(table: u64, meta: &Arc<TableMeta>, size: DeltaSize, running: &RunningStatement) {
    let inner = &running.inner;
    if !Arc::ptr_eq(&running.home, &inner.catalog) {
        // What is not in the database yet the workers do not find.
        meta.merges.set_size(if size > DeltaSize::Small { DeltaSize::Huge } else { size });
        return;
    }
    meta.merges.set_size(size);
    if size > DeltaSize::Small {
        merge_in_background(inner, table, meta);
    }
    merge_once_idle(inner, table, meta, Duration::ZERO);
}

/// Has a table's delta merged once nobody has written it for a while, and not before some time is over.
fn merge_once_idle(inner: &Arc<Inner>, table: u64, meta: &Arc<TableMeta>, rest: Duration) {
    inner.idle.written(table, meta, rest, || {
        let inner = Arc::downgrade(inner);
        Box::new(move |table| {
            let Some(inner) = inner.upgrade() else { return };
            let entry = inner.catalog.state().by_id(table).filter(|entry| entry.delta.is_some()).cloned();
            if let Some(entry) = entry
                && !merge_in_background(&inner, table, &entry.meta)
            {
                // There is no memory for it, or it has to rest: later.
                merge_once_idle(&inner, table, &entry.meta, REST_AFTER_FAILURE);
            }
        })
    });
}

/// Waits until a table's delta is no longer twice as large as it should be, and merges it where nobody does. For a
/// statement that has written and has given its turn back; it ends early where that is stopped or cannot help.
pub(crate) fn relieve(table: u64, meta: &Arc<TableMeta>, running: &Arc<RunningStatement>) {
    while meta.merges.is_huge() && meta.locks.other_owner(None).is_none() && running.check().is_ok() {
        match MergeTurn::of_writer(&meta.merges, Instant::now()) {
            Err(()) => return,
            Ok(None) => meta.merges.wait(WAIT),
            Ok(Some(turn)) => {
                let inner = Arc::downgrade(&running.inner);
                let merge = Merge { table, meta: Arc::clone(meta), home: Arc::clone(&running.home), inner, turn };
                let prepared = merge.prepare(running);
                let Ok(_turn) = meta.write_turns.next(|| running.check()) else {
                    merge.turn.end(&Merged::GivenUp);
                    return;
                };
                if matches!(merge.commit(prepared), Merged::Failed(_)) {
                    return;
                }
            }
        }
    }
}

/// Merges a table's delta and compacts its segments now, on behalf of a statement.
///
/// # Errors
/// What the merge or the compaction has failed with; [`Error::Cancelled`] and [`Error::Timeout`].
pub(crate) fn vacuum(table: &TableEntry, running: &Arc<RunningStatement>) -> Result<()> {
    let (home, meta) = (Arc::clone(&running.inner.catalog), Arc::clone(&table.meta));
    let table = table.id;
    let has_delta = || home.state().by_id(table).is_some_and(|now| now.delta.is_some());
    while has_delta() {
        running.check()?;
        let turn = match MergeTurn::of_writer(&meta.merges, Instant::now()) {
            Err(()) => {
                return Err(Error::execution(
                    SqlState::ObjectNotInPrerequisiteState,
                    "small writes could not be merged just now, nearside.deltas says why; run VACUUM again in some \
                     seconds",
                ));
            }
            Ok(None) => {
                meta.merges.wait(WAIT);
                continue;
            }
            Ok(Some(turn)) => turn,
        };
        let inner = Arc::downgrade(&running.inner);
        let merge = Merge { table, meta: Arc::clone(&meta), home: Arc::clone(&home), inner, turn };
        let prepared = merge.prepare(running);
        let Ok(_turn) = meta.write_turns.next(|| running.check()) else {
            merge.turn.end(&Merged::GivenUp);
            return running.check();
        };
        match merge.commit(prepared) {
            Merged::Failed(why) => {
                return Err(Error::execution(
                    SqlState::ObjectNotInPrerequisiteState,
                    format!("merging small writes failed: {why}"),
                ));
            }
            // What is written from now on is for the next one; what a transaction holds stays.
            Merged::Rows(_) | Merged::Nothing | Merged::GivenUp => break,
        }
    }
    loop {
        running.check()?;
        let Some(entry) = home.state().by_id(table).cloned() else { return Ok(()) };
        let due = compaction(&entry.base).is_some();
        let Some(_turn) =
            due.then(|| CompactionTurn::begin(&meta.merges, &running.statement, Instant::now())).flatten()
        else {
            return Ok(());
        };
        let Some((compacted, _ahead)) = compacted(&entry, running, &home)? else { return Ok(()) };
        drop(entry);
        let _alone = meta.write_turns.next(|| running.check())?;
        if !put_compacted(table, &compacted, &home)? {
            return Ok(());
        }
    }
}

/// Has the workers merge a table's delta, where nobody does, it has not failed just now and nobody misses the memory;
/// whether they will.
fn merge_in_background(inner: &Arc<Inner>, table: u64, meta: &Arc<TableMeta>) -> bool {
    let may_merge = move |inner: &Inner| inner.catalog.state().by_id(table).is_some_and(|entry| has_room(entry));
    if !meta.merges.can_queue(Instant::now()) || !may_merge(inner) {
        return false;
    }
    let statement = background::statement(inner, "merging small writes");
    if !meta.merges.queue(&statement, Instant::now()) {
        return false;
    }
    let (of, meta, workers) = (Arc::downgrade(inner), Arc::clone(meta), Arc::clone(&statement));
    inner.scheduler.spawn(&statement, Affinity::Anywhere, move || {
        let Some(inner) = of.upgrade() else { return };
        let Some(turn) = MergeTurn::of_workers(&meta.merges) else { return };
        if !may_merge(&inner) {
            // Who writes next does it, or whoever finds the table idle.
            turn.end(&Merged::GivenUp);
            merge_once_idle(&inner, table, &meta, REST_AFTER_FAILURE);
            return;
        }
        let workers = Arc::new(Background::new(&inner.scheduler, workers));
        let merge = Merge { table, meta: Arc::clone(&meta), home: Arc::clone(&inner.catalog), inner: of, turn };
        drop(inner);
        let prepared = merge.prepare(&workers);
        meta.write_turns.leave(move || drop(merge.commit(prepared)));
    });
    true
}

/// Has the workers compact a table's segments, where that pays and nobody does.
fn compact_in_background(inner: &Arc<Inner>, table: u64) {
    let state = inner.catalog.state();
    let Some(entry) = state.by_id(table).filter(|entry| compaction(&entry.base).is_some()) else { return };
    if !has_room_for_compaction(entry) {
        return;
    }
    let statement = background::statement(inner, "compacting segments");
    let Some(turn) = CompactionTurn::begin(&entry.meta.merges, &statement, Instant::now()) else { return };
    let (of, workers) = (Arc::downgrade(inner), Arc::clone(&statement));
    inner.scheduler.spawn(&statement, Affinity::Anywhere, move || {
        let Some(inner) = of.upgrade() else { return };
        let workers = Arc::new(Background::new(&inner.scheduler, workers));
        let home = Arc::clone(&inner.catalog);
        drop(inner);
        // Of the whole state it keeps this table alone.
        let Some(entry) = home.state().by_id(table).cloned() else { return };
        let (compacted, ahead) = match compacted(&entry, &workers, &home) {
            Ok(Some(compacted)) => compacted,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!("segments of table {table} were not compacted: {error}");
                turn.rest(Instant::now());
                return;
            }
        };
        let meta = Arc::clone(&entry.meta);
        drop(entry);
        meta.write_turns.leave(move || {
            let done = put_compacted(table, &compacted, &home);
            drop((turn, ahead));
            match (done, of.upgrade()) {
                (Ok(true), Some(inner)) => compact_in_background(&inner, table),
                (done, _) => tracing::debug!("compacted segments of table {table} were taken: {done:?}"),
            }
        });
    });
}

/// A merge of a table's delta under way.
struct Merge {
    table: u64,
    meta: Arc<TableMeta>,
    home: Arc<Catalog>,
    inner: Weak<Inner>,
    turn: MergeTurn,
}

/// What is made of a state of a table, before anybody sees it.
struct Prepared {
    /// The state.
    before: Arc<TableEntry>,
    /// What was committed of its delta by then.
    view: DeltasView,
    /// Segments that the delta's rows became first, compacted part by part, each with the table's segments before.
    steps: Vec<(Compacted, Arc<TableVersion>)>,
    /// The same, compacted and with indexes.
    base: Arc<TableVersion>,
    keys: KeysSince,
    /// The segments are where they last.
    _ahead: Option<Ahead>,
}

impl Merge {
    /// Makes segments of the table's delta, on the workers and with no turn.
    fn prepare<W: Workers>(&self, workers: &Arc<W>) -> Result<Option<Prepared>> {
        let state = self.home.state();
        let Some(before) = state.by_id(self.table).filter(|table| table.delta.is_some()) else { return Ok(None) };
        let before = Arc::clone(before);
        drop(state);
        let Some(delta) = &before.delta else { return Ok(None) };
        // Nothing but what transactions hold; or a table that is about to be replaced.
        let holds_alone = delta.rows.is_empty() && delta.rows.has_holds();
        if holds_alone || before.meta.locks.other_owner(None).is_some() {
            return Ok(None);
        }
        before.load_all(workers)?;
        let (view, whole) = before.view_and_whole(delta, u64::MAX)?;
        let mut base = whole;
        let mut steps = Vec::new();
        for part in 0..base.parts.len() {
            let of_base = before.base.parts.get(part).map_or(0, |part| part.segments.len());
            let of_delta = of_base..base.parts[part].segments.len();
            if of_delta.is_empty() {
                continue;
            }
            let compacted = compact(&before, &base, part, of_delta, workers)?;
            let within = compacted.within(&base, &before.meta.allocator())?;
            let within = within.ok_or_else(|| Error::Internal("segments of a delta that are not there".into()))?;
            steps.push((compacted, std::mem::replace(&mut base, Arc::new(within))));
        }
        let merged = TableEntry { base, delta: None, ..TableEntry::clone(&before) };
        let base = Arc::clone(&indexed(merged, workers)?.table().base);
        let ahead = self.home.ahead_in_background(&base)?;
        let keys = Arc::new(DeltaKeys::new(&before, &|| self.home.units())?);
        let mut keys = KeysSince { keys, caught: DeltasCaught::default() };
        // Most of the keys that were written meanwhile are there when the writers have to wait.
        if self.current(&before).is_some() {
            keys.catch_up(&before, &view)?.commit();
        }
        Ok(Some(Prepared { before, view, steps, base, keys, _ahead: ahead }))
    }

    /// The table as it is now; `None` where more was changed than its delta.
    fn current(&self, before: &TableEntry) -> Option<Arc<TableEntry>> {
        let now = Arc::clone(self.home.state().by_id(self.table)?);
        let (known, delta) = (before.delta.as_ref()?, now.delta.as_ref()?);
        let is_same = Arc::ptr_eq(&now.base, &before.base) && Arc::ptr_eq(&known.rows, &delta.rows);
        is_same.then_some(now)
    }

    /// Puts the segments in the place of what they were made of, for the one writer of the table, and says what is to
    /// be done next.
    fn commit(self, prepared: Result<Option<Prepared>>) -> Merged {
        let merged = match prepared.and_then(|prepared| prepared.map_or(Ok(Merged::Nothing), |p| self.put(p))) {
            Ok(merged) => merged,
            Err(Error::Cancelled | Error::Timeout) => Merged::GivenUp,
            Err(error) => Merged::Failed(error.to_string()),
        };
        let Merge { table, meta, home, inner, turn } = self;
        let state = home.state();
        let entry = state.by_id(table);
        let size = entry.map_or(DeltaSize::Small, |entry| size(entry));
        meta.merges.set_size(size);
        turn.end(&merged);
        tracing::debug!("the delta of table {table} was merged: {merged:?}");
        let Some(inner) = inner.upgrade().filter(|inner| Arc::ptr_eq(&inner.catalog, &home)) else { return merged };
        if matches!(merged, Merged::Rows(_)) {
            compact_in_background(&inner, table);
        }
        let is_left = |entry: &Arc<TableEntry>| {
            let holds_alone = |rows: &storage::Deltas| rows.is_empty() && rows.has_holds();
            entry.delta.as_ref().is_some_and(|delta| !holds_alone(&delta.rows))
        };
        if entry.is_some_and(is_left) {
            match merged {
                Merged::Failed(_) => merge_once_idle(&inner, table, &meta, REST_AFTER_FAILURE),
                _ if size > DeltaSize::Small && merge_in_background(&inner, table, &meta) => {}
                _ => merge_once_idle(&inner, table, &meta, Duration::ZERO),
            }
        }
        merged
    }

    fn put(&self, prepared: Prepared) -> Result<Merged> {
        let Prepared { before, view, steps, base, mut keys, _ahead } = prepared;
        let Some(now) = self.current(&before) else { return Ok(Merged::GivenUp) };
        if now.meta.locks.other_owner(None).is_some() {
            // What its owner makes of the table takes its place.
            return Ok(Merged::GivenUp);
        }
        let Some(mut rest) = view.deltas().since(&view, &before.base)? else { return Ok(Merged::GivenUp) };
        for (compacted, version) in &steps {
            rest = rest.moved(compacted, version)?;
        }
        let statement = keys.catch_up(&before, &view)?;
        let is_needed = !rest.is_empty() || rest.has_holds();
        let delta = is_needed.then(|| Arc::new(TableDelta::new(rest, keys.keys)));
        let merged = indexed(TableEntry { base, delta, ..TableEntry::clone(&now) }, &Arc::new(Alone))?;
        self.home.commit_keys(Some((statement, |_| ())), |state| state.set_table(merged))?;
        Ok(Merged::Rows(steps.iter().map(|(compacted, _)| compacted.rows() as u64).sum()))
    }
}

/// The keys of rows that a delta has and a view of it had not, by the numbers that they get over that view's segments.
struct KeysSince {
    keys: Arc<DeltaKeys>,
    /// Until when they are those.
    caught: DeltasCaught,
}

impl KeysSince {
    /// What makes them those of the delta as it is now, to be committed.
    fn catch_up(&mut self, table: &TableEntry, view: &DeltasView) -> Result<units::store::Statement> {
        let delta = view.deltas();
        // As of what was told: a row that goes from one part to another has its key moved once.
        let mut caught = delta.caught(view, &self.caught, self.keys.told());
        let (added, numbers): (Vec<u32>, Vec<u32>) = caught.added.iter().copied().unzip();
        let changes = table.unique_indexes().map(|index| {
            let columns = table.key_columns(index)?;
            let codes = |rows: &[u32]| -> Result<Vec<Option<u64>>> {
                if rows.is_empty() {
                    return Ok(Vec::new());
                }
                let values: Vec<ArrayRef> = columns.iter().map(|column| delta.take(*column, rows)).collect();
                Ok(Keys::new(&values)?.codes().collect())
            };
            let put = codes(&added)?.into_iter().zip(&numbers).filter_map(|(code, to)| Some((code?, u64::from(*to))));
            let removed = codes(&caught.died)?.into_iter().flatten().map(|code| (code, 0));
            Ok(KeyChanges::replacing(removed.collect(), put.collect()))
        });
        let changes = changes.collect::<Result<Vec<_>>>()?;
        let statement = self.keys.written(&changes)?;
        caught.added.clear();
        caught.died.clear();
        self.caught = caught;
        statement.ok_or_else(|| Error::Internal("somebody else wrote the keys of a merge".into()))
    }
}

/// Which segments of which part to compact next: neighbours that are small, else one that has many deleted rows.
fn compaction(version: &TableVersion) -> Option<(usize, std::ops::Range<usize>)> {
    let in_parts = |of: &dyn Fn(&[SegmentVersion]) -> Option<std::ops::Range<usize>>| {
        version.parts.iter().enumerate().find_map(|(part, segments)| Some((part, of(&segments.segments)?)))
    };
    let small = |segments: &[SegmentVersion]| {
        let sizes: Vec<usize> = segments.iter().map(SegmentVersion::live_rows).collect();
        storage::compaction(&sizes)
    };
    let thinned = |segments: &[SegmentVersion]| {
        let sizes: Vec<_> = segments.iter().map(|of| (of.live_rows(), of.segment.rows())).collect();
        storage::thinned(&sizes).map(|place| place..place + 1)
    };
    in_parts(&small).or_else(|| in_parts(&thinned))
}

/// A range of a version's segments compacted, where the table has them.
fn compact<W: Workers>(
    table: &TableEntry,
    version: &TableVersion,
    part: usize,
    range: std::ops::Range<usize>,
    workers: &Arc<W>,
) -> Result<Compacted> {
    let allocators = table.placement.allocators(part, range.start, &version.schema, &table.meta.allocator());
    let compacted = Compacted::of(version, part, range, &allocators, &workers.parallel());
    workers.finished(compacted, || format!("merging segments of table '{}'", table.name.shown()))
}

/// Whether nobody misses the memory that it takes to compact what is due, by a guess: the codes of the segments once
/// more, and rows as they are staged, which may take more where codes are of few bits.
fn has_room_for_compaction(table: &TableEntry) -> bool {
    if !table.meta.is_resident() {
        // What is on the disk alone is not read for that.
        return false;
    }
    let Some(free) = table.meta.budget().available_bytes() else { return true };
    let Some((part, range)) = compaction(&table.base) else { return true };
    let segments = table.base.parts.get(part).map_or(&[][..], |part| &part.segments[range]);
    let columns = segments.iter().flat_map(|of| of.segment.columns());
    let bytes: usize = columns.map(|column| column.bytes_codes()).sum();
    4 * bytes as u64 <= free
}

/// Segments of a table compacted, with their indexes and where they last; `None` where that does not pay.
fn compacted<W: Workers>(
    table: &TableEntry,
    workers: &Arc<W>,
    home: &Catalog,
) -> Result<Option<(Compacted, Option<Ahead>)>> {
    let Some((part, range)) = compaction(&table.base) else { return Ok(None) };
    table.load_all(workers)?;
    let compacted = compact(table, &table.base, part, range, workers)?;
    let within = compacted.within(&table.base, &table.meta.allocator())?;
    let base = Arc::new(within.ok_or_else(|| Error::Internal("segments that are not there".into()))?);
    let merged = indexed(TableEntry { base, delta: None, ..table.clone() }, workers)?;
    let base = &merged.table().base;
    Ok(Some((compacted.as_in(base)?, home.ahead_in_background(base)?)))
}

/// Puts compacted segments in the place of the old ones, for the one writer of the table; whether it has those still.
fn put_compacted(table: u64, compacted: &Compacted, home: &Catalog) -> Result<bool> {
    let state = home.state();
    let Some(now) = state.by_id(table).filter(|now| now.meta.locks.other_owner(None).is_none()) else {
        return Ok(false);
    };
    let Some(base) = compacted.within(&now.base, &now.meta.allocator())? else { return Ok(false) };
    let delta = match &now.delta {
        Some(delta) => {
            let rows = delta.rows.moved(compacted, &now.base)?;
            Some(Arc::new(TableDelta::new(rows, Arc::clone(&delta.keys))))
        }
        None => None,
    };
    let table = TableEntry { base: Arc::new(base), delta, ..TableEntry::clone(now) };
    let table = indexed(table, &Arc::new(Alone))?;
    home.commit(|state| state.set_table(table))?;
    Ok(true)
}
