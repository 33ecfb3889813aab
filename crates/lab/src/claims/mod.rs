//! The published claims against what is obtained here: published, obtained, error, verdict, reason.
//!
//! The rows are `data/claims.csv`, the rules by which each is judged `data/rules.toml`. A run collects the points that
//! the rules speak of, runs each once, and judges.
//!
//! Invariants: every row is reported, whatever became of it; a claim that misses says what it missed and, where that is
//! known, why; nothing that cannot be run counts as repeated.

mod expression;
mod judge;
mod rows;
mod rules;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use numa::MachineDescription;
use serde::Serialize;
use thiserror::Error;
use toml::Table;

use crate::assumption::{Assumption, assumptions};
use crate::declaration::{DeclarationError, Experiment, Workload};
use crate::engine::{Engine, RunError};
use crate::result::{Metric, ResultKind, over_seeds};
use crate::run::{Job, JobResult, Options, RunContext, RunFailure, run};

pub use judge::Verdict;
pub(crate) use judge::figure;
pub use rows::{Claim, claims};
pub use rules::{About, ClaimRule, Expectation, InRange, MachineFigure, PublishedTable, Rule, rules};

/// Why claims could not be judged at all.
#[derive(Debug, Error)]
pub enum ClaimsError {
    /// The run was stopped, or results could not be kept.
    #[error(transparent)]
    Run(#[from] RunFailure),
    /// A rule speaks of an experiment or setting that there is not.
    #[error("the rule of {id} is wrong: {error}")]
    Declaration {
        /// The claim.
        id: String,
        /// What is wrong.
        error: Box<DeclarationError>,
    },
    /// The lists in the program are wrong.
    #[error("the list of claims is wrong: {0}")]
    List(String),
    /// No such claim.
    #[error("there is no claim '{0}'; they are V1 to V20, E1 to E14, S1 to S12 and N1 to N8")]
    Unknown(String),
    /// A claim whose reason has nothing that could be varied, or that holds.
    #[error("nothing is varied for '{claim}'; there are variations of {known}")]
    NotVaried {
        /// The claim.
        claim: String,
        /// Those with variations.
        known: String,
    },
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimResult {
    /// The row.
    #[serde(flatten)]
    pub claim: Claim,
    /// The experiment whose points were run; empty where there is none yet.
    pub experiment: String,
    /// Where the obtained figures come from; `None` where nothing was run.
    pub kind: Option<ResultKind>,
    /// What was obtained, in words and figures.
    pub obtained: String,
    /// The largest relative distance from what was published, where that is a number.
    pub error: Option<f64>,
    /// What became of it.
    pub verdict: Verdict,
    /// What was missed or is missing, and why, as far as that is known.
    pub reason: String,
    /// What was missed, without why.
    pub missed: String,
    /// How it is judged, where the paper's words leave that open.
    pub judged: String,
    /// Each figure that was judged, by what it is; of a comparison its left side over its right one.
    pub values: Vec<(String, f64)>,
    /// The simulator's constants that its points read, in alphabetical order: no other one can move it.
    pub constants: Vec<String>,
    /// What was assumed of the machines and systems of its points, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// What each seed gave, where there were several; then all else is judged by the means of the points' figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_seed: Vec<OfSeed>,
}

/// What a claim is with one seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfSeed {
    /// The seed.
    pub seed: u64,
    /// What the claim becomes.
    pub verdict: Verdict,
    /// As in [`ClaimResult`].
    pub values: Vec<(String, f64)>,
}

impl ClaimResult {
    /// Whether every seed gives the verdict of the means; also where there was one seed.
    pub fn same_for_all_seeds(&self) -> bool {
        self.by_seed.iter().all(|of| of.verdict == self.verdict)
    }

    /// The standard deviation over the seeds of each of [`ClaimResult::values`], in their order, and their mean before
    /// it; empty with fewer than two seeds.
    pub fn deviations(&self) -> Vec<(&str, f64, f64)> {
        let of = |what: &str| -> Vec<f64> {
            let named = |of: &OfSeed| of.values.iter().find(|(name, _)| name == what).map(|(_, value)| *value);
            self.by_seed.iter().filter_map(named).collect()
        };
        let named = self.values.iter().map(|(what, _)| what.as_str());
        let spread = named.filter_map(|what| crate::result::spread(&of(what)).map(|(mean, off)| (what, mean, off)));
        spread.filter_map(|(what, mean, off)| Some((what, mean, off?))).collect()
    }
}

/// All claims.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The revision of Nearside.
    pub revision: String,
    /// What decided all that is random; of several seeds the first.
    pub seed: u64,
    /// All seeds.
    pub seeds: Vec<u64>,
    /// Whether points ran their full length.
    pub full: bool,
    /// The simulator's constants.
    pub constants: BTreeMap<String, f64>,
    /// The claims, in the order of the list.
    pub claims: Vec<ClaimResult>,
}

impl Evaluation {
    /// How many claims became this.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }
}

/// The engines of the papers' machines.
#[derive(Clone, Copy)]
pub struct Engines<'a> {
    /// For all that is simulated.
    pub simulated: &'a dyn Engine,
    /// For what the model computes.
    pub modelled: &'a dyn Engine,
}

/// Which claims, and how.
#[derive(Clone, Debug)]
pub struct ClaimSelection<'a> {
    /// Points run their full length.
    pub full: bool,
    /// Only these claims; all where it is empty.
    pub only: &'a [String],
    /// What is changed in every point; `None`: nothing, and points are those of the rules.
    pub changes: Option<&'a Changes>,
}

/// Something else than the rules say, in every point of the claims that are wanted: to see what a verdict hangs on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Settings in place of the points' own.
    pub set: Table,
    /// Virtual seconds in place of the experiment's.
    pub seconds: Option<f64>,
}

/// Points of one claim by name, with the place of each among the jobs.
struct ClaimPoints {
    claim: Claim,
    rule: ClaimRule,
    points: BTreeMap<String, usize>,
}

/// Runs what the rules speak of and judges every claim that is wanted.
///
/// # Errors
/// [`ClaimsError`]; a point that cannot be run is no error but a claim that is `not yet`.
pub fn evaluate(
    engines: Engines<'_>,
    wanted: &ClaimSelection<'_>,
    context: RunContext<'_>,
) -> Result<Evaluation, ClaimsError> {
    evaluate_with_records(engines, wanted, context).map(|(evaluation, _)| evaluation)
}

/// As [`evaluate`], with what the points gave.
pub(crate) fn evaluate_with_records(
    engines: Engines<'_>,
    wanted: &ClaimSelection<'_>,
    context: RunContext<'_>,
) -> Result<(Evaluation, Vec<JobResult>), ClaimsError> {
    let (prepared, jobs) = prepare(wanted)?;
    let results = run_all(engines, &jobs, context)?;
    let claims = prepared.iter().map(|one| result_of(one, &jobs, &results)).collect();
    let evaluation = Evaluation {
        revision: context.options.revision.clone(),
        seed: context.options.seed,
        seeds: vec![context.options.seed],
        full: wanted.full,
        constants: engines.simulated.constants(),
        claims,
    };
    Ok((evaluation, results))
}

/// As [`evaluate`] with `n` seeds, that of the options and those after it: claims are judged by the means over the
/// seeds, and by each seed for itself. What was run is kept seed by seed.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_over_seeds(
    engines: Engines<'_>,
    wanted: &ClaimSelection<'_>,
    seeds: u32,
    context: RunContext<'_>,
) -> Result<Evaluation, ClaimsError> {
    if seeds <= 1 {
        return evaluate(engines, wanted, context);
    }
    let (prepared, jobs) = prepare(wanted)?;
    let mut of_seeds: Vec<(u64, Vec<JobResult>)> = Vec::new();
    for seed in context.options.seeds(seeds) {
        let options = Options { seed, ..context.options.clone() };
        of_seeds.push((seed, run_all(engines, &jobs, RunContext { options: &options, ..context })?));
    }
    let mean = |job: usize| -> JobResult {
        let records = of_seeds.iter().map(|(_, results)| results[job].clone()).collect::<Result<Vec<_>, _>>()?;
        let folded = over_seeds(&records).into_iter().next();
        folded.map(|folded| folded.mean).ok_or_else(|| RunError::Failed("no seed was run".to_string()))
    };
    let means: Vec<JobResult> = (0..jobs.len()).map(mean).collect();
    let claim = |one: &ClaimPoints| {
        let of_seed = |(seed, results): &(u64, Vec<JobResult>)| {
            let result = result_of(one, &jobs, results);
            OfSeed { seed: *seed, verdict: result.verdict, values: result.values }
        };
        let result = result_of(one, &jobs, &means);
        // A table or an input has no point that a seed could change.
        let by_seed = if one.points.is_empty() { Vec::new() } else { of_seeds.iter().map(of_seed).collect() };
        ClaimResult { by_seed, ..result }
    };
    Ok(Evaluation {
        revision: context.options.revision.clone(),
        seed: context.options.seed,
        seeds: of_seeds.iter().map(|(seed, _)| *seed).collect(),
        full: wanted.full,
        constants: engines.simulated.constants(),
        claims: prepared.iter().map(claim).collect(),
    })
}

/// The claims that use an experiment, by id.
pub fn claims_of(experiment: &str) -> Vec<String> {
    let rules = rules().unwrap_or_default();
    let uses = |rule: &ClaimRule| {
        rule.about.experiment == experiment
            || rule
                .about
                .points
                .values()
                .any(|point| point.get("experiment").and_then(|e| e.as_str()) == Some(experiment))
    };
    rules.iter().filter(|(_, rule)| uses(rule)).map(|(id, _)| id.clone()).collect()
}

fn prepare(wanted: &ClaimSelection<'_>) -> Result<(Vec<ClaimPoints>, Vec<Job>), ClaimsError> {
    let mut rules = rules().map_err(ClaimsError::List)?;
    let rows = claims().map_err(ClaimsError::List)?;
    if let Some(unknown) = wanted.only.iter().find(|id| !rows.iter().any(|claim| claim.id == **id)) {
        return Err(ClaimsError::Unknown(unknown.clone()));
    }
    let mut experiments: BTreeMap<String, Experiment> = BTreeMap::new();
    let mut jobs: Vec<Job> = Vec::new();
    let mut all = Vec::new();
    for claim in rows {
        if !wanted.only.is_empty() && !wanted.only.contains(&claim.id) {
            continue;
        }
        let rule = rules.remove(&claim.id).ok_or_else(|| ClaimsError::List(format!("{} has no rule", claim.id)))?;
        let mut points = BTreeMap::new();
        for (name, settings) in &rule.about.points {
            let job = job_of(&rule.about, settings, wanted, &mut experiments)
                .map_err(|error| ClaimsError::Declaration { id: claim.id.clone(), error: Box::new(error) })?;
            let at = jobs.iter().position(|known| *known == job).unwrap_or_else(|| {
                jobs.push(job);
                jobs.len() - 1
            });
            points.insert(name.clone(), at);
        }
        all.push(ClaimPoints { claim, rule, points });
    }
    Ok((all, jobs))
}

/// Whether the points of a claim can be changed so.
#[cfg(test)]
pub(crate) fn can_be_prepared(claim: &str, changes: &Changes) -> Result<(), ClaimsError> {
    let only = [claim.to_string()];
    prepare(&ClaimSelection { full: false, only: &only, changes: Some(changes) }).map(|_| ())
}

fn job_of(
    about: &About,
    settings: &Table,
    wanted: &ClaimSelection<'_>,
    experiments: &mut BTreeMap<String, Experiment>,
) -> Result<Job, DeclarationError> {
    let mut settings = settings.clone();
    if let Some(changes) = wanted.changes {
        settings.extend(changes.set.clone());
    }
    let id = match settings.remove("experiment") {
        Some(toml::Value::String(id)) => id,
        _ => about.experiment.clone(),
    };
    if !experiments.contains_key(&id) {
        experiments.insert(id.clone(), Experiment::find(&id)?);
    }
    let experiment = &experiments[&id];
    let point = experiment.point_with(&settings)?;
    let usual = experiment.seconds_of(&point, wanted.full);
    let seconds = wanted.changes.and_then(|changes| changes.seconds).unwrap_or(usual);
    Ok(Job { experiment: id, point, seconds })
}

/// Runs jobs, each by its engine; results in the order of the jobs.
fn run_all(engines: Engines<'_>, jobs: &[Job], context: RunContext<'_>) -> Result<Vec<JobResult>, RunFailure> {
    let modelled = |at: &usize| matches!(jobs[*at].point.settings.workload, Workload::Modelled(_));
    let (by_model, by_simulator): (Vec<usize>, Vec<usize>) = (0..jobs.len()).partition(modelled);
    let mut results: BTreeMap<usize, JobResult> = BTreeMap::new();
    for (engine, places) in [(engines.modelled, by_model), (engines.simulated, by_simulator)] {
        let group: Vec<Job> = places.iter().map(|at| jobs[*at].clone()).collect();
        results.extend(places.into_iter().zip(run(engine, &group, context)?));
    }
    Ok(results.into_values().collect())
}

fn result_of(one: &ClaimPoints, jobs: &[Job], results: &[JobResult]) -> ClaimResult {
    let mut result = ClaimResult {
        claim: one.claim.clone(),
        experiment: one
            .points
            .values()
            .next()
            .map_or(one.rule.about.experiment.clone(), |at| jobs[*at].experiment.clone()),
        kind: None,
        obtained: String::new(),
        error: None,
        verdict: Verdict::NotYet,
        reason: String::new(),
        missed: String::new(),
        judged: one.rule.about.note.clone(),
        values: Vec::new(),
        constants: constants_of(one, results),
        assumed: Vec::new(),
        by_seed: Vec::new(),
    };
    let assumed: Vec<&Assumption> =
        assumptions().iter().filter(|assumed| one.points.values().any(|at| assumed.is_of(&jobs[*at].point))).collect();
    result.assumed = assumed.iter().map(|assumed| assumed.name.clone()).collect();
    match &one.rule.rule {
        Rule::NotYet { missing } => result.reason = missing.clone(),
        Rule::Input { of } => input(&mut result, of),
        Rule::Table { table, within } => {
            table::judge_table(&mut result, *table, *within);
            if result.verdict == Verdict::Misses {
                result.reason = format!("{}. {}", result.reason, one.rule.about.if_missed);
            }
        }
        rule => {
            let figures = |name: &str, metric: Metric| match &results[*one.points.get(name)?] {
                Ok(record) => record.get(metric),
                Err(_) => None,
            };
            result.kind = one.points.values().find_map(|at| results[*at].as_ref().ok().map(|record| record.kind));
            if let Some(judged) = judge::judge(rule, &figures) {
                result.verdict = judged.verdict;
                result.obtained = judged.obtained;
                result.error = judged.error;
                result.missed = judged.why.clone();
                result.values = judged.values;
                result.reason = judged.why;
            }
            let failed: Vec<&RunError> = one.points.values().filter_map(|at| results[*at].as_ref().err()).collect();
            if let Some(first) = failed.first() {
                result.reason = first.to_string();
            }
            if result.verdict == Verdict::Misses && !one.rule.about.if_missed.is_empty() {
                result.reason = format!("{}. {}", result.reason, one.rule.about.if_missed);
            }
        }
    }
    if result.verdict == Verdict::Holds {
        if let Some(by) = assumed.iter().find(|assumed| assumed.fitted.contains(&result.claim.id)) {
            result.verdict = Verdict::Fitted;
            result.reason = format!("{} was chosen so that it comes out", by.told());
        } else if !one.rule.about.by_construction.is_empty() {
            result.verdict = Verdict::ByConstruction;
            result.reason = one.rule.about.by_construction.clone();
        }
    }
    result
}

fn constants_of(one: &ClaimPoints, results: &[JobResult]) -> Vec<String> {
    let records = one.points.values().filter_map(|at| results[*at].as_ref().ok());
    let read: BTreeSet<&String> = records.flat_map(|record| &record.outcome.constants).collect();
    read.into_iter().cloned().collect()
}

/// A figure that the machine model reads: reported as the published machine has it.
fn input(result: &mut ClaimResult, of: &[MachineFigure; 2]) {
    let local = |figure: &MachineFigure| -> Option<f64> {
        let attributes = MachineDescription::parse(&figure.machine).ok()?.attributes?;
        let own: Vec<f64> = attributes
            .nodes
            .iter()
            .enumerate()
            .filter_map(|(row, node)| {
                let column = attributes.targets.iter().position(|target| target == node)?;
                attributes.latency.get(row)?.get(column)?.map(|latency| latency.avg_ns)
            })
            .collect();
        (!own.is_empty()).then(|| own.iter().sum::<f64>() / own.len() as f64)
    };
    result.verdict = Verdict::Input;
    result.reason = "a figure of the machine that is simulated, read and not repeated".to_string();
    if let [Some(with), Some(without)] = of.each_ref().map(local) {
        let change = with / without - 1.0;
        result.obtained = format!("local latency {with:.1} against {without:.1} ns: {:+.1}%", change * 100.0);
        result.error =
            result.claim.published.parse::<f64>().ok().map(|published| (change - published) / published.abs());
    }
}

#[cfg(test)]
mod tests;
