//! From a statement to an optimised logical plan: what the planner sees, the planning loop, the plans that are kept.

pub(crate) mod context;
pub(crate) mod headers;
pub(crate) mod permission;
pub(crate) mod planner;
pub(crate) mod planning;
#[cfg(test)]
mod registry;
pub(crate) mod stop;
pub(crate) mod system;
pub(crate) mod updatable;
