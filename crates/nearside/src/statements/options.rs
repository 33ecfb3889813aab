//! Options of statements that read or write files, `(key value, ..)`.

use files::{Compression, FileFormat, ReadOptions, WriteOptions};

use crate::error::names::nearest;
use crate::error::{Error, Result};

// Keys that say the same, the one of messages first.
const FORMAT: &[&str] = &["format"];
const COMPRESSION: &[&str] = &["compression"];
const HEADER: &[&str] = &["header", "has_header"];
const DELIMITER: &[&str] = &["delimiter", "delim", "sep"];
const QUOTE: &[&str] = &["quote"];
const NULL: &[&str] = &["null", "nullstr"];
const ROW_GROUP: &[&str] = &["row_group_size", "row_group_rows"];

/// What a statement's options say.
struct Options<'a> {
    pairs: &'a [(String, String)],
}

impl Options<'_> {
    /// The last that one of these keys was given.
    fn get(&self, keys: &[&str]) -> Option<&str> {
        self.pairs.iter().rev().find(|(k, _)| keys.contains(&k.as_str())).map(|(_, v)| v.as_str())
    }

    /// Which kind of file.
    fn format(&self) -> Result<Option<FileFormat>> {
        self.get(FORMAT).map(|f| f.parse::<FileFormat>().map_err(Error::from)).transpose()
    }

    /// How the file is compressed.
    fn compression(&self) -> Result<Option<Compression>> {
        self.get(COMPRESSION).map(|c| c.parse::<Compression>().map_err(Error::from)).transpose()
    }

    /// A switch.
    fn bool(&self, keys: &[&str]) -> Result<Option<bool>> {
        match self.get(keys).map(str::to_lowercase).as_deref() {
            None => Ok(None),
            Some("true" | "on" | "1" | "yes") => Ok(Some(true)),
            Some("false" | "off" | "0" | "no") => Ok(Some(false)),
            Some(other) => Err(Error::Setting(format!("option {}: '{other}' is neither true nor false", keys[0]))),
        }
    }

    /// One ASCII character.
    fn byte(&self, keys: &[&str]) -> Result<Option<u8>> {
        match self.get(keys) {
            None => Ok(None),
            Some("\\t") => Ok(Some(b'\t')),
            Some(text) if text.len() == 1 => Ok(text.bytes().next()),
            Some(text) => Err(Error::Setting(format!("option {}: '{text}' is not one ASCII character", keys[0]))),
        }
    }

    /// Refuses keys that are none of these.
    fn only(&self, known: &[&[&str]]) -> Result<()> {
        let known = known.concat();
        match self.pairs.iter().find(|(k, _)| !known.contains(&k.as_str())) {
            None => Ok(()),
            Some((key, _)) => {
                Err(Error::NotFound { kind: "option", name: key.clone(), nearest: nearest(key, known.into_iter()) })
            }
        }
    }
}

/// How to read files, from a statement's options.
pub(crate) fn read_options(pairs: &[(String, String)]) -> Result<ReadOptions> {
    let options = Options { pairs };
    options.only(&[FORMAT, COMPRESSION, HEADER, DELIMITER, QUOTE, NULL])?;
    Ok(ReadOptions {
        format: options.format()?,
        compression: options.compression()?,
        delimiter: options.byte(DELIMITER)?,
        quote: options.byte(QUOTE)?,
        header: options.bool(HEADER)?,
        null: options.get(NULL).map(str::to_string),
        ..ReadOptions::default()
    })
}

/// How a file is written; the format is its name's where nothing is said.
pub(super) struct Destination {
    pub format: Option<FileFormat>,
    pub compression: Option<Compression>,
    pub options: WriteOptions,
}

/// How to write a file, from a statement's options.
///
/// # Errors
/// Keys that there are not, and values that do not fit.
pub(super) fn write_options(pairs: &[(String, String)]) -> Result<Destination> {
    let options = Options { pairs };
    options.only(&[FORMAT, COMPRESSION, HEADER, DELIMITER, NULL, ROW_GROUP])?;
    let mut write = WriteOptions { delimiter: options.byte(DELIMITER)?, ..WriteOptions::default() };
    if let Some(header) = options.bool(HEADER)? {
        write.header = header;
    }
    if let Some(null) = options.get(NULL) {
        write.null = null.to_string();
    }
    if let Some(rows) = options.get(ROW_GROUP) {
        let number = rows.parse().ok().filter(|&n| n > 0);
        write.row_group_rows = number
            .ok_or_else(|| Error::Setting(format!("option {}: '{rows}' is not a number of rows", ROW_GROUP[0])))?;
    }
    Ok(Destination { format: options.format()?, compression: options.compression()?, options: write })
}
