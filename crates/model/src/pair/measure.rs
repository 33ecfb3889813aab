//! How a pair's gain is measured: both jobs are repeated beside each other, then one after the other on all cpus.
//!
//! Both run again and again. When the first run ends at or after `t_min`, the clock stops: that time is `t_par`, and
//! its job (job 1) has done `k1` whole runs. Of the other job's run then under way only what was done by `t_par`
//! counts, so the runner has to keep job 1 going until that run has ended. Sequentially each job runs as often on all
//! the cpus.
//!
//! Source: Seidel 2011, section 5.4 and Figure 5.7.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// When one run of a job began and ended, in seconds since the pair was started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTime {
    /// Its beginning.
    pub start_s: f64,
    /// Its end.
    pub stop_s: f64,
}

/// What runs on all cpus, one after the other, took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequential {
    /// All of them together, in seconds.
    pub total_s: f64,
    /// How many there were.
    pub runs: u32,
}

/// Why runs give no gain.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MeasureError {
    /// Runs overlap, go backwards or are not numbers.
    #[error(
        "run {index} of job {job} begins before the one before it has ended, or ends before it begins; give the runs of a job in order"
    )]
    BadRun {
        /// 1 or 2, as given.
        job: usize,
        /// Which run, from 0.
        index: usize,
    },
    /// `t_min` is not reached.
    #[error(
        "no run ends at or after {t_min_s} s; repeat both jobs until then, and the other one until its run has ended too"
    )]
    TooShort {
        /// The least time that was asked for.
        t_min_s: f64,
    },
    /// One of them has no run that was under way when the clock stopped.
    #[error(
        "job {job} has no run under way at second {t_par_s}, when the clock stopped; keep both jobs running until the last counted run has ended"
    )]
    Gap {
        /// 1 or 2, as given.
        job: usize,
        /// When the clock stopped.
        t_par_s: f64,
    },
    /// Sequential times that are none.
    #[error("the sequential runs of job {job} took {total_s} s for {runs} runs; both must be positive")]
    BadSequential {
        /// 1 or 2, as given.
        job: usize,
        /// Their time.
        total_s: f64,
        /// Their number.
        runs: u32,
    },
}

/// A pair's parallel run, reduced to what its gain needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// How long both ran, in seconds.
    pub t_par_s: f64,
    /// Completed runs of each, as given; that of the job that did not stop the clock has a fraction.
    pub runs: [f64; 2],
}

impl Measurement {
    /// From the runs of both jobs beside each other, which began together at second 0.
    pub fn of_runs(first: &[RunTime], second: &[RunTime], t_min_s: f64) -> Result<Measurement, MeasureError> {
        check(1, first)?;
        check(2, second)?;
        let stop = |runs: &[RunTime]| runs.iter().map(|run| run.stop_s).find(|&stop_s| stop_s >= t_min_s);
        let stops = [stop(first), stop(second)];
        let earliest = stops.iter().flatten().copied().reduce(f64::min);
        let t_par_s = earliest.ok_or(MeasureError::TooShort { t_min_s })?;
        let runs = [completed(1, first, t_par_s)?, completed(2, second, t_par_s)?];
        Ok(Measurement { t_par_s, runs })
    }

    /// The gain: the share of processor time saved over running both one after the other on all cpus.
    pub fn rho(&self, sequential: [Sequential; 2]) -> Result<f64, MeasureError> {
        let mut t_seq_s = 0.0;
        for (index, Sequential { total_s, runs }) in sequential.into_iter().enumerate() {
            if !(total_s.is_finite() && total_s > 0.0 && runs > 0) {
                return Err(MeasureError::BadSequential { job: index + 1, total_s, runs });
            }
            // t2 = t2' k2 / k2': the time of as many runs as were completed in parallel.
            t_seq_s += total_s * self.runs[index] / f64::from(runs);
        }
        Ok(1.0 - self.t_par_s / t_seq_s)
    }
}

/// How many runs were completed by `t_par_s`, the fraction of the one under way included.
fn completed(job: usize, runs: &[RunTime], t_par_s: f64) -> Result<f64, MeasureError> {
    let whole = runs.iter().take_while(|run| run.stop_s <= t_par_s).count();
    match runs.get(whole) {
        _ if whole > 0 && runs[whole - 1].stop_s == t_par_s => Ok(whole as f64),
        Some(run) if run.start_s <= t_par_s => {
            let after = (run.stop_s - t_par_s) / (run.stop_s - run.start_s);
            Ok((whole + 1) as f64 - after)
        }
        // Between two runs a job may pause for an instant: nothing was under way then.
        Some(_) if whole > 0 => Ok(whole as f64),
        _ => Err(MeasureError::Gap { job, t_par_s }),
    }
}

fn check(job: usize, runs: &[RunTime]) -> Result<(), MeasureError> {
    let mut before = 0.0;
    for (index, run) in runs.iter().enumerate() {
        let is_good = run.start_s >= before && run.stop_s > run.start_s && run.stop_s.is_finite();
        if !is_good {
            return Err(MeasureError::BadRun { job, index });
        }
        before = run.stop_s;
    }
    Ok(())
}
