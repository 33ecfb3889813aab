//! Runs points: on several threads, with progress, stopped and gone on with.
//!
//! Points that take long are begun first, as far as the engine knows. Invariants: the records come in the order of the
//! jobs, whatever thread ran them and when; a point that a store has is not run
//! again; a point is kept as soon as it is finished, so stopping loses at most what was being run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use crate::declaration::Point;
use crate::engine::{Conditions, Engine, RunError};
use crate::result::{FORMAT, Head, Record, Store, StoreError, as_json, key};

/// A point to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The experiment's id.
    pub experiment: String,
    /// Its settings.
    pub point: Point,
    /// How long, in virtual or real seconds.
    pub seconds: f64,
}

/// How jobs are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides all that is random; every point gets the same one, so that points differ by their settings only.
    pub seed: u64,
    /// Threads that run points.
    pub threads: usize,
    /// The revision that result files name.
    pub revision: String,
}

impl Options {
    /// `n` seeds: its own and those after it.
    pub fn seeds(&self, count: u32) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..u64::from(count.max(1))).map(move |at| first.wrapping_add(at))
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The experiment of the job that was finished last.
    pub experiment: &'a str,
    /// Jobs that are finished.
    pub done: usize,
    /// All jobs.
    pub all: usize,
}

/// With what points are run, whoever asks for them.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// Seed, threads, revision.
    pub options: &'a Options,
    /// Where results are kept, and found again; none keeps nothing.
    pub store: Option<&'a Store>,
    /// Told of every job that is finished.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
    /// Set by whoever wants it to stop.
    pub stop: &'a AtomicBool,
}

/// What became of a job.
pub type JobResult = Result<Record, RunError>;

/// Why a run ended early.
#[derive(Debug, Error)]
pub enum RunFailure {
    /// Results could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was stopped; what was finished is kept.
    #[error("stopped after {done} of {all} points; the same command goes on from there")]
    Stopped {
        /// Jobs that were finished.
        done: usize,
        /// All jobs.
        all: usize,
    },
}

/// Runs all jobs, or those that the store does not have yet.
///
/// # Errors
/// [`RunFailure`]: a full disk, or `stop` was set. A point that cannot be run is an error of its own place in the
/// result.
pub fn run(engine: &dyn Engine, jobs: &[Job], context: RunContext<'_>) -> Result<Vec<JobResult>, RunFailure> {
    let RunContext { options, store, progress, stop } = context;
    let files = match store {
        Some(store) => open_files(engine, jobs, options, store)?,
        None => BTreeMap::new(),
    };
    let failure: Mutex<Option<StoreError>> = Mutex::new(None);
    let order = longest_first(engine, jobs, options, stop);
    let done = AtomicUsize::new(0);
    let work = |place: usize| {
        let job = &jobs[order[place]];
        let file = files.get(&job.experiment);
        let settings = as_json(&job.point.named);
        let kept = file.and_then(|file| file.get(&key(&job.experiment, &settings, options.seed, job.seconds)));
        let result = match kept {
            Some(record) => Ok(record.clone()),
            None => {
                let conditions = Conditions { seed: options.seed, seconds: job.seconds, stop };
                engine.run(&job.point, conditions).map(|outcome| Record {
                    experiment: job.experiment.clone(),
                    settings,
                    seed: options.seed,
                    seconds: job.seconds,
                    kind: engine.kind(),
                    outcome,
                })
            }
        };
        if result == Err(RunError::Stopped) {
            return None;
        }
        if let (Some(file), None, Ok(record)) = (file, kept, &result)
            && let Err(error) = file.add(record)
        {
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            return None;
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress(Progress { experiment: &job.experiment, done, all: jobs.len() });
        Some(result)
    };
    let threads = options.threads.clamp(1, engine.parallel_max());
    let found = on_threads(threads, jobs.len(), stop, work);
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error.into());
    }
    let mut results: Vec<Option<JobResult>> = vec![None; jobs.len()];
    order.into_iter().zip(found).for_each(|(at, result)| results[at] = result);
    let (done, all) = (done.into_inner(), jobs.len());
    results.into_iter().collect::<Option<Vec<_>>>().ok_or(RunFailure::Stopped { done, all })
}

/// Does pieces of work in their order on several threads, of which one that gets `None` ends; results by place, `None`
/// of what was not done.
pub(crate) fn on_threads<T: Send>(
    threads: usize,
    count: usize,
    stop: &AtomicBool,
    work: impl Fn(usize) -> Option<T> + Sync,
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..count).map(|_| None).collect());
    let thread = || {
        while !stop.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                return;
            }
            let Some(result) = work(place) else { return };
            results.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count.max(1)) {
            scope.spawn(thread);
        }
        thread();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The places of the jobs, those that take long first; equal ones in their order.
fn longest_first(engine: &dyn Engine, jobs: &[Job], options: &Options, stop: &AtomicBool) -> Vec<usize> {
    let cost = |job: &Job| engine.cost(&job.point, Conditions { seed: options.seed, seconds: job.seconds, stop });
    let costs: Vec<f64> = jobs.iter().map(cost).collect();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by(|a, b| costs[*b].total_cmp(&costs[*a]));
    order
}

/// The result file of each experiment among the jobs.
fn open_files(
    engine: &dyn Engine,
    jobs: &[Job],
    options: &Options,
    store: &Store,
) -> Result<BTreeMap<String, crate::result::Results>, StoreError> {
    let mut heads: BTreeMap<&str, Head> = BTreeMap::new();
    for job in jobs {
        let head = heads.entry(&job.experiment).or_insert_with(|| Head {
            format: FORMAT,
            experiment: job.experiment.clone(),
            kind: engine.kind(),
            revision: options.revision.clone(),
            machines: BTreeMap::new(),
            constants: engine.constants(),
        });
        let named = &job.point.settings.machine.machine;
        if !head.machines.contains_key(named)
            && let Ok((name, topology)) = engine.machine(&job.point)
        {
            head.machines.insert(name, topology);
        }
    }
    heads.into_iter().map(|(id, head)| Ok((id.to_string(), store.results(&head)?))).collect()
}

#[cfg(test)]
mod tests;
