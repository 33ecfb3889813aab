//! Virtual machines and virtual time for the product's own decisions.
//!
//! A [`Machine`] (published, specified or probed) and a [`workload::Workload`] (closed-loop clients with task graphs)
//! go into [`run::run`], which runs `sched::policy` unchanged in virtual time, shares memory traffic by [`flow`], and
//! gives an [`run::Outcome`]. Costs that no table gives are in [`constants`], once for all experiments.
//!
//! Invariants: a run is a function of machine, workload, options and seed; there is no clock, no thread, no random
//! source but [`random::Random`]. Decisions come from `sched::policy` alone. [`checkers`] watch its invariants while it
//! runs.
//!
//! # Limits
//! Written per module; the simulator knows no kernel, page tables or cache contents, only what traffic they cause.

#[cfg(test)]
mod canary;
pub mod checkers;
pub mod constants;
pub mod flow;
pub mod machine;
pub mod run;
pub mod workload;

pub use constants::Constants;
pub use machine::{Machine, MachineError};
pub use random::Random;
pub use run::{Options, Outcome, Resolve, SimError, run};
pub use workload::{At, Graph, Task, TaskStage, Workload};
