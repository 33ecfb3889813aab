//! Experiments measured on the machine at hand, with an embedded database: what `nearside lab run --measured` runs.
//!
//! ```text
//! settings of a point ─► cpus: the part of the machine ─► a thread pinned to it ─► Database over that part
//!     Database ─► tables, sessions (kept)
//!             └─► columns | placing | sub_domains | passes | keyed | loops | hogs ─► Outcome
//! ```
//! The database, its tables and its sessions are kept from point to point, so that a grid loads each placement once.
//!
//! Invariants: whatever could not be done as the settings ask is refused, or stands in the notes of the outcome; a
//! point whose run was stopped has no outcome; answers are checked.
//!
//! # Limits
//! Clients run in the same process and on the same cpus as the database. Bytes are those that tasks reported to have
//! touched: there are no counters of links, and none of computing beside waiting. A load, a count or an ALTER that has
//! begun is not interrupted: Ctrl-C waits for it. What is left: docs/design/lab.md.

mod balancing;
mod columns;
mod cpus;
mod fit;
mod hogs;
mod keyed;
mod loops;
mod passes;
mod places;
mod placing;
mod store;
mod sub_domains;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use lab::declaration::{Operation, Point, Settings, Workload};
use lab::engine::{Conditions, Measure, RunError};
use lab::result::Outcome;
use numa::{CpuId, NodeId, Topology, pin_current_thread};

use self::balancing::Balancing;
use self::cpus::{Portion, portion};
use self::store::KeptDatabase;
use crate::failure::Failure;
use crate::machine::describe;

/// The machine at hand, and what earlier points have stored in it.
pub struct AtHand {
    topology: Topology,
    /// What the data of experiments are cut to; the usable memory unless a test says otherwise.
    memory_bytes: u64,
    /// The kernel's setting of balancing; tests have another file.
    balancing: PathBuf,
    stored: Mutex<Option<KeptDatabase>>,
}

/// What the measurement of a point works with.
struct Bench<'a> {
    stored: &'a mut KeptDatabase,
    nodes: &'a [NodeId],
    memory_bytes: u64,
    conditions: Conditions<'a>,
}

impl AtHand {
    /// This machine, as the process may use it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn discover() -> Result<AtHand, Failure> {
        let topology = Topology::discover().map_err(|error| Failure::new(error.to_string()))?;
        let memory_bytes = topology.memory_bytes();
        let balancing = PathBuf::from(balancing::SETTING);
        Ok(AtHand { topology, memory_bytes, balancing, stored: Mutex::new(None) })
    }

    fn run(&self, settings: &Settings, conditions: Conditions<'_>) -> Result<Outcome, RunError> {
        let part = match &settings.workload {
            Workload::SubDomains(asked) => sub_domains::workers(&self.topology, &settings.machine, asked)?,
            _ => portion(&self.topology, &settings.machine)?,
        };
        let balancing = self.balancing(settings.machine.numa_balancing)?;
        let mut outcome = match part.is_all {
            true => self.run_here(settings, conditions, &part)?,
            false => self.run_on(settings, conditions, &part)?,
        };
        if let Some(balancing) = balancing {
            outcome.notes.push(balancing.note().to_string());
        } else {
            outcome
                .notes
                .push("one node: placements and strategies differ by what they cost, not by distances".to_string());
        }
        Ok(outcome)
    }

    /// Switches the kernel's balancing; a machine of one node has nothing to balance.
    fn balancing(&self, wanted: bool) -> Result<Option<Balancing>, RunError> {
        match (self.topology.nodes().len(), wanted) {
            (0 | 1, true) => Err(RunError::Refused(
                "numa_balancing = true: this machine has one node; nothing can be balanced".to_string(),
            )),
            (0 | 1, false) => Ok(None),
            _ => Balancing::set(&self.balancing, wanted).map(Some).map_err(RunError::Refused),
        }
    }

    /// Runs a point on a thread that is pinned to a part of the machine: threads that it starts inherit that.
    fn run_on(&self, settings: &Settings, conditions: Conditions<'_>, part: &Portion) -> Result<Outcome, RunError> {
        let pinned = || {
            if !pin_current_thread(&part.cpus) {
                let reason =
                    "only a part of the cpus is asked for, and the system does not let threads be pinned to it";
                return Err(RunError::Refused(reason.to_string()));
            }
            self.run_here(settings, conditions, part)
        };
        let panicked = |_| {
            // It may have left a table half made.
            *self.stored.lock().unwrap_or_else(PoisonError::into_inner) = None;
            Err(RunError::Failed("the thread that measures panicked".to_string()))
        };
        std::thread::scope(|scope| scope.spawn(pinned).join().unwrap_or_else(panicked))
    }

    fn run_here(&self, settings: &Settings, conditions: Conditions<'_>, part: &Portion) -> Result<Outcome, RunError> {
        let mut kept = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = match kept.take().filter(|stored| stored.cpus() == part.cpus) {
            Some(stored) => kept.insert(stored),
            None => kept.insert(KeptDatabase::new(self.topology_of(part)?, &part.cpus)?),
        };
        let bench = Bench { stored, nodes: &part.nodes, memory_bytes: self.memory_bytes, conditions };
        let outcome = match &settings.workload {
            Workload::Columns(columns) => columns::run(bench, columns),
            Workload::Placing(placing) => placing::run(bench, placing),
            Workload::Modelled(model) => hogs::run(bench, model),
            Workload::Aggregate(_) => Err(not_yet("aggregations over the paper's tables")),
            Workload::Store(asked) => match asked.operation {
                Operation::Scan => passes::run(bench, asked),
                Operation::Route => keyed::run_commands(&bench, asked),
                Operation::Lookup if asked.command_keys > 0 => keyed::run_commands(&bench, asked),
                Operation::Lookup | Operation::Upsert => keyed::run(&bench, asked),
            },
            Workload::Shifting(asked) => keyed::run_shifting(&bench, asked),
            Workload::SubDomains(asked) => sub_domains::run(bench, &self.topology, asked),
            Workload::Loops(asked) => loops::run(bench, asked),
            Workload::Recorded(_) => Err(not_yet("recorded statements")),
        };
        // A failure may have left a table half made; what was refused has made none.
        if matches!(outcome, Err(RunError::Failed(_) | RunError::Stopped)) {
            *kept = None;
        }
        match conditions.stop.load(Ordering::Relaxed) {
            true => Err(RunError::Stopped),
            false => outcome,
        }
    }

    /// The part of the machine as this thread, which is pinned to it, may use it.
    fn topology_of(&self, part: &Portion) -> Result<Topology, RunError> {
        if part.is_all {
            return Ok(self.topology.clone());
        }
        let topology = Topology::discover().map_err(|error| RunError::Failed(error.to_string()))?;
        match topology.usable_cpus() == part.cpus {
            true => Ok(topology),
            false => Err(RunError::Failed(format!("pinned to {}, but {}", cpu_list(&part.cpus), describe(&topology)))),
        }
    }
}

impl Measure for AtHand {
    fn machine(&self) -> (String, Topology) {
        (describe(&self.topology), self.topology.clone())
    }

    fn measure(&self, point: &Point, conditions: Conditions<'_>) -> Result<Outcome, RunError> {
        match conditions.stop.load(Ordering::Relaxed) {
            true => Err(RunError::Stopped),
            false => self.run(&point.settings, conditions),
        }
    }
}

fn not_yet(what: &str) -> RunError {
    RunError::NotYet(format!("{what} are simulated, not measured; leave --measured out"))
}

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Failed(error.to_string())
}

fn cpu_list(cpus: &[CpuId]) -> String {
    cpus.iter().map(|cpu| cpu.0.to_string()).collect::<Vec<_>>().join(",")
}
