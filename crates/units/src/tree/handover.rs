//! A range of keys from one owner to another: all of it made beforehand, and switched by one store.
//!
//! The tree that gives is carved ([`super::carve`]), the one that takes gets the subtrees ([`super::graft`]) and, of
//! leaves that the range cuts, the keys. Older values and the marks of running statements go along. Until the switch
//! the tree that gives answers for the range as before; after it, it keeps what readers may still be in.
//!
//! Invariants: a handover that fails or panics leaves both trees with the pairs they had; the switch cannot fail.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use numa::MemoryError;

use super::Tree;
use super::carve::Carved;
use super::graft::Grafted;
use super::owner::Owner;
use super::slot::Child;
use crate::versions::Mark;

/// A range that is ready to change hands.
#[derive(Debug)]
#[must_use]
pub(crate) struct Handover {
    range: (u64, u64),
    carved: Carved,
    grafted: Grafted,
}

/// What changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) pairs: u64,
    /// Whether subtrees were linked, or everything was copied.
    pub(crate) linked: bool,
}

/// A key of a leaf that is cut: its newest value and its older ones, the oldest first.
type CutKey = (u64, Option<u64>, Vec<(Option<u64>, Mark)>);

impl Handover {
    /// Makes everything for `from` to hand a range over to `to`.
    ///
    /// # Errors
    /// No memory; nothing has changed.
    pub(crate) fn prepare(from: &mut Owner, to: &mut Owner, range: (u64, u64)) -> Result<Handover, MemoryError> {
        let carved = from.carve(range)?;
        let mut grafted = Grafted { links: from.may_link(to), ..Grafted::default() };
        to.clear_of_empty_leaves(range);
        let filled = catch_unwind(AssertUnwindSafe(|| fill(from, to, range, &carved, &mut grafted)));
        if let Ok(Ok(())) = filled {
            return Ok(Handover { range, carved, grafted });
        }
        to.ungraft(range, &grafted);
        from.forget(carved);
        match filled {
            Ok(result) => Err(result.expect_err("what was filled has returned")),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Takes the range from the tree that gives it.
    pub(crate) fn switch(&self, from: &Owner, to: &Owner) {
        from.tree.root.store(self.carved.root.word(), Ordering::Release);
        from.tree.pairs.fetch_sub(self.grafted.pairs, Ordering::Relaxed);
        to.tree.pairs.fetch_add(self.grafted.pairs, Ordering::Relaxed);
    }

    /// After the switch: what each owner has to remember and to give back.
    pub(crate) fn finish(self, from: &mut Owner, to: &mut Owner) -> Taken {
        let Handover { range, mut carved, grafted } = self;
        for (block, lines) in carved.replaced.drain(..).chain(grafted.copied_nodes) {
            from.unlink(block, lines);
        }
        for leaf in carved.cut.drain(..).chain(grafted.copied_leaves) {
            from.unlink_with_chain(leaf);
        }
        from.pool.lose_lines(grafted.linked_lines);
        to.pool.gain_lines(grafted.linked_lines);
        let moved = from.changed.extract_if(.., |key| range.0 <= *key && *key <= range.1);
        to.changed.extend(moved);
        Taken { pairs: grafted.pairs, linked: grafted.links }
    }
}

fn fill(
    from: &mut Owner,
    to: &mut Owner,
    range: (u64, u64),
    carved: &Carved,
    grafted: &mut Grafted,
) -> Result<(), MemoryError> {
    let tree = Arc::clone(&from.tree);
    for part in &carved.inside {
        #[cfg(test)]
        fault::step();
        to.graft(&tree, *part, grafted)?;
    }
    for leaf in &carved.cut {
        for (key, newest, older) in tree.cut_keys(*leaf, range) {
            #[cfg(test)]
            fault::step();
            to.graft_key(key, newest, &older)?;
            grafted.pairs += u64::from(newest.is_some());
        }
    }
    Ok(())
}

impl Tree {
    /// The keys of a leaf that lie in a range.
    fn cut_keys(&self, leaf: Child, range: (u64, u64)) -> Vec<CutKey> {
        let Some(leaf) = self.leaf(leaf) else { return Vec::new() };
        let is_in = |key: u64| range.0 <= key && key <= range.1;
        let mut pairs = Vec::new();
        leaf.pairs(&mut pairs);
        let mut keys: Vec<CutKey> =
            pairs.into_iter().filter(|pair| is_in(pair.0)).map(|(key, value)| (key, Some(value), Vec::new())).collect();
        for record in self.chain(leaf.undo()).filter(|record| is_in(record.key())) {
            let place = match keys.binary_search_by_key(&record.key(), |key| key.0) {
                Ok(place) => place,
                Err(place) => {
                    keys.insert(place, (record.key(), None, Vec::new()));
                    place
                }
            };
            keys[place].2.insert(0, (record.before(), record.mark()));
        }
        keys
    }

    /// The last key of a piece of `first ..= last` that has about `pairs` pairs.
    pub(crate) fn piece_end(&self, first: u64, last: u64, pairs: usize) -> u64 {
        let mut count = 0;
        let mut next = first;
        loop {
            let (child, end) = self.reach(self.root(), next);
            count += self.leaf(child).map_or(0, |leaf| leaf.count());
            if end >= last || count >= pairs {
                return end.min(last);
            }
            next = end + 1;
        }
    }
}

impl Owner {
    /// Whether subtrees may be linked from one tree to the other: blocks have names within an arena.
    pub(crate) fn may_link(&self, other: &Owner) -> bool {
        Arc::ptr_eq(&self.tree.arena, &other.tree.arena)
    }

    /// Takes out leaves without pairs that lie in a range: an insertion that found no memory may have left one.
    fn clear_of_empty_leaves(&mut self, range: (u64, u64)) {
        self.ungraft(range, &Grafted::default());
    }
}

/// Faults planted by tests.
#[cfg(test)]
pub(crate) mod fault {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<Option<u64>> = const { Cell::new(None) });

    /// Lets this thread's handover panic after as many leaves and keys.
    pub(crate) fn after(steps: Option<u64>) {
        STEPS.with(|left| left.set(steps));
    }

    pub(crate) fn step() {
        STEPS.with(|left| match left.get() {
            Some(0) => {
                left.set(None);
                panic!("a fault was planted");
            }
            steps => left.set(steps.map(|steps| steps - 1)),
        });
    }
}

#[cfg(test)]
mod tests;
