//! Rules of ours on logical plans, one file each, and the lists of them.

pub(crate) mod assigned;
pub(crate) mod casts;
pub(crate) mod chars;
pub(crate) mod coerce;
pub(crate) mod correlated;
mod cross_joins;
pub(crate) mod days;
mod dependent;
pub(crate) mod effects;
mod group_keys;
pub(crate) mod kinds;
pub(crate) mod literals;
pub(crate) mod moments;
mod no_row;
pub(crate) mod not_in;
mod null_keys;
pub(crate) mod optimizer;
pub(crate) mod quantified;
mod set_all;
pub(crate) mod set_types;
pub(crate) mod shared_queries;
pub(crate) mod spans;
pub(crate) mod subquery_places;
pub(crate) mod texts;
pub(crate) mod volatile;
pub(crate) mod window_frames;
