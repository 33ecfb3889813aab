//! The thesis' model of run time: a job is a share `q` that waits for memory and a rest that computes.
//!
//! `time(p, q, k, t) = t / p * (q / f(p q + k) + (1 - q))`: computing scales with the cpus, waiting also with what
//! others leave of the bandwidth. Everything is per node, as in section 5.3: `p` cpus of each node, `k` units of demand
//! by others on each node, `t` seconds on one cpu of each node with all the bandwidth.
//!
//! `q` may be negative or above 1: it is a fitted figure, and clamping it would hide what the model lacks (see
//! `fit::explain`).
//!
//! # Limits
//! Those of section 5.2: linear speed-up, local memory, nothing hidden, no SMT. `machine` and `job` are the model
//! without them.
//!
//! Source: Seidel 2011, section 5.1.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::curve::Curve;

/// A job as the thesis sees it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainJob {
    /// The share of its time that one cpu with all the bandwidth would wait for memory.
    pub q: f64,
    /// Seconds on one cpu (of each node) with all the bandwidth.
    pub t_s: f64,
}

/// What a job meets from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Since when, in seconds after the job's start.
    pub at_s: f64,
    /// The cpus it has per node; 0 makes it wait (malleable jobs), a fraction is a share of a cpu's time.
    pub cpus: f64,
    /// What others demand on each node, in units.
    pub others: f64,
}

/// Why a course of changes gives no run time.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CourseError {
    /// Nothing says how it starts.
    #[error("a job's course needs what it has at second 0 as its first entry")]
    NoStart,
    /// A time, number of cpus or demand that is none.
    #[error(
        "entry {index} of the course is out of order, negative or not a number; times ascend, cpus and demands are 0 or more"
    )]
    BadEntry {
        /// Which, from 0.
        index: usize,
    },
    /// It gets no further.
    #[error("the job never ends: from second {at_s} on it has no cpus, or no bandwidth is left")]
    NeverEnds {
        /// Since when.
        at_s: f64,
    },
}

/// What a share `q` of waiting makes of one unit of work at this demand: `q / f(demand) + (1 - q)`. Section 5.4 calls
/// it pi (beside another job) or sigma (alone).
pub fn cost(curve: &Curve, q: f64, demand: f64) -> f64 {
    q * curve.stretch(demand) + (1.0 - q)
}

impl PlainJob {
    /// What it demands on each node with `cpus` there, in units.
    pub fn demand(&self, cpus: f64) -> f64 {
        cpus * self.q
    }

    /// Its run time on `cpus` per node while others demand `others` units, in seconds. Infinite without cpus; without
    /// meaning where an extended curve has fallen below zero.
    pub fn time_s(&self, curve: &Curve, cpus: f64, others: f64) -> f64 {
        self.t_s / cpus * cost(curve, self.q, self.demand(cpus) + others)
    }

    /// Its run time in seconds when cpus and others' demand change on the way. Between two changes it completes the
    /// ratio of the time between them to its time if nothing changed any more.
    pub fn time_changing_s(&self, curve: &Curve, course: &[Change]) -> Result<f64, CourseError> {
        check(course)?;
        let mut left = 1.0;
        for (index, now) in course.iter().enumerate() {
            let whole_s = self.time_s(curve, now.cpus, now.others);
            let until_s = course.get(index + 1).map(|next| next.at_s);
            let speed = if whole_s.is_finite() && whole_s > 0.0 { 1.0 / whole_s } else { 0.0 };
            let done = until_s.map_or(f64::INFINITY, |until_s| (until_s - now.at_s) * speed);
            if speed == 0.0 && until_s.is_none() {
                return Err(CourseError::NeverEnds { at_s: now.at_s });
            }
            if done >= left {
                return Ok(now.at_s + left * whole_s);
            }
            left -= done;
        }
        Err(CourseError::NoStart)
    }
}

fn check(course: &[Change]) -> Result<(), CourseError> {
    if course.first().is_none_or(|first| first.at_s != 0.0) {
        return Err(CourseError::NoStart);
    }
    let mut before = 0.0;
    for (index, change) in course.iter().enumerate() {
        let is_good = |value: f64| value.is_finite() && value >= 0.0;
        if !is_good(change.at_s) || !is_good(change.cpus) || !is_good(change.others) || change.at_s < before {
            return Err(CourseError::BadEntry { index });
        }
        before = change.at_s;
    }
    Ok(())
}
