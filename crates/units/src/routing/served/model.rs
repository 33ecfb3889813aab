//! Waiting under loom: a sender that sleeps until it is answered, beside who has the token for something else.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p nearside-units --lib model`, in a build folder of its own. A wake-up
//! that is lost is a deadlock, which loom finds.

use loom::sync::Arc;
use loom::thread;

use super::super::inbox::tests::{Heap, heap};
use super::*;

const PREEMPTIONS: usize = 3;

// Who has a token looks into the inbox while it has it: loom switches threads where two touch the same, which giving a
// lock back is not.

/// What senders wait for.
struct Answers {
    answered: AtomicU64,
    waiter: Waiter,
}

impl Answers {
    fn new() -> Answers {
        Answers { answered: AtomicU64::new(0), waiter: Waiter::new() }
    }
}

impl Executes<()> for Answers {
    fn execute(&self, (): &mut (), words: &[AtomicU64]) {
        self.answered.fetch_add(words.len() as u64, Ordering::AcqRel);
        self.waiter.wake();
    }
}

type Shared = Arc<(Served<Heap, ()>, Answers)>;

fn shared() -> Shared {
    Arc::new((Served::new(heap(2), ()), Answers::new()))
}

fn send_and_sleep((served, answers): &(Served<Heap, ()>, Answers), until: u64) {
    let write = |words: &[AtomicU64]| words.iter().for_each(|word| word.store(1, Ordering::Relaxed));
    served.inbox().append(1, write).expect("there is room");
    served.run(answers);
    answers.waiter.sleep(|| answers.answered.load(Ordering::Acquire) >= until);
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn a_sender_that_sleeps_is_woken() {
    check(PREEMPTIONS, || {
        let shared = shared();
        let other = Arc::clone(&shared);
        let holder = thread::spawn(move || {
            let token = other.0.token(&other.1);
            other.0.inbox().is_empty();
            drop(token);
        });
        send_and_sleep(&shared, 1);
        holder.join().expect("the holder");
        assert!(shared.0.inbox().is_empty());
    });
}

#[test]
fn of_two_senders_each_is_woken() {
    check(2, || {
        let shared = shared();
        let other = Arc::clone(&shared);
        // Both wait for both, so each may have to be woken by the other.
        let sender = thread::spawn(move || send_and_sleep(&other, 2));
        send_and_sleep(&shared, 2);
        sender.join().expect("the other sender");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn who_gives_the_token_back_without_looking_is_found() {
    check(PREEMPTIONS, || {
        let shared = shared();
        let other = Arc::clone(&shared);
        let holder = thread::spawn(move || {
            let turn = locked(&other.0.turn);
            other.0.inbox().is_empty();
            drop(turn);
        });
        send_and_sleep(&shared, 1);
        holder.join().expect("the holder");
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn who_answers_without_waking_is_found() {
    struct Silent(Answers);
    impl Executes<()> for Silent {
        fn execute(&self, (): &mut (), words: &[AtomicU64]) {
            self.0.answered.fetch_add(words.len() as u64, Ordering::AcqRel);
        }
    }
    check(PREEMPTIONS, || {
        let shared = Arc::new((Served::new(heap(2), ()), Silent(Answers::new())));
        let other = Arc::clone(&shared);
        let holder = thread::spawn(move || {
            let token = other.0.token(&other.1);
            other.0.inbox().is_empty();
            drop(token);
        });
        let (served, silent) = &*shared;
        served.inbox().append(1, |words| words[0].store(1, Ordering::Relaxed)).expect("there is room");
        served.run(silent);
        silent.0.waiter.sleep(|| silent.0.answered.load(Ordering::Acquire) == 1);
        holder.join().expect("the holder");
    });
}
