//! What the command `nearside` does that is no database: [`bench`] measures parts of Nearside, [`tpch`] runs TPC-H and
//! checks its answers, [`lab`] measures the published experiments here, [`recording`] makes workload files of what a
//! database did.
//!
//! The command parses a line and calls one of these with its options, which are declared beside what they mean; what
//! the tools share with the command's other parts is here too: why they fail ([`failure`]), Ctrl-C ([`interrupt`]),
//! progress, sizes for people, the machine in one line.
//!
//! Invariant: nothing here is needed to use the database; `nearside` does not know of it.

pub mod bench;
pub mod failure;
pub mod interrupt;
pub mod lab;
pub mod machine;
pub mod progress;
pub mod recording;
pub mod size;
pub mod tpch;

/// The revision this is built from.
pub const REVISION: &str = env!("NEARSIDE_REVISION");

/// The program's version with the revision it is built from.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("NEARSIDE_REVISION"), ")");
