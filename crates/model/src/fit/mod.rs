//! Jobs from measured run times.
//!
//! A job is run with several numbers of cpus and beside *hogs*: threads that only write memory, past the caches, so
//! that each demands one unit. [`fit_plain`] finds the `q` and `t` of the thesis' model, [`fit_plain_by_grid`] finds
//! them again the slow way; [`fit_job`] finds the extended model's job, [`explain`] says by it what a plain `q` stands
//! for, above all a negative one.
//!
//! Residuals are in seconds, as in the thesis, or relative ([`Residuals`]): runs on few cpus take long, and in seconds
//! they alone decide.
//!
//! Source: Seidel 2011, section 5.3.

mod explain;
mod extended;
mod least_squares;
mod plain;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::machine::MachineError;

pub use explain::{Cause, Explanation, explain};
pub use extended::{JobFit, Parameter, fit_job};
pub use plain::{PlainFit, fit_plain, fit_plain_by_grid};

/// One measured run of a job, and its setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The cpus it had on each node.
    pub cpus: f64,
    /// Threads per node beside it that did nothing but move memory. 1.5 are two, one of which pauses half of the time,
    /// for spells that are short beside the run and long beside an access.
    #[serde(default)]
    pub memory_hogs: f64,
    /// Threads per node beside it that did nothing but compute.
    #[serde(default)]
    pub computing_hogs: f64,
    /// How long it took.
    pub time_s: f64,
    /// What it moved over each node's memory bus, where that was counted: bytes divided by the bytes per second of one
    /// unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_unit_s: Option<f64>,
    /// What all memory hogs of a node together got meanwhile, in units: bytes they moved per second of the run, divided
    /// by those of one unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hogs_got: Option<f64>,
}

/// What a fit makes small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Residuals {
    /// Differences in seconds: the thesis' choice.
    Seconds,
    /// Differences as shares of what was measured.
    #[default]
    Relative,
}

impl Residuals {
    fn of(self, predicted_s: f64, measured_s: f64) -> f64 {
        match self {
            Residuals::Seconds => predicted_s - measured_s,
            Residuals::Relative => predicted_s / measured_s - 1.0,
        }
    }
}

/// Why runs give no job.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FitError {
    /// A figure that cannot be one.
    #[error(
        "trial {index} has cpus {cpus}, hogs {hogs}, {time_s} s; cpus and time must be positive, hogs 0 or more, all \
         finite, and so the traffic"
    )]
    BadRun {
        /// Which, from 0.
        index: usize,
        /// Its cpus.
        cpus: f64,
        /// Its hogs of both kinds.
        hogs: f64,
        /// Its time.
        time_s: f64,
    },
    /// The machine's figures.
    #[error("machine: {0}")]
    Machine(#[from] MachineError),
    /// More cpus than there are.
    #[error("trial {index} has {cpus} cpus of a node that has {most}; give the machine all cpus that trials used")]
    TooManyCpus {
        /// Which, from 0.
        index: usize,
        /// Its cpus.
        cpus: f64,
        /// What there is.
        most: f64,
    },
    /// Not enough to tell two parameters apart.
    #[error(
        "{settings} different settings are too few for a job's two parameters; vary the cpus it has, or the hogs \
         beside it"
    )]
    TooFew {
        /// How many there are.
        settings: usize,
    },
    /// Nothing finite fits.
    #[error("no parameters fit these runs; are the curve's unit and the runs of the same machine?")]
    NoFit,
}

/// Refuses figures that are none, and runs that are all alike.
fn check(runs: &[Trial]) -> Result<(), FitError> {
    for (index, run) in runs.iter().enumerate() {
        let is_count = |value: f64| value.is_finite() && value >= 0.0;
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        let hogs = run.memory_hogs + run.computing_hogs;
        let counts = is_count(run.memory_hogs) && is_count(run.computing_hogs);
        let extras = run.traffic_unit_s.is_none_or(is_count) && run.hogs_got.is_none_or(is_count);
        if !counts || !extras || !is_positive(run.cpus) || !is_positive(run.time_s) {
            return Err(FitError::BadRun { index, cpus: run.cpus, hogs, time_s: run.time_s });
        }
    }
    let settings = distinct(runs.iter().map(setting));
    if settings < 2 { Err(FitError::TooFew { settings }) } else { Ok(()) }
}

/// The whole numbers of hogs (memory, computing) that a run was beside, and for which share of its time: a hog may
/// pause.
fn company(run: &Trial) -> impl Iterator<Item = (f64, f64, f64)> {
    let parts = |hogs: f64| {
        let whole = hogs.floor();
        [(whole, whole + 1.0 - hogs), (whole + 1.0, hogs - whole)].into_iter().filter(|&(_, share)| share > 0.0)
    };
    let computing = run.computing_hogs;
    parts(run.memory_hogs).flat_map(move |(memory, share)| {
        parts(computing).map(move |(computing, of_it)| (memory, computing, share * of_it))
    })
}

/// A run's time, if `time_s` says what it is beside whole numbers of hogs: while one pauses, the job proceeds as
/// without it.
fn beside_pausing(run: &Trial, time_s: impl Fn(f64, f64) -> f64) -> f64 {
    1.0 / company(run).map(|(memory, computing, share)| share / time_s(memory, computing)).sum::<f64>()
}

/// What was varied between runs.
fn setting(run: &Trial) -> [f64; 3] {
    [run.cpus, run.memory_hogs, run.computing_hogs]
}

/// How many different values there are.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> usize {
    let mut seen: Vec<T> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen.len()
}
