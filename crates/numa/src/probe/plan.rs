//! What a probe measures, how often, how long and on how much memory: a pure function of facts and a tempo.
//!
//! Invariants: buffers take at most half of what is free where they lie; measuring takes at most the time that the
//! tempo allows plus the least windows there are; whatever is cut because of memory or time stands in the notes.
//!
//! # Limits
//! Caches may serve part of a buffer that had to be cut; the note says so. The number of threads grows, and load is put
//! on, from one node only.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::{Initiator, ProbeFacts};
use super::team::Timing;
use crate::error::size;
use crate::ids::CpuId;

/// Buffers are whole multiples of this, so that huge pages fit.
const UNIT_BYTES: u64 = 2 << 20;
/// A buffer is this many times as large as the caches: a cycle over more than the cache finds nothing in it.
const CACHES: u64 = 4;
/// Laying one link of the chase, in nanoseconds.
const LINK_NS: u64 = 25;
/// Starting and ending the threads of a cell: so much, and so much more for each thread.
const CELL_OVERHEAD: Duration = Duration::from_micros(200);
const THREAD_OVERHEAD: Duration = Duration::from_micros(30);
/// `n` threads of a node together make pages come faster; more wait for each other in the kernel.
const TOUCHING_THREADS_MAX: usize = 4;
/// The share of the time that setting up may take.
const SETUP_SHARE: f64 = 0.3;
/// Foreign targets, besides the local one, at which threads grow and load is put on.
const CURVES_FOREIGN_MAX: usize = 3;
/// Loads at which latency is measured, as shares of the full rate.
pub(super) const LOAD_SHARES: [f64; 8] = [0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0];

/// How much care to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tempo {
    /// What everything may take, setting up included.
    pub(super) total: Duration,
    /// No cell is begun after this, whatever the plan hoped for.
    pub(super) deadline: Duration,
    /// For each cpu and target. Many short windows: on a busy machine some of them are left alone.
    pub(super) latency: Timing,
    /// For each cell.
    pub(super) bandwidth: Timing,
    /// Cpus of a node whose latency is measured.
    pub(super) latency_cpus: usize,
    /// Points of a curve of threads.
    pub(super) thread_points: usize,
    /// The least and the most bytes of a buffer.
    pub(super) buffer_bytes_min: u64,
    pub(super) buffer_bytes_max: u64,
}

impl Tempo {
    pub(super) const FULL: Tempo = Tempo {
        total: Duration::from_secs(40),
        deadline: Duration::from_secs(50),
        latency: Timing { windows: 60, window: Duration::from_micros(5000) },
        bandwidth: Timing { windows: 40, window: Duration::from_millis(12) },
        latency_cpus: 16,
        thread_points: 256,
        buffer_bytes_min: 128 << 20,
        buffer_bytes_max: 8 << 30,
    };
    pub(super) const QUICK: Tempo = Tempo {
        total: Duration::from_secs(6),
        deadline: Duration::from_secs(8),
        latency: Timing { windows: 30, window: Duration::from_micros(2500) },
        bandwidth: Timing { windows: 12, window: Duration::from_millis(8) },
        latency_cpus: 4,
        thread_points: 16,
        buffer_bytes_min: 64 << 20,
        buffer_bytes_max: 1 << 30,
    };
}

/// An initiator and a target, by their index in the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) initiator: usize,
    pub(super) target: usize,
}

/// What is allocated on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    /// The target, by its index in the facts.
    pub(super) target: usize,
    /// All of it: what is read and written; copies go from one half to the other.
    pub(super) bytes: u64,
    /// Its first bytes, over which the chase goes; a power of two, at most half of it.
    pub(super) chase_bytes: u64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// The targets that are measured, with their memory.
    pub(super) buffers: Vec<Buffer>,
    /// For every initiator, the cpus whose latency is measured.
    pub(super) latency_cpus: Vec<Vec<CpuId>>,
    pub(super) latency: Timing,
    /// The pairs whose latency is measured.
    pub(super) latency_pairs: Vec<Pair>,
    pub(super) bandwidth: Timing,
    /// The pairs whose bandwidth is measured.
    pub(super) bandwidth_pairs: Vec<Pair>,
    /// The pairs at which the number of threads grows, and at which load is put on.
    pub(super) curves: Vec<Pair>,
    /// The numbers of threads, ascending from 1.
    pub(super) curve_threads: Vec<usize>,
    pub(super) curve: Timing,
    pub(super) loaded: Timing,
    /// Bytes of each of STREAM's three arrays; 0 leaves STREAM out.
    pub(super) stream_bytes: u64,
    pub(super) stream: Timing,
    pub(super) notes: Vec<String>,
}

impl Plan {
    /// What to measure on a machine of these facts.
    pub(super) fn new(facts: &ProbeFacts, tempo: &Tempo) -> Plan {
        let mut notes = Vec::new();
        if !facts.caches_known {
            notes.push("the kernel describes no caches; 32 MiB for each node were assumed".to_string());
        }
        let (buffers, stream_bytes, setup) = sizes(facts, tempo, &mut notes);
        let left = tempo.total.saturating_sub(setup);
        let share = |percent: u32| left * percent / 100;
        let measured: Vec<usize> = buffers.iter().map(|b| b.target).collect();
        let all = pairs(facts, &measured);
        let few = representatives(facts, &measured);

        let (latency_cpus, latency_pairs, latency) = latency(facts, tempo, &all, &few, share(30), &mut notes);
        let threads = facts.initiators.iter().map(|i| i.cpus.len()).max().unwrap_or(1);
        let threads_all = facts.initiators.iter().map(|i| i.cpus.len()).sum();
        let mut bandwidth_pairs = all.clone();
        let mut bandwidth = divide(share(35), 3 * all.len(), threads, tempo.bandwidth, MIN_BANDWIDTH_WINDOW);
        if bandwidth.is_none() && few.len() < all.len() {
            notes.push(thinned("bandwidth", few.len(), all.len()));
            bandwidth = divide(share(35), 3 * few.len(), threads, tempo.bandwidth, MIN_BANDWIDTH_WINDOW);
            bandwidth_pairs = few;
        }
        let curves = curve_pairs(facts, &measured);
        let threads_max = curves.first().map_or(0, |pair| facts.initiators[pair.initiator].cpus.len());
        let curve_threads = points(threads_max, tempo.thread_points);
        let curve_cells = 2 * curves.len() * curve_threads.len();
        let loads = curves.len() * LOAD_SHARES.len();
        let half = Timing { windows: tempo.bandwidth.windows.div_ceil(2), ..tempo.bandwidth };
        Plan {
            latency_cpus,
            latency,
            latency_pairs,
            bandwidth: bandwidth.unwrap_or(LEAST),
            bandwidth_pairs,
            curve: divide(share(13), curve_cells, threads, half, MIN_BANDWIDTH_WINDOW / 2).unwrap_or(LEAST),
            loaded: divide(share(10), loads, threads, half, MIN_BANDWIDTH_WINDOW).unwrap_or(LEAST),
            curves,
            curve_threads,
            stream_bytes,
            stream: divide(share(12), 8, threads_all, tempo.bandwidth, MIN_BANDWIDTH_WINDOW).unwrap_or(LEAST),
            buffers,
            notes,
        }
    }

    /// The cells to measure, as many as progress is told of: those of all targets, and STREAM twice.
    pub(super) fn cells(&self) -> usize {
        self.buffers.iter().map(|buffer| self.cells_of(buffer.target)).sum::<usize>() + 2
    }

    /// The cells of one target: each pair in each of the four matrices, each curve twice, each load once.
    pub(super) fn cells_of(&self, target: usize) -> usize {
        let of = |pairs: &[Pair]| pairs.iter().filter(|pair| pair.target == target).count();
        of(&self.latency_pairs) + 3 * of(&self.bandwidth_pairs) + 3 * of(&self.curves)
    }
}

/// Below these a window tells more of the clock and the start than of the memory.
const MIN_BANDWIDTH_WINDOW: Duration = Duration::from_millis(4);
const MIN_LATENCY_WINDOW: Duration = Duration::from_millis(1);
/// Below these, fewer cpus are measured, longer.
const LATENCY_WINDOWS_MIN: u32 = 8;
/// The fewest repetitions of which a best or a median can be told.
const MIN_WINDOWS: u32 = 2;
/// What is done where even the least does not fit the time; the deadline then cuts.
const LEAST: Timing = Timing { windows: MIN_WINDOWS, window: Duration::from_millis(2) };

/// Divides a share of the time over cells of `n` threads each: first the windows get shorter, then fewer. `None` where
/// that does not do.
fn divide(share: Duration, cells: usize, threads: usize, wanted: Timing, least: Duration) -> Option<Timing> {
    let cells = u32::try_from(cells.max(1)).unwrap_or(u32::MAX);
    let overhead = CELL_OVERHEAD + THREAD_OVERHEAD * u32::try_from(threads).unwrap_or(u32::MAX);
    let per_cell = (share / cells).saturating_sub(overhead);
    let each = per_cell / wanted.windows.max(1);
    if each >= least {
        return Some(Timing { windows: wanted.windows, window: each.min(wanted.window) });
    }
    let fitting = u32::try_from(per_cell.as_nanos() / least.as_nanos().max(1)).unwrap_or(u32::MAX);
    let windows = fitting.min(wanted.windows);
    (fitting >= MIN_WINDOWS).then_some(Timing { windows, window: least.min(wanted.window) })
}

/// Which cpus chase on which pairs, and for how long: fewer cpus of a node first, then fewer pairs.
fn latency(
    facts: &ProbeFacts,
    tempo: &Tempo,
    all: &[Pair],
    few: &[Pair],
    share: Duration,
    notes: &mut Vec<String>,
) -> (Vec<Vec<CpuId>>, Vec<Pair>, Timing) {
    let mut most = tempo.latency_cpus;
    loop {
        let cpus: Vec<Vec<CpuId>> = facts.initiators.iter().map(|i| sample(i, most)).collect();
        let cells = |pairs: &[Pair]| pairs.iter().map(|p| cpus[p.initiator].len()).sum();
        let fit = |pairs| divide(share, cells(pairs), 1, tempo.latency, MIN_LATENCY_WINDOW);
        // More cpus are worth it only while each still gets some windows.
        let enough = |timing: &Timing| most == 1 || timing.windows >= LATENCY_WINDOWS_MIN.min(tempo.latency.windows);
        let (pairs, timing) = match fit(all).filter(enough) {
            Some(timing) => (all.to_vec(), timing),
            None if most > 1 => {
                most /= 2;
                continue;
            }
            None if few.len() < all.len() => {
                notes.push(thinned("latency", few.len(), all.len()));
                (few.to_vec(), fit(few).unwrap_or(LEAST))
            }
            None => (all.to_vec(), LEAST),
        };
        if let Some(largest) = facts.initiators.iter().map(|i| i.cpus.len()).max().filter(|n| *n > most) {
            notes.push(format!(
                "latency was measured from {most} cpus of a node, spread over its cores, where it has up to {largest}"
            ));
        }
        return (cpus, pairs, timing);
    }
}

/// At most `most` cpus, spread over the cores; a second cpu of a core only where every core is there.
fn sample(initiator: &Initiator, most: usize) -> Vec<CpuId> {
    if most >= initiator.cpus.len() {
        return initiator.cpus.clone();
    }
    let firsts = &initiator.cpus[..if most > initiator.cores { initiator.cpus.len() } else { initiator.cores }];
    if most > initiator.cores {
        return firsts[..most].to_vec();
    }
    (0..most).map(|i| firsts[i * firsts.len() / most]).collect()
}

fn thinned(what: &str, few: usize, all: usize) -> String {
    format!(
        "{what} was measured between {few} of {all} pairs of nodes, for every node one of each distance: the time does \
         not suffice for all"
    )
}

fn pairs(facts: &ProbeFacts, targets: &[usize]) -> Vec<Pair> {
    let of = |initiator| targets.iter().map(move |&target| Pair { initiator, target });
    (0..facts.initiators.len()).flat_map(of).collect()
}

/// For each initiator the local target and one of every distance, another one for each initiator.
fn representatives(facts: &ProbeFacts, targets: &[usize]) -> Vec<Pair> {
    let mut few: Vec<Pair> = (0..facts.initiators.len())
        .flat_map(|initiator| {
            let classes = by_distance(facts, initiator, targets);
            classes.into_iter().map(move |class| Pair { initiator, target: class[initiator % class.len()] })
        })
        .collect();
    few.sort_unstable();
    few
}

/// The targets by their distance from an initiator: itself, then nearest first.
fn by_distance(facts: &ProbeFacts, initiator: usize, targets: &[usize]) -> Vec<Vec<usize>> {
    let from = facts.initiators[initiator].node;
    let mut classes: BTreeMap<(bool, u32), Vec<usize>> = BTreeMap::new();
    for &target in targets {
        let foreign = facts.targets[target].node != from;
        classes.entry((foreign, facts.distances[initiator][target])).or_default().push(target);
    }
    classes.into_values().collect()
}

/// The pairs of the curves: the node with the most cpus, to its own memory, the nearest, the farthest and one between.
fn curve_pairs(facts: &ProbeFacts, targets: &[usize]) -> Vec<Pair> {
    let most = facts.initiators.iter().enumerate().max_by_key(|(i, from)| (from.cpus.len(), std::cmp::Reverse(*i)));
    let Some((initiator, from)) = most else { return Vec::new() };
    let classes = by_distance(facts, initiator, targets);
    let first: Vec<usize> = classes.iter().map(|class| class[0]).collect();
    let (local, foreign): (Vec<usize>, Vec<usize>) =
        first.into_iter().partition(|target| facts.targets[*target].node == from.node);
    let kept = foreign.len().min(CURVES_FOREIGN_MAX);
    let spread = (0..kept).map(|i| foreign[if kept > 1 { i * (foreign.len() - 1) / (kept - 1) } else { 0 }]);
    local.into_iter().chain(spread).map(|target| Pair { initiator, target }).collect()
}

/// 1 to `most`, all of them: a curve has an entry for each. Where there are more than `points`, only the first ones.
fn points(most: usize, points: usize) -> Vec<usize> {
    (1..=most.min(points)).collect()
}

/// How large buffers and STREAM's arrays are, and how long setting up takes.
fn sizes(facts: &ProbeFacts, tempo: &Tempo, notes: &mut Vec<String>) -> (Vec<Buffer>, u64, Duration) {
    let cache_one = facts.initiators.iter().map(|i| i.cache_bytes_max).max().unwrap_or(0);
    let cache_node = facts.initiators.iter().map(|i| i.cache_bytes_total).max().unwrap_or(0);
    let cache_all = facts.initiators.iter().fold(0u64, |all, i| all.saturating_add(i.cache_bytes_total));
    let within = |bytes: u64| bytes.clamp(tempo.buffer_bytes_min, tempo.buffer_bytes_max);
    let chase_wanted = within(cache_one.saturating_mul(CACHES)).next_power_of_two();
    let buffer_wanted = within(cache_node.saturating_mul(CACHES)).max(2 * chase_wanted);
    let stream_wanted = within(cache_all.saturating_mul(CACHES));

    // What memory allows.
    let spread =
        facts.targets.iter().map(|t| t.free_bytes).min().unwrap_or(0).saturating_mul(facts.targets.len() as u64);
    let stream_free = facts.free_bytes.min(spread) / 6 / UNIT_BYTES * UNIT_BYTES;
    let mut buffers = Vec::new();
    for (target, of) in facts.targets.iter().enumerate() {
        let bytes = buffer_wanted.min(of.free_bytes.min(facts.free_bytes) / 2) / UNIT_BYTES * UNIT_BYTES;
        if bytes < UNIT_BYTES {
            notes.push(format!("node {} has {} free: too little to measure", of.node, size(of.free_bytes)));
        } else {
            buffers.push(Buffer { target, bytes, chase_bytes: chase_within(bytes, chase_wanted) });
        }
    }
    let mut stream_bytes = stream_wanted.min(stream_free);

    // What time allows.
    let setup_max = tempo.total.mul_f64(SETUP_SHARE);
    let mut setup = setup_time(facts, &buffers, stream_bytes);
    let floor = UNIT_BYTES.max(tempo.buffer_bytes_min / 8);
    while setup > setup_max && (stream_bytes > floor || buffers.iter().any(|b| b.bytes > floor)) {
        for buffer in buffers.iter_mut().filter(|b| b.bytes > floor) {
            buffer.bytes = (buffer.bytes / 2).max(floor) / UNIT_BYTES * UNIT_BYTES;
            buffer.chase_bytes = chase_within(buffer.bytes, chase_wanted);
        }
        stream_bytes = stream_bytes.min((stream_bytes / 2).max(floor) / UNIT_BYTES * UNIT_BYTES);
        setup = setup_time(facts, &buffers, stream_bytes);
    }
    cut_note(notes, "buffers", buffers.iter().map(|b| b.bytes).min().unwrap_or(0), buffer_wanted, cache_node);
    cut_note(notes, "the chase", buffers.iter().map(|b| b.chase_bytes).min().unwrap_or(0), chase_wanted, cache_one);
    cut_note(notes, "STREAM's arrays", stream_bytes, stream_wanted, cache_all);
    (buffers, stream_bytes, setup)
}

fn chase_within(buffer_bytes: u64, wanted: u64) -> u64 {
    wanted.min(1 << (buffer_bytes / 2).max(1).ilog2())
}

fn cut_note(notes: &mut Vec<String>, what: &str, bytes: u64, wanted: u64, cache_bytes: u64) {
    if bytes > 0 && bytes < wanted {
        let served = if bytes < cache_bytes.saturating_mul(2) { "; caches may serve part of it" } else { "" };
        let bytes = size(bytes);
        let wanted = size(wanted);
        notes.push(format!("{what}: {bytes} instead of {wanted}, by the memory and the time there is{served}"));
    }
}

fn setup_time(facts: &ProbeFacts, buffers: &[Buffer], stream_bytes: u64) -> Duration {
    let threads = facts.initiators.iter().map(|i| i.cpus.len().min(TOUCHING_THREADS_MAX));
    let (one, all) = (threads.clone().min().unwrap_or(1).max(1), threads.sum::<usize>().max(1));
    let buffer_bytes: u64 = buffers.iter().map(|b| b.bytes).sum();
    let links: u64 = buffers.iter().map(|b| b.chase_bytes / super::chase::LINE_BYTES as u64).sum();
    // Two times three arrays for STREAM.
    let touching = buffer_bytes as f64 / one as f64 + 6.0 * stream_bytes as f64 / all as f64;
    let seconds = touching / facts.touch_bytes_per_second.max(1.0);
    Duration::from_secs_f64(seconds.min(1e6)) + Duration::from_nanos(links.saturating_mul(LINK_NS))
}

#[cfg(test)]
mod tests;
