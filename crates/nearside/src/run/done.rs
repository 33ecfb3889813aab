//! What a statement did where there are no rows of a query: [`Done`].

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
