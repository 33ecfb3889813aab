//! What comes out: fits, pairs, errors.

use serde::{Deserialize, Serialize};

use super::{Input, QueryTrials};
use crate::fit::{Explanation, JobFit, PlainFit};
use crate::machine::Hogs;
use crate::pair;

/// A query by both models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryReport {
    /// What it is called.
    pub name: String,
    /// By the thesis' model.
    pub plain: PlainFit,
    /// By the extended one.
    pub extended: JobFit,
    /// What the plain `q` stands for.
    pub explanation: Explanation,
}

/// The gain of running a pair together over one after the other on the cpus of both, as a share of processor time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gains {
    /// By the thesis' model.
    pub plain: f64,
    /// By the extended one.
    pub extended: f64,
    /// Measured, where both the pair and each query alone on all of these cpus were.
    pub measured: Option<f64>,
}

/// Two queries beside each other; times in seconds, in the order of the names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairReport {
    /// One.
    pub first: String,
    /// The other.
    pub second: String,
    /// Cpus per node of each.
    pub cpus: [f64; 2],
    /// What was measured; none for a pair that was only predicted.
    pub measured_s: Option<[f64; 2]>,
    /// By the thesis' model.
    pub plain_s: [f64; 2],
    /// By the extended one.
    pub extended_s: [f64; 2],
    /// What each took alone on as many cpus, where that was measured: the prediction that company changes nothing.
    pub alone_s: [Option<f64>; 2],
    /// What it gains.
    pub rho: Gains,
}

/// How far predictions are off, as shares of what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// On average.
    pub mean: f64,
    /// At worst.
    pub worst: f64,
}

/// The errors over all measured pairs, both queries of each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Measured pairs.
    pub pairs: usize,
    /// Of the thesis' model.
    pub plain: Miss,
    /// Of the extended one.
    pub extended: Miss,
    /// Of the prediction that company changes nothing, over those whose time alone was measured.
    pub alone: Option<Miss>,
    /// The extended model's mean error as a share of the plain one's; below a half is what the extensions are for. None
    /// where the plain model makes no error.
    pub ratio: Option<f64>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// In the order of the input.
    pub queries: Vec<QueryReport>,
    /// Measured pairs in the order of the input, then the others.
    pub pairs: Vec<PairReport>,
    /// None where no pair was measured.
    pub errors: Option<Errors>,
    /// Cores per node that the extended model reckons with.
    pub cores: f64,
    /// What a reader should know; sentences.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn new(input: &Input, queries: Vec<QueryReport>, notes: Vec<String>) -> Report {
        let at = |name: &str| input.queries.iter().position(|query| query.name == name).unwrap_or(0);
        let mut pairs: Vec<PairReport> = Vec::new();
        for measured in &input.pairs {
            let which = [at(&measured.first), at(&measured.second)];
            pairs.push(pair_report(input, &queries, which, measured.cpus, Some(measured.time_s)));
        }
        let half = input.machine.cpus / 2.0;
        for one in 0..queries.len() {
            for two in one..queries.len() {
                let is_same = |pair: &PairReport| {
                    let [first, second] = [at(&pair.first), at(&pair.second)];
                    (first.min(second), first.max(second)) == (one, two)
                };
                if !pairs.iter().any(is_same) {
                    pairs.push(pair_report(input, &queries, [one, two], [half; 2], None));
                }
            }
        }
        let errors = errors(&pairs);
        Report { queries, pairs, errors, cores: input.machine.cores, notes }
    }
}

fn pair_report(
    input: &Input,
    queries: &[QueryReport],
    which: [usize; 2],
    cpus: [f64; 2],
    measured_s: Option<[f64; 2]>,
) -> PairReport {
    let machine = &input.machine;
    let [one, two] = which.map(|index| &queries[index]);
    let curve = &machine.local;
    let (plain1, plain2) = pair::predict_s(curve, (one.plain.job, cpus[0]), (two.plain.job, cpus[1]));
    let jobs = [(&one.extended.job, cpus[0]), (&two.extended.job, cpus[1])];
    let together = machine.together_s(&jobs, Hogs::default());
    let alone = |index: usize, cpus: f64| alone_s(&input.queries[index], cpus);
    let all = cpus[0] + cpus[1];
    let sequential = [alone(which[0], all), alone(which[1], all)];
    PairReport {
        first: one.name.clone(),
        second: two.name.clone(),
        cpus,
        measured_s,
        plain_s: [plain1, plain2],
        extended_s: [together[0], together[1]],
        alone_s: [alone(which[0], cpus[0]), alone(which[1], cpus[1])],
        rho: Gains {
            plain: pair::rho_model(curve, (one.plain.job.q, cpus[0]), (two.plain.job.q, cpus[1])),
            extended: machine.rho(&jobs),
            measured: measured_s.and_then(|together| Some(gain(together, [sequential[0]?, sequential[1]?]))),
        },
    }
}

/// In one second together each completes the inverse of its time; alone on all cpus that takes `sequential` times as
/// long.
fn gain(together_s: [f64; 2], sequential_s: [f64; 2]) -> f64 {
    1.0 - 1.0 / (sequential_s[0] / together_s[0] + sequential_s[1] / together_s[1])
}

/// The mean of a query's runs alone on `n` cpus.
fn alone_s(query: &QueryTrials, cpus: f64) -> Option<f64> {
    let is_alone = |hogs: f64| hogs == 0.0;
    let runs = query.trials.iter().filter(|r| r.cpus == cpus && is_alone(r.memory_hogs) && is_alone(r.computing_hogs));
    let times: Vec<f64> = runs.map(|run| run.time_s).collect();
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

fn errors(pairs: &[PairReport]) -> Option<Errors> {
    let measured: Vec<(&PairReport, [f64; 2])> =
        pairs.iter().filter_map(|pair| pair.measured_s.map(|time_s| (pair, time_s))).collect();
    let miss = |predicted: &dyn Fn(&PairReport) -> [Option<f64>; 2]| {
        let both = measured.iter().flat_map(|(pair, time_s)| {
            let off = |(predicted, measured): (Option<f64>, f64)| predicted.map(|p| (p / measured - 1.0).abs());
            predicted(pair).into_iter().zip(*time_s).filter_map(off).collect::<Vec<_>>()
        });
        let off: Vec<f64> = both.collect();
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        (!off.is_empty()).then(|| Miss { mean, worst: off.iter().copied().fold(0.0, f64::max) })
    };
    let plain = miss(&|pair| pair.plain_s.map(Some))?;
    let extended = miss(&|pair| pair.extended_s.map(Some))?;
    let alone = miss(&|pair| pair.alone_s);
    let ratio = (plain.mean > 0.0).then(|| extended.mean / plain.mean);
    Some(Errors { pairs: measured.len(), plain, extended, alone, ratio })
}
