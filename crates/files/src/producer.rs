//! A piece of a [`FileSet`](super::FileSet): an iterator of batches that any thread can run.
//!
//! Invariant: a producer opens its file when it is first asked, never panics, and ends after its first error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::error::{FileError, FileErrorKind, shorten};

/// Told how many bytes of the files were consumed since it was last called; called from the threads that read.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// What opens a piece: run on the first `next`.
type Opener = Box<dyn FnOnce() -> Result<Batches, FileError> + Send>;
/// The batches of a piece.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, FileError>> + Send>;

enum ProducerState {
    Waiting(Opener),
    Open(Batches),
    Done,
}

/// One piece of the files' rows, read lazily.
pub struct Producer {
    file: PathBuf,
    bytes: u64,
    state: ProducerState,
}

impl Producer {
    pub(crate) fn new(
        file: &Path,
        bytes: u64,
        open: impl FnOnce() -> Result<Batches, FileError> + Send + 'static,
    ) -> Producer {
        Producer { file: file.to_path_buf(), bytes, state: ProducerState::Waiting(Box::new(open)) }
    }

    /// The file it reads.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// How many bytes of the file it reads, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn advance(&mut self) -> Option<Result<RecordBatch, FileError>> {
        if let ProducerState::Waiting(_) = self.state {
            let ProducerState::Waiting(open) = std::mem::replace(&mut self.state, ProducerState::Done) else {
                return None;
            };
            match open() {
                Ok(batches) => self.state = ProducerState::Open(batches),
                Err(e) => return Some(Err(e)),
            }
        }
        match &mut self.state {
            ProducerState::Open(batches) => batches.next(),
            _ => None,
        }
    }
}

impl Iterator for Producer {
    type Item = Result<RecordBatch, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let file = self.file.clone();
        let next = guarded(&file, || Ok(self.advance())).unwrap_or_else(|e| Some(Err(e)));
        if !matches!(next, Some(Ok(_))) {
            self.state = ProducerState::Done;
        }
        next
    }
}

impl std::iter::FusedIterator for Producer {}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("file", &self.file).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Runs a decoder of other people's on bytes that may be hostile: a panic in it becomes an error about `file`.
/// What the decoder had half done is dropped with the error, so no broken state is seen afterwards.
pub(crate) fn guarded<T>(file: &Path, work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    caught(work).unwrap_or_else(|text| {
        let message = format!("cannot be decoded, it seems to be damaged: {text}");
        Err(FileError::new(FileErrorKind::Corrupt, message).at(file))
    })
}

/// Runs code of other people's that may panic; `Err` is the panic's text.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("it gave up without a reason");
        shorten(text, 300)
    })
}
