//! Routing: which unit owns a key, and how commands reach it.

pub(crate) mod inbox;
pub(crate) mod published;
pub mod table;
