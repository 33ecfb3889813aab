//! What a rule finds that a record may let stay: see `record`.

/// One thing that a rule with a record has found.
#[derive(Debug, PartialEq, Eq)]
pub struct Exception {
    /// The rule, in one word.
    pub rule: &'static str,
    /// The file or folder.
    pub path: String,
    /// Counted from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// What it is about, without blanks.
    pub what: String,
    /// How often.
    pub count: usize,
    /// The sentence for a person.
    pub message: String,
}
