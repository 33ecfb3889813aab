//! The units of a database: where they are, how they balance, and they themselves as soon as a statement needs them.
//!
//! Which balancer without being told: One-Shot. The paper prefers moving averages where its stops for a cycle would be
//! long and often (section 3.3.1). Here nobody stops, each range moves by itself; the keys of a table's unmerged rows
//! are tens of thousands at most and are known by codes that are spread over all 64 bits, so ranges that are accessed
//! more than others are rare and small; and a cycle that gains little moves nothing.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use sched::Scheduler;
use units::balancer::Algorithm;
use units::store::{Store, UnitPlace};

use crate::error::Result;

/// How units balance unless somebody says otherwise.
pub(crate) const DEFAULT_BALANCER: Algorithm = Algorithm::OneShot;

/// See the module.
#[derive(Debug)]
pub(crate) struct Units {
    places: Vec<UnitPlace>,
    /// Whose workers run cycles.
    scheduler: Weak<Scheduler>,
    /// Held while units begin, and while it changes.
    balancer: Mutex<Algorithm>,
    store: OnceLock<Arc<Store>>,
}

impl Units {
    /// Units at these places, none of which has begun.
    pub(crate) fn new(places: Vec<UnitPlace>, scheduler: &Arc<Scheduler>) -> Units {
        let balancer = Mutex::new(DEFAULT_BALANCER);
        Units { places, scheduler: Arc::downgrade(scheduler), balancer, store: OnceLock::new() }
    }

    /// The units, which begin with the first call.
    ///
    /// # Errors
    /// No memory for their buffers.
    pub(super) fn store(&self) -> Result<Arc<Store>> {
        if let Some(store) = self.store.get() {
            return Ok(Arc::clone(store));
        }
        let balancer = self.balancer.lock();
        if let Some(store) = self.store.get() {
            return Ok(Arc::clone(store));
        }
        let store = Store::new(self.places.clone())?;
        store.set_balancer(*balancer);
        if let Some(scheduler) = self.scheduler.upgrade() {
            store.balance_on(&scheduler);
        }
        Ok(Arc::clone(self.store.get_or_init(|| store)))
    }

    /// The units, if they have begun.
    pub(super) fn known(&self) -> Option<&Arc<Store>> {
        self.store.get()
    }

    /// How they balance.
    pub(crate) fn balancer(&self) -> Algorithm {
        *self.balancer.lock()
    }

    /// Has them balance otherwise from now on.
    pub(crate) fn set_balancer(&self, algorithm: Algorithm) {
        let mut balancer = self.balancer.lock();
        *balancer = algorithm;
        if let Some(store) = self.store.get() {
            store.set_balancer(algorithm);
        }
    }
}
