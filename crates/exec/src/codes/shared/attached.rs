//! [`AttachedScans`]: the scans of one statement that are attached, and [`ScanAttachment`], one of them.
//!
//! A statement may attach a scan before the scan is prepared, as soon as somebody waits for its rows: older statements
//! run first, and this is how they read for it meanwhile. Which scan that was is told by the column and the codes that
//! are looked for: the scan takes it over when it is prepared, and what nobody takes over goes with the statement.

use std::sync::Weak;
use std::sync::atomic::AtomicBool;

use super::{
    Arc, AtomicU64, AtomicUsize, CodeTest, FoundRows, GranuleRead, Leading, Mutex, Relaxed, ScanSharing, SharedColumn,
    SharedPass, SharedScans, Statement, Turn, WORD, WaitingScan, has_time,
};
use storage::{Column, GRANULE_ROWS};

/// Granules whose rows are not kept for a scan that has little left to do: one in `n`, at most.
const NEARLY_ALL: usize = 8;

/// See the module.
pub(crate) struct AttachedScans {
    shared: Arc<SharedScans>,
    sharing: ScanSharing,
    statement: Arc<Statement>,
    /// Attached before their scans were prepared.
    early: Mutex<Vec<Arc<ScanAttachment>>>,
    all: Mutex<Vec<Weak<ScanAttachment>>>,
    ended: AtomicBool,
    /// One of its scans has come to a granule.
    has_begun: Arc<AtomicBool>,
}

impl AttachedScans {
    /// None yet.
    pub(crate) fn new(shared: Arc<SharedScans>, sharing: ScanSharing, statement: Arc<Statement>) -> AttachedScans {
        let (early, all, ended) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let has_begun = Arc::new(AtomicBool::new(false));
        AttachedScans { shared, sharing, statement, early, all, ended, has_begun }
    }

    /// Whether scans of a column with so many bytes of codes are attached.
    pub(crate) fn takes_part(&self, bytes: u64) -> bool {
        self.sharing.takes_part(bytes)
    }

    /// Whether scans are to be attached before they are prepared, where there are `others`, or none.
    pub(crate) fn attaches_early(&self, others: impl FnOnce() -> bool) -> bool {
        self.sharing.attaches_early(others)
    }

    /// Attaches a scan of some granules of a column; the one that was attached early, if there is one.
    pub(crate) fn attach(
        &self,
        column: &Column,
        test: &CodeTest,
        granules: impl Iterator<Item = usize>,
    ) -> Option<Arc<ScanAttachment>> {
        let of_column = column.len().div_ceil(GRANULE_ROWS);
        let mut wanted = vec![0u64; of_column.div_ceil(WORD)];
        granules.for_each(|granule| wanted[granule / WORD] |= 1 << (granule % WORD));
        let count = wanted.iter().map(|word| word.count_ones() as usize).sum();
        let key = (column.id()?, self.statement.priority().user);
        let early = {
            let mut early = self.early.lock();
            let same = |a: &Arc<ScanAttachment>| a.column.key == key && a.scan.test.set() == test.set();
            early.iter().position(same).map(|place| early.swap_remove(place))
        };
        if let Some(early) = early {
            early.want_only(&wanted);
            return (count > 0).then_some(early);
        }
        if count == 0 || self.ended.load(Relaxed) {
            return None;
        }
        let scan = Arc::new(WaitingScan {
            number: self.shared.numbers.fetch_add(1, Relaxed),
            test: test.clone(),
            statement: Arc::downgrade(&self.statement),
            has_begun: Arc::clone(&self.has_begun),
            wanted: wanted.into_iter().map(AtomicU64::new).collect(),
            left: AtomicUsize::new(count),
            kept: (0..of_column.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect(),
            waiting: AtomicUsize::new(0),
            has_many: AtomicBool::new(false),
        });
        let attachment = Arc::new(ScanAttachment {
            shared: Arc::clone(&self.shared),
            sharing: self.sharing,
            statement: Arc::clone(&self.statement),
            column: self.shared.add(key, of_column, &scan),
            scan,
            detached: AtomicBool::new(false),
        });
        let mut all = self.all.lock();
        if all.len() == all.capacity() {
            // Scans within a recursion come and go with each step.
            all.retain(|known| known.strong_count() > 0);
            let living = all.len();
            all.reserve(living + 1);
        }
        all.push(Arc::downgrade(&attachment));
        drop(all);
        if self.ended.load(Relaxed) {
            attachment.detach();
        }
        Some(attachment)
    }

    /// As [`attach`](Self::attach), for the scan that is going to be prepared.
    pub(crate) fn attach_early(&self, column: &Column, test: &CodeTest, granules: impl Iterator<Item = usize>) {
        if let Some(attachment) = self.attach(column, test, granules) {
            self.early.lock().push(attachment);
        }
    }

    /// What was attached early and not taken over is of no scan.
    pub(crate) fn all_prepared(&self) {
        let early = std::mem::take(&mut *self.early.lock());
        drop(early);
    }

    /// The statement wants no more rows.
    pub(crate) fn end(&self) {
        if self.ended.swap(true, Relaxed) {
            return;
        }
        self.all_prepared();
        let all = std::mem::take(&mut *self.all.lock());
        all.iter().filter_map(Weak::upgrade).for_each(|attachment| attachment.detach());
    }
}

#[cfg(test)]
impl AttachedScans {
    /// Scans that it would end.
    pub(super) fn remembered(&self) -> usize {
        self.all.lock().len()
    }
}

impl Drop for AttachedScans {
    fn drop(&mut self) {
        self.end();
    }
}

/// A scan that is attached to a column, until this is dropped.
pub(crate) struct ScanAttachment {
    shared: Arc<SharedScans>,
    sharing: ScanSharing,
    statement: Arc<Statement>,
    column: Arc<SharedColumn>,
    scan: Arc<WaitingScan>,
    detached: AtomicBool,
}

/// How the rows of a granule were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SharedTurn {
    /// By a pass of another scan's task.
    Taken(FoundRows),
    /// By a pass that also found those of so many others, which wait for them.
    Led(FoundRows, usize),
    /// Not at all: the scan looks for itself.
    Alone,
}

impl ScanAttachment {
    /// Finds the rows of a granule, for others too if they want them.
    pub(crate) fn find(&self, granule: usize, read: &GranuleRead<'_>) -> SharedTurn {
        if !self.scan.has_begun() {
            self.scan.has_begun.store(true, Relaxed);
        }
        let may_lead = || self.is_shared() && has_time(&self.statement);
        let turn = self.column.turn(&self.scan, granule, may_lead);
        let found = match turn {
            Turn::Alone => SharedTurn::Alone,
            Turn::Take(pass) => pass.found(self.scan.number).map_or(SharedTurn::Alone, SharedTurn::Taken),
            Turn::Lead => self.lead(granule, read),
        };
        if self.scan.left() == 0 {
            self.detach();
        }
        found
    }

    fn lead(&self, granule: usize, read: &GranuleRead<'_>) -> SharedTurn {
        let leading = Leading { column: &self.column, shared: &self.shared, granule };
        let Some(readers) = self.column.readers(&self.scan, granule, &self.shared) else { return SharedTurn::Alone };
        #[cfg(test)]
        self.shared.read_for.fetch_add(readers.scans().len(), Relaxed);
        let pass = SharedPass::read(&readers, &self.scan, read);
        if pass.learned() {
            self.column.look_again();
        }
        let Some(own) = pass.found(self.scan.number) else { return SharedTurn::Alone };
        let others = leading.end(pass, &readers);
        SharedTurn::Led(own, others)
    }

    /// Whether others' passes are shared, or theirs with it, at this moment.
    pub(crate) fn is_shared(&self) -> bool {
        self.sharing.shares(self.column.running.load(Relaxed))
    }

    /// Whether nearly all rows were found, and are kept.
    pub(crate) fn has_little_left(&self) -> bool {
        let left = self.scan.left();
        left > 0 && self.scan.missing() <= left / NEARLY_ALL
    }

    /// Granules that are not marked are not wanted.
    fn want_only(&self, wanted: &[u64]) {
        for granule in 0..self.column.granules.len() {
            if wanted[granule / WORD] >> (granule % WORD) & 1 == 0 {
                self.unwant(granule);
            }
        }
    }

    fn unwant(&self, granule: usize) {
        let mut here = self.column.granules[granule].lock();
        self.scan.unwant(granule);
        here.take(granule, &self.scan);
    }

    /// The scan wants nothing more.
    fn detach(&self) {
        if self.detached.swap(true, Relaxed) {
            return;
        }
        self.shared.remove(&self.column, self.scan.number);
        if self.scan.left() > 0 {
            (0..self.column.granules.len()).for_each(|granule| self.unwant(granule));
        }
    }
}

impl Drop for ScanAttachment {
    fn drop(&mut self) {
        self.detach();
    }
}
