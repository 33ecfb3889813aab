//! The built program, as a user runs it.

mod bench;
mod crash;
mod lab;
mod packaging;
mod probe;
mod program;
mod prompt;
mod pty;
mod serve;
mod sql;
mod topology;
mod tpch;
mod usage;
