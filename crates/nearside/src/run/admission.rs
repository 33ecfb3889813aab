//! Who begins: with `nearside.admission = model` queries wait until the model says that it is their turn.
//!
//! With `fifo`, as sessions start, every statement begins at once, and the tasks of older ones go first. A session that
//! says `model` has its queries wait where others run, and begin in the order that makes the mean response time small
//! ([`model::online`]), known ones by what earlier runs of the same kind cost; who began first has its tasks done first.
//! A query of a kind that has not run yet begins at once, as do those that touch little, statements that write, and
//! those that a worker asks for itself.
//!
//! # Invariants
//! Nobody waits while nobody runs. Who has waited for ten times its own time begins. Whoever takes twice as long as
//! expected, for its client does not take its rows say, counts no more as one that runs. One that is cancelled or out
//! of time stops waiting.
//!
//! # Limits
//! A kind is known by the first 200 characters of its text without constants. What memory gives is measured once, by
//! the first query of a session that says `model`, in less than half a second.
//!
//! Source: Seidel 2011, chapters 5 and 6.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use model::curve::{Curve, Interpolation, Outside};
use model::job::Job;
use model::machine::{Hogs, Machine};
use model::online::{Begun, Learned, Seen, Waiting, choose};
use numa::probe::{SystemClock, read_bandwidth};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::run::config;
use crate::run::inner::Inner;
use crate::run::recording::kind_of;
use crate::run::statement::RunningStatement;

/// Queries that are estimated to touch less begin at once and are not counted: a scan of as much takes half a
/// millisecond.
const BYTES_MIN: u64 = 4 << 20;
/// Kinds that are remembered; of more, those that ran longest ago are forgotten.
const KINDS_MAX: usize = 1024;
/// How often those that wait are looked at though nothing ended.
const LOOK: Duration = Duration::from_millis(20);
/// Of what is expected of it, what a query may take before it counts no more.
const OVER: f64 = 2.0;

/// How statements of a session are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// At once.
    Fifo,
    /// By the model.
    Model,
}

impl Mode {
    /// What a setting says.
    ///
    /// # Errors
    /// [`Error::Setting`] with the values that there are.
    pub(crate) fn of(text: &str) -> Result<Mode> {
        let all = [Mode::Fifo, Mode::Model];
        let known = all.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(text.trim()));
        known.ok_or_else(|| Error::Setting(format!("nearside.admission cannot be '{text}': choose fifo or model")))
    }

    /// In lower case, as it is shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Fifo => "fifo",
            Mode::Model => "model",
        }
    }
}

/// Whether a session's queries are let in by the model, which has to know their texts.
pub(crate) fn is_wanted(running: &RunningStatement) -> bool {
    config::nearside(running.planner.config_options()).admission == Mode::Model.name()
}

/// The machine as the model has it, of equal nodes.
#[derive(Debug)]
struct Modelled {
    machine: Machine,
    nodes: f64,
    /// Bytes per second of one thread alone.
    unit: f64,
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
    kind: String,
    has_begun: bool,
}

impl Admission {
    /// A query comes that is estimated to touch so many bytes; `None` where it begins and nobody counts it.
    pub(crate) fn arrive(self: &Arc<Self>, running: &RunningStatement, bytes: u64) -> Option<Ticket> {
        if bytes < BYTES_MIN || sched::Scheduler::on_worker() {
            return None;
        }
        let is_patient = is_wanted(running);
        let known =
            if is_patient { self.modelled.get_or_init(|| modelled(&running.inner)) } else { self.modelled.get()? };
        let machine = &known.as_ref()?.machine;
        let kind = kind_of(running.statement.label());
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
        Some(Ticket { admission: Arc::clone(self), number, kind, has_begun: false })
    }

    /// What is known, by text.
    pub(crate) fn known(&self) -> Vec<KnownJob> {
        let Some(Some(of)) = self.modelled.get() else { return Vec::new() };
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
        let mut woken =
            self.modelled.get().and_then(Option::as_ref).map_or_else(Vec::new, |of| state.let_in(&of.machine));
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
    /// Ready once the query has begun, or failed with what stopped it.
    pub(crate) fn poll_begun(&mut self, running: &RunningStatement, cx: &Context<'_>) -> Poll<Result<()>> {
        if self.has_begun {
            return Poll::Ready(Ok(()));
        }
        running.check()?;
        let mut state = self.admission.state.lock();
        if let Some(waiter) = state.waiting.iter_mut().find(|waiter| waiter.number == self.number) {
            waiter.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.has_begun = true;
        // Behind those that began meanwhile.
        running.statement.set_time(running.inner.next_statement_time());
        Poll::Ready(Ok(()))
    }

    /// The query has given its last row: what it cost is known.
    pub(crate) fn ended(&self, running: &RunningStatement) {
        let Some(Some(of)) = self.admission.modelled.get() else { return };
        let (mut bytes, mut busy_ns) = (0, 0);
        for line in running.traffic.lines() {
            bytes += line.touched.bytes;
            busy_ns += line.touched.busy_ns;
        }
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
        let of = self.admission.modelled.get().and_then(Option::as_ref);
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

/// The machine, as it is measured now, which takes half a second; `None` where nothing could be measured.
fn modelled(inner: &Inner) -> Option<Modelled> {
    let nodes = inner.catalog.usual_nodes().len().max(1) as f64;
    let cpus = inner.scheduler.threads();
    let clock = SystemClock::new();
    let unit = read_bandwidth(&inner.topology, 1, &clock)?;
    let all = read_bandwidth(&inner.topology, inner.topology.usable_cpus().len(), &clock)? / nodes;
    let of_node = ((cpus as f64 / nodes).ceil() as usize).max(1);
    let points: Vec<f64> = (1..=of_node).map(|threads| (threads as f64 * unit).min(all.max(unit))).collect();
    let curve = Curve::of_threads(&points, Interpolation::Linear, Outside::Hold).ok()?;
    let machine = Machine::simple(curve, of_node as f64);
    machine.check().ok()?;
    Some(Modelled { machine, nodes, unit })
}
