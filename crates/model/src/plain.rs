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
}
