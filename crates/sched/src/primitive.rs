//! The locks and atomics that the concurrent parts are made of: the real ones, or loom's under `--cfg loom`.
//!
//! Everything in [`crate::sleep`] and [`crate::handover`], the queues of a thread group and the counters of
//! [`crate::scope`] name their primitives through here, so that the same lines run in the product and in the model
//! checker.
//!
//! # Limits
//! Under loom the models can run and nothing else: its primitives work inside a model only. Statements keep std's
//! atomics and are not modelled.

#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(loom)]
pub(crate) use checked::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use std::thread::yield_now;
    use std::time::Instant;

    /// A lock that does not poison: what it guards stays consistent across panics because no foreign code runs under
    /// it.
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

    /// Waits for a notification, or until `until` where given.
    pub(crate) fn wait<T>(condvar: &Condvar, guard: &mut MutexGuard<'_, T>, until: Option<Instant>) {
        match until {
            Some(until) => {
                condvar.wait_until(guard, until);
            }
            None => condvar.wait(guard),
        }
    }
}

#[cfg(loom)]
mod checked {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::thread::yield_now;
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    /// loom's lock under parking_lot's signatures. A guard is an `Option` because loom's condvar takes it by value.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);
    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("no panic under a modelled lock")))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            self.0.as_ref().expect("a guard is empty only while it waits")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("a guard is empty only while it waits")
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Condvar {
            Condvar(loom::sync::Condvar::new())
        }
        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    /// Waits for a notification; loom has no clock, so `until` never passes.
    pub(crate) fn wait<T>(condvar: &Condvar, guard: &mut MutexGuard<'_, T>, _until: Option<Instant>) {
        let inner = guard.0.take().expect("a guard is taken only here");
        guard.0 = Some(condvar.0.wait(inner).expect("no panic under a modelled lock"));
    }
}
