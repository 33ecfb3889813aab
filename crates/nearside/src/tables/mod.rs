//! Tables that are not stored, as the planner sees them.

pub(crate) mod files;
pub(crate) mod sources;
