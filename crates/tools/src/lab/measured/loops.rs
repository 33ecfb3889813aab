//! STREAM's triad over striped memory and over memory that lies where it was first touched (Seidel 2011, section 2.1),
//! measured: passes of `a[i] = b[i] + s * c[i]` by the scheduler's own loops.
//!
//! Each element is written once before, by a worker next to its stripe; without stripes, by whichever worker came to it
//! first. STREAM itself has each thread read what it touched, so memory that is not striped is always read by its node;
//! `aware` says whether striped memory is.
//!
//! # Limits
//! Bytes are counted as STREAM does, without the lines that are read because they will be written. The thesis' queries
//! were written by hand and are not at hand.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::declaration::{Loops, NbbTask};
use lab::engine::RunError;
use lab::result::{Metric, Outcome};
use numa::Budget;
use sched::Statement;
use sched::parallel::{Bound, Grain, Loop, Os, PolicyHint, StripedArray, StripingPartitioner};

use super::columns::GB;
use super::{Bench, failed, not_yet};
use crate::size::thousands;

/// Elements of each of STREAM's arrays in the thesis.
const ELEMENTS: u64 = 200_000_000;
/// Bytes that the triad counts for one: two numbers read and one written.
const TRIAD_BYTES: u64 = 24;
/// The share of the memory that the three arrays take at most.
const ARRAYS_SHARE: f64 = 0.2;
const FACTOR: f64 = 3.0;

/// Runs passes over the arrays.
pub fn run(bench: Bench<'_>, asked: &Loops) -> Result<Outcome, RunError> {
    if asked.task != NbbTask::Stream {
        return Err(not_yet("the thesis' queries"));
    }
    let elements = ELEMENTS.min((bench.memory_bytes as f64 * ARRAYS_SHARE) as u64 / TRIAD_BYTES).max(1);
    let database = bench.stored.database();
    let statement = Statement::new(0, Budget::new("the arrays of a loop", bench.memory_bytes));
    let hint: &dyn PolicyHint = if asked.aware || !asked.striped { &Bound } else { &Os };
    let grain = match asked.adaptive_grain {
        true => Grain::Adaptive,
        false => Grain::Bytes(u64::from(asked.grain_kib) * 1024),
    };
    let how = Loop::new(&**database.scheduler(), &statement).grain(grain).hint(hint);
    let stripes = StripingPartitioner::new(if asked.striped { bench.nodes.to_vec() } else { Vec::new() });
    let array =
        |value: fn(usize) -> f64| StripedArray::from_fn(&how, elements as usize, &stripes, value).map_err(failed);
    let b = array(addend)?;
    let c = array(multiplicand)?;
    let mut a = array(|_| 0.0)?;

    let mut pass = || {
        let began = Instant::now();
        how.parallel_for_mut(&mut a, |start, sums| {
            let range = start..start + sums.len();
            for (sum, (b, c)) in sums.iter_mut().zip(b[range.clone()].iter().zip(&c[range])) {
                *sum = b + FACTOR * c;
            }
        })
        .map_err(failed)?;
        Ok::<Duration, RunError>(began.elapsed())
    };
    // The first pass finds out where the arrays lie, and does not count.
    pass()?;
    let began = Instant::now();
    let length = Duration::from_secs_f64(bench.conditions.seconds);
    let mut times = Vec::new();
    while times.is_empty() || began.elapsed() < length {
        if bench.conditions.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        times.push(pass()?.as_secs_f64());
    }
    let right = |i: usize| a[i] == addend(i) + FACTOR * multiplicand(i);
    let all = how.parallel_reduce(&a, || true, |so_far, mut range| so_far && range.all(right), |x, y| x && y);
    if !all.map_err(failed)? {
        return Err(RunError::Failed("the triad's sums are wrong: this is a bug in the scheduler's loops".to_string()));
    }
    Ok(outcome(&times, elements))
}

fn addend(index: usize) -> f64 {
    (index % 1000) as f64
}

fn multiplicand(index: usize) -> f64 {
    (index % 7) as f64
}

fn outcome(times: &[f64], elements: u64) -> Outcome {
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let worst = times.iter().copied().fold(0.0, f64::max);
    let mut found = Outcome::default()
        .with(Metric::RunTime, mean)
        .with(Metric::RunSpread, worst / best - 1.0)
        .with(Metric::ScanRate, (elements * TRIAD_BYTES) as f64 / mean / GB);
    if elements < ELEMENTS {
        let some = thousands(elements);
        let all = thousands(ELEMENTS);
        found.notes.push(format!("scaled to this machine's memory: {some} elements of {all}"));
    }
    found
}
