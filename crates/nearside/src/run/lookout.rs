//! [`Lookout`]: what has to be looked at from time to time, by one thread for all of it, which is there as long as
//! there is any.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Nothing is looked at less often: whoever was busy when its time came is looked at again.
const AT_LEAST_EVERY: Duration = Duration::from_millis(100);
/// Nor more often.
const AT_MOST_EVERY: Duration = Duration::from_millis(1);

/// Looks at something; in what time it is to be looked at again, `None` where that is over.
type Look = Box<dyn FnMut() -> Option<Duration> + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct Lookout {
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Default)]
struct State {
    all: Vec<Look>,
    /// Whether there is a thread.
    is_looking: bool,
}

impl std::fmt::Debug for Lookout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookout").field("all", &self.state.lock().all.len()).finish()
    }
}

impl Lookout {
    /// Has something looked at from now on.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn add(
        self: &Arc<Self>,
        look: impl FnMut() -> Option<Duration> + Send + 'static,
    ) -> std::io::Result<()> {
        let mut state = self.state.lock();
        if !state.is_looking {
            let own = Arc::clone(self);
            std::thread::Builder::new().name("lookout".into()).spawn(move || own.run())?;
            state.is_looking = true;
        }
        state.all.push(Box::new(look));
        self.added.notify_one();
        Ok(())
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.all.is_empty() {
            // What is looked at may add something, and take long.
            let mut all = std::mem::take(&mut state.all);
            let mut next = AT_LEAST_EVERY;
            parking_lot::MutexGuard::unlocked(&mut state, || {
                all.retain_mut(|look| match look() {
                    Some(time) => {
                        next = next.min(time);
                        true
                    }
                    None => false,
                });
            });
            let is_more = !state.all.is_empty();
            state.all.append(&mut all);
            if !is_more && !state.all.is_empty() {
                self.added.wait_for(&mut state, next.max(AT_MOST_EVERY));
            }
        }
        state.is_looking = false;
    }

    /// Whether there is a thread.
    #[cfg(test)]
    fn is_looking(&self) -> bool {
        self.state.lock().is_looking
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    fn until(is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it never is");
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_thread_looks_at_all_as_long_as_there_is_any() {
        let lookout = Arc::new(Lookout::default());
        let threads = Arc::new(Mutex::new(std::collections::HashSet::new()));
        for round in 1..4 {
            let (looks, are_all) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            for number in 0..20 {
                let (looks, threads, are_all) = (Arc::clone(&looks), Arc::clone(&threads), Arc::clone(&are_all));
                let mut left = number;
                let look = move || {
                    threads.lock().insert(std::thread::current().id());
                    if are_all.load(Ordering::Relaxed) == 0 {
                        return Some(Duration::ZERO);
                    }
                    looks.fetch_add(1, Ordering::Relaxed);
                    left -= 1;
                    (left >= 0).then_some(Duration::ZERO)
                };
                lookout.add(look).unwrap();
            }
            are_all.store(1, Ordering::Relaxed);
            until(|| !lookout.is_looking());
            assert_eq!(looks.load(Ordering::Relaxed), (0..20).map(|number| number + 1).sum::<usize>());
            assert_eq!(threads.lock().len(), round);
        }
    }

    #[test]
    fn what_comes_later_does_not_wait_for_what_was_there() {
        let lookout = Arc::new(Lookout::default());
        let is_over = Arc::new(AtomicUsize::new(0));
        let (first, second) = (Arc::clone(&is_over), Arc::clone(&is_over));
        lookout.add(move || (first.load(Ordering::Relaxed) == 0).then_some(Duration::from_secs(3600))).unwrap();
        lookout
            .add(move || {
                second.store(1, Ordering::Relaxed);
                None
            })
            .unwrap();
        until(|| !lookout.is_looking());
        assert_eq!(is_over.load(Ordering::Relaxed), 1);
    }
}
