//! Jobs as flows: what happens when, if everybody always proceeds at the pace that the machine then gives.
//!
//! Between two events (a job arrives, starts, goes on to its next stage, ends) nothing changes, so each step is exact:
//! the machine is asked for everybody's pace, and the next event is computed. [`run_queue`] works through a set of jobs
//! in an order.
//!
//! Invariants: cpus handed out never exceed the machine's; work done equals work given; the same input gives the same
//! events.
//!
//! # Limits
//! No overhead for starting a job or changing its cpus.
//!
//! Source: Seidel 2011, section 5.1 (changes during a run).

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::job::{Job, JobStage};
use crate::machine::{Hogs, JobShare, Machine, MachineError};

/// A job and when it may begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// The job.
    pub job: Job,
    /// Seconds after the beginning.
    #[serde(default)]
    pub arrives_s: f64,
}

/// How cpus are divided among the jobs that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Moldable jobs: what a job begins with it keeps, the same part of the machine for each place.
    Fixed,
    /// Malleable jobs: all cpus are divided evenly among those that run, anew at each beginning and end.
    #[default]
    Even,
    /// Malleable jobs: who began first has as many cpus as it can use, the next ones what it leaves, as where the tasks
    /// of older statements go first.
    Ordered,
}

impl Sharing {
    /// The cpus that each of the jobs has that run, in the order of their beginnings, `at_once` at most.
    fn cpus(self, all: f64, at_once: usize, flows: &[Flow]) -> Vec<f64> {
        let mut left = all;
        let ordered = |flow: &Flow| {
            let cpus = Job::threads(flow.stage, left);
            left -= cpus;
            cpus
        };
        match self {
            Sharing::Fixed => vec![all / at_once as f64; flows.len()],
            Sharing::Even => vec![all / flows.len() as f64; flows.len()],
            Sharing::Ordered => flows.iter().map(ordered).collect(),
        }
    }
}

/// In which order jobs run, and how many at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Jobs at a time.
    pub at_once: usize,
    /// How cpus are divided.
    pub sharing: Sharing,
    /// Every job's index once, the first to begin first. A free place takes the first of those that have arrived.
    pub order: Vec<usize>,
}

/// When a job began and ended, in seconds since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTime {
    /// Its beginning.
    pub start_s: f64,
    /// Its end.
    pub stop_s: f64,
}

/// When each job of a set began and ended, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// By index of the job.
    pub runs: Vec<RunTime>,
    /// When the last one ended.
    pub makespan_s: f64,
    /// From arrival to end, on average.
    pub response_s: f64,
}

/// Why there is nothing to simulate.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FluidError {
    /// The machine, or a job on it.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// No such time.
    #[error("job {index} arrives at second {arrives_s}; give 0 or more")]
    BadArrival {
        /// Which, from 0.
        index: usize,
        /// What was given.
        arrives_s: f64,
    },
    /// Jobs are left out, named twice or do not exist.
    #[error("the order must name each of the {jobs} jobs once, by its index from 0")]
    BadOrder {
        /// How many there are.
        jobs: usize,
    },
    /// None, or more than cpus.
    #[error("{at_once} jobs at a time on {cpus} cpus per node; give at least one and no more than there are cpus")]
    BadAtOnce {
        /// What was given.
        at_once: usize,
        /// What there is.
        cpus: f64,
    },
}

/// A job under way.
#[derive(Clone, Debug)]
struct Flow {
    index: usize,
    start_s: f64,
    stage: JobStage,
    /// Of its whole work, what this stage still has to do.
    left: f64,
}

impl Flow {
    fn new(index: usize, job: &Job, start_s: f64) -> Flow {
        match job.sequential {
            0.0 => Flow { index, start_s, stage: JobStage::Parallel, left: 1.0 },
            share => Flow { index, start_s, stage: JobStage::Sequential, left: share },
        }
    }

    /// Goes on to the next stage if this one is done; whether the whole job is.
    fn ends(&mut self, job: &Job) -> bool {
        // Rounding leaves a little of what was to be nothing.
        const NOTHING: f64 = 1e-12;
        if self.left > NOTHING {
            return false;
        }
        let goes_on = self.stage == JobStage::Sequential && job.sequential < 1.0;
        if goes_on {
            (self.stage, self.left) = (JobStage::Parallel, 1.0 - job.sequential);
        }
        !goes_on
    }
}

/// Whether `items` can be simulated in this order.
fn check(machine: &Machine, items: &[Item], plan: &Plan) -> Result<(), FluidError> {
    machine.check_jobs(items.iter().map(|item| (&item.job, 1.0)))?;
    let bad = items.iter().position(|item| !(item.arrives_s.is_finite() && item.arrives_s >= 0.0));
    if let Some(index) = bad {
        return Err(FluidError::BadArrival { index, arrives_s: items[index].arrives_s });
    }
    let mut named = vec![false; items.len()];
    let all = plan.order.iter().all(|&index| named.get_mut(index).is_some_and(|seen| !std::mem::replace(seen, true)));
    if !all || plan.order.len() != items.len() {
        return Err(FluidError::BadOrder { jobs: items.len() });
    }
    if plan.at_once == 0 || plan.at_once as f64 > machine.cpus {
        return Err(FluidError::BadAtOnce { at_once: plan.at_once, cpus: machine.cpus });
    }
    Ok(())
}

/// Works through a set of jobs.
pub fn run_queue(machine: &Machine, items: &[Item], plan: &Plan) -> Result<Outcome, FluidError> {
    check(machine, items, plan)?;
    Ok(run_checked(machine, items, plan))
}

/// The same without looking at what it is given, for those who try many orders.
pub(crate) fn run_checked(machine: &Machine, items: &[Item], plan: &Plan) -> Outcome {
    let mut runs = vec![RunTime { start_s: 0.0, stop_s: 0.0 }; items.len()];
    let mut waiting = plan.order.clone();
    let mut flows: Vec<Flow> = Vec::new();
    let mut now_s = 0.0;
    loop {
        while flows.len() < plan.at_once {
            let Some(at) = waiting.iter().position(|&index| items[index].arrives_s <= now_s) else { break };
            let index = waiting.remove(at);
            flows.push(Flow::new(index, &items[index].job, now_s));
        }
        let arrivals = waiting.iter().map(|&index| items[index].arrives_s).filter(|&at_s| at_s > now_s);
        let arrival_s = arrivals.fold(f64::INFINITY, f64::min);
        if flows.is_empty() {
            if arrival_s.is_infinite() {
                break;
            }
            now_s = arrival_s;
            continue;
        }
        let cpus = plan.sharing.cpus(machine.cpus, plan.at_once, &flows);
        now_s = step(machine, &mut flows, (items, &cpus), now_s, arrival_s);
        flows.retain_mut(|flow| {
            let ends = flow.ends(&items[flow.index].job);
            if ends {
                runs[flow.index] = RunTime { start_s: flow.start_s, stop_s: now_s };
            }
            !ends
        });
    }
    let makespan_s = runs.iter().map(|run| run.stop_s).fold(0.0, f64::max);
    let responses: f64 = runs.iter().zip(items).map(|(run, item)| run.stop_s - item.arrives_s).sum();
    Outcome { runs, makespan_s, response_s: responses / items.len().max(1) as f64 }
}

/// On to the next event, at the latest `until_s`, where each flow has so many cpus; what time it is then.
fn step(machine: &Machine, flows: &mut [Flow], (items, cpus): (&[Item], &[f64]), now_s: f64, until_s: f64) -> f64 {
    let running = flows.iter().zip(cpus).filter(|(_, cpus)| **cpus > 0.0);
    let running = running.map(|(flow, &cpus)| JobShare { job: &items[flow.index].job, stage: flow.stage, cpus });
    let mut speeds = machine.paces(&running.collect::<Vec<_>>(), Hogs::default()).speeds.into_iter();
    let mut speed = |cpus: &f64| if *cpus > 0.0 { speeds.next().unwrap_or(0.0) } else { 0.0 };
    let speeds: Vec<f64> = cpus.iter().map(&mut speed).collect();
    let ends = flows.iter().zip(&speeds).map(|(flow, speed)| flow.left / speed);
    let first_s = ends.fold(f64::INFINITY, f64::min);
    let for_s = first_s.min(until_s - now_s);
    for (flow, speed) in flows.iter_mut().zip(speeds) {
        // Whoever is first has nothing left, whatever rounding says.
        flow.left = if flow.left / speed <= for_s { 0.0 } else { flow.left - for_s * speed };
    }
    if for_s < first_s { until_s } else { now_s + for_s }
}
