//! Routing: which unit owns a key, and how commands reach it.

#[cfg(not(loom))]
pub(crate) mod command;
pub(crate) mod inbox;
#[cfg(not(loom))]
pub(crate) mod outgoing;
pub(crate) mod published;
pub(crate) mod served;
pub mod table;
