//! A unit: partitions that one thread at a time works on, and the commands for them.
//!
//! A unit is a right, not a thread: whoever holds its token executes what lies in its inbox, as in section 3.1 of
//! Kissinger et al., ADMS 2014: take all commands, group those of one object and kind, execute, and settle what is left
//! of ended statements when there is nothing else to do.
//!
//! Invariant: commands in an inbox are executed by whoever finds the token free; who gives it back looks again
//! (`routing/served.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use numa::{Allocator, AtomicRegion, MemoryError, NodeId};

use crate::monitor::Monitor;
use crate::read::ReadRequest;
use crate::request::{Failure, ObjectId, Request, text_of};
use crate::routing::command;
use crate::routing::inbox::Buffers;
use crate::routing::served::{Executes, Served, Token};
use crate::tree::Owner;

mod reads;
mod scans;

use reads::Reads;

/// Words of one incoming buffer.
pub(crate) const BUFFER_WORDS: usize = 1 << 14;

/// No worker is on its way.
const NOBODY: u8 = 0;
/// A worker has been called that has not come yet.
const CALLED: u8 = 1;
/// The last call was refused or dropped.
const LOST: u8 = 2;

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
#[derive(Debug, Default)]
pub(crate) struct UnitState {
    /// By the object's number.
    pub(crate) partitions: Vec<Option<Partition>>,
    keys: Vec<u64>,
    values: Vec<u64>,
    reads: Reads,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) node: Option<NodeId>,
    served: Served<UnitBuffers, UnitState>,
    /// [`NOBODY`], [`CALLED`] or [`LOST`].
    call: AtomicU8,
    pub(crate) commands: AtomicU64,
    pub(crate) keys: AtomicU64,
    /// Its number, and what its store's tests see.
    #[cfg(test)]
    pub(crate) journal: (usize, Arc<crate::journal::Journal>),
}

/// Who sent a command.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Write(Arc<Request>),
    Read(Arc<ReadRequest>),
}

/// Finds who sent a command.
pub(crate) trait Requests {
    fn sent(&self, number: u32) -> Sent;
}

/// A unit and what its commands need.
#[derive(Clone, Copy)]
pub(crate) struct Executing<'a> {
    unit: &'a Unit,
    requests: &'a dyn Requests,
}

/// The token of a unit; see [`Token`].
pub(crate) type UnitToken<'a> = Token<'a, UnitBuffers, UnitState, Executing<'a>>;

impl Executes<UnitState> for Executing<'_> {
    fn execute(&self, state: &mut UnitState, words: &[AtomicU64]) {
        self.unit.execute_taken(state, words, self.requests);
    }
}

impl Unit {
    pub(crate) fn new(node: Option<NodeId>, allocator: &Allocator, words: usize) -> Result<Unit, MemoryError> {
        let buffer = || allocator.region(words * size_of::<u64>()).map(AtomicRegion::from);
        Ok(Unit {
            node,
            served: Served::new(UnitBuffers([buffer()?, buffer()?]), UnitState::default()),
            call: AtomicU8::new(NOBODY),
            commands: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            #[cfg(test)]
            journal: Default::default(),
        })
    }

    /// The most pairs that one command has.
    pub(crate) fn pairs_max(&self) -> usize {
        (self.words_max() - WRITE_HEAD_WORDS) / 2
    }

    /// The most words of one append.
    pub(crate) fn words_max(&self) -> usize {
        self.served.inbox().capacity()
    }

    fn executing<'a>(&'a self, requests: &'a dyn Requests) -> Executing<'a> {
        Executing { unit: self, requests }
    }

    /// Sends a command: an object, the number of a request, keys, and their values. [`run`](Self::run) follows.
    pub(crate) fn send(&self, object: ObjectId, request: u32, pairs: &[(u64, u64)], requests: &dyn Requests) {
        let write = |words: &[AtomicU64]| {
            words[0].store(u64::from(object.0) << 32 | pairs.len() as u64, Ordering::Relaxed);
            words[1].store(u64::from(request), Ordering::Relaxed);
            for (pair, words) in pairs.iter().zip(words[WRITE_HEAD_WORDS..].chunks_exact(2)) {
                words[0].store(pair.0, Ordering::Relaxed);
                words[1].store(pair.1, Ordering::Relaxed);
            }
        };
        self.send_words(WRITE_HEAD_WORDS + 2 * pairs.len(), write, requests);
    }

    /// Sends words of whole commands, and waits for room where there is none. [`run`](Self::run) follows, or somebody
    /// is called.
    pub(crate) fn send_words(&self, len: usize, write: impl Fn(&[AtomicU64]), requests: &dyn Requests) {
        self.served.send(len, write, self.executing(requests));
    }

    /// The token, if nobody has it.
    pub(crate) fn try_token<'a>(&'a self, requests: &'a dyn Requests) -> Option<UnitToken<'a>> {
        self.served.try_token(self.executing(requests))
    }

    /// The token, as soon as it is free; for what is rare.
    pub(crate) fn token<'a>(&'a self, requests: &'a dyn Requests) -> UnitToken<'a> {
        self.served.token(self.executing(requests))
    }

    /// Executes what lies in the inbox as long as the token is free and there is something. Whatever was sent before is
    /// executed then, or will be by who has the token.
    pub(crate) fn run(&self, requests: &dyn Requests) {
        self.served.run(self.executing(requests));
    }

    /// Whether a worker has to be called for what was sent: one that was, and has not come, finds it.
    pub(crate) fn is_to_be_called(&self) -> bool {
        self.call.swap(CALLED, Ordering::AcqRel) != CALLED
    }

    /// The worker that was called never comes; the next one is called anew.
    pub(crate) fn lose_call(&self) {
        self.call.swap(LOST, Ordering::AcqRel);
    }

    /// Whether nobody comes for what was sent, although a worker was called.
    pub(crate) fn has_lost_call(&self) -> bool {
        self.call.load(Ordering::Acquire) == LOST
    }

    /// The worker that was called has come.
    pub(crate) fn come(&self, requests: &dyn Requests) {
        self.call.swap(NOBODY, Ordering::AcqRel);
        self.run(requests);
    }

    /// Executes writes in their order, then reads: what those see is said by their pins.
    fn execute_taken(&self, state: &mut UnitState, words: &[AtomicU64], requests: &dyn Requests) {
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let mut at = 0;
        state.reads.begin();
        while at < words.len() {
            let object = ObjectId((word(at) >> 32) as u32);
            let count = word(at) as u32 as usize;
            if command::is_read(word(at + 1)) {
                state.reads.add(object, at);
                at += command::HEAD_WORDS + count;
                continue;
            }
            let Sent::Write(request) = requests.sent(word(at + 1) as u32) else {
                panic!("a write was sent by a write");
            };
            let first = at + WRITE_HEAD_WORDS;
            let pairs = (0..count).map(|pair| (word(first + 2 * pair), word(first + 2 * pair + 1)));
            self.execute_pairs(state, object, &request, pairs);
            at += WRITE_HEAD_WORDS + 2 * count;
        }
        self.execute_reads(state, words, requests);
    }

    /// As [`execute`](Self::execute), of keys with their values.
    pub(crate) fn execute_pairs(
        &self,
        state: &mut UnitState,
        object: ObjectId,
        request: &Request,
        pairs: impl Iterator<Item = (u64, u64)>,
    ) {
        let mut keys = std::mem::take(&mut state.keys);
        let mut values = std::mem::take(&mut state.values);
        keys.clear();
        values.clear();
        for (key, value) in pairs {
            keys.push(key);
            values.push(value);
        }
        self.execute(state, object, request, &keys, &values);
        state.keys = keys;
        state.values = values;
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
        self.served.inbox().is_empty()
    }

    /// Its incoming buffers, for the page map.
    #[cfg(test)]
    pub(crate) fn buffers(&self) -> &[AtomicRegion; 2] {
        &self.served.inbox().buffers().0
    }

    /// How many sleep until the inbox has room.
    #[cfg(test)]
    pub(crate) fn senders_asleep(&self) -> u64 {
        self.served.room().sleepers()
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

/// Words of a command that writes before its pairs: object and count, request.
const WRITE_HEAD_WORDS: usize = 2;
