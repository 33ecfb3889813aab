//! What joins by look-ups cost: each pair of one object has a key of another as its value.
//!
//! Source: Kissinger et al., ADMS 2014, section 1 (contributions 2 and 3).

use std::sync::Arc;
use std::time::Instant;

use numa::Budget;
use random::mixed;
use sched::{Scheduler, Statement};

use super::{OrderedMap, Phase, Plan, measure, value_of};
use crate::store::{Keyed, Route, Store};

/// Results that are looked at, at most.
const CHECKED_MAX: u64 = 100_000;

/// Two objects of a plan's keys: the values of one are keys of the other.
pub struct Joined {
    plan: Plan,
    outer: Keyed,
    inner: Keyed,
}

impl Joined {
    /// Fills both.
    ///
    /// # Errors
    /// There is no memory; the text says so.
    pub fn new(scheduler: &Scheduler, store: &Arc<Store>, plan: Plan, prefix_bits: u32) -> Result<Joined, String> {
        let inner = store.create(plan.last_key(), prefix_bits);
        measure(scheduler, &inner, plan, Phase::Insert)?;
        let outer = store.create(plan.last_key(), prefix_bits);
        measure(scheduler, &Outer(&outer, plan), plan, Phase::Insert)?;
        Ok(Joined { plan, outer, inner })
    }

    /// Pairs per second that are scanned, looked up and written as results, with look-ups by this route.
    ///
    /// # Errors
    /// There is no memory, or results are wrong; the text says so.
    pub fn measure(&self, scheduler: &Scheduler, route: Route, prefix_bits: u32) -> Result<f64, String> {
        let (plan, store) = (self.plan, self.outer.store());
        let before = store.route();
        store.set_route(route);
        let results = store.create_like(&self.outer, prefix_bits);
        let statement = Statement::new(1, Budget::unlimited());
        let begin = Instant::now();
        let joined = self.outer.join(&self.inner, &results, &store.pin(), scheduler, &statement);
        let took = begin.elapsed();
        store.set_route(before);
        let joined = joined.map_err(|error| error.to_string())?;
        if joined != plan.keys || results.len() != plan.keys {
            return Err(format!("of {} pairs {joined} were joined", plan.keys));
        }
        let checked = plan.keys.min(CHECKED_MAX);
        let keys: Vec<u64> = (0..checked).map(|number| plan.key(number * (plan.keys / checked))).collect();
        let mut right = 0;
        results.read(&keys, &mut |place, value| {
            right += u64::from(value == Some(value_of(partner(plan, keys[place]))));
        });
        match right == checked {
            true => Ok(joined as f64 / took.as_secs_f64()),
            false => Err(format!("of {checked} results {right} are right")),
        }
    }
}

/// The key of the inner object that is the value of an outer key.
fn partner(plan: Plan, key: u64) -> u64 {
    plan.key(mixed(key ^ plan.seed << 32) % plan.keys)
}

/// The outer object, which is written with other values than the measured phases write.
struct Outer<'a>(&'a Keyed, Plan);

impl OrderedMap for Outer<'_> {
    fn name(&self) -> &str {
        "outer"
    }

    fn write(&self, pairs: &[(u64, u64)]) {
        let pairs: Vec<(u64, u64)> = pairs.iter().map(|(key, _)| (*key, partner(self.1, *key))).collect();
        OrderedMap::write(self.0, &pairs);
    }

    fn read(&self, keys: &[u64], found: &mut dyn FnMut(usize, Option<u64>)) {
        self.0.read(keys, found);
    }

    fn range(&self, first: u64) -> Option<usize> {
        OrderedMap::range(self.0, first)
    }
}

#[cfg(test)]
mod tests {
    use numa::{Allocator, NodeId, Topology};
    use sched::Config;

    use super::*;
    use crate::request::WriteKind;
    use crate::store::UnitPlace;

    #[test]
    fn both_routes_join_everything_and_a_wrong_value_is_found() {
        let config = Config { threads: Some(2), ..Config::default() };
        let scheduler = Scheduler::new(Arc::new(Topology::discover().unwrap()), config);
        for dense in [false, true] {
            let place = |node| UnitPlace { node: Some(NodeId(node)), allocator: Allocator::unplaced() };
            let store = Store::new([0, 1].map(place).to_vec()).unwrap();
            let plan = Plan { keys: 20_000, batch: 500, dense, seed: 4 };
            let joined = Joined::new(&scheduler, &store, plan, 8).unwrap();
            for route in [Route::Direct, Route::Commands] {
                assert!(joined.measure(&scheduler, route, 8).unwrap() > 0.0);
            }
            assert_eq!(store.route(), Route::Auto);
            let key = partner(plan, plan.key(0));
            joined.inner.write(WriteKind::Update, &[(key, 1)]).unwrap();
            let error = joined.measure(&scheduler, Route::Direct, 8).unwrap_err();
            assert!(error.starts_with("of 20000 results 1999"), "{error}");
        }
    }
}
