//! The bandwidth-sharing model of run time: what a job's time is when others use the same memory, and what follows from
//! it.
//!
//! A *job* here is anything that runs as a whole on cpus of every node: a statement, a query, a program.
//!
//! - [`curve`]: how much bandwidth a node gives, by how much is asked of it; measured points joined by a spline or
//!   lines.
//! - [`plain`]: Seidel's model of one job (`q`, `t`). [`pair`]: two jobs beside each other, and what that gains.
//!   [`thesis`]: his figures, computed anew.
//! - [`job`], [`machine`]: the extended model: hidden traffic, sequential parts, overhead, SMT, remote memory, and
//!   demand as the threads that wait. [`fluid`]: jobs as flows, event by event. [`order`]: in which order a set of jobs
//!   should run.
//! - [`online`]: jobs learned from statements as they run, and which of those that wait should begin.
//! - [`fit`]: jobs of both models from measured runs, and what a negative `q` stands for. [`interference`]: measured
//!   queries and pairs in, fits, predictions and errors out.
//!
//! How it is built, what it reaches and what is left: `docs/design/model.md`.
//!
//! Invariants: depends on no crate of ours; calls no clock, thread, system call or random source; equal input gives
//! equal output.
//!
//! Source: Seidel 2011, chapter 5.

pub mod curve;
pub mod fit;
pub mod fluid;
pub mod interference;
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
