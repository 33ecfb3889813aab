//! The extended model's job from measured runs.
//!
//! What can be told apart depends on what was varied: sequential parts need two numbers of cpus, overhead three, SMT
//! threads that share a core; hidden traffic shows in what the memory bus counted, or in what is left for hogs, and
//! weakly in how the job itself is slowed down. Of explanations that fit as well, the one with the least extras is
//! taken: each extra is pulled towards 0 as strongly as one run's noise allows it to be 1, its whole range. Where runs
//! say anything about an extra, that pull is lost among them.
//!
//! # Limits
//! Residuals are relative only. Remote shares are not fitted: the page map knows them.
//!
//! Source: Seidel 2011, sections 5.2 and 5.4.1 (what it proposes, and leaves open).

use serde::{Deserialize, Serialize};

use super::least_squares::{Problem, Solution};
use super::{FitError, Trial, beside_pausing, check, company, distinct, setting};
use crate::job::Job;
use crate::machine::{Hogs, Machine};

/// One figure of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parameter {
    /// `Job::t_s`.
    Time,
    /// `Job::q`.
    Waiting,
    /// `Job::hidden`.
    Hidden,
    /// `Job::sequential`.
    Sequential,
    /// `Job::overhead`.
    Overhead,
    /// `Job::smt`.
    Smt,
}

impl Parameter {
    /// All, in the order in which a fit keeps them.
    const ALL: [Parameter; 6] = [
        Parameter::Time,
        Parameter::Waiting,
        Parameter::Hidden,
        Parameter::Sequential,
        Parameter::Overhead,
        Parameter::Smt,
    ];
    /// Those that the thesis' model does not have.
    pub const EXTRAS: [Parameter; 4] = [Parameter::Hidden, Parameter::Sequential, Parameter::Overhead, Parameter::Smt];

    /// The job without it: the figure is 0 then. Time and waiting stay.
    pub fn removed_from(self, job: &Job) -> Job {
        let mut job = job.clone();
        match self {
            Parameter::Time | Parameter::Waiting => {}
            Parameter::Hidden => job.hidden = 0.0,
            Parameter::Sequential => job.sequential = 0.0,
            Parameter::Overhead => job.overhead = 0.0,
            Parameter::Smt => job.smt = 0.0,
        }
        job
    }
}

/// A fitted job, how well it fits and how sure its figures are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFit {
    /// What was found.
    pub job: Job,
    /// The sum of squared relative differences.
    pub squares: f64,
    /// The mean of predicted to measured times, as shares of what was measured.
    pub mean_error: f64,
    /// What runs with the same setting differ by, as a share (one standard deviation); the caller's figure without such
    /// runs.
    pub noise: f64,
    /// The figures that these runs can tell, each with its standard error at that noise (time's as a share of it;
    /// hidden traffic's as a share of the time that is not waited); 0 where it lies at the end of its range. The others
    /// were left at 0.
    pub fitted: Vec<(Parameter, f64)>,
}

/// Fits a job to runs on `machine`. `remote` are the job's shares of remote memory, one per class of the machine's at
/// most (further ones are ignored); `noise` is the spread of repeated
/// runs to go by where no setting was measured twice, as a share (0.01 on a quiet machine).
pub fn fit_job(machine: &Machine, runs: &[Trial], remote: &[f64], noise: f64) -> Result<JobFit, FitError> {
    machine.check()?;
    check(runs)?;
    if let Some(index) = runs.iter().position(|run| run.cpus > machine.cpus) {
        return Err(FitError::TooManyCpus { index, cpus: runs[index].cpus, most: machine.cpus });
    }
    let noise = repeat_noise(runs).unwrap_or(noise).max(LEAST_NOISE);
    let fitting = FitProblem {
        machine,
        runs,
        remote,
        noise,
        scale_s: runs[0].time_s * runs[0].cpus,
        traffic_unit_s: mean_traffic(runs),
        free: Parameter::ALL.into_iter().filter(|&p| is_told(machine, runs, p)).collect(),
    };
    let at = |values: &[f64], out: &mut Vec<f64>| fitting.residuals(values, out);
    let bounds: Vec<(f64, f64)> = fitting.free.iter().map(|&p| range(p)).collect();
    let problem = Problem { residuals: &at, bounds: &bounds };
    let starts = fitting.starts();
    let found = starts.iter().filter_map(|start| problem.minimise(start));
    let best = found.min_by(|a, b| a.squares.total_cmp(&b.squares)).ok_or(FitError::NoFit)?;
    Ok(fitting.end(best))
}

/// Where a search starts: for each of these shares of hidden traffic, of the time without waiting, at the share of
/// waiting that fits best with it. Where transfers begin to outlast what hides them the sum of squares has a kink,
/// which a search does not cross.
const HIDDEN_STARTS: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
const WAITING_STARTS: [f64; 10] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Below this runs agree by chance or by the clock's grain.
const LEAST_NOISE: f64 = 1e-4;

/// What is being fitted. Hidden traffic is counted as a share of what is left of the time without waiting, so that
/// every parameter has its own range.
struct FitProblem<'a> {
    machine: &'a Machine,
    runs: &'a [Trial],
    remote: &'a [f64],
    noise: f64,
    scale_s: f64,
    /// What was moved, on average. It belongs to the job and not to a setting, so it counts as one observation.
    traffic_unit_s: Option<f64>,
    free: Vec<Parameter>,
}

impl FitProblem<'_> {
    fn starts(&self) -> Vec<Vec<f64>> {
        let hides = self.free.contains(&Parameter::Hidden);
        let levels = HIDDEN_STARTS.iter().take(if hides { HIDDEN_STARTS.len() } else { 1 });
        let best = |&hidden: &f64| {
            let tried = WAITING_STARTS.iter().map(|&q| self.start(q, hidden));
            tried.min_by(|a, b| self.squares(a).total_cmp(&self.squares(b)))
        };
        levels.filter_map(best).collect()
    }

    /// The parameters with these shares, the extras a little above 0 (off their bounds, so that the first step sees
    /// both directions), and the time that fits best with them.
    fn start(&self, q: f64, hidden: f64) -> Vec<f64> {
        let value = |parameter: &Parameter| match parameter {
            Parameter::Time => 1.0,
            Parameter::Waiting => q,
            Parameter::Hidden => hidden,
            Parameter::Sequential => 0.01,
            Parameter::Overhead => 0.001,
            Parameter::Smt => 0.3,
        };
        let mut values: Vec<f64> = self.free.iter().map(value).collect();
        let job = self.job(&values);
        let ratios: Vec<f64> = self.runs.iter().map(|run| predict_s(self.machine, &job, run) / run.time_s).collect();
        let best = ratios.iter().sum::<f64>() / ratios.iter().map(|ratio| ratio * ratio).sum::<f64>();
        for (parameter, value) in self.free.iter().zip(&mut values) {
            if *parameter == Parameter::Time {
                *value = best;
            }
        }
        values
    }

    fn squares(&self, values: &[f64]) -> f64 {
        let mut residuals = Vec::new();
        self.residuals(values, &mut residuals);
        residuals.iter().map(|residual| residual * residual).sum()
    }

    fn job(&self, values: &[f64]) -> Job {
        let mut job = Job { t_s: self.scale_s, remote: self.remote.to_vec(), ..Job::default() };
        for (parameter, &value) in self.free.iter().zip(values) {
            match parameter {
                Parameter::Time => job.t_s = value * self.scale_s,
                Parameter::Waiting => job.q = value,
                Parameter::Hidden => job.hidden = value * (1.0 - job.q),
                Parameter::Sequential => job.sequential = value,
                Parameter::Overhead => job.overhead = value,
                Parameter::Smt => job.smt = value,
            }
        }
        job
    }

    fn residuals(&self, values: &[f64], out: &mut Vec<f64>) {
        let job = self.job(values);
        out.extend(self.runs.iter().map(|run| predict_s(self.machine, &job, run) / run.time_s - 1.0));
        out.extend(self.traffic_unit_s.map(|moved| job.t_s * job.demand() / moved - 1.0));
        let felt = self.runs.iter().filter_map(|run| run.hogs_got.filter(|&got| got > 0.0).map(|got| (run, got)));
        out.extend(felt.map(|(run, got)| predict_hogs(self.machine, &job, run) / got - 1.0));
        let extras = self.free.iter().zip(values).filter(|(parameter, _)| Parameter::EXTRAS.contains(parameter));
        out.extend(extras.map(|(_, value)| self.noise * value));
    }

    fn end(&self, best: Solution) -> JobFit {
        let job = self.job(&best.values);
        let misses: Vec<f64> =
            self.runs.iter().map(|run| predict_s(self.machine, &job, run) / run.time_s - 1.0).collect();
        let error = |index: usize| {
            let variance = best.inverse.as_ref().map_or(0.0, |inverse| inverse[index][index]);
            self.noise * variance.max(0.0).sqrt()
        };
        JobFit {
            squares: misses.iter().map(|miss| miss * miss).sum(),
            mean_error: misses.iter().map(|miss| miss.abs()).sum::<f64>() / misses.len() as f64,
            noise: self.noise,
            fitted: self.free.iter().enumerate().map(|(index, &parameter)| (parameter, error(index))).collect(),
            job,
        }
    }
}

/// A run's time by the extended model.
pub(super) fn predict_s(machine: &Machine, job: &Job, run: &Trial) -> f64 {
    beside_pausing(run, |memory, computing| machine.time_s(job, run.cpus, Hogs { memory, computing }))
}

/// What the hogs beside it get by the extended model.
fn predict_hogs(machine: &Machine, job: &Job, run: &Trial) -> f64 {
    let beside = company(run);
    beside.map(|(memory, computing, share)| share * machine.hogs_get(job, run.cpus, Hogs { memory, computing })).sum()
}

fn range(parameter: Parameter) -> (f64, f64) {
    match parameter {
        Parameter::Time => (f64::MIN_POSITIVE, f64::INFINITY),
        // A pair of threads at most doubles its computing; a sibling at most takes the core for itself and as much
        // again.
        Parameter::Waiting | Parameter::Hidden | Parameter::Sequential | Parameter::Overhead => (0.0, 1.0),
        Parameter::Smt => (0.0, 2.0),
    }
}

fn mean_traffic(runs: &[Trial]) -> Option<f64> {
    let moved: Vec<f64> = runs.iter().filter_map(|run| run.traffic_unit_s).filter(|&moved| moved > 0.0).collect();
    (!moved.is_empty()).then(|| moved.iter().sum::<f64>() / moved.len() as f64)
}

/// Whether runs say anything about a parameter.
fn is_told(machine: &Machine, runs: &[Trial], parameter: Parameter) -> bool {
    let cpus = distinct(runs.iter().map(|run| run.cpus));
    match parameter {
        Parameter::Time | Parameter::Waiting => true,
        Parameter::Hidden => {
            let is_seen = |run: &Trial| run.traffic_unit_s.is_some() || run.hogs_got.is_some();
            runs.iter().any(is_seen) || distinct(runs.iter().map(setting)) > 2
        }
        Parameter::Sequential => cpus > 1,
        Parameter::Overhead => cpus > 2,
        Parameter::Smt => {
            let shares = |run: &Trial| run.cpus + run.memory_hogs + run.computing_hogs > machine.cores;
            machine.cores < machine.cpus && runs.iter().any(shares)
        }
    }
}

/// The spread of runs with the same setting, as a share of their mean; none where every setting stands alone.
fn repeat_noise(runs: &[Trial]) -> Option<f64> {
    let mut squares = 0.0;
    let mut more = 0;
    for (index, run) in runs.iter().enumerate() {
        let alike = |other: &&Trial| setting(other) == setting(run);
        if runs[..index].iter().any(|other| alike(&other)) {
            continue;
        }
        let times: Vec<f64> = runs.iter().filter(alike).map(|run| run.time_s).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        squares += times.iter().map(|time| (time / mean - 1.0).powi(2)).sum::<f64>();
        more += times.len() - 1;
    }
    (more > 0).then(|| (squares / more as f64).sqrt())
}
