//! The scheduler's runtime, through its public interface, with real threads.

mod lifecycle;
mod nested;
mod oracle;
mod placement;
mod soak;
mod stopping;
mod support;
