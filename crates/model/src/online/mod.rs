//! A job's `q`, demand and time while it runs, from counters that the scheduler has anyway.
//!
//! A scheduler knows for a span of time how long a statement's tasks were busy, how many bytes they moved, and how much
//! the memory was asked for by everybody. By the model, busy time is `moved * (computing + waiting * S)`, where `S` is
//! how many times longer a transfer takes at present: a straight line per unit moved, so `computing` and `waiting`
//! follow by linear least squares as soon as `S` has varied. From them: `q = waiting / (computing + waiting)`, demand
//! `1 / (computing + waiting)`, what is hidden of it, and the time that any amount of data takes.
//!
//! [`Recursive`] forgets by a factor per sample; [`Windowed`] remembers the last `n`. Both keep sums only, so a
//! sample costs the same whenever it comes, and an estimate solves two equations.
//!
//! Invariants: no clock (who samples brings the times); samples in any order weigh as what they moved.
//!
//! # Limits
//! As long as `S` stays what it is, only the sum at that `S` is known ([`Estimate::split`] is none then). Overhead and
//! siblings count as computing: a statement whose number of cpus changes should have an estimator per number. Tasks
//! that move nothing measurable do not belong here; they have no `q` to speak of. Where hidden transfers outlast what
//! hides them the line has a kink.
//!
//! Source: Seidel 2011, section 5.2 ("the use of system status counters"), left open there.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::curve::Curve;
use crate::job::{Job, JobError};

/// What a statement's tasks did in a span of time on a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The time that its tasks were busy, added up over cpus, waits for memory included.
    pub busy_s: f64,
    /// What they moved, in seconds of one unit of bandwidth ([`moved_unit_s`]).
    pub moved_unit_s: f64,
    /// How many times longer a transfer took than for one thread alone ([`stretch_at`], or `machine::stretch_among`
    /// where it is known how many others were busy, and how much of their time at the memory).
    pub stretch: f64,
}

/// How much the memory was in use meanwhile, by everybody.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Present {
    /// Threads that waited for it on average.
    Threads(f64),
    /// Bandwidth in use, in units. Says little at the roof, where any demand uses as much.
    Bandwidth(f64),
}

/// Bytes in seconds of one unit of bandwidth, where the curve was made from bytes per second.
pub fn moved_unit_s(curve: &Curve, bytes: f64) -> f64 {
    bytes / curve.unit()
}

/// How many times longer transfers take at this use of the memory, on average (the rule of waiting threads; with few
/// threads on a node, `machine::stretch_among` is nearer).
pub fn stretch_at(curve: &Curve, present: Present) -> f64 {
    match present {
        Present::Threads(threads) => curve.stretch(threads),
        Present::Bandwidth(bandwidth) => curve.stretch(curve.demand_at(bandwidth)),
    }
}

/// Why a sample or an estimator is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum OnlineError {
    /// A figure that is none.
    #[error(
        "a sample of {busy_s} s busy, {moved_unit_s} unit seconds moved and a stretch of {stretch}; all must be positive and finite"
    )]
    BadSample {
        /// What was given.
        busy_s: f64,
        /// What was given.
        moved_unit_s: f64,
        /// What was given.
        stretch: f64,
    },
    /// It would remember nothing, or for ever more.
    #[error("a share of {keeps} kept from sample to sample is none; give more than 0 and at most 1")]
    BadKeeps {
        /// What was given.
        keeps: f64,
    },
    /// Two figures from less than three samples have no error.
    #[error("a window of {samples} samples is too short; give 3 at least")]
    BadWindow {
        /// What was given.
        samples: usize,
    },
}

/// Weighted sums over samples, all that least squares need. Busy time varies with what was moved, so a sample weighs
/// the inverse of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sums {
    /// Samples, each as far as it is remembered.
    count: f64,
    moved: f64,
    moved_stretch: f64,
    moved_stretch_stretch: f64,
    busy: f64,
    busy_stretch: f64,
    busy_busy: f64,
}

impl Sums {
    fn of(sample: Sample) -> Sums {
        let Sample { busy_s, moved_unit_s, stretch } = sample;
        Sums {
            count: 1.0,
            moved: moved_unit_s,
            moved_stretch: moved_unit_s * stretch,
            moved_stretch_stretch: moved_unit_s * stretch * stretch,
            busy: busy_s,
            busy_stretch: busy_s * stretch,
            busy_busy: busy_s * busy_s / moved_unit_s,
        }
    }

    /// `self * keeps + other * times`.
    fn combine(self, keeps: f64, other: Sums, times: f64) -> Sums {
        let sum = |a: f64, b: f64| a * keeps + b * times;
        Sums {
            count: sum(self.count, other.count),
            moved: sum(self.moved, other.moved),
            moved_stretch: sum(self.moved_stretch, other.moved_stretch),
            moved_stretch_stretch: sum(self.moved_stretch_stretch, other.moved_stretch_stretch),
            busy: sum(self.busy, other.busy),
            busy_stretch: sum(self.busy_stretch, other.busy_stretch),
            busy_busy: sum(self.busy_busy, other.busy_busy),
        }
    }

    fn estimate(&self) -> Option<Estimate> {
        // Variance of the stretch below this share of its square: it has not varied, but for rounding.
        const UNVARIED: f64 = 1e-9;
        if self.moved <= 0.0 {
            return None;
        }
        let stretch = self.moved_stretch / self.moved;
        let spread = self.moved_stretch_stretch / self.moved - stretch * stretch;
        let busy_per_moved = self.busy / self.moved;
        let split = (spread > UNVARIED * stretch * stretch).then(|| {
            let waiting = (self.busy_stretch / self.moved - stretch * busy_per_moved) / spread;
            let computing = busy_per_moved - waiting * stretch;
            let explained = computing * self.busy + waiting * self.busy_stretch;
            let more = self.count - 2.0;
            let variance = if more > 0.0 { Some((self.busy_busy - explained).max(0.0) / more) } else { None };
            // The inverse of the equations' matrix, and how q turns with both figures.
            let whole = computing + waiting;
            let scale = self.moved * spread;
            let [aa, ab, bb] = [self.moved_stretch_stretch / self.moved / scale, -stretch / scale, 1.0 / scale];
            let (by_a, by_b) = (-waiting / (whole * whole), computing / (whole * whole));
            let turned = by_a * by_a * aa + 2.0 * by_a * by_b * ab + by_b * by_b * bb;
            Split { computing, waiting, q_error: variance.map(|variance| (variance * turned.max(0.0)).sqrt()) }
        });
        Some(Estimate { samples: self.count, stretch, busy_per_moved, split })
    }
}

/// What is known of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Samples behind it; forgotten ones count in part.
    pub samples: f64,
    /// The mean stretch at which they were taken.
    pub stretch: f64,
    /// Busy seconds per unit second moved, at that stretch.
    pub busy_per_moved: f64,
    /// What of that is computing and what waiting, if the stretch has varied.
    pub split: Option<Split>,
}

/// Computing and waiting, told apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Seconds of computing per unit second moved.
    pub computing: f64,
    /// Seconds of waiting per unit second moved, with all the bandwidth. Below 0, noise or something that runs against
    /// the model; above 1, accesses that wait longer than they move data, one after another.
    pub waiting: f64,
    /// The standard error of [`Split::q`]; none from two samples.
    pub q_error: Option<f64>,
}

impl Split {
    /// The share of its time that one thread with all the bandwidth waits; as found, not clamped.
    pub fn q(&self) -> f64 {
        self.waiting / (self.computing + self.waiting)
    }

    /// What one thread demands, waited for and hidden, in units.
    pub fn demand(&self) -> f64 {
        1.0 / (self.computing + self.waiting)
    }

    /// Demand that is not waited for: the thesis' `o`. Below 0 where `waiting` exceeds 1.
    pub fn hidden(&self) -> f64 {
        self.demand() - self.q()
    }

    /// The job that moves so much in all, for the extended model. A job's figures have ranges, so here they are cut to
    /// them.
    pub fn job(&self, moved_unit_s: f64) -> Result<Job, JobError> {
        let q = self.q().clamp(0.0, 1.0);
        let t_s = moved_unit_s * (self.computing + self.waiting);
        let job = Job { t_s, q, hidden: self.hidden().clamp(0.0, 1.0 - q), ..Job::default() };
        job.check().map(|()| job)
    }
}

impl Estimate {
    /// Between which bounds `q` lies even where the stretch has not varied: nobody waits longer than transfers take, so
    /// at most all of its busy time up to that was waiting.
    pub fn q_bounds(&self) -> (f64, f64) {
        match self.split {
            Some(split) => (split.q(), split.q()),
            None => {
                // All that was moved was waited for: computing is what is left of the busy time.
                let computing = (self.busy_per_moved - self.stretch).max(0.0);
                let waiting = ((self.busy_per_moved - computing) / self.stretch).min(1.0);
                (0.0, waiting / (computing + waiting))
            }
        }
    }
}

fn check(sample: Sample) -> Result<(), OnlineError> {
    let is_good = |value: f64| value.is_finite() && value > 0.0;
    let Sample { busy_s, moved_unit_s, stretch } = sample;
    if is_good(busy_s) && is_good(moved_unit_s) && is_good(stretch) {
        Ok(())
    } else {
        Err(OnlineError::BadSample { busy_s, moved_unit_s, stretch })
    }
}

/// An estimator that forgets older samples by a constant factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recursive {
    keeps: f64,
    sums: Sums,
}

impl Recursive {
    /// `keeps` is what is left of a sample's weight when the next comes: 1 forgets nothing, 0.98 remembers about fifty.
    pub fn new(keeps: f64) -> Result<Recursive, OnlineError> {
        if keeps > 0.0 && keeps <= 1.0 {
            Ok(Recursive { keeps, sums: Sums::default() })
        } else {
            Err(OnlineError::BadKeeps { keeps })
        }
    }

    /// Takes a sample in.
    pub fn add(&mut self, sample: Sample) -> Result<(), OnlineError> {
        check(sample)?;
        self.sums = self.sums.combine(self.keeps, Sums::of(sample), 1.0);
        Ok(())
    }

    /// What is known; none before the first sample.
    pub fn estimate(&self) -> Option<Estimate> {
        self.sums.estimate()
    }
}

/// An estimator that remembers the last samples, and those before them not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Windowed {
    length: usize,
    samples: VecDeque<Sample>,
    sums: Sums,
    /// Samples taken out of the sums since they were last added up anew.
    removed: usize,
}

impl Windowed {
    /// One that remembers `samples`, three at least.
    pub fn new(samples: usize) -> Result<Windowed, OnlineError> {
        if samples < 3 {
            return Err(OnlineError::BadWindow { samples });
        }
        Ok(Windowed { length: samples, samples: VecDeque::new(), sums: Sums::default(), removed: 0 })
    }

    /// Takes a sample in, and the oldest out.
    pub fn add(&mut self, sample: Sample) -> Result<(), OnlineError> {
        check(sample)?;
        self.samples.push_back(sample);
        self.sums = self.sums.combine(1.0, Sums::of(sample), 1.0);
        if self.samples.len() > self.length
            && let Some(oldest) = self.samples.pop_front()
        {
            self.sums = self.sums.combine(1.0, Sums::of(oldest), -1.0);
            self.removed += 1;
        }
        // Taking out leaves rounding behind; once per window it is swept away.
        if self.removed >= self.length {
            self.sums = self.samples.iter().fold(Sums::default(), |sums, &s| sums.combine(1.0, Sums::of(s), 1.0));
            self.removed = 0;
        }
        Ok(())
    }

    /// What is known; none before the first sample.
    pub fn estimate(&self) -> Option<Estimate> {
        self.sums.estimate()
    }
}
