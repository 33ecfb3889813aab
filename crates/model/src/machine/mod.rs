//! The extended model: run times of jobs beside each other on a machine of equal nodes.
//!
//! Everything is per node, as in the thesis: each job has as many cpus on every node, and what one node shows, all
//! show. [`Machine::time_s`] is one job beside hogs, [`Machine::together_s`] jobs that repeat beside each other,
//! [`Machine::paces`] what everybody gets at one moment (the fluid simulation asks that at every event).
//!
//! **How demand adds up** ([`DemandRule`]). The thesis adds what threads *request*: `p q`, however long they wait. But
//! a thread held back waits for a larger share of its time, and it is those who wait that share the bandwidth. By the
//! rule *waiting*, demand `x` is the number of threads that wait for memory on average, which is where the bandwidth
//! granted is what all threads move at that stretch: `h(x) = sum of demand * pace(x / h(x))`. The left side rises with
//! `x`, the right falls, so there is one such `x`; it is found by a bracketed secant. By the rule *overlap* (the
//! default) it is a matter of chance who waits at the same time, see `overlap`. Against threads simulated one by one,
//! pairs are predicted with a mean error of 13%, 3% and 2% by the three rules on the thesis' machines, of 5%, 5% and 1%
//! on two cpus (`tests`).
//!
//! **Remote memory.** Class `c` has a curve of its own, in local units: what a node's threads together can pull from
//! all memory of that class. Every node also serves what others pull from it: by symmetry, as much as it pulls itself.
//! So all traffic loads the local curve, that of a class its own as well, and the slower of the two counts.
//!
//! **SMT.** Threads beyond the cores share one; which, is not known, so all are alike: a thread's sibling is there with
//! the share of threads that have one, and as busy as the others are on average.
//!
//! # Limits
//! Nodes are alike and jobs spread evenly. A job that repeats beside others meets their average, not their stages in
//! step.
//!
//! Source: Seidel 2011, sections 5.1 and 5.2 (what it left open).

mod overlap;
mod party;
mod solve;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::curve::{Curve, Outside};
use crate::job::{Conditions, Job, JobError, JobStage};
use party::{Party, StageShare};

/// Cpus of a node up to which overlaps are reckoned: each solution takes some tens of millions of steps there.
const OVERLAP_CPUS_MAX: f64 = 512.0;

/// What counts as demand; see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DemandRule {
    /// What threads would move if nothing held them back: the thesis' rule.
    Requested,
    /// The threads that wait for memory, on average: quickest to reckon, for nodes of many cpus.
    Waiting,
    /// The threads that one finds waiting when it comes, by chance.
    #[default]
    Overlap,
}

/// A machine of equal nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// What a node's memory gives its own threads.
    pub local: Curve,
    /// What a node's threads get from remote memory, by class (nearest first), in the local curve's units:
    /// one thread gets less than 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<Curve>,
    /// Usable cpus of a node.
    pub cpus: f64,
    /// Cores of a node that these cpus belong to.
    pub cores: f64,
    /// What counts as demand.
    #[serde(default)]
    pub rule: DemandRule,
}

/// Why a machine cannot be reckoned with.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MachineError {
    /// Numbers of cpus that are none.
    #[error("a node has {cpus} cpus on {cores} cores; both must be 1 at least, and cpus no fewer than cores")]
    BadCpus {
        /// What was given.
        cpus: f64,
        /// What was given.
        cores: f64,
    },
    /// Chances are reckoned thread by thread.
    #[error(
        "a node of {cpus} cpus is too large to reckon every overlap (at most {OVERLAP_CPUS_MAX}); use `rule = waiting`"
    )]
    TooManyCpus {
        /// What was given.
        cpus: f64,
    },
    /// The curve may turn negative.
    #[error(
        "demand is counted by waiting threads, which needs bandwidth curves that hold beyond their points; use \
         `outside = hold`"
    )]
    Extended,
    /// A job that cannot be.
    #[error("job {index}: {error}")]
    BadJob {
        /// Which, from 0.
        index: usize,
        /// Why.
        error: JobError,
    },
    /// More classes of remote memory than the machine has.
    #[error(
        "job {index} uses {used} classes of remote memory, the machine has {known}; give a bandwidth curve for each"
    )]
    NoClass {
        /// Which, from 0.
        index: usize,
        /// How many it names.
        used: usize,
        /// How many there are.
        known: usize,
    },
    /// Cpus or hogs that are none.
    #[error("job {index} has {cpus} cpus per node; give it more than 0 and no more than the machine's {most}")]
    BadShare {
        /// Which, from 0.
        index: usize,
        /// What was given.
        cpus: f64,
        /// What there is.
        most: f64,
    },
}

/// Threads beside the jobs, per node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hogs {
    /// Those that do nothing but move memory.
    pub memory: f64,
    /// Those that do nothing but compute.
    pub computing: f64,
}

/// A job's share of a node.
#[derive(Clone, Copy, Debug)]
pub struct JobShare<'a> {
    /// The job.
    pub job: &'a Job,
    /// The stage it is in.
    pub stage: JobStage,
    /// Its cpus.
    pub cpus: f64,
}

/// What there is at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// The share of its whole work that each job completes per second.
    pub speeds: Vec<f64>,
    /// How many times longer each job's transfers take than alone.
    pub stretches: Vec<f64>,
    /// Threads at a node's memory on average; by the rule of requests, what they request, in units.
    pub demand: f64,
    /// Bandwidth in use, in units.
    pub bandwidth: f64,
}

impl Machine {
    /// A machine with local memory only and no SMT, by the usual rule.
    pub fn simple(local: Curve, cpus: f64) -> Machine {
        Machine { local, remote: Vec::new(), cpus, cores: cpus, rule: DemandRule::default() }
    }

    /// Whether its figures make sense.
    pub fn check(&self) -> Result<(), MachineError> {
        let is_count = |value: f64| value.is_finite() && value >= 1.0;
        if !is_count(self.cpus) || !is_count(self.cores) || self.cpus < self.cores {
            return Err(MachineError::BadCpus { cpus: self.cpus, cores: self.cores });
        }
        if self.rule == DemandRule::Overlap && self.cpus > OVERLAP_CPUS_MAX {
            return Err(MachineError::TooManyCpus { cpus: self.cpus });
        }
        let extended = std::iter::once(&self.local).chain(&self.remote).any(|c| c.spec().outside == Outside::Extend);
        if extended && self.rule != DemandRule::Requested { Err(MachineError::Extended) } else { Ok(()) }
    }

    /// Whether it, and these jobs on it, can be reckoned with. The other functions take that for granted: what they
    /// make of bad figures is no number, or means nothing.
    pub fn check_jobs<'a>(&self, jobs: impl IntoIterator<Item = (&'a Job, f64)>) -> Result<(), MachineError> {
        self.check()?;
        for (index, (job, cpus)) in jobs.into_iter().enumerate() {
            job.check().map_err(|error| MachineError::BadJob { index, error })?;
            if job.remote.len() > self.remote.len() {
                return Err(MachineError::NoClass { index, used: job.remote.len(), known: self.remote.len() });
            }
            if !(cpus > 0.0 && cpus <= self.cpus) {
                return Err(MachineError::BadShare { index, cpus, most: self.cpus });
            }
        }
        Ok(())
    }

    /// The run time of a job on `cpus` per node beside hogs, in seconds.
    pub fn time_s(&self, job: &Job, cpus: f64, hogs: Hogs) -> f64 {
        self.beside_s(job, cpus, &[], hogs)
    }

    /// The run times of jobs that all repeat beside each other and hogs, in seconds: a job and its cpus per node.
    pub fn together_s(&self, jobs: &[(&Job, f64)], hogs: Hogs) -> Vec<f64> {
        let mean = |&(job, cpus): &(_, f64)| Party { job, cpus, part: StageShare::Mean };
        let times = jobs.iter().enumerate().map(|(index, &(job, cpus))| {
            let others: Vec<Party> =
                jobs.iter().enumerate().filter(|&(at, _)| at != index).map(|(_, other)| mean(other)).collect();
            self.beside_s(job, cpus, &others, hogs)
        });
        times.collect()
    }

    /// What each gets at one moment.
    pub fn paces(&self, running: &[JobShare], hogs: Hogs) -> Moment {
        let parties: Vec<Party> =
            running.iter().map(|r| Party { job: r.job, cpus: r.cpus, part: StageShare::of(r.stage) }).collect();
        let state = self.solve(&parties, hogs);
        let speeds = parties.iter().zip(&state.now).map(|(party, &now)| party.pace(now) / party.job.t_s).collect();
        let moved = |(party, &now): (&Party, &Conditions)| party.job.demand() * party.pace(now);
        let jobs: f64 = parties.iter().zip(&state.now).map(moved).sum();
        let stretches = state.now.iter().map(|now| now.stretch).collect();
        Moment { speeds, stretches, demand: state.demand, bandwidth: jobs + hogs.memory / state.hog_stretch }
    }

    /// What running jobs together on their cpus gains over one after the other on all of these, as a share of processor
    /// time: `rho` of section 5.4 by this model.
    pub fn rho(&self, jobs: &[(&Job, f64)]) -> f64 {
        let all: f64 = jobs.iter().map(|job| job.1).sum();
        let alone = |job: &Job| self.time_s(job, all, Hogs::default());
        let times = self.together_s(jobs, Hogs::default());
        // Sequential seconds of the work that is completed in one second together.
        let replaced: f64 = jobs.iter().zip(times).map(|(&(job, _), time_s)| alone(job) / time_s).sum();
        1.0 - 1.0 / replaced
    }

    /// What memory hogs get together beside a job, in units, on average over its run. A job that hides its traffic
    /// shows here: hogs can tell how much they moved.
    pub fn hogs_get(&self, job: &Job, cpus: f64, hogs: Hogs) -> f64 {
        let mut time = 0.0;
        let mut moved = 0.0;
        for (share, part) in [(job.sequential, StageShare::Sequential), (1.0 - job.sequential, StageShare::Parallel)] {
            if share > 0.0 {
                let party = Party { job, cpus, part };
                let state = self.solve(&[party], hogs);
                let stage = share / party.pace(state.now[0]);
                time += stage;
                moved += stage * hogs.memory / state.hog_stretch;
            }
        }
        moved / time
    }

    fn beside_s(&self, job: &Job, cpus: f64, others: &[Party], hogs: Hogs) -> f64 {
        let stage_s = |share: f64, part: StageShare| {
            if share == 0.0 {
                return 0.0;
            }
            let mut parties = vec![Party { job, cpus, part }];
            parties.extend_from_slice(others);
            let state = self.solve(&parties, hogs);
            share / parties[0].pace(state.now[0])
        };
        let alone = stage_s(job.sequential, StageShare::Sequential);
        job.t_s * (alone + stage_s(1.0 - job.sequential, StageShare::Parallel))
    }
}
