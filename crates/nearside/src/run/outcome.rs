//! What came of a statement: [`Outcome`].

pub use crate::run::done::Done;
use crate::run::stream::ResultStream;

/// What came of a statement.
#[derive(Debug)]
pub enum Outcome {
    /// Rows, as they come; those of RETURNING when they were [written](ResultStream::written).
    Rows(ResultStream),
    /// Something was done.
    Done(Done),
}

impl Outcome {
    /// Whether the statement was no query.
    pub(crate) fn has_written(&self) -> bool {
        match self {
            Outcome::Rows(rows) => rows.written().is_some(),
            Outcome::Done(_) => true,
        }
    }
}
