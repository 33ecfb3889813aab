//! `q` and `t` of the thesis' model, by least squares and, the slow way, by a grid.
//!
//! Source: Seidel 2011, section 5.3.

use serde::{Deserialize, Serialize};

use super::least_squares::Problem;
use super::{FitError, Residuals, Trial, beside_pausing, check};
use crate::curve::Curve;
use crate::plain::PlainJob;

/// Where the search for `q` starts: a job that computes, one that waits, and between.
const STARTS: [f64; 4] = [0.0, 0.2, 0.5, 0.9];

/// A fitted job and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlainFit {
    /// What was found; `q` is not clamped.
    pub job: PlainJob,
    /// The sum of squared residuals: the thesis' `RS^2` where they are in seconds.
    pub squares: f64,
    /// The mean of predicted to measured differences, as shares of what was measured.
    pub mean_error: f64,
    /// The standard error of `q`; none where there are no more runs than parameters.
    pub q_error: Option<f64>,
}

/// Fits `q` and `t` to runs beside memory hogs, each of which demands one unit. Computing hogs are not in this model:
/// runs beside them are left out.
pub fn fit_plain(curve: &Curve, runs: &[Trial], residuals: Residuals) -> Result<PlainFit, FitError> {
    let runs = usable(runs)?;
    // Seconds are counted in those of the first run on one cpu, so that both parameters are about 1.
    let scale_s = runs[0].time_s * runs[0].cpus;
    let at = |values: &[f64], out: &mut Vec<f64>| {
        let job = PlainJob { q: values[0], t_s: values[1] * scale_s };
        out.extend(runs.iter().map(|run| residuals.of(predict_s(curve, job, run), run.time_s)));
    };
    let bounds = [(f64::NEG_INFINITY, f64::INFINITY), (0.0, f64::INFINITY)];
    let problem = Problem { residuals: &at, bounds: &bounds };
    let found = STARTS.iter().filter_map(|&q| problem.minimise(&[q, best_t_s(curve, &runs, residuals, q)? / scale_s]));
    let best = found.min_by(|a, b| a.squares.total_cmp(&b.squares)).ok_or(FitError::NoFit)?;
    let job = PlainJob { q: best.values[0], t_s: best.values[1] * scale_s };
    let beyond = runs.len().checked_sub(2).filter(|&more| more > 0);
    let variance = beyond.map(|more| best.squares / more as f64);
    let q_error = variance.zip(best.inverse).map(|(variance, inverse)| (variance * inverse[0][0]).sqrt());
    Ok(PlainFit { job, squares: best.squares, mean_error: mean_error(curve, &runs, job), q_error })
}

/// The same by trying every `q` from -1 to 2 in steps of a thousandth, `t` following from each, and then ever finer
/// around the best.
pub fn fit_plain_by_grid(curve: &Curve, runs: &[Trial], residuals: Residuals) -> Result<PlainFit, FitError> {
    let runs = usable(runs)?;
    let at = |q: f64| {
        let t_s = best_t_s(curve, &runs, residuals, q)?;
        let job = PlainJob { q, t_s };
        let miss = |run: &Trial| residuals.of(predict_s(curve, job, run), run.time_s).powi(2);
        let squares: f64 = runs.iter().map(miss).sum();
        squares.is_finite().then_some((job, squares))
    };
    let mut middle = 0.5;
    let mut step = 1e-2;
    let mut best: Option<(PlainJob, f64)> = None;
    while step > 1e-9 {
        let tried = (-150..=150).filter_map(|n| at(middle + f64::from(n) * step));
        best = tried.chain(best).min_by(|a, b| a.1.total_cmp(&b.1));
        middle = best.ok_or(FitError::NoFit)?.0.q;
        step /= 50.0;
    }
    let (job, squares) = best.ok_or(FitError::NoFit)?;
    Ok(PlainFit { job, squares, mean_error: mean_error(curve, &runs, job), q_error: None })
}

/// A run's time by the plain model.
fn predict_s(curve: &Curve, job: PlainJob, run: &Trial) -> f64 {
    beside_pausing(run, |memory, _| job.time_s(curve, run.cpus, memory))
}

fn usable(runs: &[Trial]) -> Result<Vec<Trial>, FitError> {
    let runs: Vec<Trial> = runs.iter().filter(|run| run.computing_hogs == 0.0).copied().collect();
    check(&runs)?;
    Ok(runs)
}

/// The `t` that fits best with this `q`: times are proportional to it.
fn best_t_s(curve: &Curve, runs: &[Trial], residuals: Residuals, q: f64) -> Option<f64> {
    let mut above = 0.0;
    let mut below = 0.0;
    for run in runs {
        let per_t = predict_s(curve, PlainJob { q, t_s: 1.0 }, run);
        let weight = match residuals {
            Residuals::Seconds => 1.0,
            Residuals::Relative => run.time_s.powi(-2),
        };
        above += weight * per_t * run.time_s;
        below += weight * per_t * per_t;
    }
    let t_s = above / below;
    (t_s.is_finite() && t_s > 0.0).then_some(t_s)
}

fn mean_error(curve: &Curve, runs: &[Trial], job: PlainJob) -> f64 {
    let miss = |run: &Trial| (predict_s(curve, job, run) / run.time_s - 1.0).abs();
    runs.iter().map(miss).sum::<f64>() / runs.len() as f64
}
