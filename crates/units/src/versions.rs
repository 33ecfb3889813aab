//! Which changes a reader sees: writing statements, their commits, and what readers still hold.
//!
//! A writing statement ([`Write`]) marks what it changes with its number; when it commits, one store makes all of it
//! visible, wherever it lies. A reader ([`Pin`]) sees what was committed when it came. Owners keep the values from
//! before a change as long as a reader may need them ([`Versions::oldest_needed`]), and memory that a reader may still
//! be walking through as long as it does ([`Versions::oldest_epoch`]).
//!
//! Invariants: versions are committed in order, and a version is published after the state that says so; a number of a
//! statement is used again only when no owner has a mark of it and no reader is left that may have read one; a pin that
//! is being taken counts as the oldest.
//!
//! # Limits
//! At most 512 readers are pinned. Others wait for a place, but for senders, which are refused: their callers have a
//! place each, and would wait for each other's. So a thread that has a pin takes no second one. While a reader stays
//! pinned, numbers of statements and memory that was unlinked since are not used again: both grow with what is written
//! meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::primitive::{AtomicU64, Ordering, fence};

/// Numbers of statements that are made at a time.
const CHUNK_WRITES: usize = 4096;
/// Chunks of numbers: 67 million statements that write or whose numbers rest.
const CHUNKS_MAX: usize = 1 << 14;
/// The most readers that are pinned at a time.
pub(crate) const PINS_MAX: usize = 512;

/// What a mark is while its statement runs, beside the statement's number.
const PENDING_MARK: u64 = 1 << 63;
/// States of a statement that are no version.
const RUNNING: u64 = u64::MAX;
const ABORTED: u64 = u64::MAX - 1;
/// A reader's place that is free.
const NOBODY: u64 = 0;

/// What a changed value is marked with: the version that committed it, or the statement that is about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(pub(crate) u64);

impl Mark {
    fn pending(number: u32) -> Mark {
        Mark(PENDING_MARK | u64::from(number))
    }

    /// The statement, as long as the mark is not a version.
    pub(crate) fn writer(self) -> Option<u32> {
        (self.0 & PENDING_MARK != 0).then_some((self.0 & !PENDING_MARK) as u32)
    }
}

/// How a writing statement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteState {
    Running,
    Aborted,
    Committed(u64),
}

/// A reader's place: alone on its cache line, since pinning and unpinning are all that it sees.
#[derive(Debug)]
#[repr(align(64))]
struct PinPlace {
    /// 0 while it is free, else the epoch in which it was taken.
    epoch: AtomicU64,
    /// What it sees; 0 while that is not known yet.
    version: AtomicU64,
}

/// A writing statement, as long as anybody asks.
#[derive(Debug)]
struct WriteSlot {
    /// [`RUNNING`], [`ABORTED`] or the version.
    state: AtomicU64,
    /// Marks that owners have not resolved, and one of the statement itself.
    marks: AtomicU64,
}

/// Numbers of statements that nobody has.
#[derive(Debug)]
struct Numbers {
    /// Chunks that there are.
    chunks: usize,
    free: Vec<u32>,
    /// Numbers that readers may still read marks of, and the epoch in which the last mark was resolved.
    resting: VecDeque<(u64, u32)>,
}

/// See the module.
#[derive(Debug)]
pub struct Versions {
    /// The newest version that everything up to is committed of.
    committed: AtomicU64,
    epoch: AtomicU64,
    commits: Mutex<()>,
    /// By the statement's number, as many chunks as there were ever needed.
    writes: Box<[OnceLock<Box<[WriteSlot]>>]>,
    numbers: Mutex<Numbers>,
    pins: Box<[PinPlace]>,
    /// Places that were ever taken lie below it.
    pins_end: AtomicU64,
}

impl Versions {
    /// Versions of which nothing is committed yet.
    pub fn new() -> Arc<Versions> {
        let place = |_| PinPlace { epoch: AtomicU64::new(0), version: AtomicU64::new(0) };
        Arc::new(Versions {
            committed: AtomicU64::new(1),
            epoch: AtomicU64::new(1),
            commits: Mutex::new(()),
            writes: (0..CHUNKS_MAX).map(|_| OnceLock::new()).collect(),
            numbers: Mutex::new(Numbers { chunks: 0, free: Vec::new(), resting: VecDeque::new() }),
            pins: (0..PINS_MAX).map(place).collect(),
            pins_end: AtomicU64::new(0),
        })
    }

    /// The newest committed version.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Begins a writing statement; `None` where 67 million write, or did so while a reader stayed.
    pub fn begin(self: &Arc<Self>) -> Option<Write> {
        let number = self.take_number()?;
        let slot = self.slot(number);
        slot.state.store(RUNNING, Ordering::Release);
        // The statement itself holds one mark, so that its number stays its own until it has ended.
        slot.marks.store(1, Ordering::Relaxed);
        Some(Write { versions: Arc::clone(self), number, ended: false })
    }

    fn take_number(&self) -> Option<u32> {
        let mut numbers = self.numbers.lock();
        if numbers.free.is_empty() {
            let oldest = self.oldest_epoch();
            while let Some((_, number)) = numbers.resting.pop_front_if(|(epoch, _)| *epoch < oldest) {
                numbers.free.push(number);
            }
        }
        if numbers.free.is_empty() && numbers.chunks < CHUNKS_MAX {
            let slot = |_| WriteSlot { state: AtomicU64::new(ABORTED), marks: AtomicU64::new(0) };
            // Chunks are made under the lock, so nobody was first.
            let _ = self.writes[numbers.chunks].set((0..CHUNK_WRITES).map(slot).collect());
            let first = (numbers.chunks * CHUNK_WRITES) as u32;
            numbers.free.extend((first..first + CHUNK_WRITES as u32).rev());
            numbers.chunks += 1;
        }
        numbers.free.pop()
    }

    fn slot(&self, number: u32) -> &WriteSlot {
        let chunk = self.writes[number as usize / CHUNK_WRITES].get().expect("a number that was given");
        &chunk[number as usize % CHUNK_WRITES]
    }

    /// Pins what is committed: as long as the result lives, it can be read.
    pub fn pin(self: &Arc<Self>) -> Pin {
        self.pin_for(None)
    }

    fn pin_for(self: &Arc<Self>, own: Option<u32>) -> Pin {
        let place = loop {
            match self.try_place(None) {
                Some(place) => break place,
                None => std::thread::yield_now(),
            }
        };
        // Either an owner that reclaims sees this place taken, or what it unlinked before is not seen from here on.
        fence(Ordering::SeqCst);
        let version = self.committed();
        self.pins[place].version.store(version, Ordering::Release);
        Pin { versions: Arc::clone(self), place, version, own }
    }

    /// Takes a place, in an epoch that is pinned already or in the one that there is; `None` where all are taken.
    fn try_place(&self, pinned: Option<u64>) -> Option<usize> {
        static THREADS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        thread_local!(static START: usize = THREADS.fetch_add(1, Ordering::Relaxed));
        let start = START.with(|start| *start);
        for step in 0..PINS_MAX {
            let place = (start + step) % PINS_MAX;
            let cell = &self.pins[place].epoch;
            if cell.load(Ordering::Relaxed) != NOBODY {
                continue;
            }
            // Who looks for readers must look as far as here.
            if self.pins_end.load(Ordering::Relaxed) <= place as u64 {
                self.pins_end.fetch_max(place as u64 + 1, Ordering::SeqCst);
            }
            let epoch = pinned.unwrap_or_else(|| self.epoch.load(Ordering::Relaxed));
            if cell.compare_exchange(NOBODY, epoch, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return Some(place);
            }
        }
        None
    }

    fn places(&self) -> &[PinPlace] {
        &self.pins[..self.pins_end.load(Ordering::SeqCst) as usize]
    }

    /// Every reader sees everything that was committed up to this version.
    pub fn oldest_needed(&self) -> u64 {
        let newest = self.committed();
        fence(Ordering::SeqCst);
        let taken = self.places().iter().filter(|place| place.epoch.load(Ordering::Acquire) != NOBODY);
        taken.map(|place| place.version.load(Ordering::Acquire)).fold(newest, u64::min)
    }

    /// The epoch of whatever is unlinked now.
    pub(crate) fn epoch(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.epoch.load(Ordering::Relaxed)
    }

    /// Begins a new epoch, and says which is the oldest that a reader is in: nobody walks through what was unlinked in
    /// an earlier one.
    pub(crate) fn oldest_epoch(&self) -> u64 {
        let newest = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        fence(Ordering::SeqCst);
        let epochs = self.places().iter().map(|place| place.epoch.load(Ordering::Acquire));
        epochs.filter(|epoch| *epoch != NOBODY).fold(newest, u64::min)
    }

    pub(crate) fn state(&self, number: u32) -> WriteState {
        match self.slot(number).state.load(Ordering::Acquire) {
            RUNNING => WriteState::Running,
            ABORTED => WriteState::Aborted,
            version => WriteState::Committed(version),
        }
    }

    /// Counts marks that an owner made for a statement.
    pub(crate) fn marked(&self, number: u32, marks: u64) {
        self.slot(number).marks.fetch_add(marks, Ordering::Relaxed);
    }

    /// Counts marks that are no longer there; after the last one the statement's number rests until no reader is left
    /// that may still read one.
    pub(crate) fn resolved(&self, number: u32, marks: u64) {
        if marks > 0 && self.slot(number).marks.fetch_sub(marks, Ordering::AcqRel) == marks {
            let epoch = self.epoch();
            self.numbers.lock().resting.push_back((epoch, number));
        }
    }

    /// How many statements run or have marks left.
    pub fn open_writes(&self) -> usize {
        let numbers = self.numbers.lock();
        numbers.chunks * CHUNK_WRITES - numbers.free.len() - numbers.resting.len()
    }
}

/// A writing statement. What it changed becomes visible at once by [`commit`](Write::commit); dropped without, it is
/// as if nothing had been changed, as soon as each owner has been told ([`crate::tree::Owner::collect`]).
#[derive(Debug)]
pub struct Write {
    versions: Arc<Versions>,
    number: u32,
    ended: bool,
}

impl Write {
    pub(crate) fn mark(&self) -> Mark {
        Mark::pending(self.number)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// A reader that sees what is committed and what this statement has changed.
    pub fn pin(&self) -> Pin {
        self.versions.pin_for(Some(self.number))
    }

    /// Makes everything that it changed visible; gives the version.
    pub fn commit(self) -> u64 {
        self.commit_with(|_| ())
    }

    /// As [`commit`](Self::commit), and what `mark` marks with the version, which nobody reads before it has returned:
    /// for what has versions and is in no tree. Others that commit wait for it; it may not panic.
    pub(crate) fn commit_with(mut self, mark: impl FnOnce(u64)) -> u64 {
        let version = {
            let _one_at_a_time = self.versions.commits.lock();
            let version = self.versions.committed.load(Ordering::Relaxed) + 1;
            mark(version);
            self.versions.slot(self.number).state.store(version, Ordering::Release);
            self.versions.committed.store(version, Ordering::Release);
            version
        };
        self.ended = true;
        version
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        if !self.ended {
            self.versions.slot(self.number).state.store(ABORTED, Ordering::Release);
        }
        self.versions.resolved(self.number, 1);
    }
}

/// What a reader sees; see [`Versions::pin`].
#[derive(Debug)]
pub struct Pin {
    versions: Arc<Versions>,
    place: usize,
    version: u64,
    own: Option<u32>,
}

impl Pin {
    /// Everything up to this version is seen.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Two pins of which this is the same see the same.
    pub(crate) fn seen(&self) -> (u64, Option<u32>) {
        (self.version, self.own)
    }

    /// Another pin that sees the same, to be read by while this one is there; `None` where all places are taken. It
    /// does not wait: of those that would, each has a place that another waits for.
    pub(crate) fn try_again(&self) -> Option<Pin> {
        let epoch = self.versions.pins[self.place].epoch.load(Ordering::Relaxed);
        let place = self.versions.try_place(Some(epoch))?;
        self.versions.pins[place].version.store(self.version, Ordering::Release);
        Some(Pin { versions: Arc::clone(&self.versions), place, version: self.version, own: self.own })
    }

    /// Whether a change with this mark is seen.
    pub(crate) fn sees(&self, mark: Mark) -> bool {
        let Some(number) = mark.writer() else { return mark.0 <= self.version };
        let is_committed =
            || matches!(self.versions.state(number), WriteState::Committed(version) if version <= self.version);
        self.own == Some(number) || is_committed()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let place = &self.versions.pins[self.place];
        place.version.store(0, Ordering::Relaxed);
        place.epoch.store(NOBODY, Ordering::Release);
    }
}
