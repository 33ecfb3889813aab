//! Who waits and who has begun, and what each kind of query has cost so far: what [`admission`](super::admission) works
//! with, which says why.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use model::job::Job;
use model::machine::{Hogs, Machine};
use model::online::{Begun, Learned, Seen, Waiting, choose};
use parking_lot::Mutex;

/// Kinds that are remembered; of more, those that ran longest ago are forgotten.
const KINDS_MAX: usize = 1024;
/// How often those that wait are looked at though nothing ended.
const LOOK: Duration = Duration::from_millis(20);
/// Of what is expected of it, what a query may take before it counts no more.
const OVER: f64 = 2.0;

/// The machine as the model has it, of equal nodes.
#[derive(Debug)]
pub(super) struct Modelled {
    pub(super) machine: Machine,
    pub(super) nodes: f64,
    /// Bytes per second of one thread alone.
    pub(super) unit: f64,
}

/// See the module; one of a database.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// There once a query has come from a session that says `model`.
    modelled: OnceLock<Option<Modelled>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<String, Kind>,
    waiting: Vec<Waiter>,
    begun: Vec<Runner>,
    next: u64,
    has_clock: bool,
}

#[derive(Debug, Default)]
struct Kind {
    learned: Learned,
    last: u64,
}

/// One that waits.
#[derive(Debug)]
struct Waiter {
    number: u64,
    job: Job,
    since: Instant,
    waker: Option<Waker>,
}

/// One that has begun.
#[derive(Debug)]
struct Runner {
    number: u64,
    job: Option<Job>,
    began: Instant,
    is_alone: bool,
}

/// What is known of a kind of query, for the view.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownJob {
    /// Its text with `?` for constants.
    pub(crate) sql: String,
    /// How often it ran.
    pub(crate) runs: u64,
    /// The job.
    pub(crate) job: Job,
    /// What it takes alone.
    pub(crate) alone_s: f64,
}

/// A query that waits, or has begun; it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    admission: Arc<Admission>,
    number: u64,
    /// Empty where nobody said what runs, as for prepared statements of sessions that do not wait.
    kind: String,
    has_begun: bool,
}

impl Admission {
    /// What memory gives, as `measure` finds it, once; `None` where that could not be found.
    pub(super) fn machine(&self, measure: impl FnOnce() -> Option<Modelled>) -> Option<&Modelled> {
        self.modelled.get_or_init(measure).as_ref()
    }

    /// The same, where somebody has asked for it.
    pub(super) fn known_machine(&self) -> Option<&Modelled> {
        self.modelled.get()?.as_ref()
    }

    /// A query of a kind comes, and waits for its turn where it is patient and its kind is known.
    pub(super) fn arrive(self: &Arc<Self>, machine: &Machine, kind: String, is_patient: bool) -> Ticket {
        let mut woken = Vec::new();
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        match state.known.get(&kind).and_then(|kind| kind.learned.job(machine)) {
            Some(job) if is_patient => {
                state.waiting.push(Waiter { number, job, since: Instant::now(), waker: None });
                woken = state.let_in(machine);
            }
            job => state.begin(number, job),
        }
        if !state.waiting.is_empty() && !state.has_clock {
            state.has_clock = clock(self);
            if !state.has_clock {
                // Without a thread that looks nobody may wait.
                let all: Vec<u64> = state.waiting.iter().map(|waiter| waiter.number).collect();
                woken.extend(state.begin_those(&all));
            }
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        Ticket { admission: Arc::clone(self), number, kind, has_begun: false }
    }

    /// What is known, by text.
    pub(crate) fn known(&self) -> Vec<KnownJob> {
        let Some(of) = self.known_machine() else { return Vec::new() };
        let state = self.state.lock();
        let known = state.known.iter().filter_map(|(sql, kind)| {
            let job = kind.learned.job(&of.machine)?;
            let alone_s = of.machine.time_s(&job, of.machine.cpus, Hogs::default());
            Some(KnownJob { sql: sql.clone(), runs: kind.learned.runs, job, alone_s })
        });
        let mut known: Vec<KnownJob> = known.collect();
        known.sort_by(|a, b| a.sql.cmp(&b.sql));
        known
    }

    /// Lets in whoever may begin by now, and has all others look whether they were stopped; whether anybody waits.
    fn look(&self) -> bool {
        let mut state = self.state.lock();
        let mut woken = self.known_machine().map_or_else(Vec::new, |of| state.let_in(&of.machine));
        woken.extend(state.waiting.iter_mut().filter_map(|waiter| waiter.waker.take()));
        state.has_clock = !state.waiting.is_empty();
        let goes_on = state.has_clock;
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        goes_on
    }
}

impl State {
    fn begin(&mut self, number: u64, job: Option<Job>) {
        let is_alone = self.begun.is_empty();
        self.begun.iter_mut().for_each(|other| other.is_alone = false);
        self.begun.push(Runner { number, job, began: Instant::now(), is_alone });
    }

    /// Lets in whoever may begin by now; whom to wake.
    fn let_in(&mut self, machine: &Machine) -> Vec<Waker> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let begun = self.begun.iter().filter_map(|runner| {
            let job = runner.job.clone()?;
            let share = runner.began.elapsed().as_secs_f64() / machine.time_s(&job, machine.cpus, Hogs::default());
            (share < OVER).then(|| Begun { job, left: (1.0 - share).max(0.01) })
        });
        let begun: Vec<Begun> = begun.collect();
        let waits =
            |waiter: &Waiter| Waiting { job: waiter.job.clone(), waited_s: waiter.since.elapsed().as_secs_f64() };
        let waiting: Vec<Waiting> = self.waiting.iter().map(waits).collect();
        let numbers: Vec<u64> =
            choose(machine, &begun, &waiting).begin.into_iter().map(|place| self.waiting[place].number).collect();
        self.begin_those(&numbers)
    }

    fn begin_those(&mut self, numbers: &[u64]) -> Vec<Waker> {
        let mut woken = Vec::new();
        for number in numbers {
            let Some(place) = self.waiting.iter().position(|waiter| waiter.number == *number) else { continue };
            let waiter = self.waiting.remove(place);
            self.begin(*number, Some(waiter.job));
            woken.extend(waiter.waker);
        }
        woken
    }
}

impl Ticket {
    /// Ready once the query has begun: whether that is news.
    pub(super) fn poll_begun(&mut self, cx: &Context<'_>) -> Poll<bool> {
        if self.has_begun {
            return Poll::Ready(false);
        }
        let mut state = self.admission.state.lock();
        if let Some(waiter) = state.waiting.iter_mut().find(|waiter| waiter.number == self.number) {
            waiter.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.has_begun = true;
        Poll::Ready(true)
    }

    /// The query has given its last row: so many bytes were touched, and threads were busy for so long.
    pub(super) fn ended(&self, bytes: u64, busy_ns: u64) {
        let Some(of) = self.admission.known_machine().filter(|_| !self.kind.is_empty()) else { return };
        let mut state = self.admission.state.lock();
        let Some(runner) = state.begun.iter().find(|runner| runner.number == self.number) else { return };
        let seen = Seen {
            busy_s: busy_ns as f64 * 1e-9 / of.nodes,
            traffic_s: bytes as f64 / of.unit / of.nodes,
            elapsed_s: runner.began.elapsed().as_secs_f64(),
            is_alone: runner.is_alone,
        };
        if state.known.len() >= KINDS_MAX && !state.known.contains_key(&self.kind) {
            let oldest = state.known.iter().min_by_key(|(_, kind)| kind.last).map(|(text, _)| text.clone());
            oldest.map(|oldest| state.known.remove(&oldest));
        }
        let kind = state.known.entry(self.kind.clone()).or_default();
        kind.last = self.number;
        kind.learned.observe(&of.machine, &seen);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.admission.state.lock();
        state.waiting.retain(|waiter| waiter.number != self.number);
        state.begun.retain(|runner| runner.number != self.number);
        let of = self.admission.known_machine();
        let woken = of.map_or_else(Vec::new, |of| state.let_in(&of.machine));
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Has a thread look as long as somebody waits; whether there is one.
fn clock(admission: &Arc<Admission>) -> bool {
    let weak: Weak<Admission> = Arc::downgrade(admission);
    let thread = std::thread::Builder::new().name("nearside-admission".into());
    let looks = move || {
        loop {
            std::thread::sleep(LOOK);
            let Some(admission) = weak.upgrade() else { return };
            if !admission.look() {
                return;
            }
        }
    };
    thread.spawn(looks).is_ok()
}
