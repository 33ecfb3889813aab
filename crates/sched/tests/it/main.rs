//! The scheduler's runtime, through its public interface, with real threads.

mod blocking;
mod counters;
mod lifecycle;
mod nested;
mod nodes;
mod oracle;
mod placement;
mod settings;
mod soak;
mod stopping;
mod support;
