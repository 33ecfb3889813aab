//! Columns as integers: what joins, aggregates, sorts and windows compare instead of values.

pub(crate) mod bounds;
pub(crate) mod float;
pub(crate) mod key_filter;
