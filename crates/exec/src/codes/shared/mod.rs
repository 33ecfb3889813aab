//! Shared passes: scans of one column that run at the same time read its granules for each other.
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
//! - What is kept with a granule is dropped when all that it was kept for have taken it, detached or stopped. It is
//!   bounded by a budget of its own, which is full for those who come later: what younger results would push out is
//!   what older statements, which run first, are about to take, and all would be read over and over. Only what nobody
//!   takes any more gives way ([`Stall`]), and everything where the database is short of memory. What is not kept is
//!   read again by whoever needs it.
//! - A pass looks for the rows of a scan in a granule only where none are kept for it there, so that a granule is read
//!   for a scan once, unless what was found had no room: then some granules are read by each scan for itself, as many
//!   more as the pass was long.
//! - A scan that detaches, whatever for, leaves nothing behind; a pass whose leader fails leaves its granule as it was.
//! - Whether a granule is wanted by a scan, read by somebody or kept for somebody changes under its lock only.
//! - Only statements of one priority share: none works for a less urgent one.
//!
//! Locks are held for a look-up or a change, in this order: columns, the scans of a column, a granule; that of the
//! lists of readers alone. No pass runs under one.
//!
//! # Limits
//! - Results stay until somebody leads a pass, however much memory statements want meanwhile: a statement may be
//!   refused memory for what they take, a sixteenth of the database's at most, and as much for what passes look for.
//! - Not charged: two bits a granule of each scan, and a lock of some 40 bytes a granule of each column that is read;
//!   who the readers of a pass that is kept are; two MiB or so of a pass that is under way, before it is known whether
//!   there is room for it.
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
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
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
use readers::{NoReaders, PassReaders, ReaderList};
pub use rule::ScanSharing;
pub(crate) use rule::is_found_soon;
use rule::{ALONE_MIN, Stall, alone_after, may_lead};

/// Bytes that results may take which wait for their scans, of a whole database.
const RESULT_BYTES_MAX: u64 = 64 << 20;
/// They take one byte in `n` of the database's memory, at most, and so does what passes look for.
const RESULT_SHARE: u64 = 16;
/// Results go, and others are not kept, where less than `n` times what they may take is free of the database's memory.
const FREE_FACTOR: u64 = 2;
/// What results are charged to.
const RESULTS_NAME: &str = "results of shared scans";
/// What is charged that is looked for.
const READERS_NAME: &str = "readers of shared scans";
/// Granules that are read for the same scans, at most, before it is looked whether there are others: putting many
/// together may take as long as reading some granules.
const PASSES_PER_LOOK: usize = 16;
/// One for each `n` scans is enough.
const SCANS_PER_PASS: usize = 4;
/// Readers of passes that a column remembers: leaders at different places have different ones.
const READERS_MAX: usize = 4;
/// Bits of a word of granules.
const WORD: usize = 64;

/// The scans of one database that are under way, by the columns that they read.
pub struct SharedScans {
    columns: Mutex<HashMap<SharedKey, Arc<SharedColumn>, FixedState>>,
    /// The database's.
    whole: Arc<Budget>,
    /// Of results, within that.
    results: Arc<Budget>,
    /// Of what passes are read for, within that.
    looked_for: Arc<Budget>,
    /// The next number of a scan.
    numbers: AtomicU64,
    /// The next stamp of readers.
    stamps: AtomicU64,
    kept: Mutex<KeptLists>,
    /// Readers of all passes that were led, each pass by itself.
    #[cfg(test)]
    read_for: AtomicUsize,
}

/// Those that results are kept for.
#[derive(Default)]
struct KeptLists {
    lists: Vec<Weak<ReaderList>>,
    stall: Stall,
}

/// A stored column, and the priority that users gave the statements.
type SharedKey = (ColumnId, u8);

impl SharedScans {
    /// What waits for its scan is charged to `budget`, within a bound of its own.
    pub fn within(budget: &Arc<Budget>) -> SharedScans {
        let share = budget.limit_bytes().map_or(u64::MAX, |limit| limit / RESULT_SHARE);
        SharedScans::bounded(budget, share.min(RESULT_BYTES_MAX))
    }

    fn bounded(whole: &Arc<Budget>, bytes_max: u64) -> SharedScans {
        SharedScans {
            columns: Mutex::default(),
            whole: Arc::clone(whole),
            results: whole.child(RESULTS_NAME, Some(bytes_max)),
            looked_for: whole.child(READERS_NAME, Some(bytes_max)),
            numbers: AtomicU64::new(0),
            stamps: AtomicU64::new(0),
            kept: Mutex::default(),
            #[cfg(test)]
            read_for: AtomicUsize::new(0),
        }
    }

    /// Bytes of results that wait for their scans.
    pub fn kept_bytes(&self) -> u64 {
        self.results.used_bytes()
    }

    /// Scans that are under way, counted once for each stored column that they read.
    pub fn attached(&self) -> usize {
        self.columns.lock().values().map(|column| column.running.load(Relaxed)).sum()
    }

    /// Whether no scan is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.columns.lock().is_empty()
    }

    /// Adds a scan of a column of `granules` granules; where it is attached.
    fn add(&self, key: SharedKey, granules: usize, scan: &Arc<WaitingScan>) -> Arc<SharedColumn> {
        let is_known = self.columns.lock().contains_key(&key);
        // Not under the lock of all columns: it has a lock for each granule.
        let made = (!is_known).then(|| Arc::new(SharedColumn::new(key, granules)));
        let mut columns = self.columns.lock();
        let make = || made.unwrap_or_else(|| Arc::new(SharedColumn::new(key, granules)));
        let column = columns.entry(key).or_insert_with(make);
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
            scans.readers.clear();
            columns.remove(&column.key);
        }
    }

    /// Room for what was found. Where the database is short of memory there is none, and all results go; where there is
    /// none since nobody takes what was found for the oldest readers, theirs go.
    fn room_for(&self, bytes: u64) -> Option<Reservation> {
        let needed = self.results.limit_bytes().map_or(0, |limit| FREE_FACTOR * limit);
        if self.whole.available_bytes().is_some_and(|free| free < needed) {
            if self.kept_bytes() > 0 {
                self.drop_kept(|_| true);
            }
            return None;
        }
        if let Ok(room) = self.results.reserve(bytes) {
            return Some(room);
        }
        self.has_no_room();
        self.results.reserve(bytes).ok()
    }

    /// There was no room: what is kept for the oldest readers goes if nobody takes it any more.
    fn has_no_room(&self) {
        if let Some(stalled) = self.stalled() {
            self.drop_kept(|list| list.stamp() == stalled);
        }
    }

    /// Results may be kept for these readers.
    fn remember(&self, list: &Arc<ReaderList>) {
        let lists = &mut self.kept.lock().lists;
        if lists.len() == lists.capacity() {
            lists.retain(|known| known.strong_count() > 0);
            let living = lists.len();
            lists.reserve(living + 1);
        }
        lists.push(Arc::downgrade(list));
    }

    /// The stamp of the oldest readers that something is kept for, if there was no room often and they took nothing.
    fn stalled(&self) -> Option<u64> {
        let mut kept = self.kept.lock();
        let of_some = kept.lists.iter().filter_map(Weak::upgrade).filter(|list| list.kept() > 0);
        let oldest = of_some.min_by_key(|list| list.stamp())?;
        kept.stall.refused(oldest.stamp(), oldest.taken(), oldest.have_begun()).then(|| oldest.stamp())
    }

    /// Drops what is kept for some readers.
    fn drop_kept(&self, of: impl Fn(&ReaderList) -> bool) {
        let columns: Vec<Arc<SharedColumn>> = self.columns.lock().values().cloned().collect();
        columns.iter().for_each(|column| column.drop_kept(&of));
    }
}

impl Default for SharedScans {
    /// With a budget that nobody else has.
    fn default() -> SharedScans {
        SharedScans::bounded(&Budget::unlimited(), RESULT_BYTES_MAX)
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
    /// A scan of the statement has come to a granule.
    has_begun: Arc<AtomicBool>,
    /// A bit for each granule that it wants.
    wanted: Box<[AtomicU64]>,
    /// How many these are.
    left: AtomicUsize,
    /// A bit for each of those of which something is kept for it.
    kept: Box<[AtomicU64]>,
    /// How many these are.
    waiting: AtomicUsize,
    /// It was found out to have many rows although it looks for few codes.
    has_many: AtomicBool,
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

    /// Granules that it wants and that nothing is kept of for it.
    fn missing(&self) -> usize {
        self.left().saturating_sub(self.waiting.load(Relaxed))
    }

    /// Whether its statement runs, and does not wait for its turn.
    fn has_begun(&self) -> bool {
        self.has_begun.load(Relaxed)
    }

    /// Whether its statement stopped, or ended.
    fn is_stopped(&self) -> bool {
        self.statement.upgrade().is_none_or(|statement| statement.is_cancelled())
    }

    /// It has many rows in a granule, whatever it looks for; whether nobody knew.
    fn finds_many(&self) -> bool {
        !self.has_many.swap(true, Relaxed)
    }

    /// See the field.
    fn has_many(&self) -> bool {
        self.has_many.load(Relaxed)
    }

    fn wants(&self, granule: usize) -> bool {
        self.wanted[granule / WORD].load(Relaxed) >> (granule % WORD) & 1 == 1
    }

    fn is_kept(&self, granule: usize) -> bool {
        self.kept[granule / WORD].load(Relaxed) >> (granule % WORD) & 1 == 1
    }

    /// Whether it is worth working for at a granule.
    fn needs(&self, granule: usize) -> bool {
        self.wants(granule) && !self.is_kept(granule)
    }

    /// Something is kept of a granule. The granule's lock is held.
    fn keep(&self, granule: usize) {
        self.kept[granule / WORD].fetch_or(1 << (granule % WORD), Relaxed);
        self.waiting.fetch_add(1, Relaxed);
    }

    /// Nothing is kept of a granule; whether something was. The granule's lock is held.
    fn unkeep(&self, granule: usize) -> bool {
        let bit = 1 << (granule % WORD);
        let was = self.kept[granule / WORD].fetch_and(!bit, Relaxed) & bit != 0;
        self.waiting.fetch_sub(usize::from(was), Relaxed);
        was
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
    /// Those that passes were read for last.
    readers: Vec<KnownReaders>,
    /// So many granules are read by each scan for itself: what was found last had no room.
    alone: usize,
    /// At so many granules nobody looks for readers: there were none.
    unlooked: usize,
}

/// Readers that were put together.
struct KnownReaders {
    /// As of so many changes.
    changes: u64,
    readers: Arc<PassReaders>,
    /// Passes that were read for them.
    passes: usize,
}

impl ColumnScans {
    /// Readers that there are, if the scan of this number is one of them, the granule is of use to half of them and it
    /// is not time to look for others.
    fn known(&mut self, number: u64, granule: usize) -> Option<Arc<PassReaders>> {
        let passes_max = PASSES_PER_LOOK.min(1 + self.all.len() / SCANS_PER_PASS);
        let changes = self.changes;
        let good = self.readers.iter_mut().find(|known| {
            (known.changes == changes || known.passes < passes_max)
                && known.readers.list().place(number).is_some()
                && 2 * known.readers.needing(granule) >= known.readers.scans().len() - 1
        })?;
        good.passes += 1;
        Some(Arc::clone(&good.readers))
    }

    fn remember(&mut self, changes: u64, readers: Arc<PassReaders>) {
        if self.readers.len() == READERS_MAX {
            self.readers.remove(0);
        }
        self.readers.push(KnownReaders { changes, readers, passes: 0 });
    }
}

/// A granule of a column.
#[derive(Default)]
struct SharedGranule {
    /// Somebody reads it for all.
    is_read: bool,
    /// No scan is in two of them.
    kept: Vec<KeptPass>,
}

/// What waits for scans.
struct KeptPass {
    pass: Arc<SharedPass>,
    /// A bit for each of its readers that has not taken what was found for it.
    waiting: Box<[u64]>,
}

impl KeptPass {
    /// The scan of this number gets nothing any more; whether it would have.
    fn leave(&mut self, number: u64) -> bool {
        let Some(place) = self.pass.readers().place(number) else { return false };
        let bit = 1 << (place % WORD);
        let did = self.waiting[place / WORD] & bit != 0;
        self.waiting[place / WORD] &= !bit;
        did
    }
}

impl SharedGranule {
    /// What is kept for a scan is kept no more: the pass that found it, if there was one.
    fn take(&mut self, granule: usize, scan: &WaitingScan) -> Option<Arc<SharedPass>> {
        if !scan.unkeep(granule) {
            return None;
        }
        let place = self.kept.iter_mut().position(|kept| kept.leave(scan.number))?;
        let pass = Arc::clone(&self.kept[place].pass);
        if self.kept[place].waiting.iter().all(|word| *word == 0) {
            self.kept.swap_remove(place);
            pass.readers().dropped();
        }
        Some(pass)
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
        if let Some(pass) = here.take(granule, scan) {
            pass.readers().took();
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
        match shared.room_for(pass.bytes()) {
            Some(room) => pass.charge(room),
            None => {
                let mut scans = self.scans.lock();
                scans.alone = scans.alone.max(alone_after(readers.scans().len()));
                return 0;
            }
        }
        let mut here = self.granules[granule].lock();
        let mut waiting = vec![0u64; readers.scans().len().div_ceil(WORD)].into_boxed_slice();
        let mut found = 0;
        for (place, scan) in readers.scans().iter().enumerate() {
            if scan.needs(granule) && pass.looked_for(place) {
                waiting[place / WORD] |= 1 << (place % WORD);
                scan.keep(granule);
                found += 1;
            }
        }
        if found > 0 {
            pass.readers().keeps();
            here.kept.push(KeptPass { pass: Arc::new(pass), waiting });
        }
        found
    }

    /// Others are put together for the next pass.
    fn look_again(&self) {
        self.scans.lock().readers.clear();
    }

    /// Those that a pass over a granule is read for, `leader` one of them, or nobody.
    fn readers(&self, leader: &Arc<WaitingScan>, granule: usize, shared: &SharedScans) -> Option<Arc<PassReaders>> {
        let (all, changes) = {
            let mut scans = self.scans.lock();
            if scans.alone > 0 {
                scans.alone -= 1;
                return None;
            }
            if let Some(known) = scans.known(leader.number, granule) {
                return Some(known);
            }
            if scans.unlooked > 0 {
                scans.unlooked -= 1;
                return None;
            }
            (scans.all.clone(), scans.changes)
        };
        let stamp = shared.stamps.fetch_add(1, Relaxed);
        let free = shared.results.available_bytes().unwrap_or(u64::MAX);
        match PassReaders::new(&all, leader, granule, (free, &shared.looked_for), stamp).map(Arc::new) {
            Ok(readers) => {
                shared.remember(readers.list());
                self.scans.lock().remember(changes, Arc::clone(&readers));
                Some(readers)
            }
            Err(none) => {
                if none == NoReaders::Room {
                    shared.has_no_room();
                }
                // Looking for some takes as long as reading a granule.
                if none != NoReaders::Needed || all.len() > SCANS_PER_PASS {
                    self.scans.lock().unlooked = ALONE_MIN;
                }
                None
            }
        }
    }

    /// Drops what is kept for some readers.
    fn drop_kept(&self, of: impl Fn(&ReaderList) -> bool) {
        for (granule, here) in self.granules.iter().enumerate() {
            let mut here = here.lock();
            for kept in here.kept.extract_if(.., |kept| of(kept.pass.readers())) {
                let readers = kept.pass.readers();
                readers.dropped();
                for place in 0..kept.waiting.len() * WORD {
                    if kept.waiting[place / WORD] >> (place % WORD) & 1 == 1
                        && let Some(scan) = readers.scan(place)
                    {
                        scan.unkeep(granule);
                    }
                }
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
