//! Integration tests of `exec`, one binary.

mod agreement;
mod binding;
mod feedback;
mod identity;
mod placement;
mod plans;
mod relational;
mod seeking;
mod sharing;
mod streaming;
mod support;
