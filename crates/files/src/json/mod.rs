//! JSON lines: one object per line, nested values allowed, blank lines skipped.
//!
//! The schema is inferred over the whole file, since a member may appear for the first time anywhere; arrow-json then
//! decodes line by line, so that an error knows its line.
//!
//! # Limits
//! Dates stay text unless a type is given. A member that is an object in one line and not in another has no type and is
//! refused. Members of nested objects are not renamed when they repeat: the last one counts.

mod infer;
mod read;

pub(crate) use infer::{Guess, infer};
pub(crate) use read::{check_types, read};
