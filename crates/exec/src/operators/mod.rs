//! Operators: what a chunk, or all chunks of an input, go through.
//!
//! A breaker (aggregate, join, sort, window) runs the pipe of its input and becomes a source of rows; the others are
//! put behind the lanes of a pipe. docs/design/engine.md is the design.

pub(crate) mod aggregate;
pub(crate) mod filter;
pub(crate) mod foreign;
pub(crate) mod join;
pub(crate) mod limit;
pub(crate) mod project;
pub(crate) mod recursion;
pub(crate) mod sort;
pub(crate) mod union;
pub(crate) mod unnest;
pub(crate) mod values;
pub(crate) mod window;
