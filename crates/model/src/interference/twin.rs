//! Queries as they might really be, to judge the models by: several stages each, of unlike demand and parallelism,
//! played thread by thread. A thread moves data and computes in turn for random spells; those who move share what the
//! curve gives as many; two that compute on one core slow each other down.
//!
//! Nothing of `machine` or `job` is used here: what the models get wrong about stages or averages, it shows.

use super::{Input, MeasuredPair, QueryTrials};
use crate::curve::Curve;
use crate::fit::{Residuals, Trial};
use crate::machine::Machine;
use crate::noise::Noise;

/// A part of a query that runs on `n` threads at most.
#[derive(Clone, Debug)]
pub(super) struct JobStage {
    /// Seconds on one thread with all the bandwidth.
    work_s: f64,
    threads_most: usize,
    /// Of its time: waited for memory; moved behind computing.
    waits: f64,
    hides: f64,
    /// What the core's other cpu costs while it computes.
    sibling: f64,
}

/// A query in truth.
pub(super) type Query = Vec<JobStage>;

/// Seconds that a thread alone takes on average for moving once and computing once: short beside a stage.
const ROUND_S: f64 = 2e-3;

/// A thread in a spell; the query it works for, or a hog.
struct Thread {
    query: Option<usize>,
    core: usize,
    waits: f64,
    /// Moved behind computing, per second of it.
    hides: f64,
    sibling: f64,
    moves: bool,
    /// Seconds of the spell, at full speed.
    left: f64,
}

impl Thread {
    fn next_spell(&mut self, noise: &mut Noise) {
        self.moves = !self.moves;
        let share = if self.moves { self.waits } else { 1.0 - self.waits };
        self.left = if self.query.is_some() { share * ROUND_S * noise.wait() } else { f64::MAX };
    }
}

/// A hog that only moves or only computes.
fn hog(moves: bool, core: usize) -> Thread {
    Thread { query: None, core, waits: 0.0, hides: 0.0, sibling: 0.0, moves, left: f64::MAX }
}

/// A query of two to five stages, some for one thread only.
pub(super) fn random_query(noise: &mut Noise) -> Query {
    let count = 2 + (4.0 * noise.share()) as usize;
    let memory = noise.share();
    let stages = (0..count).map(|_| {
        // A query's stages resemble each other somewhat: some queries scan, some compute.
        let waits = (memory * noise.between(0.2, 1.0)).min(0.95);
        JobStage {
            work_s: noise.between(0.05, 0.6),
            threads_most: if noise.share() < 0.25 { 1 } else { usize::MAX },
            waits,
            hides: (1.0 - waits) * noise.between(0.0, 0.5),
            sibling: noise.between(0.3, 0.8),
        }
    });
    stages.collect()
}

/// The machine as it runs.
struct Play<'a> {
    curve: &'a Curve,
    cores: usize,
    queries: &'a [(&'a Query, usize)],
    threads: Vec<Thread>,
    /// The stage each query is in, and its work left.
    at: Vec<(usize, f64)>,
}

impl Play<'_> {
    /// Puts a query's threads for its present stage on their cpus: each query's follow those of the one before.
    fn staff(&mut self, query: usize, noise: &mut Noise) {
        let first: usize = self.queries[..query].iter().map(|(_, cpus)| cpus).sum();
        let (stages, cpus) = self.queries[query];
        let stage = &stages[self.at[query].0];
        self.threads.retain(|thread| thread.query != Some(query));
        for cpu in first..first + cpus.min(stage.threads_most) {
            let mut thread = Thread {
                query: Some(query),
                core: cpu % self.cores,
                waits: stage.waits,
                hides: stage.hides / (1.0 - stage.waits),
                sibling: stage.sibling,
                moves: noise.share() < 0.5,
                left: 0.0,
            };
            thread.next_spell(noise);
            self.threads.push(thread);
        }
    }

    fn speeds(&self) -> Vec<f64> {
        let demand: f64 = self.threads.iter().map(|thread| if thread.moves { 1.0 } else { thread.hides }).sum();
        let share = if demand > 0.0 { self.curve.share(demand) } else { 1.0 };
        let speed = |(index, thread): (usize, &Thread)| {
            if thread.moves {
                return share;
            }
            let beside = |(other, at): (usize, &Thread)| other != index && at.core == thread.core && !at.moves;
            let is_shared = self.threads.iter().enumerate().any(beside);
            let computing = if is_shared { 1.0 + thread.sibling } else { 1.0 };
            1.0 / computing.max(thread.hides / share)
        };
        self.threads.iter().enumerate().map(speed).collect()
    }
}

/// Mean run times of queries that repeat beside each other and whole hogs (memory, computing), `runs` of each at least;
/// and what the memory hogs got, in units.
fn play(
    machine: &Machine,
    queries: &[(&Query, usize)],
    hogs: [usize; 2],
    runs: usize,
    noise: &mut Noise,
) -> (Vec<f64>, f64) {
    let at = queries.iter().map(|(query, _)| (0, query[0].work_s)).collect();
    let cores = machine.cores as usize;
    let mut play = Play { curve: &machine.local, cores, queries, threads: Vec::new(), at };
    let used: usize = queries.iter().map(|(_, cpus)| cpus).sum();
    play.threads.extend((0..hogs[0] + hogs[1]).map(|n| hog(n < hogs[0], (used + n) % cores)));
    (0..queries.len()).for_each(|query| play.staff(query, noise));
    let mut done: Vec<(usize, f64)> = vec![(0, 0.0); queries.len()];
    let mut now_s = 0.0;
    let mut hogs_moved = 0.0;
    while done.iter().any(|&(count, _)| count < runs) {
        let speeds = play.speeds();
        let mut totals = vec![0.0; queries.len()];
        let mut for_s = f64::MAX;
        for (thread, speed) in play.threads.iter().zip(&speeds) {
            for_s = for_s.min(thread.left / speed);
            if let Some(query) = thread.query {
                totals[query] += speed;
            }
        }
        for ((_, left), total) in play.at.iter().zip(&totals) {
            for_s = for_s.min(left / total);
        }
        now_s += for_s;
        let hogs = play.threads.iter().zip(&speeds).filter(|(thread, _)| thread.query.is_none() && thread.moves);
        hogs_moved += for_s * hogs.map(|(_, speed)| speed).sum::<f64>();
        for (thread, speed) in play.threads.iter_mut().zip(&speeds) {
            thread.left -= for_s * speed;
            if thread.left <= 1e-12 {
                thread.next_spell(noise);
            }
        }
        for query in 0..queries.len() {
            play.at[query].1 -= for_s * totals[query];
            if play.at[query].1 <= 1e-12 {
                let next = (play.at[query].0 + 1) % queries[query].0.len();
                done[query] = if next == 0 { (done[query].0 + 1, now_s) } else { done[query] };
                play.at[query] = (next, queries[query].0[next].work_s);
                play.staff(query, noise);
            }
        }
    }
    (done.iter().map(|&(count, until_s)| until_s / count as f64).collect(), hogs_moved / now_s)
}

/// The time of one run beside hogs, and what those that move got; half a hog is one that pauses half of the time.
fn run_once(machine: &Machine, query: &Query, [cpus, memory, computing]: [f64; 3], noise: &mut Noise) -> (f64, f64) {
    let mut beside = |memory: f64| {
        let hogs = [memory as usize, computing as usize];
        let (times, got) = play(machine, &[(query, cpus as usize)], hogs, 1, noise);
        (times[0], got)
    };
    let pauses = memory.ceil() - memory;
    let whole = beside(memory.ceil());
    if pauses == 0.0 {
        return whole;
    }
    let less = beside(memory.floor());
    (1.0 / (pauses / less.0 + (1.0 - pauses) / whole.0), pauses * less.1 + (1.0 - pauses) * whole.1)
}

/// What a laboratory would measure of these queries: settings of cpus, memory hogs and computing hogs, three runs each,
/// and all pairs at half of the cpus.
pub(super) fn laboratory(
    machine: &Machine,
    queries: &[Query],
    settings: &[[f64; 3]],
    noise: (f64, &mut Noise),
) -> Input {
    let (spread, noise) = noise;
    let name = |index: usize| format!("q{}", index + 1);
    let mut measured = Vec::new();
    for (index, query) in queries.iter().enumerate() {
        let traffic: f64 = query.iter().map(|stage| stage.work_s * (stage.waits + stage.hides)).sum();
        let mut runs = Vec::new();
        for &setting in settings {
            let [cpus, memory_hogs, computing_hogs] = setting;
            for _ in 0..3 {
                let (true_s, got) = run_once(machine, query, setting, noise);
                let time_s = true_s * (1.0 + spread * noise.bell());
                let hogs_got = (memory_hogs > 0.0).then(|| got * (1.0 + spread * noise.bell()));
                let traffic_unit_s = Some(traffic);
                runs.push(Trial { cpus, memory_hogs, computing_hogs, time_s, traffic_unit_s, hogs_got });
            }
        }
        measured.push(QueryTrials { name: name(index), trials: runs, remote: Vec::new() });
    }
    let half = machine.cpus / 2.0;
    let mut pairs = Vec::new();
    for one in 0..queries.len() {
        for two in one..queries.len() {
            let pair = [&queries[one], &queries[two]].map(|query| (query, half as usize));
            let (times, _) = play(machine, &pair, [0, 0], 8, noise);
            let time_s = [0, 1].map(|which| times[which] * (1.0 + spread * noise.bell()));
            pairs.push(MeasuredPair { first: name(one), second: name(two), cpus: [half; 2], time_s });
        }
    }
    Input { machine: machine.clone(), queries: measured, pairs, residuals: Residuals::Relative, noise: 0.01 }
}
