//! CSV and TSV after RFC 4180: records, types, columns, and pieces that can be read in parallel.
//!
//! Why not arrow-csv: it counts records rather than lines, cannot tell an empty field from a quoted empty text, drops
//! blank lines of one-column files, and names neither file nor column nor value in every error.
//!
//! Rules: a field that begins with a quote ends at the matching one, doubled quotes inside stand for one; elsewhere a
//! quote is an ordinary character. Records end in LF or CRLF; a blank line is skipped, except in a one-column file,
//! where it is a record. An empty field without quotes is NULL.
//!
//! # Limits
//! Types are inferred from the first 32 MiB of each file (less of each when there are many). Numbers with leading
//! zeros count as numbers; give such a column the type of text to keep the zeros.

mod columns;
mod infer;
mod read;
mod records;
mod split;
mod write;

use super::format::FileFormat;
use super::options::ReadOptions;

pub(crate) use infer::{CsvShape, infer};
pub(crate) use read::{CsvPlan, read};
pub(crate) use split::split;
pub(crate) use write::CsvEncoder;

/// The characters that structure a file.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    pub delimiter: u8,
    /// `None`: quotes have no meaning.
    pub quote: Option<u8>,
    pub header: bool,
    /// The unquoted text that means NULL.
    pub null: String,
}

impl Dialect {
    pub(crate) fn new(format: FileFormat, options: &ReadOptions) -> Dialect {
        Dialect {
            delimiter: options.delimiter.unwrap_or(format.delimiter()),
            quote: Some(options.quote.unwrap_or(b'"')).filter(|q| *q != 0),
            header: options.header.unwrap_or(true),
            null: options.null.clone().unwrap_or_default(),
        }
    }
}
