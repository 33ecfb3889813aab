//! Nearside's scheduler: tasks that run next to the memory they read.
//!
//! A [`Scheduler`] has a slot per usable cpu, in thread groups of one NUMA node each, and workers that hold the slots.
//! A task belongs to a [`Statement`] (how urgent it is, when to stop, what its memory is charged to) and says with an
//! [`Affinity`] where it wants to run. [`Scheduler::spawn`] queues one task, [`Scheduler::submit`] gives its result,
//! [`Scheduler::parallel_for`] runs many and waits. A task that has to block does so in [`blocking`].
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use numa::{Budget, Topology};
//! use sched::{Affinity, Config, Scheduler, Statement};
//!
//! // Two packages of two nodes each; a program would ask `Topology::discover()`.
//! let topology = Arc::new(Topology::synthetic(2, 2, 1, 1));
//! let nodes: Vec<_> = topology.nodes().iter().map(|node| node.id).collect();
//! let scheduler = Scheduler::new(topology, Config::default());
//! let statement = Statement::new(1, Budget::unlimited());
//!
//! let sum = AtomicU64::new(0);
//! scheduler
//!     .parallel_for(&statement, 100, &|i| Affinity::near(nodes[i % nodes.len()]), &|i| {
//!         sum.fetch_add(i as u64, Ordering::Relaxed);
//!     })
//!     .unwrap();
//! assert_eq!(sum.into_inner(), 4950);
//! ```
//!
//! Invariants: decisions are in [`policy`], pure; the runtime acts on them. No task is lost or run twice. A task's
//! panic ends at its statement. An idle scheduler uses no cpu. Threads end when the last handle is dropped.
//!
//! `unsafe` is in `scope.rs` only: a `parallel_for` lends its borrowing body to threads that outlive the borrow, and
//! does not return before they have done with it.
//!
//! # Limits
//! docs/design/sched.md says what is built and what is not.
//!
//! Source: Psaroudakis et al., VLDB 2015, section 5.1; Seidel 2011 (NUMA Building Blocks); Greinsmark 2020 (stealing
//! and binding modes).

mod affinity;
pub mod bench;
mod calibrate;
mod config;
mod counting;
mod handover;
mod inline;
mod panics;
pub mod parallel;
pub mod policy;
mod primitive;
mod report;
mod runtime;
mod scheduler;
mod scope;
mod settings;
mod sleep;
mod statement;
mod stats;

pub use affinity::{Affinity, AffinityOf, CallBody, Hint, Place, Priority, SlotId};
pub use calibrate::Calibration;
pub use config::{Config, Watchdog};
pub use counting::{CounterSource, ReadCounters};
pub use inline::Inline;
pub use panics::{caught, panic_text};
pub use policy::Split;
pub use report::report_bytes;
pub use runtime::blocking::blocking;
pub use runtime::completion::Completion;
pub use runtime::parallel::TaskError;
pub use scheduler::Scheduler;
pub use settings::{Affinities, Binding, Preset, SettingError, Settings, StealAmount, Stealing};
pub use statement::{Cancellation, Statement, StopReason};
pub use stats::{
    GroupStats, NodeStats, QueuedTask, SchedulerStats, StatementStats, WorkerId, WorkerState, WorkerStats,
};
