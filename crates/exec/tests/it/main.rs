//! Integration tests of `exec`, one binary.

mod agreement;
mod binding;
mod plans;
mod streaming;
mod support;
