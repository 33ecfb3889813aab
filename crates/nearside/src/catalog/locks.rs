//! What transactions have locked of a table, besides the rows that they hold ([`storage::Deltas::hold`]): keys that
//! they have written, and the table as a whole.
//!
//! Rows and keys are locked one by one, so transactions and statements that write others go on. A transaction that
//! changes a table's columns, indexes or placement, or most of its rows, *owns* it: nobody else writes it then, but
//! everybody reads what was committed. Keys are known by their codes; two that have the same code wait for each other
//! without need, and nothing else.
//!
//! # Invariants
//! Locks change by who has the table's write turn alone, so who has the turn, beside others too, finds what is so until
//! it gives the turn back. Nobody waits for a transaction with a turn in hand.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TableLocks {
    state: Mutex<State>,
    /// Whether there is any, so that who writes without looks at one flag.
    is_any: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// And since which of its steps.
    owner: Option<(u64, u64)>,
    /// Transactions that have written the table or locked rows of it, and since which of their steps.
    writers: BTreeMap<u64, u64>,
    /// Which transaction has a key, since which of its steps: by the unique index, in the table's order,
    /// those that are DEFERRABLE behind the others, and the code.
    keys: HashMap<(usize, u64), (u64, u64)>,
}

impl TableLocks {
    /// Whether any transaction has locked anything.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Who owns the table, if that is another than `own`.
    pub(crate) fn other_owner(&self, own: Option<u64>) -> Option<u64> {
        if !self.is_any() {
            return None;
        }
        self.state.lock().owner.map(|(owner, _)| owner).filter(|owner| Some(*owner) != own)
    }

    /// A transaction that has written the table or owns it, other than `own`.
    pub(crate) fn other(&self, own: Option<u64>) -> Option<u64> {
        if !self.is_any() {
            return None;
        }
        let state = self.state.lock();
        state
            .owner
            .iter()
            .map(|(owner, _)| owner)
            .chain(state.writers.keys())
            .copied()
            .find(|holder| Some(*holder) != own)
    }

    /// The transactions that have written the table or own it, other than `own`.
    pub(crate) fn others(&self, own: Option<u64>) -> Vec<u64> {
        if !self.is_any() {
            return Vec::new();
        }
        self.state.lock().writers.keys().copied().filter(|holder| Some(*holder) != own).collect()
    }

    /// Who has one of some keys of a unique index, if that is another than `own`.
    pub(crate) fn key_holder(
        &self,
        index: usize,
        mut codes: impl Iterator<Item = u64>,
        own: Option<u64>,
    ) -> Option<u64> {
        if !self.is_any() {
            return None;
        }
        let state = self.state.lock();
        if state.keys.is_empty() {
            return None;
        }
        codes.find_map(|code| {
            let (holder, _) = state.keys.get(&(index, code))?;
            (Some(*holder) != own).then_some(*holder)
        })
    }

    /// Locks keys that nobody else has.
    pub(crate) fn lock_keys(&self, index: usize, codes: impl Iterator<Item = u64>, holder: u64, step: u64) {
        let mut state = self.state.lock();
        for code in codes {
            state.keys.entry((index, code)).or_insert((holder, step));
        }
    }

    /// A transaction writes the table, in this step of it.
    pub(crate) fn join(&self, holder: u64, step: u64) {
        self.state.lock().writers.entry(holder).or_insert(step);
        self.is_any.store(true, Ordering::Release);
    }

    /// A transaction owns the table, which nobody else has locked.
    pub(crate) fn own(&self, holder: u64, step: u64) {
        self.state.lock().owner.get_or_insert((holder, step));
        self.join(holder, step);
    }

    /// A transaction gives back the keys that it has since a step, and the table; where it has written none of it
    /// before that step, it is none of its writers any more.
    pub(crate) fn release(&self, holder: u64, after_step: u64) {
        let mut state = self.state.lock();
        state.keys.retain(|_, (of, step)| *of != holder || *step <= after_step);
        state.owner = state.owner.filter(|(of, step)| *of != holder || *step <= after_step);
        state.writers.retain(|of, step| *of != holder || *step <= after_step);
        self.is_any.store(!state.writers.is_empty(), Ordering::Release);
    }

    /// A transaction has ended.
    pub(crate) fn leave(&self, holder: u64) {
        let mut state = self.state.lock();
        state.keys.retain(|_, (of, _)| *of != holder);
        state.writers.remove(&holder);
        state.owner = state.owner.filter(|(owner, _)| *owner != holder);
        self.is_any.store(!state.writers.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tables_belong_to_transactions_until_they_end() {
        let locks = TableLocks::default();
        assert!(!locks.is_any() && locks.other(None).is_none());
        locks.join(1, 1);
        locks.lock_keys(0, [7, 8].into_iter(), 1, 1);
        locks.lock_keys(0, [8, 9].into_iter(), 1, 2);
        let holder = |code: u64, own: Option<u64>| locks.key_holder(0, [code].into_iter(), own);
        assert_eq!(
            (holder(7, None), holder(7, Some(2)), holder(7, Some(1)), holder(6, None)),
            (Some(1), Some(1), None, None)
        );
        assert_eq!(locks.key_holder(1, [7].into_iter(), None), None);
        locks.own(1, 2);
        locks.release(1, 1);
        assert_eq!(locks.other_owner(None), None);
        // What a step found locked by an earlier one stays.
        assert_eq!((holder(8, None), holder(9, None)), (Some(1), None));
        locks.own(1, 3);
        assert_eq!(
            (locks.other_owner(Some(2)), locks.other_owner(Some(1)), locks.other(Some(1))),
            (Some(1), None, None)
        );
        locks.join(2, 3);
        assert_eq!(locks.other(Some(1)), Some(2));
        // Back before it wrote the table, it is as if it never had.
        locks.release(2, 3);
        assert_eq!(locks.other(Some(1)), Some(2));
        locks.release(2, 2);
        assert_eq!(locks.other(Some(1)), None);
        locks.join(2, 4);
        locks.leave(1);
        assert_eq!((locks.other_owner(None), locks.other(None), holder(7, None)), (None, Some(2), None));
        locks.leave(2);
        assert!(!locks.is_any());
    }
}
