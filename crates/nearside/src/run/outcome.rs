//! What came of a statement: [`Outcome`], and [`Done`] where there are no rows.

use crate::run::stream::ResultStream;

/// What a statement that returns no rows did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The words, e.g. `CREATE TABLE`.
    pub tag: String,
    /// How many rows it wrote or took away, where it did.
    pub rows: Option<u64>,
}

impl Done {
    pub(crate) fn new(tag: &str) -> Done {
        Done { tag: tag.into(), rows: None }
    }

    pub(crate) fn rows(tag: &str, rows: u64) -> Done {
        Done { tag: tag.into(), rows: Some(rows) }
    }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rows {
            Some(rows) => write!(f, "{} {rows}", self.tag),
            None => f.write_str(&self.tag),
        }
    }
}

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
