//! Whose turn it is to write a table: one statement at a time.
//!
//! A session that finds the turn taken leaves what it has to do behind, and whoever has the turn does it before giving
//! the turn back (flat combining: Hendler et al., SPAA 2010). So the table's lock and the newest lines of its delta
//! stay in the caches of one cpu, where handing them from cpu to cpu costs about as much as a small write.
//!
//! Invariants: work is done once, or taken back by who left it and never done; work that is left behind is done by
//! somebody although everybody sleeps: who gives the turn back wakes the first that waits, and who has left work behind
//! tries to get the turn before it sleeps. A panic in work reaches who left it. Work may also be left for good
//! ([`WriteTurns::leave`]), by who must not wait.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// How long a statement sleeps at most before it looks whether it was cancelled.
const WAIT: Duration = Duration::from_millis(20);

/// How often a statement looks whether it is its turn before it falls asleep: a small write takes less time than
/// falling asleep and being woken.
const LOOKS: usize = 50;

/// How much work of others a session does before it gives the turn back: about 200 us of small writes, which it waits
/// for after its own.
const OTHERS_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WriteTurns {
    turn: Mutex<()>,
    left: Mutex<VecDeque<Arc<Left>>>,
}

/// Work that was left behind.
struct Left {
    /// None once it is being done, or was taken back.
    work: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_done: AtomicBool,
    /// Who waits for it; nobody where it was left for good.
    by: Option<Thread>,
}

/// The right to write the table.
#[derive(Debug)]
pub(crate) struct WriteTurn<'a> {
    turns: &'a WriteTurns,
    held: Option<MutexGuard<'a, ()>>,
}

impl WriteTurns {
    /// Waits for the turn as long as `go_on` says so.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub(crate) fn next<E>(&self, mut go_on: impl FnMut() -> Result<(), E>) -> Result<WriteTurn<'_>, E> {
        let mut looks = 0;
        loop {
            let held = if looks < LOOKS { self.turn.try_lock() } else { self.turn.try_lock_for(WAIT) };
            if held.is_some() {
                return Ok(WriteTurn { turns: self, held });
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
            by: Some(std::thread::current()),
        });
        self.left.lock().push_back(Arc::clone(&left));
        let mut looks = 0;
        while !left.is_done.load(Ordering::Acquire) {
            // Giving the turn back does what was left behind.
            if self.try_next().is_some() {
                continue;
            }
            match looks {
                ..LOOKS => std::thread::yield_now(),
                _ => {
                    if let Err(stopped) = go_on()
                        && left.work.lock().take().is_some()
                    {
                        // Who is behind it is to be woken in its place.
                        self.left.lock().retain(|of| !Arc::ptr_eq(of, &left));
                        // It may be that nobody else looks for it any more.
                        drop(self.try_next());
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

    /// Has `work` done when nobody else has the turn: at once on this thread, or by who has the turn before that one
    /// gives it back. Waits for nobody. A panic in it ends there. Who has the turn and panics leaves it to the next
    /// one.
    pub(crate) fn leave(&self, work: impl FnOnce() + Send + 'static) {
        let work = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                tracing::error!("work that was left behind failed: {}", sched::panic_text(panic.as_ref()));
            }
        };
        let left = Left { work: Mutex::new(Some(Box::new(work))), is_done: AtomicBool::new(false), by: None };
        self.left.lock().push_back(Arc::new(left));
        // Who had the turn may have looked before.
        drop(self.try_next());
    }

    fn try_next(&self) -> Option<WriteTurn<'_>> {
        self.turn.try_lock().map(|held| WriteTurn { turns: self, held: Some(held) })
    }

    fn first_left(&self) -> Option<Arc<Left>> {
        self.left.lock().front().cloned()
    }
}

impl WriteTurn<'_> {
    /// Does what others have left behind, in its order.
    fn do_others(&self) {
        for _ in 0..OTHERS_MAX {
            let Some(left) = self.turns.left.lock().pop_front() else { return };
            let work = left.work.lock().take();
            // What was taken back is nobody's.
            if let Some(work) = work {
                work();
                left.is_done.store(true, Ordering::Release);
                if let Some(by) = &left.by {
                    by.unpark();
                }
            }
        }
    }
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.do_others();
        }
        drop(self.held.take());
        // What was left behind since then has nobody but who left it, who may have found the turn taken.
        if let Some(next) = self.turns.first_left() {
            match &next.by {
                Some(by) => by.unpark(),
                // The next one to have the turn does it.
                None if std::thread::panicking() => {}
                // Nobody waits for it: whoever has the turn by now does it, or else this thread.
                None => drop(self.turns.try_next()),
            }
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
            if self.n.load(Relaxed).is_multiple_of(64) {
                std::thread::yield_now();
            }
            self.inside.store(false, Relaxed);
        }
    }

    #[test]
    fn work_is_done_once_and_alone_or_taken_back() {
        let (turns, counted) = (WriteTurns::default(), Arc::new(Counted::default()));
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
        assert!(turns.left.lock().is_empty());
    }

    /// Nobody waits for it, and it is done once although those that have the turn come and go.
    #[test]
    fn work_that_is_left_for_good_is_done_once() {
        let (turns, counted) = (Arc::new(WriteTurns::default()), Arc::new(Counted::default()));
        std::thread::scope(|scope| {
            for thread in 0..5_usize {
                let (turns, counted) = (&turns, &counted);
                scope.spawn(move || {
                    for n in 0..2000_usize {
                        let own = Arc::clone(counted);
                        match (thread + n) % 3 {
                            0 => turns.next(|| Ok::<(), ()>(())).map(|_turn| own.work()).unwrap(),
                            1 => turns.run(move || own.work(), || Ok::<(), ()>(())).unwrap(),
                            _ => turns.leave(move || own.work()),
                        }
                    }
                });
            }
        });
        assert_eq!((counted.n.load(Relaxed), turns.left.lock().len()), (10_000, 0));
        let turn = turns.next(|| Ok::<(), ()>(())).unwrap();
        turns.leave(|| panic!("planted"));
        let own = Arc::clone(&counted);
        turns.leave(move || own.work());
        assert_eq!(counted.n.load(Relaxed), 10_000);
        drop(turn);
        assert_eq!(counted.n.load(Relaxed), 10_001);
    }

    #[test]
    fn a_panic_reaches_who_left_the_work() {
        let turns = WriteTurns::default();
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
        let turns = WriteTurns::default();
        let turn = turns.next(|| Ok::<(), ()>(())).unwrap();
        let stopped = std::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.run(|| unreachable!("it was taken back"), || Err::<(), _>("stopped")));
            waits.join().unwrap()
        });
        drop(turn);
        assert_eq!(stopped, Err("stopped"));
    }

    /// Who took its work back neither has its place kept nor its thread woken.
    #[test]
    fn who_waits_behind_work_that_was_taken_back_is_woken() {
        let (turns, stops) = (WriteTurns::default(), AtomicBool::new(false));
        let turn = turns.next(|| Ok::<(), ()>(())).unwrap();
        std::thread::scope(|scope| {
            let left = |n: usize| {
                while turns.left.lock().len() != n {
                    std::thread::yield_now();
                }
            };
            let stops = &stops;
            let until_stopped = || if stops.load(Relaxed) { Err(()) } else { Ok(()) };
            let turns = &turns;
            let first = scope.spawn(move || turns.run(|| unreachable!("it was taken back"), until_stopped));
            left(1);
            let second = scope.spawn(|| turns.run(|| 2, || Ok::<(), ()>(())));
            left(2);
            stops.store(true, Relaxed);
            left(1);
            assert_eq!(first.join().unwrap(), Err::<(), ()>(()));
            drop(turn);
            assert_eq!(second.join().unwrap(), Ok(2));
        });
    }
}
