//! Routing: which unit owns a key, and how commands reach it.

pub(crate) mod inbox;
pub mod table;
