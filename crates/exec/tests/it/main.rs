//! Integration tests of `exec`, one binary.

mod agreement;
mod binding;
mod placement;
mod plans;
mod streaming;
mod support;
