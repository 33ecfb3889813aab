//! Loops over memory that is striped or lies where it was first touched, by a scheduler that knows or does not know
//! where (Seidel 2011, sections 2.1 and 4).
//!
//! A query is what Table 5.1 has of it: on one cpu per node it takes `t` seconds, of which it waits a share `q` for
//! memory at the bandwidth of one thread (Table 2.4). So each node's part is `(1 - q) t` of computation and `q t` times
//! that bandwidth of bytes, one after the other, as the thesis' model has it. Several cpus of a node wait longer for a
//! byte, as the curve of that table by threads has it. The queries themselves were written by hand and are not at hand.
//!
//! What is read while something else is computed is not waited for and not part of `q` (section 5.2): `hidden` is how
//! much, as a share of what one thread could read in the time.
//!
//! A loop with an adaptive grain is cut into as many tasks per cpu as balance it; with a fixed one into tasks that read
//! `grain_kib` each, as the thesis' scheduler does it (section 3.3.1: always split until a range is no larger than the
//! grain).
//!
//! A scheduler that does not know the nodes has as many threads, which nothing pins: the operating system places them
//! on any cpu of the machine.
//!
//! # Limits
//! Queries that Table 5.1 leaves out can be run with a `q` and `t` of one's own only. Memory that is not striped is
//! taken to be some columns, each whole on one node, in turn: the thesis does not say where first touch left it. A task
//! costs what it costs this product: what the thesis' scheduler needs for one is not printed. What memory a query waits
//! for is all that its loops read: a thread that waits pulls what controllers move while one writes (Table 2.4), since
//! nothing is printed of reading.

use model::plain::PlainJob;
use model::thesis::System;
use sched::{Affinities, Preset, Settings};
use sim::machine::MOVED_PER_WRITTEN;
use sim::workload::stream::{Lies, Pass};
use sim::workload::{Graph, RepeatedStatement, Task, TaskStage, near};

use super::{Bench, GB, NS, RunError, machine_of, metrics};
use crate::declaration::{Loops, MachineUse, NbbTask};
use crate::result::{Metric, Outcome};

const GIB: f64 = (1u64 << 30) as f64;
const ALWAYS: u64 = u64::MAX;
/// Elements of STREAM's arrays (section 2.1), and bytes that its triad counts for one: two are read and one is written,
/// which is read before, so as many are read; the one that was written goes back besides.
const STREAM_ELEMENTS: f64 = 2e8;
const TRIAD_BYTES: f64 = 24.0;
const TRIAD_BACK: f64 = 8.0 / TRIAD_BYTES;
/// Tasks for each cpu: what balances a loop without costing much.
const TASKS_PER_CPU: usize = 8;
const KIB: f64 = 1024.0;
/// More tasks than this per node are no loop that a grain was chosen for.
const TASKS_MAX: f64 = 1e6;

pub(super) fn run(bench: Bench, l: &Loops, used: &MachineUse) -> Result<Outcome, RunError> {
    match l.task {
        NbbTask::Stream => triad(bench, l),
        NbbTask::Query if l.aware => query(bench, l),
        NbbTask::Query => query(unpinned(bench, used)?, l),
    }
}

/// As many threads as `cpus_per_node` are of the whole machine, on whose cpus the operating system places them.
fn unpinned(mut bench: Bench, used: &MachineUse) -> Result<Bench, RunError> {
    bench.options.threads = Some(bench.machine.cpus());
    bench.machine = machine_of(&MachineUse { cpus_per_node: 0, ..used.clone() })?;
    Ok(bench)
}

fn triad(bench: Bench, l: &Loops) -> Result<Outcome, RunError> {
    let lies = if l.striped { Lies::Interleaved } else { Lies::Owned };
    let constants = &bench.options.constants;
    let bytes = STREAM_ELEMENTS * TRIAD_BYTES;
    let pass = Pass { bytes, entry_bytes: TRIAD_BYTES, entry_ns: constants.sum_ns_per_row(), lies, back: TRIAD_BACK };
    let graph = pass.graph(&bench.machine, &bench.options.layout(&bench.machine));
    let found = bench.run(&mut RepeatedStatement::new(graph, 1, ALWAYS))?;
    Ok(metrics(&found).with(Metric::ScanRate, found.bytes_per_second() / (1.0 + TRIAD_BACK) / GB))
}

fn query(mut bench: Bench, l: &Loops) -> Result<Outcome, RunError> {
    let system = match bench.machine.name() {
        "nbb-xeon-4" => System::Xeon,
        "nbb-opteron-8" => System::Opteron,
        other => {
            return Err(RunError::Refused(format!("Table 5.1 is of nbb-xeon-4 and nbb-opteron-8, not of '{other}'")));
        }
    };
    let known = system.queries().into_iter().find(|known| known.query == l.query).map(|known| known.job);
    let own = (l.query == 0).then_some(PlainJob { q: l.q, t_s: l.t });
    let Some(job) = known.or(own) else {
        let reason =
            format!("the thesis prints no q and t of query {} (Table 5.1), so it cannot be simulated", l.query);
        return Err(RunError::NotYet(reason));
    };
    let curve = system.local_gib_s();
    let thread = curve.first().copied().unwrap_or(1.0) * GIB;
    // A negative q says that memory is never waited for.
    let q = job.q.max(0.0);
    // What each of the cpus gets of its node's memory while all of them wait; second threads of cores have no more than
    // what the node gives.
    let cores = bench.machine.nodes()[bench.nodes()[0]].cores;
    let threads = threads_per_node(&bench);
    let together = curve.get(threads.min(cores).max(1) - 1).or(curve.last()).copied().unwrap_or(1.0) * GIB;
    let waited_ns_per_byte = if threads > cores { 0.0 } else { threads as f64 / together * NS };
    let part = NodePart {
        cpu_ns: (1.0 - q) * job.t_s * NS,
        bytes: q * job.t_s * thread * MOVED_PER_WRITTEN,
        hidden_bytes: l.hidden * job.t_s * thread * MOVED_PER_WRITTEN,
        waited_ns_per_byte: waited_ns_per_byte / MOVED_PER_WRITTEN,
    };
    bench.options.settings = if l.aware {
        Settings { affinities: Affinities::Hard, ..Settings::default() }
    } else {
        Settings::preset(Preset::Os)
    };
    let graph = part.graph(&bench, l)?;
    let found = bench.run(&mut RepeatedStatement::new(graph, 1, ALWAYS))?;
    let low = found.latency.min_ns() as f64;
    let high = found.latency.max_ns() as f64;
    let mut outcome = metrics(&found).with(Metric::RunTime, found.latency.mean_ns() / NS);
    if low > 0.0 {
        outcome = outcome.with(Metric::RunSpread, high / low - 1.0);
    }
    Ok(outcome)
}

/// How many threads work for each node, wherever they are.
fn threads_per_node(bench: &Bench) -> usize {
    let threads = bench.options.threads.unwrap_or(bench.machine.cpus());
    (threads / bench.nodes().len().max(1)).max(1)
}

/// A node's part of a query.
struct NodePart {
    cpu_ns: f64,
    bytes: f64,
    /// What is read while it computes.
    hidden_bytes: f64,
    /// The least that a cpu waits for a byte.
    waited_ns_per_byte: f64,
}

impl NodePart {
    /// The tasks of its loop.
    fn tasks(&self, cpus: usize, l: &Loops) -> Result<usize, RunError> {
        if l.adaptive_grain {
            return Ok(cpus * TASKS_PER_CPU);
        }
        let tasks = ((self.bytes + self.hidden_bytes) / (f64::from(l.grain_kib) * KIB)).ceil().max(1.0);
        if tasks > TASKS_MAX {
            let reason = format!("grain_kib = {} makes {tasks:.0} tasks per node; give a larger grain", l.grain_kib);
            return Err(RunError::Refused(reason));
        }
        Ok(tasks as usize)
    }

    fn graph(&self, bench: &Bench, l: &Loops) -> Result<Graph, RunError> {
        let nodes = bench.nodes();
        let tasks = self.tasks(threads_per_node(bench), l)?;
        let columns = l.columns as usize;
        let mut graph = Graph::new(1.0);
        for (at, node) in nodes.iter().enumerate() {
            for task in 0..tasks {
                let column = (at * tasks + task) * columns / (nodes.len() * tasks);
                let from = if l.striped { *node } else { nodes[column % nodes.len()] };
                let stages = vec![
                    TaskStage::cpu(self.cpu_ns / tasks as f64).read(from, self.hidden_bytes / tasks as f64),
                    TaskStage::cpu(self.bytes * self.waited_ns_per_byte / tasks as f64)
                        .read(from, self.bytes / tasks as f64),
                ];
                let affinity = if l.aware { near(&bench.machine, from) } else { sched::Affinity::Anywhere };
                let mut one = Task::new(affinity, TaskStage::default());
                one.stages = stages;
                graph.add(one);
            }
        }
        Ok(graph)
    }
}
