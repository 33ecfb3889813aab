//! What a thread group holds, and which of it goes next.
//!
//! Invariants: within one [`Queue`] items come out by priority, then in the order they went in; a [`GroupQueues`] gives
//! an item out once, and only through a door that its queue kind allows.
//!
//! # Limits
//! A push between two statements that are queued already moves the buckets of the more urgent ones.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 ("peeks in the two priority queues to get the element with the
//! highest priority").

use std::collections::VecDeque;

use super::{QueueKind, Reach};
use crate::affinity::Priority;

/// Emptied buckets kept for the next priority, so that a stream of small statements does not allocate.
const SPARE_BUCKETS_MAX: usize = 8;
/// An emptied bucket of more room than this is given back instead: a burst does not hold memory for ever.
const SPARE_ITEMS_MAX: usize = 4096;

/// What is queued at one priority, in the order it came, with submission numbers.
#[derive(Debug)]
struct Bucket<T> {
    priority: Priority,
    items: VecDeque<(u64, T)>,
}

/// A priority queue that is first in, first out within one priority.
///
/// A bucket per distinct priority, the most urgent last: tasks of one statement share theirs, so a push or pop costs
/// next to nothing for the most urgent statement, and the logarithm of the number of statements for others.
#[derive(Debug)]
pub struct Queue<T> {
    buckets: Vec<Bucket<T>>,
    spare: Vec<VecDeque<(u64, T)>>,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { buckets: Vec::new(), spare: Vec::new(), len: 0 }
    }
}

impl<T> Queue<T> {
    /// Adds `item` behind its equals. `sequence` is its submission number, compared only between queues.
    pub fn push(&mut self, priority: Priority, sequence: u64, item: T) {
        self.len += 1;
        if let Some(last) = self.buckets.last_mut().filter(|last| last.priority == priority) {
            last.items.push_back((sequence, item));
            return;
        }
        // Descending, so that the most urgent is last.
        match self.buckets.binary_search_by(|bucket| priority.cmp(&bucket.priority)) {
            Ok(found) => self.buckets[found].items.push_back((sequence, item)),
            Err(place) => {
                let mut items = self.spare.pop().unwrap_or_default();
                items.push_back((sequence, item));
                self.buckets.insert(place, Bucket { priority, items });
            }
        }
    }

    /// Priority and submission number of the item that [`Queue::pop`] would give.
    pub fn peek(&self) -> Option<(Priority, u64)> {
        let bucket = self.buckets.last()?;
        bucket.items.front().map(|(sequence, _)| (bucket.priority, *sequence))
    }

    /// How many items have the priority of the first.
    fn len_first(&self) -> usize {
        self.buckets.last().map_or(0, |bucket| bucket.items.len())
    }

    /// Takes the first item.
    pub fn pop(&mut self) -> Option<T> {
        let bucket = self.buckets.last_mut()?;
        let (_, item) = bucket.items.pop_front()?;
        if bucket.items.is_empty() {
            self.drop_last();
        }
        self.len -= 1;
        Some(item)
    }

    /// How many items are queued.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shows every item with its priority, the most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = (Priority, &T)> {
        self.buckets.iter().rev().flat_map(|bucket| bucket.items.iter().map(|(_, item)| (bucket.priority, item)))
    }

    /// Moves the items that `unwanted` names to `out`; the others keep their order.
    pub fn remove_where(&mut self, unwanted: &mut dyn FnMut(&T) -> bool, out: &mut Vec<T>) {
        for bucket in &mut self.buckets {
            if !bucket.items.iter().any(|(_, item)| unwanted(item)) {
                continue;
            }
            for (sequence, item) in std::mem::take(&mut bucket.items) {
                if unwanted(&item) {
                    out.push(item);
                } else {
                    bucket.items.push_back((sequence, item));
                }
            }
        }
        self.buckets.retain(|bucket| !bucket.items.is_empty());
        self.len = self.buckets.iter().map(|bucket| bucket.items.len()).sum();
    }

    fn drop_last(&mut self) {
        if let Some(bucket) = self.buckets.pop()
            && self.spare.len() < SPARE_BUCKETS_MAX
            && bucket.items.capacity() <= SPARE_ITEMS_MAX
        {
            self.spare.push(bucket.items);
        }
    }
}

/// An item and the queue it was taken from: `None` is the private queue of the slot.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueItem<T> {
    /// What was taken.
    pub item: T,
    /// Its shared queue, if it was in one.
    pub kind: Option<QueueKind>,
}

/// The queues of one thread group: the shared ones, and a private one per slot.
#[derive(Debug)]
pub struct GroupQueues<T> {
    shared: [Queue<T>; QueueKind::COUNT],
    private: Vec<Queue<T>>,
    sequence: u64,
    /// The shared queues that hold something.
    filled: Reach,
}

impl<T> GroupQueues<T> {
    /// Empty queues for a group of `slots` slots.
    pub fn new(slots: usize) -> GroupQueues<T> {
        GroupQueues {
            shared: std::array::from_fn(|_| Queue::default()),
            private: (0..slots).map(|_| Queue::default()).collect(),
            sequence: 0,
            filled: Reach::default(),
        }
    }

    /// Queues `item` where all that [`QueueKind`] allows can take it.
    pub fn push_shared(&mut self, kind: QueueKind, priority: Priority, item: T) {
        let sequence = self.next_sequence();
        self.shared[kind.index()].push(priority, sequence, item);
        self.filled = self.filled.with(kind);
    }

    /// Queues `item` for the slot at `place` of this group alone.
    pub fn push_private(&mut self, place: usize, priority: Priority, item: T) {
        let sequence = self.next_sequence();
        self.private[place].push(priority, sequence, item);
    }

    /// What the slot at `place` of this group runs next, unless it is less urgent than `limit`.
    pub fn take_own(&mut self, place: usize, limit: Option<Priority>) -> Option<QueueItem<T>> {
        let shared = self.best_shared(Reach::ALL);
        let private = self.private[place].peek();
        let private_first = match (private, shared) {
            (Some(private), Some((shared, _))) => private < shared,
            (private, _) => private.is_some(),
        };
        if !private_first {
            return self.take_shared(Reach::ALL, limit);
        }
        if !within(private.map(|(priority, _)| priority), limit) {
            return None;
        }
        self.private[place].pop().map(|item| QueueItem { item, kind: None })
    }

    /// What a worker of another group that reaches these kinds takes, unless it is less urgent than `limit`.
    pub fn take_shared(&mut self, reach: Reach, limit: Option<Priority>) -> Option<QueueItem<T>> {
        let ((priority, _), kind) = self.best_shared(reach)?;
        if !within(Some(priority), limit) {
            return None;
        }
        let item = self.shared[kind.index()].pop()?;
        self.note_emptied(kind);
        Some(QueueItem { item, kind: Some(kind) })
    }

    /// Takes what a thief takes: the item that [`GroupQueues::take_shared`] would give, and further ones of the same
    /// queue and priority, in order, up to the number that `amount` gives for the queue's kind, its length and the
    /// first item.
    pub fn take_bulk(
        &mut self,
        reach: Reach,
        limit: Option<Priority>,
        amount: impl FnOnce(QueueKind, usize, &T) -> usize,
        more: &mut Vec<(Priority, T)>,
    ) -> Option<QueueItem<T>> {
        let ((priority, _), kind) = self.best_shared(reach)?;
        if !within(Some(priority), limit) {
            return None;
        }
        let queue = &mut self.shared[kind.index()];
        let of_priority = queue.len_first();
        let item = queue.pop()?;
        let amount = amount(kind, of_priority, &item).min(of_priority);
        more.extend((1..amount).map_while(|_| queue.pop()).map(|item| (priority, item)));
        self.note_emptied(kind);
        Some(QueueItem { item, kind: Some(kind) })
    }

    /// Shows every item with its priority and queue: `Ok` a shared one, `Err` the place of a private one.
    pub fn iter(&self) -> impl Iterator<Item = (Result<QueueKind, usize>, Priority, &T)> {
        let shared = QueueKind::ALL
            .into_iter()
            .flat_map(|kind| self.shared[kind.index()].iter().map(move |(priority, item)| (Ok(kind), priority, item)));
        let private = self
            .private
            .iter()
            .enumerate()
            .flat_map(|(place, queue)| queue.iter().map(move |(priority, item)| (Err(place), priority, item)));
        shared.chain(private)
    }

    /// How many items are in a shared queue.
    pub fn len_shared(&self, kind: QueueKind) -> usize {
        self.shared[kind.index()].len()
    }

    /// How many items are in the private queue of the slot at `place`.
    pub fn len_private(&self, place: usize) -> usize {
        self.private[place].len()
    }

    /// The most urgent priority in the shared queues.
    pub fn top_shared(&self) -> Option<Priority> {
        self.best_shared(Reach::ALL).map(|((priority, _), _)| priority)
    }

    /// The most urgent priority in the private queue of the slot at `place`.
    pub fn top_private(&self, place: usize) -> Option<Priority> {
        self.private[place].peek().map(|(priority, _)| priority)
    }

    /// Takes out every item that `unwanted` names, whatever its queue.
    pub fn remove_where(&mut self, mut unwanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut out = Vec::new();
        for queue in self.shared.iter_mut().chain(&mut self.private) {
            queue.remove_where(&mut unwanted, &mut out);
        }
        QueueKind::ALL.into_iter().for_each(|kind| self.note_emptied(kind));
        out
    }

    /// The most urgent priority of what the slot at `place` may take here.
    pub fn top_own(&self, place: usize) -> Option<Priority> {
        match (self.top_shared(), self.top_private(place)) {
            (Some(shared), Some(private)) => Some(shared.min(private)),
            (shared, private) => shared.or(private),
        }
    }

    fn note_emptied(&mut self, kind: QueueKind) {
        if self.shared[kind.index()].is_empty() {
            self.filled = self.filled.without(kind);
        }
    }

    fn best_shared(&self, reach: Reach) -> Option<((Priority, u64), QueueKind)> {
        let filled = self.filled.and(reach);
        if let Some(kind) = filled.only() {
            return self.shared[kind.index()].peek().map(|key| (key, kind));
        }
        QueueKind::ALL
            .into_iter()
            .filter(|kind| filled.includes(*kind))
            .filter_map(|kind| self.shared[kind.index()].peek().map(|key| (key, kind)))
            .min_by_key(|(key, _)| *key)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

fn within(priority: Option<Priority>, limit: Option<Priority>) -> bool {
    match (priority, limit) {
        (Some(priority), Some(limit)) => priority <= limit,
        (priority, None) => priority.is_some(),
        (None, Some(_)) => false,
    }
}
