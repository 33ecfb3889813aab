//! Who waits and who has begun. Times are given: nothing here looks at a clock.
//!
//! # Invariants
//! Whoever leaves is in neither list. Of those that have begun the first that counts makes progress: once what it has
//! been charged with stays the same for longer than it should take, it counts no more until that changes.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use exec::Traffic;
use model::job::Job;
use model::online::{Begun, Waiting};

/// Of what a query takes alone, for how long it may make no progress as the first of those that have begun.
const STALLED: f64 = 2.0;
/// And at least so long: some tasks are not told of before they end.
const STALLED_MIN: Duration = Duration::from_millis(50);

/// What is expected of a query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    pub(super) job: Job,
    /// What it takes alone, in seconds.
    pub(super) alone_s: f64,
    /// Seconds of one thread that it keeps threads busy.
    pub(super) busy_s: f64,
}

/// A query as it comes.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) number: u64,
    pub(super) statement: Arc<sched::Statement>,
    /// What its tasks are charged with.
    pub(super) traffic: Arc<Traffic>,
    /// `None` where its kind has not run yet.
    pub(super) expected: Option<Expected>,
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) of: Arrival,
    pub(super) expected: Expected,
    pub(super) since: Instant,
    pub(super) waker: Option<Waker>,
}

/// One that has begun.
#[derive(Debug)]
struct Runner {
    of: Arrival,
    began: Instant,
    /// Nobody else has begun since, or was there.
    is_alone: bool,
    busy_ns: u64,
    /// When that was last seen to change.
    changed: Instant,
    is_stalled: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: Vec<Waiter>,
    begun: Vec<Runner>,
    /// The first of those that have begun and count, and since when.
    first: Option<(u64, Instant)>,
}

impl Queue {
    /// A query waits from now on.
    pub(super) fn wait(&mut self, of: Arrival, expected: Expected, now: Instant) {
        self.waiting.push(Waiter { of, expected, since: now, waker: None });
    }

    /// A query begins; `is_lone` where the scheduler has no other statement.
    pub(super) fn begin(&mut self, of: Arrival, is_lone: bool, now: Instant) {
        let is_alone = is_lone && self.begun.is_empty();
        self.begun.iter_mut().for_each(|other| other.is_alone = false);
        self.begun.push(Runner { of, began: now, is_alone, busy_ns: 0, changed: now, is_stalled: false });
    }

    /// The same of one that waited, if it does; its waker.
    pub(super) fn begin_waiting(&mut self, number: u64, is_lone: bool, now: Instant) -> Option<Waker> {
        let place = self.waiting.iter().position(|waiter| waiter.of.number == number)?;
        let waiter = self.waiting.remove(place);
        self.begin(Arrival { expected: Some(waiter.expected), ..waiter.of }, is_lone, now);
        waiter.waker
    }

    /// A query waits and begins no more.
    pub(super) fn leave(&mut self, number: u64) {
        self.waiting.retain(|waiter| waiter.of.number != number);
        self.begun.retain(|runner| runner.of.number != number);
    }

    /// Whether a query that has begun was alone all the time; `None` where it has not begun.
    pub(super) fn was_alone(&self, number: u64) -> Option<bool> {
        self.begun.iter().find(|runner| runner.of.number == number).map(|runner| runner.is_alone)
    }

    /// Those that count as begun: of a kind that is known, and going on.
    pub(super) fn counted(&mut self, now: Instant) -> Vec<Begun> {
        for runner in &mut self.begun {
            let busy_ns = runner.of.traffic.busy_ns();
            if busy_ns != runner.busy_ns {
                (runner.busy_ns, runner.changed, runner.is_stalled) = (busy_ns, now, false);
            }
        }
        self.find_stalled(now);
        let counted = self.begun.iter().filter(|runner| !runner.is_stalled).filter_map(|runner| {
            let expected = runner.of.expected.as_ref()?;
            let done = runner.busy_ns as f64 * 1e-9 / expected.busy_s.max(f64::MIN_POSITIVE);
            let since_s = now.saturating_duration_since(runner.began).as_secs_f64();
            Some(Begun { job: expected.job.clone(), left: (1.0 - done).clamp(0.01, 1.0), since_s })
        });
        counted.collect()
    }

    /// Tasks of older statements go first, so who has begun later may have to wait: only the first one has to go on.
    fn find_stalled(&mut self, now: Instant) {
        while let Some((runner, expected)) = (self.begun.iter_mut().filter(|runner| !runner.is_stalled))
            .find_map(|runner| runner.of.expected.clone().map(|expected| (runner, expected)))
        {
            let number = runner.of.number;
            let since = match self.first {
                Some((first, since)) if first == number => since,
                _ => now,
            };
            self.first = Some((number, since));
            let limit = Duration::try_from_secs_f64(STALLED * expected.alone_s).unwrap_or(Duration::MAX);
            if now.saturating_duration_since(since.max(runner.changed)) <= limit.max(STALLED_MIN) {
                return;
            }
            runner.is_stalled = true;
        }
        self.first = None;
    }

    /// Those that wait, in the order of their arrival, and their numbers.
    pub(super) fn waiting(&self, now: Instant) -> (Vec<u64>, Vec<Waiting>) {
        let waits = |waiter: &Waiter| {
            let waited_s = now.saturating_duration_since(waiter.since).as_secs_f64();
            let expected = &waiter.expected;
            (waiter.of.number, Waiting { job: expected.job.clone(), alone_s: expected.alone_s, waited_s })
        };
        self.waiting.iter().map(waits).unzip()
    }
}

#[cfg(test)]
mod tests {
    use exec::Traffic;
    use numa::Budget;

    use super::*;

    fn expected(alone_s: f64) -> Expected {
        Expected { job: Job { t_s: 2.0 * alone_s, ..Job::default() }, alone_s, busy_s: 2.0 * alone_s }
    }

    fn arrival(number: u64, alone_s: Option<f64>) -> Arrival {
        let statement = sched::Statement::new(number, Budget::unlimited());
        Arrival { number, statement, traffic: Arc::new(Traffic::of_all(1)), expected: alone_s.map(expected) }
    }

    fn at(begin: Instant, ms: u64) -> Instant {
        begin + Duration::from_millis(ms)
    }

    #[test]
    fn who_makes_no_progress_counts_no_more_and_the_next_one_has_its_time() {
        let (mut queue, begin) = (Queue::default(), Instant::now());
        queue.begin(arrival(1, Some(0.1)), true, begin);
        queue.begin(arrival(2, Some(0.1)), true, begin);
        queue.begin(arrival(3, None), true, begin);
        let mut counted = |ms| queue.counted(at(begin, ms)).len();
        assert_eq!(counted(0), 2, "nothing is known of the third");
        assert_eq!(counted(200), 2);
        assert_eq!(counted(201), 1);
        assert_eq!(counted(400), 1, "the second one was behind the first until then");
        assert_eq!(counted(402), 0);
        queue.leave(1);
        queue.leave(2);
        queue.leave(3);
        assert!(queue.begun.is_empty());
    }

    #[test]
    fn a_run_is_alone_where_nobody_else_was_there() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.begin(arrival(1, None), false, now);
        assert_eq!(queue.was_alone(1), Some(false), "the scheduler had another");
        queue.leave(1);
        queue.begin(arrival(2, None), true, now);
        assert_eq!(queue.was_alone(2), Some(true));
        queue.wait(arrival(3, None), expected(1.0), now);
        assert_eq!((queue.was_alone(2), queue.was_alone(3)), (Some(true), None));
        assert_eq!(queue.waiting(at(now, 500)).1[0].waited_s, 0.5);
        assert!(queue.begin_waiting(3, true, now).is_none(), "nobody has asked yet");
        assert_eq!((queue.was_alone(2), queue.was_alone(3)), (Some(false), Some(false)));
        assert!(queue.waiting(now).0.is_empty());
    }
}
