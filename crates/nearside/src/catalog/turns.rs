//! Whose turn it is to write a table: one statement at a time.
//!
//! A session that finds the turn taken leaves what it has to do behind, and whoever has the turn does it before giving
//! the turn back (flat combining: Hendler et al., SPAA 2010). So the table's lock and the newest lines of its delta stay
//! in the caches of one cpu, where handing them from cpu to cpu costs about as much as a small write.
//!
//! Invariants: work is done once, or taken back by who left it and never done; work that is left behind is done by
//! somebody although everybody sleeps: who gives the turn back wakes the first that waits, and who has left work behind
//! tries to get the turn before it sleeps. A panic in work reaches who left it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// How long a statement sleeps at most before it looks whether it was cancelled.
const WAIT: Duration = Duration::from_millis(20);

/// How often a statement looks whether it is its turn before it falls asleep: a small write takes less time than falling
/// asleep and being woken.
const LOOKS: usize = 50;

/// How much work of others a session does before it gives the turn back: about 200 us of small writes, which it waits
/// for after its own.
const OTHERS_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    turn: Mutex<()>,
    left: Mutex<VecDeque<Arc<Left>>>,
}

/// Work that was left behind.
struct Left {
    /// None once it is being done, or was taken back.
    work: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_done: AtomicBool,
    by: Thread,
}

/// The right to write the table.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    held: Option<MutexGuard<'a, ()>>,
}

impl Turns {
    /// Waits for the turn as long as `go_on` says so.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub(crate) fn next<E>(&self, mut go_on: impl FnMut() -> Result<(), E>) -> Result<Turn<'_>, E> {
        let mut looks = 0;
        loop {
            let held = if looks < LOOKS { self.turn.try_lock() } else { self.turn.try_lock_for(WAIT) };
            if held.is_some() {
                return Ok(Turn { turns: self, held });
            }
            match looks {
                ..LOOKS => std::thread::yield_now(),
                _ => go_on()?,
            }
            looks += 1;
        }
    }

    /// What `work` gives, done when nobody else has the turn, on this thread or on another one; it is not begun once
    /// `go_on` has said that it should not.
    ///
    /// # Errors
    /// Those of `go_on`; then the work was not done.
    ///
    /// # Panics
    /// Where the work does.
    pub(crate) fn run<T: Send + 'static, E>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<T, E> {
        if let Some(_turn) = self.try_next() {
            return Ok(work());
        }
        let result = Arc::new(Mutex::new(None));
        let to = Arc::clone(&result);
        let work = move || *to.lock() = Some(catch_unwind(AssertUnwindSafe(work)));
        let left = Arc::new(Left {
            work: Mutex::new(Some(Box::new(work))),
            is_done: AtomicBool::new(false),
            by: std::thread::current(),
        });
        self.left.lock().push_back(Arc::clone(&left));
        let mut looks = 0;
        while !left.is_done.load(Ordering::Acquire) {
            if let Some(turn) = self.try_next() {
                turn.do_others();
                continue;
            }
            match looks {
                ..LOOKS => std::thread::yield_now(),
                _ => {
                    if let Err(stopped) = go_on()
                        && left.work.lock().take().is_some()
                    {
                        return Err(stopped);
                    }
                    std::thread::park_timeout(WAIT);
                }
            }
            looks += 1;
        }
        let done = result.lock().take();
        match done {
            Some(done) => Ok(done.unwrap_or_else(|panic| resume_unwind(panic))),
            None => unreachable!("work that is done has a result"),
        }
    }

    fn try_next(&self) -> Option<Turn<'_>> {
        self.turn.try_lock().map(|held| Turn { turns: self, held: Some(held) })
    }

    fn first_left(&self) -> Option<Arc<Left>> {
        self.left.lock().front().cloned()
    }
}

impl Turn<'_> {
    /// Does what others have left behind, in its order.
    fn do_others(&self) {
        for _ in 0..OTHERS_MAX {
            let Some(left) = self.turns.left.lock().pop_front() else { return };
            let work = left.work.lock().take();
            // What was taken back is nobody's.
            if let Some(work) = work {
                work();
                left.is_done.store(true, Ordering::Release);
                left.by.unpark();
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.do_others();
        }
        drop(self.held.take());
        // What was left behind since then has nobody but who left it, who may have found the turn taken.
        if let Some(next) = self.turns.first_left() {
            next.by.unpark();
        }
    }
}

impl std::fmt::Debug for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Left").field("is_done", &self.is_done).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// Counts work; two at a time are a fault.
    #[derive(Default)]
    struct Counted {
        inside: AtomicBool,
        n: AtomicUsize,
    }

    impl Counted {
        fn work(&self) {
            assert!(!self.inside.swap(true, Relaxed), "two have the turn");
            self.n.fetch_add(1, Relaxed);
            if self.n.load(Relaxed) % 64 == 0 {
                std::thread::yield_now();
            }
            self.inside.store(false, Relaxed);
        }
    }

    #[test]
    fn work_is_done_once_and_alone_or_taken_back() {
        let (turns, counted) = (Turns::default(), Arc::new(Counted::default()));
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..6_usize {
                let (turns, counted, done) = (&turns, &counted, &done);
                scope.spawn(move || {
                    for n in 0..2000_usize {
                        let own = Arc::clone(counted);
                        let went_on = match (thread, n % 3) {
                            (0, _) => turns.next(|| Ok::<(), ()>(())).map(|_turn| own.work()),
                            (1, 0) => turns.run(move || own.work(), || Err(())),
                            _ => turns.run(move || own.work(), || Ok(())),
                        };
                        done.fetch_add(usize::from(went_on.is_ok()), Relaxed);
                    }
                });
            }
        });
        assert_eq!(counted.n.load(Relaxed), done.load(Relaxed));
        assert!(done.load(Relaxed) >= 5 * 2000);
        assert!(turns.left.lock().iter().all(|left| left.work.lock().is_none()));
    }

    #[test]
    fn a_panic_reaches_who_left_the_work() {
        let turns = Turns::default();
        let turn = turns.next(|| Ok::<(), ()>(())).unwrap();
        let failed = std::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.run(|| panic!("planted"), || Ok::<(), ()>(())));
            while turns.left.lock().is_empty() {
                std::thread::yield_now();
            }
            drop(turn);
            waits.join()
        });
        assert_eq!(sched::panic_text(failed.unwrap_err().as_ref()), "planted");
        assert_eq!(turns.run(|| 7, || Ok::<(), ()>(())), Ok(7));
    }

    #[test]
    fn who_is_stopped_while_it_waits_takes_its_work_back() {
        let turns = Turns::default();
        let turn = turns.next(|| Ok::<(), ()>(())).unwrap();
        let stopped = std::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.run(|| unreachable!("it was taken back"), || Err::<(), _>("stopped")));
            waits.join().unwrap()
        });
        drop(turn);
        assert_eq!(stopped, Err("stopped"));
    }
}
