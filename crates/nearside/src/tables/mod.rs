//! Tables as the planner sees them, stored ones and others, and what of a condition they may be asked.

pub(crate) mod exact;
pub(crate) mod files;
pub(crate) mod sources;
pub(crate) mod stored;
