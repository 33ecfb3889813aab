//! Runs a workload on a machine in virtual time, with the decisions of `sched::policy`.
//!
//! ```no_run
//! use sim::{Machine, Options, run, workload::scan};
//! use sched::{Preset, Settings};
//!
//! let machine = Machine::parse("ivybridge-ex-4")?;
//! let mut clients = scan::Scans { clients: 1024, ..scan::Scans::vldb(scan::Placement::RoundRobin) }.workload();
//! let options = Options { settings: Settings::preset(Preset::Bound), ..Options::default() };
//! let outcome = run(&machine, &options, &mut clients)?;
//! println!("{} statements per minute", outcome.statements_per_second() * 60.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - `engine.rs`: events, clients, graphs. `pool.rs`: slots, queues, stealing, waking, as `sched/src/runtime` does
//!   them. `traffic.rs`: who gets how many bytes per second. `outcome.rs`, `histogram.rs`: what came out.
//!
//! Invariants: events at one time happen in the order in which they were planned; nothing depends on addresses or on
//! the order of a hash table.
//!
//! # Limits
//! Workers do not block, so no slot is ever lent. A worker that finds nothing sleeps at once instead of looking again
//! for some microseconds. Threads that are not pinned are moved by the (virtual) operating system when they wake up
//! only.

mod engine;
mod histogram;
mod outcome;
mod pool;
#[cfg(test)]
mod tests;
mod traffic;

use sched::policy::Layout;
use sched::{Settings, Split};
use thiserror::Error;

use crate::checkers::Violation;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::workload::Workload;

pub use histogram::Histogram;
pub use outcome::{NodeOutcome, Outcome};

/// When rates are worked out anew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolve {
    /// Whenever a flow begins or ends.
    Exact,
    /// `period_ns` after flows have begun or ended, or ten microseconds after those are `drift` of all flows.
    Lazy {
        /// Virtual nanoseconds.
        period_ns: u64,
        /// A share of the flows, such as 0.05.
        drift: f64,
    },
}

/// How a run is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of all randomness.
    pub seed: u64,
    /// Virtual time before anything is counted.
    pub warm_up_ns: u64,
    /// Virtual time that is counted. The run ends earlier if all clients are done.
    pub measured_ns: u64,
    /// End after `n` statements in the counted time; `None` is no limit.
    pub statements_max: Option<u64>,
    /// Settings of all statements: presets are `Settings::preset(Preset::{Os, Target, Bound})`.
    pub settings: Settings,
    /// Slots; `None` is one per cpu.
    pub threads: Option<usize>,
    /// The places of nodes whose workers never work: their queues are there, and whoever may steal from them empties
    /// them.
    pub resting: Vec<usize>,
    /// How nodes are cut into thread groups.
    pub split: Split,
    /// Costs.
    pub constants: Constants,
    /// What a statement takes for each node that its first tasks are for, one statement after the other; its tasks are
    /// there afterwards. 0: nothing is done one after the other.
    pub dispatch_ns: u64,
    /// When rates are worked out.
    pub resolve: Resolve,
    /// Whether the policy's invariants are checked meanwhile; then a violation ends the run as an error.
    pub checked: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 1,
            warm_up_ns: 1_000_000_000,
            measured_ns: 5_000_000_000,
            statements_max: None,
            settings: Settings::default(),
            threads: None,
            resting: Vec::new(),
            split: Split::default(),
            constants: Constants::default(),
            dispatch_ns: 0,
            resolve: Resolve::Lazy { period_ns: 10_000_000, drift: 0.02 },
            checked: false,
        }
    }
}

impl Options {
    /// These options with the costs of this machine's cores: those that [`run`] has, for building statements before it.
    #[must_use]
    pub fn on(&self, machine: &Machine) -> Options {
        Options { constants: self.constants.on_cores(machine.core_slowness()), ..self.clone() }
    }

    /// The slots that a run of this machine has, for building statements before it.
    pub fn layout(&self, machine: &Machine) -> Layout {
        Layout::new(machine.topology(), self.threads, self.split)
    }
}

/// Why a run ended without an outcome.
#[derive(Debug, Error)]
pub enum SimError {
    /// A statement makes no sense on this machine.
    #[error("a statement of the workload cannot run on '{machine}': {reason}")]
    Statement {
        /// The machine.
        machine: String,
        /// What is wrong.
        reason: String,
    },
    /// The workload has no clients.
    #[error("the workload has no clients; give it at least one")]
    NoClients,
    /// Nothing was measured, because no virtual time was given.
    #[error("no virtual time to measure was given; set measured_ns above 0")]
    NoTime,
    /// A checker found an invariant of the policy broken.
    #[error("at {at_ns} ns of virtual time: {violation}")]
    Broken {
        /// When.
        at_ns: u64,
        /// Which.
        violation: Violation,
    },
}

/// Runs a workload.
///
/// # Errors
/// [`SimError`]: bad input, or, where [`Options::checked`] is set, a broken invariant.
pub fn run(machine: &Machine, options: &Options, workload: &mut dyn Workload) -> Result<Outcome, SimError> {
    if workload.clients() == 0 {
        return Err(SimError::NoClients);
    }
    if options.measured_ns == 0 {
        return Err(SimError::NoTime);
    }
    let options = &options.on(machine);
    let layout = options.layout(machine);
    engine::Engine::new(machine, options, &layout).run(workload)
}

/// As [`run`], with a decision broken on purpose.
#[cfg(test)]
pub(crate) fn broken_run(
    machine: &Machine,
    options: &Options,
    workload: &mut dyn Workload,
    canary: Option<crate::canary::Canary>,
) -> Result<Outcome, SimError> {
    let options = &options.on(machine);
    let layout = options.layout(machine);
    let mut engine = engine::Engine::new(machine, options, &layout);
    engine.pool.canary = canary;
    engine.run(workload)
}
