//! The engine for plans that look at more than one row: pipelines of chunks over integers and codes.
//!
//! [`Flow`] walks a plan, runs the pipelines of breakers (aggregates, build sides of joins, sorts) one after the other, each on all
//! threads lent to it, and leaves a [`Pipe`] for the last pipeline, whose batches go to the consumer as they are made.
//! docs/design/engine.md is the design.

mod aggregate;
mod chunk;
mod eval;
mod filters;
mod flow;
mod foreign;
mod join;
mod key_filter;
mod pipe;
mod profiled;
mod recursion;
mod run;
mod sort;
mod source;
mod streamed;
mod union;
mod unnest;
mod vector;
mod window;

pub(crate) use flow::{Flow, only_scan};
pub(crate) use key_filter::{FewKeys, KeyFilter};
pub(crate) use pipe::Pipe;
pub(crate) use run::Run;
pub(crate) use streamed::{StreamNext, StreamStep, Streamed};
