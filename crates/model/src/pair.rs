//! Two jobs beside each other: predicted run times, and what running them together gains over one after the other.
//!
//! `rho` is the share of processor time that is saved: 0.1 means that both jobs' work took a tenth less. [`rho_model`]
//! predicts it, with what is wrong in section 5.4 put right:
//!
//! - The text defines `(1 - rho) t_par = t_seq`, but a gain is `rho = 1 - t_par / t_seq`: what the formula for
//!   `rho_model` next to it and the table's figures mean.
//! - `rho_model = 1 - 2 pi1 pi2 / (sigma1 pi2 + pi1 sigma2)` takes the jobs' processor time as equal, which holds when
//!   each has half of the cpus. What is the same in general is their time: job `i` then completes work `p_i / pi_i` per
//!   second, for which all cpus would need `p_i sigma_i / (pi_i p)`; so
//!   `rho_model = 1 - p / (p1 sigma1 / pi1 + p2 sigma2 / pi2)`. With `p1 = p2` this is the thesis' formula.
//!
//! # Limits
//! The plain model's; for the extended one see `machine`.
//!
//! Source: Seidel 2011, section 5.4.

#[cfg(test)]
mod tests;

use crate::curve::Curve;
use crate::plain::{PlainJob, cost};

/// The run times of two jobs on their cpus per node while both run, in seconds.
pub fn predict_s(curve: &Curve, first: (PlainJob, f64), second: (PlainJob, f64)) -> (f64, f64) {
    let one = first.0.demand(first.1);
    let two = second.0.demand(second.1);
    (first.0.time_s(curve, first.1, two), second.0.time_s(curve, second.1, one))
}

/// The gain (a share of processor time) of running two jobs together on `cpus1` and `cpus2` of each node over running
/// them one after the other on all of these cpus. `q1` and `q2` are all of a job that matters.
pub fn rho_model(curve: &Curve, (q1, cpus1): (f64, f64), (q2, cpus2): (f64, f64)) -> f64 {
    let cpus = cpus1 + cpus2;
    let together = cpus1 * q1 + cpus2 * q2;
    let work = |q: f64, own: f64| own * cost(curve, q, cpus * q) / cost(curve, q, together);
    1.0 - cpus / (work(q1, cpus1) + work(q2, cpus2))
}
