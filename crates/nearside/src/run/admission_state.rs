//! What [`admission`](super::admission), which says why, works with: the queries that wait and have begun, and what
//! each kind of query has cost so far.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use exec::Traffic;
use model::job::Job;
use model::machine::Machine;
use model::online::{Learned, Seen, alone_s, choose};
use parking_lot::{Mutex, RwLock};
use sched::Scheduler;

use crate::run::admission_queue::{Arrival, Expected, Queue};
use crate::run::clock::StatementClock;

/// Kinds that are remembered; of more, those that ran longest ago are forgotten.
const KINDS_MAX: usize = 1024;
/// How often those that wait are looked at though nothing ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long after the machine could not be measured it is tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// The machine as the model has it: all cpus as those of one node.
#[derive(Debug)]
pub(super) struct Modelled {
    pub(super) machine: Machine,
    /// Bytes per second of one thread alone.
    pub(super) unit: f64,
}

/// See the module; one of a database.
#[derive(Debug)]
pub(crate) struct Admission {
    scheduler: Arc<Scheduler>,
    clock: StatementClock,
    /// There once a query has come from a session that says `model`.
    modelled: RwLock<Option<Arc<Modelled>>>,
    /// When the machine could not be measured; held while it is.
    failed: Mutex<Option<Instant>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<String, Kind>,
    queue: Queue,
    next: u64,
    /// A thread looks as long as somebody waits.
    has_thread: bool,
    /// Somebody is choosing who begins, and has to choose again.
    is_choosing: bool,
    is_changed: bool,
}

#[derive(Debug, Default)]
struct Kind {
    learned: Learned,
    last: u64,
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
    statement: Arc<sched::Statement>,
    has_begun: bool,
    /// Since when its client waits for rows, and for how long it has before.
    since: Option<Instant>,
    took: Duration,
}

impl Admission {
    /// Nobody has come yet.
    pub(crate) fn new(scheduler: Arc<Scheduler>, clock: StatementClock) -> Admission {
        let (modelled, failed, state) = (RwLock::default(), Mutex::default(), Mutex::default());
        Admission { scheduler, clock, modelled, failed, state }
    }

    /// What memory gives, as `measure` finds it, once; `None` where that cannot be found now.
    pub(super) fn machine(&self, measure: impl FnOnce() -> Option<Modelled>) -> Option<Arc<Modelled>> {
        if let Some(known) = self.known_machine() {
            return Some(known);
        }
        let mut failed = self.failed.lock();
        let known = self.known_machine();
        if known.is_some() || failed.is_some_and(|at| at.elapsed() < AGAIN) {
            return known;
        }
        let measured = measure().map(Arc::new);
        if measured.is_none() {
            tracing::warn!(
                "nearside.admission = model lets all queries begin at once for a minute: what memory gives could not \
                 be measured"
            );
        }
        *failed = measured.is_none().then(Instant::now);
        self.modelled.write().clone_from(&measured);
        measured
    }

    /// The same, where somebody has asked for it.
    pub(super) fn known_machine(&self) -> Option<Arc<Modelled>> {
        self.modelled.read().clone()
    }

    /// A query of a kind comes, and waits for its turn where it is patient and its kind is known.
    pub(super) fn arrive(
        self: &Arc<Self>,
        machine: &Machine,
        kind: String,
        is_patient: bool,
        (statement, traffic): (&Arc<sched::Statement>, &Arc<Traffic>),
    ) -> Ticket {
        let learned = self.state.lock().known.get(&kind).map(|kind| kind.learned);
        let expected = learned.and_then(|learned| {
            let job = learned.job(machine)?;
            Some(Expected { alone_s: alone_s(machine, &job), busy_s: learned.busy_s(), job })
        });
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let (statement, traffic) = (Arc::clone(statement), Arc::clone(traffic));
        let mut ticket = Ticket {
            admission: Arc::clone(self),
            number,
            kind,
            statement: Arc::clone(&statement),
            has_begun: false,
            since: None,
            took: Duration::ZERO,
        };
        let of = Arrival { number, statement, traffic, expected: expected.clone() };
        match expected {
            Some(expected) if is_patient => {
                state.queue.wait(of, expected, Instant::now());
                drop(state);
                self.let_in(machine);
                self.have_looked();
                ticket.has_begun = self.state.lock().queue.was_alone(number).is_some();
            }
            _ => {
                let is_lone = self.scheduler.other_statements(&of.statement) == 0;
                state.queue.begin(of, is_lone, Instant::now());
                ticket.has_begun = true;
            }
        }
        ticket
    }

    /// Sees to a thread that looks, where somebody waits.
    fn have_looked(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.queue.waiting.is_empty() || state.has_thread {
            return;
        }
        state.has_thread = watch(self);
        if !state.has_thread {
            // Without it nobody may wait.
            let all = state.queue.waiting(Instant::now()).0;
            let woken = self.begin_those(&mut state, &all);
            drop(state);
            woken.into_iter().for_each(Waker::wake);
        }
    }

    /// What is known, by text.
    pub(crate) fn known(&self) -> Vec<KnownJob> {
        let Some(of) = self.known_machine() else { return Vec::new() };
        let learned = self.state.lock().known.iter().map(|(sql, kind)| (sql.clone(), kind.learned)).collect::<Vec<_>>();
        let known = learned.into_iter().filter_map(|(sql, learned)| {
            let job = learned.job(&of.machine)?;
            Some(KnownJob { sql, runs: learned.runs, alone_s: alone_s(&of.machine, &job), job })
        });
        let mut known: Vec<KnownJob> = known.collect();
        known.sort_by(|a, b| a.sql.cmp(&b.sql));
        known
    }

    /// Lets in whoever may begin by now. One thread chooses at a time, without the lock; what changes meanwhile has it
    /// choose again.
    fn let_in(&self, machine: &Machine) {
        loop {
            let mut state = self.state.lock();
            if state.queue.waiting.is_empty() {
                return;
            }
            if state.is_choosing {
                state.is_changed = true;
                return;
            }
            (state.is_choosing, state.is_changed) = (true, false);
            let now = Instant::now();
            let begun = state.queue.counted(now);
            let (numbers, waiting) = state.queue.waiting(now);
            drop(state);
            let choosing = Choosing(self);
            let chosen = choose(machine, &begun, &waiting).begin;
            drop(choosing);
            let chosen: Vec<u64> = chosen.into_iter().map(|place| numbers[place]).collect();
            let mut state = self.state.lock();
            let woken = self.begin_those(&mut state, &chosen);
            let goes_on = state.is_changed || !chosen.is_empty();
            drop(state);
            woken.into_iter().for_each(Waker::wake);
            if !goes_on {
                return;
            }
        }
    }

    /// Lets some begin that wait, each behind those that began before it.
    fn begin_those(&self, state: &mut State, numbers: &[u64]) -> Vec<Waker> {
        let mut woken = Vec::new();
        for number in numbers {
            let Some(waiter) = state.queue.waiting.iter().find(|waiter| waiter.of.number == *number) else { continue };
            let statement = &waiter.of.statement;
            statement.set_time(self.clock.next());
            let is_lone = self.scheduler.other_statements(statement) == 0;
            woken.extend(state.queue.begin_waiting(*number, is_lone, Instant::now()));
        }
        woken
    }

    /// Lets in whoever may begin by now, and has all others look whether they were stopped; whether anybody waits.
    fn look(&self) -> bool {
        if let Some(of) = self.known_machine() {
            self.let_in(&of.machine);
        }
        let mut state = self.state.lock();
        let woken: Vec<Waker> = state.queue.waiting.iter_mut().filter_map(|waiter| waiter.waker.take()).collect();
        state.has_thread = !state.queue.waiting.is_empty();
        let goes_on = state.has_thread;
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        goes_on
    }
}

/// Somebody is choosing.
struct Choosing<'a>(&'a Admission);

impl Drop for Choosing<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_choosing = false;
    }
}

impl Ticket {
    /// Whether the query has begun, as far as is known without asking.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Ready once the query has begun.
    pub(super) fn poll_begun(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.has_begun {
            return Poll::Ready(());
        }
        let mut state = self.admission.state.lock();
        if let Some(waiter) = state.queue.waiting.iter_mut().find(|waiter| waiter.of.number == self.number) {
            waiter.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.has_begun = true;
        Poll::Ready(())
    }

    /// The query does not wait any longer.
    pub(super) fn begin(&mut self) {
        let admission = &self.admission;
        drop(admission.begin_those(&mut admission.state.lock(), &[self.number]));
        self.has_begun = true;
    }

    /// Its client waits for rows from now on.
    pub(super) fn asked(&mut self) {
        if self.has_begun {
            self.since.get_or_insert_with(Instant::now);
        }
    }

    /// Its client has them.
    pub(super) fn told(&mut self) {
        self.took += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// The query has given its last row: so many bytes were touched, and threads were busy for so long.
    pub(super) fn ended(&self, bytes: u64, busy_ns: u64) {
        let Some(of) = self.admission.known_machine().filter(|_| !self.kind.is_empty()) else { return };
        let mut state = self.admission.state.lock();
        let Some(was_alone) = state.queue.was_alone(self.number) else { return };
        let seen = Seen {
            busy_s: busy_ns as f64 * 1e-9,
            traffic_s: bytes as f64 / of.unit,
            elapsed_s: self.took.as_secs_f64(),
            is_alone: was_alone && self.admission.scheduler.other_statements(&self.statement) == 0,
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
        self.admission.state.lock().queue.leave(self.number);
        if let Some(of) = self.admission.known_machine() {
            self.admission.let_in(&of.machine);
        }
    }
}

/// Has a thread look as long as somebody waits; whether there is one.
fn watch(admission: &Arc<Admission>) -> bool {
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
