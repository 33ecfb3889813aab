//! Shared passes: scans of one column that run at the same time read each granule of it once.
//!
//! A scan *attaches* itself to the columns whose codes its filter tests first, with the codes that it looks for and the
//! granules that it wants. Whoever's task comes to a granule that nobody has read for it *leads* a pass: it looks for
//! the rows of all attached scans that want the granule while its codes are in the cache, keeps what it found for the
//! others with the granule, and goes on with its own. A scan that comes to a granule later takes what is kept there.
//! So a scan that arrives in the middle of a pass gets the rest of it without doing anything, and reads the beginning
//! itself, for itself and for those that came after it: the pass wraps round, and nobody waits for it to begin.
//!
//! Invariants:
//! - Nobody ever waits for another scan: a granule that another task reads at this moment is read a second time.
//! - What is kept with a granule is dropped when all that it was kept for have taken it, detached or stopped; it is
//!   bounded by a budget of its own. What finds no room is not kept, and is read again by whoever needs it.
//! - A scan that detaches, whatever for, leaves nothing behind; a pass whose leader fails leaves its granule as it was.
//! - Whether a granule is wanted by a scan, read by somebody or kept for somebody changes under its lock only.
//! - Only statements of one priority share: none works for a less urgent one.
//!
//! Locks are held for a look-up or a change, in this order: columns, the scans of a column, a granule. No pass runs
//! under one.
//!
//! Source: Psaroudakis et al., VLDB 2013 ("Sharing data and work across concurrent analytical queries") names the kinds
//! of sharing; the coalescing of scans is ERIS's (ADMS 2014, section 3.1); sorting what predicates look for instead of
//! testing one after the other is that of Unterbrunner et al., VLDB 2009 ("Predictable performance for unpredictable
//! workloads").

mod attached;
mod pass;
mod readers;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Instant;

use foldhash::fast::FixedState;
use numa::{Budget, Reservation};
use parking_lot::Mutex;
use sched::Statement;
use storage::ColumnId;

use super::filter::CodeTest;
pub(crate) use attached::{AttachedScans, ScanAttachment, SharedTurn};
use pass::SharedPass;
pub(crate) use pass::{FoundRows, GranuleRead};
use readers::PassReaders;
pub use rule::ScanSharing;
pub(crate) use rule::is_found_soon;
use rule::may_lead;

/// Bytes that results may take which wait for their scans, of a whole database.
const RESULT_BYTES_MAX: u64 = 64 << 20;
/// What results are charged to.
const BUDGET_NAME: &str = "results of shared scans";
/// Granules that are read for the same scans, at most, before it is looked whether there are others: putting many
/// together may take as long as reading some granules.
const PASSES_PER_LOOK: usize = 16;
/// One for each `n` scans is enough.
const SCANS_PER_PASS: usize = 4;
/// Bits of a word of granules.
const WORD: usize = 64;

/// The scans of one database that are under way, by the columns that they read.
pub struct SharedScans {
    columns: Mutex<HashMap<SharedKey, Arc<SharedColumn>, FixedState>>,
    budget: Arc<Budget>,
    /// The next number of a scan.
    numbers: AtomicU64,
    /// The next stamp of readers.
    stamps: AtomicU64,
}

/// A stored column, and the priority that users gave the statements.
type SharedKey = (ColumnId, u8);

impl SharedScans {
    /// What waits for its scan is charged to `budget`, within a bound of its own.
    pub fn within(budget: &Arc<Budget>) -> SharedScans {
        SharedScans::charging(budget.child(BUDGET_NAME, Some(RESULT_BYTES_MAX)))
    }

    fn charging(budget: Arc<Budget>) -> SharedScans {
        let (numbers, stamps) = (AtomicU64::new(0), AtomicU64::new(0));
        SharedScans { columns: Mutex::default(), budget, numbers, stamps }
    }

    /// Bytes of results that wait for their scans.
    pub fn kept_bytes(&self) -> u64 {
        self.budget.used_bytes()
    }

    /// Scans that are under way, counted once for each stored column that they read.
    pub fn attached(&self) -> usize {
        self.columns.lock().values().map(|column| column.running.load(Relaxed)).sum()
    }

    /// Adds a scan of a column of `granules` granules; where it is attached.
    fn add(&self, key: SharedKey, granules: usize, scan: &Arc<WaitingScan>) -> Arc<SharedColumn> {
        let mut columns = self.columns.lock();
        let column = columns.entry(key).or_insert_with(|| Arc::new(SharedColumn::new(key, granules)));
        let mut scans = column.scans.lock();
        let place = scans.all.partition_point(|known| known.number < scan.number);
        scans.all.insert(place, Arc::clone(scan));
        scans.changes += 1;
        column.running.store(scans.all.len(), Relaxed);
        Arc::clone(column)
    }

    /// Takes a scan away.
    fn remove(&self, column: &SharedColumn, number: u64) {
        let mut columns = self.columns.lock();
        let mut scans = column.scans.lock();
        let Ok(place) = scans.all.binary_search_by_key(&number, |scan| scan.number) else { return };
        scans.all.remove(place);
        scans.changes += 1;
        column.running.store(scans.all.len(), Relaxed);
        if scans.all.is_empty() {
            scans.readers = None;
            columns.remove(&column.key);
        }
    }

    /// Room for what was found for the readers of a stamp, if need be that of results that have waited longest.
    fn room_for(&self, bytes: u64, stamp: u64) -> Option<Reservation> {
        self.budget.reserve(bytes).ok().or_else(|| {
            self.drop_oldest(stamp);
            self.budget.reserve(bytes).ok()
        })
    }

    /// Drops the results of those readers of a stamp before this one that were put together first: their scans are the
    /// ones that take nothing.
    fn drop_oldest(&self, before: u64) {
        let columns: Vec<Arc<SharedColumn>> = self.columns.lock().values().cloned().collect();
        let oldest = columns.iter().filter_map(|column| column.oldest_kept()).min();
        if let Some(oldest) = oldest.filter(|oldest| *oldest < before) {
            columns.iter().for_each(|column| column.drop_kept(oldest));
        }
    }
}

impl Default for SharedScans {
    /// With a budget that nobody else has.
    fn default() -> SharedScans {
        SharedScans::charging(Budget::new(BUDGET_NAME, RESULT_BYTES_MAX))
    }
}

impl std::fmt::Debug for SharedScans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedScans").field("attached", &self.attached()).finish_non_exhaustive()
    }
}

/// A scan of a column that is under way.
pub(crate) struct WaitingScan {
    /// No two have the same; later ones have larger ones.
    number: u64,
    test: CodeTest,
    /// Whose it is; nobody keeps a statement alive that has ended.
    statement: Weak<Statement>,
    /// A bit for each granule that it wants.
    wanted: Box<[AtomicU64]>,
    /// How many these are.
    left: AtomicUsize,
    /// Granules whose rows were found for it, taken or not.
    found: AtomicUsize,
}

impl WaitingScan {
    fn number(&self) -> u64 {
        self.number
    }

    fn test(&self) -> &CodeTest {
        &self.test
    }

    /// Granules that it wants.
    fn left(&self) -> usize {
        self.left.load(Relaxed)
    }

    /// Whether it is worth working for.
    fn is_alive(&self) -> bool {
        self.left() > 0 && self.statement.upgrade().is_some_and(|statement| !statement.is_cancelled())
    }

    fn wants(&self, granule: usize) -> bool {
        self.wanted[granule / WORD].load(Relaxed) >> (granule % WORD) & 1 == 1
    }

    /// It does not want a granule; whether it did. The granule's lock is held.
    fn unwant(&self, granule: usize) -> bool {
        let bit = 1 << (granule % WORD);
        let did = self.wanted[granule / WORD].fetch_and(!bit, Relaxed) & bit != 0;
        self.left.fetch_sub(usize::from(did), Relaxed);
        did
    }
}

/// A column that some scans read.
struct SharedColumn {
    key: SharedKey,
    scans: Mutex<ColumnScans>,
    /// How many scans there are, for a look without the lock.
    running: AtomicUsize,
    granules: Box<[Mutex<SharedGranule>]>,
}

/// The scans of a column.
#[derive(Default)]
struct ColumnScans {
    /// Ascending by number.
    all: Vec<Arc<WaitingScan>>,
    /// How often they changed.
    changes: u64,
    /// Those that passes are read for, as of so many changes.
    readers: Option<(u64, Arc<PassReaders>)>,
    /// Passes that were read for those.
    passes: usize,
    /// So many granules are read by each scan for itself: what was found last had no room.
    alone: usize,
}

impl ColumnScans {
    /// The readers that there are, if the scan of this number is one of them and it is not time to look for others.
    fn known(&mut self, number: u64) -> Option<Arc<PassReaders>> {
        let look_again = self.passes >= PASSES_PER_LOOK.min(1 + self.all.len() / SCANS_PER_PASS);
        let (changes, readers) = self.readers.as_ref()?;
        let good = (*changes == self.changes || !look_again) && readers.list().place(number).is_some();
        self.passes += usize::from(good);
        good.then(|| Arc::clone(readers))
    }
}

/// A granule of a column.
#[derive(Default)]
struct SharedGranule {
    /// Somebody reads it for all.
    is_read: bool,
    kept: Option<KeptPass>,
}

/// What waits for scans.
struct KeptPass {
    pass: Arc<SharedPass>,
    /// Scans that it found rows for and that want the granule.
    left: usize,
}

impl SharedGranule {
    /// A scan does not want it: what is kept for nobody else goes.
    fn unwanted(&mut self, number: u64) {
        let Some(kept) = &mut self.kept else { return };
        if kept.pass.readers().place(number).is_some() {
            kept.left -= 1;
            if kept.left == 0 {
                self.kept = None;
            }
        }
    }
}

impl SharedColumn {
    fn new(key: SharedKey, granules: usize) -> SharedColumn {
        let granules = (0..granules).map(|_| Mutex::default()).collect();
        SharedColumn { key, scans: Mutex::default(), running: AtomicUsize::new(0), granules }
    }

    /// What comes next for a scan that has come to a granule.
    fn turn(&self, scan: &WaitingScan, granule: usize, may_lead: impl FnOnce() -> bool) -> Turn {
        let mut here = self.granules[granule].lock();
        let wanted = scan.unwant(granule);
        let kept = here.kept.as_ref().filter(|kept| kept.pass.readers().place(scan.number).is_some());
        if let Some(pass) = kept.map(|kept| Arc::clone(&kept.pass)) {
            if wanted {
                here.unwanted(scan.number);
            }
            return Turn::Take(pass);
        }
        if here.is_read || !wanted || !may_lead() {
            return Turn::Alone;
        }
        here.is_read = true;
        Turn::Lead
    }

    /// Keeps what a pass found, if there is room for it; for how many.
    fn keep(&self, granule: usize, mut pass: SharedPass, readers: &PassReaders, shared: &SharedScans) -> usize {
        match shared.room_for(pass.bytes(), pass.readers().stamp()) {
            Some(room) => pass.charge(room),
            None => {
                self.scans.lock().alone = PASSES_PER_LOOK;
                return 0;
            }
        }
        let mut here = self.granules[granule].lock();
        let wanting = readers.scans().iter().filter(|scan| scan.wants(granule));
        let left = wanting.inspect(|scan| _ = scan.found.fetch_add(1, Relaxed)).count();
        if left > 0 {
            here.kept = Some(KeptPass { pass: Arc::new(pass), left });
        }
        left
    }

    /// Those that a pass is read for, `leader` one of them, or nobody.
    fn readers(&self, leader: &Arc<WaitingScan>, shared: &SharedScans) -> Option<Arc<PassReaders>> {
        let (all, changes) = {
            let mut scans = self.scans.lock();
            if scans.alone > 0 {
                scans.alone -= 1;
                return None;
            }
            if let Some(known) = scans.known(leader.number) {
                return Some(known);
            }
            // Others that find themselves among the readers that there are need not wait for better ones.
            scans.passes = 0;
            (scans.all.clone(), scans.changes)
        };
        let stamp = shared.stamps.fetch_add(1, Relaxed);
        let bytes_max = shared.budget.limit_bytes().unwrap_or(u64::MAX);
        let readers = Arc::new(PassReaders::new(&all, leader, bytes_max, stamp)?);
        self.scans.lock().readers = Some((changes, Arc::clone(&readers)));
        Some(readers)
    }

    /// The stamp of the oldest results.
    fn oldest_kept(&self) -> Option<u64> {
        let stamp = |granule: &Mutex<SharedGranule>| Some(granule.lock().kept.as_ref()?.pass.readers().stamp());
        self.granules.iter().filter_map(stamp).min()
    }

    /// Drops the results of the readers of a stamp.
    fn drop_kept(&self, stamp: u64) {
        for granule in &self.granules {
            let mut here = granule.lock();
            if here.kept.as_ref().is_some_and(|kept| kept.pass.readers().stamp() == stamp) {
                here.kept = None;
            }
        }
    }
}

/// What a scan does at a granule.
enum Turn {
    /// Takes what was found for it.
    Take(Arc<SharedPass>),
    /// Reads the granule for all, and ends the pass.
    Lead,
    /// Reads it for itself.
    Alone,
}

/// A granule that is read for all. Whatever becomes of the pass, others may read the granule afterwards.
struct Leading<'a> {
    column: &'a SharedColumn,
    shared: &'a SharedScans,
    granule: usize,
}

impl Leading<'_> {
    /// Keeps what the pass found; for how many others.
    fn end(self, pass: SharedPass, readers: &PassReaders) -> usize {
        self.column.keep(self.granule, pass, readers, self.shared)
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.column.granules[self.granule].lock().is_read = false;
    }
}

/// Whether a statement may work for others.
fn has_time(statement: &Statement) -> bool {
    let deadline = statement.deadline();
    deadline.is_none() || may_lead(statement.began(), Instant::now(), deadline)
}
