//! Senders: threads that have keys looked up and ranges scanned by commands, where the keys are.
//!
//! A sender has outgoing buffers of its own while it sends, on its node; the store owns them all, and lends them. What
//! it puts there goes to a unit when the buffer is full, or as many commands wait as the sender wants, or when it waits
//! for answers. What the commands find is told to its callback.
//!
//! Who executes: a unit on the sender's node, the sender itself when it is idle; one on another node, a worker there,
//! who is called if nobody is on the way ([`Store::serve_on`]). A sender that waits executes what no worker has begun
//! in a fraction of a millisecond, so no two wait for each other, whatever the workers do.
//!
//! Invariants: a sender waits only while it has no token; what is sent once more since its range has moved is what came
//! back; all that was sent is answered before the buffers are lent to the next.
//!
//! # Limits
//! In a store of more than 2,730 units nobody sends. A sender takes one more of the places for readers.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.2.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use numa::{Budget, MemoryError, NodeId};
use parking_lot::Mutex;
use sched::{Affinity, Priority, Scheduler, SlotId, Statement};

use super::window::Window;
use super::{Keyed, Store};
use crate::read::{Callback, ReadRequest, is_in_callback};
use crate::routing::command::{HEAD_WORDS, Head, ReadKind, SCAN_WORDS};
use crate::routing::outgoing::{Outgoing, UNITS_MAX};
use crate::routing::table::Split;
use crate::unit::Sent;
use crate::versions::{PINS_MAX, Pin};

/// Senders at a time: this many for each unit, and some for threads beside workers.
const SENDERS_PER_UNIT: usize = 2;
const SENDERS_MORE: usize = 8;

/// How long a worker may take to come before the sender that waits does it: some wake-ups across processors.
const PATIENCE: Duration = Duration::from_micros(200);

/// Why there is no sender.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No memory for its buffers.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// As many send as there may be.
    #[error("{senders} senders have all the outgoing buffers that there are; end one, or read directly")]
    NoBuffers {
        /// How many.
        senders: usize,
    },
    /// A sender has a place among readers of its own.
    #[error("all {PINS_MAX} places for readers are taken; end one, or read directly")]
    NoPlace,
    /// More units than outgoing buffers can be divided for.
    #[error("outgoing buffers are for {UNITS_MAX} units at most, and this store has {units}; read directly")]
    TooManyUnits {
        /// How many.
        units: usize,
    },
    /// Its thread has a unit.
    #[error("a callback of a command cannot send commands; have its own sender send them")]
    InCallback,
}

/// Why reads were not all told of.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A callback has panicked, or a fault of ours.
    #[error("a command failed: {0}")]
    Panicked(String),
}

/// Has a unit, by its number, served where its worker is: runs what it is given there, and comes back before. False
/// where there are no workers any more; then it is not asked again, and senders serve all units.
pub type Serve = dyn Fn(usize, Box<dyn FnOnce() + Send>) -> bool + Send + Sync;

/// Where units are served.
#[derive(Default)]
pub(super) struct Server {
    serve: OnceLock<Box<Serve>>,
    has_gone: AtomicBool,
}

impl Server {
    /// Who serves, as long as there is somebody.
    fn serve(&self) -> Option<&Serve> {
        if self.has_gone.load(Ordering::Relaxed) { None } else { self.serve.get().map(|serve| &**serve) }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.serve().is_some() { "known" } else { "unknown" })
    }
}

/// A call of a worker for a unit, which it runs or, some day, drops.
struct Call {
    store: Weak<Store>,
    unit: usize,
    has_come: bool,
}

impl Call {
    fn run(mut self) {
        self.has_come = true;
        if let Some(store) = self.store.upgrade() {
            store.units[self.unit].come(&store.requests);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.has_come
            && let Some(store) = self.store.upgrade()
        {
            store.units[self.unit].lose_call();
        }
    }
}

/// What a sender works with.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) outgoing: Outgoing,
    /// Whether something was sent to a unit that may not be answered.
    is_sent_to: Vec<bool>,
    owners: Vec<usize>,
    parts: Vec<(u64, u64, usize)>,
    moved: Vec<u64>,
    /// For look-ups that wait for their values.
    pub(super) split: Split,
    pub(super) keys: Vec<u64>,
    pub(super) window: Arc<Window>,
}

/// The outgoing buffers of a store; all senders together have no more.
#[derive(Debug, Default)]
pub(super) struct Senders(Mutex<Lent>);

#[derive(Debug, Default)]
struct Lent {
    free: Vec<Buffers>,
    /// Free and lent.
    made: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Sender<'a> {
    keyed: &'a Keyed,
    /// `None` once they were given back.
    buffers: Option<Buffers>,
    request: Arc<ReadRequest>,
    number: u32,
    /// Commands that were sent, ever.
    sent: u64,
    /// Commands for one unit that are sent together.
    commands_max: usize,
    /// The node that it is on.
    here: Option<NodeId>,
    /// Whether workers serve units of its own node too.
    calls_all: bool,
}

impl Store {
    /// Has units served by a scheduler's workers from here on, each on its slot or near its node, when commands wait
    /// for a unit of another node than the sender's. The store does not keep the scheduler alive. What was told first
    /// stays.
    pub fn serve_on(&self, scheduler: &Arc<Scheduler>) {
        let affinities: Vec<Affinity> = (0..self.units.len()).map(|unit| self.affinity(unit, scheduler)).collect();
        let scheduler = Arc::downgrade(scheduler);
        self.serve_by(Box::new(move |unit, job| {
            let Some(scheduler) = scheduler.upgrade() else { return false };
            // As urgent as the oldest statement: somebody waits for it.
            let priority = Priority { user: Priority::USER_DEFAULT, statement_time: 0 };
            let statement = Statement::with_priority(priority, Budget::unlimited());
            statement.set_label("units: commands");
            statement.set_counted(false);
            scheduler.spawn(&statement, affinities[unit], job);
            true
        }));
    }

    /// Where a unit's work is done: by its slot's worker, where each slot has a unit, else near its node.
    pub(super) fn affinity(&self, unit: usize, scheduler: &Scheduler) -> Affinity {
        match self.units[unit].node {
            _ if scheduler.threads() == self.units.len() => Affinity::Slot(SlotId(unit as u32)),
            Some(node) => Affinity::near(node),
            None => Affinity::Anywhere,
        }
    }

    /// As [`serve_on`](Self::serve_on), wherever `serve` runs what it is given. What it drops or never runs is executed
    /// by the senders that wait.
    pub fn serve_by(&self, serve: Box<Serve>) {
        let _ = self.server.serve.set(serve);
    }

    /// Executes what lies in a unit's inbox if nobody does so: for a thread that has nothing else to do.
    pub fn serve(&self, unit: usize) {
        self.units[unit].run(&self.requests);
    }

    /// Whether somebody else than senders serves units.
    pub(super) fn is_served(&self) -> bool {
        self.server.serve().is_some()
    }

    /// Calls a worker for what lies in a unit's inbox; whether one comes, as far as is known.
    fn call_for(self: &Arc<Self>, unit: usize) -> bool {
        let Some(serve) = self.server.serve() else { return false };
        if self.units[unit].is_to_be_called() {
            let call = Call { store: Arc::downgrade(self), unit, has_come: false };
            if !serve(unit, Box::new(move || call.run())) {
                self.server.has_gone.store(true, Ordering::Relaxed);
                self.units[unit].lose_call();
            }
        }
        !self.units[unit].has_lost_call()
    }

    fn lend(&self, node: Option<NodeId>) -> Result<Buffers, SendError> {
        let units = self.units.len();
        if units > UNITS_MAX {
            return Err(SendError::TooManyUnits { units });
        }
        let most = SENDERS_PER_UNIT * units + SENDERS_MORE;
        let mut lent = self.senders.0.lock();
        let own = lent.free.iter().position(|buffers| buffers.outgoing.node() == node);
        if let Some(place) = own {
            return Ok(lent.free.swap_remove(place));
        }
        if lent.made == most {
            return lent.free.pop().ok_or(SendError::NoBuffers { senders: most });
        }
        lent.made += 1;
        drop(lent);
        let made = self.make_buffers(node);
        if made.is_err() {
            self.senders.0.lock().made -= 1;
        }
        Ok(made?)
    }

    fn make_buffers(&self, node: Option<NodeId>) -> Result<Buffers, MemoryError> {
        let place = self.places.iter().find(|place| place.node == node).unwrap_or(&self.places[0]);
        let units = self.units.len();
        Ok(Buffers {
            outgoing: Outgoing::new(units, node, &place.allocator)?,
            is_sent_to: vec![false; units],
            owners: Vec::new(),
            parts: Vec::new(),
            moved: Vec::new(),
            split: Split::default(),
            keys: Vec::new(),
            window: Arc::new(Window::new(&place.allocator)?),
        })
    }

    /// Outgoing buffers that there are.
    #[cfg(test)]
    pub(super) fn senders_made(&self) -> usize {
        self.senders.0.lock().made
    }

    /// Gives back the memory of outgoing buffers that nobody has.
    pub(super) fn drop_free_buffers(&self) {
        let mut lent = self.senders.0.lock();
        lent.made -= lent.free.len();
        lent.free.clear();
    }
}

impl Keyed {
    /// Somebody who reads this object by commands, which see what `pin` sees. As many commands for one unit are sent
    /// together as `commands` says, or fewer where the buffer is full.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn sender<'a>(
        &'a self,
        pin: &'a Pin,
        callback: Arc<dyn Callback>,
        commands: usize,
    ) -> Result<Sender<'a>, SendError> {
        self.sender_for(pin, commands, |_| callback)
    }

    pub(super) fn sender_for<'a>(
        &'a self,
        pin: &'a Pin,
        commands: usize,
        callback: impl FnOnce(&Buffers) -> Arc<dyn Callback>,
    ) -> Result<Sender<'a>, SendError> {
        if is_in_callback() {
            return Err(SendError::InCallback);
        }
        let here = numa::current_node();
        // Buffers are on the nodes that units are on; where those have no nodes, neither have they.
        let of_units = self.store.places.iter().map(|place| place.node);
        let node = of_units.clone().find(|node| *node == here).or_else(|| of_units.clone().next()).flatten();
        let pin = pin.try_again().ok_or(SendError::NoPlace)?;
        let buffers = self.store.lend(node)?;
        let request = Arc::new(ReadRequest::new(pin, callback(&buffers)));
        let number = self.store.requests.enter(Sent::Read(Arc::clone(&request)));
        Ok(Sender {
            keyed: self,
            buffers: Some(buffers),
            request,
            number,
            sent: 0,
            commands_max: commands.max(1),
            here,
            calls_all: false,
        })
    }
}

impl<'a> Sender<'a> {
    /// Has workers serve the units of its own node too, as a thread that only sends wants it.
    pub fn call_workers(&mut self) {
        self.calls_all = true;
    }

    /// As many look-ups of one key wait for one unit at most: what was asked for, or what the buffer holds.
    pub fn commands_max(&self) -> usize {
        let held = self.buffers.as_ref().map_or(0, |buffers| buffers.outgoing.commands_max());
        self.commands_max.min(held)
    }

    /// Looks keys up. Where neighbours in `keys` have one unit, they go to it together: keys that are sorted, or by
    /// unit, are few commands.
    pub fn look_up(&mut self, tag: u64, keys: &[u64]) {
        self.take_back();
        self.route_keys(ReadKind::LookUp, tag, keys);
    }

    /// Sends what [`look_up`](Self::look_up) does, and has nothing done with it: what routing alone costs.
    pub fn route_only(&mut self, tag: u64, keys: &[u64]) {
        self.take_back();
        self.route_keys(ReadKind::Nothing, tag, keys);
    }

    /// Scans `first ..= last`: of each unit's part at most `limit` pairs.
    pub fn scan(&mut self, tag: u64, first: u64, last: u64, limit: usize) {
        if first <= last {
            self.take_back();
            self.route_scan(tag, first, last, limit.max(1));
        }
    }

    /// Waits until all that was asked is answered.
    ///
    /// # Errors
    /// [`ReadError`]; what was not told of by then never will be.
    pub fn wait(&mut self) -> Result<(), ReadError> {
        loop {
            self.flush();
            self.wait_for_sent();
            self.take_back();
            if self.sent == self.request.answered() && self.is_all_sent() {
                break;
            }
        }
        self.request.failure().map_or(Ok(()), |text| Err(ReadError::Panicked(text)))
    }

    /// Sends all that waits in its buffers.
    pub fn flush(&mut self) {
        for unit in 0..self.buffers().outgoing.units() {
            self.flush_unit(unit);
        }
    }

    pub(super) fn buffers(&mut self) -> &mut Buffers {
        self.buffers.as_mut().expect("a sender has buffers until it is dropped")
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> u64 {
        self.request.id
    }

    fn is_all_sent(&mut self) -> bool {
        let outgoing = &self.buffers().outgoing;
        (0..outgoing.units()).all(|unit| outgoing.commands(unit) == 0)
    }

    /// Until what was sent is answered; what came back is answered too.
    fn wait_for_sent(&mut self) {
        let (store, request, sent) = (self.keyed.store(), Arc::clone(&self.request), self.sent);
        if request.answered() < sent {
            self.serve_sent(|sender, unit| !sender.is_coming_for(unit));
        }
        let has_called = (0..store.units.len()).any(|unit| self.is_coming_for(unit));
        if request.answered() < sent && has_called && !request.wait_for(PATIENCE, sent) {
            // No worker has come: it may be waiting too.
            self.serve_sent(|_, _| true);
        }
        // What is left is in the hands of who has a unit's token.
        request.wait(sent);
        self.buffers().is_sent_to.fill(false);
    }

    /// Whether others serve a unit.
    fn is_called_for(&self, unit: usize) -> bool {
        let store = self.keyed.store();
        store.is_served() && (self.calls_all || store.units[unit].node != self.here)
    }

    /// Whether a worker comes, as far as is known, for what was sent to a unit that others serve.
    pub(super) fn is_coming_for(&self, unit: usize) -> bool {
        self.is_called_for(unit) && !self.keyed.store.units[unit].has_lost_call()
    }

    fn serve_sent(&mut self, is_wanted: impl Fn(&Self, usize) -> bool) {
        for unit in 0..self.buffers().is_sent_to.len() {
            if self.buffers().is_sent_to[unit] && is_wanted(self, unit) {
                self.keyed.store.serve(unit);
            }
        }
    }

    /// Routes what came back anew.
    fn take_back(&mut self) {
        let mut moved = std::mem::take(&mut self.buffers().moved);
        while self.request.take_moved(&mut moved) {
            let mut at = 0;
            while at < moved.len() {
                let (head, len) = Head::of(std::array::from_fn(|word| moved[at + word]));
                let data = &moved[at + HEAD_WORDS..][..len];
                match (head.kind, data) {
                    (ReadKind::Scan, [first, last, limit]) => {
                        self.route_scan(head.tag, *first, *last, *limit as usize);
                    }
                    _ => self.route_keys(head.kind, head.tag, data),
                }
                at += HEAD_WORDS + len;
            }
        }
        self.buffers().moved = moved;
    }

    fn head(&self, kind: ReadKind, table: u64, tag: u64) -> Head {
        Head { kind, object: self.keyed.object.id, request: self.number, table, tag }
    }

    fn route_keys(&mut self, kind: ReadKind, tag: u64, keys: &[u64]) {
        let mut owners = std::mem::take(&mut self.buffers().owners);
        let ((), table) = self.keyed.object.routing.read(|view| {
            owners.clear();
            owners.extend(keys.iter().map(|key| view.owner_of(*key)));
        });
        let mut at = 0;
        for run in owners.chunk_by(|one, other| one == other) {
            // A command fits both an outgoing and an incoming buffer.
            let incoming = self.keyed.store.units[run[0]].words_max() - HEAD_WORDS;
            let most = self.buffers().outgoing.data_max().min(incoming);
            for keys in keys[at..at + run.len()].chunks(most) {
                let head = self.head(kind, table, tag.wrapping_add(at as u64));
                self.put(run[0], head, keys);
                at += keys.len();
            }
        }
        self.buffers().owners = owners;
    }

    fn put(&mut self, unit: usize, head: Head, data: &[u64]) {
        let words = head.words(data.len());
        if self.buffers().outgoing.put(unit, words, data).is_err() {
            self.flush_unit(unit);
            self.buffers().outgoing.put(unit, words, data).expect("a command fits an empty buffer");
        }
        self.flush_if_many(unit);
    }

    fn flush_if_many(&mut self, unit: usize) {
        if self.buffers().outgoing.commands(unit) >= self.commands_max {
            self.flush_unit(unit);
        }
    }

    fn route_scan(&mut self, tag: u64, first: u64, last: u64, limit: usize) {
        let mut parts = std::mem::take(&mut self.buffers().parts);
        let ((), table) = self.keyed.object.routing.read(|view| view.parts(first, last, &mut parts));
        let head = self.head(ReadKind::Scan, table, tag);
        if let [(first, last, unit)] = parts[..] {
            self.put(unit, head, &[first, last, limit as u64]);
        } else {
            let words = head.words(SCAN_WORDS);
            let place = self.buffers().outgoing.share(words, limit).unwrap_or_else(|_| {
                self.flush();
                self.buffers().outgoing.share(words, limit).expect("there is room when nobody refers to anything")
            });
            for (first, last, unit) in &parts {
                if self.buffers().outgoing.refer(*unit, place, (*first, *last)).is_err() {
                    self.flush_unit(*unit);
                    let outgoing = &mut self.buffers().outgoing;
                    outgoing.refer(*unit, place, (*first, *last)).expect("a reference fits an empty buffer");
                }
            }
            self.buffers().outgoing.shared();
            parts.iter().for_each(|part| self.flush_if_many(part.2));
        }
        self.buffers().parts = parts;
    }

    /// Sends what waits for a unit, and sees to it that somebody executes it.
    fn flush_unit(&mut self, unit: usize) {
        let store = &self.keyed.store;
        let (to, requests) = (&store.units[unit], &store.requests);
        let buffers = self.buffers.as_mut().expect("a sender has buffers until it is dropped");
        let commands = buffers.outgoing.take(unit, to.words_max(), |len, write| to.send_words(len, write, requests));
        if commands == 0 {
            return;
        }
        buffers.is_sent_to[unit] = true;
        self.sent += commands as u64;
        if !self.is_called_for(unit) || !store.call_for(unit) {
            store.serve(unit);
        }
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        // What was not sent never will be; what was sent needs the request until it is answered.
        self.buffers().outgoing.clear();
        self.wait_for_sent();
        let store = &self.keyed.store;
        store.requests.leave(self.number);
        // Who executed its last command may have it in hand for a moment more. It must not be the one that drops the
        // callback: it has a unit, which what the callback owns may need when it goes.
        while Arc::strong_count(&self.request) > 1 {
            std::thread::yield_now();
        }
        if let Some(buffers) = self.buffers.take() {
            store.senders.0.lock().free.push(buffers);
        }
        self.keyed.pass_by();
    }
}
