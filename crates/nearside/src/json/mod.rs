//! JSON's texts: what is checked, in which form values of `JSONB` are kept, and how they compare. It knows no SQL.
//!
//! A value of `JSON` is the text as it was written. One of `JSONB` is PostgreSQL's text of it: keys by length and then
//! by bytes, the last of equal keys, one blank behind `:` and `,`, numbers exact and with the digits that were written.
//!
//! # Limits
//! What nests deeper than [`DEPTH_MAX`] is refused.

pub(crate) mod change;
mod exact;
pub(crate) mod number;
pub(crate) mod path;
pub(crate) mod scan;
pub(crate) mod value;

use crate::error::Error;
use crate::error::codes::SqlState;

/// How deep arrays and objects may nest.
pub(crate) const DEPTH_MAX: usize = 128;

/// A value as `JSONB` keeps it.
///
/// # Errors
/// A text that is no JSON, or of which `JSONB` has no value.
pub(crate) fn normal(text: &str) -> Result<String, Error> {
    let mut normal = String::with_capacity(text.len() + text.len() / 8);
    value::Value::read(text)?.write(&mut normal);
    Ok(normal)
}

/// A fault in a call of one of the functions.
pub(crate) fn fault(state: SqlState, message: impl Into<String>) -> Error {
    Error::execution(state, message.into())
}

/// A text that is not JSON.
fn malformed(text: &str, at: usize, what: &str) -> Error {
    const CHARS_MAX: usize = 40;
    let shown: String = text.chars().take(CHARS_MAX).collect();
    let dots = if shown.len() < text.len() { ".." } else { "" };
    let place = text.get(..at).map_or(0, |before| before.chars().count()) + 1;
    fault(
        SqlState::InvalidTextRepresentation,
        format!("the text '{shown}{dots}' is not of type json: {what} at character {place}"),
    )
}

fn too_deep() -> Error {
    fault(SqlState::StatementTooComplex, format!("JSON that nests deeper than {DEPTH_MAX} is not supported"))
}

#[cfg(test)]
mod tests;
