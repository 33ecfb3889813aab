//! A statement while it runs: its time, budget and cancellation, its rows as they come, what is recorded of it.

pub(crate) mod admission;
mod admission_queue;
pub(crate) mod admission_state;
pub(crate) mod by_key;
pub(crate) mod cache;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod idle;
pub(crate) mod inner;
pub(crate) mod locks;
pub(crate) mod lookout;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod pending;
pub(crate) mod placer;
pub(crate) mod placer_log;
pub(crate) mod placer_state;
pub(crate) mod planned;
pub(crate) mod prepare;
pub(crate) mod profile;
pub(crate) mod query;
pub(crate) mod recording;
pub(crate) mod scheduling;
pub(crate) mod statement;
pub(crate) mod stream;
pub(crate) mod system;
pub(crate) mod transaction;
