//! Values on the wire: which of PostgreSQL's types a column has, and how its values are written and read.
//!
//! # Limits
//! A time is written as text with all the digits that it has, also those behind the microseconds that PostgreSQL stops
//! at; as binary it is cut to microseconds, which is all that the format holds. Maps and unions, which PostgreSQL does
//! not have, are told as texts.

pub mod binary;
pub mod column;
pub mod lists;
pub mod numeric;
pub mod read;
pub mod text;
pub mod times;
pub mod unwritable;
