//! A database that lasts: its folder, what is told to the log, checkpoints, and how it is opened again.
//!
//! ```text
//! rows of a delta, definitions ─► gate, record ─► log ─────────────────► seen by others ─► wait for the disk
//! segments ─► files, ahead and beside others ─► gate, checkpoint ─► manifest ─► seen by others
//! background: sync every 200 ms, checkpoint when the log has grown
//! open: the checkpoint, then the log's records (restore) ─► segments whose columns are read on demand ─► a checkpoint
//! ```
//!
//! A commit of a delta's rows or of definitions is a record of the log (`record`, `capture`); one that brings segments
//! (a load, a merge, a table cut anew) is a checkpoint: its segments are written once and beside others, and what it
//! takes alone is to write down which there are, and what deltas have. A statement that has committed waits for the
//! disk at its end, together with all others that wait; others see what it wrote a little earlier.
//!
//! # Invariants
//! Once a statement that waits for the disk has ended, what it did is there after any crash; what others saw of it
//! before is there too, or nothing that was told later. Where the log takes no record nothing is committed.
//!
//! # Limits
//! One folder, one process.
//!
//! `docs/design/durability.md` has the whole.

mod capture;
mod limits;
mod record;
mod rest;
mod restore;
#[cfg(test)]
mod tests;
mod values;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use log_store::{
    CheckFailure, CheckReport, CheckpointReport, Disk, Files, Folder, FolderOptions, KeptFiles, Lsn, OpenError,
    RestoreReport, Until,
};
use parking_lot::{Condvar, Mutex, RwLock};
use storage::{Segment, SegmentVersion, Serial, TableVersion};

use crate::catalog::journal::Position;
use crate::catalog::journal::{
    Ahead, DiskLimits, Haste, Journal, JournalStatus, MadeCheckpoint, RESTORE_WINDOW, WrittenRows,
};
use crate::catalog::{Catalog, CatalogState};
use crate::durable::capture::Difference;
use crate::durable::limits::Limits;
use crate::durable::record::Next;
use crate::durable::restore::Picture;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::inner::Inner;
use crate::run::loading;
use crate::run::statement::RunningStatement;
use crate::run::system;

/// The kind of our records in the log.
const COMMIT: u16 = 1;
/// How long what nobody waits for stays off the disk at most.
const SYNC_EVERY: Duration = Duration::from_millis(200);
/// Bytes of the log after which a checkpoint is made, so that opening replays no more.
const CHECKPOINT_BYTES: u64 = 256 << 20;
/// How long a database that was dropped may keep its folder at most.
const LETS_GO_WITHIN: Duration = Duration::from_secs(2);
/// How long after a checkpoint failed the next one is tried.
const AGAIN: Duration = Duration::from_secs(10);

/// See the module; one of a database that has a folder.
#[derive(Debug)]
struct Durable {
    folder: Arc<Folder>,
    gate: RwLock<()>,
    catalog: Weak<Catalog>,
    /// The last record that a checkpoint has.
    checkpointed: AtomicU64,
    is_ended: Mutex<bool>,
    changed: Condvar,
    /// A writer has told the background that there is something to sync.
    is_told: AtomicBool,
    last_checkpoint: Mutex<Option<MadeCheckpoint>>,
    limits: Limits,
}

/// Opens a database's folder, or makes one where there is none, for a database without a table.
///
/// # Errors
/// Another process has it, it is no database, something in it is damaged, there is no memory for it.
pub(crate) fn open(inner: &Arc<Inner>, path: &Path) -> Result<()> {
    let files: Arc<dyn Files> = Arc::new(Disk);
    open_in(inner, &files, path)
}

fn open_in(inner: &Arc<Inner>, files: &Arc<dyn Files>, path: &Path) -> Result<()> {
    let folder = Arc::new(opened(files, path)?);
    let running = Arc::new(RunningStatement::start(inner, inner.default_planner()));
    let mut picture = Picture::empty();
    if !folder.catalog().is_empty() {
        picture.apply(folder.catalog(), &running)?;
    }
    let mut replayed = 0;
    for record in folder.replay() {
        let record = record?;
        replayed += 1;
        let applied = picture.apply(&record.payload, &running);
        applied
            .map_err(|e| Error::disk(SqlState::DataCorrupted, format!("record {} of the log: {e}", record.lsn.0)))?;
    }
    let limits = Limits::default();
    // Before there is a checkpoint: it would take away what an older window has kept.
    folder.set_window(window_us(picture.settings().get(RESTORE_WINDOW).and_then(|text| text.parse().ok())));
    let next = picture.next();
    let has_deltas = picture.has_deltas();
    let state = picture.load(&folder, &running)?;
    inner.catalog.restore(state, (next.table, next.turns));
    let opened_at = folder.opened_at();
    let durable = Arc::new(Durable {
        folder,
        gate: RwLock::new(()),
        catalog: Arc::downgrade(&inner.catalog),
        checkpointed: AtomicU64::new(opened_at.0),
        is_ended: Mutex::new(false),
        changed: Condvar::new(),
        is_told: AtomicBool::new(false),
        last_checkpoint: Mutex::default(),
        limits,
    });
    if replayed > 0 || has_deltas {
        // What was made of deltas has no place on the disk yet, and numbers of rows are others now.
        match durable.checkpoint(&|| false) {
            Err(error) if error.code() == SqlState::DiskFull => {
                tracing::warn!("the database is opened for reading alone: {error}");
                durable.folder.end_writing(&format!("opening the folder takes a checkpoint: {error}"));
            }
            made => made?,
        }
    }
    let thread = std::thread::Builder::new().name("nearside-log".into());
    let weak = Arc::downgrade(&durable);
    thread
        .spawn(move || run(&weak))
        .map_err(|e| Error::execution(SqlState::ConfigurationLimitExceeded, format!("no thread could be had: {e}")))?;
    inner.catalog.set_journal(durable);
    system::restore(inner);
    loading::load_rest(inner)
}

fn window_us(seconds: Option<u64>) -> u64 {
    seconds.unwrap_or(0).saturating_mul(1_000_000).min(u64::MAX - 1)
}

/// The folder, opened or made.
fn opened(files: &Arc<dyn Files>, path: &Path) -> Result<Folder> {
    let options = FolderOptions::default();
    let open = || match Folder::exists(files.as_ref(), path)? {
        true => Folder::open(Arc::clone(files), path, &options),
        false => Folder::create(Arc::clone(files), path, &options),
    };
    Ok(once_let_go(open, |error| Some(error))?)
}

/// Does what needs a folder. Where a database of this process has it that was just dropped, it lets go of it once what
/// it has on its way has ended: that is waited for.
fn once_let_go<T, E>(mut of: impl FnMut() -> Result<T, E>, opening: impl Fn(&E) -> Option<&OpenError>) -> Result<T, E> {
    let own = format!("process {}", std::process::id());
    let until = Instant::now() + LETS_GO_WITHIN;
    loop {
        let done = of();
        let error = done.as_ref().err().and_then(&opening);
        match error {
            Some(OpenError::Locked { owner, .. }) if *owner == own && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => return done,
        }
    }
}

/// Verifies every byte of a folder that nobody has open.
///
/// # Errors
/// The first damage.
pub(crate) fn check(path: &Path) -> Result<CheckReport> {
    let files: Arc<dyn Files> = Arc::new(Disk);
    let check = || Folder::check(&files, path, &Serial);
    once_let_go(check, |failure| Some(&failure.error)).map_err(|failure| {
        let CheckFailure { error, segment, catalog } = *failure;
        let table = segment.zip(catalog).and_then(|(segment, catalog)| restore::table_of(segment, &catalog));
        match table {
            Some(table) => {
                let text = format!("{error}; it belongs to table '{table}'");
                Error::disk(Error::from(error).code(), text)
            }
            None => error.into(),
        }
    })
}

impl Durable {
    /// Makes a checkpoint of a state, with the gate in hand.
    fn checkpoint_of(&self, state: &CatalogState, pace: &log_store::Pace<'_>) -> Result<()> {
        let Some(catalog) = self.catalog.upgrade() else { return Ok(()) };
        let begun = Instant::now();
        let contains = self.folder.log().last();
        let mut checkpoint = self.folder.checkpoint(pace)?;
        let mut keep = |segment: &Segment| Ok(checkpoint.segment(segment)?);
        let (state, blobs) = capture::whole(state, next(&catalog), &mut keep)?;
        let report = checkpoint.commit(contains, &record::write_state(&state, &blobs)?)?;
        self.checkpointed.store(contains.0, Ordering::Relaxed);
        let CheckpointReport { bytes, files, .. } = report;
        *self.last_checkpoint.lock() = Some(MadeCheckpoint { at: Utc::now(), bytes, files, elapsed: begun.elapsed() });
        Ok(())
    }
}

/// Whether a path, which need not be there, leads into a folder.
fn lies_in(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    let Ok(path) = std::path::absolute(path) else { return false };
    let there = path.ancestors().find_map(|part| part.canonicalize().ok());
    there.is_some_and(|there| there.starts_with(folder))
}

/// Microseconds since 1970 as a time.
pub(crate) fn time(us: u64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(i64::try_from(us).unwrap_or(i64::MAX)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Copies a folder that nobody has open to a new one, as it was at a point of time.
///
/// # Errors
/// The folder does not go back so far, is damaged or in use; there is something in the new one.
pub(crate) fn restore_folder(from: &Path, to: &Path, at: DateTime<Utc>) -> Result<RestoreReport> {
    let files: Arc<dyn Files> = Arc::new(Disk);
    let until = Until::TimeUs(u64::try_from(at.timestamp_micros()).unwrap_or(0));
    let restore = || Folder::restore(&files, from, to, until, &|_bytes| true);
    once_let_go(restore, |error| Some(error)).map_err(|error| match error {
        OpenError::OutOfLog { first: Until::TimeUs(first), .. } => Error::disk(SqlState::InvalidParameterValue, format!(
            "{} goes back to {}, not to {}; a backup that was made before may, and ALTER SYSTEM SET {RESTORE_WINDOW} \
             has a folder go back further from then on",
            from.display(),
            shown(time(first)),
            shown(at)
        )),
        other => other.into(),
    })
}

/// A time as users write it, in UTC.
fn shown(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

/// What new tables begin with.
fn next(catalog: &Catalog) -> Next {
    let (table, turns) = catalog.numbers();
    Next { table, turns }
}

impl Journal for Durable {
    fn gate(&self) -> &RwLock<()> {
        &self.gate
    }

    fn ahead(&self, version: &TableVersion, haste: Haste) -> Result<Ahead> {
        let pace = |bytes: u64| match haste {
            Haste::Waited => true,
            Haste::Background => self.limits.wait(bytes, &|| *self.is_ended.lock()),
        };
        let keep = |of: &SegmentVersion| Ok(self.folder.keep(&of.segment, &pace)?);
        let kept: Vec<KeptFiles> = version.segments().map(keep).collect::<Result<_>>()?;
        Ok(Box::new(kept))
    }

    fn state(&self, before: &CatalogState, after: &CatalogState) -> Result<()> {
        let Some(catalog) = self.catalog.upgrade() else { return Ok(()) };
        match capture::difference(before, after, next(&catalog))? {
            Difference::Nothing => {}
            Difference::Record(state, blobs) => {
                self.folder.log().append(COMMIT, &record::write_state(&state, &blobs)?)?;
                self.settle_later();
            }
            Difference::Rows => self.checkpoint_of(after, &|_bytes| true)?,
        }
        Ok(())
    }

    fn rows(&self, rows: &[WrittenRows<'_>]) -> Result<()> {
        let record = match rows {
            [one] => {
                let added = one.added.iter().map(|(first, batch)| (*first, *batch));
                record::write_rows(one.table, added, one.dead)?
            }
            several => record::write_several(several)?,
        };
        self.folder.log().append(COMMIT, &record)?;
        Ok(())
    }

    fn sequence(&self, id: u64, at: Position) -> Result<()> {
        self.folder.log().append(COMMIT, &record::write_sequence(id, at))?;
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let log = self.folder.log();
        let last = log.last();
        if log.durable() < last {
            log.wait_durable(last)?;
        }
        if log.bytes_since(Lsn(self.checkpointed.load(Ordering::Relaxed))) >= CHECKPOINT_BYTES {
            self.settle_later();
        }
        Ok(())
    }

    fn settle_later(&self) {
        if !self.is_told.load(Ordering::Relaxed) && !self.is_told.swap(true, Ordering::Relaxed) {
            let _guard = self.is_ended.lock();
            self.changed.notify_all();
        }
    }

    fn checkpoint(&self, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        let Some(catalog) = self.catalog.upgrade() else { return Ok(()) };
        let _alone = self.gate.write();
        self.checkpoint_of(&catalog.state(), &|_bytes| !is_stopped())
    }

    fn backup(&self, to: &Path, is_stopped: &(dyn Fn() -> bool + Sync)) -> Result<u64> {
        if lies_in(to, self.folder.path()) {
            return Err(Error::disk(
                SqlState::InvalidParameterValue,
                format!("{} lies in the database's own folder; back up to another one", to.display()),
            ));
        }
        self.settle()?;
        Ok(self.folder.backup(to, false, &|bytes| self.limits.wait(bytes, is_stopped))?.bytes)
    }

    fn status(&self) -> JournalStatus {
        let log = self.folder.log();
        let checkpointed = Lsn(self.checkpointed.load(Ordering::Relaxed));
        let unread = |catalog: Arc<Catalog>| -> u64 {
            catalog.state().tables().map(|table| table.base.on_disk(|_| true).len() as u64).sum()
        };
        JournalStatus {
            path: self.folder.path().display().to_string(),
            last: log.last().0,
            durable: log.durable().0,
            checkpointed: checkpointed.0,
            log_bytes: log.bytes_since(checkpointed),
            syncs: log.syncs(),
            restorable_from: time(self.folder.restorable_from()),
            history_bytes: self.folder.history_bytes(),
            unread_columns: self.catalog.upgrade().map_or(0, unread),
            checkpoint: *self.last_checkpoint.lock(),
            stopped: self.folder.writable().err().map(|error| error.to_string()),
        }
    }

    fn limits(&self) -> DiskLimits {
        self.limits.get()
    }

    fn set_limits(&self, limits: DiskLimits) {
        self.folder.set_window(window_us(Some(limits.restore_window_s)));
        self.limits.set(limits);
    }

    fn end(&self, state: &CatalogState) {
        // The log has them further than they are: values would be left out.
        for (_, sequence) in state.sequences().filter(|(_, sequence)| sequence.values.is_told_ahead()) {
            if let Err(error) = self.sequence(sequence.id, sequence.values.position()) {
                tracing::warn!("a sequence leaves values out after this: {error}");
            }
        }
        *self.is_ended.lock() = true;
        self.changed.notify_all();
        if let Err(error) = self.folder.close() {
            tracing::error!("the end of a database was not written: {error}");
        }
    }
}

/// Does something whose panic is an error: without the thread that does it, nobody would any more.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    sched::caught(work).unwrap_or_else(|panic| Err(Error::Internal(format!("it panicked: {panic}"))))
}

/// Syncs what nobody waits for, and makes checkpoints.
fn run(weak: &Weak<Durable>) {
    let mut not_before = Instant::now();
    loop {
        let Some(durable) = weak.upgrade() else { return };
        {
            let mut is_ended = durable.is_ended.lock();
            if !*is_ended && !durable.is_told.swap(false, Ordering::Relaxed) {
                durable.changed.wait(&mut is_ended);
            }
            if *is_ended {
                return;
            }
            durable.changed.wait_for(&mut is_ended, SYNC_EVERY);
            durable.is_told.store(false, Ordering::Relaxed);
        }
        if let Err(error) = caught(|| durable.settle()) {
            tracing::error!("commits that nobody waited for may be lost: {error}");
        }
        let checkpointed = Lsn(durable.checkpointed.load(Ordering::Relaxed));
        if durable.folder.log().bytes_since(checkpointed) >= CHECKPOINT_BYTES && Instant::now() >= not_before {
            let is_ended = || *durable.is_ended.lock();
            if let Err(error) = caught(|| durable.checkpoint(&is_ended)) {
                tracing::error!("a checkpoint was not made: {error}");
                not_before = Instant::now() + AGAIN;
            }
        }
    }
}
