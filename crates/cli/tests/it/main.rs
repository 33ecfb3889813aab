//! The built program, as a user runs it.

mod program;
mod prompt;
mod pty;
mod sql;
mod topology;
mod tpch;
mod usage;
