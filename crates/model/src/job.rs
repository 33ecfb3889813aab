//! A job with what the thesis' model leaves out: hidden traffic, sequential parts, overhead, SMT, remote memory.
//!
//! One thread needs for one second's worth of the job's work
//!
//! `cost = q S + max((1 - q) (1 + overhead n (n - 1)) (1 + smt b), hidden S)` seconds, where
//!
//! - `S` is how many times longer a transfer takes at present: what the machine's stretches are, weighed by where the
//!   job's memory lies (`remote`). Without contention and all local it is 1.
//! - `q` is waited for; `hidden` (the thesis' `o`) is moved while computing, and costs time only when it takes longer
//!   than the computing that hides it. Both load the memory: the job's demand is `q + hidden` per thread (section 5.2,
//!   `q = o + q'`).
//! - `n` is the number of threads at work; each has to agree with each, which adds `overhead n (n - 1)` to computing
//!   (section 5.2's `o(p)`, as Gunther's law has it). What grows in a straight line instead looks exactly like a
//!   sequential part, so it counts as one.
//! - `b` is how busy the other cpu of the thread's core is computing; if it always is, computing takes `1 + smt` as
//!   long.
//!
//! A share `sequential` of the work runs on one thread (per node), the rest on all of them: two stages with an order
//! between them, as section 5.2 proposes, not two more fractions mixed into one.
//!
//! # Limits
//! Caches are not modelled: a job that fits beside one neighbour and not beside another has a different `q` each time.
//!
//! Source: Seidel 2011, section 5.2; Gunther: Guerrilla Capacity Planning, 2007 (speed-up: contention and coherence).

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::plain::PlainJob;

/// A job; see the module. Shares are of its time on one cpu of each node with all the bandwidth.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Seconds on one cpu of each node with all the bandwidth, its memory local.
    pub t_s: f64,
    /// The share spent waiting for memory.
    pub q: f64,
    /// Traffic behind computing, as a share of what one thread can move in that time. At most `1 - q`.
    #[serde(default)]
    pub hidden: f64,
    /// The share of the work that only one thread can do.
    #[serde(default)]
    pub sequential: f64,
    /// What each pair of threads adds to computing, as a share, counted both ways.
    #[serde(default)]
    pub overhead: f64,
    /// What a core's other cpu adds to computing while it computes, as a share: 1 halves the speed.
    #[serde(default)]
    pub smt: f64,
    /// The shares of its traffic that go to each class of remote memory; the rest is local.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<f64>,
}

/// Why figures make no job.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum JobError {
    /// A share outside its range.
    #[error("a job's {field} is {value}; it must lie between 0 and {most}")]
    OutOfRange {
        /// Which.
        field: &'static str,
        /// What was given.
        value: f64,
        /// The greatest that makes sense.
        most: f64,
    },
    /// No time.
    #[error("a job's time on one cpu is {t_s} s; it must be positive")]
    NoTime {
        /// What was given.
        t_s: f64,
    },
}

/// Which of a job's stages runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStage {
    /// The part for one thread; it comes first.
    Sequential,
    /// The part for all of them.
    Parallel,
}

/// How things stand for one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conditions {
    /// `S` of this job.
    pub(crate) stretch: f64,
    /// How busy its core's other cpu is computing, from 0 to 1.
    pub(crate) sibling: f64,
}

impl Job {
    /// The thesis' job, where its `q` is a share; a negative one is an error here, since it stands for something else
    /// (`fit::explain`).
    pub fn of_plain(plain: PlainJob) -> Result<Job, JobError> {
        let job = Job { t_s: plain.t_s, q: plain.q, ..Job::default() };
        job.check().map(|()| job)
    }

    /// Whether every figure lies in its range.
    pub fn check(&self) -> Result<(), JobError> {
        if !(self.t_s.is_finite() && self.t_s > 0.0) {
            return Err(JobError::NoTime { t_s: self.t_s });
        }
        // 1 - (1 - hidden) need not be hidden again.
        const ROUNDING: f64 = 1e-9;
        let remote: f64 = self.remote.iter().sum();
        let ranges = [
            ("q", self.q, 1.0),
            ("hidden", self.hidden, 1.0 - self.q + ROUNDING),
            ("sequential", self.sequential, 1.0),
            ("overhead", self.overhead, f64::MAX),
            ("smt", self.smt, f64::MAX),
            ("remote", self.remote.iter().copied().fold(remote, f64::min), f64::MAX),
            ("remote", remote, 1.0 + ROUNDING),
        ];
        match ranges.into_iter().find(|&(_, value, most)| !(0.0..=most).contains(&value)) {
            Some((field, value, most)) => Err(JobError::OutOfRange { field, value, most }),
            None => Ok(()),
        }
    }

    /// What one thread demands, in units.
    pub fn demand(&self) -> f64 {
        self.q + self.hidden
    }

    /// Threads that work in a stage with `cpus` per node.
    pub(crate) fn threads(stage: JobStage, cpus: f64) -> f64 {
        match stage {
            JobStage::Sequential => cpus.min(1.0),
            JobStage::Parallel => cpus,
        }
    }

    /// Seconds of one thread for one second's worth of work.
    pub(crate) fn cost(&self, threads: f64, now: Conditions) -> f64 {
        let waiting = self.q * now.stretch;
        waiting + (self.computing(threads) * (1.0 + self.smt * now.sibling)).max(self.hidden * now.stretch)
    }

    /// Work per second and node in a stage, in seconds of one thread.
    pub(crate) fn pace(&self, stage: JobStage, cpus: f64, now: Conditions) -> f64 {
        let threads = Job::threads(stage, cpus);
        threads / self.cost(threads, now)
    }

    /// The same over both stages.
    pub(crate) fn mean_pace(&self, cpus: f64, now: Conditions) -> f64 {
        if cpus == 0.0 {
            return 0.0;
        }
        let time = |share: f64, stage| if share > 0.0 { share / self.pace(stage, cpus, now) } else { 0.0 };
        1.0 / (time(self.sequential, JobStage::Sequential) + time(1.0 - self.sequential, JobStage::Parallel))
    }

    /// Threads at work on average over both stages.
    pub(crate) fn mean_threads(&self, cpus: f64, now: Conditions) -> f64 {
        if self.sequential == 0.0 || cpus == 0.0 {
            return cpus;
        }
        let alone = self.sequential / self.pace(JobStage::Sequential, cpus, now);
        let together = (1.0 - self.sequential) / self.pace(JobStage::Parallel, cpus, now);
        (alone * cpus.min(1.0) + together * cpus) / (alone + together)
    }

    /// The share of a thread's time in which it computes.
    pub(crate) fn busy(&self, threads: f64, stretch: f64) -> f64 {
        self.computing(threads) / self.cost(threads, Conditions { stretch, sibling: 0.0 })
    }

    fn computing(&self, threads: f64) -> f64 {
        (1.0 - self.q) * (1.0 + self.overhead * threads * (threads - 1.0).max(0.0))
    }
}
