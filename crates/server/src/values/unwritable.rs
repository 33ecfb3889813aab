//! [`Unwritable`]: a value that the wire has no form for.

use arrow::error::ArrowError;

use crate::fault::{Fault, codes};

/// A value that has no form on the wire; says why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritable(pub String);

impl From<ArrowError> for Unwritable {
    fn from(error: ArrowError) -> Unwritable {
        Unwritable(error.to_string())
    }
}

impl From<Unwritable> for Fault {
    fn from(wrong: Unwritable) -> Fault {
        Fault::new(codes::FEATURE_NOT_SUPPORTED, wrong.0)
    }
}
