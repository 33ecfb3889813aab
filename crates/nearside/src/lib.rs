//! Nearside (module under construction on this branch: `io`).
pub mod io;
