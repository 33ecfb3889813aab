//! Functions of ours, scalar ones and aggregates, in the meaning of PostgreSQL.

pub(crate) mod any_of_list;
pub(crate) mod asked;
pub(crate) mod bytes;
pub(crate) mod checked;
pub(crate) mod days;
pub(crate) mod domains;
pub(crate) mod flat;
pub(crate) mod floats;
pub(crate) mod letters;
pub(crate) mod named_aggregates;
pub(crate) mod ordered_sets;
pub(crate) mod parts;
pub(crate) mod patterns;
pub(crate) mod quoting;
pub(crate) mod reading;
mod regular;
pub(crate) mod round;
pub(crate) mod sequences;
pub(crate) mod series;
pub(crate) mod session;
pub(crate) mod spans;
pub(crate) mod spelled;
pub(crate) mod texts;
pub(crate) mod zones;
