//! What a thread group holds, and which of it goes next.
//!
//! Invariants: within one [`Queue`] items come out by priority, then in the order they went in; a [`GroupQueues`] gives
//! an item out once, and only through a door that its queue kind allows.
//!
//! # Limits
//! Taking is one at a time; bulk stealing would take a prefix of a bucket.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1 ("peeks in the two priority queues to get the element with the
//! highest priority").

use std::collections::{BTreeMap, VecDeque};

use super::{QueueKind, Reach};
use crate::affinity::Priority;

/// Emptied buckets kept for the next priority, so that a stream of small statements does not allocate.
const SPARE_BUCKETS_MAX: usize = 8;

/// A priority queue that is first in, first out within one priority.
///
/// A bucket per distinct priority: tasks of one statement share theirs, so a push or pop costs the logarithm of the
/// number of statements, not of the number of tasks.
#[derive(Debug)]
pub struct Queue<T> {
    buckets: BTreeMap<Priority, VecDeque<(u64, T)>>,
    spare: Vec<VecDeque<(u64, T)>>,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { buckets: BTreeMap::new(), spare: Vec::new(), len: 0 }
    }
}

impl<T> Queue<T> {
    /// Adds `item` behind its equals. `sequence` is its submission number, compared only between queues.
    pub fn push(&mut self, priority: Priority, sequence: u64, item: T) {
        let bucket = self.buckets.entry(priority).or_insert_with(|| self.spare.pop().unwrap_or_default());
        bucket.push_back((sequence, item));
        self.len += 1;
    }

    /// Priority and submission number of the item that [`Queue::pop`] would give.
    pub fn peek(&self) -> Option<(Priority, u64)> {
        let (priority, bucket) = self.buckets.first_key_value()?;
        bucket.front().map(|(sequence, _)| (*priority, *sequence))
    }

    /// Takes the first item.
    pub fn pop(&mut self) -> Option<T> {
        let mut entry = self.buckets.first_entry()?;
        let (_, item) = entry.get_mut().pop_front()?;
        if entry.get().is_empty() {
            let bucket = entry.remove();
            if self.spare.len() < SPARE_BUCKETS_MAX {
                self.spare.push(bucket);
            }
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

    /// Moves the items that `unwanted` names to `out`; the others keep their order.
    pub fn remove_where(&mut self, unwanted: &mut dyn FnMut(&T) -> bool, out: &mut Vec<T>) {
        for bucket in self.buckets.values_mut() {
            if !bucket.iter().any(|(_, item)| unwanted(item)) {
                continue;
            }
            for (sequence, item) in std::mem::take(bucket) {
                if unwanted(&item) {
                    out.push(item);
                } else {
                    bucket.push_back((sequence, item));
                }
            }
        }
        self.buckets.retain(|_, bucket| !bucket.is_empty());
        self.len = self.buckets.values().map(VecDeque::len).sum();
    }
}

/// An item and the queue it was taken from: `None` is the private queue of the slot.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken<T> {
    /// What was taken.
    pub item: T,
    /// Its shared queue, if it was in one.
    pub kind: Option<QueueKind>,
}

/// The queues of one thread group: three shared ones, and a private one per slot.
#[derive(Debug)]
pub struct GroupQueues<T> {
    shared: [Queue<T>; 3],
    private: Vec<Queue<T>>,
    sequence: u64,
}

impl<T> GroupQueues<T> {
    /// Empty queues for a group of `slots` slots.
    pub fn new(slots: usize) -> GroupQueues<T> {
        GroupQueues {
            shared: [Queue::default(), Queue::default(), Queue::default()],
            private: (0..slots).map(|_| Queue::default()).collect(),
            sequence: 0,
        }
    }

    /// Queues `item` where all that [`QueueKind`] allows can take it.
    pub fn push_shared(&mut self, kind: QueueKind, priority: Priority, item: T) {
        let sequence = self.next_sequence();
        self.shared[kind.index()].push(priority, sequence, item);
    }

    /// Queues `item` for the slot at `place` of this group alone.
    pub fn push_private(&mut self, place: usize, priority: Priority, item: T) {
        let sequence = self.next_sequence();
        self.private[place].push(priority, sequence, item);
    }

    /// What the slot at `place` of this group runs next, unless it is less urgent than `limit`.
    pub fn take_own(&mut self, place: usize, limit: Option<Priority>) -> Option<Taken<T>> {
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
        self.private[place].pop().map(|item| Taken { item, kind: None })
    }

    /// What a worker of another group that reaches these kinds takes, unless it is less urgent than `limit`.
    pub fn take_shared(&mut self, reach: Reach, limit: Option<Priority>) -> Option<Taken<T>> {
        let ((priority, _), kind) = self.best_shared(reach)?;
        if !within(Some(priority), limit) {
            return None;
        }
        self.shared[kind.index()].pop().map(|item| Taken { item, kind: Some(kind) })
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
        out
    }

    fn best_shared(&self, reach: Reach) -> Option<((Priority, u64), QueueKind)> {
        QueueKind::ALL
            .into_iter()
            .filter(|kind| reach.includes(*kind))
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
