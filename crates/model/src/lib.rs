//! The bandwidth-sharing model of run time: what a job's time is when others use the same memory, and what follows from it.
//!
//! A *job* here is anything that runs as a whole on cpus of every node: a statement, a query, a program.
//!
//! - [`curve`]: how much bandwidth a node gives, by how much is asked of it; measured points joined by a spline or lines.
//! - [`plain`]: Seidel's model of one job (`q`, `t`), changes on the way included. [`pair`]: two jobs beside each other, what
//!   that gains, how it is measured. [`thesis`]: his figures, computed anew.
//!
//! Invariants: depends on no crate of ours; calls no clock, thread, system call or random source; equal input gives equal output.
//!
//! Source: Seidel 2011, chapter 5.

pub mod curve;
pub mod fit;
pub mod fluid;
pub mod job;
mod linear;
pub mod machine;
#[cfg(test)]
mod noise;
pub mod online;
pub mod order;
pub mod pair;
pub mod plain;
pub mod thesis;
