//! Columns as integers: what joins, aggregates, sorts and windows compare instead of values.

pub(crate) mod key_filter;
