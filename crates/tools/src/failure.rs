//! Why a command ended badly: one sentence for standard error, or a reader that went away.
//!
//! Invariant: every failure that reaches `main` is one of these two; a broken pipe is never an error, because
//! `nearside sql ... | head` is ordinary use.

use std::fmt;
use std::io;

use arrow::error::ArrowError;

/// What stops a command.
#[derive(Debug)]
pub enum Failure {
    /// One sentence that says what went wrong and, where it helps, what to do.
    Message(String),
    /// Whoever reads our output closed it.
    BrokenPipe,
}

impl Failure {
    /// A failure that says `message`.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure::Message(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Message(message) => f.write_str(message),
            Failure::BrokenPipe => f.write_str("the reader of the output went away"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::Message(format!("cannot write the output: {error}")),
        }
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Failure {
        match error {
            ArrowError::IoError(_, error) => Failure::from(error),
            other => Failure::Message(other.to_string()),
        }
    }
}

impl From<nearside::Error> for Failure {
    fn from(error: nearside::Error) -> Failure {
        Failure::Message(error.to_string())
    }
}
