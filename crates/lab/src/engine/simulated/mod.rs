//! Points on the simulator: settings become a machine, a workload of clients and the settings of the scheduler; an
//! outcome becomes metrics.
//!
//! Invariants: whatever a setting cannot mean in the simulator is refused with the reason; the same point, constants
//! and seed give the same outcome.
//!
//! # Limits
//! A point is not interrupted while it runs. The kernel's NUMA balancing is not simulated. Statistics begin after a
//! warm-up of a quarter of the measured time.

mod columns;
mod loops;
mod recorded;
mod shifting;
mod store;
mod sub_domains;
mod tables;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use numa::Topology;
use sched::{Preset, Settings};
use sim::workload::placed::{Placed, PlacedClients};
use sim::{Constants, Machine, Options, Workload as Clients};

use super::{Conditions, Engine, RunError};
use crate::declaration::{Cores, MachineUse, Point, Strategy, Workload};
use crate::result::{Metric, Outcome, ResultKind};

/// The share of the measured time that passes before it.
const WARM_UP: f64 = 0.25;
const NS: f64 = 1e9;
const GB: f64 = 1e9;

/// The simulator as an engine.
#[derive(Clone, Debug, Default)]
pub struct SimEngine {
    constants: Constants,
}

impl SimEngine {
    /// A simulator with these constants.
    pub fn new(constants: Constants) -> SimEngine {
        SimEngine { constants }
    }
}

impl Engine for SimEngine {
    fn kind(&self) -> ResultKind {
        ResultKind::Simulated
    }

    fn machine(&self, point: &Point) -> Result<(String, Topology), RunError> {
        let name = &point.settings.machine.machine;
        let machine = Machine::parse(name).map_err(|error| RunError::Refused(error.to_string()))?;
        Ok((name.clone(), machine.topology().as_ref().clone()))
    }

    fn constants(&self) -> BTreeMap<String, f64> {
        let named = Constants::NAMES.iter().filter_map(|name| Some((name.to_string(), self.constants.get(name)?)));
        named.collect()
    }

    fn run(&self, point: &Point, conditions: Conditions<'_>) -> Result<Outcome, RunError> {
        if conditions.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped);
        }
        let told = crate::assumption::of_point(point).map(|one| format!("assumed: {}", one.told()));
        let told: Vec<String> = told.collect();
        let point = crate::assumption::settings_of(point).map_err(RunError::Refused)?;
        let mut options = self.options(conditions);
        options.constants = crate::assumption::constants_of(&options.constants, &point).map_err(RunError::Refused)?;
        // Shares its list of what is read with all clones that the run makes.
        let constants = options.constants.clone();
        let machine = machine_of(&point.settings.machine)?;
        let bench = Bench { options: options.on(&machine), machine };
        let outcome = match &point.settings.workload {
            Workload::Columns(columns) => columns::run(bench, columns),
            Workload::Placing(placing) => columns::placed(bench, placing),
            Workload::Aggregate(aggregate) => tables::run(bench, aggregate),
            Workload::Store(store) => store::run(bench, store),
            Workload::Shifting(shifting) => shifting::run(bench, shifting),
            Workload::SubDomains(settings) => sub_domains::run(bench, settings),
            Workload::Loops(loops) => loops::run(bench, loops, &point.settings.machine),
            Workload::Recorded(statements) => recorded::run(bench, statements),
            Workload::Modelled(_) => Err(RunError::Refused("the model computes this; it is not simulated".to_string())),
        }?;
        let notes = outcome.notes.iter().cloned().chain(told).collect();
        Ok(Outcome { constants: constants.read().into_iter().map(str::to_string).collect(), notes, ..outcome })
    }

    /// Cpus times virtual seconds: how many tasks there are at a time, and how often they end.
    fn cost(&self, point: &Point, conditions: Conditions<'_>) -> f64 {
        machine_of(&point.settings.machine).map_or(0.0, |machine| machine.cpus() as f64 * conditions.seconds)
    }
}

impl SimEngine {
    fn options(&self, conditions: Conditions<'_>) -> Options {
        let ns = |seconds: f64| (seconds * NS).clamp(1.0, 1e18) as u64;
        Options {
            seed: conditions.seed,
            warm_up_ns: ns(conditions.seconds * WARM_UP),
            measured_ns: ns(conditions.seconds),
            constants: self.constants.unread(),
            ..Options::default()
        }
    }
}

/// A machine with the options of a run on it.
struct Bench {
    machine: Machine,
    options: Options,
}

impl Bench {
    /// Runs clients.
    fn run(&self, clients: &mut dyn Clients) -> Result<sim::Outcome, RunError> {
        sim::run(&self.machine, &self.options, clients).map_err(|error| RunError::Failed(error.to_string()))
    }

    /// The places of the nodes that have cpus.
    fn nodes(&self) -> Vec<usize> {
        (0..self.machine.node_count()).filter(|node| self.machine.nodes()[*node].cpus > 0).collect()
    }
}

/// How long the placer has before anything counts: what is to move takes some tens of seconds, throttled as it is.
const PLACER_WARM_UP_NS: u64 = 120_000_000_000;
/// How often it looks: the product's usual period.
const PLACER_PERIOD_NS: u64 = 1_000_000_000;

/// Runs clients over columns that the placer moves.
fn run_placed(mut bench: Bench, what: Placed) -> Result<Outcome, RunError> {
    bench.options.warm_up_ns = PLACER_WARM_UP_NS;
    let mut clients = PlacedClients::new(Placed { period_ns: Some(PLACER_PERIOD_NS), ..what }, &bench.machine);
    let found = bench.run(&mut clients)?;
    let mut outcome = metrics(&found);
    let moved: f64 = clients.log().iter().map(|carried| carried.moved_bytes).sum();
    outcome.notes.push(format!("the placer made {} decisions and moved {:.1} GB", clients.log().len(), moved / GB));
    Ok(outcome)
}

/// The machine, or the part of it that is used.
fn machine_of(used: &MachineUse) -> Result<Machine, RunError> {
    let refused = |error: sim::MachineError| RunError::Refused(error.to_string());
    if used.numa_balancing {
        let reason =
            "numa_balancing = true: the simulator has no kernel that moves pages; only measured runs can have it";
        return Err(RunError::Refused(reason.to_string()));
    }
    let mut machine = Machine::parse(&used.machine).map_err(refused)?;
    if used.nodes > 0 {
        machine = machine.with_nodes(used.nodes as usize).map_err(refused)?;
    }
    let (cores, cpus) = machine.nodes().first().map_or((1, 1), |node| (node.cores.max(1), node.cpus));
    let threads = (cpus / cores).max(1);
    if used.cpus_per_node > 0 {
        let wanted = used.cpus_per_node as usize;
        // Cores before their second threads, as the thesis hands them out.
        let (of_cores, of_threads) = if wanted <= cores { (wanted, 1) } else { (wanted.div_ceil(threads), threads) };
        if wanted > cpus || of_cores * of_threads != wanted {
            return Err(RunError::Refused(format!(
                "cpus_per_node = {wanted}: the nodes of {} have {cores} cores with {threads} threads each; give at \
                 most {cores}, or a multiple of {threads} up to {cpus}",
                machine.name()
            )));
        }
        machine = machine.with_cpus(of_cores, of_threads).map_err(refused)?;
    } else if used.cores == Cores::Half {
        machine = machine.with_cpus((cores / 2).max(1), threads).map_err(refused)?;
    }
    Ok(machine)
}

/// The scheduler's settings of a strategy.
fn settings_of(strategy: Strategy) -> Settings {
    Settings::preset(match strategy {
        Strategy::Os => Preset::Os,
        Strategy::Target => Preset::Target,
        Strategy::Bound => Preset::Bound,
    })
}

/// What every simulated run gives.
fn metrics(found: &sim::Outcome) -> Outcome {
    let seconds = found.seconds();
    let per_node = found.nodes.iter().map(|node| node.controller_bytes / seconds / GB).collect();
    let latency = |share: f64| found.latency.percentile_ns(share) as f64 / NS;
    let mut outcome = Outcome { per_node, events: found.events, ..Outcome::default() }
        .with(Metric::Throughput, found.statements_per_second() * 60.0)
        .with(Metric::MemoryTraffic, found.bytes_per_second() / GB)
        .with(Metric::LinkTraffic, found.link_bytes_per_second() / GB)
        .with(Metric::LinkData, found.link_data_bytes / seconds / GB)
        .with(Metric::RemoteShare, found.remote_share())
        .with(Metric::CpuLoad, found.busy)
        .with(Metric::Computing, found.computing)
        .with(Metric::Tasks, found.tasks as f64 / seconds)
        .with(Metric::Stolen, found.stolen_across_nodes as f64 / seconds);
    if found.statements > 0 {
        outcome = outcome
            .with(Metric::LatencyMean, found.latency.mean_ns() / NS)
            .with(Metric::LatencyP05, latency(0.05))
            .with(Metric::LatencyP50, latency(0.5))
            .with(Metric::LatencyP95, latency(0.95))
            .with(Metric::LatencySpread, found.latency.spread());
    } else {
        outcome.notes.push("no statement ended in the measured time".to_string());
    }
    outcome
}

#[cfg(test)]
mod tests;
