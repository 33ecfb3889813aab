//! A unit: partitions that one thread at a time works on, and the commands for them.
//!
//! A unit is a right, not a thread: whoever holds its token executes what lies in its inbox, as in section 3.1 of
//! Kissinger et al., ADMS 2014: take all commands, group those of one object and kind, execute, and settle what is left
//! of ended statements when there is nothing else to do.
//!
//! Invariant: commands in an inbox are executed by whoever finds the token free; who gives it back looks again
//! (`routing/README.md`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use numa::{Allocator, AtomicRegion, MemoryError, NodeId};
use parking_lot::{Mutex, MutexGuard};

use crate::monitor::Monitor;
use crate::request::{Failure, ObjectId, Request};
use crate::routing::inbox::{Buffers, Full, Inbox, Taken, Taker};
use crate::tree::Owner;

/// Words of one incoming buffer.
const BUFFER_WORDS: usize = 1 << 14;

/// The incoming buffers of a unit, on its node.
#[derive(Debug)]
pub(crate) struct UnitBuffers(pub(crate) [AtomicRegion; 2]);

impl Buffers for UnitBuffers {
    fn words(&self, buffer: usize) -> &[AtomicU64] {
        self.0[buffer].words()
    }
}

/// What a unit owns of one object.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) owner: Owner,
    pub(crate) monitor: Arc<Monitor>,
    /// The number of the routing table with which a range left it last.
    pub(crate) lost_at: u64,
}

/// What the holder of a unit's token may touch.
#[derive(Debug)]
pub(crate) struct UnitState {
    taker: Taker,
    /// By the object's number.
    pub(crate) partitions: Vec<Option<Partition>>,
    keys: Vec<u64>,
    values: Vec<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) node: Option<NodeId>,
    inbox: Inbox<UnitBuffers>,
    token: Mutex<UnitState>,
    pub(crate) commands: AtomicU64,
    pub(crate) keys: AtomicU64,
    /// Its number, and what its store's tests see.
    #[cfg(test)]
    pub(crate) journal: (usize, Arc<crate::journal::Journal>),
}

/// Finds the request of a command.
pub(crate) trait Requests {
    fn request(&self, number: u32) -> Arc<Request>;
}

impl Unit {
    pub(crate) fn new(node: Option<NodeId>, allocator: &Allocator) -> Result<Unit, MemoryError> {
        let buffer = || allocator.region(BUFFER_WORDS * size_of::<u64>()).map(AtomicRegion::from);
        let (inbox, taker) = Inbox::new(UnitBuffers([buffer()?, buffer()?]));
        let state = UnitState { taker, partitions: Vec::new(), keys: Vec::new(), values: Vec::new() };
        Ok(Unit {
            node,
            inbox,
            token: Mutex::new(state),
            commands: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            #[cfg(test)]
            journal: Default::default(),
        })
    }

    /// The most keys that one command has.
    pub(crate) fn keys_max(&self) -> usize {
        (self.inbox.capacity() - HEAD_WORDS) / 2
    }

    /// Sends a command: an object, the number of a request, keys, and their values.
    pub(crate) fn send(&self, object: ObjectId, request: u32, pairs: &[(u64, u64)]) -> Result<(), Full> {
        self.inbox.append(HEAD_WORDS + 2 * pairs.len(), |words| {
            words[0].store(u64::from(object.0) << 32 | pairs.len() as u64, Ordering::Relaxed);
            words[1].store(u64::from(request), Ordering::Relaxed);
            for (pair, words) in pairs.iter().zip(words[HEAD_WORDS..].chunks_exact(2)) {
                words[0].store(pair.0, Ordering::Relaxed);
                words[1].store(pair.1, Ordering::Relaxed);
            }
        })
    }

    /// The token, if nobody has it.
    pub(crate) fn try_token(&self) -> Option<MutexGuard<'_, UnitState>> {
        self.token.try_lock()
    }

    /// The token, as soon as it is free; for what is rare.
    pub(crate) fn token(&self) -> MutexGuard<'_, UnitState> {
        self.token.lock()
    }

    /// Executes what lies in the inbox as long as the token is free and there is something.
    pub(crate) fn run(&self, requests: &dyn Requests) {
        loop {
            let Some(mut state) = self.try_token() else { return };
            let is_waiting = self.execute_inbox(&mut state, requests);
            drop(state);
            // Either a sender that found the token taken sees it free, or its words are seen here.
            fence(Ordering::SeqCst);
            if self.inbox.is_empty() && !is_waiting {
                return;
            }
            if is_waiting {
                std::thread::yield_now();
            }
        }
    }

    /// After the token was given back: executes what came while it was held.
    pub(crate) fn run_what_came(&self, requests: &dyn Requests) {
        if !self.inbox.is_empty() {
            self.run(requests);
        }
    }

    /// Executes what lies in the inbox, for the holder of the token; whether a sender is still writing.
    pub(crate) fn execute_inbox(&self, state: &mut UnitState, requests: &dyn Requests) -> bool {
        loop {
            match state.taker.take(&self.inbox) {
                Taken::Nothing => return false,
                Taken::NotYet => return true,
                Taken::Words(_) => self.execute_taken(state, requests),
            }
        }
    }

    fn execute_taken(&self, state: &mut UnitState, requests: &dyn Requests) {
        let words = state.taker.words(&self.inbox);
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let mut at = 0;
        while at < words.len() {
            let object = ObjectId((word(at) >> 32) as u32);
            let count = word(at) as u32 as usize;
            let request = requests.request(word(at + 1) as u32);
            let mut keys = std::mem::take(&mut state.keys);
            let mut values = std::mem::take(&mut state.values);
            keys.clear();
            values.clear();
            for pair in 0..count {
                keys.push(word(at + HEAD_WORDS + 2 * pair));
                values.push(word(at + HEAD_WORDS + 2 * pair + 1));
            }
            self.execute(state, object, &request, &keys, &values);
            state.keys = keys;
            state.values = values;
            at += HEAD_WORDS + 2 * count;
        }
    }

    /// Executes one command, for the holder of the token. A panic in it fails its statement. A command of a table
    /// before the one with which keys left is not executed: some of its keys may be another unit's.
    pub(crate) fn execute(
        &self,
        state: &mut UnitState,
        object: ObjectId,
        request: &Request,
        keys: &[u64],
        values: &[u64],
    ) {
        let mut changed = 0;
        let partition = state.partitions.get_mut(object.0 as usize).and_then(Option::as_mut);
        match partition {
            // An object that was dropped meanwhile has nothing to change.
            None => {}
            Some(_) if request.has_failed() => {}
            Some(partition) if request.table() < partition.lost_at && self.sends_back() => {
                return request.moved(keys, values);
            }
            Some(partition) => {
                #[cfg(test)]
                self.journal.1.record(|| crate::journal::Event::Executed {
                    unit: self.journal.0,
                    request: request.id,
                    pairs: keys.iter().copied().zip(values.iter().copied()).collect(),
                });
                let watch = partition.monitor.watch(keys);
                // Before, not after: what this statement changes cannot be settled until it has ended.
                partition.owner.collect_if_many();
                let run = std::panic::AssertUnwindSafe(|| {
                    let change = |place: usize| request.kind().change(values[place]);
                    let found =
                        |place: usize, before: Option<u64>| request.found(keys[place], before.is_some(), &mut changed);
                    partition.owner.change_many(keys, change, request.write(), found)
                });
                let result = std::panic::catch_unwind(run);
                drop(watch);
                match result {
                    Ok(Ok(())) => {}
                    Ok(Err((_, error))) => request.failed(error),
                    Err(panic) => request.fail(Failure::Panicked(text_of(&*panic))),
                }
            }
        }
        self.commands.fetch_add(1, Ordering::Relaxed);
        self.keys.fetch_add(keys.len() as u64, Ordering::Relaxed);
        request.done(keys.len(), changed);
    }
}

impl Unit {
    /// Whether nobody has sent anything that was not taken.
    #[cfg(test)]
    pub(crate) fn is_inbox_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Its incoming buffers, for the page map.
    #[cfg(test)]
    pub(crate) fn buffers(&self) -> &[AtomicRegion; 2] {
        &self.inbox.buffers().0
    }

    /// Whether it sends back what may not be its own: always, unless a test has planted a fault.
    fn sends_back(&self) -> bool {
        #[cfg(test)]
        if self.journal.1.executes_what_moved.load(Ordering::Relaxed) {
            return false;
        }
        true
    }
}

/// Words of a command before its keys: object and count, request.
const HEAD_WORDS: usize = 2;

pub(crate) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a command panicked".to_owned())
}
