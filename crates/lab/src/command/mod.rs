//! What `nearside lab list | run | claims | report` do, without their argument parser: plain structs in, text and files
//! out.
//!
//! Invariants: what is asked for is checked before anything runs; a file takes its name when it is whole; tables go to
//! the writer that the caller gave, progress to its callback, nothing to a terminal by itself.

mod tables;

pub(crate) use tables::aligned;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sim::Constants;
use thiserror::Error;

use crate::claims::{ClaimSelection, ClaimsError, Engines, Evaluation, evaluate_over_seeds};
use crate::declaration::{DeclarationError, Experiment};
use crate::engine::{Engine, Measure, MeasuredEngine, ModelEngine, RunError, SimEngine};
use crate::report::{Material, report as page};
use crate::result::{Record, ResultFile, ResultKind, Store, StoreError, as_json};
use crate::run::{Job, Options, Progress, RunContext, RunFailure, run as run_jobs};
use crate::sensitivity::sensitivity;
use crate::variation::{VariationResult, vary as run_variations};

/// Where results are kept unless the caller says otherwise.
pub const RESULTS: &str = "lab-results";
/// The file of a folder of results that says which conclusions move.
const SENSITIVITY: &str = "sensitivity.json";
/// The file of a folder of results that says what varying the reasons of misses gave.
const VARIATIONS: &str = "variations.json";
/// The folder of the points that variations run, within that of the results.
const VARIED: &str = "varied";

/// Why a command failed.
#[derive(Debug, Error)]
pub enum CommandError {
    /// No such experiment, or it cannot be set so.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// Claims could not be judged.
    #[error(transparent)]
    Claims(#[from] ClaimsError),
    /// It was stopped, or results could not be kept.
    #[error(transparent)]
    Run(#[from] RunFailure),
    /// Results could not be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be written.
    #[error("cannot write '{}': {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The text could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// What was asked for cannot be done.
    #[error("{0}")]
    Refused(String),
}

/// What all commands that run something need.
pub struct Context<'a> {
    /// The revision that result files name.
    pub revision: String,
    /// Threads that run points.
    pub threads: usize,
    /// Told after every point.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
    /// Set to stop; what was finished is kept.
    pub stop: &'a AtomicBool,
    /// What measures on the machine at hand, where the program can.
    pub measure: Option<&'a dyn Measure>,
}

impl Context<'_> {
    pub(crate) fn run<'a>(&'a self, options: &'a Options, store: Option<&'a Store>) -> RunContext<'a> {
        RunContext { options, store, progress: self.progress, stop: self.stop }
    }
}

/// `lab run`.
#[derive(Clone, Debug)]
pub struct RunArguments {
    /// Ids of ours, or paths of declarations; `all` for every one of ours.
    pub experiments: Vec<String>,
    /// `key=value` in place of what the file says.
    pub set: Vec<String>,
    /// Simulated (a model's experiments are then modelled), or measured.
    pub kind: ResultKind,
    /// Points run their full length; else shortened.
    pub full: bool,
    /// Decides all that is random.
    pub seed: u64,
    /// How many seeds each point is run with: `seed` and those after it. Tables and pages have means and deviations.
    pub seeds: u32,
    /// Where results are kept.
    pub results: PathBuf,
}

/// `lab claims`.
#[derive(Clone, Debug)]
pub struct ClaimsArguments {
    /// Only these; all where it is empty.
    pub only: Vec<String>,
    /// Points run their full length; else shortened.
    pub full: bool,
    /// Writes all claims as JSON.
    pub json: Option<PathBuf>,
    /// Looks at which verdicts move with the constants, too.
    pub sensitivity: bool,
    /// Decides all that is random.
    pub seed: u64,
    /// How many seeds claims are judged with: `seed` and those after it. The sensitivity is that of `seed`.
    pub seeds: u32,
    /// Where finished points and the sensitivity are kept; `None` keeps nothing.
    pub results: Option<PathBuf>,
}

/// `lab report`.
#[derive(Clone, Debug)]
pub struct ReportArguments {
    /// The page.
    pub out: PathBuf,
    /// Where results are.
    pub results: PathBuf,
    /// Claims are judged with points of full length.
    pub full: bool,
    /// Decides all that is random in the claims.
    pub seed: u64,
    /// How many seeds claims are judged with: `seed` and those after it.
    pub seeds: u32,
}

/// Lists the experiments.
///
/// # Errors
/// [`CommandError::Output`].
pub fn list(out: &mut dyn Write) -> Result<(), CommandError> {
    tables::experiments(out, &Experiment::all())?;
    Ok(())
}

/// Runs experiments and prints their figures.
///
/// # Errors
/// [`CommandError`]. Points that cannot be run yet are told and are no error, unless none of an experiment can.
pub fn run(arguments: &RunArguments, context: &Context<'_>, out: &mut dyn Write) -> Result<(), CommandError> {
    let names: Vec<String> = match arguments.experiments.as_slice() {
        [one] if one == "all" => Experiment::all().into_iter().map(|e| e.id).collect(),
        [] => {
            return Err(CommandError::Refused("which experiment? ('lab list' lists them; 'all' runs all)".to_string()));
        }
        names => names.to_vec(),
    };
    let several = names.len() > 1;
    let mut wanted = Vec::new();
    for name in &names {
        let experiment = Experiment::find(name)?;
        let kind = kind_of(&experiment, arguments.kind);
        if several && !experiment.runs_as(kind) {
            continue;
        }
        let engine = engine_for(&experiment, kind, context)?;
        let set = experiment.read_settings(&arguments.set)?;
        let points = experiment.grid_with(&set)?;
        wanted.push((experiment, engine, points));
    }
    let store = Store::open(&arguments.results)?;
    let options = Options { seed: arguments.seed, threads: context.threads, revision: context.revision.clone() };
    let mut failed = 0;
    for (experiment, engine, points) in wanted {
        let job = |point| {
            let seconds = experiment.seconds_of(&point, arguments.full);
            Job { experiment: experiment.id.clone(), point, seconds }
        };
        let jobs: Vec<Job> = points.into_iter().map(job).collect();
        let mut results = Vec::new();
        for seed in options.seeds(arguments.seeds) {
            let options = Options { seed, ..options.clone() };
            results.extend(run_jobs(engine.as_ref(), &jobs, context.run(&options, Some(&store)))?);
        }
        let records: Vec<Record> = results.iter().filter_map(|result| result.as_ref().ok().cloned()).collect();
        let errors: Vec<&RunError> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        tables::results(out, &experiment, engine.kind(), &records, &errors)?;
        failed += usize::from(records.is_empty());
    }
    if failed > 0 && !several {
        return Err(CommandError::Refused("no point of it could be run".to_string()));
    }
    Ok(())
}

/// Judges the claims, prints them, writes them.
///
/// # Errors
/// [`CommandError`]. A claim that misses is none.
pub fn claims(
    arguments: &ClaimsArguments,
    context: &Context<'_>,
    out: &mut dyn Write,
) -> Result<Evaluation, CommandError> {
    if let Some(path) = &arguments.json {
        can_write(path)?;
    }
    let store = arguments.results.as_deref().map(Store::open).transpose()?;
    let options = Options { seed: arguments.seed, threads: context.threads, revision: context.revision.clone() };
    let wanted = ClaimSelection { full: arguments.full, only: &arguments.only, changes: None };
    let evaluation = judged(&wanted, arguments.seeds, context.run(&options, store.as_ref()))?;
    tables::claims(out, &evaluation)?;
    if arguments.sensitivity {
        let found = sensitivity(&[], &wanted, context.run(&options, store.as_ref()))?;
        tables::sensitivity(out, &found)?;
        if let Some(folder) = &arguments.results {
            write_json(&folder.join(SENSITIVITY), &found)?;
        }
    }
    if let Some(path) = &arguments.json {
        write_json(path, &evaluation)?;
    }
    Ok(evaluation)
}

/// What `lab vary` needs.
#[derive(Clone, Debug)]
pub struct VaryArguments {
    /// Only the reasons of these claims; all where it is empty.
    pub only: Vec<String>,
    /// Decides all that is random.
    pub seed: u64,
    /// Where finished points and the table are kept; `None` keeps nothing.
    pub results: Option<PathBuf>,
}

/// Varies what is given as the reasons of misses, and prints what came of it.
///
/// # Errors
/// [`CommandError`]: a claim for which nothing is varied, `stop`.
pub fn vary(
    arguments: &VaryArguments,
    context: &Context<'_>,
    out: &mut dyn Write,
) -> Result<Vec<VariationResult>, CommandError> {
    // Points of other settings and lengths than the declared ones have no place in the report's figures.
    let folder = arguments.results.as_ref().map(|results| results.join(VARIED));
    let store = folder.as_deref().map(Store::open).transpose()?;
    let options = Options { seed: arguments.seed, threads: context.threads, revision: context.revision.clone() };
    let found = run_variations(&arguments.only, context.run(&options, store.as_ref()))?;
    tables::variations(out, &found)?;
    if let Some(folder) = arguments.results.as_ref().filter(|_| arguments.only.is_empty()) {
        write_json(&folder.join(VARIATIONS), &found)?;
    }
    Ok(found)
}

/// Writes the page from what results there are.
///
/// # Errors
/// [`CommandError`].
pub fn report(arguments: &ReportArguments, context: &Context<'_>, out: &mut dyn Write) -> Result<(), CommandError> {
    can_write(&arguments.out)?;
    let store = Store::open(&arguments.results)?;
    let options = Options { seed: arguments.seed, threads: context.threads, revision: context.revision.clone() };
    let wanted = ClaimSelection { full: arguments.full, only: &[], changes: None };
    let evaluation = judged(&wanted, arguments.seeds, context.run(&options, Some(&store)))?;
    let material = Material {
        experiments: with_results(&store)?,
        claims: Some(evaluation),
        sensitivity: read_json(&arguments.results.join(SENSITIVITY)),
        variations: read_json(&arguments.results.join(VARIATIONS)).unwrap_or_default(),
        revision: context.revision.clone(),
    };
    write_text(&arguments.out, &page(&material))?;
    let run = material.experiments.iter().filter(|(_, results)| !results.is_empty()).count();
    let all = material.experiments.len();
    writeln!(
        out,
        "{}: {run} of {all} experiments with results from '{}'",
        arguments.out.display(),
        arguments.results.display()
    )?;
    Ok(())
}

fn judged(wanted: &ClaimSelection<'_>, seeds: u32, context: RunContext<'_>) -> Result<Evaluation, CommandError> {
    let simulated = SimEngine::new(Constants::default());
    let modelled = ModelEngine;
    let engines = Engines { simulated: &simulated, modelled: &modelled };
    Ok(evaluate_over_seeds(engines, wanted, seeds, context)?)
}

/// Each experiment of ours with its results, and those of a user's own that are in the folder no more than in passing:
/// for each origin the file that was written last with the constants as they are.
fn with_results(store: &Store) -> Result<Vec<(Experiment, Vec<ResultFile>)>, CommandError> {
    let constants = SimEngine::new(Constants::default()).constants();
    let mut files = store.files()?;
    files.retain(|(head, records)| {
        !records.is_empty() && (head.kind != ResultKind::Simulated || head.constants == constants)
    });
    let mut all = Vec::new();
    for experiment in Experiment::all() {
        let mut results: Vec<ResultFile> = Vec::new();
        for kind in [ResultKind::Simulated, ResultKind::Modelled, ResultKind::Measured] {
            let own = files.iter().filter(|(head, _)| head.experiment == experiment.id && head.kind == kind);
            // A claim runs some points only; what 'lab run' wrote has the whole grid.
            if let Some((head, records)) = own.max_by_key(|(_, records)| records.len()) {
                results.push((head.clone(), in_order(&experiment, records.clone())));
            }
        }
        all.push((experiment, results));
    }
    Ok(all)
}

/// Records in the order of the grid, those of other settings after them: threads finish points in any order. Of a point
/// that was run for several lengths, the longest.
fn in_order(experiment: &Experiment, mut records: Vec<Record>) -> Vec<Record> {
    let mut longest: BTreeMap<String, f64> = BTreeMap::new();
    let of = |record: &Record| format!("{:?} {}", record.settings, record.seed);
    for record in &records {
        let length = longest.entry(of(record)).or_insert(record.seconds);
        *length = length.max(record.seconds);
    }
    records.retain(|record| longest.get(&of(record)) == Some(&record.seconds));
    let points = experiment.grid_with(&toml::Table::new()).unwrap_or_default();
    let settings: Vec<_> = points.iter().map(|point| as_json(&point.named)).collect();
    records.sort_by_key(|record| settings.iter().position(|known| *known == record.settings).unwrap_or(usize::MAX));
    records
}

fn kind_of(experiment: &Experiment, asked: ResultKind) -> ResultKind {
    if asked == ResultKind::Simulated
        && !experiment.runs_as(ResultKind::Simulated)
        && experiment.runs_as(ResultKind::Modelled)
    {
        return ResultKind::Modelled;
    }
    asked
}

fn engine_for<'a>(
    experiment: &Experiment,
    kind: ResultKind,
    context: &Context<'a>,
) -> Result<Box<dyn Engine + 'a>, CommandError> {
    if !experiment.runs_as(kind) {
        let kinds: Vec<&str> = experiment.kinds.iter().map(|kind| kind.word()).collect();
        return Err(CommandError::Refused(format!("'{}' can be {}, not {kind}", experiment.id, kinds.join(" or "))));
    }
    match (kind, context.measure) {
        (ResultKind::Modelled, _) => Ok(Box::new(ModelEngine)),
        (ResultKind::Measured, Some(measure)) => Ok(Box::new(MeasuredEngine(measure))),
        (ResultKind::Measured, None) => {
            Err(CommandError::Refused("this program cannot measure; 'nearside lab' can".to_string()))
        }
        (ResultKind::Simulated | ResultKind::Published, _) => Ok(Box::new(SimEngine::new(Constants::default()))),
    }
}

/// What an earlier command kept; `None` where it kept nothing, or what an older program wrote otherwise.
fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), CommandError> {
    let failure = |source: io::Error| CommandError::File { path: path.to_path_buf(), source };
    let text = serde_json::to_string_pretty(value).map_err(|error| failure(error.into()))?;
    write_text(path, &(text + "\n"))
}

/// Writes beside the file, then renames: a reader never sees half of it.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), CommandError> {
    let failure = |source: io::Error| CommandError::File { path: path.to_path_buf(), source };
    let unfinished = unfinished(path)?;
    std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, path)).map_err(failure)
}

/// Sees that a file can be written, before anything runs for it.
pub(crate) fn can_write(path: &Path) -> Result<(), CommandError> {
    let failure = |source: io::Error| CommandError::File { path: path.to_path_buf(), source };
    if path.is_dir() {
        return Err(failure(io::ErrorKind::IsADirectory.into()));
    }
    let unfinished = unfinished(path)?;
    std::fs::write(&unfinished, "").and_then(|()| std::fs::remove_file(&unfinished)).map_err(failure)
}

fn unfinished(path: &Path) -> Result<PathBuf, CommandError> {
    match path.file_name() {
        Some(name) => Ok(path.with_file_name(format!(".{}.unfinished", name.to_string_lossy()))),
        None => Err(CommandError::File { path: path.to_path_buf(), source: io::ErrorKind::InvalidFilename.into() }),
    }
}

#[cfg(test)]
mod tests;
