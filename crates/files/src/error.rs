//! The error of everything in [`crate`]: one sentence that says where and what, and what to do about it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use parquet::errors::ParquetError;

/// Longest piece of a value that an error repeats, in characters.
const VALUE_CHARS_MAX: usize = 60;

/// What went wrong, for callers that decide by it; people read the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// No such file, or a pattern or folder that holds none.
    NotFound,
    /// The file is there and the system will not let us read it.
    Unreadable,
    /// The options contradict each other or the file.
    Options,
    /// The format cannot be told, or is not the one that was asked for.
    Format,
    /// Columns that are missing, doubled, or differ between files.
    Schema,
    /// Bytes that are not what the format says: truncated or damaged files, invalid UTF-8.
    Corrupt,
    /// A record of the wrong shape: number of fields, quotes.
    Record,
    /// A value that is not of its column's type.
    Value,
    /// Writing failed.
    Write,
}

/// A failure to read or write a file. `Display` is one sentence with file, line and column where they are known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct FileError {
    /// What class of failure it is.
    pub kind: FileErrorKind,
    /// The file, as the caller would write it.
    pub file: Option<PathBuf>,
    /// Line in the (decompressed) file, from 1.
    pub line: Option<u64>,
    /// The column's name.
    pub column: Option<String>,
    /// The value as it stands in the file.
    pub value: Option<String>,
    /// What is wrong and what to do, without the place.
    pub message: String,
}

impl FileError {
    pub(crate) fn new(kind: FileErrorKind, message: impl Into<String>) -> FileError {
        FileError { kind, file: None, line: None, column: None, value: None, message: message.into() }
    }

    pub(crate) fn at(mut self, file: &Path) -> FileError {
        self.file.get_or_insert_with(|| file.to_path_buf());
        self
    }

    pub(crate) fn line(mut self, line: u64) -> FileError {
        self.line = Some(line);
        self
    }

    pub(crate) fn column(mut self, column: &str) -> FileError {
        self.column = Some(column.to_string());
        self
    }

    pub(crate) fn value(mut self, value: &str) -> FileError {
        self.value = Some(value.to_string());
        self
    }

    /// An operating system error while reading `file`.
    pub(crate) fn reading(file: &Path, error: &std::io::Error) -> FileError {
        use std::io::ErrorKind as K;
        let (kind, message) = match error.kind() {
            K::NotFound => (FileErrorKind::NotFound, "there is no such file or folder".to_string()),
            K::PermissionDenied => {
                (FileErrorKind::Unreadable, "may not be read by this user: permission denied".to_string())
            }
            K::UnexpectedEof => (FileErrorKind::Corrupt, format!("ends too early, it seems to be truncated ({error})")),
            K::InvalidData | K::InvalidInput => (FileErrorKind::Corrupt, format!("is damaged: {error}")),
            _ => (FileErrorKind::Unreadable, format!("cannot be read: {error}")),
        };
        FileError::new(kind, message).at(file)
    }

    /// An operating system error while writing `file`.
    pub(crate) fn writing(file: &Path, error: &std::io::Error) -> FileError {
        FileError::new(FileErrorKind::Write, format!("cannot be written: {error}")).at(file)
    }

    /// A decoder's complaint about the bytes of `file`.
    pub(crate) fn corrupt(file: &Path, format: &str, error: impl std::fmt::Display) -> FileError {
        let error = shorten(&error.to_string(), 300);
        let message = format!("cannot be read as {format}, it seems to be truncated or damaged: {error}");
        FileError::new(FileErrorKind::Corrupt, message).at(file)
    }

    fn sentence(&self) -> String {
        let mut text = String::new();
        if let Some(file) = &self.file {
            let _ = write!(text, "{}", file.display());
        }
        if let Some(line) = self.line {
            let _ = write!(text, "{}line {line}", if text.is_empty() { "" } else { ", " });
        }
        if let Some(column) = &self.column {
            let _ = write!(text, "{}column {column:?}", if text.is_empty() { "" } else { ", " });
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&self.message);
        text
    }
}

/// The text of an Arrow error without the name of its variant.
pub(crate) fn arrow_text(error: &ArrowError) -> String {
    match error {
        ArrowError::CastError(text)
        | ArrowError::ParseError(text)
        | ArrowError::SchemaError(text)
        | ArrowError::ComputeError(text)
        | ArrowError::CsvError(text)
        | ArrowError::JsonError(text)
        | ArrowError::IpcError(text)
        | ArrowError::ParquetError(text)
        | ArrowError::NotYetImplemented(text)
        | ArrowError::InvalidArgumentError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The text of a Parquet error without the name of its variant.
pub(crate) fn parquet_text(error: &ParquetError) -> String {
    match error {
        ParquetError::General(text)
        | ParquetError::NYI(text)
        | ParquetError::EOF(text)
        | ParquetError::ArrowError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `value` in quotes, cut to a length that fits a sentence.
pub(crate) fn quoted(value: &str) -> String {
    format!("{:?}", shorten(value, VALUE_CHARS_MAX))
}

pub(crate) fn shorten(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_string(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Names as a list for a sentence: the first few and how many more.
pub(crate) fn list_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let count = names.len();
    let mut text = names.take(SHOWN).collect::<Vec<_>>().join(", ");
    if count > SHOWN {
        let _ = write!(text, " and {} more", count - SHOWN);
    }
    text
}
