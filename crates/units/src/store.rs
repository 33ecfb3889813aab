//! A store: keyed objects, each divided over the units by ranges of keys.
//!
//! Look-ups read the newest committed state where they are called, without a latch, or go to the units that own their
//! keys as commands ([`Route`]). Writes are statements: a batch goes to the units that own its keys, and becomes
//! visible, whole, when the last of them has executed its part. Until then it holds all its keys, those too that it
//! leaves as they are, so that statements do what they would do one by one. A caller that finds a unit idle executes
//! its part itself; otherwise it is sent, and whoever holds the token executes it.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use numa::{Allocator, Budget, MemoryError, NodeId, Policy};
use parking_lot::{Mutex, RwLock};
use sched::Scheduler;

use crate::arena::Arena;
use crate::balancer::SAMPLES_PER_UNIT;
use crate::bell::Bell;
use crate::monitor::Monitor;
use crate::read::is_in_callback;
use crate::request::{Failure, ObjectId, Request, WriteKind};
use crate::routing::published::{Published, Replica};
use crate::routing::table::{RangeTable, Split};
use crate::tree::{Owner, Tree};
use crate::unit::{BUFFER_WORDS, Partition, Requests, Sent, Unit, UnitToken};
use crate::versions::{Pin, Versions, Write};

mod balancing;
mod by_commands;
mod by_itself;
mod join;
mod sender;
mod window;

pub use balancing::{BalanceError, Cycle, Moved, PartitionCounts, RoutedRange, Routing};
use balancing::{Balancing, Cycles};
use by_commands::ChosenRoute;
pub use by_commands::Route;
pub use by_itself::Launch;
use by_itself::{Chosen, Launcher};
pub use join::JoinError;
pub use sender::{ReadError, SendError, Sender, Serve};
use sender::{Senders, Server};

/// Where a unit is and what it may use.
#[derive(Clone, Debug)]
pub struct UnitPlace {
    /// Its node; nothing is pinned by it. Units of one node have one arena per object, from the first one's allocator,
    /// and hand subtrees to each other by linking them.
    pub node: Option<NodeId>,
    /// Where its partitions and buffers come from.
    pub allocator: Allocator,
}

impl UnitPlace {
    /// A place for a unit at each slot of a scheduler: its memory on its slot's node, in one budget.
    pub fn of_slots(scheduler: &Scheduler, budget: &Arc<Budget>) -> Vec<UnitPlace> {
        let layout = scheduler.layout();
        let nodes = layout.slots().iter().map(|slot| layout.groups()[slot.group.0 as usize].node);
        let place =
            |node| UnitPlace { node: Some(node), allocator: Allocator::new(Policy::Node(node), Arc::clone(budget)) };
        nodes.map(place).collect()
    }
}

/// Why a batch was not written; nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A key that was to be inserted is there.
    #[error("the key {key} is there already; update it, or insert another")]
    Duplicate {
        /// The key.
        key: u64,
    },
    /// A key that other statements went on changing.
    #[error("a key is being changed by another statement that does not end; try again later")]
    Busy,
    /// More statements wrote than there are numbers for while one reader stayed.
    #[error("a reader has been kept while 67 million statements wrote; end it, and write again")]
    TooManyWrites,
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A fault of ours.
    #[error("a command failed: {0}")]
    Panicked(String),
}

/// See the module.
#[derive(Debug)]
pub struct Store {
    versions: Arc<Versions>,
    units: Vec<Unit>,
    places: Vec<UnitPlace>,
    objects: AtomicU32,
    /// Numbers of objects that are gone.
    free_objects: Mutex<Vec<ObjectId>>,
    living: Mutex<Vec<Weak<Object>>>,
    requests: RequestTable,
    balancer: Chosen,
    /// Where cycles run that begin by themselves.
    launcher: Launcher,
    cycles: Mutex<Cycles>,
    /// Where units are served that senders do not serve themselves.
    server: Server,
    senders: Senders,
    route: ChosenRoute,
    /// Nodes that units are on.
    nodes: usize,
}

/// Requests on their way, by number.
#[derive(Debug)]
struct RequestTable {
    slots: RwLock<Vec<Option<Sent>>>,
    free: Mutex<Vec<u32>>,
}

/// What a unit did so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitCounts {
    /// Its node.
    pub node: Option<NodeId>,
    /// Commands that it executed.
    pub commands: u64,
    /// Keys of those.
    pub keys: u64,
}

/// A keyed object: an ordered map of 64-bit keys to 64-bit values.
#[derive(Debug)]
pub struct Keyed {
    store: Arc<Store>,
    object: Arc<Object>,
}

/// A statement that writes one or several objects: all of it becomes visible at once by [`commit`](Statement::commit),
/// or, dropped before or after a part of it failed, nothing.
#[derive(Debug)]
pub struct Statement {
    store: Arc<Store>,
    /// `None` once a part has failed.
    write: Option<Write>,
    /// The objects that it has written.
    objects: Vec<ObjectId>,
}

/// What callers and the balancer share of an object.
#[derive(Debug)]
struct Object {
    id: ObjectId,
    /// What users call it, part by part.
    name: Arc<[String]>,
    routing: Published,
    /// The tree of each unit.
    trees: Vec<Arc<Tree>>,
    monitors: Vec<Arc<Monitor>>,
    /// What they draw, all together.
    bell: Arc<Bell>,
    /// Held during a cycle.
    balancing: Mutex<Balancing>,
}

/// Places for ranges beyond those that each unit has: in a cycle, and after cycles that failed.
const RANGES_PER_UNIT: usize = 4;
const RANGES_LEAST: usize = 16;

/// How long a statement tries again where another has changed its keys and does not end.
const BUSY_TRIES: u32 = 200;

impl Store {
    /// A store with a unit at each place, at least one.
    ///
    /// # Errors
    /// No memory for the units' buffers.
    pub fn new(places: Vec<UnitPlace>) -> Result<Arc<Store>, MemoryError> {
        Store::with_buffers(places, BUFFER_WORDS)
    }

    /// As [`new`](Self::new), with incoming buffers of so many words.
    pub(crate) fn with_buffers(places: Vec<UnitPlace>, words: usize) -> Result<Arc<Store>, MemoryError> {
        assert!(!places.is_empty(), "a store has a unit");
        let units = places.iter().map(|place| Unit::new(place.node, &place.allocator, words));
        let units = units.collect::<Result<Vec<Unit>, _>>()?;
        #[cfg(test)]
        let units = tests::with_journal(units);
        let nodes = places.iter().map(|place| place.node).collect::<BTreeSet<Option<NodeId>>>().len();
        let requests = RequestTable { slots: RwLock::new(Vec::new()), free: Mutex::new(Vec::new()) };
        Ok(Arc::new(Store {
            versions: Versions::new(),
            units,
            places,
            objects: AtomicU32::new(0),
            free_objects: Mutex::default(),
            living: Mutex::default(),
            requests,
            balancer: Chosen::default(),
            launcher: Launcher::default(),
            cycles: Mutex::default(),
            server: Server::default(),
            senders: Senders::default(),
            route: ChosenRoute::default(),
            nodes,
        }))
    }

    /// An empty object whose keys are divided into equal ranges of `0 ..= last_key`; greater keys belong to the last.
    pub fn create(self: &Arc<Self>, last_key: u64, prefix_bits: u32) -> Keyed {
        self.create_named(Arc::default(), last_key, prefix_bits)
    }

    /// As [`create`](Self::create), an object with a name of several parts, for who looks at cycles.
    pub fn create_named(self: &Arc<Self>, name: Arc<[String]>, last_key: u64, prefix_bits: u32) -> Keyed {
        let count = self.units.len() as u64;
        let firsts = (0..count).map(|unit| (u128::from(last_key) * u128::from(unit) / u128::from(count)) as u64);
        let mut firsts: Vec<u64> = firsts.collect();
        firsts.dedup();
        let table = RangeTable::new(firsts).expect("ranges ascend from 0");
        self.create_divided(name, &table, table.ranges(), prefix_bits)
    }

    /// An object whose keys are divided as `table` says over the first `units` units.
    fn create_divided(
        self: &Arc<Self>,
        name: Arc<[String]>,
        table: &RangeTable,
        units: usize,
        prefix_bits: u32,
    ) -> Keyed {
        let free = self.free_objects.lock().pop();
        let id = free.unwrap_or_else(|| ObjectId(self.objects.fetch_add(1, Ordering::Relaxed)));
        // One unit alone has nobody to share with.
        let wanted = if units > 1 { SAMPLES_PER_UNIT * units as u64 } else { u64::MAX };
        let bell = Arc::new(Bell::new(wanted));
        let mut trees = Vec::new();
        let mut monitors = Vec::new();
        let mut arenas: Vec<(Option<NodeId>, Arc<Arena>)> = Vec::new();
        for (unit, place) in self.places.iter().enumerate().take(units) {
            let known = arenas.iter().find(|(node, _)| *node == place.node).map(|(_, arena)| Arc::clone(arena));
            let arena = known.unwrap_or_else(|| {
                let arena = Arc::new(Arena::new(place.allocator.clone()));
                arenas.push((place.node, Arc::clone(&arena)));
                arena
            });
            let owner = Owner::new(arena, Arc::clone(&self.versions), prefix_bits);
            let monitor = Arc::new(Monitor::new(Arc::clone(&bell)));
            trees.push(Arc::clone(owner.tree()));
            monitors.push(Arc::clone(&monitor));
            let mut state = self.token(unit);
            let partitions = &mut state.partitions;
            partitions.resize_with(partitions.len().max(id.0 as usize + 1), || None);
            partitions[id.0 as usize] = Some(Partition { owner, monitor, lost_at: 0 });
        }
        let places = RANGES_LEAST + RANGES_PER_UNIT * units + table.ranges();
        let routing = Published::new(table, places, self.replicas(places));
        let balancing = Mutex::new(Balancing { table: table.clone(), is_dropped: false });
        let object = Arc::new(Object { id, name, routing, trees, monitors, bell, balancing });
        let mut living = self.living.lock();
        if living.len() == living.capacity() {
            living.retain(|object| object.strong_count() > 0);
        }
        living.push(Arc::downgrade(&object));
        drop(living);
        Keyed { store: Arc::clone(self), object }
    }

    /// Memory for a routing table on each node that has units. Where a node has none left, its readers read the copy
    /// that is nearest. On one node there is one copy, on the heap.
    fn replicas(&self, places: usize) -> Vec<Replica> {
        let mut nodes: Vec<&UnitPlace> = Vec::new();
        for place in &self.places {
            if nodes.iter().all(|known| known.node != place.node) {
                nodes.push(place);
            }
        }
        if nodes.len() == 1 {
            return vec![Replica::on_heap(None, places)];
        }
        let made = nodes.iter().filter_map(|place| Replica::of(place.node, places, &place.allocator).ok());
        let made: Vec<Replica> = made.collect();
        if made.is_empty() { vec![Replica::on_heap(None, places)] } else { made }
    }

    /// The token of a unit, as soon as it is free; for what is rare.
    fn token(&self, unit: usize) -> UnitToken<'_> {
        self.units[unit].token(&self.requests)
    }

    /// Begins a statement.
    ///
    /// # Errors
    /// [`WriteError::TooManyWrites`].
    pub fn begin(self: &Arc<Self>) -> Result<Statement, WriteError> {
        // Whoever did would wait for the unit that its own thread has.
        assert!(!is_in_callback(), "a callback of a command may not write; have its sender do so");
        let write = self.versions.begin().ok_or(WriteError::TooManyWrites)?;
        Ok(Statement { store: Arc::clone(self), write: Some(write), objects: Vec::new() })
    }

    /// What is committed, to read.
    pub fn pin(&self) -> Pin {
        self.versions.pin()
    }

    /// The newest version that is committed: what a [`pin`](Self::pin) would see.
    pub fn committed(&self) -> u64 {
        self.versions.committed()
    }

    /// How many units it has.
    pub fn units(&self) -> usize {
        self.units.len()
    }

    /// What each unit did so far.
    pub fn counts(&self) -> Vec<UnitCounts> {
        let count = |unit: &Unit| UnitCounts {
            node: unit.node,
            commands: unit.commands.load(Ordering::Relaxed),
            keys: unit.keys.load(Ordering::Relaxed),
        };
        self.units.iter().map(count).collect()
    }

    /// Settles what ended statements left, in every unit, and gives back outgoing buffers; for idle times.
    pub fn settle(&self) {
        self.drop_free_buffers();
        for unit in 0..self.units.len() {
            let mut state = self.token(unit);
            state.execute_inbox();
            for partition in state.partitions.iter_mut().flatten() {
                partition.owner.collect();
            }
        }
    }
}

impl RequestTable {
    fn enter(&self, sent: Sent) -> u32 {
        let mut slots = self.slots.write();
        let number = self.free.lock().pop().unwrap_or(slots.len() as u32);
        if number as usize == slots.len() {
            slots.push(None);
        }
        slots[number as usize] = Some(sent);
        number
    }

    fn leave(&self, number: u32) {
        self.slots.write()[number as usize] = None;
        self.free.lock().push(number);
    }
}

impl Requests for RequestTable {
    fn sent(&self, number: u32) -> Sent {
        let sent = self.slots.read()[number as usize].clone();
        sent.expect("a request stays until its last command was executed")
    }
}

impl Keyed {
    /// The store that it is in.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Pairs in it, those of statements that have not committed included.
    pub fn len(&self) -> u64 {
        self.object.routing.read(|_| self.object.trees.iter().map(|tree| tree.len()).sum()).0
    }

    /// Whether it has no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the blocks that its partitions use.
    pub fn used_bytes(&self) -> u64 {
        let used = |unit: usize| match self.store.token(unit).partitions.get(self.object.id.0 as usize) {
            Some(Some(partition)) => partition.owner.used_bytes(),
            _ => 0,
        };
        (0..self.store.units.len()).map(used).sum()
    }

    /// The values of keys, as `pin` sees them: `found` is told each key's place in `keys`, in no certain order.
    pub fn lookup(&self, keys: &[u64], pin: &Pin, found: impl FnMut(usize, Option<u64>)) {
        self.look_up(keys, pin, found);
        self.pass_by();
    }

    fn look_up(&self, keys: &[u64], pin: &Pin, mut found: impl FnMut(usize, Option<u64>)) {
        if self.looks_up_by_commands(keys.len()) && self.look_up_by_commands(keys, pin, &mut found) {
            return;
        }
        let Object { routing, trees, monitors, .. } = &*self.object;
        if let [key] = keys {
            // Alone, it needs no splitting.
            let ((owner, root), _) = routing.read(|view| {
                let owner = view.owner_of(*key);
                (owner, trees[owner].root())
            });
            let _watch = monitors[owner].watch(keys);
            return found(0, trees[owner].get_from(root, *key, pin));
        }
        if let [tree] = &trees[..] {
            let _watch = monitors[0].watch(keys);
            return tree.get_many(keys, pin, found);
        }
        let mut split = Split::default();
        let mut roots = Vec::with_capacity(trees.len());
        routing.read(|view| {
            view.split(keys, trees.len(), &mut split);
            roots.clear();
            roots.extend(trees.iter().map(|tree| tree.root()));
        });
        let mut own = Vec::new();
        for (owner, tree) in trees.iter().enumerate() {
            let places = split.of(owner);
            own.clear();
            own.extend(places.iter().map(|place| keys[*place]));
            let _watch = monitors[owner].watch(&own);
            tree.get_many_from(roots[owner], &own, pin, |place, value| found(places[place], value));
        }
    }

    /// The pairs of `first ..= last` that `pin` sees, in the order of keys, until `each` has enough (`false`).
    pub fn range(&self, first: u64, last: u64, pin: &Pin, each: impl FnMut(u64, u64) -> bool) {
        if first <= last {
            self.read_range(first, last, pin, each);
            self.pass_by();
        }
    }

    fn read_range(&self, first: u64, last: u64, pin: &Pin, mut each: impl FnMut(u64, u64) -> bool) {
        if self.scans_by_commands() && self.scan_by_commands((first, last), pin, &mut each) {
            return;
        }
        self.range_directly((first, last), pin, &mut each);
    }

    /// The pairs of a range, which the caller reads itself.
    fn range_directly(&self, (first, last): (u64, u64), pin: &Pin, each: &mut impl FnMut(u64, u64) -> bool) {
        let Object { routing, trees, monitors, .. } = &*self.object;
        let mut parts = Vec::new();
        let mut roots = Vec::new();
        routing.read(|view| {
            view.parts(first, last, &mut parts);
            roots.clear();
            roots.extend(parts.iter().map(|part| trees[part.2].root()));
        });
        let mut goes_on = true;
        let mut buffer = Vec::new();
        for ((first, last, owner), root) in parts.into_iter().zip(roots) {
            let _watch = monitors[owner].watch(&[first]);
            trees[owner].range_in(root, first, last, pin, &mut buffer, |key, value| {
                goes_on = each(key, value);
                goes_on
            });
            if !goes_on {
                return;
            }
        }
    }

    /// One statement: does the same to every pair of the batch (a delete's values are not looked at), whole or not at
    /// all. Gives how many keys were changed.
    ///
    /// # Errors
    /// [`WriteError`]; nothing was changed then.
    pub fn write(&self, kind: WriteKind, pairs: &[(u64, u64)]) -> Result<u64, WriteError> {
        let mut tries = 0;
        loop {
            let mut statement = self.store.begin()?;
            match statement.write(self, kind, pairs) {
                Ok(changed) => {
                    statement.commit();
                    return Ok(changed);
                }
                // Nothing of this statement is there while it waits, so two of them do not wait for each other.
                Err(WriteError::Busy) if tries < BUSY_TRIES => {
                    drop(statement);
                    tries += 1;
                    std::thread::sleep(Duration::from_micros(u64::from(tries * 10)));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Does the same to every pair of the batch for a statement that goes on afterwards.
    fn write_for(&self, write: Write, kind: WriteKind, pairs: &[(u64, u64)]) -> Result<(Write, u64), Failure> {
        assert!(!is_in_callback(), "a callback of a command may not write; have its sender do so");
        let request = Request::new(kind, pairs.len(), write);
        let mut own = Own::default();
        #[cfg(test)]
        let id = tests::begun(self, &request, pairs);
        let mut pairs = Cow::Borrowed(pairs);
        loop {
            self.dispatch(&pairs, &request, &mut own);
            // What was sent is executed here, or by who has a unit's token.
            for unit in &own.sent {
                self.store.units[*unit].run(&self.store.requests);
            }
            request.wait();
            // Commands for what has moved came back, and go where it is.
            pairs = Cow::Owned(request.take_moved());
            if pairs.is_empty() {
                break;
            }
        }
        if let Some(number) = own.number {
            self.store.requests.leave(number);
        }
        // Who executed its last command may have it in hand for a moment more.
        while Arc::strong_count(&request) > 1 {
            std::thread::yield_now();
        }
        let result = request.end();
        #[cfg(test)]
        tests::ended(self, id, result.is_ok());
        self.pass_by();
        result
    }

    /// Gives each unit its part of a batch.
    fn dispatch(&self, pairs: &[(u64, u64)], request: &Arc<Request>, own: &mut Own) {
        own.sent.clear();
        let units = self.object.trees.len();
        if units == 1 {
            return self.execute_or_send(0, pairs, request, own);
        }
        if let [(key, _)] = pairs {
            // Alone, it needs no splitting.
            let (owner, table) = self.object.routing.read(|view| view.owner_of(*key));
            request.set_table(table);
            return self.execute_or_send(owner, pairs, request, own);
        }
        let keys: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
        let mut split = Split::default();
        let ((), table) = self.object.routing.read(|view| view.split(&keys, units, &mut split));
        request.set_table(table);
        let mut part = Vec::new();
        for unit in self.store.turns(units) {
            part.clear();
            part.extend(split.of(unit).iter().map(|place| pairs[*place]));
            self.execute_or_send(unit, &part, request, own);
        }
    }

    /// Executes a unit's part here where the unit is idle, else sends it.
    fn execute_or_send(&self, unit: usize, pairs: &[(u64, u64)], request: &Arc<Request>, own: &mut Own) {
        if pairs.is_empty() {
            return;
        }
        let number = unit;
        let unit = &self.store.units[number];
        if let Some(mut state) = unit.try_token(&self.store.requests) {
            state.execute_inbox();
            unit.execute_pairs(&mut state, self.object.id, request, pairs.iter().copied());
            return;
        }
        let entered = *own.number.get_or_insert_with(|| self.store.requests.enter(Sent::Write(Arc::clone(request))));
        for pairs in pairs.chunks(unit.pairs_max()) {
            unit.send(self.object.id, entered, pairs, &self.store.requests);
        }
        own.sent.push(number);
        unit.run(&self.store.requests);
    }
}

/// What a statement uses while it hands out its parts.
#[derive(Debug, Default)]
struct Own {
    /// Its request's number, once a part was sent.
    number: Option<u32>,
    /// The units that parts were sent to.
    sent: Vec<usize>,
}

impl Store {
    /// Each statement begins at another unit, so that several do not meet at one.
    fn turns(&self, partitions: usize) -> impl Iterator<Item = usize> + use<> {
        static TURN: AtomicU64 = AtomicU64::new(0);
        let start = TURN.fetch_add(1, Ordering::Relaxed) as usize;
        (0..partitions).map(move |partition| (start + partition) % partitions)
    }

    fn settle_object(&self, object: ObjectId) {
        for unit in 0..self.units.len() {
            let mut state = self.token(unit);
            if let Some(Some(partition)) = state.partitions.get_mut(object.0 as usize) {
                partition.owner.collect();
            }
        }
    }
}

impl Statement {
    /// Does the same to every pair of the batch (a delete's values are not looked at). Gives how many keys were
    /// changed.
    ///
    /// # Errors
    /// [`WriteError`]; the whole statement can only be dropped then. [`WriteError::Busy`] at once: who meets a key that
    /// another statement is changing drops this one, and begins another.
    pub fn write(&mut self, keyed: &Keyed, kind: WriteKind, pairs: &[(u64, u64)]) -> Result<u64, WriteError> {
        assert!(Arc::ptr_eq(&self.store, &keyed.store), "a statement writes objects of its own store");
        let write = self.write.take().ok_or_else(|| WriteError::Panicked("its statement has failed before".into()))?;
        if !self.objects.contains(&keyed.object.id) {
            self.objects.push(keyed.object.id);
        }
        let (write, changed) = keyed.write_for(write, kind, pairs).map_err(|failure| match failure {
            Failure::Duplicate(key) => WriteError::Duplicate { key },
            Failure::Memory(error) => WriteError::Memory(error),
            Failure::Panicked(text) => WriteError::Panicked(text),
            Failure::Busy => WriteError::Busy,
        })?;
        self.write = Some(write);
        Ok(changed)
    }

    /// A reader that sees what is committed and what this statement has changed; `None` once a part has failed.
    pub fn pin(&self) -> Option<Pin> {
        self.write.as_ref().map(Write::pin)
    }

    /// Makes everything that it changed visible.
    ///
    /// # Panics
    /// A part of it has failed.
    pub fn commit(self) {
        self.commit_with(|_| ());
    }

    /// As [`commit`](Self::commit), together with what `mark` marks with the statement's version: a reader of that
    /// version, and no earlier one, finds both. Others that commit wait for `mark`, which may not panic.
    ///
    /// # Panics
    /// A part of it has failed.
    pub fn commit_with(mut self, mark: impl FnOnce(u64)) {
        self.write.take().expect("a statement of which nothing has failed").commit_with(mark);
        self.objects.clear();
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // Undone first, then told to the owners; those find out by themselves where this thread has one of them.
        self.write = None;
        if is_in_callback() {
            return;
        }
        for object in &self.objects {
            self.store.settle_object(*object);
        }
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        // After the cycle that may run.
        self.object.balancing.lock().is_dropped = true;
        for unit in 0..self.store.units.len() {
            let mut state = self.store.token(unit);
            // Commands are executed before those who sent them drop what they hold, so none is in an inbox.
            if let Some(mut partition) = state.partitions.get_mut(self.object.id.0 as usize).and_then(Option::take) {
                // Its statements have ended: none of their numbers may stay marked.
                partition.owner.collect();
            }
        }
        self.store.free_objects.lock().push(self.object.id);
    }
}

#[cfg(test)]
mod real_nodes;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod tests;
