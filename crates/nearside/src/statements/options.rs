//! Options of statements that read or write files, `(key value, ..)`.

use files::{Compression, FileFormat, ReadOptions};

use crate::error::names::nearest;
use crate::error::{Error, Result};

/// What a statement's options say.
pub(super) struct Options<'a> {
    pub(super) pairs: &'a [(String, String)],
}

impl Options<'_> {
    /// The last that one of these keys was given.
    pub(super) fn get(&self, keys: &[&str]) -> Option<&str> {
        self.pairs.iter().rev().find(|(k, _)| keys.contains(&k.as_str())).map(|(_, v)| v.as_str())
    }

    /// Which kind of file.
    pub(super) fn format(&self) -> Result<Option<FileFormat>> {
        self.get(&["format"]).map(|f| f.parse::<FileFormat>().map_err(Error::from)).transpose()
    }

    /// How the file is compressed.
    pub(super) fn compression(&self) -> Result<Option<Compression>> {
        self.get(&["compression"]).map(|c| c.parse::<Compression>().map_err(Error::from)).transpose()
    }

    /// A switch, as `key` or `has_key`.
    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.get(&[key, &format!("has_{key}")]).map(str::to_lowercase).as_deref() {
            None => Ok(None),
            Some("true" | "on" | "1" | "yes") => Ok(Some(true)),
            Some("false" | "off" | "0" | "no") => Ok(Some(false)),
            Some(other) => Err(Error::Setting(format!("option {key}: '{other}' is neither true nor false"))),
        }
    }

    /// One ASCII character.
    pub(super) fn byte(&self, keys: &[&str]) -> Result<Option<u8>> {
        match self.get(keys) {
            None => Ok(None),
            Some("\\t") => Ok(Some(b'\t')),
            Some(text) if text.len() == 1 => Ok(text.bytes().next()),
            Some(text) => Err(Error::Setting(format!("option {}: '{text}' is not one ASCII character", keys[0]))),
        }
    }

    /// Refuses keys that are none of these.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        match self.pairs.iter().find(|(k, _)| !known.contains(&k.as_str())) {
            None => Ok(()),
            Some((key, _)) => {
                Err(Error::NotFound { kind: "option", name: key.clone(), nearest: nearest(key, known.iter().copied()) })
            }
        }
    }
}

/// How to read files, from a statement's options.
pub(crate) fn read_options(pairs: &[(String, String)]) -> Result<ReadOptions> {
    let options = Options { pairs };
    options.only(&[
        "format",
        "compression",
        "header",
        "has_header",
        "delimiter",
        "delim",
        "sep",
        "quote",
        "null",
        "nullstr",
    ])?;
    Ok(ReadOptions {
        format: options.format()?,
        compression: options.compression()?,
        delimiter: options.byte(&["delimiter", "delim", "sep"])?,
        quote: options.byte(&["quote"])?,
        header: options.bool("header")?,
        null: options.get(&["null", "nullstr"]).map(str::to_string),
        ..ReadOptions::default()
    })
}
