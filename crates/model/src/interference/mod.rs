//! How queries hurt each other: fitted from runs of each alone and beside hogs, predicted for pairs, compared with
//! measured pairs.
//!
//! [`analyse`] takes what was measured ([`Input`]) and gives a [`Report`]: both models' fits of every query, what a
//! negative `q` stands for, predictions for every pair by both models, and the errors of both where pairs were
//! measured. Both are plain data for files. A third prediction stands beside them, that company changes nothing
//! ([`PairReport::alone_s`]): a model that does not beat it explains nothing.
//!
//! What to measure per query, three times each: every number of cpus alone; every number beside each number of memory
//! hogs that leaves it them; where cpus share cores, also beside computing hogs. On a node of two cpus: one and two
//! alone, one beside a memory hog that is on all the time and half of it, one beside a computing hog. What hogs moved
//! meanwhile shows hidden traffic, and so do bytes moved by the query, where counters tell them.
//!
//! Both models see the same runs, the same curve and the same weights, so that their errors differ by the model alone.
//! Pairs are never fitted.
//!
//! # Limits
//! Hogs that write past the caches show nothing of what queries do to each other's caches.
//!
//! Source: Seidel 2011, sections 5.3 and 5.4; what they leave open, by `machine` and `job`.

mod report;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use report::{Errors, Gains, Miss, PairReport, QueryReport, Report};

use crate::curve::{Breach, Curve, Outside};
use crate::fit::{FitError, Residuals, Trial, explain, fit_job, fit_plain};
use crate::machine::{Machine, MachineError};

/// What was measured; see the module for what to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The machine, its measured bandwidth curve above all.
    pub machine: Machine,
    /// Each query's runs.
    pub queries: Vec<QueryTrials>,
    /// Pairs run beside each other, both again and again.
    #[serde(default)]
    pub pairs: Vec<MeasuredPair>,
    /// What the plain fit makes small. The extended one always takes relative differences.
    #[serde(default)]
    pub residuals: Residuals,
    /// The spread of repeated runs, as a share, to go by where no setting was measured twice.
    #[serde(default = "usual_noise")]
    pub noise: f64,
}

/// Repeated runs of one query on a quiet machine differ by about that much.
fn usual_noise() -> f64 {
    0.01
}

/// A query and its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryTrials {
    /// What it is called; once in the input.
    pub name: String,
    /// Its runs alone and beside hogs.
    pub trials: Vec<Trial>,
    /// The shares of its traffic that go to each class of remote memory, as its page map says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote: Vec<f64>,
}

/// Two queries that repeated beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredPair {
    /// The name of one.
    pub first: String,
    /// The name of the other; it may be the same.
    pub second: String,
    /// Cpus per node of each.
    pub cpus: [f64; 2],
    /// The mean run time of each, in seconds.
    pub time_s: [f64; 2],
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum InterferenceError {
    /// The machine's figures.
    #[error("machine: {0}")]
    Machine(#[from] MachineError),
    /// A query that cannot be fitted.
    #[error("query '{name}': {error}")]
    Query {
        /// Which.
        name: String,
        /// Why.
        error: FitError,
    },
    /// Remote memory that the machine has no curve for, or shares that are none.
    #[error(
        "query '{name}' has remote shares {remote:?} on a machine with {classes} classes of remote memory; give at \
         most one share per class, 1 together at most"
    )]
    Remote {
        /// Which.
        name: String,
        /// What was given.
        remote: Vec<f64>,
        /// How many the machine has.
        classes: usize,
    },
    /// Two queries of one name.
    #[error("query '{name}' stands there twice; put its trials together")]
    Twice {
        /// Which.
        name: String,
    },
    /// A pair of a query that was not measured.
    #[error("pair {index} names '{name}', which is none of the queries; there are: {known}")]
    NoQuery {
        /// Which pair, from 0.
        index: usize,
        /// What it names.
        name: String,
        /// What there is.
        known: String,
    },
    /// A pair's cpus or times are none.
    #[error(
        "pair {index} ({first}, {second}) has cpus {cpus:?} and times {time_s:?}; all must be positive, and cpus no \
         more than the machine has"
    )]
    BadPair {
        /// Which, from 0.
        index: usize,
        /// One.
        first: String,
        /// The other.
        second: String,
        /// Cpus.
        cpus: [f64; 2],
        /// Times.
        time_s: [f64; 2],
    },
    /// Curves that go on beyond their points.
    #[error("the machine's curves go on beyond their points, where pairs may lie; give them `outside = hold`")]
    Extended,
    /// Not a spread.
    #[error("a noise of {noise} is none; give the spread of repeated runs as a share, 0.01 for one per cent")]
    BadNoise {
        /// What was given.
        noise: f64,
    },
}

/// Fits every query by both models, predicts every pair and compares with the measured ones. Pairs that were not
/// measured get half of the machine's cpus each.
///
/// Virtual machines often hide that cpus share cores. If trials beside computing hogs say so, by a better fit of all
/// queries than one more figure for each is worth (Akaike's criterion), the report reckons with half as many cores and
/// notes it.
pub fn analyse(input: &Input) -> Result<Report, InterferenceError> {
    check(input)?;
    let as_told = fit_all(input)?;
    let machine = &input.machine;
    let notes = Vec::from_iter(note_of_curve(&machine.local));
    let hogs_compute = input.queries.iter().flat_map(|query| &query.trials).any(|trial| trial.computing_hogs > 0.0);
    if machine.cores == machine.cpus && machine.cpus > 1.0 && hogs_compute {
        let cores = machine.cpus / 2.0;
        let shared = Input { machine: Machine { cores, ..machine.clone() }, ..input.clone() };
        let as_shared = fit_all(&shared)?;
        let trials: usize = input.queries.iter().map(|query| query.trials.len()).sum();
        let squares = |fits: &[QueryReport]| fits.iter().map(|query| query.extended.squares).sum::<f64>();
        let better = squares(&as_told).ln() - squares(&as_shared).ln();
        if trials as f64 * better > 2.0 * input.queries.len() as f64 {
            let note = format!(
                "queries are slowed down by threads that only compute: {} cpus are taken to share {cores} cores, which \
                 fits better than the {} cores given",
                machine.cpus, machine.cores
            );
            return Ok(Report::new(&shared, as_shared, notes.into_iter().chain([note]).collect()));
        }
    }
    Ok(Report::new(input, as_told, notes))
}

/// What of the bandwidth curve cannot be so, if anything; that it bends upwards a little is what measuring does.
fn note_of_curve(curve: &Curve) -> Option<String> {
    let mut breaches = curve.breaches();
    breaches.retain(|breach| !matches!(breach, Breach::Convex(_)));
    let first = breaches.first()?;
    let more = if breaches.len() > 1 { format!(", and {} more", breaches.len() - 1) } else { String::new() };
    Some(format!("the bandwidth curve is not one of a memory that threads share: {first}{more}; measure it again"))
}

fn fit_all(input: &Input) -> Result<Vec<QueryReport>, InterferenceError> {
    let named = |query: &QueryTrials| {
        fit(input, query).map_err(|error| InterferenceError::Query { name: query.name.clone(), error })
    };
    input.queries.iter().map(named).collect()
}

fn fit(input: &Input, query: &QueryTrials) -> Result<QueryReport, FitError> {
    let machine = &input.machine;
    let plain = fit_plain(&machine.local, &query.trials, input.residuals)?;
    let extended = fit_job(machine, &query.trials, &query.remote, input.noise)?;
    let explanation = explain(machine, &query.trials, &plain, &extended, input.residuals)?;
    Ok(QueryReport { name: query.name.clone(), plain, extended, explanation })
}

fn check(input: &Input) -> Result<(), InterferenceError> {
    input.machine.check()?;
    if std::iter::once(&input.machine.local).chain(&input.machine.remote).any(|c| c.spec().outside == Outside::Extend) {
        return Err(InterferenceError::Extended);
    }
    if !(input.noise.is_finite() && input.noise > 0.0) {
        return Err(InterferenceError::BadNoise { noise: input.noise });
    }
    let classes = input.machine.remote.len();
    for (index, QueryTrials { name, remote, .. }) in input.queries.iter().enumerate() {
        if input.queries[..index].iter().any(|other| other.name == *name) {
            return Err(InterferenceError::Twice { name: name.clone() });
        }
        let is_share = |share: &f64| share.is_finite() && *share >= 0.0;
        // Shares that were computed add up to 1 but for rounding.
        if remote.len() > classes || !remote.iter().all(is_share) || remote.iter().sum::<f64>() > 1.0 + 1e-9 {
            return Err(InterferenceError::Remote { name: name.clone(), remote: remote.clone(), classes });
        }
    }
    for (index, pair) in input.pairs.iter().enumerate() {
        for name in [&pair.first, &pair.second] {
            if !input.queries.iter().any(|query| query.name == *name) {
                let known = input.queries.iter().map(|query| query.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(InterferenceError::NoQuery { index, name: name.clone(), known });
            }
        }
        let is_good = |value: &f64| value.is_finite() && *value > 0.0;
        let fits = pair.cpus.iter().all(|&cpus| cpus <= input.machine.cpus);
        if !fits || !pair.cpus.iter().chain(&pair.time_s).all(is_good) {
            let MeasuredPair { first, second, cpus, time_s } = pair.clone();
            return Err(InterferenceError::BadPair { index, first, second, cpus, time_s });
        }
    }
    Ok(())
}
