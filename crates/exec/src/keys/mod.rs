//! Columns as integers: what aggregates, joins, sorts, windows and recursions compare instead of values.
//!
//! Three codecs, for three questions. [`group`]: which rows are alike, and which values are they? [`join`]: which rows
//! of one side are like this row of the other? [`order`]: which row comes first? All see [floats](float) alike, number
//! [byte strings](strings) in one way and have one [hash].

pub(crate) mod bounds;
pub(crate) mod float;
pub(crate) mod group;
pub(crate) mod hash;
pub(crate) mod hash_index;
pub(crate) mod interner;
pub(crate) mod join;
pub(crate) mod key_filter;
pub(crate) mod order;
pub(crate) mod strings;
