//! What a caller may say about files to read or write; everything has a default that suits most files.

use arrow::datatypes::DataType;

use crate::error::{FileError, FileErrorKind};
use crate::format::{Compression, FileFormat};

/// Rows per batch where nothing else is said.
const BATCH_ROWS_DEFAULT: usize = 32 * 1024;
const BATCH_ROWS_MAX: usize = 1 << 20;

/// How to read files.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The format; by default told from the name, then from the first bytes.
    pub format: Option<FileFormat>,
    /// The compression of a text file; by default told from the first bytes.
    pub compression: Option<Compression>,
    /// CSV: the field separator; by default a comma, for TSV a tab.
    pub delimiter: Option<u8>,
    /// CSV: the quote character, by default `"`; 0 means that quotes have no meaning.
    pub quote: Option<u8>,
    /// CSV: whether the first record names the columns (the default). Without, they are `column_1`, `column_2`, ...
    pub header: Option<bool>,
    /// CSV: the unquoted text that means NULL, by default the empty one. In columns that are not text an empty field is
    /// NULL in any case.
    pub null: Option<String>,
    /// CSV and JSON lines: types of columns by name, instead of inferred ones.
    pub types: Vec<(String, DataType)>,
    /// The columns to read, in this order; by default all.
    pub columns: Option<Vec<String>>,
    /// Rows per batch, at most.
    pub batch_rows: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            format: None,
            compression: None,
            delimiter: None,
            quote: None,
            header: None,
            null: None,
            types: Vec::new(),
            columns: None,
            batch_rows: BATCH_ROWS_DEFAULT,
        }
    }
}

impl ReadOptions {
    pub(crate) fn batch_rows(&self) -> usize {
        self.batch_rows.clamp(1, BATCH_ROWS_MAX)
    }

    /// Refuses what cannot apply to `format`, so that a slip is not ignored in silence.
    pub(crate) fn check(&self, format: FileFormat) -> Result<(), FileError> {
        let refuse = |what: &str| {
            let message = format!("the option {what} has no meaning for {format} files; leave it out");
            Err(FileError::new(FileErrorKind::Options, message))
        };
        if !format.is_delimited() {
            for (given, what) in [
                (self.delimiter.is_some(), "delimiter"),
                (self.quote.is_some(), "quote"),
                (self.header.is_some(), "header"),
                (self.null.is_some(), "null"),
            ] {
                if given {
                    return refuse(what);
                }
            }
        }
        if !format.is_text() && !self.types.is_empty() {
            return refuse("types");
        }
        if let Some(compression) = self.compression {
            if !format.is_text() {
                return refuse("compression");
            }
            if !matches!(compression, Compression::None | Compression::Gzip | Compression::Zstd) {
                let message = format!("{format} files are compressed with gzip or zstd, not {compression}");
                return Err(FileError::new(FileErrorKind::Options, message));
            }
        }
        if self.columns.as_ref().is_some_and(Vec::is_empty) {
            let message = "the list of columns to read is empty";
            return Err(FileError::new(FileErrorKind::Options, message));
        }
        match format.is_delimited() {
            true => check_delimiter(self.delimiter.unwrap_or(format.delimiter()), self.quote),
            false => Ok(()),
        }
    }
}

fn check_delimiter(delimiter: u8, quote: Option<u8>) -> Result<(), FileError> {
    let quote = quote.unwrap_or(b'"');
    for (byte, what) in [(delimiter, "delimiter"), (quote, "quote character")] {
        let off = what != "delimiter" && byte == 0;
        if !off && (!byte.is_ascii() || matches!(byte, b'\n' | b'\r' | 0)) {
            let message =
                format!("the {what} must be one ASCII character other than a line end, not {:?}", byte as char);
            return Err(FileError::new(FileErrorKind::Options, message));
        }
    }
    if delimiter == quote {
        return Err(FileError::new(FileErrorKind::Options, "delimiter and quote character must differ"));
    }
    Ok(())
}

/// How to write a file.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// CSV: whether to write a first line of column names.
    pub header: bool,
    /// CSV: the field separator; by default a comma, for TSV a tab.
    pub delimiter: Option<u8>,
    /// CSV: the text of NULL; text values that equal it are quoted.
    pub null: String,
    /// Parquet: rows per row group, at most.
    pub row_group_rows: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions { header: true, delimiter: None, null: String::new(), row_group_rows: 256 * 1024 }
    }
}

impl WriteOptions {
    pub(crate) fn check(&self, format: FileFormat) -> Result<(), FileError> {
        if self.row_group_rows == 0 {
            return Err(FileError::new(FileErrorKind::Options, "a row group must hold at least one row"));
        }
        if self.null.contains(['"', '\n', '\r']) {
            let message = "the text of NULL must hold no quote and no line end";
            return Err(FileError::new(FileErrorKind::Options, message));
        }
        let delimiter = self.delimiter.unwrap_or(format.delimiter());
        if format.is_delimited() && self.null.as_bytes().contains(&delimiter) {
            let message = "the text of NULL must not hold the delimiter";
            return Err(FileError::new(FileErrorKind::Options, message));
        }
        check_delimiter(delimiter, None)
    }
}
