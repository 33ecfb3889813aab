//! Integration tests of `exec`, one binary.

mod agreement;
mod binding;
mod placement;
mod plans;
mod relational;
mod streaming;
mod support;
