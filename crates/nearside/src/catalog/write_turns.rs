//! Who may write a table: several statements of few rows beside each other, or one alone.
//!
//! Statements that write rows of a delta *share* the turn: what keeps them from changing the same row or key is in the
//! delta and in the units. Who changes more than the delta (many rows, columns, placement), or puts a merge in its
//! place, has the turn *alone*: it begins when the last that shares has ended, and none begins before it. Work may be
//! left for good ([`WriteTurns::leave`]) by who must not wait, a worker: whoever gives the turn back last does it,
//! alone.
//!
//! Nobody waits for ever. Who would share waits for one turn alone: when it ends, all who wait to share by then are let
//! in before the next one. Of those who wait to be alone any may be next, since one that looks takes less time than one
//! that has to be woken; but who was passed over [`PASSED_OVER_MAX`] times is next.
//!
//! Invariants: nobody has the turn beside who has it alone; work that is left behind is done once, by somebody,
//! although everybody sleeps: it is done before the turn is given back, and who comes while some is left and nobody has
//! the turn does it first. A panic in it ends there.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// How long a statement sleeps at most before it looks whether it was cancelled.
const WAIT: Duration = Duration::from_millis(20);
/// How often a statement looks whether it is its turn before it falls asleep: a small write takes less time than
/// falling asleep and being woken.
const LOOKS: usize = 50;
/// How many turns alone go to others while one waits for its own.
const PASSED_OVER_MAX: u64 = 16;

type Work = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WriteTurns {
    state: Mutex<State>,
    /// The turn was given back, or somebody who waited for it alone does so no more.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many share the turn.
    sharing: usize,
    is_alone: bool,
    /// Turns alone that have ended.
    ended: u64,
    /// Those who wait to be alone, in the order in which they came: how many turns had ended then, and a number.
    waiting_alone: VecDeque<(u64, u64)>,
    /// How many came to wait to be alone.
    numbered: u64,
    /// How many wait to share.
    waiting_shared: usize,
    /// How many of those are let in before anybody is alone again.
    let_in: usize,
    left: VecDeque<Work>,
}

/// The right to write the table alone.
#[derive(Debug)]
pub(crate) struct WriteTurn<'a>(&'a WriteTurns);

/// The right to write rows of its delta beside others.
#[derive(Debug)]
pub(crate) struct SharedTurn<'a>(&'a WriteTurns);

impl State {
    fn is_free(&self) -> bool {
        self.sharing == 0 && !self.is_alone
    }

    /// Whether who waits to be alone with this number may be.
    fn may_be_alone(&self, number: u64) -> bool {
        let is_next = match self.waiting_alone.front() {
            Some((since, first)) if self.ended - since >= PASSED_OVER_MAX => *first == number,
            _ => true,
        };
        is_next && self.is_free() && self.let_in == 0
    }

    /// Whether who came to share when so many turns alone had ended may do so.
    fn may_share(&self, since: u64) -> bool {
        let was_let_in = since < self.ended;
        !self.is_alone && self.left.is_empty() && (was_let_in || self.waiting_alone.is_empty())
    }
}

impl WriteTurns {
    /// Waits to have the turn alone, as long as `go_on` says so.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub(crate) fn next<E>(&self, go_on: impl FnMut() -> Result<(), E>) -> Result<WriteTurn<'_>, E> {
        let mut state = self.state.lock();
        let number = state.numbered;
        state.numbered += 1;
        let since = state.ended;
        state.waiting_alone.push_back((since, number));
        let waited = self.wait(&mut state, |state| state.may_be_alone(number), go_on);
        state.waiting_alone.retain(|(_, other)| *other != number);
        match waited {
            Ok(()) => state.is_alone = true,
            // Others may have waited for this one.
            Err(_) => {
                self.changed.notify_all();
            }
        }
        waited.map(|()| WriteTurn(self))
    }

    /// Waits to have the turn beside others, as long as `go_on` says so.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub(crate) fn share<E>(&self, go_on: impl FnMut() -> Result<(), E>) -> Result<SharedTurn<'_>, E> {
        let mut state = self.state.lock();
        let since = state.ended;
        state.waiting_shared += 1;
        let waited = self.wait(&mut state, |state| state.may_share(since), go_on);
        state.waiting_shared -= 1;
        if since < state.ended {
            // Nobody was alone since it was let in.
            state.let_in -= 1;
        }
        match waited {
            Ok(()) => state.sharing += 1,
            Err(_) => {
                self.changed.notify_all();
            }
        }
        waited.map(|()| SharedTurn(self))
    }

    /// How many wait to have the turn alone, and how many to share it.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.waiting_alone.len(), state.waiting_shared)
    }

    /// Has `work` done when nobody else has the turn: at once on this thread, or by who gives the turn back. Waits for
    /// nobody. A panic in it ends there. Who has the turn and panics leaves it to the next one.
    pub(crate) fn leave(&self, work: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.left.push_back(Box::new(work));
        if state.is_free() {
            self.do_left(&mut state);
        }
    }

    /// Waits for `is_ready`, doing what was left behind where nobody else will.
    fn wait<E>(
        &self,
        state: &mut MutexGuard<'_, State>,
        is_ready: impl Fn(&State) -> bool,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut looks = 0;
        loop {
            if state.is_free() && !state.left.is_empty() {
                self.do_left(state);
            }
            if is_ready(state) {
                return Ok(());
            }
            if looks < LOOKS {
                MutexGuard::unlocked(state, std::thread::yield_now);
            } else {
                MutexGuard::unlocked(state, &mut go_on)?;
                // It may be ready by now.
                if !is_ready(state) {
                    self.changed.wait_for(state, WAIT);
                }
            }
            looks += 1;
        }
    }

    /// Does what was left behind, alone, as who has the turn free.
    fn do_left(&self, state: &mut MutexGuard<'_, State>) {
        state.is_alone = true;
        while let Some(work) = state.left.pop_front() {
            MutexGuard::unlocked(state, || {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                    tracing::error!("work that was left behind failed: {}", sched::panic_text(panic.as_ref()));
                }
            });
        }
        state.is_alone = false;
        self.changed.notify_all();
    }

    /// The turn was given back.
    fn given_back(&self, state: &mut MutexGuard<'_, State>) {
        if !state.is_free() {
            return;
        }
        match state.left.is_empty() || std::thread::panicking() {
            true => {
                self.changed.notify_all();
            }
            false => self.do_left(state),
        }
    }
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_alone = false;
        state.ended += 1;
        state.let_in = state.waiting_shared;
        self.0.given_back(&mut state);
    }
}

impl Drop for SharedTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.sharing -= 1;
        self.0.given_back(&mut state);
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("sharing", &self.sharing)
            .field("is_alone", &self.is_alone)
            .field("waiting_alone", &self.waiting_alone.len())
            .field("waiting_shared", &self.waiting_shared)
            .field("let_in", &self.let_in)
            .field("left", &self.left.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    use super::*;

    fn goes() -> Result<(), Infallible> {
        Ok(())
    }

    /// Who is inside, and what was done.
    #[derive(Default)]
    struct Counted {
        sharing: AtomicUsize,
        is_alone: AtomicBool,
        done: AtomicUsize,
        most_sharing: AtomicUsize,
    }

    impl Counted {
        fn alone(&self) {
            assert!(!self.is_alone.swap(true, SeqCst), "two are alone");
            assert_eq!(self.sharing.load(SeqCst), 0, "one is alone beside others");
            self.yield_now_and_then();
            self.is_alone.store(false, SeqCst);
        }

        fn shared(&self) {
            let sharing = self.sharing.fetch_add(1, SeqCst) + 1;
            assert!(!self.is_alone.load(SeqCst), "one shares beside who is alone");
            self.most_sharing.fetch_max(sharing, SeqCst);
            self.yield_now_and_then();
            self.sharing.fetch_sub(1, SeqCst);
        }

        fn yield_now_and_then(&self) {
            if self.done.fetch_add(1, SeqCst).is_multiple_of(16) {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn one_is_alone_or_several_share_and_what_is_left_is_done_once() {
        let (turns, counted) = (Arc::new(WriteTurns::default()), Arc::new(Counted::default()));
        std::thread::scope(|scope| {
            for thread in 0..6_usize {
                let (turns, counted) = (&turns, &counted);
                scope.spawn(move || {
                    for n in 0..2000_usize {
                        match (thread + n) % 6 {
                            0 => {
                                let Ok(_turn) = turns.next(goes);
                                counted.alone();
                            }
                            1 => {
                                let own = Arc::clone(counted);
                                turns.leave(move || own.alone());
                            }
                            _ => {
                                let Ok(_turn) = turns.share(goes);
                                counted.shared();
                            }
                        }
                    }
                });
            }
        });
        assert_eq!((counted.done.load(SeqCst), turns.state.lock().left.len()), (12_000, 0));
        assert!(counted.most_sharing.load(SeqCst) > 1, "nobody shared");
    }

    #[test]
    fn who_waits_to_be_alone_comes_before_those_who_would_share() {
        let turns = WriteTurns::default();
        let Ok(first) = turns.share(goes);
        let Ok(second) = turns.share(goes);
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| drop(turns.next(goes)));
            while turns.state.lock().waiting_alone.is_empty() {
                std::thread::yield_now();
            }
            // Nobody else begins to share, who is stopped meanwhile neither.
            assert!(turns.share(|| Err(())).is_err());
            drop(first);
            assert!(turns.share(|| Err(())).is_err());
            drop(second);
            alone.join().unwrap();
        });
        let Ok(_turn) = turns.share(goes);
    }

    /// Statements that write alone, one behind the other, and others that would share, which wait for one turn each.
    #[test]
    fn who_would_share_waits_for_one_turn_alone() {
        let (turns, order) = (WriteTurns::default(), Mutex::new(Vec::new()));
        let Ok(first) = turns.next(goes);
        std::thread::scope(|scope| {
            let (turns, order) = (&turns, &order);
            for _ in 0..3 {
                scope.spawn(|| {
                    let Ok(_turn) = turns.next(goes);
                    order.lock().push("alone");
                });
            }
            let shared = |number: usize| {
                scope.spawn(|| {
                    let Ok(_turn) = turns.share(goes);
                    order.lock().push("shared");
                });
                while turns.state.lock().waiting_shared < number {
                    std::thread::yield_now();
                }
            };
            while turns.state.lock().waiting_alone.len() < 3 {
                std::thread::yield_now();
            }
            (1..=2).for_each(shared);
            // One that is stopped is not waited for.
            assert!(turns.share(|| Err(())).is_err());
            drop(first);
        });
        assert_eq!(order.into_inner(), ["shared", "shared", "alone", "alone", "alone"]);
        let state = turns.state.lock();
        assert!(state.is_free() && state.let_in == 0 && state.waiting_shared == 0 && state.waiting_alone.is_empty());
    }

    #[test]
    fn sharers_and_statements_alone_hold_each_other_up_for_a_bounded_time() {
        let turns = WriteTurns::default();
        let (is_over, begin) = (AtomicBool::new(false), std::time::Instant::now());
        let (alone, shared) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (turns, is_over, alone, shared) = (&turns, &is_over, &alone, &shared);
                scope.spawn(move || {
                    while !is_over.load(SeqCst) {
                        if thread < 3 {
                            let Ok(_turn) = turns.next(goes);
                            alone.fetch_add(1, SeqCst);
                        } else {
                            let Ok(_turn) = turns.share(goes);
                            shared.fetch_add(1, SeqCst);
                        }
                        // Both kinds come again at once.
                        let is_enough = alone.load(SeqCst) > 500 && shared.load(SeqCst) > 500;
                        if is_enough || begin.elapsed() > Duration::from_secs(60) {
                            is_over.store(true, SeqCst);
                        }
                    }
                });
            }
        });
        let turns = (alone.into_inner(), shared.into_inner());
        assert!(turns.0 > 500 && turns.1 > 500, "{turns:?}");
    }

    #[test]
    fn who_was_passed_over_often_is_next() {
        let waiting_alone = VecDeque::from([(3, 1), (9, 2)]);
        let mut state = State { waiting_alone, ended: 3 + PASSED_OVER_MAX - 1, ..State::default() };
        assert!(state.may_be_alone(1) && state.may_be_alone(2));
        state.ended += 1;
        assert!(state.may_be_alone(1) && !state.may_be_alone(2));
        state.let_in = 1;
        assert!(!state.may_be_alone(1));
    }

    #[test]
    fn who_is_stopped_while_it_waits_holds_nobody_up() {
        let turns = WriteTurns::default();
        let Ok(shared) = turns.share(goes);
        assert!(turns.next(|| Err(())).is_err());
        let Ok(other) = turns.share(goes);
        drop((shared, other));
        let Ok(alone) = turns.next(goes);
        assert!(turns.share(|| Err(())).is_err() && turns.next(|| Err(())).is_err());
        drop(alone);
        assert!(turns.state.lock().is_free());
    }

    /// What is left is done at once where nobody has the turn, else by the last who gives it back; a panic in it, and
    /// one of who has the turn, harm nobody else.
    #[test]
    fn what_is_left_survives_panics() {
        let (turns, done) = (Arc::new(WriteTurns::default()), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let done = Arc::clone(&done);
            move || {
                done.fetch_add(1, SeqCst);
            }
        };
        turns.leave(work());
        assert_eq!(done.load(SeqCst), 1);
        let (Ok(first), Ok(second)) = (turns.share(goes), turns.share(goes));
        turns.leave(|| panic!("planted"));
        turns.leave(work());
        drop(first);
        assert_eq!(done.load(SeqCst), 1);
        drop(second);
        assert_eq!(done.load(SeqCst), 2);
        let of_who_panics = Arc::clone(&turns);
        let own = work();
        let panicked = std::thread::spawn(move || {
            let Ok(_turn) = of_who_panics.next(goes);
            of_who_panics.leave(own);
            panic!("planted");
        });
        assert!(panicked.join().is_err());
        assert_eq!(done.load(SeqCst), 2);
        let Ok(_turn) = turns.share(goes);
        assert_eq!(done.load(SeqCst), 3);
    }
}
