//! Loops and reductions of this crate beside rayon's, in turns:
//! `cargo run --release -p nearside-sched --example parallel` [turns, 301 if not given].

use std::ops::Range;
use std::sync::Arc;

use numa::Topology;
use rayon::prelude::*;
use sched::parallel::bench::{MEMORY_ELEMENTS, PlainThreads, Rival, heading, run};
use sched::{Config, Scheduler};

struct Rayon;

impl Rival for Rayon {
    fn name(&self) -> &str {
        "rayon"
    }

    fn parallel_for(&self, elements: usize, grain: Option<usize>, body: impl Fn(Range<usize>) + Sync + Send) {
        match grain {
            Some(grain) => {
                let call = |call: usize| body(call * grain..elements.min((call + 1) * grain));
                (0..elements.div_ceil(grain)).into_par_iter().for_each(call);
            }
            None => rayon::iter::split(0..elements, halves).for_each(body),
        }
    }

    fn parallel_sum(
        &self,
        elements: usize,
        grain: Option<usize>,
        value: impl Fn(Range<usize>) -> u64 + Sync + Send,
    ) -> u64 {
        match grain {
            Some(grain) => {
                let call = |call: usize| value(call * grain..elements.min((call + 1) * grain));
                (0..elements.div_ceil(grain)).into_par_iter().map(call).reduce(|| 0, u64::wrapping_add)
            }
            None => rayon::iter::split(0..elements, halves).map(value).reduce(|| 0, u64::wrapping_add),
        }
    }
}

/// How rayon may split a range; when to, it decides by itself.
fn halves(range: Range<usize>) -> (Range<usize>, Option<Range<usize>>) {
    let middle = range.start + range.len() / 2;
    if middle == range.start { (range, None) } else { (range.start..middle, Some(middle..range.end)) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turns = std::env::args().nth(1).map_or(Ok(301), |turns| turns.parse())?;
    let scheduler = Scheduler::new(Arc::new(Topology::discover()?), Config::default());
    rayon::ThreadPoolBuilder::new().num_threads(scheduler.threads()).build_global()?;
    println!("{} threads, medians of {turns} turns; a ratio below 1 is faster than the rival", scheduler.threads());
    println!("{}", heading(&Rayon));
    run(&scheduler, &Rayon, turns, MEMORY_ELEMENTS).iter().for_each(|row| println!("{row}"));
    let threads = PlainThreads(scheduler.threads());
    println!("\n{}", heading(&threads));
    run(&scheduler, &threads, turns, MEMORY_ELEMENTS).iter().for_each(|row| println!("{row}"));
    Ok(())
}
