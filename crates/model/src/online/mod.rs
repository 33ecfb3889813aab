//! Jobs learned from statements as they run, and which of those that wait should begin.
//!
//! A statement that has run tells how long threads were busy for it, what it moved, how long it took, and whether it
//! ran alone ([`Seen`]). [`Learned`] makes a [`Job`] of that: what it moved counts as waiting where moving it takes all
//! of its time, else as traffic behind computing; what it took alone beyond its share of all cpus is its sequential
//! part. [`choose`] simulates those that have begun and those that wait (`fluid`) and says who begins now.
//!
//! What is made small is the mean response time (Seidel 2011, section 5.4.1): short ones first, and sequential parts
//! beside others' parallel ones. The order of arrival stays where the model does not expect [`GAIN_MIN`] less. Who
//! began first has all cpus that it can use, as statements have whose tasks go by age: the next one takes what it
//! leaves.
//!
//! # Invariants
//! Somebody begins whenever nobody has begun. Who has waited [`PATIENCE`] times its own time is *late*: it takes the
//! next free place, whatever the model says, the latest first; and where no place is free, one more, once nobody has
//! begun for as long as it takes itself. So nobody starves, those that are late do not begin all at once, and a wrong
//! job does harm for a while only.
//!
//! # Limits
//! Whether traffic is waited for or hidden cannot be told from a run by its bytes and time alone unless it fills all of
//! it. Caches are not modelled. Of those that wait the first [`LOOK_AHEAD`] are looked at.
//!
//! Source: Seidel 2011, section 5.4.1 and chapter 6 (left open).

#[cfg(test)]
mod tests;

use crate::fluid::{Item, Plan, Sharing, run_checked};
use crate::job::Job;
use crate::machine::{Hogs, Machine};
use crate::order::by;

/// Less than this share of the mean response time is not worth another order: jobs are known about as well.
pub const GAIN_MIN: f64 = 0.05;
/// Who has waited so many times what it takes alone is late.
pub const PATIENCE: f64 = 10.0;
/// Those of the waiting that are looked at.
const LOOK_AHEAD: usize = 10;
/// Jobs at a time, at most, as long as others wait.
const AT_ONCE_MAX: usize = 2;
/// What a new run counts in the means.
const WEIGHT: f64 = 0.3;
/// From this share of its time on a job is one that moves memory and does nothing else.
const FULL: f64 = 0.95;

/// What one run of a job showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Seconds of one thread that it was busy.
    pub busy_s: f64,
    /// Seconds that one thread alone takes to move what it moved.
    pub traffic_s: f64,
    /// From its beginning to its end.
    pub elapsed_s: f64,
    /// Whether nothing else ran meanwhile.
    pub is_alone: bool,
}

/// What runs of a job have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Learned {
    /// How many.
    pub runs: u64,
    busy_s: f64,
    traffic_s: f64,
    /// The share that one thread does; `None` before it ran alone.
    sequential: Option<f64>,
}

impl Learned {
    /// Takes a run in. One that cannot be (times that are not above 0) is left out.
    pub fn observe(&mut self, machine: &Machine, seen: &Seen) {
        let is_time = |time: f64| time.is_finite() && time > 0.0;
        if !is_time(seen.busy_s) || !is_time(seen.elapsed_s) || !seen.traffic_s.is_finite() || seen.traffic_s < 0.0 {
            return;
        }
        let weight = if self.runs == 0 { 1.0 } else { WEIGHT };
        self.runs += 1;
        self.busy_s += weight * (seen.busy_s - self.busy_s);
        self.traffic_s += weight * (seen.traffic_s - self.traffic_s);
        if seen.is_alone && machine.cpus > 1.0 {
            let share = (seen.elapsed_s / seen.busy_s - 1.0 / machine.cpus) / (1.0 - 1.0 / machine.cpus);
            let share = share.clamp(0.0, 1.0);
            let known = self.sequential.unwrap_or(share);
            self.sequential = Some(known + WEIGHT * (share - known));
        }
    }

    /// Seconds of one thread that a run keeps threads busy; 0 before it ran.
    pub fn busy_s(&self) -> f64 {
        self.busy_s
    }

    /// The job that this is; `None` before it ran.
    pub fn job(&self, machine: &Machine) -> Option<Job> {
        if self.runs == 0 {
            return None;
        }
        let sequential = self.sequential.unwrap_or(0.0);
        // What all threads move at once each of them waits for longer.
        let stretch = machine.local.stretch(machine.cpus);
        Some(match self.traffic_s * stretch >= FULL * self.busy_s {
            true => Job { t_s: self.busy_s / stretch, q: 1.0, sequential, ..Job::default() },
            false => Job { t_s: self.busy_s, hidden: self.traffic_s / self.busy_s, sequential, ..Job::default() },
        })
    }
}

/// A job that has begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Begun {
    /// The job.
    pub job: Job,
    /// The share of it that is left.
    pub left: f64,
    /// How long ago it began, in seconds.
    pub since_s: f64,
}

/// A job that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The job.
    pub job: Job,
    /// What it takes with all cpus and nothing beside it: see [`alone_s`].
    pub alone_s: f64,
    /// How long it has waited, in seconds.
    pub waited_s: f64,
}

/// What a job takes with all cpus and nothing beside it, in seconds.
pub fn alone_s(machine: &Machine, job: &Job) -> f64 {
    machine.time_s(job, machine.cpus, Hogs::default())
}

/// Who begins now.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// By their places among those that wait, the first to begin first.
    pub begin: Vec<usize>,
    /// The share of the mean response time that is expected to be saved; 0 where the order is that of arrival.
    pub gain: f64,
}

/// Says who of those that wait, in the order of their arrival, begins now; see the module. Jobs are ones that the
/// machine can reckon with.
pub fn choose(machine: &Machine, begun: &[Begun], waiting: &[Waiting]) -> Choice {
    let most = AT_ONCE_MAX.min(machine.cpus as usize).max(1);
    let places = most.saturating_sub(begun.len());
    if let Some(late) = late(begun, waiting, places) {
        return Choice { begin: late, gain: 0.0 };
    }
    let in_turn = Choice { begin: (0..waiting.len().min(places)).collect(), gain: 0.0 };
    if waiting.len() < 2 || places == 0 {
        return in_turn;
    }
    let mut items: Vec<Item> = Vec::with_capacity(begun.len() + LOOK_AHEAD);
    let item = |job: &Job, left: f64| Item { job: Job { t_s: job.t_s * left, ..job.clone() }, arrives_s: 0.0 };
    items.extend(begun.iter().filter(|job| job.left > 0.0).map(|job| item(&job.job, job.left)));
    let first = items.len();
    items.extend(waiting.iter().take(LOOK_AHEAD).map(|job| item(&job.job, 1.0)));
    let those = &items[first..];
    let times: Vec<f64> = waiting.iter().take(LOOK_AHEAD).map(|waits| waits.alone_s).collect();
    let lone: Vec<f64> = those.iter().map(|item| item.job.sequential * item.job.t_s).collect();
    let orders = [
        by(those, |_, place| place as f64),
        by(those, |_, place| times[place]),
        by(those, |_, place| times[place] - lone[place]),
    ];
    let respond = |order: &Vec<usize>| {
        let order = (0..first).chain(order.iter().map(|place| first + place)).collect();
        let plan = Plan { at_once: most, sharing: Sharing::Ordered, order };
        run_checked(machine, &items, &plan).response_s
    };
    let times = orders.each_ref().map(respond);
    let best = (0..orders.len()).min_by(|a, b| times[*a].total_cmp(&times[*b])).unwrap_or(0);
    let gain = 1.0 - times[best] / times[0].max(f64::MIN_POSITIVE);
    match gain < GAIN_MIN {
        true => in_turn,
        false => Choice { begin: orders[best].iter().copied().take(places).collect(), gain },
    }
}

/// Who begins because it has waited too long; `None` where nobody has.
fn late(begun: &[Begun], waiting: &[Waiting], places: usize) -> Option<Vec<usize>> {
    let lateness = |place: usize| waiting[place].waited_s / waiting[place].alone_s.max(f64::MIN_POSITIVE);
    let mut late: Vec<usize> = (0..waiting.len()).filter(|place| lateness(*place) > PATIENCE).collect();
    if late.is_empty() {
        return None;
    }
    late.sort_by(|a, b| lateness(*b).total_cmp(&lateness(*a)));
    if places == 0 {
        let newest_s = begun.iter().map(|begun| begun.since_s).fold(f64::INFINITY, f64::min);
        late.retain(|place| waiting[*place].alone_s <= newest_s);
    }
    late.truncate(places.max(1));
    Some(late)
}
