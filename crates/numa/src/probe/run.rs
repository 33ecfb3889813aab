//! Carries a plan out: one target after the other, so that no more than one node's buffer is held at a time.
//!
//! Invariant: within a target, latency comes before writing, which destroys the chase.

use std::time::Duration;

use super::clock::Clock;
use super::facts::{Initiator, ProbeFacts};
use super::measure;
use super::memory;
use super::plan::{Buffer, Pair, Plan, Tempo};
use super::stats::{best, median, spread};
use super::team::Tallies;
use crate::attributes::{Attributes, ByThreads, Latency, LoadedLatency, Stream, TransferKind};
use crate::budget::Budget;
use crate::error::MemoryError;
use crate::ids::{CpuId, NodeId};
use crate::policy::Policy;
use crate::region::{Allocator, Region};
use crate::sys::page_bytes;
use crate::sys::probe::has_streaming_stores;
use crate::topology::Topology;

/// Chunks of the striped arrays. NBB striped in 3 MB; this keeps huge pages whole.
const STRIPE_BYTES: u64 = 4 << 20;
/// Below this share of huge pages, walks through the page table show in the latency.
const HUGE_SHARE_MIN: f64 = 0.9;
/// The order of the chase; any number does.
const SEED: u64 = 0x5EED;

/// Measures by this tempo; who measured and when is for the caller to add.
pub(super) fn run(
    topology: &Topology,
    tempo: &Tempo,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(&str, f64),
) -> Attributes {
    let started = clock.now();
    let model = topology.cpu_model().unwrap_or("unknown cpu").to_string();
    let mut out = Attributes::empty(topology.clone(), model, "measured");
    progress("how fast pages come", 0.0);
    let rate = memory::touch_bytes_per_second(clock);
    let free = memory::free_bytes(topology);
    let facts =
        ProbeFacts::of(topology, &out.nodes, &out.targets, free, |n| memory::node_free_bytes(topology, n), rate);
    let plan = Plan::new(&facts, tempo);
    out.notes.extend(plan.notes.iter().cloned());
    blank_matrices(&mut out);
    let budget = Budget::new("the probe", free);
    let deadline = started + tempo.deadline;
    let mut prober = Prober { facts: &facts, plan: &plan, clock, progress, deadline, budget, out, log: Log::default() };
    for buffer in &plan.buffers {
        prober.target(buffer);
    }
    prober.stream();
    prober.finish()
}

fn blank_matrices(out: &mut Attributes) {
    let rows = out.nodes.len();
    let columns = out.targets.len();
    out.latency = vec![vec![None; columns]; rows];
    out.read = vec![vec![None; columns]; rows];
    out.write = vec![vec![None; columns]; rows];
    out.copy = vec![vec![None; columns]; rows];
}

struct Prober<'a> {
    facts: &'a ProbeFacts,
    plan: &'a Plan,
    clock: &'a dyn Clock,
    progress: &'a mut dyn FnMut(&str, f64),
    deadline: Duration,
    budget: std::sync::Arc<Budget>,
    out: Attributes,
    log: Log,
}

/// What is told at the end, once for all cells.
#[derive(Debug, Default)]
struct Log {
    begun: usize,
    late: usize,
    unpinned: bool,
    missing: bool,
    /// Of each bandwidth cell, what it was and how far its median stayed below its best.
    spreads: Vec<(String, f64)>,
    huge_shares: Vec<(NodeId, Option<f64>)>,
}

impl Log {
    fn threads(&mut self, tallies: &Tallies) {
        self.unpinned |= tallies.unpinned > 0;
        self.missing |= tallies.missing > 0;
    }

    /// The best window of a cell; `None` where nothing came.
    fn best(&mut self, what: impl FnOnce() -> String, tallies: &Tallies) -> Option<f64> {
        self.threads(tallies);
        let rates = tallies.rates();
        let best = best(&rates);
        if best > 0.0 {
            self.spreads.push((what(), spread(&rates)));
        }
        (best > 0.0).then_some(best)
    }
}

impl<'a> Prober<'a> {
    /// Everything that is measured on one node's memory.
    fn target(&mut self, buffer: &Buffer) {
        let node = self.facts.targets[buffer.target].node;
        self.say(&format!("memory of node {node}"));
        if self.clock.now() > self.deadline {
            // Not even touching the memory would be in time.
            self.log.late += self.plan.cells_of(buffer.target);
            return;
        }
        let mut region = match self.allocate(Policy::Node(node), buffer.bytes) {
            Ok(region) => region,
            Err(error) => return self.left_out(node, &error.to_string()),
        };
        let touching = measure::touch(&self.cpus_near(node), region.words_mut(), 1, self.clock);
        self.log.threads(&touching);
        if let Err(reason) = memory::verify(&region, node) {
            return self.left_out(node, &reason);
        }
        self.log.huge_shares.push((node, memory::huge_page_share(&region)));
        let before = self.out.clone();
        let links = measure::lay(region.words_mut(), buffer.chase_bytes, SEED);
        self.idle_latency(buffer, &region.words()[..links]);
        self.loaded(buffer, &region, links);
        self.reading(buffer, region.words());
        self.writing(buffer, region.words_mut());
        self.copying(buffer, region.words_mut());
        if let Err(reason) = memory::verify(&region, node) {
            // Pages went elsewhere meanwhile (automatic NUMA balancing does that): no figure of this node stands.
            self.out = before;
            self.left_out(node, &reason);
        }
    }

    fn idle_latency(&mut self, buffer: &Buffer, links: &[u64]) {
        let mut at = 0;
        for pair in of_target(&self.plan.latency_pairs, buffer.target) {
            let Some(from) = self.cell("idle latency", pair) else { continue };
            let mut figures = Vec::new();
            for cpu in &self.plan.latency_cpus[pair.initiator] {
                let tallies = measure::latency(*cpu, links, &mut at, self.plan.latency, self.clock);
                self.log.threads(&tallies);
                let windows = tallies.threads.first().map(|w| w.iter().map(|t| t.ns_per_unit()).collect::<Vec<_>>());
                // Of many short windows the best is the one that nobody disturbed: what the memory does when idle.
                figures.extend(windows.and_then(|w| w.into_iter().reduce(f64::min)).filter(|ns| *ns > 0.0));
            }
            self.out.latency[from.row][self.facts.targets[pair.target].column] = summary(&figures);
        }
    }

    fn loaded(&mut self, buffer: &Buffer, region: &Region, links: usize) {
        let (links, words) = region.words().split_at(links);
        for pair in of_target(&self.plan.curves, buffer.target) {
            let Some(from) = self.cell("latency under load", pair) else { continue };
            if from.loaders.is_empty() {
                continue;
            }
            let timing = self.plan.loaded;
            let (points, tallies) = measure::loaded(from.cpus[0], &from.loaders, links, words, timing, self.clock);
            tallies.iter().for_each(|t| self.log.threads(t));
            let initiator = from.node;
            let target = self.facts.targets[pair.target].node;
            let mut good: Vec<_> = points.into_iter().filter(|p| p.latency_ns > 0.0).collect();
            good.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            self.out.loaded.extend(good.into_iter().map(|p| LoadedLatency {
                initiator,
                target,
                bytes_per_second: p.rate,
                latency_ns: p.latency_ns,
            }));
        }
    }

    fn reading(&mut self, buffer: &Buffer, words: &[u64]) {
        for pair in of_target(&self.plan.bandwidth_pairs, buffer.target) {
            let Some(from) = self.cell("read bandwidth", pair) else { continue };
            let tallies = measure::read(&from.cpus, words, self.plan.bandwidth, self.clock);
            let column = self.facts.targets[pair.target].column;
            self.out.read[from.row][column] = self.log.best(|| self.facts.told("read", pair), &tallies);
        }
        for pair in of_target(&self.plan.curves, buffer.target) {
            let Some(from) = self.cell("reading threads", pair) else { continue };
            let plan = self.plan;
            let clock = self.clock;
            self.curve(TransferKind::Read, pair, |threads| {
                measure::read(&from.cpus[..threads], words, plan.curve, clock)
            });
        }
    }

    fn writing(&mut self, buffer: &Buffer, words: &mut [u64]) {
        for pair in of_target(&self.plan.bandwidth_pairs, buffer.target) {
            let Some(from) = self.cell("write bandwidth", pair) else { continue };
            let tallies = measure::write(&from.cpus, words, self.plan.bandwidth, self.clock);
            let column = self.facts.targets[pair.target].column;
            self.out.write[from.row][column] = self.log.best(|| self.facts.told("write", pair), &tallies);
        }
        for pair in of_target(&self.plan.curves, buffer.target) {
            let Some(from) = self.cell("writing threads", pair) else { continue };
            let plan = self.plan;
            let clock = self.clock;
            self.curve(TransferKind::Write, pair, |threads| {
                measure::write(&from.cpus[..threads], words, plan.curve, clock)
            });
        }
    }

    fn copying(&mut self, buffer: &Buffer, words: &mut [f64]) {
        for pair in of_target(&self.plan.bandwidth_pairs, buffer.target) {
            let Some(from) = self.cell("copy bandwidth", pair) else { continue };
            let tallies = measure::copy(&from.cpus, words, self.plan.bandwidth, self.clock);
            let column = self.facts.targets[pair.target].column;
            self.out.copy[from.row][column] = self.log.best(|| self.facts.told("copy", pair), &tallies);
        }
    }

    /// One curve: an entry for each number of threads, as far as all threads could be started.
    fn curve(&mut self, kind: TransferKind, pair: Pair, mut run: impl FnMut(usize) -> Tallies) {
        let mut bytes_per_second = Vec::new();
        for threads in &self.plan.curve_threads {
            let tallies = run(*threads);
            self.log.threads(&tallies);
            let rate = best(&tallies.rates());
            if rate <= 0.0 || tallies.missing > 0 || self.clock.now() > self.deadline {
                break;
            }
            bytes_per_second.push(rate);
        }
        let initiator = self.facts.initiators[pair.initiator].node;
        let target = self.facts.targets[pair.target].node;
        if !bytes_per_second.is_empty() {
            self.out.by_threads.push(ByThreads { initiator, target, kind, bytes_per_second });
        }
    }

    /// STREAM, with pages where their thread first touches them and striped over the nodes that have cpus and memory.
    fn stream(&mut self) {
        let cpus: Vec<CpuId> = self.facts.initiators.iter().flat_map(|i| i.cpus.iter().copied()).collect();
        let has_cpus = |node: &NodeId| self.facts.initiators.iter().any(|i| i.node == *node);
        let targets: Vec<NodeId> = self.facts.targets.iter().map(|t| t.node).collect();
        let both: Vec<NodeId> = targets.iter().copied().filter(has_cpus).collect();
        let nodes = if both.is_empty() { targets } else { both };
        let striped = Policy::Striped { nodes, chunk_bytes: STRIPE_BYTES };
        for (placement, policy) in [("first touch", Policy::Local), ("striped", striped)] {
            if self.plan.stream_bytes == 0 || cpus.is_empty() {
                self.out.notes.push("STREAM was left out: too little memory is free".to_string());
                return;
            }
            self.say(&format!("STREAM, {placement}"));
            if self.is_late() {
                continue;
            }
            if let Err(error) = self.stream_on(placement, &policy, &cpus) {
                self.out.notes.push(format!("STREAM, {placement}, was left out: {error}"));
            }
        }
    }

    fn stream_on(&mut self, placement: &str, policy: &Policy, cpus: &[CpuId]) -> Result<(), MemoryError> {
        let mut regions = Vec::new();
        for value in [1.0f64, 2.0, 0.0] {
            let mut region = self.allocate(policy.clone(), self.plan.stream_bytes)?;
            let touching = measure::touch(cpus, region.words_mut(), value.to_bits(), self.clock);
            self.log.threads(&touching);
            regions.push(region);
        }
        if self.out.targets.len() > 1 {
            let lies = memory::shares(&regions.iter().collect::<Vec<_>>());
            self.out.notes.push(format!("STREAM, {placement}: {lies}"));
        }
        let [a, b, c] = regions.as_mut_slice() else { return Ok(()) };
        let arrays = [a.words_mut(), b.words_mut(), c.words_mut()];
        let tallies = measure::stream(cpus, arrays, self.plan.stream, self.clock);
        let mut rates = Vec::new();
        for (kernel, tallies) in ["copy", "scale", "add", "triad"].iter().zip(&tallies) {
            rates.extend(self.log.best(|| format!("STREAM {kernel}, {placement}"), tallies));
        }
        if let [copy, scale, add, triad] = rates[..] {
            let threads = tallies[0].threads.len() as u32;
            self.out.stream.push(Stream { placement: placement.to_string(), threads, copy, scale, add, triad });
        }
        Ok(())
    }

    fn allocate(&self, policy: Policy, bytes: u64) -> Result<Region, MemoryError> {
        Allocator::new(policy, self.budget.clone()).region(bytes as usize)
    }

    /// The cpus that touch a node's memory first: its own, or those of the nearest node that has some.
    fn cpus_near(&self, node: NodeId) -> Vec<CpuId> {
        let column = self.facts.targets.iter().position(|t| t.node == node).unwrap_or(0);
        let near = |i: &usize| (self.facts.initiators[*i].node != node, self.facts.distances[*i][column]);
        let nearest = (0..self.facts.initiators.len()).min_by_key(near);
        nearest.map_or_else(|| vec![CpuId(0)], |i| self.facts.initiators[i].cpus.clone())
    }

    /// The initiator of a cell that is begun now; `None` when it is too late to begin.
    fn cell(&mut self, what: &str, pair: Pair) -> Option<&'a Initiator> {
        let from = &self.facts.initiators[pair.initiator];
        self.say(&format!("{what}, node {} to node {}", from.node, self.facts.targets[pair.target].node));
        self.log.begun += 1;
        (!self.is_late()).then_some(from)
    }

    fn is_late(&mut self) -> bool {
        let late = self.clock.now() > self.deadline;
        self.log.late += usize::from(late);
        late
    }

    fn say(&mut self, what: &str) {
        (self.progress)(what, (self.log.begun as f64 / self.plan.cells().max(1) as f64).min(1.0));
    }

    fn left_out(&mut self, node: NodeId, reason: &str) {
        self.out.notes.push(format!("memory of node {node} was not measured: {reason}"));
    }

    /// The result with the notes about everything.
    fn finish(mut self) -> Attributes {
        (self.progress)("done", 1.0);
        let notes = closing_notes(&self.log, self.plan, self.facts, &self.out.topology);
        self.out.notes.extend(notes);
        self.out
    }
}

impl ProbeFacts {
    fn told(&self, what: &str, pair: Pair) -> String {
        format!("{what}, node {} to node {}", self.initiators[pair.initiator].node, self.targets[pair.target].node)
    }
}

fn of_target(pairs: &[Pair], target: usize) -> impl Iterator<Item = Pair> {
    pairs.iter().copied().filter(move |pair| pair.target == target)
}

fn summary(figures: &[f64]) -> Option<Latency> {
    let min_ns = figures.iter().copied().reduce(f64::min)?;
    let max_ns = figures.iter().copied().reduce(f64::max)?;
    Some(Latency { min_ns, avg_ns: figures.iter().sum::<f64>() / figures.len() as f64, max_ns })
}

fn closing_notes(log: &Log, plan: &Plan, facts: &ProbeFacts, topology: &Topology) -> Vec<String> {
    let mut notes = Vec::new();
    let told = |timing: super::team::Timing| {
        format!("{} windows of {:.1} ms", timing.windows, timing.window.as_secs_f64() * 1e3)
    };
    notes.push(format!(
        "idle latency: the best of {} for each cpu; bandwidth: the best of {}; under load: medians",
        told(plan.latency),
        told(plan.bandwidth)
    ));
    let shares: Vec<f64> = log.spreads.iter().map(|(_, spread)| *spread).collect();
    if let Some((what, worst)) = log.spreads.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        let usual = median(&shares) * 100.0;
        let worst = worst * 100.0;
        notes.push(format!(
            "spread: the median window of a bandwidth is {usual:.0}% below the best, at most {worst:.0}% ({what})"
        ));
    }
    notes.extend(page_note(&log.huge_shares));
    if !has_streaming_stores() {
        notes.push(
            "this cpu has no non-temporal stores that the probe knows: written lines are read first, so \
                    writing, copying and STREAM look slower than the memory is"
                .to_string(),
        );
    }
    if log.unpinned {
        notes.push(
            "threads could not be pinned (sched_setaffinity was refused): they ran where the kernel put them, \
                    so figures are not of single nodes"
                .to_string(),
        );
    }
    if log.missing {
        notes.push("not all threads could be started: raise the limit on processes and probe anew".to_string());
    }
    if log.late > 0 {
        notes.push(format!("{} measurements were left out: the time was over", log.late));
    }
    if let Some(largest) = facts
        .initiators
        .iter()
        .map(|i| i.cpus.len())
        .max()
        .filter(|n| *n > plan.curve_threads.len() && !plan.curves.is_empty())
    {
        notes.push(format!("threads grow to {} of {largest}", plan.curve_threads.len()));
    }
    let cpus: usize = facts.initiators.iter().map(|i| i.cpus.len()).sum();
    if let Some(allowed) = topology.cpu_quota().map(|quota| quota.cpus()).filter(|allowed| *allowed < cpus) {
        notes.push(format!(
            "the control group allows the time of {allowed} cpus on {cpus}: bandwidth of many threads is throttled"
        ));
    }
    notes
}

/// What page sizes mean for the latency.
fn page_note(shares: &[(NodeId, Option<f64>)]) -> Option<String> {
    let least = shares.iter().filter_map(|(_, share)| *share).reduce(f64::min)?;
    let page = crate::error::size(page_bytes() as u64);
    Some(if least >= HUGE_SHARE_MIN {
        "buffers lie in huge pages, so the latency is that of memory".to_string()
    } else {
        format!(
            "only {:.0}% of a buffer lies in huge pages: latency includes walks through the page table, which pages of \
             {page} make at nearly every step; allow transparent huge pages (madvise) to measure memory alone",
            least * 100.0
        )
    })
}
