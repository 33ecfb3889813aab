//! Predicates asked of codes instead of values: once per dictionary, not once per row.
//!
//! A test of one column becomes a set of codes ([`ranges`]), by looking bounds up in the dictionary ([`bind`]) or by
//! evaluating it per entry ([`entries`]); what is left of a predicate is tested over the surviving rows ([`filter`]).
//! Scans of one column that run at the same time look for their codes in one pass ([`shared`]).

pub(crate) mod bind;
pub(crate) mod entries;
pub(crate) mod filter;
pub(crate) mod input;
pub(crate) mod ranges;
pub(crate) mod shared;
