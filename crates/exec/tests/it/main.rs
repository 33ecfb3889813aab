//! Integration tests of `exec`, one binary.

mod agreement;
mod binding;
mod placement;
mod plans;
mod relational;
mod seeking;
mod streaming;
mod support;
