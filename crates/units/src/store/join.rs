//! Joins by look-ups: the values of one object's pairs are keys of another.
//!
//! Each range of the outer object is scanned where its unit is, its values are looked up where the inner object's keys
//! are (as [`Route`](super::Route) says: by commands, coalesced to batches at the units that own them, or directly),
//! and
//! what is found is put into a third object under the outer key. Where that one is divided as the outer object is
//! ([`Store::create_like`]), intermediate results are written where they are produced: to the unit whose worker has
//! them, so that nothing but keys and values of look-ups goes from node to node.
//!
//! Source: Kissinger et al., ADMS 2014, section 1 (contributions 2 and 3) and section 3.2.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sched::{Scheduler, Statement, TaskError};

use super::{Keyed, Store, WriteError};
use crate::request::WriteKind;
use crate::versions::Pin;

/// Pairs that a task scans, looks up and writes at a time.
const JOINED_PAIRS: usize = 8192;

/// Why a join ended early. What it has put into the object of its results stays there.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A batch of results was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Its statement stopped, or a task failed.
    #[error(transparent)]
    Task(#[from] TaskError),
}

impl Store {
    /// An empty object that is divided over the units as another is now.
    pub fn create_like(self: &Arc<Self>, other: &Keyed, prefix_bits: u32) -> Keyed {
        assert!(Arc::ptr_eq(self, &other.store), "an object is divided like another of its store");
        let table = other.object.balancing.lock().table.clone();
        self.create_divided(Arc::default(), &table, other.object.trees.len(), prefix_bits)
    }
}

impl Keyed {
    /// Joins this object with `inner`: for each pair `(key, value)` of which `inner` has a pair `(value, found)`, puts
    /// `(key, found)` into `results`. As `pin` sees both; a task for each range of this object, near the unit that owns
    /// it. Gives how many pairs were put.
    ///
    /// Batches of results are statements of their own: who reads `results` meanwhile sees some of them.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join(
        &self,
        inner: &Keyed,
        results: &Keyed,
        pin: &Pin,
        scheduler: &Scheduler,
        statement: &Arc<Statement>,
    ) -> Result<u64, JoinError> {
        let mut parts = Vec::new();
        self.object.routing.read(|view| view.parts(0, u64::MAX, &mut parts));
        let affinity = |part: usize| self.store.affinity(parts[part].2, scheduler);
        let joined = AtomicU64::new(0);
        let failure: Mutex<Option<WriteError>> = Mutex::default();
        let body = |part: usize| {
            let (first, last, _) = parts[part];
            let goes_on = || !statement.is_cancelled() && failure.lock().is_none();
            match self.join_range((first, last), inner, results, pin, &goes_on) {
                Ok(count) => _ = joined.fetch_add(count, Ordering::Relaxed),
                Err(error) => _ = failure.lock().get_or_insert(error),
            }
        };
        scheduler.parallel_for(statement, parts.len(), &affinity, &body)?;
        match failure.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(joined.into_inner()),
        }
    }

    fn join_range(
        &self,
        (first, last): (u64, u64),
        inner: &Keyed,
        results: &Keyed,
        pin: &Pin,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<u64, WriteError> {
        let (mut keys, mut values, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let (mut next, mut joined) = (Some(first), 0);
        while let Some(from) = next.filter(|_| goes_on()) {
            keys.clear();
            values.clear();
            // Its task is where the pairs are.
            self.range_directly((from, last), pin, &mut |key, value| {
                keys.push(key);
                values.push(value);
                keys.len() < JOINED_PAIRS
            });
            let is_full = keys.len() == JOINED_PAIRS;
            next = keys.last().filter(|key| is_full && **key < last).map(|key| key + 1);
            found.clear();
            inner.lookup(&values, pin, |place, value| found.extend(value.map(|value| (keys[place], value))));
            if !found.is_empty() {
                results.write(WriteKind::Upsert, &found)?;
            }
            joined += found.len() as u64;
        }
        Ok(joined)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use numa::{Allocator, Budget, NodeId, Topology};
    use random::Random;
    use sched::Config;

    use super::*;
    use crate::store::{Route, UnitPlace};

    fn scheduler(threads: u32) -> Arc<Scheduler> {
        let config = Config { threads: Some(threads as usize), ..Config::default() };
        Scheduler::new(Arc::new(Topology::discover().unwrap()), config)
    }

    fn store(nodes: &[u32], budget: &Arc<Budget>) -> Arc<Store> {
        let allocator = Allocator::new(numa::Policy::Local, Arc::clone(budget));
        let place = |node: &u32| UnitPlace { node: Some(NodeId(*node)), allocator: allocator.clone() };
        Store::new(nodes.iter().map(place).collect()).unwrap()
    }

    fn pairs_of(keyed: &Keyed) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        keyed.range(0, u64::MAX, &keyed.store().pin(), |key, value| {
            pairs.push((key, value));
            true
        });
        pairs
    }

    fn put(keyed: &Keyed, pairs: &BTreeMap<u64, u64>) {
        let pairs: Vec<(u64, u64)> = pairs.iter().map(|(key, value)| (*key, *value)).collect();
        pairs.chunks(1000).for_each(|pairs| _ = keyed.write(WriteKind::Insert, pairs).unwrap());
    }

    #[test]
    fn results_are_those_of_maps_by_each_route() {
        for (seed, threads, nodes) in [(1, 1, &[0u32][..]), (2, 2, &[0, 1]), (3, 2, &[0, 0, 1, 1])] {
            let (scheduler, budget) = (scheduler(threads), Budget::unlimited());
            let store = store(nodes, &budget);
            store.serve_on(&scheduler);
            let mut random = Random::new(seed);
            let outer: BTreeMap<u64, u64> =
                (0..20_000).map(|_| (random.next_u64() >> random.below(50), random.next_u64() % 9000)).collect();
            let inner: BTreeMap<u64, u64> = (0..6000).map(|_| (random.next_u64() % 9000, random.next_u64())).collect();
            let keyed = [&outer, &inner].map(|pairs| {
                let keyed = store.create(u64::MAX, 8);
                put(&keyed, pairs);
                keyed
            });
            let of_both = outer.iter().filter_map(|(key, value)| Some((*key, *inner.get(value)?)));
            let expected: Vec<(u64, u64)> = of_both.collect();
            let pin = store.pin();
            // What is written afterwards is not seen.
            keyed[0].write(WriteKind::Upsert, &[(5, 5), (u64::MAX, 5)]).unwrap();
            keyed[1].write(WriteKind::Upsert, &[(5, 5)]).unwrap();
            for route in [Route::Direct, Route::Commands, Route::Auto] {
                store.set_route(route);
                let statement = Statement::new(1, Budget::unlimited());
                let results = store.create_like(&keyed[0], 8);
                let joined = keyed[0].join(&keyed[1], &results, &pin, &scheduler, &statement).unwrap();
                assert_eq!(joined, expected.len() as u64, "{route}");
                assert!(pairs_of(&results) == expected, "{route} over {nodes:?}");
            }
        }
    }

    /// Results lie in ranges that are those of the outer object, moved ones too.
    #[test]
    fn results_are_divided_as_the_outer_object_is() {
        let (scheduler, budget) = (scheduler(2), Budget::unlimited());
        let store = store(&[0, 0, 1, 1], &budget);
        let outer = store.create(u64::MAX, 8);
        put(&outer, &(0..9000u64).map(|i| (i << 40, i)).collect());
        outer.move_range(1 << 42, 1 << 50, 3).unwrap();
        outer.move_range(0, 1 << 41, 2).unwrap();
        let results = store.create_like(&outer, 8);
        let statement = Statement::new(1, Budget::unlimited());
        outer.join(&outer, &results, &store.pin(), &scheduler, &statement).unwrap();
        let ranges = |keyed: &Keyed| -> Vec<(u64, usize)> {
            keyed.routing().ranges.iter().map(|range| (range.first, range.unit)).collect()
        };
        assert!(ranges(&outer) == ranges(&results) && ranges(&results).len() > 4);
        assert_eq!(pairs_of(&results), [(0, 0)], "only the key 0 is a value whose key there is");
    }

    #[test]
    fn who_is_stopped_or_has_no_memory_says_so() {
        let scheduler = scheduler(2);
        let budget = Budget::new("join", 64 << 20);
        let store = store(&[0, 1], &budget);
        let outer = store.create(u64::MAX, 8);
        put(&outer, &(0..40_000u64).map(|i| (i << 45, i << 45)).collect());
        let results = store.create_like(&outer, 8);
        let stopped = Statement::new(1, Budget::unlimited());
        stopped.cancel();
        let error = outer.join(&outer, &results, &store.pin(), &scheduler, &stopped).unwrap_err();
        assert!(matches!(error, JoinError::Task(TaskError::Cancelled)), "{error}");
        assert!(results.is_empty());
        let statement = Statement::new(2, Budget::unlimited());
        let filler = budget.reserve(budget.available_bytes().unwrap()).unwrap();
        let error = outer.join(&outer, &results, &store.pin(), &scheduler, &statement).unwrap_err();
        assert!(matches!(error, JoinError::Write(WriteError::Memory(_))), "{error}");
        drop(filler);
        drop(results);
        // Memory came back with the object, and the join is done when asked again.
        let results = store.create_like(&outer, 8);
        assert_eq!(outer.join(&outer, &results, &store.pin(), &scheduler, &statement).unwrap(), 40_000);
    }
}
