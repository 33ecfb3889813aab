//! A database that lasts: its folder, what is told to the log, checkpoints, and how it is opened again.
//!
//! ```text
//! rows of a delta, definitions ─► gate, record ─► log ─────────────────► seen by others ─► wait for the disk
//! segments ─► files, ahead and beside others ─► gate, checkpoint ─► manifest ─► seen by others
//! background: sync every 200 ms, checkpoint when the log has grown
//! open: the checkpoint, then the log's records (restore) ─► segments loaded by all workers ─► a checkpoint
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
//! One folder, one process. What `ALTER SYSTEM SET` says is for the process.
//!
//! `docs/design/durability.md` has the whole.

mod capture;
mod record;
mod restore;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chrono::Utc;
use log_store::{
    CheckFailure, CheckReport, CheckpointReport, Disk, Files, Folder, FolderOptions, KeptFiles, Lsn, OpenError,
};
use parking_lot::{Condvar, Mutex, RwLock};
use storage::{Segment, SegmentVersion, Serial, TableVersion};

use crate::catalog::journal::{Ahead, Journal, JournalStatus, MadeCheckpoint, WrittenRows};
use crate::catalog::{Catalog, CatalogState};
use crate::durable::capture::Difference;
use crate::durable::record::Next;
use crate::durable::restore::Picture;
use crate::error::{Error, Result};
use crate::run::inner::Inner;
use crate::run::statement::RunningStatement;

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
    folder: Folder,
    gate: RwLock<()>,
    catalog: Weak<Catalog>,
    /// The last record that a checkpoint has.
    checkpointed: AtomicU64,
    is_ended: Mutex<bool>,
    changed: Condvar,
    /// A writer has told the background that there is something to sync.
    is_told: AtomicBool,
    last_checkpoint: Mutex<Option<MadeCheckpoint>>,
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
    let folder = opened(files, path)?;
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
        applied.map_err(|e| Error::Disk(format!("record {} of the log: {e}", record.lsn.0)))?;
    }
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
    });
    if replayed > 0 || has_deltas {
        // What was made of deltas has no place on the disk yet, and numbers of rows are others now.
        durable.checkpoint(&|| false)?;
    }
    let thread = std::thread::Builder::new().name("nearside-log".into());
    let weak = Arc::downgrade(&durable);
    thread.spawn(move || run(&weak)).map_err(|e| Error::Execution(format!("no thread could be had: {e}")))?;
    inner.catalog.set_journal(durable);
    Ok(())
}

/// The folder, opened or made. Where a database of this process has it that was just dropped, it lets go of it once
/// what it has on its way has ended: that is waited for.
fn opened(files: &Arc<dyn Files>, path: &Path) -> Result<Folder> {
    let (options, own) = (FolderOptions::default(), format!("process {}", std::process::id()));
    let until = Instant::now() + LETS_GO_WITHIN;
    loop {
        let opened = match Folder::exists(files.as_ref(), path)? {
            true => Folder::open(Arc::clone(files), path, &options),
            false => Folder::create(Arc::clone(files), path, &options),
        };
        match opened {
            Err(OpenError::Locked { owner, .. }) if owner == own && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return Ok(other?),
        }
    }
}

/// Verifies every byte of a folder that nobody has open.
///
/// # Errors
/// The first damage.
pub(crate) fn check(path: &Path) -> Result<CheckReport> {
    let files: Arc<dyn Files> = Arc::new(Disk);
    Folder::check(&files, path, &Serial).map_err(|failure| {
        let CheckFailure { error, segment, catalog } = *failure;
        let table = segment.zip(catalog).and_then(|(segment, catalog)| restore::table_of(segment, &catalog));
        match table {
            Some(table) => Error::Disk(format!("{error}; it belongs to table '{table}'")),
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

/// What new tables begin with.
fn next(catalog: &Catalog) -> Next {
    let (table, turns) = catalog.numbers();
    Next { table, turns }
}

impl Journal for Durable {
    fn gate(&self) -> &RwLock<()> {
        &self.gate
    }

    fn ahead(&self, version: &TableVersion) -> Result<Ahead> {
        let keep = |of: &SegmentVersion| Ok(self.folder.keep(&of.segment, &|_bytes| true)?);
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
        self.settle()?;
        Ok(self.folder.backup(to, false, &|_bytes| !is_stopped())?.bytes)
    }

    fn status(&self) -> JournalStatus {
        let log = self.folder.log();
        let checkpointed = Lsn(self.checkpointed.load(Ordering::Relaxed));
        JournalStatus {
            path: self.folder.path().display().to_string(),
            last: log.last().0,
            durable: log.durable().0,
            checkpointed: checkpointed.0,
            log_bytes: log.bytes_since(checkpointed),
            checkpoint: *self.last_checkpoint.lock(),
            stopped: self.folder.writable().err().map(|error| error.to_string()),
        }
    }

    fn end(&self) {
        *self.is_ended.lock() = true;
        self.changed.notify_all();
        if let Err(error) = self.folder.close() {
            tracing::error!("the end of a database was not written: {error}");
        }
    }
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
        if let Err(error) = durable.settle() {
            tracing::error!("commits that nobody waited for may be lost: {error}");
        }
        let checkpointed = Lsn(durable.checkpointed.load(Ordering::Relaxed));
        if durable.folder.log().bytes_since(checkpointed) >= CHECKPOINT_BYTES && Instant::now() >= not_before {
            let is_ended = || *durable.is_ended.lock();
            if let Err(error) = durable.checkpoint(&is_ended) {
                tracing::error!("a checkpoint was not made: {error}");
                not_before = Instant::now() + AGAIN;
            }
        }
    }
}
