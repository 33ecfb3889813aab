//! A benchmark of loops and reductions: this crate beside a rival, on a loop that computes and one that memory limits.
//!
//! Both run in turns within one run, so that what else the machine does strikes both alike; a figure is the median over
//! many turns, the ratio the median of the ratios of neighbouring turns. On a busy machine the turns that were
//! disturbed least tell more: the quiet ratio is that of the fastest tenth of the turns of each.
//!
//! `cargo run --release -p nearside-sched --example parallel` runs it beside rayon.
//!
//! # Limits
//! Grains are calibrated once, on one thread. Memory is plain (not striped): the rival knows no stripes.

use std::fmt;
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use numa::Budget;

use super::{Grain, Loop, Workers};
use crate::Statement;

/// What one run of the loop that computes takes on one thread, about: short, so that many turns go by undisturbed.
const LOOP_NS: f64 = 4_000_000.0;
/// The arrays of the loop that memory limits have `n` elements: larger than caches.
pub const MEMORY_ELEMENTS: usize = 4 << 20;

/// Another library with loops. A body or fold gets ranges that together are `0..elements`: of `grain` elements each
/// where that is given, else of whatever length the library chooses by itself.
pub trait Rival {
    /// What to call it.
    fn name(&self) -> &str;
    /// Calls `body` for all ranges.
    fn parallel_for(&self, elements: usize, grain: Option<usize>, body: impl Fn(Range<usize>) + Sync + Send);
    /// The wrapping sum of `value` over all ranges.
    fn parallel_sum(
        &self,
        elements: usize,
        grain: Option<usize>,
        value: impl Fn(Range<usize>) -> u64 + Sync + Send,
    ) -> u64;
}

/// Threads that are started for each loop and get an equal share each: what one writes without a library.
#[derive(Clone, Copy, Debug)]
pub struct PlainThreads(
    /// How many.
    pub usize,
);

impl PlainThreads {
    /// The calls of thread number `thread`.
    fn calls(self, thread: usize, elements: usize, grain: Option<usize>) -> impl Iterator<Item = Range<usize>> {
        let threads = self.0.max(1);
        let share = elements.div_ceil(threads);
        let mut next = (share * thread).min(elements);
        let end = (share * (thread + 1)).min(elements);
        std::iter::from_fn(move || {
            let start = next;
            next = start.saturating_add(grain.unwrap_or(usize::MAX)).min(end);
            (start < end).then_some(start..next)
        })
    }
}

impl Rival for PlainThreads {
    fn name(&self) -> &str {
        "plain threads"
    }

    fn parallel_for(&self, elements: usize, grain: Option<usize>, body: impl Fn(Range<usize>) + Sync + Send) {
        std::thread::scope(|scope| {
            for thread in 0..self.0.max(1) {
                let body = &body;
                scope.spawn(move || self.calls(thread, elements, grain).for_each(body));
            }
        });
    }

    fn parallel_sum(
        &self,
        elements: usize,
        grain: Option<usize>,
        value: impl Fn(Range<usize>) -> u64 + Sync + Send,
    ) -> u64 {
        let sum = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..self.0.max(1) {
                let value = &value;
                let sum = &sum;
                scope.spawn(move || {
                    let own = self.calls(thread, elements, grain).map(value).fold(0, u64::wrapping_add);
                    sum.fetch_add(own, Ordering::Relaxed);
                });
            }
        });
        sum.into_inner()
    }
}

/// One line of the benchmark.
#[derive(Clone, Debug)]
pub struct Row {
    /// `parallel_for` or `parallel_reduce`.
    pub construct: &'static str,
    /// `compute` or `memory`.
    pub load: &'static str,
    /// What a call of the body takes; `None` where each library chooses by itself.
    pub grain: Option<Duration>,
    /// The best time of a plain loop on one thread.
    pub plain: Duration,
    /// The median time here.
    pub ours: Duration,
    /// The rival's median time.
    pub rival: Duration,
    /// The median of ours divided by the rival's: below 1 is faster.
    pub ratio: f64,
    /// The slowest of our fastest tenth of turns, divided by the rival's.
    pub quiet_ratio: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grain = self.grain.map_or("adaptive".to_owned(), |grain| format!("{} us", grain.as_micros()));
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{:<15}  {:<7}  {grain:>8}  {:>9.3}  {:>9.3}  {:>9.3}  {:>5.3}  {:>5.3}",
            self.construct,
            self.load,
            ms(self.plain),
            ms(self.ours),
            ms(self.rival),
            self.ratio,
            self.quiet_ratio
        )
    }
}

/// Runs all loops here and on the rival, in turns, `turns` times each; those that memory limits over arrays of
/// `memory_elements` ([`MEMORY_ELEMENTS`], or fewer where the figures are of no interest).
pub fn run(workers: &dyn Workers, rival: &impl Rival, turns: usize, memory_elements: usize) -> Vec<Row> {
    let elements = memory_elements.max(1);
    let statement = Statement::new(1, Budget::unlimited());
    let how = Loop::new(workers, &statement);
    let numbers: Vec<u64> = (0..elements as u64).collect();
    let written: Vec<AtomicU64> = (0..elements).map(|_| AtomicU64::new(0)).collect();
    let mut rows = Vec::new();
    let body = |range: Range<usize>| {
        black_box(compute(range));
    };
    rows.extend(compare("compute", &how, rival, turns, calibrated(LOOP_NS, body), body, compute));
    let sum = |range: Range<usize>| summed(&numbers[range]);
    let write = |range: Range<usize>| tripled(&written[range.clone()], &numbers[range]);
    rows.extend(compare("memory", &how, rival, turns, elements, write, sum));
    rows
}

/// The heading of a table of rows.
pub fn heading(rival: &impl Rival) -> String {
    format!(
        "{:<15}  {:<7}  {:>8}  {:>9}  {:>9}  {:>9}  ratio  quiet\n{:<33}   {:>9}  {:>9}  {:>9}",
        "construct",
        "load",
        "grain",
        "1 thread",
        "nearside",
        rival.name(),
        "",
        "ms",
        "ms",
        "ms"
    )
}

// What is called is never inlined, so that all libraries run the same machine code: what the compiler makes of a loop
// inside another one differs by more than libraries do.

/// Two dozen dependent steps per element, some 20 to 50 ns.
#[inline(never)]
fn compute(range: Range<usize>) -> u64 {
    let step = |state: u64, round: u64| (state ^ (state >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9 + round);
    range.map(|index| (0..24).fold(index as u64 | 1, step)).fold(0, u64::wrapping_add)
}

#[inline(never)]
fn summed(numbers: &[u64]) -> u64 {
    numbers.iter().copied().fold(0, u64::wrapping_add)
}

#[inline(never)]
fn tripled(written: &[AtomicU64], numbers: &[u64]) {
    for (to, from) in written.iter().zip(numbers) {
        to.store(from.wrapping_mul(3), Ordering::Relaxed);
    }
}

/// Elements that take about so long on one thread.
fn calibrated(loop_ns: f64, body: impl Fn(Range<usize>)) -> usize {
    let elements = 10_000;
    (loop_ns / (best_ns(25, || body(0..elements)) / elements as f64)) as usize
}

fn best_ns(times: usize, mut run: impl FnMut()) -> f64 {
    (0..times).map(|_| time_ns(&mut run)).fold(f64::INFINITY, f64::min)
}

fn time_ns(run: impl FnOnce()) -> f64 {
    let began = Instant::now();
    run();
    began.elapsed().as_nanos() as f64
}

/// The rows of one load.
fn compare(
    load: &'static str,
    how: &Loop<'_>,
    rival: &impl Rival,
    turns: usize,
    elements: usize,
    body: impl Fn(Range<usize>) + Sync + Send,
    value: impl Fn(Range<usize>) -> u64 + Sync + Send,
) -> Vec<Row> {
    let plain_for_ns = best_ns(9, || body(0..elements));
    let mut expected = 0;
    let plain_sum_ns = best_ns(9, || expected = black_box(value(0..elements)));
    let mut rows = Vec::new();
    for grain_us in [Some(1), Some(10), Some(100), None] {
        let grain = grain_us.map(Duration::from_micros);
        let per_call =
            |plain_ns: f64| grain.map(|g| ((g.as_nanos() as f64 / plain_ns * elements as f64) as usize).max(1));
        let chosen = |grain: Option<usize>| how.grain(grain.map_or(Grain::Adaptive, Grain::Elements));

        let calls = per_call(plain_for_ns);
        let ours = || chosen(calls).parallel_for(0..elements, &body).expect("nothing stops it");
        let row = in_turns(turns, ours, || rival.parallel_for(elements, calls, &body));
        rows.push(Row { construct: "parallel_for", load, grain, plain: duration(plain_for_ns), ..row });

        let calls = per_call(plain_sum_ns);
        let ours = || {
            let fold = |sum: u64, range| sum.wrapping_add(value(range));
            let sum = chosen(calls).parallel_reduce(0..elements, || 0, fold, u64::wrapping_add);
            assert_eq!(sum, Ok(expected));
        };
        let row = in_turns(turns, ours, || assert_eq!(rival.parallel_sum(elements, calls, &value), expected));
        rows.push(Row { construct: "parallel_reduce", load, grain, plain: duration(plain_sum_ns), ..row });
    }
    rows
}

/// Times both, one after the other, the first one changing from turn to turn.
fn in_turns(turns: usize, ours: impl Fn(), rival: impl Fn()) -> Row {
    let mut our_times = Vec::new();
    let mut rival_times = Vec::new();
    let mut ratios = Vec::new();
    for turn in 0..turns.max(1) {
        let (our_ns, rival_ns);
        if turn % 2 == 0 {
            our_ns = time_ns(&ours);
            rival_ns = time_ns(&rival);
        } else {
            rival_ns = time_ns(&rival);
            our_ns = time_ns(&ours);
        }
        our_times.push(our_ns);
        rival_times.push(rival_ns);
        ratios.push(our_ns / rival_ns);
    }
    Row {
        construct: "",
        load: "",
        grain: None,
        plain: Duration::ZERO,
        quiet_ratio: quantile(&our_times, 10) / quantile(&rival_times, 10),
        ours: duration(quantile(&our_times, 50)),
        rival: duration(quantile(&rival_times, 50)),
        ratio: quantile(&ratios, 50),
    }
}

/// The value that `n` of a hundred are not above; 50 is the median.
fn quantile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() - 1) * percent / 100]
}

fn duration(ns: f64) -> Duration {
    Duration::from_nanos(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::Inline;

    #[test]
    fn plain_threads_cover_all() {
        for (threads, elements, grain) in [(3, 1000, Some(7)), (4, 2, None), (0, 5, Some(1)), (2, 0, None)] {
            let calls = AtomicU64::new(0);
            let rival = PlainThreads(threads);
            let sum = rival.parallel_sum(elements, grain, |range| range.sum::<usize>() as u64);
            assert_eq!(sum, (0..elements as u64).sum::<u64>());
            rival.parallel_for(elements, grain, |range| {
                assert!(range.end - range.start <= grain.unwrap_or(elements));
                calls.fetch_add((range.end - range.start) as u64, Ordering::Relaxed);
            });
            assert_eq!(calls.into_inner(), elements as u64);
        }
    }

    #[test]
    fn a_row_per_construct_load_and_grain() {
        let inline = Arc::new(Inline::new());
        let statement = Statement::new(1, Budget::unlimited());
        let how = Loop::new(&inline, &statement);
        let value = |range: Range<usize>| range.map(|i| i as u64).sum();
        let body = |range: Range<usize>| {
            black_box(value(range));
        };
        let rows = compare("tiny", &how, &PlainThreads(2), 1, 1000, body, value);
        assert_eq!(rows.len(), 8);
        assert!(rows.iter().all(|row| row.ratio > 0.0 && row.load == "tiny"));
        assert_eq!((quantile(&[3.0, 1.0, 2.0], 50), quantile(&[3.0, 1.0, 2.0], 10)), (2.0, 1.0));
    }
}
